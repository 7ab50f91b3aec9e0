"""From a configuration and a fold to a fitted reading model, its predictions, and back."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from omegaconf import OmegaConf

from gazeattn import registry
from gazeattn.datamodules.reading import ReadingTrials
from gazeattn.datamodules.reading_batches import ReadingDataModule, ReadingInputs, reading_inputs
from gazeattn.datamodules.reading_scaling import FittedFeatures
from gazeattn.datamodules.reading_tasks import ITEM, ReadingTask
from gazeattn.datamodules.reading_texts import TextEncoder
from gazeattn.datasets.splits import Split
from gazeattn.errors import DataError, GazeattnError, UnknownNameError
from gazeattn.experiments.building import training_of, write_run
from gazeattn.experiments.reading_data import TaskData
from gazeattn.experiments.training import BEST, train
from gazeattn.losses import LossLog
from gazeattn.models.reading._encoder import without_tokens
from gazeattn.models.reading.base import ReadingEstimator, ReadingModel, ReadingNetwork, Target
from gazeattn.storage import (
    read_json,
    read_parquet,
    rooted,
    write_json,
    write_parquet,
    write_text,
)

log = logging.getLogger(__name__)
OWN = ("name", "training", "sizes", "limit")
"""Keys of a model's configuration that are no arguments of its class."""
FEATURES, PREDICTIONS, ESTIMATOR, DONE = (
    "features.json",
    "predictions.parquet",
    "estimator",
    "trained.json",
)
CONFIG = "config.yaml"
COLUMNS = ("trial", "participant", "y", "part", "regime", "fold", "seed")
"""Columns that every table of predictions has, beside the predictions."""


@dataclass(frozen=True)
class Fitted:
    """A model that is ready to predict.

    Attributes
    ----------
    model : ReadingModel
    features : FittedFeatures
    encoder : TextEncoder or None
    task : ReadingTask
    """

    model: ReadingModel
    features: FittedFeatures
    encoder: TextEncoder | None
    task: ReadingTask

    def inputs(self, trials: ReadingTrials) -> ReadingInputs:
        """Return trials as the model sees them."""
        questions: list[str | None] | None = None
        if self.task.question is not None:
            asked = trials.table["question"]
            questions = [None if q is None or pd.isna(q) else str(q) for q in asked]
        y = trials.table["y"].to_numpy(dtype=np.float64, na_value=np.nan)
        vectors = self.model.text_use == "vectors"
        return reading_inputs(
            trials, self.features, y, self.encoder, questions=questions, vectors=vectors
        )

    def predict(self, trials: ReadingTrials) -> pd.DataFrame:
        """Return one row per trial: trial, participant, item, y and the predictions."""
        return self.table(self.inputs(trials))

    def table(self, inputs: ReadingInputs) -> pd.DataFrame:
        """Return the predictions for trials that are already as the model sees them."""
        values = self.model.predict(inputs)
        columns = ["trial", "participant", ITEM, "y"]
        table = inputs.trials.table[columns].reset_index(drop=True)
        if values.ndim == 1:
            return table.assign(p=values)
        if values.shape[1] == 2:
            return table.assign(p=values[:, 1])
        return table.assign(**{f"p{k}": values[:, k] for k in range(values.shape[1])})


def parts_of(data: TaskData, split: Split, refit: bool = False) -> dict[str, ReadingTrials]:
    """Return the trials of each part; those without a target are not in training.

    With `refit` the validation part is in training too, and there is none to validate on.
    """
    parts = {p: data.trials.part(split, p) for p in ("train", "val", "test")}
    if refit:
        both = {*split.trials("train"), *split.trials("val")}
        parts["train"] = data.trials.take(np.array([t in both for t in data.trials.trial], bool))
        parts["val"] = data.trials.take(np.zeros(len(data.trials), dtype=bool))
        _check_unseen(split, parts)
    known = parts["train"].table["y"].notna().to_numpy()
    return {**parts, "train": parts["train"].take(known)}


def _check_unseen(split: Split, parts: Mapping[str, ReadingTrials]) -> None:
    """Raise where validation has readers or texts that the test part calls unseen."""
    seen, test = parts["train"].table, parts["test"].table
    regime = split.of(test["trial"])["regime"].to_numpy().astype(str)
    for column, regimes in (
        ("participant", ("unseen_reader", "unseen_both")),
        (ITEM, ("unseen_text", "unseen_both")),
    ):
        new = set(test.loc[np.isin(regime, regimes), column]) & set(seen[column])
        if new:
            raise DataError(
                f"the test part has a {column} as unseen that validation has",
                found=sorted(map(str, new))[0], hint="without refit",
            )  # fmt: skip


