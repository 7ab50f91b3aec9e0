"""What programmers looked at in code: time per piece of code, and per token of a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gazeattn.datasets import GazeDataset
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
STEP = "code gaze"
EPS = 1.0
"""Milliseconds that every token of a model gets, so that none has no gaze at all."""


@dataclass(frozen=True)
class CodeText:
    """A piece of code that people looked at.

    Attributes
    ----------
    stimulus, item : str
        Versions of one snippet are one item.
    language : str
    source : str
    pieces : tuple of str
        What gaze was recorded on (areas of the display), in the order of the source.
    spans : ndarray of int64, shape (n_pieces, 2)
        First character of each piece in the source, and the one behind its last.
    """

    stimulus: str
    item: str
    language: str
    source: str
    pieces: tuple[str, ...]
    spans: Ints


@dataclass(frozen=True)
class CodeReading:
    """How one person looked at one piece of code.

    Attributes
    ----------
    participant, trial : str
    text : CodeText
    session : str
        What they did meanwhile: ``reading`` or ``writing``.
    mass : ndarray, shape (n_pieces,)
        Milliseconds on each piece.
    order : ndarray of int64, shape (k,)
        Pieces in the order of looking, and ``duration`` (ms) of each look.
    duration : ndarray, shape (k,)
    """

    participant: str
    trial: str
    text: CodeText
    session: str
    mass: Floats
    order: Ints
    duration: Floats


def spans_of(source: str, pieces: Sequence[str], name: str = "code") -> Ints:
    """Return where the pieces of a source stand, whatever white space lies in and between them.

    Parameters
    ----------
    source
    pieces
        All that stands in the source but white space, in its order.
    name
        For messages.

    Returns
    -------
    ndarray of int64, shape (n_pieces, 2)

    Raises
    ------
    DataError
        A piece is not what stands next in the source.
    """
    places = [k for k, c in enumerate(source) if not c.isspace()]
    at, out = 0, np.zeros((len(pieces), 2), dtype=np.int64)
    for row, piece in enumerate(pieces):
        letters = [c for c in piece if not c.isspace()]
        mine = places[at : at + len(letters)]
        found = "".join(source[k] for k in mine)
        if not letters or found != "".join(letters):
            raise DataError("the areas are not the code", source=name, row=row,
                            expected=repr(piece), found=repr(found))  # fmt: skip
        out[row] = mine[0], mine[-1] + 1
        at += len(letters)
    return out


def code_texts(dataset: GazeDataset, lost: LossLog | None = None) -> dict[str, CodeText]:
    """Return the code of a data set whose stimuli have a text and areas, by stimulus.

    Stimuli without either are counted and left out.
    """
    lost = LossLog() if lost is None else lost
    if not len(dataset.words) or "stimulus" not in dataset.words:
        raise DataError(f"data set {dataset.name!r} has no areas of code",
                        hint="code_comprehension has code and areas")  # fmt: skip
    words = dict(list(dataset.words.groupby("stimulus", sort=True)))
    items = dataset.trials.drop_duplicates("stimulus").set_index("stimulus")
    column = str(dataset.info.get("item", "stimulus"))
    found, without = {}, []
    for name, facts in dataset.stimuli.items():
        if not facts.get("text") or name not in words:
            without.append(name)
            continue
        rows = words[name].sort_values("index")
        pieces = tuple(rows["text"].astype(str))
        item = name
        if column in items and name in items.index:
            item = str(items.loc[name, column])
        found[name] = CodeText(
            name, item, str(facts.get("language", "")), str(facts["text"]), pieces,
            spans_of(str(facts["text"]), pieces, name),
        )  # fmt: skip
    lost.add(STEP, "dropped", "no code or no areas", len(without), "stimuli", without)
    return found


def code_readings(
    dataset: GazeDataset, lost: LossLog | None = None, session: str = "reading"
) -> list[CodeReading]:
    """Return how each person looked at each piece of code, in the order of the trials.

    Parameters
    ----------
    dataset
        Such as ``code_comprehension``: `words` are the areas, stimuli hold their source.
    lost
        Receives the counts: fixations off the code, trials without code or areas, trials in
        which the code was not looked at.
    session
        Of trials that do not say what people did.
    """
    lost = LossLog() if lost is None else lost
    texts = code_texts(dataset, lost)
    if not texts or "word" not in dataset.fixations:
        raise DataError(f"data set {dataset.name!r} has no code with areas that were looked at",
                        hint="code_comprehension has code and areas")  # fmt: skip
    trials = dataset.trials
    kept = trials[trials["stimulus"].isin(texts)]
    lost.add(STEP, "dropped", "trials without code or areas", len(trials) - len(kept), "trials")
    fixations = dataset.fixations[dataset.fixations["trial"].isin(kept["trial"])]
    numbers = {
        name: {str(w): k for k, w in enumerate(rows.sort_values("index")["word"])}
        for name, rows in dataset.words.groupby("stimulus", sort=False)
    }
    off = fixations["word"].isna()
    lost.add(STEP, "dropped", "fixations off the code", int(off.sum()), "fixations")
    bad = ~off & ~(fixations["duration"] > 0).fillna(False)
    lost.add(STEP, "dropped", "fixations without a duration", int(bad.sum()), "fixations")
    groups = dict(list(fixations[~off & ~bad].groupby("trial", sort=False)))
    out, unseen = [], []
    for row in kept.to_dict("records"):
        text, name = texts[row["stimulus"]], str(row["trial"])
        if name not in groups:
            unseen.append(name)
            continue
        rows = groups[name].sort_values("index")
        order = rows["word"].astype(str).map(numbers[row["stimulus"]])
        if order.isna().any():
            raise DataError("a fixation is on a word that the code has not", source=name,
                            found=rows.loc[order.isna(), "word"].iloc[0])  # fmt: skip
        at = np.asarray(order.tolist(), dtype=np.int64)
        ms = rows["duration"].to_numpy(dtype=np.float64)
        mass: Floats = np.bincount(at, ms, minlength=len(text.pieces)).astype(np.float64)
        kind = str(row.get("condition") or "")
        task = kind if kind in ("reading", "writing") else session
        out.append(CodeReading(str(row["participant"]), name, text, task, mass, at, ms))
    lost.add(STEP, "dropped", "trials without a look at the code", len(unseen), "trials", unseen)
    return out


def shares_of_pieces(spans: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """Return which sub-words belong to which piece: pairs (piece, sub-word).

    A sub-word belongs to the piece that holds most of its characters, the first of equals; one
    of white space alone, or off all pieces, to none.

    Parameters
    ----------
    spans : ndarray, shape (n_pieces, 2)
        In order, not overlapping.
    offsets : ndarray, shape (n_tokens, 2)
        First character and the one behind the last of each sub-word; both the same: special.
    """
    starts, ends = spans[:, 0], spans[:, 1]
    pieces, tokens = [], []
    for token, (a, b) in enumerate(offsets.tolist()):
        first, last = np.searchsorted(ends, a, "right"), np.searchsorted(starts, b, "left")
        if b <= a or last <= first:
            continue
        held = np.arange(first, last)
        overlap = np.minimum(ends[held], b) - np.maximum(starts[held], a)
        pieces.append(int(held[np.argmax(overlap)]))
        tokens.append(token)
    return np.array(pieces, np.int64), np.array(tokens, np.int64)


def subword_mass(mass: Floats, spans: Ints, offsets: Ints, lost: LossLog | None = None) -> Floats:
    """Return milliseconds per sub-word: those of a piece, evenly over its sub-words.

    Pieces without a sub-word (behind the end of a text that was cut) lose theirs; it is counted.
    """
    pieces, tokens = shares_of_pieces(spans, offsets)
    count = np.bincount(pieces, minlength=len(mass))
    out = np.zeros(len(offsets))
    out[tokens] = mass[pieces] / count[pieces]
    gone = (count == 0) & (mass > 0)
    if lost is not None:
        lost.add(STEP, "dropped", "looked-at pieces without a token of the model",
                 int(gone.sum()), "pieces")  # fmt: skip
    return out


def subword_target(mass: Floats, code: NDArray[np.bool_], eps: float = EPS) -> Floats:
    """Return shares of gaze over the code tokens, ``(dur_s + eps) / (sum + n eps)``; 0 elsewhere.

    Parameters
    ----------
    mass : ndarray, shape (n_tokens,)
        Milliseconds, see `subword_mass`.
    code : ndarray of bool, shape (n_tokens,)
    eps
        Milliseconds that each gets.

    Raises
    ------
    DataError
        No token is code, or there is mass off the code.
    """
    n = int(code.sum())
    if not n or eps <= 0:
        raise DataError("a target of gaze needs code tokens and an eps", expected="1 or more, "
                        "above 0", found=(n, eps))  # fmt: skip
    if (mass[~code] != 0).any():
        raise DataError("milliseconds stand off the code", found=int((mass[~code] != 0).sum()))
    return np.where(code, (mass + eps) / (mass[code].sum() + n * eps), 0.0)


def cross_folds(
    readings: Sequence[CodeReading], folds: int = 4, seed: int = 0
) -> tuple[Ints, Ints]:
    """Return the fold of each reading's developer and of its item, dealt evenly at random.

    A test cell is one fold of developers with one of items; what trains for it has neither.
    """
    made = np.random.default_rng(seed)

    def dealt(names: list[str]) -> Ints:
        distinct = sorted(set(names))
        place = made.permutation(len(distinct)) % folds
        of = dict(zip(distinct, place, strict=True))
        return np.array([of[n] for n in names], dtype=np.int64)

    people = [r.participant for r in readings]
    items = [r.text.item for r in readings]
    for what, names in (("developers", people), ("items", items)):
        if len(set(names)) < folds:
            raise DataError(f"too few {what} for {folds} folds", found=len(set(names)))
    return dealt(people), dealt(items)


def readings_table(readings: Sequence[CodeReading]) -> pd.DataFrame:
    """Return one row per reading: participant, trial, stimulus, item, looks, ms, seen pieces."""
    return pd.DataFrame(
        {
            "participant": [r.participant for r in readings],
            "trial": [r.trial for r in readings],
            "stimulus": [r.text.stimulus for r in readings],
            "item": [r.text.item for r in readings],
            "session": [r.session for r in readings],
            "looks": [len(r.order) for r in readings],
            "ms": [float(r.mass.sum()) for r in readings],
            "seen": [float((r.mass > 0).mean()) for r in readings],
        }
    )
