"""Train, explain and compare reading models from the command line, on real readings of code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gazeattn.storage import data_root


def run(arguments: list[str], folder: Path, shared: Path, code: int = 0) -> str:
    """Run a command in a folder and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "gazeattn.cli", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "GAZEATTN_SHARED": str(shared),
            "GAZEATTN_DATA": str(data_root()),
            "OMP_NUM_THREADS": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


ACCURACY = "experiment=code_comprehension/accuracy"
SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    folder = tmp_path_factory.mktemp("train")
    run(
        ["train", ACCURACY, "model=gaze_set", "size=tiny", "fold=1", "hydra.run.dir=run"],
        folder,
        shared_data,
    )
    return folder / "run"


def test_train_leaves_a_complete_run(trained: Path) -> None:
    names = (
        "config.yaml run.yaml features.json trained.json summary.json results.parquet report.html "
        "predictions.parquet split.json environment.txt run.log lost.csv curves.csv "
        "checkpoints/best.ckpt figures/readers.svg figures/readers.png"
    )
    for name in names.split():
        assert (trained / name).is_file(), name
    found = pd.read_parquet(trained / "predictions.parquet")
    assert set(found["part"]) == {"val", "test"} and set(found["fold"]) == {"1"}
    assert found["p"].between(0, 1).all()
    rows = pd.read_parquet(trained / "results.parquet")
    assert {"auroc", "balanced_accuracy", "brier", "calibration_error"} <= set(rows["metric"])
    assert "validation" in rows["split"].iloc[0]
    page = (trained / "report.html").read_text(encoding="utf-8")
    assert "not looked at" in page and "://" not in page.split("<body>")[0]


def test_explain_names_features_and_words(trained: Path, shared_data: Path) -> None:
    text = run(["explain", f"model={trained}"], trained.parent, shared_data)
    assert "without a feature" in text
    features = pd.read_parquet(trained / "explained" / "features.parquet")
    assert {"fixation", "gaze", "text", "trial"} <= set(features["scope"])
    assert (features["loss"].abs() > 0).any()
    words = pd.read_parquet(trained / "explained" / "words.parquet")
    assert len(words) and (words["fixations"] > 0).all() and (words["change"] != 0).any()
    assert (trained / "explained" / "report.html").is_file()


def test_predict_says_the_same_of_known_readings(trained: Path, shared_data: Path) -> None:
    text = run(["predict", f"model={trained}", "to=said"], trained.parent, shared_data)
    assert "readings" in text
    said = pd.read_parquet(trained.parent / "said" / "predictions.parquet").set_index("trial")
    before = pd.read_parquet(trained / "predictions.parquet").set_index("trial")
    np.testing.assert_allclose(said["p"].loc[before.index], before["p"], atol=1e-5)
    assert set(said.loc[before.index, "part"]) == {"val", "test"}
    again = run(["predict", f"model={trained}", "to=said"], trained.parent, shared_data, code=2)
    assert "not empty" in again


