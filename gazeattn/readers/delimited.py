"""Reading tables (CSV, TSV, Parquet; gz) without guessing at their values.

Everything is text until the schema says otherwise: the id ``007`` and the word ``NA`` stay what
they are, and only number columns know missing marks.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import os
import re
import zlib
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from gazeattn.columns import MISSING_NUMBERS, Column
from gazeattn.errors import DataError, UnknownNameError, suggest
from gazeattn.losses import LossLog
from gazeattn.readers.textfile import (
    NEWLINE,
    Data,
    Format,
    check_bytes,
    file_bytes,
    find,
    sniff_encoding,
    sniff_separator,
)
from gazeattn.runs import runs_of

FIRST_ROW = 2
"""Number of the first data row in messages: the header line is row 1, as spreadsheets count."""

THREADS = min(4, os.cpu_count() or 1)

NUMBER_MARKS = tuple(sorted({*MISSING_NUMBERS, "NaN", "NA", "N/A", "NULL", "None", "Null", "<NA>"}))
"""Texts that mean "missing" in a number column, as Arrow compares them: with their case."""


def read_table(
    path: str | os.PathLike[str],
    schema: Mapping[str, Column],
    columns: Mapping[str, str] | None = None,
    *,
    step: str,
    form: Format | None = None,
    data: Data | None = None,
) -> tuple[pd.DataFrame, LossLog]:
    """Read a file and give its columns our names.

    Number columns of the schema come as float64 with NaN for missing, unless a value is no
    number: then the column comes as text, and the schema check says where. All other columns
    of a text file come as text, exactly as written; an empty cell of a nullable text column of
    the schema, and of an id column, is missing.

    Parameters
    ----------
    path
        CSV, TSV or Parquet, also gzipped; the content counts, not the name.
    schema
        Columns that we know.
    columns
        Our name to the file's name, where they differ; None leaves a column of our name out.
    step
        What the table is, for messages (``"fixations"``).
    form
        Encoding, separator, decimal mark and quote character of a text file.
    data
        What `file_bytes` gave for the file, where it was read already.

    Raises
    ------
    DataError
        No such file, not a table, empty, undecodable bytes (with their offset), rows of unequal
        length, a column map that names a column that is not there, or one column for two numbers.
    UnknownNameError
        The column map has a name that the schema does not know.
    """
    path, form = Path(path).expanduser(), form or Format()
    data = unpacked(path, file_bytes(path) if data is None else data)
    if data[:4] == b"PAR1":
        return name_columns(
            parquet_frame(path, data), schema, columns, step=step, source=path, first_row=FIRST_ROW
        )
    text = TextTable(path, data, form)
    check_names(text.names, path)
    sources = _sources(text.names, columns or {}, schema, path, step)
    if not sources and len(text.names) == 1:
        words = text.names[0].split()
        if len(words) > 1 and set(words) & {*schema, *map(str, (columns or {}).values())}:
            raise DataError(
                "the header is one cell",
                source=path,
                expected=f"cells separated by {text.separator!r}",
                found=repr(text.names[0][:80]),
                hint="For cells separated by blanks say separator=space "
                "(dataset.separator=space on the command line)",
            )
    numeric = {s for o, s in sources.items() if schema[o].kind in ("float", "int")}
    frame = text.frame(numeric)
    return name_columns(frame, schema, columns, step=step, source=path, first_row=FIRST_ROW)


def name_columns(
    frame: pd.DataFrame,
    schema: Mapping[str, Column],
    columns: Mapping[str, str] | None = None,
    *,
    step: str,
    source: object,
    first_row: int = 0,
) -> tuple[pd.DataFrame, LossLog]:
    """Give the columns of a table our names, and take out what is empty; see `read_table`."""
    log = LossLog()
    frame = frame.reset_index(drop=True)
    frame.columns = pd.Index([str(c) for c in frame.columns])
    check_names(list(frame.columns), source)
    sources = _sources(list(frame.columns), columns or {}, schema, source, step)
    if not len(frame):
        raise DataError(f"the {step} table has a header but no rows", source=source)
    unused = {k for k, v in (columns or {}).items() if v is None}
    frame = _rename(frame, sources, unused, log, step)
    return _clean(frame, schema, log, step, source, first_row), log


def unpacked(path: Path, data: Data) -> Data:
    """Return the bytes of a table file, taken out of gzip; refuse empty files and archives."""
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"the gzip file is damaged or cut ({error})", source=path) from None
    if not bytes(data[:1024]).strip() and not bytes(data).strip():
        raise DataError("the file is empty", source=path)
    if data[:4] in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"):
        raise DataError(
            "this is a spreadsheet or zip archive, not a text table",
            source=path,
            expected="CSV, TSV or Parquet",
            hint="Save the sheet as CSV (UTF-8), or unpack the archive",
        )
    return data


def parquet_frame(path: Path, data: Data) -> pd.DataFrame:
    """Return the content of a Parquet file."""
    table = parquet_table(path, data)
    try:
        return table.to_pandas().reset_index(drop=True)
    except (ValueError, pa.ArrowException) as error:
        raise DataError(f"the Parquet file is damaged or cut ({error})", source=path) from None


def parquet_table(path: Path, data: Data) -> pa.Table:
    """Return a Parquet file as an Arrow table whose texts and names are valid.

    Raises
    ------
    DataError
        The file is damaged or cut.
    """
    try:
        table = pq.read_table(pa.BufferReader(data))
        table.validate(full=True)  # texts of a damaged file may be no UTF-8, found only when used
        _ = table.column_names
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"the Parquet file is damaged or cut ({error})", source=path) from None
    return table


class TextTable:
    """A delimited text file: its encoding, separator and header, and its rows on demand."""

    def __init__(self, path: Path, data: Data, form: Format) -> None:
        self.path, self.form = path, form
        self.encoding = form.encoding or sniff_encoding(bytes(data[:400]))
        check_bytes(data, self.encoding, path, stated=form.encoding is not None)
        if self.encoding != "utf-8":
            data = codecs.decode(data, self.encoding).encode("utf-8")
        self.data, begin = data, len(codecs.BOM_UTF8) if data[:3] == codecs.BOM_UTF8 else 0
        while data[begin : begin + 1] in (b"\r", b"\n"):
            begin += 1
        self.header_at = begin
        line = find(data, NEWLINE, begin)
        first = bytes(data[begin:line]).find(b"\r")
        self.rows_at = end = begin + first if first >= 0 else line
        quote = (form.quote or "").encode("utf-8")
        self.quoted = bool(quote) and end is not None and find(data, quote[0], end) is not None
        header = bytes(data[begin:end]).decode("utf-8")
        self.separator = form.delimiter or sniff_separator(header, path.name)
        cells = next(
            csv.reader(
                [header],
                delimiter=self.separator,
                quotechar=form.quote or None,
                quoting=csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE,
            )
        )
        self.names = [c.strip().removeprefix("\ufeff") for c in cells]

    def frame(self, numeric: set[str]) -> pd.DataFrame:
        """Return all rows: `numeric` columns as float64 where that works, else text."""
        if self.rows_at is None:
            return pd.DataFrame({name: [] for name in self.names})
        try:
            return self._read(numeric)
        except pa.ArrowInvalid as error:
            if "conversion error" not in str(error):
                raise self.row_error() from None
        frame = self._read(set())  # as text: the schema check finds the value and its row
        for name in numeric & set(frame) if self.form.decimal == "," else ():
            frame[name] = self._with_point(frame[name], name)
        return frame

    def _with_point(self, values: pd.Series, name: str) -> pd.Series:
        pointed = values.str.contains(".", regex=False) & (values.str.strip() != ".")
        if pointed.any():
            row = int(np.flatnonzero(pointed)[0])
            raise DataError(
                f"column {name!r} must hold numbers with a decimal comma",
                source=self.path,
                row=row + FIRST_ROW,
                found=repr(values.iloc[row]),
                hint="Leave decimal='.' for files with a decimal point",
            )
        return values.str.replace(",", ".", regex=False)

    def _read(self, numeric: set[str]) -> pd.DataFrame:
        return self.arrow(numeric).to_pandas(split_blocks=True)

    def arrow(
        self,
        numeric: Collection[str],
        *,
        marks: Collection[str] = NUMBER_MARKS,
        decimal: str | None = None,
        quoted: bool | None = None,
        threads: bool = True,
        bad_row: Callable[[pa_csv.InvalidRow], str] | None = None,
    ) -> pa.Table:
        """Return all rows as an Arrow table of text and, for `numeric`, float64 columns.

        Parameters
        ----------
        numeric
            Columns to read as numbers.
        marks
            Texts that mean "missing" in them.
        decimal, quoted
            Decimal mark, and whether quotes enclose cells; default: what the form says.
        bad_row
            Called for each row with another number of cells than the header; says ``"skip"`` or
            ``"error"``.

        Raises
        ------
        pyarrow.ArrowInvalid
            A cell of a number column holds no number, or a row has another number of cells.
        """
        types = {n: pa.float64() if n in numeric else pa.large_string() for n in self.names}
        quoted = self.quoted if quoted is None else quoted
        return pa_csv.read_csv(
            pa.BufferReader(memoryview(self.data)[self.header_at :]),
            pa_csv.ReadOptions(
                use_threads=threads, column_names=self.names, skip_rows=1, block_size=1 << 22
            ),
            pa_csv.ParseOptions(
                delimiter=self.separator,
                quote_char=(self.form.quote or False) if quoted else False,
                newlines_in_values=quoted,  # finding row ends is slower with it
                invalid_row_handler=bad_row,
            ),
            pa_csv.ConvertOptions(
                column_types=types,
                strings_can_be_null=False,
                null_values=list(marks),
                decimal_point=decimal or self.form.decimal,
                check_utf8=False,  # `check_bytes` did
            ),
        )

    def row_error(self, quoted: bool | None = None) -> DataError:
        """Return the error that says which row has another number of cells than the header."""
        try:
            self.arrow((), threads=False, quoted=quoted)
        except pa.ArrowInvalid as error:
            found = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", str(error))
            if found:
                row, expected, got = found.groups()
                return DataError(
                    "a row has another number of cells than the header",
                    source=self.path,
                    row=row,
                    expected=f"{expected} cells",
                    found=got,
                    hint=f"The file was read with separator {self.separator!r}; the last line may "
                    "be cut, or a cell may hold the separator or a lone quote (quote=null turns "
                    "quoting off)",
                )
            return DataError(f"not a readable table ({error})", source=self.path)
        return DataError("not a readable table", source=self.path)


def check_names(names: list[str], path: object) -> None:
    """Raise `DataError` where a name stands twice in a header."""
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise DataError(
            f"column {', '.join(map(repr, twice))} stands more than once in the header",
            source=path,
            expected="one column per name",
        )


def _sources(
    names: list[str],
    columns: Mapping[str, str],
    schema: Mapping[str, Column],
    path: object,
    step: str,
) -> dict[str, str]:
    """Return our name to the file's name for every column of the schema that is there."""
    for ours in columns:
        if ours not in schema:
            raise UnknownNameError(f"column of the {step} table:", str(ours), schema)
    renames = {k: str(v) for k, v in columns.items() if v is not None}
    for ours, theirs in renames.items():
        if theirs not in names:
            near = suggest(str(theirs), names)
            raise DataError(
                f"the column map names {theirs!r} for {ours!r}, but the {step} table has no such "
                "column",
                source=path,
                found=", ".join(names),
                hint=f"Did you mean {' or '.join(map(repr, near))}?" if near else None,
            )
    own = {n: n for n in names if n in schema and n not in columns}
    both = {**own, **renames}
    numbers: dict[str, str] = {}
    for ours, theirs in both.items():
        if schema[ours].kind in ("float", "int"):
            other = numbers.setdefault(theirs, ours)
            if other != ours:
                raise DataError(
                    f"column {theirs!r} is taken for both {other!r} and {ours!r}",
                    source=path,
                    expected="a column of its own for each number",
                    found=", ".join(names),
                    hint=f"Correct the column map (dataset.columns.{step})",
                )
    return {name: both[name] for name in schema if name in both}


