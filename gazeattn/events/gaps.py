"""The clock of a recording and its holes: which samples may be joined and which may not."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.events.spans import (
    MISSING,
    STEP,
    Counting,
    Spans,
    Unit,
    as_floats,
    check_choice,
    long_enough,
    runs,
)
from gazeattn.losses import LossLog

MAX_RATE = 20_000.0  # Hz; no eye tracker is near it, times in seconds are beyond it
MIN_RATE = 5.0  # Hz; no eye tracker is so slow, times in microseconds or ticks are below it
RESET = 1000.0  # ms; a step back by more is a new start of the clock, by less samples out of order


@dataclass(frozen=True)
class Track:
    """The samples of one stream that hold a position, and where they belong together.

    Attributes
    ----------
    rows : ndarray, shape (m,), int64
        Rows of the samples with a position.
    time, x, y : ndarray, shape (m,), float64
        Time in ms (the row number where there is no clock) and position.
    start : ndarray of bool, shape (m,)
        True at the first sample of each stretch; nothing spans two stretches.
    n : int
        Number of samples, missing ones included.
    interval : float
        Median time from one sample to the next, NaN where there is one sample only.
    clock : bool
        False where time counts samples.
    lost : LossLog
    """

    rows: np.ndarray
    time: np.ndarray
    x: np.ndarray
    y: np.ndarray
    start: np.ndarray
    n: int
    interval: float
    clock: bool = True
    lost: LossLog = field(default_factory=LossLog)

    def spans(self, first: np.ndarray, last: np.ndarray) -> Spans:
        """Return events that are given as indices of the samples with a position."""
        return Spans(
            self.rows[first], self.rows[last], self.time[first], self.time[last], self.interval
        )

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return values of all samples, NaN where there is no position."""
        result = np.full((self.n, *values.shape[1:]), np.nan)
        result[self.rows] = values
        return result

    def keep(
        self,
        mask: np.ndarray,
        minimum: float,
        what: str,
        unit: Unit = "ms",
        counting: Counting = "inclusive",
        lost: LossLog | None = None,
    ) -> Spans:
        """Return the runs of a mask that last long enough; count the rest and the cut ones."""
        first, last = runs(mask, self.start)
        spans = self.spans(first, last)
        keep = long_enough(spans, minimum, unit, counting)
        if lost is not None:
            note_fragments(lost, what, int((~keep).sum()), minimum, unit, counting)
            self.note_cut(lost, what, first[keep], last[keep])
        return spans[keep]

    def note_cut(self, lost: LossLog, what: str, first: np.ndarray, last: np.ndarray) -> None:
        """Count events that begin or end at a gap, not at the ends of the recording."""
        if not len(first):
            return
        ends = np.append(self.start[1:], False)
        cut = (self.start[first] & (first > 0)) | ends[last]
        lost.add(STEP, "note", f"{what} cut at a gap", int(cut.sum()), "events")


def note_fragments(
    lost: LossLog, what: str, count: int, minimum: float, unit: Unit, counting: Counting
) -> None:
    """Count runs that were shorter than the minimum duration."""
    reason = f"{what} shorter than the minimum duration of {minimum:g} {unit} ({counting})"
    lost.add(STEP, "dropped", reason, count, "fragments")


def interval_of(time: np.ndarray, breaks: np.ndarray | None = None) -> float:
    """Return the median time from one sample to the next; missing times are left out."""
    known = ~np.isnan(time)
    steps = np.diff(time[known])
    if breaks is not None:
        # a break at a missing time counts for the next sample that has one
        group = np.cumsum(breaks)[known]
        steps = steps[group[1:] == group[:-1]]
    steps = steps[steps > 0]
    return float(np.median(steps)) if len(steps) else float("nan")


def order_of(time: ArrayLike, *, reset: float = RESET) -> tuple[np.ndarray, np.ndarray, int]:
    """Order samples whose clock steps back, without joining the parts around a new start.

    Parameters
    ----------
    time : array, shape (n,)
        Milliseconds; missing times stay where they are.
    reset : float
        A step back by more than this (ms) starts a new part; parts keep the order of the file.

    Returns
    -------
    order : ndarray, shape (n,)
        Row order: each part sorted by time, equal times in the order of the file.
    breaks : ndarray of bool, shape (n,)
        In the new order, True where a part begins (the first sample aside).
    moved : int
        Number of rows that stand elsewhere than before.
    """
    times = as_floats(time, "time")
    n = len(times)
    breaks = np.zeros(n, dtype=bool)
    known = np.flatnonzero(~np.isnan(times))
    filled = times.copy()
    if len(known):
        # a missing time goes with the last known one before it
        place = np.searchsorted(known, np.arange(n), side="right") - 1
        filled = times[known[np.maximum(place, 0)]]
    steps = np.diff(filled)
    if not len(steps) or not (steps < 0).any():
        return np.arange(n), breaks, 0
    breaks[1:] = steps < -reset
    part = np.cumsum(breaks)
    order = np.lexsort((filled, part))
    return order, breaks, int((order != np.arange(n)).sum())


