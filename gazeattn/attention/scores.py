"""Agreement of all rows of one text with its human profiles: values, p values, null draws."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import rankdata

from gazeattn.attention.align import ModelRows, level_out
from gazeattn.attention.human import nan_mean, reader_matrix
from gazeattn.attention.nulls import Orders, null_draws, partial_draws
from gazeattn.metrics.agreement import (
    batched,
    convention,
    partial,
    partial_batched,
    undefined_reason,
)
from gazeattn.metrics.statistics import summarise, tail_probability
from gazeattn.registry import metrics as registered_metrics

PARTIAL = "partial_spearman"
"""Spearman's correlation with the control covariates held fixed."""


_RANKED = ("spearman", "kendall", PARTIAL)


@dataclass(frozen=True)
class Metric:
    """An agreement metric with its parameters.

    Attributes
    ----------
    name : str
    params : dict
    convention : str
        The sentence for tables.
    controls : tuple of str
        Covariates of a partial correlation.
    """

    name: str
    params: Mapping[str, Any]
    convention: str
    controls: tuple[str, ...] = ()

    @property
    def is_correlation(self) -> bool:
        """Whether values can be divided by a ceiling and averaged on Fisher's z scale."""
        return self.name in ("spearman", "kendall", "pearson", PARTIAL)


def make_metric(name: str, topk: int | float, controls: tuple[str, ...]) -> Metric:
    """Return a metric with the parameters that it takes.

    Parameters
    ----------
    name
        A registered agreement metric or `PARTIAL`.
    topk
        For the top-k metrics: a number of words (1 or more) or a share of the scored words.
    controls
        For `PARTIAL`.
    """
    if name == PARTIAL:
        text = (
            f"partial Spearman, ranks of both sides regressed on the ranks of {', '.join(controls)}"
        )
        return Metric(name, {}, text, controls)
    accepted = inspect.signature(registered_metrics.get(name).obj).parameters
    params: dict[str, Any] = {}
    if "share" in accepted and "k" in accepted:
        params = {"k": int(topk)} if topk >= 1 else {"share": float(topk)}
    return Metric(name, params, convention(name, **params))


@dataclass
class Scores:
    """Agreement of the rows of one text with one human profile in one metric.

    Attributes
    ----------
    values, p : ndarray, shape (n_rows,)
    draws : ndarray, shape (n_rows, n_permutations)
        NaN for rows without a value; empty without permutations.
    n_words : ndarray of int, shape (n_rows,)
        Words with a score on both sides (and every covariate).
    reasons : ndarray of str, shape (n_rows,)
        Why a value is missing, else empty.
    """

    values: np.ndarray
    p: np.ndarray
    draws: np.ndarray
    n_words: np.ndarray
    reasons: np.ndarray


