"""ScanMatch against recorded values of GazeParser, by hand, and by its properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.scanpath._packed import pack
from gazeattn.metrics.scanpath.pairwise import undefined_reason
from gazeattn.metrics.scanpath.scanmatch import scanmatch, scanmatch_pairs, scanmatch_strings

# many paths here are off the stimulus, or of a few ms, on purpose; see test_contract, test_packed
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*off the stimulus"),
    pytest.mark.filterwarnings("ignore:.*look like seconds"),
]

SIZE = (800, 600)


def golden_path(scanpath):
    duration = scanpath.get("dur_ms") or [1000.0] * len(scanpath["x"])
    return np.column_stack([scanpath["x"], scanpath["y"], duration])


@pytest.mark.parametrize("convention", ["needleman_wunsch", "gazeparser"])
def test_recorded_values(golden, convention):
    scanpaths, recorded = golden("scanpaths.json")["scanpaths"], golden("A_scanmatch.json")
    compared = strings = 0
    for case in recorded["cases"]:
        a, b = (golden_path(scanpaths[case[k]]) for k in "ab")
        rule = recorded["params"][case["params"]]
        options = {
            "size": (scanpaths[case["a"]]["width"], scanpaths[case["a"]]["height"]),
            "bins": (rule["Xbin"], rule["Ybin"]),
            "time_bin": rule["TempBin"] or None,
        }
        symbols = scanmatch_strings([a, b], **options)
        if "symbols_a" in case:
            assert [s.tolist() for s in symbols] == [case["symbols_a"], case["symbols_b"]]
            strings += 1
        found = scanmatch(
            a,
            b,
            threshold=rule["Threshold"],
            gap=rule["GapValue"],
            convention=convention,
            **options,
        )
        if not any(map(len, symbols)):  # also where the peers divide by zero
            assert np.isnan(found), case["id"]
            continue
        own = case["peers"]["own_corner_score"]
        expected = case["expected"] if convention == "gazeparser" else own
        if expected is not None:  # none was computed for an empty string
            assert found == pytest.approx(expected, rel=0, abs=1e-12), case["id"]
            compared += 1
    assert compared >= 150 and strings >= 100


def test_by_hand():
    # Cells of 100 x 100: symbols 0 1 3 against 0 3. Equal symbols score 2, others 2 - distance.
    a, b = [[10, 10], [110, 10], [310, 10]], [[10, 10], [310, 10]]
    r = {"size": (400, 300), "bins": (4, 3), "threshold": 2.0}
    assert scanmatch(a, b, **r) == pytest.approx((2 + 0 + 2) / (2 * 3))
    assert scanmatch(a, b, gap=-0.5, **r) == pytest.approx((2 - 0.5 + 2) / 6)
    # the first copy pays a gap more at the border, also for the empty alignment
    assert scanmatch(a, b, gap=-0.5, convention="gazeparser", **r) == pytest.approx(3.0 / 6)


def test_cells_run_along_rows():
    path = [[0, 0], [799.9, 0], [0, 599.9], [66, 0], [67, 75]]
    assert scanmatch_strings([path], size=SIZE)[0].tolist() == [0, 11, 84, 0, 13]


def test_time_bins_round_half_to_even_after_cutting():
    path = [[0, 0, 25], [100, 0, 75], [200, 0, 125.9], [300, 0, 24.99], [400, 0, 100]]
    found = scanmatch_strings([path], size=(800, 600), bins=(8, 6), time_bin=50)[0]
    assert found.tolist() == [1, 1, 2, 2, 4, 4]


@pytest.mark.parametrize("gap", [0.0, -0.5])
@pytest.mark.parametrize("convention", ["needleman_wunsch", "gazeparser"])
def test_empty_strings(gap, convention):
    empty, path = np.zeros((0, 3)), [[1, 1, 100], [500, 500, 10]]
    options = {"size": SIZE, "gap": gap, "convention": convention}
    assert np.isnan(scanmatch(empty, empty, **options))
    assert "both" in undefined_reason("scanmatch", empty, empty, **options)
    for a, b in ((empty, path), (path, empty)):
        assert scanmatch(a, b, **options) == pytest.approx(
            gap / 3.5 if convention == "needleman_wunsch" else gap / (3.5 * 2)
        )
    brief = [[1, 1, 10], [2, 2, 0]]
    assert np.isnan(scanmatch(brief, brief, time_bin=50, **options))
    assert "too short" in undefined_reason("scanmatch", brief, brief, time_bin=50, **options)
    assert np.isfinite(scanmatch(brief, path, time_bin=50, **options))


@pytest.mark.parametrize("without", ["a", "b", "one"])
def test_missing_durations_are_not_invented(without):
    a, b = np.array([[1, 1, 100.0], [500, 500, 200]]), np.array([[9, 9, 300.0], [400, 500, 100]])
    plain = scanmatch(a, b, size=SIZE)
    a = a[:, :2] if without == "a" else a
    b = b[:, :2] if without == "b" else b
    if without == "one":
        a[1, 2] = np.nan
    assert scanmatch(a, b, size=SIZE) == plain
    assert np.isnan(scanmatch(a, b, size=SIZE, time_bin=50))
    assert "duration" in undefined_reason("scanmatch", a, b, size=SIZE, time_bin=50)


@pytest.mark.parametrize("off", [[-50, 10], [801, 10], [10, -1], [10, 600], [-1e9, 1e9]])
def test_fixations_off_the_stimulus(off):
    a, b = [off, [400, 300]], [[10, 10], [400, 300]]
    at_border = [[min(max(off[0], 0), 799), min(max(off[1], 0), 599)], [400, 300]]
    assert scanmatch(a, b, size=SIZE) == scanmatch(at_border, b, size=SIZE)
    assert np.isnan(scanmatch(a, b, size=SIZE, outside="undefined"))
    assert np.isnan(scanmatch(b, a, size=SIZE, outside="undefined"))
    assert "outside" in undefined_reason("scanmatch", a, b, size=SIZE, outside="undefined")
    assert scanmatch(b, b, size=SIZE, outside="undefined") == 1.0


paths = st.lists(
    st.tuples(st.floats(-50, 900), st.floats(-50, 700), st.integers(0, 400)), max_size=8
).map(lambda rows: np.array(rows, dtype=float).reshape(-1, 3))
options = st.fixed_dictionaries(
    {
        "bins": st.sampled_from([(12, 8), (1, 1), (3, 5)]),
        "time_bin": st.sampled_from([None, 50, 100.0]),
        "gap": st.sampled_from([0.0, -0.25]),
        "convention": st.sampled_from(["needleman_wunsch", "gazeparser"]),
    }
)


def table_score(a, b, bins, threshold, gap, convention):
    """One table, cell by cell."""
    peer = convention == "gazeparser"
    F = np.zeros((len(a) + 1, len(b) + 1))
    F[:, 0] = gap * (np.arange(len(a) + 1) + peer)
    F[0] = gap * (np.arange(len(b) + 1) + peer)
    for r, p in enumerate(a):
        for c, q in enumerate(b):
            distance = np.hypot(p % bins[0] - q % bins[0], p // bins[0] - q // bins[0])
            F[r + 1, c + 1] = max(
                F[r, c] + threshold - distance, F[r, c + 1] + gap, F[r + 1, c] + gap
            )
    score = F.max() if peer and gap else F[-1, -1]
    return score / threshold / max(len(a), len(b))


@settings(max_examples=150, deadline=None)
@given(paths, paths, options)
def test_equal_to_the_table_symmetric_and_bounded(a, b, options):
    ab = scanmatch(a, b, size=SIZE, **options)
    ba = scanmatch(b, a, size=SIZE, **options)
    strings = scanmatch_strings(
        [a, b], size=SIZE, bins=options["bins"], time_bin=options["time_bin"]
    )
    if not any(map(len, strings)):
        assert np.isnan(ab) and np.isnan(ba)
        return
    rule = {k: v for k, v in options.items() if k != "time_bin"}
    assert ab == ba == pytest.approx(table_score(*strings, threshold=3.5, **rule), abs=1e-12)
    assert ab <= 1 + 1e-12 and (options["gap"] < 0 or ab >= 0)
    if len(strings[0]) and options["convention"] == "needleman_wunsch":
        assert scanmatch(a, a, size=SIZE, **options) == pytest.approx(1.0)


def test_scaling_changes_nothing():
    rng = np.random.default_rng(0)
    a, b = (np.floor(rng.uniform(0, 1, (9, 2)) * SIZE) for _ in "ab")
    assert scanmatch(a, b, size=SIZE) == scanmatch(a * 2, b * 2, size=(1600, 1200))
    assert scanmatch(a, b, size=SIZE) == scanmatch(
        a.astype(np.float32), b.astype(np.float32), size=SIZE
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"time_bin": 50},
        {"gap": -1.0, "threshold": 6.0},
        {"gap": -1.0, "time_bin": 100, "convention": "gazeparser"},
    ],
)
def test_many_at_once_equal_one_by_one(options):
    rng = np.random.default_rng(2)
    made = [
        np.column_stack([rng.uniform(-9, 1, (n, 2)) % 1 * SIZE, rng.integers(0, 600, n)])
        for n in [0, 1, 2, 40, *rng.integers(0, 20, 18)]
    ]
    packed = pack(made)
    i, j = (v.ravel() for v in np.indices((len(made), len(made))))
    many = scanmatch_pairs(packed, packed, i, j, size=SIZE, **options)
    one = [scanmatch(made[p], made[q], size=SIZE, **options) for p, q in zip(i, j, strict=True)]
    np.testing.assert_allclose(many, one, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"size": (800, -1)}, DataError),
        ({"bins": (0, 8)}, DataError),
        ({"bins": (12,)}, DataError),
        ({"bins": (1000, 1000)}, DataError),
        ({"threshold": 0}, DataError),
        ({"gap": 0.5}, DataError),
        ({"gap": np.nan}, DataError),
        ({"time_bin": 0}, DataError),
        ({"time_bin": -50}, DataError),
        ({"convention": "matlab"}, UnknownNameError),
        ({"outside": "keep"}, UnknownNameError),
    ],
)
def test_wrong_parameters(wrong, error):
    with pytest.raises(error):
        scanmatch([[0, 0, 1]], [[0, 0, 1]], **{"size": SIZE, **wrong})


def test_a_wrong_unit_does_not_fill_the_memory():
    with pytest.raises(DataError, match="time bins"):
        scanmatch([[0, 0, 1e12]], [[0, 0, 1]], size=SIZE, time_bin=1)
