"""Character areas of CopCo: which word each belongs to, and in which of two sets it was drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from gazeattn.columns import as_number
from gazeattn.datasets.corpus import Corpus
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

PRACTICE, TITLE = "1327", "-1"
_SIDES = ("left", "top", "right", "bottom")


def mended(text: str) -> str:
    """Return text that was encoded as UTF-8 twice as it was meant; other text stays as it is.

    Bytes that cp1252 leaves out (0x81, 0x8d, 0x8f, 0x90, 0x9d) stand for themselves.
    """
    try:
        data = b"".join(
            c.encode("latin-1") if "\x80" <= c <= "\x9f" else c.encode("cp1252") for c in text
        )
        return data.decode("utf-8")
    except UnicodeError:
        return text


def characters(
    word_boxes: pd.DataFrame, char_boxes: pd.DataFrame, word_map: pd.DataFrame, folder: Path
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the words of the texts with boxes, and the characters with their words.

    The list of areas per word that is published leaves areas out, so it is not used. A character
    belongs to the word whose box holds it; one that lies in no box (the part of a hyphenated word
    on the next line, of which only the first box is published, or a combining accent) belongs to
    the word of the character before it.

    Returns
    -------
    words : DataFrame
        Columns stimulus, layout, word (from 0 within the paragraph), index, text and box.
    chars : DataFrame
        Columns stimulus, number (from 1), label, word (missing for questions), character (from 0
        within the word), is_question, box.
    """
    words = _boxes(word_boxes, "word_boxes")
    words = words[~words["is_question"]].reset_index(drop=True)
    words["index"] = words.groupby("stimulus").cumcount()
    words["word"] = words["index"].astype("str")
    texts = word_map[(word_map["speechId"] != PRACTICE) & (word_map["paragraphId"] != TITLE)]
    named = pd.Series(
        texts["word"].to_numpy(),
        index=pd.MultiIndex.from_arrays(
            [texts["speechId"] + "_" + texts["paragraphId"], texts["wordId"]]
        ),
    )
    published = named.reindex(pd.MultiIndex.from_frame(words[["stimulus", "word"]])).to_numpy()
    differ = published != words["label"].to_numpy()
    if len(named) != len(words) or differ.any():
        row = int(np.flatnonzero(differ)[0]) if differ.any() else len(words) - 1
        raise DataError(
            "the word boxes and the word map do not hold the same words",
            source=folder / "word_boxes.csv",
            row=f"text {words['stimulus'][row]}, word {words['word'][row]}",
            expected=f"{published[row]!r} ({len(named)} words)",
            found=f"{words['label'][row]!r} ({len(words)} words)",
        )
    words = words.rename(columns={"label": "text"}).assign(layout=words["stimulus"])

    chars = _boxes(char_boxes, "char_boxes")
    chars["row"] = np.arange(len(chars))
    text = chars[~chars["is_question"]]
    pairs = text[["row", "stimulus", *_SIDES]].merge(
        words[["stimulus", "index", *_SIDES]], on=["stimulus", "top"], suffixes=("", "_word")
    )
    within = (pairs["left"] >= pairs["left_word"]) & (pairs["right"] <= pairs["right_word"])
    holder = pairs[within].drop_duplicates("row").set_index("row")["index"]
    index = pd.Series(holder.reindex(chars["row"]).to_numpy(), index=chars.index)
    index = index.groupby(chars["stimulus"]).ffill().mask(chars["is_question"])
    chars["word"] = index.astype("Int64").astype("str").where(index.notna())
    place = chars.groupby(["stimulus", index.fillna(-1)]).cumcount()
    chars["character"] = place.where(index.notna()).astype("Int64")
    return words.drop(columns=["number", "is_question"]), chars.drop(columns="row")


