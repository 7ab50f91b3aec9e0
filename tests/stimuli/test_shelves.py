"""Generated shelves and the known searcher."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError
from gazeattn.stimuli.shelves import Searcher, Shelf, crops_of, make_shelf


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 0.9))
def test_boxes_lie_on_the_shelf_and_do_not_overlap(seed, empty):
    shelf = make_shelf(seed, empty=empty)
    b = shelf.boxes
    assert len(b) >= 1 and 0 <= shelf.target < len(b)
    assert (b[:, :2] >= 0).all() and (b[:, 2:] <= shelf.size).all()
    low = np.maximum(b[:, None, :2], b[None, :, :2])
    high = np.minimum(b[:, None, 2:], b[None, :, 2:])
    overlap = (high > low).all(-1)
    assert overlap.sum() == len(b)  # each with itself


def test_same_seed_same_shelf():
    a, b, c = make_shelf(4), make_shelf(4), make_shelf(5)
    assert np.array_equal(a.boxes, b.boxes) and np.array_equal(a.colours, b.colours)
    assert a.boxes.shape != c.boxes.shape or not np.array_equal(a.boxes, c.boxes)


@pytest.mark.parametrize("empty", [-0.1, 1.0])
def test_share_of_empty_places(empty):
    with pytest.raises(DataError):
        make_shelf(0, empty=empty)


def test_probabilities_by_hand():
    # two packages of the unit size, one unit left and right of the middle; only one is alike
    boxes = np.array([[0.0, 0, 10, 10], [20, 0, 30, 10]])
    shelf = Shelf((30, 10), boxes, np.array([[0.0, 0, 0], [9, 9, 9]]), 0)
    searcher = Searcher(colour=1.0, distance=0.5, again=2.0)
    first = searcher.probabilities(shelf, np.array([], dtype=int))
    assert first[0] == pytest.approx(np.e / (1 + np.e))
    # from the target: itself 1 - 0 - 2 = -1, the other 0 - 0.5 * 2 - 0 = -1
    assert searcher.probabilities(shelf, np.array([0])) == pytest.approx([0.5, 0.5])
    expected = (np.log(np.e / (1 + np.e)) + np.log(0.5)) / 2
    assert searcher.mean_log_probability(shelf, np.array([0, 1])) == pytest.approx(expected)


def test_searches_stop_on_the_target_or_give_up():
    searcher = Searcher(longest=6)
    for k in range(30):
        shelf = make_shelf(k)
        path = searcher.search(shelf, k)
        assert len(path) == 6 or path[-1] == shelf.target
        assert np.array_equal(path, searcher.search(shelf, k))


def test_crops_show_the_colour():
    shelf = make_shelf(3)
    crops = crops_of(shelf, (24, 30), noise=0.0)
    assert crops.shape == (len(shelf.boxes), 3, 30, 24)
    assert np.allclose(crops[:, :, :, 0], shelf.colours[:, :, None])
    assert np.array_equal(crops_of(shelf), crops_of(shelf))
