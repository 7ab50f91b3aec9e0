"""Rows of the alignment table, and their averages over trials with intervals and tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.attention.align import ModelRows
from gazeattn.attention.baselines import content_seed
from gazeattn.attention.comparison import ALIGNMENT_COLUMNS, SUMMARY_COLUMNS
from gazeattn.attention.scores import Metric, Scores
from gazeattn.metrics.statistics import (
    benjamini_hochberg,
    clustered_bootstrap,
    fisher_mean,
    relative,
    tail_probability,
)
from gazeattn.tables import LossLog

CLEAR_CEILING = 0.05
"""Agreement between readers from which on a value is given as a share of it; less is noise."""

NEAR_ONE = 1 - 1e-12
"""On Fisher's z scale a permuted correlation of exactly 1 enters as this, since z is infinite."""


def families(rows: ModelRows) -> list[np.ndarray]:
    """Return the sets of rows that are tested together.

    Own weights of the model's methods are one family and the baselines another; the heads of a
    method are a family, and so are its layers.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, (method, kind, layer, head) in enumerate(rows.index):
        key: tuple[object, ...] = ("own", kind) if layer < 0 else ("part", method, head >= 0)
        groups.setdefault(key, []).append(i)
    return [np.array(g, dtype=np.int64) for g in groups.values()]


def adjusted(p: np.ndarray, groups: Iterable[np.ndarray]) -> np.ndarray:
    """Return Benjamini-Hochberg q values within each group of rows."""
    q = np.full(len(p), np.nan)
    for group in groups:
        q[group] = benjamini_hochberg(p[group])
    return q


def text_column(values: Sequence[Any], repeats: np.ndarray | None = None) -> pd.Series:
    """Return a text column, None as missing, each value repeated."""
    column = pd.Series(list(values), dtype="str")
    if repeats is None:
        return column
    return pd.Series(column.array.take(np.repeat(np.arange(len(column)), repeats)))


@dataclass
class AlignmentRows:
    """Collects blocks of rows that share everything but method, layer and head."""

    dataset: str
    _blocks: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self,
        rows: ModelRows,
        scores: Scores,
        groups: Sequence[np.ndarray],
        n_units: int,
        ceiling: tuple[float, float, str],
        **facts: Any,
    ) -> None:
        """Add a block.

        Parameters
        ----------
        rows, scores
            Equal length.
        groups
            Families for the q values.
        n_units
            Words of the text.
        ceiling
            Lower bound, upper bound, and why one is missing.
        **facts
            stimulus, trial, participant, level, condition, measure, metric, convention.
        """
        if len(rows):
            q = adjusted(scores.p, groups)
            self._blocks.append(
                {**facts, "rows": rows, "scores": scores, "q": q, "n": n_units, "top": ceiling}
            )

    def frame(self) -> pd.DataFrame:
        """Return the table with `ALIGNMENT_COLUMNS`."""
        blocks = self._blocks
        n = np.array([len(b["rows"]) for b in blocks], dtype=np.int64)

        def joined(parts: list[np.ndarray]) -> np.ndarray:
            return np.concatenate(parts) if parts else np.empty(0)

        def number(parts: list[np.ndarray]) -> pd.Series:
            values = pd.Series(joined(parts).astype(np.int64), dtype="Int64")
            return values.mask(values < 0)

        def text(name: str) -> pd.Series:
            return text_column([b[name] for b in blocks], n)

        def many(parts: list[Sequence[Any]]) -> pd.Series:
            flat = [x for part in parts for x in part]
            codes, labels = pd.factorize(np.array(flat, dtype=object))
            return pd.Series(pd.Series(labels, dtype="str").array.take(codes))

        n_words = joined([b["scores"].n_words for b in blocks]).astype(np.int64)
        total = np.repeat(np.array([b["n"] for b in blocks], dtype=np.int64), n)
        reasons = many([b["scores"].reasons for b in blocks])
        columns = {
            "dataset": text_column([self.dataset] * len(blocks), n),
            "stimulus": text("stimulus"),
            "trial": text("trial"),
            "participant": text("participant"),
            "level": text("level"),
            "condition": text("condition"),
            "measure": text("measure"),
            "method": many([b["rows"].methods for b in blocks]),
            "kind": many([b["rows"].kinds for b in blocks]),
            "layer": number([b["rows"].layers for b in blocks]),
            "head": number([b["rows"].heads for b in blocks]),
            "metric": text("metric"),
            "value": joined([b["scores"].values for b in blocks]),
            "ceiling": np.repeat([b["top"][0] for b in blocks], n).astype(float),
            "ceiling_upper": np.repeat([b["top"][1] for b in blocks], n).astype(float),
            "p": joined([b["scores"].p for b in blocks]),
            "q": joined([b["q"] for b in blocks]),
            "n_words": n_words,
            "n_lost": total - n_words,
            "convention": text("convention"),
            "reason": reasons.mask(reasons == ""),
            "ceiling_reason": text_column([b["top"][2] or None for b in blocks], n),
        }
        return pd.DataFrame({c: columns[c] for c in ALIGNMENT_COLUMNS})


@dataclass
class Average:
    """Values of the same rows on many trials, in one metric, measure and level.

    Null draws are added up as they come, so that memory does not grow with the number of trials.
    """

    rows: ModelRows
    metric: Metric
    measure: str
    level: str
    fisher: bool
    values: list[np.ndarray] = field(default_factory=list)
    ceilings: list[tuple[float, float]] = field(default_factory=list)
    readers: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    _draws: np.ndarray | None = None
    _n_draws: np.ndarray | None = None
    _p: np.ndarray | None = None
    _chance: np.ndarray | None = None

    def add(self, scores: Scores, reader: str, text: str, ceiling: tuple[float, float]) -> None:
        """Add one trial."""
        self.values.append(scores.values)
        self.ceilings.append(ceiling)
        self.readers.append(reader)
        self.texts.append(text)
        if scores.draws.shape[1] == 0:
            return
        draws = scores.draws
        if self.fisher:
            draws = np.arctanh(np.clip(draws, -NEAR_ONE, NEAR_ONE))
        fine = ~np.isnan(draws).any(axis=1)
        if self._draws is None:
            self._draws = np.zeros(draws.shape)
            self._n_draws = np.zeros(len(draws), dtype=np.int64)
            self._p = np.full(len(draws), np.nan)
        assert self._n_draws is not None and self._p is not None
        if fine.all():
            self._draws += draws
        else:
            self._draws[fine] += draws[fine]
        self._n_draws += fine
        self._p[fine] = scores.p[fine]

    def frame(self, dataset: str, seed: int, n_bootstrap: int, notes: list[str]) -> pd.DataFrame:
        """Return the rows of the summary, with `SUMMARY_COLUMNS`."""
        x = np.stack(self.values, axis=1)
        there = ~np.isnan(x)
        value, low, high = self._interval(x, seed, n_bootstrap, notes)
        p, chance = self._test(value)
        lower, upper = self._ceilings(there)
        texts, readers = np.array(self.texts), np.array(self.readers)
        n = len(x)
        part = np.full(n, np.nan)
        # a mean over readers is less noisy than the single readers of the ceiling: no common scale
        if self.metric.is_correlation and self.level == "reader":
            clear = np.where(lower >= CLEAR_CEILING, lower, np.nan)
            part = np.asarray(relative(value, clear), dtype=float)
        columns: dict[str, Any] = {
            "dataset": dataset,
            "measure": self.measure,
            "method": list(self.rows.methods),
            "kind": list(self.rows.kinds),
            "layer": _number(self.rows.layers),
            "head": _number(self.rows.heads),
            "metric": self.metric.name,
            "level": self.level,
            "value": value,
            "low": low,
            "high": high,
            "ceiling": lower,
            "ceiling_upper": upper,
            "relative": part,
            "chance": chance,
            "p": p,
            "q": adjusted(p, families(self.rows)),
            "n_trials": there.sum(axis=1),
            "n_texts": _n_labels(there, texts),
            "n_readers": _n_readers(there, readers),
            "n_undefined": (~there).sum(axis=1),
            "convention": self._convention(),
        }
        return pd.DataFrame({c: columns[c] for c in SUMMARY_COLUMNS}, index=range(n))

    def _convention(self) -> str:
        rule = "Fisher z mean" if self.fisher else "mean"
        over = "trials" if self.level == "reader" else "texts"
        return f"{self.metric.convention}; {rule} over {over}"

    def _mean(self, x: np.ndarray) -> np.ndarray:
        if self.fisher:
            return np.array([fisher_mean(row) for row in x])
        there = ~np.isnan(x)
        n = there.sum(axis=1)
        total = np.where(there, x, 0.0).sum(axis=1)
        return np.where(n > 0, total / np.maximum(n, 1), np.nan)

    def _interval(
        self, x: np.ndarray, seed: int, n_bootstrap: int, notes: list[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        value = self._mean(x)
        blank = np.full(len(x), np.nan)
        if n_bootstrap < 1 or x.shape[1] < 2:
            return value, blank, blank
        clusters = {"texts": self.texts}
        if self.level == "reader":
            clusters = {"readers": self.readers, "texts": self.texts}
        if self.fisher:
            # a row with a correlation of exactly 1 has no finite z: no interval
            with np.errstate(divide="ignore"):
                x = np.arctanh(x)
            x = np.where(np.isinf(x).any(axis=1, keepdims=True), np.nan, x)
        rng = np.random.default_rng(content_seed("bootstrap", seed, self.level))
        result = clustered_bootstrap(x, clusters, n_bootstrap, rng)
        notes += [f"bootstrap over {' and '.join(clusters)}: {n}" for n in result.notes]
        if self.fisher:
            return value, np.tanh(result.low), np.tanh(result.high)
        return value, result.low, result.high

    def _test(self, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        blank = np.full(len(value), np.nan)
        if self._draws is None or self._n_draws is None or self._p is None:
            return blank, blank
        with np.errstate(invalid="ignore", divide="ignore"):
            draws = self._draws / self._n_draws[:, None]
        if self.fisher:
            draws = np.tanh(draws)
        p = tail_probability(value, draws, "two-sided")
        # a single trial keeps its own test, which is exact where there are few words
        single = self._n_draws == 1
        p[single] = self._p[single]
        return p, draws.mean(axis=1)

    def _ceilings(self, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Average the ceilings of the trials that a row has a value for."""
        out = []
        for bound in np.array(self.ceilings, dtype=float).T:
            means: dict[bytes, float] = {}
            column = np.empty(len(there))
            for i, row in enumerate(there):
                key = row.tobytes()
                if key not in means:
                    means[key] = float(self._mean(bound[None, row])[0])
                column[i] = means[key]
            out.append(column)
        return out[0], out[1]


