"""Methods of line assignment: small cases by hand, reference values, damaged input, properties."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.reading import drift
from gazeattn.reading.drift import METHODS, apply
from gazeattn.reading.drift._fits import best_line_fit, best_stretch
from gazeattn.reading.drift._kmeans import kmeans_1d
from gazeattn.reading.drift._lines import lines_in_order
from gazeattn.reading.drift._merging import _Merger
from gazeattn.reading.drift._warping import warping_costs, warping_path

LINES = np.array([155.0, 219.0, 283.0, 347.0])
WORD_X = np.array([400.0, 500.0, 600.0, 700.0, 800.0])
WORDS = np.array([[x, y] for y in LINES for x in WORD_X])
NAMES = sorted(METHODS)
NEED_ORDER = ("chain", "compare", "merge", "segment", "slice", "split", "vote", "warp")


def read(dy: float = 0.0, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return a reading of all words with a shift and a slope of y, and the true lines."""
    xy = WORDS.copy()
    xy[:, 1] += dy + slope * (xy[:, 0] - 600)
    return xy, np.repeat(np.arange(4), 5)


def run(name: str, xy: Any, lines: Any = LINES, words: Any = WORDS, **options: Any) -> np.ndarray:
    return apply(name, xy, lines, words, **options)


# --- clean readings -------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_clean_reading_gets_its_lines(name: str) -> None:
    xy, true = read()
    if name == "compare":  # all lines look alike and no step is longer than 512 pixels
        result = run(name, xy, x_thresh=200)
    else:
        result = run(name, xy)
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, true)


@pytest.mark.parametrize(
    "name", ["cluster", "merge", "regress", "segment", "slice", "warp", "vote"]
)
def test_a_shift_of_more_than_half_a_line_is_undone(name: str) -> None:
    xy, true = read(dy=40.0)
    assert (drift.attach(xy, LINES) != true).sum() == 15  # the last line has no line below it
    np.testing.assert_array_equal(run(name, xy), true)


def test_a_slope_is_undone_by_regress() -> None:
    xy, true = read(slope=0.09)
    xy[:, 1] += 24  # at the ends of lines 42 pixels: nearer to the next line
    assert (drift.attach(xy, LINES) != true).any()
    np.testing.assert_array_equal(drift.regress(xy, LINES), true)


def test_stretch_undoes_a_factor() -> None:
    lines = 155.0 + 64 * np.arange(10)
    y = np.repeat(lines / 1.08 - 12, 3)  # line 9: 731 becomes 664.9, nearer to 667
    xy = np.c_[np.tile([400.0, 600, 800], 10), y]
    np.testing.assert_array_equal(drift.stretch(xy, lines), np.repeat(np.arange(10), 3))
    assert (drift.attach(xy, lines) != np.repeat(np.arange(10), 3)).any()


# --- by hand --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "y", "expected"),
    [
        ([100.0, 150.0], [118.0, 126.0, 125.0], [0, 1, 0]),
        ([100.0, 150.0], [125.0 - 1e-6, 125.0, 125.0 + 1e-6], [0, 0, 1]),
        ([0.1, 0.3], [0.2, 0.2 + 1e-6], [0, 1]),  # the middle is not exact in binary
        ([10.0, 20.0, 40.0], [15.0, 30.0, 31.0, -500.0, 9e9], [0, 1, 2, 0, 2]),
        ([1.1, 2.2, 3.3], [1.65, 2.75], [0, 1]),
    ],
)
def test_exactly_midway_goes_to_the_upper_line(
    lines: list[float], y: list[float], expected: list[int]
) -> None:
    xy = np.c_[np.arange(len(y)), y]
    np.testing.assert_array_equal(drift.attach(xy, lines), expected)
    np.testing.assert_array_equal(drift.attach(xy[::-1], lines), expected[::-1])


def test_chain_by_hand() -> None:
    # 0-1 follow closely; 200 in x ends the chain, then 40 in y; means 180, 195 and 235
    xy = [[100, 180], [200, 180], [400, 195], [450, 235]]
    np.testing.assert_array_equal(drift.chain(xy, LINES), [0, 0, 1, 1])
    # a wide limit makes one chain of the first three: mean 185, nearer to 155 than to 219
    np.testing.assert_array_equal(drift.chain(xy, LINES, x_thresh=300), [0, 0, 0, 1])
    # a limit is passed, not met: steps of exactly 192 and 32 stay in the chain
    edge = [[0, 180], [192, 212], [193, 180]]  # mean 190.67
    np.testing.assert_array_equal(drift.chain(edge, LINES), [1, 1, 1])


