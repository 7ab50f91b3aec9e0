"""Attention steered towards a human profile while a model runs, without any training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.gaze_prior.base import CodeBatch
from gazeattn.models.gaze_prior.biasing import BiasedAttention, relative
from gazeattn.registry import register_gaze_prior

MODES = ("emphasis", "profile")


@register_gaze_prior(
    "steering",
    description="chosen heads look at what people looked at; nothing is trained",
    citation="Zhang et al. 2024, ICLR (PASTA)",
)
class Steering(BiasedAttention):
    """Changes the attention of chosen heads by a profile that the batch gives as weights.

    ``"emphasis"``: the tokens that hold the largest weights, `share` of the code, are left as
    they are, and the attention on all other code tokens is multiplied by `strength` before it is
    normalised (Zhang et al. 2024). ``"profile"``: attention on code token s is multiplied by
    ``(n a_s) ** strength``. Tokens off the code keep their scores.

    Parameters
    ----------
    heads
        Heads of each block that are steered, by the block's number.
    mode
    strength
        For ``"emphasis"`` a factor below 1, for ``"profile"`` an exponent.
    share
        Of the code tokens that are emphasised.
    causal
    """

    def __init__(
        self,
        heads: Mapping[int, Sequence[int]] | Mapping[str, Sequence[int]],
        *,
        mode: str = "emphasis",
        strength: float = 0.01,
        share: float = 0.3,
        causal: bool = True,
    ) -> None:
        chosen = {int(k): sorted({int(h) for h in v}) for k, v in heads.items()}
        super().__init__(list(chosen), causal)
        if mode not in MODES:
            raise UnknownNameError("mode of steering", mode, MODES)
        if mode == "emphasis" and not 0 < strength <= 1:
            raise DataError("factor of what is not emphasised", expected="0 to 1", found=strength)
        if not 0 < share <= 1:
            raise DataError("share of the code that is emphasised", expected="0 to 1", found=share)
        self.heads, self.mode = chosen, mode
        self.strength, self.share = float(strength), float(share)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {"heads": {str(k): v for k, v in self.heads.items()}, "mode": self.mode,
                "strength": self.strength, "share": self.share, "causal": self.causal}  # fmt: skip

    def change(self, told: CodeBatch) -> Tensor:
        """Return what is added to the scores of a steered head, (batch, length)."""
        weights = told.shares()
        if self.mode == "profile":
            return self.strength * relative(weights.log(), told.code)
        n = told.code.sum(1)
        most = (self.share * n).ceil().long()
        low = weights.masked_fill(~told.code, -1)
        rank = low.argsort(dim=1, descending=True, stable=True).argsort(1)
        emphasised = (rank < most[:, None]) & (weights > 0)
        rest = told.code & ~emphasised & emphasised.any(1, keepdim=True)
        return rest * math.log(self.strength)

    def scores(self, layer: int, heads: int, told: CodeBatch, dtype: torch.dtype) -> Tensor | None:
        """Return the change of each head, (batch, heads, length)."""
        mine = self.heads.get(layer, [])
        if not mine:
            return None
        if mine[-1] >= heads or mine[0] < 0:
            raise DataError(f"heads of block {layer}", expected=f"0 to {heads - 1}", found=mine)
        steered: Tensor = nn.functional.one_hot(torch.tensor(mine), heads).sum(0)
        steered = steered.to(told.code.device)
        return (steered[None, :, None] * self.change(told)[:, None]).to(dtype)
