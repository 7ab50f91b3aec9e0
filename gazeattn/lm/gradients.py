"""Gradients with respect to attention and to the input, without keeping any map.

Layers are computed again one by one on the way back, and attention is computed again block by
block, so that the memory stays that of one layer.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gazeattn.errors import CapabilityError
from gazeattn.lm._blocks import Call, probabilities
from gazeattn.lm._plan import Plan, Rows
from gazeattn.lm._reduce import Observer, Received
from gazeattn.lm.batches import Batch
from gazeattn.lm.capture import LONG, Session, base_of, release_memory

if TYPE_CHECKING:
    from gazeattn.lm.tokens import Encoded

_checked: weakref.WeakSet[nn.Module] = weakref.WeakSet()

LOGIT_ROWS = 256
"""Positions whose logits exist at a time."""


class GradientReducer:
    """Attention times gradient of one text, reduced to words layer by layer.

    Parameters
    ----------
    plan
    last : int
        Last position that the target depends on; later rows have no gradient and are no query.
    layers
        Layers to reduce; all where None.
    """

    def __init__(self, plan: Plan, last: int, layers: frozenset[int] | None = None) -> None:
        self.plan, self.layers = plan, layers
        weight = plan.query_weight.clone()
        weight[last + 1 :] = 0
        self.weight = weight
        self.scores: dict[int, torch.Tensor] = {}
        self.lost: dict[int, dict[str, torch.Tensor]] = {}
        self._part: Received | None = None

    def wants(self, layer: int) -> bool:
        """Whether the layer is selected."""
        return self.layers is None or layer in self.layers

    def rows(self, attention: torch.Tensor, gradient: torch.Tensor, rows: Rows) -> None:
        """Take a block of attention and its gradient; the gradient is overwritten."""
        if self._part is None:
            part = Received(self.plan, len(attention), False, query_weight=self.weight)
            self._part = part
        if not self.plan.has_queries(rows):
            return
        gradient.mul_(attention)
        if self.plan.options.gradient_sign == "positive":
            gradient.clamp_min_(0)
        else:
            gradient.abs_()
        if not self.plan.options.include_self:
            gradient.masked_fill_(self.plan.same_word(rows), 0)
        self._part.add(gradient, rows)

    def end(self, layer: int) -> None:
        """Finish the layer."""
        if self._part is not None:
            self.scores[layer] = self._part.words().cpu()
            self.lost[layer] = {k: v.cpu() for k, v in self._part.lost().items()}
        self._part = None


class _Blocks(torch.autograd.Function):
    """Attention whose backward pass computes the probabilities again, block by block."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        session: GradientSession,
        module: nn.Module,
        settings: tuple[Any, ...],
    ) -> torch.Tensor:
        call = Call(query, key, value, *settings)
        if session.going_back:
            out = session.blocks(call, 0, [None] * len(session.spans))
        else:
            out = session.first(module, call)
        ctx.session, ctx.settings = session, settings
        ctx.save_for_backward(query, key, value, out)
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> Any:  # type: ignore[override]
        query, key, value, out = ctx.saved_tensors
        call = Call(query, key, value, *ctx.settings)
        grads = ctx.session.back(call, out, grad_outputs[0])
        return (*grads, None, None, None)


def _settings(call: Call) -> tuple[Any, ...]:
    return call.mask, call.scale, call.causal, call.softcap, call.sinks, call.bias


