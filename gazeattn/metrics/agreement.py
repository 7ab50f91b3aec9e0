"""How far two profiles over the same units agree.

Every metric takes ours (the model's) first and the human reference second, both one-dimensional
and of equal length. Units that either side does not score (NaN) are left out of both. What is
undefined is NaN, in both argument orders; `undefined_reason` says why. Metrics of marked units
(`coverage` and others) and of word-by-word matrices are defined beside this module and found here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.metrics._arrays import Paired, paired
from gazeattn.metrics._batch import (
    batched,
    metric_names,
    n_paired,
    register_agreement,
    single,
    undefined_reason,
)
from gazeattn.metrics._conventions import chance, convention, higher_is_better, partial_convention
from gazeattn.metrics._partial import partial, partial_batched, partial_undefined_reason
from gazeattn.metrics._topk import (
    cohen_kappa_topk,
    kappa_topk,
    ndcg,
    rank_biased_overlap,
    topk_chance,
    topk_indices,
    topk_jaccard,
    topk_overlap,
)
from gazeattn.metrics.coverage import (
    coverage,
    coverage_chance,
    marked_auroc,
    marked_reason,
    marked_share,
)
from gazeattn.metrics.matrices import (
    MatrixAgreement,
    TrivialFit,
    matrix_agreement,
    matrix_correlation,
    matrix_r2,
    transition_matrix,
    trivial_pattern,
    trivial_reliance,
)

__all__ = [
    "MatrixAgreement",
    "Paired",
    "TrivialFit",
    "batched",
    "chance",
    "cohen_kappa_topk",
    "convention",
    "cosine",
    "coverage",
    "coverage_chance",
    "higher_is_better",
    "js_distance",
    "js_divergence",
    "kappa_topk",
    "kendall",
    "kl_divergence",
    "marked_auroc",
    "marked_reason",
    "marked_share",
    "matrix_agreement",
    "matrix_correlation",
    "matrix_r2",
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
    "transition_matrix",
    "trivial_pattern",
    "trivial_reliance",
    "undefined_reason",
]


# -- correlations ---------------------------------------------------------------------------------


@register_agreement(
    "spearman",
    bounds=(-1.0, 1.0),
    higher=True,
    description="Rank correlation: Pearson's r of average ranks",
    formula="r of average ranks: cov(R(a), R(b)) / (sd(R(a)) sd(R(b)))",
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
    return single("spearman", a, b)


@register_agreement(
    "kendall",
    bounds=(-1.0, 1.0),
    higher=True,
    description="Rank correlation: concordant minus discordant pairs, corrected for ties",
    formula="b: (C - D) / sqrt((n0 - ties a)(n0 - ties b)), n0 = n (n - 1) / 2; c: 2 m (C - D) / "
    "(n^2 (m - 1)), m = fewer levels",
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
    return single("kendall", a, b, variant=variant)


@register_agreement(
    "pearson",
    bounds=(-1.0, 1.0),
    higher=True,
    description="Linear correlation",
    formula="sum (a - mean a)(b - mean b) / (n sd(a) sd(b))",
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
    return single("pearson", a, b)


@register_agreement(
    "cosine",
    bounds=(-1.0, 1.0),
    higher=True,
    description="Cosine of the angle between the profiles, not centred",
    formula="a . b / (|a| |b|)",
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
    return single("cosine", a, b)


# -- distributions --------------------------------------------------------------------------------


@register_agreement(
    "js_divergence",
    bounds=(0.0, float(np.log(2))),
    higher=False,
    description="Jensen-Shannon divergence of the profiles as distributions over units",
    formula="(KL(p || m) + KL(q || m)) / 2, m = (p + q) / 2, p, q = (a, b + eps) / sum",
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
    return single("js_divergence", a, b, base=base, eps=eps)


@register_agreement(
    "js_distance",
    bounds=(0.0, float(np.sqrt(np.log(2)))),
    higher=False,
    description="Square root of the Jensen-Shannon divergence, a metric distance",
    formula="sqrt(js_divergence(a, b))",
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
    return single("js_distance", a, b, base=base, eps=eps)


@register_agreement(
    "kl_divergence",
    bounds=(0.0, float("inf")),
    higher=False,
    description="Kullback-Leibler divergence of the first profile from the second",
    formula="sum p ln(p / q), p, q = (a, b + eps) / sum",
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
    return single("kl_divergence", a, b, base=base, eps=eps)


@register_agreement(
    "total_variation",
    bounds=(0.0, 1.0),
    higher=False,
    description="Share of the mass that has to move to turn one profile into the other",
    formula="sum |p - q| / 2, p, q = a, b / sum",
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
    return single("total_variation", a, b)
