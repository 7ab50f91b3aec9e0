"""The full release of OneStop: paragraph reports of 360 readers, read in pieces.

Berzak, Malmaud, Shubi, Meiri, Lion & Levy (2025), OneStop: A 360-Participant English Eye Tracking
Dataset with Different Reading Regimes, Scientific Data, doi:10.1038/s41597-025-06272-2.
"""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from gazeattn.columns import as_number, as_truth
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import FOLDS, Corpus, correct, need_file, register_corpus
from gazeattn.datasets.corpusfiles import find_files, text_table
from gazeattn.datasets.onestop import parse_onestop
from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.readers.textfile import sniff_separator

_TRIAL = (
    "participant_id unique_trial_id unique_paragraph_id article_batch article_id paragraph_id "
    "difficulty_level repeated_reading_trial practice_trial question_preview question trial_index "
    "article_title selected_answer is_correct"
).split()
_FIXATION = (
    "CURRENT_FIX_INDEX CURRENT_FIX_X CURRENT_FIX_Y CURRENT_FIX_START CURRENT_FIX_DURATION "
    "CURRENT_FIX_INTEREST_AREA_ID CURRENT_FIX_INTEREST_AREA_LABEL EYE_TRACKED NEXT_SAC_AMPLITUDE"
).split()
_AREA = (
    "is_in_aspan is_in_dspan gpt2_surprisal wordfreq_frequency subtlex_frequency word_length "
    "universal_pos"
).split()
REGIMES = {
    "unseen_subject_seen_item": "unseen_reader",
    "seen_subject_unseen_item": "unseen_text",
    "unseen_subject_unseen_item": "unseen_both",
}


@register_corpus("onestop")
def load(
    folder: Path, page: Corpus, participants: tuple[str, ...] | list[str] | None = None
) -> GazeDataset:
    """Load the paragraph reports of OneStop, whole or of one of its parts.

    Parameters
    ----------
    participants
        Read only these readers; the whole corpus takes several GB of memory.

    Notes
    -----
    Files are ``fixations_Paragraph.csv`` and ``ia_Paragraph.csv``, or those of a part such as
    ``fixations_Paragraph_ordinary.csv``; zipped, gzipped or plain. ``condition`` is the reading
    goal, ``repeated_reading_trial`` marks repeated readings. ``reports`` holds ``eyelink`` (the
    published word measures), and ``sessions`` and ``folds`` where their files are there.
    """
    lost = LossLog()
    wanted = None if participants is None else _stored_ids(participants, page)
    tables = {}
    for step, columns in (("fixations", _FIXATION), ("ia", _AREA)):
        path = _one_report(folder, page, f"{step}_Paragraph")
        raw = read_report(path, [*_TRIAL, *columns], prefix="IA_" if step == "ia" else None,
                          participants=wanted)  # fmt: skip
        raw = correct(raw, page, step, lost)
        raw = _without_practice(raw, step, page, lost)
        tables[step] = _with_ids(raw, path)
    dataset = parse_onestop(tables["fixations"], tables["ia"], name="onestop", source=folder)
    lost.extend(dataset.lost)
    dataset.lost = lost
    trials = dataset.trials
    _known_gaps(trials, page, lost)
    counts = {"word_rows": len(tables["ia"])}
    if "repeated_reading_trial" in trials:
        repeated = trials["repeated_reading_trial"].fillna(False)
        counts["trials_repeated_reading"] = int(repeated.sum())
        counts["trials_first_reading"] = int((~repeated).sum())
    for goal, n in trials["condition"].value_counts().items():
        counts[f"trials_{str(goal).replace(' ', '_')}"] = int(n)
    sessions = find_files(folder, "session_summary.csv")
    if sessions:
        dataset.reports["sessions"] = correct(text_table(sessions[0]), page, "sessions", lost)
    folds = find_files(folder, "ordinary_trials_labels.csv")
    if folds:
        dataset.reports["folds"] = read_folds(folds[0])
    # what `parse_onestop` says of any OneStop table gives way to the page of the release
    kept = {k: dataset.info[k] for k in ("readers_note",)}
    dataset.info = {**kept, "counts": counts}
    if participants is not None:
        dataset.info["edition"] = "chosen readers"
    return dataset


