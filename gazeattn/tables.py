"""The vocabulary: fixation, word and trial tables, checked once at the door.

Every check returns a new, sorted, typed table and a `LossLog` that counts what was dropped,
repaired or left undefined. Missing is missing (NaN or NA), never 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from gazeattn.columns import Column, cast, first_true, plain
from gazeattn.errors import DataError, suggest
from gazeattn.losses import Loss, LossKind, LossLog
from gazeattn.runs import factorize_runs, runs_of

__all__ = [
    "FIXATIONS",
    "MEASURES",
    "SIDES",
    "TRIALS",
    "WORDS",
    "Loss",
    "LossKind",
    "LossLog",
    "check_fixations",
    "check_trials",
    "check_words",
    "conform",
    "factorize_runs",
    "require_columns",
]

MEASURES = (
    "first_fixation_duration",
    "single_fixation_duration",
    "gaze_duration",
    "go_past_time",
    "total_reading_time",
    "fixation_count",
    "skip",
    "regression_in",
    "regression_out",
)
"""Names of the word measures, in the order of their columns."""

FIXATIONS: Mapping[str, Column] = {
    "participant": Column("text", "reader id", required=True, nullable=False),
    "trial": Column("text", "trial id", required=True, nullable=False),
    "stimulus": Column("text", "stimulus id", required=True, nullable=False),
    "index": Column("int", "order within the trial, from 0", required=True, nullable=False),
    "x": Column("float", "pixels from the left of the stimulus"),
    "y": Column("float", "pixels from the top of the stimulus"),
    "word": Column("text", "id of the fixated word, missing off text"),
    "onset": Column("float", "start in ms"),
    "duration": Column("float", "duration in ms, inclusive of the last sample"),
    "dataset": Column("text", "data set name"),
    "eye": Column("text", "left, right or both"),
    "line": Column("int", "text line, from 0"),
    "area": Column("text", "id of the fixated area"),
    "pupil": Column("float", "pupil size in tracker units"),
    "blink": Column("bool", "a blink touches the fixation"),
    "off_screen": Column("bool", "lies outside the stimulus"),
}
WORDS: Mapping[str, Column] = {
    "layout": Column("text", "id of the layout (one drawing of a stimulus)", True, False),
    "stimulus": Column("text", "stimulus id", required=True, nullable=False),
    "word": Column("text", "word id, unique within the layout", required=True, nullable=False),
    "index": Column("int", "reading order, from 0", required=True, nullable=False),
    "text": Column("text", "the word as shown", required=True, nullable=False),
    "line": Column("int", "text line, from 0"),
    "left": Column("float", "box, pixels"),
    "top": Column("float", "box, pixels"),
    "right": Column("float", "box, pixels, exclusive"),
    "bottom": Column("float", "box, pixels, exclusive"),
}
TRIALS: Mapping[str, Column] = {
    "participant": Column("text", "reader id", required=True, nullable=False),
    "trial": Column("text", "trial id, unique in the table", required=True, nullable=False),
    "stimulus": Column("text", "stimulus id", required=True, nullable=False),
    "layout": Column("text", "layout that was shown", required=True, nullable=False),
    "condition": Column("text", "experimental condition, e.g. the reading goal"),
    "question": Column("text", "question asked, where there is one"),
}


GENERATED = ("index", "layout")
"""Columns that a table must have but a person need not give: messages do not ask for them."""


def require_columns(
    frame: pd.DataFrame, schema: Mapping[str, Column], *, source: object, step: str
) -> None:
    """Raise `DataError` where a required column is missing, with the nearest one that is there."""
    missing = [c for c, spec in schema.items() if spec.required and c not in frame.columns]
    if missing:
        near = {c: suggest(c, [str(k) for k in frame.columns], n=1) for c in missing}
        hints = [f"{c!r} may be called {v[0]!r} here" for c, v in near.items() if v]
        raise DataError(
            f"column {', '.join(map(repr, missing))} is missing from the {step} table",
            source=source,
            expected=", ".join(
                c for c, s in schema.items() if s.required and (c in missing or c not in GENERATED)
            ),
            found=", ".join(map(str, frame.columns)) or "no columns",
            hint=("; ".join(hints) + ". " if hints else "")
            + "Name the columns with a column map (dataset.columns)",
        )


def _require_given(
    frame: pd.DataFrame, schema: Mapping[str, Column], source: object, step: str
) -> None:
    """Ask for the columns that only a person can give, before others are made from them."""
    if frame.columns.is_unique:  # else `conform` says so
        given = {c: spec for c, spec in schema.items() if c not in GENERATED}
        require_columns(frame, given, source=source, step=step)


def conform(
    frame: pd.DataFrame,
    schema: Mapping[str, Column],
    *,
    source: object,
    step: str,
    first_row: int = 0,
) -> tuple[pd.DataFrame, LossLog]:
    """Cast a table to a schema; columns that the schema does not know are kept as they are.

    Parameters
    ----------
    frame, schema
    source, step
        Name of the file or table, and of the kind of table, for messages.
    first_row
        Number that messages give to the first row (2 for a file with a header line).

    Raises
    ------
    DataError
        A required column is missing (with the nearest column that is there), a column stands
        there twice, a value that must be present is missing, or a value is not a finite number
        where one is needed.
    """
    log = LossLog()
    frame = frame.reset_index(drop=True)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()].unique()
        raise DataError(
            f"column {', '.join(map(repr, twice))} stands more than once in the {step} table",
            source=source,
            expected="one column per name",
        )
    require_columns(frame, schema, source=source, step=step)
    out = {}
    for name in frame.columns:
        spec = schema.get(name)
        values = frame[name]
        out[name] = values if spec is None else cast(values, name, spec, source, first_row)
    return pd.DataFrame(out, index=frame.index, copy=False), log


def check_words(
    words: pd.DataFrame, *, source: object = "words", first_row: int = 0
) -> tuple[pd.DataFrame, LossLog]:
    """Check a word table.

    `layout` defaults to `trial` where that column is there, else to `stimulus`; `index` to the
    order of rows within the layout.

    Returns
    -------
    DataFrame sorted by layout and index (renumbered from 0), LossLog

    Raises
    ------
    DataError
        A word id or index repeats within a layout, a layout belongs to two stimuli, a box has
        only some of its four sides, or its right or bottom lies before its left or top.
    """
    words = words.reset_index(drop=True)
    _require_given(words, WORDS, source, "words")
    if "layout" not in words and "stimulus" in words:
        words["layout"] = words["trial"] if "trial" in words else words["stimulus"]
    if "index" not in words and "layout" in words:
        words["index"] = words.groupby("layout", sort=False, dropna=False).cumcount()
    words, log = conform(words, WORDS, source=source, step="words", first_row=first_row)
    for column in ("word", "index"):
        twice = words.duplicated(["layout", column], keep=False)
        if twice.any():
            row = first_true(twice)
            raise DataError(
                f"the same word {'id' if column == 'word' else 'index'} stands twice in one layout",
                source=source,
                row=row + first_row,
                expected=f"one row per layout and {column}",
                found=f"layout {words.layout[row]!r}, {column} {plain(words[column][row])}, "
                f"{int(twice.sum())} rows in all",
            )
    _one_per(words, "layout", "stimulus", "stimuli", source)
    _check_boxes(words, log, source, first_row)
    words = words.sort_values(["layout", "index"], kind="stable").reset_index(drop=True)
    words["index"] = words.groupby("layout", sort=False).cumcount()
    return words, log


SIDES = ("left", "top", "right", "bottom")


def _check_boxes(words: pd.DataFrame, log: LossLog, source: object, first_row: int) -> None:
    there = [s for s in SIDES if s in words]
    if not there:
        return
    if len(there) < len(SIDES):
        raise DataError(
            "word boxes need all four sides",
            source=source,
            expected=", ".join(SIDES),
            found=", ".join(there),
        )
    known = words[list(SIDES)].notna()
    partly = known.any(axis=1) & ~known.all(axis=1)
    turned = (words["right"] < words["left"]) | (words["bottom"] < words["top"])
    for bad, message in (
        (partly, "a word box lacks some of its sides"),
        (turned, "a word box ends before it begins"),
    ):
        if bad.any():
            row = first_true(bad)
            raise DataError(
                message,
                source=source,
                row=row + first_row,
                expected="left <= right and top <= bottom, in pixels from the top left",
                found=", ".join(f"{s} {words[s][row]}" for s in SIDES),
            )
    log.add(
        "words",
        "undefined",
        "no box: x, y cannot fall on the word",
        int((~known.all(axis=1)).sum()),
        "words",
        words.loc[~known.all(axis=1), "word"],
    )


def check_trials(
    trials: pd.DataFrame, *, source: object = "trials", first_row: int = 0
) -> tuple[pd.DataFrame, LossLog]:
    """Check a trial table; `layout` defaults to `stimulus`, and trial ids must be unique."""
    trials = trials.copy()
    _require_given(trials, TRIALS, source, "trials")
    if "layout" not in trials and "stimulus" in trials:
        trials["layout"] = trials["stimulus"]
    trials, log = conform(trials, TRIALS, source=source, step="trials", first_row=first_row)
    twice = trials.duplicated("trial", keep=False)
    if twice.any():
        row = first_true(twice)
        again = first_true(trials.duplicated("trial") & (trials.trial == trials.trial[row]))
        raise DataError(
            "a trial id stands twice",
            source=source,
            row=row + first_row,
            expected="one row per trial",
            found=f"{trials.trial[row]!r} in rows {row + first_row} and {again + first_row}",
        )
    _one_per(trials, "layout", "stimulus", "stimuli", source)
    return trials, log


def _one_per(
    frame: pd.DataFrame,
    key: str,
    value: str,
    plural: str,
    source: object,
) -> None:
    """Raise where one key has two values."""
    by_key, by_value = runs_of(frame[key]), runs_of(frame[value])
    rows = np.union1d(by_key.starts, by_value.starts)  # nothing changes in between
    keys, values = by_key.codes_at(rows), by_value.codes_at(rows)
    first = np.full(keys.max(initial=-1) + 1, -1)
    first[keys[::-1]] = values[::-1]  # the last write wins, which is the first row
    other = first[keys] != values
    if other.any():
        row = int(rows[other.argmax()])
        raise DataError(
            f"one {key} id is shared by several {plural}",
            source=source,
            found=f"{key} {frame[key].iloc[row]!r}",
            hint=f"Make {key} ids unique, for example {value} and {key} joined",
        )


def _order(codes: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return the stable order of rows by code, then key; whole trials move without a sort."""
    if not len(codes):
        return np.zeros(0, dtype=np.int64)
    step = codes[1:] - codes[:-1]
    if ((step > 0) | ((step == 0) & (key[1:] >= key[:-1]))).all():
        return np.arange(len(codes))
    heads = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    rising = (key[1:] >= key[:-1]) | (codes[1:] != codes[:-1])
    if not rising.all() or len(np.unique(codes[heads])) < len(heads):
        return np.lexsort((key, codes))
    sizes = np.diff(np.r_[heads, len(codes)])
    moved = np.argsort(codes[heads], kind="stable")
    sizes, begins = sizes[moved], heads[moved]
    return np.arange(len(codes)) + np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)


