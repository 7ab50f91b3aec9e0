"""Words to tokens, by hand and over arbitrary Unicode."""

from __future__ import annotations

import os
import unicodedata
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from gazeattn.errors import CapabilityError, DataError
from gazeattn.lm.tokens import (
    CONTEXT,
    GAP,
    SPECIAL,
    START,
    WORD,
    added_specials,
    encode_words,
    is_visible,
)

ODD_WORDS = ["cafe\u0301", "\U0001f469\u200d\U0001f4bb", "a\u200bb", "\u200b", "\u2b62"]


def word_tokens(encoded: Any, word: int) -> list[str]:
    return [t for t, w in zip(encoded.tokens, encoded.word_of, strict=True) if w == word]


def check(encoded: Any, n_words: int) -> None:
    """What must hold for every text and tokenizer."""
    assert encoded.n_words == n_words
    n = len(encoded)
    assert len(encoded.word_of) == len(encoded.role) == len(encoded.tokens) == n
    words = encoded.word_of[encoded.word_of >= 0]
    assert (np.diff(words) >= 0).all()
    assert ((encoded.role == WORD) == (encoded.word_of >= 0)).all()
    assert set(encoded.unscored) == set(range(n_words)) - set(words.tolist())
    assert (encoded.role == START).sum() <= 1


class Wrapped:
    """A tokenizer whose answers are changed on the way, for damaged and missing offsets."""

    def __init__(self, inner: Any, offsets: Any = None, fast: bool = True, ids: Any = None) -> None:
        self.inner, self.offsets, self.is_fast, self.ids = inner, offsets, fast, ids

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __call__(self, text: str, **options: Any) -> Any:
        if options.get("return_offsets_mapping") and not self.is_fast:
            raise NotImplementedError("no offsets")
        out = dict(self.inner(text, **options))
        if "offset_mapping" in out and self.offsets is not None:
            out["offset_mapping"] = self.offsets(out["offset_mapping"])
        if self.ids is not None:
            out["input_ids"] = self.ids(text, out["input_ids"])
        return out


# -- by hand -----------------------------------------------------------------------------------


def word_level(vocabulary: list[str], **options: Any) -> PreTrainedTokenizerFast:
    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(vocabulary)}, unk_token="?"))
    core.pre_tokenizer = options.pop("pre", pre_tokenizers.WhitespaceSplit())
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="?", **options)


def test_ids_words_and_roles_by_hand() -> None:
    tokenizer = word_level(["?", "<s>", "why", "the", "end"], bos_token="<s>")
    encoded = encode_words(tokenizer, ["the", "odd", "end"], context="why")
    assert encoded.input_ids.tolist() == [1, 2, 3, 0, 4]
    assert encoded.word_of.tolist() == [-1, -1, 0, 1, 2]
    assert encoded.role.tolist() == [START, CONTEXT, WORD, WORD, WORD]
    assert encoded.tokens == ("<s>", "why", "the", "?", "end")
    assert encoded.how["unknown_tokens"] == 1
    assert encoded.how["context_tokens"] == 1
    assert encoded.input_ids.dtype == encoded.word_of.dtype == np.int64


def test_glued_punctuation_stays_with_its_word() -> None:
    pre = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(',"', "isolated")]
    )
    pre = pre_tokenizers.Sequence([pre, pre_tokenizers.Split(".", "isolated")])
    pre = pre_tokenizers.Sequence([pre, pre_tokenizers.Split('"Y', "isolated")])
    tokenizer = word_level(["?", "end", ".", '"Y', "es", ',"'], pre=pre)
    encoded = encode_words(tokenizer, ["end.", '"Yes,"'])
    assert word_tokens(encoded, 0) == ["end", "."]
    assert word_tokens(encoded, 1) == ['"Y', "es", ',"']


@pytest.mark.parametrize("name", ["byte_tokenizer", "start_tokenizer", "bert_tokenizer"])
@pytest.mark.parametrize("mark", [".", ',"', "!?", "'s", "\u2019s", "\u2014", "\u2026)"])
def test_any_glued_punctuation_stays_with_its_word(
    name: str, mark: str, request: pytest.FixtureRequest
) -> None:
    tokenizer = request.getfixturevalue(name)
    encoded = encode_words(tokenizer, ["(the", "reader" + mark, "\u201clooks", "at" + mark])
    check(encoded, 4)
    assert encoded.unscored == ()
    assert len(word_tokens(encoded, 1)) > 1


