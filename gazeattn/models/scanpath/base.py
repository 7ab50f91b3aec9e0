"""What every scanpath model can do, and the training loop that networks share."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus, collate
from gazeattn.errors import CapabilityError
from gazeattn.models.network import Network, NonFiniteLossError, check_finite

__all__ = [
    "FeatureSpec",
    "Grid",
    "NetworkModel",
    "NonFiniteLossError",
    "Path",
    "ScanpathModel",
    "check_finite",
    "log_density_of",
    "one_batch",
]

Grid = tuple[int, int]
"""Rows and columns of cells over the whole stimulus."""
Path = NDArray[np.float64]


@dataclass(frozen=True)
class FeatureSpec:
    """What a model wants of a backbone.

    Attributes
    ----------
    backbone : str
        Name, hub id or folder; see `gazeattn.models.layers.backbones`.
    size : (width, height)
        The picture is stretched to this before the backbone sees it.
    strides : tuple of int
        Maps that are wanted, by their stride in pixels of the resized picture.
    """

    backbone: str = "efficientnet_lite0"
    size: tuple[int, int] = (512, 512)
    strides: tuple[int, ...] = (32,)


class ScanpathModel(abc.ABC):
    """A model of scanpaths over pictures or displays.

    Attributes
    ----------
    durations : bool
        Whether sampled scanpaths have durations.
    density : bool
        Whether `log_density` is there.
    privileged : bool
        Whether the model needs the fixations of other people on the same stimulus (`observe`): a
        ceiling, not a competitor.
    feature_spec : FeatureSpec or None
        What has to be in `Stimulus.features`; None for models that see no picture.
    """

    durations: ClassVar[bool] = False
    density: ClassVar[bool] = True
    privileged: ClassVar[bool] = False
    feature_spec: FeatureSpec | None = None

    def fit_statistics(self, train: Scanpaths) -> None:
        """Take what is not learned by gradients from the training part: scales, densities."""
        return None

    def observe(self, paths: Scanpaths) -> None:
        """Show the scanpaths of people on the stimuli to be predicted (privileged models).

        A prediction for a trial leaves out the participant of that trial.
        """
        raise CapabilityError(f"{type(self).__name__} does not look at the people it predicts")

    def log_density(self, batch: ScanpathBatch, grid: Grid) -> Tensor:
        """Return the log-probability of every cell for every fixation, given those before it.

        Parameters
        ----------
        batch
            Scanpaths of people; fixation i is predicted from fixations 0..i-1, the first one from
            none.
        grid
            Rows and columns.

        Returns
        -------
        Tensor, shape (batch, length, rows, columns)
            Natural logarithms; the probabilities of a map sum to 1. Maps of padding mean nothing.
        """
        raise CapabilityError(f"{type(self).__name__} has no density of the next fixation")

    @abc.abstractmethod
    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[Path]:
        """Draw scanpaths.

        Parameters
        ----------
        stimulus
            With the features of `feature_spec`.
        n
            How many.
        generator
            Source of all chance: equal states give equal scanpaths.

        Returns
        -------
        list of ndarray, shape (length, 2) or (length, 3)
            x, y in pixels of the stimulus and, where `durations`, milliseconds.
        """


def log_density_of(values: Tensor) -> Tensor:
    """Return the log-probabilities of maps of non-negative weights, (..., rows, columns).

    A map of zeros becomes uniform.
    """
    total = values.sum((-2, -1), keepdim=True)
    cells = values.shape[-1] * values.shape[-2]
    tiny = torch.finfo(values.dtype).tiny
    share = torch.where(
        total > 0, values / total.clamp_min(tiny), torch.full_like(values, 1 / cells)
    )
    return share.clamp_min(tiny).log()


class NetworkModel(ScanpathModel, Network):
    """A scanpath model that learns by gradients.

    A subclass calls ``self.save_hyperparameters()`` first (arguments are plain numbers, texts and
    lists, so that checkpoints load with the safe loader), sets `feature_spec`, and writes
    `training_loss`, `sample` and, where it can, `log_density`.
    """

    whole_stimuli: ClassVar[bool] = False
    """Whether a batch holds all scanpaths of its stimuli."""

    def batch_weight(self, batch: ScanpathBatch) -> int:
        """Return the number of fixations: a loss is their mean."""
        return int(batch.mask.sum())


def one_batch(stimulus: Stimulus, paths: Sequence[Path]) -> ScanpathBatch:
    """Return a batch of given scanpaths over one stimulus, as for scoring a few of them."""
    lengths = np.array([len(p) for p in paths], dtype=np.int64)
    rows = [np.asarray(p, dtype=np.float64).reshape(len(p), -1) for p in paths]
    full = [r if r.shape[1] == 3 else np.c_[r, np.full(len(r), np.nan)] for r in rows]
    values = np.concatenate(full) if full else np.zeros((0, 3))
    ids = np.array([str(i) for i in range(len(paths))], dtype=object)
    names = np.full(len(paths), stimulus.name, dtype=object)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    x, y, duration = values.T
    return collate(Scanpaths(x, y, duration, starts, ids, ids, names, {stimulus.name: stimulus}))
