"""Doubts about a person's own tables: near names, rows put in twice, ids against positions."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Mapping

import numpy as np
import pandas as pd

from gazeattn.columns import Column
from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.reading.areas import place
from gazeattn.runs import factorize_runs
from gazeattn.tables import FIXATIONS, GENERATED, SIDES

NEAR = 0.8  # likeness of names; "offset" is no "onset", "direction" no "duration"
SHORT = 4  # shorter names than this many letters and one must be equal but for case and unit
COMPARABLE = 10  # fewer fixations with an id and a place say nothing about the whole table
IDS = ("participant", "trial", "stimulus")


def bare_name(name: object) -> str:
    """Return a column name in small letters without a unit in brackets at its end."""
    text = re.sub(r"\s*[\[(][^\])]*[\])]\s*$", "", str(name))
    return re.sub(r"[\s\-.]+", "_", text.strip().casefold())


def near_names(wanted: str, names: list[str]) -> list[str]:
    """Return the names that look like a misspelt `wanted`, the most alike first."""
    likeness = {}
    for name in names:
        bare = bare_name(name)
        ratio = difflib.SequenceMatcher(None, bare, wanted).ratio()
        if bare == wanted or (len(wanted) > SHORT and ratio >= NEAR):
            likeness[name] = ratio
    return sorted(likeness, key=lambda n: -likeness[n])


def near_columns(
    frame: pd.DataFrame,
    schema: Mapping[str, Column],
    columns: Mapping[str, object],
    lost: LossLog,
    *,
    source: str,
    step: str,
) -> None:
    """Look for misspelt optional columns; a misspelt ``duration`` of fixations raises.

    Parameters
    ----------
    frame
        The table, with our column names.
    schema
    columns
        The column map. A name that it maps to nothing (None) is not looked for.
    lost
        Gets a note for each column that may be one of ours, and the fixations without times.

    Raises
    ------
    DataError
        There is no ``duration``, but a column whose name is near.
    """
    shown = [str(c) for c in frame if c != "trial_label"]
    others = [c for c in shown if c not in schema]
    left_out = {ours for ours, theirs in columns.items() if theirs is None}
    for ours, spec in schema.items():
        needed = spec.required and ours not in GENERATED  # its own check asks for it
        if needed or ours in frame or ours in left_out or ours == "off_screen":
            continue
        near = near_names(ours, others)
        if near and ours == "duration" and step == "fixations":
            raise DataError(
                f"column 'duration' is not there, but {near[0]!r} is",
                source=source,
                expected="duration",
                found=", ".join(shown),
                hint=f"Did you mean {near[0]!r}? Say so with the column map: "
                f"\"dataset.columns.fixations.duration='{near[0]}'\" on the command line (=null "
                "if it is something else)",
            )
        lost.add(
            step,
            "note",
            f"no column {ours!r}, but one with a name near it: not used unless the column map "
            "names it",
            len(near),
            "columns",
            near,
        )
    if step == "fixations" and "duration" not in frame:
        may_be = [c for c in others if {"duration", "dur"} & set(re.split(r"[\W_]+", c.lower()))]
        if "duration" in left_out:
            may_be = []
        lost.add(
            step,
            "undefined",
            "no duration column: time measures are undefined"
            + (f" (may it be {may_be[0]!r}?)" if may_be else ""),
            len(frame),
            "fixations",
        )


def no_row_twice(f: pd.DataFrame, *, source: str, first_row: int) -> None:
    """Raise where fixations with an onset are equal in all columns that we know.

    Rows without a position are left to the other checks. Two eyes differ in ``eye``, ``x`` or
    ``y``, and rows with an ``index`` differ in it.
    """
    if not {"trial", "onset"} <= set(f) or "index" in f or not len(f):
        return
    onset = f["onset"].to_numpy(dtype=np.float64, na_value=np.nan)
    codes, _ = factorize_runs(f["trial"])
    heads = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    rising = (onset[1:] > onset[:-1]) | (codes[1:] != codes[:-1])
    if rising.all() and len(np.unique(codes[heads])) == len(heads):
        return  # the usual table needs no closer look
    at_once = pd.DataFrame({"trial": codes, "onset": onset}).duplicated(keep=False).to_numpy()
    placed = np.zeros(len(f), dtype=bool)
    if {"x", "y"} <= set(f):
        placed |= (f["x"].notna() & f["y"].notna()).to_numpy()
    if "word" in f:
        placed |= f["word"].notna().to_numpy()
    rows = np.flatnonzero(at_once & placed & ~np.isnan(onset))
    some = f.iloc[rows][[c for c in f if c in FIXATIONS]]
    again = some.duplicated().to_numpy()
    if not again.any():
        return
    row = int(again.argmax())
    group = some.groupby(list(some), dropna=False, sort=False).ngroup().to_numpy()
    before = int((group == group[row]).argmax())
    at = f.index.to_numpy()[rows]
    raise DataError(
        "the same fixation stands twice: rows are equal in all columns that are known",
        source=source,
        row=int(at[row]) + first_row,
        expected="one row per fixation",
        found=f"{int(again.sum())} such rows; the first repeats row {int(at[before]) + first_row}",
        hint="Was a file put together twice? Take the repeated rows out",
    )


def note_repeats(f: pd.DataFrame, lost: LossLog) -> None:
    """Note trials whose second half repeats the first in all columns that we know.

    Parameters
    ----------
    f
        Checked fixations, trial by trial.
    lost
        Gets the note; trials of fewer than six fixations are not looked at.
    """
    starts = np.flatnonzero(f["index"].to_numpy() == 0)
    sizes = np.diff(np.r_[starts, len(f)])
    at = np.flatnonzero((sizes % 2 == 0) & (sizes >= 6))
    columns = [c for c in ("duration", "x", "word", "y") if c in f]
    columns += [str(c) for c in f if c in FIXATIONS and c not in {*columns, "index", *IDS}]
    for column in columns:  # nearly all trials are out after the first
        if not len(at):
            return
        half = sizes[at] // 2
        begins = np.cumsum(half) - half
        first = np.arange(half.sum()) + np.repeat(starts[at] - begins, half)
        codes, _ = pd.factorize(f[column].iloc[np.r_[first, first + np.repeat(half, half)]])
        same = codes[: len(first)] == codes[len(first) :]
        at = at[np.logical_and.reduceat(same, begins)]
    lost.add(
        "fixations",
        "note",
        "the second half of the trial repeats the first: were rows put in twice?",
        len(at),
        "trials",
        f["trial"].iloc[starts[at]],
    )


def compare_places(
    f: pd.DataFrame, w: pd.DataFrame, t: pd.DataFrame, lost: LossLog, *, source: str
) -> None:
    """Compare the word ids of fixations with the boxes that their x and y lie in.

    Raises
    ------
    DataError
        Of ten or more fixations that have both, fewer than half agree.
    """
    if not ({"x", "y", "word"} <= set(f) and set(SIDES) <= set(w)):
        return
    if not w["left"].notna().any() or not f["word"].notna().any():
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come again, where words are used
        by_id = place(f, w, t).word
        by_box = place(f.drop(columns="word"), w, t).word
    both = (by_id >= 0) & (by_box >= 0)
    n, step = int(both.sum()), (by_id - by_box)[both]
    if not n:
        return
    share = float((step == 0).mean())
    if n >= COMPARABLE and share < 0.5:
        shifts = {k: float((step == k).mean()) for k in (1, -1)}
        best = max(shifts, key=lambda k: shifts[k])
        shifted = (
            f"; ids of the word {'before' if best == 1 else 'after'} (a shift of {-best:+d}) "
            f"agree with {shifts[best]:.0%}"
            if shifts[best] > max(share, 0.5)
            else ""
        )
        raise DataError(
            "the word ids of the fixations contradict their x and y",
            source=source,
            expected="the word whose box holds x and y",
            found=f"{share:.0%} of {n} fixations agree{shifted}",
            hint="Correct the ids or the boxes, or leave one out: "
            "dataset.columns.fixations.word=null goes by x and y, "
            "dataset.columns.fixations.x=null by the ids",
        )
    other = both.copy()
    other[both] = step != 0
    lost.add(
        "fixations",
        "note",
        "x and y lie in the box of another word than the id says: the id counts",
        int(other.sum()),
        "fixations",
        f["trial"][other].unique() if other.any() else (),
    )
