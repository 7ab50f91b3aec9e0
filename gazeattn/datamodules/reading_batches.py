"""Batches of reading trials: padded with masks, readings of like length together."""

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

from gazeattn.datamodules.reading import ReadingTrials
from gazeattn.datamodules.reading_features import Array
from gazeattn.datamodules.reading_scaling import FittedFeatures
from gazeattn.datamodules.reading_texts import TextEncoder, Tokens
from gazeattn.datamodules.scanpaths import BatchSampler, Positions
from gazeattn.errors import DataError


@dataclass(frozen=True)
class ReadingInputs:
    """Trials as a model sees them: scaled, with their targets and the tokens of their texts.

    Attributes
    ----------
    trials : ReadingTrials
    scaled : dict of str to ndarray, float32
        ``"fixation"`` (n_fixations, k), ``"gaze"`` and ``"text"`` (n_words of all trials, k),
        ``"trial"`` (n, k).
    y : ndarray, shape (n,), float64
        Number of the class, or the target as it is; NaN where missing.
    tokens : tuple of Tokens
        Distinct texts with their questions; empty where no language model is used.
    token_of : ndarray, shape (n,), int64
        Position of each trial's text in `tokens`.
    """

    trials: ReadingTrials
    scaled: dict[str, NDArray[np.float32]]
    y: Array
    tokens: tuple[Tokens, ...] = ()
    token_of: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.trials)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """What batches are sorted by: fixations of each trial."""
        return self.trials.lengths


def reading_inputs(
    trials: ReadingTrials,
    fitted: FittedFeatures,
    y: Array,
    encoder: TextEncoder | None = None,
    *,
    questions: Sequence[str | None] | None = None,
    vectors: bool = True,
) -> ReadingInputs:
    """Return trials as a model sees them.

    Parameters
    ----------
    trials, y
        Trials and their targets.
    fitted
        From training trials.
    encoder
        Makes the tokens of the texts; None: no tokens.
    questions
        Asked about each text, put after it; None: texts alone.
    vectors
        Run the language model once per text and keep its vectors.
    """
    if len(y) != len(trials):
        raise DataError("one target per trial", expected=len(trials), found=len(y))
    y = np.asarray(y, dtype=np.float64)
    made = ReadingInputs(trials, fitted.apply(trials), y)
    if encoder is None:
        return made
    asked = [None] * len(trials) if questions is None else list(questions)
    keys = list(zip((trials.texts[t].words for t in trials.table["text"]), asked, strict=True))
    distinct = {k: i for i, k in enumerate(dict.fromkeys(keys))}
    tokens = tuple(encoder(list(distinct), vectors=vectors))
    return replace(made, tokens=tokens, token_of=np.array([distinct[k] for k in keys], np.int64))


@dataclass
class ReadingBatch:
    """Some trials, padded to the longest.

    Attributes
    ----------
    fixations : Tensor, shape (batch, length, k)
        Scaled; 0 in padding.
    mask : Tensor of bool, shape (batch, length)
        Where a fixation is.
    word : Tensor of int64, shape (batch, length)
        Number of the fixated word; -1 off the text and in padding.
    gaze, text : Tensor, shape (batch, n_words, k)
        Features of the words in this trial, and of the words themselves.
    word_mask : Tensor of bool, shape (batch, n_words)
    numbers : Tensor, shape (batch, k)
        Aggregates of the trial.
    y : Tensor, shape (batch,)
        Target; NaN where missing.
    which : Tensor of int64, shape (batch,)
        Row of the token tensors that holds the text of each trial.
    ids, token_word, token_part : Tensor of int64, shape (n_texts, n_tokens)
        Tokens, the word of each (-1: none), and `gazeattn.datamodules.reading_texts` parts.
    token_mask : Tensor of bool, shape (n_texts, n_tokens)
    vectors : Tensor, shape (n_texts, n_tokens, width)
    trial, participant : list of str
    """

    fixations: Tensor
    mask: Tensor
    word: Tensor
    gaze: Tensor
    text: Tensor
    word_mask: Tensor
    numbers: Tensor
    y: Tensor
    which: Tensor
    ids: Tensor
    token_word: Tensor
    token_part: Tensor
    token_mask: Tensor
    vectors: Tensor
    trial: list[str]
    participant: list[str]

    def __len__(self) -> int:
        return len(self.trial)

    def to(self, device: torch.device | str) -> ReadingBatch:
        """Return the batch on a device."""
        moved: dict[str, Any] = {
            k: v.to(device) for k, v in vars(self).items() if isinstance(v, Tensor)
        }
        return replace(self, **moved)


def padded(values: NDArray[Any], starts: NDArray[np.int64], fill: float = 0) -> NDArray[Any]:
    """Return ragged rows as (n, longest, ...), padded with `fill`."""
    lengths = np.diff(starts)
    mask = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    out = np.full((*mask.shape, *values.shape[1:]), fill, dtype=values.dtype)
    out[mask] = values
    return out


