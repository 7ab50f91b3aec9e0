"""Sequence score and fixation edit distance: scanpaths as strings of clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError
from gazeattn.metrics._options import flag, items, wrong
from gazeattn.metrics.scanpath._packed import Floats, Packed, as_path, pack
from gazeattn.metrics.scanpath._places import doubts
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
Kernel = Callable[..., Floats]
Metric = Callable[..., float]


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


def register_score(
    name: str, kernel: Kernel, *, strings: str, symbol: str, citation: str
) -> Callable[[Metric], Metric]:
    """Register a score of strings; `strings` and `symbol` say in words what they are."""
    return register_metric(
        name,
        task="scanpath",
        bounds=(0.0, 1.0),
        higher_is_better=True,
        symmetric=True,
        description=f"Longest common subsequence of the {strings} over the longer length",
        citation=citation,
        formula=f"max over alignments of matches(a, b) / max(n_a, n_b), symbol = {symbol}",
        convention="match 1, mismatch 0, gap 0",
        kernel=kernel,
        columns=None,
        reason=sequence_reason,
    )


def register_distance(
    name: str, kernel: Kernel, *, strings: str, symbol: str, citation: str
) -> Callable[[Metric], Metric]:
    """Register an edit distance of strings, as `register_score` does a score."""
    return register_metric(
        name,
        task="scanpath",
        bounds=(0.0, np.inf),
        higher_is_better=False,
        symmetric=True,
        description=f"Fewest insertions, deletions and substitutions between the {strings}",
        citation=citation,
        formula=f"Levenshtein(a, b), symbol = {symbol}; normalised: / max(n_a, n_b)",
        convention="all edits cost 1, not normalised",
        kernel=kernel,
        columns=None,
        reason=sequence_reason,
    )


@register_score(
    "sequence_score",
    sequence_score_pairs,
    strings="cluster strings",
    symbol="nearest cluster",
    citation="Needleman and Wunsch (1970); Borji et al. (2013), ICCV; Yang et al. (2020), CVPR",
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
    options = {"clusters": clusters, "size": size, "truncate": truncate, "bin_ms": bin_ms}
    return single(sequence_score_pairs, a, b, **options)


@register_distance(
    "fixation_edit_distance",
    fixation_edit_distance_pairs,
    strings="cluster strings",
    symbol="nearest cluster",
    citation="Levenshtein (1966); Mondal et al. (2023), CVPR",
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
    options = {"clusters": clusters, "size": size, "truncate": truncate, "bin_ms": bin_ms}
    return single(fixation_edit_distance_pairs, a, b, normalised=normalised, **options)


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
    options = {"clusters": clusters, "size": size, "bin_ms": bin_ms}
    cut = (truncate, truncate_references)
    return many(sequence_score_pairs, prediction, references, cut, True, **options)


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
    options = {"clusters": clusters, "size": size, "bin_ms": bin_ms, "normalised": normalised}
    cut = (truncate, truncate_references)
    return many(fixation_edit_distance_pairs, prediction, references, cut, False, **options)


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
    if flag("normalised", normalised):
        values /= np.maximum(longer, 1)
    return np.where(_undefined(A, B, i, j, longer), np.nan, values)


def single(kernel: Kernel, a: ArrayLike, b: ArrayLike, **options: Any) -> float:
    """Return the one value of a kernel for two scanpaths, for a public function."""
    first, second = as_path(a, "first scanpath"), as_path(b, "second scanpath")
    zero, sides = np.zeros(1, dtype=np.intp), (pack([first]), pack([second]))
    value = float(kernel(*sides, zero, zero, **options)[0])
    doubts(kernel, sides, options, one_pair=True, stacklevel=4)
    return value


def many(
    kernel: Kernel,
    prediction: ArrayLike,
    references: Sequence[ArrayLike],
    cut: tuple[int | None, bool],
    higher: bool,
    **options: Any,
) -> AgainstMany:
    """Run a kernel for one scanpath against many, and summarise.

    `cut` is how many fixations count (None: all) and whether that holds for the references too.
    """
    truncate, truncate_references = cut
    check_options(truncate, None)
    truncate_references = flag("truncate_references", truncate_references)
    references = items("references", references, "a list of scanpaths")
    if len(references) == 0:
        raise DataError("there is no reference to compare with", expected="one scanpath or more")
    paths = pack([prediction, *references])
    if truncate is not None:
        length = paths.length.copy()
        those = slice(None) if truncate_references else slice(1)
        length[those] = np.minimum(length[those], int(truncate))
        paths = replace(paths, length=length)
    j = np.arange(1, len(paths))
    values = kernel(paths, paths, np.zeros_like(j), j, **options)
    known = values[~np.isnan(values)]
    n = len(known)
    mean = float(known.mean()) if n else float("nan")
    best = float(known.max() if higher else known.min()) if n else float("nan")
    return AgainstMany(values, mean, best, n, len(values) - n)


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
        raise wrong("clusters", "Clusters of the image: fit_clusters or load_clusters", clusters)

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
