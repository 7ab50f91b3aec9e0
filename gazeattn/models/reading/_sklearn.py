"""What models of scikit-learn share: rows to fit on, folds of readers, files without pickle."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile

import numpy as np
from numpy.typing import NDArray

from gazeattn.datamodules.reading_batches import ReadingInputs
from gazeattn.datamodules.reading_features import Array
from gazeattn.errors import CapabilityError, DataError
from gazeattn.models.reading._adjustment import text_facts, text_names
from gazeattn.models.reading.base import ReadingModel, Target, checkpoint_folder
from gazeattn.storage import atomic_path, write_text

Numbers = NDArray[Any]
FACTS, FITTED = "model.json", "model.skops"
TRUSTED = (
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
)
"""Types that a file may hold beside the estimators of scikit-learn; their content is checked."""


@dataclass(frozen=True)
class Rows:
    """Training trials with a target, in the order of their ids.

    Attributes
    ----------
    x : ndarray, shape (n, k), float64
    y : ndarray, shape (n,), float64
        Classes, or the target of a regression in training standard deviations from the mean.
    weights : ndarray, shape (n,)
        1, or the weight of the class.
    readers, texts : ndarray of str, shape (n,)
    facts : ndarray, shape (n, k)
        Of the text (`gazeattn.models.reading._adjustment.text_facts`).
    """

    x: Array
    y: Array
    weights: Array
    readers: NDArray[np.object_]
    texts: NDArray[np.object_]
    facts: Array

    def take(self, which: NDArray[Any]) -> Rows:
        """Return some of the rows."""
        return Rows(**{k: v[which] for k, v in vars(self).items()})


def training_rows(inputs: ReadingInputs, target: Target, balanced: bool) -> Rows:
    """Return what a model is fitted on; the order of the trials in `inputs` does not matter.

    Raises
    ------
    DataError
        No feature, a value that is not finite, no target, one class only, or classes that the
        target does not have.
    """
    x = numbers_of(inputs)
    if not x.shape[1]:
        raise DataError(
            "the model sees no feature: all aggregates are missing, or none was chosen",
            hint="sets=[counts, distributions]",
        )
    known = np.flatnonzero(~np.isnan(inputs.y))
    if not len(known):
        raise DataError("no training trial has a target")
    order = known[np.argsort(inputs.trials.trial[known].astype(str), kind="stable")]
    y, weights = inputs.y[order], np.ones(len(order))
    if target.kind == "regression":
        y = (y - target.centre) / target.width
    else:
        check_classes(y, target)
        if len(np.unique(y)) < 2:
            raise DataError("all training trials are of one class", found=int(y[0]))
        if balanced and target.weights:
            weights = np.asarray(target.weights)[y.astype(np.int64)]
    return Rows(
        x[order],
        y,
        weights,
        inputs.trials.participant[order].astype(str).astype(object),
        text_names(inputs.trials)[order],
        text_facts(inputs.trials)[order],
    )


def check_classes(y: Array, target: Target) -> None:
    """Raise `DataError` where a class is none of the target's."""
    wrong = (y != np.floor(y)) | (y < 0) | (y >= target.classes)
    if wrong.any():
        raise DataError(
            "a class that the target does not have",
            expected=f"0 to {target.classes - 1}", found=float(y[wrong][0]),
        )  # fmt: skip


def numbers_of(inputs: ReadingInputs, expected: int | None = None) -> Array:
    """Return the aggregates of trials in double precision, (n, k).

    Raises
    ------
    DataError
        A value is not finite, or there are not as many columns as expected.
    """
    x = np.asarray(inputs.scaled["trial"], dtype=np.float64)
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        raise DataError(
            "an aggregate is not finite", row=inputs.trials.trial[row], expected="scaled numbers",
            found=f"{x[row, column]} in column {column}",
        )  # fmt: skip
    if expected is not None and x.shape[1] != expected:
        raise DataError(
            "other aggregates than in training", expected=f"{expected} columns", found=x.shape[1]
        )
    return x


