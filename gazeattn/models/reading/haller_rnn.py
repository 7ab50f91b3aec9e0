"""PLM-AS-RM: words in fixation order with measures of reading, read by a BiLSTM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gazeattn.datamodules.reading_batches import ReadingBatch
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.models.reading._text_parts import FixatedWords, run_recurrent, vector_width
from gazeattn.models.reading.base import ReadingNetwork, masked_mean, word_vectors
from gazeattn.registry import register_reading_model

FIXATION = (
    "duration",
    "x",
    "y",
    "landing",
    "next_distance",
    "next_angle",
    "saccade_amplitude",
    "saccade_duration",
)
GAZE = ("first_fixation_duration", "total_reading_time")


@register_reading_model(
    "haller_rnn",
    description="word vectors and reading measures in fixation order, a BiLSTM, mean over time",
    citation="Haller et al. 2022, TSAR",
    kind="network",
    needs=("words",),
    aliases=("plm_as_rm", "plm-as-rm"),
)
class HallerRnn(ReadingNetwork):
    """The sequence model of Haller et al. (2022) over vectors of a frozen language model.

    Each step is a fixation: the vector of its word (the sum over its tokens), two measures of
    this word in the trial, and eight features of the fixation. Off the text a learned vector
    stands in place of word and measures; the fixation keeps its own features. The mean of the
    outputs is over real steps alone.

    Parameters
    ----------
    target, widths
        See `gazeattn.models.reading.base.ReadingNetwork`.
    hidden
        Units of each direction; 10, 40 or 70 in the paper.
    layers
        Of the BiLSTM.
    dropout
        Of the vectors of words and of the mean.
    fixation, gaze
        Names of features; None: the eight and two of the paper, or what comes closest to them.
    """

    text_use: ClassVar[str] = "vectors"

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        hidden: int = 70,
        layers: int = 1,
        dropout: float = 0.1,
        fixation: list[str] | None = None,
        gaze: list[str] | None = None,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(
            target, widths, lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs
        )
        self.save_hyperparameters()
        at_word = vector_width(self.widths) + self.widths["gaze"]
        self.fixated = FixatedWords(at_word)
        self.drop = nn.Dropout(dropout)
        self.lstm = nn.LSTM(
            at_word + self.widths["fixation"], hidden, layers, batch_first=True, bidirectional=True
        )
        self.head = nn.Linear(2 * hidden, self.target.outputs)

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return eight features of fixations and two of words, where none are named."""
        fixation, gaze = config.get("fixation"), config.get("gaze")
        return FeatureChoice(
            fixation=FIXATION if fixation is None else tuple(fixation),
            gaze=GAZE if gaze is None else tuple(gaze),
            text=(),
        )

    def forward(self, batch: ReadingBatch) -> Tensor:
        """Return logits, (batch, outputs)."""
        words, _ = word_vectors(batch)
        at_words = self.fixated(torch.cat([self.drop(words), batch.gaze], -1), batch)
        steps = torch.cat([at_words, batch.fixations], -1)
        outputs, _ = run_recurrent(self.lstm, steps, batch.mask.sum(1))
        return self.head(self.drop(masked_mean(outputs, batch.mask)))
