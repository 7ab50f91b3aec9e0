"""One row format for every number that an experiment produces, and files that grow row by row."""

from __future__ import annotations

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
