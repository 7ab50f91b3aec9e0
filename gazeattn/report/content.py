"""What the page says: every cell of the report as text, before any HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.attention.answer import orientation
from gazeattn.attention.collect import CLEAR_CEILING
from gazeattn.attention.comparison import Comparison
from gazeattn.report import style
from gazeattn.report.style import count, label, missing, number, p_value, percent, plural_unit


@dataclass(frozen=True)
class Selection:
    """What the page shows first.

    Attributes
    ----------
    measure, metric, level : str
        First of each in the settings, as in `Comparison.table`.
    best : str or None
        Attention method with the best value.
    heads : str or None
        Best attention method that has single heads for the metric; the heat map shows it.
    """

    measure: str
    metric: str
    level: str
    best: str | None
    heads: str | None


def names(comparison: Comparison, column: str) -> list[str]:
    """Return the measures or metrics in the order of the settings, further ones after them."""
    wanted = [str(v) for v in comparison.info.get("settings", {}).get(f"{column}s", ())]
    there = [str(v) for v in comparison.summary[column].dropna().unique()]
    return [v for v in wanted if v in there] + [v for v in there if v not in wanted]


def select(comparison: Comparison) -> Selection:
    """Return the default selection of a comparison."""
    settings = comparison.info.get("settings", {})
    measures, metrics = names(comparison, "measure"), names(comparison, "metric")
    measure = measures[0] if measures else str(next(iter(settings.get("measures", [""]))))
    metric = metrics[0] if metrics else str(next(iter(settings.get("metrics", [""]))))
    level = str(settings.get("level", "mean"))
    rows = table(comparison, Selection(measure, metric, level, None, None))
    models = rows[(rows["kind"] != "baseline") & rows["value"].notna()]
    ranked = [str(m) for m in models["method"]]
    s = comparison.summary
    per_head = s[s["head"].notna() & (s["measure"] == measure) & (s["metric"] == metric)]
    sizes = per_head.groupby("method")["head"].nunique()
    heads = next((m for m in ranked if sizes.get(m, 0) > 1), None)
    heads = heads or next((m for m in ranked if m in sizes), None)
    return Selection(measure, metric, level, ranked[0] if ranked else None, heads)


def table(
    comparison: Comparison, chosen: Selection, measure: str | None = None, metric: str | None = None
) -> pd.DataFrame:
    """Return the aggregate rows for one measure and metric, best first, undefined ones last."""
    measure, metric = measure or chosen.measure, metric or chosen.metric
    s = comparison.summary
    rows = s[
        (s["measure"] == measure)
        & (s["metric"] == metric)
        & s["layer"].isna()
        & s["head"].isna()
        & (s["level"] == chosen.level)
    ]
    rows = rows.assign(_order=orientation(metric, measure) * rows["value"].astype(float))
    rows = rows.sort_values("_order", ascending=False, kind="stable", na_position="last")
    return rows.drop(columns="_order").reset_index(drop=True)


def aggregates(comparison: Comparison, level: str) -> pd.DataFrame:
    """Return the alignment rows without layer and head at one level."""
    a = comparison.alignment
    return a[a["layer"].isna() & a["head"].isna() & (a["level"] == level)]


# the method table ---------------------------------------------------------------------------------


def method_table(
    comparison: Comparison, chosen: Selection, measure: str, metric: str, trials: pd.DataFrame
) -> dict[str, Any]:
    """Return the method table of one measure and metric as texts and bar positions.

    Parameters
    ----------
    trials
        `aggregates` of the comparison: reasons for undefined values come from there.

    Returns
    -------
    dict
        ``rows`` (texts per column, bar positions in percent), ``notes`` (why a cell is empty),
        ``axis`` (ends of the plot column as texts) and ``zero`` (position of 0).
    """
    rows = table(comparison, chosen, measure, metric)
    partial = _partial(comparison, chosen, measure, metric)
    numbers = {
        c: pd.to_numeric(rows[c], errors="coerce").to_numpy(float, na_value=np.nan)
        for c in (
            "value",
            "low",
            "high",
            "ceiling",
            "ceiling_upper",
            "relative",
            "chance",
            "p",
            "q",
        )
    }
    low, high = _limits(numbers)
    write = style.decimals(np.concatenate([numbers[k] for k in ("value", "low", "high")]))

    def place(x: float) -> float | None:
        return round(100 * (x - low) / (high - low), 2) if math.isfinite(x) else None

    reasons = _reasons(trials, measure, metric)
    no_partial = _reasons(trials, measure, partial_name(comparison, metric))
    no_ceiling = _no_ceiling(trials, measure, metric)
    notes: list[str] = []

    def note(text: str) -> int:
        if text not in notes:
            notes.append(text)
        return notes.index(text) + 1

    out = []
    for i, row in enumerate(style.records(rows)):
        v = {k: float(x[i]) for k, x in numbers.items()}
        method = str(row.method)
        undefined = not math.isfinite(v["value"])
        why = reasons.get(method, "the value is undefined in every trial")
        cell_notes: dict[str, int] = {}
        if undefined:
            cell_notes["value"] = note(f"{label(method)}: {why}")
        elif math.isnan(v["relative"]):
            cell_notes["relative"] = note(_no_relative(v["ceiling"], no_ceiling, chosen.level))
        if math.isnan(v["p"]) and not undefined:
            cell_notes["p"] = note("no permutation test for this row")
        kept = partial.get(method, math.nan)
        if math.isnan(kept) and not undefined and partial:
            cell_notes["partial"] = note(
                "no partial correlation: "
                + no_partial.get(method, "it is undefined in every trial")
            )
        out.append(
            {
                "method": style.shorten(label(method), 40),
                "code": style.shorten(method, 80),
                "kind": "baseline" if row.kind == "baseline" else "model",
                "value": write(v["value"]),
                "interval": ""
                if math.isnan(v["low"]) or math.isnan(v["high"])
                else f"[{write(v['low'])}, {write(v['high'])}]",
                "relative": percent(v["relative"]),
                "p": p_value(v["p"]),
                "q": p_value(v["q"]),
                "partial": write(kept),
                "chance": write(v["chance"]),
                "trials": count(row.n_trials)
                + (
                    f" of {count(row.n_trials + row.n_undefined)}"
                    if _positive(row.n_undefined)
                    else ""
                ),
                "plot": {k: place(v[k]) for k in ("value", "low", "high", "ceiling")},
                "notes": cell_notes,
            }
        )
    zero = place(0.0)
    return {
        "rows": out,
        "notes": notes,
        "axis": [number(low), number(high)],
        "zero": zero if zero is not None and 0 <= zero <= 100 else None,
        "ceiling": number(float(np.nanmedian(numbers["ceiling"])))
        if np.isfinite(numbers["ceiling"]).any()
        else "",
    }


def _positive(value: object) -> bool:
    return not missing(value) and int(value) > 0  # type: ignore[call-overload]


def _partial(
    comparison: Comparison, chosen: Selection, measure: str, metric: str
) -> dict[str, float]:
    there = [m for m in names(comparison, "metric") if m.startswith("partial")]
    fitting = [m for m in there if m == f"partial_{metric}"] or there
    if not fitting:
        return {}
    rows = table(comparison, chosen, measure, fitting[0])
    return dict(zip(rows["method"].astype(str), rows["value"].astype(float), strict=True))


def partial_name(comparison: Comparison, metric: str) -> str:
    """Return the partial correlation that the table shows beside a metric ('' for none)."""
    there = [m for m in names(comparison, "metric") if m.startswith("partial")]
    return next((m for m in there if m == f"partial_{metric}"), there[0] if there else "")


def _limits(numbers: Mapping[str, np.ndarray]) -> tuple[float, float]:
    shown = np.concatenate([numbers[k] for k in ("value", "low", "high", "ceiling")])
    shown = shown[np.isfinite(shown)]
    low, high = min(0.0, shown.min(initial=0.0)), max(0.0, shown.max(initial=0.0))
    if not high > low:
        return -1.0, 1.0
    step = 10.0 ** math.floor(math.log10((high - low) / 2))
    return float(math.floor(low / step) * step), float(math.ceil(high / step) * step)


def _no_relative(ceiling: float, reason: str, level: str) -> str:
    if math.isnan(ceiling):
        return f"no share of the ceiling: {reason}"
    if ceiling < CLEAR_CEILING:
        return f"no share of the ceiling: readers agree at {number(ceiling)}, not clearly above 0"
    if level == "mean":
        return "no share of the ceiling: an average over readers is less noisy than one reader"
    return "no share of the ceiling: it has a meaning for correlations only"


def _no_ceiling(trials: pd.DataFrame, measure: str, metric: str) -> str:
    unknown = "the agreement between readers is not known"
    if "ceiling_reason" not in trials:
        return unknown
    rows = trials[(trials["measure"] == measure) & (trials["metric"] == metric)]
    given = rows.loc[rows["ceiling"].isna(), "ceiling_reason"].dropna()
    return style.shorten(given.mode().iloc[0], 200) if len(given) else unknown


def _reasons(trials: pd.DataFrame, measure: str, metric: str) -> dict[str, str]:
    unit = "texts" if (trials["level"] == "mean").all() else "trials"
    rows = trials[
        (trials["measure"] == measure) & (trials["metric"] == metric) & trials["value"].isna()
    ]
    if not len(rows):
        return {}
    counted = rows.assign(reason=rows["reason"].fillna("undefined")).groupby(["method", "reason"])
    sizes = counted.size().reset_index(name="n").sort_values("n", ascending=False, kind="stable")
    first = sizes.drop_duplicates("method")
    return {
        str(r.method): f"{style.shorten(r.reason, 200)} ({count(r.n)} {plural_unit(r.n, unit)})"
        for r in style.records(first)
    }


# the texts ----------------------------------------------------------------------------------------

MAX_CELLS = 150_000
"""Word scores that the page embeds; further texts are in the files only."""


def texts(comparison: Comparison, chosen: Selection) -> tuple[list[dict[str, Any]], int]:
    """Return the texts with the scores of every word, and how many texts were left out.

    Human profiles are the averages over readers where there are any, else the first reader's.
    """
    p = comparison.profiles
    if not len(p):
        return [], 0
    human = p[p["kind"] == "human"]
    means = human[human["participant"].isna()]
    reader = None
    if not len(means) and len(human):
        reader = human["participant"].iloc[0]
        means = human[human["participant"] == reader]
    other = p[(p["kind"] != "human") & p["participant"].isna()]
    agreement = _agreement(comparison, chosen)
    out: list[dict[str, Any]] = []
    cells, left_out = 0, 0
    order = p[["stimulus", "trial"]].drop_duplicates()
    by_text = {k: g for k, g in means.groupby(["stimulus", "trial"], sort=False, dropna=False)}
    models = {k: g for k, g in other.groupby(["stimulus", "trial"], sort=False, dropna=False)}
    shared = {k: g for k, g in other.groupby("stimulus", sort=False)}
    for key in order.itertuples(index=False, name=None):
        if key not in by_text:
            continue
        scores = pd.concat([by_text[key], models.get(key, shared.get(key[0], other.iloc[:0]))])
        cells += len(scores)
        if out and cells > MAX_CELLS:
            left_out += 1
            continue
        out.append(_text(scores, key, len(out), agreement, reader))
    return out, left_out


def _text(
    scores: pd.DataFrame,
    key: tuple[str, str],
    position: int,
    agreement: Mapping[str, dict[str, str]],
    reader: str | None,
) -> dict[str, Any]:
    words = scores.drop_duplicates("index").sort_values("index")
    index = words["index"].to_numpy()
    shown = [style.shorten(w) for w in words["text"]]
    profiles: dict[str, dict[str, Any]] = {"human": {}, "model": {}}
    for (kind, name), rows in scores.groupby(["kind", "name"], sort=False):
        rows = rows.drop_duplicates("index").set_index("index").reindex(index)
        weights = rows["weight"].to_numpy(dtype=float, na_value=np.nan)
        levels, low, high = style.word_levels(weights)
        side = "human" if kind == "human" else "model"
        profiles[side][str(name)] = {
            "kind": str(kind),
            "label": style.shorten(label(name), 40),
            "levels": "".join("-" if v < 0 else str(v) for v in levels),
            "values": [number(v) for v in weights],
            "ends": [number(low), number(high)],
            "missing": int(np.isnan(weights).sum()),
        }
    start = " ".join(shown[:5])
    title = f"{position + 1}. {style.shorten(start, 44)}" + (" …" if len(shown) > 5 else "")
    return {
        "title": title,
        "id": style.shorten(key[1] if not missing(key[1]) else key[0], 80),
        "stimulus": str(key[0]),
        "trial": str(key[1]),
        "reader": "" if reader is None else style.shorten(reader, 40),
        "words": shown,
        "agreement": agreement.get(str(key[1]), {}),
        **profiles,
    }


def _agreement(comparison: Comparison, chosen: Selection) -> dict[str, dict[str, str]]:
    # without the ceiling: the page shows the average reader, the ceiling is of single readers
    rows = aggregates(comparison, "mean")
    if not len(rows):
        rows = aggregates(comparison, chosen.level)
    rows = rows[rows["metric"] == chosen.metric]
    out: dict[str, dict[str, str]] = {}
    for r in style.records(rows[["trial", "measure", "method", "value"]]):
        out.setdefault(str(r.trial), {})[f"{r.measure}|{r.method}"] = number(r.value)
    return out


# facts --------------------------------------------------------------------------------------------


def flatten(facts: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    """Yield nested facts as pairs of text, keys joined by dots."""
    for key, value in facts.items():
        name = f"{prefix}{style.clean(key)}"
        if isinstance(value, Mapping):
            yield from flatten(value, f"{name}.")
        elif isinstance(value, list | tuple | set | frozenset):
            yield name, style.shorten(", ".join(map(str, value)), 2000) or "–"
        else:
            yield name, "–" if missing(value) else style.shorten(value, 2000)


def conventions(comparison: Comparison) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the named rules in groups: measures, methods, baselines, metrics, and the rest.

    A rule that is a list of ``key: value`` pairs loses the pairs that all methods share, which
    are given once, and plain numbers, which count single texts.
    """
    rules = {str(k): style.clean(v) for k, v in comparison.info.get("conventions", {}).items()}
    settings = comparison.info.get("settings", {})
    groups = []
    taken: set[str] = set()
    for title, key in (
        ("Human measures", "measures"),
        ("Attention methods", "methods"),
        ("Baselines", "baselines"),
        ("Metrics", "metrics"),
    ):
        here = [n for n in map(str, settings.get(key, ())) if n in rules and n not in taken]
        taken.update(here)
        if here:
            groups.append((title, _shared({n: rules[n] for n in here})))
    rest = {n: r for n, r in rules.items() if n not in taken}
    named = [(n if len(n) == 1 else style.sentence(label(n)), r) for n, r in rest.items()]
    groups.insert(0, ("Rules", named))
    return [(title, rows) for title, rows in groups if rows]


