"""Edit distances of grid strings: recorded values, by hand, and against plain tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.scanpath._packed import pack
from gazeattn.metrics.scanpath.pairwise import undefined_reason
from gazeattn.metrics.scanpath.strings import (
    damerau_levenshtein,
    damerau_levenshtein_pairs,
    grid_strings,
    levenshtein,
    levenshtein_pairs,
    levenshtein_similarity,
    levenshtein_similarity_pairs,
)

# many paths here are off the stimulus on purpose; test_contract looks at the warnings
pytestmark = pytest.mark.filterwarnings("ignore:.*off the stimulus")

SIZE = (500, 500)


def written(text):
    """Return a path that visits the cells a, b, c, ... of a row of 26."""
    return np.array([[ord(c) - ord("a") + 0.5, 0.5] for c in text]).reshape(-1, 2)


LETTERS = {"size": (26, 26), "grid": 26}


def test_recorded_values(golden):
    scanpaths, cases = golden("scanpaths.json")["scanpaths"], golden("A_strings.json")["cases"]
    for case in cases:
        a, b = (np.column_stack([scanpaths[case[k]][v] for v in "xy"]) for k in "ab")
        size = (scanpaths[case["a"]]["width"], scanpaths[case["a"]]["height"])
        options = {"size": size, "grid": case["n"]}
        symbols = [s.tolist() for s in grid_strings([a, b], **options)]
        assert symbols == [case["symbols_a"], case["symbols_b"]], case["id"]
        expected = case["expected"]
        assert levenshtein(a, b, **options) == expected["levenshtein"], case["id"]
        assert levenshtein(a, b, substitution=2, **options) == expected["levenshtein_sub2"]
        assert damerau_levenshtein(a, b, **options) == expected["damerau"], case["id"]
        assert levenshtein_similarity(a, b, **options) == expected["normalized"], case["id"]
    assert len(cases) >= 50


@pytest.mark.parametrize(
    ("a", "b", "plain", "double", "swaps"),
    [
        ("kitten", "sitting", 3, 5, 3),
        ("abcd", "abdc", 2, 2, 1),
        ("ca", "abc", 3, 3, 2),  # swap, then insert between: unrestricted
        ("abc", "", 3, 3, 3),
        ("", "", 0, 0, 0),
        ("abc", "abc", 0, 0, 0),
        ("abc", "xyz", 3, 6, 3),
        ("banana", "anabana", 3, 3, 3),
    ],
)
def test_by_hand(a, b, plain, double, swaps):
    for p, q in ((written(a), written(b)), (written(b), written(a))):
        longer = max(len(a), len(b))
        if longer == 0:
            assert np.isnan(levenshtein(p, q, **LETTERS))
            continue
        assert levenshtein(p, q, **LETTERS) == plain
        assert levenshtein(p, q, substitution=2, **LETTERS) == double
        assert damerau_levenshtein(p, q, **LETTERS) == swaps
        assert levenshtein_similarity(p, q, **LETTERS) == 1 - plain / longer


def test_empty_against_empty_is_undefined_and_one_empty_is_zero():
    empty, path = np.zeros((0, 2)), [[1, 1], [2, 2]]
    assert np.isnan(levenshtein_similarity(empty, empty, size=SIZE))
    assert "both" in undefined_reason("levenshtein_similarity", empty, empty, size=SIZE)
    assert levenshtein_similarity(empty, path, size=SIZE) == 0
    assert levenshtein_similarity(path, empty, size=SIZE) == 0
    for distance in (levenshtein, damerau_levenshtein):
        assert np.isnan(distance(empty, empty, size=SIZE))
        assert distance(empty, path, size=SIZE) == distance(path, empty, size=SIZE) == 2
    assert np.isnan(levenshtein(empty, empty, size=SIZE, substitution=2))
    for name in ("levenshtein", "damerau_levenshtein"):
        assert "both" in undefined_reason(name, empty, empty, size=SIZE)
    assert undefined_reason("levenshtein", empty, path, size=SIZE) == ""


def test_cells_overflow_clip_or_are_undefined():
    # 104 x 104 in 5 cells of 20: the pixels 100 to 103 lie past the last cell
    r = {"size": (104, 104)}
    path = [[99, 0], [103, 0], [0, 103], [-1, 0], [-30, 0], [0, -0.5]]
    assert grid_strings([path], **r)[0].tolist() == [4, 5, 25, -1, -2, 0]
    assert grid_strings([path], outside="clip", **r)[0].tolist() == [4, 4, 20, 0, 0, 0]
    a, b = [[103, 0]], [[0, 20]]  # an overflown cell is the first of the next row
    assert levenshtein(a, b, **r) == 0
    assert levenshtein(a, b, outside="clip", **r) == 1
    assert levenshtein(a, b, outside="undefined", **r) == 0  # still on the stimulus
    for p, q in (([[104, 0]], b), (b, [[0, -0.5]])):
        assert np.isnan(levenshtein(p, q, outside="undefined", **r))
        assert np.isnan(damerau_levenshtein(p, q, outside="undefined", **r))
        assert "outside" in undefined_reason("levenshtein", p, q, outside="undefined", **r)


@pytest.mark.parametrize("far", [1e6, 1e9, -1e9, 1e12])
def test_far_off_fixations_are_symbols_as_well(far):
    a, b = [[far, 1], [1, 1], [far, 1]], [[far, 1], [1, 1], [-far, 1]]
    assert levenshtein(a, b, size=SIZE) == 1
    assert damerau_levenshtein(a, b, size=SIZE) == 1


def test_durations_do_not_matter():
    a, b = [[1, 1, 5], [400, 1, np.nan]], [[1, 1], [2, 400]]
    assert levenshtein(a, b, size=SIZE) == 1


def plain_table(a, b, substitution=1, swaps=False):
    D = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    D[:, 0], D[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for r in range(1, len(a) + 1):
        for c in range(1, len(b) + 1):
            D[r, c] = min(
                D[r - 1, c - 1] + substitution * (a[r - 1] != b[c - 1]),
                D[r - 1, c] + 1,
                D[r, c - 1] + 1,
            )
            for p in range(1, r) if swaps else ():
                for q in range(1, c):
                    if a[p - 1] == b[c - 1] and a[r - 1] == b[q - 1]:
                        D[r, c] = min(D[r, c], D[p - 1, q - 1] + (r - p) + (c - q) - 1)
    return D[-1, -1]


texts = st.text("abcd", max_size=9)


@settings(max_examples=200, deadline=None)
@given(texts, texts, texts)
def test_equal_to_plain_tables_and_a_metric(a, b, c):
    assume(bool(a) + bool(b) + bool(c) > 1)  # two empty paths are undefined
    p, q, s = written(a), written(b), written(c)
    assert levenshtein(p, q, **LETTERS) == plain_table(a, b)
    assert levenshtein(p, q, substitution=2, **LETTERS) == plain_table(a, b, 2)
    assert damerau_levenshtein(p, q, **LETTERS) == plain_table(a, b, swaps=True)
    for distance in (levenshtein, damerau_levenshtein):
        pq = distance(p, q, **LETTERS)
        assert pq == distance(q, p, **LETTERS)
        assert (pq == 0) == (a == b)
        assert pq <= distance(p, s, **LETTERS) + distance(s, q, **LETTERS)
        assert abs(len(a) - len(b)) <= pq <= max(len(a), len(b))


@pytest.mark.parametrize(
    ("kernel", "single"),
    [
        (levenshtein_pairs, levenshtein),
        (damerau_levenshtein_pairs, damerau_levenshtein),
        (levenshtein_similarity_pairs, levenshtein_similarity),
    ],
)
@pytest.mark.parametrize("spread", [500, 3000])
def test_many_at_once_equal_one_by_one(kernel, single, spread):
    rng = np.random.default_rng(3)
    lengths = [0, 0, 1, 70, 130, *rng.integers(0, 20, 15)]
    paths = [rng.uniform(-spread, spread, (n, 2)).astype(np.float32) for n in lengths]
    A, B = pack(paths), pack(paths[::-1])
    i, j = (v.ravel() for v in np.indices((20, 20)))
    many = kernel(A, B, i, j, size=SIZE)
    one = [single(paths[p], paths[::-1][q], size=SIZE) for p, q in zip(i, j, strict=True)]
    np.testing.assert_array_equal(many, one)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"size": (0, 0)}, DataError),
        ({"grid": 0}, DataError),
        ({"grid": 2.5}, DataError),
        ({"grid": 501}, DataError),
        ({"substitution": 1.5}, DataError),
        ({"outside": "overflow"}, UnknownNameError),
    ],
)
def test_wrong_parameters(wrong, error):
    with pytest.raises(error):
        levenshtein([[0, 0]], [[0, 0]], **{"size": SIZE, **wrong})
