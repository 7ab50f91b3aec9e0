"""Gradient methods against torch's own gradients through eager attention with whole maps."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import transformers

from gazeattn.errors import CapabilityError
from gazeattn.lm import capture as engine
from gazeattn.lm import gradients
from gazeattn.lm.methods import AttentionOptions, compute

from .dense_reference import Dense, text, wrap
from .test_capture import KINDS

METHODS = ("grad_attention", "input_gradient", "input_gradient_signed")
DECODER = text(["s", "c", 0, 0, 1, "g", 2, 2, 2, 3, 4, 4, 6, 7, 7], n_words=8)
ENCODER = text(["x", 0, 0, 1, 2, 2, 2, 3, 4, 4, 6, 7, "x"], n_words=8)


def torch_gradients(model, encoded, target):
    """Return maps and their gradients (layers, heads, n, n), embeddings and theirs, the target."""
    old = model.config._attn_implementation
    model.set_attn_implementation("eager")
    ids = torch.tensor(encoded.input_ids)[None]
    embeddings = model.get_input_embeddings()(ids).detach().requires_grad_(True)
    try:
        run = model if target == "next_token" else engine.base_of(model)
        out = run(inputs_embeds=embeddings, output_attentions=True)
        for a in out.attentions:
            a.retain_grad()
        if target == "next_token":
            logp = out.logits[0].log_softmax(-1)
            value = sum(
                logp[t - 1, ids[0, t]]
                for t in range(1, len(encoded))
                if encoded.role[t] == 0 and encoded.word_of[t] >= 0
            )
        else:
            value = out[0][0].mean(0).square().sum()
        value.backward()
    finally:
        model.set_attn_implementation(old)
    maps = torch.stack([a.detach()[0] for a in out.attentions]).double().numpy()
    back = torch.stack([a.grad[0] for a in out.attentions]).double().numpy()
    return maps, back, embeddings.detach()[0].double(), embeddings.grad[0].double(), value.item()


def close(found, expected, what):
    """Compare relative to the largest value, NaN at the same places."""
    scale = np.nanmax(np.abs(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * scale, err_msg=what)


def check(model, encoded, target, options, visible=None):
    result = compute(wrap(model), [encoded], METHODS, options)[0]
    a, back, x, g, value = torch_gradients(model, encoded, target)
    n = len(encoded)
    last = n - 1
    if target == "next_token":
        last = max(t for t in range(n) if encoded.role[t] == 0) - 1
    if visible is None:
        visible = (
            np.tril(np.ones((n, n), bool)) if wrap(model).info["causal"] else np.ones((n, n), bool)
        )
    dense = Dense(encoded, options, visible)
    product = a * back
    product = np.maximum(product, 0) if options.gradient_sign == "positive" else np.abs(product)
    expected = np.array([[dense.received(h, False, last) for h in layer] for layer in product])
    r = result["grad_attention"]
    close(r.heads, expected, "grad_attention")
    close(r.weights, np.mean(expected, (0, 1)), "grad_attention")
    assert r.how["target_value"] == pytest.approx(value, rel=1e-4)
    assert r.how["sign"] == options.gradient_sign and r.how["renormalise"] is False
    for name, token in (
        ("input_gradient", (x * g).norm(dim=-1).numpy()),
        ("input_gradient_signed", (x * g).sum(-1).numpy()),
    ):
        word = []
        predicted = [t - 1 for t in range(1, n) if encoded.role[t] == 0]
        for w in range(encoded.n_words):
            keys = [i for i in dense.tokens[w] if dense.scored[i]]
            total = sum(token[i] for i in keys)
            if target == "next_token" and keys:
                by = sum(p >= keys[0] for p in predicted)
                total = total / by if by and options.causal == "visible_mean" else total
                total = total if by else np.nan
            word.append(total if keys else np.nan)
        close(result[name].weights, np.array(word), name)
    return result


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_gpt2"])
@pytest.mark.parametrize("sign", ["positive", "absolute"])
@pytest.mark.parametrize("chunk", [None, 4])
def test_decoders_equal_torch(request, name, sign, chunk):
    model = request.getfixturevalue(name)
    result = check(model, DECODER, "next_token", AttentionOptions(gradient_sign=sign, chunk=chunk))
    assert result["grad_attention"].how["recomputed_layers"] == 2


@pytest.mark.parametrize(
    "options", [{"sink": "first_word"}, {"causal": "none"}, {"include_self": False}]
)
def test_options(tiny_llama, options):
    check(tiny_llama, DECODER, "next_token", AttentionOptions(**options, chunk=5))


@pytest.mark.parametrize("chunk", [None, 4])
def test_encoder_uses_the_pooled_output(tiny_bert, chunk):
    result = check(tiny_bert, ENCODER, "pooled_norm", AttentionOptions(chunk=chunk))
    assert "mean-pooled" in result["input_gradient"].how["target"]


def test_masked_model_uses_the_pooled_output(tiny_bert_mlm):
    result = compute(wrap(tiny_bert_mlm), [ENCODER], METHODS)[0]
    assert "mean-pooled" in result["grad_attention"].how["target"]


def test_decoder_with_pooled_target(tiny_llama):
    check(tiny_llama, DECODER, "pooled_norm", AttentionOptions(target="pooled_norm"))


@pytest.mark.parametrize("kind", ["window", "softcap", "sinks"])
def test_windows_caps_and_learned_sinks(kind):
    model = KINDS[kind]()
    n = len(DECODER)
    options = AttentionOptions(chunk=4, layers=(1,))
    a, back, x, g, value = torch_gradients(model, DECODER, "next_token")
    result = compute(wrap(model), [DECODER], METHODS, options)[0]
    last = n - 2
    dense = Dense(DECODER, options, (a[1] > 0).any(0))
    expected = [[dense.received(h, False, last) for h in np.maximum(a[1] * back[1], 0)]]
    close(result["grad_attention"].heads, np.array(expected), kind)
    assert result["grad_attention"].how["target_value"] == pytest.approx(value, rel=1e-4)
    token = (x * g).norm(dim=-1).numpy()
    by = len([t for t in range(3, n) if DECODER.role[t] == 0])
    assert result["input_gradient"].weights[0] == pytest.approx(
        (token[2] + token[3]) / by, rel=1e-3
    )


def test_layers_that_share_one_module():
    """The layers of ALBERT are one module; their gradients are told apart by order."""
    model = KINDS["albert"]()
    a, back, *_ = torch_gradients(model, ENCODER, "pooled_norm")
    result = compute(
        type("LM", (), {"model": model, "info": {"causal": False}})(), [ENCODER], ["grad_attention"]
    )[0]["grad_attention"]
    dense = Dense(ENCODER, AttentionOptions(), np.ones((len(ENCODER),) * 2, bool))
    expected = [[dense.received(h, False) for h in layer] for layer in np.maximum(a * back, 0)]
    close(result.heads, np.array(expected), "albert")


def test_forward_methods_are_the_same_in_a_gradient_run(tiny_llama):
    names = ["raw", "rollout", "value_norm", "entropy", "distance"]
    alone = compute(wrap(tiny_llama), [DECODER], names)[0]
    together = compute(wrap(tiny_llama), [DECODER], [*names, *METHODS])[0]
    for name in names:
        np.testing.assert_allclose(together[name].weights, alone[name].weights, rtol=1e-6)


def test_word_that_no_prediction_follows_is_missing_not_zero(tiny_llama):
    one = compute(wrap(tiny_llama), [text(["s", 0, 1, 1, 2])], METHODS)[0]
    for name in METHODS:
        assert np.isnan(one[name].weights[2]) and np.isfinite(one[name].weights[:2]).all()
        assert one[name].lost["words_without_score"] == 1
    # the last word's first token predicts its second one
    two = compute(wrap(tiny_llama), [text(["s", 0, 1, 2, 2])], METHODS)[0]
    for name in METHODS:
        assert np.isfinite(two[name].weights).all()


def test_logits_in_blocks_equal_all_at_once(tiny_llama, monkeypatch):
    hidden, ids = torch.randn(11, 32), torch.arange(11)
    at = torch.arange(1, 11)
    head = gradients.head_of(tiny_llama)
    whole = gradients.next_token_gradient(hidden, ids, at, head)
    monkeypatch.setattr(gradients, "LOGIT_ROWS", 3)
    blocks = gradients.next_token_gradient(hidden, ids, at, head)
    torch.testing.assert_close(whole[0], blocks[0])
    assert whole[1] == pytest.approx(blocks[1])
    assert (whole[0][-1] == 0).all()


def test_head_that_is_more_than_linear_is_refused(tiny_gpt2, monkeypatch):
    tiny_gpt2 = copy.deepcopy(tiny_gpt2)
    forward = tiny_gpt2.forward

    def twice(*args, **kwargs):
        out = forward(*args, **kwargs)
        out.logits = out.logits * 2
        return out

    monkeypatch.setattr(tiny_gpt2, "forward", twice)
    with pytest.raises(CapabilityError, match="more than a linear layer"):
        compute(wrap(tiny_gpt2), [DECODER], ["input_gradient"])
    compute(wrap(tiny_gpt2), [DECODER], ["input_gradient"], AttentionOptions(target="pooled_norm"))


def test_next_token_needs_a_decoder(tiny_bert):
    with pytest.raises(CapabilityError, match="next_token"):
        compute(
            wrap(tiny_bert), [ENCODER], ["input_gradient"], AttentionOptions(target="next_token")
        )


def test_only_one_layer_is_kept():
    """Sizes that autograd saves: with recomputation they do not grow by a layer's activations."""
    config = transformers.LlamaConfig(
        vocab_size=160,
        hidden_size=32,
        intermediate_size=256,
        num_hidden_layers=6,
        num_attention_heads=4,
        max_position_embeddings=128,
    )
    model = transformers.LlamaForCausalLM(config).eval().requires_grad_(False)
    encoded = text(["s", *range(100)])
    sizes: list[int] = []

    def pack(x):
        sizes.append(x.numel())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        compute(wrap(model), [encoded], ["grad_attention"])
    n = len(encoded)
    assert sizes and max(sizes) <= n * 256  # nothing of the size heads x tokens x tokens
    assert n * n * 4 > n * 256


def test_gradient_survives_an_exception(tiny_llama, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("on purpose")

    monkeypatch.setattr(gradients.GradientReducer, "end", fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        compute(wrap(tiny_llama), [DECODER], ["grad_attention"])
    assert tiny_llama.config._attn_implementation == "sdpa"
    assert all("forward" not in m.__dict__ for m in tiny_llama.modules())
    assert not any(m in engine._sessions for m in tiny_llama.modules())


def test_real_decoder_equals_torch(smollm2):
    encoded = text(["s", 0, 0, 1, 2, 3, 3], ids=[1, *range(2000, 2006)])
    a, back, *_, value = torch_gradients(smollm2.model, encoded, "next_token")
    result = compute(smollm2, [encoded], METHODS)[0]
    dense = Dense(encoded, AttentionOptions(), np.tril(np.ones((7, 7), bool)))
    for layer, head in ((0, 0), (15, 4), (29, 8)):
        expected = dense.received(np.maximum(a[layer, head] * back[layer, head], 0), False, 5)
        scale = np.nanmax(expected)
        found = result["grad_attention"].heads[layer, head]
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3 * scale)
    assert result["grad_attention"].how["target_value"] == pytest.approx(value, rel=1e-4)
