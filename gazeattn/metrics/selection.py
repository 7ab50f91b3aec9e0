"""Choosing one of several candidates: hits, also among groups and within a group, and chance.

Candidates of a trial may belong to groups: two questions whose answers stand in one span, or
several about one text. Hadar et al. (2026), Decoding open-ended information seeking goals from eye
movements in reading, ICLR, report all three.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError

Floats = NDArray[np.float64]
KINDS = ("all", "group", "within")
"""All candidates; which group; which candidate of the true one's group."""

__all__ = ["KINDS", "chance", "hits", "undecided"]


def _padded(groups: Sequence[Sequence[str]], target: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the group of each candidate, (n, most), -1 in padding."""
    most = max((len(g) for g in groups), default=0)
    out = np.full((len(groups), most), -1, dtype=np.int64)
    for row, names in enumerate(groups):  # ragged texts, once per benchmark
        known = {name: k for k, name in enumerate(dict.fromkeys(names))}
        out[row, : len(names)] = [known[name] for name in names]
    if len(target) != len(groups) or ((out >= 0).sum(1) <= target).any() or (target < 0).any():
        raise DataError("the true candidate of each trial is one of its candidates")
    return out


def hits(
    scores: ArrayLike, target: ArrayLike, groups: Sequence[Sequence[str]]
) -> dict[str, Floats]:
    """Return for each trial whether the best candidate is right.

    Parameters
    ----------
    scores : array-like, shape (n, most)
        The highest is chosen. What is beyond a trial's candidates is not looked at.
    target : array-like of int, shape (n,)
        Place of the true candidate.
    groups : sequence of sequences of str
        Group of each candidate of each trial.

    Returns
    -------
    dict of ndarray, shape (n,)
        ``all``: the true candidate was chosen. ``group``: one of its group was; NaN where all are
        of one group. ``within``: the true one is the best of its group; NaN where it is alone in
        it. Equal best scores share the hit: their order decides nothing. A trial without any
        score is a tie of all its candidates; a missing score is never chosen beside others.
    """
    truth = np.asarray(target, dtype=np.int64)
    group = _padded(groups, truth)
    given = np.asarray(scores, dtype=np.float64)
    if given.shape != group.shape:
        raise DataError("one score per candidate", expected=group.shape, found=given.shape)
    there = group >= 0
    rows = np.arange(len(truth))
    same = (group == group[rows, truth][:, None]) & there
    best = _best(given, there)
    right = best[rows, truth] / best.sum(1)
    inner = _best(given, same)
    several = same.sum(1)
    return {
        "all": right,
        "group": np.where(several == there.sum(1), np.nan, (best & same).sum(1) / best.sum(1)),
        "within": np.where(several < 2, np.nan, inner[rows, truth] / inner.sum(1)),
    }


def _best(scores: Floats, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where the best scores are among some candidates; all of those without a score."""
    usable = np.where(among & ~np.isnan(scores), scores, -np.inf)
    found = among & ~np.isnan(scores) & (usable == usable.max(1, initial=-np.inf, keepdims=True))
    return np.where(found.any(1, keepdims=True), found, among)


def undecided(scores: ArrayLike, groups: Sequence[Sequence[str]]) -> int:
    """Return how many trials have no score at all: their hit is that of a guess."""
    given = np.asarray(scores, dtype=np.float64)
    there = np.arange(given.shape[1]) < np.array([len(g) for g in groups])[:, None]
    return int((~(there & ~np.isnan(given)).any(1)).sum())


def chance(target: ArrayLike, groups: Sequence[Sequence[str]]) -> dict[str, Floats]:
    """Return what a guess reaches in each trial, as `hits` counts.

    ``all`` is 1 / n and ``within`` 1 / (size of the group). ``group`` is the sum of squared shares
    of the groups, whichever candidate is the true one: 5/9 for two of three in one group.
    """
    truth = np.asarray(target, dtype=np.int64)
    group = _padded(groups, truth)
    n = (group >= 0).sum(1)
    rows = np.arange(len(truth))
    same = ((group == group[rows, truth][:, None]) & (group >= 0)).sum(1)
    sizes = np.stack([(group == k).sum(1) for k in range(group.shape[1])], axis=1)
    shares = ((sizes / n[:, None]) ** 2).sum(1)
    return {
        "all": 1 / n,
        "group": np.where(same == n, np.nan, shares),
        "within": np.where(same < 2, np.nan, 1 / same),
    }
