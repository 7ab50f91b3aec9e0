"""Data Viewer reports as text: missing marks, encodings, decimal marks, quotes, damage."""

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
from gazeattn.errors import DataError
from gazeattn.readers import Recording, data_viewer
from gazeattn.readers.data_viewer import recognises

from .reports import COMMA, FIXATIONS, UMLAUT, reasons, table

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


# ---------------------------------------------------------------- missing marks and words


@pytest.mark.parametrize("mark", [".", "", "UNDEFINEDnull", "NaN", "NA", "null", "-", " . "])
def test_marks_of_missing_numbers(report: Any, mark: str) -> None:
    content = f"TRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_DURATION\n1\t{mark}\t5\n2\t1.5\t{mark}\n"
    f = report(content).fixations
    np.testing.assert_array_equal(f["x"], [np.nan, 1.5])
    np.testing.assert_array_equal(f["duration"], [5, np.nan])


@pytest.mark.parametrize("word", ["null", "NA", "nan", "None", "N/A", "-", "#N/A", "007", "1e5"])
@pytest.mark.parametrize("column", ["IA_LABEL", "word", "answer"])
def test_words_that_look_like_missing_values(report: Any, word: str, column: str) -> None:
    names = "TRIAL_INDEX\tIA_ID\tIA_DWELL_TIME\tIA_LABEL\tword\tanswer".split("\t")
    cells = {n: "1" for n in names} | {column: word}
    content = "\t".join(names) + "\n" + "\t".join(cells[n] for n in names) + "\n"
    assert report(content).areas[column].tolist() == [word]


def test_a_dot_is_a_full_stop_only_beside_an_area(report: Any) -> None:
    header = (
        "TRIAL_INDEX CURRENT_FIX_DURATION CURRENT_FIX_INTEREST_AREA_ID "
        "CURRENT_FIX_INTEREST_AREA_LABEL CURRENT_FIX_NEAREST_INTEREST_AREA "
        "CURRENT_FIX_NEAREST_INTEREST_AREA_LABEL NEXT_FIX_INTEREST_AREA_ID "
        "NEXT_FIX_INTEREST_AREA_LABEL sentence"
    )
    f = report(table(header, "1 200 5 . 5 . . . .", "1 200 . . 6 a 7 . .")).fixations
    label = f["CURRENT_FIX_INTEREST_AREA_LABEL"]
    assert label[0] == "." and pd.isna(label[1])
    assert f["CURRENT_FIX_NEAREST_INTEREST_AREA_LABEL"].tolist() == [".", "a"]
    after = f["NEXT_FIX_INTEREST_AREA_LABEL"]
    assert pd.isna(after[0]) and after[1] == "."
    assert f["sentence"].tolist() == [".", "."]  # variables of the experiment stay as written


@pytest.mark.parametrize(
    ("column", "none"),
    [
        ("CURRENT_FIX_INTEREST_AREA_INDEX", "."),
        ("CURRENT_FIX_INTEREST_AREAS", "[]"),
        ("CURRENT_FIX_INTEREST_AREA_ID", "."),
    ],
)
def test_a_full_stop_beside_other_columns_of_areas(report: Any, column: str, none: str) -> None:
    header = f"TRIAL_INDEX CURRENT_FIX_DURATION {column} CURRENT_FIX_INTEREST_AREA_LABEL"
    label = report(table(header, "1 200 5 .", f"1 200 {none} .")).fixations
    label = label["CURRENT_FIX_INTEREST_AREA_LABEL"]
    assert label[0] == "." and pd.isna(label[1])


def test_a_variable_that_was_never_set_is_missing_and_counted(report: Any) -> None:
    recording = report(FIXATIONS)
    assert recording.fixations["answer"].fillna("-").tolist() == ["yes", "-", "null", "."]
    assert "1 cells undefined: UNDEFINEDnull" in reasons(recording)


@pytest.mark.parametrize("label", ["007", "1e5", "true", "NA", "null", "P 1", "Ä"])
def test_ids_stay_text(report: Any, label: str) -> None:
    header = "RECORDING_SESSION_LABEL\tTRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_Y\n"
    f = report(f"{header}{label}\t007\t1\t2\n").fixations
    assert f["participant"].tolist() == [label] and f["trial"].tolist() == ["007"]


