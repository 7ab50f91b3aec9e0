"""Eccentricity-dependent pooling, search by likeness, and the index of search asymmetry."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gazeattn import registry
from gazeattn.datamodules import Stimulus
from gazeattn.errors import CapabilityError, DataError, MissingAssetError, UnknownNameError
from gazeattn.experiments import search_asymmetry as sa
from gazeattn.metrics.scanpath import target_fixation_probability
from gazeattn.models.layers._efficientnet import CHANNELS, TAPS, EfficientNetLite0
from gazeattn.models.layers._vgg import POOLS, VGG16
from gazeattn.models.layers.backbones import Backbone
from gazeattn.models.layers.eccentricity import (
    EccentricityPool,
    cells_per_degree,
    look_at,
    ring_windows,
    strided_layers,
    with_eccentricity,
)
from gazeattn.models.scanpath.ecc_net import (
    EccNet,
    Ivsn,
    blurred,
    correlation,
    gaussian,
    places_of,
    scaled,
    sharpened,
)
from gazeattn.results import unpack_rows
from gazeattn.stimuli.asymmetry import EXPERIMENTS, display, save

# -- a small network ------------------------------------------------------------------------------


class Small(nn.Module):
    """Five halvings: a convolution, then poolings and convolutions in turn."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        parts: list[nn.Module] = [nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU()]
        for k in range(4):
            parts += [nn.Conv2d(8, 8, 3, 1, 1), nn.ReLU()]
            parts.append(nn.MaxPool2d(2, 2) if k % 2 else nn.Conv2d(8, 8, 3, 2, 1))
        self.parts = nn.Sequential(*parts)

    def stages(self) -> list[tuple[str, nn.Module]]:
        return [(f"parts.{i}", p) for i, p in enumerate(self.parts)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts(x)


def small() -> Backbone:
    return Backbone("small", Small(), taps={32: "parts.13"}, channels={32: 8})


def model(kind: type[EccNet] = EccNet, **options) -> EccNet:
    made = kind(**options)
    made.use(small())
    return made


# -- windows and pooling --------------------------------------------------------------------------


def test_cells_per_degree_round_half_to_even():
    assert [cells_per_degree(30, k) for k in range(1, 6)] == [30, 15, 8, 4, 2]
    assert cells_per_degree(5, 2) == 2 and cells_per_degree(7, 2) == 4


def test_rings_by_hand():
    # 8 cells per degree at the input: a fovea of 16 output cells, rings of 4
    radii, windows = ring_windows(8, 0.07, reach=27)
    assert radii == [16, 20, 24, 28]
    # .07 * (2 * 20 - 32) = .56, .07 * 16 = 1.12, .07 * 24 = 1.68
    assert windows == [2, 3, 3, 4]
    # rings of round(7.5) = 8 cells; round(2.5) = 2
    assert ring_windows(15, 0.0, reach=40)[0] == [30, 38, 46]
    assert ring_windows(5, 0.0, reach=13)[0] == [10, 12, 14]
    # .5 * (2 * 5 - 8) = 1 and .25 * (2 * 5 - 8) = .5, which is rounded to 0
    assert ring_windows(2, 0.25, reach=5)[1] == [2, 2]
    # the fovea is wider than the field
    assert ring_windows(30, 0.3, reach=59) == ([60], [2])
    # in front of a convolution: cells of the input
    radii, windows = ring_windows(4, 0.16, stride=1, smallest=1, reach=26)
    assert radii == [16, 20, 24, 28] and windows == [1, 2, 2, 3]


def slow_pool(x, pool, fixation, reach):
    """Average every window cell by cell, from the equations."""
    height, width = x.shape[-2:]
    s, level = pool.stride, pool.level
    rows, columns = math.ceil(height / s), math.ceil(width / s)
    pixels = s * 2 ** (level - 1)
    cy, cx = fixation[1] // pixels, fixation[0] // pixels
    radii, sizes = ring_windows(pool.per_degree, pool.slope, stride=s, smallest=pool.smallest,
                                fovea=pool.fovea, ring=pool.ring, reach=reach / pixels)  # fmt: skip
    out = torch.zeros(*x.shape[:2], rows, columns)
    for i in range(rows):
        for j in range(columns):
            d = math.hypot(i - cy, j - cx)
            r = next((w for e, w in zip(radii, sizes, strict=True) if d < e), sizes[-1])
            top = i * s - max((rows - 1) * s + r - height, 0) // 2
            left = j * s - max((columns - 1) * s + r - width, 0) // 2
            ys = [y for y in range(top, top + r) if 0 <= y < height]
            xs = [v for v in range(left, left + r) if 0 <= v < width]
            total = sum(x[:, :, y, v] for y in ys for v in xs)
            out[:, :, i, j] = total / (len(ys) * len(xs) if pool.border == "valid" else r * r)
    return out


@pytest.mark.parametrize("border", ["valid", "zero"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("height", "width", "fixation"), [
    (24, 24, (96, 96)), (23, 30, (10, 170)), (17, 16, (127, 0)),
])  # fmt: skip
def test_pooling_equals_a_slow_reference(border, stride, height, width, fixation):
    pool = EccentricityPool(4, 0.4, pixels_per_degree=8, stride=stride, border=border, fovea=3)
    pool.fixation, pool.reach = fixation, 100.0
    assert pool.windows(height, width).max() >= 5
    x = torch.randn(2, 3, height, width)
    expected = slow_pool(x, pool, fixation, 100.0)
    assert torch.allclose(pool(x), expected, atol=1e-6)
    assert torch.allclose(
        pool(x.contiguous(memory_format=torch.channels_last)), expected, atol=1e-6
    )


def test_large_values_keep_their_digits():
    pool = EccentricityPool(5, 0.3, pixels_per_degree=16)
    x = torch.full((1, 1, 200, 200), 1e6)
    x[..., 150:, :] = 1e6 + 1
    out = pool(x)
    assert set(out[0, 0, :50, 50].tolist()) == {1e6} and out[0, 0, -1, 50] == 1e6 + 1


def test_a_flat_map_stays_flat_and_the_zero_rule_darkens_borders():
    x = torch.ones(1, 1, 40, 40)
    kept = EccentricityPool(5, 0.5, pixels_per_degree=16)(x)
    assert torch.equal(kept, torch.ones(1, 1, 20, 20))
    dark = EccentricityPool(5, 0.5, pixels_per_degree=16, border="zero")(x)
    assert dark[0, 0, 10, 10] == 1 and dark[0, 0, 0, 0] < 0.7


@pytest.mark.parametrize("size", [8, 9])
def test_without_a_slope_it_is_the_plain_average(size):
    x = torch.randn(1, 2, size, size)
    plain = F.avg_pool2d(x, 2, ceil_mode=True)
    assert torch.allclose(EccentricityPool(1, 0.0)(x), plain, atol=1e-6)
    assert torch.equal(EccentricityPool(1, 0.0, stride=1)(x), x)


def test_moving_picture_and_fixation_together_moves_the_result():
    pool = EccentricityPool(3, 0.3, pixels_per_degree=10)
    x = torch.randn(1, 2, 60, 60)
    pool.fixation, pool.reach = (80, 120), 300.0
    here = pool(x)
    pool.fixation = (80 + 32, 120 + 16)
    moved = pool(torch.roll(x, (4, 8), (2, 3)))
    assert torch.allclose(here[..., 8:18, 8:18], moved[..., 10:20, 12:22], atol=1e-6)


def test_wrong_pools_are_refused():
    for wrong in ({"border": "wrap"}, {"stride": 3}):
        with pytest.raises(DataError):
            EccentricityPool(1, 0.1, **wrong)
    with pytest.raises(DataError):
        EccentricityPool(0, 0.1)


# -- in networks ----------------------------------------------------------------------------------


def test_halvings_are_found_by_level_in_any_network():
    assert strided_layers(small()) == {
        1: ["parts.0"], 2: ["parts.4"], 3: ["parts.7"], 4: ["parts.10"], 5: ["parts.13"]
    }  # fmt: skip
    vgg = Backbone("vgg16", VGG16(), taps={32: POOLS[-1]}, channels={32: 512})
    assert strided_layers(vgg) == {k + 1: [n] for k, n in enumerate(POOLS)}
    lite = Backbone("lite", EfficientNetLite0(), taps=TAPS, channels=CHANNELS)
    assert strided_layers(lite) == {
        1: ["stem.conv"], 2: ["blocks.1.depthwise.conv"], 3: ["blocks.3.depthwise.conv"],
        4: ["blocks.5.depthwise.conv"], 5: ["blocks.11.depthwise.conv"],
    }  # fmt: skip
    flat = Backbone(
        "flat", nn.Sequential(nn.Conv2d(3, 4, 14, 14)), taps={14: "0"}, channels={14: 4}
    )
    with pytest.raises(CapabilityError):
        strided_layers(flat)


class Branches(nn.Module):
    """A block with a strided main branch and a strided shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.main, self.short = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(3, 4, 1, 2)
        self.pool = nn.AvgPool2d(2, 2)

    def forward(self, x):
        return self.pool(self.main(x) + self.short(x))


def test_all_branches_of_a_level_are_exchanged():
    plain = Backbone("two", Branches(), taps={4: "pool"}, channels={4: 4})
    new = with_eccentricity(plain, (0.2, 0.2))
    names = dict(new.network.named_modules())
    assert isinstance(names["main"], nn.Sequential) and isinstance(names["short"], nn.Sequential)
    assert isinstance(names["pool"], EccentricityPool) and names["pool"].smallest == 2
    assert new.fingerprint != plain.fingerprint
    assert new.fingerprint != with_eccentricity(plain, (0.2, 0.3)).fingerprint


def test_all_five_maximum_poolings_of_vgg_become_averages():
    vgg = Backbone("vgg16", VGG16(), taps={32: POOLS[-1]}, channels={32: 512})
    names = dict(with_eccentricity(vgg).network.named_modules())
    found = [(names[p].slope, names[p].per_degree, names[p].stride) for p in POOLS]
    assert found == [(0, 30, 2), (0, 15, 2), (0.07, 8, 2), (0.16, 4, 2), (0.32, 2, 2)]


def test_in_the_fovea_a_strided_network_is_the_one_that_was_trained():
    plain = small()
    convolutions = (0.3, 0.3, 0.3, 0.0, 0.0)
    x = torch.rand(1, 3, 160, 160)
    with torch.inference_mode():
        before = plain.activations(x, ["parts.6"])["parts.6"]
        new = with_eccentricity(plain, convolutions, pixels_per_degree=8, fovea=6)
        look_at(new.network, (80, 80))
        after = new.activations(x, ["parts.6"])["parts.6"]
    # stride 4; the fovea's radius is 48 pixels, less what the convolutions reach
    near = (before - after)[..., 18:22, 18:22].abs().max()
    assert near == 0 and (before - after)[..., 0, 0].abs().max() > 0


# -- attention ------------------------------------------------------------------------------------


def test_gaussians_by_hand_and_zero_sigma_is_binomial():
    assert gaussian(3, 1).tolist() == pytest.approx([0.274069, 0.451863, 0.274069], abs=1e-6)
    assert gaussian(3, 0).tolist() == [0.25, 0.5, 0.25]
    assert gaussian(5, 0).tolist() == [1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16]
    with pytest.raises(DataError):
        gaussian(4, 1)


def test_sharpening_by_hand():
    one = torch.zeros(5, 5)
    one[2, 2] = 1
    assert blurred(one, 3, 0)[1:4, 1:4].tolist() == [
        [1 / 16, 1 / 8, 1 / 16], [1 / 8, 1 / 4, 1 / 8], [1 / 16, 1 / 8, 1 / 16]
    ]  # fmt: skip
    # mirrored without the edge cell: 0 1 0 ... gives (1 + 0 + 1) / 4 at the edge
    row = torch.tensor([0.0, 1.0, 0.0]).expand(3, 3)
    assert blurred(row, 3, 0)[1].tolist() == [0.5, 0.5, 0.5]
    once = sharpened(one, (3, 0), (5, 0), 1)
    assert once[2, 2] == pytest.approx(1 + 1 / 4 - (6 / 16) ** 2)
    assert torch.allclose(sharpened(torch.full((7, 7), 3.0), (3, 1), (5, 3)), torch.tensor(3.0))
    with pytest.raises(DataError):
        blurred(torch.ones(2, 9), 5, 1)


def test_correlation_by_hand():
    scene = torch.tensor([[[1.0, 2.0, 3.0, 4.0]], [[0.0, 1.0, 0.0, 0.0]]])
    assert correlation(scene, torch.tensor([[[2.0]], [[5.0]]])).tolist() == [[2, 9, 6, 8]]
    # two cells: the first lies on the place; three: the middle
    assert correlation(scene[:1], torch.tensor([[[1.0, 10.0]]])).tolist() == [[21, 32, 43, 4]]
    assert correlation(scene[:1], torch.tensor([[[1.0, 0.0, 0.0]]])).tolist() == [[0, 1, 2, 3]]
    assert scaled(torch.tensor([2.0, 4.0, 3.0])).tolist() == [0, 1, 0.5]
    assert scaled(torch.ones(3)).tolist() == [0, 0, 0]


def rgb(grey):
    return np.repeat(grey[..., None].astype(np.float32) / 255, 3, 2)


def test_a_target_alone_is_found_at_once_and_painted_places_are_never_visited_again():
    d = display("orientation_same", "homo_t0", 1, 4)
    boxes, target = places_of(d.places)
    found = model().search(rgb(d.picture), rgb(d.target), boxes, target)
    assert found.found and found.saccades == 1
    assert found.path[0].tolist() == [169, 169], "search starts at the centre"
    x, y = found.path[-1]
    # within half of the square in which the target is recognised
    assert target[0] - 5 < x < target[2] + 5 and target[1] - 5 < y < target[3] + 5
    every = model(recognition="none").search(rgb(d.picture), rgb(d.target), boxes, target)
    at = [
        int(np.flatnonzero((boxes[:, 0] <= x) & (x < boxes[:, 2])
                           & (boxes[:, 1] <= y) & (y < boxes[:, 3]))[0])
        for x, y in every.path[1:]
    ]  # fmt: skip
    assert sorted(at) == list(range(16)) and every.found is None


def test_painting_changes_what_is_seen_later():
    d = display("orientation_mixed", "hetero_t20", 12, 0)
    boxes, target = places_of(d.places)
    shown, wanted = rgb(d.picture), rgb(d.target)
    paths = [
        model(paint=paint, recognition="none").search(shown, wanted, boxes, target).path
        for paint in (True, False)
    ]
    assert paths[0][:2].tolist() == paths[1][:2].tolist()
    assert paths[0].tolist() != paths[1].tolist()
    assert (shown == rgb(d.picture)).all(), "the picture that was handed in is not painted"


def test_the_square_at_a_fixation_recognises_by_overlap():
    m = model(inhibition=10)
    assert m._on((94, 50), (98, 40, 120, 60)) and not m._on((93, 50), (98, 40, 120, 60))
    assert m._on((124, 50), (98, 40, 120, 60)) and not m._on((125, 50), (98, 40, 120, 60))


def test_free_search_stays_on_the_picture_and_returns_nowhere():
    rng = np.random.default_rng(0)
    picture = rng.random((150, 220, 3)).astype(np.float32)
    m = model(inhibition=40, weighting="equal", max_fixations=12)
    trace = m.search(picture, picture[:48, :48])
    assert trace.found is None and len(trace.path) == 13
    assert (trace.path >= 0).all() and (trace.path < [220, 150]).all()
    gaps = np.abs(trace.path[:, None] - trace.path[None]).max(2)[np.triu_indices(13, 1)]
    assert gaps.min() >= 20
    start = m.search(picture, picture[:48, :48], None, (100, 60, 130, 90))
    assert start.found and start.saccades == 0, "a target under the start is found there"
    tiny = model(inhibition=400, max_fixations=12).search(picture, picture[:48, :48])
    assert len(tiny.path) == 1, "no place is left"


def test_equal_weights_and_largest_responses_differ_and_no_response_is_no_fault():
    d = display("curvature", "curve_in_lines", 16, 0)
    maps = []
    for weighting in ("response", "equal"):
        m = model(weighting=weighting, rounds=0)
        with torch.inference_mode():
            maps.append(m.attention(rgb(d.picture), m.kernels(rgb(d.target)), (169, 169)))
    assert not torch.allclose(*maps)
    assert maps[0].min() >= 0 and maps[0].max() <= 1 + 1e-6
    with torch.inference_mode():
        none = {k: torch.zeros_like(v) for k, v in m.kernels(rgb(d.target)).items()}
        assert (m.attention(rgb(d.picture), none, (0, 0)) == 0).all()


def test_the_target_is_seen_in_the_fovea_wherever_the_gaze_was():
    d = display("cross", "cross", 3)
    m = model()
    with torch.inference_mode():
        before = m.kernels(rgb(d.target))
        m.attention(rgb(d.picture), before, (600, 20), 700)
        after = m.kernels(rgb(d.target))
    # 177 pixels at 1/32, sizes rounded up
    assert [v.shape[-1] for v in before.values()] == [6, 6, 6]
    assert all(torch.equal(before[k], after[k]) for k in before)


def test_attention_depends_on_the_fixation_with_eccentricity_alone():
    d = display("letters", "Ts", 9)
    for kind, options, depends in (
        (EccNet, {}, True), (EccNet, {"eccentricity": False}, False), (Ivsn, {}, False),
    ):  # fmt: skip
        m = model(kind, **options)
        with torch.inference_mode():
            kernels = m.kernels(rgb(d.target))
            a, b = (m.attention(rgb(d.picture), kernels, f, 679) for f in ((40, 40), (500, 500)))
        assert torch.equal(a, b) != depends


def test_both_frames_agree_without_eccentricity_where_the_grid_agrees():
    rng = np.random.default_rng(1)
    picture = rng.random((128, 128, 3)).astype(np.float32)
    picture[0] = picture[-1] = picture[:, 0] = picture[:, -1] = 0.5
    places = np.array([[16 * i, 16 * j, 16 * i + 16, 16 * j + 16] for i in (1, 4) for j in (2, 6)])
    first = []
    for frame in ("display", "canvas"):
        m = model(frame=frame, eccentricity=False, recognition="none", max_fixations=1, rounds=1)
        first.append(m.search(picture, picture[32:80, 32:80], places).path.tolist())
    # the start (64, 64) is a multiple of 32, so that the cells of both frames coincide
    assert first[0] == first[1]


# -- as a scanpath model --------------------------------------------------------------------------


def stimulus(folder: Path) -> Stimulus:
    d = display("orientation_same", "homo_t20", 4, 0)
    picture, target = save(d, folder)
    return Stimulus("s", (339, 339), str(picture), str(target), d.places)


def test_samples_are_equal_and_take_nothing_from_the_generator(tmp_path):
    generator = torch.Generator().manual_seed(7)
    state = generator.get_state()
    m = model()
    paths = m.sample(stimulus(tmp_path), 3, generator)
    assert len(paths) == 3 and all((p == paths[0]).all() for p in paths)
    assert torch.equal(state, generator.get_state())
    assert paths[0].shape[1] == 2 and paths[0].dtype == np.float64
    paths[0][:] = -1
    assert (m.sample(stimulus(tmp_path), 1, generator)[0] >= 0).all()
    assert not m.density
    with pytest.raises(CapabilityError):
        m.log_density(None, (4, 4))


def test_a_stimulus_without_pictures_is_refused_by_name(tmp_path):
    s = stimulus(tmp_path)
    generator = torch.Generator()
    for wrong, error in (
        (Stimulus("s", s.size, None, s.target), DataError),
        (Stimulus("s", s.size, s.image, None), DataError),
        (Stimulus("s", s.size, s.image, "cup"), MissingAssetError),
        (Stimulus("s", (10, 10), s.image, s.target), DataError),
    ):
        with pytest.raises(error, match="s"):
            model().sample(wrong, 1, generator)


def test_wrong_options_are_refused():
    for wrong in (
        {"frame": "screen"}, {"weighting": "x"}, {"recognition": "x"}, {"levels": ()},
        {"levels": (6,)}, {"max_fixations": 0}, {"border": "x"},
    ):  # fmt: skip
        with pytest.raises(DataError):
            model(**wrong)


def test_both_are_registered_and_configured():
    for name in ("ecc_net", "ivsn"):
        assert registry.scanpath_models.get(name).obj in (EccNet, Ivsn)
        for size in ("tiny", "cpu", "full"):
            made = sa.searcher(name, size)
            assert made is not None and made.levels == ((5,) if name == "ivsn" else (3, 4, 5))
    assert sa.searcher("ecc_net_no_eccentricity", "cpu").eccentricity is False
    assert sa.searcher("chance", "cpu") is None
    with pytest.raises(UnknownNameError):
        sa.searcher("random", "cpu")


# -- reaction times and the index -----------------------------------------------------------------


def test_reaction_times_slopes_and_index_by_hand():
    assert sa.reaction_time([0, 2]).tolist() == pytest.approx([376.271, 880.989])
    assert sa.slope([3, 6, 9], [510 + 45 * n for n in (3, 6, 9)]) == pytest.approx(45)
    assert sa.slope([1, 4], [[5, 11], [0, -3]]).tolist() == pytest.approx([2, -1])
    assert sa.asymmetry_index(96, 45) == pytest.approx(51 / 141)
    assert sa.asymmetry_index([5, -5, -3, 0], [-1e-9, 1, -2, 0]).tolist() == [1, -1, 0, 0]
    kept = sa.asymmetry_index([5, -5, -3, 0], [-1, 1, -2, 0], clipped=False)
    assert kept.tolist() == pytest.approx([1, -1, -0.2, 0])
    assert sa.counted([1, -1, 0], 12).tolist() == [1, 12, 0]
    with pytest.raises(DataError):
        sa.slope([3, 3], [1, 2])


PAIRS = {
    "curvature": "line_in_curves vs curve_in_lines",
    "lighting": "left_right vs top_down",
    "cross": "cross vs non_cross",
    "letters": "Ls vs Ts",
    "orientation_same": "homo_t0 vs homo_t20",
    "orientation_mixed": "hetero_t20 vs hetero_t0",
}


@pytest.fixture(scope="module")
def published(shared_data):
    folder = shared_data / "visual_search_asymmetry"
    if not folder.is_dir():
        pytest.skip("the published predictions are not here")
    reference = json.loads((folder / "asymmetry_index_reference.json").read_text())
    return folder, reference


def test_published_indices_of_people_and_twelve_models_are_met_to_the_last_digits(published):
    folder, reference = published
    times = pd.read_csv(folder / "human_reaction_times.csv")
    trials = pd.read_parquet(folder / "asymmetry_trials.parquet")
    trials = trials.rename(columns={"set_size": "true_size", "set_size_by_row": "set_size",
                                    "found_after_saccades": "saccades"})  # fmt: skip
    assert set(reference["models"]) == set(trials["model"]) and len(reference["models"]) == 12
    for name, expected in {"human": reference["human"], **reference["models"]}.items():
        # people's times are written with four decimals
        every, near = [], 1e-6 if name == "human" else 1e-11
        for e in EXPERIMENTS.values():
            slopes = []
            for condition in (e.harder, e.easier):
                if name == "human":
                    rows = times[times["condition"] == condition]
                    slopes.append(sa.slope(rows["set_size"], rows["rt_ms"]))
                else:
                    rows = trials[(trials["model"] == name) & (trials["condition"] == condition)]
                    slopes.append(sa.slopes_of(rows, max(e.set_sizes))[0])
            every.append(float(sa.asymmetry_index(*slopes)))
            assert every[-1] == pytest.approx(expected[PAIRS[e.name]], abs=near), (name, e.name)
            if name == "human":
                assert slopes[::-1] == pytest.approx(e.human, abs=1e-5)
        assert np.mean(every) == pytest.approx(expected["mean"], abs=near)


def test_the_polarity_of_the_fifth_experiment_is_reversed_in_the_published_predictions(published):
    _, reference = published
    assert reference["models"]["eccNET"][PAIRS["orientation_same"]] < -0.99
    assert reference["human"][PAIRS["orientation_same"]] > 0.6


def test_published_cumulative_performance_is_met(published):
    folder, _ = published
    rows = pd.read_parquet(folder / "cumulative_performance_rows.parquet")
    curves = pd.read_csv(folder / "cumulative_performance.csv")
    for (dataset, source), expected in curves.groupby(["dataset", "source"]):
        mine = rows[(rows["dataset"] == dataset) & (rows["source"] == source)]
        index = mine["found_index"].to_numpy(dtype=float)
        steps = np.where(index < 0, np.inf, index + 1)
        last = int(expected["fixation_index"].max())
        found = target_fixation_probability(steps, max_step=last)
        assert found.curve == pytest.approx(expected["proportion_found"].to_numpy(), abs=1e-12)
        assert found.trials == expected["n_trials"].iloc[0]


def trials_of(values: dict[int, list[int]]) -> pd.DataFrame:
    rows = [(n, s) for n, saccades in values.items() for s in saccades]
    return pd.DataFrame(rows, columns=["set_size", "saccades"])


def test_bootstrap_draws_trials_within_set_sizes():
    fixed = sa.slopes_of(trials_of({1: [1] * 5, 4: [2] * 5}), 4, draws=50)
    assert fixed == pytest.approx([252.359 / 3] * 51)
    spread = sa.slopes_of(trials_of({1: [1] * 20, 4: [1, 3] * 10}), 4, draws=4000)
    # the mean of 20 draws of 1 or 3 has a standard deviation of 1 / sqrt 20
    assert spread[1:].std() == pytest.approx(252.359 / 3 / np.sqrt(20), rel=0.06)
    assert spread[1:].mean() == pytest.approx(spread[0], rel=0.03)
    lost = sa.slopes_of(trials_of({1: [1], 4: [-1]}), 4)
    assert lost[0] == pytest.approx(252.359 * (4 - 1) / 3)


def test_chance_needs_half_of_the_places_whatever_the_set_size():
    means = {}
    for n in (8, 32):
        shown = [display("curvature", "line_in_curves", n, k) for k in range(60)]
        means[n] = np.mean([sa.saccades_of(None, d, seed=s) for d in shown for s in range(20)])
        assert means[n] == pytest.approx(18.5, abs=1.0)
    pair = [
        [sa.saccades_of(None, display("curvature", c, 8, k)) for k in range(20)]
        for c in EXPERIMENTS["curvature"].conditions
    ]
    assert pair[0] != pair[1], "conditions have draws of their own"


def test_a_run_goes_on_where_it_stopped_and_refuses_other_settings(tmp_path, monkeypatch):
    made = []

    def fast(name, size, changes=None):
        made.append(name)
        return None if name == "chance" else model(levels=(5,), rounds=0)

    monkeypatch.setattr(sa, "searcher", fast)
    monkeypatch.setitem(
        sa.__dict__, "asymmetry_settings",
        lambda size: {
            "experiments": ["lighting", "orientation_same"], "trials": 2, "bootstrap": 30,
        },
    )  # fmt: skip
    path = tmp_path / "out.json"
    table = sa.run_search_asymmetry("tiny", ("chance", "ecc_net"), work=tmp_path, path=path)
    rows = unpack_rows(json.loads(path.read_text()))
    assert len(rows) == len(table)
    names = {(r["model"], r["metric"]) for r in rows}
    for who in ("human", "chance", "ecc_net"):
        for what in ("lighting", "orientation_same", "mean"):
            assert (who, f"asymmetry_index_{what}") in names
    assert ("chance", "asymmetry_index_unclipped_mean") in names
    mean = table[(table["model"] == "ecc_net") & table["metric"].str.startswith("asymmetry_index_")]
    single = mean[~mean["metric"].str.contains("unclipped|mean")]["value"].mean()
    assert mean.loc[mean["metric"] == "asymmetry_index_mean", "value"].item() == pytest.approx(
        single
    )
    first, files = list(made), sorted((tmp_path / "tiny_0").glob("*.parquet"))
    assert len(files) == 8
    files[-1].unlink()
    again = sa.run_search_asymmetry("tiny", ("chance", "ecc_net"), work=tmp_path)
    assert made[len(first) :] == ["ecc_net"], "only what was missing is done"
    # the page shows a search of each condition, which is kept for the next time
    monkeypatch.setattr(sa, "published_rows", lambda *_: None)
    for _ in range(2):
        page = tmp_path / "report.html"
        sa.run_search_asymmetry("tiny", ("chance", "ecc_net"), work=tmp_path, report=tmp_path)
        assert page.is_file() and (tmp_path / "figures" / "search_ecc_net.png").is_file()
        assert made[len(first) :] == ["ecc_net", "ecc_net"]
        page.unlink()
    held = json.loads((tmp_path / "tiny_0" / "examples_ecc_net.json").read_text())
    assert set(held) == {"top_down", "left_right", "homo_t20", "homo_t0"}
    assert all(s["path"][0] == [99, 99] for c, s in held.items() if c in ("top_down", "left_right"))
    assert again.drop(columns="commit").equals(table.drop(columns="commit"))
    with pytest.raises(DataError, match="other settings"):
        sa.run_search_asymmetry("tiny", ("chance",), work=tmp_path, changes={"rounds": 1})
    with pytest.raises(UnknownNameError):
        sa.run_search_asymmetry("tiny", ("nobody",), work=tmp_path)


def test_settings_of_sizes_are_the_published_ones_or_fewer():
    assert sa.asymmetry_settings("cpu")["trials"] < 30
    assert sa.asymmetry_settings("full")["trials"] == 36
    assert sa.asymmetry_settings("full")["experiments"] == list(EXPERIMENTS)
    with pytest.raises(UnknownNameError):
        sa.asymmetry_settings("huge")
