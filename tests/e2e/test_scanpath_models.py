"""Train, predict and benchmark from the command line, on real pictures, at the smallest size."""

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
    """Run a command in an empty folder and return what it printed."""
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


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    folder = tmp_path_factory.mktemp("train")
    run(
        ["train", "model=tpp_gaze", "dataset=osie", "size=tiny", "hydra.run.dir=run"],
        folder,
        shared_data,
    )
    return folder / "run"


def test_train_leaves_a_complete_run(trained: Path) -> None:
    names = (
        "config.yaml run.yaml summary.json results.parquet report.html curves.csv split.json "
        "environment.txt run.log lost.csv checkpoints/best.ckpt checkpoints/last.ckpt "
        "figures/curves.svg"
    )
    for name in names.split():
        assert (trained / name).is_file(), name
    rows = pd.read_parquet(trained / "results.parquet").set_index("metric")
    assert {"loss", "information_gain", "nss", "auc"} <= set(rows.index)
    assert rows.loc["nss", "low"] < rows.loc["nss", "value"] < rows.loc["nss", "high"]


def test_predict_draws_over_any_picture(trained: Path, shared_data: Path, tmp_path: Path) -> None:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 255, (333, 517, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "my photo.png")
    text = run(
        ["predict", f"model={trained}", "image=my photo.png", "n=7", "to=out"],
        tmp_path,
        shared_data,
    )
    assert "folder:" in text
    table = pd.read_csv(tmp_path / "out" / "scanpaths.csv")
    assert table["trial"].nunique() == 7
    assert table["x"].between(0, 517).all() and table["y"].between(0, 333).all()
    assert (table["duration"] > 0).all()
    for name in ("scanpaths.svg", "scanpaths.png", "animation.html", "scanpaths.parquet"):
        assert (tmp_path / "out" / name).stat().st_size > 500
    again = run(
        ["predict", f"model={trained}", "image=my photo.png", "to=out"], tmp_path, shared_data, 2
    )
    assert "not empty" in again
    assert (
        "no such"
        in run(["predict", f"model={trained}", "image=none.png"], tmp_path, shared_data, 2).lower()
    )


def test_a_finished_run_is_not_overwritten(trained: Path, shared_data: Path) -> None:
    text = run(["train", f"resume={trained}"], trained.parent, shared_data, 2)
    assert "finished" in text and "Error executing job" not in text
    assert [p.name for p in trained.parent.iterdir()] == ["run"]


def test_benchmark_goes_on_where_it_stopped(shared_data: Path, tmp_path: Path) -> None:
    options = ["benchmark", "scanpath", "dataset=osie", "size=tiny", "seeds=[0]",
               "baselines=[uniform,center_bias,random_scanpath]", "ceilings=[kde_gold]",
               "publish=table"]  # fmt: skip
    run([*options, "models=[]"], tmp_path, shared_data)
    folder = tmp_path / "outputs" / "benchmark" / "scanpath_osie_tiny"
    before = pd.read_parquet(folder / "results.parquet")
    run([*options, "models=[tpp_gaze]"], tmp_path, shared_data)
    rows = pd.read_parquet(folder / "results.parquet")
    assert set(rows["model"]) == {
        "uniform", "center_bias", "random_scanpath", "kde_gold", "human", "tpp_gaze",
    }  # fmt: skip
    pd.testing.assert_frame_equal(rows.iloc[: len(before)], before)
    plain = rows[rows["reference"] == ""].set_index(["model", "metric"])["value"]
    assert plain["center_bias", "information_gain"] == 0
    assert plain["uniform", "log_likelihood"] == pytest.approx(0, abs=1e-5)
    assert plain["uniform", "auc"] == pytest.approx(0.5)
    assert plain["kde_gold", "information_gain"] > 0.5
    assert ("random_scanpath", "information_gain") not in plain.index  # it has no density
    assert ("center_bias", "kl_scanmatch_duration") not in plain.index  # nor this one durations
    table = json.loads((tmp_path / "table" / "scanpath_osie.json").read_text())
    assert len(table["rows"]) == len(rows) and table["size"] == "tiny"
    page = (folder / "report.html").read_text()
    assert "tpp_gaze" in page and 'src="http' not in page
    wrong = run([*options, "models=[tpp_gaz]"], tmp_path, shared_data, 2)
    assert "tpp_gaze" in wrong
