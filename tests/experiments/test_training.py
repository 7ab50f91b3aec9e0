"""Training: resumed equals uninterrupted, losses that are not finite, batches without content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from gazeattn.datamodules import ScanpathBatch, ScanpathDataModule, Scanpaths, Stimulus
from gazeattn.errors import DataError, GazeattnError, UnknownNameError
from gazeattn.experiments.training import Training
from gazeattn.experiments.training import train as train_network
from gazeattn.models.scanpath.base import NetworkModel, NonFiniteLossError


class Toy(NetworkModel):
    """Predicts the mean position with one layer and dropout, so that chance matters."""

    def __init__(self, *, width: int = 8, poison: str = "", lr: float = 0.05) -> None:
        super().__init__(lr=lr)
        self.save_hyperparameters()
        self.poison = poison
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.Dropout(0.5), nn.ReLU(), nn.Linear(width, 2)
        )

    def training_loss(self, batch: ScanpathBatch) -> dict[str, Tensor]:
        if self.poison == "all":
            return {}
        loss = (self.net(batch.xy[:, 0]) - batch.xy[:, -1]).square().mean()
        if self.poison and self.poison in batch.trial and self.training:
            loss = loss * torch.log(torch.zeros(()))
        return {"loss": loss, "part": loss / 2}

    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[np.ndarray]:
        return [np.zeros((1, 2)) for _ in range(n)]


@pytest.fixture(scope="module")
def paths() -> Scanpaths:
    rng = np.random.default_rng(0)
    n = 24
    ids = np.array([f"t{k:02d}" for k in range(n)], dtype=object)
    names = np.array([f"s{k % 4}" for k in range(n)], dtype=object)
    return Scanpaths(
        rng.uniform(0, 100, 3 * n), rng.uniform(0, 100, 3 * n), np.full(3 * n, 200.0),
        np.arange(n + 1) * 3, ids, ids, names,
        {f"s{k}": Stimulus(f"s{k}", (100.0, 100.0)) for k in range(4)},
    )  # fmt: skip


def train(model: Toy, paths: Scanpaths, folder: Path, settings: Training, seed: int = 0):
    """Train on all, and look at all."""
    data = ScanpathDataModule(paths, paths, batch_size=settings.batch_size, seed=seed)
    return train_network(model, data, folder, settings, seed=seed)


def new(**options: object) -> Toy:
    torch.manual_seed(3)
    return Toy(**options)


def weights(path: Path) -> dict[str, Tensor]:
    return torch.load(path, weights_only=True)["state_dict"]


class Killed(Exception):
    """Stands for the process being ended."""


def test_two_and_two_epochs_are_four(tmp_path: Path, paths: Scanpaths) -> None:
    settings = Training(max_epochs=4, batch_size=5, patience=9)
    whole = train(new(), paths, tmp_path / "whole", settings, seed=7)

    class Stops(Toy):
        def on_train_epoch_start(self) -> None:
            super().on_train_epoch_start()
            if self.current_epoch == 2:
                raise Killed

    torch.manual_seed(3)
    with pytest.raises(Killed):
        train(Stops(), paths, tmp_path / "parts", settings, seed=7)
    torch.manual_seed(99)  # what was drawn in between must not matter
    parts = train(Toy(), paths, tmp_path / "parts", settings, seed=7)
    pd.testing.assert_frame_equal(whole.curves, parts.curves)
    assert whole.epochs == 4
    for name in ("last.ckpt", "best.ckpt"):
        first, second = (weights(tmp_path / w / "checkpoints" / name) for w in ("whole", "parts"))
        assert all(torch.equal(first[k], second[k]) for k in first)


def test_seeds_repeat_and_differ(tmp_path: Path, paths: Scanpaths) -> None:
    settings = Training(max_epochs=2, batch_size=5)
    found = [
        train(new(), paths, tmp_path / str(k), settings, seed=s).curves
        for k, s in enumerate((0, 0, 1))
    ]
    pd.testing.assert_frame_equal(found[0], found[1])
    assert not found[0].equals(found[2])


def test_a_loss_that_is_not_finite_stops_with_the_trials(tmp_path: Path, paths: Scanpaths) -> None:
    with pytest.raises(NonFiniteLossError, match="t05"):
        train(new(poison="t05"), paths, tmp_path, Training(max_epochs=2, batch_size=3))
    assert not list(tmp_path.rglob("best.ckpt"))


def test_it_can_be_skipped_and_is_counted(tmp_path: Path, paths: Scanpaths) -> None:
    settings = Training(max_epochs=1, batch_size=3, nonfinite="skip")
    found = train(new(poison="t05"), paths, tmp_path, settings)
    assert found.curves["train/skipped"].tolist() == [1]
    assert np.isfinite(found.curves["train/loss"]).all()
    assert all(torch.isfinite(v).all() for v in weights(found.best).values())


def test_nothing_to_learn_from_fails(tmp_path: Path, paths: Scanpaths) -> None:
    with pytest.raises(GazeattnError, match="skipped"):
        train(new(poison="all"), paths, tmp_path, Training(max_epochs=2))


def test_checkpoints_hold_plain_settings_and_load_safely(tmp_path: Path, paths: Scanpaths) -> None:
    found = train(new(width=6), paths, tmp_path, Training(max_epochs=1))
    content = torch.load(found.best, weights_only=True)
    assert content["hyper_parameters"] == {"width": 6, "poison": "", "lr": 0.05}
    loaded = Toy.load_from_checkpoint(found.best, weights_only=True)
    assert loaded.net[0].out_features == 6


def test_the_learning_rate_depends_on_the_epoch_alone(tmp_path: Path, paths: Scanpaths) -> None:
    seen = []

    class Watches(Toy):
        def on_train_epoch_end(self) -> None:
            seen.append(self.trainer.optimizers[0].param_groups[0]["lr"])

    torch.manual_seed(0)
    train(Watches(lr=1.0), paths, tmp_path, Training(max_epochs=4, patience=9))
    cosine = [0.01 + 0.99 * 0.5 * (1 + np.cos(np.pi * k / 4)) for k in range(4)]
    assert np.allclose(seen, cosine)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"epochs": 3}, UnknownNameError),
        ({"max_epochs": 0}, DataError),
        ({"batch_size": -1}, DataError),
        ({"nonfinite": "ignore"}, UnknownNameError),
    ],
)
def test_wrong_settings(options: dict, error: type[Exception]) -> None:
    with pytest.raises(error):
        Training.of(options)


class Worsens(Toy):
    """Has a validation loss that only rises."""

    def validation_step(self, batch: ScanpathBatch, batch_idx: int) -> None:
        self.log("val/loss", float(self.current_epoch), batch_size=1)


def test_a_training_that_lost_patience_is_not_gone_on_with(
    tmp_path: Path, paths: Scanpaths
) -> None:
    settings = Training(max_epochs=9, batch_size=5, patience=2)
    first = train(Worsens(), paths, tmp_path, settings)
    assert first.epochs == 3  # the best, and two that were worse
    last = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)
    best = torch.load(tmp_path / "checkpoints" / "best.ckpt", weights_only=True)
    assert (last["epoch"], best["epoch"]) == (2, 0)  # the last is written after every epoch
    again = train(Worsens(), paths, tmp_path, settings)
    pd.testing.assert_frame_equal(first.curves, again.curves)


@pytest.mark.parametrize("kept", [0, 1])
def test_curves_hold_no_epoch_that_no_checkpoint_has_seen(
    tmp_path: Path, paths: Scanpaths, kept: int
) -> None:
    settings = Training(max_epochs=4, batch_size=5, patience=9)

    class Stops(Toy):
        stop_at = 2

        def on_train_epoch_start(self) -> None:
            super().on_train_epoch_start()
            if self.current_epoch == self.stop_at:
                raise Killed

    with pytest.raises(Killed):
        train(Stops(), paths, tmp_path, settings)
    curves = tmp_path / "curves.csv"
    whole = curves.read_text().splitlines()
    assert len(whole) == 3
    curves.write_text("\n".join([*whole, "2" + whole[-1][1:], "3" + whole[-1][1:]]) + "\n")
    if not kept:
        (tmp_path / "checkpoints" / "last.ckpt").unlink()
    again = Stops()
    again.stop_at = 2 if kept else 0
    with pytest.raises(Killed):
        train(again, paths, tmp_path, settings)
    assert curves.exists() == bool(kept)
    if kept:
        assert curves.read_text().splitlines() == whole


def test_a_damaged_last_checkpoint_is_named(tmp_path: Path, paths: Scanpaths) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").write_text("no checkpoint")
    with pytest.raises(DataError, match=r"last\.ckpt"):
        train(new(), paths, tmp_path, Training(max_epochs=1))
