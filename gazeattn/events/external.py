"""Methods of other libraries, which are installed only by those who want them."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import CapabilityError, DataError
from gazeattn.events.gaps import Track, note_fragments, track
from gazeattn.events.spans import STEP, Detected, Spans, long_enough

_REMODNAV_KINDS = {
    "FIXA": "fixation",
    "SACC": "saccade",
    "ISAC": "saccade",
    "PURS": "pursuit",
    "HPSO": "post_saccadic_oscillation",
    "IHPS": "post_saccadic_oscillation",
    "LPSO": "post_saccadic_oscillation",
    "ILPS": "post_saccadic_oscillation",
}
_NSLR_KINDS = {
    "FIXATION": "fixation",
    "SACCADE": "saccade",
    "SMOOTH_PURSUIT": "pursuit",
    "PSO": "post_saccadic_oscillation",
}
_PREPROCESSING = (
    "min_blink_duration",
    "dilate_nan",
    "median_filter_length",
    "savgol_length",
    "savgol_polyord",
    "max_vel",
)
_SHORTEST = 5  # samples; NSLR cannot fit a line to less


def remodnav(
    time: ArrayLike | None,
    x: ArrayLike,
    y: ArrayLike,
    *,
    minimum_duration: float = 40.0,
    max_gap: float = 0.0,
    rate: float | None = None,
    breaks: ArrayLike | None = None,
    settings: Mapping[str, float] | None = None,
) -> Detected:
    """Fixations, saccades, pursuit and oscillations by REMoDNaV (Dar, Wagner and Hanke, 2021).

    The library gets degrees, so its ``px2deg`` is 1. Missing samples stand in the data as such;
    an event of the library that goes across a gap is cut there.

    Parameters
    ----------
    time : array, shape (n,), or None
        Milliseconds on an even clock (holes allowed); else `rate`.
    x, y : array, shape (n,)
        Degrees.
    minimum_duration : float
        Shortest fixation in ms, also the ``min_fixation_duration`` of the library.
    max_gap : float
        Missing time in ms that an event may go across.
    settings : mapping, optional
        Further settings of the library's classifier and preprocessing, in its units (seconds). The
        Savitzky-Golay window must be an odd number of samples; unless set, its default of 19 ms is
        taken up to the next window that fits the rate.

    Returns
    -------
    Detected
        ``other`` holds ``"pursuit"`` and ``"post_saccadic_oscillation"``; ``info`` the settings.

    Raises
    ------
    CapabilityError
        The library is not installed.
    DataError
        The clock is uneven or the library refuses the data.
    """
    library = _library("remodnav.clf", "REMoDNaV", "pip install remodnav")
    samples = track(time, x, y, rate=rate, max_gap=max_gap, breaks=breaks)
    chosen = dict(settings or {})
    if not len(samples.rows) or not np.isfinite(samples.interval):
        return _events(samples, np.zeros(len(samples.rows)), {}, minimum_duration, {})
    place, frequency = _grid(samples, max_gap)
    polyord = int(chosen.get("savgol_polyord", 2))
    if "savgol_length" not in chosen:
        window = max(int(0.019 * frequency), polyord + 1)
        window += 1 - window % 2
        chosen["savgol_length"] = (window + 0.5) / frequency  # cut to `window` by the library
    chosen.setdefault("min_fixation_duration", max(minimum_duration, 1.0) / 1000.0)
    needed = int(float(chosen["savgol_length"]) * frequency)
    if place[-1] + 1 < needed:
        reason = f"samples in streams shorter than the filter of {needed} samples"
        samples.lost.add(STEP, "undefined", reason, len(place), "samples")
        return _events(samples, np.zeros(len(place)), {}, minimum_duration, chosen)
    data = np.full(place[-1] + 1, np.nan, dtype=[("x", "f8"), ("y", "f8")]).view(np.recarray)
    data["x"][place], data["y"][place] = samples.x, samples.y
    events = np.zeros(len(place))
    kinds: dict[int, str] = {}
    counter = _Counter()
    found = _run_remodnav(library, data, frequency, chosen, counter)
    for number, event in enumerate(found, start=1):
        kinds[number] = _REMODNAV_KINDS.get(event["label"], str(event["label"]))
        limits = [round(event[key] * frequency) for key in ("start_time", "end_time")]
        a, b = np.searchsorted(place, limits)
        events[a:b] = number
    samples.lost.add(
        STEP, "note", "messages of the library", counter.count, "messages", counter.first
    )
    return _events(samples, events, kinds, minimum_duration, chosen)


def nslr_hmm(
    time: ArrayLike | None,
    x: ArrayLike,
    y: ArrayLike,
    *,
    minimum_duration: float = 0.0,
    max_gap: float = 0.0,
    rate: float | None = None,
    breaks: ArrayLike | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Detected:
    """Fixations, saccades, pursuit and oscillations by NSLR-HMM (Pekkanen and Lappi, 2017).

    Every stretch between two gaps is given to the library by itself, time in seconds.

    Parameters
    ----------
    time, x, y, minimum_duration, max_gap, rate, breaks
        As for `remodnav`; the clock may be uneven.
    settings : mapping, optional
        Keyword arguments of the library's ``classify_gaze``.

    Raises
    ------
    CapabilityError
        The library is not installed. It is under the AGPL and in no package registry.
    """
    library = _library(
        "nslr_hmm",
        "NSLR-HMM",
        "It is not in the package registry: install nslr and nslr-hmm from their repositories "
        "(pupil-labs), or use method='remodnav'",
    )
    samples = track(time, x, y, rate=rate, max_gap=max_gap, breaks=breaks)
    m = len(samples.rows)
    events = np.zeros(m)
    kinds = dict(enumerate(_NSLR_KINDS.values(), start=1))
    begins = np.flatnonzero(samples.start)
    skipped = 0
    for a, b in zip(begins, np.append(begins[1:], m), strict=True):
        if b - a < _SHORTEST:
            skipped += int(b - a)
            continue
        eye = np.column_stack([samples.x[a:b], samples.y[a:b]])
        seconds = (samples.time[a:b] - samples.time[a]) / 1000.0
        found = np.asarray(library.classify_gaze(seconds, eye, **dict(settings or {}))[0])
        for number, name in enumerate(_NSLR_KINDS, start=1):
            events[a:b][found == getattr(library, name)] = number
    reason = f"samples in stretches of less than {_SHORTEST} samples"
    samples.lost.add(STEP, "undefined", reason, skipped, "samples")
    return _events(samples, events, kinds, minimum_duration, dict(settings or {}))


def _library(module: str, name: str, how: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise CapabilityError(
            f"{name} is not installed ({error}). {how}. "
            "The methods ivt, idt and engbert_kliegl need no other library"
        ) from error


def _grid(samples: Track, max_gap: float) -> tuple[np.ndarray, float]:
    """Return the number of each sample on an even clock, and its rate in Hz.

    Long holes and new starts become one second without samples, or twice `max_gap`.
    """
    interval, start = samples.interval, samples.start
    longest = max(1, round(max(1000.0, 2.0 * max_gap) / interval))
    steps = np.diff(samples.time) / interval
    counts = np.rint(np.clip(steps, 0, longest)).astype(np.int64)
    counts[start[1:] & (steps < 1.5)] = longest  # a break with no hole: keep the parts apart
    place = np.append(0, np.cumsum(counts))
    inner = ~start[1:]
    n, elapsed = int(counts[inner].sum()), float(np.diff(samples.time)[inner].sum())
    mean = elapsed / n if n else interval
    begin = np.flatnonzero(start)[np.cumsum(start) - 1]
    late = samples.time - samples.time[begin] - (place - place[begin]) * mean
    off = np.abs(late) > 0.5 * interval
    if off.any() or (counts < 1).any():
        raise DataError(
            "REMoDNaV needs an even clock",
            expected=f"a sample every {interval:g} ms",
            found=f"{int(off.sum())} of {len(late)} samples off by more than half of that, "
            f"{int((counts < 1).sum())} at the time of another",
            hint="Resample, or use method='engbert_kliegl'",
        )
    return place, 1000.0 / mean


class _Counter(logging.Handler):
    """Counts what the library logs instead of printing thousands of lines."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count, self.first = 0, list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        if len(self.first) < 1:
            self.first.append(record.getMessage())


