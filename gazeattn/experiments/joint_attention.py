"""The experiment `benchmark joint_attention`: the network beside gaze cones, row by row, resumable.

There are no public data in this package, so the scenes are generated.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig, OmegaConf

from gazeattn.datamodules.joint_attention import JointScenes
from gazeattn.datamodules.joint_generated import generate_joint_scenes
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments._joint_rows import distance_rows, drawn_scenes, presence_rows
from gazeattn.experiments._joint_training import train_joint
from gazeattn.experiments.app import original_path, run_app
from gazeattn.experiments.benchmark_apps import this_call
from gazeattn.experiments.building import sized
from gazeattn.experiments.config import DebugConfig, SizeConfig, conf_folder, typed
from gazeattn.experiments.runs import environment, write_environment
from gazeattn.models.joint._baselines import (
    centre,
    fit_gaze_cones,
    fit_weighted_cones,
    gaze_cones,
    mean_head,
)
from gazeattn.models.joint._scores import target_distances
from gazeattn.results import append_rows, pack_rows, result_rows
from gazeattn.storage import write_json, write_parquet, write_text

if TYPE_CHECKING:
    from gazeattn.report.joint import SceneExample

log = logging.getLogger(__name__)
TASK = "joint_attention"
CONES, WEIGHTED = "gaze_cones", "gaze_cones_by_action"
BASELINES = ("centre", "mean_head", CONES, WEIGHTED)
RIVALS = (CONES, WEIGHTED)
POOLED = "all"
CONE_GRID = (20, 40)


@dataclass
class JointConfig:
    """Everything that `gazeattn benchmark joint_attention` can be told."""

    joint: dict[str, Any] = field(default_factory=dict)
    size: SizeConfig = field(default_factory=SizeConfig)
    debug: DebugConfig = field(default_factory=DebugConfig)
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2])
    data_seed: int = 2
    shares: list[float] = field(default_factory=lambda: [0.7, 0.1, 0.2])
    sequences: dict[str, int] = field(default_factory=dict)
    actions: list[bool] = field(default_factory=lambda: [True, False])
    publish: str | None = None
    accelerator: str = "auto"


def joint_settings(
    size: str, config: Mapping[str, Any] | None = None, overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the settings of a size: those of ``conf/joint/joint_attention.yaml``, reduced.

    Parameters
    ----------
    size
        ``tiny``, ``cpu`` or ``full``.
    config
        In place of the file.
    overrides
        Keys that the user has set: they win over the reductions.
    """
    if config is None:
        path = conf_folder() / "joint" / "joint_attention.yaml"
        plain = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
        assert isinstance(plain, dict)
        config = {str(k): v for k, v in plain.items()}
    return sized(config, size, overrides)


@dataclass
class Part:
    """One set of scenes, with or without actions, and what was predicted there."""

    dataset: str
    train: JointScenes
    valid: JointScenes
    test: JointScenes
    folder: Path

    def points(self, model: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame] | None:
        """Return the predicted points of validation and test scenes, None where not yet there."""
        path = self._path(model, seed)
        if not path.exists():
            return None
        found = pd.read_parquet(path)
        valid, test = (found[found["part"] == p].drop(columns="part") for p in ("valid", "test"))
        return valid.reset_index(drop=True), test.reset_index(drop=True)

    def keep(self, model: str, seed: int, valid: pd.DataFrame, test: pd.DataFrame) -> None:
        """Write the predicted points."""
        both = pd.concat([valid.assign(part="valid"), test.assign(part="test")])
        write_parquet(self._path(model, seed), both)

    def distances(self, model: str, seed: int) -> pd.DataFrame:
        """Return the distances of the test scenes' targets to the predicted points."""
        found = self.points(model, seed)
        assert found is not None
        return target_distances(found[1], self.test)

    def _path(self, model: str, seed: int) -> Path:
        return self.folder / "points" / f"{self.dataset}_{model}_{seed}.parquet"


