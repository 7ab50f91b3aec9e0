"""Saccades by the noise of the velocity, and those of both eyes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.events import Spans, binocular, engbert_kliegl, velocity_noise


def spans(*pairs: tuple[int, int]) -> Spans:
    first, last = (np.array([p[k] for p in pairs], dtype=np.int64) for k in (0, 1))
    return Spans(first, last, first * 2.0, last * 2.0, 2.0)


def gaze(seed: int, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    place = np.repeat(generator.uniform(-5, 5, (n // 100, 2)), 100, axis=0)
    place += generator.normal(0, 0.02, place.shape)
    return place[:, 0], place[:, 1]


class TestNoise:
    def test_by_hand(self):
        v = np.array([[-1.0, 0], [0, 0], [1, 4], [2, 4]])
        # x: median 0.5, distances 1.5 .5 .5 1.5; y: median 2, all distances 2
        np.testing.assert_allclose(velocity_noise(v, "engbert2015"), [np.sqrt(1.25), 2])
        np.testing.assert_allclose(velocity_noise(v, "mad"), [1.0, 2])
        np.testing.assert_allclose(velocity_noise(v, "std"), [np.sqrt(1.25), 2])
        # x: median of squares (1, 0, 1, 4) is 1, minus 0.25; y: 8 - 4
        np.testing.assert_allclose(velocity_noise(v, "engbert2003"), [np.sqrt(0.75), 2])

    def test_missing_left_out(self):
        v = np.array([[1.0, 2], [3, 8], [np.nan, np.nan]])
        np.testing.assert_allclose(velocity_noise(v, "std"), [1, 3])
        assert np.isnan(velocity_noise(v[2:], "std")).all()

    def test_unknown(self):
        with pytest.raises(UnknownNameError, match="engbert2015"):
            velocity_noise(np.zeros((3, 2)), "engbert2016")


def test_steps_are_found():
    x, y = gaze(1)
    found = engbert_kliegl(np.arange(600) * 2.0, x, y)
    borders = np.arange(100, 600, 100)
    for border in borders:  # each jump lies within one saccade
        hit = (found.saccades.first <= border) & (found.saccades.last >= border - 1)
        assert hit.sum() == 1
    assert len(found.fixations) == len(found.saccades) + 1


def test_given_noise_is_the_threshold():
    x, y = gaze(2)
    at = np.arange(600) * 2.0
    found = engbert_kliegl(at, x, y, threshold=(1.5, 2.5), factor=4)
    assert found.info["radius"] == (6.0, 10.0)
    own = engbert_kliegl(at, x, y, factor=4)
    again = engbert_kliegl(at, x, y, factor=1, threshold=own.info["radius"])
    assert again.saccades.first.tolist() == own.saccades.first.tolist()


def test_velocity_without_spread_raises():
    x = np.zeros(50)
    x[25:] = 5.0  # more than half of the velocities are 0: so is every median
    with pytest.raises(DataError, match="no spread"):
        engbert_kliegl(np.arange(50) * 2.0, x, x)
    assert len(engbert_kliegl(np.arange(50) * 2.0, x, x, threshold="std").saccades) == 0
    found = engbert_kliegl(np.arange(50) * 2.0, x, x, threshold="std", factor=2)
    assert found.saccades.first.tolist() == [23]


def test_an_eye_at_rest_makes_one_fixation():
    found = engbert_kliegl(np.arange(50) * 2.0, np.zeros(50), np.zeros(50))
    assert not len(found.saccades)
    assert found.fixations.duration.tolist() == [100]


@pytest.mark.parametrize("bad", [{"factor": 0}, {"threshold": (1, 2, 3)}, {"velocity": [[1, 2]]}])
def test_refusals(bad):
    with pytest.raises(DataError):
        engbert_kliegl(np.arange(5), np.arange(5), np.arange(5), **bad)


class TestBinocular:
    def test_by_hand(self):
        left = spans((0, 4), (10, 14), (20, 24), (40, 44))
        right = spans((4, 8), (15, 18), (22, 23), (30, 35))
        both = binocular(left, right)
        # 4 is shared; 14 and 15 are neighbours, not shared; (22, 23) lies within (20, 24)
        assert both.spans.first.tolist() == [0, 20]
        assert both.spans.last.tolist() == [8, 24]
        assert both.spans.duration.tolist() == [18, 10]
        assert both.left.tolist() == [True, False, True, False]
        assert both.right.tolist() == [True, False, True, False]

    def test_a_chain_is_one_event(self):
        both = binocular(spans((0, 4), (8, 12)), spans((3, 9)))
        assert both.spans.first.tolist() == [0] and both.spans.last.tolist() == [12]
        assert both.left.all() and both.right.all()

    def test_empty(self):
        for left, right in ((spans(), spans()), (spans((1, 2)), spans()), (spans(), spans((1, 2)))):
            both = binocular(left, right)
            assert not len(both.spans)
            assert len(both.left) == len(left) and not both.left.any()

    @given(st.integers(0, 1000))
    @settings(max_examples=60, deadline=None)
    def test_part_of_each_eye(self, seed):
        generator = np.random.default_rng(seed)

        def some() -> Spans:
            edges = np.sort(generator.choice(200, 2 * generator.integers(0, 20), replace=False))
            return spans(*zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))

        left, right = some(), some()
        both = binocular(left, right)
        swapped = binocular(right, left)
        assert both.spans.first.tolist() == swapped.spans.first.tolist()
        assert len(both.spans) <= min(len(left), len(right))
        assert (both.spans.first[1:] > both.spans.last[:-1]).all()
        for k in range(len(left)):  # the definition, event by event
            overlaps = (right.first <= left.last[k]) & (right.last >= left.first[k])
            assert both.left[k] == overlaps.any()
        for a, b in zip(both.spans.first, both.spans.last, strict=True):
            for eye, mine in ((left, both.left), (right, both.right)):
                inside = (eye.first >= a) & (eye.last <= b)
                assert inside.any() and mine[inside].all()
        found = engbert_kliegl(np.arange(600) * 2.0, *gaze(seed)).saccades
        assert binocular(found, found).spans.first.tolist() == found.first.tolist()