def reader_folds(
    readers: Sequence[Any] | NDArray[Any], y: Array, n: int, seed: int
) -> NDArray[np.int64]:
    """Return the fold of each trial, (n,): all trials of a reader are in one fold.

    Readers are dealt out in the order of their mean target, those of equal means in a random
    order, so that folds have about the same targets. Only the set of trials matters, not their
    order. There are fewer folds where there are fewer readers.
    """
    names, of = np.unique(np.asarray(readers, dtype=object).astype(str), return_inverse=True)
    n = min(n, len(names))
    if n < 1:
        return np.zeros(0, dtype=np.int64)
    mean = np.bincount(of, y, minlength=len(names)) / np.bincount(of, minlength=len(names))
    chance = np.random.default_rng(seed).permutation(len(names))
    # sums of the same numbers in another order differ in the last bits
    order = np.lexsort((chance, np.round(mean, 9)))
    fold = np.empty(len(names), dtype=np.int64)
    fold[order] = np.arange(len(names)) % n
    return fold[of]


@dataclass(frozen=True)
class NormalScores:
    """Each column by the normal quantile of its rank among the training rows.

    Equal values share the mean of their ranks, so that a column of 0 and 1 stays one of two
    values near 0, and a constant column becomes 0. Between training values scores are
    interpolated; beyond them they are those of the outermost one.

    Attributes
    ----------
    values, scores : ndarray, shape (m,)
        Distinct training values of all columns, one after the other, and their scores.
    starts : ndarray, shape (k + 1,)
        Where each column begins.
    """

    values: Array
    scores: Array
    starts: NDArray[np.int64]

    @classmethod
    def fit(cls, x: Array) -> NormalScores:
        """Fit on training rows, (n, k)."""
        from scipy.special import ndtri

        values, scores = [], []
        for column in x.T:
            distinct, counts = np.unique(column, return_counts=True)
            below = np.cumsum(counts) - counts
            values.append(distinct)
            scores.append(ndtri((below + counts / 2) / len(column)))
        starts = np.concatenate([[0], np.cumsum([len(v) for v in values])]).astype(np.int64)
        return cls(np.concatenate(values), np.concatenate(scores), starts)

    def apply(self, x: Array) -> Array:
        """Return the scores of rows, (n, k)."""
        out = np.empty(x.shape)
        for k in range(x.shape[1]):
            at = slice(int(self.starts[k]), int(self.starts[k + 1]))
            out[:, k] = np.interp(x[:, k], self.values[at], self.scores[at])
        return out

    def check(self, width: int, source: object) -> None:
        """Raise `DataError` where the arrays do not belong to `width` columns."""
        sizes = np.diff(self.starts)
        if (
            len(self.starts) != width + 1
            or self.starts[0] != 0
            or (sizes < 1).any()
            or self.starts[-1] != len(self.values)
            or len(self.values) != len(self.scores)
        ):
            raise DataError("the scores of the features are damaged", source=source)


def spread_classes(given: Array, present: Numbers, classes: int) -> Array:
    """Return probabilities of all classes, (n, classes); 0 for those without a training trial."""
    out = np.zeros((len(given), classes))
    out[:, np.asarray(present, dtype=np.int64)] = given
    return out


def log_odds(probabilities: Array, floor: float) -> Array:
    """Return log probabilities minus their mean over classes, (n, classes).

    Probabilities below `floor` count as `floor`: a forest gives 0 where no tree votes.
    """
    logs = np.log(np.maximum(probabilities, floor))
    centred: Array = logs - logs.mean(axis=1, keepdims=True)
    return centred


def need_fit(model: ReadingModel) -> CapabilityError:
    """Return the error of a model that was asked before `fit`."""
    return CapabilityError(f"{type(model).__name__} knows nothing yet: call fit first")


