"""What a model of joint attention has to beat: gaze cones, the centre, the mean of the heads.

Every function returns one row per scene: scene, x, y (pixels), peak (the height of a map there,
NaN where there is no map) and presence (NaN: none of them says whether there is joint attention).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from gazeattn.datamodules.joint_attention import JointScenes
from gazeattn.datamodules.joint_batches import JointBatch, collate_scenes
from gazeattn.models.joint._network import cell_centres
from gazeattn.models.joint._peaks import find_peaks
from gazeattn.models.joint._scores import target_distances

CONE_WIDTHS = (5.0, 8.0, 12.0, 16.0, 20.0, 25.0, 30.0)
"""Degrees that `fit_gaze_cones` tries."""


def _rows(scenes: JointScenes, xy: NDArray[np.float64], peak: float | NDArray[np.float64]) -> (
    pd.DataFrame
):  # fmt: skip
    return pd.DataFrame(
        {"scene": scenes.scene, "x": xy[:, 0], "y": xy[:, 1], "peak": peak, "presence": np.nan}
    )


def centre(scenes: JointScenes) -> pd.DataFrame:
    """Return the middle of each picture."""
    return _rows(scenes, scenes.size / 2, np.nan)


def mean_head(scenes: JointScenes) -> pd.DataFrame:
    """Return the mean position of the heads; the middle of the picture where nobody is."""
    count = scenes.n_people
    total = np.zeros((len(scenes), 2))
    np.add.at(total, scenes.people_of, scenes.head)
    mean = total / np.maximum(count, 1)[:, None]
    return _rows(scenes, np.where((count > 0)[:, None], mean, scenes.size / 2), np.nan)


def cone_maps(
    batch: JointBatch, points: Tensor, width: float, weights: Sequence[float] | None = None
) -> Tensor:
    """Return the mean of the gaze cones of the people at points, (batch, points).

    A person's cone is a normal bump of `width` degrees over the angle between the gaze direction
    and the direction from the head to the point, angles in pixels; at the head itself it is 0.
    People without a gaze direction are left out of the mean.

    Parameters
    ----------
    points : (q, 2), or (batch, q, 2)
        Shares of the picture.
    weights
        Of the people by their action, the last that of people whose action is missing. The mean
        is the weighted sum over the number of people, so that only their ratios matter to where
        the peak is.
    """
    cone, known = _cones(batch, points, width)
    if weights is not None:
        cone = cone * _of_people(batch, weights)[..., None]
    return cone.sum(1) / known.sum(1).clamp_min(1)[:, None]


def _of_people(batch: JointBatch, weights: Sequence[float]) -> Tensor:
    return batch.size.new_tensor(list(weights))[batch.action]  # a missing one is -1: the last


def _cones(batch: JointBatch, points: Tensor, width: float) -> tuple[Tensor, Tensor]:
    """Return the cone of each person, (batch, people, points), and whose gaze is known."""
    size = batch.size[:, None, None]
    away = (points if points.dim() == 2 else points[:, None]) - batch.head[:, :, None]
    away = away * size
    gaze = batch.gaze * batch.size[:, None]
    gaze = gaze / gaze.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    length = away.norm(dim=-1)
    cosine = (away * gaze[:, :, None]).sum(-1) / length.clamp_min(1e-6)
    angle = torch.rad2deg(torch.acos(cosine.clamp(-1, 1)))
    cone = torch.exp(-0.5 * (angle / width) ** 2) * (length > 1e-3)
    known = (batch.gazes & batch.mask).to(cone.dtype)
    return cone * known[..., None], known


def gaze_cones(
    scenes: JointScenes,
    width: float,
    grid: tuple[int, int] = (40, 80),
    batch_size: int = 64,
    weights: Sequence[float] | None = None,
) -> pd.DataFrame:
    """Return the highest point of the mean of the gaze cones, see `cone_maps`.

    The mean of the heads stands in where no gaze direction is known.
    """
    instead = mean_head(scenes)[["x", "y"]].to_numpy()
    points, heights = [], []
    for start in range(0, len(scenes), batch_size):
        which = np.arange(start, min(start + batch_size, len(scenes)))
        batch = collate_scenes(scenes, which)

        def value(at: Tensor, batch: JointBatch = batch) -> Tensor:
            return cone_maps(batch, at, width, weights)

        xy, peak = find_peaks(value, len(which), grid, batch.head)
        known = (batch.gazes & batch.mask).any(1).numpy()
        here = (xy * batch.size).double().numpy()
        points.append(np.where(known[:, None], here, instead[which]))
        heights.append(np.where(known, peak.double().numpy(), 0.0))
    if not points:
        return _rows(scenes, np.zeros((0, 2)), np.nan)
    return _rows(scenes, np.concatenate(points), np.concatenate(heights))


def fit_gaze_cones(
    train: JointScenes,
    grid: tuple[int, int] = (40, 80),
    widths: Sequence[float] = CONE_WIDTHS,
    most: int = 1000,
) -> float:
    """Return the width (degrees) with the least mean distance on training scenes."""
    part = train.take(np.flatnonzero(train.present)[:most])
    mean = [target_distances(gaze_cones(part, w, grid), part)["distance"].mean() for w in widths]
    return float(widths[int(np.argmin(mean))])


def fit_weighted_cones(
    train: JointScenes,
    grid: tuple[int, int] = (20, 40),
    widths: Sequence[float] = CONE_WIDTHS,
    values: Sequence[float] = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0),
    rounds: int = 2,
    most: int = 1000,
) -> tuple[float, tuple[float, ...]]:
    """Return the width and the weights of the actions with the least mean distance in training.

    For each width, one weight after the other takes the best of `values`, `rounds` times, from
    weights of 1. Peaks are those of the grid here.
    """
    part = train.take(np.flatnonzero(train.present)[:most])
    batch = collate_scenes(part)
    points = cell_centres(grid, batch.size)
    of = torch.from_numpy(part.target_of[part.joint])
    place = torch.from_numpy(part.place[part.joint])
    best = (np.inf, float(widths[0]), (1.0,) * (len(train.actions) + 1))
    for width in widths:
        cones, _ = _cones(batch, points, width)

        def error(weights: Sequence[float], cones: Tensor = cones) -> float:
            total = torch.einsum("bpq,bp->bq", cones, _of_people(batch, weights))
            xy = points[total.argmax(1)] * batch.size
            return float((xy[of].double() - place).norm(dim=1).mean())

        weights = [1.0] * (len(train.actions) + 1)
        for _ in range(rounds if train.actions else 0):
            for k in range(len(weights)):
                tried = [[*weights[:k], v, *weights[k + 1 :]] for v in values]
                weights = tried[int(np.argmin([error(t) for t in tried]))]
        best = min(best, (error(weights), float(width), tuple(weights)))
    return best[1], best[2]
