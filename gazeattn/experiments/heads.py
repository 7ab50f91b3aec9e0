"""The experiment `heads`: a catalogue of attention heads, ranked by likeness to readers."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_original_cwd
from omegaconf import DictConfig, OmegaConf

from gazeattn import registry
from gazeattn.errors import DataError
from gazeattn.experiments.app import original_path, run_app
from gazeattn.experiments.compare import _fetching, _model_name, load_dataset
from gazeattn.experiments.config import DebugConfig, SizeConfig, typed
from gazeattn.experiments.runs import (
    FINISHED,
    Stopwatch,
    claim,
    command_line,
    environment,
    write_environment,
)
from gazeattn.experiments.terminal import StageProgress, print_table
from gazeattn.storage import write_json, write_parquet, write_text

log = logging.getLogger(__name__)
METHOD = "raw"
ALPHA = 0.05


@dataclass
class ThresholdsConfig:
    """See `gazeattn.lm.heads.Thresholds`."""

    retrieval: float = 0.1
    induction: float = 0.3
    previous: float = 0.5
    first: float = 0.5
    delimiter: float = 0.3
    local: float = 5.0
    broad: float = 0.8


@dataclass
class ProbesConfig:
    """Lengths in tokens and repeats of the probes; null repeats leave a probe out."""

    induction_length: int = 50
    induction_repeats: int | None = 4
    haystack: int = 200
    needle: int = 10
    retrieval_repeats: int | None = 10


@dataclass
class HeadsConfig:
    """Everything that `gazeattn heads` can be told."""

    dataset: dict[str, Any] = field(default_factory=dict)
    lm: dict[str, Any] = field(default_factory=dict)
    size: SizeConfig = field(default_factory=SizeConfig)
    debug: DebugConfig = field(default_factory=DebugConfig)
    measure: str = "total_reading_time"
    metric: str = "spearman"
    thresholds: ThresholdsConfig = field(default_factory=ThresholdsConfig)
    probes: ProbesConfig = field(default_factory=ProbesConfig)
    question: bool = False
    limit: int | None = None
    seed: int = 0
    root: str | None = None
    fetch: bool = True
    overwrite: bool = False


def check(cfg: HeadsConfig) -> None:
    """Raise for names and numbers that no run can use, before any work."""
    from gazeattn.attention.comparing import check_arguments
    from gazeattn.datasets import check_options

    name = str(cfg.dataset.get("name"))
    registry.datasets.get(name)
    check_options(name, [k for k in cfg.dataset if k != "name"])
    check_arguments(
        measures=(cfg.measure,),
        methods=(METHOD,),
        baselines=("uniform",),
        metrics=(cfg.metric,),
        head_metrics=(cfg.metric,),
        controls=(),
        level="mean",
        average="mean",
        topk=0.2,
    )
    probes = cfg.probes
    for key, value, low in (
        ("probes.induction_length", probes.induction_length, 2),
        ("probes.induction_repeats", probes.induction_repeats, 1),
        ("probes.haystack", probes.haystack, 1),
        ("probes.needle", probes.needle, 1),
        ("probes.retrieval_repeats", probes.retrieval_repeats, 1),
        ("limit", cfg.limit, 1),
        ("seed", cfg.seed, 0),
    ):
        if value is not None and value < low:
            raise DataError(f"{key} is too small", expected=f"at least {low}", found=value)


def catalogue(lm: Any, comparison: Any, cfg: HeadsConfig) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table of heads and facts about it.

    Parameters
    ----------
    lm : LanguageModel
    comparison : Comparison
        Of readers and the method ``raw``, with values for every head.
    cfg

    Returns
    -------
    DataFrame
        One row per head: ``rank`` (1 is most like readers; missing without a value), ``layer,
        head``, the figures, ``label, labels, value, low, high, p, q, n_trials, n_texts``.
    dict
        ``texts, text_rows, copied`` and why a probe is missing.
    """
    from gazeattn.attention.answer import orientation
    from gazeattn.lm.heads import (
        Thresholds,
        induction_score,
        label_heads,
        retrieval_score,
        text_figures,
    )

    texts = texts_of(comparison)
    windows = [w for words in texts for w in _windows(lm, words)]
    figures = text_figures(lm, windows)
    facts: dict[str, Any] = {"texts": len(texts), "text_rows": figures.pop("n_rows")}
    probes, missing = cfg.probes, []
    longest = lm.info["context_length"] or np.inf
    if probes.induction_repeats is None:
        missing.append("induction: left out")
    elif not lm.info["causal"]:
        missing.append("induction: the model is an encoder, which sees what comes next")
    elif 2 * probes.induction_length + 1 > longest:
        missing.append("induction: the probe is longer than the model's context")
    else:
        figures["induction"] = induction_score(
            lm, probes.induction_length, probes.induction_repeats, cfg.seed
        )
    if probes.retrieval_repeats is None:
        missing.append("retrieval: left out")
    elif not (lm.info["causal"] and lm.info["lm_head"]):
        missing.append("retrieval: the model does not say what comes next")
    elif probes.haystack + 2 * (probes.needle + 5) + 1 > longest:
        missing.append("retrieval: the probe is longer than the model's context")
    else:
        figures["retrieval"], facts["copied"] = retrieval_score(
            lm, probes.haystack, probes.needle, probes.retrieval_repeats, cfg.seed
        )
        if np.isnan(figures["retrieval"]).all():
            missing.append("retrieval: the model brought out less than half of every needle")
    facts["missing"] = missing
    labelled = label_heads(figures, Thresholds(**asdict(cfg.thresholds)))
    table = labelled.merge(human_likeness(comparison, cfg), on=["layer", "head"], how="left")
    order = (orientation(cfg.metric, cfg.measure) * table["value"]).rank(
        ascending=False, method="min"
    )
    table.insert(0, "rank", order.astype("Int64"))
    table = table.sort_values(["rank", "layer", "head"], na_position="last")
    return table.reset_index(drop=True), facts


