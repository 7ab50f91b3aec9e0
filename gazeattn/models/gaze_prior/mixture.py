"""Where in the code one looks, as a mixture of normal densities over its tokens."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gazeattn.errors import DataError

CHUNK = 1 << 22
"""Most numbers of one block of queries by tokens by components."""


def code_positions(code: Tensor) -> tuple[Tensor, Tensor]:
    """Return the place of code tokens in their code, and how many there are.

    Parameters
    ----------
    code : Tensor of bool, shape (batch, length)

    Returns
    -------
    position : Tensor of float32, shape (batch, length)
        From 0 (first token of code) to 1 (last); 0 where there is no code.
    n : Tensor of int64, shape (batch,)
    """
    n = code.sum(1)
    rank = (code.cumsum(1) - 1).clamp_min(0) * code
    return rank.float() / (n - 1).clamp_min(1)[:, None], n


class GazeMixture(nn.Module):
    """Gaze over code tokens as a softmax of a mixture of normal densities, told by a state.

    For a state ``h_t``, components k with mean ``mu_k``, width ``sigma_k`` and weight ``pi_k``
    give every code token s at place ``p_s`` the score
    ``log sum_k pi_k exp(-(p_s - mu_k)^2 / (2 sigma_k^2)) / sigma_k``; gaze is the softmax of the
    scores over the code tokens that can be seen. Means start evenly spaced, widths at 1 / K.
    Places are shares of the code, so that widths mean the same in short and long code.

    With ``content`` a score of what stands at the place is added: a product of low rank of the
    state and the token's own state, and a linear function of the latter. It is 0 at the start.

    Parameters
    ----------
    width
        Of the states.
    components
        K.
    hidden
        Units between a state and the parameters of its mixture.
    content
        Rank of the score of content; 0: places alone count.
    normalise
        States are normalised first, as between blocks; False for columns on a common scale.
    """

    def __init__(
        self,
        width: int,
        components: int = 4,
        hidden: int = 128,
        content: int = 0,
        normalise: bool = True,
    ) -> None:
        super().__init__()
        if components < 1 or content < 0:
            raise DataError("a mixture has components", expected="components of 1 or more, "
                            "content of 0 or more", found=(components, content))  # fmt: skip
        self.width, self.components, self.content = int(width), int(components), int(content)
        self.norm = nn.LayerNorm(width) if normalise else nn.Identity()
        self.net = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, 3 * components)
        )
        last = self.net[-1]
        assert isinstance(last, nn.Linear)
        nn.init.normal_(last.weight, std=1e-3)
        k = components
        with torch.no_grad():
            start = torch.zeros(3, k)
            start[1] = math.log(math.expm1(1 / k))  # softplus of it is 1 / K
            last.bias.copy_(start.reshape(-1))
        even = (torch.arange(k) + 0.5) / k
        self.register_buffer("even", torch.logit(even), persistent=False)
        if content:
            self.key_norm = nn.LayerNorm(width) if normalise else nn.Identity()
            self.query = nn.Linear(width, content, bias=False)
            self.key = nn.Linear(width, content, bias=False)
            self.own = nn.Linear(width, 1, bias=False)
            nn.init.zeros_(self.query.weight)
            nn.init.zeros_(self.own.weight)

    def parameters_of(self, query: Tensor, n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean, width and log weight of the components, each (batch, queries, K).

        Parameters
        ----------
        query : Tensor, shape (batch, queries, width)
        n : Tensor of int64, shape (batch,)
            Code tokens: no component is narrower than half the distance of two.
        """
        even: Tensor = self.even  # type: ignore[assignment]
        place, size, share = self.net(self.norm(query.float())).chunk(3, -1)
        mean = torch.sigmoid(place + even)
        least = 0.5 / n.clamp_min(1).to(size.dtype)
        return mean, least[:, None, None] + F.softplus(size), share.log_softmax(-1)

    def keys(self, states: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return what the score of content needs of tokens: their keys and own scores.

        Parameters
        ----------
        states : Tensor, shape (batch, length, width)
        """
        if not self.content:
            return None
        known = self.key_norm(states.float())
        return self.key(known), self.own(known)[..., 0]

    def forward(
        self,
        query: Tensor,
        code: Tensor,
        keys: tuple[Tensor, Tensor] | None = None,
        visible: Tensor | None = None,
    ) -> Tensor:
        """Return the logarithm of gaze, (batch, queries, length), in float32.

        Parameters
        ----------
        query : Tensor, shape (batch, queries, width)
            States that tell the mixture.
        code : Tensor of bool, shape (batch, length)
            Tokens that are code.
        keys
            From `keys`, where the mixture has a score of content.
        visible : Tensor of bool, shape (batch, queries, length), optional
            Tokens that a query may see; all where not given.

        Returns
        -------
        Tensor
            -inf off the code. A query that sees no code has -inf everywhere: no gaze at all.
        """
        position, n = code_positions(code)
        mean, size, share = self.parameters_of(query, n)
        rows = max(1, CHUNK // max(1, code.shape[0] * code.shape[1] * self.components))
        parts = [
            self._density(m, s, w, position)
            for m, s, w in zip(
                mean.split(rows, 1), size.split(rows, 1), share.split(rows, 1), strict=True
            )
        ]
        score = torch.cat(parts, 1) if len(parts) > 1 else parts[0]
        if self.content:
            if keys is None:
                raise DataError("a mixture with content needs the keys of the tokens")
            known = self.query(self.norm(query.float()))
            score = score + known @ keys[0].mT / math.sqrt(self.content) + keys[1][:, None]
        there = code[:, None].expand_as(score)
        if visible is not None:
            there = there & visible
        return masked_log_softmax(score, there)

    @staticmethod
    def _density(mean: Tensor, size: Tensor, share: Tensor, position: Tensor) -> Tensor:
        off = (position[:, None, :, None] - mean[:, :, None]) / size[:, :, None]
        return torch.logsumexp((share - size.log())[:, :, None] - 0.5 * off.square(), -1)


def masked_log_softmax(score: Tensor, there: Tensor) -> Tensor:
    """Return log softmax over the last axis where `there` holds, -inf elsewhere.

    Rows without any are -inf everywhere, and their gradient is 0, not NaN.
    """
    low = torch.finfo(score.dtype).min
    out = score.masked_fill(~there, low).log_softmax(-1)
    return out.masked_fill(~there, -torch.inf)
