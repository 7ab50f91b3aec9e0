"""How TPP-Gaze reads a picture: the published vector of one map, or a map that stays a map."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gazeattn.models.layers.coordconv import add_coordinates, cell_centres
from gazeattn.models.layers.mixtures import Blocks, GaussianMixture

__all__ = ["PaperReadout", "SpatialReadout", "View"]

WIDTHS = ((0.03, 0.03), (0.06, 0.06), (0.12, 0.12), (0.25, 0.25), (0.5, 0.5),
          (0.25, 0.06), (0.06, 0.25), (0.6, 0.12))  # fmt: skip
"""Standard deviations, along x and y, of the bumps around earlier fixations, where 1 is the side
of a square with the area of the stimulus."""
NEAR = (0.012, 0.03)
"""Standard deviations, in the same unit, that the Gaussians on the last fixations start from."""
RETURNS = 3
"""How many of the last fixations carry Gaussians of their own."""
LAGS = 6
"""Earlier fixations are told apart by how long ago they were, up to this many steps."""


@dataclass(frozen=True)
class View:
    """A picture as a readout gives it, one row per distinct stimulus.

    Attributes
    ----------
    z : Tensor, shape (n_stimuli, width)
        The picture as one vector.
    static : Tensor, shape (n_stimuli, cells), or None
        Log-weight of every cell before any history.
    keys : Tensor, shape (n_stimuli, cells, width), or None
        What the context is compared with.
    mean, log_sd : Tensor, shape (n_stimuli, cells, 2), or None
        Of the Gaussian of every cell.
    local : Tensor, shape (n_stimuli, channels, rows, columns), or None
        What is seen at a fixated place.
    aspect : Tensor, shape (n_stimuli, 2)
        Width and height, in sides of a square with the area of the stimulus.
    """

    z: Tensor
    aspect: Tensor
    static: Tensor | None = None
    keys: Tensor | None = None
    mean: Tensor | None = None
    log_sd: Tensor | None = None
    local: Tensor | None = None

    def of(self, which: Tensor) -> View:
        """Return the rows of some scanpaths."""
        rows = {k: None if v is None else v[which] for k, v in vars(self).items()}
        return View(**rows)  # type: ignore[arg-type]


def coarsest(channels: Mapping[str, int]) -> str:
    """Return the name of the map with the greatest stride."""
    return max(channels, key=lambda k: int(k.removeprefix("stride")))


class PaperReadout(nn.Module):
    """The published readout: convolutions of one pixel to a single map, flattened to a vector.

    With a target the last convolution gives `maps` maps instead, summed with weights that the
    target sets (the extension to search).
    """

    def __init__(
        self,
        channels: int,
        cells: int,
        width: int,
        target_width: int,
        maps: int = 256,
        radius_from: float = 0.5,
    ) -> None:
        super().__init__()
        self.radius_from = radius_from
        sizes = (channels + 3, 16, 64, maps) if target_width else (channels + 3, 8, 16, 1)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(a, b, 1, bias=False) for a, b in pairwise(sizes)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in sizes[1:])
        self.weights = nn.Linear(target_width, maps) if target_width else None
        self.linear = nn.Linear(cells, width)

    def forward(self, maps: Tensor, aspect: Tensor, target: Tensor | None = None) -> View:
        """Return z of feature maps (n, channels, rows, columns)."""
        x = add_coordinates(maps, radius_from=self.radius_from)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = F.softplus(norm(convolution(x)))
        if self.weights is not None and target is not None:
            x = (x * F.softplus(self.weights(target))[..., None, None]).sum(1, keepdim=True)
        return View(F.gelu(self.linear(x.flatten(1))), aspect)


class _Norm(nn.Module):
    """Layer normalisation over channels of (n, channels, rows, columns)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.movedim(1, -1)).movedim(-1, 1)


