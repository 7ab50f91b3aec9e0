"""Training a network: reproducible, resumable, with the best epoch kept."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint

from gazeattn.errors import DataError, GazeattnError, UnknownNameError
from gazeattn.storage import atomic_path, write_text

log = logging.getLogger(__name__)
BEST, LAST = "best.ckpt", "last.ckpt"
CURVES = "curves.csv"


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    Attributes
    ----------
    max_epochs : int
    batch_size : int
        Scanpaths or trials, or stimuli for models that take whole stimuli.
    patience : int
        Epochs without a better validation loss before training ends.
    gradient_clip : float
        Largest norm of the gradient; 0 for none.
    nonfinite : {"stop", "skip"}
        What a loss that is not finite does.
    """

    max_epochs: int = 50
    batch_size: int = 128
    patience: int = 10
    gradient_clip: float = 1.0
    nonfinite: str = "stop"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Training:
        """Return settings from a mapping, with defaults for what it lacks."""
        known = [f.name for f in fields(cls)]
        for name in options:
            if name not in known:
                raise UnknownNameError("training option", name, known)
        made = cls(**options)
        for name, least in (("max_epochs", 1), ("batch_size", 1), ("patience", 1)):
            if getattr(made, name) < least:
                raise DataError(
                    f"training.{name} is too small", expected=f"at least {least}",
                    found=getattr(made, name),
                )  # fmt: skip
        if made.nonfinite not in ("stop", "skip"):
            raise UnknownNameError("rule for losses", made.nonfinite, ("stop", "skip"))
        return made


class _Reproducible(pl.Callback):
    """Starts every batch from a state of chance that depends on seed, epoch and batch alone.

    Whatever else draws numbers, such as the start of a data loader, does so in another order in a
    resumed training; after this it no longer matters.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Seed the batch, so that 2 + 2 epochs equal 4 in one go."""
        words = np.random.SeedSequence([self.seed, trainer.current_epoch, batch_idx])
        torch.manual_seed(int(words.generate_state(1, np.uint32)[0]))


class _Curves(pl.Callback):
    """Writes the losses of each finished epoch, and fails where nothing was learned from."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add a row, replacing what an interrupted run wrote of the same epoch."""
        values = {k: float(v) for k, v in trainer.callback_metrics.items()}
        batches = trainer.num_training_batches
        if values.get("train/skipped", 0) >= batches:
            raise GazeattnError(
                f"every one of the {int(batches)} batches of epoch {trainer.current_epoch} was "
                "skipped: there was nothing to learn from"
            )
        row = pd.DataFrame([{"epoch": trainer.current_epoch, **values}])
        if self.path.exists():
            before = pd.read_csv(self.path)
            row = pd.concat([before[before["epoch"] < trainer.current_epoch], row])
        with atomic_path(self.path) as path:
            row.to_csv(path, index=False)


