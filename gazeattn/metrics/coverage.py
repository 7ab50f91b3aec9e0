"""How well a profile finds the units that people marked (or looked at)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from gazeattn.metrics._arrays import Floats, as_floats, paired
from gazeattn.metrics._batch import compute
from gazeattn.metrics._kernels import TIES, Kernel, membership, resolve_k
from gazeattn.metrics._options import choice, finite
from gazeattn.registry import register_metric

__all__ = ["coverage", "coverage_chance", "marked_auroc", "marked_reason", "marked_share"]


def marked_reason(a: ArrayLike, b: ArrayLike, *, threshold: float = 0.0, **params: Any) -> str:
    """Say why a metric of marked units is undefined for two profiles; empty where it is defined.

    Parameters
    ----------
    a, b : array-like, shape (n_units,)
    threshold : float
        As in `coverage`; its `k` and `share` are understood too.
    """
    threshold = finite("threshold", threshold)
    pair = paired(a, b)
    n, n_marked = pair.n, int((pair.b > threshold).sum())
    if n == 0:
        return "no unit scored on both sides"
    if n_marked == 0:
        return "no unit is marked"
    if params.get("k") is not None or params.get("share") is not None:
        k = resolve_k(n, params.get("k"), params.get("share"))
        if k > n:
            return f"k = {k} is more than the {n} units scored on both sides"
        return ""
    if n_marked == n:
        return "every unit is marked"
    return ""


def _coverage(
    a: Floats,
    b: Floats,
    k: int | None = None,
    share: float | None = None,
    threshold: float = 0.0,
    ties: str = "random_expectation",
) -> Floats:
    marks = (b > finite("threshold", threshold)).astype(np.float64)
    choice("ties", ties, TIES)
    n, found = a.shape[1], marks.sum(axis=1)
    out = np.full((len(a), len(b)), np.nan)
    if k is None and share is None:
        depth = found.astype(np.int64)
        depth[depth == n] = 0  # with all units marked nothing can be missed
    else:
        depth = np.full(len(b), resolve_k(n, k, share))
    for d in np.unique(depth[(depth > 0) & (depth <= n) & (found > 0)]):
        rows = (depth == d) & (found > 0)
        out[:, rows] = membership(a, int(d), ties) @ marks[rows].T / found[rows]
    return np.minimum(out, 1.0)  # NaN stays


def _auroc(a: Floats, b: Floats, threshold: float = 0.0) -> Floats:
    marks = (b > finite("threshold", threshold)).astype(np.float64)
    found = marks.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        above = rankdata(a, axis=1) @ marks.T - found * (found + 1) / 2
        return np.clip(above / (found * (a.shape[1] - found)), 0.0, 1.0)


def _share(a: Floats, b: Floats, threshold: float = 0.0) -> Floats:
    marks = (b > finite("threshold", threshold)).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        # divided first, so that the sum of large weights does not overflow
        shares = a / np.abs(a).max(axis=1, keepdims=True)
        out = shares @ marks.T / shares.sum(axis=1, keepdims=True)
    out[(a < 0).any(axis=1)] = np.nan
    out[:, marks.sum(axis=1) == 0] = np.nan
    return np.asarray(np.clip(out, 0.0, 1.0))


_COVERAGE = Kernel(
    _coverage,
    min_units=1,
    needs_variation=lambda ties="random_expectation", **_: bool(ties == "index"),
)
_AUROC = Kernel(_auroc)
_SHARE = Kernel(_share, min_units=1)


def _single(kernel: Kernel, a: ArrayLike, b: ArrayLike, **params: Any) -> float:
    x, y = as_floats(a, "first profile"), as_floats(b, "second profile")
    return float(compute(kernel, x[None, :], y[None, :], params)[0, 0])


@register_metric(
    "coverage",
    task="agreement",
    bounds=(0.0, 1.0),
    higher_is_better=True,
    symmetric=False,
    description="Share of the units marked by people that are among the k highest of the model",
    citation="Kou et al. (2024), Proceedings of the ACM on Software Engineering 1 (FSE)",
    formula="|top_k(a) and marked(b)| / |marked(b)|, k = |marked(b)| if not given",
    convention="k = number of marked units, ties in expectation over random order",
    kernel=_COVERAGE,
    reason=marked_reason,
)
def coverage(
    a: ArrayLike,
    b: ArrayLike,
    *,
    k: int | None = None,
    share: float | None = None,
    threshold: float = 0.0,
    ties: str = "random_expectation",
) -> float:
    """Return the share of the marked units that are among the `k` highest of `a`.

    Parameters
    ----------
    a : array-like, shape (n_units,)
        Weights of the model.
    b : array-like, shape (n_units,)
        Marks of people: a unit above `threshold` is marked (or was looked at).
    k : int, optional
        Number of units of the model. Without `k` and `share` it is the number of marked units,
        so that precision and recall are the same.
    share : float, optional
        Their share of the scored units instead (rounded, at least one unit).
    threshold : float
    ties : {"random_expectation", "index"}
        Equal weights: the expected coverage if ties were broken at random, or the earlier unit
        goes first.

    Returns
    -------
    float
        In [0, 1], with `coverage_chance` by chance. NaN without a marked unit, where `k` is
        larger than the number of scored units, and, without `k` and `share`, where all units
        are marked; with ties by index also where a side is constant.

    References
    ----------
    Kou et al. (2024), Do large language models pay similar attention like human programmers when
    generating code?, Proceedings of the ACM on Software Engineering 1 (FSE).
    """
    return _single(_COVERAGE, a, b, k=k, share=share, threshold=threshold, ties=ties)


def coverage_chance(
    b: ArrayLike, *, k: int | None = None, share: float | None = None, threshold: float = 0.0
) -> float:
    """Return the `coverage` that an unrelated profile gets on average: ``k / n``.

    Parameters
    ----------
    b : array-like, shape (n_units,)
        Marks of people.
    k, share, threshold
        As in `coverage`.

    Returns
    -------
    float
        NaN where the coverage is.
    """
    marks = as_floats(b, "marks")
    scored = marks[~np.isnan(marks)]
    if marked_reason(np.zeros(len(scored)), scored, threshold=threshold, k=k, share=share):
        return float("nan")
    if k is None and share is None:
        return float((scored > threshold).mean())
    return resolve_k(len(scored), k, share) / len(scored)


@register_metric(
    "marked_auroc",
    task="agreement",
    bounds=(0.0, 1.0),
    higher_is_better=True,
    symmetric=False,
    description="Probability that a unit marked by people ranks above an unmarked one",
    citation="Hanley and McNeil (1982), Radiology 143; Mann and Whitney (1947)",
    formula="(R - m (m + 1) / 2) / (m (n - m)), R = sum of average ranks of the m marked units",
    convention="ties count one half",
    kernel=_AUROC,
    reason=marked_reason,
)
def marked_auroc(a: ArrayLike, b: ArrayLike, *, threshold: float = 0.0) -> float:
    """Return the area under the ROC curve of `a` as a ranking of the marked units.

    Parameters
    ----------
    a : array-like, shape (n_units,)
        Weights of the model; their order alone counts.
    b : array-like, shape (n_units,)
        Marks of people: a unit above `threshold` is marked (or was looked at).
    threshold : float

    Returns
    -------
    float
        In [0, 1], 0.5 by chance and, by definition, for a constant profile; ties count one half.
        NaN where no unit or every unit is marked.

    References
    ----------
    Hanley and McNeil (1982), Radiology 143, 29-36.
    """
    return _single(_AUROC, a, b, threshold=threshold)


@register_metric(
    "marked_share",
    task="agreement",
    bounds=(0.0, 1.0),
    higher_is_better=True,
    symmetric=False,
    description="Share of the model's weight that lies on the units marked by people",
    citation="Arras, Osman & Samek 2022, Information Fusion 81 (relevance mass accuracy)",
    formula="sum of a over marked units / sum of a",
    convention="weights as they are, no smoothing",
    kernel=_SHARE,
    reason=marked_reason,
)
def marked_share(a: ArrayLike, b: ArrayLike, *, threshold: float = 0.0) -> float:
    """Return the share of the weight of `a` that lies on marked units.

    Parameters
    ----------
    a : array-like, shape (n_units,)
        Weights of at least 0.
    b : array-like, shape (n_units,)
        Marks of people: a unit above `threshold` is marked (or was looked at).
    threshold : float

    Returns
    -------
    float
        In [0, 1]; an even profile gets the share of marked units. NaN without a marked unit,
        with negative weights or without any weight.

    References
    ----------
    Arras, Osman and Samek (2022), Information Fusion 81 ("relevance mass accuracy").
    """
    return _single(_SHARE, a, b, threshold=threshold)
