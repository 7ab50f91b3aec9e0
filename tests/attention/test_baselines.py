"""Baselines by hand, and the account of what they do not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gazeattn import registry
from gazeattn.attention.align import level_out
from gazeattn.attention.baselines import baseline_profile, letter_count
from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.profiles import AttentionProfile, Units

UNITS = Units.from_words(["The", "wolf's", "—", "cafe\u0301.", "\U0001f469\u200d\U0001f4bb", "3rd"])


def test_length_counts_letters_and_digits_only() -> None:
    np.testing.assert_array_equal(baseline_profile("length", UNITS).weights, [3, 5, 0, 4, 0, 3])


@pytest.mark.parametrize(
    ("text", "n"),
    [("", 0), ("\u200b", 0), ("end.", 3), ('"Yes,"', 3), ("caf\u00e9", 4), ("e\u0301\u0323", 1)],
)
def test_letters_of_odd_words(text: str, n: int) -> None:
    assert letter_count(text) == n


def test_uniform_is_one_share_per_word() -> None:
    np.testing.assert_allclose(baseline_profile("uniform", UNITS).weights, 1 / 6)


def test_position_counts_from_one_and_later_is_more() -> None:
    np.testing.assert_array_equal(baseline_profile("position", UNITS).weights, np.arange(1, 7))


def test_random_depends_on_seed_and_text_alone() -> None:
    first = baseline_profile("random", UNITS, seed=1).weights
    baseline_profile("random", Units.from_words(["x"]), seed=1)
    renamed = Units(tuple("abcdef"), UNITS.texts, "elsewhere")
    np.testing.assert_array_equal(first, baseline_profile("random", renamed, seed=1).weights)
    assert (first != baseline_profile("random", UNITS, seed=2).weights).all()


def test_rarer_words_weigh_more_and_unknown_ones_are_counted() -> None:
    units = Units.from_words(["the", "The,", "wolf", "Myslajek", "—"])
    p = baseline_profile("frequency", units)
    the, upper, wolf, unknown, dash = p.weights
    assert the == pytest.approx(upper) and the < wolf < unknown == 9.0 and np.isnan(dash)
    assert p.lost == {"unknown_words": 1, "examples": ["Myslajek"], "words_without_value": 1}


def test_a_language_without_frequencies_leaves_all_missing_with_a_reason() -> None:
    p = baseline_profile("frequency", Units.from_words(["a", "b"]), language="xx")
    assert np.isnan(p.weights).all() and "xx" in p.lost["reason"]


def test_surprisal_is_the_models_and_needs_one(lm_maker: Any) -> None:
    lm = lm_maker({}, surprisal=lambda u: np.arange(len(u)))
    p = baseline_profile("surprisal", UNITS, lm=lm)
    assert p.kind == "baseline" and p.name == "surprisal"
    np.testing.assert_array_equal(p.weights, np.arange(6))
    with pytest.raises(CapabilityError, match="language model"):
        baseline_profile("surprisal", UNITS)
    with pytest.raises(CapabilityError, match="lm_head"):
        baseline_profile("surprisal", UNITS, lm=lm_maker({}))


def test_unknown_baseline_is_named_with_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="'length'"):
        baseline_profile("lenght", UNITS)


def test_a_registered_function_becomes_a_baseline() -> None:
    @registry.register_baseline("test_vowels")
    def vowels(units: Units, **_: Any) -> AttentionProfile:
        weights = np.array([sum(c in "aeiou" for c in t) for t in units.texts])
        return AttentionProfile(units, weights, "baseline", "test_vowels")

    try:
        np.testing.assert_array_equal(
            baseline_profile("test_vowels", Units.from_words(["aide", "by"])).weights, [3, 0]
        )
    finally:
        del registry.baselines._entries["test_vowels"]


def test_a_baseline_over_other_words_is_refused() -> None:
    @registry.register_baseline("test_wrong")
    def wrong(units: Units, **_: Any) -> AttentionProfile:
        return AttentionProfile(Units.from_words(["x"]), np.ones(1), "baseline", "test_wrong")

    try:
        with pytest.raises(DataError, match="other units"):
            baseline_profile("test_wrong", UNITS)
    finally:
        del registry.baselines._entries["test_wrong"]


@given(st.lists(st.text(max_size=6), max_size=8))
def test_every_baseline_takes_any_text(words: list[str]) -> None:
    units = Units.from_words(words)
    for name in ("uniform", "random", "length", "frequency", "position"):
        p = baseline_profile(name, units)
        assert p.weights.shape == (len(words),)
        assert not (p.weights < 0).any() and p.how["convention"]


def test_profiles_that_differ_by_rounding_become_constant() -> None:
    noise = 1 / 7 + np.array([0, 1e-9, -1e-9, 0])
    rows = np.stack([noise, [1, 2, 3, 4], [0.1, np.nan, 0.1, 0.1], [0, 0, 0, 1e-30]])
    out = level_out(rows)
    assert len(np.unique(out[0])) == 1
    np.testing.assert_array_equal(out[1:], rows[1:])
