"""Streaming word scores against whole maps, over models, options and word groupings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.lm import maps
from gazeattn.lm._reduce import value_grams
from gazeattn.lm.methods import AttentionOptions, Method, MethodResult, compute
from gazeattn.registry import attention_methods

from .dense_reference import Dense, eager_maps, projected_values, text, wrap

FORWARD = ("raw", "raw_last", "rollout", "value_norm", "entropy", "distance")
DECODER = text(["s", 0, 0, 1, "g", 2, 2, 2, 3, 4, 4, 6, 7, 8, 8, 9, 9], n_words=10)
CONTEXT = text(["s", "c", "c", "c", 0, 1, 1, 2, 3, 3, 4, 5])
ENCODER = text(["x", 0, 0, 1, 2, 2, 2, 3, 4, 4, 6, 7, "x"], n_words=8)


def model_and_text(request, name):
    model = request.getfixturevalue(name)
    return model, ENCODER if "bert" in name else DECODER


def seen(model, n):
    full = "Bert" in type(model).__name__
    return np.ones((n, n), bool) if full else np.tril(np.ones((n, n), bool))


def reference(model, encoded, options):
    """All forward methods from whole maps: name to (aggregate, per layer and head)."""
    a = eager_maps(model, encoded)
    dense = Dense(encoded, options, seen(model, a.shape[-1]))
    each = {
        "raw": np.array([[dense.received(h) for h in layer] for layer in a]),
        "entropy": np.array([[dense.entropy(h) for h in layer] for layer in a]),
        "distance": np.array([[dense.distance(h) for h in layer] for layer in a]),
        "rollout": np.array([[dense.received(r)] for r in maps.rollout(a)]),
    }
    values = projected_values(model, encoded)
    norms = [np.linalg.norm(a[i][..., None] * u[:, None], axis=-1) for i, u in enumerate(values)]
    each["value_norm"] = np.array([[dense.received(h) for h in layer] for layer in norms])
    sums = [
        np.linalg.norm(np.einsum("hts,hso->tso", a[i], u), axis=-1) for i, u in enumerate(values)
    ]
    total = {k: _mean(v, (0, 1)) for k, v in each.items()}
    total["raw_last"] = _mean(each["raw"][-1:], (0, 1))
    total["rollout"] = each["rollout"][-1, 0]
    total["value_norm"] = _mean(np.array([dense.received(m) for m in sums]), 0)
    return total, each


def _mean(x, axis):
    there = np.isfinite(x)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(there, x, 0).sum(axis) / there.sum(axis)


def check(model, encoded, options, methods=FORWARD, atol=1e-5):
    result = compute(wrap(model), [encoded], methods, options)[0]
    total, each = reference(model, encoded, options)
    for name in methods:
        np.testing.assert_allclose(result[name].weights, total[name], atol=atol, err_msg=name)
        if name in each:
            np.testing.assert_allclose(result[name].heads, each[name], atol=atol, err_msg=name)
    return result


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_gpt2", "tiny_bert", "tiny_bert_mlm"])
@pytest.mark.parametrize("chunk", [None, 1, 5])
def test_equal_to_whole_maps(request, name, chunk):
    model, encoded = model_and_text(request, name)
    sink = "start_token"
    check(model, encoded, AttentionOptions(sink=sink, chunk=chunk))


OPTIONS = [
    dict(zip(("sink", "causal", "renormalise", "include_self"), o, strict=True))
    for o in itertools.product(
        ("start_token", "first_word", "keep"),
        ("visible_mean", "none"),
        (True, False),
        (True, False),
    )
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))
def test_every_combination_of_options(tiny_llama, tiny_bert, options):
    check(tiny_llama, CONTEXT, AttentionOptions(**options, chunk=3))
    check(tiny_bert, ENCODER, AttentionOptions(**options, chunk=4))


@pytest.mark.parametrize("unit", ["nats", "bits"])
def test_units_of_entropy_and_distance(tiny_llama, unit):
    options = AttentionOptions(entropy_unit=unit, distance_unit="tokens")
    check(tiny_llama, DECODER, options, ("entropy", "distance"))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    context=st.integers(0, 3),
    gaps=st.booleans(),
    skip=st.booleans(),
    chunk=st.integers(1, 9),
    self_=st.booleans(),
)
def test_random_word_groupings(tiny_llama, sizes, context, gaps, skip, chunk, self_):
    words: list = ["s"] + ["c"] * context
    number = 0
    for n in sizes:
        words += [number] * n + (["g"] if gaps else [])
        number += 1 + skip
    encoded = text(words, n_words=number + 1)
    check(tiny_llama, encoded, AttentionOptions(chunk=chunk, include_self=self_))


def test_scores_of_a_causal_model_by_hand():
    """Uniform causal attention: every row of n visible word tokens gives each 1/n."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=50, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=16,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    torch.nn.init.zeros_(model.model.layers[0].self_attn.q_proj.weight)
    encoded = text(["s", 0, 1, 2])
    result = compute(wrap(model), [encoded], ["raw", "entropy", "distance"])[0]
    # rows over words: (1), (1/2, 1/2), (1/3, 1/3, 1/3)
    np.testing.assert_allclose(
        result["raw"].weights, [(1 + 1 / 2 + 1 / 3) / 3, (1 / 2 + 1 / 3) / 2, 1 / 3], atol=1e-6
    )
    np.testing.assert_allclose(result["entropy"].weights, [np.nan, 1, 1], atol=1e-6)
    np.testing.assert_allclose(result["distance"].weights, [0, 0.5, 1], atol=1e-6)
    # the start token takes 1/2, 1/3, 1/4 of the three rows
    assert result["raw"].lost["start_token"] == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)


