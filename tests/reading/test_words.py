"""Letters and rarity of words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wordfreq import word_frequency

from gazeattn.reading.words import UNKNOWN, letter_count, rarity


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("", 0), ("word", 4), ("word,", 4), ("man's", 4), ("well-known", 9), ("—", 0), ("3.14", 3),
        ("å", 1), ("a\u030a", 1), ("q\u0323\u0307", 1), ("日本語", 3), ("don\u2019t.", 4),
        ("$5", 1), ("\u200b", 0), ("_x_", 1),
    ],
)  # fmt: skip
def test_letters(text: str, n: int) -> None:
    assert letter_count(text) == n


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=12), st.text(max_size=12))
def test_letters_add_up_over_a_blank(a: str, b: str) -> None:
    assert letter_count(f"{a} {b}") == letter_count(f"{a} ") + letter_count(f" {b}")
    assert 0 <= letter_count(a) <= 3 * max(len(a), 1)


def test_rarity() -> None:
    values, unknown = rarity(["the", "The", "harbour", "—", "", "zxqvkjw", "well-known"])
    frequency = word_frequency("harbour", "en")
    np.testing.assert_allclose(values[2], -np.log10(frequency), atol=0.006)  # rounded to 0.01
    assert values[0] == values[1] == pytest.approx(-np.log10(word_frequency("the", "en")), abs=0.01)
    assert np.isnan(values[[3, 4]]).all()
    assert values[5] == UNKNOWN == 9.0 and unknown == ["zxqvkjw"]
    assert values[0] < values[6] < values[5]


def test_rarity_of_danish() -> None:
    values, unknown = rarity(["og", "sol", "ærgerlig"], "da")
    assert values[0] < values[1] < values[2] < 9 and not unknown


@pytest.mark.parametrize("language", ["xx", "no language", "python"])
def test_no_list(language: str) -> None:
    with pytest.raises(LookupError):
        rarity(["word"], language)
