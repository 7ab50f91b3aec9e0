"""What ``gazeattn plot`` does: pictures of one trial, or an overview of a whole corpus."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from gazeattn.datasets import GazeDataset
from gazeattn.errors import UnknownNameError
from gazeattn.experiments.files import stem_of
from gazeattn.reading.areas import map_to_words
from gazeattn.report import style
from gazeattn.report.gaze import Stage, heat_map, timeline, trial_scanpath
from gazeattn.report.pages import animation, overview
from gazeattn.storage import atomic_path, write_text

KINDS = ("scanpath", "heatmap", "timeline", "animation")


def plot_trial(
    dataset: GazeDataset,
    trial: str,
    to: str | os.PathLike[str],
    kinds: Sequence[str] = KINDS,
) -> list[Path]:
    """Draw one trial and return the files: SVG and PNG of each figure, the animation as HTML.

    Parameters
    ----------
    dataset
    trial
        Trial id.
    to
        Folder.
    kinds
        Of `KINDS`.

    Raises
    ------
    UnknownNameError
        No such trial or kind.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownNameError("kind of picture", kind, KINDS)
    rows = dataset.trials["trial"] == trial
    if not rows.any():
        raise UnknownNameError("trial", trial, dataset.trials["trial"])
    facts = dataset.trials[rows].iloc[0]
    fixations = dataset.fixations[dataset.fixations["trial"] == trial]
    words = dataset.words[dataset.words["layout"] == facts["layout"]]
    if len(words) and len(fixations) and {"left", "top"} <= set(words):
        if "word" not in fixations or fixations["word"].isna().all():
            fixations, _ = map_to_words(fixations, words, dataset.trials[rows])
    stimulus = {"size": dataset.info.get("screen"), **dataset.stimuli.get(facts["stimulus"], {})}
    stage = Stage(fixations, words, {k: v for k, v in stimulus.items() if v is not None})
    title = f"{dataset.name}, trial {trial}: participant {facts['participant']}"
    stem = Path(to) / stem_of(f"{trial}.x")
    drawn = {"scanpath": trial_scanpath, "heatmap": heat_map, "timeline": timeline}
    written = []
    for kind in kinds:
        if kind == "animation":
            path = Path(f"{stem}_animation.html")
            write_text(path, animation(stage, title))
            written.append(path)
        else:
            written += write_figure(drawn[kind](stage), f"{stem}_{kind}", f"{title}, {kind}")
    return written


def plot_overview(dataset: GazeDataset, to: str | os.PathLike[str]) -> list[Path]:
    """Write the overview of a corpus: one HTML file, and its figures as SVG and PNG."""
    page, figures = overview(dataset)
    written = []
    for name, figure in figures.items():
        written += write_figure(figure, str(Path(to) / name), f"{dataset.name}: {name}")
    path = Path(to) / "overview.html"
    write_text(path, page)
    return [path, *written]


def write_figure(figure: Figure, stem: str, alt: str) -> list[Path]:
    """Write a figure as SVG and PNG."""
    svg, png = Path(f"{stem}.svg"), Path(f"{stem}.png")
    write_text(svg, style.svg_file(style.svg_tree(figure, Path(stem).name, alt)))
    with atomic_path(png) as temporary:
        temporary.write_bytes(style.png_bytes(figure))
    return [svg, png]


def first_trial(dataset: GazeDataset) -> str:
    """Return the first trial that has fixations."""
    counts = dataset.fixations["trial"].value_counts()
    known: Any = dataset.trials.loc[dataset.trials["trial"].isin(counts.index), "trial"]
    return str(known.iloc[0] if len(known) else dataset.trials["trial"].iloc[0])
