"""Maps and fixations at the door: shapes, places on the map, what is left out and counted."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog

Floats = NDArray[np.float64]
Array = NDArray[Any]
Places = NDArray[np.intp]
Size = tuple[float, float]

OUTSIDE = ("raise", "drop", "clip")


def one_of(kind: str, name: str, known: Iterable[str]) -> str:
    """Return `name`, or raise `UnknownNameError` with suggestions."""
    known = tuple(known)
    if name not in known:
        raise UnknownNameError(kind, name, known)
    return name


def as_map(values: ArrayLike, name: str = "saliency map") -> Array:
    """Return a map as a (height, width) array of real numbers, in its own number type.

    Whether all values are finite is checked by what reads them.

    Raises
    ------
    DataError
        Not two-dimensional, empty, or not real numbers.
    """
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    array = np.asarray(values)
    if array.dtype.kind == "b":
        array = array.astype(np.uint8)
    if array.dtype.kind not in "uif":
        try:
            if array.dtype.kind == "c":
                raise TypeError("complex numbers")
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"the {name} must hold numbers", found=str(error)) from None
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(
            f"the {name} has the wrong shape",
            expected="(height, width)",
            found=str(array.shape),
            hint="Colour channels, batches and steps are not reduced here",
        )
    return array


def not_finite(name: str) -> DataError:
    """Return the error for a map with missing or infinite values."""
    return DataError(
        f"the {name} has missing, infinite or overflowing values",
        expected="finite numbers",
        hint="Fill or mask such pixels knowingly first",
    )


def same_shape(a: Array, b: Array) -> None:
    """Raise a `DataError` unless both maps have the same height and width."""
    if a.shape != b.shape:
        raise DataError(
            "both maps need the same height and width",
            expected=f"{b.shape} (reference)",
            found=f"{a.shape} (first map)",
            hint="Bring both to one size first; they are never resized unasked",
        )


def as_points(fixations: ArrayLike, name: str = "fixations") -> Floats:
    """Return fixations as float64 (n, 2) x, y; an empty list gives (0, 2).

    Raises
    ------
    DataError
        Another shape, for instance a map of fixations.
    """
    if isinstance(fixations, np.ma.MaskedArray):
        fixations = np.ma.filled(fixations.astype(np.float64), np.nan)
    try:
        points = np.asarray(fixations, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the {name} must hold numbers", found=str(error)) from None
    if points.shape == (0,) or points.shape == (0, 2) or points.shape == (0, 3):
        return np.zeros((0, 2))
    if points.ndim != 2 or points.shape[1] != 2:
        hint = None
        if points.ndim == 2 and points.shape[1] == 3:
            hint = "Leave out the durations: fixations[:, :2]"
        elif points.ndim == 2 and points.shape[1] > 3:
            hint = (
                "A map is not a list of fixations. A map of counts or a binary map becomes one "
                "with fixations_from_map; a blurred map belongs in cc, sim, kl_div or emd"
            )
        raise DataError(
            f"the {name} have the wrong shape",
            expected="(n, 2) with x, y in pixels",
            found=str(points.shape),
            hint=hint,
        )
    return points


def as_size(size: Any, name: str = "size") -> Size:
    """Return ``(width, height)`` as two positive finite numbers."""
    try:
        width, height = (float(v) for v in size)
    except (TypeError, ValueError):
        width = height = float("nan")
    if not (0 < width < np.inf and 0 < height < np.inf):
        raise DataError(f"{name} must be (width, height), both positive", found=repr(size))
    return width, height


def locate(
    fixations: ArrayLike,
    shape: tuple[int, ...],
    *,
    size: Size | None = None,
    outside: str = "raise",
    losses: LossLog | None = None,
    name: str = "fixations",
) -> tuple[Places, NDArray[np.bool_]]:
    """Return the pixel (flat index) of the fixations on a map, and which fixations those are.

    A fixation is on the picture when ``0 <= x < width`` and ``0 <= y < height``; its pixel is the
    whole part of x and y. With ``size=(width, height)`` of the picture that x and y refer to,
    places are scaled to the map.

    Parameters
    ----------
    shape
        ``(..., height, width)`` of the map.
    outside : {"raise", "drop", "clip"}
        What to do with fixations off the picture: an error; leave them out and count them; move
        them to the nearest border pixel and count them. Fixations without a place (NaN) are never
        moved: they are left out under "drop" and "clip".
    losses
        Takes the counts. Without it they come as a warning.

    Returns
    -------
    at : ndarray of intp, shape (n_kept,)
    kept : ndarray of bool, shape (n,)

    Raises
    ------
    DataError
        Fixations off the picture under "raise"; under every choice when most of them lie so far
        off that they must refer to a larger picture.
    """
    one_of("treatment of fixations outside", outside, OUTSIDE)
    points = as_points(fixations, name)
    rows, columns = shape[-2:]
    width, height = (float(columns), float(rows)) if size is None else as_size(size)
    x, y = points[:, 0], points[:, 1]
    kept = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    if not kept.all():
        _refuse(points, kept, width, height, size is None, outside, name)
        missing = np.isnan(x) | np.isnan(y)
        moved = ~kept & ~missing
        kind: Any = "dropped" if outside == "drop" else "repaired"
        verb = "left out" if outside == "drop" else "moved to the border"
        _count(losses, name, kind, f"off the picture, {verb}", points[moved])
        _count(losses, name, "dropped", "without a place, left out", points[missing])
        kept = kept if outside == "drop" else ~missing
        x, y = x[kept], y[kept]
    column = np.floor(x if size is None else x * (columns / width))
    row = np.floor(y if size is None else y * (rows / height))
    # "clip"; and the last place before the border may round up when it is scaled
    np.clip(column, 0, columns - 1, out=column)
    np.clip(row, 0, rows - 1, out=row)
    return (row * columns + column).astype(np.intp), kept


def places(fixations: ArrayLike, shape: tuple[int, ...], **how: Any) -> Places:
    """Return the pixels of the fixations that are on the map; see `locate`."""
    return locate(fixations, shape, **how)[0]


def _refuse(
    points: Floats,
    inside: NDArray[np.bool_],
    width: float,
    height: float,
    unscaled: bool,
    outside: str,
    name: str,
) -> None:
    """Raise for places off the picture, and for places that belong to a larger picture."""
    far = (points[:, 0] >= 1.5 * width) | (points[:, 1] >= 1.5 * height)
    foreign = unscaled and far.sum() > len(points) / 2
    if outside != "raise" and not foreign:
        return
    first = int((~inside).argmax())
    hint = "Pass outside='drop' or outside='clip' to leave them out or to move them, with a count"
    if foreign:
        hint = "Most lie far off: pass size=(width, height) of the picture they refer to"
    raise DataError(
        f"{int((~inside).sum())} of {len(points)} {name} are not on the picture",
        row=first,
        expected=f"0 <= x < {width:g} and 0 <= y < {height:g}",
        found=f"({points[first, 0]:g}, {points[first, 1]:g})",
        hint=hint,
    )


def _count(losses: LossLog | None, name: str, kind: Any, reason: str, points: Floats) -> None:
    if len(points) == 0:
        return
    if losses is None:
        warnings.warn(f"{name} {reason}: {len(points)}", UserWarning, stacklevel=5)
        return
    shown = [f"({x:g}, {y:g})" for x, y in points[:3]]
    losses.add("fixations on the map", kind, reason, len(points), "fixations", shown)


def warn_constant(metric: str, value: str, stacklevel: int = 4) -> None:
    """Say that a map without contrast was scored at chance."""
    text = f"{metric}: the map is constant and says nothing; {value} is chance, by definition"
    warnings.warn(text, UserWarning, stacklevel=stacklevel)
