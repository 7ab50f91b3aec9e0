"""Which word follows which."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.reading.transitions import transition_matrix, transitions

pytestmark = pytest.mark.filterwarnings("ignore:.*lie on a word")


def pairs(frame: pd.DataFrame) -> dict[tuple[str, int, int], int]:
    keys = zip(frame["trial"], frame["source"], frame["target"], strict=True)
    return dict(zip(keys, frame["count"], strict=True))


def test_transitions_worked_out_by_hand(tables):
    data = tables({"b": [0, 1, 1, 0, 1, None, 2], "a": [2, 1, 2, 1]}, 3)
    frame = transitions(*data)
    assert frame.columns.tolist() == ["participant", "trial", "source", "target", "count"]
    assert frame["trial"].tolist() == ["b", "b", "b", "a", "a"]  # in the order of the trial table
    assert pairs(frame) == {
        ("b", 0, 1): 2,
        ("b", 1, 0): 1,
        ("b", 1, 2): 1,
        ("a", 1, 2): 1,
        ("a", 2, 1): 2,
    }


def test_off_text_breaks_or_is_passed_over(tables):
    data = tables({"t": [0, None, 1, None, None, 1, 2]}, 3)
    assert pairs(transitions(*data)) == {("t", 0, 1): 1, ("t", 1, 2): 1}
    assert pairs(transitions(*data, off_text="break")) == {("t", 1, 2): 1}
    with_self = transitions(*data, include_self=True)
    assert pairs(with_self) == {("t", 0, 1): 1, ("t", 1, 1): 1, ("t", 1, 2): 1}


@pytest.mark.parametrize("paths", [{"t": []}, {"t": [1]}, {"t": [None, None]}, {"t": [1, 1]}])
def test_trials_without_a_step_have_no_rows(tables, paths):
    frame = transitions(*tables(paths, 2))
    assert len(frame) == 0
    assert transition_matrix(frame, 2).tolist() == [[0, 0], [0, 0]]


def test_no_transition_joins_two_trials(tables):
    frame = transitions(*tables({"a": [0, 1], "b": [0, 1], "c": [1]}, 2))
    assert pairs(frame) == {("a", 0, 1): 1, ("b", 0, 1): 1}


def test_matrix_adds_trials_and_comes_dense_or_sparse(tables):
    frame = transitions(*tables({"a": [0, 1, 2], "b": [0, 1, 0]}, 4))
    dense = transition_matrix(frame, 4)
    assert dense.tolist() == [[0, 2, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert dense.dtype == np.int64
    thin = transition_matrix(frame, 4, layout="sparse")
    assert sparse.issparse(thin)
    assert (thin.toarray() == dense).all()


def test_wrong_names_and_sizes_are_refused(tables):
    data = tables({"t": [0, 2]}, 3)
    with pytest.raises(UnknownNameError, match="did you mean 'break'"):
        transitions(*data, off_text="breaks")
    frame = transitions(*data)
    with pytest.raises(DataError, match="0 to 1"):
        transition_matrix(frame, 2)
    with pytest.raises(UnknownNameError, match="dense"):
        transition_matrix(frame, 3, layout="dens")


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=15), max_size=5),
    st.booleans(),
    st.sampled_from(["skip", "break"]),
)
def test_random_scanpaths_agree_with_a_loop(tables, paths, include_self, off_text):
    named = {f"t{i}": path for i, path in enumerate(paths)}
    expected: Counter = Counter()
    for trial, path in named.items():
        steps = [w for w in path if w is not None] if off_text == "skip" else path
        for a, b in pairwise(steps):
            if a is not None and b is not None and (a != b or include_self):
                expected[trial, a, b] += 1
    frame = transitions(*tables(named, 5), include_self=include_self, off_text=off_text)
    assert pairs(frame) == dict(expected)
