"""Text exports of SMI BeGaze, made by hand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gazeattn.errors import DataError
from gazeattn.readers import read

from .trackers import SMI, SMI_EVENTS, SMI_HEADER, SMI_STATISTICS, write


def test_raw_by_hand(tmp_path: Path) -> None:
    r = read(write(tmp_path, "smi"))
    s, m, t = r.samples, r.messages, r.trials
    assert s is not None and m is not None and t is not None
    assert s["time"].tolist() == [1000, 1002, 1004, 1006]
    assert s["x_left"].isna().tolist() == [False, True, True, False]
    assert s["x_left"][0] == 850.71 and s["pupil_left"].isna().sum() == 2
    assert s["trial"].tolist() == ["1", "1", "1", "2"]
    assert s["participant"].tolist() == ["P01"] * 4
    assert t["stimulus"].tolist() == ["page.jpg", "photo.jpg"]
    assert m["text"].tolist() == ["# Message: page.jpg", '# Message: a "quoted\tMSG\ttext']
    assert m["time"].tolist() == [1000, 1005]
    assert r.info["rate"] == 500 and r.info["screen"] == (1680, 1050)
    assert r.info["screen_mm"] == (474, 297) and r.info["eyes"] == ["left"]
    reasons = {x.reason: x.count for x in r.lost}
    assert reasons["left gaze written as 0, 0: no eye found"] == 1
    assert reasons["left eye flagged invalid (L Validity 0)"] == 1
    assert reasons["left gaze off the screen, kept"] == 1  # x = 1680


def test_validity_can_be_left_alone(tmp_path: Path) -> None:
    s = read(write(tmp_path, "smi"), use_validity=False).samples
    assert s is not None and s["x_left"].isna().sum() == 1


def test_b28_no_eye_at_all(tmp_path: Path) -> None:
    head, _, _ = SMI.partition("1000000\tMSG")
    lost = "1000000\tSMP\t1\t0.00\t0.00\t0\t1\t-\tp\n1002000\tSMP\t1\t0.00\t0.00\t0\t1\t-\tp\n"
    with pytest.raises(DataError, match=r"0 of 2 rows valid.*no eye found: 2"):
        read(write(tmp_path, "smi", head + lost))


def test_both_eyes(tmp_path: Path) -> None:
    text = SMI_HEADER + (
        "Time\tType\tTrial\tL POR X [px]\tL POR Y [px]\tR POR X [px]\tR POR Y [px]\t"
        "L Pupil Diameter [mm]\tR Pupil Diameter [mm]\n"
        "10\tSMP\t1\t1.5\t2.5\t3.5\t4.5\t3.1\t3.2\n2010\tSMP\t1\t0.00\t0.00\t3.5\t4.5\t0\t3.2\n"
    )
    r = read(write(tmp_path, "smi", text))
    s = r.samples
    assert s is not None and s["x_right"].tolist() == [3.5, 3.5] and np.isnan(s["x_left"][1])
    assert r.info["eyes"] == ["left", "right"]


def test_b23_time_without_a_unit_is_microseconds_and_doubted_by_the_rate(tmp_path: Path) -> None:
    text = SMI.replace("000\tSMP", "\tSMP").replace("000\tMSG", "\tMSG")
    r = read(write(tmp_path, "smi", text))  # 2 units between samples: 500 kHz as microseconds
    assert any("doubt" in x.reason and "500 Hz" in x.reason for x in r.lost)
    r = read(write(tmp_path, "smi", text), time_unit="ms")
    assert r.samples is not None and r.samples["time"].tolist() == [1000, 1002, 1004, 1006]
    assert not any("doubt" in x.reason for x in r.lost)
    with pytest.raises(DataError, match="unknown time unit"):
        read(write(tmp_path, "smi", text), time_unit="ticks")


def test_b25_b26_clocks(tmp_path: Path) -> None:
    swapped = SMI.replace("1002000\tSMP", "x").replace("1000000\tSMP", "1002000\tSMP")
    swapped = swapped.replace("x\t1\t0.00", "1000000\tSMP\t1\t0.00")
    r = read(write(tmp_path, "smi", swapped))
    assert r.samples is not None and r.samples["time"].tolist() == [1000, 1002, 1004, 1006]
    assert r.lost.count("samples", "repaired") == 2
    with pytest.raises(DataError, match="steps back"):
        read(write(tmp_path, "smi", swapped), strict=True)
    reset = SMI.replace("1006000\tSMP", "100\tSMP")
    s = read(write(tmp_path, "smi", reset)).samples
    assert s is not None and s["block"].tolist() == [0, 0, 0, 1]


def test_event_text(tmp_path: Path) -> None:
    r = read(write(tmp_path, "smi events"))
    f, s, b, m = r.fixations, r.saccades, r.blinks, r.messages
    assert f is not None and s is not None and b is not None and m is not None
    assert f[["eye", "onset", "duration", "x", "pupil"]].to_numpy().tolist() == [
        ["left", 1000, 200, 850.5, 14.5],
        ["right", 1000, 200, 852.5, 14.5],
        ["left", 1400, 100, 950.5, 14.5],
    ]
    assert s[["onset", "duration", "x_end", "amplitude", "peak_velocity"]].to_numpy().tolist() == [
        [1200, 40, 950, 3.2, 180]
    ]
    assert b[["onset", "duration"]].to_numpy().tolist() == [[1300, 100]]
    assert m["text"].tolist() == ["# Message: page.jpg"] and m["time"].tolist() == [1000]
    assert f["participant"].tolist() == ["P01"] * 3 and f["block"].tolist() == [0, 0, 0]
    assert r.trials is not None and r.trials["trial"].tolist() == ["1"]
    assert r.lost.count() == 0


def test_eyes_one_after_the_other_are_one_block(tmp_path: Path) -> None:
    lines = SMI_EVENTS.splitlines(keepends=True)
    right = [x for x in lines if x.startswith("Fixation R")]
    rest = [x for x in lines if not x.startswith("Fixation R")]
    f = read(write(tmp_path, "smi events", "".join([*rest, *right]))).fixations
    assert f is not None and f["block"].tolist() == [0, 0, 0]
    assert f["onset"].tolist() == [1000, 1000, 1400]


def test_event_statistics(tmp_path: Path) -> None:
    r = read(write(tmp_path, "smi statistics"))
    f, s, b = r.fixations, r.saccades, r.blinks
    assert f is not None and s is not None and b is not None and r.trials is not None
    assert f["onset"].tolist() == [10.5, 5] and f["block"].tolist() == [0, 1]
    assert f["x"][0] == 850.5 and np.isnan(f["x"][1]) and f["eye"].tolist() == ["left", "left"]
    assert f["area"][0] == "word 1" and f["area"].isna()[1]
    assert s["amplitude"].tolist() == [3.25] and b["duration"].tolist() == [100]
    assert r.trials["trial"].tolist() == ["page.jpg", "photo.jpg"]
    assert r.trials["end"].tolist() == [360, 105]  # the blink ends last
    assert any("separator" in x.reason and x.count == 1 for x in r.lost)


def with_trials(trials: list[str]) -> str:
    lines = SMI_STATISTICS.splitlines()
    return "\n".join(f"{t}\t{x}" for t, x in zip(["Trial", *trials], lines, strict=True)) + "\n"


def test_the_stimulus_of_statistics_is_the_stimulus_not_the_trial(tmp_path: Path) -> None:
    text = with_trials(["Trial001"] * 3 + ["Trial002"] * 2)
    r = read(write(tmp_path, "smi statistics", text))
    assert r.trials is not None and r.fixations is not None
    assert r.trials["trial"].tolist() == ["Trial001", "Trial002"]
    assert r.trials["stimulus"].tolist() == ["page.jpg", "photo.jpg"]
    assert r.fixations["trial"].tolist() == ["Trial001", "Trial002"]
    assert "shown" not in r.fixations
    r = read(write(tmp_path, "smi statistics", with_trials(["T"] * 5)))
    assert r.trials is not None and r.trials["stimulus"].tolist() == ["photo.jpg"]  # first in time
    assert any("several stimuli in one trial" in x.reason and x.count == 1 for x in r.lost)


RAW = re.sub(r"\t(?:page|photo)\.jpg\n", "\n", SMI).replace(
    "L Event Info\tStimulus", "L Event Info"
)


@pytest.mark.parametrize("picture", ["page1.jpg", "my page 1.PNG", "film.avi", "a/b.bmp"])
def test_the_stimulus_of_samples_is_named_by_messages(tmp_path: Path, picture: str) -> None:
    text = RAW.replace("# Message: page.jpg", f"# Message: {picture}")
    assert "Stimulus\n" not in text and picture in text
    r = read(write(tmp_path, "smi", text))
    assert r.trials is not None and r.samples is not None
    assert r.trials["trial"].tolist() == ["1", "2"]
    assert r.trials["stimulus"][0] == picture and r.trials["stimulus"].isna()[1]
    assert r.samples["stimulus"].fillna("-").tolist() == [picture] * 3 + ["-"]
    assert any("no stimulus is named" in x.reason and x.count == 1 for x in r.lost)
    assert r.messages is not None and len(r.messages) == 2


def test_the_stimulus_of_event_text_is_named_by_messages(tmp_path: Path) -> None:
    second = (
        "UserEvent\t1\t2\t1600000\t# Message: key\n"
        "UserEvent\t2\t3\t2000000\t# Message: photo 2.png\n"
        "Fixation L\t2\t1\t2000100\t2200000\t199900\t850.5\t700.25\t10\t12\t-1\t14.5\t14.5\n"
    )
    r = read(write(tmp_path, "smi events", SMI_EVENTS + second))
    assert r.trials is not None
    assert r.trials[["trial", "stimulus"]].to_numpy().tolist() == [
        ["1", "page.jpg"],
        ["2", "photo 2.png"],
    ]
    nothing = SMI_EVENTS.replace("# Message: page.jpg", "# Message: start")
    r = read(write(tmp_path, "smi events", nothing))
    assert r.trials is not None and r.trials["stimulus"].isna().all()  # never the trial's number


def test_the_same_trials_for_all_kinds_of_events(tmp_path: Path) -> None:
    again = SMI_STATISTICS + "page.jpg\tP01\tLeft\tBlink\t9\t1.0\t2.0\t1.0\t-\t-\t-\t-\n"
    r = read(write(tmp_path, "smi statistics", again))
    assert r.blinks is not None and r.blinks["trial"].tolist() == ["page.jpg", "page.jpg (2)"]
    assert r.trials is not None and r.trials["trial"].is_unique


def test_decimal_comma(tmp_path: Path) -> None:
    text = SMI_STATISTICS.replace("10.5", "10,5").replace(".25", ",25").replace(".0\t", ",0\t")
    text = text.replace("210.5", "210,5").replace("250.5", "250,5").replace("850.5", "850,5")
    f = read(write(tmp_path, "smi statistics", text)).fixations
    assert f is not None and f["onset"].tolist() == [10.5, 5] and f["y"][0] == 700.25


def test_no_gaze_columns(tmp_path: Path) -> None:
    text = SMI_HEADER + "Time\tType\tTrial\n1\tSMP\t1\n"
    with pytest.raises(DataError, match="no column of gaze"):
        read(write(tmp_path, "smi", text))
