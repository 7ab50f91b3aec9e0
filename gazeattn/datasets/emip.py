"""EMIP 2020: programmers reading two short programs (Bednarik et al., 2020).

doi 10.1016/j.scico.2020.102520.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.corpusfiles import find_files
from gazeattn.datasets.emip_aois import read_tokens
from gazeattn.datasets.parts import build, join_ids, need_columns, numbers, outside, read_text
from gazeattn.datasets.viewing import number_repeats, pictures
from gazeattn.errors import DataError
from gazeattn.events import Geometry, detect
from gazeattn.losses import LossLog
from gazeattn.readers.smi import read_smi
from gazeattn.readers.textfile import file_bytes
from gazeattn.recordings import Recording

SCREEN = (1920, 1080)
FOLDERS = ("rawdata", "data_anonymized")
PROGRAMS = {"rectangle": "Rectangle", "vehicle": "Vehicle"}
_CODE = re.compile(r"^(rectangle|vehicle)_([a-z]+)(\d?)$")
_LABELS = (
    "expertise_programming",
    "time_programming",
    "expertise_experiment_language",
    "time_experiment_language",
)
_AREAS = ("kind", "name", "x", "y", "width", "height", "image")


@register_corpus("emip")
def load(
    folder: Path,
    page: Corpus,
    *,
    eye: str = "right",
    threshold: float = 1.0,
    minimum_duration: float = 60.0,
    samples: bool = True,
    screens: str = "code",
) -> GazeDataset:
    """Load the raw release: SMI text files, metadata, and tables of areas where they are there.

    Fixations are not published in it. They are computed here by I-DT (dispersion) with the
    geometry of each file's header; ``info["fixations_by"]`` says how. A trial is one screen of one
    person. Words are the tokens (``sub-line`` areas) of ``aois*.csv``, with the text of
    ``emip_tokens/*.tsv`` where their numbers agree, else with the name of the area as text.

    Parameters
    ----------
    folder, page
    eye : {"right", "left", "mean"}
        Whose positions fixations are computed from.
    threshold
        Largest dispersion in degrees.
    minimum_duration
        Shortest fixation in ms.
    samples
        Keep the samples in ``.samples``.
    screens : {"code", "all"}
        Only the programs, or instructions and questions too.
    """
    if screens not in ("code", "all"):
        raise DataError("screens must be code or all", found=repr(screens))
    lost = LossLog()
    files = [p for f in FOLDERS for e in ("tsv", "txt") for p in find_files(folder, f"{f}/*.{e}")]
    sheets = [p for f in FOLDERS for p in find_files(folder, f"{f}/*.xlsx")]
    reason = "a recording stored as a spreadsheet is not read: save it as tab-separated text"
    lost.add("files", "note", reason, len(sheets), "files", [p.name for p in sheets])
    if not files:
        raise DataError(
            "no recordings",
            source=folder,
            expected=" or ".join(f"{f}/ID_rawdata.tsv" for f in FOLDERS),
        )
    trials, gaze, fixations, rates = [], [], [], []
    for path in files:
        shown, table, recording = read_recording(path, lost, code=screens == "code")
        rates.append(float(recording.info.get("rate") or np.nan))
        trials.append(shown)
        if not len(table):
            continue
        found = detect(
            table,
            "idt",
            geometry=geometry_of(path, recording, page),
            eye=eye,  # type: ignore[arg-type]
            threshold=threshold,
            minimum_duration=minimum_duration,
            blinks=None,
        )
        lost.extend(found.lost)
        fixations.append(found.fixations)
        if samples:
            gaze.append(table.astype({"participant": "category", "trial": "category"}))
    t = pd.concat(trials, ignore_index=True)
    if not fixations:
        raise DataError("no samples while a program was shown", source=folder)
    by = f"our I-DT: {threshold:g} degrees, {minimum_duration:g} ms, {eye} eye"
    f = pd.concat(fixations, ignore_index=True)
    lost.add("fixations", "note", f"computed, not published: {by}", len(f))
    f = f[["participant", "trial", "eye", "onset", "duration", "x", "y", "pupil"]].copy()
    f["stimulus"] = f["trial"].map(t.set_index("trial")["stimulus"])
    f["off_screen"] = outside(f["x"], f["y"], *SCREEN)
    t = _metadata(t, folder, lost)
    words = read_areas(folder, t["stimulus"].unique(), lost)
    per_rate = pd.Series(rates).value_counts()
    lost.add("files", "note", "sampling rates differ between files", len(per_rate) - 1, "rates")
    dataset = build(
        page,
        f,
        words,
        t,
        units="code tokens",
        stimuli=_stimuli(folder, t, lost),
        lost=lost,
        counts={
            "recordings": len(files),
            "samples": int(t["n_samples"].sum()),
            **{f"recordings_{rate:g}_hz": int(n) for rate, n in per_rate.items()},
        },
        fixations_by=by,
        screen=SCREEN,
    )
    dataset.samples = pd.concat(gaze, ignore_index=True) if samples else None
    if samples and dataset.samples is not None:
        for name in ("participant", "trial"):
            dataset.samples[name] = dataset.samples[name].astype("category")
    return dataset


def read_recording(
    path: Path, lost: LossLog, *, code: bool
) -> tuple[pd.DataFrame, pd.DataFrame, Recording]:
    """Read one file and cut it into screens, which messages such as ``vehicle_java2.jpg`` begin.

    Other messages (mouse clicks) do not end a screen.

    Returns
    -------
    trials : DataFrame
        ``participant, trial, stimulus, start, n_samples``.
    samples : DataFrame
        Those of the trials, ``time`` in ms on the tracker's clock.
    recording : Recording
    """
    name = re.match(r"\d+", path.name)
    if name is None:
        raise DataError(
            "the name of a recording begins with the number of a person",
            source=path,
            expected="such as 46_rawdata.tsv",
        )
    person = name[0]
    recording = read_smi(path)
    lost.extend(recording.lost)
    samples, messages = recording.samples, recording.messages
    if samples is None:
        raise DataError("no samples in it", source=path)
    shown = pd.DataFrame({"time": [], "stimulus": []})
    if messages is not None:
        image = messages["text"].str.extract(r"(\S+)\.jpg\s*$")[0]
        shown = pd.DataFrame({"time": messages["time"], "stimulus": image})[image.notna()]
    shown = shown.sort_values("time", kind="stable").reset_index(drop=True)
    at = np.searchsorted(shown["time"].to_numpy(np.float64), samples["time"], side="right") - 1
    lost.add("samples", "dropped", "before the first screen", int((at < 0).sum()), "samples")
    is_code = shown["stimulus"].astype("str").str.fullmatch(_CODE.pattern[1:-1]).to_numpy(bool)
    wanted = is_code if code else np.ones(len(shown), dtype=bool)
    keep = (at >= 0) & (wanted[at] if len(wanted) else False)
    reason = "another screen than a program (screens='all' keeps it)"
    lost.add("samples", "dropped", reason, int(((at >= 0) & ~keep).sum()), "samples")
    trials = pd.DataFrame({"stimulus": shown["stimulus"].astype("str"), "start": shown["time"]})
    trials["participant"] = person
    trials["trial"] = join_ids(trials["participant"].str.zfill(3), trials["stimulus"])
    trials["n_samples"] = np.bincount(at[keep], minlength=len(trials))
    trials = number_repeats(trials[wanted].copy(), lost)
    table = samples[keep].drop(columns=["stimulus", "block"], errors="ignore")
    table["participant"] = person
    table["trial"] = trials["trial"].reindex(at[keep]).to_numpy()
    table["trial"] = table["trial"].astype("str")
    if not len(trials):
        lost.add("files", "note", "no screen with a program", 1, "files", [path.name])
    return trials.reset_index(drop=True), table.reset_index(drop=True), recording


def geometry_of(path: Path, recording: Recording, page: Corpus) -> Geometry:
    """Return screen and distance of a file's header; what it lacks is taken from the page."""
    head = bytes(file_bytes(path)[:4096]).decode("latin-1")
    found = re.search(r"^## Head Distance \[mm\]:\t(\d+(?:\.\d+)?)", head, re.MULTILINE)
    distance = float(found[1]) / 10 if found else page.distance_cm
    given = recording.info.get("screen_mm")
    size = (given[0] / 10, given[1] / 10) if given else page.screen_cm
    width, height = recording.info.get("screen") or page.screen or SCREEN
    if size is None or distance is None:
        raise DataError("no geometry in the header and none on the page", source=path)
    return Geometry(width, height, size[0], size[1], distance)


def _metadata(trials: pd.DataFrame, folder: Path, lost: LossLog) -> pd.DataFrame:
    """Add program, language, and what the metadata say about expertise and answers."""
    parts = trials["stimulus"].str.extract(_CODE.pattern)
    trials["program"], trials["language"] = parts[0].astype("str"), parts[1].astype("str")
    trials["condition"] = trials["language"]
    path = folder / "emip_metadata.csv"
    table = read_text(path, ",", ["id", "correct_rectangle", "correct_vehicle"])
    table = table.drop_duplicates("id").set_index("id")
    unknown = ~trials["participant"].isin(table.index)
    lost.add(
        "trials", "undefined", "person not in emip_metadata.csv", int(unknown.sum()), "trials",
        trials["participant"][unknown].unique(),
    )  # fmt: skip
    for label in _LABELS:
        if label in table:
            values = trials["participant"].map(table[label])
            trials[label] = values.mask(values.isin(["", "-"])).astype("str")
    right = pd.Series(np.nan, index=trials.index)
    for program in PROGRAMS:
        column = f"correct_{program}"
        values = numbers(table[column], column, path, missing=("", "-", "NA"))
        mine = trials["program"].eq(program).to_numpy(dtype=bool, na_value=False)
        right[mine] = trials["participant"].map(values)[mine]
    trials["correct"] = (right > 0).astype("boolean").mask(right.isna())
    hidden = [c for c in ("age", "gender", "visual_aid", "makeup", "mother_tongue") if c in table]
    lost.add("trials", "dropped", "personal columns are not read", len(hidden), "columns", hidden)
    return trials


def read_areas(folder: Path, stimuli: Any, lost: LossLog) -> pd.DataFrame | None:
    """Read the tables of areas: one word per token, with its box.

    Which picture an area belongs to stands in its row (``image``): names of published tables do
    not always agree with it.
    """
    tables = []
    for path in find_files(folder, "aois*.csv"):
        table = read_text(path, ",")
        need_columns(table, _AREAS, path)
        table = table[table["kind"] == "sub-line"].reset_index(drop=True)
        for name in _AREAS[2:6]:
            table[name] = numbers(table[name], name, path)
        place = table["name"].str.extract(r"^line (\d+) part (\d+)$").astype("float64")
        if place.isna().any(axis=None):
            raise DataError("the place of an area is not readable", source=path,
                            expected="line i part j")  # fmt: skip
        table["stimulus"] = table["image"].str.removesuffix(".jpg")
        table["line"] = place[0].astype("int64") - 1
        table["part"] = place[1]
        other = int((table["stimulus"] != path.name[5:].removesuffix(".csv")).any())
        reason = "names another picture than its rows, which count"
        lost.add("files", "note", reason, other, "files", [path.name])
        tables.append(table)
    if not tables:
        lost.add("words", "undefined", "no aois*.csv: no areas of tokens", len(stimuli), "programs")
        return None
    areas = pd.concat(tables, ignore_index=True)
    twice = areas.duplicated(["stimulus", "name"])
    reason = "the area of a picture stands twice: the first one counts"
    lost.add("words", "dropped", reason, int(twice.sum()), "areas")
    areas = areas[~twice & areas["stimulus"].isin(list(stimuli))]
    words = pd.DataFrame({"stimulus": areas["stimulus"], "word": areas["name"]})
    words["line"], words["left"], words["top"] = areas["line"], areas["x"], areas["y"]
    words["right"], words["bottom"] = areas["x"] + areas["width"], areas["y"] + areas["height"]
    words["text"] = _tokens(folder, words, lost)
    words = words.assign(part=areas["part"]).sort_values(["stimulus", "line", "part"])
    words = words.drop(columns="part").reset_index(drop=True)
    return words.assign(layout=words["stimulus"]) if len(words) else None


def _tokens(folder: Path, words: pd.DataFrame, lost: LossLog) -> pd.Series:
    """Return the tokens of Java programs by place, where areas and tokens are equally many."""
    found = words["word"].copy()
    if not find_files(folder, "emip_tokens/*.tsv"):
        lost.add(
            "words", "undefined", "no emip_tokens: the name of the area is its text", len(words)
        )
        return found
    tokens = read_tokens(folder)
    for stimulus, rows in words.groupby("stimulus"):
        code = _CODE.match(str(stimulus))
        program = f"{PROGRAMS[code[1]]}.java" if code and code[2] == "java" else ""
        mine = tokens[tokens["stimulus"] == program].set_index("word")["text"]
        if set(mine.index) != set(rows["word"]):
            reason = "areas and tokens do not agree: the name of the area is its text"
            lost.add("words", "undefined", reason, len(rows), "words", [stimulus])
            continue
        found[rows.index] = rows["word"].map(mine)
    return found


def _stimuli(folder: Path, trials: pd.DataFrame, lost: LossLog) -> dict[str, dict[str, Any]]:
    found = pictures(folder, "stimuli/*.jpg", "pics/*.jpg")
    stimuli: dict[str, dict[str, Any]] = {}
    for row in trials.drop_duplicates("stimulus").itertuples():
        stimuli[str(row.stimulus)] = facts = {"size": SCREEN}
        if isinstance(row.language, str):
            facts["language"] = row.language  # type: ignore[assignment]
        if row.stimulus in found:
            facts["image"] = str(found[str(row.stimulus)])  # type: ignore[assignment]
    absent = [n for n, facts in stimuli.items() if "image" not in facts]
    lost.add("stimuli", "undefined", "no picture", len(absent), "images", absent)
    return stimuli
