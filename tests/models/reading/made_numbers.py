"""Trials with chosen numbers, readers and targets, for models that see one row per trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datamodules.reading import ReadingTrials, Text
from gazeattn.datamodules.reading_batches import ReadingInputs
from gazeattn.datamodules.reading_features import FIXATION, GAZE, TEXT, names_of


def numbers(
    x: Any, y: Sequence[float] | np.ndarray, readers: Sequence[str] | None = None, **columns: Any
) -> ReadingInputs:
    """Return one trial per row of `x`; every trial has one fixation on the one word of its text.

    Parameters
    ----------
    x : array-like, shape (n, k)
        What the models see.
    y
        Targets.
    readers
        None: four readers in turn.
    columns
        Of the table of trials.
    """
    x = np.asarray(x, dtype=np.float32).reshape(len(y), -1)
    n = len(y)
    table = {
        "trial": [f"t{i:04d}" for i in range(n)],
        "participant": [f"r{i % 4}" for i in range(n)] if readers is None else list(readers),
        "text": ["one"] * n,
    }
    steps = np.arange(n + 1)
    trials = ReadingTrials(
        pd.DataFrame({**table, **columns}),
        np.ones((n, len(FIXATION))),
        np.zeros(n, dtype=np.int64),
        steps,
        np.ones((n, len(GAZE))),
        steps,
        {t: Text(t, ("word",), np.ones((1, len(TEXT)))) for t in {*columns.get("text", ["one"])}},
    )
    nothing = np.zeros((n, 0), dtype=np.float32)
    scaled = {"fixation": nothing, "gaze": nothing, "text": nothing, "trial": x}
    return ReadingInputs(trials, scaled, np.asarray(y, dtype=np.float64))


def taken(inputs: ReadingInputs, at: Sequence[int] | np.ndarray) -> ReadingInputs:
    """Return some trials, in that order."""
    at = np.asarray(at, dtype=np.int64)
    return replace(
        inputs,
        trials=inputs.trials.take(at),
        scaled={k: v[at] for k, v in inputs.scaled.items()},
        y=inputs.y[at],
    )


def blobs(
    n: int = 120, classes: int = 2, readers: int = 12, seed: int = 0, apart: float = 3.0
) -> ReadingInputs:
    """Return trials whose class shifts two of four numbers; each reader has all classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    x = rng.normal(size=(n, 4))
    x[:, 0] += apart * y
    x[:, 1] -= apart * (y == 1)
    return numbers(x, y, [f"r{(i // classes) % readers:02d}" for i in range(n)])


def timed(durations: Sequence[float], y: Sequence[float], readers: Sequence[str]) -> ReadingInputs:
    """Return trials of three fixations of a duration, for members with features of their own."""
    n = len(y)
    made = numbers(np.zeros((n, 1)), y, readers)
    fixations = np.full((3 * n, len(FIXATION)), np.nan)
    for name, value in (("on_text", 1.0), ("word", 0.0), ("next_step", 0.0), ("gap", 20.0)):
        fixations[:, names_of("fixation").index(name)] = value
    rng = np.random.default_rng(0)
    spread = np.repeat(durations, 3) * rng.uniform(0.9, 1.1, 3 * n)
    fixations[:, names_of("fixation").index("duration")] = spread
    trials = replace(
        made.trials,
        fixations=fixations,
        word=np.zeros(3 * n, dtype=np.int64),
        starts=3 * np.arange(n + 1),
    )
    scaled = {**made.scaled, "fixation": np.zeros((3 * n, 0), dtype=np.float32)}
    return replace(made, trials=trials, scaled=scaled)
