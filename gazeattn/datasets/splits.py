"""Splits of trials: by reader, by text or image, or by both, with nothing of the test in training.

With ``by="both"`` readers and items are divided separately, and a trial belongs to where its
reader and its item meet:

=========  =====================  ======================  =======================
reader     training item          validation item         test item
=========  =====================  ======================  =======================
training   training               validation unseen_text  test unseen_text
validation validation unseen_rea. validation unseen_both  dropped
test       test unseen_reader     dropped                 test unseen_both
=========  =====================  ======================  =======================

A trial of a validation reader with a test item is dropped and counted: in any test regime its
reader would be neither seen nor unseen. That makes the three regimes pure; the published folds of
EyeBench (Shubi et al., 2025) put such trials into the test.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.columns import as_text
from gazeattn.datasets.base import GazeDataset
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import Loss, LossLog
from gazeattn.storage import write_json

PARTS = ("train", "val", "test", "dropped")
REGIMES = ("unseen_reader", "unseen_text", "unseen_both")
BY = ("reader", "text", "both")
COLUMNS = ("trial", "participant", "item", "part", "regime")
FORMAT = "gazeattn-split-2"


@dataclass(frozen=True)
class Split:
    """Which trial is in which part.

    Attributes
    ----------
    table : DataFrame
        One row per trial, sorted by trial: trial, participant, item, part (`PARTS`), regime
        (`REGIMES`, missing for training and dropped trials).
    how : dict
        Everything that made it: data set, by, fold, folds, seed, stratify, item.
    lost : LossLog
        Trials that are in no part, and why.
    """

    table: pd.DataFrame
    how: dict[str, Any] = field(default_factory=dict)
    lost: LossLog = field(default_factory=LossLog)

    @property
    def digest(self) -> str:
        """SHA-256 of the rows: equal splits have equal digests, on any machine."""
        rows = self.table[list(COLUMNS)].astype(object).where(self.table.notna(), None)
        text = json.dumps(rows.to_numpy().tolist(), ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def trials(self, part: str, regime: str | None = None) -> list[str]:
        """Return the trial ids of a part, and of one regime of it."""
        if part not in PARTS:
            raise UnknownNameError("part", part, PARTS)
        if regime is not None and regime not in REGIMES:
            raise UnknownNameError("regime", regime, REGIMES)
        rows = self.table["part"] == part
        if regime is not None:
            rows &= self.table["regime"] == regime
        return self.table.loc[rows, "trial"].tolist()

    def of(self, trials: Sequence[str] | pd.Series) -> pd.DataFrame:
        """Return part and regime for rows of any table by their trial.

        Fixations, windows and word measures follow their trial, so that none of them can lie on
        both sides.

        Raises
        ------
        DataError
            A trial that the split does not know.
        """
        known = self.table.set_index("trial")[["part", "regime"]]
        trials = trials if isinstance(trials, pd.Series) else pd.Series(list(trials), dtype="str")
        ids = as_text(trials)
        unknown = ~ids.isin(known.index)
        if unknown.any():
            raise DataError(
                f"{int(unknown.sum())} rows belong to trials that the split does not know",
                source="split",
                row=int(np.flatnonzero(unknown)[0]),
                found=repr(ids[unknown].iloc[0]),
            )
        return known.loc[ids].set_axis(trials.index)

    def check(self) -> Split:
        """Return the split itself, or raise where something of the test is in training.

        Raises
        ------
        DataError
            A trial stands twice, or a reader or item that a regime calls unseen occurs in
            training; or, for the test, in validation.
        """
        t = self.table
        twice = t["trial"].duplicated()
        if twice.any():
            raise DataError(
                "a trial stands twice in the split", found=repr(t["trial"][twice].iloc[0])
            )
        train = t[t["part"] == "train"]
        for part in ("val", "test"):
            rows = t[t["part"] == part]
            for column, regimes in (
                ("participant", ("unseen_reader", "unseen_both")),
                ("item", ("unseen_text", "unseen_both")),
            ):
                unseen = rows.loc[rows["regime"].isin(regimes), column]
                others = [("training", train[column])]
                if part == "test":
                    selected = t[(t["part"] == "val") & t["regime"].isin(regimes)]
                    others.append(("validation", selected[column]))
                for where, seen in others:
                    both = sorted(set(unseen) & set(seen))
                    if both:
                        raise DataError(
                            f"{len(both)} {column}s of the {part} part are in {where} too",
                            source="split",
                            found=", ".join(both[:3]),
                        )
        return self

    def sizes(self) -> pd.DataFrame:
        """Return trials, participants and items of each part and regime."""
        groups = self.table.groupby(["part", "regime"], dropna=False, sort=False)
        found = groups.agg(
            trials=("trial", "size"),
            participants=("participant", "nunique"),
            items=("item", "nunique"),
        )
        return found.reset_index().sort_values(
            "part", key=lambda p: p.map(PARTS.index), kind="stable", ignore_index=True
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the split with its digest as JSON; never over another split.

        Raises
        ------
        DataError
            The file holds another split.
        """
        path = Path(path)
        if path.exists() and Split.load(path).digest != self.digest:
            raise DataError(
                "the file holds another split",
                source=path,
                hint="Choose another name, or remove it",
            )
        rows = self.table[list(COLUMNS)].astype(object).where(self.table.notna(), None)
        content = {
            "format": FORMAT,
            "digest": self.digest,
            "how": self.how,
            "lost": self.lost.to_frame().to_dict("records"),
            "columns": list(COLUMNS),
            "rows": rows.to_numpy().tolist(),
        }
        write_json(path, {**content, "checksum": _checksum(content)})
        return path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Split:
        """Read a split and check it against its digest.

        Raises
        ------
        DataError
            No split file, or its rows were changed.
        """
        path = Path(path)
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"not a split file ({error})", source=path) from None
        if not isinstance(raw, dict) or raw.get("format") != FORMAT:
            raise DataError("not a split file", source=path, expected=f"format {FORMAT!r}")
        if "digest" not in raw:
            raise DataError("the split file is damaged (no digest)", source=path)
        try:
            table = _typed(pd.DataFrame(raw["rows"], columns=raw["columns"]))
            found = cls(table, dict(raw["how"]), LossLog(Loss(**x) for x in raw["lost"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the split file is damaged ({error})", source=path) from None
        content = {k: v for k, v in raw.items() if k != "checksum"}
        if found.digest != raw["digest"] or _checksum(content) != raw.get("checksum"):
            raise DataError(
                "the split was changed after it was saved",
                source=path,
                expected=str(raw.get("checksum")),
                found=_checksum(content),
            )
        # published folds that were kept as published are no pure regimes, and say so
        return found.check() if found.how.get("pure", True) else found


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    return table.astype(dict.fromkeys(COLUMNS, "str")).sort_values("trial", ignore_index=True)


def kfold(
    data: GazeDataset | pd.DataFrame,
    *,
    by: str = "both",
    folds: int = 5,
    fold: int = 0,
    seed: int = 0,
    stratify: str | None = None,
    item: str | None = None,
) -> Split:
    """Return one of `folds` splits: test is `fold`, validation the next, training the rest.

    Parameters
    ----------
    data : GazeDataset or DataFrame
        A data set, or its trials (see `gazeattn.tables.TRIALS`).
    by : {"reader", "text", "both"}
    folds : int
        At least 3.
    fold : int
        From 0.
    seed : int
    stratify
        Column of a label whose shares the folds should keep (scikit-learn's StratifiedGroupKFold).
        Trials without the label count as a class of their own.
    item
        Column that says what counts as one text or image; None: what the corpus states, such as
        the article where several stimuli are versions or pages of one, else ``"stimulus"``.

    Raises
    ------
    DataError
        Fewer readers or items than folds, a missing value in their column, or one stimulus in
        several items.
    UnknownNameError
        `by` or a column is not known.
    """
    if by not in BY:
        raise UnknownNameError("way to split", by, BY)
    _whole(folds=folds, fold=fold, seed=seed)
    if not 3 <= folds or not 0 <= fold < folds:
        raise DataError(
            "a split needs three folds or more, and one of them as test",
            expected=f"folds of 3 or more and fold from 0 to {max(folds, 3) - 1}",
            found=f"folds={folds}, fold={fold}",
        )
    trials, item, dataset = _source(data, item)
    table = _trials(trials, item, stratify)
    order = table["label"] if stratify else None
    axes = {}
    for axis, column in (("reader", "participant"), ("text", "item")):
        if by in (axis, "both"):
            numbers = _fold_numbers(table[column], order, folds, seed, axis)
            axes[axis] = np.select([numbers == fold, numbers == (fold + 1) % folds], [2, 1], 0)
    how = {"dataset": dataset, "by": by, "folds": folds, "fold": fold, "seed": seed}
    return _assemble(table, axes, {**how, "stratify": stratify, "item": item})


def split(
    data: GazeDataset | pd.DataFrame,
    *,
    by: str = "both",
    shares: Sequence[float] = (0.6, 0.2, 0.2),
    seed: int = 0,
    item: str | None = None,
) -> Split:
    """Return one split with given shares of readers or items in training, validation and test.

    Parameters
    ----------
    data, by, seed, item
        See `kfold`.
    shares : three numbers
        Of the readers, of the items, or of both; they sum to 1.
    """
    if by not in BY:
        raise UnknownNameError("way to split", by, BY)
    if len(shares) != 3 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-9:
        raise DataError("shares must be three numbers that sum to 1", found=str(list(shares)))
    _whole(seed=seed)
    trials, item, dataset = _source(data, item)
    table = _trials(trials, item, None)
    axes = {}
    for axis, column in (("reader", "participant"), ("text", "item")):
        if by in (axis, "both"):
            units = np.array(sorted(table[column].unique()))
            shuffled = np.random.default_rng([seed, BY.index(axis)]).permutation(len(units))
            bounds = np.round(np.cumsum(shares) * len(units)).astype(int)
            part = np.searchsorted(bounds, np.argsort(shuffled), side="right")
            sizes = np.bincount(part, minlength=3)
            empty = [PARTS[k] for k in range(3) if shares[k] and not sizes[k]]
            if empty:
                raise DataError(
                    f"{len(units)} {axis}s are too few for a share in each part",
                    found=f"no {axis} for {', '.join(empty)}",
                )
            axes[axis] = part[np.searchsorted(units, table[column])]
    how = {"dataset": dataset, "by": by, "shares": list(shares), "seed": seed, "item": item}
    return _assemble(table, axes, how)


def published(
    data: GazeDataset | pd.DataFrame,
    folds: pd.DataFrame | None = None,
    *,
    fold: str | int,
    item: str | None = None,
    pure: bool = True,
) -> Split:
    """Return a published split.

    Parameters
    ----------
    data
        See `kfold`.
    folds : DataFrame
        Columns trial, fold, part, regime as published, in the names used here; None: those of
        the data set (``reports["folds"]``).
    fold
        Which of them.
    item
        See `kfold`.
    pure : bool
        Drop and count the trials that their regime does not allow, such as trials of validation
        readers in the test regime ``unseen_text``. False keeps the published parts as they are,
        to compare with published figures; the split is then not checked for leakage.
    """
    trials, item, dataset = _source(data, item)
    if folds is None:
        if not isinstance(data, GazeDataset) or "folds" not in data.reports:
            raise DataError(
                "no published folds", source=dataset or "data", expected="a table of folds"
            )
        folds = data.reports["folds"]
    rows = folds[as_text(folds["fold"]) == str(fold)]
    if not len(rows):
        raise UnknownNameError("fold", str(fold), sorted(as_text(folds["fold"]).unique()))
    table = _trials(trials, item, None)
    table = table.merge(rows[["trial", "part", "regime"]], on="trial", how="left")
    lost = LossLog()
    unknown = table["part"].isna()
    lost.add("split", "dropped", "in no part of the published fold", int(unknown.sum()), "trials",
             table.loc[unknown, "trial"])  # fmt: skip
    absent = ~rows["trial"].isin(table["trial"])
    lost.add("split", "note", "in the published fold but not in the data", int(absent.sum()),
             "trials", rows.loc[absent, "trial"])  # fmt: skip
    table.loc[unknown, "part"] = "dropped"
    if pure:
        train = table[table["part"] == "train"]
        for column, seen_in in (("participant", "unseen_text"), ("item", "unseen_reader")):
            mixed = table["regime"].eq(seen_in) & ~table[column].isin(train[column])
            table.loc[mixed, ["part", "regime"]] = ["dropped", None]
            lost.add(
                "split",
                "dropped",
                f"{seen_in}, but their {column} is not in training either",
                int(mixed.sum()),
                "trials",
            )
    how = {"dataset": dataset, "published": True, "fold": fold, "pure": pure, "item": item}
    found = Split(_typed(table[list(COLUMNS)]), how, lost)
    return found.check() if pure else found


def _source(data: GazeDataset | pd.DataFrame, item: str | None) -> tuple[pd.DataFrame, str, str]:
    """Return the trials, the column of items and the name of the data set."""
    if isinstance(data, GazeDataset):
        return data.trials, item or data.info.get("item", "stimulus"), data.name
    return data, item or data.attrs.get("item", "stimulus"), ""


def _whole(**numbers: Any) -> None:
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise DataError(f"{name} must be a whole number", found=repr(value))


def _trials(trials: pd.DataFrame, item: str, stratify: str | None) -> pd.DataFrame:
    """Return trial, participant, item and label, sorted by trial: the order of rows is no input."""
    for column in (item, *([stratify] if stratify else [])):
        if column not in trials:
            raise UnknownNameError("column of the trials", column, list(map(str, trials.columns)))
    trials = trials.reset_index(drop=True)
    table = pd.DataFrame(
        {"trial": as_text(trials["trial"]), "participant": as_text(trials["participant"])}
    )
    table["item"] = as_text(trials[item])
    if stratify:
        table["label"] = as_text(trials[stratify]).fillna("")
    missing = table[["participant", "item"]].isna()
    if missing.to_numpy().any():
        row = int(np.flatnonzero(missing.any(axis=1))[0])
        raise DataError(
            "a trial without reader or item cannot be split",
            source="trials",
            row=row,
            found=repr(table["trial"].iloc[row]),
        )
    if item != "stimulus" and "stimulus" in trials:
        items = table["item"].groupby(as_text(trials["stimulus"]).reset_index(drop=True)).nunique()
        if (items > 1).any():
            raise DataError(
                f"one stimulus belongs to several items of column {item!r}: it could be in "
                "training and in the test",
                source="trials",
                found=f"stimulus {items.index[items > 1][0]!r}",
                hint="An item is a stimulus or a group of stimuli",
            )
    return table.sort_values("trial", ignore_index=True)


def _fold_numbers(
    groups: pd.Series, labels: pd.Series | None, folds: int, seed: int, axis: str
) -> np.ndarray:
    """Return the fold of every row; rows of one group share it."""
    n = groups.nunique()
    if n < folds:
        raise DataError(
            f"fewer {axis}s than folds", expected=f"at least {folds} {axis}s", found=n,
            hint="Use fewer folds, or split by the other axis; item='stimulus' takes every "
            "stimulus for itself" if axis == "text" else "Use fewer folds, or split by text",
        )  # fmt: skip
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold  # slow to import

    axis_seed = 2 * seed + BY.index(axis)  # readers and items are shuffled on their own
    cls = GroupKFold if labels is None else StratifiedGroupKFold
    splitter = cls(n_splits=folds, shuffle=True, random_state=axis_seed)
    numbers = np.empty(len(groups), dtype=np.int64)
    y = np.zeros(len(groups)) if labels is None else labels.to_numpy()
    for number, (_, test) in enumerate(splitter.split(np.zeros(len(groups)), y, groups)):
        numbers[test] = number
    return numbers


def _assemble(table: pd.DataFrame, axes: Mapping[str, np.ndarray], how: dict[str, Any]) -> Split:
    """Put the parts of readers and items (0 training, 1 validation, 2 test) together."""
    nothing = np.zeros(len(table), dtype=np.int64)
    reader, text = axes.get("reader", nothing), axes.get("text", nothing)
    mixed = (reader > 0) & (text > 0) & (reader != text)
    part = np.where(mixed, 3, np.maximum(reader, text))
    regime = np.select(
        [mixed | (part == 0), text == 0, reader == 0], ["", REGIMES[0], REGIMES[1]], REGIMES[2]
    )
    table = table.assign(part=np.array(PARTS)[part], regime=pd.Series(regime, dtype="str"))
    table["regime"] = table["regime"].where(table["regime"] != "")
    lost = LossLog()
    reason = "reader and item are in different held-out parts"
    lost.add("split", "dropped", reason, int(mixed.sum()), "trials", table.loc[mixed, "trial"])
    wanted = how.get("shares", (1, 1, 1))
    empty = [p for k, p in enumerate(PARTS[:3]) if wanted[k] and not (part == k).any()]
    if empty:
        raise DataError(
            f"no trial is left for {', '.join(empty)}",
            source="split",
            found=f"{len(table)} trials, {int(mixed.sum())} of them between parts",
            hint="Not every reader saw every item: split by reader or by text alone",
        )
    return Split(_typed(table[list(COLUMNS)]), how, lost).check()
