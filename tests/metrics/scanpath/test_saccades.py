"""Saccade amplitudes and directions, and the distance of their distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gazeattn.errors import DataError
from gazeattn.metrics.scanpath.saccades import (
    amplitude_distance,
    amplitude_distribution,
    direction_distance,
    direction_distribution,
    saccades,
)

PATHS = [[[0, 0], [3, -4], [3, -4], [3, 6]], [[1, 1]], [], [[5, 5], [4, 5]]]


def _steps(*degrees: float) -> list[np.ndarray]:
    """Return one path of one saccade per direction."""
    return [
        np.array([[0, 0], [math.cos(math.radians(d)), -math.sin(math.radians(d))]]) for d in degrees
    ]


def test_by_hand() -> None:
    got = saccades(PATHS)
    np.testing.assert_array_equal(got.path, [0, 0, 0, 3])
    np.testing.assert_allclose(got.amplitude, [5, 0, 10, 1])
    # up and to the right is between 0 and 90 although y grows downwards
    np.testing.assert_allclose(got.direction, [math.degrees(math.atan2(4, 3)), math.nan, 270, 180])
    np.testing.assert_allclose(saccades(PATHS, pixels_per_degree=2).amplitude, [2.5, 0, 5, 0.5])
    assert len(saccades([]).path) == len(saccades([[], [[1, 1]]]).path) == 0


@pytest.mark.parametrize("tiny", [1e-18, 1e-15, 1e-300])
def test_directions_stay_below_360(tiny: float) -> None:
    direction = saccades([[[0, 0], [1, tiny]]]).direction[0]
    assert 0 <= direction < 360


def test_amplitude_distribution() -> None:
    got = amplitude_distribution(PATHS, edges=[0.5, 2, 6])
    np.testing.assert_allclose(got.share, [0.5, 0.5])
    assert (got.n, got.outside, got.undefined) == (2, 2, 0)
    assert np.isnan(amplitude_distribution([], edges=[0, 1]).share).all()
    for edges in ([1], [2, 1], [1, 1, 2], [[1, 2]]):
        with pytest.raises(DataError, match="edges"):
            amplitude_distribution(PATHS, edges=edges)


def test_direction_distribution_is_centred_and_wraps() -> None:
    paths = _steps(-44, 44, 90, 91, 180, 359)
    got = direction_distribution(paths, bins=4)
    np.testing.assert_allclose(got.edges, [-45, 45, 135, 225, 315])
    np.testing.assert_allclose(got.share, [3 / 6, 2 / 6, 1 / 6, 0])
    got = direction_distribution(PATHS, bins=4)
    assert (got.n, got.outside, got.undefined) == (3, 0, 1)
    for bins in (1, 2, 3, 7, 36, 360):
        whole = direction_distribution(_steps(*np.linspace(0, 359.9, 77)), bins=bins)
        assert whole.n == 77 and whole.share.sum() == pytest.approx(1)


def test_amplitude_distance() -> None:
    one = [[[0, 0], [3, 0], [3, 5]]]
    other = [[[9, 9], [9, 13]], [[0, 0], [0, 8]]]
    assert amplitude_distance(one, other) == pytest.approx(2)  # 3, 5 against 4, 8
    assert amplitude_distance(one, other, pixels_per_degree=4) == pytest.approx(0.5)
    assert amplitude_distance(one, one) == 0
    assert math.isnan(amplitude_distance(one, [[[1, 1]]]))
    assert math.isnan(amplitude_distance([], one))


def test_direction_distance_by_hand() -> None:
    assert direction_distance(_steps(10), _steps(350)) == pytest.approx(20)
    assert direction_distance(_steps(0), _steps(180)) == pytest.approx(180)
    assert direction_distance(_steps(0, 90), _steps(90, 0)) == pytest.approx(0, abs=1e-9)
    assert direction_distance(_steps(0, 180), _steps(90, 270)) == pytest.approx(90)
    assert direction_distance(_steps(5, 355), _steps(0)) == pytest.approx(5)
    assert math.isnan(direction_distance(_steps(5), [[[1, 1], [1, 1]]]))
    assert math.isnan(direction_distance([[[1, 1], [1, 1]]], _steps(5)))


def test_direction_distance_does_not_depend_on_where_the_circle_is_cut() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.uniform(0, 360, 13), rng.uniform(0, 90, 8)
    want = direction_distance(_steps(*one), _steps(*other))
    for turn in (17, 100, 359, -33):
        got = direction_distance(_steps(*(one + turn)), _steps(*(other + turn)))
        assert got == pytest.approx(want, abs=1e-6)
    assert direction_distance(_steps(*other), _steps(*one)) == pytest.approx(want)
    assert 0 < want <= 180


def test_direction_distance_equals_the_best_matching() -> None:
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(1)
    for _ in range(10):
        one, other = rng.uniform(0, 360, (2, 7))
        apart = np.abs(one[:, None] - other) % 360
        apart = np.minimum(apart, 360 - apart)
        best = apart[linear_sum_assignment(apart)].mean()
        assert direction_distance(_steps(*one), _steps(*other)) == pytest.approx(best, abs=1e-6)
