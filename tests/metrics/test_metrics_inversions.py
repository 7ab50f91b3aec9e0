"""Kendall's score by counting inversions equals the comparison of all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, rankdata

from gazeattn.metrics import agreement
from gazeattn.metrics.inversions import LONG, kendall_b, kendall_scores, tied_pairs


def by_pairs(a: np.ndarray, b: np.ndarray) -> float:
    i, j = np.triu_indices(len(a), 1)
    return float((np.sign(a[i] - a[j]) * np.sign(b[i] - b[j])).sum())


def test_scores_by_hand() -> None:
    a = rankdata([[1, 2, 3], [3, 1, 2], [1, 1, 2]], axis=1)
    b = rankdata([[1.0, 2, 3], [2, 2, 5]], axis=1)
    # 3 1 2 with 1 2 3: pairs fall, fall, rise; 1 1 2: a tie and two rises
    assert kendall_scores(a, b[:1]).tolist() == [[3], [-1], [2]]
    # two levels: the third unit above the first two
    assert kendall_scores(a, b[1:]).tolist() == [[2], [0], [2]]
    assert tied_pairs(np.array([[4.0, 4, 4, 1, 1]])).tolist() == [4]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 90), st.integers(1, 40), st.integers(1, 90), st.integers(0, 10_000))
def test_scores_are_those_of_all_pairs(n: int, levels_a: int, levels_b: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rankdata(rng.integers(0, levels_a, (3, n)), axis=1)
    b = rankdata(rng.integers(0, levels_b, (4, n)), axis=1)
    expected = [[by_pairs(x, y) for y in b] for x in a]
    np.testing.assert_array_equal(kendall_scores(a, b), expected)


@pytest.mark.parametrize("levels", [1, 2, 5, 10**9])
@pytest.mark.parametrize("n", [LONG + 1, 2016, 9000])
def test_tau_of_long_profiles_is_scipys(n: int, levels: int) -> None:
    rng = np.random.default_rng(n)
    a = np.vstack([rng.random(n), rng.integers(0, 6, n), np.arange(n), np.ones(n)])
    b = rng.integers(0, levels, (2, n)).astype(float)
    expected: Any = [[kendalltau(x, y).statistic for y in b] for x in a]
    np.testing.assert_allclose(kendall_b(a, b), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(agreement.batched("kendall", a, b), expected, rtol=0, atol=1e-12)
