"""Pages of `gazeattn explain` and `gazeattn benchmark early`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.report import style
from gazeattn.report.benchmark import Drawing, write_page
from gazeattn.report.reading import REGIMES, WORDS, regime_cell
from gazeattn.report.scores import interval_cell, page_table
from gazeattn.report.style import BASELINE, HUMAN, MODEL, clean, label, number, styled

SMALL = 0.001
"""Changes of a prediction below this are called small."""


def write_explanation(
    features: pd.DataFrame,
    words: pd.DataFrame,
    folder: Path,
    *,
    model: str,
    task: str,
    metric: str,
    trial: str,
    text: Sequence[str],
    command: str,
) -> Path:
    """Write the page of `gazeattn explain`: features and words taken away.

    Parameters
    ----------
    features
        scope, feature, loss, low, high.
    words
        word, text, fixations, prediction, change.
    folder
    model, task, metric, trial, command
    text
        All words of the trial's text.
    """
    top = features.head(20)
    drawings = [
        Drawing(
            "features", "Without a feature", _losses(top),
            f"How much {label(metric)} is lost on validation when a feature is replaced by its "
            "training median, with 95 % intervals over readers.",
        ),
        Drawing(
            "words", "Without a word", _text(words, text),
            f"Trial {trial}: orange words raise the prediction, blue ones lower it; the value is "
            "the prediction with a word less that without its fixations. Grey: never fixated.",
        ),
    ]  # fmt: skip
    rows = [
        [f"{r['feature']} ({r['scope']})", interval_cell(r["loss"], r["low"], r["high"])]
        for r in features.to_dict("records")
    ]
    lines = [
        [str(r["text"]), str(r["fixations"]), number(r["change"])]
        for r in words.reindex(words["change"].abs().sort_values(ascending=False).index)
        .head(25).to_dict("records")
    ]  # fmt: skip
    return write_page(
        folder,
        title=f"What {model} looks at ({task})",
        sentences=[
            "Features and words are taken away one at a time; the model is not fitted again. What "
            "two features share is in neither row, so that small losses do not mean useless.",
            *_small_words(words),
        ],
        facts={"model": model, "task": task, "trial": trial},
        command=command,
        drawings=drawings,
        tables=[
            page_table("Features", {"feature": "", f"loss of {label(metric)}": "n"}, rows),
            page_table("Words", {"word": "", "fixations": "n", "change": "n"}, lines),
        ],
    )


def _small_words(words: pd.DataFrame) -> list[str]:
    """Say how many words hardly matter, and why."""
    still = int((words["change"].abs() < SMALL).sum())
    if not len(words) or not still:
        return []
    return [
        f"{still} of {len(words)} words change the prediction by less than {SMALL:g}: it rests on "
        "many fixations together, and a word takes a few of them away."
    ]


@styled
def _losses(features: pd.DataFrame) -> Any:
    rows = features.iloc[::-1]
    figure = style.new_figure(style.WIDTH, 0.26 * len(rows) + 0.9)
    ax = figure.subplots()
    at = np.arange(len(rows))
    ax.hlines(at, rows["low"], rows["high"], color=MODEL, lw=1.6)
    ax.plot(rows["loss"], at, "o", color=MODEL, ms=4)
    ax.axvline(0, color=BASELINE, lw=0.8, zorder=0)
    ax.set_yticks(at, [clean(f"{f} ({s})") for f, s in zip(rows["feature"], rows["scope"],
                                                           strict=True)])  # fmt: skip
    ax.set_xlabel("loss")
    return figure


@styled
def _text(words: pd.DataFrame, text: Sequence[str]) -> Any:
    change = dict(zip(words["word"], words["change"], strict=True))
    largest = max((abs(v) for v in change.values()), default=0.0) or 1.0
    at, line = style.wrap(text, 72)
    figure = style.new_figure(style.WIDTH, 0.24 * (int(max(line, default=0)) + 1) + 0.3)
    ax = figure.subplots()
    ax.set_axis_off()
    ax.set_xlim(0, 74)
    ax.set_ylim(int(max(line, default=0)) + 0.7, -0.7)
    for k, word in enumerate(text):
        value = change.get(k)
        strength = 0.0 if value is None else min(abs(value) / largest, 1.0)
        colour = BASELINE if value is None else ("#d55e00" if value > 0 else "#0072b2")
        box = {"facecolor": colour, "alpha": 0.65 * strength, "edgecolor": "none", "pad": 1.2}
        ax.text(
            at[k], line[k], clean(word), family="monospace", fontsize=7.5, va="center",
            color=BASELINE if value is None else "#111111", bbox=box,
        )  # fmt: skip
    return figure


def write_early_report(rows: pd.DataFrame, folder: Path, *, metric: str, command: str) -> Path:
    """Write the page of `gazeattn benchmark early`: scores by how much of a reading was seen.

    Parameters
    ----------
    rows
        Result rows with ``share`` or ``seconds``, and ``elapsed_s``.
    folder, metric, command
    """
    first = rows.iloc[0]
    headline = rows[rows["metric"] == metric]
    caption = (
        "Score on the test by what was seen of each reading; bands are 95 % intervals over "
        "readers. Models were fitted anew on each beginning."
    )
    shown = [r for r in REGIMES if (headline["regime"] == r).any()]
    columns = {"seen": "", **{WORDS[r]: "n" for r in shown}}
    notes = {
        "seconds": "Means over folds and seeds; every feature is computed from these seconds "
        "alone; shorter readings are whole.",
        "share": "A share is of each reading's own length: how long a beginning is tells how long "
        "the whole reading was, so that these figures are not those of a reading still going on.",
    }
    drawings, tables = [], []
    for kind in ("seconds", "share"):
        part = headline[headline[kind].notna()]
        if not len(part):
            continue
        cells = {(r["model"], r[kind], r["regime"]): r for r in part.to_dict("records")}
        time = dict(zip(part[kind], part["elapsed_s"], strict=True))
        lines = [
            [f"{model}: first {_seen(kind, amount)} ({time[amount]:.1f} s on average)",
             *[regime_cell(cells.get((model, amount, r))) for r in shown]]
            for model in part["model"].unique()
            for amount in sorted(time)
        ]  # fmt: skip
        title = f"{label(metric)} by {'seconds' if kind == 'seconds' else 'share of the reading'}"
        name = "early" if kind == "seconds" else "early_shares"
        drawings.append(Drawing(name, title, _early(part, shown, kind), caption))
        tables.append(page_table(title, columns, lines, notes[kind]))
    return write_page(
        folder,
        title=f"How soon {first['task']} shows ({first['dataset']})",
        sentences=["Every model is fitted and tested on the beginnings of readings."],
        facts={"data set": first["dataset"], "task": first["task"], "size": first["size"]},
        command=command,
        drawings=drawings,
        tables=tables,
    )


def _seen(kind: str, amount: float) -> str:
    return f"{amount:g} s" if kind == "seconds" else f"{100 * amount:g} %"


@styled
def _early(rows: pd.DataFrame, shown: Sequence[str], kind: str) -> Any:
    scale = 1 if kind == "seconds" else 100
    figure = style.new_figure(1.2 * style.WIDTH, 2.8)
    axes = np.atleast_1d(figure.subplots(1, len(shown), sharey=True))
    colours = (MODEL, HUMAN, "#7b5ea7", "#009e73", BASELINE)
    for ax, regime in zip(axes, shown, strict=True):
        for k, (model, part) in enumerate(rows[rows["regime"] == regime].groupby("model")):
            part = part.sort_values(kind)
            colour = colours[k % len(colours)]
            seen = part[kind] * scale
            ax.plot(seen, part["value"], "-o", ms=3, color=colour, label=clean(model))
            ax.fill_between(seen, part["low"], part["high"], color=colour, alpha=0.15)
        ticks = sorted(set(rows[kind] * scale))
        ax.set_xscale("log")
        ax.set_xticks(ticks, [f"{s:g}" for s in ticks])
        ax.set_xticks([], minor=True)
        ax.set_title(WORDS[regime])
        ax.set_xlabel("seconds seen" if kind == "seconds" else "% seen")
    axes[0].legend(loc="upper left")
    return figure