def human_likeness(comparison: Any, cfg: HeadsConfig) -> pd.DataFrame:
    """Return the summary rows of single heads; q is Benjamini-Hochberg over all heads."""
    s = comparison.summary
    rows = s[
        s["head"].notna()
        & (s["method"] == METHOD)
        & (s["measure"] == cfg.measure)
        & (s["metric"] == cfg.metric)
    ]
    columns = ["layer", "head", "value", "low", "high", "p", "q", "n_trials", "n_texts"]
    found = rows[columns].astype({"layer": int, "head": int})
    return found.reset_index(drop=True)


def texts_of(comparison: Any) -> list[list[str]]:
    """Return the words of every text that was compared, in the order of their stimulus ids."""
    rows = comparison.profiles
    rows = rows[(rows["kind"] == "model") & (rows["name"] == METHOD)]
    rows = rows.sort_values("index", kind="stable")
    texts = {
        tuple(g["text"].astype(str))
        for _, g in rows.groupby(["stimulus", "trial"], dropna=False, observed=True)
    }
    return [list(t) for t in sorted(texts)]


def _windows(lm: Any, words: list[str]) -> list[Any]:
    from gazeattn.lm.windows import plan_windows

    plan = plan_windows(lm.encode(words), lm.info["context_length"], long_text="window", overlap=0)
    return [w for w in plan.windows if len(w.input_ids)]


def run_heads(
    cfg: HeadsConfig, folder: Path, *, command: str, base: Path, config_text: str
) -> pd.DataFrame:
    """Do one run and fill its folder: ``heads.csv``, ``heads.parquet``, ``report.html``."""
    check(cfg)
    claim(folder, cfg.overwrite)
    watch = Stopwatch()
    write_text(folder / "config.yaml", config_text)
    log.info("command: %s", command)
    root = original_path(cfg.root, base)
    limits = [n for n in (cfg.limit, cfg.size.texts) if n is not None]
    shared: Any = cfg  # the names that fetching reads are the same
    with StageProgress() as progress:
        from gazeattn.attention import compare
        from gazeattn.lm import LanguageModel
        from gazeattn.report.heads import write_heads_page

        with watch.stage("data set"):
            progress.stage("reading the data set")
            dataset = _fetching(
                lambda: load_dataset(cfg.dataset, root, base), shared, root, progress
            )
        with watch.stage("model loading"):
            progress.stage("loading the language model")
            name = _model_name(cfg.lm, base)
            lm = _fetching(lambda: LanguageModel.load(name, root=root), shared, root, progress)
        with watch.stage("comparison"):
            comparison = compare(
                dataset,
                lm,
                measures=(cfg.measure,),
                methods=(METHOD,),
                baselines=("uniform",),
                metrics=(cfg.metric,),
                head_metrics=(cfg.metric,),
                controls=(),
                level="mean",
                question=cfg.question,
                n_permutations=cfg.size.permutations,
                n_bootstrap=cfg.size.bootstrap,
                seed=cfg.seed,
                max_texts=min(limits) if limits else None,
                progress=progress.update,
            )
        with watch.stage("catalogue"):
            progress.stage("what every head does")
            table, facts = catalogue(lm, comparison, cfg)
        with watch.stage("report"):
            progress.stage("writing the report")
            for key, value in (("dataset", cfg.dataset.get("name")), ("model", lm.name)):
                table.insert(0, key, value)
            about = {"measure": cfg.measure, "metric": cfg.metric}
            table = table.assign(**about, seed=cfg.seed)
            write_text(folder / "heads.csv", table.to_csv(index=False))
            write_parquet(folder / "heads.parquet", table)
            write_parquet(folder / "lost.parquet", comparison.lost.to_frame())
            system = environment()
            write_environment(folder, system, command)
            report = write_heads_page(
                table,
                folder,
                facts=facts,
                thresholds=asdict(cfg.thresholds),
                command=command,
                info=comparison.info,
            )
    summary = {
        "labels": table["label"].value_counts().to_dict(),
        "significant": int((table["q"] < ALPHA).sum()),
        "heads": len(table),
        **facts,
        **about,
        "lost": comparison.lost.to_frame().to_dict(orient="records"),
        "command": command,
        "commit": system.get("commit"),
        "seconds": {k: round(v, 3) for k, v in watch.seconds.items()},
    }
    write_json(folder / FINISHED, summary)
    shown = table.head(10)[["rank", "layer", "head", "label", "value", "q"]]
    cells = [[str(c) if not isinstance(c, float) else f"{c:.3f}" for c in r]
             for r in shown.to_numpy(dtype=object).tolist()]  # fmt: skip
    columns = [str(c) for c in shown.columns]
    print_table(f"heads most like readers ({cfg.measure}, {cfg.metric})", columns, cells)
    print(f"report: {report.resolve()}")
    return table


def task(cfg: DictConfig) -> float | None:
    """Hydra entry: run, and return the value of the head that is most like readers."""
    run = HydraConfig.get()
    table = run_heads(
        typed(cfg, HeadsConfig),
        Path(run.runtime.output_dir),
        command=command_line("heads", list(run.overrides.task)),
        base=Path(get_original_cwd()),
        config_text=OmegaConf.to_yaml(cfg, resolve=True),
    )
    values = table["value"].dropna()
    return float(values.iloc[0]) if len(values) else None


def main(arguments: list[str]) -> int:
    """Run `gazeattn heads` with Hydra overrides."""
    return run_app("heads", task, arguments)
