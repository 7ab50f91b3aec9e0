"""EyeLink ASC files: layouts, eyes, events, trials, header, damage; numbers worked out by hand."""

from __future__ import annotations

import gzip
import os
import random
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn import readers
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.readers import _asc_lines
from gazeattn.readers.eyelink_asc import read_asc, recognises
from gazeattn.recordings import Recording

NAN = np.nan


def asc(folder: Path, text: str | bytes, name: str = "P01.asc", **options: Any) -> Any:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return readers.read(path, reader="eyelink_asc", **options)


def column(recording: Recording, name: str) -> list[float]:
    assert recording.samples is not None
    return recording.samples[name].tolist()


def same(found: list[float], expected: list[float]) -> bool:
    return bool(np.array_equal(np.array(found, float), np.array(expected, float), equal_nan=True))


def count(recording: Recording, words: str) -> int:
    return sum(loss.count for loss in recording.lost if words in loss.reason)


def block(start: int, rows: str, eyes: str = "RIGHT", header: str = "") -> str:
    """Return a recording block that ends one after its last row."""
    last = [r for r in rows.splitlines() if r[:1].isdigit()]
    end = int(float(last[-1].split()[0])) + 1 if last else start
    return (
        f"START\t{start} \t{eyes}\tSAMPLES\tEVENTS\n{header}{rows}"
        f"END\t{end} \tSAMPLES\tEVENTS\tRES\t  38.00\t  31.00\n"
    )


ROWS = "100\t  512.0\t  384.0\t  700.0\t...\n101\t  513.0\t  384.5\t  701.0\t...\n"


