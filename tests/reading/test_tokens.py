"""Fixations on units with one box or several."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError
from gazeattn.reading.areas import map_to_words
from gazeattn.reading.measures import word_measures
from gazeattn.reading.tokens import expand_boxes, map_to_interest_areas, map_to_units
from gazeattn.stimuli.code import parse_code
from gazeattn.stimuli.grid import Grid
from gazeattn.stimuli.ias import read_ias
from gazeattn.stimuli.images import object_boxes
from gazeattn.stimuli.text import layout_text
from gazeattn.tables import check_trials, check_words

GRID = Grid(10, 20)


def gaze(points: list[tuple[float, float]], stimulus: str = "s", trial: str = "t") -> pd.DataFrame:
    frame = pd.DataFrame(points, columns=["x", "y"], dtype="float64")
    return frame.assign(participant="P", trial=trial, stimulus=stimulus, duration=100.0)


def one_trial(stimulus: str = "s", layout: str | None = None, trial: str = "t") -> pd.DataFrame:
    row = {"participant": "P", "trial": [trial], "stimulus": stimulus, "layout": layout or stimulus}
    return check_trials(pd.DataFrame(row))[0]


def units_of(boxes: list[tuple[float, ...]], ids: list[object] | None = None) -> pd.DataFrame:
    return object_boxes(boxes, form="ltrb", stimulus="s", ids=ids)[0]


def mapped(points, units, boxes=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return map_to_units(gaze(points), units, one_trial(), boxes, **options)


def test_overlapping_areas_give_three_rows_for_three_rows():
    units = units_of([(0, 0, 10, 10), (8, 0, 20, 10)], ["A", "B"])
    table, log = mapped([(5, 5), (9, 5), (15, 5)], units)
    # 9 is 4 from the centre of A (5) and 5 from that of B (14).
    assert table["word"].tolist() == ["A", "A", "B"]
    assert [loss.count for loss in log] == [1] and "overlapping" in str(log)


def test_overlapping_areas_at_the_same_distance_give_the_first():
    for order in (["A", "B"], ["B", "A"]):
        units = units_of([(0, 0, 10, 10), (6, 0, 16, 10)], order)
        assert mapped([(8, 5)], units)[0]["word"].tolist() == [order[0]]


def test_overlapping_areas_one_in_the_other():
    units = units_of([(0, 0, 100, 100), (10, 10, 20, 20)], ["outer", "inner"])
    table, log = mapped([(15, 15), (50, 50), (5, 5)], units)
    assert table["word"].tolist() == ["inner", "outer", "outer"] and log.count() == 1


def test_a_shared_edge_belongs_to_one_box():
    units = units_of([(0, 0, 10, 10), (10, 0, 20, 10), (0, 10, 10, 20)], ["A", "B", "C"])
    table, log = mapped([(10, 5), (5, 10), (10, 10), (0, 0), (20, 5)], units)
    assert table["word"].fillna("-").tolist() == ["B", "C", "-", "A", "-"]
    assert log.count(kind="note") == 2


@pytest.mark.parametrize("missing", [np.nan, None])
def test_other_events_in_the_table_are_kept_with_nothing(missing):
    frame = gaze([(5, 5), (0, 0), (15, 5)])
    frame["event"] = ["fixation", "saccade", "fixation"]
    frame["index"] = [0, 0, 1]  # events are numbered by kind
    frame["x"] = [5, missing, 15]
    frame.loc[1, "duration"] = np.nan
    units = units_of([(0, 0, 10, 10), (10, 0, 20, 10)], ["A", "B"])
    table, log = map_to_units(frame, units, one_trial())
    assert table["word"].fillna("-").tolist() == ["A", "-", "B"]
    assert table["event"].tolist() == ["fixation", "saccade", "fixation"]
    assert [(x.kind, x.count) for x in log] == [("undefined", 1)]


def test_rows_come_out_as_they_went_in():
    rng = np.random.default_rng(0)
    frames = [gaze(list(rng.uniform(0, 30, (20, 2))), trial=t) for t in ("b", "a", "c")]
    frame = pd.concat(frames).sample(frac=1, random_state=1)
    frame.index = rng.permutation(len(frame)) * 3
    trials = pd.concat([one_trial(trial=t) for t in "abc"], ignore_index=True)
    units = units_of([(0, 0, 15, 30), (15, 0, 30, 30)], ["A", "B"])
    table, _ = map_to_units(frame, units, trials)
    pd.testing.assert_frame_equal(table[frame.columns], frame)
    assert table["word"].tolist() == np.where(frame["x"] < 15, "A", "B").tolist()


@pytest.mark.parametrize("numbers", [[0, 1, 2], [1, 2, 3], ["10", "20", "5"], [7, 3, 5]])
def test_numbers_of_words_come_out_as_they_went_in(numbers):
    units = units_of([(0, 0, 10, 10), (10, 0, 20, 10), (20, 0, 30, 10)], numbers)
    table, _ = mapped([(5, 5), (25, 5)], units)
    assert table["word"].tolist() == [str(numbers[0]), str(numbers[2])]
    assert table["word_index"].tolist() == [0, 2]
    # Nothing hangs on whether the first one was looked at.
    assert mapped([(25, 5)], units)[0]["word_index"].tolist() == [2]


@pytest.mark.parametrize("text", ["אב גדה", "من کتاب", "it was"])
def test_right_to_left_words_are_numbered_in_reading_order(text):
    layout = layout_text(text, Grid(10, 20, x=500, rtl=True), stimulus="s")
    table, _ = mapped([(495, 10), (455, 10)], layout.words, layout.boxes)
    assert table["word_index"].tolist() == [0, 1]


def test_a_broken_word_is_one_word_wherever_it_is_looked_at():
    layout = layout_text("an exam-\nple here", GRID, stimulus="s", hyphenated="all")
    points = [(5, 5), (40, 5), (10, 25), (45, 25), (35, 25)]
    table, log = mapped(points, layout.words, layout.boxes)
    assert table["word"].fillna("-").tolist() == ["0", "1", "1", "2", "-"]
    assert table["word_index"].fillna(-1).tolist() == [0, 1, 1, 2, -1]
    assert table["word_part"].fillna(-1).tolist() == [0, 0, 1, 0, -1]
    assert [loss.count for loss in log] == [1]


def test_measures_take_a_broken_word_as_one():
    layout = layout_text("an exam-\nple here", GRID, stimulus="s", hyphenated="all")
    fixations, _ = mapped([(5, 5), (40, 5), (10, 25), (45, 25)], layout.words, layout.boxes)
    measures = word_measures(fixations, layout.words, one_trial())
    row = measures[measures["word"] == "1"].iloc[0]
    assert row["fixation_count"] == 2 and row["gaze_duration"] == 200
    assert row["first_fixation_duration"] == 100 and not row["regression_in"]


def test_a_token_over_lines_is_one_token():
    code = parse_code('x = """ab\n  cd"""\ny', "python", stimulus="s", grid=GRID)
    table, _ = mapped([(45, 5), (30, 25), (5, 25), (5, 45)], code.tokens, code.boxes)
    assert table["word_index"].fillna(-1).tolist() == [2, 2, -1, 3]


def test_units_with_one_box_give_what_words_give():
    rng = np.random.default_rng(5)
    corners = rng.integers(0, 80, (12, 2))
    units = units_of(np.c_[corners, corners + rng.integers(1, 30, (12, 2))].tolist())
    frame = gaze(list(rng.uniform(-5, 110, (300, 2))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ours, log = map_to_units(frame, units, one_trial())
        theirs, other = map_to_words(frame, units, one_trial())
    assert ours["word"].fillna("-").tolist() == theirs["word"].fillna("-").tolist()
    assert ours["word_index"].fillna(-1).tolist() == theirs["word_index"].fillna(-1).tolist()
    assert {(x.reason, x.count) for x in log} == {(x.reason, x.count) for x in other}


def test_boxes_go_by_the_layout_of_the_trial():
    one = layout_text("aa bb", GRID, stimulus="s", layout="narrow")
    two = layout_text("aa\nbb", GRID, stimulus="s", layout="tall")
    units = check_words(pd.concat([one.words, two.words]))[0]
    boxes = pd.concat([one.boxes, two.boxes])
    frame = pd.concat([gaze([(35, 5)], trial="1"), gaze([(5, 25)], trial="2")])
    trials = pd.concat(
        [one_trial(layout="narrow", trial="1"), one_trial(layout="tall", trial="2")],
        ignore_index=True,
    )
    table, log = map_to_units(frame, units, trials, boxes)
    assert table["word_index"].tolist() == [1, 1] and len(log) == 0


def test_nearest_box_within_a_distance():
    units = units_of([(0, 0, 10, 10), (20, 0, 30, 10)], ["A", "B"])
    points = [(5, 5), (13, 5), (16, 5), (15, 5), (33, 14), (99, 5), (np.nan, 5)]
    table, log = mapped(points, units, column="area", nearest=5)
    assert table["area"].fillna("-").tolist() == ["A", "A", "B", "A", "B", "-", "-"]
    assert table["area_distance"].fillna(-1).tolist() == [0, 3, 4, 5, 5, -1, -1]
    assert "given to the nearest within 5 pixels" in str(log) and log.count(kind="note") == 5 + 4
    # The box counts, not its centre: 2 from the wide one, 3 from the narrow one.
    wide = units_of([(0, 0, 10, 10), (15, 0, 17, 10)], ["wide", "narrow"])
    assert mapped([(12, 5)], wide, nearest=9)[0]["word"].tolist() == ["wide"]
    # Equally far: the nearer centre.
    assert mapped([(12.5, 5)], wide, nearest=9)[0]["word"].tolist() == ["narrow"]
    with pytest.raises(DataError, match="0 or more"):
        mapped(points, units, nearest=-1)


def test_objects_need_not_be_looked_at():
    units = units_of([(0, 0, 10, 10)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table, log = map_to_units(gaze([(50, 50)] * 9), units, one_trial(), column="area")
    assert table["area"].isna().all() and [loss.count for loss in log] == [9]
    with pytest.warns(UserWarning, match="wrong layout"):
        map_to_units(gaze([(50, 50)] * 9), units, one_trial())


def test_boxes_without_a_unit_and_tables_without_a_place():
    units = units_of([(0, 0, 10, 10)], ["A"])
    boxes = pd.DataFrame(
        [["s", "B", 0, 0, 1, 1]], columns="layout word left top right bottom".split()
    )
    with pytest.raises(DataError, match="belongs to no unit"):
        expand_boxes(units, boxes)
    with pytest.raises(DataError, match="lack a column"):
        expand_boxes(units, boxes.drop(columns="top"))
    with pytest.raises(DataError, match="columns x and y"):
        map_to_units(gaze([(1, 1)]).drop(columns="x"), units, one_trial())


def test_ids_that_look_like_parts_stay_apart():
    layout = layout_text("exam-\nple", GRID, stimulus="s", hyphenated="all")
    units = pd.concat([layout.words, units_of([(50, 50, 60, 60)], ["0#1"]).assign(index=1)])
    table, _ = mapped([(5, 5), (5, 25), (55, 55)], units, layout.boxes)
    assert table["word"].tolist() == ["0", "0", "0#1"]


def test_no_rows_in_no_rows_out():
    units = units_of([(0, 0, 10, 10)], ["A"])
    table, log = map_to_units(gaze([]).astype({"x": float}), units, one_trial(), nearest=3)
    assert len(table) == 0 and len(log) == 0 and "word_index" in table


AREAS = b"RECTANGLE 1 0 0 20 10 a\nELLIPSE 2 40 0 60 10 b\nFREEHAND 3 80,0 90,0 90,10 c\n"


def test_interest_areas_of_all_shapes():
    frame = gaze([(5, 5), (41, 1), (50, 5), (88, 2), (81, 8), (np.nan, 1)])
    frame = pd.concat([frame, gaze([(5, 5)], stimulus="other")])
    table, log = map_to_interest_areas(frame, {"s": read_ias(AREAS, stimulus="s")})
    assert table["area"].fillna("-").tolist() == ["1", "-", "2", "3", "-", "-", "-"]
    assert table["area_index"].fillna(-1).tolist() == [0, -1, 1, 2, -1, -1, -1]
    assert {(x.reason, x.count) for x in log} == {
        ("no areas are known for their stimulus", 1),
        ("without a position", 1),
        ("off every area", 2),
    }


def test_interest_areas_that_move():
    areas = read_ias(b"-0 -99 RECTANGLE 1 0 0 9 9 x\n-100 -199 RECTANGLE 1 50 0 59 9 x\n")
    frame = gaze([(5, 5), (5, 5), (55, 5)]).assign(onset=[50, 150, 150])
    table, _ = map_to_interest_areas(frame, {"s": areas}, time="onset")
    assert table["area"].fillna("-").tolist() == ["1", "-", "1"]
    with pytest.raises(DataError, match="part of the trial"):
        map_to_interest_areas(frame, {"s": areas})


places = st.tuples(st.integers(-2, 22), st.integers(-2, 22))
rectangles = st.tuples(
    st.integers(0, 18), st.integers(0, 18), st.integers(0, 8), st.integers(0, 8)
).map(lambda r: (r[0], r[1], r[0] + r[2], r[1] + r[3]))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 3), rectangles), min_size=1, max_size=8),
    st.lists(places, min_size=1, max_size=15),
)
def test_lookup_agrees_with_a_plain_search(parts, points):
    ids = sorted({unit for unit, _ in parts})
    units = pd.DataFrame(
        {"layout": "s", "stimulus": "s", "word": [f"u{k}" for k in ids], "text": "x"}
    ).assign(left=np.nan, top=np.nan, right=np.nan, bottom=np.nan)
    boxes = pd.DataFrame(
        [("s", f"u{unit}", *map(float, box)) for unit, box in parts],
        columns=["layout", "word", "left", "top", "right", "bottom"],
    )
    table, _ = mapped(points, units, boxes)
    ordered = sorted(parts, key=lambda part: part[0])
    for (x, y), found in zip(points, table["word"].fillna("-"), strict=True):
        best = ("-", np.inf)
        for unit, (left, top, right, bottom) in ordered:
            distance = (x - (left + right) / 2) ** 2 + (y - (top + bottom) / 2) ** 2
            if left <= x < right and top <= y < bottom and distance < best[1]:
                best = (f"u{unit}", distance)
        assert found == best[0]


def test_covers_of_the_search_corpus(shared_data):
    folder = shared_data / "sti_amazon"
    gazes = pd.read_parquet(folder / "fixations.parquet")
    images = pd.read_csv(folder / "images.csv")
    cells = pd.read_csv(folder / "layout_cells_derived.csv")
    sides = ["xmin", "ymin", "xmax", "ymax"]
    trial = gazes["image"] + "_" + gazes["subject"].astype("str")
    frame = gazes[["x", "y"]].assign(participant=gazes["subject"], trial=trial, stimulus="grid")
    units, _ = object_boxes(cells[sides], form="ltrb", stimulus="grid", ids=cells["cell"])
    trials = frame.drop_duplicates("trial")[["participant", "trial", "stimulus"]]
    table, log = map_to_units(frame, units, trials, column="area", nearest=10_000)
    assert len(table) == 8683 and len(trials) == 600
    assert (table["area"].astype("int64") == gazes["cell"]).all()
    assert (table["area_distance"] > 0).sum() == 1139 and log.count() == 2 * 1139

    frame["stimulus"] = gazes["image"]
    targets = pd.concat(
        object_boxes(
            [[row.target_xmin, row.target_ymin, row.target_xmax, row.target_ymax]],
            form="ltrb",
            stimulus=row.image,
            ids=["target"],
            inclusive=True,
        )[0]
        for row in images.itertuples()
    )
    trials = frame.drop_duplicates("trial")[["participant", "trial", "stimulus"]]
    table, _ = map_to_units(frame, targets, trials, column="area")
    assert (table["area"].notna() == gazes["in_target_box"]).all()
    assert table[table["area"].notna()]["trial"].nunique() == 563
