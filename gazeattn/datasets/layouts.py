"""Drawings of a text: which trials share one, and which line a word stands on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd


def number_layouts(words: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Return the layout of each trial, from a table with one row per trial and word.

    Trials of a stimulus whose rows agree in all `columns` (word ids, texts, boxes) share a
    layout. The one that most trials show (of equals, that of the first trial id) is called like
    the stimulus; a further one gets ``#2``, ``#3`` and so on after the stimulus id.

    Parameters
    ----------
    words
        Columns ``trial``, ``stimulus`` and `columns`.

    Returns
    -------
    Series
        Layout ids, indexed by trial, sorted.
    """
    rows = words.sort_values("trial", kind="stable")
    keys = pd.util.hash_pandas_object(rows[list(columns)], index=False).to_numpy()
    codes, trials = pd.factorize(rows["trial"])
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    content = [hash(k.tobytes()) for k in np.split(keys, starts[1:])]  # rows and their order
    table = pd.DataFrame(
        {"stimulus": rows["stimulus"].to_numpy()[starts], "content": content}, index=trials
    )
    table["shown"] = table.groupby(["stimulus", "content"])["content"].transform("size")
    table["first"] = np.arange(len(table))
    drawings = table.drop_duplicates(["stimulus", "content"])
    drawings = drawings.sort_values(["shown", "first"], ascending=[False, True], kind="stable")
    number = drawings.groupby("stimulus", sort=False).cumcount()
    suffix = np.where(number == 0, "", "#" + (number + 1).astype("str"))
    drawings["layout"] = drawings["stimulus"].astype("str") + suffix
    named = drawings.set_index(["stimulus", "content"])["layout"]
    layouts = named.reindex(pd.MultiIndex.from_frame(table[["stimulus", "content"]])).to_numpy()
    return pd.Series(layouts, index=table.index, name="layout", dtype="str")


def lines_of(words: pd.DataFrame) -> pd.Series:
    """Return the text line of each word, from 0 at the top, missing where it has no box.

    A new line begins where the vertical centre of a box lies more than half the layout's usual
    box height below the line before.

    Parameters
    ----------
    words
        Columns ``layout``, ``top`` and ``bottom`` (pixels).
    """
    known = words[words["top"].notna() & words["bottom"].notna()]
    frame = pd.DataFrame(
        {
            "layout": pd.factorize(known["layout"])[0],
            "middle": ((known["top"] + known["bottom"]) / 2).to_numpy(),
            "height": (known["bottom"] - known["top"]).to_numpy(),
        },
        index=known.index,
    ).sort_values(["layout", "middle"], kind="stable")
    usual = frame.groupby("layout")["height"].transform("median")
    step = frame.groupby("layout")["middle"].diff()
    new = (step > usual / 2).astype("int64")
    lines = new.groupby(frame["layout"]).cumsum()
    return lines.reindex(words.index).astype("Int64")
