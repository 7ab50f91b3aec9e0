"""Reference values of independent implementations, D_stats.json and parts of C_attention.json."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gazeattn.metrics import agreement, statistics

TOLERANCE = 1e-9


def near(found: Any, expected: Any) -> None:
    """Compare; the reference files write undefined as None."""
    if expected is None:
        assert math.isnan(found)
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


@pytest.fixture(scope="module")
def cases(golden: Any) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for case in golden("D_stats.json")["cases"]:
        grouped.setdefault(case["kind"], []).append(case)
    return grouped


def test_every_kind_of_case_is_covered(cases: dict[str, list[dict[str, Any]]]) -> None:
    assert set(cases) == {
        "vectors",
        "correlation",
        "kappa",
        "multiple_testing",
        "permutation",
        "noise_ceiling",
        "pearson_ci",
    }


def test_correlations(cases: dict[str, list[dict[str, Any]]]) -> None:
    for case in cases["vectors"] + cases["correlation"]:
        a, b, expected = case["a"], case["b"], case["expected"]
        for x, y in ((a, b), (b, a)):
            near(agreement.pearson(x, y), expected["pearson_r"])
            near(agreement.spearman(x, y), expected["spearman_rho"])
            near(agreement.kendall(x, y), expected["kendall_tau_b"])
            near(agreement.kendall(x, y, variant="c"), expected["kendall_tau_c"])


def test_p_values_of_correlations(cases: dict[str, list[dict[str, Any]]]) -> None:
    for case in cases["vectors"]:
        a, b, expected = case["a"], case["b"], case["expected"]
        near(statistics.correlation_test(a, b, "pearson")[1], expected["pearson_p"])
        near(statistics.correlation_test(a, b, "spearman")[1], expected["spearman_p"])
        near(statistics.correlation_test(a, b, "kendall")[1], expected["kendall_p"])


def test_distributions(cases: dict[str, list[dict[str, Any]]]) -> None:
    for case in cases["vectors"]:
        a, b, expected = case["a"], case["b"], case["expected"]
        near(agreement.cosine(a, b), expected["cosine_similarity"])
        near(agreement.kl_divergence(a, b), expected["kl_ab_nats"])
        near(agreement.kl_divergence(b, a), expected["kl_ba_nats"])
        near(agreement.js_divergence(a, b), expected["js_divergence_nats"])
        near(agreement.js_divergence(a, b, base=2), expected["js_divergence_bits"])
        near(agreement.js_distance(a, b, base=2), expected["js_distance_bits"])


def test_highest_units(cases: dict[str, list[dict[str, Any]]]) -> None:
    for case in cases["vectors"]:
        a, b, expected = case["a"], case["b"], case["expected"]
        for text, values in expected["topk"].items():
            k = int(text)
            near(agreement.topk_overlap(a, b, k=k), values["overlap"])
            near(agreement.topk_jaccard(a, b, k=k), values["jaccard"])
            near(agreement.kappa_topk(a, b, k=k), values["kappa"])
            assert agreement.topk_indices(a, k).tolist() == values["top_a"]
            assert agreement.topk_indices(b, k).tolist() == values["top_b"]


def test_rankings(cases: dict[str, list[dict[str, Any]]]) -> None:
    for case in cases["vectors"]:
        a, b, expected = case["a"], case["b"], case["expected"]
        for p, values in expected["rbo"].items():
            near(
                agreement.rank_biased_overlap(a, b, p=float(p), extrapolate=False),
                values["truncated_sum"],
            )
            near(agreement.rank_biased_overlap(a, b, p=float(p)), values["extrapolated"])
        at_10 = expected["rbo_depth10_p0.9"]
        near(
            agreement.rank_biased_overlap(a, b, depth=10, extrapolate=False),
            at_10["truncated_sum"],
        )
        near(agreement.rank_biased_overlap(a, b, depth=10), at_10["extrapolated"])
        # the reference names its arguments the other way round: a is the gain, b the score
        near(agreement.ndcg(b, a), expected["ndcg_a_as_gain_b_as_score"])
        near(agreement.ndcg(b, a, k=10), expected["ndcg_at_10"])


def test_partial_correlation(cases: dict[str, list[dict[str, Any]]]) -> None:
    tested = 0
    for case in cases["vectors"]:
        if case["covariate"] is None:
            continue
        tested += 1
        a, b, z = case["a"], case["b"], case["covariate"]
        expected = case["expected"]["partial_spearman_given_length"]
        near(agreement.partial(a, b, z), expected)
        near(agreement.partial(a, b, {"length": z, "again": z}), expected)
    assert tested == 9


def test_batched_form_gives_the_same(cases: dict[str, list[dict[str, Any]]]) -> None:
    for case in cases["vectors"]:
        a, b, expected = np.array(case["a"]), np.array(case["b"]), case["expected"]
        A = np.stack([b, a, a[::-1]])
        for name, key in (
            ("spearman", "spearman_rho"),
            ("kendall", "kendall_tau_b"),
            ("pearson", "pearson_r"),
            ("cosine", "cosine_similarity"),
            ("js_divergence", "js_divergence_nats"),
            ("kl_divergence", "kl_ab_nats"),
        ):
            near(agreement.batched(name, A, b)[1], expected[key])
            near(agreement.batched(name, A, np.stack([a, b]))[1, 1], expected[key])


def test_kappa(cases: dict[str, list[dict[str, Any]]]) -> None:
    for case in cases["kappa"]:
        a, b, c, expected = case["a"], case["b"], case["c"], case["expected"]
        near(statistics.cohen_kappa(a, b), expected["cohen"])
        near(statistics.cohen_kappa(a, b, "linear"), expected["cohen_linear"])
        near(statistics.cohen_kappa(a, b, "quadratic"), expected["cohen_quadratic"])
        near(statistics.fleiss_kappa([a, b, c]), expected["fleiss_abc"])


def test_multiple_testing(cases: dict[str, list[dict[str, Any]]]) -> None:
    for case in cases["multiple_testing"]:
        p, expected = case["p"], case["expected"]
        near(statistics.benjamini_hochberg(p), expected["bh_adjusted"])
        near(statistics.adjust(p, "by"), expected["by_adjusted"])
        near(statistics.adjust(p, "holm"), expected["holm_adjusted"])
        near(statistics.adjust(p, "bonferroni"), expected["bonferroni"])
        rejected = (statistics.benjamini_hochberg(p) <= 0.05).tolist()
        assert rejected == expected["bh_reject_05"]


def test_exact_permutation(cases: dict[str, list[dict[str, Any]]]) -> None:
    for case in cases["permutation"]:
        a, b, expected = np.array(case["a"]), np.array(case["b"]), case["expected"]
        groups = statistics.two_sample_test(a, b)
        near(groups.value, expected["independent_mean_difference"])
        near(groups.p, expected["independent_p_two_sided"])
        signs = statistics.sign_flip_test(a - b)
        near(signs.value, expected["paired_signflip_mean"])
        near(signs.p, expected["paired_signflip_p_two_sided"])
        words = statistics.permutation_pvalues(a, b, "spearman", alternative="greater")
        near(words.observed[0], expected["pairing_spearman"])
        near(words.p[0], expected["pairing_p_greater"])
        assert groups.exact and signs.exact and words.exact.all()


def test_noise_ceiling_and_reliability(cases: dict[str, list[dict[str, Any]]]) -> None:
    for case in cases["noise_ceiling"]:
        data, expected = np.array(case["data"]), case["expected"]
        linear = statistics.noise_ceiling(data, "pearson")
        near(linear.per_reader, expected["loo_pearson"])
        near(linear.lower, expected["lower_bound"])
        near(linear.per_reader_upper, expected["with_self_pearson"])
        near(linear.upper, expected["upper_bound"])
        ranked = statistics.noise_ceiling(data, "spearman")
        near(ranked.per_reader, expected["loo_spearman"])
        near(ranked.lower, expected["loo_spearman_mean"])
        halves = statistics.split_half(data, "pearson", "odd_even")
        near(halves.r, expected["odd_even_r"])
        near(halves.reliability, expected["spearman_brown"])
        near(statistics.mean_pairwise(data, "pearson"), expected["mean_pairwise_r"])
        near(statistics.icc(data, "2,1"), expected["icc_2_1"])
        near(statistics.icc(data, "3,k"), expected["icc_3_k"])


def test_interval_of_pearson(cases: dict[str, list[dict[str, Any]]]) -> None:
    for case in cases["pearson_ci"]:
        expected = case["expected"]
        found = statistics.pearson_ci(case["a"], case["b"])
        near(found, (expected["r"], expected["low95"], expected["high95"]))


@pytest.fixture(scope="module")
def attention_cases(golden: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    cases = {c["id"]: c["expected"] for c in golden("C_attention.json")["cases"]}
    return cases, golden.arrays("C_attention.npz")


def rowwise_divergence(p: np.ndarray, q: np.ndarray) -> float:
    return float(np.mean([agreement.js_divergence(x, y, eps=0) for x, y in zip(p, q, strict=True)]))


def test_divergence_of_attention_maps(
    attention_cases: tuple[dict[str, Any], dict[str, np.ndarray]],
) -> None:
    expected, arrays = attention_cases[0]["js_divergence"], attention_cases[1]
    for i, value in enumerate(expected["head_mean_per_sentence"]):
        a, b = arrays[f"sent{i}_attn_a"], arrays[f"sent{i}_attn_b"]
        near(rowwise_divergence(a.mean(axis=0), b.mean(axis=0)), value)
        heads = [rowwise_divergence(x, y) for x, y in zip(a, b, strict=True)]
        near(heads, expected["per_head_per_sentence"][i])


def test_reader_ceiling_of_saccade_counts(
    attention_cases: tuple[dict[str, Any], dict[str, np.ndarray]],
) -> None:
    expected, arrays = attention_cases[0]["reader_noise_ceiling"], attention_cases[1]
    found = statistics.noise_ceiling(arrays["reader_saccades_flat"], "pearson")
    near(found.per_reader, expected["leave_one_out_pearson"])
    near(found.lower, expected["leave_one_out_mean"])
    # the published figures have the reader inside the mean: never our ceiling
    near(found.per_reader_upper**2, expected["river_gao_r2_per_reader"])
