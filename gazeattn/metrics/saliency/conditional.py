"""Metrics of one map per step: the map given the scanpath so far, against the next fixation.

Maps are (n_steps, height, width), or a list of maps; fixations (n_steps, 2) x, y, one per map. Each
step gives one value, and the metric is their mean. Densities given the past come from the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.metrics._arrays import as_array, plain
from gazeattn.metrics._options import one_of, wrong
from gazeattn.metrics.saliency import _kernels as kernels
from gazeattn.metrics.saliency._inputs import (
    Array,
    Floats,
    Size,
    as_map,
    as_points,
    locate,
    same_shape,
    warn_constant,
)
from gazeattn.metrics.saliency._passes import flat
from gazeattn.metrics.saliency._register import INFINITE, YANG, register

Maps = ArrayLike | Sequence[ArrayLike]

CONVENTIONS: dict[str, tuple[str, ...]] = {
    "cnss": ("hat", "pysaliency"),
    "cig": ("hat", "pysaliency"),
    "cauc": ("pysaliency", "hat"),
}


def per_step(
    metric: str,
    maps: Maps,
    fixations: ArrayLike,
    baseline: Maps | None = None,
    *,
    convention: str | None = None,
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> Floats:
    """Return the value of each step, (n_steps,); NaN where undefined or the fixation left out.

    Parameters
    ----------
    metric : {"cnss", "cig", "cauc"}
    maps, fixations, baseline, convention, size, outside, losses
        See `cnss`, `cig` and `cauc`.
    """
    how = {"size": size, "outside": outside, "losses": losses}
    return steps(metric, maps, fixations, baseline, convention, how)[0]


def steps(
    metric: str,
    maps: Maps,
    fixations: ArrayLike,
    baseline: Maps | None,
    convention: str | None,
    how: dict[str, Any],
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the value of each step, and which steps have a fixation."""
    one_of("conditional metric", metric, tuple(CONVENTIONS))
    convention = CONVENTIONS[metric][0] if convention is None else convention
    one_of(f"convention of {metric}", convention, CONVENTIONS[metric])
    each = _one_by_one(maps, "maps")
    points = as_points(fixations)
    _one_each(len(each), len(points), "fixations")
    priors: list[Any] = [None] * len(each)
    if baseline is not None and metric == "cig":
        priors = _one_by_one(baseline, "baseline")
        if priors and as_array(priors[0], "the baseline").ndim == 1:  # the rows of one map
            priors = [baseline] * len(each)
        _one_each(len(each), len(priors), "baseline maps")
    values, n_constant = np.full(len(each), np.nan), 0
    on_map = np.zeros(len(each), dtype=bool)
    for i, (step, prior) in enumerate(zip(each, priors, strict=True)):
        array = as_map(step, f"map of step {i}")
        at, _ = locate(points[i : i + 1], array.shape, **how)
        if at.size == 0:
            continue
        constant, on_map[i] = False, True
        if metric == "cnss":
            found, constant = kernels.nss_values(array, at, convention)
        elif metric == "cig":
            q = None if prior is None else as_map(prior, "baseline density")
            if q is not None:
                same_shape(array, q)
            found = kernels.gain_values(array, q, at, convention)
        elif convention == "pysaliency":
            found, constant = kernels.auc_values(array, at, "all")
        else:
            found = _hat_area(array, int(at[0]))
        values[i] = found[0]
        n_constant += constant
    if n_constant:
        chance = "0" if metric == "cnss" else "0.5"
        warn_constant(f"{metric} ({n_constant} of {len(each)} steps)", chance, 5)
    return values, on_map


def _one_by_one(maps: Any, name: str) -> list[Any]:
    maps = plain(maps, name)
    if not isinstance(maps, list | tuple | np.ndarray) or getattr(maps, "ndim", 1) == 0:
        raise wrong(name, "(n_steps, height, width), or a list of maps", maps)
    return list(maps)


def _one_each(n_maps: int, n: int, name: str) -> None:
    if n_maps != n:
        raise DataError(f"one of the {name} per map is needed", expected=str(n_maps), found=str(n))


def _hat_area(array: Array, at: int) -> Floats:
    x = flat(array)
    below, _ = kernels.below_and_level(x, x[at : at + 1])
    if x.size == 1:
        return np.array([np.nan])
    return 1 - (x.size - below - 1) / (x.size - 1) / 2


def _mean_of_steps(
    metric: str,
    maps: Maps,
    fixations: ArrayLike,
    baseline: Maps | None,
    convention: str,
    **how: Any,
) -> float:
    """Return the mean over the steps that have a fixation."""
    values, on_map = steps(metric, maps, fixations, baseline, convention, how)
    return kernels.mean_or_nan(values[on_map])


