"""What all corpora share: pages, finding files, reading them as text, corrections, counts."""

from __future__ import annotations

import gzip
import hashlib
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gazeattn import registry
from gazeattn.datasets import GazeDataset, corpus, load
from gazeattn.datasets.corpus import (
    Corpus,
    CorpusFile,
    checksums,
    correct,
    find_folder,
    finish,
    missing_message,
    nearest_edition,
    need_file,
    page_names,
)
from gazeattn.datasets.corpusfiles import find_files, has_file, text_table
from gazeattn.errors import ChecksumError, DataError, MissingAssetError
from gazeattn.losses import LossLog

PAGE = Corpus(
    name="toy",
    title="A toy",
    task="reading",
    size="two readers",
    licence="CC0",
    citation="Nobody (2020)",
    url="https://example.org/toy",
    files=(
        CorpusFile("fixations.csv", urls=("https://example.org/f.csv",)),
        CorpusFile("reports/P{participant}.csv", optional=True, unverified=True),
    ),
    marker=("fixations.csv", "words.csv"),
    obtain="Ask nobody.",
    expected={"whole": {"participants": 2, "fixations": 3}, "part": {"participants": 1}},
)


@pytest.mark.parametrize("name", page_names())
def test_every_page_has_its_facts(name: str) -> None:
    page = corpus.corpus(name)
    assert page.name == name
    for fact in (page.title, page.task, page.size, page.licence, page.citation, page.description):
        assert fact
    for file in page.files:
        # an address or checksum that nobody checked says so
        assert file.unverified or not (file.urls or file.md5 or file.sha256), file.name
    for counts in page.expected.values():
        assert all(isinstance(n, int) for n in counts.values())
    for entry in page.corrections:
        assert any(isinstance(entry.get(k), str) for k in ("reason", "rule", "what")), entry


@pytest.mark.parametrize("name", page_names())
def test_missing_files_say_what_to_fetch_and_where_to_put_it(name: str, tmp_path: Path) -> None:
    assert name in registry.datasets
    with pytest.raises(MissingAssetError) as caught:
        load(name, root=tmp_path)
    said = str(caught.value)
    page = corpus.corpus(name)
    assert str(tmp_path / "datasets" / name) in said
    assert f"gazeattn fetch {name}" in said and "root=" in said and "GAZEATTN_SHARED" in said
    for file in page.files:
        assert file.name in said
        for url in file.urls:
            assert url in said


def test_the_message_says_which_marker_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "fixations.csv").write_text("a\n1\n")
    said = missing_message(PAGE, tmp_path)
    assert f"{folder} has fixations.csv, but lacks words.csv" in said
    assert "- reports/P{participant}.csv (optional): https://example.org/toy (not verified)" in said
    assert "- fixations.csv: https://example.org/f.csv\n" in said


def test_a_corpus_is_found_at_below_and_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("a", "b/toy", "c/datasets/toy"):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / "fixations.csv.gz").write_bytes(gzip.compress(b"a\n1\n", mtime=0))
        (folder / "words.csv").write_text("a\n1\n")
        assert find_folder(PAGE, tmp_path / place.split("/")[0]) == folder
    monkeypatch.setenv("GAZEATTN_DATA", str(tmp_path / "c"))
    monkeypatch.delenv("GAZEATTN_SHARED", raising=False)
    assert find_folder(PAGE) == tmp_path / "c/datasets/toy"
    monkeypatch.setenv("GAZEATTN_SHARED", str(tmp_path / "b"))
    assert find_folder(PAGE) == tmp_path / "b/toy"
    (tmp_path / "a/words.csv").unlink()
    assert find_folder(PAGE, tmp_path / "a") is None


def test_patterns_find_packed_and_unpacked_files_once(tmp_path: Path) -> None:
    for name in ("P1.csv", "P1.csv.gz", "P2.csv.gz", "Q.csv"):
        (tmp_path / name).write_text("x")
    assert [p.name for p in find_files(tmp_path, "P{participant}.csv")] == ["P1.csv", "P2.csv.gz"]
    assert has_file(tmp_path, "Q.csv") and not has_file(tmp_path, "R.csv")
    with pytest.raises(MissingAssetError, match=r"lacks R.csv \(or R.csv.gz\)"):
        need_file(tmp_path, PAGE, "R.csv")


def test_pages_cannot_be_changed_by_who_reads_them() -> None:
    name = page_names()[0]
    first = corpus.corpus(name)
    before = repr(first)
    if isinstance(first.tables, dict):
        first.tables["leak"] = {"x": 1}  # type: ignore[index]
    first.expected.setdefault("leak", {})  # type: ignore[attr-defined]
    assert repr(corpus.corpus(name)) == before
    listed = registry.datasets.get(name).info["page"]
    assert "leak" not in listed.tables and "leak" not in listed.expected


