"""Exports of Tobii Pro Lab and Tobii Studio: samples, fixations, saccades, events, media."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.readers._exports import (
    Export,
    blank,
    drop_untimed,
    folded,
    head_names,
    load_export,
    missing_text,
    require_valid,
    review_positions,
)
from gazeattn.readers._order import changes, rate_of, time_order, trial_at, trials_of
from gazeattn.readers._units import Header, check_screen, fold, time_unit, to_ms, to_pixels
from gazeattn.readers.textfile import file_bytes
from gazeattn.recordings import Recording
from gazeattn.registry import register_reader

TIME = "recordingtimestamp"
NUMBERS = (
    TIME,
    "gazepoint",
    "gazeeventduration",
    "eyemovementtypeindex",
    "eyemovementeventduration",
    "fixationpoint",
    "fixationindex",
    "saccadeindex",
    "saccadicamplitude",
    "recordingresolutionwidth",
    "recordingresolutionheight",
    "pupildiameter",
)
PUPILS = {"left": ("pupildiameterleft", "pupilleft"), "right": ("pupildiameterright", "pupilright")}
EYES = ("left", "right")
MAX_VALIDITY = 1
"""Studio codes 0 (surely) and 1 (probably the right eye) count as valid, 2 to 4 do not."""


def _is_number(header: Header) -> bool:
    return header.key.startswith(NUMBERS) or header.key in (*PUPILS["left"], *PUPILS["right"])


def _recognises(head: bytes, name: str) -> bool:
    names = head_names(head)
    others = ("eyemovementtype", "gazeeventtype", "gazepoint", "validityleft", "fixationpoint")
    return TIME in names and any(n.startswith(others) for n in names)


@register_reader(
    "tobii",
    recognises=_recognises,
    vendor="Tobii",
    formats="Pro Lab data export (TSV), Studio data export (TSV)",
    description="Gaze, pupil, fixations and saccades of the exported filter, events, media",
    tested_on="constructed files",
)
def read_tobii(
    path: str | os.PathLike[str],
    *,
    screen: tuple[float, float] | None = None,
    time_unit: str | None = None,
    max_validity: int = MAX_VALIDITY,
    strict: bool = False,
    encoding: str | None = None,
    decimal: str | None = None,
) -> Recording:
    """Read an export of Tobii Pro Lab or Tobii Studio.

    Parameters
    ----------
    path
        TSV or CSV file, UTF-8 or UTF-16, decimal point or comma; also gzipped.
    screen
        Width and height in pixels; else from the columns of the recording resolution.
    time_unit
        Needed where ``Recording timestamp`` names none; ``RecordingTimestamp`` of Studio is ms.
    max_validity
        Largest numeric validity code of Studio that counts as valid.
    strict
        Raise where time stamps step back, instead of sorting and counting.
    encoding, decimal
        None: found out from the file.

    Raises
    ------
    DataError
        No time column, unknown unit or validity mark, text in a number column, no valid row.
    """
    path = Path(path).expanduser()
    size = check_screen(screen)
    export = load_export(
        path, file_bytes(path), _is_number, encoding=encoding, decimal=decimal, step="export"
    )
    time, units = _times(export, time_unit)
    export, time = drop_untimed(export, time, "samples")
    shown = export.find("presentedstimulusname", "presentedmedianame", "medianame")
    who = export.find("participantname", "participant")
    run = export.find("recordingname", "recording")
    texts = {
        name: export.text(h) if h is not None else missing_text(len(time))
        for name, h in (("participant", who), ("recording", run), ("stimulus", shown))
    }
    size = size or _resolution(export)
    eye_rows, messages = _kinds_of_row(export)
    samples, found = _gaze(export, size)
    units |= found
    table = pd.DataFrame({**texts, "time": time, **samples})[eye_rows].reset_index(drop=True)
    if not len(table):
        raise DataError(f"0 of {len(time)} rows valid: no row of an eye tracker", source=path)
    _flag(table, export, eye_rows, max_validity)
    events = _event_columns(export)[eye_rows].reset_index(drop=True)
    forced = changes(table["participant"], table["recording"])
    order, block = time_order(
        table["time"].to_numpy(), forced, export.lost, step="samples", source=path, strict=strict
    )
    table, events = (t.iloc[order].reset_index(drop=True) for t in (table, events))
    table["block"] = block
    times = table["time"].to_numpy()
    table["trial"], trials = trials_of(
        table["stimulus"], block, table["participant"], times, export.lost
    )
    values = [c for c in table if str(c) not in (*texts, "time", "block", "trial")]
    fixations, saccades = _events(table, events, export, bool(values))
    require_valid(table, map(str, values), export.lost, path)
    review_positions(table, size, export.lost, "samples")
    if fixations is not None:
        review_positions(fixations, size, export.lost, "fixations")
    info: dict[str, Any] = {
        "tracker": "Tobii",
        "units": units,
        "rate": rate_of(times, block),
        "eyes": [e for e in EYES if {f"x_{e}", f"pupil_{e}"} & set(table)],
        "screen": size,
        "unread": export.unread(),
    }
    where = ["participant", "trial", "block"]
    return Recording(
        path.name,
        "tobii",
        samples=table[[*where, "time", *values, "stimulus"]] if values else None,
        fixations=fixations,
        saccades=saccades,
        messages=_messages(messages, texts, time, table, trials),
        trials=trials,
        info=info,
        lost=export.lost,
    )


def _times(export: Export, stated: str | None) -> tuple[np.ndarray, dict[str, str]]:
    header = export.need(TIME, what="the recording time stamp")
    studio = header.name.startswith("RecordingTimestamp")
    unit = time_unit(header, stated, "ms" if studio else None, export.source)
    return to_ms(export.numbers(header), unit), {"time": unit}


def _resolution(export: Export) -> tuple[float, float] | None:
    """Return the screen size that the file states in every row."""
    width, height = (export.find(f"recordingresolution{side}") for side in ("width", "height"))
    if width is not None and height is not None:
        sides = [export.numbers(h) for h in (width, height)]
        sizes = {(w, h) for w, h in zip(*(np.unique(s[s > 0]) for s in sides), strict=False)}
        if len(sizes) == 1 and all(len(np.unique(s[s > 0])) == 1 for s in sides):
            return check_screen(sizes.pop())
        return None
    both = export.find("recordingresolution")
    if both is None:
        return None
    texts = export.text(both).dropna().unique()
    parts = fold(texts[0]).replace("×", "x").split("x") if len(texts) == 1 else []
    try:
        return check_screen([float(p) for p in parts]) if len(parts) == 2 else None
    except ValueError:
        return None


def _kinds_of_row(export: Export) -> tuple[np.ndarray, pd.Series]:
    """Return which rows are of the eye tracker, and the text of messages (missing elsewhere)."""
    rows = len(export.frame)
    text = missing_text(rows)
    for keys in (("event", "eventvalue"), ("studioevent", "studioeventdata")):
        name, value = export.find(keys[0]), export.find(keys[1])
        if name is not None:
            words = export.text(name)
            if value is not None:
                words = words + (" " + export.text(value)).fillna("")
            text = text.fillna(words)
    for key in ("keypressevent", "mouseevent", "externalevent"):
        header = export.find(key)
        if header is not None:
            text = text.fillna(header.name + " " + export.text(header))
    sensor = export.find("sensor")
    if sensor is not None:
        kind = export.text(sensor)
        eye = folded(kind).eq("eye tracker").to_numpy(dtype=bool, na_value=False)
        for other, count in kind[~eye].value_counts().items():
            export.lost.add("samples", "dropped", f"rows of another sensor: {other}", int(count))
        silent = int((~eye & kind.isna() & text.isna()).sum())
        export.lost.add("samples", "dropped", "rows of no sensor, without an event", silent)
        return eye, text
    empty = np.ones(rows, dtype=bool)
    for header in (h for hs in export.headers.values() for h in hs):
        if header.key != TIME and (_is_number(header) or header.key.startswith("validity")):
            if not header.key.startswith("recordingresolution"):
                cells = export.frame[header.name]
                empty &= (cells.isna() | cells.astype("str").str.strip().eq("")).to_numpy(bool)
    return ~(empty & text.notna().to_numpy()), text


def _gaze(
    export: Export, screen: tuple[float, float] | None
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return gaze and pupil by our names where they are pixels, else by the file's names."""
    out: dict[str, np.ndarray] = {}
    units: dict[str, str] = {}
    for side in ("", *EYES):
        suffix = f"_{side}" if side else ""
        choices = [
            (u, f)
            for u, f in (("px", "DACS"), ("px", "ADCS"), ("px", None), ("norm", "DACS"))
            if export.find(f"gazepoint{side}x", unit=u, frame=f)
            and export.find(f"gazepoint{side}y", unit=u, frame=f)
        ]
        bare = export.find(f"gazepoint{side}x"), export.find(f"gazepoint{side}y")
        if choices:
            unit, frame = choices[0]
            x, y = (export.find(f"gazepoint{side}{a}", unit=unit, frame=frame) for a in "xy")
        elif all(h is not None and h.bracket is None for h in bare):
            unit, (x, y) = "px", bare  # older Pro Lab: display pixels without a unit
        else:
            unit, (x, y) = None, bare
        if x is None or y is None:
            continue
        xs, ys = export.numbers(x), export.numbers(y)
        frame = x.frame or "display"
        if unit == "norm" and screen is not None:
            xs, ys = to_pixels(xs, ys, screen)
            frame += ", converted from 0..1"
        elif unit != "px":
            out[x.name], out[y.name] = xs, ys
            what = x.bracket or "an unknown unit"
            hint = ": screen=(width, height) makes them pixels" if unit == "norm" else ""
            export.lost.add(
                "samples", "note", f"{x.name!r} kept in {what}, not pixels{hint}", len(xs)
            )
            units[x.name] = x.unit or str(x.bracket)
            continue
        out[f"x{suffix}"], out[f"y{suffix}"] = xs, ys
        units[f"x{suffix}"] = units[f"y{suffix}"] = f"px ({frame})"
    for side, keys in PUPILS.items():
        header = export.find(*keys)
        if header is not None:
            out[f"pupil_{side}"] = export.numbers(header)
            units[f"pupil_{side}"] = header.unit or "mm"
    return out, units


