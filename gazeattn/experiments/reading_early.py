"""The benchmark `early`: how well readings are told from their beginnings alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig, OmegaConf

from gazeattn.datamodules.reading import SHARES
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments.app import original_path, run_app
from gazeattn.experiments.benchmark_apps import this_call
from gazeattn.experiments.building import read_model, read_run, sized
from gazeattn.experiments.config import typed
from gazeattn.experiments.reading_benchmark import tasks_of
from gazeattn.experiments.reading_data import task_data
from gazeattn.experiments.reading_fitting import fit_and_predict
from gazeattn.experiments.reading_scores import Draws, score_rows
from gazeattn.experiments.reading_train import check_model, ensure_encoder
from gazeattn.experiments.runs import begin, environment, write_environment
from gazeattn.experiments.schemas import EarlyBenchmarkConfig
from gazeattn.experiments.terminal import StageProgress, print_table
from gazeattn.results import pack_rows, result_rows
from gazeattn.storage import write_json, write_parquet, write_text

NAME = "early"
EXTRA = ("share", "seconds", "elapsed_s", "kind")


def run_early(
    cfg: EarlyBenchmarkConfig, folder: Path, *, command: str, base: Path, config_text: str
) -> pd.DataFrame:
    """Fit and test models on the beginnings of readings; what is finished is kept.

    Returns
    -------
    DataFrame
        Result rows with ``share`` or ``seconds``, and ``elapsed_s``, the mean time that was seen.
    """
    dataset = str(cfg.dataset["name"])
    tasks = tasks_of(dataset)
    if cfg.task not in tasks:
        raise UnknownNameError(f"task of {dataset}", cfg.task, tasks)
    task = tasks[cfg.task]
    if not all(0 < s <= 1 for s in cfg.shares):
        raise DataError("shares", expected="numbers above 0, at most 1", found=cfg.shares)
    if not all(0 < s < np.inf for s in cfg.seconds):
        raise DataError("seconds", expected="numbers above 0", found=cfg.seconds)
    if cfg.by not in SHARES:
        raise UnknownNameError("kind of share", cfg.by, SHARES)
    parts = [(float(s), "seconds") for s in sorted(cfg.seconds)]
    parts += [(float(s), cfg.by) for s in sorted(cfg.shares)]
    if not parts:
        raise DataError("no beginning to try", expected="seconds=[…] or shares=[…]")
    root = original_path(cfg.root, base)
    configs = {name: sized(read_model(name), cfg.size.name) for name in cfg.models}
    for config in configs.values():
        check_model(config, task)
        ensure_encoder(config, root, cfg.fetch)
    folder.mkdir(parents=True, exist_ok=True)
    begin(folder, config_text)
    facts = environment()
    write_environment(folder, facts, command)
    rows: list[dict[str, Any]] = []
    lost = []
    with StageProgress() as bar:
        for amount, by in parts:
            seen = f"{amount:g} s" if by == "seconds" else f"{100 * amount:g} %"
            bar.stage(f"{task.name}: the first {seen}")
            data = task_data(task, cfg.dataset, root, share=amount, by=by)
            lost.append(data.lost.to_frame().assign(seen=seen))
            elapsed = float(np.mean(_elapsed(data.trials)) / 1000)
            draws = Draws.of(data.trials.table["participant"], cfg.size.bootstrap, 0)
            folds = range(data.n_folds) if cfg.folds is None else cfg.folds
            for name, config in configs.items():
                predicted = []
                for seed in cfg.seeds:
                    for fold in folds:
                        kind = "s" if by == "seconds" else ""
                        place = folder / "runs" / f"{name}_{amount:g}{kind}_{fold}_{seed}"
                        if (place / "run.yaml").is_file() and read_run(place) != config:
                            raise DataError(
                                f"the folder holds {name} in another configuration",
                                source=place,
                                hint="remove it, or choose another folder with hydra.run.dir=",
                            )
                        predicted.append(
                            fit_and_predict(
                                config,
                                data,
                                int(fold),
                                place,
                                seed=int(seed),
                                root=root,
                                accelerator=cfg.accelerator,
                                about={
                                    "dataset": cfg.dataset,
                                    "prefix": {"share": amount, "by": by},
                                },
                            )
                        )
                table = pd.concat(predicted, ignore_index=True)
                fixed = {
                    "dataset": dataset, "task": task.name, "model": name, "kind": "model",
                    "size": cfg.size.name, "elapsed_s": round(elapsed, 2),
                    "share": np.nan if by == "seconds" else amount,
                    "seconds": amount if by == "seconds" else np.nan,
                    "split": f"{task.folds} folds", "command": command,
                    "commit": facts.get("commit") or "",
                    "convention": "first seconds; fitted and tested on them"
                    if by == "seconds" else f"first part by {by}; fitted and tested on it",
                }  # fmt: skip
                test = table[table["part"] == "test"]
                rows += [{**fixed, **r} for r in score_rows(test, task, draws, folds=False)]
    found = result_rows(rows, EXTRA)
    write_parquet(folder / "results.parquet", found)
    write_text(folder / "lost.csv", pd.concat(lost).to_csv(index=False))
    place = Path(original_path(cfg.publish, base) or folder)
    shared = ["dataset", "task", "size"]
    write_json(
        place / f"{task.name}_early.json",
        {"dataset": dataset, "task": task.name, "size": cfg.size.name, "metric": task.metric,
         **pack_rows(found.drop(columns=shared))},
    )  # fmt: skip
    from gazeattn.report.reading_looks import write_early_report

    write_early_report(found, folder, metric=task.metric, command=command)
    write_json(folder / "summary.json", {"rows": len(found), "command": command})
    return found


def _elapsed(trials: Any) -> np.ndarray:
    """Return the time of each trial, ms: fixations and what is known of the gaps."""
    time = trials.column("duration") + np.maximum(np.nan_to_num(trials.column("gap")), 0)
    return np.bincount(trials.of, np.nan_to_num(time), minlength=len(trials))


def task(cfg: DictConfig) -> None:
    """Hydra entry: run, and print the headline by share."""
    settings = typed(cfg, EarlyBenchmarkConfig)
    call = this_call(NAME)
    found = run_early(
        settings,
        call.folder,
        command=call.command,
        base=call.base,
        config_text=OmegaConf.to_yaml(cfg, resolve=True),
    )
    metric = str(found["metric"].iloc[0])
    rows = found[found["metric"] == metric]
    rows = rows.assign(
        seen=[
            f"{100 * r['share']:g} %" if r["share"] == r["share"] else f"{r['seconds']:g} s"
            for r in rows.to_dict("records")
        ]
    )
    keys = ["model", "seen", "elapsed_s"]
    wide = rows.pivot_table(index=keys, columns="regime", values="value", sort=False)
    lines = [
        [*(str(v) for v in index), *[f"{v:.3f}" if v == v else "–" for v in values]]
        for index, values in zip(wide.index, wide.to_numpy(), strict=True)
    ]
    header = ["model", "first", "mean time, s", *map(str, wide.columns)]
    print_table(f"{metric}, test", header, lines)
    print(f"report: {(call.folder / 'report.html').resolve()}")


def main(arguments: list[str]) -> int:
    """Run `gazeattn benchmark early` with Hydra overrides."""
    return run_app(f"benchmark_{NAME}", task, arguments)
