"""Events of one stream after the other: each eye of each trial and block."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.columns import as_number
from gazeattn.errors import CapabilityError, DataError
from gazeattn.events.angles import Geometry
from gazeattn.events.blinks import find_blinks, near
from gazeattn.events.engbert_kliegl import (
    NoSpreadError,
    binocular,
    engbert_kliegl,
    split_microsaccades,
)
from gazeattn.events.frames import (
    OTHER,
    Rows,
    averages,
    fixation_rows,
    saccade_rows,
    sample_counts,
)
from gazeattn.events.gaps import interval_of, track
from gazeattn.events.methods import METHODS
from gazeattn.events.saccades import saccade_measures
from gazeattn.events.spans import MISSING, STEP, Detected, Spans, check_choice, inside
from gazeattn.events.streams import EYES, Group, both_eyes
from gazeattn.events.velocity import track_velocity
from gazeattn.losses import LossLog
from gazeattn.recordings import BLINKS


@dataclass
class Job:
    """What is asked for and what has been found so far."""

    method: str
    settings: dict[str, Any]
    geometry: Geometry | None
    positions: str
    unit: str
    max_gap: float
    rate: float | None
    eye: str
    padding: tuple[float, float] = (0.0, 0.0)
    blink_limits: dict[str, Any] = field(default_factory=dict)
    blink_source: str | pd.DataFrame | None = None
    lost: LossLog = field(default_factory=LossLog)
    info: list[dict[str, Any]] = field(default_factory=list)
    fixations: Rows = field(default_factory=fixation_rows)
    saccades: Rows = field(default_factory=saccade_rows)
    blinks: Rows = field(default_factory=lambda: Rows(BLINKS))
    other: Rows = field(default_factory=lambda: Rows(OTHER))


def detect_group(job: Job, group: Group, keys: pd.DataFrame, eyes: list[str | None]) -> None:
    """Add the events of one participant, trial and block to the tables of the job."""
    if job.eye in ("mean", "binocular"):
        left_x, left_y, right_x, right_y = both_eyes(group)
        doubtful = np.any([_blinks(job, group, keys, e) for e in ("left", "right")], axis=0)
        names = [f"pupil_{e}" for e in ("left", "right")]
        pupils = [_size(group.columns[name]) for name in names if name in group.columns]
        pupil = np.mean(pupils, axis=0) if pupils else None
        middle = (left_x + right_x) / 2, (left_y + right_y) / 2
        pair = (left_x, left_y, right_x, right_y) if job.eye == "binocular" else None
        _detect_stream(job, group, "both", *middle, pupil, doubtful, pair)
        return
    for e in eyes if job.eye == "each" else [job.eye]:
        if e not in eyes:
            raise CapabilityError(f"the samples hold no positions of the {e} eye")
        x, y = (group.columns[f"{axis}{EYES[e]}"] for axis in "xy")
        size = group.columns.get(f"pupil{EYES[e]}")
        pupil = None if size is None else _size(size)
        _detect_stream(job, group, e, x, y, pupil, _blinks(job, group, keys, e))


def _size(pupil: np.ndarray) -> np.ndarray:
    """Return pupil sizes with NaN in place of the 0 that trackers write where they saw none."""
    return np.where(pupil > 0, pupil, np.nan)


def _blinks(job: Job, group: Group, keys: pd.DataFrame, eye: str | None) -> np.ndarray:
    """Note the blinks of one eye and return which samples they make doubtful."""
    n = len(group.breaks)
    none = np.zeros(n, dtype=bool)
    source = job.blink_source
    if source is None:
        if any(job.padding):
            raise DataError("there are no blinks to pad", found="blink_padding= with blinks=None")
        return none
    time = group.time
    if isinstance(source, pd.DataFrame):
        mine = _of_group(source, group, keys, eye)
        onset = as_number(source["onset"], "onset", "blinks").to_numpy()[mine]
        duration = as_number(source["duration"], "duration", "blinks").to_numpy()[mine]
        unknown = int((np.isnan(onset) | np.isnan(duration)).sum())
        job.lost.add(STEP, "undefined", "blinks without onset or duration", unknown, "blinks")
        # durations count the last sample: the sample at onset + duration is the first after it
        step = interval_of(time, group.breaks)
        step = step if np.isfinite(step) else 0.0
        return _near_parts(group, time, onset, onset + duration - step, job.padding)
    end = EYES[eye]
    check_choice("source of blinks", source, ("pupil", "position"))
    if source == "pupil" and f"pupil{end}" not in group.columns:
        if any(job.padding):
            raise DataError(
                "blinks are to be padded, but the samples hold no pupil",
                expected=f"a column pupil{end}",
                hint="Say blinks='position', or give a table of blinks",
            )
        job.lost.add(STEP, "note", "no pupil column: no blinks looked for", 1, "streams")
        return none
    if source == "pupil":
        signal = group.columns[f"pupil{end}"]
    else:
        x, y = group.columns[f"x{end}"], group.columns[f"y{end}"]
        signal = np.where(np.isnan(x) | np.isnan(y), np.nan, 1.0)
    found, lost = find_blinks(
        group.time, signal, rate=job.rate, breaks=group.breaks, **job.blink_limits
    )
    job.lost.extend(lost)
    job.blinks.add(group.number, eye, found)
    return _near_parts(group, time, found.onset, found.offset, job.padding, found)


def _near_parts(
    group: Group,
    time: np.ndarray,
    onset: np.ndarray,
    offset: np.ndarray,
    padding: tuple[float, float],
    found: Spans | None = None,
) -> np.ndarray:
    """Mark samples near events, part by part where the clock starts anew."""
    if not group.breaks.any():
        return near(time, onset, offset, padding)
    mask = np.zeros(len(time), dtype=bool)
    part = np.cumsum(group.breaks)
    for k in range(int(part[-1]) + 1):
        here = part == k
        mine = np.ones(len(onset), dtype=bool) if found is None else part[found.first] == k
        mask[here] = near(time[here], onset[mine], offset[mine], padding)
    return mask


def _of_group(
    blinks: pd.DataFrame, group: Group, keys: pd.DataFrame, eye: str | None
) -> np.ndarray:
    """Return which blinks of a table are of this participant, block and eye."""
    for name in ("onset", "duration"):
        if name not in blinks:
            raise DataError(f"the table of blinks lacks the column {name!r}")
    mine = np.ones(len(blinks), dtype=bool)
    for name in ("participant", "block"):  # a blink may begin before its trial
        if name in blinks and name in keys:
            key = keys[name].iloc[group.number]
            same = blinks[name].isna() if pd.isna(key) else blinks[name].astype("str") == str(key)
            mine &= same.to_numpy(dtype=bool, na_value=False)
    if "eye" in blinks and eye is not None:
        mine &= (blinks["eye"].isna() | blinks["eye"].isin([eye, "both"])).to_numpy(dtype=bool)
    return mine


def _detect_stream(
    job: Job,
    group: Group,
    eye: str | None,
    x: np.ndarray,
    y: np.ndarray,
    pupil: np.ndarray | None,
    doubtful: np.ndarray,
    pair: tuple[np.ndarray, ...] | None = None,
) -> None:
    lost = job.lost
    seen = ~(np.isnan(x) | np.isnan(y))
    lost.add(STEP, "undefined", MISSING, int((~seen).sum()), "samples")
    hidden = int((seen & doubtful).sum())
    lost.add(STEP, "dropped", "samples in blinks and their padding", hidden, "samples")
    x, y = (np.where(doubtful, np.nan, v) for v in (x, y))
    pixels, degrees = _units(job, x, y)
    options = {"max_gap": job.max_gap, "rate": job.rate, "breaks": group.breaks}
    try:
        if pair is not None:
            pair = tuple(np.where(doubtful, np.nan, v) for v in pair)
            found = _both(job, group, pair, options)
        else:
            at = _in_unit(job, pixels, degrees)
            found = METHODS[job.method][0](group.time, *at, **options, **job.settings)
    except NoSpreadError as error:  # one still trial must not stop a corpus
        name = f"group {group.number}" + (f", {eye} eye" if eye else "")
        warnings.warn(f"no events in {name}: {error}", stacklevel=2)
        reason = "velocity without spread: no threshold, no events looked for"
        lost.add(STEP, "undefined", reason, 1, "streams", [name])
        return
    for loss in found.lost:
        if loss.reason != MISSING:  # counted above, without those hidden by blinks
            lost.extend(LossLog([loss]))
    if found.info:
        job.info.append({"group": group.number, "eye": eye, **found.info})

    shown = pixels if pixels is not None else (x, y)
    there = ~(np.isnan(x) | np.isnan(y) | np.isnan(group.time))
    values = {"x": shown[0], "y": shown[1]}
    if pupil is not None:
        values["pupil"] = pupil
    spans = found.fixations
    job.fixations.add(
        group.number,
        eye,
        spans,
        **averages(spans, **values),
        **({} if pupil is not None else {"pupil": np.full(len(spans), np.nan)}),
        **sample_counts(spans, group.time, there),
    )
    velocity = found.velocity if job.unit == "degrees" else None
    measured = (shown, degrees, velocity, options)
    job.saccades.add(
        group.number, eye, found.saccades, **_measures(job, group, found.saccades, *measured)
    )
    for label, kind in found.other.items():
        values = _measures(job, group, kind, *measured)
        job.other.add(group.number, eye, kind, label=label, **values)
        lost.add(STEP, "note", f"events of the kind {label}", len(kind), "events")


def _units(
    job: Job, x: np.ndarray, y: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray] | None, tuple[np.ndarray, np.ndarray] | None]:
    """Return positions in pixels and in degrees, None where they cannot be had."""
    if job.positions == "degrees":
        return (job.geometry.to_pixels(x, y) if job.geometry else None), (x, y)
    return (x, y), (job.geometry.to_degrees(x, y) if job.geometry else None)


def _in_unit(
    job: Job,
    pixels: tuple[np.ndarray, np.ndarray] | None,
    degrees: tuple[np.ndarray, np.ndarray] | None,
) -> tuple[np.ndarray, np.ndarray]:
    at = degrees if job.unit == "degrees" else pixels
    if at is None:
        raise DataError(f"positions in {job.unit} need the geometry")
    return at


def _both(
    job: Job, group: Group, pair: tuple[np.ndarray, ...], options: dict[str, Any]
) -> Detected:
    """Find saccades that both eyes made, and fixations between them."""
    if job.method != "engbert_kliegl":
        raise DataError("eye='binocular' goes with method='engbert_kliegl'", found=job.method)
    found = []
    settings = {**job.settings, "maximum_microsaccade": 0.0}  # decided on both eyes together
    for k in (0, 2):
        pixels, degrees = _units(job, pair[k], pair[k + 1])
        x, y = _in_unit(job, pixels, degrees)
        found.append(engbert_kliegl(group.time, x, y, **options, **settings))
    joined = binocular(found[0].saccades, found[1].saccades)
    lost = LossLog()
    for one, mask, name in zip(found, (joined.left, joined.right), ("left", "right"), strict=True):
        lost.extend(LossLog(x for x in one.lost if "fixations" not in x.reason))
        reason = f"saccades of the {name} eye alone"
        lost.add(STEP, "dropped", reason, int((~mask).sum()), "events")
    _, degrees = _units(job, (pair[0] + pair[2]) / 2, (pair[1] + pair[3]) / 2)
    x, y = (
        degrees
        if job.unit == "degrees" and degrees
        else ((pair[0] + pair[2]) / 2, (pair[1] + pair[3]) / 2)
    )
    maximum = job.settings["maximum_microsaccade"]
    saccades, other = split_microsaccades(x, y, joined.spans, maximum)
    samples = track(group.time, pair[0], pair[1], **options)
    still = ~inside(samples.n, saccades)[samples.rows]
    fixations = samples.keep(
        still,
        job.settings["minimum_duration"],
        "fixations",
        counting=job.settings["counting"],
        lost=lost,
    )
    info = {
        "radius_left": found[0].info["radius"],
        "radius_right": found[1].info["radius"],
    }
    return Detected(fixations, saccades, None, lost, info, other)


def _measures(
    job: Job,
    group: Group,
    spans: Spans,
    shown: tuple[np.ndarray, np.ndarray],
    degrees: tuple[np.ndarray, np.ndarray] | None,
    velocity: np.ndarray | None,
    options: dict[str, Any],
) -> dict[str, np.ndarray]:
    """Return start, end, amplitude, peak velocity and counts of samples of each event."""
    first, last = spans.first, spans.last
    there = ~(np.isnan(shown[0]) | np.isnan(shown[1]) | np.isnan(group.time))
    values = {
        "x_start": shown[0][first],
        "y_start": shown[1][first],
        "x_end": shown[0][last],
        "y_end": shown[1][last],
        "amplitude": np.full(len(spans), np.nan),
        "peak_velocity": np.full(len(spans), np.nan),
        **sample_counts(spans, group.time, there),
    }
    if degrees is not None and len(spans):
        if velocity is None:
            samples = track(group.time, *degrees, **options)
            velocity = samples.spread(track_velocity(samples))
        measures = saccade_measures(*degrees, velocity, spans)
        values["amplitude"], values["peak_velocity"] = measures.amplitude, measures.peak_velocity
        reason = "events of one sample have no amplitude"
        job.lost.add(STEP, "undefined", reason, int((first == last).sum()), "events")
    return values
