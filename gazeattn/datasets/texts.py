"""Comparing the words of a table with the text they should be, without shifting the rest."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

import pandas as pd


class Pair(NamedTuple):
    """A word of the text beside a word of the table; None where one side has none."""

    text: str | None
    table: str | None
    text_index: int | None
    table_index: int | None

    @property
    def kind(self) -> str:
        """``same``, ``different``, ``missing in table`` or ``missing in text``."""
        if self.text is None:
            return "missing in text"
        if self.table is None:
            return "missing in table"
        return "same" if self.text == self.table else "different"


def align_words(text: Sequence[str], table: Sequence[str]) -> list[Pair]:
    """Pair the words of a text with those of a table, in order.

    Equal stretches are found first. Between them, words are paired one by one where both sides
    have as many; else as many as possible are paired, the most similar ones, and a word without
    partner stands at its place.
    """
    pairs: list[Pair] = []
    matcher = SequenceMatcher(None, text, table, autojunk=False)
    for tag, i0, i1, j0, j1 in matcher.get_opcodes():
        if tag == "equal":
            pairs += [
                Pair(text[i], table[j], i, j)
                for i, j in zip(range(i0, i1), range(j0, j1), strict=True)
            ]
        else:
            pairs += _pair_stretch(text, table, (i0, i1), (j0, j1))
    return pairs


_GAP = 0.6  # two gaps cost more than the worst pair: no more words go missing than must


def _pair_stretch(
    text: Sequence[str], table: Sequence[str], rows: tuple[int, int], columns: tuple[int, int]
) -> list[Pair]:
    (i0, i1), (j0, j1) = rows, columns
    n, m = i1 - i0, j1 - j0
    if n == m:  # as many on both sides: word by word
        return [Pair(text[i0 + k], table[j0 + k], i0 + k, j0 + k) for k in range(n)]
    cost = [[(i + j) * _GAP for j in range(m + 1)] for i in range(n + 1)]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            ratio = SequenceMatcher(None, text[i0 + i - 1], table[j0 + j - 1]).ratio()
            cost[i][j] = min(
                cost[i - 1][j - 1] + 1 - ratio, cost[i - 1][j] + _GAP, cost[i][j - 1] + _GAP
            )
    pairs, i, j = [], n, m
    while i or j:
        if i and (not j or cost[i][j] == cost[i - 1][j] + _GAP):
            i -= 1
            pairs.append(Pair(text[i0 + i], None, i0 + i, None))
        elif j and (not i or cost[i][j] == cost[i][j - 1] + _GAP):
            j -= 1
            pairs.append(Pair(None, table[j0 + j], None, j0 + j))
        else:
            i, j = i - 1, j - 1
            pairs.append(Pair(text[i0 + i], table[j0 + j], i0 + i, j0 + j))
    return pairs[::-1]


def differences(words: pd.DataFrame, texts: dict[str, str]) -> pd.DataFrame:
    """Return the words that differ from the texts: one row each, none where all agree.

    Parameters
    ----------
    words
        A checked word table.
    texts
        Stimulus id to its text; words are what stands between blanks.

    Returns
    -------
    DataFrame
        ``layout, stimulus, kind, text_index, table_index, text, table``.
    """
    columns = ["layout", "stimulus", "kind", "text_index", "table_index", "text", "table"]
    rows = []
    for (layout, stimulus), group in words.groupby(["layout", "stimulus"], sort=True):
        if stimulus not in texts:
            continue
        for pair in align_words(texts[stimulus].split(), group["text"].tolist()):
            if pair.kind != "same":
                rows.append(
                    [layout, stimulus, pair.kind, pair.text_index, pair.table_index, *pair[:2]]
                )
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"text_index": "Int64", "table_index": "Int64"})