def test_thresholds_follow_the_line_spacing() -> None:
    xy, _ = read(dy=21.0, slope=0.04)
    for name in NAMES:
        big = run(name, 10 * xy, 10 * LINES, 10 * WORDS)
        np.testing.assert_array_equal(big, run(name, xy), err_msg=name)


def test_segment_by_hand() -> None:
    x = [100, 300, 250, 500, 90, 400, 80, 200]  # steps: 200 -50 250 -410 310 -320 120
    xy = np.c_[x, np.full(8, 155.0)]
    np.testing.assert_array_equal(drift.segment(xy, LINES[:3]), [0, 0, 0, 0, 1, 1, 2, 2])
    # three cuts: -50 is the third largest step back
    np.testing.assert_array_equal(drift.segment(xy, LINES), [0, 0, 1, 1, 2, 2, 3, 3])


def test_split_by_hand() -> None:
    # steps 100, 100, -210, 100, -20, 100: two clusters, -210 alone
    xy = np.array([[0, 180], [100, 180], [200, 180], [-10, 250], [90, 250], [70, 250], [170, 130]])
    np.testing.assert_array_equal(drift.split(xy, LINES), [0, 0, 0, 1, 1, 1, 1])  # means 180, 220
    # no step leads back: one part, mean 190
    forward = [[0, 180], [100, 180], [300, 210]]
    np.testing.assert_array_equal(drift.split(forward, LINES), [1, 1, 1])


def test_cluster_by_hand() -> None:
    # two lines; y 100 101 140 141: the gap is in the middle though all but one are nearest line 0
    xy = np.c_[np.zeros(4), [100, 140, 101, 141]]
    np.testing.assert_array_equal(drift.cluster(xy, [100, 190]), [0, 1, 0, 1])


def test_warp_takes_the_line_of_most_words() -> None:
    # one fixation for all words: 1 word of line 0, 3 of line 1
    words = [[800, 155], [400, 219], [500, 219], [600, 219]]
    np.testing.assert_array_equal(drift.warp([[500, 150]], LINES[:2], words), [1])
    # a tie goes to the upper line
    np.testing.assert_array_equal(drift.warp([[500, 215]], LINES[:2], words[:2]), [0])


def test_compare_looks_at_x_alone() -> None:
    # two words on line 0, four on line 1; the part fits line 1 though it lies on line 0
    words = [[400, 155], [800, 155], [400, 219], [500, 219], [600, 219], [700, 219]]
    xy = [[400, 160], [500, 160], [600, 160], [700, 160]]
    np.testing.assert_array_equal(drift.compare(xy, LINES[:2], words), [1, 1, 1, 1])
    np.testing.assert_array_equal(drift.compare(xy, LINES[:2], words, n_nearest=1), [0] * 4)


def test_merge_joins_the_best_pair_first() -> None:
    # four sequences of three, two on each line; the second pair comes back to the first line
    y = [150, 151, 152, 220, 221, 222, 153, 154, 155, 223, 224, 225]
    x = [0, 100, 200, 0, 100, 200, 300, 400, 500, 300, 400, 500]
    expected = [0] * 3 + [1] * 3 + [0] * 3 + [1] * 3
    np.testing.assert_array_equal(drift.merge(np.c_[x, y], LINES[:2]), expected)


def test_slice_keeps_a_line_open_where_none_was_read() -> None:
    # line 1 of three was skipped; the first two runs are 128 pixels apart
    xy = [[400, 155], [500, 155], [600, 155], [400, 283], [500, 283], [590, 283]]
    np.testing.assert_array_equal(drift.slice_(xy, LINES[:3]), [0, 0, 0, 2, 2, 2])


def test_slice_puts_fewer_rows_where_they_fit() -> None:
    xy = [[400, 280], [500, 280], [600, 280], [400, 345], [500, 345], [590, 345]]
    np.testing.assert_array_equal(drift.slice_(xy, LINES), [2, 2, 2, 3, 3, 3])


