"""Many tests at once, averages that count what is missing, effect sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from gazeattn.errors import DataError
from gazeattn.metrics._arrays import EVERY, Floats, as_floats, is_constant, paired
from gazeattn.metrics._options import choice, flag, whole, wrong
from gazeattn.metrics._permutation import SIDES, TIE_TOLERANCE

NAN = float("nan")
METHODS = ("bh", "by", "holm", "bonferroni")


def adjust(p: ArrayLike, method: str = "bh") -> Floats:
    """Adjust p values for the number of tests.

    Parameters
    ----------
    p : array-like, any shape
        NaN stays NaN and is not counted as a test.
    method : {"bh", "by", "holm", "bonferroni"}
        False discovery rate by Benjamini and Hochberg (1995) or, under any dependence, by
        Benjamini and Yekutieli (2001); family-wise error by Holm (1979) or Bonferroni.

    Returns
    -------
    ndarray, shape of `p`

    Raises
    ------
    DataError
        A p value below 0 or above 1.

    References
    ----------
    Benjamini and Hochberg (1995), Journal of the Royal Statistical Society B 57, 289-300;
    Benjamini and Yekutieli (2001), Annals of Statistics 29, 1165-1188; Holm (1979),
    Scandinavian Journal of Statistics 6, 65-70.
    """
    choice("method", method, METHODS)
    values = as_floats(p, "p values", EVERY).astype(np.float64)
    out = np.full(values.shape, np.nan)
    there = ~np.isnan(values)
    x = values[there]
    if ((x < 0) | (x > 1)).any():
        raise DataError("p values lie between 0 and 1", found=x[(x < 0) | (x > 1)][0])
    m = len(x)
    if m == 0:
        return out
    order = np.argsort(x, kind="stable")
    rank = np.arange(1, m + 1)
    if method == "bonferroni":
        out[there] = np.minimum(x * m, 1.0)
        return out
    if method == "holm":
        sorted_q = np.maximum.accumulate(x[order] * (m - rank + 1))
    else:
        factor = m if method == "bh" else m * (1 / rank).sum()
        sorted_q = np.minimum.accumulate((x[order] * factor / rank)[::-1])[::-1]
    q = np.empty(m)
    q[order] = np.minimum(sorted_q, 1.0)
    out[there] = q
    return out


def benjamini_hochberg(p: ArrayLike) -> Floats:
    """Return q values that control the false discovery rate; NaN stays NaN and is not counted.

    References
    ----------
    Benjamini and Hochberg (1995), Journal of the Royal Statistical Society B 57, 289-300.
    """
    return adjust(p, "bh")


def max_t(
    observed: ArrayLike, null: ArrayLike, alternative: str = "greater", exact: bool = False
) -> Floats:
    """Return p values that hold for all tests together, from the extreme of each joint draw.

    Parameters
    ----------
    observed : array-like, shape (m,)
        NaN stays NaN and is left out of the extremes.
    null : array-like, shape (m, n_draws)
        Column i holds the same shuffle for all tests (as `permutation_pvalues` returns it).
    alternative : {"greater", "less", "two-sided"}
        Two-sided compares absolute values, for metrics with a null around 0.
    exact : bool
        Whether the draws are all arrangements, the observed one among them.

    Returns
    -------
    ndarray, shape (m,)

    References
    ----------
    Westfall and Young (1993), Resampling-Based Multiple Testing.
    """
    choice("alternative", alternative, SIDES)
    exact = flag("exact", exact)
    x = as_floats(observed, "observed values").astype(np.float64)
    draws = as_floats(null, "draws", (2,)).astype(np.float64)
    if len(draws) != len(x):
        raise DataError("one row of draws per test is needed", expected=len(x), found=len(draws))
    there = ~np.isnan(x)
    out = np.full(len(x), np.nan)
    if not there.any() or draws.shape[1] == 0:
        return out
    x, draws = x[there], draws[there]
    if np.isnan(draws).any():
        raise DataError(
            "draws are missing",
            hint="Tests with different numbers of arrangements have no joint draws.",
        )
    if alternative == "less":
        x, draws = -x, -draws
    elif alternative == "two-sided":
        x, draws = np.abs(x), np.abs(draws)
    extremes = np.sort(draws.max(axis=0))
    n, extra = len(extremes), 0 if exact else 1
    above = n - np.searchsorted(extremes, x - TIE_TOLERANCE * (1 + np.abs(x)), side="left")
    out[there] = (extra + above) / (extra + n)
    return out


@dataclass(frozen=True)
class Summary:
    """An average that says how much it rests on.

    Attributes
    ----------
    mean : float or ndarray
        Over the defined values; NaN without any.
    sd : float or ndarray
        Sample standard deviation; NaN with fewer than two.
    n, n_undefined : int or ndarray of int
        Values in the average, and values that were NaN.
    """

    mean: Any
    sd: Any
    n: Any
    n_undefined: Any


def summarise(values: ArrayLike, axis: int = -1) -> Summary:
    """Average over an axis; undefined values are left out and counted, never taken as 0.

    Examples
    --------
    >>> summarise([0.9, float("nan")])
    Summary(mean=0.9, sd=nan, n=1, n_undefined=1)
    """
    x = np.atleast_1d(as_floats(values, "values", EVERY).astype(np.float64))
    at = whole("axis", axis, -x.ndim)
    if at >= x.ndim:
        raise wrong("axis", f"an axis of values of shape {x.shape}", axis)
    x = np.moveaxis(x, at, -1)
    there = ~np.isnan(x)
    n = there.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(n > 0, np.where(there, x, 0.0).sum(axis=-1) / n, np.nan)
        squares = np.where(there, (x - mean[..., None]) ** 2, 0.0).sum(axis=-1)
        sd = np.where(n > 1, np.sqrt(squares / (n - 1)), np.nan)
    if mean.ndim == 0:
        return Summary(float(mean), float(sd), int(n), int(x.shape[-1] - n))
    return Summary(mean, sd, n, x.shape[-1] - n)


def fisher_mean(r: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Average correlations on Fisher's z scale; NaN is left out.

    A correlation of exactly 1 or -1 has no finite z: then the result is NaN, unless all values
    are the same.

    References
    ----------
    Silver and Dunlap (1987), Journal of Applied Psychology 72, 146-148.
    """
    x = as_floats(r, "correlations").astype(np.float64)
    w = np.ones(len(x)) if weights is None else as_floats(weights, "weights").astype(np.float64)
    if len(w) != len(x):
        raise DataError("one weight per correlation is needed", expected=len(x), found=len(w))
    if (np.abs(x) > 1).any():
        raise DataError("correlations lie between -1 and 1", found=x[np.abs(x) > 1][0])
    keep = ~np.isnan(x) & (w > 0)
    x, w = x[keep], w[keep]
    if len(x) == 0:
        return NAN
    if (x == x[0]).all():
        return float(x[0])
    if (np.abs(x) == 1).any():
        return NAN
    return float(np.tanh((np.arctanh(x) * w).sum() / w.sum()))


