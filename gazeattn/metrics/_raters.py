"""Agreement of raters: intraclass correlation and kappa of labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.metrics._arrays import as_floats
from gazeattn.metrics._options import array, choice, items

NAN = float("nan")
ICC_KINDS = ("1,1", "2,1", "3,1", "1,k", "2,k", "3,k")


def icc(matrix: ArrayLike, kind: str = "2,1") -> float:
    """Return an intraclass correlation.

    Parameters
    ----------
    matrix : array-like, shape (n_raters, n_items)
        Items that a rater did not score are left out for all raters.
    kind : {"1,1", "2,1", "3,1", "1,k", "2,k", "3,k"}
        Shrout and Fleiss's model and unit: one-way, two-way random (absolute agreement), two-way
        mixed (consistency); single raters or their mean.

    Returns
    -------
    float
        NaN with fewer than two raters or complete items, or without any variance.

    References
    ----------
    Shrout and Fleiss (1979), Psychological Bulletin 86, 420-428.
    """
    choice("kind", kind, ICC_KINDS)
    x = as_floats(matrix, "ratings", (2,)).astype(np.float64)
    x = x[:, ~np.isnan(x).any(axis=0)]
    k, n = x.shape
    if k < 2 or n < 2:
        return NAN
    grand, items, raters = x.mean(), x.mean(axis=0), x.mean(axis=1)
    between = k * ((items - grand) ** 2).sum() / (n - 1)
    rater = n * ((raters - grand) ** 2).sum() / (k - 1)
    within = ((x - items) ** 2).sum() / (n * (k - 1))
    rest = ((x - items - raters[:, None] + grand) ** 2).sum() / ((n - 1) * (k - 1))
    model, single = kind[0], kind.endswith("1")
    if model == "1":
        above, below = between - within, between + (k - 1) * within if single else between
    elif model == "2":
        above = between - rest
        below = (
            between + (k - 1) * rest + k * (rater - rest) / n
            if single
            else between + (rater - rest) / n
        )
    else:
        above, below = between - rest, between + (k - 1) * rest if single else between
    scale = np.abs(x).max()
    return float(above / below) if abs(below) > (1e-14 * scale) ** 2 else NAN


def _categories(*ratings: ArrayLike) -> tuple[np.ndarray, int]:
    """Number the categories in sorted order; one row per rater, items with NaN left out."""
    table = array("ratings", ratings, "one label per item of every rater")
    if table.ndim != 2:
        raise DataError("ratings must have one label per item", found=f"shape {table.shape}")
    if table.dtype.kind == "f":
        table = table[:, ~np.isnan(table).any(axis=0)]
    labels, codes = np.unique(table, return_inverse=True)
    return codes.reshape(table.shape), len(labels)


def cohen_kappa(a: ArrayLike, b: ArrayLike, weights: str | None = None) -> float:
    """Return Cohen's kappa of two raters.

    Parameters
    ----------
    a, b : array-like, shape (n_items,)
        Labels; items that a rater left out (NaN) are dropped.
    weights : {None, "linear", "quadratic"}
        Cost of a disagreement: 1, or the distance (squared) between the places of the two
        labels in the sorted list of labels in use.

    Returns
    -------
    float
        NaN without items or where chance alone would agree fully (one label in use).

    References
    ----------
    Cohen (1960), Educational and Psychological Measurement 20, 37-46; Cohen (1968),
    Psychological Bulletin 70, 213-220.
    """
    choice("weights", weights, (None, "linear", "quadratic"))
    x, y = (array("the labels of a rater", v, "one label per item") for v in (a, b))
    if x.shape != y.shape:
        raise DataError("both raters need one label per item", expected=y.shape, found=x.shape)
    codes, m = _categories(x, y)
    if codes.shape[1] == 0 or m < 2:
        return NAN
    seen = np.bincount(codes[0] * m + codes[1], minlength=m * m).reshape(m, m)
    seen = seen / seen.sum()
    distance = np.abs(np.subtract.outer(np.arange(m), np.arange(m))).astype(np.float64)
    cost = (distance > 0).astype(np.float64) if weights is None else distance
    if weights == "quadratic":
        cost = distance**2
    by_chance = (cost * np.outer(seen.sum(axis=1), seen.sum(axis=0))).sum()
    return float(1 - (cost * seen).sum() / by_chance) if by_chance > 0 else NAN


def fleiss_kappa(ratings: ArrayLike) -> float:
    """Return Fleiss' kappa of several raters.

    Parameters
    ----------
    ratings : array-like, shape (n_raters, n_items)
        Labels; items that a rater left out (NaN) are dropped.

    Returns
    -------
    float
        NaN with fewer than two raters, without items or with one label in use.

    References
    ----------
    Fleiss (1971), Psychological Bulletin 76, 378-382.
    """
    codes, m = _categories(*items("ratings", ratings, "the labels of each rater"))
    raters, n = codes.shape
    if raters < 2 or n == 0 or m < 2:
        return NAN
    counts = np.stack([(codes == c).sum(axis=0) for c in range(m)])
    agreed = ((counts * (counts - 1)).sum(axis=0) / (raters * (raters - 1))).mean()
    by_chance = ((counts.sum(axis=1) / (raters * n)) ** 2).sum()
    return float((agreed - by_chance) / (1 - by_chance))
