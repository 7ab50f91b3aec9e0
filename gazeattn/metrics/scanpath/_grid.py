"""Fixations as symbols of the cells of a grid, and tables over pairs of symbol strings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gazeattn.errors import DataError
from gazeattn.metrics.scanpath._packed import Floats, Whole
from gazeattn.metrics.scanpath._strings import Strings

CELLS = 1 << 15
"""Cells of one table (or of one antidiagonal) of a block, which caches hold."""
PAIRS = 2048


def repeated(codes: Whole, times: Whole, most: int) -> tuple[Whole, Whole]:
    """Repeat each symbol, (n, m) `times`; return the strings and their lengths.

    Raises
    ------
    DataError
        More than `most` symbols in all.
    """
    length = times.sum(axis=1)
    if length.sum() > most:
        raise DataError(
            "the durations fill too many time bins",
            expected=f"at most {most} symbols at once",
            found=str(length.sum()),
            hint="Are the durations in milliseconds?",
        )
    out = np.zeros((len(codes), int(length.max(initial=0))), dtype=np.int64)
    out[np.arange(out.shape[1]) < length[:, None]] = np.repeat(codes.ravel(), times.ravel())
    return out, length


def blocks(
    A: Strings,
    B: Strings,
    i: NDArray[np.intp],
    j: NDArray[np.intp],
    *,
    wide: bool = False,
    most_cells: int = 0,
) -> Iterator[tuple[NDArray[np.intp], int, int]]:
    """Yield pairs of about the same lengths, with the longest first and second string of each.

    `wide` is for work that keeps antidiagonals instead of whole tables.
    """
    order = np.lexsort((B.length[j], A.length[i]))
    na, nb = A.length[i][order], B.length[j][order]
    end = len(order)
    while end > 0:
        n = int(na[end - 1])
        start = max(0, end - PAIRS)
        most = int(nb[start:end].max())
        cells = 4 * (n + 1) if wide else (n + 1) * (most + 1)
        start = max(start, end - max(1, (most_cells or CELLS) // cells))
        yield order[start:end], n, int(nb[start:end].max())
        end = start


def diagonals(n: int, m: int) -> Iterator[tuple[int, slice]]:
    """Yield the inner antidiagonals of a table of (n + 1) x (m + 1) cells, as rows of cells.

    Cell (r, c) is row r * (m + 1) + c. Above it is the cell m + 1 rows before, to its left the
    one before.
    """
    for d in range(2, n + m + 1):
        low, high = max(1, d - m), min(d - 1, n)
        yield d, slice(low * m + d, high * m + d + 1, m)


def before(cells: slice, by: int) -> slice:
    """Return the cells `by` rows before others."""
    return slice(cells.start - by, cells.stop - by, cells.step)


def corner(total: Floats, na: Whole, nb: Whole, columns: int) -> Floats:
    """Return the last cell of each pair of a table (cells, pairs)."""
    return total[na * columns + nb, np.arange(len(na))]
