"""BIDS eye tracking: the layout of others, and our own out and in again."""

from __future__ import annotations

import gzip
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError
from gazeattn.readers import identify, read
from gazeattn.readers.bids import read_bids, write_bids
from gazeattn.recordings import Recording

from . import test_contract as contract
from .test_eyelink_asc import valid_file
from .test_units import mutate
from .trackers import EXAMPLES, write

STEM = "sub-01_task-search_recording-eye1"
PHYSIO = {
    "Columns": ["timestamp", "x_coordinate", "y_coordinate", "pupil_size"],
    "PhysioType": "eyetrack",
    "RecordedEye": "right",
    "SampleCoordinateSystem": "gaze-on-screen",
    "SamplingFrequency": 1000,
    "timestamp": {"Units": "ms", "Origin": "System startup"},
    "x_coordinate": {"Units": "pixel"},
    "y_coordinate": {"Units": "pixel"},
    "pupil_size": {"Units": "arbitrary"},
}
ROWS = "7186799\t416.29\t267.39\t4612.0\n7186800\tn/a\tn/a\tn/a\n7186801\t1024.00\t269.0\t4623.0\n"
EVENTS = {
    "Columns": ["onset", "duration", "trial_type", "blink", "message"],
    "OnsetSource": "timestamp",
}
EVENT_ROWS = (
    '7184392\tn/a\tn/a\tn/a\t"RECCFG CR 1000 2 0 R"\n'
    "7186799\t72\tfixation\t0\tn/a\n"
    "7186879\t231\tsaccade\t1\tn/a\n"
)
SCREEN = {
    "StimulusPresentation": {
        "ScreenDistance": 0.6,
        "ScreenOrigin": ["top", "left"],
        "ScreenResolution": [1024, 768],
        "ScreenSize": [0.386, 0.29],
    }
}


def make(
    folder: Path,
    rows: str = ROWS,
    events: str | None = EVENT_ROWS,
    shown: dict[str, Any] | None = None,
    event_meta: dict[str, Any] | None = None,
    stem: str = STEM,
    **changed: Any,
) -> Path:
    """Write a recording in the layout of the specification's example; None takes a key out."""
    folder.mkdir(parents=True, exist_ok=True)
    meta = {k: v for k, v in {**PHYSIO, **changed}.items() if v is not None}
    path = folder / f"{stem}_physio.tsv.gz"
    path.write_bytes(gzip.compress(rows.encode()))
    (folder / f"{stem}_physio.json").write_text(json.dumps(meta))
    if events is not None:
        (folder / f"{stem}_physioevents.tsv.gz").write_bytes(gzip.compress(events.encode()))
        (folder / f"{stem}_physioevents.json").write_text(
            json.dumps({**EVENTS, **(event_meta or {})})
        )
    (folder / "sub-01_task-search_events.json").write_text(json.dumps(shown or SCREEN))
    return path


ASC_FILE = (
    "** CONVERTED FROM x.edf\nMSG\t80 DISPLAY_COORDS 0 0 1023 767\nMSG\t90 TRIALID 007\n"
    "START\t100 \tLEFT\tRIGHT\tSAMPLES\tEVENTS\n"
    "SAMPLES\tGAZE\tLEFT\tRIGHT\tRATE\t1000.00\tTRACKING\tCR\tFILTER\t2\n"
    "SFIX L 100\n"
    "100\t512.0\t384.0\t700.0\t515.0\t383.0\t701.0\t...\n"
    "101\t   .\t   .\t  0.0\t515.0\t383.0\t701.0\tC....\n"
    "102\t512.0\t384.0\t700.0\t515.0\t383.0\t701.0\t...\n"
    "EFIX L 100 102 3 512.0 384.0 700\n"
    "SBLINK R 103\n103\t512.0\t384.0\t700.0\t.\t.\t0.0\t...\nEBLINK R 103 103 1\n"
    "MSG\t103 !CAL over\n  several lines\nMSG\t103 !V TRIAL_VAR item 007\n"
    "MSG\t104 TRIAL_RESULT 0\nEND\t104 \tSAMPLES\tEVENTS\tRES\t38.00\t31.00\n"
)