def _flag(table: pd.DataFrame, export: Export, rows: np.ndarray, largest: int) -> None:
    """Make the gaze of flagged rows missing."""
    flags: list[np.ndarray] = []
    for side in EYES:
        header = export.find(f"validity{side}")
        if header is None:
            continue
        cells = export.text(header)[rows].reset_index(drop=True)
        row_code, marks = pd.factorize(cells)
        number = pd.to_numeric(pd.Series(marks, dtype="str"), errors="coerce").to_numpy(float)
        words = pd.Series(marks, dtype="str").str.casefold()
        fine = (words.isin(["valid", "invalid"]) | np.isin(number, range(-1, 5))).to_numpy()
        wrong = words.eq("invalid").to_numpy() | (number > largest) | (number < 0)
        known = np.append(fine, True)[row_code]  # an empty cell flags nothing
        bad = np.append(wrong, False)[row_code]
        if not known.all():
            raise DataError(
                f"column {header.name!r} has an unknown mark",
                source=export.source,
                row=int(np.flatnonzero(~known)[0]) + export.first_row,
                expected="Valid, Invalid, or a code from 0 to 4",
                found=repr(cells[~known].iloc[0]),
            )
        own = [c for c in map(str, table) if c.endswith(f"_{side}") or f"point {side}" in c.lower()]
        blank(table, own, bad, export.lost, f"{side} eye flagged invalid ({header.name})")
        flags.append(bad)
    if len(flags) == 2 and "x" in table:
        both = flags[0] & flags[1]
        blank(table, ("x", "y"), both, export.lost, "gaze of both eyes flagged invalid")


