"""The event exports of SMI BeGaze: the text of the event detector, and event statistics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.readers._exports import (
    Export,
    load_export,
    missing_text,
    require_valid,
    review_positions,
)
from gazeattn.readers._order import arrange, changes, trial_at
from gazeattn.readers._units import check_screen, parse_header, time_unit, to_ms, unit_of
from gazeattn.recordings import Recording

EYES = {"l": "left", "r": "right"}
Options = tuple[str | None, bool, bool, str | None]
"""Stated time unit, use of validity flags, strict order, decimal mark."""

PICTURE = re.compile(
    r"^(?:#\s*Message:\s*)?(\S(?:[^\t]*\S)?\.(?:jpe?g|png|bmp|gif|tiff?|webp|svg|pdf|"
    r"html?|txt|avi|mp4|m4v|mov|mpe?g|wmv|mkv|swf))\s*$",
    re.IGNORECASE,
)
"""A message that names a picture, film or page."""

CATEGORIES = {
    "fixations": ("fixation", "visual intake"),
    "saccades": ("saccade",),
    "blinks": ("blink",),
}
EVENT_KINDS = {"Fixation": "fixations", "Saccade": "saccades", "Blink": "blinks"}
Keys = Mapping[str, tuple[str, ...]]
POSITION: Mapping[str, Keys] = {
    "fixations": {"x": ("locationx",), "y": ("locationy",), "pupil": ("avg.pupilsizex",)},
    "saccades": {
        "x_start": ("startloc.x",),
        "y_start": ("startloc.y",),
        "x_end": ("endloc.x",),
        "y_end": ("endloc.y",),
        "amplitude": ("amplitude",),
        "peak_velocity": ("peakspeed",),
    },
    "blinks": {},
}
STATISTICS: Mapping[str, Keys] = {
    "fixations": {
        "x": ("fixationpositionx", "visualintakepositionx"),
        "y": ("fixationpositiony", "visualintakepositiony"),
        "pupil": ("fixationaveragepupildiameter", "visualintakeaveragepupildiameter"),
    },
    "saccades": {
        "x_start": ("saccadestartpositionx",),
        "y_start": ("saccadestartpositiony",),
        "x_end": ("saccadeendpositionx",),
        "y_end": ("saccadeendpositiony",),
        "amplitude": ("saccadeamplitude",),
        "peak_velocity": ("saccadepeakvelocity",),
    },
    "blinks": {},
}
NUMERIC_STATISTICS = {k for group in STATISTICS.values() for ks in group.values() for k in ks} | {
    f"event{edge}{clock}time" for edge in ("start", "end") for clock in ("trial", "raw")
}


def info_of(header: dict[str, list[str]]) -> dict[str, Any]:
    """Return the facts of the ``## name: values`` lines."""
    info: dict[str, Any] = {"tracker": "SMI", "units": {}}
    for name, key in (("Date", "date"), ("Version", "version"), ("Description", "description")):
        if name in header and header[name][0]:
            info[key] = header[name][0]
    try:
        info["rate"] = float(header["Sample Rate"][0])
    except (KeyError, ValueError):
        pass
    for name, key in (("Calibration Area", "screen"), ("Stimulus Dimension [mm]", "screen_mm")):
        try:
            info[key] = check_screen([float(v) for v in header[name][:2]])
        except (KeyError, ValueError, DataError):  # not written, or written as a dash
            pass
    return info


def owners_of(export: Export, header: dict[str, list[str]]) -> tuple[pd.DataFrame, np.ndarray]:
    """Return participant and trial of each row, and where another participant begins.

    A trial is what the column ``Trial`` names, without one what ``Stimulus`` does; the column
    is called ``stimulus``, as `arrange` wants it, until `set_stimuli`.
    """
    rows = len(export.frame)
    subject = header.get("Subject", [""])[0]
    column = export.find("participant")
    if column is not None:
        who = export.text(column)
    else:
        who = pd.Series([subject] * rows, dtype="str") if subject else missing_text(rows)
    trial = export.find("trial") or export.find("stimulus")
    names = export.text(trial) if trial is not None else missing_text(rows)
    frame = pd.DataFrame({"participant": who, "stimulus": names})
    return frame, changes(frame["participant"])


