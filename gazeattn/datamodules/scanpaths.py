"""Scanpaths over pictures as batches of tensors.

Positions are shares of the stimulus, ``x / width`` and ``y / height`` with ``0 <= x < 1`` on the
picture, so that pictures of any size stand in one batch; durations stay milliseconds, missing
ones NaN. Padding is told by a mask and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from gazeattn.datasets import GazeDataset
from gazeattn.datasets.splits import Split
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

Features = Mapping[str, Tensor]
"""Named tensors of one stimulus, such as the maps of a backbone by their stride."""
FeatureSource = Callable[["Stimulus"], Features]


@dataclass(frozen=True)
class Stimulus:
    """What a scanpath model is told about one picture or display.

    Attributes
    ----------
    name : str
    size : (width, height)
        Pixels.
    image : str or None
        Path of the picture.
    target : str or None
        What is searched for; None in free viewing.
    objects : DataFrame or None
        Boxes of the objects on a display: object (id), xmin, ymin, xmax, ymax in pixels.
    features : mapping of str to Tensor
        What a model's backbone sees in it, without a batch dimension; filled by a feature source.
    """

    name: str
    size: tuple[float, float]
    image: str | None = None
    target: str | None = None
    objects: pd.DataFrame | None = None
    features: Features = field(default_factory=dict)


@dataclass(frozen=True)
class Scanpaths:
    """Many scanpaths, one after the other.

    Attributes
    ----------
    x, y : ndarray, shape (n_fixations,), float64
        Pixels of the stimulus.
    duration : ndarray, shape (n_fixations,), float64
        Milliseconds, NaN where missing.
    starts : ndarray, shape (n + 1,), int64
        Fixations of scanpath i are ``starts[i]:starts[i + 1]``.
    trial, participant, stimulus : ndarray, shape (n,), object
        Ids of each scanpath.
    stimuli : dict of str to Stimulus
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    duration: NDArray[np.float64]
    starts: NDArray[np.int64]
    trial: NDArray[np.object_]
    participant: NDArray[np.object_]
    stimulus: NDArray[np.object_]
    stimuli: dict[str, Stimulus]

    def __len__(self) -> int:
        return len(self.trial)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Fixations of each scanpath, (n,)."""
        return np.diff(self.starts)

    @property
    def of(self) -> NDArray[np.int64]:
        """Number of the scanpath that each fixation belongs to, (n_fixations,)."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def sizes(self) -> NDArray[np.float64]:
        """Width and height of the stimulus of each scanpath, (n, 2)."""
        by_name = {k: s.size for k, s in self.stimuli.items()}
        return np.array([by_name[s] for s in self.stimulus], dtype=np.float64).reshape(-1, 2)

    @property
    def relative(self) -> NDArray[np.float64]:
        """Positions as shares of the stimulus, (n_fixations, 2)."""
        return np.stack([self.x, self.y], axis=1) / self.sizes[self.of]

    def path(self, i: int) -> NDArray[np.float64]:
        """Return scanpath i as x, y, duration, (length, 3)."""
        rows = slice(int(self.starts[i]), int(self.starts[i + 1]))
        return np.stack([self.x[rows], self.y[rows], self.duration[rows]], axis=1)

    def paths(self) -> list[NDArray[np.float64]]:
        """Return all scanpaths as x, y, duration."""
        return [self.path(i) for i in range(len(self))]

    def take(self, which: NDArray[Any] | Sequence[int]) -> Scanpaths:
        """Return the scanpaths at some positions (or of a mask), in that order.

        The stimuli become those that are still used.
        """
        which = np.asarray(which)
        at = np.flatnonzero(which) if which.dtype == bool else which.astype(np.int64)
        lengths = self.lengths[at]
        rows = np.repeat(self.starts[at] - (np.cumsum(lengths) - lengths), lengths)
        rows = rows + np.arange(int(lengths.sum()))
        names = dict.fromkeys(self.stimulus[at].tolist())
        return Scanpaths(
            self.x[rows],
            self.y[rows],
            self.duration[rows],
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            self.trial[at],
            self.participant[at],
            self.stimulus[at],
            {n: self.stimuli[n] for n in names},
        )

    def part(self, split: Split, part: str) -> Scanpaths:
        """Return the scanpaths of one part of a split (``"train"``, ``"val"``, ``"test"``)."""
        known = set(split.trials(part))
        return self.take(np.array([t in known for t in self.trial], dtype=bool))

    def with_features(self, source: FeatureSource) -> Scanpaths:
        """Return the same scanpaths with the features of every stimulus filled in."""
        found = {k: replace(s, features=source(s)) for k, s in self.stimuli.items()}
        return replace(self, stimuli=found)