def correlation_test(a: ArrayLike, b: ArrayLike, metric: str = "pearson") -> tuple[float, float]:
    """Return a correlation with its two-sided p value for independent units.

    Words of one text are not independent; the within-trial permutation test makes weaker
    assumptions. Pearson and Spearman use the t distribution with n - 2 degrees of freedom,
    Kendall the exact distribution for small samples without ties and the normal one else.

    Parameters
    ----------
    a, b : array-like, shape (n_units,)
    metric : {"pearson", "spearman", "kendall"}

    Returns
    -------
    (value, p)
        Both NaN where the correlation is undefined; p is NaN with two units.
    """
    tests = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
    choice("metric", metric, tuple(tests))
    x, y, n, _ = paired(a, b)
    if n < 2 or is_constant(x[None])[0] or is_constant(y[None])[0]:
        return NAN, NAN
    if n == 2:
        return float(tests["kendall"](x, y).statistic), NAN
    result = tests[metric](x, y)
    return float(result.statistic), float(result.pvalue)


def cohens_d_paired(a: ArrayLike, b: ArrayLike) -> float:
    """Return the mean paired difference in units of its standard deviation (d_z).

    Pairs with NaN are left out; NaN with fewer than two pairs or equal differences.

    References
    ----------
    Cohen (1988), Statistical Power Analysis for the Behavioral Sciences, section 2.3.5.
    """
    x, y, n, _ = paired(a, b)
    if n < 2:
        return NAN
    d = x - y
    if is_constant(d[None])[0]:
        return NAN
    return float(d.mean() / d.std(ddof=1))


def hedges_g(a: ArrayLike, b: ArrayLike) -> float:
    """Return the difference of two independent means in pooled standard deviations, unbiased.

    Cohen's d times the exact small-sample correction. NaN values are left out; NaN with fewer
    than two values in a group or without any variance.

    References
    ----------
    Hedges (1981), Journal of Educational Statistics 6, 107-128.
    """
    x, y = (as_floats(v, "group").astype(np.float64) for v in (a, b))
    x, y = x[~np.isnan(x)], y[~np.isnan(y)]
    if min(len(x), len(y)) < 2 or (is_constant(x[None])[0] and is_constant(y[None])[0]):
        return NAN
    df = len(x) + len(y) - 2
    pooled = ((len(x) - 1) * x.var(ddof=1) + (len(y) - 1) * y.var(ddof=1)) / df
    exact = math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2)
    return float((x.mean() - y.mean()) / math.sqrt(pooled) * exact)