# --- degenerate input -----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_no_fixations(name: str) -> None:
    empty: list[Any] = [[], np.zeros((0, 2)), np.zeros((0, 4))]
    for nothing in empty:
        result = run(name, nothing)
        assert result.shape == (0,) and result.dtype == np.int64


@pytest.mark.parametrize("name", NAMES)
def test_one_line_of_text(name: str) -> None:
    xy = [[400.0, 900.0], [np.nan, 155.0], [500.0, -3.0]]
    np.testing.assert_array_equal(run(name, xy, [155.0], [[400.0, 155.0]]), [0, -1, 0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_fixations_without_a_position_have_no_line_and_change_no_other(
    name: str, bad: float
) -> None:
    xy, _ = read(dy=10.0)
    with_holes = np.insert(xy, [0, 7, 20], [[bad, 155.0], [400.0, bad], [bad, bad]], axis=0)
    result = run(name, with_holes)
    hole = ~np.isfinite(with_holes).all(axis=1)
    assert (result[hole] == -1).all()
    np.testing.assert_array_equal(result[~hole], run(name, xy))
    np.testing.assert_array_equal(run(name, np.full((3, 2), bad)), [-1, -1, -1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("line", [0, 1, 2, 3])
def test_one_fixation_gets_the_nearest_line(name: str, line: int) -> None:
    if name in ("compare", "warp"):  # they look at words: of all lines at once
        assert 0 <= run(name, [[500, LINES[line] + 9]])[0] < 4
    else:
        assert run(name, [[500, LINES[line] + 9]])[0] == line


@pytest.mark.parametrize("name", ["cluster", "merge", "segment", "slice"])
def test_fewer_fixations_than_lines(name: str) -> None:
    xy = [[400, 222], [640, 350]]  # near lines 1 and 3; a step of 240 in x and 128 in y
    np.testing.assert_array_equal(run(name, xy[:1]), [1])
    np.testing.assert_array_equal(run(name, xy), [1, 3])


@pytest.mark.parametrize("name", NAMES)
def test_all_fixations_at_one_point(name: str) -> None:
    result = run(name, np.tile([[500.0, 285.0]], (9, 1)))
    assert ((result >= 0) & (result < 4)).all()
    if name not in ("segment", "warp", "compare", "merge"):
        np.testing.assert_array_equal(result, np.full(9, 2))


@pytest.mark.parametrize("name", NAMES)
def test_input_is_not_changed_and_lists_do(name: str) -> None:
    xy, _ = read(dy=5.0)
    kept = xy.copy()
    first = run(name, xy)
    np.testing.assert_array_equal(xy, kept)
    np.testing.assert_array_equal(run(name, xy.tolist(), LINES.tolist(), WORDS.tolist()), first)
    timed = np.c_[xy, np.arange(len(xy)) * 250.0, np.full(len(xy), np.nan)]
    np.testing.assert_array_equal(run(name, timed), first)  # onset and duration do not matter


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "lines", [[], [[1.0, 2.0]], [2.0, 1.0], [1.0, 1.0], [1.0, np.nan], [np.nan], [1, np.nan, 3]]
)
def test_unusable_line_centres(name: str, lines: list[Any]) -> None:
    with pytest.raises(DataError, match="line centres"):
        run(name, [[1.0, 2.0]], lines)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("xy", [[1.0, 2.0], [[1.0]], np.zeros((2, 2, 2))])
def test_unusable_fixations(name: str, xy: Any) -> None:
    with pytest.raises(DataError, match="fixations"):
        run(name, xy)


@pytest.mark.parametrize("name", ["compare", "warp", "vote"])
def test_words_are_needed_and_checked(name: str) -> None:
    with pytest.raises(DataError, match="needs word centres"):
        apply(name, [[1.0, 2.0]], LINES)
    for words in ([], [[1.0, np.nan]], [1.0, 2.0], [[1.0, 2.0, 3.0]]):
        with pytest.raises(DataError, match="word centres"):
            run(name, [[1.0, 2.0]], LINES, words)


def test_unknown_names_come_with_suggestions() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'stretch'"):
        apply("strech", [[1.0, 2.0]], LINES)
    with pytest.raises(UnknownNameError, match="did you mean 'x_thresh'"):
        apply("chain", [[1.0, 2.0]], LINES, x_tresh=3)
    with pytest.raises(UnknownNameError, match="slice"):
        drift.vote([[1.0, 2.0]], LINES, members=["slise"])


# --- right to left --------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_mirrored_text_gets_the_same_lines(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    xy, _ = read(dy=12.0)
    xy = xy[np.sort(rng.choice(len(xy), 15, replace=False))] + rng.normal(0, 9, (15, 2))
    there = run(name, xy)
    mirror = np.array([-1.0, 1.0])
    back = run(name, xy * mirror, LINES, WORDS * mirror, right_to_left=True)
    np.testing.assert_array_equal(there, back)
    shifted = mirror, np.array([1200.0, 0.0])  # the same on a screen of 1200 pixels
    if name not in ("regress",):  # its offset is bounded at x = 0
        moved = run(name, xy * mirror + shifted[1], LINES, WORDS * mirror + shifted[1],
                    right_to_left=True)  # fmt: skip
        np.testing.assert_array_equal(there, moved)


@pytest.mark.parametrize("name", ["merge", "segment", "slice", "split"])
def test_right_to_left_matters_where_steps_back_do(name: str) -> None:
    xy, true = read(dy=40.0 if name != "split" else 20.0)
    xy[:, 0] = 1200 - xy[:, 0]
    np.testing.assert_array_equal(run(name, xy, right_to_left=True), true)
    if name in ("segment", "split"):  # the others find the same lines in shorter pieces
        assert (run(name, xy) != true).any()


# --- the parts against slow versions --------------------------------------------------------


def _all_cuts(values: np.ndarray, k: int) -> float:
    points = np.unique(values)
    best = np.inf
    for cut in itertools.combinations(range(1, len(points)), min(k, len(points)) - 1):
        label = np.searchsorted(points[list(cut)], values, side="right")
        parts = [values[label == c] for c in range(len(cut) + 1)]
        best = min(best, sum(float(((p - p.mean()) ** 2).sum()) for p in parts))
    return best


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(-20, 20), min_size=1, max_size=10), st.integers(1, 5), st.booleans())
def test_clusters_are_the_best_ones(values: list[int], k: int, in_blocks: bool) -> None:
    import gazeattn.reading.drift._kmeans as module

    numbers = np.array(values, dtype=np.float64) * 0.7
    whole = module.CELLS_AT_ONCE
    module.CELLS_AT_ONCE = 3 if in_blocks else whole
    try:
        label = kmeans_1d(numbers, k)
    finally:
        module.CELLS_AT_ONCE = whole
    n_clusters = min(k, len(np.unique(numbers)))
    assert sorted(set(label.tolist())) == list(range(n_clusters))
    order = np.argsort(numbers, kind="stable")
    assert (np.diff(label[order]) >= 0).all()
    cost = sum(((numbers[label == c] - numbers[label == c].mean()) ** 2).sum() for c in set(label))
    assert cost == pytest.approx(_all_cuts(numbers, k), abs=1e-8)


def test_clusters_far_from_zero_are_not_lost_to_rounding() -> None:
    y = 1e9 + np.array([0.0, 1, 2, 10, 11, 12, 20, 21, 22])
    np.testing.assert_array_equal(kmeans_1d(y, 3), np.repeat([0, 1, 2], 3))


def _slow_dtw(d: np.ndarray) -> np.ndarray:
    cost = np.full((d.shape[0] + 1, d.shape[1] + 1), np.inf)
    cost[0, 0] = 0
    for i, j in np.ndindex(d.shape):
        cost[i + 1, j + 1] = d[i, j] + min(cost[i, j + 1], cost[i + 1, j], cost[i, j])
    return cost[1:, 1:]


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10**6), st.booleans())
def test_warping_is_that_of_the_plain_recurrence(n: int, m: int, seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    d = rng.integers(0, 3, (n, m)).astype(float) if ties else rng.random((n, m))
    slow = _slow_dtw(d)
    batch = np.zeros((2, n + 2, m + 1))
    batch[0, :n, :m] = d
    costs = warping_costs(batch, np.array([n, 1]), np.array([m, 1]))
    assert costs[0] == slow[-1, -1] and costs[1] == 0.0
    first, last = warping_path(d)
    assert first[0] == 0 and last[-1] == m - 1 and (first <= last).all()
    assert ((first[1:] - last[:-1] == 0) | (first[1:] - last[:-1] == 1)).all()
    on_path = sum(d[i, first[i] : last[i] + 1].sum() for i in range(n))
    assert on_path == pytest.approx(slow[-1, -1])


def test_fits_of_merged_sequences_are_those_of_polyfit() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.uniform(300, 1500, 40), rng.uniform(100, 800, 40)
    starts = np.array([0, 1, 5, 12, 30])
    merger = _Merger(x, y, starts)
    ends = np.r_[starts[1:], 40]
    for i, j in itertools.combinations(range(5), 2):
        at = np.r_[starts[i] : ends[i], starts[j] : ends[j]]
        slope, intercept = np.polyfit(x[at], y[at], 1)
        rest = y[at] - slope * x[at] - intercept
        assert merger.slope[i, j] == pytest.approx(slope)
        assert merger.error[i, j] == pytest.approx(np.sqrt((rest**2).mean()), abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10**6))
