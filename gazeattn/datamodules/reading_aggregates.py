"""One row of numbers per trial: named sets of aggregates for models without sequences.

Sets are cumulative lists of names, so that a model says which numbers it sees. All are computed
from `ReadingTrials`, thus from the same fixations that sequence models see.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gazeattn.datamodules.reading import ReadingTrials
from gazeattn.datamodules.reading_features import Array
from gazeattn.errors import UnknownNameError

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
OF_FIXATIONS = (
    "duration", "gap", "saccade_amplitude", "saccade_duration", "saccade_peak_velocity",
    "next_distance", "next_step", "landing", "pupil",
)  # fmt: skip
OF_WORDS = (
    "first_fixation_duration", "single_fixation_duration", "gaze_duration", "go_past_time",
    "total_reading_time", "fixation_count",
)  # fmt: skip
STEPS = (-np.inf, -10.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 4.5, np.inf)
SLOPES = ("gaze_duration", "total_reading_time", "first_fixation_duration")
CELL_WORDS = 3
"""Words of a cell of the gaze entropies."""
SETS = (
    "speed", "meziere", "saccades", "counts", "distributions", "transitions", "slopes", "entropy",
)  # fmt: skip


def grouped_quantiles(values: Array, starts: NDArray[np.int64], shares: Sequence[float]) -> Array:
    """Return quantiles of ragged groups, missing values left out, (n_groups, len(shares)).

    Interpolated linearly as `numpy.quantile` does; missing for a group without a value.
    """
    n = len(starts) - 1
    group = np.repeat(np.arange(n), np.diff(starts))
    there = ~np.isnan(values)
    values, group = values[there], group[there]
    order = np.lexsort((values, group))
    values = values[order]
    counts = np.bincount(group, minlength=n)
    first = np.cumsum(counts) - counts
    at = (counts[:, None] - 1) * np.asarray(shares, dtype=np.float64)[None, :]
    low = np.floor(at)
    out = np.full((n, len(shares)), np.nan)
    some = counts > 0
    left = (first[:, None] + low)[some].astype(np.int64)
    right = np.minimum(left + 1, (first + counts - 1)[some][:, None])
    part = (at - low)[some]
    out[some] = values[left] * (1 - part) + values[right] * part
    return out


def grouped_moments(values: Array, starts: NDArray[np.int64]) -> tuple[Array, Array]:
    """Return mean and standard deviation (n - 1) of ragged groups, missing values left out."""
    n = len(starts) - 1
    group = np.repeat(np.arange(n), np.diff(starts))
    there = ~np.isnan(values)
    values, group = values[there], group[there]
    counts = np.bincount(group, minlength=n).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(group, values, minlength=n) / counts
        deviation = np.bincount(group, (values - mean[group]) ** 2, minlength=n)
        sd = np.sqrt(np.where(counts > 1, deviation / (counts - 1), np.nan))
    return mean, sd


def _share(mask: NDArray[np.bool_], of: NDArray[np.bool_], starts: NDArray[np.int64]) -> Array:
    """Return the share of the rows `of` of each group for which `mask` holds."""
    values = np.where(of, mask.astype(np.float64), np.nan)
    return grouped_moments(values, starts)[0]


def aggregates(trials: ReadingTrials, sets: Sequence[str] = SETS) -> pd.DataFrame:
    """Return one row of aggregates per trial.

    Parameters
    ----------
    trials
    sets
        - ``speed``: words per minute and ms per word and per letter of the text.
        - ``meziere``: the nine global measures of Mézière et al. (2023): mean fixation duration,
          forward saccade length, regression rate, speed, skip rate, and the means of first
          fixation, gaze, total and go-past time over fixated words.
        - ``saccades``: mean and largest saccade duration, velocity and amplitude, skip rate,
          fixation count, mean total time.
        - ``counts``: rates of fixations, regressions, refixations, runs, words read, off text.
        - ``distributions``: mean, standard deviation and quantiles of `OF_FIXATIONS` and
          `OF_WORDS`.
        - ``transitions``: shares of steps between words of each size, and of steps after a
          forward or a backward step.
        - ``slopes``: how word measures grow with length and rarity of the words, and what is left.
        - ``entropy``: stationary and transition gaze entropy, see `gaze_entropies`.

    Returns
    -------
    DataFrame
        One row per trial, a column per number, missing where undefined.

    Raises
    ------
    UnknownNameError
        No such set.
    """
    makers = {
        "speed": _speed,
        "meziere": _meziere,
        "saccades": _saccades,
        "counts": _counts,
        "distributions": _distributions,
        "transitions": _transitions,
        "slopes": _slopes,
        "entropy": gaze_entropies,
    }
    columns: dict[str, Array] = {}
    for name in sets:
        if name not in makers:
            raise UnknownNameError("set of aggregates", name, makers)
        for key, values in makers[name](trials).items():
            columns.setdefault(key, values)
    return pd.DataFrame(columns, index=pd.RangeIndex(len(trials)))


def _sum(values: Array, starts: NDArray[np.int64]) -> Array:
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    sums = np.bincount(group, np.nan_to_num(values), minlength=len(starts) - 1)
    return sums.astype(np.float64)


def _time(trials: ReadingTrials) -> Array:
    """Time of the trial: fixations and gaps where they are known, ms; missing without any."""
    total = trials.column("duration") + np.maximum(np.nan_to_num(trials.column("gap")), 0)
    known = _sum((~np.isnan(total)).astype(np.float64), trials.starts)
    return np.where(known > 0, _sum(total, trials.starts), np.nan)


def _per(values: Array, of: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return values / np.where(of > 0, of, np.nan)


def _letters(trials: ReadingTrials) -> Array:
    return _sum(trials.text_column("length"), trials.word_starts)


def _speed(trials: ReadingTrials) -> dict[str, Array]:
    time, words = _time(trials), trials.n_words.astype(np.float64)
    return {
        "words_per_minute": _per(words, time / 60_000),
        "ms_per_word": _per(time, words),
        "ms_per_letter": _per(time, _letters(trials)),
    }


def _fixated(trials: ReadingTrials, name: str) -> Array:
    values = trials.column(name).copy()
    if name in ("total_reading_time", "fixation_count"):  # 0 for words that were never fixated
        values[trials.column("fixation_count") == 0] = np.nan
    return values


def _sizes(trials: ReadingTrials) -> Array:
    """Return sizes of saccades, all in deg or all in px, whichever trials are looked at."""
    size = trials.column("saccade_amplitude")
    unit = trials.info.get("saccades", "px" if np.isnan(size).all() else "deg")
    return size if unit == "deg" else trials.column("next_distance")


def _meziere(trials: ReadingTrials) -> dict[str, Array]:
    step = trials.column("next_step")
    forward = np.where(step > 0, _sizes(trials), np.nan)
    means = {
        f"{n}_mean": grouped_moments(_fixated(trials, n), trials.word_starts)[0]
        for n in ("first_fixation_duration", "gaze_duration", "total_reading_time", "go_past_time")
    }
    return {
        "duration_mean": grouped_moments(trials.column("duration"), trials.starts)[0],
        "forward_saccade_mean": grouped_moments(forward, trials.starts)[0],
        "regression_rate": _share(step < 0, ~np.isnan(step), trials.starts),
        "words_per_minute": _speed(trials)["words_per_minute"],
        "skip_rate": grouped_moments(trials.column("skip"), trials.word_starts)[0],
        **means,
    }


def _saccades(trials: ReadingTrials) -> dict[str, Array]:
    out: dict[str, Array] = {}
    for name in ("saccade_duration", "saccade_peak_velocity", "saccade_amplitude"):
        values = trials.column(name)
        out[f"{name}_mean"] = grouped_moments(values, trials.starts)[0]
        out[f"{name}_max"] = grouped_quantiles(values, trials.starts, [1.0])[:, 0]
    out["skip_rate"] = grouped_moments(trials.column("skip"), trials.word_starts)[0]
    out["fixations"] = trials.lengths.astype(np.float64)
    times = _fixated(trials, "total_reading_time")
    out["total_reading_time_mean"] = grouped_moments(times, trials.word_starts)[0]
    return out


def _counts(trials: ReadingTrials) -> dict[str, Array]:
    n = trials.lengths.astype(np.float64)
    step = trials.column("next_step")
    into, back = trials.column("regression_in"), trials.column("regression_out")
    known = ~np.isnan(step)
    on = trials.column("on_text") == 1
    everything = np.ones(len(on), dtype=bool)
    again = trials.column("refixation")
    runs = _sum((on & (again != 1)).astype(np.float64), trials.starts)
    line = trials.column("line")
    turn = np.append(np.diff(line), np.nan) if len(line) else line
    first = trials.column("first_pass")
    counts = trials.column("fixation_count")
    return {
        "fixations": n,
        "fixations_per_word": _per(n, trials.n_words.astype(np.float64)),
        "fixations_per_letter": _per(n, _letters(trials)),
        "time": _time(trials),
        "words": trials.n_words.astype(np.float64),
        "off_text": _share(~on, everything, trials.starts),
        "forward_rate": _share(step > 0, known, trials.starts),
        "regression_rate": _share(step < 0, known, trials.starts),
        "refixation_rate": _share(again == 1, ~np.isnan(again), trials.starts),
        "first_pass_rate": _share(first == 1, ~np.isnan(first), trials.starts),
        "run_size": _per(_sum(on.astype(np.float64), trials.starts), runs),
        "runs_per_word": _per(runs, trials.n_words.astype(np.float64)),
        "lines_back": _share(turn < 0, known & ~np.isnan(turn), trials.starts),
        "words_read": _share(counts > 0, ~np.isnan(counts), trials.word_starts),
        "words_often": _share(counts > 2, ~np.isnan(counts), trials.word_starts),
        "skip_rate": grouped_moments(trials.column("skip"), trials.word_starts)[0],
        "regression_in_rate": grouped_moments(into, trials.word_starts)[0],
        "regression_out_rate": grouped_moments(back, trials.word_starts)[0],
    }


def _distributions(trials: ReadingTrials) -> dict[str, Array]:
    out: dict[str, Array] = {}
    step = trials.column("next_step")
    columns = {n: (trials.column(n), trials.starts) for n in OF_FIXATIONS}
    size = _sizes(trials)
    columns["forward_saccade"] = (np.where(step > 0, size, np.nan), trials.starts)
    columns["backward_saccade"] = (np.where(step < 0, size, np.nan), trials.starts)
    columns |= {n: (_fixated(trials, n), trials.word_starts) for n in OF_WORDS}
    for name, (values, starts) in columns.items():
        mean, sd = grouped_moments(values, starts)
        out[f"{name}_mean"], out[f"{name}_sd"] = mean, sd
        quantiles = grouped_quantiles(values, starts, QUANTILES)
        for k, share in enumerate(QUANTILES):
            out[f"{name}_q{round(100 * share)}"] = quantiles[:, k]
    return out


def _transitions(trials: ReadingTrials) -> dict[str, Array]:
    step, before = trials.column("next_step"), trials.column("previous_step")
    known = ~np.isnan(step)
    out: dict[str, Array] = {}
    for k, (low, high) in enumerate(pairwise(STEPS)):
        out[f"step_{k}"] = _share((step > low) & (step <= high), known, trials.starts)
    both = known & ~np.isnan(before)
    for name, given in (("forward", before > 0), ("same", before == 0), ("back", before < 0)):
        rows = both & given
        out[f"forward_after_{name}"] = _share(step > 0, rows, trials.starts)
        out[f"back_after_{name}"] = _share(step < 0, rows, trials.starts)
    duration = np.log(np.maximum(trials.column("duration"), 1.0))
    later = np.append(duration[1:], np.nan) if len(duration) else duration
    if len(later):
        later[trials.starts[1:][trials.lengths > 0] - 1] = np.nan
        place = trials.column("x") + trials.column("y")  # no way to the next: the page was turned
        there = ~np.isnan(place) & ~np.isnan(np.append(place[1:], np.nan))
        later[there & np.isnan(trials.column("next_distance"))] = np.nan
    out["duration_autocorrelation"] = _correlation(duration, later, trials.starts)
    return out


def _correlation(a: Array, b: Array, starts: NDArray[np.int64]) -> Array:
    there = ~np.isnan(a) & ~np.isnan(b)
    a, b = np.where(there, a, np.nan), np.where(there, b, np.nan)
    (ma, sa), (mb, sb) = grouped_moments(a, starts), grouped_moments(b, starts)
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    n = _sum(there.astype(np.float64), starts)
    covariance = _per(_sum((a - ma[group]) * (b - mb[group]), starts), n - 1)
    # values that are all the same differ from their mean by rounding at most
    same = (sa <= 1e-9 * np.abs(ma)) | (sb <= 1e-9 * np.abs(mb))
    return np.where(same, np.nan, _per(covariance, sa * sb))


def _slopes(trials: ReadingTrials) -> dict[str, Array]:
    """Ordinary least squares of log measures on length and rarity, trial by trial, in one go."""
    length, rare = trials.text_column("length"), trials.text_column("rarity")
    unlisted = bool(np.isnan(rare).all())
    if unlisted:  # no list for the language: nothing is said of rarity
        rare = np.full_like(length, 4.0)
    trial = np.repeat(np.arange(len(trials)), trials.n_words)
    out: dict[str, Array] = {}
    names = ("level", "length", "rarity")
    for name in (*SLOPES, "skip", "fixation_count"):
        y = trials.column(name) if name in ("skip", "fixation_count") else _fixated(trials, name)
        if name in SLOPES:
            y = np.log(np.where(y > 0, y, np.nan))
        there = ~(np.isnan(y) | np.isnan(length) | np.isnan(rare))
        # centred on fixed values, so that the level is that of a common word
        x = np.stack([np.ones_like(y), (length - 5.0) / 3.0, (rare - 4.0) / 1.5], axis=1)[there]
        part, target = trial[there], y[there]
        n = np.bincount(part, minlength=len(trials))
        gram, moment = np.zeros((len(trials), 3, 3)), np.zeros((len(trials), 3))
        np.add.at(gram, part, x[:, :, None] * x[:, None, :])
        np.add.at(moment, part, x * target[:, None])
        gram += np.diag([1e-6, 1.0, 1.0])  # one word's worth of shrinkage: short trials have few
        slopes: Array = np.linalg.solve(gram, moment[:, :, None])[:, :, 0].astype(np.float64)
        slopes[n < 3] = np.nan
        shown = np.where([False, False, unlisted], np.nan, slopes)
        left = target - (x * slopes[part]).sum(axis=1)
        rows = np.full(len(y), np.nan)
        rows[there] = left
        out.update({f"{name}_by_{k}": shown[:, j] for j, k in enumerate(names)})
        out[f"{name}_left"] = grouped_moments(rows, trials.word_starts)[1]
    return out


def word_cells(
    trials: ReadingTrials, size: int = CELL_WORDS
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cell of every word of every trial, as rows of ``trials.gaze``, and their counts.

    A cell is some neighbouring words of one line, counted from its start; where lines are not
    known, of the text. Cells are numbered on from trial to trial, so that no two trials share one.

    Returns
    -------
    cell : ndarray, shape (n_rows,)
    counts : ndarray, shape (n_trials,)
        Cells of each text.
    """
    rows = np.arange(int(trials.n_words.sum()))
    trial = np.repeat(np.arange(len(trials)), trials.n_words)
    begins = (rows == trials.word_starts[trial]) | (trials.text_column("line_start") == 1)
    begin = np.maximum.accumulate(np.where(begins, rows, 0)) if len(rows) else rows
    new = (rows - begin) % size == 0
    counts = np.bincount(trial[new], minlength=len(trials))
    return np.cumsum(new) - 1, counts.astype(np.int64)


