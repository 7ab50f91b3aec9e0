"""One map per step against the next fixation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.metrics import saliency

RAMP = np.arange(12.0).reshape(3, 4)
MAPS = np.stack([RAMP, RAMP[::-1]]) / 66
XY = [(3, 2), (2, 1)]


def test_by_hand() -> None:
    # step 2: the turned map has 6 at (2, 1)
    sample = math.sqrt(143 / 11)
    assert saliency.cnss(MAPS, XY) == pytest.approx((5.5 + 0.5) / 2 / sample, abs=1e-12)
    population = saliency.cnss(MAPS, XY, convention="pysaliency")
    assert population == pytest.approx((5.5 + 0.5) / 2 / math.sqrt(143 / 12), abs=1e-12)
    gain = (math.log2(11 / 66) + math.log2(6 / 66)) / 2 + math.log2(12)
    assert saliency.cig(MAPS, XY) == pytest.approx(gain, abs=1e-12)
    assert saliency.cig(MAPS, XY, MAPS) == pytest.approx(0, abs=1e-15)
    assert saliency.cig(MAPS, XY, MAPS[0]) == pytest.approx(0, abs=1e-15)
    assert saliency.cauc(MAPS, XY) == pytest.approx((11.5 + 6.5) / 24, abs=1e-15)
    # no and 5 of the 11 other pixels are not lower
    assert saliency.cauc_hat(MAPS, XY) == pytest.approx(1 - 5 / 11 / 2 / 2, abs=1e-15)
    assert saliency.cauc(MAPS, XY, convention="hat") == saliency.cauc_hat(MAPS, XY)


def test_chance_levels() -> None:
    rng = np.random.default_rng(0)
    maps, xy = rng.random((4000, 6, 7)), rng.random((4000, 2)) * [7, 6]
    assert saliency.cauc(maps, xy) == pytest.approx(0.5, abs=0.02)
    assert saliency.cauc_hat(maps, xy) == pytest.approx(0.75, abs=0.02)
    assert "0.75" in saliency.convention("cauc_hat")
    assert "0.5" in saliency.convention("cauc")


def test_constant_steps_and_zero_mass() -> None:
    with pytest.warns(UserWarning, match="1 of 2 steps"):
        value = saliency.cnss([np.ones((3, 4)), RAMP], XY)
    assert value == pytest.approx(0.5 / math.sqrt(143 / 11) / 2, abs=1e-12)
    point = np.zeros((3, 4))
    point[0, 0] = 1
    assert saliency.cig([point], [(3, 2)], convention="pysaliency") == -math.inf
    assert saliency.cig([point], [(3, 2)]) == pytest.approx(
        math.log2(2.2204e-16) + math.log2(12), abs=1e-9
    )


def test_one_fixation_per_map() -> None:
    for metric in (saliency.cnss, saliency.cig, saliency.cauc, saliency.cauc_hat):
        with pytest.raises(DataError, match="per map"):
            metric(MAPS, XY[:1])
        with pytest.raises(DataError, match="per map"):
            metric(MAPS[:1], XY)
        assert math.isnan(metric([], []))
        assert math.isnan(metric(np.zeros((0, 3, 4)), np.zeros((0, 2))))
        with pytest.raises(DataError):
            metric(RAMP, [(0, 0)] * 3)  # rows are no maps
    with pytest.raises(DataError, match="baseline maps per map"):
        saliency.cig(MAPS, XY, [MAPS[0]])
    with pytest.raises(DataError, match="not a density"):
        saliency.cig(MAPS * 66, XY)
    with pytest.raises(UnknownNameError):
        saliency.cnss(MAPS, XY, convention="mit")
    with pytest.raises(UnknownNameError):
        saliency.per_step("csim", MAPS, XY)


def test_steps_off_the_picture_leave_a_gap() -> None:
    xy = [(-1, -1), (2, 1)]
    with pytest.raises(DataError):
        saliency.cauc(MAPS, xy)
    log = LossLog()
    steps = saliency.per_step("cauc", MAPS, xy, outside="drop", losses=log)
    assert math.isnan(steps[0]) and steps[1] == pytest.approx(6.5 / 12)
    assert log.count(kind="dropped") == 1
    value = saliency.cauc(MAPS, xy, outside="drop", losses=log)
    assert value == pytest.approx(6.5 / 12)
    scaled = saliency.cauc(MAPS, [(799, 599), (450, 250)], size=(800, 600))
    assert scaled == saliency.cauc(MAPS, XY)
