"""Texts of tokens side by side, as a model takes them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gazeattn.errors import DataError

if TYPE_CHECKING:
    from gazeattn.lm.tokens import Encoded


class Batch:
    """Texts side by side, padded to one length.

    Attributes
    ----------
    inputs : dict
        Arguments of the model's forward method.
    spans : list of (int, int)
        First and last + 1 real token of each text.
    """

    def __init__(self, model: nn.Module, encoded: Sequence[Encoded], side: str = "right") -> None:
        lengths = [len(e.input_ids) for e in encoded]
        if not lengths or min(lengths) < 1:
            raise DataError("a text without tokens cannot be run", row=lengths.index(0))
        n, device = max(lengths), next(model.parameters()).device
        pad = getattr(getattr(model, "config", None), "pad_token_id", None) or 0
        ids = torch.full((len(encoded), n), int(pad), dtype=torch.int64)
        mask = torch.zeros_like(ids)
        self.spans = []
        for row, (e, length) in enumerate(zip(encoded, lengths, strict=True)):
            start = n - length if side == "left" else 0
            ids[row, start : start + length] = torch.as_tensor(e.input_ids)
            mask[row, start : start + length] = 1
            self.spans.append((start, start + length))
        self.inputs: dict[str, Any] = {"input_ids": ids.to(device)}
        known = inspect.signature(model.forward).parameters
        if min(lengths) < n:
            self.inputs["attention_mask"] = mask.to(device)
            if side == "left" and "position_ids" in known and not _counts_positions(model):
                self.inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp_min(0).to(device)
        if "use_cache" in known or "input_ids" not in known:  # the latter: a wrapped forward
            self.inputs["use_cache"] = False
        limit = getattr(getattr(model, "config", None), "max_position_embeddings", None)
        if isinstance(limit, int) and _counts_positions(model):
            limit -= int(pad) + 1
        if isinstance(limit, int) and 0 < limit < n:
            raise DataError(
                "the text is longer than the model's context",
                expected=f"at most {limit} tokens",
                found=n,
                hint="Cut it into windows first",
            )


def _counts_positions(model: nn.Module) -> bool:
    """Whether the model numbers positions by the padding token itself, as RoBERTa does."""
    return any(hasattr(m, "create_position_ids_from_input_ids") for m in model.modules())
