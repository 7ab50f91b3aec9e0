"""Writing a recording as BIDS eye tracking, so that reading it back gives the same tables."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from gazeattn.errors import DataError
from gazeattn.readers._bids_events import ROW, TABLES
from gazeattn.readers._bids_names import KEY, free_names, kind_name, label_of
from gazeattn.readers._order import rate_of
from gazeattn.recordings import Recording

SIDES = (("_left", "left"), ("_right", "right"), ("", "cyclopean"))
GAZE = {"x": "x_coordinate", "y": "y_coordinate", "pupil": "pupil_size"}
TAKEN = {
    "events": {"trial_type", "message", ROW},
    "messages": {"onset", "duration", "trial_type", "message", ROW},
    "trials": {"onset", "duration", "trial_type"},
}
"""Names of the files of events and trials that no column of ours may have there."""
EYE_COLUMNS = {f"{c}{s}" for c in GAZE for s, _ in SIDES}


def write_bids(
    recording: Recording,
    folder: str | os.PathLike[str],
    *,
    task: str,
    subject: str | None = None,
    session: str | None = None,
    run: int | None = None,
    datatype: str = "beh",
    metadata: Mapping[str, Any] | None = None,
    leave_out: Collection[str] = (),
    overwrite: bool = False,
) -> list[Path]:
    """Write a recording of one participant as BIDS eye tracking.

    Parameters
    ----------
    recording
        With samples; times in ms, positions in pixels from the top left.
    folder
        The data set; files go to ``sub-<subject>[/ses-<session>]/<datatype>``.
    task, subject, session, run
        Entities of the names; `subject` from the participant where None. Letters and digits only.
    metadata
        More entries for the sidecars, for example ``{"ScreenDistance": 0.6}``.
    leave_out
        Tables that BIDS has no place for and that may be missing in the files (``"areas"``).
    overwrite
        Replace files of the same name.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    DataError
        No samples, several participants, a table that cannot be written, no sampling rate, a text
        that TSV cannot keep, or a file that is already there.
    """
    samples = recording.check().samples
    if samples is None or not len(samples):
        raise DataError("BIDS eye tracking needs samples, this recording has none")
    if recording.areas is not None and "areas" not in leave_out:
        raise DataError(
            "BIDS eye tracking has no place for the table 'areas'",
            hint="Leave it out by leave_out=('areas',), and keep it in a file of its own",
        )
    who = _participant(recording)
    names = _entities(subject, who, session, task, run)
    rate = recording.info.get("rate")
    if not isinstance(rate, int | float):
        block = samples["block"].to_numpy() if "block" in samples else np.zeros(len(samples))
        rate = rate_of(samples["time"].to_numpy(), block)
    if rate is None:
        raise DataError("no sampling rate is known", hint="Set info['rate'], in Hz")
    files = _tables(recording, who, float(rate), dict(metadata or {}))
    home = Path(folder).expanduser() / f"sub-{names['sub']}"
    home = (home / f"ses-{names['ses']}" if "ses" in names else home) / label_of(datatype)
    stem = "_".join(f"{k}-{v}" for k, v in names.items())
    paths = [home / f"{stem}_{end}" for end, _ in files]
    there = [p for p in paths if p.exists()]
    if there and not overwrite:
        raise DataError("the file is already there", source=there[0], hint="overwrite=True")
    home.mkdir(parents=True, exist_ok=True)
    for path, (_, data) in zip(paths, files, strict=True):
        path.write_bytes(data)
    described = Path(folder).expanduser() / "dataset_description.json"
    if not described.exists():
        described.write_bytes(_json({"Name": "Eye tracking", "BIDSVersion": "1.10.1"}))
        paths.append(described)
    return paths


def _participant(recording: Recording) -> str | None:
    found: set[str] = set()
    for name, table in recording.tables().items():
        if name != "areas" and "participant" in table:
            values = table["participant"]
            found |= set(values.dropna())
            if values.isna().any() and values.notna().any():
                raise DataError(f"the participant is missing in some rows of {name}")
    if len(found) > 1:
        raise DataError(
            "a BIDS recording is of one participant",
            found=", ".join(sorted(found)[:5]),
            hint="Write the recordings of the participants one by one",
        )
    return found.pop() if found else None


def _entities(
    subject: str | None, who: str | None, session: str | None, task: str, run: int | None
) -> dict[str, str]:
    raw = {"sub": subject if subject is not None else label_of(who or ""), "ses": session}
    raw |= {"task": task, "run": None if run is None else str(int(run))}
    names = {k: v for k, v in raw.items() if v is not None}
    for key, value in names.items():
        if not value or label_of(value) != value or not value.isascii():
            raise DataError(
                f"the entity {key!r} must have letters and digits only",
                found=repr(value),
                hint="Say subject='01', for example" if key == "sub" else None,
            )
    return names


def _kinds(table: pd.DataFrame) -> list[list[str]]:
    return [[str(c), kind_name(table[c])] for c in table]


def _tables(
    recording: Recording, who: str | None, rate: float, metadata: dict[str, Any]
) -> list[tuple[str, bytes]]:
    """Return the ends of the file names, and the bytes of the files."""
    samples = recording.samples
    assert samples is not None
    own: dict[str, Any] = {
        "participant": who,
        "info": _plain(recording.info),
        "tables": {n: _kinds(t) for n, t in recording.tables().items() if n != "areas"},
    }
    sides = [(s, e) for s, e in SIDES if any(f"{c}{s}" in samples for c in GAZE)] or [SIDES[2]]
    renamed = {
        name: free_names(table, TAKEN.get(name, TAKEN["events"]))
        for name, table in recording.tables().items()
        if name in (*TABLES.values(), "messages", "trials")
    }
    if any(renamed.values()):
        own["renamed"] = {name: names for name, names in renamed.items() if names}
    extra = [str(c) for c in samples if str(c) not in (*EYE_COLUMNS, "time", "participant")]
    files: list[tuple[str, bytes]] = []
    units = own["info"].get("units") or {}
    for number, (suffix, recorded) in enumerate(sides, start=1):
        label = f"recording-eye{number}"
        body, columns = _eye(samples, suffix, extra if number == 1 else [])
        meta = {
            "Columns": list(body),
            "PhysioType": "eyetrack",
            "RecordedEye": recorded,
            "SampleCoordinateSystem": "gaze-on-screen",
            "SamplingFrequency": rate,
            "StartTime": 0.0,
            "timestamp": {"Units": "ms", "Description": "time on the clock of the eye tracker"},
            "x_coordinate": {"Units": "pixel", "Description": "from the left edge"},
            "y_coordinate": {"Units": "pixel", "Description": "from the top edge"},
            "pupil_size": {"Units": units.get(f"pupil{suffix}", "arbitrary")},
            **{k: v for k, v in metadata.items() if not k.startswith("Screen")},
            KEY: {**(own if number == 1 else {}), "columns": columns},
        }
        if "pupil_size" not in body:
            del meta["pupil_size"]
        files += [
            (f"{label}_physio.tsv.gz", _packed(_tsv(body, header=False))),
            (f"{label}_physio.json", _json(meta)),
        ]
    events = _events(recording)
    if events is not None:
        meta = {
            "Columns": list(events),
            "Description": "Events and messages of the eye tracker",
            "OnsetSource": "timestamp",
            "duration": {"Units": "ms"},
            ROW: {"Description": "row in the table that the event comes from"},
        }
        files += [
            ("recording-eye1_physioevents.tsv.gz", _packed(_tsv(events, header=False))),
            ("recording-eye1_physioevents.json", _json(meta)),
        ]
    screen = recording.info.get("screen")
    shown = {
        "ScreenDistance": metadata.get("ScreenDistance", "n/a"),
        "ScreenOrigin": ["top", "left"],
        "ScreenResolution": [float(v) for v in screen] if screen is not None else "n/a",
        "ScreenSize": metadata.get("ScreenSize", "n/a"),
    }
    files.append(("events.json", _json({"StimulusPresentation": shown})))
    if recording.trials is not None and len(recording.trials):
        files.append(("events.tsv", _tsv(_trials(recording.trials, samples), header=True)))
    return files


def _eye(
    samples: pd.DataFrame, suffix: str, extra: list[str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the table of one eye, and which of its columns is which of ours."""
    body = {"timestamp": samples["time"]}
    ours: dict[str, str] = {}
    for name, theirs in GAZE.items():
        column = f"{name}{suffix}"
        if column in samples:
            body[theirs] = samples[column]
            ours[theirs] = column
        elif name != "pupil":  # required by BIDS
            body[theirs] = pd.Series(np.nan, index=samples.index)
    for column in extra:
        name = column if column not in body else f"{column}_"
        if set(name) & set('\t\r\n"') or name != name.strip() or not name:
            raise DataError(f"the column name {column!r} cannot be written to BIDS")
        body[name] = samples[column]
        ours[name] = column
    return pd.DataFrame(body), ours


