"""Features of fixations and words in reading, each with a name, a unit and a scope.

A feature belongs to a fixation, to a word as one reader read it (``gaze``), or to a word of a text
(``text``). Whatever a recording cannot give is missing (NaN), never 0: there is no pupil in a
corpus without pupils, and no next saccade at the last fixation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.reading.words import letter_count, rarity
from gazeattn.tables import MEASURES

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Feature:
    """One number per fixation or word.

    Attributes
    ----------
    name : str
    unit : str
        ``"ms"``, ``"px"``, ``"deg"``, ``"words"``, ``"share"``, ...
    scope : {"fixation", "gaze", "text"}
        Of a fixation; of a word in one trial; of a word of a text, whoever reads it.
    description : str
    """

    name: str
    unit: str
    scope: str
    description: str


FIXATION = (
    Feature("index", "count", "fixation", "place in the trial, from 0"),
    Feature("duration", "ms", "fixation", "duration"),
    Feature("gap", "ms", "fixation", "from the end to the onset of the next fixation"),
    Feature("x", "px", "fixation", "horizontal position"),
    Feature("y", "px", "fixation", "vertical position"),
    Feature("pupil", "tracker units", "fixation", "pupil size"),
    Feature("on_text", "0 or 1", "fixation", "lies on a word"),
    Feature("word", "words", "fixation", "number of the word in reading order, from 0"),
    Feature("word_share", "share", "fixation", "number of the word over the words of the text"),
    Feature("line", "lines", "fixation", "line of the word, from 0"),
    Feature("landing", "share", "fixation", "horizontal place inside the word's box"),
    Feature("next_step", "words", "fixation", "from this word to the next fixation's word"),
    Feature("previous_step", "words", "fixation", "from the previous fixation's word to this"),
    Feature("next_distance", "px", "fixation", "to the next fixation"),
    Feature("previous_distance", "px", "fixation", "from the previous fixation"),
    Feature("next_angle", "rad", "fixation", "direction to the next fixation, 0 is right"),
    Feature("previous_angle", "rad", "fixation", "direction from the previous fixation"),
    Feature("saccade_amplitude", "deg", "fixation", "amplitude of the next saccade"),
    Feature("saccade_duration", "ms", "fixation", "duration of the next saccade"),
    Feature("saccade_peak_velocity", "deg/s", "fixation", "peak velocity of the next saccade"),
    Feature("refixation", "0 or 1", "fixation", "on the same word as the fixation before"),
    Feature("first_pass", "0 or 1", "fixation", "no later word was fixated before"),
    Feature("entry", "0 or 1", "fixation", "before the reader came to the start of the text"),
)
_MEASURES = {
    "first_fixation_duration": ("ms", "first fixation of the first pass"),
    "single_fixation_duration": ("ms", "only fixation of the first pass"),
    "gaze_duration": ("ms", "all fixations of the first pass"),
    "go_past_time": ("ms", "from first entering the word to passing it"),
    "total_reading_time": ("ms", "all fixations"),
    "fixation_count": ("count", "fixations"),
    "skip": ("0 or 1", "not fixated in first pass"),
    "regression_in": ("0 or 1", "entered from a later word"),
    "regression_out": ("0 or 1", "left to an earlier word in first pass"),
}
_REPORT = {
    "second_run_dwell_time": ("IA_SECOND_RUN_DWELL_TIME", "ms", "dwell of the second visit"),
    "last_run_dwell_time": ("IA_LAST_RUN_DWELL_TIME", "ms", "dwell of the last visit"),
    "regression_in_count": ("IA_REGRESSION_IN_COUNT", "count", "entries from a later word"),
    "regression_out_count": ("IA_REGRESSION_OUT_COUNT", "count", "first-pass exits backwards"),
}
GAZE = (
    *(Feature(n, *_MEASURES[n][:1], "gaze", _MEASURES[n][1]) for n in MEASURES),
    *(Feature(n, unit, "gaze", what) for n, (_, unit, what) in _REPORT.items()),
    Feature("dwell_share", "share", "gaze", "share of the time on words"),
    Feature("fixation_share", "share", "gaze", "share of the fixations on words"),
)
TEXT = (
    Feature("length", "characters", "text", "letters and digits of the word"),
    Feature("rarity", "-log10", "text", "of the word's frequency (wordfreq)"),
    Feature("surprisal", "bits", "text", "under the language model that is named"),
    Feature("line_start", "0 or 1", "text", "first of its line"),
    Feature("line_end", "0 or 1", "text", "last of its line"),
    Feature("sentence_end", "0 or 1", "text", "ends with a full stop, ! or ?"),
    Feature("position", "share", "text", "number over the words of the text"),
)
BY_SCOPE = {"fixation": FIXATION, "gaze": GAZE, "text": TEXT}


def names_of(scope: str) -> tuple[str, ...]:
    """Return the names of all features of a scope."""
    if scope not in BY_SCOPE:
        raise UnknownNameError("scope of features", scope, BY_SCOPE)
    return tuple(f.name for f in BY_SCOPE[scope])


def chosen(scope: str, names: Sequence[str] | None, without: Iterable[str] = ()) -> list[str]:
    """Return names of features that exist, in their own order.

    Raises
    ------
    UnknownNameError
        No such feature.
    """
    known = names_of(scope)
    without = set(without)
    for name in (*(names or ()), *without):
        if name not in known:
            raise UnknownNameError(f"{scope} feature", name, known)
    kept = known if names is None else tuple(n for n in known if n in set(names))
    return [n for n in kept if n not in without]


def _column(table: pd.DataFrame, *names: str) -> Array:
    """Return the first of some columns that is there, else missing values."""
    for name in names:
        if name in table and table[name].notna().any():
            return table[name].to_numpy(dtype=np.float64, na_value=np.nan)
    return np.full(len(table), np.nan)


def _next(values: Array, last: NDArray[np.bool_]) -> Array:
    out = np.append(values[1:], np.nan) if len(values) else values.copy()
    out[last] = np.nan
    return out


def _previous(values: Array, first: NDArray[np.bool_]) -> Array:
    out = np.append(np.nan, values[:-1]) if len(values) else values.copy()
    out[first] = np.nan
    return out


def fixation_features(
    fixations: pd.DataFrame,
    starts: NDArray[np.int64],
    word: NDArray[np.int64],
    n_words: NDArray[np.int64],
    boxes: pd.DataFrame,
    page: NDArray[np.int64] | None = None,
    entry: NDArray[np.bool_] | None = None,
) -> Array:
    """Return the features of fixations that stand trial by trial, in the order of `FIXATION`.

    Parameters
    ----------
    fixations : DataFrame
        Columns duration and, where they are known, onset, x, y (or area_x, area_y: the middle of
        the area that was hit), pupil, saccade_amplitude, saccade_duration, saccade_peak_velocity.
    starts : ndarray, shape (n_trials + 1,)
        Fixations of trial i are ``starts[i]:starts[i + 1]``.
    word : ndarray, shape (n_fixations,)
        Number of the fixated word in its text, -1 off the text.
    n_words : ndarray, shape (n_trials,)
        Words of the text of each trial.
    boxes : DataFrame, one row per fixation
        left, right and line of the fixated word, missing off the text.
    page : ndarray, shape (n_fixations,), optional
        Screen of a text on several screens: nothing is measured from one screen to the next.
    entry : ndarray of bool, shape (n_fixations,), optional
        See `entering`; these are in no pass.

    Returns
    -------
    ndarray, shape (n_fixations, len(FIXATION)), float64
    """
    n = len(fixations)
    lengths = np.diff(starts)
    if n != int(lengths.sum()) or n != len(word):
        raise DataError("fixations and starts do not fit", expected=int(lengths.sum()), found=n)
    first, last = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    some = lengths > 0
    first[starts[:-1][some]] = True
    last[starts[1:][some] - 1] = True
    if page is not None and n:
        turned = np.flatnonzero(np.diff(page) != 0)
        last[turned], first[turned + 1] = True, True
    on_text = word >= 0
    number = np.where(on_text, word, np.nan)
    x, y = _column(fixations, "x", "area_x"), _column(fixations, "y", "area_y")
    duration, onset = _column(fixations, "duration"), _column(fixations, "onset")
    dx, dy = _next(x, last) - x, _next(y, last) - y
    step = _next(number, last) - number
    left, right = _column(boxes, "left"), _column(boxes, "right")
    with np.errstate(invalid="ignore", divide="ignore"):
        landing = (x - left) / np.where(right > left, right - left, np.nan)
    trial = np.repeat(np.arange(len(lengths)), lengths)
    entry = np.zeros(n, dtype=bool) if entry is None else entry
    furthest = _furthest_before(np.where(entry, -1, word), trial)
    previous = _previous(number, first)
    columns = {
        "index": np.arange(n) - starts[:-1][trial],
        "duration": duration,
        "gap": _next(onset, last) - (onset + duration),
        "x": x,
        "y": y,
        "pupil": _column(fixations, "pupil"),
        "on_text": on_text,
        "word": number,
        "word_share": number / np.maximum(n_words[trial], 1),
        "line": _column(boxes, "line"),
        "landing": landing,
        "next_step": step,
        "previous_step": _previous(step, first),
        "next_distance": np.hypot(dx, dy),
        "previous_distance": _previous(np.hypot(dx, dy), first),
        "next_angle": np.arctan2(dy, dx),
        "previous_angle": _previous(np.arctan2(dy, dx), first),
        "saccade_amplitude": _column(fixations, "saccade_amplitude"),
        "saccade_duration": _column(fixations, "saccade_duration"),
        "saccade_peak_velocity": _column(fixations, "saccade_peak_velocity"),
        "refixation": np.where(np.isnan(previous) | ~on_text, np.nan, previous == number),
        "first_pass": np.where(on_text & ~entry, word >= furthest, np.nan),
        "entry": entry,
    }
    return np.stack([np.asarray(columns[f.name], dtype=np.float64) for f in FIXATION], axis=1)


ENTRY = 5
"""Most fixations before a reader has come to the start of a text."""
START = 5
"""Words that are the start of a text whose lines are not known."""


def entering(
    word: NDArray[np.int64], starts: NDArray[np.int64], line: Array, first_line: Array
) -> NDArray[np.bool_]:
    """Return which fixations come before the reader has come to the start of the text.

    A screen is often looked at from its middle, where a mark stood. One such fixation on a word
    would end the first pass of all words before it. The first fixations of a trial, five at the
    most, are taken as on their way where the next one is the first on the text's first line (on
    its first five words, where lines are not known).

    Parameters
    ----------
    word : ndarray, shape (n_fixations,)
        Number of the fixated word, -1 off the text.
    starts : ndarray, shape (n_trials + 1,)
    line : ndarray, shape (n_fixations,)
        Line of the word, NaN off the text or where it is not known.
    first_line : ndarray, shape (n_trials,)
        First line of each text, NaN where lines are not known.
    """
    lengths = np.diff(starts)
    trial = np.repeat(np.arange(len(lengths)), lengths)
    top = first_line[trial]
    at_start = (word >= 0) & np.where(np.isnan(top), word < START, line == top)
    place = np.arange(len(word)) - starts[:-1][trial]
    first = np.full(len(lengths), np.iinfo(np.int64).max)
    np.minimum.at(first, trial[at_start], place[at_start])
    on_its_way = (first >= 1) & (first <= ENTRY)
    return np.asarray(on_its_way[trial] & (place < first[trial]))


def _furthest_before(word: NDArray[np.int64], trial: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the largest word number that was fixated earlier in the trial, -1 at its start."""
    if not len(word):
        return word
    lift = int(word.max()) + 2  # each trial starts above all numbers of the one before
    running = np.maximum.accumulate(word + trial * lift)
    before = np.append(-1, running[:-1]) - trial * lift
    return np.maximum(before, -1)


