"""Several models together: the mean of their log-odds, or a regression on held-out readers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from gazeattn.datamodules.reading_batches import ReadingInputs, reading_inputs
from gazeattn.datamodules.reading_features import Array
from gazeattn.datamodules.reading_scaling import FeatureChoice, FittedFeatures
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.reading._sklearn import (
    check_classes,
    check_estimator,
    log_odds,
    need_fit,
    read_facts,
    read_fitted,
    reader_folds,
    spread_classes,
    write_facts,
    write_fitted,
)
from gazeattn.models.reading.base import (
    ReadingEstimator,
    ReadingModel,
    ReadingNetwork,
    Target,
    arguments_of,
)
from gazeattn.models.reading.controls import NOTHING
from gazeattn.registry import reading_models, register_reading_model

STACKS = ("regression", "mean")
STACK, NETWORK = "stack.skops", "network.ckpt"
NO_ARGUMENTS = ("name", "training", "sizes", "encoder")
Trainer = Callable[[dict[str, Any], ReadingInputs, ReadingInputs, int], ReadingModel]


@dataclass(frozen=True)
class Member:
    """A fitted member with the features that it sees.

    Attributes
    ----------
    config : dict
        ``name`` of a registered model and its arguments.
    features : FittedFeatures
        Fitted on the trials that the member was fitted on.
    model : ReadingModel
    """

    config: dict[str, Any]
    features: FittedFeatures
    model: ReadingModel

    def predict(self, inputs: ReadingInputs) -> Array:
        """Return the member's predictions, (n, classes) or (n, 1)."""
        out = self.model.predict(seen(inputs, self.features))
        return out.reshape(len(inputs), -1)


def seen(inputs: ReadingInputs, features: FittedFeatures) -> ReadingInputs:
    """Return trials with other features; targets and tokens stay."""
    made = reading_inputs(inputs.trials, features, inputs.y)
    return replace(made, tokens=inputs.tokens, token_of=inputs.token_of)


def part_of(inputs: ReadingInputs, which: NDArray[Any]) -> ReadingInputs:
    """Return some trials of the inputs, by position or mask, in that order."""
    at = np.flatnonzero(which) if which.dtype == bool else which
    trials, given = inputs.trials, inputs.scaled
    scaled = {"trial": given["trial"][at]}
    for scope, starts in (
        ("fixation", trials.starts), ("gaze", trials.word_starts), ("text", trials.word_starts)
    ):  # fmt: skip
        mine = [given[scope][starts[i] : starts[i + 1]] for i in at]
        scaled[scope] = np.concatenate(mine) if mine else given[scope][:0]
    token_of = None if inputs.token_of is None else inputs.token_of[at]
    return replace(inputs, trials=trials.take(at), scaled=scaled, y=inputs.y[at], token_of=token_of)


