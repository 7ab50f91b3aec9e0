"""ScanMatch: fixations as symbols of grid cells, aligned as proteins are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError
from gazeattn.metrics._options import finite, pair_of, wrong
from gazeattn.metrics.scanpath._blocks import one_of, one_pair, positive, size_of, whole
from gazeattn.metrics.scanpath._grid import blocks, repeated
from gazeattn.metrics.scanpath._packed import Floats, Packed, Whole, pack
from gazeattn.metrics.scanpath._places import treated, with_outside
from gazeattn.metrics.scanpath._strings import MOST_SYMBOLS, Strings
from gazeattn.registry import register_metric

__all__ = ["scanmatch", "scanmatch_pairs", "scanmatch_strings"]

CONVENTIONS = ("needleman_wunsch", "gazeparser")
OUTSIDE = ("clip", "drop", "undefined", "raise")
"""A fixation off the grid has no symbol, so that none can be kept where it is."""
WRITABLE = ("clip", "drop", "raise")
_MOST_CELLS = 4096  # of a grid: the table of similarities has the square of it


@dataclass(frozen=True)
class _Grid:
    """How fixations become symbols."""

    width: float
    height: float
    columns: int
    rows: int
    time_bin: float | None

    @classmethod
    def checked(cls, size: object, bins: tuple[int, int], time_bin: float | None) -> _Grid:
        columns, rows = (whole("bins", v) for v in pair_of("bins", bins))
        if columns * rows > _MOST_CELLS:
            raise DataError(
                "the grid is too fine", expected=f"at most {_MOST_CELLS} cells", found=repr(bins)
            )
        if time_bin is not None:
            time_bin = positive("time_bin", time_bin)
        return cls(*size_of(size), columns, rows, time_bin)

    def strings(self, paths: Packed) -> Strings:
        """Return the symbols of all paths; `missing` where a path cannot be written so.

        All fixations are on the stimulus.
        """
        x, y = np.trunc(paths.x), np.trunc(paths.y)
        column = np.floor(x * self.columns / self.width).astype(np.int64)
        row = np.floor(y * self.rows / self.height).astype(np.int64)
        codes, length = row * self.columns + column, paths.length
        missing = np.zeros(len(paths), dtype=bool)
        if self.time_bin is not None:
            inside = paths.valid()
            missing |= (np.isnan(paths.duration) & inside).any(axis=1)
            inside &= ~missing[:, None]
            whole_ms = np.trunc(np.where(inside, paths.duration, 0.0))
            times = np.round(whole_ms / self.time_bin)
            if times.sum() > MOST_SYMBOLS:
                times = np.minimum(times, MOST_SYMBOLS + 1)  # refused below
            codes, length = repeated(codes, times.astype(np.int64), MOST_SYMBOLS)
        return Strings(codes, length, self.columns * self.rows, missing)


def _similarities(columns: int, rows: int, threshold: float) -> Floats:
    """Return threshold - distance of all pairs of cells, in cells."""
    row, column = np.divmod(np.arange(columns * rows), columns)
    across, down = column[:, None] - column, row[:, None] - row
    distance = np.sqrt(np.square(across) + np.square(down))
    return np.asarray(threshold - distance)


@with_outside(*OUTSIDE)
def scanmatch_pairs(
    A: Packed,
    B: Packed,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    *,
    size: tuple[float, float],
    bins: tuple[int, int] = (12, 8),
    threshold: float = 3.5,
    gap: float = 0.0,
    time_bin: float | None = None,
    convention: str = "needleman_wunsch",
    outside: str | None = None,
) -> Floats:
    """Return the scores of many pairs at once, (n_pairs,); see `scanmatch`."""
    grid = _Grid.checked(size, bins, time_bin)
    one_of("convention", convention, CONVENTIONS)
    threshold = positive("threshold", threshold)
    if (gap := finite("gap", gap)) > 0:
        raise wrong("gap", "a finite number, 0 or less", gap)
    ours, theirs = np.asarray(i, dtype=np.intp), np.asarray(j, dtype=np.intp)
    a = grid.strings(A)
    b = a if B is A else grid.strings(B)
    out = np.full(len(ours), np.nan)
    longest = np.maximum(a.length[ours], b.length[theirs])
    where = np.flatnonzero(~a.missing[ours] & ~b.missing[theirs] & (longest > 0))
    similar = _similarities(grid.columns, grid.rows, threshold)
    peer = convention == "gazeparser" and gap != 0
    for chosen, n, m in blocks(a, b, ours[where], theirs[where], wide=True):
        at = where[chosen]
        out[at] = _aligned(a, b, (ours[at], theirs[at]), (n, m), similar, gap, peer)
    return np.asarray(out / (threshold * np.maximum(longest, 1)))


def _aligned(
    a: Strings,
    b: Strings,
    pairs: tuple[NDArray[np.intp], NDArray[np.intp]],
    longest: tuple[int, int],
    similar: Floats,
    gap: float,
    peer: bool,
) -> Floats:
    """Return the score of the best global alignment of each pair, before it is scaled."""
    (i, j), (n, m) = pairs, longest
    na, nb, p = a.length[i], b.length[j], len(i)
    # Cell (r, c) of the table lies on antidiagonal r + c and stands in row r of its buffer.
    before, last, here = (np.empty((n + 1, p)) for _ in range(3))
    before[0] = gap * peer
    last[:2] = gap * (1 + peer)
    first = a.codes[i, :n].T * len(similar)
    second = np.ascontiguousarray(b.codes[j, :m].T[::-1])
    entry, best = np.empty((n, p), dtype=np.intp), np.empty((n, p))
    out = gap * (np.maximum(na, nb) + peer).astype(np.float64)  # right where one string is empty
    highest = np.maximum(before[0], out) if peer else out
    by_end = np.argsort(na + nb, kind="stable")
    ends = np.searchsorted((na + nb)[by_end], np.arange(n + m + 2))
    for d in range(2, n + m + 1):
        low, high = max(1, d - m), min(d, n + 1)
        if d <= n:
            here[d] = gap * (d + peer)
            high = d
        if d <= m:
            here[0] = gap * (d + peer)
        if low < high:
            part = here[low:high]
            which, score = entry[: high - low], best[: high - low]
            np.add(first[low - 1 : high - 1], second[m - d + low : m - d + high], out=which)
            np.take(similar, which, out=part, mode="clip")
            part += before[low - 1 : high - 1]
            np.maximum(last[low - 1 : high - 1], last[low:high], out=score)
            if gap:
                score += gap
            np.maximum(part, score, out=part)
        if peer:
            rows = np.arange(max(0, d - m), min(d, n) + 1)[:, None]
            inside = (rows <= na) & (d - rows <= nb)
            found = np.where(inside, here[rows[0, 0] : rows[-1, 0] + 1], -np.inf)
            np.maximum(highest, found.max(axis=0), out=highest)
        done = by_end[ends[d] : ends[d + 1]]
        done = done[(na[done] > 0) & (nb[done] > 0)]
        out[done] = here[na[done], done]
        before, last, here = last, here, before
    return highest if peer else out


def scanmatch_strings(
    paths: list[ArrayLike],
    *,
    size: tuple[float, float],
    bins: tuple[int, int] = (12, 8),
    time_bin: float | None = None,
    outside: str | None = None,
) -> list[Whole]:
    """Return the symbols that `scanmatch` sees, row * columns + column, one array per path.

    ``outside="undefined"`` is no choice here, since such a path has no string.
    """
    outside = "clip" if outside is None else outside
    one_of("treatment of fixations outside the stimulus", outside, WRITABLE)
    packed, _ = treated(pack(paths), size, outside)
    strings = _Grid.checked(size, bins, time_bin).strings(packed)
    return [c[:n] for c, n in zip(strings.codes, strings.length, strict=True)]


def _reason(a: ArrayLike, b: ArrayLike, **parameters: Any) -> str:
    paths = pack([a, b])
    time_bin = parameters.get("time_bin")
    if time_bin is not None and (np.isnan(paths.duration) & paths.valid()).any():
        return "a duration is missing, which time_bin needs"
    if not paths.length.any():
        return "both scanpaths are empty"
    if time_bin is not None and not np.round(np.trunc(paths.duration) / time_bin).any():
        return "all fixations are too short for one time bin, so both strings are empty"
    return ""


def _lengths(paths: Packed, **parameters: Any) -> Whole:
    """Return about how many symbols each path has."""
    time_bin = parameters.get("time_bin")
    if time_bin is None or not time_bin > 0:
        return paths.length
    total = np.nansum(np.where(paths.valid(), paths.duration, 0.0), axis=1) / time_bin
    return np.asarray(np.minimum(np.ceil(total), MOST_SYMBOLS).astype(np.int64))


@register_metric(
    "scanmatch",
    task="scanpath",
    bounds=(0.0, 1.0),
    higher_is_better=True,
    symmetric=True,
    description="ScanMatch: global alignment of grid symbols (repeated per time bin), near cells "
    "alike; below 0 only with a negative gap",
    formula="best sum of (threshold - distance in cells) and gaps / (threshold * longer length)",
    citation="Cristino, Mathot, Theeuwes & Gilchrist 2010, Behavior Research Methods 42(3):692-700",
    convention="needleman_wunsch: borders gap * i, last cell (gazeparser: gap * (i + 1), largest "
    "cell; differs only for a negative gap); fixations off the stimulus count at its border",
    kernel=scanmatch_pairs,
    columns=None,
    reason=_reason,
    lengths=_lengths,
    outside=OUTSIDE,
    needs_size=True,
)
def scanmatch(
    a: ArrayLike,
    b: ArrayLike,
    *,
    size: tuple[float, float],
    bins: tuple[int, int] = (12, 8),
    threshold: float = 3.5,
    gap: float = 0.0,
    time_bin: float | None = None,
    convention: str = "needleman_wunsch",
    outside: str | None = None,
) -> float:
    """Return the ScanMatch score: 1 for equal strings, 0 (at gap 0) for nothing in common.

    Parameters
    ----------
    a, b
        (n, 2) x, y in pixels or (n, 3) with durations in ms.
    size
        Width and height of the stimulus in pixels.
    bins
        Columns and rows of the grid.
    threshold
        Distance in cells at which two symbols stop to count as alike; the score of equal symbols.
    gap
        Score of a symbol left unaligned, 0 or less.
    time_bin
        Milliseconds per repetition of a symbol: round(duration / time_bin), half to even, after
        positions and durations are cut to whole numbers. None: each fixation is one symbol,
        durations are not looked at.
    convention
        ``"needleman_wunsch"``: a border cell costs its number of gaps, the score is the last cell
        of the table. ``"gazeparser"``: one gap more at the borders, and the largest cell of the
        table, as all Python copies compute it. Equal for gap 0.
    outside
        Fixations off the stimulus: ``"clip"`` (the default, as all copies do) moves them to its
        border; ``"drop"`` leaves them out; ``"undefined"`` gives NaN; ``"raise"`` is an error.
        Without a choice there is a warning.

    Returns
    -------
    float
        NaN when both strings are empty, or a duration is missing that `time_bin` needs.

    Raises
    ------
    DataError
        A path or a parameter that cannot be used.

    References
    ----------
    Cristino, Mathot, Theeuwes & Gilchrist (2010), Behavior Research Methods 42(3), 692-700.
    """
    return float(
        one_pair(
            scanmatch_pairs,
            a,
            b,
            size=size,
            bins=bins,
            threshold=threshold,
            gap=gap,
            time_bin=time_bin,
            convention=convention,
            outside=outside,
        )
    )
