"""Recurrence, determinism, laminarity and centre of mass, auto and cross."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.scanpath._packed import pack
from gazeattn.metrics.scanpath.recurrence import (
    auto_recurrence,
    auto_recurrence_paths,
    cross_recurrence,
    cross_recurrence_pairs,
)


def _line(*x: float) -> np.ndarray:
    return np.c_[x, np.zeros(len(x))]


def test_cross_by_hand() -> None:
    a, b = _line(0, 100, 200, 300), _line(0, 100, 300, 0)
    # cells (0,0), (0,3), (1,1), (3,2): one diagonal run of two, no straight run
    got = cross_recurrence(a, b, radius=10)
    assert got == pytest.approx((25, 50, 0, 100 * (0 + 3 + 0 - 1) / (3 * 4)))
    # whole lines, gaps or not: row 0 holds two cells
    got = cross_recurrence(a, b, radius=10, convention="fixatons")
    assert got == pytest.approx((25, 50, 25, 100 * 2 / 12))
    assert cross_recurrence(a, b, radius=10, min_line=3).determinism == 0
    assert cross_recurrence(a, b, radius=10, min_line=1).determinism == 100


def test_auto_by_hand() -> None:
    path = _line(0, 0, 0, 100, 0)
    # R = 6: (0,1) (0,2) (1,2) (0,4) (1,4) (2,4); diagonal run (0,1) (1,2);
    # horizontal run (0,1) (0,2); vertical runs (0,2) (1,2) and (0,4) (1,4) (2,4)
    got = auto_recurrence(path, radius=1)
    assert got == pytest.approx((60, 100 * 2 / 6, 100 * (2 + 5) / 12, 100 * 13 / (4 * 6)))
    assert auto_recurrence(path, radius=1, min_line=3).laminarity == pytest.approx(100 * 3 / 12)


def test_golden(golden) -> None:
    paths = {
        name: np.c_[p["x"], p["y"]] for name, p in golden("scanpaths.json")["scanpaths"].items()
    }
    kinds = set()
    for case in golden("A_recurrence.json")["cases"]:
        kinds.add(case["kind"])
        want = case["expected"]
        options = {"radius": case["radius"], "min_line": case["min_line"]}
        if case["kind"] == "auto":
            got = auto_recurrence(paths[case["a"]], **options)
        else:
            pair = (paths[case["a"]], paths[case["b"]])
            got = cross_recurrence(*pair, **options)
            whole = cross_recurrence(*pair, **options, convention="fixatons")
            for value, key in ((whole[1], "det_anyline"), (whole[2], "lam_anyline")):
                assert value == pytest.approx(_nan(want[key]), abs=1e-9, nan_ok=True), case["id"]
        expected = [_nan(want[key]) for key in ("rec", "det", "lam", "corm")]
        assert got == pytest.approx(expected, abs=1e-9, nan_ok=True), case["id"]
    assert kinds == {"auto", "cross"}


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


def _runs(line: np.ndarray, least: int, whole: bool) -> int:
    if whole:
        return int(line.sum()) if line.sum() >= least else 0
    total = run = 0
    for cell in [*line, False]:
        run, total = (run + 1, total) if cell else (0, total + (run if run >= least else 0))
    return total


def _plain(cells: np.ndarray, least: int, whole: bool) -> list[float]:
    n, count = len(cells), int(cells.sum())
    if count == 0:
        return [math.nan] * 3
    diagonal = sum(_runs(np.diagonal(cells, k), least, whole) for k in range(-n + 1, n))
    straight = sum(_runs(line, least, whole) for line in (*cells, *cells.T))
    i, j = np.nonzero(cells)
    corm = 100 * (j - i).sum() / ((n - 1) * count) if n > 1 else math.nan
    return [100 * diagonal / count, 100 * straight / (2 * count), corm]


@pytest.mark.parametrize("least", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("convention", ["anderson", "fixatons"])
def test_equals_the_plain_loop_with_unequal_lengths_in_one_block(least: int, convention: str):
    rng = np.random.default_rng(least)
    paths = [rng.integers(0, 4, (n, 2)) * 50.0 for n in (1, 2, 3, 8, 15, 30, 6)]
    paths += [np.zeros((12, 2)), np.zeros((5, 2))]  # everything recurs
    i, j = (v.ravel() for v in np.indices((len(paths), len(paths))))
    packed = pack(paths)
    options = {"radius": 50.0, "min_line": least, "convention": convention}
    cross = cross_recurrence_pairs(packed, packed, i, j, **options)
    for value, p, q in zip(cross, i, j, strict=True):
        n = min(len(paths[p]), len(paths[q]))
        a, b = paths[p][:n], paths[q][:n]
        cells = np.hypot(*(a[:, None] - b[None]).transpose(2, 0, 1)) <= 50
        want = [100 * cells.mean(), *_plain(cells, least, convention == "fixatons")]
        np.testing.assert_allclose(value, want, rtol=1e-12, atol=1e-12)
    auto = auto_recurrence_paths(packed, **options)
    for value, path in zip(auto, paths, strict=True):
        cells = np.hypot(*(path[:, None] - path[None]).transpose(2, 0, 1)) <= 50
        cells = np.triu(cells, 1)
        n = len(path)
        rec = 200 * cells.sum() / (n * (n - 1)) if n > 1 else math.nan
        want = [rec, *_plain(cells, least, convention == "fixatons")]
        np.testing.assert_allclose(value, want, rtol=1e-12, atol=1e-12)


def test_long_paths_are_counted_without_overflow() -> None:
    path = np.zeros((600, 2))  # 360,000 cells, 600 in a row: more than 8 or 16 bits hold
    assert cross_recurrence(path, path, radius=1) == (100, pytest.approx(100, rel=1e-4), 100, 0)
    # the two corner cells lie on diagonals of one cell
    assert cross_recurrence(path, path, radius=1).determinism == pytest.approx(
        100 * (1 - 2 / 360_000)
    )


def test_exactly_the_radius_counts() -> None:
    for apart in ((64.0, 0.0), (38.4, 51.2), (0.0, 64.0), (3.0, 4.0), (0.6, 0.8)):
        radius = {64.0: 64.0, 38.4: 64.0, 0.0: 64.0, 3.0: 5.0, 0.6: 1.0}[apart[0]]
        assert cross_recurrence([[0, 0]], [apart], radius=radius).recurrence == 100
        assert cross_recurrence([[0, 0]], [apart], radius=radius - 1e-6).recurrence == 0


def test_swapped_paths_turn_the_sign_of_corm_alone() -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.integers(0, 5, (n, 2)) * 40.0 for n in (14, 9))
    one, other = cross_recurrence(a, b, radius=45), cross_recurrence(b, a, radius=45)
    assert one[:3] == pytest.approx(other[:3])
    assert one.corm == pytest.approx(-other.corm)


def test_nothing_recurs_and_one_fixation() -> None:
    got = cross_recurrence(_line(0, 1), _line(500, 600), radius=10)
    assert got.recurrence == 0 and all(map(math.isnan, got[1:]))
    got = cross_recurrence(_line(0), _line(1, 2), radius=10)
    assert got[:3] == (100, 0, 0) and math.isnan(got.corm)
    assert all(map(math.isnan, auto_recurrence(_line(0), radius=10)))
    assert all(map(math.isnan, auto_recurrence([], radius=10)))
    assert np.isnan(auto_recurrence_paths([[], [[1, 2]]], radius=10)).all()


def test_wrong_parameters_are_named() -> None:
    for radius in (-1, math.nan, math.inf):
        with pytest.raises(DataError, match="radius"):
            cross_recurrence(_line(0), _line(0), radius=radius)
    for least in (0, -2, 1.5):
        with pytest.raises(DataError, match="line"):
            auto_recurrence(_line(0), radius=5, min_line=least)
    with pytest.raises(UnknownNameError, match="anderson"):
        cross_recurrence(_line(0), _line(0), radius=5, convention="andersen")
