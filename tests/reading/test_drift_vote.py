"""The vote among methods of line assignment, and the scores of methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.reading import drift

LINES = np.array([155.0, 219.0, 283.0, 347.0])
WORDS = np.array([[x, y] for y in LINES for x in (400.0, 500.0, 600.0, 700.0, 800.0)])


def read(dy: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a reading of all words with a shift of y, and the true lines."""
    return WORDS + np.array([0.0, dy]), np.repeat(np.arange(4), 5)


# --- the vote -------------------------------------------------------------------------------


def test_vote_by_hand() -> None:
    lines = [[0, 1, 2, -1, -1], [1, 1, 3, 2, -1], [1, 0, 4, -1, -1]]
    np.testing.assert_array_equal(drift.majority(lines), [1, 1, 2, 2, -1])
    np.testing.assert_array_equal(drift.majority(lines, [3, 1, 1]), [0, 1, 2, 2, -1])
    np.testing.assert_array_equal(drift.majority(lines, [2, 1, 1]), [0, 1, 2, 2, -1])  # tie: first
    np.testing.assert_array_equal(drift.majority(lines, [1, 1, 1.5]), [1, 1, 4, 2, -1])
    # 0.1 + 0.2 and 0.3 are equally strong
    np.testing.assert_array_equal(drift.majority([[5], [7], [7]], [0.3, 0.1, 0.2]), [5])


@pytest.mark.parametrize("weights", [[1.0], [1, 0], [1, -1], [1, np.nan], [1, np.inf]])
def test_unusable_weights(weights: list[float]) -> None:
    with pytest.raises(DataError, match="weights"):
        drift.majority([[0], [1]], weights)


def test_vote_takes_names_weights_and_options() -> None:
    xy, true = read(dy=40.0)
    np.testing.assert_array_equal(drift.vote(xy, LINES, WORDS), true)
    heavy = {"slice": 1.0, "attach": 5.0}
    np.testing.assert_array_equal(
        drift.vote(xy, LINES, members=["slice", "attach"], weights=heavy), drift.attach(xy, LINES)
    )
    np.testing.assert_array_equal(
        drift.vote(xy, LINES, members=["chain"], options={"chain": {"x_thresh": 1e9}}),
        drift.chain(xy, LINES, x_thresh=1e9),
    )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"members": []}, DataError),
        ({"members": ["slice", "slice"]}, DataError),
        ({"members": "slice"}, DataError),
        ({"weights": {"slice": 1}}, DataError),
        ({"members": ["vote"]}, UnknownNameError),
        ({"weights": {"merge": 1}}, UnknownNameError),
        ({"options": {"merge": {}}}, UnknownNameError),
    ],
)
def test_unusable_votes(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        drift.vote(WORDS, LINES, WORDS, **options)


def test_choosing_the_best_method_of_each_kind() -> None:
    gold = [np.array([0, 1, 2, 3]), np.array([0, 0, 1, -1])]
    right = [g.copy() for g in gold]
    near = [np.array([0, 1, 2, 0]), np.array([0, 0, 1, 1])]  # 3 of 4, 3 of 3
    upper = [np.zeros(4, int)] * 2
    lines = {"attach": upper, "stretch": near, "merge": right, "slice": near, "warp": upper}
    assert drift.choose_members(lines, gold) == ("merge", "stretch", "warp")
    assert drift.choose_members({"chain": upper, "merge": upper}, gold) == ("chain",)
    with pytest.raises(DataError):
        drift.choose_members({}, gold)
    with pytest.raises(DataError):
        drift.choose_members({"slice": [upper[0]]}, [np.full(4, -1)])
    with pytest.raises(UnknownNameError):
        drift.choose_members({"vote": right}, gold)


# --- scores ---------------------------------------------------------------------------------


def test_both_ways_of_counting_discarded_fixations() -> None:
    lines, gold = [0, 0, 1, 2, -1], [0, 1, 1, -1, -1]
    assert drift.line_accuracy(lines, gold) == pytest.approx(2 / 3)
    assert drift.line_accuracy(lines, gold, discarded="counted") == pytest.approx(3 / 5)
    missing: Any = [0, 1, 1, np.nan, None]
    assert drift.line_accuracy(lines, missing, discarded="counted") == pytest.approx(3 / 5)
    assert np.isnan(drift.line_accuracy([0], [-1])) and np.isnan(drift.line_accuracy([], []))
    assert drift.line_accuracy([-1], [0]) == 0.0
    with pytest.raises(DataError):
        drift.line_accuracy([0], [0, 1])
    with pytest.raises(UnknownNameError):
        drift.line_accuracy([0], [0], discarded="leftout")  # type: ignore[arg-type]


def test_accuracy_table() -> None:
    gold = [np.array([0, 1]), np.array([0, 1]), np.array([-1])]
    table = drift.accuracy_table({"a": [[0, 1], [0, 0], [3]]}, gold, ["x", "y", "y"])
    assert table.to_dict("records") == [
        {"method": "a", "group": "x", "n_trials": 1, "median": 100.0, "mean": 100.0},
        {"method": "a", "group": "y", "n_trials": 1, "median": 50.0, "mean": 50.0},
    ]
    with pytest.raises(DataError, match="every trial"):
        drift.accuracy_table({"a": [[0, 1]]}, gold)
