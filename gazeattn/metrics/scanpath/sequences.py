"""Sequence score and fixation edit distance: scanpaths as strings of clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError
from gazeattn.metrics.scanpath._packed import Floats, Packed, as_path, pack
from gazeattn.metrics.scanpath._strings import (
    Strings,
    check_options,
    common_lengths,
    edit_lengths,
    make_strings,
    used,
)
from gazeattn.metrics.scanpath.clusters import Clusters
from gazeattn.registry import register_metric

Pairs = NDArray[np.integer]


@dataclass(frozen=True)
class AgainstMany:
    """One scanpath against many references.

    Attributes
    ----------
    values : ndarray, shape (n_references,)
        NaN where undefined.
    mean, best : float
        Over the references where it is defined; `best` is the highest score, or the smallest
        distance. NaN where no reference counts.
    n, n_missing : int
        References that count, and those without a value.
    """

    values: Floats
    mean: float
    best: float
    n: int
    n_missing: int


def sequence_score_pairs(
    A: Packed,
    B: Packed,
    i: Pairs,
    j: Pairs,
    *,
    clusters: Clusters,
    size: tuple[float, float],
    truncate: int | None = None,
    bin_ms: float | None = None,
) -> Floats:
    """Return `sequence_score` of A[i] and B[j] for each pair, shape (n_pairs,)."""
    return scores(*_both(A, B, i, j, clusters, size, truncate, bin_ms))


def fixation_edit_distance_pairs(
    A: Packed,
    B: Packed,
    i: Pairs,
    j: Pairs,
    *,
    clusters: Clusters,
    size: tuple[float, float],
    truncate: int | None = None,
    bin_ms: float | None = None,
    normalised: bool = False,
) -> Floats:
    """Return `fixation_edit_distance` of A[i] and B[j] for each pair, shape (n_pairs,)."""
    return distances(*_both(A, B, i, j, clusters, size, truncate, bin_ms), normalised)


def sequence_reason(a: ArrayLike, b: ArrayLike, **params: Any) -> str:
    """Say why a score of strings is undefined for two scanpaths; empty where it is defined."""
    truncate, bin_ms = params.get("truncate"), params.get("bin_ms")
    paths = pack([a, b])
    strings = make_strings(paths, np.zeros(paths.x.shape, dtype=np.int64), 1, truncate, bin_ms)
    if strings.missing.any():
        sides = [s for s, gone in zip(("first", "second"), strings.missing, strict=True) if gone]
        plural = "s lack" if len(sides) == 2 else " lacks"
        return f"the {' and '.join(sides)} scanpath{plural} durations, which the time bins need"
    if not strings.length.any():
        if not paths.length.any():
            return "both scanpaths are empty"
        return f"no fixation of either scanpath fills a time bin of {bin_ms:g} ms"
    return ""


@register_metric(
    "sequence_score",
    task="scanpath",
    bounds=(0.0, 1.0),
    higher_is_better=True,
    symmetric=True,
    description="Longest common subsequence of the cluster strings over the longer length",
    citation="Needleman and Wunsch (1970); Borji et al. (2013), ICCV; Yang et al. (2020), CVPR",
    formula="max over alignments of matches(a, b) / max(n_a, n_b), symbol = nearest cluster",
    convention="match 1, mismatch 0, gap 0",
    kernel=sequence_score_pairs,
    columns=None,
    reason=sequence_reason,
)
def sequence_score(
    a: ArrayLike,
    b: ArrayLike,
    *,
    clusters: Clusters,
    size: tuple[float, float],
    truncate: int | None = None,
    bin_ms: float | None = None,
) -> float:
    """Return the sequence score: how well two scanpaths visit the same clusters in order.

    Each fixation becomes its nearest cluster. The strings are aligned with match 1, mismatch 0
    and gap 0 (Needleman and Wunsch); the score is divided by the length of the longer string.

    Parameters
    ----------
    a, b : array-like, shape (n, 2) or (n, 3)
        x, y in pixels of `size`, and durations in ms.
    clusters : Clusters
        Of the image; see `fit_clusters`.
    size : (width, height)
        The image size that the coordinates belong to; scaled to that of the clusters.
    truncate : int, optional
        Use only the first fixations of both.
    bin_ms : float, optional
        Repeat each symbol once per full bin of its duration (50 is usual).

    Returns
    -------
    float
        In [0, 1]. NaN where both strings are empty, and with time bins where a duration is
        missing; 0 where one string is empty.

    Raises
    ------
    DataError
        The clusters belong to an image of another shape, or a parameter is out of range.

    References
    ----------
    Needleman and Wunsch (1970), Journal of Molecular Biology 48; Borji et al. (2013), ICCV;
    Yang et al. (2020), CVPR. With durations: Chen et al. (2021), CVPR.
    """
    return single(sequence_score_pairs, a, b, _options(clusters, size, truncate, bin_ms))


@register_metric(
    "fixation_edit_distance",
    task="scanpath",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=True,
    description="Fewest insertions, deletions and substitutions between the cluster strings",
    citation="Levenshtein (1966); Mondal et al. (2023), CVPR",
    formula="Levenshtein(a, b), symbol = nearest cluster; normalised: / max(n_a, n_b)",
    convention="all edits cost 1, not normalised",
    kernel=fixation_edit_distance_pairs,
    columns=None,
    reason=sequence_reason,
)
def fixation_edit_distance(
    a: ArrayLike,
    b: ArrayLike,
    *,
    clusters: Clusters,
    size: tuple[float, float],
    truncate: int | None = None,
    bin_ms: float | None = None,
    normalised: bool = False,
) -> float:
    """Return the fixation edit distance: the Levenshtein distance of the cluster strings.

    Parameters
    ----------
    a, b, clusters, size, truncate, bin_ms
        As in `sequence_score`.
    normalised : bool
        Divide by the length of the longer string.

    Returns
    -------
    float
        0 or more. NaN where both strings are empty, and with time bins where a duration is
        missing; the length of the other string where one is empty.

    Raises
    ------
    DataError
        As in `sequence_score`.

    References
    ----------
    Levenshtein (1966), Soviet Physics Doklady 10; Mondal et al. (2023), CVPR.
    """
    options = {**_options(clusters, size, truncate, bin_ms), "normalised": normalised}
    return single(fixation_edit_distance_pairs, a, b, options)


def sequence_score_many(
    prediction: ArrayLike,
    references: Sequence[ArrayLike],
    *,
    clusters: Clusters,
    size: tuple[float, float],
    truncate: int | None = None,
    truncate_references: bool = True,
    bin_ms: float | None = None,
) -> AgainstMany:
    """Return the sequence score of one scanpath against each reference, their mean and the best.

    Parameters
    ----------
    prediction : array-like, shape (n, 2) or (n, 3)
    references : sequence of array-like
        The human scanpaths on the image.
    clusters, size, bin_ms
        As in `sequence_score`.
    truncate : int, optional
        Use only the first fixations of the prediction.
    truncate_references : bool
        Cut the references too.

    Returns
    -------
    AgainstMany
    """
    options = _options(clusters, size, None, bin_ms)
    return many(
        sequence_score_pairs, prediction, references, options, truncate, truncate_references, True
    )


def fixation_edit_distance_many(
    prediction: ArrayLike,
    references: Sequence[ArrayLike],
    *,
    clusters: Clusters,
    size: tuple[float, float],
    truncate: int | None = None,
    truncate_references: bool = True,
    bin_ms: float | None = None,
    normalised: bool = False,
) -> AgainstMany:
    """Return the fixation edit distance of one scanpath to each reference; the best is smallest.

    Parameters
    ----------
    prediction, references, clusters, size, truncate, truncate_references, bin_ms
        As in `sequence_score_many`.
    normalised : bool
        As in `fixation_edit_distance`.

    Returns
    -------
    AgainstMany
    """
    options = {**_options(clusters, size, None, bin_ms), "normalised": normalised}
    kernel = fixation_edit_distance_pairs
    return many(kernel, prediction, references, options, truncate, truncate_references, False)


# -- steps shared with the semantic forms ---------------------------------------------------------


def scores(A: Strings, B: Strings, i: Pairs, j: Pairs) -> Floats:
    """Return common subsequence over the longer length; NaN where both are empty or one lacks."""
    longer = np.maximum(A.length[i], B.length[j])
    values = common_lengths(A, B, i, j) / np.maximum(longer, 1)
    return np.where(_undefined(A, B, i, j, longer), np.nan, values)


def distances(A: Strings, B: Strings, i: Pairs, j: Pairs, normalised: bool) -> Floats:
    """Return edit distances; NaN where both strings are empty or one is missing."""
    longer = np.maximum(A.length[i], B.length[j])
    values = edit_lengths(A, B, i, j).astype(np.float64)
    if normalised:
        values /= np.maximum(longer, 1)
    return np.where(_undefined(A, B, i, j, longer), np.nan, values)


def single(
    kernel: Callable[..., Floats], a: ArrayLike, b: ArrayLike, options: dict[str, Any]
) -> float:
    """Return the one value of a kernel for two scanpaths."""
    first, second = as_path(a, "first scanpath"), as_path(b, "second scanpath")
    zero = np.zeros(1, dtype=np.intp)
    return float(kernel(pack([first]), pack([second]), zero, zero, **options)[0])


def many(
    kernel: Callable[..., Floats],
    prediction: ArrayLike,
    references: Sequence[ArrayLike],
    options: dict[str, Any],
    truncate: int | None,
    truncate_references: bool,
    higher: bool,
) -> AgainstMany:
    """Run a kernel for one scanpath against many, and summarise."""
    check_options(truncate, None)
    if len(references) == 0:
        raise DataError("there is no reference to compare with", expected="one scanpath or more")
    paths = pack([prediction, *references])
    if truncate is not None:
        length = paths.length.copy()
        cut = slice(None) if truncate_references else slice(1)
        length[cut] = np.minimum(length[cut], int(truncate))
        paths = replace(paths, length=length)
    j = np.arange(1, len(paths))
    values = kernel(paths, paths, np.zeros_like(j), j, **options)
    known = values[~np.isnan(values)]
    n = len(known)
    mean = float(known.mean()) if n else float("nan")
    best = float(known.max() if higher else known.min()) if n else float("nan")
    return AgainstMany(values, mean, best, n, len(values) - n)


def _options(
    clusters: Clusters, size: tuple[float, float], truncate: int | None, bin_ms: float | None
) -> dict[str, Any]:
    return {"clusters": clusters, "size": size, "truncate": truncate, "bin_ms": bin_ms}


def _undefined(A: Strings, B: Strings, i: Pairs, j: Pairs, longer: Any) -> NDArray[np.bool_]:
    return np.asarray((longer == 0) | A.missing[i] | B.missing[j])


def _both(
    A: Packed,
    B: Packed,
    i: Pairs,
    j: Pairs,
    clusters: Clusters,
    size: tuple[float, float],
    truncate: int | None,
    bin_ms: float | None,
) -> tuple[Strings, Strings, Pairs, Pairs]:
    if not isinstance(clusters, Clusters):
        raise DataError(
            "clusters are needed, with the image size that they belong to",
            expected="a Clusters object, see fit_clusters and load_clusters",
            found=type(clusters).__name__,
        )

    def encode(part: Packed) -> Strings:
        codes = clusters.nearest(part.x, part.y, size)
        return make_strings(part, codes, len(clusters), truncate, bin_ms)

    return encode_both(encode, A, B, i, j)


def encode_both(
    encode: Callable[[Packed], Strings], A: Packed, B: Packed, i: Pairs, j: Pairs
) -> tuple[Strings, Strings, Pairs, Pairs]:
    """Encode only the scanpaths that the pairs use, and once where both sides are the same."""
    if A is B:
        part, places = used(A, np.concatenate([i, j]))
        strings = encode(part)
        return strings, strings, places[: len(i)], places[len(i) :]
    part_a, rows = used(A, i)
    part_b, columns = used(B, j)
    return encode(part_a), encode(part_b), rows, columns
