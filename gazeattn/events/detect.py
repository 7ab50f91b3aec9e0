"""One door from a table of samples to fixations, saccades and blinks."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd

from gazeattn.errors import UnknownNameError
from gazeattn.events.angles import Geometry
from gazeattn.events.blinks import padding_of
from gazeattn.events.frames import Events
from gazeattn.events.jobs import Job, detect_group
from gazeattn.events.methods import METHODS, has_degrees, settings_of
from gazeattn.events.methods import threshold_unit as unit_of
from gazeattn.events.spans import STEP, check_choice
from gazeattn.events.streams import check_positions, eyes_of, groups_of, keys_of

Eye = Literal["each", "left", "right", "mean", "binocular"]


def detect(
    samples: pd.DataFrame,
    method: str = "ivt",
    *,
    geometry: Geometry | None = None,
    positions: Literal["pixels", "degrees"] = "pixels",
    threshold_unit: Literal["degrees", "pixels"] | None = None,
    eye: Eye = "each",
    minimum_duration: float | None = None,
    max_gap: float = 0.0,
    blinks: Literal["pupil", "position"] | pd.DataFrame | None = "pupil",
    blink_padding: float | tuple[float, float] | None = None,
    rate: float | None = None,
    strict: bool = False,
    **parameters: Any,
) -> Events:
    """Find fixations, saccades and blinks in samples.

    Nothing goes across a gap, a block, a trial, a participant or a new start of the clock.

    Parameters
    ----------
    samples : DataFrame
        Columns of `gazeattn.recordings.SAMPLES`: ``time`` in ms and ``x, y`` or ``x_left`` ...
    method : {"ivt", "idt", "engbert_kliegl", "remodnav", "nslr_hmm"}
    geometry : Geometry, optional
        Turns pixels into degrees. Without it, degrees per second mean nothing: ``ivt`` and
        ``idt`` then need ``threshold_unit="pixels"`` and their own threshold, and the amplitude
        and the velocity of saccades stay missing.
    positions : {"pixels", "degrees"}
        Unit of the positions in `samples`.
    threshold_unit : {"degrees", "pixels"}, optional
        Unit that thresholds count in; degrees where they can be had. ``engbert_kliegl`` takes its
        threshold from the data and works in either.
    eye : {"each", "left", "right", "mean", "binocular"}
        Each eye by itself; one of them; the mean position of both where both are there; or
        saccades that both eyes made (``engbert_kliegl`` only). The last two are marked ``both``.
    minimum_duration : float, optional
        Shortest fixation in ms: 60 unless said otherwise, 40 for ``remodnav``, 0 for ``nslr_hmm``.
    max_gap : float
        Missing time in ms that an event may go across.
    blinks : {"pupil", "position"}, DataFrame or None
        Where blinks are taken from: stretches without a pupil, without a position, a table of
        the tracker (columns of `BLINKS`), or nowhere.
    blink_padding : float or (float, float), optional
        Time in ms before and after blinks that is no gaze either.
    rate : float, optional
        Samples per second where there is no column ``time``.
    strict : bool
        Raise where the clock steps back instead of sorting.
    **parameters
        Settings of the method: those of the function of its name; for blinks
        ``minimum_blink`` and ``maximum_blink`` (50 and 1000 ms).

    Returns
    -------
    Events
        Positions of fixations and saccades in pixels (in degrees where there is no geometry to
        turn them back), saccade amplitude in degrees, peak velocity in degrees per second.

    Raises
    ------
    DataError
        Units that are not stated, samples without position or time, damaged values.
    CapabilityError
        Eyes that are not in the samples, or a library that is not installed.
    UnknownNameError
        A method or parameter of no such name.
    """
    if method not in METHODS:
        raise UnknownNameError("method", method, METHODS)
    check_choice("unit of the positions", positions, ("pixels", "degrees"))
    check_choice("eye", eye, ("each", "left", "right", "mean", "binocular"))
    blink_limits = {
        "minimum_duration": parameters.pop("minimum_blink", 50.0),
        "maximum_duration": parameters.pop("maximum_blink", 1000.0),
    }
    unit = unit_of(method, geometry, positions, threshold_unit, parameters)
    settings = settings_of(method, parameters, minimum_duration)
    job = Job(
        method,
        settings,
        geometry,
        positions,
        unit,
        max_gap,
        rate,
        eye,
        padding_of(blink_padding),
        blink_limits,
        blinks,
    )
    lost = job.lost
    eyes = eyes_of(samples)
    check_positions(samples, eyes, positions, geometry, lost)
    keys, rows = keys_of(samples)
    for group in groups_of(samples, rows, rate, strict, lost):
        detect_group(job, group, keys, eyes)
    if positions == "degrees" and geometry is None:
        lost.add(STEP, "note", "x and y are degrees as given: no geometry", 1, "tables")
    if not has_degrees(geometry, positions):
        count = sum(map(len, job.saccades.groups))
        reason = "amplitude and peak velocity in degrees need the geometry"
        lost.add(STEP, "undefined", reason, count, "saccades")
    table = blinks.copy() if isinstance(blinks, pd.DataFrame) else job.blinks.frame(keys)
    recorded = {
        **settings,
        "positions": positions,
        "threshold_unit": unit,
        "geometry": geometry,
        "eye": eye,
        "max_gap": max_gap,
        "rate": rate,
        "blinks": "table" if isinstance(blinks, pd.DataFrame) else blinks,
        "blink_padding": job.padding,
        "minimum_blink": blink_limits["minimum_duration"],
        "maximum_blink": blink_limits["maximum_duration"],
        "streams": job.info,
    }
    return Events(
        job.fixations.frame(keys),
        job.saccades.frame(keys),
        table,
        job.other.frame(keys),
        method,
        recorded,
        lost,
    )
