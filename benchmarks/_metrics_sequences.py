"""Time of the sequence score and the fixation edit distance over all pairs of scanpaths.

The public code that computes them is no installable package. Its recorded times are scaled by a
yardstick: multimatch-gaze on the same 105 pairs of scanpaths, run here in the same process, over
its recorded time. These ratios are marked 'recorded'. Target: at least 50 for all pairs at once;
one prediction at a time is shown beside it. Before timing, the values are compared with the
recorded ones.

    python benchmarks/_metrics_sequences.py [--shared FOLDER] [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gazeattn.metrics.scanpath._packed import pack
from gazeattn.metrics.scanpath._strings import as_strings
from gazeattn.metrics.scanpath.clusters import Clusters
from gazeattn.metrics.scanpath.pairwise import pairwise
from gazeattn.metrics.scanpath.sequences import (
    fixation_edit_distance_pairs,
    scores,
    sequence_score_many,
    sequence_score_pairs,
)

TARGET = 50.0
YARDSTICK_MS = 170.43
"""multimatch-gaze 0.1.3 on 105 pairs, no grouping, on the machine of the recorded times."""
RECORDED_MS = {"15 x 14 with look-up of clusters": 298.31, "105 pairs of ready strings": 54.76}
DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"


def median_ms(run: Callable[[], Any], repeats: int, inner: int = 1) -> float:
    """Return the median wall clock of a call in milliseconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(inner):
            run()
        times.append((time.perf_counter() - start) / inner * 1e3)
    return statistics.median(times)


def yardstick(paths: list[np.ndarray], size: tuple[int, int]) -> Callable[[], Any]:
    """Return the multimatch-gaze comparison of all pairs."""
    from multimatch_gaze import docomparison

    records = []
    for p in paths:
        record = np.zeros(len(p), dtype=[("start_x", "f8"), ("start_y", "f8"), ("duration", "f8")])
        record["start_x"], record["start_y"], record["duration"] = p[:, 0], p[:, 1], p[:, 2] / 1000
        records.append(record)
    i, j = np.triu_indices(len(paths), 1)
    return lambda: [
        docomparison(records[p], records[q], list(size)) for p, q in zip(i, j, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=os.environ.get("GAZEATTN_SHARED", DEFAULT))
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    folder = Path(options.shared).resolve().parent / "golden"
    data = json.loads((folder / "A_seqscore.json").read_text(encoding="utf-8"))
    group = next(g for g in data["groups"] if g["group"] == "osie_1001")
    size = (group["width"], group["height"])
    clusters = Clusters(np.array(group["cluster_centers"]), size)
    names = list(group["scanpaths"])
    paths = [np.column_stack([s["x"], s["y"], s["dur_ms"]]) for s in group["scanpaths"].values()]
    i, j = np.triu_indices(len(paths), 1)
    ready = as_strings([group["cluster_strings"][n] for n in names], len(clusters))
    by: dict[str, Any] = {"clusters": clusters, "size": size}

    def all_pairs() -> np.ndarray:
        packed = pack(paths)
        return sequence_score_pairs(packed, packed, i, j, **by)

    def each_against_the_others() -> np.ndarray:
        found = pairwise(paths, metric="sequence_score", workers=1, **by)
        return (found.sum(axis=1) - 1) / (len(paths) - 1)  # without oneself

    def one_by_one() -> list[float]:
        return [
            sequence_score_many(p, paths[:n] + paths[n + 1 :], **by).mean
            for n, p in enumerate(paths)
        ]

    def ready_strings() -> np.ndarray:
        return scores(ready, ready, i, j)

    packed = pack(paths)
    edits = fixation_edit_distance_pairs(packed, packed, i, j, **by)
    values = all_pairs()
    place = {(names[p], names[q]): n for n, (p, q) in enumerate(zip(i, j, strict=True))}
    checked = 0
    for case in data["cases"]:
        if case["group"] == "osie_1001" and case["kind"] == "pair":
            n = place[case["a"], case["b"]]
            assert abs(values[n] - case["expected"]["sequence_score"]) < data["tolerance"]
            assert edits[n] == case["expected"]["fed"]
            checked += 1
    np.testing.assert_allclose(ready_strings(), values, atol=0)
    np.testing.assert_allclose(one_by_one(), each_against_the_others(), rtol=1e-12)
    print(f"values equal: {checked} recorded pairs, and all forms with each other")

    peer = yardstick(paths, size)
    runs = {
        ("15 x 14 with look-up of clusters", "all at once"): each_against_the_others,
        ("15 x 14 with look-up of clusters", "one prediction at a time"): one_by_one,
        ("105 pairs of ready strings", "all at once"): ready_strings,
    }
    measured: dict[Any, list[float]] = {key: [] for key in runs}
    scales = []
    peer()
    for _ in range(options.repeats):  # side by side, since the speed of a machine drifts
        scales.append(median_ms(peer, 1) / YARDSTICK_MS)
        for key, run in runs.items():
            measured[key].append(median_ms(run, 3, inner=5))
    scale = statistics.median(scales)
    print(
        f"yardstick: {scale * YARDSTICK_MS:.1f} ms here, {YARDSTICK_MS} ms recorded: x {scale:.2f}"
    )
    for (work, form), times in measured.items():
        ours, theirs = statistics.median(times), RECORDED_MS[work] * scale
        ratio = theirs / ours
        verdict = "reached" if ratio >= TARGET else "MISSED"
        aim = f"target {TARGET:.0f} {verdict}" if form == "all at once" else "no target"
        print(
            f"{work}, {form}: {ours:.3f} ms; recorded, scaled: {theirs:.1f} ms; "
            f"{ratio:.0f} times (recorded), {aim}"
        )

    rng = np.random.default_rng(0)
    many = pack([rng.random((n, 3)) * [*size, 400] for n in rng.integers(5, 25, 1000)])
    a, b = rng.integers(0, 1000, (2, 1 << 16))
    for name, kernel in (
        ("sequence_score", sequence_score_pairs),
        ("fixation_edit_distance", fixation_edit_distance_pairs),
    ):
        for bin_ms in (None, 50.0):
            ms = median_ms(partial(kernel, many, many, a, b, **by, bin_ms=bin_ms), 3)
            each = ms / len(a) * 1e3
            print(f"{name}, {len(a)} pairs, bin {bin_ms}: {ms:.1f} ms, {each:.2f} us each")


if __name__ == "__main__":
    main()