def _boxes(raw: pd.DataFrame, name: str) -> pd.DataFrame:
    raw = raw[(raw["speechId"] != PRACTICE) & (raw["paragraphId"] != TITLE)]
    boxes = pd.DataFrame(
        {
            "stimulus": raw["speechId"] + "_" + raw["paragraphId"],
            "number": as_number(raw["number"], "number", name),
            "label": raw["label"],
            "is_question": raw["is_question"] == "1",
            **{side: as_number(raw[side], side, name) for side in _SIDES},
        }
    )
    # areas of questions appear later, some texts have several: the first of a number counts
    boxes = boxes.sort_values(["stimulus", "number", "is_question"], kind="stable")
    return boxes.drop_duplicates(["stimulus", "number"]).reset_index(drop=True)


def layouts_of(
    words: pd.DataFrame,
    chars: pd.DataFrame,
    fixations: pd.DataFrame,
    page: Corpus,
    lost: LossLog,
) -> tuple[pd.DataFrame, pd.Series]:
    """Give each trial the layout whose areas its report shows.

    Two sets of areas were used. They agree in left and right; in the other set, the first line of
    a text begins lower or the last one ends higher. The rectangle in the row of a fixation is the
    one that was used, so the other set is read off the reports: layout ``#2`` of a text. A trial
    without a fixation on such a line gets the set of most of the reader's other trials.

    Returns
    -------
    words : DataFrame
        With the further layouts.
    layouts : Series
        Layout by trial.
    """
    trials = fixations.drop_duplicates("trial").set_index("trial")[["participant", "stimulus"]]
    keys = pd.MultiIndex.from_arrays([chars["stimulus"], chars["number"]])
    area = as_number(fixations["area"]).fillna(-1)
    at = keys.get_indexer(pd.MultiIndex.from_arrays([fixations["stimulus"], area]))
    seen = (at >= 0) & ~chars["is_question"].to_numpy()[at] & fixations["box_top"].notna()
    rows = fixations.loc[seen, ["trial", "stimulus", "box_top", "box_bottom"]].copy()
    rows["top"] = chars["top"].to_numpy()[at[seen]]
    rows["bottom"] = chars["bottom"].to_numpy()[at[seen]]
    rows["other"] = (rows["box_top"] != rows["top"]) | (rows["box_bottom"] != rows["bottom"])
    lines = rows[rows["other"]].groupby(["stimulus", "top", "box_top", "box_bottom"]).size()
    drawn = lines.rename("n").reset_index().sort_values("n", ascending=False, kind="stable")
    several = drawn.duplicated(["stimulus", "top"])
    lost.add("words", "note", "line drawn in more than two ways", int(several.sum()), "lines")
    drawn = drawn[~several]
    if not len(drawn):
        return words, trials["stimulus"]

    telling = rows.merge(drawn[["stimulus", "top"]], on=["stimulus", "top"])
    share = telling.groupby("trial")["other"].mean()
    mixed = (share > 0) & (share < 1)
    lost.add("words", "note", "areas of both sets in one trial", int(mixed.sum()), "trials")
    trials["other"] = (share > 0.5).reindex(trials.index)
    affected = trials["stimulus"].isin(drawn["stimulus"])
    silent = affected & trials["other"].isna()
    told = trials[~silent & affected]
    habit = told["other"].astype("float64").groupby(told["participant"]).mean() > 0.5
    guess = trials["participant"].map(habit).fillna(False)
    other = trials["other"].where(trials["other"].notna(), guess).astype(bool) & affected
    lost.add(
        "words",
        "note",
        "no fixation shows which areas were used: those of the reader's other trials",
        int(silent.sum()),
        "trials",
        trials.index[silent],
    )
    texts = trials.loc[other, "stimulus"].unique()
    lost.add("words", "note", page.rule("second area set"), len(texts), "texts", texts)
    second = words[words["stimulus"].isin(texts)].merge(
        drawn[["stimulus", "top", "box_top", "box_bottom"]], on=["stimulus", "top"], how="left"
    )
    second["top"] = second["box_top"].fillna(second["top"])
    second["bottom"] = second["box_bottom"].fillna(second["bottom"])
    second["layout"] = second["stimulus"] + "#2"
    layouts = trials["stimulus"].where(~other, trials["stimulus"] + "#2")
    return pd.concat([words, second[words.columns]], ignore_index=True), layouts
