"""Saccades and microsaccades by a threshold that the noise of the velocity sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.events.gaps import track
from gazeattn.events.spans import (
    STEP,
    Counting,
    Detected,
    Spans,
    Unit,
    as_floats,
    check_choice,
    inside,
)
from gazeattn.events.velocity import Edges, Smoothing, track_velocity

Threshold = Literal["engbert2015", "engbert2003", "mad", "std"]
THRESHOLDS = ("engbert2015", "engbert2003", "mad", "std")


class NoSpreadError(DataError):
    """The velocity has no spread along an axis, so that no threshold can be taken from it."""


def velocity_noise(velocity: np.ndarray, method: Threshold = "engbert2015") -> np.ndarray:
    """Return the spread of the velocity along each axis, missing values left out.

    Parameters
    ----------
    velocity : ndarray, shape (n, 2)
    method : {"engbert2015", "engbert2003", "mad", "std"}
        ``sqrt(median((v - median v)^2))`` (Engbert et al., 2015),
        ``sqrt(median(v^2) - median(v)^2)`` (Engbert and Kliegl, 2003),
        ``median(|v - median v|)``, or the population standard deviation.

    Returns
    -------
    ndarray, shape (2,)
        NaN where there is no velocity.
    """
    check_choice("threshold method", method, THRESHOLDS)
    result = np.full(2, np.nan)
    for axis in (0, 1):
        v = velocity[:, axis]
        v = v[~np.isnan(v)]
        if not len(v):
            continue
        middle = np.median(v)
        if method == "engbert2015":
            result[axis] = np.sqrt(np.median((v - middle) ** 2))
        elif method == "engbert2003":
            # rounding may leave a number just below 0 where all velocities are equal
            result[axis] = np.sqrt(max(np.median(v**2) - middle**2, 0.0))
        elif method == "mad":
            result[axis] = np.median(np.abs(v - middle))
        else:
            result[axis] = np.std(v)
    return result


def engbert_kliegl(
    time: ArrayLike | None,
    x: ArrayLike,
    y: ArrayLike,
    *,
    factor: float = 6.0,
    minimum_saccade: float = 6.0,
    minimum_duration: float = 0.0,
    maximum_microsaccade: float = 0.0,
    unit: Unit = "ms",
    counting: Counting = "inclusive",
    threshold: Threshold | tuple[float, float] = "engbert2015",
    max_gap: float = 0.0,
    velocity: ArrayLike | None = None,
    smoothing: Smoothing = "smooth",
    edges: Edges = "zero",
    rate: float | None = None,
    breaks: ArrayLike | None = None,
) -> Detected:
    """Find saccades of any size as outliers of the velocity.

    A sample is part of a saccade when ``(vx / rx)^2 + (vy / ry)^2 > 1`` with ``r = factor *
    noise`` along each axis; runs that last long enough are saccades. What lies between saccades is
    fixation, shorter runs included.

    Parameters
    ----------
    time, x, y, unit, counting, max_gap, velocity, smoothing, edges, rate, breaks
        As for `gazeattn.events.ivt`.
    factor : float
        Multiple of the noise; 5 and 6 are common (lambda, vfac).
    minimum_saccade : float
        Shorter runs are no saccades: 3 samples in the toolbox, so 6 ms at 500 Hz.
    minimum_duration : float
        Shortest fixation.
    maximum_microsaccade : float
        Saccades of up to this amplitude, in the unit of the position, are microsaccades: they go
        to ``other["microsaccade"]`` and do not end a fixation. 0: every one is a saccade.
    threshold : str or (float, float)
        How the noise is taken from the velocity (`velocity_noise`), or the noise itself along x
        and y, in position per second.

    Returns
    -------
    Detected
        ``info["radius"]`` is (rx, ry).

    Raises
    ------
    NoSpreadError
        The velocity along an axis has no spread although the eye moved (more than half of the
        samples repeat their position), so that every sample would be an outlier.
    DataError
        As for `ivt`.

    References
    ----------
    Engbert and Kliegl (2003); Engbert and Mergenthaler (2006); Engbert et al. (2015), Microsaccade
    toolbox.
    """
    if not factor > 0:
        raise DataError("the factor must be above 0", found=factor)
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
    if isinstance(threshold, str):
        noise = velocity_noise(speeds, threshold)
    else:
        noise = np.asarray(threshold, dtype=np.float64)
        if noise.shape != (2,):
            raise DataError("the noise must be two numbers, along x and y", found=threshold)
    radius = factor * noise
    known = ~np.isnan(speeds).any(axis=1)
    moved = known & (speeds != 0).any(axis=1)
    if moved.any() and not (radius > 0).all():
        raise NoSpreadError(
            "the velocity has no spread along an axis: no threshold can be set",
            expected="noise above 0 along x and y",
            found=f"{noise[0]:g}, {noise[1]:g} ({threshold})",
            hint="Give threshold='std' or the noise itself, threshold=(x, y)",
        )
    fast = np.zeros(len(known), dtype=bool)
    if moved.any():
        fast = (speeds[:, 0] / radius[0]) ** 2 + (speeds[:, 1] / radius[1]) ** 2 > 1
    lost = samples.lost
    lost.add(STEP, "undefined", "no velocity", int((~known).sum()), "samples")
    saccades = samples.keep(fast, minimum_saccade, "saccades", unit, counting, lost)
    saccades, other = split_microsaccades(x, y, saccades, maximum_microsaccade)
    still = known & ~inside(samples.n, saccades)[samples.rows]
    fixations = samples.keep(still, minimum_duration, "fixations", unit, counting, lost)
    info: dict[str, object] = {"radius": (float(radius[0]), float(radius[1]))}
    return Detected(fixations, saccades, samples.spread(speeds), lost, info, other)


def split_microsaccades(
    x: ArrayLike, y: ArrayLike, saccades: Spans, maximum: float
) -> tuple[Spans, dict[str, Spans]]:
    """Return larger saccades, and the others as ``"microsaccade"`` where a maximum is set."""
    if not maximum >= 0:
        raise DataError("the largest microsaccade must be 0 or more", found=maximum)
    if maximum == 0:
        return saccades, {}
    xs, ys = as_floats(x, "x"), as_floats(y, "y")
    first, last = saccades.first, saccades.last
    small = np.hypot(xs[last] - xs[first], ys[last] - ys[first]) <= maximum
    return saccades[~small], {"microsaccade": saccades[small]}


@dataclass(frozen=True)
class Binocular:
    """Saccades that both eyes made.

    Attributes
    ----------
    spans : Spans
        From the earlier onset to the later offset.
    left, right : ndarray of bool
        Which events of each eye are part of one; the others were made by one eye only.
    """

    spans: Spans
    left: np.ndarray
    right: np.ndarray


def binocular(left: Spans, right: Spans) -> Binocular:
    """Join events of the two eyes that share at least one sample (Engbert and Kliegl, 2003).

    Chains count as one event: two of the left eye that overlap one of the right eye.

    Parameters
    ----------
    left, right : Spans
        Events of each eye, on the same samples.
    """
    first = np.concatenate([left.first, right.first])
    last = np.concatenate([left.last, right.last])
    eye = np.repeat([0, 1], [len(left), len(right)])
    order = np.argsort(first, kind="stable")
    reach = np.maximum.accumulate(last[order]) if len(order) else last
    new = np.ones(len(order), dtype=bool)
    new[1:] = first[order][1:] > reach[:-1]
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    n = int(new.sum())
    both = np.zeros(n, dtype=bool)
    member = [np.zeros(n, dtype=bool) for _ in (0, 1)]
    for k in (0, 1):
        member[k][group[eye == k]] = True
    both = member[0] & member[1]

    def extreme(values: tuple[np.ndarray, np.ndarray], how: np.ufunc, fill: float) -> np.ndarray:
        joined = np.concatenate(values)
        result = np.full(n, fill, dtype=np.float64)
        how.at(result, group, joined)
        return result[both]

    spans = Spans(
        extreme((left.first, right.first), np.minimum, np.inf).astype(np.int64),
        extreme((left.last, right.last), np.maximum, -np.inf).astype(np.int64),
        extreme((left.onset, right.onset), np.minimum, np.inf),
        extreme((left.offset, right.offset), np.maximum, -np.inf),
        left.interval if np.isfinite(left.interval) else right.interval,
    )
    return Binocular(spans, both[group[eye == 0]], both[group[eye == 1]])
