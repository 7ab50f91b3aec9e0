"""Text on a monospaced grid: boxes of words and of characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.stimuli.grid import SIDES, SOFT_HYPHEN, Grid, TextCells, box_table, first_boxes
from gazeattn.tables import LossLog

STEP = "layout"
WORD = re.compile(r"\S+")
HYPHENS = "-\u2010\u00ad"

Spaces = Literal["none", "split", "before", "after"]


@dataclass(frozen=True)
class Layout:
    """Units of one drawing of a stimulus.

    Attributes
    ----------
    words : DataFrame
        One row per unit, with the columns of `gazeattn.tables.WORDS` and `n_boxes`; its sides are
        those of the unit's first box.
    boxes : DataFrame
        One row per box: ``layout, word, part, line, left, top, right, bottom``.
    log : LossLog
    """

    words: pd.DataFrame
    boxes: pd.DataFrame
    log: LossLog


def layout_text(
    text: str | Sequence[str],
    grid: Grid,
    *,
    stimulus: str = "text",
    layout: str | None = None,
    unit: Literal["word", "character"] = "word",
    hyphenated: Literal["soft", "all", "none"] | Iterable[int] = "soft",
    spaces: Spaces = "none",
) -> Layout:
    r"""Lay out a text and return its words or characters with boxes.

    Parameters
    ----------
    text
        The lines as shown, in one string (breaks ``\n``, ``\r\n``, ``\r``) or one per line.
    grid
    stimulus, layout
        Ids; the layout is the stimulus unless given.
    unit
        ``"character"`` gives one row per visible character, with the id of its word in
        ``of_word``; combining marks belong to the character before them.
    hyphenated
        Which line ends break a word in two: ``"soft"`` those with a soft hyphen, ``"all"`` those
        with any hyphen after a letter where the next line goes on with a lower-case letter, or
        the numbers (from 0) of the lines that end in a broken word. A broken word is one word
        with two boxes, and its text has no such hyphen. No rule can tell a broken word from a
        compound (well-known) that breaks at its hyphen, hence the numbers.
    spaces
        Who gets the white space between two words of a line: nobody (``"none"``), each half of it
        (``"split"``), the word before it (``"before"``) or after it (``"after"``).

    Raises
    ------
    DataError
        The text holds no word, or a line that is said to end in a broken word does not.
    """
    lines = [text] if isinstance(text, str) else list(text)
    cells = TextCells("\n".join(lines), grid)
    layout = stimulus if layout is None else layout
    log = LossLog()
    pieces = [
        (number, match.start() + start, match.end() + start)
        for number, (start, end) in enumerate(cells.lines)
        for match in WORD.finditer(cells.text[start:end])
    ]
    if not pieces:
        raise DataError("the text holds no word", source=stimulus, found=repr(cells.text[:40]))
    groups = _joined(pieces, cells, hyphenated, log, stimulus)
    sides = _piece_boxes(pieces, cells, spaces)
    if unit == "character":
        return _characters(groups, pieces, cells, stimulus, layout, log)
    rows: list[tuple[object, ...]] = []
    box_rows: list[tuple[str, int, int, object]] = []
    for index, group in enumerate(groups):
        parts = [cells.text[pieces[p][1] : pieces[p][2]] for p in group]
        joined = "".join(part[:-1] for part in parts[:-1]) + parts[-1]
        first = pieces[group[0]]
        column = first[1] - cells.lines[first[0]][0]
        rows.append((layout, stimulus, str(index), index, joined, first[0], column))
        box_rows += [(str(index), k, pieces[p][0], sides[p]) for k, p in enumerate(group)]
    return finish(rows, ("column",), box_table(layout, box_rows), log)


def finish(
    rows: list[tuple[object, ...]], extra: Sequence[str], boxes: pd.DataFrame, log: LossLog
) -> Layout:
    """Make a `Layout` of rows (layout, stimulus, word, index, text, line, \\*extra) and boxes."""
    columns = ["layout", "stimulus", "word", "index", "text", "line", *extra]
    words = pd.DataFrame(rows, columns=columns).astype(
        {"layout": "str", "stimulus": "str", "word": "str", "text": "str", "line": "Int64"}
    )
    words = first_boxes(words, boxes)
    words = words[[*columns[:6], *SIDES, *extra, "n_boxes"]]
    nowhere = words["n_boxes"] == 0
    log.add(
        STEP, "undefined", "not on screen: no box", int(nowhere.sum()), "words", words.word[nowhere]
    )
    return Layout(words, boxes, log)


def _joined(
    pieces: list[tuple[int, int, int]],
    cells: TextCells,
    hyphenated: str | Iterable[int],
    log: LossLog,
    stimulus: str,
) -> list[list[int]]:
    """Return the pieces of each word: two or more where it breaks over lines."""
    if isinstance(hyphenated, str):
        if hyphenated not in ("soft", "all", "none"):
            raise DataError(
                "unknown rule for hyphenated words",
                expected="soft, all, none, or numbers of lines",
                found=hyphenated,
            )
        asked: set[int] = set()
    else:
        asked = {int(n) for n in hyphenated}
    done, groups = set(), [[0]]
    for p in range(1, len(pieces)):
        (line, start, end), (next_line, *_) = pieces[p - 1], pieces[p]
        before, after = cells.text[start:end], cells.text[pieces[p][1]]
        breaks = next_line == line + 1 and len(before) > 1 and before[-1] in HYPHENS
        if breaks and isinstance(hyphenated, str):
            sure = before[-1] == SOFT_HYPHEN
            guess = hyphenated == "all" and before[-2].isalpha() and after.islower()
            breaks = hyphenated != "none" and (sure or guess)
        elif breaks:
            breaks = line in asked
        if breaks:
            groups[-1].append(p)
            done.add(line)
        else:
            groups.append([p])
    if asked - done:
        raise DataError(
            "a line does not end in a broken word",
            source=stimulus,
            row=min(asked - done),
            expected="a line that ends in a hyphen, with text on the next line",
        )
    log.add(STEP, "note", "broken over lines at a hyphen: one word", len(done), "words")
    return groups


def _piece_boxes(
    pieces: list[tuple[int, int, int]], cells: TextCells, spaces: str
) -> list[tuple[float, float, float, float]]:
    """Return the box of each piece, grown into the space beside it as `spaces` says."""
    shares = {"none": (0.0, 0.0), "split": (0.5, 0.5), "before": (1.0, 0.0), "after": (0.0, 1.0)}
    if spaces not in shares:
        raise DataError("unknown rule for spaces", expected=", ".join(shares), found=spaces)
    to_before, to_after = shares[spaces]
    ends = []
    for line, start, end in pieces:
        begin, at = cells.lines[line][0], cells.cells_of(line)
        ends.append([float(at[start - begin]), float(at[end - begin])])
    bare = [tuple(e) for e in ends]
    for p in range(1, len(pieces)):
        if pieces[p][0] == pieces[p - 1][0]:
            gap = bare[p][0] - bare[p - 1][1]
            ends[p - 1][1] += to_before * gap
            ends[p][0] -= to_after * gap
    return [cells.grid.box(pieces[p][0], a, b) for p, (a, b) in enumerate(ends)]


def _characters(
    groups: list[list[int]],
    pieces: list[tuple[int, int, int]],
    cells: TextCells,
    stimulus: str,
    layout: str,
    log: LossLog,
) -> Layout:
    rows: list[tuple[object, ...]] = []
    box_rows: list[tuple[str, int, int, object]] = []
    for number, group in enumerate(groups):
        for p in group:
            line, start, end = pieces[p]
            begin, at = cells.lines[line][0], cells.cells_of(line)
            widths = np.diff(at[start - begin : end - begin + 1])
            heads = np.flatnonzero(widths > 0)  # marks without a width follow their letter
            heads = np.r_[0, heads[1:]] if len(heads) else np.zeros(1, dtype=np.int64)
            for a, b in zip(heads, [*heads[1:], len(widths)], strict=True):
                index, column = len(rows), start - begin + int(a)
                char = cells.text[start + int(a) : start + int(b)]
                sides = cells.grid.box(line, float(at[column]), float(at[start - begin + int(b)]))
                word = str(index)
                rows.append((layout, stimulus, word, index, char, line, column, str(number)))
                box_rows.append((word, 0, line, sides))
    return finish(rows, ("column", "of_word"), box_table(layout, box_rows), log)
