"""Attention of chosen heads, pulled towards a human profile by a loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gazeattn.errors import CapabilityError, DataError
from gazeattn.models.gaze_prior.base import GazePrior, kl_from_log
from gazeattn.registry import register_gaze_prior

LEAST = 1e-9


@register_gaze_prior(
    "attention_supervision",
    description="a loss that pulls the attention of chosen heads towards human gaze",
    citation="Sood et al. 2020, NeurIPS; this package",
)
class AttentionSupervision(GazePrior):
    """``KL(human || attention)`` of the chosen heads, at the last token of the prompt.

    Attention of each head is normalised over the code tokens; ``log_g`` is the logarithm of the
    mean of the heads, the loss is the mean of the heads' losses. The model's outputs are not
    changed: it has no parameters of its own, and pulls on those that make the attention.

    Parameters
    ----------
    heads
        Chosen heads of each block, by its number.
    causal
        Of the model; in an encoder the mean row over code tokens counts.
    """

    place: ClassVar[str] = "loss"

    def __init__(
        self, heads: Mapping[int, Sequence[int]] | Mapping[str, Sequence[int]],
        *, causal: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heads = {int(k): sorted({int(h) for h in v}) for k, v in heads.items()}
        self.causal = bool(causal)
        if not any(self.heads.values()):
            raise DataError("supervision of attention needs a head", expected="{layer: [head]}")
        self._rows: dict[int, Tensor] = {}

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {"heads": {str(k): v for k, v in self.heads.items()}, "causal": self.causal}

    def hooks(self, model: nn.Module) -> list[Any]:
        """Listen to the attention modules of the chosen blocks; return the handles."""
        from gazeattn.models.gaze_prior.attach import place_of

        handles = []
        for k in self.heads:
            name, number = place_of(model, k)
            block = model.get_submodule(name)
            # the innermost one: those around it pass its weights on
            parts = [m for n, m in block.named_modules() if n.endswith(("self_attn", ".self",
                     "attn"))]  # fmt: skip
            if not parts:
                raise CapabilityError(f"block {name} has no attention module that is known")
            handles.append(parts[-1].register_forward_hook(self._listen(number)))
        return handles

    def _listen(self, layer: int) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if self.told is None:
                return
            weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
            if not isinstance(weights, Tensor) or weights.ndim != 4:
                raise CapabilityError(
                    "the model does not return its attention: load it with "
                    "attn_implementation='eager'"
                )
            n, known = weights.shape[2], self.told.code.shape[1]
            if n < known:  # steps of a generation
                return
            mine = self.heads[layer]
            if mine[-1] >= weights.shape[1] or mine[0] < 0:
                raise DataError(f"heads of block {layer}", found=mine,
                                expected=f"0 to {weights.shape[1] - 1}")  # fmt: skip
            told = self.told.repeated(len(weights))
            chosen = weights[:, mine]
            if self.causal:
                rows = torch.arange(len(weights), device=weights.device)
                found = chosen[rows, :, told.start]
            else:
                code = nn.functional.pad(told.code, (0, n - known)).to(chosen.dtype)
                share = code / code.sum(1, keepdim=True).clamp_min(1)
                found = torch.einsum("bhqk,bq->bhk", chosen, share)
            code = nn.functional.pad(told.code, (0, found.shape[-1] - known))
            found = found.float().masked_fill(~code[:, None], 0)
            self._rows[layer] = found / found.sum(-1, keepdim=True).clamp_min(LEAST)
            self.log_g = torch.cat(list(self._rows.values()), 1).mean(1).clamp_min(LEAST).log()

        return hook

    def begin(self, batch: Any) -> None:
        """Take in what is known of the next batch."""
        super().begin(batch)
        self._rows = {}

    def gaze_loss(self, target: Tensor, has: Tensor | None = None) -> Tensor:
        """Return the mean over heads of KL(target || attention)."""
        if not self._rows or self.told is None:
            raise DataError("no attention was seen", hint="run the model inside `code`")
        rows = torch.cat(list(self._rows.values()), 1).clamp_min(LEAST).log()
        code = self.told.code
        code = nn.functional.pad(code, (0, rows.shape[-1] - code.shape[1]))
        target = nn.functional.pad(target, (0, rows.shape[-1] - target.shape[1]))
        each = [kl_from_log(target, rows[:, k], code, has) for k in range(rows.shape[1])]
        return torch.stack(each).mean()
