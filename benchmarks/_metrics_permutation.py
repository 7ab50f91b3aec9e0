"""The permutation test over many trials and heads, against a loop over scipy's spearmanr.

500 trials of 100 words, 270 heads, 10,000 permutations each: ours in full (or a part with
``--trials``), the loop on a part of the calls and scaled. The p values of both are compared on one
trial with the same permutations. Target: at least 100 times faster, below 2 GiB.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from scipy import stats

from gazeattn.metrics.statistics import permutation_pvalues

N_TRIALS, N_HEADS, N_WORDS, N_PERMUTATIONS = 500, 270, 100, 10_000
TARGET, MEMORY_TARGET = 100.0, 2 << 30


def peak_bytes() -> int:
    """Return the highest resident memory of this process so far."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def check_equal(rng: np.random.Generator) -> None:
    """Compare observed values and the null's draws with scipy on a small trial."""
    heads, human = rng.random((3, 30)), rng.random(30)
    ours = permutation_pvalues(heads, human, n_permutations=200, rng=5)
    order = np.argsort(np.random.default_rng(5).random((200, 30)), axis=1)
    theirs = np.array([[stats.spearmanr(h, human[o])[0] for o in order] for h in heads])
    observed = [stats.spearmanr(h, human)[0] for h in heads]
    if not np.allclose(ours.observed, observed, atol=1e-12):
        raise SystemExit("observed values differ from scipy's")
    if not np.allclose(np.sort(ours.null, axis=1), np.sort(theirs, axis=1), atol=1e-12):
        raise SystemExit("permuted values differ from scipy's")


def main() -> None:
    """Print the ratio and the memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=N_TRIALS)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    check_equal(rng)
    before = peak_bytes()
    total = np.zeros((N_HEADS, N_PERMUTATIONS))
    start = time.perf_counter()
    for trial in range(options.trials):
        heads, human = rng.random((N_HEADS, N_WORDS)), rng.random(N_WORDS)
        total += permutation_pvalues(heads, human, n_permutations=N_PERMUTATIONS, rng=trial).null
    ours = (time.perf_counter() - start) * N_TRIALS / options.trials
    memory = peak_bytes() - before

    calls = 500
    start = time.perf_counter()
    for _ in range(calls):
        stats.spearmanr(heads[0], rng.permutation(human))
    theirs = (time.perf_counter() - start) / calls * N_TRIALS * N_HEADS * N_PERMUTATIONS
    met = "met" if theirs / ours >= TARGET else "not met"
    print(
        f"permutation test, {N_TRIALS} trials x {N_HEADS} heads x {N_PERMUTATIONS:,}: "
        f"{ours:.0f} s ({options.trials} trials run), loop over spearmanr {theirs:,.0f} s "
        f"({calls} calls run, scaled): {theirs / ours:,.0f} times (target: {TARGET:.0f}, {met})"
    )
    met = "met" if memory <= MEMORY_TARGET else "not met"
    print(f"peak memory: {memory / 2**20:.0f} MiB (target: 2048, {met})")


if __name__ == "__main__":
    main()
