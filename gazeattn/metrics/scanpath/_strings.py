"""Strings of symbols side by side, matched 64 symbols at a time with bit operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError
from gazeattn.metrics._options import positive, whole
from gazeattn.metrics.scanpath._packed import Floats, Packed, Whole

Words = NDArray[np.uint64]

MOST_SYMBOLS = 50_000_000
"""More symbols than this in one block are a wrong unit rather than long recordings."""

_WORD = 64
_ONE = np.uint64(1)
_TOP = np.uint64(_WORD - 1)
_TABLE_BYTES = 1 << 27
# A bin that floating point leaves a hair short of full (1.15 s as 1149.9999999999998 ms) is full.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Strings:
    """Strings in one block.

    Attributes
    ----------
    codes : ndarray, shape (n_strings, longest), int64
        Symbols 0 .. n_symbols - 1; anything behind the end.
    length : ndarray, shape (n_strings,), int64
    n_symbols : int
    missing : ndarray, shape (n_strings,), bool
        Strings that could not be made (time bins without durations).
    """

    codes: Whole
    length: Whole
    n_symbols: int
    missing: NDArray[np.bool_]


def as_strings(symbols: Sequence[ArrayLike], n_symbols: int | None = None) -> Strings:
    """Put ready strings (whole numbers from 0) side by side."""
    arrays = [np.asarray(s, dtype=np.int64).reshape(-1) for s in symbols]
    length = np.array([len(s) for s in arrays], dtype=np.int64)
    codes = np.zeros((len(arrays), int(length.max(initial=0))), dtype=np.int64)
    for i, s in enumerate(arrays):
        codes[i, : len(s)] = s
    highest = int(codes.max(initial=-1)) + 1
    return Strings(codes, length, n_symbols or highest, np.zeros(len(arrays), dtype=bool))


def make_strings(
    paths: Packed, codes: Whole, n_symbols: int, truncate: int | None, bin_ms: float | None
) -> Strings:
    """Cut strings to their first fixations, then repeat each symbol once per full time bin."""
    check_options(truncate, bin_ms)
    length, duration = paths.length, paths.duration
    if truncate is not None:
        truncate = int(truncate)
        length = np.minimum(length, truncate)
        codes, duration = codes[:, :truncate], duration[:, :truncate]
    missing: NDArray[np.bool_] = np.zeros(len(length), dtype=bool)
    if bin_ms is not None:
        inside = np.arange(codes.shape[1]) < length[:, None]
        unknown = np.isnan(duration) & inside
        missing = np.asarray(unknown.any(axis=1))
        codes, length = _repeat(codes, duration / bin_ms, inside & ~missing[:, None])
    return Strings(codes, length, n_symbols, missing)


def check_options(truncate: int | None, bin_ms: float | None) -> None:
    """Raise a `DataError` for a cut or a time bin that is not positive."""
    if truncate is not None:
        whole("truncate", truncate)
    if bin_ms is not None:
        positive("bin_ms", bin_ms)


def _repeat(codes: Whole, bins: Floats, inside: NDArray[np.bool_]) -> tuple[Whole, Whole]:
    times = np.floor(np.where(inside, bins, 0.0) * (1 + _ROUNDING))
    if times.sum() > MOST_SYMBOLS:
        raise DataError(
            "the durations fill too many time bins",
            expected=f"at most {MOST_SYMBOLS} symbols at once",
            found=f"{times.sum():.3g}",
            hint="Are the durations in milliseconds?",
        )
    count = times.astype(np.int64)
    length = count.sum(axis=1)
    out = np.zeros((len(codes), int(length.max(initial=0))), dtype=np.int64)
    out[np.arange(out.shape[1]) < length[:, None]] = np.repeat(codes.ravel(), count.ravel())
    return out, length


def used(paths: Packed, rows: NDArray[np.integer]) -> tuple[Packed, NDArray[np.intp]]:
    """Return the paths that pairs use, and the places of the pairs' paths among them."""
    flags = np.zeros(len(paths), dtype=bool)
    flags[rows] = True
    if flags.all():
        return paths, np.asarray(rows, dtype=np.intp)
    kept = np.flatnonzero(flags)
    place = np.cumsum(flags) - 1
    width = int(paths.length[kept].max(initial=0))
    part = Packed(
        paths.x[kept, :width],
        paths.y[kept, :width],
        paths.duration[kept, :width],
        paths.length[kept],
        paths.timed,
    )
    return part, np.asarray(place[rows], dtype=np.intp)


# -- matching -------------------------------------------------------------------------------------


def common_lengths(A: Strings, B: Strings, i: NDArray[np.integer], j: NDArray[np.integer]) -> Whole:
    """Return the length of the longest common subsequence of each pair.

    It is the score of a global alignment with match 1, mismatch 0 and gap 0. The cells of a
    column of the table differ by 0 or 1 and are kept as bits.

    References
    ----------
    Hyyro (2004), Bit-parallel LCS-length computation revisited, AWOCA.
    """
    return _in_parts(_common, A, B, i, j)


def edit_lengths(A: Strings, B: Strings, i: NDArray[np.integer], j: NDArray[np.integer]) -> Whole:
    """Return the Levenshtein distance of each pair (insertion, deletion, substitution: 1).

    References
    ----------
    Myers (1999), Journal of the ACM 46, 395-415; Hyyro (2003), Nordic Journal of Computing 10.
    """
    return _in_parts(_edits, A, B, i, j)


