"""What the columns of sample lines are: the header's promise held against the rows themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

EYES = {"LEFT": "left", "RIGHT": "right"}
STATUS = re.compile(rb"[.A-Z?]+")
NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
TARGET = ("target_x", "target_y", "target_distance")
PREFIX = {"GAZE": "", "HREF": "href_", "PUPIL": "raw_"}


class Declared(NamedTuple):
    """What START and SAMPLES lines say about the sample lines of a block.

    Attributes
    ----------
    eyes : tuple of {"left", "right"}
        Empty where not stated.
    data : {"GAZE", "HREF", "PUPIL"}
        Kind of position; only gaze is in pixels of the screen.
    flags : tuple of str
        Others in the order of the line: VEL, RES, INPUT, BUTTONS, HTARGET.
    """

    eyes: tuple[str, ...] = ()
    data: str = "GAZE"
    flags: tuple[str, ...] = ()


@dataclass
class Plan:
    """Names of the cells of a sample line, and what is doubtful about them."""

    names: list[str]
    notes: list[str] = field(default_factory=list)

    @property
    def core(self) -> set[str]:
        """Columns that a row must have."""
        kinds = ("x", "y", "pupil", "href", "raw", "status")
        return {n for n in self.names if n.partition("_")[0] in kinds}

    @property
    def texts(self) -> set[str]:
        """Columns of letters and dots."""
        return {n for n in self.names if n.endswith("status")}


def _is_status(cells: Sequence[bytes], missing: frozenset[bytes]) -> bool:
    """Say whether most of a column is flags: letters, or several dots in a row."""
    there = [c for c in cells if c not in missing]
    return 2 * sum(STATUS.fullmatch(c) is not None for c in there) > len(there)


def plan(declared: Declared, rows: Sequence[Sequence[bytes]], missing: frozenset[bytes]) -> Plan:
    """Name the cells of sample lines of one length.

    The rows decide how many columns there are and which hold flags; the header decides what they
    mean. A number before the flags that no header line promises is the input port, never a second
    eye.

    Parameters
    ----------
    declared
    rows
        Some lines, cut into cells, all of the same length.
    missing
        Cells that mean "missing".

    Returns
    -------
    Plan
        Without names where the lines cannot be samples.
    """
    flags = [_is_status([row[k] for row in rows], missing) for k in range(len(rows[0]))]
    flags[0] = False
    n = len(flags)
    eyes, notes = declared.eyes, []
    if True not in flags and _only_dots(rows, n - 1) and n - 2 in _sizes(declared):
        flags[-1] = True  # the flags of pupil-only tracking are a single dot
    first = flags.index(True) if True in flags else n
    lead = first - 1
    width = max((len(row[first]) for row in rows), default=0) if first < n else 0
    behind: list[str] = []
    if "HTARGET" in declared.flags and first == n - 1 and width > 8 and lead >= 6:
        behind, lead = list(TARGET), lead - 3  # head target without flags of the eye
    if not eyes:
        both = width == 5 or (width == 0 and lead in (6, 7))
        eyes = ("left", "right") if both and lead >= 6 else ("",)
    elif lead < 3 * len(eyes) and len(eyes) == 2 and lead >= 3:
        notes.append("the header names two eyes but the rows hold one: eye not stated")
        eyes = ("",)
    elif len(eyes) == 1 and width == 5 and lead >= 6:
        notes.append("the header names one eye but the rows hold two")
        eyes = ("left", "right")
    wide, resolution = "VEL" in declared.flags, "RES" in declared.flags
    for velocity, res in ((wide, resolution), (wide, False), (False, resolution), (False, False)):
        need = (5 if velocity else 3) * len(eyes) + 2 * res
        if need <= lead:
            break
    else:
        return Plan([])
    absent = [f for f, on, got in (("VEL", wide, velocity), ("RES", resolution, res)) if on > got]
    prefix = PREFIX[declared.data]
    side = [f"_{eye}" if eye else "" for eye in eyes]
    names = ["time"]
    for s in side:
        names += [f"{prefix}x{s}", f"{prefix}y{s}", f"pupil{s}"]
    if velocity:
        names += [f"{v}{s}" for s in side for v in ("velocity_x", "velocity_y")]
    if res:
        names += ["resolution_x", "resolution_y"]
    promised = [f.lower() for f in declared.flags if f in ("INPUT", "BUTTONS")]
    extra = lead - need
    ports = promised[:extra] if promised or extra > 1 else ["input"][:extra]
    absent += [p.upper() for p in promised[extra:]]
    names += ports + [f"extra_{k}" for k in range(1, extra - len(ports) + 1)]
    if extra > len(promised):
        what = "the input port" if extra == 1 and not promised else "kept as extra columns"
        notes.append(f"sample columns that no header line names: {what}")
    names += behind
    names += _after(flags[first:], behind, notes)
    if "HTARGET" in declared.flags and "target_x" not in names:
        absent.append("HTARGET")
    if absent:
        notes.append(f"the header promises {', '.join(absent)} but the rows have no such columns")
    return Plan(names, notes)


def _sizes(declared: Declared) -> set[int]:
    """Return how many numbers may follow the time where the header is right."""
    n = len(declared.eyes) or 1
    base = (5 if "VEL" in declared.flags else 3) * n + 2 * ("RES" in declared.flags)
    return {base, base + ("INPUT" in declared.flags) + ("BUTTONS" in declared.flags)}


def _only_dots(rows: Sequence[Sequence[bytes]], column: int) -> bool:
    return column > 3 and all(row[column] == b"." for row in rows)


def _after(flags: list[bool], behind: list[str], notes: list[str]) -> list[str]:
    """Name the flags and what follows them."""
    if not flags:
        return []
    if behind:
        return ["target_status"]
    rest = flags[1:]
    if rest in ([False] * 3, [False] * 3 + [True]):
        return ["status", *TARGET, *(["target_status"] if len(rest) == 4 else [])]
    names = ["status"]
    for k, is_text in enumerate(rest, 1):
        names.append(f"after_{k}_status" if is_text else f"after_{k}")
    if rest:
        notes.append("columns after the flags that no header line names: kept as after_1, ...")
    return names