def check_fixations(
    fixations: pd.DataFrame, *, source: object = "fixations", first_row: int = 0
) -> tuple[pd.DataFrame, LossLog]:
    """Check a fixation table.

    `index` defaults to the order of onsets (where given) or of rows within the trial; a row
    without onset keeps its place after the row before it. Rows are sorted by trial and order.
    Rows without any position and durations that are missing are kept, with a count.

    Returns
    -------
    DataFrame sorted by trial and index (renumbered from 0), LossLog

    Raises
    ------
    DataError
        A required column or value is missing, a number is not finite, a duration is negative,
        two rows have the same trial and index, a trial belongs to two participants or stimuli,
        or the clock starts again within a trial while `index` is not given.
    """
    fixations = fixations.reset_index(drop=True)
    _require_given(fixations, FIXATIONS, source, "fixations")
    given = list(map(str, fixations.columns))
    numbered = "index" in fixations
    if not numbered:
        fixations["index"] = 0
    table, log = conform(fixations, FIXATIONS, source=source, step="fixations", first_row=first_row)
    has_xy, has_word = {"x", "y"} <= set(table), "word" in table
    if not has_xy and not has_word:
        raise DataError(
            "fixations need a position",
            source=source,
            expected="columns x and y, or word",
            found=", ".join(given),
            hint="Name the columns with a column map (dataset.columns)",
        )
    if "duration" in table and (table["duration"].to_numpy() < 0).any():
        row = first_true(table["duration"] < 0)
        raise DataError(
            "a fixation has a negative duration",
            source=source,
            row=row + first_row,
            found=plain(table["duration"][row]),
        )
    codes, _ = factorize_runs(table["trial"], sort=True)
    _one_per(table, "trial", "participant", "participants", source)
    _one_per(table, "trial", "stimulus", "stimuli", source)
    if numbered:
        key = table["index"].to_numpy()
    elif "onset" in table:
        key = _onset_order(table, codes, log, source, first_row)
    else:
        key = np.zeros(len(table))
    order = _order(codes, key)
    moved = bool((order[1:] < order[:-1]).any())
    ranked, in_trial = (key[order], codes[order]) if moved else (key, codes)
    same_trial = in_trial[1:] == in_trial[:-1]
    if numbered:
        twice = np.flatnonzero(same_trial & (ranked[1:] == ranked[:-1]))
        if len(twice):
            row = int(order[twice[0] + 1])
            raise DataError(
                "two fixations have the same number in one trial",
                source=source,
                row=row + first_row,
                expected="one row per trial and index",
                found=f"trial {table.trial[row]!r}, index {table['index'][row]}",
            )
    if moved:
        table = table.take(order).reset_index(drop=True)
    starts = np.flatnonzero(np.r_[True, ~same_trial]) if len(table) else np.zeros(0, int)
    sizes = np.diff(np.r_[starts, len(table)])
    table["index"] = np.arange(len(table)) - np.repeat(starts, sizes)

    nowhere = np.ones(len(table), bool)
    if has_xy:
        nowhere &= (table["x"].isna() | table["y"].isna()).to_numpy()
    if has_word:
        nowhere &= table["word"].isna().to_numpy()
    log.add(
        "fixations",
        "undefined",
        "no position (x, y or word): counted on no word",
        int(nowhere.sum()),
        examples=table["trial"][nowhere].unique() if nowhere.any() else (),
    )
    if "duration" in table:
        timeless = table["duration"].isna().to_numpy()
        log.add(
            "fixations",
            "undefined",
            "no duration: times that contain it are undefined",
            int(timeless.sum()),
            examples=table["trial"][timeless].unique() if timeless.any() else (),
        )
    return table, log


