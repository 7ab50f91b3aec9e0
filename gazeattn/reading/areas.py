"""Which word does a fixation lie on?

A word's box holds the points with ``left <= x < right`` and ``top <= y < bottom``, so a point on a
shared edge belongs to exactly one word. Boxes are looked up by the layout of the trial, never by
the text alone: one text may have been drawn in several ways. Reading order is the `index` of the
word table; it is never read off the screen, so right-to-left text needs nothing special.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.reading._boxes import index_boxes
from gazeattn.tables import (
    LossLog,
    check_fixations,
    check_trials,
    check_words,
    factorize_runs,
)

STEP = "areas"
LOW_SHARE = 0.2  # trials with a smaller share of fixations on words are doubtful
LOW_SHARE_FIXATIONS = 3  # shares of fewer fixations say nothing
BOX = ("left", "top", "right", "bottom")


@dataclass(frozen=True)
class Placed:
    """Fixations as numbers, in the order of the fixation table.

    Attributes
    ----------
    fixations, words, trials : DataFrame
        The checked tables.
    trial : ndarray, shape (n_fixations,), int64
        Row of the trial table; -1 where the trial is not in it.
    word : ndarray, shape (n_fixations,), int64
        Row of the word table; -1 off every word.
    known : ndarray, shape (n_fixations,), bool
        False where the fixation has no position at all.
    first_word, n_words : ndarray, shape (n_trials,), int64
        First row in the word table and number of words of each trial's layout.
    log : LossLog
    """

    fixations: pd.DataFrame
    words: pd.DataFrame
    trials: pd.DataFrame
    trial: np.ndarray
    word: np.ndarray
    known: np.ndarray
    first_word: np.ndarray
    n_words: np.ndarray
    log: LossLog


def map_to_words(
    fixations: pd.DataFrame, words: pd.DataFrame, trials: pd.DataFrame
) -> tuple[pd.DataFrame, LossLog]:
    """Put every fixation on a word.

    A `word` column that has any value is used as it is (a missing value there means: off every
    word). Otherwise the boxes of the trial's layout decide. Where boxes overlap, the word whose
    box centre is nearest gets the fixation; of equally near ones, the earlier word.

    Parameters
    ----------
    fixations, words, trials : DataFrame
        See `gazeattn.tables`.

    Returns
    -------
    DataFrame
        The fixations, as many rows in the same order, with `word` (id, missing off text) and
        `word_index` (Int64, from 0 in the reading order of the layout).
    LossLog
        Fixations off every word, without a position, on several boxes, with an unknown word id,
        of trials without words; and trials with a doubtfully low share of fixations on words.

    Raises
    ------
    DataError
        The fixations have no `word` and the words no boxes, or a trial has fixations of both eyes
        at the same time.

    Warns
    -----
    UserWarning
        In some trial fewer than 20 % of the fixations lie on a word.
    """
    placed = place(fixations, words, trials)
    table = placed.fixations.copy()
    table["word"] = placed.words["word"].array.take(placed.word, allow_fill=True)
    index = placed.words["index"].astype("Int64").array
    table["word_index"] = index.take(placed.word, allow_fill=True)
    return table, placed.log


def place(fixations: pd.DataFrame, words: pd.DataFrame, trials: pd.DataFrame) -> Placed:
    """Do the work of `map_to_words` on row numbers instead of ids."""
    log = LossLog()
    words, trials, fixations = _checked(words, trials, fixations, log)
    one_eye_at_a_time(fixations)
    layout_of_word, layouts = factorize_runs(words["layout"])
    n_words_of = np.bincount(layout_of_word, minlength=len(layouts))
    first_of = np.cumsum(n_words_of) - n_words_of  # words are sorted by layout
    layout_of_trial = layouts.get_indexer(pd.Index(trials["layout"]))
    has_words = layout_of_trial >= 0
    n_words = _take(n_words_of, layout_of_trial, 0)
    first_word = _take(first_of, layout_of_trial, 0)

    codes, ids = factorize_runs(fixations["trial"])
    trial = _take(pd.Index(trials["trial"]).get_indexer(ids), codes, -1)
    layout = _take(layout_of_trial, trial, -1)
    stray = trial < 0
    log.add(
        STEP,
        "dropped",
        "their trial is not in the trial table",
        int(stray.sum()),
        "fixations",
        fixations["trial"][stray].unique() if stray.any() else (),
    )
    log.add(
        STEP,
        "undefined",
        "no words are known for the trial's layout",
        int((~has_words).sum()),
        "trials",
        trials["trial"][~has_words],
    )

    if "word" in fixations and fixations["word"].notna().any():
        word, known = _by_id(fixations, words, layout, layout_of_word, log)
    elif {"x", "y"} <= set(fixations):
        word, known = _by_box(fixations, words, layout, layout_of_word, log)
    else:
        known = np.zeros(len(fixations), dtype=bool)
        word = np.full(len(fixations), -1)
    if not known.all():
        nowhere = ~known & (layout >= 0)
        log.add(
            STEP,
            "undefined",
            "without a position: on no word",
            int(nowhere.sum()),
            "fixations",
            fixations["trial"][nowhere].unique(),
        )
    off = known & (word < 0) & (layout >= 0)
    log.add(STEP, "note", "off every word", int(off.sum()), "fixations")
    placed = Placed(fixations, words, trials, trial, word, known, first_word, n_words, log)
    _doubt_low_share(placed)
    return placed


def one_eye_at_a_time(fixations: pd.DataFrame, hint: str | None = None) -> None:
    """Raise where a trial holds fixations of both eyes at the same time.

    Each eye's fixations would count, and every reading time would double. A trial in which the
    recorded eye changes is fine.

    Raises
    ------
    DataError
        Fixations of the left and the right eye overlap in time, or have no times to tell.
    """
    if "eye" not in fixations or fixations["eye"].nunique() < 2:
        return
    codes, ids = factorize_runs(fixations["trial"])
    sided = fixations["eye"].isin(["left", "right"]).to_numpy()
    eye = (fixations["eye"] == "right").to_numpy()
    both = np.zeros(len(ids), dtype=bool)
    for side in (eye, ~eye):
        has = np.zeros(len(ids), dtype=bool)
        has[codes[sided & side]] = True
        both = has if not both.any() else both & has
    if not both.any():
        return
    rows = np.flatnonzero(sided & both[codes])
    onset, duration = (
        fixations[c].to_numpy(dtype=np.float64, na_value=np.nan)[rows]
        if c in fixations
        else np.full(len(rows), np.nan)
        for c in ("onset", "duration")
    )
    order = np.lexsort((onset, codes[rows]))
    rows, begin, end = rows[order], onset[order], (onset + duration)[order]
    same = (codes[rows[1:]] == codes[rows[:-1]]) & (eye[rows[1:]] != eye[rows[:-1]])
    at_once = same & ~(begin[1:] >= end[:-1])  # unknown times may overlap
    if at_once.any():
        row = rows[1:][at_once][0]
        raise DataError(
            f"fixations of both eyes at the same time in {len(np.unique(codes[rows[1:][at_once]]))}"
            " trials: every reading time would count twice",
            source="fixations",
            found=f"trial {fixations['trial'].iloc[row]!r}",
            hint=hint or "Keep one eye: fixations[fixations['eye'] == 'right']",
        )


def _take(values: np.ndarray, at: np.ndarray, missing: int) -> np.ndarray:
    """Return ``values[at]``, and `missing` where `at` is negative."""
    return np.append(values, missing)[at] if len(at) else np.zeros(0, dtype=np.int64)


def _by_id(
    fixations: pd.DataFrame,
    words: pd.DataFrame,
    layout: np.ndarray,
    layout_of_word: np.ndarray,
    log: LossLog,
) -> tuple[np.ndarray, np.ndarray]:
    """Look up word ids within the layout of each fixation's trial."""
    codes, ids = pd.factorize(fixations["word"])  # -1 where missing
    id_of_word, all_ids = pd.factorize(words["word"])
    code = _take(pd.Index(all_ids).get_indexer(pd.Index(ids)), codes, -1)
    base = max(len(all_ids), 1)
    keys = pd.Index(layout_of_word * base + id_of_word)
    ok = (code >= 0) & (layout >= 0)
    word = np.full(len(fixations), -1, dtype=np.int64)
    word[ok] = keys.get_indexer(layout[ok] * base + code[ok])
    unknown = (codes >= 0) & (word < 0) & (layout >= 0)
    log.add(
        STEP,
        "undefined",
        "their word id is not in the trial's layout",
        int(unknown.sum()),
        "fixations",
        fixations["word"][unknown].unique(),
    )
    return word, np.ones(len(fixations), dtype=bool)


