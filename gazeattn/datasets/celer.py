"""CELER: English newspaper sentences read by native speakers and by learners of English.

Berzak, Nakamura, Smith, Weng, Katz, Flynn & Levy (2022), CELER: A 365-Participant Corpus of Eye
Movements in L1 and L2 English Reading, Open Mind 6, 41-50.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from gazeattn.columns import as_number, as_truth
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import FOLDS, Corpus, correct, register_corpus
from gazeattn.datasets.corpusfiles import find_files, text_table
from gazeattn.datasets.otherfiles import number_text
from gazeattn.datasets.parts import build
from gazeattn.datasets.wordlevel import (
    as_word,
    check_texts,
    known_words,
    no_row_twice,
    numbered,
    texts_of,
    those_there,
    whole,
    word_table,
)
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.tables import LossLog

_AREA = "CURRENT_FIX_INTEREST_AREA"
_TRIAL = ["list", "trial", "sentenceid", "sentence"]
_FIXATIONS = [
    *_TRIAL,
    *("CURRENT_FIX_INDEX", "CURRENT_FIX_DURATION", "CURRENT_FIX_X", "CURRENT_FIX_Y"),
    *(f"{_AREA}_ID", f"{_AREA}_LABEL"),
]
_AREAS = [*_TRIAL, "IA_ID", "IA_LABEL"]
_MORE = {
    "shared_text": "shared_text",
    "answered_correctly": "answered_correctly",
}
_FIXATIONS_MORE = [
    *(*_MORE, "question", "EYE_USED"),
    *(f"CURRENT_FIX_{c}" for c in ("PUPIL", "START", "BLINK_AROUND")),
]
_REPORT = (
    "IA_DWELL_TIME IA_FIRST_FIXATION_DURATION IA_FIRST_RUN_DWELL_TIME IA_FIRST_RUN_FIXATION_COUNT "
    "IA_FIXATION_COUNT IA_REGRESSION_IN IA_REGRESSION_IN_COUNT IA_REGRESSION_OUT "
    "IA_REGRESSION_OUT_COUNT IA_REGRESSION_OUT_FULL IA_REGRESSION_OUT_FULL_COUNT "
    "IA_REGRESSION_PATH_DURATION IA_RUN_COUNT IA_SKIP"
).split()
_READERS = {"L1": "l1", "Age": "age", "Gender": "gender", "TOEFL-IBT-Converted": "toefl"}


@register_corpus("celer")
def load(folder: Path, page: Corpus, version: str | None = None) -> GazeDataset:
    """Load CELER; a trial is one reader (list) and one sentence, called ``231_42``.

    Parameters
    ----------
    version
        Name of the release, ``"v1.0"`` or ``"v2.0"``, where several ``data_*`` folders are there;
        by default the last one.

    Notes
    -----
    The number of a reader is that of the experimental list. Words are the interest areas of the
    sentence; their boxes are not complete in the report (left and right only), so that positions
    are those of the screen, which has another size in version 1. ``native`` of the trials tells
    native speakers; ``reports`` holds ``eyelink`` (the interest-area measures), ``readers``,
    ``folds`` (the published split of participants) and ``text_check`` (words that are not those
    of the sentence).
    """
    lost = LossLog()
    data = _release(folder, page, version)
    path = next(iter(find_files(data, "sent_fix.tsv")))
    raw = text_table(path, those_there(path, _FIXATIONS, _FIXATIONS_MORE), separator="\t")
    n_rows = len(raw)
    raw = correct(raw, page, "sentences", lost)
    if not len(raw):
        raise DataError(f"0 of {n_rows} rows valid", source=path)
    fixations = _fixations(raw, path)
    area_paths = find_files(data, "sent_ia.tsv")
    reports = {}
    if area_paths:
        columns = those_there(area_paths[0], _AREAS, [*_MORE, "question", *_REPORT])
        areas = text_table(area_paths[0], columns, separator="\t")
        areas = correct(areas, page, "sentences", lost)
        rows = _rows(areas, "IA_ID", "IA_LABEL", area_paths[0], page, lost)
        report = {c: as_number(areas[c], c, area_paths[0], 2) for c in _REPORT if c in areas}
        reports["eyelink"] = pd.DataFrame(
            {"trial": rows["trial"], "word": as_word(rows["number"]), **report}
        )
        both = pd.concat([_trial_rows(raw), _trial_rows(areas)], ignore_index=True)
    else:
        rows = _rows(raw, f"{_AREA}_ID", f"{_AREA}_LABEL", path, page, lost)
        both = _trial_rows(raw)
    words = word_table(rows, lost, whole=bool(area_paths))
    sentences = both.drop_duplicates("stimulus").set_index("stimulus")["sentence"]
    reports["text_check"] = check_texts(words, dict(sentences), lost)
    fixations = known_words(numbered(fixations, lost), words, lost)
    trials = both.drop_duplicates("trial").drop(columns="sentence").reset_index(drop=True)
    trials["condition"] = "reading for comprehension"
    trials = _readers(folder, trials, reports, lost)
    _missing(trials, page, lost)
    folds = _folds(folder, data, trials, lost)
    if folds is not None:
        reports["folds"] = folds
    artefacts = words["text"].str.contains("cann't", regex=False) | (words["text"] == "'d")
    lost.add("words", "note", page.rule("joined words"), int(artefacts.sum()), "words")
    labels = [c for c in page.labels if c in trials and trials[c].notna().any()]
    return build(
        page,
        fixations,
        words,
        trials,
        units="words",
        stimuli={
            name: {**facts, "sentence": str(sentences.get(name, facts["text"]))}
            for name, facts in texts_of(words).items()
        },
        lost=lost,
        counts={"fixations_in_all": n_rows},
        reports=reports,
        labels=tuple(labels),
        edition=f"release {data.name.removeprefix('data_').removeprefix('v')}",
        version=data.name,
    )


def _release(folder: Path, page: Corpus, version: str | None) -> Path:
    """Return the folder of a release; the last one by default."""
    there = sorted(p.parent for p in find_files(folder, "data_*/sent_fix.tsv"))
    names = [p.name.removeprefix("data_") for p in there]
    if not there or (version is not None and str(version) not in names):
        raise MissingAssetError(
            f"{folder} has no data_{version or '*'}/sent_fix.tsv of {page.name!r}; found: "
            f"{', '.join(names) or 'none'}"
        )
    return there[names.index(str(version)) if version is not None else -1]


def _ids(raw: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    reader = number_text(raw["list"])
    return reader, reader + "_" + number_text(raw["trial"])


def _trial_rows(raw: pd.DataFrame) -> pd.DataFrame:
    reader, trial = _ids(raw)
    rows = pd.DataFrame(
        {
            "participant": reader,
            "trial": trial,
            "stimulus": raw["sentenceid"],
            "sentence": raw["sentence"],
        }
    )
    for name, ours in _MORE.items():
        if name in raw:
            rows[ours] = raw[name]
    if "question" in raw:
        rows["question"] = raw["question"].where(~raw["question"].isin(["", "."]))
    rows = rows.drop_duplicates("trial").reset_index(drop=True)
    for ours in _MORE.values():
        if ours in rows:
            rows[ours] = as_truth(rows[ours].str.replace(r"\.0$", "", regex=True), ours)
    return rows


def _label(values: pd.Series) -> pd.Series:
    """Return labels without what follows a tab inside them."""
    return values.str.partition("\t")[0].str.strip()


def _rows(
    raw: pd.DataFrame, number: str, label: str, path: Path, page: Corpus, lost: LossLog
) -> pd.DataFrame:
    text = _label(raw[label])
    cut = int((raw[label].str.strip() != text).sum())
    lost.add("words", "repaired", page.rule("tab in label"), cut, "labels")
    numbers = whole(raw[number], number, path)
    return pd.DataFrame(
        {"stimulus": raw["sentenceid"], "number": numbers, "text": text, "trial": _ids(raw)[1]}
    )


def _fixations(raw: pd.DataFrame, path: Path) -> pd.DataFrame:
    reader, trial = _ids(raw)
    names = {"X": "x", "Y": "y", "DURATION": "duration", "PUPIL": "pupil", "START": "onset"}
    numbers = {
        ours: as_number(raw[f"CURRENT_FIX_{c}"], f"CURRENT_FIX_{c}", path, 2)
        for c, ours in names.items()
        if f"CURRENT_FIX_{c}" in raw
    }
    table = pd.DataFrame(
        {
            "participant": reader,
            "trial": trial,
            "stimulus": raw["sentenceid"],
            "index": whole(raw["CURRENT_FIX_INDEX"], "CURRENT_FIX_INDEX", path),
            **numbers,
            "word": as_word(whole(raw[f"{_AREA}_ID"], f"{_AREA}_ID", path)),
        }
    )
    if "CURRENT_FIX_BLINK_AROUND" in raw:
        around = raw["CURRENT_FIX_BLINK_AROUND"]
        table["blink"] = (around != "NONE").astype("boolean").mask(around.isin(["", "."]))
    if "EYE_USED" in raw:
        table["eye"] = raw["EYE_USED"].str.lower()
    return table


def _readers(
    folder: Path, trials: pd.DataFrame, reports: dict[str, pd.DataFrame], lost: LossLog
) -> pd.DataFrame:
    found = find_files(folder, "participant_metadata/metadata.tsv")
    if not found:
        return trials
    raw = text_table(found[0], separator="\t", quote=None, needs=["List", "L1"])
    readers = pd.DataFrame({"participant": number_text(raw["List"])})
    for name, ours in _READERS.items():
        if name in raw:
            readers[ours] = raw[name].where(raw[name] != "")
    for ours in ("age", "toefl"):
        if ours in readers:
            readers[ours] = as_number(readers[ours], ours, found[0], 2)
    readers["native"] = (readers["l1"] == "English").astype("boolean").mask(readers["l1"].isna())
    reports["readers"] = readers
    no_row_twice(readers, ["participant"], found[0])
    trials = trials.merge(readers, on="participant", how="left", validate="m:1")
    without = trials.loc[trials["l1"].isna(), "participant"].unique()
    reason = "readers without a line in the metadata"
    lost.add("trials", "undefined", reason, len(without), "readers", without)
    return trials


def _missing(trials: pd.DataFrame, page: Corpus, lost: LossLog) -> None:
    """Count the listed trials that were never recorded, or removed by the publisher."""
    here, known = set(trials["participant"]), set(trials["trial"])
    for entry in page.corrections:
        if "missing" not in entry:
            continue
        ids = [f"{reader}_{trial}" for reader, trial in entry["missing"] if str(reader) in here]
        gone = [t for t in ids if t not in known]
        there = [t for t in ids if t not in gone]
        lost.add("trials", "note", str(entry["reason"]), len(gone), "trials", gone)
        reason = f"is listed as missing, but is there ({entry['reason']})"
        lost.add("trials", "note", reason, len(there), "trials", there)


def _folds(folder: Path, data: Path, trials: pd.DataFrame, lost: LossLog) -> pd.DataFrame | None:
    """Return the published split of participants of the release."""
    short = data.name.removeprefix("data_").split(".")[0]
    parts = {}
    for part in ("train", "test"):
        found = find_files(folder, f"splits/participants/{short}/{part}.csv")
        if found:
            parts[part] = set(number_text(text_table(found[0], ["List"])["List"]))
    if len(parts) < 2:
        return None
    twice = sorted(parts["train"] & parts["test"])
    lost.add("folds", "note", "readers in both parts of the split", len(twice), "readers", twice)
    reader = trials["participant"]
    asked = [reader.isin(parts["test"]), reader.isin(parts["train"])]
    side = np.select(asked, ["test", "train"], default="")
    known = side != ""
    alone = reader[~known].unique()
    lost.add("folds", "note", "readers that are in no part of the split", len(alone), "readers")
    folds = pd.DataFrame({"fold": short, "trial": trials["trial"], "part": side})
    folds["regime"] = pd.Series("unseen_reader", index=folds.index).where(folds["part"] == "test")
    return folds[known][list(FOLDS)].reset_index(drop=True)
