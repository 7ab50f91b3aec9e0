"""Position codes: sinusoids on a grid of cells."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gazeattn.errors import DataError


def sinusoid(positions: Tensor, channels: int, temperature: float = 10000.0) -> Tensor:
    """Return sines and cosines, alternating, of positions.

    Parameters
    ----------
    positions : Tensor, shape (...)
        In units of the fastest wave, whose length is 2 pi.
    channels
        Even.
    temperature
        The slowest wave is about this many times longer than the fastest.

    Returns
    -------
    Tensor, shape (..., channels)
        Sines on even channels, cosines on odd ones (Vaswani et al., 2017).
    """
    if channels % 2:
        raise DataError("a sinusoid code needs an even number of channels", found=channels)
    steps = torch.arange(0, channels, 2, device=positions.device, dtype=torch.float32)
    angle = positions.float()[..., None] * torch.exp(-steps * math.log(temperature) / channels)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def grid_code(rows: int, columns: int, channels: int) -> Tensor:
    """Return the code of every cell of a grid: half the channels for x, then half for y.

    Returns
    -------
    Tensor, shape (rows, columns, channels)
    """
    if channels % 4:
        raise DataError("a 2-D code needs channels that 4 divides", found=channels)
    half = channels // 2
    x = sinusoid(torch.arange(columns), half)[None].expand(rows, columns, half)
    y = sinusoid(torch.arange(rows), half)[:, None].expand(rows, columns, half)
    return torch.cat([x, y], dim=-1)


def coarser_code(code: Tensor, factor: int) -> Tensor:
    """Return the code of a grid `factor` times coarser: that of the cell in each block's middle.

    Parameters
    ----------
    code : Tensor, shape (rows, columns, channels)
    """
    return code[factor // 2 :: factor, factor // 2 :: factor]


def unit_code(rows: int, columns: int, channels: int) -> Tensor:
    """Return the code of DETR-like models: positions scaled to one turn, y first, then x.

    Carion et al. (2020); cells count from 1, so that the last one is at 2 pi.

    Returns
    -------
    Tensor, shape (rows, columns, channels)
    """
    half = channels // 2

    def axis(n: int) -> Tensor:
        return sinusoid(torch.arange(1, n + 1) / (n + 1e-6) * 2 * math.pi, half)

    y = axis(rows)[:, None].expand(rows, columns, half)
    x = axis(columns)[None].expand(rows, columns, half)
    return torch.cat([y, x], dim=-1)
