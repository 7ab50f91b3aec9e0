"""ZuCo 1 and 2: English sentences read with eye tracking and EEG (the eye tracking is loaded).

Hollenstein, Rotsztejn, Troendle, Pedroni, Zhang & Langer (2018), ZuCo, a simultaneous EEG and
eye-tracking resource for natural sentence reading, Scientific Data 5, 180291. Hollenstein,
Troendle, Zhang & Langer (2020), ZuCo 2.0: A Dataset of Physiological Recordings During Natural
Reading and Annotation, LREC 2020.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, correct, missing_message, register_corpus
from gazeattn.datasets.corpusfiles import find_files
from gazeattn.datasets.parts import build, outside, read_string
from gazeattn.datasets.wordlevel import choice, known_words
from gazeattn.datasets.zucofiles import MEASURES, Sentence, read_sentences
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.tables import SIDES, LossLog

TASKS = {
    "SR": "reading for sentiment",
    "NR": "ordinary reading",
    "TSR": "reading for a relation",
}
SHORT = 150.0  # a usual fixation that is shorter than this, in ms, looks like samples of 2 ms
_OURS = {
    "FFD": "first_fixation_duration",
    "SFD": "single_fixation_duration",
    "GD": "gaze_duration",
    "GPT": "go_past_time",
    "TRT": "total_reading_time",
    "nFixations": "fixation_count",
}


@register_corpus("zuco1")
def load_1(
    folder: Path,
    page: Corpus,
    tasks: Sequence[str] | str | None = None,
    ms_per_unit: float = 1.0,
) -> GazeDataset:
    """Load ZuCo 1; a trial is one reader and one sentence, called ``ZAB_SR_001``.

    Parameters
    ----------
    tasks
        Which of ``"SR"``, ``"NR"``, ``"TSR"`` to load; by default those whose files are there.
    ms_per_unit
        Milliseconds of one unit of the published durations: 2 if they are samples at 500 Hz.
        Which of the two they are could not be checked: a note tells where they look like samples.

    Notes
    -----
    Words are numbered from 0, boxes are those of the reader's own screen (``layout``).
    ``reports["measures"]`` are the published word measures. Sentences that a reader did not read
    are no trials, with a count. A whole file is read into memory, EEG included.
    """
    return _load(folder, page, tasks, ms_per_unit, None)


@register_corpus("zuco2")
def load_2(
    folder: Path,
    page: Corpus,
    tasks: Sequence[str] | str | None = None,
    repeated: bool = True,
    ms_per_unit: float = 1.0,
) -> GazeDataset:
    """Load ZuCo 2; a trial is one reader and one sentence, called ``YAC_NR_001``.

    Parameters
    ----------
    tasks
        ``"NR"``, ``"TSR"``; by default those whose files are there.
    repeated
        Keep the sentences of the blocks that repeat sentences of ZuCo 1 (``repeats_zuco1`` of the
        trials). Leave them out for tests across the two corpora: that needs the files
        ``task_materials/{task}_{block}.csv``, which say which sentences they are.
    ms_per_unit
        See `load_1`.

    Notes
    -----
    See `load_1`. Blocks of the two tasks alternate: the order of the session is not that of one
    task, and ``block`` is the number of the block where the materials say it.
    """
    return _load(folder, page, tasks, ms_per_unit, repeated)


def _load(
    folder: Path,
    page: Corpus,
    tasks: Sequence[str] | str | None,
    ms_per_unit: float,
    repeated: bool | None,
) -> GazeDataset:
    lost = LossLog()
    asked = [tasks] if isinstance(tasks, str) else list(tasks or TASKS)
    asked = [choice(t, TASKS, "tasks") for t in asked]
    files = [
        (task, path)
        for task in asked
        for path in find_files(folder, f"**/results{{reader}}_{task}.mat")
    ]
    if not files or (tasks is not None and len({t for t, _ in files}) < len(set(asked))):
        raise MissingAssetError(missing_message(page, folder))
    names = [path.name.removeprefix("results").partition("_")[0] for _, path in files]
    left = pd.DataFrame({"participant": names, "file": range(len(files))})
    left = correct(left, page, "readers", lost)
    tables: dict[str, list[pd.DataFrame]] = {n: [] for n in ("fixations", "words", "trials")}
    for at in left["file"]:
        task, path = files[at]
        for name, frame in _frames(read_sentences(path), names[at], task, path, lost).items():
            tables[name].append(frame)
    trials, rows = pd.concat(tables["trials"]), pd.concat(tables["words"])
    fixations = pd.concat(tables["fixations"])
    if not len(trials):
        raise DataError("0 sentences with words", source=folder)
    fixations["duration"] *= ms_per_unit
    usual = float(fixations["duration"].median())
    reason = (
        f"the usual fixation lasts {usual:g} ms: check ms_per_unit (read as {ms_per_unit:g} ms)"
    )
    lost.add("fixations", "note", reason, len(fixations) if usual < SHORT else 0)
    trials = _blocks(trials, folder, page, repeated, lost)
    kept = set(trials["trial"])
    fixations = fixations[fixations["trial"].isin(kept)].reset_index(drop=True)
    rows = rows[rows["trial"].isin(kept)].reset_index(drop=True)
    fixations["off_screen"] = outside(
        fixations["x"], fixations["y"], *(page.screen or (np.inf, np.inf))
    )
    rows["text"] = _repaired(rows["text"], page, lost)
    blank = rows["text"] == ""
    lost.add("words", "dropped", "words without any text", int(blank.sum()))
    rows = rows[~blank].reset_index(drop=True)
    words, layout = _layouts(rows, lost)
    fixations = known_words(fixations, words, lost)
    trials["layout"] = trials["trial"].map(layout)
    ours = {m: rows[m] * (1 if m == "nFixations" else ms_per_unit) for m in MEASURES if m in rows}
    ids = rows[["participant", "trial", "stimulus", "word", "text"]]
    measures = pd.concat([ids, pd.DataFrame(ours).rename(columns=_OURS)], axis=1)
    shown = words[words["layout"] == words["stimulus"]].astype({"text": object})
    texts = shown.groupby("stimulus", sort=True)["text"].agg(" ".join)
    content = trials.drop_duplicates("stimulus").set_index("stimulus")["content"]
    return build(
        page,
        fixations,
        words,
        trials.drop(columns="content"),
        units="words",
        stimuli={
            str(n): {"text": str(t), "size": page.screen, "published_text": str(content[str(n)])}
            for n, t in texts.items()
        },
        lost=lost,
        counts={f"sentences_{t}": int((trials["task"] == t).sum()) for t in TASKS},
        reports={"measures": measures},
        edition=_edition(trials, page, repeated),
    )


def _edition(trials: pd.DataFrame, page: Corpus, repeated: bool | None) -> str:
    """Return the name of what was loaded: the release, or a part of it without known counts."""
    there = set(trials["task"])
    every = {"zuco1": set(TASKS), "zuco2": {"NR", "TSR"}}[page.name]
    part = "" if there == every else "+".join(sorted(there))
    return part or ("release" if repeated is not False else "without repeated blocks")


def _frames(
    sentences: list[Sentence], reader: str, task: str, path: Path, lost: LossLog
) -> dict[str, pd.DataFrame]:
    trials, words, fixations, unread, twice, absent, boxless = [], [], [], [], 0, 0, 0
    for number, sentence in enumerate(sentences, start=1):
        stimulus = f"{task}_{number:03d}"
        trial = f"{reader}_{stimulus}"
        ids = {"participant": reader, "trial": trial, "stimulus": stimulus}
        if not sentence.words:
            unread.append(trial)
            continue
        trials.append({**ids, "task": task, "content": sentence.content})
        n_words = len(sentence.words)
        index = np.arange(n_words)
        bounds = sentence.bounds if sentence.bounds is not None else np.full((n_words, 4), np.nan)
        published = {m: v for m, v in sentence.measures.items() if len(v) == n_words}
        words.append(
            pd.DataFrame(
                {
                    **ids,
                    "index": index,
                    "text": sentence.words,
                    **dict(zip(SIDES, bounds.T, strict=True)),
                    **published,
                }
            )
        )
        table, more, gone = _of_sentence(sentence, ids, path, number)
        fixations.append(table)
        twice += more
        absent += gone
        boxless += sentence.bounds is None
    reason = "sentences without words: not read, or not recorded"
    lost.add("trials", "dropped", reason, len(unread), "trials", unread)
    reason = "fixations that are listed under two words: under the first"
    lost.add("fixations", "note", reason, twice)
    reason = "fixations that a word names, but that the sentence does not have"
    lost.add("fixations", "undefined", reason, absent)
    reason = "sentences whose boxes are not as many as their words: no boxes"
    lost.add("words", "undefined", reason, boxless, "sentences")
    empty = {
        "fixations": ["participant", "trial", "stimulus", "index", "x", "y", "duration", "word"],
        "words": ["participant", "trial", "stimulus", "index", "text", *SIDES],
        "trials": ["participant", "trial", "stimulus", "task", "content"],
    }
    return {
        "fixations": pd.concat(fixations)
        if fixations
        else pd.DataFrame(columns=empty["fixations"]),
        "words": pd.concat(words) if words else pd.DataFrame(columns=empty["words"]),
        "trials": pd.DataFrame(trials, columns=empty["trials"]),
    }


def _of_sentence(
    sentence: Sentence, ids: dict[str, str], path: Path, number: int
) -> tuple[pd.DataFrame, int, int]:
    """Return the fixations with their words, how many have two, and how many are named only."""
    sizes = {n: len(v) for n, v in sentence.fixations.items() if n != "pupilsize"}
    n = max(sizes.values(), default=0)
    if len(set(sizes.values())) > 1:
        raise DataError(
            f"the fixations of sentence {number} have different lengths",
            source=path,
            found=", ".join(f"{k} {v}" for k, v in sizes.items()),
        )
    lengths = [len(p) for p in sentence.positions]
    word = np.repeat(np.arange(len(lengths)), lengths)
    at = np.concatenate([*sentence.positions, np.zeros(0)]).astype("int64") - 1
    there = (at >= 0) & (at < n)
    absent = int((~there).sum())
    at, word = at[there], word[there]
    of = np.full(n, -1)
    of[at[::-1]] = word[::-1]  # the first word wins
    places = {k: sentence.fixations.get(k, np.full(n, np.nan)) for k in ("x", "y", "duration")}
    pupil = sentence.fixations.get("pupilsize", np.zeros(0))
    table = pd.DataFrame(
        {
            **ids,
            "index": np.arange(n),
            **places,
            "pupil": pupil if len(pupil) == n else np.full(n, np.nan),
            "word": pd.Series(of, dtype="Int64").astype("str").where(of >= 0),
        }
    )
    return table, len(at) - len(np.unique(at)), absent


def _repaired(texts: pd.Series, page: Corpus, lost: LossLog) -> pd.Series:
    """Put listed tokens right, one by one."""
    for entry in page.corrections:
        if "tokens" not in entry:
            continue
        changes = {str(k): str(v) for k, v in entry["tokens"].items()}
        hit = texts.isin(changes)
        lost.add("words", "repaired", str(entry["reason"]), int(hit.sum()))
        texts = texts.where(~hit, texts.map(changes))
    return texts


def _layouts(rows: pd.DataFrame, lost: LossLog) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the words of each layout: readers with the same words and boxes share one."""
    names: dict[str, str] = {}
    seen: dict[str, dict[Any, str]] = {}
    kept: list[pd.DataFrame] = []
    for trial, group in rows.groupby("trial", sort=True):
        stimulus = str(group["stimulus"].iloc[0])
        boxes = group[list(SIDES)].to_numpy("float64")
        key = (tuple(group["text"]), np.round(np.nan_to_num(boxes, nan=-1.0), 2).tobytes())
        layouts = seen.setdefault(stimulus, {})
        if key not in layouts:
            layouts[key] = stimulus if not layouts else f"{stimulus}/{len(layouts) + 1}"
            kept.append(group.assign(layout=layouts[key]))
        names[str(trial)] = layouts[key]
    many = sorted(s for s, layouts in seen.items() if len(layouts) > 1)
    reason = "sentences with other boxes or words for some readers: one layout each"
    lost.add("words", "note", reason, len(many), "sentences", many)
    words = pd.concat(kept, ignore_index=True)
    words["word"] = words["index"].astype("str")
    rows["word"] = rows["index"].astype("int64").astype("str")
    columns = ["layout", "stimulus", "word", "index", "text", *SIDES]
    words["index"] = words["index"].astype("int64")
    return words[columns].astype(dict.fromkeys(SIDES, "float64")), names