# ---------------------------------------------------------------- files of others


def test_the_example_of_the_specification(tmp_path: Path) -> None:
    path = make(tmp_path)
    assert identify(path) == "bids"
    r = read(path)
    s, f, c, m = r.samples, r.fixations, r.saccades, r.messages
    assert s is not None and f is not None and c is not None and m is not None
    assert s["time"].tolist() == [7186799, 7186800, 7186801]
    assert s["x_right"].isna().tolist() == [False, True, False] and s["x_right"][0] == 416.29
    assert s["pupil_right"][2] == 4623 and s["participant"].tolist() == ["01"] * 3
    assert f[["eye", "onset", "duration"]].to_numpy().tolist() == [["right", 7186799, 72]]
    assert c[["onset", "duration", "blink"]].to_numpy().tolist() == [[7186879, 231, 1]]
    assert m["text"].tolist() == ["RECCFG CR 1000 2 0 R"] and m["time"].tolist() == [7184392]
    assert r.info["screen"] == (1024, 768) and r.info["rate"] == 1000
    assert r.info["units"]["pupil_right"] == "arbitrary" and r.info["eyes"] == ["right"]
    assert any("off the screen" in x.reason and x.count == 1 for x in r.lost)  # x = 1024


def test_onsets_that_are_rows(tmp_path: Path) -> None:
    meta = {"OnsetSource": "n/a"}
    r = read(
        make(tmp_path, events="-3\tn/a\tn/a\tn/a\tReady\n2\t5\tfixation\t0\tn/a\n", event_meta=meta)
    )
    assert r.messages is not None and r.messages["time"].tolist() == [7186796]
    assert r.fixations is not None and r.fixations["onset"].tolist() == [7186801]
    assert r.fixations["duration"].isna().all()  # no unit: not invented
    assert any("unit" in x.reason and x.kind == "undefined" for x in r.lost)
    meta["duration"] = {"Units": "s"}  # type: ignore[assignment]
    r = read(make(tmp_path, events="2\t0.2\tfixation\t0\tn/a\n", event_meta=meta))
    assert r.fixations is not None and r.fixations["duration"].tolist() == [200]


@pytest.mark.parametrize(
    ("unit", "factor"), [("s", 1e-3), ("us", 1e3), ("\u00b5s", 1e3), ("ms", 1)]
)
def test_b23_time_units(tmp_path: Path, unit: str, factor: float) -> None:
    rows = "".join(f"{t * factor}\t1\t2\t3\n" for t in (1000, 1002, 1004))
    r = read(make(tmp_path, rows, None, timestamp={"Units": unit}))
    assert r.samples is not None
    assert r.samples["time"].to_numpy() == pytest.approx([1000, 1002, 1004])


def test_b23_unknown_units(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="unknown time unit"):
        read(make(tmp_path, timestamp={"Units": "ticks"}))
    with pytest.raises(DataError, match="time_unit="):
        read(make(tmp_path, timestamp=None))
    assert read(make(tmp_path, timestamp=None), time_unit="ms").samples is not None
    with pytest.raises(DataError, match="Units of x_coordinate"):
        read(make(tmp_path, x_coordinate=None))


def test_no_timestamps_but_a_rate(tmp_path: Path) -> None:
    path = make(
        tmp_path, "1\t2\n3\t4\n", None, Columns=["x_coordinate", "y_coordinate"],
        SamplingFrequency=500, StartTime=-1.0,
    )  # fmt: skip
    s = read(path).samples
    assert s is not None and s["time"].tolist() == [-1000, -998]


@pytest.mark.parametrize(
    ("origin", "x", "y"),
    [
        (["top", "left"], 100, 50),
        (["bottom", "left"], 100, 718),
        (["bottom", "right"], 924, 718),
        (["center", "center"], 612, 434),
    ],
)
def test_origins_of_the_screen(tmp_path: Path, origin: list[str], x: float, y: float) -> None:
    shown = {"StimulusPresentation": {"ScreenOrigin": origin, "ScreenResolution": [1024, 768]}}
    s = read(make(tmp_path, "1\t100\t50\t3\n", None, shown)).samples
    assert s is not None and s[["x_right", "y_right"]].to_numpy().tolist() == [[x, y]]
    if origin != ["top", "left"]:
        with pytest.raises(DataError, match="size of the screen"):
            read(make(tmp_path, shown={"StimulusPresentation": {"ScreenOrigin": origin}}))


