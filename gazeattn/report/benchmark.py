"""The report of a benchmark of scanpath models: tables, figures, people beside models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from gazeattn.datamodules import Scanpaths, Stimulus
from gazeattn.report import style
from gazeattn.report.gaze import read_image
from gazeattn.report.html import fill
from gazeattn.report.pictures import Pictures
from gazeattn.report.scores import interval_cell, page_table
from gazeattn.report.style import BASELINE, HUMAN, MODEL, clean, count, label, number, styled
from gazeattn.storage import write_text

FORCED = ("information_gain", "information_gain_explained", "nss", "auc", "log_likelihood")
SAMPLED = (
    "multimatch", "multimatch_duration", "scanmatch", "scanmatch_duration", "sequence_score", "tde",
    "recurrence", "pooled_nss",
)  # fmt: skip
SHAPES = (
    "length_mean", "length_wasserstein", "duration_mean", "duration_wasserstein",
    "amplitude_mean", "amplitude_wasserstein",
)  # fmt: skip
FACTS = {"data set": "dataset", "split": "split", "size": "size", "seed": "seed"}
PUBLISHED = "#7b5ea7"
COLOURS = {"model": MODEL, "published": PUBLISHED, "baseline": BASELINE, "ceiling": HUMAN}
MARKERS = {"model": "o", "published": "^", "baseline": "s", "ceiling": "D"}
WORDS = {"model": "model", "published": "published", "baseline": "baseline", "ceiling": "people"}
ORDER = ("model", "published", "baseline", "ceiling")


def over_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per model, metric and reference: the mean over seeds.

    ``sd`` is the standard deviation over seeds, missing for one seed; ``low`` and ``high`` are the
    means of the seeds' intervals.
    """
    kept = rows.assign(reference=rows["reference"].fillna(""), kind=rows["kind"].fillna(""))
    groups = kept.groupby(["kind", "model", "metric", "reference"], sort=False)
    found = groups.agg(
        value=("value", "mean"),
        sd=("value", "std"),
        low=("low", "mean"),
        high=("high", "mean"),
        n=("n", "max"),
        seeds=("seed", "nunique"),
    )
    return found.reset_index()


def write_benchmark_report(
    rows: pd.DataFrame, folder: Path, test: Scanpaths, *, command: str
) -> Path:
    """Write ``report.html`` and the figures of a benchmark.

    Parameters
    ----------
    rows
        Result rows with ``reference`` and ``kind``.
    folder
        Run folder, with the samples of every model.
    test
        Scanpaths of people.
    command
        How to do it again.
    """
    table = over_seeds(rows)
    first = rows.iloc[0]
    return write_page(
        folder,
        title=f"Scanpath models on {first['dataset']}",
        sentences=sentences(table),
        facts={
            "data set": first["dataset"],
            "split": first["split"],
            "size": first["size"],
            "test stimuli": count(len(test.stimuli)),
            "people": count(len(set(test.participant))),
            "fixations": count(len(test.x)),
        },
        command=command,
        drawings=[
            Drawing(name, label(name), drawn, caption)
            for name, drawn, caption in _figures(table, folder, test)
        ],
        tables=tables(table, rows),
    )


class Drawing(NamedTuple):
    """A figure of a page: the name of its files, its title, and what is seen in it."""

    name: str
    title: str
    figure: Any
    caption: str


def write_page(
    folder: Path,
    *,
    title: str,
    sentences: Sequence[str],
    facts: Mapping[str, object],
    command: str,
    drawings: Sequence[Drawing],
    tables: Sequence[Mapping[str, Any]],
) -> Path:
    """Write ``report.html`` into a run folder, and its figures (SVG and PNG) under ``figures``.

    Parameters
    ----------
    folder
    title, sentences, facts, command
        Texts; the first sentence is the answer. What no file can hold is replaced.
    drawings
    tables
        See `gazeattn.report.scores.page_table`; the first stands above the figures.
    """
    pictures = Pictures(folder / "figures")
    figures = [
        {"title": clean(d.title), **pictures.add(d.name, d.figure, d.caption, clean(d.caption))}
        for d in drawings
    ]
    page = fill(
        "scores.html.j2",
        title=clean(title),
        sentences=[clean(s) for s in sentences],
        facts=[(clean(k), clean(v)) for k, v in facts.items()],
        command=clean(command),
        figures=figures,
        tables=tables,
        citations=[],
    )
    path = folder / "report.html"
    write_text(path, page)
    return path


