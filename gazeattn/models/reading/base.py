"""What every model of reading can do, and what networks over readings share."""

from __future__ import annotations

import abc
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gazeattn.datamodules.reading_batches import ReadingBatch, ReadingInputs, collate_reading
from gazeattn.datamodules.reading_features import Array
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.network import Network

TEXT_USE = ("none", "vectors", "tokens")
KINDS = ("classification", "regression")


@dataclass(frozen=True)
class Target:
    """What is predicted.

    Attributes
    ----------
    kind : {"classification", "regression"}
    classes : int
        Of a classification; targets are 0 to classes - 1.
    weights : tuple of float
        Of the classes in the loss: n / (classes * n of the class) in training, so that each class
        counts the same in all.
    centre, width : float
        Mean and standard deviation of the training targets of a regression.
    """

    kind: str = "classification"
    classes: int = 2
    weights: tuple[float, ...] = ()
    centre: float = 0.0
    width: float = 1.0

    @classmethod
    def fit(cls, kind: str, y: Array) -> Target:
        """Return the target of some training trials; those without one are left out.

        Raises
        ------
        DataError
            No target, one class only, or classes that are no whole numbers from 0.
        """
        if kind not in KINDS:
            raise UnknownNameError("kind of target", kind, KINDS)
        known = y[~np.isnan(y)]
        if not len(known):
            raise DataError("no training trial has a target")
        if kind == "regression":
            return cls(kind, 1, (), float(known.mean()), float(known.std()) or 1.0)
        classes = known.astype(np.int64)
        if (classes != known).any() or classes.min() < 0:
            raise DataError("classes are whole numbers from 0", found=float(known.min()))
        counts = np.bincount(classes)
        if (counts > 0).sum() < 2:
            raise DataError("all training trials are of one class", found=int(classes[0]))
        weights = len(known) / (len(counts) * np.maximum(counts, 1))
        return cls(kind, len(counts), tuple(float(w) for w in weights))

    @property
    def outputs(self) -> int:
        """Numbers that a network puts out: one per class, or one."""
        return self.classes if self.kind == "classification" else 1

    def plain(self) -> dict[str, Any]:
        """Return plain values for a configuration or a checkpoint."""
        return {**asdict(self), "weights": list(self.weights)}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Target:
        """Return what `plain` described."""
        return cls(**{**content, "weights": tuple(content.get("weights", ()))})


class ReadingModel(abc.ABC):
    """A model that predicts something of a reader from the record of one reading.

    Attributes
    ----------
    text_use : {"none", "vectors", "tokens"}
        Whether it sees no text, vectors of a frozen language model, or the tokens themselves.
    gaze_use : bool
        Whether it looks at the eyes at all; False for text-only and reader-blind baselines.
    own_features : bool
        Whether it makes its features from the trials by itself, so that changing scaled columns
        does not reach it.
    target : Target
    """

    text_use: ClassVar[str] = "none"
    gaze_use: ClassVar[bool] = True
    own_features: ClassVar[bool] = False
    target: Target

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return the features that the model sees, given its configuration."""
        return FeatureChoice()

    @abc.abstractmethod
    def predict(self, inputs: ReadingInputs) -> Array:
        """Return predictions.

        Returns
        -------
        ndarray
            (n, classes) probabilities that sum to 1, or (n,) values on the scale of the target.
        """


class ReadingEstimator(ReadingModel):
    """A model that is fitted in one go, without gradients of ours."""

    @abc.abstractmethod
    def fit(self, train: ReadingInputs, valid: ReadingInputs, seed: int = 0) -> None:
        """Fit on training trials that have a target; validation trials may choose settings."""

    @abc.abstractmethod
    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model, without pickle."""

    @classmethod
    @abc.abstractmethod
    def load(cls, folder: str | os.PathLike[str]) -> ReadingEstimator:
        """Read what `save` wrote."""


