"""The benchmark `reading`: every reading model on the tasks of a data set."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig, OmegaConf

from gazeattn import registry
from gazeattn.datamodules.reading_tasks import ReadingTask
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments._reading_facts import REGIMES, above, against, best_row, other_folds
from gazeattn.experiments.app import original_path, run_app
from gazeattn.experiments.benchmark_apps import this_call
from gazeattn.experiments.building import read_model, read_run, sized
from gazeattn.experiments.config import conf_folder, typed
from gazeattn.experiments.reading_data import TaskData, task_data
from gazeattn.experiments.reading_fitting import COLUMNS, PREDICTIONS, fit_and_predict
from gazeattn.experiments.reading_scores import ALL, Draws, best_of, over_folds, score_rows
from gazeattn.experiments.reading_train import check_model, ensure_encoder
from gazeattn.experiments.runs import begin, environment, write_environment
from gazeattn.experiments.schemas import ReadingBenchmarkConfig
from gazeattn.experiments.terminal import StageProgress, print_table
from gazeattn.models.reading.base import ReadingNetwork
from gazeattn.results import pack_rows, result_rows
from gazeattn.storage import read_parquet, write_json, write_parquet, write_text

log = logging.getLogger(__name__)
NAME = "reading"
POOLED = "+reader"
REFIT = "+val"
"""Ends the name of a model that is fitted again, once chosen, with the validation readings too."""
INTERVALS = "mean over folds and seeds; 95 % intervals over readers"


def task_options(dataset: str) -> dict[str, dict[str, Any]]:
    """Return what the tasks of a data set are made of, by the names of their files.

    Raises
    ------
    UnknownNameError
        There are none.
    """
    folder = conf_folder() / "experiment"
    found = {}
    for path in sorted((folder / dataset).glob("*.yaml")):
        node = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
        if isinstance(node, dict) and node.get("task"):
            found[path.stem] = {str(k): v for k, v in node["task"].items()}
    if not found:
        known = sorted({p.parent.name for p in folder.glob("*/*.yaml")})
        raise UnknownNameError("data set with tasks in reading", dataset, known)
    return found


def tasks_of(dataset: str, changes: Mapping[str, Any] | None = None) -> dict[str, ReadingTask]:
    """Return the tasks of a data set, with changes to their options."""
    options = task_options(dataset)
    return {n: ReadingTask.of({**t, **(changes or {})}) for n, t in options.items()}


def kind_of(name: str, cfg: ReadingBenchmarkConfig) -> str:
    """Return whether a row is of a model, of a baseline, or of a variant of a model."""
    if name in cfg.variants:
        return "variant"
    return "baseline" if name in cfg.baselines else "model"


def config_of(label: str, cfg: ReadingBenchmarkConfig) -> dict[str, Any]:
    """Return the configuration of a row: a model's, or a variant's with its changes.

    Raises
    ------
    UnknownNameError
        No such model, or the model has no such argument.
    DataError
        A variant does not say of which model it is.
    """
    if label not in cfg.variants:
        return sized(read_model(label), cfg.size.name)
    changes = dict(cfg.variants[label])
    if "of" not in changes:
        raise DataError(f"the variant {label} is of no model", expected="of: NAME of a model")
    config = sized(read_model(str(changes.pop("of"))), cfg.size.name)
    for key in changes:
        if key not in config:
            raise UnknownNameError(f"argument of {config['name']}", str(key), sorted(config))
    return {**config, **changes}


@dataclass
class Runner:
    """One task with all that its models share."""

    cfg: ReadingBenchmarkConfig
    data: TaskData
    folder: Path
    root: str | None
    fixed: dict[str, Any]
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def task(self) -> ReadingTask:
        """The task."""
        return self.data.task

    @property
    def folds(self) -> list[int]:
        """Folds that are wanted."""
        wanted = range(self.data.n_folds) if self.cfg.folds is None else self.cfg.folds
        return [int(f) for f in wanted]

    @property
    def again(self) -> list[str]:
        """Names of the models that are fitted a second time, with the validation readings."""
        return [n + REFIT for n in self.cfg.refit if n in self.cfg.models]

    def run(self, label: str, seed: int, fold: int) -> pd.DataFrame:
        """Return the predictions of one model, fitted now or before."""
        refit = label.endswith(REFIT)
        config = config_of(label.removesuffix(REFIT), self.cfg)
        folder = self.folder / "runs" / f"{label}_{fold}_{seed}"
        if (folder / "run.yaml").is_file() and read_run(folder) != config:
            raise DataError(
                f"the folder holds {label} in another configuration",
                source=folder,
                hint="remove it, or choose another folder with hydra.run.dir=",
            )
        return fit_and_predict(
            config, self.data, fold, folder,
            seed=seed, root=self.root, accelerator=self.cfg.accelerator, refit=refit,
            about={"dataset": self.cfg.dataset, "surprisal": self.cfg.surprisal},
        )  # fmt: skip

    def collect(self) -> None:
        """Read all predictions that are there; a model counts with seeds that have all folds."""
        self.tables = {}
        for label in (*self.cfg.models, *self.cfg.baselines, *self.again):
            parts = []
            for seed in self.seeds(label):
                paths = [
                    self.folder / "runs" / f"{label}_{f}_{seed}" / PREDICTIONS for f in self.folds
                ]
                if all(p.is_file() for p in paths):
                    parts += [read_parquet(p, "the table of predictions", COLUMNS) for p in paths]
            if parts:
                self.tables[label] = pd.concat(parts, ignore_index=True)
        for label in self.again:
            if label in self.tables:
                self.tables[label] = self._validated(label)
        for label in self.cfg.pooled:
            for name in (label, label + REFIT):
                if name in self.tables:
                    self.tables[name + POOLED] = pooled(self.tables[name])

    def _validated(self, label: str) -> pd.DataFrame:
        """Return the predictions of a refitted model, before whose refit validation was told."""
        own = self.tables[label]
        before = self.tables.get(label.removesuffix(REFIT))
        if before is None:
            return own
        seen = before["seed"].isin(own["seed"]) & (before["part"] == "val")
        return pd.concat([own, before[seen]], ignore_index=True)

    def released(self, name: str) -> str:
        """Return the fitted form of a chosen model that is tested: the refitted one if any."""
        pool = POOLED if name.endswith(POOLED) else ""
        again = name.removesuffix(POOLED) + REFIT + pool
        return again if again in self.tables else name

    def seeds(self, label: str) -> list[int]:
        """Return the seeds of a model: baselines without chance have one."""
        label = label.removesuffix(REFIT)
        kind = registry.reading_models.get(str(config_of(label, self.cfg)["name"]))
        fixed = kind.info.get("kind") == "baseline"
        return [int(self.cfg.seeds[0])] if fixed else [int(s) for s in self.cfg.seeds]


def pooled(table: pd.DataFrame) -> pd.DataFrame:
    """Return predictions averaged over the readings of a reader in the same part.

    Log odds are averaged for two classes, values else. It needs all readings of a reader at once
    and no label of them.
    """
    columns = [c for c in table if c == "p" or (str(c)[:1] == "p" and str(c)[1:].isdigit())]
    keys = [table[k] for k in ("fold", "seed", "part", "participant")]
    out = table.copy()
    odds = columns == ["p"] and bool(table["p"].between(0, 1).all())
    for column in columns:
        values = table[column].to_numpy(dtype=np.float64)
        if odds:
            values = np.clip(values, 1e-6, 1 - 1e-6)
            values = np.log(values / (1 - values))
        mean = pd.Series(values, index=table.index).groupby(keys).transform("mean")
        out[column] = 1 / (1 + np.exp(-mean)) if odds else mean
    return out


def published_tables(data: TaskData, folds: Iterable[int]) -> dict[str, pd.DataFrame]:
    """Return the test predictions that came with the data set, by model, with our targets.

    Those of other folds are left out, as ours are not there.
    """
    if data.published is None:
        return {}
    known = data.trials.table.set_index("trial")
    found = {}
    wanted = data.published["part"] == "test"
    wanted &= data.published["fold"].astype(str).isin([str(f) for f in folds])
    for name, rows in data.published[wanted].groupby("model"):
        rows = rows[rows["trial"].isin(known.index)]
        found[str(name)] = pd.DataFrame(
            {
                "fold": rows["fold"].astype(str),
                "seed": 0,
                "trial": rows["trial"],
                "participant": known["participant"].loc[rows["trial"]].to_numpy(),
                "regime": rows["regime"].to_numpy(),
                "part": "test",
                "y": known["y"].loc[rows["trial"]].to_numpy(dtype=np.float64),
                "p": rows["prediction"].to_numpy(dtype=np.float64),
            }
        ).reset_index(drop=True)
    return found


def summary(runner: Runner) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return all rows of a task, and what is said of its best model."""
    task, cfg = runner.task, runner.cfg
    draws = Draws.of(runner.data.trials.table["participant"], cfg.size.bootstrap, 0)
    theirs = published_tables(runner.data, runner.folds)
    rows: list[dict[str, Any]] = []
    kinds = {
        **{n: kind_of(n.removesuffix(POOLED).removesuffix(REFIT), cfg) for n in runner.tables},
        **dict.fromkeys(theirs, "published"),
    }
    test = {n: t[t["part"] == "test"] for n, t in runner.tables.items()}
    for name, table in {**test, **theirs}.items():
        pool = name.endswith(POOLED)
        convention = INTERVALS + ("; averaged over the reader's readings" if pool else "")
        if REFIT in name:
            convention += "; fitted again with the validation readings once chosen"
        for row in score_rows(table, task, draws):
            rows.append({**runner.fixed, "model": name, "kind": kinds[name],
                         "convention": convention, **row})  # fmt: skip
        if name in runner.tables and REFIT not in name:
            valid = runner.tables[name]
            value, _ = over_folds(valid[valid["part"] == "val"], task.metric, ALL)
            rows.append({**runner.fixed, "model": name, "kind": kinds[name], "regime": ALL,
                         "fold": "mean", "metric": f"{task.metric}_validation", "value": value,
                         "convention": "validation part"})  # fmt: skip
    facts: dict[str, Any] = {}
    mine = {n: t for n, t in runner.tables.items() if kinds[n] == "model" and REFIT not in n}
    wanted = {n: t[t["part"] == "val"] for n, t in mine.items()}
    single = {n: t for n, t in wanted.items() if not n.endswith(POOLED)}
    for end, models in (("", wanted), ("_single", single)):
        if models:
            name = runner.released(best_of(models, task.metric, ALL)[0])
            facts[f"best{end}"] = best_row(name, test[name], task.metric)
            facts[f"paired{end}"] = against(test[name], theirs, task.metric, draws)
            base = {n: test[n] for n in runner.tables if kinds[n] == "baseline"}
            facts[f"paired_baselines{end}"] = above(test[name], base, task.metric, draws)
    return result_rows(rows, ("kind",)), facts


