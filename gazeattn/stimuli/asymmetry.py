"""Displays of six experiments on search asymmetry, drawn from their description.

Each experiment has two conditions, in which target and distractors change places. An item stands
in a cell of a square grid, moved by a random number of pixels; 30 pixels are one degree. The same
seed draws the same displays.

The displays follow the description of Gupta, Zhang, Wu, Wolfe and Kreiman (2021), "Visual search
asymmetry: deep nets and humans share similar inherent biases", NeurIPS. They are drawn anew: lines
and arcs have smooth edges, and the pictures are not those of the publication pixel by pixel.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from gazeattn.errors import DataError, UnknownNameError

PIXELS_PER_DEGREE = 30
Grey = NDArray[np.uint8]


@dataclass(frozen=True)
class Experiment:
    """One pair of search tasks.

    Attributes
    ----------
    name : str
    easier, harder : str
        Condition (what the target is) that is easier, harder for people.
    set_sizes : tuple of int
    trials : int
        Per condition and set size.
    side, grid, item : int
        Side of the display, cells along it, side of an item; pixels.
    background : int
        Grey level.
    sharpening : tuple
        (size, sigma) of the narrow and the wide Gaussian that the published model used here.
    human : (easier, harder)
        Slopes of people, milliseconds per item.
    """

    name: str
    easier: str
    harder: str
    set_sizes: tuple[int, ...]
    trials: int
    side: int
    grid: int
    item: int
    background: int
    sharpening: tuple[tuple[int, float], tuple[int, float]]
    human: tuple[float, float]

    @property
    def conditions(self) -> tuple[str, str]:
        """The easier condition, then the harder."""
        return self.easier, self.harder

    @property
    def cell(self) -> int:
        """Side of a grid cell, pixels."""
        return self.side // self.grid

    @property
    def human_index(self) -> float:
        """Asymmetry index of people."""
        easier, harder = self.human
        return (harder - easier) / (harder + easier)


_NARROW: tuple[tuple[int, float], tuple[int, float]] = ((3, 1.0), (5, 3.0))
_WIDE: tuple[tuple[int, float], tuple[int, float]] = ((5, 3.0), (7, 5.0))
_LIGHT: tuple[tuple[int, float], tuple[int, float]] = ((3, 0.0), (5, 1.0))

EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
        Experiment("curvature", "curve_in_lines", "line_in_curves", (8, 16, 32), 30,
                   339, 6, 48, 0, _NARROW, (0.8, 7.589286)),
        Experiment("lighting", "top_down", "left_right", (1, 6, 12), 30,
                   198, 4, 31, 27, _LIGHT, (4.205125, 23.88279)),
        Experiment("cross", "non_cross", "cross", (3, 6, 9), 36,
                   615, 3, 177, 255, _WIDE, (45.0, 96.0)),
        Experiment("letters", "Ts", "Ls", (3, 6, 9), 36,
                   615, 3, 177, 255, _WIDE, (14.0, 33.0)),
        Experiment("orientation_same", "homo_t20", "homo_t0", (1, 4, 8, 12), 30,
                   339, 4, 69, 255, _NARROW, (2.377035, 9.856461)),
        Experiment("orientation_mixed", "hetero_t0", "hetero_t20", (1, 4, 8, 12), 30,
                   339, 4, 69, 255, _NARROW, (23.73206, 71.11962)),
    )
}  # fmt: skip
"""The six experiments in the order of publication; human slopes are digitised values."""
ANGLES = (-80.0, -60.0, -40.0, 20.0, 40.0, 60.0, 80.0)
"""Distractors of the mixed orientations, degrees anticlockwise from vertical."""
TILT = -20.0


@dataclass(frozen=True)
class Display:
    """A search display.

    Attributes
    ----------
    experiment, condition : str
    set_size, trial : int
    picture : ndarray of uint8, shape (side, side)
    target : ndarray of uint8, shape (item, item)
        The target as it stands on the display.
    places : DataFrame
        All cells of the grid: object, xmin, ymin, xmax, ymax (pixels, ends excluded), item
        (whether one stands there), target.
    background : int
    """

    experiment: str
    condition: str
    set_size: int
    trial: int
    picture: Grey
    target: Grey
    places: pd.DataFrame
    background: int


def display(
    experiment: str, condition: str, set_size: int, trial: int = 0, *, seed: int = 0
) -> Display:
    """Draw one display.

    Raises
    ------
    UnknownNameError
        No such experiment or condition.
    DataError
        More items than cells, or none.
    """
    if experiment not in EXPERIMENTS:
        raise UnknownNameError("experiment", experiment, list(EXPERIMENTS))
    e = EXPERIMENTS[experiment]
    if condition not in e.conditions:
        raise UnknownNameError(f"condition of {experiment}", condition, list(e.conditions))
    cells = e.grid**2
    if not 1 <= set_size <= cells:
        raise DataError("the items do not fit", expected=f"1 to {cells}", found=set_size)
    number = (list(EXPERIMENTS).index(experiment), e.conditions.index(condition))
    rng = np.random.default_rng([seed, *number, set_size, trial])
    where = rng.choice(cells, set_size, replace=False)
    shift = rng.integers(0, int(e.side / e.grid - e.item), size=(set_size, 2))
    target, others = _choose(e, condition, set_size, rng)
    picture = np.full((e.side, e.side), e.background, dtype=np.uint8)
    # the first drawn cell is the target's: cells come in random order
    for at, (dx, dy), item in zip(where, shift, [target, *others], strict=True):
        x, y = int(at % e.grid) * e.cell + int(dx), int(at // e.grid) * e.cell + int(dy)
        picture[y : y + e.item, x : x + e.item] = item
    index = np.arange(cells)
    left, top = index % e.grid * e.cell, index // e.grid * e.cell
    places = pd.DataFrame({
        "object": index, "xmin": left, "ymin": top, "xmax": left + e.cell, "ymax": top + e.cell,
        "item": np.isin(index, where), "target": index == where[0],
    })  # fmt: skip
    return Display(experiment, condition, set_size, trial, picture, target, places, e.background)


def save(shown: Display, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write display and target as PNG files and return their paths."""
    stem = f"{shown.condition}_{shown.set_size:02d}_{shown.trial:03d}"
    paths = Path(folder) / f"{stem}.png", Path(folder) / f"{stem}_target.png"
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    for path, values in zip(paths, (shown.picture, shown.target), strict=True):
        Image.fromarray(values).save(path)
    return paths


