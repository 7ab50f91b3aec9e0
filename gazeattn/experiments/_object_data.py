"""Displays and sequences of objects for the experiments: covers, shelves, and words of texts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import gazeattn
from gazeattn.datamodules import Stimulus
from gazeattn.datamodules.objects import (
    ObjectScanpaths,
    object_scanpaths,
    objects_of,
    table_of_boxes,
)
from gazeattn.datamodules.reading_texts import TextEncoder
from gazeattn.datasets import GazeDataset
from gazeattn.datasets.splits import Split, kfold, split
from gazeattn.losses import LossLog
from gazeattn.stimuli.shelves import Searcher, Shelf, crops_of, make_shelf

Embedder = Callable[[list[str]], tuple[Tensor, Tensor]]
"""From the words of a text to one row per word, and one row for all of it."""


@dataclass(frozen=True)
class Parts:
    """The parts of one split."""

    name: str
    fold: str
    train: ObjectScanpaths
    valid: ObjectScanpaths
    test: ObjectScanpaths
    split: str


def parts_of(
    paths: ObjectScanpaths, divided: Split, name: str, fold: str, displays: int | None
) -> Parts:
    """Return the parts of a split, with at most `displays` displays each."""
    train, valid, test = (
        limited(paths.part(divided, p), displays) for p in ("train", "val", "test")
    )
    return Parts(name, fold, train, valid, test, f"by {name}, {divided.digest[:12]}")


def limited(paths: ObjectScanpaths, displays: int | None) -> ObjectScanpaths:
    """Return the sequences over the first displays, in the order of their names."""
    if displays is None:
        return paths
    kept = sorted(paths.stimuli)[:displays]
    return paths.take(np.isin(paths.stimulus.astype(str), kept))


def cover_parts(
    dataset: GazeDataset, *, displays: int | None = None, folds: int = 5
) -> tuple[list[Parts], LossLog]:
    """Return the splits of the search among covers: one by layout, and one per target."""
    lost = LossLog()
    paths = objects_of(dataset, lost=lost)
    layout = split(dataset, by="text", shares=(0.6, 0.1, 0.3), seed=0)
    found = [parts_of(paths, layout, "layout", "0", displays)]
    for fold in range(folds):
        divided = kfold(dataset, by="text", folds=5, fold=fold, seed=0, item="target")
        found.append(parts_of(paths, divided, "target", str(fold), displays))
    return found, lost


def shelf_parts(
    n: tuple[int, int, int], *, searches: int = 4, seed: int = 0
) -> tuple[Parts, dict[str, Shelf]]:
    """Return searches of a known searcher over generated shelves, new shelves in every part."""
    searcher, shelves = Searcher(), {}
    made = []
    first = 0
    for count in n:
        stimuli: dict[str, Stimulus] = {}
        sequences, names = [], []
        for k in range(first, first + count):
            name = f"shelf{k}"
            shelf = shelves[name] = make_shelf(seed * 100_003 + k)
            crops = torch.from_numpy(crops_of(shelf)).float()
            stimuli[name] = Stimulus(
                name,
                (float(shelf.size[0]), float(shelf.size[1])),
                objects=table_of_boxes(shelf.boxes, shelf.target),
                features={"appearance": crops, "target": crops[shelf.target]},
            )
            for s in range(searches):
                sequences.append(searcher.search(shelf, (seed * 100_003 + k) * 100 + s))
                names.append(name)
        # a search that gave up did not stop by itself
        ended = [len(s) < searcher.longest for s in sequences]
        ids = [f"{a}_{i}" for i, a in enumerate(names)]
        made.append(
            object_scanpaths(sequences, names, stimuli, trial=ids, participant=ids, finished=ended)
        )
        first += count
    text = f"{n[0]}, {n[1]} and {n[2]} shelves, seed {seed}"
    return Parts("shelf", "0", made[0], made[1], made[2], text), shelves


def as_visits(paths: ObjectScanpaths, longest: int, lost: LossLog | None = None) -> ObjectScanpaths:
    """Return sequences with immediate repeats as one, cut after `longest` objects."""
    lost = LossLog() if lost is None else lost
    sequences, ended = [], []
    for i in range(len(paths)):
        s = paths.sequence(i)
        s = s[np.concatenate([[True], s[1:] != s[:-1]])]
        ended.append(bool(paths.finished[i]) and len(s) <= longest)
        sequences.append(s[:longest])
    total = sum(map(len, sequences))
    lost.add("objects", "dropped", f"immediate repeats, and what follows {longest} visits",
             len(paths.looked) - total)  # fmt: skip
    return object_scanpaths(
        sequences, paths.stimulus.tolist(), paths.stimuli, trial=paths.trial.tolist(),
        participant=paths.participant.tolist(), finished=ended,
    )  # fmt: skip


def reading_parts(
    dataset: GazeDataset,
    embed: Embedder,
    *,
    displays: int | None = None,
    longest: int = 40,
    lost: LossLog | None = None,
) -> Parts:
    """Return the visits of words by people who look for the answer to a known question.

    Words are the objects, their embeddings the appearance, that of the question the target.
    """
    seeking = dataset.trials["condition"] == "information seeking"
    kept = dataset.trials.loc[seeking]
    seen = dataset.fixations[dataset.fixations["trial"].isin(kept["trial"])]
    chosen = replace(dataset, trials=kept.reset_index(drop=True), fixations=seen)
    paths = as_visits(objects_of(chosen, lost=lost), longest, lost)
    divided = split(chosen, by="text", shares=(0.7, 0.15, 0.15), seed=0)
    parts = parts_of(paths, divided, "text", "0", displays)
    questions = kept.drop_duplicates("layout").set_index("layout")["question"]
    filled: dict[str, Any] = {}
    for part in ("train", "valid", "test"):
        mine: ObjectScanpaths = getattr(parts, part)
        features: dict[str, Mapping[str, Tensor]] = {}
        for name, stimulus in mine.stimuli.items():
            assert stimulus.objects is not None
            words, _ = embed(stimulus.objects["text"].astype(str).tolist())
            _, question = embed(str(questions[name]).split())
            features[name] = {"appearance": words, "target": question}
        filled[part] = mine.with_features(features)
    return replace(parts, **filled)


def hashed_embedder(width: int = 32) -> Embedder:
    """Return embeddings of words that depend on their letters alone, for tests and comparison."""

    def vector(word: str) -> NDArray[np.float64]:
        plain = "".join(c for c in word.lower() if c.isalnum())
        digest = hashlib.sha256(plain.encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "big")).normal(size=width)

    def embed(words: list[str]) -> tuple[Tensor, Tensor]:
        rows = torch.from_numpy(np.stack([vector(w) for w in words])).float()
        return rows, rows.mean(0)

    return embed


def language_embedder(name: str = "minilm", root: str | None = None) -> Embedder:
    """Return embeddings of words in their text from a language model, last layer, by mean."""
    encoder = TextEncoder(name, root)

    def embed(words: list[str]) -> tuple[Tensor, Tensor]:
        tokens = encoder.with_vectors(encoder.tokens([w if w.strip() else "-" for w in words]))
        assert tokens.vectors is not None
        states, of = torch.from_numpy(tokens.vectors), torch.from_numpy(tokens.word_of)
        rows = torch.zeros(len(words), states.shape[1])
        rows.index_add_(0, of[of >= 0], states[of >= 0])
        count = torch.bincount(of[of >= 0], minlength=len(words)).clamp(min=1)
        return rows / count[:, None], states.mean(0)

    return embed


def load(name: str, root: str | None) -> GazeDataset:
    """Return a data set by name."""
    return gazeattn.load(name, root=root) if root else gazeattn.load(name)
