"""Agreement of many profiles with many references at once; the single forms use the same code.

Each kernel takes ``A`` of shape (n_a, n_units) and ``B`` of shape (n_b, n_units), float64 and
without NaN, and returns an array of shape (n_a, n_b). NaN in the result means undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import kendalltau, rankdata

from gazeattn.errors import DataError
from gazeattn.metrics._arrays import Floats, blocks
from gazeattn.metrics._options import as_number, choice, flag, positive, whole, wrong
from gazeattn.metrics._options import share as as_share
from gazeattn.metrics.inversions import LONG, kendall_b
from gazeattn.metrics.products import product

TIES = ("index", "random_expectation")
FLOAT32_EXACT = 1 << 24
PAIR_BYTES = 1 << 25


def _always(**_: Any) -> bool:
    return True


def _never(**_: Any) -> bool:
    return False


@dataclass(frozen=True)
class Kernel:
    """A batched metric with the conditions under which it is defined.

    Attributes
    ----------
    function : callable
        ``function(A, B, **params) -> (n_a, n_b)``.
    min_units : int
        Fewer scored units than this give NaN.
    needs_variation : callable
        ``needs_variation(**params)``: whether a constant profile gives NaN.
    needs_shares : bool
        Whether negative values or a sum of 0 give NaN (the profile is read as a distribution).
    """

    function: Callable[..., Floats]
    min_units: int = 2
    needs_variation: Callable[..., bool] = field(default=_never)
    needs_shares: bool = False


# -- correlations ---------------------------------------------------------------------------------


def unit_rows(values: Floats, centre: bool) -> Floats:
    """Scale rows to length 1 (after centring them, if asked); rows of zeros become NaN."""
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = values / np.abs(values).max(axis=1, keepdims=True)  # squares must not overflow
        if centre:
            scaled = scaled - scaled.mean(axis=1, keepdims=True)
            scaled = scaled / np.abs(scaled).max(axis=1, keepdims=True)
        return scaled / np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]


def _products(u: Floats, v: Floats) -> Floats:
    # a correlation beyond 1 is rounding of the last bits
    return np.clip(product(u, v.T), -1.0, 1.0)


def pearson(a: Floats, b: Floats) -> Floats:
    return _products(unit_rows(a, True), unit_rows(b, True))


def cosine(a: Floats, b: Floats) -> Floats:
    return _products(unit_rows(a, False), unit_rows(b, False))


def average_ranks(values: Floats) -> Floats:
    """Rank each row from 1, ties with their average rank."""
    return np.asarray(rankdata(values, axis=1), dtype=np.float64)


def spearman(a: Floats, b: Floats) -> Floats:
    return pearson(average_ranks(a), average_ranks(b))


def kendall(a: Floats, b: Floats, variant: str = "b") -> Floats:
    choice("variant", variant, ("b", "c"))
    n = a.shape[1]
    if len(a) * len(b) <= 4 and n > 200:  # n log n beats n squared for a single long pair
        return np.array([[kendalltau(x, y, variant=variant).statistic for y in b] for x in a])
    if n > LONG and variant == "b":
        return kendall_b(a, b)
    n_pairs = n * (n - 1) // 2
    # sums of signs stay exact in either type
    dtype: type[np.floating] = np.float32 if n_pairs < FLOAT32_EXACT else np.float64
    ra, rb = average_ranks(a), average_ranks(b)
    xa, xb = ra.T.astype(np.float32), rb.T.astype(np.float32)  # units first: contiguous rows
    score = np.zeros((len(a), len(b)))
    untied_a, untied_b = np.zeros(len(a)), np.zeros(len(b))
    step = max(1, PAIR_BYTES // (4 * (len(a) + len(b)) * n))
    for at in range(0, n - 1, step):
        units = range(at, min(at + step, n - 1))
        sa = np.concatenate([np.sign(xa[i + 1 :] - xa[i]) for i in units]).astype(dtype)
        sb = np.concatenate([np.sign(xb[i + 1 :] - xb[i]) for i in units]).astype(dtype)
        score += sa.T @ sb
        untied_a += np.abs(sa).sum(axis=0)
        untied_b += np.abs(sb).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        if variant == "b":
            return np.clip(score / np.sqrt(np.outer(untied_a, untied_b)), -1.0, 1.0)
        levels = np.minimum(_n_levels(ra)[:, None], _n_levels(rb)[None, :])
        return 2 * score * levels / (n * n * (levels - 1))


def _n_levels(values: Floats) -> Floats:
    ordered = np.sort(values, axis=1)
    return 1.0 + np.count_nonzero(np.diff(ordered, axis=1), axis=1)


# -- distributions --------------------------------------------------------------------------------


def shares(values: Floats, eps: float) -> Floats:
    """Add `eps` and divide by the sum; rows with negative values or without mass become NaN."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        bad = (values < 0).any(axis=1) | ~(values > 0).any(axis=1)
        smoothed = values + eps
        smoothed = smoothed / smoothed.max(axis=1, keepdims=True)  # the sum must not overflow
        out = smoothed / smoothed.sum(axis=1, keepdims=True)
    out[bad] = np.nan
    return out


