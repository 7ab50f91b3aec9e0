"""Features of fixations and words by hand, and what a recording cannot give."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wordfreq import zipf_frequency

from gazeattn.datamodules.reading import reading_trials
from gazeattn.datamodules.reading_features import (
    BY_SCOPE,
    chosen,
    entering,
    fixation_features,
    names_of,
    text_features,
)
from gazeattn.errors import DataError, UnknownNameError

from .made_readings import BY_HAND, WORDS, dataset, many, words

NAN = np.nan
pytestmark = pytest.mark.filterwarnings("ignore:.*fixations.* lie on a word:UserWarning")


def test_fixations_by_hand() -> None:
    made = reading_trials(dataset({"P1_A": BY_HAND}))
    h = math.hypot
    expected = {
        "index": range(8),
        "duration": [200, 180, 150, 100, 120, 140, 250, 300],
        "gap": [20, 20, 30, 20, 20, 20, 30, NAN],
        "x": [50, 250, 150, 250, 270, 900, 50, 290],
        "y": [25, 25, 25, 30, 30, 400, 75, 75],
        "pupil": [NAN] * 8,
        "on_text": [1, 1, 1, 1, 1, 0, 1, 1],
        "word": [0, 2, 1, 2, 2, NAN, 3, 5],
        "word_share": [0, 2 / 6, 1 / 6, 2 / 6, 2 / 6, NAN, 3 / 6, 5 / 6],
        "line": [0, 0, 0, 0, 0, NAN, 1, 1],
        "landing": [0.5, 0.5, 0.5, 0.5, 0.7, NAN, 0.5, 0.9],
        "next_step": [2, -1, 1, 0, NAN, NAN, 2, NAN],
        "previous_step": [NAN, 2, -1, 1, 0, NAN, NAN, 2],
        "next_distance": [200, 100, h(100, 5), 20, h(630, 370), h(850, 325), 240, NAN],
        "previous_distance": [NAN, 200, 100, h(100, 5), 20, h(630, 370), h(850, 325), 240],
        "next_angle": [
            0, math.pi, math.atan(0.05), 0, math.atan(37 / 63), math.atan(325 / 850) - math.pi,
            0, NAN,
        ],
        "previous_angle": [
            NAN, 0, math.pi, math.atan(0.05), 0, math.atan(37 / 63),
            math.atan(325 / 850) - math.pi, 0,
        ],
        "saccade_amplitude": [NAN] * 8,
        "saccade_duration": [NAN] * 8,
        "saccade_peak_velocity": [NAN] * 8,
        "refixation": [NAN, 0, 0, 0, 1, NAN, NAN, 0],
        "first_pass": [1, 1, 0, 1, 1, NAN, 1, 1],
        "entry": [0] * 8,
    }  # fmt: skip
    assert set(expected) == set(names_of("fixation"))
    for name, values in expected.items():
        np.testing.assert_allclose(made.column(name), list(values), atol=1e-12, err_msg=name)


def test_a_turned_page_separates() -> None:
    """The numbers of the third and fourth fixation know nothing of each other."""
    data = dataset({"P1_A": BY_HAND})
    data.fixations["page"] = ["a"] * 3 + ["b"] * 5
    made = reading_trials(data)
    whole = reading_trials(dataset({"P1_A": BY_HAND}))
    for name in names_of("fixation"):
        expected = whole.column(name).copy()
        if name in ("gap", "next_step", "next_distance", "next_angle"):
            expected[2] = NAN
        if name.startswith("previous") or name == "refixation":
            expected[3] = NAN
        np.testing.assert_array_equal(made.column(name), expected, err_msg=name)


def test_missing_onsets_and_positions() -> None:
    path = np.array(BY_HAND, dtype=float)
    path[3, 2] = NAN  # onset
    path[1, :2] = NAN  # no position: on no word
    made = reading_trials(dataset({"P1_A": path}))
    np.testing.assert_array_equal(made.column("gap"), [20, 20, NAN, NAN, 20, 20, 30, NAN])
    assert made.word[1] == -1 and np.isnan(made.column("next_distance")[[0, 1]]).all()
    assert np.isnan(made.column("previous_angle")[[1, 2]]).all()
    assert np.isnan(made.column("refixation")[[0, 1, 2]]).all()
    np.testing.assert_array_equal(made.column("first_pass")[:3], [1, NAN, 1])
    no_times = reading_trials(dataset({"P1_A": path[:, [0, 1, 3]]}, columns=["x", "y", "duration"]))
    assert np.isnan(no_times.column("gap")).all()
    np.testing.assert_array_equal(no_times.column("duration"), path[:, 3])


def test_the_middle_of_an_area_stands_for_a_position() -> None:
    data = dataset({"P1_A": BY_HAND})
    found = reading_trials(data)
    names = {0: "w0", 1: "w2", 2: "w1", 3: "w2", 4: "w2", 6: "w3", 7: "w5"}
    data.fixations["word"] = [names.get(i) for i in range(8)]
    data.fixations["area_x"] = data.fixations.pop("x")
    data.fixations["area_y"] = data.fixations.pop("y")
    made = reading_trials(data)
    np.testing.assert_array_equal(made.fixations, found.fixations)


def test_words_of_a_text_by_hand() -> None:
    found = dict(zip(names_of("text"), text_features(words()).T, strict=True))
    expected = {
        "length": [3, 3, 4, 4, 3, 3],
        "rarity": [9 - zipf_frequency(w, "en") for w in WORDS],
        "surprisal": [NAN] * 6,
        "line_start": [1, 0, 0, 1, 0, 0],
        "line_end": [0, 0, 1, 0, 0, 1],
        "sentence_end": [0, 0, 0, 0, 0, 1],
        "position": np.arange(6) / 6,
    }
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, err_msg=name)
    assert 1 < found["rarity"][0] < 2 < found["rarity"][5] < 5  # "The" is common


def test_ends_of_sentences() -> None:
    texts = ["Yes.", 'no."', "why?)", "wait…", "go!»", "e.g", "a,", ".", "'", ""]
    found = text_features(pd.DataFrame({"text": texts}))[:, names_of("text").index("sentence_end")]
    assert found.tolist() == [1, 1, 1, 1, 1, 0, 0, 1, 0, 0]


def test_lines_that_are_not_known() -> None:
    columns = [names_of("text").index(n) for n in ("line_start", "line_end")]
    assert np.isnan(text_features(words().drop(columns="line"))[:, columns]).all()
    partly = words().assign(line=[0, 0, NAN, 1, 1, 1])
    assert np.isnan(text_features(partly)[:, columns]).all()
    one = text_features(words().iloc[:1])[:, columns]
    assert one.tolist() == [[1, 1]]
    assert text_features(words().iloc[:0]).shape == (0, len(names_of("text")))


def test_entering_by_hand() -> None:
    """Text of two lines, words 0-2 and 3-5: what comes before the first line is entry."""
    ways = {
        (4, 0, 1, 2): (1, 0, 0, 0),  # from the middle of the screen to the start
        (0, 4, 1): (0, 0, 0),  # begun at the start
        (-1, 5, -1, 1, 4): (1, 1, 1, 0, 0),  # off the text on its way
        (4, 5, 3, 4, 5, 3, 0): (0, 0, 0, 0, 0, 0, 0),  # six before the first line: reading
        (4, 5, 3): (0, 0, 0),  # never on the first line
        (-1, -1): (0, 0),
    }
    word = np.array([w for way in ways for w in way])
    starts = np.cumsum([0, *map(len, ways)])
    line = np.where(word < 0, NAN, word // 3)
    expected = [e for way in ways.values() for e in way]
    found = entering(word, starts, line, np.zeros(len(ways)))
    np.testing.assert_array_equal(found, expected)
    # lines not known: the first five words are the start
    unknown = entering(np.array([7, 6, 4, 0]), np.array([0, 4]), np.full(4, NAN), np.array([NAN]))
    np.testing.assert_array_equal(unknown, [1, 1, 0, 0])
    assert not len(entering(np.zeros(0, int), np.array([0]), np.zeros(0), np.zeros(0)))


def test_a_fixation_on_the_way_ends_no_pass() -> None:
    rows = [(50, 75), (50, 25), (150, 25), (250, 25)]  # word 3 first, then 0, 1, 2
    way = pd.DataFrame(rows, columns=["x", "y"])
    data = dataset({"P1_A": BY_HAND})
    table = data.fixations.iloc[:4].assign(x=way["x"].to_numpy(), y=way["y"].to_numpy())
    data.fixations = table
    made = reading_trials(data)
    np.testing.assert_array_equal(made.word, [3, 0, 1, 2])
    np.testing.assert_array_equal(made.column("entry"), [1, 0, 0, 0])
    np.testing.assert_array_equal(made.column("first_pass"), [NAN, 1, 1, 1])
    assert np.isfinite(made.column("gaze_duration")[:3]).all()
    assert np.isnan(made.column("gaze_duration")[3])  # not read yet


def test_names() -> None:
    for scope, features in BY_SCOPE.items():
        assert names_of(scope) == tuple(f.name for f in features)
        assert len(set(names_of(scope))) == len(features)
        assert all(f.scope == scope and f.unit and f.description for f in features)
    assert chosen("text", ["rarity", "length"]) == ["length", "rarity"]
    assert chosen("text", None, ["rarity"]) == [n for n in names_of("text") if n != "rarity"]
    assert chosen("gaze", ()) == []
    with pytest.raises(UnknownNameError, match="'rarity'"):
        chosen("text", ["raritY"])
    with pytest.raises(UnknownNameError):
        chosen("text", None, ["nothing"])
    with pytest.raises(UnknownNameError):
        names_of("word")


def test_rows_that_do_not_fit() -> None:
    table = pd.DataFrame({"duration": [1.0, 2.0]})
    boxes = pd.DataFrame(index=range(2))
    with pytest.raises(DataError, match="do not fit"):
        fixation_features(table, np.array([0, 3]), np.array([0, 1]), np.array([2]), boxes)
    empty = fixation_features(
        table.iloc[:0], np.array([0, 0]), np.zeros(0, int), np.array([2]), boxes.iloc[:0]
    )
    assert empty.shape == (0, len(names_of("fixation")))


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_equals_loops(seed: int) -> None:
    made = reading_trials(many(6, seed))
    f = {n: made.column(n) for n in names_of("fixation")}
    for i in range(len(made)):
        rows = range(made.starts[i], made.starts[i + 1])
        seen = -1
        for k in rows:
            word, last, first = made.word[k], k == rows[-1], k == rows[0]
            both = not last and word >= 0 and made.word[k + 1] >= 0
            step = made.word[k + 1] - word if both else NAN
            np.testing.assert_equal(f["next_step"][k], float(step))
            np.testing.assert_equal(f["previous_step"][k], NAN if first else f["next_step"][k - 1])
            np.testing.assert_equal(
                f["refixation"][k],
                NAN
                if first or min(word, made.word[k - 1]) < 0
                else float(word == made.word[k - 1]),
            )
            on_its_way = f["entry"][k] == 1
            passed = NAN if word < 0 or on_its_way else float(word >= seen)
            np.testing.assert_equal(f["first_pass"][k], passed)
            seen = seen if on_its_way else max(seen, word)
            gap = NAN if last else 0.0
            assert np.isnan(gap) == np.isnan(f["gap"][k])
            if word >= 0:
                assert 0 <= f["landing"][k] < 1 and f["word_share"][k] == word / made.n_words[i]
            else:
                assert np.isnan(f["landing"][k]) and np.isnan(f["line"][k])
        assert f["index"][rows].tolist() == list(range(len(rows)))
