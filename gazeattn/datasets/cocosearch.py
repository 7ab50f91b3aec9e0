"""COCO-Search18 and COCO-FreeView: search and free viewing of the same pictures.

Chen et al. (2021), doi 10.1038/s41598-021-87715-9; Yang et al. (2020, 2023).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.parts import build, join_ids, one_file, read_json, text
from gazeattn.datasets.viewing import (
    describe,
    image_folds,
    number_repeats,
    off_picture,
    part_names,
    pictures,
    stack,
)
from gazeattn.errors import DataError, UnknownNameError, suggest
from gazeattn.losses import LossLog

SIZE = (1680, 1050)
SMALL = (512, 320)
"""Frame of versions that were processed for models; not what is read here."""
TASKS = (
    "bottle", "bowl", "car", "chair", "clock", "cup", "fork", "keyboard", "knife",
    "laptop", "microwave", "mouse", "oven", "potted plant", "sink", "stop sign", "toilet", "tv",
)  # fmt: skip
BOX = ("bbox_x", "bbox_y", "bbox_width", "bbox_height")
_IMAGES = ("images/*/*.jpg", "coco_search18_images_TA/*/*.jpg", "images/*.jpg")
_PRESENT = "coco_search18_fixations_TP_{part}_split{split}.json"
_ABSENT = "coco_search18_fixations_TA_trainval.json"


@register_corpus("coco_search18")
def load(folder: Path, page: Corpus, *, split: int = 1) -> GazeDataset:
    """Load COCO-Search18, one scanpath per picture, target and person.

    Trials have ``task`` (the target), ``condition`` (``present`` or ``absent``), the target box
    (``bbox_x, bbox_y, bbox_width, bbox_height``; missing where the target is absent), ``correct``
    and ``reaction_time`` (ms). The first fixation is ``forced`` (on the centre). The fixations of
    the test part are withheld by the authors. Onsets are not published.

    Parameters
    ----------
    folder, page
    split : {1, 2}
        Which published split of the target-present trials.
    """
    if split not in (1, 2):
        raise UnknownNameError("split", str(split), ["1", "2"])
    lost = LossLog()
    names = [_PRESENT.format(part=part, split=split) for part in ("train", "validation")]
    found = {name: one_file(folder, name) for name in names}
    found[_ABSENT] = one_file(folder, _ABSENT) or one_file(
        folder / "coco_search18_fixations_TA", _ABSENT
    )
    for name, path in found.items():
        lost.add("files", "note", f"not there: {name}", int(path is None), "files")
    paths = [path for path in found.values() if path is not None]
    if not paths:
        raise DataError(
            "no published file of this split",
            source=folder,
            expected=f"{', '.join(names)} or {_ABSENT}",
        )
    trials, fixations = read_scanpaths(paths, lost, search=True)
    trials = _targets(trials, lost)
    shared = trials.groupby("stimulus")["task"].nunique()
    reason = "searched for several targets (one stimulus): split by stimulus, not by trial"
    lost.add("stimuli", "note", reason, int((shared > 1).sum()), "images")
    return _dataset(folder, page, trials, fixations, lost, f"split {split}")


@register_corpus("coco_freeview")
def load_freeview(folder: Path, page: Corpus) -> GazeDataset:
    """Load COCO-FreeView, one scanpath per picture and person, five seconds each.

    The first fixation is ``forced`` (on the centre). The fixations of 1000 test pictures are
    withheld by the authors. Onsets are not published.
    """
    lost = LossLog()
    path = one_file(folder, "COCOFreeView_fixations_trainval.json")
    if path is None:
        raise DataError("no published file", source=folder, expected=page.files[0].name)
    trials, fixations = read_scanpaths([path], lost, search=False)
    return _dataset(
        folder, page, trials.assign(condition="free viewing"), fixations, lost, "public"
    )


def _dataset(
    folder: Path,
    page: Corpus,
    trials: pd.DataFrame,
    fixations: pd.DataFrame,
    lost: LossLog,
    fold: str,
) -> GazeDataset:
    found = pictures(folder, *_IMAGES)
    stimuli = describe(trials["stimulus"], found, lost, SIZE)
    fixations["forced"] = (fixations["index"] == 0).astype("boolean")
    fixations["off_screen"] = off_picture(fixations, stimuli)
    folds = image_folds(trials, trials["split"], fold, lost)
    lost.add("fixations", "undefined", "no onsets in this corpus", len(fixations))
    if not (trials["split"] == "test").any():
        reason = "the fixations of the test part are withheld by the authors: no test trials"
        lost.add("trials", "note", reason, 1, "parts")
    per_part = trials["split"].value_counts()
    counts = {f"trials_{k}": int(n) for k, n in per_part.items()}
    part = fixations["trial"].map(trials.set_index("trial")["split"]).value_counts()
    counts |= {f"fixations_{k}": int(n) for k, n in part.items()}
    images = trials.groupby("split")["stimulus"].nunique()
    counts |= {f"images_{k}": int(n) for k, n in images.items()}
    return build(
        page,
        fixations,
        None,
        trials,
        units="objects",
        stimuli=stimuli,
        lost=lost,
        counts=counts,
        reports={"folds": folds},
        screen=SIZE,
        size=SIZE,
        letterboxed="pictures are scaled to 1680 x 1050 with their aspect kept, and padded with 0",
    )


def read_scanpaths(
    paths: Iterable[Path], lost: LossLog, *, search: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read published lists of trials.

    Returns
    -------
    trials : DataFrame
        ``participant, trial, stimulus, split`` and, of a search, ``task, condition, bbox, correct,
        reaction_time``.
    fixations : DataFrame
        ``participant, trial, stimulus, index, x, y, duration``.

    Raises
    ------
    DataError
        Not such a list; unequal numbers of positions and durations; a task, condition or part of
        another name; positions of the small frame of processed versions.
    """
    tables = [_read_file(path, lost, search=search) for path in paths]
    trials = pd.concat(tables, ignore_index=True)
    source = ", ".join(p.name for p in paths)
    plain = trials.drop(columns=["X", "Y", "T", "bbox"]).assign(
        path=[
            repr((x, y, t)) for x, y, t in zip(trials["X"], trials["Y"], trials["T"], strict=True)
        ]
    )
    twice = plain.duplicated().to_numpy()
    lost.add("trials", "dropped", "the same record stands twice", int(twice.sum()), "trials")
    trials = number_repeats(trials[~twice].reset_index(drop=True), lost)
    columns = {n: list(trials[k]) for n, k in (("x", "X"), ("y", "Y"), ("duration", "T"))}
    fixations = stack(trials, columns, source)
    stated = pd.to_numeric(trials["length"], errors="coerce")
    sizes = trials["X"].map(len)
    wrong = stated.notna() & (stated != sizes)
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        raise DataError(
            "a scanpath has another number of fixations than it states",
            source=source,
            row=trials["trial"].iloc[row],
            expected=f"length {stated.iloc[row]:g}",
            found=sizes.iloc[row],
        )
    _refuse_small(fixations, source)
    return trials.drop(columns=["X", "Y", "T", "length"]), fixations


