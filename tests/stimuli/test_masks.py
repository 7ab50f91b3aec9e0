"""Objects as masks: run lengths, overlaps, labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gazeattn.errors import DataError
from gazeattn.stimuli.masks import (
    decode_rle,
    encode_rle,
    labelled_masks,
    map_to_masks,
    stacked_masks,
)


def test_run_lengths_go_down_the_columns():
    # Height 2, width 3: columns (0, 1), (1, 1), (0, 0).
    mask = decode_rle({"size": [2, 3], "counts": [1, 3, 2]})
    assert mask.astype(int).tolist() == [[0, 1, 0], [1, 1, 0]]
    assert encode_rle(mask) == {"size": [2, 3], "counts": [1, 3, 2]}
    assert encode_rle(np.ones((2, 2))) == {"size": [2, 2], "counts": [0, 4]}
    assert encode_rle(np.zeros((2, 2))) == {"size": [2, 2], "counts": [4]}


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, 3], "do not fill"),
        ([7, -1], "do not fill"),
        ("abc", "compressed"),
        (b"x", "compressed"),
    ],
)
def test_damaged_run_lengths(counts, message):
    with pytest.raises(DataError, match=message):
        decode_rle({"size": [2, 3], "counts": counts})


@settings(deadline=None)
@given(arrays(bool, st.tuples(st.integers(1, 6), st.integers(1, 6))))
def test_run_lengths_there_and_back(mask):
    assert (decode_rle(encode_rle(mask)) == mask).all()


def two() -> tuple[np.ndarray, np.ndarray]:
    a, b = np.zeros((1, 20), bool), np.zeros((1, 20), bool)
    a[:, 0:10], b[:, 8:20] = True, True
    return a, b


def test_two_overlapping_masks_give_three_rows_for_three_rows():
    masks = stacked_masks(two(), ids=["A", "B"])
    frame = pd.DataFrame({"x": [5, 9.0, 15], "y": 0.5, "stimulus": "s"}, index=[7, 3, 5])
    table, log = map_to_masks(frame, {"s": masks}, {"s": (20, 1)})
    # 9 is 4 from the centre of A (5) and 5 from that of B (14).
    assert table["area"].tolist() == ["A", "A", "B"] and table.index.tolist() == [7, 3, 5]
    assert [(x.kind, x.count) for x in log] == [("note", 1)]
    turned = stacked_masks(two()[::-1], ids=["B", "A"])
    assert map_to_masks(frame, {"s": turned}, {"s": (20, 1)})[0]["area"].tolist() == ["A", "A", "B"]


def test_equally_near_masks_give_the_first():
    a = np.zeros((1, 10), bool)
    b = a.copy()
    a[:, 0:6], b[:, 4:10] = True, True
    assert stacked_masks([a, b]).find(np.array([5.0]), np.array([0.0]), size=(10, 1))[0] == [0]
    assert stacked_masks([b, a]).find(np.array([5.0]), np.array([0.0]), size=(10, 1))[0] == [0]


def test_masks_smaller_than_the_picture_span_it():
    masks = stacked_masks(two(), ids=["A", "B"])
    found, _ = masks.find(np.array([50, 199, 200, -1, np.nan]), np.full(5, 3.0), size=(200, 10))
    assert found.tolist() == [0, 1, -1, -1, -1]


def test_labels_with_and_without_names():
    labels = np.array([[0, 5], [9, 9]])
    masks = labelled_masks(labels)
    assert masks.ids == ["5", "9"]
    x, y = np.array([0.5, 1.5, 0.5, 1.5, -1]), np.array([0.5, 0.5, 1.5, 1.9, 0])
    assert masks.find(x, y, size=(2, 2))[0].tolist() == [-1, 0, 1, 1, -1]
    assert labelled_masks(labels, {5: "cup", 9: "dog"}).ids == ["cup", "dog"]
    assert labelled_masks(labels, ground=9).ids == ["0", "5"]
    with pytest.raises(DataError, match="no id"):
        labelled_masks(labels, {5: "cup"})
    with pytest.raises(DataError, match="whole numbers"):
        labelled_masks(labels / 2)


def test_labels_agree_with_a_stack_of_the_same_objects():
    labels = np.random.default_rng(3).integers(0, 4, (7, 9))
    stack = stacked_masks([labels == k for k in (1, 2, 3)])
    rng = np.random.default_rng(4)
    x, y = rng.uniform(-2, 11, 500), rng.uniform(-2, 9, 500)
    one, two = (m.find(x, y, size=(9, 7))[0] for m in (labelled_masks(labels), stack))
    assert (one == two).all() and (one >= 0).any()


def test_what_is_on_no_object_is_counted():
    masks = labelled_masks(np.array([[0, 1]]))
    frame = pd.DataFrame(
        {
            "x": [0.5, 1.5, 2.0, np.nan, 1.0],
            "y": [0.5] * 5,
            "stimulus": ["s", "s", "s", "s", "other"],
        }
    )
    table, log = map_to_masks(frame, {"s": masks}, {"s": (2, 1)})
    assert table["area"].isna().tolist() == [True, False, True, True, True]
    assert {(x.reason, x.count) for x in log} == {
        ("no masks are known for their picture", 1),
        ("on no object", 1),
        ("outside the picture", 1),
        ("without a position", 1),
    }


def test_masks_need_one_shape_and_one_id_each():
    with pytest.raises(DataError, match="one shape"):
        stacked_masks([np.ones((2, 2)), np.ones((2, 3))])
    with pytest.raises(DataError, match="one shape"):
        stacked_masks([])
    with pytest.raises(DataError, match="all different"):
        stacked_masks([np.ones((2, 2))] * 2, ids=["a", "a"])
