"""Bootstrap intervals for averages over trials that share readers and texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.metrics._arrays import as_floats, row_groups
from gazeattn.metrics._options import generator as generator_of
from gazeattn.metrics._options import labels as labels_of
from gazeattn.metrics._options import share, whole, wrong
from gazeattn.metrics.products import product

FEW_LEVELS = 5


@dataclass(frozen=True)
class BootstrapResult:
    """An average with its interval.

    Attributes
    ----------
    value, low, high : ndarray, shape (n_rows,), or float for one row
    n_items : ndarray of int or int
        Values in the average (the others are NaN).
    n_levels : dict
        Factor to number of levels among the values of the first row.
    notes : tuple of str
        Factors that could not be resampled, and the like.
    """

    value: Any
    low: Any
    high: Any
    n_items: Any
    n_levels: dict[str, int]
    notes: tuple[str, ...]


def clustered_bootstrap(
    values: ArrayLike,
    clusters: Mapping[str, Sequence[Any] | np.ndarray],
    n: int = 2000,
    rng: np.random.Generator | int | None = None,
    level: float = 0.95,
    weights: ArrayLike | None = None,
) -> BootstrapResult:
    """Return averages with percentile intervals from a crossed bootstrap.

    The levels of every factor (readers, texts) are drawn with replacement, independently of the
    other factors; an item's weight in a draw is the product of how often its levels were drawn
    (the pigeonhole bootstrap). A factor with fewer than two levels cannot be resampled: it is
    held fixed, and a note says so. If that holds for all factors the interval is NaN.

    Parameters
    ----------
    values : array-like, shape (n_items,) or (n_rows, n_items)
        One value per trial; rows are e.g. heads. NaN is left out of its row.
    clusters : mapping of str to sequence, each of shape (n_items,)
        Label of each item for every factor, e.g. ``{"reader": ..., "text": ...}``.
    n : int
        Draws.
    rng : Generator or int, optional
        Intervals of a row do not depend on the other rows.
    level : float
        Coverage aimed at.
    weights : array-like, shape (n_items,), optional
        Weight of each item in the average; equal if not given.

    Returns
    -------
    BootstrapResult

    References
    ----------
    Owen (2007), Annals of Applied Statistics 1, 386-411; Davison and Hinkley (1997), Bootstrap
    Methods and their Application.
    """
    given = as_floats(values, "values", (1, 2)).astype(np.float64)
    x = np.atleast_2d(given)
    m = x.shape[1]
    level, n = share("level", level), whole("n", n)
    if not isinstance(clusters, Mapping) or not clusters:
        raise wrong("clusters", "a factor or more, each a name with one label per item", clusters)
    base = np.ones(m) if weights is None else as_floats(weights, "weights").astype(np.float64)
    if base.shape != (m,) or not (np.isfinite(base) & (base >= 0)).all():
        raise DataError("one weight of at least 0 per item is needed", expected=m, found=base.shape)
    labels = {}
    for name, given_labels in clusters.items():
        column = labels_of(f"clusters[{name!r}]", given_labels)
        if column.shape != (m,):
            raise DataError(
                f"cluster {name!r} needs one label per item", expected=m, found=column.shape
            )
        labels[name] = column
    seed = int(generator_of(rng).integers(2**63))
    value, low, high = (np.full(len(x), np.nan) for _ in range(3))
    count = np.zeros(len(x), dtype=int)
    notes: list[str] = []
    levels_first: dict[str, int] = {}
    tails = [(1 - level) / 2, (1 + level) / 2]
    for rows, missing in row_groups(np.isnan(x)):
        keep = ~missing & (base > 0)
        codes = {k: np.unique(v[keep], return_inverse=True)[1].ravel() for k, v in labels.items()}
        n_levels = {k: int(c.max(initial=-1)) + 1 for k, c in codes.items()}
        if 0 in rows:
            levels_first = n_levels
        count[rows] = keep.sum()
        if not keep.any():
            continue
        item = base[keep]
        kept = x[rows][:, keep]
        value[rows] = kept @ item / item.sum()
        generator = np.random.default_rng(seed)
        draw = np.broadcast_to(item, (n, len(item)))
        free = 0
        for name, code in codes.items():
            k = n_levels[name]
            if k < 2:
                notes.append(f"{name}: one level, held fixed; the interval ignores its variation")
                continue
            if k < FEW_LEVELS:
                notes.append(f"{name}: {k} levels only, the interval is rough")
            free += 1
            times = generator.multinomial(k, np.full(k, 1 / k), size=n)
            draw = draw * times[:, code]
        if free == 0:
            notes.append("no factor has two levels: no interval")
            continue
        total = draw.sum(axis=1)
        used = total > 0  # crossed factors with gaps can draw no item at all
        if not used.all():
            notes.append(f"{int((~used).sum())} of {n} draws held no item and were left out")
        if not used.any():
            continue
        means = product(draw[used], kept.T) / total[used, None]
        low[rows], high[rows] = np.quantile(means, tails, axis=0)
    unique = tuple(dict.fromkeys(notes))
    if given.ndim == 1:
        return BootstrapResult(
            float(value[0]), float(low[0]), float(high[0]), int(count[0]), levels_first, unique
        )
    return BootstrapResult(value, low, high, count, levels_first, unique)
