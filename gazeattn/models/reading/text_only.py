"""The text alone: what every model of text and eyes is shown beside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from gazeattn.datamodules.reading_batches import ReadingBatch, ReadingInputs, collate_reading
from gazeattn.datamodules.reading_features import Array
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.datamodules.reading_texts import QUESTION, TEXT
from gazeattn.errors import DataError
from gazeattn.models.reading._text_parts import masked_softmax, token_vectors, vector_width
from gazeattn.models.reading.base import ReadingNetwork, first_token
from gazeattn.registry import register_reading_model


class AttentionPool(nn.Module):
    """A weighted mean of tokens, with weights from the tokens themselves.

    Parameters
    ----------
    width
        Of the tokens.
    hidden
        Units between a token and its score.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.score = nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return (n, width) of tokens (n, n_tokens, width); 0 where the mask holds nowhere."""
        weights = masked_softmax(self.score(tokens)[..., 0], mask)
        return torch.einsum("nt,ntk->nk", weights, tokens)


@register_reading_model(
    "text_only",
    description="the text and its question without the eyes: equal for all readers of a text",
    citation="Shubi et al. 2024, EMNLP (text-only baseline)",
    kind="network",
    needs=("words",),
)
class TextOnly(ReadingNetwork):
    """A head over vectors of a frozen language model; it sees no eye movement.

    The vector of the text's first token, a weighted mean of the text's tokens and one of the
    question's go through one hidden layer. All readers of a text get the same prediction, so
    whatever it tells apart is told by texts and questions alone.

    Parameters
    ----------
    target, widths
        See `gazeattn.models.reading.base.ReadingNetwork`.
    hidden
        Units of the hidden layer, and of the scores of tokens.
    dropout
        Before and after the hidden layer.
    """

    text_use: ClassVar[str] = "vectors"
    gaze_use: ClassVar[bool] = False

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        hidden: int = 256,
        dropout: float = 0.3,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(
            target, widths, lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs
        )
        self.save_hyperparameters()
        width = vector_width(self.widths)
        self.text, self.question = AttentionPool(width, hidden), AttentionPool(width, hidden)
        self.head = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(3 * width, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, self.target.outputs),
        )

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return no feature."""
        return FeatureChoice(fixation=(), gaze=(), text=())

    def forward(self, batch: ReadingBatch) -> Tensor:
        """Return logits, (batch, outputs)."""
        tokens = token_vectors(batch)
        text = self.text(tokens, (batch.token_part == TEXT) & batch.token_mask)
        question = self.question(tokens, (batch.token_part == QUESTION) & batch.token_mask)
        # dropout is drawn per trial, not per text: trials of one text are samples of their own
        return self.head(torch.cat([first_token(tokens), text, question], -1)[batch.which])

    def predict(self, inputs: ReadingInputs, batch_size: int = 64) -> Array:
        """Return predictions, made once per text: those of its readers are equal to the bit."""
        if inputs.token_of is None:
            raise DataError("the model needs the texts of the trials", hint="encoder=minilm")
        _, first, place = np.unique(inputs.token_of, return_index=True, return_inverse=True)
        out: list[Array] = []
        was = self.training
        self.eval()
        with torch.inference_mode():
            for begin in range(0, len(first), batch_size):
                batch = collate_reading(inputs, first[begin : begin + batch_size]).to(self.device)
                out.append(self.predict_proba(batch).double().cpu().numpy())
        self.train(was)
        if not out:
            return super().predict(inputs, batch_size)
        return np.concatenate(out)[place.reshape(-1)]
