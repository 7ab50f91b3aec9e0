"""Runs an experiment as a Hydra application and turns errors into one clear message."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from gazeattn.errors import GazeattnError
from gazeattn.experiments.config import (
    conf_folder,
    prepare_overrides,
    store_registered,
)

_OUTSIDE = (
    errno.EACCES,
    errno.EDQUOT,
    errno.EEXIST,
    errno.EFBIG,
    errno.ENAMETOOLONG,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
)
"""Faults of the place that is written to, not of this program."""
STARTED = "started.json"
"""What a run folder keeps of the command that started it; see `gazeattn.experiments.train`."""
_BEFORE_WORK = ("run.log", ".hydra", "config.yaml", STARTED)
"""What a run folder holds before there is anything in it that was worked for."""


def run_app(experiment: str, task: Callable[[DictConfig], Any], arguments: Sequence[str]) -> int:
    """Run `task` under Hydra with the given overrides and options.

    Returns
    -------
    int
        Exit code: 0, 1 (a fault of ours, with a traceback), 2 (wrong input, with one message) or
        130 (interrupted).
    """
    wants_traceback = os.environ.get("HYDRA_FULL_ERROR") == "1" or "debug=on" in arguments
    saved_argv, saved_env = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    # Hydra then raises instead of printing a traceback of its own and leaving the process
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        store_registered()
        sys.argv = [f"gazeattn {experiment}", *prepare_overrides(arguments, experiment)]
        decorate = hydra.main(
            config_path=str(conf_folder()), config_name=experiment, version_base="1.3"
        )
        failures: list[Exception] = []
        decorate(_collecting(task, failures))()
        failures.sort(key=_is_refusal)  # of a sweep's jobs: faults of ours first
        for other in failures[1:]:
            _say(_plain(other))
        if failures:
            raise failures[0]
        return 0
    except KeyboardInterrupt:
        _say("interrupted; the unfinished run folder holds no half-written file")
        return 130
    except (GazeattnError, HydraException, OmegaConfBaseException) as error:
        if wants_traceback:
            traceback.print_exc()
        _say(_plain(error))
        return 2
    except OSError as error:
        if error.errno not in _OUTSIDE:
            return _unexpected(error)
        if wants_traceback:
            traceback.print_exc()
        place = error.filename or "the run folder"
        _say(f"cannot write {place}: {error.strerror}. Choose another folder with hydra.run.dir=")
        return 2
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception as error:
        return _unexpected(error)
    finally:
        sys.argv = saved_argv
        if saved_env is None:
            os.environ.pop("HYDRA_FULL_ERROR", None)
        else:
            os.environ["HYDRA_FULL_ERROR"] = saved_env


def _collecting(
    task: Callable[[DictConfig], Any], failures: list[Exception]
) -> Callable[[DictConfig], Any]:
    """Return a task that keeps its error instead of raising it into Hydra.

    Hydra prints a line of its own before it hands the error of a job on; the other jobs of a sweep
    are done in either case.
    """

    @functools.wraps(task)
    def kept(cfg: DictConfig) -> Any:
        try:
            return task(cfg)
        except Exception as error:
            failures.append(error)
            if _is_refusal(error):
                _forget_folder()
            return None

    return kept


def _is_refusal(error: Exception) -> bool:
    known = isinstance(error, GazeattnError | HydraException | OmegaConfBaseException)
    return known or (isinstance(error, OSError) and error.errno in _OUTSIDE)


def _forget_folder() -> None:
    """Remove the run folder of a refused command, if nothing was worked for in it yet."""
    run = HydraConfig.get()
    if any(str(o).lstrip("+").startswith("resume=") for o in run.overrides.task):
        return  # it is the folder of another run
    folder = Path(run.runtime.output_dir)
    with contextlib.suppress(OSError):
        if any(p.name not in _BEFORE_WORK for p in folder.iterdir()):
            return
        for handler in list(logging.getLogger().handlers):
            if Path(getattr(handler, "baseFilename", "")).parent == folder:
                logging.getLogger().removeHandler(handler)
                handler.close()
        shutil.rmtree(folder)
        if any("hydra.run.dir" in str(o) for o in run.overrides.hydra):
            return  # the place was named by the user, who may have made its parents
        base = Path(run.runtime.cwd)
        for parent in folder.parents:
            if parent == base or not parent.is_relative_to(base):
                return
            parent.rmdir()  # fails, and ends, at the first that holds something


def _unexpected(error: Exception) -> int:
    traceback.print_exc()
    _say(f"unexpected {type(error).__name__}; please report it with the traceback above")
    return 1


def _say(message: str) -> None:
    print(f"gazeattn: {message}", file=sys.stderr)


def _plain(error: BaseException) -> str:
    """Return a message without Hydra's multi-line decoration."""
    if isinstance(error, HydraException):
        lines = [line for line in str(error).splitlines() if line.strip()]
        cause = error.__cause__
        if cause is not None:
            lines.append(str(cause).splitlines()[0])
        return "; ".join(dict.fromkeys(line.strip() for line in lines)) or repr(error)
    return str(error)


def original_path(path: str | None, base: Path) -> str | None:
    """Resolve a path that the user typed against the folder in which it was typed."""
    if path is None:
        return None
    full = Path(path).expanduser()
    return str(full if full.is_absolute() else (base / full).resolve())
