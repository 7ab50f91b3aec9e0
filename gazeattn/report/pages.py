"""Single pages beside the comparison's report: an animated trial, an overview of a corpus.

Each is one HTML file that needs no network and no other file; all texts are escaped, and only the
script of the page itself may run.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import counts as counts_of
from gazeattn.report import style
from gazeattn.report.gaze import MAX_WORDS, Stage
from gazeattn.report.html import fill, json_for_html, linked
from gazeattn.report.style import HUMAN, MUTED, clean, count, floats, label, number, styled

MAX_FIXATIONS = 5000
"""Fixations of an animated trial; of a longer one the first are shown, which the page says."""


def animation(stage: Stage, title: str) -> str:
    """Return a page that plays a trial in time.

    Fixations without an onset follow one another; without durations each takes 250 ms, which
    the page says.
    """
    points = stage.points.iloc[:MAX_FIXATIONS]
    duration = floats(points, "duration")
    onset = floats(points, "onset")
    known = np.isfinite(duration)
    usual = float(np.median(duration[known])) if known.any() else 250.0
    lasting = np.where(known, duration, usual)
    timed = len(onset) > 0 and bool(np.isfinite(onset).all())
    start = onset - onset[0] if timed else np.cumsum(lasting) - lasting
    left, top, right, bottom = stage.extent
    radius = max(right - left, bottom - top) / 90
    radii = radius * np.sqrt(np.clip(lasting / usual, 0.2, 6.0))
    x, y = floats(points, "x"), floats(points, "y")
    sentences = [f"{count(len(points))} fixations in {number((start + lasting).max() / 1000)} s."
                 if len(points) else "No fixation has a place."]  # fmt: skip
    if len(stage.points) > len(points):
        sentences.append(f"Only the first {count(len(points))} of {count(len(stage.points))}.")
    if len(points):
        sentences += [f"{note}." for note in stage.notes()]
    if not timed:
        sentences.append("The data have no onsets: fixations follow one another without saccades.")
    if not known.all():
        sentences.append(f"Fixations without a duration take {usual:.0f} ms here.")
    return fill(
        "animation.html.j2",
        title=clean(title),
        sentence=" ".join(sentences),
        script_name="animation.js",
        view=" ".join(f"{v:.1f}" for v in (left, top, right - left, bottom - top)),
        image=_data_address(stage.image) if stage.image is not None else "",
        box=stage.box or (0, 0, 0, 0),
        words=_words(stage.words) if stage.image is None else [],
        lines=np.round(np.c_[x[:-1], y[:-1], x[1:], y[1:]], 1).tolist(),
        dots=[
            {
                "x": round(float(a), 1),
                "y": round(float(b), 1),
                "r": round(float(r), 1),
                "title": f"{i + 1}: {number(d)} ms" if math.isfinite(d) else f"{i + 1}",
            }
            for i, (a, b, r, d) in enumerate(zip(x, y, radii, duration, strict=True))
        ],
        data=json_for_html(
            {
                "start": [round(float(s), 1) for s in start],
                "end": round(float((start + lasting).max()), 1) if len(points) else 0,
            }
        ),
    )


def _words(words: pd.DataFrame) -> list[dict[str, Any]]:
    if not 0 < len(words) <= MAX_WORDS:
        return []
    box = words[["left", "top", "right", "bottom"]].to_numpy(float)
    texts = [style.shorten(w, 40) for w in words["text"]]
    room = (box[:, 2] - box[:, 0]) / np.maximum([len(t) for t in texts], 1)
    size = float(min(np.median(room) * 1.6, np.median(box[:, 3] - box[:, 1]) * 0.6))
    return [
        {"x": round((a + c) / 2, 1), "y": round((b + d) / 2, 1), "size": round(size, 1), "text": t}
        for t, (a, b, c, d) in zip(texts, box.tolist(), strict=True)
    ]


def _data_address(pixels: np.ndarray) -> str:
    from PIL import Image

    if pixels.dtype != np.uint8:  # PNG files come as numbers from 0 to 1
        pixels = np.clip(pixels * 255, 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert("RGB").save(buffer, "JPEG", quality=85)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


# overview of a corpus ---------------------------------------------------------------------------


def overview(dataset: GazeDataset) -> tuple[str, dict[str, Any]]:
    """Return a page about a whole corpus, and its figures by name (matplotlib)."""
    drawn = {
        name: (title, draw(dataset), caption)
        for name, title, draw, caption in (
            (
                "durations",
                "Durations of fixations",
                _durations,
                "Share of fixations per duration; the last bin holds all longer ones.",
            ),
            (
                "saccades",
                "Steps between fixations",
                _steps,
                "Distance between consecutive fixations of a trial, in pixels; the last bin holds "
                "all longer ones.",
            ),
            (
                "trials",
                "Fixations per trial",
                _per_trial,
                "How many fixations the trials have; the last bin holds all with more.",
            ),
            (
                "readers",
                "Participants",
                _per_reader,
                "Median duration of fixations of every participant, sorted.",
            ),
            (
                "places",
                "Where people looked",
                _places,
                "All fixations together, on a square-root scale.",
            ),
        )
    }
    figures = []
    for name, (title, figure, caption) in drawn.items():
        tree = style.svg_tree(figure, name, title)
        svg = Markup(style.svg_inline(tree))
        figures.append({"title": title, "svg": svg, "caption": caption})
    info = dataset.info
    counts = counts_of(dataset)
    page = fill(
        "overview.html.j2",
        title=f"{clean(dataset.name)}: overview",
        sentence=_sentence(dataset),
        facts=[
            (label(k), clean(v))
            for k, v in (
                ("licence", info.get("licence", "not stated")),
                ("version", info.get("version", "not stated")),
                ("edition", info.get("edition", "")),
                ("capabilities", ", ".join(_capabilities(dataset))),
                ("labels", ", ".join(info.get("labels", ())) or "none"),
            )
            if v
        ],
        figures=figures,
        tables=[
            _table("Counts", ("what", "number"), [(label(k), count(v)) for k, v in counts.items()]),
            _quality_table(dataset),
            _label_table(dataset),
            _table(
                "What was lost or is doubtful",
                ("step", "kind", "count", "what", "first"),
                [
                    (x.step, x.kind, f"{count(x.count)} {x.unit}", x.reason, x.examples)
                    for x in dataset.lost
                ],
            ),
            _table("Not verified", ("fact",), [(u,) for u in info.get("unverified", ())]),
        ],
        citations=[linked(str(info.get("citation", "not stated"))), linked(info.get("url", ""))],
    )
    return page, {name: figure for name, (_, figure, _) in drawn.items()}


def _sentence(dataset: GazeDataset) -> str:
    trials = dataset.trials
    note = dataset.info.get("readers_note", "")
    return (
        f"{count(trials['participant'].nunique())} participants, {count(len(trials))} trials over "
        f"{count(trials['stimulus'].nunique())} stimuli, {count(len(dataset.fixations))} fixations"
        f"{', ' + clean(note) if note else ''}."
    )


def _capabilities(dataset: GazeDataset) -> list[str]:
    return [k.removeprefix("has_") for k, v in dataset.capabilities.items() if v is True]


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Mapping[str, Any]:
    shown = [[clean(c) for c in row] for row in rows] or [["none"] + [""] * (len(columns) - 1)]
    return {"title": title, "columns": columns, "rows": shown}


def _quality_table(dataset: GazeDataset) -> Mapping[str, Any]:
    f = dataset.fixations
    n = max(len(f), 1)
    rows = []
    if {"x", "y"} <= set(f):
        rows.append(("without a position", (f["x"].isna() | f["y"].isna()).sum()))
    if "duration" in f:
        duration = floats(f, "duration")
        rows.append(("without a duration", np.isnan(duration).sum()))
        rows.append(("shorter than 50 ms", (duration < 50).sum()))
        rows.append(("longer than 1,000 ms", (duration > 1000).sum()))
    if "off_screen" in f:
        rows.append(("outside the stimulus", int(f["off_screen"].fillna(False).sum())))
    if "word" in f:
        rows.append(("on no unit", f["word"].isna().sum()))
    shown = [(what, count(k), style.percent(k / n)) for what, k in rows]
    return _table("Quality of the fixations", ("what", "fixations", "share"), shown)


def _label_table(dataset: GazeDataset, most: int = 8) -> Mapping[str, Any]:
    rows = []
    for name in dataset.info.get("labels", ()):
        if name not in dataset.trials:
            continue
        values = dataset.trials[name].value_counts(dropna=False)
        texts = [
            f"{'missing' if pd.isna(v) else clean(v)}: {count(k)}"
            for v, k in values.head(most).items()
        ]
        more = f", and {len(values) - most} more" if len(values) > most else ""
        rows.append((label(name), ", ".join(texts) + more))
    return _table("Labels (trials)", ("label", "values"), rows)


def _bars(values: np.ndarray, edges: np.ndarray, x: str) -> Any:
    values = values[np.isfinite(values)]
    if not len(values):
        return style.empty("Not in this corpus.")
    share, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)
    figure = style.new_figure(style.WIDTH, 2.6)
    ax = figure.subplots()
    ax.stairs(share / share.sum(), edges, fill=True, color=HUMAN, alpha=0.8)
    middle = float(np.median(values))
    ax.axvline(middle, color=style.INK, lw=1, ls="--")
    ax.set(xlabel=f"{x} (median {number(middle)})", ylabel="share")
    ax.yaxis.set_major_formatter(lambda v, _: style.percent(v))
    return figure


@styled
def _durations(dataset: GazeDataset) -> Any:
    return _bars(floats(dataset.fixations, "duration"), np.linspace(0, 1000, 51), "ms")


@styled
def _steps(dataset: GazeDataset) -> Any:
    f = dataset.fixations
    if not {"x", "y"} <= set(f):
        return style.empty("Not in this corpus: no positions.")
    same = (f["trial"] == f["trial"].shift()).to_numpy()
    step = np.hypot(np.diff(floats(f, "x")), np.diff(floats(f, "y")))[same[1:]]
    known = step[np.isfinite(step)]
    top = float(np.percentile(known, 99)) if len(known) else 1.0
    return _bars(step, np.linspace(0, max(top, 1.0), 51), "px")


@styled
def _per_trial(dataset: GazeDataset) -> Any:
    sizes = dataset.fixations.groupby("trial", sort=False).size()
    counts = sizes.reindex(dataset.trials["trial"], fill_value=0).to_numpy(dtype=float)
    top = float(np.percentile(counts, 99)) if len(counts) else 1.0
    return _bars(counts, np.linspace(0, max(top, 10.0), 41), "fixations")


@styled
def _per_reader(dataset: GazeDataset) -> Any:
    if "duration" not in dataset.fixations or dataset.fixations["duration"].isna().all():
        return style.empty("Not in this corpus: no durations.")
    groups = dataset.fixations.groupby("participant")["duration"]
    table = pd.DataFrame({q: groups.quantile(q) for q in (0.25, 0.5, 0.75)})
    table = table.iloc[np.argsort(table[0.5].to_numpy())]
    figure = style.new_figure(style.WIDTH, 2.6)
    ax = figure.subplots()
    rank = np.arange(len(table))
    ax.vlines(rank, table[0.25], table[0.75], color=HUMAN, alpha=0.4, lw=2)
    ax.plot(rank, table[0.5], "o", ms=3, color=HUMAN)
    ax.set(xlabel="participant, sorted", ylabel="ms (middle half)", ylim=(0, None))
    ax.set_xticks([])
    return figure


@styled
def _places(dataset: GazeDataset) -> Any:
    f = dataset.fixations
    x, y = floats(f, "x"), floats(f, "y")
    known = np.isfinite(x) & np.isfinite(y)
    if not known.any():
        return style.empty("Not in this corpus: no positions.")
    x, y = x[known], y[known]
    (left, right), (top, bottom) = (np.percentile(v, [0.5, 99.5]) for v in (x, y))
    right, bottom = right + 1, bottom + 1
    map_, _, _ = np.histogram2d(y, x, bins=120, range=[[top, bottom], [left, right]])
    figure = style.new_figure(style.WIDTH, 3.4)
    ax = figure.subplots()
    ax.imshow(
        np.sqrt(map_), extent=(left, right, bottom, top), cmap=style.SEQUENTIAL, aspect="equal"
    )
    outside = 1 - map_.sum() / len(x)
    ax.set(xlabel=f"x (px); {style.percent(outside)} of fixations lie outside", ylabel="y (px)")
    ax.tick_params(colors=MUTED)
    return figure
