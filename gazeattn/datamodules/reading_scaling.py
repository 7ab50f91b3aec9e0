"""Features brought to one scale: fitted on training trials alone, and told by a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from gazeattn.datamodules.reading import ReadingTrials
from gazeattn.datamodules.reading_aggregates import aggregates
from gazeattn.datamodules.reading_features import Array, chosen, names_of
from gazeattn.errors import DataError, UnknownNameError

SCOPES = ("fixation", "gaze", "text", "trial")
ROUNDING = 1e-9
"""Values that differ by less than this share of their centre are the same."""


@dataclass(frozen=True)
class FeatureChoice:
    """Which features a model sees.

    Attributes
    ----------
    fixation, gaze, text : tuple of str or None
        Names (`gazeattn.datamodules.reading_features`); None: all of them.
    sets : tuple of str
        Sets of aggregates per trial (`gazeattn.datamodules.reading_aggregates.SETS`).
    squash : bool
        Take the inverse hyperbolic sine of scaled values: as they are near 0, logarithmic far
        out, so that one long fixation does not outweigh the rest. Nothing is cut off.
    flags : bool
        A column of 0 and 1 beside each feature that is missing for some training rows.
    """

    fixation: tuple[str, ...] | None = None
    gaze: tuple[str, ...] | None = None
    text: tuple[str, ...] | None = None
    sets: tuple[str, ...] = ()
    squash: bool = True
    flags: bool = True

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> FeatureChoice:
        """Return a choice from plain lists, as a configuration has them."""
        known = [f.name for f in fields(cls)]
        for key in options:
            if key not in known:
                raise UnknownNameError("choice of features", str(key), known)
        made: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list | tuple) else v for k, v in options.items()
        }
        return cls(**made)


@dataclass(frozen=True)
class Scale:
    """Centre and width of the features of one scope.

    Attributes
    ----------
    names : tuple of str
        Features that are used.
    centre, width : tuple of float
        Median and interquartile range of the training rows (standard deviation where the range
        is 0, 1 where that is 0 as well).
    flagged : tuple of str
        Features with a column that says where they are missing.
    absent : tuple of str
        Features that were wanted, and are missing in all training rows: not used.
    """

    names: tuple[str, ...]
    centre: tuple[float, ...]
    width: tuple[float, ...]
    flagged: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @classmethod
    def fit(cls, values: Array, names: Sequence[str], flags: bool = True) -> Scale:
        """Fit on training rows, (n, len(names))."""
        missing = np.isnan(values)
        there = np.asarray(~missing.all(axis=0)) if len(values) else np.zeros(len(names), bool)
        kept = values[:, there]
        if kept.size:
            low, centre, high = np.nanquantile(kept, [0.25, 0.5, 0.75], axis=0)
            sd = np.nanstd(kept, axis=0)
        else:
            low = centre = high = sd = np.zeros(kept.shape[1])
        rounding = ROUNDING * np.abs(centre)
        width = np.where(high - low > rounding, high - low, np.where(sd > rounding, sd, 1.0))
        used = [n for n, k in zip(names, there.tolist(), strict=True) if k]
        some = np.asarray(missing[:, there].any(axis=0)).tolist()
        return cls(
            tuple(used),
            tuple(float(v) for v in centre),
            tuple(float(v) for v in width),
            tuple(n for n, m in zip(used, some, strict=True) if m and flags),
            tuple(n for n, k in zip(names, there.tolist(), strict=True) if not k),
        )

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the columns after scaling."""
        return (*self.names, *(f"{n} missing" for n in self.flagged))

    def apply(self, values: Array, names: Sequence[str], squash: bool = True) -> np.ndarray:
        """Return scaled columns, float32; a missing value becomes the training median, 0.

        Parameters
        ----------
        values : ndarray, shape (n, len(names))
        names
            Of the columns of `values`.
        """
        where = {n: k for k, n in enumerate(names)}
        picked = values[:, [where[n] for n in self.names]]
        scaled = (picked - np.asarray(self.centre)) / np.asarray(self.width)
        missing = np.isnan(scaled)
        scaled = np.where(missing, 0.0, np.arcsinh(scaled) if squash else scaled)
        flags = [missing[:, self.names.index(n)] for n in self.flagged]
        columns = [scaled, *(f[:, None].astype(np.float64) for f in flags)]
        return np.concatenate(columns, axis=1).astype(np.float32)


