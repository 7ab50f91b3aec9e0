"""Starting a reading experiment a second time against the first.

Run with ``python benchmarks/bench_readings.py [EXPERIMENT]``; the target is a ratio of at least 20.
The first start reads the corpus, puts every fixation on its word and computes all features; the
second finds them under the content of the corpus' files, which it reads to know that they are the
same. Both in one process and one run, with a data folder that is empty before; importing Python
modules is not counted.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings

TARGET = 20.0


def main() -> int:
    """Print the table; the exit status says whether the target is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", nargs="?", default="copco/dyslexia")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    from gazeattn.datasets import load  # noqa: F401  # imported before the clock runs
    from gazeattn.errors import MissingAssetError
    from gazeattn.experiments.reading_benchmark import tasks_of
    from gazeattn.experiments.reading_data import task_data

    dataset, _, name = args.experiment.partition("/")
    task = tasks_of(dataset)[name]
    shared = os.environ.get("GAZEATTN_SHARED", "../shared/data")
    os.environ["GAZEATTN_SHARED"] = os.path.abspath(shared)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["GAZEATTN_DATA"] = folder
        times = []
        for _ in range(1 + args.repeats):
            began = time.perf_counter()
            try:
                data = task_data(task, {"name": dataset})
            except MissingAssetError:
                print(f"{dataset} is not on this machine: not measured")
                return 0
            times.append(time.perf_counter() - began)
    later = sorted(times[1:])[len(times[1:]) // 2]
    print(f"{args.experiment}: {len(data.trials):,} readings, {len(data.trials.word):,} fixations")
    print(f"{'first start':<36} {times[0]:7.2f} s")
    print(f"{f'second start (median of {args.repeats})':<36} {later:7.2f} s")
    print(f"{'ratio (target: at least 20)':<36} {times[0] / later:7.1f}")
    return 0 if times[0] / later >= TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
