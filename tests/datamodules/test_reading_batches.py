"""Batches: padding, order, buckets, and what the training loop does with them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from gazeattn.datamodules.reading_batches import (
    ReadingBatch,
    ReadingDataModule,
    ReadingInputs,
    collate_reading,
    padded,
    reading_inputs,
)
from gazeattn.datamodules.reading_scaling import FeatureChoice, FittedFeatures
from gazeattn.datamodules.reading_texts import Tokens
from gazeattn.errors import DataError
from gazeattn.models.network import Network, NonFiniteLossError, check_finite

from .made_readings import trials

pytestmark = pytest.mark.filterwarnings("ignore:.*fixations.* lie on a word:UserWarning")


class Encoder:
    """Stands for a language model: one token per word, its vector says which text it is of."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __call__(self, pairs: list[Any], *, vectors: bool = True) -> list[Tokens]:
        self.asked += list(pairs)
        out = []
        for words, question in pairs:
            n = len(words)
            more = 0 if question is None else len(question.split())
            ids = np.arange(1, n + more + 3)
            word_of = np.concatenate([[-1], np.arange(n), np.full(more + 1, -1)])
            part = np.concatenate([[0], np.ones(n), np.full(more, 2), [0]]).astype(np.int8)
            values = np.repeat(ids[:, None], 3, 1).astype(np.float32) + n / 10
            out.append(Tokens(ids, word_of, part, values if vectors else None))
        return out


def inputs(n: int = 12, encoder: Any = None, **options: Any) -> ReadingInputs:
    made = trials(n, 1)
    fitted = FittedFeatures.fit(made, FeatureChoice(sets=("counts",)))
    y = np.arange(n, dtype=float)
    return reading_inputs(made, fitted, y, encoder, **options)


def test_padded() -> None:
    starts = np.array([0, 2, 2, 5])
    found = padded(np.arange(5), starts, -1)
    assert found.tolist() == [[0, 1, -1], [-1, -1, -1], [2, 3, 4]]
    assert padded(np.ones((5, 2)), starts).shape == (3, 3, 2)
    assert padded(np.zeros((0, 2)), np.array([0])).shape == (0, 0, 2)
    assert padded(np.zeros((0, 2)), np.array([0, 0])).shape == (1, 0, 2)


def test_every_row_is_in_its_place() -> None:
    made = inputs(encoder=Encoder())
    which = [5, 0, 11, 5]
    batch = collate_reading(made, which)
    t = made.trials
    assert len(batch) == 4 and batch.trial == t.trial[which].tolist()
    assert batch.participant == t.participant[which].tolist()
    assert batch.y.tolist() == [5.0, 0.0, 11.0, 5.0]
    longest, most = t.lengths[which].max(), t.n_words[which].max()
    assert batch.mask.shape == (4, longest) and batch.word_mask.shape == (4, most)
    for row, i in enumerate(which):
        n, w = t.lengths[i], t.n_words[i]
        f, g = slice(t.starts[i], t.starts[i + 1]), slice(t.word_starts[i], t.word_starts[i + 1])
        np.testing.assert_array_equal(batch.fixations[row, :n], made.scaled["fixation"][f])
        np.testing.assert_array_equal(batch.word[row, :n], t.word[f])
        np.testing.assert_array_equal(batch.gaze[row, :w], made.scaled["gaze"][g])
        np.testing.assert_array_equal(batch.text[row, :w], made.scaled["text"][g])
        np.testing.assert_array_equal(batch.numbers[row], made.scaled["trial"][i])
        assert batch.mask[row].tolist() == [k < n for k in range(longest)]
        assert batch.word_mask[row].tolist() == [k < w for k in range(most)]
        assert not batch.fixations[row, n:].any() and (batch.word[row, n:] == -1).all()
        assert not batch.gaze[row, w:].any() and not batch.text[row, w:].any()
        assert (batch.word[row] < w).all()
        text = batch.which[row]
        tokens = made.tokens[made.token_of[i]]
        k = len(tokens)
        np.testing.assert_array_equal(batch.ids[text, :k], tokens.ids)
        np.testing.assert_array_equal(batch.token_word[text, :k], tokens.word_of)
        np.testing.assert_array_equal(batch.token_part[text, :k], tokens.part)
        np.testing.assert_array_equal(batch.vectors[text, :k], tokens.vectors)
        assert batch.token_mask[text].sum() == k and batch.token_mask[text, :k].all()
        assert not batch.ids[text, k:].any() and (batch.token_word[text, k:] == -1).all()
        assert not batch.token_part[text, k:].any() and not batch.vectors[text, k:].any()
    assert batch.y.dtype == batch.fixations.dtype == torch.float32
    assert batch.word.dtype == batch.which.dtype == batch.ids.dtype == torch.int64


