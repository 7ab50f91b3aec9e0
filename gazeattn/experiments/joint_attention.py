"""Joint attention on generated scenes: the model against gaze cones, centre and mean head."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import yaml
from numpy.typing import NDArray

from gazeattn.datamodules.joint_attention import JointScenes
from gazeattn.datamodules.joint_batches import JointDataModule
from gazeattn.datamodules.joint_generated import generate_joint_scenes
from gazeattn.errors import DataError
from gazeattn.experiments.config import conf_folder
from gazeattn.experiments.runs import commit
from gazeattn.metrics.statistics import clustered_bootstrap
from gazeattn.models.joint._baselines import (
    centre,
    fit_gaze_cones,
    gaze_cones,
    mean_head,
)
from gazeattn.models.joint._scores import (
    auc,
    average_precision,
    choose_threshold,
    classify,
    presence_scores,
    target_distances,
)
from gazeattn.models.joint.joint_attention import JointAttention
from gazeattn.results import result_rows
from gazeattn.storage import write_json

DETECTION = (20.0, 50.0, 100.0)
DATA_SEED = 0
DRAWS = 1000
SHARES = (0.7, 0.1, 0.2)


def joint_settings(size: str) -> dict[str, Any]:
    """Return the settings of a size: those of ``conf/joint/joint_attention.yaml``, reduced."""
    path = Path(conf_folder()) / "joint" / "joint_attention.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    sizes = settings.pop("sizes")
    if size not in sizes:
        raise DataError("no such size", expected=", ".join(sizes), found=size)
    for key, value in sizes[size].items():
        settings[key] = {**settings[key], **value} if isinstance(value, Mapping) else value
    return settings


def train_joint(
    train: JointScenes,
    valid: JointScenes,
    settings: Mapping[str, Any],
    *,
    seed: int = 0,
    **trainer: Any,
) -> JointAttention:
    """Return a trained model: the people branch first, then both where scenes have features.

    Parameters
    ----------
    train, valid
    settings
        Of `joint_settings`.
    seed
        Of the weights, of the order of batches and of the points of the loss.
    trainer
        Further arguments of the Lightning trainer.
    """
    pl.seed_everything(seed, verbose=False)
    own = {k: v for k, v in settings.items() if k not in ("name", "training", "both", "scenes")}
    own["actions"] = list(train.actions)
    channels = next((int(f.shape[0]) for f in train.features.values()), 0)
    model = JointAttention(**own, channels=channels, seed=seed)
    stages = [("people", settings["training"], None)]
    if channels:
        stages.append(("both", settings["both"], settings["both"]["lr"]))
    for stage, options, lr in stages:
        model.set_stage(stage, lr)
        data = JointDataModule(train, valid, batch_size=options["batch_size"], seed=seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*does not have many workers.*")
            pl.Trainer(
                **{
                    "max_epochs": options["max_epochs"],
                    "gradient_clip_val": settings["training"]["gradient_clip"],
                    "accelerator": "cpu",
                    "logger": False,
                    "enable_checkpointing": False,
                    "enable_progress_bar": False,
                    "enable_model_summary": False,
                    **trainer,
                }
            ).fit(model, data)
    return model.eval()


def run_joint_attention(
    size: str = "cpu",
    seeds: Sequence[int] = (0, 1, 2),
    *,
    path: str | os.PathLike[str] | None = None,
    command: str | None = None,
) -> pd.DataFrame:
    """Return the result rows of the model and of the baselines on held-out generated scenes.

    The scenes and the split (no sequence in two parts) are the same for all seeds; the seed is
    that of the training. Rows with seed ``"all"`` average the seeds target by target before the
    bootstrap. Intervals draw sequences. Rows ``..._minus_gaze_cones`` are paired differences.

    Parameters
    ----------
    size
        ``tiny``, ``cpu`` or ``full``.
    seeds
    path
        JSON file that is written too, such as ``docs/results/joint_attention.json``.
    command
        What the rows say was run.
    """
    settings = joint_settings(size)
    scenes = generate_joint_scenes(settings["scenes"]["sequences"], seed=DATA_SEED)
    train, valid, test = scenes.split(SHARES, seed=DATA_SEED)
    grid = (int(settings["grid"][0]), int(settings["grid"][1]))
    width = fit_gaze_cones(train, grid)
    points: dict[str, dict[str, pd.DataFrame]] = {
        "centre": {"": centre(test)},
        "mean_head": {"": mean_head(test)},
        "gaze_cones": {"": gaze_cones(test, width, grid)},
        "joint_attention": {},
    }
    shown: dict[str, list[pd.DataFrame]] = {
        "gaze_cones": [gaze_cones(valid, width, grid)],
        "joint_attention": [],
    }
    for seed in seeds:
        model = train_joint(train, valid, settings, seed=seed)
        points["joint_attention"][str(seed)] = model.predict_points(test)
        shown["joint_attention"].append(model.predict_points(valid))
    tables = {m: {s: target_distances(t, test) for s, t in by.items()} for m, by in points.items()}
    rows: list[dict[str, Any]] = []
    reference = tables["gaze_cones"][""]
    for model_name, by in tables.items():
        everything = np.stack([t["distance"].to_numpy() for t in by.values()])
        named = dict(zip(by, everything[:, None], strict=True))
        if len(by) > 1:
            named["all"] = everything
        for seed_name, distance in named.items():
            rows += _distance_rows(model_name, seed_name, distance, reference)
    for model_name, valid_tables in shown.items():
        for (seed_name, table), chosen in zip(
            points[model_name].items(), valid_tables, strict=True
        ):
            for score in ("peak", "presence"):
                if not table[score].isna().any():
                    rows += _presence_rows(model_name, seed_name, score, table, test, chosen, valid)
    for row in rows:
        row |= {
            "dataset": "generated_joint_scenes",
            "task": "joint attention",
            "split": "test",
            "regime": "unseen_sequence",
            "fold": 0,
            "size": size,
            "command": command or f"run_joint_attention(size={size!r}, seeds={tuple(seeds)})",
            "commit": commit(),
        }
        row["convention"] = f"{row['convention']}; gaze cone width {width:g} degrees"
    table = result_rows(rows)
    if path is not None:
        write_json(path, table.to_dict("records"))
    return table


def _distance_rows(
    model: str, seed: str, distance: NDArray[np.float64], reference: pd.DataFrame
) -> list[dict[str, Any]]:
    """Return the rows of distances (seeds, targets): means over seeds first."""
    one = (reference["targets"] == 1).to_numpy()
    cones = reference["distance"].to_numpy()
    values = {"distance": distance.mean(0)}
    values["distance_one_target"] = np.where(one, values["distance"], np.nan)
    for t in DETECTION:
        values[f"detection_rate_{t:g}px"] = (distance < t).mean(0)
    if model == "joint_attention":
        values["distance_minus_gaze_cones"] = values["distance"] - cones
        values["distance_one_target_minus_gaze_cones"] = values["distance_one_target"] - cones
        for t in DETECTION:
            name = f"detection_rate_{t:g}px"
            values[f"{name}_minus_gaze_cones"] = values[name] - (cones < t)
    found = clustered_bootstrap(
        np.stack(list(values.values())), {"sequence": reference["sequence"].to_numpy()},
        n=DRAWS, rng=0,
    )  # fmt: skip
    return [
        {
            "model": model, "seed": seed, "metric": name, "value": float(found.value[i]),
            "low": float(found.low[i]), "high": float(found.high[i]), "n": int(found.n_items[i]),
            "convention": "pixels of 640 x 320; every target against the one point; rate: "
            "distance below the threshold; 95 % by sequence",
        }
        for i, name in enumerate(values)
    ]  # fmt: skip


def _presence_rows(
    model: str, seed: str, score: str, table: pd.DataFrame, test: JointScenes,
    chosen: pd.DataFrame, valid: JointScenes,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the rows of presence from a score; the threshold is that of the validation part."""
    values, present = table[score].to_numpy(), test.present
    threshold = choose_threshold(chosen[score].to_numpy(), valid.present, valid.scene.tolist())
    found = presence_scores(values, present, test.scene.tolist(), threshold)
    names, code = np.unique(test.sequence.astype(str), return_inverse=True)
    rows_of = np.split(np.argsort(code, kind="stable"), np.cumsum(np.bincount(code))[:-1])
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(DRAWS // 5):
        at = np.concatenate([rows_of[k] for k in rng.integers(len(names), size=len(names))])
        s, y = values[at], present[at]
        draws.append({"auc": auc(s, y), "average_precision": average_precision(s, y),
                      **classify(s, y, threshold.value)})  # fmt: skip
    spread = pd.DataFrame(draws)
    how = "height of the peak" if score == "peak" else "the model's presence probability"
    return [
        {
            "model": model, "seed": seed, "metric": f"presence_{name}_from_{score}",
            "value": value, "low": spread[name].quantile(0.025),
            "high": spread[name].quantile(0.975), "n": len(values),
            "convention": f"score: {how}; threshold {threshold.value:.4g} of the validation part "
            f"(best macro F1); base rate {present.mean():.3f}; 95 % by sequence",
        }
        for name, value in found.items()
    ]  # fmt: skip
