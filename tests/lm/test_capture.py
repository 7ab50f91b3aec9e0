"""The capture engine: same outputs, restored state, models of other kinds, memory."""

from __future__ import annotations

import copy
import gc
import threading
import types
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers

from gazeattn.errors import CapabilityError
from gazeattn.lm import capture as engine
from gazeattn.lm import maps
from gazeattn.lm.batches import Batch
from gazeattn.lm.capture import Session, capture, check_memory, estimate_bytes
from gazeattn.lm.methods import AttentionOptions, compute

from .dense_reference import Dense, eager_maps, text, wrap

DECODER = text(["s", 0, 0, 1, 2, 2, 2, 3, 4, 4, 5, 6, 7])


class Collect:
    """Keeps whole maps, which only a test may do."""

    def __init__(self):
        self.maps, self.shapes = {}, []

    def begin(self, layer, values, projection):
        self.layer = layer

    def rows(self, attention, rows, scratch):
        n = max(rows.stop, rows.keys)
        self.shapes.append(tuple(attention.shape))
        whole = self.maps.get(self.layer)
        if whole is None:
            whole = self.maps[self.layer] = torch.full((len(attention), n, n), torch.nan)
        whole[:, rows.start : rows.stop] = 0
        whole[:, rows.start : rows.stop, : rows.keys] = attention
        scratch.fill_(torch.nan)  # observers own the scratch space

    def end(self, layer):
        assert layer == self.layer

    def stack(self):
        return torch.stack([self.maps[k] for k in sorted(self.maps)]).numpy()


def run(model, encoded, chunk=None, side="right"):
    """Run texts as one batch; return the outputs and one collector per text."""
    base = engine.base_of(model)
    batch = Batch(base, encoded, side)
    observers = [Collect() for _ in encoded]
    session = Session(observers, batch.spans, chunk)
    with capture(model, session), torch.no_grad():
        out = base(**batch.inputs)[0]
    return out, observers, batch