class _Bar(pl.Callback):
    """One line of progress per epoch on a terminal, nothing elsewhere."""

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Say how far training is."""
        values = trainer.callback_metrics
        text = (
            f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}"
            f"  train {float(values.get('train/loss', float('nan'))):.4f}"
            f"  val {float(values.get('val/loss', float('nan'))):.4f}"
        )
        log.info("%s", text)
        if sys.stderr.isatty():
            print(f"\r{text}   ", end="", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Trained:
    """What a training left.

    Attributes
    ----------
    best : Path
        Checkpoint with the lowest validation loss.
    curves : DataFrame
        One row per epoch: epoch, train/loss, val/loss and the other parts.
    epochs : int
    """

    best: Path
    curves: pd.DataFrame

    @property
    def epochs(self) -> int:
        """Epochs that were trained."""
        return len(self.curves)


def train(
    model: pl.LightningModule,
    data: pl.LightningDataModule,
    folder: Path,
    settings: Training,
    *,
    seed: int = 0,
    logger: Any = False,
    accelerator: str = "auto",
) -> Trained:
    """Train a network, or go on with what the folder holds.

    Parameters
    ----------
    model
        Built, with its statistics fitted on the training part.
    data
        Batches of the training and validation parts, the former in an order that depends on the
        epoch of its trainer and on `seed` alone.
    folder
        ``checkpoints/last.ckpt`` is written after every epoch and ``checkpoints/best.ckpt`` when
        the validation loss falls. A folder with an unfinished training is gone on with; the
        result is that of a training that never stopped.
    settings
    seed
        Of the order of batches and of all chance in training. The initial weights come from
        before.
    logger
        Of Lightning.

    Raises
    ------
    NonFiniteLossError
        A loss is not finite; the message names the trials.
    GazeattnError
        Every batch was skipped.
    """
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    model.nonfinite = settings.nonfinite  # type: ignore[assignment]
    last = checkpoints / LAST
    best = ModelCheckpoint(
        dirpath=checkpoints,
        filename=Path(BEST).stem,
        monitor="val/loss",
        save_on_train_epoch_end=True,
        enable_version_counter=False,
    )
    # of its own: `save_last` writes only after epochs that are among the best
    every = ModelCheckpoint(
        dirpath=checkpoints,
        filename=Path(LAST).stem,
        save_on_train_epoch_end=True,
        enable_version_counter=False,
    )
    stop = EarlyStopping("val/loss", patience=settings.patience, check_on_train_epoch_end=True)
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        # its advice on workers and logging steps is of no use here; the features are in memory
        warnings.filterwarnings("ignore", module=r"pytorch_lightning.*")
        warnings.filterwarnings("ignore", message=r".*(num_workers|isinstance\(treespec).*")
        trainer = pl.Trainer(
            accelerator=accelerator,
            devices=1,
            max_epochs=settings.max_epochs,
            gradient_clip_val=settings.gradient_clip or None,
            callbacks=[_Reproducible(seed), stop, _Curves(folder / CURVES), _Bar(), best, every],
            logger=logger,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
            num_sanity_val_steps=0,
            reload_dataloaders_every_n_epochs=1,
            log_every_n_steps=1,
        )
        resume = str(last.resolve()) if last.exists() else None
        if not _ended(_agree(folder / CURVES, last), settings.patience):
            trainer.fit(model, datamodule=data, ckpt_path=resume, weights_only=True)
    if trainer.interrupted:
        raise KeyboardInterrupt
    curves = pd.read_csv(folder / CURVES)
    return Trained(checkpoints / BEST, curves)


def _agree(curves: Path, last: Path) -> dict[str, Any]:
    """Cut the curves to the epochs that the last checkpoint has seen, and return its content.

    Curves are written before checkpoints, so that a training which is stopped in between lacks
    none; the epoch that no checkpoint holds is trained once more.
    """
    content: dict[str, Any] = {}
    if last.exists():
        try:
            content = torch.load(last, map_location="cpu", weights_only=True)
        except Exception as error:  # the reader of pickles raises whatever it stumbles over
            raise DataError(
                "the checkpoint of the unfinished training cannot be read", source=last,
                hint="without this file training begins anew",
            ) from error  # fmt: skip
    if curves.exists():
        epochs = pd.read_csv(curves)["epoch"]
        known = int((epochs <= content.get("epoch", -1)).sum())
        if not known:
            curves.unlink()
        elif known < len(epochs):  # rows as they stand, so that no digit changes
            rows = curves.read_text(encoding="utf-8").splitlines(keepends=True)
            write_text(curves, "".join(rows[: known + 1]))
    return content


def _ended(content: Mapping[str, Any], patience: int) -> bool:
    """Whether a checkpoint is that of a training which lost its patience; it is not gone on with.

    The trainer forgets why it stopped and would train one more epoch.
    """
    states = content.get("callbacks", {}).items()
    waited = [s["wait_count"] for name, s in states if str(name).startswith("EarlyStopping")]
    return any(w >= patience for w in waited)
