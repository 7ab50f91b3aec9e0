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


def cone_maps(batch: JointBatch, points: Tensor, width: float) -> Tensor:
    """Return the mean of the gaze cones of the people at points, (batch, points).

    A person's cone is a normal bump of `width` degrees over the angle between the gaze direction
    and the direction from the head to the point, angles in pixels; at the head itself it is 0.
    People without a gaze direction are left out of the mean.

    Parameters
    ----------
    points : (q, 2), or (batch, q, 2)
        Shares of the picture.
    """
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
    return (cone * known[..., None]).sum(1) / known.sum(1).clamp_min(1)[:, None]


def gaze_cones(
    scenes: JointScenes, width: float, grid: tuple[int, int] = (40, 80), batch_size: int = 64
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
            return cone_maps(batch, at, width)

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
