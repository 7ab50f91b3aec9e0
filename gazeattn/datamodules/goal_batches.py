"""Batches of readings with several candidate questions each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from gazeattn.datamodules.reading_batches import (
    ReadingBatch,
    ReadingInputs,
    collate_reading,
    reading_inputs,
)
from gazeattn.datamodules.reading_goals import GoalTrials
from gazeattn.datamodules.reading_scaling import FittedFeatures
from gazeattn.datamodules.reading_texts import TEXT, TextEncoder
from gazeattn.datamodules.scanpaths import BatchSampler, Positions
from gazeattn.errors import DataError, UnknownNameError

POOLINGS = ("mean", "first")


@dataclass(frozen=True)
class GoalInputs:
    """Readings and candidates as models see them.

    Attributes
    ----------
    goal : GoalTrials
    reading : ReadingInputs
        One row per trial, with the vectors of its text.
    questions : ndarray, shape (n_questions, width), float32
        Vectors of the distinct candidates.
    question_of : ndarray, shape (n, most), int64
        Row of each candidate in `questions`; -1 beyond a trial's candidates.
    pairs : ReadingInputs or None
        One row per trial and candidate, the question behind the text, for models that run the
        language model over both.
    """

    goal: GoalTrials
    reading: ReadingInputs
    questions: NDArray[np.float32]
    question_of: NDArray[np.int64]
    pairs: ReadingInputs | None = None

    def __len__(self) -> int:
        return len(self.goal)

    @property
    def there(self) -> NDArray[np.bool_]:
        """Where a trial has a candidate, (n, most)."""
        return self.question_of >= 0

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Fixations of each trial."""
        return self.goal.trials.lengths


def question_vectors(
    encoder: TextEncoder, questions: Sequence[str], pooling: str = "mean"
) -> NDArray[np.float32]:
    """Return one vector per question, (n, width).

    Parameters
    ----------
    pooling : {"mean", "first"}
        Mean over the question's tokens, as sentence encoders are trained (Reimers & Gurevych
        2019), or the vector of the first token, as published for RoBERTa.
    """
    if pooling not in POOLINGS:
        raise UnknownNameError("pooling", pooling, POOLINGS)
    rows = []
    for tokens in encoder([(q.split(), None) for q in questions]):
        assert tokens.vectors is not None
        words = tokens.part == TEXT
        mean = pooling == "mean" and words.any()
        rows.append(tokens.vectors[words].mean(0) if mean else tokens.vectors[0])
    return np.array(rows, dtype=np.float32).reshape(len(rows), -1)


def goal_inputs(
    goal: GoalTrials,
    fitted: FittedFeatures,
    encoder: TextEncoder,
    *,
    pooling: str = "mean",
    pairs: bool = False,
) -> GoalInputs:
    """Return trials with candidates as models see them.

    Parameters
    ----------
    goal
    fitted
        From training trials.
    encoder
        Of texts and questions.
    pooling
        See `question_vectors`.
    pairs
        Also one row per trial and candidate.
    """
    distinct = {q: k for k, q in enumerate(dict.fromkeys(q for c in goal.candidates for q in c))}
    question_of = np.full((len(goal), goal.most), -1, dtype=np.int64)
    for row, candidates in enumerate(goal.candidates):
        question_of[row, : len(candidates)] = [distinct[q] for q in candidates]
    y = goal.target.astype(np.float64)
    reading = reading_inputs(goal.trials, fitted, y, encoder)
    made = GoalInputs(
        goal, reading, question_vectors(encoder, list(distinct), pooling), question_of
    )
    if not pairs:
        return made
    trial = np.flatnonzero(made.there) // goal.most
    names = list(distinct)
    asked = [names[k] for k in question_of[made.there]]
    rows = reading_inputs(
        goal.trials.take(trial), fitted, np.zeros(len(trial)), encoder, questions=asked,
        vectors=False,
    )  # fmt: skip
    return replace(made, pairs=rows)


@dataclass
class GoalBatch:
    """Some trials with their candidates.

    Attributes
    ----------
    reading : ReadingBatch
        One row per trial; or per trial and candidate, trial by trial, for models of pairs.
    questions : Tensor, shape (batch, most, width)
        0 beyond a trial's candidates.
    there : Tensor of bool, shape (batch, most)
    target : Tensor of int64, shape (batch,)
    trial : list of str
    """

    reading: ReadingBatch
    questions: Tensor
    there: Tensor
    target: Tensor
    trial: list[str]

    def __len__(self) -> int:
        return len(self.trial)

    def to(self, device: torch.device | str) -> GoalBatch:
        """Return the batch on a device."""
        return GoalBatch(
            self.reading.to(device), self.questions.to(device), self.there.to(device),
            self.target.to(device), self.trial,
        )  # fmt: skip


def collate_goals(
    inputs: GoalInputs, which: Sequence[int] | NDArray[Any] | None = None, *, pairs: bool = False
) -> GoalBatch:
    """Return trials (all, or those at some positions) as one padded batch."""
    at = np.arange(len(inputs)) if which is None else np.asarray(which, dtype=np.int64)
    of, there = inputs.question_of[at], inputs.there[at]
    questions = np.where(there[..., None], inputs.questions[np.maximum(of, 0)], 0)
    if pairs:
        if inputs.pairs is None:
            raise DataError("the inputs have no pairs", hint="goal_inputs(..., pairs=True)")
        numbers = np.full(inputs.there.shape, -1, dtype=np.int64)
        numbers[inputs.there] = np.arange(int(inputs.there.sum()))
        reading = collate_reading(inputs.pairs, numbers[at][there])
    else:
        reading = collate_reading(inputs.reading, at)
    return GoalBatch(
        reading,
        torch.from_numpy(questions.astype(np.float32)),
        torch.from_numpy(there),
        torch.from_numpy(inputs.goal.target[at]),
        [str(t) for t in inputs.goal.trials.trial[at]],
    )


class GoalDataModule(pl.LightningDataModule):
    """Batches of training and validation trials, in an order fixed by seed and epoch."""

    def __init__(
        self,
        train: GoalInputs,
        valid: GoalInputs,
        *,
        batch_size: int = 16,
        seed: int = 0,
        pairs: bool = False,
    ) -> None:
        super().__init__()
        self.train, self.valid, self.pairs = train, valid, pairs
        self.batch_size, self.seed = batch_size, seed

    def _loader(self, inputs: GoalInputs, seed: int | None, epoch: int = 0) -> DataLoader[int]:
        sampler = BatchSampler(inputs, self.batch_size, seed=seed)
        sampler.set_epoch(epoch)
        return DataLoader(
            Positions(len(inputs)),
            batch_sampler=sampler,
            collate_fn=lambda rows: collate_goals(inputs, rows, pairs=self.pairs),
        )

    def train_dataloader(self) -> DataLoader[int]:
        """Return the shuffled batches of the trainer's epoch."""
        epoch = 0 if self.trainer is None else self.trainer.current_epoch
        return self._loader(self.train, self.seed, epoch)

    def val_dataloader(self) -> DataLoader[int]:
        """Return the validation batches in fixed order."""
        return self._loader(self.valid, None)

    def transfer_batch_to_device(
        self, batch: GoalBatch, device: torch.device, dataloader_idx: int
    ) -> GoalBatch:
        """Move a batch to a device."""
        return batch.to(device)
