"""MECO: the same texts in many languages (L1), and English texts read by learners (L2).

Siegelman et al. (2022), Expanding horizons of cross-linguistic research on reading: The
Multilingual Eye-movement Corpus (MECO), Behavior Research Methods 54, 2843-2863. Kuperman et al.
(2023), Text reading in English as a second language: Evidence from the Multilingual Eye-Movements
Corpus, Studies in Second Language Acquisition 45, 3-37.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.columns import as_number
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, missing_message, register_corpus
from gazeattn.datasets.otherfiles import exported_or_r, number_text
from gazeattn.datasets.parts import build, need_columns
from gazeattn.datasets.wordlevel import (
    as_word,
    choice,
    known_words,
    measures_of,
    numbered,
    texts_of,
    whole,
    word_table,
)
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.tables import LossLog

_NEEDED = ["uniform_id", "lang", "fixid", "dur"]
_PLACES = {"xn": "x", "yn": "y", "start": "onset", "dur": "duration", "ps": "pupil"}
_RECORDED = {"xs": "x_recorded", "ys": "y_recorded"}
_WORD = (("ianum", "ia"), ("wordnum", "word"))  # number and text of an area, else of a word
_ITEM = ("itemid", "trialid")
_MEASURES = {
    "firstfix.dur": "first_fixation_duration",
    "singlefix.dur": "single_fixation_duration",
    "firstrun.dur": "gaze_duration",
    "firstrun.gopast": "go_past_time",
    "firstrun.gopast.sel": "selective_go_past_time",
    "dur": "total_reading_time",
    "nfix": "fixation_count",
    "firstrun.skip": "skip",
    "skip": "never_fixated",
    "reg.in": "regression_in",
    "reg.out": "regression_out",
}
_READ = list(
    dict.fromkeys(
        [
            *(*_NEEDED, *_ITEM, *_PLACES, *_RECORDED, *_MEASURES),
            *("line", "blink", "type", "ianum", "ia", "wordnum", "word"),
        ]
    )
)


@register_corpus("meco_l1")
def load_l1(folder: Path, page: Corpus, wave: int | None = None) -> GazeDataset:
    """Load MECO L1; a trial is one reader and one text, called ``fi_12_3`` by reader and item.

    Parameters
    ----------
    wave
        1 or 2; by default those whose fixation table is there.

    Notes
    -----
    Tables are read from the R data files, or from CSV exports of them that lie beside. Words are
    the interest areas, numbered from 1: complete with the word table (``joint_data...``), else
    only those that someone fixated. ``x``, ``y`` are the published positions after the
    correction of lines (``xn``, ``yn``), ``x_recorded``, ``y_recorded`` those before. A stimulus
    is a text in one language, ``fi_3``. ``reports["measures"]`` are the published word measures.
    """
    return _load(folder, page, wave)


@register_corpus("meco_l2")
def load_l2(folder: Path, page: Corpus, wave: int | None = None) -> GazeDataset:
    """Load MECO L2; a trial is one reader and one English text, called ``fi_12_3``.

    Parameters
    ----------
    wave
        1 or 2; by default those whose fixation table is there.

    Notes
    -----
    See `load_l1`. Item numbers of four readers are repaired as the page lists; a repair is left
    out, with a note, where the reader has the text already under the right number.
    """
    return _load(folder, page, wave)


def _load(folder: Path, page: Corpus, wave: int | None) -> GazeDataset:
    lost = LossLog()
    waves = [1, 2] if wave is None else [choice(wave, (1, 2), "wave")]
    parts = [p for p in (_wave(folder, page, w, lost) for w in waves) if p is not None]
    if not parts or (wave is not None and len(parts) < len(waves)):
        raise MissingAssetError(missing_message(page, folder))
    ids = [set(p["fixations"]["participant"]) for p in parts]
    shared = sorted(set.intersection(*ids)) if len(ids) == 2 else []
    if shared:
        reason = "reader ids of both waves: those of wave 2 have _w2 added"
        lost.add("trials", "repaired", reason, len(shared), "readers", shared)
        for name in ("fixations", "rows", "measures"):
            parts[1][name] = _renamed(parts[1][name], shared)
    fixations, rows, measures = (
        pd.concat([p[n] for p in parts if len(p[n].columns)], ignore_index=True)
        if any(len(p[n].columns) for p in parts)
        else pd.DataFrame()
        for n in ("fixations", "rows", "measures")
    )
    whole_list = all(len(p["measures"].columns) for p in parts)
    words = word_table(rows, lost, whole=whole_list)
    fixations = known_words(numbered(fixations, lost), words, lost)
    columns = ["participant", "trial", "stimulus", "language", "wave"]
    both = [f[columns] for f in (fixations, measures) if set(columns) <= set(f)]
    trials = pd.concat(both, ignore_index=True).drop_duplicates("trial").reset_index(drop=True)
    trials["condition"] = "reading for comprehension"
    files = [str(f) for p in parts for f in p["files"]]
    reports = {"measures": measures} if len(measures) else {}
    return build(
        page,
        fixations.drop(columns=["language", "wave"]),
        words,
        trials,
        units="words",
        stimuli=texts_of(words),
        lost=lost,
        counts={f"participants_wave_{p['wave']}": len(i) for p, i in zip(parts, ids, strict=True)},
        reports=reports,
        edition="both waves" if len(parts) > 1 else f"wave {parts[0]['wave']}",
        files=files,
    )


def _renamed(table: pd.DataFrame, shared: list[str]) -> pd.DataFrame:
    if "trial" not in table:
        return table
    reader = table["participant"]
    hit = reader.isin(shared)
    rest = table["trial"].str.rpartition("_")[2]
    return table.assign(
        participant=(reader + "_w2").where(hit, reader),
        trial=(reader + "_w2_" + rest).where(hit, table["trial"]),
    )


def _wave(folder: Path, page: Corpus, wave: int, lost: LossLog) -> dict[str, Any] | None:
    facts = page.tables[f"wave_{wave}"]
    found = exported_or_r(folder, str(facts["fixations"]), str(facts["fixations_key"]), _READ)
    if found is None:
        return None
    raw, path = found
    need_columns(raw, _NEEDED, path)
    item, place = _named(raw, [(c,) for c in _ITEM], path)[0], _named(raw, _WORD, path)
    raw = _renumber(raw, item, page, lost, "fixations")
    ids = _ids(raw, item, page, wave, path)
    number = whole(raw[place[0]], place[0], path)
    fixations = pd.DataFrame(
        {
            **ids,
            "index": whole(raw["fixid"], "fixid", path),
            **{
                ours: as_number(raw[c], c, path, 2)
                for c, ours in (_PLACES | _RECORDED).items()
                if c in raw
            },
            "word": as_word(number),
        }
    )
    if "line" in raw:
        fixations["line"] = whole(raw["line"], "line", path) - 1
    if "blink" in raw:
        fixations["blink"] = (as_number(raw["blink"], "blink", path, 2) > 0).astype("boolean")
    if "type" in raw:
        out = int((raw["type"] == "out").sum())
        lost.add("fixations", "note", "outside the text area (type out): kept, on no word", out)
    differ = _items_differ(raw)
    lost.add("fixations", "note", "itemid and trialid differ: the first is used", differ)
    rows = pd.DataFrame({**ids, "number": number, "text": raw[place[1]]})
    words = exported_or_r(folder, str(facts["words"]), str(facts["words_key"]), _READ)
    part = {"wave": wave, "fixations": fixations, "rows": rows, "files": [path.name]}
    part["measures"] = pd.DataFrame()
    if words is not None:
        table, where = words
        need_columns(table, ["uniform_id", "lang"], where)
        item, place = _named(table, [(c,) for c in _ITEM], where)[0], _named(table, _WORD, where)
        table = _renumber(table, item, page, lost, "words")
        ids = _ids(table, item, page, wave, where)
        number = whole(table[place[0]], place[0], where)
        part["rows"] = pd.DataFrame({**ids, "number": number, "text": table[place[1]]})
        ids |= {"word": as_word(number), "text": table[place[1]]}
        part["measures"] = measures_of(table, ids, _MEASURES, where)
        part["files"] = [path.name, where.name]
    return part


def _named(raw: pd.DataFrame, pairs: Iterable[Iterable[str]], path: Path) -> tuple[str, ...]:
    """Return the first group of columns that is there."""
    groups = [tuple(p) for p in pairs]
    for group in groups:
        if set(group) <= set(raw):
            return group
    raise DataError(
        f"column {groups[0][0]!r} is missing",
        source=path,
        expected=" or ".join(", ".join(g) for g in groups),
        found=", ".join(map(str, raw.columns)),
    )


def _items_differ(raw: pd.DataFrame) -> int:
    if not set(_ITEM) <= set(raw):
        return 0
    first, second = (number_text(raw[c]) for c in _ITEM)
    return int(((first != second) & first.notna() & second.notna()).sum())


def _ids(raw: pd.DataFrame, item: str, page: Corpus, wave: int, path: Path) -> dict[str, Any]:
    number = number_text(raw[item])
    if number.isna().any():
        row = int(np.flatnonzero(number.isna())[0])
        raise DataError(f"column {item!r} has no text number", source=path, row=row + 2)
    reader, language = raw["uniform_id"], raw["lang"]
    english = page.name == "meco_l2"
    return {
        "participant": reader,
        "trial": reader + "_" + number,
        "stimulus": number if english else language + "_" + number,
        "language": language,
        "wave": wave,
    }


def _renumber(raw: pd.DataFrame, item: str, page: Corpus, lost: LossLog, step: str) -> pd.DataFrame:
    """Give texts the number that the page lists for a reader, all of a reader's at once."""
    for entry in page.corrections:
        if "renumber" not in entry:
            continue
        rows = raw["uniform_id"] == str(entry["reader"])
        if not rows.any():
            continue
        change = {str(k): str(v) for k, v in entry["renumber"].items()}
        now = number_text(raw.loc[rows, item])
        present = set(now.dropna())
        moved = present & set(change)
        clash = {change[m] for m in moved} & (present - set(change))
        reason, unit = str(entry["reason"]), "trials"
        if clash:
            why = f"not applied, since text {min(clash)} of {entry['reader']} is there already: "
            lost.add(step, "note", f"{why}{reason}", len(moved), unit)
            continue
        lost.add(
            step, "repaired", reason, len(moved), unit, [f"{entry['reader']}_{m}" for m in moved]
        )
        column = number_text(raw[item])
        column[rows] = now.map(lambda n, change=change: change.get(n, n))
        raw = raw.assign(**{item: column})
    return raw
