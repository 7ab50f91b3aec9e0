"""The page of the experiment `heads`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import BoundaryNorm, ListedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from gazeattn.lm.heads import FIGURES, LABELS
from gazeattn.report import style
from gazeattn.report.benchmark import Drawing, write_page
from gazeattn.report.figures import head_map
from gazeattn.report.scores import page_table
from gazeattn.report.style import clean, count, label, metric_label, styled

COLOURS = dict(
    zip(LABELS, (*style.SERIES[:3], "#7d8694", *style.SERIES[3:], "#d9dde3"), strict=True)
)
LETTERS = {"induction": "i", "retrieval": "r", "previous": "p", "first": "f", "delimiter": "d",
           "local": "l", "broad": "b", "mixed": ""}  # fmt: skip
ALPHA = 0.05
MOST = 20
"""Heads in the ranking of the page; the files have all."""


@styled
def label_map(table: pd.DataFrame) -> Figure:
    """Draw the label of every head, layers from left to right; a letter beside the colour."""
    layer, head = table["layer"].to_numpy(int), table["head"].to_numpy(int)
    shape = (int(head.max()) + 1, int(layer.max()) + 1)
    cells = np.full(shape, LABELS.index("mixed"))
    cells[head, layer] = [LABELS.index(x) for x in table["label"]]
    figure = style.new_figure(style.WIDTH, float(np.clip(1.9 + 0.24 * shape[0], 2.4, 8.5)))
    ax = figure.add_subplot()
    ax.pcolormesh(
        np.arange(shape[1] + 1) - 0.5,
        np.arange(shape[0] + 1) - 0.5,
        cells,
        cmap=ListedColormap(list(COLOURS.values())),
        norm=BoundaryNorm(np.arange(len(LABELS) + 1) - 0.5, len(LABELS)),
        rasterized=cells.size > 2000,
        linewidth=0.3,
        edgecolors="face",
    )
    if cells.size <= 600:
        for r, c in np.ndindex(shape):
            name = LABELS[cells[r, c]]
            light = float(np.dot(to_rgb(COLOURS[name]), [0.299, 0.587, 0.114])) > 0.5
            ax.text(c, r, LETTERS[name], ha="center", va="center", fontsize=5.5,
                    color="#101318" if light else "#fdfdfd")  # fmt: skip
    ax.set_ylim(shape[0] - 0.5, -0.5)
    ax.xaxis.set_major_locator(MaxNLocator(12, integer=True, min_n_ticks=1))
    ax.yaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    ax.set_xlabel("layer (0 is next to the input)")
    ax.set_ylabel("head")
    for spine in ax.spines.values():
        spine.set_visible(False)
    present = [x for x in LABELS if (table["label"] == x).any()]
    marks = [Patch(color=COLOURS[x], label=f"{x} ({LETTERS[x]})" if LETTERS[x] else x)
             for x in present]  # fmt: skip
    figure.legend(handles=marks, loc="outside lower center", ncols=4, frameon=False)
    return figure


def sentences(table: pd.DataFrame) -> list[str]:
    """Say in words which head is most like readers, and how many differ from chance."""
    known = table[table["value"].notna()]
    measure, metric = label(table["measure"].iloc[0]), metric_label(table["metric"].iloc[0])
    if not len(known):
        return [f"No head could be compared with {measure}."]
    best = known.iloc[0]
    sure = known[known["q"] < ALPHA]
    line = (
        f"Head {best['head']} of layer {best['layer']} ({best['label']}) is most like readers: "
        f"{metric} {best['value']:.2f} with {measure}"
    )
    if pd.notna(best["low"]):
        line += f" (95 % interval {best['low']:.2f} to {best['high']:.2f})"
    if known["q"].notna().any():
        over = int((sure["value"] > 0).sum())
        second = (
            f"{len(sure)} of {len(known)} heads differ from permuted words (q < {ALPHA:g}, "
            f"Benjamini-Hochberg over all heads), {over} of them with a positive value."
        )
    else:
        second = "No permutations were drawn, so that there are no p values."
    third = "The best of many heads looks better than it is; intervals do not correct for that."
    return [line + ".", second, third]


def write_heads_page(
    table: pd.DataFrame,
    folder: Path,
    *,
    facts: Mapping[str, Any],
    thresholds: Mapping[str, float],
    command: str,
    info: Mapping[str, Any],
) -> Path:
    """Write ``report.html`` with the ranking, the labels and the figures of all heads.

    Parameters
    ----------
    table
        Of `gazeattn.experiments.heads.catalogue`, with measure and metric.
    folder
    facts
        ``texts, text_rows, copied, missing``.
    thresholds
        Label to value.
    command
    info
        Of the comparison.
    """
    measure, metric = str(table["measure"].iloc[0]), str(table["metric"].iloc[0])
    drawings = [
        Drawing("likeness", "Likeness to readers",
                head_map(table, measure=measure, metric=metric, method="raw"),
                "Attention that words receive in each head, against the mean over readers; mean "
                "over texts."),
        Drawing("labels", "What the heads do", label_map(table),
                "The first label that holds, in the order of the table of labels."),
    ]  # fmt: skip
    top = table[table["value"].notna()].head(MOST)
    columns = {"rank": "n", "layer": "n", "head": "n", "label": "", metric_label(metric): "n",
               "q": "n", **{clean(f): "n" for f in FIGURES}}  # fmt: skip
    lines = [
        [count(int(r["rank"])), str(r["layer"]), str(r["head"]), clean(r["labels"]),
         (_number(r["value"]), _interval(r)), style.p_value(r["q"]),
         *(_number(r[f]) for f in FIGURES)]
        for _, r in top.iterrows()
    ]  # fmt: skip
    note = (
        f"The {len(top)} of {len(table)} heads most like readers; heads.csv has all. Shares of "
        "attention; entropy over ln of the visible tokens; distance in tokens, without the first."
    )
    tables = [page_table("Ranking", columns, lines, note, empty="none")]
    rows = []
    for name in LABELS:
        part = table[table["label"] == name]
        limit = thresholds.get(name)
        rule = "none of the others"
        if limit is not None:
            figure = {"local": "distance", "broad": "entropy"}.get(name, name)
            rule = f"{figure} {'≤' if name == 'local' else '≥'} {limit:g}"
        every = int(table["labels"].str.split().map(lambda x, name=name: name in x).sum())
        middle = part["value"].mean() if len(part) else np.nan
        rows.append([name, rule, count(len(part)), count(every), _number(middle)])
    heads = {"label": "", "rule": "", "heads": "n", "with others": "n",
             f"mean {metric_label(metric)}": "n"}  # fmt: skip
    tables.append(page_table("Labels", heads, rows, "heads: this label is the first that holds."))
    about: dict[str, object] = {
        "Data": info.get("dataset", {}).get("name", table["dataset"].iloc[0]),
        "Readers": info.get("dataset", {}).get("n_readers", "–"),
        "Model": str(table["model"].iloc[0]),
        "Texts": count(int(facts["texts"])),
        "Rows of attention": count(int(facts["text_rows"])),
    }
    if "copied" in facts:
        about["Needle brought out"] = style.percent(facts["copied"])
    for i, missing in enumerate(facts.get("missing", ())):
        about[f"Left out {i + 1}"] = missing
    return write_page(
        folder,
        title="What attention heads do, and which are like readers",
        sentences=sentences(table),
        facts=about,
        command=command,
        drawings=drawings,
        tables=tables,
    )


def _number(value: Any) -> str:
    return "–" if pd.isna(value) else f"{value:.2f}"


def _interval(row: pd.Series) -> str:
    return "" if pd.isna(row["low"]) else f"{row['low']:.2f} to {row['high']:.2f}"
