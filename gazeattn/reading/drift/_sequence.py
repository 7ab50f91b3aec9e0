"""Methods that cut the sequence of fixations: chain, segment, split."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.reading.drift._kmeans import kmeans_1d
from gazeattn.reading.drift._lines import (
    group_numbers,
    lines_in_order,
    means_of,
    nearest_line,
    scaled,
    solve,
)


def chain(
    fixations: ArrayLike,
    line_y: ArrayLike,
    *,
    x_thresh: float | None = None,
    y_thresh: float | None = None,
    right_to_left: bool = False,
) -> np.ndarray:
    """Chain fixations that follow each other closely; each chain goes to its nearest line.

    A chain ends where x changes by more than `x_thresh` or y by more than `y_thresh`; its mean y
    decides.

    Parameters
    ----------
    fixations, line_y
        See `attach`.
    x_thresh, y_thresh
        In pixels; default 192 and 32 at a line spacing of 64 pixels, in proportion for others.
    right_to_left
        Makes no difference here.

    Returns
    -------
    ndarray, shape (n,), int64
        See `attach`.

    References
    ----------
    Method of popEye (S. Schroeder), described in Carr et al. (2022),
    doi:10.3758/s13428-021-01554-0.
    """
    del right_to_left

    def core(x: np.ndarray, y: np.ndarray, lines: np.ndarray) -> np.ndarray:
        starts = chain_starts(x, y, scaled(x_thresh, 192.0, lines), scaled(y_thresh, 32.0, lines))
        line = nearest_line(means_of(y, starts), lines)
        return line[group_numbers(starts, len(x))]

    return solve(fixations, line_y, core)


def chain_starts(x: np.ndarray, y: np.ndarray, x_thresh: float, y_thresh: float) -> np.ndarray:
    """Return the first fixation of each stretch without a long step in x or y."""
    long = (np.abs(np.diff(x)) > x_thresh) | (np.abs(np.diff(y)) > y_thresh)
    return np.r_[0, np.flatnonzero(long) + 1]


def segment(fixations: ArrayLike, line_y: ArrayLike, *, right_to_left: bool = False) -> np.ndarray:
    """Cut the sequence at its ``n_lines - 1`` largest steps back; part k is on line k.

    Of equally large steps the earlier one counts as larger. With fewer fixations than lines each
    fixation is a part, and lines are left out where that fits best.

    Parameters, result and errors: see `attach`; `right_to_left` turns round what a step back is.

    References
    ----------
    Abdulin and Komogortsev (2015), BTAS, doi:10.1109/BTAS.2015.7358786.
    """

    def core(x: np.ndarray, y: np.ndarray, lines: np.ndarray) -> np.ndarray:
        steps = np.argsort(np.diff(x), kind="stable")[: len(lines) - 1]
        starts = np.r_[0, np.sort(steps) + 1]
        part = group_numbers(starts, len(x))
        return lines_in_order(part, y, lines, len(starts))[part]

    return solve(fixations, line_y, core, right_to_left=right_to_left)


def split(fixations: ArrayLike, line_y: ArrayLike, *, right_to_left: bool = False) -> np.ndarray:
    """Cut the sequence at its return sweeps; each part goes to the line nearest to its mean y.

    Return sweeps are the steps of the cluster that lies further back when the changes of x are
    cut into two clusters (the best possible ones, so nothing is random). Where that cluster does
    not lead back on average, there is no return sweep.

    Parameters, result and errors: see `attach`; `right_to_left` turns round what a step back is.

    References
    ----------
    Carr et al. (2022), doi:10.3758/s13428-021-01554-0.
    """

    def core(x: np.ndarray, y: np.ndarray, lines: np.ndarray) -> np.ndarray:
        dx = np.diff(x)
        starts = np.zeros(1, dtype=np.int64)
        if len(dx):
            back = kmeans_1d(dx, 2) == 0
            if dx[back].mean() < 0:
                starts = np.r_[0, np.flatnonzero(back) + 1]
        line = nearest_line(means_of(y, starts), lines)
        return line[group_numbers(starts, len(x))]

    return solve(fixations, line_y, core, right_to_left=right_to_left)
