"""Where people look whatever the picture, and Gaussian kernels with exact masses of cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus
from gazeattn.errors import DataError
from gazeattn.models.scanpath.base import Grid, Path, ScanpathModel, log_density_of
from gazeattn.models.scanpath.uniform import TrainingLengths, as_paths, need_fit, spread
from gazeattn.registry import register_scanpath_model

LATTICE = 96
"""Cells per side of the lattice on which bandwidths are compared."""
BANDWIDTHS = np.geomspace(0.012, 0.25, 16)
UNIFORM = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)


def axis_mass(centres: Tensor, sigma: float, cells: int) -> Tensor:
    """Return the mass of Gaussians on the equal cells of [0, 1), (n, cells).

    The Gaussians are cut off at the borders and have mass 1 in between.

    Parameters
    ----------
    centres : Tensor of float64, shape (n,)
    sigma : float
    cells : int
    """
    edges = torch.linspace(0, 1, cells + 1, dtype=torch.float64)
    below = torch.special.ndtr((edges - centres[:, None]) / sigma)
    return below.diff(dim=1) / (below[:, -1:] - below[:, :1])


def kernel_sum(xy: Tensor, sigma: tuple[float, float], grid: Grid) -> Tensor:
    """Return the summed cell masses of one Gaussian per place, (rows, columns), sum n.

    Parameters
    ----------
    xy : Tensor, shape (n, 2)
        Shares of the stimulus.
    sigma : (across, down)
        Shares of width and height.
    """
    total = torch.zeros(grid, dtype=torch.float64)
    for part in xy.double().split(8192):
        total += axis_mass(part[:, 1], sigma[1], grid[0]).T @ axis_mass(
            part[:, 0], sigma[0], grid[1]
        )
    return total


def draw_near(xy: Tensor, sigma: tuple[float, float], generator: torch.Generator) -> Tensor:
    """Return one draw from the Gaussian at each place, cut off at the borders, (n, 2)."""
    width = torch.tensor(sigma, dtype=torch.float64)
    low, high = torch.special.ndtr(-xy / width), torch.special.ndtr((1 - xy) / width)
    chance = torch.rand(xy.shape, generator=generator, dtype=torch.float64)
    # the inverse of the distribution function keeps draws inside, up to its last digit
    inside = xy + width * torch.special.ndtri(low + chance * (high - low))
    return inside.clamp(0, 1)


def resample(mass: Tensor, grid: Grid) -> Tensor:
    """Return masses of cells on another grid, sharing each by the area of the overlap.

    Parameters
    ----------
    mass : Tensor, shape (..., rows, columns)

    Returns
    -------
    Tensor, shape (..., *grid)
        The same total.
    """
    rows, columns = mass.shape[-2:]
    if (rows, columns) == tuple(grid):
        return mass
    down, across = _overlap(rows, grid[0]).to(mass), _overlap(columns, grid[1]).to(mass)
    return down.T @ mass @ across


def _overlap(old: int, new: int) -> Tensor:
    """Return the share of each old cell that lies in each new one, (old, new)."""
    a = torch.arange(old, dtype=torch.float64)[:, None] / old
    b = torch.arange(new, dtype=torch.float64) / new
    low, high = torch.maximum(a, b), torch.minimum(a + 1 / old, b + 1 / new)
    share = (high - low).clamp_min(0) * old
    return share / share.sum(1, keepdim=True)


def cell_of(shares: Tensor, grid: Grid) -> Tensor:
    """Return the number of the cell, row by row, in which each place lies, (...)."""
    column = (shares[..., 0] * grid[1]).long().clamp(0, grid[1] - 1)
    row = (shares[..., 1] * grid[0]).long().clamp(0, grid[0] - 1)
    return row * grid[1] + column


def draw_cells(mass: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Return places drawn from maps, uniform inside the drawn cells.

    Parameters
    ----------
    mass : Tensor, shape (1, rows, columns) or (n, rows, columns)
        One map for all draws, or one for each.

    Returns
    -------
    Tensor of float64, shape (n, 2)
        Shares of the stimulus.
    """
    rows, columns = mass.shape[-2:]
    flat = mass.double().flatten(1).cumsum(1)
    chance = torch.rand(n, 1, generator=generator, dtype=torch.float64) * flat[:, -1:]
    if len(flat) == 1:
        at = torch.searchsorted(flat[0], chance[:, 0], right=True)
    else:
        at = torch.searchsorted(flat, chance, right=True)[:, 0]
    at = at.clamp_max(rows * columns - 1)
    inside = torch.rand(n, 2, generator=generator, dtype=torch.float64)
    cell = torch.stack([at % columns, at // columns], dim=1)
    return (cell + inside) / torch.tensor([columns, rows], dtype=torch.float64)


@register_scanpath_model(
    "center_bias",
    description="kernel density of the training fixations of other pictures; independent points",
    citation="Tatler (2007), The central fixation bias in scene viewing, Journal of Vision 7(14):4",
    needs=(),
    kind="baseline",
)
class CenterBias(ScanpathModel):
    """Gaussian kernels at the training fixations, as shares of the stimulus, and a uniform part.

    The fixations of a stimulus are left out of its own density. Kernels are cut off at the
    borders and keep all of their mass inside; masses of cells are exact integrals.

    Parameters
    ----------
    bandwidth : float, optional
        Standard deviation as a share of width and of height. By default the one among 16 between
        .012 and .25 with which the fixations on all other training images best predict those on
        each.
    uniform : float, optional
        Share of the uniform density; chosen in the same way.
    by_target : bool
        One density per search target. A target that was not seen in training gets that of all.

    Notes
    -----
    Sampled scanpaths are independent places, without durations, as long as random training
    scanpaths.
    """

    def __init__(
        self,
        *,
        bandwidth: float | None = None,
        uniform: float | None = None,
        by_target: bool = False,
    ) -> None:
        if bandwidth is not None and not bandwidth > 0:
            raise DataError("a bandwidth is positive", found=bandwidth)
        if uniform is not None and not 0 <= uniform < 1:
            raise DataError("the uniform share must be in [0, 1)", found=uniform)
        self.bandwidth, self.uniform, self.by_target = bandwidth, uniform, by_target
        self.chosen: tuple[float, float] | None = None
        self.at_edge = False
        self.lengths: TrainingLengths | None = None
        self._xy = torch.zeros(0, 2, dtype=torch.float64)
        self._rows: dict[str, NDArray[np.int64]] = {}
        self._groups: dict[str | None, NDArray[np.int64]] = {}
        self._totals: dict[tuple[str | None, Grid], Tensor] = {}

    def fit_statistics(self, train: Scanpaths) -> None:
        """Keep the training fixations and choose the bandwidth and the uniform share."""
        self.lengths = TrainingLengths(train)
        self._xy = torch.from_numpy(train.relative)
        names = train.stimulus[train.of]
        order = np.argsort(names.astype(str), kind="stable")
        found, first = np.unique(names[order].astype(str), return_index=True)
        self._rows = dict(zip(found.tolist(), np.split(order, first[1:]), strict=True))
        self._groups = {None: np.arange(len(names))}
        if self.by_target:
            targets = np.array([train.stimuli[s].target for s in names], dtype=object)
            for target in {t for t in targets.tolist() if t is not None}:
                self._groups[target] = np.flatnonzero(targets == target)
        self._totals = {}
        self.chosen, self.at_edge = self._choose()

    def _choose(self) -> tuple[tuple[float, float], bool]:
        """Return bandwidth and uniform share by leaving one image out, and if at an edge."""
        if self.bandwidth is not None and self.uniform is not None:
            return (self.bandwidth, self.uniform), False
        widths = BANDWIDTHS if self.bandwidth is None else np.array([self.bandwidth])
        shares = UNIFORM if self.uniform is None else (self.uniform,)
        if len(self._rows) < 2:
            raise DataError(
                "a bandwidth is chosen by leaving one image out, which needs two",
                found=f"{len(self._rows)} training images",
                hint="give bandwidth and uniform",
            )
        cells = LATTICE * LATTICE
        at = cell_of(self._xy, (LATTICE, LATTICE))
        counts = torch.stack(
            [torch.bincount(at[rows], minlength=cells).float() for rows in self._rows.values()]
        ).view(-1, LATTICE, LATTICE)
        total, own = counts.sum(0), counts.sum((1, 2))
        others = (own.sum() - own)[:, None, None]
        centres = (torch.arange(LATTICE, dtype=torch.float64) + 0.5) / LATTICE
        uniform = torch.tensor(shares).view(-1, 1)
        scores = torch.zeros(len(widths), len(shares), dtype=torch.float64)
        for k, width in enumerate(widths):
            kernel = axis_mass(centres, float(width), LATTICE).float()
            everyone = kernel.T @ total @ kernel
            for part, n in zip(counts.split(256), others.split(256), strict=True):
                density = ((everyone - kernel.T @ part @ kernel) / n).clamp_min(0)
                where = part > 0
                mixed = (1 - uniform) * density[where] + uniform / cells
                logs = mixed.clamp_min(1e-30).log().double()
                scores[k] += (logs * part[where]).sum(1)
        k, u = divmod(int(scores.argmax()), len(shares))
        return (float(widths[k]), float(shares[u])), len(widths) > 1 and k in (0, len(widths) - 1)

    def _group(self, stimulus: Stimulus) -> str | None:
        return stimulus.target if stimulus.target in self._groups else None

    def _without(self, stimulus: Stimulus) -> NDArray[np.int64]:
        """Return the rows of the group of a stimulus that are on the stimulus itself."""
        rows = self._rows.get(stimulus.name, np.zeros(0, dtype=np.int64))
        group = self._group(stimulus)
        return rows if group is None else np.intersect1d(rows, self._groups[group])

    def map_of(self, stimulus: Stimulus, grid: Grid) -> Tensor:
        """Return the mass of every cell, leaving out the stimulus, (rows, columns) float64.

        Where nothing is left it is uniform.
        """
        if self.chosen is None:
            raise need_fit(self)
        width, uniform = self.chosen
        group, grid = self._group(stimulus), (int(grid[0]), int(grid[1]))
        key = (group, grid)
        if key not in self._totals:
            self._totals[key] = kernel_sum(self._xy[self._groups[group]], (width, width), grid)
        own = self._without(stimulus)
        n = len(self._groups[group]) - len(own)
        cells = grid[0] * grid[1]
        if n == 0:
            return torch.full(grid, 1 / cells, dtype=torch.float64)
        total = self._totals[key]
        if len(own):
            total = (total - kernel_sum(self._xy[own], (width, width), grid)).clamp_min(0)
        return (1 - uniform) * total / total.sum() + uniform / cells

    def maps_of(self, stimuli: Sequence[Stimulus], grid: Grid) -> Tensor:
        """Return the masses for several stimuli, (n_stimuli, rows, columns)."""
        return torch.stack([self.map_of(s, grid) for s in stimuli])

    def log_density(self, batch: ScanpathBatch, grid: Grid) -> Tensor:
        """Return the same map for all fixations on a stimulus."""
        maps = log_density_of(self.maps_of(batch.stimuli, grid))
        return spread(maps[batch.which.cpu()], batch)

    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[Path]:
        """Draw scanpaths of independent places."""
        if self.chosen is None or self.lengths is None:
            raise need_fit(self)
        width, uniform = self.chosen
        lengths = self.lengths.draw(n, generator)
        total = int(lengths.sum())
        rows, own = self._groups[self._group(stimulus)], self._without(stimulus)
        rows = np.setdiff1d(rows, own) if len(own) else rows
        anywhere = torch.rand(total, 2, generator=generator, dtype=torch.float64)
        if not len(rows):
            return as_paths(anywhere, lengths, stimulus)
        pick = torch.randint(len(rows), (total,), generator=generator)
        near = draw_near(self._xy[torch.from_numpy(rows)[pick]], (width, width), generator)
        flat = torch.rand(total, 1, generator=generator, dtype=torch.float64) < uniform
        return as_paths(torch.where(flat, anywhere, near), lengths, stimulus)
