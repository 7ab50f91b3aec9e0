"""Scanpath metrics over many pairs, against multimatch-gaze and GazeParser in the same run.

All pairs of observers of the same picture, 100 pictures of the OSIE recordings where they are
found (``$GAZEATTN_SHARED`` or ``../shared/data`` beside the repository, folder ``osie``), else
generated scanpaths of the same lengths. The peers are no dependencies of the package: ``pip
install multimatch-gaze`` and ``pip install --no-deps GazeParser`` to compare. They get a part of
the pairs, in turn with ours over all pairs, and their time per pair is compared; values are
checked to be equal first. Processor time is compared, in which all threads count, so that other
programs matter little. Targets: multimatch 100 times, the others 50 times.

``--million`` computes a million pairs in a process of its own instead, and prints time and memory.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.metrics.scanpath import pairs_within, pairwise

SIZE = (800, 600)
IMAGES, OBSERVERS = 100, 15
ROUNDS = 5
PART = 150  # pairs that a peer gets per round
GROUPED = {"direction_threshold": 45, "duration_threshold": 300, "amplitude_threshold": 100}


def find_paths() -> tuple[list[np.ndarray], list[str], bool]:
    """Return scanpaths, the picture of each, and whether they were recorded."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    file = Path(os.environ.get("GAZEATTN_SHARED", beside)) / "osie" / "fixations.parquet"
    if file.is_file():
        table = pd.read_parquet(file).sort_values(["image", "subject", "index"])
        table = table[table.image.isin(table.image.unique()[:IMAGES])]
        groups = table.groupby(["image", "subject"])[["x", "y", "duration_ms"]]
        made = [(key[0], g.to_numpy(dtype=float)) for key, g in groups]
        return [p for _, p in made], [image for image, _ in made], True
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 15, IMAGES * OBSERVERS)
    paths = [
        np.column_stack([rng.uniform(0, 1, (n, 2)) * SIZE, rng.integers(50, 500, n)])
        for n in lengths
    ]
    return paths, [str(k) for k in np.repeat(np.arange(IMAGES), OBSERVERS)], False


Single = Callable[[int, int], Any]


def multimatch_peer(paths: list[np.ndarray], **rule: float) -> Single | None:
    try:
        from multimatch_gaze import docomparison
    except ImportError:
        return None
    names = ["start_x", "start_y", "duration"]
    records = [np.rec.fromarrays([p[:, 0], p[:, 1], p[:, 2] / 1000], names=names) for p in paths]
    options = (
        {
            "TDir": rule["direction_threshold"],
            "TDur": rule["duration_threshold"] / 1000,
            "TAmp": rule["amplitude_threshold"],
            "grouping": True,
        }
        if rule
        else {}
    )

    def single(i: int, j: int) -> Any:
        try:
            return docomparison(records[i], records[j], screensize=SIZE, **options)
        except IndexError:  # its amplitude pass breaks off where one saccade is left
            return [None] * 5

    return single


def scanmatch_peer(
    paths: list[np.ndarray], bins: tuple[int, int], time_bin: float = 0
) -> Single | None:
    try:
        from GazeParser.ScanMatch import ScanMatch
    except ImportError:
        return None
    tool = ScanMatch(
        Xres=SIZE[0], Yres=SIZE[1], Xbin=bins[0], Ybin=bins[1], Threshold=3.5, TempBin=time_bin
    )
    strings = [tool.fixationToSequence(p).astype(int) for p in paths]
    return lambda i, j: tool.match(strings[i], strings[j])[0]