def encoder_of(
    config: Mapping[str, Any], kind: type[ReadingModel], root: str | None
) -> TextEncoder | None:
    """Return what makes the tokens of texts for a model, None where it sees no text."""
    if kind.text_use == "none" or not config.get("encoder"):
        return None
    limit = config.get("limit")
    made = TextEncoder(str(config["encoder"]), root, None if limit is None else int(limit))
    if limit is None and kind.text_use == "tokens":  # it runs the whole text in one pass
        made.limit = made.lm.info["context_length"]
    return made


def build(
    config: Mapping[str, Any],
    target: Target,
    features: FittedFeatures,
    encoder: TextEncoder | None,
    seed: int = 0,
    root: str | None = None,
) -> ReadingModel:
    """Return a model that has not been fitted.

    Parameters
    ----------
    config
        ``name`` is that of a registered reading model; the rest are its arguments.
    target, features
        From training trials.
    encoder
        Where the model sees text.
    seed
        Of the initial weights.
    root
        Folder of downloads, for models that run a language model themselves.
    """
    kind = registry.reading_models.get(str(config["name"])).obj
    own = OWN if kind.text_use == "tokens" else (*OWN, "encoder")
    arguments = {str(k): v for k, v in config.items() if k not in own}
    widths = {scope: len(s.channels) for scope, s in features.scales.items()}
    if encoder is not None and kind.text_use == "vectors":
        widths["vectors"] = encoder.width
    state = torch.get_rng_state()
    try:
        torch.manual_seed(seed)
        with rooted(root):
            made = kind(target.plain(), widths, **arguments)
    except TypeError as error:
        raise DataError(
            f"the configuration of {config['name']} does not fit its model", found=str(error)
        ) from None
    finally:
        torch.set_rng_state(state)
    assert isinstance(made, ReadingModel)
    return made


def fit(
    config: Mapping[str, Any],
    data: TaskData,
    fold: int,
    folder: Path,
    *,
    seed: int = 0,
    root: str | None = None,
    accelerator: str = "auto",
    refit: bool = False,
) -> Fitted:
    """Fit a model on the training part of a fold, or read it where the folder has it.

    Parameters
    ----------
    config
        Of the model (`gazeattn.experiments.building.sized`).
    data, fold
    folder
        Receives the model; an unfinished training in it is gone on with.
    seed, root, accelerator
    refit
        Also with the validation readings; for estimators, which do without.

    Raises
    ------
    DataError
        A network was to be fitted with the readings that tell it when to stop.
    """
    if (folder / DONE).is_file():
        return load(config, data.task, folder, root)
    kind = registry.reading_models.get(str(config["name"])).obj
    if refit and issubclass(kind, ReadingNetwork):
        raise DataError(f"{config['name']} stops by its validation readings: refit needs them")
    parts = parts_of(data, data.split(fold), refit)
    y = parts["train"].table["y"].to_numpy(dtype=np.float64)
    numeric = y if data.task.kind == "regression" else None
    features = FittedFeatures.fit(parts["train"], kind.choice(config), numeric)
    target = Target.fit(data.task.kind, y)
    encoder = encoder_of(config, kind, root)
    model = build(config, target, features, encoder, seed, root)
    made = Fitted(model, features, encoder, data.task)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / FEATURES, {**features.plain(), "outcome": target.plain()})
    write_run(folder, config, seed)
    inputs = {p: made.inputs(parts[p]) for p in ("train", "val")}
    facts: dict[str, Any] = {"fold": fold, "seed": seed, "digest": features.digest}
    facts["absent"] = {scope: list(s.absent) for scope, s in features.scales.items() if s.absent}
    if encoder is not None:
        lost = LossLog()
        facts["without_tokens"] = without_tokens(inputs["train"], lost)
        for row in lost.to_frame().to_dict("records"):
            log.warning("%s: %s %s", config["name"], row["count"], row["reason"])
    if isinstance(model, ReadingNetwork):
        settings = training_of(config)
        module = ReadingDataModule(
            inputs["train"], inputs["val"], batch_size=settings.batch_size, seed=seed
        )
        done = train(model, module, folder, settings, seed=seed, accelerator=accelerator)
        facts |= {"epochs": done.epochs, "val/loss": float(done.curves["val/loss"].min())}
        made = replace(made, model=_best(kind, folder, root))
    else:
        assert isinstance(model, ReadingEstimator)
        _fit_estimator(model, inputs, seed, str(config["name"]))
        model.save(folder / ESTIMATOR)
    write_json(folder / DONE, facts)
    return made


