"""Exports of Pupil Labs: Core (Pupil Player), and Neon and Invisible (Cloud, Neon Player)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.readers._doubts import note_doubts
from gazeattn.readers._exports import (
    Export,
    blank,
    drop_untimed,
    head_names,
    load_export,
    missing_text,
    require_valid,
    review_positions,
)
from gazeattn.readers._order import arrange, changes, rate_of
from gazeattn.readers._units import Header, check_screen, option, time_unit, to_ms, to_pixels
from gazeattn.readers.textfile import file_bytes
from gazeattn.recordings import Recording
from gazeattn.registry import register_reader

TEXTS = ("sectionid", "recordingid", "recordingname", "wearerid", "basedata", "method", "onsurf")
TEXT_STARTS = ("gazedetected", "fixationdetected", "worn", "gazeonaoi", "topic", "type", "name")
MIN_CONFIDENCE = 0.6
"""Pupil Player's own default: gaze below it is not shown."""

CORE_GAZE = {"gazetimestamp", "normposx", "normposy"}
CORE_SURFACE = {"gazetimestamp", "xnorm", "ynorm"}
CORE_FIXATIONS = {"starttimestamp", "duration", "normposx", "normposy"}
CORE_BLINKS = {"starttimestamp", "duration", "endtimestamp", "startframeindex"}
NEON_GAZE = {"timestamp", "gazex", "gazey"}
NEON_SURFACE_X = ("gazepositionx", "gazepositioninreferenceimagex", "gazepositiononsurfacex")
NEON_EVENT = {"starttimestamp", "endtimestamp", "duration"}


@dataclass
class _File:
    """One file of an export: what it is, and its tables."""

    kind: str
    table: pd.DataFrame
    trials: pd.DataFrame | None
    info: dict[str, Any]
    lost: LossLog


def _is_number(header: Header) -> bool:
    return header.key not in TEXTS and not header.key.startswith(TEXT_STARTS)


def kind_of(names: set[str]) -> str | None:
    """Return what the file with these column keys is, None where it is not of Pupil Labs."""
    if "worldindex" in names and (CORE_SURFACE <= names or CORE_GAZE <= names):
        return "core gaze"
    if {"starttimestamp", "duration", "onsurf"} <= names:
        return "core fixations"
    if CORE_FIXATIONS <= names and "startframeindex" in names:
        return "core fixations"
    if CORE_BLINKS <= names and "filterresponse" in names:
        return "core blinks"
    if NEON_EVENT <= names:
        for kind in ("fixation", "saccade", "blink"):
            if f"{kind}id" in names:
                return f"neon {kind}s"
    if NEON_GAZE <= names or ("timestamp" in names and names & set(NEON_SURFACE_X)):
        return "neon gaze"
    return None


def _recognises(head: bytes, name: str) -> bool:
    return kind_of(head_names(head)) is not None


@register_reader(
    "pupil",
    recognises=_recognises,
    vendor="Pupil Labs",
    formats="Core: gaze_positions, fixations, blinks, surface files; Neon: gaze, fixations, "
    "saccades, blinks (CSV)",
    description="Gaze in the scene camera or on a surface, fixations, saccades, blinks",
    tested_on="constructed files",
)
def read_pupil(
    path: str | os.PathLike[str],
    *,
    screen: tuple[float, float] | None = None,
    min_confidence: float = MIN_CONFIDENCE,
    participant: str | None = None,
    strict: bool = False,
) -> Recording:
    """Read one file of an export, or a folder with the files of one recording.

    Parameters
    ----------
    path
        CSV file, or a folder (surface files in it are left alone: their pixels are others).
    screen
        Size in pixels of the scene image, or of the surface in a surface file: makes pixels from
        the normalised positions of Core, whose y axis points up. Without it they keep the file's
        names, and there is no ``x``.
    min_confidence
        Gaze of Core with less becomes missing, and is counted.
    participant
        Id of the wearer, which the files do not have.
    strict
        Raise where time stamps step back, instead of sorting and counting.

    Raises
    ------
    DataError
        Not such a file, unknown units, text in a number column, no valid row.
    """
    path = Path(path).expanduser()
    size = check_screen(screen)
    paths = [path]
    if path.is_dir():
        paths = [p for p in sorted(path.glob("*.csv")) if "surface" not in p.name]
        paths = [p for p in paths if kind_of(head_names(bytes(file_bytes(p)[: 1 << 16])))]
        if not paths:
            raise DataError("no file of a Pupil Labs export in this folder", source=path)
    files = [_read_file(p, size, min_confidence, participant, strict) for p in paths]
    kinds = [f.kind.split()[1] for f in files]
    twice = sorted({k for k in kinds if kinds.count(k) > 1})
    if twice:
        raise DataError(f"more than one file of {', '.join(twice)}", source=path)
    recording = Recording(" + ".join(p.name for p in paths), "pupil")
    for file, kind in zip(files, kinds, strict=True):
        setattr(recording, "samples" if kind == "gaze" else kind, file.table)
        recording.lost.extend(file.lost)
        if recording.trials is None or kind == "gaze":
            recording.trials = file.trials
        units = {**recording.info.get("units", {}), **file.info.pop("units")}
        recording.info |= {**file.info, "units": units}
    recording.info |= {"screen": size, "tracker": f"Pupil {files[0].kind.split()[0].title()}"}
    return note_doubts(recording)


