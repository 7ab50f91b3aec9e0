"""Search scanpaths of people and models, and search asymmetry (Gupta et al., 2021)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, missing_message, register_corpus
from gazeattn.datasets.parts import (
    build,
    correction,
    join_ids,
    numbers,
    one_file,
    outside,
    read_json,
    read_parquet,
    read_text,
    text,
)
from gazeattn.datasets.searcharrays import SIZE, SLOTS, arrays_in, read_arrays, slot_of
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.losses import LossLog

_KEY = ["dataset", "source", "subject", "stimulus"]
_TABLES = {
    "cumulative_performance": ("fixation_index", "proportion_found", "n_trials"),
    "scanmatch_scores": ("scanmatch_mean", "scanmatch_sem"),
    "human_reaction_times": ("set_size", "rt_ms"),
}


@register_corpus("visual_search_asymmetry")
def load(folder: Path, page: Corpus) -> GazeDataset:
    """Load the search scanpaths, from tables or from the published arrays.

    ``fixations`` and ``trials`` are those of the people; index 0 is the position at the start of
    the trial (``start_position``), not a fixation that was chosen. The words of the object arrays
    are the six objects of the ring (their places are known, not their extent). Trial labels:
    ``found`` and ``found_index`` (missing for the object arrays, whose published rows are in
    another order), ``last_fixation_on_target`` (object arrays only), ``target_x, target_y``.

    ``reports``: ``model_fixations`` and ``model_trials`` (search by eccNET and IVSN),
    ``asymmetry_fixations`` and ``asymmetry_trials`` (12 models; ``human_rt_ms`` is the mean of
    people for the condition and set size), ``human_reaction_times``, ``cumulative_performance``,
    ``cumulative_performance_rows``, ``scanmatch_scores``.
    """
    lost = LossLog()
    if (folder / "search_fixations.parquet").is_file():
        fixations = read_parquet(folder / "search_fixations.parquet", [*_KEY, "index", "x", "y"])
        trials = read_parquet(folder / "search_trials.parquet", [*_KEY, "n_fixations", "target_x"])
        rows = one_file(folder, "cumulative_performance_rows.parquet")
        found = read_parquet(rows, ["dataset", "source", "row", "found_index"]) if rows else None
    else:
        archive = one_file(folder, "*earch*.zip")
        if archive is None:
            raise MissingAssetError(missing_message(page, folder))
        turned = tuple(correction(page, "axis order")["row_column"])
        fixations, trials, found = read_arrays(arrays_in(archive), turned, lost)
    fixations, trials = _named(fixations), _named(trials)
    counted = trials.set_index("trial")["n_fixations"]
    _same_counts(fixations.groupby("trial").size(), counted, folder)
    unmatched = tuple(correction(page, "row order of found fixations")["unmatched"])
    trials = _with_found(trials, found, unmatched, lost)
    human, human_trials = (
        t[t["source"] == "human"].reset_index(drop=True) for t in (fixations, trials)
    )
    human["start_position"] = human["index"] == 0
    lost.add(
        "fixations",
        "note",
        "position at the start of the trial (start_position), not a chosen fixation",
        int(human["start_position"].sum()),
    )
    reports = {
        "model_fixations": fixations[fixations["source"] != "human"].reset_index(drop=True),
        "model_trials": trials[trials["source"] != "human"].reset_index(drop=True),
        **({"cumulative_performance_rows": found} if found is not None else {}),
        **_reports(folder, page, lost),
    }
    sets = human_trials["set"]
    counts = {
        **{f"fixations_{k}": int(n) for k, n in human["set"].value_counts().items()},
        **{
            f"off_screen_{k}": int(n)
            for k, n in human.loc[human["off_screen"], "set"].value_counts().items()
        },
        "search_fixations": len(fixations),
        "search_scanpaths": len(trials),
        "model_fixations": len(reports["model_fixations"]),
        "model_scanpaths": len(reports["model_trials"]),
        "fixations_at_zero": sum(
            int(((t["x"] == 0) & (t["y"] == 0)).sum())
            for t in (fixations, reports.get("asymmetry_fixations"))
            if t is not None
        ),
        **{k: len(v) for k, v in reports.items() if k not in ("model_fixations", "model_trials")},
    }
    if found is not None:
        people = found[found["source"] == "human"]
        missed = people.loc[people["found_index"] < 0, "dataset"].value_counts()
        counts |= {f"not_found_{k}": int(n) for k, n in missed.items()}
    if "asymmetry_trials" in reports:
        shown = reports["asymmetry_trials"]
        counts["models"] = int(shown["model"].nunique())
        counts["displays"] = len(shown.drop_duplicates(["experiment", "condition", "stimulus"]))
    info: dict[str, Any] = {}
    reference = folder / "asymmetry_index_reference.json"
    if reference.is_file():
        info["asymmetry_index"] = read_json(reference)
    human = human.drop(columns=["source", "subject", "number", "on_screen"], errors="ignore")
    return build(
        page,
        human,
        _objects(human_trials),
        human_trials.assign(condition=sets).drop(columns=["source", "subject", "number"]),
        units="objects",
        stimuli=_stimuli(human_trials),
        lost=lost,
        counts=counts,
        reports=reports,
        screen=SIZE,
        size=SIZE,
        pixels_per_degree=float(page.tables["fixations"]["pixels_per_degree"]),
        **info,
    )


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """Give a published table our ids; the set stands in ``set``."""
    out = table.rename(columns={"dataset": "set", "stimulus": "number"})
    for column in ("set", "source"):
        out[column] = text(out[column])
    out["stimulus"] = join_ids(out["set"], text(out["number"]).str.zfill(3))
    human = out["source"] == "human"
    out["participant"] = text(out["subject"]).where(human, out["source"])
    out["trial"] = join_ids(out["stimulus"], out["participant"].str.zfill(2))
    for column in ("x", "y", "target_x", "target_y"):
        if column in out:
            out[column] = out[column].astype("float64")
    if "x" in out:
        out["off_screen"] = outside(out["x"], out["y"], *SIZE)
        slot = slot_of(out["x"], out["y"])
        in_ring = (out["set"] == "ObjArr") & (slot > 0)
        out["word"] = text(slot).where(in_ring)
    return out


def _same_counts(found: pd.Series, counted: pd.Series, source: object) -> None:
    both = pd.concat({"found": found, "counted": counted}, axis=1).fillna(0)
    unequal = both[both["found"] != both["counted"]]
    if len(unequal):
        first = unequal.iloc[0]
        raise DataError(
            "a scanpath has another length than the table of trials states",
            source=source,
            row=unequal.index[0],
            expected=f"{first['counted']:g} fixations",
            found=f"{first['found']:g} ({len(unequal)} such scanpaths)",
        )


def _with_found(
    trials: pd.DataFrame, rows: pd.DataFrame | None, unmatched: tuple[str, ...], lost: LossLog
) -> pd.DataFrame:
    """Add ``found`` and ``found_index``, matched by the published row (subject-major)."""
    trials = trials.rename(columns={"last_fixation_on_target_slot": "last_fixation_on_target"})
    trials["found"] = pd.array([pd.NA] * len(trials), dtype="boolean")
    trials["found_index"] = pd.array([pd.NA] * len(trials), dtype="Int64")
    if rows is None:
        lost.add("trials", "undefined", "no record of who found the target", len(trials), "trials")
        return trials
    n = trials.groupby("set")["number"].transform("max")
    at = pd.MultiIndex.from_arrays(
        [
            trials["set"],
            trials["source"],
            (trials["subject"].clip(lower=1) - 1) * n + trials["number"] - 1,
        ]
    )
    index = rows.set_index(["dataset", "source", "row"])["found_index"]
    known = pd.Series(index.reindex(at).to_numpy(), index=trials.index, dtype="Float64")
    other = trials["set"].isin(unmatched) & (trials["source"] == "human")
    trials["found"] = (known >= 0).mask(known.isna() | other).astype("boolean")
    trials["found_index"] = known.mask((known < 0) | other).astype("Int64")
    lost.add(
        "trials",
        "undefined",
        "found: published rows of this set are not in the order of the scanpaths",
        int(other.sum()),
        "trials",
    )
    return trials


def _objects(trials: pd.DataFrame) -> pd.DataFrame | None:
    """Return the six places of the object arrays; the target is labelled so."""
    arrays = trials.loc[trials["set"] == "ObjArr"].drop_duplicates("stimulus")
    if not len(arrays):
        return None
    slots = pd.DataFrame([(k, *xy) for k, xy in SLOTS.items() if k], columns=["slot", "x", "y"])
    words = arrays[["stimulus", "target_x", "target_y"]].merge(slots, how="cross")
    target = (words["x"] == words["target_x"]) & (words["y"] == words["target_y"])
    label = pd.Series(np.where(target, "target", "object"), index=words.index, dtype="str")
    out = words[["stimulus"]].assign(
        layout=words["stimulus"], word=text(words["slot"]), text=label, is_target=target
    )
    return out.assign(center_x=words["x"].astype(float), center_y=words["y"].astype(float))


def _stimuli(trials: pd.DataFrame) -> dict[str, dict[str, Any]]:
    rows = trials.drop_duplicates("stimulus")
    return {
        str(s): {"size": SIZE, "set": k, "target": (float(x), float(y))}
        for s, k, x, y in rows[["stimulus", "set", "target_x", "target_y"]].itertuples(index=False)
    }


def _reports(folder: Path, page: Corpus, lost: LossLog) -> dict[str, pd.DataFrame]:
    reports = {}
    for name, numeric in _TABLES.items():
        path = one_file(folder, f"{name}.csv")
        if path is not None:
            table = read_text(path, ",", numeric)
            for column in numeric:
                table[column] = numbers(table[column], column, path)
            reports[name] = table
    for name in ("asymmetry_fixations", "asymmetry_trials"):
        path = one_file(folder, f"{name}.parquet")
        if path is not None:
            reports[name] = read_parquet(path, ["model", "experiment", "condition", "stimulus"])
    if "asymmetry_fixations" in reports:
        for side in ("x", "y"):
            reports["asymmetry_fixations"][side] = reports["asymmetry_fixations"][side].astype(
                float
            )
    trials = reports.get("asymmetry_trials")
    if trials is not None:
        models = list(correction(page, "shifted rows")["models"])
        shifted = trials["model"].isin(models) & (trials["set_size"] != trials["set_size_by_row"])
        lost.add(
            "asymmetry trials",
            "repaired",
            "written one row late: set_size is that of the display, set_size_by_row as published",
            int(shifted.sum()),
            "trials",
        )
        never = trials["found_after_saccades"] < 0
        trials["found_after_saccades"] = trials["found_after_saccades"].astype("Int64").mask(never)
        lost.add(
            "asymmetry trials", "note", "target never found: missing", int(never.sum()), "trials"
        )
        times = reports.get("human_reaction_times")
        if times is not None:
            keys = ["experiment", "condition", "set_size"]
            mean = times.rename(columns={"rt_ms": "human_rt_ms"})[[*keys, "human_rt_ms"]]
            mean["set_size"] = mean["set_size"].astype("int64")
            trials = trials.astype({"set_size": "int64"}).merge(mean, "left", keys, validate="m:1")
            reports["asymmetry_trials"] = trials
    return reports
