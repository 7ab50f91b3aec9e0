"""Attention probabilities, a block of query rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from gazeattn.errors import CapabilityError
from gazeattn.lm._plan import Rows

BLOCK_BYTES = {"cpu": 16 << 20, "cuda": 256 << 20}
"""Size of one float32 block: large enough to keep threads busy, small against a layer."""


def block_rows(
    n_heads: int, n_tokens: int, chunk: int | None = None, device: str = "cpu", share: int = 1
) -> int:
    """Return the number of query rows per block, `share` blocks being in use at a time."""
    if chunk is not None:
        return min(chunk, max(n_tokens, 1))
    size = BLOCK_BYTES.get(device, BLOCK_BYTES["cpu"]) // share
    fit = size // (4 * n_heads * max(n_tokens, 1))
    return max(16, min(256, fit // 16 * 16))


class Buffers:
    """Memory that is used again from block to block and from layer to layer."""

    def __init__(self) -> None:
        self._flat: dict[tuple[str, torch.dtype, torch.device], torch.Tensor] = {}

    def get(
        self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """Return an uninitialised, contiguous tensor."""
        n = 1
        for s in shape:
            n *= s
        flat = self._flat.get((name, dtype, device))
        if flat is None or flat.numel() < n:
            flat = torch.empty(n, dtype=dtype, device=device)
            self._flat[name, dtype, device] = flat
        return flat[:n].view(shape)


@dataclass
class Pattern:
    """Which keys the queries of one text can see.

    Attributes
    ----------
    causal : bool
        Exactly the keys up to the query.
    lower : bool
        No key after the query.
    visible : Tensor or None
        Boolean (n_tokens, n_tokens) where neither causal nor full.
    bias : Tensor or None
        Added to the scores, (1 or heads, n_tokens, n_tokens), where it is more than a pattern.
    """

    causal: bool = False
    lower: bool = False
    visible: torch.Tensor | None = None
    bias: torch.Tensor | None = None


def read_mask(mask: torch.Tensor) -> Pattern:
    """Find the pattern in a mask (1 or heads, n_tokens, n_tokens), boolean or additive."""
    bias = None
    if mask.dtype == torch.bool:
        visible = mask.any(0)
        if len(mask) > 1 and not bool((mask == visible).all()):
            bias = torch.where(mask, 0.0, torch.finfo(torch.float32).min)
    else:
        seen = mask > torch.finfo(mask.dtype).min / 2
        visible = seen.any(0)
        pure = bool((seen == visible).all()) and not bool((mask * seen).any())
        bias = None if pure else mask
    n = visible.shape[-1]
    lower = not bool(visible.triu(1).any())
    if lower and bool((visible | visible.new_ones(n, n).triu(1)).all()):
        return Pattern(causal=True, lower=True, bias=bias)
    if bool(visible.all()):
        return Pattern(bias=bias)
    return Pattern(lower=lower, visible=visible, bias=bias)


@dataclass
class Call:
    """What a model passes to its attention function, for one layer and the whole batch.

    Attributes
    ----------
    query : Tensor, shape (batch, heads, n_tokens, d)
    key, value : Tensor, shape (batch, kv_heads, n_tokens, d)
    mask : Tensor or None
    scale : float
    causal : bool
        Used where there is no mask.
    softcap : float or None
        Scores are ``softcap * tanh(scores / softcap)``.
    sinks : Tensor or None
        One learned score per head that takes mass in every row.
    bias : Tensor or None
        Position bias, added to the scores.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    scale: float
    causal: bool
    softcap: float | None = None
    sinks: torch.Tensor | None = None
    bias: torch.Tensor | None = None

    def check(self) -> None:
        """Raise for shapes that are not self-attention over one whole text."""
        q, k = self.query.shape[-2], self.key.shape[-2]
        if q != k:
            raise CapabilityError(
                f"attention of {q} queries over {k} keys: cross-attention and generation with a "
                "cache are not supported; run the whole text at once with use_cache=False"
            )
        if self.query.shape[1] % self.key.shape[1]:
            raise CapabilityError(
                f"{self.query.shape[1]} query heads cannot be shared among {self.key.shape[1]} "
                "key/value heads"
            )

    def slice(self, item: int, start: int, stop: int) -> Call:
        """Return the call for one text and its real tokens, without the batch axis."""
        mask = self.mask
        if mask is not None:
            mask = mask[min(item, len(mask) - 1)][:, start:stop, start:stop]
        bias = self.bias
        if bias is not None:
            bias = bias[min(item, len(bias) - 1)][:, start:stop, start:stop]
        query, key, value = (x[item, :, start:stop] for x in (self.query, self.key, self.value))
        return Call(
            query, key, value, mask, self.scale, self.causal, self.softcap, self.sinks, bias
        )


