"""The bytes of text files: reading them, their encoding, separator and first damaged byte."""

from __future__ import annotations

import codecs
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from gazeattn.errors import DataError, UnknownNameError, suggest

Data = bytes | memoryview

NEWLINE = ord("\n")

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}


@dataclass(frozen=True)
class Format:
    """How a text table is written; None means: found out from the file."""

    encoding: str | None = None
    separator: str | None = None
    decimal: str = "."
    quote: str | None = '"'

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise DataError(
                "decimal must be a point or a comma", expected="'.' or ','", found=self.decimal
            )
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise UnknownNameError(
                    "encoding", self.encoding, ["utf-8", "utf-16", "cp1252", "latin-1", "cp1251"]
                ) from None
        if self.separator is not None and len(self.delimiter or "") != 1:
            raise DataError(
                "separator must be one character",
                expected=f"a character, or one of {', '.join(SEPARATORS)}",
                found=repr(self.separator),
            )

    @property
    def delimiter(self) -> str | None:
        """The separator as a character."""
        return None if self.separator is None else SEPARATORS.get(self.separator, self.separator)


def file_bytes(path: Path) -> memoryview:
    """Return the bytes of a file.

    Raises
    ------
    DataError
        No such file; names those with similar names.
    """
    if not path.is_file():
        folder = path.parent
        names = [p.name for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []
        near = [] if path.is_dir() else suggest(path.name, names)
        raise DataError(
            "is a folder, not a file" if path.is_dir() else "no such file",
            source=path,
            hint=f"Did you mean {' or '.join(map(repr, near))}?" if near else None,
        )
    # Not mapped: a file that another program cuts while it is mapped ends the whole process.
    with path.open("rb") as file:
        buffer = pa.allocate_buffer(os.fstat(file.fileno()).st_size)  # memory that is used again
        view = memoryview(buffer).cast("B")
        there = file.readinto(view)
        rest = file.read()  # the file has grown since, or its size was not known
    return memoryview(bytes(view[:there]) + rest) if rest else view[:there].toreadonly()


def sniff_encoding(data: bytes) -> str:
    """Return the encoding that a byte-order mark or the pattern of zero bytes shows.

    Without either it is UTF-8; whether the bytes are UTF-8 is checked afterwards.
    """
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(mark):
            return name
    start = data[:400]
    if start[1::2].count(0) > 0.8 * len(start[1::2]):
        return "utf-16-le"
    if start[0::2].count(0) > 0.8 * len(start[0::2]):
        return "utf-16-be"
    return "utf-8"


def find(data: Data, byte: int, begin: int = 0) -> int | None:
    """Return where a byte occurs first, None without one."""
    values, step = np.frombuffer(data, np.uint8), 1 << 18
    for at in range(begin, len(data), step):
        hits = values[at : at + step] == byte
        if hits.any():
            return at + int(hits.argmax())
    return None


def check_bytes(data: Data, encoding: str, path: object, *, stated: bool) -> None:
    """Raise `DataError` at the first byte that the encoding cannot hold."""
    if encoding == "utf-8" and len(data) and np.frombuffer(data, np.int8).min() > 0:
        return  # neither a zero byte nor, as negative numbers, a letter outside ASCII
    zero = find(data, 0) if encoding == "utf-8" else None
    if zero is not None:
        raise DataError(
            f"a zero byte at offset {zero}: the file is damaged or not text", source=path
        )
    decoder, step = codecs.getincrementaldecoder(encoding)("strict"), 1 << 24
    for at in range(0, len(data), step):
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(data[at : at + step], final=at + step >= len(data))
        except UnicodeError as error:
            offset = at - pending + getattr(error, "start", 0)
            line = bytes(data[:offset]).count(b"\n") + 1
            raise DataError(
                f"byte 0x{data[offset]:02x} at offset {offset} is not valid {encoding}",
                source=path,
                row=line,
                hint=None
                if stated
                else "State the encoding, for example encoding='cp1252' (--option "
                "encoding=cp1252 on the command line) for files of older Windows programs",
            ) from None


def sniff_separator(header: str, name: str) -> str:
    """Return the separator that splits the header line into most cells.

    Equal numbers, or none, are settled by the file name: a tab for ``.tsv``, ``.tab`` and
    ``.txt``, else a comma.
    """
    plain = re.sub(r'"[^"]*"', "", header)
    stem = name.lower().removesuffix(".gz")
    usual = "\t" if stem.endswith((".tsv", ".tab", ".txt")) else ","
    counts = {s: plain.count(s) for s in (usual, "\t", ";", ",", "|")}
    return max(counts, key=lambda s: counts[s])
