"""EyeLink Data Viewer reports: fixations, saccades, samples and interest areas."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from gazeattn.errors import DataError, UnknownNameError, suggest
from gazeattn.readers import _dv_cells as cells
from gazeattn.readers._doubts import note_doubts
from gazeattn.readers._dv_columns import (
    Kind,
    choose_kind,
    id_beside,
    is_id,
    kind_of,
    may_be_number,
)
from gazeattn.readers._dv_table import Report, read_report
from gazeattn.readers._dv_trials import blocks, trials_of
from gazeattn.readers.delimited import FIRST_ROW
from gazeattn.readers.textfile import Format, sniff_encoding, sniff_separator
from gazeattn.recordings import Recording
from gazeattn.registry import register_reader
from gazeattn.runs import runs_of

EYES: Mapping[str, str] = {
    "left": "left",
    "l": "left",
    "right": "right",
    "r": "right",
    "both": "both",
    "binocular": "both",
    "left/right": "both",
    "lr": "both",
}
LABEL_OF = {"fixation": "CURRENT_FIX_LABEL", "saccade": "CURRENT_SAC_LABEL"}
"""Label that holds the onset, as in ``Fixation: 398 ms``."""


def header_names(head: bytes, name: str) -> list[str]:
    """Return the column names in the first line of a text table; none where it is no text."""
    encoding = sniff_encoding(head[:400])
    text = head.decode(encoding, "ignore").lstrip("\ufeff\r\n")
    first = text.splitlines()[0] if text.strip() else ""
    if "\0" in first:
        return []
    separator = sniff_separator(first, name)
    try:
        cells_ = next(csv.reader([first], delimiter=separator), [])
    except csv.Error:
        return []
    return [c.strip() for c in cells_]


def recognises(head: bytes, name: str) -> bool:
    """Say whether a file starts like a Data Viewer report."""
    return head[:4] != b"PAR1" and kind_of(header_names(head, name)) is not None


@register_reader(
    "data_viewer",
    recognises=recognises,
    vendor="SR Research EyeLink",
    formats="fixation, interest area, saccade and sample reports (text, gzip, Parquet)",
    description="Data Viewer reports",
    tested_on="real recordings: fixation and interest area reports of four published corpora; "
    "constructed files: saccade and sample reports",
)
def read_data_viewer(
    path: str | os.PathLike[str],
    *,
    kind: str | None = None,
    columns: Mapping[str, str | None] | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    quote: str | None = '"',
    session: str | None = None,
) -> Recording:
    """Read a Data Viewer report.

    Columns get our names where `gazeattn.recordings` has one; all others stay under their own.
    Rows keep their order. Variables of the experiment are text, exactly as written.

    Parameters
    ----------
    path
        Text or Parquet, also gzipped.
    kind : {"fixation", "interest_area", "saccade", "sample"} or None
        Kind of report; found out from the columns where None.
    columns
        Our name to the report's name, where it differs from the program's own names; None leaves
        a column of ours out.
    encoding, separator, quote
        How the text is written, see `gazeattn.readers.textfile.Format`.
    decimal : {".", ","} or None
        Decimal mark; None takes a comma, with a note, where the number columns have commas and
        no points.
    session
        Name of the session; fills a column ``session``.

    Returns
    -------
    Recording
        With one of ``fixations``, ``areas``, ``saccades``, ``samples``, and ``trials``. Onsets
        are in ms on the clock of the report, which usually starts with the trial; a report
        without onsets has them missing.

    Raises
    ------
    DataError
        The file is no such report, or a value is no number where one is needed.
    UnknownNameError
        No kind of report, or column of ours, has this name.
    """
    path = Path(path).expanduser()
    form = Format(encoding, separator, decimal or ".", quote)
    chosen: dict[str, Kind] = {}
    sources: dict[str, str] = {}

    def choose(names: Sequence[str]) -> tuple[set[str], set[str]]:
        chosen["kind"] = choose_kind(names, kind, path)
        sources.update(_sources(names, chosen["kind"], columns or {}, path))
        schema = chosen["kind"].schema
        must = {theirs for ours, theirs in sources.items() if schema[ours].kind == "float"}
        taken = set(sources.values())
        return must, {n for n in names if n not in taken and may_be_number(n)}

    report = read_report(path, choose, form, decimal)
    the_kind = chosen["kind"]
    recording = Recording(path.name, "data_viewer", lost=report.lost)
    _clean_texts(report)
    ours = _our_columns(report, the_kind, sources)
    if session is not None:
        ours["session"] = pa.chunked_array([pa.array([session] * report.rows, cells.TEXT)])
    rest = _other_columns(report, the_kind, sources, ours)
    table = pa.table({**ours, **rest}).to_pandas(split_blocks=True)
    _strip_ids(table, report)
    table = _drop_nameless_areas(table, report) if the_kind.table == "areas" else table
    table = blocks(table, report.lost, the_kind)
    setattr(recording, the_kind.table, table)
    recording.trials = trials_of(table, report.lost, the_kind)
    recording.info = {
        "report": the_kind.name,
        **report.facts,
        "columns": sources,
        "units": {"time": "ms on the clock of the report", "position": "px"},
    }
    recording.info["eyes"] = _eyes_used(table)
    return note_doubts(recording)


def read_reports(
    paths: Sequence[str | os.PathLike[str]],
    *,
    sessions: Sequence[str] | None = None,
    **options: object,
) -> Recording:
    """Read several reports of one kind as one recording.

    A trial number that a participant has in two files names two trials: all trials of such a
    participant are then called ``SESSION:TRIAL``, and a note says so.

    Parameters
    ----------
    paths
        Files, in the order of their rows.
    sessions
        Name of each file's session, default: the file name up to its first dot.
    **options
        See `read_data_viewer`.

    Raises
    ------
    DataError
        No files, reports of two kinds, session names that repeat or are not one per file, or as
        `read_data_viewer`.
    """
    names = [Path(p).name.split(".")[0] for p in paths] if sessions is None else list(sessions)
    if not names or len(names) != len(paths) or len(set(names)) < len(names):
        raise DataError(
            "several reports need one session name each",
            expected=f"{len(paths)} different names" if paths else "at least one file",
            found=", ".join(names) or "none",
        )
    parts = [
        read_data_viewer(p, session=s, **options)  # type: ignore[arg-type]
        for p, s in zip(paths, names, strict=True)
    ]
    kinds = {p.info["report"] for p in parts}
    if len(kinds) > 1:
        raise DataError(
            "reports of several kinds cannot be one table",
            expected="reports of one kind",
            found=", ".join(f"{p.source} ({p.info['report']})" for p in parts),
        )
    whole = Recording(", ".join(p.source for p in parts), "data_viewer")
    for part in parts:
        whole.lost.extend(part.lost)
    whole.info = {**parts[0].info, "eyes": sorted({e for p in parts for e in p.info["eyes"]})}
    shown = pd.concat([p.trials for p in parts if p.trials is not None], ignore_index=True)
    renamed = _repeated(shown, whole)
    for name in ("trials", *(n for n in parts[0].tables() if n != "trials")):
        table = pd.concat([getattr(p, name) for p in parts], ignore_index=True)
        if "block" in table:
            table["block"] = table["block"].fillna(0)
        if len(renamed):
            mine = table["participant"].isin(renamed)
            table["trial_in_file"] = table["trial"]
            joined = table["session"] + ":" + table["trial"]
            table["trial"] = table["trial"].where(~mine, joined)
        setattr(whole, name, table)
    return whole


def _repeated(trials: pd.DataFrame, whole: Recording) -> pd.Index:
    """Return the participants with one trial id in several files, with a note."""
    if not {"participant", "trial"} <= set(trials):
        return pd.Index([])
    known = trials.dropna(subset=["trial"])
    twice = known[known.duplicated(["participant", "trial"])]
    names = pd.Index(twice["participant"].unique())
    whole.lost.add(
        "report",
        "note",
        "trial ids that one participant has in several files: called SESSION:TRIAL",
        len(twice),
        "trials",
        names,
    )
    return names


def _sources(
    names: Sequence[str], kind: Kind, columns: Mapping[str, str | None], path: Path
) -> dict[str, str]:
    """Return our name to the report's name for each column that is there."""
    for ours, theirs in columns.items():
        if ours not in kind.schema:
            raise UnknownNameError(f"column of the {kind.table} table:", ours, kind.schema)
        if theirs is not None and theirs not in names:
            near = suggest(theirs, names)
            raise DataError(
                f"the column map names {theirs!r} for {ours!r}, but the report has no such column",
                source=path,
                found=", ".join(names),
                hint=f"Did you mean {' or '.join(map(repr, near))}?" if near else None,
            )
    there = set(names)
    found = {}
    for ours in kind.schema:
        if ours in columns:
            theirs = columns[ours]
        else:
            theirs = next((n for n in kind.columns.get(ours, ()) if n in there), None)
        if theirs is not None:
            found[ours] = theirs
    numbers = [t for o, t in found.items() if kind.schema[o].kind == "float"]
    texts = [t for o, t in found.items() if kind.schema[o].kind != "float"]
    twice = {t for t in numbers if numbers.count(t) > 1 or t in texts}
    if twice:
        raise DataError(
            f"column {', '.join(map(repr, sorted(twice)))} is taken for two of ours",
            source=path,
            expected="a column of its own for each number",
        )
    return found