def _choose(
    e: Experiment, condition: str, n: int, rng: np.random.Generator
) -> tuple[Grey, list[Grey]]:
    """Return the target and the n - 1 distractors of a display."""
    if e.name == "curvature":
        # the four orientations take turns
        kinds = curves(e), lines(e)
        ours, theirs = kinds if condition == "curve_in_lines" else kinds[::-1]
        turn = rng.permutation(n)
        return ours[turn[0] % 4], [theirs[k % 4] for k in turn[1:]]
    if e.name == "lighting":
        first = shaded_disc(e)
        if condition == "left_right":
            first = first.T
        return first[::-1, ::-1], [first] * (n - 1)
    if e.name in ("cross", "letters"):
        shapes = {"cross": "cross", "non_cross": "non_cross", "Ls": "L", "Ts": "T"}
        opposite = e.easier if condition == e.harder else e.harder
        ours, theirs = (turned(strokes(e, shapes[c])) for c in (condition, opposite))
        return ours[rng.integers(4)], [theirs[k] for k in rng.integers(4, size=n - 1)]
    upright, tilted = bar(e, 0.0), bar(e, TILT)
    mine, partner = (upright, tilted) if condition.endswith("_t0") else (tilted, upright)
    if condition.startswith("homo"):
        return mine, [partner] * (n - 1)
    kinds_of = [bar(e, a) for a in ANGLES] + [partner]
    rounds = [rng.permutation(8) for _ in range(-(-(n - 1) // 8))]
    order = np.concatenate([*rounds, np.zeros(0, dtype=np.int64)])[: n - 1]
    return mine, [kinds_of[int(k)] for k in rng.permutation(order)]


# -- items ----------------------------------------------------------------------------------------


def _ink(inside: NDArray[np.float64], paper: int, ink: int) -> Grey:
    """Return grey levels from signed distances: positive inside, edges one pixel wide."""
    share = np.clip(inside + 0.5, 0, 1)
    return np.round(paper + share * (ink - paper)).astype(np.uint8)


def _axes(side: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x and y of pixel centres from the middle of an item."""
    at = np.arange(side) - (side - 1) / 2
    x, y = np.meshgrid(at, at)
    return x, y


def _turned_axes(side: int, degrees: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the axes of an item that is turned anticlockwise (as seen; y points down)."""
    x, y = _axes(side)
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return c * x - s * y, s * x + c * y


def bar(e: Experiment, degrees: float) -> Grey:
    """Return a black bar, 2 by 0.3 degrees, turned anticlockwise from vertical."""
    x, y = _turned_axes(e.item, degrees)
    inside = np.minimum(0.15 * PIXELS_PER_DEGREE - np.abs(x), PIXELS_PER_DEGREE - np.abs(y))
    return _ink(inside, e.background, 0)


def lines(e: Experiment) -> list[Grey]:
    """Return white lines, 1.2 by 0.2 degrees, at four angles."""
    found = []
    for degrees in (-45.0, -90.0, -135.0, 180.0):
        x, y = _turned_axes(e.item, degrees)
        inside = np.minimum(0.6 * PIXELS_PER_DEGREE - np.abs(x),
                            0.1 * PIXELS_PER_DEGREE - np.abs(y))  # fmt: skip
        found.append(_ink(inside, e.background, 255))
    return found


def curves(e: Experiment) -> list[Grey]:
    """Return white arcs of 1.3 rad, radius 1 degree, 1/6 degree thick, at four angles."""
    found = []
    radius, half = float(PIXELS_PER_DEGREE), 0.65
    # the arc's middle between its chord and its top stands in the middle of the item
    centre = -radius * (1 + np.cos(half)) / 2
    for degrees in (-45.0, -90.0, -135.0, 180.0):
        x, y = _turned_axes(e.item, degrees)
        y = y - centre
        across = PIXELS_PER_DEGREE / 12 - np.abs(np.hypot(x, y) - radius)
        along = radius * (half - np.abs(np.arctan2(x, y)))
        found.append(_ink(np.minimum(across, along), e.background, 255))
    return found


def shaded_disc(e: Experiment) -> Grey:
    """Return a disc that gets lighter from top to bottom in steps of 17 grey levels."""
    x, y = _axes(e.item)
    step = max(1, e.item // 15)
    grey = np.minimum(np.arange(e.item) // step * 17, 255)[:, None]
    inside = np.clip(e.item / 2 - np.hypot(x, y), 0, 1)
    return np.round(e.background + inside * (grey - e.background)).astype(np.uint8)


def strokes(e: Experiment, shape: str) -> Grey:
    """Return a figure of black strokes, 5.5 degrees high and 0.55 thick, in a margin of 0.2.

    ``cross``: a vertical line crossed at three strokes' thickness below its top. ``non_cross``:
    the same line with a half arm on the left there and one on the right lower. ``L``, ``T``.
    """
    width = 0.55 * PIXELS_PER_DEGREE
    high = round(10 * width)
    figure = np.full((high, high), e.background, dtype=np.uint8)
    middle = slice(int((high - width) / 2), int((high + width) / 2))
    upper, lower = (slice(int(k * width), int((k + 1) * width)) for k in (3, 6))
    if shape == "cross":
        figure[:, middle] = figure[upper] = 0
    elif shape == "non_cross":
        figure[:, middle] = figure[upper, : high // 2] = figure[lower, high // 2 :] = 0
    elif shape == "L":
        figure[:, : int(width)] = figure[int(high - width) :] = 0
    elif shape == "T":
        figure[:, middle] = figure[: int(width)] = 0
    else:
        raise UnknownNameError("figure", shape, ["cross", "non_cross", "L", "T"])
    page = np.full((e.item, e.item), e.background, dtype=np.uint8)
    edge = (e.item - high) // 2
    page[edge : edge + high, edge : edge + high] = figure
    return page


def turned(item: Grey) -> list[Grey]:
    """Return an item, upside down, and both with rows and columns exchanged."""
    return [item, item[::-1], item.T, item.T[:, ::-1]]
