"""Gazeformer: slots by hand, truncation, lengths, and the faults of the published training."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from gazeattn.datamodules import Scanpaths, Stimulus, collate
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.scanpath.base import one_batch
from gazeattn.models.scanpath.gazeformer import NARROWEST, Gazeformer, expected_l1
from gazeattn.registry import scanpath_models

SMALL: dict[str, Any] = {
    "channels": {"stride32": 5}, "slots": 6, "width": 16, "heads": 2, "inner": 16,
    "encoder_layers": 1, "decoder_layers": 2, "image_size": (128, 128),
}  # fmt: skip
MIXED = {**SMALL, "components": 3}


def stimulus(seed: int = 0, **facts: Any) -> Stimulus:
    g = torch.Generator().manual_seed(seed)
    # pictures differ as a whole, not only from cell to cell
    maps = torch.randn(5, 4, 4, generator=g) + torch.randn(5, 1, 1, generator=g)
    features = {"stride32": maps, **facts.pop("more", {})}
    return Stimulus(f"picture{seed}", (800.0, 600.0), features=features, **facts)


def walks(lengths: list[int], seed: int = 0, stimuli: int = 2) -> Scanpaths:
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    pictures = [stimulus(i) for i in range(stimuli)]
    ids = np.array([f"t{i}" for i in range(len(lengths))], dtype=object)
    names = np.array([pictures[i % stimuli].name for i in range(len(lengths))], dtype=object)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Scanpaths(
        rng.uniform(0, 799, n), rng.uniform(0, 599, n), rng.uniform(80, 500, n), starts, ids, ids,
        names, {p.name: p for p in pictures},
    )  # fmt: skip


def built(kind: dict[str, Any] = SMALL, fit: bool = True) -> Gazeformer:
    torch.manual_seed(0)
    model = Gazeformer(**kind)
    with torch.no_grad():  # heads that start near 0 must not hide faults
        for head in (model.place_head, model.time_head, model.follows_head):
            head.weight.normal_(std=0.3)
    if fit:
        model.fit_statistics(walks([3, 5, 7, 6]))
    return model.eval()


def silent(model: Gazeformer) -> Gazeformer:
    """Return the model with slots that say what `fit_statistics` found, whatever the picture."""
    with torch.no_grad():
        for head in (model.place_head, model.time_head, model.follows_head):
            head.weight.zero_()
            head.bias.zero_()
    return model


@pytest.mark.parametrize("kind", [SMALL, MIXED], ids=["published", "mixture"])
def test_neither_padding_nor_others_nor_history_matter(kind: dict[str, Any]) -> None:
    model, paths = built(kind), walks([6, 3, 9, 1])
    batch = collate(paths)
    maps = model.log_density(batch, (5, 7))
    assert maps.shape == (4, 9, 5, 7)
    assert torch.allclose(maps.exp().sum((-2, -1)), torch.tensor(1.0), atol=1e-5)
    losses = []
    for i in range(4):
        one = collate(paths, [i])
        n = int(one.mask.sum())
        assert torch.allclose(model.log_density(one, (5, 7))[0, :n], maps[i, :n], atol=1e-5)
        losses.append(model.training_loss(one)["loss"].item() * n)
    assert sum(losses) / 19 == pytest.approx(model.training_loss(batch)["loss"].item(), abs=1e-5)
    # slots see no fixation: not even later maps change
    xy, duration = batch.xy.clone(), batch.duration.clone()
    xy[2, 4], duration[2, 4] = torch.tensor([0.9, 0.05]), 700.0
    assert torch.equal(model.log_density(replace(batch, xy=xy, duration=duration), (5, 7)), maps)
    noisy = replace(
        batch,
        xy=torch.where(batch.mask[..., None], batch.xy, 3.0),
        duration=torch.where(batch.mask, batch.duration, 123.0),
    )
    for name, value in model.training_loss(noisy).items():
        assert value.item() == pytest.approx(model.training_loss(batch)[name].item(), abs=1e-6)
    # the picture and the slot do matter; fixations after the last slot share its density
    assert (maps[0, 0] - maps[1, 0]).abs().max() > 1e-3
    assert (maps[0, 0] - maps[0, 1]).abs().max() > 1e-3
    assert torch.equal(maps[2, 5], maps[2, 8])


def test_padding_is_the_mask_and_no_value_of_a_fixation() -> None:
    """The public code pads with a number that a real coordinate can have."""
    model = built()
    for value in (0.0, 3.0, 1.0):
        path = np.array([[value, value, 200.0], [400.0, 300.0, 250.0]])
        parts = model.training_loss(one_batch(stimulus(), [path]))
        alone = model.training_loss(one_batch(stimulus(), [path[:1]]))
        assert parts["missing"].item() == 0
        assert math.isfinite(parts["loss"].item())
        assert parts["position"].item() != pytest.approx(alone["position"].item(), abs=1e-4)


def test_a_slot_by_hand() -> None:
    model = silent(built(fit=False))
    model.place_mean[0] = torch.tensor([0.5, 0.0])
    model.place_sd[0] = torch.tensor([0.25, 0.5])
    model.log_mean[0], model.log_sd[0] = math.log(200), 0.5
    batch = one_batch(stimulus(), [np.array([[600.0, 300.0, 200 * math.exp(0.5)]])])
    maps = model.log_density(batch, (2, 4))[0, 0].exp()
    # x: edges at -2, -1, 0, 1, 2 sd: .1359, .3413 over .9545; y: 0 to 1 and 1 to 2 sd
    across = np.array([0.13591, 0.34134, 0.34134, 0.13591]) / 0.95450
    down = np.array([0.34134, 0.13591]) / 0.47725
    assert np.allclose(maps.numpy(), down[:, None] * across, atol=1e-4)
    parts = model.training_loss(batch)
    # one sd away in x and in y; mass on the picture .9545 * .47725
    density = math.exp(-1) / (2 * math.pi * 0.25 * 0.5) / (0.95450 * 0.47725)
    assert parts["position"].item() == pytest.approx(-math.log(density), abs=1e-3)
    height = -math.log(200 * math.exp(0.5) * 0.5 * math.sqrt(2 * math.pi)) - 0.5
    assert parts["duration"].item() == pytest.approx(-height, abs=1e-4)
    # one more fixation is as likely as none: one decision, to end after the first
    assert parts["end"].item() == pytest.approx(math.log(2), abs=1e-6)


def test_likelihood_is_a_density_on_the_stimulus() -> None:
    side = (np.arange(60) + 0.5) / 60
    grid = np.stack(np.meshgrid(side * 800, side * 600), -1).reshape(-1, 2)
    model = built(MIXED)
    batch = one_batch(stimulus(), [g[None] for g in grid])
    with torch.no_grad():
        place = model.look(batch.stimuli, batch.features).at(batch.which, torch.tensor([0])).place
        density = (place.log_prob(batch.xy) - place.log_inside()).exp()
    assert density.mean().item() == pytest.approx(1, abs=0.01)


def test_expected_l1_is_that_of_samples() -> None:
    noise = torch.randn(400_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for d, s in ((0.0, 1.0), (0.7, 0.5), (-2.0, 1.5)):
        found = expected_l1(torch.tensor(d), torch.tensor(s)).item()
        assert found == pytest.approx((d + s * noise).abs().mean().item(), abs=0.01)
    assert expected_l1(torch.tensor(0.0), torch.tensor(1.0)).item() == pytest.approx(
        math.sqrt(2 / math.pi)
    )


def fitted(model: Gazeformer, paths: Scanpaths, steps: int, lr: float = 0.05) -> list[float]:
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    batch, losses = collate(paths), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model.training_loss(batch)["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


def plain(**more: Any) -> dict[str, Any]:
    calm = {"dropout": 0.0, "decoder_dropout": 0.0, "head_dropout": 0.0, "encoder_layers": 1}
    return {**SMALL, **calm, "decoder_layers": 1, **more}


def test_the_published_loss_loses_the_spread_and_the_likelihood_finds_it() -> None:
    rng = np.random.default_rng(0)
    paths = walks([1] * 300, stimuli=1)
    paths.x[:] = 400 + 80 * rng.standard_normal(300)  # a tenth of the width
    paths.y[:] = 300 + 60 * rng.standard_normal(300)
    spread = {}
    for loss in ("l1", "likelihood"):
        torch.manual_seed(0)
        model = Gazeformer(**plain(loss=loss))
        fitted(model, paths, 60)
        with torch.no_grad():
            batch = collate(paths, [0])
            spread[loss] = model.look(batch.stimuli, batch.features).place.log_sd[0, 0, 0].exp()
    assert spread["likelihood"].tolist() == pytest.approx([0.1, 0.1], rel=0.2)
    assert (spread["l1"] < 0.05).all()
    assert (spread["l1"] >= NARROWEST - 1e-6).all()


def test_learns_what_depends_on_the_picture_and_draws_it() -> None:
    rng = np.random.default_rng(1)
    paths = walks([3] * 120)
    side = np.repeat(np.arange(120) % 2, 3)  # the left on one picture, the right on the other
    order = np.tile(np.arange(3), 120)
    paths.x[:] = 800 * (0.2 + 0.6 * side) + 40 * rng.standard_normal(360)
    paths.y[:] = 600 * (0.25 + 0.25 * order) + 30 * rng.standard_normal(360)
    paths.duration[:] = 150 * (1 + order) * np.exp(0.1 * rng.standard_normal(360))
    torch.manual_seed(0)
    model = Gazeformer(**plain())
    model.fit_statistics(paths)
    before = model.training_loss(collate(paths))["position"].item()
    fitted(model, paths, 90, lr=0.01)
    after = model.training_loss(collate(paths))["position"].item()
    assert after < before - 0.8
    for number in (0, 1):
        drawn = model.sample(stimulus(number), 200, torch.Generator().manual_seed(0))
        first = np.array([p[0] for p in drawn])
        assert first[:, 0].mean() / 800 == pytest.approx(0.2 + 0.6 * number, abs=0.06)
        assert np.median(first[:, 2]) == pytest.approx(150, rel=0.2)
        assert np.mean([len(p) for p in drawn]) == pytest.approx(3, abs=0.3)


@pytest.mark.parametrize("kind", [SMALL, MIXED], ids=["published", "mixture"])
def test_draws(kind: dict[str, Any]) -> None:
    model, picture = built(kind), stimulus()
    model.train()
    state = torch.get_rng_state()
    a = model.sample(picture, 200, torch.Generator().manual_seed(3))
    b = model.sample(picture, 200, torch.Generator().manual_seed(3))
    c = model.sample(picture, 200, torch.Generator().manual_seed(4))
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert not all(len(x) == len(y) and np.allclose(x, y) for x, y in zip(a, c, strict=True))
    for path in a:
        assert 1 <= len(path) <= 6
        assert path.shape[1] == 3
        assert ((path[:, :2] >= 0) & (path[:, :2] < [800, 600])).all()
        assert (path[:, 2] > 0).all()
    assert model.sample(picture, 0, torch.Generator()) == []
    # frequencies of cells are the masses that are said
    many = np.array([p[0] for p in model.sample(picture, 4000, torch.Generator().manual_seed(0))])
    counted, *_ = np.histogram2d(many[:, 1], many[:, 0], bins=(2, 3), range=[[0, 600], [0, 800]])
    mass = model.log_density(one_batch(picture, [many[:1]]), (2, 3))[0, 0].exp().numpy()
    assert np.abs(counted / 4000 - mass).max() < 0.03


def test_the_first_fixation_is_not_forced_to_the_centre() -> None:
    model = silent(built(fit=False))
    model.place_mean[0], model.place_sd[0] = torch.tensor([0.1, 0.9]), torch.tensor([0.02, 0.02])
    first = np.array([p[0] for p in model.sample(stimulus(), 99, torch.Generator().manual_seed(0))])
    assert np.allclose(first[:, :2].mean(0), [80, 540], atol=6)


def test_drawn_lengths_are_those_learned_and_not_those_of_independent_slots() -> None:
    # half of the scanpaths have 1 fixation, half have 3; the share of slots that are filled is
    # 1, .5, .5, and slots that ended a scanpath independently would give 3 in a quarter of cases
    model = silent(built())
    model.fit_statistics(walks([1, 3] * 200))
    batch = collate(walks([1, 3]))
    drawn = [len(p) for p in model.sample(stimulus(), 2000, torch.Generator().manual_seed(0))]
    assert np.mean(np.array(drawn) == 3) == pytest.approx(0.5, abs=0.05)
    assert np.mean(np.array(drawn) == 1) == pytest.approx(0.5, abs=0.05)
    # to end after 1, or to go on with 2 and 3 and end: decisions with 1/2, 1, and 1
    assert model.training_loss(batch)["end"].item() == pytest.approx(2 * math.log(2) / 4, abs=0.02)


def test_scanpaths_longer_than_the_slots() -> None:
    model = built()
    parts = model.training_loss(collate(walks([9, 12])))
    assert all(math.isfinite(v.item()) for v in parts.values())
    model.fit_statistics(walks([9] * 50))
    silent(model)
    drawn = {len(p) for p in model.sample(stimulus(), 100, torch.Generator().manual_seed(0))}
    assert max(drawn) == 6


def test_missing_zero_and_negative_durations_are_left_out_and_counted() -> None:
    paths = walks([4, 4])
    paths.duration[[0, 1, 2]] = [np.nan, 0.0, -5.0]
    for loss in ("likelihood", "l1"):
        model = built({**SMALL, "loss": loss})
        found = model.training_loss(collate(paths))
        assert found["missing"].item() == pytest.approx(3 / 8)
        found["loss"].backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        assert all(bool(torch.isfinite(g).all()) for g in gradients)
        whole = collate(paths)
        assert model.training_loss(replace(whole, mask=torch.zeros_like(whole.mask))) == {}
        unknown = replace(whole, duration=torch.full_like(whole.duration, torch.nan))
        assert math.isfinite(model.training_loss(unknown)["loss"].item())
        assert model.training_loss(unknown)["missing"].item() == 1


def test_statistics_by_hand() -> None:
    model = Gazeformer(**SMALL)
    paths = walks([1] * 2000)
    paths.x[:], paths.y[:] = 200.0, 450.0
    paths.x[::2] = 600.0
    paths.duration[:] = 100.0
    paths.duration[::2] = 100 * math.e
    paths.duration[0] = np.nan
    model.fit_statistics(paths)
    assert model.place_mean[0].tolist() == pytest.approx([0.5, 0.75], abs=1e-5)
    assert model.place_sd[0].tolist() == pytest.approx([0.25, 2 * NARROWEST], abs=1e-5)
    assert model.log_mean[0].item() == pytest.approx(math.log(100) + 0.5, abs=1e-3)
    assert model.log_sd[0].item() == pytest.approx(0.5, abs=1e-3)
    # no scanpath goes on: (0 + 1/2) / (2000 + 1)
    assert model.prior[1].sigmoid().item() == pytest.approx(0.5 / 2001, rel=1e-3)
    both = torch.stack([stimulus(i).features["stride32"] for i in (0, 1)])
    assert torch.allclose(model.feature_mean, both.mean((0, 2, 3)), atol=1e-5)


def test_targets() -> None:
    model = built({**SMALL, "targets": ["cup", "fork"]})
    path = np.array([[100.0, 100, 300], [400, 300, 400]])
    maps = {
        t: model.log_density(one_batch(stimulus(target=t), [path]), (4, 4))
        for t in ("cup", "fork", None)
    }
    assert (maps["cup"] - maps["fork"]).abs().max() > 1e-4
    assert (maps["cup"] - maps[None]).abs().max() > 1e-4
    with pytest.raises(UnknownNameError, match="cup"):
        model.log_density(one_batch(stimulus(target="cups"), [path]), (4, 4))
    model = built({**SMALL, "target_width": 6})
    vectors = [stimulus(more={"target": torch.full((6,), v)}) for v in (-1.0, 1.0)]
    a, b = (model.log_density(one_batch(s, [path]), (4, 4)) for s in vectors)
    assert (a - b).abs().max() > 1e-4
    assert len(model.sample(vectors[0], 3, torch.Generator().manual_seed(0))) == 3
    with pytest.raises(DataError, match="target"):
        model.sample(stimulus(), 1, torch.Generator())


def test_wrong_arguments() -> None:
    with pytest.raises(UnknownNameError, match="likelihood"):
        Gazeformer(**{**SMALL, "loss": "likelyhood"})
    with pytest.raises(DataError, match="components"):
        Gazeformer(**{**MIXED, "loss": "l1"})
    with pytest.raises(DataError, match="one map"):
        Gazeformer(**{**SMALL, "channels": {"stride32": 5, "stride16": 4}})
    with pytest.raises(DataError, match="stride32"):
        built().sample(Stimulus("empty", (8.0, 6.0)), 1, torch.Generator())


def test_safe_round_trip(tmp_path: Path) -> None:
    import pytorch_lightning as pl

    model = built(MIXED)
    trainer = pl.Trainer(
        max_epochs=0, logger=False, enable_checkpointing=False, accelerator="cpu",
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.strategy.connect(model)
    trainer.save_checkpoint(tmp_path / "m.ckpt")
    torch.load(tmp_path / "m.ckpt", weights_only=True)
    back = Gazeformer.load_from_checkpoint(tmp_path / "m.ckpt", weights_only=True).eval()
    batch = collate(walks([3, 5]))
    assert torch.equal(back.log_density(batch, (4, 6)), model.log_density(batch, (4, 6)))
    a = model.sample(stimulus(), 5, torch.Generator().manual_seed(1))
    b = back.sample(stimulus(), 5, torch.Generator().manual_seed(1))
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_configuration_names_every_argument() -> None:
    path = Path(__file__).parents[3] / "conf" / "model" / "gazeformer.yaml"
    config = yaml.safe_load(path.read_text())
    own = {"name", "training", "sizes"}
    for size in ("tiny", "cpu", "full"):
        reduced = {**config, **config["sizes"][size]}
        arguments = {k: v for k, v in reduced.items() if k not in own}
        if size == "tiny":
            Gazeformer(channels={"stride32": 5}, **arguments)
    hparams = set(Gazeformer(channels={"stride32": 5}, width=16, heads=2).hparams) - {"channels"}
    assert set(config) - own == hparams
    assert "gazeformer" in scanpath_models