class TestSampleLayouts:
    """The cells of a sample line, by what the header says and what the rows hold."""

    @pytest.mark.parametrize("pupil", ["0.0", "0", ".", "   0.0"])
    @pytest.mark.parametrize("dot", [".", "   .", "\t .  ".strip("\t")])
    def test_lone_dot_is_missing(self, tmp_path: Path, dot: str, pupil: str) -> None:
        rows = (
            "100\t  512.0\t  384.0\t  700.0\t...\n"
            f"101\t{dot}\t{dot}\t{pupil}\t...\n"
            "102\t  513.0\t  384.5\t  701.0\t...\n"
        )
        recording = asc(tmp_path, block(100, rows))
        assert same(column(recording, "x_right"), [512.0, NAN, 513.0])
        assert same(column(recording, "y_right"), [384.0, NAN, 384.5])
        assert same(column(recording, "pupil_right"), [700.0, NAN, 701.0])
        for name in ("x_right", "y_right", "pupil_right"):
            assert recording.samples[name].dtype == np.float64

    def test_pupil_zero_with_a_position_stays(self, tmp_path: Path) -> None:
        rows = "100\t 1.0\t 2.0\t 0.0\t...\n101\t .\t .\t 0.0\t...\n"
        recording = asc(tmp_path, block(100, rows))
        assert same(column(recording, "pupil_right"), [0.0, NAN])
        assert count(recording, "pupil 0 without a position") == 1

    def test_both_eyes_keep_their_columns(self, tmp_path: Path) -> None:
        rows = (
            "100\t  512.0\t  384.0\t  700.0\t   .\t   .\t    0.0\t.....\n"
            "101\t   .\t   .\t    0.0\t  20.0\t  30.0\t  600.0\t.C...\n"
        )
        recording = asc(tmp_path, block(100, rows, "LEFT\tRIGHT"))
        for name, values in {
            "x_left": [512.0, NAN],
            "y_left": [384.0, NAN],
            "pupil_left": [700.0, NAN],
            "x_right": [NAN, 20.0],
            "y_right": [NAN, 30.0],
            "pupil_right": [NAN, 600.0],
        }.items():
            assert same(column(recording, name), values), name
        assert recording.info["eyes"] == ["left", "right"]
        assert recording.samples["status"].astype(str).tolist() == [".....", ".C..."]

    @pytest.mark.parametrize("promised", ["", "\tINPUT"])
    def test_input_before_the_flags_is_no_pupil(self, tmp_path: Path, promised: str) -> None:
        header = f"SAMPLES\tGAZE\tLEFT\tRATE\t1000.00\tTRACKING\tCR\tFILTER\t2{promised}\n"
        rows = "147946\t 1006.9\t 1189.0\t  441.0\t  127.0\t...\n"
        recording = asc(tmp_path, block(147946, rows, "LEFT", header))
        assert column(recording, "x_left") == [1006.9]
        assert column(recording, "y_left") == [1189.0]
        assert column(recording, "pupil_left") == [441.0]
        assert column(recording, "input") == [127.0]
        assert "x_right" not in recording.samples and "pupil_right" not in recording.samples

    def test_input_of_both_eyes(self, tmp_path: Path) -> None:
        rows = "100\t 1.0\t 2.0\t 3.0\t 4.0\t 5.0\t 6.0\t 127.0\t.....\n"
        recording = asc(tmp_path, block(100, rows, "LEFT\tRIGHT"))
        assert column(recording, "pupil_right") == [6.0]
        assert column(recording, "input") == [127.0]

    def test_velocity_and_resolution(self, tmp_path: Path) -> None:
        header = "SAMPLES\tGAZE\tLEFT\tVEL\tRES\tRATE\t 500.00\tTRACKING\tCR\tFILTER\t2\tINPUT\n"
        rows = "100\t 1.0\t 2.0\t 3.0\t -4.5\t 5.5\t 38.1\t 31.2\t 7.0\t...\n"
        recording = asc(tmp_path, block(100, rows, "LEFT", header))
        found = {c: column(recording, c)[0] for c in recording.samples.columns[3:11]}
        assert found == {
            "time": 100,
            "x_left": 1,
            "y_left": 2,
            "pupil_left": 3,
            "velocity_x_left": -4.5,
            "velocity_y_left": 5.5,
            "resolution_x": 38.1,
            "resolution_y": 31.2,
        }
        assert column(recording, "input") == [7.0]

    def test_velocity_of_both_eyes(self, tmp_path: Path) -> None:
        header = "SAMPLES\tGAZE\tLEFT\tRIGHT\tVEL\tRATE\t 500.00\tTRACKING\tCR\n"
        rows = "100\t 1.0\t 2.0\t 3.0\t 4.0\t 5.0\t 6.0\t .1\t .2\t .3\t .4\t.....\n"
        recording = asc(tmp_path, block(100, rows, "LEFT\tRIGHT", header))
        assert column(recording, "x_right") == [4.0]
        assert column(recording, "velocity_x_left") == [0.1]
        assert column(recording, "velocity_y_right") == [0.4]

    @pytest.mark.parametrize("gap", ["\t", " ", "\t "])
    @pytest.mark.parametrize("port", ["", "  127.0\t"])
    def test_head_target_after_the_flags(self, tmp_path: Path, gap: str, port: str) -> None:
        header = "SAMPLES\tGAZE\tLEFT\tHTARGET\tRATE\t 500.00\tTRACKING\tCR\tFILTER\t2\tINPUT\n"
        rows = (
            f"100\t 1924.3\t  557.2\t  247.0\t{port}... \t 4583.0\t 6891.0\t  575.3{gap}"
            ".............\n"
            f"102\t   .\t   .\t    0.0\t{port}.C. \t   .\t   .\t   .{gap}M....CF.B.RTB\n"
        )
        recording = asc(tmp_path, block(100, rows, "LEFT", header))
        assert same(column(recording, "x_left"), [1924.3, NAN])
        assert same(column(recording, "target_x"), [4583.0, NAN])
        assert same(column(recording, "target_y"), [6891.0, NAN])
        assert same(column(recording, "target_distance"), [575.3, NAN])
        assert recording.samples["target_status"].astype(str)[1] == "M....CF.B.RTB"
        assert ("input" in recording.samples) == bool(port)

    @pytest.mark.parametrize(
        ("flags", "missing"),
        [
            ("HTARGET", "HTARGET"),
            ("VEL", "VEL"),
            ("RES", "RES"),
            ("VEL\tRES\tHTARGET", "VEL, RES, HTARGET"),
            ("INPUT", "INPUT"),
        ],
    )
    def test_columns_promised_but_absent(self, tmp_path: Path, flags: str, missing: str) -> None:
        header = f"SAMPLES\tGAZE\tLEFT\t{flags}\tRATE\t 500.00\tTRACKING\tCR\tFILTER\t2\n"
        recording = asc(tmp_path, block(100, ROWS, "LEFT", header))
        assert column(recording, "x_left") == [512.0, 513.0]
        assert count(recording, f"promises {missing} but") == 1

    def test_pupil_only_tracking_has_one_dot(self, tmp_path: Path) -> None:
        header = "SAMPLES\tGAZE\tLEFT\tRIGHT\tRATE\t 250.00\tTRACKING\tP\tFILTER\t2\n"
        rows = (
            "100\t   .\t   .\t    0.0\t   .\t   .\t    0.0\t.\n"
            "104\t  1.0\t  2.0\t  3.0\t  4.0\t  5.0\t  6.0\t.\n"
        )
        recording = asc(tmp_path, block(100, rows, "LEFT\tRIGHT", header))
        assert same(column(recording, "pupil_right"), [NAN, 6.0])
        assert "input" not in recording.samples and not count(recording, "no header line")

    def test_some_rows_without_flags_or_input(self, tmp_path: Path) -> None:
        rows = (
            "100\t 1.0\t 2.0\t 3.0\t 127.0\t...\n101\t 1.0\t 2.0\t 3.0\t 127.0\t...\n"
            "102\t 1.5\t 2.5\t 3.5\n103\t 1.6\t 2.6\t 3.6\t 7.0\n104\t .\t .\t .\n"
        )
        recording = asc(tmp_path, block(100, rows, "LEFT"))
        assert same(column(recording, "x_left"), [1.0, 1.0, 1.5, 1.6, NAN])
        assert same(column(recording, "input"), [127, 127, NAN, 7, NAN])
        assert recording.samples["status"].isna().tolist() == [False, False, True, True, True]

    def test_without_flags(self, tmp_path: Path) -> None:
        rows = "100\t  512.0\t  384.0\t  700.0\n101\t .\t .\t .\n"
        recording = asc(tmp_path, block(100, rows, "LEFT"))
        assert same(column(recording, "pupil_left"), [700.0, NAN])

    def test_blanks_instead_of_tabs_and_padded_lines(self, tmp_path: Path) -> None:
        plain = asc(tmp_path, block(100, ROWS))
        for change in (
            ROWS.replace("\t", " "),
            ROWS.replace("\t", " \t "),
            ROWS.replace("\n", " \t\n"),
        ):
            pd.testing.assert_frame_equal(asc(tmp_path, block(100, change)).samples, plain.samples)
        padded = "".join(f"  {line}\n" for line in block(100, ROWS).splitlines())
        pd.testing.assert_frame_equal(asc(tmp_path, padded).samples, plain.samples)

    def test_href_is_not_given_as_pixels(self, tmp_path: Path) -> None:
        header = "SAMPLES\tHREF\tLEFT\tRATE\t 500.00\tTRACKING\tCR\tFILTER\t2\n"
        recording = asc(tmp_path, block(100, ROWS, "LEFT", header))
        assert "x_left" not in recording.samples
        assert column(recording, "href_x_left") == [512.0, 513.0]
        assert count(recording, "HREF data") == 1

    def test_other_missing_mark(self, tmp_path: Path) -> None:
        rows = "100\t 1.0\t 2.0\t 3.0\t...\n101\t -1e6\t -1e6\t 0.0\t...\n"
        recording = asc(tmp_path, block(100, rows), missing=["-1e6"])
        assert same(column(recording, "x_right"), [1.0, NAN])

    def test_samples_only_file(self, tmp_path: Path) -> None:
        recording = asc(tmp_path, ROWS + "900\t 1.0\t 2.0\t 3.0\t...\n")
        assert column(recording, "x") == [512.0, 513.0, 1.0]
        assert column(recording, "block") == [0, 0, 1]
        assert recording.info["eyes"] == []

    def test_samples_only_file_of_both_eyes(self, tmp_path: Path) -> None:
        recording = asc(tmp_path, "100\t 1.0\t 2.0\t 3.0\t 4.0\t 5.0\t 6.0\t.....\n")
        assert column(recording, "x_right") == [4.0]

    def test_lines_of_dots_part_samples(self, tmp_path: Path) -> None:
        recording = asc(tmp_path, ROWS + ".\t .\t .\t .\t...\n900\t 1.0\t 2.0\t 3.0\t...\n")
        assert column(recording, "block") == [0, 0, 1]
        assert recording.info["unparsed"]["count"] == 0

    def test_header_with_one_eye_but_rows_of_two(self, tmp_path: Path) -> None:
        rows = "100\t 1.0\t 2.0\t 3.0\t 4.0\t 5.0\t 6.0\t.....\n"
        recording = asc(tmp_path, block(100, rows, "LEFT"))
        assert column(recording, "x_left") == [1.0] and column(recording, "x_right") == [4.0]
        assert count(recording, "rows hold two") == 1

    def test_numbers_that_nothing_names_are_kept_apart(self, tmp_path: Path) -> None:
        rows = "100\t 1.0\t 2.0\t 3.0\t 4.0\t 5.0\t...\n"
        recording = asc(tmp_path, block(100, rows, "LEFT"))
        assert column(recording, "extra_1") == [4.0] and column(recording, "extra_2") == [5.0]
        assert "input" not in recording.samples
        assert count(recording, "kept as extra columns") == 1

    def test_header_with_two_eyes_but_rows_of_one(self, tmp_path: Path) -> None:
        recording = asc(tmp_path, block(100, ROWS, "LEFT\tRIGHT"))
        assert column(recording, "x") == [512.0, 513.0]
        assert count(recording, "eye not stated") == 1


