"""Baselines that know targets alone: the majority, and the means of a reader or of a text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd

from gazeattn.datamodules.reading_batches import ReadingInputs
from gazeattn.datamodules.reading_features import Array
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.errors import DataError
from gazeattn.models.reading._sklearn import check_classes, need_fit, read_facts, write_facts
from gazeattn.models.reading.base import ReadingEstimator, Target
from gazeattn.registry import register_reading_model

NOTHING = FeatureChoice(fixation=(), gaze=(), text=(), sets=(), squash=False, flags=False)
Model = TypeVar("Model", bound="Means")


class Means(ReadingEstimator):
    """Means of training targets: shares of classes, or mean values.

    Parameters
    ----------
    target
        See `gazeattn.models.reading.base.Target.plain`.
    widths
        Not used.
    """

    gaze_use: ClassVar[bool] = False

    def __init__(self, target: Mapping[str, Any], widths: Mapping[str, int] | None = None) -> None:
        self.target = Target.of(target)
        self.overall: Array | None = None
        self.by_key: dict[str, list[float]] = {}

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return no feature."""
        return NOTHING

    @property
    def arguments(self) -> dict[str, Any]:
        """What the constructor got beside target and widths."""
        return {}

    def keys(self, inputs: ReadingInputs) -> pd.Series | None:
        """Return what the mean is taken over, missing where unknown; None: all trials."""
        return None

    def fit(self, train: ReadingInputs, valid: ReadingInputs, seed: int = 0) -> None:
        """Take the means of the training trials that have a target.

        Raises
        ------
        DataError
            None has one, or a class is none of the target's.
        """
        known = ~np.isnan(train.y)
        if not known.any():
            raise DataError("no training trial has a target")
        y, ids = train.y[known], train.trials.trial[known].astype(str)
        if self.target.kind == "classification":
            check_classes(y, self.target)
            values = np.eye(self.target.classes)[y.astype(np.int64)]
        else:
            values = y[:, None]
        # sums in the order of the ids: that of the rows does not change the last bits
        order = np.argsort(ids, kind="stable")
        values = values[order]
        self.overall = values.mean(axis=0)
        self.by_key = {}
        keys = self.keys(train)
        if keys is not None:
            frame = pd.DataFrame(values)
            grouped = frame.groupby(keys.array[known][order], sort=True).mean()
            self.by_key = {str(k): row.tolist() for k, row in zip(
                grouped.index, grouped.to_numpy(), strict=True)}  # fmt: skip

    def predict(self, inputs: ReadingInputs) -> Array:
        """Return the mean of each trial's key, the overall mean where the key is new or unknown."""
        if self.overall is None:
            raise need_fit(self)
        out: Array = np.tile(self.overall, (len(inputs), 1))
        keys = self.keys(inputs)
        if keys is not None and self.by_key:
            names = list(self.by_key)
            at = pd.Index(names).get_indexer(keys.array.astype(object))
            out[at >= 0] = np.asarray([self.by_key[n] for n in names])[at[at >= 0]]
        return out if self.target.kind == "classification" else out[:, 0]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the means as JSON."""
        if self.overall is None:
            raise need_fit(self)
        write_facts(folder, {
            "model": type(self).__name__,
            "arguments": self.arguments,
            "target": self.target.plain(),
            "overall": self.overall.tolist(),
            "by_key": self.by_key,
        })  # fmt: skip

    @classmethod
    def load(cls: type[Model], folder: str | os.PathLike[str]) -> Model:
        """Read what `save` wrote."""
        content = read_facts(folder, cls.__name__, ("arguments", "overall", "by_key"))
        try:
            made = cls(content["target"], **content["arguments"])
            made.overall = np.asarray(content["overall"], dtype=np.float64)
            made.by_key = {str(k): [float(x) for x in v] for k, v in content["by_key"].items()}
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError("the file is damaged", source=folder, found=str(error)) from None
        sizes = {len(made.overall), *(len(v) for v in made.by_key.values())}
        if sizes != {made.target.outputs}:
            raise DataError("the file is damaged: means of another target", source=folder)
        return made


@register_reading_model(
    "majority",
    description="shares of the classes in training, or the mean: the same for every trial",
    citation="control",
    kind="baseline",
    needs=(),
    aliases=("mean", "chance"),
)
class Majority(Means):
    """The shares of the classes in training, or the mean target, for every trial: chance.

    One class alone is allowed: it has probability 1.
    """


@register_reading_model(
    "reader_mean",
    description="mean of the training targets of the same reader: memory of people alone",
    citation="control",
    kind="baseline",
    needs=(),
)
class ReaderMean(Means):
    """The mean training target of the trial's reader, of all trials for a new reader.

    What it reaches comes from knowing the reader, not from how the text was read.
    """

    def keys(self, inputs: ReadingInputs) -> pd.Series:
        """Return the readers."""
        return inputs.trials.table["participant"].astype("str")


@register_reading_model(
    "item_mean",
    description="mean of the training targets of the same text or question: memory of items alone",
    citation="control",
    kind="baseline",
    needs=(),
)
class ItemMean(Means):
    """The mean training target of the trial's text or question, of all trials for a new one.

    Parameters
    ----------
    target, widths
        See `Means`.
    item
        Column of the trials that names the item; None: text (``item`` where a task names it)
        and question together where trials have a question, else the text alone.
    """

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int] | None = None,
        *,
        item: str | None = None,
    ) -> None:
        super().__init__(target, widths)
        self.item = item

    @property
    def arguments(self) -> dict[str, Any]:
        """What the constructor got beside target and widths."""
        return {"item": self.item}

    def keys(self, inputs: ReadingInputs) -> pd.Series:
        """Return the items.

        Raises
        ------
        DataError
            Trials have no such column.
        """
        table = inputs.trials.table
        if self.item is not None:
            if self.item not in table:
                raise DataError(
                    f"trials have no column {self.item!r}", found=", ".join(map(str, table))
                )
            column = table[self.item]
            return column.astype("str").where(column.notna())
        text = table["item" if "item" in table else "text"].astype("str")
        if "question" not in table:
            return text
        question = table["question"]
        both = text + "\n" + question.astype("str")
        return both.where(question.notna(), text)
