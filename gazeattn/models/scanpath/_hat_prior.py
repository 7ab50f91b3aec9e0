"""Where the eye goes from the last fixations whatever is there: steps, directions, returns.

The published map knows earlier fixations only through its query, as an inner product with the
maps of cells, which is smooth in space: it says what to look at next, hardly how far away. The
parts here are no part of the published model. Both are set by the query and the number of
fixations so far, and look at displacements alone.

Displacements are measured in sides of a square with the area of the stimulus, so that a picture
that is stretched for the network has its true distances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gazeattn.datamodules import Stimulus
from gazeattn.models.scanpath._hat_batches import Prefixes, window
from gazeattn.models.scanpath._hat_loss import density_loss, overlap

Grid = tuple[int, int]
WIDTHS = ((0.03, 0.03), (0.06, 0.06), (0.12, 0.12), (0.25, 0.25), (0.5, 0.5),
          (0.25, 0.06), (0.06, 0.25), (0.6, 0.12))  # fmt: skip
"""Standard deviations along x and y of the bumps around earlier fixations."""
LAGS = 6
"""Fixations are told apart by how long ago they were, up to this many steps."""
NEAR = (0.012, 0.03)
"""Standard deviations that the Gaussians on the last fixations start from."""
ROOT2 = 2**0.5


@dataclass
class Recent:
    """The latest fixations of prefixes.

    Attributes
    ----------
    xy : Tensor, shape (n, slots, 2)
        Shares of the stimulus, the latest first.
    there : Tensor of bool, shape (n, slots)
    aspect : Tensor, shape (n, 2)
        Width and height of the stimulus in sides of a square with its area.
    count : Tensor of int64, shape (n,)
        Fixations so far.
    """

    xy: Tensor
    there: Tensor
    aspect: Tensor
    count: Tensor

    def take(self, rows: Tensor) -> Recent:
        """Return some prefixes, with the slots that they need."""
        slots = min(self.xy.shape[1], int(self.there[rows].sum(1).max())) if len(rows) else 0
        xy, there = self.xy[rows, :slots], self.there[rows, :slots]
        return Recent(xy, there, self.aspect[rows], self.count[rows])


def aspects(stimuli: Sequence[Stimulus], like: Tensor) -> Tensor:
    """Return width and height of stimuli in sides of a square with their area, (n, 2)."""
    size = like.new_tensor([s.size for s in stimuli])
    return size / size.prod(1, keepdim=True).sqrt()


def recent(xy: Tensor, prefixes: Prefixes, aspect: Tensor, history: int) -> Recent:
    """Return the latest fixations of prefixes of scanpaths.

    Parameters
    ----------
    xy : Tensor, shape (batch, length, 2)
    prefixes
    aspect : Tensor, shape (batch, 2)
    history
        How many at most.
    """
    fixation, there = window(prefixes, history)
    path = prefixes.path
    return Recent(xy[path[:, None], fixation], there, aspect[path], prefixes.count)


def _context(query: Tensor, count: Tensor) -> Tensor:
    return torch.cat([query, count.to(query)[:, None] / 10], dim=-1)


class SaccadePrior(nn.Module):
    """An additive log-prior of the next fixation's cell: bumps around earlier fixations.

    The logit of a cell is the sum, over earlier fixations j and bumps r, of
    ``a_r(query, number, how long ago j was) * bump_r(centre - position_j)``. Amounts may be
    negative: a narrow bump less a wide one is a ring, so any step length can be favoured, and a
    place that was left can be kept away from for some steps.
    """

    widths: Tensor

    def __init__(self, width: int, grid: Grid) -> None:
        super().__init__()
        self.grid = grid
        self.amounts = nn.Linear(width + 1, LAGS * len(WIDTHS))
        nn.init.normal_(self.amounts.weight, std=0.01)
        nn.init.zeros_(self.amounts.bias)
        self.register_buffer("widths", torch.tensor(WIDTHS), persistent=False)

    def _along(self, axis: int, cells: int, seen: Recent) -> Tensor:
        """Return the bumps along an axis, (n, slots, R, cells)."""
        centre = (torch.arange(cells, device=seen.xy.device) + 0.5) / cells
        away = (centre - seen.xy[..., axis, None]) * seen.aspect[:, None, axis, None]
        return torch.exp(-0.5 * (away[..., None, :] / self.widths[:, axis, None]).square())

    def forward(self, query: Tensor, seen: Recent) -> Tensor:
        """Return logits of cells, (n, cells)."""
        slots = seen.xy.shape[1]
        table = self.amounts(_context(query, seen.count)).unflatten(-1, (LAGS, len(WIDTHS)))
        # beyond the last lag the amounts stay the same
        lag = torch.arange(slots, device=query.device).clamp_max(LAGS - 1)
        amount = (table[:, lag] * seen.there[..., None]).flatten(1)
        across = self._along(0, self.grid[1], seen).flatten(1, 2)
        down = self._along(1, self.grid[0], seen).flatten(1, 2) * amount[..., None]
        return (down.transpose(1, 2) @ across).flatten(1)


@dataclass
class Near:
    """Gaussians on the last fixations, beside the map: a mixture, cut to the stimulus.

    Attributes
    ----------
    log_weight : Tensor, shape (n, 1 + k)
        Of the map and of each Gaussian; the weights sum to 1.
    centre, sd : Tensor, shape (n, k, 2)
        In shares.
    """

    log_weight: Tensor
    centre: Tensor
    sd: Tensor

    def take(self, rows: Tensor) -> Near:
        """Return the mixtures of some prefixes."""
        return Near(self.log_weight[rows], self.centre[rows], self.sd[rows])

    def _below(self, edge: Tensor | float, centre: Tensor, sd: Tensor) -> Tensor:
        return 0.5 * (1 + torch.erf((edge - centre) / (sd * ROOT2)))

    def log_prob(self, xy: Tensor) -> Tensor:
        """Return the log-density of each Gaussian at positions (n, 2), per unit of share area."""
        z = (xy[:, None] - self.centre) / self.sd
        inside = self._below(1.0, self.centre, self.sd) - self._below(0.0, self.centre, self.sd)
        log = -0.5 * z.square() - (self.sd * (2 * math.pi) ** 0.5).log() - inside.log()
        return log.sum(-1)

    def _axis(self, axis: int, cells: int) -> Tensor:
        edges = torch.arange(cells + 1, device=self.sd.device, dtype=self.sd.dtype) / cells
        mass = self._below(edges, self.centre[..., axis, None], self.sd[..., axis, None]).diff()
        return mass / mass.sum(-1, keepdim=True)

    def masses(self, grid: Grid) -> Tensor:
        """Return the weighted mass of all Gaussians in cells, (n, rows, columns)."""
        down = self._axis(1, grid[0]) * self.log_weight[:, 1:, None].exp()
        return down.transpose(1, 2) @ self._axis(0, grid[1])

    def at(self, which: Tensor, chance: Tensor) -> Tensor:
        """Return a position from the Gaussian `which` (n,) for uniform `chance` (n, 2)."""
        row = torch.arange(len(which), device=which.device)
        centre, sd = self.centre[row, which].to(chance), self.sd[row, which].to(chance)
        low, high = self._below(0.0, centre, sd), self._below(1.0, centre, sd)
        share = (low + chance * (high - low)).clamp(1e-15, 1 - 1e-15)
        found = centre + sd * ROOT2 * torch.erfinv(2 * share - 1)
        return found.clamp(0, 1 - 2**-53)  # rounding alone: the quantiles are those of inside


class Returns(nn.Module):
    """Small steps and returns, too fine for the cells: Gaussians on the last fixations.

    Parameters
    ----------
    width
        Of the query.
    count
        How many of the last fixations carry Gaussians, one per entry of `NEAR`.
    """

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.weights = nn.Linear(width + 1, count * len(NEAR))
        nn.init.normal_(self.weights.weight, std=0.01)
        nn.init.constant_(self.weights.bias, -3.0)
        self.log_sd = nn.Parameter(torch.tensor(NEAR).log().repeat(count, 1))

    def forward(self, query: Tensor, seen: Recent) -> Near:
        """Return the mixture of every prefix; a fixation that is not there has weight 0."""
        odds = self.weights(_context(query, seen.count)).unflatten(-1, (self.count, len(NEAR)))
        missing = self.count - seen.xy.shape[1]
        xy, there = seen.xy[:, : self.count], seen.there[:, : self.count]
        if missing > 0:
            xy = torch.cat([xy, xy.new_full((len(xy), missing, 2), 0.5)], dim=1)
            there = torch.cat([there, there.new_zeros(len(xy), missing)], dim=1)
        odds = odds.masked_fill(~there[..., None], -1e4).flatten(1)
        weights = torch.cat([torch.zeros_like(odds[:, :1]), odds], dim=1).log_softmax(-1)
        sd = self.log_sd.exp()[None, ..., None] / seen.aspect[:, None, None]
        centre = xy[:, :, None].expand(-1, -1, len(NEAR), -1)
        return Near(weights, centre.flatten(1, 2), sd.flatten(1, 2))


@dataclass
class Next:
    """The distribution of the next fixation.

    Attributes
    ----------
    logits : Tensor, shape (n, cells)
        Of the map, before any renormalisation.
    logs : Tensor, shape (n, cells)
        Log-probabilities of the map's cells.
    near : Near or None
    """

    logits: Tensor
    logs: Tensor
    near: Near | None

    def masses(self, own: Grid, grid: Grid) -> Tensor:
        """Return the exact mass of the cells of a grid, (n, rows, columns).

        The map is level inside its own cells.
        """
        mass = self.logs.exp().unflatten(-1, own)
        if grid != own:
            mass = overlap(own[0], grid[0]).to(mass) @ mass @ overlap(own[1], grid[1]).to(mass).T
        if self.near is not None:
            mass = mass * self.near.log_weight[:, :1, None].exp() + self.near.masses(grid)
        return mass / mass.sum((-2, -1), keepdim=True)

    def density_loss(self, xy: Tensor, grid: Grid, sigma: float) -> Tensor:
        """Return the negative log-mass of the next fixation, (n,).

        Of the map it is the cross-entropy with the fixation blurred by `sigma` cells; a mixture
        with Gaussians takes the unblurred density of those, per area of a cell. With `sigma` 0 it
        is the likelihood.
        """
        each = density_loss(self.logits, xy, grid, sigma)
        if self.near is None:
            return each
        size = math.log(grid[0] * grid[1])
        parts = torch.cat([-each[:, None], self.near.log_prob(xy) - size], dim=1)
        return -(self.near.log_weight + parts).logsumexp(-1)
