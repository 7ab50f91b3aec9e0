"""Open-ended goals of reading: which question was the reader looking for an answer to?

Hadar et al. (2026), Decoding open-ended information seeking goals from eye movements in reading,
ICLR: the trials, candidates to choose from, and readings written as text for language models.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gazeattn.columns import as_text
from gazeattn.datamodules.reading import ReadingTrials, reading_trials
from gazeattn.datasets import GazeDataset
from gazeattn.datasets.splits import Split
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog

SEEKING = "information seeking"
ASKED, SAME, OTHER = "asked", "same text", "other text"
PARAGRAPH, ITEM, SPAN = "paragraph", "item", "span"
"""Columns: the text whatever its version, what a split holds out, where the answer stands."""
SCANPATHS = ("list", "none")
OFF_TEXT = "off"
QUESTION = "\nQuestion:"


@dataclass(frozen=True)
class GoalTrials:
    """Readings, each with questions of which one was asked.

    Attributes
    ----------
    trials : ReadingTrials
        Their table has ``question`` (the asked one), ``paragraph`` and ``item``.
    candidates : tuple of tuple of str
        In an order that is shuffled for each trial.
    kinds : tuple of tuple of str
        ``"asked"``, ``"same text"`` or ``"other text"`` for each candidate.
    groups : tuple of tuple of str
        Span of each candidate's answer where the corpus tells it, else its text.
    target : ndarray, shape (n,), int64
        Place of the asked question among the candidates.
    grouped_by : {"span", "text"}
    """

    trials: ReadingTrials
    candidates: tuple[tuple[str, ...], ...]
    kinds: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, ...], ...]
    target: NDArray[np.int64]
    grouped_by: str = "text"

    def __len__(self) -> int:
        return len(self.trials)

    @property
    def most(self) -> int:
        """The largest number of candidates."""
        return max((len(c) for c in self.candidates), default=0)

    @property
    def questions(self) -> list[str]:
        """The asked questions."""
        return [c[k] for c, k in zip(self.candidates, self.target, strict=True)]

    def take(self, which: NDArray[Any] | Sequence[int]) -> GoalTrials:
        """Return the trials at some positions (or of a mask)."""
        which = np.asarray(which)
        at = np.flatnonzero(which) if which.dtype == bool else which.astype(np.int64)
        return replace(
            self,
            trials=self.trials.take(at),
            candidates=tuple(self.candidates[i] for i in at),
            kinds=tuple(self.kinds[i] for i in at),
            groups=tuple(self.groups[i] for i in at),
            target=self.target[at],
        )

    def reordered(self, orders: Sequence[Sequence[int]]) -> GoalTrials:
        """Return the trials with their candidates in another order."""
        target = [list(o).index(k) for o, k in zip(orders, self.target, strict=True)]

        def of(values: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
            return tuple(tuple(v[k] for k in o) for v, o in zip(values, orders, strict=True))

        return replace(
            self, candidates=of(self.candidates), kinds=of(self.kinds), groups=of(self.groups),
            target=np.array(target, dtype=np.int64),
        )  # fmt: skip


def same_question(text: str) -> str:
    """Return what makes two questions the same: their words, whatever case and blanks."""
    return " ".join(re.sub(r"[^\w\s]", " ", text.casefold()).split())


def _paragraphs(trials: pd.DataFrame) -> pd.Series:
    """Return the text of each trial, the same for its simplified versions."""
    if {"article", "paragraph_id"} <= set(trials):
        return as_text(trials["article"]) + "_" + as_text(trials["paragraph_id"])
    return as_text(trials["stimulus"])


def seeking_trials(
    dataset: GazeDataset, *, item: str | None = None, lost: LossLog | None = None
) -> ReadingTrials:
    """Return the readings that sought the answer to a known question.

    Parameters
    ----------
    dataset
        Its trials have ``question``, and ``condition`` where there are several goals.
    item
        What a split holds out: a column of the trials, ``"paragraph"``, or None for what the
        corpus states (the article of OneStop).
    lost
        Receives what was left out.

    Raises
    ------
    DataError
        The trials name no question, or none sought an answer.
    """
    lost = LossLog() if lost is None else lost
    table = dataset.trials
    if "question" not in table:
        raise DataError("the trials name no question", source=dataset.name, expected="question")
    asked = as_text(table["question"]).fillna("").str.strip() != ""
    seeks = as_text(table["condition"]).eq(SEEKING).fillna(False) if "condition" in table else asked
    sought, known = seeks.to_numpy(dtype=bool), asked.to_numpy(dtype=bool)
    lost.add("goals", "dropped", "no information seeking", int((~sought).sum()), "trials")
    lost.add(
        "goals", "dropped", "the question is not known", int((sought & ~known).sum()), "trials"
    )
    if not (sought & known).any():
        raise DataError("no trial sought the answer to a known question", source=dataset.name)
    left = table[sought & known]
    fixations = dataset.fixations[dataset.fixations["trial"].isin(left["trial"])]
    data = replace(
        dataset, trials=left.reset_index(drop=True), fixations=fixations.reset_index(drop=True)
    )
    trials = reading_trials(data, lost=lost)
    found = trials.table.copy()
    found["question"] = as_text(found["question"]).astype("str").str.split().str.join(" ")
    found[PARAGRAPH] = _paragraphs(found).astype("str")
    item = item or str(dataset.info.get("item", "stimulus"))
    if item == "stimulus" and "article" in found:  # versions of a text share their questions
        item = "article"
    if item not in found:
        raise UnknownNameError("column of the trials", item, list(map(str, found.columns)))
    found[ITEM] = as_text(found[item]).astype("str")
    return replace(trials, table=found)


def question_bank(dataset: GazeDataset, trials: ReadingTrials) -> pd.DataFrame:
    """Return all questions about the texts: those asked in trials, and others that are known.

    Statements to be judged true or false are left out: their form would tell them.

    Returns
    -------
    DataFrame
        paragraph, item, set, question, span (missing where not known); one row for each text, set
        of texts and question.
    """
    asked = dataset.trials
    table = pd.DataFrame(
        {
            PARAGRAPH: _paragraphs(asked).to_numpy(),
            "set": as_text(asked["set"]).to_numpy() if "set" in asked else "",
            "question": as_text(asked["question"]).fillna("").to_numpy(),
            "layout": as_text(asked["layout"]).to_numpy(),
            "kind": as_text(asked["answer_kind"]).to_numpy() if "answer_kind" in asked else "",
        }
    )
    listed = dataset.reports.get("questions")
    if listed is not None and {"text_id", "question"} <= set(listed):
        more = pd.DataFrame(
            {
                PARAGRAPH: as_text(listed["text_id"]).to_numpy(),
                "set": as_text(listed["set"]).to_numpy() if "set" in listed else "",
                "question": as_text(listed["question"]).fillna("").to_numpy(),
                "kind": as_text(listed["answer_kind"]).to_numpy()
                if "answer_kind" in listed
                else "",
            }
        )
        table = pd.concat([table, more], ignore_index=True)
    items = trials.table.drop_duplicates(PARAGRAPH).set_index(PARAGRAPH)[ITEM]
    table[ITEM] = table[PARAGRAPH].map(items)
    table["question"] = table["question"].astype("str").str.split().str.join(" ")
    spans = answer_spans(dataset)
    table[SPAN] = (table["layout"] if "layout" in table else pd.Series(index=table.index)).map(
        spans
    )
    keep = table[ITEM].notna() & (table["question"] != "") & (table["kind"] != "true_false")
    table = table[keep]
    table["key"] = table["question"].map(same_question)
    table = table.sort_values(SPAN, kind="stable", na_position="last")
    table = table.drop_duplicates([PARAGRAPH, "set", "key"])
    columns = [PARAGRAPH, ITEM, "set", "question", "key", SPAN]
    return table.sort_values([PARAGRAPH, "set", "key"], kind="stable")[columns].reset_index(
        drop=True
    )


def answer_spans(dataset: GazeDataset) -> pd.Series:
    """Return the words that hold the answer, as a text, by layout; empty where not known.

    They are known where a layout was read for one question only: word facts that differ between
    its trials are left out by the loader.
    """
    words = dataset.words
    if "is_in_aspan" not in words:
        return pd.Series(dtype="str")
    inside = words[words["is_in_aspan"].fillna(False).astype(bool)]
    found = inside.groupby("layout", sort=False)["index"].agg(["min", "max"]).astype("int64")
    return found["min"].astype("str") + "-" + found["max"].astype("str")


def item_parts(split: Split) -> dict[str, str]:
    """Return the part of each item of a split: ``"test"``, ``"val"`` or ``"train"``."""
    table = split.table
    unseen = table["regime"].isin(["unseen_text", "unseen_both"]).to_numpy(dtype=bool)
    parts = dict.fromkeys(map(str, table["item"]), "train")
    for part in ("val", "test"):
        rows = unseen & (table["part"] == part).to_numpy(dtype=bool)
        parts |= dict.fromkeys(map(str, table["item"][rows]), part)
    return parts


def with_candidates(
    trials: ReadingTrials,
    bank: pd.DataFrame,
    *,
    n: int = 3,
    part_of: Mapping[str, str] | None = None,
    seed: int = 0,
    lost: LossLog | None = None,
) -> GoalTrials:
    """Return the trials with candidates: the asked question, then about the same text, then others.

    Parameters
    ----------
    trials : ReadingTrials
        Of `seeking_trials`.
    bank : DataFrame
        Of `question_bank`.
    n
        Candidates of a trial. Further questions about the same text come first (drawn where there
        are more); the rest are questions about other texts, those of the same set before others.
    part_of
        Part of each item in a split. A candidate about another text is always from the same part,
        so that no test question occurs in training and none was learned there as right.
    seed
        Of the draws and the order; a trial's candidates do not depend on the other trials.
    lost
        Receives the counts of kinds, and trials without a second candidate (dropped).
    """
    lost = LossLog() if lost is None else lost
    if n < 2:
        raise DataError("a choice needs two candidates", expected="n of 2 or more", found=n)
    parts = dict(part_of or {})
    rows = bank.drop_duplicates([PARAGRAPH, "key"]).reset_index(drop=True)
    about, keys, asked = (rows[c].to_numpy(dtype=object) for c in (PARAGRAPH, "key", "question"))
    part = np.array([parts.get(str(i), "") for i in rows[ITEM]], dtype=object)
    spans_known = bool(len(rows)) and bool(rows[SPAN].notna().all())
    group = about + ":" + rows[SPAN].to_numpy(dtype=object) if spans_known else about
    where: dict[str, set[tuple[str, str]]] = {}
    for name, text, key in zip(bank["set"], bank[PARAGRAPH], bank["key"], strict=True):
        where.setdefault(str(name), set()).add((text, key))
    in_set = {
        name: np.array([pair in members for pair in zip(about, keys, strict=True)], dtype=bool)
        for name, members in where.items()
    }
    far = np.zeros(len(rows), dtype=bool)
    made: list[tuple[tuple[str, str, str], ...]] = []
    targets: list[int] = []
    for row in trials.table.itertuples(index=False):
        rng = np.random.default_rng([seed, zlib.crc32(str(row.trial).encode())])
        text, question, item = str(row.paragraph), str(row.question), str(row.item)
        key = same_question(question)
        own = np.flatnonzero(about == text)
        mine = own[keys[own] == key]
        same = rng.permutation(own[keys[own] != key])[: n - 1]
        used = [key, *keys[same]]
        pool = np.flatnonzero(
            (about != text) & (part == parts.get(item, "")) & ~np.isin(keys, used)
        )
        _, first = np.unique(keys[pool].astype(str), return_index=True)
        pool = rng.permutation(pool[np.sort(first)])
        close = in_set.get(str(getattr(row, "set", "")), far)[pool]
        other = pool[np.argsort(~close, kind="stable")][: n - 1 - len(same)]
        every = [(question, ASKED, str(group[mine[0]]) if len(mine) else text)]
        every += [(str(asked[k]), SAME, str(group[k])) for k in same]
        every += [(str(asked[k]), OTHER, str(group[k])) for k in other]
        shuffled = rng.permutation(len(every))
        made.append(tuple(every[k] for k in shuffled))
        targets.append(int(np.flatnonzero(shuffled == 0)[0]))
    names, kinds_of, groups = (tuple(tuple(c[k] for c in one) for one in made) for k in range(3))
    target = np.array(targets, dtype=np.int64)
    by = "span" if spans_known else "text"
    goal = GoalTrials(trials, names, kinds_of, groups, target, by)
    kinds = pd.Series([k for one in goal.kinds for k in one], dtype="str").value_counts()
    for kind in (SAME, OTHER):
        lost.add("candidates", "note", f"candidates: {kind}", int(kinds.get(kind, 0)), "candidates")
    alone = np.array([len(c) < 2 for c in goal.candidates], dtype=bool)
    lost.add("candidates", "dropped", "no second question to choose from", int(alone.sum()),
             "trials", trials.trial[alone])  # fmt: skip
    if alone.all():
        raise DataError("no trial has a second question to choose from")
    short = np.array([2 <= len(c) < n for c in goal.candidates], dtype=bool)
    lost.add("candidates", "note", f"fewer than {n} candidates", int(short.sum()), "trials")
    return goal.take(~alone) if alone.any() else goal


# -- readings as text -----------------------------------------------------------------------------


def scanpath_lists(trials: ReadingTrials, most: int | None = None) -> tuple[list[str], int]:
    """Return each scanpath as a list of words in the order in which they were looked at.

    An element is ``number word duration direction``: the word's number from 1, the word, whole
    milliseconds (``?`` where missing), and where the eye goes next: ``forward``, ``within``,
    ``backward``, or ``off`` from or to a place beside the text; ``end`` at the last fixation.

    Parameters
    ----------
    most
        Fixations that are written; the rest is left out. None: all.

    Returns
    -------
    lists : list of str
    cut : int
        Fixations that were left out.
    """
    words = [np.array(trials.texts[t].words, dtype=object) for t in trials.table["text"]]
    offsets = np.concatenate([[0], np.cumsum([len(w) for w in words])])[:-1].astype(np.int64)
    every = np.concatenate([*words, np.array([OFF_TEXT], dtype=object)])
    on = trials.word >= 0
    texts = every[np.where(on, np.repeat(offsets, trials.lengths) + trials.word, len(every) - 1)]
    step = trials.column("next_step")
    last = np.zeros(len(step), dtype=bool)
    last[trials.starts[1:] - 1] = True
    ways = np.select(
        [last, np.isnan(step), step > 0, step < 0], ["end", OFF_TEXT, "forward", "backward"],
        "within",
    )  # fmt: skip
    duration = trials.column("duration")
    shown = np.where(np.isnan(duration), 0, np.round(duration)).astype(np.int64)
    parts = [
        f"{w + 1 if w >= 0 else '-'} {t} {'?' if missing else d} {way}"
        for w, t, d, missing, way in zip(
            trials.word.tolist(), texts, shown.tolist(), np.isnan(duration).tolist(), ways,
            strict=True,
        )
    ]  # fmt: skip
    ends = trials.starts[1:] if most is None else np.minimum(
        trials.starts[1:], trials.starts[:-1] + most
    )  # fmt: skip
    lists = ["; ".join(parts[a:b]) for a, b in zip(trials.starts[:-1], ends, strict=True)]
    return lists, int((trials.starts[1:] - ends).sum())


def paragraph_text(trials: ReadingTrials, i: int) -> str:
    """Return the text of a trial in one line."""
    return " ".join(w for w in trials.texts[str(trials.table["text"].iloc[i])].words if w.strip())


def prompts(
    trials: ReadingTrials, scanpath: str = "list", most: int | None = None
) -> tuple[list[str], int]:
    """Return what a language model is given before the question.

    Parameters
    ----------
    scanpath : {"list", "none"}
        With the reader's scanpath (`scanpath_lists`), or the text-only control.
    most
        Fixations that are written.

    Returns
    -------
    prompts : list of str
    cut : int
        Fixations that were left out.
    """
    if scanpath not in SCANPATHS:
        raise UnknownNameError("scanpath in a prompt", scanpath, SCANPATHS)
    lists, cut = scanpath_lists(trials, most) if scanpath == "list" else ([""] * len(trials), 0)
    out = []
    for i, path in enumerate(lists):
        head = "A reader looks for the answer to a question about this paragraph.\nParagraph: "
        eyes = f"\nFixations (word number, word, milliseconds, next move): {path}" if path else ""
        out.append(f"{head}{paragraph_text(trials, i)}{eyes}{QUESTION}")
    return out, cut
