"""Methods that align fixations with words by dynamic time warping: compare, warp."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.reading.drift._lines import (
    group_numbers,
    means_of,
    nearest_line,
    scaled,
    solve,
)


def warp(
    fixations: ArrayLike,
    line_y: ArrayLike,
    word_xy: ArrayLike,
    *,
    right_to_left: bool = False,
) -> np.ndarray:
    """Align the fixations with the words in reading order; a fixation is on its words' line.

    The alignment goes forward in both sequences and has the smallest sum of distances between
    fixations and word centres. A fixation aligned with words of several lines goes to the line of
    most of them; of equally many, to the upper one.

    Parameters
    ----------
    fixations, line_y
        See `attach`.
    word_xy : array_like, shape (n_words, 2)
        Word centres in pixels, in reading order. A word belongs to the line nearest to its y.
    right_to_left
        Makes no difference here: the order of words says it all.

    Returns
    -------
    ndarray, shape (n,), int64
        See `attach`.

    References
    ----------
    Carr et al. (2022), doi:10.3758/s13428-021-01554-0.
    """
    del right_to_left
    words = _as_words(word_xy)

    def core(x: np.ndarray, y: np.ndarray, lines: np.ndarray) -> np.ndarray:
        distance = np.hypot(x[:, None] - words[None, :, 0], y[:, None] - words[None, :, 1])
        first, last = warping_path(distance)
        line_of_word = nearest_line(words[:, 1], lines)
        upto = np.zeros((len(words) + 1, len(lines)), dtype=np.int64)
        np.cumsum(line_of_word[:, None] == np.arange(len(lines)), axis=0, out=upto[1:])
        return (upto[last + 1] - upto[first]).argmax(axis=1)

    return solve(fixations, line_y, core)


def compare(
    fixations: ArrayLike,
    line_y: ArrayLike,
    word_xy: ArrayLike,
    *,
    x_thresh: float | None = None,
    n_nearest: int = 3,
    right_to_left: bool = False,
) -> np.ndarray:
    """Cut the sequence at return sweeps; each part goes to the near line whose words it fits best.

    A part ends where x steps back by more than `x_thresh`. Of the `n_nearest` lines nearest to
    its mean y, the one whose words' x have the smallest warping distance to the part's x gets it;
    of equally good ones, the nearest.

    Parameters
    ----------
    fixations, line_y
        See `attach`.
    word_xy : array_like, shape (n_words, 2)
        See `warp`.
    x_thresh
        In pixels; default 512 at a line spacing of 64 pixels, in proportion for others.
    n_nearest
        Number of lines to compare with.
    right_to_left
        The text runs to the left: a step back is one to the right.

    Returns
    -------
    ndarray, shape (n,), int64
        See `attach`.

    References
    ----------
    Lima Sanches, Kise and Augereau (2015), UbiComp/ISWC adjunct, doi:10.1145/2800835.2807936.
    """
    words = _as_words(word_xy)
    if n_nearest < 1:
        raise DataError("n_nearest must be 1 or more", found=n_nearest)

    def core(x: np.ndarray, y: np.ndarray, lines: np.ndarray) -> np.ndarray:
        starts = np.r_[0, np.flatnonzero(np.diff(x) < -scaled(x_thresh, 512.0, lines)) + 1]
        word_x = -words[:, 0] if right_to_left else words[:, 0]
        line_of_word = nearest_line(words[:, 1], lines)
        with_words = np.unique(line_of_word)  # a line without words has nothing to compare with
        away = np.abs(means_of(y, starts)[:, None] - lines[with_words][None, :])
        near = with_words[np.argsort(away, axis=1, kind="stable")[:, :n_nearest]]
        part, candidate = np.repeat(np.arange(len(starts)), near.shape[1]), near.ravel()
        ends = np.r_[starts[1:], len(x)]
        a, size_a = _padded([x[s:e] for s, e in zip(starts, ends, strict=True)])
        b, size_b = _padded([word_x[line_of_word == k] for k in range(len(lines))])
        distance = np.abs(a[part][:, :, None] - b[candidate][:, None, :])
        cost = warping_costs(distance, size_a[part], size_b[candidate]).reshape(near.shape)
        line = near[np.arange(len(starts)), cost.argmin(axis=1)]
        return line[group_numbers(starts, len(x))]

    return solve(fixations, line_y, core, right_to_left=right_to_left)


def _as_words(word_xy: ArrayLike) -> np.ndarray:
    words = np.asarray(word_xy, dtype=np.float64)
    if words.ndim != 2 or words.shape[1] != 2 or not len(words) or not np.isfinite(words).all():
        raise DataError(
            "word centres must be finite numbers, one row per word",
            expected="shape (n_words, 2), one word or more",
            found=f"shape {words.shape}" + ("" if words.ndim != 2 else " or missing values"),
        )
    return words


def _padded(rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of unequal length as one array, and their lengths."""
    sizes = np.array([len(r) for r in rows])
    table = np.zeros((len(rows), int(sizes.max())))
    table[np.arange(table.shape[1])[None, :] < sizes[:, None]] = np.concatenate(rows)
    return table, sizes


