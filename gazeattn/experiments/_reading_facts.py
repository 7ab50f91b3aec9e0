"""What is said of the best model of a task: its scores, and differences to published ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from gazeattn.datamodules.reading_tasks import ReadingTask
from gazeattn.errors import DataError
from gazeattn.experiments.reading_scores import ALL, Draws, best_of, over_folds, paired

REGIMES = (ALL, "unseen_text", "unseen_reader", "unseen_both")


def best_row(name: str, table: pd.DataFrame, metric: str) -> dict[str, Any]:
    """Return a model's headline in every regime."""
    values = {r: over_folds(table, metric, r)[0] for r in REGIMES}
    return {"model": name, **{r: float(f"{v:.6g}") for r, v in values.items() if v == v}}


def against(
    ours: pd.DataFrame, theirs: Mapping[str, pd.DataFrame], metric: str, draws: Draws
) -> dict[str, dict[str, Any]]:
    """Return the paired difference to the published model that is best in each regime."""
    found = {}
    if not theirs:
        return {}
    for regime in REGIMES:
        try:
            name, value = best_of(dict(theirs), metric, regime)
        except DataError:
            continue
        gap = paired(ours, theirs[name], metric, regime, draws)
        found[regime] = {
            **{k: float(f"{v:.6g}") for k, v in gap.items()},
            "against": name,
            "published": float(f"{value:.6g}"),
        }
    return found


def other_folds(task: ReadingTask) -> list[str]:
    """Say what is published of other folds."""
    given = dict(task.other_folds)
    source = given.pop("source", "published")
    values = given.get(task.metric)
    if not values:
        return []
    models = given.get("model", {})
    told = ", ".join(
        f"{r.replace('_', ' ')} {v:g}" + (f" ({models[r]})" if r in models else "")
        for r, v in values.items()
    )
    return [f"{source}, other folds and so not to be compared, {task.metric}: {told}."]


def above(
    ours: pd.DataFrame, baselines: Mapping[str, pd.DataFrame], metric: str, draws: Draws
) -> dict[str, dict[str, Any]]:
    """Return the paired difference to each of our baselines in every regime that both have."""
    found: dict[str, dict[str, Any]] = {}
    for name, table in baselines.items():
        for regime in REGIMES:
            gap = paired(ours, table, metric, regime, draws)
            if gap["difference"] == gap["difference"]:
                numbers = {k: float(f"{v:.6g}") for k, v in gap.items()}
                found.setdefault(name, {})[regime] = numbers
    return found