def _read_file(
    path: Path,
    size: tuple[float, float] | None,
    confidence: float,
    participant: str | None,
    strict: bool,
) -> _File:
    data = file_bytes(path)
    export = load_export(path, data, _is_number, step=path.name)
    kind = kind_of(set(export.headers))
    if kind is None:
        raise DataError(
            "not a file of a Pupil Labs export that is known here",
            source=path,
            expected="gaze, fixations, saccades or blinks",
            found=", ".join(map(str, export.frame.columns[:20])),
        )
    make = _gaze if kind.endswith("gaze") else _events
    table, trials, info = make(export, kind, size, confidence, participant, strict)
    info["unread"] = export.unread()
    return _File(kind, table, trials, info, export.lost)


def _clock(export: Export, header: Header, neon: bool) -> tuple[np.ndarray, str]:
    unit = time_unit(header, None, None if neon else "s", export.source)
    return to_ms(export.numbers(header), unit), unit


def _owners(export: Export, participant: str | None) -> tuple[pd.DataFrame, np.ndarray]:
    """Return participant and section of each row, and where a recording or section begins."""
    rows = len(export.frame)
    ids = [export.find(k) for k in ("recordingid", "sectionid")]
    columns = [export.text(h) for h in ids if h is not None]
    who = missing_text(rows) if participant is None else pd.Series([participant] * rows)
    frame = pd.DataFrame({"participant": who.astype("str"), "stimulus": missing_text(rows)})
    return frame, changes(frame["participant"], *columns)


