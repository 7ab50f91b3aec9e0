"""Coverage, AUROC and weight of marked units: by hand, by definition, undefined, batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from gazeattn.metrics.agreement import batched
from gazeattn.metrics.coverage import (
    coverage,
    coverage_chance,
    marked_auroc,
    marked_reason,
    marked_share,
)
from gazeattn.registry import metrics

MODEL = [0.4, 0.1, 0.3, 0.2, 0.0]


@pytest.mark.parametrize(
    ("marks", "expected", "auroc", "share"),
    [
        ([1, 0, 1, 0, 0], 1.0, 1.0, 0.7),
        ([1, 0, 0, 0, 1], 1 / 2, 3 / 6, 0.4),  # 3 of 6 pairs in order
        ([0, 1, 0, 0, 1], 0.0, 0.0, 0.1),
        ([0, 1, 0, 0, 0], 0.0, 1 / 4, 0.1),
        ([1, 1, 1, 0, 1], 3 / 4, 2 / 4, 0.8),
    ],
)
def test_by_hand(marks: list[int], expected: float, auroc: float, share: float) -> None:
    assert coverage(MODEL, marks) == pytest.approx(expected)
    assert marked_auroc(MODEL, marks) == pytest.approx(auroc)
    assert marked_share(MODEL, marks) == pytest.approx(share)


def test_k_and_share() -> None:
    marks = [0, 1, 0, 1, 0]  # the second and the fourth: places 4 and 3 of the model
    found = [coverage(MODEL, marks, k=k) for k in range(1, 6)]
    assert found == pytest.approx([0, 0, 0.5, 1, 1])
    assert coverage(MODEL, marks, share=0.6) == 0.5
    assert [coverage_chance(marks, k=k) for k in (1, 3, 5)] == pytest.approx([0.2, 0.6, 1.0])
    assert coverage_chance(marks) == pytest.approx(0.4)
    assert coverage_chance(marks, share=0.6) == pytest.approx(0.6)
    with pytest.raises(ValueError, match="not both"):
        coverage(MODEL, marks, k=1, share=0.5)


def test_ties() -> None:
    marks = [1, 0, 1, 0]
    assert coverage([1, 1, 0, 0], marks) == pytest.approx(0.5)
    assert coverage([1, 1, 1, 0], marks, k=2) == pytest.approx(2 / 3)
    assert coverage([1, 1, 1, 0], marks, k=2, ties="index") == 0.5
    # an even profile is at chance, and with ties by index its order would be invented
    assert coverage([2, 2, 2, 2], marks) == coverage_chance(marks) == 0.5
    assert np.isnan(coverage([2, 2, 2, 2], marks, ties="index"))
    assert marked_auroc([2, 2, 2, 2], marks) == 0.5
    assert marked_auroc([1, 1, 0, 0], marks) == 0.5
    assert marked_share([2, 2, 2, 2], marks) == 0.5


def test_threshold_for_graded_measures() -> None:
    times = [250.0, 0.0, 90.0, 400.0, np.nan]
    assert marked_auroc(MODEL, times, threshold=100) == marked_auroc(MODEL, [1, 0, 0, 1, np.nan])
    assert coverage(MODEL, times) == pytest.approx(1.0)
    assert coverage(MODEL, times, threshold=100) == pytest.approx(0.5)
    assert marked_share(MODEL, times, threshold=100) == pytest.approx(0.6)


@pytest.mark.parametrize("one", [coverage, marked_auroc, marked_share])
def test_units_that_a_side_does_not_score_are_left_out(one: Any) -> None:
    a = [0.4, np.nan, 0.1, 0.3, 0.2, 9.0]
    b = [1.0, 1.0, 0.0, 0.0, 1.0, np.nan]
    assert one(a, b) == one([0.4, 0.1, 0.3, 0.2], [1, 0, 0, 1])


def test_undefined_is_missing_with_a_reason() -> None:
    none, every = [0] * 5, [1] * 5
    for one in (coverage, marked_auroc, marked_share):
        assert np.isnan(one(MODEL, none))
    assert np.isnan(coverage(MODEL, none, k=2)) and np.isnan(coverage_chance(none, k=2))
    assert np.isnan(marked_auroc(MODEL, every)) and np.isnan(coverage(MODEL, every))
    assert marked_share(MODEL, every) == 1.0 and coverage(MODEL, every, k=2) == pytest.approx(0.4)
    assert np.isnan(coverage(MODEL, [1, 0, 0, 0, 0], k=6))
    assert np.isnan(marked_share([0, 0], [1, 0])) and np.isnan(marked_share([-1, 2], [1, 0]))
    assert marked_reason(MODEL, none) == "no unit is marked"
    assert marked_reason(MODEL, every) == "every unit is marked"
    assert marked_reason(MODEL, every, k=2) == ""
    assert "more than the 5 units" in marked_reason(MODEL, [1, 0, 0, 0, 0], k=6)
    assert marked_reason([np.nan], [1]) == "no unit scored on both sides"
    assert marked_reason(MODEL, [1, 0, 0, 0, 0]) == ""


profiles = st.integers(3, 12).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 4), min_size=n, max_size=n),
        st.lists(st.booleans(), min_size=n, max_size=n),
    )
)


@given(profiles)
@settings(max_examples=100, deadline=None)
def test_auroc_equals_scikit_learn_and_the_count_of_pairs(data: Any) -> None:
    a, b = np.array(data[0], float), np.array(data[1], float)
    if b.all() or not b.any():
        assert np.isnan(marked_auroc(a, b))
        return
    pairs = a[b == 1][:, None] - a[b == 0]
    found = marked_auroc(a, b)
    assert found == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())
    assert found == pytest.approx(roc_auc_score(b, a))
    assert marked_auroc(-a, b) == pytest.approx(1 - found)
    assert marked_auroc(3 * a + 2, b) == pytest.approx(found)
    assert coverage(3 * a + 2, b) == pytest.approx(coverage(a, b))
    assert 0 <= coverage(a, b) <= 1


def test_coverage_is_the_mean_over_random_orders() -> None:
    rng = np.random.default_rng(0)
    a, b = np.array([3, 2, 2, 2, 1, 1, 0.0]), np.array([0, 1, 1, 0, 1, 0, 0])
    for k in (None, 2, 5):
        depth = int(b.sum()) if k is None else k
        found = []
        for _ in range(4000):
            order = rng.permutation(7)
            best = order[np.argsort(-a[order], kind="stable")][:depth]
            found.append(b[best].sum() / b.sum())
        assert coverage(a, b, k=k) == pytest.approx(np.mean(found), abs=0.02)


@pytest.mark.parametrize("name", ["coverage", "marked_auroc", "marked_share"])
@pytest.mark.parametrize("params", [{}, {"threshold": 0.5}])
def test_batches_equal_the_plain_form(name: str, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 6, (7, 9)).astype(float), rng.random((6, 9)).round(1)
    b[0], b[1] = 0, 1
    b[2, :3] = np.nan
    a[1, 4] = np.nan
    a[3] = 0
    one = globals()[name]
    found = batched(one, a, b, **params)
    expected = [[one(x, y, **params) for y in b] for x in a]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_registered() -> None:
    for name in ("coverage", "marked_auroc", "marked_share"):
        info = metrics.get(name).info
        assert (info["task"], info["bounds"]) == ("agreement", (0.0, 1.0))
        assert info["higher_is_better"] is True and info["symmetric"] is False
        assert info["formula"] and info["convention"] and info["reason"] is marked_reason
