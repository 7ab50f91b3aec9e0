"""Runs an experiment as a Hydra application and turns errors into one clear message."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hydra
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
        decorate(task)()
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
