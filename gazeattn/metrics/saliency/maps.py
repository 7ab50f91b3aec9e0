"""Maps made of fixations: counts, blurred maps, centre bias.

Sigma is in pixels of the map, or in degrees of visual angle with `pixels_per_degree`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import gaussian_filter

from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.metrics._arrays import as_floats
from gazeattn.metrics._options import one_of, positive, size_of, whole
from gazeattn.metrics.saliency._inputs import (
    Floats,
    Size,
    as_map,
    locate,
    places,
    sizes_of,
)
from gazeattn.metrics.saliency.distribution import to_density

TRUNCATE = 4.0
"""The Gaussian ends at this many sigma, as in `scipy.ndimage.gaussian_filter`."""

NORMALISE = ("none", "sum", "max")


def pixels_per_degree(pixels: float, screen: float, distance: float) -> float:
    """Return how many pixels one degree of visual angle takes at the centre of the screen.

    Parameters
    ----------
    pixels
        Width (or height) of the screen in pixels.
    screen, distance
        The same width and the viewing distance, in one unit.
    """
    pixels, screen = positive("pixels", pixels), positive("screen", screen)
    distance = positive("distance", distance)
    return float(2 * distance * np.tan(np.deg2rad(0.5)) * pixels / screen)


def in_pixels(
    sigma: float | None, sigma_degrees: float | None, pixels_per_degree: float | None
) -> float:
    """Return sigma in pixels from exactly one of the two units.

    Raises
    ------
    DataError
        Both or neither given, degrees without `pixels_per_degree`, or not a positive number.
    """
    if (sigma is None) == (sigma_degrees is None):
        raise DataError(
            "give sigma in pixels or sigma_degrees in degrees, not both and not neither"
        )
    if sigma_degrees is not None:
        if pixels_per_degree is None:
            raise DataError(
                "sigma_degrees needs pixels_per_degree",
                hint="pixels_per_degree(pixels, screen, distance) computes it",
            )
        sigma = positive("sigma_degrees", sigma_degrees) * positive(
            "pixels_per_degree", pixels_per_degree
        )
    elif pixels_per_degree is not None:
        raise DataError("pixels_per_degree belongs to sigma_degrees; sigma is in pixels")
    return positive("sigma", sigma)


def map_shape(size: Size) -> tuple[int, int]:
    """Return (height, width) of a map from its ``(width, height)``, which must be whole."""
    width, height = size_of(size)
    if width != int(width) or height != int(height):
        raise DataError("a map has a whole number of pixels", found=str(size))
    return int(height), int(width)


def count_map(
    fixations: ArrayLike,
    size: Size,
    *,
    map_size: Size | None = None,
    weights: ArrayLike | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> Floats:
    """Return how many fixations fall on each pixel, (height, width).

    Parameters
    ----------
    fixations : array-like, shape (n, 2)
    size : (width, height)
        Of the picture.
    map_size : (width, height), optional
        Of the map, where it shall be another.
    weights : array-like, shape (n,), optional
        What each fixation counts instead of 1, for instance its duration.
    outside, losses
        See `nss`.
    """
    shape = map_shape(size if map_size is None else map_size)
    at, kept = locate(fixations, shape, size=size, outside=outside, losses=losses)
    return (
        np.bincount(
            at, None if weights is None else _weights(weights, kept), minlength=shape[0] * shape[1]
        )
        .reshape(shape)
        .astype(np.float64)
    )


def _weights(weights: ArrayLike, kept: Any) -> Floats:
    values = as_floats(weights, "weights").astype(np.float64)
    if values.shape != kept.shape:
        raise DataError(
            "one weight per fixation is needed", expected=str(kept.shape), found=str(values.shape)
        )
    if not (np.isfinite(values) & (values >= 0)).all():
        raise DataError("weights must be finite and 0 or more")
    return values[kept]


def fixation_map(
    fixations: ArrayLike,
    size: Size,
    *,
    sigma: float | None = None,
    sigma_degrees: float | None = None,
    pixels_per_degree: float | None = None,
    map_size: Size | None = None,
    weights: ArrayLike | None = None,
    normalise: str = "none",
    outside: str = "raise",
    losses: LossLog | None = None,
) -> Floats:
    """Return fixations blurred with a Gaussian, (height, width).

    Parameters
    ----------
    fixations : array-like, shape (n, 2)
    size : (width, height)
        Of the picture.
    sigma : float
        Standard deviation in pixels of the map.
    sigma_degrees, pixels_per_degree : float
        The same in degrees of visual angle, with the pixels of the map per degree.
    map_size, weights, outside, losses
        See `count_map`.
    normalise : {"none", "sum", "max"}
        "none": each fixation has mass 1, less what falls beyond the border. "sum": a density.
        "max": the largest value is 1.

    Returns
    -------
    ndarray of float64
        All zeros without fixations; "sum" and "max" are then refused.

    Notes
    -----
    Equal to ``scipy.ndimage.gaussian_filter(counts, sigma, mode="constant")``. Few fixations are
    laid down directly as products of a row and a column, which is faster.
    """
    one_of("normalisation", normalise, NORMALISE)
    width = in_pixels(sigma, sigma_degrees, pixels_per_degree)
    shape = map_shape(size if map_size is None else map_size)
    at, kept = locate(fixations, shape, size=size, outside=outside, losses=losses)
    mass = np.ones(at.size) if weights is None else _weights(weights, kept)
    blurred = blur(at, mass, shape, width)
    if normalise == "none":
        return blurred
    divisor = float(blurred.sum() if normalise == "sum" else blurred.max())
    if divisor == 0:
        raise DataError("a map without fixations cannot be normalised", found="0 fixations")
    return blurred / divisor


def blur(at: Any, mass: Floats, shape: tuple[int, int], sigma: float) -> Floats:
    """Return the sum of Gaussians of some masses at some pixels."""
    if at.size > min(shape) // 2:
        counts = np.bincount(at, mass, minlength=shape[0] * shape[1]).reshape(shape)
        return gaussian_filter(counts, sigma, mode="constant", truncate=TRUNCATE)
    row, column = np.divmod(at, shape[1])
    down, across = kernel_rows(row, shape[0], sigma), kernel_rows(column, shape[1], sigma)
    return np.asarray((down * mass[:, None]).T @ across)


def kernel_rows(centres: Any, n: int, sigma: float) -> Floats:
    """Return one Gaussian per centre over n pixels, (n_centres, n), cut off and summing to 1."""
    radius = int(TRUNCATE * sigma + 0.5)
    offsets = np.arange(-radius, radius + 1)
    kernel = np.exp(-0.5 * (offsets / sigma) ** 2)
    kernel /= kernel.sum()
    distance = np.arange(n)[None, :] - np.asarray(centres)[:, None] + radius
    inside = (distance >= 0) & (distance < kernel.size)
    return np.where(inside, kernel[np.where(inside, distance, 0)], 0.0)


def fixations_from_map(counts: ArrayLike) -> Floats:
    """Return the fixations of a map of counts or a binary map, (n, 2) x, y.

    A pixel with count 3 gives three fixations; the places are the centres of the pixels.

    Raises
    ------
    DataError
        The map holds other than whole counts: a blurred map is not a list of fixations.
    """
    array = as_map(counts, "map of counts").astype(np.float64)
    if not (np.isfinite(array) & (array >= 0) & (array == np.floor(array))).all():
        raise DataError(
            "only a map of whole counts can be turned into fixations",
            expected="0, 1, 2, ...",
            found="a blurred, negative or missing value",
            hint="Compare a blurred map by cc, sim, kl_div or emd, or cut it at a stated level",
        )
    if array.max() > 1000:
        raise DataError(
            "this looks like a picture, not like a map of counts",
            found=f"a count of {array.max():g}",
        )
    row, column = np.nonzero(array)
    times = array[row, column].astype(np.int64)
    return np.repeat(np.column_stack([column, row]) + 0.5, times, axis=0)


def gaussian_centre(size: Size, *, spread: tuple[float, float] = (0.25, 0.25)) -> Floats:
    """Return a Gaussian at the centre of the picture as a density, (height, width).

    Parameters
    ----------
    size : (width, height)
    spread : (across, down)
        Standard deviations as shares of width and height.
    """
    height, width = map_shape(size)
    x = (np.arange(width) + 0.5) / width - 0.5
    y = (np.arange(height) + 0.5) / height - 0.5
    sx, sy = size_of(spread, "spread")
    across, down = np.exp(-0.5 * (x / sx) ** 2), np.exp(-0.5 * (y / sy) ** 2)
    density = down[:, None] * across[None, :]
    return np.asarray(density / density.sum())


def centre_bias(
    fixations: Sequence[ArrayLike],
    sizes: Size | Sequence[Size],
    size: Size,
    *,
    sigma: float,
    leave_out: int | None = None,
    floor: float = 1e-12,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> Floats:
    """Return where people look whatever the picture: the blurred fixations of many images.

    Parameters
    ----------
    fixations : list of array-like, each (n_i, 2)
        One per image.
    sizes : (width, height) or one per image
        Of the pictures that the fixations refer to.
    size : (width, height)
        Of the result; all fixations are scaled to it.
    sigma : float
        Standard deviation of the Gaussian in pixels of the result.
    leave_out : int, optional
        The image that shall be scored with it; its own fixations must not be in it.
    floor : float
        Added to every pixel before the sum becomes 1, so that no place is impossible.

    Returns
    -------
    ndarray, shape (height, width)
        A density.
    """
    each = sizes_of(sizes, len(fixations))
    if leave_out is not None and whole("leave_out", leave_out, 0) >= len(fixations):
        raise DataError("no such image to leave out", found=str(leave_out))
    shape = map_shape(size)
    found = [
        places(f, shape, size=s, outside=outside, losses=losses)
        for i, (f, s) in enumerate(zip(fixations, each, strict=True))
        if i != leave_out
    ]
    at = np.concatenate([np.zeros(0, dtype=np.intp), *found])
    if at.size == 0:
        raise DataError("a centre bias needs fixations", found="none on the other images")
    blurred = blur(at, np.full(at.size, 1.0 / at.size), shape, in_pixels(sigma, None, None))
    return to_density(blurred, floor=floor)
