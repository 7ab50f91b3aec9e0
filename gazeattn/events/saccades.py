"""Size, direction and speed of saccades."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.events.spans import Spans, as_floats, totals


@dataclass(frozen=True)
class SaccadeMeasures:
    """Measures of each saccade, in the unit of the positions; arrays of shape (n_saccades,).

    Attributes
    ----------
    x_start, y_start, x_end, y_end : ndarray
        Position of the first and the last sample.
    dx, dy : ndarray
        End minus start.
    amplitude : ndarray
        Length of (dx, dy); NaN where the saccade is a single sample.
    range_x, range_y : ndarray
        Largest minus smallest position within the event, negative where the largest comes first.
    peak_velocity : ndarray
        Largest speed over all samples of the event, its last one included.
    """

    x_start: np.ndarray
    y_start: np.ndarray
    x_end: np.ndarray
    y_end: np.ndarray
    dx: np.ndarray
    dy: np.ndarray
    amplitude: np.ndarray
    range_x: np.ndarray
    range_y: np.ndarray
    peak_velocity: np.ndarray


def saccade_measures(
    x: ArrayLike, y: ArrayLike, velocity: np.ndarray, saccades: Spans
) -> SaccadeMeasures:
    """Measure saccades on the samples that they were found in.

    Parameters
    ----------
    x, y : array, shape (n,)
        Position of every sample, NaN where missing.
    velocity : ndarray, shape (n, 2)
        See `gazeattn.events.velocity`.
    saccades : Spans
    """
    xs, ys = as_floats(x, "x"), as_floats(y, "y")
    first, last = saccades.first, saccades.last
    dx, dy = xs[last] - xs[first], ys[last] - ys[first]
    amplitude = np.hypot(dx, dy)
    amplitude[first == last] = np.nan
    speed = np.hypot(velocity[:, 0], velocity[:, 1])
    return SaccadeMeasures(
        xs[first],
        ys[first],
        xs[last],
        ys[last],
        dx,
        dy,
        amplitude,
        _signed_range(xs, first, last),
        _signed_range(ys, first, last),
        totals(speed, first, last, np.fmax),
    )


def _signed_range(values: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return max minus min of each event, with the sign of their order in time."""
    high = totals(values, first, last, np.fmax)
    low = totals(values, first, last, np.fmin)
    lengths = last - first + 1
    # rows of all events, one behind the other, with the event that each belongs to
    event = np.repeat(np.arange(len(first)), lengths)
    begin = np.cumsum(lengths) - lengths
    row = np.arange(len(event)) - begin[event] + first[event]
    high_at, low_at = (
        _first_where(values[row] == extreme[event], event, row, len(first))
        for extreme in (high, low)
    )
    return np.sign(high_at - low_at) * (high - low)


def _first_where(hit: np.ndarray, event: np.ndarray, row: np.ndarray, n: int) -> np.ndarray:
    result = np.zeros(n, dtype=np.int64)
    result[event[hit][::-1]] = row[hit][::-1]  # the last write wins, which is the first hit
    return result