def tiny(config_name, model_name, **changes):
    """Build a random model of any kind of the library."""
    common = {
        "vocab_size": 160,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    torch.manual_seed(0)
    config = getattr(transformers, config_name)(**{**common, **changes})
    model = getattr(transformers, model_name)(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim >= 2:
                p.mul_(6.0)
            elif p.ndim == 1 and "sinks" in dict(model.named_parameters()):
                p.normal_()
    return model


KINDS = {
    "window": lambda: tiny(
        "MistralConfig", "MistralForCausalLM", num_key_value_heads=2, head_dim=8, sliding_window=4
    ),
    "softcap": lambda: tiny(
        "Gemma2Config",
        "Gemma2ForCausalLM",
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=4,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=5.0,
        query_pre_attn_scalar=8,
    ),
    "sinks": lambda: tiny(
        "GptOssConfig",
        "GptOssForCausalLM",
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=4,
        num_local_experts=2,
        num_experts_per_tok=1,
    ),
    "modernbert": lambda: tiny(
        "ModernBertConfig",
        "ModernBertModel",
        local_attention=6,
        global_attn_every_n_layers=2,
        cls_token_id=1,
        sep_token_id=2,
    ),
    "roberta": lambda: tiny("RobertaConfig", "RobertaModel"),
    "distilbert": lambda: tiny(
        "DistilBertConfig", "DistilBertModel", dim=32, hidden_dim=48, n_layers=3, n_heads=4
    ),
    "neox": lambda: tiny("GPTNeoXConfig", "GPTNeoXForCausalLM"),
    "albert": lambda: tiny("AlbertConfig", "AlbertModel", embedding_size=16),
}


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_gpt2", "tiny_bert", *KINDS])
@pytest.mark.parametrize("chunk", [None, 4])
def test_fused_kernel_is_replaced_and_outputs_stay(request, name, chunk):
    """Models as they load, with the fused kernel: maps with rows of sum 1, the same outputs."""
    model = KINDS[name]() if name in KINDS else request.getfixturevalue(name)
    before = model.config._attn_implementation
    if name not in ("softcap", "sinks"):
        assert before == "sdpa"
    with torch.no_grad():
        plain = engine.base_of(model)(input_ids=torch.tensor(DECODER.input_ids)[None])[0]
    out, observers, _ = run(model, [DECODER], chunk)
    found, expected = observers[0].stack(), eager_maps(model, DECODER)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=2e-6)
    if name != "sinks":
        np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(out.numpy(), plain.numpy(), atol=1e-4)
    assert model.config._attn_implementation == before
    with torch.no_grad():
        again = engine.base_of(model)(input_ids=torch.tensor(DECODER.input_ids)[None])[0]
    assert torch.equal(plain, again)


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_gpt2", "tiny_bert", "window", "modernbert"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_batches_give_the_maps_of_single_texts(request, name, side):
    model = KINDS[name]() if name in KINDS else request.getfixturevalue(name)
    texts = [text(["s", 0, 1]), text(["s", 0, 1, 2, 3]), DECODER]
    _, observers, batch = run(model, texts, 2, side)
    assert (batch.inputs["attention_mask"].sum(-1) == torch.tensor([3, 5, 13])).all()
    for t, observer in zip(texts, observers, strict=True):
        assert observer.stack().shape[-2:] == (len(t), len(t))
        np.testing.assert_allclose(observer.stack(), eager_maps(model, t), atol=1e-5)


@pytest.mark.parametrize("kind", ["window", "softcap", "sinks", "modernbert"])
@pytest.mark.parametrize("include_self", [True, False])
def test_word_scores_with_windows_caps_and_learned_sinks(kind, include_self):
    model = KINDS[kind]()
    options = AttentionOptions(chunk=3, include_self=include_self)
    a = eager_maps(model, DECODER)
    result = compute(wrap(model), [DECODER], ["raw", "entropy", "rollout"], options)[0]
    with torch.no_grad():
        visible = (a > 0).any(1)
    rolled = maps.rollout(a)
    for layer in range(len(a)):
        dense = Dense(DECODER, options, visible[layer])
        expected = [dense.received(h) for h in a[layer]]
        np.testing.assert_allclose(result["raw"].heads[layer], expected, atol=1e-5)
        expected = [dense.entropy(h) for h in a[layer]]
        np.testing.assert_allclose(result["entropy"].heads[layer], expected, atol=1e-5)
        expected = dense.received(rolled[layer])
        np.testing.assert_allclose(result["rollout"].heads[layer, 0], expected, atol=1e-5)


def test_blocks_are_never_a_whole_layer(tiny_llama):
    encoded = text(["s", *range(40)])
    _, observers, _ = run(tiny_llama, [encoded], chunk=8)
    assert max(s[1] for s in observers[0].shapes) == 8
    assert engine.block_rows(9, 2048) * 9 * 2048 * 4 <= 16 << 20
    assert engine.block_rows(32, 100_000) == 16


def test_half_precision_model(tiny_llama):
    model = copy.deepcopy(tiny_llama).bfloat16()
    out, observers, _ = run(model, [DECODER], 4)
    assert out.dtype == torch.bfloat16
    np.testing.assert_allclose(observers[0].stack(), eager_maps(model, DECODER), atol=2e-2)
    methods = ["raw", "rollout", "value_norm", "entropy", "distance", "grad_attention"]
    half = compute(wrap(model), [DECODER], methods)[0]
    full = compute(wrap(tiny_llama), [DECODER], methods)[0]
    for name in methods[:-1]:
        assert half[name].weights.dtype == np.float64
        np.testing.assert_allclose(half[name].weights, full[name].weights, rtol=0.1, atol=0.05)
    assert np.isfinite(half["grad_attention"].weights[:-1]).all()


@pytest.mark.parametrize("method", ["raw", "grad_attention", "input_gradient"])
def test_inside_inference_mode(tiny_llama, method):
    expected = compute(wrap(tiny_llama), [DECODER], [method])[0][method].weights
    with torch.inference_mode():
        found = compute(wrap(tiny_llama), [DECODER], [method])[0][method].weights
    np.testing.assert_allclose(found, expected, rtol=1e-5)


# ---- state


class Failing(Collect):
    def end(self, layer):
        raise RuntimeError("on purpose")


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_own_kernel_is_back_after_an_exception(tiny_llama, implementation):
    old = tiny_llama.config._attn_implementation
    tiny_llama.set_attn_implementation(implementation)
    try:
        ids = torch.tensor(DECODER.input_ids)[None]
        plain = tiny_llama.base_model(input_ids=ids)[0]
        session = Session([Failing()], [(0, len(DECODER))])
        with pytest.raises(RuntimeError, match="on purpose"), capture(tiny_llama, session):
            tiny_llama.base_model(input_ids=ids)
        assert tiny_llama.config._attn_implementation == implementation
        assert not any(m in engine._sessions for m in tiny_llama.modules())
        assert torch.equal(plain, tiny_llama.base_model(input_ids=ids)[0])
    finally:
        tiny_llama.set_attn_implementation(old)


def test_blocks_inside_one_another(tiny_llama):
    ids = torch.tensor(DECODER.input_ids)[None]
    outer, inner = (Session([Collect()], [(0, len(DECODER))]) for _ in range(2))
    with torch.no_grad(), capture(tiny_llama, outer):
        with capture(tiny_llama, inner):
            tiny_llama.base_model(input_ids=ids)
        assert (outer.calls, inner.calls) == (0, 2)
        tiny_llama.base_model(input_ids=ids)
        assert (outer.calls, inner.calls) == (2, 2)
    assert tiny_llama.config._attn_implementation == "sdpa"


def test_threads_on_one_model_wait_for_each_other(tiny_llama):
    texts = [text(["s", *range(n)]) for n in (5, 9, 14, 20)]
    expected = [compute(wrap(tiny_llama), [t], ["raw"])[0]["raw"].weights for t in texts]
    found: dict[int, np.ndarray] = {}

    def work(i):
        for _ in range(3):
            found[i] = compute(wrap(tiny_llama), [texts[i]], ["raw"])[0]["raw"].weights

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(texts))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, e in enumerate(expected):
        np.testing.assert_array_equal(found[i], e)
    assert tiny_llama.config._attn_implementation == "sdpa"