def test_other_units_of_position_are_kept_apart(tmp_path: Path) -> None:
    for unit in ("deg", "mm"):
        meta: dict[str, Any] = {"x_coordinate": {"Units": unit}, "y_coordinate": {"Units": unit}}
        s = read(make(tmp_path, **meta)).samples
        assert s is not None and "x_right" not in s and s["x_coordinate_right"][0] == 416.29
    meta = {"x_coordinate": {"Units": "1"}, "y_coordinate": {"Units": "1"}}
    s = read(make(tmp_path, "1\t0.5\t0.25\t3\n", None, **meta)).samples
    assert s is not None and s[["x_right", "y_right"]].to_numpy().tolist() == [[512, 192]]


def test_two_eyes_by_time(tmp_path: Path) -> None:
    path = make(tmp_path)
    other = STEM.replace("eye1", "eye2")
    make(tmp_path, "7186800\t1\t2\t3\n7186802\t4\t5\t6\n", None, stem=other, RecordedEye="left")
    r = read(path)
    s = r.samples
    assert s is not None and s["time"].tolist() == [7186799, 7186800, 7186801, 7186802]
    assert s["x_left"].isna().tolist() == [True, False, True, False]
    assert s["x_right"].isna().tolist() == [False, True, False, True]
    assert any("one eye only" in x.reason and x.count == 3 for x in r.lost)
    make(tmp_path, "7186800\t1\t2\t3\n", None, stem=other)  # the same eye twice
    with pytest.raises(DataError, match="the same eye"):
        read(path)


def test_sidecars_are_inherited(tmp_path: Path) -> None:
    (tmp_path / "dataset_description.json").write_text("{}")
    path = make(tmp_path / "sub-01" / "beh", RecordedEye=None, SamplingFrequency=250)
    general = {"RecordedEye": "left", "SamplingFrequency": 60}
    (tmp_path / "task-search_physio.json").write_text(json.dumps(general))
    (tmp_path / "task-other_physio.json").write_text("{broken")  # of another task
    r = read(path)
    assert r.info["eyes"] == ["left"] and r.info["rate"] == 250  # the nearest one wins