class SpatialReadout(nn.Module):
    """A readout in which every cell of the feature map carries one Gaussian of the mixture.

    The log-weight of cell k for the next fixation is

        s_k + <query(context), key_k> + sum over earlier fixations j and bumps r of
        a_r(context, how long ago j was) * bump_r(centre_k - position_j)

    and the last three fixations carry two narrow Gaussians each, weighted by the context: small
    steps and returns, which are too fine for the cells. So the density is as sharp as the map and
    is moved by the history, while likelihood, mass per cell and draws stay those of a Gaussian
    mixture. Mean and width of a cell's Gaussian depend on the picture.

    Parameters
    ----------
    channels : mapping of str to int
        Of the backbone's maps; they are scaled to the finest of them.
    grid : (rows, columns)
        Cells of the finest map.
    width
        Of z.
    context
        Of the context that the weights depend on.
    maps
        Channels of the shared map.
    key_width, local_width
        Values of a key; values seen at a fixated place.
    dropout
        Share of the backbone's channels, and of those of the shared map, left out in training.
    """

    centres: Tensor
    bias: Tensor
    widths: Tensor

    def __init__(
        self,
        channels: Mapping[str, int],
        grid: Sequence[int],
        width: int,
        context: int,
        target_width: int,
        maps: int = 64,
        key_width: int = 32,
        local_width: int = 16,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.names = sorted(channels)
        self.grid = (int(grid[0]), int(grid[1]))
        self.scale = key_width**-0.5
        for name in self.names:
            self.register_buffer(f"mean_{name}", torch.zeros(channels[name], 1, 1))
            self.register_buffer(f"sd_{name}", torch.ones(channels[name], 1, 1))
        cells = self.grid[0] * self.grid[1]
        self.register_buffer("centres", cell_centres(*self.grid))
        self.register_buffer("bias", torch.zeros(cells))
        self.drop = nn.Dropout2d(dropout)
        self.inputs = nn.ModuleDict({k: nn.Conv2d(channels[k], maps, 1) for k in self.names})
        self.first = nn.Sequential(nn.Conv2d(maps + 3, maps, 1), _Norm(maps), nn.GELU())
        self.around = nn.Sequential(
            nn.Conv2d(maps, maps, 5, padding=2, groups=maps), nn.Conv2d(maps, maps, 1),
            _Norm(maps), nn.GELU(),
        )  # fmt: skip
        self.gate = nn.Linear(target_width, maps) if target_width else None
        self.cell = nn.Conv2d(maps, 5, 1)
        self.key = nn.Conv2d(maps, key_width, 1)
        self.local = nn.Conv2d(maps, local_width, 1)
        self.linear = nn.Linear(maps, width)
        self.query = nn.Linear(context, key_width)
        self.bumps = nn.Linear(context, (LAGS + 1) * len(WIDTHS))
        self.near = nn.Linear(context, RETURNS * len(NEAR))
        self.near_log_sd = nn.Parameter(torch.tensor(NEAR).log().repeat(RETURNS, 1))
        nn.init.zeros_(self.cell.weight)
        nn.init.constant_(self.cell.bias, 0.0)  # type: ignore[arg-type]
        nn.init.normal_(self.bumps.weight, std=0.01)
        nn.init.zeros_(self.bumps.bias)
        self.register_buffer("widths", torch.tensor(WIDTHS))

    def fit(self, name: str, mean: Tensor, sd: Tensor) -> None:
        """Take the mean and standard deviation of each channel of a map."""
        getattr(self, f"mean_{name}").copy_(mean[:, None, None])
        getattr(self, f"sd_{name}").copy_(sd.clamp_min(1e-6)[:, None, None])

    def fit_bias(self, relative: Tensor, spread: float = 0.06) -> None:
        """Take the density of fixations (n, 2) as the log-weights to start from."""
        columns = self.grid[1]
        down = torch.exp(-0.5 * ((self.centres[::columns, 1] - relative[:, 1:]) / spread) ** 2)
        across = torch.exp(-0.5 * ((self.centres[:columns, 0] - relative[:, :1]) / spread) ** 2)
        density = (down.T @ across).flatten()
        self.bias.copy_((density / density.sum()).clamp_min(1e-6).log())

    def forward(
        self, features: Mapping[str, Tensor], aspect: Tensor, target: Tensor | None = None
    ) -> View:
        """Return what the picture gives, for maps (n, channels, rows, columns) by name."""
        x: Any = 0.0
        for name in self.names:
            maps = (features[name] - getattr(self, f"mean_{name}")) / getattr(self, f"sd_{name}")
            maps = self.inputs[name](self.drop(maps))
            if maps.shape[-2:] != self.grid:
                maps = F.interpolate(maps, self.grid, mode="bilinear", align_corners=False)
            x = x + maps
        x = self.first(add_coordinates(x))
        x = x + self.around(x)
        if self.gate is not None and target is not None:
            x = x * F.softplus(self.gate(target))[..., None, None]
        x = self.drop(x)
        static, offset, log_sd = self.cell(x).flatten(2).split([1, 2, 2], 1)
        size = torch.tensor(self.grid[::-1], device=x.device, dtype=x.dtype)
        # a cell's Gaussian starts at its centre, 0.7 cells wide, and moves by two cells at most
        mean = self.centres + 2 * offset.transpose(1, 2).tanh() / size
        spread = log_sd.transpose(1, 2).clamp(-3, 3) + math.log(0.7) - size.log()
        static = static.squeeze(1) + self.bias
        seen = torch.einsum("nck,nk->nc", x.flatten(2), static.softmax(-1))
        keys = self.key(x).flatten(2).transpose(1, 2)
        return View(
            F.gelu(self.linear(seen)), aspect, static, keys, mean, spread, self.local(x)
        )  # fmt: skip

    def bumps_around(self, view: View, xy: Tensor) -> tuple[Tensor, Tensor]:
        """Return the bumps of fixations (batch, length, 2) along both axes.

        Returns
        -------
        tuple of Tensor, (batch, length, R, columns) and (batch, length, R, rows)
            Their product is the bump.
        """
        columns = self.grid[1]
        across = (self.centres[:columns, 0] - xy[..., :1]) * view.aspect[:, None, :1]
        down = (self.centres[::columns, 1] - xy[..., 1:]) * view.aspect[:, None, 1:]
        return (
            torch.exp(-0.5 * (across[..., None, :] / self.widths[:, :1]).square()),
            torch.exp(-0.5 * (down[..., None, :] / self.widths[:, 1:]).square()),
        )

    def mixture(
        self, view: View, context: Tensor, bumps: Sequence[Tensor], xy: Tensor, first: int = 0
    ) -> Blocks:
        """Return the mixture of the next position.

        Parameters
        ----------
        view
            Rows of the scanpaths of the batch.
        context : Tensor, shape (batch, steps, width)
            Of steps first, first + 1, ...; step i has seen fixations 0..i-1.
        bumps
            Of fixations 0, 1, ... (`bumps_around`); those from a step on are left out for it.
        xy : Tensor, shape (batch, length, 2)
            The same fixations.
        first
            Number of the first step.
        """
        assert view.static is not None and view.keys is not None
        assert view.mean is not None and view.log_sd is not None
        logits = torch.einsum("btd,bkd->btk", self.query(context) * self.scale, view.keys)
        logits = logits + view.static[:, None]
        batch, steps, _ = context.shape
        length = xy.shape[1]
        number = torch.arange(steps, device=context.device) + first
        if length:
            table = self.bumps(context).unflatten(-1, (LAGS + 1, len(WIDTHS)))
            lag = number[:, None] - torch.arange(length, device=context.device)
            # beyond the last lag the coefficients stay the same
            amount = table[:, torch.arange(steps)[:, None], (lag - 1).clamp(0, LAGS)]
            amount = (amount * (lag > 0)[None, :, :, None]).flatten(2)
            across, down = (b.flatten(1, 2) for b in bumps)
            weighted = amount[..., None] * down[:, None]
            moved = weighted.transpose(-1, -2) @ across[:, None]
            logits = logits + moved.flatten(2)
        # the last fixations, where there are so many
        at = number[:, None] - 1 - torch.arange(RETURNS, device=context.device)
        centre = view.mean.new_full((batch, steps, RETURNS, 2), 0.5)
        if length:
            centre = xy[:, at.clamp(0, length - 1)]
        near = self.near(context).unflatten(-1, (RETURNS, len(NEAR)))
        near = near.masked_fill((at < 0)[None, :, :, None], -1e4).flatten(2)
        total = torch.logaddexp(logits.logsumexp(-1), near.logsumexp(-1))[..., None]
        side = view.aspect.log()[:, None, None, :]
        log_sd = (self.near_log_sd.flatten()[:, None] - side).expand(batch, 1, -1, 2)
        return Blocks(
            (
                GaussianMixture(logits - total, view.mean[:, None], view.log_sd[:, None]),
                GaussianMixture(near - total, centre.repeat_interleave(len(NEAR), 2), log_sd),
            )
        )
