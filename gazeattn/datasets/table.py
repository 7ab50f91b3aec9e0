"""A person's own files: fixations, words and, where there are, trials and texts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.columns import Column, as_number, as_text, plain
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.doubts import compare_places, near_columns, no_row_twice, note_repeats
from gazeattn.datasets.joining import (
    TRIAL_COLUMNS,
    is_in,
    key_words,
    known_words,
    match_trials,
    trial_layouts,
    unique_trials,
    with_words,
)
from gazeattn.datasets.layouts import lines_of
from gazeattn.datasets.texts import differences
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.readers.delimited import FIRST_ROW, name_columns, read_table
from gazeattn.readers.textfile import Data, Format, file_bytes
from gazeattn.reading.areas import one_eye_at_a_time
from gazeattn.registry import register_dataset
from gazeattn.tables import (
    FIXATIONS,
    SIDES,
    TRIALS,
    WORDS,
    LossLog,
    check_fixations,
    check_trials,
    check_words,
    require_columns,
)

SCHEMAS: Mapping[str, Mapping[str, Column]] = {
    "fixations": {**FIXATIONS, **TRIAL_COLUMNS},
    "words": {**WORDS, "trial": TRIALS["trial"], "participant": TRIALS["participant"]},
    "trials": TRIALS,
    "texts": {"stimulus": WORDS["stimulus"], "text": WORDS["text"]},
}
"""Columns that each file may have."""

MILLISECONDS = {"us": 0.001, "µs": 0.001, "μs": 0.001, "ms": 1.0, "s": 1000.0, "sec": 1000.0}
PathLike = str | os.PathLike[str]


@register_dataset(
    "table",
    task="reading",
    size="your files",
    licence="your own",
    citation="your own",
    description="Own fixations and words from CSV, TSV or Parquet files",
)
def table(
    root: PathLike | None = None,
    *,
    fixations: PathLike | pd.DataFrame | None = None,
    words: PathLike | pd.DataFrame | None = None,
    trials: PathLike | pd.DataFrame | None = None,
    texts: PathLike | pd.DataFrame | None = None,
    columns: Mapping[str, Mapping[str, str] | None] | None = None,
    label: str = "my data",
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str = ".",
    quote: str | None = '"',
    duration_unit: str | None = None,
    screen: Sequence[float] | None = None,
    eye: str | None = None,
    labels: Sequence[str] = (),
    licence: str = "not stated (own data)",
    citation: str = "not stated (own data)",
) -> GazeDataset:
    """Load own fixations and words.

    Parameters
    ----------
    root
        Folder that relative paths start from; default: the working folder.
    fixations, words
        Files with the columns of `gazeattn.tables.FIXATIONS` and `WORDS`. Words belong to a
        ``stimulus``, to a ``trial`` or to a ``layout``, whichever column is there. Each table may
        also be a DataFrame; messages then count its rows from 0.
    trials
        Optional file, see `gazeattn.tables.TRIALS`; default: the trials of the fixations.
    texts
        Optional file with ``stimulus`` and ``text``, to check the words against.
    columns
        For each file, our column name to the file's name; None leaves a column out.
    label
        Name of the data set in results.
    encoding, separator, decimal, quote
        How the text files are written, see `gazeattn.readers.textfile.Format`.
    duration_unit : {"ms", "s", "us"} or None
        Unit of ``onset`` and ``duration``; None takes it from a header such as
        ``Duration [ms]``, else milliseconds.
    screen
        Width and height of the stimulus in pixels, to count fixations outside.
    eye : {"left", "right"} or None
        Keep the fixations of one eye, where the column ``eye`` has both (fixations of no stated
        eye stay); the others are counted as dropped.
    labels
        Further columns of `trials` that are kept: what models of reading learn to tell. Numbers
        where all values are numbers, text otherwise.
    licence, citation
        What reports say about the data.

    Raises
    ------
    DataError, UnknownNameError
        See `gazeattn.readers.delimited.read_table` and `gazeattn.tables`; also where no fixation
        is usable, or fixations and words do not fit each other.
    """
    if fixations is None or words is None:
        raise DataError(
            "the data set 'table' needs your own files",
            expected="fixations=FILE and words=FILE",
            found=", ".join(
                f"no {n}" for n, p in (("fixations", fixations), ("words", words)) if p is None
            ),
            hint="gazeattn compare dataset=table dataset.fixations=F.csv dataset.words=W.csv",
        )
    if screen is not None and (len(screen) != 2 or min(screen) <= 0):
        raise DataError(
            "screen must be width and height in pixels", found=", ".join(map(plain, screen))
        )
    maps = _maps(columns)
    schemas = {**SCHEMAS, "trials": {**TRIALS, **_labels(labels, trials)}}
    form = Format(encoding, separator, decimal, quote)
    given = {
        step: value
        for step, value in (
            ("fixations", fixations),
            ("words", words),
            ("trials", trials),
            ("texts", texts),
        )
        if value is not None
    }
    names, first_row = {}, {}
    lost, frames, digests = LossLog(), {}, {}
    pool = ThreadPoolExecutor(1)  # files are hashed while their tables are checked
    for step, value in given.items():
        if isinstance(value, pd.DataFrame):
            names[step], first_row[step] = f"{step} table", 0
            frames[step], log = name_columns(
                value, schemas[step], maps.get(step), step=step, source=names[step]
            )
            data: Data = value.to_csv(index=False).encode("utf-8", "surrogatepass")
        else:
            path = _path(value, root, step)
            names[step], first_row[step] = path.name, FIRST_ROW
            data = file_bytes(path)
            frames[step], log = read_table(
                path, schemas[step], maps.get(step), step=step, form=form, data=data
            )
        digests[names[step]] = pool.submit(sha256, data)
        lost.extend(log)
        _ids_as_text(frames[step])
    pool.shutdown(wait=False)

    f = _to_milliseconds(
        frames["fixations"],
        maps.get("fixations", {}),
        duration_unit,
        names,
        lost,
        first_row["fixations"],
    )
    f = _of_eye(f, eye, lost, names["fixations"])
    f, t = unique_trials(f, frames, lost, names)
    require_columns(
        f.head(0).drop(columns="trial_label", errors="ignore"),
        {k: v for k, v in FIXATIONS.items() if k != "index"},
        source=names["fixations"],
        step="fixations",
    )
    for step, frame in (("fixations", f), ("words", frames["words"]), ("trials", t)):
        if frame is not None:
            near_columns(
                frame, schemas[step], maps.get(step, {}), lost, source=names[step], step=step
            )
    for name in labels:
        if t is None or name not in t:
            known = list(map(str, frames["trials"]))
            raise UnknownNameError(f"column of {names['trials']}", name, known)
    t, f = match_trials(f, t, lost, names)
    w = key_words(frames["words"], f, t, names)
    w, log = check_words(w, source=names["words"], first_row=first_row["words"])
    lost.extend(log)
    if "line" not in w and set(SIDES) <= set(w):
        w["line"] = lines_of(w)
    t = trial_layouts(t, w, names)
    t, log = check_trials(
        t, source=names.get("trials", names["fixations"]), first_row=first_row.get("trials", 0)
    )
    lost.extend(log)
    f = with_words(f, t, w, lost, names)
    no_row_twice(f, source=names["fixations"], first_row=first_row["fixations"])
    in_file_order = "index" not in f
    f, log = check_fixations(
        f.drop(columns=list(TRIAL_COLUMNS), errors="ignore"),
        source=names["fixations"],
        first_row=first_row["fixations"],
    )
    lost.extend(log)
    if in_file_order:
        note_repeats(f, lost)
    f = _check_positions(f, w, t, lost, names, list(map(str, frames["words"])))
    compare_places(f, w, t, lost, source=names["fixations"])
    one_eye_at_a_time(f, hint="Keep one eye: eye='right' (dataset.eye=right on the command line)")
    _doubts(f, w, screen, lost)

    for name in labels:
        t[name] = _numbers_or_text(t[name])
    t = t.sort_values("trial", kind="stable").reset_index(drop=True)
    unread = t.loc[~is_in(t["trial"], f["trial"]), "trial"]
    lost.add("trials", "undefined", "no fixations: undefined", len(unread), "trials", unread)
    unseen = sorted(set(w["layout"].unique()) - set(t["layout"].unique()))
    lost.add("words", "note", "layouts that no trial shows", len(unseen), "layouts", unseen)
    dataset = GazeDataset(
        name=label,
        fixations=f,
        words=w,
        trials=t,
        stimuli=_stimuli(w, screen),
        info={
            "citation": citation,
            "licence": licence,
            "version": "own files",
            "url": "",
            "description": f"own files: {', '.join(names.values())}",
            "checksums": {name: d.result().hexdigest() for name, d in digests.items()},
            "readers_note": _goals(t),
            "labels": tuple(labels),
            "unverified": ["everything that the files do not say: licence, consent, device"],
        },
        lost=lost,
    )
    if "texts" in frames:
        _check_texts(dataset, frames["texts"], names)
    return dataset


def _labels(labels: Sequence[str], trials: object) -> dict[str, Column]:
    """Return the columns of labels; they need a file of trials."""
    if isinstance(labels, str):
        raise DataError("labels is a list of columns", expected=f"[{labels}]", found=labels)
    if labels and trials is None:
        raise DataError("labels are columns of the file of trials", expected="trials=FILE",
                        hint="dataset.trials=T.csv on the command line")  # fmt: skip
    return {str(n): Column("text", "label of the trial") for n in labels if n not in TRIALS}


def _numbers_or_text(values: pd.Series) -> pd.Series:
    """Return a column of numbers where every value that is there is one."""
    there = values.notna() & (values.astype("str").str.strip() != "")
    numbers = pd.to_numeric(values.where(there), errors="coerce")
    if numbers.notna().to_numpy(bool)[there.to_numpy(bool)].all():
        return numbers.astype("float64")
    return values.where(there)


def _of_eye(f: pd.DataFrame, eye: str | None, lost: LossLog, source: str) -> pd.DataFrame:
    """Keep the fixations of one eye."""
    if eye is None:
        return f
    if eye not in ("left", "right"):
        raise UnknownNameError("eye", eye, ("left", "right"))
    if "eye" not in f:
        raise DataError("the fixations have no column eye", source=source, expected="left or right")
    other = f["eye"].notna() & (f["eye"] != eye) & (f["eye"] != "both")
    if other.all():
        raise DataError(f"0 of {len(f)} rows valid: none is of the {eye} eye", source=source)
    lost.add("fixations", "dropped", f"not of the {eye} eye", int(other.sum()))
    return f[~other].reset_index(drop=True)


def _maps(
    columns: Mapping[str, Mapping[str, str] | None] | None,
) -> dict[str, dict[str, str]]:
    for step in columns or {}:
        if step not in SCHEMAS:
            raise UnknownNameError("table in the column map:", str(step), SCHEMAS)
    return {str(k): {str(a): b for a, b in (v or {}).items()} for k, v in (columns or {}).items()}


def _ids_as_text(frame: pd.DataFrame) -> None:
    """Make the ids of a typed table text, so that 1 and 1.0 of two tables are one id."""
    for name in ("participant", "trial", "stimulus", "layout", "word"):
        if name in frame and not isinstance(frame[name].dtype, pd.StringDtype):
            frame[name] = as_text(frame[name])


def _path(path: PathLike, root: PathLike | None, step: str) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise DataError(
            f"{step} must be a file or a table",
            expected="a path or a DataFrame",
            found=type(path).__name__,
        )
    path = Path(path).expanduser()
    below = Path(root).expanduser() / path if root is not None else path
    return path if path.exists() or not below.exists() else below


def _to_milliseconds(
    f: pd.DataFrame,
    names_in_file: Mapping[str, str],
    unit: str | None,
    names: Mapping[str, str],
    lost: LossLog,
    first_row: int,
) -> pd.DataFrame:
    """Turn onset and duration into milliseconds by the stated unit or that of the header."""
    if unit is not None and unit not in MILLISECONDS:
        raise UnknownNameError("time unit", str(unit), MILLISECONDS)
    for column in ("onset", "duration"):
        if column not in f:
            continue
        header = str(names_in_file.get(column) or column)
        found = re.search(r"[\[(]\s*([^\])]+?)\s*[\])]\s*$", header)
        in_header = found.group(1) if found else None
        if in_header is not None and in_header not in MILLISECONDS:
            raise UnknownNameError(f"time unit in the header {header!r}:", in_header, MILLISECONDS)
        if in_header and unit and MILLISECONDS[in_header] != MILLISECONDS[unit]:
            raise DataError(
                f"the header {header!r} and duration_unit disagree",
                source=names["fixations"],
                expected=f"duration_unit={in_header!r}, or a header without unit",
                found=f"duration_unit={unit!r}",
            )
        factor = MILLISECONDS[in_header or unit or "ms"]
        values = as_number(f[column], header, names["fixations"], first_row)
        f[column] = values if factor == 1 else values * factor
        if column == "duration" and values.notna().any():
            if 2 * int(f[column].between(10, 5000).sum()) > len(f):
                continue  # then the median is inside too
            usual = float(f[column].median())
            if not 10 <= usual <= 5000:
                lost.add(
                    "fixations",
                    "note",
                    f"the usual duration is {usual:g} ms: check duration_unit "
                    f"(read as {in_header or unit or 'ms'})",
                    len(f),
                )
    return f


def _check_positions(
    f: pd.DataFrame,
    w: pd.DataFrame,
    t: pd.DataFrame,
    lost: LossLog,
    names: Mapping[str, str],
    columns_of_words: Sequence[str],
) -> pd.DataFrame:
    has_boxes = set(SIDES) <= set(w) and bool(w["left"].notna().any())
    has_xy = {"x", "y"} <= set(f)
    if "word" not in f and not has_boxes:
        raise DataError(
            "fixations have x and y, but the words have no boxes",
            source=names["words"],
            expected=f"columns {', '.join(SIDES)} in pixels, or a column word in the fixations",
            found=", ".join(columns_of_words),
        )
    if "word" in f:
        f = known_words(f, w, t, lost, names)
    located = f["word"].notna() if "word" in f else pd.Series(False, index=f.index)
    if has_xy:
        located |= f["x"].notna() & f["y"].notna()
    if not located.any():
        raise DataError(
            f"0 of {len(f)} rows valid: {len(f)} without a position",
            source=names["fixations"],
            expected="numbers in x and y, or known word ids",
        )
    return f


def _doubts(
    f: pd.DataFrame, w: pd.DataFrame, screen: Sequence[float] | None, lost: LossLog
) -> None:
    """Note what looks like another unit or origin; nothing is changed."""
    if not {"x", "y"} <= set(f):
        return
    x, y = f["x"], f["y"]
    wide = max(screen) if screen else w["right"].max() if "right" in w else np.nan
    if wide > 200 and not ((x.abs() > 45).any() or (y.abs() > 45).any()):
        lost.add(
            "fixations",
            "note",
            "all x and y are within 45: they look like degrees, pixels are needed",
            len(f),
        )
    if screen:
        inside = (x >= 0) & (x < screen[0]) & (y >= 0) & (y < screen[1])
        outside = ~inside & x.notna() & y.notna()
        f["off_screen"] = outside.astype("boolean")
        lost.add("fixations", "note", "outside the stimulus: kept, on no word", int(outside.sum()))


def _stimuli(w: pd.DataFrame, screen: Sequence[float] | None) -> dict[str, dict[str, Any]]:
    first = w[w["layout"].isin(w.drop_duplicates("stimulus")["layout"])]
    texts = first.astype({"text": object}).groupby("stimulus", sort=True)["text"].agg(" ".join)
    size = {"size": (screen[0], screen[1])} if screen else {}
    return {str(s): {"text": text, **size} for s, text in texts.items()}


def _goals(t: pd.DataFrame) -> str:
    goals = sorted(t["condition"].dropna().unique()) if "condition" in t else []
    return " and ".join(goals) or "reading goal not stated"


def _check_texts(dataset: GazeDataset, texts: pd.DataFrame, names: Mapping[str, str]) -> None:
    missing = [c for c in ("stimulus", "text") if c not in texts]
    if missing:
        raise DataError(
            f"column {', '.join(map(repr, missing))} is missing from the texts table",
            source=names["texts"],
            expected="stimulus, text",
            found=", ".join(map(str, texts.columns)),
        )
    known = dict(zip(texts["stimulus"], texts["text"], strict=True))
    found = differences(dataset.words, known)
    dataset.reports["text_check"] = found
    for kind, rows in found.groupby("kind"):
        at = rows["text_index"].fillna(rows["table_index"])
        shown = [
            f"{stimulus} word {i}: text {text!r}, table {word!r}"
            for stimulus, i, text, word in zip(
                rows["stimulus"], at, rows["text"], rows["table"], strict=True
            )
        ]
        dataset.lost.add(
            "words", "note", f"{kind}, compared with {names['texts']}", len(rows), "words", shown
        )
    unchecked = sorted(set(dataset.words["stimulus"]) - set(known))
    dataset.lost.add(
        "words", "note", f"no text in {names['texts']}", len(unchecked), "stimuli", unchecked
    )
