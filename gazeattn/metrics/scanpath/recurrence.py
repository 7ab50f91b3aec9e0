"""Recurrence quantification of one scanpath (auto) and of two (cross)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.metrics.scanpath._blocks import (
    Block,
    one_of,
    one_pair,
    over_pairs,
    positive,
    too_short,
    whole,
)
from gazeattn.metrics.scanpath._packed import Floats, Packed, Part, as_path, pack
from gazeattn.registry import register_metric

__all__ = [
    "Recurrence",
    "auto_recurrence",
    "auto_recurrence_paths",
    "cross_recurrence",
    "cross_recurrence_pairs",
]

CONVENTIONS = ("anderson", "fixatons")
Cells = NDArray[np.bool_]


class Recurrence(NamedTuple):
    """Four measures in percent; `corm` from -100 to 100, the others from 0 to 100."""

    recurrence: float
    determinism: float
    laminarity: float
    corm: float


def _sum_over(cells: Cells, axis: int) -> NDArray[np.int64]:
    """Count along one axis of (rows, columns, n_pairs); 8-bit sums where they are wide enough."""
    narrow = np.uint8 if cells.shape[axis] < 256 else np.int64
    return cells.view(np.uint8).sum(axis=axis, dtype=narrow).astype(np.int64)


def _count(cells: Cells) -> NDArray[np.int64]:
    """Count the true cells of each pair."""
    count: NDArray[np.int64] = _sum_over(cells, 0).sum(axis=0)
    return count


def _in_runs(cells: Cells, step: tuple[int, int], least: int) -> NDArray[np.int64]:
    """Count, per pair, the cells in contiguous runs of at least `least` along `step`."""
    if least == 1:
        return _count(cells)
    down, right = step
    runs = cells  # after k - 1 steps: where a run of k cells starts
    for _ in range(least - 1):
        rows, columns = runs.shape[0] - down, runs.shape[1] - right
        if rows <= 0 or columns <= 0:
            return np.zeros(cells.shape[2], dtype=np.int64)
        nxt = cells[cells.shape[0] - rows :, cells.shape[1] - columns :]
        runs = runs[:rows, :columns] & nxt
    # a run of length L holds L - least + 1 such starts, the first of which begins a new run
    new = runs.copy()
    new[down:, right:] &= ~runs[: runs.shape[0] - down, : runs.shape[1] - right]
    return _count(runs) + (least - 1) * _count(new)


def _in_lines(cells: Cells, step: tuple[int, int], least: int) -> NDArray[np.int64]:
    """Count, per pair, the cells of whole lines with at least `least` true cells, gaps or not."""
    if step == (0, 1):
        sums = _sum_over(cells, 1)
    elif step == (1, 0):
        sums = _sum_over(cells, 0)
    else:
        n, m, pairs = cells.shape
        sums = np.zeros((n + m - 1, pairs), dtype=np.int64)
        for row in range(n):  # cell (i, j) is on diagonal j - i
            sums[n - 1 - row : n - 1 - row + m] += cells[row]
    total: NDArray[np.int64] = np.where(sums >= least, sums, 0).sum(axis=0)
    return total


def _measures(
    cells: Cells, n: NDArray[np.int64], least: int, convention: str, places: NDArray[np.int64]
) -> Floats:
    """Return the four measures in percent, (n_pairs, 4), of recurrent cells (n, n, n_pairs)."""
    lines = _in_runs if convention == "anderson" else _in_lines
    by_column, by_row = _sum_over(cells, 0), _sum_over(cells, 1)
    count = by_column.sum(axis=0)
    diagonal = lines(cells, (1, 1), least)
    straight = lines(cells, (0, 1), least) + lines(cells, (1, 0), least)
    offsets = np.arange(len(cells)) @ (by_column - by_row)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.stack(
            [
                count / np.where(n > 0, places, 0),
                diagonal / count,
                straight / (2 * count),
                offsets / ((n - 1) * count),
            ],
            axis=1,
        )
    values[~np.isfinite(values)] = np.nan  # 0/0: no recurrence, or a path of one fixation
    values *= 100.0
    return values


def cross_recurrence_pairs(
    A: Packed,
    B: Packed,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    *,
    radius: float,
    min_line: int = 2,
    convention: str = "anderson",
) -> Floats:
    """Return `cross_recurrence` of many pairs, (n_pairs, 4)."""
    radius = positive("the radius", radius, zero=True)
    least = whole("min_line", min_line)
    one_of("convention", convention, CONVENTIONS)

    def work(block: Block) -> Floats:
        common = np.minimum(block.na, block.nb)
        n = int(common.max())
        cells = block.distances(slice(n), slice(n)) <= radius
        ragged = np.arange(n)[:, None] >= common
        if ragged.any():  # behind the shorter length, though the longer path goes on
            cells &= ~ragged[:, None]
            cells &= ~ragged
        return _measures(cells, common, least, convention, common * common)

    return over_pairs(A, B, i, j, work, columns=4)


def _reason(a: ArrayLike, b: ArrayLike, **parameters: object) -> str:
    empty = too_short(1)(a, b)
    if empty:
        return empty
    values = cross_recurrence(a, b, **parameters)  # type: ignore[arg-type]
    if np.isnan(values.determinism):
        return "no two fixations are within the radius: there are no lines to measure"
    if np.isnan(values.corm):
        return "a scanpath has 1 fixation: it has no offset from the diagonal"
    return ""


@register_metric(
    "cross_recurrence",
    task="scanpath",
    bounds=(-100.0, 100.0),
    higher_is_better=True,
    symmetric=False,
    description="share of recurrent fixations, in the same order (determinism), held (laminarity); "
    "corm says who is ahead and has no direction: 0 is neither best nor worst",
    formula="rec = 100 C / N^2; det, lam = share of C in lines; corm = 100 sum(j - i)/((N - 1) C)",
    citation="Anderson, Anderson, Kingstone & Bischof 2015, Behavior Res. Methods 47:1377-1392",
    convention="anderson",
    conventions=CONVENTIONS,
    kernel=cross_recurrence_pairs,
    columns=Recurrence._fields,
    part_bounds=tuple(
        Part(name, -100.0 if name == "corm" else 0.0, 100.0, directed=name != "corm")
        for name in Recurrence._fields
    ),
    reason=_reason,
)
def cross_recurrence(
    a: ArrayLike,
    b: ArrayLike,
    *,
    radius: float,
    min_line: int = 2,
    convention: str = "anderson",
) -> Recurrence:
    """Return the cross-recurrence measures of two scanpaths, in percent.

    Both paths are cut to the shorter length N. Fixations i of `a` and j of `b` recur when their
    distance is at most `radius`; C is the number of such cells.

    Parameters
    ----------
    a, b : array_like, shape (n, 2) or (n, 3)
        Pixels; durations are not used.
    radius : float
        In pixels; a distance of exactly `radius` counts.
    min_line : int
        Fewest cells of a line.
    convention : {"anderson", "fixatons"}
        "anderson": a line is a contiguous run of recurrent cells. "fixatons": a whole diagonal
        (row, column) counts when it holds `min_line` recurrent cells, contiguous or not.

    Returns
    -------
    Recurrence
        `recurrence` = 100 C / N^2. `determinism`: share of C in diagonal lines, the main diagonal
        included. `laminarity`: mean of the shares in horizontal and in vertical lines. `corm`:
        mean of j - i over the cells, as a share of N - 1; above 0 where `a` is ahead. Without
        recurrence the last three are NaN; `corm` is NaN for N = 1; all are for an empty path. All
        but `corm` are symmetric; `corm` changes its sign.

    References
    ----------
    Anderson, Anderson, Kingstone & Bischof 2015, Behavior Research Methods 47:1377-1392.
    """
    values = one_pair(
        cross_recurrence_pairs, a, b, radius=radius, min_line=min_line, convention=convention
    )
    return Recurrence(*map(float, values))


def auto_recurrence_paths(
    paths: Packed | Sequence[ArrayLike],
    *,
    radius: float,
    min_line: int = 2,
    convention: str = "anderson",
) -> Floats:
    """Return `auto_recurrence` of many scanpaths, (n_paths, 4)."""
    radius = positive("the radius", radius, zero=True)
    least = whole("min_line", min_line)
    one_of("convention", convention, CONVENTIONS)
    packed = paths if isinstance(paths, Packed) else pack(paths)

    def work(block: Block) -> Floats:
        n = block.na
        cells = block.distances() <= radius
        cells &= np.triu(np.ones(cells.shape[:2], dtype=bool), k=1)[:, :, None]
        return _measures(cells, n, least, convention, n * (n - 1) // 2)

    every = np.arange(len(packed))
    return over_pairs(packed, packed, every, every, work, columns=4)


def auto_recurrence(
    path: ArrayLike, *, radius: float, min_line: int = 2, convention: str = "anderson"
) -> Recurrence:
    """Return the recurrence measures of one scanpath, in percent.

    Fixations i < j recur when their distance is at most `radius`; R is the number of such cells.
    Only this upper triangle, without the main diagonal, is used.

    Parameters
    ----------
    path : array_like, shape (n, 2) or (n, 3)
        Pixels; durations are not used.
    radius, min_line, convention
        As in `cross_recurrence`.

    Returns
    -------
    Recurrence
        `recurrence` = 100 * 2R / (N (N - 1)). `determinism`: share of R in diagonal lines.
        `laminarity`: mean of the shares in horizontal and in vertical lines. `corm`: mean of
        j - i over the cells, as a share of N - 1. Without recurrence the last three are NaN; all
        are for fewer than two fixations.

    References
    ----------
    Anderson, Bischof, Laidlaw, Risko & Kingstone 2013, Behavior Research Methods 45:842-856.
    """
    values = auto_recurrence_paths(
        [as_path(path)], radius=radius, min_line=min_line, convention=convention
    )
    return Recurrence(*map(float, values[0]))
