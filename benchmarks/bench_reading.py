"""Reading a fixation report and computing all word measures, against reading the file alone.

The report is generated: about 130 fixations per trial on 60 layouts of 120 words, with skipped
words, refixations, regressions and fixations off text, under the column names of a Data Viewer
fixation report and with the columns that such reports bring along (interest areas, pupil, next
saccade). Targets: at most 3 times ``pandas.read_csv`` of the same file at 1 M rows, and a cost per
fixation that does not grow with the number of fixations. The ratio is the median over pairs of
runs that directly follow each other, in elapsed and in processor time: other work on the machine
disturbs the second one less. Whether the targets are met is printed, and, without a target, the
ratio for a table of nothing but the eight columns that the measures need.
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

import gazeattn
from gazeattn.reading.measures import word_measures
from gazeattn.tables import check_trials, check_words

N_LAYOUTS, N_WORDS, PER_TRIAL = 60, 120, 130
LINE, LEFT, TOP = 57.0, 358.0, 154.0
READ_TARGET, GROWTH_TARGET = 3.0, 1.5
COLUMNS = {
    "fixations": {
        "participant": "RECORDING_SESSION_LABEL",
        "trial": "trial_id",
        "stimulus": "paragraph_id",
        "index": "CURRENT_FIX_INDEX",
        "x": "CURRENT_FIX_X",
        "y": "CURRENT_FIX_Y",
        "onset": "CURRENT_FIX_START",
        "duration": "CURRENT_FIX_DURATION",
    },
    "words": {
        "stimulus": "paragraph_id",
        "word": "IA_ID",
        "text": "IA_LABEL",
        "left": "IA_LEFT",
        "top": "IA_TOP",
        "right": "IA_RIGHT",
        "bottom": "IA_BOTTOM",
    },
}


def make_words(generator: np.random.Generator) -> pd.DataFrame:
    """Return the layouts: words of 2 to 12 letters in lines of about 1,800 pixels."""
    tables = []
    for k in range(N_LAYOUTS):
        width = generator.integers(2, 13, N_WORDS) * 19.0
        end = np.cumsum(width)
        line = (end // 1800).astype(int)
        start_of_line = np.where(line > 0, end[np.searchsorted(line, line) - 1], 0.0)
        right = LEFT + end - start_of_line
        tables.append(
            pd.DataFrame(
                {
                    "stimulus": f"text{k:02d}",
                    "word": np.arange(N_WORDS).astype(str),
                    "text": [f"w{i}" for i in range(N_WORDS)],
                    "left": right - width,
                    "top": TOP + line * LINE,
                    "right": right,
                    "bottom": TOP + (line + 1) * LINE,
                }
            )
        )
    return pd.concat(tables, ignore_index=True)


def make_fixations(n: int, words: pd.DataFrame, generator: np.random.Generator) -> pd.DataFrame:
    """Return `n` fixations of readers who move on, skip, refixate and go back."""
    trial = np.arange(n) // PER_TRIAL
    place = np.arange(n) % PER_TRIAL
    step = generator.choice([1, 2, 3, 0, -1, -2, -7], n, p=[0.5, 0.2, 0.05, 0.1, 0.07, 0.04, 0.04])
    walk = np.cumsum(step)
    word = np.abs(walk - walk[place == 0][trial]) % (2 * N_WORDS)
    word = np.minimum(word, 2 * N_WORDS - 1 - word)  # at the end of the text: back
    row = (trial % N_LAYOUTS) * N_WORDS + word
    box = words[["left", "top", "right", "bottom"]].to_numpy()[row]
    x = box[:, 0] + generator.uniform(0, 1, n) * (box[:, 2] - box[:, 0])
    y = box[:, 1] + generator.uniform(0, 1, n) * LINE
    y[generator.random(n) < 0.02] = 20.0  # off every word
    duration = generator.gamma(6.0, 38.0, n).round()
    reader = trial // N_LAYOUTS
    readers = np.array([f"P{i:04d}" for i in range(reader[-1] + 1)])
    names = np.array(
        [f"P{t // N_LAYOUTS:04d}_text{t % N_LAYOUTS:02d}" for t in range(trial[-1] + 1)]
    )
    texts = np.array([f"text{k:02d}" for k in range(N_LAYOUTS)])
    onset = np.cumsum(duration + 30)
    return pd.DataFrame(
        {
            "participant": pd.Series(readers).array.take(reader),
            "trial": pd.Series(names).array.take(trial),
            "stimulus": pd.Series(texts).array.take(trial % N_LAYOUTS),
            "index": place,
            "x": x.round(1),
            "y": y.round(1),
            "onset": onset - onset[place == 0][trial],
            "duration": duration,
        }
    )


def as_report(fixations: pd.DataFrame, generator: np.random.Generator) -> Table:
    """Return the fixations as a Data Viewer report, with the columns that it has beside ours."""
    n = len(fixations)
    area = generator.integers(1, N_WORDS + 1, n)
    on_area = pd.Series(np.append(np.arange(N_WORDS + 1).astype(str), "."))
    areas = pd.Series([f"[ {i}]" for i in range(N_WORDS + 1)] + ["[ ]"])
    area_or_none = np.where(generator.random(n) < 0.1, N_WORDS + 1, area)
    sides = pd.Series(["RIGHT", "LEFT", "UP", "DOWN", "."])
    report = fixations.rename(columns=COLUMNS["fixations"]).assign(
        CURRENT_FIX_END=fixations["onset"] + fixations["duration"] - 1,
        CURRENT_FIX_PUPIL=generator.integers(300, 1500, n),
        CURRENT_FIX_INTEREST_AREAS=areas.array.take(area_or_none),
        CURRENT_FIX_INTEREST_AREA_ID=on_area.array.take(area_or_none),
        CURRENT_FIX_NEAREST_INTEREST_AREA=area,
        CURRENT_FIX_NEAREST_INTEREST_AREA_DISTANCE=generator.gamma(2.0, 0.2, n).round(2),
        EYE_USED=pd.Series(["RIGHT"]).array.take(np.zeros(n, dtype=int)),
        NEXT_SAC_AMPLITUDE=generator.gamma(2.0, 1.2, n).round(2),
        NEXT_SAC_DIRECTION=sides.array.take(generator.integers(0, 5, n)),
        TRIAL_INDEX=np.arange(n) // PER_TRIAL % N_LAYOUTS + 1,
    )
    return Table.from_pandas(report, preserve_index=False)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def both_seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Return elapsed and processor seconds (of all threads)."""
    start = time.process_time()
    return seconds(work), time.process_time() - start


