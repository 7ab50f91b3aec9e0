"""Human attention profiles: reading measures as weights over the words of a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.profiles import AttentionProfile, Units, same_units
from gazeattn.tables import MEASURES

Missing = Literal["keep", "zero"]

_NOT_DURATIONS = ("skip", "regression_in", "regression_out")

MEASURE_NOTES = {
    "first_fixation_duration": "duration of the first fixation on the word in first pass (ms); "
    "missing where the word was skipped",
    "single_fixation_duration": "duration of the fixation on words with exactly one first-pass "
    "fixation (ms); missing elsewhere",
    "gaze_duration": "summed first-pass fixations before the eyes leave the word (ms); missing "
    "where the word was skipped",
    "go_past_time": "time from the first entry until the eyes go past the word in reading "
    "direction, with the regressions in between (ms); missing where the word was skipped",
    "total_reading_time": "sum of all fixations on the word (ms); 0 where it was never fixated",
    "fixation_count": "number of fixations on the word; 0 where it was never fixated",
    "skip": "1 where the word was passed over in first pass. This is inverse attention: the sign "
    "is not turned round, so a method that agrees with readers has a negative value here",
    "regression_in": "1 where a regression landed on the word",
    "regression_out": "1 where a regression left the word in first pass",
}
"""What each measure says about attention, in one sentence."""


def check_measures(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names as a tuple, or raise `UnknownNameError` at the first unknown one."""
    names = tuple(names)
    for name in names:
        if name not in MEASURES:
            raise UnknownNameError("measure", name, MEASURES)
    return names


def trial_units(measures: pd.DataFrame) -> dict[str, Units]:
    """Return the words of every trial in reading order.

    Parameters
    ----------
    measures
        One row per trial and word with the columns trial, stimulus, word and text; rows are
        ordered by `index` where that column is there, else as they stand.

    Returns
    -------
    dict of trial id to Units
    """
    lacking = [c for c in ("trial", "stimulus", "word", "text") if c not in measures]
    if lacking:
        raise DataError(
            f"column {', '.join(map(repr, lacking))} is missing from the measures",
            expected="trial, stimulus, word, text and one column per measure",
            found=", ".join(map(str, measures.columns)),
        )
    shared: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Units] = {}
    result: dict[str, Units] = {}
    for trial, rows in _ordered(measures).groupby("trial", sort=False):
        texts, ids = tuple(rows["text"].tolist()), tuple(rows["word"].tolist())
        key = (str(rows["stimulus"].iloc[0]), ids, texts)
        if key not in shared:
            shared[key] = Units(ids, texts, key[0])
        result[str(trial)] = shared[key]
    return result


def _ordered(measures: pd.DataFrame) -> pd.DataFrame:
    if "index" not in measures:
        return measures
    return measures.sort_values(["trial", "index"], kind="stable")


def human_profiles(
    measures: pd.DataFrame, measure: str, *, missing: Missing = "keep"
) -> list[AttentionProfile]:
    """Return one profile per reader and trial, with shares that sum to 1 over scored words.

    Parameters
    ----------
    measures
        Word measures, one row per participant, trial and word (`GazeDataset.measures`).
    measure
        Column to use; one of `gazeattn.tables.MEASURES`.
    missing
        ``"keep"``: a word without a value stays missing. ``"zero"``: it counts as 0 ms, which
        is offered for durations and counts only, since "not regressed to" and "never seen" are
        different things.

    Returns
    -------
    list of AttentionProfile
        In the order of trial ids. ``how`` holds participant, trial, condition and the
        conventions; ``lost`` the number of words without a value and the sum that the shares
        were divided by. A trial whose values are all missing or sum to 0 has no shares: all
        weights are NaN and ``lost["reason"]`` says why.

    Raises
    ------
    UnknownNameError
        The measure is not known.
    DataError
        A needed column is missing, or ``missing="zero"`` is asked for a yes/no measure.
    """
    check_measures([measure])
    if missing not in ("keep", "zero"):
        raise UnknownNameError("rule for missing values", str(missing), ("keep", "zero"))
    if missing == "zero" and measure in _NOT_DURATIONS:
        raise DataError(
            f"missing values of {measure!r} cannot count as zero",
            expected="a duration or a count",
            hint="Use missing='keep'",
        )
    if measure not in measures:
        raise DataError(f"the measures have no column {measure!r}", found=list(measures.columns))
    units = trial_units(measures)
    profiles = []
    for trial, rows in _ordered(measures).groupby("trial", sort=True):
        raw = rows[measure].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
        n_missing = int(np.isnan(raw).sum())
        values = np.nan_to_num(raw, nan=0.0) if missing == "zero" else raw
        weights, total, reason = _shares(values)
        how: dict[str, object] = {
            "measure": measure,
            "definition": MEASURE_NOTES[measure],
            "normalised": "shares of the trial: divided by the sum over words with a value",
            "missing": missing,
            "level": "reader",
            "participant": str(rows["participant"].iloc[0]),
            "trial": str(trial),
        }
        if "condition" in rows and pd.notna(rows["condition"].iloc[0]):
            how["condition"] = str(rows["condition"].iloc[0])
        lost: dict[str, object] = {"words_without_value": n_missing, "sum": total}
        if reason:
            lost["reason"] = reason
        profiles.append(AttentionProfile(units[str(trial)], weights, "human", measure, how, lost))
    return profiles


