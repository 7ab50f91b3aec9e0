"""Metrics of a saliency map against fixations: the map comes first, the human fixations second.

Fixations are (n, 2) x, y in pixels from the top left of the picture. Every fixation counts, also
several on one pixel. ``size=(width, height)`` scales them where the map has another size than the
picture; `outside` says what to do with fixations off the picture (see `locate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.metrics._arrays import as_array, plain
from gazeattn.metrics._options import one_of, positive, whole, wrong
from gazeattn.metrics.saliency import _kernels as kernels
from gazeattn.metrics.saliency._inputs import (
    Floats,
    Places,
    Size,
    as_map,
    not_finite,
    places,
    same_shape,
    sizes_of,
    warn_constant,
)
from gazeattn.metrics.saliency._kernels import mean_or_nan
from gazeattn.metrics.saliency._register import BYLINSKII, INFINITE, KUEMMERER, register

NEGATIVES = ("all", "unfixated")


@register(
    "nss",
    inputs="fixations",
    bounds=(-INFINITE, INFINITE),
    higher=True,
    chance=0.0,
    description="Normalised scanpath saliency: mean z-score of the map at the fixations",
    formula="mean over fixations of (map - mean) / std, population std",
    citation="Peters, Iyer, Itti, Koch (2005), Vision Research 45(18)",
)
def nss(
    saliency_map: ArrayLike,
    fixations: ArrayLike,
    *,
    convention: str = "pysaliency",
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> float:
    """Return the normalised scanpath saliency.

    Parameters
    ----------
    saliency_map : array-like, shape (height, width)
    fixations : array-like, shape (n, 2)
        x, y in pixels.
    convention : {"pysaliency", "hat", "mit"}
        "pysaliency": population standard deviation, every fixation counts. "hat": sample standard
        deviation. "mit": sample standard deviation, and several fixations on a pixel count once.
    size : (width, height), optional
        Size of the picture that x and y refer to, where the map has another.
    outside : {"raise", "drop", "clip"}
    losses
        Takes the counts of fixations left out or moved.

    Returns
    -------
    float
        0 for a constant map (chance by definition, with a warning); NaN without fixations.

    References
    ----------
    Peters, Iyer, Itti, Koch (2005), Vision Research 45(18), 2397-2416.
    """
    return mean_or_nan(
        nss_per_fixation(
            saliency_map,
            fixations,
            convention=convention,
            size=size,
            outside=outside,
            losses=losses,
            _level=4,
        )
    )


def nss_per_fixation(
    saliency_map: ArrayLike,
    fixations: ArrayLike,
    *,
    convention: str = "pysaliency",
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
    _level: int = 3,
) -> Floats:
    """Return the z-score at each fixation that is on the map, (n_kept,); see `nss`."""
    one_of("convention of nss", convention, kernels.NSS_CONVENTIONS)
    array = as_map(saliency_map)
    at = places(fixations, array.shape, size=size, outside=outside, losses=losses)
    values, constant = kernels.nss_values(array, at, convention)
    if constant and at.size:
        warn_constant("nss", "0", _level)
    return values


@register(
    "auc",
    inputs="fixations",
    bounds=(0.0, 1.0),
    higher=True,
    chance=0.5,
    description="Area under the ROC curve, fixations against all pixels, half credit for ties",
    formula="mean over fixations of the share of pixels below + half the share that is level",
    citation=BYLINSKII,
)
def auc(
    saliency_map: ArrayLike,
    fixations: ArrayLike,
    *,
    negatives: str = "all",
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> float:
    """Return the area under the ROC curve of fixated against other pixels.

    Per fixation: the share of negatives with a lower value, plus half the share with the same
    value; then the mean over fixations. It equals the trapezoid area over all thresholds.

    Parameters
    ----------
    saliency_map : array-like, shape (height, width)
        Infinite values are allowed, since only the order counts.
    fixations : array-like, shape (n, 2)
    negatives : {"all", "unfixated"}
        All pixels (the convention of pysaliency and the MIT/Tuebingen benchmark), or only those
        without a fixation.
    size, outside, losses
        See `nss`.

    Returns
    -------
    float
        0.5 for a constant map (with a warning); NaN without fixations or negatives.
    """
    return mean_or_nan(
        auc_per_fixation(
            saliency_map,
            fixations,
            negatives=negatives,
            size=size,
            outside=outside,
            losses=losses,
            _level=4,
        )
    )


def auc_per_fixation(
    saliency_map: ArrayLike,
    fixations: ArrayLike,
    *,
    negatives: str = "all",
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
    _level: int = 3,
) -> Floats:
    """Return the area for each fixation that is on the map, (n_kept,); see `auc`."""
    one_of("negatives of auc", negatives, NEGATIVES)
    array = as_map(saliency_map)
    at = places(fixations, array.shape, size=size, outside=outside, losses=losses)
    values, constant = kernels.auc_values(array, at, negatives)
    if constant:
        warn_constant("auc", "0.5", _level)
    return values


@register(
    "auc_judd",
    inputs="fixations",
    bounds=(0.0, 1.0),
    higher=True,
    chance=0.5,
    description="Area under the ROC curve with the fixated values as thresholds",
    formula="trapezoid over thresholds at the fixated values, unfixated pixels as negatives",
    citation="Judd, Ehinger, Durand, Torralba (2009), ICCV",
)
def auc_judd(
    saliency_map: ArrayLike,
    fixations: ArrayLike,
    *,
    convention: str = "pysaliency",
    jitter: float = 0.0,
    seed: int | None = None,
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> float:
    """Return AUC-Judd: thresholds at the fixated values, unfixated pixels as negatives.

    Parameters
    ----------
    saliency_map : array-like, shape (height, width)
    fixations : array-like, shape (n, 2)
    convention : {"pysaliency", "mit"}
        "pysaliency": the ROC curve through all fixated values; pixels at one value enter together,
        so that ties get half credit. "mit": the MIT code, which counts fixated pixels one by one
        and several fixations on a pixel once; without jitter it is far too low on maps with ties.
    jitter : float
        Largest random number added to each pixel to break ties, as a share of the range of the
        map; the MIT code uses 1e-7. Needs a `seed`.
    size, outside, losses
        See `nss`.

    Returns
    -------
    float
        0.5 for a constant map (with a warning); NaN without fixations or unfixated pixels.

    References
    ----------
    Judd, Ehinger, Durand, Torralba (2009), ICCV, 2106-2113.
    """
    one_of("convention of auc_judd", convention, kernels.JUDD_CONVENTIONS)
    array = as_map(saliency_map)
    at = places(fixations, array.shape, size=size, outside=outside, losses=losses)
    seed = None if seed is None else whole("seed", seed, 0)
    if positive("jitter", jitter, zero=True):
        if seed is None:
            raise DataError("jitter is random and needs a seed", expected="a whole number")
        noise = np.random.default_rng(seed).random(array.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            spread = float(np.ptp(array.astype(np.float64)))
        if not np.isfinite(spread):
            raise not_finite("saliency map, whose range sets the jitter,", array)
        array = array + noise * (jitter * spread)
    value, constant = kernels.judd_value(array, at, convention)
    if constant:
        warn_constant("auc_judd", "0.5", 3)
        value = 0.5
    return value


def other_places(
    other: ArrayLike | Sequence[ArrayLike],
    shape: tuple[int, ...],
    sizes: Size | Sequence[Size] | None,
    outside: str,
    losses: LossLog | None,
) -> Places:
    """Return the pixels of the fixations of other images on a map of `shape`."""
    other = plain(other, "fixations of other images")
    if getattr(other, "ndim", 0) == 2:  # an array or a table of x, y
        groups: list[Any] = [other]
    elif not isinstance(other, list | tuple | np.ndarray):
        raise wrong("other_fixations", "(m, 2) with x, y, or a list of such arrays", other)
    else:
        groups = list(other)
        if groups and as_array(groups[0], "fixations of other images").shape == (2,):
            groups = [groups]  # one list of points
    each = sizes_of(sizes, len(groups))
    name = "fixations of other images"
    found = [
        places(g, shape, size=s, outside=outside, losses=losses, name=name)
        for g, s in zip(groups, each, strict=True)
    ]
    return np.concatenate([np.zeros(0, dtype=np.intp), *found])


@register(
    "shuffled_auc",
    inputs="fixations",
    bounds=(0.0, 1.0),
    higher=True,
    chance=0.5,
    description="Area under the ROC curve against fixations on other images (no centre bias)",
    formula="as auc; negatives = map values at the fixations of other images, with multiplicity",
    citation="Tatler, Baddeley, Gilchrist (2005), Vision Research 45(5)",
    needs=("other_fixations",),
)
def shuffled_auc(
    saliency_map: ArrayLike,
    fixations: ArrayLike,
    other_fixations: ArrayLike | Sequence[ArrayLike],
    *,
    size: Size | None = None,
    other_sizes: Size | Sequence[Size] | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> float:
    """Return the area under the ROC curve against the fixations on other images.

    Parameters
    ----------
    saliency_map : array-like, shape (height, width)
    fixations : array-like, shape (n, 2)
    other_fixations : array-like (m, 2), or a list of such arrays, one per image
        Fixations of other images, every one as one negative. Leave this image's own out.
    size : (width, height), optional
        Size of this picture, where the map has another.
    other_sizes : (width, height) or a list of them, optional
        Sizes of the other pictures; `size` where not given. Their fixations are scaled to the map.
    outside, losses
        See `nss`; for the fixations of both kinds.

    Returns
    -------
    float
        0.5 for a constant map (with a warning); NaN without fixations on either side.

    References
    ----------
    Tatler, Baddeley, Gilchrist (2005), Vision Research 45(5), 643-659.
    """
    array = as_map(saliency_map)
    at = places(fixations, array.shape, size=size, outside=outside, losses=losses)
    sizes = size if other_sizes is None else other_sizes
    other = other_places(other_fixations, array.shape, sizes, outside, losses)
    values, constant = kernels.shuffled_values(array, at, other)
    if constant:
        warn_constant("shuffled_auc", "0.5", 3)
    return mean_or_nan(values)


@register(
    "information_gain",
    inputs="fixations",
    bounds=(-INFINITE, INFINITE),
    higher=True,
    description="Information gain over a baseline density, in bits per fixation",
    formula="mean over fixations of log2(density / baseline)",
    citation=KUEMMERER,
)
def information_gain(
    density: ArrayLike,
    fixations: ArrayLike,
    baseline: ArrayLike | None = None,
    *,
    convention: str = "pysaliency",
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> float:
    """Return the information gain of a density over a baseline, in bits per fixation.

    Parameters
    ----------
    density : array-like, shape (height, width)
        Not negative, sums to 1 (`to_density` makes one).
    fixations : array-like, shape (n, 2)
    baseline : array-like, shape (height, width), optional
        Usually a centre bias. Without it the uniform density, 1 / number of pixels.
    convention : {"pysaliency", "hat", "mit"}
        "pysaliency": log2 of both densities as they are. "hat": 2.2204e-16 is added to both.
        "mit": both maps are first stretched to minimum 0, and several fixations on a pixel count
        once; it needs a baseline map.
    size, outside, losses
        See `nss`.

    Returns
    -------
    float
        Minus infinity where the density is 0 at a fixation; NaN without fixations, and where both
        densities are 0 at one. `undefined_reason` says which.

    References
    ----------
    Kuemmerer, Wallis, Bethge (2015), PNAS 112(52), 16054-16059.
    """
    values = information_gain_per_fixation(
        density,
        fixations,
        baseline,
        convention=convention,
        size=size,
        outside=outside,
        losses=losses,
    )
    return mean_or_nan(values)


def information_gain_per_fixation(
    density: ArrayLike,
    fixations: ArrayLike,
    baseline: ArrayLike | None = None,
    *,
    convention: str = "pysaliency",
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> Floats:
    """Return the bits at each fixation that is on the map, (n_kept,); see `information_gain`."""
    one_of("convention of information_gain", convention, kernels.GAIN_CONVENTIONS)
    p = as_map(density, "saliency density")
    q = None if baseline is None else as_map(baseline, "baseline density")
    if q is not None:
        same_shape(p, q)
    at = places(fixations, p.shape, size=size, outside=outside, losses=losses)
    return kernels.gain_values(p, q, at, convention)


@register(
    "log_likelihood",
    inputs="fixations",
    bounds=(-INFINITE, 0.0),
    higher=True,
    description="Log-likelihood of fixations under a density, in nats per fixation, no baseline",
    formula="mean over fixations of ln(density at its pixel); uniform: -ln(number of pixels)",
    citation=KUEMMERER,
)
def log_likelihood(
    density: ArrayLike,
    fixations: ArrayLike,
    *,
    convention: str = "nats",
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> float:
    """Return the mean log-likelihood of a fixation under a density.

    It is relative to no baseline: the probability of a pixel, so that the uniform density gives
    -ln(number of pixels), and values for maps of different sizes are not comparable.
    `information_gain` subtracts that of a baseline, in bits.

    Parameters
    ----------
    density : array-like, shape (height, width)
        Not negative, sums to 1 (`to_density` makes one).
    fixations : array-like, shape (n, 2)
    convention : {"nats", "bits"}
        Natural logarithm, or to base 2. Both per fixation.
    size, outside, losses
        See `nss`.

    Returns
    -------
    float
        Minus infinity where the density is 0 at a fixation; NaN without fixations.

    References
    ----------
    Kuemmerer, Wallis, Bethge (2015), PNAS 112(52), 16054-16059.
    """
    one_of("convention of log_likelihood", convention, kernels.LIKELIHOOD_CONVENTIONS)
    array = as_map(density, "saliency density")
    at = places(fixations, array.shape, size=size, outside=outside, losses=losses)
    return mean_or_nan(kernels.log_values(array, at, convention))
