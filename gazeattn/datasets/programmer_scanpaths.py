"""Token scanpaths over Java methods (Bansal et al., 2023, arXiv 2308.13920)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.corpusfiles import find_files
from gazeattn.datasets.parts import build, correction, join_ids, read_string, text
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

_KEYS = ("participant", "method_id", "tokens", "durations_ms")


@register_corpus("programmer_scanpaths")
def load(folder: Path, page: Corpus) -> GazeDataset:
    """Load the scanpaths: fixated tokens and durations, without positions.

    Words are the tokens of a method that somebody fixated (``word`` as in the file, in the order
    in which they first appear there, not that of the code); ``text`` is the token without its
    running number and ``occurrence`` the number, 0 for the first. Tokens that nobody fixated are
    not known, so skips cannot be counted. Refixations are not merged. ``long_duration`` marks
    durations that hold a pause or a loss of tracking; they are published, and kept.
    """
    lost = LossLog()
    fixations, trials = read_lines(folder / "scanpaths.jsonl")
    limit = float(correction(page, "long durations")["limit"])
    fixations["long_duration"] = fixations["duration"] > limit
    long = fixations["long_duration"]
    reason = f"above {limit:g} ms (long_duration): kept, holds a pause or lost tracking"
    lost.add("fixations", "note", reason, int(long.sum()), examples=fixations["trial"][long])
    words = tokens_of(fixations)
    reason = "only tokens that somebody fixated are known: no skips, no reading order"
    lost.add("words", "undefined", reason, len(words), "tokens")
    numbered = int((words["occurrence"] > 0).sum())
    reason = "a running number was taken from the label"
    lost.add("words", "repaired", reason, numbered, "tokens")
    same = (fixations["word"] == fixations["word"].shift()) & (
        fixations["trial"] == fixations["trial"].shift()
    )
    n = trials["n_fixations"]
    suffixed = words["word"].str.contains(r"\.\d+$")
    return build(
        page,
        fixations,
        words,
        trials.assign(condition="code reading"),
        units="code tokens",
        stimuli={s: {"language": "java"} for s in trials["stimulus"].unique()},
        lost=lost,
        counts={
            "scanpaths": len(trials),
            "empty_scanpaths": int((n == 0).sum()),
            "scanpaths_of_one_or_two": int(n.isin([1, 2]).sum()),
            "refixations": int(same.sum()),
            "above_5000_ms": int((fixations["duration"] > 5000).sum()),
            "above_60000_ms": int((fixations["duration"] > 60000).sum()),
            "numbered_tokens": int(suffixed.sum()),
            "running_numbers": numbered,
        },
    )


def read_lines(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read one JSON object per scanpath.

    Raises
    ------
    DataError
        A line that is no such object, or whose tokens and durations are not equally many, with
        the number of the line.
    """
    (path,) = find_files(path.parent, path.name)
    rows: list[tuple[Any, ...]] = []
    tokens: list[str] = []
    durations: list[float] = []
    row = 0
    try:
        for line in read_string(path).split("\n"):
            row += 1
            if not line.strip():
                continue
            entry = json.loads(line)
            person, method, words, times = (entry[k] for k in _KEYS)
            if len(words) != len(times) or entry.get("n_fixations", len(words)) != len(words):
                raise ValueError(f"{len(words)} tokens, {len(times)} durations")
            rows.append((str(person), str(method), entry.get("order_in_file"), len(words)))
            tokens += words
            durations += times
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            "not a scanpath",
            source=path,
            row=row,
            expected="participant, method_id, and as many tokens as durations_ms",
            found=f"{type(error).__name__}: {error}",
        ) from None
    names = ["participant", "stimulus", "order_in_file", "n_fixations"]
    trials = pd.DataFrame(rows, columns=names)
    trials["order_in_file"] = trials["order_in_file"].astype("Int64")
    trials["trial"] = join_ids(text(trials["participant"]), text(trials["stimulus"]))
    n = trials["n_fixations"].to_numpy(dtype=int)
    keys = trials[["participant", "trial", "stimulus"]]
    fixations = keys.loc[np.repeat(keys.index, n)].reset_index(drop=True)
    fixations["index"] = np.arange(int(n.sum())) - np.repeat(np.cumsum(n) - n, n)
    fixations["word"] = pd.Series(tokens, dtype="str")
    fixations["duration"] = pd.Series(durations, dtype="float64")
    return fixations, trials


def tokens_of(fixations: pd.DataFrame) -> pd.DataFrame:
    """Return the distinct tokens of each method, with running numbers taken from the labels.

    A number at the end is a running number only where the part before it is a token of the same
    method: ``0.1`` and ``list.0`` beside no ``list`` stay as they are.
    """
    words = fixations[["stimulus", "word"]].drop_duplicates().reset_index(drop=True)
    parts = words["word"].str.extract(r"(?s)^(.*)\.(\d+)$")
    known = pd.MultiIndex.from_frame(words[["stimulus", "word"]])
    base = pd.MultiIndex.from_arrays([words["stimulus"], parts[0].fillna("")])
    running = (
        parts[0].notna().to_numpy()
        & base.isin(known)
        & ~parts[0].str.fullmatch(r"[-+]?\d+", na=False).to_numpy()
    )
    words["text"] = words["word"].mask(running, parts[0])
    words["occurrence"] = parts[1].where(running, "0").astype("int64")
    return words.assign(layout=words["stimulus"])
