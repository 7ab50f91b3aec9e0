"""Properties that hold for every input: symmetry, bounds, identity, invariances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gazeattn.metrics import agreement as ag
from gazeattn.metrics import statistics as sm
from gazeattn.registry import metrics

SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NAMES = (
    "spearman",
    "kendall",
    "pearson",
    "cosine",
    "js_divergence",
    "js_distance",
    "kl_divergence",
    "total_variation",
    "topk_overlap",
    "topk_jaccard",
    "kappa_topk",
    "rank_biased_overlap",
    "ndcg",
)
SYMMETRIC = [n for n in NAMES if n not in ("kl_divergence", "ndcg")]
RANK_BASED = ["spearman", "kendall", "topk_overlap", "kappa_topk", "rank_biased_overlap"]
EPS = ("js_divergence", "js_distance", "kl_divergence")


@st.composite
def pairs(draw: Any, minimum: int = 2, gaps: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Two profiles of weights, with ties, zeros and (if asked) missing units."""
    n = draw(st.integers(minimum, 25))
    grid = draw(st.sampled_from([0.25, 1.0, 1e-3]))
    out = []
    for _ in range(2):
        x = draw(arrays(np.float64, n, elements=st.integers(0, 40))) * grid
        if gaps:
            x[draw(arrays(bool, n, elements=st.booleans()))] = np.nan
        out.append(x)
    return out[0], out[1]


def value(name: str, a: np.ndarray, b: np.ndarray, **params: Any) -> float:
    return float(metrics.get(name).obj(a, b, **params))


