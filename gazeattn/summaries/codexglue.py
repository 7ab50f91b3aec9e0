"""CodeXGLUE code-to-text: functions of public repositories with their documentation."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from gazeattn.errors import DataError, MissingAssetError
from gazeattn.losses import LossLog
from gazeattn.summaries.pairs import STEP, CodePairs, first_sentence, without_duplicates

HUB_ID = "google/code_x_glue_ct_code_to_text"
PARTS = {"train": "train", "valid": "val", "validation": "val", "dev": "val", "test": "test"}
FIELDS = ("repo", "path", "code", "docstring")
CITATION = "Lu et al. 2021, NeurIPS Datasets and Benchmarks (CodeXGLUE)"


def read_codexglue(
    source: str | os.PathLike[str],
    language: str = "java",
    lost: LossLog | None = None,
    text: Literal["published", "sentence"] = "published",
) -> CodePairs:
    """Return CodeXGLUE's pairs of a language.

    The published parts are by project; a project that is in several of them nonetheless is kept
    in the one that is tested, and counted.

    Parameters
    ----------
    source
        Folder with ``train.jsonl``, ``valid.jsonl`` and ``test.jsonl`` (or .jsonl.gz, or Parquet
        files whose names start with the part), itself or in ``LANGUAGE`` below it; or the hub id.
    language
    lost
        Receives the counts.
    text
        ``"published"``: the tokens of the documentation as published results are scored against
        them; ``"sentence"``: the first sentence of these.

    Raises
    ------
    MissingAssetError
        There is no such folder, and the hub cannot be reached.
    DataError
        A file does not have the published fields.
    """
    lost = LossLog() if lost is None else lost
    folder = _folder(source, language)
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.iterdir()):
        part = PARTS.get(path.name.split(".")[0].split("-")[0])
        if part is None or not path.is_file():
            continue
        for number, row in enumerate(_records(path), 1):
            missing = [f for f in FIELDS if not isinstance(row.get(f), str)]
            if missing:
                raise DataError("not the published fields", source=path, row=number,
                                expected=", ".join(FIELDS), found=", ".join(missing))  # fmt: skip
            tokens = row.get("docstring_tokens")
            has = tokens is not None and len(tokens) > 0  # a list, or an array of Parquet
            summary = " ".join(" ".join(map(str, tokens)).split()) if has else row["docstring"]
            if text == "sentence" or not has:
                summary = first_sentence(summary)
            rows.append({
                "id": f"{row['repo']}/{row['path']}:{number}:{part}", "project": row["repo"],
                "path": row["path"], "name": str(row.get("func_name") or ""),
                "language": str(row.get("language") or language), "code": row["code"],
                "summary": summary, "split": part,
            })  # fmt: skip
    if not rows:
        raise DataError("no part of CodeXGLUE in the folder", source=folder,
                        expected="train.jsonl, valid.jsonl, test.jsonl")  # fmt: skip
    return tidied(pd.DataFrame(rows), lost, {"source": HUB_ID, "citation": CITATION})


def tidied(table: pd.DataFrame, lost: LossLog, facts: dict[str, Any]) -> CodePairs:
    """Return pairs without empty ones, duplicates, and projects that are in several parts."""
    empty = (table["code"].str.strip() == "") | (table["summary"].str.strip() == "")
    lost.add(STEP, "dropped", "no code or no sentence", int(empty.sum()), "pairs",
             table.loc[empty, "id"])  # fmt: skip
    table = table[~empty].reset_index(drop=True)
    rank = table["split"].map({"test": 0, "val": 1, "train": 2})
    best = rank.groupby(table["project"]).transform("min")
    leak = rank > best
    lost.add(STEP, "dropped", "project is in a part that is tested", int(leak.sum()), "pairs",
             table.loc[leak, "project"].unique())  # fmt: skip
    kept = without_duplicates(table[~leak].reset_index(drop=True), lost)
    return CodePairs(kept, facts).check(facts.get("source", "summaries"))


def _records(path: Path) -> Any:
    if path.suffix == ".parquet":
        yield from pd.read_parquet(path).to_dict("records")
        return
    opened = (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else open(path, encoding="utf-8")
    )
    with opened as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DataError("a line is no JSON", source=path, row=number,
                                found=str(error)) from None  # fmt: skip
            if not isinstance(row, dict):
                raise DataError("a line is no record", source=path, row=number,
                                found=type(row).__name__)  # fmt: skip
            yield row


def _folder(source: str | os.PathLike[str], language: str) -> Path:
    path = Path(source).expanduser()
    for candidate in (path / language, path / "dataset" / language, path):
        if candidate.is_dir() and any(
            p.name.split(".")[0].split("-")[0] in PARTS for p in candidate.iterdir()
        ):
            return candidate
    if path.is_dir() or str(source).count("/") != 1:
        raise MissingAssetError(f"no CodeXGLUE files in {path}: expected {language}/train.jsonl")
    return hub_folder(str(source), f"{language}/*") / language


def hub_folder(name: str, patterns: str) -> Path:
    """Return files of a data set of the Hugging Face hub, downloaded where they are not there.

    Raises
    ------
    MissingAssetError
        The hub cannot be reached, or has no such data set.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, repo_type="dataset", allow_patterns=patterns))
    except Exception as error:
        raise MissingAssetError(
            f"data set {name!r} is not on this machine and cannot be downloaded now "
            f"({type(error).__name__}); give its folder instead"
        ) from None
