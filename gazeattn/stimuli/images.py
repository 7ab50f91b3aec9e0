"""Pictures: where they stand on the screen, and what stands in them.

The first pixel of a picture covers ``0 <= x < 1``; a point is on a picture of some width where
``0 <= x < width``, so ``x = width`` is outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from gazeattn.columns import as_number, as_text
from gazeattn.errors import DataError
from gazeattn.tables import LossLog, check_words

STEP = "placement"
OUTSIDE = np.iinfo(np.int64).max
"""Row and column of what lies outside: no array has them, so using them is an error."""

Fit = Literal["center", "letterbox", "stretch"]
Off = Literal["mark", "drop", "clip"]
Size = tuple[float, float]


def _size(value: Sequence[float], name: str) -> Size:
    pair = tuple(float(v) for v in value)
    if len(pair) != 2 or not all(np.isfinite(v) and v > 0 for v in pair):
        raise DataError(f"{name} must be (width, height) above 0", found=str(tuple(value)))
    return pair[0], pair[1]


def on_stimulus(x: np.ndarray, y: np.ndarray, size: Sequence[float]) -> np.ndarray:
    """Tell which points have ``0 <= x < width`` and ``0 <= y < height``; NaN has not."""
    width, height = _size(size, "the size of the stimulus")
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    return (x >= 0) & (x < width) & (y >= 0) & (y < height)


@dataclass(frozen=True)
class Placement:
    """A stimulus on a screen; make one with `place_stimulus`.

    Attributes
    ----------
    screen, stimulus : (width, height)
        Pixels of the screen and of the stimulus.
    shown : (width, height)
        Size of the stimulus on the screen, in pixels of the screen.
    offset : (x, y)
        Screen pixel of the top left corner of the stimulus; negative where it is cut off.
    """

    screen: Size
    stimulus: Size
    shown: Size
    offset: Size

    @property
    def scale(self) -> Size:
        """Screen pixels per stimulus pixel, across and down."""
        return self.shown[0] / self.stimulus[0], self.shown[1] / self.stimulus[1]

    def to_stimulus(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return stimulus pixels of screen pixels; what is off the stimulus is not cut off."""
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        return (
            (x - self.offset[0]) * self.stimulus[0] / self.shown[0],
            (y - self.offset[1]) * self.stimulus[1] / self.shown[1],
        )

    def to_screen(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return screen pixels of stimulus pixels."""
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        return (
            x * self.shown[0] / self.stimulus[0] + self.offset[0],
            y * self.shown[1] / self.stimulus[1] + self.offset[1],
        )

    def inside(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Tell which screen pixels lie on the stimulus (and on the screen)."""
        return on_stimulus(*self.to_stimulus(x, y), self.stimulus) & on_stimulus(x, y, self.screen)


def place_stimulus(
    screen: Sequence[float],
    stimulus: Sequence[float],
    *,
    fit: Fit = "center",
    scale: float | Sequence[float] | None = None,
    offset: Sequence[float] | None = None,
) -> Placement:
    """Return where a stimulus stands.

    Parameters
    ----------
    screen, stimulus
        (width, height) in pixels.
    fit
        ``"center"``: in the middle, in its own size; ``"letterbox"``: as large as fits, in its
        own proportions, in the middle; ``"stretch"``: over the whole screen.
    scale
        Screen pixels per stimulus pixel (one number or two), instead of what `fit` says.
    offset
        Screen pixel of its top left corner, instead of the middle. The middle may be at half a
        pixel; programs that show stimuli round it in their own ways, so give it where known.

    Raises
    ------
    DataError
        A size or scale is not above 0, or `fit` is unknown.
    """
    screen_size = _size(screen, "the size of the screen")
    size = _size(stimulus, "the size of the stimulus")
    if fit not in ("center", "letterbox", "stretch"):
        raise DataError("unknown fit", expected="center, letterbox or stretch", found=fit)
    if scale is not None:
        pair = _size((scale, scale) if isinstance(scale, int | float) else scale, "the scale")
        shown = size[0] * pair[0], size[1] * pair[1]
    elif fit == "stretch":
        shown = screen_size
    elif fit == "letterbox":
        # The side that fills the screen is exactly as long as the screen.
        if screen_size[0] * size[1] <= screen_size[1] * size[0]:
            shown = screen_size[0], size[1] * screen_size[0] / size[0]
        else:
            shown = size[0] * screen_size[1] / size[1], screen_size[1]
    else:
        shown = size
    if offset is None:
        corner = (screen_size[0] - shown[0]) / 2, (screen_size[1] - shown[1]) / 2
    else:
        corner = float(offset[0]), float(offset[1])
    return Placement(screen_size, size, shown, corner)


def place_fixations(
    fixations: pd.DataFrame,
    placement: Placement | Mapping[str, Placement],
    *,
    off: Off = "mark",
) -> tuple[pd.DataFrame, LossLog]:
    """Turn screen pixels of fixations into stimulus pixels.

    Parameters
    ----------
    fixations
        With ``x`` and ``y`` in screen pixels (and ``stimulus`` if the placements go by it).
    placement
        One for all, or one per stimulus id.
    off
        What becomes of fixations outside the stimulus: ``"mark"`` keeps them as they are,
        ``"drop"`` leaves them out, ``"clip"`` moves them to the nearest point inside.

    Returns
    -------
    DataFrame
        A new table with ``x, y`` in stimulus pixels, ``x_screen, y_screen``, and ``off_screen``:
        outside the stimulus (missing without a position).
    LossLog

    Raises
    ------
    DataError
        A stimulus has no placement, or `off` is unknown.
    """
    _choice(off)
    table = fixations.copy()
    x, y = points_of(table)
    new_x, new_y = np.full(len(table), np.nan), np.full(len(table), np.nan)
    on, width, height = np.zeros(len(table), dtype=bool), new_x.copy(), new_x.copy()
    if isinstance(placement, Placement):
        groups = [(placement, np.arange(len(table)))]
    else:
        groups = []
        for stimulus, rows in rows_by_stimulus(table).items():
            if stimulus not in placement:
                raise DataError(
                    "a stimulus has no placement",
                    source=STEP,
                    found=repr(stimulus),
                    expected="one placement for each stimulus of the fixations",
                )
            groups.append((placement[stimulus], rows))
    for place, rows in groups:
        new_x[rows], new_y[rows] = place.to_stimulus(x[rows], y[rows])
        on[rows] = place.inside(x[rows], y[rows])
        width[rows], height[rows] = place.stimulus
    table["x_screen"], table["y_screen"] = x, y
    table["x"], table["y"] = new_x, new_y
    return _off(table, on, width, height, off)


def mark_off(
    fixations: pd.DataFrame, size: Sequence[float], *, off: Off = "mark"
) -> tuple[pd.DataFrame, LossLog]:
    """Mark, drop or clip fixations outside a stimulus, in its own pixels; see `place_fixations`."""
    _choice(off)
    width, height = _size(size, "the size of the stimulus")
    x, y = points_of(fixations)
    on = on_stimulus(x, y, (width, height))
    full = np.ones(len(fixations))
    return _off(fixations.copy(), on, full * width, full * height, off)


def points_of(fixations: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return columns `x` and `y` as numbers, NaN where missing.

    Raises
    ------
    DataError
        A column is not there, or holds something else than finite numbers.
    """
    lacking = [c for c in ("x", "y") if c not in fixations]
    if lacking:
        raise DataError(
            "fixations need a position",
            source="fixations",
            expected="columns x and y",
            found=", ".join(map(str, fixations.columns)) or "no columns",
        )
    x, y = (as_number(fixations[c], c, "fixations").to_numpy() for c in ("x", "y"))
    return x, y


def rows_by_stimulus(fixations: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the row numbers of each stimulus id (as text).

    Raises
    ------
    DataError
        There is no such column, or a row has no stimulus.
    """
    if "stimulus" not in fixations:
        raise DataError(
            "fixations need a stimulus", source="fixations", expected="a column stimulus"
        )
    ids = as_text(fixations["stimulus"]).reset_index(drop=True)
    if ids.isna().any():
        row = int(ids.isna().to_numpy().argmax())
        raise DataError("a fixation has no stimulus", source="fixations", row=row)
    return {str(k): np.asarray(rows) for k, rows in ids.groupby(ids, sort=False).indices.items()}


def _choice(off: str) -> None:
    if off not in ("mark", "drop", "clip"):
        raise DataError(
            "unknown choice for fixations outside the stimulus",
            expected="mark, drop or clip",
            found=off,
        )


def _off(
    table: pd.DataFrame, on: np.ndarray, width: np.ndarray, height: np.ndarray, off: str
) -> tuple[pd.DataFrame, LossLog]:
    log = LossLog()
    x, y = points_of(table)
    known = ~(np.isnan(x) | np.isnan(y))
    away = known & ~on
    table["off_screen"] = pd.arrays.BooleanArray(away, ~known)
    count = int(away.sum())
    if off == "mark":
        log.add(STEP, "note", "outside the stimulus: kept, marked off_screen", count, "fixations")
    elif off == "drop":
        log.add(STEP, "dropped", "outside the stimulus", count, "fixations")
        table = table[~away].reset_index(drop=True)
    else:
        log.add(STEP, "repaired", "outside the stimulus: moved inside", count, "fixations")
        table["x"] = np.where(away, np.clip(x, 0.0, np.nextafter(width, 0.0)), x)
        table["y"] = np.where(away, np.clip(y, 0.0, np.nextafter(height, 0.0)), y)
    log.add(STEP, "undefined", "without a position", int((~known).sum()), "fixations")
    return table, log


def to_cells(
    x: np.ndarray, y: np.ndarray, *, size: Sequence[float], shape: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cell of an array that each point of a picture falls in.

    Parameters
    ----------
    x, y : ndarray, shape (n,)
        Pixels of the picture.
    size
        (width, height) of the picture that x and y are pixels of.
    shape
        (rows, columns) of the array, which spans the whole picture.

    Returns
    -------
    row, column : ndarray, shape (n,), int64
        `OUTSIDE` for points off the picture and for NaN.
    inside : ndarray, shape (n,), bool
    """
    width, height = _size(size, "the size of the picture")
    rows, columns = int(shape[0]), int(shape[1])
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    inside = on_stimulus(x, y, (width, height))
    column, row = np.full(x.shape, OUTSIDE), np.full(x.shape, OUTSIDE)
    # The quotient may round up to the number of cells just before the edge.
    column[inside] = np.minimum(np.floor(x[inside] * columns / width), columns - 1)
    row[inside] = np.minimum(np.floor(y[inside] * rows / height), rows - 1)
    return row, column, inside


def values_at(
    array: np.ndarray, x: np.ndarray, y: np.ndarray, *, size: Sequence[float]
) -> np.ndarray:
    """Return the value of a map under each point, NaN outside; see `to_cells`.

    Parameters
    ----------
    array : ndarray, shape (rows, columns)
    x, y : ndarray, shape (n,)
    size
        (width, height) of the picture.
    """
    array = np.asarray(array)
    row, column, inside = to_cells(x, y, size=size, shape=array.shape)
    values = np.full(inside.shape, np.nan)
    values[inside] = array[row[inside], column[inside]]
    return values


def object_boxes(
    boxes: pd.DataFrame | np.ndarray | Sequence[Sequence[float]],
    *,
    form: Literal["xywh", "ltrb"],
    stimulus: str = "image",
    layout: str | None = None,
    ids: Sequence[object] | None = None,
    labels: Sequence[object] | None = None,
    inclusive: bool = False,
) -> tuple[pd.DataFrame, LossLog]:
    """Return objects of one picture as a checked table of units.

    Parameters
    ----------
    boxes
        Four columns: x, y, width, height (``"xywh"``) or left, top, right, bottom (``"ltrb"``).
    form
        It must be said: numbers do not tell.
    stimulus, layout, ids, labels
        Ids default to the row numbers, labels to the ids.
    inclusive
        Right and bottom name the last pixel of the object, not the first one after it.

    Returns
    -------
    DataFrame with the columns of `gazeattn.tables.WORDS`, LossLog

    Raises
    ------
    DataError
        `form` is unknown, a box has not four numbers, or ends before it begins.
    """
    values = np.asarray(boxes, dtype=np.float64).reshape(len(boxes), -1)
    if form not in ("xywh", "ltrb"):
        raise DataError("unknown form of boxes", expected="xywh or ltrb", found=str(form))
    if len(values) and values.shape[1] != 4:
        raise DataError("a box needs four numbers", source=stimulus, found=values.shape[1])
    left, top, right, bottom = values.reshape(-1, 4).T
    if form == "xywh":
        right, bottom = left + right, top + bottom
    names = [str(k) for k in (range(len(values)) if ids is None else ids)]
    table = pd.DataFrame(
        {
            "layout": stimulus if layout is None else layout,
            "stimulus": stimulus,
            "word": names,
            "index": np.arange(len(values)),
            "text": names if labels is None else [str(v) for v in labels],
            "left": left,
            "top": top,
            "right": right + inclusive,
            "bottom": bottom + inclusive,
        }
    )
    return check_words(table, source=f"boxes of {stimulus}")
