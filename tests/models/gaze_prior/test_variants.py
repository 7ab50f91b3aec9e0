"""Other ways to bring gaze into a model: by hand, identity, causality, files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from gazeattn import registry
from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.models.gaze_prior.attach import attach, load_prior
from gazeattn.models.gaze_prior.attention_bias import AttentionBias
from gazeattn.models.gaze_prior.base import CodeBatch
from gazeattn.models.gaze_prior.biasing import with_scores
from gazeattn.models.gaze_prior.gain import Gain
from gazeattn.models.gaze_prior.gaze_add import GazeAdd, gaze_features
from gazeattn.models.gaze_prior.gaze_concat import GazeConcat
from gazeattn.models.gaze_prior.reordering import Reordering
from gazeattn.models.gaze_prior.steering import Steering
from gazeattn.models.gaze_prior.supervision import AttentionSupervision

from .test_eyelayer import logits
from .tiny import WIDTH, bert, llama, padded, prompt, stirred


def weights_of(code: torch.Tensor, seed: int = 0) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.rand(code.shape, generator=made) * code


def maps(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return attention, (layers, batch, heads, queries, keys)."""
    with torch.no_grad():
        return torch.stack(
            model(input_ids=ids, attention_mask=mask, output_attentions=True).attentions
        )


PRIORS: dict[str, Any] = {
    "attention_bias": lambda: AttentionBias(WIDTH, 4, [0, 2], hidden=8, content=2),
    "gaze_add": lambda: GazeAdd(WIDTH, hidden=8),
}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", list(PRIORS))
def test_identity_causality_cache_and_files(name: str, attention: str, tmp_path: Path) -> None:
    model = llama(attention=attention)
    ids, mask, code, start = padded([prompt(2, 9, 2), prompt(1, 4, 1, seed=5)])
    given = weights_of(code)
    before = logits(model, ids, mask)
    torch.manual_seed(2)
    held = attach(model, PRIORS[name]())
    with held.code(code, start, given):
        found, real = logits(model, ids, mask), mask.bool()  # padding says nothing
        torch.testing.assert_close(found[real], before[real], atol=1e-6, rtol=1e-5)
    stirred(held.prior, scale=1.0)
    options = dict(max_new_tokens=6, min_new_tokens=6, do_sample=False)
    for beams in (1, 3):
        texts = []
        for cached in (True, False):
            with held.code(code, start, given):
                made = model.generate(
                    input_ids=ids, attention_mask=mask, use_cache=cached, num_beams=beams,
                    **options,
                )  # fmt: skip
            texts.append(made.tolist())
        assert texts[0] == texts[1]
    with held.code(code, start, given):
        moved = logits(model, ids, mask)
    assert not torch.allclose(moved[0, -1], before[0, -1])
    held.save(tmp_path)
    held.remove()
    assert logits(model, ids, mask).equal(before)
    again = load_prior(model, tmp_path)
    with again.code(code, start, given):
        assert logits(model, ids, mask).equal(moved)


def test_a_bias_leaves_the_prompt_alone() -> None:
    model = llama()
    ids, mask, code, start = padded([prompt(2, 9, 2)])
    before = logits(model, ids, mask)
    held = attach(model, AttentionBias(WIDTH, 4, [0, 1], hidden=8))
    stirred(held.prior, scale=1.0)
    with held.code(code, start):
        found = logits(model, ids, mask)
    assert torch.allclose(found[0, :-1], before[0, :-1], atol=1e-6)
    assert not torch.allclose(found[0, -1], before[0, -1])


def test_scores_on_masks_by_hand() -> None:
    scores, rows = torch.tensor([[[1.0, 2, 0]]]), torch.tensor([[False, True]])
    low = torch.finfo(torch.float32).min
    # two queries of three keys: the first is the second place of the text
    assert with_scores(None, scores, rows, 2, True)[0, 0].tolist() == [[0, 0, low], [1, 2, 0]]
    assert with_scores(None, scores, rows, 2, False)[0, 0].tolist() == [[0, 0, 0], [1, 2, 0]]
    seen = torch.tensor([[[[True, True, False], [True, False, True]]]])
    expected = [[0, 0, low], [1, low, 0]]
    assert with_scores(seen, scores, rows, 2, True)[0, 0].tolist() == expected
    added = torch.zeros(1, 1, 2, 3).masked_fill(~seen, low)
    assert with_scores(added, scores, rows, 2, True)[0, 0].tolist() == expected


