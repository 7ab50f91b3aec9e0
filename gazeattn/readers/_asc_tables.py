"""What was read from an ASC file as tables: trials and blocks on every row, times checked."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.losses import LossLog
from gazeattn.readers._asc_events import Event, Script, Trial
from gazeattn.readers._asc_samples import Samples

ORDER = ("x", "y", "pupil", "x_left", "y_left", "pupil_left", "x_right", "y_right")


def texts(codes: np.ndarray, names: list[str]) -> pd.Series:
    """Return one text per row from its number, missing where that is -1."""
    values = pd.Series(names, dtype="str").array
    return pd.Series(values.take(codes, allow_fill=True), copy=False)


def trial_names(trials: list[Trial], lost: LossLog) -> list[str]:
    """Return ids that are unique: the second trial ``3`` is ``3#2``."""
    used: set[str] = {t.name for t in trials}
    seen: dict[str, int] = {}
    names, again, nameless = [], [], 0
    for k, trial in enumerate(trials):
        name = trial.name
        if not name:
            nameless += 1
            name = f"#{k + 1}"
            while name in used:
                name += "#"
            used.add(name)
        seen[name] = count = seen.get(name, 0) + 1
        if count > 1:
            again.append(name)
            base, name = name, f"{name}#{count}"
            while name in used:
                seen[base] = count = count + 1
                name = f"{base}#{count}"
            used.add(name)
        names.append(name)
    why = "trial id that was there before: kept apart as ID#2, ..."
    lost.add("trials", "note", why, len(again), "trials", again)
    why = "trial message without an id: numbered in order of the file"
    lost.add("trials", "repaired", why, nameless, "trials")
    return names


def trial_table(
    trials: list[Trial], names: list[str], counts: np.ndarray, lost: LossLog
) -> pd.DataFrame:
    """Return one row per trial, its variables as columns."""
    blocks = pd.array([t.block if t.block >= 0 else None for t in trials], dtype="Int64")
    data: dict[str, Any] = {
        "trial": pd.Series(names, dtype="str"),
        "trial_id": pd.Series([t.name or None for t in trials], dtype="str"),
        "index": np.arange(len(trials)),
        "block": pd.Series(blocks),
        "start": np.array([t.start for t in trials], float),
        "end": np.array([t.end for t in trials], float),
        "result": pd.Series([t.result for t in trials], dtype="str"),
        "samples": counts,
    }
    for name in dict.fromkeys(v for t in trials for v in t.variables):
        own = f"{name}_variable" if name in data else name
        data[own] = pd.Series([t.variables.get(name) for t in trials], dtype="str")
    open_end = [n for n, t in zip(names, trials, strict=True) if math.isnan(t.end)]
    why = "no TRIAL_RESULT: the trial goes on to the next one, its end time is missing"
    lost.add("trials", "undefined", why, len(open_end), "trials", open_end)
    return pd.DataFrame(data)


def codes_at(marks: list[tuple[int, int]], lines: np.ndarray) -> np.ndarray:
    """Return the block or trial that holds on each line."""
    at, value = (np.array(column) for column in zip(*marks, strict=True))
    return value[np.searchsorted(at, lines, side="right") - 1]


def spread(rows: list[int], marks: list[tuple[int, int]], n_rows: int) -> np.ndarray:
    """Return the block or trial of every sample row; `rows` is where each mark begins to hold."""
    sizes = np.diff(np.r_[rows, n_rows])
    return np.repeat(np.array([value for _, value in marks], np.int32), sizes)


def event_trials(events: list[Event], script: Script) -> np.ndarray:
    """Return the trial in which each event began.

    That is the trial of its start line. Without one it is the trial of its end line, unless the
    event began before that trial: then the trial whose times hold the onset, or none.
    """
    if not events:
        return np.zeros(0, int)
    lines = np.array([e.line if e.start_line is None else e.start_line for e in events])
    found = codes_at(script.trial_marks, lines)
    starts = np.array([t.start for t in script.trials])
    ends = np.array([t.end for t in script.trials])
    for k, event in enumerate(events):
        if event.start_line is not None or found[k] < 0 or event.onset >= starts[found[k]]:
            continue
        trial = int(found[k]) - 1
        while trial >= 0 and starts[trial] > event.onset:
            trial -= 1
        same_clock = trial >= 0 and bool(np.all(np.diff(starts[trial : found[k] + 1]) >= 0))
        ended = trial >= 0 and ends[trial] < event.onset
        same_block = trial >= 0 and script.trials[trial].block == event.block
        found[k] = trial if same_clock and not ended and same_block else -1
    return found


