"""Distances along the best alignment in time: dynamic time warping and discrete Frechet.

Both run over the anti-diagonals of the table of distances, for all pairs of a block at once. A
cell depends on earlier cells only, so nothing behind the end of a path can reach the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.metrics.scanpath._blocks import CELLS, Block, one_pair, over_pairs, too_short
from gazeattn.metrics.scanpath._packed import Floats, Packed
from gazeattn.registry import register_metric

__all__ = ["discrete_frechet", "discrete_frechet_pairs", "dtw", "dtw_pairs"]


def _diagonals(block: Block, root: bool) -> Iterator[tuple[int, int, int, Floats]]:
    """Yield diagonal number d, first row, one past the last row, distances (or their squares)."""
    n, m = len(block.ax), len(block.bx)
    if block.ax.size * m <= CELLS:  # all at once, in fewer calls
        whole = block.distances() if root else block.squared()
        cells = whole.reshape(n * m, -1)
        for d in range(n + m - 1):
            first, stop = max(0, d - m + 1), min(d + 1, n)
            start, step = d + first * (m - 1), max(m - 1, 1)  # of cell (r, d - r) in a flat table
            yield d, first, stop, cells[start : start + (stop - first - 1) * step + 1 : step]
        return
    # the columns of a diagonal run down while its rows run up
    bx, by = block.bx[::-1], block.by[::-1]
    for d in range(n + m - 1):
        first, stop = max(0, d - m + 1), min(d + 1, n)
        columns = slice(m - 1 - d + first, m - 1 - d + stop)
        cost = block.ax[first:stop] - bx[columns]
        cost *= cost
        dy = block.ay[first:stop] - by[columns]
        dy *= dy
        cost += dy
        yield d, first, stop, np.sqrt(cost, out=cost) if root else cost


def last_cells(block: Block) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return, per diagonal, which pairs end on it and in which row."""
    last = block.na + block.nb - 2
    order = np.argsort(last, kind="stable")
    bounds = np.searchsorted(last[order], np.arange(len(block.ax) + len(block.bx)))
    return [
        (order[start:stop], (block.na[order[start:stop]] - 1).astype(np.intp))
        for start, stop in pairwise(bounds)
    ]


def _table(block: Block, join: Callable[[Floats, Floats], None], *, root: bool) -> Floats:
    """Fill the table; `join(best, cost)` puts the value of a cell into `cost`."""
    n, pairs = block.ax.shape
    ends = last_cells(block)
    out = np.empty(pairs)
    # row r of the table stands in row r + 1: row 0 is the border, which no path can cross; a row
    # that the diagonals have not reached yet is still infinite
    before, previous, current = (np.full((n + 1, pairs), np.inf) for _ in range(3))
    best = np.empty((n, pairs))
    for d, first, stop, cost in _diagonals(block, root):
        if d > 0:
            least = best[: stop - first]
            np.minimum(previous[first:stop], previous[first + 1 : stop + 1], out=least)
            np.minimum(least, before[first:stop], out=least)
            join(least, cost)
        current[first + 1 : stop + 1] = cost
        here, row = ends[d]
        if len(here):
            out[here] = current[row + 1, here]
        before, previous, current = previous, current, before
    return out


def _add(best: Floats, cost: Floats) -> None:
    cost += best


def _widest(best: Floats, cost: Floats) -> None:
    np.maximum(cost, best, out=cost)


def dtw_pairs(A: Packed, B: Packed, i: NDArray[np.integer], j: NDArray[np.integer]) -> Floats:
    """Return `dtw` of many pairs, (n_pairs,)."""
    return over_pairs(A, B, i, j, lambda block: _table(block, _add, root=True), wide=True)


def discrete_frechet_pairs(
    A: Packed, B: Packed, i: NDArray[np.integer], j: NDArray[np.integer]
) -> Floats:
    """Return `discrete_frechet` of many pairs, (n_pairs,)."""
    # the root keeps order, so one root of the last cell is enough
    return np.sqrt(
        over_pairs(A, B, i, j, lambda block: _table(block, _widest, root=False), wide=True)
    )


@register_metric(
    "dtw",
    task="scanpath",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=True,
    description="dynamic time warping: least summed distance of a monotone alignment, in pixels",
    formula="min over alignments of sum |a_i - b_j|; steps right, down, diagonal; exact",
    citation="Sakoe & Chiba 1978, IEEE Trans. ASSP 26(1):43-49",
    convention="exact table, no window; Euclidean distance; not divided by the path length",
    kernel=dtw_pairs,
    columns=None,
    reason=too_short(1),
)
def dtw(a: ArrayLike, b: ArrayLike) -> float:
    """Return the dynamic time warping distance of two scanpaths, in pixels.

    The least sum of Euclidean distances over a monotone path through all fixations of both; the
    first cell counts. Exact: approximate algorithms are up to 12 % too high on real scanpaths.

    Parameters
    ----------
    a, b : array_like, shape (n, 2) or (n, 3)
        Pixels; durations are not used.

    Returns
    -------
    float
        0 or more; NaN when a scanpath is empty.

    References
    ----------
    Sakoe & Chiba 1978, IEEE Transactions on Acoustics, Speech and Signal Processing 26(1).
    """
    return float(one_pair(dtw_pairs, a, b))


@register_metric(
    "discrete_frechet",
    task="scanpath",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=True,
    description="discrete Frechet distance: the longest leash of the best joint walk, in pixels",
    formula="min over alignments of max |a_i - b_j|; steps right, down, diagonal",
    citation="Eiter & Mannila 1994, Technical Report CD-TR 94/64, TU Vienna",
    convention="over fixations (discrete), Euclidean distance",
    kernel=discrete_frechet_pairs,
    columns=None,
    reason=too_short(1),
)
def discrete_frechet(a: ArrayLike, b: ArrayLike) -> float:
    """Return the discrete Frechet distance of two scanpaths, in pixels.

    Parameters
    ----------
    a, b : array_like, shape (n, 2) or (n, 3)
        Pixels; durations are not used.

    Returns
    -------
    float
        0 or more; NaN when a scanpath is empty.

    References
    ----------
    Eiter & Mannila 1994, Computing discrete Frechet distance, TU Vienna CD-TR 94/64.
    """
    return float(one_pair(discrete_frechet_pairs, a, b))
