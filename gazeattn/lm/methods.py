"""Attention methods by name: from one text and one model to a weight per word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

import gazeattn.lm._attribution  # (registers the methods)
import gazeattn.lm._builtin
import gazeattn.lm._effective
import gazeattn.lm._perturbation
import gazeattn.lm._spans
import gazeattn.lm._whole_maps  # noqa: F401
from gazeattn.errors import CapabilityError, DataError, GazeattnError
from gazeattn.lm._method import Method, MethodResult, Run
from gazeattn.lm._plan import AttentionOptions, Plan, Rows, check_sink, pick
from gazeattn.lm._reduce import FORWARD_QUANTITIES, Observer, WordReducer
from gazeattn.lm._returned import run_returned
from gazeattn.lm.batches import Batch
from gazeattn.lm.capture import (
    Session,
    base_of,
    capture,
    check_memory,
    estimate_bytes,
    has_interface,
    output_projections,
    watch_inputs,
)
from gazeattn.lm.gradients import (
    GradientReducer,
    GradientSession,
    check_head,
    choose_target,
    predicted,
    run_gradients,
)
from gazeattn.lm.tokens import Encoded
from gazeattn.registry import attention_methods

__all__ = ["AttentionOptions", "Method", "MethodResult", "Run", "compute"]


class _Several:
    """Shows every block to several observers."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.observers = observers

    def begin(
        self, layer: int, values: torch.Tensor | None, projection: torch.Tensor | None
    ) -> None:
        for o in self.observers:
            o.begin(layer, values, projection)

    def take_input(self, hidden: torch.Tensor) -> None:
        for o in self.observers:
            if hasattr(o, "take_input"):
                o.take_input(hidden)

    def rows(self, attention: torch.Tensor, rows: Rows, scratch: torch.Tensor) -> None:
        for o in self.observers:
            o.rows(attention, rows, scratch)

    def end(self, layer: int) -> None:
        for o in self.observers:
            o.end(layer)


@contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    was = [m for m in model.modules() if m.training]
    try:
        model.eval()
        yield
    finally:
        for m in was:
            m.training = True


def compute(
    lm: Any,
    encoded: Sequence[Encoded],
    methods: Sequence[str],
    options: AttentionOptions | None = None,
    batch_size: int = 1,
) -> list[dict[str, MethodResult]]:
    """Compute attention methods for texts; all methods share one pass through the model.

    Parameters
    ----------
    lm
        Has ``model`` (a transformers model) and ``info`` (``causal``, ``lm_head``).
    encoded
        Texts; each has to fit into the model's context.
    methods
        Names of registered attention methods.
    options
    batch_size
        Texts per forward pass. Scores do not depend on it.

    Returns
    -------
    list of dict
        For each text, in the given order, method name to `MethodResult`.

    Raises
    ------
    UnknownNameError
        No such method.
    CapabilityError
        The model lacks what a method needs, or the memory that is free is not enough.
    DataError
        A text is longer than the context, or a selected layer or head does not exist.
    """
    options = options or AttentionOptions()
    if isinstance(methods, str):
        methods = (methods,)
    chosen = {name: attention_methods.get(name).obj() for name in methods}
    if batch_size < 1:
        raise DataError("batch_size is a number of texts", expected=">= 1", found=batch_size)
    if not chosen or not encoded:
        return [{} for _ in encoded]
    model, info = lm.model, dict(lm.info)
    base = base_of(model)
    device = next(model.parameters()).device
    plans = [Plan(e, options, device) for e in encoded]
    quantities = frozenset(q for m in chosen.values() for q in m.quantities)
    n_layers = _number(base, "num_hidden_layers")
    n_heads = _number(base, "num_attention_heads")
    layers = None
    if options.layers is not None:
        layers = frozenset(pick(options.layers, n_layers, "layer"))
    pick(options.heads, n_heads, "head")
    for plan in plans:
        if bool(plan.is_word.any()):
            check_sink(plan, bool(info.get("causal")))

    order = [i for i in range(len(encoded)) if bool(plans[i].is_word.any())]
    if batch_size > 1:
        order.sort(key=lambda i: len(encoded[i].input_ids))
    if not has_interface(model):
        batch_size = 1
    if order:
        longest = max(len(encoded[i].input_ids) for i in order)
        words = max(encoded[i].n_words for i in order)
        size = next(model.parameters()).element_size()
        needed = estimate_bytes(
            base.config,
            longest,
            min(batch_size, len(order)),
            methods,
            options,
            size,
            words,
            causal=bool(info.get("causal")),
            returned=not has_interface(model),
        )
        check_memory(needed, device, f"{longest} tokens with {', '.join(chosen)}")

    runs: dict[int, Run] = {}
    with _evaluating(model):
        for at in range(0, len(order), batch_size):
            group = order[at : at + batch_size]
            found = [
                Run(plans[i], encoded[i], WordReducer(plans[i], quantities, layers)) for i in group
            ]
            shared = {n: m for n, m in chosen.items() if not m.evaluates}
            if shared:
                _run(model, info, found, shared, quantities, layers, options)
            for method in chosen.values():
                if method.evaluates:
                    for run in found:
                        method.evaluate(lm, run)
            runs.update(zip(group, found, strict=True))
    return [
        {
            name: _finish(name, m, runs[i]) if i in runs else _nothing(name, plans[i], encoded[i])
            for name, m in chosen.items()
        }
        for i in range(len(encoded))
    ]


