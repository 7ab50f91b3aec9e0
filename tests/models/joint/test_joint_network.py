"""Joint attention: by-hand values, properties, scores, and faults of the published code."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import pytorch_lightning as pl
import torch

from gazeattn.datamodules.joint_attention import JointScenes, joint_scenes_of
from gazeattn.datamodules.joint_batches import JointDataModule, collate_scenes
from gazeattn.datamodules.joint_generated import (
    ACTIONS,
    generate_joint_scenes,
    generated_objects,
)
from gazeattn.errors import CapabilityError, DataError
from gazeattn.experiments._joint_training import train_joint
from gazeattn.experiments.joint_attention import joint_settings
from gazeattn.models.joint._baselines import (
    centre,
)
from gazeattn.models.joint._network import (
    InteractionLayer,
    PixelHead,
    at_points,
    cell_centres,
)
from gazeattn.models.joint._peaks import find_peaks
from gazeattn.models.joint._scores import (
    target_distances,
)
from gazeattn.models.joint._targets import bumps_at, sample_points, target_maps
from gazeattn.models.joint.joint_attention import JointAttention, map_memory
from gazeattn.models.scanpath.base import NonFiniteLossError

SMALL: dict[str, Any] = {"sigma": 40.0, "grid": (6, 12)}


@pytest.fixture(scope="module")
def scenes() -> JointScenes:
    return generate_joint_scenes(12, seed=3)


@pytest.fixture
def model() -> JointAttention:
    torch.manual_seed(0)
    return JointAttention(actions=ACTIONS, **SMALL).eval()


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


# the network -------------------------------------------------------------------------------------


def test_targets_are_bumps_added_and_cut_at_one() -> None:
    batch = collate_scenes(two_people([(50, 50), (54, 50)]))
    at = torch.tensor([[0.25, 0.5], [0.25, 0.6]])
    # sigma 10 of 200 x 100: at the first target 1 + exp(-.08) is cut; 10 px below it both add up
    found = bumps_at(batch, at, (10 / 200, 10 / 100))
    expected = np.exp(-0.5) * (1 + np.exp(-0.5 * 0.16))
    np.testing.assert_allclose(found[0], [1.0, min(1, expected)], atol=1e-6)
    maps = target_maps(batch, (50, 100), (0.05, 0.1))
    assert maps.shape == (1, 50, 100) and maps.max() <= 1


def test_sampled_points_estimate_the_loss_without_bias() -> None:
    batch = collate_scenes(two_people())
    spread = (0.1, 0.1)
    torch.manual_seed(0)
    grid = cell_centres((200, 200), batch.size)
    exact = (bumps_at(batch, grid, spread) - 0.2).square().mean()
    found = []
    for _ in range(400):
        points, weight = sample_points(batch, 32, spread)
        found.append(float((weight * (bumps_at(batch, points, spread) - 0.2).square()).mean()))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - float(exact)) < 4 * error and error < 0.02 * float(exact)


def test_the_head_is_the_mlp_of_token_and_coordinates() -> None:
    torch.manual_seed(0)
    head = PixelHead(4, 5, chunk=7)
    tokens, points = torch.randn(3, 4), torch.rand(11, 2)
    weight = torch.cat([head.token.weight, head.point.weight], dim=1)
    joined = torch.cat([tokens[:, None].expand(3, 11, 4), points.expand(3, 11, 2)], dim=-1)
    dense = head.rest(joined @ weight.T + head.token.bias)[..., 0]
    np.testing.assert_allclose(head(tokens, points).detach(), dense.detach(), atol=1e-6)
    with torch.no_grad():  # in chunks
        np.testing.assert_allclose(head(tokens, points), dense.detach(), atol=1e-6)
        own = points.expand(3, 11, 2)
        np.testing.assert_allclose(head(tokens, own), dense.detach(), atol=1e-6)


def test_memory_of_the_head_is_bounded_by_its_chunk() -> None:
    head = PixelHead(4, 8, chunk=1000)
    most = 0

    def watch(module: object, given: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
        nonlocal most
        most = max(most, given[0].numel())

    head.rest.register_forward_hook(watch)
    with torch.no_grad():
        head(torch.randn(12, 4), cell_centres((64, 128), torch.zeros(1)))
    assert most <= 1000 * 8  # not 12 * 64 * 128 * 8
    said = map_memory(1, 12, 64 * 128, 8, 1000)
    assert said["prediction"] == 4 * (64 * 128 + 2 * 1000 * 8)
    assert map_memory(1, 24, 64 * 128, 8, 1000)["training"] == said["training"]


def test_persons_have_no_maps_unless_asked(scenes: JointScenes, model: JointAttention) -> None:
    batch = collate_scenes(scenes)
    assert model(batch).persons is None
    rows: list[int] = []
    model.head.register_forward_hook(lambda m, given, out: rows.append(len(given[0])))
    model.train()
    model.training_loss(batch)
    assert rows == [len(batch.scene)]  # one map per scene, whatever the number of people


def test_absent_people_and_other_scenes_do_not_matter(
    scenes: JointScenes, model: JointAttention
) -> None:
    alone = collate_scenes(scenes, [int(np.argmin(scenes.n_people))])
    together = collate_scenes(scenes)
    row = together.scene.index(alone.scene[0])
    together.head[~together.mask] = 7.0
    together.gaze[~together.mask] = -3.0
    with torch.no_grad():
        a, b = model(alone, persons=True), model(together, persons=True)
    np.testing.assert_allclose(b.group[row], a.group[0], atol=1e-5)
    np.testing.assert_allclose(b.presence[row], a.presence[0], atol=1e-5)
    assert b.persons is not None and a.persons is not None
    n = alone.mask.shape[1]
    np.testing.assert_allclose(b.persons[row, :n], a.persons[0], atol=1e-5)
    assert bool((b.persons[row, n:] == 0).all())


def test_the_order_of_people_does_not_matter(scenes: JointScenes, model: JointAttention) -> None:
    batch = collate_scenes(scenes.take(np.flatnonzero(scenes.n_people == 5)[:1]))
    turned = torch.arange(4, -1, -1)
    other = collate_scenes(scenes.take(np.flatnonzero(scenes.n_people == 5)[:1]))
    for name in ("head", "gaze", "gazes", "action"):
        setattr(other, name, getattr(batch, name)[:, turned])
    np.testing.assert_allclose(model(other).group.detach(), model(batch).group.detach(), atol=1e-5)


def test_a_scene_without_people_has_a_finite_map(model: JointAttention) -> None:
    first = pd.DataFrame({"scene": ["a"], "width": [200.0], "height": [100.0]})
    people = pd.DataFrame(columns=["scene", "person", "head_x", "head_y"])
    empty = joint_scenes_of(first, people, actions=ACTIONS)
    found = model.predict_points(empty)
    assert np.isfinite(found[["x", "y", "peak", "presence"]].to_numpy(float)).all()
    assert len(model.predict_persons(empty)) == 0


def test_missing_gaze_and_actions_have_vectors_of_their_own(model: JointAttention) -> None:
    scenes = generate_joint_scenes(8, seed=1, no_gaze=0.5, no_action=0.5)
    model.train()
    model.training_loss(collate_scenes(scenes))["loss"].backward()
    for own in (model.tokens.no_gaze, model.tokens.no_action):
        assert own is not None and own.grad is not None and int(own.grad.count_nonzero())


def test_an_unknown_action_is_refused(scenes: JointScenes) -> None:
    with pytest.raises(DataError, match="does not know"):
        JointAttention(actions=ACTIONS[:1], **SMALL)(collate_scenes(scenes))


def test_the_grid_may_not_miss_the_targets() -> None:
    with pytest.raises(DataError, match="too coarse"):
        JointAttention(grid=(5, 10))
    JointAttention(grid=(20, 40))


def test_peaks_lie_between_cells() -> None:
    goal = torch.tensor([[0.333, 0.71], [0.999, 0.001]])

    def value(points: torch.Tensor) -> torch.Tensor:
        return -(points - goal[:, None]).square().sum(-1)

    found, peak = find_peaks(value, 2, (6, 12), goal)
    np.testing.assert_allclose(found, goal, atol=0.012)
    assert bool((found <= 1).all() and (found >= 0).all()) and bool((peak > -2e-4).all())


def test_maps_at_points_hold_at_cell_centres() -> None:
    maps = torch.rand(2, 3, 4)
    found = at_points(maps, cell_centres((3, 4), maps))
    np.testing.assert_allclose(found.view(2, 3, 4), maps, atol=1e-6)


def test_a_mixture_is_the_softmax_of_two_scalars(scenes: JointScenes) -> None:
    shown = generated_objects(scenes)
    model = JointAttention(actions=ACTIONS, channels=3, stage="both", **SMALL)
    assert model.mixture is not None
    model.mixture.data = torch.tensor([0.0, np.log(3.0)])
    with warnings.catch_warnings():  # a softmax without a dimension warns
        warnings.simplefilter("error")
        found = model(collate_scenes(shown))
    assert found.people is not None and found.scene is not None
    mixed = 0.25 * found.people + 0.75 * found.scene
    np.testing.assert_allclose(found.group.detach(), mixed.detach(), atol=1e-6)
    with pytest.raises(CapabilityError, match="feature map"):
        model(collate_scenes(scenes))


def test_the_scene_is_the_mean_over_those_who_are_there(scenes: JointScenes) -> None:
    shown = collate_scenes(generated_objects(scenes))
    model = JointAttention(actions=ACTIONS, channels=3, stage="both", **SMALL)
    maps, mean = model._scene(shown)
    row = int(shown.mask.sum(1).argmin())
    n = int(shown.mask[row].sum())
    assert n < maps.shape[1]
    np.testing.assert_allclose(mean[row].detach(), maps[row, :n].mean(0).detach(), atol=1e-6)


# training ----------------------------------------------------------------------------------------


def test_training_is_reproducible_and_learns_a_fixed_point(tmp_path: Path) -> None:
    scenes = generate_joint_scenes(60, seed=1, frames=1, groups=(0, 1, 0))
    fixed = np.tile([480.0, 80.0], (len(scenes.place), 1))
    scenes = JointScenes(**{**vars(scenes), "place": fixed})
    train, valid = scenes.split((0.7, 0.3))
    settings = joint_settings("tiny")
    models = [train_joint(train, valid, settings, tmp_path / k, seed=4) for k in "ab"]
    points = [m.predict_points(valid) for m in models]
    pd.testing.assert_frame_equal(points[0], points[1])
    settings["training"] = {
        **settings["training"],
        "max_epochs": 100,
        "batch_size": 14,
        "patience": 100,
    }
    found = train_joint(train, valid, settings, tmp_path / "c", seed=4).predict_points(valid)
    assert target_distances(found, valid)["distance"].mean() < 40
    assert target_distances(centre(valid), valid)["distance"].mean() > 170


def test_a_resumed_training_ends_as_an_unbroken_one(tmp_path: Path, scenes: JointScenes) -> None:
    train, valid = scenes.split((0.7, 0.3))

    def fit(epochs: int, start: Path | None = None) -> tuple[JointAttention, pl.Trainer]:
        torch.manual_seed(1)
        model = JointAttention(actions=ACTIONS, points=8, **SMALL)
        trainer = pl.Trainer(
            reload_dataloaders_every_n_epochs=1,
            max_epochs=4, accelerator="cpu", logger=False, enable_progress_bar=False,
            enable_checkpointing=False, enable_model_summary=False, limit_val_batches=0,
            callbacks=[StopAfter(epochs)],
        )  # fmt: skip
        trainer.fit(model, JointDataModule(train, valid, batch_size=8), ckpt_path=start)
        return model, trainer

    whole, _ = fit(4)
    _, trainer = fit(2)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    torch.manual_seed(99)
    resumed, _ = fit(4, tmp_path / "half.ckpt")
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


class StopAfter(pl.Callback):
    """Stops after a number of epochs and notes the order of the scenes."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self.seen: dict[int, list[str]] = {}

    def on_train_batch_start(self, trainer: pl.Trainer, *args: object) -> None:
        self.seen.setdefault(trainer.current_epoch, []).extend(args[1].scene)  # type: ignore[attr-defined]

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        trainer.should_stop = trainer.current_epoch + 1 >= self.epochs


