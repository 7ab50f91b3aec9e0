"""Attention methods by distance and by source: WAAD, FAI and the lookback ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gazeattn.errors import CapabilityError
from gazeattn.lm._method import Method, MethodResult, Run, conventions, finished, mean, stack
from gazeattn.lm._plan import MIN_MASS, Plan, Rows, pick
from gazeattn.registry import register_attention


class SpanObserver:
    """Sums of every head that depend on how far back a row looks, without a map.

    Attributes
    ----------
    near : dict of int to Tensor
        Per layer, windowed distance of each query, (heads, n_tokens).
    later : dict of int to Tensor
        Mean weight of each key in the rows that lie between `fai_from` and `fai_to` after it.
    span : dict of int to Tensor
        Mean distance of each head, (heads,).
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.near: dict[int, torch.Tensor] = {}
        self.later: dict[int, torch.Tensor] = {}
        self.span: dict[int, torch.Tensor] = {}
        self._started = False

    def begin(
        self, layer: int, values: torch.Tensor | None, projection: torch.Tensor | None
    ) -> None:
        """Start a layer."""
        self._started = False

    def _start(self, n_heads: int) -> None:
        n, at = self.plan.n_tokens, self.plan.device
        self._near = torch.full((n_heads, n), torch.nan, device=at)
        self._later = torch.zeros(n_heads, n, device=at)
        self._count = torch.zeros(n_heads, n, device=at)
        self._distance = torch.zeros(n_heads, device=at)
        self._rows = torch.zeros(n_heads, device=at)
        self._started = True

    def rows(self, attention: torch.Tensor, rows: Rows, scratch: torch.Tensor) -> None:
        """Take a block of rows."""
        plan, o = self.plan, self.plan.options
        if not self._started:
            self._start(len(attention))
        if not plan.has_queries(rows):
            return
        at = torch.arange(plan.n_tokens, device=plan.device)
        apart = at[rows.start : rows.stop, None] - at[None, : rows.keys]
        column = plan.in_row[: rows.keys]
        mass = attention @ column
        query = plan.is_word[rows.start : rows.stop]
        there = (mass >= MIN_MASS) & query
        factor = torch.where(there, 1.0, 0.0)
        if o.renormalise:
            factor = factor / mass.clamp_min(MIN_MASS)

        def weighted(distance: torch.Tensor) -> torch.Tensor:
            torch.mul(attention, distance * column, out=scratch)
            return scratch.sum(-1) * factor

        size = apart.abs().float()
        near = weighted(size.clamp_max(o.waad_window))
        self._near[:, rows.start : rows.stop] = torch.where(there, near, torch.nan)
        self._distance += weighted(size).sum(-1)
        self._rows += there.sum(-1)
        band = ((apart >= o.fai_from) & (apart <= o.fai_to)).float()
        torch.mul(attention, band, out=scratch)
        self._later[:, : rows.keys] += torch.bmm(factor[:, None, :], scratch)[:, 0]
        self._count[:, : rows.keys] += there.float() @ band

    def end(self, layer: int) -> None:
        """Finish the layer."""
        if not self._started:
            return
        some = self._count > 0
        later = torch.where(some, self._later / self._count.clamp_min(1), torch.nan)
        # a word is missing where a token of it is; sums of what is not scored do not matter
        self.near[layer] = self.plan.mean_queries(self._near).cpu()
        word = self.plan.sum_keys(torch.where(self.plan.scored, later, 0.0))
        self.later[layer] = torch.where(self.plan.has_key, word, torch.nan).cpu()
        span = self._distance / self._rows.clamp_min(1)
        self.span[layer] = torch.where(self._rows > 0, span, torch.nan).cpu()


def chosen_heads(spans: np.ndarray, share: float, far: bool) -> np.ndarray:
    """Return which heads have the lowest (or highest) mean distance, shape as `spans`.

    At least one head; ties are kept in the order of layers and heads.
    """
    flat = np.where(np.isfinite(spans), -spans if far else spans, np.inf).ravel()
    n = max(1, round(share * int(np.isfinite(flat).sum())))
    best = np.argsort(flat, kind="stable")[:n]
    result = np.zeros(flat.shape, dtype=bool)
    result[best] = np.isfinite(flat[best])
    return result.reshape(spans.shape)


class _BySpan(Method):
    far = False
    direction = ""

    def observer(self, plan: Plan) -> SpanObserver:
        """Return what sums by distance."""
        return SpanObserver(plan)

    def scores(self, seen: SpanObserver) -> dict[int, torch.Tensor]:
        """Return the values by layer, (heads, n_words)."""
        raise NotImplementedError

    def says(self, options: Any) -> dict[str, Any]:
        """Return the conventions of the method alone."""
        raise NotImplementedError

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        seen = next(o for o in run.own.values() if isinstance(o, SpanObserver))
        options, kept = run.plan.options, run.words.layers
        scores = {k: v for k, v in self.scores(seen).items() if kept is None or k in kept}
        stacked = stack(scores, options.heads)
        order = sorted(scores)
        spans = torch.stack([seen.span[k] for k in order]).numpy()
        spans = spans[:, pick(options.heads, spans.shape[1], "head")]
        mask = chosen_heads(spans, options.head_share, self.far)
        used = [[order[i], int(h)] for i, h in zip(*np.nonzero(mask), strict=True)]
        weights = mean(stacked[mask], 0)
        how = conventions(
            run,
            scores,
            direction=self.direction,
            aggregate=f"mean over the {len(used)} heads with the "
            f"{'highest' if self.far else 'lowest'} mean distance",
            heads_used=used,
            head_share=options.head_share,
            include_self=True,
            **self.says(options),
        )
        return finished(run, weights, stacked, how, {}, mean(stacked, 1))


