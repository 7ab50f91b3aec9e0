"""Names and sidecars of BIDS: entities of file names, inherited JSON, units of columns."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import pandas as pd

from gazeattn.columns import as_number
from gazeattn.errors import DataError

PHYSIO = re.compile(
    r"(?P<stem>(?:[a-z]+-[a-zA-Z0-9]+_)*)(?P<suffix>physio|physioevents|events)\.tsv(\.gz)?"
)
EYE_OF = {"left": "left", "right": "right", "cyclopean": ""}
"""``RecordedEye`` to the eye of our columns."""

KEY = "GazeattnRecording"
"""Entry of the sidecar with what BIDS has no place for, so that reading back is exact."""

LEVELS = 4
"""Folders above a file in which a sidecar may stand: datatype, session, subject, data set."""


def entities(name: str) -> dict[str, str]:
    """Return the ``key-value`` entities of a file name."""
    parts = name.split(".")[0].split("_")
    return dict(p.split("-", 1) for p in parts if "-" in p)


def load_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raise `DataError` where it is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"the sidecar is not readable JSON ({error})", source=path) from None
    if not isinstance(value, dict):
        raise DataError("the sidecar must hold a JSON object", source=path)
    return value


def sidecar(path: Path, suffix: str) -> dict[str, Any]:
    """Return the metadata of a file: JSON files above it that apply, the nearest one last.

    A JSON file applies (inheritance principle of BIDS) when it has the suffix and no entity that
    the file does not have.
    """
    own = entities(path.name)
    folders = [path.parent]
    while len(folders) < LEVELS and not (folders[-1] / "dataset_description.json").is_file():
        if folders[-1].parent == folders[-1]:
            break
        folders.append(folders[-1].parent)
    if len(folders) > 1 and not (folders[-1] / "dataset_description.json").is_file():
        folders = folders[:1]  # not in a data set: files of other things stand above
    merged: dict[str, Any] = {}
    for folder in reversed(folders):
        found = [
            p
            for p in folder.glob(f"*{suffix}.json")
            if p.name in (f"{suffix}.json",) or p.name.endswith(f"_{suffix}.json")
        ]
        found = [p for p in found if entities(p.name).items() <= own.items()]
        for file in sorted(found, key=lambda p: (len(entities(p.name)), p.name)):
            merged |= load_json(file)
    return merged


def column_unit(meta: Mapping[str, Any], column: str) -> str | None:
    """Return the ``Units`` of a column as written, None without."""
    entry = meta.get(column)
    unit = entry.get("Units") if isinstance(entry, dict) else None
    return unit if isinstance(unit, str) else None


def label_of(text: str) -> str:
    """Return a text as a BIDS label: letters and digits only."""
    return re.sub(r"[^a-zA-Z0-9]", "", text)


def key_of(meta: Mapping[str, Any], source: object) -> dict[str, Any]:
    """Return our own entry of a sidecar, empty where it was written by others.

    Raises
    ------
    DataError
        The entry is there, but damaged.
    """
    own = meta.get(KEY)
    if own is None:
        return {}
    fine = isinstance(own, dict)
    if fine:
        columns, tables = own.get("columns", {}), own.get("tables", {})
        fine = isinstance(columns, dict) and isinstance(tables, dict)
        fine = fine and all(isinstance(v, str) for v in columns.values())
        fine = fine and all(isinstance(t, list) for t in tables.values())
        fine = fine and all(
            isinstance(e, list) and len(e) == 2 and all(isinstance(v, str) for v in e)
            for table in tables.values()
            for e in table
        )
        fine = fine and isinstance(own.get("participant"), str | None)
        renamed = own.get("renamed", {})
        fine = fine and isinstance(renamed, dict)
        fine = fine and all(
            isinstance(names, dict) and all(isinstance(v, str) for v in names.values())
            for names in renamed.values()
        )
        fine = fine and isinstance(own.get("info", {}), dict)
    if not fine:
        raise DataError(f"the entry {KEY} of the sidecar is damaged", source=source)
    return dict(own)


def number_of(meta: Mapping[str, Any], name: str) -> float | None:
    """Return a number of the sidecar, None where it is missing or none."""
    value = meta.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if abs(value) < 1e15 else None


CATEGORY = "category"
"""Begin of the kind of a column of few texts; the JSON list of all of them follows."""


def kind_name(values: pd.Series) -> str:
    """Return the name under which a column's type is written."""
    dtype = values.dtype
    if isinstance(dtype, pd.StringDtype):
        return "text"
    if isinstance(dtype, pd.CategoricalDtype) and not dtype.ordered:
        names = dtype.categories.tolist()
        if all(isinstance(n, str) for n in names):
            return CATEGORY + json.dumps(names, ensure_ascii=False)
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        return str(dtype)
    raise DataError(
        f"column {values.name!r} has a type that a text table cannot keep", found=str(dtype)
    )


NUMBER_KINDS = ("int64", "Int64", "Int32", "int32", "float64", "float32", "Float64")


def free_names(table: pd.DataFrame, taken: Collection[str]) -> dict[str, str]:
    """Return column to another name for the columns whose names BIDS needs for its own."""
    renamed: dict[str, str] = {}
    for name in map(str, table.columns):
        other = name
        while other in taken or (other != name and other in (*table, *renamed.values())):
            other += "_"
        if other != name:
            renamed[name] = other
    return renamed


def restored(
    table: pd.DataFrame,
    columns: list[list[str]],
    path: Path,
    renamed: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return a table with the columns, in the order and of the types, that were written.

    `renamed` says under which name a column stands where it is not its own.
    """
    out: dict[str, pd.Series] = {}
    for name, kind in columns:
        there = (renamed or {}).get(name, name)
        if there not in table:
            raise DataError(
                f"the sidecar speaks of a column that is not there ({there!r})", source=path
            )
        values = table[there]
        try:
            out[name] = _as(values, kind)
        except (ValueError, TypeError, OverflowError):
            raise DataError(f"column {name!r} does not hold {kind}", source=path) from None
    return pd.DataFrame(out, index=table.index)


def _as(values: pd.Series, kind: str) -> pd.Series:
    if kind == "text":
        text = values.astype("str")
        return text.where(values.notna() & (text != "n/a"))
    if kind.startswith(CATEGORY):
        names = json.loads(kind[len(CATEGORY) :])
        text = _as(values, "text")
        if not isinstance(names, list) or not set(text.dropna()) <= set(names):
            raise ValueError(kind)
        dtype = pd.CategoricalDtype(pd.Index(names, dtype="str") if names else names)
        return text.astype(dtype)
    if isinstance(values.dtype, pd.StringDtype):
        values = values.where(values != "n/a")
    if kind in ("bool", "boolean"):
        truth = values.astype("str").map({"True": True, "False": False, "1.0": True, "0.0": False})
        return truth.astype("boolean").astype(kind)  # type: ignore[call-overload]
    if kind not in NUMBER_KINDS:
        raise ValueError(kind)
    return as_number(values).astype(kind)  # type: ignore[call-overload]


def is_names(columns: object) -> TypeGuard[list[str]]:
    """Say whether ``Columns`` of a sidecar is a list of names that a header can hold."""
    return (
        isinstance(columns, list)
        and len(columns) > 0
        and all(isinstance(c, str) and c and c == c.strip() for c in columns)
        and not any(set(c) & set('\t\r\n"\0') for c in columns)
    )
