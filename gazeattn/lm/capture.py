"""Attention of a running model, reduced block by block; no map of a whole layer is ever held.

A model from the transformers library calls an attention function by name. `capture` puts its own
function in that place for the time of a ``with`` block. The function computes the same output,
in blocks of query rows, and shows every block to the observers before it is overwritten.
"""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import nn

from gazeattn.errors import CapabilityError
from gazeattn.lm._blocks import (
    Buffers,
    Call,
    Pattern,
    block_rows,
    fused,
    is_plain,
    probabilities,
    read_mask,
)
from gazeattn.lm._plan import AttentionOptions
from gazeattn.lm._reduce import Observer

NAME = "gazeattn"
"""Name of the attention function in transformers' registries."""

LONG = 1024
"""From this number of tokens on, freed memory is given back to the system after every layer."""

_IGNORED = frozenset(
    "cache cache_position cu_seq_lens_k cu_seq_lens_q cu_seqlens deterministic dropout "
    "hidden_states local_window_size max_length_k max_length_q num_items_in_batch "
    "output_attentions output_hidden_states past_key_values position_embeddings position_ids "
    "return_dict sliding_window target_dtype use_cache".split()
)
"""Arguments that change nothing here: they are for other kernels or are part of the mask."""

_PROJECTIONS = (
    "o_proj",
    "out_proj",
    "c_proj",
    "dense",
    "Wo",
    "wo",
    "o",
    "out_lin",
    "output_proj",
    "to_out",
    "proj",
)

_sessions: weakref.WeakKeyDictionary[nn.Module, Session] = weakref.WeakKeyDictionary()
_locks: weakref.WeakKeyDictionary[nn.Module, threading.RLock] = weakref.WeakKeyDictionary()
_guard = threading.Lock()


