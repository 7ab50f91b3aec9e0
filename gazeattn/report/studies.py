"""Pages of `gazeattn reproduce`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.report import style
from gazeattn.report.benchmark import Drawing, write_page
from gazeattn.report.scores import interval_cell, page_table
from gazeattn.report.style import BASELINE, MODEL, clean, count, label, number


def write_study_page(
    found: Mapping[str, Any], folder: Path, *, about: Mapping[str, Any], title: str, citation: str
) -> Path:
    """Write ``report.html`` of a study.

    Parameters
    ----------
    found
        ``says``, and tables: ``compared`` (block, method, model, k, metric, ours, given,
        difference), ``published_only``, ``live`` (method, k, metric, value, low, high, chance).
    folder
    about
        ``command``, ``size``, ``lm``.
    title, citation
    """
    drawings, tables = [], []
    live = found.get("live")
    if live is not None and len(live):
        drawings.append(
            Drawing("live", "Agreement with people, live", _live(live),
                    "F1 of the top tokens with the ranges that people marked; intervals draw "
                    "tasks; grey: as many tokens chosen by chance.")
        )  # fmt: skip
        tables += [_live_table(live, m) for m in dict.fromkeys(live["metric"])]
    correlated = found.get("correlations")
    if correlated is not None and len(correlated):
        drawings.append(
            Drawing("correlations", "Correlation with importance", _correlations(correlated),
                    "Spearman correlation over the words of a sentence, mean over sentences with "
                    "95 % intervals.")
        )  # fmt: skip
        tables.append(_correlation_table(correlated))
    contrast = found.get("contrast")
    if contrast is not None and len(contrast):
        tables.append(_contrast(contrast))
    agreement = found.get("agreement")
    if agreement is not None and len(agreement):
        tables.append(_agreement(agreement))
    moved = found.get("transfer")
    if moved is not None and len(moved):
        tables.append(_transfer(moved))
    compared = found.get("compared")
    if compared is not None and len(compared):
        tables += _compared_tables(compared)
    shown = found.get("published_only")
    if shown is not None and len(shown):
        tables.append(_published(shown))
    return write_page(
        folder,
        title=title,
        sentences=[
            *found["says"],
            *(["size=tiny only tries the steps: its numbers mean nothing."]
              if about.get("size") == "tiny" else []),
        ],
        facts={"study": citation, "model": about.get("lm") or "stored", "size": about["size"]},
        command=str(about["command"]),
        drawings=drawings,
        tables=tables,
    )  # fmt: skip


@style.styled
def _live(live: pd.DataFrame) -> Any:
    rows = live[live["metric"] == "f1"].copy()
    ks = list(dict.fromkeys(rows["k"]))
    rows["name"] = rows["method"] + np.where(rows["first_token"] == "drop", ", no first token", "")
    names = list(dict.fromkeys(rows["name"]))
    figure = style.new_figure(1.4 * style.WIDTH, 0.24 * len(names) + 1.0)
    axes = np.atleast_1d(figure.subplots(1, len(ks), sharey=True))
    for ax, k in zip(axes, ks, strict=True):
        part = rows[rows["k"] == k].set_index("name").reindex(names)
        at = np.arange(len(names))
        ax.plot(part["chance"], at, "|", color=BASELINE, ms=9)
        ax.hlines(at, part["low"], part["high"], color=MODEL, lw=1.4)
        ax.plot(part["value"], at, "o", color=MODEL, ms=4)
        ax.set_title(f"top {k:g}" if k >= 1 else f"top {100 * k:g} %")
        ax.locator_params(axis="x", nbins=3)
        ax.set_xlabel("F1")
    axes[0].set_yticks(range(len(names)), [clean(n) for n in names])
    axes[0].invert_yaxis()
    return figure


def _live_table(live: pd.DataFrame, metric: str) -> dict[str, Any]:
    part = live[live["metric"] == metric]
    ks = list(dict.fromkeys(part["k"]))
    lines = []
    for (method, rule), rows in part.groupby(["method", "first_token"], sort=False):
        cells = {r.k: r for r in style.records(rows)}
        lines.append([
            clean(str(method)) + (", first token left out" if rule == "drop" else ""),
            *[interval_cell(cells[k].value, cells[k].low, cells[k].high) for k in ks],
            number(float(rows["chance"].iloc[0])),
        ])  # fmt: skip
    heads = {f"top {k:g}" if k >= 1 else f"top {100 * k:g} %": "n" for k in ks}
    columns = {"method": "", **heads, f"chance, top {ks[0]:g}": "n"}
    return page_table(f"Live: {label(metric)}", columns, lines, "95 % intervals over tasks.")


@style.styled
def _correlations(table: pd.DataFrame) -> Any:
    plain = table[table["reference"] == ""]
    panels = list(plain.groupby(["lm", "truth"], sort=False))
    names = list(dict.fromkeys(plain["method"]))
    figure = style.new_figure(1.4 * style.WIDTH, 0.27 * len(names) + 1.2)
    axes = np.atleast_1d(figure.subplots(1, len(panels), sharey=True))
    for ax, ((lm, truth), rows) in zip(axes, panels, strict=True):
        rows = rows.set_index("method").loc[names]
        at = np.arange(len(names))
        ax.hlines(at, rows["low"], rows["high"], color=MODEL, lw=1.6)
        ax.plot(rows["value"], at, "o", color=MODEL, ms=5)
        ax.axvline(0, color=BASELINE, lw=0.8)
        ax.set_title(f"{clean(str(lm))}\n{label(str(truth))}")
        ax.set_xlabel("Spearman")
        ax.locator_params(axis="x", nbins=3)
    axes[0].set_yticks(range(len(names)), [clean(n) for n in names])
    axes[0].invert_yaxis()
    return figure


def _correlation_table(table: pd.DataFrame) -> dict[str, Any]:
    lines = [
        [clean(r.lm), label(r.truth),
         clean(f"{r.method} less {r.reference}" if r.reference else r.method),
         interval_cell(r.value, r.low, r.high), count(int(r.n))]
        for r in style.records(table)
    ]  # fmt: skip
    columns = {"model": "", "importance": "", "method": "", "correlation": "n", "sentences": "n"}
    return page_table("Correlation with importance", columns, lines)


def _contrast(table: pd.DataFrame) -> dict[str, Any]:
    cells = list(dict.fromkeys(table["cell"]))
    lines = []
    for method in dict.fromkeys(table["method"]):
        rows = table[table["method"] == method].set_index("cell").to_dict("index")
        shown = [interval_cell(rows[c]["value"], rows[c]["low"], rows[c]["high"]) for c in cells]
        lines.append([clean(str(method)), *shown])
    columns = {"method": "", **dict.fromkeys(map(clean, cells), "n")}
    note = "Spearman correlation with single readers; intervals draw readers and texts."
    return page_table("By goal, with and without the question", columns, lines, note)


def _agreement(table: pd.DataFrame) -> dict[str, Any]:
    lines = [
        [clean(r.method), clean(r.kind), interval_cell(r.value, r.low, r.high),
         number(r.ceiling), number(r.p), number(r.q), count(int(r.n_trials))]
        for r in style.records(table)
    ]  # fmt: skip
    columns = {"method": "", "kind": "", "agreement": "n", "readers with each other": "n",
               "p": "n", "q": "n", "readings": "n"}  # fmt: skip
    note = "Spearman correlation with single readers; intervals draw readers and texts."
    return page_table("Agreement with readers", columns, lines, note)


def _transfer(table: pd.DataFrame) -> dict[str, Any]:
    lines = [
        [clean(r.dataset), clean(r.method), interval_cell(r.value, r.low, r.high),
         number(r.ceiling), count(int(r.classes)), count(int(r.readers))]
        for r in style.records(table)
    ]  # fmt: skip
    columns = {"readers of": "", "method": "", "correlation": "n", "half of the readers": "n",
               "kinds": "n", "readers": "n"}  # fmt: skip
    note = "Rank correlation over kinds of tokens between attention and looking time."
    return page_table("Which kinds of tokens get more", columns, lines, note)


def _compared_tables(compared: pd.DataFrame) -> list[dict[str, Any]]:
    tables = []
    for block, rows in compared.groupby(["block", "location"], sort=False):
        lines = []
        for metric, part in rows.groupby("metric", sort=False):
            gap = part["difference"].abs()
            lines.append([label(str(metric)), count(len(part)), count(int((gap < 5e-7).sum())),
                          f"{gap.max():.1e}"])  # fmt: skip
        columns = {"figure": "", "given": "n", "to the last digit": "n", "largest difference": "n"}
        name = f"{block[0]}" + (", tokens at their own places" if block[1] == "plain" else "")
        tables.append(page_table(f"Stored attention: {clean(name)}", columns, lines))
    means = compared[(compared["block"] == "averages_humaneval") & (compared["metric"] == "f1")]
    if len(means):
        lines = [[clean(r.method), count(int(r.k)), f"{r.ours:.6f}", f"{r.given:.6f}"]
                 for r in style.records(means)]  # fmt: skip
        columns = {"method": "", "k": "n", "ours": "n", "given": "n"}
        tables.append(page_table("F1 on HumanEval, mean of five models", columns, lines))
    return tables


def _published(shown: pd.DataFrame) -> dict[str, Any]:
    lines = [
        [clean(r.block), clean(r.method), count(int(r.k)), number(r.f1), number(r.alpha)]
        for r in style.records(shown)
    ]
    columns = {"block": "", "method": "", "k": "n", "F1": "n", "alpha": "n"}
    note = "They need attention that is not stored here: shown as given."
    return page_table("Given figures that are not made again", columns, lines, note)
