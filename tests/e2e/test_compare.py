"""End to end: the command as a person runs it, on real recordings and a real model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from gazeattn.attention.comparison import ALIGNMENT_COLUMNS
from gazeattn.downloads import asset_path
from gazeattn.errors import MissingAssetError
from gazeattn.results import RESULT_COLUMNS

SMALL = ["size=tiny", "lm=minilm", "attention.methods=[raw,rollout]", "measures=[gaze_duration]"]


@pytest.fixture(scope="module", autouse=True)
def assets() -> None:
    try:
        for name in ("onestop_sample", "minilm", "smollm2-135m"):
            asset_path(name)
    except MissingAssetError as error:
        pytest.skip(f"run `make assets` first: {error}")


def gazeattn(*arguments: str, cwd: Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gazeattn.cli", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        **options,
    )


def run_folders(base: Path) -> list[Path]:
    return sorted(p.parent for p in base.rglob("summary.json"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    base = tmp_path_factory.mktemp("run")
    done = gazeattn("compare", *SMALL, "hydra.run.dir=out", cwd=base)
    assert done.returncode == 0, done.stderr
    return base, done


def test_the_run_folder_has_every_file(run):
    base, _ = run
    folder = base / "out"
    names = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    fixed = {
        "alignment.parquet",
        "profiles.parquet",
        "summary.json",
        "config.yaml",
        "environment.txt",
        "run.log",
        "report.html",
    }
    assert fixed <= names, fixed - names
    assert any(n.endswith(".svg") for n in names) and any(n.endswith(".png") for n in names)
    assert not [n for n in names if ".part" in n]
    assert {p.name for p in base.iterdir()} == {"out"}  # nothing else in the start folder


def test_the_last_line_is_the_path_of_the_report(run):
    base, done = run
    last = done.stdout.strip().splitlines()[-1]
    assert last == f"report: {(base / 'out' / 'report.html').resolve()}"


def test_alignment_has_the_result_schema(run):
    base, _ = run
    table = pd.read_parquet(base / "out" / "alignment.parquet")
    assert list(table.columns[: len(RESULT_COLUMNS)]) == list(RESULT_COLUMNS)
    assert set(ALIGNMENT_COLUMNS) <= set(table.columns)
    key = ["dataset", "trial", "measure", "method", "layer", "head", "metric", "level"]
    assert not table.duplicated(key).any()
    defined = table["value"].notna()
    assert (table.loc[~defined, "reason"].fillna("") != "").all()
    assert table["size"].eq("tiny").all()


def test_summary_says_how_it_was_made(run):
    base, _ = run
    summary = json.loads((base / "out" / "summary.json").read_text())
    assert summary["answer"].startswith("2 readers, information seeking")
    assert summary["command"].startswith("gazeattn compare size=tiny lm=minilm")
    assert {"seconds", "version", "settings", "lost", "dataset", "lm"} <= set(summary)


def test_the_named_command_gives_the_same_numbers_and_a_folder_of_its_own(run, tmp_path):
    base, _ = run
    command = json.loads((base / "out" / "summary.json").read_text())["command"]
    done = subprocess.run(
        ["sh", "-c", command.replace("gazeattn", f"{sys.executable} -m gazeattn.cli", 1)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (folder,) = run_folders(tmp_path)
    assert folder.parent.parent.name == "compare" and "=" not in str(folder.relative_to(tmp_path))
    drop = ["command", "commit"]
    old = pd.read_parquet(base / "out" / "alignment.parquet").drop(columns=drop)
    new = pd.read_parquet(folder / "alignment.parquet").drop(columns=drop)
    pd.testing.assert_frame_equal(old, new)


def test_a_finished_run_is_refused_unless_told(run):
    base, _ = run
    before = (base / "out" / "report.html").stat().st_mtime_ns
    done = gazeattn("compare", *SMALL, "hydra.run.dir=out", cwd=base)
    assert done.returncode == 2 and "finished run" in done.stderr
    assert (base / "out" / "report.html").stat().st_mtime_ns == before


def test_a_sweep_of_own_tables_with_relative_paths(tmp_path: Path):
    (tmp_path / "F.csv").write_text(
        "subj,trial,item,x,y,dur\n"
        + "".join(
            f"{p},1,t,{x},10,{d}\n"
            for p, pairs in {
                "007": [(5, 200), (15, 120), (25, 300), (15, 90), (35, 250), (55, 180)],
                "8": [(5, 150), (25, 220), (35, 130), (45, 300), (55, 160)],
            }.items()
            for x, d in pairs
        )
    )
    words = "The quick brown foxes jump over".split()
    (tmp_path / "W.csv").write_text(
        "item,word,text,left,top,right,bottom\n"
        + "".join(f"t,{i},{w},{10 * i},0,{10 * i + 10},20\n" for i, w in enumerate(words))
    )
    arguments = [
        "compare",
        "-m",
        "dataset=table",
        "dataset.fixations=F.csv",
        "dataset.words=W.csv",
        "dataset.columns.fixations={participant: subj, stimulus: item, duration: dur}",
        "dataset.columns.words={stimulus: item}",
        "lm=minilm",
        "size=tiny",
        "attention.methods=[raw]",
        "measures=[total_reading_time]",
        "baselines=[length]",
        "seed=0,1",
        "logger=wandb",
    ]
    done = gazeattn(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folders = run_folders(tmp_path / "outputs")
    assert [f.name for f in folders] == ["0", "1"]
    assert {p.name for p in tmp_path.iterdir()} == {"F.csv", "W.csv", "outputs"}
    for folder in folders:
        assert list((folder / "wandb").glob("offline-run-*"))
        profiles = pd.read_parquet(folder / "profiles.parquet")
        assert set(profiles["participant"].dropna()) == {"007", "8"}


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_leaves_no_half_file_and_the_next_one_completes(tmp_path, signal_number):
    folder = tmp_path / "out"
    for wait in (1.0, 4.0, 7.0):
        (folder / "config.yaml").unlink(missing_ok=True)  # there again once this one works
        process = subprocess.Popen(
            [sys.executable, "-m", "gazeattn.cli", "compare", *SMALL, "hydra.run.dir=out"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        time.sleep(wait)
        process.send_signal(signal_number)
        _, err = process.communicate(timeout=120)
        if process.returncode == 0 or (folder / "summary.json").exists():
            break  # it was faster than the signal
        if signal_number == signal.SIGINT and (folder / "config.yaml").exists():
            # where the signal meets code that Python runs from a string, as in the making of a
            # class while importing, the interpreter ends by the signal itself: a shell says 130 too
            assert process.returncode in (130, -signal.SIGINT), err
            assert "interrupted" in err
        for path in folder.rglob("*.parquet"):
            if not path.name.startswith("."):
                pd.read_parquet(path)
        for path in folder.rglob("*.json"):
            if not path.name.startswith("."):
                json.loads(path.read_text())
    if not (tmp_path / "out" / "summary.json").exists():
        done = gazeattn("compare", *SMALL, "hydra.run.dir=out", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "summary.json").exists()


def test_bad_input_names_file_row_expected_and_found(tmp_path: Path):
    (tmp_path / "F.csv").write_text("participant,trial,stimulus,x,y,duration\nP1,t1,s,1,1,abc\n")
    (tmp_path / "W.csv").write_text("stimulus,word,text,left,top,right,bottom\ns,0,a,0,0,9,9\n")
    table = ["compare", "dataset=table", "dataset.fixations=F.csv", "dataset.words=W.csv"]
    done = gazeattn(*table, *SMALL, cwd=tmp_path)
    assert done.returncode == 2
    for part in ("F.csv", "duration", "'abc'"):
        assert part in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    done = gazeattn(*[a.replace("F.csv", "G.csv") for a in table], *SMALL, cwd=tmp_path)
    assert done.returncode == 2 and "G.csv" in done.stderr
