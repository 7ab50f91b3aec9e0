"""Plain tables of fixations and samples: column maps, kinds, units, missing values, time order."""

from __future__ import annotations

import gzip
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn import readers
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.readers import Recording, identify
from gazeattn.readers import plain as plain_reader
from gazeattn.readers.plain import recognises

read: Any = readers.read
read_plain: Any = plain_reader.read_plain

FIXATIONS = "participant,trial,onset,duration,x,y,area\nP1,1,100,200,1.5,2,dog\nP1,1,310,90,4,.,\n"
SAMPLES = "participant,trial,time,x,y,pupil\nP1,1,0,1,2,700\nP1,1,4,.,.,.\nP1,2,8,3,4,702\n"


@pytest.fixture
def path_of(tmp_path: Path) -> Any:
    def write(content: str | bytes, name: str = "t.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def plain(path_of: Any) -> Any:
    def build(content: str | bytes, name: str = "t.csv", **options: Any) -> Recording:
        return read_plain(path_of(content, name), **options).check()

    return build


# ---------------------------------------------------------------- kinds and columns


def test_fixations_by_hand(plain: Any) -> None:
    recording = plain(FIXATIONS)
    f = recording.fixations
    assert list(f) == ["participant", "trial", "onset", "duration", "x", "y", "area"]
    assert f.iloc[0].tolist() == ["P1", "1", 100, 200, 1.5, 2, "dog"]
    np.testing.assert_array_equal(f["y"], [2, np.nan])
    assert f["area"].isna().tolist() == [False, True]
    assert recording.trials.values.tolist() == [["P1", "1"]]
    assert recording.samples is None and recording.reader == "plain"


def test_samples_by_hand(plain: Any) -> None:
    recording = plain(SAMPLES)
    s = recording.samples
    np.testing.assert_array_equal(s["time"], [0, 4, 8])
    np.testing.assert_array_equal(s["x"], [1, np.nan, 3])
    np.testing.assert_array_equal(s["pupil"], [700, np.nan, 702])
    assert recording.trials.values.tolist() == [["P1", "1", 0, 4], ["P1", "2", 8, 8]]
    assert "samples: 1 rows undefined: no position" in str(recording.lost)


def test_column_map(plain: Any) -> None:
    content = "subj;item;start;len;px;py;block\nP1;A;5;200;1,5;2;practice\n"
    columns: dict[str, str | None] = {
        "participant": "subj",
        "trial": "item",
        "onset": "start",
        "duration": "len",
    }
    columns |= {"x": "px", "y": "py", "block": None}
    f = plain(content, columns=columns, decimal=",").fixations
    assert f.loc[0, ["participant", "trial", "onset", "duration", "x", "y"]].tolist() == [
        "P1",
        "A",
        5,
        200,
        1.5,
        2,
    ]
    assert f["block_original"].tolist() == ["practice"]
    with pytest.raises(DataError, match="Did you mean 'subj'"):
        plain(content, columns={"participant": "sub"})
    with pytest.raises(UnknownNameError, match="duration"):
        plain(content, columns={"duratoin": "len"})


def test_the_kind_is_found_or_stated(plain: Any) -> None:
    both = "time,duration,x,y\n1,2,100,4\n"
    with pytest.raises(DataError, match="fixations or samples"):
        plain(both)
    assert plain(both, kind="samples").samples["duration"].tolist() == ["2"]
    assert plain(both, kind="fixations").fixations["duration"].tolist() == [2]
    with pytest.raises(UnknownNameError, match="did you mean 'samples'"):
        plain(both, kind="sample")
    with pytest.raises(DataError, match="column map"):
        plain("a,b\n1,2\n")


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        ("onset,x\n1,2\n", "fixations", "lack a position"),
        ("x,y\n1,2\n", "fixations", "lack their times"),
        ("x,y\n1,2\n", "samples", "lack their times"),
        ("time,pupil\n1,2\n", "samples", "lack a position"),
        ("time,x,y\n1,.,.\n2,.,\n", "samples", "0 of 2 rows valid"),
        ("duration,x,y\n1,.,3\n2,4,.\n", "fixations", "0 of 2 rows valid"),
        ("time,x,y\n", "samples", "no rows"),
        ("time,x,y\n1,left,2\n", "samples", "must hold numbers"),
        ("time,x,y\n1,inf,2\n", "samples", "finite"),
        ("time,x,y\n1,2,3\n1,2\n", "samples", "another number of cells"),
    ],
)
def test_tables_that_say_nothing(plain: Any, content: str, kind: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        plain(content, kind=kind)


def test_fixations_without_onset_or_positions(plain: Any) -> None:
    recording = plain("duration,area\n200,null\n180,NA\n,.\n")
    f = recording.fixations
    assert f["area"].tolist() == ["null", "NA", "."]  # labels are text
    np.testing.assert_array_equal(f["duration"], [200, 180, np.nan])
    assert f["onset"].isna().all() and "3 rows undefined: no onset" in str(recording.lost)


@pytest.mark.parametrize("mark", [".", "", "NA", "nan", "null", "None", "-"])
@pytest.mark.parametrize("word", ["null", "NA", "nan", "None", ".", "007"])
def test_missing_numbers_and_words_that_look_missing(plain: Any, mark: str, word: str) -> None:
    f = plain(f"duration,x,y,area,word\n{mark},1,2,{word},{word}\n").fixations
    assert f["duration"].isna().all()
    assert f["area"].tolist() == [word] and f["word"].tolist() == [word]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + FIXATIONS.encode(),
        FIXATIONS.encode("utf-16"),
        gzip.compress(FIXATIONS.encode()),
        FIXATIONS.replace(",", "\t").encode(),
        FIXATIONS.replace(",", ";").replace("\n", "\r\n").encode(),
    ],
)
def test_bytes_and_separators(plain: Any, content: bytes) -> None:
    pd.testing.assert_frame_equal(plain(content).fixations, plain(FIXATIONS).fixations)


