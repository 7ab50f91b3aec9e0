"""Own files: what fits is loaded exactly, what does not is named and counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from gazeattn.datasets import GazeDataset, load
from gazeattn.errors import DataError, UnknownNameError

Load = Callable[..., GazeDataset]
BARE_WORDS = "stimulus,word,text\nA,0,The\nA,1,old\nA,2,man\n"


def reasons(dataset: GazeDataset, kind: str | None = None) -> dict[str, int]:
    return {x.reason: x.count for x in dataset.lost if kind is None or x.kind == kind}


def test_minimal_files(load_table: Load) -> None:
    dataset = load_table()
    assert dataset.name == "my data"
    assert dataset.fixations["duration"].tolist() == [200.0, 180.0, 150.0]
    assert dataset.fixations["index"].tolist() == [0, 1, 0]
    assert dataset.trials["trial"].tolist() == ["t1", "t2"]
    assert dataset.words["line"].tolist() == [0, 0, 0]
    assert dataset.stimuli == {"A": {"text": "The old man"}}
    assert len(dataset.lost) == 0
    assert set(dataset.info["checksums"]) == {"fixations.csv", "words.csv"}


def test_both_files_are_needed() -> None:
    with pytest.raises(DataError, match="no fixations, no words") as caught:
        load("table")
    assert "dataset.fixations=F.csv" in str(caught.value)


def test_relative_paths_start_from_root(tmp_path: Path, load_table: Load) -> None:
    load_table()
    dataset = load("table", root=tmp_path, fixations="fixations.csv", words="words.csv")
    assert len(dataset.fixations) == 3


def test_column_maps(load_table: Load) -> None:
    dataset = load_table(
        fixations="subj,item,page,cx,cy,dur\n1,t1,A,5,5,200\n",
        columns={
            "fixations": {
                "participant": "subj", "trial": "item", "stimulus": "page",
                "x": "cx", "y": "cy", "duration": "dur",
            },
            "words": None,
        },
    )  # fmt: skip
    assert dataset.fixations.loc[0, ["participant", "x", "duration"]].tolist() == ["1", 5.0, 200.0]
    with pytest.raises(UnknownNameError, match="did you mean 'fixations'"):
        load_table(columns={"fixation": {}})


@pytest.mark.parametrize("column", ["participant", "trial", "stimulus"])
def test_missing_columns_are_named_with_the_nearest(load_table: Load, column: str) -> None:
    header, rest = "participant,trial,stimulus,x,y\n", "P01,t1,A,5,5\n"
    with pytest.raises(DataError, match=f"'{column}' may be called '{column}_x' here") as caught:
        load_table(fixations=header.replace(column, f"{column}_x") + rest)
    assert "fixations.csv" in str(caught.value)


# ---------------------------------------------------------------- ids and words


@pytest.mark.parametrize(
    "ids", [["0", "1", "2"], ["1", "2", "3"], ["w1", "w2", "w3"], ["00", "01", "02"]]
)
def test_word_numbers_come_out_as_they_came_in(load_table: Load, ids: list[str]) -> None:
    words = "stimulus,word,text\n" + "".join(f"A,{i},t\n" for i in ids)
    fixations = f"participant,trial,stimulus,word,duration\nP01,t1,A,{ids[0]},200\nP01,t1,A,,90\n"
    dataset = load_table(fixations=fixations, words=words)
    assert dataset.words["word"].tolist() == ids
    assert dataset.fixations["word"][0] == ids[0] and pd.isna(dataset.fixations["word"][1])


def test_words_and_ids_that_look_like_missing_values(load_table: Load) -> None:
    texts = ["null", "NA", "nan", "None", "."]
    words = "stimulus,word,text\n" + "".join(f"NA,{w},{w}\n" for w in texts)
    fixations = "participant,trial,stimulus,word,duration\n" + "".join(
        f"None,null,NA,{w},{d}\n" for w, d in zip(texts, [210, 180, 190, 200, "."], strict=True)
    )
    dataset = load_table(fixations=fixations, words=words)
    assert dataset.words["text"].tolist() == texts
    assert dataset.fixations["word"].tolist() == texts
    assert dataset.participants == ["None"] and dataset.trials["trial"].tolist() == ["null"]
    assert dataset.fixations["duration"].isna().tolist() == [False] * 4 + [True]


def test_marks_for_no_word_are_no_ids(load_table: Load) -> None:
    fixations = "participant,trial,stimulus,word\nP,t,A,0\nP,t,A,.\nP,t,A,NA\nP,t,A,9\nP,t,A,9\n"
    dataset = load_table(fixations=fixations, words=BARE_WORDS)
    assert dataset.fixations["word"].notna().tolist() == [True, False, False, False, False]
    counts = reasons(dataset)
    assert counts["marked as on no word"] == 2
    assert counts["word id is not in the words of the layout: counted on no word"] == 2
    assert "(first: 9)" in str(dataset.lost)


def test_no_word_id_fits(load_table: Load) -> None:
    fixations = "participant,trial,stimulus,word\nP,t,A,000\nP,t,A,001\n"
    with pytest.raises(DataError, match="0 of 2 word ids") as caught:
        load_table(fixations=fixations, words=BARE_WORDS)
    assert "'000'" in str(caught.value) and "compared as text" in str(caught.value)


# ---------------------------------------------------------------- positions


def test_boxes_are_needed_for_coordinates(load_table: Load) -> None:
    with pytest.raises(DataError, match="words have no boxes") as caught:
        load_table(words=BARE_WORDS)
    assert "left, top, right, bottom" in str(caught.value)


@pytest.mark.parametrize("bad", ["P01,t1,A,.,.,0,200", "P01,t1,A,NaN,,0,.", "P01,t1,A,5,,0,200"])
def test_only_invalid_rows_are_no_success(load_table: Load, bad: str) -> None:
    header = "participant,trial,stimulus,x,y,onset,duration\n"
    with pytest.raises(DataError, match="0 of 3 rows valid"):
        load_table(fixations=header + f"{bad}\n" * 3)


def test_some_invalid_rows_stay_and_are_counted(load_table: Load) -> None:
    dataset = load_table(
        fixations="participant,trial,stimulus,x,y\nP01,t1,A,5,5\nP01,t1,A,.,5\n,,,,\n"
    )
    assert len(dataset.fixations) == 2
    assert reasons(dataset, "dropped") == {"empty rows": 1}
    assert dataset.lost.count("fixations", "undefined") == 1 + 2  # and no duration


@pytest.mark.parametrize("value", ["1,5", "five", "inf", "12px"])
def test_a_value_that_is_no_number_names_file_and_row(load_table: Load, value: str) -> None:
    fixations = f'participant,trial,stimulus,x,y\nP01,t1,A,5,5\nP01,t1,A,"{value}",5\n'
    with pytest.raises(DataError, match="must hold numbers") as caught:
        load_table(fixations=fixations)
    assert "fixations.csv, row 3" in str(caught.value) and value in str(caught.value)


def test_degrees_instead_of_pixels_raise_a_doubt(load_table: Load) -> None:
    words = "stimulus,word,text,left,top,right,bottom\nA,0,The,0,0,500,40\nA,1,old,500,0,900,40\n"
    fixations = "participant,trial,stimulus,x,y\nP,t,A,-9.5,3\nP,t,A,10,-2\n"
    dataset = load_table(fixations=fixations, words=words)
    assert any("look like degrees" in r for r in reasons(dataset, "note"))


def test_points_outside_the_screen_are_counted_not_moved(load_table: Load) -> None:
    points = [("639.4", "10"), ("640.0", "10"), ("-0.2", "10"), ("300", "479.9")]
    rows = "".join(f"P,t,A,{x},{y}\n" for x, y in points)
    dataset = load_table(fixations="participant,trial,stimulus,x,y\n" + rows, screen=(640, 480))
    assert dataset.fixations["off_screen"].tolist() == [False, True, True, False]
    assert dataset.fixations["x"].tolist() == [639.4, 640.0, -0.2, 300.0]


# ---------------------------------------------------------------- units


@pytest.mark.parametrize(
    ("header", "unit", "value", "expected"),
    [
        ("duration", None, "200", 200.0),
        ("duration", "ms", "200", 200.0),
        ("duration", "s", "0.2", 200.0),
        ("Duration [ms]", None, "200", 200.0),
        ("Duration [s]", None, "0.2", 200.0),
        ("Duration [μs]", None, "200000", 200.0),
        ("Duration [µs]", "us", "200000", 200.0),
        ("Duration (ms)", "ms", "200", 200.0),
    ],
)
def test_time_units(
    load_table: Load, header: str, unit: str | None, value: str, expected: float
) -> None:
    dataset = load_table(
        fixations=f"participant,trial,stimulus,x,y,{header}\nP,t,A,5,5,{value}\n",
        columns={"fixations": {"duration": header}},
        duration_unit=unit,
    )
    assert dataset.fixations["duration"][0] == pytest.approx(expected)
    assert len(dataset.lost) == 0


def test_time_units_that_cannot_be(load_table: Load) -> None:
    fixations = "participant,trial,stimulus,x,y,d [{}]\nP,t,A,5,5,1\n"
    columns = {"fixations": {"duration": "d [{}]"}}

    def attempt(header: str, unit: str | None) -> None:
        load_table(
            fixations=fixations.format(header),
            columns={"fixations": {"duration": columns["fixations"]["duration"].format(header)}},
            duration_unit=unit,
        )

    with pytest.raises(UnknownNameError, match="time unit"):
        attempt("ticks", None)
    with pytest.raises(UnknownNameError, match="time unit"):
        attempt("ms", "minutes")
    with pytest.raises(DataError, match="disagree"):
        attempt("s", "ms")


def test_durations_in_a_doubtful_unit_are_noted(load_table: Load) -> None:
    dataset = load_table(fixations="participant,trial,stimulus,x,y,duration\nP,t,A,5,5,0.2\n")
    assert any("check duration_unit" in r for r in reasons(dataset, "note"))


# ---------------------------------------------------------------- fitting files together


def test_trial_numbers_that_readers_share_are_made_unique(load_table: Load) -> None:
    fixations = "participant,trial,stimulus,x,y\nP01,1,A,5,5\nP02,1,A,15,5\nP01,2,A,25,5\n"
    dataset = load_table(fixations=fixations)
    assert dataset.trials["trial"].tolist() == ["P01:1", "P01:2", "P02:1"]
    assert dataset.lost.count("trials", "repaired") == 3
    assert len(dataset.fixations) == 3


@pytest.mark.parametrize("with_reader", [True, False])
@pytest.mark.parametrize("with_stimulus", [True, False])
def test_words_by_trial(load_table: Load, with_reader: bool, with_stimulus: bool) -> None:
    rows = [("P01", "t1", "A", 12), ("P01", "t2", "A", 24)]
    names = ["participant"] * with_reader + ["trial"] + ["stimulus"] * with_stimulus
    lines = []
    for reader, trial, stimulus, top in rows:
        keys = [reader] * with_reader + [trial] + [stimulus] * with_stimulus
        lines += [[*keys, "0", "The", "0", "0", "10", "10"]]
        lines += [[*keys, "12", "end", "0", str(top), "10", str(top + 10)]]
    header = [*names, "word", "text", "left", "top", "right", "bottom"]
    words = "\n".join(",".join(r) for r in [header, *lines]) + "\n"
    fixations = "participant,trial,stimulus,x,y\nP01,t1,A,5,15\nP01,t2,A,5,26\n"
    dataset = load_table(fixations=fixations, words=words)
    assert dataset.trials["layout"].tolist() == ["t1", "t2"]
    boxes = dataset.words.set_index(["layout", "word"])["top"]
    assert boxes["t1", "12"] == 12 and boxes["t2", "12"] == 24  # never those of another trial
    assert set(dataset.words["stimulus"]) == {"A"}


def test_words_by_trial_with_shared_trial_numbers(load_table: Load) -> None:
    words = "trial,stimulus,word,text,left,top,right,bottom\n1,A,0,The,0,0,10,10\n"
    fixations = "participant,trial,stimulus,x,y\nP01,1,A,5,5\nP02,1,A,5,5\n"
    dataset = load_table(fixations=fixations, words=words)
    assert dataset.trials["layout"].tolist() == ["1", "1"]
    own = "participant,trial,stimulus,word,text\nP01,1,A,0,The\nP02,1,A,0,That\n"
    fixations = fixations.replace("x,y", "word").replace("5,5", "0")
    dataset = load_table(fixations=fixations, words=own)
    assert dataset.trials["layout"].tolist() == ["P01:1", "P02:1"]
    assert dataset.words["text"].tolist() == ["The", "That"]


def test_words_by_layout(load_table: Load) -> None:
    words = "layout,stimulus,word,text\nA1,A,0,The\nA2,A,0,That\n"
    fixations = "participant,trial,stimulus,layout,word\nP,t1,A,A2,0\nP,t2,A,A1,0\n"
    dataset = load_table(fixations=fixations, words=words)
    assert dataset.trials["layout"].tolist() == ["A2", "A1"]
    with pytest.raises(DataError, match="which was shown"):
        load_table(fixations=fixations.replace("layout", "page"), words=words)


TRIALS = "trial,participant,stimulus,condition\nt1,P01,A,search\nt2,P02,A,search\nt3,P01,A,free\n"


def test_trial_file(load_table: Load) -> None:
    dataset = load_table(trials=TRIALS)
    assert dataset.trials["condition"].tolist() == ["search", "search", "free"]
    assert dataset.info["readers_note"] == "free and search"
    assert reasons(dataset, "undefined") == {"no fixations: undefined": 1}
    fewer = "trial,x,y\nt1,5,5\nt2,5,5\n"  # ids come from the trial file
    dataset = load_table(fixations=fewer, trials=TRIALS)
    assert dataset.fixations["participant"].tolist() == ["P01", "P02"]


def test_rows_lost_by_a_join_are_counted_with_their_ids(load_table: Load) -> None:
    dataset = load_table(trials="trial,participant,stimulus\nt1,P01,A\n")
    dropped = [x for x in dataset.lost if x.kind == "dropped"]
    assert [(x.count, x.examples) for x in dropped] == [(1, "t2")]
    assert len(dataset.fixations) == 2
    with pytest.raises(DataError, match="0 of 3 rows valid"):
        load_table(trials="trial,participant,stimulus\nt9,P01,A\n")


@pytest.mark.parametrize(
    ("old", "new", "what"), [("P02", "P97", "participant"), ("t2,P02,A", "t2,P02,B", "stimulus")]
)
def test_files_that_contradict_each_other_raise(
    load_table: Load, old: str, new: str, what: str
) -> None:
    with pytest.raises(DataError, match=f"different {what}s") as caught:
        load_table(trials=TRIALS.replace(old, new))
    assert "'t2'" in str(caught.value)


def test_a_stimulus_without_words_is_counted(load_table: Load) -> None:
    more = "participant,trial,stimulus,x,y\nP,t1,A,5,5\nP,t2,B,5,5\nP,t3,B,5,5\n"
    dataset = load_table(fixations=more)
    assert dataset.lost.count("fixations", "dropped") == 2
    assert [x.examples for x in dataset.lost if x.kind == "dropped"] == ["B"]
    with pytest.raises(DataError, match="no fixated stimulus has words"):
        load_table(fixations="participant,trial,stimulus,x,y\nP,t1,B,5,5\n")


def test_words_that_nobody_read_are_noted(load_table: Load) -> None:
    words = BARE_WORDS + "B,0,x\n"
    fixations = "participant,trial,stimulus,word,duration\nP,t1,A,0,200\n"
    dataset = load_table(fixations=fixations, words=words)
    assert reasons(dataset) == {"layouts that no trial shows": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": "stimulus,word,text\nA,0,a\nA,0,b\n"}, "word id stands twice"),
        ({"trials": TRIALS + "t1,P01,A,free\n"}, "trial id stands twice"),
        ({"words": "stimulus,word,text,left,top\nA,0,a,1,2\n"}, "all four sides"),
        ({"words": "stimulus,word,text\nA,0,\n"}, "missing"),
        ({"fixations": "participant,trial,stimulus,x,y\n"}, "no rows"),
        ({"words": "stimulus,word,text\n"}, "no rows"),
        ({"words": b""}, "empty"),
        ({"fixations": b""}, "empty"),
    ],
)
def test_impossible_files(load_table: Load, options: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load_table(**options)
    assert next(iter(options)) + ".csv" in str(caught.value)


# ---------------------------------------------------------------- texts


def test_texts_are_compared_word_by_word(load_table: Load) -> None:
    words = 'stimulus,word,text\nA,0,paid\nA,1,"$__NBWS__1,750.00"\nA,2,for\nA,3,it\n'
    fixations = "participant,trial,stimulus,word,duration\nP,t,A,0,200\n"
    texts = 'stimulus,text\nA,"paid $1,750 for it"\n'
    dataset = load_table(fixations=fixations, words=words, texts=texts)
    check = dataset.reports["text_check"]
    assert check[["kind", "text_index", "text", "table"]].values.tolist() == [
        ["different", 1, "$1,750", "$__NBWS__1,750.00"]
    ]
    assert reasons(dataset) == {"different, compared with texts.csv": 1}
    dataset = load_table(fixations=fixations, words=words, texts='stimulus,text\nB,"x"\n')
    assert reasons(dataset) == {"no text in texts.csv": 1}


def test_a_text_file_needs_its_columns(load_table: Load) -> None:
    with pytest.raises(DataError, match="'text' is missing"):
        load_table(texts="stimulus,words\nA,x\n")


EYES = (
    "participant,trial,stimulus,eye,x,y,onset,duration\n"
    "P1,t,A,left,5,5,0,200\nP1,t,A,right,5,5,0,200\nP1,t,A,left,15,5,250,200\n"
    "P1,t,A,right,15,5,250,200\n"
)


def test_two_eyes_need_a_choice_and_count_once(load_table: Load) -> None:
    words = "stimulus,word,text,left,top,right,bottom\nA,0,The,0,0,10,10\nA,1,old,10,0,20,10\n"
    with pytest.raises(DataError, match=r"both eyes.*dataset\.eye=right"):
        load_table(fixations=EYES, words=words)
    data = load_table(fixations=EYES, words=words, eye="right")
    measures = data.measures()
    assert measures["total_reading_time"].tolist() == [200, 200]
    assert measures["fixation_count"].tolist() == [1, 1]
    assert reasons(data, "dropped") == {"not of the right eye": 2}
    with pytest.raises(UnknownNameError, match="eye"):
        load_table(fixations=EYES, words=words, eye="rigth")
    one = EYES.replace("left", "right")
    with pytest.raises(DataError, match="0 of 4 rows valid"):
        load_table(fixations=one, words=words, eye="left")