def _clean_texts(report: Report) -> None:
    """Make missing what is missing: dots of ids, labels of no area, variables never set."""
    undefined = pa.scalar(cells.UNDEFINED, cells.TEXT)
    raw = dict(report.columns)
    for name in report.names:
        column = raw[name]
        if not pa.types.is_large_string(column.type):
            continue
        beside = id_beside(name, report.names)
        if is_id(name):
            report.columns[name] = cells.missing_ids(column)
        elif beside is not None:
            ids = cells.text_column(raw[beside])
            ids = cells.first_area(ids) if beside.endswith("_AREAS") else cells.missing_ids(ids)
            none = ids.is_null()
            column = cells.blank_where(column, pc.and_(none, pc.equal(column, ".")))[0]
            column = cells.blank_where(column, pc.equal(column, undefined))[0]
            report.columns[name] = column
            twice, examples = cells.count_double_encoded(column)
            report.lost.add(
                "report",
                "note",
                f"{name} looks encoded twice (kept as written)",
                twice,
                "cells",
                examples,
            )
        else:
            column, count = cells.blank_where(column, pc.equal(column, undefined))
            report.columns[name] = column
            report.lost.add(
                "report",
                "undefined",
                f"{cells.UNDEFINED}: a variable that was never set",
                count,
                "cells",
                [name],
            )


