"""EyeLayer in decoders and encoders: identity, causality, cache, padding, gradients, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.models.gaze_prior import eyelayer as room
from gazeattn.models.gaze_prior.attach import FACTS, WEIGHTS, attach, load_prior, place_of
from gazeattn.models.gaze_prior.base import CodeBatch, kl_from_log
from gazeattn.models.gaze_prior.eyelayer import EyeLayer

from .tiny import WIDTH, bert, llama, padded, prompt, stirred


def layer(**options: Any) -> EyeLayer:
    torch.manual_seed(3)
    return EyeLayer(WIDTH, **{"hidden": 8, "rank": 4, "components": 2, **options}).eval()


def logits(model: Any, ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=mask)
    return out.logits if hasattr(out, "logits") else out.last_hidden_state


@pytest.mark.parametrize("content", [0, 3])
@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_identity_at_the_start_and_after_removal(kind: str, content: int) -> None:
    model = llama() if kind == "decoder" else bert()
    ids, mask, code, start = padded([prompt(), prompt(1, 5, 1, seed=1)], "right")
    before, names = logits(model, ids, mask), list(model.state_dict())
    held = attach(model, layer(content=content, causal=kind == "decoder"), 1)
    with held.code(code, start):
        assert logits(model, ids, mask).equal(before)
    assert list(model.state_dict()) == names  # the prior is no part of the model
    stirred(held.prior)
    with held.code(code, start):
        assert not torch.allclose(logits(model, ids, mask), before)
    assert logits(model, ids, mask).equal(before)  # outside it does nothing
    held.remove()
    assert logits(model, ids, mask).equal(before) and not held.inside
    with pytest.raises(DataError, match="removed"), held.code(code, start):
        pass


def test_redistribution_by_hand() -> None:
    """Two code tokens, gaze given as 3 to 1, value and output matrices of ones."""
    net = EyeLayer(2, rank=1, prior="given")
    with torch.no_grad():
        net.value.weight.fill_(1)
        net.out.weight.fill_(1)
    states = torch.tensor([[[1.0, 2], [10, 20], [0, 0], [5, 5]]])
    code = torch.tensor([[True, True, False, False]])
    net.begin(CodeBatch(code, torch.tensor([2]), torch.tensor([[3.0, 1, 99, 99]])))
    # values 3 and 30: their mean is 3 * 0.75 + 30 * 0.25 = 9.75
    assert net(states)[0].tolist() == [[1, 2], [10, 20], [9.75, 9.75], [14.75, 14.75]]
    assert net.log_g is not None
    assert net.log_g.exp()[0].tolist() == pytest.approx([0.75, 0.25, 0, 0])


def test_the_future_does_not_reach_the_past() -> None:
    model = llama()
    held = attach(model, layer(content=2), 0)
    stirred(held.prior)
    ids, code = prompt(2, 6, 2)
    ids = torch.cat([ids, torch.randint(3, 50, (6,))])[None]
    code = torch.nn.functional.pad(code, (0, 6))[None]
    start = torch.tensor([9])
    with held.code(code, start):
        whole = logits(model, ids)[0]
    for at in range(1, 16):
        changed = ids.clone()
        changed[0, at] = (changed[0, at] - 3 + 17) % 47 + 3
        with held.code(code, start):
            found = logits(model, changed)[0]
        assert found[:at].equal(whole[:at]), at
        assert not torch.allclose(found[at], whole[at]), at


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(side: str) -> None:
    model = llama()
    held = attach(model, layer(content=2), 1)
    stirred(held.prior)
    prompts = [prompt(2, 9, 2), prompt(1, 4, 1, seed=5)]
    alone = []
    for own in prompts:
        ids, mask, code, start = padded([own])
        with held.code(code, start):
            alone.append((logits(model, ids, mask)[0], held.log_g[0]))
    ids, mask, code, start = padded(prompts, side)
    with held.code(code, start), torch.no_grad():
        # positions count the tokens that are there, as in generation
        place = (mask.cumsum(1) - 1).clamp_min(0)
        found = model(input_ids=ids, attention_mask=mask, position_ids=place).logits
        for k in (0, 1):
            there = mask[k].bool()
            torch.testing.assert_close(found[k][there], alone[k][0], atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(held.log_g[k][there], alone[k][1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("beams", [1, 3])
def test_cached_decoding_is_uncached_decoding(beams: int) -> None:
    model = llama()
    held = attach(model, layer(content=2), 1)
    stirred(held.prior, scale=1.0)
    ids, mask, code, start = padded([prompt(2, 9, 2), prompt(1, 4, 1, seed=5)])
    options = dict(max_new_tokens=8, min_new_tokens=8, do_sample=False, num_beams=beams)
    texts = {}
    for cached in (True, False):
        with held.code(code, start):
            texts[cached] = model.generate(
                input_ids=ids, attention_mask=mask, use_cache=cached, **options
            )
    assert texts[True].tolist() == texts[False].tolist()
    plain = model.generate(input_ids=ids, attention_mask=mask, **options)
    assert plain.tolist() != texts[True].tolist()


def test_states_of_cached_steps() -> None:
    model = llama()
    held = attach(model, layer(), 1)
    stirred(held.prior)
    ids, code = prompt(2, 6, 1)
    new = torch.randint(3, 50, (1, 4))
    whole = torch.cat([ids[None], new], 1)
    start = torch.tensor([8])
    with held.code(torch.nn.functional.pad(code, (0, 4))[None], start):
        full = logits(model, whole)[0, 9:]
    with held.code(code[None], start), torch.no_grad():
        out = model(input_ids=ids[None], use_cache=True)
        steps = []
        for k in range(4):
            out = model(input_ids=new[:, k : k + 1], past_key_values=out.past_key_values)
            steps.append(out.logits[0, 0])
    torch.testing.assert_close(torch.stack(steps), full, atol=1e-5, rtol=1e-4)


def test_steps_without_the_prompt_are_refused() -> None:
    model = llama()
    held = attach(model, layer(), 1)
    ids, _, code, start = padded([prompt()])
    with held.code(code, start), pytest.raises(DataError, match="part of the prompt"):
        logits(model, ids[:, :1])
    two = padded([prompt(), prompt(seed=1)])
    with held.code(two[2], two[3]), pytest.raises(DataError, match="another batch"):
        logits(model, ids)


def test_gradient_reaches_what_should_train_alone() -> None:
    from peft import LoraConfig, get_peft_model

    model = llama()
    tuned = get_peft_model(
        model, LoraConfig(r=2, target_modules=["q_proj", "v_proj"], lora_dropout=0.0)
    )
    held = attach(tuned, layer(content=2), 1)
    stirred(held.prior)
    ids, mask, code, start = padded([prompt(), prompt(1, 5, 1, seed=1)])
    target = torch.where(code, torch.rand(code.shape), 0.0)
    target = target / target.sum(1, keepdim=True)
    # three tokens of a summary; padding in between is not looked at
    ids, mask = torch.cat([ids, ids[:, :3]], 1), torch.nn.functional.pad(mask, (0, 3), value=1)
    with held.code(torch.nn.functional.pad(code, (0, 3)), start):
        target = torch.nn.functional.pad(target, (0, 3))
        out = tuned(input_ids=ids, attention_mask=mask, labels=ids)
        (out.loss + held.loss(target)).backward()
    for name, p in tuned.named_parameters():
        assert (p.grad is not None) == ("lora_" in name) == p.requires_grad, name
    for name, p in held.prior.named_parameters():
        assert p.grad is not None and bool((p.grad != 0).any()), name
    assert "gaze" not in " ".join(tuned.state_dict())


def test_stage_a_trains_the_mixture_by_gaze_alone() -> None:
    model = llama().requires_grad_(False)
    held = attach(model, layer(), 1)
    ids, mask, code, start = padded([prompt(2, 12, 1), prompt(1, 7, 1, seed=4)])
    target = torch.zeros(code.shape)
    for k in (0, 1):
        at = code[k].nonzero()[:, 0]
        target[k, at[-2:]] = 0.5  # everybody looks at the end
    optimiser = torch.optim.Adam(held.prior.parameters(), 0.02)
    losses = []
    for _ in range(60):
        with held.code(code, start):
            model(input_ids=ids, attention_mask=mask)
            loss = held.loss(target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 < 1.0 < losses[0]


def test_loss_by_hand() -> None:
    code = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])
    log_g = torch.tensor([[0.5, 0.5, 0], [1, 0, 0], [0, 0, 0]]).log()
    target = torch.tensor([[0.25, 0.75, 0], [1, 0, 0], [0, 0, 0]])
    first = 0.25 * np.log(0.5) + 0.75 * np.log(1.5)
    assert float(kl_from_log(target, log_g, code)) == pytest.approx(first / 2)
    only = torch.tensor([True, False, True])
    assert float(kl_from_log(target, log_g, code, only)) == pytest.approx(first)
    assert float(kl_from_log(target, log_g, code, torch.zeros(3).bool())) == 0
    with pytest.raises(DataError, match="off the code"):
        kl_from_log(target.roll(1, 1), log_g, code)


def test_several_blocks_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    net = layer(content=2)
    stirred(net)
    states = torch.randn(2, 30, WIDTH, requires_grad=True)
    code = torch.zeros(2, 30, dtype=torch.bool)
    code[:, 2:9] = True
    out, grads = [], []
    for size in (256, 5):
        monkeypatch.setattr(room, "QUERIES", size)
        net.begin(CodeBatch(code, torch.tensor([10, 12])))
        net.zero_grad()
        states.grad = None
        found = net(states)
        found.square().sum().backward()
        assert states.grad is not None
        out.append(found.detach())
        grads.append([states.grad.clone(), *(p.grad.clone() for p in net.parameters())])
    torch.testing.assert_close(out[0], out[1])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
    changed = (out[0] != states.detach()).any(-1)
    assert changed[0].nonzero()[:, 0].tolist() == list(range(10, 30))
    assert changed[1].nonzero()[:, 0].tolist() == list(range(12, 30))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_kept(dtype: torch.dtype) -> None:
    net = layer()
    stirred(net)
    ids, code = prompt()
    net.begin(CodeBatch(code[None], torch.tensor([len(ids) - 1])))
    out = net(torch.randn(1, len(ids), WIDTH).to(dtype))
    assert out.dtype == dtype and bool(torch.isfinite(out).all())


@pytest.mark.parametrize("prior", ["uniform", "recency", "length"])
def test_controls_are_what_they_say(prior: str) -> None:
    net = layer(prior=prior)
    code = torch.tensor([[False, True, True, True, True, False]])
    letters = torch.tensor([[9.0, 1, 2, 3, 2, 9]])
    net.begin(CodeBatch(code, torch.tensor([5]), letters))
    net(torch.randn(1, 6, WIDTH))
    assert net.log_g is not None
    g = net.log_g.exp()[0]
    expected = {
        "uniform": [0.25] * 4,
        "length": [1 / 8, 2 / 8, 3 / 8, 2 / 8],
        "recency": (2.0 ** (10 * np.arange(4) / 3) / (2.0 ** (10 * np.arange(4) / 3)).sum()),
    }[prior]
    assert g[1:5].tolist() == pytest.approx(list(expected)) and float(g[0] + g[5]) == 0
    assert not any("mixture" in n for n, _ in net.named_parameters())


def test_files(tmp_path: Path) -> None:
    model = llama()
    ids, mask, code, start = padded([prompt()])
    held = attach(model, layer(content=2), "model.layers.2")
    stirred(held.prior)
    with held.code(code, start):
        before = logits(model, ids, mask)
    held.save(tmp_path / "a b")
    held.remove()
    again = load_prior(model, tmp_path / "a b")
    assert again.layer == 2 and again.prior.arguments() == held.prior.arguments()
    with again.code(code, start):
        assert logits(model, ids, mask).equal(before)
    again.remove()
    facts = json.loads((tmp_path / "a b" / FACTS).read_text())
    (tmp_path / "a b" / FACTS).write_text(json.dumps({**facts, "format": "other"}))
    with pytest.raises(DataError, match="format"):
        load_prior(model, tmp_path / "a b")
    (tmp_path / "a b" / FACTS).write_text(json.dumps({**facts, "arguments": {"width": 8}}))
    with pytest.raises(DataError, match="damaged"):
        load_prior(model, tmp_path / "a b")
    (tmp_path / "a b" / FACTS).write_text(json.dumps(facts))
    with open(tmp_path / "a b" / WEIGHTS, "r+b") as file:
        file.seek(-3, 2)
        file.write(b"xyz")
    with pytest.raises(DataError, match="not those that were saved"):
        load_prior(model, tmp_path / "a b")
    with pytest.raises(DataError, match="no gaze prior"):
        load_prior(model, tmp_path)


def test_places_in_a_model() -> None:
    model = llama(10)
    assert place_of(model, None) == ("model.layers.6", 6)
    assert place_of(model, 0.3) == place_of(model, "0.3") == ("model.layers.3", 3)
    assert place_of(model, -1) == place_of(model, "-1") == ("model.layers.9", 9)
    assert place_of(model, 1.0)[1] == 9 and place_of(model, "layers.4")[1] == 4
    for bad in (10, -11, 1.5, "layers.10", "mlp"):
        with pytest.raises(DataError):
            place_of(model, bad)
    assert place_of(bert(), 1)[0] == "encoder.layer.1"
    with pytest.raises(CapabilityError):
        place_of(torch.nn.Linear(2, 2), 0)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="width"):
        attach(llama(), EyeLayer(8), 1)
    with pytest.raises(UnknownNameError, match="recency"):
        layer(prior="recent")
    code = torch.tensor([[True, False, True]])
    for bad, says in (
        (CodeBatch(code, torch.tensor([1])), "behind the end"),
        (CodeBatch(code, torch.tensor([3])), "last token"),
        (CodeBatch(code.int(), torch.tensor([2])), "mask"),
        (CodeBatch(code, torch.tensor([2]), torch.ones(1, 2)), "one weight per token"),
    ):
        with pytest.raises(DataError, match=says):
            layer().begin(bad)
