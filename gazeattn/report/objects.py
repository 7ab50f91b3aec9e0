"""The report of a search among objects: models beside baselines and people, example displays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from gazeattn.datamodules import Stimulus
from gazeattn.datamodules.objects import BOX, boxes_of, centres_of, target_of
from gazeattn.report import style
from gazeattn.report.benchmark import ORDER, Drawing, panels, write_page
from gazeattn.report.scanpaths import draw_words
from gazeattn.report.scores import interval_cell, page_table
from gazeattn.report.style import GRID, HUMAN, INK, MODEL, MUTED, count, label, number, styled

POOLED = "all"
SCORE, LIKELIHOOD = "sequence_score", "log_likelihood"
MEANS, SHAPES = "behaviour_means", "behaviour_distributions"
COLUMNS = {
    SCORE: "sequence score",
    LIKELIHOOD: "log-likelihood",
    MEANS: "behaviour: means",
    SHAPES: "distributions",
}
PANELS = {SCORE: "sequence score →", LIKELIHOOD: "likelihood →", SHAPES: "← behaviour"}
SHARES = {"success": "found", "length": "length"}
ABOVE = ("_above_baseline", "_below_baseline")
CHANCE = "random_object"
WHITE = "#fefefe"
"""Not the white of paper, which is exchanged on dark screens: packages keep their colours."""


@dataclass(frozen=True)
class SearchExample:
    """One display with a sequence of a person and one of a model.

    Attributes
    ----------
    dataset, regime, model : str
        What the sequence was drawn for; `model` names the seed where it has one.
    which : str
        ``best``, ``median`` or ``worst``.
    who : str
        Whose sequence stands beside the model's.
    stimulus : Stimulus
    theirs, ours : ndarray of int64
        Objects in the order in which the person, the model looked at them.
    score : float
        Mean sequence score of the model's samples with the people on this display.
    """

    dataset: str
    regime: str
    model: str
    which: str
    who: str
    stimulus: Stimulus
    theirs: NDArray[np.int64]
    ours: NDArray[np.int64]
    score: float


def write_object_report(
    rows: pd.DataFrame,
    folder: Path,
    examples: Sequence[SearchExample],
    *,
    command: str,
    options: Mapping[str, Any],
) -> Path:
    """Write ``report.html`` and the figures of a benchmark of sequences of objects.

    Parameters
    ----------
    rows
        Result rows with ``kind`` and ``reference``.
    folder
        Of the run.
    examples
        Displays to draw.
    command
        How to do it again.
    options
        ``samples`` and ``draws`` of the run, which the page states.
    """
    groups = {key: rows.loc[at] for key, at in _groups(rows).items()}
    drawings, tables, gaps = [], [], []
    for (dataset, regime), group in groups.items():
        title = f"{dataset}, {label(regime)}"
        drawings += _drawings(group, title, f"{dataset}_{regime}")
        mine = [e for e in examples if (e.dataset, e.regime) == (dataset, regime)]
        drawings += [_example(e, title) for e in mine]
        tables.append(_values(group, title))
        gaps += _gaps(group, title)
    tables.append(
        page_table(
            "Networks against the best baseline",
            {"data": "", "network": "", "metric": "", "best baseline": "", "better by": "n"},
            gaps,
            "Difference on the same displays, its interval from drawing displays; above 0 the "
            "network is better. The best baseline is chosen on these displays, metric by metric.",
        )
    )
    used = rows[rows["convention"].notna() & ~rows["metric"].str.startswith("behaviour")]
    used = used.drop_duplicates("metric")
    tables.append(
        page_table(
            "Conventions",
            {"metric": "", "convention": "prose"},
            [[label(r.metric), r.convention] for r in style.records(used)],
        )
    )
    seeds = _seeds(rows)
    return write_page(
        folder,
        title="Search among objects",
        sentences=[
            *(_sentence(group, f"{d}, {label(r)}") for (d, r), group in groups.items()),
            f"Chance is {CHANCE}, which looks anywhere; people (on shelves: the searcher that "
            "made the data) are compared with each other. Baselines called informed end on the "
            "target as often as people did. Every difference is on held-out displays.",
        ],
        facts={
            "data sets": ", ".join(dict.fromkeys(d for d, _ in groups)),
            "size": rows["size"].iloc[0],
            "seeds": ", ".join(map(str, seeds)) or "–",
            "sequences drawn per display": count(options["samples"]),
            "bootstrap draws": count(options["draws"]),
        },
        command=command,
        drawings=drawings,
        tables=[t for t in tables if t["rows"]],
    )


# -- numbers --------------------------------------------------------------------------------------


def _groups(rows: pd.DataFrame) -> dict[tuple[str, str], Any]:
    keys = rows[["dataset", "regime"]].astype(str)
    found = dict.fromkeys(zip(keys["dataset"], keys["regime"], strict=True))
    return {(d, r): (keys["dataset"] == d) & (keys["regime"] == r) for d, r in found}


def _seeds(rows: pd.DataFrame) -> list[str]:
    networks = rows.loc[(rows["kind"] == "model") & (rows["seed"].astype(str) != POOLED), "seed"]
    return sorted(set(networks.astype(str)))


def pooled(group: pd.DataFrame) -> pd.DataFrame:
    """Return the rows over all seeds and folds."""
    return group[group["seed"].astype(str) == POOLED]


def _displays(group: pd.DataFrame) -> int:
    n = pooled(group).loc[pooled(group)["metric"] == SCORE, "n"]
    return int(n.max()) if len(n) else 0


def _counted(group: pd.DataFrame) -> str:
    n = len(_seeds(group))
    return (
        f"{count(_displays(group))} held-out displays; networks: mean of {count(n)} "
        f"{style.plural_unit(n, 'trainings')} ({style.plural_unit(n, 'seeds')} "
        f"{', '.join(_seeds(group)) or '–'})"
    )


def ranked(group: pd.DataFrame) -> list[str]:
    """Return networks, baselines, people; within each the highest sequence score first."""
    table = pooled(group)
    table = table[table["metric"] == SCORE]
    place = table["kind"].map({k: i for i, k in enumerate(ORDER)})
    order = table.assign(place=place).sort_values(["place", "value"], ascending=[True, False])
    return [str(m) for m in order["model"]]


def _values(group: pd.DataFrame, title: str) -> dict[str, Any]:
    """Return the table of one data set and split: models as rows, metrics as columns."""
    table = pooled(group)
    cells = {(r.model, r.metric): r for r in style.records(table)}
    kinds = dict(zip(table["model"], table["kind"], strict=True))
    single = group[group["seed"].astype(str) != POOLED]
    means = single[single["metric"].isin(SHARES)].groupby(["model", "metric"])["value"].mean()
    shown = {m: t for m, t in COLUMNS.items() if (table["metric"] == m).any()}
    shares = {m: t for m, t in SHARES.items() if m in means.index.get_level_values("metric")}
    rows = []
    for name in ranked(group):
        found = [cells.get((name, m)) for m in shown]
        more = [means.get((name, m), np.nan) for m in shares]
        rows.append(
            [
                f"{name} ({kinds[name]})",
                *(interval_cell(r.value, r.low, r.high) if r else ("–", "") for r in found),
                *(
                    style.percent(v) if m == "success" else number(v)
                    for m, v in zip(shares, more, strict=True)
                ),
            ]
        )
    columns = {"model": "", **dict.fromkeys([*shown.values(), *shares.values()], "n")}
    note = (
        f"{_counted(group)}. Intervals: 95 %, from drawing displays; those of people's behaviour: "
        "range of random halves. Sequence score and log-likelihood (nats per fixation): higher is "
        "better. Behaviour, by means and by distributions, is a distance from people: lower is "
        "better. Found: the sequence ends on the target; length: fixations."
    )
    return page_table(title, columns, rows, note)


def _gaps(group: pd.DataFrame, title: str) -> list[list[Any]]:
    table = pooled(group)
    table = table[table["metric"].str.endswith(ABOVE)]
    return [
        [
            title,
            r.model,
            COLUMNS.get(re.sub("_(above|below)_baseline$", "", r.metric), label(r.metric)),
            r.reference,
            interval_cell(r.value, r.low, r.high),
        ]
        for r in style.records(table)
    ]


def _sentence(group: pd.DataFrame, title: str) -> str:
    """Say how the best network stands against the best baseline in the sequence score."""
    table = pooled(group)
    score = table[table["metric"] == SCORE]
    ours = score[score["kind"] == "model"]
    people = score[score["kind"] == "ceiling"]
    gaps = table[table["metric"] == f"{SCORE}{ABOVE[0]}"].set_index("model")
    if not len(ours):
        return f"{title}: no network has been scored."
    best = style.extreme(ours, "value")
    text = f"{title}: {best.model} has a sequence score of {number(best.value)}"
    if best.model in gaps.index:
        gap = gaps.loc[best.model]
        if gap["low"] > 0:
            word = "better than the best baseline"
        elif gap["high"] < 0:
            word = "worse than the best baseline"
        else:
            word = "not told apart from the best baseline"
        text += (
            f", {word} ({gap['reference']}, difference {number(gap['value'])}, "
            f"{number(gap['low'])} to {number(gap['high'])})"
        )
    people = people[people["value"].notna()]  # missing where each display has one sequence
    if len(people):
        who = style.records(people)[0]
        text += f"; {who.model} {number(who.value)}"
    return f"{text}."


# -- figures --------------------------------------------------------------------------------------


def _drawings(group: pd.DataFrame, title: str, name: str) -> list[Drawing]:
    table = pooled(group)
    table = table.assign(panel=table["metric"])
    shown = {m: t for m, t in PANELS.items() if (table["metric"] == m).any()}
    if not shown:
        return []
    figure = panels(table, shown, ranked(group))
    caption = (
        f"{title}: {count(_displays(group))} held-out displays, 95 % intervals from drawing "
        "displays. Arrows point to the better side"
        + (
            "; behaviour is the distance of distributions from those of people."
            if SHAPES in shown
            else "."
        )
    )
    return [Drawing(file_name(name, "scores"), title, figure, caption)]


def _example(e: SearchExample, title: str) -> Drawing:
    figure = draw_search(e.stimulus, {e.who: (e.theirs, HUMAN), e.model: (e.ours, MODEL)})
    caption = (
        f"{style.sentence(e.which)} display ({e.stimulus.name}) of {e.model} by sequence score, "
        f"here {number(e.score)}: the sequence of a {e.who} that is most like the others, and "
        "the model's sample with "
        "the middle score. Numbers are the order of the fixations; a plus stands for further "
        "visits."
    )
    if _words(e.stimulus) is not None:
        caption += " They stand above their words."
    elif not _crops(e.stimulus):
        caption += " The data have no pictures of the objects, only their places."
    if target_of(e.stimulus) is not None:
        caption += " The target stands in a frame."
    name = file_name(e.dataset, e.regime, e.which)
    return Drawing(name, f"{title}: {e.which} display", figure, caption)


def file_name(*parts: str) -> str:
    """Return a name for a file from parts that may hold anything."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", "_".join(parts)).strip("-") or "figure"


