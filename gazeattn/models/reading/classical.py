"""Models of scikit-learn over one row of aggregates per trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gazeattn.datamodules.reading_features import Array
from gazeattn.errors import UnknownNameError
from gazeattn.models.reading._aggregate_model import AggregateModel
from gazeattn.models.reading._sklearn import Rows, reader_folds, spread_classes
from gazeattn.registry import register_reading_model

ROUNDS = ("fixed", "held_out")
STEP = 10  # rounds of boosting between two looks at the loss


class Linear(AggregateModel):
    """Logistic regression with an L2 penalty, ridge regression for numbers.

    Settings: ``C``, inverse of the penalty.
    """

    defaults: ClassVar[Mapping[str, Any]] = {"C": 1.0}

    def make(self, setting: Mapping[str, Any], seed: int) -> Any:
        """Return an estimator of scikit-learn that is not fitted."""
        from sklearn.linear_model import LogisticRegression, Ridge

        if self.classes:
            return LogisticRegression(C=setting["C"], max_iter=5000)
        return Ridge(alpha=1 / setting["C"])


@register_reading_model(
    "reading_speed",
    description="logistic or linear regression on reading speed alone",
    citation="EyeBench 2025, NeurIPS Datasets and Benchmarks",
    kind="baseline",
    needs=("aggregates",),
)
class ReadingSpeed(Linear):
    """Logistic or ridge regression on words per minute and time per word and per letter."""

    sets: ClassVar[tuple[str, ...] | None] = ("speed",)


@register_reading_model(
    "logistic_meziere",
    description="logistic or linear regression on nine global reading measures",
    citation="Meziere et al. 2023, Reading Research Quarterly",
    kind="estimator",
    needs=("aggregates",),
    aliases=("linear_meziere",),
)
class LogisticMeziere(Linear):
    """Logistic or ridge regression on the nine global measures of Mézière et al. (2023)."""

    sets: ClassVar[tuple[str, ...] | None] = ("meziere",)


@register_reading_model(
    "logistic",
    description="logistic or ridge regression on normal scores of all aggregates",
    citation="this package",
    kind="estimator",
    needs=("aggregates",),
    aliases=("linear", "ridge"),
)
class Logistic(Linear):
    """Logistic or ridge regression on normal scores; the penalty fits held-out readers best."""

    defaults: ClassVar[Mapping[str, Any]] = {
        "scores": True,
        "C": [0.003, 0.01, 0.03],
    }


@register_reading_model(
    "svm",
    description="support vectors on saccade and skipping measures, probabilities calibrated",
    citation="EyeBench 2025, NeurIPS Datasets and Benchmarks",
    kind="estimator",
    needs=("aggregates",),
)
class SVM(AggregateModel):
    """Support vector machine; probabilities come from held-out readers (Platt 1999).

    Settings: ``C``, ``kernel`` ("linear" or "rbf"), ``gamma`` of the latter ("scale" or a number),
    ``max_iter`` of its solver (-1: no limit).
    Probabilities are a logistic function of the distance to the border, fitted on training
    readers that the machine has not seen.
    """

    defaults: ClassVar[Mapping[str, Any]] = {
        "C": [0.1, 1.0, 10.0, 100.0],
        "kernel": ["linear", "rbf"],
        "gamma": "scale",
        "max_iter": 200000,
    }
    sets: ClassVar[tuple[str, ...] | None] = ("saccades",)
    calibrated: ClassVar[bool] = True

    def make(self, setting: Mapping[str, Any], seed: int) -> Any:
        """Return an estimator of scikit-learn that is not fitted."""
        from sklearn.svm import SVC, SVR

        kind = SVC if self.classes else SVR
        return kind(
            C=setting["C"],
            kernel=setting["kernel"],
            gamma=setting["gamma"],
            max_iter=setting["max_iter"],
        )


class Forest(AggregateModel):
    """Trees on random parts of the data.

    Settings: ``trees``, ``min_leaf`` (trials in a leaf), ``max_depth`` (None: no limit),
    ``max_features`` of a split ("sqrt", "log2" or a share), ``jobs`` (cores that fit).
    """

    defaults: ClassVar[Mapping[str, Any]] = {
        "trees": 500,
        "min_leaf": 2,
        "max_depth": None,
        "max_features": "sqrt",
        "jobs": 1,
    }

    def options(self, setting: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Return the arguments of the forest."""
        return {
            "n_estimators": setting["trees"],
            "min_samples_leaf": setting["min_leaf"],
            "max_depth": setting["max_depth"],
            "max_features": setting["max_features"],
            "n_jobs": setting["jobs"],
            "random_state": seed,
        }

    def fit_one(self, setting: Mapping[str, Any], rows: Rows, seed: int) -> Any:
        """Return a fitted forest."""
        made = super().fit_one(setting, rows, seed)
        # several cores add up the trees in any order, and sums differ in the last bits
        return made.set_params(n_jobs=1)


