"""Rules of a comparison that newcomers trip over: repeated readings, small ceilings, top k."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gazeattn.attention import compare
from gazeattn.attention.align import ModelRows
from gazeattn.attention.conventions import conventions
from gazeattn.attention.scores import Scorer, make_metric
from gazeattn.errors import DataError

NAN = float("nan")
WORDS = [f"word{'x' * (i % 5)}{i}" for i in range(8)]
QUICK: dict[str, Any] = {
    "methods": ["raw"],
    "measures": ["total_reading_time"],
    "baselines": ["length", "random"],
    "controls": [],
    "n_permutations": 0,
    "n_bootstrap": 0,
}


def some(units: Any) -> np.ndarray:
    return np.random.default_rng(len(units)).random(len(units))


def readings(*values: tuple[str, str, Any], words: list[str] = WORDS) -> list[dict[str, Any]]:
    return [
        {"participant": p, "trial": t, "stimulus": "s", "words": words, "values": v}
        for p, t, v in values
    ]


def test_a_reader_with_two_trials_counts_once_in_the_ceiling_by_hand() -> None:
    trials = np.array([[3.0, 1, 2], [1, 2, 9], [0, 1, 0], [5, 6, 4]])
    people = ["P1", "P1", "P2", "P3"]
    rows = ModelRows((), (), np.empty(0), np.empty(0), np.empty((0, 3)))
    metric = make_metric("pearson", 0.2, ())
    c = Scorer(rows, None, {}).ceiling(metric, trials, people)
    # P1 is (2, 1.5, 5.5): P2 is held against the mean of that and P3, (3.5, 3.75, 4.75)
    p1, p2, p3 = np.array([2, 1.5, 5.5]), trials[2], trials[3]

    def r(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.corrcoef(x, y)[0, 1])

    assert r(p2, np.array([3.5, 3.75, 4.75])) == pytest.approx(-0.3273268)
    own = [r(trials[0], (p2 + p3) / 2), r(trials[1], (p2 + p3) / 2)]
    expected = [*own, r(p2, (p1 + p3) / 2), r(p3, (p1 + p2) / 2)]
    np.testing.assert_allclose(c.per_trial, expected)
    assert c.lower == pytest.approx(np.mean([np.mean(own), expected[2], expected[3]]))
    everyone = (p1 + p2 + p3) / 3
    high = [r(t, everyone) for t in trials]
    np.testing.assert_allclose(c.per_trial_upper, high)
    assert c.upper == pytest.approx(np.mean([np.mean(high[:2]), high[2], high[3]]))


def test_a_trial_without_values_is_not_counted_beside_the_other_of_its_reader() -> None:
    trials = np.array([[3.0, 1, 2], [NAN] * 3, [0, 1, 0]])
    rows = ModelRows((), (), np.empty(0), np.empty(0), np.empty((0, 3)))
    c = Scorer(rows, None, {}).ceiling(make_metric("pearson", 0.2, ()), trials, ["a", "a", "b"])
    r = np.corrcoef(trials[0], trials[2])[0, 1]
    np.testing.assert_allclose(c.per_trial, [r, NAN, r])
    assert c.lower == pytest.approx(r)


@pytest.mark.parametrize(("ceiling", "given"), [(0.03, False), (-0.4, False), (0.3, True)])
def test_shares_of_small_ceilings_are_missing(
    ceiling: float, given: bool, dataset_maker: Any, lm_maker: Any
) -> None:
    n = 200
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, n))
    x = (x - x.mean()) / x.std()
    y -= y.mean()
    y -= (y @ x) / n * x
    y /= y.std()
    other = ceiling * x + np.sqrt(1 - ceiling**2) * y  # correlates with x at exactly that
    words = [f"w{i}" for i in range(n)]
    d = dataset_maker(readings(("a", "1", x + 9), ("b", "2", other + 9), words=words))
    c = compare(d, lm_maker({"raw": lambda u: x}), metrics=["pearson"], **QUICK)
    s = c.summary[(c.summary["method"] == "raw") & (c.summary["level"] == "reader")].iloc[0]
    assert s["ceiling"] == pytest.approx(ceiling)
    assert np.isfinite(s["relative"]) == given
    assert "0.05" in c.info["conventions"]["relative"]


@pytest.mark.parametrize("topk", [1.5, 0, -3, NAN, 2.0001, float("inf")])
def test_topk_is_a_share_or_a_whole_number(topk: float, dataset_maker: Any, lm_maker: Any) -> None:
    d = dataset_maker(readings(("a", "1", [5.0, *range(7)])))
    with pytest.raises(DataError, match="topk"):
        compare(d, lm_maker({"raw": some}), topk=topk, **QUICK)


def test_a_k_above_all_texts_is_one_line_of_losses(dataset_maker: Any, lm_maker: Any) -> None:
    rng = np.random.default_rng(3)
    many = [
        {"participant": p, "stimulus": f"s{n}", "words": [f"{n}w{i}" for i in range(n)]}
        | {"values": rng.random(n)}
        for n in range(5, 12)
        for p in "ab"
    ]
    d = dataset_maker(many)
    c = compare(
        d,
        lm_maker({"raw": some}),
        topk=50,
        metrics=["topk_overlap"],
        **QUICK | {"baselines": ["random"]},
    )
    lost = c.lost.to_frame()
    lost = lost[lost["step"] == "agreement"]
    assert lost["reason"].tolist() == ["k = 50 is more than the words scored on both sides"]
    # 7 texts and 14 trials, a method and a baseline
    assert lost["count"].tolist() == [21 * 2]
    assert c.alignment["reason"].str.contains("units scored on both sides").all()


def test_missing_words_are_counted_of_all_reader_x_word_values(
    dataset_maker: Any, lm_maker: Any
) -> None:
    one, two = [1.0, NAN, 3, 4, NAN, 6, 7, 8], [1.0, 2, 3, 4, NAN, 6, 7, 8]
    blank = [NAN] * 8  # no shares at all: counted as a trial, not word by word
    d = dataset_maker(readings(("a", "1", one), ("b", "2", two), ("c", "3", blank)))
    lost = compare(d, lm_maker({"raw": some}), metrics=["spearman"], **QUICK).lost.to_frame()
    row = lost[lost["reason"].str.contains("left missing")].iloc[0]
    assert row["reason"] == "total_reading_time: words without a value, left missing"
    assert (row["count"], row["unit"]) == (3, "reader x word values (of 16)")


def test_conventions_hold_rules_and_no_facts_of_one_text(dataset_maker: Any, lm_maker: Any) -> None:
    how = {
        "model": "m",
        "sink": "start_token",
        "alpha": 0.5,
        "gap_tokens": 3,
        "target_value": 38.9,
        "windows": 1,
        "unknown_tokens": 0,
        "text_tokens": 512,
        "layers": [0, 1],
    }
    d = dataset_maker(readings(("a", "1", [5.0, *range(7)])))
    c = compare(d, lm_maker({"raw": some}), metrics=["spearman"], **QUICK)
    text = conventions(c.info["settings"], {"raw": how}, {"total_reading_time": "time"})["raw"]
    assert text == "sink: start_token; alpha: 0.5"


def test_p_and_interval_and_the_random_draw_are_explained(
    dataset_maker: Any, lm_maker: Any
) -> None:
    d = dataset_maker(readings(("a", "1", [5.0, *range(7)])))
    c = compare(d, lm_maker({"raw": some}), metrics=["spearman"], **QUICK)
    text = c.info["conventions"]["p and interval"]
    assert "within these texts" in text and "other texts" in text
    assert any("one random draw per text" in n for n in c.info["notes"])
