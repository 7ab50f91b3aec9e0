"""What has been looked at so far as one vector per step: recurrent or by attention.

Both take events (batch, length, inputs) and return contexts (batch, length + 1, width): context i
knows events 0..i-1 and nothing else, context 0 is learned. Padding stands at the end of a
sequence, so causality alone keeps it out of every context that is used.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["GRUHistory", "TransformerHistory", "sinusoid"]


def sinusoid(times: Tensor, width: int) -> Tensor:
    """Return the sine and cosine code of times, (..., width), as in Zuo et al. (2020).

    Even entries are sines and odd ones cosines of the time over 10000^(2 floor(i / 2) / width).
    """
    at = torch.arange(width, device=times.device)
    angle = times[..., None] / 10000.0 ** (2 * (at // 2) / width)
    return torch.where(at % 2 == 0, angle.sin(), angle.cos())


class GRUHistory(nn.Module):
    """Gated recurrent units over the events.

    Parameters
    ----------
    inputs, width
        Values of an event; units.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(width))
        self.rnn = nn.GRU(inputs, width, batch_first=True)

    def forward(self, events: Tensor, times: Tensor) -> Tensor:
        """Return contexts, (batch, length + 1, width), of events (batch, length, inputs)."""
        first = self.start.expand(len(events), 1, -1)
        return first if events.shape[1] == 0 else torch.cat([first, self.rnn(events)[0]], 1)

    def step(self, event: Tensor, time: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Return the context after one more event (batch, inputs), and the state for the next."""
        out, state = self.rnn(event[:, None], state)
        return out[:, 0], state


class TransformerHistory(nn.Module):
    """Self-attention over the events, then an LSTM with a projection (Zuo et al. 2020).

    Attention runs over the events of one sequence (not over the batch) and never forward in time.

    Parameters
    ----------
    inputs
        Values of an event; the first one enters by its time code alone, as published.
    width, layers, heads, inner, dropout
        Of the encoder.
    """

    def __init__(
        self,
        inputs: int,
        width: int,
        layers: int = 4,
        heads: int = 4,
        inner: int = 1024,
        dropout: float = 0.4,
    ) -> None:
        super().__init__()
        self.width = width
        self.start = nn.Parameter(torch.zeros(width))
        self.marks = nn.Linear(inputs - 1, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, inner, dropout, batch_first=True)
            for _ in range(layers)
        )
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.projection = nn.Linear(width, width)

    def forward(self, events: Tensor, times: Tensor) -> Tensor:
        """Return contexts, (batch, length + 1, width).

        Parameters
        ----------
        events : Tensor, shape (batch, length, inputs)
        times : Tensor, shape (batch, length)
            What the sine code, added before every layer, is made of.
        """
        first = self.start.expand(len(events), 1, -1)
        length = events.shape[1]
        if length == 0:
            return first
        code = sinusoid(times, self.width)
        later = torch.ones(length, length, dtype=torch.bool, device=events.device).triu(1)
        out = self.marks(events[..., 1:])
        for layer in self.layers:
            out = layer(out + code, src_mask=later)
        return torch.cat([first, self.projection(self.rnn(out)[0])], 1)

    def step(self, event: Tensor, time: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Return the context after one more event; the state is the events so far."""
        events, times = event[:, None], time[:, None]
        if state is not None:
            events, times = torch.cat([state[0], events], 1), torch.cat([state[1], times], 1)
        return self(events, times)[:, -1], (events, times)
