"""The gold standard: how well people predict people, by kernel density estimation.

The density of an image is a mixture of Gaussians at the fixations and a small uniform share. The
bandwidth is the one with which the fixations of all but one subject best predict that subject's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.metrics._arrays import as_floats
from gazeattn.metrics._options import as_number, wrong
from gazeattn.metrics.saliency._inputs import Floats, Size, locate, sizes_of
from gazeattn.metrics.saliency.maps import map_shape


@dataclass(frozen=True)
class GoldStandard:
    """A density of human fixations and how it was found.

    Attributes
    ----------
    density : ndarray, shape (height, width)
        Of all subjects, sum 1.
    bandwidth : float
        Standard deviation of the Gaussians, in pixels.
    uniform : float
        Share of the uniform density in the mixture.
    log_likelihood : float
        Mean natural log density of a fixation, predicted from the other subjects (leave one
        subject out). An estimate of what a model can reach.
    information_gain : float
        The same in bits above the uniform density.
    per_subject : dict
        Subject -> mean log-likelihood of its fixations.
    at_edge : bool
        The best bandwidth is the smallest or largest that was tried: try more.
    """

    density: Floats
    bandwidth: float
    uniform: float
    log_likelihood: float
    information_gain: float
    per_subject: dict[str, float]
    at_edge: bool


@dataclass(frozen=True)
class _Image:
    x: NDArray[np.int64]
    y: NDArray[np.int64]
    subject: NDArray[np.int64]
    names: list[str]
    shape: tuple[int, int]


def _image(
    fixations: ArrayLike, subjects: ArrayLike, size: Size, outside: str, losses: LossLog | None
) -> _Image:
    shape = map_shape(size)
    at, kept = locate(fixations, shape, outside=outside, losses=losses)
    labels = np.asarray([str(s) for s in np.asarray(subjects, dtype=object).tolist()])
    if labels.shape != kept.shape:
        raise DataError(
            "one subject per fixation is needed", expected=str(kept.shape), found=str(labels.shape)
        )
    y, x = np.divmod(at, shape[1])
    names, number = np.unique(labels[kept], return_inverse=True)
    if len(names) < 2:
        raise DataError(
            "leaving one subject out needs two subjects with fixations", found=str(len(names))
        )
    return _Image(x, y, number, names.tolist(), shape)


def _inside(centres: NDArray[np.int64], n: int, sigma: float) -> Floats:
    """Return the mass that a Gaussian at each centre has on pixels 0..n-1, without its factor."""
    reach = np.exp(-0.5 * (np.arange(n) / sigma) ** 2)
    upto = np.cumsum(reach)
    return np.asarray(upto[centres] + upto[n - 1 - centres] - 1.0)


def held_out(image: _Image, sigma: float, uniform: float) -> Floats:
    """Return the log density of each fixation, predicted from the other subjects' fixations."""
    away = (image.x[:, None] - image.x) ** 2 + (image.y[:, None] - image.y) ** 2
    height, width = image.shape
    # a Gaussian keeps all of its mass on the picture, so that densities sum to 1
    total = _inside(image.x, width, sigma) * _inside(image.y, height, sigma)
    weight = np.exp(-0.5 * away / sigma**2) / total
    other = image.subject[:, None] != image.subject
    density = (weight * other).sum(axis=1) / other.sum(axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log((1 - uniform) * density + uniform / (height * width)))


def default_bandwidths(size: Size) -> Floats:
    """Return 16 bandwidths from 0.5 % to 25 % of the width, in equal ratios."""
    return np.geomspace(0.005, 0.25, 16) * float(size[0])


def cross_validated_bandwidth(
    fixations: Sequence[ArrayLike],
    subjects: Sequence[ArrayLike],
    sizes: Size | Sequence[Size],
    *,
    bandwidths: ArrayLike | None = None,
    uniform: float = 0.01,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> tuple[float, Floats]:
    """Return the bandwidth in pixels that serves many images best, leaving one subject out.

    Parameters
    ----------
    fixations, subjects : lists, one per image
        Fixations (n_i, 2) and who made each of them.
    sizes : (width, height) or one per image
    bandwidths : array-like, optional
        What to try; `default_bandwidths` of the first picture without it.
    uniform : float
        Share of the uniform density, in [0, 1).

    Returns
    -------
    bandwidth : float
    log_likelihood : ndarray, shape (n_bandwidths,)
        Mean over all fixations of all images.
    """
    each = sizes_of(sizes, len(fixations))
    if not len(each) == len(fixations) == len(subjects):
        raise DataError(
            "fixations, subjects and sizes need one item per image",
            found=f"{len(fixations)}, {len(subjects)}, {len(each)}",
        )
    if not each:
        raise DataError("no images")
    images = [
        _image(f, s, z, outside, losses) for f, s, z in zip(fixations, subjects, each, strict=True)
    ]
    widths = _checked(bandwidths, each[0], uniform)
    scores = [np.concatenate([held_out(i, h, uniform) for i in images]).mean() for h in widths]
    return float(widths[int(np.argmax(scores))]), np.array(scores)


def _checked(bandwidths: ArrayLike | None, size: Size, uniform: float) -> Floats:
    if not 0 <= as_number(uniform) < 1:
        raise wrong("uniform, the share of the uniform density,", "a number in [0, 1)", uniform)
    given = default_bandwidths(size) if bandwidths is None else bandwidths
    widths = np.sort(np.atleast_1d(as_floats(given, "bandwidths", (0, 1))).astype(np.float64))
    if widths.ndim != 1 or widths.size == 0 or not ((widths > 0) & (widths < np.inf)).all():
        raise DataError("bandwidths must be positive numbers", found=str(widths))
    return widths


def gold_standard(
    fixations: ArrayLike,
    subjects: ArrayLike,
    size: Size,
    *,
    bandwidths: ArrayLike | None = None,
    uniform: float = 0.01,
    outside: str = "raise",
    losses: LossLog | None = None,
) -> GoldStandard:
    """Return the density of one image's fixations with a cross-validated bandwidth.

    Parameters
    ----------
    fixations : array-like, shape (n, 2)
    subjects : sequence of n labels
        Who made each fixation; a subject never predicts itself.
    size : (width, height)
    bandwidths, uniform, outside, losses
        See `cross_validated_bandwidth`.

    Raises
    ------
    DataError
        Fewer than two subjects with fixations.

    References
    ----------
    Kuemmerer, Wallis, Bethge (2015), PNAS 112(52), 16054-16059.
    """
    image = _image(fixations, subjects, size, outside, losses)
    widths = _checked(bandwidths, size, uniform)
    scores = [held_out(image, h, uniform) for h in widths]
    best = int(np.argmax([s.mean() for s in scores]))
    sigma, logs = float(widths[best]), scores[best]
    height, width = image.shape
    down = np.exp(-0.5 * ((np.arange(height) - image.y[:, None]) / sigma) ** 2)
    across = np.exp(-0.5 * ((np.arange(width) - image.x[:, None]) / sigma) ** 2)
    down /= down.sum(axis=1, keepdims=True)
    across /= across.sum(axis=1, keepdims=True)
    density = (1 - uniform) * (down.T @ across) / image.x.size + uniform / (height * width)
    mean = float(logs.mean())
    return GoldStandard(
        density=density,
        bandwidth=sigma,
        uniform=uniform,
        log_likelihood=mean,
        information_gain=float((mean + np.log(height * width)) / np.log(2)),
        per_subject={n: float(logs[image.subject == i].mean()) for i, n in enumerate(image.names)},
        at_edge=bool(widths.size > 1 and best in (0, widths.size - 1)),
    )