def is_plain(call: Call, pattern: Pattern) -> bool:
    """Tell whether `fused` computes the call: causal or full attention, nothing added to it."""
    added = (call.softcap, call.sinks, call.bias, pattern.visible, pattern.bias)
    return all(part is None for part in added)


def fused(call: Call, pattern: Pattern) -> torch.Tensor:
    """Return the output of one text, (heads, n_tokens, d), where nobody looks at the attention."""
    shared = call.query.shape[0] // call.key.shape[0]
    key, value = (x.repeat_interleave(shared, 0)[None] for x in (call.key, call.value))
    return torch.nn.functional.scaled_dot_product_attention(
        call.query[None], key, value, is_causal=pattern.causal, scale=call.scale
    )[0]


def probabilities(
    call: Call, pattern: Pattern, step: int, buffers: Buffers, with_slope: bool = False
) -> Iterator[tuple[Rows, torch.Tensor, torch.Tensor, torch.Tensor | None]]:
    """Yield blocks of attention of one text.

    Parameters
    ----------
    call
        Without the batch axis (see `Call.slice`).
    pattern
    step
        Rows per block.
    buffers
    with_slope
        Also yield the derivative of the soft cap.

    Yields
    ------
    rows : Rows
    attention : Tensor, shape (heads, rows, keys), float32
        Lives in a buffer: overwritten by the next block.
    scratch : Tensor
        Of the same shape, free to use.
    slope : Tensor or None
    """
    n_heads, n, _ = call.query.shape
    n_kv = call.key.shape[0]
    key = call.key.contiguous()
    query = call.query * call.scale
    dtype, device = query.dtype, query.device
    lowest = torch.finfo(dtype).min
    starts = range(0, n, step)
    for start in reversed(starts) if pattern.lower else starts:
        stop = min(start + step, n)
        keys = stop if pattern.lower else n
        m = stop - start
        scores = buffers.get("scores", (n_heads, m, keys), dtype, device)
        torch.bmm(
            query[:, start:stop].reshape(n_kv, -1, query.shape[-1]),
            key[:, :keys].transpose(1, 2),
            out=scores.view(n_kv, -1, keys),
        )
        slope = None
        if call.softcap is not None:
            scores.div_(call.softcap).tanh_()
            slope = 1 - scores.square() if with_slope else None
            scores.mul_(call.softcap)
        if call.bias is not None:
            scores += call.bias[:, start:stop, :keys]
        if pattern.bias is not None:
            scores += pattern.bias[:, start:stop, :keys]
        visible = None
        if pattern.causal:
            later = torch.ones(m, m, dtype=torch.bool, device=device).triu_(1)
            scores[:, :, start:stop].masked_fill_(later, lowest)
        elif pattern.visible is not None:
            visible = pattern.visible[start:stop, :keys]
            scores.masked_fill_(~visible, lowest)
        attention = buffers.get("attention", (n_heads, m, keys), torch.float32, device)
        torch.softmax(scores, -1, dtype=torch.float32, out=attention)
        if call.sinks is not None:
            rest = torch.logsumexp(scores.float(), -1) - call.sinks.float().reshape(-1, 1)
            attention *= rest.sigmoid_()[..., None]
        if dtype == torch.float32:
            scratch = scores
        else:
            scratch = buffers.get("scratch", (n_heads, m, keys), torch.float32, device)
        yield (
            Rows(start, stop, keys, pattern.causal, pattern.lower, visible),
            attention,
            scratch,
            slope,
        )