def _stored_ids(participants: Iterable[str], page: Corpus) -> set[str]:
    """Return the ids under which readers may stand in the files."""
    wanted = {str(p) for p in participants}
    for entry in page.corrections:
        renamed = dict(entry.get("set", {})).get("participant_id")
        if renamed in wanted:
            wanted.add(str(entry["where"]["participant_id"]))
    return wanted


def _one_report(folder: Path, page: Corpus, stem: str) -> Path:
    found = [p for p in sorted(folder.glob(f"{stem}*.csv*")) if p.is_file()]
    if not found:
        need_file(folder, page, f"{stem}.csv.zip")
    whole = [p for p in found if p.name.split(".")[0] == stem]
    parts = {p.name.split(".")[0] for p in found}
    if not whole and len(parts) > 1:
        raise DataError(
            "reports of several parts of the corpus in one folder",
            source=folder,
            expected=f"{stem}.csv, or one part of it",
            found=", ".join(sorted(parts)),
            hint="Give each part a folder of its own",
        )
    return min(whole or found, key=lambda p: len(p.suffixes))  # the unpacked one wins


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a report, plain, gzipped or as the only table of a zip file."""
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                members = [
                    m
                    for m in archive.namelist()
                    if m.endswith(".csv") and not m.startswith("__MACOSX")
                ]
                if len(members) != 1:
                    raise DataError(
                        "expected one table in the zip file",
                        source=path,
                        found=", ".join(members) or "none",
                    )
                with archive.open(members[0]) as stream:
                    yield stream
        elif path.suffix == ".gz":
            with gzip.open(path, "rb") as stream:
                yield stream  # type: ignore[misc]
        else:
            with path.open("rb") as stream:
                yield stream
    except (zipfile.BadZipFile, gzip.BadGzipFile, EOFError) as error:
        raise DataError(f"the packed file is damaged or cut ({error})", source=path) from None


def read_report(
    path: Path,
    columns: Iterable[str],
    *,
    prefix: str | None = None,
    participants: set[str] | None = None,
) -> pd.DataFrame:
    """Read columns of a report as text, in blocks, so that rows that are not wanted take no memory.

    Parameters
    ----------
    columns
        Columns to read, those that are there.
    prefix
        Also read all columns whose name begins so.
    participants
        Keep only rows of these readers.

    Raises
    ------
    DataError
        A damaged file, no reader column, no rows, or rows of unequal length.
    """
    with _opened(path) as stream:
        head = stream.readline().decode("utf-8-sig").rstrip("\r\n")
    separator = sniff_separator(head, path.name)
    names = next(csv.reader(io.StringIO(head), delimiter=separator), [])
    wanted = set(columns)
    chosen = [n for n in names if n in wanted or (prefix and n.startswith(prefix))]
    if "participant_id" not in chosen:
        raise DataError(
            "column 'participant_id' is missing",
            source=path,
            expected="the columns of the published OneStop report",
            found=", ".join(names[:12]),
        )
    batches = []
    try:
        with _opened(path) as stream:
            reader = pa_csv.open_csv(
                pa.PythonFile(stream, mode="r"),
                pa_csv.ReadOptions(column_names=names, skip_rows=1, block_size=1 << 24),
                pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
                pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.large_string()),
                    include_columns=chosen,
                    strings_can_be_null=False,
                ),
            )
            for batch in reader:
                table = pa.Table.from_batches([batch])
                if participants is not None:
                    known = pa.array(sorted(participants), pa.large_string())
                    table = table.filter(pc.is_in(table["participant_id"], value_set=known))
                batches.append(table)
    except pa.ArrowInvalid as error:
        raise DataError(f"not a readable report ({error})", source=path) from None
    table = pa.concat_tables(batches) if batches else None
    if table is None or not table.num_rows:
        readers = "" if participants is None else f" of {', '.join(sorted(participants)[:3])}"
        raise DataError(f"the report has no rows{readers}", source=path)
    return table.to_pandas()


def _without_practice(raw: pd.DataFrame, step: str, page: Corpus, lost: LossLog) -> pd.DataFrame:
    if "practice_trial" not in raw:
        return raw
    practice = as_truth(raw["practice_trial"], "practice_trial", step).fillna(False)
    lost.add(step, "dropped", page.rule("practice"), int(practice.sum()))
    return raw[~practice.to_numpy(dtype=bool)].reset_index(drop=True)


def _with_ids(raw: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Make paragraph and trial ids where the report has only their parts, and after renaming."""
    if "unique_paragraph_id" not in raw:
        parts = ["article_batch", "article_id", "paragraph_id", "difficulty_level"]
        absent = [c for c in parts if c not in raw]
        if absent:
            raise DataError(
                f"column 'unique_paragraph_id' is missing, and so is {absent[0]!r}",
                source=path,
                expected=f"unique_paragraph_id, or {', '.join(parts)}",
                found=", ".join(raw.columns),
            )
        raw["unique_paragraph_id"] = raw[parts].astype("str").agg("_".join, axis=1)
    if "repeated_reading_trial" in raw:
        again = as_truth(raw["repeated_reading_trial"], "repeated_reading_trial", path)
        flag = again.astype("Int64").astype("str").fillna("0")
        ids = raw["participant_id"] + "_" + raw["unique_paragraph_id"] + "_r" + flag
        raw["unique_trial_id"] = ids  # published ids hold the stored, uncorrected reader
    elif "unique_trial_id" not in raw:
        raw["unique_trial_id"] = raw["participant_id"] + "_" + raw["unique_paragraph_id"]
    return raw


