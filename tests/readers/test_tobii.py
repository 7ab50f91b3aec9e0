"""Exports of Tobii Pro Lab and Studio, made by hand."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gazeattn.errors import DataError
from gazeattn.readers import identify, read
from gazeattn.recordings import Recording

from .trackers import TOBII, table, tobii, tobii_rows

TIME = TOBII[0]


def load(folder: Path, text: str | bytes, name: str = "P01.tsv", **options: Any) -> Recording:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read(path, "tobii", **options)


def renamed(old: str, new: str, factor: float = 1.0) -> str:
    rows = [
        {new if k == old else k: (v * factor if k == old else v) for k, v in r.items()}
        for r in tobii_rows()
    ]
    return table(tuple(new if c == old else c for c in TOBII), rows)


def test_samples_events_trials_by_hand(tmp_path: Path) -> None:
    r = load(tmp_path, tobii())
    assert r.samples is not None and r.fixations is not None and r.saccades is not None
    assert r.messages is not None and r.trials is not None
    assert r.samples["time"].tolist() == [10, 20, 30, 40]
    assert r.samples["x"].tolist() == [100, 102, 200, 300]
    assert r.samples["x_left"].tolist() == [101, 103, 201, 301]
    assert r.samples["pupil_left"].tolist() == [3.52] * 4
    assert r.fixations["onset"].tolist() == [10, 40]
    assert r.fixations["duration"].tolist() == [20, 10]
    assert r.fixations["x"].tolist() == [101.5, 300]
    assert r.saccades["onset"].tolist() == [30] and r.saccades["duration"].tolist() == [10]
    assert r.messages[["time", "text"]].to_numpy().tolist() == [[0.0, "RecordingStart"]]
    assert r.trials[["participant", "trial", "start", "end"]].to_numpy().tolist() == [
        ["P01", "page", 10.0, 40.0]
    ]
    assert r.info["units"]["time"] == "us" and r.info["units"]["x"] == "px (DACS)"
    assert r.info["rate"] == 100.0 and r.info["unread"] == []
    assert len(r.lost) == 0


@pytest.mark.parametrize("unit", ["ms", "\u00b5s", "\u03bcs", "us", "ns", "s"])
def test_b23_units_of_time_give_the_same_times(tmp_path: Path, unit: str) -> None:
    factor = {"ms": 1e-3, "ns": 1e3, "s": 1e-6}.get(unit, 1.0)
    r = load(tmp_path, renamed(TIME, f"Recording timestamp [{unit}]", factor))
    assert r.samples is not None
    assert r.samples["time"].to_numpy() == pytest.approx([10, 20, 30, 40], rel=1e-12)


def test_b23_unknown_or_no_unit(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="unknown time unit"):
        load(tmp_path, renamed(TIME, "Recording timestamp [ticks]"))
    text = renamed(TIME, "Recording timestamp")
    with pytest.raises(DataError, match="time_unit="):
        load(tmp_path, text)
    r = load(tmp_path, text, time_unit="us")
    assert r.samples is not None and r.samples["time"].tolist() == [10, 20, 30, 40]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_b22_encodings_and_decimal_comma(tmp_path: Path, encoding: str) -> None:
    text = tobii().replace("3.52", "3,52").replace("101.5", "101,5")
    path = tmp_path / "P.tsv"
    path.write_bytes(text.encode(encoding))
    assert identify(path) == "tobii"
    r = read(path)
    assert r.samples is not None and r.samples["pupil_left"].tolist() == [3.52] * 4
    assert r.fixations is not None and r.fixations["x"].tolist() == [101.5, 300]
    assert any("decimal comma" in x.reason for x in r.lost)


def test_decimal_comma_beside_a_point_is_refused(tmp_path: Path) -> None:
    text = tobii().replace("3.52", "3,52", 1)
    with pytest.raises(DataError, match="decimal comma"):
        load(tmp_path, text)


def test_gzip(tmp_path: Path) -> None:
    path = tmp_path / "P01.tsv.gz"
    path.write_bytes(gzip.compress(tobii().encode()))
    assert identify(path) == "tobii" and read(path).samples is not None


@pytest.mark.parametrize(
    ("left", "right", "own", "both"),
    [
        ("Invalid", "Valid", 1, 0),
        ("Invalid", "Invalid", 1, 1),
        ("4", "4", 1, 1),
        ("2", "0", 1, 0),
        ("1", "1", 0, 0),
    ],
)
def test_invalid_samples_are_missing_and_counted(
    tmp_path: Path, left: str, right: str, own: int, both: int
) -> None:
    rows = tobii_rows()
    rows[2]["Validity left"], rows[2]["Validity right"] = left, right
    r = load(tmp_path, table(TOBII, rows))
    assert r.samples is not None
    assert r.samples[["x_left", "y_left", "pupil_left"]].isna().sum().tolist() == [own] * 3
    assert r.samples["x"].isna().sum() == both
    counts = {x.reason.partition(" eye")[0]: x.count for x in r.lost}
    assert counts.get("left", 0) == own
    assert counts.get("gaze of both", 0) == both


def test_unknown_validity_mark_raises(tmp_path: Path) -> None:
    rows = tobii_rows()
    rows[3]["Validity left"] = "Perhaps"
    with pytest.raises(DataError, match="unknown mark"):
        load(tmp_path, table(TOBII, rows))


@pytest.mark.parametrize("mark", ["Invalid", "4"])
def test_b28_only_invalid_rows(tmp_path: Path, mark: str) -> None:
    rows = [{**r, "Validity left": mark, "Validity right": mark} for r in tobii_rows()]
    with pytest.raises(DataError, match=r"0 of 4 rows valid.*left eye flagged invalid.*: 4"):
        load(tmp_path, table(TOBII, rows))


def test_b28_no_row_of_the_eye_tracker(tmp_path: Path) -> None:
    rows = [{**r, "Sensor": "Mouse"} for r in tobii_rows()]
    with pytest.raises(DataError, match="0 of 5 rows valid"):
        load(tmp_path, table(TOBII, rows))


def test_rows_of_other_sensors_are_counted(tmp_path: Path) -> None:
    rows = tobii_rows()
    rows[2:2] = [{TIME: 10500, "Sensor": "Gyroscope"}] * 3
    r = load(tmp_path, table(TOBII, rows))
    assert r.samples is not None and len(r.samples) == 4
    assert r.fixations is not None and len(r.fixations) == 2  # not torn by the other rows
    assert r.lost.count("samples", "dropped") == 3


def test_b25_and_b26_clocks(tmp_path: Path) -> None:
    rows = tobii_rows()
    rows[2], rows[3] = rows[3], rows[2]
    r = load(tmp_path, table(TOBII, rows))
    assert r.samples is not None and r.samples["x"].tolist() == [100, 102, 200, 300]
    assert r.lost.count("samples", "repaired") == 2
    with pytest.raises(DataError, match="steps back"):
        load(tmp_path, table(TOBII, rows), strict=True)
    later = [{**r, TIME: r[TIME] + 5_000_000} for r in tobii_rows()]
    r = load(tmp_path, table(TOBII, [*later, *tobii_rows()]))
    assert r.samples is not None and r.samples["block"].tolist() == [0] * 4 + [1] * 4
    assert r.samples["time"].tolist() == [5010, 5020, 5030, 5040, 10, 20, 30, 40]
    assert r.trials is not None and r.trials["trial"].tolist() == ["page", "page (2)"]


def test_two_participants_in_one_file(tmp_path: Path) -> None:
    second = [{**r, "Participant name": "P02", "Recording name": "R2"} for r in tobii_rows()]
    r = load(tmp_path, table(TOBII, [*tobii_rows(), *second]))
    assert r.samples is not None and r.trials is not None and r.fixations is not None
    assert r.samples["block"].tolist() == [0] * 4 + [1] * 4
    assert r.trials["trial"].tolist() == ["P01/page", "P02/page"]
    assert r.fixations["participant"].tolist() == ["P01"] * 2 + ["P02"] * 2
    assert r.messages is not None and r.messages["block"].tolist() == [0, 1]


def test_studio_names(tmp_path: Path) -> None:
    columns = (
        "ParticipantName", "MediaName", "RecordingTimestamp", "StudioEvent", "StudioEventData",
        "FixationIndex", "SaccadeIndex", "GazeEventType", "GazeEventDuration",
        "FixationPointX (MCSpx)", "FixationPointY (MCSpx)", "SaccadicAmplitude",
        "GazePointX (ADCSpx)", "GazePointY (ADCSpx)", "GazePointLeftX (ADCSpx)",
        "GazePointLeftY (ADCSpx)", "PupilLeft", "ValidityLeft", "ValidityRight",
        "RecordingResolution",
    )  # fmt: skip
    lines = [
        "P01\tpage\t0\tMediaStart\tpage.png" + "\t" * 14 + "\t1280 x 1024",
        "P01\tpage\t3\t\t\t1\t\tFixation\t7\t640\t512\t\t641\t513\t640\t512\t3\t0\t0\t1280 x 1024",
        "P01\tpage\t6\t\t\t1\t\tFixation\t7\t640\t512\t\t641\t513\t640\t512\t3\t4\t4\t1280 x 1024",
        "P01\tpage\t10\t\t\t\t1\tSaccade\t3\t\t\t2.5\t1280\t513\t640\t512\t3.1\t0\t0\t1280 x 1024",
    ]
    path = tmp_path / "studio.tsv"
    path.write_text("\t".join(columns) + "\n" + "\n".join(lines) + "\n", encoding="utf-8")
    assert identify(path) == "tobii"
    r = read(path)
    assert r.samples is not None and r.fixations is not None and r.saccades is not None
    assert r.samples["time"].tolist() == [3, 6, 10]
    assert r.samples["x"].isna().tolist() == [False, True, False]
    assert r.info["screen"] == (1280, 1024) and r.info["units"]["time"] == "ms"
    own = "FixationPointX (MCSpx)"  # samples are on the screen (ADCS), fixations on the media
    assert r.fixations[["onset", "duration", own]].to_numpy().tolist() == [[3, 7, 640]]
    assert not {"x", "y"} & set(r.fixations)
    assert r.saccades[["onset", "duration", "amplitude"]].to_numpy().tolist() == [[10, 3, 2.5]]
    assert r.messages is not None and r.messages["text"].tolist() == ["MediaStart page.png"]
    assert any("off the screen" in x.reason and x.count == 1 for x in r.lost)  # x = 1280


FRAMES = {  # columns of the file, value of x in the first row
    "gaze ADCS": ("GazePointX (ADCSpx)", "GazePointY (ADCSpx)", 601),
    "gaze MCS": ("GazePointX (MCSpx)", "GazePointY (MCSpx)", 301),
    "gaze DACS": ("Gaze point X [DACS px]", "Gaze point Y [DACS px]", 602),
    "gaze bare": ("Gaze point X", "Gaze point Y", 603),
    "gaze norm": ("Gaze point X [MCS norm]", "Gaze point Y [MCS norm]", 0.5),
    "left ADCS": ("GazePointLeftX (ADCSpx)", "GazePointLeftY (ADCSpx)", 604),
    "fix ADCS": ("FixationPointX (ADCSpx)", "FixationPointY (ADCSpx)", 701),
    "fix MCS": ("FixationPointX (MCSpx)", "FixationPointY (MCSpx)", 401),
    "fix DACS": ("Fixation point X [DACS px]", "Fixation point Y [DACS px]", 702),
    "fix bare": ("Fixation point X", "Fixation point Y", 703),
    "fix norm": ("Fixation point X [MCS norm]", "Fixation point Y [MCS norm]", 0.25),
}


@pytest.mark.parametrize(
    ("there", "frame", "x", "fixation_x"),
    [
        (["gaze ADCS", "fix MCS"], None, 601, None),
        (["gaze ADCS", "fix ADCS"], None, 601, 701),
        (["gaze ADCS", "fix MCS", "fix ADCS"], None, 601, 701),
        (["gaze ADCS", "gaze MCS", "fix MCS"], None, 301, 401),
        (["gaze ADCS", "gaze MCS", "fix MCS"], "ADCS", 601, None),
        (["gaze MCS", "fix MCS", "gaze ADCS", "fix ADCS"], None, 601, 701),
        (["gaze MCS", "fix MCS", "gaze ADCS", "fix ADCS"], "mcs", 301, 401),
        (["gaze MCS", "fix ADCS"], None, 301, None),
        (["gaze DACS", "fix bare"], None, 602, 702 + 1),
        (["gaze bare", "fix DACS"], None, 603, 702),
        (["gaze DACS", "gaze norm", "fix norm"], None, 602, None),
        (["gaze DACS", "fix DACS", "fix norm"], None, 602, 702),
        (["left ADCS", "fix MCS"], None, None, None),
    ],
)
def test_samples_and_fixations_are_in_one_frame(
    tmp_path: Path, there: list[str], frame: str | None, x: float | None, fixation_x: float | None
) -> None:
    fields = [FRAMES[k] for k in there]
    columns = ("RecordingTimestamp", "GazeEventType", *(c for f in fields for c in f[:2]))
    rows = [
        {"RecordingTimestamp": n * 10, "GazeEventType": "Fixation"}
        | {c: f[2] for f in fields for c in f[:2]}
        for n in range(3)
    ]
    r = load(tmp_path, table(columns, rows), frame=frame)
    assert r.samples is not None and r.fixations is not None
    for part, value, kind in ((r.samples, x, "gaze"), (r.fixations, fixation_x, "fix")):
        found = part["x"].tolist() if "x" in part else None
        assert found == (None if value is None else [value] * len(part))
        if value is None and any(k.startswith(kind) for k in there):
            own = [c for c in part if c in [FRAMES[k][0] for k in there if k.startswith(kind)]]
            assert len(own) == 1 and "y" not in part
            assert any("kept under their names" in loss.reason for loss in r.lost)
    if "left ADCS" in there:
        assert r.samples["x_left"].tolist() == [604] * 3


def test_one_eye_in_another_frame_keeps_its_name_and_its_flags(tmp_path: Path) -> None:
    columns = (
        "RecordingTimestamp", "GazeEventType", "GazePointX (MCSpx)", "GazePointY (MCSpx)",
        "GazePointLeftX (ADCSpx)", "GazePointLeftY (ADCSpx)", "FixationPointX (MCSpx)",
        "FixationPointY (MCSpx)", "ValidityLeft", "ValidityRight",
    )  # fmt: skip
    values = ("Fixation", 300, 301, 600, 601, 305, 306, 0, 0)
    rows = [dict(zip(columns, (n * 10, *values), strict=True)) for n in range(3)]
    rows[1]["ValidityLeft"] = 4
    r = load(tmp_path, table(columns, rows))
    assert r.samples is not None and r.fixations is not None
    assert r.samples["x"].tolist() == [300] * 3 and "x_left" not in r.samples
    assert r.samples["GazePointLeftX (ADCSpx)"].isna().tolist() == [False, True, False]
    assert r.fixations["x"].tolist() == [305]
    assert any("another frame (MCS)" in loss.reason for loss in r.lost)
    with pytest.raises(DataError, match="unknown frame"):
        load(tmp_path, table(columns, rows), frame="screen")
    with pytest.raises(DataError, match="no position in this frame"):
        load(tmp_path, tobii(), frame="MCS")


def test_normalised_and_millimetres_need_a_screen(tmp_path: Path) -> None:
    text = table(
        (TIME, "Gaze point X [DACS norm]", "Gaze point Y [DACS norm]"),
        [
            {TIME: n * 10000, "Gaze point X [DACS norm]": x, "Gaze point Y [DACS norm]": 0.25}
            for n, x in enumerate((0.5, 1.0))
        ],
    )
    r = load(tmp_path, text)
    assert r.samples is not None and "x" not in r.samples
    assert r.samples["Gaze point X [DACS norm]"].tolist() == [0.5, 1.0]
    assert any("screen=" in x.reason for x in r.lost)
    r = load(tmp_path, text, screen=(1920, 1080))
    assert r.samples is not None and r.samples["x"].tolist() == [960, 1920]
    assert r.samples["y"].tolist() == [270, 270]
    assert any("off the screen" in x.reason and x.count == 1 for x in r.lost)
    r = load(tmp_path, text.replace("norm]", "mm]"), screen=(1920, 1080))
    assert r.samples is not None and "x" not in r.samples


def test_b43_degrees_as_pixels_are_doubted(tmp_path: Path) -> None:
    rows = [
        {**r, "Gaze point X [DACS px]": n - 5, "Gaze point Y [DACS px]": -n}
        for n, r in enumerate(tobii_rows())
    ]
    r = load(tmp_path, table(TOBII, rows), screen=(1920, 1080))
    assert any("degrees" in x.reason for x in r.lost)


def test_events_without_durations_end_with_their_last_sample(tmp_path: Path) -> None:
    rows = [{**r, "Gaze event duration [ms]": ""} for r in tobii_rows()]
    r = load(tmp_path, table(TOBII, rows))
    assert r.fixations is not None and r.fixations["duration"].tolist() == [20, 10]
    assert r.lost.count("fixations", "note") == 3


def test_number_columns_refuse_text(tmp_path: Path) -> None:
    rows = tobii_rows()
    rows[2]["Gaze point X [DACS px]"] = "wide"
    with pytest.raises(DataError, match="must hold numbers"):
        load(tmp_path, table(TOBII, rows))


def test_missing_cells_are_missing(tmp_path: Path) -> None:
    rows = tobii_rows()
    rows[2]["Gaze point X [DACS px]"] = ""
    rows[3]["Pupil diameter left [mm]"] = "-"
    r = load(tmp_path, table(TOBII, rows))
    assert r.samples is not None
    assert np.isnan(r.samples["x"][1]) and np.isnan(r.samples["pupil_left"][2])
