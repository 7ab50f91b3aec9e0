"""What the exports of all trackers need: columns by name, order in time, validity, screens."""

from __future__ import annotations

import codecs
import csv
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from gazeattn.columns import Column, as_number, as_text
from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.readers._units import Header, parse_header
from gazeattn.readers.delimited import read_table, unpacked
from gazeattn.readers.textfile import Data, Format, sniff_encoding, sniff_separator

DECIMAL_COMMA = r"\s*[-+]?\d*,\d+(?:[eE][-+]?\d+)?\s*"
DEGREES = 45.0
"""Positions that all lie within +-45 are doubted to be pixels: a screen spans fewer degrees."""


def head_text(head: bytes, encoding: str | None = None) -> str:
    """Return the first bytes of a file as text, undecodable bytes replaced."""
    encoding = encoding or sniff_encoding(head[:400])
    return codecs.decode(head, encoding, "replace").removeprefix("\ufeff")


def head_names(head: bytes) -> set[str]:
    """Return the column names (as `Header.key`) in the first line of a file's first bytes."""
    return {parse_header(n).key for n in _first_cells(head_text(head), "")[0]}


def _first_cells(text: str, name: str) -> tuple[list[str], str, bool]:
    """Return the cells of the first line, the separator, and whether quotes stand there."""
    line = next((x for x in text.splitlines() if x.strip()), "")
    separator = sniff_separator(line, name)
    try:
        cells = next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # a cell longer than any header
        cells = []
    return [c.strip() for c in cells], separator, '"' in line


def each_text(values: pd.Series, function: Callable[[pd.Series], pd.Series]) -> pd.Series:
    """Apply a function to a column of texts, once for each different text."""
    codes, texts = pd.factorize(values, use_na_sentinel=True)
    done = function(pd.Series(texts, dtype="str"))
    taken = done.reindex(codes)  # -1, missing, is in no index
    return taken.set_axis(values.index)


def _stripped(texts: pd.Series) -> pd.Series:
    bare = texts.str.strip()
    return bare.where(bare != "")


def folded(values: pd.Series) -> pd.Series:
    """Return texts without case."""
    return each_text(values, lambda texts: texts.str.casefold())


def unpack(path: Path, data: Data) -> bytes:
    """Return the bytes of a table file, taken out of gzip; `DataError` where it is damaged."""
    try:
        return bytes(unpacked(path, data))
    except zlib.error as error:
        raise DataError(f"the gzip file is damaged or cut ({error})", source=path) from None


@dataclass
class Export:
    """A delimited export: its columns as text or numbers, and what was lost so far.

    Attributes
    ----------
    source : Path
    frame : DataFrame
        All columns under the names of the file.
    headers : dict
        `Header.key` to the columns that have it, in file order.
    lost : LossLog
    first_row : int
        Row number of the first data row in messages.
    used : set of str
        Names of the columns that were asked for.
    """

    source: Path
    frame: pd.DataFrame
    headers: dict[str, list[Header]]
    lost: LossLog
    first_row: int = 2
    used: set[str] = field(default_factory=set)

    def find(self, *keys: str, unit: str | None = None, frame: str | None = None) -> Header | None:
        """Return the first column with one of the keys (and unit, and frame), None without."""
        for key in keys:
            for header in self.headers.get(key, ()):
                if unit in (None, header.unit) and frame in (None, header.frame):
                    return header
        return None

    def need(self, *keys: str, what: str) -> Header:
        """Return the first column with one of the keys; raise `DataError` without one."""
        header = self.find(*keys)
        if header is None:
            raise DataError(
                f"no column with {what}",
                source=self.source,
                found=", ".join(map(str, self.frame.columns[:30])),
            )
        return header

    def numbers(self, header: Header) -> np.ndarray:
        """Return a column as float64, NaN for missing."""
        self.used.add(header.name)
        values = self.frame[header.name]
        return as_number(values, header.name, self.source, self.first_row).to_numpy(copy=True)

    def text(self, header: Header) -> pd.Series:
        """Return a column as text, NaN where the cell is empty."""
        self.used.add(header.name)
        return each_text(as_text(self.frame[header.name]), _stripped)

    def keep(self, rows: np.ndarray) -> Export:
        """Return the export with some rows only."""
        frame = self.frame if rows.all() else self.frame[rows].reset_index(drop=True)
        return Export(self.source, frame, self.headers, self.lost, self.first_row, self.used)

    def unread(self) -> list[str]:
        """Return the names of the columns that nobody asked for."""
        return [n for n in map(str, self.frame.columns) if n and n not in self.used]


