"""The numbers of one scanpath model on one data set, as result rows with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import wasserstein_distance

from gazeattn.datamodules import Scanpaths
from gazeattn.metrics.saliency import fixation_map, nss
from gazeattn.metrics.statistics import clustered_bootstrap
from gazeattn.models.scanpath.base import Path
from gazeattn.models.scanpath.evaluation import (
    BIN_MS,
    BINS,
    EDGES,
    EPS,
    RADIUS_SHARE,
    THRESHOLD,
    PairScores,
    divergence,
)

FORCED = ("information_gain", "nss", "auc", "log_likelihood")
BLUR_SHARE = 0.03
"""Blur of pooled fixations as a share of the stimulus' width."""
CONVENTIONS = {
    "information_gain": "bits per fixation above {reference}, teacher-forced, {grid} cells",
    "log_likelihood": "bits per fixation above uniform, teacher-forced, {grid} cells",
    "nss": "z-score of the teacher-forced map at each next fixation, {grid} cells",
    "auc": "share of the teacher-forced map below its value at the fixation, ties half",
    "multimatch": "mean of shape, direction, length, position; pairs model x human",
    "multimatch_duration": "mean of the five parts; pairs model x human",
    "scanmatch": "{bins} cells, threshold {threshold}, gap 0, no duration",
    "scanmatch_duration": "{bins} cells, threshold {threshold}, gap 0, bins of {ms} ms",
    "sequence_score": "mean-shift clusters of all people per stimulus, match 1, mismatch 0, gap 0",
    "tde": "windows of 3, mean of nearest, pixels",
    "recurrence": "percent, radius {radius} of the width",
    "pooled_nss": "samples of a stimulus pooled, Gaussian of {blur} of the width",
}


def convention_of(metric: str, grid: Sequence[int], reference: str = "center_bias") -> str:
    """Return in words how a number came about."""
    text = CONVENTIONS.get(metric.removesuffix("_after_first"), "")
    columns, rows = BINS
    return text.format(
        reference=reference,
        grid=f"{grid[0]} x {grid[1]}",
        bins=f"{columns} x {rows}",
        threshold=THRESHOLD,
        ms=f"{BIN_MS:g}",
        radius=RADIUS_SHARE,
        blur=BLUR_SHARE,
    )


def forced_rows(
    scored: pd.DataFrame,
    reference: pd.DataFrame,
    *,
    draws: int,
    seed: int,
    others: Mapping[str, pd.DataFrame] | None = None,
) -> list[dict[str, Any]]:
    """Return the teacher-forced numbers of a model, and its differences from others.

    Averages are over fixations; intervals come from drawing stimuli and people with replacement.

    Parameters
    ----------
    scored, reference
        `teacher_forced` of the model and of the centre bias, row by row the same fixations.
    draws, seed
        Of the bootstrap.
    others
        Name -> `teacher_forced`: a row with this ``reference`` holds model less other.
    """
    rows = []
    for after in (False, True):
        suffix = "_after_first" if after else ""
        table = _per_trial(scored, reference, after)
        rows += _averages(table, dict.fromkeys(FORCED, ""), suffix, draws, seed)
        for name, other in ({} if after else others or {}).items():
            theirs = _per_trial(other, reference, after)
            gap = table.copy()
            gap[list(FORCED)] -= theirs[list(FORCED)]
            found = _averages(gap, dict.fromkeys(FORCED[:3], name), suffix, draws, seed)
            rows += found
    return rows


def _per_trial(scored: pd.DataFrame, reference: pd.DataFrame, after: bool) -> pd.DataFrame:
    table = scored.assign(
        information_gain=(scored["log_p"] - reference["log_p"]) / np.log(2),
        log_likelihood=scored["bits"],
    )
    if after:
        table = table[table["index"] > 0]
    groups = table.groupby("trial", sort=True)
    found = groups[list(FORCED)].mean()
    found["weight"] = groups.size()
    found["stimulus"] = groups["stimulus"].first()
    found["participant"] = groups["participant"].first()
    return found


def _averages(
    table: pd.DataFrame, metrics: Mapping[str, str], suffix: str, draws: int, seed: int
) -> list[dict[str, Any]]:
    result = clustered_bootstrap(
        table[list(metrics)].to_numpy().T,
        {
            "stimulus": table["stimulus"].to_numpy(dtype=str),
            "participant": table["participant"].to_numpy(dtype=str),
        },
        n=draws,
        rng=seed,
        weights=table["weight"].to_numpy(),
    )
    n = int(table["weight"].sum())
    return [
        {
            "metric": metric + suffix,
            "reference": reference,
            "value": float(result.value[k]),
            "low": float(result.low[k]),
            "high": float(result.high[k]),
            "n": n,
        }
        for k, (metric, reference) in enumerate(metrics.items())
    ]


