"""The same samples through pymovements, where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

from gazeattn.events import Geometry, engbert_kliegl, idt, ivt, velocity

peer = pytest.importorskip("pymovements.events")


def gaze(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    place = np.repeat(generator.uniform(-10, 10, (12, 2)), 80, axis=0)
    place += np.cumsum(generator.normal(0, 0.01, place.shape), axis=0)
    place += generator.normal(0, 0.02, place.shape)
    return np.arange(len(place)) * 2, place[:, 0], place[:, 1]


def table(events) -> list[list[int]]:
    return events.frame.select("onset", "offset").to_numpy().tolist()


@pytest.mark.parametrize("seed", range(5))
def test_engbert_kliegl(seed):
    at, x, y = gaze(seed)
    v = velocity(at, x, y)
    ours = engbert_kliegl(at, x, y, factor=6, minimum_saccade=6, counting="span").saccades
    theirs = peer.microsaccades(v, at, minimum_duration=6, threshold_factor=6)
    assert np.column_stack([ours.onset, ours.offset]).tolist() == table(theirs)


@pytest.mark.parametrize("seed", range(5))
def test_ivt(seed):
    at, x, y = gaze(seed)
    v = velocity(at, x, y)
    ours = ivt(at, x, y, threshold=20, minimum_duration=50, counting="span").fixations
    theirs = peer.ivt(v, at, minimum_duration=50, velocity_threshold=20.0)
    assert np.column_stack([ours.onset, ours.offset]).tolist() == table(theirs)


def test_idt_ends_a_sample_earlier():
    at, x, y = gaze(0)
    ours = idt(at, x, y, threshold=1.0, minimum_duration=50, counting="span").fixations
    theirs = table(peer.idt(np.column_stack([x, y]), at, 50, 1.0))
    assert [ours.onset[0], ours.offset[0]] == [theirs[0][0], theirs[0][1] - 2]


def test_degrees():
    transforms = pytest.importorskip("pymovements.gaze.experiment")
    screen = transforms.Experiment(1280, 1024, 38.0, 30.2, 68.0, "upper left", 1000.0).screen
    ours = Geometry(1280, 1024, 38.0, 30.2, 68.0)
    x, y = ours.to_degrees([0, 1279], [0, 1023])
    expected = [[screen.x_min_dva, screen.x_max_dva], [screen.y_min_dva, screen.y_max_dva]]
    np.testing.assert_allclose([x, y], expected, rtol=1e-3)
