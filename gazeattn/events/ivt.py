"""I-VT: fixations are runs of samples slower than a threshold."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.events.gaps import track
from gazeattn.events.spans import STEP, Counting, Detected, Unit
from gazeattn.events.velocity import Edges, Smoothing, track_velocity


def ivt(
    time: ArrayLike | None,
    x: ArrayLike,
    y: ArrayLike,
    *,
    threshold: float,
    minimum_duration: float,
    minimum_saccade: float = 0.0,
    unit: Unit = "ms",
    counting: Counting = "inclusive",
    max_gap: float = 0.0,
    velocity: ArrayLike | None = None,
    smoothing: Smoothing = "smooth",
    edges: Edges = "zero",
    rate: float | None = None,
    breaks: ArrayLike | None = None,
) -> Detected:
    """Split samples by their speed (Salvucci and Goldberg, 2000, I-VT).

    Samples slower than the threshold that follow each other are a fixation, if they last long
    enough; the others are a saccade.

    Parameters
    ----------
    time : array, shape (n,), or None
        Milliseconds. Without it give `rate`, or ``unit="samples"``, where the threshold is then a
        change of position per sample.
    x, y : array, shape (n,)
        Position; the threshold is in the same unit per second.
    threshold : float
        Speed at which a saccade begins.
    minimum_duration, minimum_saccade : float
        Shorter fixations and saccades are dropped and counted; in ms or samples as `unit` says.
    counting : {"inclusive", "span"}
        How the minimum is compared: see `gazeattn.events.long_enough`. Reference implementations
        count the time from first to last sample (``"span"``).
    max_gap : float
        Missing time that may be bridged, see `gazeattn.events.track`.
    velocity : array, shape (n, 2), optional
        Ready velocities per second, used in place of those from `smoothing` and `edges`.

    Raises
    ------
    DataError
        No time axis and no unit, times that fall, arrays that do not fit each other.
    """
    if not threshold > 0:
        raise DataError("the velocity threshold must be above 0", found=threshold)
    samples = track(time, x, y, rate=rate, unit=unit, max_gap=max_gap, breaks=breaks)
    if velocity is None:
        speeds = track_velocity(samples, smoothing, edges)
    else:
        given = np.asarray(velocity, dtype=np.float64)
        if given.shape != (samples.n, 2):
            raise DataError(
                "velocity has the wrong shape", expected=(samples.n, 2), found=given.shape
            )
        speeds = given[samples.rows]
    speed = np.hypot(speeds[:, 0], speeds[:, 1])
    lost = samples.lost
    lost.add(STEP, "undefined", "no velocity", int(np.isnan(speed).sum()), "samples")
    fixations = samples.keep(speed < threshold, minimum_duration, "fixations", unit, counting, lost)
    saccades = samples.keep(speed >= threshold, minimum_saccade, "saccades", unit, counting, lost)
    return Detected(fixations, saccades, samples.spread(speeds), lost)
