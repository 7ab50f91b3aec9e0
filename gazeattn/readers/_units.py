"""Units as the headers of tracker files write them: ``[ms]``, ``(ADCSpx)``, ``[DACS norm]``."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

import numpy as np

from gazeattn.errors import DataError

SPELLINGS = {
    "ns": ("ns", "nsec", "nanosecond", "nanoseconds"),
    "us": ("us", "μs", "usec", "μsec", "microsecond", "microseconds"),
    "ms": ("ms", "msec", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "px": ("px", "pixel", "pixels", "pix"),
    "mm": ("mm", "millimeter", "millimeters", "millimetre", "millimetres"),
    "norm": ("norm", "normalised", "normalized"),
    "deg": ("deg", "degree", "degrees", "°", "dva"),
    "deg/s": ("deg/s", "°/s", "degrees/s", "degrees/second"),
    "px/s": ("px/s", "pixels/s", "pixel/s"),
    "arbitrary": ("arbitrary", "au", "a.u.", "arbitrary unit", "arbitrary units"),
}
"""Unit to its spellings, micro signs as U+03BC (`fold` makes U+00B5 the same)."""

MILLISECONDS = {"ns": (1.0, 1e6), "us": (1.0, 1e3), "ms": (1.0, 1.0), "s": (1e3, 1.0)}
"""Time unit to (factor, divisor): dividing by 1000 is exact where multiplying by 0.001 is not."""

FRAMES = ("ADCS", "DACS", "MCS", "HUCS", "UCS")
_UNIT_OF = {text: unit for unit, texts in SPELLINGS.items() for text in texts}
_BRACKET = re.compile(r"(.*?)\s*[\[(]([^\[\]()]*)[\])]\s*")
_FRAME = re.compile(rf"({'|'.join(FRAMES)})\s*(.*)", re.IGNORECASE)


def option(name: str, value: object) -> str:
    """Return how an option of a reader is stated in Python and on the command line.

    Examples
    --------
    >>> option("screen", (1920, 1080))
    'screen=(1920, 1080) (--option screen=1920,1080 on the command line)'
    """
    typed = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    typed = {"None": "null", "True": "true", "False": "false"}.get(typed, typed)
    if name == "reader":
        return f"{name}={value!r} (--reader {typed} on the command line)"
    quote = "'" if set(typed) & set(' ;|\t"<>()') else ""
    typed = f"--option {quote}{name}={typed}{quote}"
    return f"{name}={value!r} ({typed} on the command line)"


def fold(text: str) -> str:
    """Return a text for comparison: one micro sign, no case, single blanks."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def unit_of(text: str) -> str | None:
    """Return the unit that a text names (``"μs"`` gives ``"us"``), None where it is none."""
    return _UNIT_OF.get(fold(text))


@dataclass(frozen=True)
class Header:
    """A column name taken apart.

    Attributes
    ----------
    name : str
        As the file has it.
    key : str
        Without its bracket, case, blanks, hyphens and underscores.
    unit : str or None
        A key of `SPELLINGS`; None without a bracket or where the bracket holds no unit.
    bracket : str or None
        Text in the bracket.
    frame : str or None
        Coordinate system in the bracket, one of `FRAMES`.
    """

    name: str
    key: str
    unit: str | None = None
    bracket: str | None = None
    frame: str | None = None


def parse_header(name: str) -> Header:
    """Take a column name apart; a bracket that holds no unit stays known as text."""
    found = _BRACKET.fullmatch(name)
    bare, bracket = (found[1], found[2].strip()) if found else (name, None)
    key = re.sub(r"[ _-]", "", fold(bare))
    if bracket is None:
        return Header(name, key)
    framed = _FRAME.fullmatch(bracket)
    frame, unit = (framed[1].upper(), framed[2]) if framed else (None, bracket)
    return Header(name, key, unit_of(unit), bracket, frame)


def time_unit(header: Header, stated: str | None, default: str | None, source: object) -> str:
    """Return the time unit of a column: as its header says, else as stated, else the default.

    Raises
    ------
    DataError
        The unit is unknown or is no time, header and statement differ, or nobody says one.
    """
    if stated is not None:
        unit = unit_of(stated)
        if unit not in MILLISECONDS:
            raise DataError(
                "unknown time unit", source=source, expected="ns, us, ms or s", found=repr(stated)
            )
        if header.unit in MILLISECONDS and header.unit != unit:
            raise DataError(
                f"column {header.name!r} has another unit than time_unit states",
                source=source,
                expected=header.unit,
                found=stated,
            )
        return unit
    if header.unit in MILLISECONDS:
        return str(header.unit)
    if header.bracket is not None and default is None:
        raise DataError(
            f"column {header.name!r} has an unknown time unit",
            source=source,
            expected="ns, us (μs), ms or s",
            found=repr(header.bracket),
            hint=f"State it, for example {option('time_unit', 'ms')}",
        )
    if default is None:
        raise DataError(
            f"column {header.name!r} does not say its unit",
            source=source,
            expected="ns, us (μs), ms or s in the header",
            hint=f"State it, for example {option('time_unit', 'ms')}",
        )
    return default


def to_ms(values: np.ndarray, unit: str) -> np.ndarray:
    """Return times in milliseconds; `unit` is a key of `MILLISECONDS`."""
    factor, divisor = MILLISECONDS[unit]
    return values * factor / divisor


def length_unit(header: Header, default: str | None, source: object) -> str:
    """Return the unit of a position: ``"px"``, ``"mm"``, ``"norm"`` or ``"deg"``.

    Raises
    ------
    DataError
        The bracket names another or an unknown unit, or there is none and no default.
    """
    if header.unit in ("px", "mm", "norm", "deg"):
        return str(header.unit)
    if header.bracket is None and default is not None:
        return default
    raise DataError(
        f"column {header.name!r} has an unknown unit of position"
        if header.bracket is not None
        else f"column {header.name!r} does not say its unit",
        source=source,
        expected="px, mm, norm (normalised) or deg in the header",
        found=None if header.bracket is None else repr(header.bracket),
    )


def to_pixels(
    x: np.ndarray, y: np.ndarray, screen: tuple[float, float], *, up: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels from the top left for positions from 0 to 1.

    Parameters
    ----------
    x, y : ndarray, shape (n,)
        1 is the edge of the screen.
    screen
        Width and height in pixels.
    up
        The y axis begins at the bottom.
    """
    return x * screen[0], (1.0 - y if up else y) * screen[1]


def check_screen(screen: object) -> tuple[float, float] | None:
    """Return a screen size as (width, height), None for None; raise `DataError` otherwise."""
    if screen is None:
        return None
    try:
        width, height = (float(v) for v in screen)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        width = height = float("nan")
    if not (0 < width < np.inf and 0 < height < np.inf):
        raise DataError(
            "screen must be the width and height in pixels",
            expected=f"two positive numbers, for example {option('screen', (1920, 1080))}",
            found=repr(screen),
        )
    return width, height
