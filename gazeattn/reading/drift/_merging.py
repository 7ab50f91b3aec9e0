"""Methods that merge short stretches until as many are left as there are lines: merge, slice."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.reading.drift._lines import (
    group_numbers,
    lines_in_order,
    means_of,
    scaled,
    solve,
    spacing_of,
)
from gazeattn.reading.drift._sequence import chain_starts

PHASES = ((3, 3, False), (1, 3, False), (1, 1, False), (1, 1, True))
"""Smallest sizes of the earlier and the later sequence, and whether any pair may be merged."""


def merge(
    fixations: ArrayLike,
    line_y: ArrayLike,
    *,
    y_thresh: float | None = None,
    gradient_thresh: float = 0.1,
    error_thresh: float | None = None,
    right_to_left: bool = False,
) -> np.ndarray:
    """Merge progressive sequences by how well one straight line fits both; order gives the line.

    A sequence ends at a step back in x or a step in y above `y_thresh`. The pair whose common
    regression line has the smallest error is merged again and again, first only among sequences
    of three fixations or more with a flat and good fit, then with ever fewer conditions, until
    there are as many as lines. Sums of each sequence are kept, so that the fit of a new pair
    costs the same whatever its size.

    Parameters
    ----------
    fixations, line_y
        See `attach`.
    y_thresh, error_thresh
        In pixels; default 32 and 20 at a line spacing of 64 pixels, in proportion for others.
    gradient_thresh
        Largest slope of a fit while conditions hold.
    right_to_left
        The text runs to the left: a step back is one to the right.

    Returns
    -------
    ndarray, shape (n,), int64
        See `attach`. With fewer sequences than lines, lines are left out where that fits best.

    References
    ----------
    Spakov, Istance, Hyrskykari, Siirtola and Raiha (2019), Behavior Research Methods 51,
    2661-2687, doi:10.3758/s13428-018-1120-x.
    """

    def core(x: np.ndarray, y: np.ndarray, lines: np.ndarray) -> np.ndarray:
        steep = np.abs(np.diff(y)) > scaled(y_thresh, 32.0, lines)
        starts = np.r_[0, np.flatnonzero((np.diff(x) < 0) | steep) + 1]
        sequence = group_numbers(starts, len(x))
        error = scaled(error_thresh, 20.0, lines)
        group = _Merger(x, y, starts).run(len(lines), gradient_thresh, error)[sequence]
        return _by_mean(group, y, lines)

    return solve(fixations, line_y, core, right_to_left=right_to_left)


def _by_mean(group: np.ndarray, y: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Give groups to lines in the order of their mean y."""
    _, number = np.unique(group, return_inverse=True)
    mean = np.bincount(number, y) / np.bincount(number)
    rank = np.empty(len(mean), dtype=np.int64)
    rank[np.argsort(mean, kind="stable")] = np.arange(len(mean))
    ranked = rank[number]
    return lines_in_order(ranked, y, lines, len(mean))[ranked]


