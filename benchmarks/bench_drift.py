"""Line assignment: time against eyekit's functions in the same run, and accuracy on real trials.

The trials are those of Carr et al. (2022) where they are found (``$GAZEATTN_SHARED`` or
``../shared/data`` beside the repository, folder ``reading_drift``), else generated ones. eyekit is
no dependency of the package: ``pip install eyekit`` to compare. Its functions get a stand-in for
the text block, so that only the assignment itself is timed, in processor time. Targets: merge,
regress, stretch, cluster and warp at least 10 times faster.

``--accuracy`` prints the accuracy of all methods and of the vote instead (the table of
``docs/drift.md``). It needs the real trials.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd

from gazeattn.reading import drift

TARGET = 10.0
BOUND = ("merge", "regress", "stretch", "cluster", "warp")
SLOW = {"merge": 6, "regress": 2, "stretch": 2, "warp": 2}
"""Every how many trials are given to both, since the other side takes minutes."""
HALVES = 200
CHARACTER = 16.0  # pixels per character of the real texts


@dataclass(frozen=True)
class Trial:
    """Fixations (n, 2), line centres, word centres; group and right lines where known."""

    xy: np.ndarray
    lines: np.ndarray
    words: np.ndarray
    group: str = ""
    gold: np.ndarray | None = None


class Word:
    def __init__(self, center: tuple[float, float]) -> None:
        self.center = center


class TextBlock:
    """What eyekit's functions ask of a text block."""

    right_to_left = False

    def __init__(self, trial: Trial) -> None:
        self.midlines = trial.lines.tolist()
        self.line_height = float(np.diff(trial.lines)[0])
        self._words = [Word((x, y)) for x, y in trial.words.tolist()]

    def words(self) -> list[Word]:
        return self._words


def find_trials() -> list[Trial]:
    """Return the real trials, or none."""
    default = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
    folder = Path(os.environ.get("GAZEATTN_SHARED", default)) / "reading_drift"
    if not (folder / "fixations_with_lines.csv.gz").is_file():
        return []
    fixations = pd.read_csv(folder / "fixations_with_lines.csv.gz")
    trials = pd.read_csv(folder / "trials.csv", dtype=str).set_index("trial_id")
    passages = pd.read_csv(folder / "passage_lines.csv").sort_values(["passage_id", "line"])
    lines, words = {}, {}
    for name, text in passages.groupby("passage_id"):
        columns = (text[c].tolist() for c in ("x_left", "line_y", "text"))
        lines[str(name)] = text["line_y"].to_numpy(dtype=float)
        # the publication counts runs of letters as words
        words[str(name)] = np.array(
            [
                (left + CHARACTER * (m.start() + m.end()) / 2, y)
                for left, y, line in zip(*columns, strict=True)
                for m in re.finditer(r"[^\W\d_]+", line)
            ]
        )
    passage, group = trials["passage_id"].to_dict(), trials["age_group"].to_dict()
    return [
        Trial(
            rows[["x", "y"]].to_numpy(dtype=float),
            lines[passage[str(name)]],
            words[passage[str(name)]],
            group[str(name)],
            rows["line_gold"].to_numpy() - 1,
        )
        for name, rows in fixations.groupby("trial_id", sort=False)
    ]


def make_trials(n: int = 24) -> list[Trial]:
    """Return readings of 11 lines of 12 words, with noise, slope and refixations."""
    rng = np.random.default_rng(5)
    lines = 155.0 + 64 * np.arange(11)
    words = np.array([(400.0 + 95 * k, y) for y in lines for k in range(12)])
    trials = []
    for _ in range(n):
        at = np.sort(rng.integers(0, len(words), 210))
        xy = words[at] + rng.normal(0, [20.0, 8.0], (len(at), 2))
        xy[:, 1] += rng.uniform(-20, 20) + rng.uniform(-0.02, 0.02) * (xy[:, 0] - 960)
        trials.append(Trial(xy.round(), lines, words))
    return trials


def seconds(work: Callable[[], object]) -> float:
    """Return processor time (of all threads): other work on the machine disturbs it less."""
    start = time.process_time()
    work()
    return time.process_time() - start