def write_facts(folder: str | os.PathLike[str], content: Mapping[str, Any]) -> Path:
    """Write the plain facts of a model; numbers come back to the bit."""
    path = checkpoint_folder(folder)
    write_text(path / FACTS, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path


def read_facts(folder: str | os.PathLike[str], model: str, keys: Sequence[str]) -> dict[str, Any]:
    """Read what `write_facts` wrote.

    Raises
    ------
    DataError
        No such file, a damaged one, or that of another model.
    """
    path = Path(folder) / FACTS
    if not path.is_file():
        raise DataError("not the folder of a fitted model", source=folder, expected=FACTS)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError("the file is damaged", source=path, found=str(error)) from None
    if not isinstance(content, dict) or content.get("model") != model:
        found = content.get("model") if isinstance(content, dict) else type(content).__name__
        raise DataError("the file describes another model", source=path, expected=model,
                        found=found)  # fmt: skip
    missing = [k for k in ("target", *keys) if k not in content]
    if missing:
        raise DataError("the file is damaged: a part is missing", source=path, expected=missing[0])
    return content


def write_fitted(path: Path, content: Mapping[str, Any]) -> str:
    """Write fitted estimators and arrays without pickle; return the SHA-256 of the file."""
    from skops.io import dumps

    data: bytes = dumps(dict(content), compression=ZIP_DEFLATED, compresslevel=1)
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def read_fitted(path: Path, digest: str | None = None) -> dict[str, Any]:
    """Read what `write_fitted` wrote; only estimators of scikit-learn and `TRUSTED` are built.

    Raises
    ------
    DataError
        No file, a damaged one, one with other types, or with trees that point outside of
        themselves (which scikit-learn would follow).
    """
    from skops.io import loads
    from skops.io.exceptions import UntrustedTypesFoundException

    if not path.is_file():
        raise DataError("the fitted model is missing", source=path.parent, expected=path.name)
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if digest is not None and found != digest:
        raise DataError("the file is not the one that was saved", source=path,
                        expected=f"SHA-256 {digest}", found=found)  # fmt: skip
    try:
        content = loads(data, trusted=list(TRUSTED))
    except UntrustedTypesFoundException as error:
        raise DataError(
            "the file holds types that no model here has", source=path,
            found=str(error).splitlines()[0],
        ) from None  # fmt: skip
    except (BadZipFile, io.UnsupportedOperation, KeyError, ValueError, TypeError, OSError,
            EOFError, AttributeError, ImportError, NotImplementedError, IndexError,
            RuntimeError) as error:  # fmt: skip
        raise DataError(
            "the file is damaged", source=path, found=f"{type(error).__name__}: {error}"
        ) from None
    if not isinstance(content, dict):
        raise DataError("the file is damaged", source=path, found=type(content).__name__)
    return {str(k): v for k, v in content.items()}


def check_estimator(estimator: Any, kind: type, width: int, source: object) -> None:
    """Raise `DataError` where an estimator from a file is not what prediction can run safely.

    scikit-learn follows the indices of trees and of support vectors without looking at bounds.
    """

    def damaged(found: str) -> DataError:
        return DataError("the fitted model is damaged", source=source, found=found)

    if type(estimator) is not kind:
        raise damaged(f"{type(estimator).__name__} instead of {kind.__name__}")
    if getattr(estimator, "n_features_in_", None) != width:
        raise damaged(f"{getattr(estimator, 'n_features_in_', None)} features, not {width}")
    for tree in getattr(estimator, "estimators_", ()):
        nodes = tree.tree_
        if nodes.n_features != width or tree.n_features_in_ != width:
            raise damaged("a tree over other features")
        _check_nodes(nodes.children_left, nodes.children_right, nodes.feature,
                     nodes.children_left < 0, width, damaged)  # fmt: skip
    for iteration in getattr(estimator, "_predictors", ()):
        for predictor in iteration:
            nodes = predictor.nodes
            if nodes["is_categorical"].any():
                raise damaged("a tree over categories")
            _check_nodes(nodes["left"].astype(np.int64), nodes["right"].astype(np.int64),
                         nodes["feature_idx"], nodes["is_leaf"] > 0, width, damaged)  # fmt: skip
    if hasattr(estimator, "support_vectors_"):
        _check_support(estimator, width, damaged)


def _check_nodes(
    left: Numbers, right: Numbers, feature: Numbers, leaf: Numbers, width: int, damaged: Any
) -> None:
    """Children stand after their parents and inside the tree, so that every walk ends."""
    n, inner = len(left), ~leaf
    here = np.arange(n)[inner]
    for child in (left[inner], right[inner]):
        if not n or ((child <= here) | (child >= n)).any():
            raise damaged("a tree whose nodes point outside of it")
    if ((feature[inner] < 0) | (feature[inner] >= width)).any():
        raise damaged("a tree over features that are not there")


def _check_support(estimator: Any, width: int, damaged: Any) -> None:
    vectors, weights = estimator.support_vectors_, estimator._dual_coef_
    pairs = 1
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        pairs = len(classes) * (len(classes) - 1) // 2
    rows = 1 if classes is None else len(classes) - 1
    if (
        vectors.shape != (len(estimator.support_), width)
        or weights.shape != (rows, len(vectors))
        or len(estimator._intercept_) != pairs
        or (classes is not None and int(estimator._n_support.sum()) != len(vectors))
        or (classes is not None and len(estimator._n_support) != len(classes))
        or (estimator._n_support < 0).any()
        or estimator.kernel not in ("linear", "rbf")
    ):
        raise damaged("support vectors that do not fit together")
