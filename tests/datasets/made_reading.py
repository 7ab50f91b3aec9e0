"""Tiny reading corpora in their published layouts; see `.made`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from . import reading_files as files
from . import test_copco, test_onestop_release, test_sb_sat, test_webqamgaze
from .test_reading_drift import write as reading_drift

MAKERS: dict[str, Callable[[Path], object]] = {
    "celer": files.celer,
    "copco": test_copco.write,
    "emtec": files.emtec,
    "geco": files.geco,
    "iitb_hgc": files.iitb_hgc,
    "meco_l1": files.meco_l1,
    "meco_l2": files.meco_l2,
    "onestop": test_onestop_release.write,
    "potec": files.potec,
    "provo": files.provo,
    "reading_brain": files.reading_brain,
    "reading_drift": reading_drift,
    "sb_sat": test_sb_sat.write,
    "webqamgaze": test_webqamgaze.write,
    "zuco1": files.zuco1,
}
if find_spec("h5py") is not None:  # ZuCo 2 is HDF5
    MAKERS["zuco2"] = files.zuco2
