"""Scores of predictions against scikit-learn, and what must hold for all of them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.prediction import (
    SCORES,
    auroc,
    balanced_accuracy,
    brier,
    calibration,
    cluster_draws,
    expected_calibration_error,
    mae,
    r2,
    rmse,
    score,
)

NAN = np.nan
# few distinct scores, so that there are many ties
rows = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 8), st.integers(0, 4)), min_size=1, max_size=30
)


def arrays(data: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y, p, w = np.array(data).T
    return y.astype(float), p / 8, w.astype(float)


def test_auroc_by_hand() -> None:
    # pairs of a positive and a negative: .9 > both, .4 ties one and beats none of the other
    assert auroc([1, 0, 1, 0], [0.9, 0.4, 0.4, 0.6]) == (2 + 0.5 + 0) / 4
    assert [auroc([0, 1], p) for p in ([1, 2], [2, 1], [1, 1])] == [1, 0, 0.5]
    assert auroc([0, 1, 1], [-np.inf, -np.inf, np.inf]) == 0.75  # log odds of certain answers
    assert auroc([0, 1], [-np.inf, 0.0]) == 1
    assert auroc([0, 1, 0], [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]) == 1


@settings(max_examples=200, deadline=None)
@given(rows)
def test_auroc_against_scikit_learn(data: list[tuple[int, int, int]]) -> None:
    y, p, w = arrays(data)
    found, weighted = auroc(y, p), auroc(y, p, w)
    if 0 < y.mean() < 1:
        assert found == pytest.approx(sk.roc_auc_score(y, p), abs=1e-12)
    else:
        assert np.isnan(found)
    if w[y == 1].sum() and w[y == 0].sum():
        wanted = sk.roc_auc_score(y, p, sample_weight=w)
        assert weighted == pytest.approx(wanted, abs=1e-12)
    else:
        assert np.isnan(weighted)


@settings(max_examples=100, deadline=None)
@given(rows)
def test_auroc_ranks_alone(data: list[tuple[int, int, int]]) -> None:
    y, p, w = arrays(data)
    one = auroc(y, p, w)
    for other in (np.exp(5 * p), p**3 - 7, np.log(p + 1e-3), 100 * p):
        np.testing.assert_allclose(auroc(y, other, w), one, atol=1e-12)
    np.testing.assert_allclose(auroc(y, -p, w), 1 - one, atol=1e-12)
    np.testing.assert_allclose(auroc(1 - y, p, w), 1 - one, atol=1e-12)
    order = np.random.default_rng(0).permutation(len(y))
    np.testing.assert_allclose(auroc(y[order], p[order], w[order]), one, atol=1e-12)


@pytest.mark.parametrize("name", sorted(SCORES))
@settings(max_examples=60, deadline=None)
@given(data=rows)
def test_weights_are_repeated_rows(name: str, data: list[tuple[int, int, int]]) -> None:
    y, p, w = arrays(data)
    k = w.astype(int)
    repeated = score(name, np.repeat(y, k), np.repeat(p, k)) if k.sum() else NAN
    weighted = score(name, y, p, w)
    if name == "balanced_accuracy" and not all(w[y == c].sum() for c in np.unique(y)):
        assert np.isnan(weighted)  # a class without weight was there
    else:
        np.testing.assert_allclose(weighted, repeated, rtol=1e-9, atol=1e-9)
    # rows of weights are many calls
    rows_of = np.stack([w, np.ones_like(w), 3 * w])
    several = score(name, y, p, rows_of)
    assert several.shape == (3,)
    np.testing.assert_allclose(several[0], weighted, rtol=1e-12)
    np.testing.assert_allclose(several[1], score(name, y, p), rtol=1e-12)
    np.testing.assert_allclose(several[2], weighted, rtol=1e-9, atol=1e-12)


@settings(max_examples=150, deadline=None)
@given(rows)
def test_the_rest_against_scikit_learn(data: list[tuple[int, int, int]]) -> None:
    y, p, w = arrays(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = (p >= 0.5).astype(int)
        assert balanced_accuracy(y, p) == pytest.approx(sk.balanced_accuracy_score(y, said))
        assert brier(y, p) == pytest.approx(np.mean((p - y) ** 2))
        if 0 < y.mean() < 1:
            assert brier(y, p) == pytest.approx(sk.brier_score_loss(y, p))
    assert rmse(y, p) == pytest.approx(sk.root_mean_squared_error(y, p))
    assert mae(y, p) == pytest.approx(sk.mean_absolute_error(y, p))
    if len(set(y)) > 1:
        assert r2(y, p) == pytest.approx(sk.r2_score(y, p))
    else:
        assert np.isnan(r2(y, p))
    if w.sum():
        assert rmse(y, p, w) == pytest.approx(sk.root_mean_squared_error(y, p, sample_weight=w))
        assert mae(y, p, w) == pytest.approx(sk.mean_absolute_error(y, p, sample_weight=w))
        if len(set(y[w > 0])) > 1:
            assert r2(y, p, w) == pytest.approx(sk.r2_score(y, p, sample_weight=w))
        else:
            assert np.isnan(r2(y, p, w))
    else:
        assert all(np.isnan(score(n, y, p, w)) for n in ("brier", "r2", "rmse", "mae"))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_several_classes(data: st.DataObject) -> None:
    k = data.draw(st.integers(3, 5))
    y = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=2, max_size=20)))
    raw = data.draw(st.lists(st.integers(1, 6), min_size=len(y) * k, max_size=len(y) * k))
    p = np.reshape(raw, (len(y), k)).astype(float)
    p /= p.sum(axis=1, keepdims=True)
    parts = [sk.roc_auc_score(y == c, p[:, c]) for c in range(k) if 0 < np.mean(y == c) < 1]
    found = auroc(y, p)
    assert (np.isnan(found) and not parts) or found == pytest.approx(np.mean(parts))
    if len(set(y)) == k:
        assert found == pytest.approx(sk.roc_auc_score(y, p, multi_class="ovr", average="macro"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = sk.balanced_accuracy_score(y, p.argmax(axis=1))
    assert balanced_accuracy(y, p) == pytest.approx(wanted)
    happened = np.eye(k)[y]
    assert brier(y, p) == pytest.approx(np.mean(((p - happened) ** 2).sum(axis=1)) / 2)


def test_two_columns_are_one() -> None:
    y, p = np.array([0, 1, 1, 0]), np.array([0.2, 0.7, 0.5, 0.5])
    both = np.stack([1 - p, p], axis=1)
    assert auroc(y, both) == auroc(y, p) and brier(y, both) == pytest.approx(brier(y, p))
    # three columns of which one is never said nor true are the same as well
    three = np.stack([1 - p, p, 0 * p], axis=1)
    assert brier(y, three) == pytest.approx(brier(y, p))
    assert expected_calibration_error(y, both) == expected_calibration_error(y, p)


def test_undefined_is_missing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in SCORES:
            assert np.isnan(score(name, [], [])), name
        assert np.isnan(auroc([1, 1], [0.2, 0.3])) and np.isnan(r2([2, 2], [1, 3]))
        assert np.isnan(r2([1e6 / 3] * 7, [1.0] * 7))
        assert np.isnan(auroc([0, 1], [0, 1], [[1, 0], [0, 0], [1, 1]])[:2]).all()
        assert np.isnan(expected_calibration_error([], []))


def test_refusals() -> None:
    with pytest.raises(DataError, match="missing"):
        auroc([0, 1], [0.5, NAN])
    with pytest.raises(DataError, match="missing"):
        mae([0, NAN], [0.5, 1])
    with pytest.raises(DataError, match="one prediction per true value"):
        rmse([0, 1], [0.5])
    with pytest.raises(DataError, match="0 and 1"):
        auroc([0, 2], [0.5, 0.4])
    for weights in ([1, -1], [1, NAN], [1, np.inf], [1, 2, 3]):
        with pytest.raises(DataError, match="weights"):
            mae([0, 1], [0.5, 1], weights)
    with pytest.raises(UnknownNameError, match="did you mean 'auroc'"):
        score("auc", [0], [1])
    with pytest.raises(DataError, match="from 0 to 1"):
        calibration([0, 1], [0.5, 1.2])


def test_calibration_by_hand() -> None:
    found = calibration([0, 1, 1, 1], [0.05, 0.15, 0.17, 1.0])
    assert found.n.tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0, 1]
    np.testing.assert_allclose(found.said[[0, 1, 9]], [0.05, 0.16, 1.0])
    np.testing.assert_allclose(found.true[[0, 1, 9]], [0, 1, 1])
    assert np.isnan(found.said[2:9]).all() and np.isnan(found.true[2:9]).all()
    error = expected_calibration_error([0, 1, 1, 1], [0.05, 0.15, 0.17, 1.0])
    assert error == pytest.approx((0.05 + 2 * 0.84 + 0) / 4)
    assert expected_calibration_error([0, 1], [0, 1]) == 0


@settings(max_examples=60, deadline=None)
@given(rows, st.integers(1, 12))
def test_calibration_keeps_the_means(data: list[tuple[int, int, int]], bins: int) -> None:
    y, p, _ = arrays(data)
    found = calibration(y, p, bins)
    assert found.n.sum() == len(y)
    assert np.nansum(found.said * found.n) == pytest.approx(p.sum())
    assert np.nansum(found.true * found.n) == pytest.approx(y.sum())
    assert abs(p.mean() - y.mean()) - 1e-9 <= expected_calibration_error(y, p, bins) <= 1


def test_draws_of_clusters() -> None:
    readers = ["b", "a", "b", "c", "a", "b"]
    draws = cluster_draws(readers, 500, 3)
    assert draws.shape == (500, 6)
    np.testing.assert_array_equal(draws[:, 0], draws[:, 2])  # a reader's trials stay together
    np.testing.assert_array_equal(draws[:, [1, 0, 3]].sum(axis=1), np.full(500, 3))
    assert abs(draws.mean() - 1) < 0.1 and draws.min() == 0 and draws.max() == 3
    np.testing.assert_array_equal(draws, cluster_draws(readers, 500, 3))
    assert (draws != cluster_draws(readers, 500, 4)).any()
    # order and company of the rows do not matter, only which readers there are
    np.testing.assert_array_equal(cluster_draws(["a", "b", "c"], 500, 3), draws[:, [1, 0, 3]])
    both = cluster_draws({"reader": readers, "text": list("xxyyxy")}, 500, 3)
    ratio = both[:, 0][draws[:, 0] > 0] / draws[:, 0][draws[:, 0] > 0]
    assert set(ratio) <= {0.0, 1.0, 2.0} and (both[draws == 0] == 0).all()
    with pytest.raises(DataError):
        cluster_draws({}, 10)


def test_interval_of_readers_is_wider_than_of_trials() -> None:
    """Twenty readers with thirty trials each, whose error is their reader's."""
    rng = np.random.default_rng(0)
    reader = np.repeat(np.arange(20), 30)
    y = rng.normal(size=600)
    p = y + rng.normal(size=20)[reader]
    of_readers = np.std(mae(y, p, cluster_draws(reader, 800, 1)))
    of_trials = np.std(mae(y, p, cluster_draws(np.arange(600), 800, 1)))
    by_reader = np.abs(p - y).reshape(20, 30).mean(axis=1)
    assert of_readers == pytest.approx(by_reader.std() / np.sqrt(20), rel=0.1)
    assert of_readers > 3 * of_trials
