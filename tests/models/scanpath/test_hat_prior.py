"""HAT's saccade prior and returns: by hand, and the contract where they are switched on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gazeattn.datamodules import Scanpaths, Stimulus, collate
from gazeattn.errors import DataError
from gazeattn.models.scanpath._hat_batches import Prefixes
from gazeattn.models.scanpath._hat_draw import next_positions
from gazeattn.models.scanpath._hat_prior import (
    LAGS,
    WIDTHS,
    Near,
    Next,
    Recent,
    Returns,
    SaccadePrior,
    aspects,
    recent,
)
from gazeattn.models.scanpath.hat import HAT

CHANNELS = {"stride4": 3, "stride8": 4, "stride16": 5, "stride32": 6}


def model(**options: Any) -> HAT:
    torch.manual_seed(0)
    small: dict[str, Any] = {
        "image_size": (64, 32), "channels": CHANNELS, "decoder_width": 16, "decoder_layers": 1,
        "decoder_hidden": 16, "decoder_heads": 2, "points": 2, "width": 16, "heads": 2,
        "hidden": 16, "encoder_layers": 1, "query_layers": 1, "loss": "density", "sigma": 0.0,
        "saccade_prior": "learned", "returns": 3, "index": "age",
    }  # fmt: skip
    return HAT(**{**small, **options}).eval()


def paths_of(xy: list[np.ndarray], size: tuple[float, float] = (800.0, 600.0)) -> Scanpaths:
    g = torch.Generator().manual_seed(0)
    maps = {k: torch.randn(c, 32 // int(k[6:]), 64 // int(k[6:]), generator=g)
            for k, c in CHANNELS.items()}  # fmt: skip
    values = np.concatenate(xy)
    ids = np.array([f"t{i}" for i in range(len(xy))], dtype=object)
    starts = np.concatenate([[0], np.cumsum([len(p) for p in xy])]).astype(np.int64)
    name = np.full(len(xy), "p", dtype=object)
    return Scanpaths(
        values[:, 0] * size[0], values[:, 1] * size[1], np.full(len(values), np.nan), starts,
        ids, ids, name, {"p": Stimulus("p", size, features=maps)},
    )  # fmt: skip


def seen(xy: list[list[float]], aspect: tuple[float, float] = (1.0, 1.0)) -> Recent:
    at = torch.tensor(xy).reshape(1, len(xy), 2)
    there = torch.ones(1, len(xy), dtype=torch.bool)
    return Recent(at, there, torch.tensor([aspect]), torch.tensor([len(xy)]))


def near(weights: list[float], centre: list[float], sd: list[float]) -> Near:
    return Near(
        torch.tensor([weights], dtype=torch.float64).log(),
        torch.tensor([[centre]], dtype=torch.float64),
        torch.tensor([[sd]], dtype=torch.float64),
    )


# Parts, by hand


def test_recent_fixations_latest_first() -> None:
    xy = torch.rand(1, 5, 2)
    prefixes = Prefixes(torch.tensor([0, 0, 0]), torch.tensor([0, 2, 4]))
    found = recent(xy, prefixes, torch.ones(1, 2), 3)
    assert found.there.tolist() == [[False] * 3, [True, True, False], [True] * 3]
    assert torch.equal(found.xy[2], xy[0, [3, 2, 1]])
    few = found.take(torch.tensor([1]))
    assert few.xy.shape == (1, 2, 2)
    assert few.count.tolist() == [2]


def test_aspect_by_hand() -> None:
    # 800 x 600 has the area of a square with side 692.82
    found = aspects([Stimulus("a", (800.0, 600.0))], torch.zeros(1))
    assert found[0].tolist() == pytest.approx([1.154701, 0.866025], abs=1e-5)


def test_bump_by_hand() -> None:
    prior = SaccadePrior(4, (2, 4))
    for p in prior.parameters():
        p.data.zero_()
    r = WIDTHS.index((0.5, 0.5))
    prior.amounts.bias.data.view(LAGS, len(WIDTHS))[1, r] = 2.0  # of the one before the last
    found = prior(torch.zeros(1, 4), seen([[0.9, 0.9], [0.125, 0.25]], (2.0, 1.0)))
    found = found.unflatten(-1, (2, 4))[0]
    assert found[0, 0].item() == pytest.approx(2.0)
    # one cell to the right is 0.25 * 2 away, one down 0.5: exp(-0.5) each
    assert found[0, 1].item() == pytest.approx(2 * np.exp(-0.5))
    assert found[1, 1].item() == pytest.approx(2 * np.exp(-1.0))
    assert found[0, 2].item() == pytest.approx(2 * np.exp(-2.0))
    # the last fixation alone: nothing, and nothing at all before the first
    assert prior(torch.zeros(1, 4), seen([[0.9, 0.9]])).abs().max() == 0
    assert prior(torch.zeros(1, 4), seen([])).abs().max() == 0


def test_old_fixations_share_the_last_amounts() -> None:
    torch.manual_seed(1)
    prior = SaccadePrior(4, (4, 8))
    prior.amounts.bias.data.normal_()
    query = torch.randn(1, 4)
    old = [[0.2, 0.3]] * LAGS
    one = prior(query, seen([*old, [0.7, 0.1], [0.4, 0.9]]))
    two = prior(query, seen([*old, [0.4, 0.9], [0.7, 0.1]]))
    torch.testing.assert_close(one, two)
    other = prior(query, seen([[0.7, 0.1], *old, [0.4, 0.9]]))
    assert not torch.allclose(one, other)


def test_gaussians_are_cut_to_the_stimulus_by_hand() -> None:
    # half of the mass along x is off the picture at its edge
    found = near([0.5, 0.5], [0.0, 0.5], [0.1, 0.1])
    value = found.log_prob(torch.tensor([[0.1, 0.5]], dtype=torch.float64))
    plain = -0.5 - 2 * np.log(0.1 * np.sqrt(2 * np.pi))
    assert value.item() == pytest.approx(plain + np.log(2), abs=1e-4)
    mass = found.masses((2, 10))
    assert mass.sum().item() == pytest.approx(0.5)
    # the first cell along x holds P(|z| < 1) = 0.6827
    assert mass[0, :, 0].sum().item() == pytest.approx(0.5 * 0.6827, abs=1e-4)


def test_draws_are_those_of_the_density() -> None:
    n, grid = 20000, (2, 4)
    one = near([0.6, 0.4], [0.95, 0.3], [0.2, 0.05])
    many = Near(*(v.expand(n, *v.shape[1:]) for v in (one.log_weight, one.centre, one.sd)))
    logs = torch.randn(1, 8, dtype=torch.float64).log_softmax(-1)
    found = Next(logs.expand(n, -1), logs.expand(n, -1), many)
    g = torch.Generator().manual_seed(0)
    chance = torch.rand(n, 3, dtype=torch.float64, generator=g)
    before = torch.zeros(n, 0, 2, dtype=torch.float64)
    xy = next_positions(found, grid, before, chance, greedy=False, radius=0.0)
    assert ((xy >= 0) & (xy < 1)).all()
    counts = np.histogram2d(
        xy[:, 1].numpy(), xy[:, 0].numpy(), bins=(8, 16), range=((0, 1), (0, 1))
    )[0]
    expected = Next(logs, logs, one).masses(grid, (8, 16))[0].numpy()
    assert expected.sum() == pytest.approx(1.0)
    assert np.abs(counts / n - expected).max() < 0.01
    ends = torch.tensor([[0.0, 0.0, 0.0], [1 - 2**-53] * 3], dtype=torch.float64)
    xy = next_positions(
        Next(logs.expand(2, -1), logs.expand(2, -1), many.take(torch.arange(2))),
        grid, before[:2], ends, greedy=False, radius=0.0,
    )  # fmt: skip
    assert ((xy >= 0) & (xy < 1)).all()


def test_greedy_sees_the_gaussians() -> None:
    logs = torch.full((1, 8), 1 / 8, dtype=torch.float64).log()
    found = Next(logs, logs, near([0.5, 0.5], [0.3, 0.8], [0.01, 0.01]))
    chance = torch.zeros(1, 3, dtype=torch.float64)
    xy = next_positions(found, (2, 4), chance[:, None, :2], chance, greedy=True, radius=0.0)
    assert xy[0].tolist() == [0.375, 0.75]


def test_loss_is_the_likelihood_of_the_density() -> None:
    logits = torch.randn(1, 8, dtype=torch.float64)
    found = Next(logits, logits.log_softmax(-1), near([0.7, 0.3], [0.3, 0.6], [0.1, 0.2]))
    xy = torch.tensor([[0.32, 0.55]], dtype=torch.float64)
    loss = found.density_loss(xy, (2, 4), 0.0).item()
    fine = found.masses((2, 4), (2000, 4000))[0, 1100, 1280].item() * 2000 * 4000 / 8
    assert loss == pytest.approx(-np.log(fine), abs=2e-3)


def test_weights_of_fixations_that_are_not_there() -> None:
    made = Returns(4, 3)
    found = made(torch.randn(1, 4), seen([[0.2, 0.4]], (2.0, 0.5)))
    assert found.log_weight.exp().sum().item() == pytest.approx(1.0)
    assert found.log_weight[0, 3:].exp().max() == 0
    assert found.centre[0, 0].tolist() == pytest.approx([0.2, 0.4])
    # a distance of 0.012 is a smaller share of a longer side
    assert found.sd[0, 0].tolist() == pytest.approx([0.006, 0.024])
    none = made(torch.randn(1, 4), seen([]))
    assert none.log_weight[0].exp().tolist() == [1.0, *[0.0] * 6]


# In the model


def test_gradients_reach_both_parts() -> None:
    made = model().train()
    rng = np.random.default_rng(0)
    parts = made.training_loss(collate(paths_of([rng.random((5, 2)), rng.random((3, 2))])))
    parts["loss"].backward()
    assert made.saccades is not None
    assert made.returns is not None
    for part in (made.saccades, made.returns):
        for name, p in part.named_parameters():
            assert p.grad is not None, name
            assert p.grad.abs().sum() > 0, name


def test_chunks_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    batch = collate(paths_of([rng.random((5, 2)), rng.random((9, 2))]))
    torch.testing.assert_close(
        model(chunk=2).training_loss(batch)["loss"], model(chunk=99).training_loss(batch)["loss"]
    )


def test_distance_is_that_of_the_stimulus_and_not_of_the_stretched_picture() -> None:
    made = model()
    assert made.saccades is not None
    made.saccades.amounts.bias.data.fill_(1.0)
    one = paths_of([np.array([[0.5, 0.5], [0.2, 0.3]])])
    wide = paths_of([np.array([[0.5, 0.5], [0.2, 0.3]])], (1600.0, 300.0))

    def spread(p: Scanpaths) -> Tensor:
        mass = made.log_density(collate(p), (8, 16))[0, 1].exp()
        x = (torch.arange(16) + 0.5) / 16 - 0.5
        return (mass.sum(0) * x.square()).sum()

    assert spread(wide) < spread(one)


def test_learns_short_steps() -> None:
    rng = np.random.default_rng(0)
    steps = rng.normal(0, 0.02, (40, 8, 2))
    steps[:, 0] = rng.uniform(0.3, 0.7, (40, 2))
    paths = paths_of(list(np.clip(steps.cumsum(1), 0.01, 0.99)))
    made = model()
    batch = collate(paths)
    optimizer = torch.optim.AdamW(made.parameters(), lr=2e-2)
    for _ in range(25):
        optimizer.zero_grad()
        made.training_loss(batch)["loss"].backward()
        optimizer.step()
    drawn = made.sample(paths.stimuli["p"], 40, torch.Generator().manual_seed(0))
    size = np.array([800, 600])
    length = np.concatenate([np.linalg.norm(np.diff(p / size, axis=0), axis=1) for p in drawn])
    assert np.median(length) < 0.06


@pytest.mark.parametrize(
    "wrong",
    [
        {"returns": -1},
        {"loss": "focal", "sigma": 4.0},
        {"inhibition": 8.0},
        {"history": 2},
    ],
)
def test_returns_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="returns"):
        model(**wrong)


def test_published_form_has_neither() -> None:
    made = model(saccade_prior="none", returns=0)
    assert not any("saccades" in k or "returns" in k for k in made.state_dict())
