"""What is read off a reader's eyes: labels, questions, and who is tested on what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.columns import as_text
from gazeattn.datamodules.reading import ReadingTrials, Surprisal, reading_trials
from gazeattn.datamodules.reading_joining import join_screens
from gazeattn.datasets import GazeDataset
from gazeattn.datasets.splits import Split, kfold, published
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.metrics.prediction import SCORES

KINDS = ("classification", "regression")
ITEM = "item"
"""Column of the trial table: what counts as one text (or question) in a split."""


@dataclass(frozen=True)
class ReadingTask:
    """One prediction task.

    Attributes
    ----------
    name : str
        As in the tables of results.
    kind : {"classification", "regression"}
    label : str
        Column of the trial table (or of `items`) with the target.
    classes : tuple of str
        Values of the label in the order of their numbers; empty: numbers, or true and false.
    above : float or None
        Makes two classes of a number: 1 above it.
    where : mapping of str to list
        Only trials with these values in these columns; the others are dropped and counted.
    join : tuple of str
        Columns that name a reading over several screens, see `join_screens`; empty: trials are
        readings.
    order : str
        Column by which joined screens follow each other.
    items : str or None
        Table in the data set's reports with several labels per reading (such as questions), joined
        by the columns it shares with the trials; each row becomes a trial with the same gaze.
    question : str or None
        Column with a question that models with text see after the text.
    item : str or None
        Column that says what counts as one text; None: what the corpus states.
    folds : str or int
        ``"published"``: those of the data set as published; a number: that many folds.
    by : {"both", "reader", "text"}
        What folds hold out (own folds only).
    level : {"trial", "reader"}
        Whether the headline is over trials, or over readers (means of their trials).
    metric : str
        The headline, see `gazeattn.metrics.prediction.SCORES`.
    seed : int
        Of own folds.
    published_as : str
        Name of the task in published results of the data set; empty for none.
    other_folds : mapping
        Published figures of other folds, by metric and regime, and where they are from
        (``source``): shown beside the table, not compared.
    """

    name: str
    kind: str
    label: str
    classes: tuple[str, ...] = ()
    above: float | None = None
    where: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    join: tuple[str, ...] = ()
    order: str = "trial_index"
    items: str | None = None
    question: str | None = None
    item: str | None = None
    folds: str | int = "published"
    by: str = "both"
    level: str = "trial"
    metric: str = "auroc"
    seed: int = 0
    published_as: str = ""
    other_folds: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> ReadingTask:
        """Return a task from a configuration.

        Raises
        ------
        UnknownNameError
            A key or a value that tasks do not have.
        """
        known = [f.name for f in fields(cls)]
        for key in options:
            if key not in known:
                raise UnknownNameError("key of a task", str(key), known)
        made: dict[str, Any] = {
            str(k): tuple(v) if isinstance(v, list) else v for k, v in options.items()
        }
        for key in ("name", "kind", "label"):
            if not made.get(key) or made[key] == "???":
                raise DataError(f"a task needs {key!r}", source="task",
                                hint=f"for example task.{key}=diagnosis")  # fmt: skip
        task = cls(**made)
        if task.kind not in KINDS:
            raise UnknownNameError("kind of task", task.kind, KINDS)
        if task.folds != "published" and not str(task.folds).isdigit():
            raise UnknownNameError("folds", str(task.folds), ("published", "a number"))
        if task.metric.removesuffix("_reader") not in SCORES:
            raise UnknownNameError("metric of a task", task.metric, SCORES)
        if task.level not in ("trial", "reader"):
            raise UnknownNameError("level", task.level, ("trial", "reader"))
        return task


def task_trials(
    task: ReadingTask,
    dataset: GazeDataset,
    *,
    share: float = 1.0,
    by: str = "time",
    surprisal: Surprisal | None = None,
    lost: LossLog | None = None,
    labels: bool = True,
) -> ReadingTrials:
    """Return the readings of a task, with ``y``, ``item`` and ``question`` in their table.

    Parameters
    ----------
    task, dataset
    share, by, surprisal
        See `gazeattn.datamodules.reading.reading_trials`.
    lost
        Receives the counts: trials outside the task, and trials without a target, which stay
        (``y`` missing), are not trained on and not scored.
    labels
        False: for new readings, whose table needs no label.
    """
    lost = LossLog() if lost is None else lost
    item = task.item or str(dataset.info.get("item", "stimulus"))
    data = _where(dataset, task.where, lost)
    if task.join:
        data = join_screens(data, task.join, task.order, lost)
    trials = reading_trials(data, share=share, by=by, surprisal=surprisal, lost=lost)
    if task.items is not None:
        trials = _with_items(trials, dataset, task, lost)
    table = trials.table.copy()
    if not labels:
        if task.label not in table:
            table[task.label] = pd.Series(np.nan, index=table.index)
        if item not in table:
            lost.add("task", "note", f"no column {item}: each text is an item of its own",
                     len(table), "trials")  # fmt: skip
            item = "text"
    for column in (task.label, item, *([task.question] if task.question else [])):
        if column not in table:
            raise UnknownNameError("column of the trials", column, list(map(str, table.columns)))
    y = target_of(table[task.label], task)
    what = "neither trained on nor scored" if labels else "predicted, not scored"
    lost.add("task", "note", f"trials without {task.label}: {what}",
             int(np.isnan(y).sum()), "trials", table.loc[np.isnan(y), "trial"])  # fmt: skip
    table["y"] = y
    table[ITEM] = as_text(table[item])
    questions = as_text(table[task.question]) if task.question else pd.Series(pd.NA, table.index)
    table["question"] = questions.astype("str").where(questions.notna())
    return replace(trials, table=table, info={**trials.info, "task": task.name})


def target_of(values: pd.Series, task: ReadingTask) -> np.ndarray:
    """Return the target of each trial as a number, NaN where it is missing.

    Raises
    ------
    DataError
        A value that is none of the classes, or no number.
    """
    missing = values.isna().to_numpy()
    if task.classes:
        texts = as_text(values)
        y = np.full(len(values), np.nan)
        for k, name in enumerate(task.classes):
            y[(texts == str(name)).fillna(False).to_numpy(dtype=bool)] = k
        strange = ~missing & np.isnan(y)
        if strange.any():
            raise DataError(
                f"{int(strange.sum())} values of {task.label!r} are none of the classes",
                source=task.name,
                row=int(np.flatnonzero(strange)[0]),
                expected=", ".join(map(str, task.classes)),
                found=repr(texts[strange].iloc[0]),
            )
        return y
    try:
        y = values.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise DataError(
            f"{task.label!r} is no number", source=task.name, hint="name its values in classes"
        ) from None
    if task.above is not None:
        y = np.where(np.isnan(y), np.nan, y > task.above)
    return y


def _where(dataset: GazeDataset, where: Mapping[str, Sequence[Any]], lost: LossLog) -> GazeDataset:
    trials = dataset.trials
    keep = np.ones(len(trials), dtype=bool)
    for column, wanted in where.items():
        if column not in trials:
            raise UnknownNameError("column of the trials", column, list(map(str, trials.columns)))
        values = as_text(trials[column])
        allowed = [str(v) for v in (wanted if isinstance(wanted, list | tuple) else [wanted])]
        here = values.isin(allowed).to_numpy(dtype=bool)
        lost.add("task", "dropped", f"{column} is not {' or '.join(allowed)}",
                 int((keep & ~here).sum()), "trials")  # fmt: skip
        keep &= here
    if keep.all():
        return dataset
    if not keep.any():
        raise DataError("no trial is left", source=dataset.name, found=str(dict(where)))
    left = trials[keep]
    fixations = dataset.fixations[dataset.fixations["trial"].isin(left["trial"])]
    return replace(
        dataset, trials=left.reset_index(drop=True), fixations=fixations.reset_index(drop=True)
    )


def _with_items(
    trials: ReadingTrials, dataset: GazeDataset, task: ReadingTask, lost: LossLog
) -> ReadingTrials:
    """Return each reading once per row of the table of items."""
    name = str(task.items)
    if name not in dataset.reports:
        raise UnknownNameError("report of the data set", name, list(dataset.reports))
    items = dataset.reports[name].reset_index(drop=True)
    shared = [c for c in items if c in trials.table and c != "trial"]
    if "participant" not in shared:
        raise DataError("items name their reader", source=name, expected="participant")
    keys = trials.table[shared].astype("str").agg("|".join, axis=1)
    place = pd.Series(np.arange(len(trials)), index=keys)
    if place.index.duplicated().any():
        raise DataError("items do not say which reading they belong to", source=name,
                        found=f"{shared} stand for several readings")  # fmt: skip
    at = place.reindex(items[shared].astype("str").agg("|".join, axis=1)).to_numpy()
    there = ~np.isnan(at)
    lost.add("task", "dropped", f"{name} without a reading", int((~there).sum()), "rows")
    if not there.any():
        raise DataError(f"no row of {name!r} belongs to a reading", source=dataset.name,
                        expected=f"the values of {shared} in the trials")  # fmt: skip
    bare = ~np.isin(np.arange(len(trials)), at[there])
    lost.add("task", "dropped", f"readings without a row of {name}", int(bare.sum()), "trials",
             trials.trial[bare])  # fmt: skip
    out = trials.take(at[there].astype(np.int64))
    extra = items.loc[there].drop(columns=shared).reset_index(drop=True)
    table = pd.concat([out.table.drop(columns=[c for c in extra if c in out.table]), extra], axis=1)
    number = table.groupby("trial", sort=False).cumcount()
    table["reading"] = table["trial"]
    table["trial"] = table["trial"] + ":" + (number + 1).astype("str")
    return replace(out, table=table)


def task_split(
    task: ReadingTask, trials: ReadingTrials, fold: int, folds: pd.DataFrame | None = None
) -> Split:
    """Return one fold of a task.

    Parameters
    ----------
    task
    trials
        Of `task_trials`.
    fold
        From 0. Published folds are kept as published, so that figures can be compared; own folds
        are pure (`gazeattn.datasets.splits`).
    folds : DataFrame
        Published folds, for tasks that use them.

    Raises
    ------
    UnknownNameError
        No such fold.
    """
    table = trials.table
    if task.folds == "published":
        return published(table, _published(task, folds), fold=fold, item=ITEM, pure=False)
    n = int(task.folds)
    if not 0 <= fold < n:
        raise UnknownNameError("fold", str(fold), [str(k) for k in range(n)])
    known = table[table["y"].notna()]
    stratify = None
    if task.kind == "classification":
        known = known.assign(label_of_split=known["y"].astype("str"))
        stratify = "label_of_split"
    how: dict[str, Any] = {"by": task.by, "seed": task.seed, "stratify": stratify}
    return kfold(known, folds=n, fold=fold, item=ITEM, **how)


def n_folds(task: ReadingTask, folds: pd.DataFrame | None = None) -> int:
    """Return how many folds a task has."""
    if task.folds != "published":
        return int(task.folds)
    return int(_published(task, folds)["fold"].nunique())


def _published(task: ReadingTask, folds: pd.DataFrame | None) -> pd.DataFrame:
    if folds is None:
        raise DataError(
            "the data set has no published folds", source=task.name, hint="task.folds=5"
        )
    return folds
