"""Run folders, commands and loggers."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments.logging import CsvLogger, make_logger
from gazeattn.experiments.runs import (
    FINISHED,
    Stopwatch,
    claim,
    command_line,
    environment,
    write_environment,
)


def test_a_finished_run_is_never_replaced_unasked(tmp_path: Path):
    folder = tmp_path / "run"
    claim(folder)
    (folder / "report.html").write_text("old")
    claim(folder)  # not finished: goes on in the same folder
    (folder / FINISHED).write_text("{}")
    with pytest.raises(DataError, match="finished run"):
        claim(folder)
    assert (folder / FINISHED).exists() and (folder / "report.html").read_text() == "old"
    claim(folder, overwrite=True)
    assert not (folder / FINISHED).exists()


def test_the_command_can_be_pasted_into_a_shell():
    command = command_line(
        "compare", ["lm=minilm", "measures=[gaze_duration,skip]", "hydra.run.dir=/x y", "a='b c'"]
    )
    words = subprocess.run(
        ["sh", "-c", f'printf "%s\\n" {command}'], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert words == [
        "gazeattn",
        "compare",
        "lm=minilm",
        "measures=[gaze_duration,skip]",
        "a='b c'",
    ]


def test_environment_lists_versions(tmp_path: Path):
    facts = environment()
    assert facts["packages"]["pandas"] == pd.__version__
    write_environment(tmp_path, facts, "gazeattn compare")
    lines = (tmp_path / "environment.txt").read_text().splitlines()
    assert lines[0] == "command: gazeattn compare"
    assert f"pandas=={pd.__version__}" in lines


def test_stopwatch_adds_up():
    watch = Stopwatch()
    for _ in range(2):
        with watch.stage("a"):
            pass
    with pytest.raises(ValueError), watch.stage("b"):
        raise ValueError
    assert list(watch.seconds) == ["a", "b"]


def test_csv_logger_writes_tables_and_numbers(tmp_path: Path):
    logger = CsvLogger(tmp_path)
    logger.table("agreement", pd.DataFrame({"a": [1.5]}))
    logger.numbers({"x/y": 0.25})
    assert (tmp_path / "agreement.csv").read_text() == "a\n1.5\n"
    assert (tmp_path / "metrics.csv").read_text() == "name,value\nx/y,0.25\n"


def test_unknown_logger(tmp_path: Path):
    with pytest.raises(UnknownNameError, match="wandb"):
        make_logger("wandbb", tmp_path, project="p", mode="offline", run="r", config={})


WANDB = """
import logging, sys
from pathlib import Path
import pandas as pd
from gazeattn.experiments.logging import make_logger
logging.basicConfig(level="WARNING")
base, mode = Path(sys.argv[1]), sys.argv[2]
for name, failed in (("one", True), ("two", False)):
    folder = base / name
    folder.mkdir(parents=True)
    log = make_logger("wandb", folder, project="p", mode=mode, run=name, config={"a": [1, 2]})
    log.table("t", pd.DataFrame({"x": [1.0, float("nan")], "y": ["a", None]}))
    log.numbers({"m": 1.0})
    print(log._run.id, log._run.step)
    log.finish(failed=failed)
"""


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_wandb_needs_no_account_and_two_runs_stay_apart(tmp_path: Path, mode: str):
    env = {k: v for k, v in os.environ.items() if not k.startswith("WANDB")}
    env["HOME"] = str(tmp_path / "home")
    env.pop("NETRC", None)
    done = subprocess.run(
        [sys.executable, "-c", WANDB, str(tmp_path / "runs"), mode],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        env=env,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    (id_1, step_1), (id_2, step_2) = (line.split() for line in done.stdout.splitlines()[-2:])
    assert id_1 != id_2 and step_1 == step_2
    for name in ("one", "two"):
        assert list((tmp_path / "runs" / name / "wandb").glob("offline-run-*"))
    assert ("no W&B key" in done.stderr) == (mode == "online")
    assert not (tmp_path / "wandb").exists()  # nothing in the start folder


def test_json_has_no_nan(tmp_path: Path):
    from gazeattn.storage import write_json

    write_json(tmp_path / "a.json", {"x": float("nan"), "y": [float("inf"), pd.NA, 1]})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": None, "y": [None, None, 1]}


def test_failed_logger_choice_does_not_log(caplog: pytest.LogCaptureFixture, tmp_path: Path):
    with caplog.at_level(logging.WARNING):
        logger = make_logger("none", tmp_path, project="p", mode="offline", run="r", config={})
        logger.table("t", pd.DataFrame())
        logger.finish(failed=True)
    assert not list(tmp_path.iterdir())
