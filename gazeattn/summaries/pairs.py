"""Pairs of code and summary: one table, its checks, duplicates, and the split by project."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.storage import atomic_folder, sha256, write_json, write_parquet

STEP = "summaries"
COLUMNS = ("id", "project", "path", "name", "language", "code", "summary", "split")
SPLITS = ("train", "val", "test")
TABLE, FACTS, FORMAT = "pairs.parquet", "facts.json", "gazeattn-code-pairs-1"
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")


@dataclass(frozen=True)
class CodePairs:
    """Functions with a sentence of what they do.

    Attributes
    ----------
    table : DataFrame
        `COLUMNS`, all text; ``split`` is train, val or test, and no project is in two of them.
    facts : dict
        Where it comes from: sources, versions, licences, counts.
    """

    table: pd.DataFrame
    facts: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.table)

    def part(self, split: str) -> CodePairs:
        """Return the pairs of one part.

        Raises
        ------
        UnknownNameError
            No such part.
        """
        if split not in SPLITS:
            raise UnknownNameError("part of the summaries", split, SPLITS)
        rows = self.table[self.table["split"] == split]
        return CodePairs(rows.reset_index(drop=True), self.facts)

    def check(self, source: object = "summaries") -> CodePairs:
        """Return itself, or raise where it breaks a promise.

        Raises
        ------
        DataError
            Columns are missing, ids are not unique, something is empty, a part is unknown, or a
            project is in two parts.
        """
        missing = [c for c in COLUMNS if c not in self.table]
        if missing:
            raise DataError("columns of a table of summaries", source=source, expected=COLUMNS,
                            found=list(self.table.columns))  # fmt: skip
        if self.table["id"].duplicated().any():
            twice = self.table.loc[self.table["id"].duplicated(), "id"].iloc[0]
            raise DataError("two pairs have the same id", source=source, found=twice)
        for column in ("code", "summary", "project", "split"):
            empty = self.table[column].isna() | (self.table[column].astype(str).str.strip() == "")
            if empty.any():
                raise DataError(f"a pair without {column}", source=source,
                                row=int(empty.to_numpy().argmax()))  # fmt: skip
        unknown = set(self.table["split"]) - set(SPLITS)
        if unknown:
            raise DataError("parts", source=source, expected=SPLITS, found=sorted(unknown))
        parts = self.table.groupby("project")["split"].nunique()
        if (parts > 1).any():
            raise DataError("a project is in two parts", source=source,
                            found=str(parts.index[parts > 1][0]))  # fmt: skip
        return self

    def counts(self) -> dict[str, dict[str, int]]:
        """Return how many pairs each project has in its part."""
        found: dict[str, dict[str, int]] = {s: {} for s in SPLITS}
        for (split, project), rows in self.table.groupby(["split", "project"]):
            found[str(split)][str(project)] = len(rows)
        return found

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``pairs.parquet`` and ``facts.json``, both or none."""
        path = Path(folder)
        with atomic_folder(path) as new:
            write_parquet(new / TABLE, self.table[list(COLUMNS)])
            write_json(new / FACTS, {
                "format": FORMAT, **self.facts, "counts": self.counts(),
                "sha256": sha256(new / TABLE),
            })  # fmt: skip
        return path

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> CodePairs:
        """Read what `save` wrote.

        Raises
        ------
        DataError
            Files are missing, damaged, or not what they were when they were written.
        """
        path = Path(folder)
        for name in (TABLE, FACTS):
            if not (path / name).is_file():
                raise DataError("no summaries in the folder", source=path, expected=name)
        try:
            facts = json.loads((path / FACTS).read_text(encoding="utf-8"))
            if facts["format"] != FORMAT:
                raise DataError("format of summaries", source=path, expected=FORMAT,
                                found=facts["format"])  # fmt: skip
            if facts["sha256"] != sha256(path / TABLE):
                raise DataError("the pairs are not those that were written", source=path / TABLE)
            table = pd.read_parquet(path / TABLE)
        except (ValueError, KeyError, OSError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError("the summaries are damaged", source=path, found=str(error)) from None
        return cls(table, facts).check(path)


def normalised(code: str) -> str:
    """Return what counts as the same code: tokens without white space and line comments."""
    lines = (re.sub(r"(^|\s)(#|//).*$", "", line) for line in code.splitlines())
    return " ".join(TOKEN.findall("\n".join(lines)))


def code_key(code: str) -> str:
    """Return a digest of `normalised` code."""
    return hashlib.sha256(normalised(code).encode()).hexdigest()[:24]


def without_duplicates(
    table: pd.DataFrame, lost: LossLog, against: Iterable[str] = ()
) -> pd.DataFrame:
    """Return the pairs without those whose code, or code and summary, came before.

    Test comes first, then validation, then training: what is in two parts stays in the one that
    is tested. Code that people have looked at (`against`) is taken out of all.

    Parameters
    ----------
    table
        With `COLUMNS`.
    lost
        Receives the counts.
    against
        Sources of an eye-tracking study.
    """
    order = table["split"].map({"test": 0, "val": 1, "train": 2})
    rows = table.assign(_key=table["code"].map(code_key), _order=order, _place=range(len(table)))
    rows = rows.sort_values(["_order", "_place"], kind="stable")
    known = {code_key(code) for code in against}
    inside = rows["_key"].isin(known)
    parts = " ".join(normalised(code) for code in against)
    if parts:
        # a method of a class that was shown whole
        body = rows["code"].map(normalised)
        inside |= body.map(lambda text: len(text) > 40 and text in parts)
    lost.add(STEP, "dropped", "code of an eye-tracking study", int(inside.sum()), "pairs",
             rows.loc[inside, "id"])  # fmt: skip
    rows = rows[~inside]
    again = rows["_key"].duplicated()
    lost.add(STEP, "dropped", "the same code again", int(again.sum()), "pairs",
             rows.loc[again, "id"])  # fmt: skip
    rows = rows[~again]
    # generated families of functions share their sentence within a project
    same = rows.duplicated(["project", "summary"])
    lost.add(STEP, "dropped", "the same sentence again in a project", int(same.sum()), "pairs",
             rows.loc[same, "id"])  # fmt: skip
    rows = rows[~same].sort_values("_place", kind="stable")
    return rows.drop(columns=["_key", "_order", "_place"]).reset_index(drop=True)


def first_sentence(text: str) -> str:
    """Return the first sentence of a description, on one line.

    It ends at a full stop that is followed by a blank and a capital or by the end, or at an empty
    line; ``e.g.`` and ``i.e.`` do not end it.
    """
    paragraph = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    line = " ".join(paragraph.split())
    for match in re.finditer(r"[.!?](?=\s+[A-Z`\"'(:]|$)", line):
        before = line[: match.start() + 1]
        if not re.search(r"(\b[A-Za-z]|e\.g|i\.e|etc|vs|cf|resp)\.$", before):
            return before
    return line


def split_of(projects: Mapping[str, str], table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the part of each pair's project.

    Raises
    ------
    DataError
        A project has no part.
    """
    missing = sorted(set(table["project"]) - set(projects))
    if missing:
        raise DataError("a project has no part", found=missing[0])
    return table.assign(split=table["project"].map(projects))
