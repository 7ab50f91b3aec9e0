"""Training of networks of joint attention: the same callbacks as for scanpaths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from gazeattn import registry
from gazeattn.datamodules.joint_attention import JointScenes
from gazeattn.datamodules.joint_batches import JointDataModule
from gazeattn.errors import DataError
from gazeattn.experiments.training import BEST, Training
from gazeattn.experiments.training import train as train_network
from gazeattn.models.joint.joint_attention import JointAttention
from gazeattn.storage import write_json

OWN = ("name", "training", "both")
"""Keys of the configuration that are no arguments of the model."""


def train_joint(
    train: JointScenes,
    valid: JointScenes,
    settings: Mapping[str, Any],
    folder: Path,
    *,
    seed: int = 0,
    accelerator: str = "auto",
) -> JointAttention:
    """Return a trained model: the people branch first, then both where scenes have features.

    Parameters
    ----------
    train, valid
    settings
        Of `gazeattn.experiments.joint_attention.joint_settings`.
    folder
        With a subfolder for each stage: checkpoints of the last and the best epoch, and curves.
        A finished stage is not trained again, an unfinished one is gone on with.
    seed
        Of the weights, of the order of batches and of the points of the loss.
    accelerator
        Of Lightning.
    """
    kind = registry.joint_models.get(str(settings["name"])).obj
    arguments = {k: v for k, v in settings.items() if k not in OWN}
    arguments["actions"] = list(train.actions)
    channels = next((int(f.shape[0]) for f in train.features.values()), 0)
    state = torch.get_rng_state()
    try:
        torch.manual_seed(seed)
        model = kind(**arguments, channels=channels, seed=seed)
    except TypeError as error:
        raise DataError(
            f"the configuration of {settings['name']} does not fit its model", found=str(error)
        ) from None
    finally:
        torch.set_rng_state(state)
    model = _stage(model, "people", train, valid, settings["training"], folder, seed, accelerator)
    if channels:
        model = _stage(model, "both", train, valid, settings["both"], folder, seed, accelerator)
    return model.eval()


def _stage(
    model: JointAttention, stage: str, train: JointScenes, valid: JointScenes,
    options: Mapping[str, Any], folder: Path, seed: int, accelerator: str,
) -> JointAttention:  # fmt: skip
    """Return the model with the weights of the best epoch of a stage."""
    done = folder / stage / "trained.json"
    checkpoints = folder / stage / "checkpoints"
    if not done.exists():
        training = Training.of({k: v for k, v in options.items() if k != "lr"})
        model.set_stage(stage, options.get("lr"))
        data = JointDataModule(train, valid, batch_size=training.batch_size, seed=seed)
        found = train_network(
            model, data, folder / stage, training, seed=seed, accelerator=accelerator
        )
        write_json(done, {"epochs": found.epochs})
    return type(model).load_from_checkpoint(
        checkpoints / BEST, map_location="cpu", weights_only=True
    )