def _event_columns(export: Export) -> pd.DataFrame:
    """Return kind, index, duration and position of the eye movement of each row."""
    rows = len(export.frame)
    empty = np.full(rows, np.nan)
    kind = export.find("eyemovementtype", "gazeeventtype")
    duration = export.find("gazeeventduration", "eyemovementeventduration")
    columns: dict[str, Any] = {
        "kind": export.text(kind) if kind is not None else missing_text(rows),
        "duration": to_ms(export.numbers(duration), time_unit(duration, None, "ms", export.source))
        if duration is not None
        else empty,
    }
    for name, keys in (
        ("index", ("eyemovementtypeindex", "fixationindex")),
        ("saccade_index", ("saccadeindex",)),
        ("amplitude", ("saccadicamplitude",)),
    ):
        header = export.find(*keys)
        columns[name] = export.numbers(header) if header is not None else empty
    for axis in "xy":
        key = f"fixationpoint{axis}"
        header = export.find(key, unit="px") or export.find(key)
        ok = header is not None and (header.unit == "px" or header.bracket is None)
        columns[axis] = export.numbers(header) if header is not None and ok else empty
    return pd.DataFrame(columns)


def _events(
    table: pd.DataFrame, events: pd.DataFrame, export: Export, gaze: bool
) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    """Return fixations and saccades from the rows that belong to each."""
    kind = folded(events["kind"])
    if not kind.notna().any():
        return None, None
    number = events["index"].where(kind != "saccade", events["saccade_index"])
    number = number.fillna(events["index"])
    new = changes(kind, number, table["block"])
    new[0] = True
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(new)) - 1
    times, block = table["time"].to_numpy(), table["block"].to_numpy()
    rate = rate_of(times, block)
    own = times[last] - times[first] + (1000.0 / rate if rate and gaze else 0.0)
    spans = events.iloc[first].reset_index(drop=True)
    stated = spans["duration"].to_numpy()
    out = table[["participant", "trial", "block"]].iloc[first].reset_index(drop=True)
    out["eye"] = pd.Series("both", index=out.index, dtype="str")
    out["onset"] = times[first]
    out["duration"] = np.where(np.isfinite(stated), stated, own)
    run = np.cumsum(new) - 1
    for axis in "xy":
        out[axis] = events[axis].groupby(run).first().to_numpy()
    out["amplitude"] = spans["amplitude"].to_numpy()
    what = kind.iloc[first].reset_index(drop=True)
    ours = what.isin(["fixation", "saccade"])
    export.lost.add(
        "fixations",
        "note",
        "events without a stated duration: from their first to their last sample",
        int((ours & ~np.isfinite(stated)).sum()),
        "events",
    )
    for other, count in what[~ours].value_counts().items():
        export.lost.add("events", "note", f"not kept: {other}", int(count), "events")
    fixations = out[what == "fixation"].drop(columns="amplitude").reset_index(drop=True)
    saccades = out[what == "saccade"].drop(columns=["x", "y"]).reset_index(drop=True)
    return fixations, saccades


