"""Maps of fixations, centre bias and the gold standard."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.metrics import saliency

SIZE = (60, 40)


def some(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, 2)) * SIZE


def test_counts() -> None:
    counts = saliency.count_map([(0.0, 0.9), (3, 2.99), (3.5, 2.0)], (4, 3))
    expected = np.zeros((3, 4))
    expected[0, 0], expected[2, 3] = 1, 2
    np.testing.assert_array_equal(counts, expected)
    np.testing.assert_array_equal(saliency.count_map([], (4, 3)), np.zeros((3, 4)))
    weighted = saliency.count_map([(0, 0), (0, 0)], (4, 3), weights=[200, 50.5])
    assert weighted[0, 0] == 250.5
    half = saliency.count_map([(799, 599)], (800, 600), map_size=(400, 300))
    assert half.shape == (300, 400) and half[299, 399] == 1


@pytest.mark.parametrize("n", [0, 1, 7, 19, 21, 300])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.7, 30.0])
def test_blurred_maps_are_those_of_scipy(n: int, sigma: float) -> None:
    xy = some(n)
    expected = gaussian_filter(saliency.count_map(xy, SIZE), sigma, mode="constant")
    np.testing.assert_allclose(saliency.fixation_map(xy, SIZE, sigma=sigma), expected, atol=1e-14)


def test_sigma_in_degrees() -> None:
    # 2 x 57 cm x tan(0.5 degrees) is 0.995 cm; 1024 pixels on 30 cm
    per_degree = saliency.pixels_per_degree(1024, 30, 57)
    assert per_degree == pytest.approx(33.958, abs=1e-3)
    a = saliency.fixation_map(some(5), SIZE, sigma_degrees=0.1, pixels_per_degree=per_degree)
    b = saliency.fixation_map(some(5), SIZE, sigma=0.1 * per_degree)
    np.testing.assert_array_equal(a, b)
    how: Any
    for how in (
        {},
        {"sigma": 2.0, "sigma_degrees": 1.0},
        {"sigma_degrees": 1.0},
        {"sigma": 2.0, "pixels_per_degree": 30.0},
        {"sigma": 0.0},
        {"sigma": -1.0},
        {"sigma": math.nan},
    ):
        with pytest.raises(DataError):
            saliency.fixation_map(some(5), SIZE, **how)
    for wrong in ((0, 30, 57), (1024, -30, 57), (1024, 30, math.nan)):
        with pytest.raises(DataError):
            saliency.pixels_per_degree(*wrong)


def test_normalisation() -> None:
    assert saliency.fixation_map(some(9), SIZE, sigma=3, normalise="sum").sum() == pytest.approx(1)
    assert saliency.fixation_map(some(9), SIZE, sigma=3, normalise="max").max() == 1
    inner = saliency.fixation_map([(30, 20)], SIZE, sigma=2)
    assert inner.sum() == pytest.approx(1, abs=1e-12)
    for how in ("sum", "max"):
        with pytest.raises(DataError, match="without fixations"):
            saliency.fixation_map([], SIZE, sigma=3, normalise=how)


@pytest.mark.parametrize("xy", [[(-1, 5)], [(60, 5)], [(5, 40.0)], [(5, -0.1)]])
def test_fixations_off_the_picture_do_not_wrap_or_vanish(xy: list[tuple[float, float]]) -> None:
    for call in (
        lambda **k: saliency.count_map(xy, SIZE, **k),
        lambda **k: saliency.fixation_map(xy, SIZE, sigma=2, **k),
    ):
        with pytest.raises(DataError, match="not on the picture"):
            call()
        log = LossLog()
        assert call(outside="drop", losses=log).sum() == 0
        assert log.count(kind="dropped") == 1
        assert call(outside="clip", losses=log).sum() > 0
    for weights in ([1, 2], [-1], [math.nan]):
        with pytest.raises(DataError):
            saliency.count_map([(5, 5)], SIZE, weights=weights)
    with pytest.raises(DataError, match="whole number"):
        saliency.count_map([(5, 5)], (60.5, 40))


def test_only_whole_counts_become_fixations() -> None:
    counts = np.array([[0, 2], [1, 0]])
    xy = saliency.fixations_from_map(counts)
    np.testing.assert_array_equal(xy, [(1.5, 0.5), (1.5, 0.5), (0.5, 1.5)])
    np.testing.assert_array_equal(saliency.count_map(xy, (2, 2)), counts)
    assert saliency.fixations_from_map(np.zeros((3, 3), bool)).shape == (0, 2)
    for wrong in (
        counts / 2,
        -counts,
        counts * np.nan,
        counts * 5000,
        saliency.fixation_map(some(4), SIZE, sigma=2),
    ):
        with pytest.raises(DataError):
            saliency.fixations_from_map(wrong)


def test_centre_bias() -> None:
    centre = saliency.gaussian_centre((80, 60))
    assert centre.shape == (60, 80) and centre.sum() == pytest.approx(1)
    np.testing.assert_allclose(centre, centre[::-1, ::-1], atol=1e-18)
    assert centre.max() == centre[29, 39]
    images, sizes = [some(30, 1), some(20, 2) * 2, np.zeros((0, 2))], [SIZE, (120, 80), SIZE]
    bias = saliency.centre_bias(images, sizes, SIZE, sigma=5)
    assert bias.sum() == pytest.approx(1) and bias.min() > 0
    together = np.concatenate([images[0], images[1] / 2])
    blurred = saliency.fixation_map(together, SIZE, sigma=5)
    np.testing.assert_allclose(bias, saliency.to_density(blurred / 50, floor=1e-12), atol=1e-15)
    without = saliency.centre_bias(images, sizes, SIZE, sigma=5, leave_out=1)
    alone = saliency.centre_bias(images[:1], SIZE, SIZE, sigma=5)
    np.testing.assert_allclose(without, alone, atol=1e-15)
    with pytest.raises(DataError, match="needs fixations"):
        saliency.centre_bias([images[2]], SIZE, SIZE, sigma=5)
    with pytest.raises(DataError, match="one size per image"):
        saliency.centre_bias(images, sizes[:2], SIZE, sigma=5)
    with pytest.raises(DataError, match="leave out"):
        saliency.centre_bias(images, sizes, SIZE, sigma=5, leave_out=3)


def test_gold_standard_finds_the_spread_of_a_cluster() -> None:
    rng = np.random.default_rng(5)
    xy = rng.normal((100, 75), 6, (200, 2))
    subjects = np.repeat([f"P{i:02d}" for i in range(10)], 20)
    widths = [0.5, 1, 2, 4, 8, 16, 32, 64]
    gold = saliency.gold_standard(xy, subjects, (200, 150), bandwidths=widths)
    assert gold.bandwidth in (2, 4) and not gold.at_edge
    assert gold.density.shape == (150, 200)
    assert gold.density.sum() == pytest.approx(1, abs=1e-12) and gold.density.min() > 0
    # the entropy of the cluster bounds what can be reached: log2(area / (2 pi e sigma^2))
    limit = math.log2(200 * 150 / (2 * math.pi * math.e * 36))
    assert limit - 0.35 < gold.information_gain < limit + 0.15
    assert set(gold.per_subject) == set(subjects)
    assert np.mean(list(gold.per_subject.values())) == pytest.approx(gold.log_likelihood)
    # on its own fixations the density does better than on left-out ones
    assert saliency.log_likelihood(gold.density, xy) > gold.log_likelihood


def test_gold_standard_by_the_long_way_round() -> None:
    xy = some(12, 3)
    subjects = [i % 3 for i in range(12)]
    gold = saliency.gold_standard(xy, subjects, SIZE, bandwidths=[5.0], uniform=0.1)
    logs = []
    for s in range(3):
        others = xy[[i for i in range(12) if i % 3 != s]]
        density = np.zeros(SIZE[::-1])
        for x, y in np.floor(others):
            down = np.exp(-0.5 * ((np.arange(40) - y) / 5) ** 2)[:, None]
            one = down * np.exp(-0.5 * ((np.arange(60) - x) / 5) ** 2)
            density += one / one.sum() / len(others)
        density = 0.9 * density + 0.1 / 2400
        own = xy[[i for i in range(12) if i % 3 == s]]
        logs += np.log([density[int(y), int(x)] for x, y in own]).tolist()
    assert gold.log_likelihood == pytest.approx(np.mean(logs), abs=1e-12)
    assert gold.information_gain == pytest.approx((np.mean(logs) + math.log(2400)) / math.log(2))


def test_a_subject_never_predicts_itself() -> None:
    # each looks again and again at a place of its own: copies of itself must not help
    xy = np.repeat([(10, 10), (50, 10), (10, 30), (50, 30)], 6, axis=0)
    subjects = np.repeat(["a", "b", "c", "d"], 6)
    gold = saliency.gold_standard(xy, subjects, SIZE)
    assert gold.information_gain < 0.05
    mixed = saliency.gold_standard(xy, np.tile(["a", "b"], 12), SIZE)
    assert mixed.information_gain > 3
    for who in (["a"] * 24, subjects[:5]):
        with pytest.raises(DataError):
            saliency.gold_standard(xy, who, SIZE)
    how: Any
    for how in ({"uniform": 1.0}, {"uniform": -0.1}, {"bandwidths": [0]}, {"bandwidths": []}):
        with pytest.raises(DataError):
            saliency.gold_standard(xy, subjects, SIZE, **how)


def test_one_bandwidth_for_many_images() -> None:
    images = [some(30, i) for i in range(3)]
    subjects = [np.arange(30) % 5] * 3
    widths = [2.0, 8.0, 32.0]
    best, scores = saliency.cross_validated_bandwidth(images, subjects, SIZE, bandwidths=widths)
    single = [
        [
            saliency.gold_standard(f, s, SIZE, bandwidths=[w]).log_likelihood
            for f, s in zip(images, subjects, strict=True)
        ]
        for w in widths
    ]
    np.testing.assert_allclose(scores, np.mean(single, axis=1), atol=1e-12)
    assert best == widths[int(np.argmax(scores))]
    with pytest.raises(DataError):
        saliency.cross_validated_bandwidth(images, subjects[:2], SIZE)
    with pytest.raises(DataError):
        saliency.cross_validated_bandwidth([], [], SIZE)
