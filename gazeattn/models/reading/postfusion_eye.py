"""PostFusion-Eye: convolved fixations look at their words, and are pooled or asked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gazeattn.datamodules.reading_batches import ReadingBatch
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.datamodules.reading_texts import QUESTION
from gazeattn.errors import UnknownNameError
from gazeattn.models.reading._text_parts import (
    FixatedWords,
    masked_softmax,
    token_vectors,
    vector_width,
)
from gazeattn.models.reading.base import ReadingNetwork, masked_mean
from gazeattn.registry import register_reading_model

NORMS = ("batch", "layer")


def visible_tokens(batch: ReadingBatch, window: int = 1) -> Tensor:
    """Return which tokens each fixation sees.

    These are the first token of the text, and the tokens of words at most `window` words from the
    fixated one. Fixations off the text see the first token alone, padding sees nothing.

    Returns
    -------
    Tensor of bool, shape (batch, length, n_tokens)
        True: seen.
    """
    token_word = batch.token_word[batch.which][:, None]
    word = batch.word[..., None]
    seen = (token_word >= 0) & (word >= 0) & ((token_word - word).abs() <= window)
    seen[..., :1] = True
    return seen & batch.token_mask[batch.which][:, None] & batch.mask[..., None]


class FixationNorm(nn.Module):
    """A norm over real fixations: padding is in no mean and no variance.

    Parameters
    ----------
    width
        Channels.
    kind : {"batch", "layer"}
        Over the fixations of a batch, with running statistics, or over the channels of each.
    """

    def __init__(self, width: int, kind: str) -> None:
        super().__init__()
        if kind not in NORMS:
            raise UnknownNameError("norm", kind, NORMS)
        self.norm = nn.BatchNorm1d(width) if kind == "batch" else nn.LayerNorm(width)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        """Return normed values (batch, length, width), 0 where `mask` does not hold."""
        rows = values[mask]
        norm = self.norm
        if isinstance(norm, nn.BatchNorm1d) and len(rows) < 2:  # one row has no variance
            mean, variance = norm.running_mean, norm.running_var
            normed = F.batch_norm(rows, mean, variance, norm.weight, norm.bias, eps=norm.eps)
        else:
            normed = norm(rows)
        # not in place: the gradient of the rows needs the tensor that they came from
        return torch.zeros_like(values).masked_scatter(mask[..., None], normed)


@register_reading_model(
    "postfusion_eye",
    description="convolved fixations with cross-attention to their words, pooled or asked",
    citation="Shubi et al. 2024, EMNLP",
    kind="network",
    needs=("words",),
    aliases=("postfusion",),
)
class PostFusionEye(ReadingNetwork):
    """PostFusion-Eye (Shubi et al. 2024) over vectors of a frozen language model.

    Fixations, each with its own features and those of its word, run through two convolutions.
    Each looks with one head at the first token, at its word and at the words next to it. What it
    saw and what it was go together into one vector. Where the text has a question, the mean
    vector of the question attends to these; otherwise they are averaged. Off the text a learned
    vector stands in place of the word's features, and the first token is all that is seen.

    Parameters
    ----------
    target, widths
        See `gazeattn.models.reading.base.ReadingNetwork`.
    channels
        Of the two convolutions.
    fused
        Width of a fixation with what it saw; the last layer before the output has half of it.
    window
        Words to each side that a fixation sees.
    norm : {"batch", "layer"}
        After each convolution; both leave padding out. In training, "batch" depends on the
        company of a trial.
    dropout
        Of vectors, fused fixations and the head.
    """

    text_use: ClassVar[str] = "vectors"

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        channels: list[int] | tuple[int, int] = (256, 512),
        fused: int = 1024,
        window: int = 1,
        norm: str = "batch",
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
        at_word = self.widths["gaze"] + self.widths["text"]
        first, last = (int(c) for c in channels)
        self.window = window
        self.fixated = FixatedWords(at_word)
        sizes = (self.widths["fixation"] + at_word, first, last)
        self.convs = nn.ModuleList(nn.Conv1d(a, b, 3, padding=1) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(FixationNorm(c, norm) for c in (first, last))
        self.drop = nn.Dropout(dropout)
        self.query, self.seen = nn.Linear(last, last), nn.Linear(last, last)
        self.key, self.value = nn.Linear(width, last), nn.Linear(width, last)
        self.fuse = nn.Linear(2 * last, fused)
        self.ask = nn.Sequential(nn.Linear(width, fused), nn.ReLU(), nn.Linear(fused, fused))
        self.fused_key, self.fused_value = nn.Linear(fused, fused), nn.Linear(fused, fused)
        self.head = nn.Sequential(
            nn.Linear(fused, fused // 2),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(fused // 2, self.target.outputs),
        )

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return all features of fixations, of words, and of words in the trial."""
        return FeatureChoice()

    def convolved(self, batch: ReadingBatch) -> Tensor:
        """Return fixations after the convolutions, (batch, length, channels); 0 in padding."""
        at_word = torch.cat([batch.gaze, batch.text], -1)
        values = torch.cat([batch.fixations, self.fixated(at_word, batch)], -1)
        values = values.masked_fill(~batch.mask[..., None], 0)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            # zeros stand beyond the last fixation, in a batch as in a trial on its own
            values = norm(conv(values.transpose(1, 2)).transpose(1, 2), batch.mask).relu()
        return values

    def look(self, fixations: Tensor, batch: ReadingBatch) -> tuple[Tensor, Tensor]:
        """Return the weights of tokens (batch, length, n_tokens), and what fixations saw."""
        tokens = self.drop(token_vectors(batch))
        keys, values = self.key(tokens)[batch.which], self.value(tokens)[batch.which]
        scores = self.query(fixations) @ keys.transpose(1, 2) / math.sqrt(keys.shape[-1])
        weights = masked_softmax(scores, visible_tokens(batch, self.window))
        return weights, self.seen(weights @ values)

    def pooled(self, fused: Tensor, batch: ReadingBatch) -> Tensor:
        """Return what the question finds among fixations, or their mean, (batch, fused)."""
        asked = (batch.token_part == QUESTION) & batch.token_mask
        question = self.ask(masked_mean(token_vectors(batch), asked))[batch.which]
        scores = torch.einsum("blk,bk->bl", self.fused_key(fused), question)
        weights = masked_softmax(scores / math.sqrt(fused.shape[-1]), batch.mask)
        found = torch.einsum("bl,blk->bk", weights, self.fused_value(fused))
        has_question = asked.any(1)[batch.which, None]
        return torch.where(has_question, found, masked_mean(fused, batch.mask))

    def forward(self, batch: ReadingBatch) -> Tensor:
        """Return logits, (batch, outputs)."""
        fixations = self.convolved(batch)
        _, saw = self.look(fixations, batch)
        fused = self.drop(self.fuse(torch.cat([saw, fixations], -1)).relu())
        return self.head(self.pooled(fused, batch))
