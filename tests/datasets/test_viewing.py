"""Scanpaths as tables, positions off a picture, published splits by picture: by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gazeattn.datasets.matfiles import pairs
from gazeattn.datasets.splits import published
from gazeattn.datasets.viewing import image_folds, off_picture, part_names, stack
from gazeattn.errors import DataError
from gazeattn.losses import LossLog


def _keys(*trials: tuple[str, str]) -> pd.DataFrame:
    rows = [(p, f"{s}_{p}", s) for p, s in trials]
    return pd.DataFrame(rows, columns=["participant", "trial", "stimulus"])


def test_scanpaths_of_0_1_and_3_fixations() -> None:
    keys = _keys(("a", "1"), ("a", "2"), ("b", "1"))
    table = stack(keys, {"x": [[1, 2, 3], [], [None]], "y": [[4, 5, 6], [], [7]]}, "here")
    assert table["index"].tolist() == [0, 1, 2, 0]
    assert table["trial"].tolist() == ["1_a"] * 3 + ["1_b"]
    assert table["x"].tolist()[:3] == [1, 2, 3] and np.isnan(table["x"][3])


@pytest.mark.parametrize("bad", [[1], [1, 2, 3], []])
def test_unequal_scanpaths_name_the_trial(bad: list) -> None:
    with pytest.raises(DataError, match="unequal numbers") as caught:
        stack(_keys(("a", "1"), ("b", "1")), {"x": [[1], [1, 2]], "y": [[1], bad]}, "here")
    assert "1_b" in str(caught.value)


@given(st.lists(st.lists(st.floats(-5, 5), max_size=4), min_size=1, max_size=6))
def test_stacking_keeps_every_value_in_order(paths: list[list[float]]) -> None:
    keys = _keys(*[("a", str(k)) for k in range(len(paths))])
    table = stack(keys, {"x": paths, "y": paths}, "here")
    assert table["x"].tolist() == [v for path in paths for v in path]
    for k, path in enumerate(paths):
        assert table.loc[table["stimulus"] == str(k), "index"].tolist() == list(range(len(path)))


@pytest.mark.parametrize(
    ("x", "y", "off"),
    [(0.0, 0.0, False), (639.99, 479.99, False), (640.0, 10, True), (10, 480.0, True),
     (-0.01, 10, True), (10, -1, True), (np.nan, 10, pd.NA)],
)  # fmt: skip
def test_fixations_off_the_picture(x: float, y: float, off: Any) -> None:
    f = pd.DataFrame({"stimulus": ["s"], "x": [x], "y": [y]})
    for stimuli, expected in (
        ({"s": {"size": (640, 480)}}, off),
        ({"s": {}}, off if x < 0 or y < 0 else pd.NA),  # without a size only those are known
    ):
        out = off_picture(f, stimuli)[0]
        assert (out is pd.NA) if expected is pd.NA else out == expected


def test_regimes_of_a_published_split() -> None:
    trials = _keys(("a", "1"), ("b", "1"), ("a", "2"), ("c", "2"), ("a", "3"), ("c", "3"))
    trials = pd.concat([trials, _keys(("a", "1b"))]).reset_index(drop=True)
    trials.loc[6, "stimulus"] = "1"  # the same picture, held out under another task
    part = pd.Series(["train", "train", "val", "val", "test", None, "test"], dtype="str")
    lost = LossLog()
    folds = image_folds(trials, part, "f", lost)
    assert folds["part"].tolist() == ["train", "train", "val", "val", "test", "test"]
    assert folds["regime"].fillna("").tolist() == [
        "", "", "unseen_text", "unseen_both", "unseen_text", "",
    ]  # fmt: skip
    assert lost.count("folds", "note") == 2  # one seen picture, one trial in no part
    found = published(trials, folds, fold="f", pure=False)
    assert sorted(found.trials("val")) == ["2_a", "2_c"]


@pytest.mark.parametrize(
    ("given_", "ours", "repaired"),
    [("train", "train", 0), ("valid", "val", 0), ("validation", "val", 1), ("Test ", "test", 0),
     ("training", "train", 1), ("val", "val", 0)],
)  # fmt: skip
def test_spelling_of_parts(given_: str, ours: str, repaired: int) -> None:
    lost = LossLog()
    assert part_names(pd.Series([given_]), lost, "here").tolist() == [ours]
    assert lost.count(kind="repaired") == repaired
    with pytest.raises(DataError, match="unknown part"):
        part_names(pd.Series(["tset"]), lost, "here")


def test_arrays_without_rows_have_two_columns() -> None:
    for empty in (np.zeros((0, 0)), np.zeros((0, 2)), np.zeros(0), np.zeros((1, 0))):
        assert pairs(empty).shape == (0, 2)
    with pytest.raises(ValueError):
        pairs(np.ones(4))
