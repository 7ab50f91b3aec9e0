"""Mistakes of a person's own tables that would pass unseen: each is named or counted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.datasets import GazeDataset, load
from gazeattn.errors import DataError, UnknownNameError

from .conftest import FIXATIONS, WORDS

Load = Callable[..., GazeDataset]


def notes(dataset: GazeDataset) -> dict[str, int]:
    return {x.reason: x.count for x in dataset.lost}


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    "name", ["durration", "Duration", "DURATION", "duration [s]", "Duration (ms)", "durations"]
)
def test_a_misspelt_duration_raises_with_the_name(load_table: Load, name: str) -> None:
    fixations = FIXATIONS.replace("duration", name)
    with pytest.raises(DataError, match="column 'duration' is not there") as caught:
        load_table(fixations=fixations)
    assert f"Did you mean {name!r}?" in str(caught.value)
    assert f"dataset.columns.fixations.duration='{name}'" in str(caught.value)
    assert "index" not in str(caught.value)
    factor = 1000.0 if "[s]" in name else 1.0
    mapped = load_table(fixations=fixations, columns={"fixations": {"duration": name}})
    assert mapped.fixations["duration"].tolist() == [200 * factor, 180 * factor, 150 * factor]
    none = load_table(fixations=fixations, columns={"fixations": {"duration": None}})
    assert "duration" not in none.fixations


@pytest.mark.parametrize("name", ["direction", "rotation", "pupil_size", "condition", "offset"])
def test_without_duration_the_times_are_counted_as_undefined(load_table: Load, name: str) -> None:
    dataset = load_table(fixations=FIXATIONS.replace("duration", name))
    assert notes(dataset) == {"no duration column: time measures are undefined": 3}
    dataset = load_table(fixations=FIXATIONS.replace("duration", "CURRENT_FIX_DURATION"))
    assert list(notes(dataset)) == [
        "no duration column: time measures are undefined (may it be 'CURRENT_FIX_DURATION'?)"
    ]


@pytest.mark.parametrize("name", ["Onset [ms]", "onsets", "ONSET"])
def test_other_columns_with_a_name_near_ours_are_noted(load_table: Load, name: str) -> None:
    dataset = load_table(fixations=FIXATIONS.replace("onset", name))
    assert "no column 'onset', but one with a name near it" in str(dataset.lost)
    assert name in str(dataset.lost)
    dataset = load_table(fixations=FIXATIONS.replace("onset", "Index"))
    assert "no column 'index', but one" in str(dataset.lost)


def test_two_numbers_need_two_columns(load_table: Load) -> None:
    for columns in ({"x": "x", "y": "x"}, {"y": "x"}, {"duration": "onset"}):
        with pytest.raises(DataError, match="is taken for both"):
            load_table(columns={"fixations": columns})
    shared = "participant,page,x,y,duration\nP,A,5,5,200\n"
    dataset = load_table(
        fixations=shared, columns={"fixations": {"trial": "page", "stimulus": "page"}}
    )
    assert dataset.trials.loc[0, ["trial", "stimulus"]].tolist() == ["A", "A"]


# ---------------------------------------------------------------- ids against positions


def both(shift: int = 0, wrong: int = 0, n: int = 12, start: int = 0) -> str:
    """Return fixations on words of a line; the first `wrong` ids name another word."""
    rows = []
    for i in range(start, n):
        word = i + shift if i >= wrong else (i + 5) % n
        rows.append(f"P,t,A,{10 * i + 5},5,{word},{200 + i}")
    return "participant,trial,stimulus,x,y,word,duration\n" + "\n".join(rows) + "\n"


LONG = "stimulus,word,text,left,top,right,bottom\n" + "".join(
    f"A,{i},w{i},{10 * i},0,{10 * i + 10},10\n" for i in range(14)
)


def test_ids_that_fit_the_boxes_are_no_doubt(load_table: Load) -> None:
    assert notes(load_table(fixations=both(), words=LONG)) == {}
    few = load_table(fixations=both(wrong=3), words=LONG)
    assert list(notes(few).values()) == [3]
    assert "box of another word" in str(few.lost)


@pytest.mark.parametrize("shift", [1, -1])
def test_shifted_ids_contradict_the_boxes(load_table: Load, shift: int) -> None:
    fixations = both(shift, n=13, start=1)
    with pytest.raises(DataError, match="contradict their x and y") as caught:
        load_table(fixations=fixations, words=LONG)
    assert f"a shift of {-shift:+d}) agree with 100%" in str(caught.value)
    assert " 0% of 12 " in str(caught.value)
    by_box = load_table(fixations=fixations, words=LONG, columns={"fixations": {"word": None}})
    assert "word" not in by_box.fixations
    by_id = load_table(fixations=fixations, words=LONG, columns={"fixations": {"x": None}})
    assert "x" not in by_id.fixations and by_id.fixations["word"].notna().all()


def test_too_few_fixations_to_contradict_are_counted(load_table: Load) -> None:
    dataset = load_table(fixations=both(1, n=9), words=LONG)
    assert list(notes(dataset).values()) == [9]


def test_wrong_ids_without_a_shift_contradict_too(load_table: Load) -> None:
    with pytest.raises(DataError, match="contradict") as caught:
        load_table(fixations=both(wrong=12), words=LONG)
    assert "shift" not in str(caught.value)


# ---------------------------------------------------------------- rows put in twice


def test_rows_put_in_twice_raise(load_table: Load) -> None:
    body = FIXATIONS.split("\n", 1)[1]
    with pytest.raises(DataError, match="stands twice") as caught:
        load_table(fixations=FIXATIONS + body)
    assert caught.value.row == 5 and "3 such rows" in str(caught.value)
    assert "repeats row 2" in str(caught.value)
    near = load_table(fixations=FIXATIONS + "P02,t2,A,25,6,0,150\n")  # another y
    assert len(near.fixations) == 4
    eyes = "participant,trial,stimulus,x,y,onset,duration,eye\n"
    eyes += "P,t,A,5,5,0,200,left\nP,t,A,5,5,0,200,right\n"
    with pytest.raises(DataError, match="both eyes"):  # two eyes are no repetition
        load_table(fixations=eyes)


@pytest.mark.parametrize("position", ["x,y", "word"])
def test_a_second_half_that_repeats_the_first_is_noted(load_table: Load, position: str) -> None:
    places = ["5,5", "15,5", "25,5"] if position == "x,y" else ["0", "1", ""]
    once = [f"P,t,A,{p},{d}" for p, d in zip(places, (200, 180, 150), strict=True)]
    head = f"participant,trial,stimulus,{position},duration\n"
    other = [r.replace("P,t,", "P,u,") for r in once[:2]] * 2  # too short to say
    reason = "the second half of the trial repeats the first: were rows put in twice?"

    def found(lines: list[str]) -> int:
        return notes(load_table(fixations=head + "\n".join(lines) + "\n")).get(reason, 0)

    assert found([*once, *once, *other]) == 1
    assert found([*once, *other, *once]) == 1
    assert found(once) == 0
    assert found([*once, *once[:2], once[2].replace("150", "151")]) == 0


def test_a_trial_that_stands_twice_names_both_rows(load_table: Load) -> None:
    trials = "trial,participant,stimulus\nt1,P01,A\nt2,P02,A\nt1,P01,A\n"
    with pytest.raises(DataError, match="'t1' in rows 2 and 4") as caught:
        load_table(trials=trials)
    assert caught.value.row == 2


# ---------------------------------------------------------------- typed tables


def frames() -> dict[str, pd.DataFrame]:
    fixations = pd.DataFrame(
        {
            "participant": [1, 1, 2],
            "trial": [1, 1, 2],
            "stimulus": [1.0, 1.0, 2.0],
            "word": [0, 1, 0],
            "duration": [200.0, np.nan, 180.0],
        }
    )
    words = pd.DataFrame({"stimulus": [1, 1, 2], "word": [0.0, 1.0, 0.0], "text": list("abc")})
    trials = pd.DataFrame({"participant": ["1", "2"], "trial": [1.0, 2.0], "stimulus": ["1", "2"]})
    return {"fixations": fixations, "words": words, "trials": trials}


@pytest.mark.parametrize("with_trials", [True, False])
@pytest.mark.parametrize("as_files", [True, False])
def test_ids_of_different_types_are_the_same_ids(
    tmp_path: Path, with_trials: bool, as_files: bool
) -> None:
    tables: dict[str, Any] = {}
    for step, frame in frames().items():
        if step != "trials" or with_trials:
            frame.to_parquet(tmp_path / f"{step}.parquet")
            tables[step] = tmp_path / f"{step}.parquet" if as_files else frame
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = load("table", **tables)
    assert dataset.trials["stimulus"].tolist() == ["1", "2"]
    assert dataset.fixations["word"].tolist() == ["0", "1", "0"]
    assert all(dataset.info["checksums"].values())


def test_tables_in_memory_are_named_and_not_changed() -> None:
    given: dict[str, Any] = dict(frames())
    before = {k: v.copy() for k, v in given.items()}
    load("table", **given)
    for step, frame in before.items():
        pd.testing.assert_frame_equal(given[step], frame)
    bad = given["fixations"].assign(duration=["1", "x", "2"])
    with pytest.raises(DataError, match="fixations table, row 1: column 'duration'"):
        load("table", **{**given, "fixations": bad})
    with pytest.raises(DataError, match="different stimulus") as caught:
        load("table", **{**given, "trials": given["trials"].assign(stimulus=[1.0, 1.0])})
    assert "np." not in str(caught.value)
    with pytest.raises(DataError, match=r"words must be a file or a table.*list"):
        load("table", **{**given, "words": [1, 2]})
    with pytest.raises(UnknownNameError, match="column of the words table"):
        load("table", **given, columns={"words": {"txt": "text"}})


# ---------------------------------------------------------------- files


def test_a_folder_is_not_offered_as_the_file(tmp_path: Path) -> None:
    (tmp_path / "F.csv").mkdir()
    (tmp_path / "W.csv").write_text(WORDS)
    with pytest.raises(DataError, match="is a folder, not a file") as caught:
        load("table", root=tmp_path, fixations="F.csv", words="W.csv")
    assert "Did you mean" not in str(caught.value)


def test_cells_separated_by_blanks_get_a_hint(load_table: Load) -> None:
    content = FIXATIONS.replace(",", " ")
    with pytest.raises(DataError, match="separator=space"):
        load_table(fixations=content)
    words = WORDS.replace(",", " ")
    assert len(load_table(fixations=content, words=words, separator="space").fixations) == 3


def test_missing_boxes_show_the_columns_of_the_file(load_table: Load) -> None:
    with pytest.raises(DataError, match="words have no boxes") as caught:
        load_table(words="stimulus,word,text\nA,0,a\n")
    assert str(caught.value).endswith("found stimulus, word, text")