_Matcher = Callable[["_Columns"], Whole]


def _in_parts(
    match: _Matcher,
    A: Strings,
    B: Strings,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
) -> Whole:
    """Run pairs by falling length of the second string, in parts whose tables fit in memory."""
    i, j = np.asarray(i, dtype=np.intp), np.asarray(j, dtype=np.intp)
    out = np.zeros(len(i), dtype=np.int64)
    words = max(1, -(-A.codes.shape[1] // _WORD))
    n_symbols = max(A.n_symbols, B.n_symbols)
    rows = max(1, _TABLE_BYTES // (8 * words * (n_symbols + 1)))
    if len(A.length) <= rows:
        parts = [(0, np.arange(len(i)))] if len(i) else []
    else:
        starts = range(0, len(A.length), rows)
        parts = [(s, np.flatnonzero((i >= s) & (i < s + rows))) for s in starts]
    for start, pairs in parts:
        if len(pairs) == 0:
            continue
        stop = min(start + rows, len(A.length))
        tables = _positions(A.codes[start:stop], A.length[start:stop], n_symbols, words)
        order = pairs[np.argsort(-B.length[j[pairs]], kind="stable")]
        columns = _Columns(
            tables, n_symbols, i[order] - start, A.length[i[order]], B.codes, B.length, j[order]
        )
        out[order] = match(columns)
    return out


def _positions(codes: Whole, length: Whole, n_symbols: int, words: int) -> list[Words]:
    """Return one table per 64 positions: for string and symbol the positions that hold it."""
    tables = []
    entry = codes + np.arange(len(codes))[:, None] * n_symbols
    for start in range(0, words * _WORD, _WORD):
        table = np.zeros(len(codes) * n_symbols, dtype=np.uint64)
        part = entry[:, start : start + _WORD]
        place = np.arange(start, start + part.shape[1])
        inside = place < length[:, None]
        bits = np.broadcast_to(_ONE << (place - start).astype(np.uint64), part.shape)
        np.add.at(table, part[inside], bits[inside])  # no bit twice: a sum is an or, and faster
        tables.append(table)
    return tables


@dataclass(frozen=True)
class _Columns:
    """Pairs by falling length of the second string, and the masks of its symbols."""

    tables: list[Words]
    n_symbols: int
    i: NDArray[np.integer]
    length_a: Whole
    codes: Whole
    lengths: Whole
    j: NDArray[np.integer]

    def length_b(self) -> Whole:
        return self.lengths[self.j]

    def steps(self) -> list[tuple[int, Whole]]:
        """Return for each symbol of the second strings how many pairs go on, and their entries."""
        length = self.length_b()
        longest = int(length.max(initial=0))
        active = np.searchsorted(-length, -np.arange(longest), side="left")
        symbols = np.ascontiguousarray(self.codes[:, :longest].T)
        base = self.i * self.n_symbols
        return [(int(n), base[:n] + symbols[t][self.j[:n]]) for t, n in enumerate(active)]


def _common(columns: _Columns) -> Whole:
    n = len(columns.i)
    state = [np.full(n, ~np.uint64(0)) for _ in columns.tables]
    last = len(state) - 1
    for active, entry in columns.steps():
        carry: Words | None = None
        for w, table in enumerate(columns.tables):
            now = state[w][:active]
            hit = now & table[entry]
            rest = now ^ hit
            total = now + hit
            if w < last:
                over = total < now
                if carry is not None:
                    total += carry
                    over |= total < carry
                carry = over.astype(np.uint64)
            elif carry is not None:
                total += carry
            np.bitwise_or(total, rest, out=now)
    found = [_WORD - np.bitwise_count(v).astype(np.int64) for v in state]
    return np.sum(found, axis=0, dtype=np.int64)


def _edits(columns: _Columns) -> Whole:
    n = len(columns.i)
    up = [np.full(n, ~np.uint64(0)) for _ in columns.tables]  # the cell below is one more
    down = [np.zeros(n, dtype=np.uint64) for _ in columns.tables]  # the cell below is one less
    last = len(up) - 1
    for active, entry in columns.steps():
        more: Words | np.uint64 = _ONE  # the top row of the table rises by one each column
        less: Words | np.uint64 = np.uint64(0)
        for w, table in enumerate(columns.tables):
            plus, minus, equal = up[w][:active], down[w][:active], table[entry]
            vertical = equal | minus
            if w:
                equal = equal | less
            across = (((equal & plus) + plus) ^ plus) | equal
            rise = minus | ~(across | plus)
            fall = plus & across
            shifted_rise = (rise << _ONE) | more
            shifted_fall = (fall << _ONE) | less if w else fall << _ONE
            if w < last:
                more, less = rise >> _TOP, fall >> _TOP
            up[w][:active] = shifted_fall | ~(vertical | shifted_rise)
            down[w][:active] = shifted_rise & vertical
    out = columns.length_b().copy()
    for w in range(len(up)):
        inside = _low_bits(columns.length_a - w * _WORD)
        out += np.bitwise_count(up[w] & inside).astype(np.int64)
        out -= np.bitwise_count(down[w] & inside)
    return out


def _low_bits(count: Whole) -> Words:
    count = np.clip(count, 0, _WORD)
    shift = np.minimum(count, _WORD - 1).astype(np.uint64)
    low = (_ONE << shift) - _ONE
    return np.where(count == _WORD, ~np.uint64(0), low)
