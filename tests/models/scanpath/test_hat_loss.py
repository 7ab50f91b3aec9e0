"""Targets and losses of HAT by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gazeattn.models.scanpath._hat_loss import (
    blurred_targets,
    density_loss,
    focal_loss,
    overlap,
)


def test_focal_loss_by_hand_on_single_pixels() -> None:
    # two cells of one pixel each, sigma so small that the other target is exp(-0.5) at 1 sigma
    logits = torch.tensor([[0.0, 1.0]])
    p = torch.sigmoid(torch.tensor(1.0)).item()
    y = np.exp(-0.5)
    expected = -(0.5 * np.log(0.5) + (1 - y) ** 4 * p * np.log(1 - p))
    found = focal_loss(logits, torch.tensor([[0.2, 0.5]]), (1, 2), 1.0, stride=1)
    assert found.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 4), (2.0, 4), (1.0, 2)])
def test_focal_loss_equal_to_the_sum_over_pixels(alpha: float, beta: int) -> None:
    torch.manual_seed(1)
    grid, stride, sigma = (3, 5), 4, 5.0
    logits = torch.randn(4, 15)
    xy = torch.rand(4, 2)
    found = focal_loss(logits, xy, grid, sigma, stride, alpha, beta)
    big = logits.view(4, 1, 3, 5).double()
    p = F.interpolate(big, scale_factor=stride, mode="nearest")[:, 0].sigmoid()
    for i in range(4):
        px, py = int(xy[i, 0] * 20), int(xy[i, 1] * 12)
        yy, xx = np.mgrid[:12, :20]
        target = torch.from_numpy(np.exp(-((xx - px) ** 2 + (yy - py) ** 2) / (2 * sigma**2)))
        hit = target == 1
        assert hit.sum() == 1
        positive = ((1 - p[i]) ** alpha * p[i].log())[hit].sum()
        negative = ((1 - target) ** beta * p[i] ** alpha * (1 - p[i]).log())[~hit].sum()
        assert found[i].item() == pytest.approx(-(positive + negative).item(), rel=1e-4)


def test_focal_loss_is_finite_for_sure_and_wrong_maps() -> None:
    logits = torch.full((1, 15), 80.0)
    logits[0, 7] = -80.0
    logits.requires_grad_()
    found = focal_loss(logits, torch.tensor([[0.5, 0.5]]), (3, 5), 5.0).sum()
    found.backward()
    assert torch.isfinite(found)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_blurred_target_and_density_loss_by_hand() -> None:
    xy = torch.tensor([[0.5, 0.5]])
    rows, columns = blurred_targets(xy, (1, 4), 1.0)
    inner, outer = 0.3413447, 0.1359051  # mass of a normal from 0 to 1 and from 1 to 2
    expected = np.array([outer, inner, inner, outer]) / (2 * (inner + outer))
    assert rows.tolist() == [[1.0]]
    assert columns[0].tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
    logs = np.arange(4) - np.log(np.exp(np.arange(4)).sum())
    found = density_loss(logits, xy, (1, 4), 1.0)
    assert found.item() == pytest.approx(-(expected * logs).sum(), rel=1e-5)
    # without blur: the cell of the fixation alone
    assert density_loss(logits, xy, (1, 4), 0.0).item() == pytest.approx(-logs[2], rel=1e-6)
    # a Gaussian at the edge keeps its mass on the picture
    rows, columns = blurred_targets(torch.tensor([[0.0, 0.999]]), (3, 4), 2.0)
    assert torch.allclose(rows.sum(-1), torch.ones(1))
    assert torch.allclose(columns.sum(-1), torch.ones(1))


def test_overlap_keeps_mass() -> None:
    assert overlap(2, 3).tolist() == [
        pytest.approx([2 / 3, 0]),
        pytest.approx([1 / 3, 1 / 3]),
        pytest.approx([0, 2 / 3]),
    ]
    for cells, asked in ((64, 100), (40, 75), (7, 3), (5, 5)):
        assert overlap(cells, asked).sum(0).numpy() == pytest.approx(np.ones(cells))
