"""Reports of reading models: tables by regime, calibration, readers, and where models fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.metrics.prediction import auroc, calibration
from gazeattn.report import style
from gazeattn.report.benchmark import Drawing, panels, write_page
from gazeattn.report.scores import interval_cell, page_table
from gazeattn.report.style import BASELINE, HUMAN, MODEL, clean, label, number, styled

REGIMES = ("all", "unseen_text", "unseen_reader", "unseen_both")
WORDS = {
    "all": "all", "unseen_text": "unseen text", "unseen_reader": "unseen reader",
    "unseen_both": "both unseen",
}  # fmt: skip


def write_fold_report(
    rows: pd.DataFrame,
    predictions: pd.DataFrame,
    folder: Path,
    *,
    command: str,
    task: str,
    curves: pd.DataFrame | None = None,
) -> Path:
    """Write the page of one model on one fold: scores of the validation part.

    Parameters
    ----------
    rows
        Result rows.
    predictions
        Of the validation part.
    folder
        Run folder.
    command, task
    curves
        Losses by epoch, for networks.
    """
    first = rows.iloc[0]
    drawings = []
    if curves is not None and len(curves):
        drawings.append(
            Drawing("loss", "Loss", _curves(curves), "Training and validation loss by epoch.")
        )
    drawings += drawings_of(predictions, str(first["model"]))
    return write_page(
        folder,
        title=f"{first['model']} on {task}, fold {first['fold']}",
        sentences=[
            "Scores of the validation part. The test part is predicted, but not looked at here: "
            "gazeattn benchmark reading scores it."
        ],
        facts={
            "data set": first["dataset"],
            "size": first["size"],
            "seed": first["seed"],
            "trials": len(predictions),
            "readers": predictions["participant"].nunique(),
        },
        command=command,
        drawings=drawings,
        tables=[regime_table(rows, "Validation")],
    )


def write_task_report(
    rows: pd.DataFrame,
    predictions: Mapping[str, pd.DataFrame],
    folder: Path,
    *,
    command: str,
    metric: str,
    best: Mapping[str, Any],
    paired: Mapping[str, Mapping[str, Any]],
    notes: Sequence[str] = (),
) -> Path:
    """Write the page of all models on one task.

    Parameters
    ----------
    rows
        Result rows with ``kind`` (model, baseline, published).
    predictions
        Test predictions by model.
    folder
    command
    metric
        The headline.
    best
        Model chosen on validation, and its test values by regime.
    paired
        By regime: difference, low, high, against.
    notes
        Sentences about the task.
    """
    first = rows.iloc[0]
    headline = rows[(rows["metric"] == metric) & (rows["fold"] == "mean")]
    drawn = headline.assign(panel=headline["regime"])
    shown = {r: WORDS[r] for r in REGIMES if (drawn["regime"] == r).any()}
    order = _ranked(headline)
    drawings = [
        Drawing(
            "models",
            f"{label(metric)} by regime",
            panels(drawn, shown, order),
            "Mean over folds, with 95 % intervals from drawing readers with replacement.",
        )
    ]
    chosen = str(best.get("model", ""))
    if chosen in predictions:
        drawings += drawings_of(predictions[chosen], chosen)
    tables = [regime_table(rows[rows["fold"] == "mean"], label(metric), metric)]
    if paired:
        tables.append(paired_table(paired, chosen))
    for other in sorted(set(rows["metric"]) - {metric}):
        tables.append(regime_table(rows[rows["fold"] == "mean"], label(other), other))
    if chosen in predictions:
        tables.append(error_table(predictions[chosen], chosen))
    return write_page(
        folder,
        title=f"{first['task']} from eye movements ({first['dataset']})",
        sentences=[_answer(best, paired, metric), *notes],
        facts={
            "data set": first["dataset"],
            "task": first["task"],
            "size": first["size"],
            "models": headline["model"].nunique(),
            "test trials": int(headline["n"].max()),
        },
        command=command,
        drawings=drawings,
        tables=tables,
    )


def _answer(best: Mapping[str, Any], paired: Mapping[str, Mapping[str, Any]], metric: str) -> str:
    if not best:
        return "No model has been trained yet."
    values = ", ".join(f"{WORDS[r]} {number(best[r])}" for r in REGIMES if r in best)
    text = f"Chosen on validation: {best['model']}. {label(metric)} in the test: {values}."
    above = [WORDS[r] for r, p in paired.items() if p["low"] > 0]
    if paired:
        text += (
            f" Better than the best published model, beyond chance: {', '.join(above)}."
            if above
            else " In no regime better than the best published model beyond chance."
        )
    return text


def _ranked(rows: pd.DataFrame) -> list[str]:
    everything = rows[rows["regime"] == "all"].sort_values("value", ascending=False)
    return [str(m) for m in everything["model"]]


def regime_table(rows: pd.DataFrame, title: str, metric: str | None = None) -> dict[str, Any]:
    """Return models (or metrics, where none is named) as rows and regimes as columns."""
    kept = rows if metric is None else rows[rows["metric"] == metric]
    key = "metric" if metric is None else "model"
    shown = [r for r in REGIMES if (kept["regime"] == r).any()]
    cells = {(r[key], r["regime"]): r for r in kept.to_dict("records")}
    names = list(dict.fromkeys(kept[key])) if metric is None else _ranked(kept)
    kinds = dict(zip(rows["model"], rows["kind"], strict=True)) if "kind" in rows else {}
    lines = []
    for name in names:
        found = [cells.get((name, r)) for r in shown]
        text = label(name) if metric is None else name
        kind = kinds.get(name, "") if metric is not None else ""
        lines.append([f"{text} ({kind})" if kind else text, *[_cell(f) for f in found]])
    columns = {key: "", **{WORDS[r]: "n" for r in shown}}
    return page_table(title, columns, lines, "Intervals draw readers with replacement.")


def _cell(found: Any) -> tuple[str, str]:
    if found is None or pd.isna(found["value"]):
        return "–", ""
    return interval_cell(found["value"], found["low"], found["high"])


def paired_table(paired: Mapping[str, Mapping[str, Any]], model: str) -> dict[str, Any]:
    """Return the differences between a model and the best published one, by regime."""
    lines = [
        [WORDS[r], str(p["against"]), interval_cell(p["difference"], p["low"], p["high"])]
        for r, p in paired.items()
    ]
    columns = {"regime": "", "published model": "", "difference": "n"}
    note = "On the same trials; positive: ours is better. Intervals draw readers."
    return page_table(f"{model} less the best published model", columns, lines, note)


def error_table(predictions: pd.DataFrame, model: str) -> dict[str, Any]:
    """Return how well a model does in quarters of trials by what they are like."""
    rows = predictions[predictions["y"].notna()]
    lines: list[list[Any]] = []
    for column in ("fixations", "words", "duration_mean", "off_text"):
        if column not in rows or rows[column].nunique() < 4:
            continue
        quarter = pd.qcut(rows[column].rank(method="first"), 4, labels=False)
        cells = []
        for k in range(4):
            part = rows[quarter == k]
            cells.append((_quality(part), f"to {number(part[column].max())}"))
        lines.append([label(column), *cells])
    columns = {"trials by": "", **{f"quarter {k + 1}": "n" for k in range(4)}}
    note = (
        "Area under the ROC curve (classes) or root mean squared error inside each quarter; "
        "below it the largest value of the quarter."
    )
    return page_table(f"Where {model} fails", columns, lines, note)


def _quality(rows: pd.DataFrame) -> str:
    if "p" not in rows or not len(rows):
        return "–"
    if set(rows["y"].unique()) <= {0.0, 1.0}:
        value = auroc(rows["y"], rows["p"])
        return "–" if np.isnan(value) else number(value)
    return number(float(np.sqrt(((rows["y"] - rows["p"]) ** 2).mean())))


def drawings_of(predictions: pd.DataFrame, model: str) -> list[Drawing]:
    """Return the figures of one model's predictions: calibration and readers."""
    rows = predictions[predictions["y"].notna()]
    if "p" not in rows or not len(rows):
        return []
    made = []
    classes = set(rows["y"].unique()) <= {0.0, 1.0}
    if classes and bool(rows["p"].between(0, 1).all()):
        caption = (
            f"What {model} said against how often it was so, in ten bins; the size of a point is "
            "the number of trials. On the diagonal probabilities are what they say."
        )
        made.append(Drawing("calibration", "Calibration", _calibration(rows), caption))
    caption = (
        f"Predictions of {model} for every reader: the mean over trials, and the middle half of "
        "them. Readers are sorted by what is true, then by the mean."
    )
    made.append(Drawing("readers", "Reader by reader", _readers(rows, classes), caption))
    return made


