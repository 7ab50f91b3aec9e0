"""The experiment `benchmark scanpath`: all models on one data set, row by row, resumable."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig, OmegaConf

from gazeattn.datamodules import ScanpathDataModule, Scanpaths, scanpaths_of
from gazeattn.datasets.splits import split
from gazeattn.errors import DataError
from gazeattn.experiments.app import original_path, run_app
from gazeattn.experiments.benchmark_apps import this_call
from gazeattn.experiments.building import (
    build,
    channels_of,
    ensure_weights,
    feature_spec,
    load_network,
    read_model,
    scanpath_kind,
    sized,
    training_of,
    with_features,
    write_run,
)
from gazeattn.experiments.compare import load_dataset
from gazeattn.experiments.config import typed
from gazeattn.experiments.runs import begin, environment, write_environment
from gazeattn.experiments.scanpath_rows import (
    convention_of,
    explained_rows,
    forced_rows,
    human_rows,
    pair_rows,
    pooled_rows,
    shape_rows,
)
from gazeattn.experiments.scanpath_settings import (
    COUNTS,
    Settings,
    check_folder,
    check_published,
    keep,
    kept,
)
from gazeattn.experiments.schemas import BenchmarkConfig
from gazeattn.experiments.terminal import StageProgress
from gazeattn.experiments.training import train as train_network
from gazeattn.losses import LossLog
from gazeattn.metrics.scanpath import load_clusters, save_clusters
from gazeattn.models.scanpath.base import NetworkModel, ScanpathModel
from gazeattn.models.scanpath.evaluation import PairScorer, draw, teacher_forced
from gazeattn.results import append_rows, pack_rows, result_rows, unpack_rows
from gazeattn.storage import write_json, write_parquet, write_text

log = logging.getLogger(__name__)
EXTRA = ("reference", "kind")
REFERENCE, GOLD, HUMAN = "center_bias", "kde_gold", "human"
TASK = "scanpath"


@dataclass
class Bench:
    """What all models of one benchmark share."""

    cfg: BenchmarkConfig
    folder: Path
    train: Scanpaths
    valid: Scanpaths
    test: Scanpaths
    fixed: dict[str, Any]
    root: str | None
    progress: Callable[[str], Callable[[int, int], None]]
    rows: pd.DataFrame = field(default_factory=lambda: result_rows([], EXTRA))
    _scorer: PairScorer | None = None

    @property
    def scorer(self) -> PairScorer:
        """Pairs of people and their clusters, made once and kept in the folder."""
        if self._scorer is None:
            path = self.folder / "clusters.npz"
            known = load_clusters(path) if path.exists() else {}
            self._scorer = PairScorer(self.test, clusters=known, workers=self.cfg.workers)
            if set(self._scorer.clusters) != set(known):
                save_clusters(self._scorer.clusters, path)
        return self._scorer

    @property
    def table(self) -> Path:
        """The rows of the run folder."""
        return self.folder / "results.parquet"

    def finished(self, label: str, seed: int) -> bool:
        """Whether all rows of a model and seed are there."""
        mine = (self.rows["model"] == label) & (self.rows["seed"].astype(str) == str(seed))
        return bool(mine.any())

    def add(self, label: str, seed: int, kind: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append the rows of a finished model and seed to the tables on disk."""
        records = [
            {
                **self.fixed,
                "model": label,
                "seed": seed,
                "kind": kind,
                "reference": "",
                "convention": convention_of(str(r["metric"]), self.cfg.grid),
                **r,
            }
            for r in rows
        ]
        new = result_rows(records, EXTRA)
        self.rows = append_rows(self.table, new) if self.table.exists() else _first(self, new)
        publish(self)


def _first(bench: Bench, new: pd.DataFrame) -> pd.DataFrame:
    rows = pd.concat([bench.rows, new], ignore_index=True) if len(bench.rows) else new
    write_parquet(bench.table, rows)
    return rows


def published_path(bench: Bench) -> Path:
    """Return the JSON file of the table."""
    place = bench.cfg.publish or str(bench.folder)
    return Path(place) / f"{TASK}_{bench.fixed['dataset']}.json"


