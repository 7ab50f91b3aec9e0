"""What the file of an eye tracker holds: samples, events, areas, messages and trials as tables.

Times are milliseconds on the tracker's own clock, positions pixels from the top left of the
screen, durations inclusive of the last sample (a fixation from 100 to 299 at 1000 Hz lasts 200).
Missing is NaN, never 0. Columns that the schemas here do not name may stand beside the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from gazeattn.columns import Column
from gazeattn.errors import DataError
from gazeattn.tables import FIXATIONS, TRIALS, LossLog

_WHERE = {
    "participant": Column("text", "reader id"),
    "trial": Column("text", "trial id, missing outside every trial"),
    "block": Column("int", "recording block (start to end of recording), from 0"),
}
_EVENT = {
    **_WHERE,
    "eye": Column("text", "left, right or both"),
    "onset": Column("float", "start in ms", required=True),
    "duration": Column("float", "duration in ms, inclusive of the last sample"),
}
SAMPLES: Mapping[str, Column] = {
    **_WHERE,
    "time": Column("float", "ms", required=True),
    **{
        f"{name}{eye}": Column("float", f"{doc}{of}")
        for eye, of in (
            ("", ", eye not stated or both"),
            ("_left", ", left"),
            ("_right", ", right"),
        )
        for name, doc in (("x", "pixels"), ("y", "pixels"), ("pupil", "pupil, tracker units"))
    },
}
"""Gaze samples in recording order. A tracker with known eyes fills ``x_left`` ...; one gaze point
of no stated eye goes to ``x``, ``y``, ``pupil``."""
FIXATION_EVENTS: Mapping[str, Column] = {
    **_EVENT,
    **{name: FIXATIONS[name] for name in ("x", "y", "pupil")},
    "area": Column("text", "id of the fixated area as the file has it, missing off all areas"),
}
SACCADES: Mapping[str, Column] = {
    **_EVENT,
    "x_start": Column("float", "pixels"),
    "y_start": Column("float", "pixels"),
    "x_end": Column("float", "pixels"),
    "y_end": Column("float", "pixels"),
    "amplitude": Column("float", "degrees"),
    "peak_velocity": Column("float", "degrees per second"),
}
BLINKS: Mapping[str, Column] = dict(_EVENT)
MESSAGES: Mapping[str, Column] = {
    **_WHERE,
    "time": Column("float", "ms", required=True),
    "text": Column("text", "message as written", required=True, nullable=False),
}
AREAS: Mapping[str, Column] = {
    **_WHERE,
    "area": Column("text", "area id as the file has it", required=True, nullable=False),
    "text": Column("text", "label"),
    "left": Column("float", "pixels"),
    "top": Column("float", "pixels"),
    "right": Column("float", "pixels, exclusive"),
    "bottom": Column("float", "pixels, exclusive"),
}
RECORDED_TRIALS: Mapping[str, Column] = {
    "participant": TRIALS["participant"],
    "trial": Column("text", "trial id, unique in the recording", required=True, nullable=False),
    "block": Column("int", "recording block"),
    "start": Column("float", "ms"),
    "end": Column("float", "ms"),
}
SCHEMAS: Mapping[str, Mapping[str, Column]] = {
    "samples": SAMPLES,
    "fixations": FIXATION_EVENTS,
    "saccades": SACCADES,
    "blinks": BLINKS,
    "messages": MESSAGES,
    "areas": AREAS,
    "trials": RECORDED_TRIALS,
}
"""Schema of each table of a `Recording`."""


@dataclass
class Recording:
    """The content of one file of a tracker, or of the files of one recording.

    Attributes
    ----------
    source : str
        File name (or names) it was read from.
    reader : str
        Name of the reader in the registry.
    samples, fixations, saccades, blinks, messages, areas, trials : DataFrame or None
        None where the file holds no such table; see `SCHEMAS`.
    info : dict
        Facts of the recording, where known: ``rate`` (Hz, or a list where it changes), ``eyes``,
        ``screen`` (width, height in pixels), ``tracker``, ``date``, ``units`` (as found),
        ``blocks`` (one dict per recording block), ``unparsed`` (count and first lines).
    lost : LossLog
        What was dropped, repaired, left undefined or is doubtful.
    """

    source: str
    reader: str
    samples: pd.DataFrame | None = None
    fixations: pd.DataFrame | None = None
    saccades: pd.DataFrame | None = None
    blinks: pd.DataFrame | None = None
    messages: pd.DataFrame | None = None
    areas: pd.DataFrame | None = None
    trials: pd.DataFrame | None = None
    info: dict[str, Any] = field(default_factory=dict)
    lost: LossLog = field(default_factory=LossLog)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables that are there, by name."""
        return {name: t for name in SCHEMAS if (t := getattr(self, name)) is not None}

    def check(self) -> Recording:
        """Return the recording itself; raise where a table does not keep its schema.

        Only the kinds of columns are looked at, so that large tables cost nothing.

        Raises
        ------
        DataError
            A required column is missing, a number column holds no numbers, a text column no text.
        """
        for name, table in self.tables().items():
            for column, spec in SCHEMAS[name].items():
                if column not in table:
                    if spec.required:
                        raise DataError(
                            f"the {name} table lacks the column {column!r}",
                            source=f"reader {self.reader!r}",
                            found=", ".join(map(str, table.columns)),
                        )
                    continue
                dtype = table[column].dtype
                is_text = isinstance(dtype, pd.StringDtype)
                is_number = pd.api.types.is_numeric_dtype(dtype)
                if not (is_text if spec.kind == "text" else is_number):
                    raise DataError(
                        f"column {column!r} of the {name} table must be {spec.kind}",
                        source=f"reader {self.reader!r}",
                        found=str(dtype),
                    )
        return self
