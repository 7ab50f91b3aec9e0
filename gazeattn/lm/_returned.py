"""Attention of models without an exchangeable attention function.

Such models return their maps. Hooks take each layer's map as soon as it exists, reduce it and
put an empty tensor in its place, so that the maps of all layers are never held together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from gazeattn.errors import CapabilityError
from gazeattn.lm._blocks import block_rows
from gazeattn.lm._plan import Rows
from gazeattn.lm._reduce import Observer
from gazeattn.lm.batches import Batch
from gazeattn.lm.capture import attention_function


def _is_map(x: Any, n_tokens: int) -> bool:
    if not isinstance(x, torch.Tensor) or x.ndim != 4 or not x.is_floating_point():
        return False
    if x.shape[0] != 1 or x.shape[-2:] != (n_tokens, n_tokens):
        return False
    rows = x[0, :, -1].float().sum(-1)
    return bool((x[0, :, -1] >= 0).all()) and bool((rows - 1).abs().max() < 1e-2)


class _Reader:
    def __init__(self, observer: Observer, n_tokens: int, chunk: int | None) -> None:
        self.observer, self.n_tokens, self.chunk = observer, n_tokens, chunk
        self.layers = 0

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        if not isinstance(output, tuple):
            return None
        at = [i for i, x in enumerate(output) if _is_map(x, self.n_tokens)]
        if not at:
            return None
        self._reduce(output[at[0]][0].detach())
        empty = output[at[0]].new_zeros(0)
        return tuple(empty if i in at else x for i, x in enumerate(output))

    def _reduce(self, maps: torch.Tensor) -> None:
        n_heads, n, _ = maps.shape
        causal = n > 1 and not bool(maps.triu(1).any())
        self.observer.begin(self.layers, None, None)
        step = block_rows(n_heads, n, self.chunk, maps.device.type)
        starts = range(0, n, step)
        for start in reversed(starts) if causal else starts:
            stop = min(start + step, n)
            keys = stop if causal else n
            block = maps[:, start:stop, :keys].float().contiguous()
            rows = Rows(start, stop, keys, causal, causal)
            self.observer.rows(block, rows, torch.empty_like(block))
        self.observer.end(self.layers)
        self.layers += 1


@torch.no_grad()
def run_returned(
    model: nn.Module, batches: Sequence[Batch], observers: Sequence[Observer], chunk: int | None
) -> None:
    """Run texts one by one and feed their returned maps to the observers.

    Raises
    ------
    CapabilityError
        The model returns no attention.
    """
    for batch, observer in zip(batches, observers, strict=True):
        reader = _Reader(observer, batch.inputs["input_ids"].shape[1], chunk)
        hooks = [m.register_forward_hook(reader) for m in model.modules() if m is not model]
        try:
            with attention_function(model, "eager"):
                model(**batch.inputs, output_attentions=True)
        except TypeError as error:
            if "output_attentions" not in str(error):
                raise
        finally:
            for hook in hooks:
                hook.remove()
        if not reader.layers:
            raise CapabilityError(
                f"{type(model).__name__} returned no attention maps. If it has attention, load it "
                "with attn_implementation='eager'; models without attention layers (state-space "
                "and recurrent ones) can only be used with input_gradient and surprisal"
            )