def _run_remodnav(
    library: ModuleType,
    data: np.ndarray,
    frequency: float,
    settings: Mapping[str, float],
    counter: _Counter,
) -> list[dict[str, Any]]:
    before = {k: v for k, v in settings.items() if k in _PREPROCESSING}
    rest = {k: v for k, v in settings.items() if k not in _PREPROCESSING}
    logger = logging.getLogger("remodnav")
    propagate = logger.propagate
    logger.addHandler(counter)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            classifier = library.EyegazeClassifier(1.0, frequency, **rest)
            return list(classifier(classifier.preproc(data, **before)))
    except (ValueError, TypeError, IndexError) as error:
        raise DataError("REMoDNaV refuses the data", found=" ".join(str(error).split())) from error
    finally:
        logger.removeHandler(counter)
        logger.propagate = propagate


def _events(
    samples: Track,
    numbers: np.ndarray,
    kinds: Mapping[int, str],
    minimum: float,
    settings: Mapping[str, Any],
) -> Detected:
    """Return spans from the number of the event (0: none) that each sample belongs to."""
    lost = samples.lost
    border = samples.start.copy()
    border[1:] |= numbers[1:] != numbers[:-1]
    first = np.flatnonzero(border)
    last = np.append(first[1:], len(numbers)) - 1 if len(first) else first
    kind = np.array([kinds.get(int(k), "") for k in numbers[first]], dtype=object)
    found: dict[str, Spans] = {}
    for name in ("fixation", "saccade", *sorted(set(kinds.values()) - {"fixation", "saccade"})):
        mine = kind == name
        spans = samples.spans(first[mine], last[mine])
        keep = np.ones(len(spans), dtype=bool)
        if name == "fixation":
            keep = long_enough(spans, minimum)
            note_fragments(lost, "fixations", int((~keep).sum()), minimum, "ms", "inclusive")
        samples.note_cut(lost, f"{name}s", first[mine][keep], last[mine][keep])
        found[name] = spans[keep]
    other = {k: v for k, v in found.items() if k not in ("fixation", "saccade")}
    unlabelled = int((numbers == 0).sum())
    lost.add(STEP, "undefined", "samples that the library gave no event", unlabelled, "samples")
    return Detected(
        found["fixation"], found["saccade"], None, lost, {"settings": dict(settings)}, other
    )
