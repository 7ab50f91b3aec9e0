"""RoBERTEye: vectors of words or fixations stand in an encoder's input beside the text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gazeattn.datamodules.reading_batches import ReadingBatch
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.reading._encoder import EncoderNetwork, Head
from gazeattn.models.reading.base import at_fixations
from gazeattn.registry import register_reading_model

ORDERS = ("none", "sinusoid")
_CITATION = (
    "Shubi, Meiri, Hadar & Berzak 2024, Fine-grained prediction of reading comprehension from eye "
    "movements during reading, EMNLP"
)


class RoBERTEye(EncoderNetwork):
    """What both forms share: ``[start ; gaze ; <eye> ; separator ; text]`` through an encoder.

    Each gaze vector goes through linear, ReLU, dropout, linear to the encoder's width, plus the
    mean position embedding of the tokens of its word and a learned type. Off the text, and on
    words without a token, a learned vector stands for the position. The text keeps the positions
    that it has alone; ``<eye>`` (at first a copy of the separator) and the separator share the
    position of the start. Published: `entry_layer` 0, `order` ``"none"``.

    Parameters
    ----------
    target, widths
        See `gazeattn.models.reading.base.ReadingNetwork`.
    encoder, train_layers, encoder_rate
        See `gazeattn.models.reading._encoder.EncoderNetwork`.
    entry_layer
        Gaze joins before this layer; the layers under it see the text alone, once per text where
        they are frozen. Gaze then gets a norm of its own, at first that of the layer below.
    hidden
        Width inside the projection of gaze.
    dropout
        In the projection and the head.
    order
        ``"sinusoid"`` adds the number of the fixation as sines and cosines, with a learned
        weight; for words, whose order is their position, only ``"none"``.
    features
        Names by scope, see `FeatureChoice`; None: all of the form's scopes.
    """

    scopes: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        encoder: str = "minilm",
        train_layers: int = 2,
        entry_layer: int = 0,
        hidden: int = 512,
        dropout: float = 0.1,
        order: str = "none",
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
        if order not in ORDERS:
            raise UnknownNameError("order of fixations", order, ORDERS)
        if order != "none" and "fixation" not in self.scopes:
            raise DataError("words have no order of fixations", expected="none", found=order)
        layers = self.encoder.layers
        if not 0 <= entry_layer < len(layers):
            raise DataError(
                "entry_layer", expected=f"0 to {len(layers) - 1}", found=entry_layer
            )  # fmt: skip
        self.entry_layer, self.order = int(entry_layer), order
        inputs = sum(self.widths.get(k, 0) for k in self.scopes)
        if not inputs:
            raise DataError("no feature of gaze", expected=f"features of {self.scopes}")
        width = self.encoder.width
        self.project = nn.Sequential(
            nn.Linear(inputs, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width)
        )
        embeddings = self.encoder.embeddings
        with torch.no_grad():
            positions = self.encoder.positions(self.encoder.limit)
            kind = self.encoder.first_type()
            separator = embeddings.word_embeddings.weight[self.encoder.end_id]
            marks = torch.stack([separator, separator]) + positions[0]
            spread = positions.std() * math.sqrt(2)
        self.kind = nn.Parameter(kind.clone())
        self.off_text = nn.Parameter(positions.mean(0).clone())
        # <eye> and the separator; both learned, so that late entry can shape them as well
        self.marks = nn.Parameter(marks + kind)
        self.order_weight = nn.Parameter(spread.clone()) if order != "none" else None
        self.norm: nn.Module | None = None
        if entry_layer:
            below = layers[entry_layer - 1].output.LayerNorm
            self.norm = nn.LayerNorm(width, eps=below.eps)
            self.norm.load_state_dict(below.state_dict())
        self.head = Head(width, self.target.outputs, dropout)

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return all features of the form's scopes, or those that the configuration names."""
        none = {} if "fixation" in cls.scopes else {"fixation": ()}
        return FeatureChoice.of({**none, **(config.get("features") or {})})

    def gaze_vectors(self, batch: ReadingBatch) -> tuple[Tensor, Tensor]:
        """Return the vectors of words or fixations, and where they are."""
        raise NotImplementedError

    def _placed(self, batch: ReadingBatch) -> Tensor:
        """Return the position of each gaze vector, (batch, n, width)."""
        raise NotImplementedError

    def _word_positions(self, batch: ReadingBatch) -> tuple[Tensor, Tensor]:
        means, there = self.encoder.word_positions(batch)
        return torch.where(there[..., None], means, self.off_text), there

    def slots(self, batch: ReadingBatch) -> tuple[Tensor, Tensor]:
        """Return the states with which gaze and the two marks join, and their mask."""
        vectors, mask = self.gaze_vectors(batch)
        gaze = self.project(vectors) + self._placed(batch) + self.kind
        if self.order_weight is not None:
            gaze = gaze + self.order_weight * sinusoid(gaze.shape[1], gaze.shape[2], gaze.device)
        n = len(batch)
        states = torch.cat([gaze, self.marks.expand(n, -1, -1)], dim=1)
        states = self.encoder.normed(states) if self.norm is None else self.norm(states)
        return states, torch.cat([mask, mask.new_ones(n, 2)], dim=1)

    def forward(self, batch: ReadingBatch) -> Tensor:
        """Return logits or the scaled value, (batch, outputs)."""
        text = self.encoder.text_states(batch, self.entry_layer)[batch.which]
        states, mask = self.slots(batch)
        # where a slot stands in the tensor means nothing to an encoder: position embeddings say
        joined = torch.cat([text, states], dim=1)
        joined_mask = torch.cat([batch.token_mask[batch.which], mask], dim=1)
        return self.head(self.encoder.summary(joined, joined_mask, self.entry_layer))