def publish(bench: Bench) -> None:
    """Write the table as JSON, rows in the order in which they were finished."""
    settings = kept(bench.folder)
    there = set(bench.rows["model"])
    content = {
        "dataset": bench.fixed["dataset"],
        "task": TASK,
        "split": bench.fixed["split"],
        "size": bench.fixed["size"],
        **counts_of(bench.test),
        "settings": settings.shared,
        "models": {k: v for k, v in settings.digests().items() if k in there},
        **pack_rows(bench.rows.drop(columns=["dataset", "task", "split", "size"])),
    }
    write_json(published_path(bench), content)


def counts_of(paths: Scanpaths) -> dict[str, int]:
    """Return how many people, stimuli, scanpaths and fixations there are."""
    numbers = (len(set(paths.participant)), len(paths.stimuli), len(paths), len(paths.x))
    return dict(zip(COUNTS, numbers, strict=True))


def earlier_rows(bench: Bench, settings: Settings) -> pd.DataFrame:
    """Return the rows that the run folder or the published table holds for these settings.

    Raises
    ------
    DataError
        Rows or files are those of other settings.
    """
    path = published_path(bench)
    content: dict[str, Any] = {}
    if path.is_file():
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError("the table cannot be read", source=path, found=error) from error
    if bench.table.exists():
        rows = pd.read_parquet(bench.table)
        _check_fixed(bench, rows, bench.table)
        _check_fixed(bench, pd.DataFrame([content] if content else []), path)
    elif not content:
        rows = result_rows([], EXTRA)
    else:
        shared = {k: content.get(k) for k in ("dataset", "task", "split", "size")}
        rows = result_rows([{**shared, **r} for r in unpack_rows(content)], EXTRA)
        rows["reference"] = rows["reference"].astype(object).where(rows["reference"].notna(), "")
        _check_fixed(bench, rows, path)
    check_folder(bench.folder, rows if bench.table.exists() else rows[:0], settings)
    if content:
        check_published(path, content, settings, counts_of(bench.test))
    return rows


def _check_fixed(bench: Bench, rows: pd.DataFrame, source: Path) -> None:
    for column in ("dataset", "split", "size"):
        if column not in rows:
            continue
        other = rows[column].astype(str) != str(bench.fixed[column])
        if other.any():
            raise DataError(
                f"the table holds rows of another {column}", source=source,
                expected=bench.fixed[column], found=str(rows.loc[other, column].iloc[0]),
                hint="choose another folder with hydra.run.dir= and publish=",
            )  # fmt: skip


# -- one model ------------------------------------------------------------------------------------


def fitted(bench: Bench, label: str, seed: int) -> tuple[ScanpathModel, Scanpaths]:
    """Return a model that is ready to predict the test part, and that part with its features."""
    config = sized(read_model(label), bench.cfg.size.name)
    learns = issubclass(scanpath_kind(config), NetworkModel)
    spec = feature_spec(config)
    parts = [bench.train, bench.valid, bench.test] if learns else [bench.test]
    parts = with_features(parts, spec, bench.root, bench.progress(f"{label}: pictures"))
    test = parts[-1]
    if not learns:
        model = build(config, channels_of(test) if spec else None, seed)
        model.fit_statistics(bench.train)
        if model.privileged:
            model.observe(bench.test)
        return model, test
    folder = bench.folder / "runs" / f"{label}_{seed}"
    if not (folder / "trained.json").exists():
        network = build(config, channels_of(test) if spec else None, seed)
        assert isinstance(network, NetworkModel)
        network.fit_statistics(parts[0])
        folder.mkdir(parents=True, exist_ok=True)
        write_run(folder, config, seed)
        settings = training_of(config)
        data = ScanpathDataModule(
            parts[0],
            parts[1],
            batch_size=settings.batch_size,
            by_stimulus=network.whole_stimuli,
            seed=seed,
        )
        done = train_network(
            network, data, folder, settings, seed=seed, accelerator=bench.cfg.accelerator
        )
        best = float(done.curves["val/loss"].min())
        write_json(folder / "trained.json", {"epochs": done.epochs, "val/loss": best})
    return load_network(config, folder), test


