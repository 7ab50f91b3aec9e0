"""What loaders of corpora share: ids, empty tables, corrections of a page, the final checks."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.columns import Column
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus
from gazeattn.datasets.corpusfiles import find_files, text_table
from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.readers.textfile import check_bytes
from gazeattn.tables import (
    FIXATIONS,
    SIDES,
    TRIALS,
    WORDS,
    check_fixations,
    check_trials,
    check_words,
)


def empty(schema: Mapping[str, Column]) -> pd.DataFrame:
    """Return a table of a schema without rows: all columns are there, with the right types."""
    frame = {
        k: pd.Series([], dtype="str" if v.kind == "text" else float) for k, v in schema.items()
    }
    check = {id(FIXATIONS): check_fixations, id(TRIALS): check_trials, id(WORDS): check_words}
    return check[id(schema)](pd.DataFrame(frame))[0]


def text(values: Iterable[Any] | pd.Series) -> pd.Series:
    """Return whole numbers or text as text."""
    return pd.Series(values).astype("str")


def join_ids(*columns: pd.Series | str, by: str = "_") -> pd.Series:
    """Return ids made of several columns, such as ``1001_03``."""
    joined: Any = columns[0]
    for column in columns[1:]:
        joined = joined + by + column
    return joined


def correction(page: Corpus, name: str) -> Mapping[str, Any]:
    """Return the correction that a page lists under a name.

    Raises
    ------
    DataError
        The page lists none of that name.
    """
    for entry in page.corrections:
        if entry.get("name") == name:
            return entry
    raise DataError(
        f"the page of {page.name!r} lists no correction {name!r}",
        found=", ".join(str(e.get("name")) for e in page.corrections) or "none",
    )


def one_file(folder: Path, pattern: str) -> Path | None:
    """Return the first file that fits a pattern, as it is or packed (``.gz``)."""
    return next(iter(find_files(folder, pattern)), None)


def read_text(
    path: Path, separator: str, needed: Iterable[str] = (), quote: str | None = '"'
) -> pd.DataFrame:
    """Read a delimited file as text, exactly as written (an empty cell is empty text).

    Raises
    ------
    DataError
        Not a table, or a needed column is missing.
    """
    frame = text_table(path, separator=separator, quote=quote)
    need_columns(frame, needed, path)
    return frame


def read_string(path: Path) -> str:
    """Return a text file, packed or not, without its byte-order mark.

    Raises
    ------
    DataError
        Bytes that are no UTF-8, with their place.
    """
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise DataError(f"the gzip file is damaged or cut ({error})", source=path) from None
    check_bytes(data, "utf-8", path, stated=False)
    return data.decode("utf-8-sig")


def read_json(path: Path) -> Any:
    """Return what a JSON file holds, or raise `DataError`."""
    try:
        return json.loads(read_string(path))
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON ({error})", source=path) from None


def read_parquet(path: Path, needed: Iterable[str] = ()) -> pd.DataFrame:
    """Read a Parquet file and check that the needed columns are there."""
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise DataError(f"the Parquet file is damaged or cut ({error})", source=path) from None
    need_columns(frame, needed, path)
    return frame


def need_columns(frame: pd.DataFrame, needed: Iterable[str], source: object) -> None:
    """Raise `DataError` where a published column is missing."""
    missing = [c for c in needed if c not in frame]
    if missing:
        raise DataError(
            f"column {', '.join(map(repr, missing))} is missing",
            source=source,
            expected="the published columns",
            found=", ".join(map(str, frame.columns)),
        )


def numbers(
    values: pd.Series, name: str, source: object, missing: tuple[str, ...] = ("",)
) -> pd.Series:
    """Return text as float64, NaN where one of the `missing` marks stands.

    Raises
    ------
    DataError
        Any other text that is no finite number, with its row (the header is row 1).
    """
    result = pd.to_numeric(values, errors="coerce").astype("float64")
    bad = ~np.isfinite(result.to_numpy()) & ~values.isin(list(missing)).to_numpy()
    bad &= values.notna().to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"column {name!r} must hold numbers",
            source=source,
            row=row + 2,
            expected="a finite number" + "".join(f", or {m!r}" for m in missing),
            found=repr(values.iloc[row]),
        )
    return result


def outside(x: pd.Series, y: pd.Series, width: Any, height: Any) -> pd.Series:
    """Tell which positions lie outside the stimulus; valid are 0 <= x < width, 0 <= y < height."""
    out = ~((x >= 0) & (x < width) & (y >= 0) & (y < height))
    return out.astype("boolean").mask(x.isna() | y.isna())


def build(
    page: Corpus,
    fixations: pd.DataFrame | None,
    words: pd.DataFrame | None,
    trials: pd.DataFrame,
    *,
    units: str,
    stimuli: dict[str, dict[str, Any]],
    lost: LossLog,
    counts: Mapping[str, int],
    reports: dict[str, pd.DataFrame] | None = None,
    **info: Any,
) -> GazeDataset:
    """Check the tables against each other and put a data set together.

    Parameters
    ----------
    page
    fixations, words
        None where the corpus has none.
    units : {"words", "objects", "code tokens"}
        What the rows of `words` are.
    counts
        Counts beyond those of the tables.

    Raises
    ------
    DataError
        A table does not conform, or refers to a trial, stimulus or layout that is not there.
    """
    if fixations is None:
        fixations = empty(FIXATIONS)
    else:
        fixations = fixations.assign(dataset=page.name)
        fixations, log = check_fixations(fixations, source=f"{page.name}: fixations")
        lost.extend(log)
    if words is None:
        words = empty(WORDS)
    else:
        unknown = {c: np.nan for c in ("line", *SIDES) if c not in words}
        words, log = check_words(words.assign(**unknown), source=f"{page.name}: words")
        lost.extend(log)
    trials, log = check_trials(trials, source=f"{page.name}: trials")
    lost.extend(log)
    trials = trials.sort_values("trial", kind="stable").reset_index(drop=True)
    _refer(fixations["trial"], trials["trial"], "fixations", "trial", page)
    _refer(trials["stimulus"], pd.Series(list(stimuli), dtype="str"), "trials", "stimulus", page)
    if len(fixations):
        unread = trials.loc[~trials["trial"].isin(fixations["trial"].unique()), "trial"]
        lost.add("trials", "undefined", "no fixations: undefined", len(unread), "trials", unread)
    if "off_screen" in fixations:
        off = fixations["off_screen"].fillna(False).to_numpy(dtype=bool)
        reason = "outside the stimulus (off_screen): kept, and left out where pixels are looked up"
        lost.add("fixations", "note", reason, int(off.sum()), examples=fixations["trial"][off])
    return GazeDataset(
        name=page.name,
        fixations=fixations,
        words=words,
        trials=trials,
        stimuli=stimuli,
        info={"units": units, "counts": dict(counts), **info},
        reports=reports or {},
        lost=lost,
    )


def _refer(given: pd.Series, known: pd.Series, table: str, what: str, page: Corpus) -> None:
    lone = given[~given.isin(known)]
    if len(lone):
        raise DataError(
            f"the {table} name a {what} that is not there",
            source=page.name,
            found=f"{lone.iloc[0]!r} ({lone.nunique()} such)",
        )
