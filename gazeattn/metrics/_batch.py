"""Many profiles at once, and look-up of metrics by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import UnknownNameError
from gazeattn.metrics._arrays import Floats, as_floats, is_constant, row_groups, same_length
from gazeattn.metrics._kernels import KERNELS, Kernel, resolve_k
from gazeattn.metrics._options import wrong
from gazeattn.registry import Entry, metrics, register_metric

Metric = Callable[..., float]


def metric_names() -> list[str]:
    """Return the names of all registered agreement metrics."""
    return [e.name for e in metrics if e.info.get("task") == "agreement"]


def find_metric(metric: str) -> Entry:
    if not isinstance(metric, str):
        raise wrong("metric", "the name of an agreement metric", metric)
    entry = metrics.get(metric)
    if entry.info.get("task") != "agreement":
        raise UnknownNameError("agreement metric", metric, metric_names())
    return entry


def as_kernel(metric: str | Metric) -> Kernel:
    """Return the batched form of a metric, or a loop around its plain form."""
    if isinstance(metric, str):
        entry = find_metric(metric)
        kernel = entry.info.get("kernel")
        if isinstance(kernel, Kernel):
            return kernel
        metric = entry.obj
    elif not callable(metric):
        raise wrong("metric", "the name of an agreement metric, or a function f(a, b)", metric)
    else:
        for entry in metrics:
            if entry.obj is metric and isinstance(entry.info.get("kernel"), Kernel):
                return entry.info["kernel"]
    plain: Metric = metric  # type: ignore[assignment]

    def loop(a: Floats, b: Floats, **params: Any) -> Floats:
        return np.array([[plain(x, y, **params) for y in b] for x in a], dtype=np.float64)

    return Kernel(loop, min_units=0)


def _check_params(kernel: Kernel, params: Mapping[str, Any]) -> None:
    """Refuse options that a metric does not have, and wrong ones even where nothing is computed."""
    known = list(inspect.signature(kernel.function).parameters.values())[2:]
    if kernel.min_units == 0 or any(p.kind is p.VAR_KEYWORD for p in known):
        return  # a function from outside: it checks its own
    names = [p.name for p in known]
    for name in params:
        if name not in names:
            raise UnknownNameError("option of the metric", name, names)
    trial = np.array([[1.0, 2.0]])
    kernel.function(trial, trial, **params)


def compute(kernel: Kernel, a: np.ndarray, b: np.ndarray, params: Mapping[str, Any]) -> Floats:
    same_length(a, b)
    if params:
        _check_params(kernel, params)
    out = np.full((len(a), len(b)), np.nan)
    varies = kernel.needs_variation(**params)
    for rows_b, missing_b in row_groups(np.isnan(b)):
        for rows_a, missing_a in row_groups(np.isnan(a)):
            keep = ~(missing_a | missing_b)
            x, y = a[rows_a][:, keep], b[rows_b][:, keep]
            if x.shape[1] < kernel.min_units or x.shape[0] == 0 or y.shape[0] == 0:
                continue
            values = kernel.function(x.astype(np.float64), y.astype(np.float64), **params)
            if varies:
                values = np.where(is_constant(x)[:, None] | is_constant(y), np.nan, values)
            out[np.ix_(rows_a, rows_b)] = values
    return out


def single(name: str, a: ArrayLike, b: ArrayLike, **params: Any) -> float:
    """Return a metric of `KERNELS` for one pair of profiles."""
    x, y = as_floats(a, "first profile"), as_floats(b, "second profile")
    return float(compute(KERNELS[name], x[None, :], y[None, :], params)[0, 0])


def register_agreement(
    name: str,
    bounds: tuple[float, float],
    higher: bool,
    description: str,
    formula: str,
    citation: str,
    symmetric: bool = True,
    aliases: tuple[str, ...] = (),
) -> Callable[[Metric], Metric]:
    """Register an agreement metric with its kernel of `KERNELS`."""
    return register_metric(
        name,
        aliases=aliases,
        task="agreement",
        bounds=bounds,
        higher_is_better=higher,
        symmetric=symmetric,
        description=description,
        formula=formula,
        citation=citation,
        kernel=KERNELS[name],
    )


def batched(metric: str | Metric, A: ArrayLike, b: ArrayLike, **params: Any) -> Floats:
    """Compute one metric for many profiles, by matrix products where the metric allows it.

    Parameters
    ----------
    metric
        Name of a registered metric, or a function ``f(a, b, **params)`` (then a plain loop).
    A : array-like, shape (n_profiles, n_units)
        Profiles, e.g. all heads of a model.
    b : array-like, shape (n_units,) or (n_references, n_units)
        One human reference or many (e.g. permutations).
    **params
        Passed to the metric.

    Returns
    -------
    ndarray, shape (n_profiles,) or (n_profiles, n_references)
        Equal to the plain form for each pair, whatever else is in the batch. Units that are
        NaN on either side of a pair are left out of that pair; profiles that share a pattern
        of missing units are computed together.
    """
    x, y = as_floats(A, "profiles", (2,)), as_floats(b, "reference", (1, 2))
    values = compute(as_kernel(metric), x, np.atleast_2d(y), params)
    return values[:, 0] if y.ndim == 1 else values


def n_paired(A: ArrayLike, b: ArrayLike) -> np.ndarray:
    """Return how many units each profile (row of `A`) and the reference `b` both score."""
    x, y = as_floats(A, "profiles", (1, 2)), as_floats(b, "reference")
    same_length(x, y)
    return np.asarray((~np.isnan(np.atleast_2d(x)) & ~np.isnan(y)).sum(axis=1))


def undefined_reason(metric: str, a: ArrayLike, b: ArrayLike, **params: Any) -> str:
    """Say why a metric is undefined for two profiles; empty where it is defined."""
    kernel = as_kernel(metric)
    x, y = as_floats(a, "first profile"), as_floats(b, "second profile")
    if not np.isnan(compute(kernel, x[None, :], y[None, :], params)[0, 0]):
        return ""
    keep = ~(np.isnan(x) | np.isnan(y))
    x, y = x[keep], y[keep]
    n = len(x)
    if n < kernel.min_units:
        return f"{n} unit{'' if n == 1 else 's'} scored on both sides, {kernel.min_units} needed"
    if kernel.needs_variation(**params):
        flat = [s for s, v in (("model", x), ("human", y)) if is_constant(v[None, :])[0]]
        if flat:
            plural = "s are" if len(flat) == 2 else " is"
            return f"the {' and '.join(flat)} profile{plural} constant"
    for side, v in (("model", x), ("human", y)):
        if not np.isfinite(v).all():
            return f"the {side} profile holds infinite values"
        if kernel.needs_shares and (v < 0).any():
            return f"the {side} profile has negative weights"
        if (kernel.needs_shares or metric == "cosine") and not v.any():
            return f"the {side} profile has no mass"
    if metric == "ndcg" and (y < 0).any():
        return "the human profile has negative weights"
    return _too_deep(params, n) or "undefined for these values"


def _too_deep(params: Mapping[str, Any], n: int) -> str:
    depth = params.get("depth")
    k = resolve_k(n, params.get("k"), params.get("share")) if depth is None else int(depth)
    if k > n:
        return f"k = {k} is more than the {n} units scored on both sides"
    return "every unit is among the top k" if k == n else ""