def publish(runner: Runner, rows: pd.DataFrame, facts: Mapping[str, Any]) -> Path:
    """Write the table of a task as JSON."""
    task = runner.task
    shared = ["dataset", "task", "split", "size"]
    done = {n: sorted({int(s) for s in t["seed"]}) for n, t in runner.tables.items()}
    content = {
        "dataset": runner.fixed["dataset"],
        "task": task.name,
        "kind": task.kind,
        "metric": task.metric,
        "split": runner.fixed["split"],
        "size": runner.fixed["size"],
        "folds": runner.folds,
        "seeds": done,
        "trials": len(runner.data.trials),
        "readers": int(runner.data.trials.table["participant"].nunique()),
        **({"other_folds": dict(task.other_folds)} if task.other_folds else {}),
        **facts,
        **pack_rows(rows.drop(columns=shared)),
    }
    path = Path(runner.cfg.publish or runner.folder) / f"{task.name}.json"
    write_json(path, content)
    return path


def plan_of(runner: Runner) -> Iterable[tuple[str, int, int]]:
    """Return what is to be fitted: cheap and first seeds first, so that a table is soon whole."""
    cfg = runner.cfg
    names = (*cfg.baselines, *cfg.models, *runner.again)
    kinds = {n: str(config_of(n.removesuffix(REFIT), cfg)["name"]) for n in names}
    networks = {
        n: issubclass(registry.reading_models.get(k).obj, ReadingNetwork) for n, k in kinds.items()
    }
    for learned in (False, True):
        for position in range(len(runner.cfg.seeds)):
            for name in names:
                seeds = runner.seeds(name)
                if networks[name] is learned and position < len(seeds):
                    yield from ((name, seeds[position], f) for f in runner.folds)


