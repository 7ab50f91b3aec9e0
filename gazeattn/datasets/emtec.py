"""EMTeC: texts written by language models, read by English natives.

Bolliger, Haller, Cretton, Reich, Kew & Jäger (2024), EMTeC: A Corpus of Eye Movements on
Machine-Generated Texts, arXiv:2408.04289.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from gazeattn.columns import as_number
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.corpusfiles import find_files, text_table
from gazeattn.datasets.parts import build, one_file, outside
from gazeattn.datasets.wordlevel import (
    as_word,
    check_texts,
    choice,
    known_words,
    measures_of,
    no_row_twice,
    numbered,
    texts_of,
    whole,
    word_table,
)
from gazeattn.errors import MissingAssetError
from gazeattn.tables import SIDES, LossLog

KINDS = {"corrected": "_corrected", "original": ""}
_TRIAL = ["subject_id", "item_id", "model", "decoding_strategy"]
_FIXATIONS = [*_TRIAL, "fixation_index", "fixation_duration", "word_id", "word"]
_MEASURES = {
    "FFD": "first_fixation_duration",
    "SFD": "single_fixation_duration",
    "FPRT": "gaze_duration",
    "RPD_inc": "go_past_time",
    "TFT": "total_reading_time",
    "TFC": "fixation_count",
    "TRC_out": "regressions_out",
    "TRC_in": "regressions_in",
    "FPF": "first_pass_fixated",
}
_DURATIONS = ("FFD", "SFD", "FPRT", "RPD_inc")
_BOXES = {"x_left": "left", "y_top": "top", "x_right": "right", "y_bottom": "bottom"}


@register_corpus("emtec")
def load(folder: Path, page: Corpus, fixations: str = "corrected") -> GazeDataset:
    """Load EMTeC; a trial is one reader and one item, called ``ET_01_item05``.

    Parameters
    ----------
    fixations : {"corrected", "original"}
        Fixations after or before lines were corrected by hand, with the word measures made from
        them. One never stands in for the other: ``info["fixation_kind"]`` says which they are.

    Notes
    -----
    A stimulus is a text, ``model_decoding_item``. The tables have the word of each fixation and
    no position, unless ``fix_mean_x`` and ``fix_mean_y`` are there; words are numbered from 0.
    Boxes come from ``{model}_{decoding}_{item}_coordinates.csv`` where these files are there.
    ``reports`` holds ``measures``, ``text_check`` and ``answers``, where their files are there. A
    published 0 of a first-pass duration means "not fixated in the first pass": missing here.
    """
    lost = LossLog()
    kind = choice(fixations, KINDS, "fixations")
    name = f"fixations{KINDS[kind]}.csv"
    path = one_file(folder, name)
    if path is None:
        other = next((k for k in KINDS if one_file(folder, f"fixations{KINDS[k]}.csv")), None)
        raise MissingAssetError(
            f"{folder} has no {name} of {page.name!r}"
            + (f"; fixations={other!r} is there, and is another table" if other else "")
        )
    raw = text_table(path, separator="\t", needs=_FIXATIONS)
    number = whole(raw["word_id"], "word_id", path)
    table = pd.DataFrame(
        {
            **_ids(raw),
            "index": whole(raw["fixation_index"], "fixation_index", path),
            "duration": as_number(raw["fixation_duration"], "fixation_duration", path, 2),
            "word": as_word(number),
        }
    )
    if {"fix_mean_x", "fix_mean_y"} <= set(raw):
        for column, ours in (("fix_mean_x", "x"), ("fix_mean_y", "y")):
            table[ours] = as_number(raw[column], column, path, 2)
        table["off_screen"] = outside(table["x"], table["y"], *(page.screen or (np.inf, np.inf)))
    ids = ["stimulus", "trial"]
    rows = table[ids].assign(number=number, text=raw["word"].where(number.notna()))
    reports = {}
    read = one_file(folder, f"reading_measures{KINDS[kind]}.csv")
    if read is not None:
        list_ = text_table(read, separator="\t", needs=[*_TRIAL, "word_id", "word"])
        numbers = whole(list_["word_id"], "word_id", read)
        of = _ids(list_)
        rows = pd.DataFrame({**of, "number": numbers, "text": list_["word"]})
        of |= {"word": as_word(numbers), "text": list_["word"]}
        measures = measures_of(list_, of, _MEASURES, read)
        for column in _DURATIONS:
            ours = _MEASURES[column]
            if ours in measures:
                measures[ours] = measures[ours].mask(measures[ours] == 0)
        reports["measures"] = measures
    boxes = _boxes(folder)
    if boxes is not None:
        rows = rows.merge(boxes, on=["stimulus", "number"], how="left", validate="m:1")
    words = word_table(rows, lost, whole=read is not None)
    texts = _texts(folder, set(words["stimulus"]))
    if texts:
        reports["text_check"] = check_texts(words, texts, lost)
    table = known_words(numbered(table, lost), words, lost)
    trials = pd.DataFrame({**_ids(raw), **{c: raw[c] for c in _TRIAL[1:]}})
    trials = trials.drop_duplicates("trial").reset_index(drop=True)
    trials["condition"] = "reading for comprehension"
    answers = one_file(folder, "**/participant_results.csv")
    if answers is not None:
        separator = "\t" if "\t" in answers.open(encoding="utf-8").readline() else ","
        reports["answers"] = text_table(answers, separator=separator)
    facts = texts_of(words, page.screen)
    for stimulus, text in texts.items():
        facts[stimulus]["published_text"] = text
    return build(
        page,
        table,
        words,
        trials,
        units="words",
        stimuli=facts,
        lost=lost,
        counts={"fixations_on_words": int(table["word"].notna().sum())},
        reports=reports,
        fixation_kind=kind,
    )


def _ids(raw: pd.DataFrame) -> dict[str, pd.Series]:
    return {
        "participant": raw["subject_id"],
        "trial": raw["subject_id"] + "_" + raw["item_id"],
        "stimulus": _stimulus(raw),
    }


def _stimulus(raw: pd.DataFrame) -> pd.Series:
    return raw["model"] + "_" + raw["decoding_strategy"] + "_" + raw["item_id"]


def _boxes(folder: Path) -> pd.DataFrame | None:
    tables = []
    for path in find_files(folder, "**/unique_aois/{model}_{decoding}_{item}_coordinates.csv"):
        needs = ["word_index", *_BOXES]
        raw = text_table(path, separator="\t", quote=None, needs=needs)
        sides = {ours: as_number(raw[c], c, path, 2) for c, ours in _BOXES.items()}
        number = whole(raw["word_index"], "word_index", path)
        name = path.name.split(".csv")[0].removesuffix("_coordinates")
        tables.append(pd.DataFrame({"stimulus": name, "number": number, **sides}))
    if not tables:
        return None
    boxes = pd.concat(tables, ignore_index=True)[["stimulus", "number", *SIDES]]
    return no_row_twice(boxes, ["stimulus", "number"], folder)


def _texts(folder: Path, known: set[str]) -> dict[str, str]:
    path = one_file(folder, "stimuli.csv")
    if path is None:
        return {}
    needs = ["item_id", "model", "decoding_strategy", "gen_seq_trunc"]
    raw = text_table(path, needs, separator="\t")
    names, texts = _stimulus(raw), raw["gen_seq_trunc"].str.split().str.join(" ")
    return {n: t for n, t in zip(names, texts, strict=True) if n in known}