def _positions(
    export: Export,
    choices: tuple[tuple[str, str, str], ...],
    size: tuple[float, float] | None,
    up: bool,
    step: str,
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return x and y in pixels, or the normalised columns under the names of the file."""
    for x_key, y_key, default in choices:
        x, y = export.find(x_key), export.find(y_key)
        if x is None or y is None:
            continue
        xs, ys = export.numbers(x), export.numbers(y)
        unit = x.unit if x.bracket is not None else default
        if unit == "px":
            return {"x": xs, "y": ys}, {"x": "px", "y": "px"}
        if unit != "norm":
            raise DataError(
                f"column {x.name!r} has an unknown unit",
                source=export.source,
                expected="px or normalized",
                found=repr(x.bracket),
            )
        if size is not None:
            xs, ys = to_pixels(xs, ys, size, up=up)
            return {"x": xs, "y": ys}, {"x": "px, from 0..1", "y": "px, from 0..1"}
        axis = "up" if up else "down"
        export.lost.add(
            step,
            "note",
            f"positions kept from 0 to 1 (y points {axis}): {option('screen', (1920, 1080))} "
            "makes them pixels",
            len(xs),
        )
        return {x.name: xs, y.name: ys}, {x.name: "norm", y.name: f"norm, y {axis}"}
    return {}, {}


def _gaze(
    export: Export,
    kind: str,
    size: tuple[float, float] | None,
    least: float,
    participant: str | None,
    strict: bool,
) -> tuple[pd.DataFrame, pd.DataFrame | None, dict[str, Any]]:
    neon = kind.startswith("neon")
    clock = export.need("timestamp" if neon else "gazetimestamp", what="the time stamp")
    time, unit = _clock(export, clock, neon)
    export, time = drop_untimed(export, time, "samples")
    owners, forced = _owners(export, participant)
    if neon:
        pairs = tuple((k, k[:-1] + "y", "none") for k in ("gazex", *NEON_SURFACE_X))
        values, units = _positions(export, pairs, size, False, "samples")
    else:
        pairs = (("xnorm", "ynorm", "norm"), ("normposx", "normposy", "norm"))
        values, units = _positions(export, pairs, size, True, "samples")
    table = pd.DataFrame({**owners, "time": time, **values})
    for bad, reason in _unusable(export, least):
        blank(table, values, bad, export.lost, reason)
    for side in ("left", "right"):
        header = export.find(f"pupildiameter{side}")
        if header is not None:
            table[f"pupil_{side}"] = export.numbers(header)
            units[f"pupil_{side}"] = header.unit or "unknown"
    extra = {"fixation": "fixationid", "blink": "blinkid", "confidence": "confidence"}
    for name, key in extra.items():
        header = export.find(key)
        if header is not None:
            table[name] = export.numbers(header)
    on_surface = export.find("onsurf")
    if on_surface is not None:
        table["on_surface"] = pd.Series(_truth(export, on_surface)).astype("boolean")
    for name in ("azimuth", "elevation"):
        header = export.find(name)
        if header is not None:
            table[header.name] = export.numbers(header)
    table, trials, _ = arrange(table, forced, export.lost, source=export.source, strict=strict)
    require_valid(table, values, export.lost, export.source)
    review_positions(table, size, export.lost, "samples")
    info = {
        "units": {"time": unit, **units},
        "rate": rate_of(table["time"].to_numpy(), table["block"].to_numpy()),
    }
    return table.drop(columns="stimulus"), trials, info


def _truth(export: Export, header: Header) -> np.ndarray:
    """Return 1 for true, 0 for false, NaN for an empty cell."""
    cells = export.text(header).str.casefold()
    known = cells.map({"true": 1.0, "1": 1.0, "1.0": 1.0, "false": 0.0, "0": 0.0, "0.0": 0.0})
    unknown = cells.notna() & known.isna()
    if unknown.any():
        raise DataError(
            f"column {header.name!r} must hold true or false",
            source=export.source,
            row=int(np.flatnonzero(unknown)[0]) + export.first_row,
            found=repr(cells[unknown].iloc[0]),
        )
    return known.to_numpy(dtype=float)


def _unusable(export: Export, least: float) -> list[tuple[np.ndarray, str]]:
    """Return which rows hold no usable gaze, with the reason."""
    out: list[tuple[np.ndarray, str]] = []
    header = export.find("confidence")
    if header is not None:
        out.append((export.numbers(header) < least, f"confidence below {least}"))
    tests: tuple[tuple[str, str], ...] = (
        ("worn", "glasses not worn"),
        ("gazedetectedinreferenceimage", "no gaze in the reference image"),
        ("gazedetectedonsurface", "no gaze on the surface"),
    )
    for key, reason in tests:
        header = export.find(key)
        if header is not None:
            out.append((_truth(export, header) == 0, reason))
    return out


def _events(
    export: Export,
    kind: str,
    size: tuple[float, float] | None,
    least: float,
    participant: str | None,
    strict: bool,
) -> tuple[pd.DataFrame, pd.DataFrame | None, dict[str, Any]]:
    maker, what = kind.split()
    neon = maker == "neon"
    onset, unit = _clock(export, export.need("starttimestamp", what="the start"), neon)
    export, onset = drop_untimed(export, onset, what)
    owners, forced = _owners(export, participant)
    header = export.need("duration", what="the duration")
    # Pupil Player writes durations of fixations in ms, of blinks in s
    length = "s" if what == "blinks" and not neon else "ms"
    duration = to_ms(export.numbers(header), time_unit(header, None, length, export.source))
    units = {"time": unit}
    table = pd.DataFrame(
        {**owners, "eye": pd.Series("both", index=owners.index, dtype="str"), "onset": onset}
    )
    table["duration"] = duration
    values: dict[str, np.ndarray] = {}
    if what == "fixations":
        neon_pairs = ("fixationx", "fixationinreferenceimagex", "fixationonsurfacex")
        pairs: tuple[tuple[str, str, str], ...] = (
            tuple((k, k[:-1] + "y", "none") for k in neon_pairs)
            if neon
            else (("normposx", "normposy", "norm"),)
        )
        values, found = _positions(export, pairs, size, not neon, what)
        units |= found
        for name, column in values.items():
            table[name] = column
    amplitude = export.find("amplitude", unit="deg")
    if what == "saccades" and amplitude is not None:
        table["amplitude"] = export.numbers(amplitude)
    number = export.find("fixationid", "saccadeid", "blinkid", "id")
    if number is not None:
        table["id"] = export.numbers(number)
    for key in ("confidence", "dispersion", "azimuth", "elevation"):
        extra = export.find(key)
        if extra is not None:
            table[extra.name] = export.numbers(extra)
    if "confidence" in table and what == "fixations":
        bad = table["confidence"].to_numpy() < least
        for name in values:
            table.loc[bad, name] = np.nan
        export.lost.add(what, "undefined", f"confidence below {least}", int(bad.sum()))
    on_surface = export.find("onsurf")
    if on_surface is not None and what == "fixations":
        table["on_surface"] = pd.Series(_truth(export, on_surface)).astype("boolean")
        table, forced = _once(table, forced, export.lost)
    table, trials, _ = arrange(
        table,
        forced,
        export.lost,
        source=export.source,
        step=what,
        strict=strict,
        clock="onset",
        patience=1.0,
    )
    require_valid(table, values or ("duration",), export.lost, export.source)
    review_positions(table, size, export.lost, what)
    return table.drop(columns="stimulus"), trials, {"units": units}


def _once(
    table: pd.DataFrame, forced: np.ndarray, lost: LossLog
) -> tuple[pd.DataFrame, np.ndarray]:
    """Keep one row per fixation: surface files repeat each for every frame of the video."""
    keys = ["id", "onset"] if "id" in table else ["onset"]
    again = table.duplicated(keys).to_numpy()
    lost.add("fixations", "dropped", "the same fixation in a later video frame", int(again.sum()))
    return table[~again].reset_index(drop=True), forced[~again]