def test_texts_are_encoded_once_and_held_once() -> None:
    encoder = Encoder()
    made = inputs(encoder=encoder)
    assert len(made.tokens) == 3 == len(encoder.asked)
    assert made.token_of.tolist() == [0, 1, 2] * 4
    batch = collate_reading(made, [1, 4, 2])
    assert len(batch.ids) == 2 and batch.which.tolist() == [0, 0, 1]
    asked = inputs(encoder=Encoder(), questions=["Which one?", None, None] + ["Who?"] * 9)
    assert len(asked.tokens) == 6
    assert [len(asked.tokens[k]) for k in asked.token_of[:4]] == [10, 9, 4, 9]
    bare = collate_reading(inputs(encoder=Encoder(), vectors=False))
    assert bare.vectors.numel() == 0 and bare.ids.shape[0] == 3


def test_without_texts() -> None:
    batch = collate_reading(inputs())
    assert batch.ids.shape == (0, 0) and batch.vectors.shape == (0, 0, 0)
    assert batch.token_mask.shape == (0, 0) and batch.which.tolist() == [0] * 12
    assert len(collate_reading(inputs(), [])) == 0


def _tensors(batch: ReadingBatch, row: int) -> dict[str, Tensor]:
    out = {}
    for name in ("fixations", "word", "mask"):
        out[name] = getattr(batch, name)[row][batch.mask[row]]
    for name in ("gaze", "text"):
        out[name] = getattr(batch, name)[row][batch.word_mask[row]]
    text = batch.which[row]
    for name in ("ids", "token_word", "token_part", "vectors"):
        out[name] = getattr(batch, name)[text][batch.token_mask[text]]
    return out | {"numbers": batch.numbers[row], "y": batch.y[row]}


def test_alone_and_in_company() -> None:
    made = inputs(encoder=Encoder())
    for order in (np.arange(12), np.arange(12)[::-1], np.random.default_rng(0).permutation(12)):
        together = collate_reading(made, order)
        for row, i in enumerate(order):
            alone = _tensors(collate_reading(made, [i]), 0)
            for name, value in _tensors(together, row).items():
                assert torch.equal(value, alone[name]), name
            # also where the trial itself is prepared alone
    part = made.trials.take([7])
    fitted = FittedFeatures.fit(made.trials, FeatureChoice(sets=("counts",)))
    own = collate_reading(reading_inputs(part, fitted, np.array([7.0]), Encoder()))
    mine = _tensors(collate_reading(made, [7]), 0)
    for name, value in _tensors(own, 0).items():
        torch.testing.assert_close(value, mine[name], msg=name)


def test_targets_fit() -> None:
    made = trials(6)
    fitted = FittedFeatures.fit(made, FeatureChoice())
    with pytest.raises(DataError, match="one target per trial"):
        reading_inputs(made, fitted, np.zeros(5))
    with pytest.raises(ValueError, match="shorter"):
        reading_inputs(made, fitted, np.zeros(6), Encoder(), questions=["a"] * 5)


def _seen(loader: Any) -> list[list[str]]:
    return [batch.trial for batch in loader]


class Epoch:
    def __init__(self, n: int) -> None:
        self.current_epoch = n


def _data(made: ReadingInputs, seed: int = 0, epoch: int | None = None) -> ReadingDataModule:
    data = ReadingDataModule(made, made, batch_size=5, seed=seed)
    if epoch is not None:
        data.trainer = Epoch(epoch)  # type: ignore[assignment]
    return data


def test_missing_targets_are_left_out() -> None:
    made = inputs()
    y = made.y.copy()
    y[[2, 7]] = np.nan
    made = replace(made, y=y)
    names = set(made.trials.trial) - set(made.trials.trial[[2, 7]])
    for loader in (_data(made).train_dataloader(), _data(made).val_dataloader()):
        seen = [t for batch in _seen(loader) for t in batch]
        assert len(seen) == 10 and set(seen) == names
    for batch in _data(made).train_dataloader():  # still with their own targets
        wanted = [y[made.trials.trial.tolist().index(t)] for t in batch.trial]
        assert batch.y.tolist() == wanted
    with pytest.raises(DataError, match="no trial has a target"):
        _data(replace(made, y=np.full(12, np.nan))).train_dataloader()


