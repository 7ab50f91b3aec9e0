"""Scasim: edit distance of scanpaths in milliseconds, with angles on the sphere of gaze."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.metrics._options import share
from gazeattn.metrics.scanpath._blocks import (
    Block,
    one_of,
    one_pair,
    over_pairs,
    positive,
    size_of,
    too_short,
)
from gazeattn.metrics.scanpath._packed import Floats, Packed, as_path
from gazeattn.metrics.scanpath._places import OUTSIDE, with_durations, with_outside
from gazeattn.metrics.scanpath.warping import last_cells
from gazeattn.registry import register_metric

__all__ = ["scasim", "scasim_pairs"]

NORMALISE = ("none", "durations", "fixations")


def _directions(x: Floats, y: Floats, centre: tuple[float, float], scale: float) -> Floats:
    """Return unit vectors of gaze (3, n, n_pairs): the screen is a plane at distance 1."""
    inside = np.isfinite(x)
    flat = [np.where(inside, (v - c) * scale, 0.0) for v, c in zip((x, y), centre, strict=True)]
    length = np.sqrt(flat[0] ** 2 + flat[1] ** 2 + 1.0)
    return np.stack([*flat, np.ones_like(length)]) / length


def _table(block: Block, u: Floats, v: Floats, modulator: float) -> Floats:
    """Fill the table of edit costs over its anti-diagonals, for all pairs at once."""
    n, m = len(block.ax), len(block.bx)
    ends = last_cells(block)
    out = np.empty(len(block.na))
    zero = np.zeros((1, len(block.na)))
    # cost of deleting the first r fixations, and of inserting the first c
    left = np.concatenate([zero, np.cumsum(block.ad, axis=0)])
    top = np.concatenate([zero, np.cumsum(block.bd, axis=0)])
    reverse, durations = v[:, ::-1], block.bd[::-1]
    before, previous, current = (np.full((n + 1, len(block.na)), np.inf) for _ in range(3))
    before[0], previous[0], previous[1] = 0.0, top[1], left[1]
    for d in range(n + m - 1):  # cell (r + 1, d - r + 1) of the table
        first, stop = max(0, d - m + 1), min(d + 1, n)
        columns = slice(m - 1 - d + first, m - 1 - d + stop)
        a, b = block.ad[first:stop], durations[columns]
        difference = u[:, first:stop] - reverse[:, columns]
        # from the chord: exact at 0, where the arc cosine of a rounded product is not
        chord = np.sqrt(np.einsum("kij,kij->ij", difference, difference))
        angle = np.degrees(2.0 * np.arcsin(np.minimum(chord / 2.0, 1.0)))
        weight = modulator**angle
        cost = np.abs(a - b) * weight + (a + b) * (1.0 - weight) + before[first:stop]
        np.minimum(cost, previous[first:stop] + a, out=cost)
        np.minimum(cost, previous[first + 1 : stop + 1] + b, out=cost)
        current[first + 1 : stop + 1] = cost
        if first == 0 and d + 2 <= m:
            current[0] = top[d + 2]
        if stop < n:
            current[stop + 1] = left[stop + 1]
        here, row = ends[d]
        if len(here):
            out[here] = current[row + 1, here]
        before, previous, current = previous, current, before
    return out


@with_durations
@with_outside(*OUTSIDE)
def scasim_pairs(
    A: Packed,
    B: Packed,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    *,
    size: tuple[float, float],
    distance: float,
    unit_size: float,
    modulator: float = 0.83,
    normalise: str = "none",
    outside: str | None = None,
) -> Floats:
    """Return `scasim` of many pairs, (n_pairs,)."""
    width, height = size_of(size)
    one_of("normalise", normalise, NORMALISE)
    scale = positive("unit_size", unit_size) / positive("the viewing distance", distance)
    modulator = share("modulator", modulator, one=True)
    centre = (width / 2, height / 2)

    def work(block: Block) -> Floats:
        u = _directions(block.ax, block.ay, centre, scale)
        v = _directions(block.bx, block.by, centre, scale)
        cost = _table(block, u, v, modulator)
        spent = block.ad.sum(axis=0) + block.bd.sum(axis=0)
        cost = np.where(np.isnan(spent), np.nan, cost)
        if normalise == "fixations":
            cost /= block.na + block.nb
        elif normalise == "durations":
            cost = np.divide(cost, spent, out=np.full_like(cost, np.nan), where=spent > 0)
        return cost

    return over_pairs(A, B, i, j, work, wide=True)


def _reason(a: ArrayLike, b: ArrayLike, **parameters: object) -> str:
    empty = too_short(1)(a, b)
    if empty:
        return empty
    times = [p[:, 2] if p.shape[1] == 3 else np.array([np.nan]) for p in (as_path(a), as_path(b))]
    if any(np.isnan(t).any() for t in times):
        return "a duration is missing"
    if parameters.get("normalise") == "durations" and sum(t.sum() for t in times) == 0:
        return "all durations are 0"
    return ""


@register_metric(
    "scasim",
    task="scanpath",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=True,
    description="edit distance in ms: fixation time spent at different places or moments",
    formula="gap = duration; substitution = |s - t| w + (s + t)(1 - w), w = modulator^angle",
    citation="von der Malsburg & Vasishth 2011, Journal of Memory and Language 65(2):109-127",
    convention="angle between the lines of sight, viewer in front of the centre of the stimulus",
    kernel=scasim_pairs,
    columns=None,
    reason=_reason,
    outside=OUTSIDE,
)
def scasim(
    a: ArrayLike,
    b: ArrayLike,
    *,
    size: tuple[float, float],
    distance: float,
    unit_size: float,
    modulator: float = 0.83,
    normalise: str = "none",
    outside: str | None = None,
) -> float:
    """Return the scasim dissimilarity of two scanpaths, in milliseconds.

    Parameters
    ----------
    a, b : array_like, shape (n, 3)
        x, y in pixels, duration in ms.
    size : (width, height)
        Of the stimulus in pixels; the viewer sits in front of its centre.
    distance, unit_size : float
        Distance of the eyes from the screen and size of one pixel, in the same unit.
    modulator : float
        Above 0, at most 1: how fast likeness falls with each degree of visual angle.
    normalise : {"none", "durations", "fixations"}
        Divide by the summed durations of both paths (then 0 to 1), or by their fixations.
    outside : str, optional
        Fixations off the stimulus: "keep" (the default) takes them where they are, "clip" moves
        them to the border, "drop" leaves them out, "undefined" gives NaN, "raise" is an error.
        Without a choice there is a warning.

    Returns
    -------
    float
        0 or more; NaN when a scanpath is empty or a duration is missing. A path is at distance 0
        from itself.

    References
    ----------
    von der Malsburg & Vasishth 2011, Journal of Memory and Language 65(2):109-127.
    """
    return float(
        one_pair(
            scasim_pairs,
            a,
            b,
            size=size,
            distance=distance,
            unit_size=unit_size,
            modulator=modulator,
            normalise=normalise,
            outside=outside,
        )
    )
