"""Gaze as tokens of its own before the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gazeattn.models.gaze_prior.base import CodeBatch, GazePrior
from gazeattn.models.gaze_prior.gaze_add import FEATURES, embeddings_of, gaze_features
from gazeattn.models.gaze_prior.mixture import code_positions
from gazeattn.registry import register_gaze_prior


@dataclass(frozen=True)
class Inputs:
    """A batch whose sequences have become longer.

    Attributes
    ----------
    embeddings : Tensor, shape (batch, length, width)
    mask : Tensor of int64, shape (batch, length)
    batch : CodeBatch
    added : int
        Places before the old first one.
    """

    embeddings: Tensor
    mask: Tensor
    batch: CodeBatch
    added: int


@register_gaze_prior(
    "gaze_concat",
    description="gaze that is given, as embeddings and a marker before the text",
    citation="Lopez-Cardona et al. 2025, ICLR (GazeReward)",
)
class GazeConcat(GazePrior):
    """Puts one embedding per stretch of code, and a marker behind them, before the text.

    The code is divided into `stretches` of equal length; each has the mean of its tokens' gaze
    (`gaze_features`) as an embedding. As the model meets more tokens, it is not the same as
    before from the start on; `inputs` makes what it is run on.

    Parameters
    ----------
    width
        Of the embeddings.
    stretches
    hidden
    scale
        Size of the new embeddings at the start, such as that of words.
    """

    place: ClassVar[str] = "inputs"

    def __init__(
        self, width: int, *, stretches: int = 8, hidden: int = 64, scale: float = 0.1
    ) -> None:
        super().__init__()
        self._arguments = {"width": int(width), "stretches": int(stretches),
                           "hidden": int(hidden), "scale": float(scale)}  # fmt: skip
        self.stretches = int(stretches)
        self.net = nn.Sequential(
            nn.Linear(FEATURES, hidden), nn.GELU(), nn.Linear(hidden, width), nn.LayerNorm(width)
        )
        norm = self.net[-1]
        assert isinstance(norm, nn.LayerNorm)
        nn.init.constant_(norm.weight, scale)
        self.marker = nn.Parameter(scale * torch.randn(width))
        self.order = nn.Parameter(0.1 * scale * torch.randn(self.stretches, width))

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return dict(self._arguments)

    def hooks(self, model: nn.Module) -> list[Any]:
        """Return nothing: `inputs` is called instead."""
        return []

    def inputs(self, model: nn.Module, ids: Tensor, mask: Tensor, batch: CodeBatch) -> Inputs:
        """Return what the model is run on: ``inputs_embeds``, ``attention_mask``.

        Parameters
        ----------
        model
        ids, mask : Tensor of int64, shape (batch, length)
        batch
            With weights: the gaze.
        """
        batch.check()
        words = embeddings_of(model)(ids)
        eyes = self.net(self.stretched(batch)) + self.order
        marker = self.marker.expand(len(ids), 1, -1)
        new = torch.cat([eyes, marker], 1).to(words.dtype)
        added = new.shape[1]
        # left padding stays on the left of everything: gaze stands right before the first token
        first = mask.int().argmax(1)
        place = torch.arange(ids.shape[1] + added, device=ids.device)[None]
        within = place - first[:, None]
        is_new = (within >= 0) & (within < added)
        old = torch.where(within < 0, place, place - added).clamp_min(0)
        take = old.clamp_max(ids.shape[1] - 1)

        def moved(values: Tensor) -> Tensor:
            index = take if values.ndim == 2 else take[..., None].expand(-1, -1, values.shape[-1])
            return values.gather(1, index)

        own = within.clamp(0, added - 1)[..., None].expand(-1, -1, new.shape[-1])
        embeddings = torch.where(is_new[..., None], new.gather(1, own), moved(words))
        weights = batch.weights
        longer = CodeBatch(
            moved(batch.code) & ~is_new,
            batch.start + added,
            None if weights is None else moved(weights).masked_fill(is_new, 0),
        )
        return Inputs(embeddings, moved(mask).masked_fill(is_new, 1), longer, added)

    def stretched(self, batch: CodeBatch) -> Tensor:
        """Return mean features of gaze per stretch of code, (batch, stretches, FEATURES)."""
        features = gaze_features(batch)
        position, _ = code_positions(batch.code)
        which = (position * self.stretches).long().clamp_max(self.stretches - 1)
        one = nn.functional.one_hot(which, self.stretches).float() * batch.code[..., None]
        sums = torch.einsum("bts,btf->bsf", one, features)
        return sums / one.sum(1).clamp_min(1)[..., None]
