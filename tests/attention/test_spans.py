"""Marked words against chosen tokens: two prompts by hand, alpha by hand, published figures."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.attention.spans import (
    SpanCounts,
    chance_scores,
    locate,
    nominal_alpha,
    span_counts,
    span_scores,
    top_tokens,
    touches,
)
from gazeattn.errors import DataError

# "sum of odd numbers": tokens sum of odd numbers at 0-3 4-6 7-10 11-18
TOKENS = [[0, 3], [4, 6], [7, 10], [11, 18]]


def test_counts_by_hand() -> None:
    # people marked "sum" and "d num" (9-14), the latter twice; chosen: "of", "numbers"
    found = span_counts([[0, 3], [9, 14], [9, 14]], TOKENS, [1, 3])
    # "numbers" shares num: 3 of its 7 characters, 3 of the 5 of the human range
    assert found == SpanCounts(3 / 7, 3 / 5, 2, 3, both=1, human=2, model=1, neither=0, tasks=1)
    scores = span_scores(found)
    assert scores["precision"] == pytest.approx(3 / 14)
    assert scores["recall"] == pytest.approx(3 / 15)
    assert scores["f1"] == pytest.approx(2 * (3 / 14) * (1 / 5) / (3 / 14 + 1 / 5))
    # alpha: 4 units, disagreement in 3; values: 3 + 2 yes of 8
    assert scores["alpha"] == pytest.approx(1 - (3 / 4) / (2 * 5 * 3 / (8 * 7)))
    both = found + span_counts([[0, 3]], TOKENS, [0])
    assert span_scores(both)["precision"] == pytest.approx((3 / 7 + 1) / 3)
    assert span_scores(both)["recall"] == pytest.approx((3 / 5 + 1) / 4)
    assert both.tasks == 2 and span_scores(both)["n_tokens"] == 8


def test_alpha_by_hand() -> None:
    assert nominal_alpha(3, 0, 0, 5) == 1
    # Krippendorff's example of two raters: 10 units, four ones each, six agreed
    assert nominal_alpha(1, 3, 1, 5) == pytest.approx(1 - 0.4 / (2 * 6 * 14 / (20 * 19)))
    assert np.isnan(nominal_alpha(0, 0, 0, 4)) and np.isnan(nominal_alpha(4, 0, 0, 0))


def test_empty_ranges() -> None:
    one, other = np.array([[3, 6]]), np.array([[4, 4], [3, 3], [6, 6], [6, 9]])
    assert touches(one, other).tolist() == [[True, False, False, False]]
    found = span_counts([[4, 4]], [[3, 6]], [0])
    assert found.recall == 0 and found.both == 1 and found.n_human == 1
    none = span_scores(span_counts([], TOKENS, [0]))
    assert np.isnan(none["recall"]) and np.isnan(none["f1"])
    with pytest.raises(DataError, match="before it begins"):
        span_counts([[5, 2]], TOKENS, [0])


def test_top_tokens() -> None:
    score = [0.0, 2.0, 0.0, 2.0, np.nan]
    assert top_tokens(score, 3).tolist() == [0, 1, 3]  # of equals the first
    assert top_tokens(score, 9).tolist() == [0, 1, 2, 3, 4]
    assert top_tokens(score, 0.2).tolist() == [1] and top_tokens(score, 0.3).tolist() == [1, 3]
    assert top_tokens(score, 1, [True, False, True, False, True]).tolist() == [0]
    with pytest.raises(DataError, match="above 0"):
        top_tokens(score, 0)


def test_tokens_are_found_from_left_to_right() -> None:
    assert locate(["a", "b", "zz", "a"], "b a b a").tolist() == [[2, 3], [4, 5], [-1, -1], [6, 7]]
    assert locate(["", "b"], "b").tolist() == [[-1, -1], [0, 1]]


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=2, max_size=12), st.integers(1, 8))
def test_all_tokens_recall_everything(cuts: list[int], k: int) -> None:
    edges = sorted(set(cuts))
    tokens = [[a, b] for a, b in pairwise(edges)]
    if not tokens:
        return
    scores = span_scores(span_counts(tokens, tokens, top_tokens(np.arange(len(tokens)), 99)))
    assert scores["precision"] == pytest.approx(1) and scores["recall"] == pytest.approx(1)
    part = span_scores(span_counts(tokens, tokens, top_tokens(np.arange(len(tokens)), k)))
    assert part["precision"] == pytest.approx(1)
    assert part["recall"] == pytest.approx(min(k, len(tokens)) / len(tokens))


def test_chance_is_the_share_of_marked_tokens() -> None:
    tokens = [[k, k + 1] for k in range(100)]
    marked = [[k, k + 1] for k in range(30)]
    found = chance_scores([marked] * 20, [tokens] * 20, 10, draws=20)
    assert found["precision"] == pytest.approx(0.3, abs=0.02)
    assert abs(found["alpha"]) < 0.02 + abs(1 - 0.34 / (2 * 0.2 * 0.8))


@pytest.mark.slow
def test_published_figures_to_the_last_digit(shared_data: Path) -> None:
    from gazeattn.datasets import load
    from gazeattn.experiments.studies import kou2024

    root = shared_data / "llm_code_attention"
    data = load("llm_code_attention", root=root)
    counts = kou2024.stored_counts(data, [5, 10, 20])
    models = {str(m): set(r["benchmark"]) for m, r in counts.groupby("model")}
    reference = kou2024.reference_rows(kou2024._reference(str(root)))
    found = kou2024.beside(kou2024.stored_rows(counts, models), reference)
    assert found["difference"].abs().max() < 5e-7
    given = reference[reference["block"] != "averages_all"]
    assert len(found) == 4 * len(given)  # every figure of the blocks that can be made again
