"""What cannot be right in a recording: units taken for others, places beyond any screen.

Nothing is changed or taken out here. Each doubt is a counted note in the log of the recording, so
that a file in seconds or with a damaged row never passes without a word.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from gazeattn.losses import LossLog
from gazeattn.recordings import Recording

USUAL: Mapping[str, tuple[float, float]] = {
    "fixations": (10.0, 5_000.0),
    "saccades": (1.0, 5_000.0),
    "blinks": (5.0, 30_000.0),
}
"""Least and largest median duration (ms) of each kind of event that is not doubted."""

LONGEST = 60_000.0
"""Single fixations and saccades that are longer (ms) are counted."""

SHORTEST_STEP, LONGEST_STEP = 0.05, 200.0
"""Usual time (ms) between two samples: trackers have 5 to 20,000 of them in a second."""

FARTHEST = 100_000.0
"""No screen and no stimulus has so many pixels on a side."""

LATEST = 1e15
"""Milliseconds: above every clock, also one that counts from 1970."""

PLACES = tuple(
    f"{axis}{end}" for end in ("", "_left", "_right", "_start", "_end") for axis in ("x", "y")
)
SIDES = ("left", "top", "right", "bottom")


def note_doubts(recording: Recording) -> Recording:
    """Count absurd durations, intervals, positions and times in the log; return the recording."""
    for name, table in recording.tables().items():
        places = SIDES if name == "areas" else PLACES
        far = _any_beyond(table, places, FARTHEST)
        recording.lost.add(
            name,
            "note",
            f"doubt: position more than {FARTHEST:,.0f} pixels away, beyond any screen",
            int(far.sum()),
            examples=_rows(far),
        )
        late = _any_beyond(table, ("time", "onset", "start", "end"), LATEST)
        recording.lost.add(
            name,
            "note",
            "doubt: time beyond 1e15 ms, on no clock",
            int(late.sum()),
            examples=_rows(late),
        )
        if name in USUAL and "duration" in table:
            _durations(table, name, recording.lost)
    if recording.samples is not None:
        _intervals(recording.samples, recording.lost)
    return recording


HEAD = 200_000
"""Samples that show the usual time between two of them."""


def _values(table: pd.DataFrame, name: str) -> np.ndarray:
    if table[name].dtype == np.float64:
        return table[name].to_numpy()
    return table[name].to_numpy(dtype=np.float64, na_value=np.nan)


def _any_beyond(table: pd.DataFrame, names: tuple[str, ...], limit: float) -> np.ndarray:
    """Return which rows have a value in one of the columns whose size is above the limit."""
    beyond = np.zeros(len(table), dtype=bool)
    for name in names:
        if name in table and pd.api.types.is_numeric_dtype(table[name].dtype):
            values = _values(table, name)
            # the two extremes decide in one pass without a temporary column
            if len(values) and max(np.fmax.reduce(values), -np.fmin.reduce(values)) > limit:
                beyond |= np.abs(values) > limit
    return beyond


def _rows(mask: np.ndarray) -> list[str]:
    return [f"row {n}" for n in np.flatnonzero(mask)[:3]]


def _durations(table: pd.DataFrame, name: str, lost: LossLog) -> None:
    values = _values(table, "duration")
    there = np.isfinite(values)
    if not there.any():
        return
    least, largest = USUAL[name]
    usual = float(np.median(values[there]))
    if not least <= usual <= largest:
        other = "seconds" if usual < least else "microseconds or another unit"
        lost.add(
            name,
            "note",
            f"doubt: the usual duration is {usual:g} ms, not {least:g} to {largest:g}: are the "
            f"times in {other}?",
            int(there.sum()),
        )
    elif name != "blinks":  # the tracker may see no eye for minutes
        long = values > LONGEST
        reason = f"doubt: duration above {LONGEST:g} ms"
        lost.add(name, "note", reason, int(long.sum()), examples=_rows(long))
    below = values < 0
    lost.add(name, "note", "doubt: duration below 0", int(below.sum()), examples=_rows(below))


def _intervals(samples: pd.DataFrame, lost: LossLog) -> None:
    samples, rows = samples.iloc[:HEAD], len(samples)
    time = _values(samples, "time")
    steps = np.diff(time)
    for name in ("participant", "trial", "block"):  # each may have a clock of its own
        if name in samples:
            codes = pd.factorize(samples[name])[0]
            steps = np.where(codes[1:] == codes[:-1], steps, np.nan)
    steps = steps[steps > 0]
    if len(steps) < 3:
        return
    usual = float(np.median(steps))
    if not SHORTEST_STEP <= usual <= LONGEST_STEP:
        other = "seconds" if usual < SHORTEST_STEP else "microseconds or another unit"
        lost.add(
            "samples",
            "note",
            f"doubt: samples are usually {usual:g} ms apart: are the times in {other}?",
            rows,
        )