class TestTimes:
    @pytest.mark.parametrize("rate", [250, 500, 1000, 2000])
    def test_rates(self, tmp_path: Path, rate: int) -> None:
        times = 100 + np.arange(8) * 1000 / rate
        rows = "".join(f"{t:.1f}\t 1.0\t 2.0\t 3.0\t...\n" for t in times)
        header = f"SAMPLES\tGAZE\tLEFT\tRATE\t{rate:7.2f}\tTRACKING\tCR\tFILTER\t2\n"
        recording = asc(tmp_path, block(100, rows, "LEFT", header))
        assert column(recording, "time") == times.tolist()
        assert recording.info["rate"] == rate
        assert not count(recording, "rate") and not count(recording, "gap")

    def test_two_samples_of_one_millisecond_at_2000(self, tmp_path: Path) -> None:
        rows = "".join(f"{t}\t {k}.0\t 2.0\t 3.0\t...\n" for t in (100, 101) for k in (1, 2))
        text = "MSG\t99 RECCFG CR 2000 2 1 L\n" + block(100, rows, "LEFT")
        recording = asc(tmp_path, text)
        assert column(recording, "time") == [100.0, 100.5, 101.0, 101.5]
        assert count(recording, "half a millisecond") == 2

    @pytest.mark.parametrize("only_samples", [False, True])
    def test_pairs_of_samples_without_a_stated_rate(
        self, tmp_path: Path, only_samples: bool
    ) -> None:
        rows = "".join(f"{t}\t {k}.0\t 2.0\t 3.0\t...\n" for t in (100, 101, 102) for k in (1, 2))
        recording = asc(tmp_path, rows if only_samples else block(100, rows, "LEFT"))
        assert column(recording, "time") == [100, 100.5, 101, 101.5, 102, 102.5]
        assert recording.info["rate"] == 2000

    def test_same_time_at_another_rate_is_only_reported(self, tmp_path: Path) -> None:
        rows = "100\t 1.0\t 2.0\t 3.0\t...\n100\t 1.5\t 2.0\t 3.0\t...\n"
        recording = asc(tmp_path, "MSG\t99 RECCFG CR 1000 2 1 L\n" + block(100, rows, "LEFT"))
        assert column(recording, "time") == [100.0, 100.0]
        assert count(recording, "same time") == 1

    def test_steps_back_keep_the_order_of_the_file(self, tmp_path: Path) -> None:
        rows = "".join(f"{t}\t 1.0\t 2.0\t 3.0\t...\n" for t in (100, 102, 101, 103))
        recording = asc(tmp_path, block(100, rows))
        assert column(recording, "time") == [100, 102, 101, 103]
        assert count(recording, "steps back") == 1

    def test_rate_from_times_and_wrong_rate(self, tmp_path: Path) -> None:
        rows = "".join(f"{t}\t 1.0\t 2.0\t 3.0\t...\n" for t in range(100, 120, 4))
        assert asc(tmp_path, block(100, rows)).info["rate"] == 250
        wrong = asc(tmp_path, "MSG\t99 RECCFG CR 1000 2 1 L\n" + block(100, rows))
        assert count(wrong, "do not come at the stated rate") == 1


class TestBlocks:
    @pytest.mark.parametrize("first", ["LEFT", "RIGHT", "LEFT\tRIGHT"])
    def test_tracked_eye_changes(self, tmp_path: Path, first: str) -> None:
        other = "RIGHT" if first == "LEFT" else "LEFT"
        both = "\t" in first
        row = "100\t 1.0\t 2.0\t 3.0\t" + (" 4.0\t 5.0\t 6.0\t.....\n" if both else "...\n")
        text = block(100, row, first) + block(500, "500\t 7.0\t 8.0\t 9.0\t...\n", other)
        recording = asc(tmp_path, text)
        old, new = first.split("\t")[0].lower(), other.lower()
        assert same(column(recording, f"x_{new}"), [1.0 if both else NAN, 7.0])
        if not both:
            assert same(column(recording, f"x_{old}"), [1.0, NAN])
        assert column(recording, "block") == [0, 1]
        assert count(recording, "tracked eye changes") == 1

    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_block_without_any_sample(self, tmp_path: Path, place: int) -> None:
        full = ["MSG\t90 TRIALID 1\n" + block(100, ROWS), block(900, "900\t1.0\t2.0\t3.0\t...\n")]
        empty = "START\t50 \tRIGHT\tSAMPLES\tEVENTS\nEND\t50 \tSAMPLES\tEVENTS\tRES\t 1.0\t 1.0\n"
        full.insert(place, empty)
        recording = asc(tmp_path, "".join(full))
        blocks = [k for k in range(3) if k != place]
        assert column(recording, "block") == [blocks[0]] * 2 + [blocks[1]]
        assert [b["samples"] for b in recording.info["blocks"]].count(0) == 1
        assert count(recording, "block without any sample") == 1

    def test_no_end_and_no_start(self, tmp_path: Path) -> None:
        open_end = asc(tmp_path, block(100, ROWS).split("END")[0])
        assert len(open_end.samples) == 2 and open_end.info["blocks"][0]["end"] is None
        assert count(open_end, "without END") == 1
        rest = ROWS + "END\t102 \tSAMPLES\tEVENTS\tRES\t 1.0\t 1.0\n"
        recording = asc(tmp_path, rest + block(900, "900\t1.0\t2.0\t3.0\t...\n"))
        assert recording.samples["block"].isna().tolist() == [True, True, False]
        assert count(recording, "END without START") == 1
        assert count(recording, "outside START and END") == 2

    def test_gap_between_blocks_is_no_gap_within(self, tmp_path: Path) -> None:
        rows = "".join(f"{t}\t 1.0\t 2.0\t 3.0\t...\n" for t in (100, 101, 102))
        later = rows.replace("10", "90", 3)
        recording = asc(tmp_path, block(100, rows) + block(900, later))
        assert column(recording, "block") == [0] * 3 + [1] * 3
        assert count(recording, "gap within") == 0
        within = asc(tmp_path, block(100, rows + later))
        assert count(within, "gap within") == 1

    def test_clock_set_back(self, tmp_path: Path) -> None:
        text = block(900, "900\t1.0\t2.0\t3.0\t...\n") + block(100, ROWS)
        recording = asc(tmp_path, text)
        assert column(recording, "time") == [900, 100, 101]
        assert count(recording, "clock was set back") == 1

    @pytest.mark.parametrize(
        ("words", "facts"),
        [
            ("CR 1000 2 1 R", ("CR", 1000, 2, 1, None, None, ["right"])),
            ("CR 1000 2 1 2 1 R", ("CR", 1000, 2, 1, 2, 1, ["right"])),
            ("CR 500 0 0 LR", ("CR", 500, 0, 0, None, None, ["left", "right"])),
            ("P 250 1 1 L", ("P", 250, 1, 1, None, None, ["left"])),
            ("CR 2000 2 1 RL", ("CR", 2000, 2, 1, None, None, ["left", "right"])),
        ],
    )
    def test_recording_line(self, tmp_path: Path, words: str, facts: tuple[object, ...]) -> None:
        text = f"MSG\t1000 RECCFG {words}\nSTART\t1001 \tSAMPLES\tEVENTS\nEND\t1001 \tSAMPLES\n"
        found = asc(tmp_path, text).info["blocks"][0]
        keys = "mode rate file_filter link_filter file_event_filter link_event_filter eyes"
        assert tuple(found.get(k) for k in keys.split()) == facts

    def test_samples_line_names_the_eyes_of_the_rows(self, tmp_path: Path) -> None:
        header = "SAMPLES\tGAZE\tRIGHT\tRATE\t1000.00\tTRACKING\tCR\tFILTER\t2\n"
        recording = asc(tmp_path, block(100, ROWS, "LEFT\tRIGHT", header))
        assert column(recording, "x_right") == [512.0, 513.0]
        assert count(recording, "different eyes") == 1


