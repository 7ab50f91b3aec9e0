"""Time and memory of reading an EyeLink ASC file, beside pymovements on the same file.

The file is made here with a fixed seed: one eye at 1000 Hz, a recording block per trial, with
fixations, saccades, blinks, messages and trial variables. Each reader runs in a process of its
own, one directly after the other; the ratio is the median over such pairs. Memory is the highest
resident size of the process less its size before reading. Targets: at least 5 times faster than
pymovements, and at most 3 times the file. Before, both results are compared: all times, positions
and pupils of the samples, and onset and duration of all events, must be equal; a missing pupil,
which pymovements gives as 0, counts as equal to it.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SPEED_TARGET, MEMORY_TARGET = 5.0, 3.0
HEAD = """** CONVERTED FROM bench.edf using edfapi 4.2 on Mon Jan  1 00:00:00 2024
** DATE: Mon Jan  1 00:00:00 2024
** TYPE: EDF_FILE BINARY EVENT SAMPLE TAGGED
** VERSION: EYELINK II 1
** SOURCE: EYELINK CL
** EYELINK II CL v6.12 Feb  1 2018
**

MSG\t100 DISPLAY_COORDS 0 0 1919 1079
"""
START = """MSG\t{before} TRIALID {trial}
MSG\t{before} RECCFG CR 1000 2 1 L
MSG\t{before} GAZE_COORDS 0.00 0.00 1919.00 1079.00
START\t{start} \tLEFT\tSAMPLES\tEVENTS
PRESCALER\t1
VPRESCALER\t1
PUPIL\tAREA
EVENTS\tGAZE\tLEFT\tRATE\t1000.00\tTRACKING\tCR\tFILTER\t2
SAMPLES\tGAZE\tLEFT\tRATE\t1000.00\tTRACKING\tCR\tFILTER\t2
"""
END = """END\t{end} \tSAMPLES\tEVENTS\tRES\t  38.00\t  31.00
MSG\t{end} !V TRIAL_VAR itemnr {item}
MSG\t{end} !V TRIAL_VAR answer .
MSG\t{end} TRIAL_RESULT 0
"""


def make_trial(trial: int, start: int, generator: np.random.Generator) -> tuple[str, int]:
    """Return the lines of one trial of about six seconds, and its last time."""
    parts = [START.format(before=start - 1, start=start, trial=trial)]
    at, x, y = start, 300.0, 300.0
    while at < start + 6000:
        n = int(generator.gamma(6.0, 38.0)) + 20
        xs = x + np.cumsum(generator.normal(0, 0.2, n))
        ys = y + np.cumsum(generator.normal(0, 0.2, n))
        size = 700 + np.cumsum(generator.normal(0, 0.4, n))
        parts.append(f"SFIX L   {at}\n")
        parts.append(sample_lines(at, xs, ys, size))
        mean = f"{xs.mean():7.1f}\t{ys.mean():7.1f}\t{size.mean():7.0f}"
        parts.append(f"EFIX L   {at}\t{at + n - 1}\t{n}\t{mean}\n")
        at += n
        new_x, new_y = generator.uniform(100, 1800), generator.uniform(100, 980)
        n = int(generator.integers(20, 60))
        blink = generator.random() < 0.05
        parts.append(f"SSACC L  {at}\n")
        way = np.linspace(0, 1, n)
        first = at
        if blink:
            parts.append(f"SBLINK L {at}\n")
            lost = range(at, at + 100)
            parts.append("".join([f"{t}\t   .\t   .\t    0.0\t...\n" for t in lost]))
            parts.append(f"EBLINK L {at}\t{at + 99}\t100\n")
            at += 100
        xs, ys = x + way * (new_x - x), y + way * (new_y - y)
        parts.append(sample_lines(at, xs, ys, np.full(n, size[-1])))
        at += n
        ends = f"{x:7.1f}\t{y:7.1f}\t{new_x:7.1f}\t{new_y:7.1f}"
        parts.append(f"ESACC L  {first}\t{at - 1}\t{at - first}\t{ends}\t   8.10\t    301\n")
        x, y = new_x, new_y
    parts.append(END.format(end=at, item=trial % 40))
    return "".join(parts), at


def sample_lines(start: int, x: np.ndarray, y: np.ndarray, pupil: np.ndarray) -> str:
    rows = zip(range(start, start + len(x)), x.tolist(), y.tolist(), pupil.tolist(), strict=True)
    return "".join([f"{t}\t{a:7.1f}\t{b:7.1f}\t{p:7.1f}\t...\n" for t, a, b, p in rows])


def make_file(path: Path, n_bytes: int) -> int:
    """Write a file of about this size; return its size."""
    generator = np.random.default_rng(20)
    trial, at = 0, 1_000_000
    with path.open("w", encoding="ascii", newline="\n") as file:
        size = file.write(HEAD)
        while size < n_bytes:
            text, end = make_trial(trial, at, generator)
            size += file.write(text)
            trial, at = trial + 1, end + 500
    return path.stat().st_size


def read_ours(path: Path) -> Any:
    from gazeattn.readers.eyelink_asc import read_asc

    return read_asc(path)


def read_theirs(path: Path) -> Any:
    import pymovements  # type: ignore[import-untyped]

    return pymovements.gaze.from_asc(path, events=True)


READERS = {"ours": read_ours, "pymovements": read_theirs}


def resident() -> int:
    """Return the resident size of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def highest_resident() -> int:
    """Return the highest resident size so far (that of getrusage can be the parent's)."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


def child(name: str, path: Path, warm: Path) -> None:
    """Read a small file, so that all is loaded, then the file; print seconds and bytes."""
    READERS[name](warm)
    before = resident()
    start = time.perf_counter()
    result = READERS[name](path)
    seconds = time.perf_counter() - start
    peak = highest_resident()
    print(json.dumps({"seconds": seconds, "bytes": peak - before, "kept": resident() - before}))
    del result


def run(name: str, path: Path, warm: Path) -> dict[str, float]:
    words = [sys.executable, __file__, "--child", name, "--path", str(path), "--warm", str(warm)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(path: Path) -> str:
    """Return what was compared; raise where the two results differ."""
    import gazeattn.readers

    ours: Any = gazeattn.readers.read(path)
    theirs = READERS["pymovements"](path)
    samples = theirs.samples
    pixel = np.array(samples["pixel"].to_list(), float)
    table = ours.samples
    np.testing.assert_array_equal(table["time"], samples["time"].to_numpy())
    np.testing.assert_array_equal(table["x_left"], pixel[:, 0])
    np.testing.assert_array_equal(table["y_left"], pixel[:, 1])
    pupil = samples["pupil"].to_numpy()
    np.testing.assert_array_equal(table["pupil_left"].fillna(0), np.nan_to_num(pupil))
    found = [f"{len(table):,} samples"]
    frame = theirs.events.frame
    for kind, mine in (("fixation", "fixations"), ("saccade", "saccades"), ("blink", "blinks")):
        rows = frame.filter(frame["name"] == f"{kind}_eyelink")
        events = ours.tables()[mine]
        np.testing.assert_array_equal(events["onset"], rows["onset"].to_numpy())
        # pymovements: offset is the last sample, so its duration is one interval shorter
        length = rows["offset"].to_numpy() - rows["onset"].to_numpy() + 1
        np.testing.assert_array_equal(events["duration"], length)
        found.append(f"{len(events):,} {mine}")
    return ", ".join(found)


def main() -> None:
    """Print the ratios and whether they meet the targets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=float, default=200, help="size of the file")
    parser.add_argument("--runs", type=int, default=1, help="pairs of runs")
    parser.add_argument("--child", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--warm", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.path, options.warm)
        return
    with tempfile.TemporaryDirectory(prefix="gazeattn-bench-") as folder:
        path, warm, check = (Path(folder, f"{n}.asc") for n in ("bench", "warm", "check"))
        size = make_file(path, int(options.mb * 1e6))
        make_file(warm, 200_000)
        make_file(check, int(min(options.mb, 20) * 1e6))
        print(f"equal to pymovements on {check.stat().st_size / 1e6:.0f} MB: {compare(check)}")
        pairs = [
            (run("pymovements", path, warm), run("ours", path, warm)) for _ in range(options.runs)
        ]
    print(f"file: {size / 1e6:.0f} MB")
    for name, k in (("pymovements", 0), ("ours", 1)):
        seconds = statistics.median(p[k]["seconds"] for p in pairs)
        peak, kept = (max(p[k][what] for p in pairs) / size for what in ("bytes", "kept"))
        print(f"{name:<12} {seconds:7.2f} s   peak {peak:.2f} x file   kept {kept:.2f} x file")
    speed = statistics.median(a["seconds"] / b["seconds"] for a, b in pairs)
    memory = max(b["bytes"] for _, b in pairs) / size
    print(f"speed: {speed:.1f} times pymovements (target: {SPEED_TARGET}, {met(speed, 1)})")
    print(f"memory: {memory:.2f} times the file (target: {MEMORY_TARGET}, {met(memory, -1)})")


def met(value: float, sign: int) -> str:
    target = SPEED_TARGET if sign > 0 else MEMORY_TARGET
    return "met" if (value - target) * sign >= 0 else "not met"


if __name__ == "__main__":
    main()
