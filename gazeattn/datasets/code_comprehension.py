"""Reading Python snippets before a question on their output (Alakmeh et al., 2024)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, correct, register_corpus
from gazeattn.datasets.corpusfiles import find_files
from gazeattn.datasets.layouts import lines_of
from gazeattn.datasets.parts import (
    build,
    join_ids,
    numbers,
    one_file,
    outside,
    read_string,
    read_text,
    text,
)
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

SCREEN = (1920, 1080)
_REPORT = "fixation_reports/fix_report_*.txt"
_IDS = ["RECORDING_SESSION_LABEL", "TRIAL_INDEX", "code_snippet_id", "track_id"]
_ANSWERS = ["KEY_STROKE", "correct_option", "CS_SUBJ_DIFFICULTY"]
_NUMBERS = {
    "x": "CURRENT_FIX_X",
    "y": "CURRENT_FIX_Y",
    "duration": "CURRENT_FIX_DURATION",
    "pupil": "CURRENT_FIX_PUPIL",
    "nearest_area": "CURRENT_FIX_NEAREST_INTEREST_AREA",
    "nearest_area_distance": "CURRENT_FIX_NEAREST_INTEREST_AREA_DISTANCE",
}
_SACCADES = {
    "saccade_amplitude": "NEXT_SAC_AMPLITUDE",
    "saccade_duration": "NEXT_SAC_DURATION",
    "saccade_peak_velocity": "NEXT_SAC_PEAK_VELOCITY",
}
_BLINK = "CURRENT_FIX_BLINK_AROUND"
_AREA = "CURRENT_FIX_INTEREST_AREA_ID"
_NEEDED = [*_IDS, *_ANSWERS, *_NUMBERS.values(), _AREA, "CURRENT_FIX_INDEX"]
_NONE = (".", "", "UNDEFINED")


@register_corpus("code_comprehension")
def load(folder: Path, page: Corpus) -> GazeDataset:
    """Load the reports, the areas of the tokens and the answers.

    Words are the areas of a snippet (id as in the file, from 1); positions are screen pixels, as
    are the boxes. Trial labels: ``accuracy`` (1, 0, missing where no right option is known),
    ``answered``, ``subjective_difficulty`` (1 to 5) and ``time_to_answer`` (ms, missing in half
    of the files). ``condition`` is the track; ``session`` 2 is a second file of the person.

    ``reports["area_groups"]``: published groups of areas, ``start`` to before ``end``.
    """
    lost, file_ids = LossLog(), _file_ids(page)
    report, n_short, n_files = read_reports(find_files(folder, _REPORT))
    fixations = _fixations(report, lost)
    trials = correct(_trials(report, lost), page, "trials", lost)
    fixations["stimulus"] = fixations["trial"].map(trials.set_index("trial")["stimulus"])
    boxed = {p.name[3:].split(".ias")[0]: p for p in find_files(folder, "interest_areas/IA-*.ias")}
    areas = [read_areas(path, snippet) for snippet, path in sorted(boxed.items())]
    words = pd.concat(areas, ignore_index=True) if areas else None
    _known_areas(fixations, words, lost)
    if words is not None:
        words["line"] = lines_of(words)
    stimuli, n_code, n_tasks = _stimuli(folder, trials, sorted(boxed), file_ids)
    # versions of a snippet differ in a name or in the question asked
    trials["family"] = trials["stimulus"].str.replace(r"-V\d+$", "", regex=True)
    trials["has_areas"] = trials["stimulus"].isin(list(boxed))
    trials["has_code"] = [bool(stimuli[s].get("text")) for s in trials["stimulus"]]
    bare = trials.loc[~trials["has_areas"], "trial"]
    lost.add("trials", "undefined", "snippet without areas: no words", len(bare), "trials", bare)
    trials = _with_questions(folder, trials)
    rated = trials["subjective_difficulty"].value_counts()
    seen = trials.drop_duplicates("stimulus")
    groups = _groups(folder, file_ids)
    return build(
        page,
        fixations,
        words,
        trials,
        units="code tokens",
        stimuli=stimuli,
        lost=lost,
        counts={
            "files": n_files,
            "files_20_columns": n_short,
            "stimuli": len(seen),
            "snippets_with_areas": int(seen["has_areas"].sum()),
            "snippets_with_code": int((seen["has_code"] & seen["has_areas"]).sum()),
            "code_snippets": n_code,
            "comprehension_tasks": n_tasks,
            "trials_with_areas": int((trials["has_areas"] & trials["has_code"]).sum()),
            "trials_without_areas": len(bare),
            "accuracy_right": int((trials["accuracy"] == 1).sum()),
            "accuracy_wrong": int((trials["accuracy"] == 0).sum()),
            "accuracy_unknown": int(trials["accuracy"].isna().sum()),
            **{f"difficulty_{k}": int(n) for k, n in rated.items()},
            "time_to_answer": int(trials["time_to_answer"].notna().sum()),
            "off_screen": int(fixations["off_screen"].sum()),
            "below_40_ms": int((fixations["duration"] < 40).sum()),
        },
        reports={"area_groups": groups} if groups is not None else {},
        screen=SCREEN,
    )


def read_reports(paths: list[Path]) -> tuple[pd.DataFrame, int, int]:
    """Read the fixation reports of both layouts as text, one after the other.

    Returns
    -------
    DataFrame
        The published columns, with ``file``, ``session`` (1, or the number in the file's name)
        and the row in the file (``row``, the header is 1).
    int, int
        Number of files in the short layout, and of all files.
    """
    tables, short = [], 0
    for path in paths:
        table = read_text(path, "\t", _NEEDED, quote=None)
        short += "TIME_TO_ANSWER" not in table
        name = re.fullmatch(r"fix_report_(.+?)(?:[_ ](\d+))?\.txt(?:\.gz)?", path.name)
        person = table["RECORDING_SESSION_LABEL"]
        if name is None or not len(table) or (person != name[1]).any():
            raise DataError(
                "the report is empty or of somebody else than its name says",
                source=path,
                found=", ".join(person.unique()[:3]) or "no rows",
            )
        extra = [c for c in ("TIME_TO_ANSWER", _BLINK, *_SACCADES.values()) if c in table]
        extra += [c for c in ("CURRENT_FIX_INTEREST_AREAS",) if c in table]
        table = table[[*_NEEDED, *extra]]
        tables.append(table.assign(file=path.name, session=int(name[2] or 1)))
    report = pd.concat(tables, ignore_index=True)
    index = pd.to_numeric(report["TRIAL_INDEX"], errors="coerce")
    if index.isna().any():
        raise DataError(
            "a trial has no number", found=repr(report["TRIAL_INDEX"][index.isna()].iloc[0])
        )
    report["trial_index"] = index.astype("int64")
    report["trial"] = join_ids(
        report["RECORDING_SESSION_LABEL"],
        text(report["session"]),
        text(report["trial_index"]).str.zfill(2),
    )
    return report, short, len(paths)


def _fixations(report: pd.DataFrame, lost: LossLog) -> pd.DataFrame:
    out = report[["trial", "trial_index", "session"]].copy()
    out.insert(0, "participant", report["RECORDING_SESSION_LABEL"])
    out["index"] = numbers(report["CURRENT_FIX_INDEX"], "CURRENT_FIX_INDEX", "reports") - 1
    for ours, theirs in {**_NUMBERS, **_SACCADES}.items():
        if theirs in report:
            out[ours] = numbers(report[theirs], theirs, "fixation reports", _NONE)
    area = report[_AREA]
    out["word"] = area.mask(area.isin(_NONE))
    if "CURRENT_FIX_INTEREST_AREAS" in report:
        listed = report["CURRENT_FIX_INTEREST_AREAS"].fillna("")
        out["areas"] = listed.str.strip("[] ").mask(lambda s: s == "")
        several = out["areas"].str.contains(",", regex=False, na=False)
        reason = "inside several areas: word is the one that the report chose, areas has all"
        lost.add("fixations", "note", reason, int(several.sum()))
    if _BLINK in report:
        around = report[_BLINK]
        out["blink"] = (around != "NONE").astype("boolean").mask(around.isna())
        unknown = int(around.isna().sum())
        reason = "report of 20 columns: no blinks, saccades or time to answer"
        lost.add("fixations", "undefined", reason, unknown)
    out["off_screen"] = outside(out["x"], out["y"], *SCREEN)
    lost.add("fixations", "note", "in no area (word is missing)", int(out["word"].isna().sum()))
    return out


def _trials(report: pd.DataFrame, lost: LossLog) -> pd.DataFrame:
    facts = [*_IDS, *_ANSWERS, *(c for c in ("TIME_TO_ANSWER",) if c in report)]
    rows = report[[*facts, "trial", "trial_index", "session", "file"]].drop_duplicates(
        ["trial", *facts]
    )
    twice = rows["trial"].duplicated()
    if twice.any():
        raise DataError(
            "a trial has two snippets, answers or ratings",
            source=rows.loc[twice, "file"].iloc[0],
            row=f"trial {rows.loc[twice, 'trial_index'].iloc[0]}",
            found=", ".join(f"{c} {rows.loc[twice, c].iloc[0]}" for c in facts),
        )
    out = rows[["trial", "trial_index", "session", "file"]].reset_index(drop=True)
    rows = rows.reset_index(drop=True)
    out.insert(0, "participant", rows["RECORDING_SESSION_LABEL"])
    out["stimulus"] = out["code_snippet_id"] = rows["code_snippet_id"]
    out["track"] = rows["track_id"]
    out["condition"] = "track " + rows["track_id"]
    key, right = (rows[c].mask(rows[c].isin(_NONE)) for c in ("KEY_STROKE", "correct_option"))
    out["key_stroke"], out["correct_option"] = key, right
    out["answered"] = key.notna().astype("boolean")
    out["accuracy"] = (key == right).astype("Int64").mask(right.isna())
    rating = numbers(rows["CS_SUBJ_DIFFICULTY"], "CS_SUBJ_DIFFICULTY", "reports", _NONE)
    out["subjective_difficulty"] = rating.astype("Int64")
    given = rows.get("TIME_TO_ANSWER", pd.Series(np.nan, index=rows.index, dtype="str"))
    time = numbers(given, "TIME_TO_ANSWER", "reports", _NONE)
    out["time_to_answer"] = time.mask(time < 0)
    out["n_fixations"] = out["trial"].map(report["trial"].value_counts())
    lost.add(
        "trials",
        "undefined",
        "no right option known: no accuracy",
        int(right.isna().sum()),
        "trials",
    )
    silent = int((key.isna() & right.notna()).sum())
    lost.add("trials", "note", "no key (answered is false): counts as wrong", silent, "trials")
    unknown = int(out["time_to_answer"].isna().sum())
    lost.add("trials", "undefined", "no time to answer (-1, or no such column)", unknown, "trials")
    return out


def read_areas(path: Path, snippet: str) -> pd.DataFrame:
    """Read an EyeLink set of interest areas: one row per rectangle, in the order of the ids.

    Raises
    ------
    DataError
        A line that is neither a comment nor a rectangle with six values, or no rectangle at all.
    """
    rows = []
    for number, line in enumerate(read_string(path).splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = line.split("\t", 6) if "\t" in line else line.split(None, 6)
        try:
            kind, area, *sides, token = parts
            box, identity = [float(v) for v in sides], int(area)
            if kind != "RECTANGLE" or len(box) != 4 or not token.strip():
                raise ValueError(kind)
        except ValueError:
            raise DataError(
                "not a rectangle",
                source=path,
                row=number,
                expected="RECTANGLE, id, left, top, right, bottom, token",
                found=repr(line[:60]),
            ) from None
        rows.append((identity, *box, token))
    if not rows:
        raise DataError("no interest area in the file", source=path)
    names = ["index", "left", "top", "right", "bottom", "text"]
    areas = pd.DataFrame(rows, columns=names)
    areas["word"] = text(areas["index"])
    return areas.assign(layout=snippet, stimulus=snippet)


def _known_areas(fixations: pd.DataFrame, words: pd.DataFrame | None, lost: LossLog) -> None:
    """Take away the reported areas of snippets whose areas are not published, and count them."""
    given = join_ids(fixations["stimulus"], fixations["word"], by="\t")
    known = pd.Series([], dtype="str")
    if words is not None:
        known = join_ids(words["stimulus"], words["word"], by="\t")
    lone = fixations["word"].notna() & ~given.isin(known)
    fixations["word"] = fixations["word"].mask(lone)
    reason = "reported area has no rectangle: no word"
    lost.add("fixations", "undefined", reason, int(lone.sum()), examples=given[lone].unique())


def _stimuli(
    folder: Path, trials: pd.DataFrame, boxed: list[str], file_ids: Mapping[str, str]
) -> tuple[dict[str, dict[str, Any]], int, int]:
    """Return facts per snippet, and how many snippets and tasks are there as files."""
    code = {p.name.split(".py")[0]: p for p in find_files(folder, "code_snippets/*.py*")}
    tasks = {
        p.name.split("-task")[0]: p for p in find_files(folder, "comprehension_tasks/*-task.py*")
    }
    names = final_names(folder, file_ids)
    stimuli: dict[str, dict[str, Any]] = {}
    for snippet in sorted({*trials["stimulus"], *boxed, *code}):
        facts: dict[str, Any] = {"size": SCREEN, "language": "python"}
        if snippet in code:
            facts["text"] = read_string(code[snippet])
        if snippet in names:
            facts["final_name"] = names[snippet]
            if names[snippet] in tasks:
                facts["task"] = read_string(tasks[names[snippet]])
        stimuli[snippet] = facts
    return stimuli, len(code), len(tasks)


def _file_ids(page: Corpus) -> dict[str, str]:
    """Return the ids in reports and tables that the names of the files spell in another way."""
    listed = [c for c in page.corrections if "stimulus" in c.get("where", {})]
    return {c["where"]["stimulus"]: c["set"]["stimulus"] for c in listed}


def final_names(folder: Path, file_ids: Mapping[str, str]) -> dict[str, str]:
    """Return the name in the publication (``CS-03-V1``) of each snippet; ``V1/V2`` are two."""
    path = one_file(folder, "naming_mapping.csv")
    if path is None:
        return {}
    names = {}
    table = read_text(path, ";", ["Original Name", "Final Name"])
    for given, final in zip(table["Original Name"], table["Final Name"], strict=True):
        first, *others = given.strip().split("/")
        stem = first.rsplit("-", 1)[0]
        for snippet in (first, *(f"{stem}-{v}" for v in others)):
            names[file_ids.get(snippet, snippet)] = final.strip()
    return names


def _with_questions(folder: Path, trials: pd.DataFrame) -> pd.DataFrame:
    """Add the question and the three options of each snippet, where the table has them."""
    path = one_file(folder, "comprehension_tasks_config.csv")
    if path is None:
        return trials
    first, _, rest = read_string(path).partition("\n")
    quoted = re.search(r'""(.+?)""', first)
    header, *lines = rest.splitlines()
    names = header.strip().split(";")
    cells = [line.split(";") for line in lines if line.strip()]
    uneven = [c for c in cells if len(c) != len(names)]
    if uneven or "$code_snippet_id" not in names:
        raise DataError(
            "not the published table of tasks",
            source=path,
            expected=f"{len(names)} cells per row, $code_snippet_id among them",
            found=";".join(uneven[0]) if uneven else header,
        )
    table = pd.DataFrame(cells, columns=[n.lstrip("$") for n in names], dtype="str")
    options = [f"option_{k}" for k in "abc" if f"option_{k}" in table]
    table["code_snippet_id"] = table["code_snippet_id"].str.strip()
    trials = trials.merge(table[["code_snippet_id", *options]], "left", "code_snippet_id")
    known = trials["code_snippet_id"].isin(table["code_snippet_id"])
    asked = pd.Series(quoted[1] if quoted else np.nan, index=trials.index, dtype="str")
    return trials.assign(question=asked.where(known))


def _groups(folder: Path, file_ids: Mapping[str, str]) -> pd.DataFrame | None:
    path = one_file(folder, "AOI_IA_IDXS.csv")
    if path is None:
        return None
    names = {
        "code_snippet_id": "stimulus",
        "AOI_ID": "group",
        "IA_idx_start": "start",
        "IA_idx_end": "end",
    }
    table = read_text(path, ";", names).rename(columns=names)
    table["stimulus"] = table["stimulus"].replace(dict(file_ids))
    for column in ("start", "end"):
        table[column] = numbers(table[column], column, path).astype("int64")
    return table[[*names.values()]]
