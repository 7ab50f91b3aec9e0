"""What a number stands for: its convention in words, its direction, its value by chance."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gazeattn.errors import UnknownNameError
from gazeattn.metrics._batch import find_metric
from gazeattn.metrics._kernels import resolve_k
from gazeattn.metrics._options import choice, items, whole


def higher_is_better(metric: str) -> bool:
    """Return whether a larger value of `metric` means more agreement."""
    return bool(find_metric(metric).info["higher_is_better"])


def chance(metric: str, n: int, **params: Any) -> float:
    """Return the value that unrelated profiles of `n` units get on average.

    0 for correlations and kappa, ``k / n`` for the top-k overlap. NaN where it depends on the
    profiles themselves (distances, cosine, nDCG, rank-biased overlap): use the mean of the
    permutation null there.
    """
    entry = find_metric(metric)
    n = whole("n", n, 0)
    metric = entry.name
    if metric in ("spearman", "kendall", "pearson", "kappa_topk"):
        return 0.0
    if metric == "topk_overlap":
        k = resolve_k(n, params.get("k"), params.get("share"))
        return k / n if 0 < k <= n else float("nan")
    return float("nan")


def _n_top(p: Mapping[str, Any]) -> str:
    if p["k"] is not None:
        return f"k = {p['k']}"
    return f"k = {0.2 if p['share'] is None else p['share']:g} of the scored units"


def _ties(p: Mapping[str, Any]) -> str:
    return "by lower index" if p["ties"] == "index" else "in expectation over random order"


def _log(p: Mapping[str, Any]) -> str:
    return "natural logarithm" if p["base"] is None else f"logarithm to base {p['base']:g}"


_CONVENTIONS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "spearman": lambda p: "Spearman rho, average ranks",
    "kendall": lambda p: f"Kendall tau-{p['variant']}",
    "pearson": lambda p: "Pearson r",
    "cosine": lambda p: "cosine, not centred",
    "js_divergence": lambda p: f"Jensen-Shannon divergence, {_log(p)}, eps {p['eps']:g}",
    "js_distance": lambda p: (
        f"square root of the Jensen-Shannon divergence, {_log(p)}, eps {p['eps']:g}"
    ),
    "kl_divergence": lambda p: f"KL(model || human), {_log(p)}, eps {p['eps']:g}",
    "total_variation": lambda p: "total variation distance of shares",
    "topk_overlap": lambda p: f"top-k overlap, {_n_top(p)}, ties {_ties(p)}",
    "topk_jaccard": lambda p: f"Jaccard index of the top k, {_n_top(p)}, ties by lower index",
    "kappa_topk": lambda p: f"Cohen's kappa of top-k membership, {_n_top(p)}, ties {_ties(p)}",
    "rank_biased_overlap": lambda p: (
        f"rank-biased overlap, p {p['p']:g}, "
        + ("all places" if p["depth"] is None else f"depth {p['depth']}")
        + (", extrapolated" if p["extrapolate"] else ", truncated sum")
        + ", ties by lower index"
    ),
    "ndcg": lambda p: (
        "nDCG, human weights as gains, "
        + ("all places" if p["k"] is None else f"k = {p['k']}")
        + ", tied scores share their discounts"
    ),
}


def convention(metric: str, **params: Any) -> str:
    """Return one line that names the convention behind a number, for result tables.

    Raises
    ------
    UnknownNameError
        No metric of that name, or a parameter that it does not have.
    """
    entry = find_metric(metric)
    signature = inspect.signature(entry.obj)
    known = list(signature.parameters)[2:]
    for name in params:
        if name not in known:
            raise UnknownNameError(f"parameter of {metric}", name, known)
    bound = signature.bind(None, None, **params)
    bound.apply_defaults()
    values = dict(bound.arguments)
    text = _CONVENTIONS.get(entry.name)
    if text is None:
        shown = ", ".join(f"{k} {v}" for k, v in list(values.items())[2:])
        return f"{metric}" + (f", {shown}" if shown else "")
    return text(values)


def partial_convention(method: str = "spearman", covariates: Iterable[str] = ()) -> str:
    """Return one line that names the convention of a partial correlation."""
    names = {"spearman": "Spearman rho, average ranks", "pearson": "Pearson r"}
    name = names[choice("method", method, tuple(names))]
    held = ", ".join(map(str, items("covariates", covariates, "a list of names")))
    return f"partial {name}, least squares with intercept, given {held or 'no covariate'}"
