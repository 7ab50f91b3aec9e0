"""Fitting fixations, words and trials of separate files together, with a count of what does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from gazeattn.columns import plain
from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.runs import factorize_runs, runs_of
from gazeattn.tables import TRIALS

TRIAL_COLUMNS = {k: TRIALS[k] for k in ("layout", "condition", "question")}
"""Columns of a trial that may stand in the fixation file."""

NO_WORD = {".", "na", "nan", "none", "null"}
"""Marks in a column of word ids (case ignored) for "on no word", unless a word has that id."""


def is_in(values: pd.Series, others: Iterable[object]) -> pd.Series:
    """Return whether each value is among `others`; missing values are not.

    Long columns of ids repeat few values: each distinct one is looked up once.
    """
    runs = runs_of(values)
    known = set(runs_of(others).uniques.tolist() if isinstance(others, pd.Series) else others)
    hits = np.array([v in known for v in runs.uniques.tolist()] + [False])  # missing: code -1
    return pd.Series(runs.spread(hits[runs.codes]), index=values.index)


def first_rows(values: pd.Series) -> np.ndarray:
    """Return the position of the first row of each distinct value, in order of appearance."""
    return runs_of(values).first_rows()


def unique_trials(
    f: pd.DataFrame, frames: Mapping[str, pd.DataFrame], lost: LossLog, names: Mapping[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Fill ids of fixations from the trial file; join reader and trial where ids are shared."""
    t = frames.get("trials")
    w = frames["words"]
    if "trial" not in f or (t is not None and "trial" not in t):
        return f, t  # the schema checks name the missing column
    if "participant" in f:
        codes, _ = factorize_runs(f["trial"])
        people, _ = factorize_runs(f["participant"])
        expected = np.r_[people[first_rows(f["trial"])], -1][codes]
        if (
            not np.array_equal(people, expected)
            and ((people != expected) & (people >= 0) & (expected >= 0)).any()
        ):
            f["trial_label"] = f["trial"]
            f["trial"] = _joined(f)
            ids = runs_of(f["trial"]).uniques
            for other in (t, w):
                if other is not None and {"participant", "trial"} <= set(other):
                    other["trial"] = _joined(other)
            lost.add(
                "trials",
                "repaired",
                "trial ids that several participants share: now participant:trial",
                len(ids),
                "trials",
                ids,
            )
    facts = None
    if t is not None:
        facts = t
    elif "stimulus" not in f and {"trial", "stimulus"} <= set(w):
        facts = w[["trial", "stimulus"]].drop_duplicates()
    if facts is not None and not facts["trial"].duplicated().any():
        by_trial = facts.set_index("trial")
        for column in ("participant", "stimulus"):
            if column not in f and column in by_trial:
                f[column] = f["trial"].map(by_trial[column])
    return f, t


def _joined(frame: pd.DataFrame) -> pd.Series:
    rows = np.union1d(runs_of(frame["participant"]).starts, runs_of(frame["trial"]).starts)
    heads = frame.iloc[rows]  # neither id changes in between
    names = heads["participant"].astype("str") + ":" + heads["trial"].astype("str")
    sizes = np.diff(np.r_[rows, len(frame)])
    return pd.Series(names.array.take(np.repeat(np.arange(len(rows)), sizes)), index=frame.index)


