"""Sequences of objects over displays as batches: any number of boxes, padded with a mask.

A display is a `Stimulus` with ``objects``: one row per object with ``object`` (id), ``xmin``,
``ymin``, ``xmax``, ``ymax`` in pixels, and where one of them is searched for ``is_target``. Its
features may hold ``appearance`` (n_objects, ...), the look of each object (an embedding or a
crop), and ``target`` (...), the look of what is searched for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from gazeattn.datamodules.scanpaths import BatchSampler, Positions, Stimulus
from gazeattn.datasets import GazeDataset
from gazeattn.datasets.splits import Split
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

BOX = ("xmin", "ymin", "xmax", "ymax")


def boxes_of(stimulus: Stimulus) -> NDArray[np.float64]:
    """Return the boxes of a display, (n_objects, 4): xmin, ymin, xmax, ymax in pixels.

    Raises
    ------
    DataError
        No objects, a missing column, a box that is not finite or has no area.
    """
    table = stimulus.objects
    if table is None or not len(table):
        raise DataError("the display has no objects", source=stimulus.name, expected="boxes")
    missing = [c for c in ("object", *BOX) if c not in table]
    if missing:
        raise DataError(
            "the table of objects lacks a column", source=stimulus.name,
            expected="object, " + ", ".join(BOX), found=", ".join(map(str, table.columns)),
        )  # fmt: skip
    boxes = table[list(BOX)].to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~np.isfinite(boxes).all(1) | (boxes[:, 2:] <= boxes[:, :2]).any(1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            "a box without an area", source=stimulus.name, row=row,
            expected="xmin < xmax and ymin < ymax", found=str(boxes[row].tolist()),
        )  # fmt: skip
    return boxes


def centres_of(stimulus: Stimulus) -> NDArray[np.float64]:
    """Return the centres of the objects in pixels, (n_objects, 2)."""
    boxes = boxes_of(stimulus)
    return (boxes[:, :2] + boxes[:, 2:]) / 2


def unit_of(stimulus: Stimulus) -> NDArray[np.float64]:
    """Return the unit of distance on a display: median width and height of its objects, (2,)."""
    boxes = boxes_of(stimulus)
    return np.median(boxes[:, 2:] - boxes[:, :2], axis=0)


def target_of(stimulus: Stimulus) -> int | None:
    """Return the row of the object that is searched for; None where the display has none.

    Raises
    ------
    DataError
        More than one object is marked.
    """
    table = stimulus.objects
    if table is None or "is_target" not in table:
        return None
    rows = np.flatnonzero(table["is_target"].to_numpy(dtype=bool, na_value=False))
    if len(rows) > 1:
        raise DataError(
            "a display has one target at most", source=stimulus.name, found=f"{len(rows)} targets"
        )
    return int(rows[0]) if len(rows) else None


def objects_at(xy: ArrayLike, boxes: ArrayLike) -> NDArray[np.int64]:
    """Return the object of each position: the nearest centre among the boxes that hold it.

    Positions in no box go to the nearest centre of all. The order of the boxes does not matter
    where boxes overlap, unless two centres are at exactly the same distance.

    Parameters
    ----------
    xy : array-like, shape (n, 2)
    boxes : array-like, shape (n_objects, 4)
        xmin, ymin, xmax, ymax; borders belong to the box.
    """
    at = np.asarray(xy, dtype=np.float64).reshape(-1, 2)[:, None]
    box = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    inside: NDArray[np.bool_] = np.all((at >= box[:, :2]) & (at <= box[:, 2:]), axis=-1)
    far = np.hypot(*np.moveaxis(at - (box[:, :2] + box[:, 2:]) / 2, -1, 0))
    far = np.where(inside | ~np.any(inside, axis=1, keepdims=True), far, np.inf)
    return far.argmin(1).astype(np.int64)


@dataclass(frozen=True)
class ObjectScanpaths:
    """Sequences of objects, one after the other.

    Attributes
    ----------
    looked : ndarray, shape (n_fixations,), int64
        Row of the object in ``stimulus.objects``.
    starts : ndarray, shape (n + 1,), int64
        Sequence i is ``looked[starts[i]:starts[i + 1]]``.
    finished : ndarray of bool, shape (n,)
        Whether the sequence ended by itself. Where it was cut off, no end is learned.
    origin : ndarray, shape (n, 2), float64
        Where the gaze was before the first fixation, as shares of the display.
    trial, participant, stimulus : ndarray, shape (n,), object
    stimuli : dict of str to Stimulus
    """

    looked: NDArray[np.int64]
    starts: NDArray[np.int64]
    finished: NDArray[np.bool_]
    origin: NDArray[np.float64]
    trial: NDArray[np.object_]
    participant: NDArray[np.object_]
    stimulus: NDArray[np.object_]
    stimuli: dict[str, Stimulus]

    def __len__(self) -> int:
        return len(self.trial)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Fixations of each sequence, (n,)."""
        return np.diff(self.starts)

    def sequence(self, i: int) -> NDArray[np.int64]:
        """Return sequence i."""
        return self.looked[int(self.starts[i]) : int(self.starts[i + 1])]

    def sequences(self) -> list[NDArray[np.int64]]:
        """Return all sequences."""
        return [self.sequence(i) for i in range(len(self))]

    def take(self, which: NDArray[Any] | Sequence[int]) -> ObjectScanpaths:
        """Return the sequences at some positions (or of a mask), in that order."""
        which = np.asarray(which)
        at = np.flatnonzero(which) if which.dtype == bool else which.astype(np.int64)
        found = [self.sequence(int(i)) for i in at]
        lengths = self.lengths[at]
        names = dict.fromkeys(self.stimulus[at].tolist())
        return ObjectScanpaths(
            np.concatenate([np.zeros(0, dtype=np.int64), *found]),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            self.finished[at],
            self.origin[at],
            self.trial[at],
            self.participant[at],
            self.stimulus[at],
            {n: self.stimuli[n] for n in names},
        )

    def part(self, split: Split, part: str) -> ObjectScanpaths:
        """Return the sequences of one part of a split (``"train"``, ``"val"``, ``"test"``)."""
        known = set(split.trials(part))
        return self.take(np.array([t in known for t in self.trial], dtype=bool))

    def with_features(self, features: Mapping[str, Mapping[str, Tensor]]) -> ObjectScanpaths:
        """Return the same sequences with the features of each display (by its name)."""
        made = {k: replace(s, features=features[k]) for k, s in self.stimuli.items()}
        return replace(self, stimuli=made)


