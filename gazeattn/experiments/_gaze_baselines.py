"""What gaze on code would be if it knew only length, place or kind of the tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gazeattn.datamodules.code_gaze import CodeReading
from gazeattn.stimuli.code import tokenize

Floats = NDArray[np.float64]
BINS = 20
SHRINK = 50.0
"""Tokens of even gaze that a class starts with."""
WIDTHS = np.geomspace(0.05, 2.0, 30)


@dataclass(frozen=True)
class Snippet:
    """Code tokens of one stimulus.

    Attributes
    ----------
    name, item : str
    position : ndarray, shape (n,)
        0 to 1.
    letters : ndarray, shape (n,)
        Characters of each token that are not white space.
    role : ndarray of str, shape (n,)
        Of the leaf of the syntax tree that the token stands on; ``space`` off all leaves.
    line_start : ndarray, shape (n,)
        1 for the first token of a line that is not white space.
    states : ndarray, shape (n, width)
        Of the language model, and ``query`` (width,) that at the end of the prompt.
    """

    name: str
    item: str
    position: Floats
    letters: Floats
    role: NDArray[np.str_]
    line_start: Floats
    states: Floats
    query: Floats


@dataclass(frozen=True)
class Fitting:
    """All that the benchmark is about.

    Attributes
    ----------
    readings : list of CodeReading
    targets : list of ndarray
        Of each reading, over the code tokens of its stimulus.
    seen : list of ndarray of bool
        Code tokens that were looked at.
    snippets : dict of str to Snippet
    """

    readings: list[CodeReading]
    targets: list[Floats]
    seen: list[NDArray[np.bool_]]
    snippets: dict[str, Snippet]


def means_of(data: Fitting, which: NDArray[np.bool_]) -> tuple[dict[str, Floats], dict[str, int]]:
    """Return the mean target of some readings for each stimulus, and how many there are."""
    sums: dict[str, Floats] = {}
    n: dict[str, int] = {}
    for k in np.flatnonzero(which):
        name = data.readings[k].text.stimulus
        sums[name] = data.targets[k] + (sums[name] if name in sums else 0.0)
        n[name] = n.get(name, 0) + 1
    return {s: sums[s] / n[s] for s in sums}, n


def roles_of(source: str, language: str, offsets: NDArray[np.int64]) -> NDArray[np.str_]:
    """Return the role of the leaf that holds the first letter of each token."""
    leaves = tokenize(source, language)
    starts, ends = leaves["start"].to_numpy(np.int64), leaves["end"].to_numpy(np.int64)
    names = leaves["role"].to_numpy(dtype=object)
    out = []
    for a, b in offsets.tolist():
        inner = [k for k in range(a, b) if not source[k].isspace()]
        if not inner:
            out.append("space")
            continue
        at = int(np.searchsorted(starts, inner[0], "right")) - 1
        inside = at >= 0 and inner[0] < ends[at]
        out.append(str(names[at]) if inside else "other")
    return np.array(out, dtype="U16")


def line_starts(source: str, offsets: NDArray[np.int64]) -> Floats:
    """Return 1 for tokens whose first letter is the first one of its line."""
    out = np.zeros(len(offsets))
    for k, (a, b) in enumerate(offsets.tolist()):
        inner = [i for i in range(a, b) if not source[i].isspace()]
        if inner:
            line = source.rfind("\n", 0, inner[0]) + 1
            out[k] = not source[line : inner[0]].strip()
    return out


def log_shares(values: Floats) -> Floats:
    """Return the logarithm of values over their sum."""
    return np.asarray(np.log(values) - np.log(values.sum()))


Prior = Callable[[Snippet], Floats]
Targets = Mapping[str, Floats]
"""Mean target of the training readings of each stimulus, and how many there are."""


def uniform(train: Sequence[Snippet], targets: Targets, n: Mapping[str, int]) -> Prior:
    """Even gaze."""
    return lambda s: log_shares(np.ones(len(s.position)))


def length(train: Sequence[Snippet], targets: Targets, n: Mapping[str, int]) -> Prior:
    """Gaze like the letters of a token; one letter's tenth for white space."""
    return lambda s: log_shares(np.maximum(s.letters, 0.1))


def centre(train: Sequence[Snippet], targets: Targets, n: Mapping[str, int]) -> Prior:
    """A normal density around the middle, its width fitted on training readings."""

    def density(s: Snippet, width: float) -> Floats:
        return log_shares(np.exp(-0.5 * ((s.position - 0.5) / width) ** 2))

    losses = [
        sum(-n[s.name] * float(targets[s.name] @ density(s, float(w))) for s in train)
        for w in WIDTHS
    ]
    width = float(WIDTHS[int(np.argmin(losses))])
    return lambda s: density(s, width)


def position(train: Sequence[Snippet], targets: Targets, n: Mapping[str, int]) -> Prior:
    """Mean gaze of training readings at a place, smoothed over its neighbours."""
    total, count = np.zeros(BINS), np.zeros(BINS)
    for s in train:
        at = np.minimum((s.position * BINS).astype(int), BINS - 1)
        total += n[s.name] * np.bincount(at, targets[s.name] * len(at), BINS)
        count += n[s.name] * np.bincount(at, minlength=BINS)
    kernel = np.exp(-0.5 * (np.arange(-3, 4) / 1.0) ** 2)
    smooth = np.convolve(total, kernel, "same") / np.maximum(np.convolve(count, kernel, "same"), 1)
    smooth = np.maximum(smooth, 1e-3)
    places = (np.arange(BINS) + 0.5) / BINS
    return lambda s: log_shares(np.interp(s.position, places, smooth))


def token_class(train: Sequence[Snippet], targets: Targets, n: Mapping[str, int]) -> Prior:
    """Mean gaze of training readings on tokens of a role, shrunk towards even gaze."""
    total: dict[str, float] = {}
    count: dict[str, float] = {}
    for s in train:
        relative = targets[s.name] * len(s.role)
        for role in np.unique(s.role):
            here = s.role == role
            total[role] = total.get(role, 0.0) + n[s.name] * float(relative[here].sum())
            count[role] = count.get(role, 0.0) + n[s.name] * int(here.sum())
    mean = {r: (total[r] + SHRINK) / (count[r] + SHRINK) for r in total}

    def prior(s: Snippet) -> Floats:
        return log_shares(np.array([max(mean.get(str(r), 1.0), 1e-3) for r in s.role]))

    return prior


def class_and_position(train: Sequence[Snippet], targets: Targets, n: Mapping[str, int]) -> Prior:
    """Product of `token_class` and `position`."""
    one, two = token_class(train, targets, n), position(train, targets, n)
    return lambda s: log_shares(np.exp(one(s) + two(s)) * len(s.position))


BASELINES = {
    "uniform": uniform,
    "token_length": length,
    "centre_bias": centre,
    "position": position,
    "token_class": token_class,
    "class_and_position": class_and_position,
}