@styled
def _curves(curves: pd.DataFrame) -> Any:
    figure = style.new_figure(style.WIDTH * 0.8, 2.6)
    ax = figure.subplots()
    for name, colour in (("train/loss", BASELINE), ("val/loss", MODEL)):
        if name in curves:
            ax.plot(curves["epoch"] + 1, curves[name], "-o", ms=3, color=colour, label=name[:-5])
    ax.set_xlabel("epoch")
    ax.set_ylabel("loss")
    ax.legend()
    return figure


@styled
def _calibration(rows: pd.DataFrame) -> Any:
    found = calibration(rows["y"], rows["p"])
    figure = style.new_figure(3.6, 3.4)
    ax = figure.subplots()
    ax.plot([0, 1], [0, 1], color=BASELINE, lw=1)
    there = found.n > 0
    size = 12 + 160 * found.n[there] / max(found.n.max(), 1)
    ax.scatter(found.said[there], found.true[there], s=size, color=MODEL, alpha=0.8)
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel("said")
    ax.set_ylabel("true")
    return figure


@styled
def _readers(rows: pd.DataFrame, classes: bool) -> Any:
    groups = rows.groupby("participant")
    table = groups.agg(y=("y", "mean"), p=("p", "mean"))
    table["low"], table["high"] = groups["p"].quantile(0.25), groups["p"].quantile(0.75)
    table = table.sort_values(["y", "p"])
    figure = style.new_figure(style.WIDTH, 2.8)
    ax = figure.subplots()
    at = np.arange(len(table))
    colours = np.where(table["y"] > 0.5, MODEL, BASELINE) if classes else [MODEL] * len(table)
    ax.vlines(at, table["low"], table["high"], color=list(colours), lw=1.4, alpha=0.6)
    ax.scatter(at, table["p"], s=16, color=list(colours), zorder=3)
    if not classes:
        ax.plot(at, table["y"], "_", color=HUMAN, ms=8, label="true")
        ax.legend()
    ax.set_xlabel(clean("readers, class 0 (grey) then class 1" if classes else "readers"))
    ax.set_ylabel("prediction")
    ax.set_xticks([])
    return figure


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
            "two features share is in neither row, so that small losses do not mean useless."
        ],
        facts={"model": model, "task": task, "trial": trial},
        command=command,
        drawings=drawings,
        tables=[
            page_table("Features", {"feature": "", f"loss of {label(metric)}": "n"}, rows),
            page_table("Words", {"word": "", "fixations": "n", "change": "n"}, lines),
        ],
    )


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
             *[_cell(cells.get((model, amount, r))) for r in shown]]
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
