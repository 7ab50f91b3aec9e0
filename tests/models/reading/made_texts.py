"""Made-up readings with tokens and vectors, and what every network over them must hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gazeattn.datamodules.reading import ReadingTrials, Text
from gazeattn.datamodules.reading_batches import (
    ReadingBatch,
    ReadingDataModule,
    ReadingInputs,
    collate_reading,
)
from gazeattn.datamodules.reading_features import FIXATION, GAZE, TEXT
from gazeattn.datamodules.reading_texts import Tokens
from gazeattn.experiments.building import read_model, sized, training_of
from gazeattn.experiments.training import Training, train
from gazeattn.models.reading.base import ReadingNetwork, Target, arguments_of
from gazeattn.registry import reading_models

WIDTHS = {"fixation": 3, "gaze": 2, "text": 1, "trial": 0, "vectors": 6}
TWO = Target("classification", 2, (1.0, 1.0)).plain()
Make = Callable[..., ReadingNetwork]


def tokens_of(per_word: Sequence[int], asked: int, rng: np.random.Generator) -> Tokens:
    """Return [start] words [end] and, where something is asked, question [end]."""
    words = np.repeat(np.arange(len(per_word)), per_word)
    word_of, part = [-1, *words, -1], [0, *np.ones(len(words), int), 0]
    if asked:
        word_of, part = [*word_of, *[-1] * (asked + 1)], [*part, *[2] * asked, 0]
    n = len(word_of)
    vectors = rng.normal(size=(n, WIDTHS["vectors"])).astype(np.float32)
    return Tokens(np.arange(n), np.array(word_of, np.int64), np.array(part, np.int8), vectors)


def made(
    texts: Sequence[Sequence[int]],
    paths: Sequence[tuple[int, Sequence[int]]],
    y: Sequence[float] | None = None,
    asked: Sequence[int] | None = None,
    seed: int = 0,
) -> ReadingInputs:
    """Return readings with random features.

    Parameters
    ----------
    texts
        Tokens of each word of each text.
    paths
        Text and fixated words (-1: off the text) of each trial.
    y
        Targets; random classes where not given.
    asked
        Tokens of the question of each text; 0: none.
    """
    rng = np.random.default_rng(seed)
    word = np.array([w for _, path in paths for w in path], dtype=np.int64)
    text_of = np.array([t for t, _ in paths], dtype=np.int64)
    starts = np.cumsum([0, *(len(path) for _, path in paths)]).astype(np.int64)
    word_starts = np.cumsum([0, *(len(texts[t]) for t in text_of)]).astype(np.int64)
    names = [f"trial {i}" for i in range(len(paths))]
    table = pd.DataFrame(
        {"trial": names, "participant": [f"reader {i}" for i in range(len(paths))],
         "text": [f"text {t}" for t in text_of]}
    )  # fmt: skip
    trials = ReadingTrials(
        table,
        np.zeros((len(word), len(FIXATION))),
        word,
        starts,
        np.zeros((int(word_starts[-1]), len(GAZE))),
        word_starts,
        {
            f"text {t}": Text(f"text {t}", tuple("w" for _ in n), np.zeros((len(n), len(TEXT))))
            for t, n in enumerate(texts)
        },
    )
    asked = [0] * len(texts) if asked is None else asked
    tokens = tuple(tokens_of(n, q, rng) for n, q in zip(texts, asked, strict=True))

    def draw(rows: int, k: int) -> Any:
        return rng.normal(size=(rows, k)).astype(np.float32)

    # features of a text are the same in all its trials
    own = [draw(len(n), WIDTHS["text"]) for n in texts]
    scaled = {
        "fixation": draw(len(word), WIDTHS["fixation"]),
        "gaze": draw(int(word_starts[-1]), WIDTHS["gaze"]),
        "text": np.concatenate([own[t] for t in text_of]),
        "trial": draw(len(paths), 0),
    }
    targets = rng.integers(0, 2, len(paths)) if y is None else y
    return ReadingInputs(trials, scaled, np.asarray(targets, float), tokens, text_of)


def hard_case(asked: bool = False, seed: int = 0) -> ReadingInputs:
    """Return trials with all that goes wrong.

    One has a single fixation, one never looks at the text, one text has no word, one word no
    token, and one text is read twice.
    """
    texts = [[1, 2, 0, 1, 1], [1, 1], [], [2, 1, 1, 3, 1, 1, 1]]
    paths = [
        (0, [0, 1, -1, 2, 3]), (1, [1]), (2, [-1, -1]), (3, [0, 2, 6, 5, 4, 3, 3, -1, 1]),
        (0, [4, 3, 2, 1, 0, 0]), (1, [-1, -1, -1]),
    ]  # fmt: skip
    return made(texts, paths, [0, 1, 0, 1, 1, 0], [0, 3, 0, 2] if asked else None, seed=seed)


def out_of(model: ReadingNetwork, inputs: ReadingInputs, which: Sequence[int]) -> Tensor:
    """Return the raw output for some trials, without dropout."""
    model.eval()
    with torch.no_grad():
        return model(collate_reading(inputs, which))


def poisoned(batch: ReadingBatch) -> ReadingBatch:
    """Return a batch whose padding holds what is not a number."""
    nan = float("nan")
    return replace(
        batch,
        fixations=batch.fixations.masked_fill(~batch.mask[..., None], nan),
        gaze=batch.gaze.masked_fill(~batch.word_mask[..., None], nan),
        text=batch.text.masked_fill(~batch.word_mask[..., None], nan),
        vectors=batch.vectors.masked_fill(~batch.token_mask[..., None], nan),
    )


def gradients(model: ReadingNetwork, batch: ReadingBatch) -> dict[str, Tensor]:
    """Return the gradients of the loss for all trained parameters."""
    model.zero_grad()
    model.training_loss(batch)["loss"].backward()
    found = {n: p.grad for n, p in model.named_parameters() if p.requires_grad}
    assert all(g is not None for g in found.values()), [n for n, g in found.items() if g is None]
    return {n: g.clone() for n, g in found.items() if g is not None}


def check_company(make: Make) -> None:
    """A trial alone, in any order, and beside longer ones has one output."""
    for asked in (False, True):
        torch.manual_seed(0)
        model, inputs = make(TWO, WIDTHS, dropout=0.0), hard_case(asked)
        together = out_of(model, inputs, range(6))
        assert together.shape == (6, 2) and bool(torch.isfinite(together).all())
        for i in range(6):
            torch.testing.assert_close(
                out_of(model, inputs, [i])[0], together[i], atol=1e-5, rtol=0
            )
        turned = out_of(model, inputs, [5, 3, 1, 0, 2, 4])
        torch.testing.assert_close(turned, together[[5, 3, 1, 0, 2, 4]], atol=1e-5, rtol=0)


def check_padding(make: Make) -> None:
    """Not even NaN in the padding reaches output or gradient; all gradients are finite."""
    for asked in (False, True):
        torch.manual_seed(0)
        model, inputs = make(TWO, WIDTHS, dropout=0.0), hard_case(asked)
        batch = collate_reading(inputs)
        clean, dirty = gradients(model, batch), gradients(model, poisoned(batch))
        assert set(clean) == set(dirty)
        for name, value in clean.items():
            assert bool(torch.isfinite(value).all()), name
            torch.testing.assert_close(dirty[name], value, atol=1e-6, rtol=1e-5)
        model.eval()
        torch.testing.assert_close(model(poisoned(batch)), model(batch))


def check_targets(make: Make) -> None:
    """Trials without a target have no part in the loss; regression and more classes work."""
    torch.manual_seed(0)
    model, inputs = make(TWO, WIDTHS, dropout=0.0).eval(), hard_case()
    y = np.array([0, np.nan, 1, np.nan, 1, 0])
    some = model.training_loss(collate_reading(replace(inputs, y=y)))["loss"]
    known = model.training_loss(collate_reading(replace(inputs, y=y), [0, 2, 4, 5]))["loss"]
    torch.testing.assert_close(some, known, atol=1e-5, rtol=0)
    assert model.training_loss(collate_reading(replace(inputs, y=y * np.nan))) == {}
    three = make(Target("classification", 3, (1.0,) * 3).plain(), WIDTHS)
    chances = three.predict(inputs)
    assert chances.shape == (6, 3)
    np.testing.assert_allclose(chances.sum(1), 1, atol=1e-6)
    number = make(Target("regression", 1, (), 40.0, 5.0).plain(), WIDTHS)
    values = number.predict(inputs)
    assert values.shape == (6,) and np.isfinite(values).all()
    np.testing.assert_allclose(values, 40 + 5 * out_of(number, inputs, range(6))[:, 0], atol=1e-3)


def check_words(make: Make, uses_order: bool = False) -> None:
    """Permuting words with the fixations on them changes a bag of words not at all."""
    torch.manual_seed(0)
    model, inputs = make(TWO, WIDTHS, dropout=0.0), made([[1, 2, 1, 1]], [(0, [0, 1, -1, 3])])
    batch = collate_reading(inputs)
    to = torch.tensor([2, 0, 3, 1])  # word i becomes word to[i]
    moved = replace(
        batch,
        word=torch.where(batch.word >= 0, to[batch.word], -1),
        gaze=torch.empty_like(batch.gaze).index_copy(1, to, batch.gaze),
        text=torch.empty_like(batch.text).index_copy(1, to, batch.text),
        token_word=torch.where(batch.token_word >= 0, to[batch.token_word], -1),
    )
    model.eval()
    same = torch.allclose(model(moved), model(batch), atol=1e-6)
    assert same is not uses_order


def swapped(inputs: ReadingInputs, word: int, text: int = 0) -> ReadingInputs:
    """Return the same readings with other vectors at one word of a text."""
    tokens = list(inputs.tokens)
    old = tokens[text]
    assert old.vectors is not None
    vectors = old.vectors + 3 * (old.word_of == word)[:, None].astype(np.float32)
    tokens[text] = replace(old, vectors=vectors)
    return replace(inputs, tokens=tuple(tokens))


def learned(
    make: Make, inputs: ReadingInputs, folder: Path, epochs: int = 30, lr: float = 0.01
) -> ReadingNetwork:
    """Return the best epoch of a trained network, after a round trip of its checkpoint."""
    made_of = []
    for part in ("a", "b"):
        torch.manual_seed(0)
        model = make(TWO, WIDTHS, dropout=0.0, lr=lr)
        data = ReadingDataModule(inputs, inputs, batch_size=16)
        # twice the same seed, for few epochs: the same numbers
        settings = Training(epochs if part == "a" else 2, 16, epochs)
        done = train(model, data, folder / part, settings, seed=3, accelerator="cpu")
        made_of.append((model, done))
    (model, done), (_, again) = made_of
    short = again.curves["train/loss"].to_numpy()[:1]
    np.testing.assert_array_equal(short, done.curves["train/loss"].to_numpy()[:1])
    kind = type(model)
    loaded = kind.load_from_checkpoint(done.best, map_location="cpu", weights_only=True)
    state = torch.load(done.best, map_location="cpu", weights_only=True)["state_dict"]
    model.load_state_dict(state, strict=True)
    np.testing.assert_array_equal(loaded.predict(inputs), model.predict(inputs))
    return loaded


def check_learned(make: Make, inputs: ReadingInputs, folder: Path, **options: Any) -> None:
    """The classes are told apart, and predictions differ."""
    model = learned(make, inputs, folder, **options)
    chances = model.predict(inputs)[:, 1]
    right = (chances > 0.5) == (inputs.y > 0.5)
    assert right.mean() >= 0.95, f"only {right.mean():.2f} right"
    assert chances.std() > 0.2


def check_configuration(name: str) -> None:
    """Every size of the configuration fits the class, and `full` has the published encoder."""
    config = read_model(name)
    kind = reading_models.get(name).obj
    for size, encoder in (
        ("tiny", "minilm"),
        ("cpu", "minilm"),
        ("full", "FacebookAI/roberta-large"),
    ):
        made_of = sized(config, size)
        assert made_of["encoder"] == encoder and training_of(made_of).max_epochs > 0
        widths = {**WIDTHS, "vectors": 1024 if size == "full" else 384}
        model = kind(TWO, widths, **arguments_of(made_of, ("name", "training", "encoder")))
        assert isinstance(model, ReadingNetwork) and model.text_use == "vectors"
        kind.choice(made_of)


def by_order(n: int = 32) -> ReadingInputs:
    """Return trials of class 1 where the text is read forwards, 0 where backwards."""
    rng = np.random.default_rng(1)
    y = np.arange(n) % 2
    paths = []
    for forward in y:
        some = np.sort(rng.permutation(6)[:4])
        paths.append((0, list(some if forward else some[::-1])))
    return made([[1, 2, 1, 1, 1, 2]], paths, [float(v) for v in y])


def by_longest(n: int = 32) -> ReadingInputs:
    """Return trials of class 1 where word 1 is looked at longest, 0 where word 4 is."""
    rng = np.random.default_rng(2)
    y = np.arange(n) % 2
    paths = [(0, [int(w) for w in rng.permutation(6)]) for _ in range(n)]
    inputs = made([[1, 2, 1, 1, 1, 2]], paths, [float(v) for v in y])
    longest = inputs.trials.word == np.where(np.repeat(y, 6) == 1, 1, 4)
    values = inputs.scaled["fixation"] * 0.1
    values[:, 0] += 2.0 * longest
    return replace(inputs, scaled={**inputs.scaled, "fixation": values})


def with_duration(inputs: ReadingInputs) -> ReadingInputs:
    """Return trials whose fixations are long in class 1 and short in class 0."""
    values = inputs.scaled["fixation"].copy()
    values[:, 0] = 0.3 * values[:, 0] + np.repeat(2 * inputs.y - 1, inputs.trials.lengths)
    return replace(inputs, scaled={**inputs.scaled, "fixation": values})
