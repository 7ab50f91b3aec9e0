"""PLM-AS: words in the order in which they were looked at, read by a GRU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from gazeattn.datamodules.reading_batches import ReadingBatch
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.models.reading._text_parts import FixatedWords, run_recurrent, vector_width
from gazeattn.models.reading.base import ReadingNetwork, word_vectors
from gazeattn.registry import register_reading_model


@register_reading_model(
    "plm_as",
    description="word vectors in fixation order, a GRU that starts from the whole text",
    citation="Yang and Hollenstein 2023, NLDL",
    kind="network",
    needs=("words",),
    aliases=("plm-as",),
)
class PlmAs(ReadingNetwork):
    """PLM-AS (Yang and Hollenstein 2023) over vectors of a frozen language model.

    The vector of a word is the sum over its tokens. The eyes enter by the order of words alone:
    no duration, no position. Fixations off the text have a learned vector.

    Parameters
    ----------
    target, widths
        See `gazeattn.models.reading.base.ReadingNetwork`.
    hidden
        Units of the GRU; 0: as many as the vectors have numbers. Then the vector of the text's
        first token is the first state, as published; otherwise a linear map of it.
    layers
        Of the GRU, each with the same first state.
    dropout
        Of its inputs and of the last state.
    """

    text_use: ClassVar[str] = "vectors"

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        hidden: int = 0,
        layers: int = 1,
        dropout: float = 0.1,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(
            target, widths, lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs
        )
        self.save_hyperparameters()
        width = vector_width(self.widths)
        hidden = hidden or width
        self.layers = layers
        self.fixated = FixatedWords(width)
        self.start = nn.Identity() if hidden == width else nn.Linear(width, hidden)
        self.drop = nn.Dropout(dropout)
        self.gru = nn.GRU(width, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, self.target.outputs)

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return no feature: the eyes enter by the order of the words."""
        return FeatureChoice(fixation=(), gaze=(), text=())

    def forward(self, batch: ReadingBatch) -> Tensor:
        """Return logits, (batch, outputs)."""
        words, first = word_vectors(batch)
        steps = self.drop(self.fixated(words, batch))
        start = self.start(first)[None].repeat(self.layers, 1, 1)
        _, last = run_recurrent(self.gru, steps, batch.mask.sum(1), start)
        return self.head(self.drop(last))
