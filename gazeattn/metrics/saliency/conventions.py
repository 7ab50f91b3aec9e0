"""What a saliency number stands for, in one line, and why it is undefined where it is NaN."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.metrics.saliency import conditional, distribution, location
from gazeattn.metrics.saliency._inputs import as_map, as_points
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


def metric_names() -> list[str]:
    """Return the names of the saliency metrics."""
    return [e.name for e in metrics if e.info.get("task") == "saliency"]


def find_metric(name: str) -> Entry:
    """Return the registry entry of a saliency metric, or raise `UnknownNameError`."""
    known = metric_names()
    if name not in known:
        raise UnknownNameError("saliency metric", name, known)
    return metrics.get(name)


def convention(metric: str, **params: Any) -> str:
    """Return one line that names the convention behind a number, for result tables.

    Raises
    ------
    UnknownNameError
        No metric, or no convention, of that name.
    TypeError
        A parameter that the metric does not have.
    """
    entry = find_metric(metric)
    signature = inspect.signature(entry.obj)
    unknown = [k for k in params if k not in signature.parameters]
    if unknown:
        raise TypeError(f"{metric} has no parameter {unknown[0]!r}")
    values = {k: p.default for k, p in signature.parameters.items()} | params
    text = _CONVENTIONS.get(metric)
    if text is None:  # a metric of another package
        shown = ", ".join(f"{k} {v}" for k, v in params.items())
        return metric + (f", {shown}" if shown else "")
    try:
        return text(values)
    except KeyError:
        name, known = str(values.get("convention")), _known(metric)
        raise UnknownNameError(f"convention of {metric}", name, known) from None


def _known(metric: str) -> list[str]:
    tables: dict[str, Any] = {
        "nss": _NSS,
        "auc_judd": _JUDD,
        "information_gain": _GAIN,
        "kl_div": _KL,
        "sim": distribution.SIM_CONVENTIONS,
    }
    return list(tables.get(metric) or conditional.CONVENTIONS[metric])


def undefined_reason(metric: str, saliency_map: ArrayLike, other: ArrayLike, **params: Any) -> str:
    """Return why a metric is NaN for a map and its fixations or reference; "" where it is not.

    Parameters
    ----------
    metric : str
    saliency_map : array-like, shape (height, width); (n_steps, height, width) for steps
    other : array-like
        Fixations (n, 2), or the reference map.
    """
    info = find_metric(metric).info
    if info.get("inputs") != "map":
        if len(as_points(other)) == 0:
            return "no fixations"
        if np.isnan(as_points(other)).any(axis=1).all():
            return "no fixation has a place"
        if metric == "shuffled_auc" and np.size(params.get("other_fixations", [0])) == 0:
            return "no fixations on other images"
        if info.get("inputs") == "fixations":
            array = as_map(saliency_map)
            how = {"size": params.get("size"), "outside": "drop", "losses": LossLog()}
            n = np.unique(location.places(other, array.shape, **how)).size
            if n == 0:
                return "no fixation on the picture"
            needs_rest = metric == "auc_judd" or params.get("negatives") == "unfixated"
            if needs_rest and n == array.size:
                return "every pixel is fixated"
        return ""
    needs_contrast = metric == "cc" or (metric == "sim" and params.get("convention") == "mit")
    if not needs_contrast:
        return ""
    for values, name in ((saliency_map, "saliency map"), (other, "reference map")):
        array = as_map(values, name)
        flat = (
            moments(array, name).constant if metric == "cc" else mass(array, name, 0, True).uniform
        )
        if flat:
            return f"the {name} is constant"
    return ""
