"""GECO: a whole novel, read by English natives and by Dutch-English bilinguals (word measures).

Cop, Dirix, Drieghe & Duyck (2017), Presenting GECO: An eyetracking corpus of monolingual and
bilingual sentence reading, Behavior Research Methods 49, 602-615.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, missing_message, register_corpus
from gazeattn.datasets.corpusfiles import find_files, text_table
from gazeattn.datasets.otherfiles import number_text, sheet_table
from gazeattn.datasets.parts import build
from gazeattn.datasets.wordlevel import (
    as_word,
    choice,
    measures_of,
    texts_of,
    those_there,
    whole,
    word_table,
)
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.tables import LossLog

FILES = {
    "monolingual": ("MonolingualReadingData", "en"),
    "L1": ("L1ReadingData", "nl"),
    "L2": ("L2ReadingData", "en"),
}
"""Part of the corpus to its file and language."""

_NEEDED = ["PP_NR", "PART", "TRIAL", "WORD_ID_WITHIN_TRIAL", "WORD"]
_MEASURES = {
    "WORD_FIRST_FIXATION_DURATION": "first_fixation_duration",
    "WORD_GAZE_DURATION": "gaze_duration",
    "WORD_GO_PAST_TIME": "go_past_time",
    "WORD_SELECTIVE_GO_PAST_TIME": "selective_go_past_time",
    "WORD_TOTAL_READING_TIME": "total_reading_time",
    "WORD_FIXATION_COUNT": "fixation_count",
    "WORD_SKIP": "skip",
    "WORD_RUN_COUNT": "run_count",
    "WORD_FIRST_RUN_FIXATION_COUNT": "first_run_fixation_count",
}
_PADDING = " \t\u00a0\u200b"


@register_corpus("geco")
def load(folder: Path, page: Corpus, parts: Sequence[str] | str | None = None) -> GazeDataset:
    """Load GECO; a trial is one reader and one screen of text, called ``pp21_en_1-5``.

    Parameters
    ----------
    parts
        Which of ``"monolingual"``, ``"L1"`` (bilinguals, Dutch) and ``"L2"`` (bilinguals, English)
        to load; by default those whose file is there, as workbook or exported as CSV.

    Notes
    -----
    Only word measures are published: ``fixations`` is empty, and ``reports["measures"]`` holds one
    row per reader and word, durations in ms, missing where the word was not fixated. A stimulus
    is a screen of text in one language, ``en_1-5`` by part and trial; consecutive screens are one
    story, so that a split by text divides a novel.
    """
    lost = LossLog()
    asked = [parts] if isinstance(parts, str) else list(parts or FILES)
    asked = [choice(p, FILES, "parts") for p in asked]
    tables, files = [], []
    for part in asked:
        found = _read(folder, part, lost)
        if found is not None:
            tables.append(found[0])
            files.append(found[1].name)
        elif parts is not None:
            raise MissingAssetError(
                f"{folder} has no {FILES[part][0]}.xlsx or .csv\n{missing_message(page, folder)}"
            )
    if not tables:
        raise MissingAssetError(missing_message(page, folder))
    raw = pd.concat(tables, ignore_index=True)
    raw["participant"] = _readers(raw, lost)
    screen = number_text(raw["PART"]) + "-" + number_text(raw["TRIAL"])
    stimulus = raw["language"] + "_" + screen
    number = whole(raw["WORD_ID_WITHIN_TRIAL"], "WORD_ID_WITHIN_TRIAL", folder)
    bad = number.isna() | raw["PART"].isin(["", "."]) | raw["TRIAL"].isin(["", "."])
    if bad.all():
        raise DataError(f"0 of {len(raw)} rows valid: none names a word", source=folder)
    lost.add("measures", "dropped", "no number of part, trial or word", int(bad.sum()))
    text = raw["WORD"].str.strip(_PADDING)
    padded = int((text != raw["WORD"]).sum())
    lost.add("words", "repaired", page.rule("padding"), padded)
    ids = {
        "participant": raw["participant"],
        "trial": raw["participant"] + "_" + stimulus,
        "stimulus": stimulus,
        "word": as_word(number),
        "text": text,
    }
    measures = measures_of(raw, {**ids, "part": raw["which"]}, _MEASURES, folder)[~bad.to_numpy()]
    measures = measures.reset_index(drop=True)
    if not {"total_reading_time", "gaze_duration", "first_fixation_duration"} & set(measures):
        raise DataError(
            "no column of reading times", source=files[0], expected=", ".join(list(_MEASURES)[:5])
        )
    again = measures.duplicated(["trial", "word"])
    lost.add("measures", "dropped", "a word of a trial stands twice", int(again.sum()))
    measures = measures[~again].reset_index(drop=True)
    rows = measures[["stimulus", "text", "trial"]].assign(number=measures["word"].astype("Int64"))
    words = word_table(rows, lost)
    trials = measures[["participant", "trial", "stimulus", "part"]].drop_duplicates("trial")
    trials = trials.assign(condition="reading a novel for comprehension").reset_index(drop=True)
    trials["language"] = trials["stimulus"].str.partition("_")[0]
    reason = "only word measures are published (reports: measures): no fixation of any trial"
    lost.add("fixations", "undefined", reason, len(trials), "trials")
    return build(
        page,
        None,
        words,
        trials,
        units="words",
        stimuli=texts_of(words),
        lost=lost,
        counts={"word_rows": len(measures), "empty_words": int((words["text"] == "").sum())},
        reports={"measures": measures},
        edition="+".join(sorted(set(raw["which"]))),
        files=files,
    )


def _read(folder: Path, part: str, lost: LossLog) -> tuple[pd.DataFrame, Path] | None:
    stem, language = FILES[part]
    exported = find_files(folder, f"{stem}.csv")
    if exported:
        path = exported[0]
        table = text_table(path, those_there(path, _NEEDED, _MEASURES, ","))
    else:
        sheets = find_files(folder, f"{stem}.xlsx")
        if not sheets:
            return None
        path = sheets[0]
        table, changed = sheet_table(path, _NEEDED, _MEASURES)
        reason = (
            "words that the spreadsheet program took for truth values or dates: as it shows them"
        )
        lost.add("words", "note", reason, changed, "cells")
    return table.assign(which=part, language=language), path


def _readers(raw: pd.DataFrame, lost: LossLog) -> pd.Series:
    """Return reader ids; two people of the two samples may have the same number."""
    sample = raw["which"].where(raw["which"] == "monolingual", "bilingual")
    samples = sample.groupby(raw["PP_NR"]).nunique()
    shared = samples.index[samples > 1]
    reason = "reader ids of both samples: those of bilinguals have _bilingual added"
    lost.add("trials", "repaired", reason, len(shared), "readers", shared)
    both = raw["PP_NR"].isin(shared) & (sample == "bilingual")
    return (raw["PP_NR"] + "_bilingual").where(both, raw["PP_NR"])
