"""Errors that say where, what was expected, what was found, and what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GazeattnError(Exception):
    """Base of every error that this package raises on purpose."""


class DataError(GazeattnError, ValueError):
    """Input that cannot be used.

    Parameters
    ----------
    message
        One sentence on what is wrong.
    source
        File, table or object that holds the fault.
    row
        Row (as the file counts it) or record id, where one is known.
    expected, found
        What would have been right and what stood there.
    hint
        What to do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        source: object | None = None,
        row: object | None = None,
        expected: object | None = None,
        found: object | None = None,
        hint: str | None = None,
    ) -> None:
        self.message, self.source, self.row = message, source, row
        self.expected, self.found, self.hint = expected, found, hint
        parts = []
        if source is not None:
            parts.append(f"{source}" + (f", row {row}" if row is not None else "") + ":")
        elif row is not None:
            parts.append(f"row {row}:")
        parts.append(message)
        text = " ".join(parts)
        if expected is not None:
            text += f"; expected {expected}"
        if found is not None:
            text += f"; found {found}"
        if hint:
            text += f". {hint}"
        super().__init__(text)


class CapabilityError(GazeattnError):
    """A data set or model lacks what a method needs; the message names the missing part."""


class MissingAssetError(GazeattnError, FileNotFoundError):
    """A data set or model is not on this machine; the message says which command fetches it."""


class ChecksumError(GazeattnError):
    """A file does not have the content that its definition states."""


class UnknownNameError(GazeattnError, KeyError):
    """A name that no registry or table knows, with the nearest known ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, sorted(map(str, known))
        self.suggestions = suggest(name, self.known)
        text = f"unknown {kind} {name!r}"
        if self.suggestions:
            text += f"; did you mean {' or '.join(repr(s) for s in self.suggestions)}?"
        elif self.known:
            text += f"; known: {', '.join(self.known)}"
        self.text = text
        super().__init__(text)

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return self.text


def suggest(name: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Return the known names nearest to `name` (case and `-`/`_` ignored), best first."""
    folded: dict[str, str] = {}
    for k in known:
        folded.setdefault(str(k).lower().replace("-", "_"), str(k))
    hits = difflib.get_close_matches(str(name).lower().replace("-", "_"), folded, n=n, cutoff=0.6)
    return [folded[h] for h in hits]
