"""Stages of writing: attention rows, gradients and losses against plain passes of a tiny model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.lm import LanguageModel
from gazeattn.lm.stages import (
    METHODS,
    Written,
    attention_rows,
    likely_words,
    stage_weights,
    text_losses,
    token_gradient,
    write_after,
)

WORDS = "<pad> <s> </s> one two three four five six seven eight nine".split()


def tokenizer() -> PreTrainedTokenizerFast:
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="nine"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def lm() -> LanguageModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS), hidden_size=16, intermediate_size=32, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        model.lm_head.weight.mul_(20)
        model.lm_head.weight[2] = 0
    made = LanguageModel(model, tokenizer())
    made.info["offsets"] = True
    return made


PROMPT = "one two three four"


def test_what_is_written_goes_on() -> None:
    one = lm()
    written = write_after(one, PROMPT, 3)
    assert written.prompt.tolist() == [3, 4, 5, 6] and len(written.new) == 3
    ids = torch.tensor([[3, 4, 5, 6]])
    with torch.no_grad():
        for new in written.new.tolist():  # greedy by hand
            assert int(one.model(input_ids=ids).logits[0, -1].argmax()) == new
            ids = torch.cat([ids, torch.tensor([[new]])], 1)
    assert written.offsets.tolist() == [[0, 3], [4, 7], [8, 13], [14, 18]]
    with pytest.raises(DataError, match="no token"):
        write_after(one, "", 3)


def test_rows_are_those_of_the_whole_map() -> None:
    one = lm()
    ids = torch.tensor([[3, 4, 5, 6, 7, 8]])
    found = attention_rows(one, ids, [2, 5])
    assert one.model.config._attn_implementation == "sdpa"  # as before
    one.model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = one.model(input_ids=ids, output_attentions=True).attentions
    for row in (2, 5):
        expected = torch.stack([m[0, :, row] for m in maps])
        torch.testing.assert_close(found[row], expected)


def test_weights_by_hand() -> None:
    one = lm()
    written = write_after(one, PROMPT, 3)
    found = stage_weights(one, written)
    assert set(found) == set(METHODS) and all(len(v) == 4 for v in found.values())
    whole = torch.from_numpy(np.concatenate([written.prompt, written.new]))[None]
    rows = attention_rows(one, whole, [3, 5])
    np.testing.assert_allclose(found["reading_first"], rows[3][0, :, :4].mean(0), rtol=1e-6)
    np.testing.assert_allclose(found["reading_all"].sum(), 3, rtol=1e-5)  # a row per layer
    np.testing.assert_allclose(found["coding_last"], rows[5][-1, :, :4].mean(0), rtol=1e-6)
    gradient, embedded = token_gradient(one, whole, 5)
    np.testing.assert_allclose(
        found["inputxgradient_coding"], (gradient * embedded)[:4].norm(dim=-1), rtol=1e-5
    )
    # a step into the direction of the gradient raises the logit by its squared length
    one.model.double()
    gradient, embedded = token_gradient(one, whole, 5)
    table = one.model.get_input_embeddings().weight
    with torch.no_grad():
        before = one.model(inputs_embeds=embedded[None]).logits[0, -1, int(whole[0, 6])]
        moved = embedded + 1e-8 * gradient
        after = one.model(inputs_embeds=moved[None]).logits[0, -1, int(whole[0, 6])]
    assert float(after - before) == pytest.approx(1e-8 * float(gradient.square().sum()), rel=0.01)
    assert torch.equal(embedded, table[whole[0, :6]])
    with pytest.raises(UnknownNameError, match="reading_first"):
        stage_weights(one, written, ["reading_frst"])


def test_later_text_does_not_change_reading() -> None:
    one = lm()
    written = write_after(one, PROMPT, 3)
    other = Written(written.prompt, np.array([3, *written.new[1:]]), written.offsets, "")
    names = ["reading_first", "reading_last", "reading_all"]
    a, b = stage_weights(one, written, names), stage_weights(one, other, names)
    for name in names:
        np.testing.assert_allclose(a[name], b[name], rtol=1e-6)


def test_losses_do_not_depend_on_company() -> None:
    one = lm()
    new = np.array([5, 6, 7])
    prompts = ["one two", "one two three four five six", "nine", "two two two"]
    found = text_losses(one, prompts, new, batch_size=3)
    for prompt, loss in zip(prompts, found, strict=True):
        ids = torch.tensor([[*one.tokenizer(prompt)["input_ids"], *new]])
        with torch.no_grad():
            logits = one.model(input_ids=ids).logits[0].log_softmax(-1)
        at = ids.shape[1] - 4
        by_hand = -sum(float(logits[at + k, int(t)]) for k, t in enumerate(new))
        assert loss == pytest.approx(by_hand, rel=1e-4)


def test_likely_words_come_from_what_stands_before() -> None:
    one = lm()
    spans = np.array([[4, 7], [14, 18]])  # two, four
    found = likely_words(one, PROMPT, spans)
    with torch.no_grad():
        logits = one.model(input_ids=torch.tensor([[3, 4, 5, 6]])).logits[0]
    for word, at, own in zip(found, (0, 2), ("two", "four"), strict=True):
        names = [WORDS[int(i)] for i in logits[at].argsort(descending=True)]
        assert word == next(n for n in names if n.isalpha() and n != own)


def test_an_encoder_writes_nothing() -> None:
    one = lm()
    one.info["causal"] = False
    with pytest.raises(CapabilityError, match="causal"):
        write_after(one, PROMPT)