def test_epochs_see_the_scenes_in_different_orders(scenes: JointScenes) -> None:
    train, valid = scenes.split((0.7, 0.3))
    watch = StopAfter(3)
    pl.Trainer(
        reload_dataloaders_every_n_epochs=1,
        max_epochs=3, accelerator="cpu", logger=False, enable_progress_bar=False,
        enable_checkpointing=False, enable_model_summary=False, limit_val_batches=0,
        callbacks=[watch],
    ).fit(JointAttention(actions=ACTIONS, **SMALL), JointDataModule(train, valid))  # fmt: skip
    orders = list(watch.seen.values())
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert sorted(orders[0]) == sorted(orders[1])


def test_stage_one_weights_load_into_stage_two(scenes: JointScenes) -> None:
    first = JointAttention(actions=ACTIONS, **SMALL)
    second = JointAttention(actions=ACTIONS, channels=3, **SMALL)
    missing, unexpected = second.load_state_dict(first.state_dict(), strict=False)
    assert not unexpected and {m.split(".")[0] for m in missing} == {"branch", "mixture"}
    trainable = {n.split(".")[0] for n, p in second.named_parameters() if p.requires_grad}
    assert trainable.isdisjoint({"branch", "mixture"})
    second.set_stage("both", lr=1e-5)
    assert all(p.requires_grad for p in second.parameters()) and second.lr == 1e-5
    with pytest.raises(CapabilityError, match="scene branch"):
        first.set_stage("both")