def _skewed(distance: np.ndarray) -> np.ndarray:
    """Return ``out[d, ..., i] = distance[..., i, d - i]``, infinite outside: diagonals as rows."""
    n, m = distance.shape[-2:]
    flat = np.full((*distance.shape[:-2], n, n + m), np.inf)
    flat[..., :m] = distance
    # rows of n + m, read with rows of n + m - 1: row i is shifted by i
    flat = flat.reshape(*distance.shape[:-2], n * (n + m))[..., : n * (n + m - 1)]
    skew = flat.reshape(*distance.shape[:-2], n, n + m - 1)
    return np.ascontiguousarray(np.moveaxis(skew, -1, 0))


def _accumulated(distance: np.ndarray) -> np.ndarray:
    """Return the cost of the best path to each cell, diagonals as rows (see `_skewed`).

    All cells of a diagonal depend on the two diagonals before alone, so each is one step, in the
    same arithmetic as cell by cell. Shape (n + m - 1, ..., n + 1); entry i + 1 is row i.
    """
    cells = _skewed(distance)
    cost = np.full((*cells.shape[:-1], cells.shape[-1] + 1), np.inf)
    cost[0, ..., 1] = cells[0, ..., 0]
    for d in range(1, len(cells)):
        before = cost[d - 1]
        best = np.minimum(before[..., 1:], before[..., :-1])
        if d > 1:
            np.minimum(best, cost[d - 2][..., :-1], out=best)
        np.add(best, cells[d], out=cost[d][..., 1:])
    return cost


def warping_costs(distance: np.ndarray, size_a: np.ndarray, size_b: np.ndarray) -> np.ndarray:
    """Return the dynamic time warping cost of each pair of a batch.

    Parameters
    ----------
    distance : ndarray, shape (batch, n, m)
    size_a, size_b : ndarray, shape (batch,)
        Part of each pair's table that is in use.
    """
    cost = _accumulated(distance)
    return cost[size_a + size_b - 2, np.arange(len(distance)), size_a]


def warping_path(distance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and last column that the best path visits in each row.

    Of equally good steps, the path goes back on both sides, else by row, else by column.
    """
    n, m = distance.shape
    turned = m < n  # diagonals are as long as the side that numbers their cells
    cost = _accumulated(distance.T if turned else distance)
    first, last = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    # cost of each cell's predecessors, infinite where there is none
    both, row, column = np.full((3, n + m - 1, min(n, m)), np.inf)
    both[2:] = cost[:-2, :-1]
    row[1:] = cost[:-1, 1:] if turned else cost[:-1, :-1]
    column[1:] = cost[:-1, :-1] if turned else cost[:-1, 1:]
    # 0: back on both sides, 1: by row, 2: by column
    moves = np.where(both <= np.minimum(row, column), 0, np.where(row <= column, 1, 2))
    steps = moves.astype(np.uint8).tolist()
    i, j = n - 1, m - 1
    last[i] = j
    while i > 0 or j > 0:
        move = steps[i + j][j if turned else i]
        if move == 2:
            j -= 1
            continue
        first[i] = j
        i -= 1
        j -= 1 - move
        last[i] = j
    first[0] = 0
    return first, last
