"""Words that people marked in a prompt against the tokens that a model attends to most.

After Kou et al. (2024), FSE, doi 10.1145/3660807: overlap of character ranges as Da San Martino et
al. (2019), EMNLP, count it, and Krippendorff's alpha over tokens (2004, Content Analysis).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SpanCounts:
    """What agreement is made of; counts of tasks add up.

    Attributes
    ----------
    precision, recall : float
        Sums of shared characters over the length of the model's, of the human range.
    n_model, n_human : int
        Chosen tokens, and human ranges (repeated ones too).
    both, human, model, neither : int
        Tokens that touch a human and a chosen range, one of them, or none.
    tasks : int
    """

    precision: float = 0.0
    recall: float = 0.0
    n_model: int = 0
    n_human: int = 0
    both: int = 0
    human: int = 0
    model: int = 0
    neither: int = 0
    tasks: int = 0

    def __add__(self, other: SpanCounts) -> SpanCounts:
        """Return the counts of both together."""
        return SpanCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def as_ranges(ranges: ArrayLike) -> Ints:
    """Return half-open ranges of characters, shape (n, 2).

    Raises
    ------
    DataError
        They are no pairs, or one ends before it begins.
    """
    found = np.asarray(ranges, dtype=np.int64).reshape(-1, 2) if np.size(ranges) else np.zeros(
        (0, 2), np.int64)  # fmt: skip
    if (found[:, 1] < found[:, 0]).any():
        bad = int((found[:, 1] < found[:, 0]).argmax())
        raise DataError("a range ends before it begins", row=bad, found=found[bad].tolist())
    return found


def shared(one: Ints, other: Ints) -> Ints:
    """Return the number of characters that ranges share, shape (len(one), len(other))."""
    first = np.maximum(one[:, None, 0], other[None, :, 0])
    last = np.minimum(one[:, None, 1], other[None, :, 1])
    return np.maximum(last - first, 0)


def touches(one: Ints, other: Ints) -> NDArray[np.bool_]:
    """Return whether ranges touch, shape (len(one), len(other)).

    They share a character, or one is empty and lies strictly inside the other (a published label
    of one letter whose end is cut).
    """
    return (one[:, None, 0] < other[None, :, 1]) & (other[None, :, 0] < one[:, None, 1])


def top_tokens(score: ArrayLike, k: int | float, placed: ArrayLike | None = None) -> Ints:
    """Return the places of the k tokens with the highest score; of equals the first in the text.

    Parameters
    ----------
    score : array-like, shape (n,)
    k
        A number of tokens; or a share of those that can be chosen, below 1, rounded up.
    placed : array-like of bool, optional
        Tokens that can be chosen; missing scores come last.

    Raises
    ------
    DataError
        k is not above 0.
    """
    values = np.nan_to_num(np.asarray(score, dtype=np.float64), nan=-np.inf)
    there = np.flatnonzero(np.ones(len(values), bool) if placed is None else np.asarray(placed))
    if not k > 0:
        raise DataError("a number of tokens", expected="above 0", found=k)
    n = int(np.ceil(k * len(there) - 1e-9)) if k < 1 else int(k)
    order = there[np.argsort(-values[there], kind="stable")]
    return np.sort(order[:n])


def span_counts(human: ArrayLike, tokens: ArrayLike, chosen: ArrayLike) -> SpanCounts:
    """Return the counts of one prompt.

    Parameters
    ----------
    human : array-like, shape (n_human, 2)
        Ranges that people marked. Repeated ones count once where characters are shared, and each
        time in `n_human`; ranges without a character share none.
    tokens : array-like, shape (n, 2)
        All tokens that have a place in the prompt.
    chosen : array-like of int
        Places of the model's tokens among them.
    """
    given, all_tokens = as_ranges(human), as_ranges(tokens)
    marked, picked = np.unique(given, axis=0), all_tokens[np.asarray(chosen, dtype=np.int64)]
    common = shared(marked, picked)
    long = np.maximum(marked[:, 1] - marked[:, 0], 1)
    wide = np.maximum(picked[:, 1] - picked[:, 0], 1)
    by_human = touches(all_tokens, marked).any(1)
    by_model = touches(all_tokens, picked).any(1)
    return SpanCounts(
        precision=float((common / wide[None, :]).sum()),
        recall=float((common / long[:, None]).sum()),
        n_model=len(picked),
        n_human=len(given),
        both=int((by_human & by_model).sum()),
        human=int((by_human & ~by_model).sum()),
        model=int((~by_human & by_model).sum()),
        neither=int((~by_human & ~by_model).sum()),
        tasks=1,
    )


def nominal_alpha(both: int, first: int, second: int, neither: int) -> float:
    """Return Krippendorff's alpha of two raters who say yes or no, nothing missing.

    ``1 - Do / De`` with ``De = 2 n0 n1 / (n (n - 1))``, n values in all. NaN where all values are
    the same.

    Parameters
    ----------
    both, first, second, neither
        Units to which both, only the first, only the second, and none of them say yes.
    """
    units = both + first + second + neither
    ones, n = 2 * both + first + second, 2 * units
    zeros = n - ones
    if not ones or not zeros:
        return float("nan")
    observed = (first + second) / units
    return 1 - observed / (2 * zeros * ones / (n * (n - 1)))


def span_scores(counts: SpanCounts) -> dict[str, float]:
    """Return ``precision, recall, f1, alpha`` and what they rest on."""
    p = counts.precision / counts.n_model if counts.n_model else float("nan")
    r = counts.recall / counts.n_human if counts.n_human else float("nan")
    f1 = 2 * p * r / (p + r) if p + r > 0 else (0.0 if p + r == 0 else float("nan"))
    alpha = nominal_alpha(counts.both, counts.human, counts.model, counts.neither)
    return {
        "precision": p, "recall": r, "f1": f1, "alpha": alpha, "n_tasks": counts.tasks,
        "n_tokens": counts.both + counts.human + counts.model + counts.neither,
        "n_model_spans": counts.n_model, "n_human_spans": counts.n_human,
    }  # fmt: skip


def locate(tokens: Sequence[str], text: str) -> Ints:
    """Return the range of each token in a text, (-1, -1) where it is not found.

    The search for a token starts where the last one that was found ended.
    """
    found = np.full((len(tokens), 2), -1, dtype=np.int64)
    at = 0
    for k, token in enumerate(tokens):
        place = text.find(token, at) if token else -1
        if place >= 0:
            at = place + len(token)
            found[k] = place, at
    return found


def chance_scores(
    human: Sequence[ArrayLike], tokens: Sequence[ArrayLike], k: int | float, draws: int = 20,
    seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Return the mean scores of tokens that are chosen by chance, as many as a model chooses."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        total = SpanCounts()
        for marked, own in zip(human, tokens, strict=True):
            total += span_counts(marked, own, top_tokens(rng.random(len(as_ranges(own))), k))
        found.append(span_scores(total))
    return {name: float(np.mean([f[name] for f in found])) for name in found[0]}