def object_scanpaths(
    sequences: Sequence[ArrayLike],
    stimulus: Sequence[str],
    stimuli: Mapping[str, Stimulus],
    *,
    trial: Sequence[str] | None = None,
    participant: Sequence[str] | None = None,
    finished: bool | Sequence[bool] = True,
    origin: ArrayLike = (0.5, 0.5),
) -> ObjectScanpaths:
    """Return sequences of rows of objects, checked against their displays.

    Raises
    ------
    DataError
        An empty sequence, or a row that its display does not have.
    """
    rows = [np.asarray(s, dtype=np.int64).reshape(-1) for s in sequences]
    counts = {k: len(boxes_of(s)) for k, s in stimuli.items()}
    for i, (row, name) in enumerate(zip(rows, stimulus, strict=True)):
        if not len(row) or row.min() < 0 or row.max() >= counts[name]:
            raise DataError(
                "a sequence that does not fit its display", source=name, row=i,
                expected=f"one object or more, 0 to {counts[name] - 1}",
                found=str(row[:10].tolist()),
            )  # fmt: skip
    n = len(rows)
    ids = [str(i) for i in range(n)]
    return ObjectScanpaths(
        np.concatenate([np.zeros(0, dtype=np.int64), *rows]),
        np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64),
        np.broadcast_to(np.asarray(finished, dtype=bool), (n,)).copy(),
        np.broadcast_to(np.asarray(origin, dtype=np.float64), (n, 2)).copy(),
        np.array(ids if trial is None else list(trial), dtype=object),
        np.array(ids if participant is None else list(participant), dtype=object),
        np.array(list(stimulus), dtype=object),
        {k: stimuli[k] for k in dict.fromkeys(stimulus)},
    )