def _read_file(path: Path, lost: LossLog, *, search: bool) -> pd.DataFrame:
    records = read_json(path)
    needed = ["name", "subject", "X", "Y", "T", *(["task", "condition"] if search else [])]
    if not isinstance(records, list) or not records or not isinstance(records[0], dict):
        raise DataError("not a list of trials", source=path, expected=", ".join(needed))
    for number, record in enumerate(records):
        lacking = [k for k in needed if not isinstance(record, dict) or k not in record]
        lists = [] if lacking else [k for k in "XYT" if not isinstance(record[k], list)]
        if lacking or lists:
            raise DataError(
                f"a trial lacks {', '.join(lacking)}" if lacking else f"{lists[0]} is no list",
                source=path,
                row=number,
                expected=", ".join(needed),
            )
    optional = ("length", "split", "task", "condition", "bbox", "correct", "RT")
    table = pd.DataFrame({k: [r.get(k) for r in records] for k in (*needed[:5], *optional)})
    table["stimulus"] = text(table["name"]).str.removesuffix(".jpg")
    table["participant"] = people(table["subject"], lost, path)
    table["split"] = part_names(table["split"], lost, path)
    parts: list[Any] = [table["stimulus"]]
    if search:
        table["task"] = tasks(table["task"], lost, path)
        table["condition"] = text(table["condition"]).str.strip().str.lower()
        bad = ~table["condition"].isin(["present", "absent"])
        if bad.any():
            row = int(bad.to_numpy().argmax())
            raise DataError(
                "unknown condition",
                source=path,
                row=row,
                expected="present or absent",
                found=repr(table["condition"].iloc[row]),
            )
        parts += [table["task"].str.replace(" ", "-"), table["condition"]]
        for ours, theirs in (("correct", "correct"), ("reaction_time", "RT")):
            table[ours] = pd.to_numeric(table[theirs], errors="coerce").astype("float64")
    else:
        table = table.drop(columns=["task", "condition", "correct"])
    table["trial"] = join_ids(*parts, table["participant"].str.zfill(2))
    return table.drop(columns=["name", "subject", "RT"])