@pytest.mark.parametrize("name", SYMMETRIC)
@SETTINGS
@given(pairs(gaps=True))
def test_symmetric(name: str, pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    np.testing.assert_allclose(value(name, a, b), value(name, b, a), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@SETTINGS
@given(pairs(gaps=True))
def test_within_bounds_or_undefined_with_a_reason(
    name: str, pair: tuple[np.ndarray, np.ndarray]
) -> None:
    a, b = pair
    found = value(name, a, b)
    low, high = metrics.get(name).info["bounds"]
    if math.isnan(found):
        assert ag.undefined_reason(name, a, b)
    else:
        assert low - 1e-15 <= found <= high + 1e-15
        assert ag.undefined_reason(name, a, b) == ""


@pytest.mark.parametrize("name", NAMES)
@SETTINGS
@given(pairs())
def test_a_profile_agrees_fully_with_itself(name: str, pair: tuple[np.ndarray, np.ndarray]) -> None:
    a = pair[0]
    found = value(name, a, a)
    assume(not math.isnan(found))
    # the root of a rounding error of a divergence would be visible: these are exact
    if not ag.higher_is_better(name):
        assert found == 0
    else:
        assert found == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("name", RANK_BASED)
@SETTINGS
@given(pairs())
def test_ranks_survive_monotone_transforms(name: str, pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    plain = value(name, a, b)
    for transform in (np.sqrt, np.square, np.arctan, lambda x: 3 * x + 100):
        np.testing.assert_allclose(value(name, transform(a), b), plain, rtol=0, atol=1e-12)
    if name in ("spearman", "kendall"):
        np.testing.assert_allclose(value(name, -a, b), -plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@SETTINGS
@given(pairs(), st.sampled_from([1e-9, 0.37, 1000.0, 1e12]))
def test_the_unit_of_a_profile_does_not_matter(
    name: str, pair: tuple[np.ndarray, np.ndarray], factor: float
) -> None:
    a, b = pair
    params = {"eps": 0.0} if name in EPS else {}
    plain = value(name, a, b, **params)
    for x, y in ((a * factor, b), (a, b * factor)):
        np.testing.assert_allclose(value(name, x, y, **params), plain, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
@SETTINGS
@given(pairs(gaps=True), st.randoms(use_true_random=False))
def test_the_order_of_units_does_not_matter(
    name: str, pair: tuple[np.ndarray, np.ndarray], random: Any
) -> None:
    a, b = pair
    order = list(range(len(a)))
    random.shuffle(order)
    params: dict[str, Any] = {}
    if name in ("topk_overlap", "kappa_topk"):
        params = {"ties": "random_expectation"}  # ties by index depend on the order
    elif name in ("topk_jaccard", "rank_biased_overlap"):
        a, b = a + np.arange(len(a)) * 1e-6, b + np.arange(len(b)) * 1e-6
    np.testing.assert_allclose(
        value(name, a[order], b[order], **params), value(name, a, b, **params), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("name", NAMES)
@SETTINGS
@given(pairs(gaps=True))
def test_single_precision_is_close(name: str, pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    low = value(name, a.astype(np.float32), b.astype(np.float32))
    np.testing.assert_allclose(low, value(name, a, b), rtol=1e-4, atol=2e-3)


@SETTINGS
@given(st.data())
def test_batched_equals_single_with_any_gaps(data: Any) -> None:
    n = data.draw(st.integers(0, 8))
    elements = st.one_of(st.integers(0, 3).map(float), st.just(float("nan")))
    A = data.draw(arrays(np.float64, (3, n), elements=elements))
    B = data.draw(arrays(np.float64, (2, n), elements=elements))
    for name in NAMES:
        found = ag.batched(name, A, B)
        for i in range(3):
            for j in range(2):
                np.testing.assert_allclose(
                    found[i, j], value(name, A[i], B[j]), rtol=0, atol=1e-12, err_msg=name
                )


@SETTINGS
@given(pairs(minimum=3), pairs(minimum=3))
def test_triangle_inequality_of_the_distance(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]
) -> None:
    n = min(len(first[0]), len(second[0]))
    a, b, c = first[0][:n], first[1][:n], second[0][:n]
    ab, bc, ac = ag.js_distance(a, b), ag.js_distance(b, c), ag.js_distance(a, c)
    assume(not any(map(math.isnan, (ab, bc, ac))))
    assert ac <= ab + bc + 1e-12


@SETTINGS
@given(arrays(np.float64, st.integers(0, 30), elements=st.floats(0, 1)))
def test_adjusted_p_values(p: np.ndarray) -> None:
    for method in ("bh", "by", "holm", "bonferroni"):
        q = sm.adjust(p, method)
        assert ((q >= p - 1e-15) & (q <= 1)).all()
        order = np.argsort(p, kind="stable")
        assert (np.diff(q[order]) >= -1e-15).all()
        # missing tests change nothing, wherever they stand
        with_gaps = np.insert(p, len(p) // 2, np.nan)
        np.testing.assert_array_equal(np.delete(sm.adjust(with_gaps, method), len(p) // 2), q)


@SETTINGS
@given(pairs(minimum=4, gaps=True))
def test_permutation_p_is_a_probability_and_two_sided_doubles(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    a, b = pair
    p = {
        side: sm.permutation_pvalues(a, b, "spearman", 99, rng=0, alternative=side).p[0]
        for side in ("greater", "less", "two-sided")
    }
    if math.isnan(ag.spearman(a, b)):
        assert all(map(math.isnan, p.values()))
    else:
        assert all(0 < v <= 1 for v in p.values())
        assert p["two-sided"] == pytest.approx(min(1, 2 * min(p["greater"], p["less"])))
        assert p["greater"] + p["less"] >= 1


@SETTINGS
@given(
    arrays(
        np.float64,
        st.tuples(st.integers(0, 5), st.integers(0, 8)),
        elements=st.one_of(st.integers(0, 5).map(float), st.just(float("nan"))),
    )
)
def test_ceilings_never_invent_a_bound(matrix: np.ndarray) -> None:
    found = sm.noise_ceiling(matrix, "pearson")
    if found.n_readers < 2:
        assert math.isnan(found.lower)
    if found.n_readers < 3:
        assert math.isnan(found.upper)
    if math.isnan(found.lower) or math.isnan(found.upper):
        assert found.reason
    defined = ~np.isnan(found.per_reader)
    assert found.n_undefined == (~defined).sum()
    if defined.any():
        assert found.lower == pytest.approx(found.per_reader[defined].mean())
