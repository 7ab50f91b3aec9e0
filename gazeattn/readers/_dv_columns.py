"""The columns of Data Viewer reports: kinds of report, our names, and which hold numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gazeattn.columns import Column
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.readers._units import option
from gazeattn.recordings import SCHEMAS

_IDS: Mapping[str, Sequence[str]] = {
    "participant": ("RECORDING_SESSION_LABEL", "Session_Name_", "DATA_FILE"),
    "trial": ("TRIAL_INDEX", "TRIAL_LABEL"),
}
_EYE: Mapping[str, Sequence[str]] = {"eye": ("EYE_USED", "EYE_TRACKED", "EYE_REPORTED")}


@dataclass(frozen=True)
class Kind:
    """A kind of report.

    Attributes
    ----------
    name : str
        What ``kind=`` calls it.
    table : str
        Table of a `Recording` that it fills.
    marks : Pattern
        Column names that only this kind has.
    columns : mapping
        Our name to the report's names for it, first choice first.
    """

    name: str
    table: str
    marks: re.Pattern[str]
    columns: Mapping[str, Sequence[str]]

    @property
    def schema(self) -> Mapping[str, Column]:
        """Schema of the table."""
        return SCHEMAS[self.table]


def _of_eyes(ours: str, theirs: str) -> dict[str, Sequence[str]]:
    return {f"{ours}_left": (f"LEFT_{theirs}",), f"{ours}_right": (f"RIGHT_{theirs}",)}


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "fixation",
            "fixations",
            re.compile(r"CURRENT_FIX_\w+"),
            {
                **_IDS,
                **_EYE,
                "onset": ("CURRENT_FIX_START",),
                "duration": ("CURRENT_FIX_DURATION",),
                "x": ("CURRENT_FIX_X",),
                "y": ("CURRENT_FIX_Y",),
                "pupil": ("CURRENT_FIX_PUPIL",),
                "area": ("CURRENT_FIX_INTEREST_AREA_ID",),
            },
        ),
        Kind(
            "saccade",
            "saccades",
            re.compile(r"CURRENT_SAC_\w+"),
            {
                **_IDS,
                **_EYE,
                "onset": ("CURRENT_SAC_START_TIME", "CURRENT_SAC_START"),
                "duration": ("CURRENT_SAC_DURATION",),
                "x_start": ("CURRENT_SAC_START_X",),
                "y_start": ("CURRENT_SAC_START_Y",),
                "x_end": ("CURRENT_SAC_END_X",),
                "y_end": ("CURRENT_SAC_END_Y",),
                "amplitude": ("CURRENT_SAC_AMPLITUDE",),
                "peak_velocity": ("CURRENT_SAC_PEAK_VELOCITY",),
            },
        ),
        Kind(
            "sample",
            "samples",
            re.compile(r"(?:LEFT|RIGHT|AVERAGE)_(?:GAZE_[XY]|PUPIL_SIZE)|SAMPLE_INDEX"),
            {
                **_IDS,
                "time": ("TIMESTAMP",),
                **_of_eyes("x", "GAZE_X"),
                **_of_eyes("y", "GAZE_Y"),
                **_of_eyes("pupil", "PUPIL_SIZE"),
                "x": ("AVERAGE_GAZE_X",),
                "y": ("AVERAGE_GAZE_Y",),
                "pupil": ("AVERAGE_PUPIL_SIZE",),
            },
        ),
        Kind(
            "interest_area",
            "areas",
            re.compile(r"IA_[A-Z]\w*"),
            {
                **_IDS,
                "area": ("IA_ID",),
                "text": ("IA_LABEL",),
                "left": ("IA_LEFT",),
                "top": ("IA_TOP",),
                "right": ("IA_RIGHT",),
                "bottom": ("IA_BOTTOM",),
            },
        ),
    )
}
"""Kinds of report. Fixation and saccade reports may bring ``IA_`` columns of their areas along."""

ALIASES: Mapping[str, str] = {
    **{kind.table: kind.name for kind in KINDS.values()},
    "interest-area": "interest_area",
    "ia": "interest_area",
}


def kind_of(names: Iterable[str]) -> str | None:
    """Return the kind of report that has these columns, None where it is none or two of them.

    One column may carry such a name by chance: two are needed.
    """
    names = list(names)
    counts = {
        k: sum(kind.marks.fullmatch(n) is not None for n in names) for k, kind in KINDS.items()
    }
    if counts["fixation"] >= 2 and counts["saccade"] >= 2:
        return None
    # Reports of fixations, saccades and samples may bring columns of their areas along.
    return next((k for k in KINDS if counts[k] >= 2), None)


def choose_kind(names: Sequence[str], stated: str | None, source: object) -> Kind:
    """Return the kind of report: the stated one where its columns are there, else found out.

    Raises
    ------
    UnknownNameError
        No kind has this name.
    DataError
        The columns are those of no report, or of two, or not those of the stated one.
    """
    if stated is not None:
        name = ALIASES.get(stated, stated)
        if name not in KINDS:
            raise UnknownNameError("kind of report", stated, KINDS)
        if not any(KINDS[name].marks.fullmatch(n) for n in names):
            raise DataError(
                f"this is no {name.replace('_', '-')} report",
                source=source,
                expected=f"columns such as {_examples(KINDS[name])}",
                found=", ".join(names[:12]),
            )
        return KINDS[name]
    found = kind_of(names)
    if found is None:
        raise DataError(
            "which Data Viewer report this is cannot be told from its columns",
            source=source,
            expected=" or ".join(_examples(k) for k in KINDS.values()),
            found=", ".join(names[:12]),
            hint=f"Say {' or '.join(option('kind', k) for k in KINDS)}; tables of other programs "
            f"are for {option('reader', 'plain')} with a column map",
        )
    return KINDS[found]


def _examples(kind: Kind) -> str:
    """Return two columns that show the kind."""
    marks = [c for names in kind.columns.values() for c in names if kind.marks.fullmatch(c)]
    return ", ".join(marks[:2])


_PREFIX = re.compile(
    r"(?:CURRENT|NEXT|PREVIOUS|LAST)_(?:FIX|SAC)_|IA_|(?:LEFT|RIGHT|AVERAGE)_"
    r"(?:GAZE|PUPIL|RAW|HREF|IN|FIX|FIXATION|SACCADE|VELOCITY|ACCELERATION|INTEREST)_"
)
_TRIAL_NUMBERS = frozenset(
    {
        "TRIAL_DWELL_TIME",
        "TRIAL_DURATION",
        "TRIAL_FIXATION_COUNT",
        "TRIAL_FIXATION_TOTAL",
        "TRIAL_IA_COUNT",
        "TRIAL_SACCADE_TOTAL",
        "TRIAL_START_TIME",
        "TRIAL_TOTAL_VISITED_IA_COUNT",
        "IP_DURATION",
        "IP_START_TIME",
        "IP_END_TIME",
        "SAMPLE_INDEX",
        "TIMESTAMP",
        "RESOLUTION_X",
        "RESOLUTION_Y",
    }
)
_WORDS = re.compile(
    r".*(?:_LABELS?|_AREAS?|_IAREAS|_IAS?|_IDS?|_DATA|_DIRECTION|_AROUND|_CONTAINS_BLINK|_GROUP|_TYPE"
    r"|_SEQUENCE|_TEXT|_LIST|_NAMES?|_FILE|_IMAGE|_EYE|_USED|_TRACKED|_DYNAMIC|_POINTS|_MESSAGE"
    r"|_ADJUSTED)"
)
_NUMBERS = re.compile(r"IA_AREA|.*_RUN_ID")  # pixels; number of the visit


def may_be_number(name: str) -> bool:
    """Say whether a column that we give no name is one of the program's number columns.

    Ids, labels, lists and all variables of the experiment are text: ``007`` stays what it is.
    """
    if name in _TRIAL_NUMBERS or _NUMBERS.fullmatch(name):
        return True
    return _PREFIX.match(name) is not None and not _WORDS.fullmatch(name)


def is_vendor_column(name: str) -> bool:
    """Say whether a name is one of the program's own, not of a variable of the experiment."""
    return (
        _PREFIX.match(name) is not None
        or name in _TRIAL_NUMBERS
        or name in ("RECORDING_SESSION_LABEL", "TRIAL_INDEX", "TRIAL_LABEL", "DATA_FILE")
        or name.startswith("EYE_")
    )


def is_id(name: str) -> bool:
    """Say whether a text column holds ids or the program's words, so that ``.`` means missing."""
    if name.endswith(("_LABEL", "_LABELS", "_TEXT", "_MESSAGE")):
        return False
    return name in ("RECORDING_SESSION_LABEL", "TRIAL_INDEX") or (
        name.startswith("EYE_") or (_PREFIX.match(name) is not None)
    )


def id_beside(label: str, names: Iterable[str]) -> str | None:
    """Return the id column of the area that a label column names, None without one.

    Without ids the area's number, or the list of areas, says as well whether there is an area.
    """
    if not label.endswith("_LABEL") or not ("AREA_" in label or label.startswith("IA_")):
        return None
    stem = label.removesuffix("_LABEL")
    there = set(names)
    known = (f"{stem}_ID", stem, f"{stem}_INDEX", f"{stem}S")
    return next((n for n in known if n in there), None)