class Session:
    """One forward pass under observation.

    Parameters
    ----------
    observers
        One per text of the batch.
    spans
        First and last + 1 real token of each text; everything else is padding and is neither
        computed nor shown.
    chunk
        Query rows per block; chosen where None.
    projections
        Output projection of each attention module, where an observer needs it.
    """

    blocks_in_use = 1

    def __init__(
        self,
        observers: Sequence[Observer],
        spans: Sequence[tuple[int, int]],
        chunk: int | None = None,
        projections: dict[nn.Module, torch.Tensor | None] | None = None,
    ) -> None:
        self.observers, self.spans, self.chunk = observers, spans, chunk
        self.projections = projections
        self.buffers = Buffers()
        self.calls = 0
        self.n_heads = 0
        self.inputs: torch.Tensor | None = None
        self._patterns: dict[tuple[int, int, bool], tuple[torch.Tensor | None, Pattern]] = {}

    def pattern(self, call: Call, item: int, span: tuple[int, int]) -> Pattern:
        """Return what the queries of one text can see, read once per mask of a pass."""
        key = (id(call.mask), item, call.causal)
        if key not in self._patterns:
            if call.mask is None:
                found = Pattern(causal=call.causal, lower=call.causal)
            else:
                found = read_mask(call.slice(item, *span).mask)  # type: ignore[arg-type]
            self._patterns[key] = (call.mask, found)  # holds the mask, so that its id stays taken
        return self._patterns[key][1]

    def step(self, n_heads: int, n_tokens: int, device: str) -> int:
        """Return the number of query rows per block."""
        return block_rows(n_heads, n_tokens, self.chunk, device, self.blocks_in_use)

    def next_layer(self) -> int:
        """Return the number of the attention layer that is called now."""
        self.calls += 1
        return self.calls - 1

    def projection(self, module: nn.Module, n_heads: int) -> torch.Tensor | None:
        """Return the output projection as (heads, d, hidden)."""
        if self.projections is None:
            return None
        weight = self.projections.get(module)
        if weight is None:
            raise CapabilityError(
                f"value-weighted attention needs the output projection of {type(module).__name__}, "
                f"which is not under a known name ({', '.join(_PROJECTIONS)})"
            )
        return weight.reshape(n_heads, -1, weight.shape[-1])

    def attend(self, module: nn.Module, call: Call) -> torch.Tensor:
        """Compute a layer's output (batch, n_tokens, heads, d) and feed the observers."""
        if call.query.shape[0] * call.query.shape[2] >= LONG:
            release_memory()
        layer = self.next_layer()
        self.n_heads = max(self.n_heads, call.query.shape[1])
        projection = self.projection(module, call.query.shape[1])
        return self.blocks(call, layer, self.observers, projection)

    @torch.no_grad()
    def blocks(
        self,
        call: Call,
        layer: int,
        observers: Sequence[Observer | None],
        projection: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Go through all texts and blocks of a layer."""
        batch, n_heads, n_tokens, _ = call.query.shape
        n_kv, dim = call.value.shape[1], call.value.shape[-1]
        out = call.value.new_zeros(batch, n_tokens, n_heads, dim)
        for item, span in enumerate(self.spans):
            observer = observers[item]
            part = call.slice(item, *span)
            mine = out[item, span[0] : span[1]]
            pattern = self.pattern(call, item, span)
            if observer is None and is_plain(part, pattern):
                mine[:] = fused(part, pattern).transpose(0, 1)
                continue
            value = part.value.contiguous()
            step = self.step(n_heads, span[1] - span[0], value.device.type)
            if observer is not None:
                if self.inputs is not None:
                    observer.take_input(self.inputs[item, slice(*span)])  # type: ignore[attr-defined]
                observer.begin(layer, value, projection)
            for rows, attention, scratch, _ in probabilities(part, pattern, step, self.buffers):
                grouped = attention.view(n_kv, -1, rows.keys).to(value.dtype)
                block = torch.bmm(grouped, value[:, : rows.keys])
                mine[rows.start : rows.stop] = block.view(n_heads, -1, dim).transpose(0, 1)
                if observer is not None:
                    observer.rows(attention, rows, scratch)
            if observer is not None:
                observer.end(layer)
        return out


def _attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Stand in for a model's attention function."""
    unknown = sorted(k for k, v in kwargs.items() if k not in _IGNORED and v is not None)
    if unknown:
        raise CapabilityError(
            f"{type(module).__name__} passes {', '.join(unknown)} to its attention function, which "
            "the attention methods do not know how to apply"
        )
    if dropout:
        raise CapabilityError("attention is read with dropout off; call model.eval() first")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    call = Call(
        query,
        key,
        value,
        attention_mask,
        query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        bool(causal),
        softcap,
        s_aux,
        position_bias,
    )
    call.check()
    session = _sessions.get(module)
    if session is None:
        whole = [(0, query.shape[2])] * len(query)
        session = Session([], whole)
        return session.blocks(call, 0, [None] * len(query)), None
    return session.attend(module, call), None


def _mask(*args: Any, **kwargs: Any) -> torch.Tensor | None:
    """Build a boolean mask, or none for plain causal and plain full attention."""
    from transformers.masking_utils import sdpa_mask

    return sdpa_mask(*args, **kwargs)


def register() -> None:
    """Make the attention function known to transformers; doing it again changes nothing."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(NAME, _attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, _mask)


def has_interface(model: nn.Module) -> bool:
    """Whether the model looks its attention function up by name."""
    check = getattr(type(model), "_can_set_attn_implementation", None)
    return bool(check()) if check is not None else False


def _configs(model: nn.Module) -> list[Any]:
    """Return the distinct configurations of a model and its parts, outermost first."""
    found: dict[int, Any] = {}
    waiting = [getattr(m, "config", None) for m in model.modules()]
    while waiting:
        config = waiting.pop(0)
        if config is None or id(config) in found or not hasattr(config, "_attn_implementation"):
            continue
        found[id(config)] = config
        waiting += [getattr(config, k, None) for k in getattr(config, "sub_configs", {})]
    return list(found.values())


@contextmanager
def attention_function(model: nn.Module, name: str) -> Iterator[None]:
    """Use another attention function inside the block; what was set before comes back after it."""
    configs = _configs(model)
    before = [c._attn_implementation for c in configs]
    try:
        for config in configs:
            config._attn_implementation = name
        yield
    finally:
        for config, old in zip(configs, before, strict=True):
            config._attn_implementation = old


@contextmanager
def capture(model: nn.Module, session: Session) -> Iterator[Session]:
    """Run the model under observation inside the block.

    Blocks on the same model from several threads wait for each other; blocks inside one another
    are allowed, the inner one observes. The model's own attention function is back after the
    block, also after an exception.

    Raises
    ------
    CapabilityError
        The model does not look its attention function up by name.
    """
    if not has_interface(model):
        raise CapabilityError(
            f"{type(model).__name__} has no exchangeable attention function; "
            "load it with attn_implementation='eager' to read its returned attention instead"
        )
    register()
    with _guard:
        lock = _locks.setdefault(model, threading.RLock())
    with lock:
        modules = list(model.modules())
        before = [_sessions.get(m) for m in modules]
        try:
            with attention_function(model, NAME):
                for m in modules:
                    _sessions[m] = session
                yield session
        finally:
            for m, old in zip(modules, before, strict=True):
                if old is None:
                    _sessions.pop(m, None)
                else:
                    _sessions[m] = old


def _matrix(layer: nn.Module | None) -> torch.Tensor | None:
    """Return a linear layer's weight as (inputs, outputs)."""
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, torch.Tensor) or weight.ndim != 2 or not weight.is_floating_point():
        return None
    return weight.detach() if type(layer).__name__ == "Conv1D" else weight.detach().T


def output_projections(model: nn.Module) -> dict[nn.Module, torch.Tensor | None]:
    """Find the output projection of every module that may compute attention."""
    found: dict[nn.Module, torch.Tensor | None] = {}
    for name, module in model.named_modules():
        for known in _PROJECTIONS:
            weight = _matrix(getattr(module, known, None))
            if weight is not None:
                found[module] = weight
                break
        else:
            # BERT and its relatives keep the projection beside the attention module
            if "." in name:
                parent = model.get_submodule(name.rpartition(".")[0])
                weight = _matrix(getattr(getattr(parent, "output", None), "dense", None))
                if weight is not None and "ttention" in type(module).__name__:
                    found[module] = weight
    return found


