"""Adds scores to the attention of chosen blocks, whatever kernel the model runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gazeattn.errors import CapabilityError, DataError
from gazeattn.models.gaze_prior.base import CodeBatch, GazePrior

FLOOR = 1e-3
"""Share of even gaze that the least looked-at token counts as: scores stay finite."""


def with_scores(
    mask: Tensor | None, scores: Tensor, rows: Tensor, n_queries: int, causal: bool
) -> Tensor:
    """Return an additive mask with scores on some keys, for some queries.

    Parameters
    ----------
    mask : Tensor or None
        As the model made it: boolean, additive, or None (all, or all before, can be seen).
    scores : Tensor, shape (batch, heads or 1, n_keys)
    rows : Tensor of bool, shape (batch, n_queries)
        Queries that the scores are for.
    n_queries
    causal
        What None means.

    Returns
    -------
    Tensor of float, shape (batch, heads or 1, n_queries, n_keys)
    """
    n_keys = scores.shape[-1]
    added = scores[:, :, None] * rows[:, None, :, None]
    low = torch.finfo(added.dtype).min
    if mask is None:
        seen = torch.ones(n_queries, n_keys, dtype=torch.bool, device=scores.device)
        if causal:
            seen = seen.tril(n_keys - n_queries)
        return added.masked_fill(~seen, low)
    mask = mask[..., :n_keys]
    if mask.dtype == torch.bool:
        return added.masked_fill(~mask, low)
    hidden = mask <= torch.finfo(mask.dtype).min / 2
    return (added + mask.to(added.dtype)).masked_fill(hidden, low)


class BiasedAttention(GazePrior):
    """A prior that works on the scores of attention in some blocks.

    Parameters
    ----------
    layers
        Numbers of the blocks.
    causal
        Whether it stands in a decoder: queries from the end of the prompt on are reached there,
        those at code tokens in an encoder.
    """

    place: ClassVar[str] = "attention"

    def __init__(self, layers: Sequence[int], causal: bool = True) -> None:
        super().__init__()
        self.layers, self.causal = [int(k) for k in layers], bool(causal)
        if not self.layers or len(set(self.layers)) < len(self.layers):
            raise DataError("blocks whose attention is changed", expected="each once", found=layers)

    def hooks(self, model: nn.Module) -> list[Any]:
        """Stand before the chosen blocks; return the handles.

        Raises
        ------
        CapabilityError
            The blocks are given no mask that could be changed.
        DataError
            There is no such block.
        """
        from gazeattn.models.gaze_prior.attach import place_of

        handles = []
        for k in self.layers:
            name, number = place_of(model, k)
            block = model.get_submodule(name)
            heads = _heads(model)
            handles.append(
                block.register_forward_pre_hook(self._before(number, heads), with_kwargs=True)
            )
        return handles

    def _before(self, layer: int, heads: int) -> Any:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if self.told is None:
                return None
            states = args[0] if args else kwargs["hidden_states"]
            told = self.told.repeated(len(states))
            n, known = states.shape[1], told.code.shape[1]
            first = n >= known
            if first:
                self.read(layer, states, told)
            scores = self.scores(layer, heads, told, states.dtype)
            if scores is None:
                return None
            given = args[1] if len(args) > 1 else kwargs.get("attention_mask")
            keys = _n_keys(given, kwargs, n, layer)
            scores = nn.functional.pad(scores, (0, keys - scores.shape[-1]))
            rows = torch.ones(len(states), n, dtype=torch.bool, device=states.device)
            if first and self.causal:
                rows = torch.arange(n, device=states.device) >= told.start[:, None]
            elif first:
                rows = nn.functional.pad(told.code, (0, n - known))
            made = with_scores(given, scores, rows, n, self.causal)
            if len(args) > 1:
                return (args[0], made, *args[2:]), kwargs
            return args, {**kwargs, "attention_mask": made}

        return hook

    def read(self, layer: int, states: Tensor, told: CodeBatch) -> None:
        """Take in the states before a block, in the pass over the prompt."""

    def scores(self, layer: int, heads: int, told: CodeBatch, dtype: torch.dtype) -> Tensor | None:
        """Return what is added for each head and token, (batch, heads or 1, length), or None."""
        raise NotImplementedError


def _heads(model: nn.Module) -> int:
    config = getattr(model, "config", None)
    found = getattr(config, "num_attention_heads", None)
    if not isinstance(found, int):
        raise CapabilityError(f"{type(model).__name__} does not say how many heads it has")
    return found


def _n_keys(mask: Tensor | None, kwargs: dict[str, Any], n: int, layer: int) -> int:
    """Return how many keys the queries meet: those of the cache and their own."""
    if mask is not None:
        return int(mask.shape[-1])
    for name in ("cache", "past_key_values"):
        cache = kwargs.get(name)
        if cache is not None:
            return int(cache.get_seq_length(layer)) + n
    return n


def relative(log_g: Tensor, code: Tensor, floor: float = FLOOR) -> Tensor:
    """Return log(n g) on the code, 0 elsewhere: 0 where gaze is even, at least log(floor)."""
    n = code.sum(1, keepdim=True).clamp_min(1)
    ratio = log_g.masked_fill(~code, 0).exp() * n
    return ratio.clamp_min(floor).log().masked_fill(~code, 0)
