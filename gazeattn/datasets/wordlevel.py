"""Words of a text from tables in which they stand once per reader, and published word measures."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.columns import as_number
from gazeattn.datasets.texts import differences
from gazeattn.errors import DataError
from gazeattn.tables import SIDES, LossLog

FITS = 0.5  # a trial in which fewer words agree with those of the other readers does not fit


def word_table(
    rows: pd.DataFrame, lost: LossLog, *, whole: bool = True, step: str = "words"
) -> pd.DataFrame:
    """Return each word of each text once.

    Parameters
    ----------
    rows : DataFrame
        ``stimulus``, ``number`` (place of the word in its text, a whole number), ``text``, and
        where known ``trial`` and the four sides of the box. Rows without a number or a text are
        left out.
    lost
        Counts rows whose text is not that of most readers, trials that do not fit their text
        (fewer than half of their words agree: another text was shown, or the numbers are
        shifted), places of which no word is known, and boxes that differ between readers.
    whole
        The rows come from a list of all words; else they are only those that someone fixated.
    step
        Name of the table in `lost`.

    Returns
    -------
    DataFrame : ``layout, stimulus, word, index, text`` and the sides where given; ``word`` is the
    published number.
    """
    rows = rows[rows["number"].notna() & rows["text"].notna() & (rows["text"] != "")]
    keys = ["stimulus", "number"]
    spread = rows.groupby([*keys, "text"], sort=True).size().rename("n").reset_index()
    spread = spread.sort_values("n", ascending=False, kind="stable").drop_duplicates(keys)
    words = spread.sort_values(keys, kind="stable").reset_index(drop=True)
    usual = words.set_index(keys)["text"]
    of_row = usual.reindex(pd.MultiIndex.from_frame(rows[keys])).to_numpy()
    agrees = rows["text"].to_numpy() == of_row
    lost.add(
        step,
        "note",
        "another word than most readers have at this place of the text",
        int((~agrees).sum()),
        examples=rows.loc[~agrees, "stimulus"].unique(),
    )
    if "trial" in rows and not agrees.all():
        share = pd.Series(agrees).groupby(rows["trial"].to_numpy(), sort=True).mean()
        strange = share.index[share < FITS]
        reason = "fewer than half of their words are those of the text that they are said to show"
        lost.add("trials", "note", reason, len(strange), "trials", strange)
    if set(SIDES) <= set(rows):
        boxes = rows.dropna(subset=list(SIDES)).drop_duplicates([*keys, *SIDES])
        first = boxes.drop_duplicates(keys)
        reason = "word boxes that differ between readers: those of the first one"
        lost.add(step, "note", reason, len(boxes) - len(first), "boxes")
        words = words.merge(first[[*keys, *SIDES]], on=keys, how="left", validate="1:1")
    ends = words.groupby("stimulus")["number"].agg(["min", "max", "size"])
    begin = ends["min"].where(ends["min"] < 1, 1)
    gaps = int((ends["max"] - begin + 1 - ends["size"]).sum())
    how = "the list has no word there" if whole else "nobody fixated them"
    lost.add(step, "undefined", f"places of a text whose word is not known: {how}", gaps, "words")
    return pd.DataFrame(
        {
            "layout": words["stimulus"],
            "stimulus": words["stimulus"],
            "word": words["number"].astype("Int64").astype("str"),
            "index": words["number"].astype("int64"),
            "text": words["text"].astype("str"),
            **{s: words[s] for s in SIDES if s in words},
        }
    )


def texts_of(words: pd.DataFrame, size: object = None) -> dict[str, dict[str, Any]]:
    """Return the facts of each stimulus: its words joined by blanks, and the screen."""
    first = words[words["layout"] == words["stimulus"]]
    texts = first.astype({"text": object}).groupby("stimulus", sort=True)["text"].agg(" ".join)
    more = {"size": size} if size is not None else {}
    return {str(name): {"text": str(text), **more} for name, text in texts.items()}


def check_texts(
    words: pd.DataFrame, texts: Mapping[str, str], lost: LossLog, step: str = "words"
) -> pd.DataFrame:
    """Compare the words with the published texts; the differences are counted and returned.

    See `gazeattn.datasets.texts.differences`: a word that is missing on one side shifts nothing.
    """
    found = differences(words, dict(texts))
    reason = "words that are not those of the published text (see reports: text_check)"
    lost.add(step, "note", reason, len(found), "words", found["stimulus"].unique())
    return found


def known_words(fixations: pd.DataFrame, words: pd.DataFrame, lost: LossLog) -> pd.DataFrame:
    """Return fixations whose word is in the word table of their text; others are on no word."""
    have = pd.MultiIndex.from_frame(words.loc[words["layout"] == words["stimulus"], _KEYS])
    there = pd.MultiIndex.from_frame(fixations[_KEYS].fillna("")).isin(have)
    lone = fixations["word"].notna().to_numpy() & ~there
    lost.add(
        "fixations",
        "undefined",
        "their word is in no word table: on no word",
        int(lone.sum()),
        examples=fixations.loc[lone, "trial"].unique(),
    )
    return fixations.assign(word=fixations["word"].mask(lone))


_KEYS = ["stimulus", "word"]


def numbered(fixations: pd.DataFrame, lost: LossLog) -> pd.DataFrame:
    """Return fixations with unique numbers: file order in all trials where one stands twice."""
    twice = fixations.duplicated(["trial", "index"]) & fixations["index"].notna()
    trials = fixations.loc[twice, "trial"].unique()
    reason = "two fixations have one number: numbered in the order of the file"
    lost.add("fixations", "note", reason, len(trials), "trials", trials)
    if not len(trials):
        return fixations
    order = fixations.groupby("trial", sort=False).cumcount().astype("Int64")
    index = fixations["index"].astype("Int64").mask(fixations["trial"].isin(trials), order)
    return fixations.assign(index=index)


def measures_of(
    raw: pd.DataFrame,
    ids: Mapping[str, pd.Series],
    columns: Mapping[str, str],
    source: object,
) -> pd.DataFrame:
    """Return published word measures with our names.

    Parameters
    ----------
    raw
        The published table; a lone dot, an empty cell and ``NA`` are missing.
    ids
        ``participant``, ``trial``, ``stimulus``, ``word``, ``text``, one value per row.
    columns
        Published column to ours; those that are not there are left out.
    """
    values = {
        ours: as_number(raw[name], name, source, 2) for name, ours in columns.items() if name in raw
    }
    return pd.DataFrame({**ids, **values}).reset_index(drop=True)


def those_there(
    path: Path, needed: Iterable[str], more: Iterable[str], separator: str = "\t"
) -> list[str]:
    """Return the needed columns and those of `more` that the header of a file has."""
    opened = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", errors="replace") as stream:
        names = next(csv.reader([stream.readline()], delimiter=separator), [])
    needed = list(needed)
    return [*needed, *(c for c in dict.fromkeys(more) if c in names and c not in needed)]


def no_row_twice(frame: pd.DataFrame, keys: list[str], source: object) -> pd.DataFrame:
    """Return the table, or raise `DataError` where two rows have the same keys."""
    twice = frame.duplicated(keys)
    if twice.any():
        at = int(np.flatnonzero(twice)[0])
        raise DataError(
            f"{' and '.join(keys)} stand twice",
            source=source,
            expected="one row for each",
            found=", ".join(str(frame[k].iloc[at]) for k in keys),
        )
    return frame


def drop_columns(raw: pd.DataFrame, part: str, reason: str, lost: LossLog, step: str) -> Any:
    """Return the table without the columns whose name holds `part`, and count them."""
    bad = [c for c in raw if part in str(c).casefold()]
    lost.add(step, "dropped", reason, len(bad), "columns", bad)
    return raw.drop(columns=bad)


def choice(value: object, known: Iterable[object], option: str) -> Any:
    """Return the option as one of the known values, or raise `DataError`."""
    values = list(known)
    for one in values:
        if str(value) == str(one):
            return one
    raise DataError(
        f"option {option} has no value {value!r}",
        expected=", ".join(map(repr, values)),
        found=repr(value),
    )


def whole(values: pd.Series, name: str, source: object) -> pd.Series:
    """Return text as nullable whole numbers; a lone dot, an empty cell and ``NA`` are missing."""
    numbers = as_number(values, name, source, 2)
    broken = numbers.notna() & (numbers != np.floor(numbers))
    if broken.any():
        row = int(np.flatnonzero(broken)[0])
        raise DataError(
            f"column {name!r} must hold whole numbers",
            source=source,
            row=row + 2,
            found=repr(values.iloc[row]),
        )
    return numbers.astype("Int64")


def as_word(numbers: pd.Series) -> pd.Series:
    """Return whole numbers as word ids; missing stays missing."""
    return numbers.astype("Int64").astype("str").where(numbers.notna())
