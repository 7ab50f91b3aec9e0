"""Effective attention: attention without the part that cannot change a head's output."""

from __future__ import annotations

import torch

from gazeattn.errors import CapabilityError
from gazeattn.lm._method import (
    Method,
    MethodResult,
    Run,
    conventions,
    excluded,
    finished,
    mean,
    stack,
)
from gazeattn.lm._plan import Plan, Rows
from gazeattn.lm._reduce import Received
from gazeattn.registry import register_attention

BOUND = 1e-6
"""Singular values of the values below this share of the largest count as 0."""


def solve(grams: torch.Tensor, outputs: torch.Tensor, bound: float = BOUND) -> torch.Tensor:
    """Return ``G^+ o`` for positive semidefinite matrices, shape (..., d, n).

    Parameters
    ----------
    grams : Tensor, shape (..., d, d), float64
    outputs : Tensor, shape (..., d, n), float64
    bound
        Relative bound of the singular values of V, where ``G = V^T V``.
    """
    factor, info = torch.linalg.cholesky_ex(grams)
    diagonal = factor.diagonal(dim1=-2, dim2=-1)
    # the pivots say how near to singular; the doubtful ones are done by their eigenvalues
    safe = (info == 0) & (diagonal.amin(-1) > 1e3 * bound * diagonal.amax(-1))
    if bool(safe.all()):
        return torch.cholesky_solve(outputs, factor)
    result = torch.empty_like(outputs)
    if bool(safe.any()):
        result[safe] = torch.cholesky_solve(outputs[safe], factor[safe])
    value, vector = torch.linalg.eigh(grams[~safe])
    there = value > (bound**2) * value.amax(-1, keepdim=True).clamp_min(1e-300)
    inverse = torch.where(there, 1 / value.clamp_min(1e-300), 0.0)
    result[~safe] = vector @ (inverse[..., None] * (vector.mT @ outputs[~safe]))
    return result


def effective(
    attention: torch.Tensor, values: torch.Tensor, start: int = 0, causal: bool = False
) -> torch.Tensor:
    """Return the part of attention rows that is orthogonal to the left null space of the values.

    ``A V V^+``; the output ``A V`` is unchanged (Brunner et al., 2020, On identifiability in
    transformers, ICLR). It is computed as ``v_s . (V^T V)^+ (A V)``, without a map of the
    projector. In a causal model the row of token t is projected within the tokens up to t, so
    that no weight comes to stand on tokens that it cannot see; rows with no more tokens than
    independent values are then unchanged.

    Parameters
    ----------
    attention : Tensor, shape (heads, rows, keys)
    values : Tensor, shape (kv_heads, keys, d)
    start
        Token of the first row (causal only).
    causal

    Returns
    -------
    Tensor, shape (heads, rows, keys), float64
    """
    a, v = attention.double(), values.double()
    shared = len(a) // len(v)
    n_rows, n_keys, d = a.shape[1], a.shape[2], v.shape[-1]
    result = torch.empty_like(a)
    for g in range(len(v)):
        mine = slice(g * shared, (g + 1) * shared)
        out = a[mine] @ v[g]  # heads, rows, d
        if not causal:
            gram = v[g].T @ v[g]
            y = solve(gram[None], out.reshape(-1, d).T[None])[0].T
            result[mine] = y.reshape(shared, n_rows, d) @ v[g].T
            continue
        gram = v[g, :start].T @ v[g, :start]
        new = v[g, start : start + n_rows]
        grams = gram + (new[:, :, None] * new[:, None, :]).cumsum(0)
        y = solve(grams, out.permute(1, 2, 0).contiguous()).permute(2, 0, 1)
        later = torch.arange(n_keys, device=a.device) > start + torch.arange(
            n_rows, device=a.device
        ).unsqueeze(1)
        result[mine] = (y @ v[g].T).masked_fill(later, 0.0)
    return result


class _EffectiveObserver:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.values: torch.Tensor | None = None
        self.part: Received | None = None
        self.scores: dict[int, torch.Tensor] = {}
        self.lost: dict[int, dict[str, torch.Tensor]] = {}
        self.removed: dict[int, float] = {}
        self._sum = [0.0, 0.0]

    def begin(
        self, layer: int, values: torch.Tensor | None, projection: torch.Tensor | None
    ) -> None:
        """Start a layer."""
        self.part = None
        if values is None:
            raise CapabilityError("effective_attention needs the values of every attention module")
        self.values, self._sum = values, [0.0, 0.0]

    def rows(self, attention: torch.Tensor, rows: Rows, scratch: torch.Tensor) -> None:
        """Take a block of rows."""
        plan = self.plan
        assert self.values is not None
        if self.part is None:
            self.part = Received(plan, len(attention), False)
        if not plan.has_queries(rows):
            return
        if rows.visible is not None:
            raise CapabilityError(
                "effective_attention is defined for causal and for full attention, and this model "
                "has windows or other patterns"
            )
        values = self.values[:, : rows.keys]
        block = effective(attention, values, rows.start, rows.causal)
        self._sum[0] += float((attention.double() - block).square().sum())
        self._sum[1] += float(attention.double().square().sum())
        block = block.float()
        own = None
        if not plan.options.include_self:
            other = (~plan.same_word(rows)).float()
            own = (block * (1 - other)).sum(-1)
            block = block * other
        self.part.add(block, rows, own)

    def end(self, layer: int) -> None:
        """Finish the layer."""
        if self.part is None:
            return
        self.scores[layer] = self.part.words().cpu()
        self.lost[layer] = {k: v.cpu() for k, v in self.part.lost().items()}
        self.removed[layer] = (self._sum[0] / max(self._sum[1], 1e-300)) ** 0.5


@register_attention(
    "effective_attention",
    description="Attention without the part that cannot change the head's output",
    citation="Brunner et al. (2020), On identifiability in transformers, ICLR",
    family="attention",
)
class EffectiveAttention(Method):
    """``A V V^+`` of every head, received like raw attention; may be negative."""

    needs_projection = True

    def observer(self, plan: Plan) -> _EffectiveObserver:
        """Return what projects the rows."""
        return _EffectiveObserver(plan)

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        seen, heads = run.own["effective_attention"], run.plan.options.heads
        assert isinstance(seen, _EffectiveObserver)
        kept = run.words.layers
        scores = {k: v for k, v in seen.scores.items() if kept is None or k in kept}
        stacked = stack(scores, heads)
        how = conventions(
            run,
            scores,
            direction="received by the word",
            aggregate="mean over layers and heads",
            null_space="left null space of the head's values, of the tokens that the row can see",
            bound=BOUND,
        )
        how["renormalise"] = False  # rows have negative parts and no longer add up to 1
        lost = excluded(run, {k: seen.lost[k] for k in scores}, heads)
        lost["removed"] = {k: seen.removed[k] for k in scores}
        return finished(run, mean(stacked, (0, 1)), stacked, how, lost, mean(stacked, 1))