def test_blanks_around_ids_are_removed_and_counted(report: Any) -> None:
    header = "RECORDING_SESSION_LABEL\tTRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_Y\n"
    recording = report(f"{header} P1\t1 \t1\t2\nP1\t1\t3\t4\n")
    assert recording.fixations["participant"].tolist() == ["P1", "P1"]
    assert len(recording.trials) == 1
    assert "1 rows repaired: blanks around the id 'participant'" in reasons(recording)


def test_texts_in_number_columns(report: Any) -> None:
    header = "TRIAL_INDEX CURRENT_FIX_X CURRENT_FIX_Y NEXT_SAC_ANGLE"
    with pytest.raises(DataError, match="'CURRENT_FIX_X' must hold numbers") as caught:
        report(table(header, "1 1 2 3", "1 left 2 3"))
    assert caught.value.row == 3 and "'left'" in str(caught.value)
    with pytest.raises(DataError, match="finite"):
        report(table(header, "1 1 2 3", "1 inf 2 3"))
    # A column that we do not name stays as it is where it holds something else.
    for rows in (["1 1 2 up"], ["1 1 2 3"] * 9_000 + ["1 1 2 up"]):
        recording = report(table(header, *rows))
        assert recording.fixations["NEXT_SAC_ANGLE"].tolist()[-1] == "up"
    assert "holds text" in reasons(recording)


# ---------------------------------------------------------------- bytes


@pytest.mark.parametrize(
    "content",
    [
        UMLAUT.encode(),
        b"\xef\xbb\xbf" + UMLAUT.encode(),
        UMLAUT.encode("utf-16"),
        UMLAUT.encode("utf-16-le"),
        b"\xfe\xff" + UMLAUT.encode("utf-16-be"),
        gzip.compress(b"\xef\xbb\xbf" + UMLAUT.encode()),
        UMLAUT.replace("\n", "\r\n").encode(),
        UMLAUT.replace("\n", "\r").encode(),
        b"\n" + UMLAUT.encode(),
        UMLAUT.rstrip("\n").encode(),
        UMLAUT.encode() + b"\n\n",
    ],
)
def test_byte_order_marks_encodings_and_line_ends(report: Any, content: bytes) -> None:
    f = report(content).fixations
    assert f.columns[0] == "participant" and len(f) == 4
    assert f["CURRENT_FIX_INTEREST_AREA_LABEL"][0] == "Größe"
    assert f["answer"][0] == "ja" and f["answer"][3] == "."


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "mac_roman", "utf-16", "cp1250"])
def test_stated_encodings(report: Any, encoding: str) -> None:
    f = report(UMLAUT.encode(encoding), encoding=encoding).fixations
    assert f["CURRENT_FIX_INTEREST_AREA_LABEL"][0] == "Größe"


@pytest.mark.parametrize("encoding", ["cp1252", "mac_roman"])
def test_legacy_bytes_without_a_stated_encoding_are_named(report: Any, encoding: str) -> None:
    with pytest.raises(DataError, match="is not valid utf-8") as caught:
        report(UMLAUT.encode(encoding))
    assert "report.txt, row 2" in str(caught.value) and "encoding='cp1252'" in str(caught.value)


@pytest.mark.parametrize(
    ("label", "doubt"),
    [("pÃ¥", True), ("â€œ", True), ("på", False), ("Ã", False), ("pa", False), ("שלום", False)],
)
def test_labels_encoded_twice_are_noted(report: Any, label: str, doubt: bool) -> None:
    recording = report(table("TRIAL_INDEX IA_ID IA_LABEL", f"1 1 {label}", "1 2 x"))
    assert recording.areas["text"].tolist() == [label, "x"]
    assert ("IA_LABEL looks encoded twice" in reasons(recording)) is doubt


@pytest.mark.parametrize("separator", ["\t", ",", ";", "|"])
def test_separators(report: Any, separator: str) -> None:
    content = FIXATIONS.replace("[ 7, 8]", "[ 7]").replace("\t", separator)
    assert report(content).fixations["x"][0] == 100.5
    if separator != ",":
        f = report(COMMA.replace("\t", separator)).fixations
        assert f["x"][0] == 100.5 and f["CURRENT_FIX_INTEREST_AREAS"][1] == "[ 7, 8]"


def test_an_unnamed_first_column_gets_a_name(report: Any) -> None:
    content = "\tTRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_Y\n0\t1\t2\t3\n1\t1\t4\t5\n"
    f = report(content).fixations
    assert f["Unnamed: 0"].tolist() == ["0", "1"] and f["x"].tolist() == [2, 4]


