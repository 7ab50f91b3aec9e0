"""SB-SAT: SAT passages read page by page for comprehension.

Ahn, Kelton, Balasubramanian & Zelinsky (2020), Towards Predicting Reading Comprehension From Gaze
Behavior, ETRA 2020, doi:10.1145/3379156.3391335.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.columns import as_number, as_truth
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import FOLDS, Corpus, correct, need_file, register_corpus
from gazeattn.datasets.corpusfiles import find_files, text_table
from gazeattn.datasets.layouts import lines_of
from gazeattn.errors import DataError
from gazeattn.tables import LossLog, check_fixations, check_trials, check_words

CONDITION = "reading for comprehension"
ITEMS = 5  # question screens 1-5 are the comprehension items, the later ones are ratings
MARGINS = (4.0, 12.0)
_LABELS = (
    "acc acc_level subj_acc subj_acc_level confidence difficulty familiarity interest pressured "
    "sleepiness sleephours"
).split()
_COLUMNS = {
    "fixations": (
        "subj page_name window fix_index CURRENT_FIX_X CURRENT_FIX_Y CURRENT_FIX_PUPIL "
        "CURRENT_FIX_DURATION"
    ).split(),
    "screens": (
        "RECORDING_SESSION_LABEL INDEX AVERAGE_BLINK_DURATION FIXATION_COUNT type book_name page "
        "total_page RT answer correct_answer page_name"
    ).split(),
    "labels": ["subj", "book", *_LABELS, "recognition", "native", "language", "sex"],
    "words": "page_name word_number word x1 y1 x2 y2 is_button".split(),
}


@register_corpus("sb_sat")
def load(
    folder: Path, page: Corpus, margins: tuple[float, float] | list[float] = MARGINS
) -> GazeDataset:
    """Load SB-SAT; a trial is one reader on one page, a stimulus one page.

    Parameters
    ----------
    margins
        Pixels of the page image by which a word box grows to each side and upwards and downwards.
        The published boxes hug the letters (about 17 px high on lines 48 px apart): with
        ``(0, 0)`` 31 % of the fixations lie on a word, with the default ``(4, 12)`` 74 %. Where
        grown boxes overlap, the word with the nearer centre has the fixation.

    Notes
    -----
    Pages without any published fixation are no trials: their readers did look at them, but the
    published windows lost it. Labels belong to a reader and passage, so that pages of one reader
    and passage should stay on one side of a split. ``reports`` holds ``folds``, ``passages``
    (labels), ``items`` (questions and their answers), ``screens`` (every visit of a screen) and
    ``buttons`` (words that belong to the display and not to the text).
    """
    lost = LossLog()
    names = {
        "fixations": "fixations.csv",
        "screens": "fixation/18sat_trialfinal.csv",
        "labels": "fixation/18sat_labels.csv",
        "words": "stimuli/reading_words.csv",
    }
    paths = {step: need_file(folder, page, name) for step, name in names.items()}
    raw = {step: text_table(path, _COLUMNS[step]) for step, path in paths.items()}
    screens = _screens(raw["screens"], page, lost)
    passages = _passages(raw["labels"])

    boxes = _boxes(raw["words"], page, _two(margins))
    buttons = boxes[boxes["is_button"]].drop(columns="is_button").reset_index(drop=True)
    words = boxes[~boxes["is_button"]].drop(columns="is_button").reset_index(drop=True)
    words["line"] = lines_of(words)
    lost.add("words", "dropped", "words of buttons belong to the display", len(buttons), "words")
    words, log = check_words(words, source=paths["words"])
    lost.extend(log)
    fixations, log = check_fixations(
        _fixations(raw["fixations"], page, lost), source=paths["fixations"]
    )
    lost.extend(log)
    trials = _trials(screens, passages, fixations, page, lost)
    trials, log = check_trials(trials, source=paths["screens"])
    lost.extend(log)
    reports = {
        "folds": _folds(folder, trials),
        "passages": passages,
        "items": _items(screens),
        "screens": screens,
        "buttons": buttons,
    }
    questions = find_files(folder, "stimuli/questions.csv")
    asked = text_table(questions[0]) if questions else None
    if asked is not None:
        text = dict(zip(asked["page_name"], asked["question"], strict=True))
        reports["items"]["question"] = reports["items"]["page_name"].map(text)
    dataset = GazeDataset(
        name="sb_sat",
        fixations=fixations,
        words=words,
        trials=trials,
        stimuli=_stimuli(words, asked, page),
        reports=reports,
        lost=lost,
    )
    dataset.info["counts"] = _counts(dataset, folder, asked)
    return dataset


def _two(margins: tuple[float, float] | list[float]) -> tuple[float, float]:
    values = tuple(float(m) for m in margins)
    if len(values) != 2 or min(values) < 0:
        raise DataError(
            "margins are two numbers of pixels, not below 0",
            expected="(across, up and down), e.g. (4, 12)",
            found=margins,
        )
    return values[0], values[1]


def _trial_ids(readers: pd.Series, pages: pd.Series) -> pd.Series:
    return readers + "_" + pages


def _boxes(raw: pd.DataFrame, page: Corpus, margins: tuple[float, float]) -> pd.DataFrame:
    scale = float(page.tables["reading_words"]["scale"])
    side = {c: as_number(raw[c], c, "reading_words") for c in ("x1", "y1", "x2", "y2")}
    unseen = (pd.DataFrame(side) == 0).all(axis=1)
    grow = {"x1": -margins[0], "y1": -margins[1], "x2": margins[0], "y2": margins[1]}
    ours = {"x1": "left", "y1": "top", "x2": "right", "y2": "bottom"}
    boxes = pd.DataFrame(
        {
            "layout": raw["page_name"],
            "stimulus": raw["page_name"],
            "word": raw["word_number"],
            "index": as_number(raw["word_number"], "word_number", "reading_words"),
            "text": raw["word"],
            "is_button": as_truth(raw["is_button"], "is_button", "reading_words").astype(bool),
            **{ours[c]: ((side[c] + grow[c]) * scale).mask(unseen) for c in ours},
        }
    )
    return boxes.sort_values(["layout", "index"], kind="stable").reset_index(drop=True)


def _fixations(raw: pd.DataFrame, page: Corpus, lost: LossLog) -> pd.DataFrame:
    number = {
        c: as_number(raw[c], c, "fixations")
        for c in map(str, raw.columns)
        if c.startswith("CURRENT_")
    }
    table = pd.DataFrame(
        {
            "participant": raw["subj"],
            "trial": _trial_ids(raw["subj"], raw["page_name"]),
            "stimulus": raw["page_name"],
            "index": as_number(raw["fix_index"], "fix_index", "fixations"),
            "x": number["CURRENT_FIX_X"],
            "y": number["CURRENT_FIX_Y"],
            "duration": number["CURRENT_FIX_DURATION"],
            "pupil": number["CURRENT_FIX_PUPIL"],
            "dataset": "sb_sat",
            "window": as_number(raw["window"], "window", "fixations"),
        }
    )
    width, height = page.screen or (np.inf, np.inf)
    inside = table["x"].between(0, width, "left") & table["y"].between(0, height, "left")
    table["off_screen"] = ~inside
    lost.add("fixations", "note", "outside the screen", int((~inside).sum()))
    return table


def _screens(raw: pd.DataFrame, page: Corpus, lost: LossLog) -> pd.DataFrame:
    raw = correct(raw, page, "screens", lost)
    screens = pd.DataFrame(
        {
            "participant": raw["RECORDING_SESSION_LABEL"],
            "visit": as_number(raw["INDEX"], "INDEX", "screens"),
            "type": raw["type"],
            "book": raw["book_name"],
            "page": as_number(raw["page"], "page", "screens"),
            "pages": as_number(raw["total_page"], "total_page", "screens"),
            "page_name": raw["page_name"],
            "time_ms": as_number(raw["RT"], "RT", "screens"),
            "answer": as_number(raw["answer"], "answer", "screens"),
            "correct_answer": as_number(raw["correct_answer"], "correct_answer", "screens"),
            "fixations": as_number(raw["FIXATION_COUNT"], "FIXATION_COUNT", "screens"),
            "blink_duration": as_number(raw["AVERAGE_BLINK_DURATION"], "AVERAGE_BLINK_DURATION"),
        }
    )
    negative = screens["time_ms"] < 0
    lost.add("screens", "undefined", page.rule("negative time"), int(negative.sum()), "visits")
    on_text = screens["type"] == "reading"
    lost.add("screens", "note", page.rule("page turns"), int(on_text.sum()), "visits")
    screens["page_turn"] = screens["answer"].where(on_text)
    screens["answer"] = screens["answer"].mask(on_text)
    screens["clock_error"] = negative
    screens["time_ms"] = screens["time_ms"].mask(negative)
    return screens


def _passages(raw: pd.DataFrame) -> pd.DataFrame:
    passages = pd.DataFrame({"participant": raw["subj"], "book": raw["book"]})
    for column in _LABELS:
        passages[column] = as_number(raw[column], column, "labels")
    for column in ("recognition", "native"):
        passages[column] = as_truth(raw[column], column, "labels")
    return passages.assign(language=raw["language"], sex=raw["sex"])


def _trials(
    screens: pd.DataFrame,
    passages: pd.DataFrame,
    fixations: pd.DataFrame,
    page: Corpus,
    lost: LossLog,
) -> pd.DataFrame:
    reading = screens[screens["type"] == "reading"]
    pages = reading.groupby(["participant", "page_name"], sort=True).agg(
        book=("book", "first"),
        page=("page", "first"),
        visits=("visit", "size"),
        first_visit=("visit", "min"),
        fixations_published=("fixations", "sum"),
        reading_time_ms=("time_ms", lambda s: s.sum(skipna=False)),
    )
    pages = pages.reset_index()
    pages["trial"] = _trial_ids(pages["participant"], pages["page_name"])
    seen = fixations.groupby("trial").size()
    kept = pages["trial"].map(seen).fillna(0)
    lost.add(
        "fixations",
        "dropped",
        page.rule("ends of pages"),
        int(pages.fixations_published.sum() - kept.sum()),
    )
    again = pages["visits"] > 1
    lost.add("trials", "note", page.rule("revisits"), int(again.sum()), "pages", pages.trial[again])
    gone = kept == 0
    reason = "no fixation of the page was published: no trial"
    lost.add("trials", "dropped", reason, int(gone.sum()), "pages", pages.trial[gone])
    pages = pages[~gone].reset_index(drop=True)
    trials = pd.DataFrame(
        {
            "participant": pages["participant"],
            "trial": pages["trial"],
            "stimulus": pages["page_name"],
            "layout": pages["page_name"],
            "condition": CONDITION,
        }
    )
    columns = ["book", "page", "visits", "first_visit", "reading_time_ms", "fixations_published"]
    trials = pd.concat([trials, pages[columns]], axis=1)
    trials = trials.merge(passages, on=["participant", "book"], how="left", validate="m:1")
    trials = trials.sort_values("trial", kind="stable").reset_index(drop=True)
    lost.add("trials", "undefined", "no labels", int(trials["acc"].isna().sum()), "trials")
    return trials


def _items(screens: pd.DataFrame) -> pd.DataFrame:
    asked = (screens["type"] == "question") & (screens["page"] <= ITEMS)
    columns = ["participant", "book", "page", "page_name", "answer", "correct_answer", "time_ms"]
    items = screens.loc[asked, columns].rename(columns={"page": "question_number"})
    items = items.reset_index(drop=True)
    right = items["answer"] == items["correct_answer"]
    known = items["correct_answer"].notna() & items["answer"].notna()
    items["correct"] = right.astype("boolean").where(known)
    return items


def _folds(folder: Path, trials: pd.DataFrame) -> pd.DataFrame:
    tables = []
    by_reader = find_files(folder, "split_subjectwise.csv")
    if by_reader:
        parts = text_table(by_reader[0]).set_index("subj")["split_subjectwise"]
        part = trials["participant"].map(parts)
        regime = pd.Series("unseen_reader", index=part.index).mask(part == "train")
        tables.append(("subjectwise", part, regime))
    windows = find_files(folder, "windows_index.csv")
    if windows:
        index = text_table(windows[0], ["subj", "page_name", "split_bookwise"])
        ids = _trial_ids(index["subj"], index["page_name"])
        parts = index.set_index(ids)["split_bookwise"].groupby(level=0).first()
        tables.append(
            (
                "bookwise",
                trials["trial"].map(parts),
                pd.Series(None, index=trials.index, dtype="str"),
            )
        )
    folds = [
        pd.DataFrame({"fold": fold, "trial": trials["trial"], "part": part, "regime": regime})
        for fold, part, regime in tables
    ]
    return pd.concat(folds, ignore_index=True) if folds else pd.DataFrame(columns=list(FOLDS))


def _stimuli(
    words: pd.DataFrame, asked: pd.DataFrame | None, page: Corpus
) -> dict[str, dict[str, Any]]:
    stimuli: dict[str, dict[str, Any]] = {}
    for name, text in words.groupby("stimulus")["text"].agg(" ".join).items():
        book = str(name).split("-")[1]
        facts: dict[str, Any] = {"text": text, "size": page.screen, "book": book}
        if asked is not None:
            rows = asked[asked["book"] == book]
            facts["questions"] = dict(zip(rows["page_name"], rows["question"], strict=True))
        stimuli[str(name)] = facts
    return stimuli


def _counts(dataset: GazeDataset, folder: Path, asked: pd.DataFrame | None) -> dict[str, int]:
    reports, trials = dataset.reports, dataset.trials
    screens, passages, items = reports["screens"], reports["passages"], reports["items"]
    reading = screens[screens["type"] == "reading"]
    visits = reading.groupby(["participant", "page_name"]).size()
    books = trials.drop_duplicates(["participant", "book"])
    native = passages.drop_duplicates("participant")["native"]
    counts = {
        "button_words": len(reports["buttons"]),
        "button_words_without_box": reports["buttons"]["left"].isna().sum(),
        "pages_visited": len(visits),
        "pages_without_fixations": len(visits) - len(trials),
        "pages_revisited": (visits > 1).sum(),
        "passages_without_fixations": len(passages) - len(books),
        "screens": len(screens),
        "reading_visits": len(reading),
        "reading_visits_with_negative_time": reading["clock_error"].sum(),
        "question_screens": (screens["type"] == "question").sum(),
        "screens_without_blink_duration": screens["blink_duration"].isna().sum(),
        "fixations_published": reading["fixations"].sum(),
        "passages_read": len(passages),
        "items": len(items),
        "items_right": items["correct"].sum(),
        "native_readers": native.sum(),
        "other_readers": (~native).sum(),
    }
    for column in ("difficulty", "acc_level"):
        for level in range(4):
            counts[f"{column}_{level}"] = (passages[column] == level).sum()
    if asked is not None:
        counts["questions"] = len(asked)
    windows = find_files(folder, "windows_index.csv")
    if windows:
        parts = text_table(windows[0], ["split_bookwise"])["split_bookwise"].value_counts()
        counts["windows"] = parts.sum()
        counts |= {f"windows_bookwise_{p}": n for p, n in parts.items()}
    folds = reports["folds"].merge(trials[["trial", "participant"]], on="trial")
    readers = folds.groupby(["fold", "part"])["participant"].nunique().reset_index()
    for fold, part, n in readers.itertuples(index=False):
        if fold == "subjectwise":
            counts[f"readers_{part}"] = n
        else:
            counts[f"readers_bookwise_{part}"] = n
    return {k: int(v) for k, v in counts.items()}
