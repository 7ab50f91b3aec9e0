"""Tasks: labels, items, what is left out, and who is tested on what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.datamodules.reading import ReadingTrials
from gazeattn.datamodules.reading_tasks import (
    ITEM,
    ReadingTask,
    n_folds,
    target_of,
    task_split,
    task_trials,
)
from gazeattn.datasets import GazeDataset
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog

from .made_readings import dataset, many, words

NAN = np.nan
PLAIN = {"name": "t", "kind": "classification", "label": "label"}
pytestmark = pytest.mark.filterwarnings("ignore:.*fixations.* lie on a word:UserWarning")


def task(**options: Any) -> ReadingTask:
    return ReadingTask.of({**PLAIN, **options})


def losses(log: LossLog) -> dict[str, int]:
    return {x.reason: x.count for x in log if x.step == "task"}


# Options


def test_options() -> None:
    made = task(classes=["a", "b"], join=["participant", "book"], folds=4)
    assert made.classes == ("a", "b") and made.join == ("participant", "book") and made.folds == 4
    with pytest.raises(UnknownNameError, match="did you mean 'label'"):
        task(labels="x")
    with pytest.raises(UnknownNameError, match="did you mean 'classification'"):
        task(kind="classificaton")
    with pytest.raises(UnknownNameError, match="reader"):
        task(level="readers")
    with pytest.raises(UnknownNameError, match="did you mean 'auroc'"):
        task(metric="aurok")
    assert task(metric="r2_reader", kind="regression").metric == "r2_reader"
    with pytest.raises(UnknownNameError, match="did you mean 'published'"):
        task(folds="publisched")
    for key in ("name", "kind", "label"):
        with pytest.raises(DataError, match=key):
            ReadingTask.of({k: v for k, v in PLAIN.items() if k != key})


# Targets


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        (pd.Series(["b", "a", None, "b"]), {"classes": ["a", "b"]}, [1, 0, NAN, 1]),
        (pd.Series([2.0, 0.0, NAN, 1.0]), {"classes": [0, 1, 2]}, [2, 0, NAN, 1]),
        (pd.Series([2, None, 0], dtype="Int64"), {"classes": ["0", "2"]}, [1, NAN, 0]),
        (pd.Series([True, False, None], dtype="boolean"), {}, [1, 0, NAN]),
        (pd.Series([True, False]), {}, [1, 0]),
        (pd.Series([True, None, False], dtype=object), {}, [1, NAN, 0]),
        (pd.Series([True, None], dtype="boolean"), {"classes": ["False", "True"]}, [1, NAN]),
        (pd.Series([1.0, 2.0, 2.5, NAN]), {"above": 2}, [0, 0, 1, NAN]),
        (pd.Series([1.5, NAN, -2]), {"kind": "regression"}, [1.5, NAN, -2]),
        (pd.Series([], dtype="float64"), {}, []),
    ],
)
def test_targets(values: pd.Series, options: dict[str, Any], expected: list[float]) -> None:
    np.testing.assert_array_equal(target_of(values, task(**options)), expected)


def test_targets_that_are_none() -> None:
    with pytest.raises(DataError, match="none of the classes") as error:
        target_of(pd.Series(["a", None, "c", "d"]), task(classes=["a", "b"]))
    assert error.value.row == 2 and error.value.found == "'c'" and "2 values" in str(error.value)
    with pytest.raises(DataError, match="no number"):
        target_of(pd.Series(["a", "b"]), task())


# Trials


def test_trials_of_a_task() -> None:
    data = many(9)
    data.trials.loc[[2, 5], "label"] = None
    data.trials["asked"] = ["Why?", None] * 4 + [None]
    lost = LossLog()
    made = task_trials(task(question="asked"), data, lost=lost)
    table = made.table
    assert len(made) == 9 and made.info["task"] == "t"
    np.testing.assert_array_equal(table["y"], [0, 1, NAN, 1, 0, NAN, 0, 1, 0])
    assert losses(lost) == {"trials without label: neither trained on nor scored": 2}
    assert table[ITEM].tolist() == table["stimulus"].tolist()
    assert table["question"].iloc[0] == "Why?" and table["question"].notna().sum() == 4
    assert task_trials(task(), data).table["question"].isna().all()
    assert task_trials(task(item="participant"), data).table[ITEM].tolist() == list(
        data.trials["participant"]
    )
    data.info["item"] = "score"
    assert task_trials(task(), data).table[ITEM].nunique() == 9
    for bad in ({"label": "labels"}, {"item": "items"}, {"question": "question_asked"}):
        with pytest.raises(UnknownNameError):
            task_trials(task(**bad), data)


def test_where() -> None:
    data = many(12)
    data.trials["kind"] = ["x", "y", None] * 4
    data.trials["flag"] = pd.array([True, False] * 6, dtype="boolean")
    lost = LossLog()
    made = task_trials(task(where={"kind": ["x", "y"], "flag": [True]}), data, lost=lost)
    kept = data.trials[data.trials["kind"].notna() & data.trials["flag"]]
    assert made.trial.tolist() == kept["trial"].tolist() and len(made) == 4
    assert losses(lost) == {"kind is not x or y": 4, "flag is not True": 4}
    whole = task_trials(task(), data)
    np.testing.assert_array_equal(made.fixations, whole.named(made.trial).fixations)
    assert len(task_trials(task(where={"kind": "x"}), data)) == 4
    with pytest.raises(UnknownNameError, match="did you mean 'kind'"):
        task_trials(task(where={"kinds": ["x"]}), data)
    with pytest.raises(DataError, match="no trial is left"):
        task_trials(task(where={"kind": ["z"]}), data)


def test_prefix_is_passed_on() -> None:
    made = task_trials(task(), many(9), share=0.5, by="fixations")
    assert made.info["share"] == 0.5
    assert made.lengths.tolist() == np.ceil(task_trials(task(), many(9)).lengths / 2).tolist()


def with_items() -> GazeDataset:
    """Return three readings, of which one has two questions and one has none."""
    data = many(9)
    data = replace(data, trials=data.trials.assign(book=data.trials["stimulus"]))
    items = pd.DataFrame(
        {
            "participant": ["P1", "P0", "P1", "P9", "P2"],
            "book": ["A", "B", "A", "A", "C"],
            "correct": pd.array([True, False, False, True, None], dtype="boolean"),
            "asked": ["One?", "Two?", "Three?", "Four?", "Five?"],
        }
    )
    return replace(data, reports={"items": items})


def test_items() -> None:
    data, lost = with_items(), LossLog()
    items = task(label="correct", items="items", question="asked", item="book")
    made = task_trials(items, data, lost=lost)
    assert made.trial.tolist() == ["P1_A:1", "P0_B:1", "P1_A:2", "P2_C:1"]
    assert made.table["reading"].tolist() == ["P1_A", "P0_B", "P1_A", "P2_C"]
    np.testing.assert_array_equal(made.table["y"], [1, 0, 0, NAN])
    assert made.table["question"].tolist() == ["One?", "Two?", "Three?", "Five?"]
    assert losses(lost) == {
        "items without a reading": 1, "readings without a row of items": 6,
        "trials without correct: neither trained on nor scored": 1,
    }  # fmt: skip
    # the same gaze twice
    a, b = made.take([0]), made.take([2])
    np.testing.assert_array_equal(a.fixations, b.fixations)
    np.testing.assert_array_equal(a.gaze, b.gaze)
    assert len(made.texts) == 3


def test_items_that_do_not_fit() -> None:
    data = with_items()
    options = {"label": "correct", "item": "book"}
    with pytest.raises(UnknownNameError, match="did you mean 'items'"):
        task_trials(task(**options, items="item"), data)
    table = data.reports["items"]
    for wrong, match in (
        (table.drop(columns="participant"), "name their reader"),
        (table.drop(columns="book"), "several readings"),
        (table.assign(book="Z"), "belongs to a reading"),
    ):
        with pytest.raises(DataError, match=match):
            task_trials(task(**options, items="items"), replace(data, reports={"items": wrong}))


def test_joined_screens() -> None:
    tables = [words(), words("B", ["Here", "it", "goes"])]
    facts = {f"P1_{s}": {"book": "k", "trial_index": i, "label": 1} for i, s in enumerate("AB")}
    path = ((50, 25, 0, 100), (150, 25, 150, 100))
    data = dataset({"P1_A": path, "P1_B": path}, facts, tables)
    made = task_trials(task(join=["participant", "book"], item="book"), data)
    assert made.trial.tolist() == ["P1_k"] and made.word.tolist() == [0, 1, 6, 7]
    assert made.table["y"].tolist() == [1] and made.table[ITEM].tolist() == ["k"]


# Folds


def readings(n_readers: int = 12, n_items: int = 8) -> ReadingTrials:
    """Return trials of all readers with all items; some without a target."""
    rows = [
        {
            "trial": f"r{r}:i{i}",
            "participant": f"r{r}",
            ITEM: f"i{i}",
            "text": "A",
            "y": float(r % 2),
        }
        for r in range(n_readers)
        for i in range(n_items)
    ]
    table = pd.DataFrame(rows)
    table["y"] = table["y"].astype(float)
    table.loc[::17, "y"] = NAN
    n = len(table)
    nothing = np.zeros((0, 1))
    return ReadingTrials(
        table, nothing, np.zeros(0, int), np.zeros(n + 1, int), nothing, np.zeros(n + 1, int), {}
    )


@pytest.mark.parametrize("by", ["both", "reader", "text"])
def test_own_folds_are_pure(by: str) -> None:
    made, own = readings(), task(folds=4, by=by)
    known = set(made.table["trial"][made.table["y"].notna()])
    tested: list[str] = []
    assert n_folds(own) == 4
    for fold in range(4):
        split = task_split(own, made, fold)
        t = split.table
        assert set(t["trial"]) == known
        train, test = t[t["part"] == "train"], t[t["part"] == "test"]
        rest = t[t["part"].isin(["train", "val"])]
        tested += test["trial"].tolist()
        if by in ("reader", "both"):
            new = test[test["regime"].isin(["unseen_reader", "unseen_both"])]
            assert len(new) and not set(new["participant"]) & set(train["participant"])
        if by in ("text", "both"):
            new = test[test["regime"].isin(["unseen_text", "unseen_both"])]
            assert len(new) and not set(new["item"]) & set(train["item"])
        if by != "both":
            column = "participant" if by == "reader" else "item"
            assert not set(test[column]) & set(rest[column])
        assert split.digest == task_split(own, made, fold).digest
        # both labels are in training and in test
        y = made.table.set_index("trial")["y"]
        assert set(y[train["trial"]]) == set(y[test["trial"]]) == {0.0, 1.0}
    if by != "both":
        assert sorted(tested) == sorted(known)  # each once
    other = task_split(replace(own, seed=1), made, 0)
    assert other.digest != task_split(own, made, 0).digest
    for bad in (-1, 4):
        with pytest.raises(UnknownNameError, match="fold"):
            task_split(own, made, bad)


def test_published_folds_are_kept() -> None:
    made = readings(2, 2)
    folds = pd.DataFrame(
        {
            "fold": ["0"] * 3 + ["1"],
            "trial": ["r0:i0", "r0:i1", "r1:i0", "r0:i0"],
            "part": ["train", "test", "val", "test"],
            "regime": [None, "unseen_text", "unseen_reader", "unseen_both"],
        }
    )
    split = task_split(task(), made, 0, folds)
    assert split.table["part"].tolist() == ["train", "test", "val", "dropped"]
    assert split.trials("test", "unseen_text") == ["r0:i1"]
    assert [x.count for x in split.lost if x.kind == "dropped"] == [1]
    assert n_folds(task(), folds) == 2
    with pytest.raises(UnknownNameError, match="fold"):
        task_split(task(), made, 2, folds)
    for call in (lambda: task_split(task(), made, 0), lambda: n_folds(task())):
        with pytest.raises(DataError, match="no published folds"):
            call()


def test_published_folds_of_copco_to_the_row(shared_data: Path) -> None:
    """EyeBench's fold i tests the readers and items of its list i + 1, and validates on list i."""
    from gazeattn.datasets.copco import _folds
    from gazeattn.datasets.corpus import corpus

    folder = shared_data / "copco"
    if not (folder / "eyebench_folds").is_dir():
        pytest.skip("the published folds are not here")
    folds = _folds(folder, corpus("copco"), LossLog())
    assert folds is not None
    every = folds["trial"].unique()
    table = pd.DataFrame({"trial": every, "text": "A", "y": 0.0})
    table[["participant", ITEM]] = table["trial"].str.split("_", n=1, expand=True)
    n = len(table) + 1
    nothing = np.zeros((0, 1))
    made = ReadingTrials(
        table, nothing, np.zeros(0, int), np.zeros(n, int), nothing, np.zeros(n, int), {}
    )
    assert n_folds(task(), folds) == 4
    listed = {
        kind: [
            set(
                pd.read_csv(folder / f"eyebench_folds/{kind}_fold_{k}.csv", header=None, dtype=str)[
                    0
                ]
            )
            for k in range(4)
        ]
        for kind in ("subjects", "items")
    }
    names = {
        "seen_subject_unseen_item": "unseen_text", "unseen_subject_seen_item": "unseen_reader",
        "unseen_subject_unseen_item": "unseen_both",
    }  # fmt: skip
    tested: list[str] = []
    for fold in range(4):
        raw = pd.read_csv(
            folder / f"eyebench_folds/fold_{fold}_trial_ids_by_regime.csv.gz", dtype=str
        ).set_index("unique_trial_id")
        split = task_split(task(), made, fold, folds)
        t = split.table.set_index("trial")
        assert (t["part"] == "dropped").sum() == len(every) - len(raw)
        kept = t[t["part"] != "dropped"]
        assert set(kept.index) == set(raw.index) and raw.index.is_unique
        wanted = raw.loc[kept.index, "regime"].str.split("_", n=1, expand=True)
        assert (kept["part"] == wanted[0]).all()
        regime = wanted[1].map(names)
        assert (kept["regime"].fillna("") == regime.fillna("")).all()
        assert set(wanted[1]) == {*names, "train"}
        for part, k in (("test", (fold + 1) % 4), ("val", fold)):
            rows = raw.loc[kept.index[kept["part"] == part]]
            regimes = kept.loc[rows.index, "regime"]
            new = rows[regimes.isin(["unseen_reader", "unseen_both"])]
            assert set(new["participant_id"]) <= listed["subjects"][k]
            new = rows[regimes.isin(["unseen_text", "unseen_both"])]
            assert set(new["speech_id"]) <= listed["items"][k]
        tested += kept.index[kept["regime"].eq("unseen_both") & kept["part"].eq("test")].tolist()
    assert len(tested) == len(set(tested))