def load_export(
    path: Path,
    data: Data,
    is_number: Callable[[Header], bool],
    *,
    encoding: str | None = None,
    decimal: str | None = None,
    form: Format | None = None,
    first_row: int = 2,
    step: str = "export",
) -> Export:
    """Read a delimited export whose first line is its header.

    Parameters
    ----------
    path
        For messages, and for the separator where the header does not show it.
    data
        Bytes of the table.
    is_number
        Whether a column holds numbers; the others stay text.
    encoding
        None: by the byte-order mark, else UTF-8.
    decimal
        None: a comma where numbers are written with it and cells are not separated by it.
    form
        All of it, where it is known.
    """
    data, known = unpack(path, data), form is not None
    form = form or Format(encoding=encoding, decimal=decimal or ".")
    text = head_text(bytes(data[: 1 << 16]), form.encoding)
    names, separator, quoted = _first_cells(text, path.name)
    if known:
        names = text.partition("\n")[0].split(form.delimiter or separator)
    elif separator == "\t" and not quoted:  # quotes in the cells are then text
        form = replace(form, quote=None)
    numeric = [h.name for h in map(parse_header, names) if h.name and is_number(h)]
    schema = {name: Column("float", name) for name in numeric}
    frame, lost = read_table(path, schema, step=step, form=form, data=data)
    texts = [n for n in numeric if n in frame and isinstance(frame[n].dtype, pd.StringDtype)]
    commas = sum(int(frame[n].str.fullmatch(DECIMAL_COMMA).sum()) for n in texts)
    if commas and decimal is None and not known:
        form = replace(form, decimal=",")
        frame, lost = read_table(path, schema, step=step, form=form, data=data)
        lost.add(step, "note", "decimal commas found out and read", commas, "numbers")
    by_key: dict[str, list[Header]] = {}
    for name in map(str, frame.columns):
        header = parse_header(name)
        by_key.setdefault(header.key, []).append(header)
    return Export(path, frame, by_key, lost, first_row)


def drop_untimed(export: Export, time: np.ndarray, step: str) -> tuple[Export, np.ndarray]:
    """Return the rows that have a time stamp, and their times; the others are counted."""
    there = np.isfinite(time)
    export.lost.add(step, "dropped", "rows without a time stamp", int((~there).sum()))
    return export.keep(there), time[there]


# ---------------------------------------------------------------- validity and screens


def blank(
    samples: pd.DataFrame, names: Iterable[str], bad: np.ndarray, lost: LossLog, reason: str
) -> None:
    """Make values of flagged rows missing, in place, and count the rows."""
    for name in names:
        if name in samples:
            samples.loc[bad, name] = np.nan
    lost.add("samples", "undefined", reason, int(bad.sum()))


def require_valid(table: pd.DataFrame, names: Iterable[str], lost: LossLog, source: object) -> None:
    """Raise `DataError` where no row has any value in the named columns."""
    there = [n for n in names if n in table]
    if not there:
        return
    if not table[there].notna().any(axis=None):
        reasons = "; ".join(f"{x.reason}: {x.count}" for x in lost if x.kind != "note")
        raise DataError(
            f"0 of {len(table)} rows valid",
            source=source,
            found=reasons or f"no value in {', '.join(there)}",
            hint="Look at the recording: the tracker saw no eye, or flags are written otherwise",
        )


GAZE = (("x", "y", ""), ("x_left", "y_left", "left "), ("x_right", "y_right", "right "))


def review_positions(
    table: pd.DataFrame, screen: tuple[float, float] | None, lost: LossLog, step: str
) -> None:
    """Count positions off the screen (valid: 0 <= x < width), and doubt degrees as pixels."""
    for x, y, eye in GAZE:
        if x not in table or y not in table:
            continue
        xs, ys = table[x].to_numpy(), table[y].to_numpy()
        there = np.isfinite(xs) & np.isfinite(ys)
        if not there.any():
            continue
        if screen is not None:
            on = (xs >= 0) & (xs < screen[0]) & (ys >= 0) & (ys < screen[1])
            lost.add(step, "note", f"{eye}gaze off the screen, kept", int((there & ~on).sum()))
        small = max(np.abs(xs[there]).max(), np.abs(ys[there]).max()) <= DEGREES
        if small and (screen is None or min(screen) > 4 * DEGREES):
            lost.add(
                step,
                "note",
                f"doubt: all {eye}positions lie within +-45, they may be degrees, not pixels",
                int(there.sum()),
            )


def missing_text(n: int) -> pd.Series:
    """Return a text column without values."""
    return pd.Series(np.full(n, np.nan), dtype="str")
