"""Fixations on units with one box or several: broken words, code tokens, objects, interest areas.

The rules are those of `gazeattn.reading.areas`: a box holds ``left <= x < right`` and
``top <= y < bottom``; of overlapping boxes the one with the nearest centre gets the fixation, of
equally near ones the earlier. Rows come out as they went in: as many, in the same order, with
the same row labels.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pandas as pd

from gazeattn.columns import as_number
from gazeattn.errors import DataError
from gazeattn.reading.areas import place
from gazeattn.stimuli.grid import BOX_COLUMNS, SIDES
from gazeattn.stimuli.ias import InterestAreas
from gazeattn.stimuli.images import points_of, rows_by_stimulus
from gazeattn.tables import LossLog, check_fixations, check_words

STEP = "areas"
ROW = "_row"
LOW_SHARE_REASON = "of the fixations lie on a word"
POINTS_AT_ONCE = 2_000_000  # pairs of points and boxes: bounds the memory of the nearest search


def expand_boxes(units: pd.DataFrame, boxes: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row per box of the units, as a word table.

    Parameters
    ----------
    units : DataFrame
        See `gazeattn.tables.WORDS`.
    boxes : DataFrame, optional
        ``layout, word, left, top, right, bottom`` (and ``line``): the boxes of units that have
        several. A unit without a row here keeps the sides in `units`.

    Returns
    -------
    DataFrame
        In the order of the units and of their boxes; ``word`` is an id of the box, ``unit`` the id
        of its unit, ``unit_index`` the position of the unit in its layout, ``part`` the number of
        the box within the unit.

    Raises
    ------
    DataError
        A box belongs to no unit.
    """
    units, _ = check_words(units)
    units = units.drop(columns=[c for c in ("part", "unit", "unit_index") if c in units])
    keys = pd.MultiIndex.from_frame(units[["layout", "word"]])
    table = units.assign(unit=units["word"], unit_index=units["index"], part=0)
    if boxes is not None and len(boxes):
        lacking = [c for c in BOX_COLUMNS if c not in (*boxes, "part", "line")]
        if lacking:
            raise DataError("the boxes lack a column", source="boxes", found=", ".join(lacking))
        many = boxes.astype({"layout": "str", "word": "str"}).reset_index(drop=True)
        at = keys.get_indexer(pd.MultiIndex.from_frame(many[["layout", "word"]]))
        if (at < 0).any():
            row = int((at < 0).argmax())
            raise DataError(
                "a box belongs to no unit",
                source="boxes",
                row=row,
                found=f"layout {many.layout[row]!r}, word {many.word[row]!r}",
            )
        more = table.iloc[at].reset_index(drop=True)
        more[SIDES] = many[SIDES].astype("float64")
        if "line" in many and many["line"].notna().any():
            more["line"] = many["line"].astype("Int64")
        alone = ~np.isin(np.arange(len(table)), at)
        order = np.argsort(np.r_[np.flatnonzero(alone), at], kind="stable")
        table = pd.concat([table[alone], more], ignore_index=True)
        table = table.iloc[order].reset_index(drop=True)
        table["part"] = table.groupby(["layout", "unit"], sort=False).cumcount()
    first = table["part"] == 0
    table["word"] = table["unit"].where(first, table["unit"] + "#" + table["part"].astype(str))
    if table.duplicated(["layout", "word"]).any():
        table["word"] = np.arange(len(table)).astype(str)
    table["index"] = table.groupby("layout", sort=False).cumcount()
    return check_words(table)[0]


