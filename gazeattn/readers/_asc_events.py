"""The lines of an ASC file without samples: blocks, eye events, messages, trials and the header."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gazeattn.readers._asc_layout import EYES, PREFIX, Declared
from gazeattn.readers._asc_samples import Unreadable

OFFSET = r"(?:[-+]?\d+(?:\.\d+)?\s+)?"
"""A message may begin with its delay in ms."""
SIDES = {b"L": "left", b"R": "right", b"LEFT": "left", b"RIGHT": "right"}
OWN = frozenset({"participant", "trial", "trial_id", "index", "block", "start", "end", "result"})
"""Columns of the trial table that no trial variable may take."""


class Event(NamedTuple):
    """An eye event; `start_line` is the line on which it began, where there is one."""

    line: int
    block: int
    eye: str
    onset: float
    end: float
    duration: float
    values: dict[str, float]
    start_line: int | None


@dataclass
class Trial:
    """A trial as its messages describe it."""

    name: str
    line: int
    start: float
    block: int
    end: float = math.nan
    result: str | None = None
    variables: dict[str, str | None] = field(default_factory=dict)


class Unfit(ValueError):
    """A line is not as its first word says."""


class Script:
    """Everything but the samples, line by line.

    Attributes
    ----------
    blocks : list of dict
        Facts of each recording block.
    layouts : list of (int, Declared)
        Line from which on the sample lines have this layout.
    block_marks, trial_marks : list of (int, int)
        Line from which on a block or trial (-1 for none) holds.
    notes : Counter
        (step, kind, text, unit) to count; `examples` holds the first case of each.
    """

    def __init__(
        self, missing: frozenset[bytes], trial: re.Pattern[str], encoding: str | None
    ) -> None:
        self.missing, self.trial_pattern, self.encoding = missing, trial, encoding
        self.blocks: list[dict[str, Any]] = []
        self.layouts: list[tuple[int, Declared]] = [(-1, Declared())]
        self.block_marks: list[tuple[int, int]] = [(-1, -1)]
        self.trial_marks: list[tuple[int, int]] = [(-1, -1)]
        self.trials: list[Trial] = []
        self.events: dict[str, list[Event]] = {"FIX": [], "SACC": [], "BLINK": []}
        self.messages: list[tuple[int, int, float, str]] = []
        self.inputs: list[list[float]] = []
        self.buttons: list[list[float]] = []
        self.header: dict[str, str] = {}
        self.preamble: list[str] = []
        self.coordinates: dict[str, list[tuple[float, float, float, float]]] = {}
        self.unreadable = Unreadable()
        self.notes: Counter[tuple[str, str, str, str]] = Counter()
        self.examples: dict[tuple[str, str, str, str], str] = {}
        self.n_lines = self.starts_seen = 0
        self.in_block = self.in_trial = False
        self._declared = Declared()
        self._config: dict[str, Any] = {}
        self._open: dict[tuple[str, str], tuple[int, float]] = {}
        self._orphans: Counter[str] = Counter()
        self._labels: list[str] = []
        self._after_message = -2
        self._handlers: dict[bytes, Callable[[int, bytes, list[bytes]], None]] = {
            b"MSG": self._message,
            b"START": self._start,
            b"END": self._end,
            b"SAMPLES": self._samples,
            b"EVENTS": self._event_data,
            b"INPUT": self._input,
            b"BUTTON": self._button,
            b"PUPIL": self._pupil,
            b"PRESCALER": self._scale,
            b"VPRESCALER": self._scale,
            **{b"S" + k.encode(): self._event_start for k in self.events},
            **{b"E" + k.encode(): self._event_end for k in self.events},
        }

    def note(
        self, step: str, kind: str, text: str, example: object = "", unit: str = "lines"
    ) -> None:
        """Count something for the report."""
        key = (step, kind, text, unit)
        self.notes[key] += 1
        self.examples.setdefault(key, str(example))

    def add(self, line: int, raw: bytes) -> None:
        """Take one line."""
        first = raw[:1]
        if not raw.strip():
            if self._after_message == line - 1:
                self._after_message = line
            return
        self.n_lines += 1
        if first in b" \t" and self._after_message == line - 1:
            at, block, time, text = self.messages[-1]  # calibrations run over several lines
            self.messages[-1] = (at, block, time, f"{text}\n{self.decoded(raw.strip())}")
            self._after_message = line
            return
        if first == b"*" and raw.startswith(b"**"):
            self._preamble(raw)
            return
        if first in b"#/;" or raw.startswith(b">>>>>>>"):
            return
        if not raw.strip(b" \t."):  # parts a file that holds nothing but samples
            return
        words = raw.split()
        handler = self._handlers.get(words[0])
        try:
            if handler is None:
                raise Unfit
            handler(line, raw, words)
        except (Unfit, IndexError):
            self.unreadable.add([(line, raw)] if self.unreadable.count < 10 else [], 1)

    def decoded(self, raw: bytes) -> str:
        """Return text; bytes that are not UTF-8 are taken as the Western Windows encoding."""
        if self.encoding:
            try:
                return raw.decode(self.encoding)
            except UnicodeError:
                why = f"bytes that are not {self.encoding}: read as Latin-1"
                self.note("messages", "repaired", why, repr(raw[:60]))
                return raw.decode("latin-1")
        try:
            return raw.decode("utf-8")
        except UnicodeError:
            why = "bytes that are not UTF-8: read as Windows-1252 (Latin-1)"
            self.note("messages", "repaired", why, repr(raw[:60]))
        try:
            return raw.decode("cp1252")
        except UnicodeError:
            return raw.decode("latin-1")

    def number(self, word: bytes) -> float:
        """Return a number, NaN for a missing one."""
        if word in self.missing:
            return math.nan
        try:
            value = float(word)
        except ValueError:
            raise Unfit from None
        if not math.isfinite(value) or b"_" in word:
            raise Unfit
        return value

    def time(self, word: bytes) -> float:
        """Return a number that must be there."""
        value = self.number(word)
        if math.isnan(value):
            raise Unfit
        return value

    def _preamble(self, raw: bytes) -> None:
        text = self.decoded(raw.lstrip(b"*").strip())
        self.preamble.append(text)
        name, colon, value = text.partition(":")
        if colon and name == name.upper() and len(name) < 20:
            self.header.setdefault(name.strip(), value.strip())

    def _start(self, line: int, raw: bytes, words: list[bytes]) -> None:
        time = self.time(words[1])
        if self.in_block:
            self.note("blocks", "note", "recording block without END", f"line {line + 1}", "blocks")
        self._close_events()
        names = [w.decode("latin-1") for w in words[2:]]
        eyes = tuple(EYES[n] for n in ("LEFT", "RIGHT") if n in names)
        stated = eyes or self._declared.eyes or self._config.get("eyes", ())
        self._declared = self._declared._replace(eyes=tuple(stated))
        self.layouts.append((line, self._declared))
        self.blocks.append(
            {
                "block": len(self.blocks),
                "start": time,
                "end": None,
                "eyes": list(stated),
                "content": [n for n in names if n not in EYES],
                "eyes_stated": bool(eyes),
                **{k: v for k, v in self._config.items() if k != "eyes"},
            }
        )
        self.in_block = True
        self.block_marks.append((line, len(self.blocks) - 1))
        if self.in_trial and self.trials[-1].block < 0:
            self.trials[-1].block = len(self.blocks) - 1

    def _end(self, line: int, raw: bytes, words: list[bytes]) -> None:
        time = self.time(words[1])
        if not self.in_block:
            self.note("blocks", "note", "END without START", f"line {line + 1}", "blocks")
            return
        block = self.blocks[-1]
        block["end"] = time
        if b"RES" in words:
            block["resolution"] = [self.number(w) for w in words[words.index(b"RES") + 1 :][:2]]
        self.in_block = False
        self.block_marks.append((line, -1))

    def _samples(self, line: int, raw: bytes, words: list[bytes]) -> None:
        names = [w.decode("latin-1") for w in words[1:]]
        if (self.in_block and self.blocks[-1].get("rate") is None) or "RATE" in names:
            self._rate(names)
        eyes = tuple(EYES[n] for n in ("LEFT", "RIGHT") if n in names)
        data = next((n for n in names if n in PREFIX), "GAZE")
        known = ("VEL", "RES", "INPUT", "BUTTONS", "HTARGET")
        aliases = {"HTARG": "HTARGET", "BUTTON": "BUTTONS"}
        flags = tuple(f for n in names if (f := aliases.get(n, n)) in known)
        if self.in_block and eyes and self.blocks[-1]["eyes"] != list(eyes):
            block = self.blocks[-1]
            if block["eyes"]:
                why = "START and SAMPLES lines name different eyes: those of SAMPLES are taken"
                self.note("blocks", "note", why, f"block {block['block']}", "blocks")
            block["eyes"] = list(eyes)
        eyes = eyes or (tuple(self.blocks[-1]["eyes"]) if self.in_block else ())
        self._declared = Declared(eyes, data, flags)
        if self.in_block:
            self.blocks[-1]["samples_data"] = data
            self.layouts.append((line, self._declared))
        if data != "GAZE":
            why = f"samples are {data} data, not gaze on the screen: columns {PREFIX[data]}x, ..."
            self.note("samples", "note", why, f"line {line + 1}", "blocks")

    def _rate(self, names: list[str]) -> None:
        facts = self.blocks[-1] if self.in_block else self._config
        if "RATE" in names[:-1]:
            facts["rate"] = self.time(names[names.index("RATE") + 1].encode()) or None
        if "TRACKING" in names[:-1]:
            facts.setdefault("mode", names[names.index("TRACKING") + 1])
        if "FILTER" in names[:-1]:
            facts.setdefault("file_filter", self.number(names[names.index("FILTER") + 1].encode()))

    def _event_data(self, line: int, raw: bytes, words: list[bytes]) -> None:
        names = [w.decode("latin-1") for w in words[1:]]
        facts = self.blocks[-1] if self.in_block else self._config
        facts["events_data"] = next((n for n in names if n in PREFIX), "GAZE")
        if facts["events_data"] != "GAZE":
            why = f"events are {facts['events_data']} data, not gaze on the screen"
            self.note("events", "note", why, f"line {line + 1}", "blocks")
        if facts.get("rate") is None:
            self._rate(names)

    def _input(self, line: int, raw: bytes, words: list[bytes]) -> None:
        self.inputs.append([self.time(words[1]), self.number(words[2])])

    def _button(self, line: int, raw: bytes, words: list[bytes]) -> None:
        self.buttons.append([self.time(words[1]), *(self.number(w) for w in words[2:4])])

    def _pupil(self, line: int, raw: bytes, words: list[bytes]) -> None:
        facts = self.blocks[-1] if self.in_block else self._config
        facts["pupil"] = words[1].decode("latin-1").lower()

    def _scale(self, line: int, raw: bytes, words: list[bytes]) -> None:
        self.number(words[1])

    def _event_start(self, line: int, raw: bytes, words: list[bytes]) -> None:
        kind, eye = words[0][1:].decode(), SIDES.get(words[1])
        if eye is None:
            raise Unfit
        time = self.time(words[2])
        self.starts_seen += 1
        if (kind, eye) in self._open:
            self._unended(kind, eye)
        self._open[kind, eye] = (line, time)

    def _event_end(self, line: int, raw: bytes, words: list[bytes]) -> None:
        kind, eye = words[0][1:].decode(), SIDES.get(words[1])
        if eye is None:
            raise Unfit
        onset, end = self.time(words[2]), self.time(words[3])
        duration = self.number(words[4])
        if end < onset or duration < 0:
            raise Unfit
        values = self._values(kind, [self.number(w) for w in words[5:]])
        start = self._open.pop((kind, eye), None)
        if start is None:
            self._orphans[kind] += 1
            self.examples.setdefault(("orphan", kind, "", ""), f"line {line + 1}")
        block = len(self.blocks) - 1
        self.events[kind].append(
            Event(line, block, eye, onset, end, duration, values, start and start[0])
        )

    def _values(self, kind: str, found: list[float]) -> dict[str, float]:
        """Name the numbers of an event; more than known are the resolution, or kept unnamed."""
        facts = self.blocks[-1] if self.blocks else self._config
        p = PREFIX[facts.get("events_data", "GAZE")]
        if kind == "FIX":
            names = [f"{p}x", f"{p}y", "pupil"]
        elif kind == "SACC":
            places = ["x_start", "y_start", "x_end", "y_end"]
            names = [*(p + n for n in places), "amplitude", "peak_velocity"]
        else:
            names = []
        if found and len(found) < len(names):
            self.note(
                "events", "undefined", f"E{kind} with fewer numbers than usual", unit="events"
            )
        more = len(found) - len(names)
        if names and more == 2:
            names += ["resolution_x", "resolution_y"]
        elif more > 0:
            names += [f"extra_{k}" for k in range(1, more + 1)]
            self.note("events", "note", f"E{kind} with more numbers than known", unit="events")
        return dict(zip(names, found, strict=False))

    def _unended(self, kind: str, eye: str) -> None:
        line, _ = self._open.pop((kind, eye))
        why = f"unmatched start: S{kind} without E{kind}, its end is unknown, no event made"
        self.note("events", "undefined", why, f"line {line + 1}", "events")

    def _close_events(self) -> None:
        for kind, eye in list(self._open):
            self._unended(kind, eye)

    def _message(self, line: int, raw: bytes, words: list[bytes]) -> None:
        time = self.time(words[1])
        parts = raw.split(None, 2)
        text = self.decoded(parts[2].strip()) if len(parts) > 2 else ""
        block = len(self.blocks) - 1 if self.in_block else -1
        self._after_message = line
        self.messages.append((line, block, time, text))
        if found := self.trial_pattern.search(text):
            groups = found.groupdict()
            name = groups["trial"] if "trial" in groups else (found.groups() or (found[0],))[0]
            self.trials.append(Trial((name or "").strip(), line, time, block))
            self.trial_marks.append((line, len(self.trials) - 1))
            self.in_trial = True
        elif "TRIAL_RESULT" in text and (m := _RESULT.match(text)):
            if not self.in_trial:
                self.note("trials", "note", "TRIAL_RESULT outside every trial", f"line {line + 1}")
                return
            trial = self.trials[-1]
            trial.end, trial.result = time, m[1].strip() or None
            self.trial_marks.append((line + 1, -1))
            self.in_trial = False
        elif "TRIAL_VAR" in text and (m := _VARIABLE.match(text)):
            self._variable(line, m[1], m[2])
        elif "COORDS" in text and (m := _COORDS.match(text)):
            if not _CORNERS.fullmatch(m[2].strip()):
                self.note("screen", "note", f"{m[1]} is not four numbers", f"line {line + 1}")
                return
            left, top, right, bottom = (float(v) for v in m[2].replace(",", " ").split())
            known = self.coordinates.setdefault(m[1], [])
            if not known or known[-1] != (left, top, right, bottom):
                known.append((left, top, right, bottom))
        elif "RECCFG" in text and (m := _RECCFG.match(text)):
            self._reccfg(m[1].split(), line)

    def _variable(self, line: int, kind: str, rest: str) -> None:
        words = rest.split()
        if kind == "_LABELS":
            self._labels = words
            return
        if not self.trials:
            self.note("trials", "note", "trial variable before every trial", f"line {line + 1}")
            return
        if kind == "_DATA":
            pairs = list(zip(self._labels, words, strict=False))
            if len(words) != len(self._labels):
                why = "TRIAL_VAR_DATA does not fit TRIAL_VAR_LABELS"
                self.note("trials", "note", why, f"line {line + 1}")
        elif words:
            pairs = [(words[0], rest.strip()[len(words[0]) :].strip())]
        else:
            pairs = []
        variables = self.trials[-1].variables
        for name, text in pairs:
            value = None if text in ("", ".") else text
            if name in OWN:
                name = f"{name}_variable"
            if name in variables and variables[name] != value:
                why = "trial variable set again: the last value is kept"
                self.note("trials", "note", why, f"{name}, line {line + 1}")
            variables[name] = value

    def _reccfg(self, words: list[str], line: int) -> None:
        """Read mode, rate, sample filters (file, link), event filters if there, and eyes."""
        config: dict[str, Any] = {}
        numbers = [w for w in words if re.fullmatch(r"\d{1,9}(\.\d+)?", w)]
        names = [w for w in words if w not in numbers]
        if names and names[-1] in ("L", "R", "LR", "RL"):
            config["eyes"] = tuple(e for c, e in (("L", "left"), ("R", "right")) if c in names[-1])
            names.pop()
        if not numbers or len(names) != 1:
            self.note("blocks", "note", "RECCFG is not as known", f"line {line + 1}")
        if names:
            config["mode"] = names[0]
        keys = ("rate", "file_filter", "link_filter", "file_event_filter", "link_event_filter")
        config.update(zip(keys, map(_whole, numbers), strict=False))
        kept: dict[str, Any] = {
            k: self._config[k] for k in ("pupil", "events_data") if k in self._config
        }
        self._config = {**kept, **config}

    def finish(self) -> None:
        """Count what is still open at the end of the file."""
        self._close_events()
        if self.in_block:
            why = "recording block without END: the file is cut"
            self.note("blocks", "note", why, f"block {len(self.blocks) - 1}", "blocks")
        for kind, count in self._orphans.items():
            why = f"unmatched end: E{kind} without S{kind}, kept with the times that it states"
            if not self.starts_seen:  # converters can leave them out
                why += " (the file holds no start lines of events)"
            example = self.examples[("orphan", kind, "", "")]
            key = ("events", "note", why, "events")
            self.notes[key] += count
            self.examples.setdefault(key, example)


def _whole(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() else value


_RESULT = re.compile(OFFSET + r"TRIAL_RESULT\b(.*)", re.S)
_VARIABLE = re.compile(OFFSET + r"(?:!V\s+)?TRIAL_VAR(_LABELS|_DATA|)(?![\w-])(.*)", re.S)
_COORDS = re.compile(OFFSET + r"(DISPLAY_COORDS|GAZE_COORDS)[\s:=]+(.*)", re.S)
_CORNERS = re.compile(r"[-+]?\d{1,6}(\.\d*)?([\s,]+[-+]?\d{1,6}(\.\d*)?){3}")
_RECCFG = re.compile(OFFSET + r"RECCFG\s+(.*)", re.S)