def _onset_order(
    table: pd.DataFrame, codes: np.ndarray, log: LossLog, source: object, first_row: int
) -> np.ndarray:
    """Return the sort key of rows by onset within the trial, and log the rows that move."""
    onset = table["onset"].groupby(codes, sort=False).ffill().fillna(-np.inf)
    late = (onset < onset.groupby(codes, sort=False).cummax()).to_numpy()
    if late.any():
        _no_restart(table, codes, source, first_row)
    log.add(
        "fixations",
        "repaired",
        "onset before that of an earlier row: put in order of onset within the trial",
        int(late.sum()),
        examples=table["trial"][late].unique() if late.any() else (),
    )
    return onset.to_numpy()


def _no_restart(table: pd.DataFrame, codes: np.ndarray, source: object, first_row: int) -> None:
    """Raise where the clock starts again within a trial.

    Each step back of the onsets begins a new run. The clock started again if all runs of the
    trial have two rows or more, and, of two or three runs, a later one starts at or before the
    first onset of the trial; of more runs, each later one does and then runs beyond it. Anything
    else is a matter of row order.
    """
    known = np.flatnonzero(table["onset"].notna().to_numpy())
    known = known[np.argsort(codes[known], kind="stable")]
    trial, onset = codes[known], table["onset"].to_numpy()[known]
    new_trial = np.r_[True, trial[1:] != trial[:-1]]
    begins = np.flatnonzero(new_trial | np.r_[False, onset[1:] < onset[:-1]])
    ends = np.r_[begins[1:], len(known)]
    runs = pd.DataFrame(
        {
            "trial": trial[begins],
            "first": new_trial[begins],
            "long": ends - begins >= 2,
            "start": onset[begins],
            "end": onset[ends - 1],
        }
    )
    by_trial = runs.groupby("trial", sort=False)
    origin = by_trial["start"].transform("first")
    before = (runs["start"] <= origin) & ~runs["first"]
    across = runs["first"] | (before & (runs["end"] >= origin))
    n = by_trial["start"].transform("size")
    every = across.groupby(runs["trial"]).transform("all")
    again = before & by_trial["long"].transform("all") & ((n <= 3) | every)
    if again.any():
        run = first_true(again)
        row = int(known[begins[run]])
        raise DataError(
            "the clock starts again within a trial",
            source=source,
            row=row + first_row,
            expected="onsets on one clock",
            found=f"trial {table.trial[row]!r}: onset {runs.start[run]:g} after "
            f"{onset[begins[run] - 1]:g}, and then forward again: two segments",
            hint="Give an index column with the order, or split the trial there",
        )
