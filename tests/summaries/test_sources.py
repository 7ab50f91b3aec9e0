"""Pairs out of Python files, wheels, CodeXGLUE and Funcom."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from gazeattn.errors import ChecksumError, DataError, MissingAssetError
from gazeattn.losses import LossLog
from gazeattn.storage import sha256
from gazeattn.summaries import packages as room
from gazeattn.summaries.codexglue import read_codexglue
from gazeattn.summaries.extraction import Limits, description, functions, plain_sentence
from gazeattn.summaries.funcom import read_funcom
from gazeattn.summaries.loading import load_summaries
from gazeattn.summaries.packages import (
    PACKAGES,
    Package,
    build_summaries,
    fetch_summaries,
    obtain,
    summaries_folder,
)

SOURCE = '''
"""A module."""
import os


def mean(values):
    """Return the mean of some values.

    More text.
    """
    total = sum(values)
    # why not
    return total / len(values)


class Box:
    """A box."""

    @property
    def area(self) -> float:
        """Compute the :attr:`area <x>` of ``this`` box."""
        a = self.width
        return a * self.height

    def outer(self):
        "Call a function that is nested inside."

        def inner():
            """Return nothing that is ever counted here."""
            x = 1
            return x

        return inner()

    def short(self):
        """Do it."""
        return 1

    def todo(self):
        """Find all of the things there are."""
        raise NotImplementedError


async def later(x):
    """Wait until some other thing is there."""
    await x
    return x
'''


def test_functions_of_a_file() -> None:
    found = {f.name: f for f in functions(SOURCE)}
    assert list(found) == ["mean", "Box.area", "Box.outer", "Box.short", "Box.todo", "later"]
    assert found["mean"].summary == "Return the mean of some values."
    assert found["mean"].code == (
        "def mean(values):\n    total = sum(values)\n    # why not\n    return total / len(values)"
    )
    assert found["mean"].line == 6 and found["mean"].reason == ""
    assert found["Box.area"].summary == "Compute the area of this box."
    assert found["Box.area"].code.startswith("def area(self) -> float:\n    a = self.width")
    assert "nested" not in found["Box.outer"].code and "never" not in found["Box.outer"].code
    assert "def inner():" in found["Box.outer"].code
    assert found["Box.short"].reason == "sentence too short or too long"
    assert found["Box.todo"].reason in ("code too short or too long", "nothing is done")
    assert found["later"].code.startswith("async def later(x):")


def test_limits_and_odd_files() -> None:
    one = 'def f(): "Return one and nothing else here."; return 1\n'
    assert [f.code for f in functions(one)] == ["def f(): ; return 1"]
    assert list(functions("")) == []
    assert all(f.reason for f in functions("def f(:\n  '''Return one and nothing else.'''"))
    broken = "def f(a):\n    '''Return one and nothing else here.'''\n    x = = 1\n    return x\n"
    assert [f.reason for f in functions(broken)] == ["could not be parsed"]
    long = Limits(lines=(1, 2))
    assert {f.reason for f in functions(SOURCE, long)} >= {"code too short or too long"}
    assert plain_sentence("Use :func:`~a.b.run` on *x* and ``y``") == "Use a.b.run on *x* and y"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Return the proof\n:param simplify: is it short?", "Return the proof"),
        ("Return the name :attr:`x`\n:type y: int", "Return the name :attr:`x`"),
        ("Get the option\n@return: L{None}", "Get the option"),
        ("Does it need more\n\nArgs:\n    a (int): b", "Does it need more\n"),
        ("Returns\n-------\nIterator\n    The rows.", ""),
        ("Show the thing\n--------------\nIt is there.", "Show the thing"),
        ("Make a file of a mapping with\n - a name\n - a type", "Make a file of a mapping with"),
        ("Add one:\n>>> f(1)\n2", "Add one:"),
        ("Returns the first\nof many - or none.", "Returns the first\nof many - or none."),
    ],
)
def test_where_a_description_ends(text: str, expected: str) -> None:
    assert description(text) == expected


def test_marks_are_taken_away() -> None:
    assert plain_sentence("Get the I{name} of C{L{a.Todo}}.") == "Get the name of a.Todo."
    assert plain_sentence("See L{the rules <a.b>}, not {x}.") == "See the rules, not {x}."
    assert plain_sentence("Add attributes to a function::") == "Add attributes to a function"
    one = "def f(a):\n    '''add(item) -> add some item to the set'''\n    b = a\n    return b\n"
    assert [f.reason for f in functions(one)] == ["no description of what it does"]


def wheel(folder: Path, name: str, files: dict[str, str], split: str = "train") -> tuple:
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in files.items():
            archive.writestr(member, text)
    return Package(name, "1.0", sha256(path), "MIT", split), path


def test_wheels_to_pairs(tmp_path: Path) -> None:
    made = [
        wheel(tmp_path, "one", {"one/a.py": SOURCE, "one/tests/test_a.py": SOURCE,
                                "one-1.0.data/x.py": SOURCE, "one/b.txt": "x"}),
        wheel(tmp_path, "two", {"two/a.py": SOURCE.replace("total", "summed")}, "test"),
    ]  # fmt: skip
    pairs = build_summaries(tmp_path / "out", made)
    assert pairs.counts() == {"train": {"one": 1}, "val": {}, "test": {"two": 4}}
    # all but the mean are the same code in both: they stay where they are tested
    assert pairs.part("train").table["name"].tolist() == ["mean"]
    assert pairs.facts["packages"][0]["licence"] == "MIT"
    assert pairs.facts["lost"]["the same code again"] == 3
    assert load_summaries(tmp_path / "out").table["id"].tolist() == pairs.table["id"].tolist()
    less = load_summaries(tmp_path / "out", against=[pairs.table["code"].iloc[0]])
    assert len(less) == len(pairs) - 1


def test_damaged_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, path = wheel(tmp_path, "one", {"one/a.py": SOURCE, "one/b.py": "\ud800".encode(
        "utf-8", "surrogatepass").decode("latin-1")})  # fmt: skip
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ChecksumError, match="damaged"):
        build_summaries(tmp_path / "out", [(package, path)])
    assert not (tmp_path / "out").exists()
    package, path = wheel(tmp_path, "big", {"big/a.py": SOURCE})
    monkeypatch.setattr(room, "MEMBER_LIMIT", 100)
    lost = LossLog()
    assert room.pairs_of_wheel(package, path, Limits(), lost) == []
    assert lost.to_frame()["reason"].tolist() == ["file larger than 4 MiB"]


def test_fetch_goes_on_and_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = SOURCE.replace("total", "all_of_it")
    made = [
        wheel(tmp_path, "one", {"one/a.py": SOURCE}),
        wheel(tmp_path, "two", {"two/a.py": other}, "test"),
    ]
    asked: list[str] = []

    def address(name: str, version: str, **_: object) -> str:
        asked.append(name)
        return f"{name}=={version}"

    def copy(url: str, part: Path, **_: object) -> None:
        if url.startswith("two") and len(asked) < 3:
            raise room.TransferError("no network")
        part.write_bytes((tmp_path / f"{url.split('==')[0]}-1.0-py3-none-any.whl").read_bytes())

    def none(*_: object, **__: object) -> None:
        raise room.TransferError("no network")

    monkeypatch.setattr(room, "PACKAGES", tuple(p for p, _ in made))
    monkeypatch.setattr(room, "wheel_address", address)
    monkeypatch.setattr(room, "stream", copy)
    monkeypatch.setattr(room, "pip_download", none)
    with pytest.raises(MissingAssetError, match="gazeattn fetch code_summaries"):
        fetch_summaries(tmp_path / "root")
    with pytest.raises(MissingAssetError, match="gazeattn fetch code_summaries"):
        load_summaries(root=tmp_path / "root")
    folder = fetch_summaries(tmp_path / "root")
    assert asked == ["one", "two", "two"]  # the first one was kept
    assert folder == summaries_folder(tmp_path / "root")
    assert not list((tmp_path / "root" / "downloads" / room.NAME).glob("*.whl"))
    assert len(load_summaries(root=tmp_path / "root")) == 5
    fetch_summaries(tmp_path / "root")
    assert len(asked) == 3
    (folder / "pairs.parquet").write_bytes(b"damaged")
    fetch_summaries(tmp_path / "root")
    assert len(asked) == 5 and len(load_summaries(root=tmp_path / "root")) == 5
    monkeypatch.setattr(room, "RULES", room.RULES + 1)
    fetch_summaries(tmp_path / "root")
    assert len(asked) == 7
    fetch_summaries(tmp_path / "root")
    assert len(asked) == 7 and not list((tmp_path / "root").glob(".code_summaries*"))
    wrong = Package("one", "1.0", "0" * 64, "MIT", "train")
    with pytest.raises(ChecksumError, match="expected sha256 000"):
        obtain(wrong, tmp_path)
    assert not (tmp_path / wrong.file).exists()


def test_the_list_of_packages() -> None:
    assert len({p.name for p in PACKAGES}) == len(PACKAGES) >= 12
    assert {p.split for p in PACKAGES} == {"train", "val", "test"}
    assert {p.licence for p in PACKAGES} <= {"MIT", "BSD-3-Clause", "Apache-2.0"}
    assert all(len(p.sha256) == 64 for p in PACKAGES)


def test_what_was_fetched_for_real() -> None:
    try:
        pairs = load_summaries()
    except MissingAssetError as error:
        pytest.skip(str(error))
    assert 8000 <= len(pairs) <= 15000
    parts = [set(pairs.part(s).table["project"]) for s in ("train", "val", "test")]
    assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2]


def record(k: int, repo: str, **changes: object) -> str:
    return json.dumps({
        "repo": repo, "path": f"A{k}.java", "func_name": f"A.f{k}", "language": "java",
        "code": f"int f{k}() {{ return {k}; }}", "docstring": f"Returns the number {k}.\n\n@return",
        "docstring_tokens": ["Returns", "the", "number", str(k), "."], **changes,
    })  # fmt: skip


def test_codexglue(tmp_path: Path) -> None:
    folder = tmp_path / "java"
    folder.mkdir()
    (folder / "train.jsonl").write_text("\n".join([record(1, "a"), record(2, "b"), ""]))
    (folder / "valid.jsonl").write_text(record(3, "c"))
    (folder / "test.jsonl").write_text(record(4, "b") + "\n" + record(4, "d"))
    lost = LossLog()
    pairs = read_codexglue(tmp_path, "java", lost)
    # project b is tested as well: its training pair goes; f4 of two projects is one piece of code
    assert pairs.counts() == {"train": {"a": 1}, "val": {"c": 1}, "test": {"b": 1}}
    assert pairs.part("train").table["summary"].iloc[0] == "Returns the number 1 ."
    assert lost.to_frame().set_index("reason").loc["project is in a part that is tested",
                                                   "count"] == 1  # fmt: skip
    assert len(load_summaries(tmp_path)) == 3
    hub = tmp_path / "hub"
    hub.mkdir()
    words = ["Gives", "it", ".", "Then", "\n", "goes"]
    rows = [json.loads(record(5, "e", docstring_tokens=words))]
    pd.DataFrame(rows).to_parquet(hub / "train-00000-of-00001.parquet")
    # results are published against the whole of the tokens
    assert read_codexglue(hub).table["summary"].tolist() == ["Gives it . Then goes"]
    assert read_codexglue(hub, text="sentence").table["summary"].tolist() == ["Gives it ."]
    (folder / "train.jsonl").write_text('{"repo": "a"}')
    with pytest.raises(DataError, match="published fields") as error:
        read_codexglue(tmp_path)
    assert "row 1" in str(error.value) and "train.jsonl" in str(error.value)
    (folder / "train.jsonl").write_text("{")
    with pytest.raises(DataError, match="no JSON"):
        read_codexglue(tmp_path)
    with pytest.raises(MissingAssetError):
        read_codexglue(tmp_path / "none")


def test_funcom(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    for part, ids in (("train", (1, 2)), ("test", (3,))):
        (tables / f"functions.{part}").write_text("".join(f"{i}\tint f{i}() {{}}\n" for i in ids))
        (tables / f"comments.{part}").write_text("".join(f"{i}\tGives {i}. More\n" for i in ids))
    pairs = read_funcom(tables)
    assert pairs.table[["split", "summary"]].to_numpy().tolist() == [
        ["train", "Gives 1."], ["train", "Gives 2."], ["test", "Gives 3."],
    ]  # fmt: skip
    whole = tmp_path / "whole"
    whole.mkdir()
    keys = [str(i) for i in range(60)]
    (whole / "functions.json").write_text(json.dumps({i: f"int f{i}() {{}}" for i in keys}))
    (whole / "comments.json").write_text(json.dumps({i: f"Gives {i}." for i in keys[1:]}))
    (whole / "fid_pid").write_text("".join(f"{i}\tp{int(i) // 3}\n" for i in keys))
    lost = LossLog()
    pairs = read_funcom(whole, lost)
    assert {s: len(pairs.part(s)) for s in ("train", "val", "test")} == {
        "train": 53, "val": 3, "test": 3,
    }  # fmt: skip
    assert lost.to_frame()["count"].sum() == 1
    assert len(load_summaries(whole)) == 59
    odd = "1\tint f1() {}\x0c\n2\tint\u2028f2() {}\n"
    (tables / "functions.train").write_text(odd, encoding="utf-8")
    assert len(read_funcom(tables)) == 3  # only a line feed ends a row
    (tables / "functions.train").write_text("no tab here\n")
    with pytest.raises(DataError, match="not an id and a text"):
        read_funcom(tables)
    with pytest.raises(MissingAssetError, match=r"functions\.train"):
        read_funcom(tmp_path)
    (whole / "comments.json").write_text(json.dumps({"x": "y"}))
    with pytest.raises(DataError, match="in common"):
        read_funcom(whole)