def _our_columns(
    report: Report, kind: Kind, sources: Mapping[str, str]
) -> dict[str, pa.ChunkedArray]:
    step, out = kind.table, {}
    for ours, theirs in sources.items():
        column = report.columns[theirs]
        if kind.schema[ours].kind == "text":
            column = cells.text_column(column)
            if ours != "text" and not is_id(theirs):  # else done
                column = cells.missing_ids(column)
        else:
            _finite(column, theirs, report)
        out[ours] = column
    if "eye" in out:
        out["eye"] = _eyes(out["eye"], sources["eye"], report)
    if step in ("fixations", "saccades"):
        if "onset" not in out:
            out["onset"] = _onset(report, LABEL_OF[kind.name])
        report.lost.add(step, "undefined", "no onset", out["onset"].null_count)
    if step == "fixations":
        _areas_of_fixations(report, out)
        if "x" in out and "y" in out:
            nowhere = pc.or_(out["x"].is_null(), out["y"].is_null())
            report.lost.add(step, "undefined", "no position", cells.count(nowhere))
    if step == "samples":
        if "time" not in out:
            out["time"] = pa.chunked_array([pa.nulls(report.rows, pa.float64())])
        report.lost.add(step, "undefined", "no time", out["time"].null_count)
        for eye in ("", "_left", "_right"):
            _no_zero_pupil(out, eye, report)
    values = [n for n in out if n not in ("participant", "trial", "eye", "time")]
    if values and all(out[n].null_count == report.rows for n in values):
        names = ", ".join(sources.get(n, n) for n in values)
        raise DataError(
            f"0 of {report.rows} rows valid: {names} missing in all of them",
            source=report.path,
        )
    return {name: out[name] for name in kind.schema if name in out}


def _finite(column: pa.ChunkedArray, name: str, report: Report) -> None:
    infinite = pc.is_inf(column)
    if pc.any(infinite).as_py():
        row = pc.index(infinite, True).as_py()
        raise DataError(
            f"column {name!r} must hold finite numbers",
            source=report.path,
            row=row + FIRST_ROW,
            found=str(column[row].as_py()),
        )


def _strip_ids(table: pd.DataFrame, report: Report) -> None:
    """Take blanks off the ids of participants and trials, with a count."""
    for name in ("participant", "trial"):
        if name not in table:
            continue
        runs = runs_of(table[name])  # few, as ids repeat
        bare = runs.uniques.str.strip()
        changed = np.append(bare != runs.uniques, False)[runs.codes]
        if changed.any():
            count = int(runs.sizes[changed].sum())
            report.lost.add("report", "repaired", f"blanks around the id {name!r} removed", count)
            stripped = table[name].str.strip()
            table[name] = stripped.where(~stripped.isin(["", "."]))


