"""The command `gazeattn heads` as a person runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gazeattn.downloads import asset_path
from gazeattn.errors import MissingAssetError
from gazeattn.lm.heads import FIGURES, LABELS
from gazeattn.metrics.statistics import benjamini_hochberg


@pytest.fixture(scope="module", autouse=True)
def assets() -> None:
    try:
        for name in ("onestop_sample", "minilm", "smollm2-135m"):
            asset_path(name)
    except MissingAssetError as error:
        pytest.skip(f"run `make assets` first: {error}")


def heads(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gazeattn.cli", "heads", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )


def check(folder: Path, n_heads: int) -> pd.DataFrame:
    table = pd.read_parquet(folder / "heads.parquet")
    assert len(table) == n_heads and not table.duplicated(["layer", "head"]).any()
    assert set(table["label"]) <= set(LABELS) and set(FIGURES) <= set(table)
    assert len(pd.read_csv(folder / "heads.csv")) == n_heads
    there = table[table["value"].notna()]
    assert (np.diff(there["value"]) <= 0).all() and there["rank"].iloc[0] == 1
    expected = benjamini_hochberg(there["p"].to_numpy(float))
    np.testing.assert_allclose(there["q"].to_numpy(float), expected)
    page = (folder / "report.html").read_text()
    assert "is most like readers" in page and "<svg" in page
    assert {p.name for p in (folder / "figures").iterdir()} >= {"labels.png", "likeness.png"}
    return table


@pytest.mark.slow
def test_an_encoder_has_no_probes(tmp_path):
    done = heads("size=tiny", "lm=minilm", "hydra.run.dir=out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    table = check(tmp_path / "out", summary["heads"])
    assert table["induction"].isna().all() and len(summary["missing"]) == 2
    again = heads("size=tiny", "lm=minilm", "hydra.run.dir=out", cwd=tmp_path)
    assert again.returncode == 2 and "overwrite" in again.stderr


@pytest.mark.slow
def test_a_decoder(tmp_path):
    done = heads("size=tiny", "probes.retrieval_repeats=3", "hydra.run.dir=out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = check(tmp_path / "out", 270)
    assert table["induction"].max() > 0.7
    assert {"induction", "first", "previous"} <= set(table["label"])


@pytest.mark.parametrize(
    "wrong", ["measure=gaze", "metric=spearmann", "probes.needle=0", "thresholds.locale=1"]
)
def test_wrong_settings_end_with_one_message(tmp_path, wrong):
    done = heads("size=tiny", wrong, "hydra.run.dir=out", cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
