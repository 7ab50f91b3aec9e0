"""The experiment `train`: one scanpath model on one data set."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_original_cwd
from omegaconf import DictConfig, OmegaConf

from gazeattn import registry
from gazeattn.datamodules import scanpaths_of
from gazeattn.datasets.splits import split
from gazeattn.errors import DataError
from gazeattn.experiments.app import original_path, run_app
from gazeattn.experiments.benchmark import limited
from gazeattn.experiments.building import (
    RUN,
    build,
    channels_of,
    ensure_weights,
    feature_spec,
    load_network,
    read_model,
    sized,
    training_of,
    with_features,
    write_run,
)
from gazeattn.experiments.compare import load_dataset
from gazeattn.experiments.config import typed
from gazeattn.experiments.runs import (
    FINISHED,
    claim,
    command_line,
    environment,
    write_environment,
)
from gazeattn.experiments.scanpath_rows import convention_of, forced_rows
from gazeattn.experiments.schemas import TrainConfig
from gazeattn.experiments.terminal import StageProgress, print_table
from gazeattn.experiments.training import train as train_network
from gazeattn.losses import LossLog
from gazeattn.models.scanpath.base import NetworkModel
from gazeattn.models.scanpath.evaluation import teacher_forced
from gazeattn.results import result_rows
from gazeattn.storage import write_json, write_parquet, write_text

log = logging.getLogger(__name__)


def run_train(
    cfg: TrainConfig,
    folder: Path,
    *,
    command: str,
    base: Path,
    config_text: str,
    overridden: tuple[str, ...] = (),
) -> pd.DataFrame:
    """Train a model, or go on with an unfinished run, and score it on the validation part.

    Parameters
    ----------
    cfg
        Checked configuration.
    folder
        Run folder.
    command, config_text
        For the report.
    base
        Folder against which relative paths of the user are resolved.
    overridden
        Keys of the model that the user has set; they win over the reductions of the size.

    Returns
    -------
    DataFrame
        Result rows of the validation part.
    """
    config = sized(cfg.model, cfg.size.name, overridden)
    kind = registry.scanpath_models.get(str(config["name"])).obj
    if not issubclass(kind, NetworkModel):
        raise DataError(
            f"{config['name']} is not trained by gradients",
            hint="baselines and ceilings are fitted inside gazeattn benchmark scanpath",
        )
    settings = training_of(config)
    claim(folder, cfg.overwrite)
    write_text(folder / "config.yaml", config_text)
    root = original_path(cfg.root, base)
    lost = LossLog()
    ensure_weights([config], root, cfg.fetch)
    with StageProgress() as bar:
        bar.stage("reading the data set")
        dataset = load_dataset(cfg.dataset, root, base)
        paths = scanpaths_of(dataset, shortest=cfg.shortest, lost=lost)
        divided = split(
            dataset, by=cfg.split.by, shares=tuple(cfg.split.shares), seed=cfg.split.seed
        )
        divided.save(folder / "split.json")
        parts = [limited(paths.part(divided, p), cfg.size.stimuli) for p in ("train", "val")]
        spec = feature_spec(config)
        train, valid = with_features(
            parts, spec, root, lambda done, total: bar.update("pictures", done, total)
        )
        model = build(config, channels_of(train) if spec else None, cfg.seed)
        assert isinstance(model, NetworkModel)
        model.fit_statistics(train)
        write_run(folder, config, cfg.seed)
        facts = environment()
        write_environment(folder, facts, command)
        bar.pause()
        done = train_network(
            model, train, valid, folder, settings, seed=cfg.seed, accelerator=cfg.accelerator
        )
        best = load_network(config, folder)
        rows: list[dict[str, Any]] = [
            {"metric": "loss", "value": float(done.curves["val/loss"].min()), "n": len(valid.x)}
        ]
        if best.density:
            grid = (int(cfg.grid[0]), int(cfg.grid[1]))
            reference = build(sized(read_model("center_bias"), cfg.size.name))
            reference.fit_statistics(train)
            ours = teacher_forced(best, valid, grid, lambda d, t: bar.update("densities", d, t))
            theirs = teacher_forced(reference, valid, grid)
            rows += forced_rows(ours, theirs, draws=cfg.size.bootstrap, seed=cfg.seed)
    fixed = {
        "dataset": dataset.name,
        "model": str(config["name"]),
        "task": "scanpath",
        "split": f"by {cfg.split.by}, seed {cfg.split.seed}, {divided.digest[:12]}, validation",
        "regime": f"unseen_{cfg.split.by}",
        "seed": cfg.seed,
        "size": cfg.size.name,
        "command": command,
        "commit": facts.get("commit") or "",
    }
    records = [
        {**fixed, "convention": convention_of(str(r["metric"]), cfg.grid), **r}
        for r in ({k: v for k, v in row.items() if k != "reference"} for row in rows)
    ]
    table = result_rows(records)
    write_parquet(folder / "results.parquet", table)
    write_text(folder / "lost.csv", lost.to_frame().to_csv(index=False))
    from gazeattn.report.benchmark import write_training_report

    report = write_training_report(table, done.curves, folder, command=command)
    write_json(
        folder / FINISHED,
        {
            "model": config["name"],
            "epochs": done.epochs,
            "rows": [
                {k: v for k, v in r.items() if isinstance(v, str | int | float) and v == v}
                for r in table.to_dict("records")
            ],
            "command": command,
        },
    )
    shown = table[["metric", "value", "low", "high", "n"]].round(3)
    text = shown.astype(object).where(shown.notna(), "–")
    print_table("validation", list(shown.columns), text.to_numpy().tolist())
    print(f"report: {report.resolve()}")
    return table


def task(cfg: DictConfig) -> float:
    """Hydra entry: train and return the best validation loss."""
    settings = typed(cfg, TrainConfig)
    run = HydraConfig.get()
    base = Path(get_original_cwd())
    folder = Path(run.runtime.output_dir)
    if settings.resume is not None:
        resumed = original_path(settings.resume, base)
        assert resumed is not None
        folder = Path(resumed)
        if not (folder / RUN).is_file():
            raise DataError("there is no run to go on with", source=folder, expected=RUN)
        if (folder / FINISHED).is_file():
            raise DataError("this run is finished", source=folder)
    overrides = list(run.overrides.task)
    keys = [o.lstrip("+").partition("=")[0] for o in overrides]
    table = run_train(
        settings,
        folder,
        command=command_line("train", [o for o in overrides if not o.startswith("resume=")]),
        base=base,
        config_text=OmegaConf.to_yaml(cfg, resolve=True),
        overridden=tuple(k.removeprefix("model.") for k in keys if k.startswith("model.")),
    )
    return float(np.asarray(table["value"])[0])


def main(arguments: list[str]) -> int:
    """Run `gazeattn train` with Hydra overrides."""
    return run_app("train", task, arguments)
