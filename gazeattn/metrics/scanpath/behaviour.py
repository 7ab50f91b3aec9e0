"""How people and models behave over a display of objects: success, length, visits and returns."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

from gazeattn.errors import DataError
from gazeattn.metrics._options import flag, items, one_of, wrong
from gazeattn.metrics.scanpath._packed import Floats
from gazeattn.registry import register_metric

__all__ = ["Behaviour", "BehaviourDifference", "behaviour_difference", "search_behaviour"]

CONVENTIONS = ("means", "distributions")


@dataclass(frozen=True)
class Behaviour:
    """Five measures per trial, each (n_trials,); NaN where a trial has no fixation.

    Attributes
    ----------
    success : ndarray
        1 where the last object is the target, else 0; NaN without a target.
    length : ndarray
        Fixations.
    first_visits, refixations, revisits : ndarray
        Shares of the fixations: on an object for the first time; on the same object as the
        fixation before; on an object that had been left. They add up to 1.
    """

    success: Floats
    length: Floats
    first_visits: Floats
    refixations: Floats
    revisits: Floats


@dataclass(frozen=True)
class BehaviourDifference:
    """The difference of two groups of trials, with its five parts.

    Attributes
    ----------
    value : float
        Mean of the parts; NaN where a part is undefined (and `skip_undefined` was not asked for).
    parts : dict of str to float
    reasons : dict of str to str
        Why a part is undefined.
    convention : str
    """

    value: float
    parts: dict[str, float]
    reasons: dict[str, str]
    convention: str


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def search_behaviour(
    sequences: Sequence[Sequence[Hashable]], targets: Sequence[Hashable | None]
) -> Behaviour:
    """Return the five measures of Fang et al. for each trial.

    Parameters
    ----------
    sequences : sequence of sequences
        Ids of the objects looked at, in order, one sequence per trial; no end or padding symbol,
        and no id for "the target" besides the id of that object.
    targets : sequence
        Id of the target of each trial; None where the display holds none.

    Raises
    ------
    DataError
        A missing id in a sequence, or another number of targets than sequences.

    References
    ----------
    Fang, Yu, Zhang, van der Lans & Shi 2024, OAT: Object-level attention transformer for gaze
    scanpath prediction, ECCV, arXiv:2407.13335.
    """
    ids = "the ids of the objects looked at"
    sequences = [
        items(f"sequences, trial {row}", one, ids)
        for row, one in enumerate(items("sequences", sequences, "one sequence of ids per trial"))
    ]
    targets = items("targets", targets, "one id per trial")
    if len(sequences) != len(targets):
        raise DataError(
            "sequences and targets differ in number",
            expected=f"{len(sequences)} targets",
            found=str(len(targets)),
        )
    length = np.array([len(s) for s in sequences], dtype=np.int64)
    flat = list(chain.from_iterable(sequences))
    codes = {item: code for code, item in enumerate(dict.fromkeys(flat))}
    if any(map(_is_missing, codes)):
        row = next(t for t, s in enumerate(sequences) if any(map(_is_missing, s)))
        raise DataError(
            "a sequence holds a fixation without an object",
            row=row,
            expected="the id of an object for every fixation",
            found=str(list(sequences[row])[:10]),
            hint="Leave such fixations out first, and count them",
        )
    looked = np.fromiter(map(codes.__getitem__, flat), dtype=np.int64, count=len(flat))
    absent = np.array([_is_missing(t) for t in targets], dtype=bool)
    wanted = np.array([codes.get(t, -1) for t in targets], dtype=np.int64)
    as_text = {isinstance(item, str) for item in codes}
    if (
        as_text
        and not as_text & {isinstance(t, str) for t in targets if not _is_missing(t)}
        and (not absent.all())
    ):
        raise DataError(
            "objects and targets are named in different ways, so none could ever match",
            expected="both as text or both as numbers",
            found=f"object {flat[0]!r}, target {next(t for t in targets if t is not None)!r}",
        )
    return _measures(looked, length, wanted, absent, len(codes))


def _measures(
    looked: NDArray[np.int64],
    length: NDArray[np.int64],
    wanted: NDArray[np.int64],
    absent: NDArray[np.bool_],
    objects: int,
) -> Behaviour:
    n = len(length)
    trial = np.repeat(np.arange(n), length)
    first = np.zeros(len(looked), dtype=bool)
    first[np.unique(trial * max(objects, 1) + looked, return_index=True)[1]] = True
    again = np.zeros(len(looked), dtype=bool)
    again[1:] = (looked[1:] == looked[:-1]) & (trial[1:] == trial[:-1])
    known = np.where(length > 0, length, np.nan)
    shares = [
        np.bincount(trial, weights=kind, minlength=n) / known
        for kind in (first, again, ~first & ~again)
    ]
    last = np.full(n, -2, dtype=np.int64)
    last[length > 0] = looked[np.cumsum(length)[length > 0] - 1]
    success = np.where((length > 0) & ~absent, last == wanted, np.nan)
    return Behaviour(success, known, *shares)


@register_metric(
    "behaviour_difference",
    task="search",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=False,
    description="relative difference in success, length, first visits, refixations and revisits",
    formula="(1/5) sum_m |model_m - human_m| / human_m; distributions: W1(model, human) / human_m",
    citation="Fang, Yu, Zhang, van der Lans & Shi 2024, ECCV, arXiv:2407.13335",
    convention="means",
    conventions=CONVENTIONS,
)
def behaviour_difference(
    model: Behaviour,
    human: Behaviour,
    *,
    convention: str = "means",
    skip_undefined: bool = False,
) -> BehaviourDifference:
    """Return the behaviour metric of Fang et al.: the mean relative difference of five measures.

    Parameters
    ----------
    model, human : Behaviour
        From `search_behaviour`. Trials that lack a measure are left out of that measure.
    convention : {"means", "distributions"}
        "means" compares means over trials, as published: opposite errors on two trials cancel.
        "distributions" puts the Wasserstein-1 distance of the two distributions over trials in
        place of the difference of their means. It is never smaller, and equals it when one
        distribution is the other one shifted.
    skip_undefined : bool
        Average over the parts that are defined. By default one undefined part (a human mean of
        0, or no trials) makes the value NaN.
    """
    one_of("convention", convention, CONVENTIONS)
    skip_undefined = flag("skip_undefined", skip_undefined)
    for name, given in (("model", model), ("human", human)):
        if not isinstance(given, Behaviour):
            raise wrong(name, "what search_behaviour returns", given)
    parts: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for measure in (f.name for f in fields(Behaviour)):
        ours, theirs = (np.asarray(getattr(of, measure)) for of in (model, human))
        ours, theirs = ours[~np.isnan(ours)], theirs[~np.isnan(theirs)]
        parts[measure] = float("nan")
        if len(ours) == 0 or len(theirs) == 0:
            side = "model" if len(ours) == 0 else "human"
            reasons[measure] = f"no {side} trial has a value"
        elif theirs.mean() == 0:
            reasons[measure] = "the human mean is 0"
        else:
            gap = (
                abs(ours.mean() - theirs.mean())
                if convention == "means"
                else wasserstein_distance(ours, theirs)
            )
            parts[measure] = float(gap / theirs.mean())
    values = [v for v in parts.values() if not (skip_undefined and np.isnan(v))]
    value = float(np.mean(values)) if values else float("nan")
    return BehaviourDifference(value, parts, reasons, convention)
