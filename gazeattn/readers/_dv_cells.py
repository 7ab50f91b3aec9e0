"""Cells of Data Viewer reports as Arrow columns: quotes, missing marks, numbers, area lists."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gazeattn.columns import MISSING_NUMBERS, THOUSANDS
from gazeattn.readers.delimited import NUMBER_MARKS

UNDEFINED = "UNDEFINEDnull"
"""What Data Viewer writes for a variable of the experiment that was never set."""

MARKS = (*NUMBER_MARKS, UNDEFINED)
TEXT = pa.large_string()


def text_column(values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    """Return a column of any type as text; whole floats lose their ``.0``."""
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        whole = pc.all(pc.equal(column, pc.floor(column)), min_count=0).as_py()
        small = pc.all(pc.less(pc.abs(column), 2.0**53), min_count=0).as_py()
        if whole and small:
            column = column.cast(pa.int64())
    return column if column.type == TEXT else column.cast(TEXT)


def on_uniques(values: pa.ChunkedArray, change: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    """Apply a function to the distinct texts of a column, once each."""
    coded = values.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return pa.chunked_array([change(coded.dictionary).take(coded.indices)])


def without_quotes(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Take the outer quotes off cells that have them at both ends.

    Data Viewer encloses text in quotes but leaves quotes inside as they are; other programs
    double those inside. Quotes inside that all come in pairs are therefore taken as doubled.
    """
    if not pc.any(pc.starts_with(values, '"')).as_py():
        return values

    def bare(cells: pa.Array) -> pa.Array:
        return pa.array([unquote(c) for c in cells.to_pylist()], TEXT)

    return on_uniques(values, bare)


def unquote(cell: str | None) -> str | None:
    """Take the outer quotes off one cell; see `without_quotes`."""
    if cell is None or len(cell) < 2 or cell[0] != '"' or cell[-1] != '"':
        return cell
    inside = cell[1:-1]
    if '"' in inside and all(len(run) % 2 == 0 for run in re.findall('"+', inside)):
        return inside.replace('""', '"')
    return inside


def blank_where(values: pa.ChunkedArray, mask: pa.ChunkedArray) -> tuple[pa.ChunkedArray, int]:
    """Return a column with missing values where the mask is true, and how many there are."""
    count = int(pc.sum(mask).as_py() or 0)
    if not count:
        return values, 0
    return pc.if_else(mask, pa.scalar(None, values.type), values), count


def missing_ids(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Turn ``.``, empty cells and the undefined mark of an id column into missing values."""
    mask = pc.equal(values, ".")  # three comparisons are quicker than one look into a set
    for mark in ("", UNDEFINED):
        mask = pc.or_(mask, pc.equal(values, mark))
    return blank_where(values, mask)[0]


NUMBER = re.compile(r"[-+]?(?:0|[1-9]\d*|(?=[.,]\d))(?:[.,]\d*)?(?:[eE][-+]?\d+)?")


def looks_like_number(cell: str) -> bool:
    """Say whether a cell holds a number or nothing; ``007`` is an id."""
    cell = cell.strip()
    return is_mark(cell) or NUMBER.fullmatch(cell) is not None


def is_mark(cell: str) -> bool:
    """Say whether a cell of a number column means "missing"."""
    return cell.casefold() in MISSING_NUMBERS or cell == UNDEFINED


def decimal_marks(cells: pa.Array) -> tuple[int, int, int]:
    """Count the numbers with a point, with a comma, and those that may hold thousands."""
    point = pc.sum(pc.match_substring_regex(cells, r"^\s*[-+]?\d*\.\d+(?:[eE][-+]?\d+)?\s*$"))
    comma = pc.match_substring_regex(cells, r"^\s*[-+]?\d*,\d+(?:[eE][-+]?\d+)?\s*$")
    several = pc.match_substring_regex(cells, f"^(?:{THOUSANDS})$")
    either = pc.sum(pc.or_(comma, several))
    return tuple(int(n.as_py() or 0) for n in (point, either, pc.sum(several)))  # type: ignore[return-value]


def numbers(values: pa.ChunkedArray, decimal: str) -> tuple[pa.ChunkedArray | None, int]:
    """Return text as float64, NaN for missing; or None and the first row without a number."""
    cells = pc.utf8_trim_whitespace(values)
    missing = pc.is_in(
        pc.utf8_lower(cells),
        value_set=pa.array([*sorted(MISSING_NUMBERS), UNDEFINED.lower()], TEXT),
    )
    cells = pc.if_else(missing, pa.scalar(None, TEXT), cells)
    if decimal == ",":
        pointed = pc.match_substring(cells, ".")
        if pc.any(pointed).as_py():
            return None, pc.index(pointed, True).as_py()
        cells = pc.replace_substring(cells, ",", ".")
    fits = pc.match_substring_regex(
        cells, r"^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?$|^[-+]?inf(?:inity)?$"
    )
    if not pc.all(fits, min_count=0).as_py():
        return None, pc.index(fits, False).as_py()
    try:
        # Arrow's cast takes no plus sign and no bare point at the end.
        plain = pc.replace_substring_regex(cells, r"^\+|\.$", "")
        return plain.cast(pa.float64()), -1
    except pa.ArrowInvalid:
        return None, 0


def first_area(lists: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the first id of lists such as ``[ 7, 8]``, missing for ``[ ]`` and ``.``."""

    def first(cells: pa.Array) -> pa.Array:
        found = pc.struct_field(
            pc.extract_regex(cells, r"^\s*\[?\s*(?P<id>[^\s,;\[\]][^,;\[\]]*?)\s*(?:[,;\]].*)?$"),
            "id",
        )
        return pc.if_else(pc.equal(found, "."), pa.scalar(None, TEXT), found.cast(TEXT))

    return on_uniques(lists, first)


def milliseconds_in(labels: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the time in labels such as ``Fixation: 398 ms``, NaN without one."""

    def time(cells: pa.Array) -> pa.Array:
        found = pc.struct_field(
            pc.extract_regex(cells, r"(?P<ms>-?\d+(?:[.,]\d+)?)\s*ms\s*$"), "ms"
        )
        return pc.replace_substring(found, ",", ".").cast(pa.float64())

    return on_uniques(labels, time)


def count_double_encoded(labels: pa.ChunkedArray) -> tuple[int, list[str]]:
    """Count labels whose UTF-8 was read as Windows text and written again (``Ã¥`` for ``å``)."""
    if pc.all(pc.string_is_ascii(labels), min_count=0).as_py():
        return 0, []
    found = [c for c in pc.unique(labels).to_pylist() if c is not None and _double_encoded(c)]
    hits = pc.is_in(labels, value_set=pa.array(found, labels.type))
    return count(hits), found


def _double_encoded(text: str) -> bool:
    if text.isascii():
        return False
    try:
        return text.encode("cp1252").decode("utf-8") != text
    except UnicodeError:
        return False


def count(mask: pa.ChunkedArray | pa.Array | np.ndarray) -> int:
    """Return how many values are true."""
    if isinstance(mask, np.ndarray):
        return int(mask.sum())
    return int(pc.sum(mask).as_py() or 0)
