"""What a saliency number stands for, in one line, and why it is undefined where it is NaN."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.metrics._options import one_of, positive, whole
from gazeattn.metrics.saliency import _kernels as kernels
from gazeattn.metrics.saliency import conditional, distribution, location
from gazeattn.metrics.saliency._inputs import OUTSIDE, as_map, as_points, locate
from gazeattn.metrics.saliency._passes import mass, moments
from gazeattn.registry import Entry, metrics

_NSS = {
    "pysaliency": "population std, every fixation counts",
    "hat": "sample std, every fixation counts",
    "mit": "sample std, each fixated pixel once",
}
_JUDD = {
    "pysaliency": "ROC through the fixated values, unfixated pixels as negatives",
    "mit": "MIT code, fixated pixels one by one, no credit for ties",
}
_GAIN = {
    "pysaliency": "log2 of densities",
    "hat": "log2 of densities + 2.2204e-16",
    "mit": "MIT code, maps stretched to 0..1, each fixated pixel once",
}
_KL = {
    "kld_mit": "eps 2.2204e-16",
    "kld_1e-20": "1e-20 added to every pixel",
    "mit": "eps 2^-52",
    "hat": "eps 1e-12",
}

Texts = dict[str, Callable[[dict[str, Any]], str]]
_CONVENTIONS: Texts = {
    "nss": lambda p: f"NSS, {_NSS[p['convention']]}",
    "auc": lambda p: f"AUC, {p['negatives']} pixels as negatives, half credit for ties",
    "auc_judd": lambda p: (
        f"AUC-Judd, {_JUDD[p['convention']]}"
        + (f", jitter {p['jitter']:g}, seed {p['seed']}" if p["jitter"] else ", no jitter")
    ),
    "shuffled_auc": lambda p: "shuffled AUC, fixations of other images as negatives, half ties",
    "information_gain": lambda p: f"information gain in bits, {_GAIN[p['convention']]}",
    "log_likelihood": lambda p: (
        f"log-likelihood in {p['convention']} per fixation, of the pixel's share, no baseline"
    ),
    "cc": lambda p: "Pearson correlation over pixels",
    "sim": lambda p: (
        "SIM, " + ("no stretch" if p["convention"] == "pysaliency" else "stretched to minimum 0")
    ),
    "kl_div": lambda p: f"KL(reference || map) in nats, {_KL[p['convention']]}",
    "emd": lambda p: f"earth mover's distance in pixels, at most {p['max_cells']} cells",
    "cnss": lambda p: f"conditional NSS, {_NSS[p['convention']].split(',')[0]}",
    "cig": lambda p: f"conditional information gain in bits, {_GAIN[p['convention']]}",
    "cauc": lambda p: (
        "conditional AUC, all pixels as negatives, half credit for ties, chance 0.5"
        if p["convention"] == "pysaliency"
        else "conditional AUC of HAT, 1 - fp / 2, chance 0.75"
    ),
    "cauc_hat": lambda p: "conditional AUC of HAT, 1 - fp / 2, chance 0.75",
}


CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "nss": {"convention": kernels.NSS_CONVENTIONS},
    "auc": {"negatives": location.NEGATIVES},
    "auc_judd": {"convention": kernels.JUDD_CONVENTIONS},
    "information_gain": {"convention": kernels.GAIN_CONVENTIONS},
    "log_likelihood": {"convention": kernels.LIKELIHOOD_CONVENTIONS},
    "sim": {"convention": distribution.SIM_CONVENTIONS},
    "kl_div": {"convention": tuple(distribution.KL_CONVENTIONS)},
    **{name: {"convention": known} for name, known in conditional.CONVENTIONS.items()},
}
"""Metric -> parameter -> the values that it may have."""


def metric_names() -> list[str]:
    """Return the names of the saliency metrics."""
    return [e.name for e in metrics if e.info.get("task") == "saliency"]


def find_metric(name: str) -> Entry:
    """Return the registry entry of a saliency metric, or raise `UnknownNameError`."""
    return metrics.get(one_of("saliency metric", name, tuple(metric_names())))


def convention(metric: str, **params: Any) -> str:
    """Return one line that names the convention behind a number, for result tables.

    Raises
    ------
    UnknownNameError
        No metric, no parameter of it, or no convention, of that name.
    DataError
        A parameter has a value that it cannot have.
    """
    values = checked_options(metric, params)
    text = _CONVENTIONS.get(metric)
    if text is None:  # a metric of another package
        shown = ", ".join(f"{k} {v}" for k, v in params.items())
        return metric + (f", {shown}" if shown else "")
    return text(values)


def checked_options(metric: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters of a metric, after checking the names and values of those given."""
    parameters = dict(list(inspect.signature(find_metric(metric).obj).parameters.items())[2:])
    free = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in params:
        if name not in parameters and not free:
            raise UnknownNameError(f"parameter of {metric}", str(name), parameters)
    values = {k: p.default for k, p in parameters.items()} | dict(params)
    for name, known in {**CHOICES.get(metric, {}), "outside": OUTSIDE}.items():
        if name in params:
            one_of(f"{name} of {metric}", params[name], known)
    if metric == "auc_judd":
        if positive("jitter", values["jitter"], zero=True) and values["seed"] is None:
            raise DataError("jitter is random and needs a seed", expected="a whole number")
        if values["seed"] is not None:
            whole("seed", values["seed"], 0)
    if metric == "emd":
        whole("max_cells", values["max_cells"])
    return values


