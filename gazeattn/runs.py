"""Columns of ids whose equal rows are neighbours: one look at each run instead of at each row."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Runs:
    """The stretches of equal neighbours in a column.

    Attributes
    ----------
    starts, sizes : ndarray, shape (n_runs,), int64
        First row and number of rows of each run.
    codes : ndarray, shape (n_runs,), int64
        Number of each run's value in order of appearance, -1 where it is missing.
    uniques : Index
        The distinct values.
    """

    starts: np.ndarray
    sizes: np.ndarray
    codes: np.ndarray
    uniques: pd.Index

    def spread(self, per_run: np.ndarray) -> np.ndarray:
        """Return a column of rows from one value per run."""
        return np.repeat(per_run, self.sizes)

    def codes_at(self, rows: np.ndarray) -> np.ndarray:
        """Return the number of the value that stands in each of `rows`."""
        return self.codes[np.searchsorted(self.starts, rows, side="right") - 1]

    def first_rows(self) -> np.ndarray:
        """Return the first row of each distinct value, in order of appearance."""
        first = np.zeros(len(self.uniques) + 1, dtype=np.int64)  # code -1 takes the last: missing
        first[self.codes[::-1]] = self.starts[::-1]  # the last write wins, which is the first run
        return first[:-1]


_known: dict[int, tuple[weakref.ref[object], Runs]] = {}
"""Runs of Arrow arrays that are in use, by the id of the array.

Arrow arrays never change, and pandas shares them between copies of a table, so each id column of
a table is looked through once. Only columns with few runs are kept, and only while they live.
"""

_ROWS_PER_RUN = 8  # columns with shorter runs cost too much memory to be kept


def runs_of(values: pd.Series) -> Runs:
    """Find the runs of a column of text; missing values are runs of one row."""
    array = values.array
    in_arrow = getattr(values.dtype, "storage", None) == "pyarrow"
    shared = array.__arrow_array__() if in_arrow else None
    if shared is not None:
        known = _known.get(id(shared))
        if known is not None and known[0]() is shared:
            return known[1]
    n = len(array)
    new = np.ones(n, dtype=bool)
    if n > 1:
        new[1:] = array[1:] != array[:-1]
    starts = np.flatnonzero(new)
    codes, uniques = pd.factorize(pd.Series(array[new]))
    runs = Runs(starts, np.diff(np.r_[starts, n]), codes, pd.Index(uniques))
    if shared is not None and len(starts) * _ROWS_PER_RUN <= n:
        key = id(shared)
        for part in (runs.starts, runs.sizes, runs.codes):
            part.flags.writeable = False
        _known[key] = (weakref.ref(shared, lambda _: _known.pop(key, None)), runs)
    return runs


def factorize_runs(values: pd.Series, sort: bool = False) -> tuple[np.ndarray, pd.Index]:
    """Number the distinct values like `pandas.factorize`, quickly where equal rows are neighbours.

    Parameters
    ----------
    values : Series of text
    sort : bool
        Number in sorted order instead of order of appearance.

    Returns
    -------
    codes : ndarray, shape (n_rows,), int64
        Number of each row's value, -1 where it is missing.
    uniques : Index
    """
    runs = runs_of(values)
    codes, uniques = runs.codes, runs.uniques
    if sort:
        place, uniques = pd.factorize(uniques, sort=True)
        codes = np.append(place, -1)[codes]
    return runs.spread(codes), pd.Index(uniques)