def run_task(
    cfg: ReadingBenchmarkConfig, name: str, task: ReadingTask, folder: Path,
    *, root: str | None, command: str, commit: str, bar: StageProgress,
) -> tuple[pd.DataFrame, dict[str, Any]]:  # fmt: skip
    """Do what is missing of one task, and write its table and report."""
    bar.stage(f"{task.name}: reading the data set")
    data = task_data(task, cfg.dataset, root, surprisal=cfg.surprisal)
    first = data.split(0)
    fixed = {
        "dataset": str(cfg.dataset["name"]),
        "task": task.name,
        "split": f"{task.folds} folds, by {task.by}, {first.digest[:12]}",
        "size": cfg.size.name,
        "command": command,
        "commit": commit,
    }
    runner = Runner(cfg, data, folder / name, root, fixed)
    runner.folder.mkdir(parents=True, exist_ok=True)
    write_text(runner.folder / "lost.csv", data.lost.to_frame().to_csv(index=False))
    wanted = list(plan_of(runner)) if cfg.fit else []
    for done, (label, seed, fold) in enumerate(wanted, 1):
        bar.update(f"{task.name}: {label}, fold {fold}, seed {seed}", done, len(wanted))
        try:
            runner.run(label, seed, fold)
        except DataError as error:
            if seed == runner.seeds(label)[0] and fold == runner.folds[0]:
                raise
            raise DataError(f"{label}, fold {fold}, seed {seed}: {error}") from error
        log.info("%s: %s, fold %s, seed %s", task.name, label, fold, seed)
    runner.collect()
    if not runner.tables:
        raise DataError(
            "no model has predictions for all folds", source=runner.folder, hint="fit=true"
        )
    rows, facts = summary(runner)
    write_parquet(runner.folder / "results.parquet", rows)
    publish(runner, rows, facts)
    _report(runner, rows, facts, command)
    return rows, facts


