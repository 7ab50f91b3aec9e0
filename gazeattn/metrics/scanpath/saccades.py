"""Amplitudes and directions of saccades, and how far two groups of scanpaths differ in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import wasserstein_distance

from gazeattn.errors import DataError
from gazeattn.metrics._arrays import EVERY, as_floats
from gazeattn.metrics._options import positive, whole
from gazeattn.metrics.scanpath._packed import Floats, Packed, pack
from gazeattn.registry import register_metric

__all__ = [
    "Distribution",
    "Saccades",
    "amplitude_distance",
    "amplitude_distribution",
    "direction_distance",
    "direction_distribution",
    "saccades",
]

Paths = Packed | Sequence[ArrayLike]


@dataclass(frozen=True)
class Saccades:
    """Saccades of many scanpaths, one after the other, each array (n_saccades,).

    Attributes
    ----------
    path : ndarray of int
        Which scanpath.
    amplitude : ndarray
        In pixels, or in degrees where `pixels_per_degree` was given.
    direction : ndarray
        Degrees from 0 to below 360, counterclockwise as seen on the screen: 0 right, 90 up. NaN
        for a saccade of length 0.
    """

    path: NDArray[np.int64]
    amplitude: Floats
    direction: Floats


@dataclass(frozen=True)
class Distribution:
    """Shares per bin.

    Attributes
    ----------
    edges : ndarray, shape (n_bins + 1,)
    share : ndarray, shape (n_bins,)
        Of the saccades inside the bins; NaN when there is none.
    n, outside, undefined : int
        Saccades inside the bins, outside of them, and without a value (length 0).
    """

    edges: Floats
    share: Floats
    n: int
    outside: int
    undefined: int


def saccades(paths: Paths, *, pixels_per_degree: float | None = None) -> Saccades:
    """Return the saccades between consecutive fixations of scanpaths.

    Parameters
    ----------
    paths : sequence of array_like, or Packed
        In pixels, y down.
    pixels_per_degree : float, optional
        Gives amplitudes in degrees of visual angle (a constant scale: small angles).
    """
    scale = 1.0 if pixels_per_degree is None else positive("pixels_per_degree", pixels_per_degree)
    packed = paths if isinstance(paths, Packed) else pack(paths)
    there = packed.valid()[:, 1:]
    dx = np.diff(packed.x, axis=1)[there]
    dy = np.diff(packed.y, axis=1)[there]
    amplitude = np.hypot(dx, dy)
    direction = np.degrees(np.arctan2(-dy, dx)) % 360.0
    direction[direction == 360.0] = 0.0  # a tiny negative angle rounds up
    direction[amplitude == 0] = np.nan
    path = np.repeat(np.arange(len(packed)), np.maximum(packed.length - 1, 0))
    return Saccades(path, amplitude / scale, direction)


def _distribution(values: Floats, edges: Floats) -> Distribution:
    known = values[~np.isnan(values)]
    counts = np.histogram(known, bins=edges)[0]
    n = int(counts.sum())
    share = counts / n if n else np.full(len(counts), np.nan)
    return Distribution(edges, share, n, len(known) - n, len(values) - len(known))


def amplitude_distribution(
    paths: Paths, *, edges: ArrayLike, pixels_per_degree: float | None = None
) -> Distribution:
    """Return the distribution of saccade amplitudes.

    Parameters
    ----------
    paths, pixels_per_degree
        As in `saccades`.
    edges : array_like, shape (n_bins + 1,)
        Rising, in the unit of the amplitudes. State them: shares depend on them. Amplitudes
        outside are counted.
    """
    bounds = as_floats(edges, "edges", EVERY).astype(np.float64)
    if bounds.ndim != 1 or len(bounds) < 2 or not (np.diff(bounds) > 0).all():
        raise DataError("edges is wrong", expected="at least two rising numbers", found=str(edges))
    return _distribution(saccades(paths, pixels_per_degree=pixels_per_degree).amplitude, bounds)


def direction_distribution(paths: Paths, *, bins: int = 36) -> Distribution:
    """Return the distribution of saccade directions in equal bins; the first is centred on 0.

    Edges run from ``-180 / bins`` to ``360 - 180 / bins`` degrees, so that exactly horizontal and
    vertical saccades do not lie on an edge when `bins` is a multiple of 4.
    """
    count = whole("bins", bins)
    half = 180.0 / count
    edges: Floats = np.arange(count + 1, dtype=np.float64) * 2.0 * half - half
    direction = saccades(paths).direction
    wrapped = np.where(direction >= 360.0 - half, direction - 360.0, direction)
    return _distribution(wrapped, edges)


@register_metric(
    "amplitude_distance",
    task="scanpath_groups",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=True,
    description="how far the saccade amplitudes of two groups of scanpaths differ",
    formula="Wasserstein-1 distance of the two empirical distributions",
    citation="",
    convention="no bins; pixels, or degrees with pixels_per_degree",
)
def amplitude_distance(
    paths: Paths, reference: Paths, *, pixels_per_degree: float | None = None
) -> float:
    """Return the Wasserstein-1 distance of the saccade amplitudes of two groups of scanpaths.

    NaN when a group has no saccade. In pixels, or degrees with `pixels_per_degree`.
    """
    ours, theirs = (
        saccades(group, pixels_per_degree=pixels_per_degree).amplitude
        for group in (paths, reference)
    )
    if len(ours) == 0 or len(theirs) == 0:
        return float("nan")
    return float(wasserstein_distance(ours, theirs))


@register_metric(
    "direction_distance",
    task="scanpath_groups",
    bounds=(0.0, 180.0),
    higher_is_better=False,
    symmetric=True,
    description="how far the saccade directions of two groups of scanpaths differ, in degrees",
    formula="Wasserstein-1 distance on the circle: min over c of the integral of |F - G - c|",
    citation="Rabin, Delon & Gousseau 2011, J. Mathematical Imaging and Vision 41:147-167",
    convention="no bins; saccades of length 0 have no direction",
)
def direction_distance(paths: Paths, reference: Paths) -> float:
    """Return the Wasserstein-1 distance of saccade directions on the circle, in degrees.

    0 for equal distributions, 180 for two opposite directions. Saccades of length 0 have no
    direction and are left out; NaN when nothing is left in a group.
    """
    ours, theirs = (saccades(group).direction for group in (paths, reference))
    ours, theirs = np.sort(ours[~np.isnan(ours)]), np.sort(theirs[~np.isnan(theirs)])
    if len(ours) == 0 or len(theirs) == 0:
        return float("nan")
    points = np.unique(np.concatenate([[0.0], ours, theirs]))
    gap = np.searchsorted(ours, points, side="right") / len(ours)
    gap -= np.searchsorted(theirs, points, side="right") / len(theirs)
    width = np.diff(np.append(points, 360.0))
    # the best place to cut the circle open is a weighted median of the difference of the CDFs
    order = np.argsort(gap)
    reached = np.cumsum(width[order])
    middle = gap[order][np.searchsorted(reached, reached[-1] / 2)]
    return float((np.abs(gap - middle) * width).sum())
