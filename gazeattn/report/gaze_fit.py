"""The page of the benchmark `gaze_fit`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from gazeattn.report import style
from gazeattn.report.benchmark import Drawing, panels, write_page
from gazeattn.report.scores import interval_cell, page_table
from gazeattn.report.style import clean, count, label, number

TITLES = {
    "kl": "KL to a reading (nats, lower is better)",
    "auc": "AUC of looked-at tokens",
    "top10": "overlap of the ten heaviest tokens",
}
AXES = {"kl": "KL, nats", "auc": "AUC", "top10": "overlap of ten"}


def write_gaze_fit_page(
    rows: pd.DataFrame, folder: Path, *, facts: Mapping[str, Any], command: str
) -> Path:
    """Write ``report.html`` with all priors, and the differences to the learned one.

    Parameters
    ----------
    rows
        Result rows with kind and reference.
    folder
    facts
        Of the readings.
    command
    """
    plain = rows[rows["reference"] == ""]
    gaps = rows[rows["reference"] != ""]
    order = plain[plain["metric"] == "kl"].sort_values("value")["model"].tolist()
    shown = plain.assign(panel=plain["metric"])
    drawing = Drawing(
        "gaze_fit",
        "Priors of gaze",
        panels(shown, AXES, order),
        "Developers and code that were not seen in training; 95 % intervals from drawing "
        "developers and snippets.",
    )
    columns = {"prior": "", "kind": "", **dict.fromkeys(map(label, TITLES), "n")}
    lines = []
    for name in order:
        mine = {r.metric: r for r in style.records(plain[plain["model"] == name])}
        cells = [interval_cell(mine[m].value, mine[m].low, mine[m].high) for m in TITLES]
        lines.append([clean(name), clean(mine["kl"].kind), *cells])
    tables = [page_table("All priors", columns, lines, "95 % intervals.")]
    if len(gaps):
        reference = str(gaps["reference"].iloc[0])
        lines = []
        for name in [n for n in order if n in set(gaps["model"])]:
            mine = {r.metric: r for r in style.records(gaps[gaps["model"] == name])}
            cells = [interval_cell(mine[m].value, mine[m].low, mine[m].high) for m in TITLES]
            lines.append([clean(name), clean(mine["kl"].kind), *cells])
        note = f"Positive: better than {reference}, on the same readings."
        tables.append(page_table(f"Less {reference}", columns, lines, note))
    return write_page(
        folder,
        title=f"Gaze on code, told before it was seen: {facts['dataset']}",
        sentences=gaze_fit_sentences(rows),
        facts={k.replace("_", " "): count(v) if isinstance(v, int) else v
               for k, v in facts.items()},
        command=command,
        drawings=[drawing],
        tables=tables,
    )  # fmt: skip


def gaze_fit_sentences(rows: pd.DataFrame) -> list[str]:
    """Say which baselines the reference is above, in KL and in AUC."""
    gaps = rows[rows["reference"] != ""]
    if not len(gaps):
        return ["No prior was compared with another."]
    reference = str(gaps["reference"].iloc[0])
    lines = []
    for metric, title in TITLES.items():
        part = gaps[(gaps["metric"] == metric) & (gaps["kind"] == "baseline")]
        worse = part[part["high"] < 0]["model"].tolist()
        rest = part[part["high"] >= 0]
        line = f"{label(title)}: {reference} is better than {', '.join(worse) or 'no baseline'}"
        if len(rest):
            names = [
                f"{r.model} ({number(r.value)} [{number(r.low)}, {number(r.high)}])"
                for r in style.records(rest)
            ]
            line += f"; not beyond chance than {', '.join(names)}"
        lines.append(line + ".")
    return lines
