"""What loaders of pictures share: scanpaths as tables, sizes of pictures, splits by image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.corpus import FOLDS
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

KEYS = ["participant", "trial", "stimulus"]
Size = tuple[int, int]
PARTS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
}


def stack(
    trials: pd.DataFrame, columns: Mapping[str, Sequence[Any]], source: object
) -> pd.DataFrame:
    """Return one row per fixation from one list of values per trial and column.

    Parameters
    ----------
    trials
        With `KEYS`, one row per scanpath; other columns are not copied.
    columns
        Name to as many lists or arrays as there are trials.
    source
        For messages.

    Raises
    ------
    DataError
        The lists of a trial differ in length, or hold no numbers.
    """
    sizes = {
        name: np.fromiter(map(len, lists), dtype=np.int64, count=len(trials))
        for name, lists in columns.items()
    }
    first = next(iter(sizes.values()))
    for name, size in sizes.items():
        if (size != first).any():
            row = int((size != first).argmax())
            raise DataError(
                "a scanpath has unequal numbers of " + ", ".join(sizes),
                source=source,
                row=trials["trial"].iloc[row],
                found=f"{first[row]} {next(iter(sizes))}, {size[row]} {name}",
            )
    table = trials[KEYS].iloc[np.repeat(np.arange(len(trials)), first)].reset_index(drop=True)
    table["index"] = np.arange(int(first.sum())) - np.repeat(np.cumsum(first) - first, first)
    for name, lists in columns.items():
        try:
            arrays = [np.asarray(values, dtype=np.float64).reshape(-1) for values in lists]
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{name} of a scanpath holds no numbers", source=source, found=str(error)
            ) from None
        values = np.concatenate([*arrays, np.zeros(0)])
        if len(values) != len(table):
            raise DataError(f"{name} of a scanpath is no list of numbers", source=source)
        table[name] = values
    return table


def number_repeats(trials: pd.DataFrame, lost: LossLog) -> pd.DataFrame:
    """Give trials of one id numbers (``_2`` for the second), in the order of rows, and count."""
    again = trials.groupby("trial", sort=False).cumcount().to_numpy()
    if again.any():
        reason = "one person, picture and task again: numbered in the order of the file"
        examples = trials["trial"][again > 0]
        lost.add("trials", "note", reason, int((again > 0).sum()), "trials", examples)
        ids = trials["trial"] + "_" + pd.Series(again + 1, index=trials.index).astype("str")
        trials = trials.assign(trial=trials["trial"].where(again == 0, ids))
    return trials


def pictures(folder: Path, *patterns: str) -> dict[str, Path]:
    """Return pictures by name without ending; of equal names the first pattern wins."""
    found: dict[str, Path] = {}
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            if path.is_file():
                found.setdefault(path.stem, path)
    return found


def picture_size(path: Path) -> Size:
    """Return width and height of a picture as stored, without reading its pixels.

    Raises
    ------
    DataError
        Not a picture.
    """
    from PIL import Image

    try:
        with Image.open(path) as image:
            return int(image.width), int(image.height)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"not a readable picture ({error})", source=path) from None


def describe(
    names: Iterable[str],
    found: Mapping[str, Path],
    lost: LossLog,
    size: Size | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the facts of stimuli: image where it is there; size as stated, else as stored."""
    stimuli: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(names):
        facts: dict[str, Any] = {} if size is None else {"size": size}
        if name in found:
            facts["image"] = str(found[name])
            if size is None:
                facts["size"] = picture_size(found[name])
        stimuli[name] = facts
    absent = [name for name, facts in stimuli.items() if "image" not in facts]
    lost.add("stimuli", "undefined", "no picture", len(absent), "images", absent)
    unsized = [name for name, facts in stimuli.items() if "size" not in facts]
    reason = "size unknown: whether a position lies on the picture is known for negative ones only"
    lost.add("stimuli", "undefined", reason, len(unsized), "images", unsized)
    return stimuli


def off_picture(fixations: pd.DataFrame, stimuli: Mapping[str, Mapping[str, Any]]) -> pd.Series:
    """Tell which positions lie outside; missing where position or size is unknown.

    Valid are 0 <= x < width and 0 <= y < height.
    """
    sizes = {name: facts["size"] for name, facts in stimuli.items() if "size" in facts}
    width = fixations["stimulus"].map({k: v[0] for k, v in sizes.items()}).astype("float64")
    height = fixations["stimulus"].map({k: v[1] for k, v in sizes.items()}).astype("float64")
    x, y = fixations["x"], fixations["y"]
    out = ((x < 0) | (y < 0) | (x >= width) | (y >= height)).astype("boolean")
    unknown = x.isna() | y.isna() | (width.isna() & ~((x < 0) | (y < 0)))
    return out.mask(unknown)


def image_folds(trials: pd.DataFrame, part: pd.Series, fold: str, lost: LossLog) -> pd.DataFrame:
    """Return a published split by images, with the columns of `gazeattn.datasets.corpus.FOLDS`.

    The regime is that of the trial: ``unseen_text`` where the picture is in no training trial but
    the person is, ``unseen_both`` where neither is. It is missing where the picture is in the
    training part too (counted), in training, and where the part is missing.
    """
    known = part.notna()
    table = trials.loc[known, KEYS].assign(fold=fold, part=part[known])
    train = table[table["part"] == "train"]
    held = table["part"] != "train"
    seen = table["stimulus"].isin(train["stimulus"])
    reader = table["participant"].isin(train["participant"])
    regime = pd.Series(pd.NA, index=table.index, dtype="str")
    regime[held & ~seen & reader] = "unseen_text"
    regime[held & ~seen & ~reader] = "unseen_both"
    regime[held & seen & ~reader] = "unseen_reader"
    both = held & seen
    reason = "held out by the published split, but their picture is in the training part too"
    lost.add("folds", "note", reason, int(both.sum()), "trials", table.loc[both, "trial"])
    lost.add("folds", "note", "in no part of the published split", int((~known).sum()), "trials")
    return table.assign(regime=regime)[list(FOLDS)].reset_index(drop=True)


def part_names(values: pd.Series, lost: LossLog, source: object) -> pd.Series:
    """Return ``train``, ``val`` and ``test`` for the spellings of published files; missing stays.

    Raises
    ------
    DataError
        Any other name.
    """
    text = values.astype("str").str.strip().str.lower()
    parts = text.map(PARTS)
    bad = parts.isna() & text.notna()
    if bad.any():
        raise DataError(
            "unknown part of the split",
            source=source,
            expected=", ".join(PARTS),
            found=repr(values[bad].iloc[0]),
        )
    other = text.isin(["validation", "training"])
    reason = "spelling of the split (validation, training): read as val, train"
    lost.add("trials", "repaired", reason, int(other.sum()), "trials")
    return parts.astype("str")