def scanpaths_of(
    dataset: GazeDataset,
    *,
    shortest: int = 1,
    outside: str = "drop",
    lost: LossLog | None = None,
) -> Scanpaths:
    """Return the scanpaths of a data set whose stimuli have a size.

    Parameters
    ----------
    dataset
        Its ``stimuli`` state a ``size`` (width, height) each, and where there is one an ``image``.
    shortest
        Scanpaths with fewer fixations are left out and counted.
    outside : {"drop", "keep", "raise"}
        What to do with fixations off the stimulus. They are counted, never moved.
    lost
        Receives the counts.

    Raises
    ------
    DataError
        A stimulus without a size, a fixation off the stimulus with ``outside="raise"``, or
        nothing that is left.
    """
    lost = LossLog() if lost is None else lost
    table = dataset.fixations
    trials = dataset.trials.set_index("trial")
    stimuli: dict[str, Stimulus] = {}
    for name in trials["stimulus"].unique():
        facts = dataset.stimuli.get(name, {})
        if "size" not in facts:
            raise DataError(
                f"stimulus {name!r} has no size", source=dataset.name, expected="(width, height)"
            )
        width, height = facts["size"]
        stimuli[name] = Stimulus(
            name,
            (float(width), float(height)),
            facts.get("image"),
            facts.get("target"),
            facts.get("objects"),
        )
    names = table["trial"].map(trials["stimulus"])
    sizes = np.array([stimuli[n].size for n in names], dtype=np.float64).reshape(-1, 2)
    xy = table[["x", "y"]].to_numpy(dtype=np.float64, na_value=np.nan)
    missing = ~np.isfinite(xy).all(axis=1)
    off = ~missing & ((xy < 0) | (xy >= sizes)).any(axis=1)
    lost.add("scanpaths", "dropped", "fixations without a position", int(missing.sum()))
    if outside == "raise" and off.any():
        row = int(np.flatnonzero(off)[0])
        raise DataError(
            f"{int(off.sum())} fixations are off their stimulus",
            source=dataset.name,
            row=row,
            expected=f"0 <= x < {sizes[row, 0]:g}, 0 <= y < {sizes[row, 1]:g}",
            found=f"{xy[row, 0]:g}, {xy[row, 1]:g}",
        )
    kept = ~missing
    if outside == "drop":
        lost.add("scanpaths", "dropped", "fixations off the stimulus", int(off.sum()))
        kept &= ~off
    table, xy = table[kept], xy[kept]
    code, ids = pd.factorize(table["trial"].to_numpy(dtype=object))
    counts = np.bincount(code, minlength=len(ids))
    order = np.argsort(code, kind="stable")  # tables are sorted by trial; those made by hand may
    table, xy = table.iloc[order], xy[order]  # not be
    empty = len(trials) - len(ids)
    lost.add("scanpaths", "dropped", "scanpaths without a fixation", empty, "scanpaths")
    duration = (
        table["duration"].to_numpy(dtype=np.float64, na_value=np.nan)
        if "duration" in table
        else np.full(len(table), np.nan)
    )
    everything = Scanpaths(
        xy[:, 0],
        xy[:, 1],
        duration,
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        ids,
        trials["participant"].loc[ids].to_numpy(dtype=object),
        trials["stimulus"].loc[ids].to_numpy(dtype=object),
        stimuli,
    )
    long = everything.lengths >= shortest
    reason = f"scanpaths with fewer than {shortest} fixations"
    lost.add("scanpaths", "dropped", reason, int((~long).sum()), "scanpaths")
    if not long.any():
        raise DataError("no scanpath is left", source=dataset.name)
    return everything.take(long)


@dataclass
class ScanpathBatch:
    """Some scanpaths, padded to the longest.

    Attributes
    ----------
    xy : Tensor, shape (batch, length, 2)
        Shares of the stimulus; 0 in padding.
    duration : Tensor, shape (batch, length)
        Milliseconds, NaN where missing or padding.
    mask : Tensor of bool, shape (batch, length)
        Where a fixation is.
    which : Tensor of int64, shape (batch,)
        Row of `stimuli`, and of every tensor of `features`, that belongs to each scanpath.
    stimuli : list of Stimulus
        The distinct stimuli of the batch.
    features : dict of str to Tensor, shape (n_stimuli, ...)
        Stacked features of `stimuli`.
    trial, participant : list of str
    """

    xy: Tensor
    duration: Tensor
    mask: Tensor
    which: Tensor
    stimuli: list[Stimulus]
    features: dict[str, Tensor]
    trial: list[str]
    participant: list[str]

    @property
    def lengths(self) -> Tensor:
        """Fixations of each scanpath, (batch,)."""
        return self.mask.sum(1)

    def to(self, device: torch.device | str) -> ScanpathBatch:
        """Return the batch on a device."""
        return replace(
            self,
            xy=self.xy.to(device),
            duration=self.duration.to(device),
            mask=self.mask.to(device),
            which=self.which.to(device),
            features={k: v.to(device) for k, v in self.features.items()},
        )