def test_benchmark_compares_and_goes_on(tmp_path: Path, shared_data: Path) -> None:
    command = [
        "benchmark", "reading", "dataset=code_comprehension", "tasks=[accuracy]", "size=tiny",
        "models=[extra_trees,ahn_cnn,gaze_set-no_fixations]", "baselines=[majority,item_mean]",
        "pooled=[extra_trees]",
        "seeds=[0]", "folds=[0,1]", "hydra.run.dir=bench", "publish=out",
    ]  # fmt: skip
    text = run(command, tmp_path, shared_data)
    assert "auroc, test" in text and "extra_trees+reader" in text
    made = json.loads((tmp_path / "out" / "code_comprehension.json").read_text(encoding="utf-8"))
    assert made["best"]["model"] in ("extra_trees+val", "extra_trees+val+reader", "ahn_cnn")
    assert {"all", "unseen_text", "unseen_reader"} <= set(made["best"])
    rows = pd.DataFrame(made["rows"])
    chance = rows[(rows["model"] == "majority") & (rows["metric"] == "auroc")]
    assert np.allclose(chance["value"], 0.5)
    assert set(rows.loc[rows["model"] == "gaze_set-no_fixations", "kind"]) == {"variant"}
    held = tmp_path / "bench" / "accuracy" / "runs" / "gaze_set-no_fixations_0_0" / "run.yaml"
    assert "fixation_branch: false" in held.read_text(encoding="utf-8")
    assert made["runs"][0]["command"].startswith("gazeattn benchmark reading")
    fitted = tmp_path / "bench" / "accuracy" / "runs" / "ahn_cnn_1_0"
    stamp = (fitted / "predictions.parquet").stat().st_mtime_ns
    run(command, tmp_path, shared_data)  # everything is there
    assert (fitted / "predictions.parquet").stat().st_mtime_ns == stamp
    assert json.loads((tmp_path / "out" / "code_comprehension.json").read_text()) == made
    # a folder that holds a model in another configuration is not mixed in
    (fitted / "run.yaml").write_text("model: {name: ahn_cnn, channels: 3}\nseed: 0\n")
    text = run(command, tmp_path, shared_data, code=2)
    assert "another configuration" in text


@pytest.mark.slow
def test_early_sees_beginnings(tmp_path: Path, shared_data: Path) -> None:
    text = run(
        ["benchmark", "early", "dataset=code_comprehension", "task=accuracy", "size=tiny",
         "seconds=[5]", "shares=[0.1,1.0]", "models=[extra_trees]", "folds=[0]",
         "by=fixations", "hydra.run.dir=early"],
        tmp_path,
        shared_data,
    )  # fmt: skip
    assert "auroc, test" in text
    rows = pd.read_parquet(tmp_path / "early" / "results.parquet")
    assert set(rows["share"].dropna()) == {0.1, 1.0}
    assert set(rows["seconds"].dropna()) == {5}
    assert (rows["share"].isna() == rows["seconds"].notna()).all()
    assert rows.loc[rows["seconds"] == 5, "elapsed_s"].max() <= 5
    seen = rows.groupby("share")["elapsed_s"].first()
    assert seen[0.1] < 0.2 * seen[1.0]
    for name in ("early", "early_shares"):
        assert (tmp_path / "early" / "figures" / f"{name}.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(
            ["train", "experiment=code_comprehension/acuracy"],
            "code_comprehension/accuracy",
            marks=SLOW,
        ),
        (["train", ACCURACY, "model=tpp_gaze"], "predicts scanpaths"),
        pytest.param(["train", ACCURACY, "fold=9", "model=majority"], "fold", marks=SLOW),
        pytest.param(["train", ACCURACY, "task.labl=x"], "task.label", marks=SLOW),
        (["benchmark", "reading", "dataset=osie"], "copco"),
        pytest.param(
            ["benchmark", "reading", "dataset=copco", "tasks=[dyslexa]"], "dyslexia", marks=SLOW
        ),
        (["benchmark", "early", "dataset=code_comprehension", "task=accuracy", "shares=[0]"],
         "above 0"),
        (["explain"], "model="),
    ],
)  # fmt: skip
def test_mistakes_get_one_clear_line(
    arguments: list[str], says: str, tmp_path: Path, shared_data: Path
) -> None:
    text = run([*arguments, *([] if arguments[0] == "explain" else ["size=tiny"])], tmp_path,
               shared_data, code=2)  # fmt: skip
    assert says in text, text
    assert "Traceback" not in text


@pytest.mark.slow
def test_recipe_of_onestop_runs_on_its_sample(tmp_path: Path, shared_data: Path) -> None:
    run(
        ["train", "experiment=onestop_slice/difficulty", "model=text_only", "size=tiny", "fold=0",
         "hydra.run.dir=run"],
        tmp_path,
        shared_data,
    )  # fmt: skip
    found = pd.read_parquet(tmp_path / "run" / "predictions.parquet")
    # the eyes are not looked at: all readers of a text get the same
    assert (found.groupby("item")["p"].nunique() == 1).all() and len(found) > 5
