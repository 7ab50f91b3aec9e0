"""Word measures from fixations.

Two conventions are computed from the same fixations. ``"first_pass"`` gives the measures of the
reading literature (Rayner, 1998, Psychological Bulletin 124, 372-422; Inhoff & Radach, 1998, in
Underwood (ed.), Eye Guidance in Reading and Scene Perception): a duration of the first pass is
missing unless the word was fixated before any later word. ``"eyelink"`` gives the columns of an
EyeLink interest-area report, which count the first visit in any pass and write 0 for words that
were never fixated.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gazeattn.columns import as_number, as_text
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.reading._scan import (
    Scan,
    blocks,
    first_of,
    last_of,
    maximum_before,
    next_greater,
    scan,
    sums_between,
)
from gazeattn.reading.areas import BOX, Placed, place
from gazeattn.tables import MEASURES, LossLog

if TYPE_CHECKING:
    from typing import Protocol

    class Dataset(Protocol):
        """What the check against a report needs of a data set."""

        name: str
        fixations: pd.DataFrame
        words: pd.DataFrame
        trials: pd.DataFrame
        reports: dict[str, pd.DataFrame]


STEP = "measures"
CONVENTIONS = ("first_pass", "eyelink")
EYELINK_COLUMNS = (
    "IA_FIRST_FIXATION_DURATION",
    "IA_FIRST_RUN_DWELL_TIME",
    "IA_SECOND_RUN_DWELL_TIME",
    "IA_LAST_RUN_DWELL_TIME",
    "IA_REGRESSION_PATH_DURATION",
    "IA_DWELL_TIME",
    "IA_FIXATION_COUNT",
    "IA_SKIP",
    "IA_REGRESSION_IN",
    "IA_REGRESSION_IN_COUNT",
    "IA_REGRESSION_OUT",
    "IA_REGRESSION_OUT_COUNT",
)
"""Columns of the convention ``"eyelink"``, named as in the interest-area report."""

TRIAL_KEYS = ("participant", "trial", "stimulus", "layout")
WORD_KEYS = ("word", "index", "text")


def word_measures(
    fixations: pd.DataFrame,
    words: pd.DataFrame,
    trials: pd.DataFrame,
    convention: str = "first_pass",
) -> pd.DataFrame:
    """Return one row of measures per trial and word.

    Parameters
    ----------
    fixations, words, trials : DataFrame
        See `gazeattn.tables`. Fixations are put on words by `gazeattn.reading.areas`.
    convention : {"first_pass", "eyelink"}
        ``"first_pass"`` has the columns `gazeattn.tables.MEASURES`:

        - first_fixation_duration, single_fixation_duration, gaze_duration, go_past_time (ms):
          missing unless the word was fixated in first pass, that is before any later word;
          single_fixation_duration also if the first run has more than one fixation.
        - total_reading_time (ms), fixation_count: 0 for a word that was never fixated.
        - skip: 1 unless the word was fixated in first pass.
        - regression_in: 1 if the word was entered from a later word; regression_out: 1 if it was
          left to an earlier word before any later word was fixated; both missing for a word that
          was never fixated.

        ``"eyelink"`` has the columns `EYELINK_COLUMNS`.

    Returns
    -------
    DataFrame
        Columns participant, trial, stimulus, layout, word, index, text and the measures
        (float64), for all words of all trials, in the order of `trials`. All measures of a trial
        without any located fixation are missing: nothing was recorded, which is not the same
        as skipping.

    Raises
    ------
    UnknownNameError
        No such convention.
    """
    return word_measures_with_log(fixations, words, trials, convention)[0]


def word_measures_with_log(
    fixations: pd.DataFrame,
    words: pd.DataFrame,
    trials: pd.DataFrame,
    convention: str = "first_pass",
) -> tuple[pd.DataFrame, LossLog]:
    """Return the table of `word_measures` and what was lost on the way."""
    if convention not in CONVENTIONS:
        raise UnknownNameError("convention", convention, CONVENTIONS)
    placed = place(fixations, words, trials)
    first_pass = convention == "first_pass"
    names: tuple[str, ...] = MEASURES if first_pass else EYELINK_COLUMNS
    compute = _first_pass if first_pass else _eyelink
    with ThreadPoolExecutor(1) as pool:  # texts and numbers need nothing of each other
        keys = pool.submit(_keys, placed)
        scanned = scan(placed)
        # All columns in one array, written in place, block by block: many large arrays that live
        # shortly cost more time in memory that is touched for the first time than the work does.
        values = np.empty((len(names), scanned.n_cells))
        for cells, block in blocks(scanned):
            compute(block, dict(zip(names, values[:, cells], strict=True)))

    log = placed.log
    n_words = placed.n_words
    unseen = ~scanned.seen & (n_words > 0)
    log.add(
        STEP,
        "undefined",
        "without any located fixation: all measures are missing",
        int(unseen.sum()),
        "trials",
        placed.trials["trial"][unseen],
    )
    if unseen.any():
        values[:, np.repeat(unseen, n_words)] = np.nan
    _log_missing_durations(scanned, placed, log)
    columns = keys.result() | dict(zip(names, values, strict=True))
    return pd.DataFrame(columns, copy=False), log


def _keys(placed: Placed) -> dict[str, Any]:
    """Return the columns that say which trial and word a row is about."""
    trial = np.repeat(np.arange(len(placed.trials)), placed.n_words)
    start = np.cumsum(placed.n_words) - placed.n_words
    word = np.arange(len(trial)) + np.repeat(placed.first_word - start, placed.n_words)
    of_trial = {name: placed.trials[name].array.take(trial) for name in TRIAL_KEYS[:-1]}
    same = placed.trials["layout"].equals(placed.trials["stimulus"])
    layouts = of_trial["stimulus"] if same else placed.trials["layout"].array.take(trial)
    of_word = {name: placed.words[name].array.take(word) for name in WORD_KEYS}
    return of_trial | {"layout": layouts} | of_word


def _log_missing_durations(scanned: Scan, placed: Placed, log: LossLog) -> None:
    missing = np.isnan(scanned.duration)
    if not missing.any():
        return
    cells = np.unique(scanned.cell[missing])
    trials = np.searchsorted(scanned.trial_cell, cells, side="right") - 1
    reason = "a fixation without a duration: durations that include it are missing"
    names = placed.trials["trial"].iloc[np.unique(trials)[:3]]
    log.add(STEP, "undefined", reason, int(missing.sum()), "fixations", names)
    log.add(STEP, "undefined", "hold a fixation without a duration", len(cells), "words", names)


def _runs(s: Scan) -> tuple[np.ndarray, np.ndarray]:
    """Return the cell and the summed duration of each run."""
    start = np.flatnonzero(np.r_[True, s.run[1:] != s.run[:-1]][: len(s.run)])
    return s.cell[start], _sums(s.run, s.duration)


def _first_pass(s: Scan, columns: dict[str, np.ndarray]) -> None:
    """Write the measures of the reading literature, one value per cell."""
    # The first fixation of a word that was fixated before any later word is a new maximum.
    furthest = np.maximum.accumulate(s.cell) if len(s.cell) else s.cell
    new = np.r_[True, furthest[1:] > furthest[:-1]][: len(s.cell)]
    at = np.flatnonzero(new)
    passed, duration, run = s.cell[at], s.duration[at], s.run[at]

    run_sum = _sums(s.run, s.duration)
    alone = np.bincount(s.run, minlength=len(run_sum))[run] == 1
    _spread(columns["first_fixation_duration"], passed, duration)
    _spread(columns["single_fixation_duration"], passed, np.where(alone, duration, np.nan))
    _spread(columns["gaze_duration"], passed, run_sum[run])
    # Each go-past stretch ends where the next maximum, or the next trial, begins.
    _spread(columns["go_past_time"], passed, _sums(np.cumsum(new) - 1, s.duration))
    _spread(columns["skip"], passed, 0.0, otherwise=1.0)
    columns["total_reading_time"][:] = _sums(s.cell, s.duration, s.n_cells)
    count = columns["fixation_count"]
    count[:] = np.bincount(s.cell, minlength=s.n_cells)
    unfixated = count == 0
    entered, left = _regressions(s, furthest)
    for name, steps in (("regression_in", entered), ("regression_out", left)):
        columns[name][:] = steps > 0
        np.copyto(columns[name], np.nan, where=unfixated)


def _eyelink(s: Scan, columns: dict[str, np.ndarray]) -> None:
    """Write the columns of the interest-area report, one value per cell."""
    first = first_of(s.cell, s.n_cells)
    fixated = first >= 0
    cells = np.flatnonzero(fixated)
    at = first[cells]
    passed = fixated.copy()
    passed[cells] = maximum_before(s.cell)[at] < cells

    run_cell, run_sum = _runs(s)
    first_run = first_of(run_cell, s.n_cells)
    later = np.flatnonzero(first_run[run_cell] != np.arange(len(run_cell)))
    second = first_of(run_cell[later], s.n_cells)
    twice = np.flatnonzero(second >= 0)
    path = sums_between(s.duration, at, next_greater(s.cell, at))
    entered, left = _regressions(s, np.maximum.accumulate(s.cell) if len(s.cell) else s.cell)
    last_run = last_of(run_cell, s.n_cells)[cells]
    _spread(columns["IA_FIRST_FIXATION_DURATION"], cells, s.duration[at], 0.0)
    _spread(columns["IA_FIRST_RUN_DWELL_TIME"], cells, run_sum[first_run[cells]], 0.0)
    _spread(columns["IA_SECOND_RUN_DWELL_TIME"], twice, run_sum[later[second[twice]]])
    _spread(columns["IA_LAST_RUN_DWELL_TIME"], cells, run_sum[last_run], 0.0)
    _spread(columns["IA_REGRESSION_PATH_DURATION"], cells, path, 0.0)
    columns["IA_DWELL_TIME"][:] = _sums(s.cell, s.duration, s.n_cells)
    columns["IA_FIXATION_COUNT"][:] = np.bincount(s.cell, minlength=s.n_cells)
    columns["IA_SKIP"][:] = ~passed
    for side, steps in (("IN", entered), ("OUT", left)):
        columns[f"IA_REGRESSION_{side}"][:] = np.where(fixated, steps > 0, np.nan)
        columns[f"IA_REGRESSION_{side}_COUNT"][:] = steps


def _sums(groups: np.ndarray, values: np.ndarray, n: int = 0) -> np.ndarray:
    """Return the sum of the values of each group number, for at least `n` groups."""
    # bincount of nothing gives whole numbers, which cannot hold a missing value
    return np.bincount(groups, values, minlength=n).astype(np.float64, copy=False)


def _regressions(s: Scan, furthest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count entries from a later word and first-pass exits to an earlier word, per cell.

    Fixations off every word are passed over. A step to a smaller cell never crosses trials.
    `furthest` is the running maximum of the cells.
    """
    back = np.flatnonzero(s.cell[1:] < s.cell[:-1])
    into = np.bincount(s.cell[back + 1], minlength=s.n_cells)
    out = back[s.cell[back] == furthest[back]]
    return into, np.bincount(s.cell[out], minlength=s.n_cells)


