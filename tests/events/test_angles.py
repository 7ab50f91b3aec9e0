"""Pixels and degrees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.events import Geometry

SCREEN = Geometry(1001, 501, 100.1, 50.1, 50.0)  # 0.1 cm per pixel, middle at (500, 250)


def test_by_hand():
    # 50 cm to the right at 50 cm distance is 45 degrees; 25 cm down is atan(0.5)
    x, y = SCREEN.to_degrees([500, 1000, 0], [250, 500, 0])
    np.testing.assert_allclose(x, [0, 45, -45], atol=1e-12)
    np.testing.assert_allclose(y, [0, 26.56505117707799, -26.56505117707799], atol=1e-12)


def test_middle_of_the_screen_is_between_the_middle_pixels():
    x, y = Geometry(1920, 1080, 52, 29, 60).to_degrees([959, 960], [539, 540])
    assert x[0] == -x[1] and y[0] == -y[1] and x[1] > 0 and y[1] > 0


def test_origins_agree():
    corner = SCREEN.to_degrees([700], [300])
    centre = Geometry(1001, 501, 100.1, 50.1, 50.0, "center").to_degrees([200], [50])
    np.testing.assert_allclose(corner, centre)


def test_axes_may_have_pixels_of_other_sizes():
    x, y = Geometry(101, 101, 10.1, 20.2, 10).to_degrees([100], [100])
    np.testing.assert_allclose([x[0], y[0]], [np.degrees(np.arctan(0.5)), 45])


@given(
    st.floats(-2000, 4000),
    st.floats(-2000, 4000),
    st.sampled_from(["upper left", "lower left", "center"]),
)
def test_there_and_back(x, y, origin):
    geometry = Geometry(1920, 1080, 53.1, 29.9, 70, origin)
    back = geometry.to_pixels(*geometry.to_degrees(x, y))
    np.testing.assert_allclose(back, (x, y), rtol=1e-9, atol=1e-7)


def test_missing_stays_missing_and_integers_work():
    x, y = SCREEN.to_degrees(np.array([500.0, np.nan]), np.array([250, 250]))
    assert x[0] == 0 and np.isnan(x[1]) and y.dtype == np.float64


@pytest.mark.parametrize("name", ["width", "height", "width_cm", "height_cm", "distance_cm"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "60"])
def test_sizes_must_be_above_zero(name, value):
    sizes = {"width": 1, "height": 1, "width_cm": 1, "height_cm": 1, "distance_cm": 1, name: value}
    with pytest.raises(DataError, match=name):
        Geometry(**sizes)


def test_unknown_origin_and_wild_angles():
    with pytest.raises(UnknownNameError, match="upper left"):
        Geometry(1, 1, 1, 1, 1, "upperleft")
    with pytest.raises(DataError, match="90"):
        SCREEN.to_pixels([90.0], [0.0])
