"""DeepGaze III-style model: history by hand, masks instead of NaN, exact masses, draws."""

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
from gazeattn.errors import CapabilityError, DataError
from gazeattn.models.scanpath.base import one_batch
from gazeattn.models.scanpath.center_bias import CenterBias
from gazeattn.models.scanpath.deepgaze3 import DeepGaze3, _blur
from gazeattn.registry import scanpath_models

SMALL: dict[str, Any] = {
    "channels": {"stride32": 5, "stride16": 4}, "grid": (6, 8), "finer": 2, "readout": (4,),
    "scanpath": (6, 4), "selection": (6, 4), "image_size": (128, 128),
}  # fmt: skip


def stimulus(seed: int = 0, size: tuple[float, float] = (800.0, 600.0)) -> Stimulus:
    g = torch.Generator().manual_seed(seed)
    features = {
        "stride32": torch.randn(5, 4, 4, generator=g),
        "stride16": torch.randn(4, 8, 8, generator=g),
    }
    return Stimulus(f"picture{seed}", size, features=features)


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


def built(fit: bool = True, **more: Any) -> DeepGaze3:
    torch.manual_seed(0)
    model = DeepGaze3(**{**SMALL, **more})
    for parameter in model.selection[-1].parameters():
        torch.nn.init.normal_(parameter)  # it starts at 0
    if fit:
        model.fit_statistics(walks([3, 5, 7, 6]))
    return model.eval()


def test_only_the_past_and_the_own_scanpath_matter() -> None:
    model, paths = built(), walks([6, 3, 9, 1])
    batch = collate(paths)
    maps = model.log_density(batch, (5, 7))
    assert maps.shape == (4, 9, 5, 7)
    assert torch.isfinite(maps).all()
    assert torch.allclose(maps.exp().sum((-2, -1)), torch.tensor(1.0), atol=1e-5)
    loss = 0.0
    for i in range(4):
        one = collate(paths, [i])
        n = int(one.mask.sum())
        assert torch.allclose(model.log_density(one, (5, 7))[0, :n], maps[i, :n], atol=1e-5)
        loss += model.training_loss(one)["loss"].item() * n / 19
    assert loss == pytest.approx(model.training_loss(batch)["loss"].item(), abs=1e-5)
    for k in range(9):
        xy = batch.xy.clone()
        xy[2, k] = torch.tensor([0.95, 0.03])
        moved = model.log_density(replace(batch, xy=xy), (5, 7))
        change = (moved[2] - maps[2]).abs().amax((1, 2))
        seen = torch.arange(9)
        assert (change[seen <= k] == 0).all()
        assert (change[(seen > k) & (seen <= k + 4)] > 1e-4).all()
        assert (change[seen > k + 4] < 1e-6).all()  # only the last four are seen
        others = [0, 1, 3]
        assert torch.equal(moved[others], maps[others])
    noisy = replace(batch, xy=torch.where(batch.mask[..., None], batch.xy, torch.nan))
    assert torch.equal(model.log_density(noisy, (5, 7))[batch.mask], maps[batch.mask])
    assert torch.isfinite(model.training_loss(noisy)["loss"])


def test_missing_history_is_told_by_its_mask_and_never_nan() -> None:
    """The published program has NaN there; a fixation in the corner must not look like none."""
    model = built()
    seen: list[torch.Tensor] = []
    hook = model.scanpath[0].register_forward_hook(lambda _m, a, _o: seen.append(a[0]))
    path = np.array([[0.0, 0.0], [400.0, 300.0], [0.0, 0.0]])
    model.log_density(one_batch(stimulus(), [path]), (6, 8))
    hook.remove()
    (inputs,) = seen  # (fixations, 4 kinds x 4 lags, cells), all fixations in one pass
    assert inputs.shape == (3, 16, 48)
    assert torch.isfinite(inputs).all()
    kinds = inputs.view(3, 4, 4, 6, 8)
    assert kinds[:, 3, :, 0, 0].tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]]
    assert (kinds[0] == 0).all()
    # cell (row 2, column 5): x (5 + .5) / 8, y (2 + .5) / 6; the side of an equal square is
    # sqrt(800 x 600) = 692.82 px
    dx, dy = 550 / 692.82, 250 / 692.82
    assert kinds[1, :3, 0, 2, 5].tolist() == pytest.approx([dx, dy, math.hypot(dx, dy)], abs=1e-4)
    # latest first: before the third one it was at the centre, before that in the corner
    assert kinds[2, 0, :2, 2, 5].tolist() == pytest.approx([150 / 692.82, dx], abs=1e-4)
    assert kinds[2, 1, :2, 2, 5].tolist() == pytest.approx([-50 / 692.82, dy], abs=1e-4)


