"""What was lost on the way, as texts for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from gazeattn.attention.comparison import Comparison
from gazeattn.report import style
from gazeattn.report.style import count, label, missing, number, percent, plural_unit


def losses(comparison: Comparison) -> list[dict[str, str]]:
    """Return the loss log as texts."""
    return [
        {
            "step": style.shorten(x.step, 80),
            "kind": x.kind,
            "count": f"{count(x.count)} {plural_unit(x.count, style.clean(x.unit))}",
            "reason": style.shorten(x.reason, 400),
            "examples": style.shorten(x.examples, 120) if x.examples else "",
        }
        for x in comparison.lost
    ]


MASSES = {
    "start_token": "start token",
    "special": "special tokens",
    "special_tokens": "special tokens",
    "context": "context before the text",
    "gap": "tokens between words",
    "first_word": "first word",
    "own_word": "the word itself",
    "missing_rows": "query tokens without a score",
}
"""Names of masses in `Comparison.info["model_lost"]`; other entries are counts per text."""


def masses(comparison: Comparison) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the mass that each method put on excluded tokens: column names and rows.

    Columns that are 0 for every method are left out.
    """
    lost: Mapping[str, Any] = comparison.info.get("model_lost", {}) or {}
    tables = {m: v if isinstance(v, Mapping) else {"mass": v} for m, v in lost.items()}
    columns = list(dict.fromkeys(str(k) for v in tables.values() for k in v))
    columns.sort(key=lambda c: not _is_mass(c))
    columns = [c for c in columns if any(v.get(c) not in (None, 0) for v in tables.values())]
    rows = [
        {"method": label(m), "cells": [_fact(v.get(c), c) for c in columns]}
        for m, v in tables.items()
    ]
    shown = [MASSES.get(c) or label(c) + ("" if _is_mass(c) else " per text") for c in columns]
    return shown, rows


def _is_mass(column: str) -> bool:
    return column in MASSES or "mass" in column


def _fact(value: Any, column: str) -> str:
    if missing(value):
        return "–"
    if isinstance(value, bool | str):
        return style.shorten(value, 60)
    return percent(value) if _is_mass(column) else number(value)


def unscored(comparison: Comparison) -> list[dict[str, str]]:
    """Return, for every profile name, how many of its words have no score."""
    p = comparison.profiles
    if not len(p):
        return []
    level = p["participant"].isna()
    if not (level & (p["kind"] == "human")).any():
        level |= p["kind"] == "human"
    rows = p[level]
    grouped = rows.assign(none=rows["weight"].isna()).groupby(["kind", "name"], sort=False)["none"]
    facts = grouped.agg(["sum", "size"]).reset_index()
    return [
        {
            "name": style.shorten(label(r.name), 40),
            "kind": str(r.kind),
            "count": f"{count(r.sum)} of {count(r.size)}",
            "share": percent(r.sum / r.size),
        }
        for r in style.records(facts)
        if r.sum
    ]


def undefined(trials: pd.DataFrame) -> list[dict[str, str]]:
    """Return how many trials have no value, by method and reason, over measures and metrics."""
    rows = trials[trials["value"].isna()]
    if not len(rows):
        return []
    rows = rows.assign(reason=rows["reason"].fillna("no reason recorded"))
    grouped = rows.groupby(["method", "reason"], sort=False)
    facts = grouped.agg(
        n=("value", "size"),
        trials=("trial", "nunique"),
        metrics=("metric", lambda v: ", ".join(style.metric_label(x) for x in dict.fromkeys(v))),
        measures=("measure", lambda v: ", ".join(label(x) for x in dict.fromkeys(v))),
    ).reset_index()
    everything = trials["measure"].nunique()
    return [
        {
            "method": style.shorten(label(r.method), 40),
            "trials": count(r.trials),
            "count": count(r.n),
            "where": f"{r.metrics}; "
            + ("all measures" if len(r.measures.split(", ")) == everything > 1 else r.measures),
            "reason": style.shorten(r.reason, 200),
        }
        for r in style.records(facts.sort_values("n", ascending=False, kind="stable"))
    ]
