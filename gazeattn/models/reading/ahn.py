"""Networks over plain fixations: a convolutional and a recurrent one (Ahn et al., 2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from gazeattn.datamodules.reading_batches import ReadingBatch
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.errors import DataError
from gazeattn.models.reading.base import ReadingNetwork, masked_mean
from gazeattn.registry import register_reading_model

FEATURES = ("duration", "pupil", "x", "y")
CITATION = "Ahn, Kelton, Balasubramanian & Zelinsky 2020, ETRA"


def masked_max(values: Tensor, mask: Tensor) -> Tensor:
    """Return the largest value over axis 1 where `mask` holds, (batch, k); 0 where nothing does."""
    if not values.shape[1]:
        return values.new_zeros(values.shape[0], values.shape[2])
    least = torch.finfo(values.dtype).min
    largest = values.masked_fill(~mask[..., None], least).amax(1)
    return torch.where(mask.any(1)[:, None], largest, torch.zeros_like(largest))


def mean_and_max(values: Tensor, mask: Tensor) -> Tensor:
    """Return mean and largest value of the real steps side by side, (batch, 2 * k)."""
    return torch.cat([masked_mean(values, mask), masked_max(values, mask)], dim=-1)


def fixation_choice(config: Mapping[str, Any], default: Sequence[str]) -> FeatureChoice:
    """Return a choice of the fixation features that `config` names, and of nothing else."""
    return FeatureChoice(
        fixation=tuple(config.get("features") or default), gaze=(), text=(), sets=()
    )


def fixation_width(widths: Mapping[str, int], model: str) -> int:
    """Return the number of columns of fixations.

    Raises
    ------
    DataError
        There is none: all wanted features are missing throughout training.
    """
    width = int(widths.get("fixation", 0))
    if width < 1:
        raise DataError(
            f"{model} sees no feature of fixations", expected="at least one", found=width,
            hint="all that are named are missing in all training trials: name others in features",
        )  # fmt: skip
    return width


class PackedLSTM(nn.Module):
    """A bidirectional LSTM that never sees padding.

    Parameters
    ----------
    inputs, hidden
        Width of a step, and of each direction.
    layers
    dropout
        Between layers.
    """

    def __init__(self, inputs: int, hidden: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.lstm = nn.LSTM(
            inputs,
            hidden,
            layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.width = 2 * hidden

    def forward(self, steps: Tensor, mask: Tensor) -> Tensor:
        """Return the states of both directions, 0 in padding, (batch, length, 2 * hidden)."""
        lengths = mask.sum(1).clamp_min(1).cpu()
        packed = pack_padded_sequence(steps, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=steps.shape[1]
        )
        return states * mask[..., None]


def dense(sizes: Sequence[int], dropout: float) -> nn.Sequential:
    """Return linear layers with ReLU between them, dropout before each, and none after the last."""
    layers: list[nn.Module] = []
    for k, (before, after) in enumerate(pairwise(sizes)):
        layers += [nn.Dropout(dropout), nn.Linear(before, after)]
        if k < len(sizes) - 2:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


@register_reading_model(
    "ahn_cnn",
    description="convolutions over duration, pupil and position of fixations",
    citation=CITATION,
    kind="network",
    needs=("words",),
)
class AhnCNN(ReadingNetwork):
    """Three convolutions over fixations, pooled over the trial.

    The published network flattens a window of fixed length; here trials have any length, and mean
    and largest value of the real steps take the place of the flattened window. The output has no
    final ReLU: with one, logits below 0 have no gradient and the output becomes constant.

    Parameters
    ----------
    target, widths
        See `gazeattn.models.reading.base.ReadingNetwork`.
    features
        Names of fixation features (`gazeattn.datamodules.reading_features.FIXATION`). What is
        missing throughout training is no column: without a pupil, the rest is seen.
    channels
        Of each convolution; the paper searches 40 and 80.
    layers
        Convolutions of width 3, each followed by a ReLU.
    dense_sizes
        Widths of the layers between pooling and output.
    dropout
        Before each of them.
    lr, weight_decay, warmup_epochs
        See `gazeattn.models.network.Network`.

    References
    ----------
    Ahn, S., Kelton, C., Balasubramanian, A., & Zelinsky, G. (2020). Towards predicting reading
    comprehension from gaze behavior. ETRA.
    """

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        features: Sequence[str] = FEATURES,
        channels: int = 40,
        layers: int = 3,
        dense_sizes: Sequence[int] = (50, 20),
        dropout: float = 0.3,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(
            target, widths, lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs
        )
        self.save_hyperparameters()
        inner = [fixation_width(self.widths, "ahn_cnn"), *[channels] * layers]
        self.convolutions = nn.ModuleList(nn.Conv1d(a, b, 3, padding=1) for a, b in pairwise(inner))
        self.head = dense([2 * inner[-1], *dense_sizes, self.target.outputs], dropout)

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return duration, pupil and position, or what ``features`` names."""
        return fixation_choice(config, FEATURES)

    def forward(self, batch: ReadingBatch) -> Tensor:
        """Return logits or the scaled value, (batch, target.outputs)."""
        real = batch.mask[:, None]
        values = batch.fixations.transpose(1, 2).masked_fill(~real, 0.0)
        for convolution in self.convolutions:
            # 0 after the end, as a trial alone has it there
            values = F.relu(convolution(values)).masked_fill(~real, 0.0)
        # values are at least 0, so that 0 in padding never is the larger of two
        values = F.max_pool1d(values, 2, ceil_mode=True)
        kept = batch.mask[:, ::2]
        return self.head(mean_and_max(values.transpose(1, 2), kept))


@register_reading_model(
    "ahn_rnn",
    description="bidirectional LSTM over duration, pupil and position of fixations",
    citation=CITATION,
    kind="network",
    needs=("words",),
)
class AhnRNN(ReadingNetwork):
    """A bidirectional LSTM over fixations in their order.

    The published code reads the state at the last step of the padded window, which is padding for
    all trials but the longest, and ends in a ReLU. Here sequences are packed, mean and largest
    state of the real steps are read, and the output is a plain linear layer.

    Parameters
    ----------
    target, widths
        See `gazeattn.models.reading.base.ReadingNetwork`.
    features
        See `AhnCNN`.
    hidden
        Width of each direction; the paper searches 25 and 50.
    layers
        Of the LSTM; 1, 2 and 4 in the paper's search.
    dense_sizes, dropout
        See `AhnCNN`.
    lr, weight_decay, warmup_epochs
        See `gazeattn.models.network.Network`.

    References
    ----------
    Ahn, S., Kelton, C., Balasubramanian, A., & Zelinsky, G. (2020). Towards predicting reading
    comprehension from gaze behavior. ETRA.
    """

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        features: Sequence[str] = FEATURES,
        hidden: int = 25,
        layers: int = 1,
        dense_sizes: Sequence[int] = (50, 20),
        dropout: float = 0.3,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(
            target, widths, lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs
        )
        self.save_hyperparameters()
        self.sequence = PackedLSTM(fixation_width(self.widths, "ahn_rnn"), hidden, layers, dropout)
        sizes = [2 * self.sequence.width, *dense_sizes, self.target.outputs]
        self.head = dense(sizes, dropout)

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return duration, pupil and position, or what ``features`` names."""
        return fixation_choice(config, FEATURES)

    def forward(self, batch: ReadingBatch) -> Tensor:
        """Return logits or the scaled value, (batch, target.outputs)."""
        states = self.sequence(batch.fixations, batch.mask)
        return self.head(mean_and_max(states, batch.mask))
