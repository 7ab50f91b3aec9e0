"""Programmers who read and write summaries of Java methods (Karas et al., 2024; EyeTrans corpus).

doi 10.1145/3664808; used by Zhang et al. (2024), EyeTrans, doi 10.1145/3643732.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.corpusfiles import find_files
from gazeattn.datasets.parts import build, join_ids, need_columns, numbers, outside, read_text
from gazeattn.datasets.viewing import pictures
from gazeattn.errors import DataError
from gazeattn.events import detect
from gazeattn.losses import LossLog

SCREEN = (1920, 1080)
GAZE = ("participant_id", "function_name", "system_timestamp", "gaze_left_eye", "gaze_right_eye")
BOXES = ("word", "occurrence", "x", "y", "width", "height")
TASK = (
    "participant_id", "function_name", "function_id", "task", "participant_summary",
    "given_summary", "summary_author",
)  # fmt: skip
_PAIR = re.compile(r"^\s*[\[(]\s*([^,\s]+)\s*,\s*([^,\s]+)\s*[\])]\s*$")


@register_corpus("eyetrans")
def load(
    folder: Path,
    page: Corpus,
    *,
    eye: str = "mean",
    threshold: float = 40.0,
    minimum_duration: float = 100.0,
    samples: bool = False,
) -> GazeDataset:
    """Load samples of gaze, boxes of tokens and what people did with each method.

    Fixations are computed here by I-DT in pixels, as neither distance nor size of the screen is
    given; ``info["fixations_by"]`` says how. A trial is one person and one method; ``condition``
    is ``reading`` (a summary was shown) or ``writing``, where the file of tasks says so.

    Parameters
    ----------
    folder, page
    eye : {"mean", "left", "right"}
        Whose positions fixations are computed from.
    threshold
        Largest dispersion, pixels.
    minimum_duration
        Shortest fixation, ms.
    samples
        Keep the samples in ``.samples``.
    """
    lost = LossLog()
    files = find_files(folder, "gaze/**/*.csv")
    if not files:
        raise DataError("no recordings", source=folder, expected="gaze/*.csv")
    parts = [read_gaze(path, lost) for path in files]
    table = pd.concat(parts, ignore_index=True)
    table["trial"] = join_ids(table["participant"].str.zfill(3), table["stimulus"])
    table = table.sort_values(["trial", "time"], kind="stable").reset_index(drop=True)
    found = detect(
        table.drop(columns="stimulus"), "idt", threshold_unit="pixels", threshold=threshold,
        minimum_duration=minimum_duration, eye=eye, blinks=None,  # type: ignore[arg-type]
    )  # fmt: skip
    lost.extend(found.lost)
    trials = table[["participant", "trial", "stimulus"]].drop_duplicates("trial")
    trials = trials.assign(n_samples=table.groupby("trial").size().reindex(trials["trial"]).array)
    trials = _tasks(folder, trials.reset_index(drop=True), lost)
    by = f"our I-DT: {threshold:g} px, {minimum_duration:g} ms, {eye} eye"
    f = found.fixations[["participant", "trial", "onset", "duration", "x", "y"]].copy()
    f["stimulus"] = f["trial"].map(trials.set_index("trial")["stimulus"])
    f["off_screen"] = outside(f["x"], f["y"], *SCREEN)
    lost.add("fixations", "note", f"computed, not published: {by}", len(f))
    words = read_boxes(folder, trials["stimulus"].unique(), lost)
    shown = pictures(folder, "final_stimuli/*.png", "final_stimuli/*.jpg")
    stimuli: dict[str, dict[str, Any]] = {}
    for name in map(str, trials["stimulus"].unique()):
        stimuli[name] = {"size": SCREEN, "language": "java"}
        if name in shown:
            stimuli[name]["image"] = str(shown[name])
    dataset = build(
        page, f, words, trials, units="code tokens", stimuli=stimuli, lost=lost,
        counts={"recordings": len(files), "samples": len(table)}, fixations_by=by, screen=SCREEN,
    )  # fmt: skip
    if samples:
        dataset.samples = table
    return dataset


def read_gaze(path: Path, lost: LossLog) -> pd.DataFrame:
    """Return ``participant, stimulus, time`` (ms) and positions of both eyes in pixels.

    Positions are published as pairs of shares of the screen; a sample that is marked as not valid
    has none.
    """
    table = read_text(path, ",")
    need_columns(table, GAZE, path)
    out = pd.DataFrame({
        "participant": table["participant_id"].astype("str").str.strip(),
        "stimulus": table["function_name"].astype("str").str.strip(),
        "time": numbers(table["system_timestamp"], "system_timestamp", path) / 1000,
    })  # fmt: skip
    for side in ("left", "right"):
        pairs = table[f"gaze_{side}_eye"].astype("str").str.extract(_PAIR)
        values = pairs.apply(pd.to_numeric, errors="coerce").to_numpy(np.float64, copy=True)
        name = f"valid_gaze_{side}"
        if name in table:
            valid = table[name].astype("str").str.strip().isin(["1", "1.0", "True", "true"])
            values[~valid.to_numpy(bool)] = np.nan
        out[f"x_{side}"], out[f"y_{side}"] = values[:, 0] * SCREEN[0], values[:, 1] * SCREEN[1]
    gone = out[["x_left", "x_right"]].isna().all(axis=1)
    lost.add("samples", "undefined", "no eye was found", int(gone.sum()), "samples", [path.name])
    return out


def read_boxes(folder: Path, stimuli: Any, lost: LossLog) -> pd.DataFrame | None:
    """Return the tokens of the methods with their boxes, in the order of the files."""
    parts, absent = [], []
    for name in map(str, stimuli):
        files = find_files(folder, f"word_coordinates_final/{name}_boxes.csv")
        if not files:
            absent.append(name)
            continue
        table = read_text(files[0], ",")
        need_columns(table, BOXES, files[0])
        for column in BOXES[2:]:
            table[column] = numbers(table[column], column, files[0])
        occurrence = table["occurrence"].astype("str")
        parts.append(pd.DataFrame({
            "stimulus": name, "layout": name, "text": table["word"].astype("str"),
            "word": [f"{k}:{w}:{o}" for k, (w, o) in
                     enumerate(zip(table["word"], occurrence, strict=True))],
            "left": table["x"], "right": table["x"] + table["width"], "top": table["y"],
            "bottom": table["y"] + table["height"],
            "line": pd.factorize(table["y"].to_numpy(), sort=True)[0],
        }))  # fmt: skip
    lost.add("words", "undefined", "no boxes of tokens", len(absent), "methods", absent)
    reason = "boxes come from recognised text: some signs and brackets have none"
    lost.add("words", "note", reason, len(parts), "methods")
    return pd.concat(parts, ignore_index=True) if parts else None


def _tasks(folder: Path, trials: pd.DataFrame, lost: LossLog) -> pd.DataFrame:
    """Add what people did with a method, and the summary they wrote or were shown."""
    rows = []
    for path in find_files(folder, "**/*_task.csv"):
        table = read_text(path, ",")
        need_columns(table, TASK, path)
        rows.append(table[list(TASK)])
    if not rows:
        lost.add("trials", "undefined", "no *_task.csv: reading or writing is not known",
                 len(trials), "trials")  # fmt: skip
        return trials
    known = pd.concat(rows, ignore_index=True)
    known["trial"] = join_ids(
        known["participant_id"].astype("str").str.strip().str.zfill(3),
        known["function_name"].astype("str").str.strip(),
    )
    twice = known.duplicated("trial")
    lost.add("trials", "dropped", "a task of the same person and method again: the first counts",
             int(twice.sum()), "rows")  # fmt: skip
    known = known[~twice].set_index("trial").reindex(trials["trial"])
    lost.add("trials", "undefined", "no row of the task", int(known["task"].isna().sum()), "trials")
    task = known["task"].astype("str").str.strip().str.lower()
    trials["condition"] = task.where(task.isin(["reading", "writing"])).array
    trials["summary"] = known["participant_summary"].array
    trials["given_summary"] = known["given_summary"].array
    trials["summary_author"] = known["summary_author"].array
    return trials
