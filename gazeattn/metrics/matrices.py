"""Agreement of word-by-word matrices: model attention against people's transitions.

Row = from (query), column = to (key). The attention of a head to trivial places (the word itself,
the previous one, the first one) explains much of such agreement; it is fitted here, reported, and
held constant where wished.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError
from gazeattn.metrics._arrays import Floats, as_floats, is_constant
from gazeattn.metrics._options import array, flag, items, one_of, whole
from gazeattn.registry import register_metric

__all__ = [
    "PUBLISHED_PATTERNS",
    "MatrixAgreement",
    "TrivialFit",
    "matrix_agreement",
    "matrix_correlation",
    "matrix_r2",
    "transition_matrix",
    "trivial_pattern",
    "trivial_reliance",
]

PATTERNS = ("self", "previous", "next", "first", "distance")
PUBLISHED_PATTERNS = ("self", "previous", "first")
"""The patterns of Gao et al. (2023), in the lower triangle."""

REGIONS = ("lower", "full", "off_diagonal")
_EMPTY = {("next", "lower"), ("self", "off_diagonal")}

Matrices = ArrayLike | Sequence[ArrayLike]


@dataclass(frozen=True)
class TrivialFit:
    """Least squares of attention on trivial patterns, one fit per head.

    Attributes
    ----------
    r2 : ndarray, shape (n_heads,)
        Reliance on the patterns; NaN for a constant head.
    coefficients : ndarray, shape (n_heads, n_patterns)
    intercept : ndarray, shape (n_heads,)
    residuals : ndarray, shape (n_heads, n_entries)
        Attention less the fit, in the order of `region`, NaN where the head is.
    patterns : tuple of str
    n : int
        Entries of all matrices.
    """

    r2: Floats
    coefficients: Floats
    intercept: Floats
    residuals: Floats
    patterns: tuple[str, ...]
    n: int


@dataclass(frozen=True)
class MatrixAgreement:
    """Least squares of a human matrix on the heads of a model.

    Attributes
    ----------
    r2 : float
        In-sample, on heads and controls. It grows with the number of heads by itself.
    r2_adjusted : float
        Corrected for the number of predictors; NaN where no degree of freedom is left.
    r2_controls : float
        On the controls alone; 0 without controls.
    increment : float
        `r2` less `r2_controls`.
    r2_held_out : float
        Each matrix predicted from a fit to the others, 1 - residual / total sum of squares about
        the mean of the others; may be negative. NaN with a single matrix.
    coefficients : ndarray, shape (n_heads + n_controls,)
        Of the heads, then of the controls; the shortest solution where predictors are collinear.
    intercept : float
    rank, n, n_missing : int
        Independent predictors, entries that count, and entries missing on a side.
    controls : tuple of str
    reason : str
        Why it is undefined; empty where it is defined.
    """

    r2: float
    r2_adjusted: float
    r2_controls: float
    increment: float
    r2_held_out: float
    coefficients: Floats
    intercept: float
    rank: int
    n: int
    n_missing: int
    controls: tuple[str, ...]
    reason: str


def transition_matrix(
    words: ArrayLike, n_words: int, *, weights: ArrayLike | None = None
) -> Floats:
    """Count the steps from word to word of one reader.

    Parameters
    ----------
    words : array-like of int, shape (n_fixations,)
        Index of the fixated word, from 0; negative for a fixation on no word, which breaks the
        chain: steps to and from it are not counted.
    n_words : int
    weights : array-like, shape (n_fixations,), optional
        Added for each step instead of 1, e.g. the duration of the fixation that it leads to.

    Returns
    -------
    ndarray, shape (n_words, n_words)
        Row = from, column = to; steps that stay on a word are on the diagonal.

    Raises
    ------
    DataError
        A word beyond `n_words`, or another number of weights.
    """
    n_words = whole("n_words", n_words, 0)
    path = array("words", words, "the index of the word of each fixation")
    path = path if path.size else np.zeros(0, dtype=np.int64)
    if path.ndim != 1 or (path.size and path.dtype.kind not in "iu"):
        raise DataError(
            "words must be whole numbers in a row", expected="(n_fixations,)", found=path.dtype
        )
    path = path.astype(np.int64)
    if path.size and path.max() >= n_words:
        raise DataError(
            "a fixated word does not exist", expected=f"0 to {n_words - 1}", found=int(path.max())
        )
    out = np.zeros((n_words, n_words))
    start, end = path[:-1], path[1:]
    known = (start >= 0) & (end >= 0)
    worth: float | Floats = 1.0
    if weights is not None:
        values = as_floats(weights, "weights").astype(np.float64)
        if values.shape != path.shape:
            raise DataError(
                "one weight per fixation is needed", expected=path.size, found=values.size
            )
        worth = values[1:][known]
    np.add.at(out, (start[known], end[known]), worth)
    return out


def trivial_pattern(name: str, n_words: int) -> Floats:
    """Return a trivial pattern of attention, (n_words, n_words).

    ``self``, ``previous``, ``next`` and ``first`` are 1 at that word and 0 elsewhere;
    ``distance`` is the number of words between row and column.
    """
    n_words = whole("n_words", n_words, 0)
    one_of("name", name, PATTERNS)
    row, column = np.indices((n_words, n_words))
    if name == "self":
        return (row == column).astype(np.float64)
    if name == "previous":
        return (row - column == 1).astype(np.float64)
    if name == "next":
        return (column - row == 1).astype(np.float64)
    if name == "first":
        return (column == 0).astype(np.float64)
    return np.abs(row - column).astype(np.float64)


def trivial_reliance(
    attention: Matrices,
    *,
    patterns: Sequence[str] = PUBLISHED_PATTERNS,
    region: str = "lower",
) -> TrivialFit:
    """Return how far each head follows trivial patterns, and what is left of it.

    All matrices are stacked; each head is fitted by least squares with an intercept.

    Parameters
    ----------
    attention : array-like, shape (n, n) or (n_heads, n, n), or a list of them
        One array per sentence; their sizes may differ, their numbers of heads may not.
    patterns : sequence of str
        Of ``self``, ``previous``, ``next``, ``first``, ``distance``.
    region : {"lower", "full", "off_diagonal"}
        Entries that count, row by row; ``lower`` has the diagonal.

    Returns
    -------
    TrivialFit

    Raises
    ------
    DataError
        Arrays that are not square, or a pattern that has no entry in the region.

    References
    ----------
    Gao, Huang, Li and Chen (2023), Findings of EMNLP.
    """
    _check("patterns", patterns, region)
    heads, sizes = _stack(attention, region, "attention")
    design = _patterns(patterns, sizes, region)
    n_heads = len(heads)
    r2, intercept = np.full(n_heads, np.nan), np.full(n_heads, np.nan)
    coefficients = np.full((n_heads, len(patterns)), np.nan)
    residuals = np.full(heads.shape, np.nan)
    for h, values in enumerate(heads):
        known = np.isfinite(values)
        if known.sum() < 2 or is_constant(values[None, known])[0]:
            continue
        fit = _least_squares(design[:, known].T, values[known])
        r2[h], coefficients[h], intercept[h] = fit.r2, fit.coefficients, fit.intercept
        residuals[h, known] = values[known] - fit.predict(design[:, known].T)
    return TrivialFit(r2, coefficients, intercept, residuals, tuple(patterns), heads.shape[1])


@register_metric(
    "matrix_correlation",
    task="matrix",
    bounds=(-1.0, 1.0),
    higher_is_better=True,
    symmetric=True,
    description="Pearson's r of the entries of two word-by-word matrices",
    citation="Gao et al. (2023), Findings of EMNLP",
    formula="r of the lower triangles with the diagonal, row by row",
    convention="lower triangle with diagonal",
)
def matrix_correlation(a: ArrayLike, b: ArrayLike, *, region: str = "lower") -> float:
    """Return Pearson's r of the entries of two matrices.

    Parameters
    ----------
    a, b : array-like, shape (n, n)
        Model and human.
    region : {"lower", "full", "off_diagonal"}
        As in `trivial_reliance`.

    Returns
    -------
    float
        In [-1, 1]; NaN where a side is constant or fewer than two entries are known on both.
    """
    x, y, _ = _both(as_floats(a, "model matrix", (2,))[None], b, region)
    known = np.isfinite(x[0]) & np.isfinite(y)
    first, second = x[0, known], y[known]
    if known.sum() < 2 or is_constant(first[None])[0] or is_constant(second[None])[0]:
        return float("nan")
    return float(np.clip(np.corrcoef(first, second)[0, 1], -1.0, 1.0))


@register_metric(
    "matrix_r2",
    task="matrix",
    bounds=(0.0, 1.0),
    higher_is_better=True,
    symmetric=False,
    description="Share of the variance of a human matrix that the heads explain, in-sample",
    citation="Gao et al. (2023), Findings of EMNLP",
    formula="R^2 of least squares, human ~ 1 + heads (+ trivial patterns)",
    convention="in-sample, lower triangle with diagonal; see matrix_agreement for held-out",
)
def matrix_r2(
    a: Matrices, b: Matrices, *, controls: Sequence[str] = (), region: str = "lower"
) -> float:
    """Return the in-sample R^2 of a human matrix on all heads; see `matrix_agreement`."""
    return matrix_agreement(a, b, controls=controls, region=region, held_out=False).r2


def matrix_agreement(
    a: Matrices,
    b: Matrices,
    *,
    controls: Sequence[str] = (),
    region: str = "lower",
    held_out: bool = True,
) -> MatrixAgreement:
    """Regress human matrices on the heads of a model, beside trivial patterns.

    Parameters
    ----------
    a : array-like, shape (n, n) or (n_heads, n, n), or a list of them
        Model, one array per sentence.
    b : array-like, shape (n, n), or a list of them
        Human, of the same sizes. Entries that are NaN or infinite on a side are left out.
    controls : sequence of str
        Trivial patterns to hold constant; see `trivial_reliance`.
    region : {"lower", "full", "off_diagonal"}
    held_out : bool
        Also predict each sentence from the others.

    Returns
    -------
    MatrixAgreement

    Raises
    ------
    DataError
        Numbers or sizes of the matrices differ, or a control has no entry in the region.

    References
    ----------
    Gao, Huang, Li and Chen (2023), Findings of EMNLP.
    """
    _check("controls", controls, region)
    held_out = flag("held_out", held_out)
    heads, target, sizes = _both(a, b, region)
    design = np.concatenate([heads, _patterns(controls, sizes, region)])
    known = np.isfinite(design).all(axis=0) & np.isfinite(target)
    n, n_heads = int(known.sum()), len(heads)
    x, y = design[:, known].T, target[known]
    missing = len(target) - n
    reason = ""
    if n < 2:
        reason = f"{n} entr{'y' if n == 1 else 'ies'} known on both sides, 2 needed"
    elif is_constant(y[None])[0]:
        reason = "the human matrix is constant"
    elif is_constant(x[:, :n_heads].T).all():
        reason = "the model matrix is constant"
    if reason:
        nan = float("nan")
        empty = np.full(len(design), nan)
        return MatrixAgreement(
            nan, nan, nan, nan, nan, empty, nan, 0, n, missing, tuple(controls), reason
        )
    fit = _least_squares(x, y)
    alone = _least_squares(x[:, n_heads:], y).r2 if controls else 0.0
    free = n - 1 - fit.rank
    adjusted = 1 - (1 - fit.r2) * (n - 1) / free if free > 0 else float("nan")
    outside = float("nan")
    if held_out:
        counts = [_entries(size, region)[0].size for size in sizes]
        outside = _predicted(x, y, np.repeat(np.arange(len(sizes)), counts)[known])
    return MatrixAgreement(
        fit.r2,
        adjusted,
        alone,
        fit.r2 - alone,
        outside,
        fit.coefficients,
        fit.intercept,
        fit.rank,
        n,
        missing,
        tuple(controls),
        "",
    )


# -- steps ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fit:
    coefficients: Floats
    intercept: float
    r2: float
    rank: int

    def predict(self, x: Floats) -> Floats:
        return np.asarray(x @ self.coefficients + self.intercept)


def _least_squares(x: Floats, y: Floats) -> _Fit:
    centre, mean = x.mean(axis=0), float(y.mean())
    coefficients, _, rank, _ = np.linalg.lstsq(x - centre, y - mean, rcond=None)
    rest = y - mean - (x - centre) @ coefficients
    total = float(((y - mean) ** 2).sum())
    r2 = 1 - float((rest**2).sum()) / total if total > 0 else float("nan")
    return _Fit(coefficients, mean - float(centre @ coefficients), float(np.clip(r2, 0, 1)), rank)


def _predicted(x: Floats, y: Floats, group: NDArray[np.integer]) -> float:
    """Return R^2 of predictions for each group from a fit to the other groups."""
    present = np.unique(group)
    if len(present) < 2:
        return float("nan")
    rest = total = 0.0
    for g in present:
        test = group == g
        fit = _least_squares(x[~test], y[~test])
        rest += float(((y[test] - fit.predict(x[test])) ** 2).sum())
        total += float(((y[test] - y[~test].mean()) ** 2).sum())
    return 1 - rest / total if total > 0 else float("nan")


def _check(option: str, patterns: Sequence[str], region: str) -> None:
    one_of("region", region, REGIONS)
    for name in items(option, patterns, f"a list of names among {', '.join(PATTERNS)}"):
        one_of(f"pattern in {option}", name, PATTERNS)
        if (name, region) in _EMPTY:
            raise DataError(
                f"the pattern {name!r} has no entry in the region {region!r}",
                hint="Take region='full', or leave the pattern out",
            )


def _entries(size: int, region: str) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    if region == "lower":
        return np.tril_indices(size)
    keep = np.ones((size, size), dtype=bool)
    if region == "off_diagonal":
        np.fill_diagonal(keep, False)
    row, column = np.nonzero(keep)
    return row, column


def _patterns(names: Sequence[str], sizes: Sequence[int], region: str) -> Floats:
    out = [
        np.concatenate([trivial_pattern(name, size)[_entries(size, region)] for size in sizes])
        for name in names
    ]
    return np.array(out).reshape(len(names), -1) if names else np.zeros((0, _total(sizes, region)))


def _total(sizes: Sequence[int], region: str) -> int:
    return sum(_entries(size, region)[0].size for size in sizes)


def _stack(matrices: Matrices, region: str, name: str) -> tuple[Floats, list[int]]:
    """Return the entries of all sentences, (n_heads, n_entries), and the sizes."""
    one_of("region", region, REGIONS)
    several = not isinstance(matrices, np.ndarray) and _several(matrices)
    given: list[Any] = list(matrices) if several else [matrices]  # type: ignore[arg-type]
    parts: list[Floats] = []
    sizes: list[int] = []
    for number, one in enumerate(given):
        array = as_floats(one, f"{name} {number}", (2, 3)).astype(np.float64)
        array = array if array.ndim == 3 else array[None]
        if array.shape[1] != array.shape[2] or (parts and len(array) != len(parts[0])):
            raise DataError(
                f"{name} {number} has the wrong shape",
                expected="(n, n), or (n_heads, n, n) with as many heads as the first",
                found=str(array.shape),
            )
        row, column = _entries(array.shape[1], region)
        parts.append(array[:, row, column])
        sizes.append(array.shape[1])
    if not parts:
        raise DataError(f"there is no {name}", expected="one matrix or more")
    return np.concatenate(parts, axis=1), sizes


def _several(matrices: Matrices) -> bool:
    """Return whether a sequence holds matrices rather than the rows of one."""
    if isinstance(matrices, str | bytes) or not isinstance(matrices, Sequence):
        return False
    first = matrices[0] if matrices else None
    return first is None or array("matrix 0", first, "a square matrix").ndim >= 2


def _both(a: Matrices, b: Matrices, region: str) -> tuple[Floats, Floats, list[int]]:
    heads, sizes = _stack(a, region, "model matrix")
    human, others = _stack(b, region, "human matrix")
    if len(human) != 1 or sizes != others:
        raise DataError(
            "model and human matrices do not belong together",
            expected=f"one human matrix for each of the sizes {sizes}",
            found=f"{len(human)} per sentence, sizes {others}",
        )
    return heads, human[0], sizes
