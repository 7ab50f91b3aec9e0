"""Trials of Data Viewer reports: those that are there, and recordings that share a trial id."""

from __future__ import annotations

import numpy as np
import pandas as pd

from gazeattn.losses import LossLog
from gazeattn.readers._dv_columns import Kind
from gazeattn.runs import runs_of

NUMBER_OF = {"fixations": "CURRENT_FIX_INDEX", "saccades": "CURRENT_SAC_INDEX", "areas": "area"}
"""Column that numbers the rows of a trial."""


def _keys(table: pd.DataFrame) -> list[str]:
    return [c for c in ("participant", "trial", "session") if c in table]


def blocks(table: pd.DataFrame, lost: LossLog, kind: Kind) -> pd.DataFrame:
    """Keep recordings of one trial id apart: numbers that come again begin a new ``block``."""
    number = NUMBER_OF.get(kind.table, "")
    if not {number, "participant", "trial"} <= set(table):
        return table
    keys = [*_keys(table), *(c for c in ("eye", "EYE_USED", "EYE_TRACKED") if c in table)]
    starts = [runs_of(table[c]).starts for c in keys]
    begins = np.unique(np.concatenate(starts))
    inside = np.ones(len(table), bool)
    inside[begins] = False
    codes, ids = pd.factorize(table[number])  # texts repeat: each is made a number once
    as_numbers = pd.to_numeric(pd.Series(ids), errors="coerce").to_numpy(dtype="float64")
    values = np.append(as_numbers, np.nan)[codes]
    if not np.isnan(values).all():
        # Rising numbers and no trial that comes back: nothing can stand twice.
        rising = (np.diff(values, prepend=-np.inf) > 0) | ~inside
        if rising.all() and not table.iloc[begins].duplicated(keys).any():
            return table
    known = table[number].notna() & table["trial"].notna()
    block = table[known].groupby([*keys, number], sort=False, dropna=False).cumcount()
    if not block.any():
        return table
    twice = table.loc[block.index[block > 0], "trial"]
    lost.add(
        kind.table,
        "note",
        f"{number} comes again in a trial: a further recording of it, called the next block",
        len(twice),
        examples=twice.unique(),
    )
    whole = pd.Series(0, index=table.index, dtype="Int64")
    whole[block.index] = block
    table.insert(2, "block", whole)  # after participant and trial
    return table


def trials_of(table: pd.DataFrame, lost: LossLog, kind: Kind) -> pd.DataFrame | None:
    """Return the trials in order of appearance; note those whose rows stand apart."""
    for name in ("participant", "trial"):
        count = int(table[name].isna().sum()) if name in table else len(table)
        lost.add(kind.table, "undefined", f"no {name}", count)
    keys = _keys(table)
    if not {"participant", "trial"} <= set(keys):
        return None
    keys += ["block"] if "block" in table else []
    eye = [c for c in ("eye",) if c in table]
    changes = [runs_of(table[c]).starts for c in (*keys, *eye) if c != "block"]
    if "block" in table:
        block = table["block"].to_numpy()
        changes.append(np.flatnonzero(np.r_[True, block[1:] != block[:-1]]))
    shown = table.iloc[np.unique(np.concatenate(changes))]
    shown = shown[shown["trial"].notna() & shown["participant"].notna()]
    apart = shown[shown.duplicated([*keys, *eye])]
    lost.add(
        kind.table,
        "note",
        "rows of a trial stand apart, with another trial between them",
        len(apart),
        "times",
        apart["trial"].unique(),
    )
    return shown.drop_duplicates(keys)[keys].reset_index(drop=True)
