"""Mean shift with a flat kernel, all seeds at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gazeattn.metrics.scanpath._packed import Floats

STOP = 1e-3
"""Share of the bandwidth that a mean may still move when it counts as settled."""

MOST = 300
"""Most steps of a mean."""

CELLS = 1 << 17
"""Distances at once: 1 MiB."""


def mean_shift(points: Floats, bandwidth: float) -> Floats:
    """Return cluster centres, (n_clusters, 2), the one with most points around it first.

    Every point is a seed. A seed moves to the mean of the points within the bandwidth until it
    settles; of centres closer than the bandwidth the one with most points stays (Comaniciu and
    Meer 2002). The same bits as ``sklearn.cluster.MeanShift(bandwidth=bandwidth)``: points are
    summed in the order in which its search tree lists them.

    Parameters
    ----------
    points : ndarray, shape (n_points, 2), float64
    bandwidth : float
        In the unit of the points.
    """
    from sklearn.neighbors import KDTree  # heavy, and needed for building alone

    ordered = points[np.asarray(KDTree(points, leaf_size=30).get_arrays()[1])]
    moving = np.unique(points, axis=0)
    settled: dict[tuple[float, float], int] = {}
    for step in range(MOST + 1):
        means, counts = _means(ordered, moving, bandwidth)
        moved = np.sqrt(((means - moving) ** 2).sum(axis=1))
        done = (moved <= STOP * bandwidth) | (step == MOST)
        settled.update(zip(map(tuple, means[done].tolist()), counts[done].tolist(), strict=True))
        if done.all():
            break
        # seeds that met stay together
        moving = np.unique(means[~done, 0] + 1j * means[~done, 1]).view(np.float64).reshape(-1, 2)
    ranked = sorted(settled.items(), key=lambda item: (item[1], item[0]), reverse=True)
    return _apart(np.array([centre for centre, _ in ranked]), bandwidth)


def estimate_bandwidth(points: Floats, quantile: float) -> float:
    """Return the mean distance to the farthest of the nearest share of points, itself included."""
    k = max(1, int(len(points) * quantile))
    total, step = 0.0, max(1, CELLS // len(points))
    for at in range(0, len(points), step):
        part = points[at : at + step]
        square = (part[:, :1] - points[:, 0]) ** 2 + (part[:, 1:] - points[:, 1]) ** 2
        total += float(np.sqrt(np.partition(square, k - 1, axis=1)[:, k - 1]).sum())
    return total / len(points)


def _means(points: Floats, at: Floats, bandwidth: float) -> tuple[Floats, NDArray[np.int64]]:
    """Return the mean of the points within the bandwidth of each place, and their number."""
    means, counts = np.empty_like(at), np.empty(len(at), dtype=np.int64)
    step = max(1, CELLS // len(points))
    for start in range(0, len(at), step):
        part = slice(start, start + step)
        apart = points[:, :, None] - at[part].T
        near = (apart**2).sum(axis=1) <= bandwidth**2
        counts[part] = near.sum(axis=0)
        total = (near[:, None] * points[:, :, None]).sum(axis=0)  # row by row, never in halves
        means[part] = total.T / counts[part, None]
    return means, counts


def _apart(centres: Floats, bandwidth: float) -> Floats:
    """Return the centres that no earlier one lies within the bandwidth of."""
    keep = []
    left = np.arange(len(centres))
    while len(left):
        first = centres[left[0]]
        keep.append(left[0])
        near = ((centres[left] - first) ** 2).sum(axis=1) <= bandwidth**2
        near[0] = True
        left = left[~near]
    return centres[keep]
