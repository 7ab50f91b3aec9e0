"""Run folders: one command, one folder, everything in it that is needed to do it again."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

import gazeattn
from gazeattn.errors import DataError
from gazeattn.storage import atomic_folder, write_text

log = logging.getLogger(__name__)
FINISHED = "summary.json"
"""Written last: a run folder that has it is complete."""


def claim(folder: Path, overwrite: bool = False) -> Path:
    """Create the run folder, and refuse one that holds a finished run.

    Raises
    ------
    DataError
        The folder holds a finished run and `overwrite` is off.
    """
    if (folder / FINISHED).exists() and not overwrite:
        raise DataError(
            "this run folder holds a finished run",
            source=folder,
            hint="Choose another hydra.run.dir, or replace the run with overwrite=true",
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FINISHED).unlink(missing_ok=True)
    return folder


IGNORED = ("publish", "fit", "accelerator", "fetch", "root", "hydra", "debug", "logger")
"""Keys that do not change what a benchmark says."""
HEAVY = ("runs", "cells", "searches", "earlier", "checkpoints", "baselines")
"""Folders of finished parts, which later calls go on with."""


def begin(folder: Path, config_text: str) -> Path | None:
    """Write the configuration of a benchmark; what another call has left there is kept.

    The folder of a benchmark has no date, so that a call goes on with what is missing. Pages and
    tables of a call with other settings are copied to ``earlier/N`` before they are written anew.

    Returns
    -------
    Path or None
        Where the earlier pages are, if there were any.
    """
    path = folder / "config.yaml"
    kept = None
    if path.is_file() and _settings(path.read_text(encoding="utf-8")) != _settings(config_text):
        pages = [p for p in folder.glob("**/*") if p.suffix in (".html", ".parquet")]
        if any(not set(p.relative_to(folder).parts[:-1]) & set(HEAVY) for p in pages):
            numbers = [int(p.name) for p in (folder / "earlier").glob("*") if p.name.isdigit()]
            kept = folder / "earlier" / str(max(numbers, default=0) + 1)
            with atomic_folder(kept) as new:
                shutil.copytree(folder, new, ignore=shutil.ignore_patterns(*HEAVY),
                                dirs_exist_ok=True)  # fmt: skip
            log.warning("the pages of a call with other settings are kept in %s", kept)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, config_text)
    return kept


def _settings(text: str) -> Any:
    try:
        found = OmegaConf.to_container(OmegaConf.create(text))
    except Exception:  # parsers of YAML have error types of their own
        return text
    if not isinstance(found, dict):
        return found
    return {k: v for k, v in found.items() if k not in IGNORED}


def command_line(experiment: str, overrides: Sequence[str]) -> str:
    """Return the shell command that repeats a run.

    The run folder and the place of a published table are left out: a repeated run has its own.
    """
    own = ("hydra.run.dir", "hydra.mode", "hydra.sweep", "overwrite=", "publish=")
    kept = [o for o in overrides if not o.startswith(own)]
    return shlex.join(["gazeattn", *experiment.split(), *kept])


def commit() -> str | None:
    """Return the commit of the checkout that this package runs from, with ``+`` if changed."""
    folder = Path(gazeattn.__file__).resolve().parent.parent
    if not (folder / ".git").exists():
        return None

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def environment() -> dict[str, Any]:
    """Return what the numbers may depend on: versions, platform, threads."""
    packages = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            packages[name] = distribution.version
    facts: dict[str, Any] = {
        "gazeattn": gazeattn.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }
    if "torch" in sys.modules:
        facts["torch_threads"] = sys.modules["torch"].get_num_threads()
    facts["packages"] = dict(sorted(packages.items(), key=lambda item: item[0].lower()))
    return facts


def write_environment(folder: Path, facts: dict[str, Any], command: str) -> None:
    """Write ``environment.txt``: facts first, then one ``name==version`` line per package."""
    lines = [f"command: {command}"]
    lines += [f"{key}: {value}" for key, value in facts.items() if key != "packages"]
    lines += ["", *(f"{name}=={version}" for name, version in facts["packages"].items())]
    write_text(folder / "environment.txt", "\n".join(lines) + "\n")


class Stopwatch:
    """Seconds per named stage, in the order in which the stages began; each is logged."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
            log.info("%s: %.1f s", name, self.seconds[name])
