"""Result rows of joint attention from predicted points, and scenes to be drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from gazeattn.datamodules.joint_attention import JointScenes
from gazeattn.datamodules.joint_batches import collate_scenes
from gazeattn.metrics.statistics import clustered_bootstrap
from gazeattn.models.joint._scores import (
    auc,
    average_precision,
    choose_threshold,
    classify,
    presence_scores,
    target_distances,
)
from gazeattn.models.joint._targets import target_maps
from gazeattn.models.joint.joint_attention import JointAttention

if TYPE_CHECKING:
    from gazeattn.report.joint import SceneExample

TRUTH = (64, 128)
"""Rows and columns of the drawn map of the targets."""
DETECTION = (20.0, 50.0, 100.0)
"""Thresholds of the detection rate, pixels of the picture."""


def distance_rows(
    distance: NDArray[np.float64],
    sequence: NDArray[np.object_],
    targets: NDArray[np.int64],
    rivals: Mapping[str, NDArray[np.float64]],
    draws: int,
) -> list[dict[str, Any]]:
    """Return the rows of distances: means over seeds first, intervals by sequence.

    Parameters
    ----------
    distance : (seeds, targets)
        Of every target to the one point of its scene, pixels.
    sequence, targets : (targets,)
        Sequence of the target's scene, and targets of joint attention in that scene.
    rivals
        Distances of other methods by name, to which paired differences are added.
    draws
        Of the bootstrap.
    """
    values = _measures(distance, targets)
    for rival, other in rivals.items():
        theirs = _measures(other[None], targets)
        values |= {f"{k}_minus_{rival}": values[k] - theirs[k] for k in theirs}
    found = clustered_bootstrap(
        np.stack(list(values.values())), {"sequence": sequence}, n=draws, rng=0
    )
    return [
        {
            "metric": name,
            "value": float(found.value[i]),
            "low": float(found.low[i]),
            "high": float(found.high[i]),
            "n": int(found.n_items[i]),
            "convention": "pixels of 640 x 320; every target against the one point; rate: "
            "distance below the threshold; 95 % by sequence",
        }
        for i, name in enumerate(values)
    ]


def _measures(
    distance: NDArray[np.float64], targets: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    mean = distance.mean(0)
    rates = {f"detection_rate_{t:g}px": (distance < t).mean(0) for t in DETECTION}
    return {"distance": mean, "distance_one_target": np.where(targets == 1, mean, np.nan), **rates}


def presence_rows(
    score: str, table: pd.DataFrame, test: JointScenes, chosen: pd.DataFrame, valid: JointScenes,
    draws: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the rows of presence from a score; the threshold is that of the validation part."""
    values, present = table[score].to_numpy(), test.present
    threshold = choose_threshold(chosen[score].to_numpy(), valid.present, valid.scene.tolist())
    found = presence_scores(values, present, test.scene.tolist(), threshold)
    names, code = np.unique(test.sequence.astype(str), return_inverse=True)
    rows_of = np.split(np.argsort(code, kind="stable"), np.cumsum(np.bincount(code))[:-1])
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(max(1, draws // 5)):
        at = np.concatenate([rows_of[k] for k in rng.integers(len(names), size=len(names))])
        s, y = values[at], present[at]
        drawn.append({"auc": auc(s, y), "average_precision": average_precision(s, y),
                      **classify(s, y, threshold.value)})  # fmt: skip
    spread = pd.DataFrame(drawn)
    how = "height of the peak" if score == "peak" else "the model's presence probability"
    return [
        {
            "metric": f"presence_{name}_from_{score}",
            "value": value, "low": spread[name].quantile(0.025),
            "high": spread[name].quantile(0.975), "n": len(values),
            "convention": f"score: {how}; threshold {threshold.value:.4g} of the validation part "
            f"(best macro F1); base rate {present.mean():.3f}; 95 % by sequence",
        }
        for name, value in found.items()
    ]  # fmt: skip


@torch.no_grad()
def drawn_scenes(
    model: JointAttention, test: JointScenes, points: pd.DataFrame,
    rivals: Mapping[str, pd.DataFrame], dataset: str, name: str,
) -> list[SceneExample]:  # fmt: skip
    """Return the scenes whose targets are nearest, at the median and farthest from the points.

    Parameters
    ----------
    model
        Whose maps are shown.
    test
    points
        Of the model: scene, x, y in pixels.
    rivals
        The same of the baselines.
    dataset, name
        Of the scenes and of the model, for the page.
    """
    from gazeattn.report.joint import SceneExample

    far = target_distances(points, test).groupby("scene", sort=False)["distance"].mean()
    far = far.sort_values(kind="stable")
    at = {"best": 0, "median": len(far) // 2, "worst": len(far) - 1}
    number = {s: i for i, s in enumerate(test.scene)}
    every = {n: p.set_index("scene")[["x", "y"]] for n, p in {"": points, **rivals}.items()}
    made = []
    for which, k in at.items() if len(far) else ():
        scene = str(far.index[k])
        one = test.take([number[scene]])
        batch = collate_scenes(one).to(model.device)
        values = model(batch).group
        if model.loss == "density":  # logits of a density over the cells
            values = torch.softmax(values.flatten(1), 1).view_as(values)
        xy = {n: p.loc[scene].to_numpy(np.float64) for n, p in every.items()}
        own = xy.pop("")
        made.append(
            SceneExample(
                dataset, name, which, one, values[0].double().cpu().numpy(),
                target_maps(collate_scenes(one), TRUTH, model.spread)[0].double().numpy(),
                own, xy, float(far.iloc[k]),
            )
        )  # fmt: skip
    return made