@dataclass(frozen=True)
class FittedFeatures:
    """Choice and scales of all features of a model, from training trials.

    Attributes
    ----------
    choice : FeatureChoice
    scales : dict of str to Scale
        By scope (`SCOPES`).
    target : (float, float)
        Mean and standard deviation of a numeric target in training; (0, 1) for classes.
    """

    choice: FeatureChoice
    scales: dict[str, Scale]
    target: tuple[float, float] = (0.0, 1.0)
    info: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def fit(
        cls, train: ReadingTrials, choice: FeatureChoice, target: Array | None = None
    ) -> FittedFeatures:
        """Fit on training trials.

        Parameters
        ----------
        target : ndarray, optional
            A numeric target, missing values left out.
        """
        scales = {}
        for scope, (values, names) in _values(train, choice).items():
            scales[scope] = Scale.fit(values, names, choice.flags)
        moments = (0.0, 1.0)
        if target is not None:
            known = np.asarray(target, dtype=np.float64)
            known = known[~np.isnan(known)]
            if not len(known):
                raise DataError("no training trial has a target")
            mean, sd = float(known.mean()), float(known.std())
            moments = (mean, sd if sd > ROUNDING * abs(mean) else 1.0)
        return cls(choice, scales, moments, {"trials": len(train)})

    def apply(self, trials: ReadingTrials) -> dict[str, np.ndarray]:
        """Return the scaled columns of every scope, float32."""
        found = _values(trials, self.choice)
        return {
            scope: self.scales[scope].apply(values, names, self.choice.squash)
            for scope, (values, names) in found.items()
        }

    @property
    def digest(self) -> str:
        """SHA-256 of all numbers: equal pipelines have equal digests."""
        text = json.dumps(self.plain(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def plain(self) -> dict[str, Any]:
        """Return plain values for JSON or a checkpoint."""
        return {
            "choice": {k: _list(v) for k, v in asdict(self.choice).items()},
            "scales": {
                k: {n: _list(v) for n, v in asdict(s).items()} for k, s in self.scales.items()
            },
            "target": list(self.target),
            "info": dict(self.info),
        }

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> FittedFeatures:
        """Return what `plain` described."""
        scales = {
            str(k): Scale(**{n: tuple(v) for n, v in s.items()})
            for k, s in content["scales"].items()
        }
        mean, sd = (float(v) for v in content["target"])
        return cls(
            FeatureChoice.of(content["choice"]), scales, (mean, sd), dict(content.get("info", {}))
        )


def _list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _values(trials: ReadingTrials, choice: FeatureChoice) -> dict[str, tuple[Array, Sequence[str]]]:
    """Return the unscaled columns of every scope, and their names."""
    out: dict[str, tuple[Array, Sequence[str]]] = {}
    for scope, values in (("fixation", trials.fixations), ("gaze", trials.gaze)):
        names = chosen(scope, getattr(choice, scope))
        at = [names_of(scope).index(n) for n in names]
        out[scope] = (values[:, at], names)
    names = chosen("text", choice.text)
    columns = [trials.text_column(n) for n in names]
    rows = int(trials.n_words.sum())
    out["text"] = (np.stack(columns, axis=1) if columns else np.zeros((rows, 0)), names)
    if choice.sets:
        table = aggregates(trials, choice.sets)
        out["trial"] = (table.to_numpy(dtype=np.float64), [str(c) for c in table.columns])
    else:
        out["trial"] = (np.zeros((len(trials), 0)), [])
    return out
