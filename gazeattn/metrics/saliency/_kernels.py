"""Metrics at fixations on checked input: flat maps, pixel numbers. Public forms are beside."""

from __future__ import annotations

import numpy as np

from gazeattn.errors import DataError
from gazeattn.metrics.saliency._inputs import Array, Floats, Places, not_finite
from gazeattn.metrics.saliency._passes import PIECE, flat, mass, moments, pieces
from gazeattn.metrics.saliency._ranks import Counts, below_and_level

EPS = 2.2204e-16
"""The constant that the MIT/Tuebingen benchmark and HAT add inside logarithms."""

MACHINE_EPS = float(np.finfo(np.float64).eps)
"""What the MIT code itself adds: 2 to the power of -52."""

DENSITY_TOLERANCE = 1e-4
"""How far the sum of a density may be from 1 (float32 maps of a million pixels reach 1e-5)."""

NSS_CONVENTIONS = ("pysaliency", "hat", "mit")
JUDD_CONVENTIONS = ("pysaliency", "mit")
GAIN_CONVENTIONS = ("pysaliency", "hat", "mit")
LIKELIHOOD_CONVENTIONS = ("nats", "bits")


def nss_values(array: Array, at: Places, convention: str) -> tuple[Floats, bool]:
    """Return the NSS of each fixation (of each fixated pixel for "mit"), and constancy."""
    mean, std, is_flat, exponent = moments(array)
    if convention == "mit":
        at = np.unique(at)
    if is_flat or std == 0:
        return np.zeros(at.size), True
    if convention != "pysaliency":
        std *= float(np.sqrt(array.size / (array.size - 1)))
    values = flat(array)[at].astype(np.float64)
    return ((np.ldexp(values, -exponent) if exponent else values) - mean) / std, False


def auc_from_counts(below: Counts, level: Counts, n: int) -> Floats:
    """Return the share of n negatives below, plus half of the share that is level."""
    if n == 0:
        return np.full(below.shape, np.nan)
    return (below + 0.5 * level) / n


def auc_values(array: Array, at: Places, negatives: str) -> tuple[Floats, bool]:
    """Return the AUC of each fixation against all, or against the unfixated, pixels."""
    x = flat(array)
    positives = x[at]
    below, level = below_and_level(x, positives)
    n, is_flat = x.size, bool(at.size and (level == x.size).all())
    if negatives == "unfixated":
        fixated = np.unique(at)
        fewer, same = below_and_level(x[fixated], positives)
        below, level, n = below - fewer, level - same, n - fixated.size
    return auc_from_counts(below, level, n), is_flat and n > 0


def shuffled_values(array: Array, at: Places, other: Places) -> tuple[Floats, bool]:
    """Return the AUC of each fixation against the values at other images' fixations."""
    x = flat(array)
    positives, negatives = x[at], x[other]
    below, level = below_and_level(negatives, positives)
    is_flat = bool(at.size and other.size and (level == other.size).all())
    return auc_from_counts(below, level, other.size), is_flat and bool(x.min() == x.max())


def judd_value(array: Array, at: Places, convention: str) -> tuple[float, bool]:
    """Return the area under the ROC curve whose thresholds are the fixated values."""
    x = flat(array)
    fixated = np.unique(at)
    if at.size == 0 or fixated.size == x.size:
        return float("nan"), False
    at = fixated if convention == "mit" else at
    theta = np.sort(x[at])[::-1]
    below, level = below_and_level(x, theta)
    if np.isnan(theta.astype(np.float64)).any():
        raise not_finite("saliency map", array)
    constant = bool((level == x.size).all())
    n_negative = x.size - fixated.size
    if convention == "mit":
        found = np.arange(1, theta.size + 1)
        hits, alarms = found / theta.size, (x.size - below - found) / n_negative
    else:
        lower, _ = below_and_level(x[fixated], theta)
        falling = -theta.astype(np.float64)
        hits = np.searchsorted(falling, falling, side="right") / theta.size
        alarms = ((x.size - below) - (fixated.size - lower)) / n_negative
    area = np.trapezoid(
        np.concatenate([[0.0], hits, [1.0]]), np.concatenate([[0.0], alarms, [1.0]])
    )
    return float(area), constant


