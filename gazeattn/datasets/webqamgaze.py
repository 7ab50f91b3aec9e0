"""WebQAmGaze: English texts before a webcam, read for a later question or for a known one.

Ribeiro, Brandl, Søgaard & Hollenstein (2023), WebQAmGaze: A Multilingual Webcam
Eye-Tracking-While-Reading Dataset, arXiv:2303.17876.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from gazeattn.columns import as_number, as_truth
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, need_file, register_corpus
from gazeattn.datasets.corpusfiles import find_files, text_table
from gazeattn.errors import DataError
from gazeattn.tables import LossLog, check_fixations, check_trials, check_words

GOALS = {"NR": "ordinary reading", "IS": "information seeking"}
_COLUMNS = {
    "participants": "participant set_name set participant_type native_english approved_flag "
    "experiment_reload",
    "trials": "participant set_name set trial_index text_id source task_type reading_time_ms "
    "question_id question answer_kind gold_answer given_answer correct n_fixations_outside_text",
    "words": "participant set_name trial_index word_index word TRT FixCount Scan_path "
    "Span_word_is_in in_target",
    "fixations": "participant set_name trial_index text_id fix_index x y t duration word_index "
    "n_words_hit",
    "question_fixations": "participant set_name trial_index question_id page fix_index x y t "
    "duration",
    "texts": "set text_id source task_type text n_word_boxes boxes_match_tokens",
    "word_boxes": "set text_id word_index word_id word line x y width height",
    "questions": "set question_id text_id question gold_word_start gold_word_end",
}
_SET_ENDINGS = r"(?:_lab_cognition|_volunteer_cognition|_cognition_volunteer)$"


@register_corpus("webqamgaze")
def load(folder: Path, page: Corpus) -> GazeDataset:
    """Load the English sessions of WebQAmGaze.

    A trial is called participant, set name and trial number, joined by ``_``; the stimulus is the
    text, the layout ``set/text`` (boxes differ between sets). ``condition`` is the reading goal,
    from the published task type and never from the source of the text. The published word of each
    fixation is kept. ``reports`` holds ``measures`` (published word measures),
    ``question_fixations``, ``questions``, ``spans``, ``texts`` and ``sessions``.

    Durations are those of merged webcam samples: they cannot be compared with an EyeLink's.
    """
    lost = LossLog()
    raw = {
        name: text_table(need_file(folder, page, f"{name}.csv"), needs=columns.split())
        for name, columns in _COLUMNS.items()
    }
    spans = find_files(folder, "spans.csv")

    words, log = check_words(_words(raw["word_boxes"], lost), source=folder / "word_boxes.csv")
    lost.extend(log)
    trials, log = check_trials(_trials(raw["trials"]), source=folder / "trials.csv")
    lost.extend(log)
    trials = trials.sort_values("trial", kind="stable").reset_index(drop=True)
    _doubtful_answers(trials, page, lost)
    fixations = _fixations(raw["fixations"], trials, page, lost, folder)
    fixations, log = check_fixations(fixations, source=folder / "fixations.csv")
    lost.extend(log)
    _log_strays(trials, lost)
    measures = _measures(raw["words"], lost)
    reports = {
        "measures": measures,
        "question_fixations": _question_fixations(raw["question_fixations"]),
        "questions": _typed(raw["questions"], ["gold_word_start", "gold_word_end"]),
        "texts": _typed(raw["texts"], ["n_tokens", "n_word_boxes", "n_lines"]),
        "sessions": _sessions(raw["participants"]),
    }
    if spans:
        sides = ["x", "y", "width", "height"]
        reports["spans"] = _typed(text_table(spans[0]), sides)
    texts = raw["texts"].drop_duplicates("text_id").set_index("text_id")
    stimuli = {
        str(t): {"text": str(row["text"]), "size": page.screen, "source": str(row["source"])}
        for t, row in texts.iterrows()
    }
    dataset = GazeDataset(
        name="webqamgaze",
        fixations=fixations,
        words=words,
        trials=trials,
        stimuli=stimuli,
        reports=reports,
        lost=lost,
    )
    dataset.info["counts"] = _counts(dataset, raw)
    return dataset


def set_of(set_names: pd.Series) -> pd.Series:
    """Return the set of texts of a session: its name without the ending for the way of recruiting.

    Only the name of the set is looked at; a participant id may hold the same letters.
    """
    return set_names.str.replace(_SET_ENDINGS, "", regex=True)


def _trial_ids(raw: pd.DataFrame) -> pd.Series:
    return raw["participant"] + "_" + raw["set_name"] + "_" + raw["trial_index"]


def _typed(raw: pd.DataFrame, numbers: list[str]) -> pd.DataFrame:
    return raw.assign(**{c: as_number(raw[c], c) for c in numbers if c in raw})


def _words(boxes: pd.DataFrame, lost: LossLog) -> pd.DataFrame:
    number = {c: as_number(boxes[c], c, "word_boxes") for c in ("x", "y", "width", "height")}
    words = pd.DataFrame(
        {
            "layout": boxes["set"] + "/" + boxes["text_id"],
            "stimulus": boxes["text_id"],
            "word": boxes["word_index"],
            "index": as_number(boxes["word_index"], "word_index", "word_boxes"),
            "text": boxes["word"],
            "line": as_number(boxes["line"], "line", "word_boxes"),
            "left": number["x"],
            "top": number["y"],
            "right": number["x"] + number["width"],
            "bottom": number["y"] + number["height"],
            "word_id_published": boxes["word_id"],
        }
    )
    blank = words["text"].str.strip() == ""
    lost.add("words", "note", "boxes that hold only a blank are kept", int(blank.sum()), "words")
    return words


def _trials(raw: pd.DataFrame) -> pd.DataFrame:
    unknown = sorted(set(raw["task_type"]) - set(GOALS))
    if unknown:
        raise DataError(
            f"unknown task type {unknown[0]!r}", source="trials", expected=", ".join(GOALS)
        )
    trials = pd.DataFrame(
        {
            "participant": raw["participant"],
            "trial": _trial_ids(raw),
            "stimulus": raw["text_id"],
            "layout": raw["set"] + "/" + raw["text_id"],
            "condition": raw["task_type"].map(GOALS),
            "question": raw["question"],
            "set_name": raw["set_name"],
            "set": raw["set"],
        }
    )
    wrong = set_of(raw["set_name"]) != raw["set"]
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            "the set of a trial does not fit the name of its session",
            source="trials",
            row=row + 2,
            expected=set_of(raw["set_name"])[row],
            found=raw["set"][row],
        )
    for column in ("task_type", "source", "question_id", "answer_kind"):
        trials[column] = raw[column]
    for column in ("gold_answer", "given_answer"):
        trials[column] = raw[column].where(raw[column] != "")
    trials["correct"] = as_truth(raw["correct"], "correct", "trials")
    names = list(map(str, raw.columns))
    rest = names[names.index("correct") + 1 :]
    numbers = ["trial_index", "reading_time_ms", *rest]
    for column in numbers:
        trials[column] = as_number(raw[column], column, "trials")
    trials["correct_doubtful"] = (trials["answer_kind"] == "true_false").astype("boolean")
    return trials


def _doubtful_answers(trials: pd.DataFrame, page: Corpus, lost: LossLog) -> None:
    doubtful = trials["correct_doubtful"].to_numpy(dtype=bool)
    lost.add("trials", "note", page.rule("doubtful answers"), int(doubtful.sum()), "trials")


def _fixations(
    raw: pd.DataFrame, trials: pd.DataFrame, page: Corpus, lost: LossLog, folder: Path
) -> pd.DataFrame:
    t, duration = (as_number(raw[c], c, "fixations") for c in ("t", "duration"))
    word = as_number(raw["word_index"], "word_index", "fixations")
    table = pd.DataFrame(
        {
            "participant": raw["participant"],
            "trial": _trial_ids(raw),
            "stimulus": raw["text_id"],
            "index": as_number(raw["fix_index"], "fix_index", "fixations"),
            "x": as_number(raw["x"], "x", "fixations"),
            "y": as_number(raw["y"], "y", "fixations"),
            "word": raw["word_index"].where(word >= 0),
            "onset": t - duration,
            "duration": duration,
            "dataset": "webqamgaze",
            "boxes_hit": as_number(raw["n_words_hit"], "n_words_hit", "fixations"),
        }
    )
    width, height = page.screen or (np.inf, np.inf)
    inside = table["x"].between(0, width, "left") & table["y"].between(0, height, "left")
    table["off_screen"] = ~inside
    known = table["trial"].isin(trials["trial"])
    lost.add("fixations", "dropped", "their trial is not in the trial table", int((~known).sum()))
    lost.add("fixations", "note", page.rule("onset"), len(table))
    lost.add("fixations", "note", page.rule("no word"), int((word < 0).sum()))
    lost.add(
        "fixations",
        "note",
        "the first point of a page has no duration: 0 ms as published",
        int((duration == 0).sum()),
    )
    lost.add("fixations", "note", "outside the stimulus", int((~inside).sum()))
    both = int((table["boxes_hit"] > 1).sum())
    lost.add("fixations", "note", "in two overlapping boxes: the nearer centre", both)
    return table[known].reset_index(drop=True)


def _log_strays(trials: pd.DataFrame, lost: LossLog) -> None:
    stray = trials["n_fixations_outside_text"] > 0
    lost.add(
        "trials",
        "note",
        "far gaze was not taken out by the publisher, since nothing else would have been left",
        int(stray.sum()),
        "trials",
        trials.loc[stray, "trial"],
    )


def _measures(raw: pd.DataFrame, lost: LossLog) -> pd.DataFrame:
    measures = pd.DataFrame(
        {
            "participant": raw["participant"],
            "trial": _trial_ids(raw),
            "word": raw["word_index"],
            "text": raw["word"],
            "total_reading_time": as_number(raw["TRT"], "TRT", "words"),
            "fixation_count": as_number(raw["FixCount"], "FixCount", "words"),
            "scan_path": raw["Scan_path"],
            "spans": raw["Span_word_is_in"].str.strip(),
            "in_target": as_truth(raw["in_target"], "in_target", "words"),
        }
    )
    no_time = (measures["fixation_count"] > 0) & measures["total_reading_time"].isna()
    lost.add("measures", "undefined", "fixated, but no reading time published", int(no_time.sum()))
    return measures


def _question_fixations(raw: pd.DataFrame) -> pd.DataFrame:
    table = _typed(raw, ["fix_index", "x", "y", "t", "duration"])
    return pd.DataFrame(
        {
            "participant": raw["participant"],
            "trial": _trial_ids(raw),
            "question_id": raw["question_id"],
            "page": raw["page"],
            "index": table["fix_index"].astype("int64"),
            "x": table["x"],
            "y": table["y"],
            "onset": table["t"] - table["duration"],
            "duration": table["duration"],
        }
    )


def _sessions(raw: pd.DataFrame) -> pd.DataFrame:
    texts = ["participant", "set_name", "set", "participant_type", "vision"]
    sessions = _typed(raw, [str(c) for c in raw if c not in (*texts, "native_english")])
    sessions["native_english"] = as_truth(raw["native_english"], "native_english", "participants")
    sessions["vision"] = raw["vision"].where(raw["vision"] != "") if "vision" in raw else pd.NA
    return sessions


def _counts(dataset: GazeDataset, raw: dict[str, pd.DataFrame]) -> dict[str, int]:
    trials, sessions = dataset.trials, dataset.reports["sessions"]
    measures, texts = dataset.reports["measures"], raw["texts"]
    fixations, questions = dataset.fixations, dataset.reports["questions"]
    right, goal = trials["correct"].fillna(False), trials["condition"]
    ordinary, seeking = (goal == GOALS[g] for g in ("NR", "IS"))
    xquad = trials["source"] == "XQuAD"
    per_trial = trials["trial"].map(fixations.groupby("trial").size()).fillna(0)
    on_words = trials["trial"].map(fixations.groupby("trial")["word"].count()).fillna(0)
    no_time = (measures["fixation_count"] > 0) & measures["total_reading_time"].isna()
    both = texts.groupby("text_id")["task_type"].nunique() > 1
    counts = {
        "sessions": len(sessions),
        "sets": sessions["set"].nunique(),
        "trials_ordinary": ordinary.sum(),
        "trials_seeking": seeking.sum(),
        "texts_of_sets": len(texts),
        "texts_with_faulty_boxes": (texts["boxes_match_tokens"] == "0").sum(),
        "texts_under_both_goals": both.sum(),
        "fixations_on_words": fixations["word"].notna().sum(),
        "fixations_in_two_boxes": (fixations["boxes_hit"] > 1).sum(),
        "question_fixations": len(dataset.reports["question_fixations"]),
        "word_rows": len(measures),
        "word_rows_fixated_without_time": no_time.sum(),
        "questions": len(questions),
        "answers_located": questions["gold_word_start"].notna().sum(),
        "correct": right.sum(),
        "incorrect": (~right).sum(),
        "xquad_ordinary": (xquad & ordinary).sum(),
        "xquad_seeking": (xquad & seeking).sum(),
        "native_speakers": sessions["native_english"].sum(),
        "sessions_reloaded": (sessions["experiment_reload"] == 1).sum(),
        "trials_with_stray_fixations": (trials["n_fixations_outside_text"] > 0).sum(),
        "trials_with_one_fixation": (per_trial == 1).sum(),
        "trials_under_ten_fixations": (per_trial < 10).sum(),
        "trials_without_word_hit": (on_words == 0).sum(),
    }
    for name, mask in (("ordinary", ordinary), ("seeking", seeking)):
        counts[f"correct_{name}"] = (right & mask).sum()
        counts[f"incorrect_{name}"] = (~right & mask).sum()
    for kind in ("mturk", "volunteer", "lab"):
        counts[f"sessions_{kind}"] = (sessions["participant_type"] == kind).sum()
    for flag in (1, 2, 3):
        counts[f"approved_{flag}"] = (sessions["approved_flag"] == flag).sum()
    if "spans" in dataset.reports:
        counts["spans"] = len(dataset.reports["spans"])
    return {k: int(v) for k, v in counts.items()}
