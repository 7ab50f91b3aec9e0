"""Units in headers, order in time, and mutated files of all trackers."""

from __future__ import annotations

import os
import random
import time as clock
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.readers import identify, read
from gazeattn.readers._exports import require_valid, review_positions
from gazeattn.readers._order import changes, time_order, trial_at, trials_of
from gazeattn.readers._units import (
    check_screen,
    length_unit,
    parse_header,
    time_unit,
    to_ms,
    to_pixels,
    unit_of,
)

from .trackers import EXAMPLES, write

# ---------------------------------------------------------------- units


@pytest.mark.parametrize(
    ("name", "key", "unit", "frame"),
    [
        ("Recording timestamp [ms]", "recordingtimestamp", "ms", None),
        ("Recording timestamp [\u00b5s]", "recordingtimestamp", "us", None),
        ("Recording timestamp [\u03bcs]", "recordingtimestamp", "us", None),
        ("Recording timestamp [us]", "recordingtimestamp", "us", None),
        ("timestamp [ns]", "timestamp", "ns", None),
        ("Time (s)", "time", "s", None),
        ("RecordingTimestamp", "recordingtimestamp", None, None),
        ("Gaze point left X [DACS px]", "gazepointleftx", "px", "DACS"),
        ("GazePointX (ADCSpx)", "gazepointx", "px", "ADCS"),
        ("GazePointX (MCSpx)", "gazepointx", "px", "MCS"),
        ("Gaze point X [MCS norm]", "gazepointx", "norm", "MCS"),
        ("Eye position left X (ADCSmm)", "eyepositionleftx", "mm", "ADCS"),
        ("gaze position on surface x [normalized]", "gazepositiononsurfacex", "norm", None),
        ("Saccade Amplitude [\u00b0]", "saccadeamplitude", "deg", None),
        ("peak velocity [px/s]", "peakvelocity", "px/s", None),
        ("AOI hit [page - word 1]", "aoihit", None, None),
    ],
)
def test_header_is_taken_apart(name: str, key: str, unit: str | None, frame: str | None) -> None:
    header = parse_header(name)
    assert (header.key, header.unit, header.frame) == (key, unit, frame)


@pytest.mark.parametrize(
    ("value", "unit"), [(200_000_000, "ns"), (200_000, "us"), (200, "ms"), (0.2, "s")]
)
def test_b23_the_same_time_in_every_unit(value: float, unit: str) -> None:
    assert to_ms(np.array([float(value)]), unit)[0] == 200.0


@pytest.mark.parametrize("bracket", ["ticks", "fs", "px", "Î¼s", "", "m s", "hours"])
def test_b23_unknown_time_unit_raises(bracket: str) -> None:
    with pytest.raises(DataError, match="unit"):
        time_unit(parse_header(f"Recording timestamp [{bracket}]"), None, None, "f")


def test_b23_no_unit_needs_one_stated_or_a_default() -> None:
    header = parse_header("Recording timestamp")
    with pytest.raises(DataError, match="does not say its unit"):
        time_unit(header, None, None, "f")
    assert time_unit(header, "\u00b5s", None, "f") == "us"
    assert time_unit(header, None, "ms", "f") == "ms"
    with pytest.raises(DataError, match="unknown time unit"):
        time_unit(header, "jiffies", None, "f")
    with pytest.raises(DataError, match="another unit"):
        time_unit(parse_header("t [ms]"), "us", None, "f")


def test_length_units() -> None:
    assert length_unit(parse_header("x [px]"), None, "f") == "px"
    assert length_unit(parse_header("x"), "px", "f") == "px"
    for name in ("x [furlong]", "x [ms]", "x"):
        with pytest.raises(DataError, match="unit"):
            length_unit(parse_header(name), None, "f")
    assert unit_of("Pixels") == "px" and unit_of("parsec") is None


def test_normalised_positions_become_pixels() -> None:
    x, y = np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.25, 1.0])
    down = to_pixels(x, y, (1920, 1080))
    assert down[0].tolist() == [0, 960, 1920] and down[1].tolist() == [0, 270, 1080]
    assert to_pixels(x, y, (1920, 1080), up=True)[1].tolist() == [1080, 810, 0]


@pytest.mark.parametrize("screen", [(0, 100), (100,), "HD", (float("nan"), 1), 5, (1, -1)])
def test_screen_must_be_a_size(screen: object) -> None:
    with pytest.raises(DataError, match="width and height"):
        check_screen(screen)


# ---------------------------------------------------------------- order in time


def order(times: list[float], strict: bool = False) -> tuple[list[float], list[int], LossLog]:
    log = LossLog()
    time = np.array(times, dtype=float)
    forced = np.zeros(len(time), dtype=bool)
    rows, block = time_order(time, forced, log, step="samples", source="f", strict=strict)
    return time[rows].tolist(), block.tolist(), log