def forced(
    bench: Bench, label: str, seed: int, ready: tuple[ScanpathModel, Scanpaths] | None = None
) -> pd.DataFrame | None:
    """Return the teacher-forced scores of a model, from the folder where they are there.

    `ready` is what `fitted` returned, where the caller has it: fitting can take minutes.
    """
    path = bench.folder / "teacher_forced" / f"{label}_{seed}.parquet"
    if path.exists():
        return pd.read_parquet(path)
    model, test = ready or fitted(bench, label, seed)
    if not model.density:
        return None
    found = teacher_forced(model, test, _grid(bench), bench.progress(f"{label}: densities"))
    write_parquet(path, found)
    return found


def _grid(bench: Bench) -> tuple[int, int]:
    rows, columns = bench.cfg.grid
    return int(rows), int(columns)


def run_model(bench: Bench, label: str, seed: int, kind: str) -> None:
    """Train where needed, score, and append the rows of one model and seed."""
    cfg = bench.cfg
    model, test = fitted(bench, label, seed)
    options: dict[str, Any] = {"draws": cfg.size.bootstrap, "seed": seed}
    rows: list[dict[str, Any]] = []
    ours = forced(bench, label, seed, (model, test))
    reference = forced(bench, REFERENCE, 0)
    if ours is not None and reference is not None:
        others = {}
        for name in (*cfg.baselines, *cfg.ceilings):
            found = None if name in (label, HUMAN) else forced(bench, name, 0)
            if found is not None:
                others[name] = found
        shown = others if kind == "model" else {}
        rows += forced_rows(ours, reference, others=shown, **options)
        if GOLD in cfg.ceilings and label != GOLD:
            gold = forced(bench, GOLD, 0)
            assert gold is not None
            rows += explained_rows(ours, reference, gold, **options)
    drawn = draw(model, test, cfg.size.samples, seed, bench.progress(f"{label}: samples"))
    write_parquet(bench.folder / "samples" / f"{label}_{seed}.parquet", samples_table(drawn))
    scores = bench.scorer(drawn, durations=model.durations)
    rows += pair_rows(scores, splits=cfg.splits, **options)
    rows += shape_rows(drawn, test, model.durations)
    rows += pooled_rows(drawn, test, **options)
    bench.add(label, seed, kind, rows)


def run_human(bench: Bench) -> None:
    """Append the rows of people against people: the ceiling of the means."""
    copies: dict[str, list[Any]] = {
        n: [] for n in bench.test.stimuli
    }  # people are scored among themselves
    for name, path in zip(bench.test.stimulus, bench.test.paths(), strict=True):
        copies[name].append(path)
    scores = bench.scorer({n: p[:1] for n, p in copies.items()}, durations=True)
    rows = human_rows(scores, draws=bench.cfg.size.bootstrap, seed=0)
    timed = bool(np.isfinite(bench.test.duration).any())
    rows += [r for r in shape_rows(copies, bench.test, timed) if str(r["metric"]).endswith("_mean")]
    bench.add(HUMAN, 0, "ceiling", [r for r in rows if not np.isnan(r["value"])])


