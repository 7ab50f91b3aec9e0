"""Target fixation probability, its area, mismatch of two curves, scanpath ratio."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gazeattn.errors import DataError
from gazeattn.metrics.scanpath.search import (
    probability_mismatch,
    scanpath_ratio,
    scanpath_ratios,
    steps_to_target,
    target_fixation_auc,
    target_fixation_probability,
)

BOX = (10, 20, 4, 6)  # x from 10 to 14, y from 20 to 26, centre (12, 23)
PATHS = [
    [[0, 23], [12, 7], [12, 23]],  # found by the third fixation
    [[12, 23], [0, 0]],  # under the first fixation
    [[0, 0], [10, 23], [14, 23], [12, 20], [12, 26]],  # on the border only
    [],
    [[12, 7], [13, 23]],  # found by the second
]


def test_steps_by_hand() -> None:
    np.testing.assert_array_equal(steps_to_target(PATHS, BOX), [3, 1, np.inf, np.nan, 2])
    assert steps_to_target([], np.zeros((0, 4))).shape == (0,)
    np.testing.assert_array_equal(steps_to_target([[], []], BOX), [np.nan, np.nan])


def test_curve_by_hand() -> None:
    steps = steps_to_target(PATHS, BOX)
    got = target_fixation_probability(steps, max_step=3)
    np.testing.assert_allclose(got.curve, [0.25, 0.5, 0.75, 0.75])  # of the four with fixations
    assert (got.trials, got.undefined) == (4, 1)
    assert got.auc == target_fixation_auc(got.curve) == pytest.approx(2.25)
    # tasks weigh the same: x has steps 3 and 1, y inf and 2
    got = target_fixation_probability(steps, max_step=1, tasks=["x", "x", "y", "y", "y"])
    np.testing.assert_allclose(got.by_task["x"], [0.5, 0.5])
    np.testing.assert_allclose(got.by_task["y"], [0, 0.5])
    np.testing.assert_allclose(got.curve, [0.25, 0.5])


def test_ratio_by_hand() -> None:
    # first path: 12 straight, 20 + 16 taken; last: 16 straight, hypot(1, 16) taken
    want = [12 / 36, np.nan, np.nan, np.nan, 16 / math.hypot(1, 16)]
    np.testing.assert_allclose(scanpath_ratios(PATHS, BOX), want)
    assert scanpath_ratio(PATHS, BOX) == pytest.approx(np.nanmean(want))
    assert scanpath_ratio(PATHS, BOX, max_step=1) == pytest.approx(want[4])
    assert math.isnan(scanpath_ratio(PATHS, BOX, max_step=0))
    assert scanpath_ratio([[[0, 23], [10.5, 23]]], BOX) == 1  # stops short of the centre


def test_golden(golden) -> None:
    data = golden("A_search.json")
    trials = data["trajectories"]
    paths = [np.c_[t["x"], t["y"]] for t in trials]
    boxes = [data["boxes_xywh"][f"{t['task']}_{t['name']}"] for t in trials]
    tasks = np.array([t["task"] for t in trials])
    human = np.array([t["subject"] % 2 == 0 for t in trials])
    steps = steps_to_target(paths, boxes)
    known = np.array(data["steps_to_target"], dtype=float)
    np.testing.assert_array_equal(steps, np.where(known == 1000, np.inf, known))
    for case in data["cases"]:
        most, want = int(case["max_step"]), case["expected"]
        got = target_fixation_probability(steps, max_step=most, tasks=tasks)
        np.testing.assert_allclose(got.curve, want["cdf_mean"], atol=1e-9)
        assert got.auc == pytest.approx(want["tfp_auc"], abs=1e-9)
        for task, curve in want["cdf_by_task"].items():
            np.testing.assert_allclose(got.by_task[task], curve, atol=1e-9)
            assert target_fixation_auc(curve) == pytest.approx(
                want["tfp_auc_by_task"][task], abs=1e-9
            )
        curves = {}
        for name, chosen in (("human", human), ("model", ~human)):
            curves[name] = target_fixation_probability(
                steps[chosen], max_step=most, tasks=tasks[chosen]
            )
        np.testing.assert_allclose(
            curves["human"].curve, want["human_cdf_even_subjects"], atol=1e-9
        )
        np.testing.assert_allclose(curves["model"].curve, want["model_cdf_odd_subjects"], atol=1e-9)
        assert probability_mismatch(curves["model"], curves["human"]) == pytest.approx(
            want["prob_mismatch"], abs=1e-9
        )
        assert scanpath_ratio(paths, boxes, max_step=most) == pytest.approx(
            want["scanpath_ratio"], abs=1e-9
        )
        for task, ratio in want["scanpath_ratio_by_task"].items():
            rows = np.flatnonzero(tasks == task)
            assert scanpath_ratio(
                [paths[r] for r in rows], np.array(boxes)[rows], max_step=most
            ) == pytest.approx(ratio, abs=1e-9)


def test_curves_rise_and_do_not_depend_on_the_order_of_trials() -> None:
    rng = np.random.default_rng(1)
    steps = np.where(rng.random(200) < 0.3, np.inf, rng.integers(1, 300, 200))
    curve = target_fixation_probability(steps, max_step=280).curve
    assert (np.diff(curve) >= 0).all() and curve[-1] <= 1  # steps beyond 255 stay what they are
    assert curve[255] < curve[279]
    shuffled = target_fixation_probability(rng.permutation(steps), max_step=280).curve
    np.testing.assert_array_equal(shuffled, curve)


def test_translation_and_scale() -> None:
    box = np.array(BOX, dtype=float)
    moved = [np.reshape(np.array(p, dtype=float), (-1, 2)) * 2 + 7 for p in PATHS]
    new = np.r_[box[:2] * 2 + 7, box[2:] * 2]
    np.testing.assert_array_equal(steps_to_target(moved, new), steps_to_target(PATHS, BOX))
    np.testing.assert_allclose(scanpath_ratios(moved, new), scanpath_ratios(PATHS, BOX))


def test_no_trials_is_undefined() -> None:
    got = target_fixation_probability([], max_step=2)
    assert np.isnan(got.curve).all() and math.isnan(got.auc)
    got = target_fixation_probability([np.nan], max_step=2, tasks=["x"])
    assert np.isnan(got.curve).all() and got.undefined == 1
    assert math.isnan(probability_mismatch(got, [0, 0, 0]))
    assert math.isnan(probability_mismatch([0, 0, 0], got))


def test_mismatch() -> None:
    assert probability_mismatch([0, 0.5, 1], [0.25, 0.5, 0.5]) == pytest.approx(0.75)
    with pytest.raises(DataError, match="length"):
        probability_mismatch([0, 1], [0, 1, 1])


@pytest.mark.parametrize(
    "boxes", [(0, 0, 0, 5), (0, 0, 5, -1), (0, 0, math.nan, 5), (1, 2, 3), [[1, 2, 3, 4]] * 3]
)
def test_boxes_that_are_none(boxes) -> None:
    with pytest.raises(DataError, match="box"):
        steps_to_target(PATHS, boxes)


def test_steps_that_are_none() -> None:
    with pytest.raises(DataError, match="steps"):
        target_fixation_probability([0, 1], max_step=2)
    with pytest.raises(DataError, match="number"):
        target_fixation_probability([1, 2], max_step=2, tasks=["x"])
    with pytest.raises(DataError, match="probabilities"):
        target_fixation_auc([0, 232])