def _shared(rules: Mapping[str, str]) -> list[tuple[str, str]]:
    pairs = {n: _pairs(r) for n, r in rules.items()}
    listed = [p for p in pairs.values() if p]
    common: dict[str, str] = {}
    if len(listed) > 1:
        common = {k: v for k, v in listed[0].items() if all(p.get(k) == v for p in listed)}
    rows = [("All of them", _written(common))] if common else []
    for name, rule in rules.items():
        own = {k: v for k, v in pairs[name].items() if k not in common}
        full = style.metric_label(name)
        rows.append((style.sentence(full), _written(own) if pairs[name] else rule))
    return rows


def _pairs(rule: str) -> dict[str, str]:
    """Return the pairs of a rule like ``sink: start_token; causal: none``, else nothing."""
    parts = re.split(r"; (?=[a-z_]+: )", rule)
    if len(parts) < 3 or not all(re.match(r"[a-z_]+: ", p) for p in parts):
        return {}
    found = dict(p.split(": ", 1) for p in parts)
    return {k: v for k, v in found.items() if not re.fullmatch(r"-?[\d.e+-]+", v) and v.strip()}


def _written(pairs: Mapping[str, str]) -> str:
    plain = {"True": "yes", "False": "no"}
    return "; ".join(f"{label(k)}: {plain.get(v, v)}" for k, v in pairs.items() if k != "method")
