"""The experiment `compare`: human reading attention against a language model's attention."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_original_cwd
from omegaconf import DictConfig, OmegaConf

from gazeattn import registry
from gazeattn.errors import MissingAssetError, UnknownNameError
from gazeattn.experiments.app import original_path, run_app
from gazeattn.experiments.config import CompareConfig, check_positive, typed
from gazeattn.experiments.logging import make_logger
from gazeattn.experiments.runs import (
    FINISHED,
    Stopwatch,
    claim,
    command_line,
    environment,
    write_environment,
)
from gazeattn.experiments.terminal import StageProgress, print_comparison
from gazeattn.results import RESULT_COLUMNS
from gazeattn.storage import write_json, write_parquet, write_text

log = logging.getLogger(__name__)
LONG_TEXT = ("window", "error", "cut")


@dataclass
class RunResult:
    """Where a finished run lies and what it found."""

    folder: Path
    report: Path
    comparison: Any


def task(cfg: DictConfig) -> float | None:
    """Hydra entry: run, print the table and the report's path, return the headline value."""
    settings = typed(cfg, CompareConfig)
    run = HydraConfig.get()
    result = run_compare(
        settings,
        Path(run.runtime.output_dir),
        command=command_line("compare", list(run.overrides.task)),
        base=Path(get_original_cwd()),
        config_text=OmegaConf.to_yaml(cfg, resolve=True),
    )
    values = result.comparison.table()
    values = values[values["kind"] == "model"]["value"].dropna()
    return float(values.iloc[0]) if len(values) else None


def run_compare(
    cfg: CompareConfig,
    folder: Path,
    *,
    command: str,
    base: Path,
    config_text: str,
) -> RunResult:
    """Do one comparison and fill its run folder.

    Parameters
    ----------
    cfg
        Checked configuration.
    folder
        Run folder; one that holds a finished run is refused.
    command
        What the report names as the way to do it again.
    base
        Folder against which relative paths of the user are resolved.
    config_text
        YAML of the whole configuration.
    """
    check_positive(cfg)
    check_names(cfg)
    claim(folder, cfg.overwrite)
    logger = make_logger(
        cfg.logger.name,
        folder,
        project=cfg.logger.project,
        mode=cfg.logger.mode,
        run=f"compare-{cfg.dataset.get('name')}-{cfg.lm.get('name')}-{folder.name}",
        config=asdict(cfg),
    )
    failed = True
    try:
        result = _run(cfg, folder, command, base, config_text, logger)
        failed = False
        return result
    except Exception as error:
        log.error("%s", error)
        raise
    finally:
        logger.finish(failed=failed)


def _run(
    cfg: CompareConfig, folder: Path, command: str, base: Path, config_text: str, logger: Any
) -> RunResult:
    watch = Stopwatch()
    write_text(folder / "config.yaml", config_text)
    log.info("command: %s", command)
    root = original_path(cfg.root, base)
    with StageProgress() as progress:
        with watch.stage("imports"):
            from gazeattn.attention import compare
            from gazeattn.lm import LanguageModel
            from gazeattn.report import write_report
        with watch.stage("data set"):
            progress.stage("reading the data set")
            dataset = _fetching(lambda: load_dataset(cfg.dataset, root, base), cfg, root, progress)
        with watch.stage("model loading"):
            progress.stage("loading the language model")
            name = _model_name(cfg.lm, base)
            lm = _fetching(lambda: LanguageModel.load(name, root=root), cfg, root, progress)
        facts = environment()
        with watch.stage("comparison"):
            comparison = compare(
                dataset,
                lm,
                progress=progress.update,
                **compare_arguments(cfg),
            )
        timings = comparison.info.get("timings", {})
        with watch.stage("report"):
            progress.stage("writing the report")
            _write_tables(cfg, folder, comparison, command, facts)
            write_environment(folder, facts, command)
            report = write_report(comparison, dataset, folder, command=command, environment=facts)
    seconds = {**watch.seconds, **{f"comparison: {k}": v for k, v in timings.items()}}
    summary = make_summary(cfg, comparison, command, facts, seconds)
    _log_results(logger, comparison)
    write_json(folder / FINISHED, summary)
    print_comparison(comparison, report, seconds)
    return RunResult(folder, report, comparison)


def compare_arguments(cfg: CompareConfig) -> dict[str, Any]:
    """Translate the configuration into the arguments of `gazeattn.compare`."""
    limits = [n for n in (cfg.limit, cfg.size.texts) if n is not None]
    attention = asdict(cfg.attention)
    methods = attention.pop("methods")
    for name in ("layers", "heads"):
        attention[name] = None if attention[name] is None else tuple(attention[name])
    return {
        "measures": tuple(cfg.measures),
        "methods": tuple(methods),
        "baselines": tuple(cfg.baselines),
        "metrics": tuple(cfg.metrics),
        "head_metrics": tuple(cfg.head_metrics),
        "controls": tuple(cfg.controls),
        "level": cfg.level,
        "average": cfg.average,
        # 10.0 is ten words; 1.5 is neither a share nor a number of words, and is refused later
        "topk": int(cfg.topk) if cfg.topk >= 1 and cfg.topk.is_integer() else cfg.topk,
        "question": cfg.question,
        "n_permutations": cfg.size.permutations,
        "n_bootstrap": cfg.size.bootstrap,
        "max_texts": min(limits) if limits else None,
        "seed": cfg.seed,
        "attention_options": attention,
    }


