"""A made-up data set of pictures, for commands that train on pictures, without any download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import nn

from gazeattn.datasets import GazeDataset
from gazeattn.models.layers.backbones import Backbone

WIDTH, HEIGHT = 96, 64


def toy_backbone() -> Backbone:
    """Return a network with one map of stride 32 and 3 channels."""
    torch.manual_seed(5)
    network = nn.Sequential(nn.AvgPool2d(32), nn.Conv2d(3, 3, 1))
    return Backbone("toy", network, taps={32: "1"}, channels={32: 3})


def made_pictures(folder: Path, pictures: int = 10, people: int = 4) -> GazeDataset:
    """Return scanpaths of some people over pictures of noise, whose files are written."""
    rng = np.random.default_rng(4)
    folder.mkdir(parents=True, exist_ok=True)
    rows, stimuli = [], {}
    for k in range(pictures):
        path = folder / f"p{k}.png"
        pixels = rng.integers(0, 255, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
        stimuli[f"p{k}"] = {"size": (WIDTH, HEIGHT), "image": str(path)}
        for who in range(people):
            for i in range(int(rng.integers(2, 6))):
                x, y = rng.uniform(0, WIDTH), rng.uniform(0, HEIGHT)
                rows.append((f"{who}_{k}", f"{who}", f"p{k}", i, x, y, rng.uniform(90, 400)))
    columns = ["trial", "participant", "stimulus", "index", "x", "y", "duration"]
    table = pd.DataFrame(rows, columns=columns)
    trials = table.drop_duplicates("trial")[["trial", "participant", "stimulus"]]
    return GazeDataset(
        name="osie", fixations=table, words=pd.DataFrame(), trials=trials.reset_index(drop=True),
        stimuli=stimuli, info={"item": "stimulus"},
    )  # fmt: skip


@pytest.fixture
def pictures_of() -> Callable[..., GazeDataset]:
    """Return `made_pictures`."""
    return made_pictures


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let every backbone be the toy one, and the data folder an empty one."""
    target = "gazeattn.models.layers.features.load_backbone"
    monkeypatch.setattr(target, lambda *a, **k: toy_backbone())
    monkeypatch.setenv("GAZEATTN_DATA", str(tmp_path / "data"))


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toy: None) -> Path:
    """Return an empty working folder in which the commands see the made-up data set."""
    data = made_pictures(tmp_path / "pictures")
    for module in ("train", "benchmark"):
        target = f"gazeattn.experiments.{module}.load_dataset"
        monkeypatch.setattr(target, lambda node, root, base: data)
    for name in ("write_training_report", "write_benchmark_report"):  # slow, and tested elsewhere
        target = f"gazeattn.report.benchmark.{name}"
        monkeypatch.setattr(target, lambda rows, other, folder=None, *a, **k: Path("report.html"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work
