"""AiR-D: gaze while answering questions about pictures (Chen et al., 2020, ECCV)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.corpusfiles import find_files
from gazeattn.datasets.matfiles import pairs, read_mat
from gazeattn.datasets.parts import build, join_ids, one_file, read_json
from gazeattn.datasets.viewing import describe, image_folds, off_picture, pictures, stack
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

FACTS = ("accuracy", "question", "answer")
"""Keys of the answers that are about questions; all others are people."""


@register_corpus("air_d")
def load(folder: Path, page: Corpus) -> GazeDataset:
    """Load AiR-D, one scanpath per question and person.

    The stimulus is the picture where ``val_balanced_questions.json`` of GQA is there to say which
    one a question is about, else the question. Trials have ``question_id, question, answer,
    given_answer, correct`` and ``accuracy`` (share of right answers to the question); ``condition``
    is ``correct``, ``incorrect`` or missing where a person gave no answer. Empty records stay
    trials without fixations.
    """
    lost = LossLog()
    files = find_files(folder, "fix/*/*.mat")
    answers = _mapping(folder / "consolidated_answers.json")
    records = [read_record(path) for path in files]
    trials = pd.DataFrame(
        {
            "participant": pd.Series([p.stem for p in files], dtype="str"),
            "question_id": pd.Series([p.parent.name for p in files], dtype="str"),
        }
    )
    trials["trial"] = join_ids(trials["question_id"], trials["participant"])
    trials = _answers(trials, answers, lost)
    images = _images(folder, trials["question_id"], lost)
    trials["stimulus"] = trials["question_id"].map(lambda q: images.get(q, q)).astype("str")
    columns = {n: [r[:, k] for r in records] for k, n in enumerate(("x", "y", "onset", "end"))}
    fixations = stack(trials, columns, folder / "fix")
    fixations["duration"] = fixations["end"] - fixations["onset"]
    back = fixations["duration"] < 0
    lost.add("fixations", "undefined", "ends before it starts: no duration", int(back.sum()))
    fixations["duration"] = fixations["duration"].mask(back)
    fixations = fixations.drop(columns="end")
    stimuli = describe(trials["stimulus"], pictures(folder, "images/*.jpg"), lost)
    fixations["off_screen"] = off_picture(fixations, stimuli)
    empty = sum(not len(r) for r in records)
    return build(
        page,
        fixations,
        None,
        trials,
        units="objects",
        stimuli=stimuli,
        lost=lost,
        counts={
            "images": sum("image" in s for s in stimuli.values()),
            "questions": int(trials["question_id"].nunique()),
            "empty_scanpaths": empty,
        },
        reports={"folds": benchmark_folds(trials, list(answers.get("accuracy", {})), lost)},
    )


def read_record(path: Path) -> np.ndarray:
    """Return x, y, start and end of the fixations of one file, shape (n, 4); maybe no rows."""

    def take(variables: dict[str, Any]) -> np.ndarray:
        xy, t = pairs(variables["xy"])[:, :2], pairs(variables["t"])[:, :2]
        if len(xy) != len(t):
            raise ValueError(f"{len(xy)} positions and {len(t)} times")
        return np.column_stack([xy, t])

    return read_mat(path, take, "xy (x, y) and t (start, end) with one row per fixation")


def benchmark_folds(trials: pd.DataFrame, questions: list[str], lost: LossLog) -> pd.DataFrame:
    """Return the split of published benchmarks: 80, 10 and 10 % of the questions.

    It is computed by their rule, the order of the published questions shuffled by NumPy's old
    generator with seed 0, and holds for the whole corpus only.
    """
    order = np.array(questions, dtype=object)
    np.random.RandomState(0).shuffle(order)
    cut = (int(len(order) * 0.8), int(len(order) * 0.9))
    names = np.repeat(["train", "val", "test"], [cut[0], cut[1] - cut[0], len(order) - cut[1]])
    part = trials["question_id"].map(dict(zip(order, names, strict=True))).astype("str")
    return image_folds(trials, part, "benchmark", lost)


def _mapping(path: Path) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict) or not all(isinstance(v, dict) for v in found.values()):
        raise DataError(
            "not the published answers",
            source=path,
            expected="accuracy, question, answer and people -> question id -> value",
        )
    return found


def _given(values: Mapping[str, Any] | None, key: str) -> Any:
    """Return an answer; NaN and the text nan say that there is none."""
    value = (values or {}).get(key)
    if value is None or value != value or str(value).strip().lower() == "nan":
        return None
    return value


def _answers(trials: pd.DataFrame, answers: Mapping[str, Any], lost: LossLog) -> pd.DataFrame:
    ids = trials["question_id"]
    for name in ("question", "answer"):
        values = [_given(answers.get(name), q) for q in ids]
        trials[name] = pd.Series([v if v is None else str(v) for v in values], dtype="str")
    share = [_given(answers.get("accuracy"), q) for q in ids]
    trials["accuracy"] = pd.to_numeric(pd.Series(share, dtype=object), errors="coerce").astype(
        "float64"
    )
    given = [_given(answers.get(p), q) for p, q in zip(trials["participant"], ids, strict=True)]
    trials["given_answer"] = pd.Series([v if v is None else str(v) for v in given], dtype="str")
    known = trials["given_answer"].notna() & trials["answer"].notna()
    ours, theirs = (trials[c].str.strip().str.lower() for c in ("given_answer", "answer"))
    trials["correct"] = (ours == theirs).astype("boolean").mask(~known)
    names = trials["correct"].map({True: "correct", False: "incorrect"})
    trials["condition"] = names.astype("str").where(known)
    lost.add("trials", "undefined", "no answer given: correct is missing", int((~known).sum()))
    return trials


def _images(folder: Path, ids: pd.Series, lost: LossLog) -> dict[str, str]:
    path = one_file(folder, "val_balanced_questions.json")
    if path is None:
        reason = (
            "no val_balanced_questions.json: which picture is not known, the question stands in"
        )
        lost.add("stimuli", "note", reason, int(ids.nunique()), "questions")
        return {}
    entries = _mapping(path)
    images = {
        q: str(entries[q]["imageId"]) for q in ids.unique() if "imageId" in entries.get(q, {})
    }
    unknown = ids[~ids.isin(list(images))].unique()
    lost.add("stimuli", "note", "question without a picture", len(unknown), "questions", unknown)
    return images
