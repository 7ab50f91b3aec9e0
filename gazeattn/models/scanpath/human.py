"""What other people did on the same picture: the ceiling of scanpath scores."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from gazeattn.datamodules import Scanpaths, Stimulus
from gazeattn.errors import DataError
from gazeattn.models.scanpath.base import Path, ScanpathModel
from gazeattn.registry import register_scanpath_model


@register_scanpath_model(
    "human",
    description="scanpaths of other people over the same picture",
    citation="",
    needs=("people",),
    kind="ceiling",
)
class Human(ScanpathModel):
    """Real scanpaths of the people that were observed on the stimulus, with their durations.

    Notes
    -----
    A person must not be compared with itself, which raises the ceiling. `sample` without
    `leave_out` returns scanpaths of anybody on that stimulus; whoever scores them names the
    participant that they are compared with. Scanpaths are drawn without replacement until all
    were drawn, then again from the start.
    """

    durations: ClassVar[bool] = True
    density: ClassVar[bool] = False
    privileged: ClassVar[bool] = True

    def __init__(self) -> None:
        self.people: Scanpaths | None = None

    def observe(self, paths: Scanpaths) -> None:
        """Keep the scanpaths of people, instead of those that were shown before."""
        self.people = paths.take(paths.lengths > 0)

    def sample(
        self,
        stimulus: Stimulus,
        n: int,
        generator: torch.Generator,
        *,
        leave_out: str | None = None,
    ) -> list[Path]:
        """Draw scanpaths of people over the stimulus.

        Parameters
        ----------
        leave_out : str, optional
            The participant whose scanpaths must not be among them.

        Raises
        ------
        DataError
            Nobody (else) was observed on the stimulus.
        """
        people = self.people
        found = (
            np.zeros(0, dtype=np.int64)
            if people is None
            else np.flatnonzero(
                (people.stimulus == stimulus.name) & (people.participant != leave_out)
            )
        )
        if people is None or not len(found):
            raise DataError(
                f"nobody{'' if leave_out is None else ' else'} was observed on the stimulus",
                source=stimulus.name,
                hint="show the people with observe(paths)",
            )
        rounds = -(-n // len(found))
        order = [torch.randperm(len(found), generator=generator).numpy() for _ in range(rounds)]
        drawn = np.concatenate([np.zeros(0, dtype=np.int64), *order])[:n]
        scale = np.asarray(stimulus.size, np.float64)
        known = np.asarray(people.stimuli[stimulus.name].size, np.float64)
        ratio = np.append(scale / known, 1.0)  # the same picture shown at another size
        return [people.path(int(i)) * ratio for i in found[drawn]]
