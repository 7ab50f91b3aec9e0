"""One page with the scores of a model beside those of people, with their distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from gazeattn import registry
from gazeattn.losses import LossLog
from gazeattn.report import style
from gazeattn.report.html import fill, linked
from gazeattn.report.style import (
    BASELINE,
    HUMAN,
    MODEL,
    clean,
    count,
    label,
    missing,
    number,
    records,
    shorten,
    styled,
)

MAX_FIGURES = 30
"""Figures of a page; more metrics stay in the tables, which the page says."""

BINS = 40
ROUNDING = 1e-12
"""What is nearer to 0 than this is shown as 0: values that cancel do so to the last bits only."""

LINES = {  # colour, dash and name of each kind
    "model": (MODEL, "-", "model and people"),
    "ceiling": (HUMAN, "--", "people among themselves"),
    "shuffled": (BASELINE, ":", "other stimulus"),
}


def scores_page(
    rows: pd.DataFrame,
    distributions: Mapping[str, Mapping[str, np.ndarray]],
    lost: LossLog,
    *,
    facts: Mapping[str, Any],
) -> str:
    """Return a self-contained page: a table of scores, a figure per metric, what was left out.

    Parameters
    ----------
    rows : DataFrame
        One row per metric: the result columns and those of ceiling, baseline, gap and counts.
    distributions : dict of metric to dict of kind to ndarray
        Values of all pairs; kinds are ``model``, ``ceiling`` and ``shuffled``.
    lost : LossLog
    facts : dict
        ``people, model, draws, seed, level, command``.
    """
    items = records(rows)
    first = items[0]
    figures = []
    for at, item in enumerate(items[:MAX_FIGURES]):
        name = label(item.metric)
        tree = style.svg_tree(
            distribution_figure(distributions[item.metric], name),
            f"scores-{at}",
            f"Distributions of {name}",
        )
        figures.append(
            {
                "title": name,
                "svg": Markup(style.svg_inline(tree)),
                "caption": _caption(item, distributions[item.metric]),
            }
        )
    return fill(
        "scores.html.j2",
        title=f"{shorten(first.model)} on {shorten(first.dataset)}: scores",
        sentences=_sentences(items, facts),
        facts=[
            (label(k), clean(facts[k])) for k in ("people", "model", "draws", "seed") if k in facts
        ],
        command=clean(facts.get("command", "")),
        figures=figures,
        tables=[
            _scores_table(items, float(facts.get("level", 0.95))),
            _counts_table(items),
            _lost_table(lost),
            page_table(
                "Conventions",
                {"metric": "", "convention": "prose"},
                [(label(r.metric), r.convention or "–") for r in items],
            ),
        ],
        citations=[linked(c) for c in _citations(items)],
    )


def _sentences(items: list[Any], facts: Mapping[str, Any]) -> list[str]:
    """Say how many metrics place the model beside people, by the intervals of the gap."""
    worse = equal = better = 0
    for r in items:
        if r.better == "neither" or missing(r.gap_low) or missing(r.gap_high):
            continue
        low, high = (r.gap_low, r.gap_high) if r.better == "higher" else (-r.gap_high, -r.gap_low)
        worse, better = worse + (high < 0), better + (low > 0)
        equal += low <= 0 <= high
    known = worse + equal + better
    if known:
        text = (
            f"{count(known)} {'score has' if known == 1 else 'scores have'} a human ceiling: the "
            f"model is less alike to people than they are to each other in {count(worse)}, cannot "
            f"be told from them in {count(equal)}, and is more alike in {count(better)}."
        )
    else:
        text = "No score has an interval against a human ceiling."
    sentences = [
        text,
        "The ceiling compares every person with the others who saw the same stimulus; the baseline "
        "compares the model with people who saw another one. An average path can be more alike to "
        "people than they are to each other; the distributions below show that.",
    ]
    if len(items) > MAX_FIGURES:
        sentences.append(f"Figures of the first {MAX_FIGURES} of {count(len(items))} scores.")
    return sentences


def page_table(
    title: str,
    columns: Mapping[str, str],
    rows: Sequence[Sequence[Any]],
    note: str = "",
    *,
    empty: str = "",
) -> dict[str, Any]:
    """Return what a page shows of a table.

    Parameters
    ----------
    title, note
    columns
        Names and the classes of their cells.
    rows
        Cells are a text, or a value and its interval, which stands below it.
    empty
        First cell of the one row of a table that has none; without it there is no row.
    """
    cells = [[c if isinstance(c, tuple) else (c, "") for c in row] for row in rows]
    shown = [[(clean(c), clean(i)) for c, i in row] for row in cells]
    if empty and not shown:
        shown = [[(empty, ""), *[("", "")] * (len(columns) - 1)]]
    heads = [clean(c) for c in columns]
    parts = {"columns": heads, "kinds": list(columns.values()), "rows": shown}
    return {"title": clean(title), "note": clean(note), **parts}


def interval_cell(value: Any, low: Any, high: Any) -> tuple[str, str]:
    """Return a value and its interval, which stands below it; a missing value is a dash."""
    if missing(value):
        return "–", ""
    shown = [0.0 if abs(v) < ROUNDING else v for v in (value, low, high)]
    return number(shown[0]), "" if missing(low) else f"{number(shown[1])} to {number(shown[2])}"


def _scores_table(items: list[Any], level: float) -> dict[str, Any]:
    rows = [
        (
            label(r.metric),
            r.better,
            interval_cell(r.value, r.low, r.high),
            interval_cell(r.ceiling, r.ceiling_low, r.ceiling_high),
            interval_cell(r.shuffled, r.shuffled_low, r.shuffled_high),
            interval_cell(r.gap, r.gap_low, r.gap_high),
            count(r.n),
        )
        for r in items
    ]
    note = (
        f"Means over stimuli with {style.percent(level)} intervals from drawing stimuli with "
        "replacement. The gap is the model less the ceiling, over stimuli that have both."
    )
    numbers = ("model", "human ceiling", "other stimulus", "gap", "stimuli")
    return page_table(
        "Scores", {"metric": "", "better": "", **dict.fromkeys(numbers, "n")}, rows, note
    )


def _counts_table(items: list[Any]) -> dict[str, Any]:
    rows = [
        (
            label(r.metric),
            *(
                f"{count(getattr(r, f'{p}undefined'))} of {count(getattr(r, f'{p}pairs'))}"
                for p in ("", "ceiling_", "shuffled_")
            ),
        )
        for r in items
    ]
    numbers = ("model", "human ceiling", "other stimulus")
    head = {"metric": "", **dict.fromkeys(numbers, "n")}
    return page_table("Comparisons without a value", head, rows)


def _lost_table(lost: LossLog) -> dict[str, Any]:
    rows = [
        (x.step, x.kind, f"{count(x.count)} {style.plural_unit(x.count, x.unit)}", x.reason,
         shorten(x.examples))
        for x in lost
    ]  # fmt: skip
    head = {"step": "", "kind": "", "count": "n", "what": "prose", "first": "prose"}
    return page_table("What was left out or is doubtful", head, rows, empty="none")


def _caption(item: Any, kinds: Mapping[str, np.ndarray]) -> str:
    sizes = "; ".join(f"{LINES[k][2]}: {count(len(v))} values" for k, v in kinds.items() if len(v))
    alike = "is no measure of likeness" if item.better == "neither" else "is more alike"
    which = "this part" if item.better == "neither" else item.better
    return (
        f"Share of comparisons per value; {which} {alike}, vertical lines are medians. "
        f"{style.sentence(sizes or 'no value')}."
    )


def _citations(items: list[Any]) -> list[str]:
    found: dict[str, str] = {}
    for r in items:
        name = str(r.metric).partition(".")[0]
        if name in registry.metrics:
            found[name] = str(registry.metrics.get(name).info.get("citation", ""))
    return [f"{label(name)}: {text}" for name, text in found.items() if text]


@styled
def distribution_figure(kinds: Mapping[str, np.ndarray], name: str) -> Any:
    """Return the distributions of a metric over pairs, one line per kind of comparison.

    Parameters
    ----------
    kinds : dict of ``model``, ``ceiling``, ``shuffled`` to ndarray
        Values; those that are not finite are not drawn.
    name : str
        Of the axis.
    """
    drawn = {k: v[np.isfinite(v)] for k, v in kinds.items() if k in LINES}
    drawn = {k: v for k, v in drawn.items() if len(v)}
    if not drawn:
        return style.empty("No comparison has a value.")
    every = np.concatenate(list(drawn.values()))
    low, high = float(every.min()), float(every.max())
    if not high > low:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, BINS + 1)
    figure = style.new_figure(style.WIDTH, 2.6)
    ax = figure.subplots()
    for kind, values in drawn.items():
        colour, dash, text = LINES[kind]
        share = np.histogram(values, bins=edges)[0] / len(values)
        ax.stairs(share, edges, color=colour, ls=dash, lw=1.6, label=text)
        ax.axvline(float(np.median(values)), color=colour, ls=dash, lw=1)
    ax.set(xlabel=name, ylabel="share", ylim=(0, None))
    ax.yaxis.set_major_formatter(lambda v, _: style.percent(v))
    # above the axes: inside there is no place that lines never cross
    figure.legend(
        loc="outside upper left", ncols=len(drawn), columnspacing=1.2, handlelength=1.6,
        fontsize="small",
    )  # fmt: skip
    return figure
