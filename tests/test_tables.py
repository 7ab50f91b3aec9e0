"""Tables are cast by their schema, checked at the door, and nothing is lost without a count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.columns import as_number, as_text, as_truth
from gazeattn.errors import DataError
from gazeattn.tables import (
    FIXATIONS,
    LossLog,
    check_fixations,
    check_trials,
    check_words,
    conform,
)


def fixations(**columns: Any) -> pd.DataFrame:
    n = max(len(v) for v in columns.values() if isinstance(v, list))
    base = {"participant": "p", "trial": "t", "stimulus": "s", "x": 1.0, "y": 2.0}
    return pd.DataFrame({**base, **columns}, index=range(n))


# ---------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["007", "7"], ["007", "7"]),
        ([7, 8], ["7", "8"]),
        ([7.0, None, 8.0], ["7", None, "8"]),  # whole numbers beside a missing value
        (pd.Series([7, None], dtype="Int64"), ["7", None]),
        (pd.Series([7.0, None], dtype=object), ["7", None]),
        (pd.Series(["a", None], dtype="category"), ["a", None]),
        ([1.5, 2.0], ["1.5", "2.0"]),
        (["null", "NA", "nan", "None", "."], ["null", "NA", "nan", "None", "."]),
        (["1e5", "0x1", "True", "-0"], ["1e5", "0x1", "True", "-0"]),
        (["👩‍🔬", "a\u200bb", "e\u0301"], ["👩‍🔬", "a\u200bb", "e\u0301"]),
        ([True, False], ["True", "False"]),
        ([np.inf, 1.0], ["inf", "1.0"]),
    ],
)
def test_ids_and_words_are_text_as_written(values: Any, expected: list[str | None]) -> None:
    result = as_text(pd.Series(values))
    assert result.dtype == "str"
    assert [None if pd.isna(v) else v for v in result] == expected


@given(st.lists(st.text(), min_size=1))
@settings(max_examples=50)
def test_any_text_survives(values: list[str]) -> None:
    assert as_text(pd.Series(values, dtype=object)).tolist() == values


# ---------------------------------------------------------------- numbers and truth


def test_missing_marks_are_missing_only_in_number_columns() -> None:
    marks = ["", ".", "NaN", "nan", "NA", "N/A", "null", "None", "NULL", "<NA>", " . ", None]
    assert as_number(pd.Series(marks, dtype=object)).isna().all()
    assert as_text(pd.Series(marks, dtype=object)).notna().sum() == len(marks) - 1


@pytest.mark.parametrize("bad", ["abc", "1,5", "1.2.3", "True", "12ms", "inf", "-Infinity", "0x10"])
def test_not_a_number_is_an_error_with_row_and_value(bad: str) -> None:
    with pytest.raises(DataError, match="must hold numbers") as caught:
        as_number(pd.Series(["1", bad, "."]), "x", "F.csv", first_row=2)
    assert "F.csv, row 3" in str(caught.value) and bad in str(caught.value)
    assert ("decimal" in str(caught.value)) == ("," in bad)


@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64"])
def test_infinite_numbers_are_no_measurements(dtype: str) -> None:
    with pytest.raises(DataError, match="finite"):
        as_number(pd.Series([1.0, np.inf], dtype=dtype), "x")


def test_dates_are_not_milliseconds() -> None:
    with pytest.raises(DataError, match="dates or times"):
        as_number(pd.Series(pd.to_datetime(["2020-01-01"])), "onset")
    with pytest.raises(DataError, match="dates or times"):
        as_number(pd.Series(pd.to_timedelta(["1s"])), "onset")


@pytest.mark.parametrize("dtype", ["int64", "Int64", "float64", "object", "str", "category"])
def test_integer_columns_with_gaps_become_floats_before_values_go_missing(dtype: str) -> None:
    values = pd.Series([3, 4], dtype="int64").astype(dtype)
    result = as_number(values)
    assert result.dtype == "float64" and result.tolist() == [3.0, 4.0]
    gap = as_number(pd.Series([3, None], dtype="Int64" if dtype == "Int64" else object))
    assert gap.dtype == "float64" and np.isnan(gap[1])


def test_truth_from_words_and_numbers() -> None:
    values = pd.Series(["True", "false", "1", "0", "YES", "no", ".", None], dtype=object)
    result = as_truth(values)
    assert [None if pd.isna(v) else bool(v) for v in result] == [
        True, False, True, False, True, False, None, None,
    ]  # fmt: skip
    assert as_truth(pd.Series([1, 0])).tolist() == [True, False]
    with pytest.raises(DataError, match="true or false"):
        as_truth(pd.Series(["maybe"]), "blink")


# ---------------------------------------------------------------- schema


def test_missing_column_names_the_nearest() -> None:
    frame = fixations(x=[1.0]).rename(columns={"participant": "particpant"})
    with pytest.raises(DataError, match="may be called 'particpant' here"):
        check_fixations(frame)


def test_duplicate_column_names_raise() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["x", "x"])
    with pytest.raises(DataError, match="more than once"):
        conform(frame, FIXATIONS, source="f", step="fixations")


@pytest.mark.parametrize("value", [None, np.nan, pd.NA, ""])
@pytest.mark.parametrize("column", ["participant", "trial", "stimulus"])
def test_missing_ids_raise_with_their_row(column: str, value: Any) -> None:
    frame = fixations(x=[1.0, 2.0, 3.0])
    frame[column] = pd.Series(["a", "a", value], dtype=object)
    with pytest.raises(DataError, match=f"{column}.*missing") as caught:
        check_fixations(frame, first_row=2)
    assert caught.value.row == 4


def test_unknown_columns_stay_as_they_are() -> None:
    table, _ = check_fixations(fixations(x=[1.0, 2.0], mine=["a", "b"]))
    assert table["mine"].tolist() == ["a", "b"]


def test_the_input_is_not_changed() -> None:
    frame = fixations(x=[1.0, 2.0, 3.0], onset=[5.0, 1.0, 7.0])
    before = frame.copy()
    check_fixations(frame)
    pd.testing.assert_frame_equal(frame, before)


# ---------------------------------------------------------------- fixations


def test_fixations_are_sorted_and_numbered_from_zero() -> None:
    frame = fixations(trial=["b", "a", "b", "a"], index=[7, 3, 2, 9], x=[1.0, 2.0, 3.0, 4.0])
    table, log = check_fixations(frame)
    assert table["trial"].tolist() == ["a", "a", "b", "b"]
    assert table["index"].tolist() == [0, 1, 0, 1]
    assert table["x"].tolist() == [2.0, 4.0, 3.0, 1.0]
    assert len(log) == 0


@pytest.mark.parametrize(
    ("onset", "order", "moved"),
    [
        ([0.0, 0.010, 0.008, 0.010], [0, 2, 1, 3], 1),
        ([10.0, 0.0, 20.0], [1, 0, 2], 1),
        ([0.0, 10.0, 20.0, 15.0], [0, 1, 3, 2], 1),
        ([1.0, 1.0, 1.0], [0, 1, 2], 0),  # equal times keep file order
        ([1.0, np.nan, 3.0], [0, 1, 2], 0),  # a row without onset keeps its place
        ([np.nan, 5.0, np.nan, 1.0, 9.0], [0, 3, 1, 2, 4], 1),
    ],
)
def test_onsets_that_step_back_are_sorted_and_counted(
    onset: list[float], order: list[int], moved: int
) -> None:
    table, log = check_fixations(fixations(onset=onset, x=list(np.arange(len(onset)) * 1.0)))
    assert table["x"].astype(int).tolist() == order
    assert log.count("fixations", "repaired") == moved


@pytest.mark.parametrize(
    ("onset", "row"),
    [
        ([74701.30, 74701.33, 33.98, 34.00], 4),
        ([0, 300, 600, 0, 300, 600], 5),  # the two parts overlap
        ([10, 300, 600, 0, 200], 5),
        ([0, 300, 600, 0, 900], 5),
        ([100, 200, 0, 50, 40, 250], 4),
        ([0, 300, 0, 300, 0, 300], 4),
        ([5, 300, 200, 800, 0, 300], 6),  # only the last of three runs goes back
        ([0, 300, 0, 300, 0, 300, 0, 300], 4),
        ([0, np.nan, 300, 0, np.nan, 300], 5),
    ],
)
def test_a_clock_that_starts_again_is_not_sorted(onset: list[float], row: int) -> None:
    frame = fixations(onset=onset, x=list(np.arange(len(onset)) * 1.0))
    with pytest.raises(DataError, match="clock starts again") as caught:
        check_fixations(frame, first_row=2)
    assert caught.value.row == row and "trial 't'" in str(caught.value)
    assert "index" in str(caught.value)
    table, _ = check_fixations(frame.assign(index=range(len(onset))))
    np.testing.assert_array_equal(table["onset"], onset)  # a stated order is taken


@pytest.mark.parametrize(
    "onset",
    [
        [300, 600, 900, 0],
        [900, 600, 300, 0],
        [100, 1],
        [5, 9, 7, 1, 2],
        [0, 300, 200, 400],  # the second part starts after the first onset
        [100, 200, 0, 300, 400, 350],  # the last row is alone
        [900, 1000, 600, 700, 300, 400, 0, 100],  # pairs from the end
        [300, 0, 900, 600, 1200],
    ],
)
def test_rows_in_another_order_are_sorted_and_counted(onset: list[float]) -> None:
    frame = fixations(
        onset=[*onset, 0, 1], trial=["t"] * len(onset) + ["u"] * 2, x=list(range(len(onset) + 2))
    )
    table, log = check_fixations(frame)
    assert table["onset"].tolist() == [*sorted(onset), 0, 1]
    late = sum(v < max(onset[: i + 1]) for i, v in enumerate(onset))
    assert log.count("fixations", "repaired") == late > 0


def test_a_restart_is_found_in_interleaved_trials() -> None:
    frame = fixations(trial=list("abababab"), onset=[0, 0, 9, 9, 20, 0, 30, 9], x=list(range(8)))
    with pytest.raises(DataError, match="clock starts again") as caught:
        check_fixations(frame)
    assert caught.value.row == 5 and "trial 'b'" in str(caught.value)


def test_several_trials_are_sorted_apart() -> None:
    frame = fixations(trial=["a", "b", "a", "b"], onset=[100.0, 5.0, 200.0, 6.0])
    table, log = check_fixations(frame)
    assert table["onset"].tolist() == [100.0, 200.0, 5.0, 6.0]
    assert len(log) == 0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"index": [0, 0]}, "same number"),
        ({"duration": [100.0, -1.0]}, "negative duration"),
        ({"participant": ["a", "b"]}, "several participants"),
        ({"stimulus": ["a", "b"]}, "several stimuli"),
        ({"index": [0.0, 0.5]}, "whole numbers"),
        ({"x": [1.0, np.inf]}, "finite"),
    ],
)
def test_impossible_fixations_raise(columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_fixations(fixations(**columns))


def test_rows_without_position_or_duration_stay_and_are_counted() -> None:
    frame = fixations(x=[1.0, np.nan, 3.0], y=[1.0, 2.0, np.nan], duration=[np.nan, 0.0, 5.0])
    table, log = check_fixations(frame)
    assert len(table) == 3 and np.isnan(table["duration"][0]) and table["duration"][1] == 0.0
    assert {(x.kind, x.count) for x in log} == {("undefined", 2), ("undefined", 1)}


def test_no_position_column_at_all_raises() -> None:
    frame = fixations(x=[1.0]).drop(columns=["y"])
    with pytest.raises(DataError, match="need a position"):
        check_fixations(frame)


def test_an_empty_table_stays_empty_and_typed() -> None:
    table, log = check_fixations(fixations(x=[1.0]).iloc[:0])
    assert len(table) == 0 and table["index"].dtype == "int64" and len(log) == 0


@given(st.permutations(list(range(8))))
@settings(max_examples=30)
def test_row_order_does_not_matter_when_the_index_is_given(order: list[int]) -> None:
    frame = fixations(index=list(range(8)), trial=list("aabbbbcc"), x=list(np.arange(8.0)))
    expected, _ = check_fixations(frame)
    table, _ = check_fixations(frame.iloc[order])
    pd.testing.assert_frame_equal(table, expected)


# ---------------------------------------------------------------- words and trials


def words(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"stimulus": "s", "word": ["0", "1"], "text": ["a", "b"], **columns})


@pytest.mark.parametrize("ids", [[0, 1], [1, 2], ["w1", "w0"], [10.0, 20.0], ["00", "01"]])
def test_word_ids_come_out_as_they_came_in(ids: list[Any]) -> None:
    table, _ = check_words(words(word=ids))
    assert table["word"].tolist() == [str(int(i)) if isinstance(i, float) else str(i) for i in ids]
    assert table["index"].tolist() == [0, 1]


def test_words_of_a_trial_get_a_layout_per_trial() -> None:
    frame = pd.concat([words(trial="t1"), words(trial="t2")])
    table, _ = check_words(frame)
    assert table["layout"].tolist() == ["t1", "t1", "t2", "t2"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"word": ["0", "0"]}, "word id stands twice"),
        ({"index": [1, 1]}, "word index stands twice"),
        ({"layout": "l", "stimulus": ["a", "b"]}, "several stimuli"),
        ({"left": [0.0, 1.0]}, "all four sides"),
        ({"left": [0.0, np.nan], "top": 0.0, "right": 1.0, "bottom": 1.0}, "some of its sides"),
        ({"left": [0.0, 9.0], "top": 0.0, "right": 1.0, "bottom": 1.0}, "ends before"),
        ({"text": ["a", None]}, "missing values"),
    ],
)
def test_impossible_words_raise(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_words(words(**columns))


def test_words_that_look_like_missing_values_stay() -> None:
    texts = ["null", "NA", "nan", "None", ".", "N/A", "True", "1e3", "-"]
    table, _ = check_words(
        pd.DataFrame({"stimulus": "s", "word": range(len(texts)), "text": texts})
    )
    assert table["text"].tolist() == texts


def test_trials_are_unique_and_know_their_layout() -> None:
    frame = pd.DataFrame({"participant": ["p", "p"], "trial": [1, 2], "stimulus": ["a", "b"]})
    table, _ = check_trials(frame)
    assert table["layout"].tolist() == ["a", "b"] and table["trial"].tolist() == ["1", "2"]
    with pytest.raises(DataError, match=r"stands twice.*'1' in rows 2 and 3") as caught:
        check_trials(frame.assign(trial=[1, 1]), first_row=2)
    assert caught.value.row == 2


@pytest.mark.parametrize(
    ("check", "columns"),
    [
        (check_fixations, ["participant", "trial", "stimulus"]),
        (check_words, ["stimulus", "word", "text"]),
        (check_trials, ["participant", "trial", "stimulus"]),
    ],
)
def test_messages_name_only_columns_that_were_given(check: Any, columns: list[str]) -> None:
    for missing in columns:
        frame = pd.DataFrame({c: ["a"] for c in columns if c != missing})
        with pytest.raises(DataError, match=f"'{missing}' is missing") as caught:
            check(frame)
        assert "index" not in str(caught.value) and "layout" not in str(caught.value)
    with pytest.raises(DataError, match="need a position") as caught:
        check_fixations(pd.DataFrame({c: ["a"] for c in ("participant", "trial", "stimulus")}))
    assert "index" not in str(caught.value)


def test_messages_show_plain_numbers() -> None:
    checks: list[tuple[Any, pd.DataFrame]] = [
        (check_fixations, fixations(x=[1.0, np.inf])),
        (check_fixations, fixations(index=[0.0, 0.5])),
        (check_fixations, fixations(duration=[1.0, -1.0])),
        (check_fixations, fixations(index=[0, 0])),
        (check_words, words(index=[1, 1])),
    ]
    for check, frame in checks:
        with pytest.raises(DataError) as caught:
            check(frame)
        assert "np." not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "thousands"),
    [
        (["1,200"], True),
        (["1,200", "5", "12,000.5", "1,234,567"], True),
        (["1,200", "1,5"], False),
        (["0,125"], False),
        (["1024,125"], False),
        (["1,5"], False),
    ],
)
def test_commas_in_numbers_say_what_to_type(values: list[str], thousands: bool) -> None:
    with pytest.raises(DataError) as caught:
        as_number(pd.Series(values), "x")
    assert ("Thousands separators are not supported" in str(caught.value)) == thousands
    assert "decimal=','" in str(caught.value)
    assert "dataset." not in str(caught.value)  # the column may be of any file


# ---------------------------------------------------------------- loss log


def test_losses_add_up_and_zero_is_no_loss() -> None:
    log = LossLog()
    log.add("a", "dropped", "why", 2, examples=[1, 2, 3, 4])
    log.add("a", "dropped", "why", 3, examples=[9])
    log.add("a", "dropped", "never", 0)
    other = LossLog()
    other.add("b", "note", "x", 1, "trials")
    log.extend(other)
    assert log.count("a") == 5 and log.count() == 6 and len(log) == 2
    assert log.to_frame()["examples"].tolist() == ["1, 2, 3", ""]
    assert "a: 5 rows dropped: why (first: 1, 2, 3)" in str(log)
