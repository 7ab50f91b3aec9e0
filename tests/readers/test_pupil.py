"""Exports of Pupil Core and Neon, made by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gazeattn.errors import DataError
from gazeattn.readers import read
from gazeattn.readers.pupil import read_pupil

from .trackers import CORE_GAZE, NEON_GAZE, write


def test_core_gaze_points_up(tmp_path: Path) -> None:
    r = read(write(tmp_path, "core gaze"), screen=(1280, 720), participant="P01")
    s = r.samples
    assert s is not None
    assert s["time"].to_numpy() == pytest.approx([100000, 100010, 100020])
    assert s["x"].tolist()[:2] == [640, 320] and s["y"].tolist()[:2] == [180, 0]
    assert np.isnan(s["x"][2]) and r.lost.count("samples", "undefined") == 1  # confidence 0.2
    assert s["participant"].tolist() == ["P01"] * 3
    assert r.info["units"] == {"time": "s", "x": "px, from 0..1", "y": "px, from 0..1"}


def test_core_without_a_screen_keeps_the_names_of_the_file(tmp_path: Path) -> None:
    r = read(write(tmp_path, "core gaze"))
    assert r.samples is not None and "x" not in r.samples
    assert r.samples["norm_pos_y"].tolist()[:2] == [0.75, 1.0]
    assert r.info["units"]["norm_pos_y"] == "norm, y up"
    assert any("screen=" in x.reason for x in r.lost)


def test_confidence_is_an_option(tmp_path: Path) -> None:
    r = read(write(tmp_path, "core gaze"), screen=(1280, 720), min_confidence=0.0)
    assert r.samples is not None and r.samples["x"].tolist() == [640, 320, 320]
    with pytest.raises(DataError, match=r"0 of 3 rows valid.*confidence below 0.99: 3"):
        read(write(tmp_path, "core gaze"), min_confidence=0.99)


def test_core_events(tmp_path: Path) -> None:
    f = read(write(tmp_path, "core fixations"), screen=(1000, 1000)).fixations
    assert f is not None and f["duration"].tolist() == [150.5, 200]
    assert f["onset"].to_numpy() == pytest.approx([100000, 100200])
    assert f[["x", "y"]].to_numpy() == pytest.approx(np.array([[500, 250], [100, 800]]))
    b = read(write(tmp_path, "core blinks")).blinks
    assert b is not None and b["duration"].tolist() == [150]  # written in seconds
    assert b["onset"].tolist() == [101000]


def test_surface_files(tmp_path: Path) -> None:
    r = read(write(tmp_path, "surface gaze"), screen=(800, 600))
    assert r.samples is not None and r.samples["x"].tolist() == [400, 1200]
    assert r.samples["y"].tolist() == [150, 150]
    assert r.samples["on_surface"].tolist() == [True, False]
    assert any("off the screen" in x.reason and x.count == 1 for x in r.lost)
    r = read(write(tmp_path, "surface fixations"), screen=(800, 600))
    assert r.fixations is not None and r.fixations["id"].tolist() == [1, 2]
    assert r.lost.count("fixations", "dropped") == 1  # one more video frame of fixation 1


def test_neon(tmp_path: Path) -> None:
    r = read(write(tmp_path, "neon gaze"))
    s = r.samples
    assert s is not None and s["x"].tolist()[:2] == [800.5, 801.5] and np.isnan(s["x"][2])
    assert np.diff(s["time"]) == pytest.approx([5, 5], abs=1e-3)
    assert s["time"][0] == 1.7e12
    assert any("not worn" in x.reason and x.count == 1 for x in r.lost)
    assert s["azimuth [deg]"].tolist() == [0.1] * 3  # degrees are never x
    f = read(write(tmp_path, "neon fixations")).fixations
    assert f is not None and f["duration"].tolist() == [150, 100] and f["x"][0] == 800.9
    c = read(write(tmp_path, "neon saccades")).saccades
    assert c is not None and c["amplitude"].tolist() == [9.5] and c["duration"].tolist() == [50]
    b = read(write(tmp_path, "neon blinks")).blinks
    assert b is not None and b["duration"].tolist() == [120]


def test_folder_of_one_recording(tmp_path: Path) -> None:
    for kind in ("neon gaze", "neon fixations", "neon saccades", "neon blinks"):
        write(tmp_path, kind)
    (tmp_path / "imu.csv").write_text("timestamp [ns],gyro x [deg/s]\n1,2\n")
    r = read_pupil(tmp_path, participant="P07").check()
    assert set(r.tables()) == {"samples", "fixations", "saccades", "blinks"}
    assert r.info["units"]["x"] == "px" and r.info["tracker"] == "Pupil Neon"
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no file"):
        read_pupil(tmp_path / "empty")


@pytest.mark.parametrize("unit", ["ticks", "px", "m"])
def test_b23_unknown_units(tmp_path: Path, unit: str) -> None:
    with pytest.raises(DataError, match="unit"):
        read(write(tmp_path, "neon gaze", NEON_GAZE.replace("[ns]", f"[{unit}]")), "pupil")
    with pytest.raises(DataError, match="unit"):
        text = NEON_GAZE.replace("gaze x [px]", "gaze x [foot]")
        read(write(tmp_path, "neon gaze", text), "pupil")


@pytest.mark.parametrize(
    ("times", "blocks", "result"),
    [
        ("0.000 0.010 0.008 0.010", [0, 0, 0, 0], [0, 8, 10, 10]),
        ("74701.30 74701.33 33.98 34.00", [0, 0, 1, 1], [74701300, 74701330, 33980, 34000]),
    ],
)
def test_b25_b26_clocks(tmp_path: Path, times: str, blocks: list[int], result: list[float]) -> None:
    head = CORE_GAZE.splitlines()[0]
    lines = [f"{t},0,0.9,0.{n}1,0.5,x" for n, t in enumerate(times.split())]
    path = write(tmp_path, "core gaze", "\n".join([head, *lines]) + "\n")
    s = read(path, screen=(1000, 1000)).samples
    assert s is not None and s["block"].tolist() == blocks
    assert s["time"].to_numpy() == pytest.approx(result)
    if blocks[-1] == 0:
        assert s["x"].to_numpy() == pytest.approx([10, 210, 110, 310])  # equal times: file order
    with pytest.raises(DataError, match="steps back"):
        read(path, strict=True)


def test_another_recording_in_the_file_is_another_block(tmp_path: Path) -> None:
    more = NEON_GAZE + "s2,r2,1600000000000000000,1,2,True,,,0,0\n"
    s = read(write(tmp_path, "neon gaze", more)).samples
    assert s is not None and s["block"].tolist() == [0, 0, 0, 1]


def test_flags_must_be_true_or_false(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="true or false"):
        read(write(tmp_path, "neon gaze", NEON_GAZE.replace("False", "maybe")))
