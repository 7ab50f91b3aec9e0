"""What must hold whatever the samples are."""

from __future__ import annotations

from math import cos, pi, sin

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.events import engbert_kliegl, idt, ivt, track, velocity

SETTINGS = settings(max_examples=60, deadline=None)


@st.composite
def gaze(draw, missing=True):
    """Return time, x, y: fixations with noise and jumps, holes, an uneven or an even clock."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 400))
    step = draw(st.sampled_from([1.0, 2.0, 4.0, 1000 / 300, 1000 / 60]))
    place = np.repeat(generator.uniform(-10, 10, (n // 30 + 1, 2)), 30, axis=0)[:n]
    place += generator.normal(0, draw(st.sampled_from([0.01, 0.1, 0.5])), place.shape)
    steps = np.full(n, step)
    if draw(st.booleans()):
        steps *= generator.uniform(0.8, 1.2, n)
    if missing:
        place[generator.random(n) < draw(st.sampled_from([0, 0.02, 0.3]))] = np.nan
        steps[generator.random(n) < 0.01] += generator.integers(1, 500)
    return np.cumsum(steps), place[:, 0], place[:, 1]


def everything(at, x, y, **options):
    yield "ivt", ivt(at, x, y, threshold=30, minimum_duration=20, **options)
    yield "idt", idt(at, x, y, threshold=1, minimum_duration=20, **options)
    if np.nanmax(np.abs(velocity(at, x, y, **options)), initial=0) > 0:
        found = engbert_kliegl(at, x, y, threshold="std", factor=1.5, **options)
        yield "engbert_kliegl", found


def pairs(spans):
    return np.column_stack([spans.first, spans.last]).tolist()


@given(gaze(), st.sampled_from([0.0, 10.0, 100.0]))
@SETTINGS
def test_events_are_ordered_disjoint_and_within_stretches(sample, max_gap):
    at, x, y = sample
    stretches = track(at, x, y, max_gap=max_gap)
    stretch = np.full(len(x), -1)
    stretch[stretches.rows] = np.cumsum(stretches.start)
    for name, found in everything(at, x, y, max_gap=max_gap):
        owner = np.zeros(len(x), dtype=int)
        for spans in (found.fixations, found.saccades):
            assert (spans.last >= spans.first).all() and (spans.first[1:] > spans.last[:-1]).all()
            assert (stretch[spans.first] == stretch[spans.last]).all()
            assert (stretch[spans.first] >= 0).all()
            np.testing.assert_array_equal(spans.onset, at[spans.first])
            np.testing.assert_array_equal(spans.offset, at[spans.last])
            for a, b in pairs(spans):
                owner[a : b + 1] += 1
        assert owner.max(initial=0) <= 1, name
        if name != "engbert_kliegl":
            assert (found.fixations.duration >= 20 - 1e-4).all()


@given(gaze())
@SETTINGS
def test_samples_are_all_accounted_for(sample):
    """Without minimum durations every sample with a velocity is in one event."""
    at, x, y = sample
    for found in (
        ivt(at, x, y, threshold=30, minimum_duration=0),
        engbert_kliegl(at, x, y, threshold=(10, 10), minimum_saccade=0),
    ):
        inside = np.zeros(len(x), dtype=int)
        for spans in (found.fixations, found.saccades):
            for a, b in pairs(spans):
                inside[a : b + 1] += 1
        there = ~np.isnan(x)
        assert (inside[there] == 1).all() and (inside[~there] == 0).all()
        assert found.lost.count(kind="undefined") == (~there).sum()


@given(gaze(), st.floats(-1000, 1000), st.floats(-1e6, 1e6))
@SETTINGS
def test_moving_space_and_time_changes_nothing(sample, shift, later):
    at, x, y = sample
    shift, later = round(shift), round(later)
    v = velocity(at, x, y)
    np.testing.assert_allclose(velocity(at + later, x + shift, y - shift), v, atol=1e-3, rtol=1e-5)
    moved = everything(at + later, x + shift, y - shift)
    for (_, a), (_, b) in zip(everything(at, x, y), moved, strict=True):
        assert pairs(a.fixations) == pairs(b.fixations)
        assert pairs(a.saccades) == pairs(b.saccades)


@given(gaze(), st.floats(0, 2 * pi))
@SETTINGS
def test_turning_the_picture_changes_no_speed(sample, angle):
    at, x, y = sample
    turned = cos(angle) * x - sin(angle) * y, sin(angle) * x + cos(angle) * y
    a = ivt(at, x, y, threshold=30, minimum_duration=20)
    b = ivt(at, *turned, threshold=30, minimum_duration=20)
    speeds = [np.hypot(*v.velocity.T) for v in (a, b)]
    np.testing.assert_allclose(*speeds, atol=1e-8)
    if not (np.abs(speeds[0] - 30) < 1e-6).any():
        assert pairs(a.fixations) == pairs(b.fixations)


@given(gaze(), st.sampled_from([0, 1, 2, 3]))
@SETTINGS
def test_quarter_turns_change_no_dispersion_and_no_ellipse(sample, quarters):
    at, x, y = sample
    for _ in range(quarters):
        x, y = -y, x
    for (_, a), (_, b) in zip(everything(*sample), everything(at, x, y), strict=True):
        assert pairs(a.fixations) == pairs(b.fixations)


@given(gaze())
@SETTINGS
def test_time_reversal(sample):
    """The velocity is symmetric, so reversed samples give reversed events; I-DT is greedy."""
    at, x, y = sample
    n = len(x)
    back = (-at[::-1], x[::-1], y[::-1])
    np.testing.assert_allclose(velocity(*back)[::-1], -velocity(at, x, y), atol=1e-9, rtol=1e-9)
    for (name, a), (_, b) in zip(everything(at, x, y), everything(*back), strict=True):
        if name != "idt":
            for mine, theirs in ((a.fixations, b.fixations), (a.saccades, b.saccades)):
                turned = [[n - 1 - q, n - 1 - p] for p, q in pairs(theirs)[::-1]]
                assert pairs(mine) == turned


@given(gaze(missing=False), st.floats(0.1, 3))
@SETTINGS
def test_idt_is_the_rule_sample_by_sample(sample, threshold):
    at, x, y = sample
    found = idt(at, x, y, threshold=threshold, minimum_duration=20).fixations
    stretches = track(at, x, y)
    start = stretches.start
    interval, n, expected, i = stretches.interval, len(x), [], 0
    border = [*np.flatnonzero(start), n]

    def wide(a, b):
        return np.ptp(x[a : b + 1]) + np.ptp(y[a : b + 1]) > threshold

    while i < n:
        stop = next(b for b in border if b > i)
        j = i
        while j < stop and not at[j] - at[i] + interval >= 20 - 1e-6 * interval:
            j += 1
        if j >= stop or wide(i, j):
            i += 1
            continue
        while j + 1 < stop and not wide(i, j + 1):
            j += 1
        expected.append([i, j])
        i = j + 1
    assert pairs(found) == expected


@given(gaze(), st.sampled_from([0, 1, 2]))
@SETTINGS
def test_a_longer_minimum_keeps_fewer_fixations_and_no_others(sample, kind):
    at, x, y = sample
    few, many = (ivt(at, x, y, threshold=30, minimum_duration=m).fixations for m in (60, 20))
    kept = {tuple(p) for p in pairs(many)}
    assert all(tuple(p) in kept for p in pairs(few))


@pytest.mark.parametrize("rate", [30, 60, 250, 1000])
def test_steady_movement_has_its_speed(rate):
    at = np.arange(200) * 1000 / rate
    v = velocity(at, at * 0.03, at * -0.04, edges="one_sided")
    np.testing.assert_allclose(np.hypot(*v.T), 50.0)
