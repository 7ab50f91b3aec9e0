"""What a comparison of human and model attention holds; reports and files are views of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from gazeattn.tables import LossLog

ALIGNMENT_COLUMNS = (
    "dataset",
    "stimulus",  # text that was read
    "trial",  # trial id; for level "mean" the layout id (with #2, ... for further groups)
    "participant",  # reader id; missing for level "mean"
    "level",  # "reader": one reader's profile; "mean": the average over readers of the text
    "condition",
    "measure",  # human measure
    "method",  # attention method, surprisal or baseline
    "kind",  # "model" | "baseline"
    "layer",  # Int64, 0-based; missing for the method's own aggregate
    "head",  # Int64, 0-based; missing for the layer's mean
    "metric",
    "value",
    "ceiling",  # leave-one-reader-out ceiling in the same metric and trial
    "ceiling_upper",
    "p",  # permutation of words within the trial
    "q",  # Benjamini-Hochberg over the heads (or layers) of (trial, measure, method, metric);
    # for a method's own row over the methods (or baselines) of (trial, measure, metric)
    "n_words",  # words with a score on both sides
    "n_lost",  # words of the text without one
    "convention",
    "reason",  # why value is missing, where it is
    "ceiling_reason",  # why a ceiling is missing, where one is
)

SUMMARY_COLUMNS = (
    "dataset",
    "measure",
    "method",
    "kind",
    "layer",
    "head",
    "metric",
    "level",
    "value",  # average over trials by the rule named in the settings
    "low",  # clustered bootstrap
    "high",
    "ceiling",
    "ceiling_upper",
    "relative",  # value / ceiling, correlations at level "reader" with a ceiling above 0 only
    "chance",  # mean under permutation
    "p",  # permutation p of the average
    "q",  # Benjamini-Hochberg over heads (head rows) or over methods (aggregate rows)
    "n_trials",
    "n_texts",
    "n_readers",
    "n_undefined",  # trials left out since the value is undefined there
    "convention",
)


@dataclass
class Comparison:
    """Result of `gazeattn.compare`.

    Attributes
    ----------
    answer : str
        One paragraph, its first sentence with the number of readers, that says how far the best
        method agrees with people, against the baselines and the ceiling.
    alignment : DataFrame
        `ALIGNMENT_COLUMNS`, one row per trial, measure, method, layer, head and metric.
    summary : DataFrame
        `SUMMARY_COLUMNS`: the averages, with layer and head missing for the aggregate rows.
    profiles : DataFrame
        Long table of all word profiles: ``dataset, stimulus, trial, participant, kind, name,
        index, unit, text, weight``; participant missing for means and models.
    transitions : DataFrame
        Reading order: ``dataset, stimulus, trial, participant, source, target, count`` (word
        indices).
    lost : LossLog
    info : dict
        ``dataset`` and ``lm`` facts (name, licence, citation, readers_note, n_readers, ...),
        ``conventions`` (name -> sentence), ``settings`` (all arguments), ``model_lost``
        (method -> mean mass on the start token, on special tokens, on the context).
    """

    answer: str
    alignment: pd.DataFrame
    summary: pd.DataFrame
    profiles: pd.DataFrame
    transitions: pd.DataFrame
    lost: LossLog
    info: dict[str, Any] = field(default_factory=dict)

    def table(self, metric: str | None = None, measure: str | None = None) -> pd.DataFrame:
        """Return the aggregate rows (no layer, no head) for one metric and measure.

        The defaults are the first metric and measure of the settings; rows are sorted with the
        highest value first.
        """
        settings = self.info["settings"]
        metric = metric or settings["metrics"][0]
        measure = measure or settings["measures"][0]
        s = self.summary
        rows = s[
            (s["metric"] == metric)
            & (s["measure"] == measure)
            & s["layer"].isna()
            & s["head"].isna()
            & (s["level"] == settings["level"])
        ]
        return rows.sort_values("value", ascending=False, kind="stable").reset_index(drop=True)

    def __str__(self) -> str:
        columns = ["method", "kind", "value", "low", "high", "ceiling", "p", "q", "n_trials"]
        return f"{self.answer}\n\n{self.table()[columns].to_string(index=False)}"