def gaze_entropies(trials: ReadingTrials, size: int = CELL_WORDS) -> dict[str, Array]:
    """Return how evenly and how predictably the eyes spread over cells of some words, in bits.

    With the share p(i) of the fixations on words that lie in cell i, stationary entropy is
    -sum p(i) log2 p(i); with the share p(i, j) of the steps from cell i to cell j, transition
    entropy is -sum p(i, j) log2 p(j | i), thus that of the next cell given this one (Krejtz et
    al., 2015, ACM Transactions on Applied Perception 12; Reich et al., 2022, ETRA). A step inside
    a cell counts; one to, from or over a place off the text does not. Cells are counted in words,
    not in pixels: every corpus has words, and the size of the type does not matter.

    Parameters
    ----------
    trials
    size
        Words of a cell, see `word_cells`.

    Returns
    -------
    dict of str to ndarray, shape (n_trials,)
        ``stationary_entropy``, ``transition_entropy``, and ``..._share``: over the log2 of the
        number of cells of the text, the most that can be. Missing without a fixation on a word,
        or without a step; shares as well for texts of one cell.
    """
    n = len(trials)
    of, on = trials.of, trials.word >= 0
    cell, counts = word_cells(trials, size)
    at = np.zeros(len(on), dtype=np.int64)
    at[on] = cell[trials.word_starts[of[on]] + trials.word[on]]
    cells, back = np.unique(at[on], return_inverse=True)
    visits = np.bincount(back, minlength=len(cells)).astype(np.float64)
    owner = np.zeros(len(cells), dtype=np.int64)
    owner[back] = of[on]
    total = np.bincount(owner, visits, minlength=n)
    stationary = _bits(visits, total[owner], owner, total)
    step = np.flatnonzero(~np.isnan(trials.column("next_step")))
    pairs, back = np.unique(np.stack([at[step], at[step + 1]], 1), axis=0, return_inverse=True)
    steps = np.bincount(back.reshape(-1), minlength=len(pairs)).astype(np.float64)
    leaving = np.bincount(pairs[:, 0], steps, minlength=len(cell))
    owner = np.zeros(len(pairs), dtype=np.int64)
    owner[back.reshape(-1)] = of[step]
    total = np.bincount(owner, steps, minlength=n)
    transition = _bits(steps, leaving[pairs[:, 0]], owner, total)
    most = np.log2(np.maximum(counts, 1))
    return {
        "stationary_entropy": stationary,
        "transition_entropy": transition,
        "stationary_entropy_share": _per(stationary, most),
        "transition_entropy_share": _per(transition, most),
    }


def _bits(
    counts: NDArray[Any], given: NDArray[Any], owner: NDArray[np.int64], total: NDArray[Any]
) -> Array:
    """Return -sum of counts / total * log2(counts / given) for each owner."""
    sums = np.bincount(owner, -counts * np.log2(counts / given), minlength=len(total))
    return _per(
        np.maximum(sums, 0), total.astype(np.float64)
    )  # -0.0 and rounding are no entropy below 0
