"""A Data Viewer report as an Arrow table: its encoding, quotes, decimal mark and numbers."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.readers import _dv_cells as cells
from gazeattn.readers._dv_columns import is_vendor_column
from gazeattn.readers.delimited import FIRST_ROW, TextTable, check_names, parquet_table, unpacked
from gazeattn.readers.textfile import Data, Format, file_bytes

HEAD = 1 << 16
"""Bytes after the header that show how numbers are written."""


@dataclass
class Report:
    """The table of a report with its own column names.

    Attributes
    ----------
    names : list of str
    columns : dict of str to ChunkedArray
        Text, or float64 for number columns.
    facts : dict
        ``encoding``, ``separator`` and ``decimal``, as found.
    lost : LossLog
    """

    path: Path
    names: list[str]
    columns: dict[str, pa.ChunkedArray] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    lost: LossLog = field(default_factory=LossLog)
    rows: int = 0


Choose = Callable[[Sequence[str]], tuple[set[str], set[str]]]
"""From the names of a report: the columns that must hold numbers, and those that may."""


def read_report(path: Path, choose: Choose, form: Format, decimal: str | None) -> Report:
    """Read a report.

    Parameters
    ----------
    path
        Text or Parquet, also gzipped.
    choose
        Says from the names which columns must hold numbers and which may.
    form
        Encoding, separator and quote character; its decimal mark is not looked at.
    decimal
        Decimal mark; found out where None.

    Raises
    ------
    DataError
        See `gazeattn.readers.delimited.read_table`; also where points and commas are mixed.
    """
    data = unpacked(path, file_bytes(path))
    if data[:4] == b"PAR1":
        return _from_parquet(path, data, choose, decimal)
    text = TextTable(path, data, form)
    report = Report(path, _named(text.names))
    text.names = report.names
    check_names(report.names, path)
    must, may = choose(report.names)
    report.facts = {"encoding": text.encoding, "separator": text.separator}
    if text.rows_at is None:
        raise DataError("the report has a header but no rows", source=path)
    sample = _sample(text)
    may = {n for n in may if all(cells.looks_like_number(c.strip('"')) for c in sample.get(n, ()))}
    guess = decimal or _guess_decimal([sample[n] for n in must | may if n in sample])
    # Data Viewer does not double the quotes inside a quoted cell, so that a quote sign as a label
    # would swallow what follows. In tables with tabs, which no cell holds, quotes enclose nothing.
    number_in_quotes = any(c.startswith('"') for n in must | may for c in sample.get(n, ()))
    plain_first = text.separator == "\t" and not number_in_quotes
    modes = [False, True] if plain_first else [True, False]
    errors: list[DataError] = []
    for quoted in modes if text.quoted else [False]:
        try:
            table, typed = _parse(text, report, must | may, guess, quoted)
            break
        except DataError as error:
            errors.append(error)
    else:
        raise errors[0]
    strip = text.quoted and not quoted
    for name in report.names:
        column = table.column(name)
        report.columns[name] = (
            column if name in typed or not strip else cells.without_quotes(column)
        )
    report.rows = table.num_rows
    if not report.rows:
        raise DataError("the report has a header but no rows", source=path)
    if quoted:
        _no_torn_cells(report, text.separator)
    _drop_empty(report)
    if not typed:
        _drop_headers(report)
    _to_numbers(report, must, may, decimal, guess if typed else None)
    return report


def _named(names: Sequence[str]) -> list[str]:
    """Give columns without a name one: ``Unnamed: 0`` for the first column, and so on."""
    return [name or f"Unnamed: {k}" for k, name in enumerate(names)]


def _sample(text: TextTable) -> dict[str, list[str]]:
    """Return the cells of the first rows, by column."""
    assert text.rows_at is not None
    head = bytes(text.data[text.rows_at : text.rows_at + HEAD]).decode("utf-8", "ignore")
    lines = head.splitlines()
    if text.rows_at + HEAD < len(text.data):
        lines = lines[:-1]
    enclosing = text.quoted and text.separator != "\t"
    split = csv.reader(
        (line for line in lines if line),
        delimiter=text.separator,
        quoting=csv.QUOTE_MINIMAL if enclosing else csv.QUOTE_NONE,
    )
    try:
        rows = [row for row in split if len(row) == len(text.names)]
        rows = [row for row in rows if row[-1].strip('" ') != text.names[-1]]  # the header again
    except csv.Error:
        return {}
    return dict(zip(text.names, map(list, zip(*rows, strict=True)), strict=False)) if rows else {}


def _guess_decimal(columns: Sequence[Sequence[str]]) -> str:
    """Return the decimal mark that the first rows show; all rows are looked at where it fails."""
    points = commas = thousands = 0
    for column in columns:
        p, c, t = cells.decimal_marks(pa.array([x.strip('"') for x in column], cells.TEXT))
        points, commas, thousands = points + p, commas + c, thousands + t
    return "," if commas > thousands and not points else "."


def _parse(
    text: TextTable, report: Report, numeric: set[str], decimal: str, quoted: bool
) -> tuple[pa.Table, set[str]]:
    """Return the rows and the columns that came as numbers: all, or none where a cell is none."""
    for wanted in (numeric, set[str]()):
        bad: list[Any] = []

        def note(row: Any, bad: list[Any] = bad) -> str:
            bad.append(row)
            return "skip" if len(bad) == 1 else "error"

        try:
            table = text.arrow(
                wanted, marks=cells.MARKS, decimal=decimal, quoted=quoted, bad_row=note
            )
        except pa.ArrowInvalid as error:
            if "conversion error" in str(error) and wanted:
                continue
            raise text.row_error(quoted) from None
        if bad and not _is_cut_end(text, bad[0]):
            raise text.row_error(quoted)
        if bad:
            report.lost.add(
                "report",
                "dropped",
                f"the last line is cut: {bad[0].actual_columns} of {bad[0].expected_columns} cells",
                1,
                examples=[repr(bad[0].text[:60])],
            )
        return table, wanted
    raise AssertionError  # the second round converts nothing


def _is_cut_end(text: TextTable, row: Any) -> bool:
    """Say whether a row with too few cells is the last line of the file."""
    if row.actual_columns >= row.expected_columns:
        return False
    tail = bytes(text.data[-(1 << 20) :]).rstrip(b"\r\n")
    last = tail[max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1 :]
    return row.text.strip("\r\n").encode("utf-8", "surrogateescape") == last


def _no_torn_cells(report: Report, separator: str) -> None:
    """Raise where a lone quote has joined two lines: a cell then holds the rest of a row.

    A line break alone may stand in a variable of the experiment, such as a question.
    """
    for name, column in report.columns.items():
        if not pa.types.is_large_string(column.type):
            continue
        broken = pc.match_substring_regex(column, "[\r\n]")
        if not pc.any(broken).as_py():
            continue
        own = is_vendor_column(name)
        for row in pc.indices_nonzero(broken).to_pylist():
            cell = column[row].as_py()
            if own or cell.count(separator) >= len(report.names) - 1:
                raise DataError(
                    f"a line break inside column {name!r}",
                    source=report.path,
                    row=row + FIRST_ROW,
                    found=repr(cell[:60]),
                    hint="A lone quote has joined lines: quote=None turns quoting off",
                )


def _to_numbers(
    report: Report, must: set[str], may: set[str], stated: str | None, used: str | None
) -> None:
    """Convert the number columns that are text still, and settle the decimal mark."""
    waiting = [
        n
        for n in report.names
        if n in must | may and not pa.types.is_floating(report.columns[n].type)
    ]
    decimal = used or stated or _settle_decimal(report, waiting)
    for name in waiting:
        column, row = cells.numbers(report.columns[name], decimal)
        if column is not None:
            report.columns[name] = column
        elif name in must:
            found = report.columns[name][row].as_py()
            raise DataError(
                f"column {name!r} must hold numbers",
                source=report.path,
                row=row + FIRST_ROW,
                expected="a number in every row, or nothing"
                + (", with a decimal comma" if decimal == "," else ""),
                found=repr(found),
                hint="Decimal commas need decimal=','" if "," in found and decimal == "." else None,
            )
        else:
            report.lost.add(
                "report",
                "note",
                "a column with a number column's name holds text: kept as written",
                1,
                "columns",
                [name],
            )
    if decimal == "," and stated is None:
        report.lost.add("report", "note", "numbers have a decimal comma", 1, "files")
    report.facts["decimal"] = decimal


def _settle_decimal(report: Report, names: Sequence[str]) -> str:
    """Return the decimal mark of the number columns, looking at all rows."""
    points = commas = thousands = 0
    example = {".": "", ",": ""}
    for name in names:
        column = pc.unique(report.columns[name])
        p, c, t = cells.decimal_marks(column)
        points, commas, thousands = points + p, commas + c, thousands + t
        for mark, n in ((".", p), (",", c)):
            example[mark] = example[mark] or (name if n else "")
    if points and commas:
        raise DataError(
            "numbers with a decimal point and with a comma are mixed",
            source=report.path,
            expected="one decimal mark",
            found=f"points in {example['.']!r}, commas in {example[',']!r}",
            hint="Say decimal='.' or decimal=','",
        )
    if commas and commas == thousands:
        raise DataError(
            "the commas in numbers may be decimal commas or stand for thousands",
            source=report.path,
            found=f"column {example[',']!r}",
            hint="Say decimal=',' for decimal commas; write 1200 for 1,200",
        )
    return "," if commas else "."


def _drop_empty(report: Report) -> None:
    """Take out rows without any value, and columns with neither name nor value."""
    for name in [n for n in report.names if n.startswith("Unnamed: ")]:
        column = report.columns[name]
        if pa.types.is_large_string(column.type) and pc.all(pc.equal(column, "")).as_py():
            del report.columns[name]
            report.names.remove(name)
            report.lost.add("report", "dropped", "columns without name and values", 1, "columns")
    _drop_where(report, _empty_rows(report), "empty rows")


def _empty_rows(report: Report) -> pa.ChunkedArray | None:
    empty: pa.ChunkedArray | None = None
    numbers_first = sorted(report.columns.values(), key=lambda c: pa.types.is_large_string(c.type))
    for column in numbers_first:
        if pa.types.is_large_string(column.type):
            here = pc.equal(pc.utf8_trim_whitespace(column), "").fill_null(True)
        else:
            here = column.is_null()
        empty = here if empty is None else pc.and_(empty, here)
        if not pc.any(empty).as_py():
            return None
    return empty


def _drop_headers(report: Report) -> None:
    """Take out header lines that stand between rows, as where reports were put together."""
    again: pa.ChunkedArray | None = None
    for name in report.names[-2:]:
        column = report.columns[name]
        if not pa.types.is_large_string(column.type):
            return
        here = pc.equal(pc.utf8_trim(column, characters='" '), name)
        again = here if again is None else pc.and_(again, here)
    _drop_where(report, again, "header lines between the rows")


def _drop_where(report: Report, mask: pa.ChunkedArray | None, what: str) -> None:
    dropped = 0 if mask is None else cells.count(mask)
    if not dropped:
        return
    if dropped == report.rows:
        raise DataError(f"0 of {dropped} rows valid: {what}", source=report.path)
    report.lost.add("report", "dropped", what, dropped)
    keep = pc.invert(mask)
    report.columns = {n: c.filter(keep) for n, c in report.columns.items()}
    report.rows -= dropped


def _from_parquet(path: Path, data: Data, choose: Choose, decimal: str | None) -> Report:
    table = parquet_table(path, data)
    table = table.select([n for n in table.column_names if not n.startswith("__index_level_")])
    report = Report(path, _named(table.column_names), rows=table.num_rows)
    check_names(report.names, path)
    must, may = choose(report.names)
    if not report.rows:
        raise DataError("the report has a header but no rows", source=path)
    for name, column in zip(report.names, table.columns, strict=True):
        kind = column.type
        if pa.types.is_floating(kind):
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
        if name in must | may and (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            column = column.cast(pa.float64())
        elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            try:
                column = cells.text_column(column)
            except pa.ArrowException:
                raise DataError(
                    f"column {name!r} holds neither text nor numbers", source=path, found=str(kind)
                ) from None
        report.columns[name] = column
    may = {n for n in may if not pa.types.is_integer(report.columns[n].type)}
    _drop_empty(report)
    _to_numbers(report, must, may, decimal, None)
    return report
