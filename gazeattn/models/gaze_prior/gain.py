"""Gaze as a gain on the states of an encoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gazeattn.errors import CapabilityError
from gazeattn.models.gaze_prior.base import GazePrior
from gazeattn.models.gaze_prior.mixture import GazeMixture
from gazeattn.registry import register_gaze_prior


@register_gaze_prior(
    "gain",
    description="states of code tokens grow where one looks; for encoders",
    citation="this package",
)
class Gain(GazePrior):
    """``h'_s = h_s (1 + a (n g_s - 1))`` with one number ``a``, 0 at the start.

    Gaze is told by the mean state of the code, so that every state hears of all code: in a
    decoder the prompt would hear of its own future, which is why it is refused there.

    Parameters
    ----------
    width, components, hidden, content
        See `GazeMixture`.
    causal
        Must be false.
    """

    causal = False

    def __init__(
        self, width: int, *, components: int = 4, hidden: int = 128, content: int = 0,
        causal: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if causal:
            raise CapabilityError("a gain on states tells the prompt of its future: encoders only")
        self._arguments = {"width": int(width), "components": int(components),
                           "hidden": int(hidden), "content": int(content)}  # fmt: skip
        self.mixture = GazeMixture(width, components, hidden, content)
        self.a = nn.Parameter(torch.zeros(()))

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return dict(self._arguments)

    def forward(self, states: Tensor) -> Tensor:
        """Return the states, scaled at code tokens, in their own type."""
        if self.told is None:
            return states
        told = self.told.repeated(len(states)).padded(states.shape[1])
        code, n = told.code, told.code.sum(1, keepdim=True)
        asked = told.mean_state(states)
        self.log_g = self.mixture(asked, code, self.mixture.keys(states))[:, 0]
        factor = 1 + self.a * (n * self.log_g.exp() - 1) * code
        return (states.float() * factor[..., None]).to(states.dtype)
