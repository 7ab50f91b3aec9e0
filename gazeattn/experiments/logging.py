"""Loggers: where a run's numbers go beside its folder. None of them ever asks for anything."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from gazeattn.errors import GazeattnError, UnknownNameError
from gazeattn.storage import atomic_path

log = logging.getLogger(__name__)
LOGGERS = ("csv", "wandb", "none")


class RunLogger(Protocol):
    """What an experiment needs of a logger."""

    def table(self, name: str, frame: pd.DataFrame) -> None:
        """Log a table."""

    def numbers(self, values: Mapping[str, float]) -> None:
        """Log named numbers."""

    def finish(self, failed: bool = False) -> None:
        """Close the run; a failed one is marked as failed."""


class NoLogger:
    """Logs nothing."""

    def table(self, name: str, frame: pd.DataFrame) -> None:
        """Ignore the table."""

    def numbers(self, values: Mapping[str, float]) -> None:
        """Ignore the numbers."""

    def finish(self, failed: bool = False) -> None:
        """Do nothing."""


class CsvLogger:
    """Writes tables as ``<name>.csv`` and numbers as ``metrics.csv`` into the run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def table(self, name: str, frame: pd.DataFrame) -> None:
        """Write the table."""
        with atomic_path(self.folder / f"{name}.csv") as path:
            frame.to_csv(path, index=False)

    def numbers(self, values: Mapping[str, float]) -> None:
        """Write the numbers, one row each."""
        self.table("metrics", pd.DataFrame({"name": list(values), "value": list(values.values())}))

    def finish(self, failed: bool = False) -> None:
        """Do nothing: the files are complete."""


class WandbLogger:
    """Weights & Biases, offline unless asked; one run per job, also in a sweep.

    Parameters
    ----------
    folder
        Run folder; the files of W&B go to ``<folder>/wandb``.
    project, mode, name, config
        As in `wandb.init`. Online without a key falls back to offline with a warning.
    """

    def __init__(
        self, folder: Path, *, project: str, mode: str, name: str, config: Mapping[str, Any]
    ) -> None:
        try:
            import wandb
        except ImportError as error:
            raise GazeattnError(
                "logger=wandb needs the package wandb; install it or choose logger=csv"
            ) from error
        if mode not in ("offline", "online", "disabled"):
            raise UnknownNameError("W&B mode", mode, ("offline", "online", "disabled"))
        if mode == "online" and not _has_key():
            log.warning("no W&B key is set: logging offline (later: wandb sync %s)", folder)
            mode = "offline"
        self._wandb = wandb
        self._run = wandb.init(
            project=project,
            name=name,
            dir=str(folder),
            mode=mode,  # type: ignore[arg-type]
            config=dict(config),
            reinit="finish_previous",
            settings=wandb.Settings(silent=True, console="off", init_timeout=30),
        )

    def table(self, name: str, frame: pd.DataFrame) -> None:
        """Log the table."""
        plain = frame.astype(object).where(frame.notna(), None)
        self._run.log({name: self._wandb.Table(dataframe=plain)})

    def numbers(self, values: Mapping[str, float]) -> None:
        """Log the numbers as the run's summary."""
        self._run.summary.update(dict(values))

    def finish(self, failed: bool = False) -> None:
        """Close the run with its exit code."""
        self._run.finish(exit_code=1 if failed else 0)


def _has_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    netrc = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    try:
        return "wandb" in netrc.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def make_logger(
    name: str, folder: Path, *, project: str, mode: str, run: str, config: Mapping[str, Any]
) -> RunLogger:
    """Return the logger called `name` (``csv``, ``wandb`` or ``none``)."""
    if name == "none":
        return NoLogger()
    if name == "csv":
        return CsvLogger(folder)
    if name == "wandb":
        return WandbLogger(folder, project=project, mode=mode, name=run, config=config)
    raise UnknownNameError("logger", name, LOGGERS)
