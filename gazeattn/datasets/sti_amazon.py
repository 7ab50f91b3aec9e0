"""Searching a book cover among 84 covers (Sattar et al., 2015; Stauden et al., 2018)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.parts import build, correction, join_ids, outside, read_string, text
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

_BOX = ("target_left", "target_top", "target_right", "target_bottom")


@register_corpus("sti_amazon")
def load(folder: Path, page: Corpus) -> GazeDataset:
    """Load the searches, one scanpath per collage and person.

    Words are the 84 covers of each collage (``row``, ``column``; ids 0 to 83, row by row), with
    boxes from a grid that is fitted to the published target boxes. A fixation belongs to the
    nearest cover (``word``), also between covers; ``in_target_box`` says whether it lies in the
    published box, borders included. There are no times.
    """
    lost = LossLog()
    fixations, trials = read_json(folder / "Amazon.json")
    rule = correction(page, "derived layout")
    n_columns, n_rows = int(rule["columns"]), int(rule["rows"])
    images = trials.drop_duplicates("stimulus").reset_index(drop=True)
    start = {s: (float(rule["grid"][s][0]), float(rule["grid"][s][1])) for s in ("x", "y")}
    grid = fit_grid(images, start)
    for axis, side, count in (("x", "column", n_columns), ("y", "row", n_rows)):
        origin, step = grid[axis]
        fixations[f"cell_{side}"] = _nearest(fixations[axis], origin, step, count)
        middle = (images[_BOX[axis == "y"]] + images[_BOX[2 + (axis == "y")]]) / 2
        images[f"target_{side}"] = _nearest(middle, origin, step, count)
    fixations["word"] = text(fixations["cell_row"] * n_columns + fixations["cell_column"])
    images["target_word"] = text(images["target_row"] * n_columns + images["target_column"])
    trials = trials.merge(images[["stimulus", "target_word"]], on="stimulus", validate="m:1")
    rows = fixations.merge(trials[["trial", "target_word", *_BOX, "width", "height"]], on="trial")
    inside = rows["x"].between(rows[_BOX[0]], rows[_BOX[2]])
    inside &= rows["y"].between(rows[_BOX[1]], rows[_BOX[3]])
    fixations["in_target_box"] = inside.to_numpy()
    fixations["off_screen"] = outside(rows["x"], rows["y"], rows["width"], rows["height"]).array
    hits = rows.assign(inside=inside, cell=rows["word"] == rows["target_word"]).groupby("trial")
    trials["target_visited"] = trials["trial"].map(hits["inside"].any()).astype("boolean")
    trials["last_in_target_box"] = trials["trial"].map(hits["inside"].last()).astype("boolean")
    trials["last_in_target_cell"] = trials["trial"].map(hits["cell"].last()).astype("boolean")
    words = _covers(images, grid, n_columns, n_rows)
    reason = "boxes of covers are derived from a grid; only the target box is published"
    lost.add("words", "note", reason, len(words))
    sizes = len(images[["width", "height"]].drop_duplicates())
    lost.add("stimuli", "note", "sizes differ: each collage has its own", sizes, "sizes")
    lost.add("fixations", "undefined", "no times in this corpus", len(fixations))
    lost.add(
        "trials",
        "note",
        "the target is never fixated",
        int((~trials["target_visited"].fillna(True)).sum()),
        "trials",
    )
    return build(
        page,
        fixations,
        words,
        trials.assign(condition="search"),
        units="objects",
        stimuli=_stimuli(images),
        lost=lost,
        counts={
            "scanpaths": len(trials),
            "cells": n_columns * n_rows,
            "target_files": int(images["target"].nunique()),
            "target_visited": int(trials["target_visited"].sum()),
            "last_in_target_box": int(trials["last_in_target_box"].sum()),
            "last_in_target_cell": int(trials["last_in_target_cell"].sum()),
            "empty_scanpaths": int((trials["n_fixations"] == 0).sum()),
        },
        grid={k: tuple(map(float, v)) for k, v in grid.items()},
    )


def read_json(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the published file: fixations, and one row per collage and person.

    Raises
    ------
    DataError
        Not JSON, or an entry without size, target, box or fixations.
    """
    try:
        entries = json.loads(read_string(path))
        trials, gaze = [], []
        for image, entry in entries.items():
            width, height = (int(entry["size"][k]) for k in ("width", "height"))
            (given,) = entry["ground_truth"]
            box = [float(given[k]) for k in ("xmin", "ymin", "xmax", "ymax")]
            if box[2] < box[0] or box[3] < box[1]:
                raise ValueError(f"box {box} of {image}")
            for person, points in entry["fixations"].items():
                trials.append((image, person, entry["target"], width, height, *box, len(points)))
                gaze.append(np.asarray(points, dtype="float64").reshape(-1, 2))
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise DataError(
            "not the published file of searches",
            source=path,
            expected="image -> fixations, ground_truth (one box), size, target",
            found=f"{type(error).__name__}: {error}",
        ) from None
    names = ["image", "participant", "target", "width", "height", *_BOX, "n_fixations"]
    table = pd.DataFrame(trials, columns=names)
    table["stimulus"] = text(table["image"]).str.removesuffix(".jpg")
    table["trial"] = join_ids(
        table["stimulus"].str.zfill(3), text(table["participant"]).str.zfill(2)
    )
    n = table["n_fixations"].to_numpy(dtype=int)
    keys = table[["participant", "trial", "stimulus"]]
    fixations = keys.loc[np.repeat(keys.index, n)].reset_index(drop=True)
    fixations["index"] = np.arange(int(n.sum())) - np.repeat(np.cumsum(n) - n, n)
    points = np.concatenate([*gaze, np.zeros((0, 2))])
    fixations["x"], fixations["y"] = points[:, 0], points[:, 1]
    return fixations, table.drop(columns="image")


