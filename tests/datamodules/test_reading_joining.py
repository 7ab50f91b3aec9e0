"""Screens of one text as one reading: words, lines, order, and nothing measured between screens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gazeattn.datamodules.reading import reading_trials
from gazeattn.datamodules.reading_features import names_of
from gazeattn.datamodules.reading_joining import join_screens
from gazeattn.datasets import GazeDataset
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog

from .made_readings import BY_HAND, dataset, words

SECOND = ((50, 25, 0, 110), (150, 25, 150, 120), (50, 75, 300, 130))
BY = ["participant", "book"]


def screens(order: tuple[int, int] = (1, 2), word_ids: bool = False) -> GazeDataset:
    """Return two readers of a book with screens A (6 words) and B (4 words, 2 lines)."""
    tables = [words(), words("B", ["Here", "it", "goes", "on."], 2)]
    facts = {
        f"P{p}_{s}": {"book": "k", "page_name": s, "visit": v, "label": p}
        for p in (1, 2)
        for s, v in zip("AB", order, strict=True)
    }
    paths = {"P2_B": SECOND[:2], "P1_B": SECOND, "P1_A": BY_HAND, "P2_A": BY_HAND[:3]}
    data = dataset(paths, facts, tables)
    if word_ids:
        ids = {"P1_A": ["w0", "w2", "w1", "w2", "w2", None, "w3", "w5"], "P1_B": ["w0", "w1", "w2"],
               "P2_A": ["w0", "w2", "w1"], "P2_B": ["w0", "w1"]}  # fmt: skip
        column = [ids[t][i] for t, i in data.fixations[["trial", "index"]].to_numpy()]
        data = replace(data, fixations=data.fixations.assign(word=column))
    return data


@pytest.mark.parametrize("word_ids", [False, True])
def test_words_and_lines_go_on(word_ids: bool) -> None:
    """Boxes of the two screens overlap; fixations lie on the words of their own."""
    joined = join_screens(screens(word_ids=word_ids), BY, "visit")
    made = reading_trials(joined)
    assert made.trial.tolist() == ["P1_k", "P2_k"] and made.table["screens"].tolist() == [2, 2]
    assert made.n_words.tolist() == [10, 10] and list(made.texts) == ["A+B"]
    assert made.texts["A+B"].words[5:8] == ("sea.", "Here", "it")
    # B: lines of two words, thus words 6, 7 and 8
    assert made.word.tolist() == [0, 2, 1, 2, 2, -1, 3, 5, 6, 7, 8, 0, 2, 1, 6, 7]
    line = made.column("line")
    np.testing.assert_array_equal(line[:11], [0, 0, 0, 0, 0, np.nan, 1, 1, 2, 2, 3])
    assert made.text_column("line_start")[:10].tolist() == [1, 0, 0, 1, 0, 0, 1, 0, 1, 0]
    assert made.text_column("position")[:10].tolist() == [k / 10 for k in range(10)]
    assert joined.words["index"].tolist() == list(range(10))
    assert joined.words["word"].is_unique and joined.stimuli == {}
    lost = LossLog()
    join_screens(screens(word_ids=word_ids), BY, "visit", lost)
    # the fixation off the text is counted where fixations are put on words here
    assert bool(len(lost)) is not word_ids


def test_nothing_is_measured_between_screens() -> None:
    made = reading_trials(join_screens(screens(), BY, "visit"))
    last, first = [7, 13], [8, 14]
    for name in ("gap", "next_step", "next_distance", "next_angle"):
        assert np.isnan(made.column(name)[last]).all(), name
        known = made.column(name)[[0, 1, 8, 11]]
        assert not np.isnan(known).any()
    for name in ("previous_step", "previous_distance", "previous_angle", "refixation"):
        assert np.isnan(made.column(name)[first]).all(), name
    # each screen's features are those of the screen alone, but for numbers that count on
    alone = reading_trials(screens())
    b = alone.named(["P1_B"])
    for name in names_of("fixation"):
        if name in ("index", "word", "word_share", "line"):
            continue
        np.testing.assert_array_equal(made.column(name)[8:11], b.column(name), err_msg=name)
    assert made.column("index")[8:11].tolist() == [8, 9, 10]
    sums = made.column("total_reading_time")
    assert sums[6:10].tolist() == [110, 120, 130, 0] and sums[:6].sum() == 1300


def test_order_of_screens() -> None:
    made = reading_trials(join_screens(screens((2, 1)), BY, "visit"))
    assert list(made.texts) == ["B+A"]
    assert made.word[:11].tolist() == [0, 1, 2, 4, 6, 5, 6, 6, -1, 7, 9]
    assert made.column("duration")[:3].tolist() == [110, 120, 130]


def test_facts() -> None:
    data = screens()
    joined = join_screens(data, BY, "visit")
    # what differs between the screens of a reading is no fact of the reading
    assert "page_name" not in joined.trials and "visit" not in joined.trials
    assert joined.trials["label"].tolist() == [1, 2]
    assert joined.trials["book"].tolist() == ["k", "k"]
    assert joined.trials["layout"].tolist() == ["A+B", "A+B"] == joined.trials["stimulus"].tolist()
    assert set(joined.fixations["page"]) == {"P1_A", "P1_B", "P2_A", "P2_B"}
    assert len(joined.fixations) == len(data.fixations)
    missing = data.trials.assign(label=pd.array([1, None, 2, 2], dtype="Int64"))
    with_gap = join_screens(replace(data, trials=missing), BY, "visit")
    assert "label" not in with_gap.trials  # known on one screen only: not the same


def test_readers_with_other_screens_have_other_texts() -> None:
    data = screens()
    data = replace(
        data,
        trials=data.trials[data.trials["trial"] != "P2_A"].reset_index(drop=True),
    )
    made = reading_trials(join_screens(data, BY, "visit"))
    assert made.n_words.tolist() == [10, 4] and made.word[-2:].tolist() == [0, 1]
    assert made.table["text"].tolist() == ["A+B", "B"]
    assert len(made.word) == 13  # fixations of the trial that is not there are gone


def test_layouts_with_a_plus_in_their_name() -> None:
    tables = [words("A+1"), words("B", ["Here", "it"], 2)]
    facts = {"P1_A+1": {"book": "k", "visit": 1}, "P1_B": {"book": "k", "visit": 2}}
    data = dataset({"P1_A+1": BY_HAND, "P1_B": SECOND[:1]}, facts, tables)
    made = reading_trials(join_screens(data, BY, "visit"))
    assert made.n_words.tolist() == [8] and made.word[-1] == 6


def test_screens_without_lines_or_words() -> None:
    data = screens()
    unknown = data.words.assign(line=pd.array([None] * 10, dtype="Int64"))
    made = reading_trials(join_screens(replace(data, words=unknown), BY, "visit"))
    assert np.isnan(made.column("line")).all() and made.word.max() == 8
    data = replace(data, words=data.words[data.words["layout"] == "A"].reset_index(drop=True))
    made = reading_trials(join_screens(data, BY, "visit"))  # all of screen B is on none
    assert made.n_words.tolist() == [6, 6] and (made.word[8:11] == -1).all()


def test_prefix_of_joined_screens() -> None:
    made = reading_trials(join_screens(screens(), BY, "visit"), share=0.5)
    # P1: 1600 ms and 430 ms, half is 1015; P2: 570 ms and 270 ms, half is 420
    assert made.lengths.tolist() == [6, 2]
    assert made.word.tolist() == [0, 2, 1, 2, 2, -1, 0, 2]


def test_errors() -> None:
    data = screens()
    with pytest.raises(UnknownNameError, match="did you mean 'book'"):
        join_screens(data, ["participant", "books"], "visit")
    with pytest.raises(UnknownNameError):
        join_screens(data, BY, "trial_index")
    with pytest.raises(DataError, match="reader by reader"):
        join_screens(data, ["book"], "visit")
    # "a" + "b_c" and "a_b" + "c" are not one reading
    trials = data.trials.assign(
        participant=pd.array(["a", "a", "a_b", "a_b"], dtype="str"),
        book=pd.array(["b_c", "b_c", "c", "c"], dtype="str"),
    )
    with pytest.raises(DataError, match="same id"):
        join_screens(replace(data, trials=trials), BY, "visit")
    by_reader = join_screens(data, ["participant"], "visit")
    assert by_reader.trials["trial"].tolist() == ["P1", "P2"]
