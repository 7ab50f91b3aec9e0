"""RefCOCO-Gaze: gaze on a picture while a spoken expression refers to an object in it.

Mondal et al. (2024), ECCV.
"""

from __future__ import annotations

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
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

SIZE = (1680, 1050)
BOX = ("bbox_x", "bbox_y", "bbox_width", "bbox_height")
FILES = ("refcocogaze_train_correct.json", "refcocogaze_val_correct.json")
_NEEDED = ("IMAGEFILE", "SUBJECT_ID", "FIX_X", "FIX_Y", "FIX_DURATION")
_TEXTS = {
    "ref": "REF_ID",
    "expression": "REF_SENTENCE",
    "target": "TARGET",
    "category": "TARGET_CATEGORY",
}


@register_corpus("refcoco_gaze")
def load(folder: Path, page: Corpus) -> GazeDataset:
    """Load RefCOCO-Gaze, one scanpath per person, picture and expression.

    Trials have the spoken ``expression`` (words in ``reports["words"]``), the box of what it refers
    to (``bbox_x, bbox_y, bbox_width, bbox_height``), ``sound_onset``, and when the target word was
    spoken (``target_start, target_end``, from the beginning of the sound), where they are there.
    The test part was taken down by the authors.
    """
    lost = LossLog()
    records: list[tuple[Path, dict[str, Any]]] = []
    for name in FILES:
        path = one_file(folder, name)
        lost.add("files", "note", f"not there: {name}", int(path is None), "files")
        records += [(path, r) for r in _records(path)] if path is not None else []
    if not records:
        raise DataError("no published file", source=folder, expected=" or ".join(FILES))
    trials, fixations = read_scanpaths(records, lost)
    trials = _timing(trials, folder, lost)
    stimuli = describe(trials["stimulus"], pictures(folder, "images/*.jpg"), lost, SIZE)
    fixations["off_screen"] = off_picture(fixations, stimuli)
    folds = image_folds(trials, trials["split"], "public", lost)
    lost.add("trials", "note", "the test part was taken down by the authors", 1, "parts")
    words = _words(trials)
    pairs = trials[["stimulus", "ref"]].drop_duplicates()
    return build(
        page,
        fixations,
        None,
        trials.drop(columns="words").assign(condition="referral"),
        units="objects",
        stimuli=stimuli,
        lost=lost,
        counts={"scanpaths": len(trials), "pairs": len(pairs)},
        reports={"folds": folds, "words": words},
        screen=SIZE,
        size=SIZE,
    )


def _records(path: Path) -> list[dict[str, Any]]:
    found = read_json(path)
    if not isinstance(found, list):
        raise DataError("not a list of scanpaths", source=path)
    for number, record in enumerate(found):
        lacking = [k for k in _NEEDED if not isinstance(record, dict) or k not in record]
        lists = [] if lacking else [k for k in _NEEDED[2:] if not isinstance(record[k], list)]
        if lacking or lists:
            raise DataError(
                f"a scanpath lacks {', '.join(lacking)}" if lacking else f"{lists[0]} is no list",
                source=path,
                row=number,
                expected=", ".join(_NEEDED),
            )
    return found


