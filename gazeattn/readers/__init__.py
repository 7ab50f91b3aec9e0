"""Files of eye trackers as tables: `read` one, or `identify` which reader it is for.

A module of this package that registers a reader is found by itself; nothing else is to be edited.
"""

from __future__ import annotations

import gzip
import inspect
import os
import zlib
from pathlib import Path
from typing import Any

from gazeattn import registry
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.recordings import Recording

__all__ = ["Recording", "identify", "read"]

HEAD = 1 << 16
"""Bytes that a reader sees to say whether a file is of its kind."""


def head_of(path: str | os.PathLike[str]) -> bytes:
    """Return the first bytes of a file, unpacked where it is gzipped."""
    path = Path(path)
    if not path.is_file():
        raise DataError("is a folder, not a file" if path.is_dir() else "no such file", source=path)
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            return file.read(HEAD)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"the gzip file is damaged or cut ({error})", source=path) from None


def identify(path: str | os.PathLike[str]) -> str:
    """Return the name of the reader for a file.

    Raises
    ------
    DataError
        No such file, or no reader, or several, take it for theirs.
    """
    path = Path(path).expanduser()
    head = head_of(path)
    fits = [e.name for e in registry.readers if e.info["recognises"](head, path.name)]
    if len(fits) != 1:
        raise DataError(
            "no reader knows this file" if not fits else "several readers fit this file",
            source=path,
            expected=f"a file of {', '.join(registry.readers.names())}",
            found=", ".join(fits) or repr(head[:60]),
            hint="Name the reader: reader='NAME' (--reader NAME on the command line)",
        )
    return fits[0]


def read(path: str | os.PathLike[str], reader: str | None = None, **options: Any) -> Recording:
    """Read a file of an eye tracker.

    Parameters
    ----------
    path
        File, also gzipped.
    reader
        Name of the reader, see ``gazeattn readers``; found out from the content where None.
    **options
        Options of the reader.

    Raises
    ------
    DataError
        The file cannot be used; the message says where and why.
    UnknownNameError
        No reader, or no option of it, has this name.
    """
    path = Path(path).expanduser()
    entry = registry.readers.get(reader or identify(path))
    known = list(inspect.signature(entry.obj).parameters)[1:]
    for name in options:
        if name not in known:
            raise UnknownNameError(f"option of reader {entry.name!r}:", name, known)
    return entry.obj(path, **options).check()