@register(
    "cnss",
    inputs="steps",
    bounds=(-INFINITE, INFINITE),
    higher=True,
    chance=0.0,
    description="Conditional NSS: z-score of each step's map at the next fixation",
    formula="mean over steps of (map - mean) / std, sample std",
    citation=YANG,
)
def cnss(
    maps: Maps,
    fixations: ArrayLike,
    *,
    convention: str = "hat",
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> float:
    """Return the conditional NSS: the mean over steps of the NSS of one fixation.

    Parameters
    ----------
    maps : array-like, shape (n_steps, height, width)
    fixations : array-like, shape (n_steps, 2)
    convention : {"hat", "pysaliency"}
        Sample standard deviation (HAT), or that of the population.
    size, outside, losses
        See `nss`. Steps whose fixation is left out do not enter the mean.

    Returns
    -------
    float
        NaN without steps.

    References
    ----------
    Yang et al. (2024), Unifying Top-down and Bottom-up Scanpath Prediction Using Transformers,
    CVPR.
    """
    how = {"size": size, "outside": outside, "losses": losses}
    return _mean_of_steps("cnss", maps, fixations, None, convention, **how)


@register(
    "cig",
    inputs="steps",
    bounds=(-INFINITE, INFINITE),
    higher=True,
    description="Conditional information gain of each step's density, in bits per fixation",
    formula="mean over steps of log2(density + eps) - log2(baseline + eps), eps = 2.2204e-16",
    citation=YANG,
)
def cig(
    maps: Maps,
    fixations: ArrayLike,
    baseline: Maps | None = None,
    *,
    convention: str = "hat",
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> float:
    """Return the conditional information gain: the mean over steps, in bits.

    Parameters
    ----------
    maps : array-like, shape (n_steps, height, width)
        Densities, each with sum 1.
    fixations : array-like, shape (n_steps, 2)
    baseline : array-like, shape (height, width) or (n_steps, height, width), optional
        One density for all steps, or one per step; uniform without it.
    convention : {"hat", "pysaliency"}
        "hat" adds 2.2204e-16 to both densities; "pysaliency" nothing.
    size, outside, losses
        See `nss`.

    References
    ----------
    Yang et al. (2024), CVPR.
    """
    how = {"size": size, "outside": outside, "losses": losses}
    return _mean_of_steps("cig", maps, fixations, baseline, convention, **how)


@register(
    "cauc",
    inputs="steps",
    bounds=(0.0, 1.0),
    higher=True,
    chance=0.5,
    description="Conditional AUC: area of each step's map at the next fixation (chance 0.5)",
    formula="mean over steps of the share of pixels below + half the share that is level",
    citation=YANG,
)
def cauc(
    maps: Maps,
    fixations: ArrayLike,
    *,
    convention: str = "pysaliency",
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> float:
    """Return the conditional AUC: the mean over steps of the area for one fixation.

    Parameters
    ----------
    maps : array-like, shape (n_steps, height, width)
    fixations : array-like, shape (n_steps, 2)
    convention : {"pysaliency", "hat"}
        "pysaliency": `auc` of that fixation; chance is 0.5. "hat": see `cauc_hat`, another measure
        with chance 0.75.
    size, outside, losses
        See `nss`.
    """
    how = {"size": size, "outside": outside, "losses": losses}
    return _mean_of_steps("cauc", maps, fixations, None, convention, **how)


@register(
    "cauc_hat",
    inputs="steps",
    bounds=(0.5, 1.0),
    higher=True,
    chance=0.75,
    description="Conditional AUC as HAT computes it: lies in 0.5 to 1, chance is 0.75",
    formula="mean over steps of 1 - fp / 2, fp = share of the other pixels that are not lower",
    citation=YANG,
)
def cauc_hat(
    maps: Maps,
    fixations: ArrayLike,
    *,
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> float:
    """Return the conditional AUC of HAT: 1 - fp / 2, whose chance level is 0.75.

    The ROC curve of one fixation goes through (0, 0), (fp, 1), (1, 1), with fp the share of other
    pixels that are not lower. Do not put it beside an AUC whose chance level is 0.5.

    Parameters
    ----------
    maps : array-like, shape (n_steps, height, width)
    fixations : array-like, shape (n_steps, 2)
    size, outside, losses
        See `nss`.

    References
    ----------
    Yang et al. (2024), CVPR.
    """
    how = {"size": size, "outside": outside, "losses": losses}
    return _mean_of_steps("cauc", maps, fixations, None, "hat", **how)
