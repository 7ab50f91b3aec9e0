"""The scanpath as a picture: what is drawn, and the networks that look at it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import (
    BertConfig,
    BertModel,
    ConvNextConfig,
    ConvNextModel,
    Dinov2Config,
    Dinov2Model,
    ViTConfig,
    ViTModel,
)

from gazeattn import registry
from gazeattn.datamodules.reading_batches import collate_reading
from gazeattn.errors import CapabilityError, DataError, MissingAssetError
from gazeattn.experiments.building import OWN, read_model, sized, training_of
from gazeattn.models.reading import _scanpath_raster as raster
from gazeattn.models.reading._scanpath_raster import CHANNELS, Canvas, directions, draw, text_box
from gazeattn.models.reading.scanpath_image import ScanpathImage

from . import made_fixations as made
from .made_texts import gradients, out_of

SMALL = {"image_size": (16, 32), "channels": (8, 8), "dense_size": 16}
MAKE = partial(ScanpathImage, **SMALL)
PLAIN = Canvas(height=21, width=41, margin=0.0, radius=2.0 / 21, most=5.0 / 21)
"""Positions are pixels over 40 and 20; a fixation of duration 1 has a radius of 2 px."""


def drawn(
    points: list[tuple[float, float]],
    duration: list[float] | None = None,
    word: list[int] | None = None,
    canvas: Canvas = PLAIN,
) -> dict[str, Tensor]:
    """Return the channels of one scanpath over pixels."""
    n = len(points)
    positions = torch.tensor(points, dtype=torch.float32) / torch.tensor([40.0, 20.0])
    there = torch.ones(1, n, dtype=torch.bool)
    picture = draw(
        positions[None],
        torch.tensor([duration or [1.0] * n]),
        torch.tensor([list(range(n)) if word is None else word]),
        there,
        there,
        canvas,
    )
    assert picture.shape == (1, len(CHANNELS), canvas.height, canvas.width)
    return dict(zip(CHANNELS, picture[0], strict=True))


def test_a_disc_by_hand() -> None:
    found = drawn([(10, 10)])
    # radius 2, soft over one pixel: whole at 0 and 1 px, half at 2, nothing at 3
    row = found["fixations"].expm1()[10, 7:14]
    torch.testing.assert_close(row, torch.tensor([0, 0.5, 1, 1, 1, 0.5, 0]))
    torch.testing.assert_close(found["fixations"], found["fixations"].flip(0))
    assert float(found["fixations"].expm1()[8, 8]) == 0  # sqrt(8) px away
    assert not any(bool(found[n].any()) for n in raster.DIRECTIONS)  # one fixation, no saccade


def test_area_grows_with_duration() -> None:
    """Four times the time has twice the radius; the sums over discs are their areas."""
    areas = [float(drawn([(20, 10)], [d])["fixations"].expm1().sum()) for d in (1.0, 4.0)]
    np.testing.assert_allclose(areas, [np.pi * 4, np.pi * 16], rtol=0.05)
    # no larger than most, but brighter in time
    most = drawn([(20, 10)], [100.0])
    np.testing.assert_allclose(float(most["fixations"].expm1().sum()), np.pi * 25, rtol=0.05)
    np.testing.assert_allclose(float(most["time"].expm1().max()), 100.0, rtol=1e-5)


def test_shade_is_the_order() -> None:
    found = drawn([(5, 10), (20, 10), (35, 10), (5, 10)])
    # places 0, 1/3, 2/3 and 1 from 0.1 to 1; the first place is seen twice
    shades = torch.tensor([0.1, 0.4, 0.7, 1.0])
    for x, first, last in ((5, 0, 3), (20, 1, 1), (35, 2, 2)):
        torch.testing.assert_close(found["first"][10, x], shades[first])
        torch.testing.assert_close(found["last"][10, x], shades[last])
    assert float(found["first"][0, 0]) == 0 == float(found["last"][0, 0])
    np.testing.assert_allclose(float(found["fixations"].expm1()[10, 5]), 2.0, rtol=1e-5)
    np.testing.assert_allclose(float(drawn([(5, 10)])["last"].max()), 0.1, rtol=1e-5)


def test_classes_of_direction_by_hand() -> None:
    dx = torch.tensor([[1.0, -1.0, -1.0, 1.0, 0.3, 1.0, 1.0]])
    word = torch.tensor([[0, 1, 5, 3, 1, 1, -1, 2]])
    names = [raster.DIRECTIONS[k] for k in directions(dx, word)[0].tolist()]
    assert names == [
        "forward", "return sweep", "back", "back and up", "same word", "off the text",
        "off the text",
    ]  # fmt: skip


def test_a_saccade_by_hand() -> None:
    found = drawn([(5, 4), (25, 4)])
    line = found["forward"].expm1()
    assert not line[[0, 3, 5, 20]].any() and not line[4, :5].any() and not line[4, 26:].any()
    # 41 points on 21 pixels, each weighing 21 / 41
    np.testing.assert_allclose(float(line.sum()), 21.0, rtol=1e-5)
    assert bool((line[4, 5:26] > 0.5).all()) and float(line.max()) < 1.6
    assert not any(bool(found[n].any()) for n in raster.DIRECTIONS if n != "forward")
    back = drawn([(25, 4), (5, 16)], word=[9, 2])
    assert bool(back["back"][4, 25] > 0) and bool(back["back"][10, 15] > 0)
    assert not bool(back["forward"].any())


def test_what_has_no_place_is_not_drawn() -> None:
    positions = torch.tensor([[[0.1, 0.5], [0.5, 0.5], [0.9, 0.5]]])
    there = torch.tensor([[True, False, True]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    picture = draw(positions, torch.ones(1, 3), torch.tensor([[0, 1, 2]]), there, mask, PLAIN)[0]
    assert float(picture[0, 10, 20]) == 0 and float(picture[0, 10, 4]) > 0
    assert not picture[4:].any()  # and no saccade leaps over it
    torch.testing.assert_close(picture[3, 10, 36], torch.tensor(1.0))  # order counts all three


def test_beyond_the_picture_is_the_edge() -> None:
    found = drawn([(-30, 10), (400, 10)])
    assert float(found["fixations"][10, 0]) > 0 and float(found["fixations"][10, 40]) > 0
    assert float(found["fixations"][10, 10:30].max()) == 0


def test_box_by_hand() -> None:
    positions = torch.tensor([[[0.0, 1.0], [4.0, 1.0], [9.0, 9.0]], [[5.0, 5.0]] * 3])
    on = torch.tensor([[True, True, False], [False] * 3])
    middle, size = text_box(positions, on)
    assert middle.tolist() == [[2.0, 1.0], [0.0, 0.0]]
    assert size.tolist() == [[4.0, 1.0], [1.0, 1.0]]


def test_pieces_equal_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    given = (
        torch.rand(7, 9, 2, generator=generator),
        torch.rand(7, 9, generator=generator) + 0.5,
        torch.randint(-1, 5, (7, 9), generator=generator),
        torch.rand(7, 9, generator=generator) > 0.2,
        torch.arange(9) < torch.arange(3, 10)[:, None],
    )
    whole = draw(*given, PLAIN)
    monkeypatch.setattr(raster, "MOST_PIXELS", 4000)
    torch.testing.assert_close(draw(*given, PLAIN), whole)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_pictures_are_finite_and_bounded(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 8))
    point = st.tuples(st.floats(-100, 100), st.floats(-100, 100))
    points = data.draw(st.lists(point, min_size=n, max_size=n))
    times = data.draw(st.lists(st.floats(0.1, 50), min_size=n, max_size=n))
    words = data.draw(st.lists(st.integers(-1, 6), min_size=n, max_size=n))
    found = drawn(points, times, words)
    assert all(bool(torch.isfinite(v).all()) and float(v.min()) >= 0 for v in found.values())
    assert float(found["first"].max()) <= 1 and float(found["last"].max()) <= 1
    covered = found["last"] > 0
    assert bool(covered.any()) and bool((found["first"] <= found["last"] + 1e-5)[covered].all())
    lines = sum(float(found[k].expm1().sum()) for k in raster.DIRECTIONS)
    assert (lines > 0) is (n > 1)


def test_contract() -> None:
    made.check_contract(MAKE, ScanpathImage.choice({}))


def test_learns_durations(tmp_path: Path) -> None:
    trials, y = made.by_duration()
    choice = ScanpathImage.choice({})
    made.check_learns(MAKE, *made.inputs_of(trials, choice, y), tmp_path, epochs=15)


def test_learns_order(tmp_path: Path) -> None:
    """Forwards and backwards have the same discs."""
    trials, y = made.by_order()
    choice = ScanpathImage.choice({})
    made.check_learns(MAKE, *made.inputs_of(trials, choice, y), tmp_path, epochs=15)


def test_pictures_of_trials() -> None:
    """The text fills the box, and fixations off the text without a place are counted."""
    choice = ScanpathImage.choice({})
    inputs, widths = made.inputs_of(made.odd_readings(), choice)
    assert widths["fixation"] == 3 and not choice.squash
    model = MAKE(made.target(), widths, image_size=(40, 80))
    pictures, numbers = model.pictures(collate_reading(inputs))
    # trial 3 reads words 0 to 9 of two lines: its columns reach from margin to margin
    columns = pictures[3, 0].amax(0).nonzero()[:, 0]
    assert 5 <= int(columns.min()) <= 8 and 71 <= int(columns.max()) <= 74
    # 1 of 5; none; both; 1 of 11; none; all three; none
    np.testing.assert_allclose(numbers[:, 2], [0.2, 0, 1, 1 / 11, 0, 1, 0], atol=1e-6)
    assert not pictures[2].any() and not pictures[5].any()


def test_needs_places() -> None:
    trials = made.odd_readings()
    trials.fixations[:, 3:5] = np.nan  # x and y
    _, widths = made.inputs_of(trials, ScanpathImage.choice({}))
    with pytest.raises(DataError, match="duration, x and y"):
        MAKE(made.target(), widths)


def vision(kind: str, folder: Path) -> str:
    """Save a tiny vision model with random weights."""
    torch.manual_seed(0)
    tokens = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    if kind == "convnext":
        model = ConvNextModel(ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2))
    elif kind == "vit":
        config = ViTConfig(**tokens, intermediate_size=16, image_size=16, patch_size=8)
        model = ViTModel(config)
    elif kind == "dinov2":
        model = Dinov2Model(Dinov2Config(**tokens, image_size=16, patch_size=8, mlp_ratio=1))
    else:
        model = BertModel(BertConfig(vocab_size=5, intermediate_size=16, **tokens))
    model.save_pretrained(folder / kind)
    return str(folder / kind)


@pytest.mark.parametrize("kind", ["vit", "dinov2", "convnext"])
def test_vision_models(kind: str, tmp_path: Path) -> None:
    source = vision(kind, tmp_path)
    make = partial(ScanpathImage, backbone=source, image_size=(16, 32), dense_size=16)
    made.check_contract(make, ScanpathImage.choice({}))
    inputs, widths = made.inputs_of(made.odd_readings(), ScanpathImage.choice({}))
    frozen = make(made.target(), widths, trainable=False).train()
    assert not frozen.encoder.model.training
    found = gradients(frozen, collate_reading(inputs))
    assert not any(n.startswith("encoder.model") for n in found)
    assert found["encoder.colours.weight"].any()


def test_checkpoints_hold_the_vision_model(tmp_path: Path) -> None:
    """A trained model is read where the folder of its backbone is gone."""
    source = vision("vit", tmp_path)
    make = partial(ScanpathImage, backbone=source, image_size=(16, 32), dense_size=16)
    trials, y = made.by_duration()
    inputs, widths = made.inputs_of(trials, ScanpathImage.choice({}), y)
    torch.manual_seed(0)
    model = make(made.target(), widths)
    trainer = pl.Trainer(max_epochs=0, logger=False, accelerator="cpu", default_root_dir=tmp_path)
    trainer.strategy.connect(model)
    trainer.save_checkpoint(tmp_path / "model.ckpt")
    for file in Path(source).iterdir():
        file.unlink()
    loaded = ScanpathImage.load_from_checkpoint(
        tmp_path / "model.ckpt", map_location="cpu", weights_only=True
    )
    np.testing.assert_array_equal(loaded.predict(inputs), model.predict(inputs))
    with pytest.raises(MissingAssetError, match="cannot be loaded"):
        make(made.target(), widths)


def test_language_models_are_no_backbone(tmp_path: Path) -> None:
    with pytest.raises(CapabilityError, match="pictures"):
        ScanpathImage(made.target(), {"fixation": 3}, backbone=vision("bert", tmp_path))


@pytest.mark.parametrize("size", ["tiny", "cpu", "full"])
def test_configuration(size: str, tmp_path: Path) -> None:
    config = sized(read_model("scanpath_image"), size)
    assert training_of(config).gradient_clip == 1.0
    if size == "full":
        assert config["backbone"] == "facebook/dinov2-base"
        config["backbone"] = vision("dinov2", tmp_path)
    kind = registry.reading_models.get("scanpath_image").obj
    inputs, widths = made.inputs_of(made.odd_readings(), kind.choice(config))
    arguments = {k: v for k, v in config.items() if k not in OWN}
    model = kind(made.target(), widths, **arguments)
    assert out_of(model, inputs, range(7)).shape == (7, 2)