@register_reading_model(
    "roberteye_words",
    description="features of every word projected into an encoder's input beside the text",
    citation=_CITATION,
    kind="network",
    needs=("words",),
    aliases=("roberteye_w",),
)
class RoBERTEyeWords(RoBERTEye):
    """RoBERTEye-W: one gaze vector per word, read or not; see `RoBERTEye`."""

    scopes: ClassVar[tuple[str, ...]] = ("gaze", "text")

    def gaze_vectors(self, batch: ReadingBatch) -> tuple[Tensor, Tensor]:
        """Return the features of the words of each trial."""
        return torch.cat([batch.gaze, batch.text], dim=-1), batch.word_mask

    def _placed(self, batch: ReadingBatch) -> Tensor:
        return self._word_positions(batch)[0]


@register_reading_model(
    "roberteye_fixations",
    description="features of every fixation and its word projected into an encoder's input",
    citation=_CITATION,
    kind="network",
    needs=("words",),
    aliases=("roberteye_f",),
)
class RoBERTEyeFixations(RoBERTEye):
    """RoBERTEye-F: one gaze vector per fixation, with the features of its word; see `RoBERTEye`."""

    scopes: ClassVar[tuple[str, ...]] = ("fixation", "gaze", "text")

    def gaze_vectors(self, batch: ReadingBatch) -> tuple[Tensor, Tensor]:
        """Return the features of fixations and of their words, 0 off the text."""
        words = at_fixations(torch.cat([batch.gaze, batch.text], dim=-1), batch)
        return torch.cat([batch.fixations, words], dim=-1), batch.mask

    def _placed(self, batch: ReadingBatch) -> Tensor:
        words, _ = self._word_positions(batch)
        return torch.where((batch.word >= 0)[..., None], at_fixations(words, batch), self.off_text)


def sinusoid(n: int, width: int, device: torch.device | str = "cpu") -> Tensor:
    """Return sines and cosines of the numbers 0 to n - 1, (n, width).

    Waves are from 2 pi to 10 000 * 2 pi long (Vaswani et al. 2017).
    """
    at = torch.arange(n, dtype=torch.float32, device=device)[:, None]
    pairs = torch.arange((width + 1) // 2, dtype=torch.float32, device=device)
    angles = at * torch.exp(-math.log(10000.0) * 2 * pairs / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]
