"""The figures of the page, with words that say what is seen in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from gazeattn.attention.comparison import Comparison
from gazeattn.datasets.base import GazeDataset
from gazeattn.report import content, figures, scanpaths, style
from gazeattn.report.content import Selection
from gazeattn.report.style import count, label, number, shorten
from gazeattn.storage import atomic_path, write_text

PATH_BYTES = 2_000_000
"""Size of all scanpaths in the page; one per text comes first, further trials while they fit."""

MAX_PATHS = 40


class Pictures:
    """Writes figures beside the page (SVG and PNG) and keeps them for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, figure: Figure, alt: str, caption: str) -> dict[str, Any]:
        """Write ``name.svg`` and ``name.png`` and return the figure for the page."""
        tree = style.svg_tree(figure, name, alt)
        write_text(self.folder / f"{name}.svg", style.svg_file(tree))
        with atomic_path(self.folder / f"{name}.png") as temporary:
            temporary.write_bytes(style.png_bytes(figure))
        return {"svg": Markup(style.svg_inline(tree)), "caption": caption}


# figures ------------------------------------------------------------------------------------------


def draw_figures(
    comparison: Comparison,
    chosen: Selection,
    trials: pd.DataFrame,
    text: Mapping[str, Any] | None,
    human: Mapping[str, Any],
    model: Mapping[str, Any],
    pictures: Pictures,
) -> dict[str, dict[str, Any] | None]:
    """Draw the figures of the measure, metric and method that the page shows first."""
    out: dict[str, dict[str, Any] | None] = dict.fromkeys(
        ("method_intervals", "head_map", "layer_curve", "transitions", "trial_distribution")
    )
    rows = content.table(comparison, chosen)
    what = f"{style.metric_label(chosen.metric)} with {label(chosen.measure)}"
    if len(rows):
        out["method_intervals"] = pictures.add(
            "method_intervals",
            figures.method_intervals(rows, measure=chosen.measure, metric=chosen.metric),
            _intervals_alt(rows, what),
            f"{style.sentence(what)} of every method, best first, with bootstrap intervals. "
            "Filled dots are model attention, open squares are baselines that see neither eyes "
            "nor attention maps. " + _ceiling_sentence(rows),
        )
    s = comparison.summary
    # whatever the headline's level is: layers and heads exist for the average over readers alone
    shown = (s["measure"] == chosen.measure) & (s["metric"] == chosen.metric)
    single = s[shown & s["layer"].notna()]
    averaged = " Here people are the average over the readers of a text."
    heads = single[(single["method"] == chosen.heads) & single["head"].notna()]
    if chosen.heads and len(heads):
        sentence = _heads_sentence(heads)
        out["head_map"] = pictures.add(
            "head_map",
            figures.head_map(
                heads, measure=chosen.measure, metric=chosen.metric, method=chosen.heads
            ),
            f"Heat map of {what}, layer by head, for {label(chosen.heads)}. {sentence}",
            f"Every head of {label(chosen.heads)} by itself: {what}. {sentence} Hatched cells "
            f"have no value.{averaged}",
        )
    if single["head"].isna().any():
        out["layer_curve"] = pictures.add(
            "layer_curve",
            figures.layer_curve(
                single, measure=chosen.measure, metric=chosen.metric, best=chosen.heads
            ),
            f"Line chart of {what} by layer. " + _layers_sentence(single, chosen.heads),
            "Each layer with its heads averaged. " + _layers_sentence(single, chosen.heads)
            + " The band is the bootstrap interval of the bold line." + averaged,
        )  # fmt: skip
    own = trials[(trials["measure"] == chosen.measure) & (trials["metric"] == chosen.metric)]
    if len(own):
        order = [str(m) for m in rows["method"]]
        unit = "text" if chosen.level == "mean" else "trial"
        out["trial_distribution"] = pictures.add(
            "trial_distribution",
            figures.trial_distribution(own, order, metric=chosen.metric, unit=unit),
            f"Distribution of {what} over {own['trial'].nunique()} {unit}s for every method.",
            f"One mark per {unit}, the bar is the median. "
            f"{count(int(own['value'].isna().sum()))} of {count(len(own))} values are undefined "
            "and not drawn.",
        )
    if text is not None:
        _text_figure(comparison, text, human, model, pictures)
    moves, n_words, where = _moves(comparison, text)
    if len(moves):
        back = float(moves.loc[moves["target"] < moves["source"], "count"].sum())
        share = style.percent(back / float(moves["count"].sum()))
        out["transitions"] = pictures.add(
            "transitions",
            figures.transition_matrix(moves, n_words),
            f"Which word was looked at after which in {where}, and how far the eyes moved.",
            f"Movements between words in {where}, readers added up. Left: from which word to "
            "which; marks grow with the number of movements, and marks below the diagonal "
            "(diamonds) are regressions. Right: how many words the eyes moved, regressions "
            f"hatched. {share} of the movements go back.",
        )
    return out


