"""Functions over arrays: by hand, minimum durations, gaps, clocks, missing samples."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.events import (
    engbert_kliegl,
    find_blinks,
    idt,
    interval_of,
    ivt,
    order_of,
    runs,
    saccade_measures,
    track,
    velocity,
)

NAN = float("nan")


def both(spans):
    return list(zip(spans.first.tolist(), spans.last.tolist(), strict=True))


# a fixation at 0, a step of 9 degrees over three samples, a fixation at 9; 250 Hz
STEP_X = np.r_[np.zeros(20), 3.0, 6.0, np.full(20, 9.0)]
STEP_T = np.arange(len(STEP_X)) * 4.0


class TestByHand:
    def test_runs(self):
        mask = np.array([1, 1, 0, 1, 1, 1], dtype=bool)
        assert [a.tolist() for a in runs(mask)] == [[0, 3], [1, 5]]
        start = np.array([1, 0, 0, 0, 1, 0], dtype=bool)
        assert [a.tolist() for a in runs(mask, start)] == [[0, 3, 4], [1, 3, 5]]
        assert [a.tolist() for a in runs(mask[:0])] == [[], []]

    def test_velocity(self):
        # 5 samples at 500 Hz: x = n^2: central difference at 1 is 250 * 4, five points at 2:
        # 500/6 * (16 + 9 - 1 - 0) = 2000
        x = np.arange(5.0) ** 2
        v = velocity(np.arange(5) * 2.0, x, np.zeros(5))
        assert v[:, 0].tolist() == [0, 1000, 2000, 3000, 0]
        v = velocity(np.arange(5) * 2.0, x, np.zeros(5), edges="one_sided")
        assert v[:, 0].tolist() == [500, 1000, 2000, 3000, 3500]
        v = velocity(np.arange(5) * 2.0, x, np.zeros(5), edges="missing", method="central")
        np.testing.assert_array_equal(v[:, 0], [NAN, 1000, 2000, 3000, NAN])

    def test_velocity_on_an_uneven_clock_is_that_of_a_steady_movement(self):
        time = np.array([0.0, 4, 9, 13, 18, 22, 27, 30])
        v = velocity(time, time * 0.05, -time * 0.02, edges="one_sided")
        np.testing.assert_allclose(v, np.tile([50.0, -20.0], (8, 1)))

    def test_ivt(self):
        # smooth velocity at 250 Hz, first above 30 deg/s two samples before the step:
        # sample 18 sees x[20] = 3: 250/6 * 3 = 125
        found = ivt(STEP_T, STEP_X, STEP_X * 0, threshold=30, minimum_duration=20)
        assert both(found.fixations) == [(0, 17), (24, 41)]
        assert both(found.saccades) == [(18, 23)]
        assert found.fixations.onset.tolist() == [0, 96]
        assert found.fixations.offset.tolist() == [68, 164]
        assert found.fixations.duration.tolist() == [72, 72]  # inclusive
        assert found.fixations.span.tolist() == [68, 68]
        measures = saccade_measures(STEP_X, STEP_X * 0, found.velocity, found.saccades)
        assert measures.amplitude.tolist() == [9.0]
        # largest at sample 20 or 21: 250/6 * (9 + 6 - 0 - 0) = 625
        np.testing.assert_allclose(measures.peak_velocity, [625.0])

    def test_a_speed_at_the_threshold_is_no_fixation(self):
        x = np.arange(10.0)  # 1 per 4 ms: 250 per second
        found = ivt(np.arange(10) * 4.0, x, x * 0, threshold=250, minimum_duration=0)
        assert both(found.saccades) == [(1, 8)]
        assert both(found.fixations) == [(0, 0), (9, 9)]  # the ends have no velocity: 0

    def test_idt(self):
        x = np.array([0, 1, 0, 1, 5, 9, 9, 8, 9, 9.0])
        found = idt(np.arange(10) * 10.0, x, x * 0, threshold=1, minimum_duration=30)
        assert both(found.fixations) == [(0, 3), (5, 9)]
        assert both(found.saccades) == [(4, 4)]

    def test_idt_adds_the_axes(self):
        x = np.array([0, 0.6, 0, 0.6])
        at = np.arange(4) * 10.0
        assert len(idt(at, x, x * 0, threshold=1, minimum_duration=40).fixations) == 1
        assert len(idt(at, x, x, threshold=1.2, minimum_duration=40).fixations) == 1
        assert len(idt(at, x, x, threshold=1.1, minimum_duration=40).fixations) == 0

    def test_idt_goes_on_after_a_fixation(self):
        # a slow drift: windows follow each other without a sample between
        x = np.arange(12.0)
        found = idt(np.arange(12) * 1.0, x, x * 0, threshold=3, minimum_duration=2)
        assert both(found.fixations) == [(0, 3), (4, 7), (8, 11)]
        assert not len(found.saccades)

    def test_signed_range_and_net_shift(self):
        x = np.array([0, 0, 2, 5, 4, 4, 4.0])
        found = ivt(np.arange(7) * 1.0, x, -x, threshold=1, minimum_duration=0)
        spans = found.saccades
        assert both(spans) == [(1, 4)]  # sample 5 lies between two equal ones
        m = saccade_measures(x, -x, found.velocity, spans)
        assert (m.dx[0], m.dy[0], m.range_x[0], m.range_y[0]) == (4, -4, 5, -5)


class TestMinimumDuration:
    """The clock decides how long an event is, whatever the sampling interval."""

    @pytest.mark.parametrize("counting", ["inclusive", "span"])
    @pytest.mark.parametrize(
        ("step", "minimum", "short", "long"),
        [(4, 10, 8, 12), (2, 5, 4, 6), (1, 10, 9, 10), (4, 12, 8, 12), (1000 / 300, 10, 6, 10)],
    )
    def test_short_and_long(self, step, minimum, short, long, counting):
        extra = counting == "span"
        counts = [round(length / step) + extra for length in (short, long)]
        speed = np.concatenate([[99.0], np.zeros(counts[0]), [99], np.zeros(counts[1]), [99]])
        at = np.arange(len(speed)) * step
        found = ivt(
            at,
            speed * 0,
            speed * 0,
            velocity=np.column_stack([speed, speed * 0]),
            threshold=30,
            minimum_duration=minimum,
            counting=counting,
        )
        assert both(found.fixations) == [(counts[0] + 2, len(speed) - 2)]
        assert found.lost.count(kind="dropped") == 1

    @pytest.mark.parametrize("method", [ivt, idt])
    def test_idt_and_ivt_agree_on_a_lone_event(self, method):
        for n, expected in ((2, 0), (3, 1)):
            x = np.full(n, 7.0)
            found = method(np.arange(n) * 4.0, x, x, threshold=1, minimum_duration=10)
            assert len(found.fixations) == expected

    @pytest.mark.parametrize("method", [ivt, idt])
    def test_without_a_clock_the_unit_must_be_stated(self, method):
        x = np.zeros(10)
        with pytest.raises(DataError, match="no time axis"):
            method(None, x, x, threshold=1, minimum_duration=3)
        found = method(None, x, x, threshold=1, minimum_duration=10, unit="samples")
        assert found.fixations.duration.tolist() == [10]
        assert not len(
            method(None, x, x, threshold=1, minimum_duration=11, unit="samples").fixations
        )
        assert method(
            None, x, x, threshold=1, minimum_duration=40, rate=250
        ).fixations.duration.tolist() == [40]

    def test_engbert_kliegl_and_velocity_without_a_clock(self):
        x = np.zeros(10)
        for call in (engbert_kliegl, velocity):
            with pytest.raises(DataError, match="no time axis"):
                call(None, x, x)

    def test_samples_count_with_a_clock_too(self):
        x = np.zeros(5)
        at = np.arange(5) * 4.0
        for n, expected in ((5, 1), (6, 0)):
            found = ivt(at, x, x, threshold=1, minimum_duration=n, unit="samples")
            assert len(found.fixations) == expected


class TestMissingSamples:
    """Missing samples are no event."""

    @pytest.mark.parametrize("n", [0, 1, 2, 500])
    def test_all_missing(self, n):
        x = np.full(n, NAN)
        at = np.arange(n) * 2.0
        for found in (
            ivt(at, x, x, threshold=30, minimum_duration=0),
            idt(at, x, x, threshold=1, minimum_duration=0),
            engbert_kliegl(at, x, x),
        ):
            assert not len(found.fixations) and not len(found.saccades)
            if n:
                assert found.lost.count(kind="undefined") == n
                assert f"0 of {n} samples are valid" in str(found.lost)
        assert not len(find_blinks(at, x)[0])

    def test_one_axis_missing_is_missing(self):
        x, y = np.zeros(10), np.zeros(10)
        y[4] = NAN
        found = ivt(np.arange(10) * 1.0, x, y, threshold=1, minimum_duration=0)
        assert both(found.fixations) == [(0, 3), (5, 9)]

    @pytest.mark.parametrize("method", [ivt, idt])
    @pytest.mark.parametrize("max_gap, expected", [(0, 2), (11, 2), (12, 1), (100, 1)])
    def test_gap_within_a_fixation(self, method, max_gap, expected):
        x = np.zeros(50)
        x[20:23] = NAN  # 12 ms at 250 Hz
        found = method(np.arange(50) * 4.0, x, x, threshold=1, minimum_duration=20, max_gap=max_gap)
        assert len(found.fixations) == expected
        assert ("cut at a gap" in str(found.lost)) == (expected == 2)
        assert ("bridged" in str(found.lost)) == (expected == 1)

    def test_a_jump_over_a_bridged_gap_has_a_velocity(self):
        x = np.r_[np.zeros(20), [NAN] * 3, np.full(20, 10.0)]
        found = ivt(np.arange(43) * 4.0, x, x * 0, threshold=30, minimum_duration=20, max_gap=20)
        assert len(found.fixations) == 2 and len(found.saccades) == 1

    @pytest.mark.parametrize("method", [ivt, idt])
    def test_a_missing_sample_on_an_uneven_clock(self, method):
        at = np.array(
            [0, 4, 8, 10, 12, 16, 20.0]
        )  # the step over the hole is no longer than others
        x = np.array([0, 0, 0, NAN, 0, 0, 0])
        found = method(at, x, x, threshold=1, minimum_duration=0)
        assert both(found.fixations) == [(0, 2), (4, 6)]

    def test_integers_with_gaps(self):
        x = pd.Series([5, 5, None, 5, 5], dtype="Int64")
        found = ivt(np.arange(5), x, x, threshold=1, minimum_duration=0)
        assert both(found.fixations) == [(0, 1), (3, 4)]
        whole = ivt(np.arange(5), np.full(5, 5), np.full(5, 5), threshold=1, minimum_duration=0)
        assert both(whole.fixations) == [(0, 4)]


class TestGapsAndBlocks:
    """Nothing spans a hole of the clock or the border of a block."""

    AT = np.r_[100.0:103, 900.0:903]

    def test_velocity(self):
        x = np.r_[np.zeros(3), np.full(3, 500.0)]
        assert not velocity(self.AT, x, x).any()
        assert not velocity(self.AT, x, x, edges="one_sided").any()

    def test_a_lone_sample_takes_no_velocity_from_across_a_gap(self):
        x = np.array([0, NAN, 50, NAN, 99, 99])
        v = velocity(np.arange(6) * 4.0, x, x, edges="one_sided")
        assert np.isnan(v[:4]).all() and not v[4:].any()

    @pytest.mark.parametrize("max_gap, expected", [(0, [(0, 2), (3, 5)]), (1000, [(0, 5)])])
    def test_events(self, max_gap, expected):
        x = np.zeros(6)
        for method in (ivt, idt):
            found = method(
                self.AT, x, x, threshold=1, minimum_duration=2, max_gap=max_gap
            ).fixations
            assert both(found) == expected

    @pytest.mark.parametrize("method", [ivt, idt])
    def test_breaks_cut_where_the_clock_runs_on(self, method):
        x = np.zeros(10)
        breaks = np.arange(10) == 6
        found = method(
            np.arange(10) * 1.0, x, x, threshold=1, minimum_duration=2, breaks=breaks, max_gap=99
        )
        assert both(found.fixations) == [(0, 5), (6, 9)]

    def test_break_at_a_missing_sample(self):
        x = np.zeros(10)
        x[5] = NAN
        found = ivt(
            np.arange(10) * 1.0,
            x,
            x,
            threshold=1,
            minimum_duration=2,
            breaks=np.arange(10) == 5,
            max_gap=99,
        )
        assert both(found.fixations) == [(0, 4), (6, 9)]

    def test_a_blink_does_not_span_a_hole(self):
        at = np.r_[np.arange(0, 100.0), np.arange(1000.0, 1100)]
        pupil = np.full(200, 500.0)
        pupil[60:140] = 0
        blinks, lost = find_blinks(at, pupil)
        assert not len(blinks) and "end of a stretch" in str(lost)


class TestClock:
    """Clocks that step back, stand still, start anew or count in other units."""

    @pytest.mark.parametrize(
        "times",
        [[0, 10, 8, 10], [0, 1, 2, 1, 3, 2, 4], [5, 4, 3, 2, 1], [0.0, 0.010, 0.008, 0.010]],
    )
    def test_out_of_order(self, times):
        times = np.array(times, dtype=float)
        x = np.zeros(len(times))
        with pytest.raises(DataError, match="steps back"):
            track(times, x, x)
        order, breaks, moved = order_of(times)
        assert moved > 0 and not breaks.any()
        assert (np.diff(times[order]) >= 0).all()
        for value in np.unique(times):  # equal times keep the order of the file
            assert (np.diff(order[times[order] == value]) > 0).all()

    @pytest.mark.filterwarnings("ignore:samples")
    def test_equal_times_give_no_infinite_velocity(self):
        at = np.array([0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 4.0])
        v = velocity(at, np.arange(11.0), np.zeros(11), edges="one_sided")
        assert not np.isinf(v).any()
        found = ivt(at, np.arange(11.0), np.zeros(11), threshold=1, minimum_duration=0)
        assert (found.fixations.duration >= 0).all() and (found.saccades.duration >= 0).all()

    def test_new_start_of_the_clock(self):
        order, breaks, moved = order_of([74701.30, 74701.33, 33.98, 34.00])
        assert order.tolist() == [0, 1, 2, 3] and moved == 0
        assert breaks.tolist() == [False, False, True, False]

    def test_new_start_and_disorder(self):
        order, breaks, moved = order_of([9000, 9002, 9001, 5, 7, 6])
        assert order.tolist() == [0, 2, 1, 3, 5, 4] and moved == 4
        assert breaks.tolist() == [False, False, False, True, False, False]

    def test_missing_times_are_missing_samples(self):
        at = np.array([0, 1, NAN, 3, 4])
        found = ivt(at, np.zeros(5), np.zeros(5), threshold=1, minimum_duration=0)
        assert both(found.fixations) == [(0, 1), (3, 4)]
        assert order_of(at)[0].tolist() == [0, 1, 2, 3, 4]

    def test_seconds_in_place_of_milliseconds(self):
        at = np.arange(100) * 0.004
        with pytest.warns(UserWarning, match="milliseconds"):
            track(at, np.zeros(100), np.zeros(100))
        with pytest.raises(DataError, match="rate"):
            track(at, np.zeros(100), np.zeros(100), rate=250)

    @pytest.mark.parametrize("step", [500.0, 1000.0, 16667.0, 4e6])
    def test_microseconds_in_place_of_milliseconds(self, step):
        at = np.arange(100) * step
        with pytest.warns(UserWarning, match="milliseconds"):
            found = track(at, np.zeros(100), np.zeros(100))
        assert [x.count for x in found.lost if "milliseconds" in x.reason] == [100]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for fine in (0.06, 1.0, 16.667, 200.0):
                track(np.arange(100) * fine, np.zeros(100), np.zeros(100))
            track(at, np.zeros(100), np.zeros(100), rate=1000.0 / step)  # stated: meant so

    def test_interval(self):
        assert interval_of(np.array([0, 4, 8, 12, 500, 504.0])) == 4
        assert np.isnan(interval_of(np.array([3.0])))

    def test_decimal_clock(self):
        # 3 samples at 300 Hz last 10 ms, whatever the rounding of the clock
        for decimals in (1, 2, 3, 12):
            at = np.round(np.arange(3) * 1000 / 300, decimals)
            found = idt(at + 1e6, np.zeros(3), np.zeros(3), threshold=1, minimum_duration=9.9)
            assert len(found.fixations) == 1


class TestRefusals:
    X = np.zeros(4)

    @pytest.mark.parametrize(
        "change",
        [
            {"threshold": 0},
            {"threshold": NAN},
            {"minimum_duration": -1},
            {"minimum_duration": NAN},
            {"max_gap": -1},
            {"rate": 0},
            {"velocity": np.zeros((3, 2))},
            {"breaks": [True]},
            {"y": np.zeros(3)},
            {"x": ["a", "b", "c", "d"]},
            {"x": [0, 1, np.inf, 0]},
            {"x": np.zeros((4, 2))},
            {"time": [0, 1]},
        ],
    )
    def test_bad_values(self, change):
        call = {"time": np.arange(4), "x": self.X, "y": self.X, "threshold": 1}
        call |= {"minimum_duration": 0} | change
        with pytest.raises(DataError):
            ivt(call.pop("time"), call.pop("x"), call.pop("y"), **call)

    @pytest.mark.parametrize(
        "change", [{"unit": "sample"}, {"counting": "exclusive"}, {"edges": "nan"}]
    )
    def test_bad_names(self, change):
        with pytest.raises(UnknownNameError):
            ivt(np.arange(4), self.X, self.X, threshold=1, minimum_duration=0, **change)

    def test_idt_counting(self):
        with pytest.raises(UnknownNameError):
            idt([0], [0], [0], threshold=1, minimum_duration=0, counting="x")
