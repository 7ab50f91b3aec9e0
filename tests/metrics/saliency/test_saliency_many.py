"""Many images at once equal one by one; counting below and level; what the registry says."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics import saliency
from gazeattn.metrics.saliency._ranks import below_and_level, histogram
from gazeattn.registry import metrics

SHAPE = (60, 80)


def images(n: int, dtype: Any = np.float64, seed: int = 0) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    maps = [(rng.random(SHAPE) ** 3 * 255).astype(dtype) for _ in range(n)]
    xy = [rng.random((int(rng.integers(1, 20)), 2)) * [80, 60] for _ in range(n)]
    return maps, xy


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_many_equal_one_by_one(dtype: Any) -> None:
    maps, xy = images(6, dtype)
    for metric in ("nss", "auc", "auc_judd"):
        scores = saliency.score_many(metric, maps, xy)
        single = [getattr(saliency, metric)(m, f) for m, f in zip(maps, xy, strict=True)]
        np.testing.assert_allclose(scores.values, single, rtol=0, atol=1e-12)
        assert scores.n_scored == 6 and scores.n_left_out == 0
        assert scores.mean == pytest.approx(np.mean(single))
        assert scores.n_fixations.tolist() == [len(f) for f in xy]
        weighted = np.average(single, weights=scores.n_fixations)
        assert scores.mean_per_fixation == pytest.approx(weighted)
    scores = saliency.score_many("shuffled_auc", maps, xy)
    single = [
        saliency.shuffled_auc(maps[i], xy[i], [f for k, f in enumerate(xy) if k != i])
        for i in range(6)
    ]
    np.testing.assert_allclose(scores.values, single, rtol=0, atol=1e-12)
    for metric in ("cc", "sim", "kl_div"):
        scores = saliency.score_many(metric, maps, maps[::-1])
        single = [getattr(saliency, metric)(a, b) for a, b in zip(maps, maps[::-1], strict=True)]
        np.testing.assert_allclose(scores.values, single, rtol=0, atol=1e-12)


def test_order_of_images_does_not_matter() -> None:
    maps, xy = images(5)
    for metric in ("nss", "auc", "shuffled_auc"):
        forth = saliency.score_many(metric, maps, xy).values
        back = saliency.score_many(metric, maps[::-1], xy[::-1]).values
        np.testing.assert_allclose(forth, back[::-1], rtol=0, atol=1e-15)


def test_shuffled_with_pictures_of_different_sizes() -> None:
    rng = np.random.default_rng(1)
    shapes = [(60, 80), (30, 40), (60, 80)]
    maps = [rng.random(s) for s in shapes]
    xy = [rng.random((9, 2)) * s[::-1] for s in shapes]
    scores = saliency.score_many("shuffled_auc", maps, xy)
    for i in range(3):
        rest = [k for k in range(3) if k != i]
        expected = saliency.shuffled_auc(
            maps[i],
            xy[i],
            [xy[k] for k in rest],
            other_sizes=[shapes[k][::-1] for k in rest],
        )
        assert scores.values[i] == pytest.approx(expected, abs=1e-12)
    # the same with fixations on pictures of which the maps are smaller copies
    large = [f * 10 for f in xy]
    sizes = [(s[1] * 10, s[0] * 10) for s in shapes]
    again = saliency.score_many("shuffled_auc", maps, large, sizes=sizes)
    np.testing.assert_allclose(again.values, scores.values, atol=1e-12)


def test_information_gain_and_conditional_metrics_over_images() -> None:
    maps, xy = images(4)
    maps = [saliency.to_density(m) for m in maps]
    prior = saliency.gaussian_centre((80, 60))
    for baseline in (None, prior, [prior] * 4, np.stack([prior] * 4)):
        scores = saliency.score_many("information_gain", maps, xy, baseline=baseline)
        used = None if baseline is None else prior
        single = [saliency.information_gain(m, f, used) for m, f in zip(maps, xy, strict=True)]
        np.testing.assert_allclose(scores.values, single, atol=1e-12)
    with pytest.raises(DataError, match="baseline"):
        saliency.score_many("information_gain", maps, xy, baseline=[prior])
    steps = [np.stack(maps[:2]), np.stack(maps[2:])]
    points = [xy[0][:1].repeat(2, axis=0), xy[1][:1].repeat(2, axis=0)]
    scores = saliency.score_many("cauc_hat", steps, points)
    assert scores.values[1] == saliency.cauc_hat(steps[1], points[1])


@pytest.mark.parametrize("metric", ["nss", "auc", "auc_judd", "shuffled_auc"])
def test_images_without_fixations_do_not_enter_the_mean(metric: str) -> None:
    maps, xy = images(5)
    full = saliency.score_many(metric, maps[:4], xy[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = saliency.score_many(metric, maps, [*xy[:4], np.zeros((0, 2))])
    assert math.isnan(scores.values[4]) and scores.n_left_out == 1 and scores.n_scored == 4
    assert scores.mean == pytest.approx(full.mean, abs=1e-12)
    assert scores.losses.count(kind="undefined") == 1
    (loss,) = scores.losses
    assert loss.reason == "no fixations" and loss.unit == "images"
    assert "1 left out" in str(scores)
    nobody = saliency.score_many(metric, maps[:2], [[], []])
    assert math.isnan(nobody.mean) and math.isnan(nobody.mean_per_fixation)
    assert nobody.n_left_out == 2
    assert math.isnan(saliency.score_many(metric, [], []).mean)


def test_losses_of_fixations_and_constant_maps_are_counted() -> None:
    maps, xy = images(3)
    xy[1] = np.vstack([xy[1], (-1, 5), (80.0, 5)])
    xy[2] = np.array([(-5.0, 2.0)])
    with pytest.raises(DataError, match="fixations of image 1"):
        saliency.score_many("nss", maps, xy)
    for metric in ("nss", "auc", "auc_judd", "shuffled_auc"):
        scores = saliency.score_many(metric, maps, xy, outside="drop")
        assert scores.losses.count(kind="dropped") == 3
        assert scores.n_fixations.tolist() == [len(xy[0]), len(xy[1]) - 2, 0]
        assert scores.n_left_out == 1
        assert "no fixation on the picture" in str(scores.losses)
    flat, seen = [maps[0], np.ones(SHAPE), np.zeros(SHAPE)], [xy[0]] * 3
    for metric in ("nss", "auc", "auc_judd", "shuffled_auc"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scores = saliency.score_many(metric, flat, seen)
        assert len(caught) == 1 and "2 of 3 images" in str(caught[0].message)
        assert scores.values[1] == (0 if metric == "nss" else 0.5)
    scores = saliency.score_many("cc", flat, maps)
    assert scores.n_left_out == 2 and "constant" in str(scores.losses)


def test_wrong_use_of_many() -> None:
    maps, xy = images(2)
    with pytest.raises(UnknownNameError, match="nss"):
        saliency.score_many("nsss", maps, xy)
    with pytest.raises(DataError, match="one item per map"):
        saliency.score_many("nss", maps, xy[:1])
    with pytest.raises(DataError, match="one size per image"):
        saliency.score_many("nss", maps, xy, sizes=[(80, 60)])
    with pytest.raises(UnknownNameError):
        saliency.score_many("nss", maps, xy, convention="octave")
    with pytest.raises(UnknownNameError, match="parameter of nss 'negatives'"):
        saliency.score_many("nss", maps, xy, negatives="all")


# -- counting ---------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 30000),
    st.integers(1, 60),
    st.sampled_from([np.uint8, np.float32, np.float64, np.int32]),
    st.sampled_from(["plain", "ties", "tail", "signed", "zeros", "infinite", "narrow", "huge"]),
    st.integers(0, 10**6),
)
def test_counts_are_those_of_sorting(n: int, k: int, dtype: Any, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    if kind == "ties":
        x = np.round(x * 7)
    elif kind == "tail":
        x = np.exp(x * 60 - 50)
    elif kind == "signed":
        x = x - 0.5
    elif kind == "zeros":
        x = np.maximum(x - 0.5, -0.0) * np.where(rng.random(n) < 0.5, 1, -1 if seed % 2 else 1)
    elif kind == "narrow":
        x = 1 + x * 1e-6
    elif kind == "huge":
        x = (x - 0.5) * 6e38 if dtype == np.float32 else (x - 0.5) * 3e308
    if dtype in (np.uint8, np.int32):
        x = np.clip(x * 200, 0, 255)
    elif kind == "infinite":
        x[rng.random(n) < 0.2] = -np.inf
        x[rng.random(n) < 0.2] = np.inf
    x = x.astype(dtype)
    queries = np.concatenate([x[rng.integers(0, n, k)], np.array([0, 3, 255], dtype)])
    ordered = np.sort(x)
    below, level = below_and_level(x, queries)
    np.testing.assert_array_equal(below, np.searchsorted(ordered, queries, side="left"))
    np.testing.assert_array_equal(below + level, np.searchsorted(ordered, queries, side="right"))


@pytest.mark.parametrize("n", [0, 1, 2, 255, 131071, 131072, 131073, 200001])
def test_histogram_of_bytes(n: int) -> None:
    x = np.random.default_rng(n).integers(0, 256, n).astype(np.uint8)
    np.testing.assert_array_equal(histogram(x), np.bincount(x, minlength=256))


def test_missing_values_are_refused_wherever_they_are_counted() -> None:
    for n in (10, 50000):
        x = np.random.default_rng(0).random(n)
        for queries in (x[:1].copy(), x[:5].copy(), x[:5] - 0.5):
            holed = x.copy()
            holed[-1] = np.nan
            with pytest.raises(DataError):
                below_and_level(holed, queries)
            with pytest.raises(DataError):
                below_and_level(x, np.append(queries, np.nan))


# -- the registry -------------------------------------------------------------------------------


def test_registered_metrics_say_what_they_are() -> None:
    names = saliency.metric_names()
    assert names == sorted(
        "auc auc_judd cauc cauc_hat cc cig cnss emd information_gain kl_div log_likelihood nss "
        "shuffled_auc sim".split()
    )
    for name in names:
        info = metrics.get(name).info
        assert info["task"] == "saliency" and info["inputs"] in ("fixations", "map", "steps")
        assert info["description"] and info["citation"] and info["formula"]
        low, high = info["bounds"]
        assert low < high and isinstance(info["higher_is_better"], bool)
        line = saliency.convention(name)
        assert line and "\n" not in line
    lines = {saliency.convention("nss", convention=c) for c in ("pysaliency", "hat", "mit")}
    assert len(lines) == 3
    assert "seed 3" in saliency.convention("auc_judd", jitter=1e-7, seed=3)
    with pytest.raises(UnknownNameError, match="did you mean 'convention'"):
        saliency.convention("nss", convent="hat")
    with pytest.raises(UnknownNameError, match="kld_mit"):
        saliency.convention("kl_div", convention="kld_mitt")
    with pytest.raises(UnknownNameError):
        saliency.convention("spearman")
