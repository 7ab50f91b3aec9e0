"""The quick look-up of points in boxes gives what the search gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.reading import _boxes
from gazeattn.reading._boxes import Edges, index_boxes

EDGE_CASES = [np.nan, np.inf, -np.inf, -0.0, np.nextafter(4, 0), np.nextafter(4, 9), -1e-17]
NUMBER = st.one_of(
    st.integers(-3, 12).map(float),
    st.floats(-3, 12),
    st.sampled_from(
        [np.nan, np.inf, -np.inf, -0.0, np.nextafter(4, 0), np.nextafter(4, 9), -1e-17]
    ),
)


@given(st.lists(st.integers(-3, 12), min_size=1, unique=True), st.lists(NUMBER, max_size=30))
def test_ranks_among_whole_pixels_are_those_of_a_search(edges: list[int], at: list[float]) -> None:
    ranked, points = Edges(np.array(sorted(edges), dtype=float)), np.array(at, dtype=float)
    assert ranked._table is not None
    expected = np.searchsorted(ranked.edges, points, side="right") - 1
    assert ranked.rank(points).tolist() == expected.tolist()


@pytest.mark.parametrize("edges", [[0.0, 0.5], [0.0, 1e9], []])
def test_other_edges_have_no_table(edges: list[float]) -> None:
    ranked = Edges(np.array(edges))
    assert ranked._table is None
    assert ranked.rank(np.array([0.0, 0.7, np.nan])).tolist() == (
        [n - 1 for n in (np.searchsorted(edges, [0.0, 0.7, np.nan], side="right"))]
    )


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(*[st.integers(0, 8)] * 4), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(-3, 5), NUMBER, NUMBER), max_size=40),
    st.sampled_from([1.0, 0.3]),
)
def test_tables_and_search_agree(
    boxes: list[tuple[int, ...]], points: list[tuple[int, float, float]], scale: float
) -> None:
    flat = np.array(boxes, dtype=float) * scale
    layout = np.sort(np.arange(len(boxes)) % 3)
    at = np.array([p[0] for p in points], dtype=int)  # also layouts that do not exist
    x, y = (np.array([p[k] for p in points], dtype=float) * scale for k in (1, 2))
    quick, several = index_boxes(layout, flat).find(at, x, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_boxes, "TABLE_SIZE", 0)
        index = index_boxes(layout, flat)
        assert index._bands._table is None
        slow, doubtful = index.find(at, x, y)
    assert quick.tolist() == slow.tolist()
    assert several == doubtful
    assert (quick[(at < 0) | (at > layout.max())] == -1).all()