def _shares(values: np.ndarray) -> tuple[np.ndarray, float, str]:
    if len(values) == 0 or np.isnan(values).all():
        return np.full(len(values), np.nan), float("nan"), "no word has a value"
    total = float(np.nansum(values))
    if not total > 0:
        return np.full(len(values), np.nan), total, "the values sum to 0: shares are undefined"
    return values / total, total, ""


def group_profiles(
    profiles: Iterable[AttentionProfile],
) -> dict[tuple[str, str, str], list[AttentionProfile]]:
    """Group profiles that can be averaged: same stimulus, same word texts, same condition.

    Layouts of one stimulus may differ (line breaks, boxes); only the words count. Different
    word lists of one stimulus stay apart.

    Returns
    -------
    dict of (stimulus, content key, condition) to profiles, keys sorted
    """
    groups: dict[tuple[str, str, str], list[AttentionProfile]] = {}
    for p in profiles:
        key = (p.units.stimulus, p.units.key, str(p.how.get("condition", "")))
        groups.setdefault(key, []).append(p)
    return dict(sorted(groups.items()))


def reader_matrix(
    weights: np.ndarray, participants: Sequence[str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Average the trials of each reader, so that a reader counts once.

    Parameters
    ----------
    weights : ndarray, shape (n_trials, n_words)
    participants : sequence of n_trials reader ids

    Returns
    -------
    ndarray, shape (n_readers, n_words), and the reader ids, sorted
        Readers without any value are left out.
    """
    weights = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    names, rows = [], []
    ids = np.asarray(participants, dtype=object)
    for name in sorted(set(participants)):
        mean = nan_mean(weights[ids == name])
        if not np.isnan(mean).all():
            names.append(name)
            rows.append(mean)
    matrix = np.stack(rows) if rows else np.empty((0, weights.shape[1]))
    return matrix, tuple(names)


def nan_mean(rows: np.ndarray) -> np.ndarray:
    """Return the mean over rows of the values that are there; NaN where none is.

    Parameters
    ----------
    rows : ndarray, shape (n_rows, n_words)
    """
    there = ~np.isnan(rows)
    count = there.sum(axis=0)
    total = np.where(there, rows, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def mean_profile(profiles: Sequence[AttentionProfile]) -> AttentionProfile:
    """Average profiles of several readers over the same words.

    Each reader counts once: repeated trials of one reader are averaged first. A word's weight is
    the mean over the readers who have a value there; a word that nobody has stays missing.

    Returns
    -------
    AttentionProfile
        ``how["readers"]`` lists the readers, ``lost["readers_per_word"]`` counts the values
        behind each word, ``lost["readers_left_out"]`` the readers without any value.

    Raises
    ------
    DataError
        No profiles, or their words differ (the message names the first that does).
    """
    units = same_units(profiles)
    first = profiles[0]
    participants = [str(p.how.get("participant", i)) for i, p in enumerate(profiles)]
    matrix, names = reader_matrix(np.stack([p.weights for p in profiles]), participants)
    how = {k: v for k, v in first.how.items() if k not in ("participant", "trial")}
    how |= {
        "level": "mean",
        "averaged": "mean over the readers with a value; repeated trials of a reader first",
        "readers": list(names),
    }
    left_out = sorted(set(participants) - set(names))
    lost = {
        "readers_per_word": (~np.isnan(matrix)).sum(axis=0).tolist(),
        "readers_left_out": left_out,
    }
    if not names:
        lost["reason"] = str(first.lost.get("reason", "no reader has a value"))
    return AttentionProfile(units, nan_mean(matrix), first.kind, first.name, how, lost)
