"""What all methods of line assignment share: checked input, nearest lines, groups in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError

MISSING = -1
"""Line number of a fixation without a position."""

PUBLISHED_SPACING = 64.0
"""Line spacing in pixels of the data for which the published thresholds were chosen."""

Core: TypeAlias = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def solve(
    fixations: ArrayLike, line_y: ArrayLike, core: Core, *, right_to_left: bool = False
) -> np.ndarray:
    """Check the input, call `core` on the fixations that have a position, and put lines in place.

    Parameters
    ----------
    fixations : array_like, shape (n, 2) or wider
        x and y in pixels, in order of time; further columns are not used.
    line_y : array_like, shape (n_lines,)
        Line centres in pixels, from the top.
    core : callable
        ``core(x, y, line_y)`` with at least one fixation and two lines; returns line numbers.
    right_to_left
        Mirror x, so that `core` sees text that runs to the right.

    Returns
    -------
    ndarray, shape (n,), int64
        Line of each fixation from 0, -1 where x or y is not finite.
    """
    xy, lines = as_fixations(fixations), as_lines(line_y)
    finite = np.isfinite(xy)
    if finite.all() and len(xy):  # nothing to take out and put back
        return _apply(core, xy, lines, right_to_left)
    known = finite.all(axis=1)
    result = np.full(len(xy), MISSING, dtype=np.int64)
    if known.any():
        result[known] = _apply(core, xy[known], lines, right_to_left)
    return result


def _apply(core: Core, xy: np.ndarray, lines: np.ndarray, right_to_left: bool) -> np.ndarray:
    if len(lines) == 1:
        return np.zeros(len(xy), dtype=np.int64)
    x, y = np.ascontiguousarray(xy.T)
    return core(-x if right_to_left else x, y, lines)


def as_fixations(fixations: ArrayLike) -> np.ndarray:
    """Return x and y as float64, shape (n, 2).

    Raises
    ------
    DataError
        The array is not two-dimensional with two columns or more.
    """
    xy = np.asarray(fixations, dtype=np.float64)
    if xy.size == 0 and xy.ndim < 2:
        return np.zeros((0, 2))
    if xy.ndim != 2 or xy.shape[1] < 2:
        raise DataError(
            "fixations must be an array with one row per fixation",
            expected="shape (n, 2) or wider: x, y, ...",
            found=f"shape {xy.shape}",
        )
    return xy[:, :2]


def as_lines(line_y: ArrayLike) -> np.ndarray:
    """Return line centres as float64.

    Raises
    ------
    DataError
        There is none, or they are not finite and increasing.
    """
    lines = np.asarray(line_y, dtype=np.float64)
    if lines.ndim != 1 or not len(lines):
        raise DataError(
            "line centres must be a list of numbers",
            expected="shape (n_lines,), one line or more",
            found=f"shape {lines.shape}",
        )
    # a missing value makes the comparison false on both of its sides
    if not (lines[1:] > lines[:-1]).all() or not -np.inf < lines[0] <= lines[-1] < np.inf:
        raise DataError(
            "line centres must be finite and increase from the top of the text",
            found=", ".join(f"{v:g}" for v in lines[:8]),
            hint="Sort the lines by y and give each line once",
        )
    return lines


def spacing_of(lines: np.ndarray) -> float:
    """Return the median distance between neighbouring lines."""
    return float(np.median(np.diff(lines)))


def scaled(value: float | None, published: float, lines: np.ndarray) -> float:
    """Return `value`, or the published threshold brought to the line spacing of this text."""
    if value is not None:
        return float(value)
    return published * spacing_of(lines) / PUBLISHED_SPACING


def nearest_line(y: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Return the nearest line of each y; exactly midway between two lines, the upper one.

    "Exactly" allows for rounding: within a billionth of the distance between the lines.
    """
    middle = (lines[1:] + lines[:-1]) / 2
    return np.searchsorted(middle + 1e-9 * np.diff(lines), y, side="left")


def means_of(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the mean of each stretch of `values`; a stretch begins at each of `starts`."""
    return np.add.reduceat(values, starts) / np.diff(np.r_[starts, len(values)])


def group_numbers(starts: np.ndarray, n: int) -> np.ndarray:
    """Return for each of `n` rows the number of its stretch."""
    number = np.zeros(n, dtype=np.int64)
    number[starts[1:]] = 1
    return np.cumsum(number)


def lines_in_order(
    groups: np.ndarray, y: np.ndarray, lines: np.ndarray, n_groups: int
) -> np.ndarray:
    """Give each group a line of its own, keeping the order of groups.

    With as many groups as lines, group k is on line k. With fewer, lines are left out so that the
    sum over fixations of the distance to their line is smallest; of equally good choices, the
    upper lines.

    Parameters
    ----------
    groups : ndarray, shape (n,)
        Group of each fixation, 0 to ``n_groups - 1``, at most as many groups as lines.
    y : ndarray, shape (n,)
    lines : ndarray, shape (n_lines,)
    n_groups

    Returns
    -------
    ndarray, shape (n_groups,)
        Line of each group, strictly increasing.
    """
    m = len(lines)
    if n_groups == m:  # the usual case
        return np.arange(m)
    free = m - n_groups  # group k can be on line k .. k + free
    cost = np.zeros((n_groups, m))
    np.add.at(cost, groups, np.abs(y[:, None] - lines[None, :]))
    rows = np.arange(n_groups)[:, None]
    band = cost[rows, rows + np.arange(free + 1)]
    total = np.zeros(free + 1)
    came_from = np.zeros((n_groups, free + 1), dtype=np.int64)
    for k in range(n_groups):
        best = np.minimum.accumulate(total)
        new = np.r_[True, total[1:] < best[:-1]]
        came_from[k] = np.maximum.accumulate(np.where(new, np.arange(free + 1), 0))
        total = best + band[k]
    result = np.zeros(n_groups, dtype=np.int64)
    shift = int(np.argmin(total))
    for k in range(n_groups - 1, -1, -1):
        result[k] = k + shift
        shift = int(came_from[k, shift])
    return result
