"""Checked arrays, pairwise deletion and the meaning of "constant", shared by all metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

CONSTANT_TOLERANCE = 8.0
"""Spread below this many machine epsilons of the largest value is rounding, not variation."""

EVERY = tuple(range(65))
"""Any number of dimensions, for `as_floats`."""

BLOCK_ELEMENTS = 1 << 17
"""Elements of a temporary in element-wise kernels: 1 MiB, so that it stays in the cache."""


class Paired(NamedTuple):
    """Two profiles over the units that both of them score.

    Attributes
    ----------
    a, b : ndarray, shape (n,)
        Values in the original order.
    n : int
        Units with a score on both sides.
    n_missing : int
        Units left out since at least one side has no score.
    """

    a: Floats
    b: Floats
    n: int
    n_missing: int


def plain(values: Any, name: str) -> Any:
    """Return tensors as numpy arrays; whatever else is given stays as it is.

    A tensor is cut from its gradient and copied to the memory of the processor. bfloat16, which
    numpy lacks, becomes float32, which holds the same numbers. Lists of tensors are joined.

    Raises
    ------
    DataError
        A tensor without plain numbers in memory: sparse, quantised, or on the meta device.
    """
    if isinstance(values, list | tuple):
        if any(hasattr(v, "detach") or isinstance(v, list | tuple) for v in values):
            return [plain(v, name) for v in values]
        return values
    if not (hasattr(values, "detach") and hasattr(values, "cpu")):
        return values
    try:
        tensor = values.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":
            tensor = tensor.float()
        return tensor.resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:  # NotImplementedError is a RuntimeError
        raise DataError(
            f"{name} cannot be read from this tensor",
            expected="a dense tensor of numbers in the memory of a device",
            found=f"{getattr(values, 'layout', '')} {values.dtype} on {values.device}".strip(),
            hint=str(error).splitlines()[0],
        ) from None


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Return whatever can be an array as one; masked values are NaN.

    Raises
    ------
    DataError
        Rows of unequal lengths, or a tensor that `plain` refuses.
    """
    if isinstance(values, np.ma.MaskedArray):
        # masked is missing, whatever number lies below the mask
        return np.ma.filled(values.astype(np.float64), np.nan)
    try:
        return np.asarray(plain(values, name))
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{name} must be a rectangular array", expected="rows of one length", found=str(error)
        ) from None


def in_numbers(values: Any, array: NDArray[Any], name: str) -> NDArray[np.float64]:
    """Return an array as float64, or raise a `DataError` where it does not hold real numbers."""
    if array.dtype.kind in "cmM":
        kind = "complex numbers" if array.dtype.kind == "c" else f"times ({array.dtype})"
        raise DataError(f"{name} must hold real numbers", expected="real numbers", found=kind)
    try:
        if array.dtype == object and hasattr(values, "to_numpy"):
            # nullable pandas columns turn pd.NA into NaN only when asked
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        with np.errstate(over="ignore"):  # long doubles
            return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{name} must hold numbers", expected="real numbers", found=str(error)
        ) from None


def as_floats(values: ArrayLike, name: str, ndim: tuple[int, ...] = (1,)) -> NDArray[np.floating]:
    """Return `values` as a float array of an allowed number of dimensions.

    float32 stays float32, since the tolerance of `is_constant` depends on the precision that the
    numbers were computed in. Everything else becomes float64.

    Raises
    ------
    DataError
        The values are not real numbers, or the number of dimensions is wrong.
    """
    array = as_array(values, name)
    if array.dtype not in (np.float32, np.float64):
        array = in_numbers(values, array, name)
    if array.ndim not in ndim:
        raise DataError(
            f"{name} has the wrong number of dimensions",
            expected=" or ".join(map(str, ndim)),
            found=f"shape {array.shape}",
        )
    return array


def same_length(a: NDArray[np.floating], b: NDArray[np.floating]) -> None:
    """Raise a `DataError` unless the last axes of both arrays have equal lengths."""
    if a.shape[-1] != b.shape[-1]:
        raise DataError(
            "both profiles need one value per unit",
            expected=f"{b.shape[-1]} units (second argument)",
            found=f"{a.shape[-1]} units (first argument)",
            hint="Bring both profiles to the same units first.",
        )


def paired(a: ArrayLike, b: ArrayLike) -> Paired:
    """Drop the units for which either profile is NaN.

    Parameters
    ----------
    a, b : array-like, shape (n_units,)

    Returns
    -------
    Paired
        ``(a, b, n, n_missing)``.

    Raises
    ------
    DataError
        The profiles are not one-dimensional, not numeric or of different lengths.
    """
    x, y = as_floats(a, "first profile"), as_floats(b, "second profile")
    same_length(x, y)
    keep = ~(np.isnan(x) | np.isnan(y))
    n = int(keep.sum())
    return Paired(x[keep].astype(np.float64), y[keep].astype(np.float64), n, int(keep.size - n))


def is_constant(values: NDArray[np.floating]) -> Mask:
    """Return for each row (last axis) whether it does not vary beyond rounding.

    Uniform profiles often come out of a division and differ in the last bit; their ranks would be
    noise. Rows without any value count as constant.
    """
    if values.shape[-1] == 0:
        return np.ones(values.shape[:-1], dtype=bool)
    high, low = values.max(axis=-1), values.min(axis=-1)
    size = np.maximum(np.abs(high), np.abs(low))
    with np.errstate(invalid="ignore", over="ignore"):
        # halves, so that the spread of the largest finite numbers does not overflow
        spread = high / 2 - low / 2
        limit = CONSTANT_TOLERANCE * np.finfo(values.dtype).eps * (size / 2)
    return np.asarray((high == low) | (np.isfinite(size) & (spread <= limit)))


def row_groups(missing: Mask) -> list[tuple[NDArray[np.intp], Mask]]:
    """Group the rows of a missing-value mask by their pattern.

    Returns
    -------
    list of (rows, missing)
        Row numbers that share a pattern, and the pattern.
    """
    if not missing.any():
        return [(np.arange(len(missing)), np.zeros(missing.shape[1], dtype=bool))]
    patterns, inverse = np.unique(missing, axis=0, return_inverse=True)
    inverse = inverse.ravel()
    return [(np.flatnonzero(inverse == i), p) for i, p in enumerate(patterns)]


def blocks(n_a: int, n_b: int, n_units: int) -> Iterator[tuple[slice, slice]]:
    """Cut an (n_a, n_b, n_units) computation into pieces of about `BLOCK_ELEMENTS`."""
    step_b = max(1, min(n_b, BLOCK_ELEMENTS // max(1, n_units)))
    step_a = max(1, BLOCK_ELEMENTS // max(1, n_units * step_b))
    for i in range(0, n_a, step_a):
        for j in range(0, n_b, step_b):
            yield slice(i, i + step_a), slice(j, j + step_b)
