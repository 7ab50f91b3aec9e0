"""HeatMatch: likeness of two scanpaths as fields of saccade density and orientation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.metrics._options import as_number, pair_of, wrong
from gazeattn.metrics.scanpath._blocks import CELLS, one_pair, positive, size_of, too_short, whole
from gazeattn.metrics.scanpath._packed import Floats, Packed, Part, as_path, pack
from gazeattn.metrics.scanpath._places import OUTSIDE, with_outside
from gazeattn.registry import register_metric

__all__ = ["HeatMatch", "heatmatch", "heatmatch_pairs"]


FIELDS = 1 << 22
"""Most grid points of all fields of one tile of paths: 32 MiB per quantity."""


class HeatMatch(NamedTuple):
    """Likeness in place and in direction, both from 0 to 1."""

    location: float
    direction: float


class _Fields(NamedTuple):
    """Per scanpath and grid point, (n_paths, n_points)."""

    standard: Floats
    orientation: Floats
    share: Floats


def _grid(size: tuple[float, float], grid: tuple[int, int]) -> tuple[Floats, Floats]:
    rows, columns = (whole("grid", v) for v in pair_of("grid", grid))
    x, y = np.meshgrid(np.linspace(1, size[0], columns), np.linspace(1, size[1], rows))
    return x.ravel(), y.ravel()


def _field(x: Floats, y: Floats, px: Floats, py: Floats, sigma: float) -> list[Floats]:
    """Return density, mean axial orientation and coherence of one path at all grid points."""
    dx, dy = np.diff(x), np.diff(y)
    squared = dx * dx + dy * dy
    squared[squared == 0] = 1.0  # a saccade of length 0 is a point
    angle = 2.0 * np.arctan2(dy, dx)
    mass, sine, cosine = (np.zeros(len(px)) for _ in range(3))
    for start in range(0, len(px), step := max(1, CELLS // max(len(dx), 1))):
        part = slice(start, start + step)
        from_x, from_y = px[part, None] - x[:-1], py[part, None] - y[:-1]
        along = np.clip((from_x * dx + from_y * dy) / squared, 0.0, 1.0)
        from_x -= along * dx
        from_y -= along * dy
        kernel = np.exp(-0.5 / sigma**2 * (from_x**2 + from_y**2))
        mass[part] = kernel.sum(axis=1)
        sine[part], cosine[part] = kernel @ np.sin(angle), kernel @ np.cos(angle)
    orientation = 0.5 * (np.arctan2(sine, cosine) % (2.0 * np.pi))
    coherence = np.divide(np.hypot(sine, cosine), mass, out=np.zeros_like(mass), where=mass > 0)
    total = mass.sum()
    return [mass / total if total > 0 else mass, orientation, coherence]


def _fields(
    paths: Packed,
    which: NDArray[np.int64],
    grid: tuple[Floats, Floats],
    sigma: float,
    tradeoff: float,
) -> _Fields:
    stacked = [
        _field(paths.x[k, : paths.length[k]], paths.y[k, : paths.length[k]], *grid, sigma)
        for k in which
    ]
    density, orientation, coherence = np.array(stacked).transpose(1, 0, 2)
    # the weight of a pair at a point is the product of what either path brings
    share = density ** (tradeoff / 2) * coherence ** ((1 - tradeoff) / 2)
    return _Fields(_standard(density), orientation, share)


def _standard(density: Floats) -> Floats:
    """Return rows with mean 0 and length 1; NaN for a constant one."""
    centred = density - density.mean(axis=1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    constant = np.ptp(density, axis=1, keepdims=True) == 0
    return np.divide(centred, length, out=np.full_like(centred, np.nan), where=~constant)


def _likeness(a: _Fields, b: _Fields, p: NDArray[np.intp], q: NDArray[np.intp]) -> Floats:
    """Return place and direction of pairs of fields, (n_pairs, 2)."""
    out = np.full((len(p), 2), np.nan)
    out[:, 0] = ((a.standard @ b.standard.T)[p, q] + 1.0) / 2.0
    for k, (m, n) in enumerate(zip(p, q, strict=True)):
        apart = np.abs(a.orientation[m] - b.orientation[n])
        apart = np.minimum(apart, np.pi - apart, out=apart)
        weight = a.share[m] * b.share[n]
        total = weight.sum()
        if total > 0:
            out[k, 1] = 1.0 - (weight @ apart) / total * (2.0 / np.pi)
    return out


@with_outside(*OUTSIDE)
def heatmatch_pairs(
    A: Packed,
    B: Packed,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    *,
    size: tuple[float, float],
    sigma: float = 50.0,
    grid: tuple[int, int] = (200, 200),
    tradeoff: float = 0.5,
    outside: str | None = None,
) -> Floats:
    """Return `heatmatch` of many pairs, (n_pairs, 2)."""
    points = _grid(size_of(size), grid)
    sigma = positive("sigma", sigma)
    if not 0.0 <= as_number(tradeoff) <= 1.0:
        raise wrong("tradeoff", "a number from 0 to 1", tradeoff)
    i, j = np.asarray(i, dtype=np.int64), np.asarray(j, dtype=np.int64)
    out = np.full((len(i), 2), np.nan)
    defined = np.flatnonzero((A.length[i] > 1) & (B.length[j] > 1))
    if len(defined) == 0:
        return out
    i, j = i[defined], j[defined]
    # fields are large and made once per tile of paths, whatever the number of pairs
    first = np.unique(i)
    second = np.unique(j)
    if A is B:
        first = second = np.union1d(first, second)
    count = max(1, FIELDS // len(points[0]))
    for tile in range(0, len(first), count):
        of_a = first[tile : tile + count]
        a = _fields(A, of_a, points, sigma, tradeoff)
        for other in range(0, len(second), count):
            of_b = second[other : other + count]
            here = np.flatnonzero(np.isin(i, of_a) & np.isin(j, of_b))
            if len(here):
                same = A is B and tile == other
                b = a if same else _fields(B, of_b, points, sigma, tradeoff)
                pairs = np.searchsorted(of_a, i[here]), np.searchsorted(of_b, j[here])
                out[defined[here]] = _likeness(a, b, *pairs)
    return np.clip(out, 0.0, 1.0, out=out)  # rounding


def _reason(a: ArrayLike, b: ArrayLike, **parameters: Any) -> str:
    if short := too_short(2)(a, b):
        return short
    at = np.zeros(1, dtype=np.int64)
    location, direction = heatmatch_pairs(pack([a]), pack([b]), at, at, **parameters)[0]
    if np.isnan(location):
        points = _grid(size_of(parameters["size"]), parameters.get("grid", (200, 200)))
        for which, path in (("first", as_path(a)), ("second", as_path(b))):
            sigma = float(parameters.get("sigma", 50.0))
            density = _field(path[:, 0], path[:, 1], *points, sigma)[0]
            if np.ptp(density) == 0:
                level = "0" if not density.any() else "the same"
                return f"the density of the {which} scanpath is {level} at every point of the grid"
    if np.isnan(direction):
        return "no point of the grid has a weight above 0, so the direction part is undefined"
    return ""


@register_metric(
    "heatmatch",
    task="scanpath",
    bounds=(0.0, 1.0),
    higher_is_better=True,
    symmetric=True,
    description="likeness of saccade density (place) and of mean saccade orientation (direction)",
    formula="(r(rho_a, rho_b) + 1) / 2; weighted mean of 1 - (2/pi) axial angle difference",
    citation="",
    convention="weights (rho_a rho_b)^(t/2) (R_a R_b)^((1-t)/2), t = tradeoff",
    kernel=heatmatch_pairs,
    columns=HeatMatch._fields,
    part_bounds=tuple(Part(name, 0.0, 1.0) for name in HeatMatch._fields),
    reason=_reason,
    outside=OUTSIDE,
)
def heatmatch(
    a: ArrayLike,
    b: ArrayLike,
    *,
    size: tuple[float, float],
    sigma: float = 50.0,
    grid: tuple[int, int] = (200, 200),
    tradeoff: float = 0.5,
    outside: str | None = None,
) -> HeatMatch:
    """Return the HeatMatch similarities of two scanpaths.

    Each saccade is a segment that spreads over the points of a grid with a Gaussian of its
    distance. Per point there are a density (sums to 1), a mean orientation without sign, and the
    coherence of the orientations (resultant length of doubled angles).

    Parameters
    ----------
    a, b : array_like, shape (n, 2) or (n, 3)
        Pixels; durations are not used.
    size : (width, height)
        Of the stimulus in pixels.
    sigma : float
        Of the Gaussian, in pixels.
    grid : (rows, columns)
        Points from pixel 1 to the size, in both directions.
    tradeoff : float
        1 weighs the points by density alone, 0 by coherence alone.
    outside : str, optional
        Fixations off the stimulus: "keep" (the default) takes them where they are, "clip" moves
        them to the border, "drop" leaves them out, "undefined" gives NaN, "raise" is an error.
        Without a choice there is a warning.

    Returns
    -------
    HeatMatch
        `location`: Pearson correlation of the densities, moved to 0..1. `direction`: weighted
        mean likeness of the orientations. NaN when a path has fewer than two fixations, or lies
        so far from the grid that its density is 0 everywhere; `direction` also when no point has
        a weight above 0. A saccade of length 0 counts as a point with orientation 0.
    """
    values = one_pair(
        heatmatch_pairs,
        a,
        b,
        size=size,
        sigma=sigma,
        grid=grid,
        tradeoff=tradeoff,
        outside=outside,
    )
    return HeatMatch(*map(float, values))
