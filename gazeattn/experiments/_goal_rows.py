"""From chosen and written questions to rows of a table, with intervals over readers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gazeattn.metrics.prediction import cluster_draws

REGIMES = ("all", "unseen_text", "unseen_reader", "unseen_both")
CHANCE = "chance"
SELECTION, RECONSTRUCTION = "goal_selection", "goal_reconstruction"
KINDS = {"all": "accuracy", "group": "accuracy_group", "within": "accuracy_within"}
FACTS = ("fold", "seed", "trial", "participant", "regime")
CONVENTIONS = {
    "accuracy": "share of trials whose asked question has the highest score; ties share the hit",
    "accuracy_group": "a question of the asked one's {by} is chosen",
    "accuracy_within": "the asked question is the best of its {by}; trials with two of it or more",
    "question_word": "same first question word of nine, or none in both",
    "bleu": "sacrebleu per sentence, effective order, mean over trials; 0 to 1",
    "corpus_bleu": "sacrebleu over all trials; 0 to 1; no interval",
    "rouge_l": "rouge-score, F1, not stemmed, mean over trials",
    "exact": "equal but for case, punctuation and blanks",
    "bertscore_precision": "greedy cosine of tokens, {scorer}, neither weighted nor rescaled",
    "bertscore_recall": "greedy cosine of tokens, {scorer}, neither weighted nor rescaled",
    "bertscore_f1": "greedy cosine of tokens, {scorer}, neither weighted nor rescaled",
    "qa_accuracy": "trials whose true question is answered rightly",
}


def over_seeds(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per fold and trial: the means over seeds of all numbers."""
    keys = ["fold", "trial", "participant", "regime"]
    numbers = [str(c) for c in table.select_dtypes("number") if c not in ("fold", "seed")]
    return table.groupby(keys, sort=True, observed=True)[numbers].mean().reset_index()


def of_regime(table: pd.DataFrame, regime: str) -> pd.DataFrame:
    """Return the rows of a regime, or all."""
    return table if regime == "all" else table[table["regime"] == regime]


def mean_and_interval(
    values: NDArray[np.float64], readers: Sequence[Any] | pd.Series, draws: int, seed: int = 0
) -> tuple[float, float, float, int]:
    """Return the mean of what is known, its 95 % interval from drawing readers, and the count.

    One reader, or no value, has no interval.
    """
    known = ~np.isnan(values)
    n = int(known.sum())
    if not n:
        return float("nan"), float("nan"), float("nan"), 0
    kept, who = values[known], np.asarray(readers, dtype=object)[known]
    if len(set(who)) < 2 or draws < 2:
        return float(kept.mean()), float("nan"), float("nan"), n
    weights = cluster_draws(who, draws, seed)
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        found = (weights @ kept) / weights.sum(1)
        low, high = np.nanquantile(found, [0.025, 0.975])
    return float(kept.mean()), float(low), float(high), n


def compared(
    tables: Mapping[str, pd.DataFrame],
    metrics: Sequence[str],
    references: Mapping[str, Sequence[str]],
    kinds: Mapping[str, str],
    draws: int,
) -> list[dict[str, Any]]:
    """Return rows of all models, regimes and metrics, and of paired differences.

    Parameters
    ----------
    tables
        By model: fold, seed, trial, participant, regime and a column per metric.
    metrics
    references
        By model, the models it is compared with on the trials that both have.
    kinds
        By model, what the row says it is.
    """
    means = {name: over_seeds(t) for name, t in tables.items()}
    rows: list[dict[str, Any]] = []
    for name, table in means.items():
        for regime in REGIMES:
            part = of_regime(table, regime)
            for metric in metrics:
                if metric not in part or not len(part):
                    continue
                values = part[metric].to_numpy(dtype=np.float64)
                found = mean_and_interval(values, part["participant"], draws)
                rows.append(_row(name, kinds[name], "", regime, metric, found))
            for other in references.get(name, ()):
                if other in means:
                    rows += _differences(
                        name, other, part, means[other], metrics, regime, kinds, draws
                    )
    return rows


def _differences(
    name: str, other: str, part: pd.DataFrame, reference: pd.DataFrame,
    metrics: Sequence[str], regime: str, kinds: Mapping[str, str], draws: int,
) -> list[dict[str, Any]]:  # fmt: skip
    both = part.merge(reference, on=["fold", "trial", "regime"], suffixes=("", "_reference"))
    rows = []
    for metric in metrics:
        if metric not in both or f"{metric}_reference" not in both or not len(both):
            continue
        gap = both[metric] - both[f"{metric}_reference"]
        found = mean_and_interval(gap.to_numpy(dtype=np.float64), both["participant"], draws)
        rows.append(_row(name, kinds[name], other, regime, metric, found))
    return rows


def _row(
    name: str, kind: str, other: str, regime: str, metric: str,
    found: tuple[float, float, float, int],
) -> dict[str, Any]:  # fmt: skip
    value, low, high, n = found
    return {"model": name, "kind": kind, "reference": other, "regime": regime, "metric": metric,
            "value": value, "low": low, "high": high, "n": n}  # fmt: skip


def convention(metric: str, *, by: str, scorer: str, note: str = "") -> str:
    """Return how a metric is counted, and what its numbers suffer from."""
    text = CONVENTIONS[metric].format(by=by, scorer=scorer)
    return f"{text}; {note}" if note else text
