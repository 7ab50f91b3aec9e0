"""Euclidean, Hausdorff, Mannan, Eyenalysis, discs; dtw and discrete Frechet."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.scanpath._packed import pack
from gazeattn.metrics.scanpath.distances import (
    disc_overlap,
    euclidean,
    eyenalysis,
    hausdorff,
    hausdorff_pairs,
    mannan,
    mannan_similarity,
)
from gazeattn.metrics.scanpath.warping import discrete_frechet, dtw, dtw_pairs

# many paths here are off the stimulus on purpose; test_contract looks at the warnings
pytestmark = pytest.mark.filterwarnings("ignore:.*off the stimulus")

# distances: a0 to b 4, 5, 3... in the rows below
A = np.array([[0.0, 0.0], [3.0, 0.0]])
B = np.array([[0.0, 4.0], [3.0, 4.0], [3.0, 0.0]])


def test_by_hand() -> None:
    # |a_i - b_j| = [[4, 5, 3], [5, 4, 0]]
    assert dtw(A, B) == 8  # 4, then 4 on the diagonal, then 0
    assert discrete_frechet(A, B) == 4
    assert hausdorff(A, B) == 4  # to the nearest: a 3, 0; b 4, 4, 0
    assert euclidean(A, B) == 4
    assert euclidean(A, B, convention="sum_truncated") == 8
    assert math.isnan(euclidean(A, B, convention="frobenius"))
    assert euclidean(A, B[1:], convention="frobenius") == pytest.approx(5)  # sqrt(25 + 0)
    # W^2 + H^2 = 100, n = 2, m = 3, sums of squares 9 (a) and 32 (b)
    assert mannan(A, B, size=(6, 8)) == pytest.approx((2 * 32 + 3 * 9) / 1200, abs=1e-15)
    assert mannan(A, B, size=(6, 8), convention="rAm1n") == pytest.approx(
        (3 * 32 + 2 * 9) / 1200, abs=1e-15
    )
    assert eyenalysis(A, B) == pytest.approx(11 / 3)
    assert eyenalysis(A, B, squared=True) == pytest.approx(41 / 3)


def test_discs_by_hand() -> None:
    # two unit discs whose centres are one radius apart: lens 2 pi/3 - sqrt(3)/2
    lens = 2 * math.pi / 3 - math.sqrt(3) / 2
    iou = lens / (2 * math.pi - lens)
    got = disc_overlap([[0, 0], [100, 0]], [[10, 0]], radius=10)
    assert got.precision == pytest.approx(iou / 2)  # the second fixation meets nothing
    assert got.recall == pytest.approx(iou)
    assert got.fdiss == pytest.approx(2 * (iou / 2) * iou / (iou / 2 + iou))
    assert disc_overlap([[0, 0]], [[20, 0]], radius=10) == (0, 0, 0)  # touching discs
    assert disc_overlap(A, A, radius=1) == (1, 1, 1)


def test_golden(golden) -> None:
    paths = golden("scanpaths.json")["scanpaths"]
    compared = 0
    for case in golden("A_distances.json")["cases"]:
        first, second = paths[case["a"]], paths[case["b"]]
        a, b = (np.c_[p["x"], p["y"]] for p in (first, second))
        size = (first["width"], first["height"])
        want = case["expected"]
        got = {
            "hausdorff": (hausdorff(a, b), 1e-9),
            "frechet": (discrete_frechet(a, b), 1e-9),
            "dtw": (dtw(a, b), 1e-6),
            "euclidean_mean_truncated": (euclidean(a, b), 1e-9),
            "euclidean_sum_truncated": (euclidean(a, b, convention="sum_truncated"), 1e-9),
            "mannan_d2": (mannan(a, b, size=size), 1e-12),
            "eyenalysis": (eyenalysis(a, b), 1e-9),
            "eyenalysis_squared": (eyenalysis(a, b, squared=True), 1e-9),
        }
        for name, (value, tolerance) in got.items():
            assert value == pytest.approx(want[name], abs=tolerance, rel=1e-14), (case["id"], name)
        frobenius = euclidean(a, b, convention="frobenius")
        if "euclidean_frobenius" in want:
            assert frobenius == pytest.approx(want["euclidean_frobenius"], abs=1e-9)
        else:
            assert math.isnan(frobenius) and len(a) != len(b)
        swapped = case["peers"].get("mannan_d2", {}).get("rAm1n_inner_D")
        if swapped is not None:
            assert mannan(a, b, size=size, convention="rAm1n") == pytest.approx(swapped, abs=1e-12)
        for radius in (45, 100):
            discs = disc_overlap(a, b, radius=radius)._asdict()
            assert discs == pytest.approx(want[f"fdiss_r{radius}"], abs=1e-12), case["id"]
        compared += 1
    assert compared >= 1


def _slow(a: np.ndarray, b: np.ndarray, join) -> float:
    cost = np.hypot(*(a[:, None] - b[None]).transpose(2, 0, 1))
    table = np.full((len(a) + 1, len(b) + 1), np.inf)
    for i in range(len(a)):
        for j in range(len(b)):
            best = min(table[i, j], table[i, j + 1], table[i + 1, j])
            table[i + 1, j + 1] = cost[i, j] if i == j == 0 else join(best, cost[i, j])
    return table[-1, -1]


@pytest.mark.parametrize("cells", [1 << 17, 0], ids=["whole table", "diagonals"])
def test_tables_equal_the_plain_loop_at_all_shapes(cells: int, monkeypatch) -> None:
    monkeypatch.setattr("gazeattn.metrics.scanpath.warping.CELLS", cells)
    rng = np.random.default_rng(5)
    paths = [rng.uniform(0, 500, (n, 2)) for n in (1, 2, 3, 7, 19, 40, 1, 12)]
    i, j = (v.ravel() for v in np.indices((len(paths), len(paths))))
    packed = pack(paths)
    got = dtw_pairs(packed, packed, i, j)
    for k, (p, q) in enumerate(zip(i, j, strict=True)):
        assert got[k] == pytest.approx(_slow(paths[p], paths[q], lambda x, y: x + y), rel=1e-13)
        assert discrete_frechet(paths[p], paths[q]) == pytest.approx(
            _slow(paths[p], paths[q], max), rel=1e-13
        )


def test_more_pairs_than_a_block_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    packed = pack([rng.uniform(0, 500, (n, 2)) for n in rng.integers(1, 15, 30)])
    i, j = rng.integers(0, 30, (2, 500))
    whole = [kernel(packed, packed, i, j) for kernel in (dtw_pairs, hausdorff_pairs)]
    monkeypatch.setattr("gazeattn.metrics.scanpath._blocks.CELLS", 64)
    monkeypatch.setattr("gazeattn.metrics.scanpath.distances.CELLS", 8)
    for kernel, expected in zip((dtw_pairs, hausdorff_pairs), whole, strict=True):
        np.testing.assert_array_equal(kernel(packed, packed, i, j), expected)


coordinates = st.floats(-2000, 2000, allow_nan=False).map(lambda v: round(v, 3))
points = st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=9)


@settings(max_examples=60, deadline=None)
@given(points, points)
def test_order_of_the_distances(a, b) -> None:
    # every alignment meets the farthest nearest neighbour, and every sum holds its greatest term
    tolerance = 1e-9
    assert hausdorff(a, b) <= discrete_frechet(a, b) + tolerance
    assert discrete_frechet(a, b) <= dtw(a, b) + tolerance
    assert euclidean(a, b) * min(len(a), len(b)) == pytest.approx(
        euclidean(a, b, convention="sum_truncated")
    )
    if len(a) == len(b):
        assert dtw(a, b) <= euclidean(a, b, convention="sum_truncated") + tolerance
        assert mannan(a, b, size=(9, 9)) == pytest.approx(
            mannan(a, b, size=(9, 9), convention="rAm1n")
        )


def test_mannan_similarity() -> None:
    rng = np.random.default_rng(0)
    size = (800, 600)
    path = rng.uniform(size=(12, 2)) * size
    assert mannan_similarity(path, path, size=size) == 100
    others = [rng.uniform(size=(12, 2)) * size for _ in range(40)]
    assert abs(np.mean([mannan_similarity(path, o, size=size, draws=300) for o in others])) < 8
    corner = np.zeros((12, 2))
    assert mannan_similarity(corner, corner + size, size=size) < 0  # farther than random ones
    assert mannan_similarity(path, path + 30, size=size, seed=3) == mannan_similarity(
        path, path + 30, size=size, seed=3
    )
    assert math.isnan(mannan_similarity(path, [], size=size))


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(UnknownNameError, match="mean_truncated"):
        euclidean(A, B, convention="mean_truncatd")
    for size in ((0, 5), (5,), (5, math.nan), "ab"):
        with pytest.raises((DataError, ValueError)):
            mannan(A, B, size=size)
    for radius in (0, -1, math.nan, math.inf):
        with pytest.raises(DataError, match="radius"):
            disc_overlap(A, B, radius=radius)
    with pytest.raises(DataError, match="finite"):
        dtw([[0, math.nan]], B)
