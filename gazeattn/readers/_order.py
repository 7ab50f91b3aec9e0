"""Order of rows in time: recording blocks, clocks that step back or begin anew, trials."""

from __future__ import annotations

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.readers._units import option

STEPS_OF_RESET = 10.0
"""A clock that goes back by more than this many usual intervals, and stays back, began anew."""


def block_starts(time: np.ndarray, forced: np.ndarray, patience: float) -> np.ndarray:
    """Return where recording blocks begin: at forced rows, and where the clock began anew.

    A step back is a new beginning when the clock goes back by more than `patience` usual
    intervals, or to the beginning of its block or before it, and the next row stays back too.
    Smaller steps, and single rows out of place, are not.

    Parameters
    ----------
    time : ndarray, shape (n,)
        Without missing values, in file order.
    forced : ndarray of bool, shape (n,)
        True where a block begins anyhow.
    """
    starts = forced.copy()
    if not len(time):
        return starts
    starts[0] = True
    step = np.diff(time, prepend=time[0])
    usual = step[(step > 0) & ~starts]
    interval = float(np.median(usual)) if len(usual) else 0.0
    limit = patience * interval if interval else 1000.0
    begin = highest = time[0]
    for row in np.flatnonzero((step < 0) | starts):  # few rows, whatever the length
        if starts[row]:
            begin = highest = time[row]
            continue
        highest = max(highest, time[row - 1])
        drop = highest - time[row]
        last = row + 1 >= len(time) or starts[row + 1]
        stays = last or time[row + 1] < highest
        anew = drop > limit or (time[row] <= begin and drop > interval > 0 and not last)
        if stays and anew:
            starts[row] = True
            begin = highest = time[row]
    return starts


