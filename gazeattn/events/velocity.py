"""Velocity of the eye from positions, never across a gap."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.events.gaps import Track, track
from gazeattn.events.spans import check_choice

Smoothing = Literal["smooth", "central"]
Edges = Literal["zero", "one_sided", "missing"]
_REACH = {"smooth": 2, "central": 1}


def velocity(
    time: ArrayLike | None,
    x: ArrayLike,
    y: ArrayLike,
    *,
    method: Smoothing = "smooth",
    edges: Edges = "zero",
    rate: float | None = None,
    max_gap: float = 0.0,
    breaks: ArrayLike | None = None,
) -> np.ndarray:
    """Return the velocity along x and y, in units of the position per second.

    ``"smooth"`` is the moving average over five samples of Engbert and Kliegl (2003),
    ``rate / 6 * (x[n+2] + x[n+1] - x[n-1] - x[n-2])``; next to the end of a stretch the central
    difference ``rate / 2 * (x[n+1] - x[n-1])``, which is ``"central"`` everywhere. On an uneven
    clock the true times take the place of the rate. The first and the last sample of a stretch
    have no two neighbours; `edges` says what they get.

    Parameters
    ----------
    time : array, shape (n,), or None
        Milliseconds; without it `rate` is needed.
    x, y : array, shape (n,)
    edges : {"zero", "one_sided", "missing"}
        ``"zero"`` as the microsaccade toolbox does, the difference to the only neighbour, or NaN.
    rate, max_gap, breaks
        See `gazeattn.events.track`.

    Returns
    -------
    ndarray, shape (n, 2), float64
        NaN at missing samples and where several samples have one and the same time.

    References
    ----------
    Engbert and Kliegl (2003), Microsaccades uncover the orientation of covert attention.
    """
    samples = track(time, x, y, rate=rate, max_gap=max_gap, breaks=breaks)
    return samples.spread(track_velocity(samples, method, edges))


def track_velocity(
    samples: Track, method: Smoothing = "smooth", edges: Edges = "zero"
) -> np.ndarray:
    """Return the velocity of the samples that have a position, shape (m, 2)."""
    check_choice("velocity method", method, tuple(_REACH))
    check_choice("edge rule", edges, ("zero", "one_sided", "missing"))
    m = len(samples.rows)
    result = np.full((m, 2), np.nan)
    if not m:
        return result
    index = np.arange(m)
    begins = np.flatnonzero(samples.start)
    ends = np.append(begins[1:], m) - 1
    stretch = np.cumsum(samples.start) - 1
    before, after = index - begins[stretch], ends[stretch] - index
    reach = np.minimum(np.minimum(before, after), _REACH[method])

    two = np.flatnonzero(reach == 2)
    _put(result, samples, two, lambda v: v[two + 2] + v[two + 1] - v[two - 1] - v[two - 2], 6)
    one = np.flatnonzero(reach == 1)
    _put(result, samples, one, lambda v: v[one + 1] - v[one - 1], 2)
    edge = np.flatnonzero(reach == 0)
    if edges == "zero":
        result[edge] = 0.0
    elif edges == "one_sided":
        edge = edge[before[edge] + after[edge] > 0]  # a lone sample has no velocity
        low = edge - (before[edge] > 0)
        _put(result, samples, edge, lambda v: v[low + 1] - v[low], 1)
    return result


def _put(result: np.ndarray, samples: Track, at: np.ndarray, change, intervals: int) -> None:  # type: ignore[no-untyped-def]
    """Fill in change of position by change of time, by the rate itself on an even clock."""
    if not len(at):
        return
    elapsed = change(samples.time)
    scale = np.full(len(at), np.nan)
    unit = 1000.0 if samples.clock else 1.0
    np.divide(unit, elapsed, out=scale, where=elapsed > 0)
    # one and the same factor for all samples keeps ties at a threshold ties
    even = np.abs(elapsed - intervals * samples.interval) <= 1e-9 * np.abs(elapsed)
    scale[even & (elapsed > 0)] = unit / samples.interval / intervals
    result[at, 0] = scale * change(samples.x)
    result[at, 1] = scale * change(samples.y)