def test_training_mode_and_trainable_weights_come_back(tiny_llama):
    tiny_llama.train()
    weight = tiny_llama.lm_head.weight.requires_grad_(True)
    try:
        compute(wrap(tiny_llama), [DECODER], ["raw", "grad_attention"])
        assert tiny_llama.training and weight.requires_grad and weight.grad is None
        assert all("forward" not in m.__dict__ for m in tiny_llama.modules())
    finally:
        weight.requires_grad_(False)
        tiny_llama.eval()


def test_model_can_be_freed():
    model = KINDS["window"]()
    run(model, [DECODER])
    n = len(engine._sessions)
    del model
    gc.collect()
    assert len(engine._sessions) == n == 0


# ---- models that cannot do it


def test_models_without_exchangeable_attention_return_their_maps():
    """An old-style model: eager maps, read and dropped layer by layer."""
    config = transformers.BloomConfig(
        vocab_size=160, hidden_size=32, n_layer=3, n_head=4, bos_token_id=1, eos_token_id=2
    )
    torch.manual_seed(0)
    model = transformers.BloomForCausalLM(config).eval()
    for p in model.parameters():
        p.requires_grad_(False).mul_(6.0 if p.ndim == 2 else 1.0)
    if engine.has_interface(model):
        pytest.skip("this model now uses the attention interface")
    with torch.no_grad():
        ids = torch.tensor(DECODER.input_ids)[None]
        a = torch.stack(model(input_ids=ids, output_attentions=True).attentions)[:, 0]
    a = a.double().numpy()
    options = AttentionOptions(chunk=4)
    result = compute(wrap(model), [DECODER, DECODER], ["raw", "rollout"], options, batch_size=2)
    dense = Dense(DECODER, options, np.tril(np.ones(a.shape[-2:], bool)))
    for r in result:
        expected = [[dense.received(h) for h in layer] for layer in a]
        np.testing.assert_allclose(r["raw"].heads, expected, atol=1e-5)
        np.testing.assert_allclose(
            r["rollout"].weights, dense.received(maps.rollout(a)[-1]), atol=1e-5
        )
    for method in ("value_norm", "grad_attention"):
        with pytest.raises(CapabilityError, match=method):
            compute(wrap(model), [DECODER], [method])
    assert np.isfinite(
        compute(wrap(model), [DECODER], ["input_gradient"])[0]["input_gradient"].weights[:-1]
    ).all()


def mamba():
    config = transformers.MambaConfig(
        vocab_size=160, hidden_size=16, num_hidden_layers=2, state_size=4, pad_token_id=0
    )
    return transformers.MambaForCausalLM(config).eval()


class Silent(torch.nn.Module):
    """A model with attention inside that never shows it."""

    def __init__(self):
        super().__init__()
        self.config = SimpleNamespace(num_hidden_layers=1, num_attention_heads=2, hidden_size=8)
        self.embed = torch.nn.Embedding(160, 8)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)

    def forward(self, input_ids, output_attentions=False):
        hidden = self.layer(self.embed(input_ids))
        return SimpleNamespace(last_hidden_state=hidden, attentions=(None,) * output_attentions)


@pytest.mark.parametrize("build", [mamba, Silent])
@pytest.mark.parametrize("method", ["raw", "rollout", "entropy"])
def test_no_attention_is_an_error_with_the_fix_never_none(build, method):
    model = build()
    lm = SimpleNamespace(model=model, info={"causal": True, "lm_head": False})
    with pytest.raises(CapabilityError, match=r"returned no attention maps.*eager"):
        compute(lm, [DECODER], [method])