class TestEvents:
    def test_duration_is_inclusive(self, tmp_path: Path) -> None:
        text = block(100, "EFIX R   100\t299\t200\t  512.0\t  384.0\t    700\n" + ROWS)
        fixation = asc(tmp_path, text).fixations.iloc[0]
        assert (fixation.onset, fixation.duration, fixation.eye) == (100, 200, "right")
        assert fixation.onset + fixation.duration == 300
        assert (fixation.x, fixation.y, fixation.pupil) == (512.0, 384.0, 700)

    @pytest.mark.parametrize(("rate", "end", "length"), [(1000, 299, 200), (500, 298, 200)])
    def test_duration_that_is_not_stated(
        self, tmp_path: Path, rate: int, end: int, length: int
    ) -> None:
        line = f"EFIX R   100\t{end}\t.\t  512.0\t  384.0\t    700\n"
        text = f"MSG\t99 RECCFG CR {rate} 2 1 R\n" + block(100, line + ROWS)
        assert asc(tmp_path, text).fixations.duration.tolist() == [length]

    def test_events_of_both_eyes(self, tmp_path: Path) -> None:
        lines = (
            "SBLINK L 100\nSBLINK R 100\nEBLINK L 100\t150\t51\nEBLINK R 100\t160\t61\n"
            "SSACC L  90\nESACC L  90\t170\t81\t 1.0\t 2.0\t 3.0\t 4.0\t  5.50\t    301\n"
            "SSACC R  90\nESACC R  90\t171\t82\t   .\t   .\t 3.0\t 4.0\t   .\t    .\n"
        )
        recording = asc(tmp_path, block(80, lines + ROWS, "LEFT\tRIGHT"))
        assert recording.blinks.eye.tolist() == ["left", "right"]
        assert recording.blinks.duration.tolist() == [51, 61]
        left, right = (recording.saccades.iloc[k] for k in (0, 1))
        assert (left.x_start, left.y_end, left.amplitude, left.peak_velocity) == (1, 4, 5.5, 301)
        assert np.isnan(right.x_start) and np.isnan(right.amplitude) and right.x_end == 3
        assert not count(recording, "unmatched")

    def test_events_with_resolution(self, tmp_path: Path) -> None:
        line = "EFIX L 100\t200\t101\t 1.0\t 2.0\t 3.0\t 38.1\t 31.2\n"
        fixation = asc(tmp_path, block(100, line + ROWS, "LEFT")).fixations.iloc[0]
        assert (fixation.pupil, fixation.resolution_x, fixation.resolution_y) == (3, 38.1, 31.2)

    def test_samples_within_a_blink(self, tmp_path: Path) -> None:
        rows = "".join(f"{t}\t 1.0\t 2.0\t 3.0\t 4.0\t 5.0\t 6.0\t.....\n" for t in range(100, 106))
        lines = "SBLINK L 101\n" + rows + "EBLINK L 101\t103\t3\nEBLINK R 105\t105\t1\n"
        recording = asc(tmp_path, block(100, lines, "LEFT\tRIGHT"))
        assert column(recording, "blink_left") == [False, True, True, True, False, False]
        assert column(recording, "blink_right") == [False] * 5 + [True]

    def test_no_blinks_among_the_events(self, tmp_path: Path) -> None:
        with_events = asc(tmp_path, block(100, ROWS + "EFIX R 100\t101\t2\t 1.0\t 2.0\t 3\n"))
        assert column(with_events, "blink_right") == [False, False]
        assert "blink_right" not in asc(tmp_path, block(100, ROWS)).samples

    def test_blink_of_another_block_at_the_same_time(self, tmp_path: Path) -> None:
        blinks = ROWS + "SBLINK R 100\nEBLINK R 100\t101\t2\n"
        recording = asc(tmp_path, block(100, ROWS) + block(100, blinks))
        assert column(recording, "blink_right") == [False, False, True, True]

    @pytest.mark.parametrize(
        ("line", "table"),
        [
            ("EBLINK R 100\t150\t51\n", "blinks"),
            ("EFIX R 100\t150\t51\t 1.0\t 2.0\t 3.0\n", "fixations"),
            ("ESACC R 100\t150\t51\t 1.0\t 2.0\t 3.0\t 4.0\t 5.0\t 6.0\n", "saccades"),
        ],
    )
    def test_end_that_never_began(self, tmp_path: Path, line: str, table: str) -> None:
        rows = "".join(f"{t}\t 1.0\t 2.0\t 3.0\t...\n" for t in (100, 200))
        text = block(100, f"{line}MSG\t160 show_page 7\n{rows}")
        recording = asc(tmp_path, text, trial_pattern=r"show_page (?P<trial>\d+)")
        event = recording.tables()[table].iloc[0]
        assert (event.onset, event.duration) == (100, 51)
        assert pd.isna(event.trial)
        assert count(recording, "unmatched end") == 1
        assert recording.samples["trial"].tolist() == ["7", "7"]

    @pytest.mark.parametrize("line", ["SBLINK R 100\n", "SFIX R 100\n", "SSACC R   100\n"])
    def test_start_whose_end_is_cut_off(self, tmp_path: Path, line: str) -> None:
        text = block(100, line + ROWS).split("END")[0]
        recording = asc(tmp_path, text)
        assert recording.blinks is recording.fixations is recording.saccades is None
        assert count(recording, "unmatched start") == 1

    def test_event_belongs_to_the_trial_in_which_it_began(self, tmp_path: Path) -> None:
        lines = "MSG\t100 TRIALID a\nSFIX R 100\n" + ROWS + "MSG\t150 TRIALID b\n"
        end = "EFIX R 100\t160\t61\t 1.0\t 2.0\t 3.0\n"
        assert asc(tmp_path, block(90, lines + end)).fixations.trial.tolist() == ["a"]
        without = lines.replace("SFIX R 100\n", "") + end
        assert asc(tmp_path, block(90, without)).fixations.trial.tolist() == ["a"]

    def test_events_only_file(self, tmp_path: Path) -> None:
        line = "EFIX R 100\t299\t200\t 1.0\t 2.0\t 3.0\n"
        text = f"START\t100 \tRIGHT\tEVENTS\n{line}END\t300 \tEVENTS\n"
        recording = asc(tmp_path, text)
        assert recording.samples is None and len(recording.fixations) == 1
        assert not count(recording, "without any sample")