def seconds(call: Callable[[], Any], clock: Callable[[], float]) -> tuple[float, Any]:
    start = clock()
    value = call()
    return clock() - start, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--million", action="store_true", help="a million pairs: time and memory")
    if parser.parse_args().million:
        million()
        return
    paths, pictures, real = find_paths()
    i, j = pairs_within(pictures)
    print(f"{'recorded' if real else 'generated'} scanpaths: {len(paths)}, pairs: {len(i)}")
    in_words = {**GROUPED, "grouping": "multimatch_gaze"}
    plain = scanmatch_peer(paths, (12, 8))
    runs: list[tuple[str, str, dict[str, Any], Single | None, str, float]] = [
        ("multimatch", "multimatch", {}, multimatch_peer(paths), "multimatch-gaze", 100),
        (
            "multimatch, grouped",
            "multimatch",
            in_words,
            multimatch_peer(paths, **GROUPED),
            "multimatch-gaze",
            100,
        ),
        ("scanmatch 12x8", "scanmatch", {}, plain, "GazeParser", 50),
        (
            "scanmatch 16x12, 50 ms",
            "scanmatch",
            {"bins": (16, 12), "time_bin": 50},
            scanmatch_peer(paths, (16, 12), 50),
            "GazeParser",
            50,
        ),
        ("levenshtein", "levenshtein", {}, plain, "GazeParser", 50),
        (
            "levenshtein, substitution 2",
            "levenshtein",
            {"substitution": 2},
            plain,
            "GazeParser",
            50,
        ),
        ("damerau_levenshtein", "damerau_levenshtein", {}, plain, "GazeParser", 50),
    ]
    for label, metric, options, peer, name, bound in runs:
        compare(label, metric, options, peer, name, bound, paths, i, j)


def compare(
    label: str,
    metric: str,
    options: dict[str, Any],
    peer: Single | None,
    name: str,
    bound: float,
    paths: list[np.ndarray],
    i: np.ndarray,
    j: np.ndarray,
) -> None:
    def all_pairs() -> np.ndarray:
        return pairwise(paths, metric=metric, pairs=(i, j), size=SIZE, **options)

    ours, theirs = [], []
    values = all_pairs()
    rng = np.random.default_rng(0)
    for _ in range(ROUNDS):
        taken, _ = seconds(all_pairs, time.process_time)
        ours.append(taken / len(i))
        if peer is None:
            continue
        part = rng.choice(len(i), PART, replace=False)
        pairs = list(zip(i[part].tolist(), j[part].tolist(), strict=True))
        taken, found = seconds(
            lambda pairs=pairs: [peer(p, q) for p, q in pairs], time.process_time
        )
        theirs.append(taken / PART)
        if metric in ("multimatch", "scanmatch"):  # the edit distances have no such peer
            check(values[part], found)
    mine = statistics.median(ours) * 1e6
    if not theirs:
        print(f"{label}: {mine:.2f} us per pair; {name} is not installed")
        return
    other = statistics.median(theirs) * 1e6
    met = "" if other / mine >= bound else "  NOT MET"
    print(
        f"{label} against {name}, us of processor time per pair: "
        f"{mine:.2f} / {other:.1f} = {mine / other:.5f}, "
        f"{other / mine:.0f} times faster (bound: {bound:.0f} times){met}"
    )


def check(values: np.ndarray, found: list[Any]) -> None:
    ended = np.array([np.ndim(f) == 0 or f[0] is not None for f in found])
    known = [f for f, kept in zip(found, ended, strict=True) if kept]
    np.testing.assert_allclose(values[ended], np.array(known, dtype=float), rtol=0, atol=1e-9)


def million() -> None:
    import resource

    rng = np.random.default_rng(0)
    paths = [
        np.column_stack([rng.uniform(0, 1, (n, 2)) * SIZE, rng.integers(50, 500, n)])
        for n in rng.integers(3, 17, 1000)
    ]
    taken, values = seconds(
        lambda: pairwise(paths, list(paths), "multimatch", size=SIZE, progress=True),
        time.perf_counter,
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"{values[..., 0].size} pairs: {taken:.1f} s, peak {peak:.2f} GiB (bound: 2 GiB)")


if __name__ == "__main__":
    main()