def people(subject: pd.Series, lost: LossLog, source: object) -> pd.Series:
    """Return ids that count from 1; a file that counts from 0 is shifted and counted.

    Raises
    ------
    DataError
        A subject that is no whole number from 0.
    """
    number = pd.to_numeric(subject, errors="coerce").astype("float64")
    bad = ~((number >= 0) & (number == np.floor(number)))
    if bad.any():
        row = int(bad.to_numpy().argmax())
        raise DataError(
            "a subject must be a whole number from 0",
            source=source,
            row=row,
            found=repr(subject.iloc[row]),
        )
    if (number == 0).any():
        reason = "subjects counted from 0: +1, so that they agree with the other files"
        lost.add("trials", "repaired", reason, len(number), "trials")
        number = number + 1
    return number.astype("int64").astype("str")


def tasks(values: pd.Series, lost: LossLog, source: object) -> pd.Series:
    """Return the names of `TASKS` for the spellings of published files, and count the others.

    Raises
    ------
    DataError
        A target that is none of them.
    """
    given = values.astype("str")
    plain = given.str.strip().str.lower().str.replace(r"[_\s-]+", " ", regex=True)
    bad = ~plain.isin(TASKS)
    if bad.any():
        row = int(bad.to_numpy().argmax())
        near = suggest(str(plain.iloc[row]), TASKS)
        raise DataError(
            "unknown search target",
            source=source,
            row=row,
            expected=", ".join(TASKS),
            found=repr(values.iloc[row]),
            hint=f"Did you mean {near[0]!r}?" if near else None,
        )
    reason = "spelling of the task (potted_plant): read as potted plant"
    lost.add("trials", "repaired", reason, int((plain != given).sum()), "trials")
    return plain


def _refuse_small(fixations: pd.DataFrame, source: str) -> None:
    """Refuse versions that were scaled to 512 x 320: all start in the middle of that frame."""
    first = fixations[fixations["index"] == 0]
    if len(first) < 2:
        return
    near = [(first[a].median() - side / 2) / side for a, side in zip("xy", SMALL, strict=True)]
    within = fixations["x"].max() <= SMALL[0] and fixations["y"].max() <= SMALL[1]
    if within and max(map(abs, near)) < 0.1:
        raise DataError(
            "positions look like those of a version scaled to 512 x 320",
            source=source,
            expected="pixels of 1680 x 1050, as published",
            found=f"the first fixations at ({first['x'].median():g}, {first['y'].median():g})",
            hint="Take the published file: models scale it themselves",
        )


def _targets(trials: pd.DataFrame, lost: LossLog) -> pd.DataFrame:
    """Add the columns of the target box; an absent target has none."""
    boxes = [b if isinstance(b, list) and len(b) == 4 else [np.nan] * 4 for b in trials["bbox"]]
    try:
        values = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    except (TypeError, ValueError) as error:
        raise DataError("a target box holds no four numbers", found=str(error)) from None
    absent = (trials["condition"] == "absent").to_numpy()
    reason = "box of a target that is absent: not a target box, left out"
    lost.add("trials", "undefined", reason, int((~np.isnan(values[:, 0]) & absent).sum()))
    values[absent] = np.nan
    unknown = ~absent & np.isnan(values).any(axis=1)
    reason = "target present, but no box of it"
    lost.add("trials", "undefined", reason, int(unknown.sum()), "trials", trials["trial"][unknown])
    trials = trials.drop(columns="bbox").assign(**dict(zip(BOX, values.T, strict=True)))
    untimed = int(trials["reaction_time"].isna().sum())
    lost.add("trials", "undefined", "no reaction time", untimed, "trials")
    return trials
