"""Two ways to cut the same text: which piece of one shares characters with which of the other."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np
import pandas as pd

from gazeattn.stimuli.grid import SIDES, box_table
from gazeattn.tables import LossLog

STEP = "alignment"


def align_texts(first: Sequence[str], second: Sequence[str]) -> pd.DataFrame:
    """Pair the pieces of two sequences that share characters; white space does not count.

    Equal texts are paired character by character; where they differ, the longest common runs
    are (`difflib.SequenceMatcher` without its list of junk).

    Returns
    -------
    DataFrame
        One row per pair: ``first``, ``second`` (positions), ``characters`` that they share, and
        ``from_``, ``to``: which share of the second piece's characters the first one takes,
        between 0 and 1.
    """
    a, a_piece, _, _ = _characters(first)
    b, b_piece, b_at, b_size = _characters(second)
    if a == b:
        at_a = at_b = np.arange(len(a))
    else:
        blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
        at_a = np.concatenate([np.arange(m.a, m.a + m.size) for m in blocks])
        at_b = np.concatenate([np.arange(m.b, m.b + m.size) for m in blocks])
    pairs = pd.DataFrame({"first": a_piece[at_a], "second": b_piece[at_b], "at": b_at[at_b]})
    grouped = pairs.groupby(["first", "second"], sort=True)["at"].agg(["size", "min", "max"])
    table = grouped.reset_index().rename(columns={"size": "characters"})
    size = b_size[table["second"].to_numpy(dtype=np.int64)]
    table["from_"], table["to"] = table["min"] / size, (table["max"] + 1) / size
    return table[["first", "second", "characters", "from_", "to"]]


def _characters(pieces: Sequence[str]) -> tuple[str, np.ndarray, np.ndarray, np.ndarray]:
    """Return the characters without white space; piece, place and size of piece of each."""
    bare = ["".join(piece.split()) for piece in pieces]
    sizes = np.array([len(piece) for piece in bare], dtype=np.int64)
    piece = np.repeat(np.arange(len(bare)), sizes)
    at = np.arange(len(piece)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return "".join(bare), piece, at, sizes


def boxes_from_areas(
    tokens: pd.DataFrame, areas: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame, LossLog]:
    """Give tokens boxes out of the drawn areas of the same text.

    An area that holds several tokens is cut from left to right by its number of characters (all
    equally wide, white space left out).

    Parameters
    ----------
    tokens, areas : DataFrame
        Tables of one layout each with ``word``, ``text`` and, of the areas, the four sides, both
        in reading order.

    Returns
    -------
    tokens : DataFrame
        With ``area`` (the area that holds most of it, missing where none does) and the sides of
        the first box.
    boxes : DataFrame
        ``layout, word, part, line, left, top, right, bottom, area``: one row per token and area.
    log : LossLog
        Tokens without an area and areas without a token.
    """
    pairs = align_texts(tokens["text"].tolist(), areas["text"].tolist())
    sides = areas[SIDES].to_numpy(dtype=np.float64)[pairs["second"]]
    width = sides[:, 2] - sides[:, 0]
    left = sides[:, 0] + width * pairs["from_"].to_numpy()
    right = sides[:, 0] + width * pairs["to"].to_numpy()
    words, lines = tokens["word"].to_numpy()[pairs["first"]], tokens["line"].to_numpy()
    part = pairs.groupby("first").cumcount().to_numpy()
    quads = np.c_[left, sides[:, 1], right, sides[:, 3]]
    layout = str(tokens["layout"].iloc[0])
    rows = zip(words, part, lines[pairs["first"]], quads, strict=True)
    boxes = box_table(layout, [(str(w), int(p), n, tuple(q)) for w, p, n, q in rows])
    boxes["area"] = areas["word"].astype("str").array.take(pairs["second"].to_numpy())
    most = pairs.sort_values(["first", "characters"], ascending=[True, False], kind="stable")
    most = most.drop_duplicates("first")
    area = np.full(len(tokens), -1)
    area[most["first"]] = most["second"]
    table = tokens.copy()
    table["area"] = areas["word"].astype("str").array.take(area, allow_fill=True)
    first = boxes.drop_duplicates("word").set_index("word")
    for side in SIDES:
        table[side] = table["word"].map(first[side]).astype("float64")
    table["n_boxes"] = np.bincount(pairs["first"], minlength=len(tokens))
    log = LossLog()
    lone = area < 0
    log.add(STEP, "undefined", "in no area", int(lone.sum()), "tokens", tokens["text"][lone])
    empty = ~np.isin(np.arange(len(areas)), pairs["second"])
    log.add(STEP, "note", "no token in them", int(empty.sum()), "areas", areas["text"][empty])
    return table, boxes, log
