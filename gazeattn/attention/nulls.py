"""Agreement with permuted words: the null draws behind every p value.

The words of the human profile are put in random order and each metric is computed again. The
orders depend on the seed and the text alone, so that all methods, measures and readers of a text
meet the same ones: for most metrics the draws of all rows are then one matrix product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.stats import rankdata

from gazeattn.attention.baselines import content_seed
from gazeattn.metrics.agreement import batched
from gazeattn.metrics.inversions import LONG, kendall_scores, tied_pairs, two_level_scores
from gazeattn.metrics.products import product

PAIRS_AT_ONCE = 512
"""Pairs of words in one matrix product of Kendall's score."""


class Orders:
    """Random orders of the words of one text.

    Where all arrangements of the words are at most as many as the permutations asked for, each
    is visited once and tests are exact.

    Parameters
    ----------
    seed
        The comparison's seed.
    key
        Content key of the text (`Units.key`).
    n_words, n_permutations
    """

    def __init__(self, seed: int, key: str, n_words: int, n_permutations: int) -> None:
        generator = np.random.default_rng(content_seed("permutation", seed, key))
        self.n_permutations = n_permutations
        order = np.argsort(generator.random((n_permutations, n_words)), axis=1)
        self._full = order.astype(np.int32)
        self._pick = generator.random(n_permutations)
        self._known: dict[bytes, np.ndarray] = {}

    def exact(self, n: int) -> bool:
        """Return whether `n` words have so few arrangements that all are visited."""
        return n < 20 and math.factorial(n) <= self.n_permutations

    def of(self, keep: np.ndarray) -> np.ndarray:
        """Return orders of the words in the mask, shape (n_orders, keep.sum()).

        Words that are left out are struck from the orders of the whole text, so that the orders
        of two readers who miss different words are as alike as they can be.
        """
        key = np.packbits(keep).tobytes()
        if key not in self._known:
            n = int(keep.sum())
            if self.exact(n):
                order = np.array(list(itertools.permutations(range(n))), dtype=np.int32)
            elif keep.all():
                order = self._full
            else:
                number = np.cumsum(keep, dtype=np.int32) - 1
                order = number[self._full[keep[self._full]]]
            count = math.factorial(n) if self.exact(n) else self.n_permutations
            self._known[key] = order.reshape(count, n)
        return self._known[key]

    def spread(self, draws: np.ndarray) -> np.ndarray:
        """Return as many draws as permutations were asked for, picked at random from exact ones."""
        if draws.shape[1] == self.n_permutations:
            return draws
        return draws[:, (self._pick * draws.shape[1]).astype(np.int64)]


def null_draws(
    metric: str,
    rows: np.ndarray,
    human: np.ndarray,
    orders: np.ndarray,
    params: Mapping[str, Any],
    ranks: np.ndarray | None = None,
) -> np.ndarray:
    """Return a metric of each row with the human profile in each of the orders.

    Parameters
    ----------
    metric
        A registered agreement metric. Correlations, cosine and the top-k metrics are matrix
        products here, and so is Kendall's tau of all pairs of words; in long texts its inversions
        are counted instead (the same number). Any other metric is computed by
        `gazeattn.metrics.agreement.batched` on the permuted profiles.
    rows : ndarray, shape (n_rows, n_words)
        Without NaN.
    human : ndarray, shape (n_words,)
        Without NaN.
    orders : ndarray of int, shape (n_orders, n_words)
    params
        Parameters of the metric.
    ranks : ndarray, shape (n_rows, n_words), optional
        Average ranks of the rows, where they are known already.

    Returns
    -------
    ndarray, shape (n_rows, n_orders)
        Equal to the metric on permuted profiles within rounding, wherever that is defined.
    """
    if metric == "spearman":
        known = rankdata(rows, axis=1) if ranks is None else ranks
        return _pearson(known, rankdata(human), orders, params)
    if metric == "kendall" and params.get("variant", "b") == "b":
        known = rankdata(rows, axis=1) if ranks is None else ranks
        return _kendall(known, rankdata(human), orders)
    fast = _FAST.get(metric)
    if fast is None or (metric in _TOP and params.get("ties", "index") != "index"):
        return batched(metric, rows, human[orders], **params)
    return fast(rows, human, orders, params)


def partial_draws(
    ranks: np.ndarray, human: np.ndarray, controls: np.ndarray, orders: np.ndarray
) -> np.ndarray:
    """Return partial Spearman correlations with the human residuals in each of the orders.

    Ranks of both sides are regressed on the ranks of the controls; the human residuals are
    permuted and regressed again (Freedman & Lane, 1983, Journal of Business and Economic
    Statistics 1, 292-298).

    Parameters
    ----------
    ranks : ndarray, shape (n_rows, n_words)
        Average ranks of the rows.
    human : ndarray, shape (n_words,)
    controls : ndarray, shape (n_controls, n_words)
    orders : ndarray of int, shape (n_orders, n_words)
        All without NaN.
    """
    n = len(human)
    columns = [np.full(n, 1 / math.sqrt(n)), *_unit(_centred(rankdata(controls, axis=1)))]
    design = np.nan_to_num(np.column_stack(columns))  # a constant control has no direction
    u, size, _ = np.linalg.svd(design, full_matrices=False)
    basis = u[:, size > size[0] * n * np.finfo(np.float64).eps]
    left = _unit(_without(ranks, basis))
    right = _unit(_without(_without(rankdata(human)[None, :], basis)[0][orders], basis))
    return product(left, right.T)


