"""A table of samples taken apart: recordings, trials and blocks, eyes, blinks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from gazeattn.columns import as_number, cast
from gazeattn.errors import CapabilityError, DataError
from gazeattn.events.angles import Geometry
from gazeattn.events.gaps import order_of
from gazeattn.events.spans import STEP
from gazeattn.losses import LossLog
from gazeattn.recordings import SAMPLES

KEYS = ("participant", "trial", "block")
EYES = {"left": "_left", "right": "_right", None: ""}
SMALL = 45.0  # no gaze of a whole recording stays within so few pixels of a screen corner


@dataclass
class Group:
    """Samples of one participant, trial and block, in order of time.

    Attributes
    ----------
    number : int
        Row of the table of keys.
    time : ndarray, shape (n,)
        Milliseconds, by the rate where there is no clock.
    breaks : ndarray of bool, shape (n,)
        True where the clock starts anew.
    columns : dict of ndarray
        ``x_left``, ``pupil_left`` and so on.
    """

    number: int
    time: np.ndarray
    breaks: np.ndarray
    columns: dict[str, np.ndarray] = field(default_factory=dict)


def eyes_of(samples: pd.DataFrame) -> list[str | None]:
    """Return the eyes that the table has a position of; None is an eye that is not stated.

    Raises
    ------
    DataError
        There is no pair of position columns.
    """
    eyes = [e for e, end in EYES.items() if f"x{end}" in samples and f"y{end}" in samples]
    if not eyes:
        raise DataError(
            "the samples have no position",
            expected="columns x and y, x_left and y_left, or x_right and y_right",
            found=", ".join(map(str, samples.columns)),
        )
    seen = [e for e in eyes if samples[f"x{EYES[e]}"].notna().any()]
    return seen or eyes  # an eye whose columns are empty was not recorded


def keys_of(samples: pd.DataFrame) -> tuple[pd.DataFrame, list[np.ndarray]]:
    """Return one row per participant, trial and block, and the rows of each, as they appear."""
    keys = pd.DataFrame(index=samples.index)
    for key in KEYS:
        if key in samples:
            keys[key] = cast(samples[key], key, SAMPLES[key], "samples", 0)
    if not len(samples):
        return keys, []
    code = np.zeros(len(samples), dtype=np.int64)
    for name in keys.columns:
        codes = pd.factorize(keys[name])[0] + 1
        code = pd.factorize(code * (int(codes.max()) + 1) + codes)[0].astype(np.int64)
    if not keys.columns.size:
        return pd.DataFrame(index=[0]), [np.arange(len(samples))]
    order = np.argsort(code, kind="stable")
    rows = np.split(order, np.flatnonzero(np.diff(code[order])) + 1)
    first = np.array([r[0] for r in rows])
    return keys.iloc[first].reset_index(drop=True), rows


def groups_of(
    samples: pd.DataFrame,
    rows: list[np.ndarray],
    rate: float | None,
    strict: bool,
    lost: LossLog,
) -> Iterator[Group]:
    """Yield the samples of each key, sorted by time where the clock steps back.

    Raises
    ------
    DataError
        No time and no rate, or in strict mode a clock that steps back.
    """
    names = [f"{what}{end}" for end in EYES.values() for what in ("x", "y", "pupil")]
    arrays = {
        name: as_number(samples[name], name, "samples").to_numpy()
        for name in names
        if name in samples
    }
    if "time" in samples:
        clock = as_number(samples["time"], "time", "samples").to_numpy()
        untimed = int(np.isnan(clock).sum())
        lost.add(STEP, "dropped", "samples without a time", untimed, "samples")
    elif rate is not None:
        clock = None  # every group counts from 0
    else:
        raise DataError(
            "the samples have no column 'time'",
            expected="time in ms, or rate= in Hz",
            found=", ".join(map(str, samples.columns)),
        )
    for number, here in enumerate(rows):
        if clock is None:
            breaks = np.zeros(len(here), dtype=bool)
            time = np.arange(len(here)) * (1000.0 / float(rate or np.nan))
            yield Group(number, time, breaks, {k: v[here] for k, v in arrays.items()})
            continue
        order, breaks, moved = order_of(clock[here])
        if (moved or breaks.any()) and strict:
            back = np.flatnonzero(np.diff(clock[here]) < 0)
            raise DataError(
                "time steps back",
                source="samples",
                row=int(here[back[0] + 1]) if len(back) else None,
                hint="strict=False sorts the samples and counts them",
            )
        lost.add(STEP, "repaired", "samples out of order in time, sorted", moved, "samples")
        lost.add(STEP, "note", "the clock starts anew", int(breaks.sum()), "breaks")
        here = here[order]
        yield Group(number, clock[here], breaks, {k: v[here] for k, v in arrays.items()})


def check_positions(
    samples: pd.DataFrame,
    eyes: list[str | None],
    positions: str,
    geometry: Geometry | None,
    lost: LossLog,
) -> None:
    """Doubt positions that do not look like the unit they are said to be in.

    Raises
    ------
    DataError
        Degrees of 90 and more.
    """
    columns = [f"{axis}{EYES[e]}" for e in eyes for axis in "xy"]
    values = np.concatenate([as_number(samples[c], c, "samples").to_numpy() for c in columns])
    values = values[~np.isnan(values)]
    if not len(values):
        return
    largest = float(np.abs(values).max())
    if positions == "degrees":
        if largest >= 90:
            raise DataError(
                "positions in degrees must be within 90",
                source="samples",
                found=f"{largest:g}",
                hint="Say positions='pixels' where they are pixels",
            )
        return
    screen = min(geometry.width, geometry.height) if geometry is not None else np.inf
    if largest <= SMALL and screen > 4 * SMALL:
        text = f"all positions are within {SMALL:g} of 0: are these degrees and not pixels?"
        warnings.warn(f"{text} Then say positions='degrees'", stacklevel=3)
        lost.add(STEP, "note", text, len(values), "values")
    if geometry is None:
        return
    for axis, size in (("x", geometry.width), ("y", geometry.height)):
        low = -(size - 1) / 2 if geometry.origin == "center" else 0.0
        for e in eyes:
            v = as_number(samples[f"{axis}{EYES[e]}"], axis, "samples").to_numpy()
            off = int(((v < low - 0.5) | (v > low + size - 0.5)).sum())
            lost.add(STEP, "note", f"{axis} outside the screen, kept", off, "values")


def both_eyes(group: Group) -> tuple[np.ndarray, ...]:
    """Return x left, y left, x right, y right with samples missing where either eye is.

    Raises
    ------
    CapabilityError
        The samples are not those of both eyes.
    """
    names = ("x_left", "y_left", "x_right", "y_right")
    if not all(name in group.columns for name in names):
        raise CapabilityError(
            "both eyes are asked for, but the samples lack "
            + ", ".join(n for n in names if n not in group.columns)
        )
    table = np.column_stack([group.columns[name] for name in names])
    table[np.isnan(table).any(axis=1)] = np.nan
    return tuple(table.T)
