"""What maps of joint attention are trained towards, and the losses."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gazeattn.datamodules.joint_batches import JointBatch
from gazeattn.models.joint._network import cell_centres

LOSSES = ("mse", "density")


def target_maps(batch: JointBatch, grid: tuple[int, int], spread: tuple[float, float]) -> Tensor:
    """Return a bump at each target of joint attention, added and cut at 1, (batch, rows, columns).

    `spread` is the standard deviation as a share of width and height.
    """
    return bumps_at(batch, cell_centres(grid, batch.size), spread).view(-1, *grid)


def bumps_at(batch: JointBatch, points: Tensor, spread: tuple[float, float]) -> Tensor:
    """Return `target_maps` at points (q, 2) or (batch, q, 2) in shares, (batch, q)."""
    q = points.shape[-2]
    if not batch.joint.shape[1]:
        return batch.size.new_zeros(len(batch.scene), q)
    away = points if points.dim() == 2 else points[:, None]
    away = (away - batch.place[:, :, None]) / batch.size.new_tensor(spread)
    bumps = torch.exp(-0.5 * away.square().sum(-1)) * batch.joint[..., None]
    return bumps.sum(1).clamp_max(1)


def sample_points(
    batch: JointBatch,
    n: int,
    spread: tuple[float, float],
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Return random points and weights with which a mean over them estimates that of the picture.

    The first half lies one in each cell of a grid, the rest around the targets of joint attention
    (normal, twice the spread of the bumps; what falls off the picture has weight 0). The weight is
    one over the density of the two together, so the estimate of a loss has no bias, and less
    variance than from as many uniform points.

    Returns
    -------
    points : Tensor, shape (batch, n', 2)
        Shares; n' is n to within the rounding of the grid.
    weights : Tensor, shape (batch, n')
    """
    like, b = batch.size, len(batch.scene)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, dtype=like.dtype, device=like.device, generator=generator)

    rows = max(1, round(math.sqrt(n / 4)))
    columns = max(1, round(n / 2 / rows))
    even = cell_centres((rows, columns), like)
    cell = like.new_tensor([1 / columns, 1 / rows])
    points = even + (uniform(b, len(even), 2) - 0.5) * cell
    rest = n - len(even)
    chosen = batch.present
    if rest < 1 or not chosen.any():
        return points, torch.ones_like(points[..., 0])
    wide = 2 * like.new_tensor(spread)
    weigh = torch.where(chosen[:, None], batch.joint.to(like.dtype), torch.ones_like(like[:, :1]))
    which = torch.multinomial(weigh, rest, replacement=True, generator=generator)
    middle = batch.place.gather(1, which[..., None].expand(b, rest, 2))
    normals = torch.randn(b, rest, 2, dtype=like.dtype, device=like.device, generator=generator)
    near = torch.where(chosen[:, None, None], middle + wide * normals, uniform(b, rest, 2))
    points = torch.cat([points, near], dim=1)
    away = (points[:, None] - batch.place[:, :, None]) / wide
    normal = torch.exp(-0.5 * away.square().sum(-1)) / (2 * math.pi * wide.prod())
    joint = batch.joint.to(like.dtype)
    mixed = (normal * joint[..., None]).sum(1) / joint.sum(1).clamp_min(1)[:, None]
    mixed = torch.where(chosen[:, None], mixed, torch.ones_like(mixed))
    share = len(even) / points.shape[1]
    weights = 1 / (share + (1 - share) * mixed)
    inside = ((points >= 0) & (points <= 1)).all(-1)
    return points, weights * inside


def person_target_maps(
    batch: JointBatch, grid: tuple[int, int], spread: tuple[float, float]
) -> Tensor:
    """Return the bump at what each person attends to; 0 where that is not known."""
    n, p = batch.mask.shape
    known = batch.attends >= 0
    if not batch.place.shape[1]:
        return batch.size.new_zeros(n, p, *grid)
    index = batch.attends.clamp_min(0)[..., None].expand(n, p, 2)
    bumps = _bumps(batch.place.gather(1, index), grid, spread)
    return (bumps * known[..., None]).view(n, p, *grid)


def _bumps(place: Tensor, grid: tuple[int, int], spread: tuple[float, float]) -> Tensor:
    away = cell_centres(grid, place) - place[:, :, None]
    away = away / away.new_tensor(spread)
    return torch.exp(-0.5 * away.square().sum(-1))


def squared_loss(values: Tensor, goal: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted mean squared difference (published)."""
    return (weight * (values - goal).square()).mean()


def density_loss(values: Tensor, goal: Tensor, weight: Tensor) -> Tensor:
    """Return the cross entropy of the softmax of `values` over the points, in nats.

    Each row is one map; the softmax is a density over the picture, and the goal is one after
    division by its sum. 0 is the loss of a flat map, and less is better. Rows without a goal say
    nothing about where, and are left out of the mean; without any row the loss is 0.

    Parameters
    ----------
    values, goal : (n, q)
    weight
        Of the points, as of `sample_points`; any shape that fits.
    """
    weight = weight.expand_as(values)
    share = goal * weight
    total = share.sum(1)
    there = total > 0
    log_weight = weight.clamp_min(1e-30).log().masked_fill(weight <= 0, -torch.inf)
    log_total = torch.logsumexp(values + log_weight, dim=1) - weight.sum(1).log()
    found = log_total - (share * values).sum(1) / total.clamp_min(1e-30)
    return (found * there).sum() / there.sum().clamp_min(1)