def _events(recording: Recording) -> pd.DataFrame | None:
    """Return all events and messages in one table, in order of time."""
    parts: list[pd.DataFrame] = []
    for kind, name in TABLES.items():
        table = getattr(recording, name)
        if table is not None and len(table):
            named = table.rename(columns=free_names(table, TAKEN["events"]))
            parts.append(named.drop(columns="participant", errors="ignore").assign(trial_type=kind))
    messages = recording.messages
    if messages is not None and len(messages):
        named = messages.rename(columns=free_names(messages, TAKEN["messages"]))
        named = named.rename(columns={"time": "onset", "text": "message"})
        parts.append(named.drop(columns="participant", errors="ignore"))
    if not parts:
        return None
    parts = [p.assign(**{ROW: np.arange(len(p))}) for p in parts]
    names = [c for p in parts for c in map(str, p)]
    for name in names:
        if set(name) & set('\t\r\n"') or name != name.strip() or not name:
            raise DataError(f"the column name {name!r} cannot be written to BIDS")
    texts = [p.apply(_cells) for p in parts]
    table = pd.concat(texts, ignore_index=True)
    onset = np.concatenate([p["onset"].to_numpy(dtype=float) for p in parts])
    table = table.iloc[np.argsort(onset, kind="stable")].reset_index(drop=True)
    for name in ("duration", "trial_type", "message"):
        if name not in table:
            table[name] = np.nan
    first = ["onset", "duration", "trial_type", "message"]
    return table[[*first, *(c for c in table if c not in first)]]


