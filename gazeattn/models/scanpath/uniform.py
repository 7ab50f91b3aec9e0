"""Points anywhere on the stimulus, and what the baselines share about lengths and places."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus
from gazeattn.errors import CapabilityError, DataError
from gazeattn.models.scanpath.base import Grid, Path, ScanpathModel
from gazeattn.registry import register_scanpath_model

BELOW_ONE = 1 - 2.0**-40
"""The largest share that is used: a share times a width must round to less than the width."""


class TrainingLengths:
    """How many fixations the scanpaths of the training part have, to draw from.

    Parameters
    ----------
    train : Scanpaths
    """

    def __init__(self, train: Scanpaths) -> None:
        lengths = train.lengths[train.lengths > 0]
        if not len(lengths):
            raise DataError("the training part has no scanpath with a fixation")
        self.values = torch.from_numpy(lengths.copy())

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Return n lengths, each that of a training scanpath, (n,) int64."""
        if n < 0:
            raise DataError("a number of scanpaths is 0 or more", found=n)
        return self.values[torch.randint(len(self.values), (n,), generator=generator)]


def need_fit(model: ScanpathModel) -> CapabilityError:
    """Return the error of a model that was asked before `fit_statistics`."""
    return CapabilityError(
        f"{type(model).__name__} knows nothing yet: call fit_statistics with the training part"
    )


def as_paths(shares: Tensor, lengths: Tensor, stimulus: Stimulus) -> list[Path]:
    """Return places, one after the other, as scanpaths in pixels.

    Parameters
    ----------
    shares : Tensor, shape (lengths.sum(), 2)
        Shares of the stimulus.
    lengths : Tensor of int64, shape (n,)
    stimulus
        Its size gives the pixels.
    """
    pixels = shares.clamp_max(BELOW_ONE).double().numpy() * np.asarray(stimulus.size, np.float64)
    return np.split(pixels, np.cumsum(lengths.numpy())[:-1]) if len(lengths) else []


def spread(maps: Tensor, batch: ScanpathBatch) -> Tensor:
    """Return one log map per scanpath as the map of each of its fixations, without a copy.

    Parameters
    ----------
    maps : Tensor, shape (batch, rows, columns)
    """
    long = batch.xy.shape[1]
    values = maps.to(device=batch.xy.device, dtype=torch.float32)
    return values[:, None].expand(-1, long, -1, -1)


@register_scanpath_model(
    "uniform",
    description="independent points anywhere on the stimulus; lengths of the training part",
    citation="",
    needs=(),
    kind="baseline",
)
class Uniform(ScanpathModel):
    """Every place is equally likely: the zero of log-likelihoods.

    Sampled scanpaths have the lengths of random training scanpaths and no durations.
    """

    lengths: TrainingLengths | None = None

    def fit_statistics(self, train: Scanpaths) -> None:
        """Take the lengths of the training scanpaths."""
        self.lengths = TrainingLengths(train)

    def log_density(self, batch: ScanpathBatch, grid: Grid) -> Tensor:
        """Return minus the logarithm of the number of cells everywhere."""
        value = batch.xy.new_full((), -math.log(grid[0] * grid[1]))
        return value.expand(*batch.mask.shape, *grid)

    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[Path]:
        """Draw scanpaths of independent places."""
        if self.lengths is None:
            raise need_fit(self)
        lengths = self.lengths.draw(n, generator)
        total = int(lengths.sum())
        shares = torch.rand(total, 2, generator=generator, dtype=torch.float64)
        return as_paths(shares, lengths, stimulus)
