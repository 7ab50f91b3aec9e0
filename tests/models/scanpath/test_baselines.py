"""Uniform, random scanpath, centre bias and human: what all of them keep, and by-hand numbers."""

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
from gazeattn.models.scanpath.base import ScanpathModel, one_batch
from gazeattn.models.scanpath.center_bias import (
    CenterBias,
    axis_mass,
    cell_of,
    draw_cells,
    kernel_sum,
    resample,
)
from gazeattn.models.scanpath.human import Human
from gazeattn.models.scanpath.kde_gold import KDEGold
from gazeattn.models.scanpath.random_scanpath import RandomScanpath
from gazeattn.models.scanpath.scenewalk import SceneWalk
from gazeattn.models.scanpath.uniform import Uniform
from gazeattn.registry import scanpath_models

GRID = (6, 8)
SMALL: dict[str, dict[str, Any]] = {
    "uniform": {},
    "random_scanpath": {},
    "center_bias": {},
    "human": {},
    "kde_gold": {},
    "scenewalk": {"map_size": [16, 12], "fit_scanpaths": 12, "evaluations": 2},
    "scenewalk empirical": {
        "density": "empirical",
        "map_size": [16, 12],
        "fit_scanpaths": 12,
        "evaluations": 2,
    },
}


def made_up(images: int = 5, people: int = 4, seed: int = 0, spread: float = 0.05) -> Scanpaths:
    """Return scanpaths of people who look near one place of each picture."""
    rng = np.random.default_rng(seed)
    rows, starts, trial, who, what = [], [0], [], [], []
    stimuli = {}
    for i in range(images):
        size = (80.0, 60.0) if i % 2 else (100.0, 50.0)
        stimuli[f"s{i}"] = Stimulus(f"s{i}", size)
        place = rng.uniform(0.25, 0.75, 2)
        for p in range(people):
            n = int(rng.integers(2, 7))
            shares = np.clip(place + spread * rng.standard_normal((n, 2)), 0, 0.999)
            rows.append(np.c_[shares * size, rng.uniform(100, 400, n)])
            starts.append(starts[-1] + n)
            trial.append(f"t{i}-{p}")
            who.append(f"p{p}")
            what.append(f"s{i}")
    x, y, duration = np.concatenate(rows).T
    of, by, on = (np.array(v, dtype=object) for v in (trial, who, what))
    return Scanpaths(x, y, duration, np.array(starts, dtype=np.int64), of, by, on, stimuli)


@pytest.fixture(scope="module")
def train() -> Scanpaths:
    return made_up()


@pytest.fixture(scope="module")
def test_part() -> Scanpaths:
    other = made_up(images=3, seed=1)
    names = {k: f"new-{k}" for k in other.stimuli}
    stimuli = {n: replace(other.stimuli[k], name=n) for k, n in names.items()}
    stimulus = np.array([names[s] for s in other.stimulus], dtype=object)
    return replace(other, stimulus=stimulus, stimuli=stimuli)


@pytest.fixture(scope="module")
def fitted(train: Scanpaths, test_part: Scanpaths) -> dict[str, ScanpathModel]:
    models = {}
    for name, options in SMALL.items():
        model = scanpath_models.get(name.split()[0]).obj(**options)
        model.fit_statistics(train)
        if model.privileged:
            model.observe(test_part)
        models[name] = model
    return models


DENSE = [n for n in SMALL if n not in ("random_scanpath", "human")]


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("grid", [GRID, (1, 1), (7, 5)])
def test_maps_sum_to_one(name: str, grid: Any, fitted: Any, test_part: Scanpaths) -> None:
    batch = collate(test_part)
    found = fitted[name].log_density(batch, grid)
    assert found.shape == (*batch.mask.shape, *grid)
    sums = found.exp().sum((-2, -1))[batch.mask]
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5)
    assert bool(torch.isfinite(found[batch.mask]).all())


@pytest.mark.parametrize("name", DENSE)
def test_a_fixation_changes_no_map_up_to_its_own(
    name: str, fitted: Any, test_part: Scanpaths
) -> None:
    batch = collate(test_part)
    changed = replace(batch, xy=batch.xy.clone(), duration=batch.duration.clone())
    changed.xy[:, 1] = 0.9
    changed.duration[:, 1] = 950.0
    old = fitted[name].log_density(batch, GRID)
    new = fitted[name].log_density(changed, GRID)
    assert torch.equal(old[:, :2], new[:, :2])


