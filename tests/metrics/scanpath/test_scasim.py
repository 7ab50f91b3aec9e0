"""Scasim and HeatMatch."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.scanpath._packed import pack
from gazeattn.metrics.scanpath.heatmatch import heatmatch
from gazeattn.metrics.scanpath.scasim import scasim, scasim_pairs

# many paths here are off the stimulus on purpose; test_contract looks at the warnings
pytestmark = pytest.mark.filterwarnings("ignore:.*off the stimulus")

SCREEN = {"size": (800, 600), "distance": 60.0, "unit_size": 1 / 30}


def _golden_paths(golden) -> dict[str, np.ndarray]:
    return {
        name: np.c_[p["x"], p["y"], p["dur_ms"]]
        for name, p in golden("scanpaths.json")["scanpaths"].items()
        if p.get("dur_ms")
    }


def test_golden(golden) -> None:
    paths = _golden_paths(golden)
    kinds = set()
    for case in golden("A_extra.json")["cases"]:
        a, b, p, want = paths[case["a"]], paths[case["b"]], case["params"], case["expected"]
        kinds.add(case["kind"])
        if case["kind"] == "heatmatch":
            for tradeoff in (0.5, 1.0):
                got = heatmatch(
                    a,
                    b,
                    size=(p["width"], p["height"]),
                    sigma=p["sigma"],
                    grid=(p["grid_rows"], p["grid_cols"]),
                    tradeoff=tradeoff,
                )
                assert got.location == pytest.approx(want["s_loc"], abs=1e-9)
                assert got.direction == pytest.approx(want[f"s_dir_tradeoff_{tradeoff}"], abs=1e-9)
            continue
        options = {
            "size": (2 * p["center_x"], 2 * p["center_y"]),
            **{k: p[k] for k in ("distance", "unit_size", "modulator")},
        }
        assert scasim(a, b, **options) == pytest.approx(want["distance_ms"], abs=0.01)
        for normalise, key in (
            ("durations", "normalized_by_durations"),
            ("fixations", "per_fixation"),
        ):
            got = scasim(a, b, **options, normalise=normalise)
            expected = math.nan if want[key] is None else want[key]
            assert got == pytest.approx(expected, abs=1e-4, nan_ok=True), case["id"]
    assert kinds == {"scasim", "heatmatch"}


def test_scasim_by_hand() -> None:
    # same place: only the difference in time; the rest is a gap
    a, b = [[400, 300, 200]], [[400, 300, 150], [400, 300, 90]]
    assert scasim(a, b, **SCREEN) == pytest.approx(50 + 90)
    # the pixel of the centre and one 45 degrees away: 60 / unit_size pixels
    far = [[400 + 60 * 30, 300, 100]]
    w = 0.83**45
    assert scasim([[400, 300, 200]], far, **SCREEN) == pytest.approx(100 * w + 300 * (1 - w))
    assert scasim([[400, 300, 200]], far, **SCREEN, normalise="durations") == pytest.approx(
        (100 * w + 300 * (1 - w)) / 300
    )
    assert scasim(a, b, **SCREEN, normalise="fixations") == pytest.approx(140 / 3)


def test_scasim_of_a_path_with_itself_is_exactly_0(golden) -> None:
    for path in _golden_paths(golden).values():
        assert scasim(path, path, **SCREEN) == 0


def _plain(a: np.ndarray, b: np.ndarray, modulator: float) -> float:
    lines = [np.c_[(p[:, :2] - [400, 300]) / 30 / 60, np.ones(len(p))] for p in (a, b)]
    u, v = (p / np.linalg.norm(p, axis=1, keepdims=True) for p in lines)
    table = np.zeros((len(a) + 1, len(b) + 1))
    table[1:, 0], table[0, 1:] = np.cumsum(a[:, 2]), np.cumsum(b[:, 2])
    for i, (s, p) in enumerate(zip(a[:, 2], u, strict=True)):
        for j, (t, q) in enumerate(zip(b[:, 2], v, strict=True)):
            w = modulator ** math.degrees(math.acos(min(1.0, float(p @ q))))
            table[i + 1, j + 1] = min(
                table[i, j] + abs(s - t) * w + (s + t) * (1 - w),
                table[i, j + 1] + s,
                table[i + 1, j] + t,
            )
    return float(table[-1, -1])


def test_scasim_equals_the_plain_loop_at_all_shapes() -> None:
    rng = np.random.default_rng(0)
    paths = [
        np.c_[rng.uniform(0, 800, n), rng.uniform(0, 600, n), rng.uniform(50, 400, n)]
        for n in (1, 2, 3, 8, 14, 1, 25)
    ]
    i, j = (v.ravel() for v in np.indices((7, 7)))
    packed = pack(paths)
    got = scasim_pairs(packed, packed, i, j, **SCREEN, modulator=0.9)
    for value, p, q in zip(got, i, j, strict=True):
        assert value == pytest.approx(_plain(paths[p], paths[q], 0.9), abs=1e-3)
        assert value <= paths[p][:, 2].sum() + paths[q][:, 2].sum() + 1e-9


def test_scasim_without_durations_is_undefined() -> None:
    timed, bare = [[1, 1, 100], [2, 2, 100]], [[1, 1], [2, 2]]
    for a, b in ((timed, bare), (bare, timed), (timed, [[1, 1, math.nan]]), (timed, [])):
        assert math.isnan(scasim(a, b, **SCREEN)) and math.isnan(scasim(b, a, **SCREEN))
    nothing = [[1, 1, 0]]
    assert scasim(nothing, nothing, **SCREEN) == 0
    assert math.isnan(scasim(nothing, nothing, **SCREEN, normalise="durations"))


def test_wrong_parameters_are_named() -> None:
    path = [[1, 1, 100], [2, 2, 100]]
    for modulator in (0, 1.5, math.nan):
        with pytest.raises(DataError, match="modulator"):
            scasim(path, path, **SCREEN, modulator=modulator)
    with pytest.raises(UnknownNameError):
        scasim(path, path, **SCREEN, normalise="time")
    with pytest.raises(DataError, match="distance"):
        scasim(path, path, size=(800, 600), distance=0, unit_size=1)
    with pytest.raises(DataError, match="sigma"):
        heatmatch(path, path, size=(800, 600), sigma=0)
    with pytest.raises(DataError, match="tradeoff"):
        heatmatch(path, path, size=(800, 600), tradeoff=2)


def test_heatmatch_by_hand() -> None:
    grid = {"size": (100, 100), "grid": (11, 11), "sigma": 20.0}
    across, down = [[10, 50], [90, 50]], [[50, 10], [50, 90]]
    assert heatmatch(across, across, **grid) == pytest.approx((1, 1))
    assert heatmatch(across, across[::-1], **grid) == pytest.approx((1, 1))  # no sign
    assert heatmatch(across, down, **grid).direction == pytest.approx(0, abs=1e-12)
    slanted = [[20, 20], [80, 80]]
    assert heatmatch(across, slanted, **grid).direction == pytest.approx(0.5)
    assert all(map(math.isnan, heatmatch(across, [[1, 1]], **grid)))
    assert all(map(math.isnan, heatmatch([], across, **grid)))
    # fields so far apart that no point carries weight
    away = heatmatch([[1, 1], [2, 1]], [[99, 99], [98, 99]], size=(100, 100), sigma=0.5)
    assert math.isnan(away.direction) or 0 <= away.direction <= 1