class TestTrials:
    TEXT = (
        "MSG\t500 TRIALID 8\n"
        + block(510, "510\t 1.0\t 2.0\t 3.0\t...\n")
        + "MSG\t900 !V TRIAL_VAR itemnr 199\nMSG\t901 !V TRIAL_VAR answer .\n"
        "MSG\t902 TRIAL_RESULT 0\nMSG\t903 !V TRIAL_VAR word zwei Worte\n"
        "MSG\t950 TRIALID 9\n" + block(960, "960\t 4.0\t 5.0\t 6.0\t...\n")
    )

    def test_variables_after_the_trial(self, tmp_path: Path) -> None:
        recording = asc(tmp_path, self.TEXT)
        trials = recording.trials.set_index("trial")
        assert trials.itemnr["8"] == "199" and pd.isna(trials.itemnr["9"])
        assert trials.answer.isna().all()
        assert trials.word["8"] == "zwei Worte" and pd.isna(trials.word["9"])
        assert trials.result["8"] == "0" and pd.isna(trials.result["9"])
        assert (trials.start["8"], trials.end["8"]) == (500, 902) and np.isnan(trials.end["9"])
        assert trials.block.tolist() == [0, 1]
        assert column(recording, "trial") == ["8", "9"]
        joined = recording.samples.merge(recording.trials, on="trial")
        assert len(joined) == 2 and joined.itemnr[0] == "199"

    def test_nothing_outside_a_trial(self, tmp_path: Path) -> None:
        text = block(100, ROWS) + self.TEXT.split("MSG\t950")[0] + block(990, ROWS)
        recording = asc(tmp_path, text)
        assert recording.samples["trial"].isna().tolist() == [True, True, False, True, True]
        assert recording.messages["trial"].notna().tolist() == [True] * 4 + [False]

    @pytest.mark.parametrize(
        ("repeated", "trials", "xs"),
        [
            ("both", ["3", "3#2", "4"], [1, 2, 9]),
            ("first", ["3", "4"], [1, 9]),
            ("last", ["3", "4"], [2, 9]),
        ],
    )
    def test_same_trial_id_twice(
        self, tmp_path: Path, repeated: str, trials: list[str], xs: list[float]
    ) -> None:
        text = "".join(
            f"MSG\t{t} TRIALID {n}\n"
            + block(
                t, f"SFIX R {t}\n{t}\t {x}.0\t 2.0\t 3.0\t...\nEFIX R {t}\t{t}\t1\t {x}\t 2\t 3\n"
            )
            for t, n, x in ((100, 3, 1), (200, 3, 2), (300, 4, 9))
        )
        recording = asc(tmp_path, text, repeated=repeated)
        assert recording.trials.trial.tolist() == trials
        assert column(recording, "trial") == trials
        assert column(recording, "x_right") == xs
        assert recording.fixations.x.tolist() == xs
        assert count(recording, "trial id that was there before") == 1
        assert len(recording.samples.merge(recording.trials, on="trial")) == len(xs)
        assert count(recording, "another recording of a repeated") == (repeated != "both")

    def test_ids_stay_unique(self, tmp_path: Path) -> None:
        names = ["3", "3#2", "3", "", "3"]
        text = "".join(f"MSG\t{100 + k} TRIALID {n}\n" for k, n in enumerate(names))
        found = asc(tmp_path, text).trials.trial
        assert found.is_unique and found[:2].tolist() == ["3", "3#2"]

    @pytest.mark.parametrize(
        "text", ["TRIALID 8", "-3 TRIALID 8", "0 TRIALID 8", "TRIALID: 8", "TRIALID\t8 "]
    )
    def test_trial_message(self, tmp_path: Path, text: str) -> None:
        recording = asc(tmp_path, f"MSG\t500 {text}\n")
        assert recording.trials.trial.tolist() == ["8"]
        assert recording.messages.text.tolist() == [text.strip()]

    def test_no_trial_messages(self, tmp_path: Path) -> None:
        recording = asc(tmp_path, "MSG\t1 NO_TRIALID_HERE\n" + block(100, ROWS))
        assert recording.trials is None and recording.samples.trial.isna().all()
        assert count(recording, "no message begins a trial") == 1

    def test_labels_and_data(self, tmp_path: Path) -> None:
        text = (
            "MSG\t1 !V TRIAL_VAR_LABELS item answer\nMSG\t2 TRIALID 1\n"
            "MSG\t3 !V TRIAL_VAR_DATA 5 .\nMSG\t4 TRIALID 2\nMSG\t5 !V TRIAL_VAR_DATA 6 yes\n"
        )
        trials = asc(tmp_path, text).trials
        assert trials["item"].tolist() == ["5", "6"]
        assert trials.answer.isna().tolist() == [True, False]

    def test_variable_with_a_name_of_ours_or_set_twice(self, tmp_path: Path) -> None:
        text = (
            "MSG\t1 !V TRIAL_VAR early 1\nMSG\t2 TRIALID 1\nMSG\t3 !V TRIAL_VAR trial 77\n"
            "MSG\t3 !V TRIAL_VAR samples 5\nMSG\t3 !V TRIAL_VAR a 1\nMSG\t3 !V TRIAL_VAR a 2\n"
        )
        recording = asc(tmp_path, text)
        assert recording.trials.trial_variable.tolist() == ["77"]
        assert recording.trials.samples_variable.tolist() == ["5"]
        assert recording.trials.samples.tolist() == [0]
        assert recording.trials.a.tolist() == ["2"]
        assert count(recording, "set again") == 1
        assert count(recording, "before every trial") == 1

    def test_participant(self, tmp_path: Path) -> None:
        given = asc(tmp_path, self.TEXT, participant="007")
        for table in given.tables().values():
            assert (table.participant == "007").all()
        taken = asc(tmp_path, gzip.compress(self.TEXT.encode()), name="P02.ASC.gz")
        assert taken.trials.participant.tolist() == ["P02", "P02"]
        assert count(taken, "name of the file is taken") == 1


