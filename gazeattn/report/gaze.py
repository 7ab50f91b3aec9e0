"""Pictures of one trial over whatever was looked at: a text, source code or an image."""

from __future__ import annotations

import os
from typing import Any

import matplotlib.image
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from gazeattn.errors import DataError
from gazeattn.report import style
from gazeattn.report.scanpaths import draw_path, draw_words, layout_boxes, scanpath_points
from gazeattn.report.style import HUMAN, MUTED, floats, styled

BOX = ("left", "top", "right", "bottom")

SIDE = 8.0
"""Length of the longer side of a picture in inches."""

CELLS = 300
"""Cells of a heat map along its longer side."""

MAX_WORDS = 4000
"""Layouts with more units are drawn without their text, which nobody could read."""


class Stage:
    """What a trial was about, in pixels: its picture, its units and the part that is shown.

    Parameters
    ----------
    fixations
        One trial; see `gazeattn.tables.FIXATIONS`.
    words
        Units of the trial's layout; may be empty.
    stimulus
        Facts of the stimulus: ``image`` (path) and ``size`` (width, height), where known.
    """

    def __init__(
        self, fixations: pd.DataFrame, words: pd.DataFrame, stimulus: dict[str, Any] | None = None
    ) -> None:
        stimulus = stimulus or {}
        measured = {"x", "y"} <= set(fixations) and bool(
            (fixations["x"].notna() & fixations["y"].notna()).any()
        )
        boxed = set(BOX) <= set(words) and bool(words[list(BOX)].notna().all(axis=None))
        if measured and not boxed:
            words = words.head(0)  # measured places do not fit on units set by us
        if not len(words):
            fixations = fixations.drop(columns="word", errors="ignore")
        self.invented = bool(len(words)) and not boxed
        points = scanpath_points(fixations, words)
        self.off = int((points["x"].isna() | points["y"].isna()).sum())
        self.points = points[points["x"].notna() & points["y"].notna()]
        self.image = read_image(stimulus["image"]) if stimulus.get("image") else None
        self.words = layout_boxes(words) if len(words) else words
        self.box = self._image_box(stimulus)
        self.screen = stimulus.get("size") if self.image is None and not self.invented else None
        self.extent = self._extent()

    def _image_box(self, stimulus: dict[str, Any]) -> tuple[float, float, float, float] | None:
        """Return left, top, right, bottom of the picture in the pixels of the fixations.

        With ``image_offset`` (x, y) the picture has its own pixels and lies there; else it fills
        ``size``, which the coordinates refer to.
        """
        if self.image is None:
            return None
        height, width = self.image.shape[:2]
        if "image_offset" in stimulus:
            x, y = map(float, stimulus["image_offset"])
            return x, y, x + width, y + height
        size = stimulus.get("size") or (width, height)
        return 0.0, 0.0, float(size[0]), float(size[1])

    def _extent(self) -> tuple[float, float, float, float]:
        """Return left, top, right, bottom of what is shown: picture, units and fixations."""
        corners = [self.points[["x", "y"]].to_numpy(float)]
        if self.box is not None:
            corners.append(np.array(self.box).reshape(2, 2))
        elif self.screen is not None and not len(self.words):
            corners.append(np.array([(0.0, 0.0), self.screen], dtype=float))
        elif len(self.words):
            boxes = self.words[["left", "top", "right", "bottom"]].to_numpy(float)
            corners += [boxes[:, :2], boxes[:, 2:]]
        edges = np.concatenate(corners)
        if not len(edges):
            return 0.0, 0.0, 1.0, 1.0
        (left, top), (right, bottom) = edges.min(axis=0), edges.max(axis=0)
        pad = 0.02 * max(right - left, bottom - top, 1.0)
        return left - pad, top - pad, right + pad, bottom + pad

    @property
    def empty(self) -> bool:
        """Whether there is neither a picture, nor units, nor a fixation with a place."""
        return self.image is None and not len(self.words) and not len(self.points)

    def notes(self) -> list[str]:
        """Return what a picture of this trial has to say about itself."""
        found = []
        if self.invented:
            found.append("Places are not measured: the units are set in lines by us")
        if not len(self.points):
            found.append("No fixation has a place")
        elif self.off:
            found.append(f"{self.off:,} fixations without a place are left out")
        return found

    def figure(self, foot: float = 0.4) -> tuple[Figure, Axes]:
        """Return a figure in the shape of the stage, with picture and units drawn."""
        left, top, right, bottom = self.extent
        wide, high = right - left, bottom - top
        width = SIDE if wide >= high else max(SIDE * wide / high, 3.0)
        height = float(np.clip(width * high / wide, 1.0, 1.2 * SIDE))
        figure = style.new_figure(width, height + foot, layout="none")
        part = foot / (height + foot)
        ax = figure.add_axes((0.01, part, 0.98, 0.99 - part))
        if self.image is not None and self.box is not None:
            x, y, x_end, y_end = self.box
            ax.imshow(self.image, extent=(x, x_end, y_end, y), cmap="gray", zorder=0)
        elif 0 < len(self.words) <= MAX_WORDS:
            draw_words(ax, self.words, width * 72 / wide)
        elif self.screen is not None:
            frame = Rectangle((0, 0), *self.screen, fill=False, edgecolor=MUTED, lw=0.8)
            ax.add_patch(frame)
        for line, text in enumerate(self.notes()):
            figure.text(0.99, 0.02 + 0.03 * line, text, color=MUTED, fontsize=8, ha="right")
        ax.set_xlim(left, right)
        ax.set_ylim(bottom, top)
        ax.set_aspect("equal")
        ax.set_axis_off()
        return figure, ax