def _known_gaps(trials: pd.DataFrame, page: Corpus, lost: LossLog) -> None:
    """Say which of the listed gaps concern the readers that were loaded."""
    if "trial_index" not in trials:
        return
    here = set(zip(trials["participant"], trials["trial_index"], strict=True))
    readers = set(trials["participant"])
    for rule, gap in (("missing trials", True), ("missing answers", False)):
        entry = next(c for c in page.corrections if c.get("rule") == rule)
        hits = [
            f"{reader} #{number}"
            for reader, number in entry["trials"]
            if reader in readers and ((reader, number) in here) != gap
        ]
        lost.add("trials", "undefined", str(entry["reason"]), len(hits), "trials", hits)


def read_folds(path: Path) -> pd.DataFrame:
    """Read the EyeBench folds of ordinary first readings.

    Their ids put the level before the paragraph (``2_10_Adv_3``) and end in two numbers; they are
    turned into those of the reports (``2_10_3_Adv``, ``..._r0``).

    Returns
    -------
    DataFrame
        `gazeattn.datasets.corpus.FOLDS`, and ``is_correct``; one row per fold and trial.
    """
    raw = text_table(path)
    roles = [str(c) for c in raw if str(c).startswith("regime_fold_")]
    parts = raw["unique_paragraph_id"].str.split("_", expand=True)
    if parts.shape[1] != 4 or not roles:
        raise DataError(
            "not the table of EyeBench folds",
            source=path,
            expected="unique_paragraph_id such as 2_10_Adv_3, and columns regime_fold_0, ...",
            found=", ".join(raw.columns),
        )
    paragraph = parts[0] + "_" + parts[1] + "_" + parts[3] + "_" + parts[2]
    repeated = as_number(raw["repeated_reading_trial"], "repeated_reading_trial", path)
    flag = repeated.astype("Int64").astype("str")
    trial = raw["participant_id"] + "_" + paragraph + "_r" + flag
    correct_answer = as_truth(raw["is_correct"], "is_correct", path)
    tables = []
    for role in roles:
        part = raw[role].str.split("_", n=1, expand=True)
        tables.append(
            pd.DataFrame(
                {
                    "fold": role.removeprefix("regime_fold_"),
                    "trial": trial,
                    "part": part[0],
                    "regime": part[1].map(REGIMES),
                    "is_correct": correct_answer,
                }
            )
        )
    return pd.concat(tables, ignore_index=True)[[*FOLDS, "is_correct"]]