@contextmanager
def watch_inputs(model: nn.Module, session: Session) -> Iterator[None]:
    """Keep the input of the attention module that is running in ``session.inputs``."""

    def keep(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        hidden = kwargs.get("hidden_states", args[0] if args else None)
        session.inputs = hidden.detach() if isinstance(hidden, torch.Tensor) else None

    hooks = [m.register_forward_pre_hook(keep, with_kwargs=True) for m in output_projections(model)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def base_of(model: nn.Module) -> nn.Module:
    """Return the model without its head, or raise for encoder-decoder models."""
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        raise CapabilityError(
            f"{type(model).__name__} is an encoder-decoder; attention methods need a decoder-only "
            "or encoder-only model"
        )
    return getattr(model, "base_model", model)


def estimate_bytes(
    config: Any,
    n_tokens: int,
    batch_size: int = 1,
    methods: Sequence[str] = ("raw",),
    options: AttentionOptions | None = None,
    element_bytes: int = 4,
    n_words: int | None = None,
    causal: bool = True,
    returned: bool = False,
) -> int:
    """Estimate the peak memory above the loaded model, before the model runs.

    Parameters
    ----------
    config
        The model's configuration.
    n_tokens
        Length of the longest text.
    batch_size
    methods
        Names of attention methods.
    options
    element_bytes
        Size of one number of the model.
    n_words
        Number of words; `n_tokens` where it is not known.
    causal
        Rollout of a causal model is multiplied in place.
    returned
        The model returns its maps (it has no exchangeable attention function).
    """
    options = options or AttentionOptions()
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    hidden = int(getattr(text, "hidden_size", 0) or 768)
    heads = int(getattr(text, "num_attention_heads", 0) or 12)
    layers = int(getattr(text, "num_hidden_layers", 0) or 12)
    inner = int(getattr(text, "intermediate_size", 0) or 4 * hidden)
    vocabulary = int(getattr(text, "vocab_size", 0) or 0)
    t, w = n_tokens, n_tokens if n_words is None else n_words
    rows = block_rows(heads, t, options.chunk)
    total = batch_size * t * (10 * hidden + 4 * inner) * element_bytes
    total += 3 * heads * t * t * element_bytes if returned else 0
    total += 4 * heads * rows * t * 4
    total += batch_size * (t * t if batch_size > 1 else 0)
    total += batch_size * 6 * heads * (t + w) * 4 + rows * w * 8
    total += batch_size * layers * heads * w * 4 * len(methods)
    if "rollout" in methods:
        total += batch_size * t * t * 4 * (1 if causal else 2)
    if {"flow", "token_tm"} & set(methods):
        kept = layers if "flow" in methods else 0
        total += batch_size * t * t * 4 * (kept + (2 if "token_tm" in methods else 0))
    if "effective_attention" in methods:  # running products of the values, two blocks of rows
        total += 4 * rows * (hidden // heads) ** 2 * 8 + 2 * heads * rows * t * 8
    if "value_norm" in methods:
        total += heads * heads * t * 4 + heads * t * hidden // heads * 8
    if {"grad_attention", "input_gradient", "input_gradient_signed"} & set(methods):
        total += batch_size * t * element_bytes * (layers * hidden + 14 * hidden + 6 * inner)
        total += 3 * 64 * vocabulary * 4
    return int(total)


def available_bytes(device: torch.device | str = "cpu") -> int | None:
    """Return the free memory of a device, or None where it cannot be read."""
    device = torch.device(device)
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import psutil
    except ImportError:
        return None
    return int(psutil.virtual_memory().available)


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


def release_memory() -> None:
    """Give freed memory back to the system, where the C library can do that.

    The GNU allocator keeps freed blocks of a layer and often cannot use them for the aligned
    blocks of the next one; without this the process grows by several times what is in use.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


def check_memory(needed: int, device: torch.device | str = "cpu", what: str = "") -> None:
    """Raise where a run needs more memory than is free; warn above nine tenths of it.

    The variable ``GAZEATTN_SKIP_MEMORY_CHECK=1`` turns the error into a warning.
    """
    free = available_bytes(device)
    if free is None or needed <= 0.9 * free:
        return
    text = (
        f"{what or 'this run'} needs about {needed / 1e9:.2f} GB above the loaded model and "
        f"{free / 1e9:.2f} GB are free; use shorter windows, a smaller batch, or fewer methods "
        "(rollout needs one map of tokens x tokens)"
    )
    if needed > free and os.environ.get("GAZEATTN_SKIP_MEMORY_CHECK") != "1":
        raise CapabilityError(text)
    warnings.warn(text, ResourceWarning, stacklevel=3)
