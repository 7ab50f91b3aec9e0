"""Steps over the scanpaths of many trials at once, without a loop over fixations or trials.

A *cell* is one word of one trial. Cells are numbered trial by trial and, within a trial, in
reading order. So the cells of a later trial are greater than all cells of an earlier one, and
"greater cell" within a trial means "later word": running maxima and neighbour comparisons need no
test for the borders of trials.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gazeattn.reading.areas import Placed

AT_ONCE = 1 << 17  # cells and fixations of a part


@dataclass(frozen=True)
class Scan:
    """All fixations on words, in the order of trials and time.

    Attributes
    ----------
    n_cells : int
    cell : ndarray, shape (n,), int64
        Cell of each fixation on a word.
    duration : ndarray, shape (n,), float64
        Milliseconds; NaN where missing.
    run : ndarray, shape (n,), int64
        Number of the run; a run is a maximal stretch of consecutive fixations on one word, and
        a fixation off every word ends it.
    adjacent : ndarray, shape (n,), bool
        The fixation before this one, in the same trial, lies on a word too.
    trial_cell : ndarray, shape (n_trials + 1,), int64
        First cell of each trial, and the number of cells.
    seen : ndarray, shape (n_trials,), bool
        The trial has at least one fixation with a position.
    """

    n_cells: int
    cell: np.ndarray
    duration: np.ndarray
    run: np.ndarray
    adjacent: np.ndarray
    trial_cell: np.ndarray
    seen: np.ndarray


def scan(placed: Placed) -> Scan:
    """Sort the fixations by trial and order, and number cells and runs."""
    rows = _sorted_rows(placed)
    trial, word, known = placed.trial[rows], placed.word[rows], placed.known[rows]
    trial_cell = np.r_[0, np.cumsum(placed.n_words)].astype(np.int64)
    same = np.zeros(len(trial), dtype=bool)
    np.equal(trial[1:], trial[:-1], out=same[1:])
    on = word >= 0
    shift = trial_cell[:-1] - placed.first_word
    cell = np.where(on, word + shift[trial], -1)
    new_run = ~same
    new_run[1:] |= cell[1:] != cell[:-1]
    adjacent = same.copy()
    adjacent[1:] &= on[:-1]

    seen = np.zeros(len(placed.trials), dtype=bool)
    seen[trial if known.all() else trial[known]] = True
    at = np.flatnonzero(on)
    if "duration" in placed.fixations:
        column = placed.fixations["duration"]
        duration = column.to_numpy(dtype=np.float64, na_value=np.nan)[rows].take(at)
    else:
        duration = np.full(len(at), np.nan)
    return Scan(
        n_cells=int(trial_cell[-1]),
        cell=cell.take(at),
        duration=duration,
        run=np.cumsum(new_run.take(at)) - 1,
        adjacent=adjacent.take(at),
        trial_cell=trial_cell,
        seen=seen,
    )


def blocks(s: Scan) -> Iterator[tuple[slice, Scan]]:
    """Cut a scan between trials into parts that fit the processor's caches.

    Yields
    ------
    slice
        The cells of the part.
    Scan
        The part, with cells and runs numbered from 0.
    """
    size = s.trial_cell[1:] + np.searchsorted(s.cell, s.trial_cell[1:])  # cells and fixations
    n_blocks = int(size[-1]) // AT_ONCE + 1 if len(size) else 0
    last = (
        np.searchsorted(size, size[-1] * np.arange(1, n_blocks + 1) / n_blocks) if n_blocks else ()
    )
    first = 0
    for stop in np.unique(last) + 1:
        cells = slice(int(s.trial_cell[first]), int(s.trial_cell[stop]))
        # all cells of later trials are greater: a search works though cells are not sorted
        begin, end = np.searchsorted(s.cell, [cells.start, cells.stop])
        run = s.run[begin:end]
        yield (
            cells,
            Scan(
                n_cells=cells.stop - cells.start,
                cell=s.cell[begin:end] - cells.start,
                duration=s.duration[begin:end],
                run=run - run[0] if len(run) else run,
                adjacent=s.adjacent[begin:end],
                trial_cell=s.trial_cell[first : stop + 1] - cells.start,
                seen=s.seen[first:stop],
            ),
        )
        first = int(stop)


def _sorted_rows(placed: Placed) -> np.ndarray | slice:
    """Return the fixations of known trials by trial and order; all as they are need no copy."""
    trial = placed.trial
    order = placed.fixations["index"].to_numpy(dtype=np.int64)
    rows: np.ndarray | slice = slice(None)
    if (trial < 0).any():
        rows = np.flatnonzero(trial >= 0)
        trial, order = trial[rows], order[rows]
    falls = order[1:] < order[:-1]
    falls &= trial[1:] == trial[:-1]
    falls |= trial[1:] < trial[:-1]
    if falls.any():
        sort = np.lexsort((order, trial))
        rows = rows[sort] if isinstance(rows, np.ndarray) else sort
    return rows


def first_of(groups: np.ndarray, n: int) -> np.ndarray:
    """Return the first position of each group number below `n`, -1 where it does not occur."""
    first = np.full(n, -1, dtype=np.int64)
    first[groups[::-1]] = np.arange(len(groups) - 1, -1, -1)  # the last write wins
    return first


def last_of(groups: np.ndarray, n: int) -> np.ndarray:
    """Return the last position of each group number below `n`, -1 where it does not occur."""
    last = np.full(n, -1, dtype=np.int64)
    last[groups] = np.arange(len(groups))
    return last


def maximum_before(values: np.ndarray) -> np.ndarray:
    """Return the maximum of all earlier values, -1 for the first; values are not negative."""
    return np.r_[-1, np.maximum.accumulate(values)[:-1]] if len(values) else values


def next_greater(values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return, for each start, the first later position with a greater value, else ``len(values)``.

    Climbs and descends a tree of block maxima: ``O(log n)`` steps over all queries at once.
    """
    top = np.iinfo(np.int64).max
    size = 1 << len(values).bit_length()  # at least one sentinel behind the values
    levels = [np.r_[values, np.full(size - len(values), top, dtype=np.int64)]]
    while len(levels[-1]) > 1:
        levels.append(np.maximum(levels[-1][::2], levels[-1][1::2]))
    floor = values[start]
    at = start + 1
    level = np.full(len(start), -1)
    climbing = np.arange(len(start))
    for height, maxima in enumerate(levels):
        right = (at[climbing] & 1).astype(bool) | (height == len(levels) - 1)
        found = right & (maxima[np.minimum(at[climbing], len(maxima) - 1)] > floor[climbing])
        level[climbing[found]] = height
        climbing = climbing[~found]
        if not len(climbing):
            break
        at[climbing] = (at[climbing] + 1) >> 1  # an even block goes to its parent, an odd one on
    for height in range(len(levels) - 1, 0, -1):
        going = np.flatnonzero(level >= height)
        left = at[going] * 2
        at[going] = np.where(levels[height - 1][left] > floor[going], left, left + 1)
    return np.minimum(at, len(values))


def sums_between(values: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return ``values[start:stop].sum()`` for each pair; each pair holds at least one value.

    Adds the values of each stretch on their own: a running total would carry the rounding of
    other trials into the result, and a missing value into all that follows.
    """
    if not len(start):
        return np.zeros(0)
    order = np.argsort(start, kind="stable")
    padded = np.append(values, 0.0)  # a stop behind the last value must be a valid position
    pairs = np.column_stack([start[order], stop[order]]).ravel()
    sums = np.empty(len(start))
    sums[order] = np.add.reduceat(padded, pairs)[::2]
    return sums
