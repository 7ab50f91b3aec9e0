"""Checks of the options of metrics: what is wrong is a `DataError` that names the option."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gazeattn.errors import DataError, UnknownNameError


def wrong(name: str, expected: str, value: object, hint: str | None = None) -> DataError:
    """Return the error for an option whose value cannot be used."""
    found = repr(value)
    found = found if len(found) <= 100 else f"{found[:100]}..."
    return DataError(f"{name} is wrong", expected=expected, found=found, hint=hint)


def as_number(value: object) -> float:
    """Return a plain number as a float; NaN for whatever is none (text, a truth value, a list)."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def whole(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number of at least `least`, or raise `DataError`."""
    number = as_number(value)
    if not (np.isfinite(number) and number == np.floor(number) and number >= least):
        raise wrong(name, f"a whole number of at least {least}", value)
    return int(value) if isinstance(value, Integral) else int(number)


def positive(name: str, value: Any, *, zero: bool = False) -> float:
    """Return a finite number above 0 (or 0 as well), or raise `DataError`."""
    number = as_number(value)
    if not np.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise wrong(name, f"a finite number, {'0 or more' if zero else 'above 0'}", value)
    return number


def finite(name: str, value: Any) -> float:
    """Return a finite number, or raise `DataError`."""
    number = as_number(value)
    if not np.isfinite(number):
        raise wrong(name, "a finite number", value)
    return number


def share(name: str, value: Any, *, one: bool = False) -> float:
    """Return a number above 0 and below 1 (or 1 as well), or raise `DataError`."""
    number = as_number(value)
    if not (0 < number < 1 or (one and number == 1)):
        raise wrong(name, f"a number above 0 and {'at most' if one else 'below'} 1", value)
    return number


def flag(name: str, value: Any) -> bool:
    """Return True or False, or raise `DataError`: a text such as "no" would count as yes."""
    if not isinstance(value, bool | np.bool_):
        raise wrong(name, "True or False", value)
    return bool(value)


def choice(name: str, value: Any, known: Collection[str | None]) -> Any:
    """Return `value`, or raise `DataError` when it is none of the known ones."""
    if not (value is None or isinstance(value, str)) or value not in known:
        raise wrong(name, f"one of {', '.join(map(repr, known))}", value)
    return value


def one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    """Return `value`, or raise `UnknownNameError` when it is none of the known ones."""
    if not isinstance(value, str) or value not in known:
        raise UnknownNameError(name, value, known)
    return value


def _parts(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim else []
    return list(value) if isinstance(value, tuple | list) else []


def pair_of(name: str, value: Any) -> tuple[Any, Any]:
    """Return the two parts of a pair, or raise `DataError`."""
    parts = _parts(value)
    if len(parts) != 2:
        raise wrong(name, "a pair", value)
    return parts[0], parts[1]


def size_of(size: Any, name: str = "size") -> tuple[float, float]:
    """Return (width, height), or raise `DataError` when it is not two positive numbers."""
    values = [as_number(part) for part in _parts(size)]
    if len(values) != 2 or not all(np.isfinite(v) and v > 0 for v in values):
        raise wrong(name, "(width, height) in pixels, both above 0", size)
    return values[0], values[1]


def items(name: str, value: Any, expected: str) -> list[Any]:
    """Return the items of a list, array or column, or raise `DataError` for text and no list."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise wrong(name, expected, value)
    try:
        return list(value)
    except TypeError:  # an array without an axis
        raise wrong(name, expected, value) from None


def array(name: str, value: Any, expected: str) -> NDArray[Any]:
    """Return an array of any kind, or raise `DataError` for rows of unequal lengths."""
    try:
        return np.asarray(value)
    except ValueError:
        raise wrong(name, expected, value) from None


def labels(name: str, values: Any) -> NDArray[np.str_]:
    """Return one label per item as texts, (n,), or raise `DataError`."""
    expected = "one label per item"
    given = values if isinstance(values, np.ndarray) else items(name, values, expected)
    column = array(name, given, expected)
    if column.ndim != 1:
        raise wrong(name, expected, values)
    return column.astype(str)


def generator(rng: Any) -> np.random.Generator:
    """Return a source of randomness from a generator or seed (None: a new one each time)."""
    try:
        if isinstance(rng, bool | np.bool_):
            raise TypeError
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise wrong("rng", "a numpy Generator, a seed of 0 or more, or None", rng) from None