def test_a_token_over_two_words_goes_to_the_larger_part_and_ties_to_the_first() -> None:
    core = Tokenizer(models.WordLevel({"?": 0, "of the": 1, "a b": 2, "end": 3}, unk_token="?"))
    core.pre_tokenizer = pre_tokenizers.Split("|", "removed")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="?")
    longer_second = encode_words(tokenizer, ["of", "the"])
    assert longer_second.word_of.tolist() == [1]
    assert longer_second.unscored == (0,)
    assert longer_second.how["tokens_across_words"] == 1
    tie = encode_words(tokenizer, ["a", "b"])
    assert tie.word_of.tolist() == [0]
    assert tie.unscored == (1,)


def test_words_with_white_space_and_line_breaks_inside_are_one_word(byte_tokenizer: Any) -> None:
    encoded = encode_words(byte_tokenizer, ["New York", "two\nlines", "a\tb"])
    check(encoded, 3)
    assert encoded.unscored == ()
    assert (encoded.role != GAP).all()
    text = byte_tokenizer.decode(encoded.input_ids[encoded.word_of == 1])
    assert text.strip() == "two\nlines"


def test_no_separator_for_scripts_without_blanks(byte_tokenizer: Any) -> None:
    encoded = encode_words(byte_tokenizer, ["\u6211", "\u4eec", "\u8bfb"], separator="")
    check(encoded, 3)
    assert encoded.unscored == ()
    assert byte_tokenizer.decode(encoded.input_ids[1:]) == "\u6211\u4eec\u8bfb"


def test_empty_texts_have_no_words(byte_tokenizer: Any, bert_tokenizer: Any) -> None:
    assert encode_words(byte_tokenizer, []).tokens == ("<s>",)
    assert encode_words(bert_tokenizer, []).tokens == ("[CLS]", "[SEP]")
    assert encode_words(byte_tokenizer, ["", " "]).unscored == (0, 1)


# -- start token -------------------------------------------------------------------------------


def test_start_token_stands_once_or_not_at_all(
    byte_tokenizer: Any, start_tokenizer: Any, bert_tokenizer: Any
) -> None:
    words = ["The", "reader", "looks"]
    for tokenizer in (byte_tokenizer, start_tokenizer):
        for rule, wanted in (("auto", 1), (True, 1), (False, 0)):
            encoded = encode_words(tokenizer, words, add_start=rule)
            assert (encoded.input_ids == tokenizer.bos_token_id).sum() == wanted
            assert (encoded.role == START).sum() == wanted
            assert word_tokens(encoded, 0) != []
            check(encoded, 3)
    assert START in encode_words(start_tokenizer, words, add_start="tokenizer").role
    assert START not in encode_words(byte_tokenizer, words, add_start="tokenizer").role
    for rule in ("auto", "tokenizer", True, False):
        encoded = encode_words(bert_tokenizer, words, add_start=rule)
        assert encoded.role.tolist()[0] == encoded.role.tolist()[-1] == SPECIAL
        assert (encoded.role == SPECIAL).sum() == 2


@pytest.mark.parametrize(
    "words", [["<s>", "The"], ["<s>The", "end"], ["The", "</s>"], ["<s>"], ["x<s>y", "<s><s>"]]
)
@pytest.mark.parametrize("name", ["byte_tokenizer", "start_tokenizer"])
def test_text_that_spells_the_start_token_is_text(
    name: str, words: list[str], request: pytest.FixtureRequest
) -> None:
    tokenizer = request.getfixturevalue(name)
    encoded = encode_words(tokenizer, words)
    specials = {tokenizer.bos_token_id, tokenizer.eos_token_id}
    assert [i for i in encoded.input_ids if i in specials] == [tokenizer.bos_token_id]
    assert encoded.input_ids[0] == tokenizer.bos_token_id
    assert encoded.unscored == ()
    assert tokenizer.decode(encoded.input_ids[1:]).strip() == " ".join(words)


def test_text_that_spells_an_encoder_special_is_text(bert_tokenizer: Any) -> None:
    encoded = encode_words(bert_tokenizer, ["[MASK]", "and", "[SEP]"], context="[CLS]")
    specials = set(bert_tokenizer.all_special_ids) - {bert_tokenizer.unk_token_id}
    assert sum(i in specials for i in encoded.input_ids) == 2
    check(encoded, 3)


def test_vocabulary_entries_that_spell_a_special_become_unknown() -> None:
    tokenizer = word_level(["?", "<s>", "the"], bos_token="<s>")
    encoded = encode_words(tokenizer, ["<s>", "the"])
    assert encoded.input_ids.tolist() == [1, 0, 2]
    assert encoded.word_of.tolist() == [-1, 0, 1]
    # the library matches added tokens before the vocabulary; either way it is one start token


