"""EyeLayer in the models that install with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gazeattn import LanguageModel
from gazeattn.errors import MissingAssetError
from gazeattn.models.gaze_prior.attach import attach, load_prior
from gazeattn.models.gaze_prior.eyelayer import EyeLayer

from .tiny import stirred

CODE = "def mean(values):\n    total = sum(values)\n    return total / len(values)\n"


def loaded(name: str) -> tuple[Any, Any]:
    try:
        lm = LanguageModel.load(name)
    except MissingAssetError as error:
        pytest.skip(f"{name} is not installed: {error}")
    return lm.model, lm.tokenizer


def told(
    tokenizer: Any, before: str, after: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return ids, code mask and start of a prompt with code."""
    text = before + CODE + after
    made = tokenizer(text, return_offsets_mapping=True)
    ids = torch.tensor([made["input_ids"]])
    ends = torch.tensor(made["offset_mapping"])
    inside = (ends[:, 0] >= len(before)) & (ends[:, 1] <= len(before) + len(CODE))
    code = (inside & (ends[:, 1] > ends[:, 0]))[None]
    return ids, code, torch.tensor([ids.shape[1] - 1])


def test_smollm2(tmp_path: Path) -> None:
    model, tokenizer = loaded("smollm2-135m")
    ids, code, start = told(tokenizer, "Code:\n", "Summary:")
    with torch.no_grad():
        before = model(input_ids=ids).logits
    held = attach(model, EyeLayer(model.config.hidden_size))
    assert held.block == "model.layers.18"  # 0.6 of 30
    options = dict(input_ids=ids, max_new_tokens=8, do_sample=False)
    with held.code(code, start), torch.no_grad():
        assert model(input_ids=ids).logits.equal(before)
        plain = model.generate(**options)
        assert held.log_g is not None
        assert float(held.log_g.exp().sum()) == pytest.approx(1, abs=1e-4)
    stirred(held.prior, scale=0.1)
    with held.code(code, start):
        cached = model.generate(**options)
        assert cached.tolist() == model.generate(**options, use_cache=False).tolist()
    assert cached.tolist() != plain.tolist()
    changed = ids.clone()
    changed[0, 12] += 1
    with held.code(code, start), torch.no_grad():
        one, two = model(input_ids=ids).logits[0], model(input_ids=changed).logits[0]
    # sums of other shapes differ in their last digits in such kernels: not to the bit
    assert torch.allclose(one[:12], two[:12], atol=1e-4)
    assert not torch.allclose(one[12:], two[12:], atol=1e-2)
    held.save(tmp_path)
    held.remove()
    with torch.no_grad():
        assert model(input_ids=ids).logits.equal(before)
    again = load_prior(model, tmp_path)
    with again.code(code, start), torch.no_grad():
        assert model(input_ids=ids).logits[0].equal(one)
    again.remove()


def test_minilm() -> None:
    model, tokenizer = loaded("minilm")
    ids, code, start = told(tokenizer, "", "")
    with torch.no_grad():
        before = model(input_ids=ids).last_hidden_state
    held = attach(model, EyeLayer(model.config.hidden_size, causal=False), 3)
    with held.code(code, start), torch.no_grad():
        assert model(input_ids=ids).last_hidden_state.equal(before)
    stirred(held.prior, scale=0.1)
    with held.code(code, start), torch.no_grad():
        moved = model(input_ids=ids).last_hidden_state
    assert not torch.allclose(moved, before, atol=1e-3)
    held.remove()
    with torch.no_grad():
        assert model(input_ids=ids).last_hidden_state.equal(before)
