"""What ``gazeattn score`` does: the scanpaths or maps of any tool against those of people."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn import registry
from gazeattn.errors import DataError
from gazeattn.experiments.files import stem_of
from gazeattn.experiments.runs import command_line, commit
from gazeattn.experiments.scoring_inputs import Maps, Paths, is_maps, paths_of, read_paths
from gazeattn.experiments.scoring_maps import score_maps
from gazeattn.experiments.scoring_pairs import (
    KINDS,
    Scored,
    Settings,
    Size,
    check_given,
    find_metrics,
    parse_options,
    score_paths,
)
from gazeattn.metrics.scanpath.clusters import as_size, fit_clusters, load_clusters
from gazeattn.metrics.statistics import clustered_bootstrap
from gazeattn.report.scores import scores_page
from gazeattn.results import result_rows
from gazeattn.storage import atomic_folder, write_parquet, write_text

__all__ = [
    "EXTRA",
    "Maps",
    "Paths",
    "Scored",
    "Settings",
    "paths_of",
    "per_stimulus",
    "score_files",
    "score_maps",
    "score_paths",
    "summarise",
]

PathLike = str | os.PathLike[str]

EXTRA = (
    "ceiling", "ceiling_low", "ceiling_high", "ceiling_n",
    "shuffled", "shuffled_low", "shuffled_high", "shuffled_n",
    "gap", "gap_low", "gap_high", "better",
    "pairs", "undefined", "ceiling_pairs", "ceiling_undefined",
    "shuffled_pairs", "shuffled_undefined",
)  # fmt: skip
"""Columns of the summary after those of every result; ``gap`` is the model less the ceiling."""

PATH_EXTRA = ("kind", "stimulus", "participant", "trial", "undefined")
FILES = ("scores.parquet", "scores.csv", "paths.parquet", "paths.csv", "lost.csv", "report.html")


# averages ----------------------------------------------------------------------------------------


def per_stimulus(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the weighted mean of each kind and stimulus for one metric: kinds x stimuli."""
    known = rows[rows["value"].notna() & (rows["weight"] > 0)]
    weighted = known.assign(value=known["value"] * known["weight"])
    sums = weighted.groupby(["kind", "stimulus"], sort=True)[["value", "weight"]].sum()
    table = (sums["value"] / sums["weight"]).unstack("stimulus")
    names = pd.Index(sorted(rows["stimulus"].unique()), name="stimulus")
    return table.reindex(index=list(KINDS), columns=names)


def summarise(scored: Scored, settings: Settings | None = None) -> pd.DataFrame:
    """Return one row per metric: model, ceiling, baseline and gap with their intervals.

    Values are means over stimuli of means over scanpaths, so every stimulus counts the same
    however many scanpaths it has. Intervals come from drawing stimuli with replacement.
    """
    settings = settings or Settings()
    out = []
    for metric, rows in scored.rows.groupby("metric", sort=False):
        table = per_stimulus(rows)
        values = table.to_numpy(dtype=np.float64)
        with np.errstate(invalid="ignore"):  # infinite values are noted where they arise
            gap = values[0] - values[1]
            found = clustered_bootstrap(
                np.vstack([values, gap]),
                {"stimulus": table.columns.to_numpy(dtype=str)},
                n=settings.draws,
                rng=settings.seed,
                level=settings.level,
            )
        row: dict[str, Any] = {
            "metric": metric,
            "convention": scored.conventions[str(metric)],
            "better": _better(str(metric)),
        }
        for k, kind in enumerate((*KINDS, "gap")):
            prefix = "" if kind == "model" else f"{kind}_"
            row[prefix.rstrip("_") or "value"] = found.value[k]
            row[f"{prefix}low"], row[f"{prefix}high"] = found.low[k], found.high[k]
            if kind == "gap":
                continue
            row[f"{prefix}n"] = int(found.n_items[k])
            row[f"{prefix}pairs"], row[f"{prefix}undefined"] = scored.counts[str(metric)][kind]
        out.append(row)
    return pd.DataFrame(out)


def _better(metric: str) -> str:
    """Return which values are more alike, ``"neither"`` of a part without a direction."""
    name, _, part = metric.partition(".")
    info = registry.metrics.get(name).info
    if any(p.name == part and not p.directed for p in info.get("part_bounds", ())):
        return "neither"
    return "higher" if info.get("higher_is_better") else "lower"


# files -------------------------------------------------------------------------------------------


