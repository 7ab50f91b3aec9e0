"""Files of a published corpus: finding them, packed or not, and reading their tables as text."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv

from gazeattn.errors import DataError, suggest
from gazeattn.readers.textfile import check_bytes, file_bytes


def has_file(folder: Path, pattern: str) -> bool:
    """Tell whether a file is there, packed (``.gz``) or not; ``*`` stands for any part."""
    return bool(find_files(folder, pattern))


def find_files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a pattern, sorted, packed (``.gz``) or not; an unpacked one wins.

    ``*``, or an id in braces as in ``P{participant}.csv``, stands for any part.
    """
    pattern = re.sub(r"\{\w*\}", "*", pattern)
    plain = {p for p in folder.glob(pattern) if p.is_file()}
    packed = [p for p in folder.glob(f"{pattern}.gz") if p.with_suffix("") not in plain]
    return sorted([*plain, *packed])


def text_table(
    path: Path,
    columns: Iterable[str] | None = None,
    *,
    separator: str = ",",
    quote: str | None = '"',
    encoding: str = "utf-8",
    ragged: bool = False,
    needs: Iterable[str] = (),
    numbers: Iterable[str] = (),
) -> pd.DataFrame:
    """Read a published table with every cell as text, exactly as written (``NA`` is a word).

    Parameters
    ----------
    path
        Text file, also gzipped; a byte-order mark and quotes around the header are removed.
    columns
        The columns to read, in this order; all by default.
    separator, quote, encoding
        ``quote=None``: quote characters are ordinary characters.
    ragged
        Rows may have fewer cells than the header; those at their end are empty then. Slow: for
        small tables.
    needs
        Columns that must be there where all are read.
    numbers
        Columns to read as float64 at once, which is faster for long tables; an empty cell or a
        lone dot is missing.

    Raises
    ------
    DataError
        No such file, a damaged gzip file, bytes that the encoding cannot hold, a column that is
        not there, or rows of unequal length.
    """
    data: bytes | memoryview = file_bytes(path)
    if bytes(data[:2]) == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise DataError(f"the gzip file is damaged or cut ({error})", source=path) from None
    check_bytes(data, encoding, path, stated=encoding != "utf-8")
    if encoding != "utf-8":
        data = str(data, encoding).encode()
    data = memoryview(data)[3:] if bytes(data[:3]) == b"\xef\xbb\xbf" else memoryview(data)
    head = str(data[: 1 << 16], "utf-8", "replace").splitlines()
    names = next(csv.reader(head[:1], delimiter=separator), [])
    if not names or len(set(names)) < len(names):
        raise DataError("no header, or a column stands twice in it", source=path, found=head[:1])
    columns, needs = None if columns is None else list(columns), list(needs)
    wanted = names if columns is None else columns
    for name in dict.fromkeys([*wanted, *needs]):
        if name not in names:
            near = suggest(name, names)
            raise DataError(
                f"column {name!r} is missing",
                source=path,
                expected=", ".join(dict.fromkeys([*needs, *(columns or ())])),
                found=", ".join(names[:15]),
                hint=f"Did you mean {' or '.join(map(repr, near))}?" if near else None,
            )
    if ragged:
        return _ragged(str(data, "utf-8"), names, separator, path)[wanted]
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(data),
            pa_csv.ReadOptions(column_names=names, skip_rows=1),
            pa_csv.ParseOptions(
                delimiter=separator, quote_char=quote or False, newlines_in_values=bool(quote)
            ),
            pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.large_string())
                | dict.fromkeys(numbers, pa.float64()),
                null_values=["", "."],
                include_columns=wanted,
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"not a readable table ({error})", source=path) from None
    return table.to_pandas()


def _ragged(text: str, names: list[str], separator: str, path: Path) -> pd.DataFrame:
    rows = list(csv.reader(text.splitlines(keepends=True), delimiter=separator))[1:]
    for number, row in enumerate(rows):
        if len(row) > len(names):
            raise DataError(
                "a row has more cells than the header",
                source=path,
                row=number + 2,
                expected=f"at most {len(names)} cells",
                found=len(row),
            )
    filled = [row + [""] * (len(names) - len(row)) for row in rows]
    return pd.DataFrame(filled, columns=names, dtype="str")