def test_legacy_bytes(plain: Any) -> None:
    content = b"duration,x,y,area\n1,2,3,captain\x92s \x93ship\x94\n"
    assert plain(content, encoding="cp1252").fixations["area"][0] == "captain’s “ship”"
    with pytest.raises(DataError, match="byte 0x92 at offset"):
        plain(content)


def test_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"participant": [1, 2], "trial": [1.0, 2.0], "time": [0, 5], "x": [1, 2], "y": [3.0, None]}
    )
    frame.to_parquet(tmp_path / "s.parquet")
    s = read_plain(tmp_path / "s.parquet").check().samples
    assert s["participant"].tolist() == ["1", "2"] and s["trial"].tolist() == ["1", "2"]
    assert s["x"].dtype == "float64"


@pytest.mark.parametrize("eye", ["L", "left", "LEFT", " Left "])
def test_eyes(plain: Any, eye: str) -> None:
    f = plain(f"duration,x,y,eye\n1,2,3,{eye}\n1,2,3,middle\n")
    assert f.fixations["eye"][0] == "left" and pd.isna(f.fixations["eye"][1])
    assert "no eye that we know (first: middle)" in str(f.lost)


def test_degrees_are_doubted(plain: Any) -> None:
    assert "look like degrees" in str(plain("duration,x,y\n1,-10,8.5\n1,4,3\n").lost)
    assert "look like degrees" not in str(plain("duration,x,y\n1,-10,8.5\n1,400,3\n").lost)


# ---------------------------------------------------------------- units


@pytest.mark.parametrize(
    ("header", "factor"),
    [
        ("t [μs]", 0.001),
        ("t [µs]", 0.001),
        ("t [us]", 0.001),
        ("t [ms]", 1),
        ("t (ms)", 1),
        ("t [s]", 1000),
        ("t", 1),
    ],
)
def test_units_in_the_header(plain: Any, header: str, factor: float) -> None:
    s = plain(f"{header},x,y\n200000,100,3\n", columns={"time": header}).samples
    assert s["time"].tolist() == [200_000 * factor]


def test_stated_and_unknown_units(plain: Any) -> None:
    content = "onset,duration,x,y\n1.5,0.2,100,3\n"
    f = plain(content, time_unit="s").fixations
    assert f.loc[0, ["onset", "duration"]].tolist() == [1500, 200]
    with pytest.raises(DataError, match="unknown time unit"):
        plain(content, time_unit="fortnight")
    with pytest.raises(DataError, match="unknown time unit"):
        plain("t [ticks],x,y\n1,100,3\n", columns={"time": "t [ticks]"})
    with pytest.raises(DataError, match="another unit than time_unit"):
        plain("t [ms],x,y\n1,100,3\n", columns={"time": "t [ms]"}, time_unit="s")


# ---------------------------------------------------------------- time order


def times(*values: object, trials: str = "") -> str:
    rows = [f"{v},{100 + k},5,{(trials or 'a' * len(values))[k]}" for k, v in enumerate(values)]
    return "time,x,y,trial\n" + "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    ("values", "order", "moved"),
    [
        ([0, 10, 8, 10], [0, 2, 1, 3], 2),  # equal times keep the order of the file
        ([0, 1, 2], [0, 1, 2], 0),
        ([0, 5, 5, 5, 4], [0, 4, 1, 2, 3], 4),
        ([5, 7, 6, ".", 6.5], [0, 2, 4, 3, 1], 3),
    ],
)
def test_steps_back_are_put_in_order(
    plain: Any, values: list[Any], order: list[int], moved: int
) -> None:
    recording = plain(times(*values))
    s = recording.samples
    assert s["x"].tolist() == [100 + k for k in order]
    assert recording.lost.count(kind="repaired") == moved and "block" not in s
    known = s["time"].dropna()
    assert (known.diff().dropna() >= 0).all()
    if moved:
        with pytest.raises(DataError, match="time steps back"):
            plain(times(*values), time_order="strict")