class GradientSession(Session):
    """A forward pass under observation and the way back through it.

    Parameters
    ----------
    observers
        See `Session`; they see the first forward pass only.
    reducers
        One per text; None where gradients of attention are not wanted.
    """

    blocks_in_use = 2  # attention and its gradient

    def __init__(
        self,
        observers: Sequence[Observer | None],
        spans: Sequence[tuple[int, int]],
        chunk: int | None = None,
        projections: dict[nn.Module, torch.Tensor | None] | None = None,
        reducers: Sequence[GradientReducer] | None = None,
    ) -> None:
        super().__init__(observers, spans, chunk, projections)  # type: ignore[arg-type]
        self.reducers = reducers
        self.going_back = False
        self._left: int | None = None

    def attend(self, module: nn.Module, call: Call) -> torch.Tensor:
        """Compute a layer's output as a node of the graph."""
        # the settings alone: a call kept by the graph would keep the layer's tensors
        return _Blocks.apply(call.query, call.key, call.value, self, module, _settings(call))

    def first(self, module: nn.Module, call: Call) -> torch.Tensor:
        """Compute a layer in the first forward pass and feed the observers."""
        return super().attend(module, call)

    @torch.no_grad()
    def back(self, call: Call, out: torch.Tensor, grad: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the gradients of query, key and value; feed the reducers.

        Layers come back in reverse order, which also numbers those that share one module.
        """
        if call.query.shape[0] * call.query.shape[2] >= LONG:
            release_memory()
        self._left = (self.calls if self._left is None else self._left) - 1
        layer = self._left
        d_query = torch.zeros_like(call.query)
        d_key, d_value = torch.zeros_like(call.key), torch.zeros_like(call.value)
        n_heads, n_kv = call.query.shape[1], call.key.shape[1]
        for item, span in enumerate(self.spans):
            reducer = self.reducers[item] if self.reducers is not None else None
            if reducer is not None and not reducer.wants(layer):
                reducer = None
            part = call.slice(item, *span)
            inside = slice(*span)
            pattern = self.pattern(call, item, span)
            step = self.step(n_heads, span[1] - span[0], grad.device.type)
            key, value = part.key.contiguous(), part.value.contiguous()
            outer = grad[item, inside].transpose(0, 1)  # heads, n_tokens, d
            # sum_s a(s) da(s) of every row, without the map
            inner = (outer.float() * out[item, inside].transpose(0, 1).float()).sum(-1)
            blocks = probabilities(part, pattern, step, self.buffers, with_slope=True)
            for rows, attention, scratch, slope in blocks:
                here, seen = slice(rows.start, rows.stop), slice(0, rows.keys)
                d_out = outer[:, here].reshape(n_kv, -1, outer.shape[-1])
                d_attention = torch.bmm(d_out, value[:, seen].transpose(1, 2))
                d_attention = d_attention.view(attention.shape).float()
                p = attention.to(value.dtype).view(n_kv, -1, rows.keys)
                d_value[item, :, span[0] : span[0] + rows.keys] += torch.bmm(
                    p.transpose(1, 2), d_out
                )
                torch.sub(d_attention, inner[:, here, None], out=scratch)
                scratch.mul_(attention)
                if slope is not None:
                    scratch.mul_(slope)
                d_scores = (scratch * call.scale).to(key.dtype).view(n_kv, -1, rows.keys)
                q = part.query[:, here].reshape(n_kv, -1, key.shape[-1])
                at = slice(span[0] + rows.start, span[0] + rows.stop)
                d_query[item, :, at] = torch.bmm(d_scores, key[:, seen]).view(
                    n_heads, -1, q.shape[-1]
                )
                d_key[item, :, span[0] : span[0] + rows.keys] += torch.bmm(
                    d_scores.transpose(1, 2), q
                )
                if reducer is not None:
                    reducer.rows(attention, d_attention, rows)
            if reducer is not None:
                reducer.end(layer)
        return d_query, d_key, d_value


@contextmanager
def recompute_layers(model: nn.Module) -> Iterator[int]:
    """Keep only the input of each layer inside the block; yields the number of such layers."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    chosen: list[nn.Module] = []

    def visit(module: nn.Module) -> None:
        for child in module.children():
            if isinstance(child, GradientCheckpointingLayer):
                if child not in chosen:  # layers can share one module
                    chosen.append(child)
            else:
                visit(child)

    def wrapped(forward: Callable[..., Any]) -> Callable[..., Any]:
        def again(*args: Any, **kwargs: Any) -> Any:
            return checkpoint(
                forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs
            )

        return again

    visit(model)
    before = [layer.__dict__.get("forward") for layer in chosen]
    try:
        for layer in chosen:
            layer.forward = wrapped(layer.forward)
        yield len(chosen)
    finally:
        for layer, old in zip(chosen, before, strict=True):
            if old is None:
                layer.__dict__.pop("forward", None)
            else:
                layer.forward = old


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Take gradients of no parameter inside the block."""
    moving = [p for p in model.parameters() if p.requires_grad]
    try:
        for p in moving:
            p.requires_grad_(False)
        yield
    finally:
        for p in moving:
            p.requires_grad_(True)


def choose_target(info: dict[str, Any], target: str) -> str:
    """Return ``"next_token"`` or ``"pooled_norm"`` for a model, or raise where it has no such."""
    able = bool(info.get("causal")) and bool(info.get("lm_head"))
    if target == "auto":
        return "next_token" if able else "pooled_norm"
    if target == "next_token" and not able:
        raise CapabilityError("target='next_token' needs a causal model with a language-model head")
    return target


def predicted(encoded: Encoded) -> torch.Tensor:
    """Return the positions of the tokens whose log-probability is the target (word tokens)."""
    role, word_of = torch.as_tensor(encoded.role), torch.as_tensor(encoded.word_of)
    at = torch.nonzero((role == 0) & (word_of >= 0)).flatten()
    return at[at > 0]


def head_of(model: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function from last hidden states to logits, with the model's own scaling."""
    layer = model.get_output_embeddings()  # type: ignore[operator]
    if layer is None:
        raise CapabilityError(f"{type(model).__name__} has no output layer for log-probabilities")
    config = model.config.get_text_config()  # type: ignore[union-attr, operator]
    cap = getattr(config, "final_logit_softcapping", None)
    factor = getattr(config, "logit_scale", None)  # Cohere
    divisor = getattr(config, "logits_scaling", None)  # Granite

    def logits(hidden: torch.Tensor) -> torch.Tensor:
        x = layer(hidden).float()
        if factor is not None:
            x = x * float(factor)
        if divisor is not None:
            x = x / float(divisor)
        return cap * torch.tanh(x / cap) if cap else x

    return logits


@torch.no_grad()
def check_head(model: nn.Module, batch: Batch) -> None:
    """Raise where `head_of` is not what the model computes (up to four tokens, once per model)."""
    if model in _checked:
        return
    start, stop = batch.spans[0]
    ids = batch.inputs["input_ids"][:1, start : min(stop, start + 4)]
    off = {"use_cache": False} if "use_cache" in batch.inputs else {}
    own = model(input_ids=ids, **off).logits.float()
    mine = head_of(model)(base_of(model)(input_ids=ids, **off)[0])
    if own.shape != mine.shape or not torch.allclose(own, mine, rtol=1e-2, atol=1e-2):
        raise CapabilityError(
            f"the logits of {type(model).__name__} are more than a linear layer on the last hidden "
            "states; gradient methods with target='next_token' do not support this model"
        )
    _checked.add(model)


def next_token_gradient(
    hidden: torch.Tensor, input_ids: torch.Tensor, at: torch.Tensor, logits: Callable[..., Any]
) -> tuple[torch.Tensor, float]:
    """Return the gradient of the summed log-probabilities and their sum.

    Parameters
    ----------
    hidden : Tensor, shape (n_tokens, hidden)
    input_ids : Tensor, shape (n_tokens,)
    at : Tensor
        Positions of the predicted tokens; the logits are those one position before.
    logits
        Function from hidden states to logits.
    """
    grad, total = torch.zeros_like(hidden), 0.0
    for block in at.split(LOGIT_ROWS):
        h = hidden.detach()[block - 1].requires_grad_(True)
        with torch.enable_grad():
            x = logits(h)
            chosen = x.gather(-1, input_ids[block][:, None])[:, 0]
            score = (chosen - x.logsumexp(-1)).sum()
        (g,) = torch.autograd.grad(score, h)
        grad[block - 1] = g
        total += float(score.detach())
    return grad, total


def run_gradients(
    model: nn.Module,
    batch: Batch,
    encoded: Sequence[Encoded],
    target: str,
    session: GradientSession | None,
) -> tuple[list[torch.Tensor], list[torch.Tensor], list[float], int]:
    """Run one batch forward and back.

    Parameters
    ----------
    model
        With its head. `capture` has to be active where `session` is given.
    batch, encoded
    target : {"next_token", "pooled_norm"}
    session

    Returns
    -------
    embeddings, gradients : list of Tensor, shape (n_tokens, hidden)
        Input embeddings of each text and the gradient of the target with respect to them.
    values : list of float
        The target.
    n_layers : int
        Layers that were computed again; 0 where the model's activations were all kept.
    """
    base = base_of(model)
    caught: list[torch.Tensor] = []

    def catch(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        if caught or output.ndim != 3:
            return output
        leaf = output.detach().requires_grad_(True)
        caught.append(leaf)
        return leaf

    embedding = base.get_input_embeddings()  # type: ignore[operator]
    hook = embedding.register_forward_hook(catch)
    try:
        with (
            torch.inference_mode(False),
            frozen(model),
            torch.enable_grad(),
            recompute_layers(base) as n_layers,
        ):
            hidden = base(**batch.inputs)[0]
            if session is not None:
                session.going_back = True
            grads = torch.zeros_like(hidden)
            values = []
            logits = head_of(model) if target == "next_token" else None
            for item, (start, stop) in enumerate(batch.spans):
                mine = hidden.detach()[item, start:stop]
                if logits is not None:
                    ids = batch.inputs["input_ids"][item, start:stop]
                    at = predicted(encoded[item]).to(ids.device)
                    grad, value = next_token_gradient(mine, ids, at, logits)
                else:
                    mean = mine.float().mean(0)
                    grad = (2 * mean / len(mine)).to(mine.dtype).expand_as(mine)
                    value = float(mean.square().sum())
                grads[item, start:stop] = grad
                values.append(value)
            (back,) = torch.autograd.grad(hidden, caught[0], grads)
    finally:
        hook.remove()
    embeddings = [caught[0].detach()[i, a:b] for i, (a, b) in enumerate(batch.spans)]
    return embeddings, [back[i, a:b] for i, (a, b) in enumerate(batch.spans)], values, n_layers
