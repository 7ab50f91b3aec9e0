"""How good a recording is: share of missing, off-screen and blink samples, rates and gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gazeattn.recordings import Recording

EYES = (("", "not stated"), ("_left", "left"), ("_right", "right"))
GAP = 1.5
"""Steps in time longer than this many usual steps count as gaps."""


def rate_of(time: np.ndarray) -> float:
    """Return the usual sampling rate in Hz from times in ms; NaN with fewer than two samples."""
    steps = np.diff(np.asarray(time, dtype=np.float64))
    steps = steps[steps > 0]
    return float(1000 / np.median(steps)) if len(steps) else float("nan")


def quality(recording: Recording) -> pd.DataFrame:
    """Return the quality of the samples, one row per recording block and eye.

    Returns
    -------
    DataFrame
        block, eye, samples, seconds, rate (Hz, from the times), missing (share of samples without
        x or y), off_screen (share of those with a position; missing where the screen is not
        known), blink (share of samples inside a blink of the eye; missing where the recording
        lists no blinks), gaps (steps longer than 1.5 usual ones).
    """
    samples = recording.samples
    columns = ["block", "eye", "samples", "seconds", "rate", "missing", "off_screen", "blink"]
    if samples is None or not len(samples):
        return pd.DataFrame(columns=[*columns, "gaps"])
    blocks = samples["block"] if "block" in samples else pd.Series(0, index=samples.index)
    numbers = blocks.fillna(-1).to_numpy(dtype=np.int64)
    rows = []
    recorded = _recorded_eyes(recording)
    for block in np.unique(numbers):
        part = samples[numbers == block]
        time = part["time"].to_numpy(dtype=np.float64, na_value=np.nan)
        steps = np.diff(time)
        usual = np.median(steps[steps > 0]) if (steps > 0).any() else np.nan
        for suffix, eye in EYES:
            if f"x{suffix}" not in part or f"y{suffix}" not in part:
                continue
            x, y = (
                part[f"{a}{suffix}"].to_numpy(dtype=np.float64, na_value=np.nan) for a in ("x", "y")
            )
            there = ~(np.isnan(x) | np.isnan(y))
            if not there.any() and eye not in recorded.get(int(block), (eye,)):
                continue  # an eye that was not recorded in this block
            rows.append(
                {
                    "block": int(block),
                    "eye": eye,
                    "samples": len(part),
                    "seconds": float(len(part) * usual / 1000),
                    "rate": rate_of(time),
                    "missing": float(1 - there.mean()),
                    "off_screen": _off_screen(x[there], y[there], recording.info.get("screen")),
                    "blink": _blink_share(recording.blinks, time, eye),
                    "gaps": int((steps > GAP * usual).sum()),
                }
            )
    return pd.DataFrame(rows, columns=[*columns, "gaps"])


def _recorded_eyes(recording: Recording) -> dict[int, tuple[str, ...]]:
    """Return the eyes of each block as far as the file states them."""
    blocks = recording.info.get("blocks") or []
    stated = {i: tuple(b["eyes"]) for i, b in enumerate(blocks) if b.get("eyes")}
    eyes = recording.info.get("eyes") or ()
    if not stated and len(eyes) == 1 and recording.samples is not None:
        numbers = recording.samples.get("block", pd.Series([0])).dropna().unique()
        stated = {int(n): tuple(eyes) for n in numbers}
    return stated


def _off_screen(x: np.ndarray, y: np.ndarray, screen: Any) -> float:
    if screen is None or not len(x):
        return float("nan")
    width, height = screen
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    return float(1 - inside.mean())


def _blink_share(blinks: pd.DataFrame | None, time: np.ndarray, eye: str) -> float:
    """Return the share of samples that lie in a blink of the eye, or of one of no stated eye."""
    if blinks is None:
        return float("nan")
    if "eye" in blinks and eye != "not stated":
        blinks = blinks[blinks["eye"].isna() | blinks["eye"].isin([eye, "both"])]
    blinks = blinks.dropna(subset=["onset", "duration"]).sort_values("onset")
    onset = blinks["onset"].to_numpy(dtype=np.float64)
    if not len(onset):
        return 0.0
    # blinks of several eyes may overlap: the last end so far closes all that began before
    end = np.maximum.accumulate(onset + blinks["duration"].to_numpy(dtype=np.float64))
    at = np.searchsorted(onset, time, side="right") - 1
    return float(((at >= 0) & (time < end[np.maximum(at, 0)])).mean())


def overview(recording: Recording) -> list[tuple[str, str]]:
    """Return the facts of a recording as pairs of name and text."""
    info = recording.info
    facts: list[tuple[str, str]] = [("reader", recording.reader)]
    for key, label in (("tracker", "tracker"), ("date", "date"), ("eyes", "eyes")):
        if info.get(key):
            value = info[key]
            facts.append((label, value if isinstance(value, str) else ", ".join(map(str, value))))
    if info.get("rate"):
        rates = info["rate"] if isinstance(info["rate"], list | tuple) else [info["rate"]]
        facts.append(("stated rate", ", ".join(f"{r:g} Hz" for r in rates)))
    if info.get("screen"):
        facts.append(("screen", " x ".join(f"{v:g}" for v in info["screen"])))
    for name, table in recording.tables().items():
        facts.append((name, f"{len(table):,} rows"))
    facts += _of_fixations(recording)
    people = {
        str(p)
        for table in recording.tables().values()
        if "participant" in table
        for p in table["participant"].dropna().unique()
    }
    if people:
        facts.append(("participants", ", ".join(sorted(people)[:8])))
    return facts


def _of_fixations(recording: Recording) -> list[tuple[str, str]]:
    """Return how good the fixations are: durations, and shares without a place or off screen."""
    table = recording.fixations
    if table is None or not len(table):
        return []
    facts = []
    if "duration" in table and table["duration"].notna().any():
        facts.append(("median fixation", f"{table['duration'].median():g} ms"))
    if {"x", "y"} <= set(table):
        x, y = (table[c].to_numpy(dtype=np.float64, na_value=np.nan) for c in ("x", "y"))
        there = ~(np.isnan(x) | np.isnan(y))
        facts.append(("fixations without a position", f"{100 * (1 - there.mean()):.1f} %"))
        off = _off_screen(x[there], y[there], recording.info.get("screen"))
        if off == off:
            facts.append(("fixations off the screen", f"{100 * off:.1f} %"))
    return facts
