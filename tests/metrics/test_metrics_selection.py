"""Hits among candidates and chance, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gazeattn.errors import DataError
from gazeattn.metrics.selection import chance, hits, undecided

SPANS = (("a", "b", "b"), ("b", "a", "b"), ("b", "b", "a"))


def test_onestop_has_its_published_chance() -> None:
    found = chance([0, 0, 0], SPANS)
    assert found["all"] == pytest.approx([1 / 3] * 3)
    assert found["group"] == pytest.approx([5 / 9] * 3)
    assert np.isnan(found["within"][0]) and found["within"][1:] == pytest.approx([0.5, 0.5])


def test_hits_by_hand() -> None:
    scores = [[0.1, 0.9, 0.2], [0.3, 0.5, 0.1], [0.2, 0.7, 0.1]]
    found = hits(scores, [1, 0, 0], [("a", "b", "b"), ("b", "a", "b"), ("b", "b", "a")])
    assert found["all"].tolist() == [1, 0, 0]
    assert found["group"].tolist() == [1, 0, 1]
    assert found["within"].tolist() == [1, 1, 0]


def test_one_group_and_groups_of_one_say_nothing() -> None:
    found = hits([[1, 0], [1, 0]], [0, 0], [("a", "a"), ("a", "b")])
    assert np.isnan(found["group"][0]) and found["group"][1] == 1
    assert found["within"][0] == 1 and np.isnan(found["within"][1])


def test_ties_and_missing_scores_are_guesses() -> None:
    groups = [("a", "b", "c")] * 4
    scores = [[1, 1, 0], [np.nan] * 3, [np.nan, 2, 1], [5, 5, 5]]
    found = hits(scores, [0, 1, 0, 2], groups)
    assert found["all"] == pytest.approx([0.5, 1 / 3, 0, 1 / 3])
    assert undecided(scores, groups) == 1


def test_what_is_beyond_the_candidates_is_not_looked_at() -> None:
    found = hits([[0, 1, 99], [1, 0, 0]], [1, 0], [("a", "b"), ("a", "b", "c")])
    assert found["all"].tolist() == [1, 1]
    with pytest.raises(DataError, match="one of its candidates"):
        hits([[0, 1, 99], [1, 0, 0]], [2, 0], [("a", "b"), ("a", "b", "c")])
    with pytest.raises(DataError, match="one score per candidate"):
        hits([[0, 1]], [0], [("a", "b", "c")])


@given(st.data())
def test_order_of_candidates_does_not_matter(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 5))
    scores = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    groups = data.draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n))
    target = data.draw(st.integers(0, n - 1))
    order = data.draw(st.permutations(range(n)))
    one = hits([scores], [target], [groups])
    two = hits([[scores[k] for k in order]], [order.index(target)], [[groups[k] for k in order]])
    guess = chance([target], [groups])
    for kind in one:
        np.testing.assert_allclose(one[kind], two[kind])
        assert np.isnan(one[kind][0]) == np.isnan(guess[kind][0])


def test_a_guess_reaches_chance() -> None:
    rng = np.random.default_rng(0)
    target = rng.integers(0, 3, 40_000)
    groups = [("a", "b", "b")] * len(target)
    found, expected = hits(rng.random((len(target), 3)), target, groups), chance(target, groups)
    for kind in found:
        assert np.nanmean(found[kind]) == pytest.approx(np.nanmean(expected[kind]), abs=0.015)
