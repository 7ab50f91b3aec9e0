"""EyeTrans corpus: files of our own in the described layout."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from gazeattn.datamodules.code_classes import token_looks
from gazeattn.datasets import GazeDataset, load
from gazeattn.errors import DataError

HEAD = "participant_id,function_name,function_id,system_timestamp,valid_gaze_left,valid_gaze_right,gaze_left_eye,gaze_right_eye\n"  # noqa: E501
BOXES = "word,occurrence,x,y,width,height,tobii_x\nint,0,100,100,60,20,0\nx,0,200,100,20,20,0\nreturn,0,100,140,80,20,0\n"  # noqa: E501


def rows(person: str, method: str, places: list[tuple[float, float]], start: int = 0) -> str:
    """120 Hz: 25 samples (208 ms) on each place, a pixel of the screen."""
    out, k = [], 0
    for x, y in places:
        for _ in range(25):
            t = start + round(k * 1e6 / 120)
            k += 1
            pair = f'"({x / 1920}, {y / 1080})"'
            out.append(f"{person},{method},7,{t},1,1,{pair},{pair}\n")
    return "".join(out)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    (tmp_path / "gaze").mkdir()
    (tmp_path / "word_coordinates_final").mkdir()
    first = rows("8", "add", [(130, 110), (210, 110), (140, 150)])
    lost = '8,add,7,625000,0,0,"(nan, nan)","(nan, nan)"\n'
    (tmp_path / "gaze" / "008_add.csv").write_text(HEAD + first + lost)
    (tmp_path / "gaze" / "009_add.csv").write_text(HEAD + rows("9", "add", [(900, 900)]))
    (tmp_path / "word_coordinates_final" / "add_boxes.csv").write_text(BOXES)
    task = ("participant_id,function_name,function_id,task,participant_summary,given_summary,"
            "summary_author,end_time\n8,add,7,writing,adds a number,,,1\n")  # fmt: skip
    (tmp_path / "008_task.csv").write_text(task)
    return tmp_path


def _load(folder: Path, **options: object) -> GazeDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load("eyetrans", root=folder, **options)


def test_fixations_words_and_tasks_by_hand(made: Path) -> None:
    data = _load(made)
    assert data.trials["trial"].tolist() == ["008_add", "009_add"]
    assert data.trials["condition"].tolist()[0] == "writing"
    assert data.trials["condition"].isna().tolist() == [False, True]
    assert data.trials["summary"].tolist()[0] == "adds a number"
    mine = data.fixations[data.fixations["trial"] == "008_add"]
    np.testing.assert_allclose(mine["x"], [130, 210, 140], atol=0.5)
    np.testing.assert_allclose(mine["y"], [110, 110, 150], atol=0.5)
    assert (mine["duration"] > 190).all() and (mine["duration"] < 220).all()
    assert data.words["text"].tolist() == ["int", "x", "return"]
    assert data.words["line"].tolist() == [0, 0, 1]
    assert data.words.loc[1, ["left", "right", "top", "bottom"]].tolist() == [200, 220, 100, 120]
    assert "I-DT" in data.info["fixations_by"]
    reasons = {x.reason: x.count for x in data.lost}
    assert reasons["no eye was found"] == 1 and reasons["no row of the task"] == 1


def test_looks_at_classes_of_tokens(made: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        (found,) = token_looks(_load(made))
    assert found.session == "writing"
    assert found.kind.tolist() == ["keyword", "identifier", "keyword"]
    assert found.there == {"identifier": 1, "keyword": 2}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f: (f / "gaze" / "008_add.csv").write_text("a,b\n1,2\n"), "participant_id"),
        (lambda f: (f / "word_coordinates_final" / "add_boxes.csv").write_text("word,x\na,1\n"),
         "occurrence"),
        (lambda f: (f / "word_coordinates_final" / "add_boxes.csv").write_text(
            BOXES.replace("200", "two")), "two"),
        (lambda f: (f / "gaze" / "009_add.csv").write_text(
            HEAD + '8,add,7,late,1,1,"(0.1, 0.1)","(0.1, 0.1)"\n'), "late"),
    ],
)  # fmt: skip
def test_damaged_files_are_named(made: Path, change: object, says: str) -> None:
    change(made)  # type: ignore[operator]
    with pytest.raises(DataError, match=says):
        _load(made)


def test_without_boxes_and_tasks_it_says_so(made: Path) -> None:
    (made / "word_coordinates_final" / "add_boxes.csv").rename(
        made / "word_coordinates_final" / "other_boxes.csv"
    )
    (made / "008_task.csv").unlink()
    data = _load(made, samples=True)
    assert not len(data.words) and data.samples is not None and len(data.samples) == 101
    reasons = [x.reason for x in data.lost]
    assert "no boxes of tokens" in reasons and any("no *_task.csv" in r for r in reasons)