@styled
def draw_search(stimulus: Stimulus, sequences: Mapping[str, tuple[NDArray[np.int64], str]]) -> Any:
    """Return a display once for each sequence of objects, with the order of the fixations.

    Parameters
    ----------
    stimulus
        With ``objects``; ``features["appearance"]`` of crops gives the boxes their colours, a
        ``text`` column of the objects their words.
    sequences
        Title -> rows of the objects, and the colour of the path.
    """
    boxes = boxes_of(stimulus)
    corner, end = boxes[:, :2].min(0), boxes[:, 2:].max(0)
    words = _words(stimulus)
    if words is None:  # a text rarely fills its screen
        corner, end = np.minimum(corner, 0), np.maximum(end, stimulus.size)
    pad = 0.02 * float((end - corner).max())
    wide, high = end - corner + 2 * pad
    stacked = wide > 1.5 * high
    width = 1.2 * style.WIDTH
    each = width if stacked else width / len(sequences)
    tall = float(np.clip(each * high / wide, 0.8, 6)) + 0.3
    figure = style.new_figure(width, tall * (len(sequences) if stacked else 1))
    shape = (len(sequences), 1) if stacked else (1, len(sequences))
    anchor = centres_of(stimulus)
    if words is not None:
        anchor[:, 1] = boxes[:, 1]  # the numbers stand above the words, which can then be read
    for ax, (title, (looked, colour)) in zip(
        np.atleast_1d(figure.subplots(*shape)).ravel(), sequences.items(), strict=True
    ):
        ax.set_xlim(corner[0] - pad, end[0] + pad)
        ax.set_ylim(end[1] + pad, corner[1] - pad)
        ax.set_aspect("equal")
        ax.set_axis_off()
        ax.set_title(style.clean(title))
        _draw_objects(ax, stimulus, boxes, pad / 2)
        if words is not None:
            draw_words(ax, words, each * 72 / wide)
        _draw_looks(ax, anchor, looked, colour)
    return figure