def read_scanpaths(
    records: list[tuple[Path, dict[str, Any]]], lost: LossLog
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return trials and fixations of the published records.

    ``FIX_START`` is the onset, ``FIX_IN_BBOX`` the column ``in_target_box``, where they are there.
    """
    given = [r for _, r in records]
    trials = pd.DataFrame({"image": text([str(r["IMAGEFILE"]) for r in given])})
    trials["stimulus"] = trials["image"].str.rsplit("/", n=1).str[-1].str.removesuffix(".jpg")
    trials["participant"] = text([str(r["SUBJECT_ID"]) for r in given])
    for ours, theirs in _TEXTS.items():
        values = [r.get(theirs) for r in given]
        trials[ours] = pd.Series([v if v is None else str(v) for v in values], dtype="str")
    trials["words"] = [list(map(str, r.get("REF_WORDS") or [])) for r in given]
    stated = pd.Series([r.get("REFCOCO_GAZE_SPLIT") for r in given], dtype="str")
    by_file = text([p.name.split("_")[1] for p, _ in records])
    lost.add("trials", "note", "part of the split from the file name", int(stated.isna().sum()))
    trials["split"] = part_names(stated.fillna(by_file), lost, records[0][0])
    trials["sound_onset"] = _number([r.get("SOUND_ON") for r in given])
    spoken = [_pair(r.get("TARGET_SPOKEN_PERIOD")) for r in given]
    trials["target_start"], trials["target_end"] = np.array(spoken, dtype=np.float64).T
    boxes = np.array([_four(r.get("BBOX")) for r in given], dtype=np.float64)
    for name, values in zip(BOX, boxes.T, strict=True):
        trials[name] = values
    reason = "no box of the target"
    lost.add("trials", "undefined", reason, int(np.isnan(boxes).any(axis=1).sum()), "trials")
    named = pd.Series([r.get("REF_GAZE_ID") for r in given], dtype=object)
    made = join_ids(trials["stimulus"], trials["ref"].fillna("none"), trials["participant"])
    trials["trial"] = named.map(str, na_action="ignore").fillna(made).astype("str")
    trials = number_repeats(trials.drop(columns="image"), lost)
    columns: dict[str, list[Any]] = {
        "x": [r["FIX_X"] for r in given],
        "y": [r["FIX_Y"] for r in given],
        "duration": [r["FIX_DURATION"] for r in given],
    }
    optional = {"onset": "FIX_START", "in_target_box": "FIX_IN_BBOX"}
    for ours, theirs in optional.items():
        if any(isinstance(r.get(theirs), list) for r in given):
            columns[ours] = [
                r[theirs] if isinstance(r.get(theirs), list) else [np.nan] * len(r["FIX_X"])
                for r in given
            ]
    fixations = stack(trials, columns, ", ".join(sorted({p.name for p, _ in records})))
    if "in_target_box" in fixations:
        inside = fixations["in_target_box"]
        fixations["in_target_box"] = (inside > 0).astype("boolean").mask(inside.isna())
    if "onset" not in fixations:
        lost.add("fixations", "undefined", "no FIX_START: no onsets", len(fixations))
    return trials, fixations


def _number(values: list[Any]) -> pd.Series:
    return pd.to_numeric(pd.Series(values, dtype=object), errors="coerce").astype("float64")


def _pair(value: Any) -> tuple[float, float]:
    good = isinstance(value, list) and len(value) == 2 and None not in value
    return (float(value[0]), float(value[1])) if good else (np.nan, np.nan)


def _four(value: Any) -> list[float]:
    if value is None:
        return [np.nan] * 4
    try:
        box = [float(v) for v in value]
    except (TypeError, ValueError):
        box = []
    if len(box) != 4:
        raise DataError("a target box holds no four numbers", found=repr(value))
    return box


def _timing(trials: pd.DataFrame, folder: Path, lost: LossLog) -> pd.DataFrame:
    """Take when the target word is spoken from ``word-timing.json``, where it is there."""
    path = one_file(folder, "word-timing.json")
    if path is None:
        return trials
    entries = read_json(path)
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise DataError("not a list of timings", source=path, expected="ref_id, target_period")
    known = {str(e["ref_id"]): _pair(e.get("target_period")) for e in entries if "ref_id" in e}
    for k, name in enumerate(("target_start", "target_end")):
        own = trials["ref"].map({ref: pair[k] for ref, pair in known.items()}).astype("float64")
        differ = own.notna() & trials[name].notna() & (own != trials[name])
        reason = f"{name} of the scanpath differs from word-timing.json, which counts"
        lost.add("trials", "repaired", reason, int(differ.sum()), "trials")
        trials[name] = own.fillna(trials[name])
    return trials


def _words(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the words of each expression, once: ``ref, index, text``."""
    table = trials.drop_duplicates("ref")[["ref", "words"]].explode("words").dropna()
    table["index"] = table.groupby("ref", sort=False).cumcount()
    return table.rename(columns={"words": "text"}).reset_index(drop=True)[["ref", "index", "text"]]