def test_trials_and_other_events(tmp_path: Path) -> None:
    path = make(tmp_path, events=None, StartTime=0)
    (tmp_path / "sub-01_task-search_events.tsv").write_text(
        "onset\tduration\ttrial_type\ttrial\n0.0\t0.002\tpage\tt1\n0.001\tn/a\tkey\tn/a\n"
    )
    r = read(path)
    assert r.trials is not None and r.messages is not None
    assert r.trials[["trial", "start", "end"]].to_numpy().tolist() == [["t1", 7186799, 7186801]]
    assert r.messages[["time", "text"]].to_numpy().tolist() == [[7186800, "key"]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"Columns": None}, "name the columns"),
        ({"Columns": ["timestamp", 3]}, "name the columns"),
        ({"Columns": ["timestamp", "x_coordinate"]}, "another number of cells"),
        ({"Columns": ["timestamp"] * 4}, "more than once"),
        ({"RecordedEye": None}, "RecordedEye"),
        ({"RecordedEye": "third"}, "RecordedEye"),
        ({"rows": "1\tabc\t2\t3\n"}, "must hold numbers"),
        ({"rows": "1\tn/a\tn/a\tn/a\n2\tn/a\tn/a\tn/a\n"}, "0 of 2 rows valid"),
    ],
)
def test_damaged_recordings(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(make(tmp_path, **changed))


def test_a_sidecar_is_needed_and_must_be_json(tmp_path: Path) -> None:
    path = make(tmp_path)
    side = tmp_path / f"{STEM}_physio.json"
    side.write_text("{")
    with pytest.raises(DataError, match="not readable JSON"):
        read(path)
    side.unlink()
    with pytest.raises(DataError, match="no sidecar"):
        read(path)


def test_b25_b26_clocks(tmp_path: Path) -> None:
    rows = "".join(f"{t}\t{n + 1}\t2\t3\n" for n, t in enumerate((0, 10, 8, 10)))
    r = read(make(tmp_path, rows, None))
    assert r.samples is not None and r.samples["x_right"].tolist() == [1, 3, 2, 4]
    assert r.lost.count("samples", "repaired") == 2
    with pytest.raises(DataError, match="steps back"):
        read(make(tmp_path, rows, None), strict=True)
    rows = "".join(f"{t}\t{n + 1}\t2\t3\n" for n, t in enumerate((900, 901, 3, 4)))
    s = read(make(tmp_path, rows, None)).samples
    assert s is not None and s["block"].tolist() == [0, 0, 1, 1]


# ---------------------------------------------------------------- out and in again


def text(values: list[Any]) -> pd.Series:
    return pd.Series(values, dtype="str")


def recording(**changed: Any) -> Recording:
    who = text(["P01"] * 4)
    tables: dict[str, Any] = {
        "samples": pd.DataFrame(
            {
                "participant": who,
                "trial": text(["007", "007", None, "NA"]),
                "block": [0, 0, 0, 1],
                "time": [0.1, 0.2, 0.1 + 0.2, 0.1],
                "x_left": [1 / 3, np.nan, 3.0, -4.0],
                "y_left": [1.0, np.nan, 1e-17, 4.0],
                "pupil_left": [3.0, 3.1, np.nan, 3.3],
                "x_right": [1.0, 2.0, 3.0, 4.0],
                "y_right": [1.0, 2.0, 3.0, 4.0],
                "x": [np.nan, 5.0, 6.0, 7.0],
                "y": [1.0, 5.0, 6.0, 7.0],
                "port": pd.Series([1, None, 3, 4], dtype="Int64"),
                "note": text(['a "b"', "x\ty", "", "two\nlines"]),
                "seen": [True, False, True, True],
            }
        ),
        "fixations": pd.DataFrame(
            {
                "participant": text(["P01"] * 3),
                "trial": text(["007", None, "NA"]),
                "eye": text(["left", "right", "both"]),
                "onset": [0.2, 0.1, 0.1],
                "duration": [100.5, np.nan, 70.0],
                "x": [1 / 7, 2.0, np.nan],
                "area": text(["12", None, "null"]),
            }
        ),
        "saccades": pd.DataFrame(
            {"eye": text(["left"]), "onset": [0.15], "duration": [4.0], "amplitude": [1.25]}
        ),
        "blinks": pd.DataFrame({"eye": text([]), "onset": pd.Series([], dtype="float64"),
                                "duration": pd.Series([], dtype="float64")}),
        "messages": pd.DataFrame(
            {
                "participant": text(["P01"] * 2),
                "block": pd.Series([0, None], dtype="Int64"),
                "time": [0.3, 0.1],
                "text": text(['TRIALID "7"\n', "  blanks  "]),
            }
        ),
        "trials": pd.DataFrame(
            {
                "participant": text(["P01"] * 2),
                "trial": text(["007", "NA"]),
                "start": [0.1, 0.1],
                "end": [0.2, np.nan],
                "stimulus": text(["a.png", None]),
            }
        ),
    }  # fmt: skip
    tables.update(changed)
    info = {"rate": 10000.0, "screen": (1920, 1080), "eyes": ["left", "right"], "tracker": "made"}
    return Recording("made", "made", info=info, **tables)


def test_round_trip_is_exact(tmp_path: Path) -> None:
    r = recording()
    paths = write_bids(r, tmp_path, task="read", session="2", run=1)
    first = paths[0]
    assert first.name == "sub-P01_ses-2_task-read_run-1_recording-eye1_physio.tsv.gz"
    back = read_bids(first).check()
    assert set(back.tables()) == set(r.tables())
    for name, table in r.tables().items():
        pd.testing.assert_frame_equal(getattr(back, name), table)
    assert {k: back.info[k] for k in ("rate", "screen", "eyes", "tracker")} == {
        **r.info,
        "screen": (1920.0, 1080.0),
    }
    assert len(back.lost) == 0
    meta = json.loads((first.parent / first.name.replace(".tsv.gz", ".json")).read_text())
    assert meta["RecordedEye"] == "left" and meta["PhysioType"] == "eyetrack"
    assert meta["Columns"][:4] == ["timestamp", "x_coordinate", "y_coordinate", "pupil_size"]
    assert gzip.decompress(first.read_bytes()).split(b"\n")[0].startswith(b"0.1\t0.333333333333")
    assert len(list(first.parent.glob("*_physio.tsv.gz"))) == 3  # left, right, cyclopean


@pytest.mark.parametrize("kind", EXAMPLES)
def test_round_trip_of_the_files_of_all_trackers(tmp_path: Path, kind: str) -> None:
    r = read(write(tmp_path, kind))
    if r.samples is None:
        with pytest.raises(DataError, match="needs samples"):
            write_bids(r, tmp_path / "out", task="t", subject="01")
        return
    paths = write_bids(r, tmp_path / "out", task="t", subject="01")
    back = read(paths[0])
    assert set(back.tables()) == set(r.tables())
    for name, table in r.tables().items():
        pd.testing.assert_frame_equal(getattr(back, name), table)


SAMPLE_REPORT = (
    "RECORDING_SESSION_LABEL\tTRIAL_INDEX\tTIMESTAMP\tRIGHT_GAZE_X\tRIGHT_GAZE_Y\t"
    "RIGHT_PUPIL_SIZE\tcond\n"
    "s1\t1\t100.00\t512.5\t384.0\t700\ta\ns1\t1\t101.00\t513.5\t384.0\t701\t007\n"
)
PLAIN = "participant,trial,time,x,y,group\nP01,007,0,1,2,a\nP01,007,4,3,4,NA\nP01,007,8,3,4,b\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("P01.asc", ASC_FILE),
        ("P01.asc", contract.ASC),
        ("P01.asc", ASC_FILE.replace("\t...\n", "\n")),
        ("P01.asc", ASC_FILE.replace("TRIAL_VAR item", "TRIAL_VAR duration")),
        ("P01.asc", ASC_FILE.replace("TRIAL_VAR item", "TRIAL_VAR onset")),
        ("P01.asc", ASC_FILE.replace("TRIAL_VAR item", "TRIAL_VAR trial_type")),
        ("P01.asc", valid_file().decode()),
        ("samples.txt", SAMPLE_REPORT),
        ("P01.csv", PLAIN),
    ],
)
def test_round_trip_of_eyelink_files_and_tables(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    r = read(tmp_path / name)
    assert r.samples is not None
    paths = write_bids(r, tmp_path / "out", task="t", subject="01")
    back = read(paths[0]).check()
    assert set(back.tables()) == set(r.tables())
    for kind, table in r.tables().items():
        pd.testing.assert_frame_equal(getattr(back, kind), table)


def test_categories_come_back_with_all_their_texts(tmp_path: Path) -> None:
    r = recording()
    assert r.samples is not None and r.fixations is not None
    names = ["b", 'a "x"', "never", "\t"]
    r.samples["status"] = pd.Categorical(["b", None, 'a "x"', "\t"], categories=names)
    r.fixations["status"] = pd.Categorical([None, None, "b"], categories=["b"])
    for name in ("trial_type", "message", "table_row", "time", "text"):
        r.fixations[name] = text(["1", None, name])
    assert r.messages is not None and r.trials is not None
    r.messages["onset"], r.trials["duration"], r.trials["duration_"] = 1.5, 2.5, 3.5
    back = read(write_bids(r, tmp_path, task="t")[0])
    for kind, table in r.tables().items():
        pd.testing.assert_frame_equal(getattr(back, kind), table)
    r.samples["status"] = pd.Categorical([1, 2, 1, 2])
    with pytest.raises(DataError, match="cannot keep"):
        write_bids(r, tmp_path / "b", task="t")


def test_events_of_other_data_sets_and_plain_tables(tmp_path: Path) -> None:
    path = tmp_path / "sub-02_task-rest_events.tsv"
    path.write_text("onset\tduration\ttrial_type\n0.5\t1\tgo\n")
    assert identify(path) == "bids"
    with pytest.raises(DataError, match="physio file beside it is needed"):
        read(path)
    path.write_text("participant\ttrial\tonset\tduration\tx\ty\nP\t1\t0\t200\t100\t90\n")
    assert identify(path) == "plain" and read(path).fixations is not None


def test_every_table_that_was_written_is_read_by_its_name(tmp_path: Path) -> None:
    r = recording()
    paths = write_bids(r, tmp_path, task="read")
    tables = [p for p in paths if ".tsv" in p.name]
    assert len(tables) == 5  # three eyes, the events of the tracker, the trials
    for path in tables:
        assert identify(path) == "bids"
        back = read(path)
        for kind, table in r.tables().items():
            pd.testing.assert_frame_equal(getattr(back, kind), table)
    for path in (p for p in tables if "physio.tsv" in p.name):
        path.unlink()
    for path in (p for p in tables if "physio.tsv" not in p.name):
        with pytest.raises(DataError, match=r"physio file beside it is needed.*_physio\.tsv\.gz"):
            read(path)


numbers = st.floats(allow_nan=False, allow_infinity=False, width=64)
words = st.text(
    st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), max_size=8
).filter(lambda t: t != "n/a")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(numbers, numbers | st.none(), words | st.none()), min_size=1, max_size=8))
def test_any_numbers_and_texts_come_back(tmp_path: Path, rows: list[Any]) -> None:
    time, x, note = zip(*rows, strict=True)
    samples = pd.DataFrame(
        {"time": list(time), "x": pd.Series(x, dtype="float64"), "note": text(list(note))}
    )
    samples["y"] = 1.0
    r = Recording("m", "m", samples=samples, info={"rate": 100.0})
    paths = write_bids(r, tmp_path, task="t", subject="1", overwrite=True)
    back = read_bids(paths[0]).samples
    assert back is not None
    pd.testing.assert_frame_equal(back, samples)


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    def refuse(match: str, r: Recording, **options: Any) -> None:
        with pytest.raises(DataError, match=match):
            write_bids(r, tmp_path, **{"task": "t", **options})
        assert not list(tmp_path.rglob("*"))

    areas = pd.DataFrame({"area": text(["1"]), "left": [0.0]})
    refuse("no place for the table 'areas'", recording(areas=areas))
    refuse("letters and digits", recording(), task="my task")
    refuse("letters and digits", recording(), subject="../x")
    two = pd.DataFrame({"participant": text(["P02"]), "time": [1.0], "text": text(["m"])})
    refuse("one participant", recording(messages=two))
    lie = pd.DataFrame({"time": [1.0], "text": text(["n/a"])})
    refuse("cannot keep", recording(messages=lie))
    refuse("needs samples", recording(samples=None))
    paths = write_bids(recording(areas=areas), tmp_path, task="t", leave_out=("areas",))
    with pytest.raises(DataError, match="already there"):
        write_bids(recording(), tmp_path, task="t")
    assert write_bids(recording(), tmp_path, task="t", overwrite=True)[0] == paths[0]


@pytest.mark.slow
def test_mutated_bids_raises_nothing_but_data_errors(tmp_path: Path) -> None:
    seconds = float(os.environ.get("GAZEATTN_FUZZ_SECONDS", "5"))
    rng, failed, runs = random.Random(7), 0, 0
    ours = [p for p in write_bids(recording(), tmp_path / "a", task="read")]
    theirs = make(tmp_path / "b")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for first in (ours[0], theirs):
            files = sorted(p for p in first.parent.iterdir() if p.is_file())
            file = rng.choice(files)
            whole = file.read_bytes()
            packed = whole[:2] == b"\x1f\x8b" and rng.random() < 0.8
            data = mutate(gzip.decompress(whole) if packed else whole, rng)
            file.write_bytes(gzip.compress(data, 1) if packed else data)
            try:
                read(first, "bids")
            except DataError:
                failed += 1
            except Exception as error:
                raise AssertionError(f"{file.name}: {type(error).__name__} {data!r}") from error
            finally:
                file.write_bytes(whole)
            runs += 1
    assert 0 < failed < runs
