"""Maps against fixations: by hand, damaged input, and what is off the picture."""

from __future__ import annotations

import math
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.metrics import saliency
from gazeattn.metrics.saliency._passes import moments

RAMP = np.arange(12.0).reshape(3, 4)
AT_FIXATIONS: list[Any] = [
    saliency.nss,
    saliency.auc,
    saliency.auc_judd,
    lambda m, f, **k: saliency.shuffled_auc(m, f, [(0.0, 0.0)], **k),
    lambda m, f, **k: saliency.information_gain(saliency.to_density(m), f, **k),
]


def test_nss_by_hand_and_its_divisors() -> None:
    # mean 5.5; squares sum to 143: population 143 / 12, sample 143 / 11
    last = [(3, 2)]
    assert saliency.nss(RAMP, last) == pytest.approx(5.5 / math.sqrt(143 / 12), abs=1e-12)
    assert saliency.nss(RAMP, last) == pytest.approx(1.5933, abs=5e-5)
    assert saliency.nss(RAMP, last, convention="hat") == pytest.approx(1.5254, abs=5e-5)
    # the fixation on pixel 0 twice: every one counts, or once each
    twice = [(3, 2), (0, 0), (0.5, 0.5)]
    assert saliency.nss(RAMP, twice) == pytest.approx(-5.5 / 3 / math.sqrt(143 / 12), abs=1e-12)
    assert saliency.nss(RAMP, twice, convention="mit") == pytest.approx(0, abs=1e-12)


def test_auc_by_hand() -> None:
    # 10 of 12 pixels are lower than 10, and the pixel itself is level
    assert saliency.auc(RAMP, [(2, 2)]) == pytest.approx(10.5 / 12, abs=1e-15)
    assert saliency.auc(RAMP, [(2, 2)], negatives="unfixated") == pytest.approx(10 / 11, abs=1e-15)
    # values 0 and 11: (0.5 + 11.5) / 12 / 2
    assert saliency.auc(RAMP, [(0, 0), (3, 2)]) == pytest.approx(0.5, abs=1e-15)
    levels = np.array([[0, 0, 1, 1]])
    assert saliency.auc(levels, [(3, 0)]) == pytest.approx(0.75, abs=1e-15)


def test_auc_judd_by_hand() -> None:
    # thresholds 11 and 5: (false alarms, hits) = (0, 1/2), (5/10, 1), (1, 1)
    value = saliency.auc_judd(RAMP, [(3, 2), (1, 1)])
    assert value == pytest.approx(0.5 * (0.5 + 1) / 2 + 0.5, abs=1e-15)
    # all zero but one unfixated pixel: both fixations enter together with everything else
    counts = np.zeros((10, 10))
    counts[5, 5] = 1
    xy = [(1, 1), (2, 2)]
    assert saliency.auc_judd(counts, xy) == pytest.approx(0.5, abs=1e-15)
    # one by one: (fa, hit) = (99/98, 1/2), (98/98, 1)
    by_hand = 99 / 98 * 0.5 / 2 - 1 / 98 * 0.75
    assert saliency.auc_judd(counts, xy, convention="mit") == pytest.approx(by_hand, abs=1e-15)
    assert math.isnan(saliency.auc_judd([[1.0, 2.0]], [(0, 0), (1, 0)]))  # no negatives


def test_jitter_is_seeded_and_breaks_ties() -> None:
    counts = np.zeros((20, 20))
    counts[5, 5] = 1
    xy = [(1, 1), (7, 9), (12, 3), (18, 18)]
    with pytest.raises(DataError, match="seed"):
        saliency.auc_judd(counts, xy, jitter=1e-7)
    how: dict[str, Any] = {"convention": "mit", "jitter": 1e-7}
    first = saliency.auc_judd(counts, xy, seed=1, **how)
    assert first == saliency.auc_judd(counts, xy, seed=1, **how)
    assert first != saliency.auc_judd(counts, xy, seed=2, **how)
    assert first > saliency.auc_judd(counts, xy, convention="mit")