def set_stimuli(
    trials: pd.DataFrame | None,
    trial: pd.Series,
    shown: pd.Series | None,
    messages: pd.DataFrame,
    lost: LossLog,
) -> None:
    """Put the picture of each trial where `arrange` has put the name of the trial, in place.

    Parameters
    ----------
    trials
        The table of `arrange`: its ``stimulus`` is what the column ``Trial`` says.
    trial, shown
        Per row: the trial, and the cell of the column ``Stimulus`` (None without the column).
    messages
        ``trial`` (cell of the message line), ``time``, ``text``. Without a column ``Stimulus``
        the picture is the one that a message such as ``# Message: page.jpg`` names.
    """
    if trials is None:
        return
    if shown is not None:
        shown = shown.where(shown != "-")  # how BeGaze writes that there is none
        there = shown.notna().to_numpy() & trial.notna().to_numpy()
        groups = shown[there].groupby(trial[there].to_numpy(), sort=False)
        first = trials["trial"].map(groups.first())
        several = int((groups.nunique() > 1).sum())
        how = "the column Stimulus names"
    else:
        picture = messages["text"].str.extract(PICTURE, expand=False).str.strip()
        named = messages.assign(picture=picture)[picture.notna().to_numpy(dtype=bool)]
        found: list[str | None] = []
        several, earlier = 0, -np.inf
        again = trials["stimulus"].duplicated(keep=False).to_numpy()
        for name, end, repeated in zip(trials["stimulus"], trials["end"], again, strict=True):
            own = named[(named["trial"] == name).to_numpy(dtype=bool, na_value=False)]
            if repeated:  # one name, several trials: what was sent since the one before
                own = own[((own["time"] > earlier) & (own["time"] <= end)).to_numpy(dtype=bool)]
            found.append(own["picture"].iloc[0] if len(own) else None)
            several += own["picture"].nunique() > 1
            earlier = end
        first = pd.Series(found, index=trials.index, dtype=object)
        how = "messages name"
    trials["stimulus"] = first.astype(object).where(first.notna(), None).astype("str")
    reason = f"{how} several stimuli in one trial: the first is that of the trial"
    lost.add("trials", "note", reason, several, "trials")
    nothing = int(trials["stimulus"].isna().sum())
    lost.add("trials", "undefined", "no stimulus is named", nothing, "trials")


def _events_of(
    export: Export,
    kind: str,
    keys: Keys,
    clocks: tuple[str, str, str],
    stated: str | None,
    header: dict[str, list[str]],
    eye: pd.Series,
) -> pd.DataFrame:
    """Return one kind of event with our columns, in file order.

    `clocks` are the keys of the columns of start and end, and their unit where it is not written.
    """
    start, stop, default = clocks
    clock = export.need(start, what="the start")
    unit = time_unit(clock, stated if clock.bracket is None else None, default, export.source)
    onset = to_ms(export.numbers(clock), unit)
    owners = owners_of(export, header)[0]
    stimulus = export.find("stimulus")
    if stimulus is not None:
        shown = export.text(stimulus)
        owners["stimulus"] = owners["stimulus"].fillna(shown)
        owners["shown"] = shown.to_numpy()
    length, end = export.find("duration", "eventduration"), export.find(stop)
    if length is not None:
        written = stated if length.bracket is None else None
        duration = to_ms(export.numbers(length), time_unit(length, written, default, export.source))
    elif end is not None:
        duration = to_ms(export.numbers(end), unit) - onset
    else:
        duration = np.full(len(onset), np.nan)
    table = owners.assign(kind=kind, eye=eye, onset=onset, duration=duration)
    for name, choices in keys.items():
        values = np.full(len(table), np.nan)
        for column in filter(None, (export.find(c) for c in choices)):
            values = np.where(np.isfinite(values), values, export.numbers(column))
        table[name] = values
    aoi = export.find("aoiname")
    if aoi is not None and kind == "fixations":
        names = export.text(aoi)
        table["area"] = names.where(~names.isin(["-", "White Space"]))
    timed = np.isfinite(onset)
    export.lost.add(kind, "dropped", "events without a start", int((~timed).sum()))
    return table[timed]


