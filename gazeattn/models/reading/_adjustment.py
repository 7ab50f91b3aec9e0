"""What a text does to a reading, taken away: what is left is about the reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gazeattn.datamodules.reading import ReadingTrials
from gazeattn.datamodules.reading_features import Array
from gazeattn.errors import DataError

FACTS = ("log_words", "length", "rarity", "log_words_squared")
RIDGE = 1.0
"""Shrinkage of the slopes, in trials."""


def text_facts(trials: ReadingTrials) -> Array:
    """Return what is known of the text of each trial before anybody reads it, (n, len(FACTS)).

    Number of words (logarithm, and its square), mean length and mean rarity of the words; the
    mean over all texts stands in where one is missing.
    """
    found = {}
    for name, text in trials.texts.items():
        n = len(text.words)
        means = [_mean(text.features[:, k]) for k in (0, 1)]
        size = np.log(n) if n else np.nan
        found[name] = [size, *means, size**2]
    rows = np.array([found[t] for t in trials.table["text"]], dtype=np.float64)
    rows = rows.reshape(len(trials), len(FACTS))
    for column in rows.T:
        there = ~np.isnan(column)
        column[~there] = column[there].mean() if there.any() else 0.0
    return rows


def _mean(values: Array) -> float:
    there = ~np.isnan(values)
    return float(values[there].mean()) if there.any() else float("nan")


def text_names(trials: ReadingTrials) -> NDArray[np.object_]:
    """Return what counts as the same text, (n,): the stimulus, however it was laid out."""
    column = "stimulus" if "stimulus" in trials.table else "text"
    return trials.table[column].astype("str").to_numpy(dtype=object)


@dataclass(frozen=True)
class TextAdjustment:
    """Removes from each column what training readers have in common on a text.

    A linear function of `text_facts` is taken away, then, for texts of the training part, the
    mean of what is left, shrunk towards 0 by `shrinkage` trials: a text that few have read says
    little. Texts that are new keep the first part alone.

    Attributes
    ----------
    centre, scale : ndarray, shape (len(FACTS),)
        Of the facts.
    slopes : ndarray, shape (len(FACTS) + 1, k)
        The last row is the level.
    texts : ndarray of str, shape (n_texts,)
    effects : ndarray, shape (n_texts, k)
    """

    centre: Array
    scale: Array
    slopes: Array
    texts: NDArray[Any]
    effects: Array

    @classmethod
    def fit(
        cls, x: Array, facts: Array, texts: NDArray[Any], shrinkage: float = 5.0
    ) -> TextAdjustment:
        """Fit on training rows."""
        centre = facts.mean(axis=0)
        spread = facts.std(axis=0)
        scale = np.where(spread > 1e-9, spread, 1.0)
        design = _design(facts, centre, scale)
        penalty = np.diag([RIDGE] * len(FACTS) + [1e-9])
        slopes = np.linalg.solve(design.T @ design + penalty, design.T @ x)
        left = x - design @ slopes
        names, code = np.unique(texts.astype(str), return_inverse=True)
        sums: Array = np.zeros((len(names), x.shape[1]))
        np.add.at(sums, code, left)
        counts = np.bincount(code, minlength=len(names))
        effects = sums / (counts + shrinkage)[:, None]
        return cls(centre, scale, np.asarray(slopes, np.float64), names, effects)

    def apply(self, x: Array, facts: Array, texts: NDArray[Any]) -> Array:
        """Return rows without what their text does, (n, k)."""
        out = x - _design(facts, self.centre, self.scale) @ self.slopes
        names = texts.astype(str)
        at = np.searchsorted(self.texts, names)
        at = np.minimum(at, max(len(self.texts) - 1, 0))
        known = self.texts[at] == names if len(self.texts) else np.zeros(len(names), dtype=bool)
        out[known] -= self.effects[at[known]]
        return np.asarray(out)

    def plain(self) -> dict[str, Any]:
        """Return the arrays by name."""
        return {"centre": self.centre, "scale": self.scale, "slopes": self.slopes,
                "texts": self.texts, "effects": self.effects}  # fmt: skip

    @classmethod
    def from_plain(cls, content: Mapping[str, Any], width: int, source: object) -> TextAdjustment:
        """Return what `plain` gave.

        Raises
        ------
        DataError
            The arrays do not belong to `width` columns.
        """
        made = cls(**{k: np.asarray(content[k]) for k in cls.__dataclass_fields__})
        shapes = (made.slopes.shape, made.effects.shape, made.centre.shape, made.scale.shape)
        k = len(FACTS)
        if shapes != ((k + 1, width), (len(made.texts), width), (k,), (k,)):
            raise DataError("the adjustment for texts is damaged", source=source, found=shapes)
        return made


def _design(facts: Array, centre: Array, scale: Array) -> Array:
    return np.concatenate([(facts - centre) / scale, np.ones((len(facts), 1))], axis=1)