@pytest.mark.parametrize(
    ("values", "blocks"),
    [
        ([74701.30, 74701.33, 33.98, 34.00], [0, 0, 1, 1]),
        ([10, 20, 30, 5, 15, 25, 35], [0, 0, 0, 1, 1, 1, 1]),
        ([10, 5000, 3000, 3004], [0, 0, 1, 1]),
        ([10, 20, 5, 6, 1, 2], [0, 0, 1, 1, 2, 2]),
    ],
)
def test_a_clock_that_starts_again_makes_a_block(
    plain: Any, values: list[float], blocks: list[int]
) -> None:
    recording = plain(times(*values))
    s = recording.samples
    assert s["time"].tolist() == values and s["block"].tolist() == blocks
    assert "the clock starts again" in str(recording.lost)
    assert recording.lost.count(kind="repaired") == 0


def test_times_count_within_their_trial_and_eye(plain: Any) -> None:
    recording = plain(times(0, 4, 8, 0, 4, trials="aaabb"))
    assert len(recording.lost) == 0 and "block" not in recording.samples
    content = "time,x,y,eye\n0,100,1,L\n4,101,1,L\n0,102,1,R\n4,103,1,R\n"
    assert len(plain(content).lost) == 0


@given(
    values=st.lists(st.integers(0, 900), min_size=1, max_size=12),
    trials=st.lists(st.sampled_from("ab"), min_size=12, max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_no_row_is_lost_in_ordering(
    tmp_path_factory: Any, values: list[int], trials: list[str]
) -> None:
    path = tmp_path_factory.mktemp("s") / "s.csv"
    path.write_text(times(*values, trials="".join(trials)))
    s = read_plain(path).check().samples
    assert sorted(s["x"]) == [100 + k for k in range(len(values))]
    for _, part in s.groupby(["trial"] + (["block"] if "block" in s else [])):
        assert (part["time"].diff().dropna() >= 0).all()
    row = (s["x"] - 100).astype(int)
    assert s["time"].tolist() == [values[k] for k in row]  # rows stay whole
    assert s["trial"].tolist() == [trials[k] for k in row]


# ---------------------------------------------------------------- recognising


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (FIXATIONS, True),
        (SAMPLES, True),
        ("time\tx_left\ty_left\n", True),
        ("onset,duration,trial_type\n", False),
        ("time,pupil\n", False),
        ("CURRENT_FIX_X,CURRENT_FIX_Y,duration,x,y\n", False),  # a Data Viewer report
        ("subj,px,py\n", False),
        ("Recording timestamp [ms]\tGaze point X\n", False),
        ("time x y\n", False),
        ("", False),
        ("PAR1", False),
    ],
)
def test_only_our_own_names_are_recognised(head: str, expected: bool) -> None:
    assert recognises(head.encode(), "t.csv") is expected


def test_a_plain_table_is_identified(path_of: Any) -> None:
    assert identify(path_of(FIXATIONS)) == "plain"
    assert read(path_of(SAMPLES)).reader == "plain"
    with pytest.raises(DataError, match="no reader knows"):
        identify(path_of("a,b\n1,2\n"))


def test_published_tables_with_a_column_map(shared_data: Path) -> None:
    columns = {
        "participant": "subj",
        "trial": "page_name",
        "x": "CURRENT_FIX_X",
        "y": "CURRENT_FIX_Y",
        "pupil": "CURRENT_FIX_PUPIL",
        "duration": "CURRENT_FIX_DURATION",
    }
    recording = read(shared_data / "sb_sat" / "fixations.csv.gz", reader="plain", columns=columns)
    assert len(recording.fixations) == 242_508 and len(recording.trials) == 2027
    columns = {"participant": "participant_id", "trial": "unique_trial_id", "x": "CURRENT_FIX_X"}
    columns |= {"y": "CURRENT_FIX_Y", "onset": "CURRENT_FIX_START"}
    recording = read(
        shared_data / "onestop_slice" / "fixations.csv.gz", reader="plain", columns=columns
    )
    assert len(recording.fixations) == 2744 and len(recording.trials) == 20


# ---------------------------------------------------------------- damaged tables


@pytest.mark.slow
def test_damaged_tables_raise_clear_errors(tmp_path: Path) -> None:
    end = time.monotonic() + float(os.environ.get("GAZEATTN_FUZZ_SECONDS", "5"))
    generator, path = random.Random(), tmp_path / "t.csv"
    starts = [t.encode(e) for t in (FIXATIONS, SAMPLES) for e in ("utf-8", "utf-16")]
    while time.monotonic() < end:
        data = bytearray(generator.choice(starts))
        for _ in range(generator.randint(1, 5)):
            at = generator.randrange(len(data) + 1)
            piece = generator.choice([b'"', b",", b"\n", b"\0", b"\xff", b"1e999", b"-", b"."])
            if generator.random() < 0.4:
                del data[at : at + generator.randint(1, 9)]
            else:
                data[at:at] = piece
        path.write_bytes(bytes(data))
        try:
            recognises(bytes(data), path.name)
            read_plain(path, kind=generator.choice([None, "fixations", "samples"])).check()
        except DataError as error:
            assert str(error)
        except Exception as error:
            raise AssertionError(f"{error!r} for {bytes(data)!r}") from error
