"""MIT1003: free viewing of 1003 photographs (Judd et al., 2009, ICCV)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.corpusfiles import find_files, text_table
from gazeattn.datasets.matfiles import pairs, read_mat
from gazeattn.datasets.parts import build, join_ids, numbers, one_file
from gazeattn.datasets.viewing import describe, number_repeats, off_picture, pictures
from gazeattn.errors import DataError
from gazeattn.events import detect
from gazeattn.losses import LossLog

RATE = 240.0
NAME = 63
"""Length of a variable name in MATLAB: longer names of pictures are cut."""
_TABLE = ("subject", "stimulus", "x", "y", "start", "duration")


@register_corpus("mit1003")
def load(
    folder: Path,
    page: Corpus,
    *,
    threshold: float = 35.0,
    minimum_duration: float = 100.0,
    samples: bool = True,
) -> GazeDataset:
    """Load MIT1003: gaze samples, and fixations of the authors or of our own.

    Where ``fixations.csv`` stands beside the samples, its fixations are taken; it holds what the
    authors' own program computes (see the page). Else they are computed here by I-DT
    (dispersion), which is **not** the authors' rule: ``info["fixations_by"]`` says which.
    The first fixation of a trial is ``forced`` (on the centre).

    Parameters
    ----------
    folder, page
    threshold
        Largest dispersion of our fixations in pixels; 35 pixels are 1 degree.
    minimum_duration
        Shortest fixation of ours in ms.
    samples
        Keep the samples (10.8 million in the whole corpus) in ``.samples``: ``time`` in ms from the
        first sample, ``x, y`` in pixels of the picture.
    """
    lost = LossLog()
    table = one_file(folder, "fixations.csv")
    by, edition = "the authors' checkFixations", "authors"
    gaze, trials = (None, None)
    if samples or table is None:
        gaze, trials = read_samples(folder, lost)
    if table is not None:
        fixations, paths = read_table(table)
        trials = paths if trials is None else _join(trials, paths, lost)
    else:
        assert gaze is not None and trials is not None
        found = detect(
            gaze,
            "idt",
            threshold_unit="pixels",
            threshold=threshold,
            minimum_duration=minimum_duration,
            blinks=None,
        )
        lost.extend(found.lost)
        keep = ["participant", "trial", "onset", "duration", "x", "y"]
        fixations = found.fixations[keep].copy()
        by, edition = f"our I-DT: {threshold:g} pixels, {minimum_duration:g} ms", "samples"
        lost.add("fixations", "note", f"computed, not published: {by}", len(fixations))
    fixations["stimulus"] = fixations["trial"].map(trials.set_index("trial")["stimulus"])
    fixations["index"] = fixations.groupby("trial", sort=False).cumcount()
    fixations["forced"] = (fixations["index"] == 0).astype("boolean")
    if table is None and gaze is not None:
        starts = gaze[gaze["time"] == 0]
        blind = fixations["trial"].isin(starts["trial"][starts["x"].isna()].astype("str"))
        blind &= fixations["index"] == 0
        fixations["forced"] = fixations["forced"].mask(blind)
        reason = "no position when the trial begins: whether the first fixation is the forced one"
        lost.add("fixations", "undefined", reason, int(blind.sum()))
    stimuli = describe(trials["stimulus"], pictures(folder, "ALLSTIMULI/*.jpeg"), lost)
    fixations["off_screen"] = off_picture(fixations, stimuli)
    inside = fixations["off_screen"].eq(False).fillna(False).to_numpy(dtype=bool)
    dataset = build(
        page,
        fixations,
        None,
        trials.assign(condition="free viewing"),
        units="objects",
        stimuli=stimuli,
        lost=lost,
        counts={
            "images": sum("image" in s for s in stimuli.values()),
            "inside_without_forced": int((inside & (fixations["index"] > 0)).sum()),
            "samples": 0 if gaze is None else len(gaze),
        },
        fixations_by=by,
        edition=edition,
    )
    dataset.samples = gaze if samples else None
    return dataset


def read_samples(folder: Path, lost: LossLog) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read ``DATA/<subject>/<stimulus>.mat``.

    Returns
    -------
    samples : DataFrame
        ``participant, trial`` (categories), ``time`` (ms), ``x, y`` (missing where negative).
    trials : DataFrame
        ``participant, trial, stimulus, n_samples``.
    """
    paths = find_files(folder, "DATA/*/*.mat")
    if not paths:
        raise DataError("no gaze samples", source=folder, expected="DATA/<subject>/<stimulus>.mat")
    arrays = [read_eye_data(path) for path in paths]
    trials = pd.DataFrame(
        {
            "participant": pd.Series([p.parent.name for p in paths], dtype="str"),
            "stimulus": pd.Series([p.stem for p in paths], dtype="str"),
            "n_samples": np.array([len(a) for a in arrays], dtype=np.int64),
        }
    )
    trials["trial"] = join_ids(trials["stimulus"], trials["participant"])
    sizes = trials["n_samples"].to_numpy()
    row = np.repeat(np.arange(len(trials)), sizes)
    xy = np.concatenate(arrays)
    negative = (xy < 0).any(axis=1)
    reason = "negative position: a blink, as the authors say, or left of or above the picture"
    lost.add("samples", "undefined", reason, int(negative.sum()), "samples")
    xy[negative] = np.nan
    first = np.cumsum(sizes) - sizes
    people = pd.Categorical(trials["participant"])
    samples = pd.DataFrame(
        {
            "participant": pd.Categorical.from_codes(people.codes[row], people.categories),
            "trial": pd.Categorical.from_codes(row, pd.Index(trials["trial"])),
            "time": (np.arange(len(row)) - first[row]) * (1000 / RATE),
            "x": xy[:, 0],
            "y": xy[:, 1],
        }
    )
    return samples, trials


def read_eye_data(path: Path) -> np.ndarray:
    """Return x and y of one person and picture, shape (n, 2), as published."""

    def take(variables: dict) -> np.ndarray:
        name = path.stem[:NAME]
        if name not in variables and len(variables) != 1:
            raise KeyError(name)
        record = variables.get(name, next(iter(variables.values())))
        return pairs(record["DATA"].ravel()[0]["eyeData"].ravel()[0])[:, :2].copy()

    return read_mat(path, take, "a variable named as the picture with .DATA(1).eyeData (x, y)")


def read_table(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the authors' fixations, saved once as a table.

    ``start`` is the number of the first sample from 1 (240 a second), ``duration`` is in ms.
    """
    table = text_table(path, _TABLE)
    for name in _TABLE[2:]:
        table[name] = numbers(table[name], name, path, missing=("", "NaN"))
    fixations = pd.DataFrame({"participant": table["subject"]})
    fixations["stimulus"] = table["stimulus"].str.replace(r"\.(jpeg|mat)$", "", regex=True)
    fixations["trial"] = join_ids(fixations["stimulus"], fixations["participant"])
    fixations["onset"] = (table["start"] - 1) * (1000 / RATE)
    for name in ("duration", "x", "y"):
        fixations[name] = table[name]
    trials = fixations[["participant", "trial", "stimulus"]].drop_duplicates()
    fixations = fixations.drop(columns="stimulus")
    return fixations, number_repeats(trials.reset_index(drop=True), LossLog())


def _join(trials: pd.DataFrame, paths: pd.DataFrame, lost: LossLog) -> pd.DataFrame:
    extra = paths[~paths["trial"].isin(trials["trial"])]
    reason = "in the table of fixations, but without samples"
    lost.add("samples", "undefined", reason, len(extra), "trials", extra["trial"])
    return pd.concat([trials, extra], ignore_index=True)