def score_files(
    human: PathLike,
    model: PathLike,
    *,
    metrics: Sequence[str],
    size: Size | Mapping[str, Size] | None = None,
    to: PathLike | None = None,
    options: Iterable[str] | Mapping[str, Any] = (),
    dataset: str | None = None,
    label: str | None = None,
    clusters: PathLike | None = None,
    sigma: float | None = None,
    human_columns: Mapping[str, str] | None = None,
    model_columns: Mapping[str, str] | None = None,
    root: PathLike | None = None,
    density: float | None = None,
    decimal: str = ".",
    draws: int = 2000,
    seed: int = 0,
    workers: int | None = None,
    overwrite: bool = False,
    command: str | None = None,
) -> tuple[pd.DataFrame, Path]:
    """Score the files of a model against those of people, and write tables and a report.

    Parameters
    ----------
    human
        Table of fixations, a data set by name, or (for metrics between maps) a folder or npz
        file of maps.
    model
        Table of fixations, or a folder or npz file of saliency maps, named as the stimuli.
    metrics
        Names; of scanpaths for a table, of saliency for maps.
    size
        (width, height) of the stimuli in pixels, or one per stimulus.
    to
        Folder to write, by default ``outputs/score/LABEL``.
    options
        ``NAME=VALUE`` or ``METRIC.NAME=VALUE``: parameters of the metrics.
    dataset, label
        What the data and the model are called in the result; default: the file names.
    clusters
        npz file of `save_clusters`, or ``"fit"``: fitted to the human fixations.
    sigma
        Blur of human fixations in pixels, for reference maps and the ceiling of maps.
    human_columns, model_columns
        Our name of a column to the file's.
    root
        Data folder of a data set by name.
    density
        Floor of densities that are made of the model's maps; None: they must be densities where
        a metric needs them.
    decimal
        Decimal mark of text files, ``"."`` or ``","``.
    draws, seed, workers
        See `Settings`.
    overwrite
        Replace earlier scores in the folder.
    command
        What the rows name as their command.

    Returns
    -------
    DataFrame
        Result rows, one per metric (and part), with the ceiling and the baseline; see `EXTRA`.
    Path
        The report.

    Raises
    ------
    DataError, UnknownNameError
        A file or a name is wrong, a metric lacks what it needs, or the folder is not empty.
    """
    maps = is_maps(model)
    task = "saliency" if maps else "scanpath"
    entries = find_metrics(metrics, task)
    dataset, label = dataset or stem_of(human), label or stem_of(model)
    folder = Path("outputs/score") / stem_of(label) if to is None else Path(to)
    _may_write(folder, overwrite)
    settings = Settings(
        size=_checked_size(size), sigma=sigma, density=density,
        parameters=parse_options(entries, options),
        draws=draws, seed=seed, workers=workers,
    )  # fmt: skip
    names = [e.name for e in entries]
    if maps:
        people: Maps | Paths
        if is_maps(human):
            people = Maps(human)
        else:
            people = read_paths(
                human, role="human", columns=human_columns, root=root, decimal=decimal
            )
        scored = score_maps(people, Maps(model), names, settings)
    else:
        if is_maps(human):
            raise DataError("maps of people against a table of a model", source=human,
                            expected="two tables of fixations, or maps of the model")  # fmt: skip
        if clusters is None:  # before files are read, which may take long
            for entry in entries:
                check_given(entry, settings)
        if density is not None:
            raise DataError("densities are made of maps", source=model, found="--density")
        given = read_paths(human, role="human", columns=human_columns, root=root, decimal=decimal)
        theirs = read_paths(model, role="model", columns=model_columns, decimal=decimal)
        if clusters is not None:
            settings = _with_clusters(settings, clusters, given, theirs)
        scored = score_paths(given, theirs, names, settings)
    command = command or command_line("score", [str(human), str(model), "--metrics", *names])
    fixed: dict[str, Any] = {
        "dataset": dataset,
        "model": label,
        "task": task,
        "seed": seed,
        "command": command,
        "commit": commit(),
    }
    summary = summarise(scored, settings).assign(**fixed)
    records = [{str(k): v for k, v in r.items()} for r in summary.to_dict("records")]
    rows = result_rows(records, EXTRA)
    paths = scored.rows.drop(columns="weight").assign(**fixed)
    paths["convention"] = paths["metric"].map(scored.conventions)
    paths = paths.reindex(columns=[*result_rows([]).columns, *PATH_EXTRA])
    page = scores_page(
        rows, scored.distributions, scored.lost,
        facts={"people": str(human), "model": str(model), "draws": draws, "seed": seed,
               "level": settings.level, "command": command},
    )  # fmt: skip
    with atomic_folder(folder) as new:
        for name, table in (("scores", rows), ("paths", paths)):
            write_parquet(new / f"{name}.parquet", table)
            write_text(new / f"{name}.csv", table.to_csv(index=False))
        write_text(new / "lost.csv", scored.lost.to_frame().to_csv(index=False))
        write_text(new / "report.html", page)
    return rows, folder / "report.html"


def _may_write(folder: Path, overwrite: bool) -> None:
    """Refuse a folder with anything but earlier scores, which `overwrite` replaces."""
    if folder.exists() and not folder.is_dir():
        raise DataError("not a folder", source=folder)
    if folder.is_dir() and any(folder.iterdir()):
        others = sorted(p.name for p in folder.iterdir() if p.name not in FILES)
        if others or not overwrite:
            raise DataError(
                "the folder is not empty",
                source=folder,
                found=", ".join(others[:5]) or "earlier scores",
                hint="Choose another folder" + ("" if others else ", or say --overwrite"),
            )


def _checked_size(size: Size | Mapping[str, Size] | None) -> Size | dict[str, Size] | None:
    if size is None:
        return None
    if isinstance(size, Mapping):
        return {str(k): as_size(v) for k, v in size.items()}
    return as_size(size)


def _with_clusters(settings: Settings, source: PathLike, human: Paths, model: Paths) -> Settings:
    """Return settings with clusters of a file, or fitted to all human fixations of a stimulus."""
    if str(source) != "fit":
        found = load_clusters(source)
    else:
        if settings.size is None:
            raise DataError("clusters are fitted inside the stimulus", expected="--size")
        both = set(model.keys["stimulus"])
        found = {}
        for name, at in human.keys.groupby("stimulus").indices.items():
            size = settings.size_of(str(name))
            if name in both and size is not None:
                found[str(name)] = fit_clusters([human.paths[k] for k in at], size=size)
    return replace(settings, clusters=found)
