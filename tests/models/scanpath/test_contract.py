"""What every registered scanpath model has to keep, whatever it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from gazeattn import registry
from gazeattn.datamodules import Scanpaths, Stimulus, collate
from gazeattn.experiments.building import build, channels_of, feature_spec, model_names, read_model
from gazeattn.experiments.building import sized as sized_config
from gazeattn.models.scanpath.base import NetworkModel, ScanpathModel

GRID = (9, 12)
SIZE = (96.0, 72.0)
NAMES = [n for n in model_names() if read_model(n)["name"] in registry.scanpath_models]
SEARCH = [
    n
    for n in NAMES
    if "target" in registry.scanpath_models.get(read_model(n)["name"]).info.get("needs", ())
    and read_model(n).get("weights", 0) is None
]
"""Models that run real weights on a target picture; they have tests of their own."""


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Scanpaths:
    """Return 8 pictures looked at by 4 people, whose gaze stays near a point of each picture."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(5)
    stimuli, rows, lengths, who, where = {}, [], [], [], []
    for k in range(8):
        pixels = rng.integers(0, 255, (int(SIZE[1]), int(SIZE[0]), 3), dtype=np.uint8)
        middle = rng.uniform(0.25, 0.75, 2) * SIZE
        x, y = middle.astype(int)
        pixels[y - 6 : y + 6, x - 6 : x + 6] = (255, 0, 0)
        path = folder / f"s{k}.png"
        Image.fromarray(pixels).save(path)
        left, top = np.meshgrid(np.arange(0, 96, 24), np.arange(0, 72, 24))
        objects = pd.DataFrame(
            {
                "object": [str(i) for i in range(left.size)],
                "xmin": left.ravel(),
                "ymin": top.ravel(),
                "xmax": left.ravel() + 24,
                "ymax": top.ravel() + 24,
            }
        )
        stimuli[f"s{k}"] = Stimulus(f"s{k}", SIZE, str(path), objects=objects)
        for p in range(4):
            n = int(rng.integers(3, 9))
            xy = np.clip(middle + rng.normal(0, 9, (n, 2)), 0, np.array(SIZE) - 0.01)
            rows.append(np.c_[xy, rng.uniform(90, 400, n)])
            lengths.append(n)
            who.append(f"p{p}")
            where.append(f"s{k}")
    values = np.concatenate(rows)
    trials = np.array([f"{s}_{p}" for s, p in zip(where, who, strict=True)], dtype=object)
    return Scanpaths(
        *values.T,
        np.concatenate([[0], np.cumsum(lengths)]),
        trials,
        np.array(who, dtype=object),
        np.array(where, dtype=object),
        stimuli,
    )