# ---- padding and batches


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_gpt2", "tiny_bert"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(request, name, side):
    model, _ = model_and_text(request, name)
    edge = "x" if "bert" in name else "s"
    texts = [
        text([edge, 0, 1, 2, 2], ids=[3, 9, 8, 7, 6]),
        text([edge, 0, 1], ids=[3, 9, 5]),
        text([edge, 0, 0, 1, 2, 3, 4, 4, 5]),
    ]
    methods = [*FORWARD, "grad_attention", "input_gradient", "input_gradient_signed"]
    lm, options = wrap(model), AttentionOptions(padding_side=side, chunk=2)
    single = [compute(lm, [t], methods, options)[0] for t in texts]
    for order in itertools.permutations(range(3)):
        both = compute(lm, [texts[i] for i in order], methods, options, batch_size=3)
        for place, i in enumerate(order):
            for m in methods:
                assert both[place][m].weights.shape == (texts[i].n_words,)
                np.testing.assert_allclose(
                    both[place][m].weights, single[i][m].weights, rtol=1e-4, atol=1e-4, err_msg=m
                )
                for kind, mass in single[i][m].lost.get("per_layer", {}).items():
                    np.testing.assert_allclose(
                        both[place][m].lost["per_layer"][kind], mass, atol=1e-4
                    )


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_order_and_batch_size_change_nothing(tiny_llama, batch_size):
    texts = [text(["s", *np.repeat(range(n), 2).tolist()]) for n in (7, 2, 5, 1)]
    lm = wrap(tiny_llama)
    one = compute(lm, texts, FORWARD)
    other = compute(lm, texts[::-1], FORWARD, batch_size=batch_size)[::-1]
    for a, b in zip(one, other, strict=True):
        for m in FORWARD:
            np.testing.assert_allclose(a[m].weights, b[m].weights, atol=1e-5)


# ---- exclusion, sinks and missing scores


def test_context_is_neither_key_nor_query(tiny_llama):
    result = compute(wrap(tiny_llama), [CONTEXT], FORWARD)[0]
    for m in FORWARD:
        assert np.isfinite(result[m].weights[1:]).all()
        assert 0 < result[m].lost["context"] < 1
        assert 0 < result[m].lost["start_token"] < 1
    total = result["raw"].lost["context"] + result["raw"].lost["start_token"]
    a = eager_maps(tiny_llama, CONTEXT)
    weight = np.array([0, 0, 0, 0, 1, 0.5, 0.5, 1, 0.5, 0.5, 1, 1])
    expected = (a[..., :4].sum(-1) * weight).sum(-1).mean() / weight.sum()
    assert total == pytest.approx(expected, abs=1e-5)


