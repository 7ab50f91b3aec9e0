"""NUSEF: free viewing of everyday and emotional pictures (Subramanian et al., 2010, ECCV)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.corpusfiles import find_files
from gazeattn.datasets.parts import build, join_ids
from gazeattn.datasets.viewing import describe, number_repeats, off_picture, pictures
from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.readers.textfile import file_bytes

GRID = (260, 280)
SCREEN = (1024, 768)
COLUMNS = (
    "mark", "segment", "fixation", "plane", "start", "duration", "saccade_duration",
    "saccade_degrees", "x", "y", "pupil", "eye_to_scene", "flags", "loss", "saccade_loss",
)  # fmt: skip
"""Cells of a row of fixations; names are ours."""
_READ = ("start", "duration", "x", "y", "pupil")
BASE = "NUSEF_database"


@register_corpus("nusef")
def load(folder: Path, page: Corpus) -> GazeDataset:
    """Load NUSEF, one scanpath per picture and recording.

    Positions are those of the tracker's grid (``x_published, y_published``, 260 x 280), brought to
    the screen (``x_screen, y_screen``, 1024 x 768) and from there to the picture, which was
    shown as large as the screen allows, in its middle. ``x, y`` are missing where the picture is
    not there, since its size is not known then. Numbers of people do not agree between pictures:
    every scanpath has a participant of its own, ``number`` is the published one. Onsets
    count from the first fixation of the trial.
    """
    lost = LossLog()
    files = find_files(folder, f"{BASE}/fix_data/*/*.fix")
    tables = [read_fix(path) for path in files]
    trials = pd.DataFrame(
        {
            "stimulus": pd.Series([p.parent.name for p in files], dtype="str"),
            "number": pd.Series([_number(p) for p in files], dtype="str"),
        }
    )
    trials["trial"] = join_ids(trials["stimulus"], trials["number"])
    trials = number_repeats(trials, lost)
    trials["participant"] = trials["trial"]
    sizes = np.array([len(t) for t in tables], dtype=np.int64)
    cells = np.concatenate([*tables, np.zeros((0, 5))])
    row = np.repeat(np.arange(len(trials)), sizes)
    fixations = trials[["participant", "trial", "stimulus"]].iloc[row].reset_index(drop=True)
    start = pd.Series(cells[:, 0])
    fixations["onset"] = start - start.groupby(row).transform("first")
    back = fixations["onset"] < 0
    reason = "a start before the first fixation of the trial (past midnight): onset unknown"
    lost.add("fixations", "undefined", reason, int(back.sum()))
    fixations["onset"] = fixations["onset"].mask(back)
    fixations["duration"], fixations["pupil"] = cells[:, 1], cells[:, 4]
    fixations["index"] = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    stimuli = describe(trials["stimulus"], pictures(folder, f"{BASE}/stimuli/*.jpg"), lost)
    for k, side in enumerate("xy"):
        fixations[f"{side}_published"] = cells[:, 2 + k]
        fixations[f"{side}_screen"] = cells[:, 2 + k] * (SCREEN[k] / GRID[k])
    frame = pd.DataFrame(
        {n: place(*f["size"]) if "size" in f else (np.nan,) * 3 for n, f in stimuli.items()},
        index=["scale", "left", "top"],
    ).T
    here = frame.loc[fixations["stimulus"]].reset_index(drop=True)
    for side, edge in (("x", "left"), ("y", "top")):
        fixations[side] = (fixations[f"{side}_screen"] - here[edge]) / here["scale"]
    unplaced = here["scale"].isna()
    reason = "no picture, so no place on it (IAPS pictures are not distributed); x_screen is there"
    lost.add("fixations", "undefined", reason, int(unplaced.sum()))
    reason = "from the tracker's grid 260 x 280 to the picture as shown on 1024 x 768"
    lost.add("fixations", "repaired", reason, int((~unplaced).sum()))
    fixations["off_screen"] = off_picture(fixations, stimuli)
    reason = (
        "numbers of people do not agree between pictures: each scanpath has its own participant"
    )
    lost.add("trials", "undefined", reason, len(trials), "trials")
    return build(
        page,
        fixations,
        None,
        trials.assign(condition="free viewing"),
        units="objects",
        stimuli=stimuli,
        lost=lost,
        counts={"images": sum("image" in s for s in stimuli.values())},
        screen=SCREEN,
    )


def place(width: float, height: float) -> tuple[float, float, float]:
    """Return scale, left and top of a picture shown as large as the screen allows, in its middle.

    A picture of 2048 x 1024 pixels is shown at half its size, 128 pixels below the top.
    """
    scale = min(SCREEN[0] / width, SCREEN[1] / height)
    return scale, (SCREEN[0] - width * scale) / 2, (SCREEN[1] - height * scale) / 2


def _number(path: Path) -> str:
    """Return the two digits before the plus sign of a file name."""
    found = re.search(r"(\d{1,2})\+", path.name)
    return found[1].zfill(2) if found else path.name.removesuffix(".gz").removesuffix(".fix")


def read_fix(path: Path) -> np.ndarray:
    """Return start (ms), duration (ms), x, y and pupil of the fixations of one file.

    The rows stand between the line with ``COLS=`` and the summary of segments.

    Raises
    ------
    DataError
        No such rows, a row of another length, a cell that is no number, or a time that is none.
    """
    text = bytes(file_bytes(path)).decode("latin-1")  # only digits are read
    _, begin, rest = text.partition("COLS=")
    if not begin:
        raise DataError("not a file of fixations", source=path, expected="a line with COLS=")
    lines = rest.partition("[Fix Segment Summary")[0].splitlines()[1:]
    first = len(text[: len(text) - len(rest)].splitlines()) + 1
    rows = [(first + n, line.split()) for n, line in enumerate(lines) if line.strip()]
    for number, cells in rows:
        if len(cells) != len(COLUMNS):
            raise DataError(
                "a row of fixations has another number of cells",
                source=path,
                row=number,
                expected=len(COLUMNS),
                found=len(cells),
            )
    if not rows:
        return np.zeros((0, 5))
    table = np.array([cells for _, cells in rows])
    read = {name: table[:, COLUMNS.index(name)] for name in _READ}
    clock = pd.to_timedelta(pd.Series(read["start"]), errors="coerce").dt.total_seconds()
    columns = [clock.to_numpy(dtype=np.float64), *map(_numbers, list(read.values())[1:])]
    values = np.column_stack(columns)
    bad = ~np.isfinite(values[:, :4])
    if bad.any():
        row, k = np.argwhere(bad)[0]
        raise DataError(
            f"{_READ[k]} of a fixation is not readable",
            source=path,
            row=rows[row][0],
            found=repr(str(read[_READ[k]][row])),
        )
    values[:, :2] *= 1000
    values[~(values[:, 4] > 0), 4] = np.nan  # 0 is how the tracker writes no pupil
    return values


def _numbers(cells: np.ndarray) -> np.ndarray:
    """Return text as numbers, NaN where it is none."""
    try:
        return cells.astype(np.float64)
    except ValueError:
        return pd.to_numeric(pd.Series(cells), errors="coerce").to_numpy(dtype=np.float64)
