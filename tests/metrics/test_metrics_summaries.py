"""Scores of written summaries: by hand, at their ends, and paired."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import CapabilityError, DataError
from gazeattn.metrics.summaries import (
    bleu4_codexglue,
    bleu4_sacre,
    meteor,
    paired_bootstrap,
    summary_scores,
)


def test_smoothed_bleu_by_hand() -> None:
    # six against five tokens: 1-grams 5 of 6; 2-grams 3 of 5, 3-grams 2 of 4, 4-grams 1 of 3, + 1
    found = bleu4_codexglue(["Returns the mean of a list"], ["returns the mean of list"])
    counts = [(5, 6), (3 + 1, 5 + 1), (2 + 1, 4 + 1), (1 + 1, 3 + 1)]
    expected = math.exp(sum(math.log(a / b) for a, b in counts) / 4)
    assert found == pytest.approx([expected])
    # shorter than the reference: the penalty takes lengths plus one
    short = bleu4_codexglue(["the mean"], ["the mean of list"])
    assert short == pytest.approx([math.exp(0 + 1 - 5 / 3)])
    # every sign is a token of its own: hyphens, apostrophes, underscores, points in numbers
    assert bleu4_codexglue(["a b c d."], ["a b c d ."]) == pytest.approx([1])
    joined = "Don't use a multi-line to_list of 1.5 s"
    apart = "don ' t use a multi - line to _ list of 1 . 5 s"
    assert bleu4_codexglue([joined], [apart]) == pytest.approx([1])


def test_ends() -> None:
    same = ["Sort the keys of a dictionary by their values"]
    assert bleu4_codexglue(same, same) == pytest.approx([1])
    assert bleu4_sacre(same, same) == pytest.approx(1)
    assert bleu4_codexglue(["x"], same)[0] == 0
    # nothing written: all precisions are 1, the penalty is exp(1 - 10 / 1)
    assert bleu4_codexglue([""], same) == pytest.approx([math.exp(-9)])
    assert bleu4_codexglue([], []).shape == (0,) and math.isnan(bleu4_sacre([], []))
    with pytest.raises(DataError):
        bleu4_codexglue(same, [])
    assert set(summary_scores(same, same)) == {"bleu4_codexglue", "rouge_l"}


WORDS = st.lists(st.sampled_from("a b c d e f".split()), max_size=8).map(" ".join)


@settings(deadline=None)
@given(WORDS, WORDS)
def test_smoothed_bleu_is_a_share_and_blind_to_case(a: str, b: str) -> None:
    value = bleu4_codexglue([a], [b])[0]
    assert 0 <= value <= 1 and bleu4_codexglue([a.upper()], [b])[0] == value
    assert bleu4_codexglue([a], [a])[0] == pytest.approx(1)


def test_meteor_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("nltk"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CapabilityError, match="wordnet"):
        meteor(["a"], ["a"])


def test_meteor_where_it_is_installed() -> None:
    try:
        found = meteor(["the cat sat on the mat"], ["the cat sat on the mat"])
    except CapabilityError as error:
        pytest.skip(str(error))
    # one chunk of six matches: 1 - 0.5 / 6^3
    assert found == pytest.approx([1 - 0.5 / 216])


def test_paired_draws() -> None:
    made = np.random.default_rng(1)
    base = made.uniform(size=400)
    better = paired_bootstrap(base + 0.05 + 0.01 * made.normal(size=400), base)
    assert better["difference"] == pytest.approx(0.05, abs=0.002)
    assert 0.045 < better["low"] < better["difference"] < better["high"] < 0.055
    assert better["p"] <= 0.001
    none = paired_bootstrap(base + made.normal(size=400), base)
    assert none["low"] < 0 < none["high"] and none["p"] > 0.01
    seeds = paired_bootstrap([base + 0.1, base - 0.1], [base, base])
    assert seeds["difference"] == pytest.approx(0) and seeds["high"] == pytest.approx(0)
    with pytest.raises(DataError):
        paired_bootstrap([1.0], [1.0, 2.0])
