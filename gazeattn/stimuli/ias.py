"""Interest areas of EyeLink Data Viewer (``.ias`` files): rectangles, ellipses, outlines.

A line is ``RECTANGLE id left top right bottom label``, ``ELLIPSE`` with the same fields, or
``FREEHAND id x,y x,y ... label``. A dynamic area begins with two numbers, which are start and end
in ms before the message that names the file: they are negative for what comes after it, as in
``-200 -450 RECTANGLE ...``. Lines that begin with ``#`` are comments.

Sides stand between blanks or tabs, or between commas (``10,20,30,40``). Sides with a decimal comma
(``10,5 20,5 30,5 40,5``) are read as such, with a note. A line that can be meant in both ways, and
a file with a decimal comma and a decimal point, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.stimuli.grid import SIDES, first_boxes
from gazeattn.tables import LossLog

STEP = "interest areas"
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
TIME = rf"(?:{NUMBER}|[-+]?\d+,\d+)"
LINE = re.compile(
    rf"(?:(?P<start>{TIME})\s+(?P<end>{TIME})\s+)?(?P<shape>[A-Za-z]+)\s+(?P<id>\S+)\s+(?P<rest>.*)"
)
FOUR = re.compile(rf"({NUMBER})[\s,]+({NUMBER})[\s,]+({NUMBER})[\s,]+({NUMBER})(?:\s+(.*))?$")
POINT = re.compile(rf"\s*({NUMBER})\s*,\s*({NUMBER})(?=\s|$)")
WITH_COMMA = re.compile(r"[-+]?\d+(?:,\d+)?")
"""A whole number, or one with a decimal comma."""
POINT_COMMAS = re.compile(r"\s*([-+]?\d+,\d+)\s*[,;]\s*([-+]?\d+,\d+)(?=\s|$)")
JOINED = re.compile(r"[-+]?[\d.]+(?:[,;][-+]?[\d.]+)+(?=\s|$)")
"""Numbers joined by commas, where a label should begin."""
SHAPES = ("rectangle", "ellipse", "freehand")
ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")


@dataclass(frozen=True)
class InterestAreas:
    """The areas of one file.

    Attributes
    ----------
    words : DataFrame
        One row per id in the order of the file, with the columns of `gazeattn.tables.WORDS` (text
        is the label) and `n_boxes`; the sides are those of the first line of that id. Several
        lines of one id are one area with several boxes, as Data Viewer writes a word that goes
        over two lines; both that and other labels in its later lines are counted in `log`.
    boxes : DataFrame
        One row per line: ``layout, word, part, line`` (missing), ``text`` (the label of this
        line), the sides around the shape,
        ``shape`` and ``start, end`` in ms after the message (missing for areas without a time;
        both ends are included), ``row`` of the file.
    outlines : mapping of int to ndarray, shape (n_points, 2)
        Corners of each freehand shape, by the row number of `boxes`.
    log : LossLog
    """

    words: pd.DataFrame
    boxes: pd.DataFrame
    outlines: Mapping[int, np.ndarray]
    log: LossLog

    @property
    def plain(self) -> bool:
        """Whether all areas are rectangles without a time."""
        return bool((self.boxes["shape"] == "rectangle").all() and self.boxes["start"].isna().all())

    def find(
        self,
        x: np.ndarray,
        y: np.ndarray,
        time: np.ndarray | None = None,
        *,
        overlap: Literal["nearest", "first"] = "nearest",
    ) -> tuple[np.ndarray, int]:
        """Return the area of each point.

        A rectangle holds ``left <= x < right`` and ``top <= y < bottom``, an ellipse and an
        outline what lies inside them. Of several areas the one with the nearest centre (of the
        box around it) wins; of equally near ones, the first of the file. Data Viewer reports the
        first one of the file (CURRENT_FIX_INTEREST_AREA_ID): that is ``overlap="first"``.

        Parameters
        ----------
        x, y : ndarray, shape (n,)
            NaN lies in no area.
        time : ndarray, shape (n,), optional
            ms after the message that names the file.
        overlap

        Returns
        -------
        ndarray, shape (n,), int64
            Row of `words`, -1 where the point lies in none.
        int
            How many points lie in several areas.

        Raises
        ------
        DataError
            Some areas have a time and no time is given.
        """
        if overlap not in ("nearest", "first"):
            raise DataError("unknown overlap rule", expected="nearest or first", found=overlap)
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if time is None and self.boxes["start"].notna().any():
            raise DataError(
                "some areas are there for a part of the trial only",
                source=STEP,
                expected="the time of each point, in ms after the message that names the file",
            )
        at = np.full(len(x), np.nan) if time is None else np.asarray(time, dtype=np.float64)
        found = np.full(len(x), -1, dtype=np.int64)
        nearest = np.full(len(x), np.inf)
        areas = np.zeros(len(x), dtype=np.int64)
        unit = pd.Index(self.words["word"]).get_indexer(pd.Index(self.boxes["word"]))
        last = np.full(len(x), -1, dtype=np.int64)
        shapes = self.boxes["shape"].tolist()
        values = self.boxes[[*SIDES, "start", "end"]].to_numpy(dtype=np.float64)
        for row in np.argsort(unit, kind="stable"):  # over areas, not over points
            left, top, right, bottom, start, end = values[row]
            inside = _inside(shapes[row], x, y, (left, top, right, bottom), self.outlines.get(row))
            if not np.isnan(start):
                inside &= (start <= at) & (at <= end)
            areas += inside & (last != unit[row])
            last[inside] = unit[row]
            distance = np.zeros(len(x))
            if overlap == "nearest":
                distance = (x - (left + right) / 2) ** 2 + (y - (top + bottom) / 2) ** 2
            better = inside & (distance < nearest)
            found[better], nearest[better] = unit[row], distance[better]
        return found, int((areas > 1).sum())


def _inside(
    shape: str,
    x: np.ndarray,
    y: np.ndarray,
    sides: tuple[float, float, float, float],
    outline: np.ndarray | None,
) -> np.ndarray:
    left, top, right, bottom = sides
    if outline is not None:
        return in_outline(x, y, outline)
    if shape == "rectangle":
        return (left <= x) & (x < right) & (top <= y) & (y < bottom)
    if right <= left or bottom <= top:
        return np.zeros(len(x), dtype=bool)
    across = (2 * x - left - right) / (right - left)
    down = (2 * y - top - bottom) / (bottom - top)
    return across**2 + down**2 <= 1


def in_outline(x: np.ndarray, y: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Tell which points lie in a closed outline, by the even-odd rule.

    Left and top edges belong to it, right and bottom edges do not, as with boxes.

    Parameters
    ----------
    x, y : ndarray, shape (n,)
    corners : ndarray, shape (n_corners, 2)
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    inside = np.zeros(len(x), dtype=bool)
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        if ay == by:
            continue
        spans = (ay <= y) != (by <= y)
        crossing = ax + (y - ay) * (bx - ax) / (by - ay)
        inside ^= spans & (x < crossing)
    return inside


def read_ias(
    source: str | Path | bytes,
    *,
    stimulus: str | None = None,
    layout: str | None = None,
    encoding: str | None = None,
) -> InterestAreas:
    """Read an interest-area file.

    Parameters
    ----------
    source
        Path, or the content as bytes.
    stimulus, layout
        Ids; the stimulus is the name of the file without its ending unless given, the layout is
        the stimulus.
    encoding
        Unless given: UTF-16 with a byte-order mark, else UTF-8 (with or without one), else
        Windows-1252, and that is noted.

    Raises
    ------
    DataError
        A line is no area, a side is missing, an area ends before it begins, commas can be meant in
        two ways, or there is no area.
    """
    if isinstance(source, bytes):
        data, name = source, "interest areas"
    else:
        data, name = Path(source).read_bytes(), str(source)
        stimulus = Path(source).stem if stimulus is None else stimulus
    stimulus = "stimulus" if stimulus is None else stimulus
    layout = stimulus if layout is None else layout
    log = LossLog()
    records: list[tuple[object, ...]] = []
    outlines: dict[int, np.ndarray] = {}
    marks: dict[int, str] = {}
    for number, line in enumerate(_decoded(data, encoding, name, log).splitlines(), start=1):
        line = line.strip().lstrip("\ufeff")
        if not line or line.startswith("#"):
            continue
        record, outline, marks[number] = _area(line, number, name)
        if outline is not None:
            outlines[len(records)] = outline
        records.append(record)
    if not records:
        raise DataError("the file holds no interest area", source=name, expected="RECTANGLE ...")
    _check_marks(marks, log, name)
    names = ["word", "text", "shape", *SIDES, "start", "end", "row"]
    boxes = pd.DataFrame(records, columns=names).astype(
        {"word": "str", "text": "str", "shape": "str"}
    )
    boxes.insert(0, "layout", layout)
    boxes.insert(2, "part", boxes.groupby("word", sort=False).cumcount())
    boxes.insert(3, "line", pd.Series(pd.NA, index=boxes.index, dtype="Int64"))
    return InterestAreas(_units(boxes, stimulus, log, name), boxes, outlines, log)


def _decoded(data: bytes, encoding: str | None, name: str, log: LossLog) -> str:
    if encoding is None and data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    for guess in (encoding,) if encoding else ENCODINGS:
        try:
            text = data.decode(guess)
        except UnicodeDecodeError as error:
            if encoding:
                raise DataError(
                    f"the file is not {encoding}",
                    source=name,
                    found=f"{error.object[error.start : error.start + 4]!r} at byte {error.start}",
                    hint="Give its encoding",
                ) from error
            continue
        except LookupError as error:
            raise DataError(f"unknown encoding {encoding!r}", source=name) from error
        if guess != ENCODINGS[0] and not encoding:
            log.add(STEP, "note", f"not UTF-8: read as {guess}", 1, "files", [name])
        return text
    raise AssertionError("latin-1 reads every byte")


def _area(line: str, number: int, name: str) -> tuple[tuple[object, ...], np.ndarray | None, str]:
    """Return (id, label, shape, sides, start, end, row) of a line, its outline and marks."""

    def fault(message: str, expected: str) -> DataError:
        return DataError(message, source=name, row=number, expected=expected, found=repr(line[:80]))

    match = LINE.fullmatch(line)
    shape = match["shape"].lower() if match else ""
    if match is None or shape not in SHAPES:
        raise fault(
            "a line is no interest area",
            "RECTANGLE or ELLIPSE id left top right bottom label, or FREEHAND id x,y x,y x,y label",
        )
    start = end = np.nan
    if match["start"] is not None:
        start, end = 0.0 - _number(match["start"]), 0.0 - _number(match["end"])
        if end < start:
            raise fault("an interest area ends before it begins", "start, then end, both negative")
    outline = None
    if shape == "freehand":
        points, label, mark = _points(match["rest"])
        if len(points) < 3:
            raise fault("an outline needs three corners", "FREEHAND id x,y x,y x,y label")
        if JOINED.match(label.lstrip()):
            raise fault(TWO_WAYS, "x,y between blanks, of decimal commas x,x,y,y")
        outline = np.array(points)
        sides = (*outline.min(axis=0), *outline.max(axis=0))
    else:
        four = _four(match["rest"])
        if four is None:
            raise fault("an interest area lacks some of its sides", "left top right bottom")
        sides, label, mark = four
        if mark == TWO_WAYS:
            raise fault(TWO_WAYS, "left top right bottom between blanks or tabs")
        if sides[2] < sides[0] or sides[3] < sides[1]:
            raise fault("an interest area ends before it begins", "left <= right and top <= bottom")
    if not np.isfinite(sides).all():
        raise fault("a side of an interest area is no finite number", "pixels")
    label = label.strip()
    return (match["id"], label or match["id"], shape, *sides, start, end, number), outline, mark


TWO_WAYS = "the commas can be decimal commas or stand between the numbers"


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _points(rest: str) -> tuple[list[tuple[float, float]], str, str]:
    """Return the corners of an outline, the label, and the decimal mark (empty: none was seen)."""
    points, at, marks = [], 0, set()
    while True:
        point = POINT.match(rest, at) or POINT_COMMAS.match(rest, at)
        if point is None:
            break
        marks |= {m for m in ".," if m in point[1] + point[2]}
        points.append((_number(point[1]), _number(point[2])))
        at = point.end()
    return points, rest[at:], "".join(sorted(marks))


def _four(rest: str) -> tuple[tuple[float, ...], str, str] | None:
    """Return the four sides, the label, and how numbers are written.

    That is the marks ``.`` and ``,`` of decimals, ``|`` where commas stand between the sides, or
    `TWO_WAYS`. None where there are no four sides.
    """
    cells = rest.split(None, 4)
    if len(cells) >= 4 and all(WITH_COMMA.fullmatch(c) for c in cells[:4]):
        commas = any("," in c for c in cells[:4])
        label = cells[4] if len(cells) > 4 else ""
        return tuple(map(_number, cells[:4])), label, "," if commas else ""
    four = FOUR.match(rest)
    if four is None:
        return None
    between = [rest[four.end(k) : four.start(k + 1)] for k in (1, 2, 3)]
    sides, label = tuple(float(four[k]) for k in range(1, 5)), four[5] or ""
    mark = "." if "." in "".join(four.group(1, 2, 3, 4)) else ""
    if not any("," in b for b in between):
        return sides, label, mark
    if not all("," in b for b in between) and re.match(r"[-+]?[\d.,]*\d(?=[\s,;]|$)", label):
        return sides, label, TWO_WAYS
    return sides, label, mark + "|"


def _check_marks(marks: Mapping[int, str], log: LossLog, name: str) -> None:
    """Note decimal commas; raise where a file writes its numbers in two ways."""
    commas = [row for row, mark in marks.items() if "," in mark]
    others = [row for row, mark in marks.items() if set(mark) & set(".|")]
    if commas and others:
        raise DataError(
            "numbers with a decimal comma stand beside numbers with a decimal point, or beside "
            "commas between the numbers",
            source=name,
            row=others[0],
            expected=f"one way, as in row {commas[0]}",
        )
    log.add(STEP, "note", "decimal commas read", len(commas), "lines", commas)


def _units(boxes: pd.DataFrame, stimulus: str, log: LossLog, name: str) -> pd.DataFrame:
    """Return one row per id; an id that is there twice is one area with several boxes."""
    words = boxes.drop_duplicates("word")[["layout", "word", "text", "line"]]
    words = words.reset_index(drop=True)
    words.insert(1, "stimulus", stimulus)
    words.insert(3, "index", np.arange(len(words)))
    words = words.astype({"layout": "str", "stimulus": "str"})
    several = boxes.duplicated("word") & boxes["start"].isna()
    log.add(
        STEP,
        "note",
        "an id stands in several lines: one area with several shapes",
        int(several.sum()),
        "lines",
        boxes["word"][several],
    )
    other = boxes["text"] != boxes["word"].map(words.set_index("word")["text"])
    log.add(
        STEP,
        "note",
        "an id has another label further down: the first one is kept",
        int(other.sum()),
        "lines",
        boxes["word"][other],
    )
    words = first_boxes(words, boxes)
    order = ["layout", "stimulus", "word", "index", "text", "line", *SIDES, "n_boxes"]
    return words[order]
