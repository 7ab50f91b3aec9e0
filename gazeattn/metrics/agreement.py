"""How far two profiles over the same units agree.

Every metric takes ours (the model's) first and the human reference second, both one-dimensional
and of equal length. Units that either side does not score (NaN) are left out of both. What is
undefined is NaN, in both argument orders; `undefined_reason` says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.metrics._arrays import Paired, as_floats, paired
from gazeattn.metrics._batch import (
    Metric,
    batched,
    compute,
    metric_names,
    n_paired,
    undefined_reason,
)
from gazeattn.metrics._conventions import chance, convention, higher_is_better, partial_convention
from gazeattn.metrics._kernels import KERNELS
from gazeattn.metrics._partial import partial, partial_batched, partial_undefined_reason
from gazeattn.metrics._topk import topk_chance, topk_indices
from gazeattn.registry import register_metric

__all__ = [
    "Paired",
    "batched",
    "chance",
    "convention",
    "cosine",
    "higher_is_better",
    "js_distance",
    "js_divergence",
    "kappa_topk",
    "kendall",
    "kl_divergence",
    "metric_names",
    "n_paired",
    "ndcg",
    "paired",
    "partial",
    "partial_batched",
    "partial_convention",
    "partial_undefined_reason",
    "pearson",
    "rank_biased_overlap",
    "spearman",
    "topk_chance",
    "topk_indices",
    "topk_jaccard",
    "topk_overlap",
    "total_variation",
    "undefined_reason",
]


def _single(name: str, a: ArrayLike, b: ArrayLike, **params: Any) -> float:
    x, y = as_floats(a, "first profile"), as_floats(b, "second profile")
    return float(compute(KERNELS[name], x[None, :], y[None, :], params)[0, 0])


def _register(
    name: str,
    bounds: tuple[float, float],
    higher: bool,
    description: str,
    citation: str,
    symmetric: bool = True,
) -> Callable[[Metric], Metric]:
    return register_metric(
        name,
        task="agreement",
        bounds=bounds,
        higher_is_better=higher,
        symmetric=symmetric,
        description=description,
        citation=citation,
        kernel=KERNELS[name],
    )


# -- correlations ---------------------------------------------------------------------------------


@_register(
    "spearman",
    bounds=(-1.0, 1.0),
    higher=True,
    description="Rank correlation: Pearson's r of average ranks",
    citation="Spearman (1904), American Journal of Psychology 15",
)
def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Return Spearman's rho: Pearson's r of the ranks, ties with their average rank.

    Parameters
    ----------
    a, b : array-like, shape (n_units,)

    Returns
    -------
    float
        In [-1, 1]; NaN with fewer than two scored units or where a side is constant.

    References
    ----------
    Spearman (1904), American Journal of Psychology 15, 72-101.
    """
    return _single("spearman", a, b)


@_register(
    "kendall",
    bounds=(-1.0, 1.0),
    higher=True,
    description="Rank correlation: concordant minus discordant pairs, corrected for ties",
    citation="Kendall (1945), Biometrika 33; Stuart (1953), Biometrika 40",
)
def kendall(a: ArrayLike, b: ArrayLike, *, variant: str = "b") -> float:
    """Return Kendall's tau.

    Parameters
    ----------
    a, b : array-like, shape (n_units,)
    variant : {"b", "c"}
        Kendall's tie correction, or Stuart's for unequal numbers of levels.

    Returns
    -------
    float
        In [-1, 1]; NaN with fewer than two scored units or where a side is constant.

    References
    ----------
    Kendall (1945), Biometrika 33, 239-251; Stuart (1953), Biometrika 40, 105-110.
    """
    return _single("kendall", a, b, variant=variant)


@_register(
    "pearson",
    bounds=(-1.0, 1.0),
    higher=True,
    description="Linear correlation",
    citation="Pearson (1895), Proceedings of the Royal Society 58",
)
def pearson(a: ArrayLike, b: ArrayLike) -> float:
    """Return Pearson's r.

    Parameters
    ----------
    a, b : array-like, shape (n_units,)

    Returns
    -------
    float
        In [-1, 1]; NaN with fewer than two scored units, where a side is constant, or where a
        value is infinite.

    References
    ----------
    Pearson (1895), Proceedings of the Royal Society of London 58, 240-242.
    """
    return _single("pearson", a, b)


@_register(
    "cosine",
    bounds=(-1.0, 1.0),
    higher=True,
    description="Cosine of the angle between the profiles, not centred",
    citation="Salton and McGill (1983), Introduction to Modern Information Retrieval",
)
def cosine(a: ArrayLike, b: ArrayLike) -> float:
    """Return the cosine similarity, without centring.

    Two profiles of positive weights are never far from 1; a constant profile is allowed.

    Parameters
    ----------
    a, b : array-like, shape (n_units,)

    Returns
    -------
    float
        In [-1, 1]; NaN with fewer than two scored units or where a side is all zeros.

    References
    ----------
    Salton and McGill (1983), Introduction to Modern Information Retrieval.
    """
    return _single("cosine", a, b)


