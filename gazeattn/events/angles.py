"""Pixels on a screen and degrees of visual angle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.events.spans import check_choice

Origin = Literal["upper left", "lower left", "center"]


@dataclass(frozen=True)
class Geometry:
    """Screen and eye: what turns pixels into degrees.

    Degrees count from the point straight ahead of the eye, which is the middle of the screen:
    ``atan2((x - middle) * cm_per_pixel, distance)`` along each axis by itself. The middle of
    pixels 0 to width - 1 is (width - 1) / 2. The distance between two points is that in the plane
    of the two angles, which is near the true angle within about 20 degrees of the middle.

    Parameters
    ----------
    width, height : float
        Screen in pixels.
    width_cm, height_cm : float
        Screen in centimetres.
    distance_cm : float
        From eye to screen.
    origin : {"upper left", "lower left", "center"}
        Where pixel (0, 0) is. Degrees always have 0, 0 in the middle and grow as the pixels do.

    Raises
    ------
    DataError
        A size is not a number above 0.
    """

    width: float
    height: float
    width_cm: float
    height_cm: float
    distance_cm: float
    origin: Origin = "upper left"

    def __post_init__(self) -> None:
        for name in ("width", "height", "width_cm", "height_cm", "distance_cm"):
            value = getattr(self, name)
            if isinstance(value, str | bool) or not (value > 0 and math.isfinite(value)):
                raise DataError(f"{name} of the geometry must be above 0", found=repr(value))
        check_choice("origin", self.origin, ("upper left", "lower left", "center"))

    def _axis(self, axis: int) -> tuple[float, float]:
        """Return the middle of an axis and the distance to the eye, both in pixels."""
        pixels = (self.width, self.height)[axis]
        centimetres = (self.width_cm, self.height_cm)[axis]
        middle = 0.0 if self.origin == "center" else (pixels - 1) / 2
        return middle, self.distance_cm * pixels / centimetres

    def to_degrees(self, x: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return x and y in degrees from x and y in pixels."""
        return tuple(  # type: ignore[return-value]
            np.degrees(np.arctan2(np.asarray(v, dtype=np.float64) - middle, distance))
            for v, (middle, distance) in zip((x, y), map(self._axis, (0, 1)), strict=True)
        )

    def to_pixels(self, x: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return x and y in pixels from x and y in degrees.

        Raises
        ------
        DataError
            An angle of 90 degrees or more meets no screen.
        """
        result = []
        for v, (middle, distance) in zip((x, y), map(self._axis, (0, 1)), strict=True):
            angles = np.asarray(v, dtype=np.float64)
            if (np.abs(angles) >= 90).any():
                raise DataError(
                    "angles of 90 degrees or more meet no screen",
                    found=float(np.nanmax(np.abs(angles))),
                    hint="Are these pixels?",
                )
            result.append(np.tan(np.radians(angles)) * distance + middle)
        return result[0], result[1]
