"""Screens of one text, read one after the other, as one reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from gazeattn.datasets import GazeDataset
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog


def join_screens(
    dataset: GazeDataset,
    by: Sequence[str],
    order: str = "trial_index",
    lost: LossLog | None = None,
) -> GazeDataset:
    """Return the data set with all trials of a group as one trial.

    Parameters
    ----------
    dataset
    by
        Columns of the trial table that name a reading, such as participant and book. Together
        they are its id.
    order
        Column of the trial table by which its screens follow each other.
    lost
        Receives what is counted where fixations are put on words here.

    Returns
    -------
    GazeDataset
        Words of the screens stand one after the other, lines counted on; fixations carry
        ``page``, the screen they were on, so that nothing is measured from one screen to the
        next. Facts of a trial are those of its first screen; a fact that differs between the
        screens of a reading is left out of the table.

    Raises
    ------
    UnknownNameError
        A column is not there.
    DataError
        The participant is not among the columns, or differs inside a group.
    """
    trials = dataset.trials
    for column in (*by, order):
        if column not in trials:
            raise UnknownNameError("column of the trials", column, list(map(str, trials.columns)))
    if "participant" not in by:
        raise DataError(
            "screens are joined reader by reader", expected="participant in the columns"
        )
    trials = trials.sort_values(["participant", order], kind="stable")
    key = trials[list(by)].astype("str").agg("_".join, axis=1)
    joined = trials.groupby(key, sort=False)
    for column in by:
        mixed = joined[column].nunique(dropna=False) > 1
        if mixed.any():
            raise DataError(
                f"two readings have the same id: {column} differs inside it",
                source=dataset.name,
                found=repr(str(mixed.index[mixed][0])),
                hint="Rename readers or texts whose names hold a '_'",
            )
    layouts = joined["layout"].agg("+".join)
    screens = dict(zip(layouts, joined["layout"].agg(tuple), strict=True))
    facts = [str(c) for c in trials if c != "trial"]
    same = [c for c in facts if (joined[c].nunique(dropna=False) <= 1).all()]
    heads = trials.groupby(key, sort=False)[["participant", *[c for c in same if c not in by]]]
    table = heads.first().join(joined[[c for c in by if c != "participant"]].first())
    table = table.assign(trial=table.index, layout=layouts, stimulus=layouts)
    table["screens"] = joined.size()

    screen = dict(zip(trials["trial"], key, strict=True))
    fixations = dataset.fixations.assign(page=dataset.fixations["trial"])
    place = pd.Series(np.arange(len(trials)), index=trials["trial"])
    fixations["trial"] = fixations["page"].map(screen)
    rank = fixations["page"].map(place)
    fixations = fixations.iloc[np.lexsort((fixations["index"], rank))]
    fixations = fixations[fixations["trial"].notna()].copy()
    fixations["index"] = fixations.groupby("trial", sort=False).cumcount()
    fixations["stimulus"] = fixations["trial"].map(table["stimulus"])
    layout_of = dict(zip(trials["trial"], trials["layout"], strict=True))
    if "word" in fixations:
        known = fixations["word"].notna()
        name = (
            fixations["page"].map(layout_of).astype("str") + ":" + fixations["word"].astype("str")
        )
        fixations["word"] = name.where(known)
    words = _words(dataset.words, screens)
    if "word" not in fixations or not fixations["word"].notna().any():
        fixations = _placed(fixations, dataset, layout_of, lost)
    return replace(
        dataset,
        fixations=fixations.reset_index(drop=True),
        words=words,
        trials=table.reset_index(drop=True),
        stimuli={},
    )


def _words(words: pd.DataFrame, joined: dict[str, tuple[str, ...]]) -> pd.DataFrame:
    """Return the words of joined layouts, numbered and their lines counted through."""
    of = dict(list(words.groupby("layout", sort=False)))
    parts = []
    for layout, screens in joined.items():
        number, line = 0, 0.0
        for screen in screens:
            if screen not in of:
                continue
            rows = of[screen].copy()
            rows["word"] = screen + ":" + rows["word"].astype("str")
            rows["index"] = np.arange(number, number + len(rows))
            if "line" in rows:
                lines = rows["line"].to_numpy(dtype=np.float64, na_value=np.nan)
                rows["line"] = lines + line
                line += np.nanmax(lines, initial=-1.0) + 1
            rows["layout"] = rows["stimulus"] = layout
            number += len(rows)
            parts.append(rows)
    return pd.concat(parts, ignore_index=True) if parts else words.iloc[:0]


def _placed(
    fixations: pd.DataFrame,
    dataset: GazeDataset,
    layout_of: dict[str, str],
    lost: LossLog | None,
) -> pd.DataFrame:
    """Put fixations on the words of their own screen, whose boxes overlap those of others."""
    from gazeattn.reading.areas import map_to_words

    own = fixations.assign(trial=fixations["page"], at=np.arange(len(fixations)))
    own = own.drop(columns=["word"], errors="ignore").sort_values(["trial", "index"], kind="stable")
    own["index"] = own.groupby("trial", sort=False).cumcount()
    found, counted = map_to_words(own.drop(columns="at"), dataset.words, dataset.trials)
    if lost is not None:
        lost.extend(counted)
    name = found["trial"].map(layout_of).astype("str") + ":" + found["word"].astype("str")
    values = name.where(found["word"].notna()).to_numpy(dtype=object)
    out = np.empty(len(fixations), dtype=object)
    out[own["at"].to_numpy()] = values
    return fixations.assign(word=pd.array(out, dtype="str"))
