"""Agreement metrics: numbers worked out by hand, undefined cases, bad input."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics import agreement as ag
from gazeattn.registry import metrics, register_metric

NAN = float("nan")
CORRELATIONS = ("spearman", "kendall", "pearson")
RANKINGS = ("topk_overlap", "topk_jaccard", "kappa_topk", "rank_biased_overlap", "ndcg")
DISTRIBUTIONS = ("js_divergence", "js_distance", "kl_divergence", "total_variation")
ALL = (*CORRELATIONS, *RANKINGS, *DISTRIBUTIONS, "cosine")


def value(name: str, a: object, b: object, **params: object) -> float:
    return float(metrics.get(name).obj(a, b, **params))


# -- by hand --------------------------------------------------------------------------------------


def test_all_names_are_registered_with_their_facts() -> None:
    assert set(ALL) <= set(ag.metric_names())
    for name in ALL:
        info = metrics.get(name).info
        assert info["bounds"][0] < info["bounds"][1]
        assert info["description"] and info["citation"]
        assert ag.higher_is_better(name) == (name not in DISTRIBUTIONS)


def test_spearman_by_hand() -> None:
    # ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: covariance 4.5, sums of squares 4.5 and 5
    assert ag.spearman([1, 2, 2, 9], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))


def test_kendall_by_hand() -> None:
    # 6 pairs: 1 tied in a, 5 concordant; tau-b 5 / sqrt(5 * 6); tau-c 2 * 5 * 3 / (16 * 2)
    assert ag.kendall([1, 2, 2, 9], [1, 2, 3, 4]) == pytest.approx(5 / math.sqrt(30))
    assert ag.kendall([1, 2, 2, 9], [1, 2, 3, 4], variant="c") == pytest.approx(30 / 32)


def test_pearson_and_cosine_by_hand() -> None:
    assert ag.pearson([0, 1, 2], [0, 1, 0]) == pytest.approx(0.0)
    assert ag.pearson([1, 2, 3], [1, 2, 6]) == pytest.approx(5 / math.sqrt(2 * 14))
    assert ag.cosine([1, 0], [1, 1]) == pytest.approx(1 / math.sqrt(2))
    assert ag.cosine([1, 1], [-2, -2]) == pytest.approx(-1)


def test_divergences_by_hand() -> None:
    a, b = [1, 0], [1, 1]
    # m = (3/4, 1/4)
    expected = 0.5 * math.log(4 / 3) + 0.5 * (0.5 * math.log(2 / 3) + 0.5 * math.log(2))
    assert ag.js_divergence(a, b, eps=0) == pytest.approx(expected)
    assert ag.js_divergence(a, b, eps=0, base=2) == pytest.approx(expected / math.log(2))
    assert ag.js_distance(a, b, eps=0) == pytest.approx(math.sqrt(expected))
    assert ag.js_divergence([1, 0], [0, 1], eps=0) == pytest.approx(math.log(2))
    assert ag.js_divergence([1, 0], [0, 1], eps=0, base=2) == pytest.approx(1)
    assert ag.kl_divergence(a, b, eps=0) == pytest.approx(math.log(2))
    assert ag.kl_divergence(b, a, eps=0) == math.inf
    assert ag.total_variation(a, b) == pytest.approx(0.5)
    assert ag.total_variation([3, 1], [2, 6]) == pytest.approx(0.5)


def test_small_divergences_keep_their_digits() -> None:
    p = np.array([1.0, 1.0, 1.0, 1.0])
    for delta in (1e-3, 1e-5, 1e-7):
        q = p + delta * np.array([1, -1, 1, -1])
        # second order: JS = sum((p - q)^2 / p) / 8 for shares, a relative error of order delta^2
        assert ag.js_divergence(p, q, eps=0) == pytest.approx(delta**2 / 8, rel=1e-4, abs=0)
    assert ag.js_distance(p, p) == 0
    # the batched form as well
    A = np.stack([p, p + 1e-7 * np.array([1, -1, 1, -1]), p * 3])
    found = ag.batched("js_distance", A, np.stack([p, p]), eps=0)
    np.testing.assert_allclose(found[1], 1e-7 / math.sqrt(8), rtol=1e-4)
    assert (found[[0, 2]] == 0).all()


def test_top_k_by_hand() -> None:
    a, b = [5, 4, 3, 2, 1], [5, 1, 4, 2, 3]
    assert ag.topk_indices(a, 2).tolist() == [0, 1]
    assert ag.topk_indices(b, 2).tolist() == [0, 2]
    assert ag.topk_overlap(a, b, k=2) == 0.5
    assert ag.topk_overlap(a, b, share=0.4) == 0.5
    assert ag.topk_jaccard(a, b, k=2) == pytest.approx(1 / 3)
    # 3 of 5 agree; by chance 0.4 * 0.4 + 0.6 * 0.6 = 0.52
    assert ag.kappa_topk(a, b, k=2) == pytest.approx((0.6 - 0.52) / 0.48)
    assert ag.topk_chance(5, k=2) == 0.4
    assert ag.chance("topk_overlap", 5, k=2) == 0.4
    assert ag.chance("kappa_topk", 5, k=2) == 0


def test_top_k_ties() -> None:
    a, b = [2, 1, 1, 1], [0, 0, 1, 2]
    assert ag.topk_indices(a, 2).tolist() == [0, 1]
    assert ag.topk_overlap(a, b, k=2) == 0
    # a surely names unit 0 and each other with 1/3; b names 2 and 3: (1/3 + 1/3) / 2
    assert ag.topk_overlap(a, b, k=2, ties="random_expectation") == pytest.approx(1 / 3)
    # without ties both rules agree
    x, y = [4, 3, 2, 1], [1, 4, 3, 2]
    for k in (1, 2, 3, 4):
        assert ag.topk_overlap(x, y, k=k) == ag.topk_overlap(x, y, k=k, ties="random_expectation")


def test_expected_overlap_is_the_mean_over_random_tie_breaks() -> None:
    rng = np.random.default_rng(0)
    a, b = np.array([3, 1, 1, 1, 2, 2]), np.array([1, 1, 1, 5, 5, 5])
    draws = [
        (
            ag.topk_overlap(a + 0.1 * rng.random(6), b + 0.1 * rng.random(6), k=2),
            ag.kappa_topk(a + 0.1 * rng.random(6), b + 0.1 * rng.random(6), k=2),
        )
        for _ in range(2000)
    ]
    overlap = ag.topk_overlap(a, b, k=2, ties="random_expectation")
    kappa = ag.kappa_topk(a, b, k=2, ties="random_expectation")
    np.testing.assert_allclose(np.mean(draws, axis=0), [overlap, kappa], atol=0.03)


def test_all_units_as_top_k_is_full_overlap_and_no_kappa() -> None:
    a, b = [1, 2, 3], [3, 1, 2]
    assert ag.topk_overlap(a, b, k=3) == 1
    assert math.isnan(ag.kappa_topk(a, b, k=3))
    assert "every unit" in ag.undefined_reason("kappa_topk", a, b, k=3)
    for name in ("topk_overlap", "topk_jaccard", "kappa_topk", "ndcg"):
        assert math.isnan(value(name, a, b, k=4))
        assert "more than the 3 units" in ag.undefined_reason(name, a, b, k=4)
    assert math.isnan(ag.rank_biased_overlap(a, b, depth=4))
    assert math.isnan(ag.topk_chance(3, k=4))
    assert ag.topk_indices(a, 4).tolist() == []


def test_rank_biased_overlap_by_hand() -> None:
    a, b, p = [3, 2, 1], [3, 1, 2], 0.5
    # overlaps 1, 1, 3 at depths 1, 2, 3
    truncated = 0.5 * (1 + 0.5 * 1 / 2 + 0.25 * 1)
    assert ag.rank_biased_overlap(a, b, p=p, extrapolate=False) == pytest.approx(truncated)
    assert ag.rank_biased_overlap(a, b, p=p) == pytest.approx(truncated + 0.125)
    assert ag.rank_biased_overlap(a, b, p=p, depth=2) == pytest.approx(0.625 + 0.5 * 0.25)


def test_ndcg_by_hand() -> None:
    # the model puts gains 1, 3, 0 on places 1, 2, 3
    at_2 = 1 / math.log2(3)
    assert ag.ndcg([3, 2, 1], [1, 3, 0]) == pytest.approx((1 + 3 * at_2) / (3 + at_2))
    assert ag.ndcg([3, 2, 1], [1, 3, 0], k=1) == pytest.approx(1 / 3)
    # units 0 and 1 share the first two places
    shared = (1 + at_2) / 2
    assert ag.ndcg([2, 2, 1], [1, 3, 0]) == pytest.approx(4 * shared / (3 + at_2))


def test_partial_by_hand() -> None:
    # residuals on z = (-1, 0, 1) plus intercept span one dimension in three units: undefined
    assert math.isnan(ag.partial([1, 5, 2], [2, 1, 7], [-1, 0, 1], method="pearson"))
    # first-order formula (r_ab - r_az r_bz) / sqrt((1 - r_az^2) (1 - r_bz^2))
    rng = np.random.default_rng(3)
    a, b, z = rng.random((3, 30))
    for method, r in (("pearson", ag.pearson), ("spearman", ag.spearman)):
        ab, az, bz = r(a, b), r(a, z), r(b, z)
        expected = (ab - az * bz) / math.sqrt((1 - az**2) * (1 - bz**2))
        assert ag.partial(a, b, z, method=method) == pytest.approx(expected)


def test_partial_removes_a_common_cause() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=400)
    a, b = z + 0.5 * rng.normal(size=400), z + 0.5 * rng.normal(size=400)
    assert ag.pearson(a, b) > 0.7
    assert abs(ag.partial(a, b, z, method="pearson")) < 0.1


def test_partial_with_collinear_and_constant_covariates() -> None:
    rng = np.random.default_rng(1)
    a, b, z, w = rng.random((4, 40))
    one = ag.partial(a, b, z, method="pearson")
    for extra in ([z, z], [z, 2 * z + 5], [z, np.ones(40)], [z, np.full(40, 1e9)], [z * 1e-9]):
        assert ag.partial(a, b, np.stack(extra), method="pearson") == pytest.approx(one)
    both = ag.partial(a, b, [z, w], method="pearson")
    assert ag.partial(a, b, [z, w, z - 3 * w], method="pearson") == pytest.approx(both)
    assert ag.partial(a, b, np.empty((0, 40))) == pytest.approx(ag.spearman(a, b))
    assert ag.partial(a, b, np.ones(40)) == pytest.approx(ag.spearman(a, b))


def test_partial_is_undefined_where_covariates_explain_everything() -> None:
    rng = np.random.default_rng(2)
    a, z, w = rng.random((3, 20))
    for explained in (z, 3 * z - 7, 1e6 * z, z + 2 * w):
        for x, y in ((a, explained), (explained, a), (explained, explained)):
            assert math.isnan(ag.partial(x, y, [z, w], method="pearson"))
            assert "explain" in ag.partial_undefined_reason(x, y, [z, w], method="pearson")
    assert math.isnan(ag.partial(z, a, np.exp(z)))  # same ranks
    assert math.isnan(ag.partial(np.ones(20), a, z))
    assert math.isnan(ag.partial(a, np.ones(20), z))
    four = [[1, 2, 3, 4], [2, 1, 4, 3]]
    assert math.isnan(ag.partial(a[:4], w[:4], four))
    assert "too few" in ag.partial_undefined_reason(a[:4], w[:4], four)
    assert math.isfinite(ag.partial(a[:5], w[:5], [[1, 2, 3, 4, 5], [2, 1, 4, 3, 5]]))


def test_partial_leaves_out_units_without_a_covariate() -> None:
    rng = np.random.default_rng(4)
    a, b, z = rng.random((3, 30))
    z[[3, 8]] = NAN
    a[1] = NAN
    keep = np.setdiff1d(np.arange(30), [1, 3, 8])
    assert ag.partial(a, b, z) == pytest.approx(ag.partial(a[keep], b[keep], z[keep]))
    with pytest.raises(DataError, match="one value per unit"):
        ag.partial(a, b, z[:-1])


# -- undefined ------------------------------------------------------------------------------------

RAMP = np.arange(1.0, 7.0)
CONSTANTS = {
    "ones": np.ones(6),
    "zeros": np.zeros(6),
    "signed zeros": np.array([0.0, -0.0, 0.0, -0.0, 0.0, 0.0]),
    "not exact in binary": np.full(6, 0.1),
    "rounding": np.array([0.1 + 0.2, 0.3, 0.3, 0.3, 0.1 + 0.2, 0.3]),
    "large": np.full(6, 1e300),
    "tiny": np.full(6, 1e-300),
    "negative": np.full(6, -7.0),
    "integers": np.full(6, 3),
    "booleans": np.ones(6, dtype=bool),
    "float32 rounding": (np.float32(1) / np.arange(1, 7).astype(np.float32))
    * np.arange(1, 7).astype(np.float32)
    + np.array([0, 6e-8, 0, 0, 0, -6e-8], dtype=np.float32),
    "with gaps": np.array([2.0, NAN, 2.0, 2.0, NAN, 2.0]),
    "varies only where the other side has no score": np.array([5.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
}


@pytest.mark.parametrize("kind", CONSTANTS)
@pytest.mark.parametrize("name", [*CORRELATIONS, *RANKINGS])
def test_constant_input_is_nan_in_both_orders(name: str, kind: str) -> None:
    flat, ramp = CONSTANTS[kind], RAMP.copy()
    if kind.startswith("varies only"):
        ramp[0] = NAN
    orders = [(flat, ramp), (ramp, flat)]
    if not kind.startswith("varies only"):
        orders.append((flat, flat[::-1]))
    for a, b in orders:
        assert math.isnan(value(name, a, b)), (name, kind)
        assert "constant" in ag.undefined_reason(name, a, b)
        stacked = np.stack([RAMP[::-1], np.asarray(a, dtype=float)])
        if kind != "float32 rounding":
            assert math.isnan(ag.batched(name, stacked, np.asarray(b, dtype=float))[1])


@pytest.mark.parametrize("kind", CONSTANTS)
def test_partial_of_a_constant_is_nan_in_both_orders(kind: str) -> None:
    rng = np.random.default_rng(0)
    flat = np.concatenate([CONSTANTS[kind][1:]] * 4)
    other, z = rng.random((2, len(flat)))
    for method in ("spearman", "pearson"):
        assert math.isnan(ag.partial(flat, other, z, method=method))
        assert math.isnan(ag.partial(other, flat, z, method=method))


def test_a_small_but_real_spread_is_not_constant() -> None:
    a = 1 + 1e-9 * RAMP
    for name in CORRELATIONS:
        assert value(name, a, RAMP) == pytest.approx(1, abs=1e-6)
    assert ag.pearson(RAMP * 1e-200, RAMP * 1e200) == pytest.approx(1)


def test_a_uniform_profile_has_a_distribution_and_an_angle() -> None:
    for name in (*DISTRIBUTIONS, "cosine"):
        assert math.isfinite(value(name, np.ones(6), RAMP))
    assert ag.topk_overlap(np.ones(6), RAMP, k=2, ties="random_expectation") == pytest.approx(1 / 3)
    assert ag.kappa_topk(np.ones(6), RAMP, k=2, ties="random_expectation") == pytest.approx(0)


@pytest.mark.parametrize("name", ALL)
def test_too_few_units_is_nan(name: str) -> None:
    for a, b in (
        ([], []),
        ([1.0], [2.0]),
        ([1.0, NAN], [2.0, 3.0]),
        ([1.0, NAN, 2.0], [NAN, 3.0, 2.0]),
        ([NAN, NAN], [1.0, 2.0]),
    ):
        assert math.isnan(value(name, a, b))
        assert math.isnan(value(name, b, a))
        assert "2 needed" in ag.undefined_reason(name, a, b)


@pytest.mark.parametrize("name", ALL)
def test_missing_units_are_left_out_of_both_sides(name: str) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.random((2, 12))
    whole = value(name, a[2:9], b[2:9])
    a[:2], b[9:] = NAN, NAN
    assert value(name, a, b) == pytest.approx(whole, abs=1e-15)
    pair = ag.paired(a, b)
    assert (pair.n, pair.n_missing) == (7, 5)
    np.testing.assert_array_equal(ag.n_paired(np.stack([a, b]), b), [7, 9])
    assert ag.undefined_reason(name, a, b) == ""


def test_missing_is_not_zero() -> None:
    assert ag.topk_overlap([NAN, 3, 2, 1], [9, 3, 2, 1], k=1) == 1
    assert ag.pearson([1, 2, 3, NAN], [1, 2, 3, 100]) == pytest.approx(1)
    assert ag.topk_indices([NAN, -3, -1, -2], 2).tolist() == [2, 3]
    masked = np.ma.masked_array([1.0, 2.0, 3.0, 0.0], mask=[0, 0, 0, 1])
    assert ag.pearson(masked, [1, 2, 3, 100]) == pytest.approx(1)
    nullable = pd.Series([1, 2, 3, None], dtype="Int64")
    assert ag.pearson(nullable, [1, 2, 3, 100]) == pytest.approx(1)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_negative_or_absent_mass_is_nan_in_both_orders(name: str) -> None:
    for bad, why in (
        (np.array([1.0, -1e-9, 2, 3, 4, 5]), "negative"),
        (-RAMP, "negative"),
        (np.zeros(6), "no mass"),
        (np.array([0, 0, 0, 0, 0, -0.0]), "no mass"),
        (np.array([1, np.inf, 1, 1, 1, 1]), "infinite"),
    ):
        assert math.isnan(value(name, bad, RAMP)), why
        assert math.isnan(value(name, RAMP, bad)), why
        assert why in ag.undefined_reason(name, bad, RAMP)
        assert "human" in ag.undefined_reason(name, RAMP, bad)


def test_cosine_of_zeros_is_nan_in_both_orders() -> None:
    assert math.isnan(ag.cosine(np.zeros(6), RAMP))
    assert math.isnan(ag.cosine(RAMP, np.zeros(6)))
    assert "no mass" in ag.undefined_reason("cosine", RAMP, np.zeros(6))


def test_infinite_values() -> None:
    a = np.array([1, np.inf, 2, -np.inf, 3, 4])
    for name in ("pearson", "cosine"):
        assert math.isnan(value(name, a, RAMP))
        assert math.isnan(value(name, RAMP, a))
        assert "infinite" in ag.undefined_reason(name, a, RAMP)
    finite = np.array([1, 99, 2, -99, 3, 4])
    for name in ("spearman", "kendall", "topk_overlap", "rank_biased_overlap"):
        assert value(name, a, RAMP) == pytest.approx(value(name, finite, RAMP))


def test_negative_gains_are_undefined() -> None:
    assert math.isnan(ag.ndcg([1, 2, 3], [1, -2, 3]))
    assert "negative" in ag.undefined_reason("ndcg", [1, 2, 3], [1, -2, 3])
    assert ag.ndcg([-1, -2, -3], [3, 2, 1]) == pytest.approx(1)


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_unequal_lengths_are_refused(name: str) -> None:
    for a, b in (([1, 2, 3], [1, 2]), ([1, 2], [1, 2, 3]), ([], [1])):
        with pytest.raises(DataError, match="one value per unit"):
            value(name, a, b)


@pytest.mark.parametrize(
    "bad", [np.ones((2, 3)), 3.0, ["a", "b", "c"], [1j, 2j, 3j], [[1], [1, 2]]]
)
def test_what_is_not_a_profile_is_refused(bad: object) -> None:
    for name in ALL:
        with pytest.raises(DataError):
            value(name, bad, [1, 2, 3])
        with pytest.raises(DataError):
            value(name, [1, 2, 3], bad)


def test_bad_parameters_are_refused() -> None:
    a, b = [1, 2, 3, 4], [4, 2, 3, 1]
    for k in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="k is wrong"):
            ag.topk_overlap(a, b, k=k)  # type: ignore[arg-type]
    for share in (0, -0.1, 1.1):
        with pytest.raises(ValueError, match="share"):
            ag.topk_overlap(a, b, share=share)
    with pytest.raises(ValueError, match="not both"):
        ag.kappa_topk(a, b, k=1, share=0.5)
    with pytest.raises(ValueError, match="ties"):
        ag.topk_overlap(a, b, ties="random")
    with pytest.raises(ValueError, match="variant"):
        ag.kendall(a, b, variant="a")
    for p in (0, 1, -1):
        with pytest.raises(ValueError, match="p is wrong"):
            ag.rank_biased_overlap(a, b, p=p)
    for eps in (-1e-9, NAN, math.inf):
        with pytest.raises(ValueError, match="eps"):
            ag.js_divergence(a, b, eps=eps)
    with pytest.raises(ValueError, match="base"):
        ag.kl_divergence(a, b, base=1)
    with pytest.raises(ValueError, match="method"):
        ag.partial(a, b, [1, 2, 4, 3], method="kendall")


def test_unknown_metric_has_suggestions() -> None:
    for call in (
        lambda: ag.batched("spearmann", [[1, 2]], [1, 2]),
        lambda: ag.convention("spearmann"),
        lambda: ag.chance("spearmann", 3),
        lambda: ag.undefined_reason("spearmann", [1], [2]),
    ):
        with pytest.raises(UnknownNameError, match="spearman"):
            call()


def test_inputs_are_not_changed() -> None:
    rng = np.random.default_rng(0)
    A, B = rng.random((3, 8)), rng.random((4, 8))
    A[0, 1], B[2, 2] = NAN, NAN
    before = A.copy(), B.copy()
    for name in ALL:
        ag.batched(name, A, B)
        value(name, A[1], B[0])
    np.testing.assert_array_equal(A, before[0])
    np.testing.assert_array_equal(B, before[1])


# -- conventions ----------------------------------------------------------------------------------


def test_conventions_name_what_the_numbers_depend_on() -> None:
    for name in ALL:
        text = ag.convention(name)
        assert text and "\n" not in text
    assert "tau-c" in ag.convention("kendall", variant="c")
    assert "k = 7" in ag.convention("topk_overlap", k=7)
    assert "0.2 of the scored units" in ag.convention("kappa_topk")
    assert "random" in ag.convention("kappa_topk", ties="random_expectation")
    assert "natural" in ag.convention("js_divergence")
    assert "base 2" in ag.convention("js_divergence", base=2)
    assert "1e-09" in ag.convention("kl_divergence")
    assert "truncated" in ag.convention("rank_biased_overlap", extrapolate=False)
    assert "length, frequency" in ag.partial_convention("spearman", ["length", "frequency"])
    with pytest.raises(UnknownNameError, match="parameter of spearman"):
        ag.convention("spearman", k=3)


def test_chance_level_is_the_mean_of_shuffled_profiles() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 15))
    B = np.stack([rng.permutation(b) for _ in range(4000)])
    for name, params in (
        ("spearman", {}),
        ("kendall", {}),
        ("pearson", {}),
        ("topk_overlap", {"k": 4}),
        ("topk_overlap", {}),
        ("kappa_topk", {"share": 0.4}),
    ):
        found = ag.batched(name, a[None], B, **params).mean()
        assert found == pytest.approx(ag.chance(name, 15, **params), abs=0.02)
    assert math.isnan(ag.chance("js_divergence", 15))


# -- many at once ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize("levels", [0, 3])
def test_batched_equals_single(name: str, gaps: float, levels: int) -> None:
    rng = np.random.default_rng(7)
    A, B = rng.random((6, 17)), rng.random((5, 17))
    if levels:
        A, B = np.floor(A * levels), np.floor(B * levels)
    A[rng.random(A.shape) < gaps] = NAN
    B[rng.random(B.shape) < gaps] = NAN
    A[2], B[3] = 1.0, 2.0  # constants stand in the batch, too
    found = ag.batched(name, A, B)
    assert found.shape == (6, 5)
    for i, j in product(range(6), range(5)):
        np.testing.assert_allclose(found[i, j], value(name, A[i], B[j]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(ag.batched(name, A, B[0]), found[:, 0], rtol=0, atol=1e-12)


def test_batched_partial_equals_single() -> None:
    rng = np.random.default_rng(8)
    A, b, Z = rng.random((6, 20)), rng.random(20), rng.random((2, 20))
    A[rng.random(A.shape) < 0.1] = NAN
    A[3] = 1
    for method in ("spearman", "pearson"):
        found = ag.partial_batched(A, b, Z, method=method)
        expected = [ag.partial(a, b, Z, method=method) for a in A]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        assert math.isnan(found[3])


@pytest.mark.parametrize("name", ALL)
def test_a_value_does_not_depend_on_its_batch(name: str) -> None:
    # one by one, and beside values outside [0, 1], large ones and gaps
    scores = [np.array(v) for v in ([1.2, 0.9678, 1.7], [0.2, 0.9, 0.5], [500.0, 1e6, 3.0])]
    b = np.array([0.1, 0.7, 0.4])
    alone = [ag.batched(name, s[None], b)[0] for s in scores]
    together = ag.batched(name, np.stack([*scores, [NAN, 1, 2], [1, 1, 1]]), b)[:3]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-14)
    reverse = ag.batched(name, np.stack(scores[::-1]), np.stack([b, b * 1e9]))[::-1, 0]
    np.testing.assert_allclose(reverse, alone, rtol=0, atol=1e-14)


def test_kernels_are_cut_into_blocks_without_a_seam() -> None:
    rng = np.random.default_rng(9)
    A, B = rng.random((7, 1500)), rng.random((130, 1500))
    for name in ("js_divergence", "kl_divergence", "total_variation", "rank_biased_overlap"):
        found = ag.batched(name, A, B)
        for i, j in ((0, 0), (6, 129), (3, 64), (5, 88)):
            assert found[i, j] == pytest.approx(value(name, A[i], B[j]), abs=1e-12)
    found = ag.batched("kendall", A, B)
    assert found[6, 129] == pytest.approx(ag.kendall(A[6], B[129]), abs=1e-12)


def test_empty_batches() -> None:
    for name in ALL:
        assert ag.batched(name, np.empty((0, 4)), np.ones(4)).shape == (0,)
        assert ag.batched(name, np.ones((3, 4)), np.empty((0, 4))).shape == (3, 0)
        assert np.isnan(ag.batched(name, np.empty((2, 0)), np.empty(0))).all()


def test_a_new_metric_works_by_name_and_as_a_function() -> None:
    def closeness(a: np.ndarray, b: np.ndarray, scale: float = 1.0) -> float:
        x = ag.paired(a, b)
        return float(-np.abs(x.a - x.b).sum() * scale)

    A, b = np.array([[1.0, 2, NAN], [3, 3, 3]]), np.array([1.0, 1, 1])
    np.testing.assert_allclose(ag.batched(closeness, A, b, scale=2), [-2, -12])
    name = "test_closeness"
    register_metric(name, task="agreement", bounds=(-np.inf, 0), higher_is_better=True)(closeness)
    try:
        assert name in ag.metric_names()
        np.testing.assert_allclose(ag.batched(name, A, b), [-1, -6])
        assert ag.convention(name, scale=3) == "test_closeness, scale 3"
    finally:
        metrics._entries.pop(name)
    np.testing.assert_allclose(ag.batched(ag.spearman, A[:, :2], b[:2] * [1, 2]), [1, NAN])
