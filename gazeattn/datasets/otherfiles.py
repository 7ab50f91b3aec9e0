"""Published tables that are no text files: R data, spreadsheets.

The packages that read them are optional (``pip install gazeattn[corpora]``), and so are the files:
the same table exported as CSV next to them is read instead.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from gazeattn.columns import as_text
from gazeattn.datasets.corpusfiles import find_files, text_table
from gazeattn.datasets.wordlevel import those_there
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.tables import factorize_runs

R_ENDINGS = (".rda", ".RDA", ".RData")


def need_module(name: str, why: str, instead: str = "") -> Any:
    """Return an optional package.

    Raises
    ------
    MissingAssetError
        It is not installed; says what to install, and what can be done without it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingAssetError(
            f"{why} needs the package {name}, which is not installed ({error}): "
            f"pip install {name}, or pip install 'gazeattn[corpora]'"
            f"{f'. {instead}' if instead else ''}"
        ) from error


def r_table(path: Path, name: str) -> pd.DataFrame:
    """Return one data frame of an R data file, its cells as R holds them.

    Parameters
    ----------
    path
        ``.rda`` file.
    name
        Name of the data frame in the file.

    Raises
    ------
    DataError
        The file is damaged, or holds no data frame of that name.
    MissingAssetError
        The package ``rdata`` is not installed.
    """
    rdata = need_module("rdata", f"reading {path.name}", f"Or export {name} as {path.stem}.csv")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of R attributes that a table does not need
            objects = rdata.read_rda(path)
    except Exception as error:  # the package states no list of its own errors
        raise DataError(f"not a readable R data file ({error})", source=path) from None
    table = objects.get(name)
    if not isinstance(table, pd.DataFrame):
        raise DataError(
            f"the R data file holds no data frame {name!r}",
            source=path,
            found=", ".join(map(str, objects)) or "nothing",
        )
    return table.reset_index(drop=True)


def sheet_table(
    path: Path, columns: Iterable[str], more: Iterable[str] = ()
) -> tuple[pd.DataFrame, int]:
    """Return the first sheet of a workbook as text, and the number of cells that were not text.

    Parameters
    ----------
    path
        ``.xlsx`` file; its first row is the header.
    columns, more
        The columns to return, and others that are returned where they are there.

    Returns
    -------
    DataFrame of text (an empty cell is empty text), int
        Truth values come back as ``TRUE`` and ``FALSE``, as the program shows them. The number
        counts truth values and dates: words that the program took for something else.

    Raises
    ------
    DataError
        The file is damaged, or lacks a column.
    MissingAssetError
        The package ``openpyxl`` is not installed.
    """
    openpyxl = need_module(
        "openpyxl", f"reading {path.name}", f"Or export the sheet as {path.stem}.csv"
    )
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        rows = book.worksheets[0].iter_rows(values_only=True)
        names = [str(n) for n in next(rows, ()) if n is not None]
        wanted = list(columns)
        lacking = [c for c in wanted if c not in names]
        if lacking:
            raise DataError(
                f"column {', '.join(map(repr, lacking))} is missing",
                source=path,
                expected=", ".join(wanted),
                found=", ".join(names),
            )
        wanted += [c for c in more if c in names]
        at = [names.index(c) for c in wanted]
        cells = [[row[i] for i in at] for row in rows if any(c is not None for c in row)]
        book.close()
    except DataError:
        raise
    except Exception as error:  # zip, XML and its own errors
        raise DataError(f"not a readable workbook ({error})", source=path) from None
    changed, out = 0, {}
    for i, name in enumerate(wanted):
        values = [row[i] for row in cells]
        odd = sum(isinstance(v, bool) or hasattr(v, "isoformat") for v in values)
        changed += odd
        out[name] = pd.Series([_cell(v) for v in values], dtype="str")
    return pd.DataFrame(out, columns=wanted), changed


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def exported_or_r(
    folder: Path, stem: str, name: str, columns: Iterable[str]
) -> tuple[pd.DataFrame, Path] | None:
    """Return a table from the CSV export next to an R data file, or from the file itself.

    Parameters
    ----------
    folder, stem
        Where, and the file name without its ending (a pattern).
    name
        Name of the data frame in the R data file.
    columns
        Those to return, where they are there: the tables are wide.

    Returns
    -------
    DataFrame, Path
        The table with every column as text (missing where R has no value; in a CSV export
        numbers may be ``NA``), and the file that was read. None where neither is there.
    """
    exported = find_files(folder, f"{stem}.csv")
    if exported:
        there = those_there(exported[0], (), columns, ",")
        return text_table(exported[0], there or None), exported[0]
    for ending in R_ENDINGS:
        found = find_files(folder, f"{stem}{ending}")
        if found:
            table = r_table(found[0], name)
            there = [c for c in columns if c in table]
            return _as_texts(table[there or list(map(str, table))]), found[0]
    return None


def _as_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return all columns as text; each distinct value is turned once."""
    out = {}
    for column in table:
        values = table[column]
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            out[column] = values.astype("Float64").to_numpy("float64", na_value=float("nan"))
        else:
            out[column] = as_text(values).to_numpy()
    return pd.DataFrame(out)


def number_text(values: pd.Series) -> pd.Series:
    """Return whole numbers, or text of them, as text; missing where there is none."""
    if pd.api.types.is_numeric_dtype(values):
        return as_text(values)
    codes, uniques = factorize_runs(values, sort=False)
    texts = pd.Series(uniques, dtype="str").str.strip().str.replace(r"\.0+$", "", regex=True)
    texts = texts.where(~texts.isin(["", "NA", ".", "nan"]))
    taken = pd.array([*texts, None], dtype="str").take(codes)  # -1 is the last: missing
    return pd.Series(taken, index=values.index)