def test_both_stages_train_on_features(tmp_path: Path) -> None:
    shown = generated_objects(generate_joint_scenes(12, seed=2))
    train, valid = shown.split((0.5, 0.5))
    model = train_joint(train, valid, joint_settings("tiny"), tmp_path)
    again = train_joint(train, valid, joint_settings("tiny"), tmp_path)  # what is there
    assert (tmp_path / "both" / "curves.csv").exists() and again.stage == "both"
    pd.testing.assert_frame_equal(again.predict_points(valid), model.predict_points(valid))
    assert model.stage == "both"
    assert {"people", "fused", "scene", "loss"} <= set(model.training_loss(collate_scenes(train)))
    assert len(model.predict_points(valid)) == len(valid)


def test_person_maps_learn_only_where_a_target_is_known(scenes: JointScenes) -> None:
    model = JointAttention(actions=ACTIONS, person_weight=1.0, **SMALL)
    batch = collate_scenes(scenes)
    assert "persons" in model.training_loss(batch)
    batch.attends[:] = -1
    assert "persons" not in model.training_loss(batch)


def test_a_loss_that_is_not_finite_names_the_scenes(
    scenes: JointScenes, model: JointAttention
) -> None:
    batch = collate_scenes(scenes, [0, 1])
    batch.head[0, 0] = float("nan")
    with pytest.raises(NonFiniteLossError, match=batch.scene[0]):
        model.training_step(batch, 0)


