"""Measures on attention maps that are already in memory.

The functions take a whole map, NumPy array or torch tensor, and give back the same kind. They
define what the streaming code computes without ever holding such a map; use them on small maps,
on maps of other tools, and as the reference in tests.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import torch

from gazeattn.errors import DataError, UnknownNameError

Array = TypeVar("Array", np.ndarray, torch.Tensor)


def _as_tensor(attention: Array, axes: int) -> torch.Tensor:
    a = torch.as_tensor(attention)
    if not a.is_floating_point():
        a = a.to(torch.float64)
    if a.ndim < axes or a.shape[-1] != a.shape[-2]:
        raise DataError(
            "an attention map needs one row and one column per token",
            expected=f"{axes} or more axes, the last two equal",
            found=f"shape {tuple(a.shape)}",
        )
    return a


def _like(result: torch.Tensor, attention: Array) -> Array:
    return result if isinstance(attention, torch.Tensor) else result.numpy()  # type: ignore[return-value]


def rollout(attention: Array, residual: bool = True, heads: str = "mean") -> Array:
    """Return attention rollout for every layer.

    Heads are merged, the identity is added for the residual connection, rows are divided by
    their sum, and the layers are multiplied from the first one up: ``R_l = A_l R_(l-1)``.

    Parameters
    ----------
    attention : array, shape (n_layers, n_heads, n_tokens, n_tokens)
        Rows are queries.
    residual
        Add the identity and normalise the rows again; without it the maps are multiplied as
        they are.
    heads : {"mean", "max"}
        How the heads of a layer are merged.

    Returns
    -------
    array, shape (n_layers, n_tokens, n_tokens)
        Entry ``l`` is the rollout up to and including layer ``l``.

    Notes
    -----
    Abnar and Zuidema (2020), Quantifying attention flow in transformers, ACL.
    """
    a = _as_tensor(attention, 4)
    if heads not in ("mean", "max"):
        raise UnknownNameError("way to merge heads", heads, ("mean", "max"))
    merged = a.mean(1) if heads == "mean" else a.amax(1)
    if residual:
        merged = merged + torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
        merged = merged / merged.sum(-1, keepdim=True)
    result = torch.empty_like(merged)
    for layer in range(len(merged)):
        result[layer] = merged[layer] @ result[layer - 1] if layer else merged[layer]
    return _like(result, attention)


def received(attention: Array, causal: str = "sum") -> Array:
    """Return the attention that each token receives: column sums of the map.

    Parameters
    ----------
    attention : array, shape (..., n_tokens, n_tokens)
    causal : {"sum", "mean", "visible_mean"}
        ``"sum"``: plain column sums. ``"mean"``: divided by the number of queries.
        ``"visible_mean"``: divided by the number of queries that can see the key in a causal
        model, which is the number of tokens from the key to the end.

    Returns
    -------
    array, shape (..., n_tokens)
    """
    a = _as_tensor(attention, 2)
    n = a.shape[-1]
    total = a.sum(-2)
    if causal == "mean":
        total = total / n
    elif causal == "visible_mean":
        total = total / torch.arange(n, 0, -1, dtype=a.dtype, device=a.device)
    elif causal != "sum":
        raise UnknownNameError("causal rule", causal, ("sum", "mean", "visible_mean"))
    return _like(total, attention)


def entropy(attention: Array, normalised: bool = False, base: float | None = None) -> Array:
    """Return the entropy of each query's attention over the keys.

    Parameters
    ----------
    attention : array, shape (..., n_tokens, n_tokens)
        Rows sum to 1. ``0 ln 0`` counts as 0.
    normalised
        Divide by ``ln n_tokens``, so that 1 is uniform attention. Undefined (NaN) for a single
        token.
    base
        Base of the logarithm; nats where it is None. Not used with `normalised`.

    Returns
    -------
    array, shape (..., n_tokens)
    """
    a = _as_tensor(attention, 2)
    result = torch.special.entr(a).sum(-1)
    n = a.shape[-1]
    if normalised:
        result = result / np.log(n) if n > 1 else torch.full_like(result, torch.nan)
    elif base is not None:
        result = result / np.log(base)
    return _like(result, attention)


def mean_distance(attention: Array) -> Array:
    """Return the mean distance, in tokens, between each query and what it attends to.

    Parameters
    ----------
    attention : array, shape (..., n_tokens, n_tokens)

    Returns
    -------
    array, shape (..., n_tokens)
        ``sum_k a[q, k] |q - k|``.
    """
    a = _as_tensor(attention, 2)
    at = torch.arange(a.shape[-1], dtype=a.dtype, device=a.device)
    return _like((a * (at[:, None] - at[None, :]).abs()).sum(-1), attention)