def explained_rows(
    scored: pd.DataFrame,
    reference: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    draws: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Return the share of the gold standard's information gain, drawing stimuli and people."""
    ours = _per_trial(scored, reference, False)
    theirs = _per_trial(gold, reference, False)
    weight = ours["weight"].to_numpy(dtype=np.float64)
    gains = np.stack([ours["information_gain"], theirs["information_gain"]]) * weight
    rng = np.random.default_rng([seed, 3])
    times = np.ones((draws, len(ours)))
    for column in ("stimulus", "participant"):
        code = np.unique(ours[column].to_numpy(dtype=str), return_inverse=True)[1]
        k = int(code.max()) + 1
        times *= rng.multinomial(k, np.full(k, 1 / k), size=draws)[:, code]
    drawn = times @ gains.T
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    total = gains.sum(1)
    return [
        {
            "metric": "information_gain_explained",
            "reference": "kde_gold",
            "value": float(total[0] / total[1]),
            "low": float(low),
            "high": float(high),
            "n": int(weight.sum()),
        }
    ]


def pair_rows(
    scores: Mapping[str, PairScores], *, draws: int, splits: int, seed: int
) -> list[dict[str, Any]]:
    """Return mean scores and divergences of samples from people; see `divergence`."""
    rows: list[dict[str, Any]] = []
    for metric, found in scores.items():
        rows.append(_mean_row(metric, found, "model", draws, seed))
        d = divergence(found, draws=draws, splits=splits, seed=seed)
        rule = f"KL(human||model), {EDGES} edges, +{EPS:g}"
        n = f"{d.n_human} human and {d.n_model} model pairs"
        rows.append(
            {"metric": f"kl_{metric}", "value": d.value, "low": d.low, "high": d.high,
             "n": d.n_model, "convention": f"{rule}, {n}"}
        )  # fmt: skip
        halves = f"{rule}, halves of the people, {d.n_floor} pairs"
        rows.append(
            {"metric": f"kl_{metric}_matched", "value": d.matched, "n": d.n_floor,
             "convention": halves}
        )  # fmt: skip
        rows.append(
            {"metric": f"kl_{metric}_floor", "value": d.floor, "n": d.n_floor,
             "convention": halves + ", human against human"}
        )  # fmt: skip
    return rows


def human_rows(scores: Mapping[str, PairScores], *, draws: int, seed: int) -> list[dict[str, Any]]:
    """Return the mean scores of people against people."""
    return [_mean_row(m, s, "human", draws, seed) for m, s in scores.items()]


def _mean_row(metric: str, scores: PairScores, side: str, draws: int, seed: int) -> dict[str, Any]:
    means = scores.means(side)
    labels = np.arange(len(means)).astype(str)
    found = clustered_bootstrap(means, {"stimulus": labels}, n=draws, rng=seed)
    n = int((~np.isnan(getattr(scores, side))).sum())
    return {
        "metric": metric,
        "value": float(found.value),
        "low": float(found.low),
        "high": float(found.high),
        "n": n,
    }


def shape_rows(
    drawn: Mapping[str, Sequence[Path]], paths: Scanpaths, durations: bool
) -> list[dict[str, Any]]:
    """Return how the samples' lengths, durations and saccades compare with people's.

    ``*_mean`` are means, ``*_wasserstein`` the earth mover's distance between the distributions of
    model and people, in the unit of the quantity.
    """
    ours = [p for paths_ in drawn.values() for p in paths_]
    theirs = paths.paths()
    rows = []
    quantities = {
        "length": (lambda p: np.array([len(p)]), "fixations"),
        "amplitude": (lambda p: np.hypot(*np.diff(p[:, :2], axis=0).T), "pixels"),
    }
    if durations:
        quantities["duration"] = (lambda p: p[:, 2], "ms")
        quantities["total_duration"] = (lambda p: p[:, 2].sum(keepdims=True), "ms")
    for name, (measure, unit) in quantities.items():
        a, b = (np.concatenate([measure(p) for p in many]) for many in (ours, theirs))
        a, b = a[np.isfinite(a)], b[np.isfinite(b)]
        if not len(a) or not len(b):
            continue
        rows.append(
            {"metric": f"{name}_mean", "value": float(a.mean()), "n": len(a),
             "convention": f"{unit}; people {b.mean():.4g}"}
        )  # fmt: skip
        rows.append(
            {"metric": f"{name}_wasserstein", "value": float(wasserstein_distance(a, b)),
             "n": len(a), "convention": f"{unit}, model against people"}
        )  # fmt: skip
    return rows


def pooled_rows(
    drawn: Mapping[str, Sequence[Path]], paths: Scanpaths, *, draws: int, seed: int
) -> list[dict[str, Any]]:
    """Return the NSS of people's fixations on the pooled and blurred samples of each stimulus."""
    values = []
    for name, stimulus in paths.stimuli.items():
        points = np.concatenate([p[:, :2] for p in drawn[name]])
        sigma = BLUR_SHARE * stimulus.size[0]
        pooled = fixation_map(points, stimulus.size, sigma=sigma, outside="drop")
        rows = np.repeat(paths.stimulus == name, paths.lengths)
        people = np.stack([paths.x[rows], paths.y[rows]], axis=1)
        values.append(float(nss(pooled, people)))
    labels = np.array(list(paths.stimuli), dtype=str)
    found = clustered_bootstrap(np.array(values), {"stimulus": labels}, n=draws, rng=seed)
    return [
        {"metric": "pooled_nss", "value": float(found.value), "low": float(found.low),
         "high": float(found.high), "n": len(values)}
    ]  # fmt: skip
