"""Figures of a comparison, drawn without global plotting state.

Every function takes tables as `gazeattn.attention.comparison` describes them and returns a
matplotlib figure; `gazeattn.report.style` writes it as SVG or PNG.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from gazeattn.report import style
from gazeattn.report.scanpaths import scanpath
from gazeattn.report.style import (
    BASELINE,
    CEILING,
    GRID,
    HUMAN,
    INK,
    MODEL,
    MUTED,
    floats,
    label,
    styled,
)

__all__ = [
    "head_map",
    "layer_curve",
    "method_intervals",
    "scanpath",
    "text_side_by_side",
    "transition_matrix",
    "trial_distribution",
]

MAX_CELLS = 3000
"""Heat maps with more cells are drawn as one picture."""


def _axis_label(metric: str, measure: str) -> str:
    return f"{style.metric_label(metric)} with {label(measure)}"


@styled
def method_intervals(table: pd.DataFrame, *, measure: str = "", metric: str = "") -> Figure:
    """Draw the agreement of every method with its interval, and the noise ceiling.

    Parameters
    ----------
    table
        Aggregate rows of a summary (`Comparison.table`), in the order to draw from the top.
        Models are filled dots, baselines open squares; a value that is undefined is written as
        such at its place. The ceiling is a dashed line, or a band up to ``ceiling_upper``.
    """
    if not len(table):
        return style.empty("No method was compared.")
    figure = style.new_figure(style.WIDTH, 1.15 + 0.27 * len(table))
    ax = figure.add_subplot()
    value, low, high = (floats(table, c) for c in ("value", "low", "high"))
    rows = np.arange(len(table))
    model = (table["kind"] != "baseline").to_numpy()
    ax.axvline(0, color=MUTED, linewidth=0.8, zorder=1)
    handles = _ceiling_band(ax, table)
    for chosen, colour, marker, face, name in (
        (model, MODEL, "o", MODEL, "model attention"),
        (~model, BASELINE, "s", "none", "baseline"),
    ):
        known = chosen & np.isfinite(value)
        if not chosen.any():
            continue
        ax.hlines(rows[known], low[known], high[known], color=colour, linewidth=2.2, zorder=3)
        ax.plot(
            value[known], rows[known], marker, color=colour, markerfacecolor=face,
            markersize=6, markeredgewidth=1.6, zorder=4,
        )  # fmt: skip
        handles.append(
            Line2D([], [], color=colour, marker=marker, markerfacecolor=face, lw=2.2, label=name)
        )
    ax.set_ylim(len(table) - 0.5, -0.5)
    if not np.isfinite(value).any():
        ax.set_xlim(-1, 1)
    for row in rows[~np.isfinite(value)]:
        ax.text(
            0.02, row, "undefined", transform=ax.get_yaxis_transform(), zorder=5,
            va="center", color=MUTED, style="italic", fontsize=9,
            bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 1.5},
        )  # fmt: skip
    names = [style.shorten(label(m), 28) for m in table["method"]]
    ax.set_yticks(rows, names)
    for tick, is_model in zip(ax.get_yticklabels(), model, strict=True):
        tick.set_color(INK if is_model else MUTED)
    ax.grid(axis="x")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(_axis_label(metric, measure))
    figure.legend(handles=handles, loc="outside upper left", ncols=3, handlelength=1.6)
    return figure


def _ceiling_band(ax: Axes, table: pd.DataFrame) -> list[Line2D | Patch]:
    lower, upper = floats(table, "ceiling"), floats(table, "ceiling_upper")
    if not np.isfinite(lower).any():
        return []
    low = float(np.nanmedian(lower))
    top = float(np.nanmedian(upper)) if np.isfinite(upper).any() else math.nan
    if math.isfinite(top) and top > low:
        ax.axvspan(low, top, color=CEILING, alpha=0.2, linewidth=0, zorder=0)
    ax.axvline(low, color=CEILING, linestyle=(0, (4, 2)), linewidth=1.6, zorder=2)
    return [Line2D([], [], color=CEILING, linestyle=(0, (4, 2)), lw=1.6, label="noise ceiling")]


@styled
def head_map(
    heads: pd.DataFrame,
    *,
    measure: str = "",
    metric: str = "",
    method: str = "",
    alpha: float = 0.05,
) -> Figure:
    """Draw the agreement of every head as a heat map, layers from left to right.

    Parameters
    ----------
    heads
        Summary rows of one method, measure and metric with layer and head. Cells without a
        value are hatched; a dot marks heads with ``q < alpha`` (Benjamini-Hochberg).
    """
    heads = heads[heads["layer"].notna() & heads["head"].notna()]
    if not len(heads):
        return style.empty("No single heads were compared.")
    layer, head = heads["layer"].astype(int).to_numpy(), heads["head"].astype(int).to_numpy()
    shape = (int(head.max()) + 1, int(layer.max()) + 1)
    values, q = np.full(shape, np.nan), np.full(shape, np.nan)
    values[head, layer], q[head, layer] = floats(heads, "value"), floats(heads, "q")
    height = float(np.clip(1.45 + 0.24 * shape[0], 2.0, 8.0))
    figure = style.new_figure(style.WIDTH, height)
    ax = figure.add_subplot()
    norm, colours = _scale(values)
    ax.add_patch(
        Rectangle(
            (-0.5, -0.5), shape[1], shape[0], facecolor="none", edgecolor=MUTED,
            hatch="////", linewidth=0,
        )
    )  # fmt: skip
    mesh = ax.pcolormesh(
        np.arange(shape[1] + 1) - 0.5, np.arange(shape[0] + 1) - 0.5,
        np.ma.masked_invalid(values), norm=norm, cmap=colours,
        rasterized=values.size > MAX_CELLS, linewidth=0.3, edgecolors="face",
    )  # fmt: skip
    rows, columns = np.nonzero(q < alpha)
    cell = mesh.cmap(norm(values[rows, columns]))[:, :3] if len(rows) else np.empty((0, 3))
    light = cell @ [0.299, 0.587, 0.114] > 0.5
    size = float(np.clip(400 / max(shape) ** 1.2, 2, 16))
    for chosen, colour in ((light, "#101318"), (~light, "#fdfdfd")):
        ax.scatter(columns[chosen], rows[chosen], s=size, color=colour, linewidths=0)
    ax.set_ylim(shape[0] - 0.5, -0.5)
    ax.set_xlim(-0.5, shape[1] - 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(12, integer=True, min_n_ticks=1))
    ax.yaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    ax.set_xlabel("layer (0 is next to the input)")
    ax.set_ylabel("head")
    for spine in ax.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(mesh, ax=ax, shrink=0.95, aspect=18, pad=0.02)
    bar.ax.tick_params(length=2)
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.set_label(style.metric_label(metric))
    ax.set_title(
        f"{label(method)}, {label(measure)}" + (f"; dot: q < {alpha:g}" if len(rows) else ""),
        loc="left",
    )
    return figure


def _scale(values: np.ndarray) -> tuple[Normalize, str | Colormap]:
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    if low < 0:
        limit = max(-low, high, 1e-9)
        return TwoSlopeNorm(0.0, -limit, limit), style.DIVERGING
    return Normalize(low, high if high > low else low + 1e-9), style.SEQUENTIAL


@styled
def layer_curve(
    layers: pd.DataFrame, *, measure: str = "", metric: str = "", best: str | None = None
) -> Figure:
    """Draw the agreement of each layer (mean over its heads), one line per method.

    Parameters
    ----------
    layers
        Summary rows of one measure and metric with a layer and no head.
    best
        Method to draw boldly with its interval. Up to five further methods are drawn thinly,
        those with the highest single layer first.
    """
    layers = layers[layers["layer"].notna() & layers["head"].isna()]
    if not len(layers) or not np.isfinite(floats(layers, "value")).any():
        return style.empty("No single layers were compared.")
    peaks = layers.groupby("method", sort=True)["value"].max().sort_values(ascending=False)
    order = ([best] if best in peaks.index else []) + [m for m in peaks.index if m != best]
    figure = style.new_figure(style.WIDTH, 3.1)
    ax = figure.add_subplot()
    ax.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    for i, method in enumerate(order[: len(style.SERIES)]):
        rows = layers[layers["method"] == method].sort_values("layer")
        x, y = floats(rows, "layer"), floats(rows, "value")
        bold = i == 0
        ax.plot(
            x, y, color=style.SERIES[i], linestyle=style.DASHES[i], label=label(method),
            linewidth=2.4 if bold else 1.4, marker="o" if bold or len(x) == 1 else None,
            markersize=4, zorder=5 if bold else 3,
        )  # fmt: skip
        low, high = floats(rows, "low"), floats(rows, "high")
        if bold and np.isfinite(low).any():
            ax.fill_between(x, low, high, color=style.SERIES[0], alpha=0.18, linewidth=0)
    ax.xaxis.set_major_locator(MaxNLocator(12, integer=True, min_n_ticks=1))
    ax.set_xlabel("layer (0 is next to the input)")
    ax.set_ylabel(f"{style.metric_label(metric)}\nwith {label(measure)}")
    ax.grid(axis="y")
    figure.legend(loc="outside upper left", ncols=3, handlelength=2.2)
    return figure


@styled
def trial_distribution(
    alignment: pd.DataFrame, order: Sequence[str], *, metric: str = "", unit: str = "text"
) -> Figure:
    """Draw one dot per trial and method with the median as a bar.

    Parameters
    ----------
    alignment
        Aggregate rows (no layer, no head) of one measure, metric and level.
    order
        Methods from the top.
    """
    order = [m for m in order if (alignment["method"] == m).any()]
    if not order:
        return style.empty("No trials were compared.")
    figure = style.new_figure(style.WIDTH, 1.0 + 0.27 * len(order))
    ax = figure.add_subplot()
    ax.axvline(0, color=MUTED, linewidth=0.8, zorder=1)
    for row, method in enumerate(order):
        rows = alignment[alignment["method"] == method]
        values = np.sort(floats(rows, "value"))
        values = values[np.isfinite(values)]
        baseline = bool((rows["kind"] == "baseline").any())
        colour = BASELINE if baseline else MODEL
        # a fixed pattern spreads equal values without chance
        spread = ((np.arange(len(values)) * 0.618) % 1 - 0.5) * 0.55
        ax.plot(
            values, row + spread, "s" if baseline else "o", color=colour, alpha=0.6,
            markersize=3.6, markeredgewidth=0, rasterized=len(values) > 400,
        )  # fmt: skip
        if len(values):
            ax.vlines(np.median(values), row - 0.36, row + 0.36, color=INK, linewidth=2, zorder=4)
        else:
            ax.text(
                0.02, row, "undefined", transform=ax.get_yaxis_transform(), zorder=5,
                va="center", color=MUTED, style="italic", fontsize=9,
                bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 1.5},
            )  # fmt: skip
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_yticks(range(len(order)), [style.shorten(label(m), 28) for m in order])
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")
    ax.set_xlabel(f"{style.metric_label(metric)}, one mark per {unit}; bar: median")
    return figure


@styled
def transition_matrix(transitions: pd.DataFrame, n_words: int) -> Figure:
    """Draw which word was looked at after which, and how far the eyes moved.

    Parameters
    ----------
    transitions
        ``source, target, count`` by word index, over the readers of one text.
    n_words
        Number of words of the text.
    """
    if not len(transitions) or n_words < 1:
        return style.empty("No movement between words was recorded.")
    cells = transitions.groupby(["source", "target"])["count"].sum().reset_index()
    source, target = cells["source"].to_numpy(int), cells["target"].to_numpy(int)
    weight = cells["count"].to_numpy(float)
    figure = style.new_figure(style.WIDTH, 3.1)
    ax, jumps = figure.subplots(1, 2, width_ratios=(1, 1.05))
    ax.plot([0, n_words - 1], [0, n_words - 1], color=GRID, linewidth=1, zorder=1)
    forward = target >= source
    for chosen, colour, marker in ((forward, HUMAN, "o"), (~forward, MODEL, "D")):
        for times in np.unique(weight[chosen]):
            same = chosen & (weight == times)
            ax.plot(
                target[same], source[same], marker, color=colour, alpha=0.75, markeredgewidth=0,
                markersize=float(1.6 + 1.1 * np.sqrt(times)),
            )  # fmt: skip
    ax.set_xlim(-1.5, n_words + 0.5)
    ax.set_ylim(n_words + 0.5, -1.5)
    ax.set_aspect("equal")
    ax.set_xlabel("to word")
    ax.set_ylabel("from word")
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    jump = np.clip(target - source, -6, 6)
    share = np.bincount(jump + 6, weights=weight, minlength=13) / weight.sum()
    steps = np.arange(-6, 7)
    colours = np.where(steps >= 0, HUMAN, MODEL)
    hatches = ["" if s >= 0 else "////" for s in steps]
    jumps.bar(steps, 100 * share, color=colours, hatch=hatches, edgecolor=style.PAPER, linewidth=0)
    jumps.set_xticks([-6, -3, -1, 1, 3, 6], ["≤ −6", "−3", "−1", "+1", "+3", "≥ +6"])
    jumps.set_xlabel("words moved")
    jumps.set_ylabel("share of movements (%)")
    jumps.grid(axis="y")
    return figure


@styled
def text_side_by_side(
    words: Sequence[str],
    human: np.ndarray,
    model: np.ndarray,
    *,
    human_name: str = "human",
    model_name: str = "model",
    columns: int = 46,
) -> Figure:
    """Draw a text twice, word backgrounds by human and by model attention.

    Parameters
    ----------
    words : sequence of n_words str
    human, model : ndarray, shape (n_words,)
        Weights; NaN (no score) is hatched.
    columns
        Characters per line.
    """
    shown = [style.shorten(w, 24) for w in words]
    x, y = style.wrap(shown, columns)
    lines = int(y.max()) + 1 if len(y) else 1
    height = 0.45 + 0.2 * lines
    figure = style.new_figure(2 * (columns * 0.066 + 0.25), height, layout="none")
    for i, (side, weights, name) in enumerate(
        (("human", human, human_name), ("model", model, model_name))
    ):
        ax = figure.add_axes((0.01 + 0.5 * i, 0.05 / height, 0.48, 1 - 0.4 / height))
        levels, _, _ = style.word_levels(weights)
        colours = style.word_colours(side, "light")
        for word, left, line, level in zip(shown, x, y, levels, strict=True):
            ax.add_patch(
                Rectangle(
                    (left - 0.3, line + 0.06), len(word) + 0.6, 0.88, linewidth=0,
                    facecolor=colours[level] if level >= 0 else "none", edgecolor=MUTED,
                    hatch=None if level >= 0 else "/////",
                )
            )  # fmt: skip
            ax.text(
                left + len(word) / 2, line + 0.52, word, ha="center", va="center",
                fontsize=7.5, color="#14171c" if level >= 0 else INK, family="DejaVu Sans Mono",
            )  # fmt: skip
        ax.set_xlim(-0.5, columns + 0.5)
        ax.set_ylim(lines, 0)
        ax.set_axis_off()
        ax.set_title(style.shorten(label(name), 50), loc="left")
    return figure
