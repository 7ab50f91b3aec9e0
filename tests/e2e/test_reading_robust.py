"""Damaged runs, own tables with labels, ensembles, and runs of a benchmark, at the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gazeattn.errors import DataError, GazeattnError
from gazeattn.experiments import explain as explaining
from gazeattn.experiments.reading_predict import Options, predict_readings
from gazeattn.experiments.runs import begin

from .test_reading_models import SLOW, run

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def own_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve readers of four texts; those of group b look twice as long."""
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    words, fixations, trials = [], [], []
    for s in range(4):
        for k in range(12):
            place = {"left": 50 * k, "right": 50 * k + 40, "top": 100, "bottom": 130}
            words.append({"stimulus": f"T{s}", "word": k, "text": f"word{k}", **place})
    for p in range(12):
        for s in range(4):
            trial = f"P{p:02d}_T{s}"
            trials.append({"trial": trial, "participant": f"P{p:02d}", "stimulus": f"T{s}",
                           "group": "ab"[p % 2], "score": 3.5 * (p % 2) + p / 100})  # fmt: skip
            for k in range(12):
                long = 200.0 * (1 + p % 2) + rng.normal(0, 20)
                fixations.append({"trial": trial, "participant": f"P{p:02d}",
                                  "stimulus": f"T{s}", "x": 50 * k + 20, "y": 115,
                                  "duration": round(long, 1)})  # fmt: skip
    pd.DataFrame(words).to_csv(folder / "W.csv", index=False)
    pd.DataFrame(fixations).to_csv(folder / "F.csv", index=False)
    pd.DataFrame(trials).to_csv(folder / "T.csv", index=False)
    return folder


FILES = ["dataset.fixations=F.csv", "dataset.words=W.csv", "dataset.trials=T.csv"]


@pytest.fixture(scope="module")
def own_run(own_tables: Path, shared_data: Path) -> Path:
    text = run(
        ["train", "experiment=table/own", *FILES, "dataset.labels=[group,score]",
         "task.label=group", "task.classes=[a,b]", "task.folds=3", "size=tiny",
         "hydra.run.dir=run"],
        own_tables, shared_data,
    )  # fmt: skip
    assert "auroc" in text
    return own_tables / "run"


def test_a_label_of_ones_own_table_is_learned(own_run: Path) -> None:
    found = pd.read_parquet(own_run / "results.parquet").set_index("metric")
    assert found.loc["auroc", "value"].max() == 1  # group b looks twice as long
    page = (own_run / "report.html").read_text(encoding="utf-8")
    assert "numbers mean nothing" in page


@pytest.mark.slow
def test_a_number_is_learned_too_and_filtered(own_tables: Path, shared_data: Path) -> None:
    text = run(
        ["train", "experiment=table/own", *FILES, "dataset.labels=[group,score]",
         "task.label=score", "task.kind=regression", "task.metric=r2", "task.folds=3",
         "+task.where.group=[b]", "size=tiny", "hydra.run.dir=number"],
        own_tables, shared_data,
    )  # fmt: skip
    assert "r2" in text
    lost = pd.read_csv(own_tables / "number" / "lost.csv")
    assert lost["reason"].str.contains("group is not b").any()


