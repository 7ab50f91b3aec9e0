"""Noise ceilings, split halves, raters and bootstrap intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gazeattn.errors import DataError
from gazeattn.metrics import agreement as ag
from gazeattn.metrics import statistics as sm

NAN = float("nan")


# -- the reader and its reference -----------------------------------------------------------------


def test_ceiling_by_hand() -> None:
    rows = np.array([[1.0, 2, 3, 4], [1, 3, 2, 4], [2, 1, 3, 4]])
    found = sm.noise_ceiling(rows, "pearson")
    expected = [
        ag.pearson([1.5, 2, 2.5, 4], rows[0]),
        ag.pearson([1.5, 1.5, 3, 4], rows[1]),
        ag.pearson([1, 2.5, 2.5, 4], rows[2]),
    ]
    np.testing.assert_allclose(found.per_reader, expected)
    assert found.lower == pytest.approx(np.mean(expected))
    mean = rows.mean(axis=0)
    assert found.upper == pytest.approx(np.mean([ag.pearson(mean, r) for r in rows]))
    assert found.upper > found.lower
    assert (found.n_readers, found.n_units, found.n_undefined, found.reason) == (3, 4, 0, "")


@pytest.mark.parametrize("metric", ["pearson", "spearman", "kendall"])
def test_pure_noise_has_a_ceiling_near_zero(metric: str) -> None:
    lower, upper, halves = [], [], []
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(size=(5, 200))
        found = sm.noise_ceiling(noise, metric)
        lower.append(found.lower)
        upper.append(found.upper)
        halves.append(sm.split_half(noise, metric, "random", 20, rng=0).r)
    assert abs(np.mean(lower)) < 0.02 and max(map(abs, lower)) < 0.2
    assert abs(np.mean(halves)) < 0.03
    # the reader inside its own reference agrees with itself, and only the upper bound says so
    assert np.mean(upper) > 0.28


def test_copies_of_a_person_are_never_on_both_sides() -> None:
    noise = np.random.default_rng(0).normal(size=(5, 200))
    drawn = np.array([0, 0, 1, 3, 3, 3, 4])  # people drawn with replacement
    rows = noise[drawn]
    blind = sm.noise_ceiling(rows, "pearson")
    aware = sm.noise_ceiling(rows, "pearson", readers=drawn)
    assert blind.lower > 0.3 and abs(aware.lower) < 0.15
    assert aware.n_readers == 4
    for i, person in enumerate(drawn):
        others = rows[drawn != person].mean(axis=0)
        assert aware.per_reader[i] == pytest.approx(ag.pearson(others, rows[i]))
    for seed in range(10):
        halves = sm.split_half(rows, "pearson", "random", 10, rng=seed, readers=drawn)
        assert abs(halves.r) < 0.2
    assert abs(sm.split_half(rows, "pearson", readers=drawn).r) < 0.25
    assert abs(sm.mean_pairwise(rows, "pearson", readers=drawn)) < 0.15
    assert sm.mean_pairwise(rows, "pearson") > 0.1
    names = np.array(["ann", "ben", "cem", "dee", "eva"])[drawn]
    assert sm.noise_ceiling(rows, "pearson", readers=names).lower == pytest.approx(aware.lower)


def test_only_copies_of_one_person_have_no_ceiling() -> None:
    row = np.arange(5.0)
    found = sm.noise_ceiling([row, row, row], readers=["p1", "p1", "p1"])
    assert found.n_readers == 1 and math.isnan(found.lower) and math.isnan(found.upper)
    assert math.isnan(sm.split_half([row, row], readers=[1, 1]).r)
    assert math.isnan(sm.mean_pairwise([row, row], readers=[1, 1]))


def test_two_readers_have_their_correlation_and_no_upper_bound() -> None:
    rows = np.array([[1.0, 2, 3, 4, 5], [2, 1, 3, 5, 9]])
    found = sm.noise_ceiling(rows, "spearman")
    assert found.lower == pytest.approx(ag.spearman(*rows))
    np.testing.assert_allclose(found.per_reader, ag.spearman(*rows))
    assert math.isnan(found.upper) and np.isnan(found.per_reader_upper).all()
    assert "2 readers" in found.reason


def test_one_reader_or_none_has_no_bounds() -> None:
    for rows, n in (
        (np.arange(5.0)[None], 1),
        (np.empty((0, 5)), 0),
        (np.array([[1.0, 2, 3], [NAN, NAN, NAN]]), 1),  # the second has no score at all
        (np.full((3, 4), NAN), 0),
    ):
        found = sm.noise_ceiling(rows)
        assert math.isnan(found.lower) and math.isnan(found.upper)
        assert found.n_readers == n and found.reason.startswith(str(n))


def test_a_reader_who_shares_no_word_is_no_third_reader() -> None:
    rows = np.array([[1.0, 2, 3, NAN, NAN], [1, 3, 2, NAN, NAN], [NAN, NAN, NAN, 1, 2]])
    found = sm.noise_ceiling(rows, "pearson")
    assert found.lower == pytest.approx(0.5) and math.isnan(found.upper)
    assert (found.n_readers, found.n_units, found.n_undefined) == (3, 3, 1)
    assert "2 readers share" in found.reason
    apart = sm.noise_ceiling([[1.0, 2, NAN, NAN], [NAN, NAN, 1, 2]])
    assert math.isnan(apart.lower) and apart.n_units == 0 and "no reader" in apart.reason
    # undefined against the mean of all alone: the sum is flat
    flat = sm.noise_ceiling([[0.0, 1], [1, 0], [0.5, 0.5]], "pearson")
    assert flat.lower == pytest.approx(-1)
    assert math.isnan(flat.upper) and "mean of all" in flat.reason


def test_ceiling_with_gaps_uses_who_is_there() -> None:
    rows = np.array([[1.0, 2, NAN, 4, 5], [2, 1, 3, NAN, 6], [1, 3, 2, 5, NAN]])
    others = sm.mean_of_others(rows)
    np.testing.assert_allclose(others[0], [1.5, 2, 2.5, 5, 6])
    found = sm.noise_ceiling(rows, "pearson")
    assert found.per_reader[0] == pytest.approx(ag.pearson([1.5, 2, 5, 6], [1, 2, 4, 5]))
    assert found.n_units == 5
    # a word that one reader alone scored is in neither bound
    alone = np.column_stack([rows, [9.0, NAN, NAN]])
    again = sm.noise_ceiling(alone, "pearson")
    assert again.lower == pytest.approx(found.lower) and again.upper == pytest.approx(found.upper)
    assert again.n_units == 5 and np.isnan(sm.mean_of_others(alone)[0, 5])


def test_constant_readers_are_left_out_and_counted() -> None:
    rng = np.random.default_rng(1)
    rows = np.vstack([rng.random((3, 20)), np.ones((1, 20))])
    found = sm.noise_ceiling(rows, "pearson")
    assert math.isnan(found.per_reader[3]) and found.n_undefined == 1
    assert found.lower == pytest.approx(found.per_reader[:3].mean())
    flat = sm.noise_ceiling(np.ones((3, 20)))
    assert math.isnan(flat.lower) and flat.reason


def test_ceiling_of_a_distance_puts_the_group_first() -> None:
    rows = np.array([[1.0, 2, 3], [1, 1, 3], [4, 1, 1]])
    found = sm.noise_ceiling(rows, "kl_divergence")
    assert found.per_reader[0] == pytest.approx(ag.kl_divergence([2.5, 1, 2], rows[0]))


# -- halves and scales ----------------------------------------------------------------------------


def test_spearman_brown_by_hand() -> None:
    assert sm.spearman_brown(0.5) == pytest.approx(2 / 3)
    assert sm.spearman_brown(0.5, 3) == pytest.approx(0.75)
    assert sm.spearman_brown(2 / 3, 0.5) == pytest.approx(0.5)
    assert math.isnan(sm.spearman_brown(-1)) and math.isnan(sm.spearman_brown(NAN))
    np.testing.assert_allclose(sm.spearman_brown([0, 1]), [0, 1])


def test_corrected_halves_estimate_the_reliability_of_the_whole() -> None:
    rng = np.random.default_rng(2)
    signal = rng.normal(size=3000)
    rows = signal + 2 * rng.normal(size=(8, 3000))
    expected = 1 / (1 + 4 / 8)  # variance of the signal by that of the mean of 8
    for halves in ("odd_even", "random"):
        found = sm.split_half(rows, "pearson", halves, 20, rng=0)
        assert found.reliability == pytest.approx(expected, abs=0.03)
        assert found.r < found.reliability
    # a reader correlates sqrt(reliability) at most with the truth behind the mean
    truth = ag.pearson(signal, rows.mean(axis=0))
    assert truth == pytest.approx(math.sqrt(expected), abs=0.02)
    assert sm.relative(truth, found) == pytest.approx(1, abs=0.03)


def test_split_half_needs_two_readers() -> None:
    for rows in (np.empty((0, 4)), np.ones((1, 4)), np.array([[1.0, 2, 3], [NAN, NAN, NAN]])):
        found = sm.split_half(rows)
        assert math.isnan(found.r) and math.isnan(found.reliability) and found.reason
    with pytest.raises(ValueError, match="halves"):
        sm.split_half(np.ones((2, 3)), halves="even")


@pytest.mark.parametrize(("r", "reliability"), [(0.4, 0.64), (0.3, 0.81), (0.5, 0.25), (0.2, 1.0)])
def test_ceiling_and_score_are_on_one_scale(r: float, reliability: float) -> None:
    variance = sm.relative(r, reliability, "variance", kind="reliability")
    correlation = sm.relative(r, reliability, "correlation", kind="reliability")
    assert variance == pytest.approx(r**2 / reliability)
    assert correlation == pytest.approx(r / math.sqrt(reliability))
    assert variance == pytest.approx(correlation**2)
    # the same ceiling as a correlation
    c = math.sqrt(reliability)
    assert sm.relative(r, c) == pytest.approx(correlation)
    assert sm.relative(r, c, "variance") == pytest.approx(variance)
    halves = sm.SplitHalf(NAN, reliability, np.empty(0), 2, "")
    assert sm.relative(r, halves, "variance") == pytest.approx(variance)
    bound = sm.NoiseCeiling(c, NAN, np.empty(0), np.empty(0), 2, 5, 0, "")
    assert sm.relative(r, bound) == pytest.approx(correlation)


def test_relative_to_what_is_no_ceiling_is_missing() -> None:
    for ceiling in (0.0, -0.2, NAN):
        for scale in ("correlation", "variance"):
            for kind in ("correlation", "reliability"):
                assert math.isnan(sm.relative(0.3, ceiling, scale, kind))
    np.testing.assert_equal(sm.relative([0.2, NAN], [0.4, 0.4]), [0.5, NAN])
    assert sm.relative(-0.2, 0.4, "variance") == pytest.approx(-0.25)
    with pytest.raises(ValueError, match="scale"):
        sm.relative(0.1, 0.2, "r2")
    with pytest.raises(ValueError, match="kind"):
        sm.relative(0.1, 0.2, kind="r2")


# -- raters ---------------------------------------------------------------------------------------


def test_icc_of_the_published_example() -> None:
    # Shrout and Fleiss (1979), table 2: six targets, four judges
    judges = np.array(
        [[9, 6, 8, 7, 10, 6], [2, 1, 4, 1, 5, 2], [5, 3, 6, 2, 6, 4], [8, 2, 8, 6, 9, 7]]
    )
    published = {"1,1": 0.17, "2,1": 0.29, "3,1": 0.71, "1,k": 0.44, "2,k": 0.62, "3,k": 0.91}
    for kind, value in published.items():
        assert sm.icc(judges, kind) == pytest.approx(value, abs=0.006), kind
    gap = np.column_stack([judges.astype(float), [1, NAN, 2, 3]])
    assert sm.icc(gap) == pytest.approx(sm.icc(judges))


def test_icc_without_variance_or_raters_is_missing() -> None:
    for bad in (np.ones((3, 5)), np.full((3, 5), 0.1), np.ones((1, 5)), np.ones((3, 1))):
        assert math.isnan(sm.icc(bad))
    with pytest.raises(ValueError, match="kind"):
        sm.icc(np.ones((2, 2)), "4,1")


def test_kappa_of_labels_by_hand() -> None:
    # 20 of 50 yes-yes, 15 no-no, 10 and 5 mixed: 0.7 observed, 0.5 expected
    a = ["y"] * 25 + ["n"] * 25
    b = ["y"] * 20 + ["n"] * 5 + ["y"] * 10 + ["n"] * 15
    assert sm.cohen_kappa(a, b) == pytest.approx(0.4)
    assert math.isnan(sm.cohen_kappa(["y", "y"], ["y", "y"]))
    assert math.isnan(sm.cohen_kappa([], []))
    assert sm.cohen_kappa([0, 1, NAN, 1], [0, 1, 1, 0]) == sm.cohen_kappa([0, 1, 1], [0, 1, 0])
    with pytest.raises(DataError):
        sm.cohen_kappa([1], [1, 2])
    # quadratic cost: one disagreement by 2 costs 4 times one by 1
    assert sm.cohen_kappa([0, 1, 2, 0], [0, 1, 2, 2], "quadratic") < sm.cohen_kappa(
        [0, 1, 2, 0], [0, 1, 2, 1], "quadratic"
    )


def test_top_k_kappa_is_cohens_kappa_of_membership() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random((2, 30))
    in_a, in_b = (np.isin(np.arange(30), ag.topk_indices(x, 8)) for x in (a, b))
    assert ag.kappa_topk(a, b, k=8) == pytest.approx(sm.cohen_kappa(in_a, in_b))


def test_fleiss_kappa_edges() -> None:
    assert sm.fleiss_kappa([[0, 1, 2], [0, 1, 2], [0, 1, 2]]) == pytest.approx(1)
    assert math.isnan(sm.fleiss_kappa([[0, 0], [0, 0]])) and math.isnan(sm.fleiss_kappa([[0, 1]]))


def test_interval_of_pearson_edges() -> None:
    assert np.isnan(sm.pearson_ci([1, 1, 1, 1], [1, 2, 3, 4])).all()
    r, low, high = sm.pearson_ci([1, 2, 3], [1, 3, 2])
    assert r == pytest.approx(0.5) and math.isnan(low) and math.isnan(high)
    wide, narrow = (sm.pearson_ci(*np.random.default_rng(0).random((2, n))) for n in (10, 1000))
    assert narrow[2] - narrow[1] < wide[2] - wide[1]


# -- bootstrap ------------------------------------------------------------------------------------


def crossed(n_readers: int, n_texts: int) -> dict[str, np.ndarray]:
    return {
        "reader": np.repeat(np.arange(n_readers), n_texts),
        "text": np.tile(np.arange(n_texts), n_readers),
    }


def test_one_factor_by_hand() -> None:
    # two clusters with means 0 and 1: the draws are 0, 1/2 and 1 with chances 1/4, 1/2 and 1/4
    found = sm.clustered_bootstrap(
        [0, 0, 1, 1], {"reader": ["a", "a", "b", "b"]}, n=4000, rng=0, level=0.4
    )
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)
    wide = sm.clustered_bootstrap([0, 0, 1, 1], {"reader": ["a", "a", "b", "b"]}, rng=0)
    assert (wide.low, wide.high) == (0, 1)
    assert wide.n_levels == {"reader": 2} and any("2 levels" in n for n in wide.notes)


def test_single_levels_are_held_fixed_and_said_so() -> None:
    rng = np.random.default_rng(0)
    x = rng.random(12)
    text = np.arange(12)
    alone = sm.clustered_bootstrap(x, {"text": text}, rng=1)
    held = sm.clustered_bootstrap(x, {"reader": np.zeros(12), "text": text}, rng=1)
    assert (held.low, held.high) == (alone.low, alone.high)
    assert any("reader: one level" in n for n in held.notes)
    none = sm.clustered_bootstrap(x, {"reader": ["a"] * 12, "text": ["t"] * 12}, rng=1)
    assert math.isnan(none.low) and math.isnan(none.high)
    assert none.value == pytest.approx(x.mean())
    assert any("no interval" in n for n in none.notes)


def test_levels_without_a_value_do_not_count() -> None:
    x = np.array([0.1, 0.2, 0.4, NAN, NAN, NAN])
    found = sm.clustered_bootstrap(x, crossed(2, 3), rng=0)
    assert found.n_levels == {"reader": 1, "text": 3} and found.n_items == 3
    assert any("reader: one level" in n for n in found.notes)
    assert found.value == pytest.approx(0.7 / 3)
    empty = sm.clustered_bootstrap([NAN, NAN], {"reader": [1, 2]}, rng=0)
    assert math.isnan(empty.value) and math.isnan(empty.low) and empty.n_items == 0


def test_rows_do_not_depend_on_each_other() -> None:
    rng = np.random.default_rng(4)
    X = rng.random((4, 24))
    X[1, 3], X[2, :5] = NAN, NAN
    clusters = crossed(4, 6)
    together = sm.clustered_bootstrap(X, clusters, rng=9)
    for i in range(4):
        one = sm.clustered_bootstrap(X[i], clusters, rng=9)
        np.testing.assert_allclose(
            (together.value[i], together.low[i], together.high[i]),
            (one.value, one.low, one.high),
            atol=1e-12,
        )
    assert together.n_items.tolist() == [24, 23, 19, 24]
    again = sm.clustered_bootstrap(X, clusters, rng=9)
    np.testing.assert_array_equal(together.low, again.low)


def test_weights_of_items() -> None:
    found = sm.clustered_bootstrap([0, 1, 2], {"t": [0, 1, 2]}, rng=0, weights=[1, 1, 0])
    assert found.value == 0.5 and found.n_items == 2 and found.high <= 1


def test_intervals_cover_the_truth_with_crossed_clusters() -> None:
    rng = np.random.default_rng(5)
    n_readers, n_texts = 12, 12
    clusters = crossed(n_readers, n_texts)
    hits = naive = 0
    rounds = 150
    for _ in range(rounds):
        reader, text = rng.normal(size=n_readers), rng.normal(size=n_texts)
        x = reader[clusters["reader"]] + text[clusters["text"]] + rng.normal(size=144)
        both = sm.clustered_bootstrap(x, clusters, n=400, rng=rng)
        hits += both.low <= 0 <= both.high
        flat = sm.clustered_bootstrap(x, {"item": np.arange(144)}, n=400, rng=rng)
        naive += flat.low <= 0 <= flat.high
    assert 0.87 <= hits / rounds <= 1.0
    assert naive / rounds < 0.75  # items are not independent: the plain bootstrap is too narrow


def test_bootstrap_arguments_are_checked() -> None:
    with pytest.raises(DataError, match="one label per item"):
        sm.clustered_bootstrap([1, 2], {"reader": [1]})
    with pytest.raises(ValueError, match="level"):
        sm.clustered_bootstrap([1, 2], {"reader": [1, 2]}, level=95)
    with pytest.raises(ValueError, match="factor"):
        sm.clustered_bootstrap([1, 2], {})
    with pytest.raises(DataError, match="weight"):
        sm.clustered_bootstrap([1, 2], {"reader": [1, 2]}, weights=[1, -1])