@pytest.mark.parametrize(
    ("times", "moved"),
    [
        ([0, 10, 8, 10], 2),
        ([0, 10, 20, 5, 15, 30], 4),
        ([100, 102, 101, 103, 104], 2),
        ([0, 10, 20, 30, 19, 40], 3),  # by one interval and a bit
        ([0, 1, 2, 3, 4, 5, 0.5, 6, 7], 6),  # one row far out of place
        ([10, 8, 20, 30], 2),  # at the begin
    ],
)
def test_b25_steps_back_are_sorted_and_counted(times: list[float], moved: int) -> None:
    result, block, log = order(times)
    assert result == sorted(times) and set(block) == {0}
    assert log.count("samples", "repaired") == moved
    with pytest.raises(DataError, match="steps back"):
        order(times, strict=True)


def test_b25_equal_times_keep_file_order() -> None:
    log, time = LossLog(), np.array([0.0, 10, 8, 10, 8])
    rows, _ = time_order(time, np.zeros(5, bool), log, step="samples", source="f")
    assert rows.tolist() == [0, 2, 4, 1, 3]
    rows, _ = time_order(np.ones(5), np.zeros(5, bool), log, step="samples", source="f")
    assert rows.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("times", "blocks"),
    [
        ([74701300, 74701330, 33980, 34000], [0, 0, 1, 1]),
        ([0, 10, 20, 30, 0, 10, 20], [0, 0, 0, 0, 1, 1, 1]),  # the same times again
        ([500, 510, 520, 0, 10], [0, 0, 0, 1, 1]),
        ([500, 510, 520, 100], [0, 0, 0, 1]),  # its last row
        ([900, 901, 0, 1, 900, 901, 3, 4], [0, 0, 1, 1, 1, 1, 2, 2]),
    ],
)
def test_b26_a_clock_that_begins_anew_is_a_block(times: list[float], blocks: list[int]) -> None:
    result, block, log = order(times)
    assert result == times and block == blocks
    assert log.count("samples", "note") == max(blocks)
    assert log.count("samples", "repaired") == 0
    with pytest.raises(DataError, match="steps back"):
        order(times, strict=True)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 60) | st.integers(10_000, 10_060), max_size=40))
def test_order_is_a_permutation_without_negative_steps(times: list[int]) -> None:
    result, block, _ = order([float(t) for t in times])
    assert sorted(result) == sorted(times)
    steps, same = np.diff(result), np.diff(block) == 0
    assert (steps[same] >= 0).all() and (np.diff(block) >= 0).all()


def test_another_recording_is_another_block_whatever_its_clock() -> None:
    who = pd.Series(["a", "a", "b", "b", "a"], dtype="str")
    log = LossLog()
    _, block = time_order(
        np.array([5.0, 6, 7, 8, 9]), changes(who), log, step="samples", source="f"
    )
    assert block.tolist() == [0, 0, 1, 1, 2] and len(log) == 0


def test_trials_are_runs_and_names_that_come_back_stay_apart() -> None:
    names = pd.Series(["a", "a", None, "b", "a"], dtype="str")
    who = pd.Series(["P01"] * 5, dtype="str")
    time, block, log = np.arange(5.0), np.zeros(5, int), LossLog()
    trial, trials = trials_of(names, block, who, time, log)
    assert trials is not None and trials["trial"].tolist() == ["a", "b", "a (2)"]
    assert trials["start"].tolist() == [0, 3, 4] and trials["end"].tolist() == [1, 3, 4]
    assert trial.fillna("-").tolist() == ["a", "a", "-", "b", "a (2)"]
    assert log.count("trials", "note") == 1
    at = trial_at(np.array([0.5, 2.0, 4.0, 9.0]), np.zeros(4, int), trials)
    assert at.fillna("-").tolist() == ["a", "-", "a (2)", "-"]


@pytest.mark.parametrize("names", [["a", "b", "a", "a (2)"], ["a (2)", "a", "b", "a"]])
def test_trial_ids_are_unique(names: list[str]) -> None:
    text = pd.Series(names, dtype="str")
    who = pd.Series(["P"] * 4, dtype="str")
    _, trials = trials_of(text, np.zeros(4, int), who, np.arange(4.0), LossLog())
    assert trials is not None and trials["trial"].is_unique and len(trials) == 4


# ---------------------------------------------------------------- positions


def test_b37_off_screen_is_counted_and_kept() -> None:
    table = pd.DataFrame({"x": [639.4, 640.0, -0.2, 300], "y": [10.0, 10, 10, 479.9]})
    log = LossLog()
    review_positions(table, (640, 480), log, "samples")
    assert log.count("samples", "note") == 2 and len(table) == 4