def fit_grid(
    images: pd.DataFrame, start: dict[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    """Fit the centres of columns and rows to the target boxes, by least squares.

    Parameters
    ----------
    images
        One row per collage with the published box.
    start
        First guess ``{"x": (first centre, distance), "y": ...}``; it only says which column and
        row a box is in.

    Returns
    -------
    dict
        ``x, y``: (first centre, distance) in pixels; ``size``: mean (width, height) of the boxes.
        With targets in fewer than two columns (rows) the first guess stays.
    """
    grid = {}
    for axis, (low, high) in {"x": (0, 2), "y": (1, 3)}.items():
        middle = ((images[_BOX[low]] + images[_BOX[high]]) / 2).to_numpy()
        number = np.round((middle - start[axis][0]) / start[axis][1])
        if len(np.unique(number)) < 2:
            grid[axis] = start[axis]
            continue
        step, origin = np.polyfit(number, middle, 1)
        grid[axis] = (float(origin), float(step))
    width, height = (images[_BOX[k + 2]] - images[_BOX[k]] for k in (0, 1))
    grid["size"] = (float(width.mean()), float(height.mean()))
    return grid


def _nearest(values: pd.Series, origin: float, step: float, count: int) -> pd.Series:
    """Return the number of the nearest centre; positions beyond the ends go to the last one."""
    return ((values - origin) / step).round().clip(0, count - 1).astype("int64")


def _covers(
    images: pd.DataFrame, grid: dict[str, tuple[float, float]], n_columns: int, n_rows: int
) -> pd.DataFrame:
    cell = np.arange(n_columns * n_rows)
    row, column = np.divmod(cell, n_columns)
    x, y = grid["x"][0] + grid["x"][1] * column, grid["y"][0] + grid["y"][1] * row
    width, height = grid["size"]
    covers = pd.DataFrame(
        {
            "word": text(cell),
            "index": cell,
            "row": row,
            "column": column,
            "line": row,
            "left": x - width / 2,
            "top": y - height / 2,
            "right": x + width / 2,
            "bottom": y + height / 2,
            "label": "row " + text(row) + " column " + text(column),
        }
    )
    words = images[["stimulus", "target", "target_word"]].merge(covers, how="cross")
    words["is_target"] = words["word"] == words["target_word"]
    words["text"] = words["label"].where(~words["is_target"], words["target"]).astype("str")
    words["layout"] = words["stimulus"]
    return words.drop(columns=["target", "target_word", "label"])


def _stimuli(images: pd.DataFrame) -> dict[str, dict[str, Any]]:
    return {
        str(r["stimulus"]): {
            "size": (int(r["width"]), int(r["height"])),
            "target": str(r["target"]),
            "target_box": tuple(float(r[c]) for c in _BOX),
        }
        for r in images.to_dict("records")
    }
