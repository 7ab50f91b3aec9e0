"""What the networks over frozen vectors of a language model share."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from gazeattn.datamodules.reading_batches import ReadingBatch
from gazeattn.errors import DataError
from gazeattn.models.reading.base import at_fixations


def vector_width(widths: Mapping[str, int]) -> int:
    """Return the width of the language model's vectors.

    Raises
    ------
    DataError
        There are none.
    """
    width = int(widths.get("vectors", 0))
    if width < 1:
        raise DataError(
            "the model reads vectors of a language model, and there are none",
            expected="widths with vectors", found=dict(widths),
            hint="name an encoder: encoder=minilm",
        )  # fmt: skip
    return width


class FixatedWords(nn.Module):
    """What stands at the words of the fixations, with a learned vector off the text.

    Parameters
    ----------
    width
        Of what stands at a word.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.off_text = nn.Parameter(0.02 * torch.randn(width))

    def forward(self, words: Tensor, batch: ReadingBatch) -> Tensor:
        """Return (batch, length, width) of words (batch, n_words, width); 0 in padding."""
        on_text = (batch.word >= 0)[..., None]
        own = self.off_text * batch.mask[..., None]
        return torch.where(on_text, at_fixations(words, batch), own)


def run_recurrent(
    net: nn.RNNBase, values: Tensor, lengths: Tensor, start: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Run a recurrent network over sequences of unlike length; padding is never seen.

    Parameters
    ----------
    net
        With ``batch_first=True``.
    values : Tensor, shape (batch, length, k)
    lengths : Tensor of int64, shape (batch,)
        A sequence of length 0 counts as one step of zeros.
    start : Tensor, shape (layers, batch, hidden), optional
        First state.

    Returns
    -------
    outputs : Tensor, shape (batch, length, directions * hidden)
        0 in padding.
    last : Tensor, shape (batch, directions * hidden)
        State of the top layer after the last real step of each direction.
    """
    n, length, width = values.shape
    if not length:
        values = values.new_zeros(n, 1, width)
    empty = lengths < 1
    values = values.masked_fill(empty[:, None, None], 0)
    packed = pack_padded_sequence(
        values, lengths.clamp_min(1).cpu(), batch_first=True, enforce_sorted=False
    )
    out, state = net(packed) if start is None else net(packed, start)
    hidden = state[0] if isinstance(state, tuple) else state
    outputs, _ = pad_packed_sequence(out, batch_first=True, total_length=values.shape[1])
    directions = 2 if net.bidirectional else 1
    last = hidden[-directions:].transpose(0, 1).reshape(n, -1)
    return outputs.masked_fill(empty[:, None, None], 0)[:, :length], last


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return weights over the last axis where `mask` holds; all 0 where it holds nowhere."""
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return filled.softmax(-1) * mask


def token_vectors(batch: ReadingBatch) -> Tensor:
    """Return the vectors of the tokens of each distinct text, exactly 0 in padding."""
    return batch.vectors.masked_fill(~batch.token_mask[..., None], 0)
