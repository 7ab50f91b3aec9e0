"""Attention methods that are defined on whole maps of tokens x tokens: flow and TokenTM."""

from __future__ import annotations

import math

import numpy as np
import torch

from gazeattn.errors import CapabilityError, DataError
from gazeattn.lm._method import Method, MethodResult, Run, conventions, excluded, finished, stack
from gazeattn.lm._plan import Plan, Rows
from gazeattn.lm._reduce import Received, RolloutState
from gazeattn.lm.flow import ALL_TARGETS, capacities, check_cost, max_flow
from gazeattn.registry import register_attention


def received(
    plan: Plan, rows_of_map: torch.Tensor, rows: Rows, part: Received, own_excluded: bool
) -> None:
    """Add rows (1, rows, keys) of a finished map to what every word receives."""
    own = None
    if own_excluded:
        other = (~plan.same_word(rows)).float()
        own = (rows_of_map * (1 - other)).sum(-1)
        rows_of_map = rows_of_map * other
    part.add(rows_of_map, rows, own)


class _FlowObserver:
    """Keeps the mean over heads of every layer."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        words = plan.options.flow_words
        if words is None and plan.n_tokens > ALL_TARGETS:
            raise CapabilityError(
                f"attention flow from all of {plan.n_tokens} tokens is more than it is meant for "
                f"(up to {ALL_TARGETS}); name the words that it starts from (flow_words) or use "
                f"shorter windows (max_tokens={ALL_TARGETS})"
            )
        wanted = plan.is_word.clone()
        if words is not None:
            for word in words:
                if not 0 <= word < plan.n_words:
                    raise DataError("no such word", expected=f"0 to {plan.n_words - 1}", found=word)
            wanted &= torch.isin(plan.word_of, torch.tensor(words, device=plan.device))
        self.targets = torch.nonzero(wanted).flatten().tolist()
        self.maps: list[torch.Tensor] = []
        self.lower = True

    def begin(
        self, layer: int, values: torch.Tensor | None, projection: torch.Tensor | None
    ) -> None:
        """Start a layer; the cost of the graph so far is checked before it grows."""
        n = self.plan.n_tokens
        limit = self.plan.options.flow_seconds
        check_cost(layer + 1, n, self.targets, self.lower, limit)
        self.maps.append(torch.zeros(n, n))

    def rows(self, attention: torch.Tensor, rows: Rows, scratch: torch.Tensor) -> None:
        """Take a block of rows."""
        self.lower = self.lower and rows.lower
        self.maps[-1][rows.start : rows.stop, : rows.keys] = attention.mean(0).cpu()

    def end(self, layer: int) -> None:
        """Finish the layer."""


@register_attention(
    "flow",
    description="Attention flow: maximum flow from each word down to the input words",
    citation="Abnar and Zuidema (2020), Quantifying attention flow in transformers, ACL",
    family="attention",
)
class AttentionFlow(Method):
    """Exact maximum flow over the graph of all layers, received like raw attention."""

    def observer(self, plan: Plan) -> _FlowObserver:
        """Return what keeps the maps."""
        return _FlowObserver(plan)

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        seen, plan = run.own["flow"], run.plan
        assert isinstance(seen, _FlowObserver)
        estimate = check_cost(
            len(seen.maps), plan.n_tokens, seen.targets, seen.lower, plan.options.flow_seconds
        )
        found = max_flow(
            capacities(np.stack([m.numpy() for m in seen.maps]).astype(np.float64)), seen.targets
        )
        whole = torch.zeros(plan.n_tokens, plan.n_tokens)
        whole[found.targets] = torch.from_numpy(found.values).float()
        whole = whole.to(plan.device)
        weight = torch.zeros_like(plan.query_weight)
        weight[found.targets] = plan.query_weight[found.targets]
        part = Received(plan, 1, plan.options.renormalise, query_weight=weight)
        rows = Rows(0, plan.n_tokens, plan.n_tokens, seen.lower, seen.lower)
        received(plan, whole[None], rows, part, not plan.options.include_self)
        last = len(seen.maps) - 1
        how = conventions(
            run,
            {last: torch.zeros(1, plan.n_words)},
            direction="received by the word",
            aggregate=f"maximum flow from layer {last} to the input",
            heads="mean of all",
            residual="identity added, rows normalised",
            layers_used="all",
            targets="all words" if plan.options.flow_words is None else plan.options.flow_words,
            tolerance=found.tolerance,
            estimated_seconds=estimate,
        )
        lost = excluded(run, {last: part.lost()}, None)
        return finished(run, part.words()[0].cpu().numpy(), None, how, lost)


class _Transformed(RolloutState):
    """Rollout with the change of every token's length and direction as weight of its column."""

    def __init__(self, n_tokens: int, device: torch.device) -> None:
        super().__init__(n_tokens, device)
        self.weights = torch.ones(1, n_tokens, device=device)
        self.lengths = torch.ones(n_tokens, device=device)

    def mixed(self, attention: torch.Tensor, rows: Rows) -> torch.Tensor:
        """Return mean_h(A_h W_h) + I."""
        k = attention.shape[-1]
        a = (attention * self.weights[:, None, :k]).mean(0)
        at = torch.arange(len(a), device=a.device)
        a[at, rows.start + at] += 1.0
        return a

    def begin(self, factor: torch.Tensor) -> torch.Tensor:
        """Multiply with the diagonal of token lengths."""
        return factor * self.lengths[: factor.shape[1]]