def _number(base: Any, name: str) -> int:
    config = (
        base.config.get_text_config() if hasattr(base.config, "get_text_config") else base.config
    )
    return int(getattr(config, name, 0) or 0)


def _finish(name: str, method: Method, run: Run) -> MethodResult:
    result = method.finish(run)
    result.how = {"method": name, **result.how}
    return result


def _nothing(name: str, plan: Plan, encoded: Encoded) -> MethodResult:
    """Result of a text in which no token belongs to a word."""
    weights = np.full(plan.n_words, np.nan)
    lost = {
        "words_without_token": len(encoded.unscored),
        "words_without_score": plan.n_words,
        "reason": "no token belongs to a word",
    }
    return MethodResult(weights, None, {"method": name, "sink": plan.options.sink}, lost)


def _run(
    model: Any,
    info: dict[str, Any],
    runs: list[Run],
    chosen: dict[str, Method],
    quantities: frozenset[str],
    layers: frozenset[int] | None,
    options: AttentionOptions,
) -> None:
    """Run one batch and leave everything that was computed in `runs`."""
    base = base_of(model)
    batch = Batch(base, [r.encoded for r in runs], options.padding_side)
    observers: list[Observer] = []
    for run in runs:
        for name, method in chosen.items():
            own = method.observer(run.plan)
            if own is not None:
                run.own[name] = own
        observers.append(_Several([run.words, *run.own.values()]) if run.own else run.words)
    forward = bool(quantities & set(FORWARD_QUANTITIES)) or any(r.own for r in runs)
    gradient = bool(quantities & {"grad_attention", "input_gradient"})
    interface = has_interface(model)
    needing = {n for n, m in chosen.items() if m.needs_projection or m.needs_input}
    needing |= quantities & {"value_norm", "grad_attention"}
    if not interface and needing:
        names = ", ".join(sorted(needing))
        raise CapabilityError(
            f"{names} needs a model whose "
            f"attention function can be exchanged; {type(model).__name__} only returns its maps"
        )
    if gradient:
        needs_values = _needs_values(chosen, quantities)
        seen = observers if forward else [None] * len(runs)
        _run_gradients(
            model, info, runs, batch, seen, quantities, layers, options, needs_values, chosen
        )
        if not forward or interface:
            return
    if interface:
        needs_values = _needs_values(chosen, quantities)
        projections = output_projections(base) if needs_values else None
        session = Session(observers, batch.spans, options.chunk, projections)
        with capture(model, session), _inputs(base, session, chosen), torch.no_grad():
            base(**batch.inputs)
        if session.calls:
            return
    run_returned(base, [batch], observers, options.chunk)


def _inputs(base: Any, session: Session | None, chosen: dict[str, Method]) -> Any:
    if session is None or not any(m.needs_input for m in chosen.values()):
        return nullcontext()
    return watch_inputs(base, session)


def _needs_values(chosen: dict[str, Method], quantities: frozenset[str]) -> bool:
    return "value_norm" in quantities or any(m.needs_projection for m in chosen.values())


def _run_gradients(
    model: Any,
    info: dict[str, Any],
    runs: list[Run],
    batch: Batch,
    observers: Sequence[Observer | None],
    quantities: frozenset[str],
    layers: frozenset[int] | None,
    options: AttentionOptions,
    needs_values: bool,
    chosen: dict[str, Method],
) -> None:
    target = choose_target(info, options.target)
    if target == "next_token":
        check_head(model, batch)
    session = None
    if has_interface(model):
        if "grad_attention" in quantities:
            for run in runs:
                last = len(run.encoded.input_ids) - 1
                if target == "next_token":
                    at = predicted(run.encoded)
                    last = int(at.max()) - 1 if len(at) else -1
                run.gradient = GradientReducer(run.plan, last, layers)
        reducers = [r.gradient for r in runs]
        session = GradientSession(
            observers,
            batch.spans,
            options.chunk,
            output_projections(base_of(model)) if needs_values else None,
            reducers if runs[0].gradient is not None else None,  # type: ignore[arg-type]
        )
    encoded = [r.encoded for r in runs]
    watched = _inputs(base_of(model), session, chosen)
    with capture(model, session) if session is not None else nullcontext(), watched:
        found = run_gradients(model, batch, encoded, target, session)
    if session is not None and "grad_attention" in quantities and not session.calls:
        raise GazeattnError(f"{type(model).__name__} ran without calling its attention function")
    for i, run in enumerate(runs):
        run.embeddings, run.input_gradient = found[0][i], found[1][i]
        run.target, run.target_value, run.n_recomputed = target, found[2][i], found[3]