def match_trials(
    f: pd.DataFrame, t: pd.DataFrame | None, lost: LossLog, names: Mapping[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the trial table and the fixations that belong to one of its trials."""
    ids = [c for c in ("participant", "trial", "stimulus") if c in f]
    if t is None:
        facts = [*ids, *(c for c in (*TRIAL_COLUMNS, "trial_label") if c in f)]
        if "trial" not in f:
            return f[facts], f
        heads = f.iloc[first_rows(f["trial"])][facts]
        return heads.dropna(subset=ids).reset_index(drop=True), f
    if "trial" not in f or "trial" not in t:
        return t, f
    known = is_in(f["trial"], t["trial"])
    if not known.any():
        raise DataError(
            f"0 of {len(f)} rows valid: no fixation belongs to a trial of {names['trials']}",
            source=names["fixations"],
            expected=f"trials such as {plain(t['trial'].iloc[0])}",
            found=f"trials such as {plain(f['trial'].iloc[0])}",
        )
    if not known.all():
        lost.add(
            "fixations",
            "dropped",
            f"their trial is not in {names['trials']}",
            int((~known).sum()),
            examples=f.loc[~known, "trial"].unique(),
        )
        f = f[known].reset_index(drop=True)
    by_trial = t.drop_duplicates("trial").set_index("trial")
    for column in ("participant", "stimulus"):
        if column in f and column in t:
            other = f["trial"].map(by_trial[column])
            differs = (f[column] != other) & f[column].notna() & other.notna()
            if differs.any():
                row = int(np.flatnonzero(differs)[0])
                raise DataError(
                    f"fixations and trials name different {column}s for one trial",
                    source=names["fixations"],
                    expected=f"{plain(other.iloc[row])} as in {names['trials']}",
                    found=f"{plain(f[column].iloc[row])} in trial {plain(f['trial'].iloc[row])}; "
                    f"{f.loc[differs, 'trial'].nunique()} such trials",
                )
        elif column in f and column not in t:
            heads = f.iloc[first_rows(f["trial"])].set_index("trial")
            t[column] = t["trial"].map(heads[column])
    return t, f


def key_words(
    w: pd.DataFrame, f: pd.DataFrame, t: pd.DataFrame, names: Mapping[str, str]
) -> pd.DataFrame:
    """Give words keyed by trial or layout alone the stimulus of the trials that show them."""
    if "stimulus" in w:
        return w
    for key in ("layout", "trial"):
        if key not in w or "stimulus" not in t:
            continue
        column = _key_column(t, w, key)
        if column is None:
            continue
        shown = t.dropna(subset=[column]).drop_duplicates(column).set_index(column)["stimulus"]
        w = w.copy()
        w["stimulus"] = w[key].map(shown)
        unseen = w["stimulus"].isna() & w[key].notna()
        w.loc[unseen, "stimulus"] = w.loc[unseen, key]  # nobody read it: counted as not shown
        return w
    return w


def _key_column(t: pd.DataFrame, w: pd.DataFrame, key: str) -> str | None:
    """Return the trial column whose values are the words' keys."""
    candidates = [c for c in ([key] if key == "layout" else ["trial", "trial_label"]) if c in t]
    hits = {c: int(is_in(t[c], w[key]).sum()) for c in candidates}
    return max(hits, key=lambda c: hits[c]) if hits else None


def trial_layouts(t: pd.DataFrame, w: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Say for each trial which layout it showed."""
    t = t.copy()
    if "layout" not in t or t["layout"].isna().all():
        if "trial" in w and "trial" in t:
            column = _key_column(t, w, "trial")
            t["layout"] = t[column] if column else t["trial"]
        elif "stimulus" in t:
            per_text = w[["stimulus", "layout"]].drop_duplicates()
            several = per_text["stimulus"].duplicated()
            if several.any():
                raise DataError(
                    "a stimulus has several layouts, and the trials do not say which was shown",
                    source=names.get("trials", names["fixations"]),
                    expected="a column layout",
                    found=f"stimulus {plain(per_text.loc[several, 'stimulus'].iloc[0])}",
                )
            by_text = per_text.set_index("stimulus")["layout"]
            t["layout"] = t["stimulus"].map(by_text).fillna(t["stimulus"])
    return t.drop(columns=["trial_label"], errors="ignore")


def with_words(
    f: pd.DataFrame,
    t: pd.DataFrame,
    w: pd.DataFrame,
    lost: LossLog,
    names: Mapping[str, str],
) -> pd.DataFrame:
    """Keep the fixations of trials whose words are known; count the others."""
    f = f.drop(columns=["trial_label"], errors="ignore")
    if "trial" not in f:
        return f
    wordless = t.loc[~is_in(t["layout"], w["layout"])]
    if not len(wordless):
        return f
    gone = is_in(f["trial"], wordless["trial"])
    if gone.all():
        raise DataError(
            f"0 of {len(f)} rows valid: no fixated stimulus has words in {names['words']}",
            source=names["fixations"],
            expected=f"a stimulus such as {plain(w['layout'].iloc[0])}",
            found=f"stimuli such as {plain(wordless['layout'].iloc[0])}",
            hint="Ids are compared as text: '007' is not '7'",
        )
    lost.add(
        "fixations",
        "dropped",
        f"their stimulus has no words in {names['words']}",
        int(gone.sum()),
        examples=wordless["layout"].unique(),
    )
    lost.add(
        "trials",
        "undefined",
        f"their stimulus has no words in {names['words']}",
        len(wordless),
        "trials",
        wordless["trial"],
    )
    return f[~gone] if gone.any() else f


def known_words(
    f: pd.DataFrame, w: pd.DataFrame, t: pd.DataFrame, lost: LossLog, names: Mapping[str, str]
) -> pd.DataFrame:
    """Set word ids that the layout does not have to missing, and count them."""
    codes, ids = pd.factorize(f["word"])
    of_word, layouts = factorize_runs(w["layout"])
    shown = np.append(layouts.get_indexer(pd.Index(t["layout"])), -1)  # -1: no such trial
    trials = runs_of(f["trial"])
    at = np.append(pd.Index(t["trial"]).get_indexer(trials.uniques), -1)[trials.codes]
    layout = trials.spread(shown[at])
    # words as pairs of the numbers that layouts and ids have
    of_id = pd.Index(ids).get_indexer(pd.Index(w["word"]))
    width = len(ids) + 1
    there = (of_word * width + of_id)[of_id >= 0]
    given = codes >= 0
    known = given & (layout >= 0) & np.isin(layout * width + codes, there)
    folded = np.array([str(v).casefold() in NO_WORD for v in ids] + [False])
    mark = folded[codes] & ~known
    unknown = given & ~known & ~mark
    if unknown.any() and not known.any():
        raise DataError(
            f"0 of {int(unknown.sum())} word ids of the fixations are in the words table",
            source=names["fixations"],
            expected=f"ids such as {', '.join(map(repr, w['word'].head(3)))}",
            found=", ".join(map(repr, f.loc[unknown, "word"].unique()[:3])),
            hint="Ids are compared as text: '007' is not '7'",
        )
    lost.add(
        "fixations",
        "undefined",
        "word id is not in the words of the layout: counted on no word",
        int(unknown.sum()),
        examples=f["word"][unknown].unique() if unknown.any() else (),
    )
    lost.add("fixations", "note", "marked as on no word", int(mark.sum()))
    if not known[given].all():
        f["word"] = pd.Series(ids, dtype="str").array.take(
            np.where(known, codes, -1), allow_fill=True
        )
    return f
