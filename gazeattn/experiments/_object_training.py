"""Training of models over sequences of objects: the same callbacks as for scanpaths."""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd
import pytorch_lightning as pl
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint

from gazeattn.datamodules.objects import ObjectDataModule, ObjectScanpaths
from gazeattn.experiments.training import (
    BEST,
    CURVES,
    LAST,
    Trained,
    Training,
    _Bar,
    _Curves,
    _Reproducible,
)
from gazeattn.models.scanpath.base import NetworkModel


def train_objects(
    model: NetworkModel,
    train: ObjectScanpaths,
    valid: ObjectScanpaths,
    folder: Path,
    settings: Training,
    *,
    seed: int = 0,
    accelerator: str = "auto",
) -> Trained:
    """Train a network on sequences of objects, or go on with what the folder holds.

    As `gazeattn.experiments.training.train`, with batches of objects in place of positions.
    """
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    model.nonfinite = settings.nonfinite
    last = checkpoints / LAST
    best = ModelCheckpoint(
        dirpath=checkpoints,
        filename=Path(BEST).stem,
        monitor="val/loss",
        save_last=True,
        save_on_train_epoch_end=True,
        enable_version_counter=False,
    )
    stop = EarlyStopping("val/loss", patience=settings.patience, check_on_train_epoch_end=True)
    data = ObjectDataModule(train, valid, batch_size=settings.batch_size, seed=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"pytorch_lightning.*")
        warnings.filterwarnings("ignore", message=r".*(num_workers|isinstance\(treespec).*")
        trainer = pl.Trainer(
            accelerator=accelerator,
            devices=1,
            max_epochs=settings.max_epochs,
            gradient_clip_val=settings.gradient_clip or None,
            callbacks=[_Reproducible(seed), stop, _Curves(folder / CURVES), _Bar(), best],
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
            num_sanity_val_steps=0,
            reload_dataloaders_every_n_epochs=1,
            log_every_n_steps=1,
        )
        resume = str(last.resolve()) if last.exists() else None
        trainer.fit(model, datamodule=data, ckpt_path=resume, weights_only=True)
    if trainer.interrupted:
        raise KeyboardInterrupt
    return Trained(checkpoints / BEST, pd.read_csv(folder / CURVES))
