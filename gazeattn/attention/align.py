"""Who is compared with whom, on which words: texts, their readers, and the model's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from gazeattn.attention.human import mean_profile
from gazeattn.errors import DataError
from gazeattn.profiles import AttentionProfile, Units


@dataclass(frozen=True)
class HumanSide:
    """One measure of all readings of one text.

    Attributes
    ----------
    trials : ndarray, shape (n_trials, n_words)
        Shares of each trial.
    mean : ndarray, shape (n_words,)
        Mean over readers.
    profiles : tuple of AttentionProfile
        The trials' profiles, then the mean.
    """

    trials: np.ndarray
    mean: np.ndarray
    profiles: tuple[AttentionProfile, ...]


@dataclass(frozen=True)
class Text:
    """The readings that one model profile is compared with.

    Attributes
    ----------
    units : Units
    trial : str
        Name of the text's rows in tables: the layout id, with a number where several groups of
        readings share a layout.
    condition, question : str or None
    trials, participants : tuple of str
    human : dict of measure to HumanSide
    """

    units: Units
    trial: str
    condition: str | None
    question: str | None
    trials: tuple[str, ...]
    participants: tuple[str, ...]
    human: Mapping[str, HumanSide] = field(default_factory=dict)

    @property
    def stimulus(self) -> str:
        """Id of the stimulus."""
        return self.units.stimulus

    @property
    def content(self) -> tuple[str, str]:
        """What the model sees: the words' content key and the question before them."""
        return (self.units.key, self.question or "")


def human_side(profiles: Sequence[AttentionProfile]) -> HumanSide:
    """Arrange the profiles of one measure and text."""
    average = mean_profile(profiles)
    trials = np.stack([p.weights for p in profiles])
    return HumanSide(trials, average.weights, (*profiles, average))


def group_texts(
    profiles: Mapping[str, Sequence[AttentionProfile]],
    trials: pd.DataFrame,
    *,
    question: bool = False,
) -> list[Text]:
    """Group trials that one model profile and one mean over readers can stand for.

    Trials belong together when they show the same stimulus with the same word texts under the
    same condition (and, with `question`, the same question). Layouts may differ.

    Parameters
    ----------
    profiles
        Measure to profiles per trial (`human_profiles`), the same trials for each.
    trials
        Trial table: participant, trial, stimulus, layout and, where present, condition, question.

    Returns
    -------
    list of Text
        Sorted by stimulus, condition, question and word list, so that the order of the input
        does not matter.

    Raises
    ------
    DataError
        A trial with measures is not in the trial table.
    """
    facts = trials.set_index("trial")
    first = next(iter(profiles.values()), ())
    groups: dict[tuple[str, str, str, str], list[tuple[str, str, int]]] = {}
    layouts: dict[str, str] = {}
    for i, p in enumerate(first):
        trial = str(p.how["trial"])
        if trial not in facts.index:
            raise DataError("a trial with measures is not in the trial table", found=repr(trial))
        row = facts.loc[trial]
        layouts[trial] = str(row.get("layout", p.units.stimulus))
        asked = _text(row.get("question")) if question else ""
        key = (p.units.stimulus, _text(row.get("condition")), asked, p.units.key)
        groups.setdefault(key, []).append((str(row["participant"]), trial, i))
    texts, used = [], dict[str, int]()
    for key in sorted(groups):
        members = sorted(groups[key])
        readers = tuple(m[0] for m in members)
        name = min(layouts[m[1]] for m in members)
        used[name] = used.get(name, 0) + 1
        human = {
            measure: human_side([of[i] for _, _, i in members]) for measure, of in profiles.items()
        }
        texts.append(
            Text(
                units=first[members[0][2]].units,
                trial=name if used[name] == 1 else f"{name}#{used[name]}",
                condition=key[1] or None,
                question=key[2] or None,
                trials=tuple(m[1] for m in members),
                participants=readers,
                human=human,
            )
        )
    return texts


def _text(value: object) -> str:
    return "" if value is None or pd.isna(value) else str(value)  # type: ignore[call-overload]


