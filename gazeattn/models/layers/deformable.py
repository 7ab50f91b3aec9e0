"""Multi-scale deformable attention in plain torch (Zhu et al., 2021).

Every query looks at a few points around its own place in several maps; where, and with what
weights, is computed from the query. The maps are read by bilinear interpolation, zero outside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gazeattn.errors import DataError

Shape = tuple[int, int]


def deformable_attention(
    values: Tensor, shapes: Sequence[Shape], locations: Tensor, weights: Tensor
) -> Tensor:
    """Return weighted sums of values that are read at fractional places.

    Parameters
    ----------
    values : Tensor, shape (batch, cells, heads, channels)
        The cells of all maps, one map after the other, each row by row.
    shapes
        Rows and columns of every map.
    locations : Tensor, shape (batch, queries, heads, maps, points, 2)
        x, y as shares of the map.
    weights : Tensor, shape (batch, queries, heads, maps, points)

    Returns
    -------
    Tensor, shape (batch, queries, heads * channels)
    """
    batch, cells, heads, channels = values.shape
    sizes = [r * c for r, c in shapes]
    if sum(sizes) != cells:
        raise DataError(
            "the maps do not have as many cells as there are values",
            expected=sum(sizes),
            found=cells,
        )
    queries = locations.shape[1]
    planes = values.permute(0, 2, 3, 1).reshape(batch * heads, channels, cells)
    # grid_sample counts from -1 to 1 between the outer edges of the outer cells
    grid = (2 * locations - 1).permute(3, 0, 2, 1, 4, 5).flatten(1, 2)
    share = weights.permute(3, 0, 2, 1, 4).flatten(1, 2)
    total = values.new_zeros(batch * heads, channels, queries)
    for level, (plane, (rows, columns)) in enumerate(
        zip(planes.split(sizes, dim=-1), shapes, strict=True)
    ):
        read = F.grid_sample(
            plane.unflatten(-1, (rows, columns)),
            grid[level],
            mode="bilinear",
            padding_mode="zeros",
            align_corners=False,
        )
        total = total + (read * share[level][:, None]).sum(-1)
    return total.view(batch, heads * channels, queries).transpose(1, 2)


def cell_centres(shapes: Sequence[Shape]) -> Tensor:
    """Return x, y of the centres of all cells as shares of their map, (cells, 2)."""
    found = []
    for rows, columns in shapes:
        y = (torch.arange(rows) + 0.5) / rows
        x = (torch.arange(columns) + 0.5) / columns
        found.append(torch.stack(torch.meshgrid(y, x, indexing="ij")[::-1], dim=-1).flatten(0, 1))
    return torch.cat(found)


class DeformableAttention(nn.Module):
    """Deformable attention with its projections.

    Parameters
    ----------
    width
        Channels of queries and values; `heads` divides it.
    heads, maps, points
        Points are per head and map.
    """

    def __init__(self, width: int, heads: int, maps: int, points: int = 4) -> None:
        super().__init__()
        if width % heads:
            raise DataError("heads must divide the width", found=f"{width} / {heads}")
        self.heads, self.maps, self.points = heads, maps, points
        self.offsets = nn.Linear(width, heads * maps * points * 2)
        self.weights = nn.Linear(width, heads * maps * points)
        self.values = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self._reset()

    def _reset(self) -> None:
        # heads look in different directions at first, their points farther and farther away
        angle = torch.arange(self.heads) * (2 * math.pi / self.heads)
        way = torch.stack([angle.cos(), angle.sin()], dim=-1)
        way = way / way.abs().amax(-1, keepdim=True)
        steps = torch.arange(1, self.points + 1)
        bias = (way[:, None, None] * steps[None, None, :, None]).expand(-1, self.maps, -1, -1)
        with torch.no_grad():
            self.offsets.bias.copy_(bias.reshape(-1))
        nn.init.zeros_(self.offsets.weight)
        nn.init.zeros_(self.weights.weight)
        nn.init.zeros_(self.weights.bias)
        for layer in (self.values, self.output):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self, queries: Tensor, values: Tensor, shapes: Sequence[Shape], centres: Tensor
    ) -> Tensor:
        """Return what the queries read.

        Parameters
        ----------
        queries : Tensor, shape (batch, queries, width)
        values : Tensor, shape (batch, cells, width)
        shapes
            Rows and columns of every map.
        centres : Tensor, shape (queries, 2)
            Place of each query as shares, the same in all maps.
        """
        batch, n, _ = queries.shape
        form = (batch, n, self.heads, self.maps, self.points)
        read = self.values(values).unflatten(-1, (self.heads, -1))
        sizes = torch.tensor([(c, r) for r, c in shapes], device=queries.device)
        offsets = self.offsets(queries).view(*form, 2) / sizes[:, None]
        locations = centres[:, None, None, None] + offsets
        weights = self.weights(queries).view(batch, n, self.heads, -1).softmax(-1).view(form)
        return self.output(deformable_attention(read, shapes, locations, weights))
