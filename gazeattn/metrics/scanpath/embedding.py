"""Time-delay embedding: how near each stretch of one scanpath comes to the other scanpath."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.metrics.scanpath._blocks import (
    Block,
    one_of,
    one_pair,
    over_pairs,
    size_of,
    too_short,
    whole,
)
from gazeattn.metrics.scanpath._packed import Floats, Packed
from gazeattn.metrics.scanpath._places import OUTSIDE, with_outside
from gazeattn.registry import register_metric

__all__ = [
    "scaled_time_delay_embedding",
    "scaled_time_delay_embedding_pairs",
    "stde",
    "tde",
    "time_delay_embedding",
    "time_delay_embedding_pairs",
]

NORMS = ("l2", "l1")
REDUCE = ("mean", "max")


def _nearest_windows(windows: Floats, norm: str, k: int) -> Floats:
    """Return, per window of the second path, the distance to the nearest of the first, over k."""
    least: Floats = windows.min(axis=0)
    if norm == "l2":
        np.sqrt(least, out=least)
    least /= k
    return least


def _over_windows(least: Floats, count: NDArray[np.int64], reduce: str) -> Floats:
    """Return mean or maximum over the first `count` windows of each pair; 0/0 without windows."""
    least[np.arange(len(least))[:, None] >= count] = 0.0
    if reduce == "max":
        highest: Floats = least.max(axis=0)
        return highest
    mean: Floats = least.sum(axis=0) / count
    return mean


def time_delay_embedding_pairs(
    A: Packed,
    B: Packed,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    *,
    k: int = 3,
    norm: str = "l2",
    reduce: str = "mean",
) -> Floats:
    """Return `time_delay_embedding` of many pairs, (n_pairs,)."""
    k = whole("the window k", k)
    one_of("norm", norm, NORMS)
    one_of("reduce", reduce, REDUCE)

    def work(block: Block) -> Floats:
        cells = block.squared() if norm == "l2" else block.distances()
        n, m = len(cells) - k + 1, cells.shape[1] - k + 1
        windows = cells[:n, :m].copy() if k > 1 else cells
        for step in range(1, k):
            windows += cells[step : step + n, step : step + m]
        return _over_windows(_nearest_windows(windows, norm, k), block.nb - (k - 1), reduce)

    return over_pairs(A, B, i, j, work, shortest=k)


def _window_reason(a: ArrayLike, b: ArrayLike, **parameters: object) -> str:
    return too_short(int(parameters.get("k", 3)))(a, b)  # type: ignore[call-overload]


@register_metric(
    "time_delay_embedding",
    aliases=("tde",),
    task="scanpath",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=False,
    description="mean distance of each stretch of k fixations to the nearest one of the other path",
    formula="mean over windows w of b of min over windows v of a of |v - w| / k",
    citation="Wang, Chen, Wang, Wang, Fang & Mei 2011, CVPR, pp. 441-448",
    convention="l2",
    conventions=NORMS,
    kernel=time_delay_embedding_pairs,
    columns=None,
    reason=_window_reason,
)
def time_delay_embedding(
    a: ArrayLike, b: ArrayLike, *, k: int = 3, norm: str = "l2", reduce: str = "mean"
) -> float:
    """Return the time-delay embedding distance (TDE) from the windows of `b` to those of `a`.

    Not symmetric: `a` may hold stretches that `b` has nowhere.

    Parameters
    ----------
    a, b : array_like, shape (n, 2) or (n, 3)
        Pixels; durations are not used.
    k : int
        Consecutive fixations in a window.
    norm : {"l2", "l1"}
        Distance of two windows: the root of the summed squared distances of their fixations
        (FixaTons), or the sum of those distances (HAT).
    reduce : {"mean", "max"}
        Over the windows of `b`; "max" is the directed Hausdorff form.

    Returns
    -------
    float
        0 or more, in pixels; NaN when a scanpath has fewer than `k` fixations.

    References
    ----------
    Wang et al. 2011, Simulating human saccadic scanpaths on natural images, CVPR, pp. 441-448.
    """
    return float(one_pair(time_delay_embedding_pairs, a, b, k=k, norm=norm, reduce=reduce))


@with_outside(*OUTSIDE)
def scaled_time_delay_embedding_pairs(
    A: Packed,
    B: Packed,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    *,
    size: tuple[float, float],
    norm: str = "l2",
    outside: str | None = None,
) -> Floats:
    """Return `scaled_time_delay_embedding` of many pairs, (n_pairs,)."""
    scale = max(size_of(size))
    one_of("norm", norm, NORMS)

    def work(block: Block) -> Floats:
        cells = block.squared() if norm == "l2" else block.distances()
        cells /= scale * scale if norm == "l2" else scale
        common = np.minimum(block.na, block.nb)
        total = np.zeros(len(common))
        windows = cells.copy()
        for k in range(1, int(common.max()) + 1):
            if k > 1:  # windows of k from those of k - 1
                windows = windows[:-1, :-1]
                windows += cells[k - 1 :, k - 1 :]
            # pairs without a window of this length are left out below
            count = np.maximum(block.nb - (k - 1), 1)
            mean = _over_windows(_nearest_windows(windows, norm, k), count, "mean")
            total += np.where(k <= common, np.exp(-mean), 0.0)
        result: Floats = total / common
        return result

    return over_pairs(A, B, i, j, work)


@register_metric(
    "scaled_time_delay_embedding",
    aliases=("stde",),
    task="scanpath",
    bounds=(0.0, 1.0),
    higher_is_better=True,
    symmetric=False,
    description="likeness of stretches of every length, positions scaled by the longer side",
    formula="mean over k = 1..min(n, m) of exp(-TDE_k), x and y divided by max(W, H)",
    citation="Zanca, Serchi, Piu, Rosini & Rufa 2018, arXiv:1802.02534",
    convention="l2",
    conventions=NORMS,
    kernel=scaled_time_delay_embedding_pairs,
    columns=None,
    reason=too_short(1),
    outside=OUTSIDE,
)
def scaled_time_delay_embedding(
    a: ArrayLike,
    b: ArrayLike,
    *,
    size: tuple[float, float],
    norm: str = "l2",
    outside: str | None = None,
) -> float:
    """Return the scaled time-delay embedding similarity (STDE).

    Parameters
    ----------
    a, b : array_like, shape (n, 2) or (n, 3)
        Pixels; durations are not used.
    size : (width, height)
        Of the stimulus in pixels.
    norm : {"l2", "l1"}
        As in `time_delay_embedding`; values differ by up to 0.15.
    outside : str, optional
        Fixations off the stimulus: "keep" (the default) takes them where they are, "clip" moves
        them to the border, "drop" leaves them out, "undefined" gives NaN, "raise" is an error.
        Without a choice there is a warning.

    Returns
    -------
    float
        Above 0, at most 1 (equal paths); NaN when a scanpath is empty. Not symmetric.

    References
    ----------
    Zanca et al. 2018, FixaTons, arXiv:1802.02534.
    """
    kernel = scaled_time_delay_embedding_pairs
    return float(one_pair(kernel, a, b, size=size, norm=norm, outside=outside))


tde = time_delay_embedding
stde = scaled_time_delay_embedding
