"""The readings of a task, prepared once and kept under the content of the corpus."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datamodules.reading import ReadingTrials, Surprisal, Text
from gazeattn.datamodules.reading_features import FIXATION, GAZE, TEXT
from gazeattn.datamodules.reading_tasks import ReadingTask, n_folds, task_split, task_trials
from gazeattn.datasets.splits import Split
from gazeattn.errors import MissingAssetError, UnknownNameError
from gazeattn.losses import Loss, LossLog
from gazeattn.storage import atomic_folder, data_root, write_json, write_parquet

log = logging.getLogger(__name__)
FOLDER = "readings"
VERSION = "3"
"""Part of every key; goes up when the same files give other arrays."""
ARRAYS = ("fixations", "word", "starts", "gaze", "word_starts")


@dataclass(frozen=True)
class TaskData:
    """All that is needed to train and test on a task.

    Attributes
    ----------
    task : ReadingTask
    trials : ReadingTrials
    folds, published : DataFrame or None
        Folds and predictions of others that came with the data set.
    lost : LossLog
    key : str
        Digest of the files and of everything that made the arrays; empty where unknown.
    """

    task: ReadingTask
    trials: ReadingTrials
    folds: pd.DataFrame | None
    published: pd.DataFrame | None
    lost: LossLog
    key: str = ""

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return n_folds(self.task, self.folds)

    def split(self, fold: int) -> Split:
        """Return one fold."""
        return task_split(self.task, self.trials, fold, self.folds)


def task_data(
    task: ReadingTask,
    dataset: dict[str, Any],
    root: str | None = None,
    *,
    share: float = 1.0,
    by: str = "time",
    surprisal: str | None = None,
    keep: bool = True,
) -> TaskData:
    """Return the readings of a task, from the cache where its corpus has not changed.

    Parameters
    ----------
    task
    dataset
        ``name`` and options of the data set.
    root
        Data folder.
    share, by
        Only the beginning of each trial, see `gazeattn.datamodules.reading.beginning`.
    surprisal
        Language model whose surprisal of words is a feature; None: missing.
    keep
        Use the cache and add to it.
    """
    key = _key(task, dataset, root, share, by, surprisal) if keep else ""
    folder = data_root(root) / FOLDER / key
    if key and (folder / "info.json").is_file():
        try:
            return _read(folder, task, key)
        except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
            log.warning("the prepared readings in %s are damaged (%s): made again", folder, error)
    made = _make(task, dataset, root, share, by, surprisal)
    if key:
        _write(folder, made)
    return replace(made, key=key)


def surprisal_of(name: str | None, root: str | None) -> Surprisal | None:
    """Return bits per word of a text under a language model; None where none is named."""
    if name is None:
        return None
    from gazeattn.lm import LanguageModel

    lm = LanguageModel.load(name, root=root)

    def bits(texts: list[str]) -> np.ndarray:
        return lm.surprisal(texts).weights if texts else np.zeros(0)

    return bits


def _make(
    task: ReadingTask, dataset: dict[str, Any], root: str | None,
    share: float, by: str, surprisal: str | None,
) -> TaskData:  # fmt: skip
    from gazeattn.datasets import load

    options = {k: v for k, v in dataset.items() if v is not None and k != "name"}
    own = options.pop("root", None)
    if task.published_as:
        options["predictions"] = True
    corpus = load(str(dataset["name"]), root=own or root, **options)
    bits = surprisal_of(surprisal, root)
    lost = LossLog()
    lost.extend(corpus.lost)
    trials = task_trials(task, corpus, share=share, by=by, surprisal=bits, lost=lost)
    theirs = corpus.reports.get("predictions")
    if theirs is not None:
        theirs = theirs[theirs["task"] == task.published_as].reset_index(drop=True)
    return TaskData(task, trials, corpus.reports.get("folds"), theirs, lost)


def _key(
    task: ReadingTask, dataset: dict[str, Any], root: str | None,
    share: float, by: str, surprisal: str | None,
) -> str:  # fmt: skip
    """Return the digest of the corpus' files and of the settings; empty for other data sets."""
    from gazeattn.datasets.corpus import corpus, find_folder

    try:
        page = corpus(str(dataset["name"]))
        folder = find_folder(page, dataset.get("root") or root)
    except (UnknownNameError, MissingAssetError, FileNotFoundError):
        return ""
    if folder is None:
        return ""
    digest = hashlib.sha256()
    settings = {"task": repr(task), "dataset": dataset, "share": share, "by": by, "lm": surprisal}
    features = [f.name for f in (*FIXATION, *GAZE, *TEXT)]
    text = json.dumps([VERSION, settings, features, repr(page)], sort_keys=True, default=str)
    digest.update(text.encode("utf-8"))
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(str(path.relative_to(folder)).encode("utf-8"))
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


def _write(folder: Path, data: TaskData) -> None:
    trials = data.trials
    if folder.exists():  # damaged, or made by another process in the meantime
        import shutil

        shutil.rmtree(folder)
    with atomic_folder(folder) as target:
        write_parquet(target / "table.parquet", trials.table)
        for name in ("folds", "published"):
            table = getattr(data, name)
            if table is not None:
                write_parquet(target / f"{name}.parquet", table)
        texts = list(trials.texts.values())
        lengths = [len(t.words) for t in texts]
        features = [t.features for t in texts]
        for name in ARRAYS:
            np.save(target / f"{name}.npy", getattr(trials, name), allow_pickle=False)
        np.save(
            target / "texts.npy",
            np.concatenate(features) if features else np.zeros((0, len(TEXT))),
            allow_pickle=False,
        )
        write_json(
            target / "info.json",
            {
                "info": trials.info,
                "names": [t.name for t in texts],
                "words": [list(t.words) for t in texts],
                "lengths": lengths,
                "lost": data.lost.to_frame().to_dict("records"),
            },
        )


def _read(folder: Path, task: ReadingTask, key: str) -> TaskData:
    content = json.loads((folder / "info.json").read_text(encoding="utf-8"))
    arrays = {n: np.load(folder / f"{n}.npy", allow_pickle=False) for n in ARRAYS}
    rows = np.load(folder / "texts.npy", allow_pickle=False)
    table = pd.read_parquet(folder / "table.parquet")
    _check_sizes(arrays, rows, table, content["lengths"])
    edges = np.cumsum([0, *content["lengths"]])
    texts = {
        name: Text(name, tuple(words), rows[a:b])
        for name, words, a, b in zip(
            content["names"], content["words"], edges[:-1], edges[1:], strict=True
        )
    }
    trials = ReadingTrials(table, texts=texts, info=content["info"], **arrays)
    tables = {}
    for name in ("folds", "published"):
        path = folder / f"{name}.parquet"
        tables[name] = pd.read_parquet(path) if path.is_file() else None
    lost = LossLog(Loss(**row) for row in content["lost"])
    return TaskData(task, trials, tables["folds"], tables["published"], lost, key)


def _check_sizes(
    arrays: dict[str, np.ndarray], texts: np.ndarray, table: pd.DataFrame, lengths: list[int]
) -> None:
    """Raise ValueError where files of one folder do not belong together."""
    n = len(table) + 1
    fixations, words = int(arrays["starts"][-1]), int(arrays["word_starts"][-1])
    wanted = {
        "starts": (n,), "word_starts": (n,), "word": (fixations,),
        "fixations": (fixations, len(FIXATION)), "gaze": (words, len(GAZE)),
    }  # fmt: skip
    for name, shape in wanted.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, not {shape}")
    if texts.shape != (sum(lengths), len(TEXT)):
        raise ValueError(f"texts have shape {texts.shape}")
