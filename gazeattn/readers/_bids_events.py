"""Events of BIDS eye tracking: ``physioevents`` of the tracker, and trials of ``events``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.columns import as_number
from gazeattn.errors import DataError
from gazeattn.readers._bids_names import (
    EYE_OF,
    column_unit,
    is_names,
    number_of,
    restored,
    sidecar,
)
from gazeattn.readers._exports import load_export, unpack
from gazeattn.readers._units import Header, time_unit, to_ms, unit_of
from gazeattn.readers.textfile import Format, file_bytes
from gazeattn.recordings import Recording

TSV = Format(encoding="utf-8", separator="\t")
TABLES = {"fixation": "fixations", "saccade": "saccades", "blink": "blinks"}
ROW = "table_row"
"""Column of the file with the row that an event has in the table it comes from."""
PLACE = "\0row"
"""The same while a file is read: no column of a file has this name."""


def read_tsv(path: Path, columns: list[str] | None) -> pd.DataFrame:
    """Return a TSV file as text; `columns` are the names where the file has no header."""
    data = unpack(path, file_bytes(path))
    if columns is not None:
        header = "\t".join(columns).encode("utf-8")
        if path.suffix == ".gz" or data.split(b"\n", 1)[0].rstrip(b"\r") != header:
            data = header + b"\n" + data
    return load_export(path, data, lambda h: False, form=TSV, first_row=1, step="events").frame


def _beside(path: Path, suffix: str, drop_recording: bool = False) -> Path | None:
    """Return the file of another suffix that belongs to a physio file."""
    stem = path.name.partition("_physio.")[0]
    if drop_recording:
        stem = "_".join(p for p in stem.split("_") if not p.startswith("recording-"))
    for end in (".tsv.gz", ".tsv"):
        other = path.with_name(f"{stem}_{suffix}{end}")
        if other.is_file():
            return other
    return None


def _number(frame: pd.DataFrame, name: str, path: Path) -> np.ndarray:
    if name not in frame:
        return np.full(len(frame), np.nan)
    return as_number(frame[name], name, path, 1).to_numpy(copy=True)


def _text(frame: pd.DataFrame, name: str) -> pd.Series:
    if name not in frame:
        return pd.Series(np.full(len(frame), np.nan), dtype="str")
    return frame[name].where(frame[name] != "n/a").astype("str")


def add_events(
    recording: Recording,
    path: Path,
    physio: Mapping[str, Any],
    time: np.ndarray,
    own: Mapping[str, Any],
    stated: str | None,
) -> None:
    """Add the events of one eye's ``physioevents`` file to the recording."""
    file = _beside(path, "physioevents")
    if file is None or not _unpacked_or_empty(file).strip():
        return
    meta = sidecar(file, "physioevents")
    columns = meta.get("Columns")
    if not is_names(columns) or "onset" not in columns:
        raise DataError(
            "the sidecar of the events must name the columns, onset among them",
            source=file,
            found=repr(columns)[:80],
        )
    frame = read_tsv(file, columns)
    frame["onset"] = _onsets(frame, meta, physio, time, file, stated)
    frame["duration"] = _durations(frame, meta, physio, recording, file, stated)
    kind = _text(frame, "trial_type").str.casefold()
    eye = EYE_OF.get(str(physio.get("RecordedEye")), "")
    for name, table in TABLES.items():
        rows = frame[(kind == name).to_numpy(dtype=bool, na_value=False)].reset_index(drop=True)
        if not len(rows):
            continue
        _append(recording, table, _own_or(rows, table, own, file, eye, recording))
    other = (~kind.isin(TABLES)).to_numpy()
    rows = frame[other].reset_index(drop=True)
    if len(rows):
        _append(recording, "messages", _as_messages(rows, own, file, recording))
    if own:
        return
    recording.lost.add(
        "messages",
        "note",
        "events of other types are messages",
        int((other & kind.notna().to_numpy()).sum()),
    )


def _unpacked_or_empty(path: Path) -> bytes:
    """Return the bytes of a file, none where it is an empty gzip file."""
    try:
        return unpack(path, file_bytes(path))
    except DataError as error:
        if error.message == "the file is empty":
            return b""
        raise


def _onsets(
    frame: pd.DataFrame,
    meta: Mapping[str, Any],
    physio: Mapping[str, Any],
    time: np.ndarray,
    path: Path,
    stated: str | None,
) -> np.ndarray:
    onset = _number(frame, "onset", path)
    source = meta.get("OnsetSource", "timestamp")
    if source == "n/a":  # rows of the physio file, also before its begin
        rate = number_of(physio, "SamplingFrequency")
        if rate is None or not rate > 0:
            raise DataError("onsets are rows, but no SamplingFrequency is stated", source=path)
        if not len(time):
            return np.full(len(onset), np.nan)
        step = 1000.0 / rate
        inside = np.isfinite(onset) & (onset >= 0) & (onset < len(time))
        rows = np.where(inside, onset, 0).astype(int)
        beyond = np.where(
            onset < 0, time[0] + onset * step, time[-1] + (onset - len(time) + 1) * step
        )
        return np.where(inside, time[rows], beyond)
    unit = column_unit(physio, str(source))
    header = Header(str(source), str(source), unit_of(unit) if unit else None, unit)
    return to_ms(onset, time_unit(header, stated, None, path))