def test_first_word_as_sink_has_no_score(tiny_llama):
    encoded = text([0, 0, 1, 2, 2, 3])
    options = AttentionOptions(sink="first_word")
    result = check(tiny_llama, encoded, options)
    assert np.isnan(result["raw"].weights[0]) and np.isfinite(result["raw"].weights[1:]).all()
    assert result["raw"].lost["first_word"] > 0
    assert result["raw"].lost["missing_rows"] == pytest.approx(0.25)  # the first word's own rows
    assert result["raw"].how["sink"] == "first_word"


@pytest.mark.parametrize("methods", [["raw"], ["rollout"], ["input_gradient"], list(FORWARD)])
def test_missing_start_token_is_not_silent(tiny_llama, methods):
    with pytest.raises(CapabilityError, match="first_word"):
        compute(wrap(tiny_llama), [text([0, 1, 2])], methods)


def sink_model():
    """A decoder whose queries all look at the start token alone."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=60, n_embd=8, n_layer=1, n_head=2, n_positions=16)
    model = GPT2LMHeadModel(config).eval()
    attention = model.transformer.h[0].attn
    with torch.no_grad():
        model.transformer.wpe.weight.zero_()
        model.transformer.wte.weight.normal_()
        model.transformer.wte.weight[:, 0] = -3.0
        model.transformer.wte.weight[1, 0] = (
            30.0  # the start token's embedding is unlike all others
        )
        attention.c_attn.weight.zero_()
        attention.c_attn.bias.zero_()
        attention.c_attn.bias[[0, 4]] = 200.0  # constant queries
        attention.c_attn.weight[0, [8, 12]] = 200.0  # keys follow the first embedding axis
        attention.c_attn.weight[:, 16:] = torch.randn(8, 8)
    return model


@pytest.mark.parametrize("renormalise", [True, False])
def test_rows_with_all_mass_on_the_sink_are_missing_not_uniform(renormalise):
    model = sink_model()
    encoded = text(["s", 0, 1, 1, 2], ids=[1, 5, 6, 7, 8])
    a = eager_maps(model, encoded)
    assert (a[..., 1:].sum(-1)[..., 1:] < 1e-6).all()
    options = AttentionOptions(renormalise=renormalise)
    result = compute(wrap(model), [encoded], ["raw", "value_norm", "entropy", "distance"], options)[
        0
    ]
    for name in ("raw", "value_norm") if renormalise else ():
        assert np.isnan(result[name].weights).all()
        assert result[name].lost["missing_rows"] == pytest.approx(1)
        assert result[name].lost["words_without_score"] == 3
    if not renormalise:
        np.testing.assert_allclose(result["raw"].weights, 0, atol=1e-6)
    for name in ("entropy", "distance"):
        assert np.isnan(result[name].weights).all()
    assert result["raw"].lost["start_token"] == pytest.approx(1, abs=1e-5)


def test_grouped_query_heads_share_keys_and_values(tiny_llama):
    """Four maps per layer out of two key/value heads, each with its own group's values."""
    result = check(tiny_llama, DECODER, AttentionOptions(), ("raw", "value_norm"))
    assert result["raw"].heads.shape == (2, 4, 10)
    assert result["value_norm"].heads.shape == (2, 4, 10)
    assert np.ptp(result["value_norm"].heads[..., 0], axis=-1).min() > 0


def test_all_zero_heads_are_counted_not_normalised():
    model = sink_model()
    with torch.no_grad():
        model.transformer.h[0].attn.c_attn.weight[:, 16:] = 0
        model.transformer.h[0].attn.c_attn.bias[16:] = 0
    encoded = text(["s", 0, 1, 1, 2], ids=[1, 5, 6, 7, 8])
    r = compute(wrap(model), [encoded], ["grad_attention", "value_norm"])[0]
    assert r["grad_attention"].lost["zero_heads"] == 2
    assert (np.nan_to_num(r["grad_attention"].heads) == 0).all()
    assert np.isnan(r["value_norm"].weights).all()