def test_a_checkpoint_loads_with_the_safe_loader(tmp_path: Path, scenes: JointScenes) -> None:
    model = JointAttention(actions=ACTIONS, **SMALL)
    train, valid = scenes.split((0.5, 0.5))
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_progress_bar=False,
                         enable_checkpointing=False, enable_model_summary=False)  # fmt: skip
    trainer.fit(model, JointDataModule(train, valid))
    trainer.save_checkpoint(tmp_path / "model.ckpt")
    torch.load(tmp_path / "model.ckpt", weights_only=True)
    again = JointAttention.load_from_checkpoint(tmp_path / "model.ckpt", weights_only=True)
    assert again.actions == ACTIONS
    pd.testing.assert_frame_equal(again.predict_points(valid), model.predict_points(valid))


# faults of the published code --------------------------------------------------------------------


def test_layers_have_norms_of_their_own_and_the_joint_token_does_not_start_at_zero(
    model: JointAttention,
) -> None:
    norms = [p for n, p in model.interaction.named_parameters() if "norm" in n and "weight" in n]
    assert len({id(p) for p in norms}) == 2 * len(model.interaction) == 4
    assert bool((model.joint_token != 0).any())
    with pytest.raises(ValueError, match="do not divide"):
        InteractionLayer(16, 3, 16)


def test_anomaly_detection_stays_as_it_was(scenes: JointScenes, model: JointAttention) -> None:
    model(collate_scenes(scenes))
    assert not torch.is_anomaly_enabled()


def test_presence_of_people_and_scene_are_not_mixed_up(scenes: JointScenes) -> None:
    shown = collate_scenes(generated_objects(scenes))
    model = JointAttention(actions=ACTIONS, channels=3, stage="both", **SMALL)
    assert model.mixture is not None
    model.mixture.data = torch.tensor([50.0, -50.0])
    found = model(shown)
    np.testing.assert_allclose(found.group.detach(), found.people.detach(), atol=1e-5)
    assert found.scene is not None and not torch.allclose(found.scene, found.people)
