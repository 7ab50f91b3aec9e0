"""Funcom: Java methods with the first sentence of their Javadoc."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd

from gazeattn.errors import DataError, MissingAssetError
from gazeattn.losses import LossLog
from gazeattn.summaries.codexglue import tidied
from gazeattn.summaries.pairs import STEP, CodePairs, first_sentence

CITATION = "LeClair and McMillan 2019, NAACL (Funcom)"
TSV_PARTS = {"train": "train", "val": "val", "valid": "val", "test": "test"}


def read_funcom(source: str | os.PathLike[str], lost: LossLog | None = None) -> CodePairs:
    """Return Funcom's pairs.

    Two published layouts are read: per part a table ``functions.PART`` or ``dats.PART`` (method
    id, tab, code) with ``comments.PART`` or ``coms.PART`` (method id, tab, sentence), in one
    folder or in a folder per part; and ``functions.json``, ``comments.json`` by method id with a
    file ``fid_pid`` (method id, tab, project id), whose projects are dealt to parts here.

    Parameters
    ----------
    source
        Folder.
    lost
        Receives the counts.

    Raises
    ------
    MissingAssetError
        There are no such files.
    DataError
        A line is not an id and a text, or methods and sentences have no id in common.
    """
    lost = LossLog() if lost is None else lost
    folder = Path(source).expanduser()
    if (folder / "functions.json").is_file():
        rows = _from_json(folder, lost)
    else:
        rows = _from_tables(folder, lost)
    return tidied(pd.DataFrame(rows), lost, {"source": "funcom", "citation": CITATION})


def _from_tables(folder: Path, lost: LossLog) -> list[dict[str, str]]:
    projects = _pairs(folder / "fid_pid") if (folder / "fid_pid").is_file() else {}
    rows: list[dict[str, str]] = []
    for name, part in TSV_PARTS.items():
        places = (folder, folder / name)
        code = _first(places, (f"functions.{name}", f"dats.{name}"))
        text = _first(places, (f"comments.{name}", f"coms.{name}"))
        if code is None or text is None:
            continue
        rows += _joined(_pairs(code), _pairs(text), lost, lambda _i, part=part: part, projects)
    if not rows:
        raise MissingAssetError(
            f"no Funcom files in {folder}: expected functions.json and comments.json, or "
            "functions.train and comments.train (dats.train and coms.train)"
        )
    return rows


def _from_json(folder: Path, lost: LossLog) -> list[dict[str, str]]:
    def read(name: str) -> dict[str, str]:
        path = folder / name
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError("cannot be read", source=path, found=str(error)) from None
        if not isinstance(content, dict):
            raise DataError("not texts by method id", source=path, found=type(content).__name__)
        return {str(k): str(v) for k, v in content.items()}

    projects = _pairs(folder / "fid_pid")
    distinct = sorted(set(projects.values()))
    # nine of ten projects train; the order of their ids has nothing to do with what they hold
    parts = {p: ("test", "val")[k % 20 // 19] if k % 20 >= 18 else "train"
             for k, p in enumerate(distinct)}  # fmt: skip
    code, text = read("functions.json"), read("comments.json")
    return _joined(code, text, lost, lambda i: parts.get(projects.get(i, ""), ""), projects)


def _joined(
    code: dict[str, str], text: dict[str, str], lost: LossLog, part: Any, projects: dict[str, str]
) -> list[dict[str, str]]:
    both = [i for i in code if i in text]
    if not both:
        raise DataError("methods and sentences have no id in common", source="funcom")
    lone = len(code) + len(text) - 2 * len(both)
    lost.add(STEP, "dropped", "method without a sentence, or the other way round", lone, "rows")
    placed = [i for i in both if part(i)]
    lost.add(STEP, "dropped", "method without a project", len(both) - len(placed), "pairs")
    return [
        {"id": f"funcom:{i}", "project": projects.get(i) or f"{part(i)}:{i}", "path": "",
         "name": "", "language": "java", "code": code[i], "summary": first_sentence(text[i]),
         "split": part(i)}
        for i in placed
    ]  # fmt: skip


def _first(folders: tuple[Path, ...], names: tuple[str, ...]) -> Path | None:
    found = (f / n for f in folders for n in names)
    return next((p for p in found if p.is_file()), None)


def _pairs(path: Path) -> dict[str, str]:
    """Return texts by id of a table with a tab behind the id."""
    if not path.is_file():
        raise MissingAssetError(f"no file {path}: a method id, a tab, a text per line")
    out = {}
    # only a line feed ends a row: code holds form feeds and other ends of lines
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        key, tab, text = line.partition("\t")
        if not tab:
            key, comma, text = line.partition(", ")
            if not comma:
                raise DataError("not an id and a text", source=path, row=number,
                                expected="id, tab, text", found=repr(line[:40]))  # fmt: skip
        out[key.strip()] = text.strip()
    return out