def test_a_separator_at_the_end_of_each_line_is_no_column(report: Any) -> None:
    recording = report("TRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_Y\t\n1\t2\t3\t\n1\t4\t5\t\n")
    assert not [c for c in recording.fixations if c.startswith("Unnamed")]
    assert "columns without name" in reasons(recording)


def test_empty_rows_are_counted(report: Any) -> None:
    recording = report("TRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_Y\n1\t2\t3\n\t\t\n1\t4\t5\n\t.\t\n")
    assert recording.fixations["x"].tolist() == [2, 4]
    assert "2 rows dropped: empty rows" in reasons(recording)
    with pytest.raises(DataError, match="0 of 2 rows valid"):
        report("TRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_Y\n\t\t\n\t.\t\n")


def test_header_lines_between_the_rows_are_counted(report: Any) -> None:
    recording = report(FIXATIONS + FIXATIONS.replace("P01", "P02"))
    assert recording.fixations["participant"].tolist() == ["P01"] * 4 + ["P02"] * 4
    assert recording.fixations["x"][4] == 100.5
    assert "1 rows dropped: header lines between" in reasons(recording)


def test_a_cut_last_line_is_counted(report: Any) -> None:
    for cut in (3, 20, 40):
        recording = report(FIXATIONS[:-cut])
        assert len(recording.fixations) == (4 if cut == 3 else 3) or cut == 3
    recording = report(FIXATIONS[:-20])
    assert "1 rows dropped: the last line is cut: " in reasons(recording)
    for content in (
        "TRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_Y\n1\t2\n1\t4\t5\n",  # not the last line
        "TRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_Y\n1\t2\t3\n1\t4\t5\t6\n",  # too long
        "TRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_Y\n1\t2\n1\t4\n",
        "TRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_Y\n1\t4\n1\t2\t3\n1\t4\n",
    ):
        with pytest.raises(DataError, match="another number of cells") as caught:
            report(content)
        assert caught.value.row is not None


# ---------------------------------------------------------------- decimal marks


def test_a_decimal_comma_is_found_and_noted(report: Any) -> None:
    points, commas = report(FIXATIONS), report(COMMA)
    pd.testing.assert_frame_equal(points.fixations, commas.fixations)
    assert commas.info["decimal"] == "," and "decimal comma" in reasons(commas)
    assert points.info["decimal"] == "." and "decimal comma" not in reasons(points)
    stated = report(COMMA, decimal=",")
    pd.testing.assert_frame_equal(points.fixations, stated.fixations)
    assert "decimal comma" not in reasons(stated)


def test_a_stated_decimal_mark_wins(report: Any) -> None:
    with pytest.raises(DataError, match="must hold numbers") as caught:
        report(COMMA, decimal=".")
    assert "decimal=','" in str(caught.value)
    with pytest.raises(DataError, match="decimal comma"):
        report(FIXATIONS, decimal=",")


def test_a_comma_late_in_the_file_is_found(report: Any) -> None:
    header = "TRIAL_INDEX CURRENT_FIX_X CURRENT_FIX_Y NEXT_SAC_AMPLITUDE"
    rows = ["1 100 200 3"] * 9_000
    f = report(table(header, *rows, "1 100,5 200,25 3,5")).fixations
    assert f.iloc[-1][["x", "y", "NEXT_SAC_AMPLITUDE"]].tolist() == [100.5, 200.25, 3.5]
    assert f["x"][0] == 100
    for mixed in (["1 1,5 2 3", "1 1.5 2 3"], ["1 1,5 2 3", *rows, "1 1 2 3.5"]):
        with pytest.raises(DataError, match="mixed"):
            report(table(header, *mixed))


def test_commas_that_may_stand_for_thousands_are_refused(report: Any) -> None:
    header = "TRIAL_INDEX CURRENT_FIX_X CURRENT_FIX_Y CURRENT_FIX_DURATION"
    for rows in (["1 100 200 1,200"], ["1 100 200 1,200", "1 1,024 200 300"]):
        with pytest.raises(DataError, match="thousands"):
            report(table(header, *rows))
        assert report(table(header, *rows), decimal=",").fixations["duration"][0] == 1.2
    f = report(table(header, "1 100 200 1,200", "1 0,125 20,5 300")).fixations
    assert f["duration"].tolist() == [1.2, 300]