class TestHeader:
    def screen(self, folder: Path, *messages: str, **options: Any) -> Any:
        text = "".join(f"MSG\t1000 {m}\n" for m in messages)
        return asc(folder, text, **options)

    @pytest.mark.parametrize("name", ["GAZE_COORDS", "DISPLAY_COORDS"])
    @pytest.mark.parametrize("zero", ["0", "0.00"])
    def test_either_message_gives_the_screen(self, tmp_path: Path, name: str, zero: str) -> None:
        end = zero[1:]
        recording = self.screen(tmp_path, f"{name} {zero} {zero} 1919{end} 1079{end}")
        assert recording.info["screen"] == (1920, 1080)
        assert not count(recording, "one more")

    def test_last_pixel_written_as_the_size(self, tmp_path: Path) -> None:
        message = "GAZE_COORDS 0.00 0.00 1920.00 1080.00"
        plain = self.screen(tmp_path, message)
        assert plain.info["screen"] == (1921, 1081)
        assert count(plain, "one more than a usual resolution") == 1
        stated = self.screen(tmp_path, message, screen=(1920, 1080))
        assert stated.info["screen"] == (1920, 1080)
        assert count(stated, "one more than a usual resolution") == 1
        assert count(stated, "stated screen differs") == 1
        two = self.screen(tmp_path, message, "DISPLAY_COORDS 0 0 1919 1079")
        assert two.info["screen"] == (1920, 1080) and count(two, "differ") == 1

    def test_gaze_is_never_rescaled(self, tmp_path: Path) -> None:
        text = "MSG\t1 GAZE_COORDS 0.00 0.00 1920.00 1080.00\n" + block(100, ROWS)
        recording = asc(tmp_path, text, screen=(1920, 1080))
        assert column(recording, "x_right") == [512.0, 513.0]

    @pytest.mark.parametrize("screen", [(0, 10), (10.5, 3), (10,), "ab", (NAN, 1)])
    def test_bad_screen(self, tmp_path: Path, screen: object) -> None:
        with pytest.raises(DataError, match="screen"):
            self.screen(tmp_path, "x", screen=screen)

    @pytest.mark.parametrize(
        ("date", "expected"),
        [
            ("** DATE: Fri Aug 14 02:31:06 1990", "1990-08-14T02:31:06"),
            ("** DATE: Fri Aug  4 02:31:06 1990", "1990-08-04T02:31:06"),
            ("** DATE: ", None),
            ("** DATE:", None),
            ("** DATE: Fri Foo 99 02:31:06 1990", None),
            ("**", None),
        ],
    )
    def test_date(self, tmp_path: Path, date: str, expected: str | None) -> None:
        head = "** CONVERTED FROM a.edf using edfapi 3.1 on Fri Sep 14 16:46:04 2018\n"
        recording = asc(tmp_path, head + date + "\n** EYELINK II CL v4.594 Jul  6 2012\nMSG\t1 x\n")
        assert recording.info["date"] == expected
        assert recording.info["tracker"] == "EYELINK II CL v4.594 Jul  6 2012"
        assert bool(count(recording, "date")) == (expected is None and "DATE" in date)

    def test_calibration_lines_belong_to_their_message(self, tmp_path: Path) -> None:
        text = (
            "MSG\t130900 !CAL\n>>>>>>> CALIBRATION (HV9,P-CR) FOR LEFT: <<<<<<<<<\n"
            "MSG\t130900 !CAL eye check box: (L,R,T,B)\n\t  -59     5   -46   -17\n\n"
            "MSG\t130900 !CAL Cal coeff:\n   0.0002854  137.26\n   72.764 -6.3857\n\n"
            "INPUT\t134894\t127\nBUTTON\t134895\t5\t1\n# comment\n; comment\n// comment\n"
        ) + block(140000, "140000\t 1.0\t 2.0\t 3.0\t...\n")
        recording = asc(tmp_path, text)
        assert recording.messages.text[2] == "!CAL Cal coeff:\n0.0002854  137.26\n72.764 -6.3857"
        assert recording.info["unparsed"]["count"] == 0
        assert len(recording.samples) == 1
        assert recording.info["inputs"] == [[134894, 127]]
        assert recording.info["buttons"] == [[134895, 5, 1]]


