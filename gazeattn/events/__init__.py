"""Samples to fixations, saccades and blinks.

`detect` takes a table of samples; behind it stand functions over arrays: `ivt`, `idt`,
`engbert_kliegl`, `binocular`, `find_blinks`, `velocity`, and `Geometry` for degrees.
"""

from gazeattn.events.angles import Geometry
from gazeattn.events.blinks import find_blinks, near
from gazeattn.events.detect import METHODS, detect
from gazeattn.events.engbert_kliegl import Binocular, binocular, engbert_kliegl, velocity_noise
from gazeattn.events.external import nslr_hmm, remodnav
from gazeattn.events.frames import Events
from gazeattn.events.gaps import Track, interval_of, order_of, track
from gazeattn.events.idt import idt
from gazeattn.events.ivt import ivt
from gazeattn.events.saccades import SaccadeMeasures, saccade_measures
from gazeattn.events.spans import Detected, Spans, long_enough, runs
from gazeattn.events.velocity import velocity

__all__ = [
    "METHODS",
    "Binocular",
    "Detected",
    "Events",
    "Geometry",
    "SaccadeMeasures",
    "Spans",
    "Track",
    "binocular",
    "detect",
    "engbert_kliegl",
    "find_blinks",
    "idt",
    "interval_of",
    "ivt",
    "long_enough",
    "near",
    "nslr_hmm",
    "order_of",
    "remodnav",
    "runs",
    "saccade_measures",
    "track",
    "velocity",
    "velocity_noise",
]