def _eyes(column: pa.ChunkedArray, theirs: str, report: Report) -> pa.ChunkedArray:
    unknown: list[str] = []

    def ours(texts: pa.Array) -> pa.Array:
        out: list[str | None] = []
        for text in texts.to_pylist():
            eye = EYES.get(text.strip().casefold())
            if eye is None:
                unknown.append(text)
            out.append(eye)
        return pa.array(out, cells.TEXT)

    result = cells.on_uniques(column, ours)
    lost = result.null_count - column.null_count
    report.lost.add(
        "report", "undefined", f"{theirs} is no eye that we know", lost, examples=unknown
    )
    return result


def _onset(report: Report, label: str) -> pa.ChunkedArray:
    """Return the onsets from labels such as ``Fixation: 398 ms``, missing without them."""
    column = report.columns.get(label)
    if column is None or not pa.types.is_large_string(column.type):
        return pa.chunked_array([pa.nulls(report.rows, pa.float64())])
    onset = cells.milliseconds_in(column)
    report.lost.add(
        "report", "note", f"onset taken from {label}", report.rows - onset.null_count, "rows"
    )
    return onset


def _areas_of_fixations(report: Report, out: dict[str, pa.ChunkedArray]) -> None:
    """Count fixations in several areas; without an area id take the first of the list."""
    lists = report.columns.get("CURRENT_FIX_INTEREST_AREAS")
    if lists is None or not pa.types.is_large_string(lists.type):
        return
    if "area" not in out:
        out["area"] = cells.first_area(lists)
    several = pc.match_substring(lists, ",")
    report.lost.add(
        "fixations",
        "note",
        "in several areas: area is one of them, CURRENT_FIX_INTEREST_AREAS has all",
        cells.count(several),
    )


def _no_zero_pupil(out: dict[str, pa.ChunkedArray], eye: str, report: Report) -> None:
    """Make the pupil 0 of a sample without gaze missing."""
    x, pupil = out.get(f"x{eye}"), out.get(f"pupil{eye}")
    if x is None or pupil is None:
        return
    absent = pc.and_(x.is_null(), pc.equal(pupil, 0.0)).fill_null(False)
    out[f"pupil{eye}"], count = cells.blank_where(pupil, absent)
    report.lost.add("samples", "undefined", "pupil 0 where there is no gaze: missing", count)


def _other_columns(
    report: Report, kind: Kind, sources: Mapping[str, str], ours: Mapping[str, object]
) -> dict[str, pa.ChunkedArray]:
    """Return the columns that we have no name for; those of areas are all kept."""
    used = set(sources.values())
    if kind.table == "areas":
        used = {n for n in used if not n.startswith("IA_")}
    out = {}
    for name in report.names:
        if name in used:
            continue
        if name in ours or name in kind.schema:
            # A variable of the experiment called "block" is not our recording block.
            report.lost.add(
                "report",
                "note",
                f"column {name!r} of the file is called {name}_original",
                1,
                "columns",
            )
            out[f"{name}_original"] = report.columns[name]
        else:
            out[name] = report.columns[name]
    return out


def _drop_nameless_areas(table: pd.DataFrame, report: Report) -> pd.DataFrame:
    """Take out rows without an area id: they are no areas."""
    if "area" not in table:
        raise DataError(
            "the interest area report has no area ids",
            source=report.path,
            expected="a column IA_ID",
            found=", ".join(report.names[:12]),
        )
    nameless = table["area"].isna()
    if not nameless.any():
        return table
    report.lost.add("areas", "dropped", "rows without an area id", int(nameless.sum()))
    if nameless.all():
        raise DataError(f"0 of {len(table)} rows valid: no area id", source=report.path)
    return table[~nameless].reset_index(drop=True)


def _eyes_used(table: pd.DataFrame) -> list[str]:
    if any(f"x_{eye}" in table for eye in ("left", "right")):
        return [
            eye
            for eye in ("left", "right")
            if f"x_{eye}" in table and bool(table[f"x_{eye}"].notna().any())
        ]
    name = next((c for c in ("eye", "EYE_USED", "EYE_TRACKED") if c in table), None)
    if name is None:
        return []
    cells_ = table[name].dropna().unique()
    return sorted({EYES[c.casefold()] for c in map(str, cells_) if c.casefold() in EYES})
