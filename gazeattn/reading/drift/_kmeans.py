"""K-means of numbers on a line: the best clusters are intervals, found exactly."""

from __future__ import annotations

import numpy as np

CELLS_AT_ONCE = 2**21  # bounds the memory of the tables of interval costs


def kmeans_1d(values: np.ndarray, k: int) -> np.ndarray:
    """Cut numbers into at most `k` clusters with the smallest sum of squares within clusters.

    Parameters
    ----------
    values : ndarray, shape (n,)
        At least one finite number.
    k
        Number of clusters; fewer come out where there are fewer different numbers.

    Returns
    -------
    ndarray, shape (n,), int64
        Cluster of each number, from 0 for the smallest numbers; equal numbers share a cluster.

    Notes
    -----
    Dynamic programming over sorted numbers (Wang and Song 2011, The R Journal 3(2), 29-33). No
    cluster of the best clustering can cost more than all clusters of another one, so only
    intervals up to that cost are looked at. Of equally good clusterings, the one whose last
    clusters are smallest is returned.
    """
    order = values.argsort()
    ranked = values[order]
    new = np.empty(len(ranked), dtype=bool)
    new[0] = True
    np.not_equal(ranked[1:], ranked[:-1], out=new[1:])
    heads = new.nonzero()[0]
    label = np.empty(len(values), dtype=np.int64)
    if k >= len(heads):
        label[order] = new.cumsum() - 1
        return label
    sums = _running_sums(ranked, heads)
    mark = np.zeros(len(ranked), dtype=np.int64)
    mark[heads[_cut(sums, k)]] = 1
    label[order] = mark.cumsum()
    return label


def _running_sums(ranked: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """Return counts, sums and sums of squares of the points before each, shape (3, n + 1)."""
    sums = np.zeros((3, len(heads) + 1))
    centred = ranked - ranked[len(ranked) // 2]  # against cancellation in the sums
    sums[0, :-1] = heads
    sums[0, -1] = len(ranked)
    last = sums[0, 1:].astype(np.intp) - 1
    sums[1, 1:] = centred.cumsum()[last]
    sums[2, 1:] = (centred * centred).cumsum()[last]
    return sums


def _cost(size: np.ndarray, total: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return the sum of squared distances to the mean."""
    return squares - total * total / size


def _cut(sums: np.ndarray, k: int) -> list[int]:
    """Return the first points of the intervals after the first one; ``k`` is below n."""
    n = sums.shape[1] - 1
    if k == 1:
        return []
    if k == 2:
        both = _cost(*sums[:, 1:-1]) + _cost(*(sums[:, -1:] - sums[:, 1:-1]))
        return [n - 1 - int(both[::-1].argmin())]
    widest = _widest(sums, k)
    # kept[j, widest + e]: least cost of the first e points in j intervals; infinite before e = 0
    kept = np.empty((k, widest + n + 1))
    kept.fill(np.inf)
    kept[1, widest + 1 :] = _cost(*sums[:, 1:])
    padded = np.zeros((3, widest + n + 1))
    padded[:, widest:] = sums
    step = max(1, CELLS_AT_ONCE // widest)
    costs = _band(sums, padded, widest, 0, n) if step >= n else None
    if costs is not None:
        before, scratch = _shifted(kept, widest, 0, n), np.empty_like(costs)
        for earlier, now in zip(before[1:-1], kept[2:, widest + 1 :], strict=True):
            np.add(earlier, costs, out=scratch)
            np.minimum.reduce(scratch, axis=0, out=now)
    else:
        for j in range(1, k - 1):
            for a in range(0, n, step):
                b = min(a + step, n)
                total = _band(sums, padded, widest, a, b)
                total += _shifted(kept, widest, a, b)[j]
                total.min(axis=0, out=kept[j + 1, widest + a + 1 : widest + b + 1])
    firsts = []
    end = n
    for row in kept[:0:-1]:
        if costs is None:
            last = _band(sums, padded, widest, end - 1, end)[:, 0]
        else:
            last = costs[:, end - 1]
        end -= 1 + int((row[end + widest - 1 : end - 1 : -1] + last).argmin())
        firsts.append(end)
    return firsts


def _band(sums: np.ndarray, padded: np.ndarray, widest: int, a: int, b: int) -> np.ndarray:
    """Return the costs of all intervals of 1 to `widest` points that end with points a to b."""
    return _cost(*(sums[:, None, a + 1 : b + 1] - _shifted(padded, widest, a, b)))


def _shifted(rows: np.ndarray, widest: int, a: int, b: int) -> np.ndarray:
    """Return a view ``out[j, w, e] = rows[j, widest + a + e - w]`` for widths 1 to `widest`.

    Column e is the interval that ends with point a + e, and row w the one of w + 1 points: the
    view holds what is known of the points before it.
    """
    jump, size = rows.strides
    return np.ndarray(
        (len(rows), widest, b - a),
        rows.dtype,
        rows,
        offset=(widest + a) * size,
        strides=(jump, -size, size),
    )


def _widest(sums: np.ndarray, k: int) -> int:
    """Return a number of points that no interval of the best clustering exceeds."""
    n = sums.shape[1] - 1
    most = n - k + 1  # every cluster has a point at least
    limit = _some_cost(sums, k) * (1 + 1e-9)
    width = min(int(2.3 * n / k) + 1, most)
    # the cheapest interval of a width costs more, the wider it is
    while width < most and _cost(*(sums[:, width:] - sums[:, :-width])).min() <= limit:
        width = min(int(1.2 * width) + 1, most)
    return width


def _some_cost(sums: np.ndarray, k: int) -> float:
    """Return the cost of some good clustering: equal parts of the range, then one improvement."""
    points = (sums[1, 1:] - sums[1, :-1]) / (sums[0, 1:] - sums[0, :-1])
    low, high = points[0], points[-1]
    at = np.empty(k + 1, dtype=np.intp)
    at[0], at[k] = 0, len(points)
    at[1:k] = points.searchsorted(np.arange(1, k) * ((high - low) / k) + low)
    size, total, _ = _parts(sums, at)
    mean = total / size
    at[1:k] = points.searchsorted((mean[1:] + mean[:-1]) / 2)
    at.sort()  # an empty part has the mean 0
    return float(_cost(*_parts(sums, at)).sum())


def _parts(sums: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return counts, sums and sums of squares of the parts; empty ones count as one zero."""
    edges = sums[:, at]
    parts = edges[:, 1:] - edges[:, :-1]
    np.maximum(parts[0], 1.0, out=parts[0])
    return parts