def test_a_missing_start_token_is_said() -> None:
    tokenizer = word_level(["?", "the"])
    assert encode_words(tokenizer, ["the"]).role.tolist() == [WORD]
    assert "none" in encode_words(tokenizer, ["the"]).how["start"]
    with pytest.raises(CapabilityError, match="no start token"):
        encode_words(tokenizer, ["the"], add_start=True)


def test_end_token_starts_the_text_where_there_is_no_start_token() -> None:
    tokenizer = word_level(["?", "</s>", "the"], eos_token="</s>")
    encoded = encode_words(tokenizer, ["the"])
    assert encoded.tokens == ("</s>", "the")
    assert encoded.role.tolist() == [START, WORD]
    assert "</s> prepended" in encoded.how["start"]


def test_added_specials(start_tokenizer: Any, byte_tokenizer: Any, bert_tokenizer: Any) -> None:
    assert added_specials(start_tokenizer) == ([0], [])
    assert added_specials(byte_tokenizer) == ([], [])
    assert added_specials(bert_tokenizer) == ([2], [3])


# -- emoji, combining marks, zero width --------------------------------------------------------


@pytest.mark.parametrize("name", ["byte_tokenizer", "start_tokenizer", "bert_tokenizer"])
def test_words_without_visible_characters_get_no_token(
    name: str, request: pytest.FixtureRequest
) -> None:
    tokenizer = request.getfixturevalue(name)
    encoded = encode_words(tokenizer, [*ODD_WORDS, "end"])
    check(encoded, 6)
    assert encoded.unscored == (3,)
    assert encoded.how["words_not_visible"] == 1
    assert word_tokens(encoded, 5) != []


@pytest.mark.parametrize(
    "nothing",
    ["", " ", "\t\n", "\u200b", "\u200d\ufe0f", "\ufeff", "\u2060\u00ad", "\x00", "\u00a0"],
)
def test_any_invisible_word_leaves_the_others_aligned(byte_tokenizer: Any, nothing: str) -> None:
    assert not is_visible(nothing)
    for words in ([nothing, "the", "end"], ["the", nothing, "end"], ["the", "end", nothing]):
        encoded = encode_words(byte_tokenizer, words)
        check(encoded, 3)
        for i, word in enumerate(words):
            text = byte_tokenizer.decode(encoded.input_ids[encoded.word_of == i]).strip()
            assert text == (word if word != nothing else "")


@pytest.mark.parametrize("something", ["a", "\u0301", ".", "\u200ba", "\U0001f600", "\ufffd", "-"])
def test_visible(something: str) -> None:
    assert is_visible(something)


def test_characters_are_code_points(byte_tokenizer: Any) -> None:
    encoded = encode_words(byte_tokenizer, ["\U0001f469\u200d\U0001f4bb", "x", "\U0001f469", "y"])
    assert [t.lstrip("\u0120") for t in word_tokens(encoded, 1)] == ["x"]
    assert [t.lstrip("\u0120") for t in word_tokens(encoded, 3)] == ["y"]
    for i, word in enumerate(["\U0001f469\u200d\U0001f4bb", "x", "\U0001f469", "y"]):
        text = byte_tokenizer.decode(encoded.input_ids[encoded.word_of == i])
        assert text.strip() == word


def test_characters_that_the_tokenizer_drops_are_counted(bert_tokenizer: Any) -> None:
    encoded = encode_words(bert_tokenizer, ["a\ufffdb", "cafe\u0301", "plain", "\ufffd"])
    assert encoded.unscored == (3,)
    assert encoded.how["characters_dropped"] >= 1
    assert encode_words(bert_tokenizer, ["plain", "words"]).how["characters_dropped"] == 0


def test_lone_surrogates_are_replaced_and_counted(byte_tokenizer: Any) -> None:
    encoded = encode_words(byte_tokenizer, ["a\ud800", "b"], context="\udfff")
    assert encoded.how["surrogates_replaced"] == 2
    assert encoded.unscored == ()


# -- context -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["byte_tokenizer", "start_tokenizer", "bert_tokenizer"])
def test_context_belongs_to_no_word(name: str, request: pytest.FixtureRequest) -> None:
    tokenizer = request.getfixturevalue(name)
    words = ["The", "reader", "looks"]
    plain = encode_words(tokenizer, words)
    asked = encode_words(tokenizer, words, context="Nobody knew why the old man said: end.")
    check(asked, 3)
    n = asked.how["context_tokens"]
    assert n == (asked.role == CONTEXT).sum() > 0
    for i in range(3):
        assert word_tokens(asked, i) == word_tokens(plain, i)
    for nothing in (None, "", " \u200b"):
        same = encode_words(tokenizer, words, context=nothing)
        assert same.input_ids.tolist() == plain.input_ids.tolist()


