"""Nothing of the test part reaches what is trained: real readings, changed where tested."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gazeattn.datamodules.reading_tasks import ReadingTask
from gazeattn.datasets.splits import Split
from gazeattn.errors import DataError
from gazeattn.experiments.building import read_model, sized
from gazeattn.experiments.reading_benchmark import tasks_of
from gazeattn.experiments.reading_data import TaskData, task_data
from gazeattn.experiments.reading_fitting import fit, fit_and_predict, parts_of, predictions
from gazeattn.models.reading.base import ReadingNetwork

FOLD = 1


@dataclass(frozen=True)
class Fixed(TaskData):
    """Data whose folds stay as they were: own folds are balanced by the labels of all trials."""

    origin: TaskData | None = None

    def split(self, fold: int) -> Split:
        return (self.origin or super()).split(fold)


@pytest.fixture(scope="module")
def whole(shared_data: Path) -> TaskData:
    task = tasks_of("code_comprehension")["accuracy"]
    assert isinstance(task, ReadingTask)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAZEATTN_SHARED", str(shared_data))
        return task_data(task, {"name": "code_comprehension"}, keep=False)


def elsewhere(data: TaskData) -> TaskData:
    """Return the same trials with everything that was recorded in test trials changed."""
    trials = data.trials
    test = data.split(FOLD).table
    names = test.loc[test["part"] == "test", "trial"]
    hit = np.isin(trials.trial, names)
    assert 10 < hit.sum() < len(trials) / 2
    fixation = hit[trials.of]
    word = trials.word.copy()
    word[fixation] = np.where(word[fixation] < 0, -1, 0)
    fixations, gaze = trials.fixations.copy(), trials.gaze.copy()
    fixations[fixation] = 3 * fixations[fixation] + 1000
    rows = np.repeat(hit, trials.n_words)
    gaze[rows] = np.where(np.isnan(gaze[rows]), 7.0, 5 * gaze[rows] + 100)
    y = trials.table["y"].to_numpy(dtype=float, na_value=np.nan)
    table = trials.table.assign(y=np.where(hit, 1 - y, y))
    changed = replace(trials, table=table, fixations=fixations, word=word, gaze=gaze)
    same = {f.name: getattr(data, f.name) for f in fields(TaskData)}
    return Fixed(**{**same, "trials": changed}, origin=data)


def test_a_refit_knows_validation_and_no_more(whole: TaskData, tmp_path: Path) -> None:
    config = sized(read_model("extra_trees"), "tiny")
    plain = fit_and_predict(config, whole, FOLD, tmp_path / "plain")
    again = fit_and_predict(config, whole, FOLD, tmp_path / "again", refit=True)
    assert set(plain["part"]) == {"val", "test"} and set(again["part"]) == {"test"}
    tested = plain[plain["part"] == "test"].reset_index(drop=True)
    pd.testing.assert_frame_equal(again.drop(columns="p"), tested.drop(columns="p"))
    assert not np.allclose(again["p"], tested["p"])
    # what is tested changes nothing of it either, and what is validated does
    fitted = [fit(config, d, FOLD, tmp_path / f"{k}", refit=True)
              for k, d in enumerate((whole, elsewhere(whole)))]  # fmt: skip
    assert fitted[0].features.digest == fitted[1].features.digest
    parts = parts_of(whole, whole.split(FOLD), refit=True)
    table = whole.split(FOLD).table
    known = set(table.loc[table["part"].isin(["train", "val"]), "trial"])
    assert set(parts["train"].trial) <= known and not len(parts["val"])
    assert len(parts["train"]) == whole.trials.table.set_index("trial")["y"].loc[
        sorted(known)].notna().sum()  # fmt: skip


def test_refits_that_are_refused(whole: TaskData, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="stops by its validation readings"):
        fit(sized(read_model("ahn_cnn"), "tiny"), whole, FOLD, tmp_path, refit=True)
    table = whole.split(FOLD).table.copy()
    new = table["regime"].isin(["unseen_reader", "unseen_both"]) & (table["part"] == "test")
    reader = table["trial"].map(whole.trials.table.set_index("trial")["participant"])
    of = reader[new].value_counts()
    first = table.index[new & (reader == of.index[0])][0]
    assert of.iloc[0] > 1
    table.loc[first, ["part", "regime"]] = ["val", "unseen_reader"]
    with pytest.raises(DataError, match="that validation has"):
        parts_of(whole, replace(whole.split(FOLD), table=table), refit=True)


@pytest.mark.parametrize(
    "name", ["extra_trees", "logistic_adjusted", "svm", "reading_ensemble", "gaze_set", "ahn_cnn",
             pytest.param("beyelstm_notext", marks=pytest.mark.slow), "scanpath_image"],
)  # fmt: skip
def test_changing_test_trials_changes_nothing_that_is_trained(
    name: str, whole: TaskData, tmp_path: Path
) -> None:
    config = sized(read_model(name), "tiny")
    found, seen, held, tested = [], [], [], []
    for label, data in (("a", whole), ("b", elsewhere(whole))):
        fitted = fit(config, data, FOLD, tmp_path / label, accelerator="cpu")
        parts = parts_of(data, data.split(FOLD))
        found.append(fitted)
        seen.append([fitted.inputs(parts[p]) for p in ("train", "val")])
        held.append(predictions(fitted, data, FOLD, 0, ("val",)))
        tested.append(predictions(fitted, data, FOLD, 0, ("test",)))
    one, two = found
    assert one.features.digest == two.features.digest
    for a, b in zip(*seen, strict=True):
        assert a.y.tobytes() == b.y.tobytes()
        assert [a.scaled[k].tobytes() for k in a.scaled] == [
            b.scaled[k].tobytes() for k in b.scaled
        ]
    pd.testing.assert_frame_equal(*held)
    if isinstance(one.model, ReadingNetwork):
        other = two.model.state_dict()
        assert all(v.equal(other[k]) for k, v in one.model.state_dict().items())
    # the change was one that a model sees
    assert not np.array_equal(tested[0]["y"], tested[1]["y"])
    assert not np.allclose(tested[0]["p"], tested[1]["p"])