def map_to_units(
    fixations: pd.DataFrame,
    units: pd.DataFrame,
    trials: pd.DataFrame,
    boxes: pd.DataFrame | None = None,
    *,
    column: str = "word",
    nearest: float | None = None,
) -> tuple[pd.DataFrame, LossLog]:
    """Put every fixation on a unit.

    Parameters
    ----------
    fixations, units, trials : DataFrame
        See `gazeattn.tables`; `x` and `y` decide, and a column of that name is overwritten.
    boxes : DataFrame, optional
        Boxes of units that have several; see `expand_boxes`.
    column
        Where the id goes: ``"word"`` for words and tokens, ``"area"`` for objects.
    nearest
        Fixations on no unit go to the nearest box of their layout if it is at most this many
        pixels away; of equally near ones, to the one with the nearest centre, then to the first.

    Returns
    -------
    DataFrame
        The rows as they came, with `column` (unit id as text, missing on none),
        ``<column>_index`` (from 0 in the reading order of the layout), ``<column>_part`` (number
        of the box within the unit) and, with `nearest`, ``<column>_distance`` (pixels to the box,
        0 inside it, missing where no unit was taken).
    LossLog

    Raises
    ------
    DataError
        The fixations have no `x` and `y`, or `nearest` is no length.
    """
    if not {"x", "y"} <= set(fixations):
        raise DataError(
            "fixations cannot be put on units",
            source="fixations",
            expected="columns x and y",
            found=", ".join(map(str, fixations.columns)),
        )
    if nearest is not None and not nearest >= 0:
        raise DataError("the largest distance must be 0 or more", found=nearest)
    expanded = expand_boxes(units, boxes)
    # Order and times play no part, so rows of other events may stand among the fixations.
    used = [c for c in ("participant", "trial", "stimulus", "x", "y") if c in fixations]
    rows, _ = check_fixations(fixations[used].assign(**{ROW: np.arange(len(fixations))}))
    log = LossLog()  # what the check counts, `place` counts again
    with warnings.catch_warnings():
        if column != "word":  # a text is there to be read; an object need not be looked at
            warnings.filterwarnings("ignore", message=f".*{re.escape(LOW_SHARE_REASON)}")
        placed = place(rows, expanded, trials)
    log.extend(_in_units(placed.log, expanded, column))
    found, table = placed.word.copy(), placed.fixations
    distance = np.where(found >= 0, 0.0, np.nan)
    if nearest is not None:
        in_trials = placed.trial >= 0
        first = np.append(placed.first_word, 0)[placed.trial]
        count = np.where(in_trials, np.append(placed.n_words, 0)[placed.trial], 0)
        off = np.flatnonzero(placed.known & (found < 0) & (count > 0))
        x, y = table["x"].to_numpy()[off], table["y"].to_numpy()[off]
        box, far = _nearest(placed.words[SIDES].to_numpy(), first[off], count[off], x, y)
        taken = (box >= 0) & (far <= nearest)
        found[off[taken]], distance[off[taken]] = box[taken], far[taken]
        log.add(
            STEP,
            "note",
            f"off every word, given to the nearest within {nearest:g} pixels",
            int(taken.sum()),
            "fixations",
        )
    back = np.empty(len(table), dtype=np.int64)
    back[table[ROW].to_numpy(dtype=np.int64)] = np.arange(len(table))
    found, distance = found[back], distance[back]
    words = placed.words
    out = fixations.copy()
    out[column] = pd.Series(words["unit"].array.take(found, allow_fill=True), index=out.index)
    for name, values in (("index", words["unit_index"]), ("part", words["part"])):
        taken_values = values.astype("Int64").array.take(found, allow_fill=True)
        out[f"{column}_{name}"] = pd.Series(taken_values, index=out.index)
    if nearest is not None:
        out[f"{column}_distance"] = distance
    return out, log


def _in_units(log: LossLog, expanded: pd.DataFrame, column: str) -> LossLog:
    """Return the log in the terms of units: of objects no doubt, boxes called boxes."""
    several = bool((expanded["part"] > 0).any())
    out = LossLog()
    for loss in log:
        if column != "word" and LOW_SHARE_REASON in loss.reason:
            continue
        unit = "boxes" if several and loss.unit == "words" else loss.unit
        examples = [loss.examples] if loss.examples else []
        out.add(loss.step, loss.kind, loss.reason, loss.count, unit, examples)
    return out


