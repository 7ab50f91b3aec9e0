"""The order of fixation tables, which the measures rely on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.tables import check_fixations, factorize_runs

ids = st.lists(st.sampled_from(["b", "a", "10", "9", "é"]), max_size=30)


@settings(deadline=None, max_examples=100)
@given(ids, st.booleans(), st.sets(st.integers(0, 29)))
def test_runs_are_numbered_like_pandas_does(values, sort, missing):
    shown = [None if i in missing else v for i, v in enumerate(values)]
    series = pd.Series(shown, dtype="str")
    codes, uniques = factorize_runs(series, sort=sort)
    expected_codes, expected = pd.factorize(series, sort=sort)
    assert codes.tolist() == expected_codes.tolist()
    assert list(uniques) == list(expected)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(["b", "a", "10", "9"]), st.integers(0, 30)), unique=True))
@pytest.mark.parametrize("presorted", ["no", "within trials", "whole trials apart"])
def test_checked_fixations_stand_by_trial_and_index(presorted, rows):
    if presorted == "within trials":  # whole trials move
        trials = list(dict.fromkeys(t for t, _ in rows))
        rows = sorted(rows, key=lambda r: (trials.index(r[0]), r[1]))
    elif presorted == "whole trials apart":  # a trial in two pieces
        rows = sorted(rows, key=lambda r: (r[1] > 15, r[0], r[1]))
    if not rows:
        return
    frame = pd.DataFrame(rows, columns=["trial", "index"])
    frame = frame.assign(participant="P", stimulus="S", x=np.arange(len(rows)) * 1.0, y=0.0)
    table, _ = check_fixations(frame)
    expected = frame.sort_values(["trial", "index"], kind="stable")
    assert table["trial"].tolist() == expected["trial"].tolist()
    assert table["x"].tolist() == expected["x"].tolist()
    assert table["index"].tolist() == expected.groupby("trial").cumcount().tolist()
