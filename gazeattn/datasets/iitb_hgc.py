"""IITB-HGC: claims of a language model that readers judge as true or made up (words only).

Maharaj, Saxena, Kumar, Mishra & Bhattacharyya (2023), Eyes Show the Way: Modelling Gaze Behaviour
for Hallucination Detection, Findings of EMNLP 2023.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, need_file, register_corpus
from gazeattn.datasets.parts import build, correction, read_string
from gazeattn.datasets.wordlevel import as_word, known_words, numbered
from gazeattn.errors import DataError
from gazeattn.tables import LossLog

_LISTS = ("fixation_seqs", "fixation_word_ids", "fixation_durations", "fixation_word_texts")
_NEEDED = ("participant_id", "trial_id", "text", *_LISTS, "true_labels", "annotator_labels")
_BREAK = "\u21b5"


@register_corpus("iitb_hgc")
def load(folder: Path, page: Corpus) -> GazeDataset:
    """Load IITB-HGC; a trial is one reader and one paragraph, called ``P1_42``.

    Notes
    -----
    There is no position: fixations have the number of the word, from 1, missing off the text.
    Words are what stands between blanks, but for the words that the recording joined or doubled,
    which the page lists. ``true_label`` and ``judged_label`` are the two labels as published,
    ``correct`` tells whether they agree. ``reports["text_check"]`` lists the words of fixations
    that differ from those of the text.
    """
    lost = LossLog()
    path = need_file(folder, page, "IITB_HGC.jsonl")
    records = _records(path)
    base = pd.DataFrame(
        {
            "participant": [str(r["participant_id"]) for r in records],
            "stimulus": [str(r["trial_id"]) for r in records],
            "text": [_one_line(str(r["text"])) for r in records],
            "true_label": [_label(r["true_labels"]) for r in records],
            "judged_label": [_label(r["annotator_labels"]) for r in records],
        }
    )
    base["trial"] = base["participant"] + "_" + base["stimulus"]
    fixations, shown = _fixations(records, base, path)
    texts = base.drop_duplicates("stimulus").set_index("stimulus")["text"]
    same = base["text"].to_numpy() == texts.reindex(base["stimulus"]).to_numpy()
    lost.add("texts", "note", "readers saw another text under one number", int((~same).sum()))
    words = _words(dict(texts), page, lost)
    check = _compare(fixations, shown, words, lost)
    fixations = known_words(numbered(fixations, lost), words, lost)
    trials = base.drop(columns="text").assign(condition="judging whether a claim is true")
    known = trials["true_label"].notna() & trials["judged_label"].notna()
    right = (trials["true_label"] == trials["judged_label"]).astype("boolean")
    trials["correct"] = right.where(known)
    return build(
        page,
        fixations,
        words,
        trials,
        units="words",
        stimuli={str(name): {"text": str(text)} for name, text in texts.items()},
        lost=lost,
        counts={"judged_right": int(trials["correct"].sum())},
        reports={"text_check": check},
    )


def _records(path: Path) -> list[dict[str, Any]]:
    records = []
    for number, line in enumerate(read_string(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"not JSON ({error})", source=path, row=number) from None
        lacking = [k for k in _NEEDED if not isinstance(record, dict) or k not in record]
        if lacking:
            raise DataError(
                f"key {', '.join(map(repr, lacking))} is missing",
                source=path,
                row=number,
                expected=", ".join(_NEEDED),
                found=", ".join(record) if isinstance(record, dict) else type(record).__name__,
            )
        for key in _LISTS:
            record[key] = _list(record[key], key, path, number)
        sizes = {len(record[k]) for k in _LISTS}
        if len(sizes) > 1:
            raise DataError(
                "the lists of fixations have different lengths",
                source=path,
                row=number,
                found=", ".join(f"{k} {len(record[k])}" for k in _LISTS),
            )
        records.append(record)
    if not records:
        raise DataError("no record", source=path)
    return records


def _list(value: object, key: str, path: Path, row: int) -> list[Any]:
    """Return a list that is written as one, or as text of one."""
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value)  # constants only: nothing is run
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = None
    if not isinstance(value, list):
        raise DataError(f"{key} is no list", source=path, row=row)
    return value


def _one_line(text: str) -> str:
    return " ".join(re.split(r"[ \t\r\n]+", text.replace(_BREAK, " ").strip(" \t\r\n")))


def _label(value: object) -> object:
    return pd.NA if value is None or str(value).strip() == "" else str(value)


def _fixations(
    records: list[dict[str, Any]], base: pd.DataFrame, path: Path
) -> tuple[pd.DataFrame, pd.Series]:
    sizes = np.array([len(r["fixation_seqs"]) for r in records])
    flat = {key: pd.Series([v for r in records for v in r[key]], dtype=object) for key in _LISTS}
    row = np.repeat(np.arange(len(records)), sizes)
    numbers = {}
    for key in _LISTS[:3]:
        text = flat[key].astype("str")
        numbers[key] = pd.to_numeric(text, errors="coerce").astype("float64")
        bad = numbers[key].isna() & ~text.str.strip().isin([".", "", "nan", "None"])
        if bad.any():
            at = int(bad.to_numpy().argmax())
            raise DataError(
                f"{key} must hold numbers",
                source=path,
                row=int(row[at]) + 1,
                found=repr(flat[key].iloc[at]),
            )
    own = base[["participant", "trial", "stimulus"]].take(row).reset_index(drop=True)
    fixations = own.assign(
        index=numbers["fixation_seqs"],
        duration=numbers["fixation_durations"],
        word=as_word(numbers["fixation_word_ids"]),
    )
    return fixations, flat["fixation_word_texts"].astype("str")


def _words(texts: dict[str, str], page: Corpus, lost: LossLog) -> pd.DataFrame:
    entry = correction(page, "recorded words")
    changed = 0
    tables = []
    for name, text in texts.items():
        for before, after in dict(entry["texts"]).get(name, ()):
            changed += text.count(before) > 0
            text = text.replace(before, after)
        tables.append(pd.DataFrame({"stimulus": name, "text": text.split(" ")}))
    lost.add("words", "repaired", str(entry["reason"]), changed, "places")
    words = pd.concat(tables, ignore_index=True)
    words["index"] = words.groupby("stimulus", sort=False).cumcount() + 1
    words["word"] = words["index"].astype("str")
    return words.assign(layout=words["stimulus"])


def _compare(
    fixations: pd.DataFrame, shown: pd.Series, words: pd.DataFrame, lost: LossLog
) -> pd.DataFrame:
    keys = ["stimulus", "word"]
    table = words.set_index(keys)["text"]
    at = pd.MultiIndex.from_frame(fixations[keys].fillna(""))
    of_text = pd.Series(table.reindex(at).to_numpy(), index=fixations.index)
    there = fixations["word"].notna() & of_text.notna() & ~shown.isin([".", ""])
    differ = there & (of_text != shown)
    pairs = fixations.loc[differ, keys].assign(text=of_text[differ], recorded=shown[differ])
    pairs = pairs.groupby([*keys, "text", "recorded"]).size().rename("fixations").reset_index()
    reason = "fixations whose recorded word is not that of the text (see reports: text_check)"
    lost.add("fixations", "note", reason, int(differ.sum()), examples=pairs["stimulus"].unique())
    return pairs
