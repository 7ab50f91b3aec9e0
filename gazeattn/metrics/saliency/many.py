"""One metric over many images, with the work that images share done once.

Images without fixations, and other undefined values, stay NaN, do not enter the mean, and are
counted with a reason. Each value is that of the single function.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.metrics._arrays import plain
from gazeattn.metrics._options import one_of, wrong
from gazeattn.metrics.saliency import _kernels as kernels
from gazeattn.metrics.saliency._inputs import (
    OUTSIDE,
    Array,
    Floats,
    Places,
    Size,
    as_map,
    as_points,
    places,
    sizes_of,
    warn_constant,
)
from gazeattn.metrics.saliency._kernels import mean_or_nan
from gazeattn.metrics.saliency._passes import flat
from gazeattn.metrics.saliency._ranks import below_and_level
from gazeattn.metrics.saliency.conventions import checked_options, find_metric, undefined_reason
from gazeattn.metrics.saliency.conventions import convention as convention_of


@dataclass(frozen=True)
class Scores:
    """The values of a metric over images.

    Attributes
    ----------
    metric : str
    values : ndarray, shape (n_images,)
        NaN where undefined.
    n_fixations : ndarray, shape (n_images,)
        Fixations that were used; 0 for metrics between maps.
    convention : str
        One line that names the convention.
    losses : LossLog
        Images without a value and why; fixations left out or moved; constant maps.
    """

    metric: str
    values: Floats
    n_fixations: np.ndarray
    convention: str
    losses: LossLog = field(default_factory=LossLog)

    @property
    def mean(self) -> float:
        """Mean over the images that have a value; NaN without one."""
        return mean_or_nan(self.values[~np.isnan(self.values)])

    @property
    def mean_per_fixation(self) -> float:
        """Mean in which every fixation counts the same, not every image."""
        keep = ~np.isnan(self.values) & (self.n_fixations > 0)
        if not keep.any():
            return float("nan")
        with np.errstate(invalid="ignore"):  # infinite values of both signs have no mean
            return float(np.average(self.values[keep], weights=self.n_fixations[keep]))

    @property
    def n_scored(self) -> int:
        """Images with a value."""
        return int((~np.isnan(self.values)).sum())

    @property
    def n_left_out(self) -> int:
        """Images without a value."""
        return int(np.isnan(self.values).sum())

    def __str__(self) -> str:
        text = f"{self.metric} {self.mean:.4f} over {self.n_scored} images"
        return text + (f", {self.n_left_out} left out" if self.n_left_out else "")


def score_many(
    metric: str,
    maps: Sequence[ArrayLike],
    others: Sequence[ArrayLike],
    *,
    sizes: Size | Sequence[Size] | None = None,
    outside: str = "raise",
    **params: Any,
) -> Scores:
    """Return a metric for many images.

    Parameters
    ----------
    metric : str
        Name of a saliency metric.
    maps : sequence of array-like
        One saliency map per image; (n_steps, height, width) for conditional metrics.
    others : sequence of array-like
        Fixations (n, 2) per image, or the reference maps.
    sizes : (width, height) or one per image, optional
        Sizes of the pictures, where maps have another.
    outside : {"raise", "drop", "clip"}
        See `nss`.
    **params
        Of the metric, the same for all images. "shuffled_auc" takes the fixations of all the
        other images as negatives, unless `other_fixations` are given. `baseline` of
        "information_gain" may be one density or a list of them.

    Returns
    -------
    Scores
    """
    entry = find_metric(metric)
    one_of("treatment of fixations outside", outside, OUTSIDE)
    maps, others = _items(maps, "maps"), _items(others, "fixations or reference maps")
    if len(maps) != len(others):
        raise DataError(
            "one item per map is needed", expected=f"{len(maps)}", found=f"{len(others)}"
        )
    for taken, instead in (("size", "sizes="), ("losses", "the losses of the result")):
        if taken in params:
            raise DataError(f"score_many has no {taken}", expected=instead, found=f"{taken}=")
    checked_options(metric, params)
    shown = {k: v for k, v in params.items() if k not in ("baseline", "other_fixations")}
    line = convention_of(metric, **shown)
    run = _Run(metric, maps, others, sizes_of(sizes, len(maps)), outside)
    if entry.info.get("inputs") == "map":
        values = np.array([entry.obj(m, o, **params) for m, o in zip(maps, others, strict=True)])
    elif metric == "shuffled_auc" and "other_fixations" not in params:
        values = run.shuffled(**params)
    elif metric in ("nss", "auc"):
        values = run.at_fixations(metric, params)
    else:
        values = run.one_by_one(entry.obj, params)
    _explain(run, values, params)
    return Scores(metric, values.astype(np.float64), run.n, line, run.losses)


def _items(items: Any, name: str) -> list[Any]:
    """Return one entry per image."""
    items = items if isinstance(items, list | tuple) else plain(items, name)
    if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping):
        raise wrong(name, "a list with one entry per image", items)
    if getattr(items, "ndim", 1) == 0:
        raise wrong(name, "a list with one entry per image", items)
    return list(items)


class _Run:
    """One pass over images; counts fixations, losses and constant maps on the way."""

    def __init__(
        self,
        metric: str,
        maps: list[ArrayLike],
        others: list[ArrayLike],
        sizes: list[Any],
        outside: str,
    ) -> None:
        self.metric, self.maps, self.others, self.sizes = metric, maps, others, sizes
        self.outside, self.losses = outside, LossLog()
        self.n = np.zeros(len(maps), dtype=np.int64)
        self.constant: list[int] = []

    def map(self, i: int) -> Array:
        return as_map(self.maps[i], f"saliency map {i}")

    def places(self, i: int, shape: tuple[int, ...], count: bool = True) -> Places:
        losses = self.losses if count else LossLog()
        name, size = f"fixations of image {i}", self.sizes[i]
        if size is None and np.shape(self.maps[i]) != shape:
            # on the map of another image: x and y refer to the picture of this one
            size = np.shape(self.maps[i])[::-1]
        return places(
            self.others[i],
            shape,
            size=size,
            outside=self.outside,
            losses=losses,
            name=name,
        )

    def keep(self, i: int, values: Floats, constant: bool) -> float:
        if constant and values.size:
            self.constant.append(i)
        return mean_or_nan(values)

    def at_fixations(self, metric: str, params: dict[str, Any]) -> Floats:
        """NSS and AUC: the kernels on maps, without a warning for each constant map."""
        option = params.get("convention", "pysaliency") if metric == "nss" else "all"
        option = params.get("negatives", option)
        kernel = kernels.nss_values if metric == "nss" else kernels.auc_values
        found = np.full(len(self.maps), np.nan)
        for i in range(len(self.maps)):
            array = self.map(i)
            at = self.places(i, array.shape)
            self.n[i] = at.size
            if at.size:
                found[i] = self.keep(i, *kernel(array, at, option))
        return found

    def shuffled(self) -> Floats:
        """The pool of all fixations is put on the maps once per map shape."""
        pools: dict[tuple[int, ...], tuple[Places, list[Places]]] = {}
        found = np.full(len(self.maps), np.nan)
        for i in range(len(self.maps)):
            array = self.map(i)
            if array.shape not in pools:
                each = [self.places(k, array.shape, not pools) for k in range(len(self.others))]
                # in the order of memory, which a look-up in a large map runs through faster
                pools[array.shape] = np.sort(np.concatenate(each)), each
            pool, each = pools[array.shape]
            x, own = flat(array), each[i]
            self.n[i] = own.size
            n = pool.size - own.size
            if own.size == 0 or n == 0:
                continue
            positives = x[own]
            below, level = below_and_level(x[pool], positives)
            fewer, same = below_and_level(positives, positives)
            level = level - same
            values = kernels.auc_from_counts(below - fewer, level, n)
            flat_map = bool((level == n).all()) and bool(x.min() == x.max())
            found[i] = self.keep(i, values, flat_map)
        return found

    def one_by_one(self, function: Callable[..., float], params: dict[str, Any]) -> Floats:
        """Every other metric with fixations: the single function for each image."""
        found = np.full(len(self.maps), np.nan)
        baseline = params.get("baseline")
        several = _one_per_image(baseline)
        if several and len(baseline) != len(self.maps):  # type: ignore[arg-type]
            raise DataError(
                "one baseline per image is needed",
                expected=f"{len(self.maps)}",
                found=f"{len(baseline)}",  # type: ignore[arg-type]
            )
        for i in range(len(self.maps)):
            own = {**params, "size": self.sizes[i], "outside": self.outside}
            if several:
                own["baseline"] = baseline[i]  # type: ignore[index]
            log = LossLog()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found[i] = function(self.maps[i], self.others[i], losses=log, **own)
            if any("is constant" in str(w.message) for w in caught):
                self.constant.append(i)
            self.losses.extend(log)
            self.n[i] = len(as_points(self.others[i])) - log.count(kind="dropped")
        return found


def _one_per_image(baseline: Any) -> bool:
    return isinstance(baseline, list | tuple) or getattr(baseline, "ndim", 0) > 2


def _explain(run: _Run, values: Floats, params: dict[str, Any]) -> None:
    """Count images without a value by reason, and constant maps, with one warning."""
    reasons: dict[str, list[int]] = {}
    on_fixations = find_metric(run.metric).info.get("inputs") != "map"
    for i in np.flatnonzero(np.isnan(values)):
        own = dict(params)
        if on_fixations:
            own |= {"size": run.sizes[i], "outside": run.outside, "losses": LossLog()}
        if _one_per_image(params.get("baseline")):
            own["baseline"] = params["baseline"][i]
        reason = undefined_reason(run.metric, run.maps[i], run.others[i], **own)
        if not reason and run.metric == "shuffled_auc":
            reason = "no fixations on other images"
        reasons.setdefault(reason or "undefined", []).append(int(i))
    for reason, which in reasons.items():
        run.losses.add(run.metric, "undefined", reason, len(which), "images", which)
    if run.constant:
        n = len(run.constant)
        run.losses.add(run.metric, "note", "constant map, chance", n, "images", run.constant)
        value = "0" if run.metric in ("nss", "cnss") else "0.5"
        warn_constant(f"{run.metric}, {n} of {len(values)} images", value, 4)
