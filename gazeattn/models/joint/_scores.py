"""How far a predicted point is from the targets, and whether there is joint attention at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from gazeattn.datamodules.joint_attention import JointScenes
from gazeattn.errors import DataError


def target_distances(points: pd.DataFrame, scenes: JointScenes) -> pd.DataFrame:
    """Return the distance from the point of each scene to each target of joint attention in it.

    As published, every target is compared with the one point of its scene; scenes without joint
    attention have no row.

    Parameters
    ----------
    points
        One row per scene: scene, x, y in pixels of the picture; matched by scene id.
    scenes

    Returns
    -------
    DataFrame
        scene, sequence, target, dx, dy (absolute) and distance in pixels, people, targets (of
        joint attention in the scene) and share (the larger side of the target's box as a share
        of that side of the picture; NaN without a box).
    """
    table = points.set_index("scene")
    if not table.index.is_unique:
        raise DataError("a scene has two points", expected="one point per scene")
    missing = [s for s in scenes.scene if s not in table.index]
    if missing:
        raise DataError(
            f"{len(missing)} scenes have no point", expected="one point per scene",
            found=f"none for {missing[0]!r}",
        )  # fmt: skip
    of, place = scenes.target_of[scenes.joint], scenes.place[scenes.joint]
    xy = table.reindex(scenes.scene[of])[["x", "y"]].to_numpy(np.float64).reshape(-1, 2)
    away = np.abs(xy - place)
    share = scenes.extent[scenes.joint] / scenes.size[of]
    return pd.DataFrame({
        "scene": scenes.scene[of], "sequence": scenes.sequence[of],
        "target": scenes.target[scenes.joint], "dx": away[:, 0], "dy": away[:, 1],
        "distance": np.hypot(away[:, 0], away[:, 1]), "people": scenes.n_people[of],
        "targets": np.bincount(of, minlength=len(scenes))[of],
        "share": share.max(axis=1, initial=-np.inf, where=~np.isnan(share)),
    }).replace({"share": {-np.inf: np.nan}})  # fmt: skip


def detection_rates(distance: ArrayLike, thresholds: Sequence[float]) -> dict[float, float]:
    """Return, for each threshold t, the share of distances below t; the key is t itself."""
    values = np.asarray(distance, dtype=np.float64)
    if np.isnan(values).any():
        raise DataError("a distance is missing", found=f"{int(np.isnan(values).sum())} of them")
    if not len(values):
        return {float(t): float("nan") for t in thresholds}
    return {float(t): float((values < t).mean()) for t in thresholds}


# presence ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PresenceThreshold:
    """A threshold on a score, and the scenes it was chosen on.

    `presence_scores` refuses to score with it the scenes that it was chosen on.
    """

    value: float
    scenes: frozenset[str]


def auc(score: ArrayLike, present: ArrayLike) -> float:
    """Return the probability that a scene with joint attention has the higher score.

    Ties count half; NaN where one of the two kinds is absent.
    """
    s, y = _pair(score, present)
    n, m = int(y.sum()), int((~y).sum())
    if not n or not m:
        return float("nan")
    return float((rankdata(s)[y].sum() - n * (n + 1) / 2) / (n * m))


def average_precision(score: ArrayLike, present: ArrayLike) -> float:
    """Return the mean precision at the scores of the scenes with joint attention.

    Equal scores enter together, so their order does not matter; NaN without such scenes.
    """
    s, y = _pair(score, present)
    if not y.any():
        return float("nan")
    values, group = np.unique(-s, return_inverse=True)
    hits = np.cumsum(np.bincount(group, y, minlength=len(values)))
    seen = np.cumsum(np.bincount(group, minlength=len(values)))
    gained = np.diff(hits, prepend=0.0) / y.sum()
    return float((gained * hits / seen).sum())


def classify(score: ArrayLike, present: ArrayLike, threshold: float) -> dict[str, float]:
    """Return accuracy, precision, recall, f1 and macro_f1 of ``score >= threshold``.

    What has a denominator of 0 is NaN; macro_f1 is the mean of the F1 of both classes.
    """
    s, y = _pair(score, present)
    said = s >= threshold
    tp, fp = int((said & y).sum()), int((said & ~y).sum())
    fn, tn = int((~said & y).sum()), int((~said & ~y).sum())
    f1, f0 = _ratio(2 * tp, 2 * tp + fp + fn), _ratio(2 * tn, 2 * tn + fp + fn)
    return {
        "accuracy": _ratio(tp + tn, len(y)),
        "precision": _ratio(tp, tp + fp),
        "recall": _ratio(tp, tp + fn),
        "f1": f1,
        "macro_f1": (f1 + f0) / 2,
    }


def choose_threshold(
    score: ArrayLike, present: ArrayLike, scenes: Sequence[str], by: str = "macro_f1"
) -> PresenceThreshold:
    """Return the threshold with the best `by` on validation scenes; candidates are their scores.

    Raises
    ------
    DataError
        The validation scenes do not hold both kinds.
    """
    s, y = _pair(score, present)
    if y.all() or not y.any():
        raise DataError(
            "a threshold needs scenes with and without joint attention",
            found=f"{int(y.sum())} of {len(y)} with",
        )
    values = np.unique(s)
    between = np.concatenate([values[:1], (values[1:] + values[:-1]) / 2])
    if len(between) > 512:
        between = np.quantile(s, np.linspace(0, 1, 512))
    found = [classify(s, y, t)[by] for t in between]
    best = float(between[int(np.nanargmax(found))])
    return PresenceThreshold(best, frozenset(map(str, scenes)))


def presence_scores(
    score: ArrayLike,
    present: ArrayLike,
    scenes: Sequence[str],
    threshold: PresenceThreshold | None = None,
) -> dict[str, float]:
    """Return auc and average_precision of a score, and with a threshold also `classify`.

    Parameters
    ----------
    score
        Continuous: the height of the peak or the presence probability.
    present
        Whether there is joint attention in each scene.
    scenes
        Their ids.
    threshold
        Chosen on other scenes (`choose_threshold` on the validation part).

    Raises
    ------
    DataError
        The threshold was chosen on one of these scenes.
    """
    result = {"auc": auc(score, present), "average_precision": average_precision(score, present)}
    if threshold is None:
        return result
    both = threshold.scenes & set(map(str, scenes))
    if both:
        raise DataError(
            "the threshold was chosen on scenes that it is to be scored on",
            expected="a threshold of the validation part",
            found=f"{len(both)} common scenes, such as {min(both)!r}",
        )
    return {**result, **classify(score, present, threshold.value)}


def breakdown(table: pd.DataFrame, gaze_error: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Return mean distance and number of targets in the parts that the paper's tables use.

    Parts: at most 3 people or more; a box smaller than 0.2 of the picture or larger; and, with
    the mean cosine between noted and true gaze by scene, below 0.5 or not.
    """
    kinds = {
        "people <= 3": table["people"] <= 3,
        "people > 3": table["people"] > 3,
        "target < 0.2": table["share"] < 0.2,
        "target >= 0.2": table["share"] >= 0.2,
    }
    if gaze_error is not None:
        cosine = table["scene"].map(dict(gaze_error))
        kinds |= {"gaze cosine < 0.5": cosine < 0.5, "gaze cosine >= 0.5": cosine >= 0.5}
    rows = [(k, table.loc[m, "distance"].mean(), int(m.sum())) for k, m in kinds.items()]
    return pd.DataFrame(rows, columns=["part", "distance", "n"])


def _pair(score: ArrayLike, present: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    s, y = np.asarray(score, dtype=np.float64), np.asarray(present, dtype=bool)
    if s.shape != y.shape or s.ndim != 1:
        raise DataError("one score per scene is needed", expected=y.shape, found=s.shape)
    if np.isnan(s).any():
        raise DataError("a score is missing", found=f"{int(np.isnan(s).sum())} of {len(s)}")
    return s, y


def _ratio(a: float, b: float) -> float:
    return a / b if b else float("nan")
