"""What holds for every registered reader, and for the door that all files go through."""

from __future__ import annotations

import gzip
import inspect
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gazeattn import readers, registry
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.recordings import SCHEMAS, Recording

from . import trackers
from .reports import FIXATIONS

ASC = (
    "** CONVERTED FROM x.edf\nMSG\t90 TRIALID 1\nSTART\t100 \tRIGHT\tSAMPLES\tEVENTS\n"
    "SAMPLES\tGAZE\tRIGHT\tRATE\t1000.00\tTRACKING\tCR\tFILTER\t2\n"
    "100\t  512.0\t  384.0\t  700.0\t...\n101\t  513.0\t  384.5\t  701.0\t...\n"
    "END\t102 \tSAMPLES\tEVENTS\tRES\t  38.00\t  31.00\n"
)
PLAIN = "participant,trial,onset,duration,x,y\nP01,1,0,200,10,20\nP01,1,250,180,30,20\n"
FILES = {
    "eyelink_asc": ("a.asc", ASC),
    "data_viewer": ("a.txt", FIXATIONS),
    "plain": ("a.csv", PLAIN),
    "tobii": ("a.tsv", trackers.tobii()),
    "gazepoint": ("a.csv", trackers.GAZEPOINT),
    "smi": ("a.txt", trackers.SMI),
}
NAMES = registry.readers.names()


@pytest.mark.parametrize("name", NAMES)
def test_facts_and_options(name: str) -> None:
    entry = registry.readers.get(name)
    for key in ("vendor", "formats", "description", "tested_on"):
        assert entry.info.get(key), key
    assert entry.obj.__doc__ and "Raises" in entry.obj.__doc__
    parameters = list(inspect.signature(entry.obj).parameters.values())
    assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in parameters[1:])


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("form", ["utf-8", "utf-8-sig", "crlf", "gz"])
def test_a_file_is_known_by_its_content_to_one_reader(name: str, form: str, tmp_path: Path) -> None:
    file, text = FILES[name]
    if form == "crlf":
        text = text.replace("\n", "\r\n")
    data = text.encode("utf-8-sig" if form == "utf-8-sig" else "utf-8")
    path = tmp_path / file
    if form == "gz":
        path, data = tmp_path / f"{file}.gz", gzip.compress(data)
    path.write_bytes(data)
    assert readers.identify(path) == name
    recording = readers.read(path, **({"screen": (1920, 1080)} if name == "gazepoint" else {}))
    assert recording.reader == name and recording.source == path.name
    assert recording.tables()
    for kind, table in recording.tables().items():
        for column, spec in SCHEMAS[kind].items():
            if column in table and spec.kind == "text":
                assert isinstance(table[column].dtype, pd.StringDtype), (kind, column)
        for column in ("time", "onset"):
            if column in table and "block" in table:
                steps = table.groupby("block")[column].diff().dropna()
                assert kind in ("fixations", "saccades", "blinks") or (steps >= 0).all()


@pytest.mark.parametrize("kind", sorted(trackers.EXAMPLES))
def test_every_kind_of_export_finds_its_reader(kind: str, tmp_path: Path) -> None:
    vendors = {"tobii": "tobii", "gazepoint": "gazepoint", "smi": "smi"}
    assert readers.identify(trackers.write(tmp_path, kind)) == vendors.get(kind.split()[0], "pupil")


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(head=st.binary(max_size=300))
@example(head=b"")
@example(head=b"\xff\xfe")
@example(head=b"\xef\xbb\xbf")
@example(head=b"\x00" * 50)
@example(head=b",,,,\n")
@example(head=b"\n\n\n")
def test_no_reader_fails_to_say_whether_a_file_is_its(name: str, head: bytes) -> None:
    known = registry.readers.get(name).info["recognises"](head, "x.csv")
    assert known in (True, False)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\x00" * 99,
        b"\xff\xfe",
        b"\x1f\x8b\x08\x00zz",
        b"a",
        b"a,b\n1\n",
        b"PK\x03\x04",
    ],
)
def test_what_is_no_recording_is_refused_clearly(name: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        readers.read(path, reader=name)
    assert "x.csv" in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_and_a_folder_are_said(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        readers.read(tmp_path / "gone.asc", reader=name)
    if name not in ("pupil", "bids"):  # a recording of these is a folder
        with pytest.raises(DataError, match="folder"):
            readers.read(tmp_path, reader=name)


def test_names_and_options_get_a_suggestion(tmp_path: Path) -> None:
    path = tmp_path / "a.asc"
    path.write_text(ASC)
    with pytest.raises(UnknownNameError, match="eyelink_asc"):
        readers.read(path, reader="eyelink_acs")
    with pytest.raises(UnknownNameError, match="participant"):
        readers.read(path, particpant="P01")


def test_a_reader_that_breaks_its_schema_is_named() -> None:
    wrong = Recording("f", "mine", fixations=pd.DataFrame({"x": [1.0]}))
    with pytest.raises(DataError, match=r"lacks the column 'onset'.*|mine"):
        wrong.check()
    wrong = Recording("f", "mine", blinks=pd.DataFrame({"onset": ["1"], "duration": [1.0]}))
    with pytest.raises(DataError, match="must be float"):
        wrong.check()
