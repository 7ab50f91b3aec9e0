"""Effective attention, TokenTM, WAAD, FAI and the lookback ratio against whole maps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from gazeattn.errors import CapabilityError, DataError
from gazeattn.lm import LanguageModel
from gazeattn.lm._effective import effective
from gazeattn.lm._spans import chosen_heads
from gazeattn.lm._whole_maps import transformation_weights

WORDS = "The reader looks at the old man and then at the end of the text".split()


@pytest.fixture(scope="module")
def lm(tiny_llama, byte_tokenizer):
    return LanguageModel(tiny_llama, byte_tokenizer)


@pytest.fixture(scope="module")
def maps(lm):
    """Whole maps, shape (layers, heads, tokens, tokens), and the tokens' words."""
    encoded = lm.encode(WORDS)
    ids = torch.as_tensor(encoded.input_ids)[None]
    before = lm.model.config._attn_implementation
    lm.model.set_attn_implementation("eager")
    with torch.no_grad():
        out = lm.model(ids, output_attentions=True).attentions
    lm.model.set_attn_implementation(before)
    return torch.cat(out).double().numpy(), np.asarray(encoded.word_of), encoded


def test_effective_by_rank():
    # values of two tokens are the same: only the sum of their weights can be told from the
    # output, so that effective attention shares it equally
    values = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])
    rows = torch.tensor([[[0.6, 0.1, 0.3]]])
    np.testing.assert_allclose(effective(rows, values)[0, 0], [0.35, 0.35, 0.3], atol=1e-12)
    # independent values, no more tokens than dimensions: nothing can be removed
    free = torch.tensor([[[1.0, 0.0], [1.0, 2.0]]])
    np.testing.assert_allclose(effective(rows[..., :2], free), rows[..., :2], atol=1e-7)
    # values all 0: no weight has an effect
    np.testing.assert_array_equal(effective(rows, torch.zeros(1, 3, 2)), np.zeros((1, 1, 3)))


def test_effective_of_a_causal_row_stays_on_what_it_sees():
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.normal(size=(1, 6, 2)))
    a = np.tril(rng.random((6, 6)))
    a = torch.from_numpy(a / a.sum(-1, keepdims=True))[None]
    found = effective(a, values, 0, causal=True)[0]
    for t in range(6):
        v = values[0, : t + 1].numpy()
        np.testing.assert_allclose(
            found[t, : t + 1], a[0, t, : t + 1].numpy() @ v @ np.linalg.pinv(v), atol=1e-9
        )
        assert not found[t, t + 1 :].any()
    np.testing.assert_allclose(found @ values[0], a[0] @ values[0], atol=1e-9)
    np.testing.assert_allclose(effective(a[:, 3:], values, 3, causal=True)[0], found[3:])


def test_effective_recorded(shared_data: Path):
    folder = shared_data.parent / "golden"
    if not folder.is_dir():
        pytest.skip("no recorded values")
    arrays = np.load(folder / "C_attention.npz", allow_pickle=False)
    cases = json.loads((folder / "C_attention.json").read_text())["cases"]
    cases = [c for c in cases if c["kind"] == "effective"]
    assert cases
    for case in cases:
        a, v = (torch.from_numpy(arrays[case[k]]) for k in ("attention", "values"))
        a, v = a.reshape(-1, *a.shape[-2:]), v.reshape(-1, *v.shape[-2:])
        expected = arrays[case["expected"]].reshape(a.shape)
        np.testing.assert_allclose(effective(a, v), expected, atol=1e-8, err_msg=case["id"])


def test_transformation_by_hand():
    # token 0 is turned round and doubled, token 1 kept: cosines -1 and 1
    hidden = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
    values = torch.tensor([[[-2.0, 0.0], [0.0, 3.0]]])
    found = transformation_weights(hidden, values, torch.eye(2)[None])
    low, high = np.exp(-1), np.exp(1)
    share = np.array([low, high]) * 2 / (low + high)
    np.testing.assert_allclose(found[0], [2 * share[0], share[1]], rtol=1e-6)


def test_token_tm_against_whole_products(lm, maps):
    a, word_of, encoded = maps
    base = lm.model.model
    product = None
    with torch.no_grad():
        states = base(torch.as_tensor(encoded.input_ids)[None], output_hidden_states=True)
        for i, layer in enumerate(base.layers):
            x = layer.input_layernorm(states.hidden_states[i])[0]
            v = layer.self_attn.v_proj(x).view(len(x), 2, 8).transpose(0, 1)
            w_o = layer.self_attn.o_proj.weight.T.reshape(4, 8, 32)
            weight = transformation_weights(x, v, w_o).double().numpy()
            factor = (a[i] * weight[:, None, :]).mean(0) + np.eye(len(x))
            start = np.diag(x.norm(dim=-1).double().numpy())
            product = factor @ (start if product is None else product)
    scored = word_of >= 0
    kept = product[:, scored] / np.maximum(product[:, scored].sum(-1, keepdims=True), 1e-30)
    per_key = np.stack([kept[:, word_of[scored] == k].sum(-1) for k in range(len(WORDS))], 1)
    n = np.bincount(word_of[scored])
    query = np.where(scored, 1 / n[word_of], 0)
    first = np.array([np.flatnonzero(word_of == k)[0] for k in range(len(WORDS))])
    seen = np.arange(len(word_of))[:, None] >= first
    expected = (query[:, None] * per_key).sum(0) / (query[:, None] * seen).sum(0)
    for chunk in (None, 3):
        found = lm.attention(WORDS, "token_tm", chunk=chunk)
        np.testing.assert_allclose(found.weights, expected, rtol=2e-4)


