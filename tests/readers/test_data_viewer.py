"""Data Viewer reports: kinds, areas, onsets, eyes, own variables, trials, several files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn import readers
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.readers import Recording, data_viewer, identify
from gazeattn.readers.data_viewer import recognises

from .reports import FIXATIONS, reasons, table

read: Any = readers.read
read_data_viewer: Any = data_viewer.read_data_viewer
read_reports: Any = data_viewer.read_reports


@pytest.fixture
def path_of(tmp_path: Path) -> Any:
    def write(content: str | bytes, name: str = "report.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def report(path_of: Any) -> Any:
    def build(content: str | bytes, name: str = "report.txt", **options: Any) -> Recording:
        return read_data_viewer(path_of(content, name), **options).check()

    return build


# ---------------------------------------------------------------- the four kinds


def test_fixation_report_by_hand(report: Any) -> None:
    recording = report(FIXATIONS)
    f = recording.fixations
    assert recording.info["report"] == "fixation" and recording.info["eyes"] == ["left", "right"]
    assert f["participant"].tolist() == ["P01"] * 4 and f["trial"].tolist() == ["1", "1", "1", "2"]
    assert f["eye"].tolist() == ["right", "right", "right", "left"]
    np.testing.assert_array_equal(f["onset"], [120, 350, np.nan, 10])
    np.testing.assert_array_equal(f["duration"], [210, 180, 190, 200])
    np.testing.assert_array_equal(f["x"], [100.5, 220.25, np.nan, 300])
    np.testing.assert_array_equal(f["y"], [50, 51.5, np.nan, 52])
    np.testing.assert_array_equal(f["pupil"], [700, np.nan, 702, 703])
    np.testing.assert_array_equal(f["NEXT_SAC_AMPLITUDE"], [1.25, 0.5, np.nan, 2])
    np.testing.assert_array_equal(f["CURRENT_FIX_INDEX"], [1, 2, 3, 1])
    assert f["area"].fillna("-").tolist() == ["7", "7", "-", "9"]
    assert f["NEXT_SAC_DIRECTION"].fillna("-").tolist() == ["RIGHT", "UP", "-", "LEFT"]
    assert f["CURRENT_FIX_INTEREST_AREAS"].tolist() == ["[ 7]", "[ 7, 8]", "[ ]", "[ 9]"]
    assert "fixations: 1 rows note: in several areas" in reasons(recording)
    assert "fixations: 1 rows undefined: no onset" in reasons(recording)
    assert recording.trials.values.tolist() == [["P01", "1"], ["P01", "2"]]


def test_saccade_report_keeps_saccades_without_location(report: Any) -> None:
    recording = report(
        table(
            "RECORDING_SESSION_LABEL TRIAL_INDEX EYE_USED CURRENT_SAC_START_TIME "
            "CURRENT_SAC_DURATION CURRENT_SAC_START_X CURRENT_SAC_START_Y CURRENT_SAC_END_X "
            "CURRENT_SAC_END_Y CURRENT_SAC_AMPLITUDE CURRENT_SAC_PEAK_VELOCITY "
            "CURRENT_SAC_DIRECTION CURRENT_SAC_END_INTEREST_AREA_ID",
            "P01 1 LEFT 100 24 10 20 110 21 3.5 180.5 RIGHT 4",
            "P01 1 LEFT 400 30 . . . . . . . .",
        )
    )
    s = recording.saccades
    assert recording.info["report"] == "saccade" and len(s) == 2
    first = s.loc[0, ["onset", "duration", "x_start", "y_start", "x_end", "y_end"]]
    assert first.tolist() == [100, 24, 10, 20, 110, 21]
    assert s.loc[0, ["amplitude", "peak_velocity"]].tolist() == [3.5, 180.5]
    assert s.loc[1, ["onset", "duration"]].tolist() == [400, 30]
    assert s.loc[1, ["x_start", "x_end", "amplitude", "CURRENT_SAC_DIRECTION"]].isna().all()
    assert pd.isna(s.loc[1, "CURRENT_SAC_END_INTEREST_AREA_ID"])


def test_sample_report_with_two_eyes_and_dots(report: Any) -> None:
    recording = report(
        table(
            "RECORDING_SESSION_LABEL TRIAL_INDEX TIMESTAMP LEFT_GAZE_X LEFT_GAZE_Y "
            "LEFT_PUPIL_SIZE RIGHT_GAZE_X RIGHT_GAZE_Y RIGHT_PUPIL_SIZE LEFT_IN_BLINK "
            "SAMPLE_MESSAGE",
            "P01 1 100 512 384 700 . . 0 0 .",
            "P01 1 101 . . . 500.5 380 650 1 TRIAL_START",
            "P01 1 102 513 384.5 0 500 381 651 0 .",
        )
    )
    s = recording.samples
    assert recording.info["report"] == "sample" and recording.info["eyes"] == ["left", "right"]
    np.testing.assert_array_equal(s["time"], [100, 101, 102])
    np.testing.assert_array_equal(s["x_left"], [512, np.nan, 513])
    np.testing.assert_array_equal(s["x_right"], [np.nan, 500.5, 500])
    # A pupil of 0 is missing only where there is no gaze either.
    np.testing.assert_array_equal(s["pupil_right"], [np.nan, 650, 651])
    np.testing.assert_array_equal(s["pupil_left"], [700, np.nan, 0])
    assert "1 rows undefined: pupil 0" in reasons(recording)
    assert "x" not in s and s["LEFT_IN_BLINK"].tolist() == [0, 1, 0]


def test_interest_area_report_keeps_its_columns(report: Any) -> None:
    recording = report(
        table(
            "RECORDING_SESSION_LABEL TRIAL_INDEX IA_ID IA_LABEL IA_LEFT IA_TOP IA_RIGHT IA_BOTTOM "
            "IA_DWELL_TIME IA_FIRST_FIXATION_DURATION IA_SKIP IA_REGRESSION_IN word_frequency",
            "P01 1 0 null 10 20 60 40 0 . 1 . 3.5",
            "P01 1 1 . 60 20 70 40 210 210 0 0 .",
            "P01 2 0 NA 10 20 60 60 0 0 0 1 007",
        )
    )
    a = recording.areas
    assert a["area"].tolist() == ["0", "1", "0"]  # numbers as the file has them, from 0
    assert a["text"].tolist() == ["null", ".", "NA"]  # a full stop is a word here
    assert a[["left", "top", "right", "bottom"]].values.tolist() == [
        [10, 20, 60, 40],
        [60, 20, 70, 40],
        [10, 20, 60, 60],
    ]
    np.testing.assert_array_equal(a["IA_DWELL_TIME"], [0, 210, 0])
    np.testing.assert_array_equal(a["IA_FIRST_FIXATION_DURATION"], [np.nan, 210, 0])
    np.testing.assert_array_equal(a["IA_REGRESSION_IN"], [np.nan, 0, 1])
    assert a["IA_ID"].tolist() == ["0", "1", "0"] and a["IA_LABEL"].tolist() == a["text"].tolist()
    assert a["word_frequency"].tolist() == ["3.5", ".", "007"]
    assert recording.trials["trial"].tolist() == ["1", "2"]


@pytest.mark.parametrize("first", ["0", "1"])
def test_word_numbers_come_out_as_they_came_in(report: Any, first: str) -> None:
    header = "RECORDING_SESSION_LABEL TRIAL_INDEX IA_ID IA_LABEL"
    numbers = [str(int(first) + k) for k in range(3)]
    a = report(table(header, *(f"P1 1 {n} w" for n in numbers))).areas
    assert a["area"].tolist() == numbers
    header = "TRIAL_INDEX CURRENT_FIX_INDEX CURRENT_FIX_INTEREST_AREA_ID CURRENT_FIX_DURATION"
    f = report(table(header, f"1 1 {first} 200")).fixations
    assert f["area"].tolist() == [first]


def test_areas_stay_apart_by_trial(report: Any) -> None:
    header = "RECORDING_SESSION_LABEL TRIAL_INDEX item IA_ID IA_LABEL IA_LEFT IA_TOP"
    a = report(table(header, "P1 1 A1 12 w 10 154", "P1 2 A1 12 w 10 211")).areas
    assert a[["trial", "area", "top"]].values.tolist() == [["1", "12", 154], ["2", "12", 211]]


def test_rows_without_an_area_id_are_counted(report: Any) -> None:
    header = "RECORDING_SESSION_LABEL TRIAL_INDEX IA_ID IA_LABEL IA_DWELL_TIME"
    recording = report(table(header, "P1 1 . . 50", "P1 1 1 . 60", "P1 1 2 a 70"))
    assert recording.areas["IA_DWELL_TIME"].tolist() == [60, 70]
    assert "1 rows dropped: rows without an area id" in reasons(recording)
    with pytest.raises(DataError, match="0 of 2 rows valid"):
        report(table(header, "P1 1 . . 50", "P1 1 . . 60"))


@pytest.mark.parametrize(
    "content",
    [
        table("TRIAL_INDEX CURRENT_FIX_X CURRENT_FIX_Y", "1 . .", "2 . UNDEFINEDnull"),
        table("TRIAL_INDEX CURRENT_FIX_DURATION CURRENT_FIX_INTEREST_AREAS", "1 . []", "2 . []"),
        table("TRIAL_INDEX TIMESTAMP LEFT_GAZE_X LEFT_GAZE_Y", "1 1 . .", "1 2 . ."),
        table("TRIAL_INDEX CURRENT_SAC_DURATION CURRENT_SAC_END_X", "1 . .", "2 . ."),
    ],
)
def test_reports_in_which_nothing_is_valid(report: Any, content: str) -> None:
    with pytest.raises(DataError, match="0 of 2 rows valid"):
        report(content)


# ---------------------------------------------------------------- which kind


def test_the_kind_can_be_stated(report: Any) -> None:
    for kind in ("fixation", "fixations"):
        assert report(FIXATIONS, kind=kind).info["report"] == "fixation"
    with pytest.raises(UnknownNameError, match="did you mean 'fixation'"):
        report(FIXATIONS, kind="fixatoin")
    with pytest.raises(DataError, match="no saccade report"):
        report(FIXATIONS, kind="saccade")
    both = table(
        "TRIAL_INDEX CURRENT_FIX_X CURRENT_FIX_Y CURRENT_SAC_START_X CURRENT_SAC_AMPLITUDE",
        "1 1 2 3 4",
    )
    with pytest.raises(DataError, match="cannot be told"):
        report(both)
    assert report(both, kind="saccade").saccades["x_start"].tolist() == [3]


def test_other_tables_are_refused(report: Any) -> None:
    with pytest.raises(DataError, match="cannot be told"):
        report("a\tb\n1\t2\n")
    for content in (b"", b"\n", b"RECORDING_SESSION_LABEL\tCURRENT_FIX_X\tCURRENT_FIX_Y\n"):
        with pytest.raises(DataError):
            report(content)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (FIXATIONS.encode(), True),
        (b"\xef\xbb\xbf" + FIXATIONS.encode(), True),
        (FIXATIONS.encode("utf-16"), True),
        (FIXATIONS.replace("\t", ",").encode(), True),
        (b'"TRIAL_INDEX"\t"IA_ID"\t"IA_LABEL"\r\n', True),
        (b"onset,duration,x,y\n", False),
        (b"TIMESTAMP\tRIGHT_GAZE_X\tRIGHT_GAZE_Y\n", True),
        (b"** CONVERTED FROM x.edf\nMSG\t1\tCURRENT_FIX_X CURRENT_FIX_Y\n", False),
        (b"PAR1CURRENT_FIX_X,CURRENT_FIX_Y", False),
        (b"\x00\x01CURRENT_FIX_X\tCURRENT_FIX_Y", False),
        (b"", False),
        (b"\xff\xfe", False),
        (b'"' + b"x" * 200_000, False),
    ],
)
def test_what_is_recognised(head: bytes, expected: bool) -> None:
    assert recognises(head, "x.txt") is expected


def test_a_report_is_identified(path_of: Any) -> None:
    assert identify(path_of(FIXATIONS)) == "data_viewer"
    assert identify(path_of(gzip.compress(FIXATIONS.encode()), "r.txt.gz")) == "data_viewer"
    assert read(path_of(FIXATIONS)).reader == "data_viewer"


# ---------------------------------------------------------------- areas, onsets, eyes


@pytest.mark.parametrize(
    ("cell", "area"),
    [
        ("[ 7]", "7"),
        ("[ 7, 8]", "7"),
        ("[7,8]", "7"),
        ("[ 12, 3, 4]", "12"),
        ("[ ]", None),
        ("[]", None),
        (".", None),
        ("7", "7"),
        ("[ IA one, b]", "IA one"),
    ],
)
def test_the_first_area_of_a_list(report: Any, cell: str, area: str | None) -> None:
    content = f"TRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_INTEREST_AREAS\n1\t2\t{cell}\n1\t3\t[ 1]\n"
    f = report(content).fixations
    assert (None if pd.isna(f["area"][0]) else f["area"][0]) == area
    assert f["area"][1] == "1"


@pytest.mark.parametrize(
    ("label", "onset"),
    [
        ("Fixation: 398 ms", 398),
        ("Fixation: 0 ms", 0),
        ("Fixation: -4 ms", -4),
        ("Fixation: 12.5 ms", 12.5),
        ("Fixation: 12,5 ms", 12.5),
        ("Fixation", np.nan),
        (".", np.nan),
    ],
)
def test_onset_inside_the_label(report: Any, label: str, onset: float) -> None:
    content = f"TRIAL_INDEX\tCURRENT_FIX_LABEL\tCURRENT_FIX_DURATION\n1\t{label}\t200\n"
    np.testing.assert_array_equal(report(content).fixations["onset"], [onset])


def test_a_report_without_onsets_has_them_missing(report: Any) -> None:
    recording = report(table("TRIAL_INDEX CURRENT_FIX_X CURRENT_FIX_DURATION", "1 5 200"))
    assert recording.fixations["onset"].isna().tolist() == [True]
    assert "1 rows undefined: no onset" in reasons(recording)


@pytest.mark.parametrize(
    ("cell", "eye"),
    [("RIGHT", "right"), ("Left", "left"), ("BOTH", "both"), ("Binocular", "both"), (".", None)],
)
@pytest.mark.parametrize("column", ["EYE_USED", "EYE_TRACKED"])
def test_eyes(report: Any, cell: str, eye: str | None, column: str) -> None:
    f = report(table(f"TRIAL_INDEX CURRENT_FIX_X CURRENT_FIX_Y {column}", f"1 2 3 {cell}"))
    found = f.fixations["eye"][0]
    assert (None if pd.isna(found) else found) == eye


def test_an_eye_that_is_none_is_counted(report: Any) -> None:
    recording = report(table("TRIAL_INDEX CURRENT_FIX_X CURRENT_FIX_Y EYE_USED", "1 2 3 middle"))
    assert recording.fixations["eye"].isna().all()
    assert "no eye that we know (first: middle)" in reasons(recording)


# ---------------------------------------------------------------- column map, own variables


def test_column_map(report: Any) -> None:
    content = table("subj item CURRENT_FIX_X CURRENT_FIX_Y CURRENT_FIX_PUPIL", "P1 A 1 2 3")
    columns = {"participant": "subj", "trial": "item", "pupil": None}
    f = report(content, columns=columns).fixations
    assert f["participant"].tolist() == ["P1"] and f["trial"].tolist() == ["A"]
    assert "pupil" not in f and f["CURRENT_FIX_PUPIL"].tolist() == [3]
    with pytest.raises(DataError, match="Did you mean 'subj'"):
        report(content, columns={"participant": "sub"})
    with pytest.raises(UnknownNameError, match="participant"):
        report(content, columns={"particpant": "subj"})
    with pytest.raises(DataError, match="taken for two"):
        report(content, columns={"onset": "CURRENT_FIX_X"})


def test_variables_of_the_experiment_with_our_names(report: Any) -> None:
    header = "TRIAL_INDEX CURRENT_FIX_X CURRENT_FIX_Y block trial text x"
    recording = report(table(header, "1 2 3 practice 7 word 9"))
    f = recording.fixations
    assert f["trial"].tolist() == ["1"] and f["trial_original"].tolist() == ["7"]
    assert f["block_original"].tolist() == ["practice"] and f["x"].tolist() == [2]
    assert f["x_original"].tolist() == ["9"] and "block" not in f
    assert "called block_original" in reasons(recording)


def test_parquet_gives_the_same_as_text(report: Any, tmp_path: Path) -> None:
    lines = [line.split("\t") for line in FIXATIONS.rstrip("\n").split("\n")]
    frame = pd.DataFrame(lines[1:], columns=lines[0])
    frame.to_parquet(tmp_path / "text.parquet")
    as_text = read_data_viewer(tmp_path / "text.parquet").check()
    pd.testing.assert_frame_equal(as_text.fixations, report(FIXATIONS).fixations)
    frame["CURRENT_FIX_X"] = pd.to_numeric(frame["CURRENT_FIX_X"], errors="coerce")
    frame["TRIAL_INDEX"] = frame["TRIAL_INDEX"].astype(float)
    frame["CURRENT_FIX_INTEREST_AREA_ID"] = [7.0, 7.0, np.nan, 9.0]
    frame["EYE_USED"] = frame["EYE_USED"].astype("category")
    frame.to_parquet(tmp_path / "typed.parquet")
    typed = read_data_viewer(tmp_path / "typed.parquet").check()
    for name in ("trial", "x", "area", "eye", "onset"):
        pd.testing.assert_series_equal(typed.fixations[name], as_text.fixations[name])
    path = tmp_path / "bad.parquet"
    path.write_bytes((tmp_path / "text.parquet").read_bytes()[:-30])
    with pytest.raises(DataError, match="Parquet file is damaged"):
        read_data_viewer(path)


# ---------------------------------------------------------------- trials, several files


TRIALS = "RECORDING_SESSION_LABEL TRIAL_INDEX CURRENT_FIX_INDEX CURRENT_FIX_X CURRENT_FIX_Y"


def test_rows_of_a_trial_that_stand_apart_are_noted(report: Any) -> None:
    recording = report(table(TRIALS, "P1 1 1 1 1", "P1 2 1 1 1", "P1 1 2 1 1", "P2 1 1 1 1"))
    assert "1 times note: rows of a trial stand apart" in reasons(recording)
    assert recording.trials.values.tolist() == [["P1", "1"], ["P1", "2"], ["P2", "1"]]
    assert "block" not in recording.fixations
    assert "apart" not in reasons(report(FIXATIONS))


@pytest.mark.parametrize(
    ("rows", "blocks"),
    [
        (["P1 1 1 10 1", "P1 1 2 20 1", "P1 1 1 30 1", "P1 1 2 40 1"], [0, 0, 1, 1]),  # at once
        (["P1 1 1 10 1", "P1 2 1 20 1", "P1 1 1 30 1", "P1 2 1 40 1"], [0, 0, 1, 1]),  # two files
        (["P1 1 1 10 1", "P1 1 1 20 1", "P1 1 1 30 1", "P2 1 1 40 1"], [0, 1, 2, 0]),
    ],
)
def test_a_trial_recorded_twice_stays_apart(
    report: Any, rows: list[str], blocks: list[int]
) -> None:
    recording = report(table(TRIALS, *rows))
    f = recording.fixations
    assert f["block"].tolist() == blocks and f["x"].tolist() == [10, 20, 30, 40]
    assert "called the next block (first: 1" in reasons(recording)
    trials = recording.trials
    assert not trials.duplicated(["participant", "trial", "block"]).any()
    assert len(f.merge(trials, on=["participant", "trial", "block"])) == 4  # no row multiplies


def test_without_participants_nobody_knows_whether_a_trial_comes_again(report: Any) -> None:
    recording = report(table("TRIAL_INDEX CURRENT_FIX_INDEX CURRENT_FIX_X", "1 1 5", "1 1 6"))
    assert "block" not in recording.fixations and recording.trials is None
    assert "2 rows undefined: no participant" in reasons(recording)


def test_areas_of_a_trial_recorded_twice(report: Any) -> None:
    header = "RECORDING_SESSION_LABEL TRIAL_INDEX EYE_USED IA_ID IA_LABEL"
    a = report(table(header, "P1 1 LEFT 1 a", "P1 1 RIGHT 1 a", "P1 1 LEFT 1 a")).areas
    assert a["block"].tolist() == [0, 0, 1]


def test_two_eyes_after_each_other_are_one_trial(report: Any) -> None:
    header = "RECORDING_SESSION_LABEL TRIAL_INDEX EYE_USED CURRENT_FIX_X CURRENT_FIX_Y"
    rows = ["P1 1 LEFT 1 1", "P1 2 LEFT 1 1", "P1 1 RIGHT 1 1", "P1 2 RIGHT 1 1"]
    recording = report(table(header, *rows))
    assert "apart" not in reasons(recording) and len(recording.trials) == 2


def test_trial_numbers_that_repeat_over_files(path_of: Any) -> None:
    header = "RECORDING_SESSION_LABEL TRIAL_INDEX CURRENT_FIX_X CURRENT_FIX_Y"
    one = path_of(table(header, "P1 1 10 1", "P1 2 20 1"), "P1.txt")
    two = path_of(table(header, "P1 1 30 1", "P1 5 40 1"), "P1_2.txt")
    other = path_of(table(header, "P2 1 50 1"), "P2.txt")
    both = read_reports([one, two, other]).check()
    f = both.fixations
    assert f["session"].tolist() == ["P1", "P1", "P1_2", "P1_2", "P2"]
    assert f["trial"].tolist() == ["P1:1", "P1:2", "P1_2:1", "P1_2:5", "1"]
    assert f["trial_in_file"].tolist() == ["1", "2", "1", "5", "1"]
    assert f["x"].tolist() == [10, 20, 30, 40, 50] and f["participant"].tolist()[4] == "P2"
    assert not both.trials.duplicated(["participant", "trial"]).any() and len(both.trials) == 5
    assert "1 trials note: trial ids that one participant has in several" in reasons(both)
    apart = read_reports([one, other], sessions=["a", "b"])
    assert apart.fixations["trial"].tolist() == ["1", "2", "1"]
    assert "trial_in_file" not in apart.fixations
    with pytest.raises(DataError, match="session name"):
        read_reports([one, two], sessions=["a", "a"])
    with pytest.raises(DataError, match="session name"):
        read_reports([])
    areas = path_of(table("TRIAL_INDEX IA_ID IA_LABEL", "1 1 a"), "ia.txt")
    with pytest.raises(DataError, match="several kinds"):
        read_reports([one, areas])


# ---------------------------------------------------------------- real reports


def test_published_copco_reports(shared_data: Path) -> None:
    folder = shared_data / "copco" / "FixationReports"
    total = 0
    for path in sorted(folder.glob("*.gz")):
        recording = read(path)
        f = recording.fixations
        total += len(f)
        assert recording.info["decimal"] == "," and recording.info["report"] == "fixation"
        assert f["onset"].notna().all() and f["duration"].min() >= 101
        label, area = f["CURRENT_FIX_INTEREST_AREA_LABEL"], f["area"]
        assert (label.isna() == area.isna()).all()  # a full stop stays, a dot off text does not
        assert recording.trials["trial"].is_unique
        assert f["NEXT_SAC_AMPLITUDE"].dtype == "float64"
    assert total == 431_285


def test_the_quote_sign_of_a_published_report(shared_data: Path) -> None:
    f = read(shared_data / "copco" / "FixationReports" / "FIX_report_P43.txt.gz").fixations
    assert (f["CURRENT_FIX_INTEREST_AREA_LABEL"] == '"').sum() == 1
    row = f[(f["trial"] == "95") & (f["CURRENT_FIX_INDEX"] == 150)].iloc[0]
    assert row["CURRENT_FIX_INTEREST_AREA_LABEL"] == '"' and row["area"] == "563"
    assert row["onset"] == 35385 and row["NEXT_SAC_AMPLITUDE"] == 23.13
    several = f["CURRENT_FIX_INTEREST_AREAS"].str.contains(",")
    first = f["CURRENT_FIX_INTEREST_AREAS"].str.extract(r"(\d+)")[0]
    assert several.sum() == 486 and (first[f["area"].notna()] == f["area"].dropna()).mean() > 0.9


def test_broken_letters_of_published_reports_are_noted(shared_data: Path) -> None:
    for reader, broken in (("P09", True), ("P48", False), ("P54", False), ("P57", False)):
        name = f"FIX_report_{reader}.txt.gz"
        recording = read(shared_data / "copco" / "FixationReports" / name)
        assert ("encoded twice" in reasons(recording)) is broken


def test_the_tracked_eye_changes_in_a_published_report(shared_data: Path) -> None:
    recording = read(shared_data / "copco" / "FixationReports" / "FIX_report_P17.txt.gz")
    assert recording.info["eyes"] == ["left", "right"]


def test_published_character_areas(shared_data: Path) -> None:
    a = read(shared_data / "copco" / "InterestAreaReports" / "IA_report_P09.txt.gz").areas
    assert len(a) == 7085 and a["trial"].nunique() == 22
    assert a["IA_AREA"][:3].tolist() == [2350, 2068, 2162]
    assert a["text"][:3].tolist() == ["N", "Y", "T"]
    assert (a["text"] == ".").any() and a["text"].notna().all()


def test_published_code_reading_reports(shared_data: Path) -> None:
    paths = sorted((shared_data / "code_comprehension" / "fixation_reports").glob("*.gz"))
    whole = read_reports(paths).check()
    f = whole.fixations
    assert len(f) == 112_681 and f["participant"].nunique() == 22
    assert len(whole.trials) == 186
    assert not whole.trials.duplicated(["participant", "trial"]).any()
    off_screen = (f["x"] < 0) | (f["x"] >= 1920) | (f["y"] < 0) | (f["y"] >= 1080)
    assert off_screen.sum() == 559
    assert (f["duration"].min(), f["duration"].max()) == (4, 5774)
    assert (f["duration"] < 40).sum() == 897
    assert f["onset"].isna().all() and f["code_snippet_id"].notna().all()
    two = whole.trials[whole.trials["participant"] == "P104"]
    assert two["session"].nunique() == 2 and two["trial"].str.contains(":").all()


def test_published_word_reading_tables(shared_data: Path) -> None:
    folder = shared_data / "onestop_slice"
    columns = {"participant": "participant_id", "trial": "unique_trial_id"}
    f = read(folder / "fixations.csv.gz", columns=columns)
    assert len(f.fixations) == 2744 and len(f.trials) == 20
    gap = f.fixations["CURRENT_FIX_END"] - f.fixations["onset"] - f.fixations["duration"]
    assert set(gap) == {-1, 0} and (gap == 0).sum() == 17
    a = read(folder / "ia.csv.gz", columns=columns)
    assert len(a.areas) == 3310 and len(a.trials) == 30
    assert ((a.areas["IA_SKIP"] == 1) & (a.areas["IA_FIXATION_COUNT"] > 0)).sum() == 847
    f = read(shared_data / "sb_sat" / "fixations.csv.gz", columns={"participant": "subj"})
    assert len(f.fixations) == 242_508 and f.fixations["participant"].nunique() == 95