@register_reading_model(
    "ensemble",
    description="several models, weighted by a regression on readers they have not seen",
    citation="Wolpert 1992, Neural Networks",
    kind="estimator",
    needs=("aggregates",),
    aliases=("stacking",),
)
class Ensemble(ReadingEstimator):
    """Members that are combined with nested validation (stacked generalisation, Wolpert 1992).

    The readers of the training part are dealt to folds. Each member is fitted anew without each
    fold, its features scaled anew as well, and predicts it; a logistic regression on the
    log-odds of all members (ridge regression on their values) is fitted on these predictions, so
    that no member is weighted by what it knows of its own readers, and the validation part has
    no say. Then the members are fitted on all training trials.

    Parameters
    ----------
    target, widths
        See `gazeattn.models.reading.base.ReadingNetwork`; `widths` is not used, as members have
        their own.
    members
        Configurations: ``name`` of a registered model, and its arguments.
    stack
        ``"regression"``, or ``"mean"``: the mean of the log-odds (of the values), no nesting.
    C
        Inverse of the L2 penalty of the regression on members, towards 0.
    folds
        Of readers.
    floor
        Smallest probability of a member that counts as such.

    Attributes
    ----------
    trainer : callable, optional
        ``trainer(config, train, valid, seed)`` returns a fitted model for a member that is a
        network. Estimators need none.
    """

    trainer: Trainer | None = None
    gaze_use: ClassVar[bool] = True

    own_features: ClassVar[bool] = True

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int] | None = None,
        *,
        members: Sequence[Mapping[str, Any]] = ({"name": "extra_trees"}, {"name": "logistic"}),
        stack: str = "regression",
        C: float = 0.01,
        folds: int = 5,
        floor: float = 0.001,
    ) -> None:
        if stack not in STACKS:
            raise UnknownNameError("stack", stack, STACKS)
        if not members:
            raise DataError("an ensemble has at least one member")
        if folds < 2:
            raise DataError("folds of readers", expected="at least 2", found=folds)
        if not 0 < floor < 0.5:
            raise DataError("a floor of probabilities", expected="0 < floor < 0.5", found=floor)
        self.target = Target.of(target)
        self.configs = [dict(m) for m in members]
        self.kinds = [reading_models.get(str(m["name"])).obj for m in self.configs]
        self.stack, self.C, self.folds, self.floor = stack, float(C), int(folds), float(floor)
        self.members: list[Member] = []
        self.regression: Any = None

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return no feature: members make their own from the trials."""
        return NOTHING

    @property
    def classes(self) -> bool:
        """Whether classes are predicted, not a number."""
        return self.target.kind == "classification"

    def fit(self, train: ReadingInputs, valid: ReadingInputs, seed: int = 0) -> None:
        """Fit all members, and the regression on their predictions of held-out readers.

        Validation trials reach members that stop early by them, without those of readers who
        are held out at the time.

        Raises
        ------
        DataError
            No target, or too few readers to hold some out.
        """
        known = np.flatnonzero(~np.isnan(train.y))
        if not len(known):
            raise DataError("no training trial has a target")
        if self.classes:
            check_classes(train.y[known], self.target)
        order = known[np.argsort(train.trials.trial[known].astype(str), kind="stable")]
        train = part_of(train, order)
        self.regression = None
        if self.stack == "regression":
            self.regression = self._stacked(train, valid, seed)
        self.members = self._fitted(train, valid, seed)

    def _fitted(self, train: ReadingInputs, valid: ReadingInputs, seed: int) -> list[Member]:
        out = []
        for config, kind in zip(self.configs, self.kinds, strict=True):
            features = FittedFeatures.fit(train.trials, kind.choice(config))
            mine, theirs = seen(train, features), seen(valid, features)
            out.append(Member(config, features, self._model(config, kind, mine, theirs, seed)))
        return out

    def _model(
        self, config: dict[str, Any], kind: Any, train: ReadingInputs, valid: ReadingInputs,
        seed: int,
    ) -> ReadingModel:  # fmt: skip
        if not issubclass(kind, ReadingEstimator):
            if self.trainer is None:
                raise DataError(
                    f"the member {config['name']} is a network: it needs a trainer",
                    hint="set the attribute trainer of the ensemble",
                )
            return self.trainer(config, train, valid, seed)
        widths = {k: v.shape[1] for k, v in train.scaled.items()}
        made = kind(self.target.plain(), widths, **arguments_of(config, NO_ARGUMENTS))
        made.fit(train, valid, seed)
        return made

    def _stacked(self, train: ReadingInputs, valid: ReadingInputs, seed: int) -> Any:
        from sklearn.linear_model import LogisticRegression, Ridge

        readers = train.trials.participant.astype(str)
        folds = reader_folds(readers, train.y, self.folds, seed)
        x: Array | None = None
        present = len(np.unique(train.y)) if self.classes else 0
        for fold in range(int(folds.max()) + 1):
            inside = folds != fold
            if not inside.any() or len(np.unique(train.y[inside])) < present:
                continue
            others = ~np.isin(valid.trials.participant.astype(str), readers[~inside])
            members = self._fitted(part_of(train, inside), part_of(valid, others), seed)
            values = self._columns(members, part_of(train, ~inside))
            if x is None:
                x = np.full((len(train), values.shape[1]), np.nan)
            x[~inside] = values
        there = np.zeros(len(train), bool) if x is None else ~np.isnan(x[:, 0])
        if x is None or (self.classes and len(np.unique(train.y[there])) < 2):
            raise DataError(
                "too few readers to hold some out", expected="two readers of each class",
                found=len(np.unique(readers)), hint="stack=mean",
            )  # fmt: skip
        x, y = x[there], train.y[there]
        if not self.classes:
            return Ridge(alpha=1 / self.C).fit(x, (y - self.target.centre) / self.target.width)
        weights = np.asarray(self.target.weights or (1.0,) * self.target.classes)
        y = y.astype(np.int64)
        return LogisticRegression(C=self.C, max_iter=5000).fit(x, y, sample_weight=weights[y])

    def _columns(self, members: Sequence[Member], inputs: ReadingInputs) -> Array:
        """Return the log-odds or scaled values of all members, (n, members * outputs)."""
        parts = []
        for member in members:
            values = member.predict(inputs)
            if self.classes:
                values = log_odds(values, self.floor)
                # of two classes one column says all
                parts.append(2 * values[:, 1:] if values.shape[1] == 2 else values)
            else:
                parts.append((values - self.target.centre) / self.target.width)
        return np.concatenate(parts, axis=1)

    def predict(self, inputs: ReadingInputs) -> Array:
        """Return probabilities (n, classes) or values (n,)."""
        if not self.members:
            raise need_fit(self)
        if not len(inputs):
            return np.zeros((0, self.target.classes) if self.classes else 0)
        if self.regression is not None:
            x = self._columns(self.members, inputs)
            if self.classes:
                given = self.regression.predict_proba(x)
                return spread_classes(given, self.regression.classes_, self.target.classes)
            return self.regression.predict(x) * self.target.width + self.target.centre
        each = [m.predict(inputs) for m in self.members]
        if not self.classes:
            return np.mean(each, axis=0)[:, 0]
        logs = np.mean([log_odds(p, self.floor) for p in each], axis=0)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def weights(self) -> dict[str, list[float]]:
        """Return the weights of the regression of each member (one per output), by its name."""
        if self.regression is None:
            return {}
        given = np.atleast_2d(self.regression.coef_)
        each = np.split(given, len(self.configs), axis=1)
        names = [f"{k}: {c['name']}" for k, c in enumerate(self.configs)]
        return {n: w.ravel().tolist() for n, w in zip(names, each, strict=True)}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the members, each in a folder of its own, and the regression."""
        if not self.members:
            raise need_fit(self)
        path = Path(folder)
        for k, member in enumerate(self.members):
            own = path / f"member_{k}"
            own.mkdir(parents=True, exist_ok=True)
            if isinstance(member.model, ReadingEstimator):
                member.model.save(own)
            else:
                _save_network(member.model, own / NETWORK)
        digest = None
        if self.regression is not None:
            digest = write_fitted(path / STACK, {"regression": self.regression})
        write_facts(path, {
            "model": type(self).__name__,
            "target": self.target.plain(),
            "members": [{"config": m.config, "features": m.features.plain()} for m in self.members],
            "stack": self.stack,
            "C": self.C,
            "folds": self.folds,
            "floor": self.floor,
            "sha256": digest,
        })  # fmt: skip

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Ensemble:
        """Read what `save` wrote.

        Raises
        ------
        DataError
            Files are missing, damaged, or hold types that no model here has.
        """
        path = Path(folder)
        keys = ("members", "stack", "C", "folds", "floor", "sha256")
        facts = read_facts(path, cls.__name__, keys)
        try:
            configs = [m["config"] for m in facts["members"]]
            settings = {k: facts[k] for k in ("stack", "C", "folds", "floor")}
            made = cls(facts["target"], members=configs, **settings)
            features = [FittedFeatures.from_plain(m["features"]) for m in facts["members"]]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, DataError | UnknownNameError):
                raise
            raise DataError("the file is damaged", source=path, found=str(error)) from None
        for k, (config, kind) in enumerate(zip(made.configs, made.kinds, strict=True)):
            own = path / f"member_{k}"
            model = kind.load(own) if issubclass(kind, ReadingEstimator) else _network(kind, own)
            made.members.append(Member(config, features[k], model))
        if made.stack == "regression":
            made.regression = _regression(path / STACK, facts["sha256"], made)
        return made


def _regression(path: Path, digest: str, made: Ensemble) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge

    content = read_fitted(path, str(digest))
    outputs = made.target.outputs if made.target.outputs > 2 else 1
    kind = LogisticRegression if made.classes else Ridge
    check_estimator(content.get("regression"), kind, outputs * len(made.configs), path)
    return content["regression"]


def _save_network(model: ReadingModel, path: Path) -> None:
    """Write a network as `load_from_checkpoint` reads it, weights and plain arguments alone."""
    import pytorch_lightning as pl

    assert isinstance(model, ReadingNetwork)
    torch.save(
        {
            "state_dict": model.state_dict(),
            "hyper_parameters": dict(model.hparams),
            "pytorch-lightning_version": pl.__version__,
        },
        path,
    )


def _network(kind: Any, folder: Path) -> ReadingModel:
    if not (folder / NETWORK).is_file():
        raise DataError("the network of a member is missing", source=folder, expected=NETWORK)
    made: ReadingNetwork = kind.load_from_checkpoint(
        folder / NETWORK, map_location="cpu", weights_only=True
    )
    return made.eval()