def _trials(trials: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    trials = trials.rename(columns=free_names(trials, TAKEN["trials"]))
    first = float(samples["time"].iloc[0])
    empty = pd.Series(np.nan, index=trials.index)
    start = trials["start"] if "start" in trials else empty
    end = trials["end"] if "end" in trials else empty
    out = pd.DataFrame(
        {
            "onset": (start - first) / 1000.0,
            "duration": (end - start) / 1000.0,
            "trial_type": "trial",
        }
    )
    rest = trials.drop(columns="participant", errors="ignore")
    return pd.concat([out, rest], axis=1)


def _cells(values: pd.Series) -> pd.Series:
    """Return a column as the text that is written: shortest digits that read back exactly."""
    there = values.notna()
    text = values.astype("str")  # numbers with the shortest digits
    if isinstance(values.dtype, pd.StringDtype | pd.CategoricalDtype):
        bad = there & ((text == "n/a") | text.str.contains("\0", regex=False))
        if bad.any():
            raise DataError(
                f"column {values.name!r} holds a text that TSV cannot keep",
                found=repr(text[bad].iloc[0]),
            )
    return text.where(there)


def _tsv(table: pd.DataFrame, *, header: bool) -> bytes:
    """Return a table as TSV, ``n/a`` for missing, numbers with digits that read back exactly."""
    cells: list[pa.Array] = []
    for name in table:
        values = table[name]
        if not isinstance(values.dtype, np.dtype) or values.dtype.kind != "f":
            values = _quoted(_cells(values))
        array = pc.cast(pa.array(values, from_pandas=True), pa.large_string())
        cells.append(pc.fill_null(array, "n/a"))
    end = pa.scalar("\n", pa.large_string())
    cells[-1] = pc.binary_join_element_wise(cells[-1], end, pa.scalar("", pa.large_string()))
    lines = pc.binary_join_element_wise(*cells, pa.scalar("\t", pa.large_string()))
    chunks = lines.chunks if isinstance(lines, pa.ChunkedArray) else [lines]
    first = "\t".join(map(str, table)) + "\n" if header else ""
    return first.encode("utf-8") + "".join(x for c in chunks for x in c.to_pylist()).encode("utf-8")


def _quoted(text: pd.Series) -> pd.Series:
    """Put texts in quotes that hold a quote, a tab or a line break."""
    special = text.str.contains('[\t\r\n"]', regex=True).fillna(False).to_numpy(dtype=bool)
    if not special.any():
        return text
    return text.where(~special, '"' + text.str.replace('"', '""', regex=False) + '"')


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, compresslevel=6, mtime=0)


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _plain(value: Any) -> Any:
    """Return facts as JSON keeps them; what it cannot keep, as text."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | np.ndarray):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
