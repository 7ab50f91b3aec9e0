"""The experiment `train`: one scanpath model on one data set."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.utils import get_original_cwd
from omegaconf import DictConfig, OmegaConf

from gazeattn.datamodules import ScanpathDataModule, scanpaths_of
from gazeattn.datasets.splits import split
from gazeattn.errors import DataError
from gazeattn.experiments.app import STARTED, original_path, run_app
from gazeattn.experiments.benchmark import limited
from gazeattn.experiments.building import (
    RUN,
    build,
    channels_of,
    ensure_weights,
    feature_spec,
    load_network,
    read_model,
    read_yaml,
    scanpath_kind,
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
from gazeattn.experiments.scanpath_settings import flat
from gazeattn.experiments.schemas import TrainConfig
from gazeattn.experiments.terminal import StageProgress, print_table
from gazeattn.experiments.training import CURVES
from gazeattn.experiments.training import train as train_network
from gazeattn.losses import LossLog
from gazeattn.models.scanpath.base import NetworkModel
from gazeattn.models.scanpath.evaluation import teacher_forced
from gazeattn.results import result_rows
from gazeattn.storage import write_json, write_parquet, write_text

log = logging.getLogger(__name__)
CONFIG = "config.yaml"
FREE = ("accelerator", "root", "fetch", "logger", "debug")
"""Keys that say where and how a run is done and not what: they may be set beside ``resume=``."""
OUTCOMES = (CURVES, "trained.json", "predictions.parquet")
"""What is taken for a finished part of a run."""


def backbone_of(name: str, base: Path) -> str:
    """Return the name of a backbone; a folder by its whole path, so that `predict` finds it."""
    from gazeattn.models.layers.backbones import NAMES

    folder = original_path(name, base)
    return folder if folder and name not in NAMES and Path(folder).is_dir() else name


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
    if not issubclass(scanpath_kind(config), NetworkModel):
        raise DataError(
            f"{config['name']} is not trained by gradients",
            hint="baselines and ceilings are fitted inside gazeattn benchmark scanpath",
        )
    if config.get("backbone"):
        config["backbone"] = backbone_of(str(config["backbone"]), base)
    settings = training_of(config)
    claim(folder, cfg.overwrite)
    write_text(folder / CONFIG, config_text)
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
        data = ScanpathDataModule(
            train,
            valid,
            batch_size=settings.batch_size,
            by_stimulus=model.whole_stimuli,
            seed=cfg.seed,
        )
        done = train_network(
            model, data, folder, settings, seed=cfg.seed, accelerator=cfg.accelerator
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


# -- starting and going on -----------------------------------------------------------------------


@dataclass(frozen=True)
class Start:
    """What started a run, beside its configuration; kept in its folder.

    Attributes
    ----------
    command : str
        The whole command.
    base : str
        Folder that it was given in, against which the paths in its configuration are resolved.
    overridden : tuple of str
        Keys of the model that the user has set.
    """

    command: str
    base: str
    overridden: tuple[str, ...]

    @classmethod
    def of(cls, overrides: Sequence[str], base: Path) -> Start:
        """Return the start of a command with these overrides."""
        keys = [o.lstrip("+").partition("=")[0] for o in overrides]
        own = tuple(k.removeprefix("model.") for k in keys if k.startswith("model."))
        return cls(command_line("train", overrides), str(base), own)

    @classmethod
    def read(cls, folder: Path, base: Path) -> Start:
        """Return what a run folder keeps; older ones have the command in ``environment.txt``."""
        try:
            found = json.loads((folder / STARTED).read_text(encoding="utf-8"))
            made = cls(str(found["command"]), str(found["base"]), tuple(found["overridden"]))
            return made if Path(made.base).is_dir() else replace(made, base=str(base))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError("cannot be read", source=folder / STARTED, found=error) from error
        facts = folder / "environment.txt"
        first = facts.read_text(encoding="utf-8").partition("\n")[0] if facts.is_file() else ""
        return cls.of(shlex.split(first.removeprefix("command: "))[2:], base)


def resumed_folder(arguments: Sequence[str]) -> Path | None:
    """Return the run folder of ``resume=``, None where a new run is wanted.

    Raises
    ------
    DataError
        The folder holds no unfinished run, or something is set beside ``resume=`` that is in the
        configuration of the run.
    """
    texts = [a for a in arguments if not a.startswith("-")]
    if not any(t.lstrip("+").startswith("resume=") for t in texts):
        return None
    try:
        given = OverridesParser.create().parse_overrides(texts)
    except HydraException:
        return None  # the message for texts that cannot be read is made elsewhere
    wanted = [o for o in given if o.key_or_group == "resume"]
    if wanted[-1].is_sweep_override() or {"-m", "--multirun"} & set(arguments):
        raise DataError("resume= goes on with one run", expected="resume=FOLDER without -m")
    value = wanted[-1].value()
    if value is None:
        return None
    for override in given:
        key = override.key_or_group
        if key.split(".")[0].split("/")[0] not in (*FREE, "hydra", "resume"):
            raise DataError(
                f"{key} cannot be given beside resume=, which takes it from the run",
                expected=f"nothing, or one of {', '.join((*FREE, 'hydra.*'))}",
                found=override.input_line,
                hint=f"A run with another {key} is a new one: leave out resume=",
            )
    folder = Path(str(original_path(str(value), Path.cwd())))
    if (folder / FINISHED).is_file():
        raise DataError("this run is finished", source=folder)
    if not (folder / CONFIG).is_file():
        raise DataError("there is no run to go on with", source=folder, expected=CONFIG)
    return folder


def resumed_config(folder: Path, cfg: DictConfig, overrides: Sequence[str], base: Path) -> str:
    """Return the configuration of a run as YAML, with what may be set anew."""
    stored = OmegaConf.create(read_yaml(folder / CONFIG))
    for override in overrides:
        key = override.lstrip("+").partition("=")[0]
        if key.split(".")[0] in FREE:
            value = OmegaConf.select(cfg, key)
            value = original_path(value, base) if key == "root" else value
            OmegaConf.update(stored, key, value, merge=False)
    return OmegaConf.to_yaml(stored, resolve=True)


def prepare(folder: Path, cfg: DictConfig, overwrite: bool) -> None:
    """Refuse a folder with an unfinished run of another configuration, or clear it."""
    if not (folder / RUN).is_file() or ((folder / FINISHED).is_file() and not overwrite):
        return
    if overwrite:
        for name in (*OUTCOMES, RUN):
            (folder / name).unlink(missing_ok=True)
        for path in (folder / "checkpoints").glob("*.ckpt"):
            path.unlink()
        return
    if not (folder / CONFIG).is_file():
        return
    ours = flat(OmegaConf.to_container(cfg, resolve=True))
    theirs = flat(read_yaml(folder / CONFIG))
    other = [
        f"{k} {theirs[k]!r} instead of {ours[k]!r}"
        for k in ours
        if k in theirs and ours[k] != theirs[k]
        and k.split(".")[0] not in (*FREE, "resume", "overwrite")
    ]  # fmt: skip
    if other:
        raise DataError(
            "the run folder holds an unfinished run of another configuration", source=folder,
            found="; ".join(other[:5]),
            hint=f"Go on with it by resume={shlex.quote(str(folder))}, choose another "
            "hydra.run.dir, or replace it with overwrite=true",
        )  # fmt: skip


def task(cfg: DictConfig) -> float:
    """Hydra entry: train and return the best validation loss."""
    settings = typed(cfg, TrainConfig)
    hydra = HydraConfig.get()
    base = Path(get_original_cwd())
    overrides = list(hydra.overrides.task)
    if settings.resume is None:
        folder = Path(hydra.runtime.output_dir)
        text = OmegaConf.to_yaml(cfg, resolve=True)
        start = Start.of(overrides, base)
        prepare(folder, cfg, settings.overwrite)
    else:
        folder = Path(str(original_path(settings.resume, base)))
        text = resumed_config(folder, cfg, overrides, base)
        stored = OmegaConf.create(text)
        assert isinstance(stored, DictConfig)
        settings = typed(stored, TrainConfig)
        settings.overwrite = False
        start = Start.read(folder, base)
    if settings.task.get("kind") == "code_summaries":
        from gazeattn.experiments.eyelayer_train import run_summaries as run
    elif settings.task:
        from gazeattn.experiments.reading_train import run_reading as run
    else:
        run = run_train
    if not (folder / FINISHED).is_file() or settings.overwrite:
        write_json(folder / STARTED, asdict(start))
    table = run(
        settings,
        folder,
        command=start.command,
        base=Path(start.base),
        config_text=text,
        overridden=start.overridden,
    )
    return float(np.asarray(table["value"])[0])


def main(arguments: list[str]) -> int:
    """Run `gazeattn train` with Hydra overrides."""
    folder = resumed_folder(arguments)
    if folder is not None and not any(a.startswith("hydra.run.dir=") for a in arguments):
        quoted = str(folder).replace("\\", "\\\\").replace("'", "\\'")
        arguments = [*arguments, f"hydra.run.dir='{quoted}'"]  # its log goes on too
    return run_app("train", task, arguments)