def check_density(array: Array, name: str) -> Array:
    """Return the pixels of a density, after checking that it is one.

    Raises
    ------
    DataError
        A value is negative or missing, or the sum is not 1.
    """
    x = flat(array)
    with np.errstate(invalid="ignore", over="ignore"):
        low, total = float(x.min()), float(x.sum(dtype=np.float64))
    if not np.isfinite(total):
        raise not_finite(name, array)
    if low < 0 or abs(total - 1) > DENSITY_TOLERANCE:
        raise DataError(
            f"the {name} is not a density",
            expected="no negative value, and a sum of 1",
            found=f"minimum {low:g}, sum {total:.6g}",
            hint="Make one with to_density, which says how",
        )
    return x


def _stretched(array: Array, name: str) -> tuple[float, float]:
    """Return (minimum, sum after subtraction) of a map that is stretched to 0..1."""
    how = mass(array, name, stretch=True)
    return how.low, (float("nan") if how.uniform else 1.0 / how.scale)


def gain_values(density: Array, baseline: Array | None, at: Places, convention: str) -> Floats:
    """Return log2(density / baseline) at each fixation; a uniform baseline without a map."""
    if convention == "mit":
        return _gain_mit(density, baseline, at)
    eps = EPS if convention == "hat" else 0.0
    p = check_density(density, "saliency density")[at].astype(np.float64)
    if baseline is None:
        q = np.full(at.size, 1.0 / density.size)
    else:
        q = check_density(baseline, "baseline density")[at].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        # 0 against 0 stays undefined (NaN); 0 against something is minus infinity
        return np.log2(p + eps) - np.log2(q + eps)


def _gain_mit(density: Array, baseline: Array | None, at: Places) -> Floats:
    at = np.unique(at)
    if baseline is None:
        return np.full(at.size, np.nan)
    logs = []
    for array, name in ((density, "saliency density"), (baseline, "baseline density")):
        low, total = _stretched(array, name)
        logs.append(np.log2(MACHINE_EPS + (flat(array)[at].astype(np.float64) - low) / total))
    return logs[0] - logs[1]


def log_values(density: Array, at: Places, convention: str) -> Floats:
    """Return the logarithm of the density at each fixation, natural or to base 2."""
    p = check_density(density, "saliency density")[at].astype(np.float64)
    with np.errstate(divide="ignore"):
        return np.log(p) if convention == "nats" else np.log2(p)


def mean_or_nan(values: Floats) -> float:
    """Return the mean; NaN without values, and of infinite values of both signs."""
    with np.errstate(invalid="ignore"):
        return float(values.mean()) if values.size else float("nan")


def kl_sum(a: Array, b: Array, eps: float, extra: float) -> float:
    """Return sum q log(eps + q / (p + eps)), p from `a` and q from `b`, natural logarithm."""
    x, y = flat(a), flat(b)
    how_p, how_q = mass(a, "saliency map", extra), mass(b, "reference map", extra)
    total, buffers = 0.0, np.empty((2, min(x.size, PIECE)))
    with np.errstate(divide="ignore", invalid="ignore"):
        for piece in pieces(x.size):
            p, q = buffers[:, : piece.stop - piece.start]
            how_p.density(x[piece], p)
            how_q.density(y[piece], q)
            p += eps
            np.divide(q, p, out=p)
            p += eps
            np.log(p, out=p)
            if eps == 0:
                p[q == 0] = 0.0
            total += float(np.dot(p, q))
    return total


def sim_sum(a: Array, b: Array, stretch: bool) -> float:
    """Return the sum of the smaller of both densities."""
    x, y = flat(a), flat(b)
    how_p, how_q = mass(a, "saliency map", 0.0, stretch), mass(b, "reference map", 0.0, stretch)
    if stretch and (how_p.uniform or how_q.uniform):
        return float("nan")
    ratio = how_p.scale / how_q.scale
    if how_p.plain and how_q.plain and y.dtype == np.float64 and 0 < ratio < np.inf:
        return how_q.scale * _sum_of_smaller(x, ratio, y)
    total, buffers = 0.0, np.empty((2, min(x.size, PIECE)))
    for piece in pieces(x.size):
        p, q = buffers[:, : piece.stop - piece.start]
        how_p.density(x[piece], p)
        how_q.density(y[piece], q)
        np.minimum(p, q, out=p)
        total += float(p.sum())
    return total


def _sum_of_smaller(x: Array, ratio: float, y: Array) -> float:
    """Return the sum of min(x * ratio, y): one scale for both spares a pass."""
    total, buffer = 0.0, np.empty(min(x.size, PIECE))
    for piece in pieces(x.size):
        part = buffer[: piece.stop - piece.start]
        np.multiply(x[piece], ratio, out=part, dtype=np.float64)
        np.minimum(part, y[piece], out=part)
        total += float(part.sum())
    return total