def read_image(path: str | os.PathLike[str]) -> np.ndarray:
    """Return the pixels of an image, (height, width) or (height, width, 3 or 4).

    Raises
    ------
    DataError
        The file is missing or no image.
    """
    try:
        return np.asarray(matplotlib.image.imread(os.fspath(path)))
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"cannot read the image ({error})", source=path) from None


@styled
def trial_scanpath(stage: Stage) -> Figure:
    """Draw the path of the eyes over the stimulus; see `gazeattn.report.scanpaths.scanpath`."""
    if stage.empty:
        return style.empty("Nothing to draw: no stimulus and no positions.")
    figure, ax = stage.figure()
    if len(stage.points):
        draw_path(figure, ax, stage.points)
    return figure


def density(
    points: pd.DataFrame, extent: tuple[float, float, float, float], sigma: float
) -> np.ndarray:
    """Return where the eyes were for how long, smoothed.

    Parameters
    ----------
    points
        Columns x, y and, where known, duration; without durations every fixation counts the same,
        and a missing duration among known ones counts as their median.
    extent
        Left, top, right, bottom in pixels.
    sigma
        Standard deviation of the Gaussian in pixels.

    Returns
    -------
    ndarray, shape (rows, columns)
        Sums to the share of the weight that lies inside the extent, less what is smoothed over
        its edge.
    """
    from scipy.ndimage import gaussian_filter

    left, top, right, bottom = extent
    cell = max(right - left, bottom - top) / CELLS
    shape = (max(1, round((bottom - top) / cell)), max(1, round((right - left) / cell)))
    x, y = floats(points, "x"), floats(points, "y")
    weight = floats(points, "duration")
    known = np.isfinite(weight)
    weight = np.where(known, weight, np.median(weight[known])) if known.any() else np.ones(len(x))
    edges = [np.linspace(top, bottom, shape[0] + 1), np.linspace(left, right, shape[1] + 1)]
    map_, _, _ = np.histogram2d(y, x, bins=edges, weights=weight)
    total = weight.sum()
    smoothed = gaussian_filter(map_, sigma / cell, mode="constant")
    return smoothed / total if total > 0 else smoothed


@styled
def heat_map(stage: Stage, sigma: float | None = None) -> Figure:
    """Draw where the eyes were for how long.

    Parameters
    ----------
    stage
    sigma
        Standard deviation in pixels; None: half the usual height of a unit, or a fortieth of the
        longer side of an image.
    """
    if stage.empty:
        return style.empty("Nothing to draw: no stimulus and no positions.")
    if stage.invented:
        return style.empty("No heat map: this corpus has no measured places.")
    left, top, right, bottom = stage.extent
    if sigma is None:
        tall = (stage.words["bottom"] - stage.words["top"]).median() if len(stage.words) else np.nan
        sigma = float(tall) / 2 if tall > 0 else max(right - left, bottom - top) / 40
    figure, ax = stage.figure()
    if len(stage.points):
        map_ = density(stage.points, stage.extent, sigma)
        peak = float(map_.max())
        alpha = np.clip(map_ / peak * 1.6, 0, 0.75) if peak > 0 else 0.0
        ax.imshow(
            map_, extent=(left, right, bottom, top), cmap="inferno", alpha=alpha, zorder=2,
            interpolation="bilinear",
        )  # fmt: skip
    what = "durations" if np.isfinite(floats(stage.points, "duration")).any() else "fixations"
    text = f"Share of {what}, Gaussian with a standard deviation of {sigma:.0f} px"
    figure.text(0.02, 0.02, text, color=MUTED, fontsize=9)
    return figure


@styled
def timeline(stage: Stage) -> Figure:
    """Draw which unit was looked at when: time to the right, reading order downwards.

    Without units, x and y are drawn over time.
    """
    points = stage.points
    if not len(points):
        return style.empty("Nothing to draw: no fixation has a place.")
    onset, duration = floats(points, "onset"), floats(points, "duration")
    timed = np.isfinite(onset).all()
    lasting = np.where(np.isfinite(duration), duration, 0.0)
    start = onset - onset.min() if timed else np.cumsum(lasting) - lasting
    if not timed and not lasting.any():
        start, lasting = np.arange(len(points), dtype=float), np.full(len(points), 0.8)
    scale = 1000.0 if lasting.max() > 1 else 1.0
    figure = style.new_figure(SIDE, 3.6)
    ax = figure.subplots()
    located = "word" in points and points["word"].notna().any() and len(stage.words)
    if located:
        order = stage.words.drop_duplicates("word").set_index("word")["index"]
        height = points["word"].map(order).to_numpy(dtype=float, na_value=np.nan) + 1
        off = np.isnan(height)
        ax.hlines(height[~off], start[~off] / scale, (start + lasting)[~off] / scale,
                  color=HUMAN, lw=3)  # fmt: skip
        ax.plot(start / scale, height, "-", color=MUTED, lw=0.6, alpha=0.7)
        if off.any():
            ax.plot(start[off] / scale, np.zeros(off.sum()), "x", color=MUTED, ms=4,
                    label="on no unit")  # fmt: skip
            ax.legend(loc="upper left")
        ax.set(ylabel="unit in reading order", ylim=(len(order) + 1, -1))
    else:
        ax.plot(start / scale, floats(points, "x"), "-o", ms=3, lw=0.8, color=HUMAN, label="x")
        ax.plot(start / scale, floats(points, "y"), "--s", ms=3, lw=0.8, color=style.MODEL,
                label="y")  # fmt: skip
        ax.set(ylabel="position (px)")
        ax.legend(loc="upper right", ncols=2)
    ax.set(xlabel="time (s)" if scale > 1 else "fixation")
    return figure
