"""Eye tracking in the Brain Imaging Data Structure: reading physio files with their events.

The layout is that of the section "Eye-tracking" of the BIDS specification (extension proposal
20): one headerless ``*_recording-<label>_physio.tsv.gz`` per eye with a JSON sidecar, events of
the tracker in ``*_physioevents.tsv.gz``, and ``*_events.tsv`` with the trials.
`write_bids` writes it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.columns import as_number
from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.readers._bids_events import add_events, add_trials
from gazeattn.readers._bids_names import (
    EYE_OF,
    PHYSIO,
    column_unit,
    entities,
    is_names,
    key_of,
    number_of,
    restored,
    sidecar,
)
from gazeattn.readers._bids_out import write_bids
from gazeattn.readers._doubts import note_doubts
from gazeattn.readers._exports import (
    Export,
    load_export,
    missing_text,
    require_valid,
    review_positions,
    unpack,
)
from gazeattn.readers._order import arrange, rate_of
from gazeattn.readers._units import Header, check_screen, option, time_unit, to_ms, unit_of
from gazeattn.readers.textfile import Format, file_bytes
from gazeattn.recordings import SAMPLES, Recording
from gazeattn.registry import register_reader

__all__ = ["read_bids", "write_bids"]

STANDARD = {"x_coordinate": "x", "y_coordinate": "y", "pupil_size": "pupil"}
CLOCKS = ("timestamp", "time")
TSV = Format(encoding="utf-8", separator="\t")


def _recognises(head: bytes, name: str) -> bool:
    """Say whether a file is gaze of BIDS, or a table of events that stands beside it."""
    found = PHYSIO.fullmatch(name)
    if found is None:
        return False
    if found["suffix"] == "events":  # of any BIDS data set; `_physio_of` asks for the gaze
        names = set(head.split(b"\n", 1)[0].decode("latin-1").strip("\r").split("\t"))
        places = {"x", "y"} <= names and "trial_type" not in names  # a plain table of fixations
        return {"onset", "duration"} <= names and not places
    label = entities(name).get("recording", "")
    return label.startswith("eye") or label in EYE_OF


def _is_gaze(name: str) -> bool:
    found = PHYSIO.fullmatch(name)
    return found is not None and found["suffix"] == "physio" and _recognises(b"", name)


def _physio_of(path: Path) -> Path:
    """Return the physio file that a table of events belongs to; other files as they are.

    Raises
    ------
    DataError
        The physio file is not there: events alone have neither units nor a clock.
    """
    found = PHYSIO.fullmatch(path.name)
    if found is None or found["suffix"] == "physio" or not path.is_file():
        return path
    pattern = "physio.tsv*" if found["suffix"] == "physioevents" else "recording-*_physio.tsv*"
    beside = sorted(p for p in path.parent.glob(found["stem"] + pattern) if _is_gaze(p.name))
    if not beside:
        raise DataError(
            f"a file of BIDS events ({found['suffix']}): the physio file beside it is needed, "
            "which holds the gaze and the clock",
            source=path,
            expected=found["stem"] + pattern.replace("-*", "-<label>").replace("*", ".gz"),
            hint="Put the files of the recording and their sidecars (.json) into one folder",
        )
    return beside[0]


@register_reader(
    "bids",
    recognises=_recognises,
    vendor="BIDS",
    formats="eye tracking of BIDS: physio, physioevents and events with sidecars",
    description="Samples of each eye, events and messages of the tracker, trials",
    tested_on="constructed files",
)
def read_bids(
    path: str | os.PathLike[str],
    *,
    screen: tuple[float, float] | None = None,
    time_unit: str | None = None,
    strict: bool = False,
) -> Recording:
    """Read the recording that a physio file belongs to, with all of its eyes.

    Parameters
    ----------
    path
        A ``*_recording-<label>_physio.tsv.gz`` file; the files of the other eyes, the events and
        the sidecars are found beside it. Or one of its tables of events (``*_events.tsv``,
        ``*_physioevents.tsv.gz``): then the physio file is found beside that.
    screen
        Width and height in pixels; else ``ScreenResolution`` of the events sidecar.
    time_unit
        Needed where the sidecar does not say the ``Units`` of the time stamps.
    strict
        Raise where time stamps step back, instead of sorting and counting.

    Raises
    ------
    DataError
        A sidecar is missing or lacks a required entry, rows have another number of cells than
        ``Columns``, unknown units, no valid row.
    """
    path = _physio_of(Path(path).expanduser())
    paths = _eyes_of(path)
    info: dict[str, Any] = {"tracker": "BIDS", "units": {}, "eyes": []}
    lost = LossLog()
    metas = [sidecar(p, "physio") for p in paths]
    shown = _events_meta(path)
    size = check_screen(screen) or _resolution(shown, path)
    tables: list[pd.DataFrame] = []
    for file, meta in zip(paths, metas, strict=True):
        tables.append(_eye(file, meta, size, _origin(shown), time_unit, info, lost))
    own = key_of(metas[0], paths[0])
    samples = _merged(tables, lost)
    _describe(info, metas[0], size, own)
    subject = entities(path.name).get("sub")
    who = own.get("participant", subject) if own else subject
    samples["participant"] = (
        missing_text(len(samples))
        if who is None
        else pd.Series([str(who)] * len(samples), dtype="str")
    )
    if own:
        samples = restored(samples, own.get("tables", {}).get("samples", []), paths[0])
    else:
        samples["stimulus"] = missing_text(len(samples))
        samples, _, _ = arrange(
            samples, np.zeros(len(samples), bool), lost, source=path, strict=strict
        )
        samples = samples.drop(columns=["stimulus", "trial"])
        values = [c for c in map(str, samples) if c not in ("participant", "block", "time")]
        require_valid(samples, values, lost, path)
        review_positions(samples, size, lost, "samples")
        if not info.get("rate"):
            info["rate"] = rate_of(samples["time"].to_numpy(), samples["block"].to_numpy())
    recording = Recording(
        " + ".join(p.name for p in paths), "bids", samples=samples, info=info, lost=lost
    )
    for file, meta, table in zip(paths, metas, tables, strict=True):
        add_events(recording, file, meta, table["time"].to_numpy(), own, time_unit)
    add_trials(recording, path, metas[0], own)
    return note_doubts(recording)


def _eyes_of(path: Path) -> list[Path]:
    """Return the physio files of all eyes of the recording, in order of their labels."""
    if not path.is_file():
        file_bytes(path)  # raises, with a hint
    label = entities(path.name).get("recording")
    if label is None or PHYSIO.fullmatch(path.name) is None:
        raise DataError(
            "not the name of a BIDS eye-tracking file",
            source=path,
            expected="..._recording-<label>_physio.tsv.gz",
        )
    begin = path.name.partition(f"_recording-{label}_")[0]
    found = {path}
    for other in path.parent.glob(f"{begin}_recording-*_physio.tsv*"):
        if _is_gaze(other.name) and entities(other.name).keys() == entities(path.name).keys():
            if sidecar(other, "physio").get("PhysioType", "eyetrack") == "eyetrack":
                found.add(other)
    return sorted(found)


def _events_meta(path: Path) -> Mapping[str, Any]:
    meta = sidecar(path, "events").get("StimulusPresentation")
    return meta if isinstance(meta, dict) else {}


def _resolution(shown: Mapping[str, Any], path: Path) -> tuple[float, float] | None:
    value = shown.get("ScreenResolution")
    return None if value in (None, "n/a") else check_screen(value)


def _origin(shown: Mapping[str, Any]) -> tuple[str, ...]:
    value = shown.get("ScreenOrigin", ["top", "left"])
    return tuple(map(str, value)) if isinstance(value, list) else ("top", "left")


def _load(path: Path, columns: list[str], texts: set[str], step: str) -> Export:
    data = unpack(path, file_bytes(path))
    header = "\t".join(columns).encode("utf-8")
    if path.suffix == ".gz" or data.split(b"\n", 1)[0].rstrip(b"\r") != header:
        data = header + b"\n" + data
    return load_export(path, data, lambda h: h.name not in texts, form=TSV, first_row=1, step=step)


def _columns(path: Path, meta: Mapping[str, Any]) -> list[str]:
    columns = meta.get("Columns")
    if not is_names(columns):
        raise DataError(
            "the sidecar must name the columns (Columns)",
            source=path,
            expected="a list of names",
            found="no sidecar or no such entry" if columns is None else repr(columns)[:80],
        )
    return list(columns)


def _eye(
    path: Path,
    meta: Mapping[str, Any],
    size: tuple[float, float] | None,
    origin: tuple[str, ...],
    stated: str | None,
    info: dict[str, Any],
    lost: LossLog,
) -> pd.DataFrame:
    """Return the samples of one eye by our names."""
    columns = _columns(path, meta)
    recorded = meta.get("RecordedEye")
    if recorded not in EYE_OF:
        raise DataError(
            "the sidecar must say the eye (RecordedEye)",
            source=path,
            expected="left, right or cyclopean",
            found=repr(recorded),
        )
    eye = EYE_OF[recorded]
    suffix = f"_{eye}" if eye else ""
    own = key_of(meta, path)
    texts = {c for c in columns if c not in (*STANDARD, *CLOCKS)}
    export = _load(path, columns, texts, "samples")
    lost.extend(export.lost)
    out: dict[str, Any] = {"time": _time(export, meta, stated, info)}
    ours = own.get("columns", {})
    for name in columns:
        if name in CLOCKS:
            continue
        if own and name not in ours:
            continue  # written as a placeholder that BIDS requires
        header = Header(name, name)
        if name in STANDARD:
            out[ours.get(name, STANDARD[name] + suffix)] = export.numbers(header)
        else:
            cells = export.frame[name]
            out[ours.get(name, name + suffix)] = cells if own else _numbers_or_text(cells)
    table = pd.DataFrame(out)
    if eye:
        info["eyes"].append(eye)
    info["units"][f"pupil{suffix}"] = column_unit(meta, "pupil_size") or "not stated"
    if not own:
        table = _place(table, meta, suffix, size, origin, path, info, lost)
        timed = np.isfinite(table["time"].to_numpy())
        lost.add("samples", "dropped", "rows without a time stamp", int((~timed).sum()))
        table = table[timed].reset_index(drop=True)
    return table


def _numbers_or_text(values: pd.Series) -> pd.Series:
    """Return numbers where all cells are; in text only ``n/a`` is missing."""
    text = values.astype("str").where(values != "n/a")
    try:
        return as_number(text)
    except DataError:
        return text


def _time(
    export: Export, meta: Mapping[str, Any], stated: str | None, info: dict[str, Any]
) -> np.ndarray:
    clock = next((c for c in CLOCKS if c in export.frame), None)
    rate = number_of(meta, "SamplingFrequency")
    rate = rate if rate is not None and rate > 0 else None
    if rate is not None:
        info["rate"] = rate
    if clock is None:
        if rate is None:
            raise DataError(
                "neither a timestamp column nor a SamplingFrequency",
                source=export.source,
                found=", ".join(map(str, export.frame.columns)),
            )
        begin = number_of(meta, "StartTime") or 0.0
        info["units"]["time"] = "ms from SamplingFrequency"
        return begin * 1000.0 + np.arange(len(export.frame)) * (1000.0 / rate)
    written = column_unit(meta, clock)
    header = Header(clock, clock, unit_of(written) if written else None, written)
    unit = time_unit(header, stated, None, export.source)
    info["units"]["time"] = unit
    return to_ms(export.numbers(Header(clock, clock)), unit)


def _place(
    table: pd.DataFrame,
    meta: Mapping[str, Any],
    suffix: str,
    size: tuple[float, float] | None,
    origin: tuple[str, ...],
    path: Path,
    info: dict[str, Any],
    lost: LossLog,
) -> pd.DataFrame:
    """Make pixels from the top left of what the sidecar says, or rename."""
    x, y = f"x{suffix}", f"y{suffix}"
    if x not in table or y not in table:
        raise DataError("an eye-tracking file must have x_coordinate and y_coordinate", source=path)
    written = column_unit(meta, "x_coordinate")
    if written != column_unit(meta, "y_coordinate") or written is None:
        raise DataError(
            "the sidecar must say the Units of x_coordinate and y_coordinate, the same",
            source=path,
            found=f"{written!r} and {column_unit(meta, 'y_coordinate')!r}",
        )
    unit = "norm" if written.strip() == "1" else unit_of(written)
    screen = meta.get("SampleCoordinateSystem", "gaze-on-screen") == "gaze-on-screen"
    if unit == "norm" and size is not None and screen:
        table[x], table[y] = table[x] * size[0], table[y] * size[1]
    elif unit != "px" or not screen:
        names = {x: f"x_coordinate{suffix}", y: f"y_coordinate{suffix}"}
        where = "" if screen else f", {meta.get('SampleCoordinateSystem')}"
        info["units"].update({n: written + where for n in names.values()})
        lost.add("samples", "note", f"positions kept in {written}{where}, not pixels", len(table))
        return table.rename(columns=names)
    info["units"].update({x: f"px ({written})", y: f"px ({written})"})
    steps = {"top": 0.0, "left": 0.0, "center": 0.5, "bottom": 1.0, "right": 1.0}
    if len(origin) != 2 or not set(origin) <= set(steps):
        raise DataError("unknown ScreenOrigin", source=path, found=repr(list(origin)))
    vertical = [o for o in origin if o in ("top", "bottom")] or ["center"]
    horizontal = [o for o in origin if o in ("left", "right")] or ["center"]
    if (vertical, horizontal) == (["top"], ["left"]):
        return table
    if size is None:
        raise DataError(
            f"positions count from {' '.join(origin)}: the size of the screen is needed",
            source=path,
            hint=f"State it, for example {option('screen', (1920, 1080))}",
        )
    if horizontal[0] != "left":
        sign = -1.0 if horizontal[0] == "right" else 1.0
        table[x] = steps[horizontal[0]] * size[0] + sign * table[x]
    if vertical[0] != "top":
        sign = -1.0 if vertical[0] == "bottom" else 1.0
        table[y] = steps[vertical[0]] * size[1] + sign * table[y]
    return table


def _merged(tables: list[pd.DataFrame], lost: LossLog) -> pd.DataFrame:
    """Put the eyes side by side; by their time stamps where these differ."""
    out = tables[0].copy()
    for other in tables[1:]:
        twice = [c for c in other.columns.intersection(out.columns) if c != "time"]
        if twice:
            raise DataError(
                f"two files hold the same eye (columns {', '.join(map(str, twice))})",
                hint="RecordedEye of the sidecars must differ",
            )
        if len(out) == len(other) and np.array_equal(
            out["time"].to_numpy(), other["time"].to_numpy(), equal_nan=True
        ):
            out = pd.concat([out, other.drop(columns="time")], axis=1)
            continue
        keys = ["time", "_nth"]
        left, right = (t.assign(_nth=t.groupby("time").cumcount()) for t in (out, other))
        both = left.merge(right, on=keys, how="outer", sort=True, indicator="_in")
        alone = int((both["_in"] != "both").sum())
        lost.add("samples", "undefined", "time stamps of one eye only", alone)
        out = both.drop(columns=["_nth", "_in"])
    order = [c for c in SAMPLES if c in out]
    return out[[*order, *(c for c in out if c not in order)]]


def _describe(
    info: dict[str, Any],
    meta: Mapping[str, Any],
    size: tuple[float, float] | None,
    own: Mapping[str, Any],
) -> None:
    for name in ("Manufacturer", "ManufacturersModelName", "SoftwareVersions"):
        if isinstance(meta.get(name), str):
            info[name] = meta[name]
    info["screen"] = size
    kept = own.get("info")
    if isinstance(kept, dict):
        info.update(kept)
        if isinstance(kept.get("screen"), list):
            info["screen"] = check_screen(kept["screen"])
