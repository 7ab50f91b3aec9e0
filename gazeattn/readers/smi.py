"""Exports of SMI BeGaze: raw samples, the event text of iView X, and event statistics."""

from __future__ import annotations

import codecs
import os
import re
from pathlib import Path

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
    head_text,
    load_export,
    missing_text,
    require_valid,
    review_positions,
    unpack,
)
from gazeattn.readers._order import arrange, rate_of, trial_at
from gazeattn.readers._smi_events import (
    EYES,
    Options,
    info_of,
    owners_of,
    read_events,
    read_statistics,
    set_stimuli,
)
from gazeattn.readers._units import Header, check_screen, time_unit, to_ms
from gazeattn.readers.textfile import check_bytes, file_bytes, sniff_encoding
from gazeattn.recordings import Recording
from gazeattn.registry import register_reader

TEXTS = ("type", "stimulus", "participant", "category", "categorygroup", "color", "aoiname", "info")
PUPILS = ("pupildiameter", "mappeddiameter", "diax")


def kind_of(text: str) -> str | None:
    """Return ``raw``, ``events`` or ``statistics`` for the beginning of a file."""
    start = text[:4000]
    if start.startswith("## ") and ("[BeGaze]" in start or "## Sample Rate:" in text):
        return "raw"
    if "Table Header for " in text:
        return "events"
    names = head_names(text[: 1 << 15].encode("utf-8", "replace"))
    if {"time", "type", "trial"} <= names and names & {"lporx", "rporx"}:
        return "raw"
    clocks = {"eventstarttrialtime", "eventstartrawtime"}
    return "statistics" if "category" in names and names & clocks else None


@register_reader(
    "smi",
    recognises=lambda head, name: kind_of(head_text(head)) is not None,
    vendor="SMI",
    formats="BeGaze raw data text, event text (Table Header for ...), event statistics",
    description="Samples and messages; or fixations, saccades, blinks",
    tested_on="constructed files",
)
def read_smi(
    path: str | os.PathLike[str],
    *,
    screen: tuple[float, float] | None = None,
    time_unit: str | None = None,
    use_validity: bool = True,
    strict: bool = False,
    encoding: str | None = None,
    decimal: str | None = None,
) -> Recording:
    """Read a text export of BeGaze.

    Parameters
    ----------
    path
        Text file, also gzipped.
    screen
        Width and height in pixels; else the calibration area of the header.
    time_unit
        Unit of times without one in their header; microseconds where None.
    use_validity
        Make samples with ``L Validity`` 0 missing, and those of the right eye.
    strict
        Raise where time stamps step back, instead of sorting and counting.
    encoding, decimal
        None: found out from the file.

    Raises
    ------
    DataError
        Not such a file, text in a number column, no valid row.
    """
    path = Path(path).expanduser()
    size = check_screen(screen)
    data = unpack(path, file_bytes(path))
    known = encoding or sniff_encoding(bytes(data[:400]))
    check_bytes(data, known, path, stated=encoding is not None)
    if known != "utf-8":
        data = codecs.decode(data, known).encode("utf-8")
    data = bytes(data).removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")
    kind = kind_of(data[: 1 << 16].decode("utf-8", "replace"))
    if kind is None:
        raise DataError("not a text export of BeGaze", source=path, found=repr(data[:60]))
    header, table = _header(data)
    info = info_of(header)
    info["screen"] = size or info.get("screen")
    recording = Recording(path.name, "smi", info=info)
    make = {"raw": _raw, "events": read_events, "statistics": read_statistics}[kind]
    make(recording, path, table, header, (time_unit, use_validity, strict, decimal))
    return note_doubts(recording)


def _header(data: bytes) -> tuple[dict[str, list[str]], bytes]:
    """Return the ``## name: values`` lines, and the bytes after them."""
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        line = data[at:end].decode("utf-8").strip()
        if line and not line.startswith("##"):
            break
        name, colon, rest = line.lstrip("# ").partition(":")
        if colon:
            found.setdefault(name.strip(), [v.strip() for v in rest.strip().split("\t")])
        at = end + 1
    return found, data[at:]


def _is_number(header: Header) -> bool:
    if header.key in TEXTS or header.key.endswith(("eventinfo", "aoihit", "plane")):
        return False
    return header.key in ("time", "recordingtime") or bool(
        re.fullmatch(r"[lr](por[xy]|dia[xy]?|pupildiameter|mappeddiameter|validity)", header.key)
    )


def _messages(table: bytes) -> tuple[list[bytes], bytes]:
    """Return the MSG lines, and the table without them."""
    lines, rest, done = [], [], 0
    for found in re.finditer(rb"\tMSG\t", table):
        begin = table.rfind(b"\n", 0, found.start()) + 1
        if begin < done:  # the mark once more in the text of a message
            continue
        end = table.find(b"\n", found.end())
        end = len(table) if end < 0 else end
        if table[begin : found.start()].count(b"\t"):  # not the second cell
            continue
        lines.append(table[begin:end])
        rest.append(table[done:begin])
        done = end + 1
    return lines, b"".join([*rest, table[done:]])