def _durations(
    frame: pd.DataFrame,
    meta: Mapping[str, Any],
    physio: Mapping[str, Any],
    recording: Recording,
    path: Path,
    stated: str | None,
) -> np.ndarray:
    duration = _number(frame, "duration", path)
    unit = column_unit(meta, "duration")
    if unit is None and meta.get("OnsetSource", "timestamp") != "n/a":
        unit = column_unit(physio, str(meta.get("OnsetSource", "timestamp"))) or stated
    if unit is None:
        recording.lost.add(
            "events",
            "undefined",
            "durations whose unit the sidecar does not say",
            int(np.isfinite(duration).sum()),
        )
        return np.full(len(duration), np.nan)
    header = Header("duration", "duration", unit_of(unit), unit)
    return to_ms(duration, time_unit(header, None, None, path))


def _own_or(
    rows: pd.DataFrame,
    table: str,
    own: Mapping[str, Any],
    path: Path,
    eye: str,
    recording: Recording,
) -> pd.DataFrame:
    """Return events with our columns: as they were written by us, or as BIDS names them."""
    who = _participant(recording, len(rows))
    if own:
        rows = rows.assign(participant=who)
        columns = own.get("tables", {}).get(table, [])
        renamed = own.get("renamed", {}).get(table)
        return restored(rows, columns, path, renamed).assign(**{PLACE: _number(rows, ROW, path)})
    out = pd.DataFrame({"participant": who})
    out["eye"] = pd.Series([eye or "both"] * len(rows), dtype="str")
    out["onset"], out["duration"] = rows["onset"].to_numpy(), rows["duration"].to_numpy()
    for name in rows.columns.difference(["onset", "duration", "trial_type", "message"], sort=False):
        text = _text(rows, str(name))
        try:
            out[name] = as_number(text)
        except DataError:
            out[name] = text
    return out


def _as_messages(
    rows: pd.DataFrame, own: Mapping[str, Any], path: Path, recording: Recording
) -> pd.DataFrame:
    who = _participant(recording, len(rows))
    others = {"time", "text"} if "message" in rows else {"time"}  # columns of fixations, ...
    rows = rows.drop(columns=[c for c in rows if c in others])
    rows = rows.rename(columns={"onset": "time", "message": "text"}).assign(participant=who)
    if own:
        columns = own.get("tables", {}).get("messages", [])
        renamed = own.get("renamed", {}).get("messages")
        return restored(rows, columns, path, renamed).assign(**{PLACE: _number(rows, ROW, path)})
    text = _text(rows, "text").fillna(_text(rows, "trial_type"))
    there = text.notna().to_numpy()
    recording.lost.add("messages", "dropped", "without a text or type", int((~there).sum()))
    out = pd.DataFrame({"participant": who, "time": rows["time"].to_numpy(), "text": text})
    return out[there].reset_index(drop=True)


def _participant(recording: Recording, rows: int) -> pd.Series:
    samples = recording.samples
    first = None
    if samples is not None and "participant" in samples and len(samples):
        first = samples["participant"].iloc[0]
    return pd.Series([first if isinstance(first, str) else np.nan] * rows, dtype="str")


def _append(recording: Recording, name: str, table: pd.DataFrame) -> None:
    """Add rows to a table of the recording; those that we wrote go back to their places."""
    old = getattr(recording, name)
    if old is not None:
        table = pd.concat([old, table], ignore_index=True)
    if PLACE in table and len(table):
        table = table.sort_values(PLACE, kind="stable", ignore_index=True)
    setattr(recording, name, table)


def add_trials(
    recording: Recording, path: Path, physio: Mapping[str, Any], own: Mapping[str, Any]
) -> None:
    """Add the trials of the ``events`` file; rows that name no trial become messages."""
    for name in (*TABLES.values(), "messages"):
        table = getattr(recording, name)
        if table is not None and PLACE in table:
            setattr(recording, name, table.drop(columns=PLACE))
    if own:
        for name in (*TABLES.values(), "messages", "trials"):
            columns = own.get("tables", {}).get(name)
            if columns is not None and getattr(recording, name) is None:
                empty = pd.DataFrame({c: pd.Series([], dtype="str") for c, _ in columns})
                setattr(recording, name, restored(empty, columns, path))
    file = _beside(path, "events", drop_recording=True)
    if file is None:
        return
    frame = read_tsv(file, None)
    if not {"onset", "duration"} <= set(frame):
        raise DataError(
            "an events file must have onset and duration",
            source=file,
            found=", ".join(map(str, frame.columns)),
        )
    if own and "trials" in own.get("tables", {}):
        who = _participant(recording, len(frame))
        columns = own["tables"]["trials"]
        renamed = own.get("renamed", {}).get("trials")
        recording.trials = restored(frame.assign(participant=who), columns, file, renamed)
        return
    samples = recording.samples
    assert samples is not None
    zero = number_of(physio, "StartTime") or 0.0
    first = float(samples["time"].iloc[0]) if len(samples) else 0.0
    onset = first + (_number(frame, "onset", file) - zero) * 1000.0
    length = _number(frame, "duration", file) * 1000.0
    names = _text(frame, "trial")
    is_trial = names.notna().to_numpy() & ~names.duplicated(keep=False).to_numpy()
    if is_trial.any():
        recording.trials = pd.DataFrame(
            {
                "participant": _participant(recording, int(is_trial.sum())),
                "trial": names[is_trial].to_numpy(),
                "start": onset[is_trial],
                "end": (onset + length)[is_trial],
            }
        )
        recording.trials["trial"] = recording.trials["trial"].astype("str")
    rest = frame[~is_trial].reset_index(drop=True)
    if len(rest):
        rows = rest.assign(onset=onset[~is_trial])
        made = _as_messages(rows, {}, file, recording)
        if recording.messages is not None:
            made = pd.concat([recording.messages, made], ignore_index=True)
        recording.messages = made.sort_values("time", kind="stable", ignore_index=True)
        recording.lost.add(
            "messages", "note", "rows of the events file that name no trial", len(rest)
        )
