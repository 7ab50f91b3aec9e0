"""The vocabulary: fixation, word and trial tables, checked once at the door.

Every check returns a new, sorted, typed table and a `LossLog` that counts what was dropped,
repaired or left undefined. Missing is missing (NaN or NA), never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from gazeattn.errors import DataError, suggest

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

LossKind = Literal["dropped", "repaired", "undefined", "note"]


@dataclass(frozen=True)
class Loss:
    """One kind of thing that happened to the data.

    Attributes
    ----------
    step : str
        Where, e.g. ``"fixations"`` or ``"word alignment"``.
    kind : {"dropped", "repaired", "undefined", "note"}
    reason : str
        What and why, in words.
    count : int
        How many rows, words, trials, ... (`unit` says which).
    unit : str
    examples : str
        The first few ids or rows.
    """

    step: str
    kind: LossKind
    reason: str
    count: int
    unit: str = "rows"
    examples: str = ""


class LossLog:
    """An ordered collection of `Loss` records; equal (step, kind, reason, unit) add up."""

    def __init__(self, losses: Iterable[Loss] = ()) -> None:
        self._losses: dict[tuple[str, str, str, str], Loss] = {}
        for loss in losses:
            self._put(loss)

    def _put(self, loss: Loss) -> None:
        key = (loss.step, loss.kind, loss.reason, loss.unit)
        old = self._losses.get(key)
        if old is not None:
            loss = Loss(
                loss.step,
                loss.kind,
                loss.reason,
                old.count + loss.count,
                loss.unit,
                old.examples or loss.examples,
            )
        self._losses[key] = loss

    def add(
        self,
        step: str,
        kind: LossKind,
        reason: str,
        count: int,
        unit: str = "rows",
        examples: Iterable[object] = (),
    ) -> None:
        """Record a loss; a count of 0 is not recorded."""
        if count <= 0:
            return
        shown = ", ".join(str(e) for e in list(examples)[:3])
        self._put(Loss(step, kind, reason, int(count), unit, shown))

    def extend(self, other: LossLog) -> None:
        """Add all records of another log."""
        for loss in other:
            self._put(loss)

    def __iter__(self):
        return iter(self._losses.values())

    def __len__(self) -> int:
        return len(self._losses)

    def count(self, step: str | None = None, kind: str | None = None) -> int:
        """Return the summed count of the records that match."""
        return sum(
            loss.count
            for loss in self
            if (step is None or loss.step == step) and (kind is None or loss.kind == kind)
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the records as a table: ``step, kind, reason, count, unit, examples``."""
        columns = ["step", "kind", "reason", "count", "unit", "examples"]
        return pd.DataFrame([[getattr(x, c) for c in columns] for x in self], columns=columns)

    def __str__(self) -> str:
        lines = []
        for x in self:
            line = f"{x.step}: {x.count} {x.unit} {x.kind}: {x.reason}"
            lines.append(line + (f" (first: {x.examples})" if x.examples else ""))
        return "\n".join(lines)


@dataclass(frozen=True)
class Column:
    """A column of a table: its kind of value, whether it must be there, and its meaning."""

    kind: Literal["text", "float", "int", "bool"]
    doc: str
    required: bool = False
    nullable: bool = True


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


def conform(
    frame: pd.DataFrame, schema: Mapping[str, Column], *, source: object, step: str
) -> tuple[pd.DataFrame, LossLog]:
    """Cast a table to a schema; columns that the schema does not know are kept as they are.

    Raises
    ------
    DataError
        A required column is missing (with the nearest column that is there), a value that must
        be present is missing, or a value is not a number where one is needed.
    """
    log = LossLog()
    frame = frame.reset_index(drop=True)
    missing = [c for c, spec in schema.items() if spec.required and c not in frame.columns]
    if missing:
        near = {c: suggest(c, [str(k) for k in frame.columns], n=1) for c in missing}
        hints = [f"{c!r} may be called {v[0]!r} here" for c, v in near.items() if v]
        raise DataError(
            f"column {', '.join(map(repr, missing))} is missing from the {step} table",
            source=source,
            expected=", ".join(c for c, s in schema.items() if s.required),
            found=", ".join(map(str, frame.columns)) or "no columns",
            hint=("; ".join(hints) + ". " if hints else "")
            + "Name the columns with a column map (dataset.columns)",
        )
    out = {}
    for name in frame.columns:
        spec = schema.get(name)
        out[name] = frame[name] if spec is None else _cast(frame[name], name, spec, source)
    return pd.DataFrame(out), log


def _cast(values: pd.Series, name: str, spec: Column, source: object) -> pd.Series:
    if spec.kind == "text":
        result = _as_text(values)
    elif spec.kind == "bool":
        result = values.astype("boolean")
    else:
        result = _as_number(values, name, source)
        if spec.kind == "int":
            whole = result.dropna()
            bad = whole[whole != np.floor(whole)]
            if len(bad):
                raise DataError(
                    f"column {name!r} must hold whole numbers",
                    source=source,
                    row=bad.index[0],
                    found=bad.iloc[0],
                )
            result = result.astype("Int64")
    if not spec.nullable and result.isna().any():
        rows = result.index[result.isna()]
        raise DataError(
            f"column {name!r} has {len(rows)} missing values",
            source=source,
            row=rows[0],
            expected="a value in every row",
        )
    if spec.kind == "int" and not spec.nullable:
        result = result.astype("int64")
    return result


def _as_text(values: pd.Series) -> pd.Series:
    if pd.api.types.is_float_dtype(values):
        present = values.dropna()
        if (present == np.floor(present)).all():  # 7.0 is the id 7 that met a missing value
            values = values.astype("Int64")
    return values.astype("str").where(values.notna(), np.nan).astype("str")