def _finish(
    recording: Recording,
    path: Path,
    parts: list[pd.DataFrame],
    strict: bool,
    by_trial: bool,
    rows: int,
    messages: pd.DataFrame,
) -> None:
    """Put the events of all kinds in order together, so that all have the same trials."""
    if not sum(map(len, parts)):
        reasons = "; ".join(f"{x.reason}: {x.count}" for x in recording.lost if x.kind != "note")
        raise DataError(
            f"0 of {rows} rows valid: no fixation, saccade or blink",
            source=path,
            found=reasons or None,
        )
    table = pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)
    for name in ("participant", "stimulus", "shown", "eye", "kind", "area"):
        if name in table:
            table[name] = table[name].astype("str")
    forced = changes(table["stimulus"]) if by_trial else np.zeros(len(table), bool)
    lane = table["kind"] + "\0" + table["eye"].fillna("")
    table, recording.trials, _ = arrange(
        table,
        forced,
        recording.lost,
        source=path,
        step="events",
        strict=strict,
        clock="onset",
        lane=lane,
    )
    shown = table["shown"] if "shown" in table else None
    set_stimuli(recording.trials, table["trial"], shown, messages, recording.lost)
    screen = recording.info.get("screen")
    for part in parts:
        if not len(part):
            continue
        kind = str(part["kind"].iloc[0])
        made = table[(table["kind"] == kind).to_numpy()].reset_index(drop=True)
        names = [c for c in part if c not in ("kind", "stimulus", "shown", "participant")]
        made = made[["participant", "trial", "block", *names]]
        review_positions(made, screen, recording.lost, kind)
        setattr(recording, kind, made)
    if recording.fixations is not None:
        require_valid(recording.fixations, ("x", "y", "duration"), recording.lost, path)


def read_events(
    recording: Recording,
    path: Path,
    table: bytes,
    header: dict[str, list[str]],
    options: Options,
) -> None:
    """Read the text of the event detector: one header line per kind, then all events mixed."""
    stated, _, strict, decimal = options
    text = table.decode("utf-8")
    plain = dict(re.findall(r"(?m)^(?:## )?([A-Z][\w ]*):[\t ]*([^\n]*)$", text[:20000]))
    header = {k: [v.strip()] for k, v in plain.items()} | header
    recording.info |= {k: v for k, v in info_of(header).items() if k not in recording.info}
    recording.info["units"] = {"time": stated or "us", "position": "px"}
    layouts = {
        found[1]: (found[2], found.end())
        for found in re.finditer(r"(?m)^(?:## )?Table Header for ([\w ]+):\s*\n([^\n]+)$", text)
    }
    begin = max((end for _, end in layouts.values()), default=0)
    parts: list[pd.DataFrame] = []
    rows = 0
    for kind, name in EVENT_KINDS.items():
        found = list(re.compile(rf"(?m)^{kind} [LR]\t[^\n]*$").finditer(text, begin))
        rows += len(found)
        layout = layouts.get(f"{kind}s")
        if not found or layout is None:
            recording.lost.add(name, "dropped", f"no table header for {kind}s", len(found))
            continue
        data = "\n".join([layout[0], *(f[0] for f in found), ""]).encode("utf-8")
        export = load_export(
            path,
            data,
            lambda h: h.key not in ("eventtype", "trial", "plane"),
            decimal=decimal,
            step=name,
        )
        eye = export.text(export.need("eventtype", what="the event type")).str[-1].str.lower()
        made = _events_of(
            export,
            name,
            POSITION[name],
            ("start", "end", "us"),
            stated,
            header,
            eye.map(EYES).astype("str"),
        )
        made.index = pd.Index([found[i].start() for i in made.index])
        parts.append(made)
        recording.lost.extend(export.lost)
    messages = _user_events(recording, text[begin:], layouts, stated)
    _finish(recording, path, parts, strict, False, rows, messages)
    recording.messages = _with_owners(messages, recording)


NO_MESSAGES = pd.DataFrame({"trial": [], "time": [], "text": []}).astype(
    {"trial": "str", "time": "float64", "text": "str"}
)


