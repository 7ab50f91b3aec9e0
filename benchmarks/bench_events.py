"""Samples to events: the array functions against pymovements, both in the same run.

The samples are generated: fixations of about 250 ms with drift and noise, saccades of 20 ms, at
1000 Hz, some samples missing. Each pair of calls runs alternately; the ratio is the median over
the pairs. There is no fixed target but that time grows with the number of samples and no faster,
which the last table shows for this package alone, up to a million samples and for whole tables.

pymovements gets ready velocities, as its functions ask for; ours compute them inside the timing
unless they are given as well. Its I-DT takes seconds for 100,000 samples and gets fewer.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

from gazeattn.events import Geometry, detect, engbert_kliegl, idt, ivt, velocity

FIXATION, SACCADE = 250, 20


def make_samples(n: int, seed: int = 0, missing: float = 0.0) -> tuple[np.ndarray, ...]:
    """Return time in ms, x and y in degrees."""
    generator = np.random.default_rng(seed)
    count = n // (FIXATION + SACCADE) + 2
    places = generator.uniform(-10, 10, (count + 1, 2))
    into = np.minimum(np.arange(FIXATION + SACCADE) - FIXATION, SACCADE).clip(0) / SACCADE
    share = (1 - np.cos(np.pi * into)) / 2
    path = places[:-1, None] + (places[1:] - places[:-1])[:, None] * share[None, :, None]
    xy = path.reshape(-1, 2)[:n] + generator.normal(0, 0.01, (n, 2))
    xy[generator.random(n) < missing] = np.nan
    return np.arange(n, dtype=float), xy[:, 0], xy[:, 1]


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def against_peer(repeats: int, n: int, n_idt: int) -> list[dict[str, object]]:
    """Return one row per method: median seconds of both and the median ratio."""
    peer = importlib.import_module("pymovements.events")

    at, x, y = make_samples(n)
    v, whole = velocity(at, x, y), at.astype(int)
    a, b, c = at[:n_idt], x[:n_idt], y[:n_idt]
    short, xy = a.astype(int), np.column_stack([b, c])
    pairs: dict[str, tuple[int, Callable[[], object], Callable[[], object]]] = {
        "ivt, velocity given": (
            n,
            lambda: ivt(at, x, y, threshold=30, minimum_duration=60, velocity=v),
            lambda: peer.ivt(v, whole, minimum_duration=60, velocity_threshold=30.0),
        ),
        "ivt": (
            n,
            lambda: ivt(at, x, y, threshold=30, minimum_duration=60),
            lambda: peer.ivt(v, whole, minimum_duration=60, velocity_threshold=30.0),
        ),
        "engbert_kliegl": (
            n,
            lambda: engbert_kliegl(at, x, y),
            lambda: peer.microsaccades(v, whole, minimum_duration=6),
        ),
        "idt": (
            n_idt,
            lambda: idt(a, b, c, threshold=1.0, minimum_duration=60),
            lambda: peer.idt(xy, short, minimum_duration=60, dispersion_threshold=1.0),
        ),
    }
    rows: list[dict[str, object]] = []
    for name, (size, ours, theirs) in pairs.items():
        times = [(timed(ours), timed(theirs)) for _ in range(repeats)]
        rows.append(
            {
                "method": name,
                "samples": size,
                "gazeattn_s": statistics.median(t[0] for t in times),
                "pymovements_s": statistics.median(t[1] for t in times),
                "ratio": statistics.median(t[1] / t[0] for t in times),
            }
        )
    return rows


def growth(repeats: int, sizes: list[int]) -> list[dict[str, object]]:
    """Return the time of each method and of `detect` for samples of several sizes."""
    rows: list[dict[str, object]] = []
    geometry = Geometry(1920, 1080, 53.0, 30.0, 70.0)
    for n in sizes:
        calls = _calls(n, geometry)
        for name, call in calls.items():
            seconds = statistics.median(timed(call) for _ in range(repeats))
            each = seconds / n * 1e6
            rows.append({"method": name, "samples": n, "seconds": seconds, "us_per_sample": each})
    return rows


def _calls(n: int, geometry: Geometry) -> dict[str, Callable[[], object]]:
    at, x, y = make_samples(n, missing=0.001)
    px, py = geometry.to_pixels(x, y)
    trial = (np.arange(n) // 20_000).astype(str)
    table = pd.DataFrame({"trial": trial, "time": at, "x": px, "y": py, "pupil": 900.0})
    return {
        "ivt": lambda: ivt(at, x, y, threshold=30, minimum_duration=60),
        "idt": lambda: idt(at, x, y, threshold=1, minimum_duration=60),
        "engbert_kliegl": lambda: engbert_kliegl(at, x, y),
        "detect ivt": lambda: detect(table, "ivt", geometry=geometry),
        "detect idt": lambda: detect(table, "idt", geometry=geometry),
        "detect engbert_kliegl": lambda: detect(table, "engbert_kliegl", geometry=geometry),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--idt-samples", type=int, default=20_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000])
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    try:
        rows = against_peer(chosen.repeats, chosen.samples, chosen.idt_samples)
        print(pd.DataFrame(rows).to_string(index=False, float_format="%.4f"))
    except ImportError:
        print("pymovements is not installed: no comparison")
    print(pd.DataFrame(growth(chosen.repeats, chosen.sizes)).to_string(index=False))


if __name__ == "__main__":
    main()