class TestDamage:
    @pytest.mark.parametrize(
        "line",
        [
            "FOO\t123\tbar",
            "EFIX R 100",
            "EFIX X 100\t200\t101\t1\t2\t3",
            "EFIX R 300\t200\t101\t1\t2\t3",
            "MSG\tnever text",
            "MSG",
            "START\tx",
            "ESACC R   a\tb\tc",
            "   stray",
            "101\t  513.0",
            "101\t  513.0\t  384.0\t  7o0.0\t...",
            "101\t  513.0\t  384.0\t  700",
            "101\t  513.0\t  384.0\t  700.",
            "101\t  513.0\t  384.0",
            "101\t  513.0\t  384.0\t  700.0\t..7",
            "101\t  513.0\t  384.0\t  inf\t...",
            "1_1\t  513.0\t  384.0\t  700.0\t...",
            "101\t  513.0\t  384.0\t  700.0\t...101\t  513.0\t  384.0\t  700.0\t...",
        ],
    )
    def test_lines_not_understood_are_counted(self, tmp_path: Path, line: str) -> None:
        first, second = ROWS.splitlines(keepends=True)
        path = tmp_path / "a.asc"
        text = block(100, first + line + "\n" + second + "102\t 1.0\t 2.0\t 3.0\t...\nFOO\n")
        path.write_text(text)
        with pytest.warns(UserWarning, match=r"a\.asc: 2 lines not understood, first line 3") as w:
            recording = read_asc(path)
        assert len(w) == 1
        assert recording.info["unparsed"]["count"] == 2
        assert recording.info["unparsed"]["first"][0].split() == line.split()
        assert recording.lost.count(kind="dropped") == 2
        assert column(recording, "x_right") == [512.0, 513.0, 1.0]

    def test_line_ends(self, tmp_path: Path) -> None:
        plain = asc(tmp_path, TestTrials.TEXT)
        for end in ("\r\n", "\r", "\r\r\n"):
            other = asc(tmp_path, TestTrials.TEXT.replace("\n", end))
            for name, table in plain.tables().items():
                pd.testing.assert_frame_equal(other.tables()[name], table)

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
    def test_encodings_and_packing(self, tmp_path: Path, encoding: str) -> None:
        text = TestTrials.TEXT + "MSG\t999 Größe\n"
        recording = asc(tmp_path, text.encode(encoding))
        assert recording.messages.text.iloc[-1] == "Größe"
        packed = asc(tmp_path, gzip.compress(text.encode(encoding)), name="P01.asc.gz")
        pd.testing.assert_frame_equal(packed.samples, recording.samples)

    def test_bytes_of_messages(self, tmp_path: Path) -> None:
        text = b"MSG\t1 Gr\xf6\xdfe \x93x\x94\nMSG\t2 plain\n"
        recording = asc(tmp_path, text)
        assert recording.messages.text.tolist() == ["Größe “x”", "plain"]
        assert count(recording, "not UTF-8") == 1
        stated = asc(tmp_path, "MSG\t1 Größe\n".encode("cp1250"), encoding="cp1250")
        assert stated.messages.text.tolist() == ["Größe"]
        assert not count(stated, "not ")

    @pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
    def test_chunks_do_not_matter(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
    ) -> None:
        text = valid_file().replace(b"\n", b"\r\n")
        plain = asc(tmp_path, text)
        monkeypatch.setattr(_asc_lines, "CHUNK", size)
        other = asc(tmp_path, text)
        for name, table in plain.tables().items():
            pd.testing.assert_frame_equal(other.tables()[name], table)
        assert other.info == plain.info

    def test_cut_anywhere(self, tmp_path: Path) -> None:
        """A cut file gives the rows of the whole one, and never a shortened number."""
        text = valid_file()
        whole = asc(tmp_path, text).samples
        for stop in range(len(text) - 1, 60, -61):
            try:
                part = asc(tmp_path, text[:stop])
            except DataError:
                continue
            if part.samples is None:
                continue
            found = part.samples.merge(whole, on=["time", "x_left", "y_left", "pupil_left"])
            assert len(found) == len(part.samples), text[stop - 60 : stop]

    @pytest.mark.parametrize("text", ["", "\n\n", "hello\nworld\n", "\0\0\0\0\0\n", "1 2\n3 4\n"])
    def test_nothing_to_read(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(DataError):
            asc(tmp_path, text)

    def test_other_errors(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="no such file"):
            read_asc(tmp_path / "no.asc")
        with pytest.raises(DataError, match="folder"):
            read_asc(tmp_path)
        with pytest.raises(DataError, match="gzip"):
            asc(tmp_path, gzip.compress(valid_file())[:-40], name="a.asc.gz")
        with pytest.raises(DataError, match="regular expression"):
            asc(tmp_path, TestTrials.TEXT, trial_pattern="(")
        with pytest.raises(UnknownNameError, match="first"):
            asc(tmp_path, TestTrials.TEXT, repeated="frist")


class TestRecognised:
    @pytest.mark.parametrize(
        ("head", "name", "known"),
        [
            (b"** CONVERTED FROM a.edf using edfapi\n", "x.txt", True),
            (b"\xef\xbb\xbf** CONVERTED FROM a.edf\r\n", "x.asc", True),
            (b"** TYPE: EDF_FILE BINARY EVENT SAMPLE TAGGED\r", "x.asc", True),
            ("MSG\t100 TRIALID 1\n".encode("utf-16"), "x.asc", True),
            (b"START\t100 \tLEFT\tSAMPLES\tEVENTS\n", "x", True),
            (b"EFIX R   100\t299\t200\t 1.0\t 2.0\t 3\n", "x", True),
            (b"100\t  512.0\t  384.0\t  700.0\t...\n", "a.asc", True),
            (b"100\t   .\t   .\t    0.0\t...\n", "a.ASC.gz", True),
            (b"100\t  512.0\t  384.0\t  700.0\t...\n", "a.tsv", False),
            (b"ncols 4\nnrows 6\nxllcorner 0.0\n", "grid.asc", False),
            (b"participant,x,y\nMSG,1,2\n", "a.csv", False),
            (
                b"RECORDING_SESSION_LABEL\tSAMPLE_MESSAGE\nP01\tRECCFG CR 1000 2 1 R\n",
                "a.txt",
                False,
            ),
            (b"", "a.asc", False),
        ],
    )
    def test_heads(self, head: bytes, name: str, known: bool) -> None:
        assert recognises(head, name) is known

    def test_found_by_itself(self, tmp_path: Path) -> None:
        path = tmp_path / "P01.asc"
        path.write_bytes(valid_file())
        assert readers.identify(path) == "eyelink_asc"


@pytest.mark.parametrize("mark", ["", "!V ", "-5 ", "-5 !V "])
def test_trial_variables_with_and_without_the_mark(tmp_path: Path, mark: str) -> None:
    text = (
        f"MSG\t90 {mark}TRIAL_VAR_LABELS cond item resp\nMSG\t100 TRIALID 1\n"
        + block(1000, "1000\t1.0\t2.0\t3.0\t...\n")
        + f"MSG\t1101 {mark}TRIAL_VAR_DATA a 007 .\nMSG\t1102 {mark}TRIAL_VAR word two words\n"
        f"MSG\t1103 TRIAL_RESULT 0\nMSG\t1104 TRIALID 2\nMSG\t1105 {mark}TRIAL_VAR_DATA b 8\n"
        "MSG\t1106 TRIAL_VARIETY is none\nMSG\t1107 TRIAL_VAR_OTHER x\n"
    )
    r = asc(tmp_path, text)
    names = ["cond", "item", "resp", "word"]
    assert r.trials[names].fillna("-").to_numpy().tolist() == [
        ["a", "007", "-", "two words"],
        ["b", "8", "-", "-"],
    ]
    assert count(r, "does not fit TRIAL_VAR_LABELS") == 1
    assert not [c for c in r.trials if "OTHER" in c or "VARIETY" in c]


def valid_file() -> bytes:
    """Return a small file with most kinds of lines."""
    header = (
        "PRESCALER\t1\nVPRESCALER\t1\nPUPIL\tAREA\n"
        "EVENTS\tGAZE\tLEFT\tRATE\t1000.00\tTRACKING\tCR\tFILTER\t2\n"
        "SAMPLES\tGAZE\tLEFT\tRATE\t1000.00\tTRACKING\tCR\tFILTER\t2\tINPUT\n"
    )
    parts = [
        "** CONVERTED FROM a.edf\n** DATE: Fri Aug 14 02:31:06 1990\n** VERSION: EYELINK II 1\n\n",
        "MSG\t90 DISPLAY_COORDS 0 0 1919 1079\n",
    ]
    for k in range(3):
        t = 1000 * (k + 1)
        rows = "".join(
            f"{t + i}\t {200.1 + i:.1f}\t {300.2 + k:.1f}\t  441.0\t  127.0\t...\n"
            for i in range(12)
        )
        gone = "".join(f"{t + 12 + i}\t   .\t   .\t    0.0\t  127.0\t.C.\n" for i in range(5))
        lines = (
            f"SFIX L   {t}\n{rows}EFIX L   {t}\t{t + 11}\t12\t  205.0\t  300.0\t    441\n"
            f"SSACC L  {t + 12}\nSBLINK L {t + 12}\n{gone}EBLINK L {t + 12}\t{t + 16}\t5\n"
            f"ESACC L  {t + 12}\t{t + 16}\t5\t 205.0\t 300.0\t 400.0\t 300.0\t  5.01\t    200\n"
        )
        parts.append(f"MSG\t{t - 2} TRIALID {k}\nMSG\t{t - 1} RECCFG CR 1000 2 1 L\n")
        parts.append(block(t, lines, "LEFT", header))
        parts.append(f"MSG\t{t + 30} !V TRIAL_VAR item {k}\nMSG\t{t + 31} TRIAL_RESULT 0\n")
    return "".join(parts).encode()


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(-1e4, 1e4).map(lambda v: round(v, 1))),
            st.one_of(st.none(), st.floats(-1e4, 1e4).map(lambda v: round(v, 1))),
            st.floats(0, 9999).map(lambda v: round(v, 1)),
            st.sampled_from(["...", ".C.", "I..", "ICR"]),
            st.sampled_from(["", "MSG\t5 hello\n", "SFIX L 7\n", "FOO bar\n", "\n"]),
        ),
        min_size=1,
        max_size=30,
    ),
    st.integers(40, 200),
)
@settings(max_examples=60, deadline=None)
def test_all_rows_come_back(rows: list[tuple], chunk: int) -> None:
    """What was written is read, whatever lines stand between and wherever chunks end."""
    import tempfile

    lines = [
        f"{between}{100 + k}\t{'.' if x is None else x:>8}\t{'.' if y is None else y:>8}"
        f"\t{p:7.1f}\t{flags}\n"
        for k, (x, y, p, flags, between) in enumerate(rows)
    ]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_asc_lines, "CHUNK", chunk)
        recording = asc(Path(folder), block(100, "".join(lines), "LEFT"))
    table = recording.samples
    assert table.time.tolist() == [100 + k for k in range(len(rows))]
    assert same(table.x_left.tolist(), [NAN if r[0] is None else r[0] for r in rows])
    assert same(table.y_left.tolist(), [NAN if r[1] is None else r[1] for r in rows])
    none = [r[2] == 0 and (r[0] is None or r[1] is None) for r in rows]
    pupils = [NAN if n else r[2] for n, r in zip(none, rows, strict=True)]
    assert same(table.pupil_left.tolist(), pupils)
    assert table.status.astype(str).tolist() == [r[3] for r in rows]
    assert recording.info["unparsed"]["count"] == sum(r[4] == "FOO bar\n" for r in rows)


