"""Draw positions from maps of cells."""

from __future__ import annotations

import torch
from torch import Tensor

Grid = tuple[int, int]


def inhibited(mass: Tensor, grid: Grid, before: Tensor, radius: float) -> Tensor:
    """Return maps without the cells whose centres are near earlier positions.

    Parameters
    ----------
    mass : Tensor, shape (n, cells)
    grid
        Rows and columns of the cells.
    before : Tensor, shape (n, k, 2)
        Earlier positions in shares.
    radius
        In cells. A map in which nothing would be left is returned as it was.
    """
    rows, columns = grid
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    centre = torch.stack([x, y], dim=-1).flatten(0, 1).to(before) + 0.5
    at = before * before.new_tensor([columns, rows])
    # written out: the distances of `cdist` by matrix products are not exact
    far = ((at[:, :, None] - centre) ** 2).sum(-1) >= radius**2
    free = mass * far.all(1)
    return torch.where(free.sum(-1, keepdim=True) > 0, free, mass)


def positions(mass: Tensor, grid: Grid, chance: Tensor, *, greedy: bool) -> Tensor:
    """Return a position in shares for every map, (n, 2).

    Parameters
    ----------
    mass : Tensor, shape (n, cells)
        Need not sum to 1.
    grid
        Rows and columns of the cells.
    chance : Tensor, shape (n, 3)
        Uniform in [0, 1): one number for the cell, two for the place inside it.
    greedy
        The middle of the cell with the largest mass instead.
    """
    rows, columns = grid
    if greedy:
        cell, inside = mass.argmax(-1), torch.full_like(chance[:, :2], 0.5)
    else:
        below = mass.cumsum(-1)
        cell = torch.searchsorted(below, chance[:, :1] * below[:, -1:], right=True)[:, 0]
        # rounding never leads past the last cell with any mass
        last = mass.shape[-1] - 1 - (mass > 0).flip(-1).long().argmax(-1)
        cell, inside = torch.minimum(cell, last), chance[:, 1:]
    corner = torch.stack([cell % columns, cell // columns], dim=-1)
    return (corner + inside) / chance.new_tensor([columns, rows])
