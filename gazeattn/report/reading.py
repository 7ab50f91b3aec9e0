"""Reports of reading models: tables by regime, calibration, readers, and where models fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.metrics.prediction import HIGHER, auroc, calibration
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
            "gazeattn benchmark reading scores it.",
            *tiny_note(first["size"]),
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
    baselines: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
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
    baselines
        By baseline and regime: difference, low, high.
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
    if baselines:
        tables.append(baseline_table(baselines, chosen))
    for other in sorted(set(rows["metric"]) - {metric}):
        tables.append(regime_table(rows[rows["fold"] == "mean"], label(other), other))
    if chosen in predictions:
        tables.append(error_table(predictions[chosen], chosen))
    return write_page(
        folder,
        title=f"{first['task']} from eye movements ({first['dataset']})",
        sentences=[
            _answer(best, paired, metric),
            *_beaten(headline, best, baselines or {}, metric),
            *tiny_note(first["size"]),
            *notes,
        ],
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


def _beaten(
    headline: pd.DataFrame, best: Mapping[str, Any],
    baselines: Mapping[str, Mapping[str, Mapping[str, Any]]], metric: str,
) -> list[str]:  # fmt: skip
    """Say in which regimes a baseline does as well as the chosen model, or better."""
    if not best:
        return []
    sign = 1 if HIGHER[metric.removesuffix("_reader")] else -1
    said = []
    base = headline[headline["kind"] == "baseline"].dropna(subset=["value"])
    for regime in (r for r in REGIMES if r in best):
        part = base[base["regime"] == regime]
        part = part[sign * part["value"] >= sign * float(best[regime])]
        if len(part):
            top = part.iloc[int((sign * part["value"]).to_numpy().argmax())]
            said.append(f"{top['model']} {number(float(top['value']))} in {WORDS[regime]}")
    if said:
        return [f"A baseline is as good or better: {'; '.join(said)}."]
    unclear = [
        f"{name} in {WORDS[r]}"
        for name, gaps in baselines.items()
        for r, gap in gaps.items()
        if not gap["low"] > 0
    ]
    if unclear:
        return [f"Above all baselines in every regime; not beyond chance: {'; '.join(unclear)}."]
    return ["Above all baselines in every regime."]


def tiny_note(size: Any) -> list[str]:
    """Say that the smallest size is for trying the steps."""
    if str(size) != "tiny":
        return []
    return ["size=tiny only tries the steps: its numbers mean nothing."]


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
        lines.append([f"{text} ({kind})" if kind else text, *[regime_cell(f) for f in found]])
    columns = {key: "", **{WORDS[r]: "n" for r in shown}}
    return page_table(title, columns, lines, "Intervals draw readers with replacement.")


def regime_cell(found: Any) -> tuple[str, str]:
    """Return a value with its interval, or a dash."""
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


def baseline_table(
    gaps: Mapping[str, Mapping[str, Mapping[str, Any]]], model: str
) -> dict[str, Any]:
    """Return the differences between a model and our baselines, by regime."""
    shown = [r for r in REGIMES if any(r in g for g in gaps.values())]
    lines = [
        [clean(name), *[
            interval_cell(g[r]["difference"], g[r]["low"], g[r]["high"]) if r in g else "–"
            for r in shown
        ]]
        for name, g in gaps.items()
    ]  # fmt: skip
    columns = {"baseline": "", **{WORDS[r]: "n" for r in shown}}
    note = "On the same trials; positive: the model is better. Intervals draw readers."
    return page_table(f"{model} less the baselines", columns, lines, note)


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
    if classes and not _one_label_each(rows):
        caption = (
            f"Predictions of {model} for every reader: the mean over trials, and the middle half "
            "of them; a bar is the share of the reader's trials that are of class 1, by which "
            "readers are sorted."
        )
    made.append(Drawing("readers", "Reader by reader", _readers(rows, classes), caption))
    return made


def _one_label_each(rows: pd.DataFrame) -> bool:
    """Whether all trials of a reader have the same label."""
    return bool((rows.groupby("participant")["y"].nunique() <= 1).all())


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
    shares = classes and not _one_label_each(rows)
    classes = classes and not shares
    colours = np.where(table["y"] > 0.5, MODEL, BASELINE) if classes else [MODEL] * len(table)
    ax.vlines(at, table["low"], table["high"], color=list(colours), lw=1.4, alpha=0.6)
    ax.scatter(at, table["p"], s=16, color=list(colours), zorder=3)
    if not classes:
        name = "true share of class 1" if shares else "true"
        ax.plot(at, table["y"], "_", color=HUMAN, ms=8, label=name)
        ax.legend()
    ax.set_xlabel(clean("readers, class 0 (grey) then class 1" if classes else "readers"))
    ax.set_ylabel("prediction")
    ax.set_xticks([])
    return figure