def _words(stimulus: Stimulus) -> pd.DataFrame | None:
    """Return the words of a display as a layout; None where nothing is read on it."""
    table = stimulus.objects
    if table is None or "text" not in table or target_of(stimulus) is not None:
        return None
    sides = dict(zip(BOX, ("left", "top", "right", "bottom"), strict=True))
    return table.assign(text=table["text"].astype(str)).rename(columns=sides)


def _crops(stimulus: Stimulus) -> bool:
    """Return whether the looks of the objects are pictures, (objects, colours, height, width)."""
    looks = stimulus.features.get("appearance")
    return looks is not None and looks.dim() == 4


def _draw_objects(ax: Axes, stimulus: Stimulus, boxes: NDArray[np.float64], margin: float) -> None:
    """Draw the boxes, in the colours of their pictures where there are any, and the target."""
    faces: list[Any] = ["none"] * len(boxes)
    if _crops(stimulus):
        colours = stimulus.features["appearance"].mean((2, 3)).clamp(0, 1)
        faces = [tuple(c) for c in colours.double().tolist()]
    edge = GRID if _words(stimulus) is not None else MUTED
    for (x0, y0, x1, y1), face in zip(boxes, faces, strict=True):
        box = Rectangle((x0, y0), x1 - x0, y1 - y0, facecolor=face, edgecolor=edge, lw=0.6)
        ax.add_patch(box)
    target = target_of(stimulus)
    if target is not None:
        (x0, y0), (x1, y1) = boxes[target, :2] - margin, boxes[target, 2:] + margin
        frame = Rectangle((x0, y0), x1 - x0, y1 - y0, facecolor="none", edgecolor=INK, lw=2.2)
        ax.add_patch(frame)


def _draw_looks(
    ax: Axes, anchor: NDArray[np.float64], looked: NDArray[np.int64], colour: str
) -> None:
    """Draw the path, and on every object the numbers of its fixations."""
    xy = anchor[looked]
    ax.plot(*xy.T, "-", color=colour, lw=1.2, alpha=0.75, zorder=3)
    for at in dict.fromkeys(looked.tolist()):
        visits = np.flatnonzero(looked == at)
        text = f"{visits[0] + 1}{'+' if len(visits) > 1 else ''}"
        x, y = anchor[at].tolist()
        ax.text(
            x, y, text, ha="center", va="center", fontsize=7.5, color=WHITE, zorder=4,
            bbox={"boxstyle": "round,pad=0.2", "facecolor": colour, "edgecolor": WHITE, "lw": 0.5},
        )  # fmt: skip