def test_shuffled_auc_by_hand() -> None:
    # value 6 against 1, 6 and 11: one lower, one level
    assert saliency.shuffled_auc(RAMP, [(2, 1)], [(1, 0), (2, 1), (3, 2)]) == pytest.approx(0.5)
    # multiplicity: the lower one three times
    other = [np.array([(1, 0)] * 3), np.array([(2, 1), (3, 2)])]
    assert saliency.shuffled_auc(RAMP, [(2, 1)], other) == pytest.approx(3.5 / 5, abs=1e-15)
    assert math.isnan(saliency.shuffled_auc(RAMP, [(2, 1)], []))
    assert math.isnan(saliency.shuffled_auc(RAMP, [], [(2, 1)]))


def test_fixations_of_other_sizes_are_scaled() -> None:
    # (300, 200) on 400 x 300 is pixel (3, 2) of the 4 x 3 map
    value = saliency.shuffled_auc(RAMP, [(2, 1)], [[(300.0, 200.0)]], other_sizes=[(400, 300)])
    assert value == 0.0
    with pytest.raises(DataError, match="one size per image"):
        saliency.shuffled_auc(RAMP, [(2, 1)], [[(3, 2)]], other_sizes=[(4, 3), (4, 3)])


def test_information_gain_by_hand() -> None:
    density = np.array([[0.5, 0.25], [0.125, 0.125]])
    assert saliency.information_gain(density, [(0, 0)]) == pytest.approx(1.0, abs=1e-15)
    assert saliency.information_gain(density, [(0, 0), (0, 1)]) == pytest.approx(0.0, abs=1e-15)
    assert saliency.information_gain(density, [(1, 0)], density) == 0.0
    assert saliency.log_likelihood(density, [(0, 0)]) == pytest.approx(math.log(0.5))
    point = np.array([[1.0, 0.0]])
    assert saliency.information_gain(point, [(1, 0)]) == -math.inf
    hat = saliency.information_gain(point, [(1, 0)], convention="hat")
    assert hat == pytest.approx(math.log2(2.2204e-16) + 1, abs=1e-9)


@pytest.mark.parametrize(
    "values", [RAMP, RAMP / 100, np.array([[1.5, -0.5]]), np.zeros((2, 2)), RAMP * 0 + np.nan]
)
def test_only_densities_have_information_gain(values: np.ndarray) -> None:
    with pytest.raises(DataError):
        saliency.information_gain(values, [(0, 0)])
    ok = np.full(values.shape, 1 / values.size)
    with pytest.raises(DataError):
        saliency.information_gain(ok, [(0, 0)], values)


# -- off the picture --------------------------------------------------------------------------


@pytest.mark.parametrize("metric", AT_FIXATIONS)
def test_fixations_off_the_picture_are_refused_dropped_or_moved(metric: Any) -> None:
    picture = np.random.default_rng(0).random((480, 640))
    xy = np.array([(639.4, 10), (640.0, 10), (-0.2, 10), (300, 479.9), (5, 480), (np.nan, 3)])
    with pytest.raises(DataError, match=r"4 of 6 fixations .* x < 640"):
        metric(picture, xy)
    log = LossLog()
    value = metric(picture, xy, outside="drop", losses=log)
    assert value == metric(picture, xy[[0, 3]])
    assert log.count(kind="dropped") == 4 and log.count(kind="repaired") == 0
    log = LossLog()
    moved = metric(picture, xy, outside="clip", losses=log)
    assert moved == metric(picture, [(639, 10), (639, 10), (0, 10), (300, 479), (5, 479)])
    assert log.count(kind="repaired") == 3 and log.count(kind="dropped") == 1
    with pytest.warns(UserWarning, match="off the picture, left out: 3"):
        metric(picture, xy[:-1], outside="drop")
    with pytest.raises(UnknownNameError, match="drop"):
        metric(picture, xy, outside="dropp")


@pytest.mark.parametrize("metric", AT_FIXATIONS)
@pytest.mark.parametrize("at", [(-1, -1), (-1, 0), (0, -1), (-0.001, 1), (-4, -3), (-np.inf, 0)])
def test_negative_coordinates_never_wrap_around(metric: Any, at: tuple[float, float]) -> None:
    with pytest.raises(DataError):
        metric(RAMP, [at])
    log = LossLog()
    assert math.isnan(metric(RAMP, [at], outside="drop", losses=log))
    assert log.count() == 1
    with_other = metric(RAMP, [at, (1, 1)], outside="drop", losses=LossLog())
    assert with_other == metric(RAMP, [(1, 1)])


