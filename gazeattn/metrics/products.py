"""Matrix products of the sizes that comparisons have: many, and each of them small."""

from __future__ import annotations

import math

import numpy as np

ONE_THREAD = 1 << 18
"""Multiplications below which BLAS libraries stay in one thread."""


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ``a @ b`` of two matrices, in pieces so small that each stays in one thread.

    A comparison multiplies thousands of small matrices. Threads that wait for each other at every
    one of them cost several times what they save, above all where other programs need the cores.

    Parameters
    ----------
    a : ndarray, shape (m, k)
    b : ndarray, shape (k, n)
    """
    (m, k), n = a.shape, b.shape[1]
    if m * n * k < ONE_THREAD:
        return np.asarray(a @ b)
    side = max(2, math.isqrt((ONE_THREAD - 1) // max(1, k)))  # one row would be another routine
    wide = min(n, max(side, (ONE_THREAD - 1) // max(1, k * m)))
    high = min(m, max(side, (ONE_THREAD - 1) // max(1, k * wide)))
    out = np.empty((m, n), dtype=np.result_type(a, b))
    for j in range(0, n, wide):
        for i in range(0, m, high):
            out[i : i + high, j : j + wide] = a[i : i + high] @ b[:, j : j + wide]
    return out