def test_scenewalk_looks_at_history(fitted: Any, test_part: Scanpaths) -> None:
    long = test_part.take(test_part.lengths > 2)
    batch = collate(long)
    for part in ("xy", "duration"):
        changed = replace(batch, xy=batch.xy.clone(), duration=batch.duration.clone())
        if part == "xy":
            changed.xy[:, 1] = 0.9
        else:
            changed.duration[:, 1] = 30.0
        old = fitted["scenewalk"].log_density(batch, GRID)
        new = fitted["scenewalk"].log_density(changed, GRID)
        assert float((old[:, 2] - new[:, 2]).abs().max()) > 1e-4


@pytest.mark.parametrize("name", DENSE)
def test_padding_and_company_do_not_matter(name: str, fitted: Any, test_part: Scanpaths) -> None:
    model = fitted[name]
    together = model.log_density(collate(test_part), GRID)
    for i in range(len(test_part)):
        n = int(test_part.lengths[i])
        alone = model.log_density(collate(test_part, [i]), GRID)
        assert torch.allclose(alone[0, :n], together[i, :n], atol=1e-5)


@pytest.mark.parametrize("name", SMALL)
def test_samples_are_real_scanpaths_on_the_picture(
    name: str, fitted: Any, test_part: Scanpaths, train: Scanpaths
) -> None:
    model = fitted[name]
    for stimulus in test_part.stimuli.values():
        first = model.sample(stimulus, 40, torch.Generator().manual_seed(3))
        again = model.sample(stimulus, 40, torch.Generator().manual_seed(3))
        other = model.sample(stimulus, 40, torch.Generator().manual_seed(4))
        assert len(first) == 40
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, again, strict=True))
        assert any(a.shape != b.shape or (a != b).any() for a, b in zip(first, other, strict=True))
        for path in first:
            assert path.shape[1] == (3 if model.durations else 2)
            assert len(path) >= 1
            assert (path[:, :2] >= 0).all() and (path[:, :2] < stimulus.size).all()
        lengths = {len(p) for p in first}
        assert lengths <= set(train.lengths.tolist()) | set(test_part.lengths.tolist())
        assert model.sample(stimulus, 0, torch.Generator()) == []


@pytest.mark.parametrize("name", [n for n in DENSE if n != "scenewalk empirical"])
def test_asked_before_fitting(name: str, test_part: Scanpaths) -> None:
    model = scanpath_models.get(name).obj(**SMALL[name])
    stimulus = next(iter(test_part.stimuli.values()))
    if model.privileged:
        model.observe(test_part)
    with pytest.raises(CapabilityError, match="fit_statistics"):
        model.sample(stimulus, 1, torch.Generator())
    if name != "uniform":
        with pytest.raises(CapabilityError, match="fit_statistics"):
            model.log_density(collate(test_part), GRID)


@pytest.mark.parametrize("name", [*SMALL, "itti_koch"])
def test_flags_are_flags(name: str) -> None:
    model = scanpath_models.get(name.split()[0]).obj
    assert model.density is (name not in ("human", "random_scanpath"))
    assert model.durations is (name in ("human", "random_scanpath"))


def test_uniform_is_one_over_the_number_of_cells(test_part: Scanpaths) -> None:
    found = Uniform().log_density(collate(test_part), (75, 100))
    assert float(found.min()) == pytest.approx(-math.log(7500))
    assert float(found.max()) == pytest.approx(-math.log(7500))


def test_a_cut_gaussian_by_hand() -> None:
    # centre .5, sigma .25, two cells: half each; four cells: Phi(-1..0) over Phi(-2..2)
    assert axis_mass(torch.tensor([0.5]).double(), 0.25, 2)[0].tolist() == pytest.approx([0.5, 0.5])
    inner = 0.3413447 / 0.9544997
    found = axis_mass(torch.tensor([0.5]).double(), 0.25, 4)[0]
    assert found.tolist() == pytest.approx([0.5 - inner, inner, inner, 0.5 - inner], abs=1e-6)
    # at the border half of the Gaussian is outside; what is inside still has mass 1
    edge = axis_mass(torch.tensor([0.0]).double(), 0.25, 4)[0]
    assert float(edge.sum()) == pytest.approx(1)
    assert float(edge[0]) == pytest.approx(0.3413447 / 0.4999683, abs=1e-6)


