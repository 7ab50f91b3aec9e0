"""Trials of reading as arrays: fixations, words and texts, one trial after the other.

Everything is ragged: there is no padding before a batch is made. Values are as measured, missing
ones NaN; scaling belongs to `gazeattn.datamodules.reading_batches`, fitted on training trials.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gazeattn.datamodules.reading_features import (
    FIXATION,
    GAZE,
    TEXT,
    Array,
    entering,
    fixation_features,
    gaze_features,
    names_of,
    text_features,
)
from gazeattn.datasets import GazeDataset
from gazeattn.datasets.splits import Split
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.reading.areas import Placed, place
from gazeattn.reading.measures import word_measures

PREFIXES = ("time", "fixations", "seconds", "count")
SHARES = PREFIXES[:2]
SACCADES = ("saccade_amplitude", "saccade_duration", "saccade_peak_velocity")
Surprisal = Callable[[list[str]], NDArray[Any]]


@dataclass(frozen=True)
class Text:
    """A text as all its readers see it.

    Attributes
    ----------
    name : str
        Its layout.
    words : tuple of str
    features : ndarray, shape (n_words, len(TEXT)), float64
    """

    name: str
    words: tuple[str, ...]
    features: Array


@dataclass(frozen=True)
class ReadingTrials:
    """Many readings, one after the other.

    Attributes
    ----------
    table : DataFrame, one row per trial
        trial, participant, stimulus, text (key of `texts`) and all facts and labels of the trial.
    fixations : ndarray, shape (n_fixations, len(FIXATION)), float64
        See `gazeattn.datamodules.reading_features.FIXATION`.
    word : ndarray, shape (n_fixations,), int64
        Number of the fixated word in the text of the trial; -1 off the text.
    starts : ndarray, shape (n + 1,), int64
        Fixations of trial i are ``starts[i]:starts[i + 1]``.
    gaze : ndarray, shape (n_rows, len(GAZE)), float64
        Measures of every word of every trial's text.
    word_starts : ndarray, shape (n + 1,), int64
        Words of trial i are ``word_starts[i]:word_starts[i + 1]`` of `gaze`.
    texts : dict of str to Text
    info : dict
        How it was made: data set, prefix, language; ``saccades`` is the unit of their sizes.
    """

    table: pd.DataFrame
    fixations: Array
    word: NDArray[np.int64]
    starts: NDArray[np.int64]
    gaze: Array
    word_starts: NDArray[np.int64]
    texts: dict[str, Text]
    info: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def trial(self) -> NDArray[np.object_]:
        """Ids of the trials, (n,)."""
        return self.table["trial"].to_numpy(dtype=object)

    @property
    def participant(self) -> NDArray[np.object_]:
        """Ids of the readers, (n,)."""
        return self.table["participant"].to_numpy(dtype=object)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Fixations of each trial, (n,)."""
        return np.diff(self.starts)

    @property
    def n_words(self) -> NDArray[np.int64]:
        """Words of the text of each trial, (n,)."""
        return np.diff(self.word_starts)

    @property
    def of(self) -> NDArray[np.int64]:
        """Number of the trial of each fixation, (n_fixations,)."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def column(self, name: str) -> Array:
        """Return one feature of all fixations, or of all words of all trials, by its name."""
        for scope, values in (("fixation", self.fixations), ("gaze", self.gaze)):
            if name in names_of(scope):
                return values[:, names_of(scope).index(name)]
        raise UnknownNameError("feature", name, [*names_of("fixation"), *names_of("gaze")])

    def text_column(self, name: str) -> Array:
        """Return one feature of the text for all words of all trials, as rows of `gaze`."""
        at = names_of("text").index(name) if name in names_of("text") else None
        if at is None:
            raise UnknownNameError("text feature", name, names_of("text"))
        parts = [self.texts[t].features[:, at] for t in self.table["text"]]
        return np.concatenate(parts) if parts else np.zeros(0)

    def take(self, which: NDArray[Any] | Sequence[int]) -> ReadingTrials:
        """Return the trials at some positions (or of a mask), in that order; twice is allowed."""
        which = np.asarray(which)
        at = np.flatnonzero(which) if which.dtype == bool else which.astype(np.int64)
        rows, starts = _rows(self.starts, at)
        word_rows, word_starts = _rows(self.word_starts, at)
        table = self.table.iloc[at].reset_index(drop=True)
        return replace(
            self,
            table=table,
            fixations=self.fixations[rows],
            word=self.word[rows],
            starts=starts,
            gaze=self.gaze[word_rows],
            word_starts=word_starts,
            texts={t: self.texts[t] for t in table["text"].unique()},
        )

    def named(self, trials: Sequence[str]) -> ReadingTrials:
        """Return trials by their ids, in that order.

        Raises
        ------
        DataError
            A trial is not here.
        """
        at = pd.Index(self.trial).get_indexer(pd.Index(list(trials), dtype=object))
        if (at < 0).any():
            missing = list(trials)[int(np.flatnonzero(at < 0)[0])]
            raise DataError(
                f"{int((at < 0).sum())} trials are not here",
                source=str(self.info.get("dataset", "trials")),
                expected=f"one such as {self.trial[0]!s}" if len(self.trial) else "a trial",
                found=repr(missing),
            )
        return self.take(at)

    def part(self, split: Split, part: str, regime: str | None = None) -> ReadingTrials:
        """Return the trials of one part of a split, and of one regime of it, in our own order."""
        known = set(split.trials(part, regime))
        return self.take(np.array([t in known for t in self.trial], dtype=bool))


def _rows(
    starts: NDArray[np.int64], at: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of some ragged parts, and where each begins among them."""
    lengths = np.diff(starts)[at]
    begin = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = np.repeat(starts[at] - begin[:-1], lengths) + np.arange(int(lengths.sum()))
    return rows, begin