def test_words_without_token_are_missing_and_others_stay(tiny_llama):
    encoded = text(["s", 0, 2, 2, 5], n_words=7)
    result = compute(wrap(tiny_llama), [encoded], [*FORWARD, "grad_attention", "input_gradient"])[0]
    for name, r in result.items():
        assert np.isnan(r.weights[[1, 3, 4, 6]]).all(), name
        assert np.isfinite(r.weights[2]), name
        assert r.lost["words_without_token"] == 4
        assert r.lost["words_without_score"] == np.isnan(r.weights).sum()


@pytest.mark.parametrize("words", [["s"], ["s", "g"], ["s", "c", "c"]])
def test_text_without_word_tokens(tiny_llama, words):
    encoded = text(words, n_words=2)
    other = text(["s", 0, 1])
    result = compute(wrap(tiny_llama), [encoded, other], ["raw", "input_gradient"], batch_size=2)
    assert np.isnan(result[0]["raw"].weights).all() and result[0]["raw"].weights.shape == (2,)
    assert "reason" in result[0]["raw"].lost
    assert np.isfinite(result[1]["raw"].weights).all()
    assert compute(wrap(tiny_llama), [], ["raw"]) == []


# ---- selection, names, errors


def test_layers_and_heads(tiny_llama):
    every = compute(wrap(tiny_llama), [DECODER], FORWARD)[0]
    some = compute(
        wrap(tiny_llama), [DECODER], FORWARD, AttentionOptions(layers=(-1,), heads=(3, 0))
    )[0]
    for name in ("raw", "entropy", "distance", "value_norm"):
        np.testing.assert_array_equal(some[name].heads, every[name].heads[[1]][:, [3, 0]])
        assert some[name].how["layers"] == [1] and some[name].how["heads"] == [3, 0]
    np.testing.assert_allclose(
        some["raw"].weights, every["raw"].heads[1, [3, 0]].mean(0), rtol=1e-5
    )
    np.testing.assert_array_equal(some["rollout"].heads, every["rollout"].heads[[1]])
    first = compute(wrap(tiny_llama), [DECODER], FORWARD, AttentionOptions(layers=(0,)))[0]
    np.testing.assert_array_equal(first["rollout"].weights, every["rollout"].heads[0, 0])
    np.testing.assert_allclose(first["raw_last"].weights, every["raw"].heads[0].mean(0), rtol=1e-5)


@pytest.mark.parametrize("options", [{"layers": (2,)}, {"layers": (-3,)}, {"heads": (4,)}])
def test_layers_and_heads_that_do_not_exist(tiny_llama, options):
    with pytest.raises(DataError, match="no such"):
        compute(wrap(tiny_llama), [DECODER], ["raw"], AttentionOptions(**options))


@pytest.mark.parametrize("field", ["sink", "causal", "subword", "entropy_unit", "target"])
def test_unknown_option_is_named(field):
    with pytest.raises(UnknownNameError, match="known: "):
        AttentionOptions(**{field: "nothing"})


def test_unknown_method_gets_a_suggestion(tiny_llama):
    with pytest.raises(UnknownNameError, match="rollout"):
        compute(wrap(tiny_llama), [DECODER], ["roll_out"])


def test_longer_than_the_context_is_an_error(tiny_llama):
    encoded = text(["s", *range(70)])
    with pytest.raises(DataError, match="longer than the model's context"):
        compute(wrap(tiny_llama), [encoded], ["raw"])


def test_every_method_states_its_conventions(tiny_llama):
    names = [e.name for e in attention_methods if e.info.get("family") in ("attention", "gradient")]
    assert {*FORWARD, "grad_attention", "input_gradient", "input_gradient_signed"} <= set(names)
    result = compute(wrap(tiny_llama), [DECODER], names)[0]
    for entry in attention_methods:
        if entry.name not in names:
            continue
        assert entry.info["description"] and entry.info["citation"]
        r = result[entry.name]
        assert r.weights.dtype == np.float64 and r.weights.shape == (10,)
        assert r.heads is None or (r.heads.dtype == np.float32 and r.heads.shape[-1] == 10)
        assert {"method", "sink", "causal", "subword"} <= set(r.how)


