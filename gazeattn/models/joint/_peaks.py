"""The highest point of a map that can be asked at any point."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gazeattn.models.joint._network import Grid, cell_centres

Value = Callable[[Tensor], Tensor]
"""Points (q, 2) or (n, q, 2) in shares -> values (n, q)."""


def find_peaks(
    value: Value, n: int, grid: Grid, like: Tensor, rounds: int = 3, side: int = 5
) -> tuple[Tensor, Tensor]:
    """Return the highest point of n maps, (n, 2) in shares, and the value there, (n,).

    The highest of the cell centres is refined: `side` x `side` points over the cell around it,
    then over a cell a half as large around the best of those, and so on. No map of the size of
    the picture is made. The point never leaves the picture.
    """
    points = cell_centres(grid, like)
    values = value(points)
    peak, at = values.max(dim=1)
    best = points[at]
    half = like.new_tensor([1 / grid[1], 1 / grid[0]])
    steps = torch.linspace(-1, 1, side, dtype=like.dtype, device=like.device)
    yy, xx = torch.meshgrid(steps, steps, indexing="ij")
    offsets = torch.stack([xx, yy], dim=-1).reshape(-1, 2)
    for _ in range(rounds):
        near = (best[:, None] + offsets * half).clamp(0, 1)
        values = value(near)
        here, at = values.max(dim=1)
        better = here > peak
        best = torch.where(better[:, None], near[torch.arange(n), at], best)
        peak = torch.maximum(peak, here)
        half = half / 2
    return best, peak
