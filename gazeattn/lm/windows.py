"""Texts longer than a model's context: overlapping windows, cut at words, or a stated cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gazeattn.errors import DataError
from gazeattn.lm.tokens import CONTEXT, GAP, SPECIAL, START, WORD, Encoded

LongText = Literal["window", "error", "cut"]
LONG_TEXT = ("window", "error", "cut")
DEFAULT_OVERLAP = 0.5
"""Share of a window's text tokens that it shares with the window before it."""

MERGE_RULE = (
    "each word is scored in one window, the one in which most text stands before it; the start "
    "token, the other specials and the context are repeated in each window; scores that are "
    "relative to a text (attention received) are relative to the window"
)


@dataclass(frozen=True)
class Plan:
    """How a text is given to the model.

    Attributes
    ----------
    windows : tuple of Encoded
        Word numbers are those of the whole text in every window.
    owner : ndarray, shape (n_words,), int64
        Number of the window that a word's score is taken from; -1 for words without a score.
    how : dict
        Policy, sizes and the merging rule.
    lost : dict
        ``words_cut`` (numbers of words beyond the cut) and ``words_too_long`` (longer than a
        window by themselves), where there are any.
    """

    windows: tuple[Encoded, ...]
    owner: np.ndarray
    how: dict[str, Any]
    lost: dict[str, Any]


def plan_windows(
    encoded: Encoded,
    limit: int | None,
    *,
    long_text: LongText = "window",
    overlap: float = DEFAULT_OVERLAP,
) -> Plan:
    """Split a text that is longer than the context, or leave it whole.

    All windows have about the same length: the last one reaches back further instead of being
    short, so that scores relative to a window are comparable.

    Parameters
    ----------
    encoded
    limit
        Tokens that the model takes, specials and context included; None is no limit.
    long_text
        ``"window"``: overlapping windows. ``"cut"``: the text up to the limit; the other words
        have no score and are named. ``"error"``: raise.
    overlap
        Share of a window's text tokens, from 0 to below 1, that the next window repeats.

    Raises
    ------
    DataError
        The text is too long and `long_text` is ``"error"``, or specials and context alone fill
        the limit.
    """
    if long_text not in LONG_TEXT:
        raise DataError(
            "unknown rule for long texts", expected=" or ".join(LONG_TEXT), found=repr(long_text)
        )
    if not 0 <= overlap < 1:
        raise DataError(
            "the overlap of windows is a share", expected="0 <= overlap < 1", found=overlap
        )
    n = len(encoded)
    if limit is None or n <= limit:
        owner = np.full(encoded.n_words, -1, dtype=np.int64)
        owner[encoded.word_of[encoded.word_of >= 0]] = 0
        return Plan((encoded,), owner, {"windows": 1}, {})
    if long_text == "error":
        raise DataError(
            "the text is longer than the model's context",
            expected=f"at most {limit} tokens",
            found=f"{n} tokens for {encoded.n_words} words",
            hint="Use long_text='window' (overlapping windows) or long_text='cut'",
        )
    before, after = _frame(encoded)
    room = limit - len(before) - len(after)
    if room < 1:
        raise DataError(
            "special tokens and context leave no room for the text",
            expected=f"fewer than {limit} tokens",
            found=f"{len(before) + len(after)} tokens",
            hint="Shorten the context",
        )
    blocks, too_long = _blocks(encoded, room)
    ranges = _ranges([len(b) for b in blocks], room, overlap)
    if long_text == "cut":
        ranges = ranges[:1]
    windows = tuple(encoded.take(np.concatenate([before, *blocks[a:b], after])) for a, b in ranges)
    owner = np.full(encoded.n_words, -1, dtype=np.int64)
    for k in range(len(windows) - 1, -1, -1):  # the earliest window has most text before a word
        inside = windows[k].word_of
        owner[inside[inside >= 0]] = k
    how: dict[str, Any] = {
        "windows": len(windows),
        "long_text": long_text,
        "window_tokens": limit,
        "text_tokens": n,
    }
    if long_text == "window":
        how.update(window_overlap=overlap, window_rule=MERGE_RULE)
    lost: dict[str, Any] = {}
    gone = np.flatnonzero(owner < 0)
    unscored = set(encoded.unscored) | set(too_long)
    cut = [int(w) for w in gone if int(w) not in unscored]
    if cut:
        lost["words_cut"] = cut
    if too_long:
        lost["words_too_long"] = too_long
    return Plan(windows, owner, how, lost)


def _frame(encoded: Encoded) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of what every window repeats, before and after the words."""
    role = encoded.role
    text = np.flatnonzero((role == WORD) | (role == GAP))
    split = int(text[0]) if len(text) else len(role)
    fixed = np.flatnonzero((role == START) | (role == SPECIAL) | (role == CONTEXT))
    return fixed[fixed < split], fixed[fixed > split]


def _blocks(encoded: Encoded, room: int) -> tuple[list[np.ndarray], list[int]]:
    """Return the token positions of each word (a gap goes with the word after it), in order."""
    text = np.flatnonzero((encoded.role == WORD) | (encoded.role == GAP))
    owner = encoded.word_of[text]
    place = np.where(owner >= 0, np.arange(len(owner)), len(owner) - 1)
    filled = owner[np.minimum.accumulate(place[::-1])[::-1]] if len(owner) else owner
    filled = np.where(filled < 0, owner.max(initial=-1), filled)  # gaps at the very end
    edges = np.flatnonzero(np.diff(filled)) + 1
    blocks, too_long = [], []
    for part in np.split(text, edges):
        own = np.flatnonzero(encoded.word_of[part] >= 0)
        if len(part) > room and 0 < len(own) <= room:  # white space gives way to the word
            part = part[max(0, int(own[-1]) + 1 - room) : int(own[-1]) + 1]
        if len(part) <= room:
            blocks.append(part)
        elif len(own):
            too_long.append(int(encoded.word_of[part].max()))
    return blocks, too_long


def _ranges(lengths: Sequence[int], room: int, overlap: float) -> list[tuple[int, int]]:
    """Return first and last (exclusive) block of each window."""
    if not lengths:
        return [(0, 0)]
    sums = np.concatenate(([0], np.cumsum(lengths)))
    total = len(lengths)
    ranges: list[tuple[int, int]] = []
    begin = 0
    while True:
        end = int(np.searchsorted(sums, sums[begin] + room, side="right")) - 1
        if end >= total:  # the last window reaches back as far as there is room
            begin = int(np.searchsorted(sums, sums[total] - room, side="left"))
            ranges.append((begin, total))
            return ranges
        ranges.append((begin, end))
        back = sums[end] - overlap * (sums[end] - sums[begin])
        begin = min(max(begin + 1, int(np.searchsorted(sums, back, side="left"))), end)


def merge_words(parts: Sequence[np.ndarray], owner: np.ndarray) -> np.ndarray:
    """Take each word's value from the window that owns it.

    Parameters
    ----------
    parts
        One array per window, words in the last dimension.
    owner
        See `Plan`.

    Returns
    -------
    ndarray of the same shape as each part; NaN for words that no window owns.
    """
    merged = np.full_like(np.asarray(parts[0]), np.nan)
    for k, part in enumerate(parts):
        merged[..., owner == k] = np.asarray(part)[..., owner == k]
    return merged
