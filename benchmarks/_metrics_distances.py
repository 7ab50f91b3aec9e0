"""Time of distances, time-delay embedding and recurrence over all pairs of scanpaths.

Against installed packages in the same run (similaritymeasures, scipy, heatmatch), each pair of
calls alternately, after comparing the values. Public code that is no installable package has
recorded times; these are scaled by a yardstick, multimatch-gaze on the same 105 pairs in this
process over its recorded time, and the lines are marked 'recorded'.

    python benchmarks/_metrics_distances.py [--shared FOLDER] [--repeats 7]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import tracemalloc
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from gazeattn.metrics.scanpath._packed import pack
from gazeattn.metrics.scanpath.distances import disc_overlap_pairs, hausdorff_pairs
from gazeattn.metrics.scanpath.embedding import (
    scaled_time_delay_embedding_pairs,
    time_delay_embedding_pairs,
)
from gazeattn.metrics.scanpath.heatmatch import heatmatch_pairs
from gazeattn.metrics.scanpath.recurrence import cross_recurrence_pairs
from gazeattn.metrics.scanpath.scasim import scasim_pairs
from gazeattn.metrics.scanpath.warping import discrete_frechet_pairs, dtw_pairs

YARDSTICK_MS = 170.43
"""multimatch-gaze 0.1.3 on 105 pairs, no grouping, on the machine of the recorded times."""
SIZE = (800, 600)
DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"
Call = Callable[[], Any]


def seconds(call: Call, inner: int) -> float:
    """Return the mean wall clock of `inner` calls."""
    start = time.perf_counter()
    for _ in range(inner):
        call()
    return (time.perf_counter() - start) / inner


def medians(ours: Call, peer: Call, repeats: int, inner: int) -> tuple[float, float]:
    """Return the median seconds of both, run alternately."""
    ours()
    pairs = [(seconds(ours, inner), seconds(peer, 1)) for _ in range(repeats)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def line(name: str, ours: float, peer: float, bound: float | None, recorded: str = "") -> None:
    """Print one result."""
    ratio = peer / ours
    verdict = "" if bound is None else f" (bound: {bound:g})"
    if bound is not None and ratio < bound:
        verdict += " NOT MET"
    print(f"{name}: {peer * 1e3:.2f} ms / {ours * 1e3:.3f} ms = {ratio:.1f}{verdict} {recorded}")


def yardstick(paths: list[np.ndarray], i: np.ndarray, j: np.ndarray) -> Call:
    """Return the multimatch-gaze comparison of all pairs."""
    compare = import_module("multimatch_gaze").docomparison
    records = []
    for p in paths:
        record = np.zeros(len(p), dtype=[("start_x", "f8"), ("start_y", "f8"), ("duration", "f8")])
        record["start_x"], record["start_y"], record["duration"] = p[:, 0], p[:, 1], p[:, 2] / 1000
        records.append(record)
    return lambda: [compare(records[p], records[q], SIZE) for p, q in zip(i, j, strict=True)]


def installed(paths: list[np.ndarray], i: np.ndarray, j: np.ndarray, repeats: int) -> None:
    """Print the ratios against packages of the same run."""
    packed, points = pack(paths), [np.ascontiguousarray(p[:, :2]) for p in paths]
    pairs = list(zip(i, j, strict=True))
    peer = import_module("similaritymeasures")
    directed = import_module("scipy.spatial.distance").directed_hausdorff
    cases: dict[str, tuple[Call, Call, float | None]] = {
        "dtw, similaritymeasures": (
            lambda: dtw_pairs(packed, packed, i, j),
            lambda: [peer.dtw(points[p], points[q])[0] for p, q in pairs],
            5.0,
        ),
        "discrete_frechet, similaritymeasures": (
            lambda: discrete_frechet_pairs(packed, packed, i, j),
            lambda: [peer.frechet_dist(points[p], points[q]) for p, q in pairs],
            5.0,
        ),
        "hausdorff, scipy both ways": (
            lambda: hausdorff_pairs(packed, packed, i, j),
            lambda: [
                max(directed(points[p], points[q])[0], directed(points[q], points[p])[0])
                for p, q in pairs
            ],
            5.0,
        ),
    }
    for name, (ours, theirs, bound) in cases.items():
        np.testing.assert_allclose(ours(), theirs(), rtol=1e-9)
        line(name, *medians(ours, theirs, repeats, 5), bound)
    try:
        heat = import_module("heatmatch")
    except ImportError:
        print("heatmatch: the package is not installed")
        return

    def fields() -> list[Any]:
        grid, _, yy = heat.make_reference_grid(*SIZE)
        return [
            heat.make_orientation_field(grid, p[:-1], p[1:], grid_shape=yy.shape) for p in points
        ]

    def theirs() -> list[list[float]]:
        ready = fields()
        got = [heat.compute_similarity(ready[p], ready[q]) for p, q in pairs]
        return [[g.s_loc, g.s_dir] for g in got]

    def ours() -> np.ndarray:
        return heatmatch_pairs(packed, packed, i, j, size=SIZE)

    np.testing.assert_allclose(ours(), theirs(), rtol=1e-9)
    line("heatmatch 200 x 200, heatmatch", *medians(ours, theirs, min(repeats, 3), 1), None)


def recorded(
    paths: list[np.ndarray], i: np.ndarray, j: np.ndarray, repeats: int, golden: Path
) -> None:
    """Print the ratios against recorded times, after comparing with the recorded values."""
    packed = pack(paths)
    screen = {"size": SIZE, "distance": 60.0, "unit_size": 1 / 30}
    cases: dict[str, tuple[float, float | None, Call]] = {
        "time_delay_embedding k=3, FixaTons": (
            34.59,
            50.0,
            lambda: time_delay_embedding_pairs(packed, packed, i, j, k=3),
        ),
        "scaled_time_delay_embedding l1, HAT": (
            328.21,
            50.0,
            lambda: scaled_time_delay_embedding_pairs(packed, packed, i, j, size=SIZE, norm="l1"),
        ),
        "cross_recurrence, FixaTons": (
            41.17,
            50.0,
            lambda: cross_recurrence_pairs(packed, packed, i, j, radius=64.0),
        ),
        "cross_recurrence in its convention, FixaTons": (
            41.17,
            50.0,
            lambda: cross_recurrence_pairs(
                packed, packed, i, j, radius=64.0, convention="fixatons"
            ),
        ),
        "discrete_frechet, rAm1n": (
            64.55,
            50.0,
            lambda: discrete_frechet_pairs(packed, packed, i, j),
        ),
        "disc_overlap, fdiss": (
            4.82,
            None,
            lambda: disc_overlap_pairs(packed, packed, i, j, radius=45.0),
        ),
        "scasim, C function": (4.20, None, lambda: scasim_pairs(packed, packed, i, j, **screen)),
    }
    checked = check_recorded(golden, cases, i, j)
    print(f"{checked} recorded values compared")
    peer = yardstick(paths, i, j)
    for name, (milliseconds, bound, ours) in cases.items():
        mine, unit = medians(ours, peer, repeats, 20)
        line(name, mine, milliseconds / 1e3 * unit * 1e3 / YARDSTICK_MS, bound, "recorded")


def check_recorded(golden: Path, cases: dict[str, Any], i: np.ndarray, j: np.ndarray) -> int:
    """Compare with the stored values of the same pairs; return how many."""
    place = {
        (f"osie_1001_s{p:02d}", f"osie_1001_s{q:02d}"): k
        for k, (p, q) in enumerate(zip(i, j, strict=True))
    }
    got = {name: np.asarray(call()) for name, (_, _, call) in cases.items()}
    checked = 0
    for case in json.loads((golden / "A_distances.json").read_text(encoding="utf-8"))["cases"]:
        k, want = place.get((case["a"], case["b"])), case["expected"]
        if k is None:
            continue
        for name, value in (
            ("time_delay_embedding k=3, FixaTons", (want["tde"]["3"] or {}).get("l2_mean")),
            ("scaled_time_delay_embedding l1, HAT", want["stde"]["l1"]),
            ("discrete_frechet, rAm1n", want["frechet"]),
        ):
            if value is not None:
                assert abs(got[name][k] - value) < 1e-9, (name, case["id"])
                checked += 1
    for case in json.loads((golden / "A_recurrence.json").read_text(encoding="utf-8"))["cases"]:
        k = place.get((case["a"], case.get("b")))
        if k is None or case["radius"] != 64:
            continue
        want = case["expected"]
        for name, keys in (
            ("cross_recurrence, FixaTons", ("rec", "det", "lam", "corm")),
            (
                "cross_recurrence in its convention, FixaTons",
                ("rec", "det_anyline", "lam_anyline", "corm"),
            ),
        ):
            values = [np.nan if want[key] is None else want[key] for key in keys]
            np.testing.assert_allclose(got[name][k], values, atol=1e-9)
            checked += 4
    return checked


def growth(repeats: int) -> None:
    """Print time per pair and peak memory for more pairs and for longer paths."""
    rng = np.random.default_rng(0)
    print("\npairs, fixations: microseconds per pair (dtw, TDE, recurrence), peak memory of dtw")
    for pairs, n in ((100, 10), (10_000, 10), (100_000, 10), (100, 20), (100, 40), (100, 80)):
        paths = pack([rng.uniform(size=(n, 2)) * SIZE for _ in range(300)])
        i, j = rng.integers(0, 300, (2, pairs))
        calls: list[Call] = [
            lambda p=paths, a=i, b=j: dtw_pairs(p, p, a, b),
            lambda p=paths, a=i, b=j: time_delay_embedding_pairs(p, p, a, b),
            lambda p=paths, a=i, b=j: cross_recurrence_pairs(p, p, a, b, radius=64.0),
        ]
        each = [
            statistics.median(seconds(c, 1) for _ in range(min(repeats, 3))) / pairs for c in calls
        ]
        tracemalloc.start()
        calls[0]()
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        print(f"{pairs}, {n}: {', '.join(f'{v * 1e6:.2f}' for v in each)}; {peak:.1f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=os.environ.get("GAZEATTN_SHARED", DEFAULT))
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    golden = Path(options.shared).resolve().parent / "golden"
    stored = json.loads((golden / "scanpaths.json").read_text(encoding="utf-8"))["scanpaths"]
    chosen = [stored[f"osie_1001_s{k:02d}"] for k in range(15)]
    paths = [np.column_stack([p["x"], p["y"], p["dur_ms"]]) for p in chosen]
    i, j = np.triu_indices(len(paths), 1)
    print("what is measured: theirs / ours = ratio, 105 pairs of 15 scanpaths")
    installed(paths, i, j, options.repeats)
    recorded(paths, i, j, options.repeats, golden)
    growth(options.repeats)


if __name__ == "__main__":
    main()
