"""Small models with random weights, and batches of prompts with code in them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

WIDTH = 16


def llama(layers: int = 3, attention: str = "sdpa", **options: Any) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50, hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
        bos_token_id=1, eos_token_id=2, pad_token_id=0, attn_implementation=attention, **options,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def bert(layers: int = 3) -> BertModel:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=layers,
        num_attention_heads=4, max_position_embeddings=64,
    )  # fmt: skip
    return BertModel(config).eval()


def prompt(
    before: int = 2, n_code: int = 9, after: int = 2, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Return ids and code mask of one prompt."""
    made = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 50, (before + n_code + after,), generator=made)
    code = torch.zeros(len(ids), dtype=torch.bool)
    code[before : before + n_code] = True
    return ids, code


def padded(
    prompts: list[tuple[Tensor, Tensor]], side: str = "left"
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return ids, attention mask, code and start of several prompts."""
    most = max(len(i) for i, _ in prompts)
    ids = torch.zeros(len(prompts), most, dtype=torch.long)
    mask, code = torch.zeros_like(ids), torch.zeros(len(prompts), most, dtype=torch.bool)
    start = torch.zeros(len(prompts), dtype=torch.long)
    for k, (own, where) in enumerate(prompts):
        at = slice(most - len(own), most) if side == "left" else slice(0, len(own))
        ids[k, at], mask[k, at], code[k, at] = own, 1, where
        start[k] = at.stop - 1
    return ids, mask, code, start


def stirred(module: torch.nn.Module, seed: int = 1, scale: float = 0.3) -> None:
    """Give all parameters random values, so that nothing is at its start any more."""
    made = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(scale * torch.randn(p.shape, generator=made))
