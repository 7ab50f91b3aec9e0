"""Attribution methods: small cases by hand, captum, and invariance of the pass."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients, KernelShap

from gazeattn.errors import CapabilityError
from gazeattn.lm import LanguageModel
from gazeattn.lm._attribution import Integrated, activations
from gazeattn.lm._method import Run
from gazeattn.lm._perturbation import coalitions, edit, lime, shapley
from gazeattn.lm._plan import AttentionOptions, Plan
from gazeattn.lm._scoring import Scorer
from gazeattn.lm.methods import compute

WORDS = "The reader looks at the old man and then at the end".split()
SHORT = "Nobody knew the end".split()
GRADIENT = ["saliency", "integrated_gradients", "gradient_shap", "deeplift"]
MASKED = ["shap", "lime", "occlusion_blank"]
EDITED = ["occlusion", "occlusion_fill"]
ALL = [*GRADIENT, *MASKED, *EDITED]
FAST = {"attribution_samples": 8, "attribution_steps": 8}


@pytest.fixture(scope="module")
def lm(tiny_llama, byte_tokenizer):
    return LanguageModel(tiny_llama, byte_tokenizer)


@pytest.fixture(scope="module")
def encoder(tiny_bert, bert_tokenizer):
    return LanguageModel(tiny_bert, bert_tokenizer)


def exact_shapley(value, n):
    phi = np.zeros(n)
    for i in range(n):
        rest = [j for j in range(n) if j != i]
        for k in range(n):
            weight = math.factorial(k) * math.factorial(n - k - 1) / math.factorial(n)
            for s in itertools.combinations(rest, k):
                phi[i] += weight * (value({*s, i}) - value(set(s)))
    return phi


def test_shapley_values_of_a_game_with_an_interaction():
    def value(s):  # 2 for player 0, 3 for player 1, 6 for players 1 and 2 together
        return 2.0 * (0 in s) + 3.0 * (1 in s) + 6.0 * ({1, 2} <= s)

    present, weights = coalitions(3, 100, 0)
    values = np.array([value(set(np.flatnonzero(z))) for z in present])
    found = shapley(present, weights, values, 0.0, 11.0)
    np.testing.assert_allclose(found, [2, 6, 3], atol=1e-12)
    np.testing.assert_allclose(found, exact_shapley(value, 3), atol=1e-12)


def test_sampled_coalitions_are_exact_on_a_linear_game_and_come_with_complements():
    w = np.arange(1.0, 13.0)
    present, weights = coalitions(12, 60, 3)
    half = len(present) // 2
    assert (present[:half] == ~present[half:]).all()
    assert present.any(1).all() and not present.all(1).any()
    found = shapley(present, weights, present @ w + 5, 5.0, 5 + w.sum())
    np.testing.assert_allclose(found, w, atol=1e-9)


def test_one_player_gets_everything():
    present, weights = coalitions(1, 10, 0)
    assert shapley(present, weights, np.zeros(0), 1.0, 4.0) == [3.0]


def test_lime_returns_the_weights_of_a_linear_function():
    rng = np.random.default_rng(0)
    present = rng.random((200, 5)) < 0.6
    w = np.array([1.0, -2, 0, 3, 0.5])
    np.testing.assert_allclose(lime(present, present @ w - 7, ridge=1e-9), w, atol=1e-4)


def test_integrated_gradients_of_a_linear_target_is_difference_times_weight():
    x, base, w = torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4)

    class Linear(SimpleNamespace):
        def __call__(self, e):
            return (e * w).sum((1, 2))

    model = torch.nn.Linear(2, 2)
    plan = SimpleNamespace(options=AttentionOptions(attribution_steps=4))
    scorer = Linear(embeddings=x, baseline=base, model=model, base=model, plan=plan, rows=3)
    torch.testing.assert_close(Integrated().attribute(scorer), (x - base) * w)


def test_edit_deletes_and_replaces(lm):
    encoded = lm.encode(SHORT)
    own = encoded.word_of == 1
    gone, origin = edit(encoded, 1, [])
    np.testing.assert_array_equal(gone.input_ids, encoded.input_ids[~own])
    np.testing.assert_array_equal(origin, np.flatnonzero(~own))
    put, origin = edit(encoded, 1, [7, 8])
    first = int(np.flatnonzero(own)[0])
    assert put.input_ids[first : first + 2].tolist() == [7, 8]
    assert origin[first : first + 2].tolist() == [-1, -1]
    assert len(put) == len(encoded) - own.sum() + 2 == len(put.tokens) == len(put.role)


def log_probs(lm, ids):
    with torch.no_grad():
        x = lm.model(input_ids=torch.as_tensor(ids)[None]).logits[0].log_softmax(-1)
    return [math.nan] + [float(x[t - 1, ids[t]]) for t in range(1, len(ids))]


def test_occlusion_is_the_fall_of_what_the_later_tokens_have(lm):
    encoded = lm.encode(SHORT)
    found = lm.attention(SHORT, "occlusion", causal="none").weights
    full = log_probs(lm, encoded.input_ids)
    for word in range(len(SHORT) - 1):
        keep = np.flatnonzero(encoded.word_of != word)
        less = log_probs(lm, encoded.input_ids[keep])
        fall = sum(full[t] - less[i] for i, t in enumerate(keep) if i > 0)
        assert found[word] == pytest.approx(fall, abs=1e-3)


def scorer(lm, words=SHORT, **options):
    encoded = lm.encode(words)
    return Scorer(lm, encoded, Plan(encoded, AttentionOptions(**options)))


@pytest.mark.parametrize("baseline", ["mean", "zero"])
def test_integrated_gradients_match_captum_and_add_up(lm, baseline):
    s = scorer(lm, baseline=baseline)

    def target(e):  # the whole model with its own head
        x = lm.model(inputs_embeds=e).logits.log_softmax(-1)[:, :-1]
        return x.gather(-1, s.ids[None, 1:, None].expand(len(e), -1, 1))[..., 0].sum(-1)

    found = lm.attention(
        SHORT, "integrated_gradients", causal="none", baseline=baseline, attribution_steps=300
    )
    expected = IntegratedGradients(target).attribute(
        s.embeddings[None], s.baseline[None], n_steps=300, method="riemann_middle"
    )
    token = expected[0].sum(-1).detach().numpy()
    encoded = lm.encode(SHORT)
    want = [token[encoded.word_of == w].sum() for w in range(len(SHORT))]
    np.testing.assert_allclose(found.weights[:-1], want[:-1], rtol=1e-3, atol=1e-3)
    change = float(target(s.embeddings[None])[0] - target(s.baseline[None])[0])
    assert found.lost["target_change"] == pytest.approx(change, rel=1e-4)
    assert found.lost["attribution_sum"] == pytest.approx(sum(token), rel=1e-3, abs=1e-3)


def test_shap_is_exact_on_a_short_text_and_matches_captum(lm):
    s = scorer(lm)
    n = len(SHORT)

    def value(present):
        row = torch.tensor([[i in present for i in range(n)]])
        return float(s.masks(row)[0])

    found = lm.attention(SHORT, "shap", causal="none")
    exact = exact_shapley(value, n)
    np.testing.assert_allclose(found.weights[:-1], exact[:-1], atol=1e-3)
    assert found.lost["completeness_gap"] == pytest.approx(0, abs=1e-6)
    torch.manual_seed(0)
    peer = KernelShap(lambda z: s.masks(z.bool())).attribute(
        torch.ones(1, n), n_samples=400, perturbations_per_eval=50
    )
    assert np.corrcoef(peer[0].numpy(), exact)[0, 1] > 0.9


def test_masks_run_each_row_once(lm, monkeypatch):
    s = scorer(lm, attribution_tokens=10_000)
    sizes = []
    own = Scorer.__call__
    monkeypatch.setattr(Scorer, "__call__", lambda self, e: sizes.append(len(e)) or own(self, e))
    rows = torch.tensor([[True] * 4, [False] * 4, [True] * 4])
    values = s.masks(rows)
    assert sizes == [2] and values[0] == values[2] != values[1]


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("tokens", [1, 60, 10_000])
def test_scores_do_not_depend_on_batches_or_padding(lm, side, tokens):
    alone = [lm.attentions(t, ALL, **FAST) for t in (SHORT, WORDS)]
    both = lm.attend(
        [SHORT, WORDS], ALL, batch_size=2, padding_side=side, attribution_tokens=tokens, **FAST
    )
    for a, b in zip(alone, both, strict=True):
        for name in ALL:
            scale = np.nanmax(np.abs(a[name].weights))
            np.testing.assert_allclose(
                a[name].weights, b[name].weights, atol=1e-3 * scale, err_msg=name
            )


@pytest.mark.parametrize("side", ["right", "left"])
def test_an_encoder_explains_its_pooled_output(encoder, side):
    names = [*GRADIENT, *MASKED, "occlusion"]
    found = encoder.attentions(SHORT, names, padding_side=side, attribution_samples=64)
    for name, profile in found.items():
        assert np.isfinite(profile.weights).all(), name
        assert "mean-pooled" in profile.how["target"]
    gap = found["integrated_gradients"].lost
    assert abs(gap["completeness_gap_share"]) < 0.05
    with pytest.raises(CapabilityError, match="occlusion_fill"):
        encoder.attention(SHORT, "occlusion_fill")
    with pytest.raises(CapabilityError, match="masked_lm"):
        encoder.attention(SHORT, "mlm_masking")


def test_a_masked_model_fills_its_own_gaps(tiny_bert_mlm, bert_tokenizer):
    mlm = LanguageModel(tiny_bert_mlm, bert_tokenizer)
    found = mlm.attention(SHORT, "mlm_masking")
    assert np.isfinite(found.weights).all()
    assert found.how["replacement"].endswith("masked language model")


def test_deeplift_says_what_falls_back(lm):
    found = lm.attention(SHORT, "deeplift")
    assert found.how["rescale_rule"] == [k.__name__ for k in activations(lm.model)]
    assert any("Norm" in name for name in found.how["gradient_fallback"])
    assert np.isfinite(found.lost["completeness_gap_share"])


def test_the_absolute_sign_and_a_text_without_words(lm):
    signed = lm.attention(WORDS, "occlusion_blank").weights
    size = lm.attention(WORDS, "occlusion_blank", attribution_sign="absolute").weights
    np.testing.assert_allclose(size, np.abs(signed))
    encoded = lm.encode(["\u200b"])
    if not (encoded.word_of >= 0).any():
        result = compute(lm, [encoded], ["shap"])[0]["shap"]
        assert np.isnan(result.weights).all()


def test_weights_and_random_state_are_left_alone(lm):
    before, state = [p.requires_grad for p in lm.model.parameters()], torch.get_rng_state()
    numbers = np.random.get_state()[1].copy()  # noqa: NPY002
    lm.attentions(SHORT, GRADIENT, **FAST)
    assert before == [p.requires_grad for p in lm.model.parameters()]
    assert torch.equal(state, torch.get_rng_state())
    assert (numbers == np.random.get_state()[1]).all()  # noqa: NPY002
    assert Run.__dataclass_fields__["found"] is not None


def test_a_real_decoder_on_a_real_sentence(smollm2):
    words = "The old man sat down on the bench and looked at the sea .".split()
    names = ["integrated_gradients", "occlusion", "occlusion_fill", "shap"]
    found = smollm2.attentions(words, names, attribution_steps=20, attribution_samples=60)
    for name in names:
        assert np.isfinite(found[name].weights[:-1]).all(), name
    assert found["shap"].lost["completeness_gap"] == pytest.approx(0, abs=1e-6)
    assert found["shap"].lost["target_change"] > 0
