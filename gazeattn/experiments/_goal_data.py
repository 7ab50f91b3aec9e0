"""Data of the benchmark of open goals: trials with candidates, folds, inputs of models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datamodules.goal_batches import GoalInputs, goal_inputs
from gazeattn.datamodules.reading_goals import (
    ITEM,
    PARAGRAPH,
    GoalTrials,
    item_parts,
    question_bank,
    seeking_trials,
    with_candidates,
)
from gazeattn.datamodules.reading_scaling import FittedFeatures
from gazeattn.datamodules.reading_texts import TextEncoder
from gazeattn.datasets import load
from gazeattn.datasets.splits import Split, kfold
from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.metrics import generation


def sample(table: pd.DataFrame, n: int | None, seed: int) -> np.ndarray:
    """Return positions of n trials drawn at random, as many of each regime as there are."""
    if n is None or n >= len(table):
        return np.arange(len(table))
    order = np.random.default_rng(seed).permutation(len(table))
    regimes = table["regime"].astype("str").to_numpy(dtype=object)[order]
    place = pd.Series(regimes).groupby(regimes).cumcount().to_numpy()
    return np.sort(order[np.argsort(place, kind="stable")[:n]])


@dataclass
class Goals:
    """Data of a benchmark, and folds of it."""

    settings: dict[str, Any]
    dataset: str
    root: str | None = None
    lost: LossLog = field(default_factory=LossLog)
    qa: generation.QuestionAnswerer | None = None

    def __post_init__(self) -> None:
        data = load(self.dataset, root=self.root)
        self.trials = seeking_trials(data, item=self.settings["item"], lost=self.lost)
        self.bank = question_bank(data, self.trials)
        self._folds: dict[int, tuple[GoalTrials, pd.DataFrame]] = {}
        self._encoders: dict[str, TextEncoder] = {}

    def encoder(self, name: str) -> TextEncoder:
        """Return an encoder, made once."""
        if name not in self._encoders:
            self._encoders[name] = TextEncoder(name, root=self.root)
        return self._encoders[name]

    def split(self, fold: int) -> Split:
        """Return a fold, pure by reader and text."""
        s = self.settings
        return kfold(
            self.trials.table, by=s["by"], folds=int(s["n_folds"]), fold=fold,
            seed=int(s["data_seed"]), item=ITEM,
        )  # fmt: skip

    def fold(self, fold: int) -> tuple[GoalTrials, pd.DataFrame]:
        """Return the trials of a fold with candidates, and part and regime of each."""
        if fold not in self._folds:
            split = self.split(fold)
            lost = LossLog()
            goal = with_candidates(
                self.trials, self.bank, n=int(self.settings["candidates"]),
                part_of=item_parts(split), seed=int(self.settings["data_seed"]), lost=lost,
            )  # fmt: skip
            if not self._folds:
                self.lost.extend(lost)
            of = split.of(goal.trials.table["trial"]).reset_index(drop=True)
            self._folds[fold] = goal, of
        return self._folds[fold]

    def part(
        self, fold: int, part: str, limit: int | None = None
    ) -> tuple[GoalTrials, pd.DataFrame]:
        """Return trials of a part of a fold, and their facts."""
        goal, of = self.fold(fold)
        rows = np.flatnonzero((of["part"] == part).to_numpy(dtype=bool))
        if not len(rows):
            raise DataError(f"no trial in the {part} part of fold {fold}", source=self.dataset)
        rows = rows[sample(of.iloc[rows], limit, int(self.settings["data_seed"]))]
        table = goal.trials.table.iloc[rows].reset_index(drop=True)
        facts = pd.DataFrame(
            {
                "fold": fold, "trial": table["trial"], "participant": table["participant"],
                "regime": of["regime"].iloc[rows].astype("object").to_numpy(),
                PARAGRAPH: table[PARAGRAPH],
            }
        )  # fmt: skip
        return goal.take(rows), facts

    def inputs(self, goal: GoalTrials, fitted: FittedFeatures, pairs: bool = False) -> GoalInputs:
        """Return trials as models see them."""
        return goal_inputs(
            goal, fitted, self.encoder(self.settings["encoder"]),
            pooling=self.settings["pooling"], pairs=pairs,
        )  # fmt: skip
