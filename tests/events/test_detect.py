"""From a table of samples to tables of events."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.events import Geometry, detect
from gazeattn.recordings import BLINKS, FIXATION_EVENTS, SACCADES, Recording

GEOMETRY = Geometry(1024, 768, 38.0, 30.0, 60.0)
PLACES = [(200, 200), (500, 200), (800, 400), (300, 600)]


def gaze(seed: int = 0, each: int = 100, noise: float = 0.3) -> np.ndarray:
    generator = np.random.default_rng(seed)
    place = np.repeat(np.array(PLACES, dtype=float), each, axis=0)
    return place + generator.normal(0, noise, place.shape)


def table(**columns) -> pd.DataFrame:
    """400 samples at 500 Hz: four fixations of 200 ms each, pupil 900."""
    xy = gaze()
    data = {"participant": "007", "trial": "1", "block": 0, "time": 1000 + np.arange(400) * 2.0}
    data |= {"x_left": xy[:, 0], "y_left": xy[:, 1], "pupil_left": 900.0}
    return pd.DataFrame({**data, **columns})


def two_eyes() -> pd.DataFrame:
    xy = gaze(1)
    return table(x_right=xy[:, 0] + 4, y_right=xy[:, 1], pupil_right=800.0)


@pytest.mark.parametrize("method", ["ivt", "idt", "engbert_kliegl"])
class TestEveryMethod:
    def test_fixations_and_saccades(self, method):
        events = detect(table(), method, geometry=GEOMETRY)
        fixations = events.fixations
        assert len(fixations) == 4
        np.testing.assert_allclose(fixations[["x", "y"]], PLACES, atol=5.0)
        assert (fixations["duration"].between(180, 200)).all()
        assert fixations["eye"].tolist() == ["left"] * 4
        assert fixations["participant"].tolist() == ["007"] * 4
        assert (fixations["pupil"] == 900).all() and fixations["area"].isna().all()
        assert (fixations["samples"] * 2 == fixations["duration"]).all()
        assert (fixations["missing"] == 0).all()
        assert events.method == method and events.parameters["minimum_duration"] == 60
        if method != "idt":  # its windows may follow each other without a sample between
            assert len(events.saccades) == 3
            angle = np.hypot(*np.diff(GEOMETRY.to_degrees(*np.array(PLACES).T), axis=1))
            np.testing.assert_allclose(events.saccades["amplitude"], angle, rtol=0.01)
            assert (events.saccades["peak_velocity"] > 300).all()

    def test_schema(self, method):
        for data in (table(), table().iloc[:0], table(x_left=np.nan)):
            events = detect(data, method, geometry=GEOMETRY)
            Recording(
                "made", "made", None, events.fixations, events.saccades, events.blinks
            ).check()
            assert list(events.fixations)[: len(FIXATION_EVENTS)] == list(FIXATION_EVENTS)
            assert list(events.saccades)[: len(SACCADES)] == list(SACCADES)
            assert list(events.blinks) == list(BLINKS)

    def test_missing_samples_give_no_event(self, method):
        data = table(x_left=np.nan, y_left=np.nan, pupil_left=0.0)
        events = detect(data, method, geometry=GEOMETRY)
        assert not len(events.fixations) and not len(events.saccades) and not len(events.blinks)
        assert events.lost.count(kind="undefined") == 400
        assert "0 of 400" in str(events.lost)

    @pytest.mark.parametrize("key", ["participant", "trial", "block"])
    @pytest.mark.parametrize("max_gap", [0.0, 1e6])
    def test_nothing_spans_a_border(self, method, key, max_gap):
        data = table(x_left=200.0 + gaze()[:, 1] * 1e-3, y_left=gaze()[:, 0] * 1e-3)
        data[key] = np.where(np.arange(400) < 250, "1", "2")
        events = detect(
            data, method, geometry=GEOMETRY, max_gap=max_gap, **self.calm(method)
        ).fixations
        assert not events.empty
        end = events["onset"] + events["duration"]
        assert not ((events["onset"] < 1500) & (end > 1500)).any()
        assert set(events[key].astype(str)) == {"1", "2"}

    @staticmethod
    def calm(method):
        return {"threshold": (9, 9)} if method == "engbert_kliegl" else {}

    def test_nothing_spans_a_gap(self, method):
        data = table(x_left=500.0 + gaze()[:, 0] * 1e-4, y_left=300 + gaze()[:, 1] * 1e-4)
        data.loc[200:, "time"] += 800
        events = detect(data, method, geometry=GEOMETRY, **self.calm(method))
        assert events.fixations["onset"].tolist() == [1000, 2200]
        assert events.fixations["duration"].tolist() == [400, 400]
        assert events.fixations["missing"].tolist() == [0, 0]  # the hole is in neither
        assert "2 events note: fixations cut at a gap" in str(events.lost)

    def test_trials_one_by_one(self, method):
        a, b = table(), table(trial="2")
        b["time"] += 5000
        joined = detect(pd.concat([a, b], ignore_index=True), method, geometry=GEOMETRY)
        for trial, part in (("1", a), ("2", b)):
            alone = detect(part, method, geometry=GEOMETRY)
            mine = joined.fixations[joined.fixations["trial"] == trial].reset_index(drop=True)
            pd.testing.assert_frame_equal(mine, alone.fixations)

    def test_every_pair_of_participant_and_trial_is_a_group(self, method):
        parts = [table(participant=p, trial=t) for p in ("A", "B") for t in ("1", "2")]
        events = detect(pd.concat(parts, ignore_index=True), method, geometry=GEOMETRY)
        found = events.fixations.groupby(["participant", "trial"], sort=False).size()
        assert found.tolist() == [4] * 4
        assert found.index.tolist() == [("A", "1"), ("A", "2"), ("B", "1"), ("B", "2")]
        assert "repaired" not in str(events.lost)

    def test_the_samples_stay_as_they_are(self, method):
        data = two_eyes()
        before = data.copy()
        detect(data, method, geometry=GEOMETRY, blink_padding=10)
        pd.testing.assert_frame_equal(data, before)


class TestUnits:
    @pytest.mark.parametrize("method", ["ivt", "idt", "remodnav", "nslr_hmm"])
    def test_degrees_need_a_geometry(self, method):
        with pytest.raises(DataError, match="geometry"):
            detect(table(), method)
        with pytest.raises(DataError, match="geometry"):
            detect(table(), method, threshold_unit="degrees")

    def test_pixels_need_a_threshold(self):
        with pytest.raises(DataError, match="threshold="):
            detect(table(), "ivt", threshold_unit="pixels")
        events = detect(table(), "ivt", threshold_unit="pixels", threshold=1000)
        assert len(events.fixations) == 4 and len(events.saccades) == 3
        assert events.saccades["amplitude"].isna().all()
        assert events.saccades["x_start"].notna().all()
        assert "3 saccades undefined: amplitude" in str(events.lost)

    def test_pixel_thresholds_with_geometry_keep_degrees_for_the_table(self):
        events = detect(
            table(), "ivt", geometry=GEOMETRY, threshold_unit="pixels", threshold=1000
        ).saccades
        assert events["amplitude"].between(5, 20).all()
        assert events["peak_velocity"].between(1000, 4000).all()

    def test_positions_in_degrees(self):
        x, y = GEOMETRY.to_degrees(table()["x_left"], table()["y_left"])
        data = table(x_left=x, y_left=y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            events = detect(data, "ivt", geometry=GEOMETRY, positions="degrees")
            bare = detect(data, "ivt", positions="degrees")
        pixels = detect(table(), "ivt", geometry=GEOMETRY)
        pd.testing.assert_frame_equal(events.saccades, pixels.saccades)
        pd.testing.assert_frame_equal(events.fixations, pixels.fixations)
        assert bare.fixations["x"].abs().max() < 20 and "degrees as given" in str(bare.lost)

    @pytest.mark.parametrize("dtype", ["float64", "Int64", "int64"])
    @pytest.mark.parametrize("geometry", [GEOMETRY, None])
    def test_degrees_fed_as_pixels_raise_a_doubt(self, dtype, geometry):
        x = pd.Series(np.r_[np.full(200, -10), np.full(200, 10)], dtype=dtype)
        if dtype == "Int64":
            x[50:53] = pd.NA
        data = table(x_left=x, y_left=x)
        with pytest.warns(UserWarning, match="degrees"):
            events = detect(data, "engbert_kliegl", geometry=geometry, threshold="std")
        assert "degrees" in str(events.lost)
        assert events.parameters["positions"] == "pixels"

    def test_pixels_fed_as_degrees_raise(self):
        with pytest.raises(DataError, match="within 90"):
            detect(table(), positions="degrees")

    def test_integer_columns_with_gaps(self):
        data = table()
        whole = data.assign(
            x_left=data["x_left"].round().astype("Int64"),
            y_left=data["y_left"].round().astype("Int64"),
            time=data["time"].astype("int64"),
        )
        whole.loc[50:52, ["x_left", "y_left"]] = pd.NA
        events = detect(whole, "ivt", geometry=GEOMETRY, threshold=60)
        assert events.fixations["onset"].iloc[:2].tolist() == [1000, 1106]
        joined = detect(whole, "ivt", geometry=GEOMETRY, threshold=60, max_gap=6)
        assert joined.fixations["missing"].tolist() == [3, 0, 0, 0]
        assert joined.fixations["onset"].iloc[0] == 1000

    def test_off_screen_is_counted(self):
        data = table()
        data.loc[:4, "x_left"] = -50.0
        assert "5 values note: x outside" in str(detect(data, geometry=GEOMETRY).lost)


class TestClock:
    def test_samples_out_of_order(self):
        data = table()
        mixed = data.iloc[[*range(100), 101, 100, *range(102, 400)]]
        events = detect(mixed, geometry=GEOMETRY)
        pd.testing.assert_frame_equal(events.fixations, detect(data, geometry=GEOMETRY).fixations)
        assert "2 samples repaired: samples out of order" in str(events.lost)
        with pytest.raises(DataError, match="steps back"):
            detect(mixed, geometry=GEOMETRY, strict=True)

    def test_new_start_of_the_clock_keeps_file_order(self):
        data = table()
        data["time"] += 1e6
        data.loc[200:, "time"] -= 9e5
        events = detect(data, geometry=GEOMETRY)
        assert len(events.fixations) == 4
        assert (events.fixations["duration"] > 0).all()
        assert "1 breaks note: the clock starts anew" in str(events.lost)

    def test_rate_in_place_of_time(self):
        events = detect(table().drop(columns="time"), geometry=GEOMETRY, rate=500)
        want = detect(table(), geometry=GEOMETRY).fixations
        np.testing.assert_allclose(events.fixations["onset"], want["onset"] - 1000)
        with pytest.raises(DataError, match="rate"):
            detect(table().drop(columns="time"), geometry=GEOMETRY)

    def test_samples_without_time_are_counted(self):
        data = table()
        data.loc[3, "time"] = np.nan
        assert "1 samples dropped: samples without a time" in str(
            detect(data, geometry=GEOMETRY).lost
        )

    def test_the_same_trial_twice_stays_apart(self):
        a, b = table(), table(block=1)
        events = detect(pd.concat([a, b], ignore_index=True), geometry=GEOMETRY).fixations
        assert events["block"].tolist() == [0] * 4 + [1] * 4


class TestEyes:
    def test_each(self):
        events = detect(two_eyes(), geometry=GEOMETRY)
        assert events.fixations["eye"].tolist() == ["left", "right"] * 4
        one = detect(two_eyes(), geometry=GEOMETRY, eye="right").fixations
        assert one["eye"].tolist() == ["right"] * 4
        np.testing.assert_allclose(one["x"], [p[0] + 4 for p in PLACES], atol=5)

    def test_no_stated_eye(self):
        data = table().rename(columns=lambda c: c.replace("_left", ""))
        events = detect(data, geometry=GEOMETRY)
        assert events.fixations["eye"].isna().all() and len(events.fixations) == 4
        with pytest.raises(CapabilityError, match="left"):
            detect(data, geometry=GEOMETRY, eye="left")

    def test_an_empty_eye_was_not_recorded(self):
        data = two_eyes()
        data[["x_right", "y_right"]] = np.nan
        assert set(detect(data, geometry=GEOMETRY).fixations["eye"]) == {"left"}

    def test_mean(self):
        events = detect(two_eyes(), geometry=GEOMETRY, eye="mean").fixations
        assert events["eye"].tolist() == ["both"] * 4
        np.testing.assert_allclose(events["x"], [p[0] + 2 for p in PLACES], atol=5)
        assert (events["pupil"] == 850).all()

    def test_binocular_saccades_are_in_each_eye(self):
        data = two_eyes()
        data.loc[250:, "x_left"] += 60  # a step of the left eye alone
        both = detect(data, "engbert_kliegl", geometry=GEOMETRY, eye="binocular")
        assert len(both.saccades) == 3 and (both.saccades["eye"] == "both").all()
        for eye in ("left", "right"):
            one = detect(data, "engbert_kliegl", geometry=GEOMETRY, eye=eye).saccades
            for onset, length in both.saccades[["onset", "duration"]].to_numpy():
                end = one["onset"] + one["duration"]
                assert ((one["onset"] < onset + length) & (end > onset)).any()
        assert "1 events dropped: saccades of the left eye alone" in str(both.lost)
        assert len(both.fixations) == 4

    def test_both_eyes_must_be_there(self):
        for eye in ("mean", "binocular"):
            with pytest.raises(CapabilityError, match="x_right"):
                detect(table(), "engbert_kliegl", eye=eye, geometry=GEOMETRY)
        with pytest.raises(DataError, match="binocular"):
            detect(two_eyes(), "ivt", eye="binocular", geometry=GEOMETRY)


class TestBlinks:
    @staticmethod
    def blinking() -> pd.DataFrame:
        data = table()
        data.loc[140:169, "pupil_left"] = 0.0  # 60 ms
        data.loc[140:169, ["x_left", "y_left"]] = np.nan
        return data

    def test_pupil(self):
        events = detect(self.blinking(), geometry=GEOMETRY)
        assert events.blinks[["onset", "duration", "eye"]].to_numpy().tolist() == [
            [1280.0, 60.0, "left"]
        ]

    def test_padding_shortens_fixations_and_is_counted(self):
        bare = detect(self.blinking(), geometry=GEOMETRY, minimum_duration=10)
        padded = detect(
            self.blinking(), geometry=GEOMETRY, minimum_duration=10, blink_padding=(10, 20)
        )
        end = bare.fixations["onset"] + bare.fixations["duration"]
        assert 1280 in end.tolist() and 1340 in bare.fixations["onset"].tolist()
        end = padded.fixations["onset"] + padded.fixations["duration"]
        assert 1270 in end.tolist() and 1360 in padded.fixations["onset"].tolist()
        assert "15 samples dropped: samples in blinks" in str(padded.lost)
        assert "30 samples undefined: samples without" in str(padded.lost)

    def test_table_of_the_tracker(self):
        own = pd.DataFrame(
            {
                "participant": ["007", "007", "008"],
                "block": [0, 0, 0],
                "eye": ["left", "right", "left"],
                "onset": [1280.0, 1000, 1000],
                "duration": [60.0, 800, 800],
                "area": [None, None, None],
            }
        )
        events = detect(
            self.blinking(), geometry=GEOMETRY, blinks=own, minimum_duration=10, blink_padding=10
        )
        pd.testing.assert_frame_equal(events.blinks, own)
        end = events.fixations["onset"] + events.fixations["duration"]
        assert 1270 in end.tolist() and 1350 in events.fixations["onset"].tolist()

    def test_without_a_pupil_nothing_is_invented(self):
        data = self.blinking().drop(columns="pupil_left")
        events = detect(data, geometry=GEOMETRY)
        assert not len(events.blinks) and "no pupil column" in str(events.lost)
        with pytest.raises(DataError, match="pupil"):
            detect(data, geometry=GEOMETRY, blink_padding=10)
        assert len(detect(data, geometry=GEOMETRY, blinks="position").blinks) == 1
        assert not len(detect(data, geometry=GEOMETRY, blinks=None).blinks)

    def test_limits(self):
        for limits, n in (({"minimum_blink": 61}, 0), ({"maximum_blink": 59}, 0), ({}, 1)):
            assert len(detect(self.blinking(), geometry=GEOMETRY, **limits).blinks) == n


class TestOtherEvents:
    """Events that lack a part are kept with the part missing."""

    def test_saccade_without_amplitude(self):
        events = detect(table(), "engbert_kliegl")  # no geometry
        assert len(events.saccades) == 3 and events.saccades["amplitude"].isna().all()

    def test_saccade_of_one_sample(self):
        x = np.r_[np.full(200, 100.0), 500.0, np.full(199, 100.0)]
        events = detect(
            table(x_left=x, y_left=100.0), "idt", geometry=GEOMETRY, minimum_duration=20
        )
        assert events.saccades["samples"].tolist() == [1]
        assert events.saccades["amplitude"].isna().tolist() == [True]
        assert events.saccades["duration"].tolist() == [2]
        assert "of one sample have no amplitude" in str(events.lost)

    def test_blink_without_duration(self):
        own = pd.DataFrame({"onset": [1100.0, 1280.0], "duration": [np.nan, 60.0]})
        events = detect(table(), geometry=GEOMETRY, blinks=own)
        assert len(events.blinks) == 2
        assert "1 blinks undefined" in str(events.lost)


@pytest.mark.parametrize("eye", ["left", "binocular"])
def test_microsaccades_stay_within_a_fixation(eye):
    data = two_eyes()
    steps = np.where(np.arange(400) >= 50, 15.0, 0.0)  # half a degree, both eyes
    data["x_left"], data["x_right"] = data["x_left"] + steps, data["x_right"] + steps
    every = detect(data, "engbert_kliegl", geometry=GEOMETRY, eye=eye)
    assert len(every.saccades) == 4 and not len(every.other)
    split = detect(data, "engbert_kliegl", geometry=GEOMETRY, eye=eye, maximum_microsaccade=1.0)
    assert len(split.saccades) == 3 and len(split.fixations) == 4
    small = split.other
    assert small["label"].tolist() == ["microsaccade"]
    assert small["amplitude"].between(0.4, 0.7).all()
    first = split.fixations.iloc[0]
    assert first["onset"] < small["onset"][0] < first["onset"] + first["duration"]
    assert len(every.fixations) == 5


def test_a_trial_without_spread_does_not_stop_the_others():
    still = table(trial="2", x_left=np.repeat([100.0, 300.0], 200), y_left=300.0)
    data = pd.concat([still, table()], ignore_index=True)
    with pytest.warns(UserWarning, match="no spread"):
        events = detect(data, "engbert_kliegl", geometry=GEOMETRY)
    assert set(events.fixations["trial"]) == {"1"} and len(events.saccades) == 3
    assert "1 streams undefined: velocity without spread" in str(events.lost)


class TestRefusals:
    def test_names(self):
        with pytest.raises(UnknownNameError, match="ivt"):
            detect(table(), "i-vt", geometry=GEOMETRY)
        with pytest.raises(UnknownNameError, match="threshold"):
            detect(table(), "ivt", geometry=GEOMETRY, treshold=3)
        for name in ("eye", "positions", "blinks", "threshold_unit"):
            with pytest.raises(UnknownNameError):
                detect(table(), geometry=GEOMETRY, **{name: "other"})

    def test_tables(self):
        with pytest.raises(DataError, match="no position"):
            detect(table().drop(columns="x_left"), geometry=GEOMETRY)
        with pytest.raises(DataError, match="x_left"):
            detect(table(x_left="here"), geometry=GEOMETRY)
        with pytest.raises(DataError, match="clock"):
            detect(table(), geometry=GEOMETRY, unit="samples")
        with pytest.raises(DataError, match="no blinks to pad"):
            detect(table(), geometry=GEOMETRY, blinks=None, blink_padding=3)

    def test_parameters_are_recorded(self):
        found = detect(table(), geometry=GEOMETRY, threshold=40, max_gap=20).parameters
        assert found["threshold"] == 40 and found["max_gap"] == 20
        assert found["geometry"] == GEOMETRY and found["counting"] == "inclusive"
        found = detect(table(), "engbert_kliegl", geometry=GEOMETRY).parameters["streams"]
        assert found[0]["eye"] == "left" and len(found[0]["radius"]) == 2


@pytest.mark.parametrize("unit", [1e-3, 1e3])
@pytest.mark.parametrize("method", ["ivt", "idt", "engbert_kliegl"])
def test_times_that_are_no_milliseconds_are_doubted_in_the_log(unit, method):
    still = np.repeat([100.0, 400.0, 100.0], 100)
    noise = np.random.default_rng(1).normal(0, 0.5, (2, 300))
    samples = pd.DataFrame(
        {"time": np.arange(300) * 4 * unit, "x": still + noise[0], "y": 200 + noise[1]}
    )
    options = {} if method == "engbert_kliegl" else {"threshold_unit": "pixels"}
    if method == "ivt":
        options["threshold"] = 1000.0 / unit
    if method == "idt":
        options["threshold"] = 50.0
    with pytest.warns(UserWarning, match="milliseconds"):
        found = detect(samples, method, blinks=None, **options)
    assert [x.count for x in found.lost if "are the times in milliseconds" in x.reason] == [300]
