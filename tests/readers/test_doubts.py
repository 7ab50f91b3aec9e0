"""Absurd numbers never pass without a word, whichever reader the file is for; hints say how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gazeattn.errors import DataError
from gazeattn.readers import read
from gazeattn.readers._doubts import note_doubts
from gazeattn.readers._units import option
from gazeattn.recordings import Recording

from . import test_contract as contract
from . import trackers
from .reports import FIXATIONS

SMI_SAMPLES = trackers.SMI


def doubts(recording: Recording) -> list[tuple[str, int]]:
    return [(x.reason, x.count) for x in recording.lost if "doubt" in x.reason]


def read_text(folder: Path, name: str, text: str, **options: Any) -> Recording:
    (folder / name).write_text(text, encoding="utf-8")
    return read(folder / name, **options)


def fixations(factor: float, n: int = 20) -> str:
    rows = [f"P01,1,{n * 300 * factor},{200 * factor},{10 + n},200" for n in range(n)]
    return "\n".join(["participant,trial,onset,duration,x,y", *rows, ""])


@pytest.mark.parametrize(
    ("factor", "word"), [(1e-3, "seconds"), (1e3, "microseconds"), (1e6, "microseconds")]
)
def test_durations_in_another_unit(tmp_path: Path, factor: float, word: str) -> None:
    assert not doubts(read_text(tmp_path, "a.csv", fixations(1.0)))
    found = doubts(read_text(tmp_path, "b.csv", fixations(factor)))
    assert len(found) == 1 and found[0][1] == 20
    assert "usual duration" in found[0][0] and word in found[0][0]


@pytest.mark.parametrize(
    ("step", "doubted"),
    [
        (1e-3, True),
        (0.004, True),
        (0.5, False),
        (4, False),
        (200, False),
        (1000, True),
        (4e6, True),
    ],
)
def test_samples_too_near_or_too_far_apart(tmp_path: Path, step: float, doubted: bool) -> None:
    rows = [f"P01,1,{n * step},{100 + n},200" for n in range(10)]
    text = "\n".join(["participant,trial,time,x,y", *rows, ""])
    found = doubts(read_text(tmp_path, "a.csv", text))
    assert [count for _, count in found] == ([10] if doubted else [])


EVENT = "EFIX R 100 102 3 512.0 384.0 700\n"
FAR = {
    "asc sample": ("a.asc", contract.ASC.replace("512.0", "512000.0", 1), "samples"),
    "asc fixation": (
        "a.asc",
        contract.ASC.replace("END\t", EVENT.replace("512.0", "-512000.0") + "END\t"),
        "fixations",
    ),
    "plain": ("a.csv", contract.PLAIN.replace("10,20", "10,-2000000"), "fixations"),
    "tobii": ("P01.tsv", trackers.tobii().replace("\t102\t50", "\t1e20\t50"), "samples"),
    "smi": ("P01.txt", SMI_SAMPLES.replace("850.71", "85071111.0"), "samples"),
    "smi events": ("P01.txt", trackers.SMI_EVENTS.replace("850.5", "8505000"), "fixations"),
    "smi saccades": ("P01.txt", trackers.SMI_EVENTS.replace("\t950\t", "\t9500000\t"), "saccades"),
    "neon": ("gaze.csv", trackers.NEON_GAZE.replace("800.5", "8e9"), "samples"),
    "data viewer": ("a.txt", None, "fixations"),
}


@pytest.mark.parametrize("kind", sorted(FAR))
def test_positions_beyond_any_screen(tmp_path: Path, kind: str) -> None:
    name, text, table = FAR[kind]
    if text is None:
        rows = FIXATIONS.splitlines()
        column = rows[0].split("\t").index("CURRENT_FIX_X")
        cells = rows[1].split("\t")
        cells[column] = "5000000.0"
        text = "\n".join([rows[0], "\t".join(cells), *rows[2:], ""])
    r = read_text(tmp_path, name, text)
    found = [x for x in r.lost if "beyond any screen" in x.reason]
    assert [(x.step, x.kind, x.count) for x in found] == [(table, "note", 1)]


@pytest.mark.parametrize("time", ["99999999999999999999", "1e17", "5000000"])
def test_one_asc_sample_far_outside_its_block_is_counted(tmp_path: Path, time: str) -> None:
    text = contract.ASC.replace("101\t  513.0", f"{time}\t  513.0")
    r = read_text(tmp_path, "a.asc", text)
    assert r.samples is not None and len(r.samples) == 2
    assert any("far outside its block" in x.reason and x.count == 1 for x in r.lost)
    late = [x.count for x in r.lost if "1e15" in x.reason]
    assert late == ([] if time == "5000000" else [1])


def test_asc_events_and_cut_blocks(tmp_path: Path) -> None:
    events = EVENT.replace("102 3", "119 20") * 2 + EVENT.replace("102 3", "90000 89901")
    text = contract.ASC.replace("END\t", events + "END\t")
    r = read_text(tmp_path, "a.asc", text)
    assert [(x.step, x.count) for x in r.lost if "far outside" in x.reason] == [("fixations", 1)]
    assert any("duration above 60000 ms" in x.reason and x.count == 1 for x in r.lost)
    cut = contract.ASC.replace("101\t", "999999999999\t").partition("END\t")[0]
    r = read_text(tmp_path, "b.asc", cut)
    assert any("far outside its block" in x.reason and x.count == 1 for x in r.lost)


def test_times_on_no_clock_and_negative_durations() -> None:
    table = pd.DataFrame(
        {"onset": [0.0, 2e15, float("nan")], "duration": [200.0, 210.0, -1.0], "x": [1.0, 2, 3]}
    )
    r = note_doubts(Recording("f", "mine", fixations=table, blinks=table.drop(columns="x")))
    assert sorted(count for _, count in doubts(r)) == [1, 1, 1, 1]
    areas = pd.DataFrame({"area": pd.Series(["a"], dtype="str"), "right": [2e5]})
    assert len(doubts(note_doubts(Recording("f", "mine", areas=areas)))) == 1


@pytest.mark.parametrize("kind", sorted(trackers.EXAMPLES))
def test_ordinary_files_are_not_doubted(tmp_path: Path, kind: str) -> None:
    r = read(trackers.write(tmp_path, kind))
    found = [
        reason for reason, _ in doubts(r) if "+-45" not in reason and "header says" not in reason
    ]
    assert found == []


def test_options_in_python_and_on_the_command_line() -> None:
    assert option("encoding", "cp1252") == (
        "encoding='cp1252' (--option encoding=cp1252 on the command line)"
    )
    assert "(--option screen=1920,1080 on" in option("screen", (1920, 1080))
    assert "(--option quote=null on" in option("quote", None)
    assert "(--option strict=false on" in option("strict", False)
    assert "(--reader plain on" in option("reader", "plain")


def test_hints_name_both_forms(tmp_path: Path) -> None:
    columns = "Recording timestamp,Gaze point X,Gaze point Y\n1,2,3\n"
    (tmp_path / "a.csv").write_text(columns)
    with pytest.raises(DataError, match=r"time_unit='ms' \(--option time_unit=ms on the command"):
        read(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes(contract.PLAIN.replace("P01", "Jos\u00e9").encode("cp1252"))
    with pytest.raises(DataError, match=r"encoding='cp1252' \(--option encoding=cp1252 on the com"):
        read(tmp_path / "b.csv")
    r = read(trackers.write(tmp_path, "gazepoint"))
    assert any("--option screen=1920,1080 on the command line" in x.reason for x in r.lost)
    (tmp_path / "c.csv").write_text("participant,time,onset,duration,x,y\nP01,1,1,1,2,3\n")
    with pytest.raises(DataError, match=r"kind='samples' \(--option kind=samples on the command"):
        read(tmp_path / "c.csv")