@register_reading_model(
    "random_forest",
    description="random forest on all aggregates",
    citation="Breiman 2001, Machine Learning",
    kind="estimator",
    needs=("aggregates",),
)
class RandomForest(Forest):
    """Random forest (Breiman 2001)."""

    def make(self, setting: Mapping[str, Any], seed: int) -> Any:
        """Return an estimator of scikit-learn that is not fitted."""
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        kind = RandomForestClassifier if self.classes else RandomForestRegressor
        return kind(**self.options(setting, seed))


@register_reading_model(
    "extra_trees",
    description="extremely randomised trees on all aggregates: the strong plain baseline",
    citation="Geurts et al. 2006, Machine Learning",
    kind="estimator",
    needs=("aggregates",),
)
class ExtraTrees(Forest):
    """Extremely randomised trees (Geurts et al. 2006)."""

    def make(self, setting: Mapping[str, Any], seed: int) -> Any:
        """Return an estimator of scikit-learn that is not fitted."""
        from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

        kind = ExtraTreesClassifier if self.classes else ExtraTreesRegressor
        return kind(**self.options(setting, seed))


@register_reading_model(
    "gradient_boosting",
    description="boosted histogram trees on all aggregates, stopped by held-out readers",
    citation="Friedman 2001, Annals of Statistics",
    kind="estimator",
    needs=("aggregates",),
    aliases=("boosting",),
)
class GradientBoosting(AggregateModel):
    """Gradient boosting (Friedman 2001) over histograms of the columns.

    Settings: ``max_iter`` (most rounds), ``learning_rate``, ``max_leaves`` (leaves of a tree),
    ``min_leaf`` (trials in a leaf), ``l2``, ``max_features`` (share of the columns of a split).
    With ``rounds: held_out`` their number, a multiple of 10, is that of the lowest loss on
    held-out training readers, over all folds; then all training trials are fitted with it (a
    single reader: `max_iter` rounds). With ``fixed`` there are `max_iter` of them: held-out
    readers call for so few that readers who are known are not told apart either.
    """

    defaults: ClassVar[Mapping[str, Any]] = {
        "max_iter": 150,
        "rounds": "fixed",
        "learning_rate": 0.05,
        "max_leaves": 10,
        "min_leaf": 20,
        "l2": 1.0,
        "max_features": 0.3,
    }

    def make(self, setting: Mapping[str, Any], seed: int) -> Any:
        """Return an estimator of scikit-learn that is not fitted."""
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kind = HistGradientBoostingClassifier if self.classes else HistGradientBoostingRegressor
        return kind(
            max_iter=setting["max_iter"],
            learning_rate=setting["learning_rate"],
            max_leaf_nodes=setting["max_leaves"],
            min_samples_leaf=setting["min_leaf"],
            l2_regularization=setting["l2"],
            max_features=setting["max_features"],
            early_stopping=False,
            random_state=seed,
        )

    def fit_one(self, setting: Mapping[str, Any], rows: Rows, seed: int) -> Any:
        """Return an estimator with as many rounds as serve held-out readers."""
        if setting["rounds"] not in ROUNDS:
            raise UnknownNameError("way to choose rounds", str(setting["rounds"]), ROUNDS)
        fixed = setting["rounds"] == "fixed"
        rounds = int(setting["max_iter"]) if fixed else self._rounds(setting, rows, seed)
        return super().fit_one({**setting, "max_iter": rounds}, rows, seed)

    def _rounds(self, setting: Mapping[str, Any], rows: Rows, seed: int) -> int:
        most = int(setting["max_iter"])
        folds = reader_folds(rows.readers, rows.y, int(self.arguments["folds"]), seed)
        outputs = self.target.outputs
        values = np.full((len(range(STEP, most + 1, STEP)), len(rows.y), outputs), np.nan)
        present = len(np.unique(rows.y)) if self.classes else 0
        for fold in range(int(folds.max()) + 1):
            inside, outside = folds != fold, folds == fold
            if not inside.any() or (self.classes and len(np.unique(rows.y[inside])) < present):
                continue
            made = super().fit_one(setting, rows.take(inside), seed)
            for k, given in enumerate(self._staged(made, rows.x[outside]), 1):
                if k % STEP == 0:
                    values[k // STEP - 1, outside] = given
        losses = [self.loss(v, rows)[0] for v in values]
        if not np.isfinite(losses).any():
            return most
        return STEP * (int(np.argmin(losses)) + 1)

    def _staged(self, made: Any, x: Array) -> Any:
        if not self.classes:
            return (v[:, None] for v in made.staged_predict(x))
        given = made.staged_predict_proba(x)
        return (spread_classes(v, made.classes_, self.target.classes) for v in given)
