"""Published studies at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from .test_reading_models import run


def test_studies_are_listed_and_suggested(tmp_path: Path, shared_data: Path) -> None:
    assert "kou2024" in run(["reproduce"], tmp_path, shared_data)
    assert "lm" in run(["reproduce", "kou2024", "--help"], tmp_path, shared_data)
    assert "kou2024" in run(["reproduce", "kuo2024"], tmp_path, shared_data, code=2)


@pytest.mark.slow
def test_kou2024(tmp_path: Path, shared_data: Path) -> None:
    command = ["reproduce", "kou2024", "size=tiny", "hydra.run.dir=r", "publish=out"]
    text = run(command, tmp_path, shared_data)
    assert "to the last digit" in text
    made = json.loads((tmp_path / "out" / "kou2024.json").read_text())
    known = made["reproduced"]
    assert known["figures"] == known["to_the_last_digit"] and known["largest_difference"] < 5e-7
    live = pd.DataFrame(made["live"])
    assert set(live["method"]) == {"reading_all", "coding_last", "inputxgradient_reading",
                                   "deletion"}  # fmt: skip
    assert ((live["value"] >= live["low"]) & (live["value"] <= live["high"])).mean() > 0.8
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "numbers mean nothing" in page
    stamps = {p: p.stat().st_mtime_ns for p in (tmp_path / "r" / "live").iterdir()}
    run(command, tmp_path, shared_data)  # finished tasks are kept
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "r" / "live").iterdir()} == stamps
