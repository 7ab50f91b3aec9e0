"""Texts longer than the context."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError
from gazeattn.lm.tokens import CONTEXT, GAP, SPECIAL, START, WORD, Encoded, encode_words
from gazeattn.lm.windows import merge_words, plan_windows


def text(lengths: list[int], context: int = 0, end: int = 0, gap: bool = False) -> Encoded:
    """An encoded text with one start token and words of the given numbers of tokens."""
    word, role = [-1], [START]
    word += [-1] * context
    role += [CONTEXT] * context
    for i, n in enumerate(lengths):
        if gap and i:
            word.append(-1)
            role.append(GAP)
        word += [i] * n
        role += [WORD] * n
    word += [-1] * end
    role += [SPECIAL] * end
    n = len(word)
    return Encoded(
        np.arange(n),
        np.array(word),
        np.array(role, dtype=np.int8),
        tuple(f"t{i}" for i in range(n)),
        len(lengths),
        tuple(i for i, k in enumerate(lengths) if k == 0),
        {},
    )


def test_windows_by_hand() -> None:
    """20 one-token words, 12 tokens: 11 words in a window, half of them repeated."""
    plan = plan_windows(text([1] * 20), 12, overlap=0.5)
    seen = [w.word_of[1:].tolist() for w in plan.windows]
    # the second window begins where 5.5 tokens remain, at word 6, and would end at 16; the last
    # one reaches back from word 19 to word 9
    assert seen == [list(range(0, 11)), list(range(6, 17)), list(range(9, 20))]
    assert plan.owner.tolist() == [0] * 11 + [1] * 6 + [2] * 3
    assert plan.lost == {}
    assert all(w.role[0] == START and len(w) == 12 for w in plan.windows)
    assert "one window" in plan.how["window_rule"]


def test_longer_than_the_context_is_a_choice_of_the_caller() -> None:
    encoded = text([1] * 20)
    with pytest.raises(DataError, match=r"at most 12 tokens.*21 tokens for 20 words.*long_text"):
        plan_windows(encoded, 12, long_text="error")
    cut = plan_windows(encoded, 12, long_text="cut")
    assert len(cut.windows) == 1
    assert cut.owner.tolist() == [0] * 11 + [-1] * 9
    assert cut.lost == {"words_cut": list(range(11, 20))}
    window = plan_windows(encoded, 12)
    assert (window.owner >= 0).all()
    with pytest.raises(DataError, match="window or error or cut"):
        plan_windows(encoded, 12, long_text="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize("long_text", ["window", "error", "cut"])
@pytest.mark.parametrize("limit", [None, 21, 100])
def test_short_texts_stay_whole(long_text: Any, limit: int | None) -> None:
    encoded = text([1] * 20)
    plan = plan_windows(encoded, limit, long_text=long_text)
    assert plan.windows == (encoded,)
    assert (plan.owner == 0).all()


def test_word_numbers_never_restart() -> None:
    plan = plan_windows(text([2] * 20), 12)
    for k, window in enumerate(plan.windows):
        assert window.n_words == 20
        words = window.word_of[window.word_of >= 0]
        assert (words.min() > 0) == (k > 0)
        # tokens stay those of the words
        assert (window.input_ids[1:] == 1 + 2 * words + np.arange(len(words)) % 2).all()


def test_specials_and_context_are_repeated() -> None:
    plan = plan_windows(text([1] * 20, context=3, end=1), 12)
    for window in plan.windows:
        assert window.role.tolist()[:4] == [START, CONTEXT, CONTEXT, CONTEXT]
        assert window.role.tolist()[-1] == SPECIAL
        assert len(window) == 12
    with pytest.raises(DataError, match="no room"):
        plan_windows(text([1] * 20, context=11), 12)


def test_a_word_longer_than_a_window_has_no_score_and_is_named() -> None:
    plan = plan_windows(text([1, 3, 15, 2, 4, 5]), 12)
    assert plan.lost == {"words_too_long": [2]}
    assert plan.owner[2] == -1
    assert (np.delete(plan.owner, 2) >= 0).all()
    only = plan_windows(text([30]), 12)
    assert only.owner.tolist() == [-1]


def test_words_without_token_are_not_called_cut() -> None:
    plan = plan_windows(text([1] * 5 + [0] + [1] * 14), 12, long_text="cut")
    assert plan.owner[5] == -1
    assert plan.lost == {"words_cut": list(range(12, 20))}


@pytest.mark.parametrize("overlap", [-0.1, 1.0, 2, float("nan")])
def test_impossible_overlap_raises(overlap: float) -> None:
    with pytest.raises(DataError, match="overlap"):
        plan_windows(text([1] * 20), 12, overlap=overlap)


@settings(max_examples=300, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=40),
    limit=st.integers(8, 30),
    overlap=st.floats(0, 0.99),
    context=st.integers(0, 1),
    gap=st.booleans(),
)
def test_every_word_is_scored_once_with_most_left_context(
    lengths: list[int], limit: int, overlap: float, context: int, gap: bool
) -> None:
    encoded = text(lengths, context=context, end=1, gap=gap)
    plan = plan_windows(encoded, limit, overlap=overlap)
    assert all(len(w) <= limit for w in plan.windows)
    for word, n in enumerate(lengths):
        inside = [k for k, w in enumerate(plan.windows) if (w.word_of == word).any()]
        if n == 0:
            assert plan.owner[word] == -1
            continue
        assert inside
        for k in inside:  # never a part of a word
            assert (plan.windows[k].word_of == word).sum() == n
        before = [int(np.argmax(plan.windows[k].word_of == word)) for k in inside]
        assert before[inside.index(plan.owner[word])] == max(before)
    for w in plan.windows:
        assert w.role.tolist()[: 1 + context] == [START, CONTEXT][: 1 + context]
        assert w.role.tolist()[-1] == SPECIAL


def test_merge_takes_each_word_from_its_window() -> None:
    parts = [np.array([1.0, 2.0, np.nan, np.nan]), np.array([np.nan, 5.0, 6.0, np.nan])]
    merged = merge_words(parts, np.array([0, 0, 1, -1]))
    np.testing.assert_array_equal(merged, [1.0, 2.0, 6.0, np.nan])
    heads = [np.full((2, 3, 4), k, dtype=np.float32) for k in (1, 2)]
    merged = merge_words(heads, np.array([0, 0, 1, -1]))
    assert merged.dtype == np.float32
    np.testing.assert_array_equal(merged[1, 2], [1, 1, 2, np.nan])


def test_real_encoding_is_cut_at_words(byte_tokenizer: Any, bert_tokenizer: Any) -> None:
    words = 'The reader, said: "Yes, 123 caf\u00e9!"'.split() * 5
    for tokenizer in (byte_tokenizer, bert_tokenizer):
        encoded = encode_words(tokenizer, words, context="Why?")
        plan = plan_windows(encoded, 24)
        assert len(plan.windows) > 2
        assert (plan.owner >= 0).all()
        for window in plan.windows:
            for word in np.unique(window.word_of[window.word_of >= 0]):
                assert (window.word_of == word).sum() == (encoded.word_of == word).sum()
