"""The command `predict` for reading models: what they say of readings, also of new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from gazeattn import registry
from gazeattn.datamodules.reading_tasks import ReadingTask, task_trials
from gazeattn.datasets.splits import Split
from gazeattn.errors import DataError, GazeattnError, UnknownNameError
from gazeattn.experiments.building import read_run, read_yaml
from gazeattn.experiments.reading_data import surprisal_of
from gazeattn.experiments.reading_fitting import load
from gazeattn.experiments.terminal import print_losses, print_table
from gazeattn.losses import LossLog
from gazeattn.storage import atomic_folder, write_parquet, write_text

KEYS = ("model", "dataset", "to", "root", "overwrite")
SHOWN = 10


@dataclass(frozen=True)
class Options:
    """What `gazeattn predict` can be told for a reading model.

    Attributes
    ----------
    model : str
        Run folder.
    dataset : dict
        ``name`` and options of the data set; empty: that of the training.
    to, root : str
    overwrite : bool
    """

    model: str
    dataset: dict[str, Any] = field(default_factory=dict)
    to: str = ""
    root: str = ""
    overwrite: bool = False


def is_reading(arguments: Sequence[str]) -> bool:
    """Return whether ``model=`` names the run of a reading model."""
    for text in arguments:
        if text.startswith("model="):
            folder = Path(text.partition("=")[2]).expanduser()
            if (folder / "run.yaml").is_file():
                return str(read_run(folder)["name"]) in registry.reading_models
    return False


def read_options(arguments: Sequence[str]) -> Options:
    """Return the options of KEY=VALUE texts; ``dataset.KEY=VALUE`` are options of the data set.

    Raises
    ------
    GazeattnError
        No such option, or one without a value.
    """
    given: dict[str, Any] = {}
    dataset: dict[str, Any] = {}
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or not value:
            raise GazeattnError(f"cannot read {text!r}: options are KEY=VALUE, as dataset=copco")
        if key.startswith("dataset."):
            dataset[key.removeprefix("dataset.")] = value
        elif key == "dataset":
            dataset["name"] = value
        elif key not in KEYS:
            raise UnknownNameError("option of predict for reading models", key, KEYS)
        else:
            given[key] = value.lower() == "true" if key == "overwrite" else value
    if dataset and "name" not in dataset:
        raise GazeattnError("dataset.KEY= needs dataset=NAME, for example dataset=table")
    return Options(dataset=dataset, **given)


class Predicted(NamedTuple):
    """What `gazeattn predict` says of readings."""

    table: pd.DataFrame
    folder: Path
    task: ReadingTask
    lost: LossLog


def meaning(task: ReadingTask) -> str:
    """Say in words what the predictions of a task are."""
    if task.kind == "regression":
        return f"p: predicted {task.label}"
    if len(task.classes) > 2:
        each = ", ".join(f"p{k}: {c}" for k, c in enumerate(task.classes))
        return f"probabilities of {task.label}: {each}"
    if task.above is not None:
        return f"p: probability of {task.label} above {task.above:g}"
    return f"p: probability of {task.label} = {task.classes[1] if task.classes else 'true (1)'}"


def predict_readings(options: Options) -> Predicted:
    """Predict for every reading of a data set, with or without labels.

    Returns
    -------
    Predicted
        The table (trial, participant, item, y where it is known, part of the training split where
        the reading was in it, and the predictions), the folder with ``predictions.csv``,
        ``predictions.parquet`` and ``lost.csv``, the task, and the losses.
    """
    run = Path(options.model).expanduser()
    config = read_run(run)
    if not (run / "config.yaml").is_file():
        raise DataError("the run has no configuration", source=run, expected="config.yaml")
    plain = read_yaml(run / "config.yaml")
    if not plain.get("task"):
        raise DataError("the run has no task", source=run / "config.yaml")
    task = ReadingTask.of(plain["task"])
    root = options.root or plain.get("root")
    dataset = dict(options.dataset or plain["dataset"])
    name = str(dataset.pop("name"))
    to = Path(options.to).expanduser() if options.to else Path("outputs") / "predict" / name
    if to.is_dir() and not options.overwrite and any(to.iterdir()):
        raise DataError(
            "the folder is not empty", source=to,
            hint="Choose another one with to=, or say overwrite=true",
        )  # fmt: skip
    from gazeattn.datasets import load as load_dataset

    kept = {k: v for k, v in dataset.items() if v is not None}
    own = kept.pop("root", None)
    lost = LossLog()
    prefix = plain.get("prefix") or {}
    data = load_dataset(name, root=own or root, **kept)
    lost.extend(data.lost)
    trials = task_trials(
        task,
        data,
        share=float(prefix.get("share", 1.0)),
        by=str(prefix.get("by", "time")),
        surprisal=surprisal_of(plain.get("surprisal"), root),
        lost=lost,
        labels=not options.dataset,
    )
    table = load(config, task, run, root).predict(trials)
    table.insert(3, "part", _parts(run, table["trial"]))
    with atomic_folder(to) as new:
        write_text(new / "predictions.csv", table.to_csv(index=False))
        write_parquet(new / "predictions.parquet", table)
        write_text(new / "lost.csv", lost.to_frame().to_csv(index=False))
    return Predicted(table, to, task, lost)


def _parts(run: Path, trials: pd.Series) -> pd.Series:
    """Return the part of each trial in the split of the training, missing for new ones."""
    path = run / "split.json"
    if not path.is_file():
        return pd.Series(pd.NA, index=trials.index, dtype="str")
    table = Split.load(path).table
    known = dict(zip(table["trial"], table["part"], strict=True))
    return trials.map(known).astype("str")


def main(arguments: list[str]) -> int:
    """Run `gazeattn predict` for a reading model."""
    table, to, task, lost = predict_readings(read_options(arguments))
    columns = [c for c in table if str(c)[:1] == "p" and c not in ("participant", "part")]
    rows = [
        [
            r["trial"],
            r["participant"],
            r["part"] if r["part"] == r["part"] else "new",
            *(f"{r[c]:.3f}" for c in columns),
        ]
        for r in table.head(SHOWN).to_dict("records")
    ]
    title = f"first {min(SHOWN, len(table))} of {len(table):,} readings"
    print_table(title, ["trial", "participant", "part", *map(str, columns)], rows)
    print(meaning(task))
    print_losses(lost)
    print(f"folder: {to.resolve()}")
    return 0
