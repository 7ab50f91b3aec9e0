"""The page of a benchmark of open goals: which question was asked, chosen or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from gazeattn.report import style
from gazeattn.report.benchmark import Drawing, panels, write_page
from gazeattn.report.reading import WORDS
from gazeattn.report.scores import interval_cell, page_table
from gazeattn.report.style import clean, count, label, number

NAMES = {"goal_selection": "Choosing the question", "goal_reconstruction": "Writing the question"}
HEADLINES = {"goal_selection": "accuracy", "goal_reconstruction": "bertscore_f1"}
EXAMPLES = 12


def write_goals_page(
    rows: pd.DataFrame,
    folder: Path,
    *,
    written: Mapping[str, pd.DataFrame],
    notes: Sequence[str],
    command: str,
) -> Path:
    """Write ``report.html`` with both tasks by regime, differences, and written questions.

    Parameters
    ----------
    rows
        Result rows with kind and reference.
    folder
    written
        By model, a table with trial, regime, true, written.
    notes
        What a reader of the numbers has to know.
    command
    """
    first = rows.iloc[0]
    tables, drawings = [], []
    for task in [t for t in NAMES if (rows["task"] == t).any()]:
        part = rows[rows["task"] == task]
        tables += [_values(part, task), _gaps(part, task)]
        metric = HEADLINES[task]
        shown = part[(part["metric"] == metric) & (part["reference"] == "")]
        if len(shown):
            names = list(dict.fromkeys(shown["model"]))
            kinds = shown["kind"].replace({"control": "baseline"})
            drawn = panels(shown.assign(panel=shown["regime"], kind=kinds), WORDS, names)
            caption = f"{label(metric)} by regime; 95 % intervals from drawing readers."
            drawings.append(Drawing(task, NAMES[task], drawn, caption))
    if written:
        tables.append(_examples(written))
    tables = [t for t in tables if t["rows"]]
    return write_page(
        folder,
        title=f"Open goals of readers: {first['dataset']}",
        sentences=[*goal_sentences(rows), *notes],
        facts={"data set": first["dataset"], "size": first["size"], "split": first["split"]},
        command=command,
        drawings=drawings,
        tables=tables,
    )


def goal_sentences(rows: pd.DataFrame) -> list[str]:
    """Say for which models the eyes add to the text, in texts that were not seen in training."""
    lines = []
    for task, name in NAMES.items():
        metric = HEADLINES[task]
        gaps = rows[(rows["task"] == task) & (rows["metric"] == metric) & (rows["reference"] != "")]
        gaps = gaps[(gaps["regime"] == "unseen_text") & (gaps["kind"] == "model")]
        gaps = gaps[~gaps["reference"].str.startswith("retrieval")].dropna(subset=["low"])
        if not len(gaps):
            continue
        # the least of its differences: a model has to be above its control and above a guess
        least = gaps.loc[gaps.groupby("model", sort=False)["low"].idxmin()]
        better = [f"{r.model} ({number(r.value)})" for r in style.records(least[least["low"] > 0])]
        who = ", ".join(better) if better else "no model"
        lines.append(
            f"{name}, unseen texts: better with the eyes than without them and than a guess, by "
            f"{label(metric)}: {who}."
        )
    return lines


def _values(part: pd.DataFrame, task: str) -> dict[str, object]:
    plain = part[part["reference"] == ""]
    metrics = list(dict.fromkeys(plain["metric"]))
    cells = {(r.model, r.regime, r.metric): r for r in style.records(plain)}
    rows = []
    for model in dict.fromkeys(plain["model"]):
        for regime, words in WORDS.items():
            found = [cells.get((model, regime, m)) for m in metrics]
            if any(f is not None for f in found):
                shown = [
                    ("–", "") if f is None else interval_cell(f.value, f.low, f.high) for f in found
                ]
                n = max(int(f.n) for f in found if f is not None and not style.missing(f.n))
                rows.append([clean(model), words, *shown, count(n)])
    columns = {"model": "", "regime": "", **dict.fromkeys(map(label, metrics), "n"), "trials": "n"}
    return page_table(NAMES[task], columns, rows, "95 % intervals from drawing readers.")


def _gaps(part: pd.DataFrame, task: str) -> dict[str, object]:
    gaps = part[(part["reference"] != "") & (part["metric"] == HEADLINES[task])]
    rows = [
        [clean(f"{r.model} less {r.reference}"), WORDS[str(r.regime)],
         interval_cell(r.value, r.low, r.high), count(int(r.n))]
        for r in style.records(gaps)
    ]  # fmt: skip
    columns = {"models": "", "regime": "", "difference": "n", "trials": "n"}
    note = f"{label(HEADLINES[task])} on the same trials; positive: the first one is better."
    return page_table(f"{NAMES[task]}: differences", columns, rows, note)


def _examples(written: Mapping[str, pd.DataFrame]) -> dict[str, object]:
    first = next(iter(written.values()))
    chosen = first.drop_duplicates("trial").head(EXAMPLES)
    texts = {name: dict(zip(t["trial"], t["written"], strict=True)) for name, t in written.items()}
    rows = [
        [WORDS[str(r.regime)], clean(str(r.true)),
         *[clean(str(texts[name].get(r.trial) or "–")) for name in written]]
        for r in style.records(chosen)
    ]  # fmt: skip
    columns = {"regime": "", "asked": "prose", **dict.fromkeys(map(clean, written), "prose")}
    return page_table("Asked and written", columns, rows, "The first test trials, not chosen.")