def samples_table(drawn: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Return samples as a table of fixations: stimulus, sample, index, x, y, duration."""
    parts = []
    for name, paths in drawn.items():
        for k, path in enumerate(paths):
            timed = path.shape[1] == 3
            parts.append(
                pd.DataFrame(
                    {
                        "stimulus": name,
                        "sample": k,
                        "index": np.arange(len(path)),
                        "x": path[:, 0],
                        "y": path[:, 1],
                        "duration": path[:, 2] if timed else np.full(len(path), np.nan),
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


# -- the experiment -------------------------------------------------------------------------------


def limited(paths: Scanpaths, stimuli: int | None) -> Scanpaths:
    """Return the scanpaths of the first so many stimuli."""
    if stimuli is None:
        return paths
    names = set(list(paths.stimuli)[:stimuli])
    return paths.take(np.array([s in names for s in paths.stimulus], dtype=bool))


def check(cfg: BenchmarkConfig) -> None:
    """Raise for an unknown model or a number that cannot be used, before any work."""
    for label in (*cfg.models, *cfg.baselines, *cfg.ceilings):
        config = sized(read_model(label), cfg.size.name)
        scanpath_kind(config)
        if "training" in config:
            training_of(config)
    if HUMAN in (*cfg.models, *cfg.baselines):
        raise DataError(
            f"{HUMAN} is a ceiling and no model that is compared",
            hint="Its rows are in every table: leave it out of models= and baselines=",
        )
    if len(cfg.grid) != 2 or min(cfg.grid) < 2:
        raise DataError("grid is wrong", expected="[rows, columns] of 2 or more", found=cfg.grid)
    for key, value in (("size.samples", cfg.size.samples), ("splits", cfg.splits)):
        if value < 1:
            raise DataError(f"{key} is too small", expected="at least 1", found=value)
    if not cfg.seeds:
        raise DataError("a benchmark needs a seed", expected="seeds=[0]")


def run_benchmark(
    cfg: BenchmarkConfig, folder: Path, *, command: str, base: Path, config_text: str
) -> Path:
    """Do what is missing of a benchmark, and write table and report.

    Returns
    -------
    Path
        The report.
    """
    check(cfg)
    folder.mkdir(parents=True, exist_ok=True)
    root = original_path(cfg.root, base)
    cfg.publish = original_path(cfg.publish, base)
    lost = LossLog()
    labels = (*cfg.models, *cfg.baselines, *cfg.ceilings)
    configs = {n: sized(read_model(n), cfg.size.name) for n in (REFERENCE, *labels)}
    ensure_weights(configs.values(), root, cfg.fetch)
    with StageProgress() as bar:
        bar.stage("reading the data set")
        dataset = load_dataset(cfg.dataset, root, base)
        paths = scanpaths_of(dataset, shortest=cfg.shortest, lost=lost)
        divided = split(
            dataset, by=cfg.split.by, shares=tuple(cfg.split.shares), seed=cfg.split.seed
        )
        parts = [
            limited(paths.part(divided, p), cfg.size.stimuli) for p in ("train", "val", "test")
        ]
        facts = environment()
        fixed = {
            "dataset": dataset.name,
            "task": TASK,
            "split": f"by {cfg.split.by}, seed {cfg.split.seed}, {divided.digest[:12]}",
            "regime": f"unseen_{cfg.split.by}",
            "size": cfg.size.name,
            "command": command,
            "commit": facts.get("commit") or "",
        }

        def progress(what: str) -> Callable[[int, int], None]:
            return lambda done, total: bar.update(what, done, total)

        train, valid, test = parts
        bench = Bench(cfg, folder, train, valid, test, fixed, root, progress)
        settings = Settings.of(asdict(cfg), configs)
        bench.rows = earlier_rows(bench, settings)
        keep(folder, settings)  # what stands in the folder is from here on that of this command
        begin(folder, config_text)
        divided.save(folder / "split.json")
        write_environment(folder, facts, command)
        write_text(folder / "lost.csv", lost.to_frame().to_csv(index=False))
        plan = [(n, 0, "baseline") for n in dict.fromkeys([REFERENCE, *cfg.baselines])]
        plan += [(n, 0, "ceiling") for n in cfg.ceilings if n != HUMAN]
        plan += [(n, s, "model") for s in cfg.seeds for n in cfg.models]
        for label, seed, kind in plan:
            if bench.finished(label, seed):
                log.info("%s, seed %s: there already", label, seed)
                continue
            log.info("%s, seed %s", label, seed)
            run_model(bench, label, seed, kind)
        if not bench.finished(HUMAN, 0):
            run_human(bench)
        publish(bench)
    from gazeattn.report.benchmark import write_benchmark_report

    report = write_benchmark_report(bench.rows, folder, bench.test, command=command)
    write_json(
        folder / "summary.json",
        {"rows": len(bench.rows), "table": str(published_path(bench)), "command": command},
    )
    return report


def task(cfg: DictConfig) -> None:
    """Hydra entry: run, and print the table."""
    settings = typed(cfg, BenchmarkConfig)
    call = this_call(TASK)
    report = run_benchmark(
        settings,
        call.folder,
        command=call.command,
        base=call.base,
        config_text=OmegaConf.to_yaml(cfg, resolve=True),
    )
    from gazeattn.experiments.terminal import print_benchmark

    print_benchmark(pd.read_parquet(call.folder / "results.parquet"), report)


def main(arguments: list[str]) -> int:
    """Run `gazeattn benchmark scanpath` with Hydra overrides."""
    return run_app("benchmark_scanpath", task, arguments)
