"""Reference values of independent implementations: B_saliency.json with B_maps.npz."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from gazeattn.metrics import saliency

TOLERANCE = 1e-9
KL_TOLERANCE = 1e-8
HAT_AREA_TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def reference(golden: Any) -> dict[str, Any]:
    return golden("B_saliency.json")


@pytest.fixture(scope="module")
def arrays(golden: Any) -> dict[str, np.ndarray]:
    return golden.arrays("B_maps.npz")


def of_kind(reference: dict[str, Any], *kinds: str) -> list[dict[str, Any]]:
    found = [c for c in reference["cases"] if c["kind"] in kinds]
    assert found
    return found


def points(fixations: dict[str, list[float]]) -> np.ndarray:
    return np.column_stack([fixations["x"], fixations["y"]])


def near(found: Any, expected: Any, tolerance: float = TOLERANCE) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.fixture(autouse=True)
def constant_maps_are_known() -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*the map is constant")
        yield


def test_every_case_is_of_a_kind_that_is_tested(reference: dict[str, Any]) -> None:
    assert len(reference["cases"]) == 118
    assert {c["kind"] for c in reference["cases"]} == {
        "map_vs_fixations",
        "map_vs_fixations_xy",
        "map_vs_map",
        "information_gain",
        "conditional",
        "full_size",
    }


def test_maps_against_fixations(reference: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    for case in of_kind(reference, "map_vs_fixations"):
        array, expected = arrays[case["map"]], case["expected"]
        sets = reference["fixation_sets"]
        xy = points(sets[case["fixations"]])
        other = [points(sets[k]) for k in case["shuffled_from"]]
        near(saliency.nss(array, xy), expected["nss"])
        near(saliency.nss_per_fixation(array, xy), expected["nss_per_fixation"])
        near(saliency.auc(array, xy), expected["auc_uniform"])
        near(saliency.auc_per_fixation(array, xy), expected["auc_uniform_per_fixation"])
        near(saliency.auc(array, xy, negatives="unfixated"), expected["auc_unfixated"])
        near(saliency.auc_judd(array, xy), expected["auc_judd_no_jitter"])
        near(saliency.shuffled_auc(array, xy, other), expected["sauc"])
        near(saliency.shuffled_auc(array, xy, np.concatenate(other)), expected["sauc"])


def test_many_images_give_the_same(
    reference: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    cases = of_kind(reference, "map_vs_fixations")
    for start in ("fix_pred", "fix_coarse", "fix_sparse", "fix_center", "fix_const"):
        group = [c for c in cases if c["id"].startswith(start)]
        maps = [arrays[c["map"]] for c in group]
        xy = [points(reference["fixation_sets"][c["fixations"]]) for c in group]
        for metric, key in (("nss", "nss"), ("auc", "auc_uniform"), ("shuffled_auc", "sauc")):
            scores = saliency.score_many(metric, maps, xy)
            near(scores.values, [c["expected"][key] for c in group])


def test_other_fixation_cases(reference: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    for case in of_kind(reference, "map_vs_fixations_xy", "full_size"):
        array, expected = arrays[case["map"]], case["expected"]
        xy = points(case["fixations_xy"])
        near(saliency.nss(array, xy), expected["nss"])
        near(saliency.auc(array, xy), expected["auc_uniform"])
        if "auc_judd_no_jitter" in expected:
            near(saliency.auc_judd(array, xy), expected["auc_judd_no_jitter"])
        if "nss_per_fixation" in expected:
            near(saliency.nss_per_fixation(array, xy), expected["nss_per_fixation"])
            near(saliency.auc_per_fixation(array, xy), expected["auc_uniform_per_fixation"])


def test_conventions_of_other_code_at_fixations(
    reference: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    n = 0
    for case in of_kind(reference, "map_vs_fixations"):
        array, peers = arrays[case["map"]], case["peers"]
        xy = points(reference["fixation_sets"][case["fixations"]])
        if case["map"] == "const":
            continue  # they give NaN
        near(saliency.auc_judd(array, xy, convention="mit"), peers["mit_auc_judd"])
        if array.min() >= 0:
            near(saliency.nss(array, xy, convention="mit"), peers["mit_nss"])
        n += 1
    assert n == 30


def test_information_gain(reference: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    for case in of_kind(reference, "information_gain"):
        expected, peers = case["expected"], case["peers"]
        density = arrays[case["map"]]
        baseline = None if case["baseline"] == "uniform" else arrays[case["baseline"]]
        xy = points(reference["fixation_sets"][case["fixations"]])
        near(saliency.information_gain(density, xy, baseline), expected["ig_bits"])
        near(
            saliency.information_gain_per_fixation(density, xy, baseline),
            expected["ig_bits_per_fixation"],
        )
        near(saliency.log_likelihood(density, xy), expected["log_likelihood_nats"])
        hat = saliency.information_gain(density, xy, baseline, convention="hat")
        near(hat, peers["hat_info_gain"])
        mit = saliency.information_gain(density, xy, baseline, convention="mit")
        if peers["mit_infogain"] is None:
            assert math.isnan(mit)
        else:
            near(mit, peers["mit_infogain"])


def test_maps_against_maps(reference: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    for case in of_kind(reference, "map_vs_map"):
        a, b, expected = arrays[case["map"]], arrays[case["reference"]], case["expected"]
        near(saliency.sim(a, b), expected["sim"])
        near(saliency.kl_div(a, b), expected["kld_mit"], KL_TOLERANCE)
        near(saliency.kl_div(a, b, convention="kld_1e-20"), expected["kld_1e-20"], KL_TOLERANCE)
        if np.ptp(a) == 0 or np.ptp(b) == 0:
            assert math.isnan(saliency.cc(a, b)) and math.isnan(saliency.cc(b, a))
        else:
            near(saliency.cc(a, b), expected["cc"])


def test_conventions_of_other_code_between_maps(
    reference: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    n = 0
    for case in of_kind(reference, "map_vs_map"):
        a, b, peers = arrays[case["map"]], arrays[case["reference"]], case["peers"]
        if np.ptp(a) > 0 and np.ptp(b) > 0:
            near(saliency.sim(a, b, convention="mit"), peers["mit_sim"])
        if a.min() >= 0 and a.max() > 0:
            near(saliency.kl_div(a, b, convention="mit"), peers["mit_kld"], KL_TOLERANCE)
            near(saliency.kl_div(a, b, convention="hat"), peers["hat_vam_kldiv"], KL_TOLERANCE)
            n += 1
    assert n > 40


def test_conditional(reference: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    for case in of_kind(reference, "conditional"):
        maps = [saliency.to_density(arrays[s["map"]]) for s in case["per_step"]]
        xy = np.array([s["fixation"] for s in case["per_step"]])
        baseline, expected = arrays[case["baseline"]], case["expected"]
        near(saliency.cnss(maps, xy), expected["cNSS"])
        near(saliency.cig(maps, xy, baseline), expected["cIG"])
        near(saliency.cauc(maps, xy), expected["cAUC_pysaliency"])
        near(saliency.cauc_hat(maps, xy), expected["cAUC_hat"], HAT_AREA_TOLERANCE)
        steps = saliency.per_step("cnss", np.stack(maps), xy)
        near(steps, [s["cNSS"] for s in case["per_step"]])
        steps = saliency.per_step("cig", maps, xy, baseline)
        near(steps, [s["cIG"] for s in case["per_step"]])
