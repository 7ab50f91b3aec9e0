"""Fixations on words: boxes, ids, layouts, and what is reported."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError
from gazeattn.reading._boxes import index_boxes
from gazeattn.reading.areas import map_to_words
from gazeattn.tables import check_fixations, check_trials, check_words


def points(xy: list[tuple[float, float]], trial: str = "t") -> pd.DataFrame:
    frame = pd.DataFrame(xy, columns=["x", "y"])
    frame.insert(0, "participant", "P1")
    frame.insert(1, "trial", trial)
    frame.insert(2, "stimulus", "A")
    return check_fixations(frame.assign(duration=100.0))[0]


def boxes(ltrb: list[tuple[float, float, float, float]], layout: str = "A") -> pd.DataFrame:
    frame = pd.DataFrame(ltrb, columns=["left", "top", "right", "bottom"]).astype(float)
    ids = [chr(ord("a") + i) for i in range(len(frame))]
    frame = frame.assign(layout=layout, stimulus="A", word=ids, text=ids)
    return check_words(frame)[0]


def one_trial(trial: str = "t", layout: str = "A") -> pd.DataFrame:
    row = {"participant": "P1", "trial": [trial], "stimulus": "A", "layout": layout}
    return check_trials(pd.DataFrame(row))[0]


def mapped(xy, ltrb):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return map_to_words(points(xy), boxes(ltrb), one_trial())


def reasons(log) -> dict[str, int]:
    return {loss.reason: loss.count for loss in log}


def count_of(log, part: str) -> int:
    return sum(loss.count for loss in log if part in loss.reason)


def test_left_and_top_edges_belong_to_the_box_right_and_bottom_do_not():
    table, log = mapped(
        [(0, 0), (9.999, 9.999), (10, 5), (5, 10), (10, 10), (-0.001, 5), (5, -0.001)],
        [(0, 0, 10, 10)],
    )
    assert table["word_index"].tolist() == [0, 0, pd.NA, pd.NA, pd.NA, pd.NA, pd.NA]
    assert table["word"].isna().tolist() == [False, False, True, True, True, True, True]
    assert count_of(log, "off every word") == 5


@pytest.mark.parametrize(
    ("point", "expected"),
    [((10, 5), "b"), ((20, 5), "c"), ((15, 10), "d"), ((10, 10), "d"), ((5, 10), None)],
)
def test_point_on_a_shared_edge_belongs_to_exactly_one_box(point, expected):
    layout = [(0, 0, 10, 10), (10, 0, 20, 10), (20, 0, 30, 10), (10, 10, 20, 20)]
    table, log = mapped([point], layout)
    assert table["word"].tolist() == [expected] or (expected is None and table["word"].isna().all())
    assert count_of(log, "overlapping") == 0


def test_two_overlapping_boxes_give_one_row_per_fixation_and_a_report():
    table, log = mapped([(5, 5), (9, 5), (15, 5)], [(0, 0, 10, 10), (8, 0, 20, 10)])
    assert len(table) == 3
    assert table["x"].tolist() == [5, 9, 15]
    assert table["word"].tolist() == ["a", "a", "b"]  # 9 is 4 from the centre of a, 5 from b's
    assert count_of(log, "overlapping") == 1


def test_overlap_goes_to_the_nearest_centre_and_equally_near_to_the_earlier_word():
    # Centres: a (10, 5), b (14, 5), c (12, 5). x = 12 is 2 from a and b, 0 from c.
    table, log = mapped(
        [(12, 5), (10.9, 5), (13.5, 5)], [(0, 0, 20, 10), (4, 0, 24, 10), (11, 0, 13, 10)]
    )
    assert table["word"].tolist() == ["c", "a", "b"]
    assert count_of(log, "overlapping") == 3
    table, _ = mapped([(12, 5)], [(0, 0, 20, 10), (4, 0, 24, 10)])
    assert table["word"].tolist() == ["a"]


@pytest.mark.parametrize("nested", [True, False])
def test_overlaps_across_lines_and_nested_boxes(nested):
    outer = (0, 0, 100, 100)
    inner = (40, 40, 60, 60) if nested else (80, 80, 180, 180)
    table, log = mapped([(50, 50), (45, 45), (95, 95), (5, 5)], [outer, inner])
    expected = {True: ["a", "b", "a", "a"], False: ["a", "a", "b", "a"]}
    # nested: both centres are (50, 50), so every point of both goes to the earlier word
    expected[True] = ["a", "a", "a", "a"]
    assert table["word"].tolist() == expected[nested]
    assert count_of(log, "overlapping") == (2 if nested else 1)


@pytest.mark.parametrize("x", [np.nan, None, "."])
def test_missing_coordinates_lie_on_no_word_and_are_counted(x):
    frame = pd.DataFrame(
        {"participant": "P1", "trial": "t", "stimulus": "A", "x": [5, x, 5], "y": [5, 5, np.nan]}
    )
    fixations, _ = check_fixations(frame)
    table, log = map_to_words(fixations, boxes([(0, 0, 10, 10)]), one_trial())
    assert table["word_index"].tolist() == [0, pd.NA, pd.NA]
    assert count_of(log, "without a position") == 2
    assert count_of(log, "off every word") == 0


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300, -1e300])
def test_extreme_coordinates_are_off_text(value):
    index = index_boxes(np.zeros(1, int), np.array([[0.0, 0, 10, 10]]))
    found, _ = index.find(np.zeros(3, int), np.array([value, 5, 5]), np.array([5, value, 5.0]))
    assert found.tolist() == [-1, -1, 0]


def test_layout_is_looked_up_by_trial():
    first = boxes([(0, 0, 10, 10), (10, 0, 20, 10)], "one")
    second = boxes([(0, 0, 10, 10), (0, 10, 10, 20)], "two")  # word b wraps to the next line
    words, _ = check_words(pd.concat([second, first]))
    trials = pd.concat([one_trial("t1", "one"), one_trial("t2", "two")], ignore_index=True)
    fixations, _ = check_fixations(
        pd.concat([points([(15, 5), (5, 15)], "t1"), points([(15, 5), (5, 15)], "t2")])
    )
    table, log = map_to_words(fixations, words, trials)
    assert table["word"].isna().tolist() == [False, True, True, False]
    assert table["word"].dropna().tolist() == ["b", "b"]
    assert count_of(log, "off every word") == 2


def test_wrong_layout_is_reported_by_the_low_share_on_text():
    words = boxes([(0, 0, 10, 10), (10, 0, 20, 10)])
    with pytest.warns(UserWarning, match="first: t"):
        _, log = map_to_words(points([(5, 505), (15, 505), (5, 5), *[(7, 500)] * 9]), words,
                              one_trial())  # fmt: skip
    assert count_of(log, "wrong layout or units") == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        map_to_words(points([(5, 5), (15, 5), (5, 505)]), words, one_trial())


@pytest.mark.parametrize("scale", [0.01, 1 / 40])
def test_degrees_fed_as_pixels_raise_a_doubt(scale):
    words = boxes([(300 + 100 * i, 300, 400 + 100 * i, 400) for i in range(10)])
    xy = [(scale * (350 + 100 * i), scale * 350) for i in range(10)]
    with pytest.warns(UserWarning, match="wrong layout"), pytest.warns(UserWarning, match="degr"):
        table, log = map_to_words(points(xy), words, one_trial())
    assert table["word"].isna().all()
    assert count_of(log, "degrees") == 10
    assert count_of(log, "wrong layout") == 1


def test_right_to_left_text_keeps_its_reading_order():
    table, _ = mapped([(150, 5), (50, 5)], [(100, 0, 200, 10), (0, 0, 100, 10)])
    assert table["word_index"].tolist() == [0, 1]  # the right word is read first


@pytest.mark.parametrize("base", [0, 1, 7])
def test_word_numbers_come_out_as_they_came_in(base):
    words = boxes([(0, 0, 10, 10), (10, 0, 20, 10), (20, 0, 30, 10)])
    words["word"] = [str(base + i) for i in range(3)]
    for column in ({"x": [15.0], "y": [5.0]}, {"word": [str(base + 1)]}):
        frame = {"participant": "P1", "trial": ["t"], "stimulus": "A", **column}
        fixations, _ = check_fixations(pd.DataFrame(frame))
        table, _ = map_to_words(fixations, words, one_trial())
        assert table["word"].tolist() == [str(base + 1)]
        assert table["word_index"].tolist() == [1]


def test_word_ids_win_over_boxes_and_unknown_ids_are_named():
    fixations = points([(5, 5), (5, 5), (5, 5), (5, 5)]).assign(word=["b", "zz", None, "a"])
    fixations, _ = check_fixations(fixations)
    words = boxes([(0, 0, 10, 10), (10, 0, 20, 10)])
    table, log = map_to_words(fixations, words, one_trial())
    assert table["word_index"].tolist() == [1, pd.NA, pd.NA, 0]
    unknown = [loss for loss in log if "word id is not" in loss.reason]
    assert unknown[0].count == 1
    assert "zz" in unknown[0].examples


def test_an_empty_word_column_leaves_the_choice_to_the_boxes():
    fixations, _ = check_fixations(points([(5, 5), (15, 5)]).assign(word=None))
    table, _ = map_to_words(fixations, boxes([(0, 0, 10, 10), (10, 0, 20, 10)]), one_trial())
    assert table["word"].tolist() == ["a", "b"]


def test_mapping_twice_changes_nothing():
    words = boxes([(0, 0, 10, 10), (10, 0, 20, 10)])
    once, _ = map_to_words(points([(5, 5), (15, 5), (50, 50)]), words, one_trial())
    twice, _ = map_to_words(once, words, one_trial())
    pd.testing.assert_frame_equal(once, twice)


def test_an_event_without_location_keeps_its_row():
    fixations = points([(5, 5), (np.nan, np.nan)]).assign(event=["fixation", "saccade"])
    table, _ = map_to_words(fixations, boxes([(0, 0, 10, 10)]), one_trial())
    assert table["event"].tolist() == ["fixation", "saccade"]
    assert table["word"].isna().tolist() == [False, True]


def test_the_input_is_not_changed_and_the_order_and_index_stay():
    fixations = points([(15, 5), (5, 5), (50, 50)]).iloc[[2, 0]]
    before = fixations.copy(deep=True)
    table, _ = map_to_words(fixations, boxes([(0, 0, 10, 10), (10, 0, 20, 10)]), one_trial())
    pd.testing.assert_frame_equal(fixations, before)
    assert table.index.tolist() == [2, 0]
    assert table["word_index"].tolist() == [pd.NA, 1]


def test_trials_without_words_and_fixations_without_trial_are_counted():
    fixations, _ = check_fixations(pd.concat([points([(5, 5)], "t"), points([(5, 5)] * 2, "q")]))
    trials = pd.concat([one_trial("t"), one_trial("u", "nowhere")], ignore_index=True)
    table, log = map_to_words(fixations, boxes([(0, 0, 10, 10)]), trials)
    assert table["word_index"].tolist() == [pd.NA, pd.NA, 0]
    assert count_of(log, "not in the trial table") == 2
    assert count_of(log, "no words are known") == 1


def test_words_without_a_box_hold_no_fixation_and_are_counted():
    nan = np.nan
    words = boxes([(0, 0, 10, 10), (nan, nan, nan, nan), (30, 0, 30, 10), (40, 0, 50, 10)])
    table, log = map_to_words(points([(5, 5), (15, 5), (30, 5), (45, 5)]), words, one_trial())
    assert table["word_index"].tolist() == [0, pd.NA, pd.NA, 3]
    assert count_of(log, "without a box") == 2


def test_neither_boxes_nor_word_ids_is_an_error():
    words = boxes([(0, 0, 10, 10)]).drop(columns="right")
    with pytest.raises(DataError, match="right"):
        map_to_words(points([(5, 5)]), words, one_trial())


def test_tables_that_were_not_checked_are_checked():
    words = pd.DataFrame(
        {"stimulus": "A", "word": [0, 1], "text": ["a", "b"], "left": [0, 10], "right": [10, 20],
         "top": 0, "bottom": 10}
    )  # fmt: skip
    fixations = pd.DataFrame(
        {"participant": 1, "trial": 7, "stimulus": "A", "x": [15, 5], "y": [5, 5]}
    )
    trials = pd.DataFrame({"participant": [1], "trial": [7], "stimulus": "A"})
    table, _ = map_to_words(fixations, words, trials)
    assert table["word"].tolist() == ["1", "0"]


def test_no_fixations_at_all():
    empty = points([(5, 5)]).iloc[:0]
    table, log = map_to_words(empty, boxes([(0, 0, 10, 10)]), one_trial())
    assert len(table) == 0
    assert {"word", "word_index"} <= set(table)
    assert len(log) == 0


edge = st.integers(0, 12)


@st.composite
def any_boxes(draw):
    n = draw(st.integers(1, 12))
    out = []
    for _ in range(n):
        left, top = draw(edge), draw(edge)
        out.append((left, top, left + draw(st.integers(0, 6)), top + draw(st.integers(0, 6))))
    return out


@settings(deadline=None, max_examples=200)
@given(
    st.lists(any_boxes(), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), edge, edge), max_size=40),
)
def test_any_boxes_agree_with_plain_loops(reference, layouts, where):
    layout = np.repeat(np.arange(len(layouts)), [len(b) for b in layouts])
    flat = np.array([box for b in layouts for box in b], dtype=float)
    offset = np.cumsum([0, *[len(b) for b in layouts]])
    at = np.array([w[0] for w in where], dtype=int)
    at[at >= len(layouts)] = -1
    x = np.array([w[1] for w in where], dtype=float)
    y = np.array([w[2] for w in where], dtype=float)
    found, several = index_boxes(layout, flat).find(at, x, y)
    doubtful = 0
    for k in range(len(where)):
        if at[k] < 0:
            assert found[k] == -1
            continue
        mine = layouts[at[k]]
        doubtful += sum(b[0] <= x[k] < b[2] and b[1] <= y[k] < b[3] for b in mine) > 1
        expected = reference.word_of(mine, x[k], y[k])
        assert found[k] == (-1 if expected is None else offset[at[k]] + expected)
    assert several == doubtful


def test_many_crowded_points_are_searched_in_parts(monkeypatch, reference):
    monkeypatch.setattr("gazeattn.reading._boxes.PAIRS_AT_ONCE", 7)
    generator = np.random.default_rng(3)
    corner = generator.integers(0, 20, (30, 2))
    flat = np.column_stack([corner, corner + generator.integers(1, 9, (30, 2))]).astype(float)
    x, y = generator.integers(0, 25, (2, 200)).astype(float)
    found, _ = index_boxes(np.zeros(30, int), flat).find(np.zeros(200, int), x, y)
    expected = [reference.word_of([tuple(b) for b in flat], *p) for p in zip(x, y, strict=True)]
    assert found.tolist() == [-1 if e is None else e for e in expected]


def test_close_coordinates_in_many_layouts_stay_exact():
    n = 3000
    layout = np.repeat(np.arange(n), 2)
    flat = np.tile([[0.0, 0.0, 0.1, 1.0], [0.1, 0.0, 0.3, 1.0]], (n, 1))
    just_below = np.nextafter(0.1, 0)
    at = np.repeat(np.arange(n), 2)
    found, _ = index_boxes(layout, flat).find(
        at, np.tile([just_below, 0.1], n), np.full(2 * n, 0.5)
    )
    assert (found == np.arange(2 * n)).all()


def test_a_million_fixations_on_sixty_layouts_take_seconds():
    generator = np.random.default_rng(1)
    column, line = np.meshgrid(np.arange(12), np.arange(10))
    left, top = column.ravel() * 100.0, line.ravel() * 60.0
    one = np.column_stack([left, top, left + 100, top + 60])
    index = index_boxes(np.repeat(np.arange(60), 120), np.tile(one, (60, 1)))
    at = generator.integers(0, 60, 1_000_000)
    x, y = generator.uniform(0, 1200, 1_000_000), generator.uniform(0, 600, 1_000_000)
    start = time.perf_counter()
    found, several = index.find(at, x, y)
    assert time.perf_counter() - start < 10
    assert several == 0
    assert (found == at * 120 + (y // 60).astype(int) * 12 + (x // 100).astype(int)).all()


def two_eyes(right_onset: float, times: bool = True) -> pd.DataFrame:
    frame = points([(5, 5), (5, 5)]).drop(columns="index")
    frame["eye"] = pd.Series(["left", "right"], dtype="str")
    if times:
        frame["onset"] = [0.0, right_onset]
    else:
        frame = frame.drop(columns="duration")
    return check_fixations(frame)[0]


@pytest.mark.parametrize(("onset", "times"), [(0.0, True), (99.0, True), (0.0, False)])
def test_fixations_of_both_eyes_at_once_are_refused(onset: float, times: bool) -> None:
    with pytest.raises(DataError, match="both eyes at the same time in 1 trials"):
        map_to_words(two_eyes(onset, times), boxes([(0, 0, 10, 10)]), one_trial())


def test_an_eye_switch_within_a_trial_or_between_trials_is_fine() -> None:
    area = boxes([(0, 0, 10, 10)])
    assert len(map_to_words(two_eyes(100.0), area, one_trial())[0]) == 2
    apart = pd.concat(
        [two_eyes(0.0)[:1], two_eyes(0.0)[1:].assign(trial="u", index=0)], ignore_index=True
    )
    trials = pd.concat([one_trial(), one_trial("u")], ignore_index=True)
    assert len(map_to_words(apart, area, trials)[0]) == 2
    one = two_eyes(0.0)[:1]
    assert len(map_to_words(one, area, one_trial())[0]) == 1