def _base(base: float | None) -> float:
    if base is None:
        return 1.0
    number = as_number(base)
    if not (np.isfinite(number) and number > 1):
        raise wrong("base", "a finite number above 1, or None (natural)", base)
    return float(np.log(number))


def _x_log_x(x: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x > 0, x * np.log(x), np.where(x == 0, 0.0, np.nan))


def _js_direct(p: Floats, q: Floats) -> Floats:
    """Jensen-Shannon divergence row by row, exact near 0."""
    m = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        # with d = (p - m) / m the first-order terms d and -d cancel exactly in each unit
        d = np.where(m > 0, (p - q) / (2 * m), 0.0)
        left = np.where(d == -1, 0.0, (1 + d) * np.log1p(d))
        right = np.where(d == 1, 0.0, (1 - d) * np.log1p(-d))
    return np.maximum((m * (left + right)).sum(axis=1) / 2, 0.0)


def js_divergence(a: Floats, b: Floats, base: float | None = None, eps: float = 1e-9) -> Floats:
    eps, unit = positive("eps", eps, zero=True), _base(base)
    p, q = shares(a, eps), shares(b, eps)
    own_p, own_q = _x_log_x(p).sum(axis=1), _x_log_x(q).sum(axis=1)
    out = np.empty((len(p), len(q)))
    half_p, half_q = p / 2, q / 2
    tiny = np.finfo(np.float64).tiny  # x log x is 0 there, and the logarithm stays finite
    for i, j in blocks(len(p), len(q), p.shape[1]):
        m = half_p[i, None, :] + half_q[None, j, :]
        log = np.log(np.maximum(m, tiny))
        out[i, j] = (own_p[i, None] + own_q[None, j]) / 2 - np.einsum("ijk,ijk->ij", m, log)
    # a difference of entropies loses digits near 0, where its square root is wanted too
    x, y = np.nonzero(out < 1e-6)
    for at in range(0, len(x), 4096):
        s = slice(at, at + 4096)
        out[x[s], y[s]] = _js_direct(p[x[s]], q[y[s]])
    return out / unit


def js_distance(a: Floats, b: Floats, base: float | None = None, eps: float = 1e-9) -> Floats:
    return np.sqrt(js_divergence(a, b, base, eps))


def kl_divergence(a: Floats, b: Floats, base: float | None = None, eps: float = 1e-9) -> Floats:
    eps, unit = positive("eps", eps, zero=True), _base(base)
    p, q = shares(a, eps), shares(b, eps)
    out = np.empty((len(p), len(q)))
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p, log_q = np.log(p), np.log(q)
        for i, j in blocks(len(p), len(q), p.shape[1]):
            terms = p[i, None, :] * (log_p[i, None, :] - log_q[None, j, :])
            if eps == 0:
                terms[np.broadcast_to(p[i, None, :] == 0, terms.shape)] = 0.0
            out[i, j] = terms.sum(axis=2)
    out[np.isnan(p[:, 0])] = np.nan
    out[:, np.isnan(q[:, 0])] = np.nan
    return np.maximum(out, 0.0) / unit


def total_variation(a: Floats, b: Floats) -> Floats:
    p, q = shares(a, 0.0), shares(b, 0.0)
    out = np.empty((len(p), len(q)))
    for i, j in blocks(len(p), len(q), p.shape[1]):
        out[i, j] = np.abs(p[i, None, :] - q[None, j, :]).sum(axis=2) / 2
    return np.minimum(out, 1.0)


# -- the highest units ----------------------------------------------------------------------------


def resolve_k(n: int, k: int | None, share: float | None) -> int:
    """Return the number of top units: `k`, or the rounded `share` of `n` and at least 1."""
    if k is not None and share is not None:
        raise DataError(
            "give k or share, not both", expected="one of them", found=f"k={k!r}, share={share!r}"
        )
    if k is not None:
        return whole("k", k)
    part = 0.2 if share is None else as_share("share", share, one=True)
    return max(1, int(np.floor(part * n + 0.5)))


def positions(values: Floats) -> np.ndarray:
    """Return the place of each unit, 0 for the highest value, ties by lower index."""
    order = np.argsort(-values, axis=1, kind="stable")
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(values.shape[1])[None, :], axis=1)
    return place


