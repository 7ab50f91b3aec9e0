"""Fitting lines of text to fixations: two parameters, one global search, exact refinement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from gazeattn.reading.drift._lines import PUBLISHED_SPACING, nearest_line, spacing_of

FACTORS, OFFSETS = 81, 101  # cells of the first grid
CANDIDATES = 6  # cells that are refined
ROUNDS = 50  # of the exact refinement; it ends by itself long before


@dataclass(frozen=True)
class Fit:
    """A factor (slope or stretch), an offset in pixels, and the value that was minimised."""

    factor: float
    offset: float
    loss: float


def best_line_fit(
    x: np.ndarray,
    y: np.ndarray,
    lines: np.ndarray,
    slopes: tuple[float, float],
    offsets: tuple[float, float],
) -> Fit:
    """Minimise the squared distance of ``y - slope * x - offset`` to the nearest lines."""
    k, o = np.linspace(*slopes, FACTORS), np.linspace(*offsets, OFFSETS)
    loss = _grid(y[None, :] - k[:, None] * x[None, :], -o, lines, power=2)
    best: Fit | None = None
    for i, j in _candidates(loss, k, o):
        fit = _settle(x, y, lines, float(k[i]), float(o[j]), slopes, offsets)
        if best is None or fit.loss < best.loss * (1 - 1e-9):
            best = fit
    assert best is not None
    return best


def best_stretch(
    y: np.ndarray,
    lines: np.ndarray,
    factors: tuple[float, float],
    offsets: tuple[float, float],
) -> Fit:
    """Minimise the absolute distance of ``y * factor + offset`` to the nearest lines."""
    k, o = np.linspace(*factors, FACTORS), np.linspace(*offsets, OFFSETS)
    loss = _grid(k[:, None] * y[None, :], o, lines, power=1)
    best: Fit | None = None
    for i, j in _candidates(loss, k, o):
        fit = Fit(float(k[i]), float(o[j]), np.inf)
        step_k, step_o = k[1] - k[0], o[1] - o[0]
        for _ in range(3):
            fine_k = np.clip(fit.factor + step_k * np.linspace(-1, 1, 9), *factors)
            fine_o = np.clip(fit.offset + step_o * np.linspace(-1, 1, 9), *offsets)
            moved = fine_k[:, None, None] * y + fine_o[:, None]
            exact = np.abs(moved - lines[nearest_line(moved, lines)]).sum(axis=2)
            a, b = np.unravel_index(int(exact.argmin()), exact.shape)
            fit = Fit(float(fine_k[a]), float(fine_o[b]), float(exact[a, b]))
            step_k, step_o = step_k / 4, step_o / 4
        if best is None or fit.loss < best.loss * (1 - 1e-9):
            best = fit
    assert best is not None
    return best


def _grid(moved: np.ndarray, offsets: np.ndarray, lines: np.ndarray, power: int) -> np.ndarray:
    """Return the loss of each row of `moved` under each offset, from values rounded to bins.

    The table of distances holds a row per bin and a column per offset; which bins a row of
    `moved` hits is a sparse matrix, whose product with the table gives all losses at once. (A
    dense product would be spread over threads, which on a busy machine wait for each other.)
    Points far outside the text count as if just outside it, so that a stray one cannot decide.
    """
    spacing = spacing_of(lines)
    width = spacing / PUBLISHED_SPACING
    reach = float(np.abs(offsets).max()) + 2 * spacing
    low, high = lines[0] - reach, lines[-1] + reach
    n_bins = int(np.ceil((high - low) / width)) + 1
    bins = np.rint((np.clip(moved, low, high) - low) / width).astype(np.int64)
    ends = np.arange(len(moved) + 1) * moved.shape[1]
    hits = sparse.csr_array((np.ones(bins.size), bins.ravel(), ends), shape=(len(moved), n_bins))
    at = low + width * np.arange(n_bins)[:, None] + offsets[None, :]
    distance = np.abs(at - lines[nearest_line(at, lines)])
    return np.asarray(hits @ distance**power)


def _candidates(loss: np.ndarray, k: np.ndarray, o: np.ndarray) -> list[tuple[int, int]]:
    """Return the lowest cells that no neighbour undercuts, the least correction first in ties."""
    padded = np.pad(loss, 1, constant_values=np.inf)
    n, m = loss.shape
    shifts = [(a, b) for a in range(3) for b in range(3) if (a, b) != (1, 1)]
    around = np.min([padded[a : a + n, b : b + m] for a, b in shifts], axis=0)
    rows, columns = np.nonzero(loss <= around)
    rank_k = np.abs(np.arange(n) - (n - 1) / 2)[rows]
    rank_o = np.abs(o[columns])
    order = np.lexsort((rank_o, rank_k, loss[rows, columns]))[:CANDIDATES]
    return [(int(rows[i]), int(columns[i])) for i in order]


def _settle(
    x: np.ndarray,
    y: np.ndarray,
    lines: np.ndarray,
    slope: float,
    offset: float,
    slopes: tuple[float, float],
    offsets: tuple[float, float],
) -> Fit:
    """Alternate between nearest lines and least squares until neither changes."""
    line = nearest_line(y - slope * x - offset, lines)
    for _ in range(ROUNDS):
        slope, offset = _bounded_least_squares(x, y - lines[line], slopes, offsets)
        again = nearest_line(y - slope * x - offset, lines)
        if (again == line).all():
            break
        line = again
    rest = y - lines[line] - slope * x - offset
    return Fit(slope, offset, float(rest @ rest))


def _bounded_least_squares(
    x: np.ndarray, r: np.ndarray, slopes: tuple[float, float], offsets: tuple[float, float]
) -> tuple[float, float]:
    """Return slope and offset within bounds with the smallest ``sum (r - slope*x - offset)**2``."""
    mean_x, mean_r = float(x.mean()), float(r.mean())
    dx = x - mean_x
    spread = float(dx @ dx)
    if spread > 0:
        slope = float(dx @ r) / spread
        offset = mean_r - slope * mean_x
        if slopes[0] <= slope <= slopes[1] and offsets[0] <= offset <= offsets[1]:
            return slope, offset
    # the optimum of a convex function over a box whose free optimum lies outside is on an edge
    edges = []
    for k in slopes:
        edges.append((k, min(max(mean_r - k * mean_x, offsets[0]), offsets[1])))
    xx = float(x @ x)
    for o in offsets:
        k = float(x @ (r - o)) / xx if xx > 0 else 0.0
        edges.append((min(max(k, slopes[0]), slopes[1]), o))
    if spread <= 0:  # all x equal: the flat fit is as good as any
        flat = min(max(0.0, slopes[0]), slopes[1])
        edges.insert(0, (flat, min(max(mean_r - flat * mean_x, offsets[0]), offsets[1])))
    losses = [float(((r - k * x - o) ** 2).sum()) for k, o in edges]
    return edges[int(np.argmin(losses))]
