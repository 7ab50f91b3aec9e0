"""Exports of Tobii Pro Lab and Tobii Studio: samples, fixations, saccades, events, media."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.readers._doubts import note_doubts
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
from gazeattn.readers._units import (
    Header,
    check_screen,
    fold,
    option,
    parse_header,
    time_unit,
    to_ms,
    to_pixels,
)
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
DISPLAY, MEDIA = "DISPLAY", "MCS"
FRAMES_OF: dict[str, tuple[str | None, ...]] = {DISPLAY: ("DACS", "ADCS", None), MEDIA: ("MCS",)}
"""Frame of x and y to the marks of the file: screen (None: no mark), and media."""
FRAME_OF = {str(mark): frame for frame, marks in FRAMES_OF.items() for mark in (frame, *marks)}
EVENT_COLUMNS = ("kind", "duration", "index", "saccade_index", "amplitude", "x", "y")
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
    frame: str | None = None,
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
    frame : {"DACS", "ADCS", "MCS"} or None
        Frame of ``x, y`` of samples and fixations alike: the screen (DACS, ADCS) or the media
        (MCS). None: the first in which both have pixels, else that of the samples. What stands
        in another frame only keeps the names of the file, with a note.
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
    chosen = _frame(export, frame)
    samples, found = _gaze(export, size, chosen)
    units |= found
    table = pd.DataFrame({**texts, "time": time, **samples})[eye_rows].reset_index(drop=True)
    if not len(table):
        raise DataError(f"0 of {len(time)} rows valid: no row of an eye tracker", source=path)
    _flag(table, export, eye_rows, max_validity)
    events = _event_columns(export, size, chosen)[eye_rows].reset_index(drop=True)
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
    shown_on = size if chosen == DISPLAY else None  # the media may be smaller than the screen
    review_positions(table, shown_on, export.lost, "samples")
    if fixations is not None:
        review_positions(fixations, shown_on, export.lost, "fixations")
    info: dict[str, Any] = {
        "tracker": "Tobii",
        "units": units,
        "rate": rate_of(times, block),
        "eyes": [e for e in EYES if {f"x_{e}", f"pupil_{e}"} & set(table)],
        "screen": size,
        "unread": export.unread(),
    }
    where = ["participant", "trial", "block"]
    recording = Recording(
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
    return note_doubts(recording)


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


def _frame(export: Export, stated: str | None) -> str:
    """Return the frame of x and y: DISPLAY (DACS, ADCS, or none is named) or MCS, of the media.

    Samples and fixations share it: the first frame in which both have pixels, else that of the
    samples.

    Raises
    ------
    DataError
        The stated frame is none of them, or neither samples nor fixations have it.
    """
    gaze, fixations = (
        [f for f in (DISPLAY, MEDIA) if any(_has_pixels(export, k, f) for k in keys)]
        for keys in (tuple(f"gazepoint{side}" for side in ("", *EYES)), ("fixationpoint",))
    )
    if stated is None:
        both = [f for f in gaze if f in fixations]
        return (both or gaze or fixations or [DISPLAY])[0]
    frame = FRAME_OF.get(fold(stated).upper())
    if frame is None or frame not in (*gaze, *fixations):
        raise DataError(
            "no position in this frame" if frame else "unknown frame",
            source=export.source,
            expected=" or ".join(dict.fromkeys([*gaze, *fixations])) or "DACS, ADCS or MCS",
            found=repr(stated),
        )
    return frame


def _has_pixels(export: Export, key: str, frame: str) -> bool:
    """Say whether a position has pixels in a frame; the size of the media is never known."""
    found = _in_frame(export, key, frame)
    return found is not None and (found[2] == "px" or frame == DISPLAY)


def _in_frame(export: Export, key: str, frame: str) -> tuple[Header, Header, str] | None:
    """Return the columns of x and y in a frame, and their unit; None without."""
    for unit in ("px", "norm"):
        for name in FRAMES_OF[frame]:
            x, y = (
                next(
                    (
                        h
                        for h in export.headers.get(f"{key}{a}", ())
                        if h.unit == unit and h.frame == name
                    ),
                    None,
                )
                for a in "xy"
            )
            if x is not None and y is not None:
                return x, y, unit
    bare = tuple(export.find(f"{key}{a}") for a in "xy")
    if frame == DISPLAY and all(h is not None and h.bracket is None for h in bare):
        assert bare[0] is not None and bare[1] is not None
        return bare[0], bare[1], "px"  # older Pro Lab: display pixels without a unit
    return None


def _gaze(
    export: Export, screen: tuple[float, float] | None, frame: str
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return gaze and pupil by our names where they are pixels, else by the file's names."""
    out: dict[str, np.ndarray] = {}
    units: dict[str, str] = {}
    for side in ("", *EYES):
        suffix = f"_{side}" if side else ""
        found = _in_frame(export, f"gazepoint{side}", frame)
        unit: str | None = None
        x, y = export.find(f"gazepoint{side}x"), export.find(f"gazepoint{side}y")
        if found is not None:
            x, y, unit = found
        if x is None or y is None:
            continue
        xs, ys = export.numbers(x), export.numbers(y)
        named = x.frame or "display"
        if unit == "norm" and frame == DISPLAY and screen is not None:
            xs, ys = to_pixels(xs, ys, screen)
            named += ", converted from 0..1"
        elif unit != "px":
            out[x.name], out[y.name] = xs, ys
            what = x.bracket or "an unknown unit"
            why = f"kept in {what}, not pixels"
            if unit == "norm" and frame == DISPLAY:
                why += f": {option('screen', (1920, 1080))} makes them pixels"
            elif x.unit == "px":
                why = f"kept under its name: x and y are in another frame ({frame})"
            export.lost.add("samples", "note", f"{x.name!r} {why}", len(xs))
            units[x.name] = x.unit or str(x.bracket)
            continue
        out[f"x{suffix}"], out[f"y{suffix}"] = xs, ys
        units[f"x{suffix}"] = units[f"y{suffix}"] = f"px ({named})"
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
        own = [
            c
            for c in map(str, table)
            if c.endswith(f"_{side}") or parse_header(c).key.startswith(f"gazepoint{side}")
        ]
        blank(table, own, bad, export.lost, f"{side} eye flagged invalid ({header.name})")
        flags.append(bad)
    joint = [
        c
        for c in map(str, table)
        if c in ("x", "y") or parse_header(c).key in ("gazepointx", "gazepointy")
    ]
    if len(flags) == 2 and joint:
        both = flags[0] & flags[1]
        blank(table, joint, both, export.lost, "gaze of both eyes flagged invalid")


