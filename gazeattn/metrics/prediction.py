"""How well predictions meet what is true, with intervals that know who was measured.

All scores take weights with a row per bootstrap draw, so that a thousand draws are one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError, UnknownNameError

Floats = NDArray[np.float64]

__all__ = [
    "HIGHER",
    "SCORES",
    "Calibration",
    "auroc",
    "balanced_accuracy",
    "brier",
    "calibration",
    "cluster_draws",
    "expected_calibration_error",
    "mae",
    "r2",
    "rmse",
    "score",
]


def _checked(
    y: ArrayLike, p: ArrayLike, weights: ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    """Return truth, predictions (n,) or (n, classes), and weights (draws, n)."""
    y, p = np.asarray(y, dtype=np.float64), np.asarray(p, dtype=np.float64)
    if y.ndim != 1 or len(p) != len(y):
        raise DataError("one prediction per true value", expected=y.shape, found=p.shape)
    if np.isnan(y).any() or np.isnan(p).any():
        missing = f"{int(np.isnan(y).sum())} and {int(np.isnan(p).sum())} missing"
        raise DataError("true values and predictions must not be missing here", found=missing)
    w = np.ones((1, len(y))) if weights is None else np.atleast_2d(np.asarray(weights, float))
    if w.shape[1] != len(y) or (w < 0).any() or not np.isfinite(w).all():
        raise DataError("weights are numbers of at least 0, one per value", found=w.shape)
    return y, p, w


def _result(values: Floats, weights: ArrayLike | None) -> Any:
    single = weights is None or np.ndim(weights) == 1
    return float(values[0]) if single else values


def auroc(y: ArrayLike, p: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """Return the area under the ROC curve: how often a positive scores above a negative.

    Parameters
    ----------
    y : array-like, shape (n,)
        0 or 1; classes from 0 for several.
    p : array-like, shape (n,) or (n, classes)
        Score of class 1, or probabilities. Ties count half. For more than two classes the mean
        over classes of each against the rest.
    weights : array-like, shape (n,) or (draws, n), optional

    Returns
    -------
    float, or ndarray of shape (draws,)
        NaN where one of the classes has no weight.
    """
    truth, found, w = _checked(y, p, weights)
    if found.ndim == 2 and found.shape[1] > 2:
        parts = []
        for k in range(found.shape[1]):
            parts.append(_binary_auroc(truth == k, found[:, k], w))
        stacked = np.stack(parts)
        there = ~np.isnan(stacked)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.where(there, stacked, 0).sum(axis=0) / there.sum(axis=0)
        return _result(values, weights)
    column = found[:, 1] if found.ndim == 2 else found
    if not np.isin(truth, (0, 1)).all():
        raise DataError("classes are 0 and 1", found=sorted(set(truth.tolist()))[:5])
    return _result(_binary_auroc(truth == 1, column, w), weights)


def _binary_auroc(positive: NDArray[np.bool_], p: Floats, w: Floats) -> Floats:
    if not len(p):
        return np.full(len(w), np.nan)
    order = np.argsort(p, kind="stable")
    ranked = p[order]
    new = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])  # infinite scores count as well
    pos = np.add.reduceat(w[:, order] * positive[order], new, axis=1)
    neg = np.add.reduceat(w[:, order] * ~positive[order], new, axis=1)
    below = np.cumsum(neg, axis=1) - neg
    total = pos.sum(axis=1) * neg.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, (pos * (below + neg / 2)).sum(axis=1) / total, np.nan)


def balanced_accuracy(y: ArrayLike, p: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """Return the mean over classes of the share that is found, at the largest probability.

    A score of one column counts as class 1 from 0.5 on.
    """
    truth, found, w = _checked(y, p, weights)
    said = found.argmax(axis=1) if found.ndim == 2 else (found >= 0.5).astype(np.int64)
    recalls = []
    for k in np.unique(truth):
        of = w * (truth == k)
        with np.errstate(invalid="ignore", divide="ignore"):
            recalls.append((of * (said == k)).sum(axis=1) / of.sum(axis=1))
    return _result(np.mean(recalls, axis=0) if recalls else np.full(len(w), np.nan), weights)


def _column(found: Floats) -> Floats:
    return found[:, 1] if found.ndim == 2 and found.shape[1] == 2 else found


def brier(y: ArrayLike, p: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """Return the mean squared difference between probability and what happened.

    For several classes half the sum over them, which is the same where there are two (Brier 1950,
    Monthly Weather Review 78, 1-3, has the whole sum).
    """
    truth, found, w = _checked(y, p, weights)
    if found.ndim == 2 and found.shape[1] > 2:
        happened = truth[:, None] == np.arange(found.shape[1])
        return _result(_mean(((found - happened) ** 2).sum(axis=1) / 2, w), weights)
    return _result(_mean((_column(found) - truth) ** 2, w), weights)


def rmse(y: ArrayLike, p: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """Return the root mean squared error."""
    truth, found, w = _checked(y, p, weights)
    return _result(np.sqrt(_mean((found - truth) ** 2, w)), weights)


def mae(y: ArrayLike, p: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """Return the mean absolute error."""
    truth, found, w = _checked(y, p, weights)
    return _result(_mean(np.abs(found - truth), w), weights)


def r2(y: ArrayLike, p: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """Return 1 - squared error / variance of the true values: 0 is their own mean.

    NaN where all true values are the same.
    """
    truth, found, w = _checked(y, p, weights)
    mean = _mean(truth, w)
    total = (w * (truth[None, :] - mean[:, None]) ** 2).sum(axis=1)
    error = (w * (found - truth) ** 2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return _result(np.where(total > 1e-12, 1 - error / total, np.nan), weights)


def _mean(values: Floats, w: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return (w * values).sum(axis=1) / w.sum(axis=1)


@dataclass(frozen=True)
class Calibration:
    """How often what was said with some probability was true.

    Attributes
    ----------
    said, true : ndarray, shape (n_bins,)
        Mean probability and share of class 1 in each bin; NaN for an empty one.
    n : ndarray of int, shape (n_bins,)
    """

    said: Floats
    true: Floats
    n: NDArray[np.int64]


def calibration(y: ArrayLike, p: ArrayLike, bins: int = 10) -> Calibration:
    """Return the calibration of probabilities of class 1 in bins of equal width."""
    truth, found, _ = _checked(y, p, None)
    column = _column(found)
    if ((column < 0) | (column > 1)).any():
        raise DataError("probabilities are from 0 to 1", found=f"{column.min()} to {column.max()}")
    at = np.minimum((column * bins).astype(np.int64), bins - 1)
    n = np.bincount(at, minlength=bins)
    with np.errstate(invalid="ignore", divide="ignore"):
        said = np.bincount(at, column, minlength=bins) / n
        true = np.bincount(at, truth, minlength=bins) / n
    return Calibration(said, true, n)


def expected_calibration_error(y: ArrayLike, p: ArrayLike, bins: int = 10) -> float:
    """Return the mean distance between said and true in the bins, weighted by their size.

    Guo et al. (2017), On Calibration of Modern Neural Networks, ICML.
    """
    found = calibration(y, p, bins)
    total = found.n.sum()
    if not total:
        return float("nan")
    gap = np.abs(found.said - found.true)
    return float(np.nansum(gap * found.n) / total)


SCORES: dict[str, Callable[..., Any]] = {
    "auroc": auroc,
    "balanced_accuracy": balanced_accuracy,
    "brier": brier,
    "r2": r2,
    "rmse": rmse,
    "mae": mae,
}
"""Scores by name; each takes truth, predictions and weights."""
HIGHER = {"auroc": True, "balanced_accuracy": True, "brier": False, "r2": True, "rmse": False,
          "mae": False}  # fmt: skip
"""Whether more of a score is better."""


def score(name: str, y: ArrayLike, p: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """Return a score by its name.

    Raises
    ------
    UnknownNameError
        No such score.
    """
    if name not in SCORES:
        raise UnknownNameError("score", name, SCORES)
    return SCORES[name](y, p, weights)


def cluster_draws(
    clusters: Sequence[Any] | NDArray[Any] | Mapping[str, Sequence[Any]],
    draws: int = 2000,
    seed: int = 0,
) -> Floats:
    """Return how often each item counts in each draw of a bootstrap of whole clusters.

    Parameters
    ----------
    clusters
        Label of the reader of each item; or several factors by name, which are drawn
        independently and multiplied (Owen 2007, Annals of Applied Statistics 1, 386-411).
    draws, seed

    Returns
    -------
    ndarray, shape (draws, n_items)
    """
    factors = clusters if isinstance(clusters, Mapping) else {"reader": clusters}
    rng = np.random.default_rng(seed)
    out: Floats | None = None
    for labels in factors.values():
        levels, code = np.unique(np.asarray(labels, dtype=str), return_inverse=True)
        k = len(levels)
        times = rng.multinomial(k, np.full(k, 1 / k), size=draws).astype(np.float64)
        out = times[:, code] if out is None else out * times[:, code]
    if out is None:
        raise DataError("a bootstrap needs clusters")
    return out