def gaze_features(first_pass: pd.DataFrame, report: pd.DataFrame) -> Array:
    """Return the features of words in trials, in the order of `GAZE`.

    Parameters
    ----------
    first_pass, report : DataFrame
        `gazeattn.reading.measures.word_measures` of both conventions, row by row the same words.

    Returns
    -------
    ndarray, shape (n_rows, len(GAZE)), float64
    """
    columns: dict[str, Any] = {n: first_pass[n].to_numpy(dtype=np.float64) for n in MEASURES}
    for name, (theirs, _, _) in _REPORT.items():
        columns[name] = report[theirs].to_numpy(dtype=np.float64)
    trial, _ = pd.factorize(first_pass["trial"])
    for name, source in (
        ("dwell_share", "total_reading_time"),
        ("fixation_share", "fixation_count"),
    ):
        sums = np.bincount(trial, np.nan_to_num(columns[source]), minlength=1)[trial]
        with np.errstate(invalid="ignore", divide="ignore"):
            columns[name] = columns[source] / np.where(sums > 0, sums, np.nan)
    return np.stack([columns[f.name] for f in GAZE], axis=1)


def text_features(
    words: pd.DataFrame,
    *,
    language: str = "en",
    surprisal: Callable[[list[str]], NDArray[Any]] | None = None,
) -> Array:
    """Return the features of the words of one text in reading order, in the order of `TEXT`.

    Parameters
    ----------
    words : DataFrame
        text and, where they are known, line.
    language
        ISO 639-1 code for word frequencies; where there is no list, rarity is missing.
    surprisal
        Gives bits per word of a text; None: missing.

    Returns
    -------
    ndarray, shape (n_words, len(TEXT)), float64
    """
    texts = [str(t) for t in words["text"]]
    try:
        rare = rarity(texts, language)[0]
    except LookupError:
        rare = np.full(len(texts), np.nan)
    line = _column(words, "line")
    change = np.flatnonzero(np.diff(line) != 0) if np.isfinite(line).all() else None
    starts, ends = np.full(len(texts), np.nan), np.full(len(texts), np.nan)
    if change is not None and len(texts):
        starts[:], ends[:] = 0, 0
        starts[[0, *(change + 1)]] = 1
        ends[[*change, len(texts) - 1]] = 1
    stripped = [t.rstrip("\"'”’»)]") for t in texts]
    columns = {
        "length": np.array([letter_count(t) for t in texts], dtype=np.float64),
        "rarity": rare,
        "surprisal": np.full(len(texts), np.nan) if surprisal is None else surprisal(texts),
        "line_start": starts,
        "line_end": ends,
        "sentence_end": np.array([t[-1:] in set(".!?…") and bool(t) for t in stripped], float),
        "position": np.arange(len(texts)) / max(len(texts), 1),
    }
    return np.stack([np.asarray(columns[f.name], dtype=np.float64) for f in TEXT], axis=1)
