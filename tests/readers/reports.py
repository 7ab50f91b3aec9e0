"""Small Data Viewer reports, written by hand, for the tests."""

from __future__ import annotations

from gazeattn.readers import Recording

FIXATIONS = """\
RECORDING_SESSION_LABEL\tTRIAL_INDEX\tCURRENT_FIX_INDEX\tCURRENT_FIX_START\tCURRENT_FIX_DURATION\t\
CURRENT_FIX_X\tCURRENT_FIX_Y\tCURRENT_FIX_PUPIL\tCURRENT_FIX_INTEREST_AREAS\t\
CURRENT_FIX_INTEREST_AREA_ID\tCURRENT_FIX_INTEREST_AREA_LABEL\tEYE_USED\tNEXT_SAC_AMPLITUDE\t\
NEXT_SAC_DIRECTION\tanswer
P01\t1\t1\t120\t210\t100.5\t50\t700\t[ 7]\t7\tdog\tRIGHT\t1.25\tRIGHT\tyes
P01\t1\t2\t350\t180\t220.25\t51.5\t.\t[ 7, 8]\t7\t.\tRIGHT\t0.5\tUP\tUNDEFINEDnull
P01\t1\t3\t.\t190\t.\t.\t702\t[ ]\t.\t.\tRIGHT\t.\t.\tnull
P01\t2\t1\t10\t200\t300\t52\t703\t[ 9]\t9\tNA\tLEFT\t2\tLEFT\t.
"""
UMLAUT = FIXATIONS.replace("dog", "Größe").replace("yes", "ja")
COMMA = FIXATIONS
for _old, _new in (("100.5", "100,5"), ("220.25", "220,25"), ("51.5", "51,5"), ("1.25", "1,25")):
    COMMA = COMMA.replace(_old, _new)
COMMA = COMMA.replace("\t0.5\t", "\t0,5\t")


def reasons(recording: Recording) -> str:
    return str(recording.lost)


def table(header: str, *rows: str) -> str:
    """Return a tab-separated report from blank-separated cells; ``_`` is an empty cell."""
    lines = (header, *rows)
    return "\n".join("\t".join("" if c == "_" else c for c in x.split()) for x in lines) + "\n"
