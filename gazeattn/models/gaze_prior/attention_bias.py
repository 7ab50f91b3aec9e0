"""Gaze as a learned bias on the scores of attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gazeattn.errors import DataError
from gazeattn.models.gaze_prior.base import CodeBatch
from gazeattn.models.gaze_prior.biasing import BiasedAttention, relative
from gazeattn.models.gaze_prior.mixture import GazeMixture
from gazeattn.registry import register_gaze_prior


@register_gaze_prior(
    "attention_bias",
    description="gaze, predicted or given, added to the scores of attention with a weight per head",
    citation="this package",
)
class AttentionBias(BiasedAttention):
    """Adds ``alpha_h log(n g_s)`` to the score that head h gives code token s.

    ``alpha`` is 0 at the start: the model is what it was, up to the rounding of the kernel that
    takes a mask. Queries are those from the end of the prompt on (decoder) or at code tokens
    (encoder).

    Parameters
    ----------
    width, heads
        Of the model: width of its states, heads of a block.
    layers
        Numbers of the blocks.
    components, hidden, content
        See `gazeattn.models.gaze_prior.mixture.GazeMixture`; gaze is told by the state before
        the first of the blocks.
    given
        Gaze is the weights of the batch, not predicted.
    causal
    """

    def __init__(
        self,
        width: int,
        heads: int,
        layers: Sequence[int],
        *,
        components: int = 4,
        hidden: int = 128,
        content: int = 0,
        given: bool = False,
        causal: bool = True,
    ) -> None:
        super().__init__(layers, causal)
        self._arguments = {
            "width": int(width), "heads": int(heads), "layers": self.layers,
            "components": int(components), "hidden": int(hidden), "content": int(content),
            "given": bool(given), "causal": self.causal,
        }  # fmt: skip
        self.mixture = None if given else GazeMixture(width, components, hidden, content)
        self.alpha = nn.Parameter(torch.zeros(len(self.layers), heads))

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return dict(self._arguments)

    def read(self, layer: int, states: Tensor, told: CodeBatch) -> None:
        """Predict gaze from the state at the end of the prompt, before the first block."""
        if layer != min(self.layers):
            return
        told = told.padded(states.shape[1])
        if self.mixture is None:
            self.log_g = told.shares().log()
            return
        if self.causal:
            rows = torch.arange(len(states), device=states.device)
            asked = states[rows, told.start][:, None]
        else:
            asked = told.mean_state(states)
        self.log_g = self.mixture(asked, told.code, self.mixture.keys(states))[:, 0]

    def scores(self, layer: int, heads: int, told: CodeBatch, dtype: torch.dtype) -> Tensor | None:
        """Return the bias of each head, (batch, heads, length)."""
        if self.alpha.shape[1] != heads:
            raise DataError("heads of a block", expected=heads, found=self.alpha.shape[1])
        assert self.log_g is not None
        code = told.padded(self.log_g.shape[1]).code
        alpha = self.alpha[self.layers.index(layer)]
        bias = alpha[None, :, None] * relative(self.log_g, code)[:, None]
        return bias.to(dtype)