def test_by_distance_against_whole_maps(lm, maps):
    a, word_of, _ = maps
    scored = word_of >= 0
    at = np.arange(len(word_of))
    apart = at[:, None] - at[None, :]
    p = a * scored
    p = p / np.maximum(p.sum(-1, keepdims=True), 1e-30)
    spans = (p * np.maximum(apart, 0))[:, :, scored].sum((-1, -2)) / scored.sum()
    found = lm.attentions(
        WORDS, ["waad", "fai"], waad_window=3, fai_from=2, fai_to=5, head_share=0.25, chunk=4
    )
    near = (p * np.clip(apart, 0, 3)).sum(-1)
    mine = np.stack([near[:, :, word_of == k].mean(-1) for k in range(len(WORDS))], -1)
    local, far = np.zeros(8, bool), np.zeros(8, bool)
    local[np.argsort(spans.ravel())[:2]] = True
    far[np.argsort(-spans.ravel())[:2]] = True
    np.testing.assert_allclose(found["waad"].heads, mine, rtol=1e-4, atol=1e-6)
    expected = mine.reshape(8, -1)[local].mean(0)
    np.testing.assert_allclose(found["waad"].weights, expected, rtol=1e-4, atol=1e-6)
    band = ((apart >= 2) & (apart <= 5)) * scored[:, None]
    count = band.sum(0)
    with np.errstate(invalid="ignore"):
        later = (p * band).sum(-2) / np.where(count > 0, count, np.nan)
    words = np.stack([later[:, :, word_of == k].sum(-1) for k in range(len(WORDS))], -1)
    np.testing.assert_allclose(found["fai"].heads, words, rtol=1e-4, atol=1e-6)
    expected = words.reshape(8, -1)[far].mean(0)
    np.testing.assert_allclose(found["fai"].weights, expected, rtol=1e-4, atol=1e-6)
    assert np.isnan(found["fai"].weights[-1])  # no later word is two tokens away


def test_heads_are_chosen_by_distance():
    spans = np.array([[3.0, 1.0], [np.nan, 2.0]])
    assert chosen_heads(spans, 0.3, far=False).tolist() == [[False, True], [False, False]]
    assert chosen_heads(spans, 0.3, far=True).tolist() == [[True, False], [False, False]]
    assert chosen_heads(spans, 1.0, far=True).sum() == 3


def test_lookback(lm):
    context = "Who looks at the text?"
    found = lm.attention(WORDS[:6], "lookback_ratio", context=context)
    assert found.heads.shape == (2, 4, 6)
    encoded = lm.encode(WORDS[:6], context)
    ids = torch.as_tensor(encoded.input_ids)[None]
    before = lm.model.config._attn_implementation
    lm.model.set_attn_implementation("eager")
    with torch.no_grad():
        a = torch.cat(lm.model(ids, output_attentions=True).attentions).numpy()
    lm.model.set_attn_implementation(before)
    role, word_of = np.asarray(encoded.role), np.asarray(encoded.word_of)
    last = np.flatnonzero(word_of == 5)
    old = a[:, :, last][..., role == 3].mean(-1)
    new = np.stack([a[:, :, t, (word_of >= 0) & (np.arange(len(role)) <= t)].mean(-1)
                    for t in last], -1)  # fmt: skip
    np.testing.assert_allclose(found.heads[..., 5], (old / (old + new)).mean(-1), rtol=1e-4)
    with pytest.raises(CapabilityError, match="context"):
        lm.attention(WORDS, "lookback_ratio")


@pytest.mark.parametrize(
    "wrong", [{"head_share": 0.0}, {"fai_from": 5, "fai_to": 2}, {"waad_window": 0}]
)
def test_wrong_options(lm, wrong):
    with pytest.raises(DataError):
        lm.attention(WORDS, "waad", **wrong)


@pytest.mark.parametrize("method", ["effective_attention", "token_tm", "waad", "fai", "flow"])
def test_padding_and_batch_change_nothing(lm, method):
    texts = [WORDS[:4], WORDS[:9]]
    alone = [lm.attention(t, method, fai_from=1).weights for t in texts]
    for side in ("left", "right"):
        both = lm.attend(texts, [method], batch_size=2, padding_side=side, fai_from=1)
        for one, profile in zip(alone, both, strict=True):
            np.testing.assert_allclose(profile[method].weights, one, rtol=2e-3, atol=1e-5)


def test_beside_gradients(lm):
    both = lm.attentions(WORDS, ["token_tm", "effective_attention", "grad_attention"])
    alone = lm.attention(WORDS, "token_tm")
    np.testing.assert_allclose(both["token_tm"].weights, alone.weights, rtol=1e-4)
