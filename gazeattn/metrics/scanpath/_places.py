"""Fixations off the stimulus and durations in another unit: what is done, counted and said."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gazeattn.errors import DataError
from gazeattn.losses import LossKind, LossLog
from gazeattn.metrics._options import one_of, size_of
from gazeattn.metrics.scanpath._packed import SECONDS, Floats, Packed

OUTSIDE = ("keep", "clip", "drop", "undefined", "raise")
"""What a metric with a `size` can do with fixations off the stimulus; its own default is first.

On the stimulus is 0 <= x < width and 0 <= y < height. ``"keep"`` takes positions as they are,
``"clip"`` moves a fixation to the border, ``"drop"`` leaves it out of its path, ``"undefined"``
makes every value of its path NaN, ``"raise"`` refuses it.
"""

_DONE: dict[str, tuple[LossKind, str]] = {
    "keep": ("note", "kept where they are"),
    "clip": ("repaired", "moved to its border"),
    "drop": ("dropped", "left out"),
    "undefined": ("undefined", "their scanpaths have no value"),
}
_BINS = ("time_bin", "bin_ms")
"""Parameters that make a metric look at durations."""

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def off_stimulus(paths: Packed, size: object) -> NDArray[np.bool_]:
    """Return which fixations lie off the stimulus, (n_paths, longest); False behind the ends."""
    width, height = size_of(size)
    off = (paths.x < 0) | (paths.x >= width) | (paths.y < 0) | (paths.y >= height)
    return np.asarray(off & paths.valid())


def treated(paths: Packed, size: object, how: str) -> tuple[Packed, NDArray[np.bool_]]:
    """Treat fixations off the stimulus; return the paths, and which of them have no value."""
    none: NDArray[np.bool_] = np.zeros(len(paths), dtype=bool)
    off = off_stimulus(paths, size)
    if how == "keep" or not off.any():
        return paths, none
    if how == "raise":
        path, fixation = (int(v) for v in np.argwhere(off)[0])
        place = [float(paths.x[path, fixation]), float(paths.y[path, fixation])]
        raise DataError(
            f"scanpath {path} has a fixation outside the stimulus",
            row=fixation,
            expected="0 <= x < width and 0 <= y < height",
            found=f"{place}, and {int(off.sum()) - 1} more",
            hint="outside='drop' leaves such fixations out",
        )
    if how == "clip":
        x, y = (
            np.where(off, np.clip(v, 0.0, np.nextafter(side, 0.0)), v)
            for v, side in zip((paths.x, paths.y), size_of(size), strict=True)
        )
        return replace(paths, x=x, y=y), none
    keep: NDArray[np.bool_] = paths.valid() & ~off
    missing: NDArray[np.bool_] = np.asarray(off.any(axis=1))
    if how == "undefined":
        keep &= ~missing[:, None]
    order = np.argsort(~keep, axis=1, kind="stable")
    length = keep.sum(axis=1).astype(np.int64)
    behind = np.arange(keep.shape[1]) >= length[:, None]
    x, y, duration = (
        np.where(behind, 0.0, np.take_along_axis(v, order, axis=1))
        for v in (paths.x, paths.y, paths.duration)
    )
    kept = replace(paths, x=x, y=y, duration=duration, length=length)
    return kept, missing if how == "undefined" else none


def with_outside(*known: str, effect: str = "") -> Callable[[Kernel], Kernel]:
    """Let a kernel with a `size` take `outside`, one of `known`, the first by default.

    The kernel gets paths that are treated already. `effect` says what the default may do to values.
    """

    def decorate(kernel: Kernel) -> Kernel:
        @functools.wraps(kernel)
        def treating(
            A: Packed, B: Packed, i: Any, j: Any, *, size: Any, outside: Any = None, **params: Any
        ) -> Floats:
            how = known[0] if outside is None else outside
            how = one_of("treatment of fixations outside the stimulus", how, known)
            a, lost_a = treated(A, size, how)
            b, lost_b = (a, lost_a) if B is A else treated(B, size, how)
            values: Floats = kernel(a, b, i, j, size=size, outside=how, **params)
            lost = lost_a[np.asarray(i, dtype=np.intp)] | lost_b[np.asarray(j, dtype=np.intp)]
            if lost.any():
                values[lost] = np.nan
            return values

        treating.outside, treating.effect = known, effect  # type: ignore[attr-defined]
        return treating  # type: ignore[return-value]

    return decorate


def with_durations(kernel: Kernel) -> Kernel:
    """Mark a kernel that always looks at durations."""
    kernel.durations = True  # type: ignore[attr-defined]
    return kernel


def looks_at_durations(kernel: Callable[..., Any], params: Mapping[str, Any]) -> bool:
    """Return whether a metric uses durations, given its parameters."""
    binned = any(params.get(name) is not None for name in _BINS)
    return binned or bool(getattr(kernel, "durations", False))


def treatment(kernel: Callable[..., Any], params: Mapping[str, Any]) -> str | None:
    """Return what happens to fixations off the stimulus; None for a metric without a choice."""
    known = getattr(kernel, "outside", ())
    if not known or "size" not in params:
        return None
    return str(known[0] if params.get("outside") is None else params["outside"])


def doubts(
    kernel: Callable[..., Any],
    sides: Sequence[Packed],
    params: Mapping[str, Any],
    *,
    losses: LossLog | None = None,
    one_pair: bool = False,
    stacklevel: int = 3,
) -> None:
    """Count fixations off the stimulus and doubtful units in `losses`, or warn of them.

    Nobody is warned who stated `outside` or keeps a log. Of one pair the warning has no count, so
    that Python shows it once per line of a program.
    """
    found = []
    if looks_at_durations(kernel, params) and any(map(_in_seconds, sides)):
        found.append("all durations are below 10 ms: they look like seconds (see in_milliseconds)")
    threshold = params.get("duration_threshold")
    if threshold and 0 < threshold < SECONDS and not any(map(_in_seconds, sides)):
        found.append("duration_threshold is below 10 ms: it looks like seconds")
    if "size" in params and any(_in_shares(p, params["size"]) for p in sides):
        found.append(
            "all positions lie within 2 pixels of a corner: they look like shares of the stimulus"
        )
    for text in found:
        if losses is None:
            warnings.warn(text, UserWarning, stacklevel=stacklevel)
        else:
            each = sum(int(p.length.sum()) for p in sides)
            name = kernel.__name__.removesuffix("_pairs")
            losses.add(name, "note", f"doubt: {text}", each, "fixations")
    how = treatment(kernel, params)
    if how not in _DONE:
        return
    count = sum(int(off_stimulus(p, params["size"]).sum()) for p in sides)
    if count == 0:
        return
    name = kernel.__name__.removesuffix("_pairs")
    kind, done = _DONE[how]
    if losses is not None:
        losses.add(name, kind, f"fixations off the stimulus: {done}", count, "fixations")
    elif params.get("outside") is None:
        number = "" if one_pair else f"{count} "
        effect = getattr(kernel, "effect", "")
        done += f", {effect}" if effect else ""
        text = f"{name}: {number}fixations off the stimulus, {done}; outside= says what else to do"
        warnings.warn(text, UserWarning, stacklevel=stacklevel)


SHARES = 2.0
"""Positions that are all below this on a picture of `LARGE` pixels look like shares of it."""
LARGE = 50.0


def _in_shares(paths: Packed, size: Any) -> bool:
    """Whether several different positions all lie in the first two pixels of a large stimulus."""
    valid = paths.valid()
    x, y = paths.x[valid], paths.y[valid]
    if len(x) < 3 or min(size) < LARGE:
        return False
    inside = bool(((x >= 0) & (x <= SHARES) & (y >= 0) & (y <= SHARES)).all())
    return inside and bool(np.ptp(x) > 0 or np.ptp(y) > 0)


def _in_seconds(paths: Packed) -> bool:
    known = paths.duration[paths.valid() & (paths.duration > 0)]
    return len(known) > 0 and bool(known.max() < SECONDS)
