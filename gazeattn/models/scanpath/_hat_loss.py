"""Targets and losses of the fixation map."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

Grid = tuple[int, int]


def _axis_mass(centre: Tensor, cells: int, sigma: float) -> Tensor:
    """Return a Gaussian's mass in cells of width 1, renormalised to those there are, (n, cells)."""
    edges = torch.arange(cells + 1, device=centre.device, dtype=centre.dtype)
    below = 0.5 * (1 + torch.erf((edges - centre[:, None]) / (sigma * 2**0.5)))
    mass = below.diff(dim=-1)
    return mass / mass.sum(-1, keepdim=True)


def blurred_targets(xy: Tensor, grid: Grid, sigma: float) -> tuple[Tensor, Tensor]:
    """Return the two factors of the blurred target of every fixation.

    Parameters
    ----------
    xy : Tensor, shape (n, 2)
        Shares of the stimulus.
    grid
        Rows and columns.
    sigma
        In cells; 0 puts all in the cell of the fixation.

    Returns
    -------
    rows, columns : Tensor, shape (n, rows) and (n, columns)
        The target is their outer product and sums to 1.
    """
    n_rows, n_columns = grid
    if sigma <= 0:
        at = (xy * xy.new_tensor([n_columns, n_rows])).long()
        return F.one_hot(at[:, 1], n_rows).to(xy), F.one_hot(at[:, 0], n_columns).to(xy)
    return (
        _axis_mass(xy[:, 1] * n_rows, n_rows, sigma),
        _axis_mass(xy[:, 0] * n_columns, n_columns, sigma),
    )


def density_loss(logits: Tensor, xy: Tensor, grid: Grid, sigma: float) -> Tensor:
    """Return the cross-entropy of the softmax map against the blurred fixation, (n,).

    Parameters
    ----------
    logits : Tensor, shape (n, cells)
    """
    rows, columns = blurred_targets(xy, grid, sigma)
    logs = logits.log_softmax(-1).unflatten(-1, grid)
    return -torch.einsum("nr,nrc,nc->n", rows, logs, columns)


def focal_loss(
    logits: Tensor,
    xy: Tensor,
    grid: Grid,
    sigma: float,
    stride: int = 4,
    alpha: float = 1.0,
    beta: float = 4.0,
) -> Tensor:
    """Return the penalty-reduced focal loss of every map over the pixels it stands for, (n,).

    Each cell stands for ``stride x stride`` pixels with its own value p = sigmoid(logit). With
    the target y, a Gaussian with 1 at the pixel of the fixation, the loss of a map is

    ``-[(1 - p)^alpha log p  at y = 1  +  sum over other pixels (1 - y)^beta p^alpha log(1 - p)]``.

    The sums of ``(1 - y)^beta`` over the pixels of a cell are exact: a power of a Gaussian is a
    product over the two axes, and beta is a whole number.

    Parameters
    ----------
    logits : Tensor, shape (n, cells)
    xy : Tensor, shape (n, 2)
        Shares of the stimulus.
    sigma
        In pixels.
    """
    n_rows, n_columns = grid
    scale = xy.new_tensor([n_columns * stride, n_rows * stride])
    at = (xy * scale).long()

    def axis(n: int, centre: Tensor) -> Tensor:
        steps = torch.arange(n * stride, device=xy.device) - centre[:, None]
        return torch.exp(-0.5 * (steps / sigma) ** 2)

    y, x = axis(n_rows, at[:, 1]), axis(n_columns, at[:, 0])
    rest = logits.new_zeros(len(xy), n_rows, n_columns)
    sign = 1.0
    for k in range(int(beta) + 1):  # binomial expansion of (1 - y)^beta
        ry = (y**k).unflatten(-1, (n_rows, stride)).sum(-1)
        rx = (x**k).unflatten(-1, (n_columns, stride)).sum(-1)
        rest = rest + sign * ry[:, :, None] * rx[:, None]
        sign *= -(beta - k) / (k + 1)
    p = logits.sigmoid()
    negative = rest.flatten(1).clamp_min(0) * p**alpha * F.logsigmoid(-logits)
    cell = (at[:, 1] // stride) * n_columns + at[:, 0] // stride
    hit = logits.gather(1, cell[:, None])[:, 0]
    positive = (1 - hit.sigmoid()) ** alpha * F.logsigmoid(hit)
    return -(positive + negative.sum(-1))


def overlap(cells: int, asked: int) -> Tensor:
    """Return the share of each of `cells` equal pieces in each of `asked`, (asked, cells).

    Columns sum to 1, so that a density that is level inside cells keeps all its mass.
    """
    fine = torch.arange(cells + 1, dtype=torch.float64) / cells
    coarse = torch.arange(asked + 1, dtype=torch.float64) / asked
    low = torch.maximum(fine[None, :-1], coarse[:-1, None])
    high = torch.minimum(fine[None, 1:], coarse[1:, None])
    return (high - low).clamp_min(0) * cells


def log_prior(xy: Tensor, grid: Grid, bandwidth: float = 0.03, level: float = 0.01) -> Tensor:
    """Return the log-mass of cells: Gaussians at fixations and a level share, (cells,).

    Parameters
    ----------
    xy : Tensor, shape (n, 2)
        Shares of the stimulus.
    grid
        Rows and columns.
    bandwidth
        Share of the width.
    level
        Mass that is spread over all cells.
    """
    total = torch.zeros(grid, dtype=torch.float64)
    for part in xy.double().split(4096):
        rows, columns = blurred_targets(part, grid, bandwidth * grid[1])
        total += rows.T @ columns
    total = (1 - level) * total / total.sum() + level / total.numel()
    return total.log().flatten()