def with_made_up_features(paths: Scanpaths, config: dict[str, Any]) -> Scanpaths:
    """Return scanpaths with random maps in place of those of a backbone."""
    spec = feature_spec(config)
    if spec is None:
        return paths
    width, height = spec.size

    def source(stimulus: Stimulus) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(int(stimulus.name[1:]))
        return {
            f"stride{s}": torch.randn(5 + k, height // s, width // s, generator=generator)
            for k, s in enumerate(spec.strides)
        }

    return paths.with_features(source)


@pytest.fixture(scope="module", params=[n for n in NAMES if n not in SEARCH])
def fitted(request: pytest.FixtureRequest, people: Scanpaths) -> tuple[ScanpathModel, Scanpaths]:
    config = sized_config(read_model(request.param), "tiny")
    paths = with_made_up_features(people, config)
    spec = feature_spec(config)
    model = build(config, channels_of(paths) if spec else None, 0)
    model.fit_statistics(paths)
    if model.privileged:
        model.observe(paths)
    if isinstance(model, NetworkModel):
        model.eval()
    return model, paths


def densities(model: ScanpathModel, paths: Scanpaths, rows: list[int]) -> torch.Tensor:
    if not model.density:
        pytest.skip("it has no density")
    with torch.no_grad():
        return model.log_density(collate(paths, rows), GRID)


def test_maps_are_probabilities(fitted: tuple[ScanpathModel, Scanpaths]) -> None:
    model, paths = fitted
    rows = [0, 1, 2, 9]
    maps = densities(model, paths, rows)
    batch = collate(paths, rows)
    assert maps.shape == (*batch.mask.shape, *GRID)
    used = maps[batch.mask]
    assert torch.isfinite(used).all()
    assert torch.allclose(used.exp().sum((-2, -1)), torch.ones(len(used)), atol=1e-4)


def test_a_fixation_is_predicted_from_those_before_it(
    fitted: tuple[ScanpathModel, Scanpaths],
) -> None:
    model, paths = fitted
    row = int(np.argmax(paths.lengths))
    first = densities(model, paths, [row])
    changed = paths.take([row])
    at = 2
    other = changed.x.copy(), changed.y.copy(), changed.duration.copy()
    other[0][at:] = SIZE[0] - other[0][at:] - 0.01
    other[1][at:] = SIZE[1] - other[1][at:] - 0.01
    other[2][at:] = 777.0
    second = densities(model, replace(changed, x=other[0], y=other[1], duration=other[2]), [0])
    assert torch.allclose(first[:, : at + 1], second[:, : at + 1], atol=1e-5)


def test_padding_and_company_do_not_matter(fitted: tuple[ScanpathModel, Scanpaths]) -> None:
    model, paths = fitted
    order = np.argsort(paths.lengths, kind="stable")
    short, long = int(order[0]), int(order[-1])
    n = int(paths.lengths[short])
    alone = densities(model, paths, [short])[0, :n]
    together = densities(model, paths, [long, short, int(order[5])])[1, :n]
    assert torch.allclose(alone, together, atol=1e-4)


def test_samples_lie_on_the_stimulus_and_repeat(fitted: tuple[ScanpathModel, Scanpaths]) -> None:
    model, paths = fitted
    stimulus = paths.stimuli["s1"]
    drawn = [model.sample(stimulus, 5, torch.Generator().manual_seed(s)) for s in (3, 3, 4)]
    assert all(len(d) == 5 for d in drawn)
    for path in drawn[0]:
        assert path.ndim == 2 and len(path) > 0
        assert path.shape[1] == (3 if model.durations else 2)
        assert (path[:, :2] >= 0).all() and (path[:, :2] < SIZE).all()
        if model.durations:
            assert np.isfinite(path[:, 2]).all() and (path[:, 2] > 0).all()
    for a, b in zip(drawn[0], drawn[1], strict=True):
        assert np.array_equal(a, b)
    different = any(
        a.shape != b.shape or not np.allclose(a, b) for a, b in zip(drawn[0], drawn[2], strict=True)
    )
    deterministic = bool(registry.scanpath_models.get(name_of(model)).info.get("deterministic"))
    assert different != deterministic


def needs_of(model: ScanpathModel) -> tuple[str, ...]:
    return tuple(registry.scanpath_models.get(name_of(model)).info.get("needs", ()))


def name_of(model: ScanpathModel) -> str:
    return next(e.name for e in registry.scanpath_models if e.obj is type(model))


def test_networks_learn_and_are_stored_safely(
    fitted: tuple[ScanpathModel, Scanpaths], tmp_path: Path
) -> None:
    model, paths = fitted
    if not isinstance(model, NetworkModel):
        pytest.skip("it is not trained by gradients")
    if "objects" in needs_of(model):
        pytest.skip("its batches are of objects")
    batch = collate(paths, list(range(8)))
    trained = type(model)(**dict(model.hparams))
    trained.load_state_dict(model.state_dict())
    optimizer = torch.optim.Adam([p for p in trained.parameters() if p.requires_grad], lr=3e-3)
    losses = []
    for _ in range(8):
        torch.manual_seed(0)
        found = trained.training_loss(batch)
        assert torch.isfinite(found["loss"]) and found["loss"].ndim == 0
        optimizer.zero_grad()
        found["loss"].backward()
        optimizer.step()
        losses.append(float(found["loss"].detach()))
    assert losses[-1] < losses[0]
    path = tmp_path / "weights.ckpt"
    torch.save({"state_dict": model.state_dict(), "hyper_parameters": dict(model.hparams)}, path)
    again = torch.load(path, weights_only=True)
    loaded = type(model)(**again["hyper_parameters"])
    loaded.load_state_dict(again["state_dict"])
    loaded.eval()
    stimulus = paths.stimuli["s2"]
    first, second = (
        m.sample(stimulus, 2, torch.Generator().manual_seed(1)) for m in (model, loaded)
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_every_model_has_a_configuration_and_facts() -> None:
    configured = {read_model(n)["name"] for n in NAMES}
    for entry in registry.scanpath_models:
        # models of objects that have no options are made by their benchmark
        plain = entry.info["kind"] == "baseline" and "objects" in entry.info.get("needs", ())
        assert plain or entry.name in configured, entry.name
        assert entry.info.get("kind") in ("network", "baseline", "ceiling")
        assert entry.info.get("description") and "citation" in entry.info, entry.name
        assert entry.info["citation"] or entry.info["kind"] != "network", entry.name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", ["tiny", "cpu", "full"])
def test_every_size_fits_its_model(name: str, size: str) -> None:
    config = sized_config(read_model(name), size)
    spec = feature_spec(config)
    channels = {f"stride{s}": 4 for s in spec.strides} if spec else None
    assert isinstance(build(config, channels, 0), ScanpathModel)