def _without(values: np.ndarray, basis: np.ndarray) -> np.ndarray:
    return values - product(product(values, basis), basis.T)


def _centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean(axis=1, keepdims=True)


def _unit(values: np.ndarray) -> np.ndarray:
    """Scale rows to length 1; rows of zeros become NaN."""
    with np.errstate(invalid="ignore", divide="ignore"):
        values = values / np.abs(values).max(axis=1, keepdims=True)  # squares must not overflow
        return values / np.sqrt(np.einsum("ij,ij->i", values, values))[:, None]


def _pearson(rows: np.ndarray, human: np.ndarray, orders: np.ndarray, _: Any) -> np.ndarray:
    return product(_unit(_centred(rows)), _unit(_centred(human[None, :]))[0][orders].T)


def _cosine(rows: np.ndarray, human: np.ndarray, orders: np.ndarray, _: Any) -> np.ndarray:
    return product(_unit(rows), _unit(human[None, :])[0][orders].T)


def _kendall(ranks: np.ndarray, human: np.ndarray, orders: np.ndarray) -> np.ndarray:
    n, n_orders = len(human), len(orders)
    pairs = n * (n - 1) // 2
    untied_a = pairs - tied_pairs(ranks)
    untied_b = pairs - tied_pairs(human[None, :])[0]
    score = two_level_scores(ranks, human[orders]) if untied_b else None
    if score is None:
        long = n > LONG and n_orders > 0
        score = (kendall_scores if long else _all_pairs)(ranks, human[orders])
    with np.errstate(invalid="ignore", divide="ignore"):
        return score / np.sqrt((untied_a * untied_b).astype(np.float64))[:, None]


def _all_pairs(ranks: np.ndarray, permuted: np.ndarray) -> np.ndarray:
    """Return concordant minus discordant pairs of each row with each order."""
    # doubled average ranks are whole numbers: differences cut to [-1, 1] are their signs
    ra = (2 * ranks).astype(np.float32)
    rb = np.ascontiguousarray((2 * permuted).astype(np.float32).T)
    n, n_orders = rb.shape
    score = np.zeros((len(ra), n_orders))
    signs_b = np.empty((max(PAIRS_AT_ONCE, n), n_orders), dtype=np.float32)
    signs_a = np.empty((len(ra), len(signs_b)), dtype=np.float32)
    at = 0
    for i in range(n - 1):
        # several words in one product: many small ones wait for each other on several cores
        to = at + n - 1 - i
        np.subtract(rb[i], rb[i + 1 :], out=signs_b[at:to])
        np.subtract(ra[:, i : i + 1], ra[:, i + 1 :], out=signs_a[:, at:to])
        at = to
        if i == n - 2 or at + n - 2 - i > len(signs_b):
            np.clip(signs_b[:at], -1, 1, out=signs_b[:at])
            np.clip(signs_a[:, :at], -1, 1, out=signs_a[:, :at])
            score += product(signs_a[:, :at], signs_b[:at])
            at = 0
    return score


def _in_top(values: np.ndarray, k: int) -> np.ndarray:
    order = np.argsort(-values, axis=1, kind="stable")
    member = np.zeros(values.shape)
    np.put_along_axis(member, order[:, :k], 1.0, axis=1)
    return member


def top_k(n: int, params: Mapping[str, Any]) -> int:
    """Return the number of top words among `n` for the parameters ``k`` or ``share``."""
    if params.get("k") is not None:
        return int(params["k"])
    return max(1, int(np.floor(float(params.get("share") or 0.2) * n + 0.5)))


def _topk_overlap(
    rows: np.ndarray, human: np.ndarray, orders: np.ndarray, params: Mapping[str, Any]
) -> np.ndarray:
    k = top_k(len(human), params)
    if k > len(human):
        return np.full((len(rows), len(orders)), np.nan)
    last = np.partition(human, len(human) - k)[len(human) - k]
    if (human >= last).sum() == k:  # no tie at the border: the top words move with the order
        permuted = _in_top(human[None, :], k)[0][orders]
    else:
        permuted = _in_top(human[orders], k)
    return product(_in_top(rows, k), permuted.T) / k


def _kappa_topk(
    rows: np.ndarray, human: np.ndarray, orders: np.ndarray, params: Mapping[str, Any]
) -> np.ndarray:
    n = len(human)
    share = top_k(n, params) / n
    overlap = _topk_overlap(rows, human, orders, params)
    return (overlap - share) / (1 - share) if share < 1 else np.full(overlap.shape, np.nan)


_TOP = ("topk_overlap", "kappa_topk")
_Fast = Callable[[np.ndarray, np.ndarray, np.ndarray, Mapping[str, Any]], np.ndarray]
_FAST: dict[str, _Fast] = {
    "pearson": _pearson,
    "cosine": _cosine,
    "topk_overlap": _topk_overlap,
    "kappa_topk": _kappa_topk,
}