def test_order_is_fixed_by_seed_and_epoch() -> None:
    made = inputs()
    first = _seen(_data(made, 0, 0).train_dataloader())
    assert [len(b) for b in first].count(5) == 2 and sum(map(len, first)) == 12
    assert first == _seen(_data(made, 0, 0).train_dataloader())
    assert first == _seen(_data(made, 0).train_dataloader())
    assert first != _seen(_data(made, 0, 1).train_dataloader())
    assert first != _seen(_data(made, 1, 0).train_dataloader())
    fixed = _seen(_data(made, 0, 3).val_dataloader())
    assert [t for b in fixed for t in b] == made.trials.trial.tolist()


def test_like_lengths_stand_together() -> None:
    made = inputs(60)
    lengths = dict(zip(made.trials.trial, made.trials.lengths, strict=True))
    batches = _seen(_data(made, 3, 2).train_dataloader())
    spans = sorted((min(lengths[t] for t in b), max(lengths[t] for t in b)) for b in batches)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_to_a_device() -> None:
    batch = collate_reading(inputs(encoder=Encoder()))
    moved = batch.to("meta")
    assert moved.fixations.device.type == "meta" and moved.vectors.device.type == "meta"
    assert moved.trial == batch.trial and batch.fixations.device.type == "cpu"
    data = _data(inputs())
    assert data.transfer_batch_to_device(batch, torch.device("meta"), 0).y.device.type == "meta"


# The training loop that networks share


class Tiny(Network):
    """Learns the mean of the targets; may lose its head."""

    def __init__(self, bad: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.level = nn.Parameter(torch.zeros(()))
        self.bad = bad
        self.rates: list[float] = []

    def training_loss(self, batch: ReadingBatch) -> dict[str, Tensor]:
        if self.bad == "nothing":
            return {}
        if self.bad in batch.trial:
            return {"loss": self.level * torch.nan}
        return {"loss": ((self.level - batch.y) ** 2).mean(), "own": self.level.detach()}

    def on_train_batch_end(self, *args: Any) -> None:
        self.rates.append(self.trainer.optimizers[0].param_groups[0]["lr"])


def _fit(model: Tiny, epochs: int = 1) -> pl.Trainer:
    trainer = pl.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
        reload_dataloaders_every_n_epochs=1,
    )  # fmt: skip
    trainer.fit(model, _data(inputs()))
    return trainer


def test_learning_rate_of_epochs() -> None:
    model = Tiny(lr=0.1, warmup_epochs=2)
    trainer = _fit(model, 5)
    rates = [r for k, r in enumerate(model.rates) if k % 3 == 0]
    half = [0.01 + 0.99 * (1 + np.cos(np.pi * k / 3)) / 2 for k in range(3)]
    assert rates == pytest.approx([0.1 / 3, 0.2 / 3, *(0.1 * f for f in half)])
    # the validation loss is over trials, not over batches (5, 5 and 2 of them)
    level = model.level.item()
    wanted = np.mean((level - np.arange(12)) ** 2)
    assert trainer.callback_metrics["val/loss"].item() == pytest.approx(wanted, rel=1e-5)


def test_losses_that_are_not_finite() -> None:
    name = inputs().trials.trial[4]
    with pytest.raises(NonFiniteLossError, match=name):
        _fit(Tiny(name))
    model = Tiny(name)
    model.nonfinite = "skip"
    with pytest.raises(NonFiniteLossError):  # validation never skips
        _fit(model)
    check_finite({"loss": torch.tensor(1.0)}, ["a"])
    with pytest.raises(NonFiniteLossError, match=r"a, b, c, d, e and 2 more"):
        check_finite({"loss": torch.tensor(torch.inf)}, list("abcdefg"))


def test_nothing_to_learn_from_is_skipped() -> None:
    model = Tiny("nothing")
    trainer = _fit(model)
    assert model.level.item() == 0
    assert trainer.callback_metrics["train/skipped"].item() == 3
    assert "train/loss" not in trainer.callback_metrics
