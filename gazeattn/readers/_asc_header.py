"""Screen, tracker and date of an ASC file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from gazeattn.errors import DataError
from gazeattn.losses import LossLog

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
USUAL = frozenset(
    {
        (640, 480), (800, 600), (1024, 600), (1024, 768), (1152, 864), (1280, 720), (1280, 768),
        (1280, 800), (1280, 960), (1280, 1024), (1360, 768), (1366, 768), (1400, 1050),
        (1440, 900), (1600, 900), (1600, 1200), (1680, 1050), (1920, 1080), (1920, 1200),
        (2048, 1152), (2048, 1536), (2560, 1080), (2560, 1440), (2560, 1600), (3440, 1440),
        (3840, 2160), (4096, 2160),
    }
)  # fmt: skip
Corners = Sequence[float]


def screen_of(
    coordinates: Mapping[str, list[tuple[float, float, float, float]]],
    stated: tuple[int, int] | None,
    lost: LossLog,
) -> tuple[int, int] | None:
    """Return width and height in pixels: last coordinate minus first plus one.

    A stated screen wins; that the file differs is logged. Of the two messages of the file
    GAZE_COORDS wins, since gaze is in its coordinates, unless only DISPLAY_COORDS gives a usual
    resolution.

    Raises
    ------
    DataError
        The stated screen is not two positive whole numbers.
    """
    if stated is not None:
        try:
            width, height = stated
            fine = int(width) == width > 0 and int(height) == height > 0
        except (TypeError, ValueError, OverflowError):
            fine = False
        if not fine:
            raise DataError(
                "screen must be width and height in pixels",
                expected="two positive whole numbers",
                found=repr(stated),
            )
        stated = (int(width), int(height))
    sizes: dict[str, tuple[int, int]] = {}
    for name in ("GAZE_COORDS", "DISPLAY_COORDS"):
        found = coordinates.get(name, [])
        if len(found) > 1:
            why = f"{name} changes within the file: the last is taken"
            lost.add("screen", "note", why, 1, "files", found)
        if found:
            left, top, right, bottom = found[-1]
            sizes[name] = (round(abs(right - left)) + 1, round(abs(bottom - top)) + 1)
            if (left, top) != (0, 0):
                why = "the screen does not begin at (0, 0): positions are as written"
                lost.add("screen", "note", why, 1, "files", [f"{name} {found[-1]}"])
    for name, (w, h) in sizes.items():
        if (w, h) not in USUAL and (w - 1, h - 1) in USUAL:
            why = "the size is one more than a usual resolution: the last pixel may be the size"
            lost.add("screen", "note", why, 1, "files", [f"{name}: {w} x {h}"])
    if len(set(sizes.values())) > 1:
        why = "GAZE_COORDS and DISPLAY_COORDS differ"
        lost.add(
            "screen", "note", why, 1, "files", [f"{k} {w} x {h}" for k, (w, h) in sizes.items()]
        )
    size = next((s for s in sizes.values() if s in USUAL), next(iter(sizes.values()), None))
    if stated is None:
        return size
    if size is not None and size != stated:
        why = "the stated screen differs from that of the file: the stated one is taken"
        example = f"stated {stated[0]} x {stated[1]}, file {size[0]} x {size[1]}"
        lost.add("screen", "note", why, 1, "files", [example])
    return stated


def date_of(header: Mapping[str, str], lost: LossLog) -> str | None:
    """Return the date of the recording in ISO form, None where empty or not understood."""
    text = header.get("DATE")
    if text is None:
        return None
    found = re.fullmatch(
        r"(?:[A-Za-z]+,?\s+)?([A-Za-z]{3})[a-z]*\s+(\d{1,2})\s+(\d{1,2}):(\d\d):(\d\d)\s+(\d{4})",
        text,
    )
    if found and found[1].lower() in MONTHS:
        try:
            day, hour, minute, second, year = map(int, found.groups()[1:])
            month = MONTHS.index(found[1].lower()) + 1
            return datetime(year, month, day, hour, minute, second).isoformat()
        except ValueError:
            pass
    try:
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        why = "the date of the header cannot be read: missing" if text else "the date is empty"
        lost.add("header", "undefined", why, 1, "files", [repr(text)])
        return None


def tracker_of(preamble: Sequence[str], header: Mapping[str, str]) -> str | None:
    """Return the model of the tracker: the line with its version, else what the header names."""
    for text in preamble:
        if re.match(r"EYELINK\b.* v\d", text, re.I):
            return text
    return header.get("SOURCE") or header.get("VERSION") or None
