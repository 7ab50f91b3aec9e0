"""Public corpora and the user's own tables."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from typing import Any

from gazeattn import registry
from gazeattn.datasets.base import GazeDataset
from gazeattn.errors import DataError, UnknownNameError

__all__ = ["GazeDataset", "check_options", "load"]


def check_options(name: str, options: Iterable[str]) -> None:
    """Raise `UnknownNameError` for the first option that the data set's loader does not take."""
    parameters = inspect.signature(registry.datasets.get(name).obj).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for option in options:
        if option not in parameters:
            known = [p for p in parameters if p != "root"]
            raise UnknownNameError(f"option of data set {name!r}:", option, known)


def load(name: str, root: str | os.PathLike[str] | None = None, **options: Any) -> GazeDataset:
    """Load a data set by name.

    Parameters
    ----------
    name
        One of `gazeattn datasets`, e.g. ``"onestop_sample"``, or ``"table"`` for own files.
    root
        Data folder, see `gazeattn.storage.data_root`; for a corpus that is a folder of files,
        that folder.
    **options
        Options of the data set's loader.

    Raises
    ------
    UnknownNameError
        No data set, or no option of it, has this name; with the nearest ones.
    MissingAssetError
        The files are not on this machine; the message says how to get them.
    DataError
        The files cannot be used; the message says where and why.
    """
    check_options(name, options)
    loader = registry.datasets.get(name).obj
    dataset = loader(root=root, **options)
    if not isinstance(dataset, GazeDataset):
        raise DataError(
            f"the loader of data set {name!r} is wrong",
            expected="a GazeDataset",
            found=type(dataset).__name__,
        )
    return dataset