def _rename(
    frame: pd.DataFrame, sources: Mapping[str, str], unused: set[str], log: LossLog, step: str
) -> pd.DataFrame:
    """Put our columns first; a column whose name we took for another one gets ``_original``."""
    used = set(sources.values())
    out = {ours: frame[theirs] for ours, theirs in sources.items()}
    for name in frame.columns:
        if name in used and (name not in out or sources.get(name) == name):
            continue
        if name in out or name in unused:
            log.add(
                step, "note", f"column {name!r} of the file is called {name}_original", 1, "columns"
            )
            out[f"{name}_original"] = frame[name]
        else:
            out[name] = frame[name]
    return pd.DataFrame(out, copy=False)


IDS = ("participant", "trial", "stimulus", "layout", "word")


def _blank_rows(frame: pd.DataFrame) -> np.ndarray:
    """Return the positions of the rows without any value; the quickest columns go first."""
    rows = np.arange(len(frame))
    for name in sorted(frame, key=lambda c: isinstance(frame[c].dtype, pd.StringDtype)):
        values = frame[name] if len(rows) == len(frame) else frame[name].iloc[rows]
        empty = values.isna()
        if isinstance(values.dtype, pd.StringDtype):
            empty |= values.str.strip() == ""
        rows = rows[empty.to_numpy()]
        if not len(rows):
            break
    return rows


