"""A pixel decoder with deformable attention over the coarse maps and a top-down fine map.

Cheng et al. (2022), "Masked-attention Mask Transformer": maps of strides 32, 16 and 8 exchange
what they know; the finest is enlarged and joined with the stride-4 map of the backbone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gazeattn.models.layers.deformable import DeformableAttention, Shape, cell_centres
from gazeattn.models.layers.positions import unit_code


class DeformableLayer(nn.Module):
    """Deformable self-attention and a feed-forward part, each normed after the sum."""

    def __init__(
        self, width: int, heads: int, hidden: int, maps: int, points: int, dropout: float
    ) -> None:
        super().__init__()
        self.attention = DeformableAttention(width, heads, maps, points)
        self.norm1 = nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, hidden)
        self.linear2 = nn.Linear(hidden, width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, code: Tensor, shapes: list[Shape], centres: Tensor) -> Tensor:
        """Return the cells after one exchange, (batch, cells, width)."""
        x = self.norm1(x + self.dropout(self.attention(x + code, x, shapes, centres)))
        return self.norm2(x + self.dropout(self.linear2(F.relu(self.linear1(x)))))


def _normed(convolution: nn.Conv2d) -> nn.Sequential:
    width = convolution.out_channels
    return nn.Sequential(convolution, nn.GroupNorm(math.gcd(32, width), width))


class PixelDecoder(nn.Module):
    """Turn the maps of a backbone into maps of one width.

    Parameters
    ----------
    channels
        Channels of ``stride4``, ``stride8``, ``stride16`` and ``stride32``.
    width, heads, hidden, layers, points
        Of the deformable layers. With `layers` 0 the coarse maps do not meet.
    dropout
        Of the deformable layers.
    """

    coarse = (32, 16, 8)

    def __init__(
        self,
        channels: Mapping[str, int],
        width: int = 256,
        *,
        heads: int = 8,
        hidden: int = 1024,
        layers: int = 6,
        points: int = 4,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.inputs = nn.ModuleList(
            _normed(nn.Conv2d(channels[f"stride{s}"], width, 1)) for s in self.coarse
        )
        self.levels = nn.Parameter(torch.randn(len(self.coarse), width))
        self.layers = nn.ModuleList(
            DeformableLayer(width, heads, hidden, len(self.coarse), points, dropout)
            for _ in range(layers)
        )
        self.lateral = _normed(nn.Conv2d(channels["stride4"], width, 1, bias=False))
        self.fine = _normed(nn.Conv2d(width, width, 3, padding=1, bias=False))
        self.mask = nn.Conv2d(width, width, 1)

    def forward(self, features: Mapping[str, Tensor]) -> dict[int, Tensor]:
        """Return the maps by stride (32, 16, 8 and 4), each (batch, width, rows, columns)."""
        maps = [
            layer(features[f"stride{s}"]) for s, layer in zip(self.coarse, self.inputs, strict=True)
        ]
        shapes: list[Shape] = [(m.shape[-2], m.shape[-1]) for m in maps]
        x = torch.cat([m.flatten(2).transpose(1, 2) for m in maps], dim=1)
        code = torch.cat(
            [
                unit_code(*shape, self.width).flatten(0, 1).to(x) + level
                for shape, level in zip(shapes, self.levels, strict=True)
            ]
        )
        centres = cell_centres(shapes).to(x)
        for layer in self.layers:
            x = layer(x, code, shapes, centres)
        parts = x.split([r * c for r, c in shapes], dim=1)
        found = {
            s: p.transpose(1, 2).unflatten(-1, shape)
            for s, p, shape in zip(self.coarse, parts, shapes, strict=True)
        }
        side = self.lateral(features["stride4"])
        above = F.interpolate(found[8], size=side.shape[-2:], mode="bilinear", align_corners=False)
        found[4] = self.mask(F.relu(self.fine(side + above)))
        return found
