"""Exports of Gazepoint Analysis and of the Gazepoint API: all gaze, and fixations (CSV)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

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
from gazeattn.readers._units import Header, check_screen, option, to_ms, to_pixels
from gazeattn.readers.textfile import file_bytes
from gazeattn.recordings import Recording
from gazeattn.registry import register_reader

TEXTS = ("medianame", "user", "aoi", "kb", "userdata", "")
POINTS = (("BPOG", ""), ("LPOG", "_left"), ("RPOG", "_right"))
PUPILS = (("LPMM", "LPMMV", "_left", "mm"), ("RPMM", "RPMMV", "_right", "mm"))
PUPILS_IN_IMAGE = (("LPD", "LPV", "_left", "px"), ("RPD", "RPV", "_right", "px"))


def _is_number(header: Header) -> bool:
    return header.key not in TEXTS


def _recognises(head: bytes, name: str) -> bool:
    names = head_names(head)
    return {"fpogx", "fpogy"} <= names or ({"bpogx", "bpogy"} <= names and "time" in names)


@register_reader(
    "gazepoint",
    recognises=_recognises,
    vendor="Gazepoint",
    formats="all_gaze.csv and fixations.csv of Gazepoint Analysis",
    description="Best, left and right gaze, pupils, fixations, media",
    tested_on="constructed files",
)
def read_gazepoint(
    path: str | os.PathLike[str],
    *,
    screen: tuple[float, float] | None = None,
    participant: str | None = None,
    strict: bool = False,
    encoding: str | None = None,
    decimal: str | None = None,
) -> Recording:
    """Read an all-gaze or fixations file.

    Parameters
    ----------
    path
        CSV file, also gzipped.
    screen
        Width and height in pixels: positions are fractions of the screen from its top left.
        Without it they keep the file's names (``BPOGX`` ...), and there is no ``x``.
    participant
        Id of the person; else the participant is missing (the files do not have one).
    strict
        Raise where time stamps step back, instead of sorting and counting.
    encoding, decimal
        None: found out from the file.

    Raises
    ------
    DataError
        No time or fixation columns, text in a number column, no valid row.
    """
    path = Path(path).expanduser()
    size = check_screen(screen)
    export = load_export(
        path, file_bytes(path), _is_number, encoding=encoding, decimal=decimal, step="export"
    )
    info: dict[str, Any] = {
        "tracker": "Gazepoint",
        "screen": size,
        "units": {"time": "s", "position": "px, from 0..1" if size else "0..1 of the screen"},
    }
    recording = Recording(path.name, "gazepoint", info=info, lost=export.lost)
    clock = export.find("time") or export.find("timeinsecs")
    per_fixation = _is_fixation_file(export, clock)
    if clock is not None and not per_fixation:
        export, time = drop_untimed(export, to_ms(export.numbers(clock), "s"), "samples")
        if clock.bracket and re.search(r"\d{4}/\d", clock.bracket):
            info["date"] = clock.bracket
        _samples(export, time, size, participant, strict, recording)
    else:
        _fixation_file(export, size, participant, strict, recording)
    if size is None:
        export.lost.add(
            "samples" if recording.samples is not None else "fixations",
            "note",
            "positions kept as fractions of the screen: "
            f"{option('screen', (1920, 1080))} makes them pixels",
            len(export.frame),
        )
    info["unread"] = export.unread()
    return note_doubts(recording)


def _is_fixation_file(export: Export, clock: Header | None) -> bool:
    """Say whether each row is a fixation: ids do not repeat next to each other."""
    if export.find("fpogs") is None or export.find("fpogid") is None:
        return False
    name = export.source.name.casefold()
    if clock is None or "gaze" in name or "fixation" in name:
        return clock is None or "fixation" in name
    fixation = export.numbers(export.need("fpogid", what="the fixation"))
    same = (np.diff(fixation) == 0).any()
    return not same and len(fixation) > 1 and export.find("fpogd") is not None


def _owners(export: Export, participant: str | None) -> tuple[pd.DataFrame, np.ndarray]:
    rows = len(export.frame)
    media = [h for h in (export.find("mediaid"), export.find("medianame")) if h is not None]
    who = missing_text(rows) if participant is None else pd.Series([participant] * rows)
    columns: list[pd.Series] = []
    for header in media:
        if _is_number(header):
            numbers = pd.Series(export.numbers(header))
            columns.append(numbers.astype("Int64").astype("str").where(numbers.notna()))
        else:
            columns.append(export.text(header))
    shown = missing_text(rows)
    for column in reversed(columns):  # the name before the number
        shown = shown.fillna(column)
    frame = pd.DataFrame({"participant": who.astype("str"), "stimulus": shown.astype("str")})
    return frame, changes(frame["participant"])


def _points(
    export: Export,
    table: pd.DataFrame,
    size: tuple[float, float] | None,
    point: str,
    suffix: str,
) -> list[str]:
    """Add one gaze point to the table; return the names of its columns."""
    x, y = export.find(f"{point.lower()}x"), export.find(f"{point.lower()}y")
    if x is None or y is None:
        return []
    xs, ys = export.numbers(x), export.numbers(y)
    names = [x.name, y.name]
    if size is not None:
        xs, ys = to_pixels(xs, ys, size)
        names = [f"x{suffix}", f"y{suffix}"]
    table[names[0]], table[names[1]] = xs, ys
    return names


def _samples(
    export: Export,
    time: np.ndarray,
    size: tuple[float, float] | None,
    participant: str | None,
    strict: bool,
    recording: Recording,
) -> None:
    owners, forced = _owners(export, participant)
    table = owners.assign(time=time)
    values: list[str] = []
    points = POINTS if export.find("bpogx") is not None else (("FPOG", ""), *POINTS[1:])
    for point, suffix in points:
        names = _points(export, table, size, point, suffix)
        flag = export.find(f"{point.lower()}v")
        if names and flag is not None:
            bad = export.numbers(flag) != 1
            blank(table, names, bad, export.lost, f"{point}V says invalid")
        values += names
    eyes: list[str] = []
    pupils = PUPILS if export.find("lpmm") or export.find("rpmm") else PUPILS_IN_IMAGE
    for name, flag_name, suffix, unit in pupils:
        header, flag = export.find(name.lower()), export.find(flag_name.lower())
        if header is not None:
            table[f"pupil{suffix}"] = export.numbers(header)
            recording.info["units"][f"pupil{suffix}"] = unit
            eyes.append(suffix[1:])
            if flag is not None:
                bad = export.numbers(flag) != 1
                blank(table, (f"pupil{suffix}",), bad, export.lost, f"{flag_name} says invalid")
    raw = _fixation_columns(export)
    table, trials, order = arrange(table, forced, export.lost, source=export.source, strict=strict)
    require_valid(
        table, values or [c for c in map(str, table) if "pupil" in c], export.lost, export.source
    )
    review_positions(table, size, export.lost, "samples")
    recording.samples, recording.trials = table, trials
    recording.info["rate"] = rate_of(table["time"].to_numpy(), table["block"].to_numpy())
    recording.info["eyes"] = eyes
    if raw is not None:
        raw = raw.iloc[order].reset_index(drop=True)
        recording.fixations = _fixations_of_samples(raw, table, size, export)


def _fixation_columns(export: Export) -> pd.DataFrame | None:
    keys = {"x": "fpogx", "y": "fpogy", "start": "fpogs", "duration": "fpogd", "id": "fpogid"}
    headers = {name: export.find(key) for name, key in keys.items()}
    if any(h is None for h in headers.values()):
        return None
    raw = pd.DataFrame({n: export.numbers(h) for n, h in headers.items() if h is not None})
    flag = export.find("fpogv")
    raw["valid"] = export.numbers(flag) if flag is not None else 1.0
    return raw


def _fixations_of_samples(
    raw: pd.DataFrame,
    table: pd.DataFrame,
    size: tuple[float, float] | None,
    export: Export,
) -> pd.DataFrame:
    """Return one row per fixation: its last valid record, which is the complete one."""
    rows = np.flatnonzero((raw["valid"] == 1) & raw["id"].notna() & raw["start"].notna())
    part = raw.iloc[rows].reset_index(drop=True)
    where = table.iloc[rows].reset_index(drop=True)
    new = changes(part["id"], where["block"], where["trial"])
    last = np.append(np.flatnonzero(new)[0:], len(part)) - 1 if len(part) else np.array([], int)
    part, where = (t.iloc[last].reset_index(drop=True) for t in (part, where))
    return _as_fixations(part, where[["participant", "trial", "block"]], size, export)


def _as_fixations(
    raw: pd.DataFrame, where: pd.DataFrame, size: tuple[float, float] | None, export: Export
) -> pd.DataFrame:
    out = where.copy()
    out["eye"] = pd.Series("both", index=out.index, dtype="str")
    out["onset"], out["duration"] = raw["start"] * 1000.0, raw["duration"] * 1000.0
    xs, ys = raw["x"].to_numpy(), raw["y"].to_numpy()
    if size is None:
        out["FPOGX"], out["FPOGY"] = xs, ys
    else:
        out["x"], out["y"] = to_pixels(xs, ys, size)
    out["id"] = raw["id"]
    review_positions(out, size, export.lost, "fixations")
    return out


def _fixation_file(
    export: Export,
    size: tuple[float, float] | None,
    participant: str | None,
    strict: bool,
    recording: Recording,
) -> None:
    for key, what in (
        ("fpogs", "the start of the fixation (FPOGS)"),
        ("fpogd", "the duration of the fixation (FPOGD)"),
        ("fpogid", "the number of the fixation (FPOGID)"),
        ("fpogx", "the position (FPOGX)"),
        ("fpogy", "the position (FPOGY)"),
    ):
        export.need(key, what=what)
    start = export.numbers(export.need("fpogs", what="the start"))
    export, start = drop_untimed(export, start, "fixations")
    raw = _fixation_columns(export)
    assert raw is not None
    bad = (raw["valid"] != 1).to_numpy()
    raw.loc[bad, ["x", "y"]] = np.nan
    export.lost.add("fixations", "undefined", "FPOGV says invalid", int(bad.sum()))
    owners, forced = _owners(export, participant)
    table = owners.assign(onset=start * 1000.0, duration=raw["duration"] * 1000.0)
    table, trials, order = arrange(
        table,
        forced,
        export.lost,
        source=export.source,
        step="fixations",
        strict=strict,
        clock="onset",
        patience=1.0,
    )
    raw = raw.iloc[order].reset_index(drop=True)
    require_valid(raw, ("x", "y"), export.lost, export.source)
    where = table[["participant", "trial", "block"]]
    recording.fixations = _as_fixations(raw, where, size, export)
    recording.trials = trials
