"""From predictions to rows of a table: per regime and fold, with intervals over readers.

Predictions of one model are a table with a row per fold, seed and trial: ``fold, seed, trial,
participant, item, part, regime, y`` and ``p`` (probability of class 1, or the value) or ``p0, p1,
...`` for several classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gazeattn.datamodules.reading_tasks import ReadingTask
from gazeattn.datasets.splits import REGIMES
from gazeattn.errors import DataError
from gazeattn.metrics.prediction import HIGHER, cluster_draws, expected_calibration_error, score

ALL = "all"
SCORES_OF = {
    "classification": ("auroc", "balanced_accuracy", "brier"),
    "regression": ("r2", "rmse", "mae"),
}
READER = "_reader"
"""Ends the name of a score over readers: the means of their trials."""


@dataclass(frozen=True)
class Draws:
    """How often each reader counts in each draw of the bootstrap; the same for all models.

    Attributes
    ----------
    readers : Index
    times : ndarray, shape (draws, n_readers)
    """

    readers: pd.Index
    times: NDArray[np.float64]

    @classmethod
    def of(cls, readers: Sequence[str] | pd.Series, draws: int = 2000, seed: int = 0) -> Draws:
        """Return draws over the distinct readers."""
        names = pd.Index(sorted(pd.unique(pd.Series(readers).astype(str))))
        return cls(names, cluster_draws(names.to_numpy(), draws, seed))

    def weights(self, readers: pd.Series) -> NDArray[np.float64]:
        """Return the weight of each row in each draw, (draws, n)."""
        return self.times[:, self.codes(readers)]

    def codes(self, readers: pd.Series) -> NDArray[np.int64]:
        """Return the number of the reader of each row.

        Raises
        ------
        DataError
            A reader is not among those of the draws.
        """
        at = self.readers.get_indexer(pd.Index(readers.astype(str)))
        if (at < 0).any():
            raise DataError(
                "a reader is not among those of the draws", found=readers[at < 0].iloc[0]
            )
        return at.astype(np.int64)


def prediction_columns(table: pd.DataFrame) -> list[str]:
    """Return the columns that hold predictions, in the order of the classes."""
    names = [str(c) for c in table]
    several = [c for c in names if c[:1] == "p" and c[1:].isdigit()]
    return sorted(several, key=lambda c: int(c[1:])) or ["p"]


def scored(table: pd.DataFrame, regime: str = ALL) -> pd.DataFrame:
    """Return the rows of a regime that have a target."""
    rows = table[table["y"].notna()]
    return rows if regime == ALL else rows[rows["regime"] == regime]


def _values(rows: pd.DataFrame, metric: str, weights: NDArray[np.float64] | None) -> Any:
    columns = prediction_columns(rows)
    p = rows[columns].to_numpy(dtype=np.float64)
    return score(metric, rows["y"].to_numpy(), p[:, 0] if len(columns) == 1 else p, weights)


def _drawn(rows: pd.DataFrame, metric: str, draws: Draws) -> NDArray[np.float64]:
    """Return a score in every draw, (draws,).

    Readers are drawn, so that sums per reader (or per pair of readers, for the area under the
    curve) are all that a draw needs: the same numbers as with a weight for every trial, in a
    fraction of the time and memory.
    """
    if prediction_columns(rows) != ["p"] or metric not in _FROM_SUMS:
        return np.asarray(_values(rows, metric, draws.weights(rows["participant"])))
    code = draws.codes(rows["participant"])
    y, p = rows["y"].to_numpy(dtype=np.float64), rows["p"].to_numpy(dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(_FROM_SUMS[metric](y, p, code, draws.times))


def _sums(values: Any, code: Any, times: Any) -> Any:
    return times @ np.bincount(code, values, minlength=times.shape[1])


def _auroc_sums(y: Any, p: Any, code: Any, times: Any) -> Any:
    positive, readers = y == 1, np.arange(times.shape[1])
    above = (p[positive][:, None] > p[~positive][None, :]) * 1.0
    above += 0.5 * (p[positive][:, None] == p[~positive][None, :])
    of_positive = (code[positive][:, None] == readers) * 1.0
    of_negative = (code[~positive][:, None] == readers) * 1.0
    won = ((times @ (of_positive.T @ above @ of_negative)) * times).sum(axis=1)
    total = (times @ of_positive.sum(0)) * (times @ of_negative.sum(0))
    return np.where(total > 0, won / total, np.nan)


def _recall_sums(y: Any, p: Any, code: Any, times: Any) -> Any:
    said = (p >= 0.5) * 1.0
    recalls = [
        _sums((y == k) * (said == k), code, times) / _sums(y == k, code, times)
        for k in np.unique(y)
    ]
    return np.mean(recalls, axis=0)


def _mean_sums(values: Any, code: Any, times: Any) -> Any:
    return _sums(values, code, times) / _sums(np.ones(len(code)), code, times)


def _r2_sums(y: Any, p: Any, code: Any, times: Any) -> Any:
    centred = y - y.mean()  # sums of squares of large numbers lose their last digits
    n, first = _sums(np.ones(len(y)), code, times), _sums(centred, code, times)
    total = _sums(centred**2, code, times) - first**2 / n
    error = _sums((y - p) ** 2, code, times)
    return np.where(total > 1e-9, 1 - error / total, np.nan)


_FROM_SUMS: dict[str, Any] = {
    "auroc": _auroc_sums,
    "balanced_accuracy": _recall_sums,
    "brier": lambda y, p, code, times: _mean_sums((y - p) ** 2, code, times),
    "mae": lambda y, p, code, times: _mean_sums(np.abs(y - p), code, times),
    "rmse": lambda y, p, code, times: np.sqrt(_mean_sums((y - p) ** 2, code, times)),
    "r2": _r2_sums,
}


def by_reader(rows: pd.DataFrame, probabilities: bool = True) -> pd.DataFrame:
    """Return one row per fold, seed and reader: means of target and predictions.

    Probabilities are averaged as log odds where there are two classes; other numbers, also those
    that happen to lie between 0 and 1, as they are.
    """
    columns = prediction_columns(rows)
    values = rows[columns].astype(np.float64)
    odds = probabilities and columns == ["p"] and bool(values["p"].between(0, 1).all())
    if odds:
        clipped = values["p"].clip(1e-6, 1 - 1e-6)
        values = pd.DataFrame({"p": np.log(clipped / (1 - clipped))})
    keys = ["fold", "seed", "participant"]
    means = pd.concat([rows[keys], rows["y"], values], axis=1).groupby(keys, sort=True).mean()
    if odds:
        means["p"] = 1 / (1 + np.exp(-means["p"]))
    return means.reset_index()


def over_folds(
    table: pd.DataFrame, metric: str, regime: str, draws: Draws | None = None
) -> tuple[float, NDArray[np.float64] | None]:
    """Return a score of a model: mean over folds and seeds, and its value in each draw.

    A score whose name ends in ``_reader`` is over the readers of all folds together (each is held
    out once), then the mean over seeds.
    """
    rows = scored(table, regime)
    reader = metric.endswith(READER)
    name = metric.removesuffix(READER)
    parts = by_reader(rows, name in SCORES_OF["classification"]) if reader else rows
    groups = parts.groupby(["seed"] if reader else ["fold", "seed"], sort=True)
    values, drawn = [], []
    for _, group in groups:
        values.append(float(_values(group, name, None)))
        if draws is not None:
            drawn.append(_drawn(group, name, draws))
    if not values:
        return float("nan"), None if draws is None else np.full(len(draws.times), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a draw without one of the classes
        mean = float(np.nanmean(values))
        return mean, None if draws is None else np.nanmean(np.stack(drawn), axis=0)


def interval(values: NDArray[np.float64] | None, level: float = 0.95) -> tuple[float, float]:
    """Return the percentile interval of the values of draws."""
    if values is None or np.isnan(values).all():
        return float("nan"), float("nan")
    low, high = np.nanquantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def metrics_of(task: ReadingTask) -> list[str]:
    """Return the scores that are computed for a task."""
    names = list(SCORES_OF[task.kind])
    if task.level == "reader":
        names += [n + READER for n in names[:1]]
    return names


def score_rows(
    table: pd.DataFrame, task: ReadingTask, draws: Draws, *, folds: bool = True
) -> list[dict[str, Any]]:
    """Return rows of a model's scores.

    Returns
    -------
    list of dict
        ``regime, fold, metric, value, low, high, n``: fold ``"mean"`` is over folds and seeds;
        the others are single folds (means over seeds) of the headline.
    """
    rows: list[dict[str, Any]] = []
    for regime in (ALL, *REGIMES):
        part = scored(table, regime)
        if not len(part):
            continue
        n = int(part.drop_duplicates(["fold", "trial"]).shape[0])
        for metric in metrics_of(task):
            value, drawn = over_folds(table, metric, regime, draws)
            low, high = interval(drawn)
            rows.append({"regime": regime, "fold": "mean", "metric": metric, "value": value,
                         "low": low, "high": high, "n": n})  # fmt: skip
        if task.kind == "classification" and "p" in part:
            rows.append({"regime": regime, "fold": "mean", "metric": "calibration_error", "n": n,
                         "value": expected_calibration_error(part["y"], part["p"])})  # fmt: skip
        per_seed = part.groupby("seed")
        if part["seed"].nunique() > 1:
            each = [over_folds(g, task.metric, regime)[0] for _, g in per_seed]
            rows.append({"regime": regime, "fold": "mean", "metric": f"{task.metric}_seed_sd",
                         "value": float(np.std(each, ddof=1)), "n": len(each)})  # fmt: skip
        if folds and not task.metric.endswith(READER):
            for fold, group in part.groupby("fold", sort=True):
                value, drawn = over_folds(group, task.metric, ALL, draws)
                low, high = interval(drawn)
                rows.append({"regime": regime, "fold": str(fold), "metric": task.metric,
                             "value": value, "low": low, "high": high,
                             "n": int(group["trial"].nunique())})  # fmt: skip
    return rows


def paired(
    ours: pd.DataFrame, theirs: pd.DataFrame, metric: str, regime: str, draws: Draws
) -> dict[str, float]:
    """Return how much better `ours` is than `theirs` on the same trials, with its interval.

    Positive is better, also for errors.

    Raises
    ------
    DataError
        The two were not tested on the same trials.
    """
    keys = ["fold", "trial"]
    a, b = (scored(t, regime)[keys].drop_duplicates() for t in (ours, theirs))
    common = len(a.merge(b, on=keys))
    if not len(a) == len(b) == common:
        raise DataError(
            "two models were not tested on the same trials",
            expected=f"{len(a)} of {regime}",
            found=f"{common} of {len(b)}",
        )
    one, one_drawn = over_folds(ours, metric, regime, draws)
    two, two_drawn = over_folds(theirs, metric, regime, draws)
    assert one_drawn is not None and two_drawn is not None
    sign = 1 if HIGHER[metric.removesuffix(READER)] else -1
    low, high = interval(sign * (one_drawn - two_drawn))
    return {"difference": sign * (one - two), "low": low, "high": high}


def best_of(tables: dict[str, pd.DataFrame], metric: str, regime: str) -> tuple[str, float]:
    """Return the model with the best score in a regime, and its score."""
    values = {name: over_folds(t, metric, regime)[0] for name, t in tables.items()}
    values = {k: v for k, v in values.items() if not np.isnan(v)}
    if not values:
        raise DataError(f"no model has a score in {regime}")
    pick = max if HIGHER[metric.removesuffix(READER)] else min
    name = pick(values, key=lambda k: values[k])
    return name, values[name]
