"""Where files live, and writes that are either whole or not there."""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gazeattn.errors import DataError

ENV_DATA = "GAZEATTN_DATA"
_ROOT: contextvars.ContextVar[Path | None] = contextvars.ContextVar("root", default=None)


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder for downloaded and converted files.

    The argument wins, then what `rooted` says, then the environment variable ``GAZEATTN_DATA``,
    then ``$XDG_CACHE_HOME/gazeattn`` (``~/.cache/gazeattn``). The folder need not exist yet.
    """
    if root is not None:
        return Path(root).expanduser().resolve()
    told = _ROOT.get()
    if told is not None:
        return told
    if os.environ.get(ENV_DATA):
        return Path(os.environ[ENV_DATA]).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "gazeattn"


@contextlib.contextmanager
def rooted(root: str | os.PathLike[str] | None) -> Iterator[None]:
    """Make a folder the default of `data_root` inside the block; None changes nothing.

    For what is made far from where the folder is known, such as a model that loads a language
    model by its name; the folder itself is then no part of the model.
    """
    if root is None:
        yield
        return
    token = _ROOT.set(data_root(root))
    try:
        yield
    finally:
        _ROOT.reset(token)


def sha256(path: str | os.PathLike[str], chunk: int = 1 << 20) -> str:
    """Return the hexadecimal SHA-256 of a file, read in chunks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(chunk):
            digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path` that replaces it when the block ends well.

    An exception or a kill leaves the old file (or none) under the final name. The temporary
    name starts with a dot and keeps the suffix, since writers choose the format by it.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(
        prefix=f".{target.stem}-", suffix=f".part{target.suffix}", dir=target.parent
    )
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` when the block ends well.

    An existing folder under the final name is replaced only after the new one is complete.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", suffix=".part", dir=target.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
            os.replace(target, old / target.name)
            try:
                os.replace(temporary, target)
            except BaseException:
                os.replace(old / target.name, target)
                raise
            finally:
                shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], data: Any) -> None:
    """Write strict JSON atomically: NaN and infinities become null, since JSON has neither."""
    write_text(path, json.dumps(_plain(data), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_parquet(path: str | os.PathLike[str], frame: pd.DataFrame) -> None:
    """Write a table as Parquet atomically."""
    with atomic_path(path) as temporary:
        frame.to_parquet(temporary, index=False)


def read_json(path: str | os.PathLike[str], what: str = "the file") -> dict[str, Any]:
    """Return the mapping that a JSON file holds.

    Raises
    ------
    DataError
        There is no such file, or it is damaged.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{what} is missing", source=path) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{what} is damaged", source=path, found=_short(error)) from None
    if not isinstance(content, dict):
        raise DataError(f"{what} is damaged", source=path, expected="names and values",
                        found=type(content).__name__)  # fmt: skip
    return content


def read_parquet(
    path: str | os.PathLike[str], what: str = "the table", columns: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the table of a Parquet file.

    Raises
    ------
    DataError
        There is no such file, it is damaged, or it lacks one of the columns.
    """
    try:
        table = pd.read_parquet(path)
    except FileNotFoundError:
        raise DataError(f"{what} is missing", source=path) from None
    except (OSError, ValueError, ArithmeticError, TypeError, KeyError) as error:
        raise DataError(f"{what} is damaged", source=path, found=_short(error)) from None
    missing = [c for c in columns if c not in table]
    if missing:
        raise DataError(f"{what} is another one", source=path, expected=f"column {missing[0]}",
                        found=", ".join(map(str, table.columns)))  # fmt: skip
    return table


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):  # numpy arrays and scalars
        return _plain(value.tolist())
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, str | int | float | bool):
        return value
    return str(value)