def undefined_reason(metric: str, saliency_map: ArrayLike, other: ArrayLike, **params: Any) -> str:
    """Return why a metric is NaN for a map and its fixations or reference; "" where it is not.

    Parameters
    ----------
    metric : str
    saliency_map : array-like, shape (height, width); (n_steps, height, width) for steps
    other : array-like
        Fixations (n, 2), or the reference map.
    **params
        Of the metric. Without `outside`, fixations off the picture count as left out.
    """
    entry = find_metric(metric)
    values = checked_options(metric, params)
    if entry.info.get("inputs") == "map":
        return _without_contrast(metric, saliency_map, other, values)
    given: dict[str, Any] = {"outside": "drop", "losses": LossLog()} | params
    how: dict[str, Any] = {k: given.get(k) for k in ("size", "outside", "losses")}
    points = as_points(other)
    if len(points) == 0:
        return "no fixations"
    if np.isnan(points).any(axis=1).all():
        return "no fixation has a place"
    if entry.info.get("inputs") == "steps":
        return _of_steps(metric, saliency_map, other, values, how)
    array = as_map(saliency_map)
    at, _ = locate(points, array.shape, **how)
    if at.size == 0:
        return "no fixation on the picture"
    if metric == "shuffled_auc":
        pool = params.get("other_fixations")
        if pool is not None:
            sizes = how["size"] if given.get("other_sizes") is None else given["other_sizes"]
            rest = location.other_places(pool, array.shape, sizes, how["outside"], how["losses"])
            return "" if rest.size else "no fixations on other images"
    needs_rest = metric == "auc_judd" or values.get("negatives") == "unfixated"
    if needs_rest and np.unique(at).size == array.size:
        return "every pixel is fixated"
    if metric == "information_gain":
        return _without_gain(array, values["baseline"], at, values["convention"])
    return ""


def _without_contrast(metric: str, a: ArrayLike, b: ArrayLike, values: dict[str, Any]) -> str:
    if not (metric == "cc" or (metric == "sim" and values["convention"] == "mit")):
        return ""
    for given, name in ((a, "saliency map"), (b, "reference map")):
        array = as_map(given, name)
        flat = (
            moments(array, name).constant if metric == "cc" else mass(array, name, 0, True).uniform
        )
        if flat:
            return f"the {name} is constant"
    return ""


def _without_gain(density: Any, baseline: ArrayLike | None, at: Any, convention: str) -> str:
    prior = None if baseline is None else as_map(baseline, "baseline density")
    if convention == "mit":
        if prior is None:
            return "convention 'mit' needs a baseline map"
        for array, name in ((density, "saliency density"), (prior, "baseline density")):
            if mass(array, name, 0, True).uniform:
                return f"the {name} is constant"
    gains = kernels.gain_values(density, prior, at, convention)
    both = int(np.isnan(gains).sum())
    if both:
        return f"density and baseline are both 0 at {both} of {gains.size} fixations"
    if np.isposinf(gains).any() and np.isneginf(gains).any():
        return "infinite gains of both signs: the baseline is 0 at one fixation, the map at another"
    return ""


def _of_steps(metric: str, maps: ArrayLike, other: ArrayLike, values: Any, how: Any) -> str:
    name = "cauc" if metric == "cauc_hat" else metric
    convention = values.get("convention", "hat")
    gains, on_map = conditional.steps(name, maps, other, values.get("baseline"), convention, how)
    if not on_map.any():
        return "no fixation on the picture"
    both = int(np.isnan(gains[on_map]).sum())
    if both and metric == "cig":
        return f"density and baseline are both 0 at {both} of {int(on_map.sum())} fixations"
    if both:
        return "a map of one pixel has no other pixels"
    if np.isposinf(gains).any() and np.isneginf(gains).any():
        return "infinite gains of both signs: the baseline is 0 at one fixation, the map at another"
    return ""
