"""The methods by name, and a vote among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.reading.drift._lines import MISSING, as_fixations, as_lines
from gazeattn.reading.drift._merging import merge, slice_
from gazeattn.reading.drift._position import attach, cluster, regress, stretch
from gazeattn.reading.drift._sequence import chain, segment, split
from gazeattn.reading.drift._warping import compare, warp
from gazeattn.reading.drift.scoring import accuracy_table

MEMBERS = ("slice", "cluster", "warp")
"""Members of the vote unless others are named; `docs/drift.md` says how they were chosen."""


@dataclass(frozen=True)
class Method:
    """A method of line assignment.

    Attributes
    ----------
    function : callable
        ``function(fixations, line_y, [word_xy,] *, right_to_left=False, ...)``.
    uses : {"position", "order", "words", "votes"}
        What it looks at: positions alone, positions and their order, or word centres as well.
    """

    function: Callable[..., np.ndarray]
    uses: Literal["position", "order", "words", "votes"]

    @property
    def needs_words(self) -> bool:
        """Whether it takes word centres."""
        return self.uses in ("words", "votes")

    def options(self) -> list[str]:
        """Return the names of its options, apart from `right_to_left`."""
        parameters = signature(self.function).parameters.values()
        named = [p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY]
        return [n for n in named if n != "right_to_left"]


def majority(lines: ArrayLike, weights: ArrayLike | None = None) -> np.ndarray:
    """Return for each fixation the line with the most votes.

    Parameters
    ----------
    lines : array_like, shape (n_members, n)
        Line numbers from 0 by member; -1 is no vote.
    weights : array_like, shape (n_members,), optional
        Positive weights of the members; default all equal.

    Returns
    -------
    ndarray, shape (n,), int64
        Of equally supported lines, the one of the member that stands first; -1 without votes.

    Raises
    ------
    DataError
        There is no member, or weights are not positive finite numbers, one per member.
    """
    ballots = np.asarray(lines, dtype=np.int64)
    if ballots.ndim != 2 or not len(ballots):
        raise DataError(
            "a vote needs the lines of its members",
            expected="shape (n_members, n), one member or more",
            found=f"shape {ballots.shape}",
        )
    power = np.ones(len(ballots)) if weights is None else np.asarray(weights, dtype=np.float64)
    if power.shape != (len(ballots),) or not (np.isfinite(power) & (power > 0)).all():
        raise DataError(
            "weights of a vote must be positive finite numbers, one per member",
            expected=f"{len(ballots)} weights",
            found=", ".join(f"{v:g}" for v in power.ravel()),
        )
    # support[i]: weight of all members that agree with member i
    support = ((ballots[:, None, :] == ballots[None, :, :]) * power[None, :, None]).sum(axis=1)
    support[ballots == MISSING] = -1.0
    highest = support.max(axis=0)
    first = (support >= highest - 1e-9 * power.sum()).argmax(axis=0)
    return ballots[first, np.arange(ballots.shape[1])]


def vote(
    fixations: ArrayLike,
    line_y: ArrayLike,
    word_xy: ArrayLike | None = None,
    *,
    members: Sequence[str] = MEMBERS,
    weights: Mapping[str, float] | Sequence[float] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    right_to_left: bool = False,
) -> np.ndarray:
    """Give each fixation to the line that most members of a vote give it to.

    Parameters
    ----------
    fixations, line_y
        See `attach`.
    word_xy : array_like, shape (n_words, 2), optional
        See `warp`; needed if a member needs it (``compare``, ``warp``).
    members
        Names of methods; where the vote is tied, the line of the earliest member wins.
    weights
        By name or in the order of members; default all equal.
    options
        Options of single members, by name.
    right_to_left
        The text runs to the left.

    Returns
    -------
    ndarray, shape (n,), int64
        See `attach`.

    Raises
    ------
    UnknownNameError
        A member, or a name in `weights` or `options`, is not known.
    DataError
        No or repeated members, unusable weights, or word centres are needed and missing.
    """
    if isinstance(members, str):
        raise DataError("members of a vote must be a list of names", found=repr(members))
    names = list(members)
    if not names or len(set(names)) < len(names):
        raise DataError(
            "a vote needs members, each named once", found=", ".join(names) or "no members"
        )
    for name in names:
        if name not in _single():
            raise UnknownNameError("member of a vote", name, _single())
    for given in (options, weights):
        if isinstance(given, Mapping):
            for name in given:
                if name not in names:
                    raise UnknownNameError("member of this vote", name, names)
    if isinstance(weights, Mapping):
        lacking = [n for n in names if n not in weights]
        if lacking:
            raise DataError("each member of a vote needs a weight", found=f"none for {lacking[0]}")
        weights = [weights[n] for n in names]
    ballots = [
        apply(n, fixations, line_y, word_xy, right_to_left, **(options or {}).get(n, {}))
        for n in names
    ]
    return majority(np.array(ballots, dtype=np.int64), weights)


METHODS: Mapping[str, Method] = {
    "attach": Method(attach, "position"),
    "chain": Method(chain, "order"),
    "cluster": Method(cluster, "position"),
    "compare": Method(compare, "words"),
    "merge": Method(merge, "order"),
    "regress": Method(regress, "position"),
    "segment": Method(segment, "order"),
    "slice": Method(slice_, "order"),
    "split": Method(split, "order"),
    "stretch": Method(stretch, "position"),
    "warp": Method(warp, "words"),
    "vote": Method(vote, "votes"),
}
"""All methods by name."""


def apply(
    name: str,
    fixations: ArrayLike,
    line_y: ArrayLike,
    word_xy: ArrayLike | None = None,
    right_to_left: bool = False,
    **options: Any,
) -> np.ndarray:
    """Run a method by its name; see `attach` for the arguments and the result.

    Raises
    ------
    UnknownNameError
        No method, or no option of it, has that name.
    DataError
        The method needs word centres and got none, or input is not of the stated form.
    """
    if name not in METHODS:
        raise UnknownNameError("drift method", name, METHODS)
    method = METHODS[name]
    for option in options:
        if option not in method.options():
            raise UnknownNameError(f"option of {name}", option, method.options())
    if not method.needs_words:
        return method.function(fixations, line_y, right_to_left=right_to_left, **options)
    if word_xy is None and name != "vote":
        as_fixations(fixations), as_lines(line_y)
        raise DataError(
            f"method {name!r} needs word centres", hint="Give word_xy, or use another method"
        )
    return method.function(fixations, line_y, word_xy, right_to_left=right_to_left, **options)


def choose_members(
    lines: Mapping[str, Sequence[np.ndarray]], gold: Sequence[np.ndarray]
) -> tuple[str, ...]:
    """Choose the members of a vote on trials whose lines are known.

    Members of a vote should err in different places, so the most accurate method of each kind is
    taken: one that uses positions alone, one that uses their order, one that uses the words.
    (Trying all combinations and taking the one whose vote is best does worse on new trials: on
    easy ones nearly all combinations look alike.)

    Parameters
    ----------
    lines
        Lines by method, one array per trial.
    gold
        Right lines of each trial, -1 where discarded.

    Returns
    -------
    tuple of str
        One method of each kind that `lines` has, the most accurate first.

    Raises
    ------
    UnknownNameError
        A method is not known.
    DataError
        There are no methods or no trials with a right line, or a method has other trials.
    """
    for name in lines:
        if name not in METHODS or METHODS[name].uses == "votes":
            raise UnknownNameError("member of a vote", name, _single())
    table = accuracy_table(lines, gold)
    score = dict(zip(table["method"], table["mean"], strict=True))
    if not score or not np.isfinite(list(score.values())).all():
        raise DataError(
            "too little to choose the members of a vote from",
            expected="one method or more, and trials with right lines",
            found=f"{len(lines)} methods, {len(gold)} trials",
        )
    best: dict[str, str] = {}
    for name in sorted(score, key=lambda n: (-score[n], n)):
        best.setdefault(METHODS[name].uses, name)
    return tuple(best.values())


def _single() -> list[str]:
    return [name for name, method in METHODS.items() if method.uses != "votes"]
