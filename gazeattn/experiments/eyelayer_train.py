"""The experiment `train` for summaries of code: one row of the benchmark `eyelayer`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig, OmegaConf

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments._eyelayer_rows import CONVENTIONS, PER_PAIR
from gazeattn.experiments._eyelayer_run import FACTS, equal_rank, fit_row, read_data, row_settings
from gazeattn.experiments.app import original_path
from gazeattn.experiments.config import conf_folder
from gazeattn.experiments.eyelayer import NOT_SETTINGS, scorer_of
from gazeattn.experiments.runs import FINISHED, claim, environment, write_environment
from gazeattn.experiments.schemas import TrainConfig
from gazeattn.experiments.terminal import StageProgress, print_table
from gazeattn.lm import LanguageModel
from gazeattn.results import result_rows
from gazeattn.storage import write_json, write_parquet, write_text

KIND = "code_summaries"
KEYS: dict[str, str] = {
    "summaries": "summaries",
    "components": "settings.options.components",
    "content": "settings.options.content",
    "layer": "settings.layer",
    "gaze_weight": "settings.gaze_weight",
    "stage_a_epochs": "settings.stage_a.epochs",
    "rank": "settings.rank",
    "lr": "settings.lr",
    "prior_lr": "settings.prior_lr",
    "epochs": "training.max_epochs",
    "train": "data.train",
    "beams": "writing.beams",
}
"""Keys of the task and what they are in conf/benchmark_eyelayer.yaml."""


def settings_of(task: Mapping[str, Any], size: str, seed: int) -> tuple[dict[str, Any], str]:
    """Return the configuration of the benchmark for one row, and the row's name.

    Raises
    ------
    UnknownNameError
        A key that the task does not have, or no such row.
    DataError
        A negative seed.
    """
    known = {"name", "kind", "lm", "row", *KEYS}
    for key in task:
        if key not in known:
            raise UnknownNameError("key of the task", str(key), sorted(known))
    if seed < 0:
        raise DataError("seed", expected="0 or more", found=seed)
    plain = OmegaConf.load(conf_folder() / "benchmark_eyelayer.yaml")
    assert isinstance(plain, DictConfig)
    sizes = plain.pop("sizes")
    base = OmegaConf.create({str(k): v for k, v in plain.items() if k not in NOT_SETTINGS})
    made = OmegaConf.merge(base, sizes[size])
    for key, place in KEYS.items():
        if task.get(key) is not None:
            OmegaConf.update(made, place, task[key])
    found = OmegaConf.to_container(made, resolve=True)
    assert isinstance(found, dict)
    config = {str(k): v for k, v in found.items()}
    row = str(task.get("row") or "eyelayer")
    rows = {**config["rows"], **config["changes"]}
    if row not in rows:
        raise UnknownNameError("row", row, rows)
    config |= {"lm": str(task.get("lm") or "smollm2-135m"), "rows": {row: rows[row]},
               "changes": {}, "sweep": [], "only": None, "seeds": [seed]}  # fmt: skip
    return config, row


def run_summaries(
    cfg: TrainConfig,
    folder: Path,
    *,
    command: str,
    base: Path,
    config_text: str,
    overridden: tuple[str, ...] = (),
) -> pd.DataFrame:
    """Train a summariser, or go on with an unfinished run, and score it on the validation pairs.

    Returns
    -------
    DataFrame
        Result rows of the validation part; the test part is the benchmark's.
    """
    config, row = settings_of(cfg.task, cfg.size.name, cfg.seed)
    settings = dict(row_settings(config)[row][0])
    claim(folder, cfg.overwrite)
    write_text(folder / "config.yaml", config_text)
    root = original_path(cfg.root, base)
    facts = environment()
    write_environment(folder, facts, command)

    def load() -> LanguageModel:
        return LanguageModel.load(str(config["lm"]), root=root)

    with StageProgress() as bar:
        bar.stage("reading code, summaries and gaze")
        data = read_data(config, load(), root)
        write_text(folder / "lost.csv", data.lost.to_frame().to_csv(index=False))
        if settings["rank"] is None:
            settings["rank"] = equal_rank(config, load)
        bar.stage(f"{row}: training")
        seen = replace(data, test=data.valid, table=data.valid_table)
        table = fit_row(row, settings, config, seen, folder, cfg.seed, load, root=root,
                        accelerator=cfg.accelerator,
                        vectors=scorer_of(config["scorer"], root))  # fmt: skip
    known = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    rows = validation_rows(table, known, {
        "dataset": config["summaries"], "task": "eyelayer", "model": row, "seed": cfg.seed,
        "size": cfg.size.name, "split": "by project, validation", "command": command,
        "commit": facts.get("commit") or "",
    })  # fmt: skip
    write_parquet(folder / "results.parquet", rows)
    from gazeattn.report.eyelayer import write_row_page

    curves = pd.read_csv(folder / "curves.csv")
    report = write_row_page(rows, table, curves, folder, facts=known, command=command)
    write_json(folder / FINISHED, {"row": row, "command": command, **known})
    lines = [[r["metric"], *(f"{r[k]:.4f}" for k in ("value", "low", "high"))]
             for r in rows.to_dict("records")]  # fmt: skip
    title = f"{row}, validation ({len(table)} pairs)"
    print_table(title, ["metric", "value", "low", "high"], lines)
    print(f"report: {report.resolve()}")
    return rows


def validation_rows(
    table: pd.DataFrame, facts: Mapping[str, Any], fixed: Mapping[str, Any]
) -> pd.DataFrame:
    """Return mean and interval over pairs of every score, and the fit of held-out gaze."""
    picks = np.random.default_rng(0).integers(0, len(table), (1000, len(table)))
    rows = []
    for metric in (m for m in PER_PAIR if m in table):
        values = table[metric].to_numpy(dtype=np.float64)
        low, high = np.quantile(values[picks].mean(1), [0.025, 0.975])
        rows.append({**fixed, "metric": metric, "value": float(values.mean()), "low": float(low),
                     "high": float(high), "n": len(values),
                     "convention": CONVENTIONS[metric]})  # fmt: skip
    if "gaze_kl" in facts:
        rows.append({**fixed, "metric": "gaze_kl", "value": float(facts["gaze_kl"]),
                     "convention": CONVENTIONS["gaze_kl"]})  # fmt: skip
    return result_rows(rows)
