"""The Makefile: what it prints, when it installs, and what it never deletes.

A stand-in for Python makes these tests quick and independent of the network: it creates an
environment with a stand-in of its own, which writes down every call.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCES = ("Makefile", "pyproject.toml", "setup.py", "constraints.txt")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

PYTHON = """#!/bin/sh
# `python -m venv [--clear] FOLDER` makes an environment; anything else is written down.
if [ "$1" = --version ]; then echo "Python ${{VERSION:-3.11.7}}"; exit 0; fi
case "$*" in
  *version_info*) [ "${{VERSION:-3.11.7}}" != 3.9.2 ]; exit $? ;;
  *"import venv"*) [ -z "$NO_VENV" ]; exit $? ;;
  "-m venv"*)
    echo "venv" >> {log}
    rm -rf .venv; mkdir -p .venv/bin
    cp "$0" .venv/bin/python
    for name in gazeattn ruff mypy lint-imports; do cp "$0" ".venv/bin/$name"; done ;;
  *" install "*)
    echo "install" >> {log}
    [ -z "$NO_NETWORK" ]; exit $? ;;
  *) [ "$1" = -c ] || echo "$(basename "$0") $*" >> {log} ;;
esac
"""


class Checkout:
    """A folder with the Makefile and the stand-in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "calls.log"
        for name in SOURCES:
            shutil.copy2(REPOSITORY / name, folder / name)
        python = folder / "standin"
        python.write_text(PYTHON.format(log=self.log), encoding="utf-8")
        python.chmod(0o755)

    def make(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        return subprocess.run(
            ["make", "PYTHON=./standin", *arguments],
            cwd=self.folder,
            env={**inherited, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_make_alone_prints_help_and_does_nothing(checkout: Checkout) -> None:
    result = checkout.make()
    assert result.returncode == 0
    for target in ("make compare", "make test", "make lint", "make docs", "make bench"):
        assert target in result.stdout
    assert checkout.calls() == []


@pytest.mark.parametrize("target", ["setup", "compare", "test", "lint"])
def test_an_old_python_is_refused_before_anything_is_made(checkout: Checkout, target: str) -> None:
    result = checkout.make(target, VERSION="3.9.2")
    assert result.returncode != 0
    assert "3.11 or newer" in result.stderr and "Python 3.9.2" in result.stderr
    assert f"make PYTHON=python3.12 {target}" in result.stderr
    assert not (checkout.folder / ".venv").exists()


def test_a_missing_python_is_named(checkout: Checkout) -> None:
    result = checkout.make("setup", "PYTHON=no-such-python")
    assert result.returncode != 0
    assert "There is no 'no-such-python' here" in result.stderr


def test_a_python_without_venv_is_refused_with_a_hint(checkout: Checkout) -> None:
    result = checkout.make("setup", NO_VENV="1")
    assert result.returncode != 0
    assert "python3-venv" in result.stderr
    assert not (checkout.folder / ".venv").exists()


def test_setup_is_done_once(checkout: Checkout) -> None:
    assert checkout.make("setup").returncode == 0
    first = checkout.calls()
    assert first[0] == "venv" and first.count("install") >= 1
    assert checkout.make("setup", NO_NETWORK="1").returncode == 0
    assert checkout.calls() == first


def test_changed_pins_are_installed_into_the_same_environment(checkout: Checkout) -> None:
    assert checkout.make("setup").returncode == 0
    stamp = checkout.folder / ".venv" / ".installed-dev"
    later = stamp.stat().st_mtime + 5
    os.utime(checkout.folder / "constraints.txt", (later, later))
    assert checkout.make("setup").returncode == 0
    calls = checkout.calls()
    assert calls.count("venv") == 1
    assert calls.count("install") == 4


def test_an_interrupted_setup_starts_again_from_nothing(checkout: Checkout) -> None:
    result = checkout.make("setup", NO_NETWORK="1")
    assert result.returncode != 0
    assert "needs the network once" in result.stderr
    (checkout.folder / ".venv" / "half").touch()
    assert checkout.make("setup").returncode == 0
    assert checkout.calls().count("venv") == 2
    assert not (checkout.folder / ".venv" / "half").exists()


def test_a_broken_environment_is_made_anew(checkout: Checkout) -> None:
    assert checkout.make("setup").returncode == 0
    (checkout.folder / ".venv" / "bin" / "python").unlink()
    os.utime(checkout.folder / "pyproject.toml")
    later = (checkout.folder / ".venv" / ".installed-dev").stat().st_mtime + 5
    os.utime(checkout.folder / "pyproject.toml", (later, later))
    assert checkout.make("setup").returncode == 0
    assert checkout.calls().count("venv") == 2


def test_compare_hands_its_overrides_on(checkout: Checkout) -> None:
    assert checkout.make("compare", "ARGS=lm=minilm seed=1").returncode == 0
    assert checkout.calls()[-1] == "gazeattn compare lm=minilm seed=1"


def test_tests_fetch_first_and_leave_slow_ones_out(checkout: Checkout) -> None:
    assert checkout.make("test").returncode == 0
    fetch, tests = checkout.calls()[-2:]
    assert fetch == "gazeattn fetch onestop_sample smollm2-135m minilm efficientnet-lite0"
    assert tests == "python -m pytest -m not slow"
    assert checkout.make("test-slow").returncode == 0
    assert checkout.calls()[-1] == "python -m pytest"


def test_lint_runs_every_check(checkout: Checkout) -> None:
    assert checkout.make("lint").returncode == 0
    called = [c.split()[0] for c in checkout.calls()]
    assert {"ruff", "mypy", "lint-imports"} <= set(called)


def test_clean_keeps_data_outputs_and_the_environment(checkout: Checkout) -> None:
    assert checkout.make("setup").returncode == 0
    for name in ("data/a.parquet", "outputs/run/report.html", "gazeattn/a.py", "tests/t.py"):
        path = checkout.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name in ("build", "dist", "gazeattn/__pycache__", ".mypy_cache"):
        (checkout.folder / name).mkdir()
    (checkout.folder / "benchmarks").mkdir()
    assert checkout.make("clean").returncode == 0
    for name in ("data/a.parquet", "outputs/run/report.html", "gazeattn/a.py", ".venv/bin/python"):
        assert (checkout.folder / name).exists()
    for name in ("build", "dist", "gazeattn/__pycache__", ".mypy_cache"):
        assert not (checkout.folder / name).exists()


def test_ci_calls_lint_and_test(checkout: Checkout) -> None:
    folder = checkout.folder / ".ci"
    folder.mkdir()
    shutil.copy2(REPOSITORY / ".ci" / "run", folder / "run")
    assert os.access(folder / "run", os.X_OK)
    result = subprocess.run(
        [str(folder / "run")],
        cwd="/",
        env={**os.environ, "PYTHON": "./standin", "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    called = [c.split()[0] for c in checkout.calls()]
    assert {"ruff", "mypy", "lint-imports"} <= set(called)
    assert checkout.calls()[-1] == "python -m pytest -m not slow"
