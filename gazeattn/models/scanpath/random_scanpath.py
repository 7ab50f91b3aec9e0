"""Scanpaths of people over another picture."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from gazeattn.datamodules import Scanpaths, Stimulus
from gazeattn.errors import DataError
from gazeattn.models.scanpath.base import Path, ScanpathModel
from gazeattn.models.scanpath.uniform import BELOW_ONE, need_fit
from gazeattn.registry import register_scanpath_model


@register_scanpath_model(
    "random_scanpath",
    description="a whole human scanpath over another picture, stretched to this one",
    citation="",
    needs=(),
    kind="baseline",
)
class RandomScanpath(ScanpathModel):
    """What people did elsewhere: real lengths, steps, durations and centre bias, no picture.

    Notes
    -----
    There is no density (`density` is False): a stored scanpath says nothing about the cells
    beside its points, and where people look on any picture has its own model, `center_bias`.
    Positions are taken over as shares of width and height, durations as they are (NaN where
    missing). A scanpath over the very stimulus that is asked for is never used.
    """

    durations: ClassVar[bool] = True
    density: ClassVar[bool] = False

    train: Scanpaths | None = None

    def fit_statistics(self, train: Scanpaths) -> None:
        """Keep the training scanpaths."""
        self.train = train.take(train.lengths > 0)

    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[Path]:
        """Draw scanpaths, with replacement, among those over other stimuli."""
        if self.train is None:
            raise need_fit(self)
        others = np.flatnonzero(self.train.stimulus != stimulus.name)
        if not len(others):
            raise DataError(
                "the training part has no scanpath over another stimulus", found=stimulus.name
            )
        drawn = others[torch.randint(len(others), (n,), generator=generator).numpy()]
        chosen = self.train.take(drawn)
        places = np.minimum(chosen.relative, BELOW_ONE) * np.asarray(stimulus.size, np.float64)
        rows = np.column_stack([places, chosen.duration])
        return np.split(rows, chosen.starts[1:-1]) if n else []