def beginning(fixations: pd.DataFrame, share: float, by: str = "time") -> pd.DataFrame:
    """Return the fixations of the first part of every trial.

    Parameters
    ----------
    fixations : DataFrame
        Sorted by trial and order; with onset and duration for ``by="time"``.
    share
        Above 0; a share at most 1.
    by : {"time", "fixations", "seconds", "count"}
        Share of the time from the first onset to the end of the last fixation: fixations that end
        within it are kept. Or share of the number of fixations, rounded up. Both know the whole
        trial: how long the beginning is tells how long the trial will be. ``seconds`` from the
        first onset and ``count`` of fixations do not: a shorter trial is whole.

    Raises
    ------
    DataError
        The share is not above 0 and at most 1, the amount not above 0, or there are no times.
    """
    if by not in PREFIXES:
        raise UnknownNameError("kind of prefix", by, PREFIXES)
    if by in SHARES and not 0 < share <= 1:
        raise DataError("a prefix is a share of the trial", expected="0 < share <= 1", found=share)
    if not share > 0:
        raise DataError(f"a prefix by {by}", expected="a number above 0", found=share)
    if whole(share, by) or not len(fixations):
        return fixations
    groups = fixations.groupby("trial", sort=False)
    if by == "fixations":
        place_in = groups.cumcount()
        return fixations[place_in < np.ceil(share * groups["trial"].transform("size") - 1e-9)]
    if by == "count":
        return fixations[groups.cumcount() < share]
    if "duration" not in fixations or fixations["duration"].isna().all():
        other = "fixations" if by in SHARES else "count"
        raise DataError(f"a prefix by {by} needs durations", hint=f'by="{other}"')
    duration = fixations["duration"].fillna(0)
    end = duration.groupby(fixations["trial"], sort=False).cumsum()  # time on fixations alone
    if "onset" in fixations:  # of trials that have all of them; others do not matter to a trial
        known = fixations["onset"].notna().groupby(fixations["trial"], sort=False).transform("all")
        end = end.where(~known, _elapsed(fixations, duration))
    if by == "seconds":
        return fixations[end <= 1000 * share + 1e-6]
    last = end.groupby(fixations["trial"], sort=False).transform("max")
    return fixations[end <= share * last + 1e-9]


def whole(share: float, by: str) -> bool:
    """Return whether a prefix is all of every trial."""
    return share == (1 if by in SHARES else np.inf)


def _elapsed(fixations: pd.DataFrame, duration: pd.Series) -> pd.Series:
    """Return the time from the first onset of the trial to the end of each fixation.

    The clock of every screen of a joined reading begins anew, so that their times are added up.
    """
    paged = "page" in fixations and fixations["page"].notna().all()
    keys = [fixations["trial"], fixations["page"]] if paged else [fixations["trial"]]
    screens = fixations["onset"].groupby(keys, sort=False)
    end = fixations["onset"] + duration - screens.transform("min")
    if not paged:
        return end
    spans = end.groupby(keys, sort=False).max()
    before = spans.groupby(level=0, sort=False).cumsum() - spans
    return end + before.to_numpy()[screens.ngroup().to_numpy()]


