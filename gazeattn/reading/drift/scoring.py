"""How many fixations got the right line?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from gazeattn.errors import DataError, UnknownNameError

Discarded = Literal["left_out", "counted"]


def line_accuracy(lines: ArrayLike, gold: ArrayLike, *, discarded: Discarded = "left_out") -> float:
    """Return the share of fixations whose line is the right one.

    Parameters
    ----------
    lines : array_like, shape (n,)
        Line numbers from 0; negative or missing is no line.
    gold : array_like, shape (n,)
        Right line numbers; negative or missing for fixations that belong to no line (discarded by
        the person who set the lines).
    discarded : {"left_out", "counted"}
        ``left_out``: only fixations with a right line count. ``counted``: all count, and one that
        belongs to no line is right if it got no line (Carr et al. 2022).

    Returns
    -------
    float
        Between 0 and 1; NaN where no fixation counts.

    Raises
    ------
    DataError
        The two have different lengths.
    UnknownNameError
        `discarded` is neither of the two.
    """
    if discarded not in ("left_out", "counted"):
        raise UnknownNameError("way of counting discarded fixations", discarded, WAYS)
    given, right = _numbers(lines), _numbers(gold)
    if given.shape != right.shape:
        raise DataError(
            "lines and right lines must be as many",
            expected=f"{len(right)} lines",
            found=f"{len(given)}",
        )
    same = given == right
    if discarded == "left_out":
        same = same[right >= 0]
    return float(same.mean()) if len(same) else float("nan")


WAYS = ("left_out", "counted")


def _numbers(lines: ArrayLike) -> np.ndarray:
    values = pd.to_numeric(pd.Series(np.asarray(lines).ravel()), errors="raise")
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(numbers >= 0, numbers, -1.0)  # NaN and negative alike: no line


def accuracy_table(
    lines: Mapping[str, Sequence[ArrayLike]],
    gold: Sequence[ArrayLike],
    groups: Sequence[str] | None = None,
    *,
    discarded: Discarded = "left_out",
) -> pd.DataFrame:
    """Return the accuracy of methods over trials, in percent.

    Parameters
    ----------
    lines
        Lines by method, one array per trial.
    gold
        Right lines of each trial.
    groups
        Group of each trial; default one group, ``all``.
    discarded
        See `line_accuracy`.

    Returns
    -------
    DataFrame
        ``method, group, n_trials, median, mean``; trials in which no fixation counts are not in
        `n_trials`.

    Raises
    ------
    DataError
        A method or `groups` has another number of trials.
    """
    named = list(groups) if groups is not None else ["all"] * len(gold)
    for what, n in [("groups", len(named)), *((k, len(v)) for k, v in lines.items())]:
        if n != len(gold):
            raise DataError(
                "every trial needs its lines", source=what, expected=f"{len(gold)} trials", found=n
            )
    rows = [
        {"method": name, "group": group, "share": 100 * line_accuracy(a, g, discarded=discarded)}
        for name, each in lines.items()
        for a, g, group in zip(each, gold, named, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["method", "group", "share"])
    by = frame.groupby(["method", "group"], sort=False)["share"]
    return by.agg(n_trials="count", median="median", mean="mean").reset_index()
