"""What models over one row of aggregates per trial share: choosing, calibrating, files."""

from __future__ import annotations

import abc
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from gazeattn.datamodules.reading_aggregates import SETS
from gazeattn.datamodules.reading_batches import ReadingInputs
from gazeattn.datamodules.reading_features import Array
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.reading._adjustment import TextAdjustment, text_facts, text_names
from gazeattn.models.reading._sklearn import (
    FITTED,
    NormalScores,
    Rows,
    check_estimator,
    log_odds,
    need_fit,
    numbers_of,
    read_facts,
    read_fitted,
    reader_folds,
    spread_classes,
    training_rows,
    write_facts,
    write_fitted,
)
from gazeattn.models.reading.base import ReadingEstimator, Target

log = logging.getLogger(__name__)
COMMON: dict[str, Any] = {
    "flags": True,
    "balanced": True,
    "scores": False,
    "adjusted": False,
    "folds": 5,
}
ALL = "all"
LEAST = 1e-6  # probability of a class in the loss that settings are chosen by
SLOPE = 1e-3  # smallest slope of a calibration: larger outputs never mean less
Model = TypeVar("Model", bound="AggregateModel")


class AggregateModel(ReadingEstimator):
    """A model of scikit-learn over one row of aggregates per trial.

    A setting of the model that is given as a list is chosen from it: by the loss on training
    readers that are held out (log loss weighted like the fit, or squared error), then the model
    is fitted on all training trials. Validation trials are not used.

    Parameters
    ----------
    target
        See `gazeattn.models.reading.base.Target.plain`.
    widths
        Number of columns of each scope; None: taken from the training trials.
    settings
        ``sets``: of aggregates (`gazeattn.datamodules.reading_aggregates.SETS`), ``"all"``, or
        None for those of the model; ``flags``: columns that say where a
        value was missing; ``balanced``: each class counts the same in all; ``scores``: normal
        scores of the columns (`NormalScores`); ``adjusted``: what the text does is taken away
        (`TextAdjustment`); ``folds``: of readers, for choices; and the settings of the model
        (`defaults`).

    Attributes
    ----------
    chosen : dict
        Settings of the fitted model; ``loss`` on held-out readers where there was a choice.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}
    sets: ClassVar[tuple[str, ...] | None] = None
    calibrated: ClassVar[bool] = False

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int] | None = None,
        **settings: Any,
    ) -> None:
        self.target = Target.of(target)
        known = {**COMMON, "sets": self.sets and list(self.sets), **self.defaults}
        for name in settings:
            if name not in known:
                raise UnknownNameError(f"setting of {type(self).__name__}", name, known)
        self.arguments = {**known, **settings}
        folds = int(self.arguments["folds"])
        if folds < 2:
            raise DataError("folds of readers", expected="at least 2", found=folds)
        self.width = None if widths is None else int(widths["trial"])
        self.chosen: dict[str, Any] = {}
        self.estimator: Any = None
        self.scores: NormalScores | None = None
        self.adjustment: TextAdjustment | None = None
        self.calibration: Any = None

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return the aggregates alone, unsquashed."""
        defaults = {**COMMON, **cls.defaults}
        sets = config.get("sets") or cls.sets or ALL
        return FeatureChoice(
            fixation=(),
            gaze=(),
            text=(),
            sets=SETS if sets == ALL else tuple(sets),
            squash=False,
            flags=bool(config.get("flags", defaults["flags"])),
        )

    @abc.abstractmethod
    def make(self, setting: Mapping[str, Any], seed: int) -> Any:
        """Return an estimator of scikit-learn that is not fitted."""

    @property
    def classes(self) -> bool:
        """Whether classes are predicted, not a number."""
        return self.target.kind == "classification"

    def candidates(self) -> list[dict[str, Any]]:
        """Return the combinations of settings to choose from."""
        names = list(self.defaults)
        given = (self.arguments[n] for n in names)
        lists = [v if isinstance(v, list | tuple) else [v] for v in given]
        return [dict(zip(names, values, strict=True)) for values in product(*lists)]

    def fit(self, train: ReadingInputs, valid: ReadingInputs, seed: int = 0) -> None:
        """Fit on training trials that have a target; validation trials are not used."""
        rows = training_rows(train, self.target, bool(self.arguments["balanced"]))
        if self.width is not None:
            numbers_of(train, self.width)
        self.width = rows.x.shape[1]
        settings = self.candidates()
        self.calibration, self.chosen = None, settings[len(settings) // 2]
        if len(settings) > 1 or (self.calibrated and self.classes):
            self._choose(settings, rows, seed)
        self.scores, self.adjustment, self.estimator = self._fitted(self.chosen, rows, seed)

    def _fitted(
        self, setting: Mapping[str, Any], rows: Rows, seed: int
    ) -> tuple[NormalScores | None, TextAdjustment | None, Any]:
        scores, adjustment = None, None
        if self.arguments["scores"]:
            scores = NormalScores.fit(rows.x)
            rows = replace(rows, x=scores.apply(rows.x))
        if self.arguments["adjusted"]:
            adjustment = TextAdjustment.fit(rows.x, rows.facts, rows.texts)
            rows = replace(rows, x=adjustment.apply(rows.x, rows.facts, rows.texts))
        return scores, adjustment, self.fit_one(setting, rows, seed)

    def fit_one(self, setting: Mapping[str, Any], rows: Rows, seed: int) -> Any:
        """Return a fitted estimator."""
        y = rows.y.astype(np.int64) if self.classes else rows.y
        return self.make(setting, seed).fit(rows.x, y, sample_weight=rows.weights)

    def outputs(
        self,
        scores: NormalScores | None,
        adjustment: TextAdjustment | None,
        estimator: Any,
        rows: tuple[Array, Array, NDArray[Any]],
    ) -> Array:
        """Return probabilities (n, classes), decision values (n, k) or values (n, 1).

        ``rows`` are the columns, the facts of the texts and their names.
        """
        x, facts, texts = rows
        x = x if scores is None else scores.apply(x)
        x = x if adjustment is None else adjustment.apply(x, facts, texts)
        if not self.classes:
            return np.asarray(estimator.predict(x), dtype=np.float64).reshape(len(x), 1)
        if self.calibrated:
            return np.asarray(estimator.decision_function(x), np.float64).reshape(len(x), -1)
        return spread_classes(estimator.predict_proba(x), estimator.classes_, self.target.classes)

    def held_out(
        self, setting: Mapping[str, Any], rows: Rows, folds: Array | Any, seed: int
    ) -> Array:
        """Return `outputs` of models that have not seen the reader; NaN where there is none.

        A fold without which the other readers lack a class has no model.
        """
        out: Array | None = None
        present = len(np.unique(rows.y)) if self.classes else 0
        for fold in range(int(folds.max(initial=-1)) + 1):
            inside, outside = folds != fold, folds == fold
            if not inside.any() or (self.classes and len(np.unique(rows.y[inside])) < present):
                continue
            left = rows.take(outside)
            fitted = self._fitted(setting, rows.take(inside), seed)
            values = self.outputs(*fitted, (left.x, left.facts, left.texts))
            if out is None:
                out = np.full((len(rows.y), values.shape[1]), np.nan)
            out[outside] = values
        return np.full((len(rows.y), 1), np.nan) if out is None else out

    def _choose(self, settings: list[dict[str, Any]], rows: Rows, seed: int) -> None:
        folds = reader_folds(rows.readers, rows.y, int(self.arguments["folds"]), seed)
        best = np.inf
        for setting in settings:
            loss, calibration = self.loss(self.held_out(setting, rows, folds, seed), rows)
            if loss < best:
                best, self.chosen = loss, {**setting, "loss": loss}
                self.calibration = calibration if self.calibrated else None
        if np.isfinite(best):
            return
        if self.calibrated and self.classes:
            raise DataError(
                "too few readers to calibrate probabilities on those held out",
                expected="two readers of each class", found=len(np.unique(rows.readers)),
            )  # fmt: skip
        log.warning(
            "%s: too few readers to choose settings by those held out, took %s",
            type(self).__name__, self.chosen,
        )  # fmt: skip

    def loss(self, values: Array, rows: Rows) -> tuple[float, Any]:
        """Return the loss of held-out outputs, and their calibration; inf where there are none.

        The log loss is that of calibrated outputs: it tells how well readers are told apart, not
        how sure a model is, which more readers or a single number put right.
        """
        known = ~np.isnan(values[:, 0])
        y, weights = rows.y[known], rows.weights[known]
        if not self.classes:
            return (float(np.mean((values[known, 0] - y) ** 2)) if known.any() else np.inf), None
        if len(np.unique(y)) < 2:
            return np.inf, None
        values = values[known] if self.calibrated else log_odds(values[known], LEAST)
        if not self.calibrated and self.target.classes == 2:
            values = 2 * values[:, 1:]
        calibration = _calibrator().fit(values, y.astype(np.int64), sample_weight=weights)
        if calibration.coef_.shape == (1, 1) and calibration.coef_[0, 0] < SLOPE:
            # held-out readers were told apart the wrong way round: sure of nothing, not inverted
            first = calibration.classes_[1]
            share = np.average(y == first, weights=weights)
            centre = np.average(values[:, 0], weights=weights)
            calibration.coef_ = np.full((1, 1), SLOPE)
            calibration.intercept_ = np.array([np.log(share / (1 - share)) - SLOPE * centre])
        made = calibration.predict_proba(values)
        right = made[np.arange(len(y)), np.searchsorted(calibration.classes_, y)]
        loss = np.average(-np.log(np.maximum(right, LEAST)), weights=weights)
        return float(loss), calibration

    def predict(self, inputs: ReadingInputs) -> Array:
        """Return probabilities (n, classes) or values (n,)."""
        if self.estimator is None:
            raise need_fit(self)
        x = numbers_of(inputs, self.width)
        if not len(x):
            return np.zeros((0, self.target.classes) if self.classes else 0)
        texts = (text_facts(inputs.trials), text_names(inputs.trials))
        values = self.outputs(self.scores, self.adjustment, self.estimator, (x, *texts))
        if not self.classes:
            return np.asarray(values[:, 0] * self.target.width + self.target.centre)
        if self.calibrated:
            values = spread_classes(
                self.calibration.predict_proba(values),
                self.calibration.classes_,
                self.target.classes,
            )
        return values

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``model.json`` and ``model.skops``."""
        if self.estimator is None:
            raise need_fit(self)
        content: dict[str, Any] = {"estimator": self.estimator}
        if self.scores is not None:
            content |= {f"scores_{k}": v for k, v in vars(self.scores).items()}
        if self.adjustment is not None:
            content |= {f"adjustment_{k}": v for k, v in self.adjustment.plain().items()}
        if self.calibration is not None:
            content["calibration"] = self.calibration
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        digest = write_fitted(path / FITTED, content)
        write_facts(path, {
            "model": type(self).__name__,
            "arguments": {k: _plain(v) for k, v in self.arguments.items()},
            "target": self.target.plain(),
            "width": self.width,
            "chosen": {k: _plain(v) for k, v in self.chosen.items()},
            "sha256": digest,
        })  # fmt: skip

    @classmethod
    def load(cls: type[Model], folder: str | os.PathLike[str]) -> Model:
        """Read what `save` wrote.

        Raises
        ------
        DataError
            Files are missing, damaged, or hold types that no model here has.
        """
        facts = read_facts(folder, cls.__name__, ("arguments", "width", "chosen", "sha256"))
        path = Path(folder) / FITTED
        content = read_fitted(path, str(facts["sha256"]))
        try:
            made = cls(facts["target"], {"trial": facts["width"]}, **facts["arguments"])
            made.chosen = dict(facts["chosen"])
            setting = {k: v for k, v in made.chosen.items() if k != "loss"}
            width = int(facts["width"])
            check_estimator(content.get("estimator"), type(made.make(setting, 0)), width, path)
            made.estimator = content["estimator"]
            if made.arguments["scores"]:
                made.scores = NormalScores(
                    *(content[f"scores_{k}"] for k in ("values", "scores", "starts"))
                )
                made.scores.check(width, path)
            if made.arguments["adjusted"]:
                known = TextAdjustment.__dataclass_fields__
                arrays = {k: content[f"adjustment_{k}"] for k in known}
                made.adjustment = TextAdjustment.from_plain(arrays, width, path)
            if cls.calibrated and made.classes:
                made.calibration = content["calibration"]
                inner = made.calibration.coef_.shape[1]
                check_estimator(made.calibration, type(_calibrator()), inner, path)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, DataError | UnknownNameError):
                raise
            raise DataError("the file is damaged", source=path, found=str(error)) from None
        return made


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


def _calibrator() -> Any:
    """Return a logistic regression from outputs to classes (Platt 1999)."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1e3, max_iter=1000)
