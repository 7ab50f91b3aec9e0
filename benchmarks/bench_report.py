"""Reading a Data Viewer fixation report, against `pandas.read_csv` of the same file.

The report is generated with a fixed seed: tab separated, 20 columns as published reports of code
reading have them (an unnamed first column with row numbers, area lists, dots for missing values,
words and ids among the numbers). Target: at most 2 times ``pandas.read_csv(path, sep="\\t")`` at
1 M rows. The ratio is the median over pairs of runs that directly follow each other, in elapsed
and in processor time: other work on the machine disturbs the second one less.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from pyarrow import Table
from pyarrow import csv as arrow_csv

from gazeattn.readers import read

TARGET = 2.0
PER_TRIAL, PER_READER, N_AREAS = 600, 6000, 120


def make_report(n: int, generator: np.random.Generator) -> Table:
    """Return a report of `n` fixations."""
    row = np.arange(n)
    area = generator.integers(1, N_AREAS + 1, n)
    hit = np.where(generator.random(n) < 0.3, 0, area)  # 0: on no area
    ids = pd.Series([".", *map(str, range(1, N_AREAS + 1))])
    lists = pd.Series(["[ ]", *(f"[ {i}]" for i in range(1, N_AREAS + 1))])
    dwell = pd.Series([".", *map(str, range(100, 5100))])
    count = pd.Series([".", *map(str, range(1, 40))])
    trial = row // PER_TRIAL
    snippets = pd.Series([f"{i}-{i * 37}-V{i % 3 + 1}" for i in range(1, 21)])
    readers = pd.Series([f"P{i:03d}" for i in range(1, n // PER_READER + 2)])
    keys = pd.Series(["a", "b", "c", "d", "."])

    def where(values: pd.Series, index: np.ndarray) -> np.ndarray:
        return values.array.take(np.where(hit == 0, 0, index))

    report = pd.DataFrame(
        {
            " ": row,
            "RECORDING_SESSION_LABEL": readers.array.take(row // PER_READER),
            "TRIAL_INDEX": trial % (PER_READER // PER_TRIAL) + 1,
            "CURRENT_FIX_DURATION": generator.gamma(4.0, 60.0, n).round().astype(int) + 4,
            "CURRENT_FIX_INDEX": row % PER_TRIAL + 1,
            "CURRENT_FIX_INTEREST_AREAS": lists.array.take(hit),
            "CURRENT_FIX_INTEREST_AREA_DWELL_TIME": where(dwell, generator.integers(1, 5001, n)),
            "CURRENT_FIX_INTEREST_AREA_FIX_COUNT": where(count, generator.integers(1, 40, n)),
            "CURRENT_FIX_INTEREST_AREA_ID": ids.array.take(hit),
            "CURRENT_FIX_PUPIL": generator.integers(300, 1500, n),
            "CURRENT_FIX_NEAREST_INTEREST_AREA": area,
            "CURRENT_FIX_NEAREST_INTEREST_AREA_DISTANCE": generator.gamma(2.0, 0.4, n).round(2),
            "CURRENT_FIX_X": generator.normal(900, 300, n).round(1),
            "CURRENT_FIX_Y": generator.normal(500, 200, n).round(1),
            "CS_SUBJ_DIFFICULTY": trial % 5 + 1,
            "KEY_STROKE": keys.array.take(trial % 5),
            "correct_option": keys.array.take(trial % 3),
            "code_snippet_id": snippets.array.take(trial % 20),
            "Session_Name_": readers.array.take(row // PER_READER),
            "track_id": row // PER_READER % 5 + 1,
        }
    )
    return Table.from_pandas(report, preserve_index=False)


def write_report(path: Path, n: int, seed: int = 7) -> None:
    """Write a report of `n` fixations; the first column has no name."""
    table = make_report(n, np.random.default_rng(seed))
    header = "\t".join(table.column_names).strip(" ")
    with path.open("wb") as file:
        file.write(f"{header}\n".encode())
        options = arrow_csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
        arrow_csv.write_csv(table, file, options)


def both_seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Return elapsed and processor seconds (of all threads)."""
    start, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - processor


def main() -> None:
    """Print the ratio and whether it meets the target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=9, help="paired runs per median")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gazeattn-bench-") as folder:
        path = Path(folder, "fix_report.txt")
        write_report(path, options.rows)

        def ours() -> None:
            read(path)

        def reference() -> None:
            pd.read_csv(path, sep="\t")

        for _ in range(2):
            reference()
            ours()
        pairs = [(both_seconds(reference), both_seconds(ours)) for _ in range(options.runs)]
        size = path.stat().st_size / 1e6
    elapsed, processor = (statistics.median(b[k] / a[k] for a, b in pairs) for k in (0, 1))
    theirs, mine = (statistics.median(pair[k][0] for pair in pairs) for k in (0, 1))
    met = "met" if elapsed <= TARGET else "not met"
    print(
        f"Data Viewer fixation report, {options.rows:,} rows, 20 columns, {size:.0f} MB: "
        f"{mine:.2f} s / pandas.read_csv {theirs:.2f} s"
    )
    print(
        f"ratio: {elapsed:.2f} elapsed, {processor:.2f} processor time "
        f"(target: at most {TARGET:.2f}, {met})"
    )


if __name__ == "__main__":
    main()