@register_attention(
    "waad",
    description="Windowed average attention distance of the local heads, a value per word as query",
    citation="Li et al. (2025), Attention illuminates LLM reasoning, arXiv 2510.13554",
    family="attention",
)
class Waad(_BySpan):
    """``sum_s A[t, s] min(t - s, w)``, mean over the heads with the lowest mean distance."""

    direction = "of the word as query"

    def scores(self, seen: SpanObserver) -> dict[int, torch.Tensor]:
        """Return the windowed distances."""
        return seen.near

    def says(self, options: Any) -> dict[str, Any]:
        """Return window and unit."""
        return {"window": options.waad_window, "unit": "tokens", "causal": "none: per query"}


@register_attention(
    "fai",
    description="Future attention influence: what later words give to a word, in the global heads",
    citation="Li et al. (2025), Attention illuminates LLM reasoning, arXiv 2510.13554",
    family="attention",
)
class Fai(_BySpan):
    """Mean of A[t, s] over the rows a to b tokens after s, in heads with the highest distance."""

    far = True
    direction = "received by the word from later ones"

    def scores(self, seen: SpanObserver) -> dict[int, torch.Tensor]:
        """Return the weights from later rows."""
        return seen.later

    def says(self, options: Any) -> dict[str, Any]:
        """Return the distances; words too near to the end have no value."""
        return {"from_to": [options.fai_from, options.fai_to], "unit": "per token of distance"}


class _LookbackObserver:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.context = plan.kinds.get("context")
        if self.context is None:
            raise CapabilityError(
                "lookback_ratio compares attention to a context with attention to the words after "
                "it; give the context (context=..., or question=true in an experiment)"
            )
        self.scores: dict[int, torch.Tensor] = {}
        self._tokens: torch.Tensor | None = None

    def begin(
        self, layer: int, values: torch.Tensor | None, projection: torch.Tensor | None
    ) -> None:
        """Start a layer."""
        self._tokens = None

    def rows(self, attention: torch.Tensor, rows: Rows, scratch: torch.Tensor) -> None:
        """Take a block of rows."""
        plan = self.plan
        assert self.context is not None
        if self._tokens is None:
            shape = (len(attention), plan.n_tokens)
            self._tokens = torch.full(shape, torch.nan, device=plan.device)
        new = plan.is_word.float()[: rows.keys]
        at = torch.arange(plan.n_tokens, device=plan.device)
        # the same tokens count on both sides of the division: those that the row can see
        seen = torch.ones(rows.stop - rows.start, rows.keys, device=plan.device)
        if rows.visible is not None:
            seen = rows.visible.float()
        elif rows.causal:
            seen = (at[None, : rows.keys] <= at[rows.start : rows.stop, None]).float()
        context = self.context[: rows.keys]
        old = attention @ context / (seen @ context).clamp_min(1)
        fresh = attention @ new / (seen @ new).clamp_min(1)
        whole = old + fresh
        value = torch.where(whole > 0, old / whole.clamp_min(1e-30), torch.nan)
        self._tokens[:, rows.start : rows.stop] = value

    def end(self, layer: int) -> None:
        """Finish the layer."""
        if self._tokens is not None:
            self.scores[layer] = self.plan.mean_queries(self._tokens).cpu()


@register_attention(
    "lookback_ratio",
    description="Share of mean attention on the context against the words so far; needs a context",
    citation="Chuang et al. (2024), Lookback Lens, EMNLP",
    family="attention to a context",
    needs="context",
)
class LookbackRatio(Method):
    """``a_context / (a_context + a_new)``, both means per token, a value per word as query."""

    def observer(self, plan: Plan) -> _LookbackObserver:
        """Return what sums context and new tokens."""
        return _LookbackObserver(plan)

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        seen, heads, kept = run.own["lookback_ratio"], run.plan.options.heads, run.words.layers
        assert isinstance(seen, _LookbackObserver)
        scores = {k: v for k, v in seen.scores.items() if kept is None or k in kept}
        stacked = stack(scores, heads)
        how = conventions(
            run,
            scores,
            direction="of the word as query",
            aggregate="mean over layers and heads",
            split="context against the words up to and with the query; start token in neither",
            causal="none: a value per query",
            subword="mean over the word's tokens",
        )
        how["renormalise"], how["include_self"] = False, True
        return finished(run, mean(stacked, (0, 1)), stacked, how, {}, mean(stacked, 1))
