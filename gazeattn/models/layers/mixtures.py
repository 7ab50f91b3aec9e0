"""Mixtures of time and place as closed forms: density, exact mass, survival, and draws.

A duration follows a mixture of log-normal distributions, a position a mixture of Gaussians with
diagonal covariance (D'Amelio et al. 2025, arXiv:2410.23409). Positions are shares of the stimulus,
so the picture is the unit square; what a mixture puts beside the picture is known exactly and is
either part of the likelihood (as published) or divided out (truncated).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Blocks", "GaussianMixture", "LogNormalMixture", "Positions"]

_LOG_TWO_PI = math.log(2 * math.pi)


def _pick(log_weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw a component by inverting the distribution function: one number per element."""
    shares = log_weights.double().softmax(-1).cumsum(-1)
    u = torch.rand(shares.shape[:-1], generator=generator, dtype=torch.float64).to(shares.device)
    at = (shares <= u[..., None] * shares[..., -1:]).sum(-1)
    return at.clamp_max(log_weights.shape[-1] - 1)


def _take(values: Tensor, at: Tensor) -> Tensor:
    """Return ``values[..., at]`` along the last dimension, values broadcast over the others."""
    values = values.expand(*at.shape, values.shape[-1])
    return values.gather(-1, at[..., None]).squeeze(-1)


def _shares(mass: Tensor) -> Tensor:
    mass = mass / mass.sum((-2, -1), keepdim=True)
    return mass.clamp_min(torch.finfo(mass.dtype).tiny).log()


@dataclass(frozen=True)
class LogNormalMixture:
    """Mixture of log-normal distributions of durations in ms.

    Attributes
    ----------
    log_weights : Tensor, shape (..., components)
        Logarithms of weights that sum to 1.
    mean, log_sd : Tensor, shape (..., components)
        Mean, and logarithm of the standard deviation, of ln(duration / ms).
    """

    log_weights: Tensor
    mean: Tensor
    log_sd: Tensor

    def _z(self, duration: Tensor) -> tuple[Tensor, Tensor]:
        log = duration.log()[..., None]
        return log, (log - self.mean) * (-self.log_sd).exp()

    def log_prob(self, duration: Tensor) -> Tensor:
        """Return the log-density in nats per ms, (...,), of durations above 0."""
        log, z = self._z(duration)
        parts = self.log_weights - 0.5 * (z.square() + _LOG_TWO_PI) - self.log_sd - log
        return parts.logsumexp(-1)

    def log_survival(self, duration: Tensor) -> Tensor:
        """Return ln P(a fixation lasts longer than `duration`), (...,)."""
        _, z = self._z(duration)
        return (self.log_weights + torch.special.log_ndtr(-z)).logsumexp(-1)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw one duration for every element, (...,)."""
        at = _pick(self.log_weights, generator)
        noise = torch.randn(at.shape, generator=generator).to(self.mean.device)
        return (_take(self.mean, at) + _take(self.log_sd, at).exp() * noise).exp()


@dataclass(frozen=True)
class GaussianMixture:
    """Mixture of axis-parallel Gaussians over the unit square (shares of the stimulus).

    Attributes
    ----------
    log_weights : Tensor, shape (..., components)
        Logarithms of weights that sum to 1.
    mean, log_sd : Tensor, shape (..., components, 2)
        Of x and y; leading dimensions may be 1 where all elements share the components.
    """

    log_weights: Tensor
    mean: Tensor
    log_sd: Tensor

    def _cdf(self, edges: Tensor, axis: int) -> Tensor:
        """Return the distribution function of every component at edges, (..., K, edges)."""
        mean, log_sd = self.mean[..., axis, None], self.log_sd[..., axis, None]
        return torch.special.ndtr((edges - mean) * (-log_sd).exp())

    def _masses(self, axis: int, cells: int) -> Tensor:
        edges = torch.linspace(0, 1, cells + 1, device=self.mean.device, dtype=self.mean.dtype)
        return self._cdf(edges, axis).diff(dim=-1)

    def log_prob(self, xy: Tensor) -> Tensor:
        """Return the log-density in nats per unit share area, (...,), of the whole plane."""
        precision = (-self.log_sd).exp()
        height = self.log_weights - self.log_sd.sum(-1) - _LOG_TWO_PI
        # the axes one by one: a last dimension of 2 would be worked through far more slowly
        x, y = (
            ((xy[..., axis, None] - self.mean[..., axis]) * precision[..., axis]).square()
            for axis in (0, 1)
        )
        return (height - 0.5 * (x + y)).logsumexp(-1)

    def log_inside_of_parts(self) -> Tensor:
        """Return the log-mass of every component on the stimulus, (..., components)."""
        mass = self._masses(0, 1) * self._masses(1, 1)
        return mass.squeeze(-1).clamp_min(torch.finfo(mass.dtype).tiny).log()

    def log_inside(self) -> Tensor:
        """Return the log-mass of the mixture on the stimulus, (...,)."""
        return (self.log_weights + self.log_inside_of_parts()).logsumexp(-1)

    def cell_mass(self, rows: int, columns: int) -> Tensor:
        """Return the mass of cells on the whole plane, (..., rows, columns)."""
        across, down = self._masses(0, columns), self._masses(1, rows)
        return (self.log_weights.exp()[..., None] * down).transpose(-1, -2) @ across

    def cell_log_mass(self, rows: int, columns: int) -> Tensor:
        """Return the log-probability of cells, given a position on the stimulus.

        The mass of a cell is the exact integral, a sum over components of products of two
        differences of the normal distribution function.

        Returns
        -------
        Tensor, shape (..., rows, columns)
            Probabilities sum to 1.
        """
        return _shares(self.cell_mass(rows, columns))

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw one position on the stimulus for every element, (..., 2) in [0, 1), float64.

        Draws are from the density truncated to the stimulus: a component by its weight times its
        mass there, then each axis by the inverse of its truncated distribution function. That is
        what redrawing until the position is on the picture gives, without a loop.
        """
        at = _pick(self.log_weights + self.log_inside_of_parts(), generator)
        u = torch.rand((*at.shape, 2), generator=generator, dtype=torch.float64).to(at.device)
        axes = []
        for axis in (0, 1):
            mean = _take(self.mean[..., axis], at).double()
            sd = _take(self.log_sd[..., axis], at).double().exp()
            # the nearer tail is used, where the distribution function is not yet rounded to 1
            sign = torch.where(mean < 0.5, -1.0, 1.0)
            ends = torch.stack([(0 - mean) / sd * sign, (1 - mean) / sd * sign])
            low, high = torch.special.ndtr(ends.amin(0)), torch.special.ndtr(ends.amax(0))
            z = torch.special.ndtri(low + u[..., axis] * (high - low))
            axes.append(mean + sign * sd * z)
        # only rounding can leave the square here, by less than 1e-12
        return torch.stack(axes, -1).clamp(0.0, 1.0 - 1e-12)


