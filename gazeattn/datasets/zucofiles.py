"""The result files of ZuCo: one MATLAB file per reader and task, with sentences and fixations.

Those of ZuCo 1 are MATLAB v7 (read by scipy), those of ZuCo 2 are v7.3, which is HDF5 (read by
h5py, optional). Brain signals in the same files are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gazeattn.datasets.otherfiles import need_module
from gazeattn.errors import DataError

MEASURES = ("FFD", "SFD", "GD", "GPT", "TRT", "nFixations")
_PLACES = ("x", "y", "duration", "pupilsize")


@dataclass
class Sentence:
    """One sentence as one reader saw it.

    Attributes
    ----------
    content : str
    words : list of str
    bounds : ndarray, shape (n_words, 4), or None
        Left, top, right, bottom in pixels.
    positions : list of ndarray
        For each word the numbers of its fixations, from 1.
    fixations : dict of ndarray
        ``x, y, duration, pupilsize``, each of shape (n_fixations,).
    measures : dict of list
        Published word measures, one value (NaN where there is none) per word.
    """

    content: str
    words: list[str] = field(default_factory=list)
    bounds: np.ndarray | None = None
    positions: list[np.ndarray] = field(default_factory=list)
    fixations: dict[str, np.ndarray] = field(default_factory=dict)
    measures: dict[str, list[float]] = field(default_factory=dict)


def read_sentences(path: Path) -> list[Sentence]:
    """Return the sentences of a result file, of either kind.

    Raises
    ------
    DataError
        The file is damaged, or not a result file.
    MissingAssetError
        The file is MATLAB v7.3, and h5py is not installed.
    """
    with path.open("rb") as stream:
        head = stream.read(128)
    is_hdf5 = head.startswith(b"\x89HDF") or b"MATLAB 7.3" in head
    try:
        return (_read_hdf5 if is_hdf5 else _read_v7)(path)
    except (DataError, FileNotFoundError):
        raise
    except Exception as error:  # the readers state no list of their own errors
        raise DataError(f"not a readable result file of ZuCo ({error})", source=path) from None


def _numbers(value: Any) -> np.ndarray:
    """Return numbers as a flat array; text, structures and empty cells are none."""
    array = np.asarray(value)
    return array.astype("float64").ravel() if array.dtype.kind in "fiub" else np.zeros(0)


def _fixations(found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: values for name, values in found.items() if len(values)}


def _one(values: np.ndarray) -> float:
    return float(values[0]) if len(values) else float("nan")


def _bounds(value: np.ndarray, n_words: int) -> np.ndarray | None:
    boxes = np.atleast_2d(value)
    if boxes.shape == (4, n_words) and n_words != 4:
        boxes = boxes.T
    return boxes.astype("float64") if boxes.shape == (n_words, 4) else None


def _read_v7(path: Path) -> list[Sentence]:
    from scipy.io import loadmat

    data = loadmat(
        path, variable_names=["sentenceData"], squeeze_me=True, struct_as_record=False
    ).get("sentenceData")
    if data is None:
        raise DataError("no variable sentenceData", source=path)
    sentences: list[Sentence] = []
    for item in np.atleast_1d(data):
        if not hasattr(item, "content"):
            raise DataError("a sentence without content", source=path, row=len(sentences) + 1)
        words = _structures(getattr(item, "word", None))
        places = _structures(getattr(item, "allFixations", None))[:1]
        sentences.append(
            Sentence(
                content=_text(item.content),
                words=[_text(w.content) for w in words],
                bounds=_bounds(np.asarray(getattr(item, "wordbounds", 0)), len(words)),
                positions=[_numbers(getattr(w, "fixPositions", ())) for w in words],
                fixations=_fixations(
                    {n: _numbers(getattr(p, n, ())) for p in places for n in _PLACES}
                ),
                measures={m: [_one(_numbers(getattr(w, m, ()))) for w in words] for m in MEASURES},
            )
        )
    return sentences


def _text(value: Any) -> str:
    """Return text; an empty cell comes as an array without elements."""
    return str(value) if isinstance(value, str) or np.size(value) else ""


def _structures(value: Any) -> Sequence[Any]:
    """Return MATLAB structures as a list; a NaN stands for none."""
    return [v for v in np.atleast_1d(np.asarray(value, dtype=object)) if hasattr(v, "_fieldnames")]


def _read_hdf5(path: Path) -> list[Sentence]:
    h5py = need_module("h5py", f"reading {path.name} (MATLAB v7.3)")
    with h5py.File(path, "r") as file:
        data = file.get("sentenceData")
        if data is None or "content" not in data:
            raise DataError("no variable sentenceData", source=path)

        def cell(group: Any, name: str) -> list[Any]:
            """Return what the cells of a field refer to."""
            if group is None or name not in group:
                return []
            values = group[name]
            if values.dtype.kind != "O":
                return [values]
            return [file[reference] for reference in values[()].ravel()]

        fields = {n: cell(data, n) for n in ("content", "word", "allFixations", "wordbounds")}
        sentences = []
        for i, content in enumerate(fields["content"]):
            word = _at(fields["word"], i)
            group = word if hasattr(word, "keys") else None
            texts = [_string(c) for c in cell(group, "content")]
            places, box = _at(fields["allFixations"], i), _at(fields["wordbounds"], i)
            measures = {m: [_one(_array(c)) for c in cell(group, m)] for m in MEASURES}
            sentences.append(
                Sentence(
                    content=_string(content),
                    words=texts,
                    bounds=None if box is None else _bounds(np.asarray(box).T, len(texts)),
                    positions=[_array(c) for c in cell(group, "fixPositions")],
                    fixations=_fixations(
                        {n: _array(places[n]) for n in _PLACES if n in places}
                        if hasattr(places, "keys")
                        else {}
                    ),
                    measures={m: v for m, v in measures.items() if len(v) == len(texts)},
                )
            )
    return sentences


def _at(values: list[Any], i: int) -> Any:
    return values[i] if i < len(values) else None


def _array(value: Any) -> np.ndarray:
    """Return the numbers of a data set; MATLAB marks an empty one, which holds its shape."""
    if not hasattr(value, "attrs") or value.attrs.get("MATLAB_empty", 0):
        return np.zeros(0)
    return _numbers(value[()])


def _string(value: Any) -> str:
    return "".join(map(chr, _array(value).astype("int64")))
