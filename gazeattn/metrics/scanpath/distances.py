"""Distances of fixations as points: Euclidean, Hausdorff, Mannan, Eyenalysis, overlap of discs."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.metrics._options import flag
from gazeattn.metrics.scanpath._blocks import (
    CELLS,
    Block,
    one_of,
    one_pair,
    over_pairs,
    positive,
    size_of,
    too_short,
    whole,
)
from gazeattn.metrics.scanpath._packed import Floats, Packed, Part, as_path, pack
from gazeattn.metrics.scanpath._places import OUTSIDE, with_outside
from gazeattn.registry import register_metric

__all__ = [
    "DiscOverlap",
    "disc_overlap",
    "disc_overlap_pairs",
    "euclidean",
    "euclidean_pairs",
    "eyenalysis",
    "eyenalysis_pairs",
    "hausdorff",
    "hausdorff_pairs",
    "mannan",
    "mannan_pairs",
    "mannan_similarity",
    "mannan_similarity_pairs",
]

EUCLIDEAN = ("mean_truncated", "sum_truncated", "frobenius")
MANNAN = ("mannan1995", "rAm1n")
Index = NDArray[np.integer]


def _nearest(block: Block) -> tuple[Floats, Floats]:
    """Return squared distances to the nearest fixation of the other path; 0 behind the ends."""
    of_a, of_b = np.empty_like(block.ax), np.full_like(block.bx, np.inf)
    rows = max(1, 8 * CELLS // max(block.bx.size, 1))  # long paths: some rows of the table at once
    for start in range(0, len(block.ax), rows):
        squared = block.squared(slice(start, start + rows))
        squared.min(axis=1, out=of_a[start : start + rows])
        np.minimum(of_b, squared.min(axis=0), out=of_b)
    of_a[np.isinf(block.ax)] = 0.0
    of_b[np.isinf(block.bx)] = 0.0
    return of_a, of_b


# -- Euclidean ------------------------------------------------------------------------------------


def euclidean_pairs(
    A: Packed, B: Packed, i: Index, j: Index, *, convention: str = "mean_truncated"
) -> Floats:
    """Return `euclidean` of many pairs, (n_pairs,)."""
    one_of("convention", convention, EUCLIDEAN)

    def work(block: Block) -> Floats:
        common = np.minimum(block.na, block.nb)
        n = int(common.max(initial=0))
        squared = (block.ax[:n] - block.bx[:n]) ** 2 + (block.ay[:n] - block.by[:n]) ** 2
        squared[np.arange(n)[:, None] >= common] = 0.0
        if convention == "frobenius":
            return np.where(block.na == block.nb, np.sqrt(squared.sum(axis=0)), np.nan)
        total: Floats = np.sqrt(squared).sum(axis=0)
        return total if convention == "sum_truncated" else total / common

    return over_pairs(A, B, i, j, work, wide=True)


def _euclidean_reason(a: ArrayLike, b: ArrayLike, **parameters: object) -> str:
    n, m = len(as_path(a)), len(as_path(b))
    if parameters.get("convention") == "frobenius" and n != m:
        return f"the scanpaths have {n} and {m} fixations; this convention needs equal lengths"
    return too_short(1)(a, b)


@register_metric(
    "euclidean",
    task="scanpath",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=True,
    description="mean distance of fixations with the same number, in pixels",
    formula="mean over i < min(n, m) of |a_i - b_i|",
    citation="",
    convention="mean_truncated",
    conventions=EUCLIDEAN,
    kernel=euclidean_pairs,
    columns=None,
    reason=_euclidean_reason,
)
def euclidean(a: ArrayLike, b: ArrayLike, *, convention: str = "mean_truncated") -> float:
    """Return the Euclidean distance of two scanpaths, in pixels.

    Parameters
    ----------
    a, b : array_like, shape (n, 2) or (n, 3)
        Pixels; durations are not used.
    convention : {"mean_truncated", "sum_truncated", "frobenius"}
        Mean or sum of the distances of fixations with the same number, both paths cut to the
        shorter length; or the root of the summed squared differences, for equal lengths only.

    Returns
    -------
    float
        0 or more; NaN when a scanpath is empty or when "frobenius" meets unequal lengths.
    """
    return float(one_pair(euclidean_pairs, a, b, convention=convention))


# -- Hausdorff ------------------------------------------------------------------------------------


def hausdorff_pairs(A: Packed, B: Packed, i: Index, j: Index) -> Floats:
    """Return `hausdorff` of many pairs, (n_pairs,)."""

    def work(block: Block) -> Floats:
        of_a, of_b = _nearest(block)
        return np.sqrt(np.maximum(of_a.max(axis=0), of_b.max(axis=0)))

    return over_pairs(A, B, i, j, work)


@register_metric(
    "hausdorff",
    task="scanpath",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=True,
    description="Hausdorff distance of the two sets of fixations, in pixels; order plays no part",
    formula="max(max_i min_j |a_i - b_j|, max_j min_i |a_i - b_j|)",
    citation="Huttenlocher, Klanderman & Rucklidge 1993, IEEE Trans. PAMI 15(9):850-863",
    convention="larger of both directions",
    kernel=hausdorff_pairs,
    columns=None,
    reason=too_short(1),
)
def hausdorff(a: ArrayLike, b: ArrayLike) -> float:
    """Return the Hausdorff distance of two scanpaths as sets of fixations, in pixels.

    Parameters
    ----------
    a, b : array_like, shape (n, 2) or (n, 3)
        Pixels; durations are not used.

    Returns
    -------
    float
        0 or more; NaN when a scanpath is empty.
    """
    return float(one_pair(hausdorff_pairs, a, b))


# -- Mannan ---------------------------------------------------------------------------------------


@with_outside(*OUTSIDE)
def mannan_pairs(
    A: Packed,
    B: Packed,
    i: Index,
    j: Index,
    *,
    size: tuple[float, float],
    convention: str = "mannan1995",
    outside: str | None = None,
) -> Floats:
    """Return `mannan` of many pairs, (n_pairs,)."""
    width, height = size_of(size)
    one_of("convention", convention, MANNAN)

    def work(block: Block) -> Floats:
        of_a, of_b = (nearest.sum(axis=0) for nearest in _nearest(block))
        n, m = block.na, block.nb
        weighted = n * of_b + m * of_a if convention == "mannan1995" else m * of_b + n * of_a
        result: Floats = weighted / (2.0 * n * m * (width**2 + height**2))
        return result

    return over_pairs(A, B, i, j, work)


@register_metric(
    "mannan",
    task="scanpath",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=True,
    description="squared linear distance to the nearest fixation, as a share of the diagonal",
    formula="(n sum_j d_j^2 + m sum_i d_i^2) / (2 n m (W^2 + H^2)), d to the nearest of the other",
    citation="Mannan, Ruddock & Wooding 1995, Spatial Vision 9(3):363-386",
    convention="mannan1995",
    conventions=MANNAN,
    kernel=mannan_pairs,
    columns=None,
    reason=too_short(1),
    outside=OUTSIDE,
)
def mannan(
    a: ArrayLike,
    b: ArrayLike,
    *,
    size: tuple[float, float],
    convention: str = "mannan1995",
    outside: str | None = None,
) -> float:
    """Return the normalised squared linear distance of Mannan et al., D squared.

    Parameters
    ----------
    a, b : array_like, shape (n, 2) or (n, 3)
        Pixels; durations are not used.
    size : (width, height)
        Of the stimulus in pixels.
    convention : {"mannan1995", "rAm1n"}
        "mannan1995" gives both paths the same weight. "rAm1n" swaps the two weights as one public
        port does; the two agree for equal lengths.
    outside : str, optional
        Fixations off the stimulus: "keep" (the default) takes them where they are, "clip" moves
        them to the border, "drop" leaves them out, "undefined" gives NaN, "raise" is an error.
        Without a choice there is a warning.

    Returns
    -------
    float
        0 or more (at most 1 inside the stimulus); NaN when a scanpath is empty.

    References
    ----------
    Mannan, Ruddock & Wooding 1995, Spatial Vision 9(3):363-386.
    """
    kernel = mannan_pairs
    return float(one_pair(kernel, a, b, size=size, convention=convention, outside=outside))


@functools.lru_cache(maxsize=4096)
def _by_chance(n: int, m: int, size: tuple[float, float], draws: int, seed: int) -> float:
    """Return the mean of `mannan` over random scanpaths of n <= m fixations; NaN for n = 0."""
    if n == 0:
        return float("nan")
    rng = np.random.default_rng(seed)
    first, second = (pack(list(rng.uniform(size=(draws, k, 2)) * size)) for k in (n, m))
    both = np.arange(draws)
    return float(mannan_pairs(first, second, both, both, size=size).mean())


@with_outside(*OUTSIDE)
def mannan_similarity_pairs(
    A: Packed,
    B: Packed,
    i: Index,
    j: Index,
    *,
    size: tuple[float, float],
    draws: int = 1000,
    seed: int = 0,
    outside: str | None = None,
) -> Floats:
    """Return `mannan_similarity` of many pairs, (n_pairs,)."""
    sides = size_of(size)
    count, start = whole("the number of draws", draws), whole("seed", seed, 0)
    lengths = np.sort(np.stack([A.length[i], B.length[j]], axis=1), axis=1)
    kinds, which = np.unique(lengths, axis=0, return_inverse=True)
    expected = np.array([_by_chance(int(n), int(m), sides, count, start) for n, m in kinds])
    distance = mannan_pairs(A, B, i, j, size=sides)
    return np.asarray(100.0 * (1.0 - np.sqrt(distance / expected[which.ravel()])))


@register_metric(
    "mannan_similarity",
    task="scanpath",
    bounds=(-np.inf, 100.0),
    higher_is_better=True,
    symmetric=True,
    description="similarity index of Mannan: 100 for equal paths, about 0 for random ones",
    formula="100 (1 - D / D_r), D^2 = mannan, D_r^2 its mean over random paths of these lengths",
    citation="Mannan, Ruddock & Wooding 1995, Spatial Vision 9(3):363-386",
    convention="mannan1995; random paths uniform over the stimulus, by `seed`",
    kernel=mannan_similarity_pairs,
    columns=None,
    reason=too_short(1),
    outside=OUTSIDE,
)
def mannan_similarity(
    a: ArrayLike,
    b: ArrayLike,
    *,
    size: tuple[float, float],
    draws: int = 1000,
    seed: int = 0,
    outside: str | None = None,
) -> float:
    """Return the similarity index of Mannan et al.: 100 (1 - D / D_r).

    D is the root of `mannan`, D_r the root of its mean over `draws` pairs of random scanpaths of
    the same lengths, uniform over the stimulus. 100 for equal paths, about 0 for unrelated ones,
    below 0 for paths farther apart than random ones; NaN when a scanpath is empty.

    Parameters
    ----------
    a, b : array_like, shape (n, 2) or (n, 3)
    size : (width, height)
    draws : int
        Random pairs.
    seed : int
        Of the random paths; one seed gives one value for each two lengths.
    outside : str, optional
        As in `mannan`.
    """
    kernel = mannan_similarity_pairs
    return float(one_pair(kernel, a, b, size=size, draws=draws, seed=seed, outside=outside))


# -- Eyenalysis -----------------------------------------------------------------------------------


def eyenalysis_pairs(A: Packed, B: Packed, i: Index, j: Index, *, squared: bool = False) -> Floats:
    """Return `eyenalysis` of many pairs, (n_pairs,)."""
    squared = flag("squared", squared)

    def work(block: Block) -> Floats:
        of_a, of_b = _nearest(block)
        if not squared:
            of_a, of_b = np.sqrt(of_a), np.sqrt(of_b)
        total: Floats = (of_a.sum(axis=0) + of_b.sum(axis=0)) / np.maximum(block.na, block.nb)
        return total

    return over_pairs(A, B, i, j, work)


@register_metric(
    "eyenalysis",
    task="scanpath",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=True,
    description="summed distance of all fixations to the nearest of the other path, per fixation",
    formula="(sum_i min_j |a_i - b_j| + sum_j min_i |a_i - b_j|) / max(n, m)",
    citation="Mathot, Cristino, Gilchrist & Theeuwes 2012, J. Eye Movement Research 5(1):4",
    convention="Euclidean distance, not squared",
    kernel=eyenalysis_pairs,
    columns=None,
    reason=too_short(1),
)
def eyenalysis(a: ArrayLike, b: ArrayLike, *, squared: bool = False) -> float:
    """Return the distance of Mathot et al.: all fixations to their nearest in the other path.

    Parameters
    ----------
    a, b : array_like, shape (n, 2) or (n, 3)
        Pixels; durations are not used.
    squared : bool
        Use squared distances.

    Returns
    -------
    float
        0 or more, in pixels (or squared pixels); NaN when a scanpath is empty.

    References
    ----------
    Mathot, Cristino, Gilchrist & Theeuwes 2012, Journal of Eye Movement Research 5(1):4.
    """
    return float(one_pair(eyenalysis_pairs, a, b, squared=squared))


# -- discs ----------------------------------------------------------------------------------------


class DiscOverlap(NamedTuple):
    """Harmonic mean, and what of the first and of the second path the other one covers."""

    fdiss: float
    precision: float
    recall: float


def _disc_iou(squared: Floats, radius: float) -> Floats:
    """Return intersection over union of two discs, given the squared distance of their centres."""
    half = np.minimum(np.sqrt(squared) / (2.0 * radius), 1.0)
    # in units of the radius: the lens of two unit discs whose centres are 2 * half apart
    lens = 2.0 * np.arccos(half) - 2.0 * half * np.sqrt(1.0 - half * half)
    iou: Floats = lens / (2.0 * np.pi - lens)
    return iou


def disc_overlap_pairs(A: Packed, B: Packed, i: Index, j: Index, *, radius: float) -> Floats:
    """Return `disc_overlap` of many pairs, (n_pairs, 3)."""
    positive("the radius", radius)

    def work(block: Block) -> Floats:
        # the overlap falls with the distance, so the nearest disc is the best one
        shares = [
            np.where(np.isinf(x), 0.0, _disc_iou(nearest, radius)).sum(axis=0) / n
            for nearest, x, n in zip(
                _nearest(block), (block.ax, block.bx), (block.na, block.nb), strict=True
            )
        ]
        precision, recall = shares
        total = precision + recall
        mean = np.divide(2.0 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
        return np.stack([mean, precision, recall], axis=1)

    return over_pairs(A, B, i, j, work, columns=3)


@register_metric(
    "disc_overlap",
    task="scanpath",
    bounds=(0.0, 1.0),
    higher_is_better=True,
    symmetric=False,
    description="overlap of the fixations as discs: precision, recall and their harmonic mean",
    formula="precision = mean_i max_j IoU(a_i, b_j), recall = mean_j max_i IoU; harmonic mean",
    citation="",
    convention="discs of one radius; precision and recall change places when the paths do",
    kernel=disc_overlap_pairs,
    columns=DiscOverlap._fields,
    part_bounds=tuple(Part(name, 0.0, 1.0) for name in DiscOverlap._fields),
    reason=too_short(1),
)
def disc_overlap(a: ArrayLike, b: ArrayLike, *, radius: float) -> DiscOverlap:
    """Return how far the fixations of two scanpaths overlap as discs (FDISS).

    Parameters
    ----------
    a, b : array_like, shape (n, 2) or (n, 3)
        Pixels; durations are not used.
    radius : float
        Of a disc, in pixels.

    Returns
    -------
    DiscOverlap
        Mean best intersection over union of the discs of `a` (precision) and of `b` (recall),
        and their harmonic mean, 0 when both are 0. NaN when a scanpath is empty.
    """
    return DiscOverlap(*map(float, one_pair(disc_overlap_pairs, a, b, radius=radius)))