SEEDS = [
    valid_file(),
    (ROWS * 3 + "900\t 1.0\t 2.0\t 3.0\t...\n").encode(),
    (
        "MSG\t1 RECCFG CR 2000 2 1 2 1 LR\nMSG\t2 TRIALID 3\n"
        + block(
            100,
            "100\t1.0\t2.0\t3.0\t4.0\t5.0\t6.0\t0.1\t0.2\t0.3\t0.4\t38.0\t31.0\t127.0\t..... \t"
            "1.0\t2.0\t3.0 .............\n" * 4,
            "LEFT\tRIGHT",
            "SAMPLES\tGAZE\tLEFT\tRIGHT\tVEL\tRES\tHTARGET\tRATE\t2000.00\tTRACKING\tCR\tINPUT\n",
        )
        + "MSG\t3 !V TRIAL_VAR_LABELS a b\nMSG\t3 !V TRIAL_VAR_DATA 1 .\nMSG\t4 TRIALID 3\n"
        "BUTTON\t5\t1\t1\nMSG\t5 GAZE_COORDS 0.00 0.00 1920.00 1080.00\n"
    ).encode(),
]
PIECES = [
    *(b"\t \n\r.0123456789-+eE_*>\0\xff\xe9\"',;#"),
]
TOKENS = [
    b"\n", b"\r\n", b"\t", b"  ", b".", b"...", b".....", b"nan", b"inf", b"1e999", b"-0", b"MSG\t",
    b"START\t", b"END\t", b"SAMPLES\tHREF\tLEFT\tRIGHT\n", b"EFIX L ", b"SBLINK R ", b"TRIALID ",
    b"!V TRIAL_VAR ", b"LEFT\tRIGHT", b"** DATE: ", b"RECCFG CR ", b"\x1f\x8b", b"\xff\xfe",
    b"9" * 400, b"\xef\xbb\xbf", b"GAZE_COORDS 1 2 3 4", b"RATE\t0\t", b"-1 ", b"TRIAL_RESULT",
]  # fmt: skip


def mutated(generator: random.Random) -> bytes:
    """Return a valid file with some bytes, lines or tokens changed, moved, doubled or cut."""
    data = bytearray(generator.choice(SEEDS))
    for _ in range(generator.choice([1, 1, 2, 4, 10, 40])):
        at = generator.randrange(len(data) + 1)
        far = min(len(data), at + generator.choice([1, 2, 5, 30, 200]))
        way = generator.randrange(7)
        if way == 0 and at < len(data):
            data[at] = generator.choice(PIECES)
        elif way == 1 and at < len(data):
            data[at] = generator.randrange(256)
        elif way == 2:
            del data[at:far]
        elif way == 3:
            data[at:at] = generator.choice(TOKENS)
        elif way == 4:
            data[at:far] = generator.choice(TOKENS)
        elif way == 5:
            to = generator.randrange(len(data) + 1)
            data[to:to] = data[at:far]
        else:
            lines = bytes(data).split(b"\n")
            generator.shuffle(lines) if generator.random() < 0.1 else lines.insert(
                generator.randrange(len(lines)), generator.choice(lines)
            )
            data = bytearray(b"\n".join(lines))
        if not data:
            data = bytearray(b"\n")
    if generator.random() < 0.2:
        data = data[: generator.randrange(len(data) + 1)]
    return gzip.compress(bytes(data)) if generator.random() < 0.03 else bytes(data)


def fuzz(folder: Path, seconds: float, seed: int) -> int:
    """Read mutated files; anything but a result or a `DataError` fails. Return how many."""
    generator, done = random.Random(seed), 0
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        data = mutated(generator)
        options = {"repeated": generator.choice(["both", "first", "last"])}
        try:
            asc(folder, data, **options)
        except DataError:
            pass
        except Exception:
            (folder / "failed.asc").write_bytes(data)
            print(f"failing input ({options}): {folder / 'failed.asc'}\n{data!r}")
            raise
        done += 1
    return done


def test_fuzz_short(tmp_path: Path) -> None:
    assert fuzz(tmp_path, 3.0, seed=1) > 20


@pytest.mark.slow
def test_fuzz(tmp_path: Path) -> None:
    """Runs for GAZEATTN_FUZZ_SECONDS (default 60)."""
    seed = int(os.environ.get("GAZEATTN_FUZZ_SEED", str(random.randrange(10**9))))
    n = fuzz(tmp_path, float(os.environ.get("GAZEATTN_FUZZ_SECONDS", "60")), seed)
    print(f"{n} files, seed {seed}")
    assert n