def reading_trials(
    dataset: GazeDataset,
    *,
    share: float = 1.0,
    by: str = "time",
    language: str | None = None,
    surprisal: Surprisal | None = None,
    lost: LossLog | None = None,
) -> ReadingTrials:
    """Return the trials of a data set; those of a text without words are on no word throughout.

    Parameters
    ----------
    dataset
    share, by
        Only the beginning of each trial is seen, see `beginning`. *Every* feature is computed
        from it, also those of words.
    language
        For word frequencies; None: what the data set states.
    surprisal
        Bits per word of a text, see `gazeattn.datamodules.reading_features.text_features`.
    lost
        Receives the counts: trials without a fixation (dropped) and what the mapping to words
        lost.

    Raises
    ------
    DataError
        No trial is left.
    CapabilityError
        The data set has no words.
    """
    dataset.require("has_words", by="reading models")
    lost = LossLog() if lost is None else lost
    fixations = beginning(dataset.fixations, share, by)
    placed = place(fixations, dataset.words, dataset.trials)
    lost.extend(placed.log)
    kept = np.bincount(placed.trial[placed.trial >= 0], minlength=len(placed.trials)) > 0
    reason = "trials without a fixation" + ("" if whole(share, by) else " in their beginning")
    lost.add("reading", "dropped", reason, int((~kept).sum()), "trials",
             placed.trials.loc[~kept, "trial"])  # fmt: skip
    if not kept.any():
        raise DataError("no trial is left", source=dataset.name)
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    trial = np.where(placed.trial >= 0, number[placed.trial], -1)
    order = np.argsort(trial, kind="stable")
    order = order[trial[order] >= 0]
    starts = _starts(np.bincount(trial[order], minlength=int(kept.sum())))
    n_words = placed.n_words[kept]
    row = placed.word[order]
    first = np.repeat(placed.first_word[kept], np.diff(starts))
    word = np.where(row >= 0, row - first, -1)
    boxes = _boxes(placed.words, row)
    table = placed.fixations.iloc[order]
    page = None
    if "page" in table and table["page"].notna().all():
        page = pd.factorize(table["page"])[0].astype(np.int64)
    entry = _entry(word, starts, boxes, placed, kept)
    blank = table["duration"].isna() if "duration" in table else pd.Series(True, table.index)
    lost.add(
        "reading",
        "undefined",
        "fixations without a duration: no measure of time has them",
        int(blank.sum()),
        "fixations",
        table.loc[blank, "trial"].drop_duplicates(),
    )
    lost.add("reading", "note", "fixations before the start of the text: in no pass",
             int(entry.sum()))  # fmt: skip
    values = fixation_features(table, starts, word, n_words, boxes, page, entry)
    saccades = [names_of("fixation").index(n) for n in SACCADES]
    if not whole(share, by):  # the saccade after the last fixation is no longer in the beginning
        values[(starts[1:] - 1)[:, None], np.array(saccades)] = np.nan
    trials = placed.trials[kept].reset_index(drop=True)
    passes = placed.fixations.drop(index=table.index[entry])
    measured = (passes, dataset.words, trials)
    with warnings.catch_warnings():  # what they warn of was said by `place`
        warnings.simplefilter("ignore", UserWarning)
        gaze = gaze_features(word_measures(*measured), word_measures(*measured, "eyelink"))
    language = language or str(dataset.info.get("language") or "en")
    texts = {}
    rows_of = dict(list(placed.words.groupby("layout", sort=False)))
    for name in trials["layout"].unique():
        rows = rows_of.get(name, placed.words.iloc[:0])
        features = text_features(rows, language=language, surprisal=surprisal)
        texts[str(name)] = Text(str(name), tuple(map(str, rows["text"])), features)
    return ReadingTrials(
        trials.assign(text=trials["layout"].astype("str")),
        values,
        word.astype(np.int64),
        starts,
        gaze,
        _starts(n_words),
        texts,
        {
            "dataset": dataset.name,
            "share": share,
            "by": by,
            "language": language,
            "saccades": "px" if np.isnan(values[:, saccades[0]]).all() else "deg",
        },
    )


def _entry(
    word: NDArray[np.int64],
    starts: NDArray[np.int64],
    boxes: pd.DataFrame,
    placed: Placed,
    kept: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return which fixations come before the start of the text, see `entering`."""
    n, unknown = placed.n_words[kept], np.full(len(word), np.nan)
    top = np.full(len(n), np.nan)
    if "line" in placed.words and "line" in boxes:
        lines = placed.words["line"].to_numpy(dtype=np.float64, na_value=np.nan)
        some = n > 0
        top[some] = lines[placed.first_word[kept][some]]
        unknown = boxes["line"].to_numpy(dtype=np.float64)
    return entering(word, starts, unknown, top)


def _starts(counts: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _boxes(words: pd.DataFrame, row: NDArray[np.int64]) -> pd.DataFrame:
    """Return left, right and line of the word of each fixation, missing off the text."""
    found = {}
    for name in ("left", "right", "line"):
        if name in words:
            column = words[name].to_numpy(dtype=np.float64, na_value=np.nan)
            found[name] = np.where(row >= 0, column[row], np.nan)
    return pd.DataFrame(found, index=range(len(row)))


def missing_shares(trials: ReadingTrials) -> dict[str, float]:
    """Return the share of values that are missing, by feature."""
    texts = [t.features for t in trials.texts.values()]
    tables = (
        (FIXATION, trials.fixations),
        (GAZE, trials.gaze),
        (TEXT, np.concatenate(texts) if texts else np.zeros((0, len(TEXT)))),
    )
    out = {}
    for features, values in tables:
        shares = np.isnan(values).mean(axis=0) if len(values) else np.ones(len(features))
        out.update({f.name: float(v) for f, v in zip(features, shares, strict=True)})
    return out
