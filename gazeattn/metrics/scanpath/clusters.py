"""Clusters of the human fixations of an image: the alphabet of the sequence score."""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError
from gazeattn.metrics._arrays import EVERY, as_floats
from gazeattn.metrics._options import items, positive, share, size_of, wrong
from gazeattn.metrics.scanpath._mean_shift import estimate_bandwidth, mean_shift
from gazeattn.metrics.scanpath._packed import Floats, Whole, as_path
from gazeattn.storage import atomic_path

FACTORS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Multiples of the estimated bandwidth that `fit_clusters` tries, after Yang et al. (2020)."""

FACTORS_NARROW = (0.2, 0.5, 0.8, 1.0, 1.2, 1.5, 1.8)
"""Multiples that later work tries instead, e.g. Chen et al. (2024)."""

ASPECT_TOLERANCE = 0.01
"""Sizes are whole pixels, so that the ratio of the sides changes a little when scaled."""

_FORMAT = "gazeattn-clusters/1"
_BLOCK = 1 << 17  # distances at once: 1 MiB


@dataclass(frozen=True, eq=False)
class Clusters:
    """Cluster centres of one image, in the pixels of a stated image size.

    Attributes
    ----------
    centers : ndarray, shape (n_clusters, 2), float64
        x, y in pixels of `size`, the largest cluster first where they were fitted here.
    size : tuple of float
        Width and height of the image that the centres belong to.
    bandwidth : float
        Of the mean shift, in pixels; NaN where unknown.
    rate : float
        (transitions between clusters - transitions within one) / clusters; NaN where unknown.
    n_fixations, n_left_out : int
        Fixations that were clustered, and those outside the image that were not.
    recipe : str
        How the bandwidth was chosen.

    Raises
    ------
    DataError
        No centre, a centre that is not finite, or a size that is not positive.
    """

    centers: Floats
    size: tuple[float, float]
    bandwidth: float = float("nan")
    rate: float = float("nan")
    n_fixations: int = 0
    n_left_out: int = 0
    recipe: str = "given"

    def __post_init__(self) -> None:
        centers = np.array(as_floats(self.centers, "centers", EVERY), dtype=np.float64)
        if centers.ndim != 2 or centers.shape[1:] != (2,) or len(centers) == 0:
            raise DataError(
                "cluster centres have the wrong shape",
                expected="(n_clusters, 2) with x, y, one cluster or more",
                found=str(centers.shape),
            )
        if not np.isfinite(centers).all():
            raise DataError("a cluster centre is not finite", found=str(centers.tolist()))
        centers.setflags(write=False)
        object.__setattr__(self, "centers", centers)
        object.__setattr__(self, "size", as_size(self.size))

    def __len__(self) -> int:
        return len(self.centers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Clusters) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits of centres and size; scores of different clusters do not compare."""
        content = np.append(self.centers.ravel(), self.size).astype("<f8").tobytes()
        return hashlib.sha256(content).hexdigest()[:12]

    @property
    def convention(self) -> str:
        """One line that names these clusters, for result tables."""
        width, height = self.size
        return (
            f"{len(self)} clusters {self.fingerprint} at {width:g} x {height:g}, "
            f"bandwidth {self.bandwidth:.4g}, {self.recipe}"
        )

    def assign(self, points: ArrayLike, *, size: tuple[float, float]) -> Whole:
        """Return the nearest centre of each point; of equally near ones the first.

        Parameters
        ----------
        points : array-like, shape (n, 2) or (n, 3)
            x, y (and durations, unused). Points outside the image go to the nearest centre too.
        size : (width, height)
            Of the image that the points belong to; they are scaled to the size of the clusters.

        Returns
        -------
        ndarray, shape (n,), int64

        Raises
        ------
        DataError
            The sides of the two sizes have different ratios.
        """
        path = as_path(points)
        return self.nearest(path[:, 0], path[:, 1], size)

    def nearest(self, x: Floats, y: Floats, size: tuple[float, float]) -> Whole:
        """Return `assign` for coordinates of any shape, without checks of the coordinates."""
        across, down = scale_factors(size, self.size, "clusters")
        flat_x, flat_y = (x * across).ravel(), (y * down).ravel()
        out = np.empty(flat_x.size, dtype=np.int64)
        step = max(1, _BLOCK // len(self))
        for at in range(0, flat_x.size, step):
            part = slice(at, at + step)
            distance = (flat_x[part, None] - self.centers[:, 0]) ** 2
            distance += (flat_y[part, None] - self.centers[:, 1]) ** 2
            out[part] = distance.argmin(axis=1)
        return out.reshape(x.shape)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the clusters of one image to an npz file; see `save_clusters`."""
        save_clusters({"": self}, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Clusters:
        """Read the clusters of one image from an npz file.

        Raises
        ------
        DataError
            Not such a file, or one with several images.
        """
        found = load_clusters(path)
        if len(found) != 1:
            raise DataError(
                "the file holds the clusters of several images",
                source=os.fspath(path),
                expected="one image",
                found=len(found),
                hint="Read all of them with load_clusters",
            )
        return next(iter(found.values()))


def as_size(size: Sequence[float]) -> tuple[float, float]:
    """Return a checked (width, height)."""
    return size_of(size)


def scale_factors(size: Sequence[float], target: Sequence[float], what: str) -> tuple[float, float]:
    """Return the factors from pixels of `size` to those of `target`; refuse another shape."""
    (width, height), (to_width, to_height) = as_size(size), as_size(target)
    across, down = to_width / width, to_height / height
    if abs(across / down - 1) > ASPECT_TOLERANCE:
        raise DataError(
            f"the {what} belong to an image of another shape",
            expected=f"the ratio of {to_width:g} x {to_height:g}",
            found=f"{width:g} x {height:g}",
            hint="Bring the fixations to that image first (padding, cropping or stretching)",
        )
    return across, down


def fit_clusters(
    paths: Sequence[ArrayLike],
    *,
    size: tuple[float, float],
    bandwidth: float | None = None,
    factors: Sequence[float] = FACTORS,
    quantile: float = 0.3,
) -> Clusters:
    """Cluster the human fixations of an image by mean shift.

    Without a bandwidth, multiples of an estimate (the mean distance to the farthest of the
    nearest share `quantile` of fixations) are tried, and the one with the highest rate is kept:
    steps of the scanpaths from one cluster to another less those within one, over the number of
    clusters; of equal rates the first.

    Parameters
    ----------
    paths : sequence of array-like, each (n, 2) or (n, 3)
        The scanpaths of all people on the image.
    size : (width, height)
        Of the image, in the pixels of the fixations. Fixations outside it are not clustered, and
        are counted.
    bandwidth : float, optional
        In pixels.
    factors : sequence of float
        Multiples of the estimate to try.
    quantile : float
        In (0, 1].

    Returns
    -------
    Clusters

    Raises
    ------
    DataError
        No fixation inside the image, a bandwidth that is not positive, or too few different
        fixations to estimate one.

    References
    ----------
    Comaniciu and Meer (2002), IEEE PAMI 24; Borji et al. (2013), ICCV; Yang et al. (2020), CVPR.
    """
    size, quantile = as_size(size), share("quantile", quantile, one=True)
    tried, given = _positive(factors), items("paths", paths, "one array per scanpath")
    arrays = [as_path(p, f"scanpath {n}")[:, :2] for n, p in enumerate(given)]
    points = np.concatenate([np.zeros((0, 2)), *arrays])
    inside = ((points >= 0) & (points < np.array(size))).all(axis=1)
    kept = points[inside]
    left_out = int(len(points) - len(kept))
    if len(kept) == 0:
        raise DataError(
            "no fixation lies inside the image, so there is nothing to cluster",
            expected=f"0 <= x < {size[0]:g}, 0 <= y < {size[1]:g}",
            found=f"{len(points)} fixations, all outside" if len(points) else "no fixations",
        )
    options: dict[str, Any] = {"n_fixations": len(kept), "n_left_out": left_out}
    if bandwidth is not None:
        bandwidth = positive("bandwidth", bandwidth)
        found = _mean_shift(kept, size, bandwidth, {**options, "recipe": "fixed bandwidth"})
        return _with_rate(found, arrays)
    options["recipe"] = (
        f"highest rate of {'/'.join(f'{f:g}' for f in tried)} times the estimate, "
        f"quantile {quantile:g}"
    )
    if (kept == kept[0]).all():  # one place: one cluster, whatever the bandwidth
        return _with_rate(Clusters(kept[:1], size, **options), arrays)
    estimate = _estimate(kept, quantile)
    candidates = [
        _with_rate(_mean_shift(kept, size, factor * estimate, options), arrays) for factor in tried
    ]
    return max(candidates, key=lambda c: c.rate if np.isfinite(c.rate) else -np.inf)


def _positive(factors: Sequence[float]) -> list[float]:
    expected = "positive numbers, one or more"
    values = [positive("factors", f) for f in items("factors", factors, expected)]
    if not values:
        raise wrong("factors", expected, factors)
    return values


def _estimate(points: Floats, quantile: float) -> float:
    estimate = estimate_bandwidth(points, quantile)
    if not estimate > 0:
        raise DataError(
            "too few different fixations to estimate a bandwidth",
            expected="neighbours at another place within the quantile",
            found=f"{len(points)} fixations at {len(np.unique(points, axis=0))} places",
            hint="State the bandwidth in pixels",
        )
    return estimate


def _mean_shift(
    points: Floats, size: tuple[float, float], bandwidth: float, options: dict[str, Any]
) -> Clusters:
    return Clusters(mean_shift(points, bandwidth), size, bandwidth=bandwidth, **options)


def _with_rate(clusters: Clusters, paths: Sequence[Floats]) -> Clusters:
    between = within = 0
    for path in paths:
        labels = clusters.nearest(path[:, 0], path[:, 1], clusters.size)
        same = int((labels[1:] == labels[:-1]).sum())
        within += same
        between += max(0, len(labels) - 1) - same
    rate = (between - within) / len(clusters) if between + within else float("nan")
    values = {f: getattr(clusters, f) for f in clusters.__dataclass_fields__}
    return Clusters(**{**values, "rate": rate})


# -- files ----------------------------------------------------------------------------------------


def save_clusters(clusters: Mapping[str, Clusters], path: str | os.PathLike[str]) -> None:
    """Write the clusters of images, by name, to one npz file without pickled objects.

    Raises
    ------
    DataError
        Nothing to write.
    """
    if not clusters:
        raise DataError("there are no clusters to write", source=os.fspath(path))
    items = list(clusters.values())
    with atomic_path(path) as part, open(part, "wb") as file:
        np.savez_compressed(
            file,
            format=np.array(_FORMAT),
            name=np.array([str(n) for n in clusters]),
            count=np.array([len(c) for c in items], dtype=np.int64),
            centers=np.concatenate([c.centers for c in items]),
            size=np.array([c.size for c in items], dtype=np.float64),
            bandwidth=np.array([c.bandwidth for c in items], dtype=np.float64),
            rate=np.array([c.rate for c in items], dtype=np.float64),
            n_fixations=np.array([c.n_fixations for c in items], dtype=np.int64),
            n_left_out=np.array([c.n_left_out for c in items], dtype=np.int64),
            recipe=np.array([c.recipe for c in items]),
        )


def load_clusters(path: str | os.PathLike[str]) -> dict[str, Clusters]:
    """Read what `save_clusters` wrote: clusters by the name of their image.

    Raises
    ------
    DataError
        Another kind of file, a damaged one, or one with pickled objects (never opened).
    """
    source = os.fspath(path)
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            raise ValueError("a single array without the size of its image")
        with content as file:
            data: dict[str, NDArray[Any]] = {k: file[k] for k in file.files}
    except FileNotFoundError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, KeyError) as error:
        raise DataError(
            "not a file of clusters", source=source, expected=_FORMAT, found=str(error)
        ) from None
    if str(data.get("format", "")) != _FORMAT:
        raise DataError(
            "not a file of clusters", source=source, expected=_FORMAT, found=sorted(data)
        )
    try:
        ends = np.cumsum(data["count"])
        if len(ends) == 0 or ends[-1] != len(data["centers"]) or (data["count"] < 1).any():
            raise DataError(
                "the counts of centres do not match the centres",
                source=source,
                expected=int(data["count"].sum()),
                found=len(data["centers"]),
            )
        return {
            str(name): Clusters(
                data["centers"][ends[k] - data["count"][k] : ends[k]],
                tuple(data["size"][k]),
                bandwidth=float(data["bandwidth"][k]),
                rate=float(data["rate"][k]),
                n_fixations=int(data["n_fixations"][k]),
                n_left_out=int(data["n_left_out"][k]),
                recipe=str(data["recipe"][k]),
            )
            for k, name in enumerate(data["name"])
        }
    except (KeyError, IndexError, TypeError) as error:
        raise DataError("the file of clusters lacks a part", source=source, found=error) from None