# -- unusable offsets --------------------------------------------------------------------------


def zero_width(offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(e, e) for _, e in offsets]


DAMAGED = {
    "zero width": zero_width,
    "all zero": lambda o: [(0, 0)] * len(o),
    "some zero width": lambda o: [(s, s) if i % 2 else (s, e) for i, (s, e) in enumerate(o)],
    "whole text": lambda o: [(0, o[-1][1])] * len(o),
    "backwards": lambda o: o[::-1],
    "beyond the text": lambda o: [(s + 500, e + 500) for s, e in o],
    "shifted": lambda o: [(s + 2, e + 2) for s, e in o[:-1]] + [o[-1]],
    "too few": lambda o: o[:-1],
    "doubled": lambda o: [(2 * s, 2 * e) for s, e in o],
}


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.parametrize("name", ["byte_tokenizer", "start_tokenizer", "bert_tokenizer"])
@pytest.mark.parametrize("context", [None, "Why is that?"])
def test_unusable_offsets_are_rebuilt_from_pieces(
    kind: str, name: str, context: str | None, request: pytest.FixtureRequest
) -> None:
    tokenizer = request.getfixturevalue(name)
    words = ["This", "is", "an", "example.", "caf\u00e9", "looks", "(again)"]
    right = encode_words(tokenizer, words, context=context)
    got = encode_words(Wrapped(tokenizer, DAMAGED[kind]), words, context=context)
    assert got.how["alignment"] == "pieces"
    assert got.how["alignment_reason"]
    assert right.how["alignment"] == "offsets"
    assert got.word_of.tolist() == right.word_of.tolist()
    assert got.role.tolist() == right.role.tolist()


def test_tokenizers_without_offsets_work_by_pieces(
    byte_tokenizer: Any, bert_tokenizer: Any
) -> None:
    for inner in (byte_tokenizer, bert_tokenizer):
        slow = Wrapped(inner, fast=False)
        for words in (["The", "reader's", "\u201cend.\u201d"], ODD_WORDS, []):
            right, got = encode_words(inner, words), encode_words(slow, words)
            assert got.how["alignment"] == ("pieces" if words else "offsets")
            assert got.word_of.tolist() == right.word_of.tolist()


def test_pieces_that_do_not_make_up_the_text_raise(byte_tokenizer: Any) -> None:
    def merged(text: str, ids: list[int]) -> list[int]:
        return [7, *ids] if text.count(" ") == 2 else ids  # differs for the whole text alone

    broken = Wrapped(byte_tokenizer, zero_width, ids=merged)
    with pytest.raises(CapabilityError, match="cannot be matched"):
        encode_words(broken, ["The", "old", "man"])


def test_byte_fallback_and_metaspace_tokenizers() -> None:
    """A SentencePiece-like tokenizer: blanks are marks, unknown characters are bytes."""
    vocabulary = {"<unk>": 0, "<s>": 1, "\u2581": 2, "a": 3, "b": 4, "\u2581a": 5}
    vocabulary |= {f"<0x{i:02X}>": 6 + i for i in range(256)}
    core = Tokenizer(
        models.BPE(
            vocabulary, [("\u2581", "a")], byte_fallback=True, unk_token="<unk>", fuse_unk=True
        )
    )
    core.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", bos_token="<s>")
    encoded = encode_words(tokenizer, ["a", "\u20ac", "ab", "\U0001f600\u20ac"])
    check(encoded, 4)
    assert encoded.unscored == ()
    assert word_tokens(encoded, 0) == ["\u2581a"]
    assert word_tokens(encoded, 1) == ["<0xE2>", "<0x82>", "<0xAC>"]
    assert word_tokens(encoded, 2) == ["\u2581a", "b"]
    assert len(word_tokens(encoded, 3)) == 7
    assert (encoded.role == GAP).sum() == 2  # the blanks before the two words made of bytes


# -- wrong input -------------------------------------------------------------------------------


def test_wrong_words_raise(byte_tokenizer: Any) -> None:
    with pytest.raises(DataError, match="not one string"):
        encode_words(byte_tokenizer, "The reader")
    with pytest.raises(DataError, match=r"row 1.*not a string"):
        encode_words(byte_tokenizer, ["The", float("nan")])  # type: ignore[list-item]
    with pytest.raises(DataError, match="row 0"):
        encode_words(byte_tokenizer, [None])  # type: ignore[list-item]


