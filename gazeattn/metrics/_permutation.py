"""Permutation tests: words within a trial, signs of differences, two groups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.metrics import _kernels
from gazeattn.metrics._arrays import Floats, as_floats, row_groups, same_length
from gazeattn.metrics._batch import batched
from gazeattn.metrics._conventions import higher_is_better
from gazeattn.metrics._options import array, choice, items, whole, wrong
from gazeattn.metrics._options import generator as generator_of
from gazeattn.metrics._options import labels as labels_of
from gazeattn.metrics._partial import METHODS, Covariates, design, partial_parts

SIDES = ("two-sided", "greater", "less")
ALTERNATIVES = (*SIDES, "better")
TIE_TOLERANCE = 1e-12
"""Draws this near to the observed value count as equal to it: the order of sums differs."""


@dataclass(frozen=True)
class PermutationResult:
    """Outcome of a permutation test of several profiles.

    Attributes
    ----------
    observed : ndarray, shape (n_profiles,)
    p : ndarray, shape (n_profiles,)
        NaN where the metric is undefined.
    null : ndarray, shape (n_profiles, n_draws)
        Draws; where profiles have different numbers of arrangements the rest of a row is NaN.
        In an exact test the observed arrangement is one of them.
    exact : ndarray of bool, shape (n_profiles,)
        Whether every arrangement was visited.
    n_draws : ndarray of int, shape (n_profiles,)
    alternative : str
    """

    observed: Floats
    p: Floats
    null: Floats
    exact: np.ndarray
    n_draws: np.ndarray
    alternative: str

    @property
    def chance(self) -> Floats:
        """Mean of the draws of each profile: what unrelated words would give."""
        n = self.n_draws
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(n > 0, np.nansum(self.null, axis=1) / n, np.nan))


def _direction(alternative: str, metric: str | Callable[..., Any]) -> str:
    choice("alternative", alternative, ALTERNATIVES)
    if alternative == "better":
        if not isinstance(metric, str):
            raise DataError("alternative='better' needs a registered metric", found=repr(metric))
        return "greater" if higher_is_better(metric) else "less"
    return alternative


def tail_probability(
    observed: ArrayLike, null: ArrayLike, alternative: str, exact: ArrayLike = False
) -> Floats:
    """Return permutation p values from draws.

    Parameters
    ----------
    observed : array-like, shape (m,)
    null : array-like, shape (m, n_draws)
        NaN draws are not counted.
    alternative : {"two-sided", "greater", "less"}
        Two-sided doubles the smaller tail and stops at 1.
    exact : bool or array-like of bool, shape (m,)
        Whether the draws are all arrangements, the observed one among them: then
        ``count / n``, else ``(1 + count) / (1 + n)`` (Phipson and Smyth, 2010).

    Returns
    -------
    ndarray, shape (m,)
        NaN where `observed` is NaN or no draw is defined.
    """
    choice("alternative", alternative, SIDES)
    x = as_floats(observed, "observed values").astype(np.float64)
    draws = as_floats(null, "draws", (2,)).astype(np.float64)
    if len(draws) != len(x):
        raise DataError("one row of draws per test is needed", expected=len(x), found=len(draws))
    known = array("exact", exact, "True or False, or one of them per test")
    if known.dtype != bool or known.shape not in ((), x.shape):
        raise wrong("exact", "True or False, or one of them per test", exact)
    n = (~np.isnan(draws)).sum(axis=1)
    extra = np.where(np.broadcast_to(known, x.shape), 0, 1)
    slack = TIE_TOLERANCE * (1 + np.abs(x))
    with np.errstate(invalid="ignore", divide="ignore"):
        above = (extra + (draws >= (x - slack)[:, None]).sum(axis=1)) / (extra + n)
        below = (extra + (draws <= (x + slack)[:, None]).sum(axis=1)) / (extra + n)
    if alternative == "greater":
        p = above
    elif alternative == "less":
        p = below
    else:
        p = np.minimum(2 * np.minimum(above, below), 1.0)
    return np.asarray(np.where(np.isnan(x) | (n == 0), np.nan, p))


def _n_arrangements(strata: np.ndarray, limit: int) -> int:
    """Return the number of arrangements within strata, or `limit` + 1 if it is larger."""
    total = 1
    for size in np.bincount(strata):
        for factor in range(2, int(size) + 1):
            total *= factor
            if total > limit:
                return limit + 1
    return total


def _all_arrangements(strata: np.ndarray) -> np.ndarray:
    groups = [np.flatnonzero(strata == s) for s in np.unique(strata)]
    rows = []
    for parts in itertools.product(*(itertools.permutations(g.tolist()) for g in groups)):
        row = np.empty(len(strata), dtype=np.intp)
        for g, part in zip(groups, parts, strict=True):
            row[g] = part
        rows.append(row)
    return np.stack(rows)


def _random_arrangements(strata: np.ndarray, keys: Floats) -> np.ndarray:
    """Turn random keys in [0, 1), one per draw and unit, into arrangements within strata."""
    target = np.argsort(strata, kind="stable")
    order = np.empty(keys.shape, dtype=np.intp)
    order[:, target] = np.argsort(keys + strata, axis=1)
    return order


def permutation_pvalues(
    A: ArrayLike,
    b: ArrayLike,
    metric: str | Callable[..., float] = "spearman",
    n_permutations: int = 1000,
    rng: np.random.Generator | int | None = None,
    alternative: str = "two-sided",
    strata: Sequence[Any] | np.ndarray | None = None,
    covariates: Covariates | None = None,
    **params: Any,
) -> PermutationResult:
    """Test whether profiles agree with a reference more than with its words shuffled.

    Only units with a score on both sides are shuffled; every draw uses the same shuffle for all
    profiles. If all arrangements are at most `n_permutations`, each is visited once and the test
    is exact.

    Parameters
    ----------
    A : array-like, shape (n_profiles, n_units) or (n_units,)
    b : array-like, shape (n_units,)
    metric
        Name of an agreement metric or a function ``f(a, b)``.
    n_permutations : int
    rng : Generator or int, optional
        Source of randomness; the draws do not depend on the number of profiles.
    alternative : {"two-sided", "greater", "less", "better"}
        ``"better"`` is the side of more agreement (``"less"`` for distances).
    strata : sequence, shape (n_units,), optional
        Words are exchanged within equal labels only, e.g. within lines.
    covariates : optional
        Controls, as in `agreement.partial`; the metric must be ``"spearman"`` or ``"pearson"``.
        Residuals of `b` are shuffled and regressed again (Freedman and Lane, 1983).
    **params
        Passed to the metric.

    Returns
    -------
    PermutationResult

    References
    ----------
    Phipson and Smyth (2010), Statistical Applications in Genetics and Molecular Biology 9, 39;
    Freedman and Lane (1983), Journal of Business and Economic Statistics 1, 292-298.
    """
    side = _direction(alternative, metric)
    x, y = as_floats(A, "profiles", (1, 2)), as_floats(b, "reference")
    x = np.atleast_2d(x)
    same_length(x, y)
    n_units = len(y)
    n_permutations = whole("n_permutations", n_permutations)
    labels = np.zeros(n_units, dtype=np.intp)
    if strata is not None:
        labels = np.unique(labels_of("strata", strata), return_inverse=True)[1].ravel()
        if len(labels) != n_units:
            raise DataError("one stratum per unit is needed", expected=n_units, found=len(labels))
    z = None if covariates is None else design(covariates, n_units)
    if z is not None:
        choice("metric with covariates", metric, METHODS)
    # one key per unit of the whole text, so that profiles with gaps see the same shuffles
    keys = generator_of(rng).random((n_permutations, n_units))

    observed = np.full(len(x), np.nan)
    null = np.full((len(x), n_permutations), np.nan)
    exact, n_draws = np.zeros(len(x), dtype=bool), np.zeros(len(x), dtype=int)
    lost = np.isnan(y) if z is None else np.isnan(y) | np.isnan(z).any(axis=0)
    for rows, missing in row_groups(np.isnan(x)):
        keep = ~(missing | lost)
        if len(rows) == 0 or keep.sum() < 2:
            continue
        strata_kept = np.unique(labels[keep], return_inverse=True)[1].ravel()
        n_all = _n_arrangements(strata_kept, n_permutations)
        if n_all <= n_permutations:
            order = _all_arrangements(strata_kept)
            exact[rows] = True
        else:
            order = _random_arrangements(strata_kept, keys[:, keep])
        if z is None:
            observed[rows] = batched(metric, x[rows][:, keep], y[keep], **params)
            draws = batched(metric, x[rows][:, keep], y[keep][order], **params)
        else:
            observed[rows], draws = _partial_null(
                x[rows][:, keep], y[keep], z[:, keep], str(metric), order
            )
        draws[np.isnan(observed[rows])] = np.nan
        null[rows, : len(order)] = draws
        n_draws[rows] = (~np.isnan(draws)).sum(axis=1)
    width = int(n_draws.max(initial=0)) if exact.all() else n_permutations
    null = null[:, :width]
    return PermutationResult(
        observed, tail_probability(observed, null, side, exact), null, exact, n_draws, side
    )


def _partial_null(
    x: np.ndarray, y: np.ndarray, z: Floats, method: str, order: np.ndarray
) -> tuple[Floats, Floats]:
    parts = partial_parts(x, y[None, :], z, method)
    if parts is None:
        return np.full(len(x), np.nan), np.full((len(x), len(order)), np.nan)
    rx, ry, basis = parts
    shuffled = ry[0][order]
    shuffled = shuffled - (shuffled @ basis) @ basis.T
    return _kernels.cosine(rx, ry)[:, 0], _kernels.cosine(rx, shuffled)


@dataclass(frozen=True)
class AveragedTest:
    """Permutation test of an average over trials.

    Attributes
    ----------
    observed, p, chance : ndarray, shape (n_profiles,)
    null : ndarray, shape (n_profiles, n_draws)
    n_trials, n_undefined : ndarray of int, shape (n_profiles,)
        Trials in the average, and trials left out since the metric is undefined there.
    """

    observed: Floats
    p: Floats
    chance: Floats
    null: Floats
    n_trials: np.ndarray
    n_undefined: np.ndarray


def mean_null(
    results: Sequence[PermutationResult],
    n_draws: int = 1000,
    rng: np.random.Generator | int | None = None,
    weights: ArrayLike | None = None,
) -> AveragedTest:
    """Average the observed values and the draws of several trials, and test the average.

    Draw i of the average is the mean of draw i over trials, which are shuffled independently.
    Trials that were tested exactly have their own number of arrangements and give random ones of
    these. A profile that is undefined in a trial is left out of the average there, and counted.

    Parameters
    ----------
    results : sequence of PermutationResult
        One per trial, with the same profiles in the same order, the same alternative and (but
        for exact ones) the same number of draws. Give each trial its own random generator.
    n_draws : int
        Draws of the average where all trials were tested exactly.
    rng : Generator or int, optional
        Used for the arrangements of exact trials only.
    weights : array-like, shape (n_trials,), optional
        Weight of each trial in the average; equal if not given.

    Returns
    -------
    AveragedTest
    """
    results = items("results", results, "results of permutation_pvalues")
    if not results or not all(isinstance(r, PermutationResult) for r in results):
        raise DataError(
            "no trials to average", expected="results of permutation_pvalues", found=repr(results)
        )
    if len({(r.observed.shape, r.alternative) for r in results}) > 1:
        raise DataError("trials must have the same profiles and the same alternative")
    w = np.ones(len(results)) if weights is None else as_floats(weights, "weights").astype(float)
    if len(w) != len(results) or not (np.isfinite(w) & (w >= 0)).all():
        raise DataError("one weight of at least 0 per trial is needed", expected=len(results))
    sampled = {r.null.shape[1] for r in results if (~r.exact & (r.n_draws > 0)).any()}
    if len(sampled) > 1:
        raise DataError("trials must have the same number of draws", found=sorted(sampled))
    n_draws = whole("n_draws", n_draws)
    width = sampled.pop() if sampled else n_draws
    generator = generator_of(rng)
    m = len(results[0].observed)
    sum_x, sum_w, n_trials = np.zeros(m), np.zeros(m), np.zeros(m, dtype=int)
    sum_null = np.zeros((m, width))
    for r, weight in zip(results, w, strict=True):
        # drawn for every trial, so that the form of one trial does not change the next one's draws
        pick = generator.random(width)
        defined = ~np.isnan(r.observed) & (r.n_draws > 0) & (weight > 0)
        plain = defined & ~r.exact
        if plain.any():
            sum_null[plain] += weight * r.null[plain]
        for row in np.flatnonzero(defined & r.exact):
            own = r.null[row, : r.n_draws[row]]
            sum_null[row] += weight * own[(pick * len(own)).astype(np.intp)]
        sum_x[defined] += weight * r.observed[defined]
        sum_w[defined] += weight
        n_trials += defined
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = np.where(sum_w > 0, sum_x / sum_w, np.nan)
        null = np.where(sum_w[:, None] > 0, sum_null / sum_w[:, None], np.nan)
    if len(results) == 1:  # nothing to average: an exact test stays exact
        null, exact = results[0].null, results[0].exact
    else:
        exact = np.zeros(m, dtype=bool)
    p = tail_probability(observed, null, results[0].alternative, exact)
    n = (~np.isnan(null)).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(n > 0, np.nansum(null, axis=1) / n, np.nan)
    return AveragedTest(observed, p, mean, null, n_trials, len(results) - n_trials)


@dataclass(frozen=True)
class TestResult:
    """Value of a statistic with its p value, and how many arrangements stand behind it."""

    __test__ = False  # not a test class, whatever its name

    value: float
    p: float
    n_draws: int
    exact: bool


def sign_flip_test(
    differences: ArrayLike,
    n_permutations: int = 10_000,
    rng: np.random.Generator | int | None = None,
    alternative: str = "two-sided",
) -> TestResult:
    """Test whether paired differences have mean 0 by flipping their signs.

    Parameters
    ----------
    differences : array-like, shape (n,)
        E.g. model 1 minus model 2 per trial; NaN is left out.
    n_permutations, rng, alternative
        As in `permutation_pvalues`; all ``2 ** n`` sign patterns are visited if they are at most
        `n_permutations`.

    Returns
    -------
    TestResult
        Mean difference and p; NaN without any difference.

    References
    ----------
    Fisher (1935), The Design of Experiments, section 21.
    """
    side = _direction(alternative, sign_flip_test)
    n_permutations = whole("n_permutations", n_permutations)
    source = generator_of(rng)
    d = as_floats(differences, "differences").astype(np.float64)
    d = d[~np.isnan(d)]
    n = len(d)
    if n == 0:
        return TestResult(float("nan"), float("nan"), 0, False)
    exact = n < 40 and 2**n <= n_permutations
    if exact:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    else:
        signs = source.choice([-1, 1], size=(n_permutations, n))
    # differences at unit size: the tolerance for ties must not depend on their unit
    size = np.abs(d).max() or 1.0
    null = (signs @ (d / size) / n)[None, :]
    mean = d.mean()
    p = tail_probability([mean / size], null, side, exact)[0]
    return TestResult(float(mean), float(p), null.shape[1], exact)


def two_sample_test(
    a: ArrayLike,
    b: ArrayLike,
    n_permutations: int = 10_000,
    rng: np.random.Generator | int | None = None,
    alternative: str = "two-sided",
) -> TestResult:
    """Test whether two independent groups have equal means by exchanging group labels.

    Parameters
    ----------
    a, b : array-like, shapes (n_a,) and (n_b,)
        NaN is left out.
    n_permutations, rng, alternative
        As in `sign_flip_test`.

    Returns
    -------
    TestResult
        ``mean(a) - mean(b)`` and p; NaN if a group is empty.

    References
    ----------
    Pitman (1937), Supplement to the Journal of the Royal Statistical Society 4, 119-130.
    """
    side = _direction(alternative, two_sample_test)
    n_permutations = whole("n_permutations", n_permutations)
    source = generator_of(rng)
    x, y = (as_floats(v, "group").astype(np.float64) for v in (a, b))
    x, y = x[~np.isnan(x)], y[~np.isnan(y)]
    n, m = len(x), len(y)
    if n == 0 or m == 0:
        return TestResult(float("nan"), float("nan"), 0, False)
    pooled = np.concatenate([x, y])
    pooled = pooled - pooled.mean()
    size = np.abs(pooled).max() or 1.0
    pooled = pooled / size
    exact = math.comb(n + m, n) <= n_permutations
    if exact:
        first = np.array(list(itertools.combinations(range(n + m), n)))
    else:
        first = source.random((n_permutations, n + m)).argsort(axis=1)[:, :n]
    sums = pooled[first].sum(axis=1)
    null = (sums / n - (pooled.sum() - sums) / m)[None, :]
    value = float(x.mean() - y.mean())
    p = tail_probability([value / size], null, side, exact)[0]
    return TestResult(value, float(p), null.shape[1], exact)
