"""Maps and fixations at the door: shapes, places on the map, what is left out and counted."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.metrics._arrays import as_array, in_numbers
from gazeattn.metrics._options import one_of, size_of, wrong

Floats = NDArray[np.float64]
Array = NDArray[Any]
Places = NDArray[np.intp]
Size = tuple[float, float]

OUTSIDE = ("raise", "drop", "clip")


def as_map(values: ArrayLike, name: str = "saliency map") -> Array:
    """Return a map as a (height, width) array of real numbers, in its own number type.

    Whether all values are finite is checked by what reads them.

    Raises
    ------
    DataError
        Not two-dimensional, empty, or not real numbers.
    """
    array = as_array(values, f"the {name}")
    if array.dtype.kind == "b":
        array = array.astype(np.uint8)
    if array.dtype.kind not in "uif" or array.dtype.itemsize > 8:
        array = in_numbers(values, array, f"the {name}")
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(
            f"the {name} has the wrong shape",
            expected="(height, width)",
            found=str(array.shape),
            hint="Colour channels, batches and steps are not reduced here",
        )
    return array


def not_finite(name: str, array: Array) -> DataError:
    """Return the error for a map with missing or infinite values, or too large ones."""
    missing, infinite = int(np.isnan(array).sum()), int(np.isinf(array).sum())
    if missing or infinite:
        first = int(np.argmin(np.isfinite(array.reshape(-1))))
        parts = (f"{missing} missing", f"{infinite} infinite")
        found = " and ".join(p for n, p in zip((missing, infinite), parts, strict=True) if n)
        found += f" of {array.size} values"
        if array.ndim == 2:
            found += ", the first at row {}, column {}".format(*divmod(first, array.shape[1]))
    else:
        low, high = float(array.min()), float(array.max())
        found = f"values from {low:g} to {high:g}, whose sum is beyond float64"
    return DataError(
        f"the {name} has missing, infinite or overflowing values",
        expected="finite numbers",
        found=found,
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
    columns = getattr(fixations, "columns", None)
    if columns is not None and "x" in columns and "y" in columns:
        fixations = fixations[["x", "y"]]  # type: ignore[call-overload,index]
    points = in_numbers(fixations, as_array(fixations, f"the {name}"), f"the {name}")
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


def sizes_of(sizes: Any, n: int) -> list[Any]:
    """Return one size per image, from one for all (or None) or a list of them.

    Raises
    ------
    DataError
        Another number of sizes, or no sizes at all.
    """
    if sizes is None:
        return [None] * n
    if not isinstance(sizes, list | tuple | np.ndarray) or np.size(np.asarray(sizes, object)) == 0:
        raise wrong("sizes", "(width, height), or one such pair per image", sizes)
    if not isinstance(sizes[0], list | tuple | np.ndarray) and sizes[0] is not None:
        return [size_of(sizes, "sizes")] * n
    if len(sizes) != n:
        raise DataError("one size per image is needed", expected=f"{n}", found=f"{len(sizes)}")
    return [None if s is None else size_of(s, f"size of image {i}") for i, s in enumerate(sizes)]


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
        off that they must refer to a larger picture. A map whose sides are exchanged.
    """
    one_of("treatment of fixations outside", outside, OUTSIDE)
    if losses is not None and not isinstance(losses, LossLog):
        raise wrong("losses", "a LossLog or None", losses)
    points = as_points(fixations, name)
    rows, columns = shape[-2:]
    width, height = (float(columns), float(rows)) if size is None else size_of(size)
    if size is not None:
        refuse_transposed(rows, columns, width, height)
    x, y = points[:, 0], points[:, 1]
    kept = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    moves = size is not None  # the last place before the border may round up when it is scaled
    if not kept.all():
        _refuse(points, kept, width, height, size is None, outside, name)
        missing = np.isnan(x) | np.isnan(y)
        moved = ~kept & ~missing
        kind: Any = "dropped" if outside == "drop" else "repaired"
        verb = "left out" if outside == "drop" else "moved to the border"
        _count(losses, name, kind, f"off the picture, {verb}", points[moved])
        _count(losses, name, "dropped", "without a place, left out", points[missing])
        kept = kept if outside == "drop" else ~missing
        x, y, moves = x[kept], y[kept], True
    column = np.floor(x if size is None else x * (columns / width))
    row = np.floor(y if size is None else y * (rows / height))
    if moves:
        np.clip(column, 0, columns - 1, out=column)
        np.clip(row, 0, rows - 1, out=row)
    return (row * columns + column).astype(np.intp), kept


def refuse_transposed(rows: int, columns: int, width: float, height: float) -> None:
    """Raise where a map has the sides of its picture exchanged.

    A map may be stretched, as those of networks with square inputs are; but one whose sides are in
    the proportion of height to width, and not the other way round, was turned. Maps of a few
    cells say nothing.
    """
    if min(rows, columns) < 8:
        return
    rounding = 1.0 / rows + 1.0 / columns  # each side may be off by half a cell and more
    straight = abs(np.log(columns * height / (rows * width)))
    turned = abs(np.log(rows * height / (columns * width)))
    if turned <= rounding and straight > rounding + 0.1:
        raise DataError(
            "the map has the sides of its picture exchanged",
            expected=f"(height, width) in the proportion of {height:g} to {width:g}",
            found=f"({rows}, {columns})",
            hint="Transpose it: arrays are (height, width), size is (width, height)",
        )


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
