"""Deformable attention, position codes and the pixel decoder."""

from __future__ import annotations

import math

import pytest
import torch

from gazeattn.errors import DataError
from gazeattn.models.layers.deformable import (
    DeformableAttention,
    cell_centres,
    deformable_attention,
)
from gazeattn.models.layers.pixel_decoder import PixelDecoder
from gazeattn.models.layers.positions import coarser_code, grid_code, sinusoid, unit_code


def _random(seed: int = 0, *, spread: float = 1.6) -> tuple:
    g = torch.Generator().manual_seed(seed)
    shapes = [(3, 4), (5, 2), (1, 7)]
    values = torch.randn(2, 29, 3, 4, generator=g)
    # some places are outside the maps
    locations = torch.rand(2, 6, 3, 3, 5, 2, generator=g) * spread - (spread - 1) / 2
    weights = torch.rand(2, 6, 3, 3, 5, generator=g)
    return values, shapes, locations, weights


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equal_to_the_deformable_attention_of_transformers(seed: int) -> None:
    module = pytest.importorskip("transformers.models.mask2former.modeling_mask2former")
    values, shapes, locations, weights = _random(seed)
    theirs = module.multi_scale_deformable_attention(values, shapes, locations, weights)
    ours = deformable_attention(values, shapes, locations, weights)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_module_equal_to_that_of_transformers() -> None:
    module = pytest.importorskip("transformers.models.mask2former.modeling_mask2former")
    torch.manual_seed(3)
    theirs = module.Mask2FormerPixelDecoderEncoderMultiscaleDeformableAttention(16, 4, 3, 2)
    ours = DeformableAttention(16, 4, 3, 2)
    for mine, other in (
        (ours.offsets, theirs.sampling_offsets),
        (ours.weights, theirs.attention_weights),
        (ours.values, theirs.value_proj),
        (ours.output, theirs.output_proj),
    ):
        torch.nn.init.normal_(other.weight, std=0.3)
        torch.nn.init.normal_(other.bias)
        mine.load_state_dict(other.state_dict())
    shapes = [(2, 3), (4, 6), (8, 12)]
    x = torch.randn(2, 126, 16)
    centres = cell_centres(shapes)
    reference = centres[None, :, None].expand(2, -1, 3, -1)
    found, _ = theirs(
        x, encoder_hidden_states=x, reference_points=reference, spatial_shapes_list=shapes
    )
    torch.testing.assert_close(ours(x, x, shapes, centres), found, atol=1e-5, rtol=1e-4)


def test_reads_the_middle_of_cells_and_between_them() -> None:
    values = torch.tensor([1.0, 3.0, 5.0, 11.0]).view(1, 4, 1, 1)  # a map of 2 x 2
    at = torch.tensor([[0.25, 0.25], [0.5, 0.25], [0.5, 0.5], [0.0, 0.25], [1.5, 0.25]])
    locations = at.view(1, 5, 1, 1, 1, 2)
    weights = torch.ones(1, 5, 1, 1, 1)
    found = deformable_attention(values, [(2, 2)], locations, weights)[0, :, 0]
    # on a cell, between two, among four, half outside, outside
    assert found.tolist() == pytest.approx([1.0, 2.0, 5.0, 0.5, 0.0])


def test_gradients_reach_places_and_weights() -> None:
    values, shapes, locations, weights = _random()
    for t in (values, locations, weights):
        t.requires_grad_()
    deformable_attention(values, shapes, locations, weights).square().sum().backward()
    assert all(t.grad is not None and t.grad.abs().sum() > 0 for t in (values, locations, weights))


def test_wrong_number_of_cells_and_heads() -> None:
    values, shapes, locations, weights = _random()
    with pytest.raises(DataError, match="cells"):
        deformable_attention(values[:, 1:], shapes, locations, weights)
    with pytest.raises(DataError, match="heads"):
        DeformableAttention(10, 4, 3)


def test_cell_centres() -> None:
    found = cell_centres([(1, 2), (2, 1)])
    expected = [[0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75]]
    assert found.allclose(torch.tensor(expected))


def test_sinusoid_by_hand() -> None:
    found = sinusoid(torch.tensor([0, 3]), 4)
    assert found[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    # waves of 1 and of 10000 ** (2 / 4) = 100
    expected = [math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)]
    assert found[1].tolist() == pytest.approx(expected, abs=1e-6)
    with pytest.raises(DataError):
        sinusoid(torch.zeros(2), 3)


def test_grid_code_has_x_before_y_and_no_cell_without_a_code() -> None:
    code = grid_code(8, 16, 8)
    assert torch.equal(code[2, 5, :4], sinusoid(torch.tensor(5), 4))
    assert torch.equal(code[2, 5, 4:], sinusoid(torch.tensor(2), 4))
    # the first cell and its neighbour are places like all others
    assert (code.norm(dim=-1) > 1).all()
    assert len(code.flatten(0, 1).unique(dim=0)) == 8 * 16
    assert torch.equal(coarser_code(code, 8), code[4:5, 4::8])
    assert coarser_code(code, 4).shape == (2, 4, 8)


def test_unit_code_equal_to_that_of_transformers() -> None:
    module = pytest.importorskip("transformers.models.mask2former.modeling_mask2former")
    theirs = module.Mask2FormerSinePositionEmbedding(num_position_features=8, normalize=True)
    found = theirs((1, 3, 5, 7), torch.device("cpu"), torch.float32)
    if found.shape[-1] != 16:  # as a map, or as tokens
        found = found.flatten(2).transpose(1, 2)
    found = found.reshape(35, 16)
    assert unit_code(5, 7, 16).flatten(0, 1).allclose(found, atol=1e-5)


def _maps(n: int = 2, seed: int = 0) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    channels = {4: 3, 8: 5, 16: 6, 32: 7}
    return {
        f"stride{s}": torch.randn(n, c, 32 // s, 64 // s, generator=g) for s, c in channels.items()
    }


def test_pixel_decoder_gives_maps_of_one_width() -> None:
    maps = _maps()
    decoder = PixelDecoder(
        {k: v.shape[1] for k, v in maps.items()}, 16, heads=4, hidden=32, layers=2
    ).eval()
    found = decoder(maps)
    assert {s: tuple(m.shape) for s, m in found.items()} == {
        32: (2, 16, 1, 2),
        16: (2, 16, 2, 4),
        8: (2, 16, 4, 8),
        4: (2, 16, 8, 16),
    }
    alone = decoder({k: v[1:] for k, v in maps.items()})
    for s, m in found.items():
        torch.testing.assert_close(alone[s][0], m[1], atol=1e-5, rtol=1e-5)


def test_pixel_decoder_carries_coarse_maps_to_the_fine_one() -> None:
    maps = _maps(1)
    channels = {k: v.shape[1] for k, v in maps.items()}
    decoder = PixelDecoder(channels, 16, heads=4, hidden=32, layers=1).eval()
    for name, p in decoder.layers.named_parameters():
        if name.endswith("offsets.weight"):
            torch.nn.init.normal_(p, std=0.2)
    for name in maps:
        changed = {**maps, name: maps[name] + torch.randn_like(maps[name])}
        assert not decoder(changed)[4].allclose(decoder(maps)[4], atol=1e-3)
    decoder(maps)[4].square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in decoder.layers.parameters())
