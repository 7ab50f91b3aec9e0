"""Objects of a picture as masks, and the object under each point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.stimuli.images import points_of, rows_by_stimulus, to_cells
from gazeattn.tables import LossLog

STEP = "masks"


def decode_rle(rle: Mapping[str, Any]) -> np.ndarray:
    """Return the mask of a run-length code as COCO writes it, not compressed.

    Parameters
    ----------
    rle
        ``size``: [height, width]; ``counts``: lengths of runs of 0 and 1 by turns, beginning with
        0, down the columns from left to right.

    Returns
    -------
    ndarray, shape (height, width), bool

    Raises
    ------
    DataError
        The counts are compressed (text), negative, or do not add up to height x width.
    """
    height, width = (int(v) for v in rle["size"])
    counts = rle["counts"]
    if isinstance(counts, str | bytes):
        raise DataError(
            "the run lengths are compressed",
            source=STEP,
            expected="a list of numbers",
            hint="Decode them first, for example with pycocotools",
        )
    runs = np.asarray(counts, dtype=np.int64)
    if (runs < 0).any() or runs.sum() != height * width:
        raise DataError(
            "the run lengths do not fill the picture",
            source=STEP,
            expected=f"lengths from 0 that add up to {height} x {width} = {height * width}",
            found=f"a sum of {int(runs.sum())}",
        )
    flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return flat.reshape(width, height).T


def encode_rle(mask: np.ndarray) -> dict[str, list[int]]:
    """Return the run-length code of a mask (height, width); see `decode_rle`."""
    mask = np.asarray(mask, dtype=bool)
    flat = mask.T.reshape(-1)
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    runs = np.diff(np.r_[0, edges, len(flat)]).tolist()
    if len(flat) and flat[0]:
        runs = [0, *runs]
    return {"size": [int(mask.shape[0]), int(mask.shape[1])], "counts": runs}


@dataclass(frozen=True)
class Masks:
    """Objects of one picture; make them with `stacked_masks` or `labelled_masks`.

    Attributes
    ----------
    ids : list of str
    shape : (height, width)
        Of the arrays; they span the whole picture.
    centres : ndarray, shape (n, 2)
        x, y of the middle of the box around each object, in cells; NaN for an empty mask.
    stack : ndarray, shape (n, height, width), bool, or None
    labels : ndarray, shape (height, width), int, or None
        Number of the object in `ids`, -1 on the ground: objects that do not overlap.
    """

    ids: list[str]
    shape: tuple[int, int]
    centres: np.ndarray
    stack: np.ndarray | None = None
    labels: np.ndarray | None = None

    def find(
        self, x: np.ndarray, y: np.ndarray, *, size: Sequence[float]
    ) -> tuple[np.ndarray, int]:
        """Return the object under each point.

        Of several objects the one with the nearest centre wins; of equally near ones, the first.

        Parameters
        ----------
        x, y : ndarray, shape (n,)
            Pixels of the picture.
        size
            (width, height) of the picture, which may be larger than the masks.

        Returns
        -------
        ndarray, shape (n,), int64
            Number of the object in `ids`; -1 on no object, off the picture and for NaN.
        int
            How many points lie on several objects.
        """
        row, column, inside = to_cells(x, y, size=size, shape=self.shape)
        found = np.full(len(inside), -1, dtype=np.int64)
        r, c = row[inside], column[inside]
        if self.labels is not None:
            found[inside] = self.labels[r, c]
            return found, 0
        if self.stack is None or not len(self.stack):
            return found, 0
        hit = self.stack[:, r, c]  # (n_objects, n_points)
        at_x = np.asarray(x, dtype=np.float64)[inside] * self.shape[1] / float(size[0])
        at_y = np.asarray(y, dtype=np.float64)[inside] * self.shape[0] / float(size[1])
        far = (at_x - self.centres[:, :1]) ** 2 * (float(size[0]) / self.shape[1]) ** 2
        far = far + (at_y - self.centres[:, 1:]) ** 2 * (float(size[1]) / self.shape[0]) ** 2
        far = np.where(hit, far, np.inf)
        found[inside] = np.where(hit.any(axis=0), far.argmin(axis=0), -1)
        return found, int((hit.sum(axis=0) > 1).sum())


def stacked_masks(
    masks: Sequence[np.ndarray] | np.ndarray, ids: Sequence[object] | None = None
) -> Masks:
    """Return objects given by one mask each, which may overlap.

    Parameters
    ----------
    masks
        Arrays of one shape (height, width); what is not 0 is the object.
    ids
        Default to the numbers from 0.
    """
    arrays = [np.asarray(m) != 0 for m in masks]
    shapes = {a.shape for a in arrays}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise DataError(
            "masks must have one shape (height, width)",
            source=STEP,
            found=", ".join(map(str, sorted(shapes))) or "no mask",
        )
    stack = np.stack(arrays)
    height, width = stack.shape[1:]
    names = _names(ids, len(arrays))
    return Masks(names, (height, width), _centres(stack), stack=stack)


def labelled_masks(
    labels: np.ndarray, ids: Mapping[int, object] | None = None, *, ground: int = 0
) -> Masks:
    """Return objects given by one array of labels.

    Parameters
    ----------
    labels : ndarray, shape (height, width), int
    ids
        Id of each label; default: the label as text. A label that it lacks is an error.
    ground
        The label of what is no object.
    """
    labels = np.asarray(labels)
    if labels.ndim != 2 or labels.dtype.kind not in "iub":
        raise DataError(
            "labels must be whole numbers of shape (height, width)",
            source=STEP,
            found=f"{labels.dtype} {labels.shape}",
        )
    values, numbers = np.unique(labels, return_inverse=True)
    is_object = values != ground
    unknown = [] if ids is None else [int(v) for v in values[is_object] if int(v) not in ids]
    if unknown:
        raise DataError("a label has no id", source=STEP, found=", ".join(map(str, unknown[:5])))
    new = np.where(is_object, np.cumsum(is_object) - 1, -1)
    array = new[numbers].reshape(labels.shape)
    names = [str(v if ids is None else ids[int(v)]) for v in values[is_object].tolist()]
    boxes = (array == k for k in range(len(names)))
    return Masks(names, (labels.shape[0], labels.shape[1]), _centres(boxes), labels=array)


def _names(ids: Sequence[object] | None, n: int) -> list[str]:
    names = [str(k) for k in (range(n) if ids is None else ids)]
    if len(names) != n or len(set(names)) != n:
        raise DataError("masks need one id each, all different", source=STEP, found=str(names[:5]))
    return names


def _centres(masks: np.ndarray | Iterator[np.ndarray]) -> np.ndarray:
    found = []
    for mask in masks:
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if len(rows):
            found.append(((columns[0] + columns[-1] + 1) / 2, (rows[0] + rows[-1] + 1) / 2))
        else:
            found.append((np.nan, np.nan))
    return np.array(found, dtype=np.float64).reshape(-1, 2)


def map_to_masks(
    fixations: pd.DataFrame,
    masks: Mapping[str, Masks],
    sizes: Mapping[str, Sequence[float]],
) -> tuple[pd.DataFrame, LossLog]:
    """Put every fixation on an object.

    Parameters
    ----------
    fixations
        With ``stimulus``, ``x`` and ``y`` in pixels of the picture.
    masks, sizes
        Objects, and (width, height), of each stimulus.

    Returns
    -------
    DataFrame
        As many rows in the same order, with ``area`` (id of the object, missing on none).
    LossLog
        Fixations on no object, off the picture, on several objects, without a position, and on
        pictures without masks.
    """
    x, y = points_of(fixations)
    area = np.full(len(fixations), None, dtype=object)
    log = LossLog()
    ground = several = unknown = off = 0
    known = ~(np.isnan(x) | np.isnan(y))
    for stimulus, rows in rows_by_stimulus(fixations).items():
        if stimulus not in masks:
            unknown += len(rows)
            continue
        if stimulus not in sizes:
            raise DataError("a picture has no size", source=STEP, found=repr(stimulus))
        mask, size = masks[stimulus], sizes[stimulus]
        found, many = mask.find(x[rows], y[rows], size=size)
        _, _, inside = to_cells(x[rows], y[rows], size=size, shape=mask.shape)
        area[rows] = np.array([*mask.ids, None], dtype=object)[found]
        several += many
        off += int((known[rows] & ~inside).sum())
        ground += int((inside & (found < 0)).sum())
    table = fixations.copy()
    table["area"] = pd.Series(pd.array(area, dtype="str"), index=table.index)
    log.add(STEP, "undefined", "no masks are known for their picture", unknown, "fixations")
    log.add(STEP, "note", "on no object", ground, "fixations")
    log.add(STEP, "note", "outside the picture", off, "fixations")
    log.add(
        STEP,
        "note",
        "on several objects: given to the one with the nearest centre",
        several,
        "fixations",
    )
    log.add(STEP, "undefined", "without a position", int((~known).sum()), "fixations")
    return table, log