def test_distances_are_the_same_in_all_directions_on_any_picture() -> None:
    model = built()
    seen: list[torch.Tensor] = []
    model.scanpath[0].register_forward_hook(lambda _m, a, _o: seen.append(a[0]))
    path = np.array([[0.0, 0.0], [1.0, 1.0]])
    model.log_density(one_batch(stimulus(0, (1600.0, 300.0)), [path]), (6, 8))
    dx, dy, d, _ = seen[0].view(2, 4, 4, 6, 8)[1, :, 0, 2, 5].tolist()
    assert dx / dy == pytest.approx((5.5 / 8 * 1600) / (2.5 / 6 * 300), rel=1e-4)
    assert d == pytest.approx(math.hypot(dx, dy), rel=1e-5)


def test_an_untrained_model_is_the_centre_bias_of_training() -> None:
    paths = walks([4] * 30, stimuli=3)
    rng = np.random.default_rng(3)
    paths.x[:] = np.clip(600 + 60 * rng.standard_normal(120), 0, 799)
    first = paths.starts[:-1]
    paths.x[first] = np.clip(200 + 60 * rng.standard_normal(30), 0, 799)
    model = DeepGaze3(**SMALL)
    uniform = model.log_density(collate(paths, [0]), (6, 8))
    assert torch.allclose(uniform.exp(), torch.tensor(1 / 48), atol=1e-6)
    model.fit_statistics(paths)
    maps = model.log_density(collate(paths, [0]), (12, 16))[0].exp()
    kernel = CenterBias()
    starts = Scanpaths(
        paths.x[first], paths.y[first], paths.duration[first], np.arange(31), paths.trial,
        paths.participant, paths.stimulus, paths.stimuli,
    )  # fmt: skip
    kernel.fit_statistics(starts)
    wanted = kernel.map_of(Stimulus("another", (1.0, 1.0)), (12, 16)).float()
    # the first fixations have their own density, all the others share one
    assert torch.allclose(maps[0], wanted, atol=1e-6)
    assert torch.allclose(maps[1], maps[3], atol=1e-7)
    across = torch.arange(16) + 0.5
    assert (maps[0].sum(0) @ across).item() / 16 == pytest.approx(0.25, abs=0.06)
    assert (maps[1].sum(0) @ across).item() / 16 == pytest.approx(0.75, abs=0.06)


def test_masses_of_any_grid_are_sums_of_those_of_the_own_grid() -> None:
    model = built()
    batch = collate(walks([4]))
    fine = model.log_density(batch, (12, 16)).exp()
    coarse = model.log_density(batch, (3, 4)).exp()
    assert torch.allclose(coarse, fine.view(1, 4, 3, 4, 4, 4).sum((3, 5)), atol=1e-6)
    # the loss is that of the density: log-mass of the cell over its area
    xy = batch.xy[0]
    row, column = (xy[:, 1] * 12).long(), (xy[:, 0] * 16).long()
    wanted = -(fine[0, torch.arange(4), row, column] * 192).log().mean()
    assert model.training_loss(batch)["loss"].item() == pytest.approx(wanted.item(), abs=1e-5)


