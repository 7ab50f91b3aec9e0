"""Search asymmetry: do models find hard what people find hard? Six experiments, row by row."""

from __future__ import annotations

import json
import os
import time
import warnings
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from omegaconf import OmegaConf

from gazeattn.datasets import load
from gazeattn.errors import DataError, MissingAssetError, UnknownNameError
from gazeattn.experiments.building import read_model, sized
from gazeattn.experiments.config import conf_folder
from gazeattn.experiments.runs import commit
from gazeattn.models.scanpath.ecc_net import EccNet, Ivsn, Trace, places_of
from gazeattn.results import pack_rows, result_rows
from gazeattn.stimuli.asymmetry import EXPERIMENTS, Display, Experiment, display
from gazeattn.storage import write_json, write_parquet

if TYPE_CHECKING:
    from gazeattn.report.asymmetry import SearchTrace

MS_PER_SACCADE, MS_BASE = 252.359, 376.271
"""Reaction time of a search with n saccades: ``MS_PER_SACCADE * n + MS_BASE``."""
MODELS = ("chance", "ecc_net", "ecc_net_no_eccentricity", "ivsn")
HUMAN, TASK = "human", "visual search"
DRAWS = 2000
Floats = NDArray[np.float64]


# -- reaction times, slopes, index ----------------------------------------------------------------


def reaction_time(saccades: ArrayLike) -> Floats:
    """Return reaction times in ms of searches with so many saccades (start not counted)."""
    return MS_PER_SACCADE * np.asarray(saccades, dtype=np.float64) + MS_BASE


def counted(saccades: ArrayLike, largest: int) -> Floats:
    """Return saccades in which searches without success (below 0) count as the largest set."""
    given = np.asarray(saccades, dtype=np.float64)
    return np.where(given < 0, float(largest), given)


def slope(set_sizes: ArrayLike, times: ArrayLike) -> Floats:
    """Return the slope (ms per item) of mean times by least squares over set sizes.

    Parameters
    ----------
    set_sizes : array-like, shape (n_sizes,)
    times : array-like, shape (..., n_sizes)

    Raises
    ------
    DataError
        Fewer than two set sizes.
    """
    sizes, t = np.asarray(set_sizes, dtype=np.float64), np.asarray(times, dtype=np.float64)
    if len(np.unique(sizes)) < 2 or t.shape[-1] != len(sizes):
        raise DataError("a slope needs two set sizes at least and a time for each",
                        found=f"{len(sizes)} sizes, {t.shape[-1]} times")  # fmt: skip
    centred = sizes - sizes.mean()
    found = (t @ centred) / (centred @ centred)
    # equal times have a slope of 0, not of a rounding error whose sign would make the index 1 or -1
    noise = 1e-12 * np.abs(t).max(-1, initial=0.0)
    return np.asarray(np.where(np.abs(found) > noise, found, 0.0))


def asymmetry_index(harder: ArrayLike, easier: ArrayLike, *, clipped: bool = True) -> Floats:
    """Return ``(H - L) / (H + L)`` of the slopes of the harder and the easier task of people.

    1: the model finds hard what people find hard; -1: the other way round.

    Parameters
    ----------
    harder, easier
        Slopes.
    clipped
        As published: negative slopes count as 0, which makes the index 1 or -1 from slopes near
        0. Else the difference is divided by ``|H| + |L|``. Two slopes of 0 give 0.
    """
    h, low = np.asarray(harder, dtype=np.float64), np.asarray(easier, dtype=np.float64)
    if clipped:
        h, low = h.clip(0), low.clip(0)
    total = np.abs(h) + np.abs(low)
    return np.divide(h - low, total, out=np.zeros(np.broadcast(h, low).shape), where=total > 0)


def slopes_of(trials: pd.DataFrame, largest: int, draws: int = 0, seed: int = 0) -> Floats:
    """Return the slope of one condition, then those of bootstrap draws, (1 + draws,).

    Parameters
    ----------
    trials
        set_size, saccades (below 0: not found).
    largest
        Largest set size of the experiment.
    draws
        Trials are drawn with replacement within each set size.
    """
    rng = np.random.default_rng(seed)
    means: list[Floats] = []
    sizes: list[float] = []
    for size, group in trials.groupby("set_size"):
        times = reaction_time(counted(group["saccades"].to_numpy(), largest))
        drawn = times[rng.integers(len(times), size=(draws, len(times)))].mean(1)
        means.append(np.r_[times.mean(), drawn])
        sizes.append(float(str(size)))
    return slope(sizes, np.stack(means, axis=1))


