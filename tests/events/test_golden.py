"""Reference events, thresholds and velocities recorded from other implementations."""

from __future__ import annotations

import numpy as np
import pytest

from gazeattn.events import (
    engbert_kliegl,
    idt,
    ivt,
    saccade_measures,
    velocity,
    velocity_noise,
)

TOLERANCE = 1e-9


@pytest.fixture(scope="module")
def reference(golden):
    return golden("E_events.json")["cases"], golden.arrays("E_events.npz")


def cases(reference, kind: str):
    found = [case for case in reference[0] if case["kind"] == kind]
    assert found
    return found


def test_velocity(reference):
    arrays = reference[1]
    names = [name for name in arrays if name.endswith("__vel")]
    assert names
    for name in names:
        xy = arrays[name.removesuffix("__vel")]
        rate = 500 if name.startswith("micro") else 250
        for time, given in ((np.arange(len(xy)) * 1000 / rate, None), (None, rate)):
            found = velocity(time, xy[:, 0], xy[:, 1], rate=given)
            np.testing.assert_allclose(found, arrays[name], rtol=0, atol=TOLERANCE)


def test_thresholds(reference):
    for case in cases(reference, "threshold"):
        for method, expected in case["expected"].items():
            found = velocity_noise(reference[1][case["velocities"]], method)
            np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


def test_microsaccades(reference):
    for case in cases(reference, "microsaccades"):
        x, y = reference[1][case["positions"]].T
        expected, wanted = case["expected"], case["params"]
        found = engbert_kliegl(
            np.arange(len(x)) * 1000 / case["sampling_rate"],
            x,
            y,
            factor=wanted["vfac"],
            minimum_saccade=wanted["min_samples"],
            unit="samples",
        )
        events = np.column_stack([found.saccades.first, found.saccades.last])
        assert events.tolist() == expected["onset_offset"], case["id"]
        measures = saccade_measures(x, y, found.velocity, found.saccades)
        pairs = {
            "threshold_radius": found.info["radius"],
            "dx_dy": np.column_stack([measures.dx, measures.dy]),
            "amp_x_y": np.column_stack([measures.range_x, measures.range_y]),
            "peak_velocity_inclusive": measures.peak_velocity,
        }
        for name, values in pairs.items():
            if name in expected:
                np.testing.assert_allclose(
                    values, expected[name], rtol=0, atol=TOLERANCE, err_msg=f"{case['id']} {name}"
                )


def test_microsaccade_minimum_in_ms_is_the_same(reference):
    for case in cases(reference, "microsaccades"):
        x, y = reference[1][case["positions"]].T
        step = 1000 / case["sampling_rate"]
        n = case["params"]["min_samples"]
        for minimum, counting in ((n * step, "inclusive"), ((n - 1) * step, "span")):
            found = engbert_kliegl(
                np.arange(len(x)) * step,
                x,
                y,
                factor=case["params"]["vfac"],
                minimum_saccade=minimum,
                counting=counting,
            )
            events = np.column_stack([found.saccades.first, found.saccades.last])
            assert events.tolist() == case["expected"]["onset_offset"]


def test_ivt(reference):
    for case in cases(reference, "ivt"):
        x, y = reference[1][case["velocities"].removesuffix("__vel")].T
        time = np.arange(len(x)) * case["time_step_ms"]
        for ready in (None, reference[1][case["velocities"]]):
            found = ivt(
                time,
                x,
                y,
                threshold=case["params"]["velocity_threshold"],
                minimum_duration=case["params"]["minimum_duration_ms"],
                counting="span",
                velocity=ready,
            ).fixations
            events = np.column_stack([found.onset, found.offset])
            assert events.tolist() == case["expected"]["onset_offset_ms"], case["id"]


def test_idt(reference):
    for case in cases(reference, "idt"):
        x, y = reference[1][case["positions"]].T
        time = np.arange(len(x)) * case["time_step_ms"]
        found = idt(
            time,
            x,
            y,
            threshold=case["params"]["dispersion_threshold"],
            minimum_duration=case["params"]["minimum_duration_ms"],
        ).fixations
        events = np.column_stack([found.onset, found.offset])
        assert events.tolist() == case["expected"]["onset_offset_ms"], case["id"]
