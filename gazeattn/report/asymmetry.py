"""The report of search asymmetry: six indices of models and people, and searches on displays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from gazeattn.report import style
from gazeattn.report.benchmark import Drawing, write_page
from gazeattn.report.objects import WHITE, file_name
from gazeattn.report.scores import interval_cell, page_table
from gazeattn.report.style import (
    BASELINE,
    CEILING,
    HUMAN,
    MODEL,
    MUTED,
    SERIES,
    clean,
    count,
    label,
    number,
    styled,
)
from gazeattn.stimuli.asymmetry import Display, Experiment

INDEX, MEAN = "asymmetry_index", "mean"
PERSON, CHANCE = "human", "chance"
COUNTERPARTS = ("eccNET", "eccNET_noecc", "IVSN")
"""Published models that stand in the figure; the table has all."""
MARKERS = ("o", "s", "^", "v", "P", "X")


@dataclass(frozen=True)
class SearchTrace:
    """A search of a model over one display.

    Attributes
    ----------
    shown : Display
    path : ndarray, shape (length, 2)
        x, y in pixels, the start first.
    found : bool
        Whether the search ended on the target.
    """

    shown: Display
    path: NDArray[np.float64]
    found: bool


def write_asymmetry_report(
    rows: pd.DataFrame,
    published: pd.DataFrame | None,
    folder: Path,
    traces: Mapping[str, Sequence[SearchTrace]],
    experiments: Sequence[Experiment],
    *,
    command: str,
    settings: Mapping[str, Any],
) -> Path:
    """Write ``report.html`` and the figures of the experiments on search asymmetry.

    Parameters
    ----------
    rows
        Result rows of models and people.
    published
        model, metric, value, low, high, n of the stored predictions of the publication, scored by
        the same code; None where the data set is not installed.
    folder
        Of the run.
    traces
        Model -> one search for each condition; none where the model cannot be loaded.
    experiments
    command
        How to do it again.
    settings
        ``trials`` (most displays per condition and set size) and ``bootstrap``.
    """
    names = [e.name for e in experiments]
    models = [m for m in dict.fromkeys(rows["model"]) if m != PERSON]
    parts = [rows.assign(source=np.where(rows["model"] == PERSON, "people", "this run"))]
    if published is not None:
        parts.append(published.assign(source="published"))
    both = pd.concat([p[[*COLUMNS, "source"]] for p in parts], ignore_index=True)
    drawings = [
        Drawing("asymmetry_index", "Asymmetry index", index_figure(both, names), _caption(both))
    ]
    for model, searches in traces.items():
        if searches:
            figure = draw_searches(searches, experiments)
            caption = (
                f"One generated display of each condition and the search of {model} over it, from "
                "the middle of the display: the harder condition of people on the right of each "
                "pair. The target stands in a frame; saccades until it was found (the cells are "
                "visited once each, at random about half of them)."
            )
            drawings.append(
                Drawing(file_name("search", model), f"Searches of {model}", figure, caption)
            )
    lines = _sentences(both, models, published is not None, int(settings["trials"]))
    without = [m for m, searches in traces.items() if not searches]
    if without:
        lines.append(f"No search of {', '.join(without)} is drawn: the weights are not installed.")
    return write_page(
        folder,
        title="Search asymmetry",
        sentences=lines,
        facts={
            "displays": label(rows["dataset"].iloc[0]),
            "size": rows["size"].iloc[0],
            "seed": rows["seed"].iloc[0],
            "experiments": count(len(experiments)),
            "displays per condition and set size": f"at most {count(settings['trials'])}",
            "displays per model": count(_searches(rows, models)),
            "bootstrap draws": count(settings["bootstrap"]),
        },
        command=command,
        drawings=drawings,
        tables=[
            _indices(both, names, INDEX, "Asymmetry index",
                     "1: hard for the model is what is hard for people; 0: no difference; -1: the "
                     "reverse. Negative slopes count as 0, as published. Intervals: 95 %, from "
                     "drawing displays within set sizes; those of people are not published."),
            _indices(both, names, f"{INDEX}_unclipped", "The index without clipping",
                     "Negative slopes kept, the difference over |H| + |L|."),
            *(_slopes(rows, models, e) for e in experiments),
        ],
    )  # fmt: skip


COLUMNS = ["model", "metric", "value", "low", "high", "n"]


# -- numbers --------------------------------------------------------------------------------------


def _searches(rows: pd.DataFrame, models: Sequence[str]) -> int:
    found = rows[rows["metric"].str.startswith("found_") & rows["model"].isin(models)]
    return int(found.groupby("model")["n"].sum().max()) if len(found) else 0


def _at(table: pd.DataFrame, model: str, metric: str, source: str) -> Any:
    hit = table[
        (table["model"] == model) & (table["metric"] == metric) & (table["source"] == source)
    ]
    return style.records(hit)[0] if len(hit) else None


def _shown(r: Any) -> str:
    return number(r.value) + (
        "" if style.missing(r.low) else f" ({number(r.low)} to {number(r.high)})"
    )


def _sentences(table: pd.DataFrame, models: Sequence[str], known: bool, trials: int) -> list[str]:
    mean = f"{INDEX}_{MEAN}"
    found = {m: _at(table, m, mean, "this run") for m in models}
    values = [f"{m} {_shown(r)}" for m, r in found.items() if r is not None]
    people = _at(table, PERSON, mean, "people")
    first = "No model has finished all experiments yet."
    if values:
        first = f"Mean asymmetry index: {', '.join(values)}; people {number(people.value)}."
    lines = [first]
    if known:
        theirs = [(n, _at(table, n, mean, "published")) for n in COUNTERPARTS]
        text = ", ".join(f"{n} {_shown(r)}" for n, r in theirs if r is not None)
        lines.append(
            f"From the published predictions, by the same code: {text}. Their displays and their "
            "network differ from those here."
        )
    else:
        lines.append(
            "The published predictions (data set visual_search_asymmetry) are not installed and "
            "are left out."
        )
    lines.append(
        "Chance looks at the cells of the grid in random order: its slopes are noise around 0, and "
        "since negative slopes count as 0 its index may lie anywhere from -1 to 1; without "
        "clipping it scatters around 0."
    )
    if trials < 5:
        lines.append(
            f"With {count(trials)} {style.plural_unit(trials, 'displays')} per condition and set "
            "size neither the indices nor their intervals say anything about the models."
        )
    return lines


def _indices(
    table: pd.DataFrame, names: Sequence[str], metric: str, title: str, note: str
) -> dict[str, Any]:
    """Return models as rows and experiments as columns."""
    kept = table[table["metric"].isin([f"{metric}_{n}" for n in (*names, MEAN)])]
    rows = []
    for model, source in dict.fromkeys(zip(kept["model"], kept["source"], strict=True)):
        cells = [_at(kept, model, f"{metric}_{n}", source) for n in (MEAN, *names)]
        name = model if source == "this run" else f"{model} ({source})"
        name = "people" if source == "people" else name
        shown = [_index_cell(r) for r in cells]
        rows.append([name, *shown])
    columns = {"model": "", **dict.fromkeys([label(n) for n in (MEAN, *names)], "n")}
    return page_table(title, columns, rows, note)


def _index_cell(r: Any) -> tuple[str, str]:
    """Return an index and its interval with two decimals: all of them lie from -1 to 1."""
    if r is None or style.missing(r.value):
        return "–", ""
    shown = [f"{round(float(v), 2) + 0.0:.2f}" for v in (r.value, r.low, r.high)]
    value, low, high = (text.replace("-", "−") for text in shown)
    return value, "" if style.missing(r.low) else f"{low} to {high}"


def _slopes(rows: pd.DataFrame, models: Sequence[str], e: Experiment) -> dict[str, Any]:
    cells = {(r.model, r.metric): r for r in style.records(rows)}
    made = []
    for model in (PERSON, *models):
        slopes = [cells.get((model, f"slope_{c}")) for c in (e.harder, e.easier)]
        shares = [cells.get((model, f"found_{c}")) for c in (e.harder, e.easier)]
        made.append(
            [
                "people" if model == PERSON else model,
                *(
                    ("–", "") if r is None else interval_cell(r.value, r.low, r.high)
                    for r in slopes
                ),
                " / ".join("–" if r is None else style.percent(r.value) for r in shares),
                " / ".join("–" if r is None else count(r.n) for r in slopes),
            ]
        )
    heads = [f"{label(c)} (ms per item)" for c in (e.harder, e.easier)]
    columns = {"model": "", **dict.fromkeys([*heads, "found", "displays"], "n")}
    note = (
        "The first condition is the harder one for people; found and displays stand in the same "
        f"order. Set sizes {', '.join(map(str, e.set_sizes))}. At random the slope is 0."
    )
    return page_table(f"Slopes: {label(e.name)}", columns, made, note)


def _caption(table: pd.DataFrame) -> str:
    n = int(table.loc[table["source"] == "this run", "n"].max())
    return (
        f"Index of each experiment and their mean, with 95 % intervals from drawing displays "
        f"({count(n)} over all experiments). 1 finds hard what people find hard, -1 the reverse; "
        "the line at 0 is no asymmetry. Open marks are the stored predictions of the publication."
    )


# -- figures --------------------------------------------------------------------------------------


@styled
def index_figure(table: pd.DataFrame, names: Sequence[str]) -> Any:
    """Return the indices of people, models and the publication for each experiment.

    Parameters
    ----------
    table
        model, metric, value, low, high, source (``people``, ``this run``, ``published``).
    names
        Of the experiments, from the top.
    """
    keys = list(dict.fromkeys(zip(table["model"], table["source"], strict=True)))
    series = [k for k in keys if k[1] == "people"]
    series += [k for k in keys if k[1] == "this run"]
    series += [(n, "published") for n in COUNTERPARTS if (n, "published") in keys]
    rows = [*names, MEAN]
    figure = style.new_figure(1.2 * style.WIDTH, 0.13 * len(series) * len(rows) + 1.9)
    ax = figure.subplots()
    looks = _looks(series)
    step = 0.8 / max(len(series), 1)
    for j, key in enumerate(series):
        colour, marker, filled = looks[key]
        for k, name in enumerate(rows):
            r = _at(table, key[0], f"{INDEX}_{name}", key[1])
            if r is None or style.missing(r.value):
                continue
            y = k - 0.4 + step * (j + 0.5)
            if not style.missing(r.low):
                ax.plot([r.low, r.high], [y, y], "-", color=colour, lw=1.5)
            ax.plot(
                r.value, y, marker, color=colour, ms=5, mew=1.3, clip_on=False,
                mfc=colour if filled else style.PAPER,
            )  # fmt: skip
    for k in range(1, len(rows)):
        ax.axhline(k - 0.5, color=style.GRID, lw=0.8 if k < len(rows) - 1 else 1.6)
    ax.axvline(0, color=MUTED, lw=0.8, zorder=0)
    ax.set_yticks(range(len(rows)), [label(n) for n in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(-1.05, 1.05)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("asymmetry index")
    handles = [
        Line2D([], [], color=c, marker=m, lw=1.5, ms=5, mfc=c if full else style.PAPER,
               label=_name(key))
        for key, (c, m, full) in looks.items()
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside upper left", ncols=3, handlelength=1.6)
    return figure


def _name(key: tuple[str, str]) -> str:
    model, source = key
    return (
        "people"
        if source == "people"
        else f"{clean(model)}{', published' * (source == 'published')}"
    )


def _looks(series: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str, bool]]:
    """Return colour, mark and whether it is filled; a published model looks like ours."""
    colours = [c for c in SERIES if c not in (HUMAN,)]
    ours = [m for m, source in series if source == "this run" and m != CHANCE]
    found = {}
    for model, source in series:
        if source == "people":
            found[model, source] = (HUMAN, "D", True)
        elif model == CHANCE:
            found[model, source] = (BASELINE, "x", True)
        else:
            name = PAIRS.get(model, model)
            k = ours.index(name) if name in ours else len(ours)
            found[model, source] = (
                colours[k % len(colours)], MARKERS[k % len(MARKERS)], source == "this run",
            )  # fmt: skip
    return found


PAIRS = dict(zip(COUNTERPARTS, ("ecc_net", "ecc_net_no_eccentricity", "ivsn"), strict=True))


@styled
def draw_searches(searches: Sequence[SearchTrace], experiments: Sequence[Experiment]) -> Any:
    """Return the displays of the experiments, easier and harder condition side by side."""
    by = {(t.shown.experiment, t.shown.condition): t for t in searches}
    shown = [e for e in experiments if any((e.name, c) in by for c in e.conditions)]
    n = -(-len(shown) // 2)
    figure = style.new_figure(1.2 * style.WIDTH, 2.05 * n)
    axes = np.asarray(figure.subplots(n, 4, squeeze=False)).reshape(n, 2, 2)
    for ax in axes.ravel():
        ax.set_axis_off()
    for k, e in enumerate(shown):
        for ax, condition in zip(axes[k // 2, k % 2], e.conditions, strict=True):
            if (e.name, condition) in by:
                _draw_search(ax, by[e.name, condition])
    return figure


def _draw_search(ax: Axes, trace: SearchTrace) -> None:
    shown, side = trace.shown, len(trace.shown.picture)
    ax.imshow(shown.picture, cmap="gray", vmin=0, vmax=255, extent=(0, side, side, 0))
    table = shown.places[shown.places["target"].to_numpy(dtype=bool)]
    x0, y0, x1, y1 = table[["xmin", "ymin", "xmax", "ymax"]].to_numpy(dtype=float)[0]
    ax.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=CEILING, lw=2))
    for colour, width in ((WHITE, 2.4), (MODEL, 1.3)):  # seen on black and on white displays
        ax.plot(*trace.path.T, "-", color=colour, lw=width)
    ax.plot(*trace.path[1:].T, "o", color=MODEL, ms=3.6, mec=WHITE, mew=0.6)
    ax.plot(*trace.path[0], "s", color=WHITE, ms=4.4, mec=MODEL, mew=1.2)
    ax.add_patch(Rectangle((0, 0), side, side, fill=False, edgecolor=MUTED, lw=0.6))
    ax.set_xlim(0, side)
    ax.set_ylim(side, 0)
    saccades = len(trace.path) - 1
    end = f"{count(saccades)} {style.plural_unit(saccades, 'saccades')}"
    name = clean(label(shown.condition))
    ax.set_title(f"{name}\n{end if trace.found else f'{end}, not found'}", fontsize=8)