def _spread(
    column: np.ndarray, at: np.ndarray, values: np.ndarray | float, otherwise: float = np.nan
) -> None:
    """Fill a column with `values` in the rows `at` and `otherwise` elsewhere."""
    column.fill(otherwise)
    column[at] = values


def check_against_report(
    dataset: Dataset, *, report: str = "eyelink", from_boxes: bool = True
) -> pd.DataFrame:
    """Compare the convention ``"eyelink"`` with a published interest-area report.

    Parameters
    ----------
    dataset : GazeDataset
        ``dataset.reports[report]`` has the columns trial, word and IA_*; ``"."`` is missing.
    report : str
    from_boxes : bool
        Put the fixations on words by x, y and boxes even if the data set states the word, so
        that the check covers the mapping too.

    Returns
    -------
    DataFrame
        One row per column of the report: column, compared (words on both sides), agree (equal
        numbers, or missing on both sides), share, and disagree.

    Raises
    ------
    DataError
        The data set has no such report, or the report no row of the data set's words.
    """
    both, columns = _beside_report(dataset, report, from_boxes)
    rows = []
    for name in columns:
        agree = int(_equal(both[name], both[name + "_reported"]).sum())
        rows.append((name, len(both), agree, agree / len(both), len(both) - agree))
    return pd.DataFrame(rows, columns=["column", "compared", "agree", "share", "disagree"])


