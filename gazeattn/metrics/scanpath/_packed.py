"""Scanpaths of unequal length side by side, so that metrics run over many pairs at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics._arrays import EVERY, as_floats
from gazeattn.metrics._options import wrong

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Packed:
    """Scanpaths in one block of memory.

    Attributes
    ----------
    x, y, duration : ndarray, shape (n_paths, longest), float64
        Pixels and milliseconds; 0 behind the end of a path, which `length` marks. `duration` is
        NaN inside a path that has none.
    length : ndarray, shape (n_paths,), int64
    timed : bool
        Whether every path has durations.
    """

    x: Floats
    y: Floats
    duration: Floats
    length: Whole
    timed: bool

    def __len__(self) -> int:
        return len(self.length)

    def valid(self) -> NDArray[np.bool_]:
        """Return which cells belong to a path, (n_paths, longest)."""
        return np.arange(self.x.shape[1]) < self.length[:, None]


def as_path(path: ArrayLike, name: str = "scanpath") -> Floats:
    """Return a scanpath as float64, (n, 2) x, y or (n, 3) x, y, duration in ms.

    Raises
    ------
    DataError
        Another shape, a position that is not finite, or a negative or infinite duration. A
        missing duration (NaN) is allowed; metrics that need it give NaN.
    """
    columns = getattr(path, "columns", None)
    if columns is not None:  # a table: by name, whatever the order of its columns
        wanted = [c for c in ("x", "y", "duration") if c in columns]
        if wanted[:2] != ["x", "y"]:
            raise DataError(
                f"the {name} is a table without x and y", found=", ".join(map(str, columns))
            )
        if len(wanted) == 2:
            wanted += _duration_column([str(c) for c in columns], name)
        path = path[wanted]  # type: ignore[call-overload,index]
    values = as_floats(path, f"the {name}", EVERY).astype(np.float64)
    if values.size == 0:
        return np.zeros((0, values.shape[1] if values.ndim == 2 and values.shape[1] == 3 else 2))
    if values.ndim != 2 or values.shape[1] not in (2, 3):
        raise DataError(
            f"the {name} has the wrong shape",
            expected="(n, 2) with x, y, or (n, 3) with x, y, duration in ms",
            found=str(values.shape),
        )
    bad = ~np.isfinite(values[:, :2]).all(axis=1)
    if values.shape[1] == 3:
        bad |= (values[:, 2] < 0) | np.isinf(values[:, 2])
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"the {name} has a fixation without a finite place, or with a negative duration",
            row=row,
            expected="finite x and y; a duration of 0 or more, or NaN",
            found=str(values[row].tolist()),
            hint="Leave such fixations out first, and count them",
        )
    return values


def _duration_column(columns: Sequence[str], name: str) -> list[str]:
    """Return ``duration_ms`` where a table has it, and refuse other names that look like it."""
    if "duration_ms" in columns:
        return ["duration_ms"]
    alike = [c for c in columns if "dur" in c.lower()]
    if alike:
        raise DataError(
            f"the {name} is a table without a column duration, but with one that looks like it",
            expected="duration, in ms",
            found=", ".join(alike),
            hint="Rename it (in_milliseconds converts other units), or leave it out",
        )
    return []


class Part(NamedTuple):
    """One of several values of a metric, with its least and its largest value.

    Of one that is not `directed`, neither high nor low values mean that two paths are alike.
    """

    name: str
    low: float
    high: float
    directed: bool = True

    def __str__(self) -> str:
        neither = "" if self.directed else " (no direction)"
        return f"{self.name} {self.low:g} to {self.high:g}{neither}"


UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0}
SECONDS = 10.0
"""Durations that are all below this look like seconds."""


def in_milliseconds(path: ArrayLike, unit: str) -> Floats:
    """Return a scanpath whose durations are in a stated unit (``"s"``, ``"ms"``, ``"us"``) in ms.

    Raises
    ------
    UnknownNameError
        No such unit.
    """
    if unit not in UNITS:
        raise UnknownNameError("time unit", unit, UNITS)
    values = as_path(path).copy()
    if values.shape[1] == 3:
        values[:, 2] *= UNITS[unit]
    return values


def pack(paths: Sequence[ArrayLike]) -> Packed:
    """Put scanpaths side by side; see `as_path` for what is refused."""
    if isinstance(paths, str | Mapping) or not isinstance(paths, Iterable):
        raise wrong("the list of scanpaths", "one array (n, 2) or (n, 3) per scanpath", paths)
    arrays = [as_path(p, f"scanpath {i}") for i, p in enumerate(paths)]
    length = np.array([len(a) for a in arrays], dtype=np.int64)
    longest = int(length.max(initial=0))
    block = np.zeros((3, len(arrays), longest))
    for i, a in enumerate(arrays):
        block[: a.shape[1], i, : len(a)] = a.T
        if a.shape[1] == 2:
            block[2, i, : len(a)] = np.nan
    timed = all(a.shape[1] == 3 for a in arrays)
    x, y, duration = block
    return Packed(x, y, duration, length=length, timed=timed)
