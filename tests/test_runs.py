"""Runs of equal neighbours give what a look at every row gives."""

from __future__ import annotations

import gc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gazeattn import runs as runs_module
from gazeattn.runs import factorize_runs, runs_of


def test_by_hand() -> None:
    runs = runs_of(pd.Series(["b", "b", "a", None, None, "b"], dtype="str"))
    assert runs.starts.tolist() == [0, 2, 3, 4, 5]
    assert runs.sizes.tolist() == [2, 1, 1, 1, 1]
    assert runs.codes.tolist() == [0, 1, -1, -1, 0]
    assert runs.uniques.tolist() == ["b", "a"]
    assert runs.first_rows().tolist() == [0, 2]
    assert runs.codes_at(np.array([1, 2, 4, 5])).tolist() == [0, 1, -1, 0]
    assert runs.spread(runs.starts).tolist() == [0, 0, 2, 3, 4, 5]


@given(st.lists(st.sampled_from(["x", "y", "Z", "", None]), max_size=40), st.booleans())
def test_numbers_are_those_of_pandas(values: list[str | None], sort: bool) -> None:
    column = pd.Series(values, dtype="str")
    codes, uniques = factorize_runs(column, sort=sort)
    expected, names = pd.factorize(column, sort=sort)
    assert codes.tolist() == expected.tolist()
    assert list(uniques) == list(names)


@pytest.mark.parametrize("change", ["set", "replace", "take"])
def test_a_changed_column_is_looked_through_again(change: str) -> None:
    frame = pd.DataFrame({"id": pd.Series(["a"] * 50 + ["b"] * 50, dtype="str")})
    assert runs_of(frame["id"]).sizes.tolist() == [50, 50]
    assert runs_of(frame.copy()["id"]) is runs_of(frame["id"])  # copies share it
    if change == "set":
        frame.loc[99, "id"] = "c"
    elif change == "replace":
        frame["id"] = frame["id"].where(frame.index < 99, "c")
    else:
        frame = frame.iloc[::-1].reset_index(drop=True)
    expected = {"take": [50, 50]}.get(change, [50, 49, 1])
    runs = runs_of(frame["id"])
    assert runs.sizes.tolist() == expected
    assert runs.uniques.tolist() == (["b", "a"] if change == "take" else ["a", "b", "c"])


def test_nothing_is_kept_of_a_column_that_is_gone() -> None:
    before = len(runs_module._known)
    column = pd.Series(["a"] * 100, dtype="str")
    runs_of(column)
    assert len(runs_module._known) == before + 1
    with pytest.raises(ValueError, match="read-only"):
        runs_of(column).codes[0] = 7
    del column
    gc.collect()
    assert len(runs_module._known) == before