# -- distributions --------------------------------------------------------------------------------


@_register(
    "js_divergence",
    bounds=(0.0, float(np.log(2))),
    higher=False,
    description="Jensen-Shannon divergence of the profiles as distributions over units",
    citation="Lin (1991), IEEE Transactions on Information Theory 37",
)
def js_divergence(
    a: ArrayLike, b: ArrayLike, *, base: float | None = None, eps: float = 1e-9
) -> float:
    """Return the Jensen-Shannon divergence (not its square root).

    Parameters
    ----------
    a, b : array-like, shape (n_units,)
        Weights of at least 0.
    base : float, optional
        Base of the logarithm; natural (nats) if not given, 2 for bits.
    eps : float
        Added to the values as they are given, before they are divided by their sum. Use 0 for
        a result that does not depend on the unit of the weights at all.

    Returns
    -------
    float
        In [0, ln 2] (or [0, 1] with base 2); NaN with fewer than two scored units, negative
        weights, or a side without any mass.

    References
    ----------
    Lin (1991), IEEE Transactions on Information Theory 37, 145-151.
    """
    return _single("js_divergence", a, b, base=base, eps=eps)


@_register(
    "js_distance",
    bounds=(0.0, float(np.sqrt(np.log(2)))),
    higher=False,
    description="Square root of the Jensen-Shannon divergence, a metric distance",
    citation="Endres and Schindelin (2003), IEEE Transactions on Information Theory 49",
)
def js_distance(
    a: ArrayLike, b: ArrayLike, *, base: float | None = None, eps: float = 1e-9
) -> float:
    """Return the square root of `js_divergence`, which obeys the triangle inequality.

    Parameters, undefined cases and `eps` are those of `js_divergence`.

    References
    ----------
    Endres and Schindelin (2003), IEEE Transactions on Information Theory 49, 1858-1860.
    """
    return _single("js_distance", a, b, base=base, eps=eps)


@_register(
    "kl_divergence",
    bounds=(0.0, float("inf")),
    higher=False,
    description="Kullback-Leibler divergence of the first profile from the second",
    citation="Kullback and Leibler (1951), Annals of Mathematical Statistics 22",
    symmetric=False,
)
def kl_divergence(
    a: ArrayLike, b: ArrayLike, *, base: float | None = None, eps: float = 1e-9
) -> float:
    """Return KL(a || b). State `eps` with the number: it decides what a zero in `b` costs.

    Parameters
    ----------
    a, b : array-like, shape (n_units,)
        Weights of at least 0.
    base, eps
        As in `js_divergence`. With ``eps=0`` a unit that has mass in `a` alone gives infinity.

    Returns
    -------
    float
        At least 0; NaN as in `js_divergence`.

    References
    ----------
    Kullback and Leibler (1951), Annals of Mathematical Statistics 22, 79-86.
    """
    return _single("kl_divergence", a, b, base=base, eps=eps)


@_register(
    "total_variation",
    bounds=(0.0, 1.0),
    higher=False,
    description="Share of the mass that has to move to turn one profile into the other",
    citation="Levin, Peres and Wilmer (2009), Markov Chains and Mixing Times",
)
def total_variation(a: ArrayLike, b: ArrayLike) -> float:
    """Return half the sum of absolute differences between the profiles as shares.

    Parameters
    ----------
    a, b : array-like, shape (n_units,)
        Weights of at least 0.

    Returns
    -------
    float
        In [0, 1]; NaN as in `js_divergence`.

    References
    ----------
    Levin, Peres and Wilmer (2009), Markov Chains and Mixing Times, chapter 4.
    """
    return _single("total_variation", a, b)


# -- the highest units ----------------------------------------------------------------------------


@_register(
    "topk_overlap",
    bounds=(0.0, 1.0),
    higher=True,
    description="Share of the k highest units that both profiles name",
    citation="Fagin, Kumar and Sivakumar (2003), SIAM Journal on Discrete Mathematics 17",
)
def topk_overlap(
    a: ArrayLike,
    b: ArrayLike,
    *,
    k: int | None = None,
    share: float | None = None,
    ties: str = "index",
) -> float:
    """Return the number of units among the `k` highest of both profiles, divided by `k`.

    Parameters
    ----------
    a, b : array-like, shape (n_units,)
    k : int, optional
        Number of units.
    share : float, optional
        Their share of the scored units instead (rounded, at least one unit). The default is 0.2.
    ties : {"index", "random_expectation"}
        Equal values: the earlier unit goes first, or the expected overlap if each profile broke
        its ties at random. With the latter a profile with ties at the border does not reach 1
        with itself.

    Returns
    -------
    float
        In [0, 1], with `topk_chance` by chance; 1 by definition if `k` is the number of scored
        units. NaN if `k` is larger, with fewer than two scored units and, unless ties are
        broken at random, where a side is constant, since its order would be invented.

    References
    ----------
    Fagin, Kumar and Sivakumar (2003), SIAM Journal on Discrete Mathematics 17, 134-160.
    """
    return _single("topk_overlap", a, b, k=k, share=share, ties=ties)


