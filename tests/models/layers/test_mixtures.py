"""Mixtures: equations by hand, exact masses, survival, and draws on the picture."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import truncnorm

from gazeattn.models.layers.coordconv import add_coordinates, cell_centres
from gazeattn.models.layers.history import GRUHistory, TransformerHistory, sinusoid
from gazeattn.models.layers.mixtures import Blocks, GaussianMixture, LogNormalMixture


def gaussian(mean: list[float], sd: list[float]) -> GaussianMixture:
    return GaussianMixture(torch.zeros(1), torch.tensor([mean]), torch.tensor([sd]).log())


def random_mixture(seed: int, parts: int = 5) -> GaussianMixture:
    g = torch.Generator().manual_seed(seed)
    return GaussianMixture(
        torch.randn(3, parts, generator=g).log_softmax(-1),
        torch.rand(3, parts, 2, generator=g) * 1.4 - 0.2,
        (torch.rand(3, parts, 2, generator=g) * 0.3 + 0.03).log(),
    )


def test_log_normal_by_hand() -> None:
    one = LogNormalMixture(
        torch.zeros(1), torch.tensor([math.log(200)]), torch.tensor([math.log(0.5)])
    )
    # at the median: 1 / (200 * 0.5 * sqrt(2 pi)), and half of all durations are longer
    assert one.log_prob(torch.tensor(200.0)).item() == pytest.approx(-5.52411, abs=1e-4)
    assert one.log_survival(torch.tensor(200.0)).item() == pytest.approx(math.log(0.5), abs=1e-5)
    # one standard deviation of the logarithm further: exp(-1/2) / e^0.5 of that
    later = torch.tensor(200 * math.exp(0.5))
    assert one.log_prob(later).item() == pytest.approx(-5.52411 - 1.0, abs=1e-4)
    assert one.log_survival(later).item() == pytest.approx(math.log(0.158655), abs=1e-4)


def test_log_normal_mixture_adds_its_parts_and_integrates_to_one() -> None:
    mix = LogNormalMixture(
        torch.tensor([0.25, 0.75]).log(), torch.tensor([4.0, 5.5]), torch.tensor([-1.0, -0.5])
    )
    grid = torch.linspace(0.01, 6000, 600_001, dtype=torch.float64)
    density = mix.log_prob(grid).exp()
    step = float(grid[1] - grid[0])
    assert float(density.sum()) * step == pytest.approx(1, abs=1e-3)
    beyond = float(density[grid > 300].sum()) * step
    survived = mix.log_survival(torch.tensor(300.0, dtype=torch.float64)).exp().item()
    assert survived == pytest.approx(beyond, abs=1e-3)


def test_survival_far_out_is_finite() -> None:
    one = LogNormalMixture(torch.zeros(1), torch.tensor([5.0]), torch.tensor([-2.0]))
    assert math.isfinite(one.log_survival(torch.tensor(1e9)).item())


def test_gaussian_by_hand() -> None:
    one = gaussian([0.5, 0.5], [0.1, 0.2])
    assert one.log_prob(torch.tensor([0.5, 0.5])).item() == pytest.approx(
        -math.log(2 * math.pi * 0.02), abs=1e-5
    )
    off = one.log_prob(torch.tensor([0.6, 0.1])).item()  # 1 sd in x, 2 in y
    assert off == pytest.approx(-math.log(2 * math.pi * 0.02) - 0.5 - 2.0, abs=1e-5)


def test_a_corner_holds_a_quarter_and_cells_are_exact() -> None:
    corner = gaussian([0.0, 0.0], [0.05, 0.05])
    assert corner.log_inside().exp().item() == pytest.approx(0.25, abs=1e-6)
    centre = gaussian([0.5, 0.5], [0.1, 0.3]).cell_log_mass(2, 2).exp()
    assert torch.allclose(centre, torch.full((2, 2), 0.25), atol=1e-6)
    # x 1 sd right of the middle of two columns: 84.13 % of the mass in the right one
    moved = gaussian([0.6, 0.5], [0.1, 0.01]).cell_log_mass(1, 2).exp()
    assert moved[0].tolist() == pytest.approx([0.15865, 0.84135], abs=1e-4)


def test_masses_are_integrals_not_densities_at_centres() -> None:
    sharp = gaussian([0.26, 0.5], [0.004, 0.004])  # lies between the centres of cells
    mass = sharp.cell_log_mass(2, 4).exp()
    assert mass[:, 1].sum().item() == pytest.approx(0.99379, abs=1e-4)  # Phi(2.5)


@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=25, deadline=None)
def test_cells_sum_to_one_and_nest(seed: int, rows: int, columns: int) -> None:
    mix = random_mixture(seed)
    coarse = mix.cell_log_mass(rows, columns).exp()
    fine = mix.cell_log_mass(2 * rows, 3 * columns).exp()
    assert torch.allclose(coarse.sum((-2, -1)), torch.ones(3), atol=1e-5)
    nested = fine.reshape(3, rows, 2, columns, 3).sum((2, 4))
    assert torch.allclose(nested, coarse, atol=1e-5)


def test_draws_follow_the_truncated_density() -> None:
    n = 40_000
    mix = GaussianMixture(
        torch.zeros(n, 1), torch.tensor([[1.2, -0.1]]), torch.tensor([[0.3, 0.2]]).log()
    )
    drawn = mix.sample(torch.Generator().manual_seed(0))
    assert bool(((drawn >= 0) & (drawn < 1)).all())
    expected = truncnorm((0 - 1.2) / 0.3, (1 - 1.2) / 0.3, 1.2, 0.3)
    assert drawn[:, 0].mean().item() == pytest.approx(expected.mean(), abs=0.005)
    assert drawn[:, 0].std().item() == pytest.approx(expected.std(), abs=0.005)
    expected = truncnorm((0 + 0.1) / 0.2, (1 + 0.1) / 0.2, -0.1, 0.2)
    assert drawn[:, 1].mean().item() == pytest.approx(expected.mean(), abs=0.005)


def test_components_are_drawn_by_their_mass_on_the_picture() -> None:
    n = 20_000
    mix = GaussianMixture(
        torch.tensor([0.5, 0.5]).log().expand(n, 2),
        torch.tensor([[0.0, 0.5], [0.8, 0.5]]),
        torch.full((2, 2), 0.02).log(),
    )
    drawn = mix.sample(torch.Generator().manual_seed(1))
    assert (drawn[:, 0] > 0.5).double().mean().item() == pytest.approx(2 / 3, abs=0.02)


def test_draws_stay_finite_far_outside() -> None:
    for mean in (-0.4, 1.4):
        mix = GaussianMixture(
            torch.zeros(500, 1), torch.tensor([[mean, mean]]), torch.full((1, 2), 0.03).log()
        )
        drawn = mix.sample(torch.Generator().manual_seed(0))
        assert bool(torch.isfinite(drawn).all())
        assert bool(((drawn >= 0) & (drawn < 1)).all())


def test_equal_generators_give_equal_draws() -> None:
    mix = random_mixture(3)
    a, b = (mix.sample(torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(a, b)
    times = LogNormalMixture(torch.zeros(3, 1), torch.full((3, 1), 5.0), torch.zeros(3, 1))
    a, b = (times.sample(torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(a, b)


def test_coordinates() -> None:
    out = add_coordinates(torch.zeros(2, 4, 3, 5), radius_from=0.5)
    assert out.shape == (2, 7, 3, 5)
    assert out[0, 4, :, 0].tolist() == [-1, 0, 1]  # the row comes first, as published
    assert out[0, 5, 0].tolist() == [-1, -0.5, 0, 0.5, 1]
    assert out[0, 6, 1, 2].item() == pytest.approx(math.sqrt(0.5))  # (0, 0) to (.5, .5)
    assert add_coordinates(torch.zeros(1, 1, 3, 3))[0, 3, 1, 1].item() == 0
    assert cell_centres(2, 4)[1].tolist() == [0.375, 0.25]


def test_sinusoid_by_hand() -> None:
    code = sinusoid(torch.tensor([2.0]), 4)[0]
    wanted = [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)]
    assert code.tolist() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("kind", ["gru", "transformer"])
def test_history_is_causal_and_knows_one_sequence_only(kind: str) -> None:
    torch.manual_seed(0)
    history = (GRUHistory(3, 8) if kind == "gru" else TransformerHistory(3, 8, 2, 2, 16)).eval()
    events, times = torch.randn(4, 6, 3), torch.randn(4, 6)
    whole = history(events, times)
    assert whole.shape == (4, 7, 8)
    changed = events.clone()
    changed[:, 3] += 1
    after = history(changed, times)
    assert torch.allclose(after[:, :4], whole[:, :4], atol=1e-6)
    assert not torch.allclose(after[:, 4], whole[:, 4], atol=1e-4)
    alone = history(events[2:3, :4], times[2:3, :4])  # neither the batch nor the rest matters
    assert torch.allclose(alone[0], whole[2, :5], atol=1e-5)
    state = None
    for i in range(6):
        step, state = history.step(events[:, i], times[:, i], state)
        assert torch.allclose(step, whole[:, i + 1], atol=1e-5)
    assert torch.equal(whole[:, 0], torch.zeros(4, 8))
    assert history(events[:, :0], times[:, :0]).shape == (4, 1, 8)


def test_blocks_are_one_mixture() -> None:
    whole = random_mixture(1, 5)
    shared = GaussianMixture(whole.log_weights[:, :3], whole.mean[:1, :3], whole.log_sd[:1, :3])
    own = GaussianMixture(whole.log_weights[:, 3:], whole.mean[:, 3:], whole.log_sd[:, 3:])
    joined = GaussianMixture(
        whole.log_weights,
        torch.cat([shared.mean.expand(3, -1, -1), own.mean], 1),
        torch.cat([shared.log_sd.expand(3, -1, -1), own.log_sd], 1),
    )
    blocks, xy = Blocks((shared, own)), torch.rand(3, 2)
    assert torch.allclose(blocks.log_prob(xy), joined.log_prob(xy), atol=1e-5)
    assert torch.allclose(blocks.log_inside(), joined.log_inside(), atol=1e-6)
    assert torch.allclose(blocks.cell_log_mass(3, 4), joined.cell_log_mass(3, 4), atol=1e-5)
    assert torch.allclose(blocks[2].cell_log_mass(3, 4), joined.cell_log_mass(3, 4)[2], atol=1e-5)
    draws = [m.sample(torch.Generator().manual_seed(0)) for m in (blocks, joined)]
    assert torch.equal(*draws)