def _mask(starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    lengths = np.diff(starts)
    return np.arange(int(lengths.max(initial=0))) < lengths[:, None]


def _ranges(starts: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.int64]:
    lengths = np.diff(starts)[at]
    begin = np.cumsum(lengths) - lengths
    return np.repeat(starts[at] - begin, lengths) + np.arange(int(lengths.sum()))


def collate_reading(
    inputs: ReadingInputs, which: Sequence[int] | NDArray[Any] | None = None
) -> ReadingBatch:
    """Return trials (all, or those at some positions) as one padded batch."""
    trials = inputs.trials
    at = np.arange(len(trials)) if which is None else np.asarray(which, dtype=np.int64)
    rows, words = _ranges(trials.starts, at), _ranges(trials.word_starts, at)
    starts = np.concatenate([[0], np.cumsum(trials.lengths[at])])
    word_starts = np.concatenate([[0], np.cumsum(trials.n_words[at])])
    if inputs.token_of is None:
        token_of, tokens = np.zeros(len(at), dtype=np.int64), []
    else:
        used, token_of = np.unique(inputs.token_of[at], return_inverse=True)
        tokens = [inputs.tokens[k] for k in used]
    edges = np.concatenate([[0], np.cumsum([len(t) for t in tokens])]).astype(np.int64)

    def of_tokens(name: str, fill: int) -> Tensor:
        if not tokens:
            return torch.zeros((0, 0), dtype=torch.int64)
        rows = np.concatenate([getattr(t, name) for t in tokens]).astype(np.int64)
        return torch.from_numpy(padded(rows, edges, fill))

    vectors = torch.zeros((0, 0, 0))
    if tokens and tokens[0].vectors is not None:
        parts = [t.vectors for t in tokens if t.vectors is not None]
        vectors = torch.from_numpy(padded(np.concatenate(parts), edges))
    return ReadingBatch(
        fixations=torch.from_numpy(padded(inputs.scaled["fixation"][rows], starts)),
        mask=torch.from_numpy(_mask(starts)),
        word=torch.from_numpy(padded(trials.word[rows], starts, -1)),
        gaze=torch.from_numpy(padded(inputs.scaled["gaze"][words], word_starts)),
        text=torch.from_numpy(padded(inputs.scaled["text"][words], word_starts)),
        word_mask=torch.from_numpy(_mask(word_starts)),
        numbers=torch.from_numpy(inputs.scaled["trial"][at]),
        y=torch.from_numpy(inputs.y[at].astype(np.float32)),
        which=torch.from_numpy(np.asarray(token_of, dtype=np.int64).reshape(-1)),
        ids=of_tokens("ids", 0),
        token_word=of_tokens("word_of", -1),
        token_part=of_tokens("part", 0),
        token_mask=torch.from_numpy(_mask(edges)),
        vectors=vectors,
        trial=[str(t) for t in trials.trial[at]],
        participant=[str(p) for p in trials.participant[at]],
    )


class ReadingDataModule(pl.LightningDataModule):
    """Batches of training and validation trials, in an order fixed by seed and epoch.

    Parameters
    ----------
    train, valid
        Trials without a target are left out of both.
    batch_size
        Trials of a batch.
    seed
        Of the order of batches.
    """

    def __init__(
        self, train: ReadingInputs, valid: ReadingInputs, *, batch_size: int = 32, seed: int = 0
    ) -> None:
        super().__init__()
        self.train, self.valid = train, valid
        self.batch_size, self.seed = batch_size, seed

    def _loader(self, inputs: ReadingInputs, seed: int | None, epoch: int = 0) -> DataLoader[int]:
        known = np.flatnonzero(~np.isnan(inputs.y))
        if not len(known):
            raise DataError("no trial has a target")
        sampler = BatchSampler(_Lengths(inputs.lengths[known]), self.batch_size, seed=seed)
        sampler.set_epoch(epoch)
        return DataLoader(
            Positions(len(known)),
            batch_sampler=sampler,
            collate_fn=lambda rows: collate_reading(inputs, known[rows]),
        )

    def train_dataloader(self) -> DataLoader[int]:
        """Return the shuffled batches of the trainer's epoch."""
        epoch = 0 if self.trainer is None else self.trainer.current_epoch
        return self._loader(self.train, self.seed, epoch)

    def val_dataloader(self) -> DataLoader[int]:
        """Return the validation batches in fixed order."""
        return self._loader(self.valid, None)

    def transfer_batch_to_device(
        self, batch: ReadingBatch, device: torch.device, dataloader_idx: int
    ) -> ReadingBatch:
        """Move a batch to a device."""
        return batch.to(device)


@dataclass(frozen=True)
class _Lengths:
    """Lengths of what is batched, as `BatchSampler` wants them."""

    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lengths)
