"""RoBERTEye-Fixations once for each candidate, the question behind the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from gazeattn.datamodules.goal_batches import GoalBatch, GoalInputs
from gazeattn.datamodules.reading_features import Array
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.models.goals.base import CITATION, GoalSelector, network_scores
from gazeattn.models.reading.base import Target
from gazeattn.models.reading.roberteye import RoBERTEyeFixations
from gazeattn.registry import register_goal_model


@register_goal_model(
    "roberteye_selection",
    description="an encoder over text, question and fixations, once for each candidate",
    citation=CITATION,
    task="selection",
    kind="model",
    control="roberteye_selection_text",
)
class RoberteyeSelection(RoBERTEyeFixations, GoalSelector):  # type: ignore[misc]
    """`RoBERTEyeFixations` with one output, and a softmax over the candidates of a trial.

    Parameters
    ----------
    widths
        Number of columns of each scope.
    fixations
        False: the text-only control, the encoder over text and question alone.
    arguments
        See `gazeattn.models.reading.roberteye.RoBERTEye`.
    """

    pairs: ClassVar[bool] = True
    trained: ClassVar[bool] = True
    sees_gaze: ClassVar[bool] = True

    def __init__(self, widths: Mapping[str, int], **arguments: Any) -> None:
        super().__init__(Target("regression", 1).plain(), widths, **arguments)

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return all features of fixations, of words as read, and of words."""
        return FeatureChoice()

    def gaze_vectors(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Return the vectors of the fixations; none for the text-only control."""
        vectors, mask = super().gaze_vectors(batch)
        return vectors, mask if self.sees_gaze else torch.zeros_like(mask)

    def forward(self, batch: GoalBatch) -> Tensor:  # type: ignore[override]
        """Return scores of the candidates, (batch, most); -inf beyond them."""
        found = super().forward(batch.reading)[:, 0]
        out = torch.full(batch.there.shape, -torch.inf, dtype=found.dtype, device=found.device)
        return out.masked_scatter(batch.there, found)

    def training_loss(self, batch: GoalBatch) -> dict[str, Tensor]:  # type: ignore[override]
        """Return the cross entropy of the asked question among the candidates."""
        return {"loss": F.cross_entropy(self(batch), batch.target)}

    def scores(self, inputs: GoalInputs, batch_size: int = 16) -> Array:
        """Return log probabilities of the candidates."""
        return network_scores(self, inputs, True, batch_size)


@register_goal_model(
    "roberteye_selection_text",
    description="text-only control: the same encoder without the fixations",
    citation=CITATION,
    task="selection",
    kind="control",
)
class RoberteyeSelectionText(RoberteyeSelection):
    """The text-only control of `RoberteyeSelection`."""

    sees_gaze: ClassVar[bool] = False
