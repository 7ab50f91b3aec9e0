"""Builders of small tables, a slow reference in plain loops, and the real sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.tables import check_fixations, check_trials, check_words

NAN = math.nan


def word_of(boxes: list[tuple[float, float, float, float]], x: float, y: float) -> int | None:
    """Return the box that holds the point; of several, the one with the nearest centre."""
    best, best_distance = None, math.inf
    for i, (left, top, right, bottom) in enumerate(boxes):
        if left <= x < right and top <= y < bottom:
            distance = (x - (left + right) / 2) ** 2 + (y - (top + bottom) / 2) ** 2
            if distance < best_distance:
                best, best_distance = i, distance
    return best


def runs_of(path: list[int | None]) -> list[tuple[int, list[int]]]:
    """Return (word, positions) of each run; a fixation on no word (None) ends a run."""
    runs: list[tuple[int, list[int]]] = []
    previous: int | None = None
    for k, word in enumerate(path):
        if word is not None:
            if word == previous:
                runs[-1][1].append(k)
            else:
                runs.append((word, [k]))
        previous = word
    return runs


def measures_of_trial(
    path: list[int | None], durations: list[float], n_words: int
) -> list[dict[str, Any]]:
    """Return both conventions for each word of a trial that has at least one fixation."""
    runs = runs_of(path)
    on = [k for k, word in enumerate(path) if word is not None]
    rows = []
    for w in range(n_words):
        mine = [positions for word, positions in runs if word == w]
        visits = [k for positions in mine for k in positions]
        total = sum(durations[k] for k in visits)
        if not visits:
            rows.append(
                dict(
                    first_fixation_duration=NAN, single_fixation_duration=NAN, gaze_duration=NAN,
                    go_past_time=NAN, total_reading_time=0, fixation_count=0, skip=1,
                    regression_in=NAN, regression_out=NAN,
                    IA_FIRST_FIXATION_DURATION=0, IA_FIRST_RUN_DWELL_TIME=0,
                    IA_SECOND_RUN_DWELL_TIME=NAN, IA_LAST_RUN_DWELL_TIME=0,
                    IA_REGRESSION_PATH_DURATION=0, IA_DWELL_TIME=0, IA_FIXATION_COUNT=0,
                    IA_SKIP=1, IA_REGRESSION_IN=NAN, IA_REGRESSION_IN_COUNT=0,
                    IA_REGRESSION_OUT=NAN, IA_REGRESSION_OUT_COUNT=0,
                )
            )  # fmt: skip
            continue
        first = visits[0]
        first_pass = all(path[k] < w for k in on if k < first)
        sums = [sum(durations[k] for k in positions) for positions in mine]
        go_past = 0.0
        for k in on:
            if k >= first:
                if path[k] > w:
                    break
                go_past += durations[k]
        entries = exits = 0
        for before, after in pairwise(on):
            if path[after] == w and path[before] > w:
                entries += 1
            passed = any(path[k] > w for k in on if k <= before)
            if path[before] == w and path[after] < w and not passed:
                exits += 1
        rows.append(
            dict(
                first_fixation_duration=durations[first] if first_pass else NAN,
                single_fixation_duration=(
                    durations[first] if first_pass and len(mine[0]) == 1 else NAN
                ),
                gaze_duration=sums[0] if first_pass else NAN,
                go_past_time=go_past if first_pass else NAN,
                total_reading_time=total,
                fixation_count=len(visits),
                skip=0 if first_pass else 1,
                regression_in=float(entries > 0),
                regression_out=float(exits > 0),
                IA_FIRST_FIXATION_DURATION=durations[first],
                IA_FIRST_RUN_DWELL_TIME=sums[0],
                IA_SECOND_RUN_DWELL_TIME=sums[1] if len(sums) > 1 else NAN,
                IA_LAST_RUN_DWELL_TIME=sums[-1],
                IA_REGRESSION_PATH_DURATION=go_past,
                IA_DWELL_TIME=total,
                IA_FIXATION_COUNT=len(visits),
                IA_SKIP=0 if first_pass else 1,
                IA_REGRESSION_IN=float(entries > 0),
                IA_REGRESSION_IN_COUNT=entries,
                IA_REGRESSION_OUT=float(exits > 0),
                IA_REGRESSION_OUT_COUNT=exits,
            )
        )
    return rows


Trial = Sequence[int | None]


def words_in_a_row(n: int, layout: str = "A", width: int = 100) -> pd.DataFrame:
    """Return `n` words on one line, each `width` pixels wide, from x = 0 and y = 0 to 100."""
    left = np.arange(n) * float(width)
    return pd.DataFrame(
        {
            "layout": layout,
            "stimulus": layout,
            "word": [f"w{i}" for i in range(n)],
            "index": np.arange(n),
            "text": [f"text{i}" for i in range(n)],
            "left": left,
            "top": 0.0,
            "right": left + width,
            "bottom": 100.0,
        }
    )


def build(
    paths: dict[str, Trial],
    n_words: int,
    durations: dict[str, Sequence[float]] | None = None,
    by: str = "box",
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return checked fixations, words and trials; a path holds word indices, None is off text.

    Fixations last 100 ms unless `durations` says otherwise. ``by="word"`` states word ids
    instead of x and y.
    """
    rows = []
    for trial, path in paths.items():
        for k, word in enumerate(path):
            row = {"participant": "P1", "trial": trial, "stimulus": "A", "index": k}
            row["duration"] = 100.0 if durations is None else float(durations[trial][k])
            if by == "box":
                row["x"] = 50.0 + 100 * word if word is not None else 50.0
                row["y"] = 50.0 if word is not None else 900.0
            else:
                row["word"] = f"w{word}" if word is not None else None
            rows.append(row)
    columns = ["participant", "trial", "stimulus", "index", "duration"]
    columns += ["x", "y"] if by == "box" else ["word"]
    fixations, _ = check_fixations(pd.DataFrame(rows, columns=columns))
    trials = pd.DataFrame({"participant": "P1", "trial": list(paths), "stimulus": "A"})
    trials, _ = check_trials(trials)
    words, _ = check_words(words_in_a_row(n_words))
    return fixations, words, trials


@pytest.fixture(scope="session")
def reference() -> SimpleNamespace:
    return SimpleNamespace(word_of=word_of, measures_of_trial=measures_of_trial)


@pytest.fixture(scope="session")
def tables() -> Callable[..., tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]]:
    return build


@pytest.fixture(scope="session")
def row_of_words() -> Callable[..., pd.DataFrame]:
    return words_in_a_row
