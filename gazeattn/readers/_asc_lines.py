"""The lines of an ASC file, in chunks: which of them hold samples is found for all at once."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import numpy as np

from gazeattn.errors import DataError
from gazeattn.readers.textfile import sniff_encoding

CHUNK = 1 << 21
"""Bytes that are worked on at once: bounds the memory beside the result."""

BLANKS = b" \t"


@dataclass
class Chunk:
    """Whole lines of a file.

    Attributes
    ----------
    data : bytes
        Lines, each ended by one newline.
    starts, ends : ndarray, shape (n_lines,)
        Offsets of the first byte and of the newline of each line.
    first_line : int
        Number of the first line in the file, from 0.
    is_sample : ndarray of bool, shape (n_lines,)
        The line begins with a digit.
    """

    data: bytes
    starts: np.ndarray
    ends: np.ndarray
    first_line: int
    is_sample: np.ndarray

    def sample_bytes(self) -> bytes:
        """Return all sample lines, one after the other."""
        edge = np.flatnonzero(np.diff(np.r_[False, self.is_sample, False].astype(np.int8)))
        begins, ends = self.starts[edge[0::2]], self.ends[edge[1::2] - 1] + 1
        pairs = zip(begins.tolist(), ends.tolist(), strict=True)
        return b"".join([self.data[a:b] for a, b in pairs])

    def others(self) -> Iterator[tuple[int, bytes]]:
        """Yield line number and bytes of all lines without a sample, blank ones too."""
        at = np.flatnonzero(~self.is_sample)
        rows = zip(at.tolist(), self.starts[at].tolist(), self.ends[at].tolist(), strict=True)
        for line, begin, end in rows:
            yield self.first_line + line, self.data[begin:end]


def plain_size(path: Path) -> int:
    """Return the size of a file, 0 where it is packed or not there."""
    if not path.is_file():
        return 0
    with path.open("rb") as file:
        return 0 if file.read(2) == b"\x1f\x8b" else path.stat().st_size


def chunks(path: Path, size: int | None = None) -> Iterator[tuple[Chunk, bool]]:
    """Yield the chunks of a file, and whether the last line of the chunk lacks its end.

    Line ends are ``\\n``, ``\\r\\n`` or ``\\r``; UTF-16 and UTF-32 become UTF-8.

    Raises
    ------
    DataError
        No such file, a gzip file that is damaged or cut, or bytes that are not of its encoding.
    """
    rest, line = b"", 0
    for block in _blocks(path, size or CHUNK):
        data = rest + block
        # A carriage return at the very end may be half of a line end.
        stop = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
        data, rest = data[:stop], data[stop:]
        if data:
            chunk = _chunk(data, line)
            line += len(chunk.starts)
            yield chunk, False
    if rest:
        yield _chunk(rest, line), not rest.endswith(b"\r")


def _chunk(data: bytes, first_line: int) -> Chunk:
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not data.endswith(b"\n"):
        data += b"\n"
    starts, ends, first = _split(data)
    if ((first == 32) | (first == 9)).sum() * 2 > len(first):  # every line is indented
        data = re.sub(rb"(?m)^[ \t]+", b"", data)
        starts, ends, first = _split(data)
    return Chunk(data, starts, ends, first_line, (first >= 48) & (first <= 57))


def _split(data: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(values == 10)
    starts = np.r_[0, ends[:-1] + 1]
    return starts, ends, values[starts]


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    if not path.is_file():
        raise DataError("is a folder, not a file" if path.is_dir() else "no such file", source=path)
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        file = cast(IO[bytes], gzip.open(raw) if packed else raw)
        try:
            head = file.read(400)
            encoding = sniff_encoding(head)
            file.seek(0)
            if encoding != "utf-8":
                yield from _transcoded(file, encoding, size)
                return
            if head.startswith(codecs.BOM_UTF8):
                file.seek(len(codecs.BOM_UTF8))
            while block := file.read(size):
                yield block
        except (OSError, EOFError, zlib.error) as error:
            if not packed:
                raise
            raise DataError(f"the gzip file is damaged or cut ({error})", source=path) from None
        except UnicodeError as error:
            raise DataError(
                f"the file begins as {encoding} but does not go on so ({error})", source=path
            ) from None


def _transcoded(file: IO[bytes], encoding: str, size: int) -> Iterator[bytes]:
    reader = io.TextIOWrapper(file, encoding=encoding, newline="")
    try:
        while text := reader.read(size):
            yield text.encode("utf-8", "surrogatepass")
    finally:
        reader.detach()
