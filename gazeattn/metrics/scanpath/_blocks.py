"""Pairs of scanpaths in blocks that stay in the cache: pairs on the last axis, fixations first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.metrics._options import one_of, positive, size_of, whole
from gazeattn.metrics.scanpath._packed import Floats, Packed, Whole, as_path, pack
from gazeattn.metrics.scanpath._places import doubts

__all__ = [
    "Block",
    "blocks",
    "one_of",
    "one_pair",
    "over_pairs",
    "positive",
    "size_of",
    "too_short",
    "whole",
]

CELLS = 1 << 17  # cells of one array per block: 1 MiB of float64, which caches hold
EVERY = slice(None)


@dataclass(frozen=True)
class Block:
    """Some pairs, cut to the longest path among them.

    Attributes
    ----------
    ax, ay, ad : ndarray, shape (n, n_pairs)
        Pixels and milliseconds of the first path of each pair.
    bx, by, bd : ndarray, shape (m, n_pairs)
    na, nb : ndarray, shape (n_pairs,)
        Lengths. Behind the end, x is +inf (first path) and -inf (second), so that every distance
        from or to such a place is infinite and none is NaN.
    """

    ax: Floats
    ay: Floats
    ad: Floats
    na: Whole
    bx: Floats
    by: Floats
    bd: Floats
    nb: Whole

    def squared(self, rows: slice = EVERY, columns: slice = EVERY) -> Floats:
        """Return squared distances (n, m, n_pairs); infinite behind the end of a path."""
        total = self.ax[rows, None] - self.bx[columns]
        total *= total
        dy = self.ay[rows, None] - self.by[columns]
        dy *= dy
        total += dy
        return total

    def distances(self, rows: slice = EVERY, columns: slice = EVERY) -> Floats:
        """Return distances (n, m, n_pairs); infinite behind the end of a path."""
        total = self.squared(rows, columns)
        return np.sqrt(total, out=total)


def _side(paths: Packed, which: Whole, fill: float) -> tuple[Floats, Floats, Floats, Whole]:
    length = paths.length[which]
    longest = int(length.max(initial=0))
    behind = np.arange(longest)[:, None] >= length
    x, y, duration = (
        np.ascontiguousarray(v[which, :longest].T) for v in (paths.x, paths.y, paths.duration)
    )
    x[behind] = fill
    return x, y, duration, length


def blocks(
    A: Packed, B: Packed, i: Whole, j: Whole, *, wide: bool = False
) -> Iterator[tuple[Whole, Block]]:
    """Yield positions within `i`, `j` and their block; `wide` for work that needs no n x m cells.

    Pairs of like length come together, the longest first, so that little is computed behind ends.
    """
    order = np.lexsort((B.length[j], A.length[i]))
    na, nb = A.length[i][order], B.length[j][order]
    longest = int(nb.max(initial=1))
    end = len(order)
    while end > 0:
        n = int(na[end - 1])
        cells = max(n + longest if wide else n * longest, 1)
        start = max(0, end - max(1, CELLS // cells))
        chosen = order[start:end]
        yield (
            chosen,
            Block(*_side(A, i[chosen], np.inf), *_side(B, j[chosen], -np.inf)),
        )
        end = start


def over_pairs(
    A: Packed,
    B: Packed,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    work: Callable[[Block], Floats],
    *,
    shortest: int = 1,
    columns: int | None = None,
    wide: bool = False,
) -> Floats:
    """Apply `work` to all pairs whose paths both have `shortest` fixations; NaN for the others."""
    first, second = (np.asarray(v, dtype=np.int64) for v in (i, j))
    shape = (len(first),) if columns is None else (len(first), columns)
    out = np.full(shape, np.nan)
    long_enough = (A.length[first] >= shortest) & (B.length[second] >= shortest)
    where = np.flatnonzero(long_enough)
    for chosen, block in blocks(A, B, first[where], second[where], wide=wide):
        out[where[chosen]] = work(block)
    return out


def one_pair(
    kernel: Callable[..., Floats], a: ArrayLike, b: ArrayLike, **parameters: object
) -> Floats:
    """Return what a kernel gives for one pair, for a public function, whose caller is warned."""
    at = np.zeros(1, dtype=np.int64)
    first, second = pack([a]), pack([b])
    values: Floats = kernel(first, second, at, at, **parameters)[0]
    doubts(kernel, (first, second), parameters, one_pair=True, stacklevel=4)
    return values


def too_short(shortest: int) -> Callable[..., str]:
    """Return the reason function of a metric that needs `shortest` fixations in both paths."""

    def reason(a: ArrayLike, b: ArrayLike, **parameters: object) -> str:
        short = [n for n in map(len, (as_path(a), as_path(b))) if n < shortest]
        if not short:
            return ""
        return f"a scanpath has {min(short)} fixations; at least {shortest} are needed"

    return reason
