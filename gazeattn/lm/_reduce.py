"""Reducers: blocks of attention rows come in, word scores of a layer go out."""

from __future__ import annotations

import math
from typing import Protocol

import torch

from gazeattn.lm._plan import MIN_MASS, Plan, Rows

FORWARD_QUANTITIES = ("received", "value_norm", "entropy", "distance", "rollout")


class Observer(Protocol):
    """What the capture engine talks to; one per text."""

    def begin(
        self, layer: int, values: torch.Tensor | None, projection: torch.Tensor | None
    ) -> None:
        """Start a layer; `values` (kv_heads, n_tokens, d), `projection` (heads, d, hidden)."""

    def rows(self, attention: torch.Tensor, rows: Rows, scratch: torch.Tensor) -> None:
        """Take a block (heads, rows, keys), float32; it is overwritten after the call."""

    def end(self, layer: int) -> None:
        """Finish the layer."""


class Received:
    """What each key token receives from the word queries, summed block by block.

    Parameters
    ----------
    plan
    n_heads
    renormalise
        Divide each row by its mass on `plan.in_row`.
    key_scale : Tensor, shape (n_heads, n_tokens), optional
        Factor of each key, applied without scaling the blocks themselves.
    query_weight : Tensor, shape (n_tokens,), optional
        Instead of that of the plan.
    """

    def __init__(
        self,
        plan: Plan,
        n_heads: int,
        renormalise: bool,
        key_scale: torch.Tensor | None = None,
        query_weight: torch.Tensor | None = None,
    ) -> None:
        self.plan, self.renormalise, self.key_scale = plan, renormalise, key_scale
        self.weight = plan.query_weight if query_weight is None else query_weight
        at = plan.device
        self.total = torch.zeros(n_heads, plan.n_tokens, device=at)
        self.seen_by = torch.zeros(n_heads, plan.n_words, device=at)
        self.used = torch.zeros(n_heads, device=at)
        self.share = {k: torch.zeros(n_heads, device=at) for k in plan.kinds}

    def _mass(self, block: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
        column = column[: block.shape[-1]]
        if self.key_scale is None:
            return block @ column
        scaled = self.key_scale[:, : block.shape[-1]] * column
        return torch.bmm(block, scaled[:, :, None])[:, :, 0]

    def _kind(self, block: torch.Tensor, kind: str) -> torch.Tensor:
        if kind not in self.plan.few:
            return self._mass(block, self.plan.kinds[kind])
        mass = torch.zeros_like(block[..., 0])
        for at in self.plan.few[kind]:
            if at < block.shape[-1]:
                column = block[..., at]
                mass += column if self.key_scale is None else column * self.key_scale[:, at, None]
        return mass

    def add(self, block: torch.Tensor, rows: Rows, own: torch.Tensor | None = None) -> torch.Tensor:
        """Add a block (heads, rows, keys); return the mass of each row on `plan.in_row`."""
        plan = self.plan
        weight = self.weight[rows.start : rows.stop]
        kept = self._mass(block, plan.in_row)
        if self.renormalise:
            there = (kept >= MIN_MASS).float()
            factor = there * weight / kept.clamp_min(MIN_MASS)
        else:
            there = torch.ones_like(kept)
            factor = weight.expand_as(kept)
        self.total[:, : rows.keys] += torch.bmm(factor[:, None, :].contiguous(), block)[:, 0]
        counted = there * weight
        self.seen_by += counted @ plan.visible_words(rows)
        self.used += counted.sum(-1)
        masses = {k: self._kind(block, k) for k in plan.kinds}
        if own is not None:
            masses["own_word"] = own
        in_kept = ("start_token",) if plan.options.sink == "keep" else ()
        whole = kept + sum(m for k, m in masses.items() if k not in in_kept)
        whole = whole.clamp_min(torch.finfo(torch.float32).tiny)
        for kind, mass in masses.items():
            share = (mass / whole) @ weight
            self.share[kind] = self.share[kind] + share if kind in self.share else share
        return kept

    def words(self) -> torch.Tensor:
        """Return the word scores, shape (n_heads, n_words), NaN where a word has none."""
        plan = self.plan
        total = self.total if self.key_scale is None else self.total * self.key_scale
        score = plan.sum_keys(total)
        if plan.options.causal == "visible_mean":
            by = self.seen_by
        else:
            by = self.used[:, None].expand_as(score)
        # A word that only rows without a score can see has no score either, under both rules.
        there = (self.seen_by > 0) & plan.has_key
        return torch.where(there, score / by.clamp_min(1e-12), torch.nan)

    def lost(self) -> dict[str, torch.Tensor]:
        """Return the mean share of excluded mass per kind and the share of missing rows."""
        all_queries = self.weight.sum().clamp_min(1e-12)
        lost = {k: v / all_queries for k, v in self.share.items()}
        lost["missing_rows"] = (1 - self.used / all_queries).clamp_min(0)
        return lost


class RolloutState:
    """Rollout of one text, multiplied up layer by layer; holds one map (two if not causal).

    For a causal pattern the blocks have to come from the last rows to the first: a row of the
    new product needs only rows of the old one up to itself, so the product is done in place.
    """

    def __init__(self, n_tokens: int, device: torch.device, block: int = 256) -> None:
        self.n, self.block = n_tokens, block
        self.map = torch.zeros(n_tokens, n_tokens, device=device)
        self.next: torch.Tensor | None = None
        self.first = True

    def rows(self, attention: torch.Tensor, rows: Rows) -> torch.Tensor:
        """Add a block (heads, rows, keys); return the new rollout rows (1, rows, keys)."""
        a = self.mixed(attention, rows)
        k = a.shape[1]
        if self.first:
            new = self.begin(a)
        elif rows.lower:
            new = torch.empty_like(a)
            for j in range(0, k, self.block):
                end = min(j + self.block, k)
                torch.mm(a[:, j:], self.map[j:k, j:end], out=new[:, j:end])
        else:
            new = a @ self.map[:k]
        if rows.lower or self.first:
            self.map[rows.start : rows.stop, : new.shape[1]] = new
        else:
            if self.next is None:
                self.next = torch.zeros_like(self.map)
            self.next[rows.start : rows.stop, : new.shape[1]] = new
        return new[None]

    def mixed(self, attention: torch.Tensor, rows: Rows) -> torch.Tensor:
        """Return the factor of this layer: mean over heads, identity added, rows normalised."""
        a = attention.mean(0)
        at = torch.arange(len(a), device=a.device)
        a[at, rows.start + at] += 1.0
        return a / a.sum(-1, keepdim=True)

    def begin(self, factor: torch.Tensor) -> torch.Tensor:
        """Return the rows after the first layer."""
        return factor

    def end(self) -> None:
        """Finish the layer."""
        if self.next is not None and not self.first:
            self.map, self.next = self.next, self.map
        self.first = False


def value_grams(values: torch.Tensor, projection: torch.Tensor) -> torch.Tensor:
    """Return the inner products of the heads' projected values at every key.

    With ``u_h(s) = v_h(s) W_h`` entry ``[h, g, s]`` is ``u_h(s) . u_g(s)``. Then
    ``|sum_h a_h u_h(s)|^2 = sum_hg a_h a_g G[h, g, s]`` and
    ``|a_h u_h(s)| = a_h sqrt(G[h, h, s])``, which costs heads^2 per query and key instead of
    heads x hidden size.

    Parameters
    ----------
    values : Tensor, shape (kv_heads, n_tokens, d)
    projection : Tensor, shape (heads, d, hidden)

    Returns
    -------
    Tensor, shape (heads, heads, n_tokens), float32
    """
    n_heads, d, _ = projection.shape
    values, projection = values.float(), projection.float()
    n_tokens, group = values.shape[1], n_heads // values.shape[0]
    by_head = torch.arange(n_heads, device=values.device) // group
    if n_tokens * (2 * d + n_heads) < n_heads * d * d:  # short texts: the vectors u themselves
        u = torch.bmm(values[by_head], projection).transpose(0, 1).contiguous()
        return torch.bmm(u, u.transpose(1, 2)).permute(1, 2, 0).contiguous()
    grams = torch.empty(n_heads, n_heads, n_tokens, device=values.device)
    for h in range(n_heads):
        # (d, heads up to h, d): W_h W_g^T
        pair = torch.einsum("do,geo->dge", projection[h], projection[: h + 1])
        moved = (values[h // group] @ pair.reshape(d, -1)).view(n_tokens, h + 1, d)
        dots = torch.einsum("tge,gte->gt", moved, values[by_head[: h + 1]])
        grams[h, : h + 1] = dots
        grams[: h + 1, h] = dots
    return grams


def summed_norm(
    attention: torch.Tensor, grams: torch.Tensor, out: torch.Tensor, scratch: torch.Tensor
) -> torch.Tensor:
    """Return ``|sum_h a_h u_h(s)|`` for a block (heads, rows, keys), shape (1, rows, keys)."""
    out.zero_()
    k = attention.shape[-1]
    for h in range(attention.shape[0]):
        # the off-diagonal pairs occur twice
        torch.mul(attention[h], grams[h, h, :k], out=scratch)
        for g in range(h):
            scratch.addcmul_(attention[g], grams[h, g, :k], value=2.0)
        out.addcmul_(scratch, attention[h])
    return out.clamp_min_(0).sqrt_()[None]


class WordReducer:
    """The built-in observer: all forward quantities of one text in one go.

    Parameters
    ----------
    plan
    quantities
        Names out of `FORWARD_QUANTITIES`; ``"received"`` is always computed.
    layers
        Layers to reduce; all where None. Rollout passes through every layer.

    Attributes
    ----------
    scores : dict of str to dict of int to Tensor
        Quantity to layer to (heads, n_words), on the CPU.
    lost : dict of str to dict of int to dict
        Quantity to layer to kind to (heads,).
    """

    def __init__(
        self, plan: Plan, quantities: frozenset[str], layers: frozenset[int] | None = None
    ) -> None:
        self.plan, self.quantities, self.layers = plan, quantities, layers
        self.scores: dict[str, dict[int, torch.Tensor]] = {}
        self.lost: dict[str, dict[int, dict[str, torch.Tensor]]] = {}
        self.rollout = RolloutState(plan.n_tokens, plan.device) if "rollout" in quantities else None
        self._parts: dict[str, Received] = {}
        self._rows: dict[str, torch.Tensor] = {}
        self._grams: torch.Tensor | None = None
        self._wanted = False
        self._n_heads = 0

    def begin(
        self, layer: int, values: torch.Tensor | None, projection: torch.Tensor | None
    ) -> None:
        """Start a layer."""
        self._wanted = self.layers is None or layer in self.layers
        self._parts, self._rows, self._grams, self._n_heads = {}, {}, None, 0
        if self._wanted and "value_norm" in self.quantities:
            assert values is not None and projection is not None
            self._grams = value_grams(values, projection)

    def _start(self, n_heads: int) -> None:
        plan, self._n_heads = self.plan, n_heads
        renormalise = plan.options.renormalise
        if self.rollout is not None:
            self._parts["rollout"] = Received(plan, 1, renormalise)
        if not self._wanted:
            return
        self._parts["received"] = Received(plan, n_heads, renormalise)
        if self._grams is not None:
            norms = self._grams.diagonal().T.clamp_min(0).sqrt().contiguous()
            self._parts["value_norm"] = Received(plan, n_heads, renormalise, key_scale=norms)
            self._parts["value_norm_sum"] = Received(plan, 1, renormalise)
        for name in ("entropy", "distance"):
            if name in self.quantities:
                self._rows[name] = torch.full(
                    (n_heads, plan.n_tokens), torch.nan, device=plan.device
                )

    def rows(self, attention: torch.Tensor, rows: Rows, scratch: torch.Tensor) -> None:
        """Take a block of rows."""
        if not self._n_heads:
            self._start(attention.shape[0])
        plan = self.plan
        rolled = self.rollout.rows(attention, rows) if self.rollout is not None else None
        if not plan.has_queries(rows):
            return
        own = own_rolled = None
        if not plan.options.include_self:
            other = (~plan.same_word(rows)).float()
            masked = attention * other
            own = attention.sum(-1) - masked.sum(-1)
            attention = masked
            if rolled is not None:
                own_rolled = (rolled * (1 - other)).sum(-1)
                rolled = rolled * other
        if rolled is not None:
            self._parts["rollout"].add(rolled, rows, own_rolled)
        if not self._wanted:
            return
        kept = self._parts["received"].add(attention, rows, own)
        if "value_norm" in self._parts:
            assert self._grams is not None
            self._parts["value_norm"].add(attention, rows)
            spare = scratch[1] if len(scratch) > 1 else torch.empty_like(scratch[0])
            norm = summed_norm(attention, self._grams, scratch[0], spare)
            self._parts["value_norm_sum"].add(norm, rows)
        span = slice(rows.start, rows.stop)
        if "entropy" in self._rows:
            self._rows["entropy"][:, span] = self._entropy(attention, rows, kept, scratch)
        if "distance" in self._rows:
            self._rows["distance"][:, span] = self._distance(attention, rows, scratch)

    def _entropy(
        self, attention: torch.Tensor, rows: Rows, kept: torch.Tensor, scratch: torch.Tensor
    ) -> torch.Tensor:
        plan = self.plan
        torch.clamp_min(attention, 1e-37, out=scratch)
        scratch.log_().mul_(attention)
        total = scratch @ plan.in_row[: rows.keys]
        value = kept.clamp_min(MIN_MASS).log() - total / kept.clamp_min(MIN_MASS)
        value = value.clamp_min(0)
        unit = plan.options.entropy_unit
        if unit == "normalised":
            count = plan.visible_keys(rows)
            value = torch.where(count >= 2, value / count.clamp_min(2).log(), torch.nan)
        elif unit == "bits":
            value = value / math.log(2)
        return torch.where(kept >= MIN_MASS, value, torch.nan)

    def _distance(self, attention: torch.Tensor, rows: Rows, scratch: torch.Tensor) -> torch.Tensor:
        plan = self.plan
        if plan.options.distance_unit == "words":
            at = plan.word_of.float()
        else:
            at = torch.arange(plan.n_tokens, device=plan.device, dtype=torch.float32)
        scored = plan.scored[: rows.keys].float()
        apart = (at[rows.start : rows.stop, None] - at[None, : rows.keys]).abs() * scored
        torch.mul(attention, apart, out=scratch)
        kept = attention @ scored
        mean = scratch.sum(-1) / kept.clamp_min(MIN_MASS)
        return torch.where(kept >= MIN_MASS, mean, torch.nan)

    def end(self, layer: int) -> None:
        """Finish the layer."""
        if self.rollout is not None:
            self.rollout.end()
        for name, part in self._parts.items():
            self.scores.setdefault(name, {})[layer] = part.words().cpu()
            self.lost.setdefault(name, {})[layer] = {k: v.cpu() for k, v in part.lost().items()}
        for name, tokens in self._rows.items():
            self.scores.setdefault(name, {})[layer] = self.plan.mean_queries(tokens).cpu()
        self._parts, self._rows, self._grams = {}, {}, None