def test_blur_by_hand() -> None:
    weights = _blur(torch.tensor([0.25, 1e-9]), 4)
    # neighbours are one sd apart: 1, e^-.5, e^-2, e^-4.5
    parts = np.exp(-np.array([0, 0.5, 2, 4.5]))
    assert np.allclose(weights[0, 0].numpy(), parts / parts.sum(), atol=1e-6)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 4))
    assert torch.allclose(weights[1], torch.eye(4))
    model = built(blur=0.01)
    assert model.log_blur.exp().item() == pytest.approx(0.01)
    model.training_loss(collate(walks([5, 5])))["loss"].backward()
    assert model.log_blur.grad is not None
    assert model.bias_weight.grad is not None
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert len(gradients) == len(list(model.parameters()))
    assert all(bool(torch.isfinite(g).all()) for g in gradients)


def test_chunks_change_nothing_and_the_picture_is_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths = walks([6, 3, 9, 1])
    batch, found = collate(paths), {}
    count: list[int] = []
    sizes: list[int] = []
    look, inner = DeepGaze3.look, DeepGaze3._maps

    def looked(self: DeepGaze3, stimuli: Any, features: Any) -> Any:
        count.append(len(stimuli))
        return look(self, stimuli, features)

    def mapped(self: DeepGaze3, view: Any, history: Any) -> torch.Tensor:
        sizes.append(len(history))
        return inner(self, view, history)

    monkeypatch.setattr(DeepGaze3, "look", looked)
    monkeypatch.setattr(DeepGaze3, "_maps", mapped)
    for chunk in (5, 1000):
        model = built(chunk=chunk)
        sizes.clear()
        loss = model.training_loss(batch)["loss"]
        loss.backward()
        maps = model.log_density(batch, (4, 4))
        assert max(sizes) == min(chunk, 19)
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        found[chunk] = (loss.detach(), gradient, maps)
    for a, b in zip(found[5], found[1000], strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    assert count == [2, 2, 2, 2]  # two distinct pictures, once for each call
    model.sample(stimulus(), 50, torch.Generator().manual_seed(0))
    assert count[4:] == [1]


def test_draws() -> None:
    model, picture = built(chunk=7), stimulus()
    state = torch.get_rng_state()
    a = model.sample(picture, 40, torch.Generator().manual_seed(3))
    b = model.sample(picture, 40, torch.Generator().manual_seed(3))
    c = model.sample(picture, 40, torch.Generator().manual_seed(4))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert not all(len(x) == len(y) and np.allclose(x, y) for x, y in zip(a, c, strict=True))
    assert not model.durations
    for path in a:
        assert path.shape[1] == 2
        assert ((path >= 0) & (path < [800, 600])).all()
    # lengths are those of training: 3, 5, 6, 7, each in a quarter of cases
    assert {len(p) for p in a} == {3, 5, 6, 7}
    assert model.sample(picture, 0, torch.Generator()) == []
    with pytest.raises(CapabilityError, match="fit_statistics"):
        built(fit=False).sample(picture, 1, torch.Generator())


def test_draws_follow_the_density_given_their_own_history() -> None:
    model, picture = built(), stimulus()
    model.fit_statistics(walks([2] * 20))
    paths = model.sample(picture, 3000, torch.Generator().manual_seed(0))
    batch = one_batch(picture, paths)
    mass = model.log_density(batch, (2, 2)).exp().mean(0)  # over the histories that were drawn
    for k in range(2):
        at = np.array([p[k] for p in paths])
        counted, *_ = np.histogram2d(at[:, 1], at[:, 0], bins=(2, 2), range=[[0, 600], [0, 800]])
        assert np.abs(counted / 3000 - mass[k].numpy()).max() < 0.03


def test_step_by_step_draws_see_what_teacher_forcing_sees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, picture = built(), stimulus()
    model.fit_statistics(walks([7] * 8))
    seen: list[torch.Tensor] = []
    inner = DeepGaze3._maps

    def mapped(self: DeepGaze3, view: Any, history: Any) -> torch.Tensor:
        seen.append(inner(self, view, history))
        return seen[-1]

    monkeypatch.setattr(DeepGaze3, "_maps", mapped)
    paths = model.sample(picture, 4, torch.Generator().manual_seed(0))
    steps = torch.stack(seen, 1)
    maps = model.log_density(one_batch(picture, paths), model.fine)
    assert torch.allclose(steps, maps, atol=1e-4)


def test_learns_from_history_and_picture_better_than_the_centre_bias() -> None:
    rng = np.random.default_rng(0)
    paths = walks([6] * 60)
    x, y = paths.x.reshape(60, 6), paths.y.reshape(60, 6)
    for k in range(1, 6):  # small steps around the place before
        x[:, k] = np.clip(x[:, k - 1] + 40 * rng.standard_normal(60), 0, 799)
        y[:, k] = np.clip(y[:, k - 1] + 30 * rng.standard_normal(60), 0, 599)
    torch.manual_seed(0)
    model = DeepGaze3(**{**SMALL, "scanpath": (16, 8), "selection": (16, 8)})
    model.fit_statistics(paths)
    batch = collate(paths)
    before = model.training_loss(batch)["loss"].item()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        model.training_loss(batch)["loss"].backward()
        optimizer.step()
    assert model.training_loss(batch)["loss"].item() < before - 0.8


def test_wrong_data_and_arguments() -> None:
    with pytest.raises(DataError, match="stride16"):
        model, picture = built(), stimulus()
        del picture.features["stride16"]  # type: ignore[attr-defined]
        model.sample(picture, 1, torch.Generator())
    all_wrong: list[dict[str, Any]] = [
        {"channels": {}}, {"blur": 0.0}, {"lags": 0}, {"scanpath": ()}, {"chunk": 0},
    ]  # fmt: skip
    for wrong in all_wrong:
        with pytest.raises(DataError):
            DeepGaze3(**{**SMALL, **wrong})
    with pytest.raises(DataError, match="too long"):
        built().fit_statistics(walks([1025]))
    batch = collate(walks([3]))
    assert built().training_loss(replace(batch, mask=torch.zeros_like(batch.mask))) == {}


def test_one_training_picture_is_enough() -> None:
    model = built(fit=False)
    model.fit_statistics(walks([1, 1], stimuli=1))
    maps = model.log_density(collate(walks([2])), (4, 4))
    assert torch.allclose(maps.exp().sum((-2, -1)), torch.tensor(1.0), atol=1e-5)


def test_safe_round_trip(tmp_path: Path) -> None:
    import pytorch_lightning as pl

    model = built()
    trainer = pl.Trainer(
        max_epochs=0, logger=False, enable_checkpointing=False, accelerator="cpu",
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.strategy.connect(model)
    trainer.save_checkpoint(tmp_path / "m.ckpt")
    torch.load(tmp_path / "m.ckpt", weights_only=True)
    back = DeepGaze3.load_from_checkpoint(tmp_path / "m.ckpt", weights_only=True).eval()
    batch = collate(walks([3, 5]))
    assert torch.equal(back.log_density(batch, (4, 6)), model.log_density(batch, (4, 6)))
    a = model.sample(stimulus(), 5, torch.Generator().manual_seed(1))
    b = back.sample(stimulus(), 5, torch.Generator().manual_seed(1))
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_configuration_names_every_argument() -> None:
    path = Path(__file__).parents[3] / "conf" / "model" / "deepgaze3.yaml"
    config = yaml.safe_load(path.read_text())
    own = {"name", "training", "sizes"}
    for size in ("tiny", "cpu", "full"):
        reduced = {**config, **config["sizes"][size]}
        model = DeepGaze3(
            channels={"stride32": 5}, **{k: v for k, v in reduced.items() if k not in own}
        )
        assert set(config) - own == set(model.hparams) - {"channels"}
    assert "deepgaze3" in scanpath_models
