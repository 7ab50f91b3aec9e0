"""Human profiles by hand: shares, missing words, means over readers, grouping."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gazeattn.attention.align import group_texts
from gazeattn.attention.human import (
    human_profiles,
    mean_profile,
    nan_mean,
    reader_matrix,
    trial_units,
)
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.profiles import AttentionProfile, Units

NAN = float("nan")
WORDS = ["The", "wolf", "ran"]


def frame(rows: dict[str, list[float]], measure: str = "gaze_duration") -> pd.DataFrame:
    """One row per trial and word; the trial id is the reader's id."""
    parts = [
        pd.DataFrame(
            {
                "participant": reader,
                "trial": f"t_{reader}",
                "stimulus": "s",
                "word": ["0", "1", "2"],
                "index": [0, 1, 2],
                "text": WORDS,
                measure: pd.Series(values, dtype="float64"),
            }
        )
        for reader, values in rows.items()
    ]
    return pd.concat(parts, ignore_index=True)


def test_shares_sum_to_one_over_words_with_a_value() -> None:
    (p,) = human_profiles(frame({"a": [100, NAN, 300]}), "gaze_duration")
    np.testing.assert_allclose(p.weights, [0.25, NAN, 0.75])
    assert p.kind == "human" and p.lost["words_without_value"] == 1
    assert p.how["missing"] == "keep" and p.how["participant"] == "a"


def test_missing_as_zero_is_an_option_for_durations_only() -> None:
    (p,) = human_profiles(frame({"a": [100, NAN, 300]}), "gaze_duration", missing="zero")
    np.testing.assert_allclose(p.weights, [0.25, 0.0, 0.75])
    with pytest.raises(DataError, match="cannot count as zero"):
        human_profiles(frame({"a": [1, 0, 1]}, "skip"), "skip", missing="zero")
    with pytest.raises(UnknownNameError):
        human_profiles(frame({"a": [1, 0, 1]}), "gaze_duration", missing="nought")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "reason"),
    [([NAN, NAN, NAN], "no word has a value"), ([0, 0, 0], "sum to 0"), ([0, NAN, 0], "sum to 0")],
)
def test_a_trial_without_any_value_is_undefined_with_a_reason(
    values: list[float], reason: str
) -> None:
    (p,) = human_profiles(frame({"a": values}), "gaze_duration")
    assert np.isnan(p.weights).all() and reason in p.lost["reason"]


def test_nullable_and_boolean_columns_become_numbers() -> None:
    table = frame({"a": [1, 0, 1]}, "skip")
    table["skip"] = pd.array([True, None, True], dtype="boolean")
    (p,) = human_profiles(table, "skip")
    np.testing.assert_allclose(p.weights, [0.5, NAN, 0.5])
    assert "inverse" in p.how["definition"]


def test_order_of_rows_does_not_matter() -> None:
    table = frame({"a": [1, 2, 3], "b": [3, 2, 1]})
    shuffled = table.sample(frac=1, random_state=3)
    for x, y in zip(
        human_profiles(table, "gaze_duration"),
        human_profiles(shuffled, "gaze_duration"),
        strict=True,
    ):
        assert x.units == y.units
        np.testing.assert_array_equal(x.weights, y.weights)


def test_unknown_measures_and_missing_columns_are_named() -> None:
    with pytest.raises(UnknownNameError, match="gaze_duration"):
        human_profiles(frame({"a": [1, 2, 3]}), "gaze_durations")
    with pytest.raises(DataError, match="go_past_time"):
        human_profiles(frame({"a": [1, 2, 3]}), "go_past_time")
    with pytest.raises(DataError, match="text"):
        trial_units(frame({"a": [1, 2, 3]}).drop(columns="text"))


