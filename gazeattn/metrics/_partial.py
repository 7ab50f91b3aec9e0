"""Correlations with covariates held fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError
from gazeattn.metrics import _kernels
from gazeattn.metrics._arrays import Floats, as_floats, is_constant, row_groups, same_length
from gazeattn.metrics._options import choice

METHODS = ("spearman", "pearson")
Covariates = ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike]


def design(covariates: Covariates, n: int) -> Floats:
    """Return covariates as rows, shape (n_covariates, n), or raise a `DataError`."""
    if isinstance(covariates, Mapping):
        covariates = list(covariates.values())
    z = as_floats(covariates, "covariates", (1, 2)).astype(np.float64)  # type: ignore[arg-type]
    z = np.atleast_2d(z) if z.size else np.empty((0, n))
    if z.shape[1] != n:
        raise DataError(
            "each covariate needs one value per unit",
            expected=f"shape (n_covariates, {n})",
            found=f"shape {z.shape}",
        )
    return z


def _basis(z: Floats) -> Floats:
    """Return an orthonormal basis (n, rank) of the intercept and the covariates (rows of z)."""
    n = z.shape[1]
    columns = [np.full(n, 1 / np.sqrt(n))]
    varying = z[~is_constant(z)]  # a constant covariate is the intercept again
    if len(varying):
        # each column at unit length: the rank must not depend on the units of the covariates
        columns += list(_kernels.unit_rows(varying, True))
    u, s, _ = np.linalg.svd(np.column_stack(columns), full_matrices=False)
    return np.asarray(u[:, s > s[0] * max(n, len(columns)) * np.finfo(np.float64).eps])


def _residuals(x: NDArray[np.floating], basis: Floats, rank: bool) -> Floats:
    """Take the span of `basis` out of each row; rows that vanish in it become NaN.

    Rows come out of centring with length 1, so that what is left of them is a share.
    """
    flat = is_constant(x)
    rounding = max(1e-10, 0.0 if rank else 32 * float(np.finfo(x.dtype).eps))
    values = x.astype(np.float64)
    left = _kernels.unit_rows(_kernels.average_ranks(values) if rank else values, True)
    for _ in range(2):  # the second pass takes out what rounding left over
        left = left - (left @ basis) @ basis.T
    with np.errstate(invalid="ignore"):
        vanished = np.sqrt((left**2).sum(axis=1)) <= rounding
    left[vanished | flat] = np.nan
    return left


def partial_parts(
    x: NDArray[np.floating], y: NDArray[np.floating], z: Floats, method: str
) -> tuple[Floats, Floats, Floats] | None:
    """Return residuals of both sides and the basis, or None with too few degrees of freedom."""
    choice("method", method, METHODS)
    if x.shape[1] < 3:
        return None
    rank = method == "spearman"
    if rank and len(z):
        z = np.where(is_constant(z)[:, None], 0.0, _kernels.average_ranks(z))
    basis = _basis(z)
    if x.shape[1] - basis.shape[1] < 2:
        return None
    return _residuals(x, basis, rank), _residuals(y, basis, rank), basis


def partial(
    a: ArrayLike, b: ArrayLike, covariates: Covariates, *, method: str = "spearman"
) -> float:
    """Return the correlation of `a` and `b` with the covariates held fixed.

    Both sides (and, for ``"spearman"``, the covariates) are ranked, regressed on all covariates
    with an intercept by least squares, and the residuals are correlated.

    Parameters
    ----------
    a, b : array-like, shape (n_units,)
    covariates : array-like, shape (n_units,) or (n_covariates, n_units), or a mapping of names
        Units that miss a covariate are left out. Constant and collinear covariates change
        nothing.
    method : {"spearman", "pearson"}

    Returns
    -------
    float
        In [-1, 1]; NaN where a side is constant or explained by the covariates without rest, or
        with fewer than two degrees of freedom beside the intercept and the covariates.

    References
    ----------
    Fisher (1924), Metron 3, 329-332; Conover (1999), Practical Nonparametric Statistics.
    """
    x = as_floats(a, "first profile")
    return float(partial_batched(x[None, :], b, covariates, method=method)[0])


def partial_batched(
    A: ArrayLike, b: ArrayLike, covariates: Covariates, *, method: str = "spearman"
) -> Floats:
    """Return `partial` for each row of `A`, shape (n_profiles, n_units)."""
    choice("method", method, METHODS)
    x, y = as_floats(A, "profiles", (2,)), as_floats(b, "reference")
    same_length(x, y)
    z = design(covariates, x.shape[1])
    out = np.full(len(x), np.nan)
    lost = np.isnan(y) | np.isnan(z).any(axis=0)
    for rows, missing in row_groups(np.isnan(x)):
        keep = ~(missing | lost)
        parts = partial_parts(x[rows][:, keep], y[None, keep], z[:, keep], method)
        if parts is not None and len(rows):
            out[rows] = _kernels.cosine(parts[0], parts[1])[:, 0]
    return out


def partial_undefined_reason(
    a: ArrayLike, b: ArrayLike, covariates: Covariates, *, method: str = "spearman"
) -> str:
    """Say why `partial` is undefined for two profiles; empty where it is defined."""
    if not np.isnan(partial(a, b, covariates, method=method)):
        return ""
    x, y = as_floats(a, "first profile"), as_floats(b, "reference")
    z = design(covariates, len(x))
    keep = ~(np.isnan(x) | np.isnan(y) | np.isnan(z).any(axis=0))
    for side, v in (("model", x[keep]), ("human", y[keep])):
        if keep.any() and is_constant(v[None])[0]:
            return f"the {side} profile is constant"
    parts = partial_parts(x[None, keep], y[None, keep], z[:, keep], method)
    if parts is None:
        return f"{int(keep.sum())} units are too few for {len(z)} covariates"
    for side, r in (("model", parts[0]), ("human", parts[1])):
        if np.isnan(r).any():
            return f"the covariates explain the {side} profile without rest"
    return "undefined for these values"
