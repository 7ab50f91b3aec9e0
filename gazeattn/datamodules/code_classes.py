"""Looks at code by the kind of token, for corpora with and without the code itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gazeattn.datasets import GazeDataset
from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.reading.areas import map_to_words
from gazeattn.stimuli.code import ROLES, tokenize
from gazeattn.stimuli.syntax import LEXEMES, PUNCTUATION

Floats = NDArray[np.float64]
Names = NDArray[np.str_]
STEP = "code classes"
SESSIONS = {"reading": "reading", "code reading": "reading", "writing": "writing",
            "code summarisation": "writing"}  # fmt: skip
"""What people did, by the condition of a trial; who writes a summary reads in between."""

KEYWORDS: Mapping[str, frozenset[str]] = {
    "java": frozenset(
        "abstract assert boolean break byte case catch char class continue default do double else "
        "enum extends final finally float for goto if implements import instanceof int interface "
        "long native new package private protected public return short static strictfp super "
        "switch synchronized this throw throws transient try void volatile while".split()
    ),
    "python": frozenset(
        "and as assert async await break class continue def del elif else except finally for from "
        "global if import in is lambda nonlocal not or pass raise return try while with "
        "yield".split()
    ),
}
ENTITY = re.compile(r"&?(?:lt|gt|amp|quot);?")
LITERALS = frozenset({"null", "true", "false", "True", "False", "None"})
COMMENT = ("//", "/*", "*/", "#")


@dataclass(frozen=True)
class TokenLooks:
    """Which kinds of tokens one person looked at in one piece of code, in order.

    Attributes
    ----------
    participant, trial, stimulus : str
    session : str
        ``reading`` or ``writing``.
    token : ndarray of str, shape (k,)
        Id of the token of each look, ``kind`` (k,) its class, ``duration`` (k,) milliseconds.
    kind : ndarray of str, shape (k,)
    duration : ndarray, shape (k,)
    there : dict of str to int
        Tokens of each class that could be looked at.
    whole : bool
        Whether `there` counts all tokens of the code; else only those that somebody looked at,
        so that coverage is too high.
    """

    participant: str
    trial: str
    stimulus: str
    session: str
    token: Names
    kind: Names
    duration: Floats
    there: dict[str, int] = field(default_factory=dict)
    whole: bool = False


def class_of_text(text: str, language: str) -> str:
    """Return the class of a token that is known by its text alone: that of its first lexeme.

    Words of comments cannot be told from names. Rests of HTML entities (``lt;``, ``&gt``) are
    operators.

    Parameters
    ----------
    text
    language
        ``java`` or ``python``; names in other languages are never keywords.
    """
    bare = text.strip()
    if ENTITY.fullmatch(bare) or re.match(r"(?:lt|gt|amp);", bare):
        return "operator"
    if bare.startswith(COMMENT):
        return "comment"
    found = LEXEMES.match(bare)
    if found is None:
        raise DataError("a token has no text", found=repr(text))
    kind, first = str(found.lastgroup), found.group()
    if kind == "identifier":
        if first in LITERALS:
            return "literal"
        return "keyword" if first in KEYWORDS.get(language, ()) else kind
    if first[0] in "\"'":
        return "string"
    if kind == "operator" and first[0] in PUNCTUATION:
        return "punctuation"
    return kind


def classes_of_pieces(source: str, language: str, starts: Sequence[int]) -> Names:
    """Return the class of the leaf of the syntax tree that holds each character."""
    leaves = tokenize(source, language)
    first, last = leaves["start"].to_numpy(np.int64), leaves["end"].to_numpy(np.int64)
    at = np.searchsorted(first, np.asarray(starts, dtype=np.int64), "right") - 1
    inside = (at >= 0) & (np.asarray(starts) < last[at.clip(0)])
    if not inside.all():
        raise DataError("a piece of code begins off all tokens", source=language,
                        row=int(np.flatnonzero(~inside)[0]))  # fmt: skip
    return leaves["role"].to_numpy(dtype="U16")[at]


def class_table(dataset: GazeDataset, lost: LossLog | None = None) -> pd.DataFrame:
    """Return ``stimulus, word, kind, whole`` of the words of a data set of code.

    Kinds come from the syntax tree where the stimulus has its source and the words are all of
    it, from the text of the word where not; how many is counted.
    """
    from gazeattn.datamodules.code_gaze import spans_of

    lost = LossLog() if lost is None else lost
    parts = []
    alone = 0
    for name, rows in tokens_of(dataset).groupby("stimulus", sort=True):
        facts = dataset.stimuli.get(str(name), {})
        language = str(facts.get("language") or dataset.info.get("language") or "")
        mine = rows.sort_values("index")
        texts = mine["text"].astype(str).tolist()
        source = facts.get("text")
        if source:
            starts = spans_of(str(source), texts, str(name))[:, 0]
            kind = classes_of_pieces(str(source), language, starts.tolist())
        else:
            kind = np.array([class_of_text(t, language) for t in texts], dtype="U16")
            alone += len(texts)
        boxes = "left" in mine and bool(mine["left"].notna().any())
        parts.append(pd.DataFrame({"stimulus": str(name), "word": mine["word"].astype(str),
                                   "kind": kind, "whole": bool(source) or boxes}))  # fmt: skip
    reason = "class told from the text of the token alone: words of comments count as names"
    lost.add(STEP, "note", reason, alone, "tokens")
    return pd.concat(parts, ignore_index=True)


def tokens_of(dataset: GazeDataset) -> pd.DataFrame:
    """Return the tokens of the code of a data set: ``stimulus, word, text, index`` and the rest.

    Where the code itself is not published they are those that somebody looked at, from the columns
    ``word`` and ``token`` of the fixations (``call_graph_attention``).

    Raises
    ------
    DataError
        The data set has no tokens of code.
    """
    if len(dataset.words) and "stimulus" in dataset.words:
        return dataset.words
    fixations = dataset.fixations
    if not {"word", "token"} <= set(fixations) or not fixations["word"].notna().any():
        raise DataError(f"data set {dataset.name!r} has no tokens of code",
                        hint="such as programmer_scanpaths")  # fmt: skip
    seen = fixations.loc[fixations["word"].notna(), ["stimulus", "word", "token"]]
    seen = seen.drop_duplicates(["stimulus", "word"]).rename(columns={"token": "text"})
    return seen.assign(index=seen.groupby("stimulus").cumcount()).reset_index(drop=True)


def token_looks(
    dataset: GazeDataset,
    lost: LossLog | None = None,
    *,
    session: str = "reading",
    longest: float | None = None,
) -> list[TokenLooks]:
    """Return the looks of each trial at tokens of code, in the order of the trials.

    Parameters
    ----------
    dataset
        Of fixations on words, or of positions and words with boxes (such as ``emip``).
    lost
        Receives the counts: fixations off the tokens, without or with too long a duration,
        trials with none.
    session
        Of trials whose condition does not say what people did.
    longest
        Milliseconds beyond which a look is left out (it holds a pause); None keeps all.
    """
    lost = LossLog() if lost is None else lost
    classes = class_table(dataset, lost)
    fixations = dataset.fixations
    if "word" not in fixations:
        fixations, log = map_to_words(fixations, dataset.words, dataset.trials)
        lost.extend(log)
    off = fixations["word"].isna()
    lost.add(STEP, "dropped", "fixations off the tokens", int(off.sum()), "fixations")
    bad = ~off & ~(fixations["duration"] > 0).fillna(False)
    lost.add(STEP, "dropped", "fixations without a duration", int(bad.sum()), "fixations")
    drop = off | bad
    if longest is not None:
        long = ~drop & (fixations["duration"] > longest)
        reason = f"looks of more than {longest:g} ms"
        lost.add(STEP, "dropped", reason, int(long.sum()), "fixations")
        drop |= long
    looks = fixations.loc[~drop, ["trial", "stimulus", "index", "word", "duration"]]
    looks = looks.astype({"word": "str", "stimulus": "str"}).merge(
        classes, "left", ["stimulus", "word"], validate="m:1"
    )
    unknown = looks["kind"].isna()
    without = classes["stimulus"].unique()
    nowhere = unknown & ~looks["stimulus"].isin(without)
    lost.add(STEP, "dropped", "fixations in code without tokens", int(nowhere.sum()), "fixations")
    if (unknown & ~nowhere).any():
        row = looks[unknown & ~nowhere].iloc[0]
        raise DataError("a fixation is on a word that the code has not", source=row["trial"],
                        found=row["word"])  # fmt: skip
    groups = {
        str(k): rows.sort_values("index")
        for k, rows in looks[~nowhere].groupby("trial", sort=False)
    }
    counts = {
        str(s): {str(k): int(n) for k, n in rows["kind"].value_counts().sort_index().items()}
        for s, rows in classes.groupby("stimulus")
    }
    whole = {str(s): bool(rows["whole"].all()) for s, rows in classes.groupby("stimulus")}
    out, empty = [], []
    for trial in dataset.trials.to_dict("records"):
        name, stimulus = str(trial["trial"]), str(trial["stimulus"])
        if name not in groups:
            empty.append(name)
            continue
        rows = groups[name]
        out.append(
            TokenLooks(
                str(trial["participant"]), name, stimulus,
                SESSIONS.get(str(trial.get("condition")), session),
                rows["word"].to_numpy(dtype=np.str_), rows["kind"].to_numpy(dtype=np.str_),
                rows["duration"].to_numpy(dtype=np.float64), counts[stimulus], whole[stimulus],
            )
        )  # fmt: skip
    lost.add(STEP, "dropped", "trials without a look at a token", len(empty), "trials", empty)
    return out


__all__ = [
    "ROLES",
    "TokenLooks",
    "class_of_text",
    "class_table",
    "classes_of_pieces",
    "token_looks",
]
