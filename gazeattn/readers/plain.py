"""Plain tables of fixations or samples (CSV, TSV, Parquet) under a column map or our names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from gazeattn import registry
from gazeattn.columns import Column, as_text
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.readers._doubts import note_doubts
from gazeattn.readers._units import option, parse_header, to_ms
from gazeattn.readers._units import time_unit as time_unit_of
from gazeattn.readers.data_viewer import EYES, header_names
from gazeattn.readers.delimited import FIRST_ROW, read_table
from gazeattn.readers.textfile import Format
from gazeattn.recordings import FIXATION_EVENTS, SAMPLES, Recording
from gazeattn.registry import register_reader
from gazeattn.runs import factorize_runs
from gazeattn.tables import conform

SCHEMAS: Mapping[str, Mapping[str, Column]] = {"fixations": FIXATION_EVENTS, "samples": SAMPLES}
TIMES = {"fixations": ("onset", "duration"), "samples": ("time",)}
RESTART = 1000.0
"""A step back in time by more than this many ms is a restart of the clock."""

_PLACES = (("x", "y"), ("x_left", "y_left"), ("x_right", "y_right"))


def recognises(head: bytes, name: str) -> bool:
    """Say whether the header has our names, and no other reader takes the file for its own."""
    if head[:4] == b"PAR1":
        return False  # its header stands at the end
    names = set(header_names(head, name))
    placed = any(set(pair) <= names for pair in _PLACES)
    if not placed or not ("time" in names or "duration" in names):
        return False
    others = (e for e in registry.readers if e.name != "plain")
    return not any(e.info["recognises"](head, name) for e in others)


@register_reader(
    "plain",
    recognises=recognises,
    vendor="any",
    formats="CSV, TSV, Parquet (also gzipped)",
    description="Tables of fixations or samples with a column map or our column names",
    tested_on="real recordings: fixation tables of two published corpora",
)
def read_plain(
    path: str | os.PathLike[str],
    *,
    kind: Literal["fixations", "samples"] | None = None,
    columns: Mapping[str, str | None] | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str = ".",
    quote: str | None = '"',
    time_unit: str | None = None,
    time_order: Literal["sort", "strict"] = "sort",
) -> Recording:
    """Read a table of fixations or samples.

    Parameters
    ----------
    path
        CSV, TSV or Parquet, also gzipped.
    kind : {"fixations", "samples"} or None
        None: samples where there is a ``time``, fixations where there is an ``onset`` or a
        ``duration``.
    columns
        Our name to the file's name, where they differ; None leaves a column of our name out. See
        `gazeattn.recordings.FIXATION_EVENTS` and `SAMPLES`.
    encoding, separator, decimal, quote
        How the text is written, see `gazeattn.readers.textfile.Format`.
    time_unit : {"ms", "us", "s", "ns"} or None
        Unit of the times; None takes it from a header such as ``Duration [ms]``, else ms.
    time_order : {"sort", "strict"}
        Samples whose time steps back: put in order within their trial, with a count, or refused.
        A step to before the first time, or by more than 1 s, is a restart of the clock: a new
        ``block``, rows in the order of the file.

    Returns
    -------
    Recording
        With ``fixations`` or ``samples``, and ``trials`` where participants and trials are known.

    Raises
    ------
    DataError
        See `gazeattn.readers.delimited.read_table`; also where columns for the kind are missing,
        a time unit is unknown, or no row has a position.
    UnknownNameError
        Unknown kind, time order or column of ours.
    """
    path = Path(path).expanduser()
    if kind is not None and kind not in SCHEMAS:
        raise UnknownNameError("kind of table", str(kind), SCHEMAS)
    if time_order not in ("sort", "strict"):
        raise UnknownNameError("time order", str(time_order), ("sort", "strict"))
    columns = dict(columns or {})
    schema = SCHEMAS[kind] if kind else {**SAMPLES, **FIXATION_EVENTS}
    form = Format(encoding, separator, decimal, quote)
    frame, lost = read_table(path, schema, columns, step=kind or "gaze", form=form)  # type: ignore[arg-type]
    kind = kind or _kind_of(frame, path)
    _require(frame, kind, path)
    if kind == "fixations" and "onset" not in frame:
        frame["onset"] = np.nan
    table, log = conform(frame, SCHEMAS[kind], source=path.name, step=kind, first_row=FIRST_ROW)
    lost.extend(log)
    units = {}
    for name in TIMES[kind]:
        if name in table:
            header = parse_header(str(columns.get(name) or name))
            # A header without a unit is in ms; one with a unit that is none is an error.
            default = "ms" if header.bracket is None else None
            units[name] = time_unit_of(header, time_unit, default, path)
            table[name] = to_ms(table[name].to_numpy(), units[name])
    _eyes(table, lost)
    _count_missing(table, kind, path, lost)
    if kind == "samples":
        table = in_time_order(table, lost, strict=time_order == "strict", source=path.name)
    order = [*(n for n in SCHEMAS[kind] if n in table)]
    table = table[[*order, *(n for n in table if n not in order)]]
    recording = Recording(path.name, "plain", lost=lost)
    setattr(recording, kind, table)
    recording.trials = _trials(table, kind)
    recording.info = {"units": units, "columns": columns}
    return note_doubts(recording)


def _kind_of(frame: pd.DataFrame, path: Path) -> Literal["fixations", "samples"]:
    samples, fixations = "time" in frame, "onset" in frame or "duration" in frame
    if samples == fixations:
        raise DataError(
            "whether these are fixations or samples cannot be told from the columns",
            source=path,
            expected="time for samples; onset or duration for fixations",
            found=", ".join(map(str, frame.columns)),
            hint=f"Say {option('kind', 'fixations')} or {option('kind', 'samples')}, and name the "
            "columns with a column map: columns={'onset': 'NAME IN THE FILE', ...} in Python",
        )
    return "samples" if samples else "fixations"


def _require(frame: pd.DataFrame, kind: str, path: Path) -> None:
    """Ask for the columns without which the table says nothing."""
    placed = any(set(pair) <= set(frame) for pair in _PLACES)
    if kind == "fixations":
        placed = {"x", "y"} <= set(frame) or "area" in frame
    timed = any(n in frame for n in TIMES[kind])
    if placed and timed:
        return
    place = "x and y" + (
        ", or area" if kind == "fixations" else ", or x_left, y_left, x_right, y_right"
    )
    raise DataError(
        f"the {kind} lack {'a position' if timed else 'their times'}",
        source=path,
        expected=place if timed else " or ".join(TIMES[kind]),
        found=", ".join(map(str, frame.columns)),
        hint="Name the columns with a column map: columns={'x': 'NAME IN THE FILE', ...} in Python",
    )


def _eyes(table: pd.DataFrame, lost: LossLog) -> None:
    """Call the eyes ``left``, ``right`` and ``both``."""
    if "eye" not in table:
        return
    given = table["eye"]
    known = given.str.strip().str.casefold().map(EYES)
    strange = known.isna() & given.notna() & ~given.str.strip().isin(["", "."])
    lost.add("eye", "undefined", "no eye that we know", int(strange.sum()), examples=given[strange])
    table["eye"] = as_text(known.astype(object))


def _count_missing(table: pd.DataFrame, kind: str, path: Path, lost: LossLog) -> None:
    """Count rows without time or position; raise where no row has one."""
    nowhere = np.ones(len(table), bool)
    for pair in _PLACES:
        if set(pair) <= set(table):
            nowhere &= table[list(pair)].isna().any(axis=1).to_numpy()
    if "area" in table and kind == "fixations":
        nowhere &= table["area"].isna().to_numpy()
    if nowhere.all():
        raise DataError(
            f"0 of {len(table)} rows valid: {len(table)} without a position",
            source=path,
            expected="numbers in x and y",
        )
    lost.add(kind, "undefined", "no position", int(nowhere.sum()))
    for name in TIMES[kind]:
        if name in table:
            lost.add(kind, "undefined", f"no {name}", int(table[name].isna().sum()))
    near = [table[n].abs().max() for pair in _PLACES for n in pair if n in table]
    if near and max(near) <= 45:
        lost.add(
            kind,
            "note",
            "all x and y are within 45: they look like degrees, pixels are needed",
            len(table),
        )


def in_time_order(
    samples: pd.DataFrame, lost: LossLog, *, strict: bool, source: str
) -> pd.DataFrame:
    """Put samples in order of time within each stretch of one trial and one clock.

    Parameters
    ----------
    samples
        Rows in the order of the file, with ``time``.
    lost
        Takes the number of rows that move and of restarts of the clock.
    strict
        Refuse steps back instead.
    source
        Name of the file, for messages.

    Returns
    -------
    DataFrame
        With a ``block`` that counts the clock's restarts, where there are any and none was given.

    Raises
    ------
    DataError
        `strict`, and a time steps back.
    """
    time = samples["time"].to_numpy()
    n = len(time)
    group = np.zeros(n, np.int64)
    for name in ("participant", "trial", "block", "eye"):
        if name in samples:
            codes, _ = factorize_runs(as_text(samples[name]))
            group = group * (codes.max(initial=0) + 2) + codes + 1
            group = np.unique(group, return_inverse=True)[1]
    # Rows of one group belong together wherever they stand: eyes may alternate from row to row.
    rows = np.argsort(group, kind="stable")
    rows = rows[~np.isnan(time[rows])]
    if not len(rows):
        return samples
    t, g = time[rows], group[rows]
    back = np.flatnonzero((t[1:] < t[:-1]) & (g[1:] == g[:-1])) + 1
    if not len(back):
        return samples
    if strict:
        first = int(rows[back].min())
        raise DataError(
            "time steps back",
            source=source,
            row=first + FIRST_ROW,
            expected="times in order within each trial (time_order='strict')",
            found=f"{time[first]:g}, {len(back)} such rows",
        )
    heads = np.flatnonzero(np.r_[True, g[1:] != g[:-1]])
    first_of = np.repeat(t[heads], np.diff(np.r_[heads, len(t)]))
    restart = back[(t[back] < first_of[back]) | (t[back - 1] - t[back] > RESTART)]
    segment = np.zeros(n, np.int64)
    segment[rows[restart]] = 1
    if len(restart) and "block" in samples:
        lost.add("samples", "note", "the clock starts again within a block", len(restart), "times")
    elif len(restart):
        lost.add("samples", "note", "the clock starts again: a new block", len(restart), "times")
        samples = samples.assign(block=pd.array(np.cumsum(segment), dtype="Int64"))
    stretch = np.cumsum(segment)[rows]
    # A row without time keeps its place; the others of its stretch share the places they had.
    order = np.arange(n)
    key = np.lexsort((t, stretch, g))
    order[rows] = rows[key]
    moved = int((order != np.arange(n)).sum())
    lost.add("samples", "repaired", "time before that of an earlier row: put in order", moved)
    return samples.take(order).reset_index(drop=True) if moved else samples


def _trials(table: pd.DataFrame, kind: str) -> pd.DataFrame | None:
    keys: Sequence[str] = [c for c in ("participant", "trial") if c in table]
    if len(keys) < 2 or not table["trial"].notna().any():
        return None
    known = table[table["trial"].notna()]
    if kind == "fixations" or "time" not in table:
        return known[list(keys)].drop_duplicates().reset_index(drop=True)
    times = known.groupby(list(keys), sort=False, dropna=False)["time"]
    return times.agg(start="min", end="max").reset_index()