def track(
    time: ArrayLike | None,
    x: ArrayLike,
    y: ArrayLike,
    *,
    rate: float | None = None,
    unit: Unit = "ms",
    max_gap: float = 0.0,
    breaks: ArrayLike | None = None,
) -> Track:
    """Look at the clock and the holes of one stream of samples.

    Two neighbouring samples with a position belong together when at most `max_gap` is missing
    between them. With the default of 0 every missing sample and every jump of the clock (more
    than 1.5 intervals) is a border that no velocity and no event crosses. Nothing is filled in:
    inside a bridged gap there is a longer time step, not an invented position.

    Parameters
    ----------
    time : array, shape (n,), or None
        Milliseconds, not falling. None where there is no clock: then `rate` gives one, or
        ``unit="samples"`` says that everything is counted in samples.
    x, y : array, shape (n,)
        Position; a sample is missing where either is.
    rate : float, optional
        Samples per second.
    max_gap : float
        Longest stretch without a sample that may be bridged, in ms (in samples without a clock).
    breaks : array of bool, shape (n,), optional
        True where a new block, trial or part of the clock begins.

    Raises
    ------
    DataError
        Lengths differ, times fall, times do not fit the rate, or no time axis and no unit.

    Warns
    -----
    UserWarning
        Samples are usually less than 0.05 ms or more than 200 ms apart and no rate is stated:
        times in seconds or microseconds. It stands in the log as well.
    """
    check_choice("unit", unit, ("ms", "samples"))
    xs, ys = as_floats(x, "x"), as_floats(y, "y")
    n = len(xs)
    cut = np.zeros(n, dtype=bool) if breaks is None else np.array(breaks, dtype=bool)
    if rate is not None and not rate > 0:
        raise DataError("the sampling rate must be above 0", found=rate)
    if not max_gap >= 0:
        raise DataError("max_gap must be 0 or more", found=max_gap)
    if time is not None:
        times = as_floats(time, "time")
    elif rate is not None:
        times = np.arange(n) * (1000.0 / rate)
    elif unit == "samples":
        times = np.arange(n, dtype=np.float64)
    else:
        raise DataError(
            "there is no time axis, so milliseconds mean nothing",
            expected="time, rate= in Hz, or unit='samples'",
            hint="Nothing is assumed: state one of them",
        )
    for name, values in (("y", ys), ("time", times), ("breaks", cut)):
        if len(values) != n:
            raise DataError(f"x and {name} differ in length", expected=n, found=len(values))
    lost = LossLog()
    interval = _interval(times, cut, rate, time is not None, lost)
    rows = np.flatnonzero(~(np.isnan(xs) | np.isnan(ys) | np.isnan(times)))
    at = times[rows]
    part = np.cumsum(cut)[rows]
    new = np.ones(len(rows), dtype=bool)
    steps, same = np.diff(at), part[1:] == part[:-1]
    back = same & (steps < 0)
    if back.any():
        row = int(rows[1:][back][0])
        raise DataError(
            f"time steps back in {int(back.sum())} places",
            row=row,
            expected=f"at least {times[:row][~np.isnan(times[:row])][-1]:g}",
            found=f"{times[row]:g}",
            hint="Sort the samples by time (order_of does), or mark new starts in breaks=",
        )
    hole = np.zeros(len(steps), dtype=bool)
    if np.isfinite(interval):
        slack = 1e-6 * interval
        hole = (steps > 1.5 * interval) & (steps - interval > max_gap + slack)
    if time is not None:  # two rows of one time around a missing one still have a hole
        hole |= (np.diff(rows) > 1) & (max_gap == 0)
    new[1:] = ~same | hole
    clock = time is not None or rate is not None
    lost.add(STEP, "undefined", MISSING, n - len(rows), "samples")
    if n and not len(rows):
        lost.add(STEP, "note", f"0 of {n} samples are valid", 1, "streams")
    lost.add(STEP, "note", "gaps that no event crosses", int((hole & same).sum()), "gaps")
    bridged = int(((steps > 1.5 * interval) & same & ~hole).sum()) if interval > 0 else 0
    reason = f"gaps of up to {max_gap:g} {'ms' if clock else 'samples'} bridged"
    lost.add(STEP, "note", reason, bridged, "gaps")
    return Track(rows, at, xs[rows], ys[rows], new, n, interval, clock, lost)


def _interval(
    times: np.ndarray, breaks: np.ndarray, rate: float | None, timed: bool, lost: LossLog
) -> float:
    found = interval_of(times, breaks)
    if rate is None:
        doubtful = found < 1000.0 / MAX_RATE or found > 1000.0 / MIN_RATE
        if timed and doubtful:
            doubt = f"samples {found:g} ms apart: are the times in milliseconds?"
            warnings.warn(doubt, stacklevel=4)
            lost.add(STEP, "note", f"doubt: {doubt}", len(times), "samples")
        return found
    stated = 1000.0 / rate
    if np.isfinite(found) and not 0.5 < found / stated < 2.0:
        raise DataError(
            "the times do not fit the sampling rate",
            expected=f"about {stated:g} ms from sample to sample",
            found=f"{found:g}",
            hint="Times are milliseconds",
        )
    return stated