@dataclass
class Scorer:
    """Scores the rows of one text.

    Attributes
    ----------
    rows : ModelRows
    orders : Orders or None
        None: no permutation test.
    covariates : dict of name to ndarray, shape (n_words,)
    row_reasons : dict of method to str
        Why the profile of a method is missing altogether.
    """

    rows: ModelRows
    orders: Orders | None
    covariates: Mapping[str, np.ndarray]
    row_reasons: Mapping[str, str] = field(default_factory=dict)
    _ranks: dict[tuple[int, bytes], np.ndarray] = field(default_factory=dict)
    _groups: list[tuple[np.ndarray, np.ndarray]] | None = None

    def score(self, metric: Metric, human: np.ndarray, human_reason: str = "") -> Scores:
        """Compare every row with one human profile.

        Parameters
        ----------
        metric
        human : ndarray, shape (n_words,)
        human_reason
            Why the human profile is missing, where it is.
        """
        weights = self.rows.weights
        n_rows = len(weights)
        z = self._controls(metric)
        out = Scores(
            np.full(n_rows, np.nan),
            np.full(n_rows, np.nan),
            np.empty((n_rows, 0)),
            np.zeros(n_rows, dtype=np.int64),
            np.full(n_rows, "", dtype=object),
        )
        usable = ~np.isnan(human)
        if z is not None:
            usable &= ~np.isnan(z).any(axis=0)
        if self._groups is None:
            self._groups = _patterns(np.isnan(weights))
        for rows, missing in self._groups:
            keep = usable & ~missing
            out.n_words[rows] = keep.sum()
            self._score_group(metric, rows, keep, human, z, out)
        if np.isnan(out.values).any():
            self._explain(metric, human, human_reason, out)
        return out

    def _controls(self, metric: Metric) -> np.ndarray | None:
        if metric.name != PARTIAL:
            return None
        return np.stack([self.covariates[c] for c in metric.controls])

    def _score_group(
        self,
        metric: Metric,
        rows: np.ndarray,
        keep: np.ndarray,
        human: np.ndarray,
        z: np.ndarray | None,
        out: Scores,
    ) -> None:
        a = self.rows.weights[rows][:, keep]
        b = level_out(human[None, keep], np.float64)[0]
        ranks = self._ranked(rows, keep, a) if metric.name in _RANKED else None
        if z is not None:
            values = partial_batched(a, b, z[:, keep])
        elif metric.name == "spearman" and ranks is not None:
            # by definition; the ranks serve all measures and readers who miss the same words
            values = batched("pearson", ranks, rankdata(b))
        else:
            values = batched(metric.name, a, b, **metric.params)
        out.values[rows] = values
        fine = ~np.isnan(values)
        if self.orders is None or not fine.any():
            return
        order = self.orders.of(keep)
        known = None if ranks is None else ranks[fine]
        if z is not None and known is not None:
            draws = partial_draws(known, b, z[:, keep], order)
        else:
            draws = null_draws(metric.name, a[fine], b, order, metric.params, known)
        exact = self.orders.exact(int(keep.sum()))
        out.p[rows[fine]] = tail_probability(values[fine], draws, "two-sided", exact)
        draws = self.orders.spread(draws)
        if fine.all() and len(rows) == len(out.values):
            out.draws = draws  # all rows at once: no copy of what can be large
            return
        if out.draws.shape[1] == 0:
            out.draws = np.full((len(out.values), draws.shape[1]), np.nan)
        out.draws[rows[fine]] = draws

    def _ranked(self, rows: np.ndarray, keep: np.ndarray, values: np.ndarray) -> np.ndarray:
        key = (int(rows[0]), np.packbits(keep).tobytes())
        if key not in self._ranks:
            self._ranks[key] = rankdata(values, axis=1)
        return self._ranks[key]

    def _explain(self, metric: Metric, human: np.ndarray, human_reason: str, out: Scores) -> None:
        blank = np.isnan(human).all()
        human_varies = not blank and np.nanmax(human) > np.nanmin(human)
        for i in np.flatnonzero(np.isnan(out.values)):
            method, row = self.rows.methods[i], self.rows.weights[i]
            if blank:
                why = f"human profile: {human_reason or 'no word has a value'}"
            elif np.isnan(row).all():
                why = f"{method}: {self.row_reasons.get(method, 'no word has a score')}"
            elif metric.name == PARTIAL and method in metric.controls:
                why = f"{method} is itself a control"
            elif human_varies and out.n_words[i] > 1 and np.nanmax(row) == np.nanmin(row):
                why = "the model profile is constant"
            elif metric.name == PARTIAL:
                why = undefined_reason("spearman", row, human)
                why = why or "the controls leave nothing, or too few words"
            else:
                why = undefined_reason(metric.name, row, human, **metric.params)
            out.reasons[i] = why or "undefined for these values"

    def ceiling(self, metric: Metric, trials: np.ndarray, participants: Sequence[str]) -> Ceiling:
        """Return how well readers agree with the mean of the other readers in this metric.

        A reader with several trials of the text is averaged first: it counts once in the
        references of the others, and once in the mean over readers.
        """
        matrix, names = reader_matrix(trials, participants)
        n_readers = len(names)
        blank = np.full(len(trials), np.nan)
        if n_readers < 2:
            why = f"{n_readers} reader{'' if n_readers == 1 else 's'}: a ceiling needs two"
            return Ceiling(np.nan, np.nan, blank, blank, why)
        z = self._controls(metric)
        others = np.full(trials.shape, np.nan)
        people = np.asarray(participants, dtype=object)
        for i, name in enumerate(names):
            others[people == name] = nan_mean(np.delete(matrix, i, axis=0))
        low = _row_by_row(metric, others, trials, z)
        lower = _over_readers(low, participants)
        why = "no reader's agreement with the others is defined" if np.isnan(lower) else ""
        if n_readers == 2:
            why += ("; " if why else "") + "upper bound: undefined with two readers"
            return Ceiling(lower, np.nan, low, blank, why)
        mean = np.broadcast_to(nan_mean(matrix), trials.shape)
        high = _row_by_row(metric, mean, trials, z)
        return Ceiling(lower, _over_readers(high, participants), low, high, why)


@dataclass(frozen=True)
class Ceiling:
    """Agreement of readers with the mean of the others (lower) and of all readers (upper).

    With one trial per reader it is what `gazeattn.metrics.statistics.noise_ceiling` computes, for
    partial correlations too (Nili et al., 2014, PLoS Computational Biology 10, e1003553).

    Attributes
    ----------
    lower, upper : float
        Means over readers, each reader's own the mean over its trials; the upper bound needs
        three readers.
    per_trial, per_trial_upper : ndarray, shape (n_trials,)
    reason : str
        Why a bound is missing; empty where both are there.
    """

    lower: float
    upper: float
    per_trial: np.ndarray
    per_trial_upper: np.ndarray
    reason: str


def _over_readers(values: np.ndarray, participants: Sequence[str]) -> float:
    each, _ = reader_matrix(values[:, None], participants)
    return float(summarise(each[:, 0]).mean) if len(each) else float("nan")


def _row_by_row(metric: Metric, a: np.ndarray, b: np.ndarray, z: np.ndarray | None) -> np.ndarray:
    values = np.full(len(a), np.nan)
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if z is not None:
            values[i] = partial(x, y, z)
            continue
        keep = ~(np.isnan(x) | np.isnan(y))
        values[i] = batched(metric.name, x[None, keep], y[keep], **metric.params)[0]
    return values


def _patterns(missing: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Group rows by which words they miss, since the rest of the words is compared as one."""
    if len(missing) == 0:
        return []
    if (missing == missing[0]).all():
        return [(np.arange(len(missing)), missing[0])]
    patterns, inverse = np.unique(missing, axis=0, return_inverse=True)
    inverse = inverse.ravel()
    return [(np.flatnonzero(inverse == i), p) for i, p in enumerate(patterns)]
