"""Attention as weights over units, whether people or models paid it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from gazeattn.errors import DataError

Kind = Literal["human", "model", "baseline"]


@dataclass(frozen=True)
class Units:
    """The things that attention is paid to, in order.

    Attributes
    ----------
    ids : tuple of str
        Stable, unique ids (word ids of the corpus, token ids, object ids).
    texts : tuple of str
        What stands there; one text per id.
    stimulus : str
        The stimulus that the units belong to.
    kind : str
        ``"word"``, ``"token"``, ``"object"`` or ``"pixel"``.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    stimulus: str = ""
    kind: str = "word"

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.texts):
            raise DataError(
                "one text per unit is needed",
                source=self.stimulus or None,
                expected=f"{len(self.ids)} texts",
                found=len(self.texts),
            )
        if len(set(self.ids)) != len(self.ids):
            seen: set[str] = set()
            twice = next(i for i in self.ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
            raise DataError("unit ids repeat", source=self.stimulus or None, found=repr(twice))

    @classmethod
    def from_words(cls, words: Iterable[str], stimulus: str = "") -> Units:
        """Number plain words from 0."""
        texts = tuple(str(w) for w in words)
        return cls(tuple(str(i) for i in range(len(texts))), texts, stimulus)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def key(self) -> str:
        """A short content hash: equal texts in equal order give equal keys."""
        joined = "\x1f".join((self.kind, *self.texts)).encode("utf-8", "surrogatepass")
        return hashlib.sha256(joined).hexdigest()[:16]


@dataclass(frozen=True)
class AttentionProfile:
    """Weights over units, with how they were made and what was left out.

    Attributes
    ----------
    units : Units
    weights : ndarray, shape (n_units,), float64
        NaN where the unit has no score; missing is never 0.
    kind : {"human", "model", "baseline"}
    name : str
        Measure, method or baseline, e.g. ``"gaze_duration"`` or ``"rollout"``.
    how : dict
        Every convention that the numbers depend on.
    lost : dict
        Mass on excluded tokens, units without a score, and the like.
    heads : ndarray, shape (n_layers, n_heads, n_units), float32, or None
        Per-layer and per-head weights of a model profile. Methods without heads use
        ``n_heads == 1``.
    """

    units: Units
    weights: np.ndarray
    kind: Kind
    name: str
    how: dict[str, Any] = field(default_factory=dict)
    lost: dict[str, Any] = field(default_factory=dict)
    heads: np.ndarray | None = None

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.shape != (len(self.units),):
            raise DataError(
                f"profile {self.name!r} needs one weight per unit",
                source=self.units.stimulus or None,
                expected=f"shape ({len(self.units)},)",
                found=f"shape {weights.shape}",
            )
        object.__setattr__(self, "weights", weights)
        if self.heads is not None:
            heads = np.asarray(self.heads, dtype=np.float32)
            if heads.ndim != 3 or heads.shape[-1] != len(self.units):
                raise DataError(
                    f"per-head weights of {self.name!r} have the wrong shape",
                    expected=f"(layers, heads, {len(self.units)})",
                    found=heads.shape,
                )
            object.__setattr__(self, "heads", heads)

    @property
    def n_missing(self) -> int:
        """Number of units without a score."""
        return int(np.isnan(self.weights).sum())

    def normalised(self) -> AttentionProfile:
        """Return the profile divided by its sum over scored units.

        A profile with a sum that is 0 or negative keeps its weights as NaN: shares of nothing
        are undefined.
        """
        total = np.nansum(self.weights)
        weights = self.weights / total if total > 0 else np.full_like(self.weights, np.nan)
        return replace(self, weights=weights, how={**self.how, "normalised": "sum"})

    def to_frame(self) -> pd.DataFrame:
        """Return one row per unit: ``stimulus, kind, name, index, unit, text, weight``."""
        return pd.DataFrame(
            {
                "stimulus": self.units.stimulus,
                "kind": self.kind,
                "name": self.name,
                "index": np.arange(len(self.units)),
                "unit": list(self.units.ids),
                "text": list(self.units.texts),
                "weight": self.weights,
            }
        )


def same_units(profiles: Sequence[AttentionProfile]) -> Units:
    """Return the common units of the profiles, or raise at the first that differs."""
    if not profiles:
        raise DataError("no profiles given")
    first = profiles[0].units
    for p in profiles[1:]:
        if p.units.texts == first.texts:
            continue
        n = min(len(first), len(p.units))
        at = next((i for i in range(n) if first.texts[i] != p.units.texts[i]), n)
        raise DataError(
            f"profiles {profiles[0].name!r} and {p.name!r} have different units",
            row=at,
            expected=repr(first.texts[at]) if at < len(first) else "no further unit",
            found=repr(p.units.texts[at]) if at < len(p.units) else "no further unit",
        )
    return first