def objects_of(
    dataset: GazeDataset, *, display: str = "layout", lost: LossLog | None = None
) -> ObjectScanpaths:
    """Return the sequences of objects of a data set whose words (objects) have boxes.

    Parameters
    ----------
    dataset
        Its ``words`` have boxes per layout, its fixations the ``word`` they belong to.
    display
        Column of the trials and of the words that names a display.
    lost
        Receives counts: fixations on no object and trials without any are left out.
    """
    lost = LossLog() if lost is None else lost
    trials = dataset.trials.set_index("trial")
    stimuli: dict[str, Stimulus] = {}
    number: dict[str, dict[str, int]] = {}
    first = dataset.trials.drop_duplicates(display).set_index(display)
    for name, words in dataset.words.groupby(display, sort=False):
        name = str(name)
        if name not in first.index:
            continue
        facts = dataset.stimuli.get(str(first.loc[name, "stimulus"]), {})
        if "size" not in facts:
            raise DataError(f"stimulus {name!r} has no size", source=dataset.name)
        sides = dict(zip(("left", "top", "right", "bottom"), BOX, strict=True))
        table = words.rename(columns={"word": "object", **sides}).reset_index(drop=True)
        known = [c for c in ("object", *BOX, "is_target", "text") if c in table]
        width, height = facts["size"]
        stimuli[name] = Stimulus(
            name, (float(width), float(height)), facts.get("image"), facts.get("target"),
            table[known],
        )  # fmt: skip
        number[name] = {str(w): i for i, w in enumerate(table["object"])}
    seen = dataset.fixations.dropna(subset=["word"])
    lost.add("objects", "dropped", "fixations on no object", len(dataset.fixations) - len(seen))
    shown = seen["trial"].map(trials[display]).astype(str)
    rows = [number[d][str(w)] for d, w in zip(shown, seen["word"], strict=True)]
    ids, at, counts = np.unique(
        seen["trial"].to_numpy(dtype=object), return_index=True, return_counts=True
    )
    order = np.argsort(at, kind="stable")
    ids, counts = ids[order], counts[order]
    lost.add(
        "objects", "dropped", "trials without a fixation on an object", len(trials) - len(ids),
        "trials",
    )  # fmt: skip
    bounds = np.cumsum(counts)[:-1]
    return object_scanpaths(
        np.split(np.array(rows, dtype=np.int64), bounds) if len(ids) else [],
        trials[display].loc[ids].astype(str).tolist(),
        stimuli,
        trial=[str(t) for t in ids],
        participant=trials["participant"].loc[ids].astype(str).tolist(),
    )


@dataclass
class ObjectBatch:
    """Some sequences, padded to the longest, and their displays, padded to the largest.

    Attributes
    ----------
    looked : Tensor of int64, shape (batch, length)
        Row of the object; 0 in padding.
    mask : Tensor of bool, shape (batch, length)
    finished : Tensor of bool, shape (batch,)
    origin : Tensor, shape (batch, 2)
        Where the gaze starts, in units of the display.
    which : Tensor of int64, shape (batch,)
        Display of each sequence.
    centres : Tensor, shape (n_displays, n_objects, 2)
        Centres from the middle of the display, in its unit (`unit_of`).
    present : Tensor of bool, shape (n_displays, n_objects)
        Where an object is: the rest is padding.
    is_target : Tensor of bool, shape (n_displays, n_objects)
    appearance : Tensor or None, shape (n_displays, n_objects, ...)
    target : Tensor or None, shape (n_displays, ...)
    stimuli : list of Stimulus
    trial, participant : list of str
    """

    looked: Tensor
    mask: Tensor
    finished: Tensor
    origin: Tensor
    which: Tensor
    centres: Tensor
    present: Tensor
    is_target: Tensor
    appearance: Tensor | None
    target: Tensor | None
    stimuli: list[Stimulus]
    trial: list[str]
    participant: list[str]

    def to(self, device: torch.device | str) -> ObjectBatch:
        """Return the batch on a device."""
        moved: dict[str, Any] = {
            k: v.to(device) for k, v in vars(self).items() if isinstance(v, Tensor)
        }
        return replace(self, **moved)