def test_methods_of_one_call_share_one_pass(tiny_llama, monkeypatch):
    calls = []
    forward = type(tiny_llama.base_model).forward
    monkeypatch.setattr(
        type(tiny_llama.base_model),
        "forward",
        lambda self, *a, **k: (calls.append(k["input_ids"].shape[1]), forward(self, *a, **k))[1],
    )
    compute(wrap(tiny_llama), [DECODER], FORWARD)
    assert calls == [len(DECODER)]
    calls.clear()
    compute(wrap(tiny_llama), [DECODER], [*FORWARD, "grad_attention", "input_gradient"])
    assert calls.count(len(DECODER)) == 1  # and short runs that check the logits


def test_a_method_in_one_class(tiny_llama):
    """A new method sees every block and nothing else has to change."""

    class Largest(Method):
        class Watch:
            def __init__(self, plan):
                self.plan, self.best = plan, torch.zeros(plan.n_tokens)

            def begin(self, layer, values, projection):
                pass

            def rows(self, attention, rows, scratch):
                best = attention.amax((0, 1))
                self.best[: rows.keys] = torch.maximum(self.best[: rows.keys], best)

            def end(self, layer):
                pass

        def observer(self, plan):
            return self.Watch(plan)

        def finish(self, run):
            best = run.own["largest"].best
            return MethodResult(run.plan.sum_keys(best).double().numpy(), None)

    attention_methods.register("largest")(Largest)
    try:
        result = compute(wrap(tiny_llama), [DECODER], ["largest", "raw"])[0]
    finally:
        del attention_methods._entries["largest"]
    best = torch.tensor(eager_maps(tiny_llama, DECODER)).amax((0, 1, 2)).numpy()
    assert result["largest"].weights[0] == pytest.approx(best[1] + best[2], abs=1e-5)
    check(tiny_llama, DECODER, AttentionOptions(), ("raw",))


# ---- real models


def sentence(n: int, edges: str) -> list:
    rng = np.random.default_rng(1)
    words = np.cumsum(rng.random(n) < 0.7).tolist()
    first = words[0]
    words = [w - first for w in words]
    return ["s", *words] if edges == "s" else ["x", *words, "x"]


@pytest.mark.parametrize(("name", "edges"), [("smollm2", "s"), ("minilm", "x")])
def test_real_models_equal_whole_maps(request, name, edges):
    lm = request.getfixturevalue(name)
    words = sentence(40, edges)
    ids = np.random.default_rng(2).integers(1000, 20000, len(words)).tolist()
    encoded = text(words, ids=ids)
    a = eager_maps(lm.model, encoded)
    options = AttentionOptions()
    visible = np.ones(a.shape[-2:], bool)
    dense = Dense(encoded, options, np.tril(visible) if edges == "s" else visible)
    result = compute(lm, [encoded], ["raw", "rollout", "entropy"])[0]
    picked = [(0, 0), (len(a) // 2, 1), (len(a) - 1, a.shape[1] - 1)]
    for layer, head in picked:
        np.testing.assert_allclose(
            result["raw"].heads[layer, head], dense.received(a[layer, head]), atol=1e-5
        )
        np.testing.assert_allclose(
            result["entropy"].heads[layer, head], dense.entropy(a[layer, head]), atol=1e-5
        )
    rolled = maps.rollout(a)[-1]
    np.testing.assert_allclose(result["rollout"].weights, dense.received(rolled), atol=1e-5)


@pytest.mark.parametrize(("n_tokens", "dim"), [(3, 16), (200, 2)])
@pytest.mark.parametrize("n_kv", [1, 2, 4])
def test_both_ways_to_the_inner_products_of_values(n_tokens, dim, n_kv):
    """Short texts go through the vectors, long ones through products of the projections."""
    torch.manual_seed(0)
    values, projection = torch.randn(n_kv, n_tokens, dim), torch.randn(4, dim, 12)
    u = torch.einsum("htd,hdo->hto", values.repeat_interleave(4 // n_kv, 0), projection)
    expected = torch.einsum("hto,gto->hgt", u, u)
    torch.testing.assert_close(value_grams(values, projection), expected, rtol=1e-4, atol=1e-4)
