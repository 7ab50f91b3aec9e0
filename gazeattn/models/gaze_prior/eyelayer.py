"""EyeLayer: what programmers look at is mixed into the states of a language model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.gaze_prior.base import PRIORS, CodeBatch, GazePrior, fixed_prior
from gazeattn.models.gaze_prior.mixture import GazeMixture
from gazeattn.registry import register_gaze_prior

QUERIES = 256
"""Queries that are worked on at a time, where there are more."""


@register_gaze_prior(
    "eyelayer",
    description="a mixture of gaze over the code, its mean of the code's states added to the state",
    citation="Zhang et al. 2026, ICPC (EyeLayer); formula of this package",
)
class EyeLayer(GazePrior):
    """Adds to each state the states of the code, weighted by predicted gaze.

    ``g_t`` is gaze over the code tokens as the state ``h_t`` tells it (`GazeMixture`), and
    ``h'_t = h_t + W_o sum_s g_ts W_v h_s``. ``W_o`` is 0 at the start, so that the model is what
    it was, to the bit.

    In a decoder the layer works from the last token of the prompt on, where all code has been
    read: nothing of a later token reaches an earlier state. In an encoder it works on all code
    tokens, with all code in sight.

    Parameters
    ----------
    width
        Of the states.
    components, hidden, content
        See `GazeMixture`.
    rank
        Of ``W_o W_v``.
    prior
        ``"learned"``; controls: ``"uniform"``, ``"recency"``, ``"length"`` (the batch's weights
        are letters per token), ``"given"`` (the batch's weights are the gaze).
    causal
        Whether it stands in a decoder.

    Notes
    -----
    Memory is linear in the length: a block of queries at a time, and none of the blocks is kept
    for the gradient where there are several. While a text is generated, values and keys of the
    code tokens are kept from the pass over the prompt.
    """

    def __init__(
        self,
        width: int,
        *,
        components: int = 4,
        hidden: int = 128,
        content: int = 0,
        rank: int = 128,
        prior: str = "learned",
        causal: bool = True,
    ) -> None:
        super().__init__()
        if prior not in PRIORS:
            raise UnknownNameError("prior of gaze", prior, PRIORS)
        self._arguments = {
            "width": int(width), "components": int(components), "hidden": int(hidden),
            "content": int(content), "rank": int(rank), "prior": prior, "causal": bool(causal),
        }  # fmt: skip
        self.prior, self.causal = prior, bool(causal)
        self.mixture = (
            GazeMixture(width, components, hidden, content) if prior == "learned" else None
        )
        self.value = nn.Linear(width, rank, bias=False)
        self.out = nn.Linear(rank, width, bias=False)
        nn.init.zeros_(self.out.weight)
        self._kept: tuple[CodeBatch, Tensor, Any] | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return dict(self._arguments)

    def begin(self, batch: CodeBatch) -> None:
        """Take in what is known of the next batch; what was kept for generation is forgotten."""
        super().begin(batch)
        self._kept = None

    def end(self) -> None:
        """Forget the batch and what was kept for generation."""
        super().end()
        self._kept = None

    def forward(self, states: Tensor) -> Tensor:
        """Return the states with the code mixed in, in their own type.

        Parameters
        ----------
        states : Tensor, shape (batch, length, width)
            Of all tokens; or, while a text is generated, of its new tokens.
        """
        if self.told is None:
            return states
        told = self.told.repeated(len(states))
        known = told.code.shape[1]
        with torch.autocast(states.device.type, enabled=False):
            if states.shape[1] < known:
                if self._kept is None:
                    raise DataError("states of a part of the prompt, and none of the rest before",
                                    expected=f"{known} tokens", found=states.shape[1])  # fmt: skip
                return self._added(states, *self._kept)
            told = told.padded(states.shape[1])
            # nothing but code is ever looked at: other tokens are left out of what is kept
            values = self.value(states.float()) * told.code[..., None]
            keys = None if self.mixture is None else self.mixture.keys(states)
            if not self.causal:
                return self._everywhere(states, told, values, keys)
            begin = int(told.start.min())
            late = states[:, begin:]
            out = self._added(late, told, values, keys, begin)
            if not torch.is_grad_enabled():
                self._kept = (told, values, keys)
            return out if not begin else torch.cat([states[:, :begin], out], 1)

    def _added(
        self, states: Tensor, told: CodeBatch, values: Tensor, keys: Any, begin: int | None = None
    ) -> Tensor:
        """Return states with gaze-weighted values added; ``begin`` where it is the first pass."""
        if self.log_g is None or begin is not None:
            first = 0 if begin is None else begin
            rows = torch.arange(len(states), device=states.device)
            asked = states[rows, (told.start - first).clamp_min(0)][:, None]
            self.log_g = self.gaze(asked, told, keys)[:, 0]
        added = self._in_blocks(states, told, values, keys)
        if begin is not None:  # prompts of a batch may end at different places
            place = torch.arange(begin, begin + states.shape[1], device=states.device)
            added = added * (place >= told.start[:, None])[..., None]
        return (states.float() + added).to(states.dtype)

    def _in_blocks(self, states: Tensor, told: CodeBatch, values: Tensor, keys: Any) -> Tensor:
        def block(part: Tensor, values: Tensor) -> Tensor:
            return self.out(self.gaze(part, told, keys).exp() @ values)

        parts = states.split(QUERIES, 1)
        if len(parts) == 1:
            return block(states, values)
        if torch.is_grad_enabled():
            made = [checkpoint(block, p, values, use_reentrant=False) for p in parts]
        else:
            made = [block(p, values) for p in parts]
        return torch.cat(made, 1)

    def _everywhere(self, states: Tensor, told: CodeBatch, values: Tensor, keys: Any) -> Tensor:
        self.log_g = self.gaze(told.mean_state(states), told, keys)[:, 0]
        added = self._in_blocks(states, told, values, keys) * told.code[..., None]
        return (states.float() + added).to(states.dtype)

    def gaze(self, query: Tensor, told: CodeBatch, keys: Any = None) -> Tensor:
        """Return the logarithm of gaze for each query, (batch, queries, length)."""
        if self.mixture is not None:
            return self.mixture(query, told.code, keys)
        if self.prior == "given":
            log_g = told.shares().log()
        else:
            log_g = fixed_prior(self.prior, told.code, told.weights)
        return log_g[:, None].expand(-1, query.shape[1], -1)
