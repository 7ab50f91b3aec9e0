"""Source code as tokens, with their place in the syntax tree and on the screen.

Tokens are the leaves of the tree that tree-sitter builds (Brunsfeld, https://tree-sitter.github.io).
Lines, columns and character offsets count from 0, in code points, not in UTF-16 units.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.stimuli.grid import BOX_COLUMNS, SIDES, Grid, TextCells, box_table, first_boxes
from gazeattn.stimuli.syntax import Fault, Leaf, language_name, leaves_of, parse
from gazeattn.tables import LossLog

STEP = "tokens"
ROLES = ("identifier", "keyword", "literal", "operator", "punctuation", "comment", "string")

Split = Literal["whole", "words"]
Names = Literal["whole", "parts"]


@dataclass(frozen=True)
class Code:
    """A parsed piece of source code.

    Attributes
    ----------
    source : str
    language : str
    tokens : DataFrame
        See `tokenize`.
    boxes : DataFrame
        One row per box: ``layout, word, part, line, left, top, right, bottom``; empty without a
        grid. A token over several lines has several boxes.
    faults : DataFrame
        One row per place that the parser could not read: ``fault`` (``error``: text that does not
        fit, ``missing``: a token that would be needed, with no width), ``kind, line, column,
        start, end, text, path``.
    log : LossLog
    """

    source: str
    language: str
    tokens: pd.DataFrame
    boxes: pd.DataFrame
    faults: pd.DataFrame
    log: LossLog


def tokenize(
    source: str | bytes,
    language: str,
    *,
    stimulus: str = "code",
    layout: str | None = None,
    grid: Grid | None = None,
    strings: Split = "whole",
    comments: Split = "whole",
    identifiers: Names = "whole",
    encoding: str = "utf-8",
) -> pd.DataFrame:
    """Return the tokens of source code; `parse_code` gives their boxes and the faults as well.

    Parameters
    ----------
    source
    language
        ``python``, ``java``, ``c`` or ``cpp``.
    stimulus, layout
        Ids; the layout is the stimulus unless given.
    grid
        Where the code stands; without it no token has a box.
    strings, comments
        ``"whole"`` keeps each as one token (a string that holds code in braces is cut around
        that code); ``"words"`` cuts them at white space.
    identifiers
        ``"parts"`` cuts names at capitals, digits and underscores, as in ``read|Line`` and
        ``read_|line``; an underscore belongs to the part before it.
    encoding
        Of bytes.

    Returns
    -------
    DataFrame
        The columns of `gazeattn.tables.WORDS`, with ``word`` the number of the row as text, and

        - ``column, end_line, end_column``: in code points;
        - ``start, end``: offsets in code points; ``source[start:end]`` is the text;
        - ``start_byte, end_byte``: offsets in the UTF-8 form of the source;
        - ``kind``: node type; ``parent``: that of the node above; ``path``: types from the root;
        - ``role``: see `ROLES`; ``identifier``: whether it is a name;
        - ``token, part``: number of the token in the tree, and of the piece of it;
        - ``error``: it lies in text that the parser could not read;
        - ``n_boxes``: how many boxes it has; the sides are those of the first.

        What stands between the tokens is white space (and a byte-order mark, if there is one), so
        tokens and gaps together are the source. Tokens that the parser only misses are no rows.

    Raises
    ------
    UnknownNameError
        The language is not known.
    DataError
        The bytes or the text cannot be read in the encoding, or there is no token.
    """
    return parse_code(
        source,
        language,
        stimulus=stimulus,
        layout=layout,
        grid=grid,
        strings=strings,
        comments=comments,
        identifiers=identifiers,
        encoding=encoding,
    ).tokens


def parse_code(
    source: str | bytes,
    language: str,
    *,
    stimulus: str = "code",
    layout: str | None = None,
    grid: Grid | None = None,
    strings: Split = "whole",
    comments: Split = "whole",
    identifiers: Names = "whole",
    encoding: str = "utf-8",
) -> Code:
    """Parse source code; parameters and errors are those of `tokenize`."""
    for name, value, allowed in (
        ("strings", strings, ("whole", "words")),
        ("comments", comments, ("whole", "words")),
        ("identifiers", identifiers, ("whole", "parts")),
    ):
        if value not in allowed:
            raise DataError(
                f"unknown way to cut {name}", expected=" or ".join(allowed), found=value
            )
    language = language_name(language)
    text, data = _both(source, encoding, stimulus)
    leaves, faults = leaves_of(parse(data, language), data)
    if not leaves:
        raise DataError("the source code holds no token", source=stimulus, found=repr(text[:40]))
    layout = stimulus if layout is None else layout
    offset = _code_points(data)
    pieces = list(_pieces(leaves, text, offset, strings, comments, identifiers))
    cells = TextCells(text, grid or Grid(1.0, 1.0))
    tokens = _table(pieces, cells, layout, stimulus)
    starts = _byte_offsets(text)
    tokens["start_byte"] = starts[tokens["start"].to_numpy()]
    tokens["end_byte"] = starts[tokens["end"].to_numpy()]
    log = LossLog()
    boxes = box_table(layout, [])
    if grid is not None:
        boxes = _boxes(tokens, cells, layout)
    tokens = first_boxes(tokens, boxes)[COLUMNS]
    fault_table = _fault_table(faults, text, offset, cells)
    _count(tokens, fault_table, log, placed=grid is not None)
    return Code(text, language, tokens, boxes, fault_table, log)


COLUMNS = [
    *("layout", "stimulus", "word", "index", "text", "line", *SIDES),
    *("column", "end_line", "end_column", "start", "end", "start_byte", "end_byte"),
    *("kind", "role", "identifier", "parent", "path", "token", "part", "error", "n_boxes"),
]


def _both(source: str | bytes, encoding: str, stimulus: str) -> tuple[str, bytes]:
    """Return the source as text and as UTF-8."""
    try:
        text = source if isinstance(source, str) else bytes(source).decode(encoding)
        return text, text.encode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"the source code is not {encoding}",
            source=stimulus,
            found=f"{error.object[error.start : error.start + 4]!r} at byte {error.start}",
            hint="Give its encoding",
        ) from error
    except UnicodeEncodeError as error:
        raise DataError(
            "the source code holds half a character (a lone surrogate)",
            source=stimulus,
            found=f"{error.object[error.start]!r} at character {error.start}",
        ) from error
    except LookupError as error:
        raise DataError(f"unknown encoding {encoding!r}", source=stimulus) from error


def _code_points(data: bytes) -> np.ndarray:
    """Return the number of the code point that begins at each byte; one more than bytes."""
    heads = (np.frombuffer(data, dtype=np.uint8) & 0xC0) != 0x80
    return np.r_[0, np.cumsum(heads)][: len(data) + 1]


def _byte_offsets(text: str) -> np.ndarray:
    """Return the byte at which each code point begins in UTF-8, and the end of the last."""
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    sizes = 1 + (points >= 0x80) + (points >= 0x800) + (points >= 0x10000)
    return np.r_[0, np.cumsum(sizes, dtype=np.int64)]


class _Piece(NamedTuple):
    start: int
    end: int
    token: int
    part: int
    leaf: Leaf


def _pieces(
    leaves: list[Leaf],
    text: str,
    offset: np.ndarray,
    strings: str,
    comments: str,
    identifiers: str,
) -> Iterator[_Piece]:
    """Yield the rows of the table: whole tokens, or pieces of them."""
    for number, leaf in enumerate(leaves):
        start, end = int(offset[leaf.start]), int(offset[leaf.end])
        spans = [(0, end - start)]
        cut_words = (leaf.role == "string" and strings == "words") or (
            leaf.role == "comment" and comments == "words"
        )
        if cut_words:
            spans = [m.span() for m in re.finditer(r"\S+", text[start:end])]
        elif leaf.role == "identifier" and identifiers == "parts":
            spans = identifier_parts(text[start:end])
        for part, (a, b) in enumerate(spans):
            yield _Piece(start + a, start + b, number, part, leaf)


def identifier_parts(name: str) -> list[tuple[int, int]]:
    """Return (start, end) of the parts of a name; together they cover it.

    A part ends before a capital that follows a small letter or a digit, before the last of
    several capitals that a small letter follows (``HTTP|Server``), between letters and digits,
    and after underscores. Underscores at the beginning belong to the first part.
    """
    cuts = [0]
    body = len(name) - len(name.lstrip("_"))
    for at in range(body + 1, len(name)):
        before, here = name[at - 1], name[at]
        after = name[at + 1] if at + 1 < len(name) else ""
        if here == "_":
            continue
        if (
            before == "_"
            or (here.isupper() and (before.islower() or before.isdigit()))
            or (here.isupper() and before.isupper() and after.islower())
            or (here.isdigit() and before.isalpha())
            or (here.isalpha() and not here.isupper() and before.isdigit())
        ):
            cuts.append(at)
    return list(zip(cuts, [*cuts[1:], len(name)], strict=True))


def _table(pieces: list[_Piece], cells: TextCells, layout: str, stimulus: str) -> pd.DataFrame:
    starts = np.array([p.start for p in pieces], dtype=np.int64)
    ends = np.array([p.end for p in pieces], dtype=np.int64)
    line_starts = np.array([a for a, _ in cells.lines], dtype=np.int64)
    line = np.searchsorted(line_starts, starts, side="right") - 1
    end_line = np.searchsorted(line_starts, ends - 1, side="right") - 1
    index = np.arange(len(pieces))
    leaves = [p.leaf for p in pieces]
    table = pd.DataFrame(
        {
            "layout": layout,
            "stimulus": stimulus,
            "word": index.astype(str),
            "index": index,
            "text": [cells.text[p.start : p.end] for p in pieces],
            "line": line,
            "column": starts - line_starts[line],
            "end_line": end_line,
            "end_column": ends - line_starts[end_line],
            "start": starts,
            "end": ends,
            "kind": [x.kind for x in leaves],
            "role": [x.role for x in leaves],
            "identifier": [x.role == "identifier" for x in leaves],
            "parent": [x.parent for x in leaves],
            "path": [x.path for x in leaves],
            "token": [p.token for p in pieces],
            "part": [p.part for p in pieces],
            "error": [x.error for x in leaves],
        }
    )
    texts = ("layout", "stimulus", "word", "text", "kind", "role", "parent", "path")
    return table.astype(dict.fromkeys(texts, "str") | {"line": "Int64"})


def _boxes(tokens: pd.DataFrame, cells: TextCells, layout: str) -> pd.DataFrame:
    spans = zip(tokens["word"], tokens["start"], tokens["end"], strict=True)
    return box_table(
        layout,
        [
            (word, part, line, sides)
            for word, start, end in spans
            for part, (line, *sides) in enumerate(cells.boxes(start, end))
        ],
    )


def _fault_table(
    faults: list[Fault], text: str, offset: np.ndarray, cells: TextCells
) -> pd.DataFrame:
    rows = []
    for fault in faults:
        start, end = int(offset[fault.start]), int(offset[fault.end])
        line = cells.line_of(start)
        column = start - cells.lines[line][0]
        rows.append(
            (fault.fault, fault.kind, line, column, start, end, text[start:end], fault.path)
        )
    names = ["fault", "kind", "line", "column", "start", "end", "text", "path"]
    return pd.DataFrame(rows, columns=names)


def _count(tokens: pd.DataFrame, faults: pd.DataFrame, log: LossLog, *, placed: bool) -> None:
    for fault, reason in (
        ("error", "text that does not fit the grammar: kept, marked as error"),
        ("missing", "a token that the grammar needs is not there: no row"),
    ):
        of_kind = faults[faults["fault"] == fault]
        log.add(STEP, "note", reason, len(of_kind), "places", of_kind["line"].map("line {}".format))
    if placed:
        nowhere = tokens["n_boxes"] == 0
        log.add(
            STEP,
            "undefined",
            "not on screen: no box",
            int(nowhere.sum()),
            "tokens",
            tokens["text"][nowhere],
        )


__all__ = ["BOX_COLUMNS", "ROLES", "Code", "identifier_parts", "parse_code", "tokenize"]
