"""MAG-Eye: features of words shift the states of their tokens inside an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gazeattn.datamodules.reading_batches import ReadingBatch
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.errors import DataError
from gazeattn.models.reading._encoder import EncoderNetwork, Head
from gazeattn.registry import register_reading_model


class AdaptationGate(nn.Module):
    """Multimodal adaptation gate (Rahman et al. 2020), as Shubi et al. 2024 use it.

    ``g = ReLU(W_g [Z ; E] + b_g)``, ``H = g * (W_e E) + b_h``,
    ``alpha = min(beta ||Z|| / ||H||, 1)``, ``Z' = dropout(Z + alpha H)``.

    Parameters
    ----------
    width, features
        Of the states Z and of the features E.
    beta
        Largest length of the shift over that of the state.
    dropout
    """

    def __init__(self, width: int, features: int, beta: float, dropout: float) -> None:
        super().__init__()
        if not beta > 0:
            raise DataError("beta of the gate", expected="above 0", found=beta)
        self.gate = nn.Linear(width + features, width)
        self.shift = nn.Linear(features, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(width))
        self.beta, self.dropout = float(beta), nn.Dropout(dropout)

    def forward(self, states: Tensor, features: Tensor, there: Tensor) -> Tensor:
        """Return shifted states; where nothing is `there`, the states as they are.

        Parameters
        ----------
        states : Tensor, shape (batch, n, width)
        features : Tensor, shape (batch, n, k)
        there : Tensor of bool, shape (batch, n)
            Tokens of words: a special token or one of a question has no features.
        """
        gate = self.gate(torch.cat([states, features], dim=-1)).relu()
        shift = gate * self.shift(features) + self.bias
        # the square root has no finite gradient at 0
        length = shift.square().sum(-1, keepdim=True).clamp_min(1e-12).sqrt()
        alpha = (self.beta * states.norm(dim=-1, keepdim=True) / length).clamp_max(1.0)
        return torch.where(there[..., None], self.dropout(states + alpha * shift), states)


@register_reading_model(
    "mag_eye",
    description="features of words shift the states of their tokens at one layer of an encoder",
    citation=(
        "Shubi, Meiri, Hadar & Berzak 2024, Fine-grained prediction of reading comprehension from "
        "eye movements during reading, EMNLP"
    ),
    kind="network",
    needs=("words",),
    aliases=(),
)
class MAGEye(EncoderNetwork):
    """An encoder of the text whose tokens are shifted by their words' features at one layer.

    The features of a word go to each of its tokens. Fixations off the text and words without a
    token are not seen; of a text without words nothing of the eyes is.

    Parameters
    ----------
    target, widths
        See `gazeattn.models.reading.base.ReadingNetwork`.
    encoder, train_layers, encoder_rate
        See `gazeattn.models.reading._encoder.EncoderNetwork`.
    layer
        The gate stands before this layer; the published search has the first, a middle and the
        last one.
    beta
        See `AdaptationGate`. With the published 1e-3 a state moves by at most a thousandth of its
        length: almost the encoder of the text alone.
    gate_dropout, dropout
        Behind the gate, and in the head.
    features
        Names by scope, see `FeatureChoice`; None: all of words.
    """

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        encoder: str = "minilm",
        train_layers: int = 2,
        layer: int = 0,
        beta: float = 1e-3,
        gate_dropout: float = 0.5,
        dropout: float = 0.1,
        features: Mapping[str, Any] | None = None,
        encoder_rate: float = 1.0,
        lr: float = 3e-5,
        weight_decay: float = 0.1,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(
            target,
            widths,
            encoder=encoder,
            train_layers=train_layers,
            encoder_rate=encoder_rate,
            lr=lr,
            weight_decay=weight_decay,
            warmup_epochs=warmup_epochs,
        )
        self.save_hyperparameters()
        layers = len(self.encoder.layers)
        if not 0 <= layer < layers:
            raise DataError("layer of the gate", expected=f"0 to {layers - 1}", found=layer)
        inputs = self.widths.get("gaze", 0) + self.widths.get("text", 0)
        if not inputs:
            raise DataError("no feature of words", expected="features of gaze or text")
        self.layer = int(layer)
        self.gate = AdaptationGate(self.encoder.width, inputs, beta, gate_dropout)
        self.head = Head(self.encoder.width, self.target.outputs, dropout)

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return all features of words, or those that the configuration names."""
        return FeatureChoice.of({"fixation": (), **(config.get("features") or {})})

    def forward(self, batch: ReadingBatch) -> Tensor:
        """Return logits or the scaled value, (batch, outputs)."""
        states = self.encoder.text_states(batch, self.layer)[batch.which]
        word = batch.token_word[batch.which]
        words = torch.cat([batch.gaze, batch.text], dim=-1)
        there = word >= 0
        if words.shape[1]:
            at = word.clamp_min(0)[..., None].expand(-1, -1, words.shape[2])
            features = words.gather(1, at) * there[..., None]
            states = self.gate(states, features, there)
        mask = batch.token_mask[batch.which]
        return self.head(self.encoder.summary(states, mask, self.layer))
