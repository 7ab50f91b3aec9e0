"""The training loop that all networks share, whatever their batches hold."""

from __future__ import annotations

import abc
import logging
import math
from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from gazeattn.errors import GazeattnError

log = logging.getLogger(__name__)


class NonFiniteLossError(GazeattnError, FloatingPointError):
    """A loss that is infinite or not a number; the message names the trials of the batch."""


def check_finite(parts: dict[str, Tensor], trials: Sequence[str]) -> None:
    """Raise `NonFiniteLossError` with the trials of the batch where a part is not finite."""
    for name, value in parts.items():
        if not bool(torch.isfinite(value.detach()).all()):
            shown = ", ".join(trials[:5]) + (f" and {len(trials) - 5} more" * (len(trials) > 5))
            raise NonFiniteLossError(
                f"{name} is {float(value.detach().mean())} in the batch with trials {shown}"
            )


class Network(pl.LightningModule):
    """A model that learns by gradients from batches that name their trials.

    A subclass writes `training_loss`, and `batch_weight` where losses are means over something.

    Parameters
    ----------
    lr, weight_decay
        Of AdamW.
    warmup_epochs
        Epochs of linear increase of the learning rate, before the cosine decrease over the rest.
    """

    nonfinite: str = "stop"
    """What a loss that is not finite does: ``"stop"`` the training, or ``"skip"`` the batch."""

    def __init__(
        self, lr: float = 1e-3, weight_decay: float = 0.01, warmup_epochs: float = 0.0
    ) -> None:
        super().__init__()
        self.lr, self.weight_decay, self.warmup_epochs = lr, weight_decay, warmup_epochs

    @abc.abstractmethod
    def training_loss(self, batch: Any) -> dict[str, Tensor]:
        """Return ``loss`` (a mean, for the gradient) and its named parts.

        Every value is a scalar tensor. A batch from which nothing can be learned returns an empty
        mapping; it counts as skipped, not as a loss of 0.
        """

    def batch_weight(self, batch: Any) -> int:
        """Return what the loss of a batch is the mean of; epochs are weighted by it."""
        return len(batch.trial)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:
        """Return the loss of a batch, or None where there is nothing to learn from."""
        return self._step(batch, "train")

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Log the loss of a batch."""
        self._step(batch, "val")

    def _step(self, batch: Any, part: str) -> Tensor | None:
        found = self.training_loss(batch)
        if found and part == "train" and self.nonfinite == "skip":
            try:
                check_finite(found, batch.trial)
            except NonFiniteLossError as error:
                log.warning("skipped: %s", error)
                found = {}
        skipped = float(not found)
        size = len(batch.trial)
        epoch: dict[str, Any] = {"on_epoch": True, "on_step": False}
        self.log(f"{part}/skipped", skipped, reduce_fx="sum", batch_size=size, **epoch)
        if not found:
            return None
        check_finite(found, batch.trial)
        weight = self.batch_weight(batch)
        for name, value in found.items():
            self.log(f"{part}/{name}", value.detach(), batch_size=weight, **epoch)
        return found["loss"]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW over what is trained."""
        parameters = [p for p in self.parameters() if p.requires_grad]
        return torch.optim.AdamW(parameters, lr=self.lr, weight_decay=self.weight_decay)

    def on_train_epoch_start(self) -> None:
        """Set the learning rate of the epoch: linear warm-up, then cosine decrease.

        It depends on the number of the epoch alone, so that a resumed training goes on as if it
        had not stopped.
        """
        epoch, epochs = self.current_epoch, max(1, int(self.trainer.max_epochs or 1))
        if epoch < self.warmup_epochs:
            factor = (epoch + 1) / (self.warmup_epochs + 1)
        else:
            done = (epoch - self.warmup_epochs) / max(1.0, epochs - self.warmup_epochs)
            factor = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
        for optimizer in self.trainer.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.lr * factor
