"""What all gaze priors share: the batch they are told of, the loss of gaze, plain arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gazeattn.errors import DataError


@dataclass(frozen=True)
class CodeBatch:
    """Which tokens of a batch are code, and where its prompts end.

    Attributes
    ----------
    code : Tensor of bool, shape (batch, length)
        Tokens of the code. `length` is that of the prompts, or of prompts and summaries.
    start : Tensor of int64, shape (batch,)
        Place of the last token of each prompt. From there on all code has been read.
    weights : Tensor of float32, shape (batch, length), optional
        Gaze that is given, not predicted: shares over the code tokens.
    """

    code: Tensor
    start: Tensor
    weights: Tensor | None = None

    def check(self) -> None:
        """Raise where code stands behind the end of its prompt, or shapes differ.

        Raises
        ------
        DataError
        """
        batch, length = self.code.shape
        if self.code.dtype != torch.bool or self.start.shape != (batch,):
            raise DataError(
                "code is a mask (batch, length) of bool with one start each",
                found=(self.code.dtype, tuple(self.code.shape), tuple(self.start.shape)),
            )
        if bool((self.start < 0).any()) or bool((self.start >= length).any()):
            raise DataError("the last token of a prompt", expected=f"0 to {length - 1}",
                            found=self.start.tolist())  # fmt: skip
        late = self.code & (torch.arange(length, device=self.code.device) > self.start[:, None])
        if bool(late.any()):
            raise DataError("code stands behind the end of its prompt", found=late.nonzero()[0])
        if self.weights is not None and self.weights.shape != self.code.shape:
            raise DataError("one weight per token", expected=tuple(self.code.shape),
                            found=tuple(self.weights.shape))  # fmt: skip

    def repeated(self, rows: int) -> CodeBatch:
        """Return the batch for `rows` sequences: beams of one prompt stand beside each other.

        Raises
        ------
        DataError
            `rows` is no multiple of the batch.
        """
        n = len(self.code)
        if rows == n:
            return self
        if not n or rows % n:
            raise DataError(
                "the model runs another batch than it was told of",
                expected=f"{n} sequences, or as many beams of each",
                found=rows,
            )
        weights = self.weights
        return CodeBatch(
            self.code.repeat_interleave(rows // n, 0),
            self.start.repeat_interleave(rows // n, 0),
            None if weights is None else weights.repeat_interleave(rows // n, 0),
        )

    def padded(self, length: int) -> CodeBatch:
        """Return the batch for sequences of `length` tokens: what is behind it is no code."""
        more = (0, length - self.code.shape[1])
        weights = self.weights
        return CodeBatch(
            nn.functional.pad(self.code, more),
            self.start,
            None if weights is None else nn.functional.pad(weights, more),
        )

    def shares(self) -> Tensor:
        """Return the weights as shares over the code tokens, (batch, length); 0 elsewhere.

        Raises
        ------
        DataError
            There are none, or some are negative or missing.
        """
        if self.weights is None:
            raise DataError("gaze is given by the batch, and it has none", expected="weights=")
        weights = self.weights.float().masked_fill(~self.code, 0)
        if bool((weights < 0).any()) or bool(weights.isnan().any()):
            raise DataError("weights of gaze", expected="0 or more, none missing")
        return weights / weights.sum(1, keepdim=True).clamp_min(1e-12)

    def mean_state(self, states: Tensor) -> Tensor:
        """Return the mean state of the code tokens, (batch, 1, width), in float32."""
        share = self.code / self.code.sum(1, keepdim=True).clamp_min(1)
        return torch.einsum("bt,btd->bd", share, states.float())[:, None]


class GazePrior(nn.Module):
    """A module that brings gaze into a model; one of a kind per subclass.

    Attributes
    ----------
    place : str
        Where it works: ``"block"`` (on the output of a block), ``"attention"`` (on the scores of
        attention), ``"embeddings"`` or ``"loss"``.
    log_g : Tensor or None, shape (batch, length)
        Logarithm of the gaze at the end of the prompts in the last forward pass.
    """

    place: ClassVar[str] = "block"
    causal: bool = True

    def __init__(self) -> None:
        super().__init__()
        self.log_g: Tensor | None = None
        self.told: CodeBatch | None = None

    def arguments(self) -> dict[str, Any]:
        """Return what the constructor needs to make the module again, plain values."""
        raise NotImplementedError

    def begin(self, batch: CodeBatch) -> None:
        """Take in what is known of the next batch."""
        batch.check()
        self.told = batch
        self.log_g = None

    def end(self) -> None:
        """Forget the batch: without one, the module does nothing."""
        self.told = None

    def gaze_loss(self, target: Tensor, has: Tensor | None = None) -> Tensor:
        """Return KL(target || gaze) of the last forward pass, mean over sequences that have it.

        Parameters
        ----------
        target : Tensor, shape (batch, length)
            Shares over the code tokens, sum 1; 0 off the code.
        has : Tensor of bool, shape (batch,), optional
            Sequences with a target.

        Raises
        ------
        DataError
            There was no forward pass, or the target has mass off the code.
        """
        if self.log_g is None or self.told is None:
            raise DataError("no gaze was predicted", hint="run the model inside `code`")
        return kl_from_log(target, self.log_g, self.told.code, has)


def kl_each(target: Tensor, log_g: Tensor, code: Tensor) -> Tensor:
    """Return sum_s a_s (log a_s - log g_s) of each sequence, (batch,)."""
    if bool((target.masked_fill(code, 0) != 0).any()):
        raise DataError("a target of gaze has mass off the code")
    a = target.float()
    return (torch.xlogy(a, a) - a * log_g.masked_fill(~code, 0)).sum(1)


def kl_from_log(target: Tensor, log_g: Tensor, code: Tensor, has: Tensor | None = None) -> Tensor:
    """Return the mean of sum_s a_s (log a_s - log g_s) over sequences with a target."""
    each = kl_each(target, log_g, code)
    chosen = code.any(1) if has is None else has & code.any(1)
    if not bool(chosen.any()):
        return each.sum() * 0
    return each[chosen].mean()


def fixed_prior(kind: str, code: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Return the logarithm of gaze that no state tells, (batch, length); -inf off the code.

    Parameters
    ----------
    kind
        ``"uniform"``; ``"recency"``: falls by half over each tenth of the code, from its end;
        ``"length"``: like the letters of each token.
    code : Tensor of bool, shape (batch, length)
    lengths : Tensor, shape (batch, length), optional
        Letters of each token.
    """
    from gazeattn.models.gaze_prior.mixture import code_positions, masked_log_softmax

    position, _ = code_positions(code)
    if kind == "uniform":
        score = torch.zeros_like(position)
    elif kind == "recency":
        score = 10 * position * float(torch.log(torch.tensor(2.0)))
    elif kind == "length":
        if lengths is None:
            raise DataError("a prior of length needs the letters of the tokens",
                            hint="weights= of the batch")  # fmt: skip
        score = lengths.float().clamp_min(0.1).log()
    else:
        raise DataError("prior of gaze", expected=", ".join(PRIORS), found=kind)
    return masked_log_softmax(score, code)


PRIORS: Sequence[str] = ("learned", "uniform", "recency", "length", "given")
