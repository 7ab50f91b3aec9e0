"""Sequences of objects over displays: boxes, assignment, batches with a real padding mask."""

from __future__ import annotations

import types

import numpy as np
import pandas as pd
import pytest
import torch

from gazeattn.datamodules import Stimulus
from gazeattn.datamodules.objects import (
    ObjectDataModule,
    boxes_of,
    collate_objects,
    object_scanpaths,
    objects_at,
    objects_of,
    table_of_boxes,
    target_of,
    unit_of,
)
from gazeattn.errors import DataError


def display(name: str, boxes: list[list[float]], row: int | None = None, /, **features) -> Stimulus:
    return Stimulus(name, (100.0, 50.0), objects=table_of_boxes(boxes, row), features=features)


ROW = [[0, 0, 10, 20], [20, 0, 30, 20], [40, 0, 50, 20]]


def test_boxes_that_cannot_be_are_refused():
    assert boxes_of(display("a", ROW)).shape == (3, 4)
    for bad in ([[0, 0, 0, 5]], [[0, 0, np.nan, 5]], [[5, 5, 1, 9]]):
        with pytest.raises(DataError, match="without an area"):
            boxes_of(display("a", bad))
    with pytest.raises(DataError, match="no objects"):
        boxes_of(Stimulus("a", (10.0, 10.0)))
    with pytest.raises(DataError, match="lacks a column"):
        boxes_of(Stimulus("a", (10.0, 10.0), objects=pd.DataFrame({"object": ["0"]})))


def test_one_target_at_most():
    assert target_of(display("a", ROW)) is None
    assert target_of(display("a", ROW, 2)) == 2
    two = display("a", ROW, 0)
    two.objects["is_target"] = True
    with pytest.raises(DataError, match="one target"):
        target_of(two)


def test_position_goes_to_its_box_and_else_to_the_nearest_centre():
    # centres 5, 25, 45; 17 lies in no box and is 8 from 25 and 12 from 5
    assert objects_at([[5, 10], [17, 10], [12, 10], [99, 99]], ROW).tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_overlapping_boxes_do_not_depend_on_their_order(order):
    boxes = np.array([[0, 0, 100, 10], [60, 0, 80, 10]], dtype=float)
    # 62 is in both: 12 from the middle of the wide box, 8 from that of the narrow one
    found = objects_at([[62, 5], [55, 5]], boxes[order])
    assert [order[i] for i in found] == [1, 0]


def test_box_wins_over_a_nearer_centre_outside():
    boxes = [[0, 0, 100, 10], [101, 0, 103, 10]]
    assert objects_at([[99, 5]], boxes).tolist() == [0]


def test_batch_by_hand():
    a, b = display("a", ROW, 1), display("b", [[0, 0, 20, 10], [80, 40, 100, 50]])
    paths = object_scanpaths([[0, 2], [1], [1, 1, 0]], ["a", "b", "a"], {"a": a, "b": b})
    batch = collate_objects(paths)
    assert batch.looked.tolist() == [[0, 2, 0], [1, 0, 0], [1, 1, 0]]
    assert batch.mask.sum(1).tolist() == [2, 1, 3]
    assert batch.which.tolist() == [0, 1, 0]
    assert batch.present.tolist() == [[True] * 3, [True, True, False]]
    assert batch.is_target.tolist() == [[False, True, False], [False] * 3]
    # unit of a is (10, 20), its middle (50, 25): (5 - 50) / 10, (10 - 25) / 20
    assert unit_of(a).tolist() == [10, 20]
    assert batch.centres[0, 0].tolist() == [-4.5, -0.75]
    assert batch.origin.tolist() == [[0, 0]] * 3
    assert batch.appearance is None and batch.target is None


def test_appearance_of_any_number_of_objects():
    a = display("a", ROW, appearance=torch.ones(3, 2), target=torch.ones(2))
    b = display("b", ROW[:2], appearance=torch.ones(2, 2), target=torch.zeros(2))
    batch = collate_objects(object_scanpaths([[0], [1]], ["a", "b"], {"a": a, "b": b}))
    assert batch.appearance.sum((1, 2)).tolist() == [6, 4]
    assert batch.target.tolist() == [[1, 1], [0, 0]]
    short = display("a", ROW, appearance=torch.ones(2, 2), target=torch.ones(2))
    with pytest.raises(DataError, match="one row per object"):
        collate_objects(object_scanpaths([[0]], ["a"], {"a": short}))
    none = display("b", ROW)
    with pytest.raises(DataError, match="others none"):
        collate_objects(object_scanpaths([[0], [0]], ["a", "b"], {"a": a, "b": none}))


@pytest.mark.parametrize("bad", [[], [3], [-1], [0, 1, 7]])
def test_sequence_that_does_not_fit_its_display(bad):
    with pytest.raises(DataError, match="does not fit"):
        object_scanpaths([[0], bad], ["a", "a"], {"a": display("a", ROW)})


def test_take_keeps_order_and_used_displays():
    stimuli = {k: display(k, ROW) for k in "ab"}
    paths = object_scanpaths(
        [[0, 1], [2], [1, 1, 1]], ["a", "b", "a"], stimuli, finished=[True, False, True]
    )
    some = paths.take([2, 1])
    assert [s.tolist() for s in some.sequences()] == [[1, 1, 1], [2]]
    assert some.finished.tolist() == [True, False]
    assert list(paths.take(np.array([True, False, True])).stimuli) == ["a"]


def test_batches_of_an_epoch_are_fixed_by_the_seed():
    paths = object_scanpaths([[i % 3] * (1 + i % 4) for i in range(9)], ["a"] * 9,
                             {"a": display("a", ROW)})  # fmt: skip
    data = ObjectDataModule(paths, paths, batch_size=4, seed=1)
    one, two = ([b.trial for b in data.train_dataloader()] for _ in range(2))
    assert one == two
    assert sorted(t for b in one for t in b) == sorted(paths.trial)


def test_every_epoch_has_an_order_of_its_own():
    paths = object_scanpaths([[i % 3] * (1 + i % 4) for i in range(12)], ["a"] * 12,
                             {"a": display("a", ROW)})  # fmt: skip
    data = ObjectDataModule(paths, paths, batch_size=4, seed=1)
    orders = []
    for epoch in (0, 1, 1):
        data.trainer = types.SimpleNamespace(current_epoch=epoch)
        orders.append(list(data.train_dataloader().batch_sampler))
    assert orders[0] != orders[1] == orders[2]


def test_searches_among_covers(shared_data):
    import gazeattn

    dataset = gazeattn.load("sti_amazon", root=str(shared_data / "sti_amazon"))
    paths = objects_of(dataset)
    assert len(paths) == 600 and len(paths.looked) == 8683 and len(paths.stimuli) == 100
    # six people of a collage have six sequences, not the last one's six times
    names = paths.stimulus == "1"
    assert len({tuple(s) for s in paths.take(names).sequences()}) == 6
    targets = {k: target_of(s) for k, s in paths.stimuli.items()}
    ends = [paths.sequence(i)[-1] == targets[n] for i, n in enumerate(paths.stimulus)]
    assert sum(ends) == 520
    assert {len(boxes_of(s)) for s in paths.stimuli.values()} == {84}
