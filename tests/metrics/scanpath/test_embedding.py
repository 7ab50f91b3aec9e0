"""Time-delay embedding and its scaled form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.scanpath._packed import pack
from gazeattn.metrics.scanpath.embedding import (
    scaled_time_delay_embedding,
    scaled_time_delay_embedding_pairs,
    time_delay_embedding,
)

# many paths here are off the stimulus on purpose; test_contract looks at the warnings
pytestmark = pytest.mark.filterwarnings("ignore:.*off the stimulus")

A = np.array([[0.0, 0.0], [3.0, 0.0]])
B = np.array([[0.0, 4.0], [3.0, 4.0], [3.0, 0.0]])


def test_by_hand() -> None:
    # one window in A; to the two of B: fixation distances (4, 4) and (5, 0)
    root = math.sqrt(32)
    assert time_delay_embedding(A, B, k=2) == pytest.approx((root + 5) / 2 / 2)
    assert time_delay_embedding(A, B, k=2, norm="l1") == pytest.approx((8 + 5) / 2 / 2)
    assert time_delay_embedding(A, B, k=2, reduce="max") == pytest.approx(root / 2)
    assert time_delay_embedding(B, A, k=2) == pytest.approx(5 / 2)  # not symmetric
    assert time_delay_embedding(A, B, k=1) == pytest.approx(8 / 3)
    # scaled by 10: k = 1 gives 0.8/3, k = 2 the values above over 10
    for norm, second in (("l2", (root + 5) / 40), ("l1", 13 / 40)):
        assert scaled_time_delay_embedding(A, B, size=(10, 5), norm=norm) == pytest.approx(
            (math.exp(-0.8 / 3) + math.exp(-second)) / 2
        )


def test_golden(golden) -> None:
    paths = golden("scanpaths.json")["scanpaths"]
    undefined = 0
    for case in golden("A_distances.json")["cases"]:
        first, second = paths[case["a"]], paths[case["b"]]
        a, b = (np.c_[p["x"], p["y"]] for p in (first, second))
        for k, want in case["expected"]["tde"].items():
            for key in ("l2_mean", "l2_max", "l1_mean"):
                norm, reduce = key.split("_")
                got = time_delay_embedding(a, b, k=int(k), norm=norm, reduce=reduce)
                if want is None:
                    undefined += 1
                    assert math.isnan(got) and min(len(a), len(b)) < int(k)
                else:
                    assert got == pytest.approx(want[key], abs=1e-9), (case["id"], k, key)
        for norm, want in case["expected"]["stde"].items():
            got = scaled_time_delay_embedding(
                a, b, size=(first["width"], first["height"]), norm=norm
            )
            assert got == pytest.approx(want, abs=1e-9), (case["id"], norm)
    assert undefined > 0


def _plain(a: np.ndarray, b: np.ndarray, k: int, norm: str) -> float:
    gaps = []
    for q in range(len(b) - k + 1):
        to = []
        for p in range(len(a) - k + 1):
            apart = np.hypot(*(a[p : p + k] - b[q : q + k]).T)
            to.append(apart.sum() if norm == "l1" else math.sqrt((apart**2).sum()))
        gaps.append(min(to) / k)
    return float(np.mean(gaps))


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_equals_the_plain_loop_with_unequal_lengths_in_one_block(norm: str) -> None:
    rng = np.random.default_rng(2)
    paths = [rng.uniform(0, 900, (n, 2)) for n in (1, 2, 4, 9, 17, 6)]
    i, j = (v.ravel() for v in np.indices((6, 6)))
    packed = pack(paths)
    got = scaled_time_delay_embedding_pairs(packed, packed, i, j, size=(900, 300), norm=norm)
    for value, p, q in zip(got, i, j, strict=True):
        common = min(len(paths[p]), len(paths[q]))
        want = np.mean(
            [
                math.exp(-_plain(paths[p] / 900, paths[q] / 900, k, norm))
                for k in range(1, common + 1)
            ]
        )
        assert value == pytest.approx(want, rel=1e-12)
        for k in range(1, common + 1):
            assert time_delay_embedding(paths[p], paths[q], k=k, norm=norm) == pytest.approx(
                _plain(paths[p], paths[q], k, norm), rel=1e-12
            )


def test_a_stretch_of_the_other_path_is_at_distance_0() -> None:
    rng = np.random.default_rng(3)
    long = rng.uniform(0, 500, (20, 2))
    assert time_delay_embedding(long, long[5:12], k=4) == 0
    assert time_delay_embedding(long[5:12], long, k=4) > 0
    assert scaled_time_delay_embedding(long, long[5:12], size=(500, 500)) == 1


def test_l1_is_never_below_l2() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.uniform(0, 500, (2, 8, 2))
    for k in range(1, 9):
        l1, l2 = (time_delay_embedding(a, b, k=k, norm=norm) for norm in ("l1", "l2"))
        assert l1 >= l2 - 1e-12
        assert k > 1 or l1 == pytest.approx(l2)


def test_wrong_parameters_are_named() -> None:
    for k in (0, -1, 2.5, True):
        with pytest.raises(DataError, match="window"):
            time_delay_embedding(A, B, k=k)
    with pytest.raises(UnknownNameError, match="l2"):
        time_delay_embedding(A, B, norm="L2x")
    with pytest.raises(UnknownNameError):
        time_delay_embedding(A, B, reduce="median")
    with pytest.raises(DataError, match="size"):
        scaled_time_delay_embedding(A, B, size=(0, 10))