def collate(paths: Scanpaths, which: Sequence[int] | NDArray[Any] | None = None) -> ScanpathBatch:
    """Return scanpaths (all, or those at some positions) as one padded batch."""
    chosen = paths if which is None else paths.take(np.asarray(which, dtype=np.int64))
    lengths = chosen.lengths
    longest = int(lengths.max(initial=0))
    mask = np.arange(longest) < lengths[:, None]
    xy = np.zeros((*mask.shape, 2), dtype=np.float32)
    duration = np.full(mask.shape, np.nan, dtype=np.float32)
    xy[mask] = chosen.relative
    duration[mask] = chosen.duration
    names = list(chosen.stimuli)
    number = {n: i for i, n in enumerate(names)}
    stimuli = [chosen.stimuli[n] for n in names]
    keys = list(stimuli[0].features) if stimuli else []
    return ScanpathBatch(
        torch.from_numpy(xy),
        torch.from_numpy(duration),
        torch.from_numpy(mask),
        torch.tensor([number[s] for s in chosen.stimulus], dtype=torch.int64),
        stimuli,
        {k: torch.stack([s.features[k] for s in stimuli]).float() for k in keys},
        chosen.trial.tolist(),
        chosen.participant.tolist(),
    )


class Positions(Dataset[int]):
    """Positions 0..n-1; the batch is made by `collate`, which sees them all at once."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        return i


class BatchSampler(Sampler[list[int]]):
    """Batches of like lengths, or of whole stimuli, in an order that depends on seed and epoch.

    Parameters
    ----------
    paths
        What is batched: anything with ``lengths``, and for `by_stimulus` with ``stimuli``.
    size
        Scanpaths, or with `by_stimulus` stimuli, of one batch.
    seed
        With the epoch it fixes the order; None keeps the order of the data.
    by_stimulus
        All scanpaths of a stimulus together, so that its features are worked on once.
    """

    def __init__(
        self, paths: Any, size: int, *, seed: int | None = None, by_stimulus: bool = False
    ) -> None:
        if size < 1:
            raise DataError("a batch needs one scanpath at least", found=size)
        self.size, self.seed, self.epoch = size, seed, 0
        self._lengths = paths.lengths
        if by_stimulus:
            names = {n: i for i, n in enumerate(paths.stimuli)}
            number = np.array([names[s] for s in paths.stimulus], dtype=np.int64)
            order = np.argsort(number, kind="stable")
            bounds = np.flatnonzero(np.diff(number[order])) + 1
            self._units = [u.tolist() for u in np.split(order, bounds)]
        else:
            self._units = [[i] for i in range(len(paths))]

    def __len__(self) -> int:
        return -(-len(self._units) // self.size)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch; a resumed training goes on with the same one."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        n = len(self._units)
        if self.seed is None:
            order = np.arange(n)
            yield from (self._batch(order[k : k + self.size]) for k in range(0, n, self.size))
            return
        rng = np.random.default_rng([self.seed, self.epoch])
        order = rng.permutation(n)
        # like lengths stand together only inside pools, so that batches still differ by epoch
        pool = 16 * self.size
        longest = np.array([self._lengths[u].max() for u in self._units])
        batches = []
        for start in range(0, n, pool):
            members = order[start : start + pool]
            members = members[np.argsort(longest[members], kind="stable")]
            batches += [members[k : k + self.size] for k in range(0, len(members), self.size)]
        for k in rng.permutation(len(batches)):
            yield self._batch(batches[k])

    def _batch(self, units: NDArray[np.int64]) -> list[int]:
        return [i for u in units for i in self._units[u]]


class ScanpathDataModule(pl.LightningDataModule):
    """Batches of the training and validation parts of a split.

    Parameters
    ----------
    train, valid, test
        Scanpaths with their features filled in (`Scanpaths.with_features`).
    batch_size
        Scanpaths of a batch, or stimuli where `by_stimulus`.
    by_stimulus
        See `BatchSampler`.
    seed
        Of the order of batches.
    """

    def __init__(
        self,
        train: Scanpaths,
        valid: Scanpaths,
        test: Scanpaths | None = None,
        *,
        batch_size: int = 128,
        by_stimulus: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.train, self.valid, self.test = train, valid, test
        self.batch_size, self.by_stimulus, self.seed = batch_size, by_stimulus, seed

    def _loader(self, paths: Scanpaths, seed: int | None, epoch: int = 0) -> DataLoader[int]:
        sampler = BatchSampler(paths, self.batch_size, seed=seed, by_stimulus=self.by_stimulus)
        sampler.set_epoch(epoch)
        return DataLoader(
            Positions(len(paths)),
            batch_sampler=sampler,
            collate_fn=lambda rows: collate(paths, rows),
        )

    def train_dataloader(self) -> DataLoader[int]:
        """Return the shuffled batches of the trainer's epoch.

        The trainer has to ask anew for every epoch (``reload_dataloaders_every_n_epochs=1``): a
        batch sampler of one's own is not told of epochs.
        """
        epoch = 0 if self.trainer is None else self.trainer.current_epoch
        return self._loader(self.train, self.seed, epoch)

    def val_dataloader(self) -> DataLoader[int]:
        """Return the validation batches in fixed order."""
        return self._loader(self.valid, None)

    def transfer_batch_to_device(
        self, batch: ScanpathBatch, device: torch.device, dataloader_idx: int
    ) -> ScanpathBatch:
        """Move a batch to a device."""
        return batch.to(device)
