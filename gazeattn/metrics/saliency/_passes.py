"""One pass over whole maps in pieces that stay in the cache: sums, spread, joint sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gazeattn.errors import DataError
from gazeattn.metrics._arrays import is_constant
from gazeattn.metrics.saliency._inputs import Array, Floats, not_finite
from gazeattn.metrics.saliency._ranks import histogram

PIECE = 1 << 16
"""Pixels in a piece: 512 KiB of float64, so that temporaries stay in the cache."""

NEARLY_CONSTANT = 64.0
"""Spread over size, in machine epsilons, below which `constant` looks at the values themselves."""

FEW_DIGITS_LOST = 0.01
"""Variance over squared mean above which sums of plain squares keep all but two digits."""


SMALLEST_SQUARE = 1e-280
"""Variance below which squares may have lost digits on the way to 0."""

READ = 3 << 15
"""Pixels in a piece that is only read: 768 KiB of float64, so that a second look hits the cache."""

ROW = 256
"""Pixels whose sum is one product with a vector of ones."""


class Moments(NamedTuple):
    """Mean and population standard deviation of a map, and whether it is constant.

    `exponent` is 0, or, for maps whose squares float64 does not hold, that of the power of two by
    which map, mean and standard deviation were divided.
    """

    mean: float
    std: float
    constant: bool
    exponent: int = 0


def flat(array: Array) -> Array:
    """Return the pixels in row order, copied only where the memory is not in that order."""
    return np.ascontiguousarray(array).reshape(-1)


def pieces(n: int, size: int = PIECE) -> Iterator[slice]:
    """Cut n pixels into pieces of `size`."""
    for begin in range(0, n, size):
        yield slice(begin, min(begin + size, n))


def centre(x: Array) -> float:
    """Return a value near the mean, from a sample, so that sums of squares keep their digits."""
    step = max(1, x.size // 1024)
    return float(x[::step].mean(dtype=np.float64))


def constant(x: Array, std: float, size: float) -> bool:
    """Return whether the values vary by no more than rounding.

    `std` and `size` (a typical absolute value) only decide whether the values must be looked at.
    """
    values = x if x.dtype.kind == "f" else x[:0].astype(np.float64)
    if std > NEARLY_CONSTANT * np.finfo(values.dtype).eps * size:
        return False
    values = values if values.size else x.astype(np.float64)
    return bool(is_constant(values[None, :])[0])


def moments(array: Array, name: str = "saliency map") -> Moments:
    """Return mean, population standard deviation and constancy.

    Raises
    ------
    DataError
        A value is missing or infinite.
    """
    x = flat(array)
    if x.dtype == np.uint8:
        return _moments_of_counts(histogram(x))
    exponent = 0
    with np.errstate(invalid="ignore", over="ignore"):
        mean, variance = _plain_moments(x) if x.dtype == np.float64 else (0.0, 0.0)
        # a mean far from 0 eats the digits of the spread: subtract something near it first
        if not variance > mean * mean * FEW_DIGITS_LOST:
            mean, variance = _shifted_moments(x)
    if out_of_range(variance):
        scaled, exponent = rescaled(array, name)
        x = flat(scaled)
        mean, variance = _shifted_moments(x)
    std = float(np.sqrt(max(0.0, variance)))
    return Moments(mean, std, constant(x, std, abs(mean) + std), exponent)


def out_of_range(variance: float) -> bool:
    """Return whether squares overflowed, may have lost digits near 0, or were not finite."""
    return not SMALLEST_SQUARE < variance < np.inf


def rescaled(x: Array, name: str) -> tuple[Array, int]:
    """Return values divided by a power of two, which loses nothing, and its exponent.

    The largest then lies between 1/2 and 1. Values of a smaller type than float64 stay as they
    are: their squares always fit.

    Raises
    ------
    DataError
        A value is missing or infinite.
    """
    largest = float(max(-float(x.min()), float(x.max())))
    if not np.isfinite(largest):
        raise not_finite(name, x)
    exponent = int(np.frexp(largest)[1])
    if x.dtype != np.float64 or largest == 0:
        return x, 0
    return np.ldexp(x, -exponent), exponent


def _moments_of_counts(counts: Any) -> Moments:
    value, n = np.arange(256), int(counts.sum())
    total, squares = int(counts @ value), int(counts @ value**2)
    variance = (n * squares - total * total) / n**2  # whole numbers: exact
    return Moments(total / n, float(np.sqrt(variance)), bool(np.count_nonzero(counts) == 1))


def _plain_moments(x: Array) -> tuple[float, float]:
    # the dot product comes first, since it reads memory fastest; the sums find the piece in the
    # cache, where products with ones are faster than a sum
    total = squares = 0.0
    ones = np.ones(ROW)
    for piece in pieces(x.size, READ):
        part = x[piece]
        squares += float(np.dot(part, part))
        rows = part.size // ROW * ROW
        total += float(np.dot(part[:rows].reshape(-1, ROW), ones).sum()) + float(part[rows:].sum())
    mean = total / x.size
    return mean, squares / x.size - mean * mean


def _shifted_moments(x: Array) -> tuple[float, float]:
    shift = centre(x)
    total = squares = 0.0
    buffer = np.empty(min(PIECE, x.size))
    for piece in pieces(x.size):
        part = buffer[: piece.stop - piece.start]
        np.subtract(x[piece], shift, out=part, dtype=np.float64)
        total += float(part.sum())
        squares += float(np.dot(part, part))
    offset = total / x.size
    return shift + offset, squares / x.size - offset * offset


def joint_sums(a: Array, b: Array) -> Floats:
    """Return sum a, sum b, sum aa, sum bb, sum ab of two maps, each shifted to about its mean."""
    x, y = flat(a), flat(b)
    sums = np.zeros(5)
    with np.errstate(invalid="ignore", over="ignore"):
        shift_x, shift_y = centre(x), centre(y)
        buffers = np.empty((2, min(PIECE, x.size)))
        for piece in pieces(x.size):
            u, v = buffers[:, : piece.stop - piece.start]
            np.subtract(x[piece], shift_x, out=u, dtype=np.float64)
            np.subtract(y[piece], shift_y, out=v, dtype=np.float64)
            sums += (u.sum(), v.sum(), np.dot(u, u), np.dot(v, v), np.dot(u, v))
    return sums


class Mass(NamedTuple):
    """How a map becomes a density: ``(value - low + extra) * scale``; `uniform` for all zeros."""

    low: float
    extra: float
    scale: float
    uniform: bool

    @property
    def plain(self) -> bool:
        """Whether the density is the value times the scale."""
        return not (self.uniform or self.low or self.extra)

    def density(self, part: Array, out: Floats) -> Floats:
        """Write the density of some pixels into `out`."""
        if self.uniform:
            out[...] = self.scale
            return out
        if self.low or self.extra:
            np.subtract(part, self.low, out=out, dtype=np.float64)
            if self.extra:
                out += self.extra
            out *= self.scale
        else:
            np.multiply(part, self.scale, out=out, dtype=np.float64)
        return out


def mass(array: Array, name: str, extra: float = 0.0, stretch: bool = False) -> Mass:
    """Return how a map becomes a density that sums to 1.

    A map with a negative minimum is shifted to minimum 0 (any minimum with `stretch`), `extra`
    is added to every pixel, and a map of zeros becomes uniform.
    """
    x = flat(array)
    with np.errstate(invalid="ignore", over="ignore"):
        low, total = _low_and_sum(x)
        low = low if low < 0 or stretch else 0.0
        if low:
            total = _shifted_sum(x, low)
        total += extra * x.size
    if not np.isfinite(total):
        raise not_finite(name, array)
    if total == 0:
        return Mass(0.0, 0.0, 1.0 / x.size, True)
    with np.errstate(over="ignore"):
        scale = 1.0 / total
    if not np.isfinite(scale):
        raise DataError(
            f"the {name} has too little mass to become a density",
            expected="a sum above 1e-308",
            found=f"{total:g}",
            hint="Multiply the map by a large number first",
        )
    return Mass(low, extra, scale, False)


def _low_and_sum(x: Array) -> tuple[float, float]:
    # both from one reading of the memory
    low, total = np.inf, 0.0
    for piece in pieces(x.size):
        part = x[piece]
        total += float(part.sum(dtype=np.float64))
        low = min(low, float(part.min()))
    return low, total


def _shifted_sum(x: Array, low: float) -> float:
    total, buffer = 0.0, np.empty(min(PIECE, x.size))
    for piece in pieces(x.size):
        part = buffer[: piece.stop - piece.start]
        np.subtract(x[piece], low, out=part, dtype=np.float64)
        total += float(part.sum())
    return total