def _text_figure(
    comparison: Comparison,
    text: Mapping[str, Any],
    human: Mapping[str, Any],
    model: Mapping[str, Any],
    pictures: Pictures,
) -> None:
    p = comparison.profiles
    here = p[(p["stimulus"].astype(str) == text["stimulus"])]
    exact = here[here["trial"].astype(str) == text["trial"]]
    reader = here["participant"].isna()

    def weights(name: str, human_side: bool) -> np.ndarray:
        for rows in (exact, here):
            rows = rows[(rows["name"] == name) & ((rows["kind"] == "human") == human_side)]
            mean = rows[reader.reindex(rows.index)]
            rows = mean if len(mean) else rows
            if len(rows):
                first = rows.drop_duplicates("index").sort_values("index")
                return first["weight"].to_numpy(dtype=float, na_value=np.nan)
        return np.full(len(text["words"]), np.nan)

    sides = weights(human["name"], True), weights(model["name"], False)
    if any(len(w) != len(text["words"]) for w in sides):
        return
    drawn = figures.text_side_by_side(
        text["words"], *sides,
        human_name=f"people: {human['label']}", model_name=f"model: {model['label']}",
    )  # fmt: skip
    pictures.add("text_side_by_side", drawn, f"The text {text['title']} twice, coloured", "")


def _intervals_alt(rows: pd.DataFrame, what: str) -> str:
    parts = [f"{label(r.method)} {number(r.value)}" for r in style.records(rows)]
    return f"Dot chart of {what}: " + ", ".join(parts[:20])


def _ceiling_sentence(rows: pd.DataFrame) -> str:
    ceiling = rows["ceiling"].astype(float)
    if not ceiling.notna().any():
        return "No noise ceiling is known for these data."
    upper = rows["ceiling_upper"].astype(float)
    text = f"The dashed line is the noise ceiling, {number(ceiling.median())}"
    if upper.notna().any():
        return f"{text}; the band reaches to its upper bound, {number(upper.median())}."
    return f"{text}; its upper bound is undefined here."


def _heads_sentence(heads: pd.DataFrame) -> str:
    known = heads[heads["value"].notna()]
    if not len(known):
        return "No head has a defined value."
    top = style.extreme(known, "value")
    low = style.extreme(known, "value", -1)
    tested = heads["q"].notna().sum()
    beyond = int((heads["q"].astype(float) < 0.05).sum())
    text = (
        f"Highest: layer {int(top.layer)}, head {int(top.head)} at {number(top.value)}; "
        f"lowest: layer {int(low.layer)}, head {int(low.head)} at {number(low.value)}."
    )
    if tested:
        text += (
            f" {count(beyond)} of {count(len(heads))} heads differ from chance (q < 0.05, "
            "Benjamini-Hochberg) and have a dot."
        )
    return text


def _layers_sentence(single: pd.DataFrame, best: str | None) -> str:
    layers = single[single["head"].isna() & single["value"].notna()]
    own = layers[layers["method"] == best]
    rows = own if len(own) else layers
    if not len(rows):
        return "No layer has a defined value."
    top = style.extreme(rows, "value")
    return (
        f"{style.sentence(label(top.method))} is highest at layer {int(top.layer)} with "
        f"{number(top.value)}."
    )


def heads_note(comparison: Comparison, chosen: Selection) -> str:
    """Return the sentence above the heat map: which method, and how it was picked."""
    if not chosen.heads:
        return ""
    text = f"Shown is {label(chosen.heads)}, the best attention method with single heads"
    rows = content.table(comparison, chosen)
    models = int(((rows["kind"] != "baseline") & rows["value"].notna()).sum())
    if models > 1:
        text += "; it was picked on these same texts, which makes it look better than it is"
    return text + "."