def time_order(
    time: np.ndarray,
    forced: np.ndarray,
    lost: LossLog,
    *,
    step: str,
    source: object,
    strict: bool = False,
    patience: float = STEPS_OF_RESET,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of the rows by block and time (equal times as in the file), and blocks.

    Raises
    ------
    DataError
        With `strict`, where a time stamp steps back or the clock begins anew.
    """
    starts = block_starts(time, forced, patience)
    block = np.cumsum(starts) - 1
    resets = np.flatnonzero(starts & ~forced & (np.arange(len(time)) > 0))
    order = np.lexsort((time, block))
    moved = np.flatnonzero(order != np.arange(len(time)))
    if strict and (len(moved) or len(resets)):
        back = np.flatnonzero((np.diff(time) < 0) & ~forced[1:])
        at = int(back[0]) + 1 if len(back) else int(resets[0])
        raise DataError(
            f"a time stamp of the {step} steps back ({len(back)} do)",
            source=source,
            row=f"{at + 1} of the {step}",
            expected=f"at least {time[at - 1]:.15g} ms",
            found=f"{time[at]:.15g} ms",
            hint=f"{option('strict', False)} sorts rows inside a block and counts them",
        )
    lost.add(
        step,
        "repaired",
        "time stamps step back: rows sorted by time inside their block",
        len(moved),
        examples=[f"{t:.15g} ms" for t in time[moved[:3]]],
    )
    lost.add(
        step,
        "note",
        "the clock begins anew: kept in file order, as a new block",
        len(resets),
        "blocks",
        [f"{time[r - 1]:.15g} to {time[r]:.15g} ms" for r in resets[:3]],
    )
    return order, block[order]


def changes(*columns: pd.Series | np.ndarray | None) -> np.ndarray:
    """Return where a row differs from the one before in any column (missing equals missing)."""
    result: np.ndarray | None = None
    for column in columns:
        if column is None:
            continue
        codes = pd.factorize(column)[0]
        new = np.append(False, codes[1:] != codes[:-1])[: len(codes)]
        result = new if result is None else result | new
    if result is None:
        raise ValueError("changes() needs a column")
    return result


def trials_of(
    names: pd.Series, block: np.ndarray, participant: pd.Series, time: np.ndarray, lost: LossLog
) -> tuple[pd.Series, pd.DataFrame | None]:
    """Return the trial of each row and the table of trials, from what was shown.

    A trial is a run of rows of one block with the same name. A name that comes back gets a
    number ("page (2)"), and stands after the participant ("P01/page") where there are several.

    Parameters
    ----------
    names, block, participant, time
        Per row, in time order inside each block.
    """
    new = changes(names, block, participant)
    if len(new):
        new[0] = True
    first = np.flatnonzero(new & names.notna().to_numpy())
    if not len(first):
        return pd.Series(np.nan, index=names.index, dtype="str"), None
    run = np.cumsum(new) - 1
    ends = np.append(np.flatnonzero(new)[1:], len(new)) - 1
    last = ends[run[first]]
    who, shown = participant.iloc[first], names.iloc[first].reset_index(drop=True)
    label = shown.astype(object)
    if participant.nunique() > 1:
        label = who.fillna("").reset_index(drop=True).astype(object) + "/" + label
    nth = label.groupby(label).cumcount()
    again = int((nth > 0).sum())
    label = label.where(nth == 0, label + " (" + (nth + 1).astype(str) + ")")
    while label.duplicated().any():  # a name that itself ends in " (2)"
        label = label.where(~label.duplicated(), label + "'")
    lost.add("trials", "note", "the same name again: a trial of its own", again, "trials")
    per_run = pd.Series(np.nan, index=range(int(run[-1]) + 1), dtype=object)
    per_run.loc[run[first]] = label.to_numpy()
    trial = pd.Series(per_run.to_numpy()[run], index=names.index).astype("str")
    table = pd.DataFrame(
        {
            "participant": who.to_numpy(),
            "trial": label.astype("str"),
            "block": block[first],
            "start": time[first],
            "end": time[last],
            "stimulus": shown.astype("str"),
        }
    )
    table["participant"] = table["participant"].astype("str")
    return trial, table


def trial_at(time: np.ndarray, block: np.ndarray, trials: pd.DataFrame | None) -> pd.Series:
    """Return the trial at each time of a block, missing outside every trial."""
    result = np.full(len(time), np.nan, dtype=object)
    if trials is not None:
        for number, part in trials.groupby("block", sort=False):
            part = part.sort_values("start", kind="stable")
            rows = np.flatnonzero(block == number)
            at = np.searchsorted(part["start"].to_numpy(), time[rows], side="right") - 1
            inside = (at >= 0) & (time[rows] <= part["end"].to_numpy()[np.maximum(at, 0)])
            result[rows[inside]] = part["trial"].to_numpy(dtype=object)[at[inside]]
    return pd.Series(result).astype("str")


def rate_of(time: np.ndarray, block: np.ndarray) -> float | None:
    """Return the sampling rate in Hz by the median interval inside blocks, None without one."""
    step = np.diff(time)[np.diff(block) == 0]
    step = step[step > 0]
    return round(1000.0 / float(np.median(step)), 3) if len(step) else None


def arrange(
    table: pd.DataFrame,
    forced: np.ndarray,
    lost: LossLog,
    *,
    source: object,
    step: str = "samples",
    strict: bool = False,
    clock: str = "time",
    patience: float = STEPS_OF_RESET,
    lane: pd.Series | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame | None, np.ndarray]:
    """Put rows in order of time inside their blocks, and find the trials.

    Parameters
    ----------
    table
        With `clock`, ``participant`` and ``stimulus``.
    forced
        Where a block begins anyhow.
    patience
        Steps of a reset, see `block_starts`; events, which do not overlap, have less.
    lane
        Rows that are in order of time among themselves only (events of each eye and kind).

    Returns
    -------
    table : DataFrame
        With ``block`` and ``trial``.
    trials : DataFrame or None
    order : ndarray
        Row of the input for each row of the output.
    """
    if lane is None:
        order, block = time_order(
            table[clock].to_numpy(),
            forced,
            lost,
            step=step,
            source=source,
            strict=strict,
            patience=patience,
        )
    else:
        order, block = _lanes_order(table, forced, lost, lane, clock, step, source, strict)
    table = table.iloc[order].reset_index(drop=True)
    table["block"] = block
    times = table[clock].to_numpy()
    table["trial"], trials = trials_of(table["stimulus"], block, table["participant"], times, lost)
    if trials is not None and clock == "onset":
        run = table["trial"].map(dict(zip(trials["trial"], range(len(trials)), strict=True)))
        ends = (table["onset"] + table["duration"].fillna(0.0)).groupby(run).max()
        trials["end"] = ends.reindex(range(len(trials))).to_numpy(dtype=float)
    first = ["participant", "trial", "block"]
    return table[[*first, *(c for c in table if c not in first)]], trials, order


def _lanes_order(
    table: pd.DataFrame,
    forced: np.ndarray,
    lost: LossLog,
    lane: pd.Series,
    clock: str,
    step: str,
    source: object,
    strict: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return order and blocks where each lane has its own steps back; see `arrange`.

    `forced` says here that the key of the block (participant, trial) changes; the same key in
    two lanes is the same block.
    """
    keys: pd.Series = table["participant"].fillna("").astype(object)
    if forced.any():
        keys = keys + "\0" + table["stimulus"].fillna("").astype(object)
    for rows in table["eye"].fillna("").groupby(table["eye"].fillna("")).indices.values():
        own = keys.to_numpy(dtype=object)[rows]
        new = changes(own)
        new[0] = True
        runs = pd.Series(own[new])
        nth = runs.groupby(runs).cumcount().astype(str).to_numpy(dtype=object)
        keys.iloc[rows] = own + "\0" + nth[np.cumsum(new) - 1]  # the key comes back: another
    names = np.full(len(table), "", dtype=object)
    place = np.arange(len(table))
    for _, rows in lane.fillna("").groupby(lane.fillna(""), sort=False).indices.items():
        own = keys.to_numpy(dtype=object)[rows]
        new = changes(own)
        times = table[clock].to_numpy()[rows]
        order, block = time_order(
            times, new, lost, step=step, source=source, strict=strict, patience=1.0
        )
        part = pd.Series(block).groupby(own[order]).transform(lambda b: pd.factorize(b)[0])
        names[rows[order]] = own[order] + "\0" + part.astype(str).to_numpy(dtype=object)
        place[rows[order]] = rows
    first = pd.Series(np.arange(len(table))).groupby(names).transform("min").to_numpy()
    block = pd.factorize(first, sort=True)[0]
    order = np.lexsort((place, table[clock].to_numpy(), block))
    return order, block[order]
