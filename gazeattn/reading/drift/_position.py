"""Methods that look at positions alone: attach, cluster, regress, stretch."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.reading.drift._fits import Fit, best_line_fit, best_stretch
from gazeattn.reading.drift._kmeans import kmeans_1d
from gazeattn.reading.drift._lines import lines_in_order, nearest_line, scaled, solve


def attach(fixations: ArrayLike, line_y: ArrayLike, *, right_to_left: bool = False) -> np.ndarray:
    """Give each fixation to the nearest line.

    Exactly midway between two lines, the upper line gets it.

    Parameters
    ----------
    fixations : array_like, shape (n, 2) or wider
        x, y in pixels in order of time; further columns (onset, duration) are not used.
    line_y : array_like, shape (n_lines,)
        Line centres in pixels, increasing.
    right_to_left
        Makes no difference here.

    Returns
    -------
    ndarray, shape (n,), int64
        Line from 0; -1 where x or y is not finite.

    Raises
    ------
    DataError
        Fixations or line centres are not of the stated form.
    """
    del right_to_left
    return solve(fixations, line_y, lambda x, y, lines: nearest_line(y, lines))


def cluster(fixations: ArrayLike, line_y: ArrayLike, *, right_to_left: bool = False) -> np.ndarray:
    """Cut y into as many clusters as there are lines and give these to the lines from the top.

    The clusters are the best possible ones (k-means with the smallest sum of squares, found by
    dynamic programming), so the result does not depend on a random start. With fewer different
    y than lines, each y is a cluster and lines are left out where that fits best.

    Method of popEye (S. Schroeder), described in Carr et al. (2022). Parameters, result and
    errors: see `attach`.
    """
    del right_to_left

    def core(x: np.ndarray, y: np.ndarray, lines: np.ndarray) -> np.ndarray:
        groups = kmeans_1d(y, len(lines))
        n_groups = int(groups.max()) + 1
        if n_groups == len(lines):
            return groups
        return lines_in_order(groups, y, lines, n_groups)[groups]

    return solve(fixations, line_y, core)


def regress(
    fixations: ArrayLike,
    line_y: ArrayLike,
    *,
    slope_bounds: tuple[float, float] = (-0.1, 0.1),
    offset_bounds: tuple[float, float] | None = None,
    right_to_left: bool = False,
) -> np.ndarray:
    """Fit the lines with one slope and one offset to the fixations; each goes to its nearest one.

    The likelihood of Cohen (2013) is largest where the sum of squared distances between the
    fixations and their nearest sloped lines is smallest, whatever the standard deviation, so that
    sum alone is minimised: over a grid of slopes and offsets first, then exactly from the best
    cells of the grid.

    Parameters
    ----------
    fixations, line_y
        See `attach`.
    slope_bounds
        Smallest and largest change of y per pixel of x.
    offset_bounds
        Smallest and largest offset of y in pixels at ``x = 0``; default -50 and 50 at a line
        spacing of 64 pixels, in proportion for others.
    right_to_left
        Makes no difference here.

    Returns
    -------
    ndarray, shape (n,), int64
        See `attach`.

    References
    ----------
    Cohen (2013), Behavior Research Methods 45, 679-683, doi:10.3758/s13428-012-0280-3.
    """
    del right_to_left

    def core(x: np.ndarray, y: np.ndarray, lines: np.ndarray) -> np.ndarray:
        fit: Fit = best_line_fit(x, y, lines, slope_bounds, _offsets(offset_bounds, lines))
        return nearest_line(y - fit.factor * x - fit.offset, lines)

    return solve(fixations, line_y, core)


def stretch(
    fixations: ArrayLike,
    line_y: ArrayLike,
    *,
    stretch_bounds: tuple[float, float] = (0.9, 1.1),
    offset_bounds: tuple[float, float] | None = None,
    right_to_left: bool = False,
) -> np.ndarray:
    """Find the factor and the offset of y that bring the fixations nearest to the lines.

    The sum of absolute distances to the nearest lines is minimised over a grid of factors and
    offsets, which is then made finer around its best cells.

    Parameters
    ----------
    fixations, line_y
        See `attach`.
    stretch_bounds
        Smallest and largest factor.
    offset_bounds
        Smallest and largest offset in pixels; default -50 and 50 at a line spacing of 64 pixels,
        in proportion for others.
    right_to_left
        Makes no difference here.

    Returns
    -------
    ndarray, shape (n,), int64
        See `attach`.

    References
    ----------
    Lohmeier (2015), master's thesis, Technische Universitaet Berlin.
    """
    del right_to_left

    def core(x: np.ndarray, y: np.ndarray, lines: np.ndarray) -> np.ndarray:
        fit = best_stretch(y, lines, stretch_bounds, _offsets(offset_bounds, lines))
        return nearest_line(y * fit.factor + fit.offset, lines)

    return solve(fixations, line_y, core)


def _offsets(bounds: tuple[float, float] | None, lines: np.ndarray) -> tuple[float, float]:
    if bounds is not None:
        return bounds
    reach = scaled(None, 50.0, lines)
    return -reach, reach