def _fit_estimator(
    model: ReadingEstimator, inputs: Mapping[str, ReadingInputs], seed: int, name: str
) -> None:
    from sklearn.utils._param_validation import InvalidParameterError

    try:
        model.fit(inputs["train"], inputs["val"], seed)
    except InvalidParameterError as error:
        raise DataError(
            f"a setting of {name} is outside what it can be", found=" ".join(str(error).split())
        ) from None


def _best(kind: type[Any], folder: Path, root: str | None) -> ReadingNetwork:
    path = folder / "checkpoints" / BEST
    if not path.is_file():
        raise DataError(
            "the run has no trained model", source=folder, expected=f"checkpoints/{BEST}"
        )
    try:
        with rooted(root):
            model = kind.load_from_checkpoint(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the reader of pickles raises whatever it stumbles over
        if isinstance(error, GazeattnError):
            raise
        raise DataError("the checkpoint cannot be read, or does not fit its model", source=path,
                        found=" ".join(str(error).split())[:200]) from None  # fmt: skip
    assert isinstance(model, ReadingNetwork)
    return model.eval()


def load(config: Mapping[str, Any], task: ReadingTask, folder: Path, root: str | None) -> Fitted:
    """Return the fitted model of a run folder."""
    kind = registry.reading_models.get(str(config["name"])).obj
    path = folder / FEATURES
    if not path.is_file():
        raise DataError("the run has no fitted features", source=folder, expected=FEATURES)
    try:
        features = FittedFeatures.from_plain(read_json(path, "the file of fitted features"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, DataError | UnknownNameError):
            raise
        raise DataError("the file of fitted features is damaged", source=path,
                        found=str(error)) from None  # fmt: skip
    if not (folder / DONE).is_file():
        raise DataError("the training of the run is not finished", source=folder, expected=DONE,
                        hint="gazeattn train resume=FOLDER goes on with it")  # fmt: skip
    known = read_json(folder / DONE, "the file of the finished training").get("digest")
    if known != features.digest:
        raise DataError("the fitted features are not those of the training", source=path,
                        expected=known, found=features.digest)  # fmt: skip
    encoder = encoder_of(config, kind, root)
    if issubclass(kind, ReadingNetwork):
        return Fitted(_best(kind, folder, root), features, encoder, task)
    return Fitted(kind.load(folder / ESTIMATOR), features, encoder, task)


def predictions(
    fitted: Fitted, data: TaskData, fold: int, seed: int, parts: Sequence[str] = ("val", "test")
) -> pd.DataFrame:
    """Return the predictions for parts of a fold, with part and regime."""
    split = data.split(fold)
    tables = []
    for part in parts:
        trials = data.trials.part(split, part)
        table = fitted.predict(trials)
        table["part"] = part
        table["regime"] = split.of(table["trial"])["regime"].to_numpy()
        tables.append(table)
    found = pd.concat(tables, ignore_index=True)
    return found.assign(fold=str(fold), seed=seed)


def fit_and_predict(
    config: Mapping[str, Any], data: TaskData, fold: int, folder: Path, *,
    seed: int = 0, root: str | None = None, accelerator: str = "auto", refit: bool = False,
    about: Mapping[str, Any] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Return the predictions of a fold, from the folder where they are there.

    Those for validation and test; of a model that was fitted with validation (`refit`), for test.
    Damaged predictions are made again from the model.

    Parameters
    ----------
    about
        What `gazeattn explain` and `predict` need to know of the data (``dataset``, ``prefix``,
        ``surprisal``): kept beside the model with task, fold and seed.
    """
    path = folder / PREDICTIONS
    if about is not None and not (folder / CONFIG).is_file():
        content = {"task": asdict(data.task), **about, "fold": fold, "seed": seed}
        text = OmegaConf.to_yaml(OmegaConf.create(json.loads(json.dumps(content))))
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / CONFIG, text)
    if path.is_file():
        try:
            return read_parquet(path, "the table of predictions", COLUMNS)
        except DataError as error:
            log.warning("%s: predicted again", error)
    fitted = fit(
        config, data, fold, folder, seed=seed, root=root, accelerator=accelerator, refit=refit
    )
    found = predictions(fitted, data, fold, seed, ("test",) if refit else ("val", "test"))
    write_parquet(path, found)
    return found
