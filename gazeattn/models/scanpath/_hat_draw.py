"""Draw scanpaths: positions from maps of cells and from Gaussians on earlier fixations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gazeattn.datamodules import Stimulus
from gazeattn.models.scanpath._hat_batches import Prefixes
from gazeattn.models.scanpath._hat_prior import Next, aspects
from gazeattn.models.scanpath.base import Path

if TYPE_CHECKING:
    from gazeattn.models.scanpath.hat import HAT

Grid = tuple[int, int]
STRIDE = 4


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


def next_positions(
    found: Next, grid: Grid, before: Tensor, chance: Tensor, *, greedy: bool, radius: float
) -> Tensor:
    """Return the next position in shares for every prefix, (n, 2).

    Parameters
    ----------
    found
    grid
        Rows and columns of the map.
    before : Tensor, shape (n, k, 2)
        Earlier positions.
    chance : Tensor, shape (n, 3)
        Uniform in [0, 1), float64.
    greedy
        The middle of the cell with the largest mass, that of the Gaussians included.
    radius
        Of the inhibition, in cells.
    """
    if greedy:
        mass = found.masses(grid, grid).flatten(1).to(chance)
    else:
        mass = found.logs.to(chance).exp()
    if radius > 0 and before.shape[1]:
        mass = inhibited(mass, grid, before, radius)
    near = found.near
    if near is None or greedy:
        return positions(mass, grid, chance, greedy=greedy)
    weight = near.log_weight.to(chance).exp()
    below = weight.cumsum(-1)
    part = torch.searchsorted(below, chance[:, :1] * below[:, -1:], right=True)[:, 0]
    part = part.clamp_max(weight.shape[1] - 1)
    # what is left of the number that chose the map is uniform again
    again = (chance[:, :1] / weight[:, :1]).clamp_max(1 - 2**-53)
    on_map = positions(mass, grid, torch.cat([again, chance[:, 1:]], dim=1), greedy=False)
    beside = near.at((part - 1).clamp_min(0), chance[:, 1:])
    return torch.where((part == 0)[:, None], on_map, beside)


def draw(model: HAT, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[Path]:
    """Draw scanpaths in one loop over fixations; the picture is read once.

    Every step takes the same number of chance values for all, also for those that have ended.
    """
    device = model.code.device
    features = {k: v[None].float().to(device) for k, v in stimulus.features.items()}
    seen = model.look(features)
    which = torch.zeros(n, dtype=torch.int64, device=device)
    task = model.task_of([stimulus]).expand(n)
    aspect = aspects([stimulus], model.code).expand(n, -1)
    xy = torch.zeros(n, model.max_fixations, 2, dtype=torch.float64, device=device)
    length = torch.zeros(n, dtype=torch.int64, device=device)
    going = torch.ones(n, dtype=torch.bool, device=device)
    radius = model.inhibition / STRIDE
    for step in range(model.max_fixations):
        chance = torch.rand(
            n, 4, generator=generator, dtype=torch.float64, device=generator.device
        ).to(device)
        rows = going.nonzero()[:, 0]
        prefixes = Prefixes(rows, torch.full_like(rows, step))
        # cells are found with the precision that the batches of people have
        seen_xy = xy.float()
        query, stop = model.read(seen, which, task, seen_xy, prefixes)
        if step:
            kept = ~model.stops(stop, chance[rows, 0])
            going[rows[~kept]] = False
            rows, query = rows[kept], query[kept]
            if not len(rows):
                break
            prefixes = prefixes.take(kept.nonzero()[:, 0])
        last = model.recent(seen_xy, prefixes, aspect)
        found = model.following(seen, which[rows], query, prefixes.count, last)
        xy[rows, step] = next_positions(
            found, model.grid, xy[rows, :step], chance[rows, 1:],
            greedy=model.greedy, radius=radius,
        )  # fmt: skip
        length[rows] = step + 1
    found_xy = xy.cpu().numpy() * np.asarray(stimulus.size, dtype=np.float64)
    return [p[:k] for p, k in zip(found_xy, length.tolist(), strict=True)]
