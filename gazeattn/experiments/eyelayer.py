"""The benchmark `eyelayer`: does gaze help a language model to summarise code?"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig, OmegaConf

from gazeattn.experiments._eyelayer_rows import (
    BASELINES,
    function_words,
    nearest_summaries,
    statement,
    table_rows,
)
from gazeattn.experiments._eyelayer_run import (
    FACTS,
    PREDICTIONS,
    EyeData,
    build,
    equal_rank,
    fit_row,
    read_data,
    row_settings,
    score_texts,
    scored,
)
from gazeattn.experiments.app import original_path, run_app
from gazeattn.experiments.benchmark_apps import this_call
from gazeattn.experiments.eyelayer_attention import attention_rows, said
from gazeattn.experiments.goals import token_vectors
from gazeattn.experiments.runs import begin, environment, write_environment
from gazeattn.experiments.terminal import StageProgress, print_table
from gazeattn.lm import LanguageModel
from gazeattn.results import pack_rows, result_rows
from gazeattn.storage import read_parquet, write_json, write_parquet, write_text

log = logging.getLogger(__name__)
NAME = "eyelayer"
EXTRA = ("kind", "reference", "seeds", "spread")
CONTROLS = ("lora", "lambda_0", "shuffled_gaze", "prior_length", "prior_recency", "k_1")
NOT_SETTINGS = ("defaults", "sizes", "hydra", "size", "debug", "publish", "root", "accelerator",
                "fetch", "fit", "lm")  # fmt: skip


def sized_config(cfg: DictConfig, keys: Sequence[str]) -> dict[str, Any]:
    """Return the settings with the reductions of the size, under those that the user has set."""
    plain = OmegaConf.create({str(k): v for k, v in cfg.items() if k not in NOT_SETTINGS})
    made = OmegaConf.merge(plain, (cfg.get("sizes") or {}).get(str(cfg.size.name)) or {})
    for key in keys:
        if key.split(".")[0] in made:
            OmegaConf.update(made, key, OmegaConf.select(cfg, key), merge=False)
    found = OmegaConf.to_container(made, resolve=True)
    assert isinstance(found, dict)
    return {**{str(k): v for k, v in found.items()}, "lm": str(cfg.lm.name)}


def run_eyelayer(
    folder: Path, config: Mapping[str, Any], *, root: str | None = None,
    publish: str | None = None, command: str = "", size: str = "cpu", accelerator: str = "auto",
    fit: bool = True,
) -> pd.DataFrame:  # fmt: skip
    """Return the result rows; rows that the folder holds are not trained again.

    The table is written anew after every finished row.

    Parameters
    ----------
    folder
    config
        As conf/benchmark_eyelayer.yaml has it, with a size.
    root, publish
        Data folder, and folder for the table as JSON.
    command, size
        For the rows.
    accelerator
        Of Lightning.
    fit
        False: what is finished is collected, nothing is trained.
    """

    def load() -> LanguageModel:
        return LanguageModel.load(str(config["lm"]), root=root)

    folder.mkdir(parents=True, exist_ok=True)
    rows = pd.DataFrame()
    with StageProgress() as bar:
        bar.stage("reading code, summaries and gaze")
        data = read_data(config, load(), root)
        write_text(folder / "lost.csv", data.lost.to_frame().to_csv(index=False))
        vectors = scorer_of(config["scorer"], root)
        base = baseline_tables(folder / "baselines", data, config, load, vectors)
        wanted = row_settings(config)
        equal = (
            equal_rank(config, load) if any(s["rank"] is None for s, _ in wanted.values()) else 0
        )
        units = [(n, k) for k in range(len(config["seeds"])) for n in wanted if k < wanted[n][1]]
        for done, (name, k) in enumerate(units, 1):
            seed = int(config["seeds"][k])
            bar.stage(f"{name}, seed {seed} ({done} of {len(units)})")
            settings = dict(wanted[name][0])
            if settings["rank"] is None:
                settings["rank"] = equal
            place = folder / "runs" / f"{name}_{seed}"
            if not fit and not (place / PREDICTIONS).is_file():
                continue
            had = (place / PREDICTIONS).is_file()
            fit_row(name, settings, config, data, place, seed, load, root=root,
                    accelerator=accelerator, vectors=vectors)  # fmt: skip
            if not had or done == len(units):
                rows = collect(folder, config, data, base, wanted, command, size, publish)
        if config["attention"]:
            bar.stage("attention on code before and after training")
            first = int(config["seeds"][0])
            saved = {n: folder / "runs" / f"{n}_{first}" / "model" for n in ("eyelayer", *CONTROLS)}
            saved = {n: p for n, p in saved.items() if n in wanted and p.is_dir()}
            if saved:
                table = attention_rows(folder / "attention", saved, config, root)
                write_parquet(folder / "attention.parquet", table)
                rows = pd.DataFrame()
    if not len(rows):
        rows = collect(folder, config, data, base, wanted, command, size, publish)
    return rows


def scorer_of(name: str | None, root: str | None) -> Any:
    """Return the vectors of BERTScore, or None."""
    if name is None:
        return None
    from gazeattn.datamodules.reading_texts import TextEncoder

    return token_vectors(TextEncoder(str(name), root=root))


def baseline_tables(
    folder: Path, data: EyeData, config: Mapping[str, Any], load: Any, vectors: Any
) -> dict[str, pd.DataFrame]:
    """Return the test tables of what needs no training: the model as it is, names, neighbours."""
    out = {}
    for name in BASELINES:
        path = folder / f"{name}.parquet"
        if path.is_file():
            found = pd.read_parquet(path)
            if found["id"].tolist() == [e.id for e in data.test]:
                out[name] = found
                continue
        if name == "untrained":
            model = build({**config["settings"], "prior": None, "rank": 1}, load(), 0)
            found = scored(model, data, config, vectors)
        elif name == "function_name":
            written = [function_words(n) for n in data.table["name"]]
            found = score_texts(data, written, vectors)
        else:
            known = [e.code for e in data.train]
            texts = [e.text for e in data.train]
            written = nearest_summaries(known, texts, data.table["code"].tolist())
            found = score_texts(data, written, vectors)
        write_parquet(path, found)
        out[name] = found
    return out


def collect(
    folder: Path, config: Mapping[str, Any], data: EyeData, base: Mapping[str, pd.DataFrame],
    wanted: Mapping[str, tuple[dict[str, Any], int]], command: str, size: str, publish: str | None,
) -> pd.DataFrame:  # fmt: skip
    """Return the rows of what is finished, and write table and page."""
    tables: dict[str, list[pd.DataFrame]] = {n: [t] for n, t in base.items()}
    kinds = dict.fromkeys(base, "baseline")
    gaze: dict[str, list[float]] = {}
    facts = []
    for name, (_, seeds) in wanted.items():
        parts = []
        for seed in config["seeds"][:seeds]:
            place = folder / "runs" / f"{name}_{seed}"
            if not (place / PREDICTIONS).is_file():
                continue
            parts.append(pd.read_parquet(place / PREDICTIONS))
            known = json.loads((place / FACTS).read_text(encoding="utf-8"))
            facts.append(known)
            if "gaze_kl" in known:
                gaze.setdefault(name, []).append(float(known["gaze_kl"]))
        if parts:
            tables[name] = parts
            kinds[name] = "control" if name in CONTROLS else "model"
    fixed = {
        "dataset": config["summaries"], "task": NAME, "size": size,
        "split": "by project, pairs by chance", "regime": "unseen_project", "command": command,
        "commit": environment().get("commit") or "",
    }  # fmt: skip
    rows = result_rows(table_rows(tables, kinds, gaze, fixed, int(config["draws"])), EXTRA)
    write_parquet(folder / "results.parquet", rows)
    write_text(folder / "runs.csv", pd.DataFrame(facts).to_csv(index=False))
    says = statement(rows)
    human = None
    if (folder / "attention.parquet").is_file():
        human = read_parquet(folder / "attention.parquet", "the table of attention")
        says += said(human)
    training = config["training"]
    steps = -(-len(data.train) // int(training["batch_size"])) * int(training["max_epochs"])
    about = {
        "lm": config["lm"], "summaries": config["summaries"], "gaze": config["gaze"],
        "size": size, **data.facts, "steps": steps, "seeds": len(config["seeds"]),
    }  # fmt: skip
    write_json(folder / "summary.json", {**about, "command": command, "says": says})
    if publish is not None:
        packed = pack_rows(rows.drop(columns=["dataset", "task", "size"]))
        packed["rows"] = [_named(r) for r in packed["rows"]]
        content = {**about, "says": says, "attention": _plain_rows(human), **packed}
        write_json(Path(publish) / f"{NAME}.json", content)
    from gazeattn.report.eyelayer import write_eyelayer_page

    write_eyelayer_page(
        rows, folder, facts=about, says=says, command=command, attention=human,
        examples=examples_of(tables), curves=curves_of(folder, wanted, config),
    )  # fmt: skip
    return rows


def _plain_rows(table: pd.DataFrame | None) -> list[dict[str, Any]]:
    if table is None:
        return []
    return [
        {str(k): float(f"{v:.6g}") if isinstance(v, float) else v for k, v in r.items() if v == v}
        for r in table.to_dict("records")
    ]


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row under the names of the table: name, mean, interval."""
    out = dict(row)
    made: dict[str, Any] = {"name": out.pop("model"), "mean": out.pop("value", None)}
    low, high = out.pop("low", None), out.pop("high", None)
    if low is not None:
        made["interval"] = [low, high]
    return {**made, **out}


