"""Texts as tokens: whose token is whose, what is cut, and vectors from a damaged cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.datamodules.reading_texts import FOLDER, QUESTION, SPECIAL, TEXT, TextEncoder, Tokens
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.lm import LanguageModel

from ..models.reading.encoder_cases import NOTHING, save_encoder

WORDS = ["the", "old", "man's", "sea,", "saw"]
# letters are tokens: [s] the old man's sea, saw [/s]
SIZES = [3, 3, 5, 4, 3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_encoder(tmp_path_factory.mktemp("encoder"), "bert")


@pytest.fixture
def encoder(folder: str, tmp_path: Path) -> TextEncoder:
    return TextEncoder(folder, tmp_path)


@pytest.fixture(scope="module")
def shared(folder: str, tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    return TextEncoder(folder, tmp_path_factory.mktemp("shared"))


def letters(encoder: TextEncoder, tokens: Tokens, which: np.ndarray) -> str:
    names = encoder.lm.tokenizer.convert_ids_to_tokens(tokens.ids[which].tolist())
    return "".join(n.removeprefix("##") for n in names)


def test_whose_token_is_whose(encoder: TextEncoder) -> None:
    found = encoder.tokens(WORDS)
    assert len(found) == 20 and found.cut == 0 and found.vectors is None
    assert found.word_of.tolist() == [-1, *np.repeat(np.arange(5), SIZES), -1]
    assert found.part.tolist() == [SPECIAL, *[TEXT] * 18, SPECIAL]
    assert found.ids.dtype == found.word_of.dtype == np.int64 and found.part.dtype == np.int8
    assert letters(encoder, found, found.word_of == 1) == "old"


def test_question(encoder: TextEncoder) -> None:
    found = encoder.tokens(WORDS, "who saw ")
    text = encoder.tokens(WORDS)
    n = len(text)
    np.testing.assert_array_equal(found.ids[:n], text.ids)
    np.testing.assert_array_equal(found.word_of[:n], text.word_of)
    assert letters(encoder, found, found.part == QUESTION) == "whosaw"
    assert (found.word_of[n:] == -1).all() and len(found) == n + 7
    assert found.part[n:].tolist() == [QUESTION] * 6 + [SPECIAL]
    assert found.ids[-1] == text.ids[-1]  # ends as the text does
    for nothing in (None, "", "   "):
        none = encoder.tokens(WORDS, nothing)
        assert (none.part != QUESTION).all() and letters(encoder, none, none.part == TEXT) != ""


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.text("abcdeåZ ,.!-'\u200b", max_size=7), max_size=8),
    st.none() | st.integers(6, 40),
    st.none() | st.text("abc? ", max_size=6),
)
def test_tokens_lie_in_their_words(
    shared: TextEncoder, words: list[str], limit: int | None, question: str | None
) -> None:
    encoder = TextEncoder(shared.name, shared.root, limit)
    encoder._lm = shared.lm
    n_asked = len((question or "").replace(" ", ""))
    try:
        found = encoder.tokens(words, question)
    except DataError:
        assert limit is not None and n_asked + 3 >= limit
        return
    whole = TextEncoder(shared.name, shared.root)
    whole._lm = shared.lm
    every = whole.tokens(words, question)
    assert limit is None or len(found) <= limit
    assert (found.word_of[found.part != TEXT] == -1).all()
    there = np.unique(found.word_of[found.word_of >= 0])
    possible = np.unique(every.word_of[every.word_of >= 0])
    assert there.tolist() == possible[: len(there)].tolist()  # the end is lost, not the middle
    assert found.cut == len(possible) - len(there)
    for w in there:
        # all tokens of the word are there, and spell it
        assert (found.word_of == w).sum() == (every.word_of == w).sum()
        spelt = letters(encoder, found, found.word_of == w)
        plain = "".join(words[w].split()).lower().replace("å", "a").replace("\u200b", "")
        assert spelt == "".join(c if c.isalpha() else "?" for c in plain)
    assert (np.diff(found.word_of[found.word_of >= 0]) >= 0).all()
    assert (found.part == QUESTION).sum() == (every.part == QUESTION).sum()
    assert len(found) == len(every) or found.cut or (every.word_of[every.part == TEXT] < 0).any()


def test_what_is_cut(folder: str, tmp_path: Path) -> None:
    for limit, words in ((20, 5), (19, 4), (17, 4), (16, 3), (5, 1), (4, 0), (3, 0)):
        found = TextEncoder(folder, tmp_path, limit).tokens(WORDS)
        assert found.word_of.max() == words - 1 and found.cut == 5 - words
        assert len(found) == 2 + sum(SIZES[:words])
        assert found.part[[0, -1]].tolist() == [SPECIAL, SPECIAL]
    asked = TextEncoder(folder, tmp_path, 11).tokens(WORDS, "who")
    assert asked.cut == 4 and (asked.part == QUESTION).sum() == 3 and len(asked) == 9
    with pytest.raises(DataError, match="no room"):
        TextEncoder(folder, tmp_path, 6).tokens(WORDS, "who")


def test_words_without_tokens_and_no_words(encoder: TextEncoder) -> None:
    found = encoder.tokens(["a", NOTHING, "", "b"])
    assert found.word_of.tolist() == [-1, 0, 3, -1]
    empty = encoder.tokens([])
    assert empty.part.tolist() == [SPECIAL, SPECIAL] and empty.cut == 0
    asked = encoder.tokens([], "why")
    assert asked.part.tolist() == [SPECIAL, SPECIAL, *[QUESTION] * 3, SPECIAL]
    assert np.isfinite(encoder.with_vectors(empty).vectors).all()


def test_vectors_are_the_last_states(encoder: TextEncoder) -> None:
    import torch

    found = encoder.with_vectors(encoder.tokens(WORDS, "who saw"))
    with torch.inference_mode():
        ids = torch.from_numpy(found.ids)[None]
        wanted = encoder.lm.model(input_ids=ids, output_hidden_states=True).hidden_states[-1][0]
    np.testing.assert_allclose(found.vectors, wanted.numpy(), atol=2e-3)
    assert found.vectors.shape == (len(found), encoder.width) and encoder.width == 16
    assert found.vectors.dtype == np.float32
    assert not any(p.requires_grad for p in encoder.lm.model.parameters())


@pytest.mark.parametrize("n", [30, 31, 46, 47, 63, 100, 321])
def test_long_texts_come_from_windows(encoder: TextEncoder, n: int) -> None:
    """The model takes 32 tokens; every token of a longer text has a vector of its own."""
    words = ["abcdefghij"[k % 10] * (1 + k % 3) for k in range(n)]
    tokens = encoder.tokens(words)
    found = encoder.with_vectors(tokens).vectors
    assert tokens.cut == 0 and len(tokens) > 32 and found.shape == (len(tokens), 16)
    assert np.isfinite(found).all() and (np.abs(found).sum(axis=1) > 0).all()
    # the start is that of the first window
    first = encoder._compute(Tokens(tokens.ids[:32], tokens.word_of[:32], tokens.part[:32]))
    np.testing.assert_allclose(found[:16], first[:16], atol=5e-3)


def test_cache(encoder: TextEncoder, folder: str, tmp_path: Path, monkeypatch: Any) -> None:
    tokens = encoder.tokens(WORDS)
    first = encoder.with_vectors(tokens).vectors
    files = list((tmp_path / FOLDER).iterdir())
    assert len(files) == 1 and files[0].suffix == ".npy"
    again = TextEncoder(folder, tmp_path)
    monkeypatch.setattr(TextEncoder, "_compute", None)  # must not be asked
    np.testing.assert_array_equal(again.with_vectors(tokens).vectors, first)
    monkeypatch.undo()
    whole = files[0].read_bytes()
    wrong = np.zeros((3, 16), np.float16)
    for damage in (b"", b"no array", whole[:40], whole[:-5], b"\x93NUMPY", None):
        if damage is None:
            np.save(files[0], wrong)
        else:
            files[0].write_bytes(damage)
        np.testing.assert_array_equal(again.with_vectors(tokens).vectors, first)
        assert files[0].read_bytes() == whole  # mended


def test_keys_tell_texts_and_models_apart(encoder: TextEncoder, tmp_path: Path) -> None:
    a, b = encoder.tokens(WORDS), encoder.tokens(WORDS, "who")
    other = TextEncoder(save_encoder(tmp_path / "other", "bert", seed=1), tmp_path)
    keys = {encoder._key(a), encoder._key(b), other._key(a)}
    assert len(keys) == 3
    assert not np.allclose(encoder.with_vectors(a).vectors, other.with_vectors(a).vectors)


def test_each_distinct_text_once(encoder: TextEncoder) -> None:
    seen: list[tuple[int, int]] = []
    pairs = [(WORDS, None), (WORDS[:2], "who"), (tuple(WORDS), None), (WORDS, "who")]
    found = encoder(pairs, progress=lambda a, b: seen.append((a, b)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert found[0] is found[2] and [len(t) for t in found] == [20, 12, 20, 24]
    assert all(t.vectors is not None and len(t.vectors) == len(t) for t in found)
    bare = encoder(pairs, vectors=False)
    assert all(t.vectors is None for t in bare)


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta"])
def test_other_families(family: str, tmp_path: Path) -> None:
    encoder = TextEncoder(save_encoder(tmp_path / family, family), tmp_path)
    found = encoder.with_vectors(encoder.tokens(WORDS * 3, "who"))
    assert np.isfinite(found.vectors).all() and found.word_of.max() == 14
    assert letters(encoder, found, found.word_of == 6) == "old"


def test_minilm(tmp_path: Path) -> None:
    try:
        lm = LanguageModel.load("minilm")
    except MissingAssetError as error:
        pytest.skip(str(error))
    encoder = TextEncoder("minilm", tmp_path)
    encoder._lm = lm
    words = ["Reading", "is", "fixating", "unforeseeable", "words,", "again."]
    found = encoder.with_vectors(encoder.tokens(words, "What is reading?"))
    assert encoder.width == 384 and found.vectors.shape == (len(found), 384)
    for k, word in enumerate(words):
        assert letters(encoder, found, found.word_of == k) == word.lower()
    assert letters(encoder, found, found.part == QUESTION) == "whatisreading?"
    again = encoder.with_vectors(encoder.tokens(words, "What is reading?"))
    np.testing.assert_array_equal(found.vectors, again.vectors)
    long = encoder.with_vectors(encoder.tokens(words * 150))
    assert len(long) > 512 and np.isfinite(long.vectors).all()
    assert (np.linalg.norm(long.vectors, axis=1) > 1).all()