def test_encoder_decoder_is_named():
    config = transformers.T5Config(
        vocab_size=160, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    with pytest.raises(CapabilityError, match="encoder-decoder"):
        compute(SimpleNamespace(model=model, info={}), [DECODER], ["raw"])


def call(**changes):
    x = torch.randn(1, 4, 6, 8)
    base = {"query": x, "key": x[:, :2], "value": x[:, :2], "attention_mask": None, "scaling": 1.0}
    module = torch.nn.Module()
    module.is_causal = True
    return engine._attention(module, **{**base, **changes})[0]


def test_attention_function_alone_is_causal_attention():
    x = torch.randn(2, 4, 6, 8)
    out = call(query=x, key=x[:, :2], value=x[:, :2], position_ids=torch.arange(6))
    expected = torch.nn.functional.scaled_dot_product_attention(
        x, x[:, :2], x[:, :2], is_causal=True, scale=1.0, enable_gqa=True
    )
    torch.testing.assert_close(out, expected.transpose(1, 2))


@pytest.mark.parametrize("name", ["block_indices", "sinks", "alibi"])
def test_unknown_arguments_are_named(name):
    with pytest.raises(CapabilityError, match=name):
        call(**{name: torch.ones(1)})
    call(**{name: None})


@pytest.mark.parametrize(("q", "k"), [(1, 7), (1, 8), (3, 6)])
def test_steps_of_generation_are_refused_not_broadcast(q, k):
    key = torch.randn(1, 2, k, 8)
    with pytest.raises(CapabilityError, match=f"{q} queries over {k} keys.*use_cache=False"):
        call(query=torch.randn(1, 4, q, 8), key=key, value=key)


def test_generation_with_a_cache_is_refused(tiny_llama):
    ids = torch.tensor([[1, 2, 3, 4, 5, 6]])
    session = Session([Collect()], [(0, 6)])
    with (
        pytest.raises(CapabilityError, match="1 queries over 7 keys"),
        capture(tiny_llama, session),
    ):
        tiny_llama.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=3, do_sample=False
        )
    assert tiny_llama.config._attn_implementation == "sdpa"


# ---- memory


def test_estimate_grows_with_one_layer_not_with_all():
    """4,000 tokens, 32 layers, 32 heads: 65 GB if all maps were kept."""
    config = transformers.LlamaConfig(
        hidden_size=2048, intermediate_size=5504, num_hidden_layers=32, num_attention_heads=32
    )
    methods = ("raw", "entropy", "value_norm", "rollout")
    whole = 32 * 32 * 4000**2 * 4
    needed = estimate_bytes(config, 4000, 1, methods)
    assert needed < whole / 50
    assert estimate_bytes(config, 4000, 4, methods) > 3 * needed
    more = estimate_bytes(config, 8000, 1, methods)
    assert 1.5 * needed < more < 4.5 * needed
    assert estimate_bytes(config, 4000, 1, ("grad_attention",)) > estimate_bytes(config, 4000)


@pytest.mark.parametrize("free", [1_000, 10_000])
def test_too_little_memory_is_said_before_the_run(tiny_llama, monkeypatch, free):
    monkeypatch.setattr(engine, "available_bytes", lambda device="cpu": free)
    monkeypatch.setattr(engine.Session, "attend", lambda *a: pytest.fail("the model ran"))
    with pytest.raises(CapabilityError, match=r"13 tokens with raw, rollout needs about .* GB"):
        compute(wrap(tiny_llama), [DECODER], ["raw", "rollout"])
    monkeypatch.setenv("GAZEATTN_SKIP_MEMORY_CHECK", "1")
    with pytest.warns(ResourceWarning, match="shorter windows"):
        check_memory(10 * free)


def test_free_memory_is_read():
    free = engine.available_bytes()
    assert free is None or free > 1e6
    check_memory(1000)


def test_real_decoder_keeps_its_logits(smollm2):
    encoded = text(["s", *range(30)], ids=[1, *range(1000, 1030)])
    ids = torch.tensor(encoded.input_ids)[None]
    with torch.no_grad():
        plain = smollm2.model(input_ids=ids, use_cache=False).logits
        session = Session([Collect()], [(0, 31)])
        with capture(smollm2.model, session):
            other = smollm2.model(input_ids=ids, use_cache=False).logits
    torch.testing.assert_close(plain, other, atol=2e-3, rtol=1e-3)
    assert session.calls == 30
    assert isinstance(smollm2.model.forward, types.MethodType)
