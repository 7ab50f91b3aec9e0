"""Our own reading model: fixations with their words, as sequence and set, beside aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gazeattn.datamodules.reading_batches import ReadingBatch
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.models.reading.base import ReadingNetwork, at_fixations, masked_mean
from gazeattn.registry import register_reading_model


@register_reading_model(
    "gaze_set",
    description="fixations with their words as a sequence and as a set, beside aggregates",
    citation="this package",
    kind="network",
    needs=("fixations", "words"),
)
class GazeSet(ReadingNetwork):
    """What a reading was like, from every fixation with the word under it.

    Each fixation is told by its own features, by the measures of its word in this trial and by
    the properties of the word; a fixation off the text has none of the latter, and a channel that
    says so. A small network per fixation is followed by a bidirectional recurrent layer over the
    order of fixations (``sequence``); the trial is the mean, the standard deviation and several
    attention-weighted means over fixations. Aggregates of the trial go through a branch of their
    own, with its own output (``wide``), so that what a linear model finds is not lost.

    Three things work against the few readers of such corpora: in training a random contiguous
    part of each trial is seen (``crop``), features are dropped out, and before training the
    network learns to fill in the durations and steps of hidden fixations (``pretrain``), for which
    no label is needed; only training trials are used.

    Parameters
    ----------
    width
        Numbers per fixation.
    layers
        Of the recurrent part; 0 for none: a set without order.
    heads
        Attention-weighted means.
    dropout
        After each layer; of features half of it.
    crop
        Least share of a trial that is seen in training; 1: all of it.
    pretrain
        Weight of the loss of hidden fixations in the first ``pretrain_epochs`` epochs, in which
        the labels do not count yet.
    hidden
        Share of fixations that are hidden for it.
    aggregates, fixation_branch
        False leaves a branch out, to see what it is worth.
    sets, fixation, gaze, text
        Features, see `gazeattn.datamodules.reading_scaling.FeatureChoice`.
    """

    text_use: ClassVar[str] = "none"

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        width: int = 64,
        layers: int = 1,
        heads: int = 4,
        dropout: float = 0.3,
        crop: float = 0.5,
        pretrain: float = 1.0,
        pretrain_epochs: int = 5,
        hidden: float = 0.15,
        aggregates: bool = True,
        fixation_branch: bool = True,
        sets: Sequence[str] = (),
        fixation: Sequence[str] | None = None,
        gaze: Sequence[str] | None = None,
        text: Sequence[str] | None = None,
        lr: float = 1e-3,
        weight_decay: float = 0.05,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(
            target, widths, lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs
        )
        self.save_hyperparameters()
        self.crop, self.hidden = float(crop), float(hidden)
        self.pretrain, self.pretrain_epochs = float(pretrain), int(pretrain_epochs)
        self.dropout = dropout
        inputs = self.widths["fixation"] + self.widths["gaze"] + self.widths["text"] + 1
        self.enter = nn.Sequential(
            nn.Linear(inputs, width), nn.GELU(), nn.LayerNorm(width), nn.Dropout(dropout),
            nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width),
        )  # fmt: skip
        self.unknown = nn.Parameter(torch.zeros(width))
        self.sequence = (
            nn.GRU(width, width // 2, layers, batch_first=True, bidirectional=True)
            if layers and fixation_branch
            else None
        )
        self.attention = nn.Linear(width, heads)
        self.fill = nn.Linear(width, min(self.widths["fixation"], FILLED))
        outputs = self.target.outputs
        deep = width * (2 + heads) if fixation_branch else 0
        self.fixation_branch = bool(fixation_branch)
        numbers = self.widths["trial"] if aggregates else 0
        self.use_numbers = numbers > 0
        self.wide = nn.Linear(numbers, outputs) if numbers else None
        self.numbers = (
            nn.Sequential(nn.Linear(numbers, width), nn.GELU(), nn.Dropout(dropout))
            if numbers
            else None
        )
        self.head = nn.Sequential(
            nn.LayerNorm(deep + (width if numbers else 0)), nn.Dropout(dropout),
            nn.Linear(deep + (width if numbers else 0), width), nn.GELU(), nn.Dropout(dropout),
            nn.Linear(width, outputs),
        )  # fmt: skip

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return the features that are named, all where none is."""
        named = {k: config.get(k) for k in ("fixation", "gaze", "text")}
        return FeatureChoice.of({**named, "sets": list(config.get("sets") or ())})

    def encode(self, batch: ReadingBatch, hide: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return a vector per fixation, and which fixations are seen.

        Parameters
        ----------
        hide : Tensor of bool, shape (batch, length), optional
            Fixations whose content is replaced by a learned vector.
        """
        mask = batch.mask
        if self.training and self.crop < 1:
            mask = mask & _part(mask, self.crop)
        words = torch.cat([batch.gaze, batch.text], -1)
        off = (batch.word < 0).to(words.dtype)[..., None]
        x = torch.cat([batch.fixations, at_fixations(words, batch), off], -1)
        x = x.masked_fill(~mask[..., None], 0)  # whatever stands in padding
        x = F.dropout(x, self.dropout / 2, self.training)
        x = self.enter(x)
        if hide is not None:
            x = torch.where(hide[..., None], self.unknown.expand_as(x), x)
        if self.sequence is not None:
            x = x + self._in_order(x, mask)
        return x, mask

    def _in_order(self, x: Tensor, mask: Tensor) -> Tensor:
        """Run the recurrent layer over the fixations that are seen, zeros elsewhere."""
        assert self.sequence is not None
        # what is seen is contiguous: moved to the front, so that padding is behind it
        first = mask.int().argmax(1)
        length = mask.sum(1).clamp_min(1)
        at = torch.arange(x.shape[1], device=x.device)[None] + first[:, None]
        moved = x.gather(1, at.clamp_max(x.shape[1] - 1)[..., None].expand_as(x))
        packed = nn.utils.rnn.pack_padded_sequence(
            moved, length.cpu(), batch_first=True, enforce_sorted=False
        )
        out, _ = nn.utils.rnn.pad_packed_sequence(
            self.sequence(packed)[0], batch_first=True, total_length=x.shape[1]
        )
        back = torch.arange(x.shape[1], device=x.device)[None] - first[:, None]
        out = out.gather(1, back.clamp_min(0)[..., None].expand_as(out))
        return out * mask[..., None]

    def forward(self, batch: ReadingBatch) -> Tensor:
        """Return logits or the scaled value, (batch, outputs)."""
        parts = []
        if self.fixation_branch:
            x, mask = self.encode(batch)
            mean = masked_mean(x, mask)
            spread = (masked_mean((x - mean[:, None]) ** 2, mask) + 1e-6).sqrt()
            weights = self.attention(x).masked_fill(~mask[..., None], -torch.inf).softmax(1)
            pooled = torch.einsum("blh,blw->bhw", weights, x).flatten(1)
            parts += [mean, spread, pooled]
        out = 0.0
        if self.numbers is not None and self.wide is not None:
            numbers = F.dropout(batch.numbers, self.dropout, self.training)
            parts.append(self.numbers(numbers))
            out = self.wide(numbers)
        return self.head(torch.cat(parts, -1)) + out

    def training_loss(self, batch: ReadingBatch) -> dict[str, Tensor]:
        """Return the loss of the target, in the first epochs that of hidden fixations instead."""
        early = self.training and self.pretrain > 0 and self.current_epoch < self.pretrain_epochs
        if not early or not self.fixation_branch:
            return super().training_loss(batch)
        hide = (torch.rand(batch.mask.shape, device=batch.mask.device) < self.hidden) & batch.mask
        if not bool(hide.any()):
            return {}
        x, mask = self.encode(batch, hide)
        hide = hide & mask
        truth = batch.fixations[..., : self.fill.out_features]
        loss = F.smooth_l1_loss(self.fill(x)[hide], truth[hide])
        return {"loss": self.pretrain * loss, "filled": loss.detach()} if bool(hide.any()) else {}


FILLED = 16
"""Features of a hidden fixation that are filled in, from the first on."""


def _part(mask: Tensor, least: float) -> Tensor:
    """Return a random contiguous part of each trial, at least this share of its fixations."""
    length = mask.sum(1)
    share = least + (1 - least) * torch.rand(len(mask), device=mask.device)
    size = (share * length).ceil().clamp_min(1)
    first = (torch.rand(len(mask), device=mask.device) * (length - size + 1)).floor()
    at = torch.arange(mask.shape[1], device=mask.device)[None]
    return (at >= first[:, None]) & (at < (first + size)[:, None])
