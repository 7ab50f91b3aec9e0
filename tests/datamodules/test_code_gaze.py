"""Programmers' gaze on code and on the tokens of a model: by hand, damaged, real."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gazeattn
from gazeattn.datamodules.code_gaze import (
    CodeReading,
    CodeText,
    code_readings,
    cross_folds,
    readings_table,
    shares_of_pieces,
    spans_of,
    subword_mass,
    subword_target,
)
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

SOURCE = "def f(a, b):\n    return a + b\n"


def test_pieces_stand_in_the_source_by_hand() -> None:
    found = spans_of(SOURCE, ["def", "f(a,", "b):", "return", "a+b"])
    assert [SOURCE[a:b] for a, b in found] == ["def", "f(a,", "b):", "return", "a + b"]
    assert found.tolist() == [[0, 3], [4, 8], [9, 12], [17, 23], [24, 29]]


@pytest.mark.parametrize(
    ("pieces", "row"), [(["def", "g(a,"], 1), (["f(a,"], 0), (["def", ""], 1), ([SOURCE, "x"], 1)]
)
def test_areas_that_are_not_the_code(pieces: list[str], row: int) -> None:
    with pytest.raises(DataError, match="areas are not the code") as error:
        spans_of(SOURCE, pieces, "snippet 7")
    assert "snippet 7" in str(error.value) and f"row {row}" in str(error.value)


def test_mass_of_subwords_by_hand() -> None:
    spans = np.array([[0, 3], [4, 8], [9, 12]])
    # "de", "f ", " ", "f(", "a, b" (three letters of the second piece, one of the third), "):", end
    offsets = np.array([[0, 2], [2, 4], [3, 4], [4, 6], [6, 10], [10, 12], [0, 0], [30, 31]])
    pieces, tokens = shares_of_pieces(spans, offsets)
    assert list(zip(pieces.tolist(), tokens.tolist(), strict=True)) == [
        (0, 0), (0, 1), (1, 3), (1, 4), (2, 5),
    ]  # fmt: skip
    mass = subword_mass(np.array([100.0, 60, 8]), spans, offsets)
    assert mass.tolist() == [50, 50, 0, 30, 30, 8, 0, 0]
    code = np.array([True] * 6 + [False] * 2)
    # (dur + 1) / (168 + 6)
    target = subword_target(mass, code)
    assert target.tolist() == pytest.approx([51 / 174, 51 / 174, 1 / 174, 31 / 174, 31 / 174,
                                             9 / 174, 0, 0])  # fmt: skip


def test_pieces_behind_a_cut_are_counted() -> None:
    lost = LossLog()
    mass = subword_mass(np.array([5.0, 7, 0]), np.array([[0, 3], [4, 8], [9, 10]]),
                        np.array([[0, 3]]), lost)  # fmt: skip
    assert mass.tolist() == [5]
    assert lost.to_frame()["count"].tolist() == [1]


@settings(deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(0, 10**6))
def test_no_time_is_lost_or_made(lengths: list[int], seed: int) -> None:
    made = np.random.default_rng(seed)
    ends = np.cumsum(np.array(lengths) + 1)
    spans = np.stack([ends - 1 - np.array(lengths), ends - 1], 1)
    cuts = np.unique([*made.integers(0, ends[-1], 5).tolist(), 0, int(ends[-1])])
    offsets = np.stack([cuts[:-1], cuts[1:]], 1)
    mass = made.gamma(2, 100, len(lengths))
    lost = LossLog()
    found = subword_mass(mass, spans, offsets, lost)
    pieces, _ = shares_of_pieces(spans, offsets)
    assert found.sum() == pytest.approx(mass[np.unique(pieces)].sum())
    target = subword_target(found, np.ones(len(offsets), bool))
    assert target.sum() == pytest.approx(1) and (target > 0).all()


def test_targets_that_are_none() -> None:
    with pytest.raises(DataError):
        subword_target(np.zeros(2), np.zeros(2, bool))
    with pytest.raises(DataError, match="off the code"):
        subword_target(np.ones(2), np.array([True, False]))
    with pytest.raises(DataError):
        subword_target(np.ones(2), np.ones(2, bool), eps=0)


def reading(person: str, item: str) -> CodeReading:
    text = CodeText(item, item[:1], "python", "a", ("a",), np.array([[0, 1]]))
    return CodeReading(person, f"{person}{item}", text, "reading", np.ones(1),
                       np.zeros(1, np.int64), np.ones(1))  # fmt: skip


def test_folds_divide_people_and_items() -> None:
    readings = [reading(p, i) for p in "ABCDEF" for i in ("a1", "a2", "b1", "c1", "d1")]
    people, items = cross_folds(readings, 3, seed=1)
    for column, folds in (("participant", people), ("item", items)):
        names = readings_table(readings)[column].to_numpy()
        for name in set(names):
            assert len(set(folds[names == name])) == 1  # versions of a snippet stay together
        assert set(folds) == {0, 1, 2}
    assert cross_folds(readings, 3, seed=1)[0].tolist() == people.tolist()
    with pytest.raises(DataError, match="too few items"):
        cross_folds(readings, 5)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_real_readings(shared_data: Path) -> None:
    lost = LossLog()
    data = gazeattn.load("code_comprehension", root=shared_data / "code_comprehension")
    readings = code_readings(data, lost)
    table = readings_table(readings)
    assert len(table) == 154 and table["participant"].nunique() == 22
    assert table["stimulus"].nunique() == 19 and table["item"].nunique() == 12
    # every millisecond of a fixation on an area of these trials is there
    rows = data.fixations[data.fixations["trial"].isin(table["trial"])]
    on = rows[rows["word"].notna()]
    assert table["ms"].sum() == pytest.approx(on["duration"].sum())
    counts = lost.to_frame().set_index("reason")["count"]
    assert counts["fixations off the code"] == rows["word"].isna().sum()
    assert counts["trials without code or areas"] == len(data.trials) - 154
    first = readings[0]
    for piece, (a, b) in zip(first.text.pieces, first.text.spans, strict=True):
        assert "".join(first.text.source[a:b].split()) == "".join(piece.split())


def test_data_without_code(shared_data: Path) -> None:
    with pytest.raises(DataError, match="no code with areas"):
        code_readings(
            gazeattn.load("programmer_scanpaths", root=shared_data / "programmer_scanpaths")
        )
    with pytest.raises(DataError, match="no areas of code"):
        code_readings(gazeattn.load("osie", root=shared_data / "osie"))
