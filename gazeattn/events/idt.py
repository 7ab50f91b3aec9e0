"""I-DT: fixations are windows of samples that stay close together."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.events.gaps import Track, note_fragments, track
from gazeattn.events.spans import Counting, Detected, Unit, check_choice, runs

_CHUNK = 64  # samples looked at first when a window grows; doubled each time


def idt(
    time: ArrayLike | None,
    x: ArrayLike,
    y: ArrayLike,
    *,
    threshold: float,
    minimum_duration: float,
    unit: Unit = "ms",
    counting: Counting = "inclusive",
    max_gap: float = 0.0,
    rate: float | None = None,
    breaks: ArrayLike | None = None,
) -> Detected:
    """Find windows of small dispersion (Salvucci and Goldberg, 2000, I-DT), their rule.

    Start with a window of the minimum duration. While its dispersion, (max x - min x) +
    (max y - min y), is at most the threshold, it takes in the next sample; when it no longer is,
    the samples inside are a fixation and the search goes on after them. A first window that is
    too wide slides on by one sample. Implementations that give the first sample outside as the
    end of the fixation differ by that sample.

    Parameters
    ----------
    time, x, y, unit, max_gap, rate, breaks
        As for `gazeattn.events.ivt`.
    threshold : float
        Largest dispersion, in the unit of the position.
    minimum_duration : float
        Length of the first window. With ``counting="inclusive"``, n samples last n intervals, as
        in the published rule; with ``"span"``, n - 1 intervals.

    Returns
    -------
    Detected
        `saccades` are the samples between two fixations of one stretch.
    """
    if not threshold >= 0:
        raise DataError("the dispersion threshold must be 0 or more", found=threshold)
    if not minimum_duration >= 0:
        raise DataError("the minimum duration must be 0 or more", found=minimum_duration)
    check_choice("counting", counting, ("inclusive", "span"))
    samples = track(time, x, y, rate=rate, unit=unit, max_gap=max_gap, breaks=breaks)
    m = len(samples.rows)
    end = _window_ends(samples, minimum_duration, unit, counting)
    good = np.flatnonzero(end >= 0)
    good = good[_dispersion(samples, good, end[good]) <= threshold]
    first, last = _grow(samples, good, end, threshold)
    inside = np.zeros(m + 1, dtype=np.int64)
    np.add.at(inside, first, 1)
    np.add.at(inside, last + 1, -1)
    outside = np.cumsum(inside)[:-1] == 0
    lost = samples.lost
    # stretches that are too short for one window can hold no fixation
    stretch_first, stretch_last = runs(np.ones(m, dtype=bool), samples.start)
    short = int((end[stretch_first] < 0).sum()) if m else 0
    note_fragments(lost, "stretches between gaps", short, minimum_duration, unit, counting)
    samples.note_cut(lost, "fixations", first, last)
    # a run of outside samples lies between fixations where its neighbours in the stretch are in
    a, b = runs(outside, samples.start)
    stretch = np.cumsum(samples.start) - 1
    inner = np.zeros(len(a), dtype=bool)
    if len(a):
        inner = (a > stretch_first[stretch[a]]) & (b < stretch_last[stretch[b]])
    return Detected(samples.spans(first, last), samples.spans(a[inner], b[inner]), None, lost)


def _window_ends(samples: Track, minimum: float, unit: Unit, counting: Counting) -> np.ndarray:
    """Return the last sample of the shortest window from each sample on, -1 where none fits."""
    m = len(samples.rows)
    if not m:
        return np.zeros(0, dtype=np.int64)
    if unit == "samples":
        at, interval = samples.rows.astype(np.float64), 1.0
    else:
        at, interval = samples.time, samples.interval
    needed = minimum - (interval if counting == "inclusive" else 0.0)
    if not np.isfinite(needed):  # one sample, its interval unknown
        needed = 0.0 if minimum == 0 else np.inf
    begins = np.flatnonzero(samples.start)
    stop = np.append(begins[1:], m)[np.cumsum(samples.start) - 1]
    # times rise within a stretch only: put the stretches one behind the other
    stretch = np.cumsum(samples.start) - 1
    rising = at - at[begins][stretch]
    lengths = rising[np.append(begins[1:], m) - 1]
    rising += np.cumsum(np.append(0.0, lengths[:-1] + 1.0))[stretch]
    slack = 1e-6 * interval if np.isfinite(interval) else 0.0
    end = np.maximum(np.searchsorted(rising, rising + needed - slack), np.arange(m))
    # where no sample of the stretch is late enough, the end comes out in the next stretch
    return np.where(end < stop, end, -1)


def _dispersion(samples: Track, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the dispersion of windows, from ranges of lengths of powers of two."""
    result = np.zeros(len(first))
    if not len(first):
        return result
    level = np.frexp((last - first + 1).astype(np.float64))[1] - 1  # 2**level <= length
    for values in (samples.x, samples.y):
        high, low = values, values
        for k in range(int(level.max()) + 1):
            if k:
                half = 1 << (k - 1)
                high = np.maximum(high[:-half], high[half:])
                low = np.minimum(low[:-half], low[half:])
            here = np.flatnonzero(level == k)
            a, b = first[here], last[here] - (1 << k) + 1
            result[here] += np.maximum(high[a], high[b]) - np.minimum(low[a], low[b])
    return result


def _grow(
    samples: Track, good: np.ndarray, end: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return first and last sample of each fixation; one step per fixation, not per sample."""
    x, y = samples.x, samples.y
    m = len(x)
    begins = np.flatnonzero(samples.start)
    stops = np.append(begins[1:], m)[np.cumsum(samples.start) - 1] if m else begins
    firsts, lasts = [], []
    k = 0
    while k < len(good):
        a = int(good[k])
        b, stop = int(end[a]) + 1, int(stops[a])
        extremes = [x[a:b].max(), x[a:b].min(), y[a:b].max(), y[a:b].min()]
        chunk = _CHUNK
        while b < stop:
            c = min(b + chunk, stop)
            high_x = np.maximum(np.maximum.accumulate(x[b:c]), extremes[0])
            low_x = np.minimum(np.minimum.accumulate(x[b:c]), extremes[1])
            high_y = np.maximum(np.maximum.accumulate(y[b:c]), extremes[2])
            low_y = np.minimum(np.minimum.accumulate(y[b:c]), extremes[3])
            wide = (high_x - low_x) + (high_y - low_y) > threshold
            if wide[-1]:  # the dispersion never falls: the first wide one is the end
                b += int(wide.argmax())
                break
            extremes = [high_x[-1], low_x[-1], high_y[-1], low_y[-1]]
            b, chunk = c, chunk * 2
        firsts.append(a)
        lasts.append(b - 1)
        k = int(np.searchsorted(good, b))
    return np.array(firsts, dtype=np.int64), np.array(lasts, dtype=np.int64)
