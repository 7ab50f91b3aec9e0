"""A recurrent network that reads text, question and fixations, and scores the question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gazeattn.datamodules.goal_batches import GoalBatch
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.errors import UnknownNameError
from gazeattn.models.goals.base import CITATION, SelectionNetwork
from gazeattn.models.reading._text_parts import FixatedWords, run_recurrent, vector_width
from gazeattn.models.reading.base import word_vectors
from gazeattn.registry import register_goal_model

FIXATION = (
    "duration",
    "x",
    "next_step",
    "previous_step",
    "next_distance",
    "previous_distance",
    "next_angle",
    "previous_angle",
    "saccade_duration",
)
GAZE = ("first_fixation_duration", "total_reading_time")
ORDERS = ("fixations", "words")


@register_goal_model(
    "haller_selection",
    description="text, question and words in fixation order through a BiLSTM, a score each",
    citation=f"Haller et al. 2022, TSAR; {CITATION}",
    task="selection",
    kind="model",
    control="haller_selection_text",
)
class HallerSelection(SelectionNetwork):
    """``[project CLS(text); project question; fixations]`` -> BiLSTM -> one score per candidate.

    A step of a fixation is the vector of its word (a learned one off the text), two measures of
    the word and nine features of the fixation. Every candidate has a sequence of its own with
    shared weights, so that their order cannot matter.

    Parameters
    ----------
    widths
        Number of columns: ``fixation``, ``gaze``, ``vectors``.
    hidden
        Units of each direction; 10, 40, 70 or 140 in the paper.
    reduced
        Width to which vectors of words, text and question are projected; 0: as they are.
    dropout
        Of vectors and of the last state.
    match
        The cosine of the question with the word stands beside the features of each step. Not
        published; from a few hundred trials the network does not learn to compare by itself.
    order
        ``"fixations"``, or ``"words"``: the text-only control, each word once in reading order
        without any number of the reader.
    lr, weight_decay, warmup_epochs
        See `gazeattn.models.network.Network`.
    """

    sequence: ClassVar[str] = "fixations"

    def __init__(
        self,
        widths: Mapping[str, int],
        *,
        hidden: int = 40,
        reduced: int = 32,
        dropout: float = 0.1,
        match: bool = True,
        order: str | None = None,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(lr, weight_decay, warmup_epochs)
        self.save_hyperparameters()
        self.order = self.sequence if order is None else order
        if self.order not in ORDERS:
            raise UnknownNameError("order of steps", self.order, ORDERS)
        width, self.match = vector_width(widths), bool(match)
        measures = int(widths["gaze"]) + int(widths["fixation"])
        self.measures = measures if self.order == "fixations" else 0
        self.reduce: nn.Module = nn.Linear(width, reduced) if reduced else nn.Identity()
        steps = (reduced or width) + self.measures + self.match
        self.fixated = FixatedWords(width)
        self.text, self.question = nn.Linear(width, steps), nn.Linear(width, steps)
        self.drop = nn.Dropout(dropout)
        self.lstm = nn.LSTM(steps, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, 1)

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return nine features of fixations and two of words."""
        return FeatureChoice(fixation=FIXATION, gaze=GAZE, text=())

    def forward(self, batch: GoalBatch) -> Tensor:
        """Return scores of the candidates, (batch, most); -inf beyond them."""
        reading = batch.reading
        words, first = word_vectors(reading)
        if self.order == "words":
            at, mask, numbers = words, reading.word_mask, words[..., :0]
        else:
            at, mask = self.fixated(words, reading), reading.mask
            on = (reading.word >= 0)[..., None]
            rows = reading.word.clamp_min(0)[..., None].expand(-1, -1, reading.gaze.shape[-1])
            gaze = reading.gaze.gather(1, rows) if reading.gaze.shape[1] else rows.float()
            numbers = torch.cat([gaze * on, reading.fixations], -1)
        row, column = batch.there.nonzero(as_tuple=True)
        asked = batch.questions[row, column]
        parts = [self.reduce(self.drop(at))[row], numbers[row]]
        if self.match:
            alike = F.normalize(at, dim=-1)[row] @ F.normalize(asked, dim=-1)[..., None]
            parts.append(alike)
        heads = torch.stack([self.text(self.drop(first))[row], self.question(self.drop(asked))], 1)
        steps = torch.cat([heads, torch.cat(parts, -1)], 1)
        _, last = run_recurrent(self.lstm, steps, 2 + mask.sum(1)[row])
        out = torch.full(batch.there.shape, -torch.inf, dtype=last.dtype, device=last.device)
        return out.index_put((row, column), self.head(self.drop(last))[:, 0])


@register_goal_model(
    "haller_selection_text",
    description="text-only control: the same network over the words in reading order",
    citation=f"Haller et al. 2022, TSAR; {CITATION}",
    task="selection",
    kind="control",
)
class HallerSelectionText(HallerSelection):
    """The text-only control of `HallerSelection`: each word once, no number of the reader."""

    sequence: ClassVar[str] = "words"
