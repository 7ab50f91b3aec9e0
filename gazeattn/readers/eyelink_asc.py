"""EyeLink ASC files, as the converter of the vendor writes them from EDF: `read_asc`."""

from __future__ import annotations

import itertools
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.readers._asc_events import OFFSET, Script
from gazeattn.readers._asc_header import date_of, screen_of, tracker_of
from gazeattn.readers._asc_lines import chunks, plain_size
from gazeattn.readers._asc_samples import Samples
from gazeattn.readers._asc_tables import (
    blinks_on_samples,
    check_clock,
    codes_at,
    event_table,
    half_steps,
    nullable,
    sample_table,
    spread,
    texts,
    trial_names,
    trial_table,
)
from gazeattn.readers._doubts import note_doubts
from gazeattn.readers.textfile import sniff_encoding
from gazeattn.recordings import Recording
from gazeattn.registry import register_reader

Repeated = Literal["both", "first", "last"]
TRIALID = OFFSET + r"TRIALID\b[ \t:]*(?P<trial>.*)"
EVENTS = {
    "fixations": ("FIX", ["x", "y", "pupil"]),
    "saccades": (
        "SACC",
        ["x_start", "y_start", "x_end", "y_end", "amplitude", "peak_velocity"],
    ),
    "blinks": ("BLINK", []),
}
_SIGNS = re.compile(
    rb"(?m)^(?:\*\* ?(?:CONVERTED FROM|TYPE: EDF_FILE|VERSION: EYELINK)"
    rb"|START[ \t]+\d+(?:\.\d+)?[ \t]+(?:LEFT|RIGHT|SAMPLES|EVENTS)"
    rb"|MSG[ \t]+\d+(?:\.\d+)?(?:[ \t\r\n]|$)"
    rb"|[SE](?:FIX|SACC|BLINK)[ \t]+[LR][ \t]+\d)"
)
_SAMPLE = re.compile(rb"[ \t]*\d+(?:\.\d+)?(?:[ \t]+(?:-?\d+\.\d+|\.)){3,}[ \t.A-Z\d-]*[\r\n]")


