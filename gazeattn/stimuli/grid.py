"""Characters on a monospaced grid: which cell each one takes, and the boxes of ranges of text."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from gazeattn.errors import DataError

BOX_COLUMNS = ("layout", "word", "part", "line", "left", "top", "right", "bottom")
"""Columns of a table of boxes: one row per box, several for a unit that breaks over lines."""

SIDES = ["left", "top", "right", "bottom"]
SOFT_HYPHEN = "\u00ad"
LINE_BREAK = re.compile(r"\r\n|\n|\r")


@lru_cache(maxsize=4096)
def char_cells(char: str) -> int:
    """Return how many cells a character takes: 0 (combining, invisible), 1, or 2 (wide).

    Wide are the classes W and F of Unicode's East Asian Width. A tab is not known here: it
    depends on where it stands.
    """
    if unicodedata.category(char) in ("Mn", "Me", "Cf", "Cc"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def split_lines(text: str) -> list[tuple[int, int]]:
    r"""Return (start, end) of each line without its break; breaks are ``\n``, ``\r\n``, ``\r``."""
    spans, at = [], 0
    for match in LINE_BREAK.finditer(text):
        spans.append((at, match.start()))
        at = match.end()
    return [*spans, (at, len(text))]


@dataclass(frozen=True)
class Grid:
    """Where a monospaced text stands.

    Attributes
    ----------
    char_width, line_height : float
        Pixels of one cell; boxes are `line_height` high.
    x, y : float
        Left edge of the first cell (its right edge with `rtl`) and top of the first line drawn.
    tab_width : int
        Cells between tab stops.
    first_line : int
        Number of the line at `y`; the lines above it are not on screen and get no box.
    n_lines : int, optional
        How many lines are on screen; those below get no box.
    line_tops : mapping of line to float, optional
        Top of each line, instead of `y` and equal steps; lines that it lacks get no box.
    rtl : bool
        Text runs from right to left: the first character stands at the right.
    """

    char_width: float
    line_height: float
    x: float = 0.0
    y: float = 0.0
    tab_width: int = 4
    first_line: int = 0
    n_lines: int | None = None
    line_tops: Mapping[int, float] | None = None
    rtl: bool = False

    def __post_init__(self) -> None:
        sizes = (self.char_width, self.line_height, self.tab_width)
        if not all(np.isfinite(v) and v > 0 for v in sizes):
            raise DataError(
                "a grid needs sizes above 0",
                expected="char_width, line_height and tab_width above 0",
                found=", ".join(map(str, sizes)),
            )
        if not (np.isfinite(self.x) and np.isfinite(self.y)):
            raise DataError("a grid needs a finite origin", found=f"x {self.x}, y {self.y}")

    def cells(self, line: str) -> np.ndarray:
        """Return the cell at which each character of a line begins, and the end of the last one.

        Returns
        -------
        ndarray, shape (n_characters + 1,), int64
        """
        if "\t" in line:
            at, starts = 0, [0]
            for char in line:
                at += self.tab_width - at % self.tab_width if char == "\t" else char_cells(char)
                starts.append(at)
        else:
            starts = [0, *np.cumsum([char_cells(char) for char in line], dtype=np.int64)]
        if line.endswith(SOFT_HYPHEN):  # it is drawn at the end of a line, and only there
            starts[-1] += 1
        return np.array(starts, dtype=np.int64)

    def top(self, line: int) -> float:
        """Return the top of a line (numbered from 0), NaN where it is not on screen."""
        if self.line_tops is not None:
            return float(self.line_tops.get(line, np.nan))
        row = line - self.first_line
        if row < 0 or (self.n_lines is not None and row >= self.n_lines):
            return np.nan
        return self.y + row * self.line_height

    def box(self, line: int, first: float, last: float) -> tuple[float, float, float, float]:
        """Return left, top, right, bottom of the cells from `first` up to `last` of a line."""
        top = self.top(line)
        if np.isnan(top):
            return (np.nan,) * 4
        near, far = first * self.char_width, last * self.char_width
        left, right = (self.x - far, self.x - near) if self.rtl else (self.x + near, self.x + far)
        return left, top, right, top + self.line_height


class TextCells:
    """A text cut into lines, with the cell of every character on a grid."""

    def __init__(self, text: str, grid: Grid) -> None:
        self.text, self.grid = text, grid
        self.lines = split_lines(text)
        self._starts = [start for start, _ in self.lines]
        self._cells: dict[int, np.ndarray] = {}

    def line_of(self, offset: int) -> int:
        """Return the line that holds a character offset."""
        return bisect_right(self._starts, offset) - 1

    def cells_of(self, line: int) -> np.ndarray:
        """Return `Grid.cells` of a line."""
        if line not in self._cells:
            start, end = self.lines[line]
            self._cells[line] = self.grid.cells(self.text[start:end])
        return self._cells[line]

    def boxes(self, start: int, end: int) -> list[tuple[int, float, float, float, float]]:
        """Return (line, left, top, right, bottom) of each line that a range of text is on.

        White space at the ends of each line's share is left out; a line with nothing else gets no
        box, so that the indentation and the empty lines of a long string belong to nobody.
        """
        found = []
        for line in range(self.line_of(start), self.line_of(max(end - 1, start)) + 1):
            begin, stop = self.lines[line]
            a, b = max(start, begin), min(end, stop)
            share = self.text[a:b]
            a, b = a + len(share) - len(share.lstrip()), b - (len(share) - len(share.rstrip()))
            if b > a:
                cells = self.cells_of(line)
                found.append(
                    (line, *self.grid.box(line, float(cells[a - begin]), float(cells[b - begin])))
                )
        return found


def box_table(layout: str, rows: Iterable[tuple[str, int, int, object]]) -> pd.DataFrame:
    """Return a table with `BOX_COLUMNS` from (word, part, line, (left, top, right, bottom))."""
    data = [(layout, word, part, line, *sides) for word, part, line, sides in rows]  # type: ignore[misc]
    table = pd.DataFrame(data, columns=list(BOX_COLUMNS))
    return table.astype(
        {"layout": "str", "word": "str", "part": "int64", "line": "Int64"}
        | dict.fromkeys(SIDES, "float64")
    )


def first_boxes(words: pd.DataFrame, boxes: pd.DataFrame) -> pd.DataFrame:
    """Return the words with the sides of their first box and with `n_boxes`.

    A box around all parts of a word that breaks over two lines would cover its neighbours, so
    the first part stands for the word; `boxes` has them all.
    """
    known = boxes[boxes[SIDES].notna().all(axis=1)]
    counts = known.groupby("word", sort=False).size()
    first = known.drop_duplicates("word").set_index("word")
    words = words.copy()
    for side in SIDES:
        words[side] = words["word"].map(first[side]).astype("float64")
    words["n_boxes"] = words["word"].map(counts).fillna(0).astype("int64")
    return words
