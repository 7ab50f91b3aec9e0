"""Stretches of samples: runs of equal marks, their times and lengths, sums over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog

Counting = Literal["inclusive", "span"]
Unit = Literal["ms", "samples"]
STEP = "samples to events"
MISSING = "samples without a position"


@dataclass(frozen=True)
class Spans:
    """Events as rows of the samples, in order and disjoint.

    Attributes
    ----------
    first, last : ndarray, shape (n_events,), int64
        Rows of the first and the last sample; the last one belongs to the event.
    onset, offset : ndarray, shape (n_events,), float64
        Times of the first and the last sample in ms (in samples where there is no clock).
    interval : float
        Time from one sample to the next.
    """

    first: np.ndarray
    last: np.ndarray
    onset: np.ndarray
    offset: np.ndarray
    interval: float

    def __len__(self) -> int:
        return len(self.first)

    @property
    def duration(self) -> np.ndarray:
        """Time that the samples stand for: last minus first plus one interval ("inclusive")."""
        return self.offset - self.onset + self.interval

    @property
    def span(self) -> np.ndarray:
        """Time between the first and the last sample ("span")."""
        return self.offset - self.onset

    def __getitem__(self, keep: np.ndarray) -> Spans:
        return Spans(
            self.first[keep], self.last[keep], self.onset[keep], self.offset[keep], self.interval
        )


@dataclass(frozen=True)
class Detected:
    """What a method found in one stream of samples.

    Attributes
    ----------
    fixations, saccades : Spans
    velocity : ndarray, shape (n_samples, 2), or None
        Velocity along x and y per second, NaN where undefined; None where no use is made of it.
    lost : LossLog
        Samples missing, gaps, fragments dropped by the minimum, events cut at a gap.
    info : dict
        Numbers that the method took from the data, such as its thresholds.
    other : dict of Spans
        Events of further kinds by name, such as ``"pursuit"``.
    """

    fixations: Spans
    saccades: Spans
    velocity: np.ndarray | None = None
    lost: LossLog = field(default_factory=LossLog)
    info: dict[str, object] = field(default_factory=dict)
    other: dict[str, Spans] = field(default_factory=dict)


def runs(mask: np.ndarray, start: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return first and last index of each run of true values.

    Parameters
    ----------
    mask : ndarray of bool, shape (n,)
    start : ndarray of bool, shape (n,), optional
        True where a new stretch begins: no run goes across.
    """
    n = len(mask)
    if not n:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    border = np.ones(n + 1, dtype=bool)  # between index i - 1 and i
    border[1:-1] = mask[1:] != mask[:-1]
    if start is not None:
        border[1:-1] |= start[1:]
    edges = np.flatnonzero(border)
    inside = mask[edges[:-1]]
    return edges[:-1][inside].astype(np.int64), (edges[1:] - 1)[inside].astype(np.int64)


def long_enough(
    spans: Spans, minimum: float, unit: Unit = "ms", counting: Counting = "inclusive"
) -> np.ndarray:
    """Return which events last at least the minimum.

    Parameters
    ----------
    minimum : float
        In milliseconds, or in samples where `unit` says so.
    counting : {"inclusive", "span"}
        ``"inclusive"``: every sample counts for one interval, so n samples last n intervals;
        ``"span"``: from the first sample to the last, n - 1 intervals.
    """
    check_choice("unit", unit, ("ms", "samples"))
    check_choice("counting", counting, ("inclusive", "span"))
    if not minimum >= 0:
        raise DataError("the minimum duration must be 0 or more", found=minimum)
    if unit == "samples":
        length = spans.last - spans.first + (counting == "inclusive")
        return length >= minimum
    length = spans.duration if counting == "inclusive" else spans.span
    # decimal clocks such as 0, 3.333, 6.667 must not lose an event to rounding; a lone sample of
    # unknown interval is kept only where no minimum is asked for
    slack = 1e-6 * spans.interval if np.isfinite(spans.interval) else 0.0
    return (length >= minimum - slack) | (minimum == 0)


def inside(n: int, spans: Spans) -> np.ndarray:
    """Return which of n samples are part of an event."""
    steps = np.zeros(n + 1, dtype=np.int64)
    np.add.at(steps, spans.first, 1)
    np.add.at(steps, spans.last + 1, -1)
    return np.cumsum(steps)[:-1] > 0


def totals(values: np.ndarray, first: np.ndarray, last: np.ndarray, how: np.ufunc) -> np.ndarray:
    """Return `how` reduced over values[first..last] of every event; events may not overlap."""
    if not len(first):
        return np.zeros(0, dtype=values.dtype)
    padded = np.append(values, values[-1:])  # lets an event end with the last sample
    edges = np.column_stack([first, last + 1]).ravel()
    return how.reduceat(padded, edges)[::2]


def means(values: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the mean over each event without missing values; NaN where all are missing."""
    there = ~np.isnan(values)
    count = totals(there.astype(np.int64), first, last, np.add)
    # means of large numbers of pixels lose nothing when they are taken about a middle value
    centre = values[there][0] if there.any() else 0.0
    total = totals(np.where(there, values - centre, 0.0), first, last, np.add)
    result = np.full(len(count), np.nan)
    np.divide(total, count, out=result, where=count > 0)
    return result + centre


def check_choice(kind: str, value: str, known: tuple[str, ...]) -> None:
    """Raise `UnknownNameError` unless the value is one of the known ones."""
    if value not in known:
        raise UnknownNameError(kind, value, known)


def as_floats(values: ArrayLike, name: str) -> np.ndarray:
    """Return numbers as a new one-dimensional float array; whole numbers and pd.NA included.

    Raises
    ------
    DataError
        The values are no numbers, infinite, or have more than one dimension.
    """
    to_numpy = getattr(values, "to_numpy", None)
    try:
        if to_numpy is not None:
            array = np.array(to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
        else:
            array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be numbers", found=str(error)) from error
    if array.ndim != 1:
        raise DataError(f"{name} must have one dimension", found=f"shape {array.shape}")
    infinite = np.isinf(array)
    if infinite.any():
        raise DataError(
            f"{name} must be finite numbers or missing",
            row=int(infinite.argmax()),
            found=f"{int(infinite.sum())} infinite values",
        )
    return array
