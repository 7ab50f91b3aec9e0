"""Gaze as a mixture over the places of code: by hand, and what must hold for any state."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError
from gazeattn.models.gaze_prior import mixture as room
from gazeattn.models.gaze_prior.mixture import GazeMixture, code_positions

from .tiny import WIDTH, stirred


def test_places_by_hand() -> None:
    code = torch.tensor([[0, 1, 0, 1, 1, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]]).bool()
    position, n = code_positions(code)
    assert position.tolist() == [[0, 0, 0, 0.5, 1, 0], [0] * 6, [0] * 6]
    assert n.tolist() == [3, 1, 0]


def test_a_mixture_by_hand() -> None:
    """Two components at 0.25 and 0.75, width 0.5 + 1 / (2 n), as they are at the start."""
    net = GazeMixture(WIDTH, components=2)
    torch.nn.init.zeros_(net.net[-1].weight)
    code = torch.tensor([[False, True, True, True, True, False]])
    mean, size, share = net.parameters_of(torch.randn(1, 1, WIDTH), code.sum(1))
    assert mean[0, 0].tolist() == pytest.approx([0.25, 0.75])
    assert size[0, 0].tolist() == pytest.approx([0.5 + 1 / 8] * 2)
    assert share[0, 0].exp().tolist() == pytest.approx([0.5, 0.5])
    found = net(torch.randn(1, 1, WIDTH), code)[0, 0].exp()
    places, width = np.array([0, 1 / 3, 2 / 3, 1]), 0.625
    density = sum(0.5 * np.exp(-((places - m) ** 2) / (2 * width**2)) / width for m in (0.25, 0.75))
    assert found.tolist() == pytest.approx([0, *(density / density.sum()), 0], abs=1e-6)


def test_content_starts_at_nothing_and_counts_afterwards() -> None:
    torch.manual_seed(0)
    plain, told = GazeMixture(WIDTH, 3), GazeMixture(WIDTH, 3, content=4)
    told.load_state_dict(plain.state_dict(), strict=False)
    states, code = torch.randn(2, 7, WIDTH), torch.ones(2, 7, dtype=torch.bool)
    query = torch.randn(2, 2, WIDTH)
    torch.testing.assert_close(told(query, code, told.keys(states)), plain(query, code))
    stirred(told)
    found = told(query, code, told.keys(states))
    # a token's own state moves its own share against that of all others alike
    moved = states.clone()
    moved[:, 3] += torch.randn(WIDTH)
    after = told(query, code, told.keys(moved))
    rest = [k for k in range(7) if k != 3]
    gap = (after - found)[..., rest]
    assert float((gap - gap[..., :1]).abs().max()) < 1e-4
    assert float((after - found)[..., 3].abs().min()) > 1e-3
    with pytest.raises(DataError, match="keys"):
        told(query, code)


@settings(deadline=None)
@given(
    st.integers(1, 4), st.integers(0, 3), st.integers(1, 12), st.integers(1, 5),
    st.integers(0, 1000),
)  # fmt: skip
def test_gaze_is_a_distribution_over_visible_code(
    k: int, content: int, length: int, queries: int, seed: int
) -> None:
    torch.manual_seed(seed)
    net = GazeMixture(WIDTH, k, content=content)
    stirred(net, seed)
    states = 3 * torch.randn(2, length, WIDTH)
    code = torch.rand(2, length) < 0.6
    visible = torch.rand(2, queries, length) < 0.7
    log_g = net(torch.randn(2, queries, WIDTH), code, net.keys(states), visible)
    g = log_g.exp()
    there = code[:, None] & visible
    assert not bool(g.isnan().any()) and bool((g[~there] == 0).all())
    some = there.any(-1)
    torch.testing.assert_close(g.sum(-1), some.float(), atol=1e-5, rtol=0)
    # one place of the chain: widths are at least half the distance of two tokens
    _, size, _ = net.parameters_of(states, code.sum(1))
    least = 0.5 / code.sum(1).clamp_min(1)
    assert bool((size >= least[:, None, None]).all())


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    net = GazeMixture(WIDTH, 3, content=2)
    stirred(net)
    states, code = torch.randn(2, 11, WIDTH), torch.rand(2, 11) < 0.8
    whole = net(states, code, net.keys(states))
    seen: list[int] = []
    inner = GazeMixture._density

    def density(mean: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        seen.append(mean.shape[1])
        return inner(mean, *rest)

    monkeypatch.setattr(GazeMixture, "_density", staticmethod(density))
    monkeypatch.setattr(room, "CHUNK", 2 * 11 * 3 * 4)
    torch.testing.assert_close(net(states, code, net.keys(states)), whole)
    assert seen == [4, 4, 3]


def test_a_query_without_code_has_no_gaze_and_no_gradient_that_is_none() -> None:
    net = GazeMixture(WIDTH, 2)
    query = torch.randn(1, 2, WIDTH, requires_grad=True)
    code = torch.ones(1, 4, dtype=torch.bool)
    visible = torch.tensor([[[True] * 4, [False] * 4]])
    log_g = net(query, code, visible=visible)
    assert bool((log_g[0, 1] == -math.inf).all())
    log_g.exp().square().sum().backward()
    assert query.grad is not None and bool(torch.isfinite(query.grad).all())
    assert bool((query.grad[0, 1] == 0).all()) and bool((query.grad[0, 0] != 0).any())


@pytest.mark.parametrize("bad", [{"components": 0}, {"content": -1}])
def test_mixtures_that_are_none(bad: dict[str, int]) -> None:
    with pytest.raises(DataError):
        GazeMixture(WIDTH, **bad)
