"""A small corpus of readings made here: two lines of words, and trials worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datamodules.reading import ReadingTrials, reading_trials
from gazeattn.datasets import GazeDataset
from gazeattn.tables import check_fixations, check_trials, check_words

WORDS = ("The", "old", "man's", "sees", "the", "sea.")
# x, y, onset, duration; on words 0 2 1 2 2 - 3 5
BY_HAND = (
    (50, 25, 0, 200), (250, 25, 220, 180), (150, 25, 420, 150), (250, 30, 600, 100),
    (270, 30, 720, 120), (900, 400, 860, 140), (50, 75, 1020, 250), (290, 75, 1300, 300),
)  # fmt: skip


def words(layout: str = "A", texts: Sequence[str] = WORDS, per_line: int = 3) -> pd.DataFrame:
    """Return words in boxes of 100 x 50 px, some of them on each line."""
    at = np.arange(len(texts))
    return pd.DataFrame(
        {
            "layout": layout,
            "stimulus": layout,
            "word": [f"w{i}" for i in at],
            "index": at,
            "text": list(texts),
            "line": at // per_line,
            "left": 100.0 * (at % per_line),
            "top": 50.0 * (at // per_line),
            "right": 100.0 * (at % per_line) + 100,
            "bottom": 50.0 * (at // per_line) + 50,
        }
    )


def dataset(
    paths: Mapping[str, Any],
    facts: Mapping[str, Mapping[str, Any]] | None = None,
    tables: Sequence[pd.DataFrame] = (),
    columns: Sequence[str] = ("x", "y", "onset", "duration"),
    **more: Any,
) -> GazeDataset:
    """Return a data set; a trial is named ``READER_LAYOUT``, a path has rows of `columns`."""
    rows = []
    for trial, path in paths.items():
        reader, layout = trial.split("_")[:2]
        for k, values in enumerate(path):
            row = {"participant": reader, "trial": trial, "stimulus": layout, "index": k}
            rows.append(row | dict(zip(columns, map(float, values), strict=True)))
    names = ["participant", "trial", "stimulus", "index", *columns]
    trials = pd.DataFrame(
        [
            {"participant": t.split("_")[0], "trial": t, "stimulus": t.split("_")[1]}
            | dict((facts or {}).get(t, {}))
            for t in paths
        ]
    )
    return GazeDataset(
        "made",
        check_fixations(pd.DataFrame(rows, columns=names))[0],
        check_words(pd.concat(tables or [words()], ignore_index=True))[0],
        check_trials(trials)[0],
        info={"language": "en"},
        **more,
    )


def many(n: int = 12, seed: int = 0, longest: int = 14) -> GazeDataset:
    """Return n trials of n / 3 readers on three texts, with saccades, pupils and labels."""
    rng = np.random.default_rng(seed)
    texts = {
        "A": words(),
        "B": words("B", ["Rain", "fell", "on", "the", "quiet", "harbour,", "again."]),
        "C": words("C", ["Who", "asked?"], 1),
    }
    names = [f"P{i // 3}_{'ABC'[i % 3]}" for i in range(n)]
    paths, facts = {}, {}
    for i, name in enumerate(names):
        k = int(rng.integers(1, longest + 1))
        duration = rng.integers(80, 400, k).astype(float)
        gap = rng.integers(5, 60, k).astype(float)
        onset = np.cumsum(duration + gap) - duration - gap
        x, y = rng.uniform(0, 320, k), rng.uniform(0, 140, k)
        size = np.where(rng.random(k) < 0.8, rng.uniform(0.2, 9, k), np.nan)
        paths[name] = np.stack(
            [x, y, onset, duration, size, size * 9, size * 40, rng.normal(900, 60, k)], axis=1
        )
        facts[name] = {"label": i % 2, "score": float(rng.normal()), "trial_index": i}
    columns = ["x", "y", "onset", "duration", "saccade_amplitude", "saccade_duration"]
    columns += ["saccade_peak_velocity", "pupil"]
    return dataset(paths, facts, list(texts.values()), columns)


def trials(n: int = 12, seed: int = 0, **options: Any) -> ReadingTrials:
    """Return the readings of `many`."""
    return reading_trials(many(n, seed), **options)