@pytest.mark.parametrize("mode", ["emphasis", "profile"])
def test_steering_by_hand(mode: str) -> None:
    """Attention of the steered heads is the old one, multiplied and normalised again."""
    model = llama(attention="eager")
    ids, mask, code, start = padded([prompt(2, 5, 2)])
    given = torch.zeros(code.shape)
    given[0, 2:7] = torch.tensor([4.0, 1, 0, 3, 2])
    old = maps(model, ids, mask)
    options = {"mode": mode, "strength": 0.1 if mode == "emphasis" else 2.0, "share": 0.4}
    held = attach(model, Steering({0: [1, 3]}, **options))
    with held.code(code, start, given):
        new = maps(model, ids, mask)
    # 0.4 of five tokens: the two with 4 and 3 stay; or the square of 5 a_s, at least 0.001
    factor = {
        "emphasis": [1, 0.1, 0.1, 1, 0.1],
        "profile": [4.0, 0.25, 1e-6, 2.25, 1.0],
    }[mode]
    row = old[0, 0, 1, -1].clone()
    row[2:7] *= torch.tensor(factor)
    torch.testing.assert_close(new[0, 0, 1, -1], row / row.sum(), atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(new[0, 0, [0, 2]], old[0, 0, [0, 2]], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(new[0, 0, :, :-1], old[0, 0, :, :-1], atol=1e-6, rtol=1e-5)


def test_steering_an_encoder() -> None:
    model = bert()
    model.set_attn_implementation("eager")
    ids, mask, code, start = padded([prompt(2, 5, 2)])
    given = torch.zeros(code.shape)
    given[0, 3] = 1
    old = maps(model, ids, mask)
    held = attach(model, Steering({1: [0]}, strength=1e-4, share=0.1, causal=False))
    with held.code(code, start, given):
        new = maps(model, ids, mask)
    row = old[1, 0, 0, 4].clone()
    row[[2, 4, 5, 6]] *= 1e-4
    torch.testing.assert_close(new[1, 0, 0, 4], row / row.sum(), atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(new[1, 0, 0, 0], old[1, 0, 0, 0])


def test_no_profile_no_steering() -> None:
    model = llama()
    ids, mask, code, start = padded([prompt()])
    before = logits(model, ids, mask)
    held = attach(model, Steering({0: [0]}))
    with held.code(code, start, torch.zeros(code.shape)):  # nobody looked: nothing is emphasised
        torch.testing.assert_close(logits(model, ids, mask), before, atol=1e-6, rtol=1e-5)
    for given, says in ((None, "given by the batch"), (-weights_of(code), "0 or more")):
        with held.code(code, start, given), pytest.raises(DataError, match=says):
            logits(model, ids, mask)
    held.remove()
    held = attach(model, Steering({0: [7]}))
    with held.code(code, start, weights_of(code)), pytest.raises(DataError, match="0 to 3"):
        logits(model, ids, mask)
    for bad in ({"mode": "none"}, {"strength": 0.0}, {"share": 0.0}):
        with pytest.raises((DataError, UnknownNameError)):
            Steering({0: [0]}, **bad)


def test_gain_by_hand_and_in_an_encoder() -> None:
    net = Gain(WIDTH, components=2, hidden=8)
    with torch.no_grad():
        net.a.fill_(0.5)
    states = torch.randn(1, 5, WIDTH)
    code = torch.tensor([[False, True, True, True, False]])
    net.begin(CodeBatch(code, torch.tensor([4])))
    out = net(states)
    assert net.log_g is not None
    g = net.log_g.exp()[0]
    for k in range(5):
        factor = 1 + 0.5 * (3 * float(g[k].detach()) - 1) if 1 <= k <= 3 else 1.0
        torch.testing.assert_close(out[0, k], factor * states[0, k])
    model = bert()
    ids, mask, code, start = padded([prompt(), prompt(1, 4, 1, seed=2)], "right")
    before = logits(model, ids, mask)
    held = attach(model, Gain(WIDTH, hidden=8), 1)
    with held.code(code, start):
        assert logits(model, ids, mask).equal(before)
    stirred(held.prior)
    with held.code(code, start):
        assert not torch.allclose(logits(model, ids, mask), before)
    with pytest.raises(CapabilityError, match="encoders only"):
        Gain(WIDTH, causal=True)


def test_supervision_is_the_attention_of_the_heads() -> None:
    model = llama(attention="eager")
    ids, mask, code, start = padded([prompt(2, 5, 2), prompt(1, 4, 1, seed=3)])
    target = weights_of(code)
    target = target / target.sum(1, keepdim=True)
    held = attach(model, AttentionSupervision({0: [1], 2: [0, 3]}))
    with held.code(code, start):
        model(input_ids=ids, attention_mask=mask)
        loss = held.loss(target)
        loss.backward()
        mean = held.log_g.exp()
    heads = maps(model, ids, mask)[[0, 2, 2], :, [1, 0, 3], -1] * code  # (heads, batch, keys)
    heads = heads / heads.sum(-1, keepdim=True)
    torch.testing.assert_close(mean, heads.mean(0))
    by_hand = [
        sum(
            float(a) * math.log(float(a) / float(p))
            for a, p in zip(target[b], heads[h, b], strict=True)
            if a > 0
        )
        for h in range(3)
        for b in range(2)
    ]
    assert float(loss.detach()) == pytest.approx(sum(by_hand) / 6, rel=1e-4)
    # in the last supervised block its heads alone are pulled
    q = model.model.layers[2].self_attn.q_proj.weight.grad
    assert q is not None and bool(q[:4].any()) and bool(q[12:].any()) and not bool(q[4:12].any())
    # blocks behind the last supervised one hear nothing of it
    assert model.lm_head.weight.grad is None or not bool(model.lm_head.weight.grad.any())


def test_supervision_needs_attention_weights() -> None:
    model = llama(attention="sdpa")
    ids, _, code, start = padded([prompt()])
    held = attach(model, AttentionSupervision({0: [1]}))
    with held.code(code, start), pytest.raises(CapabilityError, match="eager"):
        model(input_ids=ids)
    with held.code(code, start), pytest.raises(DataError, match="no attention was seen"):
        held.loss(code.float())
    with pytest.raises(DataError, match="a head"):
        AttentionSupervision({0: []})


def test_features_of_gaze_by_hand() -> None:
    code = torch.tensor([[False, True, True, True, True]])
    found = gaze_features(CodeBatch(code, torch.tensor([4]), torch.tensor([[9.0, 0, 1, 1, 2]])))
    low = math.log(1e-3)
    expected = [[0, 0, 0, 0], [0, low, 0, 0], [1, 0, 1 / 3, 1], [1, 0, 1 / 3, 1],
                [2, math.log(2), 1, 1]]  # fmt: skip
    torch.testing.assert_close(found[0], torch.tensor(expected))
    with pytest.raises(DataError, match="weights="):
        gaze_features(CodeBatch(code, torch.tensor([4])))


def test_gaze_before_the_text() -> None:
    model = llama()
    ids, mask, code, start = padded([prompt(2, 6, 2), prompt(1, 4, 1, seed=5)])
    net = GazeConcat(WIDTH, stretches=2, hidden=8)
    made = net.inputs(model, ids, mask, CodeBatch(code, start, weights_of(code)))
    assert made.added == 3 and made.embeddings.shape == (2, 13, WIDTH)
    words = model.get_input_embeddings()(ids)
    # the second prompt has four places of padding, then gaze, then its six tokens
    assert made.mask[1].tolist() == [0] * 4 + [1] * 9
    torch.testing.assert_close(made.embeddings[1, 7:], words[1, 4:])
    torch.testing.assert_close(made.embeddings[1, 6], net.marker)
    assert made.batch.code[1].nonzero()[:, 0].tolist() == [8, 9, 10, 11]
    assert made.batch.start.tolist() == [12, 12]
    told = CodeBatch(code[:1], start[:1], torch.arange(10.0)[None] * code[:1])
    # shares (2, 3, 4) and (5, 6, 7) of 27 for six tokens: means 2/3 and 4/3 of even gaze
    assert net.stretched(told)[0, :, 0].tolist() == pytest.approx([2 / 3, 4 / 3])
    out = model(inputs_embeds=made.embeddings, attention_mask=made.mask)
    out.logits.sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in net.parameters())
    alone = net.inputs(
        model, ids[1:, 4:], mask[1:, 4:], CodeBatch(code[1:, 4:], start[1:] - 4,
        weights_of(code)[1:, 4:])
    )  # fmt: skip
    torch.testing.assert_close(alone.embeddings[0], made.embeddings[1, 4:])


def test_code_in_the_order_of_looking() -> None:
    ids, code = torch.arange(10, 18), torch.tensor([0, 1, 1, 1, 1, 0, 0, 0]).bool()
    looked = [3, 3, 1, 4, 1]
    new, mask = Reordering().rewritten(ids, code, looked)
    assert new.tolist() == [10, 11, 12, 13, 14, 13, 11, 14, 11, 15, 16, 17]
    assert mask.tolist() == [False] + [True] * 8 + [False] * 3
    new, mask = Reordering(mode="replace", longest=3).rewritten(ids, code, looked)
    assert new.tolist() == [10, 13, 11, 14, 15, 16, 17]
    assert mask.tolist() == [False, True, True, True, False, False, False]
    for mode in ("append", "replace"):
        assert Reordering(mode=mode).rewritten(ids, code, [])[0].tolist() == ids.tolist()
    with pytest.raises(DataError, match="one piece"):
        Reordering().rewritten(ids, code.roll(4), looked)
    with pytest.raises(DataError, match="are code"):
        Reordering().rewritten(ids, code, [0])
    with pytest.raises(UnknownNameError, match="append"):
        Reordering(mode="apend")


def test_every_prior_is_registered_with_its_source() -> None:
    names = registry.gaze_priors.names()
    assert {"eyelayer", "gain", "attention_bias", "gaze_add", "gaze_concat",
            "attention_supervision", "reordering", "steering"} <= set(names)  # fmt: skip
    for entry in registry.gaze_priors:
        assert entry.info["citation"] and entry.info["description"]
        assert entry.obj.place in ("block", "attention", "embeddings", "inputs", "loss")
