"""What can be said of a word from its letters alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

UNKNOWN = 9.0
"""Rarity of a word that the list does not know: as one in a billion."""


def letter_count(text: str) -> int:
    """Count letters and digits of a word in composed form; punctuation and symbols do not count.

    An accent written as a combining mark is part of its letter.
    """
    return sum(unicodedata.category(c)[0] in "LN" for c in unicodedata.normalize("NFC", text))


def rarity(texts: Sequence[str], language: str = "en") -> tuple[NDArray[np.float64], list[str]]:
    """Return minus log10 of each word's relative frequency, and the words the list lacks.

    Frequencies come from the wordfreq lists (Speer 2022, doi:10.5281/zenodo.7199437), which fold
    case and combine the parts of hyphenated words.

    Returns
    -------
    ndarray, shape (n,)
        Missing for words without letters or digits; `UNKNOWN` for words that the list lacks.
    list of str

    Raises
    ------
    LookupError
        There is no list for the language, nor for one that is near to it (as English to en-GB).
    """
    from wordfreq import zipf_frequency

    values = np.full(len(texts), np.nan)
    unknown: list[str] = []
    for i, text in enumerate(texts):
        if not letter_count(text):
            continue
        try:
            zipf = zipf_frequency(text, language)
        except ValueError as error:  # no language at all, such as that of a program
            raise LookupError(str(error)) from None
        if zipf <= 0:
            unknown.append(text)
        values[i] = UNKNOWN - max(zipf, 0.0)  # zipf is log10 of the frequency per billion words
    return values, unknown
