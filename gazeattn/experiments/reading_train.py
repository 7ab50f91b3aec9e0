"""The experiment `train` for a task in reading: one model on one fold."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pandas as pd

from gazeattn import registry
from gazeattn.assets import ASSETS
from gazeattn.datamodules.reading_tasks import ReadingTask
from gazeattn.datasets.splits import REGIMES
from gazeattn.errors import DataError
from gazeattn.experiments.app import original_path
from gazeattn.experiments.building import sized
from gazeattn.experiments.reading_data import TaskData, task_data
from gazeattn.experiments.reading_fitting import DONE, PREDICTIONS, fit, predictions
from gazeattn.experiments.reading_scores import ALL, Draws, score_rows, scored
from gazeattn.experiments.runs import FINISHED, claim, environment, write_environment
from gazeattn.experiments.schemas import TrainConfig
from gazeattn.experiments.terminal import StageProgress, print_losses, print_table
from gazeattn.models.reading.base import ReadingModel
from gazeattn.results import result_rows
from gazeattn.storage import write_json, write_parquet, write_text

log = logging.getLogger(__name__)


def task_of(cfg: TrainConfig, root: str | None) -> tuple[ReadingTask, TaskData]:
    """Return the task of a configuration and its readings."""
    task = ReadingTask.of(cfg.task)
    if not 0 < cfg.prefix.share <= 1:
        raise DataError("prefix.share", expected="above 0, at most 1", found=cfg.prefix.share)
    data = task_data(
        task,
        cfg.dataset,
        root,
        share=cfg.prefix.share,
        by=cfg.prefix.by,
        surprisal=cfg.surprisal,
    )
    return task, data


def check_model(config: dict[str, Any], task: ReadingTask) -> type[ReadingModel]:
    """Return the class of a model, or raise where it cannot do the task."""
    name = str(config["name"])
    if name in registry.scanpath_models and name not in registry.reading_models:
        raise DataError(
            f"{name} predicts scanpaths, it reads nothing off them",
            expected=f"a model of reading for task {task.name}",
            hint="gazeattn models lists them",
        )
    kind = registry.reading_models.get(name).obj
    assert issubclass(kind, ReadingModel)
    return kind


def ensure_encoder(config: dict[str, Any], root: str | None, fetch: bool) -> None:
    """Download the language model of a configuration where that is allowed."""
    from gazeattn.downloads import fetch_all, installed_state

    name = str(config.get("encoder") or "")
    if fetch and name in ASSETS and installed_state(name, root) != "yes":
        fetch_all([name], root)


def run_reading(
    cfg: TrainConfig,
    folder: Path,
    *,
    command: str,
    base: Path,
    config_text: str,
    overridden: tuple[str, ...] = (),
) -> pd.DataFrame:
    """Train a reading model on one fold, or go on with an unfinished run.

    The validation part is scored. Predictions for the test part are written but not looked at:
    `gazeattn benchmark reading` scores them, once the choice is made.

    Returns
    -------
    DataFrame
        Result rows of the validation part.
    """
    config = sized(cfg.model, cfg.size.name, overridden)
    task = ReadingTask.of(cfg.task)
    check_model(config, task)
    for key in ("seed", "fold"):
        if getattr(cfg, key) < 0:
            raise DataError(key, expected="0 or more", found=getattr(cfg, key))
    claim(folder, cfg.overwrite)
    write_text(folder / "config.yaml", config_text)
    root = original_path(cfg.root, base)
    ensure_encoder(config, root, cfg.fetch)
    with StageProgress() as bar:
        bar.stage("reading the data set")
        task, data = task_of(cfg, root)
        if str(cfg.dataset["name"]) == "table":  # nobody has looked at these files before
            bar.pause()
            print_losses(data.lost)
        divided = data.split(cfg.fold)
        divided.save(folder / "split.json")
        facts = environment()
        write_environment(folder, facts, command)
        bar.pause()
        fitted = fit(
            config, data, cfg.fold, folder, seed=cfg.seed, root=root, accelerator=cfg.accelerator
        )
        found = predictions(fitted, data, cfg.fold, cfg.seed)
        write_parquet(folder / PREDICTIONS, found)
    valid = found[found["part"] == "val"]
    draws = Draws.of(valid["participant"], cfg.size.bootstrap, cfg.seed)
    fixed = {
        "dataset": str(cfg.dataset["name"]),
        "model": str(config["name"]),
        "task": task.name,
        "split": f"{divided.digest[:12]}, validation",
        "seed": cfg.seed,
        "size": cfg.size.name,
        "convention": "intervals over readers",
        "command": command,
        "commit": facts.get("commit") or "",
    }
    rows = [
        {**fixed, **row, "fold": str(cfg.fold)}
        for row in score_rows(valid, task, draws, folds=False)
    ]
    table = result_rows(rows)
    write_parquet(folder / "results.parquet", table)
    write_text(folder / "lost.csv", data.lost.to_frame().to_csv(index=False))
    from gazeattn.report.reading import write_fold_report

    curves = folder / "curves.csv"
    report = write_fold_report(
        table, valid, folder, command=command, task=task.name,
        curves=pd.read_csv(curves) if curves.is_file() else None,
    )  # fmt: skip
    write_json(
        folder / FINISHED,
        {"model": config["name"], "task": task.name, "fold": cfg.fold, "command": command,
         "rows": [{k: v for k, v in r.items() if isinstance(v, str | int | float) and v == v}
                  for r in table.to_dict("records")]},
    )  # fmt: skip
    shown = [
        [r["regime"], r["metric"], *(_cell(r.get(k)) for k in ("value", "low", "high")), r["n"]]
        for r in rows
    ]
    title = f"{task.name}, fold {cfg.fold}, validation"
    print_table(title, ["regime", "metric", "value", "low", "high", "n"], shown)
    few = {r: len(scored(valid, r)) for r in (ALL, *REGIMES)}
    log.info("validation trials: %s; %s", few, folder / DONE)
    print(f"report: {report.resolve()}")
    return table


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) and value == value else "–"
