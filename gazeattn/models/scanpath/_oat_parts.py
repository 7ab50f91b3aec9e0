"""Parts of the object-level attention transformer."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gazeattn.errors import DataError


class DistanceCode(nn.Module):
    """A code of positions whose similarity falls with the distance alone.

    Codes have norm 1, and ``<E(p), E(q)> = exp(-(p - q)^2 / (2 sigma^2))`` for real numbers p, q
    that are at most `reach` apart: the cosines and sines of equally spaced frequencies, weighted
    with the spectrum of that function. Beyond `reach` it would rise again, so that positions
    further apart are refused.

    Parameters
    ----------
    sigma
        In units of the positions.
    reach
        Largest distance of two positions.
    """

    frequencies: Tensor
    amplitudes: Tensor

    def __init__(self, sigma: float = 2.0, reach: float = 40.0) -> None:
        super().__init__()
        if not sigma > 0 or not reach > 0:
            raise DataError("sigma and reach must be above 0", found=f"{sigma}, {reach}")
        self.sigma, self.reach = float(sigma), float(reach)
        step = 2 * math.pi / (reach + 6 * sigma)
        count = math.ceil(6 / (sigma * step))
        at = step * torch.arange(count + 1, dtype=torch.float64)
        weight = torch.exp(-((at * sigma) ** 2) / 2)
        weight[1:] *= 2  # negative frequencies
        self.register_buffer("frequencies", at.float(), persistent=False)
        amplitudes = (weight / weight.sum()).sqrt().float()
        self.register_buffer("amplitudes", amplitudes, persistent=False)

    @property
    def width(self) -> int:
        """Length of a code."""
        return 2 * len(self.frequencies) - 1

    def forward(self, positions: Tensor) -> Tensor:
        """Return the codes of positions, (...) to (..., width)."""
        angle = positions[..., None] * self.frequencies
        even = angle.cos() * self.amplitudes
        return torch.cat([even, (angle.sin() * self.amplitudes)[..., 1:]], dim=-1)


class CropEncoder(nn.Module):
    """The published encoder of crops; any size, since the last pooling has a fixed result.

    Two convolutions, 5 x 5 (16) and 3 x 3 (32), pooled by 5 and to `grid` (9 x 5, which for
    150 x 93 pixels is pooling by 3), then one linear layer. No crop is stretched to its own
    minimum and maximum: brightness and colour stay comparable between objects.

    Parameters
    ----------
    width
        Of the result.
    grid : (rows, columns)
    """

    def __init__(self, width: int, grid: tuple[int, int] = (9, 5)) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 5), nn.Conv2d(16, 32, 3)
        self.grid = grid
        self.linear = nn.Linear(32 * grid[0] * grid[1], width)

    def forward(self, crops: Tensor) -> Tensor:
        """Return (..., width) for crops (..., 3, height, width) in [0, 1]."""
        if min(crops.shape[-2:]) < 19:
            raise DataError(
                "crops are too small", expected="19 pixels or more", found=tuple(crops.shape[-2:])
            )
        flat = crops.flatten(0, -4)
        x = F.max_pool2d(self.first(flat).relu(), 5)
        x = F.adaptive_max_pool2d(self.second(x).relu(), self.grid)
        return self.linear(x.flatten(1)).reshape(*crops.shape[:-3], -1)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Return (batch, length, d) as (batch, heads, length, d / heads)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class DecoderLayer(nn.Module):
    """A causal decoder layer, norm after each step, that can be run one position at a time."""

    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.own, self.own_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.query, self.memory = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.cross_out = nn.Linear(width, width)
        self.inner = nn.Sequential(
            nn.Linear(width, inner), nn.ReLU(), nn.Dropout(dropout), nn.Linear(inner, width)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def keys(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of the encoded objects, each (batch, heads, n, d)."""
        k, v = self.memory(encoded).chunk(2, -1)
        return split_heads(k, self.heads), split_heads(v, self.heads)

    def forward(
        self,
        x: Tensor,
        memory: tuple[Tensor, Tensor],
        present: Tensor,
        past: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the new states, (batch, length, width), and keys and values for the next step.

        Parameters
        ----------
        x : Tensor, shape (batch, length, width)
        memory
            From `keys`.
        present : Tensor of bool, shape (batch, n)
        past
            Keys and values of the positions before; then `x` holds one position.
        """
        rate = self.dropout.p if self.training else 0.0
        q, k, v = (split_heads(p, self.heads) for p in self.own(x).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=past is None, dropout_p=rate)
        x = self.norms[0](x + self.dropout(self.own_out(seen.transpose(1, 2).flatten(2))))
        seen = F.scaled_dot_product_attention(
            split_heads(self.query(x), self.heads),
            *memory,
            attn_mask=present[:, None, None],
            dropout_p=rate,
        )
        x = self.norms[1](x + self.dropout(self.cross_out(seen.transpose(1, 2).flatten(2))))
        return self.norms[2](x + self.dropout(self.inner(x))), (k, v)


class ObjectHead(nn.Module):
    """Logits of the objects and, apart from them, of stopping.

    Head k gives ``<W_e enc_j, W_d dec_t> / sqrt(d)``; a linear read-out joins the heads. With
    `relations`, a small network of the relation between the fixated object and each candidate is
    added, weighted by the state of the decoder (an extension of the published head).
    """

    def __init__(self, width: int, heads: int, relations: int, hidden: int = 24) -> None:
        super().__init__()
        self.heads, self.scale = heads, 1 / math.sqrt(width)
        self.objects = nn.Linear(width, heads * width, bias=False)
        self.states = nn.Linear(width, heads * width, bias=False)
        self.joined = nn.Linear(heads, 1, bias=False)
        nn.init.constant_(self.joined.weight, 1 / heads)
        self.stop = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        self.relation: nn.Sequential | None = None
        if relations:
            self.relation = nn.Sequential(
                nn.Linear(relations, hidden), nn.ReLU(), nn.Linear(hidden, hidden)
            )
            self.weights = nn.Linear(width, hidden)
            nn.init.zeros_(self.weights.weight)
            nn.init.constant_(self.weights.bias, 1 / math.sqrt(hidden))

    def keys(self, encoded: Tensor) -> Tensor:
        """Return what the head knows of the objects, (batch, heads, n, width)."""
        return split_heads(self.objects(encoded), self.heads)

    def forward(self, keys: Tensor, states: Tensor, present: Tensor, pairs: Tensor) -> Tensor:
        """Return logits (batch, length, n + 1): the objects, then stopping; -inf for padding."""
        found = split_heads(self.states(states), self.heads) @ keys.transpose(-1, -2) * self.scale
        logits = self.joined(found.movedim(1, -1)).squeeze(-1)
        if self.relation is not None:
            weights = self.weights(states)[:, :, None]
            logits = logits + (self.relation(pairs) * weights).sum(-1)
        logits = logits.masked_fill(~present[:, None], -math.inf)
        return torch.cat([logits, self.stop(states)], dim=-1)


def relations(
    centres: Tensor,
    here: Tensor,
    last: Tensor,
    times: Tensor,
    target: Tensor,
    order: Tensor | None,
    alike: Tensor | None = None,
) -> Tensor:
    """Return how each candidate relates to where the gaze is and has been.

    Parameters
    ----------
    centres : Tensor, shape (batch, n, 2)
    here : Tensor, shape (batch, length, 2)
        Where the gaze is, same units.
    last : Tensor, shape (batch, length, n)
        Fixations since the object was looked at, 0 for the current one; infinite if never.
    times : Tensor, shape (batch, length, n)
        How often it was looked at.
    target : Tensor, shape (batch, n)
        1 for the target where the model may know its place, else 0.
    order : Tensor or None, shape (batch, length, n)
        Places from the current object in the order of the display; 0 before the first fixation.
    alike : Tensor or None, shape (batch, n)
        How much each object looks like the target, 0 to 1.

    Returns
    -------
    Tensor, shape (batch, length, n, features)
    """
    step = centres[:, None] - here[:, :, None]
    squared = (step**2).sum(-1)
    shapes = [torch.exp(-squared / (2 * s * s)) for s in (0.5, 1.0, 2.0, 4.0)]
    sides = [(0.25 * step[..., a]).tanh() for a in (0, 1)]
    lines = [torch.exp(-(step[..., a] ** 2) / 0.5) for a in (0, 1)]
    goal = target[:, None].expand_as(times)
    features = [
        *shapes,
        *sides,
        *lines,
        torch.log1p(squared),
        torch.exp(-last),
        torch.exp(-last / 6),
        (times > 0).float(),
        torch.log1p(times),
        goal,
        goal * torch.exp(-squared / 8),
        goal * (last == 0),
    ]
    if order is not None:
        features += [torch.exp(-((order - k) ** 2) / 0.5) for k in range(-4, 7)]
        features += [(0.1 * order).tanh()]
    if alike is not None:
        features += [alike[:, None].expand_as(times)]
    return torch.stack(features, -1)


RELATIONS, ORDERED, ALIKE = 16, 12, 1
"""Features of `relations`: always, by the order of the display, and by looks."""