def test_a_page_with_an_unknown_key_or_without_facts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "PAGES", tmp_path)
    (tmp_path / "bad_key.yaml").write_text("name: bad_key\nlicense: CC0\n")
    with pytest.raises(DataError, match=r"no key 'license'.*'licence'"):
        corpus.corpus("bad_key")
    (tmp_path / "thin.yaml").write_text("name: thin\ntitle: t\ntask: reading\n")
    with pytest.raises(DataError, match="missing: size, licence, citation"):
        corpus.corpus("thin")
    (tmp_path / "other.yaml").write_text(
        "name: wrong\ntitle: t\ntask: r\nsize: s\nlicence: l\ncitation: c\n"
    )
    with pytest.raises(DataError, match="name 'wrong'"):
        corpus.corpus("other")


# -- reading tables as text ----------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_cells_stay_as_written(tmp_path: Path, packed: bool, mark: bytes) -> None:
    data = mark + b'"id",word\n007,NA\n1,null\n2,.\n3,\n4,"a,b"\n'
    path = tmp_path / "t.csv"
    path.write_bytes(gzip.compress(data) if packed else data)
    table = text_table(path)
    assert list(table) == ["id", "word"]
    assert table["id"].tolist() == ["007", "1", "2", "3", "4"]
    assert table["word"].tolist() == ["NA", "null", ".", "", "a,b"]
    assert not table.isna().any().any()


def test_quotes_can_be_ordinary_characters(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(b'"label"\tx\r\n"""\t1\r\n"a"\t2\r\n')
    table = text_table(path, separator="\t", quote=None)
    assert table["label"].tolist() == ['"""', '"a"'] and table["x"].tolist() == ["1", "2"]


def test_stated_encodings_and_chosen_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\nthe captain\x92s \x93ship\x94 \x97 lost,2\n")
    assert text_table(path, ["a"], encoding="cp1252")["a"][0] == "the captain’s “ship” — lost"
    with pytest.raises(DataError, match="byte 0x92 at offset 15"):
        text_table(path)


def test_numbers_can_be_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"w,n\n.,.\nNA,\nnull,1.5\n")
    table = text_table(path, numbers=["n"])
    assert table["w"].tolist() == [".", "NA", "null"]
    assert table["n"].isna().tolist() == [True, True, False] and table["n"][2] == 1.5
    path.write_bytes(b"w,n\n1,x\n")
    with pytest.raises(DataError, match="invalid value 'x'"):
        text_table(path, numbers=["n"])


@pytest.mark.parametrize(
    ("data", "columns", "match"),
    [
        (b"a,b\n1\n", None, "not a readable table"),
        (b"a,b\n1,2,3\n", None, "not a readable table"),
        (b"participant,b\n1,2\n", ["particpant"], "Did you mean 'participant'"),
        (b"a,a\n1,2\n", None, "stands twice"),
        (b"", None, "no header"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], None, "damaged or cut"),
    ],
)
def test_damaged_tables_say_so(
    tmp_path: Path, data: bytes, columns: list[str] | None, match: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(DataError, match=match):
        text_table(path, columns)


def test_ragged_rows_are_filled_but_never_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(b'a\tb\tc\n1\t"two\nlines"\n3\t4\t5\n')
    table = text_table(path, separator="\t", ragged=True)
    assert table.to_numpy().tolist() == [["1", "two\nlines", ""], ["3", "4", "5"]]
    path.write_bytes(b"a\tb\n1\t2\t3\n")
    with pytest.raises(DataError, match="more cells than the header"):
        text_table(path, separator="\t", ragged=True)


@given(
    st.lists(
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x00")), min_size=2,
                 max_size=2),
        min_size=1,
        max_size=8,
    )
)  # fmt: skip
def test_whatever_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    pd.DataFrame(rows, columns=["a", "b"]).to_csv(path, index=False, quoting=1)
    assert text_table(path).to_numpy().tolist() == rows


# -- corrections ---------------------------------------------------------------------------------


def corrected(frame: pd.DataFrame, *entries: dict) -> tuple[pd.DataFrame, LossLog]:
    lost = LossLog()
    page = replace(PAGE, corrections=tuple({"table": "t", "reason": "why", **e} for e in entries))
    return correct(frame, page, "t", lost), lost


def test_corrections_are_applied_once_and_counted() -> None:
    frame = pd.DataFrame({"who": ["P38", "P97", "P97"], "score": ["-1", "7", "-1.0"]})
    out, lost = corrected(
        frame,
        {"where": {"who": "P97"}, "set": {"who": "P38b"}},
        {"where": {"score": (-1, -1.0)}, "set": {"score": None}, "reason": "no score"},
        {"where": {"who": "P38"}, "drop": True, "reason": "test person"},
        {"where": {"who": "nobody"}, "set": {"who": "x"}, "reason": "fits no row"},
        {"table": "other", "where": {"absent": 1}, "set": {"absent": 2}},
        {"rule": "in the loader", "reason": "not here"},
    )
    assert out["who"].tolist() == ["P38b", "P38b"] and out["score"].isna().tolist() == [False, True]
    assert [(x.kind, x.count, x.reason) for x in lost] == [
        ("repaired", 2, "why"),
        ("undefined", 2, "no score"),
        ("dropped", 1, "test person"),
    ]
    assert frame["who"].tolist() == ["P38", "P97", "P97"]  # the input stays
    again, lost = corrected(out, {"where": {"who": "P97"}, "set": {"who": "P38b"}})
    assert again.equals(out) and len(lost) == 0


