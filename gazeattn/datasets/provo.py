"""Provo: 55 short English passages read by 84 native speakers, with predictability norms.

Luke & Christianson (2018), The Provo Corpus: A large eye-tracking corpus with predictability norms,
Behavior Research Methods 50, 826-833.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from gazeattn.columns import as_number
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, need_file, register_corpus
from gazeattn.datasets.corpusfiles import text_table
from gazeattn.datasets.otherfiles import number_text
from gazeattn.datasets.parts import build, one_file
from gazeattn.datasets.wordlevel import as_word, known_words, numbered, texts_of, whole, word_table
from gazeattn.errors import DataError
from gazeattn.tables import SIDES, LossLog

REPORT = "Provo_Corpus-Additional_Eyetracking_Data-Fixation_Report.csv"
AREAS = "Provo_Corpus-Eyetracking_Data.csv"
LAST_TRIAL = 55
_AREA = "CURRENT_FIX_INTEREST_AREA"
_NEEDED = [
    *("RECORDING_SESSION_LABEL", "TRIAL_INDEX", "trial", "CURRENT_FIX_INDEX"),
    *(f"{_AREA}_INDEX", f"{_AREA}_LABEL", "CURRENT_FIX_DURATION"),
]
_NUMBERS = {
    "CURRENT_FIX_X": "x",
    "CURRENT_FIX_Y": "y",
    "CURRENT_FIX_START": "onset",
    "CURRENT_FIX_DURATION": "duration",
    "CURRENT_FIX_PUPIL": "pupil",
}
_IN_AREAS = ["RECORDING_SESSION_LABEL", "TRIAL_INDEX", "Text_ID", "IA_ID", "IA_LABEL"]


@register_corpus("provo")
def load(folder: Path, page: Corpus, repeated: bool = False) -> GazeDataset:
    """Load Provo; a trial is one reader and one passage, called ``Sub01_7`` by its trial number.

    Parameters
    ----------
    repeated
        Keep the trials after number 55, in which a passage is shown a second time (marked in the
        column ``repeated`` of the trials). By default they are left out, with a count.

    Notes
    -----
    The files are in Mac Roman, and a lone dot is missing. Words are the interest areas, numbered
    from 1; with ``Provo_Corpus-Eyetracking_Data.csv`` beside the fixation report they are
    complete, else only words that someone fixated are known. ``reports["eyelink"]`` holds its
    interest-area measures as published.
    """
    lost = LossLog()
    encoding = str(page.tables["fixations"]["encoding"])
    path = need_file(folder, page, REPORT)
    raw = text_table(path, encoding=encoding, needs=_NEEDED)
    n_rows = len(raw)
    text = whole(raw["trial"], "trial", path)
    again = as_number(raw["TRIAL_INDEX"], "TRIAL_INDEX", path, 2) > LAST_TRIAL
    unknown = text.isna()
    lost.add("fixations", "dropped", "no passage number: of no trial", int(unknown.sum()))
    keep = ~unknown.to_numpy()
    if not repeated:
        n = int((again & keep).sum())
        lost.add("fixations", "dropped", page.rule("repeated passage"), n)
        keep &= ~again.to_numpy()
    raw, again = raw[keep].reset_index(drop=True), again[keep].reset_index(drop=True)
    if not len(raw):
        raise DataError(f"0 of {n_rows} rows valid: none is of a passage", source=path)
    reader = raw["RECORDING_SESSION_LABEL"]
    area = whole(raw[f"{_AREA}_INDEX"], f"{_AREA}_INDEX", path)
    fixations = pd.DataFrame(
        {
            "participant": reader,
            "trial": reader + "_" + number_text(raw["TRIAL_INDEX"]),
            "stimulus": number_text(raw["trial"]),
            "index": whole(raw["CURRENT_FIX_INDEX"], "CURRENT_FIX_INDEX", path),
            **{ours: as_number(raw[c], c, path, 2) for c, ours in _NUMBERS.items() if c in raw},
            "word": as_word(area),
        }
    )
    if "CURRENT_FIX_BLINK_AROUND" in raw:
        around = raw["CURRENT_FIX_BLINK_AROUND"]
        fixations["blink"] = (around != "NONE").astype("boolean").mask(around.isin(["", "."]))
    if "EYE_USED" in raw:
        fixations["eye"] = raw["EYE_USED"].str.lower()
    rows = pd.DataFrame(
        {
            "stimulus": fixations["stimulus"],
            "number": area,
            "text": raw[f"{_AREA}_LABEL"].str.strip(),
            "trial": fixations["trial"],
        }
    )
    trials = fixations[["participant", "trial", "stimulus"]].assign(
        condition="reading for comprehension", repeated=again.astype("boolean")
    )
    trials = trials.drop_duplicates("trial").reset_index(drop=True)
    areas = one_file(folder, AREAS)
    reports = {}
    if areas is not None:
        table = text_table(areas, encoding=encoding, needs=_IN_AREAS)
        rows = _area_rows(table, areas)
        reports["eyelink"] = _report(table, rows, trials, lost, areas)
    words = word_table(rows, lost, whole=areas is not None)
    fixations = known_words(numbered(fixations, lost), words, lost)
    return build(
        page,
        fixations,
        words,
        trials,
        units="words",
        stimuli=texts_of(words, page.screen),
        lost=lost,
        counts={"fixations_in_all": n_rows},
        reports=reports,
        edition="release with repeated passages" if repeated else "release",
    )


def _area_rows(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    sides = {f"IA_{s.upper()}": s for s in SIDES}
    rows = pd.DataFrame(
        {
            "stimulus": number_text(table["Text_ID"]),
            "number": whole(table["IA_ID"], "IA_ID", path),
            "text": table["IA_LABEL"].str.strip(),
        }
    )
    if set(sides) <= set(table):
        rows = rows.assign(**{o: as_number(table[c], c, path, 2) for c, o in sides.items()})
    session, number = table["RECORDING_SESSION_LABEL"], number_text(table["TRIAL_INDEX"])
    return rows.assign(trial=session + "_" + number)


def _report(
    table: pd.DataFrame, rows: pd.DataFrame, trials: pd.DataFrame, lost: LossLog, path: Path
) -> pd.DataFrame:
    named = [c for c in map(str, table) if c.startswith("IA_") and c not in ("IA_LABEL", "IA_ID")]
    numbers = {c: pd.to_numeric(table[c], errors="coerce") for c in named}
    values = {c: v for c, v in numbers.items() if v.notna().any()}
    report = pd.DataFrame({"trial": rows["trial"], "word": as_word(rows["number"]), **values})
    ours = trials.set_index("trial")["stimulus"].reindex(report["trial"]).to_numpy()
    lone = pd.isna(ours)
    reason = "rows of the interest-area table whose trial is not in the fixation report"
    lost.add("eyelink", "dropped", reason, int(lone.sum()))
    differ = ~lone & (ours != rows["stimulus"].to_numpy())
    if differ.any():
        row = int(differ.argmax())
        raise DataError(
            "the two tables show different passages in one trial",
            source=path,
            row=row + 2,
            expected=f"passage {ours[row]} in trial {report['trial'][row]}",
            found=rows["stimulus"][row],
        )
    return report[~lone].reset_index(drop=True)
