"""Reading Brain: science articles read sentence by sentence in the scanner, with eye tracking.

Li & Clariana (2019), Reading comprehension in L1 and L2: An integrative approach, Journal of
Neurolinguistics 50, 94-105. Hsu, Clariana, Schloss & Li (2019), Neurocognitive signatures of
naturalistic reading of scientific texts, Scientific Reports 9, 10678.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from gazeattn.columns import as_number
from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, missing_message, register_corpus
from gazeattn.datasets.corpusfiles import find_files, text_table
from gazeattn.datasets.parts import build
from gazeattn.datasets.wordlevel import as_word, choice, known_words, texts_of, word_table
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.tables import LossLog

GROUPS = {"L1": "ds003974", "L2": "ds003988"}
"""Group of readers to the accession number of its data set."""

MISSING = ("n/a", ".", "UNDEFINEDnull", "")
_NEEDED = [
    *("onset", "duration", "Words", "CURRENT_FIX_INTEREST_AREA_ID"),
    *("CURRENT_FIX_START", "SentenceID", "SentenceRT"),
]


@register_corpus("reading_brain")
def load(folder: Path, page: Corpus, group: str | None = None) -> GazeDataset:
    """Load Reading Brain; a trial is one reader and one sentence, ``L1_sub-01_t.03.01``.

    Parameters
    ----------
    group
        ``"L1"`` (native adults, ds003974) or ``"L2"`` (learners, ds003988); by default those that
        are there, each in a folder of that name. Both count their readers from ``sub-01``, so
        that the group is part of the id.

    Notes
    -----
    Times are milliseconds, although BIDS asks for seconds: ``onset`` within the sentence,
    ``onset_in_run`` within the run. There is no x, y. Words are the interest areas, numbered from
    1: only those that someone fixated are known. ``article`` of the trials groups the sentences
    of one text, which a split by text should keep together (``item="article"``).
    """
    lost = LossLog()
    asked = list(GROUPS) if group is None else [choice(group, GROUPS, "group")]
    tables = []
    for name in asked:
        pattern = f"{GROUPS[name]}/sub-{{reader}}/func/sub-{{reader}}_task-read_run-{{run}}"
        for path in find_files(folder, f"{pattern}_events.tsv"):
            table = text_table(path, separator="\t", quote=None, needs=_NEEDED)
            reader, _, rest = path.name.partition("_task-read_run-")
            run = rest.partition("_")[0]
            tables.append(
                table[_NEEDED].assign(participant=f"{name}_{reader}", run=run, group=name)
            )
    if not tables:
        raise MissingAssetError(missing_message(page, folder))
    raw = pd.concat(tables, ignore_index=True)
    outside = raw["SentenceID"].isin(MISSING)
    if outside.all():
        raise DataError(f"0 of {len(raw)} rows valid: none is of a sentence", source=folder)
    reason = "between two sentences: of no trial"
    lost.add("fixations", "dropped", reason, int(outside.sum()))
    n_rows = len(raw)
    raw = raw[~outside].reset_index(drop=True)
    area = _number(raw["CURRENT_FIX_INTEREST_AREA_ID"], folder)
    fixations = pd.DataFrame(
        {
            "participant": raw["participant"],
            "trial": raw["participant"] + "_" + raw["SentenceID"],
            "stimulus": raw["SentenceID"],
            "onset": _number(raw["CURRENT_FIX_START"], folder),
            "duration": _number(raw["duration"], folder),
            "word": as_word(area),
            "onset_in_run": _number(raw["onset"], folder),
        }
    )
    again = raw.assign(trial=fixations["trial"]).groupby("trial")["run"].nunique()
    twice = again.index[again > 1]
    reason = "a sentence that a reader read in two runs: the first one"
    first = raw["run"] == raw.groupby(fixations["trial"])["run"].transform("first")
    lost.add("fixations", "dropped", reason, int((~first).sum()), examples=twice)
    text = raw["Words"].where(~raw["Words"].isin(MISSING))
    rows = fixations[["stimulus", "trial"]].assign(number=area.astype("Int64"), text=text)
    keep = first.to_numpy()
    words = word_table(rows[keep], lost, whole=False)
    fixations = known_words(fixations[keep].reset_index(drop=True), words, lost)
    raw = raw[keep].reset_index(drop=True)
    fixations["index"] = fixations.groupby("trial", sort=False).cumcount()
    back = fixations.groupby("trial", sort=False)["onset"].diff() < 0
    reason = "start before the fixation before them: in the order of the file"
    lost.add("fixations", "note", reason, int(back.sum()), examples=fixations["trial"][back])
    trials = fixations[["participant", "trial", "stimulus"]].assign(
        group=raw["group"],
        article=raw["SentenceID"].str.split(".").str[1],
        run=raw["run"],
        reading_time_ms=_number(raw["SentenceRT"], folder),
        condition="reading for comprehension",
    )
    trials = trials.drop_duplicates("trial").reset_index(drop=True)
    groups = sorted(set(trials["group"]))
    return build(
        page,
        fixations,
        words,
        trials,
        units="words",
        stimuli=texts_of(words),
        lost=lost,
        edition="both groups" if len(groups) > 1 else groups[0],
        counts={
            "fixations_in_all": n_rows,
            "articles": int(trials["article"].nunique()),
            **{
                f"participants_{g}": int(trials["participant"][trials["group"] == g].nunique())
                for g in GROUPS
            },
        },
    )


def _number(values: pd.Series, source: Path) -> pd.Series:
    return as_number(values.mask(values.isin(MISSING)), str(values.name), source, 2)
