"""Surprisal against a direct computation from the full logits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
)

from gazeattn.errors import CapabilityError, UnknownNameError
from gazeattn.lm.model import LanguageModel
from gazeattn.lm.surprisal import log_probabilities, sum_words, surprisal, word_openers
from gazeattn.lm.tokens import Encoded, encode_words

WORDS = 'The reader\u2019s caf\u00e9, 123 words: "Yes, the end." \u2b62 \u200b again'.split(" ")


def direct(model: Any, encoded: Encoded) -> np.ndarray:
    """-log2 p from the full logits, word by word in plain loops."""
    ids = torch.as_tensor(encoded.input_ids)[None]
    with torch.no_grad():
        log_p = torch.log_softmax(model(input_ids=ids).logits[0].double(), dim=-1)
    out = np.full(encoded.n_words, np.nan)
    waiting = 0.0
    for t in range(1, len(encoded)):
        bits = -float(log_p[t - 1, encoded.input_ids[t]]) / math.log(2)
        word = encoded.word_of[t]
        if word < 0:
            waiting = waiting + bits if encoded.role[t] == 4 else 0.0
            continue
        out[word] = (0.0 if np.isnan(out[word]) else out[word]) + bits + waiting
        waiting = 0.0
    return out


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
@pytest.mark.parametrize("context", [None, "Why is that?"])
@pytest.mark.parametrize("name", ["tiny_llama", "tiny_gpt2"])
def test_chunks_equal_the_full_logits(
    name: str, context: str | None, chunk: int, byte_tokenizer: Any, request: Any
) -> None:
    model = request.getfixturevalue(name)
    encoded = encode_words(byte_tokenizer, WORDS, context=context)
    assert len(encoded) <= 64
    got = surprisal(model, [encoded], chunk=chunk)[0]
    np.testing.assert_allclose(got, direct(model, encoded), rtol=1e-5, atol=1e-5)
    assert np.isnan(got[encoded.unscored[0]])
    assert np.isfinite(np.delete(got, encoded.unscored)).all()
    assert (np.delete(got, encoded.unscored) > 0).all()


SMALL = {
    "vocab_size": 420,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 1,
}


@pytest.mark.parametrize(
    "build",
    [
        lambda: Gemma2ForCausalLM(Gemma2Config(**SMALL, head_dim=8, final_logit_softcapping=1.0)),
        lambda: CohereForCausalLM(CohereConfig(**SMALL, logit_scale=0.2)),
        lambda: GraniteForCausalLM(GraniteConfig(**SMALL, logits_scaling=3.0)),
    ],
    ids=["soft capping", "logit scale", "logits scaling"],
)
def test_the_model_s_own_last_steps_are_kept(build: Any, byte_tokenizer: Any) -> None:
    torch.manual_seed(1)
    model = build().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(6.0)
    encoded = encode_words(byte_tokenizer, WORDS)
    got = surprisal(model, [encoded], chunk=5)[0]
    np.testing.assert_allclose(got, direct(model, encoded), rtol=1e-4, atol=1e-4)
    # and they matter: the plain head gives something else
    ids = torch.as_tensor(encoded.input_ids)[None]
    with torch.no_grad():
        plain = model.lm_head(model.base_model(ids)[0])
        assert not torch.allclose(plain, model(ids).logits, atol=1e-2)


def test_the_trunk_is_left_as_it_was(tiny_llama: Any, byte_tokenizer: Any) -> None:
    encoded = encode_words(byte_tokenizer, WORDS)
    ids = torch.as_tensor(encoded.input_ids)[None]
    before = tiny_llama(ids).logits
    surprisal(tiny_llama, [encoded], chunk=4)
    assert "forward" not in vars(tiny_llama.base_model)
    torch.testing.assert_close(tiny_llama(ids).logits, before)


def test_logits_are_held_chunk_by_chunk(tiny_llama: Any, byte_tokenizer: Any) -> None:
    sizes: list[int] = []
    handle = tiny_llama.lm_head.register_forward_hook(lambda m, a, out: sizes.append(out.shape[1]))
    encoded = encode_words(byte_tokenizer, WORDS)
    try:
        surprisal(tiny_llama, [encoded], chunk=6)
    finally:
        handle.remove()
    assert max(sizes) == 6
    assert sum(sizes) < len(encoded) + 20


def test_probabilities_sum_to_one(tiny_llama: Any) -> None:
    ids = torch.arange(2, 32)[None]
    parts = list(log_probabilities(tiny_llama, ids, 0, 30, chunk=8))
    assert [at for at, _ in parts] == [0, 8, 16, 24]
    total = torch.cat([p for _, p in parts]).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones(30))


def test_sum_words_by_hand() -> None:
    encoded = Encoded(
        np.arange(8),
        np.array([-1, -1, 0, 0, -1, 2, -1, -1]),
        np.array([1, 3, 0, 0, 4, 0, 4, 2]),
        tuple("abcdefgh"),
        3,
        (1,),
    )
    bits = np.array([np.nan, np.nan, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    # the gap (4 bits) counts with the word after it; the last gap has none
    np.testing.assert_array_equal(sum_words(bits, encoded), [3.0, np.nan, 12.0])


def test_first_word_is_conditional_on_the_start_token(tiny_llama: Any, byte_tokenizer: Any) -> None:
    lm = LanguageModel(tiny_llama, byte_tokenizer)
    with_start = lm.surprisal(["The", "reader"])
    assert np.isfinite(with_start.weights).all()
    without = lm.surprisal(["The", "reader"], add_start=False)
    assert np.isnan(without.weights[0])  # nothing stands before it: undefined, not 0
    assert np.isfinite(without.weights[1])


def test_context_changes_the_surprisal(tiny_llama: Any, byte_tokenizer: Any) -> None:
    lm = LanguageModel(tiny_llama, byte_tokenizer)
    a = lm.surprisal(["The", "reader"]).weights
    b = lm.surprisal(["The", "reader"], context="Nobody knew").weights
    assert not np.allclose(a, b)


# -- the blank before a word -------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [3, 1000])
@pytest.mark.parametrize("context", [None, "Why?"])
def test_blank_counts_as_the_end_of_the_word_before(
    context: str | None, chunk: int, tiny_llama: Any, byte_tokenizer: Any
) -> None:
    lm = LanguageModel(tiny_llama, byte_tokenizer)
    words = ["The", "reader", "of", "text", "x9"]
    encoded = lm.encode(words, context=context)
    opens = word_openers(byte_tokenizer, 420)
    with torch.no_grad():
        logits = tiny_llama(torch.as_tensor(encoded.input_ids)[None]).logits[0].double()
    p = torch.softmax(logits, -1)
    end_bits = -torch.log2(p[:, torch.as_tensor(opens)].sum(-1)).numpy()
    plain = lm.surprisal(words, context=context).weights
    got = lm.surprisal(words, context=context, boundary="leading_space", chunk=chunk)
    text = encoded.word_of.copy()
    for t in range(len(text) - 2, -1, -1):  # a blank of its own goes with the word after it
        if encoded.role[t] == 4:
            text[t] = text[t + 1]
    for i in range(len(words)):
        at = np.flatnonzero(text == i)
        opened = end_bits[at[0] - 1] if i else 0.0  # no blank stands before the first word
        expected = plain[i] - opened + end_bits[at[-1]]
        np.testing.assert_allclose(got.weights[i], expected, rtol=1e-4)
    assert got.how["boundary"] == "leading_space"
    assert "end of the word before" in got.how["rule"]


def test_word_openers_by_hand(byte_tokenizer: Any, bert_tokenizer: Any) -> None:
    opens = word_openers(byte_tokenizer, 420)
    names = byte_tokenizer.convert_ids_to_tokens(list(range(len(byte_tokenizer))))
    for name, wanted in (("\u0120t", True), ("\u0120", True), ("</s>", True), ("t", False)):
        assert opens[names.index(name)] == wanted
    assert not opens[len(names) :].any()
    with pytest.raises(CapabilityError, match="blank"):
        word_openers(bert_tokenizer, 200)


def test_boundary_rules_are_checked(
    tiny_llama: Any, byte_tokenizer: Any, tiny_bert_mlm: Any, bert_tokenizer: Any
) -> None:
    with pytest.raises(UnknownNameError, match="leading_space"):
        LanguageModel(tiny_llama, byte_tokenizer).surprisal(["a"], boundary="leading-space")
    with pytest.raises(CapabilityError, match="lm_head"):
        LanguageModel(tiny_bert_mlm, bert_tokenizer).surprisal(["a"], boundary="leading_space")


# -- masked ------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 2, 50])
def test_masked_equals_one_word_at_a_time(
    batch_size: int, tiny_bert_mlm: Any, bert_tokenizer: Any
) -> None:
    encoded = encode_words(bert_tokenizer, WORDS[:6], add_start="tokenizer")
    mask = bert_tokenizer.mask_token_id
    got = surprisal(
        tiny_bert_mlm, [encoded], kind="masked", mask_id=mask, batch_size=batch_size, chunk=3
    )[0]
    for word in range(6):
        here = encoded.word_of == word
        ids = torch.as_tensor(np.where(here, mask, encoded.input_ids))[None]
        with torch.no_grad():
            log_p = torch.log_softmax(tiny_bert_mlm(ids).logits[0].double(), -1).numpy()
        bits = -log_p[here, encoded.input_ids[here]].sum() / math.log(2)
        np.testing.assert_allclose(got[word], bits, rtol=1e-5)


def test_without_a_head_there_is_no_surprisal(
    tiny_bert: Any, tiny_llama: Any, bert_tokenizer: Any, byte_tokenizer: Any
) -> None:
    encoded = encode_words(bert_tokenizer, ["The", "end"])
    with pytest.raises(CapabilityError, match="head"):
        surprisal(tiny_bert, [encoded], kind="masked", mask_id=4)
    with pytest.raises(CapabilityError, match="encoder without a masked-language-model head"):
        LanguageModel(tiny_bert, bert_tokenizer).surprisal(["The", "end"])
    with pytest.raises(CapabilityError, match="decoder without a language-model head"):
        LanguageModel(tiny_llama.model, byte_tokenizer).surprisal(["The", "end"])


# -- windows -----------------------------------------------------------------------------------


def test_long_texts_keep_the_left_context_of_their_window(
    tiny_llama: Any, byte_tokenizer: Any
) -> None:
    lm = LanguageModel(tiny_llama, byte_tokenizer)
    words = WORDS * 4
    profile = lm.surprisal(words)
    assert profile.how["windows"] > 2
    missing = [i for i, w in enumerate(words) if w == "\u200b"]
    assert np.flatnonzero(np.isnan(profile.weights)).tolist() == missing
    # words of the first window have all their left context, as in a longer context
    short = [i for i in range(len(words)) if len(lm.encode(words[: i + 1])) <= 60][-1]
    np.testing.assert_allclose(
        profile.weights[:short], lm.surprisal(words[:short]).weights, rtol=1e-4
    )
    cut = lm.surprisal(words, long_text="cut")
    assert cut.lost["words_cut"] == [
        i for i in range(cut.lost["words_cut"][0], len(words)) if words[i] != "\u200b"
    ]
    assert np.isnan(cut.weights[cut.lost["words_cut"]]).all()


# -- real --------------------------------------------------------------------------------------


def test_real_surprisal_agrees_with_that_of_gpt2(
    smollm2: LanguageModel, shared_data: Path, capsys: Any
) -> None:
    pandas = pytest.importorskip("pandas")
    files = sorted((shared_data / "onestop_slice").glob("*ia*"))
    if not files:
        pytest.skip("no interest-area report in the recordings")
    table = (pandas.read_parquet if files[0].suffix == ".parquet" else pandas.read_csv)(files[0])
    if "gpt2_surprisal" not in table:
        pytest.skip("the report has no surprisal column")
    trial = next(c for c in ("unique_trial_id", "trial", "TRIAL_INDEX") if c in table)
    ours, theirs = [], []
    for _, rows in list(table.groupby(trial))[:4]:
        rows = rows.sort_values("IA_ID")
        ours.append(smollm2.surprisal(list(rows["IA_LABEL"].astype(str))).weights)
        theirs.append(rows["gpt2_surprisal"].to_numpy(dtype=float))
    a, b = np.concatenate(ours), np.concatenate(theirs)
    both = np.isfinite(a) & np.isfinite(b)
    r = float(np.corrcoef(a[both], b[both])[0, 1])
    with capsys.disabled():
        print(f"\nsurprisal: r = {r:.3f} with GPT-2's over {both.sum()} words")
    assert r > 0.7


def test_real_text_is_less_surprising_than_its_reverse(smollm2: LanguageModel) -> None:
    words = "The old man sat down and looked at the sea for a long time.".split()
    assert smollm2.surprisal(words).weights.sum() < smollm2.surprisal(words[::-1]).weights.sum()
