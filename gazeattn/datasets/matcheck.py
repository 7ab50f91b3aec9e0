"""The structure of a MATLAB 5 to 7 file, walked through before it is parsed.

The parser of scipy trusts sizes and types that it reads, and a damaged file can end the whole
process. Packed parts have a sum; parts that are not packed have none, so that their tags are
checked here: every part lies within its parent, and holds as many values as its shape says.
"""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path

from gazeattn.errors import DataError

HEADER = 128
_MATRIX, _PACKED = 14, 15
_SIZES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}  # numbers, by their type
_TEXT = {1: 1, 2: 1, 3: 2, 4: 2, 16: 1, 17: 2, 18: 4}
_CELL, _STRUCT, _OBJECT, _CHAR = 1, 2, 3, 4
_NUMBERS = range(6, 16)  # classes of number arrays
_DEPTH = 32


class _WrongError(Exception):
    """What is wrong, and where."""


def check_structure(path: Path) -> None:
    """Raise `DataError` where the parts of a file do not fit into each other.

    Sparse arrays, functions and objects of classes (such as ``containers.Map``) are refused.
    """
    data = path.read_bytes()
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    at = HEADER
    try:
        if order is None or len(data) < HEADER:
            raise _WrongError("no header of a MATLAB 5 file")
        walk = _Walk(order)
        while at < len(data):
            kind, start, size, after = walk.tag(data, at, len(data), padded=False)
            if kind == _PACKED:
                inner = zlib.decompress(data[start : start + size])
                found, begin, length, _ = walk.tag(inner, 0, len(inner), padded=False)
                if found != _MATRIX:
                    raise _WrongError(f"a packed part of type {found}")
                walk.matrix(inner, begin, begin + length, 0)
            elif kind == _MATRIX:
                walk.matrix(data, start, start + size, 0)
            else:
                raise _WrongError(f"a part of type {kind}")
            at = after
    except (_WrongError, zlib.error, struct.error) as error:
        raise DataError(
            f"not the published MATLAB file, or damaged: {error}",
            source=path,
            row=f"byte {at}",
            hint="Fetch it again, or save it again with the flag -v7",
        ) from None


class _Walk:
    def __init__(self, order: str) -> None:
        self.pair, self.one, self.order = f"{order}II", f"{order}I", order

    def tag(
        self, data: bytes, at: int, end: int, *, padded: bool = True
    ) -> tuple[int, int, int, int]:
        """Return type, start and size of a part, and where the next one begins."""
        if at + 8 > end:
            raise _WrongError(f"a tag at byte {at} is cut")
        kind, size = struct.unpack_from(self.pair, data, at)
        if kind >> 16:  # up to four bytes stand in the tag itself
            kind, size = kind & 0xFFFF, kind >> 16
            if size > 4:
                raise _WrongError(f"a small part of {size} bytes at byte {at}")
            return kind, at + 4, size, at + 8
        after = at + 8 + size
        if after > end:
            raise _WrongError(f"a part at byte {at} is longer than what holds it")
        if padded and kind != _PACKED:
            after += -size % 8
        return kind, at + 8, size, min(after, end)

    def part(
        self, data: bytes, at: int, end: int, kinds: dict[int, int], what: str
    ) -> tuple[int, int, int]:
        """Return start, number of values and next part, where the type is one of `kinds`."""
        kind, start, size, after = self.tag(data, at, end)
        if kind not in kinds or size % kinds[kind]:
            raise _WrongError(f"{what} of type {kind} and {size} bytes at byte {at}")
        return start, size // kinds[kind], after

    def matrix(self, data: bytes, at: int, end: int, depth: int) -> None:
        """Check one array and what is in it."""
        if at == end:
            return  # an empty array without anything
        if depth > _DEPTH:
            raise _WrongError("arrays in arrays without end")
        begin, count, at = self.part(data, at, end, {6: 4}, "flags")
        if count != 2:
            raise _WrongError("flags of another size")
        (flags,) = struct.unpack_from(self.one, data, begin)
        kind, complex_ = flags & 0xFF, bool(flags & 0x800)
        begin, count, at = self.part(data, at, end, {5: 4, 6: 4}, "a shape")
        if not 2 <= count <= 32:
            raise _WrongError(f"an array of {count} dimensions")
        shape = struct.unpack_from(f"{self.order}{count}i", data, begin)
        n = math.prod(shape)
        if min(shape) < 0:
            raise _WrongError(f"a shape of {shape}")
        _, _, at = self.part(data, at, end, {1: 1, 2: 1, 16: 1}, "a name")
        if kind in _NUMBERS:
            for _ in range(1 + complex_):
                _, count, at = self.part(data, at, end, _SIZES, "numbers")
                if count != n:
                    raise _WrongError(f"{count} numbers in an array of {n}")
        elif kind == _CHAR:
            _, count, at = self.part(data, at, end, _TEXT, "text")
            if 0 < count < n:  # some writers leave the text of blanks out
                raise _WrongError(f"{count} characters in a text of {n}")
        elif kind in (_CELL, _STRUCT, _OBJECT):
            if kind == _OBJECT:
                _, _, at = self.part(data, at, end, {1: 1}, "a class")
            if kind != _CELL:
                fields, at = self.fields(data, at, end)
                n *= fields
            if n > (end - at) // 8:
                raise _WrongError(f"{n} arrays in {end - at} bytes")
            for _ in range(n):
                inner, start, size, at = self.tag(data, at, end)
                if inner != _MATRIX:
                    raise _WrongError(f"a part of type {inner} in place of an array")
                self.matrix(data, start, start + size, depth + 1)
        else:
            raise _WrongError(f"an array of class {kind}, which is not read")
        if at != end:
            raise _WrongError(f"{end - at} bytes too many in an array")

    def fields(self, data: bytes, at: int, end: int) -> tuple[int, int]:
        """Return the number of fields of a struct, and where their values begin."""
        begin, count, at = self.part(data, at, end, {5: 4}, "a length of names")
        if count != 1:
            raise _WrongError("a length of names of another size")
        (length,) = struct.unpack_from(f"{self.order}i", data, begin)
        begin, count, at = self.part(data, at, end, {1: 1}, "names of fields")
        if count == 0:
            return 0, at
        if not 1 <= length <= 64 or count % length:
            raise _WrongError(f"names of fields of {count} bytes, {length} each")
        names = [data[k : k + length] for k in range(begin, begin + count, length)]
        for name in names:
            plain, zero, _ = name.partition(b"\0")
            if not zero or not plain.replace(b"_", b"").isalnum():
                raise _WrongError(f"the name of a field {plain!r}")
        return len(names), at