def _raw(
    recording: Recording,
    path: Path,
    table: bytes,
    header: dict[str, list[str]],
    options: Options,
) -> None:
    stated, use_validity, strict, decimal = options
    lines, table = _messages(table)
    export = load_export(path, table, _is_number, decimal=decimal, step="export")
    recording.lost = lost = export.lost
    clock = export.need("time", "recordingtime", what="the time")
    unit = time_unit(clock, stated, "us", path)
    recording.info["units"]["time"] = unit
    kind = export.find("type")
    if kind is not None:
        sample = export.text(kind).eq("SMP").to_numpy(dtype=bool, na_value=False)
        lost.add("samples", "dropped", "rows of another type than SMP", int((~sample).sum()))
        export = export.keep(sample)
    export, time = drop_untimed(export, to_ms(export.numbers(clock), unit), "samples")
    owners, forced = owners_of(export, header)
    samples = owners.assign(time=time)
    values: list[str] = []
    for letter, side in EYES.items():
        values += _eye(export, samples, letter, side, use_validity)
        info = export.find(f"{letter}eventinfo")
        if info is not None:
            samples[f"event_{side}"] = export.text(info)
    if not values:
        raise DataError(
            "no column of gaze", source=path, expected="L POR X [px] or R POR X [px] with its Y"
        )
    stimulus = export.find("stimulus")
    shown = export.text(stimulus) if stimulus is not None else None
    samples, trials, order = arrange(samples, forced, lost, source=path, strict=strict)
    if shown is not None:
        shown = shown.iloc[order].reset_index(drop=True)
    messages = _messages_of(lines, unit, lost)
    set_stimuli(trials, samples["trial"], shown, messages, lost)
    if shown is None and trials is not None:
        of_trial = dict(zip(trials["trial"], trials["stimulus"], strict=True))
        shown = samples["trial"].map(of_trial)
    samples["stimulus"] = (missing_text(len(samples)) if shown is None else shown).astype("str")
    require_valid(samples, values, lost, path)
    review_positions(samples, recording.info.get("screen"), lost, "samples")
    rate = rate_of(samples["time"].to_numpy(), samples["block"].to_numpy())
    written = recording.info.get("rate")
    if rate and written and not 0.02 < rate / written < 50:
        lost.add(
            "samples",
            "note",
            f"doubt: the header says {written:g} Hz, the time stamps as {unit} give {rate:g} Hz",
            len(samples),
        )
    recording.info.setdefault("rate", rate)
    recording.info["units"] |= dict.fromkeys(values, "px")
    recording.info["eyes"] = [s for s in EYES.values() if f"x_{s}" in samples]
    recording.info["unread"] = export.unread()
    recording.samples, recording.trials = samples, trials
    recording.messages = _message_table(messages, samples, trials)


def _eye(
    export: Export, samples: pd.DataFrame, letter: str, side: str, use_validity: bool
) -> list[str]:
    """Add gaze and pupil of one eye; (0, 0) is how BeGaze writes that no eye was found."""
    x, y = (export.find(f"{letter}por{a}", unit="px") for a in "xy")
    names: list[str] = []
    if x is not None and y is not None:
        names = [f"x_{side}", f"y_{side}"]
        samples[names[0]], samples[names[1]] = export.numbers(x), export.numbers(y)
        nothing = ((samples[names[0]] == 0) & (samples[names[1]] == 0)).to_numpy()
        blank(samples, names, nothing, export.lost, f"{side} gaze written as 0, 0: no eye found")
    pupil = export.find(*(f"{letter}{key}" for key in PUPILS))
    if pupil is not None:
        name = f"pupil_{side}"
        samples[name] = export.numbers(pupil)
        nothing = (samples[name] == 0).to_numpy()
        blank(samples, (name,), nothing, export.lost, f"{side} pupil written as 0")
    validity = export.find(f"{letter}validity")
    if validity is not None and use_validity:
        bad = export.numbers(validity) == 0
        own = (f"x_{side}", f"y_{side}", f"pupil_{side}")
        blank(samples, own, bad, export.lost, f"{side} eye flagged invalid ({validity.name} 0)")
    return names


def _messages_of(lines: list[bytes], unit: str, lost: LossLog) -> pd.DataFrame:
    """Return trial (cell of the line), time in ms and text of the MSG lines."""
    cells = [line.decode("utf-8").split("\t", 3) for line in lines]
    cells = [c for c in cells if len(c) == 4]
    time = pd.to_numeric(pd.Series([c[0] for c in cells], dtype="str"), errors="coerce")
    time = time.astype("float64").where(np.isfinite)
    lost.add("messages", "dropped", "without a time or text", len(lines) - int(time.notna().sum()))
    cells = [c for c, ok in zip(cells, time.notna(), strict=True) if ok]
    return pd.DataFrame(
        {
            "trial": pd.Series([c[2].strip() for c in cells], dtype="str"),
            "time": to_ms(time.dropna().to_numpy(), unit),
            "text": pd.Series([c[3].strip() for c in cells], dtype="str"),
        }
    )


def _message_table(
    messages: pd.DataFrame, samples: pd.DataFrame, trials: pd.DataFrame | None
) -> pd.DataFrame | None:
    if not len(messages):
        return None
    times = messages["time"].to_numpy()
    block = _blocks_at(times, samples)
    who = [samples["participant"].iloc[0]] * len(messages)
    return pd.DataFrame(
        {
            "participant": pd.Series(who, dtype="str"),
            "trial": trial_at(times, block, trials),
            "block": pd.Series(block, dtype="Int64"),
            "time": times,
            "text": messages["text"],
        }
    )


def _blocks_at(times: np.ndarray, samples: pd.DataFrame) -> np.ndarray:
    """Return the last block that has begun at each time, the first one before all."""
    starts = samples.groupby("block")["time"].min().to_numpy()
    started = times[:, None] >= starts[None, :]
    return np.where(started.any(axis=1), started.shape[1] - 1 - started[:, ::-1].argmax(1), 0)