class _Merger:
    """Sequences as sums, and the fit of every pair of them.

    Row i of `error` and `slope` holds the pairs (i, j) with j > i. A merged sequence gets the
    next free row, so that rows stay in the order in which sequences came to be.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, starts: np.ndarray) -> None:
        n = len(starts)
        self.used, room = n, 2 * n
        dx, dy = x - x.mean(), y - y.mean()  # against cancellation in the sums
        parts = (np.ones(len(x)), dx, dy, dx * dx, dx * dy, dy * dy)
        self.sums = np.zeros((6, room))
        self.sums[:, :n] = [np.add.reduceat(p, starts) for p in parts]
        self.alive = np.arange(room) < n
        self.parent = np.arange(room)
        self.error = np.full((room, room), np.inf)
        self.slope = np.full((room, room), np.inf)
        i, j = np.triu_indices(n, 1)
        self.slope[i, j], self.error[i, j] = self._fit(i, j)

    def _fit(self, i: np.ndarray | int, j: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
        """Return slope and root mean square error of the regression over both sequences.

        Points above each other have no slope (infinite); their error is the spread of y.
        """
        n, sx, sy, sxx, sxy, syy = self.sums[:, i] + self.sums[:, j]
        vx, vy = np.maximum(sxx - sx * sx / n, 0.0), np.maximum(syy - sy * sy / n, 0.0)
        cov = sxy - sx * sy / n
        upright = vx <= 1e-9 * np.maximum(sxx, 1e-300)
        safe = np.where(upright, 1.0, vx)
        slope = np.where(upright, np.inf, cov / safe)
        rest = np.where(upright, vy, vy - cov * cov / safe)
        # what rounding leaves of a perfect fit must not rank pairs
        rest = np.where(rest <= 1e-10 * np.maximum(syy, 1.0), 0.0, rest)
        return slope, np.sqrt(rest / n)

    def run(self, n_lines: int, slope_limit: float, error_limit: float) -> np.ndarray:
        """Merge until `n_lines` sequences are left; return the final row of each first one.

        Of equally good pairs, the one that came to be last is merged.
        """
        n_first = n_alive = self.used
        for least_i, least_j, free in PHASES:
            if n_alive <= n_lines:
                break
            allowed = self._allowed(least_i, least_j, free, slope_limit, error_limit)
            ranked = np.where(allowed, self.error, np.inf)
            at = _last_argmin(ranked)
            lowest = ranked[np.arange(len(ranked)), at]
            while n_alive > n_lines:
                i = int(_last_argmin(lowest[None, :])[0])
                if lowest[i] == np.inf:
                    break
                j = int(at[i])
                new = self._join(i, j)
                n_alive -= 1
                lowest[[i, j]] = np.inf
                ranked[:, [i, j]] = np.inf
                rows = np.flatnonzero(self.alive[:new])
                error = self.error[rows, new]
                good = (self.sums[0, rows] >= least_i) & (self.sums[0, new] >= least_j)
                if not free:
                    good &= (np.abs(self.slope[rows, new]) < slope_limit) & (error < error_limit)
                ranked[rows[good], new] = error[good]
                stale = rows[(at[rows] == i) | (at[rows] == j)]  # their best partner is gone
                at[stale] = _last_argmin(ranked[stale])
                lowest[stale] = ranked[stale, at[stale]]
                better = rows[good & (error <= lowest[rows])]
                at[better], lowest[better] = new, ranked[better, new]
        row = np.arange(n_first)
        while (self.parent[row] != row).any():
            row = self.parent[row]
        return row

    def _allowed(
        self, least_i: int, least_j: int, free: bool, slope_limit: float, error_limit: float
    ) -> np.ndarray:
        size = np.where(self.alive, self.sums[0], 0)
        allowed = (size >= least_i)[:, None] & (size >= least_j)[None, :]
        if not free:
            allowed &= (np.abs(self.slope) < slope_limit) & (self.error < error_limit)
        return allowed

    def _join(self, i: int, j: int) -> int:
        new = self.used
        self.used += 1
        self.sums[:, new] = self.sums[:, i] + self.sums[:, j]
        self.alive[[i, j]], self.alive[new] = False, True
        self.parent[[i, j]] = new
        rows = np.flatnonzero(self.alive[:new])
        self.slope[rows, new], self.error[rows, new] = self._fit(rows, new * np.ones_like(rows))
        return new


def _last_argmin(table: np.ndarray) -> np.ndarray:
    """Return for each row the last column that holds its minimum."""
    return table.shape[1] - 1 - table[:, ::-1].argmin(axis=1)


def slice_(
    fixations: ArrayLike,
    line_y: ArrayLike,
    *,
    x_thresh: float | None = None,
    y_thresh: float | None = None,
    w_thresh: float | None = None,
    n_thresh: float | None = None,
    right_to_left: bool = False,
) -> np.ndarray:
    """Grow lines up and down from the longest run of fixations.

    Runs end as in `chain`. The run that gets furthest starts the first line. Runs whose mean
    distance in y from the outermost lines so far (each fixation against the one nearest in x) is
    below `w_thresh` join it; those up to `n_thresh` further out start the next line. Where none
    does, the next line is held open one line spacing away, so that lines that nobody read are
    passed over (up to as many as there are lines). Runs that are left go to the nearest line,
    surplus outer lines to their neighbours, the smaller first.

    Parameters
    ----------
    fixations, line_y
        See `attach`.
    x_thresh, y_thresh, w_thresh, n_thresh
        In pixels; default 192, 32, 32 and 90 at a line spacing of 64 pixels, in proportion for
        others.
    right_to_left
        The text runs to the left.

    Returns
    -------
    ndarray, shape (n,), int64
        See `attach`. With fewer lines found than there are, they are put, without gaps, where
        they fit best.

    References
    ----------
    Glandorf and Schroeder (2021), Procedia Computer Science 192, 2971-2979,
    doi:10.1016/j.procs.2021.09.069.
    """

    def core(x: np.ndarray, y: np.ndarray, lines: np.ndarray) -> np.ndarray:
        starts = chain_starts(x, y, scaled(x_thresh, 192.0, lines), scaled(y_thresh, 32.0, lines))
        limits = scaled(w_thresh, 32.0, lines), scaled(n_thresh, 90.0, lines)
        rows = _Slicer(x, y, starts, spacing_of(lines)).run(*limits, len(lines))
        return _rows_to_lines(rows, y, lines)

    return solve(fixations, line_y, core, right_to_left=right_to_left)


class _Slicer:
    """Runs of fixations that become rows, numbered up and down from 0."""

    def __init__(self, x: np.ndarray, y: np.ndarray, starts: np.ndarray, spacing: float) -> None:
        self.x, self.y, self.starts, self.spacing = x, y, starts, spacing
        self.ends = np.r_[starts[1:], len(x)]
        self.members: dict[int, np.ndarray] = {}  # row -> fixations, in the order they joined
        self.held_open: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def run(self, within: float, next_to: float, patience: int) -> np.ndarray:
        """Return the row of each fixation; give up after `patience` rounds without a find."""
        reach = self.x[self.ends - 1] - self.x[self.starts]
        first = int(reach.argmax())
        self.members[0] = self._fixations(np.array([first]))
        left = np.delete(np.arange(len(self.starts)), first)
        idle = 0
        while len(left) and idle <= patience:
            n_before = len(left)
            for row, way in ((min(self.members), -1), (max(self.members), 1)):
                gap = self._gaps(left, row)
                here = np.abs(gap) < within
                beyond = (gap * way >= within) & (gap * way < next_to)
                self._add(row, left[here])
                self._add(row + way, left[beyond])
                if not beyond.any():
                    self._hold_open(row, row + way)
                left = left[~(here | beyond)]
            idle = idle + 1 if len(left) == n_before else 0
        for run in left:
            alone = np.array([run])
            gaps = {row: abs(float(self._gaps(alone, row)[0])) for row in self.members}
            self._add(min(gaps, key=lambda row: gaps[row]), alone)
        rows = np.zeros(len(self.x), dtype=np.int64)
        for row, fixations in self.members.items():
            rows[fixations] = row
        return rows

    def _fixations(self, runs: np.ndarray) -> np.ndarray:
        """Return the fixations of runs, one run after the other."""
        sizes = self.ends[runs] - self.starts[runs]
        first = np.cumsum(sizes) - sizes
        return np.arange(sizes.sum()) + np.repeat(self.starts[runs] - first, sizes)

    def _points(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        fixations = self.members[row]
        if len(fixations):
            return self.x[fixations], self.y[fixations]
        return self.held_open[row]

    def _gaps(self, runs: np.ndarray, row: int) -> np.ndarray:
        """Return each run's mean distance in y below the row."""
        if not len(runs):
            return np.zeros(0)
        px, py = self._points(row)
        fixations = self._fixations(runs)
        near = np.abs(self.x[fixations][:, None] - px[None, :]).argmin(axis=1)
        sizes = self.ends[runs] - self.starts[runs]
        return means_of(self.y[fixations] - py[near], np.cumsum(sizes) - sizes)

    def _add(self, row: int, runs: np.ndarray) -> None:
        old = self.members.get(row, np.zeros(0, dtype=np.int64))
        self.members[row] = np.r_[old, self._fixations(runs)]

    def _hold_open(self, row: int, new: int) -> None:
        px, py = self._points(row)
        way = self.spacing * (new - row)
        self.held_open[new] = np.array([px.mean()]), np.array([py.mean() + way])


def _rows_to_lines(rows: np.ndarray, y: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Fold surplus outer rows into their neighbours, and put the others where they fit."""
    rows = rows - rows.min()
    counts = list(np.bincount(rows))
    top, bottom = 0, len(counts) - 1
    while bottom - top + 1 > len(lines):
        if counts[top] < counts[bottom]:
            counts[top + 1] += counts[top]
            top += 1
        else:
            counts[bottom - 1] += counts[bottom]
            bottom -= 1
    rows = np.clip(rows, top, bottom) - top
    free = len(lines) - (bottom - top + 1)
    shifts = np.arange(free + 1)
    cost = np.abs(y[:, None] - lines[rows[:, None] + shifts[None, :]]).sum(axis=0)
    return rows + int(cost.argmin())