def test_too_long_raises_with_the_choices(byte_tokenizer: Any) -> None:
    words = ["word"] * 20
    n = len(encode_words(byte_tokenizer, words))
    assert len(encode_words(byte_tokenizer, words, max_tokens=n)) == n
    with pytest.raises(DataError, match="long_text"):
        encode_words(byte_tokenizer, words, max_tokens=n - 1)


# -- properties --------------------------------------------------------------------------------

WORDS = st.lists(st.text(max_size=8), max_size=8)
QUICK = settings(
    max_examples=int(os.environ.get("GAZEATTN_EXAMPLES", "120")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def covers(tokenizer: Any, words: list[str]) -> None:
    """Each word's tokens spell it, as far as the vocabulary has its bytes."""
    encoded = encode_words(tokenizer, words)
    check(encoded, len(words))
    assert encoded.how["alignment"] == "offsets"
    assert set(encoded.unscored) == {
        i
        for i, w in enumerate(words)
        if not is_visible(w) or not tokenizer(w, add_special_tokens=False).input_ids
    }
    seen = -1
    for i in range(len(words)):
        at = np.flatnonzero(encoded.word_of == i)
        if len(at):
            assert at.min() > seen
            assert (np.diff(at) == 1).all()
            seen = at.max()
            spelt = tokenizer.decode(encoded.input_ids[at], clean_up_tokenization_spaces=False)
            alone = tokenizer.decode(tokenizer(words[i], add_special_tokens=False).input_ids)
            assert spelt.strip() == alone.strip()


@QUICK
@given(words=WORDS)
def test_every_character_of_every_word_is_covered(byte_tokenizer: Any, words: list[str]) -> None:
    covers(byte_tokenizer, words)


@QUICK
@given(words=WORDS)
def test_normalising_tokenizers_keep_count_and_order(bert_tokenizer: Any, words: list[str]) -> None:
    encoded = encode_words(bert_tokenizer, words)
    check(encoded, len(words))
    for i in encoded.unscored:  # only what the tokenizer removes by itself
        assert not is_visible(words[i]) or not bert_tokenizer(words[i]).input_ids[1:-1]


@QUICK
@given(words=WORDS, context=st.text(max_size=12))
def test_pieces_agree_with_offsets(byte_tokenizer: Any, words: list[str], context: str) -> None:
    right = encode_words(byte_tokenizer, words, context=context)
    try:
        got = encode_words(Wrapped(byte_tokenizer, fast=False), words, context=context)
    except CapabilityError:
        return  # a word that joins its neighbour's white space: said, not guessed
    assert got.how["alignment"] == "pieces" or len(right) == 1
    check(got, len(words))
    assert got.input_ids.tolist() == right.input_ids.tolist()
    both = (got.word_of >= 0) & (right.word_of >= 0)
    assert (got.word_of[both] == right.word_of[both]).all()


@QUICK
@given(words=WORDS)
def test_real_decoder_covers_every_character(smollm2: Any, words: list[str]) -> None:
    covers(smollm2.tokenizer, words)


@QUICK
@given(words=WORDS)
def test_real_encoder_keeps_count_and_order(minilm: Any, words: list[str]) -> None:
    encoded = encode_words(minilm.tokenizer, words)
    check(encoded, len(words))
    for i in encoded.unscored:
        assert not is_visible(words[i]) or not minilm.tokenizer(words[i]).input_ids[1:-1]


def test_real_tokenizers_on_the_odd_words(smollm2: Any, minilm: Any) -> None:
    for lm in (smollm2, minilm):
        encoded = encode_words(lm.tokenizer, [*ODD_WORDS, "end.", '"Yes,"'])
        assert encoded.unscored == (3,)
        assert unicodedata.normalize("NFC", "".join(word_tokens(encoded, 5))).endswith("end.")
    assert word_tokens(encode_words(smollm2.tokenizer, ['"Yes,"']), 0) == ['"', "Yes", ',"']


def test_take_keeps_word_numbers(byte_tokenizer: Any) -> None:
    encoded = encode_words(byte_tokenizer, ["The", "reader", "looks", "again"])
    part = encoded.take(np.flatnonzero((encoded.word_of == 2) | (encoded.role == START)))
    assert set(part.word_of.tolist()) == {-1, 2}
    assert part.n_words == 4
    assert part.unscored == (0, 1, 3)
    assert SimpleNamespace(tokens=part.tokens).tokens[0] == "<s>"
