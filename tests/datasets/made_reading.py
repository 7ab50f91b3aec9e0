"""Tiny reading corpora in their published layouts; see `.made`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from . import test_copco, test_onestop_release, test_sb_sat, test_webqamgaze
from .test_reading_drift import write as reading_drift

MAKERS: dict[str, Callable[[Path], object]] = {
    "copco": test_copco.write,
    "onestop": test_onestop_release.write,
    "reading_drift": reading_drift,
    "sb_sat": test_sb_sat.write,
    "webqamgaze": test_webqamgaze.write,
}
