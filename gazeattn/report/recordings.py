"""Pictures of a recording: where the eyes were, and when."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from gazeattn.recordings import Recording
from gazeattn.report import style
from gazeattn.report.style import HUMAN, INK, MODEL, MUTED, styled

POINTS = 20_000
"""Samples that are drawn at most; longer recordings are thinned evenly, which the caption says."""


def gaze_points(recording: Recording) -> tuple[pd.DataFrame, str]:
    """Return what can be drawn as columns time (s), x, y, eye, and what it is."""
    parts = []
    for name, kind in (("samples", "samples"), ("fixations", "fixations")):
        table = getattr(recording, name)
        if table is None or not len(table):
            continue
        time = table["time"] if name == "samples" else table["onset"]
        for suffix, eye in (("", ""), ("_left", "left"), ("_right", "right")):
            if {f"x{suffix}", f"y{suffix}"} <= set(table):
                x, y = table[f"x{suffix}"], table[f"y{suffix}"]
                seen = (x.notna() & y.notna()).to_numpy()
                if seen.any():
                    part = pd.DataFrame({"time": time / 1000, "x": x, "y": y})[seen]
                    parts.append(part.assign(eye=eye).astype({"x": float, "y": float}))
        if parts:
            points = pd.concat(parts, ignore_index=True)
            step = -(-len(points) // POINTS)
            thinned = f", every {step}. of {len(points):,} drawn" if step > 1 else ""
            return points.iloc[::step], f"{kind}{thinned}"
    return pd.DataFrame({"time": [], "x": [], "y": [], "eye": []}), "no positions"


@styled
def recording_figure(recording: Recording) -> Figure:
    """Draw the places on the screen and, below, x and y over time.

    Parameters
    ----------
    recording
        Samples are drawn where there are any, else fixations. Grey: time in blinks.
    """
    points, what = gaze_points(recording)
    if not len(points):
        return style.empty("Nothing to draw: no positions in this recording.")
    figure = style.new_figure(7.5, 7.5)
    where, over = figure.subplots(2, 1, height_ratios=[3, 2])
    colours = {"": HUMAN, "left": HUMAN, "right": MODEL}
    for eye, part in points.groupby("eye"):
        name = str(eye)
        where.plot(
            part["x"], part["y"], ".", ms=2, alpha=0.35, color=colours[name], label=f"{name} eye"
        )
    screen = recording.info.get("screen")
    if screen:
        where.add_patch(Rectangle((0, 0), *screen, fill=False, edgecolor=INK, lw=1))
    low, high = np.nanpercentile(points[["x", "y"]], [0.5, 99.5], axis=0)
    pad = 0.05 * np.maximum(high - low, 1)
    left, top = np.minimum(low - pad, 0) if screen else low - pad
    right, bottom = np.maximum(high + pad, screen) if screen else high + pad
    where.set(xlim=(left, right), ylim=(bottom, top), xlabel="x (px)", ylabel="y (px)")
    where.set_aspect("equal", adjustable="box")
    where.set_title(f"{recording.source}: {what}", loc="left")
    if points["eye"].nunique() > 1:
        where.legend(loc="upper right")

    line = points[points["eye"] == points["eye"].iloc[0]]
    time = line["time"].to_numpy(float)
    timed = bool(np.isfinite(time).all() and (np.diff(time) >= 0).all())
    start = time[0] if timed else 0.0
    # a clock that is missing, or starts again in every trial, gives no common axis
    when = time - start if timed else np.arange(len(line))
    for axis, dash, colour in (("x", "-", HUMAN), ("y", "--", MODEL)):
        over.plot(when, line[axis], dash, lw=0.7, color=colour, label=axis)
    blinks = recording.blinks
    if timed and blinks is not None and len(blinks):
        shown = blinks.dropna(subset=["onset", "duration"]).head(2000)
        for onset, duration in zip(shown["onset"], shown["duration"], strict=True):
            begin = onset / 1000 - start
            over.axvspan(begin, begin + duration / 1000, color=MUTED, alpha=0.25, lw=0)
    over.set(ylabel="position (px)", ylim=(min(left, top), max(right, bottom)))
    over.set_xlabel("time (s)" if timed else "in the order of the file")
    over.legend(loc="upper right", ncols=2)
    return figure
