"""Sample lines to columns, in bulk: pyarrow reads all lines of one layout at once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from gazeattn.losses import LossLog
from gazeattn.readers._asc_layout import NUMBER, STATUS, Declared, Plan, plan
from gazeattn.readers._asc_store import Store

TAB, BLANK, NEWLINE = 9, 32, 10
LOOK = 50
"""Lines that are looked at to tell columns of flags from columns of numbers."""


class Unreadable:
    """Lines that were not understood: their number and the first few of them."""

    def __init__(self, keep: int = 10) -> None:
        self.keep, self.count = keep, 0
        self.first: list[tuple[int, str]] = []

    def add(self, lines: list[tuple[int, bytes]], count: int) -> None:
        """Count lines; `lines` are those of them that may be shown, with their numbers from 0."""
        self.count += count
        shown = [(n + 1, raw.decode("utf-8", "replace").strip()[:200]) for n, raw in lines]
        self.first = sorted([*self.first, *shown])[: self.keep]


class Samples:
    """The columns of all sample lines read so far."""

    def __init__(self, missing: frozenset[bytes]) -> None:
        self.missing = missing
        self.store = Store()
        self.n_lines = self.pupil_zero = 0
        self.unreadable = Unreadable()
        self.notes: Counter[str] = Counter()
        self.status: dict[str, dict[bytes, int]] = {}
        self._main: dict[Declared, Plan] = {}
        self._plans: dict[tuple[Declared, int], Plan] = {}

    def add(
        self, data: bytes, lines: np.ndarray, layouts: list[tuple[int, Declared]], cut: bool
    ) -> np.ndarray:
        """Read sample lines.

        Parameters
        ----------
        data
            The lines, each ended by a newline.
        lines : ndarray, shape (n,)
            Their numbers in the file.
        layouts
            Line number from which on each layout holds, in order; the first holds before, too.
        cut
            The last line lacks its end.

        Returns
        -------
        ndarray
            Numbers of the lines that became rows.
        """
        if not len(lines):
            return lines
        self.n_lines += len(lines)
        values = normalised(data)
        ends = np.flatnonzero(values == NEWLINE)
        cells = 1 + np.diff(np.searchsorted(np.flatnonzero(values == TAB), np.r_[0, ends]))
        begin = np.array([at for at, _ in layouts])
        which = np.maximum(np.searchsorted(begin, lines, side="right") - 1, 0)
        kinds = list(dict.fromkeys(layout for _, layout in layouts))
        number = np.array([kinds.index(layout) for _, layout in layouts])
        keys = number[which] * 4096 + np.minimum(cells, 4095)
        sizes = np.diff(np.r_[-1, ends])
        good = np.zeros(len(lines), bool)
        columns: dict[str, np.ndarray] = {}
        unique, counts = np.unique(keys, return_counts=True)
        for key in unique[np.argsort(-counts, kind="stable")].tolist():  # the usual length first
            rows = np.flatnonzero(keys == key)
            alone = len(rows) == len(lines)
            part = values if alone else values[np.repeat(keys == key, sizes)]
            layout = self._plan(kinds[key // 4096], key % 4096, part)
            if not layout.names:
                continue
            read, fine = self._read(part, layout, len(rows))
            if "status" in self._main[kinds[key // 4096]].core - layout.core:
                fine &= _complete(part)
            if cut and rows[-1] == len(lines) - 1 and _may_be_cut(part, layout):
                fine[-1] = False
            good[rows] = fine
            for name, column in read.items():
                if alone:
                    columns[name] = column
                    continue
                if name not in columns:
                    empty = -1 if column.dtype == np.int16 else np.nan
                    columns[name] = np.full(len(lines), empty, column.dtype)
                columns[name][rows] = column
        if not good.all():
            bad = np.flatnonzero(~good)
            end = ends[bad[:10]]
            shown = zip(lines[bad[:10]], end - sizes[bad[:10]] + 1, end, strict=True)
            self.unreadable.add([(int(n), values[a:b].tobytes()) for n, a, b in shown], len(bad))
            columns = {name: column[good] for name, column in columns.items()}
        kept = lines[good]
        self._clear_pupils(columns)
        self.store.add(len(kept), columns)
        return kept

    def _plan(self, declared: Declared, n_cells: int, part: np.ndarray) -> Plan:
        """Return the layout of lines of one length; odd ones must have all that the usual have."""
        key = (declared, n_cells)
        if key in self._plans:
            return self._plans[key]
        stop = np.flatnonzero(part == NEWLINE)[:LOOK][-1]
        rows = [line.split(b"\t") for line in part[:stop].tobytes().split(b"\n")]
        found = plan(declared, rows, self.missing) if 3 < n_cells < 40 else Plan([])
        main = self._main.get(declared)
        if main and (not main.core <= {*found.names, "status"} or "extra_1" in found.names):
            found = Plan([])
        elif not main and found.names:
            self._main[declared] = found
        for note in found.notes:
            self.notes[note] += 1
        self._plans[key] = found
        return found

    def _read(
        self, part: np.ndarray, layout: Plan, n: int
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return the columns of lines of one layout, and which rows could be read."""
        good = np.ones(n, bool)
        try:
            table = self._table(part, layout, as_text=False)
        except pa.ArrowInvalid:
            table = self._cast(self._table(np.minimum(part, 126), layout, as_text=True), layout)
            good &= table.column("").to_numpy()
        columns: dict[str, np.ndarray] = {}
        for name in layout.names:
            column = table.column(name).combine_chunks()
            if name in layout.texts:
                columns[name], fine = self._codes(name, column)
                good &= fine
            else:
                numbers = column.to_numpy(zero_copy_only=False)
                if not numbers.flags.owndata:
                    numbers = numbers.copy()  # sets the memory of the reader free
                good &= ~np.isinf(numbers)
                columns[name] = numbers
        good &= ~np.isnan(columns["time"])
        return columns, good

    def _table(self, part: np.ndarray, layout: Plan, as_text: bool) -> pa.Table:
        flags = pa.dictionary(pa.int32(), pa.binary())
        number = pa.binary() if as_text else pa.float64()
        return pa_csv.read_csv(
            pa.py_buffer(part),
            pa_csv.ReadOptions(column_names=layout.names, block_size=1 << 22, use_threads=False),
            pa_csv.ParseOptions(delimiter="\t", quote_char=False, newlines_in_values=False),
            pa_csv.ConvertOptions(
                column_types={n: flags if n in layout.texts else number for n in layout.names},
                null_values=sorted(m.decode("latin-1") for m in self.missing),
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )

    def _cast(self, table: pa.Table, layout: Plan) -> pa.Table:
        """Read numbers one column at a time; column ``""`` says which rows hold only numbers."""
        good = pa.chunked_array([pa.array(np.ones(table.num_rows, bool))])
        marks = pa.array(sorted(self.missing), pa.binary())
        for k, name in enumerate(layout.names):
            if name in layout.texts:
                continue
            cells = table.column(name)
            gone = pc.is_in(cells, marks)
            cells = cells.cast(pa.string())
            fine = pc.match_substring_regex(cells, f"^(?:{NUMBER.pattern.decode()})$")
            good = pc.and_(good, pc.or_(fine, gone))
            numbers = pc.if_else(pc.and_(fine, pc.invert(gone)), cells, None).cast(pa.float64())
            table = table.set_column(k, name, numbers)
        return table.append_column("", good)

    def _codes(self, name: str, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return flags as numbers of the texts seen so far, and which of them are flags at all."""
        known = self.status.setdefault(name, {})
        if isinstance(column, pa.ChunkedArray):
            column = column.unify_dictionaries().combine_chunks()
        texts = column.dictionary.to_pylist()
        numbers = np.full(len(texts) + 1, -1, np.int16)
        fine = np.ones(len(texts) + 1, bool)
        for k, text in enumerate(texts):
            if not STATUS.fullmatch(text) or (text not in known and len(known) >= 30_000):
                fine[k] = False
            else:
                numbers[k] = known.setdefault(text, len(known))
        codes = column.indices.to_numpy(zero_copy_only=False)
        return numbers[codes], fine[codes]

    def _clear_pupils(self, columns: dict[str, np.ndarray]) -> None:
        """Make a pupil of 0 beside a missing position missing: the tracker saw no eye."""
        for name, pupil in columns.items():
            kind, _, eye = name.partition("_")
            if kind != "pupil":
                continue
            place = [
                columns[c]
                for c in (f"{p}{a}{eye and '_'}{eye}" for p in ("", "href_", "raw_") for a in "xy")
                if c in columns
            ]
            none = pupil == 0
            none &= np.logical_or.reduce([np.isnan(p) for p in place])
            self.pupil_zero += int(none.sum())
            pupil[none] = np.nan

    def report(self, lost: LossLog) -> None:
        """Log what the rows lack."""
        lost.add("samples", "undefined", "pupil 0 without a position is missing", self.pupil_zero)
        for note, count in self.notes.items():
            lost.add("samples", "note", note, count, "layouts")


def normalised(data: bytes) -> np.ndarray:
    """Return lines with one tab for every stretch of blanks and tabs, and none at line ends.

    Fields are padded with blanks, and some converters put only a blank between two of them.
    """
    values = np.frombuffer(data, np.uint8)
    blank = (values == BLANK) | (values == TAB)
    keep = ~blank
    keep[:-1] |= ~blank[1:] & (values[1:] != NEWLINE)  # the last blank before a field
    result = values[keep]
    result[blank[keep]] = TAB
    return result


def _complete(part: np.ndarray) -> np.ndarray:
    """Say which lines end in a number with one decimal, or in a lone dot: not cut within it."""
    end = np.flatnonzero(part == NEWLINE)
    last, before = part[end - 1], part[end - 2]
    point = ord(".")
    return (before == point) & (last != point) | (before == TAB) & (last == point)


def _may_be_cut(part: np.ndarray, layout: Plan) -> bool:
    """Say whether the last line is shorter than one that ends as the line before it."""
    lines = part[-2000:].tobytes().rstrip(b"\n").split(b"\n")
    last = lines[-1].split(b"\t")[-1]
    if len(lines) < 2:
        return layout.names[-1] not in layout.texts and b"." not in last
    before = lines[-2].split(b"\t")[-1]
    if layout.names[-1] in layout.texts:
        return len(last) < len(before)
    return len(last.partition(b".")[2]) < len(before.partition(b".")[2])
