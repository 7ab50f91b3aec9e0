"""The report of joint attention: errors of the network and of gaze cones, example scenes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Polygon
from numpy.typing import NDArray

from gazeattn.datamodules.joint_attention import JointScenes
from gazeattn.report import style
from gazeattn.report.benchmark import Drawing, panels, write_page
from gazeattn.report.objects import WHITE, file_name
from gazeattn.report.scores import interval_cell, page_table
from gazeattn.report.style import BASELINE, HUMAN, MODEL, count, number, styled

POOLED = "all"
DISTANCE = "distance"
COLUMNS = {
    DISTANCE: "distance px",
    "distance_one_target": "one target px",
    "detection_rate_20px": "within 20 px",
    "detection_rate_50px": "within 50 px",
    "detection_rate_100px": "within 100 px",
}
PANELS = {
    DISTANCE: "← distance px",
    "detection_rate_20px": "within 20 px →",
    "detection_rate_50px": "within 50 px →",
}
PRESENCE = {
    "auc": "AUC",
    "average_precision": "average precision",
    "macro_f1": "macro F1",
    "accuracy": "accuracy",
}
CHANCE = "centre"
MINUS = "_minus_"
HALF_ANGLE = 15.0
"""Degrees to either side of a gaze direction that a drawn cone spans."""


@dataclass(frozen=True)
class SceneExample:
    """One scene with what is predicted in it.

    Attributes
    ----------
    dataset, model, which : str
        `which`: ``best``, ``median`` or ``worst``.
    scene : JointScenes
        This scene alone.
    predicted, truth : ndarray, shape (rows, columns)
        Map of the network; bumps at the targets of joint attention.
    point : ndarray, shape (2,)
        Predicted point in pixels.
    rivals : mapping of str to ndarray, shape (2,)
        Points of the baselines in pixels.
    distance : float
        Mean distance of the targets to `point` in pixels.
    """

    dataset: str
    model: str
    which: str
    scene: JointScenes
    predicted: NDArray[np.float64]
    truth: NDArray[np.float64]
    point: NDArray[np.float64]
    rivals: Mapping[str, NDArray[np.float64]]
    distance: float


def write_joint_report(
    rows: pd.DataFrame,
    folder: Path,
    examples: Sequence[SceneExample],
    *,
    network: str,
    command: str,
    facts: Mapping[str, object],
) -> Path:
    """Write ``report.html`` and the figures of a benchmark of joint attention.

    Parameters
    ----------
    rows
        Result rows of the network and of the baselines.
    folder
        Of the run.
    examples
        Scenes to draw.
    network
        Name of the network in `rows`; all other models are baselines.
    command
        How to do it again.
    facts
        Of the scenes and of the run, for the head of the page.
    """
    kind = np.where(rows["model"] == network, "model", "baseline")
    main = means(rows.assign(kind=kind), network)
    datasets = [str(d) for d in dict.fromkeys(main["dataset"])]
    drawings, tables = [], []
    for dataset in datasets:
        table = main[main["dataset"] == dataset]
        drawings.append(_scores(table, dataset))
        drawings += [_scene(e) for e in examples if e.dataset == dataset]
        tables += [_values(table, dataset)]
    tables += [_gaps(main, datasets), _presence(rows, datasets), _conventions(rows)]
    return write_page(
        folder,
        title="Joint attention",
        sentences=[
            *(_sentence(main[main["dataset"] == d], d, network) for d in datasets),
            f"Chance is {CHANCE}, the middle of the picture; the scenes are generated and have no "
            "observers, so that there is no human ceiling. The widths of the gaze cones and their "
            "weights by action were fitted on training scenes.",
        ],
        facts=facts,
        command=command,
        drawings=drawings,
        tables=[t for t in tables if t["rows"]],
    )


# -- numbers --------------------------------------------------------------------------------------


def means(rows: pd.DataFrame, network: str) -> pd.DataFrame:
    """Return the rows of the baselines, and those of the network over seeds.

    Where there are no rows of seed ``all``, they are those of the one seed.
    """
    seed = rows["seed"].astype(str)
    mine = rows["model"] == network
    parts = []
    for dataset in dict.fromkeys(rows["dataset"]):
        here = rows["dataset"] == dataset
        over = here & mine & (seed == POOLED)
        first = here & mine & (seed == min(seed[here & mine], default=""))
        parts += [rows[over if over.any() else first], rows[here & ~mine]]
    return pd.concat(parts, ignore_index=True)


def scenes_name(dataset: str) -> str:
    """Return what the scenes of a data set are called on the page."""
    return "without actions" if dataset.endswith("_no_actions") else "with actions"


def ranked(table: pd.DataFrame) -> list[str]:
    """Return the network and the baselines, each by distance."""
    first = table[table["metric"] == DISTANCE].sort_values(
        ["kind", "value"], ascending=[False, True]
    )
    return [str(m) for m in first["model"]]


def _values(table: pd.DataFrame, dataset: str) -> dict[str, Any]:
    cells = {(r.model, r.metric): r for r in style.records(table)}
    kinds = dict(zip(table["model"], table["kind"], strict=True))
    rows = []
    for name in ranked(table):
        found = [cells.get((name, m)) for m in COLUMNS]
        rows.append(
            [
                f"{name} ({kinds[name]})",
                *(("–", "") if r is None else interval_cell(r.value, r.low, r.high) for r in found),
                count(cells[name, DISTANCE].n),
            ]
        )
    note = (
        "Every target of joint attention of the test scenes against the one point that is "
        "predicted for its scene; pixels of the picture. One target: scenes with one target only. "
        "Within: share of targets nearer than that. 95 % intervals from drawing sequences."
    )
    columns = {"model": "", **dict.fromkeys([*COLUMNS.values(), "targets"], "n")}
    return page_table(style.sentence(scenes_name(dataset)), columns, rows, note)


def _gaps(main: pd.DataFrame, datasets: Sequence[str]) -> dict[str, Any]:
    table = main[main["metric"].str.contains(MINUS)]
    rows = []
    for r in style.records(table):
        metric, _, rival = str(r.metric).partition(MINUS)
        if metric in COLUMNS:
            rows.append(
                [
                    scenes_name(r.dataset),
                    f"{r.model} less {rival}",
                    COLUMNS[metric],
                    interval_cell(r.value, r.low, r.high),
                ]
            )
    note = (
        "On the same targets, intervals from drawing sequences. Distance: below 0 the first is "
        "nearer. Within: above 0 the first is better."
    )
    columns = {"scenes": "", "models": "", "metric": "", "difference": "n"}
    return page_table("Paired differences", columns, rows, note)


def _presence(rows: pd.DataFrame, datasets: Sequence[str]) -> dict[str, Any]:
    """Return whether there is joint attention at all, by model, seed and score."""
    wanted = {
        f"presence_{m}_from_{s}": (s, t) for s in ("presence", "peak") for m, t in PRESENCE.items()
    }
    table = rows[rows["metric"].isin(wanted)]
    made = []
    keys = ["dataset", "model", "seed"]
    for (dataset, model, seed), group in table.groupby(keys, sort=False):
        cells = {r.metric: r for r in style.records(group)}
        for score in ("presence", "peak"):
            found = [cells.get(f"presence_{m}_from_{score}") for m in PRESENCE]
            if any(f is not None for f in found):
                made.append(
                    [
                        scenes_name(str(dataset)),
                        model,
                        seed,
                        "height of the peak" if score == "peak" else "presence output",
                        *(
                            ("–", "") if r is None else interval_cell(r.value, r.low, r.high)
                            for r in found
                        ),
                    ]
                )
    base = "".join(
        dict.fromkeys(table["convention"].str.extract(r"(base rate [\d.]+)")[0].dropna())
    )
    note = (
        f"Of the test scenes; {base or 'base rate unknown'}. An AUC of 0.5 is chance. Thresholds "
        "were chosen on validation scenes; intervals from drawing sequences."
    )
    columns = {"scenes": "", "model": "", "seed": "n", "score": "",
               **dict.fromkeys(PRESENCE.values(), "n")}  # fmt: skip
    return page_table("Is there joint attention at all?", columns, made, note)


def _conventions(rows: pd.DataFrame) -> dict[str, Any]:
    cones = rows[rows["metric"] == DISTANCE].drop_duplicates(["dataset", "model"])
    made = [
        [scenes_name(r.dataset), r.model, r.convention]
        for r in style.records(cones)
        if r.convention
    ]
    columns = {"scenes": "", "model": "", "how": "prose"}
    return page_table("Conventions", columns, made)


def _sentence(table: pd.DataFrame, dataset: str, network: str) -> str:
    """Say how far the network is, and whether it is nearer than its best rival."""
    cells = {(r.model, r.metric): r for r in style.records(table)}
    mine = cells.get((network, DISTANCE))
    where = style.sentence(scenes_name(dataset))
    if mine is None:
        return f"{where}: the network has not been scored."
    text = (
        f"{where}, the point of {network} is {number(mine.value)} px from the targets "
        f"({number(mine.low)} to {number(mine.high)})"
    )
    rivals = []
    for (model, metric), r in cells.items():
        if model == network and metric.startswith(f"{DISTANCE}{MINUS}"):
            rival = metric.partition(MINUS)[2]
            word = (
                "nearer than"
                if r.high < 0
                else "farther than"
                if r.low > 0
                else "not told apart from"
            )
            gap = f"{number(r.value)}, {number(r.low)} to {number(r.high)}"
            theirs = cells.get((rival, DISTANCE))
            at = "" if theirs is None else f" at {number(theirs.value)}"
            rivals.append(f"{word} {rival}{at} (difference {gap})")
    chance = cells.get((CHANCE, DISTANCE))
    if chance is not None:
        rivals.append(f"the middle of the picture is at {number(chance.value)}")
    return "; ".join([text, *rivals]) + "."


# -- figures --------------------------------------------------------------------------------------


def _scores(table: pd.DataFrame, dataset: str) -> Drawing:
    name = scenes_name(dataset)
    figure = panels(table.assign(panel=table["metric"]), PANELS, ranked(table))
    n = int(table.loc[table["metric"] == DISTANCE, "n"].max())
    caption = (
        f"Scenes {name}: {count(n)} targets of test scenes, 95 % intervals from drawing sequences. "
        "Arrows point to the better side; the network's values are means over seeds."
    )
    return Drawing(file_name(dataset, "scores"), f"Scenes {name}", figure, caption)


def _scene(e: SceneExample) -> Drawing:
    name = scenes_name(e.dataset)
    people = int(e.scene.n_people[0])
    caption = (
        f"{style.sentence(e.which)} test scene ({e.scene.scene[0]}) of {e.model} among those with "
        f"joint attention: {number(e.distance)} px. {count(people)} people with their gaze cones "
        f"({HALF_ANGLE:g} degrees to either side; none where the direction is missing), blue where "
        "they attend to a target of joint attention. Stars are the targets, the cross is the "
        "predicted point, squares those of gaze cones. Each map has its own scale."
    )
    return Drawing(
        file_name(e.dataset, e.which), f"Scenes {name}: {e.which} scene", draw_scene(e), caption
    )


@styled
def draw_scene(e: SceneExample) -> Any:
    """Return the predicted map and the true one, with people, gaze cones and points."""
    wide, high = e.scene.size[0]
    width = style.WIDTH
    each = float(np.clip(width * high / wide, 1, 5))
    figure = style.new_figure(width, 2 * (each + 0.3))
    titles = {f"predicted by {e.model}": e.predicted, "true": e.truth}
    for ax, (title, values) in zip(figure.subplots(2, 1), titles.items(), strict=True):
        ax.imshow(
            values, extent=(0, wide, high, 0), cmap=style.SEQUENTIAL, aspect="equal",
            interpolation="bilinear",
        )  # fmt: skip
        _draw_people(ax, e.scene)
        ax.plot(*e.scene.place[e.scene.joint].T, "*", color="#f5c542", ms=17, mec="black", mew=0.7)
        for xy in e.rivals.values():
            ax.plot(*xy, "s", mfc="none", mec=BASELINE, ms=8, mew=3)
            ax.plot(*xy, "s", mfc="none", mec=WHITE, ms=8, mew=1.2)
        ax.plot(*e.point, "X", color=MODEL, ms=10, mec=WHITE, mew=1)
        ax.set_xlim(0, wide)
        ax.set_ylim(high, 0)
        ax.set_axis_off()
        ax.set_title(style.clean(title))
    return figure


def _draw_people(ax: Axes, scene: JointScenes) -> None:
    joint = set(np.flatnonzero(scene.joint).tolist())
    reach = 0.35 * float(scene.size[0].max())
    turn = np.radians(HALF_ANGLE)
    for head, gaze, attends in zip(scene.head, scene.gaze, scene.attends, strict=True):
        colour = HUMAN if int(attends) in joint else "#9aa3af"
        if np.isfinite(gaze).all():
            angle = np.arctan2(gaze[1], gaze[0]) + np.linspace(-turn, turn, 9)
            rim = head + reach * np.stack([np.cos(angle), np.sin(angle)], axis=1)
            ax.add_patch(
                Polygon(
                    np.vstack([head, rim]), facecolor=WHITE, edgecolor=WHITE, alpha=0.18, lw=0.6
                )
            )
        ax.plot(*head, "o", color=colour, ms=8, mec=WHITE, mew=1.2)