@pytest.mark.slow
def test_benchmark_of_ones_own_table(own_tables: Path, shared_data: Path) -> None:
    text = run(
        ["benchmark", "reading", "dataset=table", *FILES, "dataset.labels=[group]",
         "+task={label: group, classes: [a, b], folds: 3}", "models=[extra_trees]", "refit=[]",
         "pooled=[]", "baselines=[majority,reading_speed]", "seeds=[0]", "folds=[0]", "size=tiny",
         "hydra.run.dir=bench"],
        own_tables, shared_data,
    )  # fmt: skip
    assert "own: auroc" in text
    page = (own_tables / "bench" / "own" / "report.html").read_text(encoding="utf-8")
    assert "baseline is as good or better" in page  # speed alone tells the groups apart
    place = own_tables / "bench" / "own" / "runs" / "extra_trees_0_0"
    text = run(["predict", f"model={place}", "dataset=table", "dataset.fixations=F.csv",
                "dataset.words=W.csv", "to=of_bench"], own_tables, shared_data)  # fmt: skip
    assert "probability of group = b" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["dataset.labels=[diagnosis]", "task.label=diagnosis"], "diagnosis"),
        pytest.param(["dataset.labels=[group]"], "task.label=", marks=SLOW),
        pytest.param(["dataset.labels=[group]", "task.label=group"], "classes", marks=SLOW),
        pytest.param(["dataset.labels=[group]", "task.label=group", "task.classes=[a,c]"],
                     "none of the", marks=SLOW),
        pytest.param(["dataset.labels=[group]", "task.label=group", "task.classes=[a,b]",
                      "fold=-1"], "fold", marks=SLOW),
        (["dataset.labels=[group]", "task.label=group", "task.classes=[a,b]", "seed=-1"], "seed"),
        (["dataset.labels=[group]", "task.label=group", "task.classes=[a,b]", "task.folds=3",
          "model.trees=0"], "n_estimators"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named(
    own_tables: Path, shared_data: Path, tmp_path: Path, arguments: list[str], says: str
) -> None:
    text = run(
        ["train", "experiment=table/own", *FILES, "size=tiny", f"hydra.run.dir={tmp_path}/r",
         *arguments],
        own_tables, shared_data, code=2,
    )  # fmt: skip
    assert says in text and "Traceback" not in text


def test_labels_need_a_file_of_trials(own_tables: Path, shared_data: Path, tmp_path: Path) -> None:
    text = run(
        ["train", "experiment=table/own", *FILES[:2], "dataset.labels=[group]",
         "task.label=group", f"hydra.run.dir={tmp_path}/r"],
        own_tables, shared_data, code=2,
    )  # fmt: skip
    assert "trials=FILE" in text


def test_predict_of_new_tables_says_what_p_is_and_what_is_missing(
    own_run: Path, own_tables: Path, shared_data: Path
) -> None:
    table = pd.read_csv(own_tables / "F.csv")
    table["trial"] = "new_" + table["trial"]
    table.loc[table.index[5:9], "duration"] = np.nan
    table.to_csv(own_tables / "new.csv", index=False)
    text = run(
        ["predict", f"model={own_run}", "dataset=table", "dataset.fixations=new.csv",
         "dataset.words=W.csv", "to=new"],
        own_tables, shared_data,
    )  # fmt: skip
    assert "probability of group = b" in text and "new" in text
    lost = pd.read_csv(own_tables / "new" / "lost.csv").set_index("reason")
    named = [r for r in lost.index if "without a duration" in r or "duration" in r]
    assert named and lost.loc[named, "count"].max() == 4
    assert any("predicted, not scored" in r for r in lost.index)
    assert not any("trained on" in r for r in lost.index)


@pytest.mark.parametrize(
    "name", ["features.json", "config.yaml", "trained.json", "split.json", "run.yaml"]
)
@pytest.mark.parametrize("how", ["cut", "list", "gone"])
@pytest.mark.parametrize("command", ["explain", "predict"])
def test_damaged_parts_of_a_run_are_named(
    own_run: Path, own_tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    name: str, how: str, command: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(own_tables)
    copy = tmp_path / "run"
    shutil.copytree(own_run, copy)
    path = copy / name
    if how == "gone":
        path.unlink()
        if name == "split.json":
            return  # known readings are then not told from new ones
    else:
        path.write_text(path.read_text()[:30] if how == "cut" else "[1, 2]")
    with pytest.raises(GazeattnError) as error:
        if command == "explain":
            explaining.explain(explaining.Options(str(copy)))
        else:
            predict_readings(Options(str(copy), to=str(tmp_path / "to")))
    assert name in str(error.value) or "run" in str(error.value)
    assert not (tmp_path / "to").exists()


def test_features_of_another_training_are_refused(
    own_run: Path, own_tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_tables)
    copy = tmp_path / "run"
    shutil.copytree(own_run, copy)
    content = json.loads((copy / "features.json").read_text())
    scale = next(s for s in content["scales"].values() if s["centre"])
    scale["centre"][0] += 1.0
    (copy / "features.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="not those of the training"):
        predict_readings(Options(str(copy), to=str(tmp_path / "to")))


def test_a_benchmark_folder_is_no_run_but_has_some(own_run: Path, shared_data: Path) -> None:
    text = run(["predict", f"model={own_run.parent}", "dataset=table"], own_run, shared_data, 2)
    assert "there are some in it" in text and "run" in text


@pytest.fixture(scope="module")
def ensembles(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("ensemble")
    run(
        ["benchmark", "reading", "dataset=code_comprehension", "tasks=[accuracy]", "size=tiny",
         "models=[reading_ensemble]", "refit=[]", "pooled=[]", "baselines=[majority]",
         "seeds=[0]", "folds=[0]", "hydra.run.dir=bench"],
        folder, shared_data,
    )  # fmt: skip
    yield folder


@pytest.mark.slow
def test_an_ensemble_inside_a_benchmark_is_explained(ensembles: Path, shared_data: Path) -> None:
    place = ensembles / "bench" / "accuracy" / "runs" / "reading_ensemble_0_0"
    text = run(["explain", f"model={place}"], ensembles, shared_data)
    assert "without a feature" in text
    features = pd.read_parquet(place / "explained" / "features.parquet")
    assert len(features) > 3 and (features["loss"].abs() > 0).any()
    assert (place / "explained" / "report.html").is_file()


@pytest.mark.slow
def test_damaged_predictions_are_made_again(ensembles: Path, shared_data: Path) -> None:
    place = ensembles / "bench" / "accuracy" / "runs" / "reading_ensemble_0_0"
    before = pd.read_parquet(place / "predictions.parquet")
    (place / "predictions.parquet").write_bytes(b"PAR1 no more")
    run(
        ["benchmark", "reading", "dataset=code_comprehension", "tasks=[accuracy]", "size=tiny",
         "models=[reading_ensemble]", "refit=[]", "pooled=[]", "baselines=[majority]",
         "seeds=[0]", "folds=[0]", "hydra.run.dir=bench"],
        ensembles, shared_data,
    )  # fmt: skip
    pd.testing.assert_frame_equal(pd.read_parquet(place / "predictions.parquet"), before)


def test_pages_of_another_call_are_kept(tmp_path: Path) -> None:
    assert begin(tmp_path, "models: [a]\npublish: null\n") is None
    (tmp_path / "report.html").write_text("first")
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "results.parquet").write_text("table")
    (tmp_path / "runs" / "a_0").mkdir(parents=True)
    (tmp_path / "runs" / "a_0" / "predictions.parquet").write_text("heavy")
    assert begin(tmp_path, "models: [a]\npublish: out\n") is None  # it says the same
    kept = begin(tmp_path, "models: [b]\npublish: null\n")
    assert kept == tmp_path / "earlier" / "1"
    assert (kept / "report.html").read_text() == "first"
    assert (kept / "task" / "results.parquet").read_text() == "table"
    assert "[a]" in (kept / "config.yaml").read_text()
    assert not (kept / "runs").exists() and (tmp_path / "runs" / "a_0").is_dir()
    (tmp_path / "report.html").write_text("second")
    kept = begin(tmp_path, "models: [c]\n")
    assert kept is not None and kept.name == "2" and not (kept / "earlier").exists()


@pytest.mark.slow
def test_some_folds_are_compared_with_the_same_published_ones(
    tmp_path: Path, shared_data: Path
) -> None:
    text = run(
        ["benchmark", "reading", "dataset=copco", "tasks=[dyslexia]", "size=tiny", "folds=[0]",
         "seeds=[0]", "models=[extra_trees]", "pooled=[]", "refit=[]", "baselines=[majority]",
         "hydra.run.dir=b"],
        tmp_path, shared_data,
    )  # fmt: skip
    assert "copco" in text or "dyslexia" in text
    made = json.loads((tmp_path / "b" / "dyslexia" / "copco_dyslexia.json").read_text())
    assert made["paired"]["all"]["against"] and made["folds"] == [0]
    assert {"majority"} == set(made["paired_baselines"])


def test_durations_in_seconds_are_doubted(
    own_run: Path, own_tables: Path, shared_data: Path
) -> None:
    table = pd.read_csv(own_tables / "F.csv")
    table["duration"] = table["duration"] / 1000
    table.to_csv(own_tables / "seconds.csv", index=False)
    text = run(
        ["predict", f"model={own_run}", "dataset=table", "dataset.fixations=seconds.csv",
         "dataset.words=W.csv", "to=seconds"],
        own_tables, shared_data,
    )  # fmt: skip
    lost = pd.read_csv(own_tables / "seconds" / "lost.csv")
    assert lost["reason"].str.contains("unit|second", case=False).any(), lost["reason"].tolist()
    assert "unit" in text or "second" in text


def test_a_refused_benchmark_of_goals_leaves_no_stamp(tmp_path: Path, shared_data: Path) -> None:
    start = ["benchmark", "goals", "dataset=onestop_slice", "size=tiny", "tasks=[selection]",
             "hydra.run.dir=g"]  # fmt: skip
    text = run(start, tmp_path, shared_data, code=2)
    assert "readers" in text
    assert not (tmp_path / "g" / "settings.json").exists()
