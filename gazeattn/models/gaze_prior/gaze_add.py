"""Gaze added to the embeddings of code tokens."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gazeattn.errors import CapabilityError
from gazeattn.models.gaze_prior.base import CodeBatch, GazePrior
from gazeattn.models.gaze_prior.biasing import relative
from gazeattn.registry import register_gaze_prior

FEATURES = 4


def gaze_features(told: CodeBatch) -> Tensor:
    """Return what embeddings are told of each token, (batch, length, FEATURES); 0 off the code.

    Share of gaze times the number of code tokens, its logarithm (at least -7), rank from 0 (least)
    to 1, and whether it was looked at at all.

    Raises
    ------
    DataError
        The batch has no weights.
    """
    code, shares = told.code, told.shares()
    n = code.sum(1, keepdim=True)
    below = (shares[:, None, :] < shares[:, :, None]) & code[:, None]
    rank = below.sum(-1) / (n - 1).clamp_min(1)
    seen = shares > 0
    made = torch.stack([shares * n, relative(shares.log(), code), rank, seen], -1)
    return made * code[..., None]


@register_gaze_prior(
    "gaze_add",
    description="gaze that is given, as a vector added to the embeddings of code tokens",
    citation="Lopez-Cardona et al. 2025, ICLR (GazeReward)",
)
class GazeAdd(GazePrior):
    """Adds ``W f(gaze_s)`` to the embedding of code token s; W is 0 at the start.

    Gaze is the weights of the batch: recorded, or predicted by another model before.

    Parameters
    ----------
    width
        Of the embeddings.
    hidden
        Units between the features of gaze (`gaze_features`) and the vector.
    causal
        Of no importance here: every token's vector comes from the code's gaze, not from states.
    """

    place: ClassVar[str] = "embeddings"

    def __init__(self, width: int, *, hidden: int = 64, causal: bool = True) -> None:
        super().__init__()
        self._arguments = {"width": int(width), "hidden": int(hidden)}
        self.causal = bool(causal)
        self.net = nn.Sequential(nn.Linear(FEATURES, hidden), nn.GELU())
        self.out = nn.Linear(hidden, width, bias=False)
        nn.init.zeros_(self.out.weight)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return dict(self._arguments)

    def hooks(self, model: nn.Module) -> list[Any]:
        """Stand behind the table of embeddings; return the handle."""
        return [embeddings_of(model).register_forward_hook(lambda _m, _i, out: self(out))]

    def forward(self, states: Tensor) -> Tensor:
        """Return the embeddings with gaze added; those of new tokens of a generation as is."""
        if self.told is None or states.shape[1] < self.told.code.shape[1]:
            return states
        told = self.told.repeated(len(states))
        added = self.out(self.net(gaze_features(told))) * told.code[..., None]
        added = nn.functional.pad(added, (0, 0, 0, states.shape[1] - added.shape[1]))
        return (states.float() + added).to(states.dtype)


def embeddings_of(model: nn.Module) -> nn.Module:
    """Return the table of embeddings of a Hugging Face model.

    Raises
    ------
    CapabilityError
        It does not say which one it is.
    """
    found = getattr(model, "get_input_embeddings", lambda: None)()
    if not isinstance(found, nn.Module):
        raise CapabilityError(f"{type(model).__name__} does not name its table of embeddings")
    return found