def transformation_weights(
    hidden: torch.Tensor, values: torch.Tensor, projection: torch.Tensor
) -> torch.Tensor:
    """Return how much each head changes each token, shape (heads, n_tokens).

    ``|x~| / |x| * n exp(cos(x~, x)) / sum exp(cos)`` with x the input of the attention module
    and x~ the head's value after the output projection.

    Parameters
    ----------
    hidden : Tensor, shape (n_tokens, hidden)
    values : Tensor, shape (kv_heads, n_tokens, d)
    projection : Tensor, shape (heads, d, hidden)
    """
    x, values, projection = hidden.float(), values.float(), projection.float()
    n_heads, group = len(projection), len(projection) // len(values)
    length = x.norm(dim=-1).clamp_min(1e-12)
    out = torch.empty(n_heads, len(x), device=x.device)
    for h in range(n_heads):
        moved = values[h // group] @ projection[h]
        size = moved.norm(dim=-1)
        cosine = (moved * x).sum(-1) / (size.clamp_min(1e-12) * length)
        out[h] = size / length * len(x) * torch.softmax(cosine, 0)
    return out


class _TokenObserver:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.state = _Transformed(plan.n_tokens, plan.device)
        self.hidden: torch.Tensor | None = None
        self.part: Received | None = None
        self.scores: dict[int, torch.Tensor] = {}
        self.lost: dict[int, dict[str, torch.Tensor]] = {}
        self.log_scale = 0.0

    def take_input(self, hidden: torch.Tensor) -> None:
        """Take the input of the attention module."""
        self.hidden = hidden

    def begin(
        self, layer: int, values: torch.Tensor | None, projection: torch.Tensor | None
    ) -> None:
        """Start a layer."""
        if self.hidden is None or values is None or projection is None:
            raise CapabilityError("token_tm needs the values and inputs of every attention module")
        if self.state.first:
            self.state.lengths = self.hidden.float().norm(dim=-1)
        self.state.weights = transformation_weights(self.hidden, values, projection)
        self.part = Received(self.plan, 1, self.plan.options.renormalise)

    def rows(self, attention: torch.Tensor, rows: Rows, scratch: torch.Tensor) -> None:
        """Take a block of rows."""
        assert self.part is not None
        new = self.state.rows(attention, rows)
        if self.plan.has_queries(rows):
            received(self.plan, new, rows, self.part, not self.plan.options.include_self)

    def end(self, layer: int) -> None:
        """Finish the layer; the map is scaled down, as it grows with every layer."""
        assert self.part is not None
        self.state.end()
        self.scores[layer], self.lost[layer] = self.part.words().cpu(), self.part.lost()
        self.scores[layer] *= math.exp(self.log_scale) if not self.part.renormalise else 1.0
        top = float(self.state.map.max())
        if top > 0:
            self.state.map /= top
            self.log_scale += math.log(top)


@register_attention(
    "token_tm",
    description="Rollout weighted by how each token's length and direction change (TokenTM)",
    citation="Wu et al. (2024), Token transformation matters, CVPR",
    family="attention",
)
class TokenTM(Method):
    """``C_l = (mean_h A_h W_h + I) C_(l-1)``, C_0 the token lengths; the last layer's rows."""

    needs_projection = True
    needs_input = True

    def observer(self, plan: Plan) -> _TokenObserver:
        """Return what multiplies the maps."""
        return _TokenObserver(plan)

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        seen = run.own["token_tm"]
        assert isinstance(seen, _TokenObserver)
        kept = run.words.layers
        scores = {k: v for k, v in seen.scores.items() if kept is None or k in kept}
        stacked = stack(scores, None)
        how = conventions(
            run,
            scores,
            direction="received by the word",
            aggregate=f"product up to layer {max(scores)}",
            heads="mean of all",
            residual="identity added, rows not normalised",
            weight="length ratio x n softmax(cosine), head by head",
            tokens="input of the attention module; value after the output projection",
        )
        lost = excluded(run, {k: seen.lost[k] for k in scores}, None)
        return finished(run, stacked[-1, 0], stacked, how, lost, stacked[:, 0])