def _messages(
    text: pd.Series,
    texts: dict[str, pd.Series],
    time: np.ndarray,
    table: pd.DataFrame,
    trials: pd.DataFrame | None,
) -> pd.DataFrame | None:
    """Return the events of the export, each in the block of its participant and recording."""
    there = text.notna().to_numpy()
    if not there.any():
        return None
    out = pd.DataFrame({"time": time[there], "text": text[there].to_numpy()})
    out["participant"] = texts["participant"][there].to_numpy()
    key = texts["participant"].fillna("") + "\0" + texts["recording"].fillna("")
    owner = table["participant"].fillna("") + "\0" + table["recording"].fillna("")
    blocks = pd.DataFrame({"key": owner, "block": table["block"], "time": table["time"]})
    spans = blocks.groupby(["key", "block"], sort=True)["time"].agg(["min", "max"]).reset_index()
    block = np.full(len(out), -1)
    keys = key[there].to_numpy()
    for span in spans.itertuples():
        inside = (keys == span.key) & ((block < 0) | (out["time"].to_numpy() >= span.min))
        block[inside] = span.block
    out["block"] = pd.Series(block).where(pd.Series(block) >= 0).astype("Int64")
    out["trial"] = trial_at(out["time"].to_numpy(), block, trials)
    out["text"], out["participant"] = out["text"].astype("str"), out["participant"].astype("str")
    return out[["participant", "trial", "block", "time", "text"]]
