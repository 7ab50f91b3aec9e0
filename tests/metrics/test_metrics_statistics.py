"""Permutation tests, corrections, averages and effect sizes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics import agreement as ag
from gazeattn.metrics import statistics as sm
from gazeattn.registry import metrics

NAN = float("nan")


# -- words within a trial -------------------------------------------------------------------------


def test_exact_permutation_by_hand() -> None:
    # of the 6 orders of three words only the identity reaches r = 1
    found = sm.permutation_pvalues([1, 2, 3], [1, 2, 3], "pearson", alternative="greater")
    assert found.exact[0] and found.n_draws[0] == 6
    assert found.p[0] == pytest.approx(1 / 6)
    assert sm.permutation_pvalues([1, 2, 3], [1, 2, 3], "pearson").p[0] == pytest.approx(2 / 6)
    assert sm.permutation_pvalues([1, 2, 3], [3, 2, 1], alternative="greater").p[0] == 1
    # distances: small is good; two of the six orders give the distance of a tied profile
    better = sm.permutation_pvalues([1, 2, 2], [1, 5, 5], "js_divergence", alternative="better")
    assert better.alternative == "less"
    assert better.p[0] == pytest.approx(2 / 6)


def test_exact_permutation_equals_enumeration() -> None:
    rng = np.random.default_rng(0)
    A, b = rng.integers(0, 4, (3, 6)).astype(float), rng.random(6)
    for name in ("kendall", "js_divergence", "kappa_topk"):
        found = sm.permutation_pvalues(A, b, name, alternative="greater")
        for i in range(3):
            observed = ag.batched(name, A[i : i + 1], b)[0]
            orders = itertools.permutations(b)
            draws = [float(metrics.get(name).obj(A[i], o)) for o in orders]
            assert found.p[i] == pytest.approx(np.mean(np.array(draws) >= observed - 1e-12))
            np.testing.assert_allclose(np.sort(found.null[i]), np.sort(draws), atol=1e-12)


def test_monte_carlo_p_counts_the_observed_value() -> None:
    a = np.arange(30.0)
    found = sm.permutation_pvalues(a, a, "spearman", 99, rng=0, alternative="greater")
    assert not found.exact[0]
    assert found.p[0] == pytest.approx(1 / 100)
    assert sm.permutation_pvalues(a, a, "spearman", 99, rng=0).p[0] == pytest.approx(2 / 100)
    by_hand = sm.tail_probability([0.5], [[0.1, 0.5, 0.9, NAN]], "greater")
    assert by_hand[0] == pytest.approx((1 + 2) / (1 + 3))
    assert sm.tail_probability([0.5], [[0.1, 0.5, 0.9]], "greater", exact=True)[0] == 2 / 3


def test_monte_carlo_is_near_the_exact_test() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 7))
    for side in ("two-sided", "greater", "less"):
        exact = sm.permutation_pvalues(a, b, "pearson", 5040, alternative=side)
        sampled = sm.permutation_pvalues(a, b, "pearson", 5000, rng=0, alternative=side)
        assert exact.exact[0] and not sampled.exact[0]
        assert sampled.p[0] == pytest.approx(exact.p[0], abs=0.03)


def test_ties_between_draws_are_not_lost_to_rounding() -> None:
    # the same sum in another order differs in the last bit; b has equal values, so that each
    # distinct order of it is visited twice
    a, b = [0.1, 0.2, 0.3, 0.3], [0.7, 0.1, 0.2, 0.2]
    for name in ("pearson", "cosine", "spearman", "js_divergence"):
        for side in ("greater", "less"):
            p = sm.permutation_pvalues(a, b, name, alternative=side).p[0]
            assert (p * 24) == pytest.approx(round(p * 24))
            assert round(p * 24) % 2 == 0


def test_p_values_of_unrelated_profiles_are_uniform() -> None:
    rng = np.random.default_rng(11)
    for side in ("greater", "two-sided"):
        p = [
            sm.permutation_pvalues(*rng.random((2, 20)), "spearman", 199, rng, side).p[0]
            for _ in range(300)
        ]
        # whole multiples of 1/200: compare with the uniform one after smearing over a step
        smeared = np.array(p) - rng.random(300) / (200 if side == "greater" else 100)
        assert stats.kstest(smeared, "uniform").pvalue > 0.01
        assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.03)


def test_p_values_with_covariates_are_uniform() -> None:
    rng = np.random.default_rng(12)
    p = []
    for _ in range(300):
        z = rng.normal(size=(2, 25))
        a, b = z.sum(axis=0) + rng.normal(size=25), z[0] + rng.normal(size=25)
        p.append(sm.permutation_pvalues(a, b, "pearson", 199, rng, "greater", covariates=z).p[0])
    assert stats.kstest(np.array(p) - rng.random(300) / 200, "uniform").pvalue > 0.01
    # without the control the common cause looks like agreement
    found = sm.permutation_pvalues(a, b, "pearson", 199, rng, "greater", covariates=z)
    assert found.observed[0] == pytest.approx(ag.partial(a, b, z, method="pearson"))


def test_a_real_effect_is_found() -> None:
    rng = np.random.default_rng(2)
    b = rng.random(60)
    A = np.stack([b + 0.3 * rng.random(60), -b, rng.random(60)])
    greater = sm.permutation_pvalues(A, b, "spearman", 499, rng=0, alternative="greater")
    assert greater.p[0] == pytest.approx(1 / 500) and greater.p[1] == 1
    assert sm.permutation_pvalues(A, b, "spearman", 499, rng=0).p[1] == pytest.approx(2 / 500)
    js = sm.permutation_pvalues(A[:1], b, "js_divergence", 499, rng=0, alternative="better")
    assert js.p[0] == pytest.approx(1 / 500)
    assert js.chance[0] > js.observed[0]


def test_p_does_not_depend_on_the_other_profiles() -> None:
    rng = np.random.default_rng(3)
    A, b = rng.random((5, 15)), rng.random(15)
    A[1, 3], A[2, :11], A[3] = NAN, NAN, 1.0  # one gap, four words left, constant
    together = sm.permutation_pvalues(A, b, "spearman", 300, rng=5)
    for i in range(5):
        alone = sm.permutation_pvalues(A[i], b, "spearman", 300, rng=5)
        np.testing.assert_allclose(together.p[i], alone.p[0], rtol=0, atol=0)
        np.testing.assert_allclose(together.observed[i], alone.observed[0], atol=1e-14)
    assert together.exact.tolist() == [False, False, True, False, False]
    assert together.n_draws.tolist() == [300, 300, 24, 0, 300]
    assert math.isnan(together.p[3]) and math.isnan(together.chance[3])


def test_undefined_profiles_have_no_p() -> None:
    for a, b in (
        ([1, 1, 1, 1], [1, 2, 3, 4]),
        ([1, 2, 3, 4], [1, 1, 1, 1]),
        ([NAN, NAN, NAN, 4], [1, 2, 3, 4]),
        ([NAN] * 4, [1, 2, 3, 4]),
        ([], []),
    ):
        found = sm.permutation_pvalues(a, b)
        assert math.isnan(found.p[0]) and math.isnan(found.observed[0])
        assert found.n_draws[0] == 0


def test_strata_keep_words_in_their_line() -> None:
    a, b = np.arange(12.0), np.arange(12.0)
    lines = ["x"] * 6 + ["y"] * 6
    # the lines differ so much that shuffling within them keeps a high correlation
    within = sm.permutation_pvalues(a, b, "pearson", 200, rng=0, strata=lines)
    free = sm.permutation_pvalues(a, b, "pearson", 200, rng=0)
    assert within.chance[0] > 0.7 > abs(free.chance[0])
    # exact: 2! * 2! * 1! arrangements
    small = sm.permutation_pvalues([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], strata=[1, 1, 2, 2, 3])
    assert small.exact[0] and small.n_draws[0] == 4
    # every word alone in its stratum: one arrangement, nothing can be said
    alone = sm.permutation_pvalues([1, 2, 3], [3, 1, 2], strata=[1, 2, 3])
    assert alone.n_draws[0] == 1 and alone.p[0] == 1
    with pytest.raises(DataError, match="stratum"):
        sm.permutation_pvalues([1, 2], [1, 2], strata=[1])


def test_same_seed_same_draws() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.random((2, 20))
    first = sm.permutation_pvalues(a, b, rng=3).null
    np.testing.assert_array_equal(first, sm.permutation_pvalues(a, b, rng=3).null)
    assert (first != sm.permutation_pvalues(a, b, rng=4).null).any()


def test_permutation_arguments_are_checked() -> None:
    a, b = [1, 2, 3], [1, 3, 2]
    with pytest.raises(ValueError, match="alternative"):
        sm.permutation_pvalues(a, b, alternative="larger")
    with pytest.raises(ValueError, match="n_permutations"):
        sm.permutation_pvalues(a, b, n_permutations=0)
    with pytest.raises(UnknownNameError):
        sm.permutation_pvalues(a, b, "sperman")
    with pytest.raises(ValueError, match="covariates"):
        sm.permutation_pvalues(a, b, "kendall", covariates=[1, 2, 3])
    with pytest.raises(DataError):
        sm.permutation_pvalues(a, [1, 2])


# -- averages over trials -------------------------------------------------------------------------


def test_mean_null_averages_draw_by_draw() -> None:
    rng = np.random.default_rng(5)
    trials = [
        sm.permutation_pvalues(rng.random((3, n)), rng.random(n), rng=rng, n_permutations=200)
        for n in (20, 30, 25)
    ]
    found = sm.mean_null(trials)
    np.testing.assert_allclose(found.observed, np.mean([t.observed for t in trials], axis=0))
    np.testing.assert_allclose(found.null, np.mean([t.null for t in trials], axis=0))
    assert found.n_trials.tolist() == [3, 3, 3] and found.n_undefined.tolist() == [0, 0, 0]
    weighted = sm.mean_null(trials, weights=[1, 0, 3])
    expected = (trials[0].observed + 3 * trials[2].observed) / 4
    np.testing.assert_allclose(weighted.observed, expected)


def test_mean_null_skips_and_counts_undefined_trials() -> None:
    rng = np.random.default_rng(6)
    b = rng.random(20)
    flat = np.stack([np.ones(20), rng.random(20)])
    full = rng.random((2, 20))
    trials = [sm.permutation_pvalues(x, b, rng=rng, n_permutations=99) for x in (flat, full)]
    found = sm.mean_null(trials)
    assert found.observed[0] == trials[1].observed[0]  # not half of it
    assert found.n_trials.tolist() == [1, 2] and found.n_undefined.tolist() == [1, 0]
    none = sm.mean_null([trials[0], trials[0]])
    assert math.isnan(none.observed[0]) and math.isnan(none.p[0]) and none.n_trials[0] == 0


def test_mean_null_mixes_exact_and_sampled_trials() -> None:
    rng = np.random.default_rng(7)
    short = sm.permutation_pvalues(rng.random((2, 4)), rng.random(4), n_permutations=500, rng=0)
    long = sm.permutation_pvalues(rng.random((2, 40)), rng.random(40), n_permutations=500, rng=1)
    found = sm.mean_null([short, long], rng=0)
    assert found.null.shape == (2, 500)
    assert abs(found.chance).max() < 0.1
    only_short = sm.mean_null([short, short, short], n_draws=2000, rng=0)
    assert only_short.null.shape == (2, 2000)
    # one exact trial stays exact
    one = sm.mean_null([short])
    np.testing.assert_allclose(one.p, short.p)
    np.testing.assert_allclose(one.observed, short.observed)
    with pytest.raises(DataError, match="number of draws"):
        sm.mean_null(
            [long, sm.permutation_pvalues(np.ones((2, 40)) * np.arange(40), np.arange(40), rng=0)]
        )
    with pytest.raises(DataError):
        sm.mean_null([])


def test_the_average_over_trials_has_uniform_p_values() -> None:
    rng = np.random.default_rng(8)
    p = []
    for _ in range(200):
        trials = [
            sm.permutation_pvalues(*rng.random((2, n)), "spearman", 199, rng, "greater")
            for n in (4, 12, 18)
        ]
        p.append(sm.mean_null(trials, rng=rng).p[0])
    assert stats.kstest(np.array(p) - rng.random(200) / 200, "uniform").pvalue > 0.01


# -- signs and groups -----------------------------------------------------------------------------


def test_sign_flip_by_hand() -> None:
    # 8 patterns of (1, 2, 3): only one has a mean of 2
    found = sm.sign_flip_test([1, 2, 3], alternative="greater")
    assert (found.value, found.p, found.n_draws, found.exact) == (2, 1 / 8, 8, True)
    assert sm.sign_flip_test([1, 2, 3]).p == 2 / 8
    assert sm.sign_flip_test([1, 2, NAN, 3]).p == 2 / 8
    assert sm.sign_flip_test([0, 0, 0]).p == 1
    assert sm.sign_flip_test([1e-30, 2e-30, 3e-30]).p == 2 / 8  # no hidden absolute tolerance
    assert sm.sign_flip_test(np.ones(30), n_permutations=99, rng=0).p == pytest.approx(2 / 100)
    assert math.isnan(sm.sign_flip_test([]).p) and math.isnan(sm.sign_flip_test([NAN]).value)


def test_two_groups_by_hand() -> None:
    found = sm.two_sample_test([4, 5], [1, 2, 3], alternative="greater")
    assert (found.value, found.p, found.n_draws) == (2.5, 1 / 10, 10)
    assert sm.two_sample_test([1, 2], [3, 4, 5]).p == 2 / 10
    assert math.isnan(sm.two_sample_test([], [1]).p)
    many = sm.two_sample_test(np.arange(40.0), np.arange(40.0) + 100, 99, rng=0)
    assert not many.exact and many.p == pytest.approx(2 / 100)


# -- many tests -----------------------------------------------------------------------------------


def test_benjamini_hochberg_by_hand() -> None:
    np.testing.assert_allclose(
        sm.benjamini_hochberg([0.01, 0.02, 0.03, 0.5]), [0.04, 0.04, 0.04, 0.5]
    )
    np.testing.assert_allclose(sm.benjamini_hochberg([0.5]), [0.5])
    assert sm.benjamini_hochberg([]).shape == (0,)


def test_undefined_tests_are_not_counted() -> None:
    p = [0.01, NAN, 0.02, NAN, 0.03]
    q = sm.benjamini_hochberg(p)
    np.testing.assert_allclose(q, [0.03, NAN, 0.03, NAN, 0.03])
    assert np.isnan(sm.benjamini_hochberg([NAN, NAN])).all()
    np.testing.assert_allclose(sm.adjust([[0.01, NAN], [0.02, 0.03]], "bonferroni")[0, 0], 0.03)
    for bad in ([1.5], [-0.1, 0.5]):
        with pytest.raises(DataError, match="between 0 and 1"):
            sm.adjust(bad)
    with pytest.raises(ValueError, match="method"):
        sm.adjust([0.1], "fdr")


def test_max_t_by_hand() -> None:
    null = np.array([[0.1, 0.2, 0.3], [0.4, 0.0, 0.1]])  # maxima 0.4, 0.2, 0.3
    np.testing.assert_allclose(sm.max_t([0.35, 0.1], null), [2 / 4, 4 / 4])
    np.testing.assert_allclose(sm.max_t([0.35, NAN], null[[0, 0]] * [[1], [NAN]]), [1 / 4, NAN])
    np.testing.assert_allclose(sm.max_t([0.35, -0.5], null, "two-sided"), [2 / 4, 1 / 4])
    np.testing.assert_allclose(sm.max_t([0.05, 0.35], null, "less"), [2 / 4, 4 / 4])
    np.testing.assert_allclose(sm.max_t([0.4, 0.1], null, exact=True), [1 / 3, 1])
    assert np.isnan(sm.max_t([NAN, NAN], null)).all()
    with pytest.raises(DataError, match="missing"):
        sm.max_t([0.1, 0.2], [[0.1, NAN], [0.2, 0.3]])


def test_max_t_holds_the_family_wise_error() -> None:
    rng = np.random.default_rng(9)
    false_alarms = 0
    for _ in range(200):
        A, b = rng.random((20, 25)), rng.random(25)
        found = sm.permutation_pvalues(A, b, "spearman", 199, rng, "greater")
        false_alarms += bool((sm.max_t(found.observed, found.null) <= 0.05).any())
    assert 0.01 <= false_alarms / 200 <= 0.1


# -- averages and effect sizes --------------------------------------------------------------------


def test_averages_skip_and_count_missing_values() -> None:
    found = sm.summarise([0.9, NAN])
    assert (found.mean, found.n, found.n_undefined) == (0.9, 1, 1)
    assert math.isnan(found.sd)
    for values, mean, n in (
        ([NAN, 0.9, NAN], 0.9, 1),
        ([1.0, 0.0, NAN], 0.5, 2),
        ([0.0, 0.0], 0.0, 2),
        ([NAN], NAN, 0),
        ([], NAN, 0),
    ):
        s = sm.summarise(values)
        np.testing.assert_equal((s.mean, s.n, s.n_undefined), (mean, n, len(values) - n))
    table = sm.summarise([[1, NAN, 3], [NAN, NAN, 2]], axis=0)
    np.testing.assert_equal(table.mean, [1, NAN, 2.5])
    np.testing.assert_equal(table.n_undefined, [1, 2, 0])
    assert table.sd[2] == pytest.approx(math.sqrt(0.5))


def test_fisher_mean() -> None:
    assert sm.fisher_mean([0.5, 0.5]) == 0.5
    expected = math.tanh((math.atanh(0.9) + math.atanh(0.1)) / 2)
    assert sm.fisher_mean([0.9, NAN, 0.1]) == pytest.approx(expected)
    weighted = math.tanh((3 * math.atanh(0.9) + math.atanh(0.1)) / 4)
    assert sm.fisher_mean([0.9, 0.1], [3, 1]) == pytest.approx(weighted)
    assert math.isnan(sm.fisher_mean([1.0, 0.2])) and math.isnan(sm.fisher_mean([1.0, -1.0]))
    assert sm.fisher_mean([1.0, 1.0]) == 1
    assert math.isnan(sm.fisher_mean([NAN]))
    with pytest.raises(DataError):
        sm.fisher_mean([1.2])


def test_effect_sizes_by_hand() -> None:
    # differences 1, 2, 3: mean 2, standard deviation 1
    assert sm.cohens_d_paired([2, 4, 6], [1, 2, 3]) == pytest.approx(2)
    assert math.isnan(sm.cohens_d_paired([2, 3, 4], [1, 2, 3]))
    assert math.isnan(sm.cohens_d_paired([2, NAN], [1, 2]))
    # pooled variance 1 with 4 degrees of freedom; correction gamma(2) / (sqrt(2) gamma(1.5))
    j = 1 / (math.sqrt(2) * math.gamma(1.5))
    assert sm.hedges_g([2, 3, 4], [1, 2, 3]) == pytest.approx(j)
    assert j == pytest.approx(1 - 3 / (4 * 4 - 1), abs=0.01)
    assert math.isnan(sm.hedges_g([1, 1], [2, 2])) and math.isnan(sm.hedges_g([1], [1, 2]))


def test_correlation_test_edge_cases() -> None:
    for name in ("pearson", "spearman", "kendall"):
        assert np.isnan(sm.correlation_test([1, 1, 1], [1, 2, 3], name)).all()
        assert np.isnan(sm.correlation_test([1, 2, 3], [1, 1, 1], name)).all()
        found = sm.correlation_test([1, 2], [4, 3], name)
        assert found[0] == -1 and math.isnan(found[1])
    with pytest.raises(ValueError, match="metric"):
        sm.correlation_test([1, 2], [1, 2], "cosine")