def _event_columns(export: Export, screen: tuple[float, float] | None, frame: str) -> pd.DataFrame:
    """Return kind, index, duration and position of the eye movement of each row.

    Positions in another frame than the samples', or in another unit than pixels, stand under the
    names of the file.
    """
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
    found = _in_frame(export, "fixationpoint", frame)
    if found is not None and found[2] == "norm":
        found = None if screen is None or frame != DISPLAY else found
    for axis, header in zip("xy", found[:2] if found is not None else (None, None), strict=True):
        columns[axis] = export.numbers(header) if header is not None else empty
    if found is not None and found[2] == "norm" and screen is not None:
        columns["x"], columns["y"] = to_pixels(columns["x"], columns["y"], screen)
    if found is None:
        for axis in "xy":
            header = export.find(f"fixationpoint{axis}")
            if header is not None:
                columns[header.name] = export.numbers(header)
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
    others = [c for c in map(str, events) if c not in EVENT_COLUMNS]
    for name in ("x", "y", *others):
        out[name] = events[name].groupby(run).first().to_numpy()
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
    saccades = out[what == "saccade"].drop(columns=["x", "y", *others]).reset_index(drop=True)
    if others:
        fixations = fixations.drop(columns=["x", "y"])
        reason = "kept under their names, not as x and y: another frame than the samples' or no px"
        export.lost.add("fixations", "note", f"{' and '.join(map(repr, others))} {reason}",
                        len(fixations))  # fmt: skip
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
