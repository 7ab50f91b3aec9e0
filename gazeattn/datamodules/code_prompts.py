"""Prompts with code in them, as tokens of a language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gazeattn.errors import CapabilityError, DataError

BEFORE = "Summarize what this {language} code does in one sentence.\n\n```{language}\n"
AFTER = "\n```\n\nSummary:"


@dataclass(frozen=True)
class CodePrompt:
    """A prompt with one piece of code.

    Attributes
    ----------
    ids : ndarray of int64, shape (length,)
    code : ndarray of bool, shape (length,)
        Tokens that lie in the code.
    offsets : ndarray of int64, shape (length, 2)
        Characters of each token, counted from the start of the code; (0, 0) off it.
    whole : bool
        Whether all of the code is there.
    """

    ids: NDArray[np.int64]
    code: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    whole: bool

    @property
    def start(self) -> int:
        """Place of the last token of the prompt."""
        return len(self.ids) - 1


def code_prompt(
    tokenizer: Any,
    source: str,
    language: str = "python",
    *,
    longest: int | None = None,
    before: str = BEFORE,
    after: str = AFTER,
) -> CodePrompt:
    """Return the prompt for a piece of code.

    Parameters
    ----------
    tokenizer
        A fast one of Hugging Face, which knows where its tokens stand.
    source
        Trailing white space is left out.
    language
    longest
        Most tokens of code: what is behind them is cut.
    before, after
        Text around the code; ``{language}`` in it is replaced.

    Raises
    ------
    CapabilityError
        The tokenizer does not tell where its tokens stand.
    DataError
        No token lies in the code.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise CapabilityError("the tokenizer does not tell where its tokens stand in the text")
    source = source.rstrip()
    head, tail = (t.replace("{language}", language) for t in (before, after))
    # three texts, so that the code has the same tokens whatever stands around it
    parts = [_tokens(tokenizer, text) for text in (head, source, tail)]
    ids, offsets = parts[1]
    there = offsets[:, 1] > offsets[:, 0]
    whole = longest is None or len(ids) <= longest
    if longest is not None:
        ids, offsets, there = ids[:longest], offsets[:longest], there[:longest]
    if not there.any():
        raise DataError("no token lies in the code", found=repr(source[:40]))
    first, last = len(parts[0][0]), len(parts[2][0])
    code = np.concatenate([np.zeros(first, bool), there, np.zeros(last, bool)])
    none: NDArray[np.int64] = np.zeros((1, 2), dtype=np.int64)
    return CodePrompt(
        np.concatenate([parts[0][0], ids, parts[2][0]]),
        code,
        np.concatenate([none.repeat(first, 0), offsets, none.repeat(last, 0)]),
        whole,
    )


def _tokens(tokenizer: Any, text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    made = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    offsets = np.array(made["offset_mapping"], dtype=np.int64).reshape(-1, 2)
    return np.array(made["input_ids"], dtype=np.int64), offsets
