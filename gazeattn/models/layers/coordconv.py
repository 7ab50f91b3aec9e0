"""Coordinates as further channels of a feature map (Liu et al. 2018, arXiv:1807.03247)."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["add_coordinates", "cell_centres"]


def add_coordinates(maps: Tensor, *, radius_from: float = 0.0) -> Tensor:
    """Return maps with three more channels: row, column and distance.

    Parameters
    ----------
    maps : Tensor, shape (n, channels, rows, columns)
    radius_from
        The distance is measured from this point on both axes, whose coordinates run from -1 to 1.
        0 is the centre. The published TPP-Gaze measured it from 0.5, a quarter off the centre;
        its weights need that value.

    Returns
    -------
    Tensor, shape (n, channels + 3, rows, columns)
    """
    n, _, rows, columns = maps.shape
    down = torch.linspace(-1, 1, rows, device=maps.device, dtype=maps.dtype)[:, None].expand(
        rows, columns
    )
    across = torch.linspace(-1, 1, columns, device=maps.device, dtype=maps.dtype)[None].expand(
        rows, columns
    )
    radius = ((down - radius_from).square() + (across - radius_from).square()).sqrt()
    extra = torch.stack([down, across, radius])[None].expand(n, -1, -1, -1)
    return torch.cat([maps, extra], 1)


def cell_centres(rows: int, columns: int) -> Tensor:
    """Return x, y of the centres of cells as shares of the stimulus, (rows * columns, 2)."""
    y, x = torch.meshgrid(
        (torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns, indexing="ij"
    )
    return torch.stack([x.flatten(), y.flatten()], -1)
