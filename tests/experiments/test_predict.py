"""`gazeattn predict`: what is drawn, backbones of one's own, and input that cannot be used."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gazeattn.datamodules import scanpaths_of
from gazeattn.datasets import GazeDataset
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.experiments import predict as module
from gazeattn.experiments.building import (
    build,
    feature_spec,
    load_network,
    read_model,
    sized,
    with_features,
    write_run,
)
from gazeattn.experiments.predict import predict, read_options, seen_picture
from gazeattn.models.layers import _vgg
from gazeattn.models.scanpath.base import NetworkModel


def checkpoint(folder: Path, config: dict, channels: dict[str, int]) -> Path:
    """Write a run folder with a network that was not trained, as Lightning writes it."""
    model = build(config, channels)
    assert isinstance(model, NetworkModel)
    write_run(folder, config, 0)
    path = folder / "checkpoints" / "best.ckpt"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "state_dict": model.state_dict(), "hyper_parameters": dict(model.hparams),
        "pytorch-lightning_version": "2.6.0", "epoch": 0, "global_step": 0,
    }  # fmt: skip
    torch.save(content, path)
    return folder


def tiny(name: str = "tpp_gaze", **changes: object) -> dict:
    return {**sized(read_model(name), "tiny"), **changes}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toy: None) -> Path:
    monkeypatch.chdir(tmp_path)
    Image.fromarray(np.full((40, 60, 3), 90, np.uint8)).save(tmp_path / "photo.png")
    return checkpoint(tmp_path / "run", tiny(), {"stride32": 3})


def options(run: Path, image: str = "photo.png", *more: str) -> module.Options:
    return read_options([f"model={run}", f"image={image}", "n=2", *more])


def test_what_is_drawn_is_what_models_see(run: Path, tmp_path: Path) -> None:
    grey = np.linspace(0, 65535, 40 * 60).reshape(40, 60).astype(np.uint16)
    Image.fromarray(grey).save(tmp_path / "deep.png")
    seen = np.asarray(Image.open(seen_picture("deep.png", tmp_path / "seen.png")))
    assert seen.shape == (40, 60, 3)
    assert (seen[..., 0] == seen[..., 1]).all() and (seen[..., 0] == seen[..., 2]).all()
    assert seen[0, 0, 0] == 0 and seen[-1, -1, 0] == 255
    assert abs(int(seen[20, 0, 0]) - 128) <= 2
    folder = predict(options(run, "deep.png"))
    drawn = np.asarray(Image.open(folder / "scanpaths.png").convert("RGB")).astype(int)
    # a gradient of greys covers most of the figure; a colour map would leave few grey pixels
    spread = drawn.max(-1) - drawn.min(-1)
    inner = drawn[drawn.shape[0] // 4 : -drawn.shape[0] // 4]
    assert (spread <= 6).mean() > 0.7
    assert len(np.unique(inner[..., 0])) > 50


def test_a_place_for_the_files_is_looked_at_before_sampling(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsampled(*_: object) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(module, "load_network", unsampled)
    full = tmp_path / "outputs" / "predict" / "photo"
    full.mkdir(parents=True)
    (full / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="not empty"):
        predict(options(run))
    for to in ("to=photo.png", "to=photo.png/deeper"):
        for more in ((), ("overwrite=true",)):
            with pytest.raises(DataError, match="a folder is wanted"):
                predict(options(run, "photo.png", to, *more))


def test_a_picture_of_too_many_pixels(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataError, match=r"photo\.png.*too many pixels"):
        predict(options(run))


class Evil:
    """Makes a file when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("pwned",)


@pytest.mark.parametrize(
    "damage", ["text", "empty", "evil", "foreign", "tensor", "cut", "shape", "model", "lacking"]
)
def test_a_bad_checkpoint_is_named(run: Path, tmp_path: Path, damage: str) -> None:
    path = run / "checkpoints" / "best.ckpt"
    good = torch.load(path, weights_only=True)
    if damage == "text":
        path.write_text("this is no checkpoint")
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "evil":
        path.write_bytes(pickle.dumps({"state_dict": Evil(), "hyper_parameters": {}}, protocol=2))
    elif damage == "foreign":
        torch.save({"weight": torch.zeros(2)}, path)
    elif damage == "tensor":
        torch.save(torch.zeros(3), path)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-2000])
    elif damage == "shape":
        other = checkpoint(tmp_path / "other", tiny(width=16), {"stride32": 3})
        path.write_bytes((other / "checkpoints" / "best.ckpt").read_bytes())
    elif damage == "model":
        other = checkpoint(tmp_path / "other", tiny("gazeformer"), {"stride32": 3})
        path.write_bytes((other / "checkpoints" / "best.ckpt").read_bytes())
    else:
        good["state_dict"].popitem()
        torch.save(good, path)
    with pytest.raises(DataError, match=r"best\.ckpt") as caught:
        predict(options(run))
    if damage == "shape":
        assert "width 16 instead of 32" in str(caught.value)
    assert not (tmp_path / "pwned").exists()
    assert not (tmp_path / "outputs").exists()


def test_a_good_checkpoint_loads(run: Path) -> None:
    assert not load_network(tiny(), run).training


def test_a_run_of_another_kind_is_named(run: Path) -> None:
    (run / "run.yaml").write_text("model: {name: oat}\n")
    with pytest.raises(DataError, match="object_search"):
        predict(options(run))
    (run / "run.yaml").write_text("model: [\n")
    with pytest.raises(DataError, match=r"run\.yaml"):
        predict(options(run))


def test_weights_of_ones_own_lie_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pictures_of: Callable[..., GazeDataset]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tiny(backbone="vgg16", image_size=[32, 32])
    spec = feature_spec(config)
    data = scanpaths_of(pictures_of(tmp_path / "pictures", pictures=1))
    with pytest.raises(MissingAssetError) as missing:
        with_features([data], spec, str(tmp_path / "a"))
    assert str(tmp_path / "a" / "models" / "vgg16" / "vgg16.pth") in str(missing.value)
    found = []
    for place, seed in (("a", 0), ("b", 1)):
        torch.manual_seed(seed)
        file = tmp_path / place / "models" / "vgg16" / "vgg16.pth"
        file.parent.mkdir(parents=True)
        torch.save(_vgg.VGG16().state_dict(), file)
        (paths,) = with_features([data], spec, str(tmp_path / place))  # train and benchmark
        found.append(paths.stimuli["p0"].features["stride32"].float())
        run = checkpoint(tmp_path / f"run_{place}", config, {"stride32": 512})
        image = str(tmp_path / "pictures" / "p0.png")
        folder = predict(options(run, image, f"root={tmp_path / place}", f"to=out_{place}"))
        assert (folder / "scanpaths.csv").is_file()
    assert found[0].shape == (512, 1, 1)
    assert not torch.equal(found[0], found[1])
    with pytest.raises(DataError, match="backbone_weights"):
        build({**config, "backbone_weights": "x"}, {"stride32": 512})
