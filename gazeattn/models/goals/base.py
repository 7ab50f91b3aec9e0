"""What every model does that chooses the question a reader was looking for an answer to."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gazeattn.datamodules.goal_batches import GoalBatch, GoalInputs, collate_goals
from gazeattn.datamodules.reading_features import Array
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.models.network import Network

CITATION = (
    "Hadar, Shubi, Meiri, Heshes & Berzak 2026, Decoding open-ended information seeking goals from "
    "eye movements in reading, ICLR"
)


class GoalSelector(abc.ABC):
    """A model that scores candidate questions; the highest score is its choice.

    Attributes
    ----------
    pairs : bool
        Whether it needs a row per trial and candidate.
    trained : bool
    """

    pairs: ClassVar[bool] = False
    trained: ClassVar[bool] = False

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return the features that the model sees, given its configuration."""
        return FeatureChoice(fixation=("duration",), gaze=(), text=())

    @abc.abstractmethod
    def scores(self, inputs: GoalInputs) -> Array:
        """Return scores, (n, most); NaN beyond a trial's candidates and where undefined.

        The score of a candidate must not depend on its place among the candidates.
        """


class SelectionNetwork(Network, GoalSelector):
    """A network that is trained with a softmax over the candidates of each trial.

    A subclass writes ``forward(batch) -> (batch, most)`` scores, ``-inf`` beyond the candidates.
    """

    trained: ClassVar[bool] = True

    def training_loss(self, batch: GoalBatch) -> dict[str, Tensor]:
        """Return the cross entropy of the asked question among the candidates."""
        return {"loss": F.cross_entropy(self(batch), batch.target)}

    def scores(self, inputs: GoalInputs, batch_size: int = 32) -> Array:
        """Return log probabilities of the candidates."""
        return network_scores(self, inputs, self.pairs, batch_size)


def network_scores(net: Any, inputs: GoalInputs, pairs: bool, batch_size: int = 32) -> Array:
    """Return the log probabilities of the candidates of all trials, NaN beyond them."""
    out = np.full(inputs.there.shape, np.nan)
    order = np.argsort(inputs.lengths, kind="stable")
    was = net.training
    net.eval()
    with torch.inference_mode():
        for begin in range(0, len(order), batch_size):
            rows = order[begin : begin + batch_size]
            batch = collate_goals(inputs, rows, pairs=pairs).to(net.device)
            out[rows] = net(batch).log_softmax(-1).double().cpu().numpy()
    net.train(was)
    return np.where(inputs.there, out, np.nan)
