"""The working memory of HAT: attention over what was seen, for many prefixes at once."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gazeattn.errors import DataError


class Attention(nn.Module):
    """The projections of multi-head attention, in the layout of `torch.nn.MultiheadAttention`."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise DataError("heads must divide the width", found=f"{width} / {heads}")
        self.heads = heads
        self.in_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_bias = nn.Parameter(torch.zeros(3 * width))
        self.output = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.in_weight)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def over(self, x: Tensor, extra: Tensor, seen: Tensor) -> Tensor:
        """Return self-attention; `extra` is added for queries and keys, not for values.

        Parameters
        ----------
        x, extra : Tensor, shape (batch, tokens, width)
        seen : Tensor of bool, shape (batch, tokens)
            Tokens that are there.
        """
        width = x.shape[-1]
        weight, bias = self.in_weight, self.in_bias
        both = F.linear(x + extra, weight[: 2 * width], bias[: 2 * width])
        q, k = (self._split(t) for t in both.chunk(2, -1))
        v = self._split(F.linear(x, weight[2 * width :], bias[2 * width :]))
        read = F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None, None])
        return self.output(read.transpose(1, 2).flatten(-2))

    def one(self, query: Tensor, memory: Tensor, extra: Tensor, seen: Tensor) -> Tensor:
        """Return what a single query per row reads; equal to attention with full projections.

        The key projection is moved to the query and the value projection behind the sum, since
        ``q . (W m) = (W' q) . m``: no projection of the memory. A key bias adds the same to all
        scores of a query and drops out.

        Parameters
        ----------
        query : Tensor, shape (batch, width)
        memory, extra : Tensor, shape (batch, tokens, width)
        seen : Tensor of bool, shape (batch, tokens)
        """
        width = query.shape[-1]
        size = width // self.heads
        wq, wk, wv = self.in_weight.view(3, width, width)
        bq, _, bv = self.in_bias.view(3, width)
        q = F.linear(query, wq, bq).unflatten(-1, (self.heads, size)) * size**-0.5
        looked = torch.einsum("bhs,hsd->bhd", q, wk.view(self.heads, size, width))
        scores = looked @ (memory + extra).transpose(1, 2)
        share = scores.masked_fill(~seen[:, None], float("-inf")).softmax(-1)
        read = torch.einsum("bhd,hsd->bhs", share @ memory, wv.view(self.heads, size, width))
        return self.output(read.flatten(-2) + bv)


class Layer(nn.Module):
    """Attention and a feed-forward part, each normed after the sum."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1 = nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, hidden)
        self.linear2 = nn.Linear(hidden, width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def _forward_part(self, x: Tensor) -> Tensor:
        hidden = self.dropout(F.relu(self.linear1(x)))
        return self.norm2(x + self.dropout(self.linear2(hidden)))


class Mixing(Layer):
    """A layer in which tokens see each other."""

    def forward(self, x: Tensor, extra: Tensor, seen: Tensor) -> Tensor:
        """Return the tokens after self-attention; see `Attention.over`."""
        read = self.dropout(self.attention.over(x, extra, seen))
        return self._forward_part(self.norm1(x + read))


class Reading(Layer):
    """A layer in which a single query per row reads a memory."""

    def forward(self, query: Tensor, memory: Tensor, extra: Tensor, seen: Tensor) -> Tensor:
        """Return the query after attention to the memory; see `Attention.one`."""
        read = self.dropout(self.attention.one(query, memory, extra, seen))
        return self._forward_part(self.norm1(query + read))


class MLP(nn.Module):
    """Linear layers with ReLU between them."""

    def __init__(self, inputs: int, hidden: int, outputs: int, layers: int = 3) -> None:
        super().__init__()
        sizes = [inputs, *[hidden] * (layers - 1), outputs]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """Return the last layer's output, (..., outputs)."""
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)
