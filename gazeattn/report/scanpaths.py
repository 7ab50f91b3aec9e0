"""The path of the eyes over a text."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gazeattn.report import style
from gazeattn.report.style import INK, MUTED, floats, styled


def layout_boxes(words: pd.DataFrame, columns: int = 60) -> pd.DataFrame:
    """Return the words with boxes: their own, or a plain left-to-right setting where any lacks."""
    boxes = ["left", "top", "right", "bottom"]
    if set(boxes) <= set(words) and len(words) and words[boxes].notna().all(axis=None):
        return words
    shown = [style.shorten(w, 24) for w in words["text"]]
    x, y = style.wrap(shown, columns)
    size = np.array([len(w) for w in shown], dtype=float)
    return words.assign(left=12 * x, top=60.0 * y, right=12 * (x + size), bottom=60.0 * y + 30)


def scanpath_points(fixations: pd.DataFrame, words: pd.DataFrame) -> pd.DataFrame:
    """Return the fixations with a place to draw them: ``x, y, duration, index, word``.

    Measured positions are used where the words have measured boxes; else the centre of the
    fixated word. Fixations without a place keep NaN.
    """
    points = fixations.reset_index(drop=True)
    own = set(words) >= {"left", "right"} and bool(words[["left", "right"]].notna().all(axis=None))
    placed = layout_boxes(words) if len(words) else words
    empty = pd.Series(np.nan, index=points.index)
    x = pd.to_numeric(points.get("x", empty)) if own or not len(words) else empty
    y = pd.to_numeric(points.get("y", empty)) if own or not len(words) else empty
    if "word" in points and len(words):
        boxes = placed.set_index("word")
        # as numbers: of no fixation at all, the type would stay that of the ids
        at = points["word"].map((boxes["left"] + boxes["right"]) / 2).astype(float)
        visit = points.groupby("word", dropna=True).cumcount().reindex(points.index).fillna(0)
        size = float((placed["bottom"] - placed["top"]).median())
        middle = points["word"].map((boxes["top"] + boxes["bottom"]) / 2).astype(float)
        over = middle - visit * size * 0.12
        lacking = x.isna() | y.isna()
        x, y = x.where(~lacking, at), y.where(~lacking, over)
    return points.assign(x=x, y=y)


@styled
def scanpath(fixations: pd.DataFrame, words: pd.DataFrame) -> Figure:
    """Draw the path of one trial over its text.

    Circles grow with the duration of the fixation, their colour goes from blue (first)
    to orange (last), every tenth is numbered from 1. Fixations on no word are squares.

    Parameters
    ----------
    fixations
        One trial; see `gazeattn.tables.FIXATIONS`.
    words
        The layout of the trial; see `gazeattn.tables.WORDS`. Without boxes the words are set
        from left to right and fixations are drawn on the middle of their word.
    """
    points = scanpath_points(fixations, words)
    points = points[points["x"].notna() & points["y"].notna()]
    if not len(words) and not len(points):
        return style.empty("Nothing to draw: no word boxes and no positions.")
    placed = layout_boxes(words) if len(words) else words
    edges = np.concatenate(
        [
            placed[["left", "top"]].to_numpy(float) if len(placed) else np.empty((0, 2)),
            placed[["right", "bottom"]].to_numpy(float) if len(placed) else np.empty((0, 2)),
            points[["x", "y"]].to_numpy(float),
        ]
    )
    (left, top), (right, bottom) = edges.min(axis=0), edges.max(axis=0)
    span = max(right - left, 1.0)
    width = 9.0
    height = float(np.clip(width * (bottom - top + 0.08 * span) / (1.04 * span), 1.2, 9.0))
    foot = 0.4
    figure = style.new_figure(width, height + foot, layout="none")
    part = foot / (height + foot)
    ax = figure.add_axes((0.01, part, 0.98, 1 - part))
    if len(placed):
        draw_words(ax, placed, width * 72 / span)
    if len(points):
        draw_path(figure, ax, points)
    ax.set_xlim(left - 0.02 * span, right + 0.02 * span)
    ax.set_ylim(bottom + 0.04 * span, top - 0.04 * span)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return figure


def draw_words(ax: Axes, words: pd.DataFrame, points_per_pixel: float) -> None:
    """Write every word in the middle of its box, in one size that fits most of them."""
    box = words[["left", "top", "right", "bottom"]].to_numpy(float)
    shown = [style.shorten(w, 24) for w in words["text"]]
    room = (box[:, 2] - box[:, 0]) * points_per_pixel / np.maximum([len(w) for w in shown], 1)
    tall = (box[:, 3] - box[:, 1]) * points_per_pixel
    size = float(np.clip(min(np.median(room) * 1.3, np.median(tall) * 0.5), 4, 14))
    for word, (left, top, right, bottom) in zip(shown, box, strict=True):
        ax.text(
            (left + right) / 2, (top + bottom) / 2, word,
            ha="center", va="center", fontsize=size, color=MUTED, clip_on=False,
        )  # fmt: skip


def draw_path(figure: Figure, ax: Axes, points: pd.DataFrame) -> None:
    """Draw fixations (x, y, duration, index, word) as a path, with a legend below."""
    xy = points[["x", "y"]].to_numpy(float)
    duration = floats(points, "duration")
    n = len(xy)
    steps = 12
    colours = [style.ORDER(i / (steps - 1)) for i in range(steps)]
    when = np.rint(np.arange(n) * (steps - 1) / max(n - 1, 1)).astype(int)
    known = np.isfinite(duration)
    typical = float(np.median(duration[known])) if known.any() else math.nan
    relative = np.where(known, duration / typical if typical > 0 else 1.0, 0.3)
    size = np.round(np.clip(7 * np.sqrt(relative), 3, 17))
    on_word = points["word"].notna().to_numpy() if "word" in points else np.ones(n, dtype=bool)
    for step in range(steps):
        own = np.flatnonzero(when == step)
        if len(own):  # up to the first fixation of the next step, so that the line goes on
            part = xy[own[0] : own[-1] + 2]
            ax.plot(*part.T, "-", color=colours[step], linewidth=1.1, alpha=0.8, clip_on=False)
    for key in sorted(set(zip(when, size, on_word, strict=True))):
        step, s, on = key
        same = (when == step) & (size == s) & (on_word == on)
        ax.plot(
            *xy[same].T, "o" if on else "s", color=colours[step], alpha=0.65, markersize=float(s),
            markeredgecolor=MUTED, markeredgewidth=0.5, linestyle="none", zorder=3,
            clip_on=False,
        )  # fmt: skip
    numbered = sorted({0, n - 1, *range(9, n, 10)})
    order = points["index"].to_numpy() if "index" in points else np.arange(n)
    for i in numbered:
        ax.annotate(
            str(int(order[i]) + 1), xy[i], xytext=(0, size[i] / 2 + 1), textcoords="offset points",
            ha="center", va="bottom", fontsize=8, weight="bold", color=INK, zorder=5,
        )  # fmt: skip
    handles = [
        Line2D(
            [], [], linestyle="none", marker="o", color=colours[4], alpha=0.7,
            markersize=float(np.clip(7 * np.sqrt(ms / typical), 3, 17)), label=f"{ms} ms",
        )
        for ms in (100, 250, 500)
    ] if typical > 0 else []  # fmt: skip
    handles += [
        Line2D([], [], linestyle="none", marker="o", color=colours[0], label="first"),
        Line2D([], [], linestyle="none", marker="o", color=colours[-1], label="last"),
    ]
    if not on_word.all():
        handles.append(
            Line2D([], [], linestyle="none", marker="s", color=colours[4], label="on no word")
        )
    figure.legend(handles=handles, loc="lower left", ncols=6, handletextpad=0.3)
