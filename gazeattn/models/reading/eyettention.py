"""Eyettention for one answer per trial: two encoders, and attention from fixations to words."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gazeattn.datamodules.reading_batches import ReadingBatch
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.models.layers.positions import sinusoid
from gazeattn.models.reading._text_parts import (
    FixatedWords,
    masked_softmax,
    run_recurrent,
    vector_width,
)
from gazeattn.models.reading.base import ReadingNetwork, word_vectors
from gazeattn.registry import register_reading_model


@register_reading_model(
    "eyettention",
    description="encoders of words and of fixations joined by global cross-attention",
    citation="Deng et al. 2023, PACM HCI",
    kind="network",
    needs=("words",),
)
class Eyettention(ReadingNetwork):
    """Eyettention (Deng et al. 2023), the variant that tells the reader, over frozen vectors.

    Words run through a BiLSTM in reading order, each followed by its length. Fixations run
    through an LSTM in their own order: vector and number of the word, duration and landing
    position. The last state of the fixations attends to all words of the text (no window), with a
    bilinear score, and both go through dense layers.

    Unlike in the paper, the number of a word is coded by sinusoids with one learned factor, so
    that texts of any length have one, and fixations see the vectors that the words have in their
    text. Off the text a learned vector stands in place of the word, without a number.

    Parameters
    ----------
    target, widths
        See `gazeattn.models.reading.base.ReadingNetwork`.
    hidden
        Units of the fixations' LSTM, and of both directions of the words' together.
    layers
        Of each encoder.
    dense
        Sizes of the dense layers.
    dropout
        Of vectors and dense layers.
    """

    text_use: ClassVar[str] = "vectors"

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        hidden: int = 128,
        layers: int = 8,
        dense: list[int] | tuple[int, ...] = (512, 256),
        dropout: float = 0.2,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(
            target, widths, lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs
        )
        self.save_hyperparameters()
        width, half = vector_width(self.widths), hidden // 2
        between = dropout if layers > 1 else 0.0
        self.drop = nn.Dropout(dropout)
        self.fixated = FixatedWords(width)
        self.place = nn.Parameter(torch.tensor(0.1))
        self.norm = nn.LayerNorm(width)
        self.words = nn.LSTM(
            width, half, layers, batch_first=True, bidirectional=True, dropout=between
        )
        self.fixations = nn.LSTM(
            width + self.widths["fixation"], hidden, layers, batch_first=True, dropout=between
        )
        word_width = 2 * half + self.widths["text"]
        self.score = nn.Linear(hidden, word_width, bias=False)
        sizes = [hidden + word_width, *(int(d) for d in dense)]
        parts: list[nn.Module] = []
        for size, after in pairwise(sizes):
            parts += [nn.Dropout(dropout), nn.Linear(size, after), nn.ReLU()]
        self.head = nn.Sequential(*parts, nn.Linear(sizes[-1], self.target.outputs))

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return duration and landing position of fixations, and the length of words."""
        return FeatureChoice(fixation=("duration", "landing"), gaze=(), text=("length",))

    def looked_at(self, words: Tensor, batch: ReadingBatch) -> Tensor:
        """Return vector and number of the word of each fixation, normed, (batch, length, width)."""
        width = words.shape[-1]
        code = sinusoid(batch.word, width + width % 2)[..., :width]
        number = self.place * code * (batch.word >= 0)[..., None]
        return self.norm(self.fixated(words, batch) + number)

    def attention(self, batch: ReadingBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Return the weights of the words, what the words became, and the last state.

        Returns
        -------
        weights : Tensor, shape (batch, n_words)
            Sum to 1; all 0 for a text without words.
        words : Tensor, shape (batch, n_words, k)
        last : Tensor, shape (batch, hidden)
        """
        words, _ = word_vectors(batch)
        steps = torch.cat([self.drop(self.looked_at(words, batch)), batch.fixations], -1)
        _, last = run_recurrent(self.fixations, steps, batch.mask.sum(1))
        encoded, _ = run_recurrent(self.words, self.drop(words), batch.word_mask.sum(1))
        length = batch.text.masked_fill(~batch.word_mask[..., None], 0)
        encoded = torch.cat([encoded, length], -1)
        scores = torch.einsum("bwk,bk->bw", encoded, self.score(last))
        return masked_softmax(scores, batch.word_mask), encoded, last

    def forward(self, batch: ReadingBatch) -> Tensor:
        """Return logits, (batch, outputs)."""
        weights, words, last = self.attention(batch)
        context = torch.einsum("bw,bwk->bk", weights, words)
        return self.head(torch.cat([context, last], -1))
