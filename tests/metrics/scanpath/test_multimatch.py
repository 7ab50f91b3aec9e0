"""MultiMatch against recorded values of multimatch-gaze, by hand, and by its properties."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.scanpath._packed import pack
from gazeattn.metrics.scanpath.multimatch import (
    MultiMatch,
    multimatch,
    multimatch_pairs,
    multimatch_simplify,
)
from gazeattn.metrics.scanpath.pairwise import undefined_reason

# many paths here are off the stimulus, or of a few ms, on purpose; see test_contract, test_packed
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*off the stimulus"),
    pytest.mark.filterwarnings("ignore:.*look like seconds"),
]

SIZE = (800, 600)


def golden_path(scanpath):
    duration = scanpath.get("dur_ms") or [1000.0] * len(scanpath["x"])  # search: no durations
    return np.column_stack([scanpath["x"], scanpath["y"], duration])


def numbers(values):
    return np.array([np.nan if v is None else v for v in values], dtype=float)


def random_paths(n, seed, *, longest=12, whole=False):
    rng = np.random.default_rng(seed)
    paths = []
    for _ in range(n):
        length = int(rng.integers(0, longest))
        xy = rng.uniform(0, 1, (length, 2)) * SIZE
        if whole:
            xy = np.round(xy / 200) * 200
        paths.append(np.column_stack([xy, rng.integers(50, 500, length)]))
    return paths


@pytest.mark.parametrize("ties", [None, "symmetric", "multimatch_gaze"])
def test_recorded_values(golden, ties):
    scanpaths = golden("scanpaths.json")["scanpaths"]
    recorded = golden("A_multimatch.json")
    compared = tied = 0
    for case in recorded["cases"]:
        a, b = scanpaths[case["a"]], scanpaths[case["b"]]
        rule = recorded["params"][case["params"]]
        options = {}
        if rule["grouping"]:
            if ties == "symmetric":
                continue  # which of several alignments counts is the package's choice
            options = {
                "grouping": "multimatch_gaze",
                "direction_threshold": rule["TDir"],
                "duration_threshold": rule["TDur_s"] * 1000,
                "amplitude_threshold": rule["TAmp"],
            }
        size = (a["width"], a["height"])
        found = np.array(
            multimatch(golden_path(a), golden_path(b), size=size, ties=ties, **options)
        )
        if case["expected"] is None:  # the package breaks off there
            assert np.isfinite(found).all(), case["id"]
            continue
        if case.get("n_optimal_paths", 1) > 1 and ties != "multimatch_gaze":
            low, high = (np.array(v) for v in case["tied_range"])
            assert ((found >= low - 1e-9) & (found <= high + 1e-9)).all(), case["id"]
            tied += 1
            continue
        np.testing.assert_allclose(
            found, numbers(case["expected"]), rtol=0, atol=1e-9, err_msg=case["id"]
        )
        compared += 1
    assert compared >= 100 and (tied > 0) == (ties != "multimatch_gaze")


def test_by_hand():
    # Saccades (100, 0), (0, 100) against (0, 100), (0, 100) of fixations 60 px lower.
    a = [[0, 0, 100], [100, 0, 200], [100, 100, 300]]
    b = [[0, 60, 200], [0, 160, 200], [0, 260, 900]]
    # Cells: |v - w| = sqrt(2) 100 in row 1, 0 in row 2. The first cell is free, so the diagonal
    # (1,1) -> (2,2) and (1,1) -> (2,1) -> (2,2) both cost 0: diagonal first. Medians of two.
    r = multimatch(a, b, size=(300, 400))
    assert r.shape == pytest.approx(1 - 50 * np.sqrt(2) / 1000)
    assert r.direction == pytest.approx(1 - (np.pi / 2) / 2 / np.pi)
    assert r.length == 1.0
    starts = (60 + np.sqrt(100**2 + 160**2)) / 2
    assert r.position == pytest.approx(1 - starts / 500)
    assert r.duration == pytest.approx(1 - (0.5 + 0.0) / 2)


def test_direction_wraps_at_180_degrees():
    a = [[400, 300], [300, 301], [200, 302]]
    b = [[400, 300], [300, 299], [200, 298]]
    angle = 2 * np.arctan(1 / 100)
    assert multimatch(a, b, size=SIZE).direction == pytest.approx(1 - angle / np.pi)


@pytest.mark.parametrize("lengths", [(2, 5), (5, 2), (0, 5), (1, 1), (0, 0), (2, 2), (2, 3)])
def test_short_scanpaths_are_undefined(lengths):
    rng = np.random.default_rng(0)
    for width in (2, 3):
        a, b = (rng.uniform(1, 500, (n, width)) for n in lengths)
        assert np.isnan(multimatch(a, b, size=SIZE)).all()
        assert "at least 3" in undefined_reason("multimatch", a, b, size=SIZE)
    assert np.nanmean([0.9, multimatch(a, b, size=SIZE).shape]) == 0.9


def test_three_fixations_are_enough():
    a = [[0, 0, 100], [100, 0, 100], [100, 50, 100]]
    assert multimatch(a, a, size=SIZE) == MultiMatch(1, 1, 1, 1, 1)
    assert undefined_reason("multimatch", a, a, size=SIZE) == ""


@pytest.mark.parametrize("which", ["both", "first", "second", "one fixation"])
def test_missing_durations_leave_the_other_parts(which):
    rng = np.random.default_rng(1)
    a, b = (np.column_stack([rng.uniform(1, 500, (6, 2)), rng.uniform(99, 300, 6)]) for _ in "ab")
    full = multimatch(a, b, size=SIZE)
    if which in ("both", "first"):
        a = a[:, :2]
    if which in ("both", "second"):
        b = b[:, :2]
    if which == "one fixation":
        b[2, 2] = np.nan
    found = multimatch(a, b, size=SIZE)
    assert found[:4] == full[:4]
    assert np.isnan(found.duration) and np.isfinite(full.duration)
    assert "duration" in undefined_reason("multimatch", a, b, size=SIZE)


def test_durations_without_time_are_undefined():
    a = [[0, 0, 0], [100, 0, 0], [100, 50, 0]]
    assert np.isnan(multimatch(a, a, size=SIZE).duration)
    assert "duration 0" in undefined_reason("multimatch", a, a, size=SIZE)
    b = [[0, 0, 10], [100, 0, 10], [100, 50, 10]]
    assert multimatch(a, b, size=SIZE).duration == 0.0


def test_seconds_in_both_or_milliseconds_in_both_agree():
    a, b = random_paths(40, 3, longest=9)[-2:]
    a, b = np.vstack([a, [[1, 2, 100]] * 3]), np.vstack([b, [[9, 2, 300]] * 3])
    scale = [1, 1, 1e-3]
    np.testing.assert_allclose(
        multimatch(a * scale, b * scale, size=SIZE), multimatch(a, b, size=SIZE), atol=1e-12
    )


# -- simplification -------------------------------------------------------------------------------

LIMITS = {"direction_threshold": 45, "duration_threshold": 150, "amplitude_threshold": 50}


def kept(path, **limits):
    return multimatch_simplify(path, **{**LIMITS, **limits})[:, 0].tolist()


def test_same_direction_and_brief_fixation_are_merged():
    path = [[0, 0, 200], [100, 0, 100], [200, 0, 200], [200, 300, 100]]
    assert kept(path) == [0, 200, 200]  # 90 degrees stay
    path[1][2] = 150  # not below 150 ms
    assert kept(path) == [0, 100, 200, 200]
    assert kept(path, duration_threshold=np.inf) == [0, 200, 200]


def test_short_saccades_join_the_next():
    path = [[0, 0, 200], [30, 0, 100], [0, 200, 200], [300, 200, 200]]
    assert kept(path) == [0, 0, 300]
    assert kept(path, amplitude_threshold=30) == [0, 30, 0, 300]


def test_a_short_last_saccade_joins_the_one_before():
    path = [[0, 0, 200], [300, 0, 200], [300, 200, 200], [310, 200, 100]]
    assert kept(path) == [0, 300, 310]
    # also where the one before was itself just merged
    path = [[0, 0, 200], [30, 0, 100], [0, 200, 200], [0, 210, 100]]
    assert kept(path, direction_threshold=0) == [0, 0]


def test_one_saccade_stays_however_short():
    assert kept([[0, 0, 10], [1, 0, 10]]) == [0, 1]
    assert kept([[0, 0, 10]]) == [0]
    assert multimatch_simplify(np.zeros((0, 3)), **LIMITS).shape == (0, 3)
    found = multimatch([[0, 0, 9], [9, 0, 9], [18, 0, 9]], [[0, 0, 9]] * 3, size=SIZE, **LIMITS)
    assert np.isfinite(found).all()


def test_it_goes_on_until_nothing_changes():
    path = [[100.0 * k, 0, 100] for k in range(9)]
    assert kept(path, amplitude_threshold=0) == [0, 800]


def test_without_thresholds_nothing_is_merged():
    paths = random_paths(30, 5)
    a, b = pack(paths[:15]), pack(paths[15:])
    at = np.arange(15)
    plain = multimatch_pairs(a, b, at, at, size=SIZE, grouping="none")
    np.testing.assert_array_equal(multimatch_pairs(a, b, at, at, size=SIZE), plain)


def reference_simplified(path, direction, amplitude, duration):
    """The published rule, one saccade after the other."""
    path = [tuple(p) for p in path]
    while True:
        before = len(path)
        for by_direction in (True, False):
            new, k = [0], 0  # positions of fixations that start a saccade
            starts = []
            last = len(path) - 2
            while k <= last:
                u = np.subtract(path[k + 1][:2], path[k][:2])
                merge = back = False
                if by_direction:
                    if k < last:
                        v = np.subtract(path[k + 2][:2], path[k + 1][:2])
                        size = np.linalg.norm(u) * np.linalg.norm(v)
                        if size > 0:
                            angle = np.degrees(np.arccos(np.clip(u @ v / size, -1, 1)))
                            merge = angle < direction and path[k + 1][2] < duration
                elif np.linalg.norm(u) < amplitude and min(path[k][2], path[k + 1][2]) < duration:
                    merge, back = k < last, k == last and len(starts) > 0
                if not back:
                    starts.append(k)
                k += 1 + merge
            new = [path[s] for s in starts]
            path = [*new, path[-1]]
        if len(path) == before:
            return np.array(path)


@pytest.mark.parametrize("whole", [False, True])
def test_simplification_equals_the_rule_step_by_step(whole):
    for path in random_paths(150, 7, longest=20, whole=whole):
        if len(path) < 2:
            continue
        limits = {
            "direction_threshold": 60,
            "duration_threshold": 300,
            "amplitude_threshold": 250,
        }
        np.testing.assert_array_equal(
            multimatch_simplify(path, **limits), reference_simplified(path, 60, 250, 300)
        )


def test_simplification_needs_durations():
    a = np.array([[0, 0], [100, 0], [200, 0], [300, 50.0]])
    found = multimatch(a, a, size=SIZE, **LIMITS)
    assert np.isnan(found).all()
    assert "simplification" in undefined_reason("multimatch", a, a, size=SIZE, **LIMITS)
    found = multimatch(a, a, size=SIZE, **{**LIMITS, "duration_threshold": np.inf})
    assert found[:4] == (1, 1, 1, 1)
    with pytest.raises(DataError, match="duration is missing"):
        multimatch_simplify(a, **LIMITS)


# -- properties -----------------------------------------------------------------------------------

small = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3)), min_size=3, max_size=7
).map(lambda rows: np.array(rows, dtype=float))


@settings(max_examples=150, deadline=None)
@given(small, small)
def test_symmetric_bounded_and_one_for_itself_even_where_alignments_tie(a, b):
    ab, ba = multimatch(a, b, size=(4, 4)), multimatch(b, a, size=(4, 4))
    assert ab == ba
    assert all(-1e-12 <= v <= 1 + 1e-12 for v in ab)
    assert multimatch(a, a, size=(4, 4)) == (1, 1, 1, 1, 1)


def least_cost(a, b):
    u, v = np.diff(a[:, :2], axis=0), np.diff(b[:, :2], axis=0)
    cost = np.linalg.norm(u[:, None] - v[None], axis=2)
    total = np.full(cost.shape, np.inf)
    total[0, 0] = 0
    for r in range(len(u)):
        for c in range(len(v)):
            if r or c:
                options = [total[r - 1, c]] if r else []
                options += [total[r, c - 1]] if c else []
                options += [total[r - 1, c - 1]] if r and c else []
                total[r, c] = min(options) + cost[r, c]
    path, r, c = [], len(u) - 1, len(v) - 1
    while True:
        path.append((r, c))
        if r == c == 0:
            return cost, path
        options = {}
        if r and c:
            options[r - 1, c - 1] = total[r - 1, c - 1]
        if r:
            options[r - 1, c] = total[r - 1, c]
        if c:
            options[r, c - 1] = total[r, c - 1]
        r, c = min(options, key=options.get)


def test_alignment_is_the_cheapest():
    paths = [p for p in random_paths(40, 11) if len(p) >= 3]
    for a, b in itertools.pairwise(paths):
        cost, path = least_cost(a, b)
        median = np.median([cost[at] for at in path])
        assert multimatch(a, b, size=SIZE).shape == pytest.approx(1 - median / 2000, abs=1e-12)


def test_moving_and_scaling_change_nothing():
    a, b = [p for p in random_paths(40, 13) if len(p) > 5][:2]
    r = multimatch(a, b, size=SIZE)
    step = np.array([64, -32, 0])
    moved = multimatch(a + step, b + step, size=SIZE)
    np.testing.assert_allclose(moved, r, atol=1e-12)
    scaled = multimatch(a * [4, 4, 1], b * [4, 4, 1], size=(3200, 2400))
    np.testing.assert_allclose(scaled, r, atol=1e-12)
    low = multimatch(a.astype(np.float32), b.astype(np.float32), size=SIZE)
    np.testing.assert_allclose(low, r, atol=1e-5)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ties": "multimatch_gaze"},
        LIMITS,
        {**LIMITS, "grouping": "multimatch_gaze", "duration_threshold": 300},
    ],
)
def test_many_at_once_equal_one_by_one(whole, options):
    paths = random_paths(14, 17, longest=16, whole=whole)
    paths[3] = np.repeat([[5.0, 5.0, 100.0]], 9, axis=0)
    packed = pack(paths)
    i, j = (v.ravel() for v in np.indices((14, 14)))
    order = np.random.default_rng(0).permutation(len(i))
    many = multimatch_pairs(packed, packed, i[order], j[order], size=SIZE, **options)
    one = np.array(
        [multimatch(paths[p], paths[q], size=SIZE, **options) for p, q in zip(i, j, strict=True)]
    )
    np.testing.assert_allclose(many, one[order], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"size": (0, 600)}, DataError),
        ({"size": 800}, DataError),
        ({"grouping": "publishd"}, UnknownNameError),
        ({"ties": "dijkstra"}, UnknownNameError),
        ({"direction_threshold": -1}, DataError),
        ({"duration_threshold": np.nan}, DataError),
    ],
)
def test_wrong_parameters(wrong, error):
    a = [[0, 0, 1], [1, 1, 1], [2, 1, 1]]
    with pytest.raises(error):
        multimatch(a, a, **{"size": SIZE, **wrong})


@pytest.mark.parametrize(
    "path", [[[0, np.nan, 1]] * 3, [[0, 0, -1]] * 3, [[0, np.inf, 1]] * 3, [[0, 0, 1, 1]] * 3]
)
def test_wrong_paths(path):
    with pytest.raises(DataError):
        multimatch(path, [[0, 0, 1]] * 3, size=SIZE)
