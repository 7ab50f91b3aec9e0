"""OneStop Eye Movements: English news paragraphs read on an EyeLink 1000 Plus.

Berzak, Malmaud, Shubi, Meiri, Lion & Levy (2025), OneStop: A 360-Participant English Eye
Tracking Dataset with Different Reading Regimes, Scientific Data,
doi:10.1038/s41597-025-06272-2.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.assets import find_asset
from gazeattn.columns import as_number, as_text, as_truth
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import compare_counts, counts
from gazeattn.datasets.joining import is_in
from gazeattn.datasets.layouts import lines_of, number_layouts
from gazeattn.downloads import asset_path
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.registry import register_dataset
from gazeattn.storage import data_root, sha256
from gazeattn.tables import LossLog, check_fixations, check_trials, check_words

SCREEN = (2560, 1440)
CITATION = find_asset("onestop_sample").citation
LICENCE = find_asset("onestop_sample").licence
ENV_SHARED = "GAZEATTN_SHARED"

_BOX = {"IA_LEFT": "left", "IA_TOP": "top", "IA_RIGHT": "right", "IA_BOTTOM": "bottom"}
_FIXATION = {
    "CURRENT_FIX_INDEX": "index",
    "CURRENT_FIX_X": "x",
    "CURRENT_FIX_Y": "y",
    "CURRENT_FIX_START": "onset",
    "CURRENT_FIX_DURATION": "duration",
    "CURRENT_FIX_INTEREST_AREA_ID": "word_reported",
}
_WORD_FACTS = {  # per word of a text
    "is_in_aspan": "bool",
    "is_in_dspan": "bool",
    "gpt2_surprisal": "float",
    "wordfreq_frequency": "float",
    "subtlex_frequency": "float",
    "word_length": "float",
    "universal_pos": "text",
}
_TRIAL_FACTS = {
    "article_title": "text",
    "article_batch": "text",
    "article_id": "text",
    "paragraph_id": "text",
    "difficulty_level": "text",
    "trial_index": "float",
    "selected_answer": "text",
    "is_correct": "bool",
    "repeated_reading_trial": "bool",
}
_WRAPPED_OTHERWISE = frozenset(
    {"2_1_2_Ele", "2_1_3_Adv", "2_1_4_Adv", "2_1_5_Adv", "2_1_6_Ele", "2_2_2_Adv", "2_2_6_Ele"}
)
"""Texts of the sample whose published image breaks lines at other words than the boxes do. The
boxes agree with the labels that the tracker reported, so they are what was read."""

SAMPLE = {"participants": 2, "trials": 24, "stimuli": 12, "fixations": 3209}
SLICE = {"participants": 3, "trials": 30, "stimuli": 10, "fixations": 2744, "word_rows": 3310}
"""Counts of the published tables, compared with what was loaded."""

_UNVERIFIED = (
    "viewing distance, screen size in cm and font are not part of these files",
    "which clock zero the fixation onsets use (the first fixation of a text starts seconds after "
    "0, since the question page came first)",
)


@register_dataset(
    "onestop_sample",
    task="reading",
    size="2 readers, 24 trials, 12 texts, 3,209 fixations",
    licence=LICENCE,
    citation=CITATION,
    description="Sample of OneStop: information seeking, English news, with stimulus images",
    asset="onestop_sample",
)
def onestop_sample(
    root: str | os.PathLike[str] | None = None, samples: bool = False
) -> GazeDataset:
    """Load the OneStop sample.

    Parameters
    ----------
    root
        Data folder.
    samples
        Load the gaze samples too. The publisher **simulated** them from the fixations of one
        trial; they exercise a code path and measure nothing.
    """
    folder = asset_path("onestop_sample", root)
    fixations = pd.read_parquet(folder / "fixations.parquet")
    areas = pd.read_parquet(folder / "ia.parquet")
    asset = find_asset("onestop_sample")
    dataset = parse_onestop(fixations, areas, name="onestop_sample", source=folder)
    dataset.info |= {
        "version": f"{asset.package} {asset.version}",
        "checksums": {m.name: m.sha256 for m in asset.members.values()},
        "description": asset.description,
        "edition": "sample",
    }
    _counted(dataset, SAMPLE)
    _add_images(dataset, areas, folder)
    if samples:
        dataset.samples = _samples(pd.read_parquet(folder / "raw_gaze.parquet"))
        dataset.info["samples_note"] = "simulated by the publisher from fixations, not recorded"
    return dataset


def _slice_folders(root: str | os.PathLike[str] | None) -> list[Path]:
    bases = [] if root is None else [Path(root).expanduser(), Path(root).expanduser() / "datasets"]
    if os.environ.get(ENV_SHARED):
        bases.append(Path(os.environ[ENV_SHARED]).expanduser())
    bases.append(data_root() / "datasets")
    folders = [b / "onestop_slice" for b in bases]
    return list(dict.fromkeys([bases[0], *folders] if root is not None else folders))


def _find_slice(root: str | os.PathLike[str] | None) -> Path | None:
    for folder in _slice_folders(root):
        if (folder / "fixations.csv.gz").is_file() and (folder / "ia.csv.gz").is_file():
            return folder
    return None


@register_dataset(
    "onestop_slice",
    obtain="give its folder with dataset.root=, or the folder above it with GAZEATTN_SHARED",
    task="reading",
    size="3 readers, 30 trials, 10 texts, 2,744 fixations",
    licence=LICENCE,
    citation=CITATION,
    description="Slice of OneStop as text tables in a folder (no download): information seeking",
    installed=lambda root: _find_slice(root) is not None,
)
def onestop_slice(root: str | os.PathLike[str] | None = None) -> GazeDataset:
    """Load a folder with ``fixations.csv.gz`` and ``ia.csv.gz`` in the published columns.

    The folder is `root`, ``root/onestop_slice`` or ``$GAZEATTN_SHARED/onestop_slice``.
    """
    folder = _find_slice(root)
    if folder is None:
        looked = ", ".join(map(str, _slice_folders(root)))
        raise MissingAssetError(
            "data set 'onestop_slice' is not on this machine: no folder with fixations.csv.gz and "
            f"ia.csv.gz among {looked}. Give the folder with root=..., or set {ENV_SHARED} to the "
            "folder that holds onestop_slice. A sample of the same corpus comes with: "
            "gazeattn fetch onestop_sample"
        )
    paths = {n: folder / f"{n}.csv.gz" for n in ("fixations", "ia")}
    tables = {n: pd.read_csv(p, dtype="str", keep_default_na=False) for n, p in paths.items()}
    dataset = parse_onestop(tables["fixations"], tables["ia"], name="onestop_slice", source=folder)
    dataset.info |= {
        "version": "demo data of Scanpath Studio, snapshot 886a713",
        "checksums": {p.name: sha256(p) for p in paths.values()},
        "description": "OneStop slice: English news paragraphs, EyeLink, information seeking",
        "edition": "slice",
    }
    return _counted(dataset, SLICE)


def _counted(dataset: GazeDataset, expected: Mapping[str, int]) -> GazeDataset:
    dataset.info["counts"] = counts(dataset)
    compare_counts(dataset, dataset.name, expected)
    return dataset


def parse_onestop(
    fixations: pd.DataFrame, areas: pd.DataFrame, *, name: str, source: object
) -> GazeDataset:
    """Turn OneStop's fixation and interest-area reports into a data set.

    Parameters
    ----------
    fixations, areas
        The published columns, as text or already typed; ``.`` is missing in number columns.
    name, source
        Name of the data set; where the tables are from, for messages.
    """
    lost = LossLog()
    areas = _named(areas, source, "ia", ["IA_ID", "IA_LABEL", *_BOX])
    fixations = _named(fixations, source, "fixations", list(_FIXATION))
    areas["word"] = as_text(areas["IA_ID"])
    areas["index"] = as_number(areas["IA_ID"], "IA_ID", f"{source}: ia")
    areas = areas.sort_values(["trial", "index"], kind="stable").reset_index(drop=True)
    layouts = number_layouts(areas, ["IA_ID", "IA_LABEL", *_BOX])
    areas["layout"] = areas["trial"].map(layouts).astype("str")

    words, log = check_words(_words(areas, lost), source=f"{source}: ia")
    lost.extend(log)
    trials, log = check_trials(_trials(areas), source=f"{source}: ia")
    lost.extend(log)
    # paragraphs and both versions of one article are one item of a split
    item = trials.attrs["item"] = "article" if "article" in trials else "stimulus"
    table, log = check_fixations(
        _fixations(fixations, areas, lost, name), source=f"{source}: fixations"
    )
    lost.extend(log)
    unread = trials.loc[~is_in(trials["trial"], table["trial"]), "trial"]
    lost.add("trials", "undefined", "no fixations: undefined", len(unread), "trials", unread)
    drawn = words.drop_duplicates("layout").groupby("stimulus")["layout"].nunique()
    several = drawn[drawn > 1]
    lost.add(
        "words",
        "note",
        "texts that were drawn in several ways: boxes are looked up by layout",
        len(several),
        "stimuli",
        several.index,
    )
    seeking = trials["condition"].dropna().unique()
    report = _report(areas, source)
    return GazeDataset(
        name=name,
        fixations=table,
        words=words,
        trials=trials,
        stimuli=_stimuli(words, trials),
        info={
            "citation": CITATION,
            "licence": LICENCE,
            "url": "https://doi.org/10.1038/s41597-025-06272-2",
            "readers_note": " and ".join(sorted(seeking)) or "reading goal not stated",
            "language": "en",
            "screen": SCREEN,
            "labels": ("is_correct", "difficulty_level"),
            "counts": {"word_rows": len(report)},
            "item": item,
            "unverified": list(_UNVERIFIED),
        },
        reports={"eyelink": report},
        lost=lost,
    )


def _named(frame: pd.DataFrame, source: object, step: str, needed: list[str]) -> pd.DataFrame:
    ids = {
        "participant_id": "participant",
        "unique_trial_id": "trial",
        "unique_paragraph_id": "stimulus",
    }
    missing = [c for c in [*ids, *needed] if c not in frame]
    if missing:
        raise DataError(
            f"column {', '.join(map(repr, missing))} is missing from the {step} table",
            source=source,
            expected="the columns of the published OneStop report",
            found=f"{len(frame.columns)} columns: {', '.join(map(str, frame.columns[:12]))}, ...",
        )
    if not len(frame):
        raise DataError(f"the {step} table has no rows", source=source)
    frame = frame.rename(columns=ids).reset_index(drop=True)
    for column in ids.values():
        frame[column] = as_text(frame[column])
    return frame


def _typed(values: pd.Series, kind: str, source: object) -> pd.Series:
    if kind == "text":
        return as_text(values)
    if kind == "bool":
        return as_truth(values, str(values.name), source)
    # a frequency of a word that its list does not know is published as infinite: no value
    numbers = pd.to_numeric(values.replace({".": np.nan, "": np.nan}), errors="raise")
    return numbers.astype("float64").replace([np.inf, -np.inf], np.nan)


def _words(areas: pd.DataFrame, lost: LossLog) -> pd.DataFrame:
    rows = areas[areas["trial"].isin(areas.drop_duplicates("layout")["trial"])]
    words = pd.DataFrame(
        {
            "layout": rows["layout"],
            "stimulus": rows["stimulus"],
            "word": rows["word"],
            "index": rows["index"],
            "text": as_text(rows["IA_LABEL"]),
            **{ours: rows[theirs] for theirs, ours in _BOX.items()},
        }
    )
    for side in _BOX.values():
        words[side] = as_number(words[side], side, "ia")
    words["line"] = lines_of(words)
    for column, kind in _WORD_FACTS.items():
        if column not in areas:
            continue
        values = areas[column].astype("str").fillna("")
        varies = values.groupby([areas["layout"], areas["word"]]).nunique() > 1
        if varies.any():
            lost.add(
                "words",
                "undefined",
                f"{column} differs between trials of one text: left out",
                int(varies.sum()),
                "words",
            )
        else:
            words[column] = _typed(rows[column], kind, "ia")
    return words


def _trials(areas: pd.DataFrame) -> pd.DataFrame:
    rows = areas.drop_duplicates("trial").reset_index(drop=True)
    trials = rows[["participant", "trial", "stimulus", "layout"]].copy()
    if "question_preview" in rows:
        preview = as_truth(rows["question_preview"], "question_preview", "ia")
        names = {True: "information seeking", False: "ordinary reading"}
        trials["condition"] = preview.map(names)
    else:
        trials["condition"] = np.nan
    if "question" in rows:
        trials["question"] = as_text(rows["question"])
    for column, kind in _TRIAL_FACTS.items():
        if column in rows:
            trials[column] = _typed(rows[column], kind, "ia")
    if {"article_batch", "article_id"} <= set(trials):
        trials["article"] = trials["article_batch"] + "_" + trials["article_id"]
    return trials


def _fixations(report: pd.DataFrame, areas: pd.DataFrame, lost: LossLog, name: str) -> pd.DataFrame:
    known = is_in(report["trial"], areas["trial"])
    if not known.any():
        raise DataError(
            f"0 of {len(report)} rows valid: no fixated trial has words",
            expected=f"trials such as {areas['trial'].iloc[0]!r}",
            found=f"trials such as {report['trial'].iloc[0]!r}",
        )
    lost.add(
        "fixations",
        "dropped",
        "their trial has no words",
        int((~known).sum()),
        examples=report.loc[~known, "trial"].unique(),
    )
    report = report[known].reset_index(drop=True)
    table = report[["participant", "trial", "stimulus"]].copy()
    table["dataset"] = name
    for theirs, ours in _FIXATION.items():
        table[ours] = report[theirs]
    if "EYE_TRACKED" in report:
        table["eye"] = as_text(report["EYE_TRACKED"]).str.lower()
    if "NEXT_SAC_AMPLITUDE" in report:
        table["saccade_amplitude"] = as_number(
            report["NEXT_SAC_AMPLITUDE"], "NEXT_SAC_AMPLITUDE", "fixations"
        )
    table["word_reported"] = _reported_words(report, areas, lost)
    return table


def _reported_words(report: pd.DataFrame, areas: pd.DataFrame, lost: LossLog) -> pd.Series:
    """Return the reported area of each fixation in the numbers of the word table.

    The two reports may count from different numbers. The shift between them is found by
    comparing labels, and logged.
    """
    ids = as_number(report["CURRENT_FIX_INTEREST_AREA_ID"], "CURRENT_FIX_INTEREST_AREA_ID")
    column = "CURRENT_FIX_INTEREST_AREA_LABEL"
    on_text = ids.notna()
    shift, agree = 0, None
    if column in report and on_text.any():
        labels = pd.Series(
            as_text(areas["IA_LABEL"]).to_numpy(),
            index=pd.MultiIndex.from_arrays([areas["trial"], areas["index"]]),
        )
        labels = labels[~labels.index.duplicated()]
        found = as_text(report[column])[on_text].to_numpy()
        shares = {}
        for candidate in (0, 1, -1):
            at = pd.MultiIndex.from_arrays([report["trial"][on_text], ids[on_text] - candidate])
            shares[candidate] = float((labels.reindex(at).to_numpy() == found).mean())
        shift = max(shares, key=lambda s: (shares[s], -abs(s)))
        agree = shares[shift]
    if agree is None:
        lost.add("fixations", "note", "reported areas have no label to check", 1, "tables")
    elif shift:
        lost.add(
            "fixations",
            "note",
            f"reported areas are numbered {shift:+d} against the word table: shifted "
            f"(labels agree on {agree:.2%})",
            int(on_text.sum()),
        )
    if agree is not None and agree < 1:
        lost.add(
            "fixations",
            "note",
            "reported area and word table disagree on the label",
            round((1 - agree) * int(on_text.sum())),
        )
    lost.add("fixations", "note", "reported on no word", int((~on_text).sum()), examples=())
    return as_text((ids - shift).astype("Int64"))


def _stimuli(words: pd.DataFrame, trials: pd.DataFrame) -> dict[str, dict[str, Any]]:
    texts = words[words["layout"] == words["stimulus"]].groupby("stimulus")["text"].agg(" ".join)
    facts: dict[str, dict[str, Any]] = {}
    for trial in trials.drop_duplicates("stimulus").to_dict("records"):
        stimulus = str(trial["stimulus"])
        facts[stimulus] = {"text": str(texts.get(stimulus, "")), "size": SCREEN}
        if isinstance(trial.get("article_title"), str):
            facts[stimulus]["title"] = trial["article_title"]
    return facts


def _add_images(dataset: GazeDataset, areas: pd.DataFrame, folder: Path) -> None:
    """Name the drawing of each text and where its top left corner lies on the screen.

    A drawing that does not lie under the boxes is ``image_unmatched`` instead of ``image``.
    """
    columns = ["unique_paragraph_id", "image_path", "image_x", "image_y"]
    if not set(columns) <= set(areas):
        return
    unmatched = []
    for stimulus, path, x, y in areas[columns].drop_duplicates("unique_paragraph_id").to_numpy():
        image = folder / str(path)
        if not image.is_file():
            continue
        if stimulus in _WRAPPED_OTHERWISE:
            unmatched.append(stimulus)
            dataset.stimuli[str(stimulus)]["image_unmatched"] = str(image)
        else:
            dataset.stimuli[str(stimulus)] |= {
                "image": str(image),
                "image_offset": (float(x), float(y)),
            }
    dataset.lost.add(
        "stimuli",
        "note",
        "published image breaks lines at other words than the boxes: not drawn under gaze",
        len(unmatched),
        "images",
        sorted(unmatched),
    )


def _samples(raw: pd.DataFrame) -> pd.DataFrame:
    names = {"participant_id": "participant", "unique_trial_id": "trial", "timestamp_ms": "time"}
    return raw.rename(columns=names)


def _report(areas: pd.DataFrame, source: object) -> pd.DataFrame:
    """Return the published IA columns as numbers, NaN where the report has a lone dot."""
    report = areas[["participant", "trial", "word"]].copy()
    for column in (c for c in areas if str(c).startswith("IA_")):
        if column == "IA_LABEL":
            report[column] = as_text(areas[column])
        else:
            report[column] = as_number(areas[column], str(column), f"{source}: ia")
    return report


__all__ = ["onestop_sample", "onestop_slice", "parse_onestop"]
