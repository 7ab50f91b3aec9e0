"""Events as tables with the columns of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.columns import Column, cast
from gazeattn.events.spans import Spans, means
from gazeattn.losses import LossLog
from gazeattn.recordings import FIXATION_EVENTS, SACCADES

_COUNTS: Mapping[str, Column] = {
    "samples": Column("int", "samples with a position in the event"),
    "missing": Column("int", "samples without a position in the event, in gaps that were bridged"),
}
OTHER: Mapping[str, Column] = {
    **SACCADES,
    **_COUNTS,
    "label": Column("text", "microsaccade, pursuit, post_saccadic_oscillation, ..."),
}


@dataclass
class Events:
    """Events found in samples.

    Attributes
    ----------
    fixations, saccades, blinks : DataFrame
        Columns of `FIXATION_EVENTS`, `SACCADES` and `BLINKS` in `gazeattn.recordings`; fixations
        and saccades also ``samples`` and ``missing``, the samples with and without a position.
        Durations are inclusive: last minus first sample plus one interval.
    other : DataFrame
        Events of further kinds with their ``label`` (microsaccade, pursuit), columns as saccades.
    method : str
    parameters : dict
        Every parameter that was in force, defaults included, and under ``"streams"`` what the
        method took from the data of each stream (thresholds).
    lost : LossLog
        Samples missing, gaps, fragments below the minimum, events cut at a gap, doubts.
    """

    fixations: pd.DataFrame
    saccades: pd.DataFrame
    blinks: pd.DataFrame
    other: pd.DataFrame
    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    lost: LossLog = field(default_factory=LossLog)


@dataclass
class Rows:
    """Columns of one table that grow stream by stream."""

    schema: Mapping[str, Column]
    columns: dict[str, list[np.ndarray]] = field(default_factory=dict)
    groups: list[np.ndarray] = field(default_factory=list)
    eyes: list[np.ndarray] = field(default_factory=list)

    def add(self, group: int, eye: str | None, spans: Spans, **values: Any) -> None:
        """Add the events of one stream; a value is an array or one value for all."""
        n = len(spans)
        if not n:
            return
        self.groups.append(np.full(n, group))
        self.eyes.append(np.full(n, eye, dtype=object))
        for name, value in {"onset": spans.onset, "duration": spans.duration, **values}.items():
            self.columns.setdefault(name, []).append(
                np.full(n, value, dtype=object) if isinstance(value, str) else np.asarray(value)
            )

    def frame(self, keys: pd.DataFrame) -> pd.DataFrame:
        """Return the table: in the order of the groups, within them by onset and eye."""
        groups = np.concatenate(self.groups) if self.groups else np.zeros(0, dtype=np.int64)
        n = len(groups)
        table: dict[str, pd.Series] = {}
        for name, spec in self.schema.items():
            if name in keys:
                values: Any = keys[name].iloc[groups].reset_index(drop=True)
            elif name == "eye":
                values = np.concatenate(self.eyes) if n else []
            elif name in self.columns:
                values = np.concatenate(self.columns[name])
            else:
                values = np.full(n, None if spec.kind == "text" else np.nan)
            series = pd.Series(values, dtype=None if n else "object")
            table[name] = cast(series, name, spec, "events", 0)
        frame = pd.DataFrame(table)
        eye = pd.factorize(frame["eye"], sort=True)[0]
        order = np.lexsort((eye, frame["onset"].to_numpy(), groups))
        return frame.iloc[order].reset_index(drop=True)


def fixation_rows() -> Rows:
    """Return an empty table of fixations."""
    return Rows({**FIXATION_EVENTS, **_COUNTS})


def saccade_rows() -> Rows:
    """Return an empty table of saccades."""
    return Rows({**SACCADES, **_COUNTS})


def sample_counts(spans: Spans, time: np.ndarray, there: np.ndarray) -> dict[str, np.ndarray]:
    """Return how many samples of each event have a position and how many are missing.

    Rows that are not there count as well: a step of three intervals stands for two.
    """
    rows = np.flatnonzero(there)
    absent = np.zeros(len(time), dtype=np.int64)  # at the sample after the hole
    if len(rows) > 1 and spans.interval > 0:
        steps = np.diff(time[rows]) / spans.interval
        absent[rows[1:]] = np.where(steps > 1.5, np.rint(steps) - 1, 0)
    present, gone = (np.append(0, np.cumsum(v)) for v in (there.astype(np.int64), absent))
    stop = spans.last + 1
    # what is missing before the first sample of an event is not part of it
    return {
        "samples": present[stop] - present[spans.first],
        "missing": gone[stop] - gone[spans.first + 1],
    }


def averages(spans: Spans, **columns: np.ndarray) -> dict[str, np.ndarray]:
    """Return the mean of each column over each event, missing values left out."""
    return {name: means(v, spans.first, spans.last) for name, v in columns.items()}
