"""Blinks from a lost pupil, and the doubtful samples around them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.events.gaps import track
from gazeattn.events.spans import STEP, Counting, Spans, Unit, as_floats, long_enough
from gazeattn.losses import LossLog


def find_blinks(
    time: ArrayLike | None,
    pupil: ArrayLike,
    *,
    minimum_duration: float = 50.0,
    maximum_duration: float = 1000.0,
    unit: Unit = "ms",
    counting: Counting = "inclusive",
    rate: float | None = None,
    breaks: ArrayLike | None = None,
) -> tuple[Spans, LossLog]:
    """Return the stretches without a pupil that are as long as blinks are.

    A pupil that is missing, 0 or below is lost. Longer losses are no blink but lost data; losses
    at the ends of a block or at a jump of the clock are of unknown length. All of these are
    counted, not made events. Where no sample at all has a pupil there is nothing to compare with.

    Parameters
    ----------
    time : array, shape (n,), or None
        Milliseconds; else `rate`, or ``unit="samples"``.
    pupil : array, shape (n,)
        Pupil size; or the position, where nothing else says whether the eye was seen.
    minimum_duration, maximum_duration : float
        Shortest and longest blink, in ms or samples as `unit` says.

    Returns
    -------
    blinks : Spans
    lost : LossLog
    """
    size = as_floats(pupil, "pupil")
    if not maximum_duration >= minimum_duration:
        raise DataError(
            "the longest blink must not be shorter than the shortest",
            expected=f"at least {minimum_duration:g}",
            found=maximum_duration,
        )
    gone = np.isnan(size) | (size <= 0)
    zeros = np.zeros(len(size))
    clock = track(time, zeros, zeros, rate=rate, unit=unit, breaks=breaks)
    lost = LossLog()
    none = clock.spans(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    if gone.all():
        lost.add(STEP, "note", "no pupil in any sample: no blinks looked for", 1, "streams")
        return none, lost
    every = clock.keep(gone[clock.rows], 0, "losses", unit)
    ends = np.append(clock.start[1:], True)
    at_start, at_end = np.zeros(clock.n, dtype=bool), np.zeros(clock.n, dtype=bool)
    at_start[clock.rows], at_end[clock.rows] = clock.start, ends
    cut = at_start[every.first] | at_end[every.last]
    short = ~long_enough(every, minimum_duration, unit, counting)
    length = every.last - every.first + 1.0 if unit == "samples" else every.duration
    if counting == "span":
        length = length - (1.0 if unit == "samples" else every.interval)
    long = length > maximum_duration * (1 + 1e-9)
    for what, mask in (
        ("pupil lost at the end of a stretch: length unknown, no blink", cut),
        (f"pupil lost for less than {minimum_duration:g} {unit}: no blink", short & ~cut),
        (f"pupil lost for more than {maximum_duration:g} {unit}: no blink", long & ~cut),
    ):
        lost.add(STEP, "note", what, int(mask.sum()), "losses")
    return every[~(cut | short | long)], lost


def padding_of(padding: float | tuple[float, float] | None) -> tuple[float, float]:
    """Return time before and after from one number, two, or none.

    Raises
    ------
    DataError
        A number is missing or below 0.
    """
    pair = (0.0, 0.0) if padding is None else padding
    before, after = pair if isinstance(pair, tuple) else (pair, pair)
    if not (before >= 0 and after >= 0):
        raise DataError("the padding of blinks must be 0 or more", found=padding)
    return float(before), float(after)


def near(
    time: ArrayLike,
    onset: ArrayLike,
    offset: ArrayLike,
    padding: float | tuple[float, float] | None = None,
) -> np.ndarray:
    """Mark samples within events or within the padding around them.

    The eyelid moves before the pupil is lost and after it is back, and drags the measured
    position along; these samples are no gaze.

    Parameters
    ----------
    time : array, shape (n,)
        Milliseconds, not falling; missing times are never marked.
    onset, offset : array, shape (n_events,)
        First and last time of each event; events with a missing time mark nothing.
    padding : float or (float, float), optional
        Milliseconds before and after (both inclusive).

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    before, after = padding_of(padding)
    times = as_floats(time, "time")
    low, high = as_floats(onset, "onset") - before, as_floats(offset, "offset") + after
    known = ~(np.isnan(low) | np.isnan(high)) & (high >= low)
    there = np.flatnonzero(~np.isnan(times))
    clock = times[there]
    first = np.searchsorted(clock, low[known], side="left")
    after_last = np.searchsorted(clock, high[known], side="right")
    steps = np.zeros(len(clock) + 1, dtype=np.int64)
    np.add.at(steps, first, 1)
    np.add.at(steps, after_last, -1)
    mask = np.zeros(len(times), dtype=bool)
    mask[there] = np.cumsum(steps)[:-1] > 0
    return mask
