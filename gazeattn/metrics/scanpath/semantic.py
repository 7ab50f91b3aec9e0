"""Semantic sequence score and edit distance: scanpaths as strings of the labels looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError
from gazeattn.metrics._options import array
from gazeattn.metrics.scanpath._packed import Floats, Packed
from gazeattn.metrics.scanpath._strings import Strings, make_strings
from gazeattn.metrics.scanpath.clusters import scale_factors
from gazeattn.metrics.scanpath.sequences import (
    AgainstMany,
    Pairs,
    distances,
    encode_both,
    many,
    register_distance,
    register_score,
    scores,
    single,
)


def semantic_sequence_score_pairs(
    A: Packed,
    B: Packed,
    i: Pairs,
    j: Pairs,
    *,
    labels: ArrayLike,
    size: tuple[float, float],
    truncate: int | None = None,
    bin_ms: float | None = None,
) -> Floats:
    """Return `semantic_sequence_score` of A[i] and B[j] for each pair, shape (n_pairs,)."""
    return scores(*_both(A, B, i, j, labels, size, truncate, bin_ms))


def semantic_fixation_edit_distance_pairs(
    A: Packed,
    B: Packed,
    i: Pairs,
    j: Pairs,
    *,
    labels: ArrayLike,
    size: tuple[float, float],
    truncate: int | None = None,
    bin_ms: float | None = None,
    normalised: bool = False,
) -> Floats:
    """Return `semantic_fixation_edit_distance` of A[i] and B[j] for each pair, (n_pairs,)."""
    return distances(*_both(A, B, i, j, labels, size, truncate, bin_ms), normalised)


@register_score(
    "semantic_sequence_score",
    semantic_sequence_score_pairs,
    strings="strings of labels",
    symbol="label at floor(x, y)",
    citation="Yang et al. (2022), ECCV; Needleman and Wunsch (1970)",
)
def semantic_sequence_score(
    a: ArrayLike,
    b: ArrayLike,
    *,
    labels: ArrayLike,
    size: tuple[float, float],
    truncate: int | None = None,
    bin_ms: float | None = None,
) -> float:
    """Return the sequence score of the labels under the fixations.

    Parameters
    ----------
    a, b : array-like, shape (n, 2) or (n, 3)
        x, y in pixels of `size`, and durations in ms.
    labels : array-like of whole numbers, shape (height, width)
        What is where in the image, e.g. classes or segments. Every number is a label of its own,
        one for unlabelled pixels too. Fixations outside the map share one further symbol.
    size : (width, height)
        The image size that the coordinates belong to; scaled to that of the map.
    truncate, bin_ms
        As in `sequence_score`.

    Returns
    -------
    float
        In [0, 1]; undefined (NaN) and 0 as in `sequence_score`.

    Raises
    ------
    DataError
        The map is not a map of whole numbers, or belongs to an image of another shape.

    References
    ----------
    Yang et al. (2022), ECCV, Target-absent human attention.
    """
    options = {"labels": labels, "size": size, "truncate": truncate, "bin_ms": bin_ms}
    return single(semantic_sequence_score_pairs, a, b, **options)


@register_distance(
    "semantic_fixation_edit_distance",
    semantic_fixation_edit_distance_pairs,
    strings="strings of labels",
    symbol="label at floor(x, y)",
    citation="Mondal et al. (2023), CVPR; Levenshtein (1966)",
)
def semantic_fixation_edit_distance(
    a: ArrayLike,
    b: ArrayLike,
    *,
    labels: ArrayLike,
    size: tuple[float, float],
    truncate: int | None = None,
    bin_ms: float | None = None,
    normalised: bool = False,
) -> float:
    """Return the Levenshtein distance of the labels under the fixations.

    Parameters
    ----------
    a, b, labels, size, truncate, bin_ms
        As in `semantic_sequence_score`.
    normalised : bool
        Divide by the length of the longer string.

    Returns
    -------
    float
        As `fixation_edit_distance`.

    References
    ----------
    Mondal et al. (2023), CVPR, Gazeformer.
    """
    options = {"labels": labels, "size": size, "truncate": truncate, "bin_ms": bin_ms}
    return single(semantic_fixation_edit_distance_pairs, a, b, normalised=normalised, **options)


def semantic_sequence_score_many(
    prediction: ArrayLike,
    references: Sequence[ArrayLike],
    *,
    labels: ArrayLike,
    size: tuple[float, float],
    truncate: int | None = None,
    truncate_references: bool = True,
    bin_ms: float | None = None,
) -> AgainstMany:
    """Return the semantic sequence score against each reference; see `sequence_score_many`."""
    options = {"labels": labels, "size": size, "bin_ms": bin_ms}
    cut = (truncate, truncate_references)
    return many(semantic_sequence_score_pairs, prediction, references, cut, True, **options)


def semantic_fixation_edit_distance_many(
    prediction: ArrayLike,
    references: Sequence[ArrayLike],
    *,
    labels: ArrayLike,
    size: tuple[float, float],
    truncate: int | None = None,
    truncate_references: bool = True,
    bin_ms: float | None = None,
    normalised: bool = False,
) -> AgainstMany:
    """Return the distance to each reference; the best is the smallest."""
    options = {"labels": labels, "size": size, "bin_ms": bin_ms, "normalised": normalised}
    cut, kernel = (truncate, truncate_references), semantic_fixation_edit_distance_pairs
    return many(kernel, prediction, references, cut, False, **options)


def as_labels(labels: ArrayLike) -> NDArray[Any]:
    """Return a checked map of labels, (height, width)."""
    values = array("labels", labels, "(height, width) of whole numbers")
    if values.ndim != 2 or values.size == 0:
        raise DataError(
            "labels is wrong: not a map",
            expected="(height, width) of whole numbers, not empty",
            found=f"shape {values.shape}" if values.ndim else repr(labels),
        )
    if values.dtype.kind == "f":
        if not (np.isfinite(values).all() and (values == np.floor(values)).all()):
            raise DataError("labels must be whole numbers", found="fractions, or missing numbers")
    elif values.dtype.kind not in "iub":
        raise DataError("labels must be whole numbers", found=str(values.dtype))
    return values


def labels_at(labels: NDArray[Any], x: Floats, y: Floats, size: tuple[float, float]) -> Any:
    """Return the label under each point, and whether it lies inside the map."""
    height, width = labels.shape
    across, down = scale_factors(size, (width, height), "labels")
    column, row = np.floor(x * across), np.floor(y * down)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    column, row = np.where(inside, column, 0), np.where(inside, row, 0)
    return labels[row.astype(np.intp), column.astype(np.intp)], inside


def _both(
    A: Packed,
    B: Packed,
    i: Pairs,
    j: Pairs,
    labels: ArrayLike,
    size: tuple[float, float],
    truncate: int | None,
    bin_ms: float | None,
) -> tuple[Strings, Strings, Pairs, Pairs]:
    known = as_labels(labels)
    found = [labels_at(known, p.x, p.y, size) for p in ((A,) if A is B else (A, B))]
    values = np.unique(np.concatenate([f[0].ravel() for f in found]))

    def encode(part: Packed) -> Strings:
        at, inside = labels_at(known, part.x, part.y, size)
        codes = np.where(inside, np.searchsorted(values, at), len(values))
        return make_strings(part, codes, len(values) + 1, truncate, bin_ms)

    return encode_both(encode, A, B, i, j)