def test_groups_in_order_are_put_where_they_fit_best(n_groups: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), rng.integers(1, 4, n_groups))
    y = rng.integers(0, 60, len(groups)).astype(float)
    lines = np.array([0.0, 10, 20, 30, 50])
    found = lines_in_order(groups, y, lines, n_groups)
    costs = {
        at: float(np.abs(y - lines[list(at)][groups]).sum())
        for at in itertools.combinations(range(5), n_groups)
    }
    assert (np.diff(found) > 0).all()
    assert costs[tuple(found.tolist())] == min(costs.values())


# --- properties -----------------------------------------------------------------------------

points = st.lists(
    st.tuples(st.integers(300, 1000), st.integers(50, 450)), min_size=0, max_size=25
).map(lambda p: np.array(p, dtype=np.float64).reshape(-1, 2))


@settings(max_examples=60, deadline=None)
@given(points, st.sampled_from(NAMES))
def test_any_fixations_get_lines_that_there_are(xy: np.ndarray, name: str) -> None:
    result = run(name, xy)
    assert result.shape == (len(xy),)
    assert ((result >= 0) & (result < 4)).all()
    np.testing.assert_array_equal(result, run(name, xy))  # nothing is random


@settings(max_examples=60, deadline=None)
@given(points, st.sampled_from(NAMES), st.integers(-300, 300))
def test_moving_everything_down_changes_nothing(xy: np.ndarray, name: str, by: int) -> None:
    if name == "stretch":  # its factor turns about the top of the screen
        return
    down = np.array([0.0, by])
    moved = run(name, xy + down, LINES + by, WORDS + down)
    np.testing.assert_array_equal(moved, run(name, xy))


