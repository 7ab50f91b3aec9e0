"""Behaviour over a display of objects, and its difference between model and people."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.scanpath.behaviour import (
    Behaviour,
    behaviour_difference,
    search_behaviour,
)


def test_by_hand() -> None:
    got = search_behaviour([[5, 5, 2, 5, 9], [3], [], [4, 4, 4, 4]], [9, 4, 1, None])
    np.testing.assert_array_equal(got.success, [1, 0, np.nan, np.nan])
    np.testing.assert_array_equal(got.length, [5, 1, np.nan, 4])
    np.testing.assert_allclose(got.first_visits, [3 / 5, 1, np.nan, 1 / 4])
    np.testing.assert_allclose(got.refixations, [1 / 5, 0, np.nan, 3 / 4])
    np.testing.assert_allclose(got.revisits, [1 / 5, 0, np.nan, 0])


def test_a_trial_begins_anew() -> None:
    # the object that ended one trial is neither refixated nor revisited at the start of the next
    got = search_behaviour([["a", "b"], ["b", "a"]], ["b", "b"])
    np.testing.assert_array_equal(got.first_visits, [1, 1])
    np.testing.assert_array_equal(got.success, [1, 0])


def test_arrays_and_lists_and_text_are_alike() -> None:
    lists = search_behaviour([[1, 2, 1], [2]], [1, 1])
    arrays = search_behaviour([np.array([1, 2, 1]), np.array([2])], np.array([1, 1]))
    text = search_behaviour([["1", "2", "1"], ["2"]], ["1", "1"])
    for measure in ("success", "length", "first_visits", "refixations", "revisits"):
        np.testing.assert_array_equal(getattr(lists, measure), getattr(arrays, measure))
        np.testing.assert_array_equal(getattr(lists, measure), getattr(text, measure))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=6))
def test_shares_add_up_to_1(sequences) -> None:
    got = search_behaviour(sequences, [0] * len(sequences))
    total = got.first_visits + got.refixations + got.revisits
    np.testing.assert_allclose(total, [1 if s else math.nan for s in sequences])
    for k, s in enumerate(sequences):
        if s:
            assert got.first_visits[k] == pytest.approx(len(set(s)) / len(s))
            again = sum(x == y for x, y in pairwise(s))
            assert got.refixations[k] == pytest.approx(again / len(s))
            assert got.success[k] == (s[-1] == 0)


def _behaviour(**measures: list[float]) -> Behaviour:
    whole = {
        "success": [1.0],
        "length": [4.0],
        "first_visits": [0.5],
        "refixations": [0.25],
        "revisits": [0.25],
    }
    return Behaviour(**{k: np.array(v) for k, v in {**whole, **measures}.items()})


def test_difference_by_hand() -> None:
    human = _behaviour(length=[2.0, 6.0])
    model = _behaviour(success=[0.5], length=[6.0, 4.0], revisits=[0.5])
    got = behaviour_difference(model, human)
    assert got.parts == pytest.approx(
        {"success": 0.5, "length": 0.25, "first_visits": 0, "refixations": 0, "revisits": 1}
    )
    assert got.value == pytest.approx(1.75 / 5)
    assert got.convention == "means"


def test_opposite_errors_cancel_in_the_means_alone() -> None:
    human, model = _behaviour(length=[4.0, 4.0]), _behaviour(length=[2.0, 6.0])
    assert behaviour_difference(model, human).value == 0
    got = behaviour_difference(model, human, convention="distributions")
    assert got.parts["length"] == pytest.approx(2 / 4)
    assert got.value == pytest.approx(0.5 / 5)


def test_distributions_are_never_nearer_than_means() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        sides = [
            _behaviour(length=rng.integers(1, 20, n).astype(float), success=rng.random(n))
            for n in rng.integers(1, 9, 2)
        ]
        means = behaviour_difference(*sides)
        whole = behaviour_difference(*sides, convention="distributions")
        for measure, part in means.parts.items():
            assert whole.parts[measure] >= part - 1e-12
    human = _behaviour(length=[2.0, 6.0, 7.0])
    shifted = _behaviour(length=[5.0, 9.0, 10.0])
    assert behaviour_difference(shifted, human).value == pytest.approx(
        behaviour_difference(shifted, human, convention="distributions").value
    )


def test_people_against_themselves_are_0() -> None:
    human = search_behaviour([[1, 1, 2, 1, 3], [2, 2, 3, 2], [3]], [3, 2, 3])
    for convention in ("means", "distributions"):
        assert behaviour_difference(human, human, convention=convention).value == 0


@pytest.mark.parametrize("measure", ["success", "refixations", "revisits"])
def test_a_human_mean_of_0_is_undefined_with_a_reason(measure: str) -> None:
    human = _behaviour(**{measure: [0.0, 0.0]})
    got = behaviour_difference(_behaviour(), human)
    assert math.isnan(got.value) and math.isnan(got.parts[measure])
    assert got.reasons == {measure: "the human mean is 0"}
    assert behaviour_difference(_behaviour(), human, skip_undefined=True).value == 0


def test_trials_without_a_value_are_left_out() -> None:
    human = _behaviour(length=[4.0, math.nan], success=[math.nan])
    got = behaviour_difference(_behaviour(length=[math.nan, 2.0]), human)
    assert got.parts["length"] == pytest.approx(0.5)
    assert got.reasons == {"success": "no human trial has a value"}


def test_wrong_input_is_named() -> None:
    with pytest.raises(DataError, match="number"):
        search_behaviour([[1]], [1, 2])
    for missing in (None, math.nan, np.nan):
        with pytest.raises(DataError, match="row 1") as error:
            search_behaviour([[1], [2, missing]], [1, 2])
        assert "object" in str(error.value)
    with pytest.raises(DataError, match="different ways"):
        search_behaviour([["1", "2"]], [2])
    with pytest.raises(UnknownNameError):
        behaviour_difference(_behaviour(), _behaviour(), convention="mean")
