"""How well other people's fixations on the same picture predict a person: the gold standard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from torch import Tensor

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus
from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.models.scanpath.base import Grid, Path, ScanpathModel, log_density_of
from gazeattn.models.scanpath.center_bias import (
    LATTICE,
    CenterBias,
    axis_mass,
    cell_of,
    draw_cells,
    draw_near,
)
from gazeattn.models.scanpath.uniform import TrainingLengths, as_paths, need_fit, spread
from gazeattn.registry import register_scanpath_model

SCALES = ("pixels", "width")


@dataclass(frozen=True)
class _Seen:
    """The fixations of people on one stimulus: shares (n, 2), and whose, as a number."""

    xy: Tensor
    owner: Tensor
    names: list[str]


class _Pairs:
    """Every fixation of the training images with those of other people on the same image."""

    def __init__(self, train: Scanpaths, centre: CenterBias, scale: str, images: int | None):
        stimuli = list(train.stimuli)
        if images is not None and images < len(stimuli):
            spaced = np.linspace(0, len(stimuli) - 1, images).round().astype(int)
            stimuli = [stimuli[i] for i in spaced]
        owner = train.participant[train.of]
        rows_of = _rows(train.stimulus[train.of])
        near, source, counts, base = [], [], [], []
        places, sides = [], []
        start = 0
        for name in stimuli:
            rows = rows_of.get(name)
            if rows is None:
                continue
            stimulus = train.stimuli[name]
            size = np.asarray(stimulus.size, np.float64)
            side = size if scale == "pixels" else size / size[0]
            at = np.stack([train.x[rows], train.y[rows]], axis=1) / size
            xy = (at * side).astype(np.float32)
            other = owner[rows][:, None] != owner[rows]
            n = other.sum(1)
            away = ((xy[:, None] - xy) ** 2).sum(-1)
            near.append(away[other])
            source.append((np.nonzero(other)[1] + start).astype(np.int32))
            counts.append(n)
            density = centre.map_of(stimulus, (LATTICE, LATTICE)).flatten() * LATTICE**2
            base.append(density[cell_of(torch.from_numpy(at), (LATTICE, LATTICE))].numpy())
            places.append(at)
            sides.append(np.broadcast_to(side, at.shape))
            start += len(rows)
        self.near, self.source = np.concatenate(near), np.concatenate(source)
        every = np.concatenate(counts)
        self.kept = every > 0
        self.n = every[self.kept]
        self.base = np.concatenate(base)[self.kept]
        self.places, self.sides = np.concatenate(places), np.concatenate(sides)
        if not self.kept.any():
            raise DataError(
                "no training image was seen by two people", hint="give bandwidth and weights"
            )

    def kernel(self, width: float) -> NDArray[np.float64]:
        """Return the density of each fixation among those of the others, 1 is uniform."""
        sigma = torch.from_numpy(width / self.sides)
        at = torch.from_numpy(self.places)
        inside = torch.special.ndtr((1 - at) / sigma) - torch.special.ndtr(-at / sigma)
        factor = (1 / (2 * np.pi * (sigma * inside).prod(1))).numpy()
        weight = np.exp(self.near * np.float32(-0.5 / width**2))
        weight *= factor.astype(np.float32)[self.source]
        first = np.cumsum(self.n) - self.n
        return np.add.reduceat(weight, first, dtype=np.float64) / self.n


def _rows(names: NDArray[np.object_]) -> dict[str, NDArray[np.int64]]:
    """Return the positions of each name."""
    text = names.astype(str)
    order = np.argsort(text, kind="stable")
    found, first = np.unique(text[order], return_index=True)
    return dict(zip(found.tolist(), np.split(order, first[1:]), strict=True))


def mixture_weights(
    densities: NDArray[np.float64], steps: int = 200
) -> tuple[NDArray[np.float64], float]:
    """Return the weights of known densities that make data most likely, and that likelihood.

    Expectation-maximisation, which finds the one maximum.

    Parameters
    ----------
    densities : ndarray, shape (n, k)
        Of each datum under each component.

    Returns
    -------
    weights : ndarray, shape (k,)
    log_likelihood : float
        Mean natural logarithm.
    """
    weights = np.full(densities.shape[1], 1 / densities.shape[1])
    for _ in range(steps):
        total = densities @ weights
        weights = weights * (densities / total[:, None]).mean(0)
    weights = weights / weights.sum()
    return weights, float(np.log(densities @ weights).mean())


@register_scanpath_model(
    "kde_gold",
    description="kernel density of other people's fixations on the same picture, with centre bias",
    citation="Kuemmerer, Wallis, Bethge (2015), PNAS 112(52), 16054-16059",
    needs=("people",),
    kind="ceiling",
)
class KDEGold(ScanpathModel):
    """Other people's fixations on the picture, mixed with the centre bias and the uniform.

    ``p = (1 - a - b) KDE + a centre + b uniform``; the bandwidth and the weights are those that
    make the fixations of every (image, participant) of the training part most likely, given the
    other participants of that image and the centre bias of the other images.

    It is the limit of models that give all fixations on a picture one map. A model that knows
    the fixations before may exceed it.

    Parameters
    ----------
    bandwidth : float, optional
        Standard deviation of the kernels, in the unit of `scale`; by default fitted.
    weights : (centre, uniform), optional
        a and b; by default fitted.
    scale : {"pixels", "width"}
        Unit of the bandwidth. Pixels for pictures shown at one number of pixels per degree, width
        for pictures stretched to one width on the screen.
    fit_images : int, optional
        Use so many evenly spaced training images to fit; all by default.
    center_bandwidth : float, optional
        See `CenterBias`.

    Attributes
    ----------
    lost : LossLog
        Counts trials whose participant is the only one on the stimulus: their map is the mixture
        of centre bias and uniform alone.
    """

    privileged: ClassVar[bool] = True

    def __init__(
        self,
        *,
        bandwidth: float | None = None,
        weights: Sequence[float] | None = None,
        scale: str = "pixels",
        fit_images: int | None = None,
        center_bandwidth: float | None = None,
    ) -> None:
        if scale not in SCALES:
            raise DataError("no such unit of bandwidth", expected=", ".join(SCALES), found=scale)
        if weights is not None and (
            len(weights) != 2 or min(weights) < 0 or not 0 < sum(weights) < 1
        ):
            raise DataError(
                "two weights, 0 or more, with a sum between 0 and 1", found=str(weights)
            )
        self.bandwidth, self.weights, self.scale = bandwidth, weights, scale
        self.fit_images = fit_images
        self.centre = CenterBias(bandwidth=center_bandwidth)
        self.chosen: tuple[float, float, float] | None = None
        self.log_likelihood: float | None = None
        self.lengths: TrainingLengths | None = None
        self.lost = LossLog()
        self._seen: dict[str, _Seen] = {}

    def fit_statistics(self, train: Scanpaths) -> None:
        """Fit the centre bias, the bandwidth and the weights."""
        self.lengths = TrainingLengths(train)
        self.centre.fit_statistics(train)
        if self.bandwidth is not None and self.weights is not None:
            self.chosen = (self.bandwidth, self.weights[0], self.weights[1])
            return
        pairs = _Pairs(train, self.centre, self.scale, self.fit_images)
        given = self.weights

        def score(width: float) -> tuple[NDArray[np.float64], float]:
            parts = np.stack([pairs.kernel(width), pairs.base, np.ones(len(pairs.n))], axis=1)
            if given is None:
                return mixture_weights(parts)
            fixed = np.array([1 - sum(given), *given])
            return fixed, float(np.log(parts @ fixed).mean())

        width = self.bandwidth
        if width is None:
            unit = float(pairs.sides[:, 0].mean())
            best = minimize_scalar(
                lambda log: -score(float(np.exp(log)))[1],
                bounds=tuple(np.log(np.array([0.005, 0.25]) * unit)),
                method="bounded",
                options={"xatol": 0.02},
            )
            width = float(np.exp(best.x))
        found, self.log_likelihood = score(width)
        self.chosen = (width, float(found[1]), float(found[2]))

    def observe(self, paths: Scanpaths) -> None:
        """Keep the fixations of people by stimulus, instead of those that were shown before."""
        shares, owner = torch.from_numpy(paths.relative), paths.participant[paths.of]
        self._seen = {}
        for name, rows in _rows(paths.stimulus[paths.of]).items():
            names, number = np.unique(owner[rows].astype(str), return_inverse=True)
            self._seen[name] = _Seen(
                shares[torch.from_numpy(rows)], torch.from_numpy(number), names.tolist()
            )

    def _sigma(self, stimulus: Stimulus) -> tuple[float, float]:
        if self.chosen is None:
            raise need_fit(self)
        width, height = stimulus.size
        pixels = self.chosen[0] * (1.0 if self.scale == "pixels" else width)
        return pixels / width, pixels / height

    def _people(self, stimulus: Stimulus) -> _Seen:
        if stimulus.name not in self._seen:
            raise DataError(
                "nobody was observed on the stimulus",
                source=stimulus.name,
                hint="show the people with observe(paths)",
            )
        return self._seen[stimulus.name]

    def maps_of(self, stimulus: Stimulus, leave_out: Sequence[str | None], grid: Grid) -> Tensor:
        """Return one map per participant that is left out, (n, rows, columns) float64.

        None, or who was not observed, leaves out nobody. The participant's own fixations are
        never summed, so that none of them remains in the last digits.
        """
        seen, sigma = self._people(stimulus), self._sigma(stimulus)
        assert self.chosen is not None
        down = axis_mass(seen.xy[:, 1], sigma[1], grid[0])
        across = axis_mass(seen.xy[:, 0], sigma[0], grid[1])
        number = {n: i for i, n in enumerate(seen.names)}
        out = torch.tensor([number.get(str(p), -1) if p is not None else -1 for p in leave_out])
        distinct, which = torch.unique(out, return_inverse=True)
        kept = (seen.owner != distinct[:, None]).double()
        n = kept.sum(1)
        sums = torch.stack([(down * k[:, None]).T @ across for k in kept])
        if bool((n == 0).any()):
            alone = int((n[which] == 0).sum())
            reason = "nobody else on the stimulus: centre bias and uniform only"
            self.lost.add("kde_gold", "note", reason, alone, "trials")
        _, a, b = self.chosen
        people = torch.where(n > 0, 1 - a - b, 0.0)[:, None, None]
        centre = self.centre.map_of(stimulus, grid)
        mixed = people * sums / n.clamp_min(1)[:, None, None] + a * centre
        mixed = (mixed + b / (grid[0] * grid[1])) / (people + a + b)
        return mixed[which]

    def maps(self, batch: ScanpathBatch, grid: Grid) -> Tensor:
        """Return the masses for each scanpath of a batch, (batch, rows, columns) float64."""
        which = batch.which.cpu()
        out = torch.empty(len(which), *grid, dtype=torch.float64)
        for i, stimulus in enumerate(batch.stimuli):
            rows = torch.nonzero(which == i)[:, 0]
            out[rows] = self.maps_of(stimulus, [batch.participant[int(r)] for r in rows], grid)
        return out

    def log_density(self, batch: ScanpathBatch, grid: Grid) -> Tensor:
        """Return one map per trial, without its participant, for all of its fixations."""
        return spread(log_density_of(self.maps(batch, grid)), batch)

    def sample(
        self,
        stimulus: Stimulus,
        n: int,
        generator: torch.Generator,
        *,
        leave_out: str | None = None,
    ) -> list[Path]:
        """Draw scanpaths of independent places; lengths of the training part, no durations.

        Parameters
        ----------
        leave_out : str, optional
            The participant whose fixations must not be used.
        """
        if self.lengths is None or self.chosen is None:
            raise need_fit(self)
        seen, (_, a, b) = self._people(stimulus), self.chosen
        others = [i for i, p in enumerate(seen.names) if p != leave_out]
        xy = seen.xy[torch.isin(seen.owner, torch.tensor(others, dtype=seen.owner.dtype))]
        lengths = self.lengths.draw(n, generator)
        total = int(lengths.sum())
        people = 1 - a - b if len(xy) else 0.0
        shares = torch.tensor([people, a, b], dtype=torch.float64)
        part = torch.multinomial(shares, max(total, 1), True, generator=generator)[:total, None]
        anywhere = torch.rand(total, 2, generator=generator, dtype=torch.float64)
        middle = draw_cells(
            self.centre.map_of(stimulus, (LATTICE, LATTICE))[None], total, generator
        )
        near = anywhere
        if len(xy):
            pick = torch.randint(len(xy), (total,), generator=generator)
            near = draw_near(xy[pick], self._sigma(stimulus), generator)
        places = torch.where(part == 0, near, torch.where(part == 1, middle, anywhere))
        return as_paths(places, lengths, stimulus)
