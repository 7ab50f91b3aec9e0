"""Pairs of code and summary, and readings of code, as batches of a language model's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from gazeattn.datamodules.code_gaze import CodeReading, subword_mass, subword_target
from gazeattn.datamodules.code_prompts import CodePrompt, code_prompt
from gazeattn.datamodules.scanpaths import BatchSampler, Positions
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

STEP = "code_summaries"
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SummaryExample:
    """A prompt with code, and the tokens of its summary with their end.

    Attributes
    ----------
    id : str
    prompt : CodePrompt
    letters : ndarray of float32, shape (length of the prompt,)
        Letters of each code token that are no white space.
    summary : ndarray of int64
        Tokens to be written, the end of the text last.
    text, code : str
    """

    id: str
    prompt: CodePrompt
    letters: NDArray[np.float32]
    summary: Ints
    text: str
    code: str = ""


@dataclass(frozen=True)
class GazeExample:
    """A prompt with code, and one reading of it.

    Attributes
    ----------
    id : str
    prompt : CodePrompt
    letters : ndarray of float32, shape (length of the prompt,)
    target : ndarray of float32, shape (length of the prompt,)
        Shares of the time on code tokens, sum 1.
    stimulus : str
        Name of the code.
    """

    id: str
    prompt: CodePrompt
    letters: NDArray[np.float32]
    target: NDArray[np.float32]
    stimulus: str = ""


def letters_of(source: str, prompt: CodePrompt) -> NDArray[np.float32]:
    """Return how many signs of each token are no white space; 0 off the code."""
    seen = np.concatenate([[0], np.cumsum([not c.isspace() for c in source])])
    a, b = prompt.offsets.T
    return ((seen[b] - seen[a]) * prompt.code).astype(np.float32)


def summary_examples(
    table: pd.DataFrame, tokenizer: Any, end: int, *, longest: int, most: int,
    lost: LossLog | None = None,
) -> list[SummaryExample]:  # fmt: skip
    """Return the pairs of a table whose code and summary are short enough.

    Parameters
    ----------
    table
        Of `gazeattn.summaries.pairs.CodePairs`.
    tokenizer
    end
        Token that ends a text.
    longest, most
        Most tokens of code, and of a summary: longer pairs are left out, not cut.
    lost
        Receives their count.
    """
    lost = LossLog() if lost is None else lost
    found, long, wordy = [], [], []
    for row in table.to_dict("records"):
        prompt = code_prompt(tokenizer, str(row["code"]), str(row["language"]))
        tokens = tokenizer(f" {row['summary']}", add_special_tokens=False)["input_ids"]
        if int(prompt.code.sum()) > longest:
            long.append(row["id"])
        elif len(tokens) + 1 > most:
            wordy.append(row["id"])
        else:
            found.append(
                SummaryExample(
                    str(row["id"]),
                    prompt,
                    letters_of(str(row["code"]), prompt),
                    np.array([*tokens, end], dtype=np.int64),
                    str(row["summary"]),
                    str(row["code"]),
                )
            )
    lost.add(STEP, "dropped", f"code of more than {longest} tokens", len(long), "pairs", long)
    lost.add(STEP, "dropped", f"summary of {most} tokens or more", len(wordy), "pairs", wordy)
    return found


@dataclass(frozen=True)
class SummaryBatch:
    """Prompts with or without what is written after them, padded on the left.

    Attributes
    ----------
    ids, mask : Tensor of int64, shape (batch, length)
    code : Tensor of bool, shape (batch, length)
    start : Tensor of int64, shape (batch,)
        Place of the last token of each prompt.
    letters : Tensor of float32, shape (batch, length)
    labels : Tensor of int64, shape (batch, written), or None
        Tokens of the summaries at the end of each row, -100 before them.
    target : Tensor of float32, shape (batch, length), or None
        Gaze.
    trial : list of str
    gaze : SummaryBatch or None
        Readings that go with it.
    """

    ids: Tensor
    mask: Tensor
    code: Tensor
    start: Tensor
    letters: Tensor
    labels: Tensor | None
    target: Tensor | None
    trial: list[str]
    gaze: SummaryBatch | None = None

    @property
    def places(self) -> Tensor:
        """Positions of tokens: padding is not counted."""
        return (self.mask.cumsum(1) - 1).clamp_min(0)

    def to(self, device: Any) -> SummaryBatch:
        """Return the batch on a device."""
        moved: dict[str, Any] = {
            k: v.to(device) for k, v in vars(self).items() if isinstance(v, Tensor | SummaryBatch)
        }
        return replace(self, **moved)


def collate(
    examples: Sequence[SummaryExample | GazeExample], pad: int, written: bool = True
) -> SummaryBatch:
    """Return a batch.

    Parameters
    ----------
    examples
        Of one kind.
    pad
        Token of padding.
    written
        Whether summaries stand after their prompts.

    Raises
    ------
    DataError
        There is no example.
    """
    if not examples:
        raise DataError("a batch without an example")
    tails = [
        e.summary if written and isinstance(e, SummaryExample) else np.zeros(0, dtype=np.int64)
        for e in examples
    ]
    size = max(len(e.prompt.ids) + len(t) for e, t in zip(examples, tails, strict=True))
    n = len(examples)
    ids = np.full((n, size), pad, dtype=np.int64)
    mask = np.zeros((n, size), dtype=np.int64)
    code = np.zeros((n, size), dtype=bool)
    letters = np.zeros((n, size), dtype=np.float32)
    target = np.zeros((n, size), dtype=np.float32)
    start = np.zeros(n, dtype=np.int64)
    labels = np.full((n, max(map(len, tails))), -100, dtype=np.int64)
    for k, (e, tail) in enumerate(zip(examples, tails, strict=True)):
        own = slice(size - len(e.prompt.ids) - len(tail), size - len(tail))
        ids[k, own], code[k, own], letters[k, own] = e.prompt.ids, e.prompt.code, e.letters
        mask[k, own.start :] = 1
        start[k] = own.stop - 1
        if len(tail):
            ids[k, own.stop :] = tail
            labels[k, -len(tail) :] = tail
        if isinstance(e, GazeExample):
            target[k, own] = e.target
    gaze = isinstance(examples[0], GazeExample)
    return SummaryBatch(
        ids=torch.from_numpy(ids),
        mask=torch.from_numpy(mask),
        code=torch.from_numpy(code),
        start=torch.from_numpy(start),
        letters=torch.from_numpy(letters),
        labels=torch.from_numpy(labels) if labels.shape[1] else None,
        target=torch.from_numpy(target) if gaze else None,
        trial=[e.id for e in examples],
    )


class _Lengths:
    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = np.array(lengths, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.lengths)


class SummaryData(pl.LightningDataModule):
    """Batches of summaries with readings of code beside them.

    Parameters
    ----------
    train, valid
    pad
        Token of padding.
    batch_size
        Summaries of a batch.
    gaze
        Readings; every batch of training gets `per_batch` of them by chance.
    per_batch
    seed
        With the epoch it fixes the order and the readings.
    """

    def __init__(
        self,
        train: Sequence[SummaryExample],
        valid: Sequence[SummaryExample],
        pad: int,
        *,
        batch_size: int = 8,
        gaze: Sequence[GazeExample] = (),
        per_batch: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.train, self.valid, self.pad = list(train), list(valid), pad
        self.batch_size, self.gaze, self.per_batch = batch_size, list(gaze), per_batch
        self.seed = seed

    def _loader(
        self, part: list[SummaryExample], seed: int | None, epoch: int = 0
    ) -> DataLoader[Any]:
        sampler = BatchSampler(
            _Lengths([len(e.prompt.ids) + len(e.summary) for e in part]),
            self.batch_size,
            seed=seed,
        )
        sampler.set_epoch(epoch)
        rng = None if seed is None else np.random.default_rng([seed, epoch, 1])

        def make(rows: list[int]) -> SummaryBatch:
            batch = collate([part[i] for i in rows], self.pad)
            if rng is None or not self.gaze or not self.per_batch:
                return batch
            drawn = rng.choice(len(self.gaze), min(self.per_batch, len(self.gaze)), replace=False)
            return replace(batch, gaze=collate([self.gaze[i] for i in drawn], self.pad))

        return DataLoader(Positions(len(part)), batch_sampler=sampler, collate_fn=make)

    def train_dataloader(self) -> DataLoader[Any]:
        """Return the batches of the trainer's epoch."""
        epoch = 0 if self.trainer is None else self.trainer.current_epoch
        return self._loader(self.train, self.seed, epoch)

    def val_dataloader(self) -> DataLoader[Any]:
        """Return the validation batches in fixed order."""
        return self._loader(self.valid, None)

    def transfer_batch_to_device(
        self, batch: SummaryBatch, device: torch.device, dataloader_idx: int
    ) -> SummaryBatch:
        """Move a batch to a device."""
        return batch.to(device)


