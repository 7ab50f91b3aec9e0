"""The `LanguageModel` facade: profiles, options, windows, batches and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gazeattn
from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.lm.model import LanguageModel
from gazeattn.profiles import Units

WORDS = 'The reader looks at the "first word" of the \u200b text.'.split(" ")
METHODS = ("raw", "rollout", "entropy", "distance", "value_norm", "grad_attention")


@pytest.fixture(scope="module")
def llama(tiny_llama: Any, byte_tokenizer: Any) -> LanguageModel:
    return LanguageModel(tiny_llama, byte_tokenizer)


@pytest.fixture(scope="module")
def bert(tiny_bert: Any, bert_tokenizer: Any) -> LanguageModel:
    return LanguageModel(tiny_bert, bert_tokenizer)


@pytest.fixture(scope="module", params=["llama", "gpt2", "bert", "bert_mlm"])
def lm(request: pytest.FixtureRequest) -> LanguageModel:
    encoder = request.param.startswith("bert")
    tokenizer = request.getfixturevalue("bert_tokenizer" if encoder else "byte_tokenizer")
    return LanguageModel(request.getfixturevalue(f"tiny_{request.param}"), tokenizer)


def test_public_name() -> None:
    assert gazeattn.LanguageModel is LanguageModel


def test_capabilities_are_declared(lm: LanguageModel) -> None:
    kind = type(lm.model).__name__
    assert lm.capabilities == {
        "causal": "Bert" not in kind,
        "lm_head": "Bert" not in kind,
        "mlm_head": kind == "BertForMaskedLM",
        "offsets": True,
    }
    assert lm.info["n_layers"] == 2
    assert lm.info["n_heads"] == 4
    assert lm.info["n_kv_heads"] == (2 if "Llama" in kind else 4)
    assert lm.info["context_length"] == 64
    assert "2 layers x 4 heads" in repr(lm)
    assert ("no language-model head" in repr(lm)) == (kind == "BertModel")


def test_causality_is_measured_and_not_read_from_the_name(
    tiny_bert: Any, bert_tokenizer: Any
) -> None:
    tiny_bert.config.architectures, before = ["BertForCausalLM"], tiny_bert.config.architectures
    try:
        assert LanguageModel(tiny_bert, bert_tokenizer).capabilities["causal"] is False
    finally:
        tiny_bert.config.architectures = before


def test_profile_says_how_and_what_was_lost(llama: LanguageModel) -> None:
    profile = llama.attention(WORDS, method="raw")
    assert profile.units.texts == tuple(WORDS)
    assert profile.kind == "model"
    assert profile.name == "raw"
    assert profile.heads is not None
    assert profile.heads.shape == (2, 4, len(WORDS))
    missing = WORDS.index("\u200b")
    assert np.flatnonzero(np.isnan(profile.weights)).tolist() == [missing]
    assert profile.lost["words_without_token"] == 1
    assert profile.lost["unscored_words"] == [missing]
    assert 0 < profile.lost["start_token"] < 1
    for key in ("model", "tokenizer", "alignment", "start", "sink", "causal", "subword"):
        assert key in profile.how


def test_methods_in_one_pass_equal_methods_alone(lm: LanguageModel) -> None:
    together = lm.attentions(WORDS, METHODS)
    assert list(together) == list(METHODS)
    for method in METHODS:
        alone = lm.attention(WORDS, method=method)
        np.testing.assert_allclose(together[method].weights, alone.weights, rtol=1e-5, atol=1e-7)
        assert together[method].name == method


def test_several_forward_methods_share_one_model_pass(llama: LanguageModel) -> None:
    calls: list[int] = []
    handle = llama.model.model.layers[0].register_forward_hook(lambda *a: calls.append(1))
    try:
        llama.attentions(WORDS, ["raw", "rollout", "entropy", "distance", "value_norm"])
    finally:
        handle.remove()
    assert len(calls) == 1


def test_layers_and_heads_are_selected(llama: LanguageModel) -> None:
    whole = llama.attention(WORDS)
    part = llama.attention(WORDS, layers=[1], heads=[0, 3])
    np.testing.assert_allclose(
        part.weights,
        whole.heads[1][[0, 3]].mean(0),
        rtol=1e-5,  # type: ignore[index]
    )
    assert part.how["layers"] == [1]
    assert part.how["heads"] == [0, 3]


def test_units_keep_their_ids(llama: LanguageModel) -> None:
    units = Units(("w7", "w9"), ("The", "reader"), "page 1")
    assert llama.attention(units).units is units
    assert llama.surprisal(units).units is units


def test_context_changes_scores_but_not_units(llama: LanguageModel) -> None:
    plain = llama.attention(WORDS)
    asked = llama.attention(WORDS, context="Nobody knew why?")
    assert asked.units == plain.units
    assert asked.how["context_tokens"] > 0
    assert asked.lost["context"] > 0
    both = np.isfinite(plain.weights)
    assert not np.allclose(asked.weights[both], plain.weights[both])


def test_first_word_as_sink_prepends_no_start_token(llama: LanguageModel) -> None:
    profile = llama.attention(WORDS, sink="first_word")
    assert profile.how["sink"] == "first_word"
    assert "none" in profile.how["start"]
    assert np.isnan(profile.weights[0])


# -- padding and batches -----------------------------------------------------------------------


@pytest.mark.parametrize("padding_side", ["left", "right"])
@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_scores_do_not_depend_on_padding_or_batch(
    lm: LanguageModel, padding_side: str, batch_size: int
) -> None:
    texts = [WORDS[:3], WORDS, WORDS[2:7], ["end"], WORDS[::-1]]
    contexts = [None, "Why?", None, None, None]
    methods = [*METHODS, *(["surprisal"] if lm.info["lm_head"] or lm.info["mlm_head"] else [])]
    together = lm.attend(
        texts, methods, contexts=contexts, batch_size=batch_size, padding_side=padding_side
    )
    for text, context, found in zip(texts, contexts, together, strict=True):
        assert set(found) == set(methods)
        alone = lm.attentions(text, methods, context=context)
        for method in methods:
            a, b = alone[method], found[method]
            np.testing.assert_allclose(b.weights, a.weights, rtol=1e-4, atol=1e-4)
            if a.heads is not None:
                np.testing.assert_allclose(b.heads, a.heads, rtol=1e-4, atol=1e-4)


# -- long texts --------------------------------------------------------------------------------


def test_long_texts_are_read_in_windows(lm: LanguageModel) -> None:
    words = WORDS * 6
    profile = lm.attention(words)
    assert profile.how["windows"] > 1
    missing = [i for i, w in enumerate(words) if w == "\u200b"]
    assert np.flatnonzero(np.isnan(profile.weights)).tolist() == missing
    assert profile.heads is not None
    assert profile.heads.shape[-1] == len(words)
    assert profile.lost["words_without_token"] == len(missing)
    assert all(isinstance(v, float) for v in profile.lost["per_layer"].get("start_token", []))


def test_cut_words_are_missing_and_named(lm: LanguageModel) -> None:
    words = WORDS * 6
    profile = lm.attention(words, long_text="cut")
    cut = profile.lost["words_cut"]
    assert cut[-1] == len(words) - 1
    assert np.isnan(profile.weights[cut]).all()
    assert np.isnan(profile.heads[..., cut]).all()  # type: ignore[index]
    n = cut[0]
    first = lm.attention(words[:n])
    both = np.isfinite(first.weights)
    np.testing.assert_allclose(profile.weights[:n][both], first.weights[both], rtol=1e-4)


def test_too_long_raises_when_asked(lm: LanguageModel) -> None:
    with pytest.raises(DataError, match="at most 64 tokens"):
        lm.attention(WORDS * 6, long_text="error")
    with pytest.raises(DataError, match="at most 64 tokens"):
        lm.attentions(WORDS * 6, ["raw"], long_text="error")


# -- wrong input -------------------------------------------------------------------------------


def test_unknown_names_have_suggestions(llama: LanguageModel) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'rollout'"):
        llama.attention(WORDS, method="rolout")
    with pytest.raises(UnknownNameError, match="did you mean 'causal'"):
        llama.attention(WORDS, casual="none")
    with pytest.raises(UnknownNameError, match="option"):
        llama.surprisal(WORDS, sink="keep")
    with pytest.raises(UnknownNameError):
        llama.attention(WORDS, sink="nothing")


@pytest.mark.parametrize("words", ["The reader", b"The", ["The", 3], ["The", None]])
def test_wrong_words_raise(llama: LanguageModel, words: Any) -> None:
    with pytest.raises(DataError):
        llama.attention(words)
    with pytest.raises(DataError):
        llama.surprisal(words)


def test_contexts_go_with_texts(llama: LanguageModel) -> None:
    with pytest.raises(DataError, match="one context per text"):
        llama.attend([WORDS, WORDS], ["raw"], contexts=["Why?"])
    with pytest.raises(DataError, match="one context per text"):
        llama.attend([WORDS], ["raw"], contexts="Why?")  # type: ignore[arg-type]


def test_encoder_without_a_head_says_so(bert: LanguageModel) -> None:
    with pytest.raises(CapabilityError, match="masked-language-model head"):
        bert.surprisal(WORDS)
    with pytest.raises(CapabilityError, match="masked-language-model head"):
        bert.attentions(WORDS, ["raw", "surprisal"])
    with pytest.raises(CapabilityError, match="needs lm_head"):
        bert.require("lm_head", by="surprisal")


@pytest.mark.parametrize("words", [[], ["\u200b", ""]])
def test_texts_without_visible_words_have_no_scores(lm: LanguageModel, words: list[str]) -> None:
    for method in METHODS:
        profile = lm.attention(words, method=method)
        assert profile.weights.shape == (len(words),)
        assert np.isnan(profile.weights).all()


@pytest.mark.parametrize("words", [["end"], ["end", "\u200b"]])
def test_texts_of_one_word_work(lm: LanguageModel, words: list[str]) -> None:
    found = lm.attentions(words, METHODS)
    assert np.isfinite(found["raw"].weights[0])


def test_random_state_is_left_alone(llama: LanguageModel) -> None:
    before = torch.random.get_rng_state()
    first = llama.attentions(WORDS, METHODS)
    again = llama.attentions(WORDS, METHODS)
    assert torch.equal(before, torch.random.get_rng_state())
    for method in METHODS:
        np.testing.assert_array_equal(first[method].weights, again[method].weights)


# -- real --------------------------------------------------------------------------------------


def test_real_models_give_profiles(smollm2: LanguageModel, minilm: LanguageModel) -> None:
    for model, shape in ((smollm2, (30, 9)), (minilm, (6, 12))):
        found = model.attentions(WORDS, ["raw", "rollout"], context="Who reads?")
        assert found["raw"].heads is not None
        assert found["raw"].heads.shape == (*shape, len(WORDS))
        assert np.isnan(found["raw"].weights).sum() == 1
        assert model.name in repr(model)
    assert found["raw"].how["start"] == "specials of the tokenizer"
    raw = smollm2.attention(WORDS)
    assert "<|im_start|> prepended" in raw.how["start"]
    assert raw.lost["start_token"] > 0.2  # the sink


def test_real_scores_do_not_depend_on_padding(smollm2: LanguageModel) -> None:
    texts = [WORDS[:3], WORDS[:5]]
    for side in ("left", "right"):
        found = smollm2.attend(texts, ["raw"], batch_size=2, padding_side=side)
        for text, profiles in zip(texts, found, strict=True):
            alone = smollm2.attention(text)
            np.testing.assert_allclose(profiles["raw"].weights, alone.weights, atol=1e-4)
