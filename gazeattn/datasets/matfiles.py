"""MATLAB files of corpora: checked before they are parsed, and told apart when they are damaged."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gazeattn.datasets.matcheck import check_structure
from gazeattn.datasets.osie import check_packed
from gazeattn.errors import DataError

T = TypeVar("T")
_SHAPE = (KeyError, ValueError, IndexError, TypeError, AttributeError, NameError)
_DAMAGED = (*_SHAPE, OSError, EOFError, ArithmeticError, zlib.error, MemoryError)
_HDF5 = b"\x89HDF\r\n\x1a\n"


def read_mat(path: Path, take: Callable[[dict[str, Any]], T], expected: str) -> T:
    """Return what `take` finds among the variables of a MATLAB 5 to 7 file.

    Parameters
    ----------
    path
    take
        Gets the variables by name; what it raises over a missing name or another shape becomes
        a `DataError`.
    expected
        The published structure, for the message.

    Raises
    ------
    DataError
        A damaged or cut file, one of MATLAB 7.3 (HDF5), or one of another structure.
    """
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    with path.open("rb") as file:
        head = file.read(520)
    if head[:8] == _HDF5 or head[512:520] == _HDF5:
        raise DataError(
            "a MATLAB 7.3 file (HDF5), which is not read here",
            source=path,
            expected=f"MATLAB 5 to 7 with {expected}",
            hint="Save it again in MATLAB or Octave with the flag -v7",
        )
    check_packed(path)
    check_structure(path)
    try:
        return take({k: v for k, v in loadmat(path).items() if not k.startswith("__")})
    except DataError:
        raise
    except (*_DAMAGED, NotImplementedError, MatReadError) as error:
        raise DataError(
            "not the published MATLAB file",
            source=path,
            expected=expected,
            found=f"{type(error).__name__}: {error}",
            hint="Fetch it again, or save it again with the flag -v7",
        ) from None


def pairs(values: Any) -> np.ndarray:
    """Return an array of two or more columns as float64; an empty one of any shape has no rows.

    Raises
    ------
    ValueError
        One column, or more than two dimensions.
    """
    array = np.asarray(values)
    if not array.size:
        return np.zeros((0, 2))
    if array.ndim != 2 or array.shape[1] < 2:
        raise ValueError(f"an array of shape {array.shape}, not (n, 2)")
    return array.astype(np.float64)


def one_text(value: Any) -> str:
    """Return a text from its MATLAB wrapping of arrays in arrays.

    Raises
    ------
    ValueError
        It holds no text, or several.
    """
    array = np.asarray(value)
    while array.dtype == object and array.size == 1:
        array = np.asarray(array.ravel()[0])
    if array.size != 1 or array.dtype.kind not in "US":
        raise ValueError(f"no text: {array.dtype} of shape {array.shape}")
    return str(array.ravel()[0])