def collate_objects(
    paths: ObjectScanpaths, which: Sequence[int] | NDArray[Any] | None = None
) -> ObjectBatch:
    """Return sequences (all, or those at some positions) as one padded batch."""
    chosen = paths if which is None else paths.take(np.asarray(which, dtype=np.int64))
    names = list(chosen.stimuli)
    stimuli = [chosen.stimuli[n] for n in names]
    number = {n: i for i, n in enumerate(names)}
    lengths = chosen.lengths
    mask = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    looked = np.zeros(mask.shape, dtype=np.int64)
    looked[mask] = chosen.looked
    most = max(len(boxes_of(s)) for s in stimuli)
    centres = np.zeros((len(stimuli), most, 2), dtype=np.float32)
    present, is_target = (np.zeros((len(stimuli), most), dtype=bool) for _ in range(2))
    sizes, units = np.array([s.size for s in stimuli]), np.stack([unit_of(s) for s in stimuli])
    for i, s in enumerate(stimuli):
        at = centres_of(s)
        centres[i, : len(at)] = (at - sizes[i] / 2) / units[i]
        present[i, : len(at)] = True
        row = target_of(s)
        if row is not None:
            is_target[i, row] = True
    display = np.array([number[s] for s in chosen.stimulus], dtype=np.int64)
    origin = (chosen.origin - 0.5) * sizes[display] / units[display]
    return ObjectBatch(
        torch.from_numpy(looked),
        torch.from_numpy(mask),
        torch.from_numpy(chosen.finished.copy()),
        torch.from_numpy(origin.astype(np.float32)),
        torch.from_numpy(display),
        torch.from_numpy(centres),
        torch.from_numpy(present),
        torch.from_numpy(is_target),
        _stack([s.features.get("appearance") for s in stimuli], stimuli, most),
        _stack([s.features.get("target") for s in stimuli], stimuli, None),
        stimuli,
        chosen.trial.tolist(),
        chosen.participant.tolist(),
    )


def _stack(
    given: Sequence[Tensor | None], stimuli: Sequence[Stimulus], most: int | None
) -> Tensor | None:
    found = [g for g in given if g is not None]
    if not found:
        return None
    if len(found) < len(given):
        name = next(s.name for s, g in zip(stimuli, given, strict=True) if g is None)
        raise DataError("some displays have features and others none", source=name)
    if most is None:
        return torch.stack(found).float()
    out = torch.zeros(len(found), most, *found[0].shape[1:])
    for i, (f, s) in enumerate(zip(found, stimuli, strict=True)):
        if len(f) != len(boxes_of(s)):
            raise DataError(
                "appearance needs one row per object", source=s.name,
                expected=len(boxes_of(s)), found=len(f),
            )  # fmt: skip
        out[i, : len(f)] = f.float()
    return out


class ObjectDataModule(pl.LightningDataModule):
    """Batches of the training and validation parts; options as in `ScanpathDataModule`."""

    def __init__(
        self,
        train: ObjectScanpaths,
        valid: ObjectScanpaths,
        *,
        batch_size: int = 20,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.train, self.valid, self.batch_size, self.seed = train, valid, batch_size, seed

    def _loader(self, paths: ObjectScanpaths, seed: int | None, epoch: int = 0) -> DataLoader[int]:
        sampler = BatchSampler(paths, self.batch_size, seed=seed)  # type: ignore[arg-type]
        sampler.set_epoch(epoch)
        return DataLoader(
            Positions(len(paths)),
            batch_sampler=sampler,
            collate_fn=lambda rows: collate_objects(paths, rows),
        )

    def train_dataloader(self) -> DataLoader[int]:
        """Return the shuffled batches of the trainer's epoch.

        The trainer has to ask anew for every epoch: see `ScanpathDataModule.train_dataloader`.
        """
        epoch = 0 if self.trainer is None else self.trainer.current_epoch
        return self._loader(self.train, self.seed, epoch)

    def val_dataloader(self) -> DataLoader[int]:
        """Return the validation batches in fixed order."""
        return self._loader(self.valid, None)

    def transfer_batch_to_device(
        self, batch: ObjectBatch, device: torch.device, dataloader_idx: int
    ) -> ObjectBatch:
        """Move a batch to a device."""
        return batch.to(device)


def table_of_boxes(boxes: ArrayLike, target: int | None = None) -> pd.DataFrame:
    """Return boxes (n, 4) as the table of objects of a display, ids "0" to "n - 1"."""
    box = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    table = pd.DataFrame(box, columns=list(BOX))
    table.insert(0, "object", [str(i) for i in range(len(box))])
    if target is not None:
        table["is_target"] = np.arange(len(box)) == target
    return table