class ReadingNetwork(Network, ReadingModel):
    """A network over readings.

    A subclass calls ``self.save_hyperparameters()`` in its constructor, whose arguments are plain
    numbers, texts, lists and mappings, and writes `forward`.

    Parameters
    ----------
    target
        See `Target.plain`.
    widths
        Number of columns of each scope: ``fixation``, ``gaze``, ``text``, ``trial``, and
        ``vectors`` for the language model's.
    lr, weight_decay, warmup_epochs
        See `gazeattn.models.network.Network`.
    """

    class_weights: Tensor

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(lr, weight_decay, warmup_epochs)
        self.target = Target.of(target)
        self.widths = {str(k): int(v) for k, v in widths.items()}
        weights = self.target.weights or (1.0,) * self.target.outputs
        self.register_buffer("class_weights", torch.tensor(weights), persistent=False)

    @abc.abstractmethod
    def forward(self, batch: ReadingBatch) -> Tensor:
        """Return logits of the classes, or the scaled value, (batch, target.outputs)."""

    def training_loss(self, batch: ReadingBatch) -> dict[str, Tensor]:
        """Return the loss over the trials that have a target."""
        known = ~torch.isnan(batch.y)
        if not bool(known.any()):
            return {}
        out, y = self(batch)[known], batch.y[known]
        if self.target.kind == "regression":
            scaled = (y - self.target.centre) / self.target.width
            return {"loss": F.mse_loss(out[:, 0], scaled)}
        # the mean over trials of weighted losses: batches of other classes weigh the same
        each = F.cross_entropy(out, y.long(), weight=self.class_weights, reduction="none")
        return {"loss": each.mean()}

    def predict_proba(self, batch: ReadingBatch) -> Tensor:
        """Return probabilities (batch, classes), or values (batch,) of a regression."""
        out = self(batch)
        if self.target.kind == "regression":
            return out[:, 0] * self.target.width + self.target.centre
        return out.softmax(-1)

    def predict(self, inputs: ReadingInputs, batch_size: int = 64) -> Array:
        """Return predictions in the order of the trials; padding and company do not change them."""
        order = np.argsort(inputs.lengths, kind="stable")
        shape = (len(inputs), self.target.classes)
        out = np.full(shape if self.target.kind == "classification" else shape[:1], np.nan)
        was = self.training
        self.eval()
        with torch.inference_mode():
            for begin in range(0, len(order), batch_size):
                rows = order[begin : begin + batch_size]
                batch = collate_reading(inputs, rows).to(self.device)
                out[rows] = self.predict_proba(batch).double().cpu().numpy()
        self.train(was)
        return out


def word_vectors(batch: ReadingBatch) -> tuple[Tensor, Tensor]:
    """Return the language model's vectors of words and of whole texts.

    Returns
    -------
    words : Tensor, shape (batch, n_words, width)
        Sums over each word's tokens; 0 for words without a token.
    first : Tensor, shape (batch, width)
        Vector of the first token, which encoders use for the whole text; 0 where there is none.
    """
    n_texts, _, width = batch.vectors.shape
    n_words = batch.word_mask.shape[1]
    there = batch.token_word >= 0
    # one slot more receives the tokens of no word
    slot = torch.where(there, batch.token_word, torch.full_like(batch.token_word, n_words))
    sums = batch.vectors.new_zeros(n_texts, n_words + 1, width)
    sums.scatter_add_(1, slot.clamp_max(n_words)[..., None].expand(-1, -1, width), batch.vectors)
    return sums[batch.which, :n_words], first_token(batch.vectors)[batch.which]


def first_token(vectors: Tensor) -> Tensor:
    """Return the vector of each text's first token, (n_texts, width); 0 where no text has any."""
    if not vectors.shape[1]:
        return vectors.new_zeros(len(vectors), vectors.shape[2])
    return vectors[:, 0]


def at_fixations(words: Tensor, batch: ReadingBatch) -> Tensor:
    """Return what stands at the word of each fixation, zeros off the text.

    Parameters
    ----------
    words : Tensor, shape (batch, n_words, k)

    Returns
    -------
    Tensor, shape (batch, length, k)
    """
    if not words.shape[1]:
        return words.new_zeros(*batch.word.shape, words.shape[2])
    rows = batch.word.clamp_min(0)[..., None].expand(-1, -1, words.shape[2])
    return words.gather(1, rows).masked_fill((batch.word < 0)[..., None], 0)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over axis 1 where `mask` holds, (batch, k); 0 where nothing does."""
    kept = values.masked_fill(~mask[..., None], 0)
    return kept.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)


def arguments_of(config: Mapping[str, Any], without: Sequence[str]) -> dict[str, Any]:
    """Return the entries of a configuration that are arguments of the class."""
    return {str(k): v for k, v in config.items() if k not in without}


def checkpoint_folder(folder: str | os.PathLike[str]) -> Path:
    """Return a folder that exists."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return path
