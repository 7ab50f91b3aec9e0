"""Reading Java projects in an editor while summarising methods (McLoughlin et al., 2025)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, need_file, register_corpus
from gazeattn.datasets.corpusfiles import find_files
from gazeattn.datasets.parts import (
    build,
    correction,
    join_ids,
    numbers,
    one_file,
    read_parquet,
    read_text,
    text,
)
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

_KEY = ["participant", "session", "trial"]
_NUMBERS = {
    "onset": "start_ms",
    "duration": "duration_ms",
    "x": "x",
    "y": "y",
    "file_line": "line",
    "file_column": "column",
    "pupil_left": "pupil_left_mm",
    "pupil_right": "pupil_right_mm",
    "published_order": "published_order",
}
_TEXTS = ["target", "file", "token", "syntactic_category"]
_SCORES = ["accuracy", "completeness", "conciseness", "clarity"]
_TRIAL = [
    "study",
    "project",
    "target_class",
    "target_method",
    "n_fixations",
    "confidence",
    *_SCORES,
]
_LEAF = r"@pos:start='(\d+):(\d+)' and @pos:end='(\d+):(\d+)'\]$"
WHITESPACE = "WHITESPACE"


@register_corpus("call_graph_attention")
def load(folder: Path, page: Corpus, *, xpath: bool = False) -> GazeDataset:
    """Load the gaze, in the order of time, with the file, line, column and token under it.

    A stimulus is a method to summarise (``project.Class.method``). Words are the syntax nodes
    that somebody fixated while summarising it, in the order of file and place (``file``,
    ``file_line`` and ``file_column`` of the node, counted from 1 as published); they have no
    boxes. Fixations on blanks, on the task sheet and on the instructions have no word; ``area``
    is the file in the editor. ``pupil`` is the mean of the eyes that were measured, in mm.

    ``reports``: ``summaries`` (the text and four scores) and ``call_graph`` (edges to depth 5).

    Parameters
    ----------
    xpath
        Keep the path of the syntax node of each fixation (long texts).
    """
    lost = LossLog()
    trials = _trials(need_file(folder, page, "trials.csv"), lost)
    tables = [
        read_text(p, ",", [*_KEY, *_NUMBERS.values(), *_TEXTS, "xpath"])
        for p in find_files(folder, "fixations_P*.csv")
    ]
    gaze = pd.concat(tables, ignore_index=True)
    fixations = _fixations(gaze, lost, xpath)
    facts = trials.set_index("trial")
    unknown = ~fixations["trial"].isin(facts.index)
    if unknown.any():
        raise DataError(
            "fixations of a trial that trials.csv does not list",
            source=folder,
            found=f"{fixations['trial'][unknown].iloc[0]} ({int(unknown.sum())} fixations)",
        )
    fixations["stimulus"] = fixations["trial"].map(facts["stimulus"])
    fixations = chronological(fixations, lost)
    limit = float(correction(page, "long durations")["limit"])
    fixations["long_duration"] = fixations["duration"] > limit
    reason = f"above {limit:g} ms (long_duration): kept as published"
    lost.add("fixations", "note", reason, int(fixations["long_duration"].sum()))
    n = trials["trial"].map(fixations["trial"].value_counts()).fillna(0)
    other = trials.loc[trials["n_fixations"] != n, "trial"]
    reason = "another number of fixations than trials.csv states"
    lost.add("trials", "note", reason, len(other), "trials", other)
    trials["stored_newest_first"] = trials["trial"].map(newest_first(fixations)).astype("boolean")
    words = _nodes(fixations, lost)
    reports, summaries = _reports(folder)
    if summaries is not None:
        keys = ["participant", "project", "target_method"]
        rows = summaries.rename(columns={"method_name": "target_method"})
        trials = trials.merge(rows[[*keys, "summary"]], "left", keys, validate="m:1")
    study = fixations["trial"].map(facts["study"])
    counts = {
        **{f"fixations_study_{k}": int(n) for k, n in study.value_counts().items()},
        "projects": int(trials["project"].nunique()),
        "on_sheets": int(fixations["area"].str.endswith(".txt").sum()),
        "on_java": int(fixations["area"].str.endswith(".java").sum()),
        "stored_newest_first": int(trials["stored_newest_first"].sum()),
        "above_10000_ms": int((fixations["duration"] > 10000).sum()),
        "above_60000_ms": int((fixations["duration"] > 60000).sum()),
        "confidence_missing": int(trials["confidence"].isna().sum()),
        "scores_missing": int(trials["accuracy"].isna().sum()),
        **{("call_graph_edges" if k == "call_graph" else k): len(v) for k, v in reports.items()},
    }
    names = ["stimulus", "project", "target_class", "target_method"]
    facts = trials[names].drop_duplicates("stimulus")
    stimuli: dict[str, dict[str, Any]] = {
        str(s): {"language": "java", "project": p, "target_class": c, "target_method": m}
        for s, p, c, m in facts.itertuples(index=False)
    }
    return build(
        page,
        fixations,
        words,
        trials.assign(condition="code summarisation"),
        units="code tokens",
        stimuli=stimuli,
        lost=lost,
        counts=counts,
        reports=reports,
    )


def _trial_ids(table: pd.DataFrame) -> pd.Series:
    return join_ids(table["participant"].str.zfill(2), table["session"], table["trial"])


def _trials(path: Path, lost: LossLog) -> pd.DataFrame:
    table = read_text(path, ",", [*_KEY, *_TRIAL])
    out = table[["participant", "session"]].copy()
    out["number"] = table["trial"]
    out["trial"] = _trial_ids(table)
    names = ["project", "target_class", "target_method"]
    out["stimulus"] = join_ids(*(table[c] for c in names), by=".")
    out[["study", *names]] = table[["study", *names]]
    for column in ("n_fixations", "confidence", *_SCORES):
        out[column] = numbers(table[column], column, path)
    out["n_fixations"] = out["n_fixations"].astype("Int64")
    for column in ("confidence", "accuracy"):
        what = "confidence" if column == "confidence" else "scores of the summary"
        missing = out[column].isna()
        lost.add(
            "trials", "undefined", f"no {what}", int(missing.sum()), "trials", out["trial"][missing]
        )
    return out


def _fixations(gaze: pd.DataFrame, lost: LossLog, xpath: bool) -> pd.DataFrame:
    out = pd.DataFrame({"participant": gaze["participant"], "trial": _trial_ids(gaze)})
    for ours, theirs in _NUMBERS.items():
        out[ours] = numbers(gaze[theirs], theirs, "fixations_P*.csv")
    for eye in ("pupil_left", "pupil_right"):
        unmeasured = out[eye] == 0
        out[eye] = out[eye].mask(unmeasured)
        lost.add("fixations", "undefined", f"{eye} 0: not measured", int(unmeasured.sum()))
    out["pupil"] = out[["pupil_left", "pupil_right"]].mean(axis=1)
    out["area"] = gaze["target"]
    for column in ("file", "token", "syntactic_category"):
        out[column] = gaze[column].mask(gaze[column] == "")
    for column in ("function_start_line", "function_end_line"):
        if column in gaze:
            out[column] = numbers(gaze[column], column, "fixations_P*.csv").astype("Int64")
    if "function_kind" in gaze:
        out["function_kind"] = gaze["function_kind"].mask(gaze["function_kind"] == "")
    # the same few thousand paths come again and again
    codes, paths = pd.factorize(gaze["xpath"])
    leaf = pd.Series(paths, dtype="str").str.extract(_LEAF)
    for number, name in enumerate(("node_line", "node_column", "node_end_line", "node_end_column")):
        out[name] = pd.to_numeric(leaf[number]).astype("Int64").take(codes).array
    on_code, token = out["file"].notna(), out["token"]
    blank = on_code & (token == WHITESPACE)
    bare = on_code & token.isna()
    place = text(out["node_line"]).fillna("") + ":" + text(out["node_column"]).fillna("")
    span = place + "-" + text(out["node_end_line"]).fillna("") + ":"
    span += text(out["node_end_column"]).fillna("")
    word = join_ids(out["file"], span, token, by="|")
    out["word"] = word.where(on_code & ~blank & ~bare)
    lost.add("fixations", "note", "on blanks in the code: no word", int(blank.sum()))
    reason = (
        "token is empty in the file (in part the literal null, lost as a missing value): no word"
    )
    lost.add("fixations", "undefined", reason, int(bare.sum()))
    reason = "on the task sheet, the instructions, or code without a node: no word"
    lost.add("fixations", "note", reason, int((~on_code).sum()))
    if xpath:
        out["xpath"] = gaze["xpath"].mask(gaze["xpath"] == "")
    return out


def chronological(fixations: pd.DataFrame, lost: LossLog) -> pd.DataFrame:
    """Put the fixations of each trial in the order of their times, and number them from 0.

    Rows of equal time keep their order. Rows that moved, and rows whose published order number
    runs against the times, are counted.
    """
    if fixations["onset"].isna().any():
        raise DataError(
            "a fixation has no time",
            found=f"trial {fixations['trial'][fixations['onset'].isna()].iloc[0]}",
        )
    ordered = fixations.sort_values(["trial", "onset"], kind="stable")
    rank = ordered.groupby("trial").cumcount()
    ordered["index"] = rank
    moved = ordered["index"].sort_index() != fixations.groupby("trial").cumcount()
    reason = "rows not in the order of time: sorted by time within the trial"
    lost.add(
        "fixations",
        "repaired",
        reason,
        int(moved.sum()),
        examples=fixations["trial"][moved].unique(),
    )
    ordered = ordered.reset_index(drop=True)
    back = newest_first(ordered)
    rows = ordered["trial"].map(back).to_numpy(dtype=bool)
    reason = "published order number runs newest first: the order is that of the times"
    lost.add("fixations", "repaired", reason, int(rows.sum()), examples=back.index[back])
    return ordered


def newest_first(fixations: pd.DataFrame) -> pd.Series:
    """Tell of each trial whether the published order numbers fall while time goes on.

    A trial counts as newest first where more neighbours fall than rise.
    """
    step = np.sign(fixations.groupby("trial")["published_order"].diff().fillna(0))
    return step.groupby(fixations["trial"]).sum() < 0


def _nodes(fixations: pd.DataFrame, lost: LossLog) -> pd.DataFrame:
    names = ["stimulus", "word", "token", "file", "node_line", "node_column", "syntactic_category"]
    words = fixations.loc[fixations["word"].notna(), names].drop_duplicates(["stimulus", "word"])
    order = ["stimulus", "file", "node_line", "node_column", "word"]
    words = words.sort_values(order, kind="stable").reset_index(drop=True)
    words = words.rename(
        columns={"token": "text", "node_line": "file_line", "node_column": "file_column"}
    )
    reason = "only syntax nodes that somebody fixated are known: no skips"
    lost.add("words", "undefined", reason, len(words), "nodes")
    return words.assign(layout=words["stimulus"])


def _reports(folder: Path) -> tuple[dict[str, pd.DataFrame], pd.DataFrame | None]:
    reports, summaries = {}, None
    path = one_file(folder, "summaries.csv")
    if path is not None:
        needed = ["participant", "project", "method_name", "summary", *_SCORES]
        summaries = read_text(path, ",", needed)
        for column in _SCORES:
            summaries[column] = numbers(summaries[column], column, path)
        reports["summaries"] = summaries
    path = one_file(folder, "call_graph_edges.parquet")
    if path is not None:
        needed = ["target_method", "direction", "depth", "parent", "child"]
        reports["call_graph"] = read_parquet(path, needed)
    return reports, summaries