def test_mean_over_readers_by_hand() -> None:
    profiles = human_profiles(
        frame({"a": [100, NAN, 300], "b": [NAN, NAN, 500], "c": [NAN, NAN, NAN]}), "gaze_duration"
    )
    mean = mean_profile(profiles)
    np.testing.assert_allclose(mean.weights, [0.25, NAN, (0.75 + 1.0) / 2])
    assert mean.lost["readers_per_word"] == [1, 0, 2]
    assert mean.lost["readers_left_out"] == ["c"] and mean.how["readers"] == ["a", "b"]


def test_a_reader_with_two_trials_counts_once() -> None:
    matrix, names = reader_matrix(np.array([[1.0, 0], [0, 1], [0, 1]]), ["a", "b", "b"])
    assert names == ("a", "b")
    np.testing.assert_allclose(nan_mean(matrix), [0.5, 0.5])


def test_mean_of_nobody_is_missing_with_a_reason() -> None:
    mean = mean_profile(human_profiles(frame({"a": [NAN] * 3, "b": [0, 0, 0]}), "gaze_duration"))
    assert np.isnan(mean.weights).all() and mean.lost["reason"]


def test_profiles_over_different_words_are_not_averaged() -> None:
    p = AttentionProfile(Units.from_words(["a", "b"]), np.ones(2), "human", "m")
    q = AttentionProfile(Units.from_words(["a", "c"]), np.ones(2), "human", "m")
    with pytest.raises(DataError, match="different units"):
        mean_profile([p, q])


@given(
    st.lists(
        st.lists(st.one_of(st.just(NAN), st.floats(0, 1e4)), min_size=3, max_size=3),
        min_size=1,
        max_size=5,
    )
)
def test_shares_and_means_are_shares(rows: list[list[float]]) -> None:
    profiles = human_profiles(frame({str(i): r for i, r in enumerate(rows)}), "gaze_duration")
    for p, raw in zip(profiles, rows, strict=True):
        if np.isnan(p.weights).all():
            assert not np.nansum(raw) > 0
        else:
            assert np.nansum(p.weights) == pytest.approx(1)
            np.testing.assert_array_equal(np.isnan(p.weights), np.isnan(raw))
    mean = mean_profile(profiles)
    stack = np.stack([p.weights for p in profiles])
    there = ~np.isnan(stack)
    np.testing.assert_array_equal(np.isnan(mean.weights), ~there.any(axis=0))
    for j in range(3):
        if there[:, j].any():
            assert mean.weights[j] == pytest.approx(stack[there[:, j], j].mean())


def test_layouts_do_not_split_a_text_but_words_conditions_and_questions_do(
    dataset_maker: Any,
) -> None:
    def reading(reader: str, **more: Any) -> dict[str, Any]:
        base = {"participant": reader, "stimulus": "s", "words": WORDS, "values": [1, 2, 3]}
        return base | more

    d = dataset_maker(
        [
            reading("a", layout="l1", question="Who?"),
            reading("b", layout="l2", question="Why?"),
            reading("c", layout="l3", words=["The", "wolf", "runs"]),
            reading("d", condition="ordinary"),
        ]
    )
    profiles = {"total_reading_time": human_profiles(d.measures(), "total_reading_time")}
    texts = group_texts(profiles, d.trials)
    assert sorted(t.participants for t in texts) == [("a", "b"), ("c",), ("d",)]
    asked = group_texts(profiles, d.trials, question=True)
    assert sorted(t.participants for t in asked) == [("a",), ("b",), ("c",), ("d",)]
    assert {t.question for t in asked} == {"Who?", "Why?", None}


def test_groups_that_share_a_layout_have_different_names(dataset_maker: Any) -> None:
    base = {"stimulus": "s", "words": WORDS, "values": [1, 2, 3]}
    d = dataset_maker(
        [{"participant": "a", **base}, {"participant": "b", "condition": "ordinary", **base}]
    )
    profiles = {"total_reading_time": human_profiles(d.measures(), "total_reading_time")}
    assert [t.trial for t in group_texts(profiles, d.trials)] == ["s", "s#2"]