@dataclass(frozen=True)
class ModelRows:
    """All profiles of one text that are compared with people, as rows of one matrix.

    Attributes
    ----------
    methods : tuple of str
        Method or baseline of each row.
    kinds : tuple of str
        ``"model"`` or ``"baseline"``.
    layers, heads : ndarray of int, shape (n_rows,)
        -1 where a row is not of one layer or head.
    weights : ndarray, shape (n_rows, n_words)
    """

    methods: tuple[str, ...]
    kinds: tuple[str, ...]
    layers: np.ndarray
    heads: np.ndarray
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.methods)

    @cached_property
    def index(self) -> tuple[tuple[str, str, int, int], ...]:
        """What identifies the rows, to be equal for every text."""
        parts = (self.methods, self.kinds, self.layers.tolist(), self.heads.tolist())
        return tuple(zip(*parts, strict=True))


def aggregate_rows(profiles: Sequence[AttentionProfile]) -> ModelRows:
    """Stack the own weights of methods and baselines."""
    n = len(profiles)
    width = len(profiles[0].units) if n else 0
    return ModelRows(
        tuple(p.name for p in profiles),
        tuple(p.kind for p in profiles),
        np.full(n, -1),
        np.full(n, -1),
        level_out(np.stack([p.weights for p in profiles]) if n else np.empty((0, width))),
    )


def level_out(rows: np.ndarray, precision: type = np.float32) -> np.ndarray:
    """Make rows that vary by rounding alone exactly constant.

    Models compute in single precision: the ranks of a uniform profile that differs in its last
    bits would be noise. The largest difference that counts as rounding is 8 machine epsilons of
    the largest value.

    Parameters
    ----------
    rows : ndarray, shape (n_rows, n_words)
        NaN stays NaN.
    precision
        Type whose machine epsilon counts.
    """
    if rows.size == 0:
        return rows
    there = ~np.isnan(rows)
    high = np.where(there, rows, -np.inf).max(axis=1)
    low = np.where(there, rows, np.inf).min(axis=1)
    with np.errstate(invalid="ignore"):
        limit = 8 * np.finfo(precision).eps * np.maximum(np.abs(high), np.abs(low))
        flat = np.isfinite(limit) & (high > low) & (high - low <= limit)
    if not flat.any():
        return rows
    rows = rows.copy()
    rows[flat] = np.where(there[flat], high[flat, None], np.nan)
    return rows


def head_rows(profiles: Sequence[AttentionProfile]) -> ModelRows:
    """Stack per-layer means and per-head weights of the methods that have them.

    Each layer gives a row without a head (the mean over its heads that have a value) and, where
    it has more than one head, a row for each head.
    """
    methods: list[str] = []
    kinds: list[str] = []
    layers: list[np.ndarray] = []
    heads: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    for p in profiles:
        if p.heads is None:
            continue
        n_layers, n_heads, n_words = p.heads.shape
        values = p.heads.astype(np.float64)
        there = ~np.isnan(values)
        count = there.sum(axis=1)
        total = np.where(there, values, 0.0).sum(axis=1)
        weights.append(np.where(count > 0, total / np.maximum(count, 1), np.nan))
        layers.append(np.arange(n_layers))
        heads.append(np.full(n_layers, -1))
        if n_heads > 1:
            weights.append(values.reshape(-1, n_words))
            layers.append(np.repeat(np.arange(n_layers), n_heads))
            heads.append(np.tile(np.arange(n_heads), n_layers))
        n = n_layers * (1 + (n_heads if n_heads > 1 else 0))
        methods += [p.name] * n
        kinds += [p.kind] * n
    if not methods:
        width = len(profiles[0].units) if profiles else 0
        none = np.empty(0, dtype=np.int64)
        return ModelRows((), (), none, none, np.empty((0, width)))
    return ModelRows(
        tuple(methods),
        tuple(kinds),
        np.concatenate(layers),
        np.concatenate(heads),
        level_out(np.concatenate(weights)),
    )