def test_lists_and_rectangles_keep_their_commas(report: Any) -> None:
    data = "[STATIC, RECTANGLE, 1385.0, 703.0, 1400.0, 802.0]"
    content = (
        "TRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_Y\tCURRENT_FIX_INTEREST_AREAS\t"
        f"CURRENT_FIX_INTEREST_AREA_DATA\n1\t1,5\t2,5\t[ 6, 522]\t{data}\n"
    )
    recording = report(content)
    f = recording.fixations
    assert f["CURRENT_FIX_INTEREST_AREAS"].tolist() == ["[ 6, 522]"]
    assert f["CURRENT_FIX_INTEREST_AREA_DATA"].tolist() == [data]
    assert f["area"].tolist() == ["6"] and f["x"].tolist() == [1.5]


# ---------------------------------------------------------------- quotes


@pytest.mark.parametrize(
    ("cell", "word"),
    [
        ('"dog"', "dog"),
        ('"""', '"'),  # a quote sign as Data Viewer writes it
        ('""""', '"'),  # as other programs write it
        ('"say ""so"""', 'say "so"'),
        ('"', '"'),
        ('"The', '"The'),
        ('dog"', 'dog"'),
        ('5" disk', '5" disk'),
        ('""', ""),
        ('","', ","),
        ("'n'", "'n'"),
    ],
)
def test_quotes_around_and_inside_of_cells(report: Any, cell: str, word: str) -> None:
    header = "RECORDING_SESSION_LABEL\tTRIAL_INDEX\tIA_ID\tIA_LABEL\tIA_DWELL_TIME\n"
    rows = [f'"P1"\t1\t{k}\t{c}\t{100 + k}\n' for k, c in enumerate(('"a"', cell, '"b"', cell))]
    a = report(header + "".join(rows)).areas
    assert a["text"].tolist() == ["a", word, "b", word]
    assert a["participant"].tolist() == ["P1"] * 4
    assert a["IA_DWELL_TIME"].tolist() == [100, 101, 102, 103]


def test_quote_signs_do_not_swallow_rows(report: Any) -> None:
    # Read with quotes that enclose, the second and the third row would become one.
    header = "TRIAL_INDEX\tIA_ID\tIA_LABEL\tIA_DWELL_TIME\n"
    a = report(header + '1\t1\t"a"\t5\n1\t2\t"\t6\n1\t3\t"\t7\n1\t4\t"b"\t8\n').areas
    assert a["text"].tolist() == ["a", '"', '"', "b"] and len(a) == 4
    for separator in (",", ";"):
        content = (header + '1\t1\t"a"\t5\n1\t2\t"\t6\n1\t3\t"\t7\n').replace("\t", separator)
        with pytest.raises(DataError, match="line break inside column"):
            report(content)
        assert report(content, quote=None).areas["text"].tolist() == ['"a"', '"', '"']


def test_every_cell_in_quotes(report: Any) -> None:
    for separator in ("\t", ",", ";"):
        lines = FIXATIONS.rstrip("\n").split("\n")
        content = "\n".join(
            separator.join(f'"{cell}"' for cell in line.split("\t")) for line in lines
        )
        pd.testing.assert_frame_equal(report(content).fixations, report(FIXATIONS).fixations)


def test_cells_with_separators_in_quotes(report: Any) -> None:
    content = (
        "TRIAL_INDEX,CURRENT_FIX_X,CURRENT_FIX_Y,CURRENT_FIX_INTEREST_AREAS,question\n"
        '1,"2",3,"[ 7, 8]","Who, and\nwhy?"\n1,4,5,[ ],"say ""so"""\n'
    )
    f = report(content, "r.csv").fixations
    assert f["question"].tolist() == ["Who, and\nwhy?", 'say "so"'] and f["x"].tolist() == [2, 4]
    content = 'TRIAL_INDEX\tCURRENT_FIX_X\tCURRENT_FIX_Y\tq\n1\t2\t3\t"a\tb"\n'
    assert report(content).fixations["q"].tolist() == ["a\tb"]


# ---------------------------------------------------------------- properties


NUMBERS = st.one_of(st.none(), st.floats(-1e4, 1e4).map(lambda v: round(v, 2)))
WORDS = st.text(
    st.characters(exclude_characters="\n\r\t\0\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", codec="utf-8"),
    min_size=1,
    max_size=6,
).filter(lambda w: w.strip() and w != "UNDEFINEDnull" and '"' not in w and "\ufeff" not in w)


