"""Methods of other libraries: REMoDNaV itself where it is installed, stand-ins elsewhere."""

from __future__ import annotations

import sys
import types

import numpy as np
import pandas as pd
import pytest

from gazeattn.errors import CapabilityError, DataError
from gazeattn.events import Geometry, detect, nslr_hmm, remodnav, track
from gazeattn.events.external import _grid


def gaze(rate: float, seconds: float = 4.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return time and degrees: fixations of 400 ms, saccades of 30 ms in the shape of a sine."""
    generator = np.random.default_rng(3)
    at = np.arange(round(seconds * rate)) / rate
    places = generator.uniform(-8, 8, (int(seconds / 0.4) + 2, 2))
    k, into = np.divmod(at, 0.4)
    share = np.clip((into - 0.37) / 0.03, 0, 1)
    share = (1 - np.cos(np.pi * share)) / 2
    k = k.astype(int)
    xy = places[k] + (places[k + 1] - places[k]) * share[:, None]
    xy += generator.normal(0, 0.005, xy.shape)
    return at * 1000.0, xy[:, 0], xy[:, 1]


class TestAbsent:
    @pytest.mark.parametrize(
        "method, module, word",
        [(remodnav, "remodnav.clf", "pip install remodnav"), (nslr_hmm, "nslr_hmm", "remodnav")],
    )
    def test_message(self, method, module, word, monkeypatch):
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.setitem(sys.modules, module.split(".")[0], None)
        with pytest.raises(CapabilityError, match=word):
            method(np.arange(10), np.zeros(10), np.zeros(10))


class TestRemodnav:
    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip("remodnav")

    @pytest.mark.parametrize("rate", [250, 500, 1000])
    def test_fixations_between_saccades(self, rate):
        at, x, y = gaze(rate)
        found = remodnav(at, x, y)
        assert 8 <= len(found.saccades) <= 11
        labelled = [*found.other.values(), found.fixations, found.saccades]
        rows = np.concatenate(
            [np.arange(a, b + 1) for s in labelled for a, b in zip(s.first, s.last, strict=True)]
        )
        assert len(np.unique(rows)) == len(rows)  # no sample is in two events
        starts = np.arange(1, 9) * 400 - 30
        for start in starts:
            assert np.abs(found.saccades.onset - start).min() < 25

    def test_nothing_spans_a_gap(self):
        at, x, y = gaze(500)
        x[600:604] = np.nan
        late = at.copy()
        late[1000:] += 3_600_000  # an hour: must not become an hour of empty samples
        found = remodnav(late, x, y)
        for s in (found.fixations, found.saccades, *found.other.values()):
            for border in (602, 1000):
                assert not ((s.first < border) & (s.last >= border)).any()
        assert len(found.fixations) > 4

    def test_a_break_without_a_hole(self):
        at, x, y = gaze(500)
        found = remodnav(at, x, y, breaks=np.arange(len(at)) == 1050)
        for s in (found.fixations, found.saccades, *found.other.values()):
            assert not ((s.first < 1050) & (s.last >= 1050)).any()

    def test_the_library_sees_samples_on_both_sides_of_a_break_apart(self):
        at = np.r_[0:50, 52:60, 4000:4010] * 4.0  # a hole of 2 samples, one of 15 s
        samples = track(at, at, at, breaks=np.arange(len(at)) == 20)
        place, rate = _grid(samples, 0.0)
        assert rate == 250
        steps = np.diff(place)
        assert steps[[19, 49, 57]].tolist() == [250, 3, 250]
        assert (np.delete(steps, [19, 49, 57]) == 1).all()

    def test_missing_and_short(self):
        nothing = np.full(500, np.nan)
        assert not len(remodnav(np.arange(500), nothing, nothing).fixations)
        assert not len(remodnav([0.0], [1.0], [1.0]).fixations)
        short = remodnav(np.arange(10), np.ones(10), np.ones(10))
        assert not len(short.fixations) and "shorter than the filter" in str(short.lost)

    def test_uneven_clock(self):
        at = np.cumsum(np.repeat([2.0, 2.0, 2.8], 100))
        with pytest.raises(DataError, match="even clock"):
            remodnav(at, np.zeros(300), np.zeros(300))
        rounded = np.round(np.arange(3000) * 1000 / 300)  # 3, 4, 3 ms: an even clock, rounded
        assert len(remodnav(rounded, np.zeros(3000), np.zeros(3000)).fixations) == 1

    def test_settings(self):
        at, x, y = gaze(500)
        found = remodnav(at, x, y, settings={"savgol_length": 0.0, "pursuit_velthresh": 50.0})
        assert found.info["settings"]["pursuit_velthresh"] == 50.0
        assert not len(found.other.get("pursuit", []))
        with pytest.raises(DataError, match="refuses"):
            remodnav(at, x, y, settings={"no_such_thing": 1})
        with pytest.raises(DataError, match="refuses"):
            remodnav(at, x, y, settings={"savgol_length": 0.02})  # an even window

    def test_detect(self):
        geometry = Geometry(1024, 768, 38.0, 30.0, 60.0)
        at, x, y = gaze(500)
        px, py = geometry.to_pixels(x, y)
        data = pd.DataFrame({"time": at, "x": px, "y": py})
        events = detect(data, "remodnav", geometry=geometry)
        want = remodnav(at, x, y)
        assert events.fixations["onset"].tolist() == want.fixations.onset.tolist()
        assert events.saccades["amplitude"].between(0, 25).all()
        assert events.saccades["peak_velocity"].max() > 100
        assert len(events.other) == sum(map(len, want.other.values()))
        assert set(events.other["label"]) <= {"pursuit", "post_saccadic_oscillation"}


class TestNslrHmm:
    """The library is in no registry: a stand-in of its interface takes its place."""

    @pytest.fixture
    def calls(self, monkeypatch):
        module = types.ModuleType("nslr_hmm")
        module.FIXATION, module.SACCADE, module.PSO, module.SMOOTH_PURSUIT = 1, 2, 3, 4
        calls = []

        def classify_gaze(seconds, eye, **settings):
            calls.append((seconds, eye, settings))
            kinds = np.where(eye[:, 0] > 5, 2, 1)
            return np.where(eye[:, 1] > 5, 4, kinds), None, None

        module.classify_gaze = classify_gaze
        monkeypatch.setitem(sys.modules, "nslr_hmm", module)
        return calls

    def test_stretches(self, calls):
        x = np.r_[np.zeros(10), np.full(5, 9.0), np.zeros(10), np.nan, np.zeros(10), np.nan, 0, 0]
        y = np.zeros(len(x))
        y[30:] = 9.0
        found = nslr_hmm(np.arange(len(x)) * 4.0, x, y, settings={"a": 1})
        assert found.fixations.first.tolist() == [0, 15, 26]
        assert found.fixations.last.tolist() == [9, 24, 29]
        assert found.saccades.first.tolist() == [10]
        assert found.other["pursuit"].first.tolist() == [30]
        assert [len(c[0]) for c in calls] == [25, 10]
        assert calls[0][0][1] == 0.004 and calls[0][2] == {"a": 1}
        assert "2 samples undefined: samples in stretches of less than 5" in str(found.lost)

    def test_minimum(self, calls):
        x = np.zeros(10)
        assert len(nslr_hmm(np.arange(10) * 4.0, x, x, minimum_duration=40).fixations) == 1
        assert not len(nslr_hmm(np.arange(10) * 4.0, x, x, minimum_duration=41).fixations)
