"""Files are written whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gazeattn.storage import (
    atomic_folder,
    atomic_path,
    data_root,
    rooted,
    sha256,
    write_json,
    write_parquet,
    write_text,
)


def test_data_root_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GAZEATTN_DATA", raising=False)
    assert data_root() == tmp_path / "cache" / "gazeattn"
    monkeypatch.setenv("GAZEATTN_DATA", str(tmp_path / "data"))
    assert data_root() == tmp_path / "data"
    assert data_root(tmp_path / "mine") == tmp_path / "mine"
    with rooted(tmp_path / "told"):
        assert data_root() == tmp_path / "told"
        assert data_root(tmp_path / "mine") == tmp_path / "mine"
        with rooted(None):
            assert data_root() == tmp_path / "told"
    assert data_root() == tmp_path / "data"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "old")
    with pytest.raises(RuntimeError), atomic_path(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


def test_a_failed_folder_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    for text in ("one", "two"):
        with atomic_folder(target) as temporary:
            (temporary / "f").write_text(text)
    with pytest.raises(RuntimeError), atomic_folder(target) as temporary:
        (temporary / "f").write_text("three")
        raise RuntimeError
    assert (target / "f").read_text() == "two" and list(tmp_path.iterdir()) == [target]


def test_a_failed_exchange_brings_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "folder"
    with atomic_folder(target) as temporary:
        (temporary / "f").write_text("old")
    replace, calls = os.replace, []

    def second_fails(source: Path, destination: Path) -> None:
        calls.append(source)
        if len(calls) == 2:
            raise OSError("no")
        replace(source, destination)

    monkeypatch.setattr(os, "replace", second_fails)
    with pytest.raises(OSError, match="no"), atomic_folder(target) as temporary:
        (temporary / "f").write_text("new")
    assert (target / "f").read_text() == "old" and list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(sys.platform == "win32", reason="kills with a POSIX signal")
def test_a_kill_while_writing_leaves_no_file_under_the_final_name(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    code = (
        "import sys, time\n"
        "from gazeattn.storage import atomic_path\n"
        "with atomic_path(sys.argv[1]) as p:\n"
        "    p.write_bytes(b'x' * 100); print('there', flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline().strip() == b"there"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not target.exists()
    write_text(target, "whole")
    assert target.read_text() == "whole"


def test_files_have_the_usual_permissions(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "x")
    (tmp_path / "b").write_text("x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_json_is_strict(tmp_path: Path) -> None:
    data = {
        "nan": float("nan"),
        "inf": [np.inf, -np.inf],
        "array": np.array([1.0, np.nan]),
        "na": pd.NA,
        "int": np.int64(3),
        "path": Path("a"),
        "text": "é👩‍🔬",
        1: True,
    }
    write_json(tmp_path / "a.json", data)
    raw = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert "NaN" not in raw and "Infinity" not in raw
    assert json.loads(raw) == {
        "nan": None,
        "inf": [None, None],
        "array": [1.0, None],
        "na": None,
        "int": 3,
        "path": "a",
        "text": "é👩‍🔬",
        "1": True,
    }


def test_parquet_round_trip(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": ["007", None], "b": [1.5, np.nan]})
    write_parquet(tmp_path / "a.parquet", frame)
    back = pd.read_parquet(tmp_path / "a.parquet")
    assert back["a"].tolist()[0] == "007" and back.isna().to_numpy().tolist()[1] == [True, True]


def test_sha256_by_hand(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256(tmp_path / "a", chunk=2) == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


def test_two_writers_leave_one_whole_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    code = (
        "import sys\nfrom gazeattn.storage import write_text\n"
        "for _ in range(50): write_text(sys.argv[1], sys.argv[2] * 100_000)\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(target), c], env=dict(os.environ))
        for c in "ab"
    ]
    seen = set()
    while any(c.poll() is None for c in children):
        if target.exists():
            seen.add(target.read_text())
        time.sleep(0.005)
    assert all(c.returncode == 0 for c in children)
    assert seen | {target.read_text()} <= {"a" * 100_000, "b" * 100_000}