def recognises(head: bytes, name: str) -> bool:
    """Say whether the first bytes of a file are those of an ASC file."""
    encoding = sniff_encoding(head)
    if encoding != "utf-8":
        head = head[: len(head) // 4 * 4].decode(encoding, "ignore").encode("utf-8")
    head = head.removeprefix(b"\xef\xbb\xbf").replace(b"\r", b"\n")
    if _SIGNS.search(head):
        return True
    named = name.lower().removesuffix(".gz").endswith(".asc")
    return named and _SAMPLE.match(head.lstrip()) is not None


@register_reader(
    "eyelink_asc",
    recognises=recognises,
    vendor="SR Research EyeLink",
    formats="asc, asc.gz",
    description="samples, eye events, messages and trials of a converted EDF file",
    tested_on="constructed files",
)
def read_asc(
    path: str | os.PathLike[str],
    *,
    participant: str | None = None,
    trial_pattern: str | None = None,
    screen: tuple[int, int] | None = None,
    repeated: Repeated = "both",
    missing: Sequence[str] = (),
    encoding: str | None = None,
) -> Recording:
    """Read an EyeLink ASC file.

    Parameters
    ----------
    path
        File, also gzipped.
    participant
        Reader id, put on every row. The file holds none: its name without ending where None.
    trial_pattern
        Regular expression that is searched in each message; a match begins a trial. Its id is the
        group ``trial``, else the first group, else the match. ``TRIALID ID`` where None.
    screen
        Width and height of the screen in pixels, where the file states none or a wrong one.
    repeated
        Which recordings of a trial id to keep that stands more than once: all of them, kept apart
        as ``ID``, ``ID#2``, ..., or only the first or last.
    missing
        Texts that mean "missing" beside ``"."``, as the converter was told to write.
    encoding
        Encoding of the messages; UTF-8 where None, and Windows-1252 for bytes that are not.

    Returns
    -------
    Recording
        Tables that the file has content for. Eyes have columns of their own (``x_left``, ...);
        ``blink_left``, ... say whether a sample lies in a blink that the tracker reported, whose
        values are kept as written. Times are ms on the tracker's clock; durations include the
        last sample. Trial variables are columns of ``trials``.

    Raises
    ------
    DataError
        No such file, not an ASC file, a cut gzip file, no readable line, or a bad option.
    UnknownNameError
        `repeated` is none of its values.
    """
    path = Path(path).expanduser()
    if repeated not in get_args(Repeated):
        raise UnknownNameError("value of repeated", str(repeated), get_args(Repeated))
    marks = frozenset({b".", *(m.encode() for m in missing)})
    script = Script(marks, _compiled(trial_pattern), encoding)
    samples = Samples(marks)
    rows = _Rows(script)
    cut, size = False, plain_size(path)
    for chunk, cut in chunks(path):
        for line, raw in chunk.others():
            script.add(line, raw)
        lines = np.flatnonzero(chunk.is_sample) + chunk.first_line
        before = samples.store.n_rows
        if not chunk.first_line and size:  # as dense as here, and a little more
            samples.store.expect(int(1.02 * size / len(chunk.data) * len(lines)) + 1000)
        ends_in_sample = cut and bool(chunk.is_sample[-1])
        kept = samples.add(chunk.sample_bytes(), lines, rows.layouts(), ends_in_sample)
        rows.after(before, kept)
    script.finish()
    lost = LossLog()
    n_lines = script.n_lines + samples.n_lines
    if not n_lines:
        raise DataError("the file is empty", source=path)
    _refuse_unreadable(path, script, samples)
    recording = _recording(path, script, samples, rows, lost, participant, screen)
    if cut:
        why = "the last line does not end: the file may be cut there"
        lost.add("lines", "note", why, 1, "lines", [f"line {n_lines}"])
    _keep_repeated(recording, script, repeated)
    _warn(path, note_doubts(recording))
    return recording


def _compiled(pattern: str | None) -> re.Pattern[str]:
    try:
        return re.compile("^" + TRIALID if pattern is None else pattern)
    except re.error as error:
        raise DataError(
            f"trial_pattern is no regular expression ({error})", found=repr(pattern)
        ) from None


class _Rows:
    """Where in the sample rows the marks of the other lines lie."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.block: list[int] = []
        self.trial: list[int] = []
        self._layouts = 0

    def layouts(self) -> list[tuple[int, Any]]:
        """Return the layouts of the coming lines: those that are new, and the one before."""
        found = self.script.layouts[max(self._layouts - 1, 0) :]
        self._layouts = len(self.script.layouts)
        return found

    def after(self, before: int, kept: np.ndarray) -> None:
        """Find the rows of the marks that came with a chunk."""
        for rows, marks in (
            (self.block, self.script.block_marks),
            (self.trial, self.script.trial_marks),
        ):
            new = [line for line, _ in marks[len(rows) :]]
            rows.extend((before + np.searchsorted(kept, new)).tolist())


def _refuse_unreadable(path: Path, script: Script, samples: Samples) -> None:
    """Raise where nothing of the file was understood."""
    events = sum(map(len, script.events.values()))
    if samples.store.n_rows or events or script.messages or script.blocks:
        return
    bad = samples.unreadable.count + script.unreadable.count
    first = sorted(samples.unreadable.first + script.unreadable.first)[:1]
    raise DataError(
        f"0 of {script.n_lines + samples.n_lines} lines hold a sample, event, message or block",
        source=path,
        row=first[0][0] if first else None,
        expected="an EyeLink ASC file",
        found=f"{bad} lines not understood" + (f", first {first[0][1]!r}" if first else ""),
    )


def _recording(
    path: Path,
    script: Script,
    samples: Samples,
    rows: _Rows,
    lost: LossLog,
    participant: str | None,
    screen: tuple[int, int] | None,
) -> Recording:
    block = spread(rows.block, script.block_marks, samples.store.n_rows)
    trial = spread(rows.trial, script.trial_marks, samples.store.n_rows)
    names = trial_names(script.trials, lost)
    counts = np.bincount(trial[trial >= 0], minlength=len(names))
    samples.report(lost)
    table = None
    if samples.store.n_rows:
        time = samples.store.take("time")
        if not script.blocks:
            block = _blocks_from_gaps(time, script, lost)
        half_steps(time, block, script, lost)
        check_clock(time, block, script, lost)
        table = sample_table(samples, time, block)
        for suffix in ("_left", "_right", ""):
            if f"pupil{suffix}" in table and any(script.events.values()):
                eye = suffix[1:]
                inside = blinks_on_samples(time, block, script.events["BLINK"], eye)
                table[f"blink{suffix}"] = inside
        table.insert(0, "trial", texts(trial, names))
    _report_blocks(script, samples, block, lost)
    tables: dict[str, pd.DataFrame | None] = {"samples": table}
    for name, (kind, columns) in EVENTS.items():
        events = script.events[kind]
        if events:
            found, of = event_table(events, columns, script, lost, name)
            found.insert(0, "trial", texts(of, names))
            tables[name] = found
    tables["messages"] = _messages(script, names)
    if script.trials:
        tables["trials"] = trial_table(script.trials, names, counts, lost)
    elif table is not None or any(script.events.values()):
        lost.add("trials", "note", "no message begins a trial: rows have no trial", 1, "files")
    if participant is None:
        participant = re.sub(r"(?i)(?:\.asc)?(?:\.gz)?$", "", path.name)
        why = "no participant given: the name of the file is taken"
        lost.add("participant", "note", why, 1, "files", [participant])
    for frame in tables.values():
        if frame is not None:
            frame.insert(0, "participant", texts(np.zeros(len(frame), int), [participant]))
    for key, count in script.notes.items():
        step, kind, text, unit = key
        lost.add(step, kind, text, count, unit, filter(None, [script.examples[key]]))  # type: ignore[arg-type]
    recording = Recording(source=path.name, reader="eyelink_asc", lost=lost, **tables)  # type: ignore[arg-type]
    recording.info = _info(script, samples, lost, screen)
    return recording


def _messages(script: Script, names: list[str]) -> pd.DataFrame | None:
    if not script.messages:
        return None
    line, block, time, text = zip(*script.messages, strict=True)
    return pd.DataFrame(
        {
            "trial": texts(codes_at(script.trial_marks, np.array(line)), names),
            "block": nullable(np.array(block)),
            "time": np.array(time, float),
            "text": pd.Series(text, dtype="str"),
        }
    )


def _blocks_from_gaps(time: np.ndarray, script: Script, lost: LossLog) -> np.ndarray:
    """Number the parts of a file without START lines: a gap or a step back begins a new one."""
    step = np.diff(time)
    ahead = step[step > 0]
    usual = float(np.median(ahead)) if len(ahead) else np.inf
    new = np.r_[False, (step > 1.5 * usual) | (step < 0)]
    block = np.cumsum(new).astype(np.int32)
    begins = np.flatnonzero(np.r_[True, new[1:]])
    for k, (a, b) in enumerate(zip(begins, np.r_[begins[1:], len(time)], strict=True)):
        facts = {"block": k, "start": float(time[a]), "end": float(time[b - 1]), "eyes": []}
        script.blocks.append(facts)
    why = "no START lines: a gap in the times begins a new block, and eyes may not be known"
    lost.add("blocks", "note", why, len(begins), "blocks")
    return block


def _report_blocks(script: Script, samples: Samples, block: np.ndarray, lost: LossLog) -> None:
    """Count samples per block; log empty blocks, samples outside, and changes of the eye."""
    counts = np.bincount(block[block >= 0], minlength=len(script.blocks))
    outside = int((block < 0).sum())
    lost.add("samples", "note", "sample outside START and END: block is missing", outside)
    empty = []
    for facts, n in zip(script.blocks, counts.tolist(), strict=True):
        facts["samples"] = n
        facts.pop("eyes_stated", None)
        if not n and samples.store.n_rows and "SAMPLES" in facts.get("content", ["SAMPLES"]):
            empty.append(facts["block"])
    why = "recording block without any sample"
    lost.add("blocks", "note", why, len(empty), "blocks", empty)
    with_eyes = [b for b in script.blocks if b["eyes"]]
    for old, new in itertools.pairwise(with_eyes):
        if old["eyes"] != new["eyes"]:
            change = f"{' and '.join(old['eyes'])} to {' and '.join(new['eyes'])}"
            example = f"block {new['block']}: {change}"
            lost.add("blocks", "note", "the tracked eye changes", 1, "blocks", [example])


def _info(
    script: Script, samples: Samples, lost: LossLog, screen: tuple[int, int] | None
) -> dict[str, Any]:
    rates = list(dict.fromkeys(b["rate"] for b in script.blocks if b.get("rate")))
    eyes = {e for b in script.blocks for e in b["eyes"]}
    pupils = list(dict.fromkeys(b["pupil"] for b in script.blocks if b.get("pupil")))
    bad = samples.unreadable.count + script.unreadable.count
    lost.add(
        "samples",
        "dropped",
        "line that begins as a sample but cannot be read as one",
        samples.unreadable.count,
        "lines",
        [f"line {n}: {text!r}" for n, text in samples.unreadable.first[:1]],
    )
    lost.add(
        "lines",
        "dropped",
        "line not understood",
        script.unreadable.count,
        "lines",
        [f"line {n}: {text!r}" for n, text in script.unreadable.first[:1]],
    )
    first = sorted(samples.unreadable.first + script.unreadable.first)[:10]
    return {
        "rate": rates[0] if len(rates) == 1 else rates or None,
        "eyes": [e for e in ("left", "right") if e in eyes],
        "screen": screen_of(script.coordinates, screen, lost),
        "tracker": tracker_of(script.preamble, script.header),
        "date": date_of(script.header, lost),
        "header": script.header,
        "units": {"time": "ms", "position": "pixels", "pupil": pupils[0] if pupils else None},
        "blocks": script.blocks,
        "inputs": script.inputs,
        "buttons": script.buttons,
        "unparsed": {
            "count": bad,
            "first": [text for _, text in first],
            "lines": [n for n, _ in first],
        },
    }


def _keep_repeated(recording: Recording, script: Script, repeated: Repeated) -> None:
    """Drop all but the first or last recording of each trial id, in all tables."""
    trials = recording.trials
    if trials is None or repeated == "both":
        return
    key = trials["trial_id"].fillna(trials["trial"])
    gone = key.duplicated(keep=repeated)
    if not gone.any():
        return
    names = trials["trial"][gone]
    why = f"another recording of a repeated trial id (repeated={repeated!r})"
    recording.lost.add("trials", "dropped", why, len(names), "trials", names)
    kept = dict(zip(trials["trial"][~gone], key[~gone], strict=True))
    for name, table in recording.tables().items():
        if "trial" in table:
            out = table["trial"].isin(names)
            if name != "trials":
                why = f"belongs to a trial that was dropped (repeated={repeated!r})"
                recording.lost.add(name, "dropped", why, int(out.sum()))
            table = table[~out].reset_index(drop=True)
            again = {k: v for k, v in kept.items() if k != v}
            if again:
                table["trial"] = table["trial"].replace(again).astype("str")
            setattr(recording, name, table)


def _warn(path: Path, recording: Recording) -> None:
    unparsed = recording.info["unparsed"]
    if unparsed["count"]:
        warnings.warn(
            f"{path.name}: {unparsed['count']} lines not understood, first line "
            f"{unparsed['lines'][0]}: {unparsed['first'][0]!r}",
            stacklevel=3,
        )
