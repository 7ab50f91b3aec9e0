"""The published interest-area report as the check of the convention ``eyelink``."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gazeattn
from gazeattn.datasets.base import GazeDataset
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.reading.areas import map_to_words
from gazeattn.reading.measures import (
    EYELINK_COLUMNS,
    check_against_report,
    disagreements,
    word_measures,
)

OUT = ("IA_REGRESSION_OUT", "IA_REGRESSION_OUT_COUNT")


@pytest.fixture(scope="module")
def sample() -> GazeDataset:
    try:
        return gazeattn.load("onestop_sample")
    except MissingAssetError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def piece(shared_data) -> GazeDataset:
    return gazeattn.load("onestop_slice", root=shared_data)


def check(dataset: GazeDataset, n_words: int, at_most: int) -> None:
    table = check_against_report(dataset).set_index("column")
    assert set(table.index) == set(EYELINK_COLUMNS)
    assert (table["compared"] == n_words).all()
    for name in EYELINK_COLUMNS:
        if name in OUT:
            assert table.loc[name, "disagree"] <= at_most
        else:
            assert table.loc[name, "share"] == 1, name
    listed = disagreements(dataset)
    assert len(listed) == table["disagree"].sum()


def test_the_sample_agrees_with_its_report(sample):
    assert "word" not in sample.fixations or sample.fixations["word"].isna().all()
    check(sample, 2614, 6)


def test_the_slice_agrees_with_its_report_and_the_reader_without_fixations_is_left_out(piece):
    check(piece, 2206, 5)
    measures = piece.measures()
    silent = measures.loc[measures["participant"] == "l25_1042"]
    assert len(silent) == 3310 - 2206
    assert silent["fixation_count"].isna().all()


def test_reported_areas_and_boxes_give_the_same_words(sample):
    if "word_reported" not in sample.fixations:
        pytest.skip("the loader keeps no reported areas")
    mapped, _ = map_to_words(sample.fixations, sample.words, sample.trials)
    pd.testing.assert_series_equal(
        mapped["word"], sample.fixations["word_reported"], check_names=False
    )
    by_box = word_measures(sample.fixations, sample.words, sample.trials)
    stated = sample.fixations.assign(word=sample.fixations["word_reported"])
    pd.testing.assert_frame_equal(by_box, word_measures(stated, sample.words, sample.trials))


def small(tables, **reported) -> GazeDataset:
    fixations, words, trials = tables({"t": [0, 1, 0], "empty": []}, 3)
    report = pd.DataFrame(
        {"trial": ["t"] * 3 + ["empty"] * 3, "word": ["w0", "w1", "w2"] * 2, **reported}
    )
    return GazeDataset("small", fixations, words, trials, reports={"eyelink": report})


def test_shares_and_disagreements_by_hand(tables):
    dataset = small(
        tables,
        IA_DWELL_TIME=["200", "100", "7", "0", "0", "0"],
        IA_SECOND_RUN_DWELL_TIME=["100", ".", "0", ".", ".", "."],
        IA_REGRESSION_IN=["1", "0", ".", ".", ".", "."],
    )
    table = check_against_report(dataset).set_index("column")
    assert (table["compared"] == 3).all()  # nothing was recorded in the other trial
    assert table["agree"].to_dict() == {
        "IA_DWELL_TIME": 2,
        "IA_SECOND_RUN_DWELL_TIME": 2,
        "IA_REGRESSION_IN": 3,
    }
    listed = disagreements(dataset)
    assert listed["word"].tolist() == ["w2", "w2"]
    assert set(listed["column"]) == {"IA_DWELL_TIME", "IA_SECOND_RUN_DWELL_TIME"}
    row = listed[listed["column"] == "IA_SECOND_RUN_DWELL_TIME"].iloc[0]
    assert np.isnan(row["computed"])
    assert row["reported"] == 0
    assert listed.columns.tolist() == [
        "participant", "trial", "word", "index", "text", "column", "computed", "reported",
    ]  # fmt: skip


def test_missing_or_foreign_reports_are_refused(tables):
    dataset = small(tables, IA_DWELL_TIME=["1"] * 6)
    with pytest.raises(DataError, match="no report 'tobii'"):
        check_against_report(dataset, report="tobii")
    dataset.reports["eyelink"] = dataset.reports["eyelink"].iloc[:3].assign(trial="other")
    with pytest.raises(DataError, match="shares no word"):
        check_against_report(dataset)
    dataset = small(tables, IA_OTHER=["1"] * 6)
    with pytest.raises(DataError, match="shares no word or column"):
        check_against_report(dataset)


def test_a_report_value_that_is_no_number_is_refused(tables):
    with pytest.raises(DataError, match="abc"):
        check_against_report(small(tables, IA_DWELL_TIME=["abc"] * 6))


def test_a_word_that_stands_twice_in_the_report_is_refused(tables):
    dataset = small(tables, IA_DWELL_TIME=["1"] * 6)
    report = dataset.reports["eyelink"]
    dataset.reports["eyelink"] = pd.concat([report, report.iloc[:1]])
    with pytest.raises(DataError, match=r"row 6.*twice.*'w0'"):
        check_against_report(dataset)
