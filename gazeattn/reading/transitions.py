"""Which word follows which: the order in which a text was read."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import pandas as pd
from scipy import sparse

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.reading._scan import scan
from gazeattn.reading.areas import place

OFF_TEXT = ("skip", "break")


def transitions(
    fixations: pd.DataFrame,
    words: pd.DataFrame,
    trials: pd.DataFrame,
    include_self: bool = False,
    off_text: str = "skip",
) -> pd.DataFrame:
    """Count, per trial, how often one word was fixated right after another.

    Parameters
    ----------
    fixations, words, trials : DataFrame
        See `gazeattn.tables`.
    include_self : bool
        Count refixations (a word after itself) too.
    off_text : {"skip", "break"}
        A fixation off every word between two words is passed over (``"skip"``), or there is no
        transition across it (``"break"``).

    Returns
    -------
    DataFrame
        participant, trial, source, target (word indices from 0), count; only pairs that occur,
        sorted by trial (in the order of `trials`), source and target. A trial with fewer than two
        fixations on words has no row.

    Raises
    ------
    UnknownNameError
        No such rule.
    """
    if off_text not in OFF_TEXT:
        raise UnknownNameError("rule for fixations off text", off_text, OFF_TEXT)
    placed = place(fixations, words, trials)
    s = scan(placed)
    trial = np.searchsorted(s.trial_cell, s.cell, side="right") - 1
    source, target = s.cell[:-1], s.cell[1:]
    use = trial[1:] == trial[:-1]
    if off_text == "break":
        use &= s.adjacent[1:]
    if not include_self:
        use &= source != target
    rows = np.flatnonzero(use)
    order = np.lexsort((target[rows], source[rows]))  # cells are numbered trial by trial
    rows = rows[order]
    source, target, trial = source[rows], target[rows], trial[1:][rows]
    new = np.r_[True, (np.diff(source) != 0) | (np.diff(target) != 0)][: len(rows)]
    start = np.flatnonzero(new)
    trial = trial[start]
    offset = s.trial_cell[trial]
    return pd.DataFrame(
        {
            "participant": placed.trials["participant"].array.take(trial),
            "trial": placed.trials["trial"].array.take(trial),
            "source": source[start] - offset,
            "target": target[start] - offset,
            "count": np.diff(np.append(start, len(rows))),
        }
    )


@overload
def transition_matrix(
    frame: pd.DataFrame, n_words: int, *, layout: Literal["dense"] = "dense"
) -> np.ndarray: ...
@overload
def transition_matrix(
    frame: pd.DataFrame, n_words: int, *, layout: Literal["sparse"]
) -> sparse.csr_array: ...
def transition_matrix(
    frame: pd.DataFrame, n_words: int, *, layout: Literal["dense", "sparse"] = "dense"
) -> np.ndarray | sparse.csr_array:
    """Sum a table of transitions to a matrix of counts.

    Parameters
    ----------
    frame : DataFrame
        Rows of `transitions`, of one trial or of several trials of one layout.
    n_words : int
        Number of words of the layout.
    layout : {"dense", "sparse"}

    Returns
    -------
    ndarray or csr_array, shape (n_words, n_words), int64
        Row: the word that was left; column: the word that was fixated next.

    Raises
    ------
    DataError
        A word index is not below `n_words`.
    UnknownNameError
        No such form of the matrix.
    """
    if layout not in ("dense", "sparse"):
        raise UnknownNameError("form of the matrix", layout, ("dense", "sparse"))
    source = frame["source"].to_numpy(dtype=np.int64)
    target = frame["target"].to_numpy(dtype=np.int64)
    count = frame["count"].to_numpy(dtype=np.int64)
    bad = (source < 0) | (target < 0) | (source >= n_words) | (target >= n_words)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            "a transition names a word that the layout does not have",
            source="transitions",
            row=row,
            expected=f"word indices from 0 to {n_words - 1}",
            found=f"{source[row]} to {target[row]}",
        )
    matrix = sparse.coo_array((count, (source, target)), shape=(n_words, n_words))
    return matrix.toarray() if layout == "dense" else matrix.tocsr()
