"""The methods by name, their settings and the unit that they count in."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.events.angles import Geometry
from gazeattn.events.engbert_kliegl import engbert_kliegl
from gazeattn.events.external import nslr_hmm, remodnav
from gazeattn.events.idt import idt
from gazeattn.events.ivt import ivt
from gazeattn.events.spans import Detected, check_choice

METHODS: Mapping[str, tuple[Callable[..., Detected], Mapping[str, Any]]] = {
    "ivt": (ivt, {"threshold": 30.0, "minimum_duration": 60.0}),
    "idt": (idt, {"threshold": 1.0, "minimum_duration": 60.0}),
    "engbert_kliegl": (engbert_kliegl, {"minimum_duration": 60.0}),
    "remodnav": (remodnav, {}),
    "nslr_hmm": (nslr_hmm, {}),
}
"""Methods by name, with the settings that the function itself leaves open: 30 degrees per second,
1 degree, 60 ms."""
_OWN = {"time", "x", "y", "max_gap", "rate", "breaks", "velocity"}  # given by detect itself


def has_degrees(geometry: Geometry | None, positions: str) -> bool:
    """Return whether positions in degrees can be had."""
    return positions == "degrees" or geometry is not None


def threshold_unit(
    method: str,
    geometry: Geometry | None,
    positions: str,
    stated: str | None,
    parameters: Mapping[str, Any],
) -> str:
    """Return the unit that thresholds count in; raise where it cannot be known."""
    if stated is not None:
        check_choice("unit of the threshold", stated, ("degrees", "pixels"))
    degrees = has_degrees(geometry, positions)
    if stated is None and (degrees or method == "engbert_kliegl"):
        return "degrees" if degrees else "pixels"
    if stated is None or (stated == "degrees" and not degrees):
        raise DataError(
            f"{method} counts in degrees, and nothing says how large the pixels are",
            expected="geometry=Geometry(...), or positions='degrees'",
            hint="For ivt and idt also threshold_unit='pixels' with threshold=",
        )
    if stated == "pixels":
        if method in ("remodnav", "nslr_hmm"):
            raise DataError(f"{method} counts in degrees only", found="threshold_unit='pixels'")
        if positions == "degrees" and geometry is None:
            raise DataError(
                "degrees become pixels by geometry only", expected="geometry=Geometry(...)"
            )
        if method in ("ivt", "idt") and "threshold" not in parameters:
            raise DataError("a threshold in pixels has no default", expected="threshold=")
    return stated


def settings_of(
    method: str, parameters: Mapping[str, Any], minimum: float | None
) -> dict[str, Any]:
    """Return every setting that the function of the method takes, defaults included."""
    function, open_ones = METHODS[method]
    known = {
        name: p.default
        for name, p in inspect.signature(function).parameters.items()
        if name not in _OWN
    }
    for name in parameters:
        if name not in known:
            raise UnknownNameError(
                f"parameter of {method}", name, [*known, "minimum_blink", "maximum_blink"]
            )
    if parameters.get("unit", "ms") != "ms":
        raise DataError("a table of samples has a clock: durations are ms", found="unit='samples'")
    settings = {**known, **open_ones, **parameters}
    if minimum is not None:
        settings["minimum_duration"] = float(minimum)
    return settings