# -- searches -------------------------------------------------------------------------------------


def asymmetry_settings(size: str) -> dict[str, Any]:
    """Return the settings of ``conf/benchmark_search_asymmetry.yaml`` for a size."""
    path = conf_folder() / "benchmark_search_asymmetry.yaml"
    plain = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(plain, dict)
    settings = {str(k): plain[k] for k in ("experiments", "trials", "bootstrap", "models")}
    sizes = plain["sizes"]
    if size not in sizes:
        raise UnknownNameError("size", size, list(sizes))
    return {**settings, **sizes[size]}


def searcher(name: str, size: str, changes: Mapping[str, Any] | None = None) -> EccNet | None:
    """Return a model by the name it has in the table; None for chance."""
    if name == "chance":
        return None
    if name not in MODELS:
        raise UnknownNameError("model", name, list(MODELS))
    kind = "ivsn" if name == "ivsn" else "ecc_net"
    arguments = {k: v for k, v in sized(read_model(kind), size).items() if k != "name"}
    arguments.update(changes or {})
    if name == "ecc_net_no_eccentricity":
        arguments["eccentricity"] = False
    return Ivsn(**arguments) if kind == "ivsn" else EccNet(**arguments)


def saccades_of(model: EccNet | None, shown: Display, seed: int = 0) -> int:
    """Return the saccades of a search until the target is found, -1 if it is not.

    Chance visits the places in random order, none twice.
    """
    if model is None:
        number = zlib.crc32(f"{shown.experiment} {shown.condition}".encode())
        rng = np.random.default_rng([seed, number, shown.set_size, shown.trial])
        return int(rng.integers(len(shown.places))) + 1
    trace = search(model, shown)
    return trace.saccades if trace.found else -1


