"""Reading text tables: bytes, separators, marks for missing, rows of unequal length."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.columns import Column
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.readers.delimited import read_table
from gazeattn.readers.textfile import Format

SCHEMA = {
    "participant": Column("text", "reader", True, False),
    "text": Column("text", "word", True, False),
    "x": Column("float", "x"),
    "question": Column("text", "question"),
}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(content: str | bytes, name: str = "f.csv", **options: Any) -> pd.DataFrame:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        columns = options.pop("columns", None)
        return read_table(path, SCHEMA, columns, step="words", form=Format(**options))[0]

    return read


# ---------------------------------------------------------------- bytes

BODY = "participant,text,x\nP01,Zürich,1.5\nP02,“naïve”,2\n"


@pytest.mark.parametrize(
    "content",
    [
        BODY.encode("utf-8"),
        b"\xef\xbb\xbf" + BODY.encode("utf-8"),
        BODY.encode("utf-16"),
        BODY.encode("utf-16-le"),
        BODY.encode("utf-16-be"),
        BODY.encode("utf-32"),
        b"\xfe\xff" + BODY.encode("utf-16-be"),
        gzip.compress(b"\xef\xbb\xbf" + BODY.encode("utf-8"), mtime=0),
        BODY.replace("\n", "\r\n").encode(),
        BODY.replace("\n", "\r").encode(),
        b"\n\n" + BODY.encode(),
        BODY.rstrip("\n").encode(),
        BODY.replace("participant", ' participant "').replace(' "', " ").encode(),
    ],
)
def test_byte_order_marks_and_line_ends_do_not_matter(read: Any, content: bytes) -> None:
    frame = read(content)
    assert list(frame.columns) == ["participant", "text", "x"]
    assert frame["text"].tolist() == ["Zürich", "“naïve”"]
    assert frame["x"].tolist() == [1.5, 2.0]


def test_legacy_bytes_with_the_stated_encoding(read: Any) -> None:
    content = b"participant,text\nP01,the captain\x92s \x93ship\x94 \x97 lost\n"
    frame = read(content, encoding="cp1252")
    assert frame["text"].tolist() == ["the captain’s “ship” — lost"]


@pytest.mark.parametrize("bad", [b"\x92", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf"])
@pytest.mark.parametrize("before", ["", "é" * 10, "x" * ((1 << 24) - 24)])
def test_legacy_bytes_without_encoding_name_file_and_offset(
    read: Any, bad: bytes, before: str
) -> None:
    start = b"participant,text\nP01," + before.encode()
    with pytest.raises(DataError) as caught:
        read(start + bad + b"\n")
    assert f"byte 0x{bad[0]:02x} at offset {len(start)} " in str(caught.value)
    assert "f.csv, row 2" in str(caught.value) and "cp1252" in str(caught.value)


def test_bytes_that_the_stated_encoding_lacks(read: Any) -> None:
    with pytest.raises(DataError, match="offset 21 is not valid cp1252"):
        read(b"participant,text\nP01,\x81\n", encoding="cp1252")


def test_zero_bytes_are_damage(read: Any) -> None:
    with pytest.raises(DataError, match="zero byte at offset 22"):
        read(b"participant,text\nP01,a\x00b\n" + b"P01,word\n" * 50)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"\x1f\x8b\x08\x00", "damaged or cut"),
        (gzip.compress(BODY.encode() * 100, mtime=0)[:-20], "damaged or cut"),
        (b"\x1f\x8b\x08\x00\x92\xed\rk\x02\xff}\x90o", "damaged or cut"),
        (b"PK\x03\x04rest", "spreadsheet"),
        (b"PAR1 not really", "Parquet file is damaged"),
        (b"participant,text\n", "no rows"),
        (b"participant,text", "no rows"),
        (b"participant,text\n,\n,\n", "0 of 2 rows valid"),
        (b"participant,participant\na,b\n", "more than once"),
    ],
)
def test_files_without_a_table(read: Any, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(content)
    assert "f.csv" in str(caught.value)


def test_a_misspelt_file_gets_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text(BODY)
    with pytest.raises(DataError, match=r"Did you mean 'words\.csv'"):
        read_table(tmp_path / "word.csv", SCHEMA, step="words")
    with pytest.raises(DataError, match="folder"):
        read_table(tmp_path, SCHEMA, step="words")


# ---------------------------------------------------------------- separators and decimals


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["f.csv", "f.tsv", "f.txt", "f"])
def test_the_separator_is_found(read: Any, separator: str, name: str) -> None:
    frame = read(BODY.replace(",", separator), name)
    assert list(frame.columns) == ["participant", "text", "x"]


@pytest.mark.parametrize("separator", ["tab", "\\t", "\t"])
def test_the_separator_can_be_named(read: Any, separator: str) -> None:
    assert read("participant\ttext\na\tb;c\n", separator=separator)["text"].tolist() == ["b;c"]
    with pytest.raises(DataError, match="one character"):
        read(BODY, separator=", ")


def test_decimal_commas(read: Any) -> None:
    content = "participant;text;x\na;b;1,5\nc;d;\ne;f;3\ng;h;.\n"
    x = read(content, decimal=",")["x"]
    assert x[:1].tolist() == [1.5] and x.isna().tolist() == [False, True, False, True]
    assert x.dtype == "float64"
    frame = read(content)  # kept as text, so that the check can name the value
    assert frame["x"].tolist()[0] == "1,5"
    with pytest.raises(DataError, match="decimal comma") as caught:
        read("participant;text;x\na;b;1,5\nc;d;2.5\n", decimal=",")
    assert caught.value.row == 3 and "'2.5'" in str(caught.value)
    assert read("participant;text;x\na;b;1,5\nc;d;n/A\n", decimal=",")["x"].tolist()[0] == "1.5"
    with pytest.raises(DataError, match="point or a comma"):
        read(content, decimal=";")


@pytest.mark.parametrize(
    ("content", "row"),
    [
        ("participant,text,x\na,b,1\nc,d\n", "3"),  # the last line is cut
        ("participant,text,x\na,b,1,9\nc,d,2\n", "2"),
        ("participant,text,x\na,b,1\nc,d,2\ne,f,g,h\n", "4"),
        ("participant,text,x\n" + "a,b,1\n" * 50_000 + "c\n", "50002"),
    ],
)
def test_rows_of_another_length_raise_with_their_number(read: Any, content: str, row: str) -> None:
    with pytest.raises(DataError, match="another number of cells") as caught:
        read(content)
    assert str(caught.value.row) == row


def test_a_lone_quote_does_not_swallow_lines(read: Any) -> None:
    content = 'participant\ttext\tx\na\t"The\t1\nb\tdog"\t2\n'
    with pytest.raises(DataError, match="quote"):
        read(content, "f.tsv")
    assert read(content, "f.tsv", quote=None)["text"].tolist() == ['"The', 'dog"']


def test_quoted_cells(read: Any) -> None:
    frame = read('participant,text,question\na,"10,000","two\nlines"\nb,"""so""",x\n')
    assert frame["text"].tolist() == ["10,000", '"so"']
    assert frame["question"].tolist() == ["two\nlines", "x"]


# ---------------------------------------------------------------- values


def test_words_that_look_like_missing_values(read: Any) -> None:
    rows = "null,210\nNA,180\nnan,190\nNone,200\n.,.\nN/A,\n#N/A,NA\nTrue,null\n"
    frame = read("text,x\n" + rows)
    assert frame["text"].tolist() == ["null", "NA", "nan", "None", ".", "N/A", "#N/A", "True"]
    assert frame["x"][:4].tolist() == [210, 180, 190, 200] and frame["x"][4:].isna().all()


@pytest.mark.parametrize("mark", ["", ".", "NaN", "nan", "NA", "n/a", "NULL", "None", "-", " "])
def test_missing_marks_of_numbers(read: Any, mark: str) -> None:
    x = read(f"participant,x\na,1\nb,{mark}\n")["x"]
    assert pd.to_numeric(x, errors="coerce").isna().tolist() == [False, True]


def test_ids_stay_text_and_lose_only_blanks(read: Any) -> None:
    frame = read("participant,text,x\n007, the ,1\n7 ,1e5,2\n,a,3\n")
    assert frame["participant"].tolist()[:2] == ["007", "7"]
    assert pd.isna(frame["participant"][2])
    assert frame["text"].tolist()[:2] == [" the ", "1e5"]  # words stay exactly


@pytest.mark.parametrize("word", ["👩‍🔬", "a\u200bb", "e\u0301", "\u200d", "שלום", "ﬁ", "\u00a0"])
def test_any_letters_stay(read: Any, word: str) -> None:
    assert read(f"participant,text\na,{word}\n")["text"].tolist() == [word]


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\n\r\0", codec="utf-8"), min_size=1),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=40, deadline=None)
def test_written_words_come_back(tmp_path_factory: Any, words: list[str]) -> None:
    path = tmp_path_factory.mktemp("words") / "w.csv"
    pd.DataFrame({"participant": "p", "text": words}).to_csv(path, index=False)
    frame, _ = read_table(path, SCHEMA, step="words")
    assert frame["text"].tolist() == words


def test_parquet_keeps_types(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"  # the content counts, not the name
    frame = pd.DataFrame({"participant": [1, 2], "text": ["NA", "."], "x": [1.5, np.nan]})
    frame.to_parquet(path)
    back, _ = read_table(path, SCHEMA, step="words")
    assert back["participant"].tolist() == [1, 2] and back["text"].tolist() == ["NA", "."]


# ---------------------------------------------------------------- column map


def test_column_map(read: Any) -> None:
    frame = read("subj,wort,x\na,b,1\n", columns={"participant": "subj", "text": "wort"})
    assert list(frame.columns) == ["participant", "text", "x"]


def test_column_map_with_a_numeric_header(read: Any) -> None:
    frame = read("1,2\na,b\n", columns={"participant": 1, "text": 2})
    assert frame.loc[0].tolist() == ["a", "b"]


def test_one_column_can_serve_twice_and_none_means_not_mapped(read: Any) -> None:
    frame = read("id,x\na,1\n", columns={"participant": "id", "text": "id", "x": None})
    assert frame.loc[0, ["participant", "text"]].tolist() == ["a", "a"]


def test_a_replaced_column_is_kept_under_another_name(read: Any) -> None:
    frame = read("participant,code,x\na,b,1\n", columns={"participant": "code"})
    assert frame["participant"].tolist() == ["b"]
    assert frame["participant_original"].tolist() == ["a"]


def test_two_columns_can_swap_names(read: Any) -> None:
    frame = read("participant,text\na,b\n", columns={"participant": "text", "text": "participant"})
    assert frame["participant"].tolist() == ["b"] and frame["text"].tolist() == ["a"]


def test_column_map_with_wrong_names(read: Any) -> None:
    with pytest.raises(DataError, match="Did you mean 'subject'"):
        read("subject,text\na,b\n", columns={"participant": "subjekt"})
    with pytest.raises(UnknownNameError, match="did you mean 'participant'"):
        read("subject,text\na,b\n", columns={"particpant": "subject"})


def test_unknown_encoding() -> None:
    with pytest.raises(UnknownNameError, match="cp1252"):
        Format(encoding="cp1252x")


@pytest.mark.parametrize("head", ["text,x", '"text","x"'])
def test_quotes_in_the_header_alone_and_in_cells(read: Any, head: str) -> None:
    plain = read(f"{head}\nthe,0\n'n',1\n")
    assert plain["text"].tolist() == ["the", "'n'"]
    quoted = read(f'{head}\nthe,0\n"a, b",1\n"say ""so""",2\n')
    assert quoted["text"].tolist() == ["the", "a, b", 'say "so"']
    assert quoted["x"].tolist() == [0, 1, 2]


def test_rows_are_dropped_only_where_all_cells_are_empty(read: Any) -> None:
    frame = read("participant,text,x\nP1,the,1\n , ,.\nP2,,\n,,2\n,,-\n,NA,\n")
    assert frame["participant"].fillna("?").tolist() == ["P1", "P2", "?", "?"]
    assert frame["text"].fillna("").tolist() == ["the", "", "", "NA"]
    assert frame["x"].isna().tolist() == [False, True, False, True]
