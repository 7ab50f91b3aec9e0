"""How far people agree with each other: noise ceilings, split halves, intraclass correlation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from gazeattn.errors import DataError
from gazeattn.metrics._arrays import EVERY, Floats, as_floats, paired
from gazeattn.metrics._batch import batched
from gazeattn.metrics._options import choice, positive, share, whole
from gazeattn.metrics._options import generator as generator_of
from gazeattn.metrics._options import labels as labels_of

NAN = float("nan")


@dataclass(frozen=True)
class NoiseCeiling:
    """How well a perfect model of the average reader could agree with single readers.

    Attributes
    ----------
    lower : float
        Mean agreement of each reader with the mean of the others.
    upper : float
        Mean agreement of each reader with the mean of all, the reader included.
    per_reader, per_reader_upper : ndarray, shape (n_rows,)
    n_readers : int
        Different people (not rows).
    n_units : int
        Units that at least two people scored.
    n_undefined : int
        Rows without a defined lower value; they are left out of the mean.
    reason : str
        Why a bound is missing; empty where both are there.
    """

    lower: float
    upper: float
    per_reader: Floats
    per_reader_upper: Floats
    n_readers: int
    n_units: int
    n_undefined: int
    reason: str


def _matrix(values: ArrayLike, name: str = "readers") -> Floats:
    return as_floats(values, name, (2,)).astype(np.float64)


def _people(readers: Sequence[Any] | np.ndarray | None, n: int) -> np.ndarray:
    if readers is None:
        return np.arange(n)
    labels = np.unique(labels_of("readers", readers), return_inverse=True)[1].ravel()
    if len(labels) != n:
        raise DataError("one reader id per row is needed", expected=n, found=len(labels))
    return np.asarray(labels)


def _nan_mean(values: Floats, axis: int | None = None) -> Any:
    """Mean over what is there; NaN (without a warning) where nothing is."""
    there = ~np.isnan(values)
    n = there.sum(axis=axis)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(n > 0, np.where(there, values, 0.0).sum(axis=axis) / n, np.nan)


def mean_of_others(matrix: ArrayLike, readers: Sequence[Any] | None = None) -> Floats:
    """Return for each row the mean over the rows of other people.

    Parameters
    ----------
    matrix : array-like, shape (n_rows, n_units)
    readers : sequence, shape (n_rows,), optional
        Person behind each row; rows of one person are never part of that person's reference.

    Returns
    -------
    ndarray, shape (n_rows, n_units)
        Per unit the mean over those who scored it; NaN where none of them did.
    """
    x = _matrix(matrix)
    people = _people(readers, len(x))
    out = np.full(x.shape, np.nan)
    for person in np.unique(people):
        own = people == person
        out[own] = _nan_mean(x[~own], axis=0)
    return out


def _rowwise(metric: str | Callable[..., float], a: Floats, b: Floats, params: Any) -> Floats:
    return np.array([batched(metric, a[i : i + 1], b[i], **params)[0] for i in range(len(a))])


def noise_ceiling(
    matrix: ArrayLike,
    metric: str | Callable[..., float] = "spearman",
    readers: Sequence[Any] | None = None,
    **params: Any,
) -> NoiseCeiling:
    """Return the leave-one-reader-out noise ceiling of one text.

    Parameters
    ----------
    matrix : array-like, shape (n_rows, n_units)
        One reader's profile per row, NaN where the reader has no score. Profiles that differ in
        scale should be normalised first: a slow reader weighs more in a plain mean.
    metric
        Agreement metric by name, or a function ``f(a, b)``; the mean of the others is `a` (the
        place of the model) and the reader `b`.
    readers : sequence, shape (n_rows,), optional
        Person behind each row, needed where a person has several rows (e.g. in a bootstrap over
        readers): copies of one person are never on both sides.
    **params
        Passed to the metric.

    Returns
    -------
    NoiseCeiling
        With two readers the lower bound is their agreement with each other and the upper one is
        missing; with one reader both are missing.

    References
    ----------
    Nili et al. (2014), PLoS Computational Biology 10, e1003553.
    """
    x = _matrix(matrix)
    people = _people(readers, len(x))
    scored = ~np.isnan(x).all(axis=1)
    n_readers = len(np.unique(people[scored]))
    n_scoring = np.zeros(x.shape[1], dtype=int)
    for person in np.unique(people):
        n_scoring += (~np.isnan(x[people == person])).any(axis=0)
    n_units = int((n_scoring >= 2).sum())
    blank = np.full(len(x), np.nan)
    if n_readers < 2:
        reason = f"{n_readers} reader{'' if n_readers == 1 else 's'}: a ceiling needs two"
        return NoiseCeiling(NAN, NAN, blank, blank, n_readers, n_units, len(x), reason)
    others = mean_of_others(x, readers)
    # both bounds over the same units: where a reader is alone the upper one compares it to itself
    x = np.where(np.isnan(others), np.nan, x)
    low = _rowwise(metric, others, x, params)
    n_undefined = int(np.isnan(low).sum())
    lower = float(_nan_mean(low))
    reasons = []
    if math.isnan(lower):
        reasons.append("no reader has a defined agreement with the others")
    n_sharing = len(np.unique(people[~np.isnan(x).all(axis=1)]))
    high, upper = blank, NAN
    if n_sharing < 3:
        who = f"{n_sharing} readers" + (" share scored units" if n_sharing < n_readers else "")
        reasons.append(f"{who}: an upper bound needs three, half of the mean is the reader")
    else:
        high = batched(metric, _nan_mean(x, axis=0)[None, :], x, **params)[0]
        high = np.where(np.isnan(low), np.nan, high)  # and over the same readers
        upper = float(_nan_mean(high))
        if math.isnan(upper) and not reasons:
            reasons.append("no reader has a defined agreement with the mean of all")
    reason = "; ".join(reasons)
    return NoiseCeiling(lower, upper, low, high, n_readers, n_units, n_undefined, reason)


def mean_pairwise(
    matrix: ArrayLike,
    metric: str | Callable[..., float] = "spearman",
    readers: Sequence[Any] | None = None,
    **params: Any,
) -> float:
    """Return the mean agreement over all pairs of rows of different people, NaN pairs left out."""
    x = _matrix(matrix)
    people = _people(readers, len(x))
    values = batched(metric, x, x, **params) if len(x) else np.empty((0, 0))
    i, j = np.triu_indices(len(x), 1)
    pairs = people[i] != people[j]
    return float(_nan_mean(values[i, j][pairs]))


def spearman_brown(r: ArrayLike, factor: float = 2.0) -> Any:
    """Return the reliability of a measurement `factor` times as long.

    ``factor * r / (1 + (factor - 1) * r)``; NaN where the denominator is not above 0.

    References
    ----------
    Spearman (1910), British Journal of Psychology 3, 271-295; Brown (1910), same, 296-322.
    """
    x, factor = as_floats(r, "r", EVERY).astype(np.float64), positive("factor", factor)
    below = 1 + (factor - 1) * x
    with np.errstate(invalid="ignore", divide="ignore"):
        out = np.where(below > 0, factor * x / below, np.nan)
    return float(out) if out.ndim == 0 else out


@dataclass(frozen=True)
class SplitHalf:
    """Agreement of the mean profiles of two halves of the readers.

    Attributes
    ----------
    r : float
        Mean over the splits.
    reliability : float
        `r` after the Spearman-Brown correction: the reliability of the mean of all readers. It
        is a share of variance; its square root is a ceiling for a correlation.
    per_split : ndarray, shape (n_splits,)
    n_readers : int
    reason : str
        Why it is missing; empty where it is not.
    """

    r: float
    reliability: float
    per_split: Floats
    n_readers: int
    reason: str


def split_half(
    matrix: ArrayLike,
    metric: str | Callable[..., float] = "pearson",
    halves: str = "odd_even",
    n_splits: int = 100,
    rng: np.random.Generator | int | None = None,
    readers: Sequence[Any] | None = None,
    **params: Any,
) -> SplitHalf:
    """Return the split-half reliability over readers.

    Parameters
    ----------
    matrix : array-like, shape (n_rows, n_units)
    metric
        A correlation, by name or as a function; the correction holds for correlations only.
    halves : {"odd_even", "random"}
        People 0, 2, 4, ... against 1, 3, 5, ... in order of appearance, or `n_splits` random
        halves whose agreement is averaged before the correction.
    n_splits, rng
        For random halves.
    readers : sequence, shape (n_rows,), optional
        Person behind each row; all rows of a person go to the same half.
    **params
        Passed to the metric.

    Returns
    -------
    SplitHalf
    """
    choice("halves", halves, ("odd_even", "random"))
    n_splits, generator = whole("n_splits", n_splits), generator_of(rng)
    x = _matrix(matrix)
    people = _people(readers, len(x))
    scored = ~np.isnan(x).all(axis=1)
    x, people = x[scored], people[scored]  # who scored nothing is in no half
    order = people[np.sort(np.unique(people, return_index=True)[1])]
    n = len(order)
    if n < 2:
        reason = f"{n} reader{'' if n == 1 else 's'}: halves need two"
        return SplitHalf(NAN, NAN, np.empty(0), n, reason)
    if halves == "odd_even":
        firsts = [order[::2]]
    else:
        firsts = [generator.permutation(order)[: n // 2] for _ in range(n_splits)]
    left = np.stack([_nan_mean(x[np.isin(people, f)], axis=0) for f in firsts])
    right = np.stack([_nan_mean(x[~np.isin(people, f)], axis=0) for f in firsts])
    values = _rowwise(metric, left, right, params)
    r = float(_nan_mean(values))
    reason = "the agreement of the halves is undefined" if math.isnan(r) else ""
    return SplitHalf(r, spearman_brown(r), values, n, reason)


def relative(
    value: ArrayLike,
    ceiling: ArrayLike | NoiseCeiling | SplitHalf,
    scale: str = "correlation",
    kind: str = "correlation",
) -> Any:
    """Return a correlation as a share of its ceiling, both on the same scale.

    Parameters
    ----------
    value : float or array-like
        Correlations.
    ceiling : float, array-like, NoiseCeiling or SplitHalf
        A `NoiseCeiling` stands for its lower bound, a `SplitHalf` for its reliability.
    scale : {"correlation", "variance"}
        Scale of the result: ``value / c`` or its square, with `c` the ceiling as a correlation.
        The square keeps the sign of `value`, so that disagreement never reads as success.
    kind : {"correlation", "reliability"}
        What a plain number for `ceiling` is. A reliability is a share of variance:
        ``c = sqrt(reliability)``.

    Returns
    -------
    float or ndarray
        NaN where the ceiling is missing or not above 0.

    Examples
    --------
    >>> round(relative(0.4, 0.64, "variance", kind="reliability"), 10)
    0.25
    >>> round(relative(0.4, 0.64, "correlation", kind="reliability"), 10)
    0.5
    """
    choice("scale", scale, ("correlation", "variance"))
    choice("kind", kind, ("correlation", "reliability"))
    if isinstance(ceiling, NoiseCeiling):
        ceiling, kind = ceiling.lower, "correlation"
    elif isinstance(ceiling, SplitHalf):
        ceiling, kind = ceiling.reliability, "reliability"
    x, c = as_floats(value, "value", EVERY), as_floats(ceiling, "ceiling", EVERY)
    try:
        np.broadcast_shapes(x.shape, c.shape)
    except ValueError:
        raise DataError(
            "one ceiling, or one per value, is needed", expected=x.shape, found=c.shape
        ) from None
    with np.errstate(invalid="ignore", divide="ignore"):
        c = np.where(c > 0, c, np.nan)
        out = x / (np.sqrt(c) if kind == "reliability" else c)
    if scale == "variance":
        out = np.sign(out) * out**2
    return float(out) if out.ndim == 0 else out


def pearson_ci(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> tuple[float, float, float]:
    """Return Pearson's r with its confidence interval by Fisher's transform.

    Returns
    -------
    (r, low, high)
        The bounds are NaN with fewer than four scored units. Words of a text are not
        independent, so that the interval is too narrow for them; see `clustered_bootstrap`.

    References
    ----------
    Fisher (1921), Metron 1, 3-32.
    """
    level = share("level", level)
    x, y, n, _ = paired(a, b)
    r = float(batched("pearson", x[None, :], y)[0])
    if math.isnan(r) or n < 4:
        return r, NAN, NAN
    if abs(r) == 1:
        return r, r, r
    half = float(norm.ppf((1 + level) / 2)) / math.sqrt(n - 3)
    z = math.atanh(r)
    return r, math.tanh(z - half), math.tanh(z + half)
