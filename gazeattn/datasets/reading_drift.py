"""Reading passages with hand-made line assignments.

Carr, Pescuma, Furlan, Ktori & Crepaldi (2022), Algorithms for the automated correction of vertical
drift in eye-tracking data, Behavior Research Methods 54, 287-310, doi:10.3758/s13428-021-01554-0.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from gazeattn.columns import as_number
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, need_file, register_corpus
from gazeattn.datasets.corpusfiles import find_files, text_table
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.tables import LossLog, check_fixations, check_trials, check_words

CONDITION = "reading for comprehension"
CORRECTORS = ("gold", "JC", "VP")


@register_corpus("reading_drift")
def load(
    folder: Path, page: Corpus, corrected: Literal["gold", "JC", "VP"] | None = None
) -> GazeDataset:
    """Load the passages of Carr et al.; a trial is one reader and one passage.

    Parameters
    ----------
    corrected
        None keeps the raw `y`. ``"gold"`` (agreed), ``"JC"`` or ``"VP"`` (one corrector) moves
        every fixation to the centre of its line and leaves out those that were discarded.

    Notes
    -----
    ``line`` is the line of the gold standard (of `corrected`, where given) from 0, missing where
    the fixation was discarded. ``reports["lines"]`` has one row per fixation with the lines of the
    gold standard, of both correctors and of the published algorithms, all from 0 and missing for
    discarded ones; ``reports["accuracy"]`` the published share of fixations on the gold line, per
    trial and algorithm, where a discarded fixation counts as an error.
    """
    if corrected is not None and corrected not in CORRECTORS:
        raise UnknownNameError("corrector", str(corrected), CORRECTORS)
    lost = LossLog()
    geometry = page.tables["passages"]
    passages = _json(need_file(folder, page, "passages.json"))
    words = _words(passages, float(geometry["first_line_y"]), float(geometry["character_width"]))
    lost.add("words", "note", page.rule("boxes"), len(words), "words")
    raw_path = need_file(folder, page, "fixations/sample.json")
    raw = _trials_of(raw_path)
    table = _fixations(raw, raw_path)
    found = {"gold": need_file(folder, page, "fixations/gold.json")}
    for name in CORRECTORS[1:]:
        for path in find_files(folder, f"fixations/{name}.json"):
            found[name] = path
    if corrected is not None and corrected not in found:
        need_file(folder, page, f"fixations/{corrected}.json")
    lines = table[["trial", "index"]].copy()
    for name, path in found.items():
        lines[name] = _lines(table, _trials_of(path), path, passages, geometry)
    published = find_files(folder, "fixations_with_lines.csv")
    if published:
        lines = _with_algorithms(lines, text_table(published[0]), published[0])

    table["line"] = lines[corrected or "gold"]
    discarded = table["line"].isna()
    if corrected is None:
        lost.add("fixations", "note", page.rule("discarded"), int(discarded.sum()))
    else:
        reason = f"discarded by {corrected}"
        lost.add("fixations", "dropped", reason, int(discarded.sum()), examples=())
        height = table["stimulus"].map({k: float(v["line_height"]) for k, v in passages.items()})
        centre = float(geometry["first_line_y"]) + height * table["line"].astype("float64")
        lost.add(
            "fixations", "repaired", f"y moved to the line of {corrected}", int((~discarded).sum())
        )
        table = table.assign(y=centre)[~discarded].drop(columns="index").reset_index(drop=True)
    words, log = check_words(words, source=folder / "passages.json")
    lost.extend(log)
    fixations, log = check_fixations(table, source=raw_path)
    lost.extend(log)
    trials, log = check_trials(_trials(raw), source=raw_path)
    lost.extend(log)
    trials = trials.sort_values("trial", kind="stable").reset_index(drop=True)
    reports = {"lines": lines}
    accuracy = find_files(folder, "trials.csv")
    if accuracy:
        reports["accuracy"] = _accuracy(text_table(accuracy[0]))
    dataset = GazeDataset(
        name="reading_drift",
        fixations=fixations,
        words=words,
        trials=trials,
        stimuli={
            name: {"text": "\n".join(p["text"]), "size": page.screen, "font": p["font_face"]}
            for name, p in passages.items()
        },
        reports=reports,
        lost=lost,
    )
    dataset.info["corrected"] = corrected
    dataset.info["counts"] = _counts(dataset)
    if corrected is not None:  # the published counts are those of the raw fixations
        dataset.info["edition"] = f"corrected by {corrected}"
    return dataset


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {k: v["__TextBlock__"] for k, v in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"no passages as published ({error!r})", source=path) from None


def _trials_of(path: Path) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {
            k: {**v, "fixations": v["fixations"]["__FixationSequence__"]} for k, v in found.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"no trials as published ({error!r})", source=path) from None


def _words(passages: dict[str, Any], first_y: float, width: float) -> pd.DataFrame:
    rows = []
    for name, block in passages.items():
        left, height = float(block["position"][0]), float(block["line_height"])
        for line, text in enumerate(block["text"]):
            middle = first_y + height * line
            for hit in re.finditer(r"\S+", text):
                sides = (left + width * hit.start(), left + width * hit.end())
                rows.append((name, line, hit.group(), *sides, middle - height / 2, height))
    words = pd.DataFrame(
        rows, columns=["stimulus", "line", "text", "left", "right", "top", "height"]
    )
    words["bottom"] = words["top"] + words.pop("height")
    words["index"] = words.groupby("stimulus").cumcount()
    words["word"] = words["index"].astype("str")
    words["layout"] = words["stimulus"]
    return words


def _fixations(raw: dict[str, dict[str, Any]], path: Path) -> pd.DataFrame:
    ids = {"participant": "participant_id", "stimulus": "passage_id"}
    parts = []
    for trial, facts in raw.items():
        part = pd.DataFrame(facts["fixations"]).reindex(columns=["x", "y", "start", "end"])
        for ours, theirs in ids.items():
            part[ours] = str(facts[theirs])
        parts.append(part.assign(trial=trial, index=np.arange(len(part))))
    table = pd.concat(parts, ignore_index=True)
    for column in ("x", "y", "start", "end"):
        table[column] = as_number(table[column], column, path)
    table["duration"] = table.pop("end") - table["start"]
    table["dataset"] = "reading_drift"
    return table.rename(columns={"start": "onset"})


def _lines(
    table: pd.DataFrame,
    corrected: dict[str, dict[str, Any]],
    path: Path,
    passages: dict[str, Any],
    geometry: dict[str, Any],
) -> pd.Series:
    """Return the line of each fixation, from 0, by the place to which its y was moved."""
    rows = [
        (trial, i, f["start"], np.nan if f.get("discarded") else f["y"])
        for trial, facts in corrected.items()
        for i, f in enumerate(facts["fixations"])
    ]
    moved = pd.DataFrame(rows, columns=["trial", "index", "start", "y"])
    joined = table[["trial", "index", "onset", "stimulus"]].merge(
        moved, on=["trial", "index"], how="left", validate="1:1"
    )
    same = (joined["onset"] == joined["start"]).to_numpy()
    if len(moved) != len(table) or not same.all():
        row = int(np.flatnonzero(~same)[0]) if not same.all() else len(table)
        raise DataError(
            "not the fixations of the raw file",
            source=path,
            row=row,
            expected=f"{len(table)} fixations with the same start times",
            found=f"{len(moved)} fixations",
        )
    height = joined["stimulus"].map({k: float(v["line_height"]) for k, v in passages.items()})
    n_lines = joined["stimulus"].map({k: len(v["text"]) for k, v in passages.items()})
    line = (joined["y"] - float(geometry["first_line_y"])) / height
    off = line.notna() & ((line != line.round()) | (line < 0) | (line >= n_lines))
    if off.any():
        row = int(np.flatnonzero(off)[0])
        raise DataError(
            "a corrected fixation lies on no line",
            source=path,
            row=f"trial {joined['trial'][row]}, fixation {joined['index'][row]}",
            expected="y of the centre of a line",
            found=joined["y"][row],
        )
    return line.astype("Int64")


def _with_algorithms(lines: pd.DataFrame, published: pd.DataFrame, path: Path) -> pd.DataFrame:
    keys = pd.DataFrame(
        {
            "trial": published["trial_id"],
            "index": as_number(published["fix_index"], "fix_index", path).astype("int64"),
        }
    )
    for column in (c for c in published if str(c).startswith("line_")):
        name = str(column).removeprefix("line_")
        number = as_number(published[column], name, path)
        keys[name if name not in lines else f"{name}_table"] = (
            (number - 1).where(number > 0).astype("Int64")
        )
    joined = lines.merge(keys, on=["trial", "index"], how="left", validate="1:1")
    for name in (n for n in CORRECTORS if f"{n}_table" in joined):
        again = joined.pop(f"{name}_table")
        differ = again.fillna(-1) != joined[name].fillna(-1)
        if differ.any():
            row = int(np.flatnonzero(differ)[0])
            raise DataError(
                f"the table and the file of {name} disagree on the line of a fixation",
                source=path,
                row=f"trial {joined['trial'][row]}, fixation {joined['index'][row]}",
                expected=joined[name][row],
                found=again[row],
            )
    return joined


def _trials(raw: dict[str, dict[str, Any]]) -> pd.DataFrame:
    rows = [
        {
            "participant": str(facts["participant_id"]),
            "trial": trial,
            "stimulus": str(facts["passage_id"]),
            "layout": str(facts["passage_id"]),
            "condition": CONDITION,
            "age_group": str(facts["age_group"]),
        }
        for trial, facts in raw.items()
    ]
    return pd.DataFrame(rows)


def _accuracy(raw: pd.DataFrame) -> pd.DataFrame:
    table = raw[["trial_id", "age_group"]].rename(columns={"trial_id": "trial"})
    table["agreement_JC_VP"] = as_number(raw["agreement_JC_VP"], "agreement_JC_VP", "trials")
    for column in (c for c in raw if str(c).startswith("acc_")):
        table[str(column).removeprefix("acc_")] = as_number(raw[column], str(column), "trials")
    return table


def _counts(dataset: GazeDataset) -> dict[str, int]:
    lines, trials = dataset.reports["lines"], dataset.trials
    counts = {
        "adults": (trials["age_group"] == "adult").sum(),
        "children": (trials["age_group"] == "child").sum(),
        "lines": len(dataset.words[["layout", "line"]].drop_duplicates()),
        "fixations_discarded": lines["gold"].isna().sum(),
        "algorithms": len(lines.columns.difference(["trial", "index", *CORRECTORS])),
    }
    for name in CORRECTORS[1:]:
        if name in lines:
            counts[f"fixations_discarded_{name}"] = lines[name].isna().sum()
    return {k: int(v) for k, v in counts.items()}