def test_masses_are_integrals_not_densities_at_centres() -> None:
    # a kernel much narrower than a cell has all of its mass in the cell where it is
    found = kernel_sum(torch.tensor([[0.30, 0.05]]), (1e-3, 1e-3), (2, 2))
    assert found.tolist() == [[pytest.approx(1), pytest.approx(0)], [pytest.approx(0)] * 2]
    fine = kernel_sum(torch.rand(20, 2), (0.05, 0.07), (12, 16))
    coarse = kernel_sum(torch.rand(0, 2), (0.05, 0.07), (3, 4))
    assert float(coarse.sum()) == 0
    assert float(fine.sum()) == pytest.approx(20)
    xy = torch.rand(20, 2, generator=torch.Generator().manual_seed(0))
    fine, coarse = (kernel_sum(xy, (0.05, 0.07), g) for g in ((12, 16), (3, 4)))
    assert torch.allclose(fine.view(3, 4, 4, 4).sum((1, 3)), coarse)


def test_another_grid_shares_cells_by_area() -> None:
    mass = torch.tensor([[0.6, 0.3, 0.1]])
    assert resample(mass, (1, 2))[0].tolist() == pytest.approx([0.75, 0.25])
    assert resample(mass, (2, 3)).tolist()[1] == pytest.approx([0.3, 0.15, 0.05])
    assert float(resample(torch.rand(7, 9), (11, 4)).sum()) > 0
    assert resample(mass, (1, 3)) is mass


def test_draws_follow_the_map() -> None:
    mass = torch.tensor([[[0.5, 0.0], [0.125, 0.375]]])
    drawn = draw_cells(mass, 40000, torch.Generator().manual_seed(0))
    share = torch.bincount(cell_of(drawn, (2, 2)), minlength=4) / 40000
    assert share.tolist() == pytest.approx([0.5, 0, 0.125, 0.375], abs=0.01)
    one_each = mass.expand(3, -1, -1)
    assert draw_cells(one_each, 3, torch.Generator().manual_seed(0)).shape == (3, 2)


def two_images() -> Scanpaths:
    """Return one fixation at the left of picture a, and one at the right of picture b."""
    ids = np.array(["a", "b"], dtype=object)
    return Scanpaths(
        np.array([10.0, 90.0]),
        np.array([50.0, 50.0]),
        np.array([200.0, np.nan]),
        np.array([0, 1, 2]),
        ids,
        np.array(["p", "q"], dtype=object),
        ids,
        {n: Stimulus(n, (100.0, 100.0)) for n in "ab"},
    )


def test_the_picture_itself_is_left_out_of_its_centre_bias() -> None:
    model = CenterBias(bandwidth=0.05, uniform=0.0)
    paths = two_images()
    model.fit_statistics(paths)
    a, b = (model.map_of(paths.stimuli[n], (1, 2)) for n in "ab")
    assert a[0].tolist() == pytest.approx([0, 1], abs=1e-9)
    assert b[0].tolist() == pytest.approx([1, 0], abs=1e-9)
    new = model.map_of(Stimulus("c", (640.0, 480.0)), (1, 2))
    assert new[0].tolist() == pytest.approx([0.5, 0.5])
    assert all(p[:, 0].min() > 50 for p in model.sample(paths.stimuli["a"], 20, torch.Generator()))


def test_centre_bias_with_nothing_left_is_uniform() -> None:
    model = CenterBias(bandwidth=0.05, uniform=0.1)
    model.fit_statistics(two_images().take([0]))
    found = model.map_of(Stimulus("a", (100.0, 100.0)), (2, 5))
    assert torch.allclose(found, torch.full((2, 5), 0.1, dtype=torch.float64))
    assert model.sample(Stimulus("a", (100.0, 100.0)), 3, torch.Generator())
    with pytest.raises(DataError, match="needs two"):
        CenterBias().fit_statistics(two_images().take([0]))


def test_one_centre_bias_per_target() -> None:
    paths = two_images()
    stimuli = {n: replace(paths.stimuli[n], target=t) for n, t in (("a", "cup"), ("b", "fork"))}
    model = CenterBias(bandwidth=0.05, uniform=0.0, by_target=True)
    model.fit_statistics(replace(paths, stimuli=stimuli))
    cup = model.map_of(Stimulus("new", (100.0, 100.0), target="cup"), (1, 2))
    assert cup[0].tolist() == pytest.approx([1, 0], abs=1e-9)
    unseen = model.map_of(Stimulus("new", (100.0, 100.0), target="saw"), (1, 2))
    assert unseen[0].tolist() == pytest.approx([0.5, 0.5])


