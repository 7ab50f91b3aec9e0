"""The units with the highest weights, and how many two rankings share by chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.metrics import _kernels
from gazeattn.metrics._arrays import as_floats


def topk_chance(n: int, k: int | None = None, share: float | None = None) -> float:
    """Return the expected top-k overlap of two unrelated rankings of `n` units: ``k / n``.

    NaN if `k` is larger than `n`.
    """
    k = _kernels.resolve_k(n, k, share)
    return k / n if 0 < k <= n else float("nan")


def topk_indices(values: ArrayLike, k: int | None = None, share: float | None = None) -> np.ndarray:
    """Return the indices of the `k` highest values in ascending order, ties by lower index.

    NaN is never among them. With fewer than `k` scored values the result is empty.
    """
    x = as_floats(values, "profile").astype(np.float64)
    scored = np.flatnonzero(~np.isnan(x))
    k = _kernels.resolve_k(len(scored), k, share)
    if k > len(scored):
        return np.empty(0, dtype=np.intp)
    place = _kernels.positions(x[scored][None, :])[0]
    return scored[place < k]