@given(
    rows=st.lists(st.tuples(NUMBERS, NUMBERS, WORDS), min_size=1, max_size=8),
    decimal=st.sampled_from([".", ","]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    quote=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=60, deadline=None)
def test_written_values_come_back(
    tmp_path_factory: Any, rows: Any, decimal: str, encoding: str, quote: bool, end: str
) -> None:
    def number(value: float | None) -> str:
        return "." if value is None else f"{value:.2f}".replace(".", decimal)

    header = "TRIAL_INDEX\tIA_ID\tIA_DWELL_TIME\tIA_FIRST_FIXATION_DURATION\tIA_LABEL"
    lines = [header]
    for k, (a, b, word) in enumerate(rows):
        label = f'"{word}"' if quote else word
        lines.append(f"1\t{k}\t{number(a)}\t{number(b)}\t{label}")
    path = tmp_path_factory.mktemp("report") / "r.txt"
    path.write_bytes((end.join(lines) + end).encode(encoding))
    areas = read_data_viewer(path).check().areas
    assert areas["text"].tolist() == [word for *_, word in rows]
    for k, name in enumerate(("IA_DWELL_TIME", "IA_FIRST_FIXATION_DURATION")):
        np.testing.assert_array_equal(
            areas[name], [np.nan if row[k] is None else row[k] for row in rows]
        )


# ---------------------------------------------------------------- damaged reports


def mutated(content: bytes, generator: random.Random) -> bytes:
    """Return the content with some bytes changed, cut out, doubled or put in."""
    data = bytearray(content)
    for _ in range(generator.randint(1, 6)):
        at = generator.randrange(len(data) + 1)
        end = min(len(data), at + generator.randint(1, 40))
        piece = generator.choice(
            [b'"', b"\t", b"\n", b"\r", b",", b".", b"\0", b"\xff", b"\xc3", b"[ ", b"1e999", b"-"]
        )
        what = generator.randrange(5)
        if what == 0:
            data[at:end] = b""
        elif what == 1:
            data[at:at] = piece * generator.randint(1, 3)
        elif what == 2:
            data[at:at] = data[at:end]
        elif what == 3 and at < len(data):
            data[at] = generator.randrange(256)
        else:
            del data[at:]
    return bytes(data)


def fuzz(seconds: float, folder: Path, seed: int = 1) -> int:
    """Read damaged reports for some time; anything but a `DataError` goes through."""
    areas = table(
        "RECORDING_SESSION_LABEL TRIAL_INDEX IA_ID IA_LABEL IA_LEFT IA_TOP IA_DWELL_TIME",
        '"P1" 1 1 "a" 1,5 2,5 .',
        '"P1" 1 2 """ 1,5 2,5 210',
    )
    samples = table("TRIAL_INDEX TIMESTAMP LEFT_GAZE_X LEFT_GAZE_Y", "1 1 2.5 .", "1 2 3.5 4.5")
    texts = [FIXATIONS, COMMA, UMLAUT, areas, samples, areas.replace("\t", ";")]
    starts = [t.encode(e) for t in texts for e in ("utf-8", "utf-8-sig", "utf-16")]
    starts += [gzip.compress(starts[0])]
    pd.DataFrame({"CURRENT_FIX_X": ["1"], "CURRENT_FIX_Y": [2.0]}).to_parquet(folder / "p.parquet")
    starts += [(folder / "p.parquet").read_bytes()]
    generator, path, n = random.Random(seed), folder / "r.txt", 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        content = mutated(generator.choice(starts), generator)
        path.write_bytes(content)
        kind = generator.choice([None, None, "fixation", "interest_area", "sample"])
        try:
            recognises(content[: 1 << 16], path.name)
            read_data_viewer(path, kind=kind).check()
        except DataError as error:
            assert str(error)
        except Exception as error:
            raise AssertionError(f"{error!r} for {content!r}") from error
        n += 1
    return n


def test_damaged_reports_raise_clear_errors(tmp_path: Path) -> None:
    assert fuzz(2.0, tmp_path) > 50


@pytest.mark.slow
def test_many_damaged_reports_raise_clear_errors(tmp_path: Path) -> None:
    seconds = float(os.environ.get("GAZEATTN_FUZZ_SECONDS", "5"))
    assert fuzz(seconds, tmp_path, seed=random.SystemRandom().randrange(1 << 30)) > 0
