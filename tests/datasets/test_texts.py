"""Words against their text: differences at their place, the rest unshifted."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.datasets.texts import align_words, differences


def kinds(text: str, table: list[str]) -> list[tuple[str | None, str | None, str]]:
    return [(p.text, p.table, p.kind) for p in align_words(text.split(), table)]


def test_another_spelling_is_one_difference() -> None:
    found = kinds("paid $1,750 for it", ["paid", "$__NBWS__1,750.00", "for", "it"])
    assert found == [
        ("paid", "paid", "same"),
        ("$1,750", "$__NBWS__1,750.00", "different"),
        ("for", "for", "same"),
        ("it", "it", "same"),
    ]


@pytest.mark.parametrize("gone", range(5))
def test_a_word_missing_in_the_table_stands_at_its_place(gone: int) -> None:
    text = ["the", "old", "the", "man", "sat"]
    found = align_words(text, text[:gone] + text[gone + 1 :])
    assert sum(p.kind != "same" for p in found) == 1
    missing = next(p for p in found if p.kind == "missing in table")
    assert missing.text == text[gone]
    assert [p.text for p in found] == text


@pytest.mark.parametrize("at", range(4))
def test_a_word_missing_in_the_text_stands_at_its_place(at: int) -> None:
    text = ["a", "b", "c"]
    found = align_words(text, [*text[:at], "x", *text[at:]])
    assert [p.kind for p in found].count("missing in text") == 1
    assert found[at].table == "x" and found[at].text is None


def test_a_missing_word_beside_a_changed_one() -> None:
    found = kinds("one two three four", ["one", "twoo", "four"])
    assert found == [
        ("one", "one", "same"),
        ("two", "twoo", "different"),
        ("three", None, "missing in table"),
        ("four", "four", "same"),
    ]


@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd")))
@settings(max_examples=80, deadline=None)
def test_both_sides_are_kept_in_order(text: list[str], table: list[str]) -> None:
    pairs = align_words(text, table)
    assert [p.text for p in pairs if p.text is not None] == text
    assert [p.table for p in pairs if p.table is not None] == table
    assert [p.text_index for p in pairs if p.text is not None] == list(range(len(text)))
    if text == table:
        assert all(p.kind == "same" for p in pairs)


def test_differences_are_a_table() -> None:
    words = pd.DataFrame({"layout": "A", "stimulus": "A", "text": ["paid", "1750", "it"]})
    found = differences(words, {"A": "paid $1,750 for it", "B": "other"})
    assert found["kind"].tolist() == ["different", "missing in table"]
    assert found["text_index"].tolist() == [1, 2]
    assert len(differences(words, {"A": "paid 1750 it"})) == 0
