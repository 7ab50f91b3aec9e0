"""Generated scenes of people whose attended points are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from gazeattn.datamodules.joint_attention import NOBODY, JointScenes, joint_scenes_of
from gazeattn.errors import DataError

Floats = NDArray[np.float64]
ACTIONS = ("playing", "reaching", "standing", "walking")
"""Actions of generated people; see `generate_joint_tables`."""
_OF_MEMBERS = np.array([0.3, 0.3, 0.3, 0.1])
_OF_OTHERS = np.array([0.05, 0.05, 0.4, 0.5])
_NOISE = np.array([1.0, 0.6, 1.0, 1.4])


def generate_joint_tables(
    sequences: int,
    *,
    frames: int = 3,
    seed: int = 0,
    size: Sequence[float] = (640.0, 320.0),
    people: Sequence[int] = (3, 8),
    groups: Sequence[float] = (0.25, 0.6, 0.15),
    distractors: float = 0.4,
    gaze_noise: float = 15.0,
    absent: float = 0.1,
    no_gaze: float = 0.05,
    no_action: float = 0.1,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the three tables of generated scenes.

    A sequence has a number of people who walk about; none, one or two groups of two people or
    more attend to a point each, which moves as well. All others are distractors and attend to a
    point of their own. The gaze direction that the tables hold is the true one turned by a
    normal error. The action says something, but not all: members of a group mostly play, reach
    or stand, distractors mostly stand or walk; those who reach are near the point (within 0.25
    of the height) and their gaze error is 0.6 times the usual one, 1.4 times in those who walk.
    Nothing else tells members from distractors. In each frame some people are absent; a point
    that is left with fewer than two people is no target of joint attention in that frame.

    Parameters
    ----------
    sequences, frames
        Number, and frames of each.
    seed
    size
        Width and height, pixels.
    people
        Fewest and most people of a sequence.
    groups
        Probability of no, one and two groups; two groups need four people, or become one.
    distractors
        Probability that a person is none's member.
    gaze_noise
        Standard deviation of the usual error of a gaze direction, degrees.
    absent
        Probability that a person is not there in a frame.
    no_gaze, no_action
        Probability that the gaze direction or the action of a person is missing.

    Returns
    -------
    scenes, people, targets : DataFrame
    """
    if len(groups) != 3 or not np.isclose(sum(groups), 1):
        raise DataError("probabilities of 0, 1, 2 groups sum to 1", found=list(groups))
    if not 2 <= people[0] <= people[1]:
        raise DataError("a scene has two people at least", found=list(people))
    rng = np.random.default_rng(seed)
    box = np.array(size, dtype=np.float64)
    s, f, p = sequences, frames, int(people[1])
    count = rng.integers(people[0], people[1] + 1, s)
    exists = np.arange(p) < count[:, None]
    wanted = rng.choice(3, s, p=np.asarray(groups, dtype=np.float64))
    wanted = np.where((wanted == 2) & (count < 4), 1, wanted)
    member = _members(rng, exists, wanted, distractors)
    # points drift over the frames and turn back at the margin
    points = _drift(rng, rng.uniform(0.1, 0.9, (s, 2, 2)) * box, f, 0.02 * box[1], box)
    own = _drift(rng, rng.uniform(0.02, 0.98, (s, p, 2)) * box, f, 0.05 * box[1], box)
    acts = np.where(
        member >= 0, rng.choice(4, (s, p), p=_OF_MEMBERS), rng.choice(4, (s, p), p=_OF_OTHERS)
    )
    start = rng.uniform(0.03, 0.97, (s, p, 2)) * box
    chosen = np.maximum(member, 0)
    near = (member >= 0) & (acts == 1)
    turn = rng.uniform(0, 2 * np.pi, (s, p))
    away = rng.uniform(0.08, 0.25, (s, p)) * box[1]
    beside = np.take_along_axis(points[:, 0], chosen[..., None], axis=1)
    beside = beside + away[..., None] * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    start = np.where(near[..., None], np.clip(beside, 0.03 * box, 0.97 * box), start)
    heads = _drift(rng, start, f, 0.03 * box[1], box)
    goal = np.where(
        (member >= 0)[:, None, :, None],
        np.take_along_axis(points, chosen[:, None, :, None], axis=2),
        own,
    )
    true = goal - heads
    noise = np.deg2rad(gaze_noise) * _NOISE[acts][:, None] * rng.standard_normal((s, f, p))
    angle = np.arctan2(true[..., 1], true[..., 0]) + noise
    there = exists[:, None] & (rng.random((s, f, p)) >= absent)
    return _tables(rng, heads, angle, acts, member, points, there, wanted, box, no_gaze, no_action)


