"""Word measures: by hand, against plain loops, and what must hold for every scanpath."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import UnknownNameError
from gazeattn.reading._scan import next_greater
from gazeattn.reading.measures import (
    CONVENTIONS,
    EYELINK_COLUMNS,
    word_measures,
    word_measures_with_log,
)
from gazeattn.tables import MEASURES, check_fixations, check_trials, check_words

NAN = np.nan
FIRST_PASS = [
    "first_fixation_duration",
    "single_fixation_duration",
    "gaze_duration",
    "go_past_time",
]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def one(tables, path, n_words, durations=None, convention="first_pass", by="box"):
    durations = None if durations is None else {"t": durations}
    return word_measures(*tables({"t": path}, n_words, durations, by), convention=convention)


def column(table: pd.DataFrame, name: str) -> list[float]:
    return table[name].tolist()


def same(values, expected) -> None:
    np.testing.assert_array_equal(np.asarray(values, float), np.asarray(expected, float))


def test_a_scanpath_worked_out_by_hand(tables):
    # words 0 1 1 2 1 3 (off text) 3, durations 10 20 30 40 50 60 70 80
    path, durations = [0, 1, 1, 2, 1, 3, None, 3], [10, 20, 30, 40, 50, 60, 70, 80]
    table = one(tables, path, 5, durations)
    assert table["word"].tolist() == ["w0", "w1", "w2", "w3", "w4"]
    same(table["first_fixation_duration"], [10, 20, 40, 60, NAN])
    same(table["single_fixation_duration"], [10, NAN, 40, 60, NAN])
    same(table["gaze_duration"], [10, 50, 40, 60, NAN])  # off text ends the run on word 3
    same(table["go_past_time"], [10, 50, 90, 140, NAN])  # 40 + 50; 60 + 80 without the 70
    same(table["total_reading_time"], [10, 100, 40, 140, 0])
    same(table["fixation_count"], [1, 3, 1, 2, 0])
    same(table["skip"], [0, 0, 0, 0, 1])
    same(table["regression_in"], [0, 1, 0, 0, NAN])
    same(table["regression_out"], [0, 0, 1, 0, NAN])


def test_the_same_scanpath_as_the_eyelink_report_has_it(tables):
    path, durations = [0, 1, 1, 2, 1, 3, None, 3], [10, 20, 30, 40, 50, 60, 70, 80]
    table = one(tables, path, 5, durations, "eyelink")
    same(table["IA_FIRST_FIXATION_DURATION"], [10, 20, 40, 60, 0])
    same(table["IA_FIRST_RUN_DWELL_TIME"], [10, 50, 40, 60, 0])
    same(table["IA_SECOND_RUN_DWELL_TIME"], [NAN, 50, NAN, 80, NAN])
    same(table["IA_LAST_RUN_DWELL_TIME"], [10, 50, 40, 80, 0])
    same(table["IA_REGRESSION_PATH_DURATION"], [10, 50, 90, 140, 0])
    same(table["IA_DWELL_TIME"], [10, 100, 40, 140, 0])
    same(table["IA_FIXATION_COUNT"], [1, 3, 1, 2, 0])
    same(table["IA_SKIP"], [0, 0, 0, 0, 1])
    same(table["IA_REGRESSION_IN"], [0, 1, 0, 0, NAN])
    same(table["IA_REGRESSION_IN_COUNT"], [0, 1, 0, 0, 0])
    same(table["IA_REGRESSION_OUT"], [0, 0, 1, 0, NAN])
    same(table["IA_REGRESSION_OUT_COUNT"], [0, 0, 1, 0, 0])


@pytest.mark.parametrize("by", ["box", "word"])
@pytest.mark.parametrize(
    ("path", "skipped"),
    [([0, 3], [1, 2]), ([3], [0, 1, 2]), ([1], [0, 2, 3]), ([0, None, 3], [1, 2])],
)
def test_skipped_words_have_counts_of_zero_and_no_first_pass_durations(tables, by, path, skipped):
    table = one(tables, path, 4, by=by).set_index("index").loc[skipped]
    assert (table["skip"] == 1).all()
    assert (table["fixation_count"] == 0).all()
    assert (table["total_reading_time"] == 0).all()
    assert table[FIRST_PASS].isna().all(axis=None)


@pytest.mark.parametrize(
    ("path", "late", "from_later"),
    [
        ([0, 2, 1, 3], 1, 1),
        ([2, 0], 0, 1),
        ([3, 1, 2], 1, 1),
        ([3, 1, 2], 2, 0),  # passed by word 3, but entered from word 1
        ([0, 2, None, 1], 1, 1),  # the fixation off text is passed over
    ],
)
def test_a_word_first_met_after_it_was_passed_has_no_first_pass_measures(
    tables, path, late, from_later
):
    row = one(tables, path, 4).loc[late]
    assert row["skip"] == 1
    assert row[FIRST_PASS].isna().all()
    assert row["total_reading_time"] == 100
    assert row["fixation_count"] == 1
    assert row["regression_in"] == from_later
    eyelink = one(tables, path, 4, convention="eyelink").loc[late]
    assert eyelink["IA_FIRST_FIXATION_DURATION"] == 100
    assert eyelink["IA_SKIP"] == 1


@pytest.mark.parametrize(
    ("path", "word", "go_past", "gaze"),
    [
        ([0, 1, 0, 1, 2], 1, 300, 100),  # back to 0, again 1, then on
        ([0, 1, 0, 1], 1, 300, 100),  # the text ends before any later word
        ([0, 1, 1, 0, 0, 1, 2], 1, 500, 200),
        ([2, 1, 0, 1, 2], 2, 500, 100),
        ([0, 1, None, 0, 2], 1, 200, 100),  # the fixation off text is not added
    ],
)
def test_go_past_time_holds_the_regressions_from_a_word(tables, path, word, go_past, gaze):
    row = one(tables, path, 3).loc[word]
    assert row["go_past_time"] == go_past
    assert row["gaze_duration"] == gaze
    assert row["regression_out"] == 1


def test_a_later_first_pass_exit_counts_and_one_after_a_later_word_does_not(tables):
    assert column(one(tables, [0, 1, 0, 1, 0], 2, convention="eyelink"),
                  "IA_REGRESSION_OUT_COUNT") == [0, 2]  # fmt: skip
    table = one(tables, [0, 1, 2, 1, 0], 3)
    assert column(table, "regression_out") == [0, 0, 1]
    assert column(table, "regression_in") == [1, 1, 0]


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_empty_one_and_two_fixation_trials_in_one_batch_of_ten(tables, convention):
    paths = {f"t{i}": [0, 1, 2] for i in range(7)}
    paths |= {"t7": [], "t8": [1], "t9": [0, 1]}
    fixations, words, trials = tables(paths, 3)
    table, log = word_measures_with_log(fixations, words, trials, convention)
    assert len(table) == 30
    names = list(MEASURES if convention == "first_pass" else EYELINK_COLUMNS)
    assert list(table.columns[7:]) == names
    count = names[5] if convention == "first_pass" else "IA_FIXATION_COUNT"
    counts = table.groupby("trial")[count].sum(min_count=1)
    assert np.isnan(counts["t7"])
    assert (counts["t8"], counts["t9"]) == (1, 2)
    assert table.loc[table["trial"] == "t7", names].isna().all(axis=None)
    empty = [x for x in log if "without any located fixation" in x.reason]
    assert (empty[0].count, empty[0].examples) == (1, "t7")


def test_a_trial_whose_fixations_have_no_position_is_undefined_not_skipped(tables):
    fixations, words, trials = tables({"t": [0, 1], "u": [0]}, 2)
    fixations.loc[fixations["trial"] == "t", "x"] = NAN
    table, log = word_measures_with_log(fixations, words, trials)
    assert table.loc[table["trial"] == "t", list(MEASURES)].isna().all(axis=None)
    assert column(table[table["trial"] == "u"], "skip") == [0, 1]
    assert any("without any located" in x.reason and x.examples == "t" for x in log)


def test_a_trial_off_every_word_has_skipped_words(tables):
    table = one(tables, [None, None], 2)
    assert column(table, "skip") == [1, 1]
    assert column(table, "fixation_count") == [0, 0]
    assert table["first_fixation_duration"].isna().all()


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_no_fixations_no_trials_no_words(tables, convention):
    fixations, words, trials = tables({"t": [0]}, 2)
    assert (
        word_measures(fixations.iloc[:0], words, trials, convention)
        .iloc[:, 7:]
        .isna()
        .all(axis=None)
    )
    assert len(word_measures(fixations, words, trials.iloc[:0], convention)) == 0
    assert len(word_measures(fixations, words.iloc[:0], trials, convention)) == 0


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_duration_makes_its_measures_missing_and_is_counted(tables, missing):
    durations = [10.0, 20.0, 30.0, 40.0]
    durations[missing] = NAN
    path = [0, 0, 1, 0]
    fixations, words, trials = tables({"t": path, "u": [0, 1, 1, 0]}, 2,
                                      {"t": durations, "u": [1, 2, 3, 4]})  # fmt: skip
    table, log = word_measures_with_log(fixations, words, trials)
    other = table[table["trial"] == "u"]
    same(other["total_reading_time"], [5, 5])
    same(other["go_past_time"], [1, 9])
    mine = table[table["trial"] == "t"].reset_index(drop=True)
    word = path[missing]
    assert np.isnan(mine.loc[word, "total_reading_time"])
    assert np.isnan(mine.loc[word, "gaze_duration"])
    assert not np.isnan(mine.loc[1 - word, "total_reading_time"])
    assert mine.loc[word, "fixation_count"] == (3, 1)[word]
    assert column(mine, "skip") == [0, 0]
    if missing == 1:  # the first of two fixations has a duration, their sum has none
        assert mine.loc[0, "first_fixation_duration"] == 10
    reported = {x.unit: x.count for x in log if "without a duration" in x.reason}
    assert reported == {"fixations": 1, "words": 1}


def test_without_any_durations_the_counts_remain(tables):
    fixations, words, trials = tables({"t": [0, 2, 1]}, 3, by="word")
    table = word_measures(fixations.drop(columns="duration"), words, trials)
    assert column(table, "fixation_count") == [1, 1, 1]
    assert column(table, "skip") == [0, 1, 0]
    assert table[FIRST_PASS].isna().all(axis=None)


def test_unknown_convention_has_a_suggestion(tables):
    with pytest.raises(UnknownNameError, match="did you mean 'first_pass'"):
        word_measures(*tables({"t": [0]}, 1), convention="firstpass")


def test_right_to_left_words_are_read_in_the_order_of_their_index():
    # The first word stands at the right; the eyes move left, which is forward.
    words, _ = check_words(
        pd.DataFrame({"layout": "A", "stimulus": "A", "word": ["a", "b"], "text": ["שלום", "עולם"],
                      "index": [0, 1], "left": [100, 0], "right": [200, 100], "top": 0,
                      "bottom": 50})
    )  # fmt: skip
    trials, _ = check_trials(
        pd.DataFrame({"participant": "P", "trial": ["on", "back"], "stimulus": "A"})
    )
    fixations, _ = check_fixations(
        pd.DataFrame({"participant": "P", "trial": ["on"] * 2 + ["back"] * 3, "stimulus": "A",
                      "x": [150, 50, 150, 50, 150], "y": 25.0, "duration": 100.0})
    )  # fmt: skip
    table = word_measures(fixations, words, trials).set_index(["trial", "word"])
    assert table.loc[("on", "a"), "skip"] == 0
    assert table.loc[("on", "b"), "regression_out"] == 0
    assert table.loc[("back", "b"), "regression_out"] == 1
    assert table.loc[("back", "a"), "regression_in"] == 1


def test_rows_are_all_words_of_all_trials_with_their_layout():
    words = pd.DataFrame({"layout": ["A", "A", "B"], "stimulus": "S", "word": ["0", "1", "0"],
                          "text": ["x", "y", "x"]})  # fmt: skip
    words, _ = check_words(words.assign(left=[0, 10, 0], right=[10, 20, 20], top=0, bottom=5))
    trials, _ = check_trials(
        pd.DataFrame({"participant": ["P1", "P2"], "trial": ["t2", "t1"], "stimulus": "S",
                      "layout": ["B", "A"]})
    )  # fmt: skip
    fixations, _ = check_fixations(
        pd.DataFrame({"participant": ["P1", "P2"], "trial": ["t2", "t1"], "stimulus": "S",
                      "x": [15.0, 15.0], "y": 1.0, "duration": 100.0})
    )  # fmt: skip
    table = word_measures(fixations, words, trials)
    assert table["trial"].tolist() == ["t2", "t1", "t1"]
    assert table["participant"].tolist() == ["P1", "P2", "P2"]
    assert table["layout"].tolist() == ["B", "A", "A"]
    assert table["text"].tolist() == ["x", "x", "y"]
    assert column(table, "fixation_count") == [1, 0, 1]


paths = st.lists(
    st.lists(st.one_of(st.none(), st.integers(0, 6)), max_size=25), min_size=1, max_size=6
)
whole = st.integers(1, 400)


@st.composite
def recordings(draw):
    drawn = draw(paths)
    named = {f"t{i}": path for i, path in enumerate(drawn)}
    durations = {t: draw(st.lists(whole, min_size=len(p), max_size=len(p)))
                 for t, p in named.items()}  # fmt: skip
    return named, durations


@settings(deadline=None, max_examples=80)
@given(recordings(), st.sampled_from(["box", "word"]))
def test_random_scanpaths_agree_with_plain_loops(reference, tables, recording, by):
    named, durations = recording
    if by == "word" and all(w is None for p in named.values() for w in p):
        by = "box"  # no word id anywhere states nothing
    fixations, words, trials = tables(named, 7, durations, by)
    both = {c: word_measures(fixations, words, trials, c) for c in CONVENTIONS}
    for trial, path in named.items():
        expected = reference.measures_of_trial(path, durations[trial], 7)
        for convention, names in (("first_pass", MEASURES), ("eyelink", EYELINK_COLUMNS)):
            table = both[convention]
            mine = table[table["trial"] == trial]
            for name in names:
                want = [row[name] if path else NAN for row in expected]
                same(mine[name], want)


@settings(deadline=None, max_examples=60)
@given(recordings())
def test_what_holds_for_every_scanpath(tables, recording):
    named, durations = recording
    table = word_measures(*tables(named, 7, durations))
    table = table[table["skip"].notna()]
    first = table[table["skip"] == 0]
    assert (first["first_fixation_duration"] <= first["gaze_duration"]).all()
    assert (first["gaze_duration"] <= first["total_reading_time"]).all()
    assert (first["go_past_time"] >= first["gaze_duration"]).all()
    single = first["single_fixation_duration"].notna()
    assert (
        first.loc[single, "gaze_duration"] == first.loc[single, "first_fixation_duration"]
    ).all()
    for name in ("first_fixation_duration", "gaze_duration", "go_past_time"):
        assert (table[name].isna() == (table["skip"] == 1)).all()
    never = table["fixation_count"] == 0
    assert (table["regression_in"].isna() == never).all()
    assert (table["regression_out"].isna() == never).all()
    for trial, path in named.items():
        on = [d for w, d in zip(path, durations[trial], strict=True) if w is not None]
        assert table.loc[table["trial"] == trial, "total_reading_time"].sum() == sum(on)


@settings(deadline=None, max_examples=60)
@given(recordings(), st.randoms(use_true_random=False), st.floats(0.001, 1.0))
def test_order_and_names_of_trials_change_no_value(tables, recording, random, scale):
    named, durations = recording
    durations = {t: [d * scale for d in v] for t, v in durations.items()}  # not whole numbers
    order = list(named)
    random.shuffle(order)
    new = {t: f"x{random.randrange(10**6)}-{t}" for t in order}
    for convention in CONVENTIONS:
        a = word_measures(*tables(named, 7, durations), convention=convention)
        b = word_measures(
            *tables({new[t]: named[t] for t in order}, 7, {new[t]: durations[t] for t in order}),
            convention=convention,
        )
        for t in order:
            x, y = a[a["trial"] == t].iloc[:, 7:], b[b["trial"] == new[t]].iloc[:, 7:]
            np.testing.assert_array_equal(x.to_numpy(), y.to_numpy())  # to the last bit


@settings(deadline=None, max_examples=50)
@given(recordings(), st.randoms(use_true_random=False))
def test_order_of_rows_in_the_fixation_table_changes_nothing(tables, recording, random):
    named, durations = recording
    fixations, words, trials = tables(named, 7, durations)
    rows = list(range(len(fixations)))
    random.shuffle(rows)
    for convention in CONVENTIONS:
        pd.testing.assert_frame_equal(
            word_measures(fixations, words, trials, convention),
            word_measures(fixations.iloc[rows], words, trials, convention),
        )


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=70))
def test_next_greater_agrees_with_a_loop(values):
    array = np.array(values, dtype=np.int64)
    expected = [
        next((j for j in range(i + 1, len(values)) if values[j] > values[i]), len(values))
        for i in range(len(values))
    ]
    assert next_greater(array, np.arange(len(values))).tolist() == expected


def test_reading_backwards_word_by_word_stays_correct(tables):
    n = 300
    table = one(tables, list(range(n - 1, -1, -1)), n, convention="eyelink")
    assert column(table, "IA_SKIP") == [1] * (n - 1) + [0]
    assert column(table, "IA_REGRESSION_PATH_DURATION") == [100.0 * (i + 1) for i in range(n)]
