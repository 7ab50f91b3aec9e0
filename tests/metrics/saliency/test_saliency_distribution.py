"""Maps against maps: by hand, constants, sizes, and the earth mover's distance against scipy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import wasserstein_distance_nd

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics import saliency

RAMP = np.arange(12.0).reshape(3, 4)
BETWEEN_MAPS = [saliency.cc, saliency.sim, saliency.kl_div, saliency.emd]

MAPS = arrays(
    np.float64,
    (4, 5),
    elements=st.floats(0, 100, allow_subnormal=False).map(lambda v: round(v, 3)),
)


def test_by_hand() -> None:
    a, b = np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 3.0, 2.0]])
    assert saliency.cc(a, b) == pytest.approx(0.5, abs=1e-15)
    assert saliency.cc(a, -b) == pytest.approx(-0.5, abs=1e-15)
    assert saliency.sim(a, b) == pytest.approx(5 / 6, abs=1e-15)
    expected = 3 / 6 * math.log(3 / 2) + 2 / 6 * math.log(2 / 3)
    assert saliency.kl_div(a, b) == pytest.approx(expected, abs=1e-14)
    # 1/6 of the mass goes one pixel
    assert saliency.emd(a, b) == pytest.approx(1 / 6, abs=1e-12)


def test_kl_takes_the_reference_as_the_truth_and_names_its_eps() -> None:
    a, b = np.array([[1.0, 1.0]]), np.array([[1.0, 0.0]])
    assert saliency.kl_div(a, b) == pytest.approx(math.log(2), abs=1e-14)
    missed = {"kld_mit": 2.2204e-16, "mit": 2.0**-52, "hat": 1e-12}
    for name, eps in missed.items():
        value = saliency.kl_div(b, a, convention=name)
        assert value == pytest.approx(0.5 * math.log(0.5) + 0.5 * math.log(0.5 / eps), abs=1e-9)
    value = saliency.kl_div(b, a, convention="kld_1e-20")
    assert value == pytest.approx(0.5 * math.log(0.5) + 0.5 * math.log(0.5e20), abs=1e-9)
    assert "2.2204e-16" in saliency.convention("kl_div")
    assert "1e-12" in saliency.convention("kl_div", convention="hat")
    for name in (*missed, "kld_1e-20"):
        assert saliency.kl_div(RAMP, RAMP, convention=name) == pytest.approx(0, abs=1e-10)
        assert saliency.kl_div(RAMP, RAMP, convention=name) >= 0


def test_sim_conventions() -> None:
    a, b = np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 3.0, 2.0]])
    # stretched to 0, 1, 2 and 0, 2, 1
    assert saliency.sim(a, b, convention="mit") == pytest.approx(2 / 3, abs=1e-15)
    assert saliency.sim(a - 1, b - 1) == saliency.sim(a, b, convention="mit")
    # a negative minimum is shifted to 0 in both conventions
    assert saliency.sim(a - 2, b) == pytest.approx(1 / 3 + 1 / 3, abs=1e-15)
    assert math.isnan(saliency.sim(a * 0, b, convention="mit"))
    assert saliency.undefined_reason("sim", a * 0, b, convention="mit")


@pytest.mark.parametrize(
    "constant",
    [
        np.ones((3, 4)),
        np.zeros((3, 4)),
        np.full((3, 4), 1 / 3),
        np.full((3, 4), 7, np.uint8),
        np.full((3, 4), 0.1, np.float32),
        np.full((3, 4), 1e300),
    ],
)
def test_correlation_with_a_constant_is_undefined_in_both_orders(constant: np.ndarray) -> None:
    assert math.isnan(saliency.cc(constant, RAMP))
    assert math.isnan(saliency.cc(RAMP, constant))
    assert math.isnan(saliency.cc(constant, constant))
    assert "constant" in saliency.undefined_reason("cc", RAMP, constant)
    assert saliency.undefined_reason("cc", RAMP, RAMP) == ""


def test_map_of_zeros_is_uniform_and_one_pixel_maps_work() -> None:
    uniform = np.full((3, 4), 1 / 12)
    for metric in (saliency.sim, saliency.kl_div, saliency.emd):
        assert metric(RAMP * 0, RAMP) == pytest.approx(metric(uniform, RAMP), abs=1e-12)
    one = np.ones((1, 1))
    assert math.isnan(saliency.cc(one, one))
    assert saliency.sim(one, one) == 1
    assert saliency.emd(one, one * 5) == 0


@pytest.mark.parametrize("metric", BETWEEN_MAPS)
def test_sizes_must_agree_and_values_must_be_finite(metric: Any) -> None:
    with pytest.raises(DataError, match="same height and width"):
        metric(RAMP, RAMP.T)
    with pytest.raises(DataError, match="same height and width"):
        metric(RAMP, RAMP[:, :1])  # would broadcast
    for bad in (np.nan, np.inf, -np.inf):
        holed = RAMP.copy()
        holed[1, 1] = bad
        for pair in ((holed, RAMP), (RAMP, holed)):
            with pytest.raises(DataError, match="missing, infinite"):
                metric(*pair)
    with pytest.raises(DataError, match="wrong shape"):
        metric(RAMP, [(1, 2), (3, 4)][0])


def test_unknown_conventions_and_negative_maps() -> None:
    with pytest.raises(UnknownNameError, match="kld_mit"):
        saliency.kl_div(RAMP, RAMP, convention="kl_mit")
    with pytest.raises(UnknownNameError):
        saliency.sim(RAMP, RAMP, convention="octave")
    for name in ("mit", "hat"):
        with pytest.raises(DataError, match="negative"):
            saliency.kl_div(RAMP - 1, RAMP, convention=name)
    assert saliency.kl_div(RAMP - 1, RAMP) == pytest.approx(0, abs=1e-10)  # shifted


@settings(max_examples=60, deadline=None)
@given(MAPS, MAPS, st.floats(0.01, 1e6), st.floats(0.01, 1e6))
def test_properties(a: np.ndarray, b: np.ndarray, s: float, t: float) -> None:
    for metric in (saliency.cc, saliency.sim):
        value = metric(a, b)
        np.testing.assert_allclose(metric(b, a), value, atol=1e-12)
        if np.ptp(a) > 1e-3 and np.ptp(b) > 1e-3:
            np.testing.assert_allclose(metric(a * s, b * t), value, atol=1e-9)
    assert 0 <= saliency.sim(a, b) <= 1
    assert saliency.sim(a, a) == pytest.approx(1, abs=1e-12)
    assert saliency.kl_div(a, b) >= 0
    r = saliency.cc(a, b)
    assert math.isnan(r) or -1 <= r <= 1
    if np.ptp(a) > 0 and np.ptp(b) > 0:
        assert r == pytest.approx(np.corrcoef(a.ravel(), b.ravel())[0, 1], abs=1e-9)
        assert saliency.cc(a, a * 2 + 5) == pytest.approx(1, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(MAPS, MAPS)
def test_earth_movers_distance_is_that_of_scipy(a: np.ndarray, b: np.ndarray) -> None:
    p, q = saliency.to_density(a), saliency.to_density(b)
    grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(5.0), indexing="ij"), axis=-1)
    grid = grid.reshape(-1, 2)
    expected = wasserstein_distance_nd(grid, grid, p.ravel(), q.ravel())
    assert saliency.emd(a, b) == pytest.approx(expected, abs=1e-7)
    assert saliency.emd(b, a) == pytest.approx(expected, abs=1e-7)


def test_earth_movers_distance_on_a_line_is_that_of_the_distribution_functions() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((1, 60)), rng.random((1, 60))
    p, q = a / a.sum(), b / b.sum()
    expected = np.abs(np.cumsum(p - q)).sum()
    assert saliency.emd(a, b) == pytest.approx(expected, abs=1e-10)
    assert saliency.emd(a.T, b.T) == pytest.approx(expected, abs=1e-10)


def test_earth_movers_distance_of_large_maps_is_near_the_exact_one() -> None:
    # two points: the distance is known for any size
    for shape, at, to in (((90, 120), (3, 5), (80, 110)), ((33, 47), (0, 0), (32, 46))):
        a, b = np.zeros(shape), np.zeros(shape)
        a[at], b[to] = 1, 1
        side = saliency.emd_block(shape)
        rows, columns = (math.ceil(n / side) for n in shape)
        assert side > 1 and rows * columns <= 400
        assert saliency.emd(a, b) == pytest.approx(math.dist(at, to), abs=math.sqrt(2) * (side - 1))
        exact = saliency.emd(a, b, max_cells=shape[0] * shape[1])
        assert exact == pytest.approx(math.dist(at, to), abs=1e-9)
    rng = np.random.default_rng(1)
    a, b = rng.random((14, 20)) ** 6, rng.random((14, 20)) ** 6
    exact, coarse = saliency.emd(a, b), saliency.emd(a, b, max_cells=70)
    assert abs(exact - coarse) <= math.sqrt(2) * (saliency.emd_block((14, 20), 70) - 1)
    with pytest.raises(DataError):
        saliency.emd(a, b, max_cells=0)


def test_densities() -> None:
    assert saliency.to_density(RAMP).sum() == pytest.approx(1, abs=1e-15)
    np.testing.assert_allclose(saliency.to_density(np.array([[-1, 0, 1]])), [[0, 1 / 3, 2 / 3]])
    np.testing.assert_allclose(saliency.to_density(np.zeros((2, 2), np.uint8)), 0.25)
    floored = saliency.to_density(np.array([[0.0, 1.0]]), floor=0.5)
    np.testing.assert_allclose(floored, [[0.25, 0.75]])
    for floor in (-1.0, np.nan, np.inf):
        with pytest.raises(DataError):
            saliency.to_density(RAMP, floor=floor)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint16, np.float16, np.float32])
def test_number_types_and_memory_order_give_one_value(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 200, (2, 311, 297))
    for metric in (saliency.cc, saliency.sim, saliency.kl_div):
        expected = metric(a.astype(float), b.astype(float))
        assert metric(a.astype(dtype), b.astype(dtype)) == pytest.approx(expected, abs=1e-12)
        turned = np.asfortranarray(a.astype(dtype))
        assert metric(turned, b) == pytest.approx(expected, abs=1e-12)
        assert metric(a[::-1, ::-1], b[::-1, ::-1]) == pytest.approx(expected, abs=1e-12)


def test_a_large_mean_does_not_eat_the_digits() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random((2, 200, 300))
    assert saliency.cc(a + 1e6, b - 1e6) == pytest.approx(saliency.cc(a, b), abs=1e-8)
    xy = [(5, 5), (100, 20)]
    assert saliency.nss(a + 1e6, xy) == pytest.approx(saliency.nss(a, xy), abs=1e-8)
