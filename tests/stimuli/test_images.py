"""Pictures on a screen, cells of maps, object boxes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError
from gazeattn.stimuli.images import (
    OUTSIDE,
    mark_off,
    object_boxes,
    on_stimulus,
    place_fixations,
    place_stimulus,
    to_cells,
    values_at,
)


def gaze(points: list[tuple[float, float]], stimulus: object = "s") -> pd.DataFrame:
    return pd.DataFrame(points, columns=["x", "y"], dtype="float64").assign(stimulus=stimulus)


SCREENS = [
    # screen, stimulus, fit, point on screen, point on stimulus
    ((2560, 1440), (1280, 960), "center", (640, 240), (0, 0)),
    ((2560, 1440), (1280, 960), "center", (1919, 1199), (1279, 959)),
    ((1920, 1080), (640, 480), "center", (960, 540), (320, 240)),
    ((1024, 768), (1024, 768), "center", (10, 20), (10, 20)),
    ((1920, 1080), (640, 480), "letterbox", (240, 0), (0, 0)),
    ((1920, 1080), (640, 480), "letterbox", (1680, 1080), (640, 480)),
    ((1000, 1000), (500, 250), "letterbox", (0, 250), (0, 0)),
    ((1000, 1000), (2000, 1000), "letterbox", (500, 500), (1000, 500)),
    ((1920, 1080), (640, 480), "stretch", (960, 270), (320, 120)),
]


@pytest.mark.parametrize(("screen", "stimulus", "fit", "there", "here"), SCREENS)
def test_letterboxed_stimuli_map_both_ways(screen, stimulus, fit, there, here):
    place = place_stimulus(screen, stimulus, fit=fit)
    assert tuple(float(v) for v in place.to_stimulus(*there)) == here
    assert tuple(float(v) for v in place.to_screen(*here)) == there


@pytest.mark.parametrize(
    ("point", "inside"),
    [
        ((640, 240), True),
        ((1919.9, 1199.9), True),
        ((639.9, 240), False),
        ((100, 240), False),
        ((1920, 300), False),
        ((700, 1200), False),
        ((np.nan, 300), False),
    ],
)
def test_letterboxed_gaze_beside_the_stimulus_is_outside(point, inside):
    place = place_stimulus((2560, 1440), (1280, 960))
    assert bool(place.inside(*point)) is inside


def test_letterboxed_gaze_is_flagged_in_the_table():
    place = place_stimulus((2560, 1440), (1280, 960))
    table, log = place_fixations(gaze([(640, 240), (100, 240), (np.nan, 5)]), place)
    assert table["x"].tolist()[:2] == [0, -540] and table["y"].tolist()[:2] == [0, 0]
    assert table["x_screen"].tolist()[:2] == [640, 100]
    assert table["off_screen"].tolist() == [False, True, pd.NA]
    assert [(loss.kind, loss.count) for loss in log] == [("note", 1), ("undefined", 1)]


def test_scale_offset_and_a_stimulus_larger_than_the_screen():
    place = place_stimulus((800, 600), (100, 50), scale=2, offset=(10, 20))
    assert [float(v) for v in place.to_stimulus(30, 40)] == [10, 10]
    assert place.scale == (2, 2)
    large = place_stimulus((800, 600), (1000, 600))
    assert large.offset == (-100, 0)
    # Stimulus column 50 is not on the screen.
    assert not large.inside(-50, 10) and large.inside(0, 10)
    odd = place_stimulus((1920, 1080), (641, 480))
    assert odd.offset == (639.5, 300)


def test_one_placement_per_stimulus():
    frame = pd.concat([gaze([(640, 240)], 1), gaze([(5, 6)], 2)], ignore_index=True)
    places = {
        "1": place_stimulus((2560, 1440), (1280, 960)),
        "2": place_stimulus((2560, 1440), (2560, 1440)),
    }
    table, log = place_fixations(frame, places)
    assert table[["x", "y"]].to_numpy().tolist() == [[0, 0], [5, 6]] and len(log) == 0
    with pytest.raises(DataError, match="no placement"):
        place_fixations(gaze([(1, 1)], "3"), places)
    with pytest.raises(DataError, match="no stimulus"):
        place_fixations(gaze([(1, 1)], None), places)


@pytest.mark.parametrize(
    ("size", "point", "inside"),
    [
        ((640, 480), (639.4, 10), True),
        ((640, 480), (640.0, 10), False),
        ((640, 480), (641, 10), False),
        ((640, 480), (-0.2, 10), False),
        ((640, 480), (0, 0), True),
        ((640, 480), (300, 479.9), True),
        ((640, 480), (300, 480), False),
        ((480, 640), (300, 600), True),
    ],
)
def test_off_screen_is_from_the_width_on(size, point, inside):
    assert bool(on_stimulus(*point, size)) is inside


def test_off_screen_fixations_are_marked_dropped_or_clipped_by_choice():
    frame = gaze([(639.4, 10), (640.0, 10), (-0.2, 10), (300, 479.9), (np.nan, 1)])
    marked, log = mark_off(frame, (640, 480))
    assert marked["off_screen"].tolist() == [False, True, True, False, pd.NA]
    assert marked["x"].tolist()[:4] == [639.4, 640, -0.2, 300] and log.count(kind="note") == 2
    dropped, log = mark_off(frame, (640, 480), off="drop")
    assert dropped["x"].tolist()[:2] == [639.4, 300] and len(dropped) == 3
    assert log.count(kind="dropped") == 2
    clipped, log = mark_off(frame, (640, 480), off="clip")
    assert clipped["x"].tolist()[:4] == [639.4, np.nextafter(640, 0), 0, 300]
    assert on_stimulus(clipped["x"][:4], clipped["y"][:4], (640, 480)).all()
    assert clipped["off_screen"].tolist()[:4] == [False, True, True, False]
    assert log.count(kind="repaired") == 2
    assert frame["x"].tolist()[:4] == [639.4, 640, -0.2, 300] and "off_screen" not in frame
    with pytest.raises(DataError, match="mark, drop or clip"):
        mark_off(frame, (640, 480), off="hide")


@pytest.mark.parametrize("point", [(-1, -1), (-0.5, 1), (1, -3), (4, 1), (1, 3), (np.nan, 1)])
def test_negative_coordinates_do_not_wrap_around(point):
    array = np.arange(12.0).reshape(3, 4)
    x, y = np.array([point[0]]), np.array([point[1]])
    assert np.isnan(values_at(array, x, y, size=(4, 3))).all()
    row, column, inside = to_cells(x, y, size=(4, 3), shape=(3, 4))
    assert not inside[0] and row[0] == column[0] == OUTSIDE
    with pytest.raises(IndexError):
        array[row, column]


@pytest.mark.parametrize(
    ("size", "shape", "point", "cell"),
    [
        ((1680, 1050), (20, 32), (1679, 1049), (19, 31)),
        ((1680, 1050), (20, 32), (0, 0), (0, 0)),
        ((1680, 1050), (20, 32), (52.5, 52.5), (1, 1)),
        ((1680, 1050), (20, 32), (52.4, 52.4), (0, 0)),
        ((10, 10), (100, 100), (9.99, 0.1), (1, 99)),
        ((3, 3), (3, 3), (np.nextafter(3, 0), 2), (2, 2)),
        ((0.3, 1), (1, 3), (np.nextafter(0.3, 0), 0), (0, 2)),
    ],
)
def test_image_size_and_array_size_differ(size, shape, point, cell):
    row, column, inside = to_cells(*np.array([point]).T, size=size, shape=shape)
    assert (row[0], column[0]) == cell and inside[0]
    array = np.arange(shape[0] * shape[1]).reshape(shape)
    assert values_at(array, *np.array([point]).T, size=size)[0] == array[cell]


def test_the_size_of_the_picture_must_be_said():
    with pytest.raises(TypeError):
        to_cells(np.array([1.0]), np.array([1.0]), shape=(3, 4))  # type: ignore[call-arg]
    with pytest.raises(DataError, match="above 0"):
        to_cells(np.array([1.0]), np.array([1.0]), size=(0, 4), shape=(3, 4))


sizes = st.tuples(st.integers(1, 4000), st.integers(1, 4000))
numbers = st.floats(-5000, 5000)


@settings(deadline=None)
@given(sizes, sizes, st.sampled_from(["center", "letterbox", "stretch"]), numbers, numbers)
def test_there_and_back_is_the_same_point(screen, stimulus, fit, x, y):
    place = place_stimulus(screen, stimulus, fit=fit)
    back = place.to_screen(*place.to_stimulus(x, y))
    np.testing.assert_allclose(back, (x, y), rtol=1e-9, atol=1e-8)
    width, height = place.shown
    if fit == "letterbox":
        assert width <= screen[0] and height <= screen[1]
        assert width == screen[0] or height == screen[1]
    middle = place.to_screen(stimulus[0] / 2, stimulus[1] / 2)
    np.testing.assert_allclose(middle, (screen[0] / 2, screen[1] / 2), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("bad", [(0, 5), (5, -1), (np.nan, 5), (5,), (1, 2, 3)])
def test_sizes_must_be_two_numbers_above_0(bad):
    with pytest.raises(DataError, match="width, height"):
        place_stimulus(bad, (5, 5))
    with pytest.raises(DataError, match="width, height"):
        place_stimulus((5, 5), bad)


def test_boxes_in_both_forms():
    wide, _ = object_boxes([[10, 20, 30, 40]], form="xywh", stimulus="i", ids=[7], labels=["cup"])
    assert wide[["left", "top", "right", "bottom"]].to_numpy().tolist() == [[10, 20, 40, 60]]
    assert wide["word"].tolist() == ["7"] and wide["text"].tolist() == ["cup"]
    same, _ = object_boxes([[10, 20, 40, 60]], form="ltrb", stimulus="i")
    assert same["right"].tolist() == [40] and same["word"].tolist() == ["0"]
    closed, _ = object_boxes([[10, 20, 39, 59]], form="ltrb", inclusive=True)
    assert closed[["right", "bottom"]].to_numpy().tolist() == [[40, 60]]
    for boxes, form, message in (
        ([[1, 2, -3, 4]], "xywh", "ends before it begins"),
        ([[1, 2, 3]], "ltrb", "four numbers"),
        ([[1, 2, 3, 4]], "yxhw", "form of boxes"),
    ):
        with pytest.raises(DataError, match=message):
            object_boxes(boxes, form=form)


def test_positions_of_any_kind_of_number():
    place = place_stimulus((100, 100), (50, 50))
    frame = pd.DataFrame({"x": ["25", ".", "74.5"], "y": [25, 30, 26], "stimulus": 1})
    table, _ = place_fixations(frame, {"1": place})
    assert table["x"].fillna(-1).tolist() == [0, -1, 49.5] and table["y"].tolist() == [0, 5, 1]
    assert table["off_screen"].tolist() == [False, pd.NA, False]
    for bad in ("here", "inf"):
        with pytest.raises(DataError, match="must hold numbers"):
            place_fixations(frame.assign(x=bad), place)
    with pytest.raises(DataError, match="need a position"):
        place_fixations(frame.drop(columns="y"), place)
    with pytest.raises(DataError, match="need a stimulus"):
        place_fixations(frame.drop(columns="stimulus"), {"1": place})
