"""Casting one column to text, numbers or truth values: what counts as missing, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.runs import runs_of


@dataclass(frozen=True)
class Column:
    """A column of a table: its kind of value, whether it must be there, and its meaning."""

    kind: Literal["text", "float", "int", "bool"]
    doc: str
    required: bool = False
    nullable: bool = True


def plain(value: object) -> str:
    """Return a value as messages show it: quoted text, bare numbers, no trace of numpy."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def first_true(mask: pd.Series) -> int:
    """Return the position of the first true value of a mask that has one."""
    return int(np.flatnonzero(mask.to_numpy(dtype=bool, na_value=False))[0])


def cast(values: pd.Series, name: str, spec: Column, source: object, first_row: int) -> pd.Series:
    """Return a column as its `Column` says; see `as_text`, `as_number` and `as_truth`.

    Raises
    ------
    DataError
        A value does not fit the kind of the column, or is missing where one is needed.
    """
    if spec.kind == "text":
        result = as_text(values)
    elif spec.kind == "bool":
        result = as_truth(values, name, source, first_row)
    else:
        result = as_number(values, name, source, first_row)
        if spec.kind == "int":
            numbers = result.to_numpy()
            broken = numbers != np.floor(numbers)
            broken &= numbers == numbers  # NaN is missing, not broken
            if broken.any():
                row = int(broken.argmax())
                raise DataError(
                    f"column {name!r} must hold whole numbers",
                    source=source,
                    row=row + first_row,
                    found=plain(numbers[row]),
                )
            if spec.nullable or result.isna().any():
                result = result.astype("Int64")
    if not spec.nullable:
        absent = result.isna()
        if spec.kind == "text":
            runs = runs_of(result)
            absent |= runs.spread(np.append(runs.uniques == "", False)[runs.codes])
        if absent.any():
            raise DataError(
                f"column {name!r} has {int(absent.sum())} missing values",
                source=source,
                row=first_true(absent) + first_row,
                expected="a value in every row",
            )
        if spec.kind == "int":
            result = result.astype("int64")
    return result


def as_text(values: pd.Series) -> pd.Series:
    """Return a column as text with NaN for missing.

    Text stays as it is: ``"007"`` is not 7, and ``"NA"``, ``"null"`` or ``"."`` are words.
    Whole numbers lose the ``.0`` that a missing value beside them gives.
    """
    if isinstance(values.dtype, pd.StringDtype):
        return values.astype("str")
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(object)
    if pd.api.types.is_float_dtype(values):
        values = values.astype("float64")
        present = values[values.notna()]
        if ((present == np.floor(present)) & (present.abs() < 2**53)).all():
            values = values.astype("Int64")
    elif values.dtype == object:
        whole: list[object] = []
        for v in values:
            is_whole = isinstance(v, float | np.floating) and float(v).is_integer()
            whole.append(int(v) if is_whole and abs(v) < 2**53 else v)
        values = pd.Series(whole, index=values.index, name=values.name, dtype=object)
    there = values.notna()
    return values.astype("str").where(there, np.nan).astype("str")


MISSING_NUMBERS = frozenset({"", ".", "-", "nan", "-nan", "na", "n/a", "<na>", "null", "none"})
"""Texts (case ignored) that mean "missing" in a number column, and only there."""


def as_number(
    values: pd.Series, name: str = "", source: object = None, first_row: int = 0
) -> pd.Series:
    """Return a column as float64, NaN for missing (`MISSING_NUMBERS`).

    Raises
    ------
    DataError
        A value is no number, or is infinite.
    """
    is_bool = pd.api.types.is_bool_dtype(values)
    if pd.api.types.is_numeric_dtype(values) and not is_bool:
        if pd.api.types.is_complex_dtype(values):
            raise DataError(f"column {name!r} must hold real numbers", source=source)
        numbers = values.astype("float64")
        infinite = np.isinf(numbers.to_numpy())
        if not infinite.any():
            return numbers
        bad: pd.Series = pd.Series(infinite, index=values.index)
    else:
        if pd.api.types.is_datetime64_any_dtype(values) or values.dtype.kind == "m":
            raise DataError(
                f"column {name!r} must hold numbers", source=source, found="dates or times"
            )
        if isinstance(values.dtype, pd.CategoricalDtype):
            values = values.astype(object)
        numbers = pd.to_numeric(values, errors="coerce").astype("float64")
        bad = values.notna() & ~(numbers.abs() < np.inf)
        if bad.any():
            bad &= ~values.astype("str").str.strip().str.casefold().isin(MISSING_NUMBERS)
    if bad.any():
        row = first_true(bad)
        raise DataError(
            f"column {name!r} must hold numbers",
            source=source,
            row=row + first_row,
            expected="a finite number in every row, or nothing",
            found=plain(values.iloc[row])
            + (f" ({int(bad.sum())} such rows)" if bad.sum() > 1 else ""),
            hint=_comma_hint(values[bad.to_numpy()].astype("str"))
            if "," in str(values.iloc[row])
            else None,
        )
    return numbers


THOUSANDS = r"\s*[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?\s*"


def _comma_hint(values: pd.Series) -> str:
    """Say what a comma in numbers calls for; ``1,200`` may be a thousands separator."""
    with_comma = values[values.str.contains(",", regex=False)]
    how = "decimal=','"
    if with_comma.str.fullmatch(THOUSANDS).all():
        return (
            "Thousands separators are not supported: write 1200 for 1,200 (if the comma is a "
            f"decimal comma: {how})"
        )
    return f"A decimal comma needs {how}"


def as_truth(
    values: pd.Series, name: str = "", source: object = None, first_row: int = 0
) -> pd.Series:
    """Return a column as nullable booleans from true/false, yes/no or 1/0 (case ignored)."""
    if pd.api.types.is_bool_dtype(values):
        return values.astype("boolean")
    texts = as_text(values).str.strip().str.casefold()
    result = texts.map(
        {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    )
    bad = texts.notna() & result.isna() & ~texts.isin(MISSING_NUMBERS)
    if bad.any():
        row = first_true(bad)
        raise DataError(
            f"column {name!r} must hold true or false",
            source=source,
            row=row + first_row,
            found=plain(values.iloc[row]),
        )
    return result.astype("boolean")