@pytest.mark.parametrize("screen", [(1920.0, 1080.0), None])
def test_b43_degrees_are_doubted(screen: tuple[float, float] | None) -> None:
    for small, doubts in ((10.0, 1), (45.0, 1), (46.0, 0)):
        log = LossLog()
        table = pd.DataFrame({"x_left": [small, -small, np.nan], "y_left": [1.0, 2, 3]})
        review_positions(table, screen, log, "samples")
        assert sum("degrees" in x.reason for x in log) == doubts


def test_b28_nothing_valid_raises_with_reasons() -> None:
    log = LossLog()
    log.add("samples", "undefined", "left eye flagged invalid", 3)
    table = pd.DataFrame({"x": [np.nan] * 3})
    with pytest.raises(DataError, match=r"0 of 3 rows valid.*left eye flagged invalid: 3"):
        require_valid(table, ["x"], log, "f")


# ---------------------------------------------------------------- all readers


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_b22_files_are_recognised_and_read_in_every_encoding(
    tmp_path: Path, kind: str, encoding: str
) -> None:
    path = write(tmp_path, kind, encoding=encoding)
    plain = read(write(tmp_path / "plain", kind))
    assert identify(path) == plain.reader
    marked = read(path)
    for name, table in plain.tables().items():
        pd.testing.assert_frame_equal(table, getattr(marked, name))


@pytest.mark.parametrize("kind", EXAMPLES)
def test_line_ends_do_not_matter(tmp_path: Path, kind: str) -> None:
    plain = read(write(tmp_path, kind))
    dos = read(write(tmp_path, kind, EXAMPLES[kind][1].replace("\n", "\r\n")))
    for name, table in plain.tables().items():
        pd.testing.assert_frame_equal(table, getattr(dos, name))


@pytest.mark.parametrize("kind", EXAMPLES)
def test_header_alone_is_an_error(tmp_path: Path, kind: str) -> None:
    text = EXAMPLES[kind][1]
    lines = text.splitlines(keepends=True)
    if kind == "smi":
        lines = lines[:13]
    elif kind == "smi events":
        lines = lines[:-6]
    else:
        lines = lines[:1]
    path = write(tmp_path, kind, "".join(lines))
    with pytest.raises(DataError, match=r"no rows|0 of 0 rows"):
        read(path)


@pytest.mark.parametrize("kind", ["tobii", "gazepoint", "smi", "smi statistics"])
def test_b32_legacy_bytes_need_the_encoding(tmp_path: Path, kind: str) -> None:
    text = EXAMPLES[kind][1].replace("page", "p\u2019age").replace("μ", "\u00b5")
    path = write(tmp_path, kind, text, encoding="cp1252")
    reader = read(write(tmp_path / "plain", kind)).reader
    with pytest.raises(DataError, match=r"byte 0x.. at offset \d+"):
        read(path, reader)
    recording = read(path, reader, encoding="cp1252")
    assert recording.trials is not None
    assert any("p\u2019age" in str(s) for s in recording.trials["stimulus"])


def mutate(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(out)) if out else 0
        kind = rng.randrange(7)
        if kind == 0:
            out[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del out[at : at + rng.randint(1, 40)]
        elif kind == 2:
            out[at:at] = out[at : at + rng.randint(1, 60)]
        elif kind == 3:
            words = [b"\t", b"\n", b'"', b",", b"nan", b"-1e400", b"1e308", b"\x00", b"[", b"\xff"]
            out[at:at] = rng.choice(words)
        elif kind == 4:
            del out[at:]
        elif kind == 5:
            out[at : at + 1] = rng.choice([b"9", b"-", b".", b"e", b"x", b" "])
        else:
            lines = bytes(out).split(b"\n")
            rng.shuffle(lines)
            out = bytearray(b"\n".join(lines))
    return bytes(out)


@pytest.mark.slow
def test_mutated_files_raise_nothing_but_data_errors(tmp_path: Path) -> None:
    seconds = float(os.environ.get("GAZEATTN_FUZZ_SECONDS", "5"))
    rng = random.Random(20240601)
    kinds = {k: read(write(tmp_path, k)).reader for k in EXAMPLES}
    end, runs, failed = clock.monotonic() + seconds, 0, 0
    while clock.monotonic() < end:
        for kind, reader in kinds.items():
            name, text = EXAMPLES[kind]
            data = mutate(text.encode(), rng)
            path = tmp_path / name
            path.write_bytes(data)
            try:
                read(path, reader, screen=(1920, 1080) if rng.random() < 0.5 else None)
            except DataError:
                failed += 1
            except Exception as error:
                raise AssertionError(f"{kind}: {type(error).__name__} for {data!r}") from error
            runs += 1
    assert 0 < failed < runs
