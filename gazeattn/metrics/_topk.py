"""Agreement on the units with the highest weights, and how many two rankings share by chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.metrics import _kernels
from gazeattn.metrics._arrays import as_floats
from gazeattn.metrics._batch import register_agreement, single
from gazeattn.metrics._options import whole


def topk_chance(n: int, k: int | None = None, share: float | None = None) -> float:
    """Return the expected top-k overlap of two unrelated rankings of `n` units: ``k / n``.

    NaN if `k` is larger than `n`.
    """
    n = whole("n", n, 0)
    k = _kernels.resolve_k(n, k, share)
    return k / n if 0 < k <= n else float("nan")


def topk_indices(values: ArrayLike, k: int | None = None, share: float | None = None) -> np.ndarray:
    """Return the indices of the `k` highest values in ascending order, ties by lower index.

    NaN is never among them. With fewer than `k` scored values the result is empty.
    """
    x = as_floats(values, "profile").astype(np.float64)
    scored = np.flatnonzero(~np.isnan(x))
    k = _kernels.resolve_k(len(scored), k, share)
    if k > len(scored):
        return np.empty(0, dtype=np.intp)
    place = _kernels.positions(x[scored][None, :])[0]
    return scored[place < k]


@register_agreement(
    "topk_overlap",
    bounds=(0.0, 1.0),
    higher=True,
    description="Share of the k highest units that both profiles name",
    formula="|top_k(a) and top_k(b)| / k",
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
    return single("topk_overlap", a, b, k=k, share=share, ties=ties)


@register_agreement(
    "topk_jaccard",
    bounds=(0.0, 1.0),
    higher=True,
    description="Units among the k highest of both profiles by those among the k of either",
    formula="|top_k(a) and top_k(b)| / |top_k(a) or top_k(b)|",
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
    return single("topk_jaccard", a, b, k=k, share=share)


@register_agreement(
    "kappa_topk",
    bounds=(-1.0, 1.0),
    higher=True,
    description="Cohen's kappa of 'is among the k highest units'",
    formula="(p_o - p_e) / (1 - p_e), p_e = (k/n)^2 + (1 - k/n)^2",
    aliases=("cohen_kappa_topk",),
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
    return single("kappa_topk", a, b, k=k, share=share, ties=ties)


cohen_kappa_topk = kappa_topk


@register_agreement(
    "rank_biased_overlap",
    bounds=(0.0, 1.0),
    higher=True,
    description="Top-weighted overlap of the two rankings",
    formula="(1 - p) sum_d p^(d-1) X_d / d (+ p^D X_D / D), X_d = |top_d(a) and top_d(b)|",
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
    return single("rank_biased_overlap", a, b, p=p, depth=depth, extrapolate=extrapolate)


@register_agreement(
    "ndcg",
    bounds=(0.0, 1.0),
    higher=True,
    description="Human weight collected from the top of the model's ranking, discounted",
    formula="DCG(b in the order of a) / DCG(b in its own order), DCG = sum b / log2(place + 1)",
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
    return single("ndcg", a, b, k=k)
