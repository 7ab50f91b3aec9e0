"""SceneWalk: the equations by hand, the fit, durations as inputs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gazeattn.datamodules import Scanpaths, Stimulus, collate
from gazeattn.errors import CapabilityError, DataError
from gazeattn.models.scanpath.scenewalk import (
    STARTING_VALUES,
    SceneWalk,
    Walk,
    bump,
    look,
    potential,
    power,
    unit,
    walk,
)

SIZE = (240.0, 120.0)  # 10 x 5 degrees at 24 pixels per degree
SMALL = {"map_size": [16, 8], "evaluations": 3, "fit_scanpaths": 20}


def numbers(**changes: float) -> dict[str, torch.Tensor]:
    known = {**STARTING_VALUES, **{k.replace("lambda_", "lambda"): v for k, v in changes.items()}}
    return {k: torch.tensor(v, dtype=torch.float64) for k, v in known.items()}


def test_gaussians_are_in_degrees_by_hand() -> None:
    # a picture 4 degrees wide with 4 cells: centres .5, 1.5, 2.5, 3.5 degrees from the left
    found = bump(torch.tensor([[0.5, 0.5]]), torch.tensor(1.0), torch.tensor([[4.0, 1.0]]), (1, 4))
    near, far = math.exp(-0.125), math.exp(-1.125)
    assert found[0, 0].tolist() == pytest.approx([far, near, near, far])
    # the same place of a picture twice as wide is twice as far away
    wide = bump(torch.tensor([[0.5, 0.5]]), torch.tensor(1.0), torch.tensor([[8.0, 1.0]]), (1, 4))
    assert wide[0, 0].tolist() == pytest.approx([math.exp(-4.5), math.exp(-0.5)] * 1
                                                + [math.exp(-0.5), math.exp(-4.5)])  # fmt: skip


def test_maps_relax_by_hand() -> None:
    # very wide Gaussians: A* is the density, I* uniform; t with wA t = ln 2, wI t = ln 2 / 4
    density = torch.tensor([[[0.8, 0.2]]], dtype=torch.float64)
    values = numbers(
        omega_attention=math.log(2) / 0.25,
        omega_ratio=4.0,
        sigma_attention=1e6,
        sigma_inhibition=1e6,
    )
    start = Walk(
        torch.tensor([[[0.4, 0.6]]], dtype=torch.float64),
        torch.tensor([[[1.0, 0.0]]], dtype=torch.float64),
    )
    place = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    degrees = torch.tensor([[10.0, 5.0]], dtype=torch.float64)
    after = look(start, density, place, torch.tensor([0.25]).double(), degrees, values)
    assert after.attention[0, 0].tolist() == pytest.approx([0.6, 0.4])  # half of the way
    left = 0.5 + 0.5 * 2**-0.25  # a quarter of the rate
    assert after.inhibition[0, 0].tolist() == pytest.approx([left, 1 - left])


def test_potential_by_hand() -> None:
    values = numbers(gamma=1.0, lambda_=1.0, inhibition=0.5, zeta=0.1)
    maps = Walk(
        torch.tensor([[[0.7, 0.2, 0.1]]], dtype=torch.float64),
        torch.tensor([[[0.2, 0.2, 0.6]]], dtype=torch.float64),
    )
    # u = .6, .1, -.2 -> .6, .1, 0 -> 6/7, 1/7, 0
    expected = [0.9 * 6 / 7 + 0.1 / 3, 0.9 / 7 + 0.1 / 3, 0.1 / 3]
    assert potential(maps, values)[0, 0].tolist() == pytest.approx(expected)


def test_exponents_by_hand_and_without_underflow() -> None:
    mass = torch.tensor([[[0.2, 0.3, 0.5]]])
    assert power(mass, torch.tensor(2.0))[0, 0].tolist() == pytest.approx([4 / 38, 9 / 38, 25 / 38])
    # 1e-4 to the power of 60 is no 32-bit number; the shares are
    flat = torch.full((1, 100, 100), 1e-4)
    assert torch.allclose(power(flat, torch.tensor(60.0)), flat)
    peaked = torch.tensor([[[1e-5, 1.1e-5]]])
    expected = 1.1**50 / (1 + 1.1**50)
    assert float(power(peaked, torch.tensor(50.0))[0, 0, 1]) == pytest.approx(expected, rel=1e-4)
    assert unit(torch.zeros(1, 1, 4))[0, 0].tolist() == [0.25] * 4


def test_the_first_map_is_the_start_and_each_next_follows() -> None:
    rng = torch.Generator().manual_seed(0)
    density, start = (unit(torch.rand(3, 4, 6, generator=rng).double()) for _ in range(2))
    xy, seconds = torch.rand(3, 5, 2, generator=rng).double(), torch.full((3, 5), 0.2).double()
    degrees, values = torch.full((3, 2), 8.0).double(), numbers()
    maps = list(walk(density, start, xy, seconds, degrees, values))
    assert len(maps) == 5
    assert torch.allclose(maps[0], 0.99 * start + 0.01 / 24)
    state = Walk(start, torch.full_like(start, 1 / 24))
    for i in range(4):
        state = look(state, density, xy[:, i], seconds[:, i], degrees, values)
        assert torch.allclose(maps[i + 1], potential(state, values))


def strollers(n: int = 120, step: float = 0.6, seed: int = 0) -> Scanpaths:
    """Return scanpaths that make small steps, over 12 pictures of 10 x 5 degrees."""
    rng = np.random.default_rng(seed)
    rows, starts = [], [0]
    for _ in range(n):
        length = int(rng.integers(3, 8))
        at = rng.uniform([20, 20], [220, 100])
        path = []
        for _ in range(length):
            path.append([*at, rng.uniform(150, 350)])
            at = np.clip(at + 24 * step * rng.standard_normal(2), 1, [238, 118])
        rows += path
        starts.append(starts[-1] + length)
    x, y, duration = np.array(rows).T
    what = np.array([f"s{i % 12}" for i in range(n)], dtype=object)
    who = np.array([f"p{i // 12}" for i in range(n)], dtype=object)
    ids = np.array([str(i) for i in range(n)], dtype=object)
    return Scanpaths(
        x, y, duration, np.array(starts), ids, who, what,
        {f"s{i}": Stimulus(f"s{i}", SIZE) for i in range(12)},
    )  # fmt: skip


def test_the_fit_finds_small_steps() -> None:
    train, new = strollers(), strollers(seed=5)
    fixed = {"omega_ratio": 10.0, "gamma": 1.0, "inhibition": 0.01, "sigma_inhibition": 5.0}
    options = {"map_size": [20, 10], "parameters": fixed}
    old = SceneWalk(fit_scanpaths=0, **options)  # type: ignore[arg-type]
    old.fit_statistics(train)
    assert old.values == {**STARTING_VALUES, **fixed}
    model = SceneWalk(fit_scanpaths=120, evaluations=25, **options)  # type: ignore[arg-type]
    model.fit_statistics(train)
    assert {k: model.values[k] for k in fixed} == fixed
    assert model.log_likelihood(new) > old.log_likelihood(new) + 0.5
    again = SceneWalk(fit_scanpaths=120, evaluations=25, **options)  # type: ignore[arg-type]
    again.fit_statistics(train)
    assert again.values == model.values
    # the density of log_density is the one that was fitted
    batch = collate(new)
    cell = (batch.xy[..., 1] * 10).long() * 20 + (batch.xy[..., 0] * 20).long()
    found = model.log_density(batch, (10, 20)).flatten(2).gather(2, cell[..., None])[..., 0]
    mean = float(found[batch.mask].mean()) + math.log(200)
    assert mean == pytest.approx(model.log_likelihood(new), abs=1e-4)
    # sampled steps are small, as those that were learned from
    steps = [
        np.hypot(*np.diff(p, axis=0).T)
        for p in model.sample(new.stimuli["s0"], 100, torch.Generator().manual_seed(0))
    ]
    assert np.median(np.concatenate(steps)) < 60


def test_the_fit_takes_the_best_of_its_beginnings(monkeypatch: pytest.MonkeyPatch) -> None:
    from gazeattn.models.scanpath import scenewalk

    train, ends = strollers(), []
    for guesses in (scenewalk.GUESSES[:1], scenewalk.GUESSES[1:], scenewalk.GUESSES):
        monkeypatch.setattr(scenewalk, "GUESSES", guesses)
        model = SceneWalk(**SMALL)  # type: ignore[arg-type]
        model.fit_statistics(train)
        assert model.train_log_likelihood is not None
        ends.append(model.train_log_likelihood)
    assert ends[2] == max(ends[:2]) and ends[0] != ends[1]


def test_missing_durations_are_the_training_median_and_counted() -> None:
    train = strollers()
    model = SceneWalk(**{**SMALL, "fit_scanpaths": 0})  # type: ignore[arg-type]
    model.fit_statistics(train)
    batch = collate(train, [0, 1])
    whole, gone = replace(batch), replace(batch, duration=batch.duration.clone())
    median = float(np.median(train.duration))
    whole.duration = batch.duration.clone()
    whole.duration[0, 1] = median
    gone.duration[0, 1] = math.nan
    n = int(batch.lengths[1])
    gone.duration[1, n - 1] = math.nan  # of the last fixation: predicts nothing, not counted
    a, b = model.log_density(whole, (8, 16)), model.log_density(gone, (8, 16))
    assert torch.allclose(a[batch.mask], b[batch.mask], atol=2e-4)
    assert [(loss.kind, loss.count) for loss in model.lost] == [("repaired", 1)]
    nothing = replace(train, duration=np.full(len(train.x), np.nan))
    with pytest.raises(DataError, match="durations"):
        model.fit_statistics(nothing)


def test_a_longer_fixation_forgets_more() -> None:
    model = SceneWalk(start="density", **{**SMALL, "fit_scanpaths": 0})  # type: ignore[arg-type]
    train = strollers()
    model.fit_statistics(train)
    batch = collate(train, [0])
    peak = []
    for ms in (10.0, 100.0, 1000.0):
        at = replace(batch, xy=batch.xy.clone(), duration=torch.full_like(batch.duration, ms))
        at.xy[:] = torch.tensor([0.1, 0.5])
        peak.append(float(model.log_density(at, (8, 16))[0, 1].exp()[:, :4].sum()))
    # attention moves to where the gaze is, and with it the probability of the left quarter
    assert peak[0] != peak[1] and peak[1] != peak[2]


def test_the_empirical_density_leaves_out_the_participant() -> None:
    train = strollers()
    model = SceneWalk(density="empirical", **SMALL)  # type: ignore[arg-type]
    assert model.privileged and not SceneWalk().privileged
    model.fit_statistics(train)
    assert model.gold is not None
    model.gold.chosen = (10.0, 0.2, 0.1)  # these people do not look at the same places
    model.observe(train)
    batch = collate(train)
    old = model.log_density(batch, (8, 16))
    mine = train.participant[train.of] == "p3"
    moved = replace(train, x=np.where(mine, 1.0, train.x), y=np.where(mine, 1.0, train.y))
    model.observe(moved)
    new = model.log_density(batch, (8, 16))  # the same histories, other people's KDE
    is_mine = torch.tensor([p == "p3" for p in batch.participant])
    assert torch.equal(old[is_mine][batch.mask[is_mine]], new[is_mine][batch.mask[is_mine]])
    others = old[~is_mine] - new[~is_mine]
    assert float(others[batch.mask[~is_mine]].abs().max()) > 1e-3
    with pytest.raises(CapabilityError):
        SceneWalk().observe(train)
    with pytest.raises(DataError, match="observe"):
        model.sample(Stimulus("new", SIZE), 1, torch.Generator())


def test_without_leaking_its_own_picture() -> None:
    train = strollers()
    model = SceneWalk(start="density", **{**SMALL, "fit_scanpaths": 0})  # type: ignore[arg-type]
    model.fit_statistics(train)
    batch = collate(train, [0])
    found = model.log_density(batch, model.grid)[0, 0].exp()
    scene = model.centre.map_of(train.stimuli["s0"], model.grid).float()
    assert torch.allclose(found, 0.99 * scene + 0.01 / 128, atol=1e-6)
    everything = model.centre.map_of(Stimulus("new", SIZE), model.grid).float()
    assert float((scene - everything).abs().max()) > 1e-5
