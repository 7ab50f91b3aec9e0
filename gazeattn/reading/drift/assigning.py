"""Lines for a whole table of fixations, with the recorded position kept beside."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.columns import as_number
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.reading.drift._lines import nearest_line
from gazeattn.reading.drift._methods import MEMBERS, METHODS, apply
from gazeattn.tables import SIDES, LossLog, check_fixations, check_trials, check_words

STEP = "drift"
STALE = ("line", "word", "word_index", "area")
"""Columns that hold for the recorded position; they are kept as ``<name>_recorded``."""


@dataclass(frozen=True)
class Layout:
    """The lines of one layout, from the top.

    Attributes
    ----------
    number : ndarray, shape (n_lines,), int64
        Line numbers of the word table.
    y : ndarray, shape (n_lines,)
        Line centres in pixels.
    words : ndarray, shape (n_words, 2)
        Word centres in reading order, at the height of their line.
    """

    number: np.ndarray
    y: np.ndarray
    words: np.ndarray


def assign_lines(
    fixations: pd.DataFrame,
    words: pd.DataFrame,
    trials: pd.DataFrame,
    method: str = "slice",
    *,
    right_to_left: bool = False,
    **options: Any,
) -> tuple[pd.DataFrame, LossLog]:
    """Find the line of every fixation and put its y on the centre of that line.

    Parameters
    ----------
    fixations, words, trials : DataFrame
        See `gazeattn.tables`. Words need boxes. Their `line` gives the lines; where a layout has
        none, lines are worked out from the heights of the boxes.
    method
        ``attach``, ``chain``, ``cluster``, ``compare``, ``merge``, ``regress``, ``segment``,
        ``slice``, ``split``, ``stretch``, ``warp`` or ``vote``.
    right_to_left
        The text runs to the left.
    **options
        Options of the method, such as ``x_thresh``, or ``members`` and ``weights`` of a vote.

    Returns
    -------
    DataFrame
        The fixations, as many rows, sorted by trial and index, with `line` (number of the word
        table, missing where x or y is missing or the lines are not known), `y` (the centre of the
        line; where there is no line, as recorded), `y_recorded` and `line_method`. A table that
        was corrected before is corrected anew from its `y_recorded`. What the fixations say about
        line, word and area at the recorded place moves to ``line_recorded``, ``word_recorded``,
        ``word_index_recorded`` and ``area_recorded``, so that words are looked up anew.
    LossLog
        Fixations without a position or whose trial or lines are not known, trials without
        fixations or with fewer than lines, and how many fixations left the nearest line.

    Raises
    ------
    UnknownNameError
        No method, or no option of it, has that name.
    DataError
        Fixations have no x and y, words no boxes, or two lines of a layout lie at one height.
    """
    _check_options(method, options)
    log = LossLog()
    words, more = check_words(words)
    log.extend(more)
    trials, more = check_trials(trials)
    log.extend(more)
    fixations, more = check_fixations(fixations)
    log.extend(more)
    for columns, table, name in ((("x", "y"), fixations, "fixations"), (SIDES, words, "words")):
        lacking = [c for c in columns if c not in table]
        if lacking:
            raise DataError(
                "lines cannot be assigned",
                source=name,
                expected=f"columns {', '.join(columns)}",
                found=f"no column {', '.join(lacking)}",
            )
    table = _recorded(fixations, log)
    x = table["x"].to_numpy(dtype=np.float64, na_value=np.nan)
    y = table["y_recorded"].to_numpy(dtype=np.float64, na_value=np.nan)

    layouts = _layouts(words, trials, log)
    line, centre = _assign(table, x, y, trials, layouts, method, right_to_left, options, log)
    given = ~np.isnan(centre)
    table["line"] = pd.array(line, dtype="Int64")
    table.loc[~given, "line"] = pd.NA
    table["y"] = np.where(given, centre, y)
    table["line_method"] = _name(method, options)
    log.add(STEP, "note", "y put on the centre of the line", int(given.sum()), "fixations")
    return table, log


def _check_options(method: str, options: dict[str, Any]) -> None:
    if method not in METHODS:
        raise UnknownNameError("drift method", method, METHODS)
    for option in options:
        if option not in METHODS[method].options():
            raise UnknownNameError(f"option of {method}", option, METHODS[method].options())


def _name(method: str, options: dict[str, Any]) -> str:
    if method != "vote":
        return method
    return f"vote({'+'.join(options.get('members', MEMBERS))})"


def _recorded(fixations: pd.DataFrame, log: LossLog) -> pd.DataFrame:
    """Return the table with `y_recorded`, and what holds for that place out of the way."""
    table = fixations.copy()
    if "y_recorded" in table:
        log.add(STEP, "note", "corrected before: y_recorded is used", len(table), "fixations")
        table["y_recorded"] = as_number(table["y_recorded"], "y_recorded", "fixations")
        return table.drop(columns=[c for c in STALE if f"{c}_recorded" in table and c in table])
    for column in [c for c in STALE if c in table]:
        there = int(table[column].notna().sum())
        text = f"{column} at the recorded position kept as {column}_recorded"
        log.add(STEP, "note", text, there, "fixations")
        table = table.rename(columns={column: f"{column}_recorded"})
    table["y_recorded"] = table["y"]
    return table


def _layouts(words: pd.DataFrame, trials: pd.DataFrame, log: LossLog) -> dict[Hashable, Layout]:
    """Return the layouts of the trials; those without any usable word are left out."""
    words = words[words["layout"].isin(trials["layout"])]
    boxed = words[list(SIDES)].notna().all(axis=1)
    log.add(
        STEP,
        "undefined",
        "without a box: of no use for finding lines",
        int((~boxed).sum()),
        "words",
        words["word"][~boxed],
    )
    words = words[boxed]
    result: dict[Hashable, Layout] = {}
    for layout, group in words.groupby("layout", sort=False):
        line = group["line"] if "line" in group else pd.Series(pd.NA, index=group.index)
        y = ((group["top"] + group["bottom"]) / 2).to_numpy(dtype=np.float64)
        x = ((group["left"] + group["right"]) / 2).to_numpy(dtype=np.float64)
        known = line.notna().to_numpy()
        if known.any():
            text = "without a line: of no use for finding lines"
            log.add(STEP, "undefined", text, int((~known).sum()), "words", group["word"][~known])
            x, y = x[known], y[known]
            number = line[known].to_numpy(dtype=np.int64)
        else:
            height = (group["bottom"] - group["top"]).to_numpy(dtype=np.float64)
            number = _lines_of_boxes(y, height)
            text = "lines worked out from the heights of the word boxes"
            log.add(STEP, "note", text, 1, "layouts", [layout])
        result[layout] = _layout(number, x, y, layout)
    return result


def _lines_of_boxes(y: np.ndarray, height: np.ndarray) -> np.ndarray:
    """Return line numbers from the top; a line ends at a step above half the median height."""
    order = np.argsort(y, kind="stable")
    step = np.r_[0.0, np.diff(y[order])] > np.median(height) / 2
    number = np.empty(len(y), dtype=np.int64)
    number[order] = np.cumsum(step)
    return number


def _layout(number: np.ndarray, x: np.ndarray, y: np.ndarray, name: object) -> Layout:
    centre = pd.Series(y).groupby(number).median().sort_values(kind="stable")
    same = np.flatnonzero(np.diff(centre.to_numpy()) <= 0)
    if len(same):
        a, b = centre.index[same[0]], centre.index[same[0] + 1]
        raise DataError(
            "two lines lie at one height",
            source=f"words of layout {name!r}",
            expected="one column of text, each line below the one before",
            found=f"lines {a} and {b} at y {centre.iloc[same[0]]:g}",
            hint="Assign the columns of such a text one at a time, each as a layout of its own",
        )
    at = centre[number].to_numpy()
    return Layout(centre.index.to_numpy(dtype=np.int64), centre.to_numpy(), np.c_[x, at])


def _assign(
    table: pd.DataFrame,
    x: np.ndarray,
    y: np.ndarray,
    trials: pd.DataFrame,
    layouts: dict[Hashable, Layout],
    method: str,
    right_to_left: bool,
    options: dict[str, Any],
    log: LossLog,
) -> tuple[np.ndarray, np.ndarray]:
    """Return line number and centre of each fixation (centre NaN: no line), trial by trial."""
    line = np.zeros(len(table), dtype=np.int64)
    centre = np.full(len(table), np.nan)
    layout_of = dict(zip(trials["trial"], trials["layout"], strict=True))
    ids = table["trial"].to_numpy(dtype=object)
    edges = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    starts = np.r_[0, edges] if len(ids) else edges
    known = np.isfinite(x) & np.isfinite(y)
    for start, end in zip(starts, np.r_[starts[1:], len(ids)][: len(starts)], strict=True):
        rows, trial = slice(int(start), int(end)), ids[start]
        if trial not in layout_of:
            text = "their trial is not in the trial table: no line"
            log.add(STEP, "undefined", text, rows.stop - rows.start, "fixations", [trial])
            continue
        layout = layouts.get(layout_of[trial])
        if layout is None:
            text = "no lines are known for the trial's layout: no line"
            log.add(STEP, "undefined", text, rows.stop - rows.start, "fixations", [trial])
            continue
        n_known = int(known[rows].sum())
        text = "without x or y: no line"
        log.add(STEP, "undefined", text, rows.stop - rows.start - n_known, "fixations", [trial])
        if 0 < n_known < len(layout.y):
            log.add(STEP, "note", "fewer fixations than lines", 1, "trials", [trial])
        xy = np.c_[x[rows], y[rows]]
        found = apply(method, xy, layout.y, layout.words, right_to_left, **options)
        on = found >= 0
        line[rows] = np.where(on, layout.number[found], 0)
        centre[rows] = np.where(on, layout.y[found], np.nan)
        near = nearest_line(xy[on, 1], layout.y) if len(layout.y) > 1 else found[on]
        text = "not on the nearest line"
        log.add(STEP, "note", text, int((near != found[on]).sum()), "fixations", [trial])
    empty = ~trials["trial"].isin(set(ids))
    log.add(STEP, "note", "without fixations", int(empty.sum()), "trials", trials["trial"][empty])
    return line, centre