def test_the_bandwidth_predicts_other_pictures() -> None:
    wide = CenterBias()
    wide.fit_statistics(made_up(images=30, spread=0.02))
    rng = np.random.default_rng(0)
    tight = made_up(images=30, spread=0.02)
    at = np.clip(0.5 + 0.02 * rng.standard_normal((len(tight.x), 2)), 0, 0.99)
    sizes = tight.sizes[tight.of]
    tight = replace(tight, x=at[:, 0] * sizes[:, 0], y=at[:, 1] * sizes[:, 1])
    narrow = CenterBias()
    narrow.fit_statistics(tight)
    assert wide.chosen is not None and narrow.chosen is not None
    assert narrow.chosen[0] < 0.03 < 0.04 < wide.chosen[0]


def test_random_scanpaths_are_whole_and_of_other_pictures(train: Scanpaths) -> None:
    model = RandomScanpath()
    model.fit_statistics(train)
    shown = Stimulus("s0", (200.0, 200.0))
    known: dict[tuple[float, ...], str] = {}
    for i in range(len(train)):
        rows = slice(int(train.starts[i]), int(train.starts[i + 1]))
        values = np.append(train.relative[rows], train.duration[rows])
        known[tuple(values.round(9).tolist())] = train.stimulus[i]
    for path in model.sample(shown, 60, torch.Generator().manual_seed(0)):
        values = np.append(path[:, :2] / 200, path[:, 2])
        assert known[tuple(values.round(9).tolist())] != "s0"
    with pytest.raises(CapabilityError):
        model.log_density(collate(train), GRID)
    only = RandomScanpath()
    only.fit_statistics(two_images().take([0]))
    with pytest.raises(DataError, match="another stimulus"):
        only.sample(Stimulus("a", (9.0, 9.0)), 1, torch.Generator())


def test_missing_durations_stay_missing() -> None:
    model = RandomScanpath()
    model.fit_statistics(two_images())
    (path,) = model.sample(Stimulus("a", (100.0, 100.0)), 1, torch.Generator())
    assert path[0, :2].tolist() == [90.0, 50.0] and np.isnan(path[0, 2])


def test_nobody_is_compared_with_itself(test_part: Scanpaths) -> None:
    model = Human()
    model.observe(test_part)
    stimulus = test_part.stimuli["new-s0"]
    own = test_part.path(test_part.trial.tolist().index("t0-1"))
    everybody = model.sample(stimulus, 4, torch.Generator().manual_seed(0))
    assert sum(np.array_equal(p, own) for p in everybody) == 1  # each person once
    others = model.sample(stimulus, 9, torch.Generator().manual_seed(0), leave_out="p1")
    assert len(others) == 9
    assert not any(np.array_equal(p, own) for p in others)
    with pytest.raises(DataError, match="observe"):
        model.sample(Stimulus("unknown", (10.0, 10.0)), 1, torch.Generator())


@pytest.mark.parametrize(
    "make",
    [
        lambda: CenterBias(bandwidth=0),
        lambda: CenterBias(uniform=1.0),
        lambda: KDEGold(scale="degrees"),
        lambda: KDEGold(weights=[0.9, 0.2]),
        lambda: SceneWalk(density="gold"),
        lambda: SceneWalk(parameters={"sigma": 1.0}),
        lambda: SceneWalk(parameters={"gamma": -1.0}),
        lambda: SceneWalk(pixels_per_degree=0.0),
    ],
)
def test_wrong_options(make: Any) -> None:
    with pytest.raises(DataError):
        make()


def test_one_batch_works(fitted: Any, test_part: Scanpaths) -> None:
    stimulus = test_part.stimuli["new-s1"]
    batch = one_batch(stimulus, [np.array([[10.0, 10.0], [20.0, 30.0]]), np.array([[5.0, 5.0]])])
    for name in DENSE:
        assert bool(torch.isfinite(fitted[name].log_density(batch, GRID)).all())


CONFIG = Path(__file__).resolve().parents[3] / "conf" / "model"


@pytest.mark.parametrize(
    "name",
    "uniform random_scanpath human center_bias kde_gold scenewalk scenewalk_empirical "
    "itti_koch".split(),
)
@pytest.mark.parametrize("size", ["tiny", "cpu", "full"])
def test_configs_build(name: str, size: str) -> None:
    config = yaml.safe_load((CONFIG / f"{name}.yaml").read_text(encoding="utf-8"))
    sizes = config.pop("sizes")
    model = scanpath_models.get(config.pop("name")).obj(**{**config, **sizes[size]})
    assert isinstance(model, ScanpathModel)
    kind = scanpath_models.get(name.replace("_empirical", "")).info["kind"]
    assert model.privileged == (kind == "ceiling" or name == "scenewalk_empirical")