def sentences(table: pd.DataFrame) -> list[str]:
    """Say in words which models beat every baseline."""
    lines = []
    names = table.loc[table["kind"] == "model", "model"].unique()
    for metric in ("information_gain", "nss"):
        winners = []
        for name in names:
            gaps = table[
                (table["model"] == name) & (table["metric"] == metric) & (table["reference"] != "")
            ]
            baselines = table.loc[table["kind"] == "baseline", "model"].unique()
            gaps = gaps[gaps["reference"].isin(baselines)]
            if len(gaps) and bool((gaps["low"] > 0).all()):
                winners.append(str(name))
        who = ", ".join(winners) if winners else "no model"
        lines.append(f"Better than every baseline in {label(metric).lower()}: {who}.")
    lines.append(
        "Teacher-forced numbers score each fixation of a person under the model's density given "
        "that person's earlier fixations; sampled ones compare scanpaths drawn from the model. "
        "Ceilings see other people's fixations on the same picture."
    )
    seeds = int(table["seeds"].max())
    lines.append(
        f"Networks were trained with {count(seeds)} seed{'s' * (seeds != 1)}; values are means."
    )
    return lines


def tables(table: pd.DataFrame, rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the tables of the page."""
    explained = table["metric"].str.endswith("_explained")
    plain = table[(table["reference"] == "") | explained]
    kl = sorted({m for m in plain["metric"] if m.startswith("kl_") and m.count("_matched") == 0
                 and not m.endswith("_floor")})  # fmt: skip
    made = [
        wide(plain, FORCED, "Every next fixation (teacher-forced)",
             "Bits per fixation above the centre bias and above uniform; means with 95 % intervals "
             "from drawing pictures and people."),
        wide(plain, SAMPLED, "Sampled scanpaths against people",
             "Means over pictures; an average path can be more alike to people than they are to "
             "each other, so see the divergences too."),
        wide(plain, [x for m in kl for x in (m, f"{m}_matched", f"{m}_floor")],
             "Divergence of score distributions",
             "KL of human-human from model-human scores, in nats; matched and floor use the same "
             "number of pairs, the floor with people in place of the model."),
        wide(plain, SHAPES, "Lengths, durations and saccades", ""),
        gaps(table),
    ]  # fmt: skip
    used = style.records(rows.drop_duplicates("metric"))
    conventions = [[label(r.metric), r.convention] for r in used if r.convention]
    made.append(page_table("Conventions", {"metric": "", "convention": "prose"}, conventions))
    return [t for t in made if t["rows"]]


def _ranked(table: pd.DataFrame) -> list[str]:
    gain = table[(table["metric"] == "information_gain") & (table["reference"] == "")]
    best = dict(zip(gain["model"], gain["value"], strict=True))
    kinds = dict(zip(table["model"], table["kind"], strict=True))
    return sorted(kinds, key=lambda m: (ORDER.index(kinds[m]), -best.get(m, -1e9), m))


def wide(table: pd.DataFrame, metrics: Sequence[str], title: str, note: str) -> dict[str, Any]:
    """Return models as rows and metrics as columns; a cell without a number is a dash."""
    shown = [m for m in metrics if (table["metric"] == m).any()]
    cells = {(r.model, r.metric): r for r in table.itertuples()}
    kinds = dict(zip(table["model"], table["kind"], strict=True))
    rows = []
    for name in _ranked(table):
        found = [cells.get((name, m)) for m in shown]
        if any(f is not None for f in found):
            rows.append([f"{name} ({kinds[name]})", *[_cell(f) for f in found]])
    columns = {"model": "", **dict.fromkeys(map(label, shown), "n")}
    return page_table(title, columns, rows, note)


def _cell(found: Any) -> tuple[str, str]:
    """Return a value, and its interval and spread over seeds."""
    if found is None or pd.isna(found.value):
        return "–", ""
    parts = []
    if not pd.isna(found.low):
        parts.append(f"{number(found.low)} to {number(found.high)}")
    if not pd.isna(found.sd) and found.sd > 0:
        parts.append(f"sd {number(found.sd)}")
    return number(found.value), ", ".join(parts)


def gaps(table: pd.DataFrame) -> dict[str, Any]:
    """Return models less baselines and ceilings, with intervals of the paired difference."""
    paired = table[(table["reference"] != "") & table["metric"].isin(FORCED[0::2])]
    paired = paired[~paired["metric"].str.contains("after_first|explained")]
    rows = [
        [f"{r.model} less {r.reference}", label(r.metric), _cell(r)] for r in paired.itertuples()
    ]
    columns = {"models": "", "metric": "", "difference": "n"}
    note = "Positive: the model is better. Intervals draw pictures and people."
    return page_table("Paired differences", columns, rows, note)


# -- figures --------------------------------------------------------------------------------------


def _figures(table: pd.DataFrame, folder: Path, test: Scanpaths) -> list[tuple[str, Any, str]]:
    made: list[tuple[str, Any, str]] = []
    for metric, caption in (
        ("information_gain", "Bits per fixation above the centre bias, with 95 % intervals."),
        ("kl_multimatch", "Divergence of MultiMatch scores from those among people; lower is "
         "more human."),
        ("kl_scanmatch", "Divergence of ScanMatch scores (without duration) from those among "
         "people; lower is more human."),
    ):  # fmt: skip
        chosen = table[(table["metric"] == metric) & (table["reference"] == "")]
        if len(chosen):
            made.append((metric, bars(chosen, label(metric)), caption))
    for which, name, model in examples(folder, test):
        drawn = beside(folder, test, name, model)
        if drawn is not None:
            caption = (
                f"The {which} picture by information gain of {model}: six people (left) and six "
                "samples of the model (right). Circles grow with duration."
            )
            made.append((f"{which}_{model}", drawn, caption))
    return made


@styled
def bars(table: pd.DataFrame, name: str) -> Any:
    """Return the values of one metric over models, the highest first, with intervals."""
    rows = table.sort_values("value")
    figure = style.new_figure(style.WIDTH, 0.32 * len(rows) + 0.9)
    ax = figure.subplots()
    places = np.arange(len(rows))
    items = style.records(rows)
    for at, r in zip(places, items, strict=True):
        colour = COLOURS.get(str(r.kind), BASELINE)
        ax.plot(r.value, at, "o", color=colour, ms=5)
        if not pd.isna(r.low):
            ax.plot([r.low, r.high], [at, at], color=colour, lw=1.6)
    ax.axvline(0, color=BASELINE, lw=0.8, zorder=0)
    ax.set_yticks(places, [clean(f"{r.model} ({r.kind})") for r in items])
    ax.set_xlabel(name)
    return figure


@styled
def panels(table: pd.DataFrame, columns: Mapping[str, str], names: Sequence[str]) -> Any:
    """Return values of models in panels side by side, with intervals; all share the models.

    Parameters
    ----------
    table
        model, kind, panel, value, low, high; a value that is missing is not drawn.
    columns
        Values of ``panel`` and the names of their axes.
    names
        Models from the top.
    """
    figure = style.new_figure(1.2 * style.WIDTH, 0.27 * len(names) + 1.15)
    axes = np.atleast_1d(figure.subplots(1, len(columns), sharey=True))
    place = {name: k for k, name in enumerate(names)}
    kinds = dict(zip(table["model"], table["kind"], strict=True))
    for ax, (panel, text) in zip(axes, columns.items(), strict=True):
        for r in style.records(table[table["panel"] == panel]):
            colour = COLOURS.get(str(r.kind), BASELINE)
            at = place[r.model]
            ax.plot(r.value, at, MARKERS.get(str(r.kind), "o"), color=colour, ms=5)
            if not pd.isna(r.low):
                ax.plot([r.low, r.high], [at, at], color=colour, lw=1.8)
        ax.set_xlabel(text)
        ax.grid(axis="x")
        ax.locator_params(axis="x", nbins=4)
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(names)), [clean(n) for n in names])
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    shown = [k for k in ORDER if k in kinds.values()]
    handles = [
        Line2D([], [], color=COLOURS[k], marker=MARKERS[k], ms=5, lw=1.8, label=WORDS[k])
        for k in shown
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(shown), handlelength=1.6)
    return figure


def examples(folder: Path, test: Scanpaths) -> list[tuple[str, str, str]]:
    """Return best, median and worst stimulus of the first model: (which, stimulus, model)."""
    files = sorted((folder / "teacher_forced").glob("*.parquet"))
    reference = folder / "teacher_forced" / "center_bias_0.parquet"
    models = [f for f in files if (folder / "runs" / f.stem).is_dir()]
    found = []
    for path in models[:4]:
        if not reference.exists() or not path.stem.endswith("_0"):
            continue
        ours, base = pd.read_parquet(path), pd.read_parquet(reference)
        gain = (ours["log_p"] - base["log_p"]).groupby(ours["stimulus"]).mean().sort_values()
        names = list(gain.index)
        for which, at in (("best", -1), ("median", len(names) // 2), ("worst", 0)):
            found.append((which, str(names[at]), path.stem.rpartition("_")[0]))
    return found


def beside(folder: Path, test: Scanpaths, stimulus: str, model: str, most: int = 6) -> Any:
    """Return people's scanpaths and a model's samples over a stimulus; None without samples."""
    path = folder / "samples" / f"{model}_0.parquet"
    if not path.exists() or stimulus not in test.stimuli:
        return None
    table = pd.read_parquet(path)
    table = table[table["stimulus"] == stimulus]
    samples = [g[["x", "y", "duration"]].to_numpy() for _, g in table.groupby("sample")]
    people = [p for p, s in zip(test.paths(), test.stimulus, strict=True) if s == stimulus]
    panels = {"people": people[:most], label(model): samples[:most]}
    return draw_paths(test.stimuli[stimulus], panels)


@styled
def draw_paths(stimulus: Stimulus, panels: Mapping[str, Sequence[np.ndarray]]) -> Any:
    """Return panels of scanpaths over one stimulus, each path in a colour of its own.

    Parameters
    ----------
    stimulus
    panels
        Title -> scanpaths, each (n, 2) or (n, 3) in pixels and ms.
    """
    width, height = stimulus.size
    n = len(panels)
    figure = style.new_figure(style.WIDTH, style.WIDTH / n * height / width + 0.5)
    axes = np.atleast_1d(figure.subplots(1, n))
    image = read_image(stimulus.image) if stimulus.image else None
    colours = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#f0e442", "#56b4e9")
    for ax, (title, paths) in zip(axes, panels.items(), strict=True):
        if image is not None:
            ax.imshow(image, extent=(0, width, height, 0), alpha=0.75)
        for k, path in enumerate(paths):
            colour = colours[k % len(colours)]
            ax.plot(path[:, 0], path[:, 1], "-", color=colour, lw=1.2)
            timed = path.shape[1] == 3 and bool(np.isfinite(path[:, 2]).all())
            size = np.clip(path[:, 2] / 8, 6, 120) if timed else 24
            ax.scatter(path[:, 0], path[:, 1], s=size, color=colour, edgecolor="white", lw=0.5)
        ax.set_xlim(0, width)
        ax.set_ylim(height, 0)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines[:].set_visible(False)
        ax.set_title(clean(title))
    return figure


# -- training -------------------------------------------------------------------------------------


def write_training_report(
    rows: pd.DataFrame, curves: pd.DataFrame, folder: Path, *, command: str
) -> Path:
    """Write ``report.html`` of a training: validation numbers and the curves of the losses."""
    first = rows.iloc[0]
    caption = "Loss of training and validation after every epoch; the dot is the kept model."
    best = curves.iloc[int(curves["val/loss"].argmin())]
    cells = [
        [
            label(r.metric),
            interval_cell(r.value, r.low, r.high),
            count(r.n),
            r.convention,
        ]
        for r in style.records(rows)
    ]
    return write_page(
        folder,
        title=f"{first['model']} on {first['dataset']}: training",
        sentences=[
            f"The model of epoch {count(int(best['epoch']) + 1)} of {count(len(curves))} was kept, "
            f"with a validation loss of {number(best['val/loss'])}."
        ],
        facts={k: first[v] for k, v in FACTS.items()},
        command=command,
        drawings=[Drawing("curves", "Curves", curve_figure(curves), caption)],
        tables=[
            page_table(
                "Validation",
                {"metric": "", "value": "n", "n": "n", "convention": "prose"},
                cells,
                "Validation numbers choose models; those of the test part are in the benchmark.",
            )
        ],
    )


@styled
def curve_figure(curves: pd.DataFrame) -> Any:
    """Return the losses over epochs."""
    figure = style.new_figure(style.WIDTH, 2.6)
    ax = figure.subplots()
    epochs = curves["epoch"] + 1
    ax.plot(epochs, curves["train/loss"], color=BASELINE, lw=1.4, label="training")
    ax.plot(epochs, curves["val/loss"], color=MODEL, lw=1.6, label="validation")
    at = int(curves["val/loss"].argmin())
    ax.plot(epochs.iloc[at], curves["val/loss"].iloc[at], "o", color=MODEL, ms=5)
    ax.set_xlabel("epoch")
    ax.set_ylabel("loss")
    ax.legend(frameon=False)
    return figure