def _user_events(
    recording: Recording,
    body: str,
    layouts: dict[str, tuple[str, int]],
    stated: str | None,
) -> pd.DataFrame:
    """Return trial (cell of the line), time and text of the user events."""
    lines = re.findall(r"(?m)^UserEvent\t[^\n]*$", body)
    layout = layouts.get("User Events")
    if not lines or layout is None:
        recording.lost.add("messages", "dropped", "no table header for User Events", len(lines))
        return NO_MESSAGES
    cells = [line.split("\t", layout[0].count("\t")) for line in lines]
    names = [parse_header(n).key for n in layout[0].split("\t")]
    if not {"start", "description"} <= set(names):
        recording.lost.add(
            "messages", "dropped", "user events without Start, Description", len(lines)
        )
        return NO_MESSAGES
    whole = [c for c in cells if len(c) == len(names)]
    frame = pd.DataFrame(whole, columns=names, dtype="str")
    start = pd.to_numeric(frame["start"], errors="coerce").astype("float64")
    fine = np.isfinite(start.to_numpy())
    recording.lost.add(
        "messages", "dropped", "without a time or text", len(lines) - int(fine.sum())
    )
    frame, start = frame[fine], start[fine]
    times = to_ms(start.to_numpy(), unit_of(stated) or "us" if stated else "us")
    named = frame["trial"] if "trial" in frame else missing_text(len(frame))
    return pd.DataFrame(
        {
            "trial": named.str.strip().to_numpy(),
            "time": times,
            "text": frame["description"].to_numpy(),
        }
    ).astype({"trial": "str", "text": "str"})


def _with_owners(messages: pd.DataFrame, recording: Recording) -> pd.DataFrame | None:
    """Return the messages with their participant, and the trial by their time."""
    if not len(messages):
        return None
    owner = missing_text(len(messages))
    table = next((t for t in (recording.fixations, recording.saccades) if t is not None), None)
    if table is not None and table["participant"].nunique() == 1:
        owner = owner.fillna(table["participant"].iloc[0])
    times, block = messages["time"].to_numpy(), np.zeros(len(messages), dtype=int)
    return pd.DataFrame(
        {
            "participant": owner.astype("str"),
            "trial": trial_at(times, block, recording.trials),
            "time": times,
            "text": messages["text"],
        }
    )


def read_statistics(
    recording: Recording,
    path: Path,
    table: bytes,
    header: dict[str, list[str]],
    options: Options,
) -> None:
    """Read the table of single events of the metrics export."""
    stated, _, strict, decimal = options
    export = load_export(
        path,
        table,
        lambda h: h.key in NUMERIC_STATISTICS or h.key == "eventduration",
        decimal=decimal,
        step="events",
    )
    category = export.text(export.need("category", what="the kind of event")).str.casefold()
    clock = "raw" if export.find("eventstartrawtime") is not None else "trial"
    recording.info["units"] = {"time": f"ms ({clock} time)", "position": "px"}
    side = export.find("eyel/r", "eye")
    parts: list[pd.DataFrame] = []
    for name, names in CATEGORIES.items():
        chosen = category.isin(names).to_numpy(dtype=bool, na_value=False)
        if not chosen.any():
            continue
        part = export.keep(chosen)
        eye = missing_text(len(part.frame))
        if side is not None:
            eye = part.text(side).str.lower().str[0].map({**EYES, "b": "both"}).astype("str")
        made = _events_of(
            part,
            name,
            STATISTICS[name],
            (f"eventstart{clock}time", f"eventend{clock}time", "ms"),
            stated,
            header,
            eye,
        )
        made.index = pd.Index(np.flatnonzero(chosen)[made.index])
        parts.append(made)
    recording.lost.extend(export.lost)
    known = category.isin([n for names in CATEGORIES.values() for n in names])
    for other, count in category[~known].fillna("no category").value_counts().items():
        recording.lost.add("events", "dropped", f"rows of category {other!r}", int(count))
    recording.info["unread"] = export.unread()
    _finish(recording, path, parts, strict, clock == "trial", len(category), NO_MESSAGES)