def _report(runner: Runner, rows: pd.DataFrame, facts: Mapping[str, Any], command: str) -> None:
    from gazeattn.datamodules.reading_aggregates import aggregates
    from gazeattn.report.reading import write_task_report

    numbers = aggregates(runner.data.trials, ["counts", "meziere"])
    numbers.index = pd.Index(runner.data.trials.trial)
    shown = {}
    for name, table in runner.tables.items():
        part = table[table["part"] == "test"].copy()
        for column in ("fixations", "words", "duration_mean", "off_text"):
            part[column] = numbers[column].reindex(part["trial"]).to_numpy()
        shown[name] = part
    write_task_report(
        rows,
        shown,
        runner.folder,
        command=command,
        metric=runner.task.metric,
        best=facts.get("best", {}),
        paired=facts.get("paired", {}),
        baselines=facts.get("paired_baselines", {}),
        notes=other_folds(runner.task),
    )


def run_benchmark(
    cfg: ReadingBenchmarkConfig, folder: Path, *, command: str, base: Path, config_text: str
) -> dict[str, pd.DataFrame]:
    """Do what is missing of a benchmark; return the rows of each task."""
    dataset = str(cfg.dataset["name"])
    tasks = task_options(dataset)
    for name in cfg.tasks or ():
        if name not in tasks:
            raise UnknownNameError(f"task of {dataset}", name, tasks)
    chosen = {
        n: ReadingTask.of({**t, **cfg.task})
        for n, t in tasks.items()
        if cfg.tasks is None or n in cfg.tasks
    }
    root = original_path(cfg.root, base)
    cfg.publish = original_path(cfg.publish, base)
    for label in dict.fromkeys((*cfg.models, *cfg.baselines, *cfg.pooled, *cfg.refit)):
        config = config_of(label, cfg)
        for task in chosen.values():
            kind = check_model(config, task)
            if label in cfg.refit and issubclass(kind, ReadingNetwork):
                raise DataError(
                    f"{label} stops by its validation readings: it cannot be fitted with them",
                    expected="refit= names estimators",
                )
        ensure_encoder(config, root, cfg.fetch)
    if not cfg.seeds or min(cfg.seeds) < 0:
        raise DataError("a benchmark needs a seed", expected="seeds=[0], 0 or more",
                        found=cfg.seeds)  # fmt: skip
    if not [m for m in cfg.models if m not in cfg.variants]:
        raise DataError("a benchmark needs a model", expected="models=[extra_trees]",
                        hint="variants are rows beside the models that they are of")  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    begin(folder, config_text)
    facts = environment()
    write_environment(folder, facts, command)
    found = {}
    with StageProgress() as bar:
        for name, task in chosen.items():
            rows, _ = run_task(
                cfg, name, task, folder,
                root=root, command=command, commit=str(facts.get("commit") or ""), bar=bar,
            )  # fmt: skip
            found[name] = rows
    write_json(
        folder / "summary.json",
        {"command": command, "rows": {n: len(r) for n, r in found.items()}},
    )
    return found


def task(cfg: DictConfig) -> None:
    """Hydra entry: run, and print the headline of each task."""
    settings = typed(cfg, ReadingBenchmarkConfig)
    call = this_call(NAME)
    found = run_benchmark(
        settings,
        call.folder,
        command=call.command.replace(" fit=false", ""),  # what it takes to make it all again
        base=call.base,
        config_text=OmegaConf.to_yaml(cfg, resolve=True),
    )
    for name, rows in found.items():
        metric = str(rows["metric"].iloc[0])
        metric = next(
            (m for m in rows["metric"] if f"{m}_validation" in set(rows["metric"])), metric
        )
        table = rows[(rows["metric"] == metric) & (rows["fold"] == "mean")]
        wide = table.pivot_table(index=["kind", "model"], columns="regime", values="value")
        wide = wide.reindex(columns=[r for r in REGIMES if r in wide])
        lines = [
            [f"{model} ({kind})", *[f"{v:.3f}" if v == v else "–" for v in values]]
            for (kind, model), values in zip(wide.index, wide.to_numpy(), strict=True)
        ]
        print_table(f"{name}: {metric}, test", ["model", *map(str, wide.columns)], lines)
        print(f"report: {(call.folder / name / 'report.html').resolve()}")


def main(arguments: list[str]) -> int:
    """Run `gazeattn benchmark reading` with Hydra overrides."""
    return run_app(f"benchmark_{NAME}", task, arguments)
