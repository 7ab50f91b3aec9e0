"""SceneWalk: attention and inhibition maps that follow the gaze."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus, collate
from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.models.scanpath.base import Grid, Path, ScanpathModel, log_density_of
from gazeattn.models.scanpath.center_bias import (
    CenterBias,
    cell_of,
    draw_cells,
    kernel_sum,
    resample,
)
from gazeattn.models.scanpath.kde_gold import KDEGold
from gazeattn.models.scanpath.uniform import BELOW_ONE, TrainingLengths, as_paths, need_fit
from gazeattn.registry import register_scanpath_model

DENSITIES = ("center_bias", "empirical")
STARTS = ("first", "density")

STARTING_VALUES: dict[str, float] = {
    "omega_attention": 18.5,  # 1/s, decay of the attention map
    "omega_ratio": 10.0,  # how many times slower inhibition decays
    "sigma_attention": 6.0,  # degrees
    "sigma_inhibition": 12.0,  # degrees
    "gamma": 8.0,  # exponent of inhibition
    "lambda": 0.6,  # exponent of attention
    "inhibition": 0.7,  # weight C of inhibition
    "zeta": 0.01,  # share of the uniform map
}
GUESSES: tuple[dict[str, float], ...] = (
    {},
    {  # narrow attention, weak inhibition: the likelihood has more than one optimum
        "omega_attention": 4.0,
        "sigma_attention": 1.5,
        "sigma_inhibition": 3.0,
        "gamma": 1.0,
        "inhibition": 0.3,
    },
)
"""Where the search for parameters begins, as changes of `STARTING_VALUES`; the best end counts."""
BOUNDS: dict[str, tuple[float, float]] = {
    "omega_attention": (0.5, 200.0),
    "omega_ratio": (0.5, 200.0),
    "sigma_attention": (0.3, 40.0),
    "sigma_inhibition": (0.2, 40.0),
    "gamma": (0.1, 60.0),
    "lambda": (0.1, 6.0),
    "inhibition": (1e-4, 0.9999),
    "zeta": (1e-5, 0.5),
}


@dataclass(frozen=True)
class Walk:
    """The maps of many scanpaths at one moment, each (batch, rows, columns) with sum 1."""

    attention: Tensor
    inhibition: Tensor


def power(mass: Tensor, exponent: Tensor) -> Tensor:
    """Return ``mass ** exponent`` with sum 1 per map.

    In logarithms, so that large exponents of small masses neither vanish nor need more digits.
    """
    tiny = torch.finfo(mass.dtype).tiny
    logs = exponent * mass.clamp_min(tiny).log().flatten(-2)
    return torch.softmax(logs, dim=-1).view(mass.shape)


def bump(xy: Tensor, sigma: Tensor, degrees: Tensor, grid: Grid) -> Tensor:
    """Return Gaussians at places, largest value about 1, (batch, rows, columns).

    Parameters
    ----------
    xy : Tensor, shape (batch, 2)
        Shares of the stimulus.
    sigma : Tensor, scalar
        Degrees.
    degrees : Tensor, shape (batch, 2)
        Width and height of each stimulus.
    """
    lines = []
    for axis, cells in ((1, grid[0]), (0, grid[1])):
        centre = (torch.arange(cells, device=xy.device, dtype=xy.dtype) + 0.5) / cells
        away = (centre - xy[:, axis, None]) * degrees[:, axis, None]
        lines.append(torch.exp(-0.5 * (away / sigma) ** 2))
    return lines[0][:, :, None] * lines[1][:, None, :]


def unit(mass: Tensor) -> Tensor:
    """Return maps with sum 1; a map of zeros becomes uniform."""
    total = mass.sum((-2, -1), keepdim=True)
    tiny = torch.finfo(mass.dtype).tiny
    even = torch.full_like(mass, 1 / (mass.shape[-1] * mass.shape[-2]))
    return torch.where(total > tiny, mass / total.clamp_min(tiny), even)


def look(
    maps: Walk,
    density: Tensor,
    xy: Tensor,
    seconds: Tensor,
    degrees: Tensor,
    values: Mapping[str, Tensor],
) -> Walk:
    """Return the maps at the end of a fixation of some seconds.

    ``A(t) = A* + exp(-wA t) (A(0) - A*)`` with A* the density seen through a Gaussian at the
    fixation, and ``I(t)`` likewise with a Gaussian alone.
    """
    grid = (density.shape[-2], density.shape[-1])
    omega = values["omega_attention"]
    seen = unit(bump(xy, values["sigma_attention"], degrees, grid) * density)
    been = unit(bump(xy, values["sigma_inhibition"], degrees, grid))
    kept = torch.exp(-omega * seconds)[:, None, None]
    stays = torch.exp(-omega / values["omega_ratio"] * seconds)[:, None, None]
    return Walk(
        seen + kept * (maps.attention - seen), been + stays * (maps.inhibition - been)
    )  # fmt: skip


def potential(maps: Walk, values: Mapping[str, Tensor]) -> Tensor:
    """Return the probability of each cell to be fixated next, (batch, rows, columns).

    ``u = A^l / sum A^l - C I^g / sum I^g``, negative values to 0, sum 1,
    ``p = (1 - z) u + z / cells``.
    """
    u = power(maps.attention, values["lambda"])
    u = u - values["inhibition"] * power(maps.inhibition, values["gamma"])
    cells = u.shape[-1] * u.shape[-2]
    return (1 - values["zeta"]) * unit(u.clamp_min(0)) + values["zeta"] / cells


def walk(
    density: Tensor,
    start: Tensor,
    xy: Tensor,
    seconds: Tensor,
    degrees: Tensor,
    values: Mapping[str, Tensor],
) -> Iterator[Tensor]:
    """Yield the map of every fixation of many scanpaths, given those before it.

    Parameters
    ----------
    density, start : Tensor, shape (batch, rows, columns)
        Masses of the scene, and where a scanpath begins.
    xy : Tensor, shape (batch, length, 2)
    seconds : Tensor, shape (batch, length)
        Without NaN.
    degrees : Tensor, shape (batch, 2)
    values : mapping of str to scalar Tensor
        Those of `STARTING_VALUES`.
    """
    cells = density.shape[-1] * density.shape[-2]
    maps = Walk(start, torch.full_like(density, 1 / cells))
    yield (1 - values["zeta"]) * start + values["zeta"] / cells
    for i in range(xy.shape[1] - 1):
        maps = look(maps, density, xy[:, i], seconds[:, i], degrees, values)
        yield potential(maps, values)


@register_scanpath_model(
    "scenewalk",
    description="attention and inhibition maps that follow the gaze, over a given density",
    citation="Engbert, Trukenbrod, Barthelme, Wichmann (2015), Spatial statistics and attentional "
    "dynamics in scene viewing, Journal of Vision 15(1):14; Schwetlick, Rothkegel, Trukenbrod, "
    "Engbert (2020), Communications Biology 3:727",
    needs=(),
    kind="baseline",
)
class SceneWalk(ScanpathModel):
    """SceneWalk with subtractive inhibition, fitted by maximum likelihood.

    Parameters
    ----------
    density : {"center_bias", "empirical"}
        The scene. ``"center_bias"``: that of the training fixations on other pictures, a baseline.
        ``"empirical"``: other people's fixations on the picture (`KDEGold`), as in the paper;
        a ceiling (`privileged`), without the participant of the trial.
    pixels_per_degree : float
        Of the pictures on the screen of the training data.
    map_size : (columns, rows)
        Cells of the maps.
    start : {"first", "density"}
        Where scanpaths begin: at the first fixations of the training part (blurred with the
        bandwidth of the centre bias), or anywhere in the scene's density. The first fixation has
        probability ``(1 - z) start + z / cells``.
    parameters : mapping of str to float, optional
        Values to keep (`STARTING_VALUES` names them); the others are fitted.
    fit_scanpaths : int
        So many random training scanpaths are used to fit; 0 keeps `STARTING_VALUES`.
    evaluations : int
        About the most evaluations of the likelihood, for each of the `GUESSES` to begin with.
    seed : int
        Of the choice of scanpaths.

    Attributes
    ----------
    values : dict of str to float
        The fitted parameters: times in seconds, distances in degrees.
    train_log_likelihood : float or None
        Mean natural log density of the fixations that were fitted, 0 for the uniform one.
    at_bound : list of str
        Those within 1 % of an end of their `BOUNDS`.
    lost : LossLog
        Counts fixations whose missing duration was taken as the median of training.

    Notes
    -----
    Durations are an input, never predicted: `log_density` uses those of the fixations before, and
    `sample` runs its maps on durations drawn from the training part. They belong to no prediction
    and are not returned (`durations` is False). Time between fixations is not modelled. Lengths
    are those of random training scanpaths. Both maps have sum 1 from the start on: attention
    begins at the start map, inhibition uniform. Inside a cell every place is equally likely, on
    other grids cells are shared by area.
    """

    def __init__(
        self,
        *,
        density: str = "center_bias",
        pixels_per_degree: float = 24.0,
        map_size: Sequence[int] = (128, 128),
        start: str = "first",
        parameters: Mapping[str, float] | None = None,
        fit_scanpaths: int = 2000,
        evaluations: int = 60,
        seed: int = 0,
    ) -> None:
        for option, options in ((density, DENSITIES), (start, STARTS)):
            if option not in options:
                raise DataError("no such option", expected=", ".join(options), found=option)
        if not pixels_per_degree > 0:
            raise DataError("pixels per degree are positive", found=pixels_per_degree)
        self.fixed = dict(parameters or {})
        for name, value in self.fixed.items():
            low, high = BOUNDS.get(name, (math.nan, math.nan))
            if not low <= value <= high:
                raise DataError(
                    f"parameter {name!r} must be one of {', '.join(BOUNDS)}, inside its bounds",
                    expected=f"{low:g} to {high:g}",
                    found=value,
                )
        self.density_name, self.start, self.seed = density, start, seed
        self.pixels_per_degree = pixels_per_degree
        self.grid: Grid = (int(map_size[1]), int(map_size[0]))
        self.fit_scanpaths, self.evaluations = fit_scanpaths, evaluations
        self.privileged = density == "empirical"  # type: ignore[misc]
        self.centre = CenterBias()
        self.gold = KDEGold() if self.privileged else None
        self.values: dict[str, float] = {}
        self.train_log_likelihood: float | None = None
        self.at_bound: list[str] = []
        self.lost = LossLog()
        self.lengths: TrainingLengths | None = None
        self._start = torch.zeros(0)
        self._durations = torch.zeros(0)

    # -- fitting ---------------------------------------------------------------------------------

    def fit_statistics(self, train: Scanpaths) -> None:
        """Take densities, lengths and durations, and fit the parameters."""
        self.lengths = TrainingLengths(train)
        known = train.duration[np.isfinite(train.duration)]
        if not len(known):
            raise DataError("SceneWalk needs durations, and the training part has none")
        self._durations = torch.from_numpy(known / 1000)
        if self.gold is not None:
            self.gold.fit_statistics(train)
            self.gold.observe(train)
            self.centre = self.gold.centre
        else:
            self.centre.fit_statistics(train)
        assert self.centre.chosen is not None
        width, uniform = self.centre.chosen
        first = torch.from_numpy(train.relative[train.starts[:-1][train.lengths > 0]])
        start = kernel_sum(first, (width, width), self.grid) / len(first)
        self._start = (1 - uniform) * start + uniform / start.numel()
        self._fit(train)

    def _fit(self, train: Scanpaths) -> None:
        free = [n for n in STARTING_VALUES if n not in self.fixed]
        self.values = {**STARTING_VALUES, **self.fixed}
        if not self.fit_scanpaths or not free:
            return
        rng = np.random.default_rng(self.seed)
        chosen = rng.permutation(len(train))[: self.fit_scanpaths]
        # like lengths together, so that little is computed for padding
        chosen = chosen[np.argsort(train.lengths[chosen], kind="stable")]
        size = max(1, 2_000_000 // (self.grid[0] * self.grid[1] * 16))
        parts = [
            self._inputs(collate(train, chosen[i : i + size]), LossLog())
            for i in range(0, len(chosen), size)
        ]
        found = [self._search(free, {**self.values, **g, **self.fixed}, parts) for g in GUESSES]
        loss, at = min(found, key=lambda pair: pair[0])
        self.train_log_likelihood = math.log(self.grid[0] * self.grid[1]) - loss
        self.values |= {n: float(_bound(n, at[i])) for i, n in enumerate(free)}
        self.at_bound = [n for i, n in enumerate(free) if abs(float(at[i])) > math.log(99)]

    def _search(
        self, free: list[str], values: Mapping[str, float], parts: list[dict[str, Tensor]]
    ) -> tuple[float, Tensor]:
        """Return the smallest loss from one beginning, and the unbounded parameters there."""
        at = torch.tensor([_unbound(n, values[n]) for n in free], requires_grad=True)
        total = sum(int(p["mask"].sum()) for p in parts)
        n = self.evaluations
        search = torch.optim.LBFGS([at], max_iter=n, max_eval=n, line_search_fn="strong_wolfe")
        best = (math.inf, at.detach().clone())

        def closure() -> Tensor:
            nonlocal best
            search.zero_grad()
            loss = torch.zeros(())
            for part in parts:
                now = {n: torch.tensor(v) for n, v in self.fixed.items()}
                now |= {n: _bound(n, at[i]) for i, n in enumerate(free)}
                here = -self._logs(part, now).sum() / total
                here.backward()
                loss = loss + here.detach()
            if float(loss) < best[0]:
                best = (float(loss), at.detach().clone())
            return loss

        with torch.enable_grad():
            search.step(closure)
        return best

    def _logs(self, part: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> Tensor:
        """Return the log mass of the cell of each fixation, without padding."""
        cell = cell_of(part["xy"], self.grid)
        maps = walk(
            part["density"], part["start"], part["xy"], part["seconds"], part["degrees"], values
        )
        found = [
            p.flatten(1).gather(1, cell[:, i, None])[:, 0].log()[part["mask"][:, i]]
            for i, p in enumerate(maps)
        ]
        return torch.cat(found)

    def log_likelihood(self, paths: Scanpaths) -> float:
        """Return the mean natural log density of fixations, 0 for the uniform one."""
        with torch.no_grad():
            logs = self._logs(self._inputs(collate(paths), self.lost), self._tensors())
        return float(logs.double().mean()) + math.log(self.grid[0] * self.grid[1])

    def observe(self, paths: Scanpaths) -> None:
        """Keep the fixations of people; only the empirical density looks at them."""
        if self.gold is None:
            super().observe(paths)
        else:
            self.gold.observe(paths)

    # -- prediction ------------------------------------------------------------------------------

    def _tensors(self) -> dict[str, Tensor]:
        if not self.values:
            raise need_fit(self)
        return {n: torch.tensor(v) for n, v in self.values.items()}

    def _scene(self, stimuli: Sequence[Stimulus]) -> Tensor:
        return self.centre.maps_of(stimuli, self.grid)

    def _degrees(self, stimuli: Sequence[Stimulus]) -> Tensor:
        return torch.tensor([s.size for s in stimuli]) / self.pixels_per_degree

    def _inputs(self, batch: ScanpathBatch, lost: LossLog) -> dict[str, Tensor]:
        which = batch.which.cpu()
        if self.gold is not None:
            density = self.gold.maps(batch, self.grid).float()
        else:
            density = self._scene(batch.stimuli)[which].float()
        seconds, mask = batch.duration.cpu() / 1000, batch.mask.cpu()
        needed = mask.clone()  # the duration of a last fixation predicts nothing
        needed[:, :-1] &= mask[:, 1:]
        needed[:, -1] = False
        missing = torch.isnan(seconds)
        n = int((missing & needed).sum())
        reason = "durations taken as the median of training"
        lost.add("scenewalk", "repaired", reason, n, "fixations")
        median = float(np.median(self._durations.numpy()))
        return {
            "density": density,
            "start": self._begin(density),
            "xy": batch.xy.cpu(),
            "seconds": torch.where(missing, median, seconds),
            "degrees": self._degrees(batch.stimuli)[which],
            "mask": mask,
        }

    def _begin(self, density: Tensor) -> Tensor:
        return density if self.start == "density" else self._start.float().expand_as(density)

    @torch.no_grad()
    def log_density(self, batch: ScanpathBatch, grid: Grid) -> Tensor:
        """Return the maps, given the fixations before and their durations."""
        values = self._tensors()
        part = self._inputs(batch, self.lost)
        out = torch.empty(*batch.mask.shape, *grid)
        maps = walk(
            part["density"], part["start"], part["xy"], part["seconds"], part["degrees"], values
        )
        if not batch.mask.shape[1]:
            return out
        for i, p in enumerate(maps):
            out[:, i] = log_density_of(resample(p, grid))
        return out.to(batch.xy.device)

    @torch.no_grad()
    def sample(
        self,
        stimulus: Stimulus,
        n: int,
        generator: torch.Generator,
        *,
        leave_out: str | None = None,
    ) -> list[Path]:
        """Draw scanpaths, all at once, fixation after fixation.

        Parameters
        ----------
        leave_out : str, optional
            The participant whose fixations must not be in the empirical density.
        """
        values = self._tensors()
        assert self.lengths is not None
        lengths = self.lengths.draw(n, generator)
        if not n:
            return []
        if self.gold is not None:
            scene = self.gold.maps_of(stimulus, [leave_out], self.grid)
        else:
            scene = self._scene([stimulus])
        density = scene.float().expand(n, -1, -1)
        degrees = self._degrees([stimulus]).expand(n, -1)
        maps = Walk(self._begin(density), torch.full_like(density, 1 / density[0].numel()))
        zeta = values["zeta"]
        p = (1 - zeta) * maps.attention + zeta / density[0].numel()
        longest = int(lengths.max())
        shares = torch.empty(n, longest, 2, dtype=torch.float64)
        for i in range(longest):
            shares[:, i] = draw_cells(p, n, generator).clamp_max(BELOW_ONE)
            if i + 1 < longest:
                pick = torch.randint(len(self._durations), (n,), generator=generator)
                seconds = self._durations[pick].float()
                maps = look(maps, density, shares[:, i].float(), seconds, degrees, values)
                p = potential(maps, values)
        real = torch.arange(longest) < lengths[:, None]
        return as_paths(shares[real], lengths, stimulus)


def _scale(name: str) -> tuple[float, float, bool]:
    """Return the bounds of a parameter on its scale, and whether that is logarithmic."""
    low, high = BOUNDS[name]
    ratio = name != "inhibition"  # a weight between 0 and 1, the others are sizes
    return (math.log(low), math.log(high), True) if ratio else (low, high, False)


def _bound(name: str, value: Tensor) -> Tensor:
    """Return a parameter inside its bounds from any number."""
    low, high, ratio = _scale(name)
    inside = low + (high - low) * torch.sigmoid(value)
    return torch.exp(inside) if ratio else inside


def _unbound(name: str, value: float) -> float:
    low, high, ratio = _scale(name)
    share = ((math.log(value) if ratio else value) - low) / (high - low)
    share = min(max(share, 1e-3), 1 - 1e-3)
    return math.log(share / (1 - share))