def _clean(
    frame: pd.DataFrame,
    schema: Mapping[str, Column],
    log: LossLog,
    step: str,
    path: object,
    first_row: int,
) -> pd.DataFrame:
    blank = _blank_rows(frame)
    if len(blank):
        log.add(step, "dropped", "empty rows", len(blank))
        if len(blank) == len(frame):
            raise DataError(f"0 of {len(blank)} rows valid: all cells are empty", source=path)
        frame = frame.drop(index=pd.Index(blank)).reset_index(drop=True)
    texts = [
        name
        for name in frame
        if str(name) in schema
        and schema[str(name)].kind == "text"
        and isinstance(frame[name].dtype, pd.StringDtype)
    ]
    with ThreadPoolExecutor(THREADS) as pool:
        all_runs = list(pool.map(runs_of, [frame[name] for name in texts]))
    for name, runs in zip(texts, all_runs, strict=True):
        spec, values = schema[str(name)], frame[name]
        cells = pd.Series(runs.uniques, dtype="str")  # long columns repeat few texts
        torn = cells.str.contains("\n", regex=False) if name != "question" else cells == "\n"
        if torn.any():
            row = int(runs.first_rows()[torn].min())
            raise DataError(
                f"a line break inside column {name!r}",
                source=path,
                row=row + first_row,
                found=repr(values.iloc[row][:60]),
                hint="A lone quote may have joined two lines: quote=null turns quoting off",
            )
        bare = cells.str.strip() if name in IDS else cells
        changed = np.flatnonzero(bare != cells)
        if len(changed):
            count = int(runs.sizes[np.isin(runs.codes, changed)].sum())
            log.add(step, "repaired", f"blanks around the id {name!r} removed", count)
            values = values.str.strip()
        if (name in IDS or spec.nullable) and (bare == "").any():
            values = values.where(values != "")
        frame[name] = values
    return frame