@pytest.mark.parametrize("metric", AT_FIXATIONS)
def test_map_and_picture_of_different_sizes(metric: Any) -> None:
    model = np.random.default_rng(1).random((20, 32))
    xy = [(1679, 1049), (0, 0), (840, 525)]
    scaled = metric(model, xy, size=(1680, 1050))
    assert scaled == metric(model, [(31, 19), (0, 0), (16, 10)])
    for outside in ("raise", "drop", "clip"):  # most of them far off: another frame, not noise
        with pytest.raises(DataError, match="size="):
            metric(model, [(1679, 1049), (0, 0), (840, 525)], outside=outside)
    with pytest.raises(DataError):
        metric(model, xy, size=(1679, 1049))
    for size in ((0, 5), (5,), (5, math.nan), "big", (-1, 4), (5, math.inf)):
        with pytest.raises(DataError, match="width, height"):
            metric(model, xy, size=size)


def test_last_place_before_the_border_stays_on_the_map() -> None:
    for width, columns in ((0.1, 3), (1680, 32), (7, 49), (1e-3, 1000), (1e9, 3)):
        x = np.nextafter(width, 0)
        at, _ = saliency.locate([(x, 0)], (1, columns), size=(width, 1))
        assert at[0] == columns - 1


# -- constant maps and what is no map, no fixations ----------------------------------------------


@pytest.mark.parametrize(
    "constant",
    [
        np.ones((5, 4)),
        np.zeros((5, 4)),
        np.full((5, 4), 1 / 3),
        np.full((5, 4), -2.5),
        np.full((5, 4), 7, dtype=np.uint8),
        np.full((5, 4), 0.1, dtype=np.float32),
        np.full((600, 800), 1 / 480000),
        np.full((5, 4), True),
    ],
)
def test_constant_map_is_chance_with_one_warning(constant: np.ndarray) -> None:
    xy = [(1, 1), (2, 3)]
    for metric, chance in (
        (saliency.nss, 0.0),
        (saliency.auc, 0.5),
        (saliency.auc_judd, 0.5),
        (lambda m, f: saliency.shuffled_auc(m, f, [(0, 0), (3, 3)]), 0.5),
        (lambda m, f: saliency.nss(m, f, convention="hat"), 0.0),
        (lambda m, f: saliency.nss(m, f, convention="mit"), 0.0),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert metric(constant, xy) == chance
        assert [w.category for w in caught] == [UserWarning]
        assert "constant" in str(caught[0].message)


def test_rounding_is_not_contrast() -> None:
    wobble = np.full((6, 6), 1 / 3) * (1 + np.finfo(float).eps * (np.arange(36).reshape(6, 6) % 2))
    with pytest.warns(UserWarning, match="constant"):
        assert saliency.nss(wobble, [(1, 1)]) == 0
    tiny = 1e9 + np.arange(36.0).reshape(6, 6)  # small beside the mean, but contrast
    assert saliency.nss(tiny, [(5, 5)]) == pytest.approx(17.5 / np.arange(36).std(), rel=1e-9)


@pytest.mark.parametrize("metric", AT_FIXATIONS)
def test_a_map_is_not_a_list_of_fixations(metric: Any) -> None:
    blurred = saliency.fixation_map([(3, 2), (7, 5)], (10, 8), sigma=1)
    binary = (blurred > 0.1).astype(np.uint8)
    for wrong in (
        blurred,
        binary,
        binary.astype(bool),
        blurred[None],
        RAMP[0],
        3.0,
        "abc",
        [["a", "b"]],
    ):
        with pytest.raises(DataError):
            metric(np.ones((8, 10)), wrong)
    with pytest.raises(DataError, match="fixations_from_map"):
        metric(np.ones((8, 10)), blurred)
    with pytest.raises(DataError, match="durations"):
        metric(np.ones((8, 10)), [(1, 2, 250)])


@pytest.mark.parametrize("metric", AT_FIXATIONS)
def test_maps_of_wrong_shape_or_with_missing_values(metric: Any) -> None:
    for wrong in (np.ones(5), np.ones((2, 3, 3)), np.ones((0, 4)), [["a"]], np.ones((2, 2)) * 1j):
        with pytest.raises(DataError):
            metric(wrong, [(0, 0)])
    for n in (4, 100):  # below and above the size from which values are counted in bins
        holed = np.random.default_rng(0).random((n, n))
        holed[1, 2] = np.nan
        with pytest.raises(DataError):
            metric(holed, [(0, 0), (2, 1), (3, 3)])


def test_masked_values_are_missing() -> None:
    masked = np.ma.masked_equal(RAMP, 5)
    with pytest.raises(DataError):
        saliency.nss(masked, [(0, 0)])


@pytest.mark.parametrize("metric", AT_FIXATIONS)
@pytest.mark.parametrize("none", [[], np.zeros((0, 2)), np.array([])])
def test_no_fixations_is_undefined(metric: Any, none: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(metric(RAMP, none))
    assert saliency.undefined_reason("nss", RAMP, none) == "no fixations"


def test_only_the_order_counts_for_auc() -> None:
    rng = np.random.default_rng(3)
    density = saliency.to_density(rng.random((90, 100)) ** 8)
    xy = rng.random((40, 2)) * [100, 90]
    with np.errstate(divide="ignore"):
        logs = np.log(np.where(density > 1e-6, density, 0))
    floor = np.where(density > 1e-6, density, 0)
    assert saliency.auc(logs, xy) == saliency.auc(floor, xy)  # minus infinity included
    for metric in (saliency.auc, saliency.auc_judd):
        value = metric(density, xy)
        assert metric(-1 / density, xy) == pytest.approx(value, abs=1e-12)
        assert metric(density * 1e200, xy) == pytest.approx(value, abs=1e-12)
        assert metric(density * 1e-200, xy) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int64, np.float16, np.float32])
