"""One row format for every number that an experiment produces, and files that grow row by row."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from gazeattn.storage import write_parquet

RESULT_COLUMNS = (
    "dataset",
    "model",
    "task",
    "split",
    "regime",
    "fold",
    "seed",
    "size",
    "metric",
    "value",
    "low",
    "high",
    "n",
    "convention",
    "command",
    "commit",
)
"""Columns of every result table."""

RUN_KEY = ("dataset", "model", "task", "split", "regime", "fold", "seed", "size")
"""Columns that name one unit of work; a sweep skips those that are in the file."""


def result_rows(rows: Iterable[Mapping[str, Any]], extra: tuple[str, ...] = ()) -> pd.DataFrame:
    """Build a table with all result columns (missing ones NA) and the `extra` ones after them.

    Raises
    ------
    ValueError
        A row has a key that is neither a result column nor in `extra`.
    """
    columns = [*RESULT_COLUMNS, *extra]
    rows = list(rows)
    unknown = sorted({k for r in rows for k in r} - set(columns))
    if unknown:
        raise ValueError(f"unknown result columns: {', '.join(unknown)}")
    return pd.DataFrame(rows, columns=columns)


def append_rows(path: str | os.PathLike[str], rows: pd.DataFrame) -> pd.DataFrame:
    """Add rows to a Parquet table on disk, atomically, and return the whole table."""
    path = Path(path)
    if path.exists():
        rows = pd.concat([pd.read_parquet(path), rows], ignore_index=True)
    write_parquet(path, rows)
    return rows


def is_finished(path: str | os.PathLike[str], **key: Any) -> bool:
    """Return whether the table on disk holds a row with this key (see `RUN_KEY`)."""
    unknown = sorted(set(key) - set(RUN_KEY))
    if unknown:
        raise ValueError(f"not part of a run's key: {', '.join(unknown)}")
    path = Path(path)
    if not path.exists():
        return False
    table = pd.read_parquet(path, columns=list(key))
    match = pd.Series(True, index=table.index)
    for column, value in key.items():
        match &= table[column].astype("str") == str(value)
    return bool(match.any())


def pack_rows(rows: pd.DataFrame) -> dict[str, Any]:
    """Return a table for JSON in which nothing long stands twice.

    ``runs`` are the distinct commands with their commits, ``conventions`` the first convention of
    every metric, and ``rows`` the rest, without what is missing: ``run`` is the position of a row's
    command, and ``convention`` stands where it differs from that of its metric.
    """
    runs: list[dict[str, Any]] = []
    conventions: dict[str, str] = {}
    records = []
    for row in rows.to_dict("records"):
        record = {str(k): _plain(v) for k, v in row.items()}
        run = {k: record.pop(k, None) or "" for k in ("command", "commit")}
        if run not in runs:
            runs.append(run)
        record["run"] = runs.index(run)
        metric = str(record.get("metric"))
        convention = record.pop("convention", None)
        if convention and conventions.setdefault(metric, str(convention)) != convention:
            record["convention"] = convention
        records.append({k: v for k, v in record.items() if v not in (None, "")})
    return {"runs": runs, "conventions": conventions, "rows": records}


def unpack_rows(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that `pack_rows` packed."""
    out = []
    for packed in content["rows"]:
        row = {"convention": content["conventions"].get(packed["metric"]), **packed}
        row.update(content["runs"][row.pop("run")])
        out.append(row)
    return out


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, numbers with six digits."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value.item() if hasattr(value, "item") else value
