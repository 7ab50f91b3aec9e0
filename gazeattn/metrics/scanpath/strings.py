"""Edit distances between scanpaths written as strings of grid cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError
from gazeattn.metrics._options import as_number, wrong
from gazeattn.metrics.scanpath._blocks import one_of, one_pair, size_of, whole
from gazeattn.metrics.scanpath._grid import CELLS, before, blocks, corner, diagonals
from gazeattn.metrics.scanpath._packed import Floats, Packed, Whole, pack
from gazeattn.metrics.scanpath._places import OUTSIDE, treated, with_outside
from gazeattn.metrics.scanpath._strings import Strings, common_lengths, edit_lengths
from gazeattn.registry import register_metric

__all__ = [
    "damerau_levenshtein",
    "damerau_levenshtein_pairs",
    "grid_strings",
    "levenshtein",
    "levenshtein_pairs",
    "levenshtein_similarity",
    "levenshtein_similarity_pairs",
]

_EFFECT = "where their cell numbers run into other rows"
WRITABLE = ("keep", "clip", "drop", "raise")
_FAR = 2.0**52  # beyond this a cell number is no whole number any more


def _written(paths: list[Packed], size: object, grid: int, off: str | None) -> list[Strings]:
    """Return the symbols of several packs, from 0 upwards, the same symbol for the same cell."""
    n, (width, height) = whole("grid", grid), size_of(size)
    step_x, step_y = width // n, height // n
    if step_x < 1 or step_y < 1:
        raise DataError("the grid is too fine", expected="cells of a pixel or more", found=str(n))
    cells: list[Whole] = []
    for p in paths:
        x, y = np.trunc(p.x), np.trunc(p.y)
        column, row = np.floor(x / step_x), np.floor(y / step_y)
        if max(np.abs(column).max(initial=0), np.abs(row).max(initial=0) * n) > _FAR:
            raise DataError("a fixation lies too far off for the grid", expected="pixels")
        if off == "clip":
            column, row = np.clip(column, 0, n - 1), np.clip(row, 0, n - 1)
        cells.append((column + row * n).astype(np.int64))
    lowest = min(int(c.min(initial=0)) for c in cells)
    highest = max(int(c.max(initial=0)) for c in cells)
    if lowest < 0 or highest >= 4 * n * n:  # far off: number the cells that occur
        known = np.unique(np.concatenate([c.ravel() for c in cells]))
        cells = [np.searchsorted(known, c) for c in cells]
        highest = len(known) - 1
    return [
        Strings(c, p.length, highest + 1, np.zeros(len(p), dtype=bool))
        for p, c in zip(paths, cells, strict=True)
    ]


_Distances = Callable[[Strings, Strings, NDArray[np.intp], NDArray[np.intp]], NDArray]


def _over_pairs(
    distances: _Distances,
    A: Packed,
    B: Packed,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    size: object,
    grid: int,
    off: str | None,
) -> Floats:
    strings = _written([A] if B is A else [A, B], size, grid, off)
    a, b = strings[0], strings[-1]
    ours, theirs = np.asarray(i, dtype=np.intp), np.asarray(j, dtype=np.intp)
    out = distances(a, b, ours, theirs).astype(np.float64)
    out[(a.length[ours] == 0) & (b.length[theirs] == 0)] = np.nan
    return out


def _edits(cost: int) -> _Distances:
    def distances(a: Strings, b: Strings, i: NDArray[np.intp], j: NDArray[np.intp]) -> NDArray:
        if cost == 1:
            return edit_lengths(a, b, i, j)
        # A substitution that costs 2 is a deletion and an insertion: all but the common symbols.
        return a.length[i] + b.length[j] - 2 * common_lengths(a, b, i, j)

    return distances


@with_outside(*OUTSIDE, effect=_EFFECT)
def levenshtein_pairs(
    A: Packed,
    B: Packed,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    *,
    size: tuple[float, float],
    grid: int = 5,
    substitution: int = 1,
    outside: str | None = None,
) -> Floats:
    """Return the distances of many pairs at once, (n_pairs,); see `levenshtein`."""
    if as_number(substitution) not in (1, 2):
        raise wrong("substitution", "1 or 2", substitution)
    return _over_pairs(_edits(int(substitution)), A, B, i, j, size, grid, outside)


@with_outside(*OUTSIDE, effect=_EFFECT)
def levenshtein_similarity_pairs(
    A: Packed,
    B: Packed,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    *,
    size: tuple[float, float],
    grid: int = 5,
    outside: str | None = None,
) -> Floats:
    """Return the similarities of many pairs at once, (n_pairs,); see `levenshtein_similarity`."""
    distance = _over_pairs(_edits(1), A, B, i, j, size, grid, outside)
    longer = np.maximum(A.length[np.asarray(i)], B.length[np.asarray(j)])
    return np.where(longer > 0, 1 - distance / np.maximum(longer, 1), np.nan)


@with_outside(*OUTSIDE, effect=_EFFECT)
def damerau_levenshtein_pairs(
    A: Packed,
    B: Packed,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    *,
    size: tuple[float, float],
    grid: int = 5,
    outside: str | None = None,
) -> Floats:
    """Return the distances of many pairs at once, (n_pairs,); see `damerau_levenshtein`."""
    return _over_pairs(_damerau, A, B, i, j, size, grid, outside)


def _damerau(a: Strings, b: Strings, i: NDArray[np.intp], j: NDArray[np.intp]) -> NDArray:
    out = np.zeros(len(i), dtype=np.int64)
    for chosen, n, m in blocks(a, b, i, j, most_cells=4 * CELLS):  # of two bytes
        out[chosen] = _swapped(a, b, i[chosen], j[chosen], n, m)
    return out


def _swapped(
    a: Strings, b: Strings, i: NDArray[np.intp], j: NDArray[np.intp], n: int, m: int
) -> NDArray:
    columns, p = m + 1, len(i)
    kind: type[np.signedinteger] = np.int16 if n + m < 2**14 else np.int32
    total = np.zeros((n + 1, columns, p), dtype=kind)
    total[:, 0] = np.arange(n + 1, dtype=kind)[:, None]
    total[0] = np.arange(columns, dtype=kind)[:, None]
    table, flat = total.reshape(-1, p), total.reshape(-1)
    if n == 0 or m == 0:
        return corner(table, a.length[i], b.length[j], columns)
    small = np.int16 if max(a.n_symbols, b.n_symbols) < 2**15 else np.int64
    first = a.codes[i, :n].T.astype(small, order="C")
    equal = first[:, None] == b.codes[j, :m].T.astype(small, order="C")
    np.logical_not(equal, out=total[1:, 1:])
    swaps = _swaps(equal, kind)
    for d, cells in diagonals(n, m):
        here = table[cells]
        here += table[before(cells, columns + 1)]
        best = np.minimum(table[before(cells, columns)], table[before(cells, 1)])
        best += 1
        np.minimum(here, best, out=here)
        at, origin, between = swaps(d)
        flat[at] = np.minimum(flat[at], flat[origin] + between)
    return corner(table, a.length[i], b.length[j], columns)


def _swaps(
    equal: NDArray[np.bool_], kind: type[np.signedinteger]
) -> Callable[[int], tuple[NDArray, ...]]:
    """Return a function that lists, for an antidiagonal, the cells that a swap may reach.

    It gives those cells, the cells before the swap, and the cost: the symbols in between on both
    sides, and 1 for the swap. A swap takes the nearest earlier row with this column's symbol and
    the nearest earlier column with this row's. It can only be cheaper than substitutions where
    the swapped symbols are neighbours in one of the strings: with x rows and y columns in between
    it costs x + y + 1 and substitutions cost at most max(x, y) + 2.
    """
    n, m, p = equal.shape
    up, left = np.zeros((n, m, p), dtype=kind), np.zeros((n, m, p), dtype=kind)
    for r in range(1, n):  # counted from 1; 0: none
        np.multiply(equal[r - 1], kind(r), out=up[r])
        np.maximum(up[r], up[r - 1], out=up[r])
    for c in range(1, m):
        np.multiply(equal[:, c - 1], kind(c), out=left[:, c])
        np.maximum(left[:, c], left[:, c - 1], out=left[:, c])
    useful = np.zeros((n, m, p), dtype=bool)
    useful[1:] = equal[:-1] & (left[1:] > 0)
    useful[:, 1:] |= equal[:, :-1] & (up[:, 1:] > 0)
    flat = np.flatnonzero(useful)
    above, beside = up.reshape(-1)[flat], left.reshape(-1)[flat]
    cell = flat // p
    pair, row = flat - cell * p, cell // m
    column = cell - row * m
    diagonal = row + column
    order = np.argsort(diagonal, kind="stable")
    width = m + 1
    at = (((row + 1) * width + column + 1) * p + pair)[order]
    origin = (((above - 1).astype(np.int64) * width + beside - 1) * p + pair)[order]
    between = (row - above + column - beside + 1).astype(kind)[order]
    ends = np.searchsorted(diagonal[order], np.arange(n + m))

    def on(d: int) -> tuple[NDArray, ...]:
        part = slice(ends[d - 2], ends[d - 1])  # cell (1, 1) of the table is on antidiagonal 2
        return at[part], origin[part], between[part]

    return on


def grid_strings(
    paths: list[ArrayLike],
    *,
    size: tuple[float, float],
    grid: int = 5,
    outside: str | None = None,
) -> list[Whole]:
    """Return the cell numbers that the edit distances see, one array per path.

    They are column + row * grid. With ``outside="keep"`` a fixation left of or above the
    stimulus has a number below 0, and one right of it a number of the next row.
    ``"undefined"`` is no choice here, since such a path has no string.
    """
    (width, height), n = size_of(size), whole("grid", grid)
    outside = "keep" if outside is None else outside
    one_of("treatment of fixations outside the stimulus", outside, WRITABLE)
    packed, _ = treated(pack(paths), size, outside)
    _written([packed], size, grid, outside)  # refuses what cannot be used
    column = np.floor(np.trunc(packed.x) / (width // n))
    row = np.floor(np.trunc(packed.y) / (height // n))
    if outside == "clip":
        column, row = np.clip(column, 0, n - 1), np.clip(row, 0, n - 1)
    cells = (column + row * n).astype(np.int64)
    return [c[:k] for c, k in zip(cells, packed.length, strict=True)]


def _reason(a: ArrayLike, b: ArrayLike, **parameters: Any) -> str:
    return "" if pack([a, b]).length.any() else "both scanpaths are empty"


_CONVENTION = (
    "grid x grid cells of floor(size / grid) pixels after truncation; fixations past the last "
    "cell overflow into the next number, as in the published copies (outside='clip': they do not); "
    "two empty paths are undefined"
)


@register_metric(
    "levenshtein",
    task="scanpath",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=True,
    description="edit distance of grid strings; substitution=2: without substitutions",
    formula="least number of insertions, deletions and substitutions (of cost 1 or 2)",
    citation="Levenshtein 1966, Soviet Physics Doklady 10; Brandt & Stark 1997, Journal of "
    "Cognitive Neuroscience 9",
    convention=_CONVENTION,
    kernel=levenshtein_pairs,
    columns=None,
    reason=_reason,
    outside=OUTSIDE,
    needs_size=True,
)
def levenshtein(
    a: ArrayLike,
    b: ArrayLike,
    *,
    size: tuple[float, float],
    grid: int = 5,
    substitution: int = 1,
    outside: str | None = None,
) -> float:
    """Return the edit distance of two scanpaths written as strings of grid cells.

    Parameters
    ----------
    a, b
        (n, 2) x, y in pixels or (n, 3); durations are not looked at.
    size
        Width and height of the stimulus in pixels.
    grid
        Cells per side. A cell has floor(size / grid) pixels, so some pixels at the right and at
        the bottom may lie past the last cell.
    substitution
        Cost of a substitution, 1 or 2. Insertions and deletions cost 1.
    outside
        Fixations off the stimulus. ``"keep"`` (the default, as the published copies do) lets the
        number run on, column + row * grid, so that one right of the stimulus shares its cell with
        one at the left of the next row. ``"clip"`` moves them to the border, and counts pixels
        past the last cell in that cell. ``"drop"`` leaves them out; ``"undefined"`` gives NaN;
        ``"raise"`` is an error. Without a choice there is a warning.

    Returns
    -------
    float
        NaN for two empty paths; the length of the other for one empty.

    Raises
    ------
    DataError
        A path or a parameter that cannot be used.
    """
    return float(
        one_pair(
            levenshtein_pairs,
            a,
            b,
            size=size,
            grid=grid,
            substitution=substitution,
            outside=outside,
        )
    )


@register_metric(
    "levenshtein_similarity",
    task="scanpath",
    bounds=(0.0, 1.0),
    higher_is_better=True,
    symmetric=True,
    description="edit distance of grid strings as a similarity",
    formula="1 - levenshtein / longer length",
    citation="Levenshtein 1966, Soviet Physics Doklady 10; Foulsham & Underwood 2008, Journal of "
    "Vision 8(2):6",
    convention=_CONVENTION,
    kernel=levenshtein_similarity_pairs,
    columns=None,
    reason=_reason,
    outside=OUTSIDE,
    needs_size=True,
)
def levenshtein_similarity(
    a: ArrayLike,
    b: ArrayLike,
    *,
    size: tuple[float, float],
    grid: int = 5,
    outside: str | None = None,
) -> float:
    """Return 1 - `levenshtein` / longer length; NaN for two empty paths, 0 for one empty."""
    return float(
        one_pair(levenshtein_similarity_pairs, a, b, size=size, grid=grid, outside=outside)
    )


@register_metric(
    "damerau_levenshtein",
    task="scanpath",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=True,
    description="edit distance of grid strings in which a swap of two neighbours costs 1",
    formula="least number of insertions, deletions, substitutions and swaps of neighbours",
    citation="Damerau 1964, Communications of the ACM 7; Lowrance & Wagner 1975, Journal of the "
    "ACM 22",
    convention=_CONVENTION + "; unrestricted: swapped symbols may be edited further",
    kernel=damerau_levenshtein_pairs,
    columns=None,
    reason=_reason,
    outside=OUTSIDE,
    needs_size=True,
)
def damerau_levenshtein(
    a: ArrayLike,
    b: ArrayLike,
    *,
    size: tuple[float, float],
    grid: int = 5,
    outside: str | None = None,
) -> float:
    """Return the edit distance with swaps of neighbours (unrestricted); see `levenshtein`."""
    return float(one_pair(damerau_levenshtein_pairs, a, b, size=size, grid=grid, outside=outside))
