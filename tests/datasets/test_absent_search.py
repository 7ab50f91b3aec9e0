"""Search, questions, speech and code whose files are not at hand: files of our own, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.datasets import GazeDataset
from gazeattn.datasets.cocosearch import TASKS, people, tasks
from gazeattn.datasets.splits import published
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog

from . import made_images as made
from .test_absent_images import quiet


@pytest.fixture
def tiny(tmp_path: Path, request: pytest.FixtureRequest) -> GazeDataset:
    made.MAKERS[request.param](tmp_path)
    return quiet(request.param, tmp_path)


# COCO-Search18 and COCO-FreeView


@pytest.mark.parametrize("tiny", ["coco_search18"], indirect=True)
def test_search_trials(tiny: GazeDataset) -> None:
    t = tiny.trials.set_index("trial")
    assert len(t) == 12
    one = t.loc["000000000001_cup_present_01"]
    assert [one[c] for c in ("bbox_x", "bbox_y", "bbox_width", "bbox_height")] == [
        600,
        300,
        100,
        50,
    ]
    assert one["task"] == "cup" and one["condition"] == "present" and one["correct"] == 1
    assert one["reaction_time"] == 350.5
    none = t.loc["000000000004_sink_absent_02"]
    assert none["condition"] == "absent" and none["correct"] == 0
    assert np.isnan(none["bbox_x"]) and np.isnan(none["reaction_time"])
    assert "000000000002_potted-plant_present_03" in t.index
    f = tiny.fixations
    assert f["forced"].tolist() == [True, False] * 12
    first = f[f["trial"] == "000000000001_cup_present_01"]
    assert first["x"].tolist() == [840.5, 650.0] and first["y"].tolist() == [525.5, 320.25]
    assert first["duration"].tolist() == [200, 150] and "onset" not in f
    assert tiny.stimuli["000000000001"]["size"] == (1680, 1050)
    assert tiny.stimuli["000000000001"]["image"].endswith("cup/000000000001.jpg")
    assert "letterboxed" in tiny.info
    assert tiny.info["counts"]["fixations_train"] == 18
    assert tiny.info["counts"]["fixations_val"] == 6
    assert any("withheld" in x.reason for x in tiny.lost)


@pytest.mark.parametrize("tiny", ["coco_search18"], indirect=True)
def test_search_folds(tiny: GazeDataset) -> None:
    folds = tiny.reports["folds"]
    assert list(folds) == ["fold", "trial", "part", "regime"]
    assert set(folds["fold"]) == {"split 1"}
    assert folds["part"].value_counts().to_dict() == {"train": 9, "val": 3}
    assert set(folds.loc[folds["part"] == "val", "regime"]) == {"unseen_text"}
    found = published(tiny.trials, folds, fold="split 1")
    assert len(found.trials("val", "unseen_text")) == 3


def _search(folder: Path, *trials: dict, name: str = "TP_train_split1") -> Path:
    path = folder / f"coco_search18_fixations_{name}.json"
    path.write_text(json.dumps(trials))
    return folder


def _trial(name: str = "000000000001.jpg", subject: Any = 1, **more: Any) -> dict:
    facts = {"task": "cup", "condition": "present", "bbox": [1, 2, 3, 4], "correct": 1}
    return made.coco_trial(name, subject, **facts) | more


@pytest.mark.parametrize(
    ("given_", "ours"),
    [("potted_plant", "potted plant"), ("Potted Plant", "potted plant"), ("tv", "tv"),
     ("stop_sign", "stop sign"), ("stop-sign", "stop sign"), (" stop  sign", "stop sign")],
)  # fmt: skip
def test_spelling_of_tasks(given_: str, ours: str, tmp_path: Path) -> None:
    ds = quiet("coco_search18", _search(tmp_path, _trial(task=given_), _trial(subject=2)))
    assert sorted(set(ds.trials["task"])) == sorted({"cup", ours})
    changed = int(given_ != ours)
    spelled = [x.count for x in ds.lost if "spelling of the task" in x.reason]
    assert sum(spelled) == changed


@pytest.mark.parametrize("bad", ["potted", "plant", "", None, 3])
def test_unknown_task(bad: Any) -> None:
    with pytest.raises(DataError, match="unknown search target"):
        tasks(pd.Series([TASKS[0], bad], dtype=object), LossLog(), "here")


@pytest.mark.parametrize(
    ("subjects", "ours", "repaired"),
    [([1, 2, 10], ["1", "2", "10"], 0), ([0, 1, 9], ["1", "2", "10"], 3),
     (["1", "2"], ["1", "2"], 0), ([3.0, 2], ["3", "2"], 0)],
)  # fmt: skip
def test_people_counted_from_0_or_1(subjects: list, ours: list, repaired: int) -> None:
    lost = LossLog()
    assert people(pd.Series(subjects, dtype=object), lost, "here").tolist() == ours
    assert lost.count(kind="repaired") == repaired
    for bad in (-1, 1.5, "x", None):
        with pytest.raises(DataError, match="whole number"):
            people(pd.Series([1, bad], dtype=object), lost, "here")


def test_one_file_from_0_and_one_from_1_are_the_same_people(tmp_path: Path) -> None:
    _search(tmp_path, _trial(subject=0), _trial(subject=1))
    absent = [_trial("000000000002.jpg", s, condition="absent", bbox=None) for s in (1, 2)]
    _search(tmp_path, *absent, name="TA_trainval")
    ds = quiet("coco_search18", tmp_path)
    assert ds.participants == ["1", "2"]
    assert ds.trials.groupby("participant").size().tolist() == [2, 2]


def test_the_same_picture_under_two_targets_across_the_split(tmp_path: Path) -> None:
    _search(tmp_path, _trial(), _trial(task="bowl"), _trial("000000000002.jpg"))
    val = [_trial(task="fork", split="validation"), _trial("000000000003.jpg", split="valid")]
    _search(tmp_path, *val, name="TP_validation_split1")
    ds = quiet("coco_search18", tmp_path)
    assert len(ds.trials) == 5 and ds.trials["stimulus"].nunique() == 3
    folds = ds.reports["folds"].set_index("trial")
    assert pd.isna(folds.loc["000000000001_fork_present_01", "regime"])
    assert folds.loc["000000000003_cup_present_01", "regime"] == "unseen_text"
    reasons = {x.reason: x.count for x in ds.lost}
    assert (
        reasons["searched for several targets (one stimulus): split by stimulus, not by trial"] == 1
    )
    assert any("their picture is in the training part too" in r for r in reasons)


def test_off_screen_fixations_are_kept_and_counted(tmp_path: Path) -> None:
    path = {"X": [840, 1680.0, -0.2, 1679.9], "Y": [525, 10, 10, 1050], "T": [1] * 4, "length": 4}
    ds = quiet("coco_search18", _search(tmp_path, _trial(**path)))
    assert ds.fixations["x"].tolist() == path["X"]
    assert ds.fixations["off_screen"].tolist() == [False, True, True, True]
    assert [x.count for x in ds.lost if x.reason.startswith("outside the stimulus")] == [3]


def test_records_that_stand_twice(tmp_path: Path) -> None:
    again = _trial(X=[840, 3.0], subject=2)
    ds = quiet("coco_search18", _search(tmp_path, _trial(), _trial(), _trial(subject=2), again))
    assert sorted(ds.trials["trial"]) == [
        "000000000001_cup_present_01",
        "000000000001_cup_present_02",
        "000000000001_cup_present_02_2",
    ]
    assert ds.lost.count("trials", "dropped") == 1
    assert ds.fixations.groupby("trial").size().tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"X": [1.0]}, "unequal numbers"),
        ({"T": [200, 150, 90]}, "unequal numbers"),
        ({"length": 3}, "another number of fixations"),
        ({"condition": "maybe"}, "unknown condition"),
        ({"split": "tset"}, "unknown part"),
        ({"X": 7}, "is no list"),
        ({"X": ["a", "b"]}, "no numbers"),
        ({"T": [200, -5]}, "negative"),
        ({"bbox": [1, 2, 3, "x"]}, "four numbers"),
    ],
)
def test_damaged_search_trials(more: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        quiet("coco_search18", _search(tmp_path, _trial(), _trial(subject=2, **more)))
    short = {k: v for k, v in _trial().items() if k != "task"}
    with pytest.raises(DataError, match="lacks task"):
        quiet("coco_search18", _search(tmp_path, _trial(), short))


def test_versions_scaled_for_models_are_refused(tmp_path: Path) -> None:
    small = {"X": [256.2, 198.1], "Y": [160.1, 97.6]}
    with pytest.raises(DataError, match="512 x 320"):
        quiet("coco_search18", _search(tmp_path, _trial(**small), _trial(subject=2, **small)))
    # fixations in the corner that start on the centre are no such version
    corner = {"X": [840.0, 100.0], "Y": [525.0, 90.0]}
    quiet("coco_search18", _search(tmp_path, _trial(**corner), _trial(subject=2, **corner)))


def test_the_second_published_split(tmp_path: Path) -> None:
    _search(tmp_path, _trial())
    _search(tmp_path, _trial("000000000007.jpg"), name="TP_train_split2")
    ds = quiet("coco_search18", tmp_path, split=2)
    assert ds.trials["stimulus"].tolist() == ["000000000007"]
    assert set(ds.reports["folds"]["fold"]) == {"split 2"}
    with pytest.raises(UnknownNameError, match="split"):
        quiet("coco_search18", tmp_path, split=3)


def test_a_box_without_a_target_and_a_target_without_a_box(tmp_path: Path) -> None:
    trials = [_trial(bbox=None), _trial(subject=2, condition="absent")]
    ds = quiet("coco_search18", _search(tmp_path, *trials))
    assert ds.trials["bbox_x"].isna().all()
    assert [x.count for x in ds.lost if x.reason.startswith("box of a target")] == [1]
    assert [x.count for x in ds.lost if x.reason == "target present, but no box of it"] == [1]


@pytest.mark.parametrize("tiny", ["coco_freeview"], indirect=True)
def test_freeview(tiny: GazeDataset) -> None:
    assert sorted(set(tiny.trials["condition"])) == ["free viewing"]
    assert "bbox_x" not in tiny.trials and "correct" not in tiny.trials
    assert tiny.info["counts"]["images_train"] == 2 and tiny.info["counts"]["images_val"] == 1
    assert tiny.fixations["forced"].sum() == 9
    part = tiny.reports["folds"].set_index("trial")["part"]
    assert part["000000000003_02"] == "val" and part["000000000001_02"] == "train"


# AiR-D


@pytest.mark.parametrize("tiny", ["air_d"], indirect=True)
def test_an_empty_record_does_not_end_the_question(tiny: GazeDataset) -> None:
    n = tiny.fixations.groupby("trial").size()
    assert "0111_AS" not in n and n["0111_CC"] == 2 and n["0111_EN"] == 3
    assert len(tiny.trials) == 12 and tiny.info["counts"]["empty_scanpaths"] == 1
    f = tiny.fixations[tiny.fixations["trial"] == "0222_CC"]
    assert f["onset"].tolist() == [0, 200] and f["duration"].tolist() == [150, 220]
    assert f["off_screen"].tolist() == [False, True]  # the picture is 640 x 480


@pytest.mark.parametrize("tiny", ["air_d"], indirect=True)
def test_answers(tiny: GazeDataset) -> None:
    t = tiny.trials.set_index("trial")
    assert t["correct"].loc[["0111_AS", "0111_CC"]].tolist() == [True, False]
    assert t["condition"].loc[["0111_AS", "0111_CC"]].tolist() == ["correct", "incorrect"]
    for missing in ("0111_EN", "0222_EN", "0444_EN"):  # nan as text, as number, not there
        assert pd.isna(t.loc[missing, "correct"]) and pd.isna(t.loc[missing, "condition"])
    assert t.loc["0111_AS", "question"] == "Is it red?" and t.loc["0111_AS", "accuracy"] == 0.5
    # two questions about one picture
    assert t.loc["0111_AS", "stimulus"] == t.loc["0222_AS", "stimulus"] == "231"


@pytest.mark.parametrize("tiny", ["air_d"], indirect=True)
def test_benchmark_split_by_question(tiny: GazeDataset) -> None:
    folds = tiny.reports["folds"].merge(tiny.trials, on="trial")
    assert (folds.groupby("question_id")["part"].nunique() == 1).all()
    # four questions: three in training (0.8), none in validation (0.9 cuts at 3), one in test
    assert folds.groupby("part")["question_id"].nunique().to_dict() == {"train": 3, "test": 1}
    order = np.array(["0111", "0222", "0333", "0444"], dtype=object)
    np.random.RandomState(0).shuffle(order)
    assert set(folds.loc[folds["part"] == "test", "question_id"]) == {order[3]}


def test_without_the_questions_of_gqa_the_question_stands_in(tmp_path: Path) -> None:
    made.air_d(tmp_path)
    (tmp_path / "val_balanced_questions.json").unlink()
    ds = quiet("air_d", tmp_path)
    assert sorted(ds.stimuli) == ["0111", "0222", "0333", "0444"]
    assert any("the question stands in" in x.reason for x in ds.lost)


def test_positions_and_times_of_unequal_length(tmp_path: Path) -> None:
    made.air_d(tmp_path)
    made.air_file(tmp_path, "0222", "CC", [[1, 2], [3, 4]], [[0, 5]])
    with pytest.raises(DataError, match="2 positions and 1 times"):
        quiet("air_d", tmp_path)


# RefCOCO-Gaze


@pytest.mark.parametrize("tiny", ["refcoco_gaze"], indirect=True)
def test_referral(tiny: GazeDataset) -> None:
    t = tiny.trials.set_index("trial")
    one = t.loc["1001"]
    assert [one[c] for c in ("bbox_x", "bbox_y", "bbox_width", "bbox_height")] == [
        100,
        50,
        200,
        300,
    ]
    assert one["expression"] == "man on left" and one["target"] == "man"
    assert one["sound_onset"] == 500 and one["target_end"] == 310
    f = tiny.fixations[tiny.fixations["trial"] == "1001"]
    assert f["onset"].tolist() == [0, 250, 600] and f["duration"].tolist() == [200, 300, 100]
    assert f["off_screen"].tolist() == [False, False, True]
    assert f["in_target_box"].tolist() == [False, True, False]
    words = tiny.reports["words"]
    assert words[words["ref"] == "101"]["text"].tolist() == ["man", "on", "left"]
    assert tiny.info["counts"]["pairs"] == 3 and tiny.info["counts"]["scanpaths"] == 9
    # the file of timings differs for one picture, and counts
    assert t.loc["2001", "target_start"] == 5 and t.loc["2001", "target_end"] == 9
    assert t.loc["3001", "target_end"] == 310  # not in that file
    folds = tiny.reports["folds"]
    assert folds["part"].value_counts().to_dict() == {"train": 6, "val": 3}
    assert any("taken down" in x.reason for x in tiny.lost)


def test_referral_without_optional_keys(tmp_path: Path) -> None:
    keep = ("IMAGEFILE", "SUBJECT_ID", "FIX_X", "FIX_Y", "FIX_DURATION")
    short = [{k: v for k, v in made.referral(1, s).items() if k in keep} for s in (1, 1)]
    (tmp_path / "refcocogaze_val_correct.json").write_text(json.dumps(short))
    ds = quiet("refcoco_gaze", tmp_path)
    assert ds.trials["trial"].tolist() == ["COCO_001_none_1", "COCO_001_none_1_2"]
    assert set(ds.trials["split"]) == {"val"}  # by the name of the file, and counted
    assert "onset" not in ds.fixations and "in_target_box" not in ds.fixations
    assert ds.trials["bbox_x"].isna().all() and len(ds.reports["words"]) == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [({"FIX_X": [1]}, "unequal"), ({"FIX_START": [1]}, "unequal"), ({"BBOX": [1, 2]}, "four"),
     ({"FIX_Y": 5}, "no list"), ({"REFCOCO_GAZE_SPLIT": "other"}, "unknown part")],
)  # fmt: skip
def test_damaged_referral(more: dict, message: str, tmp_path: Path) -> None:
    records = [made.referral(1, 1), made.referral(1, 2, **more)]
    (tmp_path / "refcocogaze_train_correct.json").write_text(json.dumps(records))
    with pytest.raises(DataError, match=message):
        quiet("refcoco_gaze", tmp_path)


# EMIP


@pytest.mark.parametrize("tiny", ["emip"], indirect=True)
def test_screens_of_a_recording(tiny: GazeDataset) -> None:
    t = tiny.trials.set_index("trial")
    assert len(t) == 9 and t.loc["001_vehicle_java2", "language"] == "java"
    assert t.loc["046_rectangle_python", ["program", "language"]].tolist() == [
        "rectangle",
        "python",
    ]
    assert t["n_samples"].eq(100).all()  # a click does not end a screen
    f = tiny.fixations[tiny.fixations["trial"] == "001_rectangle_java2"]
    assert f["x"].tolist() == [620, 1000] and f["y"].tolist() == [60, 500]
    assert f["duration"].tolist() == pytest.approx([200, 200])  # 50 samples of 4 ms
    slow = tiny.fixations[tiny.fixations["trial"] == "046_rectangle_java2"]
    assert slow["duration"].tolist() == pytest.approx([50 / 60 * 1000] * 2, abs=0.1)
    assert f["eye"].tolist() == ["right", "right"]
    assert "our I-DT" in tiny.info["fixations_by"]
    counts = tiny.info["counts"]
    assert counts["recordings_250_hz"] == 2 and counts["recordings_60_hz"] == 1
    assert tiny.samples is not None and len(tiny.samples) == 900
    dropped = {x.reason: x.count for x in tiny.lost if x.kind == "dropped"}
    assert dropped["before the first screen"] == 150
    assert dropped["another screen than a program (screens='all' keeps it)"] == 600


@pytest.mark.parametrize("tiny", ["emip"], indirect=True)
def test_metadata_and_areas(tiny: GazeDataset) -> None:
    t = tiny.trials.set_index("trial")
    assert t["correct"].loc[["001_rectangle_java2", "001_vehicle_java2"]].tolist() == [True, False]
    assert pd.isna(t.loc["106_vehicle_java2", "correct"])  # not in the metadata
    assert t.loc["046_vehicle_java2", "expertise_programming"] == "high"
    assert not {"age", "gender"} & set(t)
    w = tiny.words
    assert set(w["layout"]) == {"rectangle_java2"}  # by its rows, not by the name of the table
    assert w["text"].tolist() == ["public", "null"]  # null is a word
    assert w[["left", "top", "right", "bottom"]].to_numpy().tolist() == [
        [609, 57, 677, 75],
        [689, 57, 743, 75],
    ]
    assert any("names another picture than its rows" in x.reason for x in tiny.lost)


def test_all_screens_and_folders_of_the_site(tmp_path: Path) -> None:
    made.emip(tmp_path)
    (tmp_path / "rawdata").rename(tmp_path / "data_anonymized")
    for path in sorted((tmp_path / "data_anonymized").iterdir()):
        path.rename(path.with_suffix(".txt"))
    (tmp_path / "data_anonymized" / "211_rawdata.xlsx").write_bytes(b"PK")
    ds = quiet("emip", tmp_path, screens="all", samples=False)
    assert len(ds.trials) == 15 and ds.samples is None
    assert [x.count for x in ds.lost if "spreadsheet" in x.reason] == [1]
    with pytest.raises(DataError, match="screens"):
        quiet("emip", tmp_path, screens="none")


def test_the_same_screen_twice_and_no_program_at_all(tmp_path: Path) -> None:
    made.emip(tmp_path)
    raw = tmp_path / "rawdata"
    twice = ["vehicle_java.jpg", "vehicle_java.jpg"]
    (raw / "1_rawdata.tsv").write_text(made.smi_text(1, twice))
    (raw / "46_rawdata.tsv").write_text(made.smi_text(46, ["instruction_calibration.jpg"]))
    ds = quiet("emip", tmp_path)
    assert ds.trials["trial"].tolist()[:2] == ["001_vehicle_java", "001_vehicle_java_2"]
    assert "46" not in ds.participants
    assert [x.examples for x in ds.lost if x.reason == "no screen with a program"] == [
        "46_rawdata.tsv"
    ]


def test_areas_without_tokens_are_named_by_their_place(tmp_path: Path) -> None:
    made.emip(tmp_path)
    (tmp_path / "emip_tokens" / "rectangle.tsv").unlink()
    assert quiet("emip", tmp_path).words["text"].tolist() == ["line 1 part 1", "line 1 part 2"]
    (tmp_path / "aois_vehicle_java.csv").unlink()
    ds = quiet("emip", tmp_path)
    assert len(ds.words) == 0 and any("no aois" in x.reason for x in ds.lost)


@pytest.mark.parametrize(
    ("old", "new"), [("line 1 part 2", "part 2"), ("width", "wide"), ("689", "here")]
)
def test_damaged_areas(old: str, new: str, tmp_path: Path) -> None:
    made.emip(tmp_path)
    path = tmp_path / "aois_vehicle_java.csv"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(DataError, match=r"aois_vehicle_java\.csv"):
        quiet("emip", tmp_path)


def test_a_recording_without_a_number(tmp_path: Path) -> None:
    made.emip(tmp_path)
    (tmp_path / "rawdata" / "1_rawdata.tsv").rename(tmp_path / "rawdata" / "rawdata.tsv")
    with pytest.raises(DataError, match="number of a person"):
        quiet("emip", tmp_path)
