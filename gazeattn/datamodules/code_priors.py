"""What programmers tend to look at: coverage by class of token, transitions, made-up scanpaths.

After EyeMulator (arXiv 2508.16771), as far as its definitions are known; what is ours is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gazeattn.datamodules.code_classes import TokenLooks
from gazeattn.errors import DataError
from gazeattn.stimuli.code import ROLES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LEAST = 5
"""Transitions that were seen less often are forgotten."""


def coverage_counts(looks: Sequence[TokenLooks]) -> pd.DataFrame:
    """Return ``participant, trial, stimulus, session, kind, fixated, tokens, ms, whole``.

    One row per reading and class of token that its code has: how many tokens of the class were
    looked at, and how many there are.
    """
    rows = []
    for r in looks:
        distinct, first = np.unique(r.token, return_index=True)
        seen = Counter(r.kind[first].tolist())
        ms = pd.Series(r.duration).groupby(pd.Series(r.kind)).sum().to_dict()
        for kind, n in r.there.items():
            rows.append((r.participant, r.trial, r.stimulus, r.session, kind, seen[kind], n,
                         float(ms.get(kind, 0.0)), r.whole))  # fmt: skip
        if len(distinct) > sum(r.there.values()) or any(k not in r.there for k in seen):
            raise DataError("more tokens were looked at than the code has", source=r.trial,
                            expected=r.there, found=dict(seen))  # fmt: skip
    names = ["participant", "trial", "stimulus", "session", "kind", "fixated", "tokens", "ms",
             "whole"]  # fmt: skip
    return pd.DataFrame(rows, columns=names)


def coverage_prior(counts: pd.DataFrame) -> pd.DataFrame:
    """Return the Beta prior of each class being looked at, over all readings together.

    ``alpha = fixated + 1``, ``beta = tokens - fixated + 1``; ``mean`` is alpha over their sum.

    Parameters
    ----------
    counts
        From `coverage_counts`; a part of it gives the prior of a session, or of some people.

    Returns
    -------
    DataFrame
        Index ``kind``; ``alpha, beta, mean, fixated, tokens, readings, whole``. Where not
        ``whole``, tokens that nobody looked at are unknown and the mean is an upper bound.
    """
    if not len(counts):
        raise DataError("a prior of coverage needs readings")
    groups = counts.groupby("kind")
    out = groups[["fixated", "tokens"]].sum()
    out["alpha"], out["beta"] = out["fixated"] + 1, out["tokens"] - out["fixated"] + 1
    out["mean"] = out["alpha"] / (out["alpha"] + out["beta"])
    out["readings"] = groups["trial"].nunique()
    out["whole"] = groups["whole"].all()
    return out[["alpha", "beta", "mean", "fixated", "tokens", "readings", "whole"]]


def class_shares(counts: pd.DataFrame) -> dict[str, float]:
    """Return time on a token of each class over time on any token, 1: as much as even gaze.

    The mean over readings, so that long ones do not count more. Classes that no code had are
    not in it.
    """
    totals = counts.groupby("trial")[["ms", "tokens"]].transform("sum")
    used = counts[(totals["ms"] > 0) & (counts["tokens"] > 0)]
    if not len(used):
        raise DataError("shares of classes need readings with a look")
    ratio = (used["ms"] / totals["ms"][used.index]) / (
        used["tokens"] / totals["tokens"][used.index]
    )
    weighted = (ratio * used["tokens"]).groupby(used["kind"]).sum()
    found = weighted / used.groupby("kind")["tokens"].sum()
    return {str(k): float(v) for k, v in found.items()}


@dataclass(frozen=True)
class Transitions:
    """How often classes of tokens follow each other.

    Attributes
    ----------
    counts : dict
        For n = 1, 2, 3: how often each run of n classes was seen.
    pruned : dict
        For each n, how many runs (not kinds of runs) were too rare to keep.
    """

    counts: Mapping[int, Mapping[tuple[str, ...], int]]
    pruned: Mapping[int, int]

    def following(self, before: Sequence[str]) -> dict[str, int]:
        """Return how often each class followed the last two classes, or one, or any.

        The longest run that was kept counts: trigrams, else bigrams, else unigrams.
        """
        for n in (3, 2, 1):
            head = tuple(before[len(before) - (n - 1) :]) if n > 1 else ()
            if len(head) < n - 1:
                continue
            found = {k[-1]: c for k, c in self.counts.get(n, {}).items() if k[:-1] == head}
            if found:
                return found
        return {}

    def probabilities(self, before: Sequence[str]) -> dict[str, float]:
        """Return `following` as shares."""
        found = self.following(before)
        total = sum(found.values())
        return {k: c / total for k, c in found.items()}

    def matrix(self) -> pd.DataFrame:
        """Return shares of the next class (columns) after each class (rows); NaN: never seen."""
        kinds = [k for k in ROLES if (k,) in self.counts.get(1, {})]
        kinds += sorted({k[0] for k in self.counts.get(1, {})} - set(kinds))
        table = pd.DataFrame(0.0, index=kinds, columns=kinds)
        for (a, b), c in self.counts.get(2, {}).items():
            table.loc[a, b] = c
        return table.div(table.sum(axis=1).where(lambda s: s > 0), axis=0)


def transitions(
    looks: Sequence[TokenLooks], least: int = LEAST, repeats: bool = True
) -> Transitions:
    """Return runs of one, two and three classes of tokens, those seen `least` times or more.

    Parameters
    ----------
    looks
        Runs never go from one reading to the next.
    least
    repeats
        False: further looks at the same token right after one another count as one.
    """
    counts: dict[int, Counter[tuple[str, ...]]] = {n: Counter() for n in (1, 2, 3)}
    for r in looks:
        keep = np.ones(len(r.kind), dtype=bool)
        if not repeats:
            keep[1:] = r.token[1:] != r.token[:-1]
        kinds = r.kind[keep].tolist()
        for n, counter in counts.items():
            counter.update(zip(*(kinds[k:] for k in range(n)), strict=False))
    kept = {n: {k: c for k, c in sorted(v.items()) if c >= least} for n, v in counts.items()}
    gone = {n: sum(c for c in v.values() if c < least) for n, v in counts.items()}
    return Transitions(kept, gone)


def made_scanpath(
    kinds: Sequence[str],
    coverage: pd.DataFrame,
    follow: Transitions,
    generator: np.random.Generator,
) -> Ints:
    """Return tokens of new code in an order of looking that fits the priors.

    A share rho of the tokens is drawn from the Beta prior of all classes together, and
    ``floor(rho n)`` tokens are visited, none twice. Each step takes the class that most often
    followed the last two (else the last, else of all) and still has tokens; of equals the first
    by name. Which token of the class is not told by the priors: the next one in the code, else
    the first that is left (our choice).

    Parameters
    ----------
    kinds : sequence of str, length n
        Class of each token of the code.
    coverage
        From `coverage_prior`.
    follow
        From `transitions`.
    generator

    Returns
    -------
    ndarray of int64
        Numbers of tokens. Shorter than ``floor(rho n)`` where the classes that are left never
        occur in the transitions.
    """
    alpha = float(coverage["fixated"].sum()) + 1
    beta = float((coverage["tokens"] - coverage["fixated"]).sum()) + 1
    wanted = int(np.floor(generator.beta(alpha, beta) * len(kinds)))
    left: dict[str, list[int]] = {}
    for at, kind in enumerate(kinds):
        left.setdefault(kind, []).append(at)
    path: list[int] = []
    seen: list[str] = []
    while len(path) < wanted:
        following = _next_kind(follow, seen, left)
        if following is None:
            break
        at = int(np.searchsorted(left[following], path[-1] if path else -1))
        path.append(left[following].pop(at if at < len(left[following]) else 0))
        seen.append(following)
    return np.array(path, dtype=np.int64)


def _next_kind(follow: Transitions, seen: list[str], left: Mapping[str, list[int]]) -> str | None:
    for n in (3, 2, 1):
        head = tuple(seen[len(seen) - (n - 1) :]) if n > 1 else ()
        if len(head) < n - 1:
            continue
        found = [
            (-c, k[-1])
            for k, c in follow.counts.get(n, {}).items()
            if k[:-1] == head and left.get(k[-1])
        ]
        if found:
            return min(found)[1]
    return None


def token_weights(
    kinds: Sequence[str],
    path: Ints,
    coverage: pd.DataFrame,
    follow: Transitions,
    base: float = 1.0,
) -> Floats:
    """Return the weight of each token in a loss, ``base + 1 / log(freq(g) + 2) + E[theta]``.

    Read as: g is the longest run of classes (three, two, one) that ends with the token in the
    scanpath and was kept, freq how often it was seen, theta the coverage of the token's class.
    Tokens off the scanpath weigh `base` (our reading; sources of EyeMulator differ in the base:
    1, 3 and 4).

    Parameters
    ----------
    kinds : sequence of str, length n
    path
        From `made_scanpath`, or tokens that a person looked at.
    coverage, follow
    base

    Raises
    ------
    DataError
        The scanpath leaves the code.
    """
    out = np.full(len(kinds), float(base))
    if len(path) and (path.min() < 0 or path.max() >= len(kinds)):
        raise DataError("the scanpath leaves the code", expected=f"0 to {len(kinds) - 1}",
                        found=(int(path.min()), int(path.max())))  # fmt: skip
    order = [kinds[int(k)] for k in path]
    mean = coverage["mean"]
    for step, at in enumerate(path.tolist()):
        runs = (tuple(order[max(0, step + 1 - n) : step + 1]) for n in (3, 2, 1) if step + 1 >= n)
        seen = next((c for g in runs if (c := follow.counts[len(g)].get(g, 0))), 0)
        theta = float(mean[kinds[at]]) if kinds[at] in mean.index else 0.5
        out[at] = base + 1 / np.log(seen + 2) + theta
    return out