def test_a_correction_that_would_merge_two_people_is_not_applied() -> None:
    frame = pd.DataFrame({"who": ["P38", "P97"]})
    entry = {"where": {"who": "P97"}, "set": {"who": "P38"}, "unless": {"who": "P38"}}
    out, lost = corrected(frame, entry)
    assert out.equals(frame)
    assert ["not applied, since who P38 is there" in x.reason for x in lost] == [True]
    assert corrected(frame[1:], entry)[0]["who"].tolist() == ["P38"]


def test_all_conditions_must_hold_and_columns_must_be_there() -> None:
    frame = pd.DataFrame({"who": ["a", "a"], "trial": [1, 2], "x": [0.0, 0.0]})
    out, _ = corrected(frame, {"where": {"who": "a", "trial": 2}, "set": {"x": 5.0}})
    assert out["x"].tolist() == [0.0, 5.0]
    with pytest.raises(DataError, match="names column 'y'"):
        corrected(frame, {"where": {"who": "a"}, "set": {"y": 1}})


def test_rules_of_a_page_are_found_by_name() -> None:
    page = replace(PAGE, corrections=({"rule": "a", "reason": "because"},))
    assert page.rule("a") == "because"
    with pytest.raises(DataError, match=r"no correction with rule 'b'.*found a"):
        page.rule("b")


# -- checksums, counts, facts --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_files_that_are_not_those_of_the_page_are_refused(tmp_path: Path, kind: str) -> None:
    data = b"a\n1\n"
    (tmp_path / "f.csv").write_bytes(data)
    sums: dict[str, Any] = {kind: hashlib.new(kind, data).hexdigest()}
    page = replace(PAGE, files=(CorpusFile("f.csv", **sums),), version="of 2020")
    found = checksums(tmp_path, page)
    assert found == {"f.csv": hashlib.sha256(data).hexdigest()}
    (tmp_path / "f.csv").unlink()
    (tmp_path / "f.csv.gz").write_bytes(gzip.compress(data))  # packed later: same content
    assert list(checksums(tmp_path, page)) == ["f.csv.gz"]
    (tmp_path / "f.csv").write_bytes(b"a\n2\n")
    with pytest.raises(ChecksumError, match=rf"of 2020.*expected {kind} {sums[kind]}; found"):
        checksums(tmp_path, page)
    doubtful = replace(page, files=(CorpusFile("f.csv", unverified=True, **sums),))
    with pytest.warns(UserWarning, match="never checked by a download"):
        checksums(tmp_path, doubtful)


def dataset(n: int) -> GazeDataset:
    trials = pd.DataFrame({"participant": list("AB")[:n], "trial": list("12")[:n], "stimulus": "s"})
    return GazeDataset("toy", pd.DataFrame({"trial": ["1", "1", "2"]}), pd.DataFrame(), trials)


def test_counts_are_compared_with_the_nearest_edition() -> None:
    assert nearest_edition({"participants": 1}, PAGE) == "part"
    assert nearest_edition({"participants": 5}, PAGE) == "whole"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = finish(dataset(2), PAGE, Path("here"))
        part = finish(dataset(1), PAGE, Path("here"))
    assert (whole.info["edition"], part.info["edition"]) == ("whole", "part")
    assert whole.info["counts"]["fixations"] == 3 and len(whole.lost) == 0
    short = replace(PAGE, expected={"whole": {"fixations": 4, "spans": 2}})
    with pytest.warns(UserWarning, match="fixations: 4 expected for 'whole', 3 found"):
        warned = finish(dataset(2), short, Path("here"))
    assert [x.reason for x in warned.lost] == [
        "fixations: 4 expected for 'whole', 3 found",
        "spans: 2 expected for 'whole', none found",
    ]


def test_info_of_one_data_set_does_not_reach_another() -> None:
    own = {"counts": {"x": 1}, "unverified": ["mine"]}
    one = dataset(2)
    one.info = own
    first = finish(one, PAGE, Path("here"))
    first.info["counts"]["leak"] = 1
    first.info["unverified"].append("leak")
    second = finish(dataset(2), PAGE, Path("here"))
    assert "leak" not in second.info["counts"] and second.info["unverified"] == []
    assert own == {"counts": {"x": 1}, "unverified": ["mine"]}


def test_real_corpora_do_not_share_state(shared_data: Path) -> None:
    one = load("reading_drift", root=shared_data)
    one.trials.loc[:, "age_group"] = "changed"
    one.stimuli.clear()
    one.info["counts"].clear()
    two = load("reading_drift", root=shared_data)
    assert set(two.trials["age_group"]) == {"adult", "child"}
    assert len(two.stimuli) == 12 and two.info["counts"]["lines"] == 134
