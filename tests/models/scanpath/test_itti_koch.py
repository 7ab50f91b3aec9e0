"""Itti-Koch: what pops out, normalisation by hand, winners and their inhibition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from gazeattn.datamodules import Scanpaths, Stimulus, collate
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.models.scanpath.itti_koch import IttiKoch, gabors, normalise, read_picture, saliency

SMALL: dict[str, Any] = {"image_size": 768, "map_size": 32, "blurs": [0.0, 0.03]}


def bars(odd: tuple[int, int] | None, colour: bool = False) -> np.ndarray:
    """Return 6 x 8 vertical bars, 576 x 768; one may be horizontal, or red among green."""
    picture = np.full((192, 256, 3), 0.5, dtype=np.float32)
    for i in range(6):
        for j in range(8):
            y, x = 32 * i + 16, 32 * j + 16
            high, wide = (4, 10) if (i, j) == odd and not colour else (10, 4)
            ink = [0.1, 0.1, 0.1]
            if colour:
                ink = [0.7, 0.2, 0.2] if (i, j) == odd else [0.2, 0.7, 0.2]
            picture[y - high : y + high, x - wide : x + wide] = ink
    return np.kron(picture, np.ones((3, 3, 1), np.float32))


def patch(cell: tuple[int, int]) -> np.ndarray:
    """Return one red patch on grey, in a cell of 6 x 8."""
    picture = np.full((576, 768, 3), 0.5, dtype=np.float32)
    y, x = 96 * cell[0] + 48, 96 * cell[1] + 48
    picture[y - 30 : y + 30, x - 30 : x + 30] = [0.8, 0.2, 0.2]
    return picture


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("odd", [(2, 5), (3, 2)])
def test_the_odd_one_pops_out(odd: tuple[int, int], colour: bool) -> None:
    found = saliency(bars(odd, colour))
    rows, columns = found.shape
    row, column = divmod(int(found.argmax()), columns)
    assert abs((row + 0.5) / rows * 6 - (odd[0] + 0.5)) < 1
    assert abs((column + 0.5) / columns * 8 - (odd[1] + 0.5)) < 1
    assert float(found.max()) == pytest.approx(1)


def test_a_blank_picture_has_no_saliency() -> None:
    assert float(saliency(np.full((64, 64, 3), 0.3, np.float32)).abs().max()) == 0


def test_normalisation_by_hand() -> None:
    one = torch.zeros(7, 7)
    one[1, 1] = 4.0
    assert float(normalise(one)[1, 1]) == pytest.approx(1)  # alone: (1 - 0)^2
    two = one.clone()
    two[5, 5] = 2.0
    assert float(normalise(two)[1, 1]) == pytest.approx(0.25)  # the other is .5: (1 - .5)^2
    assert float(normalise(two)[5, 5]) == pytest.approx(0.125)
    equal = one.clone()
    equal[5, 5] = 4.0
    assert float(normalise(equal).max()) == 0  # two equal peaks: (1 - 1)^2
    low = one.clone()
    low[5, 5] = 0.2  # below .1 of the largest: no peak
    assert float(normalise(low)[1, 1]) == pytest.approx(1)
    assert float(normalise(torch.full((3, 3), 5.0)).max()) == 0


def test_filters_do_not_see_even_light() -> None:
    assert float(gabors().sum((2, 3)).abs().max()) < 1e-6


def test_any_kind_of_picture_is_read(tmp_path: Path) -> None:
    grey = np.arange(48, dtype=np.uint8).reshape(6, 8) * 5
    kinds = {
        "grey.png": Image.fromarray(grey),
        "palette.png": Image.fromarray(grey).convert("P"),
        "alpha.png": Image.fromarray(np.dstack([grey] * 3 + [np.zeros_like(grey)]), "RGBA"),
    }
    for name, image in kinds.items():
        image.save(tmp_path / name)
        found = read_picture((tmp_path / name).read_bytes(), 32)
        assert found.shape == (24, 32, 3)
        if name == "alpha.png":
            assert float(found.min()) == 1.0  # transparent: the page, not hidden ink


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Scanpaths:
    """Return scanpaths about the only patch on each of 6 pictures."""
    folder, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    stimuli, rows, what = {}, [], []
    for k, odd in enumerate([(1, 1), (2, 5), (3, 2), (4, 6), (2, 3), (1, 6)]):
        file = folder / f"{k}.png"
        Image.fromarray((patch(odd) * 255).astype(np.uint8)).save(file)
        stimuli[f"s{k}"] = Stimulus(f"s{k}", (256.0, 192.0), str(file))
        middle = np.array([odd[1], odd[0]]) * 32 + 16
        for _ in range(5):
            rows.append(np.clip(middle + 8 * rng.standard_normal((4, 2)), 0, 191))
            what.append(f"s{k}")
    x, y = np.concatenate(rows).T
    ids = np.array([str(i) for i in range(len(what))], dtype=object)
    starts = np.arange(0, 4 * len(what) + 1, 4)
    return Scanpaths(
        x, y, np.full(len(x), 200.0), starts, ids, ids, np.array(what, object), stimuli
    )


@pytest.mark.parametrize("center_bias", [True, False])
def test_it_predicts_fixations_on_patches(train: Scanpaths, center_bias: bool) -> None:
    model = IttiKoch(center_bias=center_bias, **SMALL)
    held = np.isin(train.stimulus, ["s4", "s5"])
    seen, new = train.take(~held), train.take(held)
    model.fit_statistics(seen)
    assert model.fitted["saliency"] > 0.5
    if not center_bias:
        assert model.fitted["centre"] == 0
    batch = collate(new)
    maps = model.log_density(batch, (12, 16))
    assert torch.allclose(maps.exp().sum((-2, -1)), torch.ones(batch.mask.shape), atol=1e-5)
    cell = (batch.xy[..., 1] * 12).long() * 16 + (batch.xy[..., 0] * 16).long()
    found = maps.flatten(2).gather(2, cell[..., None])
    assert float(found.mean()) + np.log(192) > 1.0  # nats above uniform
    best = maps[:, 0].flatten(1).argmax(1)  # patches (2, 3) and (1, 6) of 6 x 8
    assert set(best.tolist()) <= {
        r * 16 + c
        for y, x in ((2, 3), (1, 6))
        for r in (2 * y, 2 * y + 1)
        for c in (2 * x, 2 * x + 1)
    }
    alone = model.log_density(collate(new, [0]), (12, 16))
    assert torch.allclose(alone[0, 0], maps[0, 0], atol=1e-6)
    assert len(model._maps) == 6  # one per picture, whoever asks


def test_winners_follow_each_other_out_of_the_disc(train: Scanpaths) -> None:
    model = IttiKoch(radius=0.25, recovery=1.0, **SMALL)
    model.fit_statistics(train)
    stimulus = train.stimuli["s1"]
    density = model.map_of(stimulus)
    path = model.winners(density, stimulus, 5, 3, torch.Generator())
    assert path.shape == (3, 5, 2) and torch.equal(path[0], path[2])
    row, column = divmod(int(density.argmax()), density.shape[1])
    first = [(column + 0.5) / density.shape[1], (row + 0.5) / density.shape[0]]
    assert path[0, 0].tolist() == pytest.approx(first)
    pixels = path[0] * torch.tensor([256.0, 192.0]).double()
    away = torch.cdist(pixels, pixels) + 1e3 * torch.eye(5).double()
    assert float(away.min()) > 0.25 * 192  # recovery 1: an inhibited disc stays so


def test_inhibition_wears_off() -> None:
    stimulus = Stimulus("a", (100.0, 100.0))
    density = torch.full((4, 4), 0.01)
    density[0, 0] = 0.85
    found = IttiKoch(radius=0.1, recovery=0.5).winners(density, stimulus, 4, 1, torch.Generator())
    corner = [bool((p < 0.25).all()) for p in found[0]]
    assert corner == [True, False, True, False]


def test_noise_makes_samples_differ(train: Scanpaths) -> None:
    noisy = IttiKoch(noise=0.5, **SMALL)
    noisy.fit_statistics(train)
    stimulus = train.stimuli["s0"]
    paths = noisy.sample(stimulus, 6, torch.Generator().manual_seed(1))
    again = noisy.sample(stimulus, 6, torch.Generator().manual_seed(1))
    assert all(np.array_equal(a, b) for a, b in zip(paths, again, strict=True))
    assert not np.array_equal(paths[0], paths[1])
    for path in paths:
        assert path.shape == (4, 2) and (path >= 0).all() and (path < stimulus.size).all()


def test_without_a_picture(train: Scanpaths, tmp_path: Path) -> None:
    model = IttiKoch(**SMALL)
    model.fit_statistics(train)
    with pytest.raises(DataError, match="picture"):
        model.sample(Stimulus("none", (10.0, 10.0)), 1, torch.Generator())
    with pytest.raises(MissingAssetError):
        model.map_of(Stimulus("gone", (10.0, 10.0), str(tmp_path / "gone.png")))
    bad: list[dict[str, Any]] = [{"radius": 0.0}, {"recovery": 1.5}, {"blurs": []}, {"noise": -1.0}]
    for wrong in bad:
        with pytest.raises(DataError):
            IttiKoch(**wrong)
