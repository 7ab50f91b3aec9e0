"""CopCo, the Copenhagen Corpus: Danish speeches read by typical readers, readers with dyslexia and
learners of Danish.

Hollenstein, Barrett & Björnsdóttir (2022), The Copenhagen Corpus of Eye Tracking Recordings from
Natural Reading of Danish Texts, LREC 2022.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.columns import as_number, as_truth
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.copco_areas import characters, layouts_of, mended
from gazeattn.datasets.corpus import FOLDS, Corpus, correct, need_file, register_corpus
from gazeattn.datasets.corpusfiles import find_files, text_table
from gazeattn.datasets.layouts import lines_of
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.tables import LossLog, check_fixations, check_trials, check_words

CONDITION = "ordinary reading"
PRACTICE, TITLE = "1327", "-1"
REGIMES = {
    "unseen_subject_seen_item": "unseen_reader",
    "seen_subject_unseen_item": "unseen_text",
    "unseen_subject_unseen_item": "unseen_both",
}
_AREA = "CURRENT_FIX_INTEREST_AREA"
_NEAREST = "CURRENT_FIX_NEAREST_INTEREST_AREA"
_REPORT = [
    *("RECORDING_SESSION_LABEL", "TRIAL_INDEX", "Trial_Index_", "speechid", "paragraphid"),
    *("CURRENT_FIX_INDEX", "CURRENT_FIX_LABEL", "CURRENT_FIX_DURATION", "EYE_USED"),
    *(f"{_AREA}_ID", f"{_AREA}_DATA", f"{_AREA}_LABEL", _NEAREST, f"{_NEAREST}_DISTANCE"),
    *("NEXT_SAC_AMPLITUDE", "NEXT_SAC_DURATION", "NEXT_SAC_PEAK_VELOCITY"),
]
_MEASURES = {
    "landing_position": "landing_position",
    "word_first_fix_dur": "first_fixation_duration",
    "word_first_pass_dur": "gaze_duration",
    "word_go_past_time": "go_past_time",
    "word_mean_fix_dur": "mean_fixation_duration",
    "word_total_fix_dur": "total_reading_time",
    "number_of_fixations": "fixation_count",
    "word_mean_sacc_dur": "mean_saccade_duration",
    "word_peak_sacc_velocity": "peak_saccade_velocity",
}


@register_corpus("copco")
def load(folder: Path, page: Corpus, predictions: bool = False) -> GazeDataset:
    """Load CopCo; a trial is one reader and one paragraph, called ``P04_10365_0``.

    Parameters
    ----------
    predictions
        Read the published predictions of the EyeBench models too (``reports["predictions"]``).

    Notes
    -----
    Stimuli are called ``speech_paragraph``. There is no x and y: fixations have the character area
    that was hit (``area``, from 1; ``area_x`` and ``area_y`` are its middle in pixels), the word it
    belongs to, and the nearest area where none was hit. Areas of a question below the text are on
    no word (``on_question``). Reports were exported with a minimum of 100 ms. ``reports`` holds
    ``measures`` (published word measures), ``folds`` (EyeBench; ``scores`` in their trial table are
    the readers' comprehension scores), ``readers``, ``answers`` and ``interest_areas``, where their
    files are there.
    """
    lost = LossLog()
    raw = _read_reports(folder, page)
    n_rows = len(raw)
    two_counters = int((raw["TRIAL_INDEX"] != raw["Trial_Index_"]).sum())
    raw = correct(raw, page, "fixations", lost)
    if not len(raw):
        raise DataError(f"0 of {n_rows} rows valid: all are practice or titles", source=folder)
    lost.add("fixations", "note", page.rule("trial counter"), two_counters)
    boxes = {n: text_table(need_file(folder, page, f"{n}_boxes.csv")) for n in ("word", "char")}
    word_map = text_table(need_file(folder, page, "word2char_IA_mapping.csv"))
    words, chars = characters(boxes["word"], boxes["char"], word_map, folder)

    fixations = _fixations(raw, chars, page, lost)
    words, layout_of_trial = layouts_of(words, chars, fixations, page, lost)
    words["line"] = lines_of(words)
    words, log = check_words(words, source=folder / "word_boxes.csv")
    lost.extend(log)
    reader_path = need_file(folder, page, "participant_stats.csv")
    readers = _readers(correct(text_table(reader_path), page, "readers", lost))
    answers = _answers(folder, page, lost)
    questions = find_files(folder, "df_experimental_speeches.tsv")
    asked = text_table(questions[0], separator="\t", ragged=True) if questions else None
    trials = _trials(fixations, layout_of_trial, readers, answers, asked, page, lost)
    trials, log = check_trials(trials, source=folder)
    lost.extend(log)
    dropped = ["box_left", "box_top", "box_right", "box_bottom", "trial_index", "answer_index"]
    fixations, log = check_fixations(fixations.drop(columns=dropped), source=folder)
    lost.extend(log)

    reports = {"measures": _measures(folder, page), "readers": readers}
    folds = _folds(folder, page, lost)
    if folds is not None:
        reports["folds"] = folds
    if answers is not None:
        reports["answers"] = answers
    areas = _areas(folder)
    if areas is not None:
        reports["interest_areas"] = areas
    if predictions:
        reports["predictions"] = _predictions(folder, page)
    texts = words[words["layout"] == words["stimulus"]].groupby("stimulus")["text"].agg(" ".join)
    dataset = GazeDataset(
        name="copco",
        fixations=fixations,
        words=words,
        trials=trials,
        stimuli={str(n): {"text": t, "size": page.screen} for n, t in texts.items()},
        reports=reports,
        lost=lost,
    )
    rows = {
        "fixations_in_all": n_rows,
        "rows_with_two_trial_counters": two_counters,
        "word_map_rows": len(word_map),
        "word_box_rows": len(boxes["word"]),
        "char_box_rows": len(boxes["char"]),
        "prediction_files": len(find_files(folder, "eyebench_predictions/*__fold*.csv")),
    }
    if asked is not None:
        rows["paragraphs"] = len(asked)
        rows["paragraphs_with_question"] = int((asked["Question"] != "NO QUESTION").sum())
    dataset.info["counts"] = rows | _counts(dataset) | _map_counts(word_map)
    return dataset


def _read_reports(folder: Path, page: Corpus) -> pd.DataFrame:
    paths = find_files(folder, "FixationReports/FIX_report_{participant}.txt")
    if not paths:
        raise MissingAssetError(f"{folder} has no fixation report of {page.name!r}")
    tables = [text_table(p, _REPORT, separator="\t", quote=None) for p in paths]
    raw = pd.concat(tables, ignore_index=True)
    for column in ("RECORDING_SESSION_LABEL", "EYE_USED", f"{_AREA}_LABEL"):
        raw[column] = _unique(raw[column], unquoted)
    return raw


def unquoted(text: str) -> str:
    """Take one pair of quotes off; what is inside may be a quote itself."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _unique(values: pd.Series, change: Any) -> pd.Series:
    """Change each distinct value once."""
    codes, uniques = pd.factorize(values)
    changed = pd.array([change(u) for u in uniques], dtype="str")
    return pd.Series(changed.take(codes), index=values.index, name=values.name)


def decimal(values: pd.Series) -> pd.Series:
    """Return numbers that are written with a decimal comma; a lone dot is missing."""
    codes, uniques = pd.factorize(values)
    texts = pd.Series(uniques, dtype="str").str.replace(",", ".", regex=False)
    numbers = as_number(texts, str(values.name), "fixations").to_numpy()
    return pd.Series(numbers[codes], index=values.index)


def _onset(label: str) -> str:
    found = re.fullmatch(r"Fixation: (-?\d+) ms", unquoted(label))
    if found is None:
        raise DataError("no onset in CURRENT_FIX_LABEL", expected="Fixation: 398 ms", found=label)
    return found[1]


def _rectangles(values: pd.Series) -> pd.DataFrame:
    codes, uniques = pd.factorize(values)
    number = r"(-?[\d.]+)"
    pattern = rf"RECTANGLE, {number}, {number}, {number}, {number}\]"
    sides = pd.Series(uniques, dtype="str").str.extract(pattern).astype("float64")
    sides.columns = ["box_left", "box_top", "box_right", "box_bottom"]
    return sides.take(codes).set_axis(values.index)


def _fixations(raw: pd.DataFrame, chars: pd.DataFrame, page: Corpus, lost: LossLog) -> pd.DataFrame:
    stimulus = raw["speechid"] + "_" + raw["paragraphid"]
    area = as_number(raw[f"{_AREA}_ID"], f"{_AREA}_ID", "fixations")
    table = pd.DataFrame(
        {
            "participant": raw["RECORDING_SESSION_LABEL"],
            "trial": raw["RECORDING_SESSION_LABEL"] + "_" + stimulus,
            "stimulus": stimulus,
            "index": as_number(raw["CURRENT_FIX_INDEX"], "CURRENT_FIX_INDEX", "fixations"),
            "onset": as_number(_unique(raw["CURRENT_FIX_LABEL"], _onset)),
            "duration": decimal(raw["CURRENT_FIX_DURATION"]),
            "dataset": "copco",
            "eye": raw["EYE_USED"].str.lower(),
            "area": area.astype("Int64").astype("str").where(area.notna()),
            "nearest_area": raw[_NEAREST].where(raw[_NEAREST] != "."),
            "nearest_distance": decimal(raw[f"{_NEAREST}_DISTANCE"]),
            "saccade_amplitude": decimal(raw["NEXT_SAC_AMPLITUDE"]),
            "saccade_duration": decimal(raw["NEXT_SAC_DURATION"]),
            "saccade_peak_velocity": decimal(raw["NEXT_SAC_PEAK_VELOCITY"]),
            "trial_index": raw["TRIAL_INDEX"],
            "answer_index": raw["Trial_Index_"],
        }
    )
    keys = pd.MultiIndex.from_arrays([chars["stimulus"], chars["number"]])
    at = keys.get_indexer(pd.MultiIndex.from_arrays([stimulus, area.fillna(-1)]))
    known, on_area = at >= 0, area.notna().to_numpy()
    take = np.where(known, at, 0)
    table["word"] = chars["word"].take(take).set_axis(table.index).where(known)
    table["character"] = chars["character"].take(take).set_axis(table.index).where(known)
    table["on_question"] = known & chars["is_question"].to_numpy()[take]
    lost.add("fixations", "note", page.rule("character areas"), int(on_area.sum()))
    lost.add("fixations", "note", "on no character area", int((~on_area).sum()))
    asked = int(table["on_question"].sum())
    lost.add("fixations", "note", "on the question below the text: on no word", asked)
    strange = on_area & ~known
    lost.add(
        "fixations",
        "undefined",
        "their character area is in no box table: on no word",
        int(strange.sum()),
        examples=table.loc[strange, "trial"].unique(),
    )
    _labels(table, raw[f"{_AREA}_LABEL"], chars["label"].take(take).to_numpy(), known, page, lost)
    table = table.join(_rectangles(raw[f"{_AREA}_DATA"]))
    table["area_x"] = (table["box_left"] + table["box_right"]) / 2
    table["area_y"] = (table["box_top"] + table["box_bottom"]) / 2
    return table


def _labels(
    table: pd.DataFrame,
    label: pd.Series,
    of_box: np.ndarray,
    known: np.ndarray,
    page: Corpus,
    lost: LossLog,
) -> None:
    """Repair labels one by one, and compare them with those of the boxes."""
    label = label.where(table["area"].notna())  # a dot beside an area number is a full stop
    repaired = _unique(label.fillna(""), mended).where(label.notna())
    changed = (repaired != label) & label.notna()
    lost.add("fixations", "repaired", page.rule("double encoding"), int(changed.sum()), "labels")
    gone = repaired.str.contains("\ufffd", regex=False, na=False).to_numpy(dtype=bool)
    lost.add("fixations", "undefined", page.rule("lost letters"), int(gone.sum()), "labels")
    table["area_label"] = repaired.mask(gone)
    differ = known & table["area_label"].notna().to_numpy() & (repaired.to_numpy() != of_box)
    lost.add(
        "fixations",
        "note",
        "label of the area is not that of the box table",
        int(differ.sum()),
        examples=table.loc[differ, "trial"].unique(),
    )


def _readers(raw: pd.DataFrame) -> pd.DataFrame:
    readers = pd.DataFrame({"participant": raw["subj"]})
    readers["dyslexia"] = as_truth(raw["dyslexia"], "dyslexia", "participant_stats")
    readers["native_language"] = raw["native_language"]
    # "Czech/Danish (bilingual)" is a native reader too
    native = raw["native_language"].str.contains("Danish", regex=False)
    readers["l2"] = (~native).astype("boolean")
    group = np.where(readers["dyslexia"].fillna(False), "dyslexic", "typical")
    readers["group"] = pd.Series(np.where(readers["l2"], "L2", group), dtype="str")
    numbers = {
        "comprehension_score": "score_reading_comprehension_test",
        "comprehension_accuracy": "comprehension_accuracy",
        "pseudohomophone_score": "pseudohomophone_score",
        "words_per_minute": "words_per_minute",
        "number_of_speeches": "number_of_speeches",
        "number_of_questions": "number_of_questions",
        "age": "age",
    }
    for ours, theirs in numbers.items():
        readers[ours] = as_number(raw[theirs], theirs, "participant_stats")
    return readers.assign(sex=raw["sex"], vision=raw["vision"])


def _answers(folder: Path, page: Corpus, lost: LossLog) -> pd.DataFrame | None:
    found = find_files(folder, "comprehension_results.csv")
    if not found:
        return None
    raw = correct(text_table(found[0]), page, "answers", lost)
    answer_time = as_number(raw["QUESTION_RT"], "QUESTION_RT", found[0])
    return pd.DataFrame(
        {
            "participant": raw["Session_Name_"],
            "answer_index": raw["Trial_Index_"],
            "stimulus": raw["speechid"] + "_" + raw["paragraphid"],
            "question": raw["question"].where(raw["question"] != "NO QUESTION"),
            "answered_correctly": as_truth(raw["QUESTION_ACCURACY"], "QUESTION_ACCURACY", found[0]),
            "answer_time_ms": answer_time.where(answer_time >= 0),
            "screen_time_ms": as_number(raw["SENTENCE_RT"], "SENTENCE_RT", found[0]),
        }
    )


def _trials(
    fixations: pd.DataFrame,
    layout_of_trial: pd.Series,
    readers: pd.DataFrame,
    answers: pd.DataFrame | None,
    asked: pd.DataFrame | None,
    page: Corpus,
    lost: LossLog,
) -> pd.DataFrame:
    heads = fixations.drop_duplicates("trial").sort_values("trial", kind="stable")
    screens = fixations.groupby("trial")["trial_index"].nunique()
    lost.add("trials", "note", "paragraph on several screens", int((screens > 1).sum()), "trials")
    columns = ["participant", "trial", "stimulus", "trial_index", "answer_index"]
    trials = heads[columns].reset_index(drop=True)
    trials["layout"] = trials["trial"].map(layout_of_trial).astype("str")
    trials["condition"] = CONDITION
    trials[["speech", "paragraph"]] = trials["stimulus"].str.split("_", expand=True)
    if asked is not None:
        text = asked["Question"].str.replace("\\n", "\n", regex=False).str.strip()
        text = text.where(~asked["Question"].isin(["NO QUESTION", ""]))
        text.index = pd.Index(asked["SpeechID"] + "_" + asked["ParagraphID"])
        trials["question"] = trials["stimulus"].map(text[~text.index.duplicated()])
    trials = trials.merge(readers, on="participant", how="left", validate="m:1")
    unknown = trials["group"].isna()
    lost.add("trials", "undefined", "no labels of the reader", int(unknown.sum()), "trials")
    if answers is not None:
        keys = ["participant", "answer_index", "stimulus"]
        facts = answers.drop(columns="question").drop_duplicates(keys)
        trials = trials.merge(facts, on=keys, how="left", validate="m:1")
        answered = facts["answered_correctly"].notna().sum()
        found = trials["answered_correctly"].notna().sum()
        lost.add("answers", "dropped", "their screen has no fixation", int(answered - found))
    rule = next(c for c in page.corrections if c.get("rule") == "labels doubtful")
    doubtful = trials["participant"].isin([str(p) for p in rule["participants"]])
    trials["labels_doubtful"] = doubtful.astype("boolean")
    lost.add("trials", "note", str(rule["reason"]), int(doubtful.sum()), "trials")
    return trials


def _measures(folder: Path, page: Corpus) -> pd.DataFrame:
    paths = find_files(folder, "ExtractedFeatures/{participant}.csv")
    if not paths:
        need_file(folder, page, "ExtractedFeatures/{participant}.csv")
    columns = ["speechId", "paragraphId", "wordId", "word", *_MEASURES]
    tables = []
    for path in paths:
        reader = path.name.split(".")[0]
        tables.append(text_table(path, columns, numbers=_MEASURES).assign(participant=reader))
    raw = pd.concat(tables, ignore_index=True)
    stimulus = raw["speechId"] + "_" + raw["paragraphId"]
    measures = pd.DataFrame(
        {
            "participant": raw["participant"],
            "trial": raw["participant"] + "_" + stimulus,
            "word": raw["wordId"],
            "text": raw["word"],
        }
    )
    for theirs, ours in _MEASURES.items():
        measures[ours] = raw[theirs].astype("float64")
    return measures


def _folds(folder: Path, page: Corpus, lost: LossLog) -> pd.DataFrame | None:
    tables = []
    for path in find_files(folder, "eyebench_folds/fold_{fold}_trial_ids_by_regime.csv"):
        raw = correct(text_table(path), page, "folds", lost)
        part = raw["regime"].str.split("_", n=1, expand=True)
        tables.append(
            pd.DataFrame(
                {
                    "fold": path.name.split("_")[1],
                    "trial": raw["unique_trial_id"],
                    "part": part[0],
                    "regime": part[1].map(REGIMES),
                    "comprehension_score": as_number(raw["RCS_score"], "RCS_score", path),
                    "dyslexia": as_truth(raw["dyslexia"], "dyslexia", path),
                }
            )[[*FOLDS, "comprehension_score", "dyslexia"]]
        )
    return pd.concat(tables, ignore_index=True) if tables else None


def _areas(folder: Path) -> pd.DataFrame | None:
    """Return the interest-area reports of characters as text, labels without their quotes."""
    paths = find_files(folder, "InterestAreaReports/IA_report_{participant}.txt")
    tables = [text_table(p, separator="\t", quote=None) for p in paths]
    if not tables:
        return None
    areas = pd.concat(tables, ignore_index=True)
    for column in ("RECORDING_SESSION_LABEL", "EYE_USED", "IA_LABEL", "TRIAL_LABEL"):
        if column in areas:
            areas[column] = _unique(areas[column], unquoted)
    areas["IA_LABEL"] = _unique(areas["IA_LABEL"], mended)
    return areas


def _predictions(folder: Path, page: Corpus) -> pd.DataFrame:
    tables = []
    for path in find_files(folder, "eyebench_predictions/{task}__{model}__fold{fold}.csv"):
        task, model, fold = path.name.split(".")[0].split("__")
        raw = text_table(path)
        value = next(c for c in raw if str(c).startswith("prediction"))
        # models of two classes are written as "[p of 0, p of 1]", the others as one number
        last = raw[value].str.extract(r"([^\[\],\s]+)\s*\]?\s*$")[0]
        tables.append(
            pd.DataFrame(
                {
                    "task": task,
                    "model": model,
                    "fold": fold.removeprefix("fold"),
                    "trial": raw["unique_trial_id"],
                    "part": raw["eval_type"],
                    "regime": raw["eval_regime"].map(REGIMES),
                    "label": as_number(raw["label"], "label", path),
                    "prediction": as_number(last, str(value), path),
                }
            )
        )
    if not tables:
        need_file(folder, page, "eyebench_predictions/{task}__{model}__fold{fold}.csv")
    return pd.concat(tables, ignore_index=True)


def _map_counts(word_map: pd.DataFrame) -> dict[str, int]:
    texts = word_map[(word_map["speechId"] != PRACTICE) & (word_map["paragraphId"] != TITLE)]
    n_areas = texts["char_IA_ids"].str.count(r"\d+")
    return {
        "words_with_missing_areas": int((n_areas != texts["word"].str.len()).sum()),
        "words_with_empty_areas": int((n_areas == 0).sum()),
    }


def _counts(dataset: GazeDataset) -> dict[str, int]:
    trials, reports, words = dataset.trials, dataset.reports, dataset.words
    readers = trials.drop_duplicates("participant")
    counts = {
        "typical_readers": (readers["group"] == "typical").sum(),
        "dyslexic_readers": (readers["group"] == "dyslexic").sum(),
        "l2_readers": (readers["group"] == "L2").sum(),
        "readers_without_score": readers["comprehension_score"].isna().sum(),
        "trials_without_score": trials["comprehension_score"].isna().sum(),
        "fixations_off_areas": dataset.fixations["area"].isna().sum(),
        "fixations_on_words": dataset.fixations["word"].notna().sum(),
        "fixations_on_questions": dataset.fixations["on_question"].sum(),
        "shortest_fixation_ms": dataset.fixations["duration"].min(),
        "word_rows": len(reports["measures"]),
        "word_rows_fixated": (reports["measures"]["fixation_count"] > 0).sum(),
        "text_words": (words["layout"] == words["stimulus"]).sum(),
        "texts": words["stimulus"].nunique(),
        "reader_table_rows": len(reports["readers"]),
        "readers_marked_dyslexic": reports["readers"]["dyslexia"].sum(),
    }
    if "folds" in reports:
        counts["folds"] = reports["folds"]["fold"].nunique()
        counts["trials_in_folds"] = trials["trial"].isin(reports["folds"]["trial"]).sum()
    if "answers" in reports:
        counts["answer_rows"] = len(reports["answers"])
    if "interest_areas" in reports:
        areas = reports["interest_areas"]
        keys = ["RECORDING_SESSION_LABEL", "TRIAL_INDEX"]
        counts["area_report_rows"] = len(areas)
        counts["area_report_trials"] = len(areas.drop_duplicates(keys))
    return {k: int(v) for k, v in counts.items()}