def examples_of(tables: Mapping[str, Sequence[pd.DataFrame]], n: int = 8) -> list[dict[str, str]]:
    """Return some test pairs with what rows write, for the page."""
    shown = [m for m in ("untrained", "lora", "lambda_0", "eyelayer") if m in tables]
    first = tables[shown[0]][0]
    picks = np.random.default_rng(1).permutation(len(first))[:n]
    return [
        {"function": str(first["id"].iloc[i]), "true": str(first["true"].iloc[i]),
         **{m: str(tables[m][0]["written"].iloc[i]) for m in shown}}
        for i in picks
    ]  # fmt: skip


def curves_of(
    folder: Path, wanted: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, pd.DataFrame]:
    """Return the curve of stage A of each row on its first seed."""
    out = {}
    for name in wanted:
        path = folder / "runs" / f"{name}_{config['seeds'][0]}" / "stage_a.csv"
        if path.is_file():
            out[name] = pd.read_csv(path)
    return out


def _task(cfg: DictConfig) -> None:
    call = this_call(NAME)
    begin(call.folder, OmegaConf.to_yaml(cfg, resolve=True))
    write_environment(call.folder, environment(), call.command)
    root = original_path(cfg.root, call.base)
    rows = run_eyelayer(
        call.folder, sized_config(cfg, call.keys), root=root,
        publish=original_path(cfg.publish, call.base), command=call.command,
        size=str(cfg.size.name), accelerator=str(cfg.accelerator), fit=bool(cfg.fit),
    )  # fmt: skip
    show(rows)
    print(f"report: {(call.folder / 'report.html').resolve()}")


def show(rows: pd.DataFrame) -> None:
    """Print the table."""
    plain = rows[rows["reference"] == ""]
    metrics = [m for m in ("nll", "bleu4_codexglue", "bleu4_sacre", "rouge_l", "bertscore_f1",
                           "gaze_kl") if (plain["metric"] == m).any()]  # fmt: skip
    lines = []
    for name in dict.fromkeys(plain["model"]):
        mine = plain[plain["model"] == name].set_index("metric")
        cells = [
            f"{mine.loc[m, 'value']:.3f}"
            + (f" [{mine.loc[m, 'low']:.3f}, {mine.loc[m, 'high']:.3f}]"
               if mine.loc[m, "low"] == mine.loc[m, "low"] else "")
            if m in mine.index else "–"
            for m in metrics
        ]  # fmt: skip
        lines.append([f"{name} ({mine['kind'].iloc[0]})", *cells])
    print_table("summaries of functions of unseen projects", ["row", *metrics], lines)
    for sentence in statement(rows):
        print(sentence)


def main(arguments: list[str]) -> int:
    """Run `gazeattn benchmark eyelayer` with Hydra overrides."""
    return run_app(f"benchmark_{NAME}", _task, arguments)
