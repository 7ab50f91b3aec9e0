"""Means of targets by hand: the majority, the reader, the text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gazeattn import registry
from gazeattn.errors import CapabilityError, DataError
from gazeattn.experiments.building import OWN, read_model, sized
from gazeattn.models.reading.base import Target
from gazeattn.models.reading.controls import ItemMean, Majority, Means, ReaderMean

from .made_numbers import numbers, taken

CLASSES = Target("classification", 2, (1.0, 1.0)).plain()
NUMBER = Target("regression", 1, (), 5.0, 2.0).plain()
ALL = [Majority, ReaderMean, ItemMean]
NAN = float("nan")


def test_majority_by_hand() -> None:
    """Two of three trials with a target are of class 1."""
    train = numbers(np.zeros(4), [1, 0, NAN, 1])
    model = Majority(CLASSES)
    model.fit(train, train)
    expected = [[1 / 3, 2 / 3]] * 2
    np.testing.assert_allclose(model.predict(numbers(np.zeros(2), [NAN, 0])), expected)
    number = Majority(NUMBER)
    number.fit(numbers(np.zeros(3), [2, 4, 9]), train)
    assert number.predict(numbers(np.zeros(2), [0, 0])).tolist() == [5.0, 5.0]


def test_means_of_readers_by_hand() -> None:
    """Reader a: 1 of 2 trials; b: 2 of 2; a new one gets 3 of 4."""
    train = numbers(np.zeros(5), [1, 0, 1, 1, NAN], ["a", "a", "b", "b", "c"])
    model = ReaderMean(CLASSES)
    model.fit(train, train)
    new = numbers(np.zeros(4), [0] * 4, ["b", "a", "c", "d"])
    np.testing.assert_allclose(model.predict(new)[:, 1], [1.0, 0.5, 0.75, 0.75])
    np.testing.assert_allclose(model.predict(new).sum(1), 1)
    number = ReaderMean(NUMBER)
    number.fit(numbers(np.zeros(3), [2, 4, 9], ["a", "a", "b"]), train)
    np.testing.assert_allclose(number.predict(new), [9, 3, 5, 5])


def test_means_of_texts_and_questions_by_hand() -> None:
    table = {"text": ["x", "x", "y", "y"], "question": ["p", "q", None, None]}
    train = numbers(np.zeros(4), [1, 5, 2, 4], **table)
    model = ItemMean(NUMBER)
    model.fit(train, train)
    asked = {"text": ["x", "x", "y", "z", "x"], "question": ["q", "p", None, None, "new"]}
    new = numbers(np.zeros(5), [0] * 5, **asked)
    np.testing.assert_allclose(model.predict(new), [5, 1, 3, 3, 3])
    by_text = ItemMean(NUMBER, item="text")
    by_text.fit(train, train)
    np.testing.assert_allclose(by_text.predict(new), [3, 3, 3, 3, 3])
    named = ItemMean(NUMBER)
    items = {"item": ["a", "a", "b", "b"]}
    named.fit(numbers(np.zeros(4), [1, 5, 2, 6], **items), train)
    some = numbers(np.zeros(3), [0] * 3, item=["b", "a", "c"])
    np.testing.assert_allclose(named.predict(some), [4, 3, 3.5])
    with pytest.raises(DataError, match="no column 'page'"):
        ItemMean(NUMBER, item="page").fit(train, train)


def test_missing_items_get_the_overall_mean() -> None:
    train = numbers(np.zeros(4), [1, 2, 3, 6], speech=["a", "a", None, "b"])
    model = ItemMean(NUMBER, item="speech")
    model.fit(train, train)
    assert set(model.by_key) == {"a", "b"}
    np.testing.assert_allclose(model.predict(train), [1.5, 1.5, 3, 6])


@pytest.mark.parametrize("kind", ALL)
def test_same_numbers_in_any_order_and_from_a_file(kind: type[Means], tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    train = numbers(np.zeros(40), rng.normal(size=40) * 1e3, item=[f"i{k % 7}" for k in range(40)])
    order = rng.permutation(40)
    one, other = kind(NUMBER), kind(NUMBER)
    one.fit(train, train)
    other.fit(taken(train, order), train)
    predicted = one.predict(train)
    np.testing.assert_array_equal(other.predict(train), predicted)
    np.testing.assert_array_equal(one.predict(taken(train, order)), predicted[order])
    one.save(tmp_path)
    np.testing.assert_array_equal(kind.load(tmp_path).predict(train), predicted)
    assert one.predict(taken(train, [])).shape == (0,)


@pytest.mark.parametrize("kind", ALL)
def test_refusals(kind: type[Means], tmp_path: Path) -> None:
    train = numbers(np.zeros(2), [0, 1])
    with pytest.raises(CapabilityError, match="call fit first"):
        kind(CLASSES).predict(train)
    with pytest.raises(CapabilityError, match="call fit first"):
        kind(CLASSES).save(tmp_path)
    with pytest.raises(DataError, match="no training trial has a target"):
        kind(CLASSES).fit(numbers(np.zeros(2), [NAN, NAN]), train)
    with pytest.raises(DataError, match="a class that the target does not have"):
        kind(CLASSES).fit(numbers(np.zeros(2), [0, 2]), train)
    with pytest.raises(DataError, match="not the folder of a fitted model"):
        kind.load(tmp_path)
    made = kind(CLASSES)
    made.fit(numbers(np.zeros(2), [1, 1]), train)  # one class alone: sure of it
    assert made.predict(train).tolist() == [[0, 1], [0, 1]]
    made.save(tmp_path)
    path = tmp_path / "model.json"
    text = path.read_text()
    for damage, message in (
        (text[:-10], "damaged"),
        ("[]", "another model"),
        (text.replace(kind.__name__, "Other"), "another model"),
        (text.replace('"overall"', '"overal"'), "a part is missing"),
        (json.dumps({**json.loads(text), "overall": [1.0]}), "another target"),
        (json.dumps({**json.loads(text), "overall": ["x", "y"]}), "damaged"),
        (json.dumps({**json.loads(text), "arguments": {"other": 1}}), "damaged"),
    ):
        path.write_text(damage)
        with pytest.raises(DataError, match=message):
            kind.load(tmp_path)


def test_configurations_fit_the_models() -> None:
    for name in ("majority", "reader_mean", "item_mean"):
        config = sized(read_model(name), "cpu")
        kind = registry.reading_models.get(name).obj
        made = kind(CLASSES, {"trial": 0}, **{k: v for k, v in config.items() if k not in OWN})
        assert kind.choice(config).sets == () and made.gaze_use is False
    assert registry.reading_models.get("chance").obj is Majority