def check_names(cfg: CompareConfig) -> None:
    """Raise for an unknown data set, model option, method, measure or metric before any work."""
    from gazeattn.attention.comparing import check_arguments
    from gazeattn.datasets import check_options
    from gazeattn.lm.methods import AttentionOptions

    name = cfg.dataset.get("name")
    registry.datasets.get(str(name))
    check_options(str(name), [k for k in cfg.dataset if k != "name"])
    arguments = compare_arguments(cfg)
    own = {f.name for f in fields(AttentionOptions)}
    AttentionOptions(**{k: v for k, v in arguments["attention_options"].items() if k in own})
    if cfg.attention.long_text not in LONG_TEXT:
        raise UnknownNameError("rule for long texts", cfg.attention.long_text, LONG_TEXT)
    check_arguments(
        **{
            key: arguments[key]
            for key in (
                "measures",
                "methods",
                "baselines",
                "metrics",
                "head_metrics",
                "controls",
                "level",
                "average",
                "topk",
            )
        }
    )


def load_dataset(node: dict[str, Any], root: str | None, base: Path) -> Any:
    """Load the data set of a configuration; a null there means the loader's own default."""
    from gazeattn.datasets import load

    options = {k: v for k, v in node.items() if v is not None}
    name = options.pop("name")
    for key in ("fixations", "words", "trials", "texts", "root"):
        if isinstance(options.get(key), str):
            options[key] = original_path(options[key], base)
    own_root = options.pop("root", None)
    return load(name, root=own_root or root, **options)


def _model_name(lm: dict[str, Any], base: Path) -> str:
    name = str(lm["name"])
    path = original_path(name, base)
    return str(path) if path is not None and Path(path).exists() else name


def _fetching(
    action: Callable[[], Any], cfg: CompareConfig, root: str | None, progress: StageProgress
) -> Any:
    """Do `action`; where an asset is missing, fetch it first if the configuration allows."""
    from gazeattn.downloads import ASSETS, fetch_all

    try:
        return action()
    except MissingAssetError:
        wanted = [str(cfg.dataset.get("name")), str(cfg.lm.get("name"))]
        names = [n for n in wanted if n in ASSETS]
        if not cfg.fetch or not names:
            raise
        progress.pause()
        fetch_all(names, root)
        return action()


def _write_tables(
    cfg: CompareConfig, folder: Path, comparison: Any, command: str, facts: dict[str, Any]
) -> None:
    frames = {
        "alignment": result_view(comparison.alignment, cfg, comparison, command, facts),
        "agreement": result_view(comparison.summary, cfg, comparison, command, facts),
        "profiles": comparison.profiles,
        "transitions": comparison.transitions,
        "lost": comparison.lost.to_frame(),
    }
    for name, frame in frames.items():
        write_parquet(folder / f"{name}.parquet", frame)


def result_view(
    frame: pd.DataFrame, cfg: CompareConfig, comparison: Any, command: str, facts: dict[str, Any]
) -> pd.DataFrame:
    """Give a table the columns of the one result schema, its own columns after them."""
    fixed = {
        "model": comparison.info.get("lm", {}).get("name", cfg.lm.get("name")),
        "task": "attention_alignment",
        "seed": cfg.seed,
        "size": cfg.size.name,
        "command": command,
        "commit": facts.get("commit") or "",
    }
    frame = frame.copy()
    for column, value in fixed.items():
        frame[column] = pd.Categorical([value] * len(frame)) if isinstance(value, str) else value
    frame["n"] = frame["n_words"] if "n_words" in frame else frame["n_trials"]
    for column in RESULT_COLUMNS:
        if column not in frame:
            frame[column] = pd.Series(pd.NA, index=frame.index, dtype="str")
    rest = [c for c in frame.columns if c not in RESULT_COLUMNS]
    return frame[[*RESULT_COLUMNS, *rest]]


def make_summary(
    cfg: CompareConfig,
    comparison: Any,
    command: str,
    facts: dict[str, Any],
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Return the content of ``summary.json``."""
    return {
        "answer": comparison.answer,
        "table": comparison.table().to_dict(orient="records"),
        "dataset": comparison.info.get("dataset", {}),
        "lm": comparison.info.get("lm", {}),
        "settings": comparison.info.get("settings", {}),
        "conventions": comparison.info.get("conventions", {}),
        "notes": comparison.info.get("notes", []),
        "model_lost": comparison.info.get("model_lost", {}),
        "lost": comparison.lost.to_frame().to_dict(orient="records"),
        "rows": {
            "alignment": len(comparison.alignment),
            "profiles": len(comparison.profiles),
        },
        "size": cfg.size.name,
        "seconds": {k: round(v, 3) for k, v in seconds.items()},
        "command": command,
        "commit": facts.get("commit"),
        "version": facts.get("gazeattn"),
    }


def _log_results(logger: Any, comparison: Any) -> None:
    table = comparison.table()
    logger.table("agreement", table)
    logger.numbers(
        {
            f"{row.metric}/{row.measure}/{row.method}": float(row.value)
            for row in table.itertuples()
            if pd.notna(row.value)
        }
    )


def main(arguments: list[str]) -> int:
    """Run `gazeattn compare` with Hydra overrides."""
    return run_app("compare", task, arguments)