def print_times(trials: list[Trial]) -> None:
    """Print the time of every method, and the ratio to eyekit's where it has the method."""
    try:
        theirs = import_module("eyekit._snap").methods
    except ImportError:
        theirs = {}
        print("eyekit is not installed: times of this package alone")
    for name in [m for m in sorted(drift.METHODS) if m != "vote"]:

        def ours(some: list[Trial], name: str = name) -> None:
            for t in some:
                drift.apply(name, t.xy, t.lines, t.words)

        ours(trials)  # warm-up
        whole = statistics.median(seconds(lambda: ours(trials)) for _ in range(5))
        print(f"{name}: {whole * 1000:.0f} ms for {len(trials)} trials")
        if name not in theirs:
            continue
        some = trials[:: SLOW.get(name, 1)]
        given = [(t.xy.tolist(), TextBlock(t)) for t in some]

        def reference(name: str = name, given: list = given) -> None:
            for xy, block in given:
                theirs[name](xy, block)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs[name](*given[0])  # warm-up
            runs = 1 if name in SLOW else 11
            pairs = [
                (seconds(reference), seconds(lambda: ours(some)))  # noqa: B023
                for _ in range(runs)
            ]
        peer, own = (statistics.median(p[k] for p in pairs) for k in (0, 1))
        bound = f" (bound: {TARGET:.0f})" if name in BOUND else ""
        missed = ": NOT MET" if bound and peer / own < TARGET else ""
        print(
            f"{name}, {len(some)} trials: eyekit / ours = {peer:.3f} s / {own:.4f} s = "
            f"{peer / own:.1f}{bound}{missed}"
        )


def print_accuracy(trials: list[Trial]) -> None:
    """Print median (mean) accuracy by method and group, and the vote across groups."""
    gold = [t.gold for t in trials if t.gold is not None]
    groups = [t.group for t in trials]
    lines = {
        name: [drift.apply(name, t.xy, t.lines, t.words) for t in trials]
        for name in sorted(drift.METHODS)
        if name != "vote"
    }
    print_vote(lines, gold, np.array(groups))
    lines["vote"] = [drift.vote(t.xy, t.lines, t.words) for t in trials]
    for discarded in ("left_out", "counted"):
        table = drift.accuracy_table(lines, gold, groups, discarded=discarded)
        table["shown"] = [f"{a:.1f} ({b:.1f})" for a, b in table[["median", "mean"]].to_numpy()]
        print(f"\ndiscarded fixations {discarded.replace('_', ' ')}: median (mean), percent")
        print(table.pivot(index="method", columns="group", values="shown").to_string())


def print_vote(
    lines: dict[str, list[np.ndarray]], gold: list[np.ndarray], groups: np.ndarray
) -> None:
    """Print how a vote does on trials on which its members were not chosen."""
    everyone = np.arange(len(gold))
    share = {
        name: np.array([100 * drift.line_accuracy(a, g) for a, g in zip(each, gold, strict=True)])
        for name, each in lines.items()
    }
    votes: dict[tuple[str, ...], np.ndarray] = {}

    def chosen(known: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
        members = drift.choose_members(
            {m: [each[i] for i in known] for m, each in lines.items()}, [gold[i] for i in known]
        )
        if members not in votes:
            voted = [drift.majority([lines[m][i] for m in members]) for i in everyone]
            pairs = zip(voted, gold, strict=True)
            votes[members] = np.array([100 * drift.line_accuracy(a, g) for a, g in pairs])
        return members, votes[members]

    for train in dict.fromkeys(groups.tolist()):
        members, vote = chosen(np.flatnonzero(groups == train))
        new = groups != train
        gain = vote[new] - share["slice"][new]
        print(
            f"vote chosen on {train}: {'+'.join(members)}; on the others {vote[new].mean():.2f}, "
            f"slice {share['slice'][new].mean():.2f}; better, equal, worse in "
            f"{(gain > 0).sum()}, {(gain == 0).sum()}, {(gain < 0).sum()} trials"
        )
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(HALVES):
        order = rng.permutation(everyone)
        known, new = order[: len(order) // 2], order[len(order) // 2 :]
        _, vote = chosen(known)
        gains.append(vote[new].mean() - max(each[new].mean() for each in share.values()))
    won = 100 * np.mean(np.array(gains) > 0)
    print(
        f"{HALVES} random halves: the vote chosen on one beats every method on the other in "
        f"{won:.1f} %, mean gain {np.mean(gains):.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accuracy", action="store_true", help="print accuracies, not times")
    arguments = parser.parse_args()
    trials = find_trials()
    if arguments.accuracy:
        if not trials:
            parser.error("the real trials are not here: set GAZEATTN_SHARED")
        print_accuracy(trials)
        return
    print(f"{'real' if trials else 'generated'} trials")
    print_times(trials or make_trials())


if __name__ == "__main__":
    main()
