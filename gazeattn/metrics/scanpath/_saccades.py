"""Saccades of packed scanpaths, and the simplification of scanpaths before MultiMatch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gazeattn.metrics.scanpath._packed import Floats, Packed, Whole

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Saccades:
    """Saccades side by side, (n_paths, most); anything behind the end.

    Attributes
    ----------
    x, y : ndarray
        Where each saccade starts.
    dx, dy : ndarray
        How far it goes.
    length, angle : ndarray
        The same in polar form; the angle lies in 0 to 2 pi.
    duration : ndarray
        Of the fixation at its start.
    count : ndarray, shape (n_paths,)
    """

    x: Floats
    y: Floats
    dx: Floats
    dy: Floats
    length: Floats
    angle: Floats
    duration: Floats
    count: Whole


def saccades(paths: Packed) -> Saccades:
    """Return the saccades between the fixations of each path."""
    count = np.maximum(paths.length - 1, 0)
    inside = np.arange(max(paths.x.shape[1] - 1, 0)) < count[:, None]
    dx = np.where(inside, np.diff(paths.x, axis=1), 0.0)
    dy = np.where(inside, np.diff(paths.y, axis=1), 0.0)
    return _polar(paths.x[:, :-1], paths.y[:, :-1], dx, dy, paths.duration[:, :-1], count)


def _polar(
    x: Floats, y: Floats, dx: Floats, dy: Floats, duration: Floats, count: Whole
) -> Saccades:
    angle = np.arctan2(dy, dx)
    angle = np.where(angle < 0, np.pi + (np.pi + angle), angle)
    return Saccades(x, y, dx, dy, np.sqrt(dx**2 + dy**2), angle, duration, count)


@dataclass(frozen=True)
class Thresholds:
    """Below which two saccades become one: degrees, pixels, milliseconds."""

    direction: float
    amplitude: float
    duration: float

    def active(self) -> bool:
        """Return whether anything can be merged at all."""
        return self.duration > 0 and (self.direction > 0 or self.amplitude > 0)


# -- the published rule: a merged saccade is a fixation left out ----------------------------------


def simplified(paths: Packed, limits: Thresholds) -> Packed:
    """Leave out the fixations that the published simplification merges away."""
    while limits.active():
        shorter = _leave_out(paths, _turned(paths, limits))
        shorter = _leave_out(shorter, _stepped(shorter, limits))
        if np.array_equal(shorter.length, paths.length):
            break
        paths = shorter
    return paths


def _brief(paths: Packed, limits: Thresholds) -> Bools:
    """Return which fixations are shorter than the limit; without a limit all are."""
    if np.isinf(limits.duration):
        return np.ones(paths.duration.shape, dtype=bool)
    return np.asarray(paths.duration < limits.duration)


def _turned(paths: Packed, limits: Thresholds) -> Bools:
    """Return which fixations lie between two saccades of about the same direction."""
    s = saccades(paths)
    gone = np.zeros(paths.x.shape, dtype=bool)
    if s.dx.shape[1] > 1:
        near = _angles(s.dx, s.dy) < limits.direction
        near &= np.arange(1, s.dx.shape[1]) < s.count[:, None]
        gone[:, 1:-1] = near & _brief(paths, limits)[:, 1:-1]
    return _every_other(gone)


def _stepped(paths: Packed, limits: Thresholds) -> Bools:
    """Return which fixations end a short saccade; for the last saccade, the one that starts it."""
    s, brief = saccades(paths), _brief(paths, limits)
    gone = np.zeros(paths.x.shape, dtype=bool)
    short = (s.length < limits.amplitude) & (brief[:, :-1] | brief[:, 1:])
    most = s.dx.shape[1]
    gone[:, 1:] = short & (np.arange(most) < s.count[:, None] - 1)
    gone = _every_other(gone)
    rows = np.flatnonzero(s.count >= 2)
    last = s.count[rows] - 1  # also the fixation at which the last saccade starts
    # Where that fixation is gone already, the last saccade is part of a merged one.
    gone[rows, last] |= short[rows, last]
    return gone


def _every_other(gone: Bools) -> Bools:
    """Keep the first of two neighbours: a saccade that was just merged is not merged again."""
    for k in range(1, gone.shape[1]):
        gone[:, k] &= ~gone[:, k - 1]
    return gone


def _leave_out(paths: Packed, gone: Bools) -> Packed:
    if not gone.any():
        return paths
    kept = paths.valid() & ~gone
    length = kept.sum(axis=1)
    inside = np.arange(int(length.max(initial=0))) < length[:, None]
    blocks = np.zeros((3, *inside.shape))
    for block, values in zip(blocks, (paths.x, paths.y, paths.duration), strict=True):
        block[inside] = values[kept]
    return Packed(blocks[0], blocks[1], blocks[2], length=length, timed=paths.timed)


def _angles(dx: Floats, dy: Floats) -> Floats:
    """Return the angle between each saccade and the next in degrees; NaN beside a zero length."""
    dot = dx[:, :-1] * dx[:, 1:] + dy[:, :-1] * dy[:, 1:]
    length = np.sqrt(dx * dx + dy * dy)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = dot / (length[:, :-1] * length[:, 1:])
    return np.asarray(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


# -- the package's variant ------------------------------------------------------------------------


def simplified_as_package(paths: Packed, limits: Thresholds) -> Saccades:
    """Simplify as multimatch-gaze 0.1.3 does, with its two oddities at the last saccade.

    A short last saccade overwrites the saccade before it by the sum of the last two saccades of
    the pass, and leaves one duration too many; the number of durations decides when to stop.
    Where the package breaks off with an error (one saccade is left) the saccade stays.
    """
    state = _Lists.of(paths)
    active = np.arange(len(paths))  # each path stops on its own
    while len(active):
        part = state.rows(active)
        before = part.durations
        part = part.walked(limits, by_direction=True).walked(limits, by_direction=False)
        state.put(active, part)
        active = active[part.durations != before]
    return _polar(
        state.x, state.y, state.dx, state.dy, state.duration[:, : state.x.shape[1]], state.count
    )


@dataclass(frozen=True)
class _Lists:
    """Saccades, and as many durations as there happen to be."""

    x: Floats
    y: Floats
    dx: Floats
    dy: Floats
    duration: Floats
    count: Whole
    durations: Whole

    @classmethod
    def of(cls, paths: Packed) -> _Lists:
        s = saccades(paths)
        duration = np.zeros((len(paths), paths.x.shape[1] + 1))
        duration[:, :-1] = paths.duration
        return cls(
            np.array(s.x),
            np.array(s.y),
            np.array(s.dx),
            np.array(s.dy),
            duration,
            s.count.copy(),
            paths.length.copy(),
        )

    def _parts(self) -> tuple[NDArray, ...]:
        return (self.x, self.y, self.dx, self.dy, self.duration, self.count, self.durations)

    def rows(self, which: NDArray[np.integer]) -> _Lists:
        return _Lists(*(v[which] for v in self._parts()))

    def put(self, which: NDArray[np.integer], other: _Lists) -> None:
        for mine, new in zip(self._parts(), other._parts(), strict=True):
            mine[which] = new

    def walked(self, limits: Thresholds, *, by_direction: bool) -> _Lists:
        """Go once over the saccades of all paths from left to right."""
        out = _Lists(*(np.zeros_like(v) for v in self._parts()))
        n = len(self.count)
        rows = np.arange(n)
        final = self.duration[rows, self.durations - 1]
        free = np.zeros(n, dtype=np.int64)  # the next saccade that is not used up yet
        angles = _angles(self.dx, self.dy) if by_direction else None
        brief = self.duration < limits.duration
        length = np.sqrt(self.dx**2 + self.dy**2)
        extra = np.zeros(n, dtype=bool)
        for k in range(int(self.count.max(initial=0))):
            here = (free == k) & (k < self.count)
            last = here & (k == self.count - 1)
            if angles is not None:
                merge = here & ~last & brief[:, k + 1]
                if k < angles.shape[1]:
                    merge &= angles[:, k] < limits.direction
                back = np.zeros(n, dtype=bool)
            else:
                short = length[:, k] < limits.amplitude
                merge = here & ~last & short & (brief[:, k] | brief[:, k + 1])
                ends = brief[rows, self.durations - 1] | brief[rows, self.durations - 2]
                back = last & short & ends & (self.count >= 2)
            self._copy(out, np.flatnonzero(here & ~back), k, merge)
            free[here] = k + 1 + merge[here]
            at = np.flatnonzero(back)
            out.dx[at, out.count[at] - 1] = self.dx[at, k - 1] + self.dx[at, k]
            out.dy[at, out.count[at] - 1] = self.dy[at, k - 1] + self.dy[at, k]
            out.duration[at, out.count[at]] = self.duration[at, k - 1]
            extra |= back
        place = out.count + extra
        out.duration[rows, place] = final
        out.durations[:] = place + 1
        return out

    def _copy(self, out: _Lists, rows: NDArray[np.integer], k: int, merge: Bools) -> None:
        to = out.count[rows]
        out.x[rows, to], out.y[rows, to] = self.x[rows, k], self.y[rows, k]
        out.dx[rows, to], out.dy[rows, to] = self.dx[rows, k], self.dy[rows, k]
        out.duration[rows, to] = self.duration[rows, k]
        out.count[rows] += 1
        both = merge[rows]
        if both.any():
            rows, to = rows[both], to[both]
            out.dx[rows, to] += self.dx[rows, k + 1]
            out.dy[rows, to] += self.dy[rows, k + 1]