@dataclass
class JointBench:
    """What all models of one benchmark share."""

    cfg: JointConfig
    folder: Path
    settings: dict[str, Any]
    fixed: dict[str, Any]
    rows: pd.DataFrame

    @property
    def table(self) -> Path:
        """The rows of the run folder."""
        return self.folder / "results.parquet"

    def finished(self, dataset: str, model: str, seed: object) -> bool:
        """Whether the rows of a model and seed are there."""
        hit = np.ones(len(self.rows), dtype=bool)
        for column, value in (("dataset", dataset), ("model", model), ("seed", str(seed))):
            hit &= (self.rows[column].astype(str) == value).to_numpy()
        return bool(hit.any())

    def add(self, part: Part, model: str, seed: object, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append the rows of a finished model and seed to the tables on disk."""
        key = {"dataset": part.dataset, "model": model, "seed": str(seed)}
        new = result_rows([{**self.fixed, **key, **r} for r in rows])
        if self.table.exists():
            self.rows = append_rows(self.table, new)
        else:
            write_parquet(self.table, new)
            self.rows = new
        publish(self, part)


def published_path(bench: JointBench) -> Path:
    """Return the JSON file of the table."""
    return Path(bench.cfg.publish or bench.folder) / f"{TASK}.json"


def publish(bench: JointBench, part: Part) -> None:
    """Write the table as JSON, rows in the order in which they were finished."""
    test = part.test
    content = {
        "task": TASK,
        "split": bench.fixed["split"],
        "size": bench.fixed["size"],
        "scenes": len(test),
        "sequences": len(set(test.sequence)),
        "targets": int(test.joint.sum()),
        "people": len(test.person),
        **pack_rows(bench.rows.drop(columns=["task", "split", "size"])),
    }
    write_json(published_path(bench), content)


# -- one model ------------------------------------------------------------------------------------


def run_baselines(bench: JointBench, part: Part) -> None:
    """Append the rows of what the network has to beat; what is fitted is fitted on training."""
    draws = bench.cfg.size.bootstrap
    for name in BASELINES:
        if name == WEIGHTED and not part.train.actions:
            continue
        if bench.finished(part.dataset, name, 0):
            continue
        log.info("%s: %s", part.dataset, name)
        note = ""
        if name in RIVALS:
            weights: tuple[float, ...] | None = None
            if name == CONES:
                width = fit_gaze_cones(part.train, CONE_GRID)
            else:
                width, weights = fit_weighted_cones(part.train, CONE_GRID)
                named = zip((*part.train.actions, "missing"), weights, strict=True)
                note = "; weights " + ", ".join(f"{a} {w:g}" for a, w in named)
            note = f"; width {width:g} degrees{note}"
            valid, test = (
                gaze_cones(s, width, CONE_GRID, weights=weights) for s in (part.valid, part.test)
            )
        else:
            make = centre if name == "centre" else mean_head
            valid, test = make(part.valid), make(part.test)
        part.keep(name, 0, valid, test)
        table = target_distances(test, part.test)
        rivals = {}
        if name == WEIGHTED:
            rivals[CONES] = part.distances(CONES, 0)["distance"].to_numpy()
        rows = _distances(table, [table], rivals, draws)
        if name in RIVALS:
            rows += presence_rows("peak", test, part.test, valid, part.valid, draws)
        bench.add(part, name, 0, [{**r, "convention": f"{r['convention']}{note}"} for r in rows])


def _distances(
    table: pd.DataFrame, seeds: Sequence[pd.DataFrame], rivals: Mapping[str, Any], draws: int
) -> list[dict[str, Any]]:
    distance = np.stack([t["distance"].to_numpy() for t in seeds])
    sequence, targets = table["sequence"].to_numpy(dtype=object), table["targets"].to_numpy()
    return distance_rows(distance, sequence, targets, rivals, draws)


def run_seed(bench: JointBench, part: Part, seed: int) -> None:
    """Train the network with one seed where needed, and append its rows."""
    name, cfg = str(bench.settings["name"]), bench.cfg
    found = part.points(name, seed)
    if found is None:
        folder = bench.folder / "runs" / f"{part.dataset}_{name}_{seed}"
        model = train_joint(
            part.train, part.valid, bench.settings, folder, seed=seed, accelerator=cfg.accelerator
        )
        found = model.predict_points(part.valid), model.predict_points(part.test)
        part.keep(name, seed, *found)
    valid, test = found
    table = part.distances(name, seed)
    rows = _distances(table, [table], _rivals(part), cfg.size.bootstrap)
    for score in ("peak", "presence"):
        rows += presence_rows(score, test, part.test, valid, part.valid, cfg.size.bootstrap)
    bench.add(part, name, seed, rows)


def _rivals(part: Part) -> dict[str, Any]:
    known = [n for n in RIVALS if part.points(n, 0) is not None]
    return {n: part.distances(n, 0)["distance"].to_numpy() for n in known}


def run_pooled(bench: JointBench, part: Part) -> None:
    """Append the rows of the mean over seeds, target by target before the bootstrap."""
    name = str(bench.settings["name"])
    tables = [part.distances(name, s) for s in bench.cfg.seeds]
    rows = _distances(tables[0], tables, _rivals(part), bench.cfg.size.bootstrap)
    bench.add(part, name, POOLED, rows)


def scene_examples(bench: JointBench, part: Part) -> list[SceneExample]:
    """Return the best, median and worst test scene of the first seed, to be drawn.

    None without the trained network, which the maps need.
    """
    name, seed = str(bench.settings["name"]), bench.cfg.seeds[0]
    folder = bench.folder / "runs" / f"{part.dataset}_{name}_{seed}"
    found = part.points(name, seed)
    if found is None or not (folder / "people" / "trained.json").is_file():
        return []  # it would be trained anew
    model = train_joint(
        part.train, part.valid, bench.settings, folder, seed=seed,
        accelerator=bench.cfg.accelerator,
    )  # fmt: skip
    rivals = {n: p[1] for n in RIVALS if (p := part.points(n, 0)) is not None}
    return drawn_scenes(model, part.test, found[1], rivals, part.dataset, f"{name}, seed {seed}")


# -- the experiment -------------------------------------------------------------------------------


def check(cfg: JointConfig) -> None:
    """Raise for values that cannot be used, before any work."""
    if cfg.size.name not in cfg.sequences:
        raise UnknownNameError("size", cfg.size.name, list(cfg.sequences))
    if not cfg.seeds or not cfg.actions:
        raise DataError("a benchmark needs a seed and a kind of scenes",
                        expected="seeds=[0] actions=[true]")  # fmt: skip
    if len(cfg.shares) != 3:
        raise DataError("shares are wrong", expected="training, validation, test",
                        found=cfg.shares)  # fmt: skip


def run_joint_attention(
    cfg: JointConfig,
    folder: Path,
    *,
    command: str,
    base: Path,
    overrides: Sequence[str] = (),
) -> pd.DataFrame:
    """Do what is missing of the benchmark, and return its rows.

    The scenes and the split (no sequence in two parts) are the same for all seeds; the seed is
    that of the training. Rows with seed ``"all"`` average the seeds target by target before the
    bootstrap. Intervals draw sequences. Rows ``..._minus_RIVAL`` are paired differences.

    Parameters
    ----------
    cfg
    folder
        Of the run: ``results.parquet``, the predicted points and the trained networks.
    command
        Written with every row.
    base
        Folder against which ``publish`` is resolved.
    overrides
        Keys of ``joint`` that the user has set, without ``joint.``.

    Raises
    ------
    DataError
        The folder holds rows of other settings.
    """
    from gazeattn.report.joint import write_joint_report

    check(cfg)
    cfg.publish = original_path(cfg.publish, base)
    folder.mkdir(parents=True, exist_ok=True)
    settings = joint_settings(cfg.size.name, cfg.joint or None, overrides)
    stamp = {"settings": settings, "data_seed": cfg.data_seed, "shares": list(cfg.shares),
             "sequences": cfg.sequences[cfg.size.name], "draws": cfg.size.bootstrap,
             "seeds": list(cfg.seeds)}  # fmt: skip
    text = OmegaConf.to_yaml(OmegaConf.create(stamp))
    held = folder / "settings.yaml"
    if held.exists() and held.read_text(encoding="utf-8") != text:
        raise DataError(
            "the run folder holds rows of other settings", source=held,
            hint="choose another folder with hydra.run.dir=",
        )  # fmt: skip
    write_text(held, text)
    facts = environment()
    write_environment(folder, facts, command)
    fixed = {
        "task": TASK,
        "split": f"test, by sequence, scenes and split of seed {cfg.data_seed}",
        "regime": "unseen_sequence",
        "fold": 0,
        "size": cfg.size.name,
        "command": command,
        "commit": facts.get("commit") or "",
    }
    table = folder / "results.parquet"
    rows = pd.read_parquet(table) if table.exists() else result_rows([])
    bench = JointBench(cfg, folder, settings, fixed, rows)
    examples: list[SceneExample] = []
    for with_actions in cfg.actions:
        scenes = generate_joint_scenes(
            cfg.sequences[cfg.size.name], seed=cfg.data_seed, with_actions=with_actions
        )
        train, valid, test = scenes.split(tuple(cfg.shares), seed=cfg.data_seed)
        dataset = "generated_joint_scenes" + ("" if with_actions else "_no_actions")
        part = Part(dataset, train, valid, test, folder)
        run_baselines(bench, part)
        for seed in cfg.seeds:
            if not bench.finished(dataset, str(settings["name"]), seed):
                log.info("%s: %s, seed %s", dataset, settings["name"], seed)
                run_seed(bench, part, seed)
        if len(cfg.seeds) > 1 and not bench.finished(dataset, str(settings["name"]), POOLED):
            run_pooled(bench, part)
        publish(bench, part)
        examples += scene_examples(bench, part)
    write_joint_report(
        bench.rows, folder, examples, network=str(settings["name"]), command=command,
        facts={
            "scenes": "generated",
            "split": fixed["split"],
            "size": cfg.size.name,
            "seeds": ", ".join(map(str, cfg.seeds)),
            "test scenes": len(test),
            "test sequences": len(set(test.sequence)),
            "bootstrap draws": cfg.size.bootstrap,
        },
    )  # fmt: skip
    write_json(
        folder / "summary.json",
        {"rows": len(bench.rows), "table": str(published_path(bench)), "command": command},
    )
    return bench.rows


def task(cfg: DictConfig) -> None:
    """Hydra entry: run, and print the table."""
    from gazeattn.experiments.terminal import print_table

    call = this_call(TASK)
    rows = run_joint_attention(
        typed(cfg, JointConfig),
        call.folder,
        command=call.command,
        base=call.base,
        overrides=[k.removeprefix("joint.") for k in call.keys if k.startswith("joint.")],
    )
    shown = {
        "distance": "distance px",
        "detection_rate_20px": "< 20 px",
        "detection_rate_50px": "< 50 px",
        "presence_auc_from_presence": "presence AUC",
    }
    wide = rows.pivot_table(
        index=["dataset", "model", "seed"], columns="metric", values="value", sort=False
    ).reindex(columns=list(shown))
    cells = [
        [*map(str, key), *("" if np.isnan(v) else f"{v:.3g}" for v in values)]
        for key, values in zip(wide.index, wide.to_numpy(dtype=np.float64), strict=True)
    ]
    print_table("joint attention", ["scenes", "model", "seed", *shown.values()], cells)
    print(f"report: {(call.folder / 'report.html').resolve()}")


def main(arguments: list[str]) -> int:
    """Run `gazeattn benchmark joint_attention` with Hydra overrides."""
    return run_app("benchmark_joint_attention", task, arguments)