def _as_number(values: pd.Series, name: str, source: object) -> pd.Series:
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        return values.astype("float64")
    numbers = pd.to_numeric(values, errors="coerce")
    bad = values.notna() & numbers.isna()
    texts = values.astype("str").str.strip()
    bad &= ~texts.isin(["", ".", "NaN", "nan", "NA", "null", "None"])
    if bad.any():
        row = bad.idxmax()
        raise DataError(
            f"column {name!r} must hold numbers",
            source=source,
            row=row,
            found=repr(values[row]),
            hint="A decimal comma needs decimal=',' when the file is read",
        )
    return numbers.astype("float64")


def check_words(words: pd.DataFrame, *, source: object = "words") -> tuple[pd.DataFrame, LossLog]:
    """Check a word table.

    `layout` defaults to `trial` where that column is there, else to `stimulus`; `index` to the
    order of rows within the layout. Word ids that repeat within a layout raise.

    Returns
    -------
    DataFrame sorted by layout and index, LossLog
    """
    words = words.copy()
    if "layout" not in words and "stimulus" in words:
        words["layout"] = words["trial"] if "trial" in words else words["stimulus"]
    if "index" not in words and "layout" in words:
        words["index"] = words.groupby("layout", sort=False).cumcount()
    words, log = conform(words, WORDS, source=source, step="words")
    twice = words.duplicated(["layout", "word"], keep=False)
    if twice.any():
        row = twice.idxmax()
        raise DataError(
            "the same word id stands twice in one layout",
            source=source,
            row=row,
            expected="one row per layout and word",
            found=f"layout {words.layout[row]!r}, word {words.word[row]!r}, "
            f"{int(twice.sum())} rows in all",
        )
    words = words.sort_values(["layout", "index"], kind="stable").reset_index(drop=True)
    words["index"] = words.groupby("layout", sort=False).cumcount()
    return words, log


def check_trials(
    trials: pd.DataFrame, *, source: object = "trials"
) -> tuple[pd.DataFrame, LossLog]:
    """Check a trial table; `layout` defaults to `stimulus`, and trial ids must be unique."""
    trials = trials.copy()
    if "layout" not in trials and "stimulus" in trials:
        trials["layout"] = trials["stimulus"]
    trials, log = conform(trials, TRIALS, source=source, step="trials")
    twice = trials.duplicated("trial", keep=False)
    if twice.any():
        row = twice.idxmax()
        raise DataError(
            "a trial id stands twice",
            source=source,
            row=row,
            expected="one row per trial",
            found=repr(trials.trial[row]),
        )
    return trials, log


def check_fixations(
    fixations: pd.DataFrame, *, source: object = "fixations"
) -> tuple[pd.DataFrame, LossLog]:
    """Check a fixation table.

    `index` defaults to the order of onsets (where given) or of rows within the trial. Rows are
    sorted by trial and order. Negative durations raise; rows without any position are kept, with
    a count.

    Returns
    -------
    DataFrame sorted by trial and index (renumbered from 0), LossLog
    """
    fixations = fixations.copy()
    if "index" not in fixations and "trial" in fixations:
        order = "onset" if "onset" in fixations else None
        if order:
            onset = _as_number(fixations[order], order, source)
            moved = int((onset.groupby(fixations["trial"], sort=False).diff() < 0).sum())
            fixations[order] = onset
            fixations = fixations.sort_values(["trial", order], kind="stable")
        else:
            moved = 0
        fixations["index"] = fixations.groupby("trial", sort=False).cumcount()
    else:
        moved = 0
    fixations, log = conform(fixations, FIXATIONS, source=source, step="fixations")
    log.add("fixations", "repaired", "put in order of onset within the trial", moved)
    if not {"x", "y"} <= set(fixations) and "word" not in fixations:
        raise DataError(
            "fixations need a position",
            source=source,
            expected="columns x and y, or word",
            found=", ".join(fixations.columns),
        )
    twice = fixations.duplicated(["trial", "index"], keep=False)
    if twice.any():
        row = twice.idxmax()
        raise DataError(
            "two fixations have the same number in one trial",
            source=source,
            row=row,
            expected="one row per trial and index",
            found=f"trial {fixations.trial[row]!r}, index {fixations['index'][row]}",
        )
    if "duration" in fixations and (fixations["duration"] < 0).any():
        row = (fixations["duration"] < 0).idxmax()
        raise DataError(
            "a fixation has a negative duration",
            source=source,
            row=row,
            found=fixations["duration"][row],
        )
    readers = fixations.groupby("trial", sort=False)["participant"].nunique()
    if (readers > 1).any():
        raise DataError(
            "one trial id is shared by several participants",
            source=source,
            found=f"trial {readers.idxmax()!r}",
            hint="Make trial ids unique, for example participant and trial joined",
        )
    fixations = fixations.sort_values(["trial", "index"], kind="stable").reset_index(drop=True)
    fixations["index"] = fixations.groupby("trial", sort=False).cumcount()
    place = pd.Series(True, index=fixations.index)
    if {"x", "y"} <= set(fixations):
        place &= fixations["x"].isna() | fixations["y"].isna()
    if "word" in fixations:
        place &= fixations["word"].isna()
    elif not {"x", "y"} <= set(fixations):
        place &= False
    log.add(
        "fixations",
        "undefined",
        "no position (x, y or word): counted on no word",
        int(place.sum()),
        examples=fixations.loc[place, "trial"].unique(),
    )
    return fixations, log