def gaze_examples(
    readings: Sequence[CodeReading], tokenizer: Any, lost: LossLog | None = None
) -> list[GazeExample]:
    """Return readings of code as shares of the time over a model's tokens.

    A piece of the display gives its time to the tokens that it overlaps, by letters
    (`gazeattn.datamodules.code_gaze.subword_mass`); 1 ms is added to each token.
    """
    lost = LossLog() if lost is None else lost
    texts = {r.text.stimulus: r.text for r in readings}
    prompts = {n: code_prompt(tokenizer, t.source, t.language) for n, t in texts.items()}
    letters = {n: letters_of(t.source, prompts[n]) for n, t in texts.items()}
    out = []
    for r in readings:
        prompt = prompts[r.text.stimulus]
        mass = subword_mass(r.mass, r.text.spans, prompt.offsets, lost)
        target = subword_target(mass, prompt.code).astype(np.float32)
        out.append(GazeExample(r.trial, prompt, letters[r.text.stimulus], target, r.text.stimulus))
    return out


def shuffled_gaze(examples: Sequence[GazeExample], seed: int = 0) -> list[GazeExample]:
    """Return every reading with the gaze of a reading of other code.

    Gaze keeps its place in the code, as a share of its length: what is lost is what stands there.

    Raises
    ------
    DataError
        There is one piece of code alone.
    """
    names = sorted({e.stimulus for e in examples})
    if len(names) < 2:
        raise DataError("gaze is shuffled between pieces of code", expected="two at least",
                        found=len(names))  # fmt: skip
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(names))
    other = {names[k]: names[order[(i + 1) % len(names)]] for i, k in enumerate(order)}
    of = {n: [e for e in examples if e.stimulus == n] for n in names}
    out = []
    for e in examples:
        pool = of[other[e.stimulus]]
        given = pool[int(rng.integers(len(pool)))]
        target = np.zeros_like(e.target)
        target[e.prompt.code] = stretched(given.target[given.prompt.code], int(e.prompt.code.sum()))
        out.append(replace(e, target=target))
    return out


def stretched(shares: NDArray[np.float32], n: int) -> NDArray[np.float32]:
    """Return shares over as many tokens as given, as shares over `n`; the sum is kept."""
    total = np.concatenate([[0.0], np.cumsum(shares, dtype=np.float64)])
    edges = np.interp(np.linspace(0, 1, n + 1), np.linspace(0, 1, len(total)), total)
    return np.diff(edges).astype(np.float32)