def _moves(comparison: Comparison, text: Mapping[str, Any] | None) -> tuple[pd.DataFrame, int, str]:
    t = comparison.transitions
    if not len(t):
        return t, 0, ""
    stimulus = text["stimulus"] if text is not None else str(t["stimulus"].iloc[0])
    rows = t[t["stimulus"].astype(str) == stimulus]
    if not len(rows):
        stimulus = str(t["stimulus"].iloc[0])
        rows = t[t["stimulus"].astype(str) == stimulus]
    n = int(max(rows["source"].max(), rows["target"].max())) + 1 if len(rows) else 0
    if text is not None and stimulus == text["stimulus"]:
        n = max(n, len(text["words"]))
        return rows, n, f"text {text['title']}"
    return rows, n, f"text {shorten(stimulus)}"


# scanpaths ----------------------------------------------------------------------------------------


def draw_paths(
    comparison: Comparison, dataset: GazeDataset, pictures: Pictures
) -> tuple[list[dict[str, Any]], str]:
    """Draw scanpaths over their texts, one per text first, up to the size that a page can hold."""
    trials = dataset.trials
    compared = comparison.profiles["stimulus"].astype(str).unique()
    if len(compared):
        trials = trials[trials["stimulus"].astype(str).isin(compared)]
        place = {s: i for i, s in enumerate(compared)}
        trials = trials.assign(_place=trials["stimulus"].astype(str).map(place))
        trials = trials.sort_values("_place", kind="stable")
    rank = trials.groupby("stimulus", sort=False).cumcount()
    trials = trials.loc[rank.sort_values(kind="stable").index]
    fixations = dataset.fixations
    by_trial = {k: g for k, g in fixations.groupby("trial", sort=False)} if len(fixations) else {}
    layouts = {k: g for k, g in dataset.words.groupby("layout", sort=False)}
    out: list[dict[str, Any]] = []
    size, left_out = 0, 0
    for trial in style.records(trials):
        own = by_trial.get(trial.trial, fixations.iloc[:0])
        words = layouts.get(trial.layout, dataset.words.iloc[:0])
        if not len(own) or size > PATH_BYTES or len(out) >= MAX_PATHS:
            left_out += 1
            continue
        points = scanpaths.scanpath_points(own, words)
        drawn = points["x"].notna() & points["y"].notna()
        if not drawn.any():
            left_out += 1
            continue
        figure = figures.scanpath(own, words)
        reader = shorten(trial.participant, 40)
        title = f"{reader}, {shorten(trial.stimulus, 50)}"
        alt = f"Path of reader {reader} over the text in {count(int(drawn.sum()))} fixations"
        caption = _path_caption(trial, own, words, drawn)
        if out:
            tree = style.svg_tree(figure, f"scanpath-{len(out) + 1}", alt)
            item: dict[str, Any] = {"svg": Markup(style.svg_inline(tree)), "caption": caption}
        else:
            item = pictures.add("scanpath", figure, alt, caption)
        size += len(item["svg"])
        out.append(item | {"title": title})
    if not out:
        return out, "No path can be drawn: the data have no positions and no fixated words."
    note = ""
    if left_out:
        note = (
            f"{count(left_out)} of {count(len(trials))} trials are not shown here: they have no "
            "fixations with a position, or the page would grow too large."
        )
    return out, note


def _path_caption(
    trial: Any, fixations: pd.DataFrame, words: pd.DataFrame, drawn: pd.Series
) -> str:
    text = f"Reader {shorten(trial.participant, 40)}"
    condition = getattr(trial, "condition", None)
    if not style.missing(condition):
        text += f", condition {shorten(condition, 60)}"
    text += f": {count(len(fixations))} fixations"
    if "duration" in fixations and fixations["duration"].notna().any():
        text += f" of {number(fixations['duration'].median())} ms (median)"
    text += ". Circles grow with duration, colour runs from blue (first) to orange (last)"
    text += ", every tenth fixation is numbered."
    if "word" in fixations and fixations["word"].isna().any():
        text += f" {count(int(fixations['word'].isna().sum()))} fixations are on no word (squares)."
    if not drawn.all():
        text += f" {count(int((~drawn).sum()))} have no position and are not drawn."
    boxes = {"left", "right"} <= set(words) and words[["left", "right"]].notna().all(axis=None)
    if len(words) and not boxes:
        text += " The words have no measured boxes: they are set in reading order."
    return text