def reading_ratio(n: int, runs: int, bare: bool) -> tuple[float, float]:
    """Return the median of (load + measures) / read_csv over pairs: elapsed, processor time."""
    generator = np.random.default_rng(7)
    words = make_words(generator)
    with tempfile.TemporaryDirectory(prefix="gazeattn-bench-") as folder:
        paths = {"fixations": Path(folder, "fixations.csv"), "words": Path(folder, "words.csv")}
        fixations = make_fixations(n, words, generator)
        renamed = fixations.rename(columns=COLUMNS["fixations"])
        of_words = words.rename(columns=COLUMNS["words"])
        plain = arrow_csv.WriteOptions(quoting_style="none")
        report = Table.from_pandas(renamed) if bare else as_report(fixations, generator)
        arrow_csv.write_csv(report, paths["fixations"], plain)
        arrow_csv.write_csv(Table.from_pandas(of_words), paths["words"], plain)
        del fixations, renamed, report

        def ours() -> None:
            gazeattn.load("table", columns=COLUMNS, **paths).measures()

        def reference() -> None:
            pd.read_csv(paths["fixations"])

        for _ in range(2):
            reference(), ours()
        pairs = [(both_seconds(reference), both_seconds(ours)) for _ in range(runs)]
    elapsed, processor = (statistics.median(b[k] / a[k] for a, b in pairs) for k in (0, 1))
    return elapsed, processor


def growth(sizes: list[int], runs: int) -> dict[int, float]:
    """Return the cost per fixation at each size, relative to the first size."""
    generator = np.random.default_rng(8)
    words = make_words(generator)
    checked, _ = check_words(words)
    cost = {}
    for n in sizes:
        fixations = make_fixations(n, words, generator)
        ids = fixations.loc[fixations["index"] == 0, ["participant", "trial", "stimulus"]]
        trials, _ = check_trials(ids)
        repeats = runs if n <= 1_000_000 else 1
        once = [
            seconds(lambda f=fixations, t=trials: word_measures(f, checked, t))
            for _ in range(repeats + 1)
        ]
        cost[n] = statistics.median(once[1:] or once) / n
    return {n: c / cost[sizes[0]] for n, c in cost.items()}


def main() -> None:
    """Print the ratios and whether they meet the targets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="go up to 10 M fixations (8 GB)")
    parser.add_argument("--runs", type=int, default=7, help="paired runs per median")
    options = parser.parse_args()

    elapsed, processor = reading_ratio(1_000_000, options.runs, bare=False)
    bare = reading_ratio(1_000_000, options.runs, bare=True)
    sizes = [100_000, 1_000_000, 3_000_000] + ([10_000_000] if options.full else [])
    relative = growth(sizes, options.runs)
    print("fixations   cost per fixation, relative to the smallest table")
    for n, value in relative.items():
        print(f"{n:>10,}  {value:.2f}")
    print(
        "load bare table + word measures, 1 M rows, 8 columns: "
        f"ours / pandas.read_csv = {bare[0]:.2f} elapsed, {bare[1]:.2f} processor time (no target)"
    )
    print(
        "load report + word measures, 1 M rows, 18 columns: "
        f"ours / pandas.read_csv = {elapsed:.2f} elapsed, {processor:.2f} processor time "
        f"(target: at most {READ_TARGET:.2f}, {met(elapsed <= READ_TARGET)})"
    )
    worst = max(relative.values())
    print(
        f"word measures, cost per fixation: largest / {sizes[0]:,} fixations = {worst:.2f} "
        f"(target: at most {GROWTH_TARGET:.2f}, {met(worst <= GROWTH_TARGET)})"
    )


def met(reached: bool) -> str:
    return "met" if reached else "not met"


if __name__ == "__main__":
    main()