def _blocks(
    trials: pd.DataFrame, folder: Path, page: Corpus, repeated: bool | None, lost: LossLog
) -> pd.DataFrame:
    trials = trials.assign(condition=trials["task"].map(TASKS)).reset_index(drop=True)
    if repeated is None:
        return trials
    block = pd.Series(pd.NA, index=trials.index, dtype="Int64")
    for path in find_files(folder, "**/task_materials/{task}_{block}.csv"):
        task, _, number = path.name.split(".")[0].rpartition("_")
        if not number.isdigit() or task.upper() not in TASKS:
            continue
        rows = csv.reader(read_string(path).splitlines(), delimiter=";")
        cells = {_plain(cell) for row in rows for cell in row}
        shown = trials["content"].map(_plain).isin(cells) & (trials["task"] == task.upper())
        block = block.mask(shown & block.isna(), int(number))
    trials["block"] = block
    unknown = int(block.isna().sum())
    reason = "their sentence is in no file task_materials/{task}_{block}.csv: block not known"
    lost.add("trials", "undefined", reason, unknown, "trials")
    again = block.isin([int(b) for b in page.tables["blocks"]["repeated"]])
    trials["repeats_zuco1"] = again.astype("boolean").mask(block.isna())
    if repeated:
        return trials
    if unknown == len(trials):
        raise MissingAssetError(
            f"{folder} has no task_materials/{{task}}_{{block}}.csv, which say which sentences "
            "repeat those of ZuCo 1: repeated=False needs them"
        )
    reason = page.rule("repeated blocks")
    lost.add("trials", "dropped", reason, int(again.sum()), "trials")
    return trials[~again.to_numpy()].reset_index(drop=True)


def _plain(text: str) -> str:
    return " ".join(str(text).split()).strip('"')
