"""Matrix agreement and trivial patterns: golden values, by hand, undefined, collinear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.matrices import (
    PATTERNS,
    matrix_agreement,
    matrix_correlation,
    matrix_r2,
    transition_matrix,
    trivial_pattern,
    trivial_reliance,
)
from gazeattn.registry import metrics


@pytest.fixture(scope="module")
def reading(golden: Any) -> dict[str, Any]:
    arrays = golden.arrays("C_attention.npz")
    cases = {c["id"]: c for c in golden("C_attention.json")["cases"]}
    numbers = range(cases["saccade_correlation"]["sentences"])
    return {
        "cases": cases,
        "arrays": arrays,
        "attention": [arrays[f"sent{k}_attn_a"] for k in numbers],
        "saccades": [arrays[f"sent{k}_saccades"] for k in numbers],
    }


# -- golden ---------------------------------------------------------------------------------------


def test_golden_saccade_correlation(reading: dict[str, Any]) -> None:
    expected = reading["cases"]["saccade_correlation"]["expected"]
    pairs = list(zip(reading["attention"], reading["saccades"], strict=True))
    found = [[matrix_correlation(head, human) for head in heads] for heads, human in pairs]
    np.testing.assert_allclose(found, expected["per_sentence_per_head"], atol=1e-9)
    mean = [matrix_correlation(heads.mean(axis=0), human) for heads, human in pairs]
    np.testing.assert_allclose(mean, expected["heads_mean_per_sentence"], atol=1e-9)
    highest = [matrix_correlation(heads.max(axis=0), human) for heads, human in pairs]
    np.testing.assert_allclose(highest, expected["heads_max_per_sentence"], atol=1e-9)
    for (heads, human), value in zip(pairs, mean, strict=True):
        assert matrix_correlation(human, heads.mean(axis=0)) == pytest.approx(value)


def test_golden_trivial_patterns(reading: dict[str, Any]) -> None:
    expected = reading["cases"]["trivial_patterns"]["expected"]
    fit = trivial_reliance(reading["attention"])
    assert fit.patterns == ("self", "previous", "first") and fit.n == 206
    for head in expected["per_head"]:
        h = head["head"]
        assert fit.r2[h] == pytest.approx(head["r2"], abs=1e-9)
        assert fit.coefficients[h] == pytest.approx(head["coef_self_prev_start"], abs=1e-9)
        assert fit.intercept[h] == pytest.approx(head["intercept"], abs=1e-9)
        recorded = reading["arrays"][f"trivial_residual_head{h}"]
        np.testing.assert_allclose(fit.residuals[h], recorded, atol=1e-9)
    assert fit.r2.mean() == pytest.approx(expected["mean_r2"], abs=1e-9)


def test_golden_heads_against_saccades(reading: dict[str, Any]) -> None:
    expected = reading["cases"]["heads_vs_saccades"]["expected"]
    found = matrix_agreement(reading["attention"], reading["saccades"])
    assert found.r2 == pytest.approx(expected["r2"], abs=1e-9)
    np.testing.assert_allclose(found.coefficients, expected["coef"], atol=1e-9)
    assert found.intercept == pytest.approx(expected["intercept"], abs=1e-9)
    assert (found.n, found.n_missing, found.rank, found.reason) == (206, 0, 5, "")
    adjusted = 1 - (1 - expected["r2"]) * 205 / (206 - 5 - 1)
    assert found.r2_adjusted == pytest.approx(adjusted) and found.r2_adjusted < found.r2
    assert found.r2_controls == 0 and found.increment == found.r2
    # random attention predicts nothing in sentences that it was not fitted to
    assert found.r2_held_out < found.r2_adjusted
    assert matrix_r2(reading["attention"], reading["saccades"]) == found.r2


# -- by hand --------------------------------------------------------------------------------------


def test_patterns_by_hand() -> None:
    assert trivial_pattern("self", 3).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert trivial_pattern("previous", 3).tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert trivial_pattern("next", 3).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert trivial_pattern("first", 3).tolist() == [[1, 0, 0], [1, 0, 0], [1, 0, 0]]
    assert trivial_pattern("distance", 3).tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]


@pytest.mark.parametrize("name", PATTERNS)
def test_a_trivial_head_is_all_trivial_and_adds_nothing(name: str) -> None:
    rng = np.random.default_rng(0)
    head = 0.3 + 0.5 * trivial_pattern(name, 6)
    human = rng.random((6, 6))
    fit = trivial_reliance(head, patterns=[name], region="full")
    assert fit.r2 == pytest.approx([1.0]) and fit.coefficients == pytest.approx(0.5)
    assert fit.intercept == pytest.approx([0.3])
    np.testing.assert_allclose(fit.residuals, 0, atol=1e-12)
    found = matrix_agreement(head, human, controls=[name], region="full")
    assert found.increment == pytest.approx(0, abs=1e-12) and found.rank == 1
    assert found.r2 == pytest.approx(found.r2_controls)


def test_agreement_beyond_trivial_patterns_by_hand() -> None:
    # human = previous word, plus a part of the head that no pattern explains
    rng = np.random.default_rng(1)
    heads = rng.random((2, 8, 8))
    human = 2 * trivial_pattern("previous", 8) + heads[0]
    found = matrix_agreement(heads, human, controls=["previous", "first"])
    assert found.r2 == pytest.approx(1.0) and found.controls == ("previous", "first")
    np.testing.assert_allclose(found.coefficients, [1, 0, 2, 0], atol=1e-9)
    assert 0 < found.r2_controls < 1 and found.increment == pytest.approx(1 - found.r2_controls)
    assert np.isnan(found.r2_held_out)  # a single sentence


def test_one_head_is_the_squared_correlation() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random((2, 7, 7))
    for region in ("lower", "full", "off_diagonal"):
        r = matrix_correlation(a, b, region=region)
        assert matrix_r2(a, b, region=region) == pytest.approx(r**2)
    keep = np.tril(np.ones((7, 7), bool))
    assert matrix_correlation(a, b) == pytest.approx(np.corrcoef(a[keep], b[keep])[0, 1])
    keep = ~np.eye(7, dtype=bool)
    expected = np.corrcoef(a[keep], b[keep])[0, 1]
    assert matrix_correlation(a, b, region="off_diagonal") == pytest.approx(expected)
    # what is above the diagonal plays no part
    upper = b + np.triu(np.full((7, 7), 9.0), 1)
    assert matrix_correlation(a, upper) == pytest.approx(matrix_correlation(a, b))


def test_held_out_by_hand() -> None:
    rng = np.random.default_rng(3)
    heads = [rng.random((2, n, n)) for n in (4, 5, 6)]
    human = [h[0] + 0.3 * rng.random(h[0].shape) for h in heads]
    x = [h[:, *np.tril_indices(h.shape[1])].T for h in heads]
    y = [m[np.tril_indices(len(m))] for m in human]
    rest = total = 0.0
    for k in range(3):
        train_x = np.concatenate([v for i, v in enumerate(x) if i != k])
        train_y = np.concatenate([v for i, v in enumerate(y) if i != k])
        design = np.column_stack([np.ones(len(train_x)), train_x])
        beta = np.linalg.lstsq(design, train_y, rcond=None)[0]
        rest += ((y[k] - np.column_stack([np.ones(len(x[k])), x[k]]) @ beta) ** 2).sum()
        total += ((y[k] - train_y.mean()) ** 2).sum()
    found = matrix_agreement(heads, human)
    assert found.r2_held_out == pytest.approx(1 - rest / total)
    assert np.isnan(matrix_agreement(heads, human, held_out=False).r2_held_out)


def test_more_heads_raise_the_fit_but_not_the_held_out_fit() -> None:
    rng = np.random.default_rng(4)
    human = [rng.random((7, 7)) for _ in range(6)]
    noise = [rng.random((60, 7, 7)) for _ in range(6)]
    few = matrix_agreement([h[:4] for h in noise], human)
    many = matrix_agreement(noise, human)
    assert many.r2 > few.r2 + 0.2
    assert many.r2_held_out < few.r2_held_out and many.r2_adjusted < 0.2


def test_transitions_by_hand() -> None:
    words = [0, 1, 1, 3, -1, 2, 0]
    found = transition_matrix(words, 4)
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 1] = expected[1, 3] = expected[2, 0] = 1
    np.testing.assert_array_equal(found, expected)
    times = [100.0, 200, 50, 70, 90, 80, 30]
    timed = transition_matrix(words, 4, weights=times)
    assert timed[0, 1] == 200 and timed[1, 1] == 50 and timed[1, 3] == 70 and timed[2, 0] == 30
    assert timed.sum() == 350
    assert transition_matrix([0, 1, 0, 1], 2).tolist() == [[0, 2], [1, 0]]
    assert transition_matrix([], 3).sum() == 0 and transition_matrix([2], 3).sum() == 0
    with pytest.raises(DataError, match="does not exist"):
        transition_matrix([0, 4], 4)
    with pytest.raises(DataError, match="whole numbers"):
        transition_matrix([0.5, 1.0], 4)
    with pytest.raises(DataError, match="one weight"):
        transition_matrix([0, 1], 4, weights=[1.0])


# -- undefined, missing, wrong --------------------------------------------------------------------


def test_constant_sides_are_undefined_in_both_orders() -> None:
    rng = np.random.default_rng(5)
    flat, varied = np.full((4, 4), 0.25), rng.random((4, 4))
    for a, b in ((flat, varied), (varied, flat), (flat, flat)):
        assert np.isnan(matrix_correlation(a, b)) and np.isnan(matrix_r2(a, b))
    assert "human matrix is constant" in matrix_agreement(varied, flat).reason
    assert "model matrix is constant" in matrix_agreement(flat, varied).reason
    fit = trivial_reliance(np.stack([flat, varied]))
    assert np.isnan(fit.r2[0]) and np.isnan(fit.residuals[0]).all() and fit.r2[1] >= 0
    single = matrix_agreement([[0.5]], [[1.0]])
    assert np.isnan(single.r2) and "1 entry" in single.reason


def test_missing_entries_are_left_out_and_counted() -> None:
    rng = np.random.default_rng(6)
    heads, human = rng.random((2, 6, 6)), rng.random((6, 6))
    full = matrix_agreement(heads[:, :5, :5], human[:5, :5])
    human[5], heads[:, 5, 0] = np.nan, np.inf
    found = matrix_agreement(heads, human)
    assert (found.n, found.n_missing) == (15, 6)
    assert found.r2 == pytest.approx(full.r2)
    assert matrix_correlation(heads[0], human) == pytest.approx(
        matrix_correlation(heads[0, :5, :5], human[:5, :5])
    )


def test_collinear_heads_and_no_freedom() -> None:
    rng = np.random.default_rng(7)
    head, human = rng.random((2, 5, 5))
    one, three = matrix_r2(head, human), np.stack([head, 2 * head, 1 - head])
    found = matrix_agreement(three, human)
    assert found.rank == 1 and found.r2 == pytest.approx(one)
    assert found.r2_adjusted == pytest.approx(1 - (1 - one) * 14 / 13)
    saturated = matrix_agreement(rng.random((9, 3, 3)), human[:3, :3])
    assert saturated.r2 == pytest.approx(1.0) and np.isnan(saturated.r2_adjusted)


def test_scale_of_attention_does_not_matter() -> None:
    rng = np.random.default_rng(8)
    heads, human = rng.random((3, 6, 6)), rng.random((6, 6))
    expected = matrix_r2(heads, human)
    assert matrix_r2(1e-9 * heads + 5, human) == pytest.approx(expected, rel=1e-5)
    assert matrix_r2(heads, 1e6 * human - 3) == pytest.approx(expected)
    assert matrix_r2(heads[::-1], human) == pytest.approx(expected)
    assert matrix_r2(heads.astype(np.float32), human) == pytest.approx(expected, abs=1e-5)


def test_order_of_sentences_does_not_matter() -> None:
    rng = np.random.default_rng(9)
    heads = [rng.random((2, n, n)) for n in (3, 5, 4)]
    human = [rng.random((n, n)) for n in (3, 5, 4)]
    a, b = matrix_agreement(heads, human), matrix_agreement(heads[::-1], human[::-1])
    assert (a.r2, a.r2_held_out) == pytest.approx((b.r2, b.r2_held_out))


def test_wrong_input() -> None:
    a = np.random.default_rng(10).random((2, 4, 4))
    with pytest.raises(DataError, match="wrong shape"):
        matrix_r2(a[:, :3], a[0])
    with pytest.raises(DataError, match="wrong shape"):
        trivial_reliance([a, a[:1]])
    with pytest.raises(DataError, match="do not belong together"):
        matrix_r2([a, a], a[0])
    with pytest.raises(DataError, match="do not belong together"):
        matrix_r2(a, np.eye(5))
    with pytest.raises(DataError, match="do not belong together"):
        matrix_r2(a, a)
    with pytest.raises(DataError, match="no attention"):
        trivial_reliance([])
    for region, pattern in (("lower", "next"), ("off_diagonal", "self")):
        with pytest.raises(DataError, match="no entry"):
            trivial_reliance(a, patterns=[pattern], region=region)
    with pytest.raises(UnknownNameError, match="previous"):
        trivial_reliance(a, patterns=["previuos"])
    with pytest.raises(UnknownNameError, match="lower"):
        matrix_r2(a, a[0], region="lowre")
    with pytest.raises(UnknownNameError, match="distance"):
        trivial_pattern("distanc", 3)


def test_registered() -> None:
    for name in ("matrix_correlation", "matrix_r2"):
        info = metrics.get(name).info
        assert info["task"] == "matrix" and info["higher_is_better"] is True
        assert info["formula"] and info["convention"] and info["citation"]
