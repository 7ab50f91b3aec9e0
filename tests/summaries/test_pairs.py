"""Pairs of code and summary: sentences, duplicates, parts, files."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.summaries.pairs import (
    FACTS,
    TABLE,
    CodePairs,
    code_key,
    first_sentence,
    normalised,
    split_of,
    without_duplicates,
)


def row(k: str, code: str, summary: str, project: str = "p", split: str = "train") -> dict:
    return {"id": k, "project": project, "path": "a.py", "name": "f", "language": "python",
            "code": code, "summary": summary, "split": split}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Return the mean. It is fast.", "Return the mean."),
        ("Return the mean\n    of a list.\n\n    More.", "Return the mean of a list."),
        ("Use e.g. This one. Then go.", "Use e.g. This one."),
        ("Version 1.5 of it. Yes.", "Version 1.5 of it."),
        ("By A. Smith and others. Yes", "By A. Smith and others."),
        ("No stop at all", "No stop at all"),
        ("Is it? Yes.", "Is it?"),
    ],
)
def test_first_sentences(text: str, expected: str) -> None:
    assert first_sentence(text) == expected


def test_the_same_code() -> None:
    one = "def f(a):\n    # adds\n    return a+1\n"
    assert normalised(one) == "def f ( a ) : return a + 1"
    assert code_key(one) == code_key("def f(a):\n\treturn a + 1  # more")
    assert code_key(one) != code_key("def g(a): return a + 1")


def test_duplicates_stay_where_they_are_tested() -> None:
    table = pd.DataFrame([
        row("a", "x = 1", "One.", "p"),
        row("b", "x  =  1  # again", "Two.", "q", "test"),
        row("c", "y = 2", "Three.", "p"),
        row("d", "z = 3", "Three.", "p"),
        row("e", "w = 4", "Three.", "r", "val"),
        row("f", "def seen(argument):\n    return argument + 12345", "Four.", "p"),
    ])  # fmt: skip
    lost = LossLog()
    shown = "class A:\n    def seen(argument):\n        return argument + 12345\n"
    kept = without_duplicates(table, lost, [shown])
    # a is in the test part as well, d says what c says, f was looked at in a study
    assert kept["id"].tolist() == ["b", "c", "e"]
    counts = lost.to_frame().set_index("reason")["count"]
    assert counts["the same code again"] == 1
    assert counts["the same sentence again in a project"] == 1
    assert counts["code of an eye-tracking study"] == 1


def test_checks() -> None:
    good = pd.DataFrame([row("a", "x", "One."), row("b", "y", "Two.", "q", "test")])
    assert len(CodePairs(good).check().part("test")) == 1
    with pytest.raises(UnknownNameError, match="test"):
        CodePairs(good).part("tset")
    for changed, says in (
        (good.assign(id="a"), "same id"),
        (good.assign(project="p"), "in two parts"),
        (good.assign(code=["", "y"]), "without code"),
        (good.assign(split=["train", "dev"]), "parts"),
        (good.drop(columns="name"), "columns"),
    ):
        with pytest.raises(DataError, match=says):
            CodePairs(changed).check()
    assert split_of({"p": "val", "q": "test"}, good)["split"].tolist() == ["val", "test"]
    with pytest.raises(DataError, match="no part"):
        split_of({"p": "val"}, good)


def test_files(tmp_path: Path) -> None:
    made = CodePairs(pd.DataFrame([row("a", "x", "One."), row("b", "y", "Two.", "q", "test")]),
                     {"source": "here"})  # fmt: skip
    folder = made.save(tmp_path / "out")
    again = CodePairs.load(folder)
    pd.testing.assert_frame_equal(again.table, made.table, check_dtype=False)
    assert again.facts["counts"] == {"train": {"p": 1}, "val": {}, "test": {"q": 1}}
    facts = json.loads((folder / FACTS).read_text())
    (folder / FACTS).write_text(json.dumps({**facts, "sha256": "0"}))
    with pytest.raises(DataError, match="not those that were written"):
        CodePairs.load(folder)
    (folder / FACTS).write_text("{")
    with pytest.raises(DataError, match="damaged"):
        CodePairs.load(folder)
    (folder / TABLE).unlink()
    with pytest.raises(DataError, match="no summaries"):
        CodePairs.load(folder)