def _by_box(
    fixations: pd.DataFrame,
    words: pd.DataFrame,
    layout: np.ndarray,
    layout_of_word: np.ndarray,
    log: LossLog,
) -> tuple[np.ndarray, np.ndarray]:
    """Look up x and y in the boxes of the layout of each fixation's trial."""
    lacking = [c for c in BOX if c not in words]
    if lacking:
        raise DataError(
            "fixations cannot be put on words",
            source="words",
            expected="boxes (columns left, top, right, bottom), or word ids in the fixations",
            found=f"no column {', '.join(lacking)}",
        )
    boxes = words[list(BOX)].to_numpy(dtype=np.float64)
    x = fixations["x"].to_numpy(dtype=np.float64, na_value=np.nan)
    y = fixations["y"].to_numpy(dtype=np.float64, na_value=np.nan)
    index = index_boxes(layout_of_word, boxes)
    word, several = index.find(layout, x, y)
    log.add(
        STEP,
        "note",
        "in several overlapping boxes: given to the word with the nearest box centre",
        several,
        "fixations",
    )
    bad = ~index.usable
    log.add(
        STEP,
        "undefined",
        "without a box of positive size: no fixation can lie on them",
        int(bad.sum()),
        "words",
        words["word"][bad],
    )
    known = ~(np.isnan(x) | np.isnan(y))
    if known.any() and index.usable.any():
        span = np.nanmax(boxes[:, 2:]) - np.nanmin(boxes[:, :2])
        if span > 200 and not (_beyond(x, known, 45) or _beyond(y, known, 45)):
            text = "x and y lie within -45 .. 45 but the text is larger: degrees, not pixels?"
            log.add(STEP, "note", text, int(known.sum()), "fixations")
            warnings.warn(text, UserWarning, stacklevel=4)
    return word, known