def membership(values: Floats, k: int, ties: str = "index") -> Floats:
    """Return for each unit whether (or how probably) it is among the `k` highest."""
    if choice("ties", ties, TIES) == "index":
        return (positions(values) < k).astype(np.float64)
    n = values.shape[1]
    last = np.partition(values, n - k, axis=1)[:, n - k, None]
    above, tied = values > last, values == last
    free = k - above.sum(axis=1, keepdims=True)
    return np.asarray(above + tied * (free / tied.sum(axis=1, keepdims=True)))


def _in_common(a: Floats, b: Floats, k: int, ties: str) -> Floats:
    choice("ties", ties, TIES)
    if k > a.shape[1]:
        return np.full((len(a), len(b)), np.nan)
    return membership(a, k, ties) @ membership(b, k, ties).T


def topk_overlap(
    a: Floats, b: Floats, k: int | None = None, share: float | None = None, ties: str = "index"
) -> Floats:
    k = resolve_k(a.shape[1], k, share)
    return np.minimum(_in_common(a, b, k, ties) / k, 1.0)


def topk_jaccard(a: Floats, b: Floats, k: int | None = None, share: float | None = None) -> Floats:
    k = resolve_k(a.shape[1], k, share)
    common = _in_common(a, b, k, "index")
    return common / (2 * k - common)


def kappa_topk(
    a: Floats, b: Floats, k: int | None = None, share: float | None = None, ties: str = "index"
) -> Floats:
    n = a.shape[1]
    k = resolve_k(n, k, share)
    common = _in_common(a, b, k, ties)
    if k >= n:
        return np.full(common.shape, np.nan)
    agreed = 1 - 2 * (k - common) / n
    expected = (k / n) ** 2 + (1 - k / n) ** 2
    return np.minimum((agreed - expected) / (1 - expected), 1.0)


def rank_biased_overlap(
    a: Floats, b: Floats, p: float = 0.9, depth: int | None = None, extrapolate: bool = True
) -> Floats:
    p, extrapolate = as_share("p", p), flag("extrapolate", extrapolate)
    n = a.shape[1]
    depth = n if depth is None else whole("depth", depth)
    out = np.full((len(a), len(b)), np.nan)
    if depth > n:
        return out
    d = np.arange(1, depth + 1)
    weight = (1 - p) * p ** (d - 1) / d
    if extrapolate:
        weight[-1] += p**depth / depth
    # a unit at place r counts at every depth from r on: the sum over depths is one look-up
    worth = np.zeros(n)
    worth[:depth] = np.cumsum(weight[::-1])[::-1]
    pa, pb = positions(a), positions(b)
    for i, j in blocks(len(a), len(b), n):
        out[i, j] = worth[np.maximum(pa[i, None, :], pb[None, j, :])].sum(axis=2)
    return np.minimum(out, 1.0)


def ndcg(a: Floats, b: Floats, k: int | None = None) -> Floats:
    n = a.shape[1]
    k = n if k is None else resolve_k(n, k, None)
    if k > n:
        return np.full((len(a), len(b)), np.nan)
    discount = np.where(np.arange(n) < k, 1 / np.log2(np.arange(n) + 2.0), 0.0)
    total = np.concatenate([[0.0], np.cumsum(discount)])
    first = rankdata(-a, method="min", axis=1).astype(np.intp)
    last = rankdata(-a, method="max", axis=1).astype(np.intp)
    weight = (total[last] - total[first - 1]) / (last - first + 1)  # mean over tied places
    with np.errstate(invalid="ignore", divide="ignore"):
        gains = b / np.abs(b).max(axis=1, keepdims=True)
        ideal = -np.sort(-gains, axis=1) @ discount
        bad = (b < 0).any(axis=1) | ~(ideal > 0)
        out = (weight @ gains.T) / ideal[None, :]
    out[:, bad] = np.nan
    return np.minimum(out, 1.0)


KERNELS = {
    "spearman": Kernel(spearman, needs_variation=_always),
    "kendall": Kernel(kendall, needs_variation=_always),
    "pearson": Kernel(pearson, needs_variation=_always),
    "cosine": Kernel(cosine),
    "js_divergence": Kernel(js_divergence, needs_shares=True),
    "js_distance": Kernel(js_distance, needs_shares=True),
    "kl_divergence": Kernel(kl_divergence, needs_shares=True),
    "total_variation": Kernel(total_variation, needs_shares=True),
    "topk_overlap": Kernel(
        topk_overlap, needs_variation=lambda ties="index", **_: bool(ties == "index")
    ),
    "topk_jaccard": Kernel(topk_jaccard, needs_variation=_always),
    "kappa_topk": Kernel(
        kappa_topk, needs_variation=lambda ties="index", **_: bool(ties == "index")
    ),
    "rank_biased_overlap": Kernel(rank_biased_overlap, needs_variation=_always),
    "ndcg": Kernel(ndcg, needs_variation=_always),
}
