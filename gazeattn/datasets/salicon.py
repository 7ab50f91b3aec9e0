"""SALICON: mouse movements in place of gaze on MS COCO pictures (Jiang et al., 2015, CVPR)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.corpusfiles import find_files
from gazeattn.datasets.matfiles import pairs, read_mat
from gazeattn.datasets.parts import build, correction, join_ids
from gazeattn.datasets.viewing import describe, image_folds, off_picture, pictures, stack
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

SIZE = (640, 480)
PARTS = ("train", "val")


@register_corpus("salicon")
def load(folder: Path, page: Corpus, *, samples: bool = False) -> GazeDataset:
    """Load SALICON: what the publisher derived as fixations from the mouse.

    People are not named, so that every scanpath has a participant of its own: a split by reader is
    not possible, one by picture is (``reports["folds"]``, the published one). Positions are moved
    by -1 to pixels that begin at 0; ``x_published, y_published`` keep the values of the file.
    There are no durations.

    Parameters
    ----------
    folder, page
    samples
        Load the mouse positions with their time stamps into ``.samples`` too.
    """
    lost = LossLog()
    shift = float(correction(page, "one-based pixels")["shift"])
    xy: list[np.ndarray] = []
    mouse: list[np.ndarray] = []
    paths = []
    for part in PARTS:
        for file in find_files(folder, f"{part}/*.mat"):
            found, seen, moved = read_picture(file, samples=samples)
            xy += found
            paths.append(seen.assign(split=part))
            mouse += moved
    if not paths:
        raise DataError("no recordings", source=folder, expected="train/*.mat or val/*.mat")
    trials = pd.concat(paths, ignore_index=True)
    fixations = stack(trials, {"x": [a[:, 0] for a in xy], "y": [a[:, 1] for a in xy]}, folder)
    _shift(fixations, shift)
    reason = f"pixels counted from 1: {shift:+g}, so that the first pixel begins at 0"
    lost.add("fixations", "repaired", reason, len(fixations))
    shown = pictures(folder, "images/train/*.jpg", "images/val/*.jpg")
    stimuli = describe(trials["stimulus"], shown, lost, SIZE)
    fixations["off_screen"] = off_picture(fixations, stimuli)
    lost.add("fixations", "undefined", "no durations: the mouse, not the eye", len(fixations))
    reason = "people are not named: each scanpath has a participant of its own"
    lost.add("trials", "undefined", reason, len(trials), "trials")
    lost.add("trials", "note", "the gaze of the test part is withheld", 1, "parts")
    counts = {
        f"images_{p}": int(n) for p, n in trials.groupby("split")["stimulus"].nunique().items()
    }
    per_part = fixations["trial"].map(trials.set_index("trial")["split"]).value_counts()
    counts |= {f"fixations_{part}": int(n) for part, n in per_part.items()}
    dataset = build(
        page,
        fixations,
        None,
        trials.assign(condition="free viewing"),
        units="objects",
        stimuli=stimuli,
        lost=lost,
        counts=counts,
        reports={"folds": image_folds(trials, trials["split"], "public", lost)},
        size=SIZE,
    )
    if samples:
        columns = {n: [m[:, k] for m in mouse] for k, n in enumerate(("x", "y", "time"))}
        table = stack(trials, columns, folder)
        _shift(table, shift)
        dataset.samples = table.drop(columns=["stimulus", "index"])
    else:
        lost.add("samples", "note", "mouse positions not loaded: samples=True does", 1, "tables")
    return dataset


def _shift(table: pd.DataFrame, shift: float) -> None:
    for side in ("x", "y"):
        table[f"{side}_published"] = table[side]
        table[side] = table[side] + shift


def read_picture(
    path: Path, *, samples: bool
) -> tuple[list[np.ndarray], pd.DataFrame, list[np.ndarray]]:
    """Read one file: ``image, resolution, gaze{person}.fixations, .location, .timestamp``.

    Returns
    -------
    fixations : list of array, shape (n, 2)
    trials : DataFrame
        ``participant, trial, stimulus``.
    samples : list of array, shape (m, 3)
        x, y, time; empty without `samples`.
    """

    def take(variables: dict[str, Any]) -> tuple[list[np.ndarray], list[np.ndarray], tuple]:
        gaze = variables["gaze"].ravel()  # structs, or cells that hold one struct each
        people = [g.ravel()[0] if isinstance(g, np.ndarray) else g for g in gaze]
        fixations = [pairs(p["fixations"])[:, :2] for p in people]
        mouse = []
        for person in people if samples else ():
            where, when = pairs(person["location"])[:, :2], np.asarray(person["timestamp"]).ravel()
            if len(where) != len(when):
                raise ValueError(f"{len(where)} locations and {len(when)} time stamps")
            mouse.append(np.column_stack([where, when.astype(np.float64)]))
        resolution = tuple(int(v) for v in np.asarray(variables["resolution"]).ravel())
        return fixations, mouse, resolution

    expected = "image, resolution, gaze with fixations, location, timestamp"
    fixations, mouse, resolution = read_mat(path, take, expected)
    if resolution != SIZE[::-1]:
        raise DataError(
            "a picture of another size",
            source=path,
            expected=f"resolution {SIZE[1]} {SIZE[0]} (rows, columns)",
            found=" ".join(map(str, resolution)),
        )
    trials = pd.DataFrame({"stimulus": pd.Series([path.stem] * len(fixations), dtype="str")})
    order = pd.Series(np.arange(1, len(trials) + 1)).astype("str").str.zfill(3)
    trials["trial"] = join_ids(trials["stimulus"], order)
    trials["participant"] = trials["trial"]
    return fixations, trials, mouse