def _nearest(
    boxes: np.ndarray, first: np.ndarray, count: np.ndarray, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest of the boxes ``first .. first + count`` of each point, and how far it is.

    -1 and NaN where none of them has an area; `count` is at least 1.
    """
    found, distance = np.full(len(x), -1, dtype=np.int64), np.full(len(x), np.nan)
    steps = np.arange(0, int(count.sum()) + 1, POINTS_AT_ONCE)
    cuts = np.unique([*np.searchsorted(np.cumsum(count), steps), len(x)])
    for a, b in pairwise(cuts.tolist()):
        n = count[a:b]
        point = np.repeat(np.arange(a, b), n)
        box = np.arange(len(point)) - np.repeat(np.cumsum(n) - n, n) + np.repeat(first[a:b], n)
        left, top, right, bottom = boxes[box].T
        dx = np.maximum(np.maximum(left - x[point], x[point] - right), 0)
        dy = np.maximum(np.maximum(top - y[point], y[point] - bottom), 0)
        centre = (x[point] - (left + right) / 2) ** 2 + (y[point] - (top + bottom) / 2) ** 2
        far = np.where((left < right) & (top < bottom), np.hypot(dx, dy), np.inf)
        starts = np.cumsum(n) - n
        least = np.minimum.reduceat(far, starts)
        centre[far != np.repeat(least, n)] = np.inf
        tied = centre == np.repeat(np.minimum.reduceat(centre, starts), n)
        first_box = np.minimum.reduceat(np.where(tied, box, len(boxes)), starts)
        some = np.isfinite(least)
        found[a:b][some], distance[a:b][some] = first_box[some], least[some]
    return found, distance


def map_to_interest_areas(
    fixations: pd.DataFrame,
    areas: Mapping[str, InterestAreas],
    *,
    column: str = "area",
    time: str | None = None,
    overlap: str = "nearest",
) -> tuple[pd.DataFrame, LossLog]:
    """Put every fixation on an interest area of its stimulus: rectangles, ellipses, outlines.

    Parameters
    ----------
    fixations
        With ``stimulus``, ``x`` and ``y``, in the pixels of the areas.
    areas
        Of each stimulus; see `gazeattn.stimuli.ias.read_ias`.
    column
        Where the id goes.
    time
        Column with ms after the message that names the file, for areas with a time.
    overlap
        ``"nearest"`` centre, or ``"first"`` of the file as Data Viewer reports it.

    Returns
    -------
    DataFrame
        The rows as they came, with `column` and ``<column>_index``.
    LossLog
    """
    x, y = points_of(fixations)
    at = None
    if time is not None:
        if time not in fixations:
            raise DataError("there is no such column", source="fixations", found=repr(time))
        at = as_number(fixations[time], time, "fixations").to_numpy()
    known = ~(np.isnan(x) | np.isnan(y))
    ids = np.full(len(fixations), None, dtype=object)
    index = np.full(len(fixations), -1, dtype=np.int64)
    several, without = 0, np.ones(len(fixations), dtype=bool)
    for stimulus, rows in rows_by_stimulus(fixations).items():
        if stimulus not in areas:
            continue
        here = areas[stimulus]
        without[rows] = False
        found, many = here.find(
            x[rows],
            y[rows],
            None if at is None else at[rows],
            overlap=overlap,  # type: ignore[arg-type]
        )
        ids[rows] = np.array([*here.words["word"], None], dtype=object)[found]
        index[rows], several = found, several + many
    out = fixations.copy()
    out[column] = pd.Series(pd.array(ids, dtype="str"), index=out.index)
    out[f"{column}_index"] = pd.Series(pd.arrays.IntegerArray(index, index < 0), index=out.index)
    log = LossLog()
    which = "nearest centre" if overlap == "nearest" else "first of the file"
    log.add(
        STEP, "undefined", "no areas are known for their stimulus", int(without.sum()), "fixations"
    )
    log.add(STEP, "undefined", "without a position", int((~known & ~without).sum()), "fixations")
    off = known & ~without & (index < 0)
    log.add(STEP, "note", "off every area", int(off.sum()), "fixations")
    log.add(STEP, "note", f"in several areas: given to the {which}", several, "fixations")
    return out, log
