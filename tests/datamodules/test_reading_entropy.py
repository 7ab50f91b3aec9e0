"""Stationary and transition gaze entropy over cells of some words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import log2

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.datamodules.reading import ReadingTrials, Text
from gazeattn.datamodules.reading_aggregates import SETS, aggregates, gaze_entropies, word_cells
from gazeattn.datamodules.reading_features import GAZE, fixation_features, names_of, text_features

COLUMNS = [
    "stationary_entropy", "transition_entropy",
    "stationary_entropy_share", "transition_entropy_share",
]  # fmt: skip


def readings(
    lines: Sequence[int], paths: Sequence[Sequence[int]], known: bool = True
) -> ReadingTrials:
    """Return trials that read one text with lines of some words; -1 is off the text."""
    row = np.repeat(np.arange(len(lines)), lines)
    table = pd.DataFrame({"text": [f"w{i}" for i in range(len(row))]})
    if known:
        table["line"] = row
    word = np.array([w for path in paths for w in path], dtype=np.int64)
    starts = np.cumsum([0, *map(len, paths)]).astype(np.int64)
    n_words = np.full(len(paths), len(row), dtype=np.int64)
    fixations = pd.DataFrame({"duration": np.full(len(word), 200.0)})
    boxes = pd.DataFrame(index=range(len(word)))
    return ReadingTrials(
        pd.DataFrame({"trial": [f"t{i}" for i in range(len(paths))], "text": "text"}),
        fixation_features(fixations, starts, word, n_words, boxes),
        word,
        starts,
        np.zeros((int(n_words.sum()), len(GAZE))),
        np.concatenate([[0], np.cumsum(n_words)]).astype(np.int64),
        {"text": Text("text", tuple(table["text"]), text_features(table, language="xx"))},
    )


def by_loops(lines: Sequence[int], path: Sequence[int]) -> list[float]:
    """Return the four numbers of one trial, one fixation after the other."""
    cell_of = [(r, i // 3) for r, n in enumerate(lines) for i in range(n)]
    seen = Counter(cell_of[w] for w in path if w >= 0)
    steps = Counter((cell_of[a], cell_of[b]) for a, b in pairwise(path) if a >= 0 and b >= 0)
    leaving: Counter[tuple[int, int]] = Counter()
    for (a, _), k in steps.items():
        leaving[a] += k
    n, m = sum(seen.values()), sum(steps.values())
    stationary = sum(-k / n * log2(k / n) for k in seen.values()) if n else np.nan
    transition = sum(-k / m * log2(k / leaving[a]) for (a, _), k in steps.items()) if m else np.nan
    cells = len(set(cell_of))
    most = log2(cells) if cells > 1 else np.nan
    return [stationary, transition, stationary / most, transition / most]


def test_cells_of_lines() -> None:
    cell, counts = word_cells(readings([5, 5], [[0], [0]]))
    assert cell[:10].tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
    assert cell[10:].tolist() == [4, 4, 4, 5, 5, 6, 6, 6, 7, 7]
    assert counts.tolist() == [4, 4]
    # where lines are not known, along the text
    cell, counts = word_cells(readings([5, 5], [[0]], known=False))
    assert cell.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3] and counts.tolist() == [4]
    assert word_cells(readings([5, 5], [[0]]), size=5)[0].tolist() == [0] * 5 + [1] * 5


def test_by_hand() -> None:
    # cells A = {0, 1, 2}, B = {3, 4}, C = {5, 6, 7}, D = {8, 9}; visits A A B C - C D
    trials = readings([5, 5], [[0, 1, 3, 5, -1, 5, 9]])
    found = aggregates(trials, ("entropy",))
    assert list(found) == COLUMNS
    # shares of visits 2/6, 1/6, 2/6, 1/6: 2/3 log2 3 + 1/3 log2 6
    # steps A-A, A-B, B-C, C-D: only from A is the next cell open, 2 of 4 steps with 1 bit
    stationary = 2 / 3 * 1.584962500721156 + 1 / 3 * 2.584962500721156
    expected = [stationary, 0.5, stationary / 2, 0.25]
    np.testing.assert_allclose(found.iloc[0], expected, rtol=1e-12)


def test_lines_matter_where_known() -> None:
    np.testing.assert_allclose(aggregates(readings([5, 5], [[3, 5]]), ["entropy"]).iloc[0, 0], 1.0)
    assert aggregates(readings([5, 5], [[3, 5]], known=False), ["entropy"]).iloc[0, 0] == 0.0


def test_missing_is_not_zero() -> None:
    found = aggregates(readings([5, 5], [[-1, -1], [4], [0, -1, 9], [2, 2]]), ["entropy"])
    assert found.iloc[0].isna().all()  # never on a word
    assert found["stationary_entropy"].tolist()[1:] == [0.0, 1.0, 0.0]
    # one fixation, or none after the other: no step
    assert found["transition_entropy"].isna().tolist() == [True, True, True, False]
    assert found["transition_entropy"][3] == 0.0
    one_cell = aggregates(readings([3], [[0, 1, 2]]), ["entropy"])
    assert one_cell.iloc[0, :2].tolist() == [0.0, 0.0] and one_cell.iloc[0, 2:].isna().all()
    empty = aggregates(readings([], [[-1, -1]]), ["entropy"])
    assert empty.isna().all(axis=None) and len(empty) == 1


def test_a_turned_page_is_no_step() -> None:
    trials = readings([5, 5], [[0, 4, 0, 9]])
    before = gaze_entropies(trials)["transition_entropy"][0]
    np.testing.assert_allclose(before, 2 / 3)  # A-B, A-D and B-A: 2 of 3 steps with 1 bit
    trials.fixations[2, names_of("fixation").index("next_step")] = np.nan
    assert gaze_entropies(trials)["transition_entropy"][0] == 0.0


def test_is_a_set() -> None:
    assert "entropy" in SETS
    trials = readings([5, 5], [[0, 1, 3]])
    assert set(COLUMNS) <= set(aggregates(trials))


@pytest.mark.parametrize("lines", [(5, 5), (1, 7, 2), (3,)])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_equals_loops(lines: tuple[int, ...], data: st.DataObject) -> None:
    word = st.integers(-1, sum(lines) - 1)
    paths = data.draw(st.lists(st.lists(word, min_size=1, max_size=12), min_size=1, max_size=5))
    trials = readings(lines, paths)
    found = aggregates(trials, ["entropy"])
    expected = np.array([by_loops(lines, p) for p in paths], dtype=float)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    shares = found.iloc[:, 2:].to_numpy()
    assert not (shares < 0).any() and not (shares > 1 + 1e-9).any()
    last = aggregates(trials.take([len(paths) - 1]), ["entropy"])
    np.testing.assert_array_equal(last.iloc[0], found.iloc[-1])
