"""Made-up readings with places on a screen, and what networks over fixations must hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from gazeattn.datamodules.reading import ReadingTrials, Text
from gazeattn.datamodules.reading_batches import (
    ReadingDataModule,
    ReadingInputs,
    collate_reading,
    reading_inputs,
)
from gazeattn.datamodules.reading_features import (
    GAZE,
    fixation_features,
    names_of,
    text_features,
)
from gazeattn.datamodules.reading_scaling import FeatureChoice, FittedFeatures
from gazeattn.experiments.training import Training, train
from gazeattn.models.reading.base import ReadingNetwork, Target

from .made_texts import gradients, out_of, poisoned

Make = Callable[..., ReadingNetwork]
TWO_LINES = (("the", "quick", "fox", "is", "here."), ("It", "hypothesises", "about", "the", "dog."))
ONE_LINE = (("a", "cat", "sat."),)
WIDTH, HEIGHT = 60.0, 40.0
"""Of the box of a word, px; the text begins at (100, 200)."""


def readings(
    texts: Sequence[Sequence[Sequence[str]]],
    paths: Sequence[tuple[int, Sequence[int]]],
    durations: Sequence[float] | None = None,
    *,
    language: str = "en",
    lines: bool = True,
    pupil: bool = False,
    seed: int = 0,
) -> ReadingTrials:
    """Return trials: the text of each and its fixated words, -1 off the text.

    Fixations are in the middle of their word give or take 5 px; off the text they have no place.
    """
    rng = np.random.default_rng(seed)
    made, places = {}, []
    for i, text in enumerate(texts):
        words = [w for line in text for w in line]
        row = np.repeat(np.arange(len(text)), [len(line) for line in text])
        at = np.concatenate([np.arange(len(line)) for line in text]) if words else row
        places.append(np.stack([100 + WIDTH * (at + 0.5), 200 + HEIGHT * (row + 0.5), row], 1))
        table = pd.DataFrame({"text": words} | ({"line": row} if lines else {}))
        made[f"text {i}"] = Text(f"text {i}", tuple(words), text_features(table, language=language))
    word = np.array([w for _, path in paths for w in path], dtype=np.int64)
    text_of = [t for t, path in paths for _ in path]
    place = np.array([places[t][w] if w >= 0 else [np.nan] * 3
                      for t, w in zip(text_of, word, strict=True)]).reshape(-1, 3)  # fmt: skip
    starts = np.cumsum([0, *(len(path) for _, path in paths)]).astype(np.int64)
    n_words = np.array([len(made[f"text {t}"].words) for t, _ in paths], dtype=np.int64)
    jitter = rng.uniform(-5, 5, (len(word), 2))
    duration = rng.gamma(6, 40, len(word)) if durations is None else np.asarray(durations)
    table = pd.DataFrame(
        {"duration": duration, "onset": np.cumsum(duration + 20) - duration,
         "x": place[:, 0] + jitter[:, 0], "y": place[:, 1] + jitter[:, 1]}
    )  # fmt: skip
    if pupil:
        table["pupil"] = rng.uniform(2, 4, len(word))
    boxes = pd.DataFrame({"left": place[:, 0] - WIDTH / 2, "right": place[:, 0] + WIDTH / 2})
    if lines:
        boxes["line"] = place[:, 2]
    rows = int(n_words.sum())
    gaze = rng.gamma(4, 60, (rows, len(GAZE)))
    for name in ("skip", "regression_in", "regression_out", "fixation_count"):
        gaze[:, names_of("gaze").index(name)] = rng.integers(0, 2, rows)
    return ReadingTrials(
        pd.DataFrame(
            {"trial": [f"trial {i}" for i in range(len(paths))],
             "participant": [f"reader {i % 3}" for i in range(len(paths))],
             "text": [f"text {t}" for t, _ in paths]}
        ),
        fixation_features(table, starts, word, n_words, boxes),
        word,
        starts,
        gaze,
        np.concatenate([[0], np.cumsum(n_words)]).astype(np.int64),
        made,
    )  # fmt: skip


def inputs_of(
    trials: ReadingTrials, choice: FeatureChoice, y: Sequence[float] | None = None
) -> tuple[ReadingInputs, dict[str, int]]:
    """Return trials as a model sees them, scaled by themselves, and the widths."""
    fitted = FittedFeatures.fit(trials, choice)
    target = np.arange(len(trials)) % 2 if y is None else np.asarray(y)
    widths = {k: len(s.channels) for k, s in fitted.scales.items()}
    return reading_inputs(trials, fitted, target.astype(float)), widths


def odd_readings(**options: Any) -> ReadingTrials:
    """Return trials of many kinds.

    Plain; one fixation; no word in the text; long and off the text now and then; the first text
    again; never on the text.
    """
    paths = [
        (0, [0, 1, -1, 2, 6]), (1, [1]), (2, [-1, -1]), (0, [0, 2, 7, 5, 4, 3, 3, -1, 1, 9, 8]),
        (0, [4, 3, 2, 1, 0, 0]), (1, [-1, -1, -1]), (1, [0, 1, 2]),
    ]  # fmt: skip
    return readings([TWO_LINES, ONE_LINE, ()], paths, **options)


def target(classes: int = 2) -> dict[str, Any]:
    """Return a target of some classes."""
    return Target("classification", classes, (1.0,) * classes).plain()


def check_contract(make: Make, choice: FeatureChoice) -> None:
    """Company, order and padding do not matter; gradients are finite; missing targets skipped."""
    inputs, widths = inputs_of(odd_readings(), choice)
    torch.manual_seed(0)
    model = make(target(), widths, dropout=0.0)
    n = len(inputs)
    together = out_of(model, inputs, range(n))
    assert together.shape == (n, 2) and bool(torch.isfinite(together).all())
    assert float(together.std(0).max()) > 1e-4  # or what follows says nothing
    for i in range(n):
        alone = out_of(model, inputs, [i])[0]
        torch.testing.assert_close(alone, together[i], atol=1e-5, rtol=0)
    turned = list(range(n))[::-1]
    torch.testing.assert_close(out_of(model, inputs, turned), together[turned], atol=1e-5, rtol=0)

    batch = collate_reading(inputs)
    torch.testing.assert_close(model(poisoned(batch)), model(batch))
    model.train()
    clean, dirty = gradients(model, batch), gradients(model, poisoned(batch))
    for name, value in clean.items():
        assert bool(torch.isfinite(value).all()), name
        torch.testing.assert_close(dirty[name], value, atol=1e-6, rtol=1e-5)

    y = np.array([0, np.nan, 1, np.nan, 1, 0, np.nan])
    some = model.training_loss(collate_reading(replace(inputs, y=y)))["loss"]
    known = model.training_loss(collate_reading(replace(inputs, y=y), [0, 2, 4, 5]))["loss"]
    torch.testing.assert_close(some, known, atol=1e-5, rtol=0)
    assert model.training_loss(collate_reading(replace(inputs, y=y * np.nan))) == {}

    three = make(target(3), widths).predict(inputs)
    assert three.shape == (n, 3)
    np.testing.assert_allclose(three.sum(1), 1, atol=1e-6)
    number = make(Target("regression", 1, (), 40.0, 5.0).plain(), widths)
    expected = 40 + 5 * out_of(number, inputs, range(n))[:, 0].numpy()
    np.testing.assert_allclose(number.predict(inputs), expected, atol=1e-3)
    # with plain linear logits, both signs are possible: a final ReLU has none below 0
    with torch.no_grad():
        model.head[-1].bias.fill_(-5.0)
    assert float(out_of(model, inputs, range(n)).max()) < 0


def check_learns(
    make: Make,
    inputs: ReadingInputs,
    widths: dict[str, int],
    folder: Path,
    epochs: int = 25,
    lr: float = 0.01,
) -> None:
    """The classes are told apart; the same seed gives the same; a checkpoint predicts the same."""
    settings = Training(epochs, 16, epochs)
    runs = []
    for part in ("a", "b"):
        torch.manual_seed(0)
        model = make(target(), widths, dropout=0.0, lr=lr)
        data = ReadingDataModule(inputs, inputs, batch_size=16)
        few = settings if part == "a" else Training(2, 16, epochs)
        runs.append(train(model, data, folder / part, few, seed=3, accelerator="cpu"))
        if part == "a":
            kind = type(model)
    first = [r.curves["train/loss"].to_numpy()[0] for r in runs]
    assert first[0] == first[1]
    loaded = kind.load_from_checkpoint(runs[0].best, map_location="cpu", weights_only=True)
    again = make(target(), widths, dropout=0.0)
    state = torch.load(runs[0].best, map_location="cpu", weights_only=True)["state_dict"]
    again.load_state_dict(state, strict=True)
    chances = loaded.predict(inputs)[:, 1]
    np.testing.assert_array_equal(chances, again.predict(inputs)[:, 1])
    right = ((chances > 0.5) == (inputs.y > 0.5)).mean()
    assert right >= 0.95, f"only {right:.2f} right"
    assert chances.std() > 0.2


def by_duration(n: int = 32) -> tuple[ReadingTrials, list[float]]:
    """Return trials with long fixations in class 1 and short ones in class 0, any order."""
    rng = np.random.default_rng(1)
    y = [float(i % 2) for i in range(n)]
    paths = [(0, [int(w) for w in rng.permutation(10)[: 4 + i % 5]]) for i in range(n)]
    durations = [d for (_, p), c in zip(paths, y, strict=True)
                 for d in rng.uniform(150, 200, len(p)) + 150 * c]  # fmt: skip
    return readings([TWO_LINES], paths, durations), y


def by_order(n: int = 32) -> tuple[ReadingTrials, list[float]]:
    """Return trials that read the text forwards in class 1 and backwards in class 0."""
    rng = np.random.default_rng(2)
    y = [float(i % 2) for i in range(n)]
    paths = []
    for c in y:
        some = np.sort(rng.permutation(10)[:6])
        paths.append((0, [int(w) for w in (some if c else some[::-1])]))
    return readings([TWO_LINES], paths), y


def by_word(n: int = 32) -> tuple[ReadingTrials, list[float]]:
    """Return trials in which a rare, long word (class 1) or a common one is looked at last.

    Lines, durations and numbers of words are the same in both classes.
    """
    rng = np.random.default_rng(3)
    y = [float(i % 2) for i in range(n)]
    paths = [(0, [*(int(w) for w in rng.permutation(5)), 6 if c else 5]) for c in y]
    return readings([TWO_LINES], paths), y