@_register(
    "topk_jaccard",
    bounds=(0.0, 1.0),
    higher=True,
    description="Units among the k highest of both profiles by those among the k of either",
    citation="Jaccard (1912), New Phytologist 11",
)
def topk_jaccard(
    a: ArrayLike, b: ArrayLike, *, k: int | None = None, share: float | None = None
) -> float:
    """Return the Jaccard index of the sets of the `k` highest units, ties by lower index.

    Parameters and undefined cases are those of `topk_overlap`.

    References
    ----------
    Jaccard (1912), New Phytologist 11, 37-50.
    """
    return _single("topk_jaccard", a, b, k=k, share=share)


@_register(
    "kappa_topk",
    bounds=(-1.0, 1.0),
    higher=True,
    description="Cohen's kappa of 'is among the k highest units'",
    citation="Cohen (1960), Educational and Psychological Measurement 20",
)
def kappa_topk(
    a: ArrayLike,
    b: ArrayLike,
    *,
    k: int | None = None,
    share: float | None = None,
    ties: str = "index",
) -> float:
    """Return Cohen's kappa of the two yes/no vectors "is among the `k` highest units".

    Both vectors hold `k` ones, so that kappa is the top-k overlap moved to 0 at chance.

    Parameters
    ----------
    a, b, k, share, ties
        As in `topk_overlap`.

    Returns
    -------
    float
        In [-1, 1]; NaN as in `topk_overlap`, and also if `k` is the number of scored units.

    References
    ----------
    Cohen (1960), Educational and Psychological Measurement 20, 37-46.
    """
    return _single("kappa_topk", a, b, k=k, share=share, ties=ties)


@_register(
    "rank_biased_overlap",
    bounds=(0.0, 1.0),
    higher=True,
    description="Top-weighted overlap of the two rankings",
    citation="Webber, Moffat and Zobel (2010), ACM Transactions on Information Systems 28(4)",
)
def rank_biased_overlap(
    a: ArrayLike,
    b: ArrayLike,
    *,
    p: float = 0.9,
    depth: int | None = None,
    extrapolate: bool = True,
) -> float:
    """Return the rank-biased overlap of the rankings by descending value, ties by lower index.

    Parameters
    ----------
    a, b : array-like, shape (n_units,)
    p : float
        Persistence, above 0 and below 1: how far down the ranking a look goes.
    depth : int, optional
        Last place that is looked at; all if not given.
    extrapolate : bool
        Add what the agreement at the last depth promises below it (RBO_ext). Without it, equal
        rankings reach ``1 - p ** depth`` only.

    Returns
    -------
    float
        In [0, 1]; NaN with fewer than two scored units, where a side is constant, or if `depth`
        is larger than the number of scored units.

    References
    ----------
    Webber, Moffat and Zobel (2010), ACM Transactions on Information Systems 28(4), 20.
    """
    return _single("rank_biased_overlap", a, b, p=p, depth=depth, extrapolate=extrapolate)


@_register(
    "ndcg",
    bounds=(0.0, 1.0),
    higher=True,
    description="Human weight collected from the top of the model's ranking, discounted",
    citation="Jarvelin and Kekalainen (2002), ACM Transactions on Information Systems 20",
    symmetric=False,
)
def ndcg(a: ArrayLike, b: ArrayLike, *, k: int | None = None) -> float:
    """Return the normalised discounted cumulative gain: `a` ranks the units, `b` is the gain.

    Gains are the values of `b` as they are, the discount is ``1 / log2(place + 1)``. Tied units
    of `a` share the mean discount of their places.

    Parameters
    ----------
    a, b : array-like, shape (n_units,)
        Scores, and gains of at least 0.
    k : int, optional
        Last place that counts; all if not given.

    Returns
    -------
    float
        In [0, 1]; NaN with fewer than two scored units, where a side is constant, with negative
        gains, or if `k` is larger than the number of scored units.

    References
    ----------
    Jarvelin and Kekalainen (2002), ACM Transactions on Information Systems 20, 422-446;
    McSherry and Najork (2008), ECIR, for ties.
    """
    return _single("ndcg", a, b, k=k)
