"""CAT2000: free viewing of pictures of twenty categories (Borji and Itti, 2015)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.corpusfiles import text_table
from gazeattn.datasets.parts import build, correction, join_ids, one_file
from gazeattn.datasets.viewing import describe, number_repeats, off_picture
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

SIZE = (1920, 1080)
_TABLE = ("number", "key", "name", "x", "y")


@register_corpus("cat2000")
def load(folder: Path, page: Corpus, *, repeats: bool = False) -> GazeDataset:
    """Load the training part of CAT2000; the fixations of the test part are withheld.

    The published file is a MATLAB ``containers.Map``, which nothing outside MATLAB reads: it has
    to be saved once as ``trainSet/allFixData.csv`` (the page says how). Positions are moved by -1
    to pixels that begin at 0; ``x_published, y_published`` keep the values of the file. There are
    no times.

    Parameters
    ----------
    folder, page
    repeats
        Keep positions that stand twice in a row in one scanpath; by default the second is dropped
        and counted, as in other software.
    """
    lost = LossLog()
    path = one_file(folder, "trainSet/allFixData.csv")
    if path is None:
        raise DataError(
            "allFixData.mat is a MATLAB containers.Map, which cannot be read here",
            source=folder / "trainSet",
            expected=f"allFixData.csv with {', '.join(_TABLE)}",
            hint=page.obtain,
        )
    table, trials = read_table(path)
    trials = number_repeats(trials, lost)
    found, names = _pictures(folder, table["number"], lost)
    trials["stimulus"] = trials["number"].map(names)
    categories = {n: p.parent.name for n, p in found.items()}
    trials["category"] = trials["number"].map(categories).astype("str")
    trials["trial"] = join_ids(trials["stimulus"], trials["participant"])
    trials = number_repeats(trials, lost)
    fixations = trials[["participant", "trial", "stimulus"]].iloc[table["path"]]
    fixations = fixations.reset_index(drop=True)
    shift = float(correction(page, "one-based pixels")["shift"])
    for side in ("x", "y"):
        fixations[side] = table[side] + shift
        fixations[f"{side}_published"] = table[side]
    reason = f"pixels counted from 1: {shift:+g}, so that the first pixel begins at 0"
    lost.add("fixations", "repaired", reason, len(fixations))
    counts = _peers(fixations)
    if not repeats:
        same = _again(fixations)
        reason = "the same position twice in a row in one scanpath"
        lost.add("fixations", "dropped", reason, int(same.sum()))
        fixations = fixations[~same].reset_index(drop=True)
    fixations["index"] = fixations.groupby("trial", sort=False).cumcount()
    paths = {names[number]: p for number, p in found.items()}
    stimuli = describe(trials["stimulus"], paths, lost, SIZE)
    fixations["off_screen"] = off_picture(fixations, stimuli)
    lost.add("fixations", "undefined", "no times in this corpus", len(fixations))
    lost.add("trials", "note", "the fixations of the test part are withheld", 1, "parts")
    return build(
        page,
        fixations,
        None,
        trials.drop(columns=["number", "name"]).assign(condition="free viewing"),
        units="objects",
        stimuli=stimuli,
        lost=lost,
        counts={"images": len(paths), **counts},
        screen=SIZE,
        size=SIZE,
    )


def read_table(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the saved table: positions with ``path`` (row of their scanpath), and scanpaths.

    Raises
    ------
    DataError
        A number of a picture that is no whole number from 1, or a name without a person in it.
    """
    table = text_table(path, _TABLE, numbers=("x", "y"))
    number = pd.to_numeric(table["number"], errors="coerce").astype("float64")
    bad = ~((number >= 1) & (number == np.floor(number))).to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            "the number of a picture must be a whole number from 1",
            source=path,
            row=row + 2,
            found=repr(table["number"].iloc[row]),
        )
    table["number"] = number.astype("int64")
    subject = table["name"].str.extract(r"^[^-]*-[^-]*-([^-]+?)(?:\.eye.*)?$")[0]
    if subject.isna().any():
        row = int(subject.isna().to_numpy().argmax())
        raise DataError(
            "the name of a recording names no person",
            source=path,
            row=row + 2,
            expected="three parts with - between them, the third one the person",
            found=repr(table["name"].iloc[row]),
        )
    table["path"] = table.groupby(["number", "name"], sort=False).ngroup()
    heads = table.assign(participant=subject).drop_duplicates("path").reset_index(drop=True)
    trials = heads[["participant", "number", "name"]].copy()
    trials["trial"] = join_ids(trials["number"].astype("str"), trials["name"])
    order = np.argsort(table["path"].to_numpy(), kind="stable")
    return table.iloc[order].reset_index(drop=True), trials


def _pictures(
    folder: Path, number: pd.Series, lost: LossLog
) -> tuple[dict[int, Path], dict[int, str]]:
    """Return pictures and names by number: keys of the map and files stand in the same order."""
    files = sorted((folder / "trainSet" / "Stimuli").glob("*/*.jpg"))
    wanted = np.unique(number)
    if files and wanted[-1] > len(files):
        lost.add(
            "stimuli",
            "note",
            "fewer pictures than numbers: which is which is not known, none is used",
            len(files),
            "images",
        )
        files = []
    found = {int(n): files[n - 1] for n in wanted} if files else {}
    names = {
        int(n): f"{found[n].parent.name}_{found[n].stem}" if found else f"image_{n:04d}"
        for n in wanted
    }
    return found, names


def _again(fixations: pd.DataFrame) -> np.ndarray:
    """Return where a position is that of the row before it in the same scanpath."""
    same = fixations[["trial", "x", "y"]].eq(fixations[["trial", "x", "y"]].shift())
    return same.all(axis=1).to_numpy()


def _peers(fixations: pd.DataFrame) -> dict[str, int]:
    """Return the counts that other software publishes: positions inside, by its two rules."""
    old, new = (
        fixations[fixations[x].ge(0) & fixations[x].lt(SIZE[0]) & fixations[y].ge(0)
                  & fixations[y].lt(SIZE[1])]
        for x, y in (("x_published", "y_published"), ("x", "y"))
    )  # fmt: skip
    return {"inside_as_published": len(old), "inside": int((~_again(new)).sum())}