def _members(
    rng: np.random.Generator, exists: NDArray[np.bool_], wanted: NDArray[np.int64], share: float
) -> NDArray[np.int64]:
    """Return the group of each person, -1 for distractors; each group has two people at least."""
    s, p = exists.shape
    place = np.argsort(np.where(exists, rng.random((s, p)), 2.0), axis=1)
    rank = np.empty_like(place)
    np.put_along_axis(rank, place, np.broadcast_to(np.arange(p), (s, p)), axis=1)
    free = rng.random((s, p)) < share
    sure = rank < 2 * wanted[:, None]
    group = np.where(wanted[:, None] == 2, rank % 2, 0)
    return np.where(exists & (wanted[:, None] > 0) & (sure | ~free), group, -1)


def _drift(
    rng: np.random.Generator, start: Floats, frames: int, step: float, box: Floats
) -> Floats:
    """Return positions per frame, (sequences, frames, things, 2), reflected at the margins."""
    steps = rng.normal(0, step, (start.shape[0], frames, *start.shape[1:]))
    steps[:, 0] = 0
    at = (start[:, None] + np.cumsum(steps, axis=1)) / box
    at = np.abs((at + 1) % 2 - 1)  # a triangle wave: what leaves on one side comes back
    return np.clip(at, 0.005, 0.995) * box


def _tables(
    rng: np.random.Generator, heads: Floats, angle: Floats, acts: NDArray[np.int64],
    member: NDArray[np.int64], points: Floats, there: NDArray[np.bool_],
    wanted: NDArray[np.int64], box: Floats, no_gaze: float, no_action: float,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:  # fmt: skip
    s, f, p = there.shape
    scene = np.array([[f"s{i:05d}_{j}" for j in range(f)] for i in range(s)], dtype=object)
    scenes = pd.DataFrame({
        "scene": scene.ravel(), "width": box[0], "height": box[1],
        "sequence": np.repeat([f"s{i:05d}" for i in range(s)], f),
    })  # fmt: skip
    i, j, k = np.nonzero(there)
    gaze = np.stack([np.cos(angle), np.sin(angle)], axis=-1)[i, j, k]
    gaze[rng.random(len(i)) < no_gaze] = np.nan
    names = np.array(ACTIONS, dtype=object)[acts[i, k]]
    names[rng.random(len(i)) < no_action] = None
    ids = np.array([f"p{n}" for n in range(p)], dtype=object)
    head = heads[i, j, k]
    people = pd.DataFrame({
        "scene": scene[i, j], "person": ids[k], "head_x": head[:, 0], "head_y": head[:, 1],
        "gaze_x": gaze[:, 0], "gaze_y": gaze[:, 1], "action": names,
    })  # fmt: skip
    rows = []
    for g in range(2):
        looks = there & (member == g)[:, None]
        a, b = np.nonzero((wanted > g)[:, None] & np.ones((1, f), dtype=bool))
        rows.append(pd.DataFrame({
            "scene": scene[a, b], "target": f"t{g}",
            "x": points[a, b, g, 0], "y": points[a, b, g, 1],
            "attended_by": [";".join(ids[own]) or NOBODY for own in looks[a, b]],
        }))  # fmt: skip
    return scenes, people, pd.concat(rows, ignore_index=True)


def generate_joint_scenes(
    sequences: int, *, with_actions: bool = True, **options: object
) -> JointScenes:
    """Return generated scenes; see `generate_joint_tables` for the options.

    Without actions the scenes are the same, but it is not noted what the people do.
    """
    scenes, people, targets = generate_joint_tables(sequences, **options)  # type: ignore[arg-type]
    if not with_actions:
        return joint_scenes_of(scenes, people.drop(columns="action"), targets)
    return joint_scenes_of(scenes, people, targets, actions=ACTIONS)


def generated_objects(
    scenes: JointScenes, *, grid: tuple[int, int] = (10, 20), decoys: int = 3, seed: int = 0
) -> JointScenes:
    """Return the scenes with a made-up feature map: objects stand at the targets and elsewhere.

    Stands in for a backbone where there is no picture. One channel holds a bump for each object,
    targets and `decoys` that nobody attends to alike; two channels hold the coordinates.
    """
    rows, columns = grid
    y = (np.arange(rows) + 0.5) / rows
    x = (np.arange(columns) + 0.5) / columns
    maps: list[Tensor] = []
    rng = np.random.default_rng(seed)
    for i in range(len(scenes)):
        own = slice(int(scenes.target_starts[i]), int(scenes.target_starts[i + 1]))
        places = np.concatenate([scenes.place[own] / scenes.size[i], rng.random((decoys, 2))])
        bump = np.exp(-0.5 * (((x - places[:, :1]) * columns) ** 2))[:, None, :]
        bump = bump * np.exp(-0.5 * (((y - places[:, 1:]) * rows) ** 2))[:, :, None]
        shown = bump.max(axis=0, initial=0.0)
        stack = np.stack([shown, np.broadcast_to(x, grid), np.broadcast_to(y[:, None], grid)])
        maps.append(torch.from_numpy(stack.astype(np.float32)))
    return scenes.with_features(lambda _, i: maps[i])
