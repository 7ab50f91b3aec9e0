"""The earth mover's distance between two densities on a grid, by linear programming."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from gazeattn.errors import GazeattnError
from gazeattn.metrics.saliency._inputs import Floats


def block_side(shape: tuple[int, ...], max_cells: int) -> int:
    """Return the smallest side of square blocks with which a map has at most `max_cells` blocks."""
    rows, columns = shape
    side = max(1, math.isqrt(rows * columns // max_cells))
    while math.ceil(rows / side) * math.ceil(columns / side) > max_cells:
        side += 1
    return side


def in_blocks(density: Floats, side: int) -> Floats:
    """Return the mass in each block of `side` x `side` pixels; the last ones may be smaller."""
    rows = np.arange(0, density.shape[0], side)
    columns = np.arange(0, density.shape[1], side)
    return np.add.reduceat(np.add.reduceat(density, rows, axis=0), columns, axis=1)


def block_centres(shape: tuple[int, ...], side: int) -> tuple[Floats, Floats]:
    """Return y of the rows and x of the columns of blocks, in pixels."""
    found = []
    for n in shape:
        begin = np.arange(0, n, side)
        end = np.minimum(begin + side, n)
        found.append((begin + end - 1) / 2)
    return found[0], found[1]


def transport_cost(a: Floats, b: Floats, y: Floats, x: Floats) -> float:
    """Return the least mass x distance that turns density `a` into `b`, (rows, columns) each.

    Mass that both densities have at a place can stay there, since distances obey the triangle
    inequality: only what is too much is moved to where it lacks.
    """
    places = np.stack(np.meshgrid(y, x, indexing="ij"), axis=-1).reshape(-1, 2)
    surplus = (a - b).reshape(-1)
    moved = float(surplus[surplus > 0].sum())
    if moved <= 1e-15:  # both sum to 1: this is rounding
        return 0.0
    from_, to = np.flatnonzero(surplus > 0), np.flatnonzero(surplus < 0)
    supply, demand = surplus[from_] / moved, -surplus[to]
    demand = demand / demand.sum()
    n, m = len(from_), len(to)
    cost = np.sqrt(((places[from_][:, None] - places[to][None]) ** 2).sum(axis=-1)).reshape(-1)
    pair = np.arange(n * m)
    rows = np.concatenate([pair // m, n + pair % m])
    matrix = csr_array((np.ones(2 * n * m), (rows, np.concatenate([pair, pair]))))
    # one condition follows from the others; without it rounding cannot make them contradictory
    solved = linprog(
        cost,
        A_eq=matrix[:-1],
        b_eq=np.concatenate([supply, demand])[:-1],
        bounds=(0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if not solved.success:
        raise GazeattnError(f"the transport problem was not solved: {solved.message}")
    return float(solved.fun) * moved
