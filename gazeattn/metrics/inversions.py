"""Kendall's score of long profiles by counting inversions: exact, in n log n steps per pair."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from gazeattn.metrics._arrays import Floats
from gazeattn.metrics.products import product

LONG = 600
"""From this many units on counting inversions beats comparing all pairs of units."""

_SMALL = 16
_CHUNK = 1 << 22


def kendall_scores(ranks: Floats, others: Floats) -> Floats:
    """Return concordant minus discordant pairs of units for each pair of rows.

    Parameters
    ----------
    ranks : ndarray, shape (n_a, n_units)
    others : ndarray, shape (n_b, n_units)
        Average ranks (from 1, ties share theirs) of each row, without NaN.

    Returns
    -------
    ndarray, shape (n_a, n_b)
        Whole numbers; pairs tied on either side count 0.

    References
    ----------
    Knight (1966), Journal of the American Statistical Association 61, 436-439.
    """
    n = ranks.shape[1]
    binary = two_level_scores(ranks, others)
    if binary is not None:
        return binary
    kind = np.int16 if 4 * n + 4 < np.iinfo(np.int16).max else np.int64
    doubled = np.rint(2 * others).astype(kind)  # doubled average ranks are whole numbers
    out = np.empty((len(ranks), len(others)))
    step = max(1, _CHUNK // max(1, n))
    for i, row in enumerate(ranks):
        orders = [np.argsort(row, kind="stable")]
        if tied_pairs(row[None, :])[0]:
            # with each run of ties turned round, what they add cancels in the mean
            orders.append(n - 1 - np.argsort(row[::-1], kind="stable"))
        for at in range(0, len(others), step):
            found = [_ascents(doubled[at : at + step, order]) for order in orders]
            out[i, at : at + step] = np.mean(found, axis=0)
    return out


def two_level_scores(ranks: Floats, others: Floats) -> Floats | None:
    """Return `kendall_scores` by one matrix product where the others have two levels, else None.

    Pairs within a level are tied, so that only the rank sum of the higher level counts.
    """
    n = ranks.shape[1]
    if n < 2 or len(others) == 0:
        return None
    high, low = others.max(axis=1, keepdims=True), others.min(axis=1, keepdims=True)
    upper = others == high
    if not ((upper | (others == low)).all() and (high > low).all()):
        return None
    return product(2 * ranks - n - 1, upper.astype(np.float64).T)


def tied_pairs(values: Floats) -> np.ndarray:
    """Return for each row how many pairs of units have equal values."""
    return _equal_pairs(np.sort(values, axis=1))


def kendall_b(a: Floats, b: Floats) -> Floats:
    """Return Kendall's tau-b of each pair of rows, shape (n_a, n_b); NaN for constant rows."""
    ranks, others = rankdata(a, axis=1), rankdata(b, axis=1)
    pairs = a.shape[1] * (a.shape[1] - 1) // 2
    untied = np.outer(pairs - tied_pairs(ranks), pairs - tied_pairs(others)).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(kendall_scores(ranks, others) / np.sqrt(untied), -1.0, 1.0)


def _equal_pairs(ordered: np.ndarray) -> np.ndarray:
    place = np.arange(ordered.shape[1])
    changed = np.zeros(ordered.shape, dtype=bool)
    changed[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    start = np.maximum.accumulate(np.where(changed, place, 0), axis=1)
    return (place - start).sum(axis=1)


def _ascents(values: np.ndarray) -> np.ndarray:
    """Return for each row the pairs that rise minus those that fall from left to right.

    Blocks are sorted and merged bottom up. The lowest bit of each value says which half it is
    from, so that the places of the right halves in the merged block count the smaller or equal
    values of the left halves: n log n comparisons per row, all rows at once.
    """
    m, n = values.shape
    halvings = 0
    while n > _SMALL << halvings:
        halvings += 1
    size = -(-n // (1 << halvings))
    total = size << halvings
    blank = total - n
    padded = np.full((m, total), 2 * n + 1, dtype=values.dtype)
    padded[:, :n] = values
    rises = np.zeros(m, dtype=np.int64)  # pairs that rise or are equal
    blocks = padded.reshape(m, -1, size)
    for d in range(1, size):
        rises += np.count_nonzero(blocks[..., :-d] <= blocks[..., d:], axis=(1, 2))
    while size < total:
        blocks = padded.reshape(m, -1, 2 * size)
        blocks <<= 1
        blocks[..., size:] |= 1
        blocks.sort(axis=-1)
        # sums of places stay exact in single precision up to 2 ** 24
        kind: type[np.floating] = np.float32 if size < 2000 else np.float64
        place = np.arange(2 * size, dtype=kind)
        found = np.einsum("ijk,k->ij", (blocks & 1).astype(kind), place)
        own = blocks.shape[1] * (size * (size - 1) // 2)
        rises += found.sum(axis=1, dtype=np.float64).astype(np.int64) - own
        blocks >>= 1
        size *= 2
    if halvings == 0:
        padded.sort(axis=1)
    rises -= n * blank + blank * (blank - 1) // 2  # the padding is above all values
    equal = _equal_pairs(padded[:, :n])
    return 2 * rises - equal - n * (n - 1) // 2
