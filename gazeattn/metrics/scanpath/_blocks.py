"""Pairs of scanpaths in blocks that stay in the cache: pairs on the last axis, fixations first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.scanpath._packed import Floats, Packed, Whole, as_path, pack

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
    """Return what a kernel gives for one pair."""
    at = np.zeros(1, dtype=np.int64)
    values: Floats = kernel(pack([a]), pack([b]), at, at, **parameters)[0]
    return values


def size_of(size: object) -> tuple[float, float]:
    """Return (width, height), or raise `DataError` when it is not two positive numbers."""
    values = np.asarray(size, dtype=np.float64)
    if values.shape != (2,) or not (np.isfinite(values).all() and (values > 0).all()):
        raise DataError(
            "the size of the stimulus is wrong",
            expected="size=(width, height) in pixels, both above 0",
            found=repr(size),
        )
    return float(values[0]), float(values[1])


def one_of(kind: str, value: str, known: tuple[str, ...]) -> str:
    """Return `value`, or raise `UnknownNameError` when it is none of the known ones."""
    if value not in known:
        raise UnknownNameError(kind, value, known)
    return value


def positive(name: str, value: float, *, zero: bool = False) -> float:
    """Return a finite number above 0 (or 0 as well), or raise `DataError`."""
    number = float(value)
    if not np.isfinite(number) or number < 0 or (number == 0 and not zero):
        bound = "0 or more" if zero else "above 0"
        raise DataError(f"{name} is wrong", expected=f"a finite number, {bound}", found=str(value))
    return number


def whole(name: str, value: int, least: int = 1) -> int:
    """Return a whole number of at least `least`, or raise `DataError`."""
    if isinstance(value, bool) or int(value) != value or value < least:
        raise DataError(
            f"{name} is wrong", expected=f"a whole number of at least {least}", found=repr(value)
        )
    return int(value)


def too_short(shortest: int) -> Callable[..., str]:
    """Return the reason function of a metric that needs `shortest` fixations in both paths."""

    def reason(a: ArrayLike, b: ArrayLike, **parameters: object) -> str:
        short = [n for n in map(len, (as_path(a), as_path(b))) if n < shortest]
        if not short:
            return ""
        return f"a scanpath has {min(short)} fixations; at least {shortest} are needed"

    return reason