def event_table(
    events: list[Event], columns: list[str], script: Script, lost: LossLog, what: str
) -> tuple[pd.DataFrame, np.ndarray]:
    """Return events with onset and inclusive duration, and the trial number of each."""
    trial = event_trials(events, script)
    onset = np.array([e.onset for e in events], float)
    end = np.array([e.end for e in events], float)
    duration = np.array([e.duration for e in events], float)
    rates = [script.blocks[e.block].get("rate") if e.block >= 0 else None for e in events]
    step = np.array([1000.0 / r if r else np.nan for r in rates], float)
    odd = np.abs(end - onset + step - duration) > np.maximum(step, 1.0)
    why = "stated duration is not last minus first sample plus one interval: kept as stated"
    lost.add(what, "note", why, int(odd.sum()), "events", onset[odd])
    numbers = np.array([e.block for e in events], int)
    far = outside_blocks(onset, numbers, script) | outside_blocks(end, numbers, script)
    why = "time far outside its block (START to END): kept as written"
    lost.add(what, "note", why, int(far.sum()), "events", onset[far])
    absent = np.isnan(duration) & ~np.isnan(step)
    duration[absent] = (end - onset + step)[absent]
    why = "no stated duration: last minus first sample plus one interval"
    lost.add(what, "repaired", why, int(absent.sum()), "events")
    eyes = pd.Series([e.eye for e in events], dtype="str")
    data: dict[str, Any] = {"block": nullable(numbers), "eye": eyes, "onset": onset}
    data["duration"] = duration
    found = list(dict.fromkeys(name for e in events for name in e.values))
    for name in dict.fromkeys([*columns, *found]):
        data[name] = np.array([e.values.get(name, np.nan) for e in events], float)
    return pd.DataFrame(data), trial


def nullable(codes: np.ndarray) -> np.ndarray | pd.Series:
    """Return numbers as they are, or with NA for -1."""
    if not (codes < 0).any():
        return codes
    return pd.Series(pd.arrays.IntegerArray(codes, codes < 0), copy=False)


def sample_table(samples: Samples, time: np.ndarray, block: np.ndarray) -> pd.DataFrame:
    """Return all samples with their times and blocks; takes the columns out of the store."""
    names = samples.store.names
    data: dict[str, Any] = {"block": nullable(block), "time": time}
    for name in [*(c for c in ORDER if c in names), *(c for c in names if c not in ORDER)]:
        values = samples.store.take(name)
        if name in samples.status:
            known = [k.decode("latin-1") for k in samples.status[name]]
            data[name] = pd.Categorical.from_codes(values, categories=known)  # type: ignore
        else:
            data[name] = values
    return pd.DataFrame(data, copy=False)


def half_steps(time: np.ndarray, block: np.ndarray, script: Script, lost: LossLog) -> None:
    """Put the second of two samples of one millisecond half a millisecond later, at 2000 Hz."""
    if len(time) < 2:
        return
    twice = np.r_[False, (time[1:] == time[:-1]) & (block[1:] == block[:-1])]
    if not twice.any():
        return
    rates = [b.get("rate") for b in script.blocks]
    fast = {k for k, rate in enumerate(rates) if rate == 2000}
    for k in {k for k, rate in enumerate(rates) if rate is None} & set(np.unique(block).tolist()):
        if 2.5 * twice[block == k].sum() >= (block == k).sum() > 3:
            fast.add(k)  # no rate is stated, but nearly all samples come in pairs
    half = twice & np.isin(block, list(fast)) & np.r_[False, ~twice[:-1]]
    time[half] += 0.5
    why = "second sample of a millisecond at 2000 Hz: put half a millisecond later"
    lost.add("samples", "repaired", why, int(half.sum()))
    rest = twice & ~half
    why = "two samples have the same time"
    lost.add("samples", "note", why, int(rest.sum()), examples=time[rest][:3])


