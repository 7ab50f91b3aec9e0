"""How many pixels lie below, and level with, a few given values: counted, not sorted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gazeattn.metrics.saliency._inputs import Array, not_finite

Counts = NDArray[np.int64]

PAIRS = 1 << 16
"""Different pairs of 8-bit values."""

BITS = 13
BINS = 1 << BITS
FEW = 4096
"""Fewer values than this are looked up directly."""

PIECE = 1 << 15
"""Values that are put into bins at once, so that temporaries stay in the cache."""


def histogram(values: NDArray[np.uint8]) -> Counts:
    """Return how often each of the 256 values occurs.

    Two neighbours are read as one 16-bit number, which halves the work; both halves of the
    number then count.
    """
    values = np.ascontiguousarray(values).reshape(-1)
    if values.size < 2 * PAIRS:
        return np.bincount(values, minlength=256)
    even = values.size - values.size % 2
    pairs = np.bincount(values[:even].view(np.uint16), minlength=PAIRS).reshape(256, 256)
    counts = pairs.sum(axis=0) + pairs.sum(axis=1)
    if even < values.size:
        counts[values[-1]] += 1
    return counts


def below_and_level(values: Array, queries: Array) -> tuple[Counts, Counts]:
    """Return for each query how many values are smaller, and how many are equal.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Infinite values are allowed, missing ones are not.
    queries : ndarray, shape (k,), of the same number type

    Returns
    -------
    below, level : ndarray of int64, shape (k,)

    Notes
    -----
    8-bit values are counted once in a table. Other values are put into bins over the range of the
    queries, which keeps their order; only those that share a bin with a query are compared one by
    one.
    """
    if values.dtype == np.uint8 and queries.dtype == np.uint8:
        counts = histogram(values)
        upto = np.cumsum(counts)
        level = counts[queries]
        return upto[queries] - level, level
    if values.dtype not in (np.float32, np.float64):
        values, queries = values.astype(np.float64), queries.astype(np.float64)
    distinct, inverse = np.unique(queries, return_inverse=True)
    if distinct.size and np.isnan(distinct[-1]):
        raise not_finite("saliency map at the fixations", queries)
    below, level = _distinct(values, distinct)
    return below[inverse], level[inverse]


def _distinct(values: Array, queries: Array) -> tuple[Counts, Counts]:
    """Count for queries that are sorted and distinct."""
    if values.size == 0 or queries.size == 0:
        return np.zeros(queries.size, np.int64), np.zeros(queries.size, np.int64)
    if np.isnan(values.min()):
        raise not_finite("saliency map", values)
    if queries.size <= 2:
        return _scan(values, queries)
    if values.size < FEW:
        return _compare(values, queries)
    if queries[0] == 0:  # no power of two is near 0, so it would spoil the bins of the others
        zero, rest = _scan(values, queries[:1]), _distinct(values, queries[1:])
        return np.concatenate([zero[0], rest[0]]), np.concatenate([zero[1], rest[1]])
    if queries[0] > 0:
        return _binned(values, queries, _LogBins(queries))
    linear = _LinearBins(queries)
    return _binned(values, queries, linear) if linear.usable else _compare(values, queries)


class _LogBins:
    """Bins that are cut out of the bit pattern, which grows with the value from 0 on.

    Every power of two gets the same number of bins, which suits densities with long tails.
    """

    def __init__(self, queries: Array) -> None:
        self.whole = np.int64 if queries.dtype == np.float64 else np.int32
        low, high = (int(v) for v in queries[[0, -1]].view(self.whole))
        self.shift = max(0, (high - low).bit_length() - BITS)
        while ((high - low) >> self.shift) + 3 > BINS:
            self.shift += 1
        # the patterns of negative numbers are negative: they all end up below the queries
        self.least, self.origin = low - 1, low - (1 << self.shift)

    def __call__(self, values: Array) -> Array:
        """Return bin numbers: 0 below all queries, BINS - 1 far above them."""
        found = np.maximum(values.view(self.whole), self.whole(self.least))
        found -= self.whole(self.origin)
        found >>= self.whole(self.shift)
        return np.minimum(found, BINS - 1, out=found)


class _LinearBins:
    """Bins of equal width."""

    def __init__(self, queries: Array) -> None:
        self.low = queries[0]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            width = queries[-1] - self.low
            self.scale = queries.dtype.type(BINS - 3) / width
        self.usable = bool(np.isfinite(width) and np.isfinite(self.scale) and self.scale > 0)

    def __call__(self, values: Array) -> Array:
        """Return bin numbers: 0 below all queries, BINS - 1 far above them."""
        with np.errstate(over="ignore"):
            found = values - self.low
            found *= self.scale
            found += 1
        np.clip(found, 0, BINS - 1, out=found)
        return found.astype(np.intp)


def _binned(values: Array, queries: Array, bins: _LogBins | _LinearBins) -> tuple[Counts, Counts]:
    """Count by bins whose order is that of the values."""
    own = bins(queries)
    marks = np.unique(own)
    # class 2k: between the bins k - 1 and k that hold queries; class 2k + 1: in bin k
    classes = np.searchsorted(marks, np.arange(BINS), side="left") * 2
    classes[marks] += 1
    counts, near = np.zeros(2 * marks.size + 1, dtype=np.int64), []
    for begin in range(0, values.size, PIECE):
        part = values[begin : begin + PIECE]
        found = classes.take(bins(part))
        counts += np.bincount(found, minlength=counts.size)
        near.append(part[(found & 1).astype(np.bool_)])
    # what shares a bin with a query is compared exactly, the rest lies clearly on one side
    below, level = _compare(np.concatenate(near), queries)
    counts[1::2] = 0
    return below + np.cumsum(counts)[2 * np.searchsorted(marks, own)], level


def _scan(values: Array, queries: Array) -> tuple[Counts, Counts]:
    """Compare all values with each of a few queries."""
    below = [np.count_nonzero(values < q) for q in queries]
    level = [np.count_nonzero(values == q) for q in queries]
    return np.array(below, dtype=np.int64), np.array(level, dtype=np.int64)


def _compare(values: Array, queries: Array) -> tuple[Counts, Counts]:
    """Compare each value with the sorted, distinct queries by bisection."""
    upto = np.searchsorted(queries, values, side="right")
    # value v is below query k exactly when no more than k queries are <= v
    below = np.cumsum(np.bincount(upto, minlength=queries.size + 1))[: queries.size]
    reached = upto > 0
    last = upto[reached] - 1
    level = np.bincount(last[queries[last] == values[reached]], minlength=queries.size)
    return below.astype(np.int64), level.astype(np.int64)
