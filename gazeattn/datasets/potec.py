"""PoTeC: German textbook passages read by beginning and expert students of physics and biology.

Jakobi, Kern, Reich, Haller & Jäger (2025), PoTeC: A German naturalistic eye-tracking-while-reading
corpus, Behavior Research Methods 57, 211.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from gazeattn.columns import as_number
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, correct, register_corpus
from gazeattn.datasets.corpusfiles import find_files, text_table
from gazeattn.datasets.otherfiles import number_text
from gazeattn.datasets.parts import build, need_columns, one_file, outside
from gazeattn.datasets.wordlevel import (
    as_word,
    check_texts,
    choice,
    drop_columns,
    known_words,
    measures_of,
    no_row_twice,
    numbered,
    texts_of,
    whole,
    word_table,
)
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.tables import SIDES, LossLog

FOLDERS = {
    "corrected": "**/reader{reader}_{text}_scanpath.tsv",
    "uncorrected": "**/reader{reader}_{text}_uncorrected_fixations.tsv",
}
_FEATURES = ["word", "word_index_in_text", "word_limit_char_indices"]
_BOXES = {"start_x": "left", "start_y": "top", "end_x": "right", "end_y": "bottom"}
_ANSWERS = [f"acc_{kind}_{n}" for kind in ("tq", "bq") for n in (1, 2, 3)]
_MEASURES = {
    "FFD": "first_fixation_duration",
    "SFD": "single_fixation_duration",
    "FPRT": "gaze_duration",
    "RPD_inc": "go_past_time",
    "TFT": "total_reading_time",
    "TRC_out": "regressions_out",
    "TRC_in": "regressions_in",
    "Fix": "fixated",
    "FPF": "first_pass_fixated",
}
_DURATIONS = ("FFD", "SFD", "FPRT", "RPD_inc")


@register_corpus("potec")
def load(folder: Path, page: Corpus, fixations: str = "corrected") -> GazeDataset:
    """Load PoTeC; a trial is one reader and one text, called ``12_p3``.

    Parameters
    ----------
    fixations : {"corrected", "uncorrected"}
        ``"corrected"`` (the scanpath files): lines were corrected by hand, the word is published,
        and there is no x, y. ``"uncorrected"``: x and y in pixels of the screen and the character
        that was hit; the word follows from the characters of each word, where a mark before a
        word belongs to it and any other mark or blank to the word before.

    Notes
    -----
    ``word`` is the published number, from 1. ``reports`` holds ``measures`` (published word
    measures), ``text_check`` (words that are not those of ``stimuli.tsv``) and ``readers``, where
    their files are there. The published 0 of a first-pass duration means "not fixated in the
    first pass": missing here.
    """
    lost = LossLog()
    kind = choice(fixations, FOLDERS, "fixations")
    paths = find_files(folder, FOLDERS[kind])
    if not paths:
        other = [k for k in FOLDERS if find_files(folder, FOLDERS[k])]
        raise MissingAssetError(
            f"{folder} has no {FOLDERS[kind].removeprefix('**/')} of {page.name!r}"
            + (f"; fixations={other[0]!r} is there" if other else "")
        )
    raw = _read(paths)
    n_rows = len(raw)
    raw = correct(raw, page, "fixations", lost)
    if not len(raw):
        raise DataError(f"0 of {n_rows} rows valid", source=folder)
    words, features = _words(folder, page, lost)
    table = _corrected(raw, folder) if kind == "corrected" else _uncorrected(raw, features, folder)
    screen = page.screen or (np.inf, np.inf)
    if "x" in table:
        table["off_screen"] = outside(table["x"], table["y"], *screen)
    texts, reports = one_file(folder, "**/stimuli.tsv"), {}
    published = {}
    if texts is not None:
        shown = text_table(texts, separator="\t", needs=["text_id", "text"])
        published = dict(zip(shown["text_id"], shown["text"].str.strip(), strict=True))
        reports["text_check"] = check_texts(words, published, lost)
    table = known_words(numbered(table, lost), words, lost)
    trials = _trials(raw, table, folder, reports, lost)
    measures = _measures(folder, page, lost)
    if measures is not None:
        known = measures["trial"].isin(trials["trial"])
        reason = "word measures of trials that have no fixations here"
        lost.add("measures", "dropped", reason, int((~known).sum()))
        reports["measures"] = measures[known].reset_index(drop=True)
    facts = texts_of(words, page.screen)
    for name, text in published.items():
        if name in facts:
            facts[name]["published_text"] = text
    labels = [c for c in page.labels if c in trials and trials[c].notna().any()]
    return build(
        page,
        table,
        words,
        trials,
        units="words",
        stimuli=facts,
        lost=lost,
        counts={"fixations_in_all": n_rows, "fixation_files": len(paths)},
        reports=reports,
        edition=kind,
        labels=tuple(labels),
        fixation_kind=kind,
    )


def _read(paths: list[Path]) -> pd.DataFrame:
    tables = []
    for path in paths:
        reader, text = path.name.split("_")[:2]
        needs = ["fixation_index", "fixation_duration"]
        table = text_table(path, separator="\t", needs=needs)
        tables.append(table.assign(reader_id=reader.removeprefix("reader"), text_id=text))
    return pd.concat(tables, ignore_index=True)


def _base(raw: pd.DataFrame, source: Path) -> dict[str, pd.Series]:
    return {
        "participant": raw["reader_id"],
        "trial": raw["reader_id"] + "_" + raw["text_id"],
        "stimulus": raw["text_id"],
        "index": whole(raw["fixation_index"], "fixation_index", source),
        "duration": as_number(raw["fixation_duration"], "fixation_duration", source, 2),
    }


def _corrected(raw: pd.DataFrame, source: Path) -> pd.DataFrame:
    need_columns(raw, ["word_index_in_text"], source)
    table = _base(raw, source)
    word = whole(raw["word_index_in_text"], "word_index_in_text", source)
    table["word"] = as_word(word)
    if "line" in raw:
        table["line"] = whole(raw["line"], "line", source) - 1
    if "char_index_in_text" in raw:
        table["area"] = number_text(raw["char_index_in_text"])
    if "is_fixation_adjusted" in raw:
        adjusted = raw["is_fixation_adjusted"].str.casefold()
        table["adjusted"] = (adjusted == "true").astype("boolean").mask(adjusted.isin(["", "na"]))
    return pd.DataFrame(table)


def _uncorrected(raw: pd.DataFrame, features: pd.DataFrame, source: Path) -> pd.DataFrame:
    area = "aoi" if "aoi" in raw else "roi"
    need_columns(raw, [area, "fixation_position_x", "fixation_position_y"], source)
    table = _base(raw, source)
    for column, ours in (("fixation_position_x", "x"), ("fixation_position_y", "y")):
        table[ours] = as_number(raw[column], column, source, 2)
    char = whole(raw[area], area, source)
    table["area"] = as_word(char)
    word = pd.Series(pd.NA, index=raw.index, dtype="Int64")
    for text, rows in raw.groupby("text_id").groups.items():
        words = features[features["text_id"] == text].sort_values("begin")
        if not len(words):
            continue
        hit = char.loc[rows].astype("float64").to_numpy()
        at = np.searchsorted(words["begin"].to_numpy(), np.nan_to_num(hit, nan=-1), "right") - 1
        inside = (at >= 0) & (hit <= words["end"].max() + 1)
        numbers = words["number"].to_numpy()[np.maximum(at, 0)]
        word.loc[rows] = pd.array(np.where(inside, numbers, -1), dtype="Int64")
    table["word"] = as_word(word.mask(word < 0))
    return pd.DataFrame(table)


def _words(folder: Path, page: Corpus, lost: LossLog) -> tuple[pd.DataFrame, pd.DataFrame]:
    paths = find_files(folder, "**/word_features_{text}.tsv")
    if not paths:
        raise MissingAssetError(
            f"{folder} has no stimuli/word_features/word_features_{{text}}.tsv of {page.name!r}"
        )
    tables = []
    for path in paths:
        text = path.name.split(".")[0].rpartition("_")[2]
        table = text_table(path, separator="\t", quote=None, needs=_FEATURES)
        limits = table["word_limit_char_indices"].str.extract(r"^\s*(\d+)\s*,\s*(\d+)\s*$")
        if limits.isna().any().any():
            row = int(limits.isna().any(axis=1).to_numpy().argmax())
            raise DataError(
                "no first and last character of a word",
                source=path,
                row=row + 2,
                expected="word_limit_char_indices such as 4,16",
                found=repr(table["word_limit_char_indices"][row]),
            )
        before = table["STTS_punctuation_before"] if "STTS_punctuation_before" in table else ""
        mark = (pd.Series(before, index=table.index) != "") & (before != "0")
        number = whole(table["word_index_in_text"], "word_index_in_text", path)
        begin = limits[0].astype("int64") - mark.astype("int64")
        shared = {"text_id": text, "number": number, "begin": begin}
        tables.append(
            pd.DataFrame({**shared, "end": limits[1].astype("int64"), "text": table["word"]})
        )
        bad = [c for c in map(str, table) if "surprisal" in c.casefold()]
        lost.add("words", "dropped", page.rule("surprisal"), len(bad), "columns", bad)
    features = no_row_twice(pd.concat(tables, ignore_index=True), ["text_id", "number"], folder)
    rows = features.rename(columns={"text_id": "stimulus"})
    boxes = _boxes(folder, lost)
    if boxes is not None:
        rows = rows.merge(boxes, on=["stimulus", "number"], how="left", validate="1:1")
        shown = rows["shown"]
        rows["text"] = shown.where(_same(rows["text"], shown), rows["text"])
    words = word_table(rows, lost)
    return words, features


def _same(plain: pd.Series, shown: pd.Series) -> pd.Series:
    """Tell whether a word of the display is the plain word with marks around it."""
    bare = shown.str.replace(r"^[^\w]+|[^\w]+$", "", regex=True)
    return (bare == plain.str.replace(r"^[^\w]+|[^\w]+$", "", regex=True)).fillna(False)


def _boxes(folder: Path, lost: LossLog) -> pd.DataFrame | None:
    tables = []
    for path in find_files(folder, "**/word_aoi_{text}.tsv"):
        text = path.name.split(".")[0].rpartition("_")[2]
        table = text_table(path, separator="\t", quote=None, needs=["aoi", "word", *_BOXES])
        sides = {ours: as_number(table[c], c, path, 2) for c, ours in _BOXES.items()}
        number = whole(table["aoi"], "aoi", path)
        tables.append(
            pd.DataFrame({"stimulus": text, "number": number, "shown": table["word"], **sides})
        )
    if not tables:
        lost.add("words", "undefined", "no file of word boxes (word_aoi_{text}.tsv)", 1, "files")
        return None
    boxes = pd.concat(tables, ignore_index=True)[["stimulus", "number", "shown", *SIDES]]
    return no_row_twice(boxes, ["stimulus", "number"], folder)


def _trials(
    raw: pd.DataFrame,
    table: pd.DataFrame,
    folder: Path,
    reports: dict[str, pd.DataFrame],
    lost: LossLog,
) -> pd.DataFrame:
    there = [c for c in ("trial", "text_domain", *_ANSWERS) if c in raw]
    more = raw[there].rename(columns={"trial": "position"}).assign(trial=table["trial"])
    more = more.drop_duplicates("trial")
    trials = table[["participant", "trial", "stimulus"]].drop_duplicates("trial")
    trials = trials.merge(more, on="trial", how="left", validate="1:1")
    for column in ("position", *_ANSWERS):
        if column in trials:
            trials[column] = as_number(trials[column], column, folder)
    trials["condition"] = "reading for comprehension"
    path = one_file(folder, "**/participant_response_accuracy.tsv")
    if path is None:
        return trials
    readers = text_table(path, separator="\t", needs=["reader_id", "text_id"])
    names = list(map(str, readers))
    numbers = [c for c in names if c.startswith(("acc_", "mean_acc_")) or c.endswith("_numeric")]
    readers = readers.assign(**{c: as_number(readers[c], c, path, 2) for c in numbers})
    reports["readers"] = no_row_twice(readers, ["reader_id", "text_id"], path)
    keys = ["participant", "stimulus"]
    readers = readers.rename(columns={"reader_id": "participant", "text_id": "stimulus"})
    own = [c for c in readers if c not in trials]
    trials = trials.merge(readers[[*keys, *own]], on=keys, how="left", validate="m:1")
    if "mean_acc_tq" in trials:
        none = int(trials["mean_acc_tq"].isna().sum())
        lost.add("trials", "undefined", "no answers were recorded", none, "trials")
    return trials


def _measures(folder: Path, page: Corpus, lost: LossLog) -> pd.DataFrame | None:
    paths = find_files(folder, "**/reader{reader}_{text}_merged.tsv")
    if not paths:
        return None
    tables = []
    for path in paths:
        reader, text = path.name.removeprefix("reader").split("_")[:2]
        needs = ["word", "word_index_in_text", "TFT"]
        raw = text_table(path, separator="\t", needs=needs)
        raw = drop_columns(raw, "surprisal", page.rule("surprisal"), lost, "measures")
        number = whole(raw["word_index_in_text"], "word_index_in_text", path)
        ids = {
            "participant": pd.Series(reader, index=raw.index),
            "trial": f"{reader}_{text}",
            "stimulus": text,
            "word": as_word(number),
            "text": raw["word"],
        }
        tables.append(measures_of(raw, ids, _MEASURES, path))
    measures = pd.concat(tables, ignore_index=True)
    for name in _DURATIONS:
        ours = _MEASURES[name]
        if ours in measures:
            measures[ours] = measures[ours].mask(measures[ours] == 0)
    return measures