FAR = 1000.0
"""Times (ms) before the start or after the end of their block that are no rounding."""


def outside_blocks(time: np.ndarray, block: np.ndarray, script: Script) -> np.ndarray:
    """Return which times are far from the START and END lines of their block.

    A block that is cut has no end: it counts as two days long.
    """
    if not script.blocks or not len(time):
        return np.zeros(len(time), dtype=bool)
    begin = np.array([b["start"] for b in script.blocks], dtype=np.float64)
    end = [b["start"] + 1.728e8 if b["end"] is None else b["end"] for b in script.blocks]
    row = np.maximum(block, 0)
    far = (time < begin[row] - FAR) | (time > np.array(end, dtype=np.float64)[row] + FAR)
    return far & (block >= 0)


def check_clock(time: np.ndarray, block: np.ndarray, script: Script, lost: LossLog) -> None:
    """Log steps back, gaps within a block, times far outside it, and rates not as stated."""
    far = outside_blocks(time, block, script)
    why = "time far outside its block (START to END): kept as written"
    lost.add("samples", "note", why, int(far.sum()), examples=time[far][:3])
    if len(time) < 2:
        return
    step, same = np.diff(time), block[1:] == block[:-1]
    back = step < 0
    why = "time steps back within a block: rows stay in the order of the file"
    within = back & same
    lost.add("samples", "note", why, int(within.sum()), examples=time[1:][within][:3])
    restart = back & ~same
    why = "a later block begins at an earlier time: the clock was set back"
    lost.add("blocks", "note", why, int(restart.sum()), "blocks", block[1:][restart][:3])
    edges = np.flatnonzero(np.r_[True, ~same, True])
    gaps = 0
    for begin, end in itertools.pairwise(edges):
        number = int(block[begin])
        steps = step[begin : end - 1]
        if number < 0 or not len(steps):
            continue
        usual = float(np.median(steps))
        facts = script.blocks[number]
        if usual > 0:
            gaps += int((steps > 1.5 * usual).sum())
        rate = facts.get("rate")
        if rate is None and usual > 0:
            facts["rate"] = 1000.0 / usual
            facts["rate_from_times"] = True
        elif rate and len(steps) > 2 and usual > 0 and abs(usual * rate / 1000.0 - 1.0) > 0.3:
            why = "samples do not come at the stated rate"
            example = f"block {number}: {rate:g} Hz stated, {1000.0 / usual:g} Hz found"
            lost.add("blocks", "note", why, 1, "blocks", [example])
    lost.add("samples", "note", "gap within a block: samples are missing there", gaps, "gaps")


def blinks_on_samples(
    time: np.ndarray, block: np.ndarray, blinks: list[Event], eye: str
) -> np.ndarray:
    """Return which samples lie within a blink of an eye ("" for either), ends included."""
    marks = np.zeros(len(time) + 1, np.int32)
    edges = np.flatnonzero(np.r_[True, block[1:] != block[:-1]]) if len(block) else np.zeros(0, int)
    spans = {int(block[a]): (int(a), int(b)) for a, b in zip(edges, np.r_[edges[1:], len(block)])}  # noqa: B905
    by_block: dict[int, list[Event]] = {}
    for event in blinks:
        if not eye or event.eye == eye:
            by_block.setdefault(event.block, []).append(event)
    for number, events in by_block.items():
        if number not in spans:
            continue
        begin, end = spans[number]
        part = time[begin:end]
        if (np.diff(part) < 0).any():
            for e in events:
                marks[begin:end] += (part >= e.onset) & (part <= e.end)
                marks[begin + 1 : end + 1] -= (part >= e.onset) & (part <= e.end)
            continue
        first = np.searchsorted(part, [e.onset for e in events], side="left")
        last = np.searchsorted(part, [e.end for e in events], side="right")
        np.add.at(marks, begin + first, 1)
        np.add.at(marks, begin + last, -1)
    return np.cumsum(marks[:-1]) > 0
