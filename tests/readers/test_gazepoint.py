"""Exports of Gazepoint, made by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gazeattn.errors import DataError
from gazeattn.readers import read

from .trackers import GAZEPOINT, GAZEPOINT_FIXATIONS, write

SCREEN = (1920, 1080)


def test_all_gaze_by_hand(tmp_path: Path) -> None:
    r = read(write(tmp_path, "gazepoint"), screen=SCREEN, participant="P01")
    s, f, t = r.samples, r.fixations, r.trials
    assert s is not None and f is not None and t is not None
    assert s["time"].tolist() == [0, 16, 32, 48]
    assert s["x"].tolist()[:2] == [960, 960] and np.isnan(s["x"][2]) and s["x"][3] == 192
    assert s["y"].tolist()[:2] == [270, 270]
    assert np.isnan(s["pupil_left"][2]) and s["pupil_right"].tolist() == [3.6] * 4
    assert s["trial"].tolist() == ["page", "page", "page", "photo"]
    # the fixation that a record marks invalid is not the complete one: 16 ms, not 32
    assert f[["onset", "duration", "x", "y"]].to_numpy().tolist() == [
        [0, 16, 960, 270],
        [48, 16, 192, 1080],
    ]
    assert t["trial"].tolist() == ["page", "photo"] and t["end"].tolist() == [32, 48]
    reasons = {x.reason: x.count for x in r.lost}
    assert reasons["BPOGV says invalid"] == 1 and reasons["LPMMV says invalid"] == 1
    assert reasons["gaze off the screen, kept"] == 1  # y = 1080 is outside
    assert r.info["date"] == "2021/01/01 12:00:00.000"


def test_fractions_without_a_screen_keep_their_names(tmp_path: Path) -> None:
    r = read(write(tmp_path, "gazepoint"))
    assert r.samples is not None and r.fixations is not None
    assert "x" not in r.samples and r.samples["BPOGX"].tolist()[:2] == [0.5, 0.5]
    assert "x" not in r.fixations and r.fixations["FPOGX"].tolist() == [0.5, 0.1]
    assert any("screen=" in x.reason for x in r.lost)
    assert r.info["units"]["position"] == "0..1 of the screen"


def test_fixation_file(tmp_path: Path) -> None:
    r = read(write(tmp_path, "gazepoint fixations"), screen=SCREEN)
    f = r.fixations
    assert r.samples is None and f is not None and r.trials is not None
    assert f[["onset", "duration", "x", "y"]].to_numpy().tolist() == [
        [0, 300, 960, 270],
        [316, 200, 192, 540],
    ]
    assert r.trials["end"].tolist() == [300, 516]


def test_fixation_file_is_known_without_its_name(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text(GAZEPOINT_FIXATIONS)
    assert read(path, screen=SCREEN).samples is None
    path.write_text(GAZEPOINT)
    assert read(path, screen=SCREEN).samples is not None


def test_b28_all_invalid(tmp_path: Path) -> None:
    lines = GAZEPOINT.splitlines()
    where = lines[0].split(",").index("BPOGV")
    cells = [line.split(",") for line in lines[1:]]
    for row in cells:
        row[where] = "0"
    text = "\n".join([lines[0], *(",".join(c) for c in cells)]) + "\n"
    with pytest.raises(DataError, match=r"0 of 4 rows valid.*BPOGV says invalid: 4"):
        read(write(tmp_path, "gazepoint", text), screen=SCREEN)
    bad = GAZEPOINT_FIXATIONS.replace(",1,1,0.9", ",1,0,0.9").replace(",2,1,0.1", ",2,0,0.1")
    with pytest.raises(DataError, match=r"0 of 2 rows valid.*FPOGV says invalid: 2"):
        read(write(tmp_path, "gazepoint fixations", bad), screen=SCREEN)


def test_decimal_comma_with_semicolons(tmp_path: Path) -> None:
    text = GAZEPOINT.replace(",", ";").replace(".", ",")
    r = read(write(tmp_path, "gazepoint", text), screen=SCREEN)
    assert r.samples is not None and r.samples["time"].tolist() == [0, 16, 32, 48]
    assert any("decimal comma" in x.reason for x in r.lost)


def test_b25_b26_clocks(tmp_path: Path) -> None:
    lines = GAZEPOINT.splitlines()
    swapped = "\n".join([lines[0], lines[1], lines[3], lines[2], lines[4]]) + "\n"
    r = read(write(tmp_path, "gazepoint", swapped), screen=SCREEN)
    assert r.samples is not None and r.samples["time"].tolist() == [0, 16, 32, 48]
    assert r.lost.count("samples", "repaired") == 2
    again = "\n".join([*lines, *lines[1:]]) + "\n"
    r = read(write(tmp_path, "gazepoint", again), screen=SCREEN)
    assert r.samples is not None and r.samples["block"].tolist() == [0] * 4 + [1] * 4
    assert r.trials is not None and r.trials["trial"].tolist() == [
        "page", "photo", "page (2)", "photo (2)",
    ]  # fmt: skip
    with pytest.raises(DataError, match="steps back"):
        read(write(tmp_path, "gazepoint", swapped), strict=True)


def test_media_without_a_name_are_known_by_number(tmp_path: Path) -> None:
    text = GAZEPOINT.replace("page", "").replace("photo", "")
    r = read(write(tmp_path, "gazepoint", text), screen=SCREEN)
    assert r.trials is not None and r.trials["stimulus"].tolist() == ["0", "1"]


def test_left_and_right_points_have_their_own_flags(tmp_path: Path) -> None:
    path = tmp_path / "all_gaze.csv"
    path.write_text(
        "TIME,BPOGX,BPOGY,BPOGV,LPOGX,LPOGY,LPOGV,RPOGX,RPOGY,RPOGV\n"
        "0.0,0.5,0.5,1,0.25,0.5,1,0.75,0.5,0\n"
    )
    s = read(path, screen=(100, 100)).samples
    assert s is not None and s["x_left"].tolist() == [25] and s["x_right"].isna().all()


def test_a_column_that_is_needed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "fixations.csv"
    path.write_text("FPOGX,FPOGY,FPOGID,FPOGS\n0.5,0.5,1,0.0\n")
    with pytest.raises(DataError, match="FPOGD"):
        read(path)