def test_number_types_give_one_value(dtype: Any) -> None:
    rng = np.random.default_rng(4)
    for shape in ((7, 9), (301, 403)):
        values = rng.integers(0, 200, shape)
        xy = rng.random((60, 2)) * [shape[1], shape[0]]
        for metric in AT_FIXATIONS:
            expected = metric(values.astype(np.float64), xy)
            assert metric(values.astype(dtype), xy) == pytest.approx(expected, abs=1e-12)
            turned = np.asfortranarray(values.astype(dtype))
            assert metric(turned, xy) == pytest.approx(expected, abs=1e-12)


def test_unknown_conventions_are_named() -> None:
    for call in (
        lambda: saliency.nss(RAMP, [(0, 0)], convention="pysalincy"),
        lambda: saliency.auc(RAMP, [(0, 0)], negatives="unfixed"),
        lambda: saliency.auc_judd(RAMP, [(0, 0)], convention="mitt"),
        lambda: saliency.information_gain(RAMP / 66, [(0, 0)], convention="hatt"),
    ):
        with pytest.raises(UnknownNameError, match="did you mean"):
            call()


def test_values_fall_towards_lower_places() -> None:
    one_by_one = [saliency.auc(RAMP, [(i % 4, i // 4)]) for i in range(12)]
    assert all(a < b for a, b in pairwise(one_by_one))
    assert np.mean(one_by_one) == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize("n", [1, 7, 255, 256, 257, 65536, 65537, 130000])
@pytest.mark.parametrize("offset", [0.0, 3.0, -1e6, 1e-9])
def test_mean_and_spread_are_those_of_long_doubles(n: int, offset: float) -> None:
    rng = np.random.default_rng(n)
    for values in (rng.random(n) ** 6, rng.normal(size=n), np.where(rng.random(n) < 0.01, 1.0, 0)):
        array = (values + offset).reshape(1, -1)
        found = moments(array)
        exact = array.astype(np.longdouble)
        if found.constant:
            assert np.ptp(array) <= 1e-14 * abs(offset)
            continue
        size = float(np.abs(exact).mean() + exact.std())
        assert abs(found.mean - float(exact.mean())) <= 1e-14 * size
        # digits that the values themselves lost to the offset are not asked for
        assert found.std == pytest.approx(float(exact.std()), rel=1e-12, abs=1e-15 * size)