@dataclass(frozen=True)
class Blocks:
    """One mixture whose components come in blocks of different leading shapes.

    Components of a picture, shared by all fixations, and those of each fixation stay apart, so
    that the former are never copied for the latter.

    Attributes
    ----------
    blocks : tuple of GaussianMixture
        The weights of all of them together sum to 1.
    """

    blocks: tuple[GaussianMixture, ...]

    def log_prob(self, xy: Tensor) -> Tensor:
        """See `GaussianMixture.log_prob`."""
        return torch.stack([b.log_prob(xy) for b in self.blocks]).logsumexp(0)

    def log_inside(self) -> Tensor:
        """See `GaussianMixture.log_inside`."""
        return torch.stack([b.log_inside() for b in self.blocks]).logsumexp(0)

    def cell_log_mass(self, rows: int, columns: int) -> Tensor:
        """See `GaussianMixture.cell_log_mass`."""
        return _shares(torch.stack([b.cell_mass(rows, columns) for b in self.blocks]).sum(0))

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """See `GaussianMixture.sample`."""
        lead = self.blocks[0].log_weights.shape[:-1]
        joined = GaussianMixture(
            torch.cat([b.log_weights for b in self.blocks], -1),
            torch.cat([b.mean.expand(*lead, *b.mean.shape[-2:]) for b in self.blocks], -2),
            torch.cat([b.log_sd.expand(*lead, *b.log_sd.shape[-2:]) for b in self.blocks], -2),
        )
        return joined.sample(generator)

    def __getitem__(self, i: int) -> Blocks:
        """Return the mixture of one element of the first dimension."""
        parts = (
            GaussianMixture(*(v[i if len(v) > 1 else 0] for v in vars(b).values()))
            for b in self.blocks
        )
        return Blocks(tuple(parts))


Positions = GaussianMixture | Blocks