def log_undefined(frame: pd.DataFrame, lost: LossLog) -> None:
    """Record the undefined values of an alignment table, one line for each method and reason."""
    undefined = frame[frame["value"].isna() & frame["layer"].isna()]
    # a k that is too large is one mistake, however many texts and methods it meets
    deep = undefined["reason"].str.extract(r"^(k = \d+ is more than the )\d+ units", expand=False)
    for start, rows in undefined.groupby(deep, sort=True):
        reason = f"{start}words scored on both sides"
        lost.add("agreement", "undefined", reason, len(rows), "values", rows["trial"].unique())
    other = undefined[deep.isna()]
    for (name, why), rows in other.groupby(["method", "reason"], sort=True):
        lost.add("agreement", "undefined", f"{name}: {why}", len(rows), "values", rows["trial"])
    parts = frame["value"].isna() & frame["layer"].notna()
    lost.add(
        "agreement", "undefined", "layers and heads without a value", int(parts.sum()), "values"
    )


def _number(values: np.ndarray) -> pd.Series:
    column = pd.Series(values, dtype="Int64")
    return column.mask(column < 0)


def _n_labels(there: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return for each row how many different labels its defined trials have."""
    codes = np.unique(labels, return_inverse=True)[1].ravel()
    n = int(codes.max(initial=-1)) + 1
    member = np.zeros((len(codes), n))
    member[np.arange(len(codes)), codes] = 1
    return (there.astype(float) @ member > 0).sum(axis=1)


def _n_readers(there: np.ndarray, readers: np.ndarray) -> np.ndarray:
    """Count readers; at level "mean" one label lists the readers of the text."""
    names = sorted({name for label in readers for name in label.split("\x1f")})
    member = np.array([[n in label.split("\x1f") for n in names] for label in readers], float)
    return (there.astype(float) @ member > 0).sum(axis=1)
