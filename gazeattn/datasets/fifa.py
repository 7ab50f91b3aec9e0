"""FiFa: free viewing of scenes with faces (Cerf et al., 2007, NeurIPS; 2009, JoV 9(12):10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.matfiles import one_text, read_mat
from gazeattn.datasets.parts import build, join_ids, one_file
from gazeattn.datasets.viewing import describe, number_repeats, off_picture, pictures, stack
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

SIZE = (1024, 768)
_FIELDS = {"x": "fix_x", "y": "fix_y", "duration": "fix_duration"}


@register_corpus("fifa")
def load(folder: Path, page: Corpus) -> GazeDataset:
    """Load FiFa from ``fixations.mat``, with names of pictures from ``imgList.mat``.

    Without the list, pictures are numbered (``0001``). Positions are as published: whether they
    count from 0 or from 1 is not known. The annotations of faces are not read.
    """
    lost = LossLog()
    path = one_file(folder, "fixations.mat")
    if path is None:
        raise DataError("no fixations", source=folder, expected="fixations.mat")
    people = read_people(path)
    count = max(map(len, people), default=0)
    names = read_names(folder, count, lost)
    keys = [(k + 1, i) for k, scans in enumerate(people) for i in range(len(scans))]
    trials = pd.DataFrame(keys, columns=["person", "image"]).astype("int64")
    trials["participant"] = trials["person"].astype("str")
    trials["stimulus"] = pd.Series([names[i] for i in trials["image"]], dtype="str")
    trials["trial"] = join_ids(trials["stimulus"], trials["participant"].str.zfill(2))
    trials = number_repeats(trials, lost)
    scans = [scan for group in people for scan in group]
    fixations = stack(trials, {n: [s[n] for s in scans] for n in _FIELDS}, path)
    stimuli = describe(trials["stimulus"], pictures(folder, "faces/*"), lost, SIZE)
    fixations["off_screen"] = off_picture(fixations, stimuli)
    lost.add("fixations", "undefined", "no onsets in this corpus", len(fixations))
    return build(
        page,
        fixations,
        None,
        trials.drop(columns=["person", "image"]).assign(condition="free viewing"),
        units="objects",
        stimuli=stimuli,
        lost=lost,
        counts={"images": sum("image" in s for s in stimuli.values())},
        size=SIZE,
    )


def read_people(path: Path) -> list[list[dict[str, np.ndarray]]]:
    """Read ``sbj{person}.scan{image}.fix_x, fix_y, fix_duration``, as arrays in people's order."""

    def take(variables: dict[str, Any]) -> list[list[dict[str, np.ndarray]]]:
        return [
            [
                {ours: np.asarray(_inner(s)[theirs]).ravel() for ours, theirs in _FIELDS.items()}
                for s in np.asarray(_inner(person)["scan"]).ravel()
            ]
            for person in variables["sbj"].ravel()
        ]

    return read_mat(path, take, "sbj{person}.scan{image}.fix_x, fix_y, fix_duration")


def _inner(record: Any) -> Any:
    """Return the one struct of an array of one, as cells hold them."""
    return record.ravel()[0] if isinstance(record, np.ndarray) else record


def read_names(folder: Path, count: int, lost: LossLog) -> list[str]:
    """Return names of pictures without ending; numbers where there is no list."""
    path = one_file(folder, "imgList.mat")
    if path is None:
        lost.add("stimuli", "note", "no imgList.mat: pictures are numbered", count, "images")
        return [f"{i + 1:04d}" for i in range(count)]
    names = read_mat(path, lambda v: [one_text(n) for n in v["imgList"].ravel()], "imgList{image}")
    if len(names) < count:
        raise DataError(
            "the list names fewer pictures than were seen",
            source=path,
            expected=count,
            found=len(names),
        )
    return [Path(n.replace("\\", "/")).stem for n in names]
