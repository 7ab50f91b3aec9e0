"""Scores and baselines of joint attention by hand, and the command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from gazeattn.datamodules.joint_attention import JointScenes, joint_scenes_of
from gazeattn.datamodules.joint_batches import collate_scenes
from gazeattn.datamodules.joint_generated import (
    ACTIONS,
    generate_joint_scenes,
    generate_joint_tables,
)
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments.joint_attention import joint_settings, main
from gazeattn.models.joint._baselines import (
    centre,
    cone_maps,
    fit_weighted_cones,
    gaze_cones,
    mean_head,
)
from gazeattn.models.joint._scores import (
    auc,
    average_precision,
    breakdown,
    choose_threshold,
    classify,
    detection_rates,
    presence_scores,
    target_distances,
)
from gazeattn.results import RESULT_COLUMNS
from gazeattn.storage import write_parquet


def two_people(targets: list[tuple[float, float]] | None = None) -> JointScenes:
    """Return one picture of 200 x 100: heads at (20, 50) and (120, 10), both look at (120, 50)."""
    first = pd.DataFrame({"scene": ["a"], "width": [200.0], "height": [100.0]})
    people = pd.DataFrame({
        "scene": ["a", "a"], "person": ["1", "2"], "head_x": [20.0, 120.0],
        "head_y": [50.0, 10.0], "gaze_x": [1.0, 0.0], "gaze_y": [0.0, 1.0],
    })  # fmt: skip
    places = [(120.0, 50.0)] if targets is None else targets
    goals = pd.DataFrame({"scene": "a", "target": [f"t{i}" for i in range(len(places))],
                          "x": [p[0] for p in places], "y": [p[1] for p in places]})  # fmt: skip
    return joint_scenes_of(first, people, goals)


def test_a_rate_stands_beside_its_own_threshold() -> None:
    rates = detection_rates([0.0, 9.9, 10.0, 15.0], (0, 10, 20))
    assert rates == {0.0: 0.0, 10.0: 0.5, 20.0: 1.0}  # below, not at or below


def test_auc_is_that_of_the_score_and_not_of_a_decision() -> None:
    score, present = [0.1, 0.4, 0.35, 0.8], [False, False, True, True]
    assert auc(score, present) == 0.75
    assert auc(np.greater(score, 0.5).astype(float), present) == 0.75  # here by chance
    assert auc([0.2, 0.3, 0.9, 0.8], present) == 1.0
    assert auc([0.5] * 4, present) == 0.5
    assert np.isnan(auc([0.1, 0.2], [True, True]))
    # descending: hit, miss, hit, miss -> (1 + 2/3) / 2
    assert average_precision(score, present) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision([0.5] * 4, present) == 0.5
    with pytest.raises(DataError, match="missing"):
        auc([np.nan, 1.0], [True, False])


def test_a_threshold_is_not_scored_where_it_was_chosen() -> None:
    score, present = [0.1, 0.4, 0.35, 0.8], [False, False, True, True]
    chosen = choose_threshold(score, present, list("abcd"))
    assert 0.1 < chosen.value < 0.4
    with pytest.raises(DataError, match="chosen on scenes"):
        presence_scores(score, present, ["d", "e", "f", "g"], chosen)
    found = presence_scores([0.9, 0.0, 0.9], [True, False, False], ["x", "y", "z"], chosen)
    assert found["precision"] == 0.5 and found["recall"] == 1 and found["auc"] == 0.75
    with pytest.raises(DataError, match="with and without"):
        choose_threshold([0.1, 0.2], [True, True], ["a", "b"])


def test_classes_are_counted_by_hand() -> None:
    found = classify([0.9, 0.8, 0.2, 0.6, 0.1], [True, True, True, False, False], 0.5)
    assert found["accuracy"] == pytest.approx(0.6)  # tp 2, fp 1, fn 1, tn 1
    assert found["precision"] == found["recall"] == found["f1"] == pytest.approx(2 / 3)
    assert found["macro_f1"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert np.isnan(classify([0.1], [True], 0.5)["precision"])


def test_every_target_is_compared_with_the_one_point() -> None:
    scenes = two_people([(120, 50), (20, 50)])
    points = pd.DataFrame({"scene": ["a"], "x": [123.0], "y": [54.0]})
    found = target_distances(points, scenes)
    np.testing.assert_allclose(found["distance"], [5, np.hypot(103, 4)])
    assert found["dx"].tolist() == [3, 103] and found["targets"].tolist() == [2, 2]
    assert breakdown(found).set_index("part").loc["people <= 3", "n"] == 2
    with pytest.raises(DataError, match="no point"):
        target_distances(points.assign(scene="b"), scenes)
    with pytest.raises(DataError, match="two points"):
        target_distances(pd.concat([points, points]), scenes)


# baselines ---------------------------------------------------------------------------------------


def test_cones_meet_where_both_look() -> None:
    scenes = two_people()
    batch = collate_scenes(scenes)
    at = torch.tensor([[0.6, 0.5], [0.1, 0.5], [0.6, 0.9]])
    found = cone_maps(batch, at, 10.0)[0]
    # (120, 50): both look at it; (20, 50): the first head itself is 0, the second looks away
    # by 90 + 22 degrees; (120, 90): the second looks at it, for the first it is off by 21.8
    angle = np.rad2deg(np.arctan2(40, 100))
    expected = [1, 0, (1 + np.exp(-0.5 * (angle / 10) ** 2)) / 2]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    point = gaze_cones(scenes, 10.0, (10, 20)).iloc[0]
    assert np.hypot(point["x"] - 120, point["y"] - 50) < 3
    assert point["peak"] == pytest.approx(1, abs=0.02)


def test_baselines_stand_in_where_no_gaze_is_known() -> None:
    scenes = two_people()
    blind = JointScenes(**{**vars(scenes), "gaze": np.full((2, 2), np.nan)})
    assert gaze_cones(blind, 10.0)[["x", "y"]].iloc[0].tolist() == [70, 30]
    assert mean_head(scenes)[["x", "y"]].iloc[0].tolist() == [70, 30]
    assert centre(scenes)[["x", "y"]].iloc[0].tolist() == [100, 50]


def test_weights_of_actions_are_found_and_matter_to_the_peak() -> None:
    # the second action looks at the target, the first past it
    tables = generate_joint_tables(60, seed=5, gaze_noise=5.0, no_gaze=0.0, no_action=0.0)
    people = tables[1]
    walks = people["action"] == "walking"
    people.loc[walks, ["gaze_x", "gaze_y"]] = [0.0, 1.0]  # down, whatever there is
    scenes = joint_scenes_of(*tables, actions=ACTIONS)
    width, weights = fit_weighted_cones(scenes, (10, 20))
    assert len(weights) == 5 and weights[ACTIONS.index("walking")] < max(weights)
    plain = target_distances(gaze_cones(scenes, width, (10, 20)), scenes)["distance"].mean()
    points = gaze_cones(scenes, width, (10, 20), weights=weights)
    assert target_distances(points, scenes)["distance"].mean() < plain
    same = gaze_cones(scenes, width, (10, 20), weights=[2.0] * 5)
    unweighted = gaze_cones(scenes, width, (10, 20))
    pd.testing.assert_frame_equal(same[["x", "y"]], unweighted[["x", "y"]])
    blind = generate_joint_scenes(8, seed=5, with_actions=False)
    assert blind.actions == () and fit_weighted_cones(blind, (10, 20))[1] == (1.0,)


# the command -------------------------------------------------------------------------------------


def test_the_benchmark_writes_rows_and_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    folder, public = tmp_path / "run", tmp_path / "public"
    arguments = [
        "size=tiny", "size.bootstrap=20", f"hydra.run.dir={folder}", f"publish={public}",
    ]  # fmt: skip
    assert main([*arguments, "seeds=[0,1]"]) == 0
    rows = pd.read_parquet(folder / "results.parquet")
    assert list(rows.columns) == list(RESULT_COLUMNS)
    own = rows[(rows["model"] == "joint_attention") & (rows["seed"] == "all")]
    cones = rows[rows["model"] == "gaze_cones"].set_index(["dataset", "metric"])["value"]
    for data in ("generated_joint_scenes", "generated_joint_scenes_no_actions"):
        mine = own[own["dataset"] == data].set_index("metric")["value"]
        for metric in ("distance", "detection_rate_20px"):
            gap = mine[metric] - cones[data, metric]
            assert mine[f"{metric}_minus_gaze_cones"] == pytest.approx(gap)
    by_action = rows[rows["model"] == "gaze_cones_by_action"]
    assert set(by_action["dataset"]) == {"generated_joint_scenes"}
    assert by_action["convention"].str.contains("weights playing").all()
    shown = json.loads((public / "joint_attention.json").read_text())
    assert len(shown["rows"]) == len(rows) and shown["size"] == "tiny" and shown["scenes"] == 36
    # without one seed, as after an interruption: the rest stays, the result is the same
    gone = rows["seed"].isin(["1", "all"]) & (rows["model"] == "joint_attention")
    write_parquet(folder / "results.parquet", rows[~gone].reset_index(drop=True))
    for path in (folder / "points").glob("*_joint_attention_1.parquet"):
        path.unlink()
    shutil.rmtree(folder / "runs" / "generated_joint_scenes_joint_attention_1")
    before = (folder / "runs" / "generated_joint_scenes_joint_attention_0").stat().st_mtime
    assert main([*arguments, "seeds=[0,1]"]) == 0
    key = ["dataset", "model", "seed", "metric"]
    again = pd.read_parquet(folder / "results.parquet").sort_values(key, ignore_index=True)
    pd.testing.assert_frame_equal(again, rows.sort_values(key, ignore_index=True))
    assert (folder / "runs" / "generated_joint_scenes_joint_attention_0").stat().st_mtime == before
    assert main([*arguments, "seeds=[0,1]", "data_seed=3"]) == 2  # rows of other settings


def test_settings_of_a_size_and_of_the_user() -> None:
    assert joint_settings("cpu")["training"]["gradient_clip"] == 1.0
    assert "sizes" not in joint_settings("full") and joint_settings("full")["sigma"] == 10
    config = {"sigma": 12.0, "sizes": {"cpu": {"sigma": 15.0}}}
    assert joint_settings("cpu", config, ["sigma"])["sigma"] == 12.0
    with pytest.raises(UnknownNameError, match="size"):
        joint_settings("huge")