@settings(max_examples=40, deadline=None)
@given(points)
def test_the_order_of_fixations_matters_only_where_it_should(xy: np.ndarray) -> None:
    turned = np.random.default_rng(0).permutation(len(xy))
    for name in ("attach", "cluster"):
        np.testing.assert_array_equal(run(name, xy[turned]), run(name, xy)[turned])


@pytest.mark.parametrize("seed", range(5))
def test_fits_are_as_good_as_a_local_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = 155.0 + 64 * np.arange(10)
    x = rng.uniform(360, 1500, 150)
    y = rng.choice(lines, 150) + rng.uniform(-45, 45) + rng.uniform(-0.04, 0.04) * x
    y += rng.normal(0, 8, 150)

    def off(moved: np.ndarray) -> np.ndarray:
        return np.abs(moved[:, None] - lines).min(axis=1)

    fit = best_line_fit(x, y, lines, (-0.1, 0.1), (-50.0, 50.0))
    assert fit.loss == pytest.approx((off(y - fit.factor * x - fit.offset) ** 2).sum())
    bounds = [(-0.1, 0.1), (-50, 50)]
    local = minimize(
        lambda p: (off(y - p[0] * x - p[1]) ** 2).sum(), [0, 0], method="Powell", bounds=bounds
    )
    assert fit.loss <= local.fun * (1 + 1e-6)
    assert -0.1 <= fit.factor <= 0.1 and -50 <= fit.offset <= 50
    wide = best_stretch(y, lines, (0.9, 1.1), (-50.0, 50.0))
    bounds = [(0.9, 1.1), (-50, 50)]
    local = minimize(lambda p: off(y * p[0] + p[1]).sum(), [1, 0], method="Powell", bounds=bounds)
    assert wide.loss <= local.fun * (1 + 2e-3)
