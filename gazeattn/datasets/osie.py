"""OSIE: free viewing of photographs (Xu et al., 2014, doi 10.1167/14.1.28)."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.parts import (
    build,
    correction,
    join_ids,
    need_columns,
    one_file,
    outside,
    read_parquet,
    text,
)
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

SIZE = (800, 600)
_PACKED = 15  # type number of a compressed part of a MATLAB 5 file
_FIELDS = {"fix_x": "x", "fix_y": "y", "fix_duration": "duration"}


@register_corpus("osie")
def load(folder: Path, page: Corpus) -> GazeDataset:
    """Load OSIE from the published ``fixations.mat``, or from a table of the same values.

    Positions are moved to pixels that begin at 0 (see the corrections of the page); ``x_published``
    and ``y_published`` keep the values of the file. There are no words; stimuli are the pictures.
    """
    lost = LossLog()
    mat = one_file(folder, "fixations.mat")
    if mat is not None:
        table, paths = read_mat(mat, lost)
    else:
        table, paths = _read_table(folder / "fixations.parquet")
    fixations = pd.DataFrame({"participant": text(table["subject"])})
    fixations["stimulus"] = table["image"].str.removesuffix(".jpg")
    fixations["trial"] = join_ids(fixations["stimulus"], fixations["participant"].str.zfill(2))
    fixations["index"] = table["index"]
    shift = float(correction(page, "one-based pixels")["shift"])
    for side in ("x", "y"):
        fixations[side] = table[side] + shift
        fixations[f"{side}_published"] = table[side]
    fixations["duration"] = table["duration"]
    fixations["off_screen"] = outside(fixations["x"], fixations["y"], *SIZE)
    reason = f"pixels counted from 1: {shift:+g}, so that the first pixel begins at 0"
    lost.add("fixations", "repaired", reason, len(fixations))

    trials = pd.DataFrame({"participant": text(paths["subject"])})
    trials["stimulus"] = paths["image"].str.removesuffix(".jpg")
    trials["trial"] = join_ids(trials["stimulus"], trials["participant"].str.zfill(2))
    trials["condition"] = "free viewing"
    images = pd.Series(paths["image"].unique())
    stimuli: dict[str, dict[str, Any]] = {}
    found = 0
    for name in images:
        facts: dict[str, Any] = {"size": SIZE}
        stimuli[name.removesuffix(".jpg")] = facts
        picture = one_file(folder, f"stimuli/{name}")
        if picture is not None:
            facts["image"], found = str(picture), found + 1
    lost.add("stimuli", "undefined", "no picture", len(images) - found, "images")
    single = int((fixations.groupby("trial").size() == 1).sum())
    return build(
        page,
        fixations,
        None,
        trials,
        units="objects",
        stimuli=stimuli,
        lost=lost,
        counts={
            "scanpaths": len(trials),
            "images": found,
            "single_fixation_scanpaths": single,
            "fixations_below_50_ms": int((fixations["duration"] < 50).sum()),
        },
        screen=SIZE,
        size=SIZE,
    )


def read_mat(path: Path, lost: LossLog) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the published MATLAB file.

    Every level is a cell or a struct in an object array; the numbers come in whatever width holds
    them and are made float64 here, so that sums do not wrap around.

    Returns
    -------
    DataFrame ``image, subject, index, x, y, duration``; DataFrame ``image, subject`` with one row
    per scanpath, also where it is empty.
    """
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    check_packed(path)
    shape = (KeyError, ValueError, IndexError, TypeError, AttributeError)
    damaged = (*shape, OSError, EOFError, OverflowError, NotImplementedError, zlib.error)
    try:
        cells = loadmat(path)["fixations"].ravel()
        images = [(str(np.squeeze(c[0, 0]["img"])), c[0, 0]["subjects"].ravel()) for c in cells]
        people = [(name, i + 1, s[0, 0]) for name, group in images for i, s in enumerate(group)]
        columns = {
            ours: [np.asarray(s[theirs]).ravel() for _, _, s in people]
            for theirs, ours in _FIELDS.items()
        }
    except (*damaged, MatReadError) as error:
        raise DataError(
            "not the published file of fixations",
            source=path,
            expected="fixations{image}.subjects{person}.fix_x, fix_y, fix_duration",
            found=f"{type(error).__name__}: {error}",
        ) from None
    sizes = [np.array([len(a) for a in arrays], dtype=int) for arrays in columns.values()]
    unequal = np.flatnonzero((sizes[0] != sizes[1]) | (sizes[0] != sizes[2]))
    if len(unequal):
        name, person, _ = people[unequal[0]]
        raise DataError(
            "a scanpath has unequal numbers of x, y and durations",
            source=path,
            row=f"{name}, person {person}",
            found=", ".join(str(s[unequal[0]]) for s in sizes),
        )
    for ours, arrays in columns.items():
        narrow = sum(a.dtype.kind in "iu" and a.dtype.itemsize == 1 for a in arrays)
        reason = f"{ours} stored in one byte: read as float64, so that sums do not wrap around"
        lost.add("fixations", "repaired", reason, narrow, "scanpaths")
    n = sizes[0]
    paths = pd.DataFrame(
        {
            "image": pd.Series([p[0] for p in people], dtype="str"),
            "subject": np.array([p[1] for p in people], dtype=int),
        }
    )
    starts = np.cumsum(n) - n
    table = paths.loc[np.repeat(np.arange(len(n)), n)].reset_index(drop=True)
    table["index"] = np.arange(int(n.sum())) - np.repeat(starts, n)
    for ours, arrays in columns.items():
        wide = [a.astype("float64") for a in arrays]
        table[ours] = np.concatenate(wide) if wide else np.zeros(0)
    return table, paths


def check_packed(path: Path) -> None:
    """Check the sums of the packed parts of a MATLAB 5 file before it is parsed.

    The parser trusts what it reads, and a damaged part can end the whole process. Parts that are
    not packed have no sum and cannot be checked.

    Raises
    ------
    DataError
        A part that is cut, or whose sum is wrong.
    """
    data = path.read_bytes()
    at, order = 128, "<II" if data[126:128] == b"IM" else ">II"
    while at + 8 <= len(data):
        kind, size = struct.unpack_from(order, data, at)
        part = data[at + 8 : at + 8 + size]
        try:
            if len(part) < size:
                raise zlib.error(f"{size} bytes announced, {len(part)} there")
            if kind == _PACKED:
                zlib.decompress(part)
        except zlib.error as error:
            raise DataError(
                f"not the published file of fixations: damaged or cut at byte {at} ({error})",
                source=path,
                hint="Fetch it again",
            ) from None
        at += 8 + size


def _read_table(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    table = read_parquet(path)
    need_columns(table, ["image", "subject", "index", "x", "y", "duration_ms"], path)
    table = table.rename(columns={"duration_ms": "duration"})
    for name in ("x", "y", "duration"):
        table[name] = table[name].astype("float64")
    return table, table[["image", "subject"]].drop_duplicates().reset_index(drop=True)