def disagreements(
    dataset: Dataset, *, report: str = "eyelink", from_boxes: bool = True
) -> pd.DataFrame:
    """List the words on which the report and our measures differ.

    Returns
    -------
    DataFrame
        participant, trial, word, index, text, column, computed, reported; one row per difference.
    """
    both, columns = _beside_report(dataset, report, from_boxes)
    parts = []
    for name in columns:
        part = both.loc[~_equal(both[name], both[name + "_reported"])]
        part = part[["participant", "trial", "word", "index", "text", name, name + "_reported"]]
        part = part.set_axis([*part.columns[:5], "computed", "reported"], axis=1)
        part.insert(5, "column", name)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _beside_report(
    dataset: Dataset, report: str, from_boxes: bool
) -> tuple[pd.DataFrame, list[str]]:
    """Join our measures with the report, number by number, on trial and word."""
    if report not in dataset.reports:
        raise DataError(
            f"data set {dataset.name!r} has no report {report!r}",
            found=", ".join(dataset.reports) or "no report",
        )
    fixations = dataset.fixations
    if from_boxes and {"x", "y"} <= set(fixations) and set(BOX) <= set(dataset.words):
        fixations = fixations.drop(columns=["word", "word_index"], errors="ignore")
    ours = word_measures(fixations, dataset.words, dataset.trials, convention="eyelink")
    ours = ours[ours["IA_FIXATION_COUNT"].notna()]  # nothing recorded: nothing to compare
    theirs = dataset.reports[report]
    columns = [c for c in EYELINK_COLUMNS if c in theirs]
    source = f"report {report!r} of {dataset.name!r}"
    numbers = {f"{c}_reported": as_number(theirs[c], c, source) for c in columns}
    keys = {c: as_text(theirs[c]) for c in ("trial", "word")}
    theirs = pd.DataFrame({**keys, **numbers})
    twice = theirs.duplicated(["trial", "word"])
    if twice.any():
        row = int(np.flatnonzero(twice)[0])
        raise DataError(
            "a word of a trial stands twice",
            source=source,
            row=row,
            expected="one row per trial and word",
            found=f"trial {theirs['trial'].iloc[row]!r}, word {theirs['word'].iloc[row]!r}",
        )
    both = ours.merge(theirs, on=["trial", "word"])
    if not len(both) or not columns:
        raise DataError(
            f"the report {report!r} shares no word or column with data set {dataset.name!r}",
            expected="columns trial, word and IA_*, with the ids of the data set",
            found=", ".join(map(str, dataset.reports[report].columns)),
        )
    return both, columns


def _equal(a: pd.Series, b: pd.Series) -> pd.Series:
    return (a == b) | (a.isna() & b.isna())
