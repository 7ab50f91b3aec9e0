"""Attention flow: the maximum flow between tokens in the graph that the layers form."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from gazeattn.errors import CapabilityError, DataError

SCALE = 2**30
"""Capacities are rounded down to multiples of 1 / SCALE, as the solver takes whole numbers."""

ALL_TARGETS = 64
"""Up to this number of tokens the flow from every token is computed."""

SECONDS_PER_EDGE = 3e-7
"""What one edge of one pair's graph costs; measured on one core, deliberately on the high side."""

SECONDS_PER_PAIR = 2e-4


@dataclass
class Flow:
    """Maximum flow from tokens of the top level to tokens of the input.

    Attributes
    ----------
    values : ndarray, shape (n_targets, n_tokens)
        Row i belongs to the token ``targets[i]``; 0 where there is no path.
    targets : list of int
    tolerance : float
        Proven bound of the error: the largest difference between the capacity of the cut that
        is returned and the flow that the rounded capacities carry.
    seconds : float
    """

    values: np.ndarray
    targets: list[int]
    tolerance: float
    seconds: float


def capacities(attention: np.ndarray) -> np.ndarray:
    """Return the capacities of the graph's edges: identity added, rows divided by their sum.

    Parameters
    ----------
    attention : ndarray, shape (n_layers, n_tokens, n_tokens)
        Mean over heads of each layer, ``[layer, query, key]``.
    """
    a = np.asarray(attention, dtype=np.float64)
    if a.ndim != 3 or a.shape[1] != a.shape[2]:
        raise DataError(
            "flow needs one square map per layer",
            expected="(n_layers, n_tokens, n_tokens)",
            found=a.shape,
        )
    if not np.isfinite(a).all() or (a < 0).any():
        raise DataError("attention that is negative or missing cannot be a capacity")
    a = a + np.eye(a.shape[1])
    return a / a.sum(-1, keepdims=True)


def estimate_seconds(n_layers: int, n_tokens: int, targets: Sequence[int], causal: bool) -> float:
    """Estimate how long `max_flow` takes on one core."""
    if causal:  # only tokens between the two lie on a path
        widths = np.concatenate([np.zeros(0), *(np.arange(1.0, t + 2) for t in targets)])
        edges = n_layers * (widths * (widths + 1.0)) / 2
    else:
        edges = np.full(len(targets) * n_tokens, n_layers * float(n_tokens) ** 2)
    return float(SECONDS_PER_EDGE * edges.sum() + SECONDS_PER_PAIR * len(edges))


def check_cost(
    n_layers: int, n_tokens: int, targets: Sequence[int], causal: bool, limit: float
) -> float:
    """Return the estimated seconds, or raise `CapabilityError` where they exceed `limit`."""
    seconds = estimate_seconds(n_layers, n_tokens, targets, causal)
    if seconds > limit:
        raise CapabilityError(
            f"the flow from {len(targets)} of {n_tokens} tokens through {n_layers} layers would "
            f"take about {seconds:.0f} s, the limit is {limit:.0f} s; name fewer target words "
            "(flow_words), use shorter windows (max_tokens) or raise flow_seconds"
        )
    return seconds


def max_flow(graph: np.ndarray, targets: Sequence[int] | None = None) -> Flow:
    """Return the maximum flow from tokens of the top level to every token of the input.

    The graph has one node per token and level; an edge leads from query q of level l + 1 to key
    k of level l and carries at most ``graph[l, q, k]`` (Abnar and Zuidema, 2020, Quantifying
    attention flow in transformers, ACL). The solver works on capacities that are rounded down to
    multiples of 2^-30. The cut that it finds is then added up in double precision, so that the
    value is exact wherever that cut is the smallest one; `Flow.tolerance` bounds the error
    elsewhere.

    Parameters
    ----------
    graph : ndarray, shape (n_layers, n_tokens, n_tokens)
        From `capacities`.
    targets
        Tokens of the top level; all where None.
    """
    start = time.perf_counter()
    graph = np.asarray(graph, dtype=np.float64)
    n_layers, n, _ = graph.shape
    wanted = list(range(n)) if targets is None else [int(t) for t in targets]
    for t in wanted:
        if not 0 <= t < n:
            raise DataError("no such token", expected=f"0 to {n - 1}", found=t)
    causal = not np.triu(graph, 1).any()
    values, gap = np.zeros((len(wanted), n)), 0.0
    if n_layers == 1:
        return Flow(graph[0, wanted], wanted, 0.0, time.perf_counter() - start)
    for i, t in enumerate(wanted):
        for s in range(t + 1 if causal else n):
            part = slice(s, t + 1) if causal else slice(0, n)
            of, to = (t - s, 0) if causal else (t, s)
            values[i, s], here = _pair(graph[:, part, part], of, to)
            gap = max(gap, here)
    return Flow(values, wanted, gap, time.perf_counter() - start)


def _pair(graph: np.ndarray, source: int, sink: int) -> tuple[float, float]:
    """Return the capacity of the smallest cut and by how much it may exceed the flow."""
    n_layers, n, _ = graph.shape
    if n == 1:
        return float(graph.min()), 0.0
    # nodes: the source, the tokens of the levels in between from the top down, the sink
    inner = (n_layers - 1) * n
    last = inner + 1
    level, q, k = np.nonzero(graph)
    top, bottom = level == n_layers - 1, level == 0
    keep = (~top | (q == source)) & (~bottom | (k == sink))
    level, q, k, top, bottom = level[keep], q[keep], k[keep], top[keep], bottom[keep]
    tail = np.where(top, 0, 1 + (n_layers - 2 - level) * n + q)
    head = np.where(bottom, last, 1 + (n_layers - 1 - level) * n + k)
    weight = graph[level, q, k]
    whole = np.floor(weight * SCALE).astype(np.int32)
    matrix = csr_array((whole, (tail, head)), shape=(last + 1, last + 1))
    found = maximum_flow(matrix, 0, last)
    # what can still be reached from the source is its side of the smallest cut
    rest = (matrix - found.flow).astype(np.float64)
    rest.data[rest.data <= 0] = 0
    rest.eliminate_zeros()
    near = np.zeros(last + 1, dtype=bool)
    near[breadth_first_order(rest, 0, return_predecessors=False)] = True
    value = float(weight[near[tail] & ~near[head]].sum())
    return value, value - float(found.flow_value) / SCALE


def normalised(flow: np.ndarray) -> np.ndarray:
    """Divide each row of the flow by its sum."""
    total = flow.sum(-1, keepdims=True)
    return np.divide(flow, total, out=np.full_like(flow, np.nan), where=total > 0)