def example_searches(
    name: str,
    size: str,
    experiments: Sequence[Experiment],
    path: Path,
    *,
    seed: int = 0,
    changes: Mapping[str, Any] | None = None,
) -> list[SearchTrace]:
    """Return one search of a model for each condition, in the middle set size, to be drawn.

    They are kept in the JSON file `path` and searched for only where that is not there; a file
    with other conditions is written anew. None where the weights of the model are missing.
    """
    from gazeattn.report.asymmetry import SearchTrace

    shown = [
        display(e.name, c, e.set_sizes[len(e.set_sizes) // 2], seed=seed)
        for e in experiments
        for c in e.conditions
    ]
    held = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if not {d.condition for d in shown} <= set(held):
        model, held = searcher(name, size, changes), {}
        assert model is not None  # chance has no place to look at that could be drawn
        try:
            for d in shown:
                prepare(model, EXPERIMENTS[d.experiment])
                trace = search(model, d)
                held[d.condition] = {"path": trace.path.tolist(), "found": bool(trace.found)}
        except MissingAssetError:  # the searches are those of another machine
            return []
        write_json(path, held)
    return [
        SearchTrace(d, np.array(held[d.condition]["path"], dtype=np.float64),
                    held[d.condition]["found"])
        for d in shown
    ]  # fmt: skip


def prepare(model: EccNet, experiment: Experiment) -> None:
    """Give a model the sharpening and the number of fixations of an experiment."""
    model.narrow, model.wide = experiment.sharpening
    model.max_fixations = experiment.grid**2 + 1


def search(model: EccNet, shown: Display) -> Trace:
    """Return the search of a model over a display."""
    boxes, target = places_of(shown.places)
    return model.search(_rgb(shown.picture), _rgb(shown.target), boxes, target.tolist())


def _rgb(grey: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.repeat(grey[..., None].astype(np.float32) / 255, 3, axis=2)


def search_trials(
    model: EccNet | None, experiment: Experiment, condition: str, trials: int, seed: int = 0
) -> pd.DataFrame:
    """Return one row per display: experiment, condition, set_size, trial, saccades, seconds."""
    if model is not None:
        prepare(model, experiment)
    rows = []
    for size in experiment.set_sizes:
        for trial in range(min(trials, experiment.trials)):
            begin = time.perf_counter()
            shown = display(experiment.name, condition, size, trial, seed=seed)
            found = saccades_of(model, shown, seed)
            rows.append((experiment.name, condition, size, trial, found,
                         time.perf_counter() - begin))  # fmt: skip
    columns = ["experiment", "condition", "set_size", "trial", "saccades", "seconds"]
    return pd.DataFrame(rows, columns=columns)


# -- the run --------------------------------------------------------------------------------------


def run_search_asymmetry(
    size: str = "cpu",
    models: Sequence[str] = MODELS,
    *,
    seed: int = 0,
    path: str | os.PathLike[str] | None = None,
    work: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    changes: Mapping[str, Any] | None = None,
    command: str | None = None,
) -> pd.DataFrame:
    """Return the result rows of models and people in the six experiments.

    Parameters
    ----------
    size
        ``tiny``, ``cpu`` or ``full``.
    models
        See `MODELS`.
    seed
        Of the displays, of chance and of the bootstrap.
    path
        JSON file that is written after every condition, such as
        ``docs/results/search_asymmetry.json``.
    work
        Folder for the searches, one file per model, experiment and condition: what is there is
        not done again. Several runs may share it. Default: ``outputs/search_asymmetry``.
    report
        Folder for ``report.html`` and its figures; default: no page.
    changes
        Arguments of the models that differ from their configuration.
    command
        What the rows say was run.

    Raises
    ------
    DataError
        The folder holds searches of other settings.
    """
    settings = asymmetry_settings(size)
    unknown = [m for m in models if m not in MODELS]
    if unknown:
        raise UnknownNameError("model", unknown[0], list(MODELS))
    folder = Path(work or "outputs/search_asymmetry") / f"{size}_{seed}"
    command = command or f"run_search_asymmetry(size={size!r}, seed={seed})"
    trials = int(settings["trials"])
    experiments = [EXPERIMENTS[e] for e in settings["experiments"]]
    stamp = json.dumps([trials, dict(changes or {})], sort_keys=True, default=str)
    for name in models:
        model = None
        for e in experiments:
            for condition in e.conditions:
                file = folder / f"{name}__{e.name}__{condition}.parquet"
                if file.is_file():
                    _same_settings(file, stamp)
                    continue
                model = model or searcher(name, size, changes)
                found = search_trials(model, e, condition, trials, seed)
                write_parquet(file, found.assign(model=name, settings=stamp))
                table = asymmetry_rows(folder, experiments, models, settings, size, seed, command)
                _publish(path, table, size)
    table = asymmetry_rows(folder, experiments, models, settings, size, seed, command)
    _publish(path, table, size)
    if report is not None:
        from gazeattn.report.asymmetry import write_asymmetry_report

        traces = {
            m: example_searches(
                m, size, experiments, folder / f"examples_{m}.json", seed=seed, changes=changes
            )
            for m in models
            if m != "chance"
        }
        write_asymmetry_report(
            table, published_rows(experiments, int(settings["bootstrap"]), seed), Path(report),
            traces, experiments, command=command, settings=settings,
        )  # fmt: skip
    return table


def _publish(path: str | os.PathLike[str] | None, table: pd.DataFrame, size: str) -> None:
    if path is not None:
        shared = ["dataset", "task", "split", "regime", "fold", "size"]
        content = {"dataset": str(table["dataset"].iloc[0]), "task": TASK, "size": size}
        write_json(path, {**content, **pack_rows(table.drop(columns=shared))})


def _same_settings(file: Path, stamp: str) -> None:
    held = str(pd.read_parquet(file, columns=["settings"])["settings"].iloc[0])
    if held != stamp:
        raise DataError(
            "the folder holds searches of other settings", source=file, expected=stamp, found=held,
            hint="choose another folder",
        )  # fmt: skip


def asymmetry_rows(
    folder: Path, experiments: Sequence[Experiment], models: Sequence[str],
    settings: Mapping[str, Any], size: str, seed: int, command: str,
) -> pd.DataFrame:  # fmt: skip
    """Return the rows of people and of all models whose searches are in the folder."""
    rows = _human_rows(experiments)
    for name in models:
        parts = [pd.read_parquet(f) for f in sorted(folder.glob(f"{name}__*.parquet"))]
        if parts:
            rows += model_rows(
                name, pd.concat(parts), experiments, int(settings["bootstrap"]), seed
            )
    shared = {
        "dataset": "generated_search_asymmetry", "task": TASK, "split": "all",
        "regime": "zero_shot", "fold": 0, "seed": seed, "size": size, "command": command,
        "commit": commit(),
    }  # fmt: skip
    return result_rows([{**shared, **row} for row in rows])


def model_rows(
    name: str, trials: pd.DataFrame, experiments: Sequence[Experiment], draws: int, seed: int = 0
) -> list[dict[str, Any]]:
    """Return the rows of one model: index of each finished experiment, mean over all, slopes."""
    rows: list[dict[str, Any]] = []
    every: dict[bool, list[Floats]] = {True: [], False: []}
    for k, e in enumerate(experiments):
        mine = trials[trials["experiment"] == e.name]
        if set(mine["condition"]) != set(e.conditions):
            continue
        slopes = {}
        for j, condition in enumerate(e.conditions):
            part = mine[mine["condition"] == condition]
            slopes[condition] = slopes_of(part, max(e.set_sizes), draws, seed + 100 * k + j)
            rows.append(_row(name, f"slope_{condition}", slopes[condition], len(part),
                             "ms per item; not found counts as the largest set size"))  # fmt: skip
            saccades = part["saccades"].to_numpy()
            rows.append(_row(name, f"found_{condition}", np.array([(saccades >= 0).mean()]),
                             len(part), "share of displays; oracle recognition"))  # fmt: skip
        for clipped in (True, False):
            index = asymmetry_index(slopes[e.harder], slopes[e.easier], clipped=clipped)
            every[clipped].append(index)
            rows.append(_row(name, f"asymmetry_index{_kind(clipped)}_{e.name}", index, len(mine),
                             _how(clipped)))  # fmt: skip
    if len(every[True]) == len(experiments):
        for clipped, found in every.items():
            rows.append(_row(name, f"asymmetry_index{_kind(clipped)}_mean",
                             np.mean(found, axis=0), len(trials), _how(clipped)))  # fmt: skip
    return rows


def published_rows(
    experiments: Sequence[Experiment], draws: int, seed: int = 0
) -> pd.DataFrame | None:
    """Return the rows of the stored predictions of the publication, by the same code.

    None where the data set ``visual_search_asymmetry`` or its table of them is not installed.
    Set sizes are those of the published row, as in the published index.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            trials = load("visual_search_asymmetry").reports.get("asymmetry_trials")
    except MissingAssetError:
        return None
    if trials is None:
        return None
    saccades = trials["found_after_saccades"].fillna(-1).astype("int64")
    trials = trials.assign(saccades=saccades, set_size=trials["set_size_by_row"])
    of = {c: e.name for e in experiments for c in e.conditions}
    trials = trials.assign(experiment=trials["condition"].map(of)).dropna(subset="experiment")
    rows = [
        row
        for name, mine in trials.groupby("model", sort=False)
        for row in model_rows(str(name), mine, experiments, draws, seed)
    ]
    return pd.DataFrame(rows)


def _kind(clipped: bool) -> str:
    return "" if clipped else "_unclipped"


def _how(clipped: bool) -> str:
    rule = "negative slopes 0" if clipped else "negative slopes kept, divided by |H| + |L|"
    return f"(H - L)/(H + L), {rule}; 95 % by trials within set sizes"


def _row(model: str, metric: str, values: Floats, n: int, convention: str) -> dict[str, Any]:
    low, high = np.quantile(values[1:], [0.025, 0.975]) if len(values) > 1 else (np.nan, np.nan)
    return {"model": model, "metric": metric, "value": float(values[0]), "low": float(low),
            "high": float(high), "n": n, "convention": convention}  # fmt: skip


def _human_rows(experiments: Sequence[Experiment]) -> list[dict[str, Any]]:
    """Return the published figures of people; they have no interval and no count here."""
    rows = [
        {"model": HUMAN, "metric": f"slope_{c}", "value": s,
         "convention": "ms per item; digitised from the original studies"}
        for e in experiments for c, s in zip(e.conditions, e.human, strict=True)
    ]  # fmt: skip
    indices = {e.name: e.human_index for e in experiments}
    indices["mean"] = float(np.mean(list(indices.values())))
    return rows + [
        {"model": HUMAN, "metric": f"asymmetry_index_{k}", "value": v,
         "convention": "(H - L)/(H + L) of the slopes of people"}
        for k, v in indices.items()
    ]  # fmt: skip