def _beyond(values: np.ndarray, known: np.ndarray, limit: float) -> bool:
    """Tell whether a known value lies beyond the limit; in pixels one of the first does."""
    parts = (slice(1000), slice(1000, None))
    return any(bool(((np.abs(values[p]) > limit) & known[p]).any()) for p in parts)


def _doubt_low_share(placed: Placed) -> None:
    """Note and warn of trials with few fixations on words: wrong layout or wrong units."""
    n_trials = len(placed.trials)
    trial = placed.trial + 1  # 0: not in the trial table
    total, on = (
        np.bincount(trial, use, minlength=n_trials + 1)[1:]
        for use in (placed.known, placed.known & (placed.word >= 0))
    )
    low = (total >= LOW_SHARE_FIXATIONS) & (on < LOW_SHARE * total) & (placed.n_words > 0)
    if not low.any():
        return
    reason = f"fewer than {LOW_SHARE:.0%} of the fixations lie on a word: wrong layout or units?"
    examples = placed.trials["trial"][low]
    placed.log.add(STEP, "note", reason, int(low.sum()), "trials", examples)
    warnings.warn(
        f"{int(low.sum())} trials (first: {', '.join(examples[:3])}): {reason}",
        UserWarning,
        stacklevel=4,
    )


def _checked(
    words: pd.DataFrame, trials: pd.DataFrame, fixations: pd.DataFrame, log: LossLog
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Check tables that were not checked before; checked ones pass as they are."""
    if not (
        _conforms(words, texts=("layout", "word", "text"), numbers=BOX, ordered=True)
        and _numbered(words)
    ):
        words, more = check_words(words)
        log.extend(more)
    if not (
        _conforms(trials, texts=("participant", "trial", "stimulus", "layout"))
        and trials["trial"].is_unique
    ):
        trials, more = check_trials(trials)
        log.extend(more)
    if not _conforms(
        fixations, texts=("participant", "trial"), numbers=("x", "y", "duration"), ordered=True
    ):
        fixations, more = check_fixations(fixations)
        log.extend(more)
    return words, trials, fixations


def _conforms(
    frame: pd.DataFrame,
    *,
    texts: tuple[str, ...],
    numbers: tuple[str, ...] = (),
    ordered: bool = False,
) -> bool:
    """Tell by the column types alone whether a table went through its check."""
    texts = (*texts, "word") if "word" in frame else texts
    return (
        all(t in frame and isinstance(frame[t].dtype, pd.StringDtype) for t in texts)
        and all(frame[c].dtype == np.float64 for c in numbers if c in frame)
        and (not ordered or ("index" in frame and frame["index"].dtype == np.int64))
    )


def _numbered(words: pd.DataFrame) -> bool:
    """Tell whether the words stand layout by layout, numbered from 0 within each."""
    if not len(words):
        return True
    codes, layouts = factorize_runs(words["layout"])
    start = np.r_[True, codes[1:] != codes[:-1]]
    index = words["index"].to_numpy()
    steps = np.diff(index)[~start[1:]]
    return bool(start.sum() == len(layouts) and (index[start] == 0).all() and (steps == 1).all())
