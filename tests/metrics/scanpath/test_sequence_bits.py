"""Matching of strings with bit operations, against the textbook tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.metrics.scanpath._strings import as_strings, common_lengths, edit_lengths


def table(a: list[int], b: list[int]) -> tuple[int, int]:
    """Return common subsequence and edit distance by the textbook tables."""
    same = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    edits = np.add.outer(np.arange(len(a) + 1), np.arange(len(b) + 1))
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            hit = a[i - 1] == b[j - 1]
            same[i, j] = max(same[i - 1, j], same[i, j - 1], same[i - 1, j - 1] + hit)
            edits[i, j] = min(
                edits[i - 1, j] + 1, edits[i, j - 1] + 1, edits[i - 1, j - 1] + (not hit)
            )
    return int(same[-1, -1]), int(edits[-1, -1])


strings = st.lists(st.lists(st.integers(0, 3), max_size=20), min_size=1, max_size=5)


@given(strings, strings)
@settings(max_examples=80, deadline=None)
def test_bits_equal_the_table(a: list[list[int]], b: list[list[int]]) -> None:
    A, B = as_strings(a, 4), as_strings(b, 4)
    i, j = (v.ravel() for v in np.indices((len(a), len(b))))
    expected = [table(a[p], b[q]) for p, q in zip(i, j, strict=True)]
    assert common_lengths(A, B, i, j).tolist() == [e[0] for e in expected]
    assert edit_lengths(A, B, i, j).tolist() == [e[1] for e in expected]


@pytest.mark.parametrize("symbols", [1, 2, 5])
def test_bits_equal_the_table_around_the_length_of_a_word(symbols: int) -> None:
    rng = np.random.default_rng(symbols)
    lengths = [0, 1, 63, 64, 65, 127, 128, 129, 140]
    a = [rng.integers(0, symbols, n).tolist() for n in lengths]
    # the second set are damaged copies, so that long runs of carries occur
    b = [[s for s in x if rng.random() > 0.05] for x in a]
    A, B = as_strings(a, symbols), as_strings(b, symbols)
    i, j = (v.ravel() for v in np.indices((len(a), len(b))))
    expected = [table(a[p], b[q]) for p, q in zip(i, j, strict=True)]
    assert common_lengths(A, B, i, j).tolist() == [e[0] for e in expected]
    assert edit_lengths(A, B, i, j).tolist() == [e[1] for e in expected]


@pytest.mark.parametrize("words", [1, 2, 3, 4])
def test_a_carry_passes_through_whole_words(words: int) -> None:
    # the 2 at the end is matched first; the 0 at the start then has to undo it, over all between
    a, b = [0] + [1] * (64 * words - 1) + [2], [2, 0]
    A, B, zero = as_strings([a], 3), as_strings([b], 3), np.zeros(1, dtype=int)
    for first, second in ((A, B), (B, A)):
        assert common_lengths(first, second, zero, zero).tolist() == [1]
        assert edit_lengths(first, second, zero, zero).tolist() == [64 * words + 1]


def test_tables_in_parts_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from gazeattn.metrics.scanpath import _strings

    rng = np.random.default_rng(3)
    A = as_strings([rng.integers(0, 6, n) for n in rng.integers(0, 90, 20)], 6)
    i, j = (v.ravel() for v in np.indices((20, 20)))
    whole = common_lengths(A, A, i, j), edit_lengths(A, A, i, j)
    monkeypatch.setattr(_strings, "_TABLE_BYTES", 500)
    parts = common_lengths(A, A, i, j), edit_lengths(A, A, i, j)
    np.testing.assert_array_equal(whole, parts)
