"""The density loss and the relative head: what stands beside the published form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from gazeattn import registry
from gazeattn.datamodules.joint_attention import JointScenes, joint_scenes_of
from gazeattn.datamodules.joint_batches import collate_scenes
from gazeattn.datamodules.joint_generated import (
    ACTIONS,
    generate_joint_scenes,
)
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.joint._baselines import (
    cone_maps,
    mean_head,
)
from gazeattn.models.joint._network import (
    RelativeHead,
    cell_centres,
)
from gazeattn.models.joint._scores import (
    target_distances,
)
from gazeattn.models.joint._targets import density_loss
from gazeattn.models.joint.joint_attention import JointAttention

SMALL: dict[str, Any] = {"sigma": 40.0, "grid": (6, 12)}
RELATIVE: dict[str, Any] = {
    **SMALL,
    "loss": "density",
    "activation": "gelu",
    "cones": [10, 30],
    "rings": [0.3],
}


@pytest.fixture(scope="module")
def scenes() -> JointScenes:
    return generate_joint_scenes(12, seed=3)


def two_people(targets: list[tuple[float, float]] | None = None) -> JointScenes:
    """Return one picture of 200 x 100: heads at (20, 50) and (120, 10), both look at (120, 50)."""
    first = pd.DataFrame({"scene": ["a"], "width": [200.0], "height": [100.0]})
    people = pd.DataFrame({
        "scene": ["a", "a"], "person": ["1", "2"], "head_x": [20.0, 120.0],
        "head_y": [50.0, 10.0], "gaze_x": [1.0, 0.0], "gaze_y": [0.0, 1.0],
    })  # fmt: skip
    places = [(120.0, 50.0)] if targets is None else targets
    goals = pd.DataFrame({"scene": "a", "target": [f"t{i}" for i in range(len(places))],
                          "x": [p[0] for p in places], "y": [p[1] for p in places]})  # fmt: skip
    return joint_scenes_of(first, people, goals)


# what is not published ---------------------------------------------------------------------------


def test_the_relative_head_starts_as_the_gaze_cones(scenes: JointScenes) -> None:
    batch = collate_scenes(scenes)
    head = RelativeHead(16, [20.0], [0.15], chunk=64)
    tokens = torch.randn(len(batch.scene), batch.mask.shape[1] + 1, 16)
    points = cell_centres((10, 20), tokens)
    count = (batch.gazes & batch.mask).sum(1, keepdim=True)
    expected = cone_maps(batch, points, 20.0) * count
    np.testing.assert_allclose(head(tokens, batch, points).detach(), expected, atol=1e-4)
    with torch.no_grad():  # in chunks
        np.testing.assert_allclose(head(tokens, batch, points), expected, atol=1e-4)
    np.testing.assert_allclose(
        head.weights(tokens, batch.mask).sum(1).detach(), batch.mask.sum(1), rtol=1e-5
    )


def test_a_ring_is_a_bump_over_the_distance_in_heights() -> None:
    batch = collate_scenes(two_people())
    head = RelativeHead(4, [10.0], [0.3], chunk=64)
    with torch.no_grad():
        head.amount.bias[:] = torch.tensor([0.0, 1.0])
    # (120, 50) is 100 px from the first head and 40 px from the second, of 100 px of height
    found = head.persons(torch.zeros(1, 3, 4), batch, torch.tensor([[0.6, 0.5]])).detach()
    expected = np.exp(-0.5 * (np.array([1.0, 0.4]) / 0.3) ** 2)
    np.testing.assert_allclose(found[0, :, 0], expected, atol=1e-5)


def test_the_density_loss_by_hand() -> None:
    goal = torch.tensor([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    one = torch.ones(())
    assert float(density_loss(torch.zeros(2, 4), goal, one)) == pytest.approx(0, abs=1e-6)
    values = torch.log(torch.tensor([[1.0, 4.0, 2.0, 1.0], [9.0, 1.0, 1.0, 1.0]]))
    # shares 1/8, 1/2, 1/4, 1/8 against a half on each of the two; flat: log 4
    expected = -0.5 * (np.log(0.5) + np.log(0.25)) - np.log(4)
    assert float(density_loss(values, goal, one)) == pytest.approx(expected, abs=1e-6)
    # a constant does not matter, the second row has no goal, weights count points twice
    assert float(density_loss(values + 3, goal, one)) == pytest.approx(expected, abs=1e-5)
    twice = density_loss(values[:1, :3], goal[:1, :3], torch.tensor([[2.0, 1.0, 1.0]]))
    assert float(twice) == pytest.approx(expected, abs=1e-5)
    off = density_loss(values[:1], goal[:1], torch.tensor([[2.0, 1.0, 1.0, 0.0]]))
    assert float(off) == pytest.approx(expected, abs=1e-5)
    assert float(density_loss(values[1:], goal[1:], one)) == 0


def test_unknown_options_are_named() -> None:
    with pytest.raises(UnknownNameError, match="loss"):
        JointAttention(loss="mae")
    with pytest.raises(UnknownNameError, match="activation"):
        JointAttention(activation="sine")
    with pytest.raises(DataError, match="beside cones"):
        JointAttention(rings=[0.3])
    assert "joint_attention" in registry.joint_models


def test_absent_people_do_not_matter_to_the_relative_head(scenes: JointScenes) -> None:
    torch.manual_seed(0)
    model = JointAttention(actions=ACTIONS, **RELATIVE).eval()
    torch.nn.init.normal_(model.relative.amount.weight)  # type: ignore[union-attr]
    torch.nn.init.normal_(model.relative.ask.weight)  # type: ignore[union-attr]
    alone = collate_scenes(scenes, [int(np.argmin(scenes.n_people))])
    together = collate_scenes(scenes)
    row = together.scene.index(alone.scene[0])
    together.head[~together.mask] = 7.0
    with torch.no_grad():
        a, b = model(alone, persons=True), model(together, persons=True)
    np.testing.assert_allclose(b.group[row], a.group[0], atol=1e-4)
    n = alone.mask.shape[1]
    np.testing.assert_allclose(b.persons[row, :n], a.persons[0], atol=1e-4)
    points = model.predict_persons(scenes)
    assert len(points) == len(scenes.person) and np.isfinite(points["peak"]).all()


def test_a_density_learns_where_from_every_seed() -> None:
    scenes = generate_joint_scenes(50, seed=4, distractors=0.0, groups=(0, 1, 0), gaze_noise=5.0)
    batch = collate_scenes(scenes)
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = JointAttention(actions=ACTIONS, points=32, seed=seed, **RELATIVE).train()
        best = torch.optim.Adam(model.parameters(), lr=0.01)
        generator = torch.Generator().manual_seed(seed)
        for _ in range(40):
            best.zero_grad()
            model.training_loss(batch, generator)["loss"].backward()
            best.step()
        new = generate_joint_scenes(30, seed=9, distractors=0.0, groups=(0, 1, 0), gaze_noise=5.0)
        found = target_distances(model.predict_points(new), new)["distance"].mean()
        assert found < 0.5 * target_distances(mean_head(new), new)["distance"].mean()
