"""Null draws: equal to the metrics on permuted words, and shared by all rows of a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau, kstest, rankdata

from gazeattn.attention.nulls import Orders, null_draws, partial_draws
from gazeattn.metrics.agreement import batched, metric_names, partial

RNG = np.random.default_rng(5)
ROWS = np.vstack(
    [RNG.random((3, 17)), RNG.integers(0, 3, (2, 17)).astype(float), np.arange(17.0)[None]]
)
HUMANS = {
    "no ties": RNG.random(17),
    "ties": RNG.integers(0, 4, 17).astype(float),
    "many zeros": np.where(RNG.random(17) < 0.7, 0.0, RNG.random(17)),
}
CASES: list[tuple[str, dict[str, Any]]] = [
    *((m, {}) for m in ("spearman", "kendall", "pearson", "cosine", "js_divergence")),
    ("kendall", {"variant": "c"}),
    ("topk_overlap", {"share": 0.3}),
    ("topk_overlap", {"k": 4}),
    ("topk_overlap", {"k": 40}),
    ("topk_overlap", {"k": 4, "ties": "random_expectation"}),
    ("kappa_topk", {"share": 0.3}),
    ("kappa_topk", {"k": 17}),
    ("ndcg", {}),
    ("rank_biased_overlap", {}),
]


@pytest.mark.parametrize("human", list(HUMANS))
@pytest.mark.parametrize(("metric", "params"), CASES)
def test_draws_are_the_metric_on_permuted_words(
    metric: str, params: dict[str, Any], human: str
) -> None:
    assert metric in metric_names()
    b = HUMANS[human]
    orders = Orders(0, "key", 17, 50).of(np.ones(17, dtype=bool))
    draws = null_draws(metric, ROWS, b, orders, params)
    np.testing.assert_allclose(
        draws, batched(metric, ROWS, b[orders], **params), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("levels", [2, 7, 10**6])
@pytest.mark.parametrize("n", [40, 599, 601, 1300])
def test_kendall_draws_of_long_texts_are_exact(n: int, levels: int) -> None:
    rng = np.random.default_rng(n)
    rows = np.vstack([rng.random((2, n)), rng.integers(0, 9, n)])
    human = rng.integers(0, levels, n).astype(float)
    orders = Orders(0, "key", n, 3).of(np.ones(n, dtype=bool))
    draws = null_draws("kendall", rows, human, orders, {})
    expected = [[kendalltau(row, human[o]).statistic for o in orders] for row in rows]
    np.testing.assert_allclose(draws, expected, rtol=0, atol=1e-12)


def test_partial_draws_follow_freedman_and_lane() -> None:
    b, z = HUMANS["no ties"], np.stack([RNG.random(17), np.arange(17.0), np.ones(17)])
    same = np.arange(17)[None, :]
    ranks = rankdata(ROWS[:3], axis=1)
    draws = partial_draws(ranks, b, z, same)
    for row, value in zip(ROWS[:3], draws[:, 0], strict=True):
        assert value == pytest.approx(partial(row, b, z), abs=1e-12)
    # by hand: residuals of the human ranks, permuted, then the controls taken out again
    design = np.column_stack([np.ones(17), rankdata(z[0]), rankdata(z[1])])

    def residual(y: np.ndarray) -> np.ndarray:
        return y - design @ np.linalg.lstsq(design, y, rcond=None)[0]

    orders = Orders(0, "key", 17, 20).of(np.ones(17, dtype=bool))
    draws = partial_draws(ranks, b, z, orders)
    left = residual(rankdata(b))
    for i, order in enumerate(orders):
        expected = np.corrcoef(residual(ranks[0]), residual(left[order]))[0, 1]
        assert draws[0, i] == pytest.approx(expected, abs=1e-12)


def test_few_words_are_tested_on_all_arrangements() -> None:
    orders = Orders(0, "key", 8, 100)
    keep = np.array([True, True, False, True, False, False, True, False])
    found = orders.of(keep)
    assert orders.exact(4) and found.shape == (24, 4)
    assert len({tuple(r) for r in found}) == 24
    assert not orders.exact(5)
    spread = orders.spread(np.arange(24.0)[None, :])
    assert spread.shape == (1, 100) and set(spread[0]) <= set(range(24))


@pytest.mark.parametrize("n", [0, 1, 7, 30])
def test_orders_are_permutations_whatever_is_left_out(n: int) -> None:
    orders = Orders(3, "key", 30, 40)
    keep = np.zeros(30, dtype=bool)
    keep[RNG.permutation(30)[:n]] = True
    found = orders.of(keep)
    np.testing.assert_array_equal(
        np.sort(found, axis=1), np.broadcast_to(np.arange(n), found.shape)
    )
    if not orders.exact(n):  # the whole text's orders without the words that are left out
        full = orders.of(np.ones(30, dtype=bool))
        words = np.flatnonzero(keep)
        for short, long in zip(found, full, strict=True):
            assert words[short].tolist() == [w for w in long.tolist() if keep[w]]


def test_orders_depend_on_seed_and_text_alone() -> None:
    keep = np.ones(12, dtype=bool)
    first = Orders(1, "a", 12, 9).of(keep)
    Orders(1, "c", 12, 9).of(keep)
    np.testing.assert_array_equal(first, Orders(1, "a", 12, 9).of(keep))
    assert (first != Orders(2, "a", 12, 9).of(keep)).any()
    assert (first != Orders(1, "b", 12, 9).of(keep)).any()


def test_p_values_are_uniform_for_unrelated_profiles(dataset_maker: Any, lm_maker: Any) -> None:
    from gazeattn.attention import compare

    words = [f"w{i}" for i in range(25)]
    rng = np.random.default_rng(11)
    d = dataset_maker(
        [
            {"participant": "a", "stimulus": "s", "words": words, "values": rng.random(25)},
            {"participant": "b", "stimulus": "s", "words": words, "values": rng.random(25)},
        ]
    )
    heads = rng.random((20, 40, 25)).astype(np.float32)
    lm = lm_maker({"raw": lambda u: (heads.mean(axis=(0, 1)), heads)})
    c = compare(
        d,
        lm,
        methods=["raw"],
        measures=["total_reading_time"],
        baselines=[],
        metrics=["spearman"],
        controls=[],
        n_permutations=999,
        n_bootstrap=0,
    )
    rows = c.alignment[c.alignment["head"].notna()]
    assert len(rows) == 800
    assert kstest(rows["p"], "uniform").pvalue > 1e-4
    assert 0.02 < (rows["p"] < 0.05).mean() < 0.09
    assert (rows["q"] >= rows["p"]).all()
