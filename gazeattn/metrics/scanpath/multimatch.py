"""MultiMatch: two scanpaths compared as aligned saccades, in five dimensions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from gazeattn.errors import DataError
from gazeattn.metrics._options import as_number, wrong
from gazeattn.metrics.scanpath._blocks import one_of, one_pair, size_of, too_short
from gazeattn.metrics.scanpath._packed import Floats, Packed, Part, Whole, as_path
from gazeattn.metrics.scanpath._places import OUTSIDE, with_durations, with_outside
from gazeattn.metrics.scanpath._saccades import (
    Saccades,
    Thresholds,
    saccades,
    simplified,
    simplified_as_package,
)
from gazeattn.registry import register_metric

__all__ = ["MultiMatch", "multimatch", "multimatch_pairs", "multimatch_simplify"]

GROUPINGS = ("published", "multimatch_gaze", "none")
TIES = ("symmetric", "multimatch_gaze")
CELLS = 1 << 15
"""Cells of one table of a block: 256 KiB of float64, which caches hold."""
PAIRS = 2048

_SHORTEST = 3


class MultiMatch(NamedTuple):
    """Five similarities, 1 for equal; NaN where undefined.

    Attributes
    ----------
    shape : float
        Of the saccade vectors (called vector in multimatch-gaze).
    direction, length, position, duration : float
    """

    shape: float
    direction: float
    length: float
    position: float
    duration: float


def _limits(direction: float, amplitude: float, duration: float) -> Thresholds:
    for name, value in (
        ("direction_threshold", direction),
        ("amplitude_threshold", amplitude),
        ("duration_threshold", duration),
    ):
        if not as_number(value) >= 0:
            raise wrong(name, "0 or more", value)
    return Thresholds(as_number(direction), as_number(amplitude), as_number(duration))


def _tie_rule(grouping: str = "published", ties: str | None = None, **others: Any) -> str:
    if ties is None:
        return "multimatch_gaze" if grouping == "multimatch_gaze" else "symmetric"
    return one_of("rule for ties of MultiMatch", ties, TIES)


def _prepared(
    paths: Packed, grouping: str, limits: Thresholds
) -> tuple[Saccades, NDArray[np.bool_]]:
    """Return the saccades and which paths can be compared."""
    usable = paths.length >= _SHORTEST
    if grouping == "none" or not limits.active():
        return saccades(paths), usable
    if not np.isinf(limits.duration):  # nothing says whether such a fixation is brief
        usable &= ~(np.isnan(paths.duration) & paths.valid()).any(axis=1)
    if grouping == "published":
        return saccades(simplified(paths, limits)), usable
    return simplified_as_package(paths, limits), usable


@with_durations
@with_outside(*OUTSIDE, effect="so that values may leave 0 to 1")
def multimatch_pairs(
    A: Packed,
    B: Packed,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    *,
    size: tuple[float, float],
    grouping: str = "published",
    direction_threshold: float = 0.0,
    duration_threshold: float = 0.0,
    amplitude_threshold: float = 0.0,
    ties: str | None = None,
    outside: str | None = None,
) -> Floats:
    """Return the five similarities of many pairs at once, (n_pairs, 5); see `multimatch`."""
    one_of("grouping of MultiMatch", grouping, GROUPINGS)
    ties = _tie_rule(grouping, ties)
    diagonal = float(np.sqrt(np.square(size_of(size)).sum()))
    limits = _limits(direction_threshold, amplitude_threshold, duration_threshold)
    ours, theirs = np.asarray(i, dtype=np.intp), np.asarray(j, dtype=np.intp)
    a, fit_a = _prepared(A, grouping, limits)
    b, fit_b = (a, fit_a) if B is A else _prepared(B, grouping, limits)
    out = np.full((len(ours), 5), np.nan)
    where = np.flatnonzero(fit_a[ours] & fit_b[theirs])
    where = where[np.lexsort((b.count[theirs[where]], a.count[ours[where]]))]
    tables = _features(a), _features(b)
    while len(where):
        part = _last_block(a.count[ours[where]], b.count[theirs[where]])
        chosen, where = where[part:], where[:part]
        out[chosen] = _Block(a, b, ours[chosen], theirs[chosen], *tables).compare(ties)
    out[:, 0] /= 2 * diagonal
    out[:, 1] /= np.pi
    out[:, 2:4] /= diagonal
    return np.asarray(1 - out)


def _last_block(na: Whole, nb: Whole) -> int:
    """Return where the last block of pairs starts, sorted by `na`."""
    start = max(0, len(na) - PAIRS)
    most = int(nb[start:].max())
    return max(start, len(na) - max(1, CELLS // (int(na[-1]) * most)))


def _features(s: Saccades) -> Floats:
    """Return what is compared along the alignment, one row per saccade."""
    parts = (s.angle, s.length, s.x, s.y, s.duration)
    return np.stack(parts, axis=-1).reshape(-1, len(parts))


class _Block:
    """Pairs of about the same lengths: costs, cheapest alignment, medians along it."""

    def __init__(
        self,
        a: Saccades,
        b: Saccades,
        i: NDArray[np.intp],
        j: NDArray[np.intp],
        features_a: Floats,
        features_b: Floats,
    ) -> None:
        self.a, self.b, self.i, self.j = a, b, i, j
        self.features = features_a, features_b
        self.na, self.nb = a.count[i], b.count[j]
        n, m = int(self.na.max()), int(self.nb.max())
        # One row and one column more than there are saccades: nothing can come from there.
        self.columns, self.pairs = m + 1, len(i)
        ax, ay, bx, by = (
            np.ascontiguousarray(v.T) for v in (a.dx[i, :n], a.dy[i, :n], b.dx[j, :m], b.dy[j, :m])
        )
        self.cost = np.empty((n + 1, m + 1, self.pairs))
        self.cost[0], self.cost[:, 0] = np.inf, np.inf
        cost = self.cost[1:, 1:]
        np.subtract(ax[:, None], bx, out=cost)
        cost *= cost
        down = ay[:, None] - by
        down *= down
        cost += down
        np.sqrt(cost, out=cost)

    def sums(self) -> Floats:
        """Return the least cost of reaching each cell, ((n + 1) * (m + 1), pairs).

        The cost of a step is that of the cell entered; the first cell is free.
        """
        cost = self.cost.reshape(-1, self.pairs)
        total = cost.copy()
        c = self.columns
        total[c + 1] = 0.0
        rows = len(self.cost)
        for d in range(3, rows + c - 1):  # cells (row, d - row) on one antidiagonal
            low, high = max(1, d - c + 1), min(d - 1, rows - 1)
            at, stop, step = low * (c - 1) + d, high * (c - 1) + d + 1, c - 1
            best = np.minimum(total[at - c : stop - c : step], total[at - 1 : stop - 1 : step])
            np.minimum(best, total[at - c - 1 : stop - c - 1 : step], out=best)
            total[at:stop:step] += best
        return total

    def compare(self, ties: str) -> Floats:
        """Return the medians of the five differences, (pairs, 5), before they are scaled."""
        cells, tied = self._walk_back(self.sums())
        if ties == "multimatch_gaze":
            cells = self._as_package(np.flatnonzero(tied), cells)
        inside = cells >= (self.columns + 1) * self.pairs
        steps, most = inside.sum(axis=0), len(cells)
        where = np.flatnonzero(inside)
        cell = cells.reshape(-1).take(where)
        place = cell // self.pairs
        pair = cell - place * self.pairs
        row = place // self.columns
        first_a = self.i * self.a.x.shape[1] - 1
        first_b = self.j * self.b.x.shape[1] - 1
        ours = self.features[0].take(first_a.take(pair) + row, axis=0)
        theirs = self.features[1].take(first_b.take(pair) + (place - row * self.columns), axis=0)
        difference = np.abs(ours - theirs)
        turn, longer = difference[:, 0], np.maximum(ours[:, 4], theirs[:, 4])
        to = pair * most + where // self.pairs
        values = np.full((5, self.pairs * most), np.inf)
        values[0, to] = self.cost.reshape(-1).take(cell)
        values[1, to] = np.minimum(turn, 2 * np.pi - turn)
        values[2, to] = difference[:, 1]
        values[3, to] = np.sqrt(np.square(difference[:, 2]) + np.square(difference[:, 3]))
        with np.errstate(invalid="ignore"):  # 0 / 0: both fixations last no time
            ratio = difference[:, 4] / longer
        values[4, to] = ratio
        medians = _medians(values.reshape(5, self.pairs, most), steps)
        medians[pair[np.isnan(ratio)], 4] = np.nan
        return medians

    def _walk_back(self, total: Floats) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the cells of each alignment from the last to the first, and where others tie.

        Among equally cheap steps the diagonal comes first. Between right and down alone the pair
        in a fixed order decides, so that both orders of the arguments give the same alignment.
        Behind the first cell stands the corner of the border, which is no cell of the alignment.
        """
        c, p = self.columns, self.pairs
        total[0] = -1.0  # nothing is cheaper, so that the first cell leads there
        flat = total.reshape(-1)
        corner = np.arange(p)
        cell = (self.na * c + self.nb) * p + corner
        steps = np.array([[c * p], [p], [(c + 1) * p]])
        cells = []
        tied = np.zeros(p, dtype=bool)
        down_first: NDArray[np.bool_] | None = None
        while True:
            cells.append(cell)
            up, left, both = flat.take(cell - steps, mode="clip")
            straight = np.minimum(up, left)
            diagonal = both <= straight
            from_up = up < left
            equal = (up == left) > diagonal
            if equal.any():
                if down_first is None:
                    down_first = self._in_order()
                from_up |= equal & down_first
            tied |= equal | ((both == straight) & (cell >= (c + 1) * p))
            step = np.where(diagonal, (c + 1) * p, np.where(from_up, c * p, p))
            cell = np.maximum(cell - step, corner)
            if cell.max() < p:
                return np.array(cells), tied

    def _in_order(self) -> NDArray[np.bool_]:
        """Return whether the first path of each pair comes before the second one."""
        n = max(self.a.x.shape[1], self.b.x.shape[1])
        sides = []
        for s, which, count in ((self.a, self.i, self.na), (self.b, self.j, self.nb)):
            row = np.zeros((self.pairs, 5 * n + 1))
            row[:, 0] = count
            inside = np.arange(s.x.shape[1]) < count[:, None]
            for k, part in enumerate((s.x, s.y, s.dx, s.dy, s.duration)):
                values = np.where(inside, np.nan_to_num(part[which], nan=-1.0), 0.0)
                row[:, 1 + k * n : 1 + k * n + values.shape[1]] = values
            sides.append(row)
        difference = sides[0] - sides[1]
        first = (difference != 0).argmax(axis=1)
        return np.asarray(difference[np.arange(self.pairs), first] <= 0)

    def _as_package(self, which: NDArray[np.intp], cells: NDArray[np.intp]) -> NDArray[np.intp]:
        """Put in the alignment that scipy's Dijkstra finds first, where several are cheapest."""
        paths = [_found_first(self.cost[1 : self.na[q] + 1, 1 : self.nb[q] + 1, q]) for q in which]
        more = max((len(p) for p in paths), default=0) - len(cells)
        if more > 0:
            cells = np.pad(cells, ((0, more), (0, 0)))
        for q, path in zip(which, paths, strict=True):
            row, column = np.divmod(path, self.nb[q])
            cells[:, q] = 0
            place = (row + 1) * self.columns + column + 1
            cells[: len(path), q] = place * self.pairs + q
        return cells


def _found_first(cost: Floats) -> NDArray[np.intp]:
    """Return the cells of the cheapest path that Dijkstra's algorithm reaches first, backwards."""
    n, m = cost.shape
    cell = np.arange(n * m).reshape(n, m)
    steps = (
        (cell[:, :-1], cell[:, 1:], cost[:, 1:]),
        (cell[:-1], cell[1:], cost[1:]),
        (cell[:-1, :-1], cell[1:, 1:], cost[1:, 1:]),
    )
    origin, target, weight = (np.concatenate([s[k].ravel() for s in steps]) for k in range(3))
    order = np.lexsort((target, origin))
    starts = np.searchsorted(origin[order], np.arange(n * m + 1))
    # Built by hand, since a step that costs nothing must stay a step.
    graph = csr_matrix((weight[order], target[order], starts), shape=(n * m, n * m))
    _, before = dijkstra(graph, indices=0, return_predecessors=True)
    path = [n * m - 1]
    while path[-1] != 0:
        path.append(int(before[path[-1]]))
    return np.array(path, dtype=np.intp)


def _medians(values: Floats, steps: NDArray[np.int64]) -> Floats:
    """Return medians of `steps` finite numbers, (pairs, kinds) of (kinds, pairs, most)."""
    values.sort(axis=2)
    pair = np.arange(len(steps))
    return ((values[:, pair, (steps - 1) // 2] + values[:, pair, steps // 2]) / 2).T


def _reason(a: ArrayLike, b: ArrayLike, **parameters: Any) -> str:
    if short := too_short(_SHORTEST)(a, b):
        return short
    untimed = any(p.shape[1] < 3 or np.isnan(p[:-1, 2]).any() for p in (as_path(a), as_path(b)))
    if not untimed:
        return "two aligned fixations both have the duration 0" if _no_time(a, b) else ""
    limits = _limits(*(parameters.get(f"{k}_threshold", 0.0) for k in Thresholds.__annotations__))
    if parameters.get("grouping") != "none" and limits.active() and not np.isinf(limits.duration):
        return "a duration is missing, which the simplification needs"
    return "a duration is missing, so the duration part is undefined"


def _no_time(a: ArrayLike, b: ArrayLike) -> bool:
    return bool((as_path(a)[:, 2] == 0).any() and (as_path(b)[:, 2] == 0).any())


def _symmetric(**parameters: Any) -> bool:
    return _tie_rule(**parameters) == "symmetric"


@register_metric(
    "multimatch",
    task="scanpath",
    bounds=(0.0, 1.0),
    higher_is_better=True,
    symmetric=True,
    description="MultiMatch: shape, direction, length, position, duration of aligned saccades",
    formula="1 - median over the cheapest monotone alignment of |u - v| / (2 diagonal), "
    "angle / pi, ||u| - |v|| / diagonal, |start - start| / diagonal, |d - e| / max(d, e)",
    citation="Jarodzka, Holmqvist & Nystrom 2010, ETRA; Dewhurst et al. 2012, Behavior Research "
    "Methods 44; Wagner, Halchenko & Hanke 2019, JOSS 4(40)",
    convention="as multimatch-gaze 0.1.3; among equally cheap alignments diagonal first, equal in "
    "both orders; grouping as published",
    kernel=multimatch_pairs,
    columns=MultiMatch._fields,
    part_bounds=tuple(Part(name, 0.0, 1.0) for name in MultiMatch._fields),
    outside=OUTSIDE,
    reason=_reason,
    symmetric_for=_symmetric,
    needs_size=True,
    chunk_pairs=4096,  # simplification costs the same for few and for many paths
)
def multimatch(
    a: ArrayLike,
    b: ArrayLike,
    *,
    size: tuple[float, float],
    grouping: str = "published",
    direction_threshold: float = 0.0,
    duration_threshold: float = 0.0,
    amplitude_threshold: float = 0.0,
    ties: str | None = None,
    outside: str | None = None,
) -> MultiMatch:
    """Return the five similarities of MultiMatch, between 0 and 1 inside the stimulus.

    The saccades of both paths are aligned so that the sum of the differences between aligned
    saccade vectors is least; each similarity is 1 minus the median difference along it.

    Parameters
    ----------
    a, b
        (n, 2) x, y in pixels or (n, 3) with durations in ms. Without durations the duration part
        is NaN. With fewer than three fixations all parts are NaN.
    size
        Width and height of the stimulus in pixels.
    grouping
        How paths are simplified first. ``"published"``: in turn, until nothing changes, two
        saccades become one when they differ in direction by less than `direction_threshold` and
        the fixation between them is shorter than `duration_threshold`; and a saccade shorter than
        `amplitude_threshold` joins the next one (the last one joins the one before) when the
        fixation at its start or its end is that short. ``"multimatch_gaze"``: the same with the
        two oddities of that package (0.1.3) at a short last saccade. ``"none"``: never.
    direction_threshold, duration_threshold, amplitude_threshold
        Degrees, milliseconds, pixels. With 0, the default, nothing is merged. An infinite
        `duration_threshold` is the rule of 2010, which did not look at durations.
    ties
        Which alignment counts where several cost the same (repeated or equal saccades).
        ``"symmetric"``: diagonal steps first, the same in both orders of the arguments.
        ``"multimatch_gaze"``: the one that package finds first; the default with its grouping.
    outside
        Fixations off the stimulus: ``"keep"`` (the default, as the package does) takes them where
        they are, so that values may leave 0 to 1; ``"clip"`` moves them to the border; ``"drop"``
        leaves them out; ``"undefined"`` gives NaN; ``"raise"`` is an error. Without a choice
        there is a warning.

    Raises
    ------
    DataError
        A path, a size or a threshold that cannot be used.
    UnknownNameError
        Another `grouping` or `ties`.

    References
    ----------
    Jarodzka, Holmqvist & Nystrom (2010), ETRA '10, 211-218. Dewhurst et al. (2012), Behavior
    Research Methods 44, 1079-1100.
    """
    values = one_pair(
        multimatch_pairs,
        a,
        b,
        size=size,
        grouping=grouping,
        direction_threshold=direction_threshold,
        duration_threshold=duration_threshold,
        amplitude_threshold=amplitude_threshold,
        ties=ties,
        outside=outside,
    )
    return MultiMatch(*(float(v) for v in values))


def multimatch_simplify(
    path: ArrayLike,
    *,
    direction_threshold: float = 0.0,
    duration_threshold: float = 0.0,
    amplitude_threshold: float = 0.0,
) -> Floats:
    """Return the fixations that the published simplification of `multimatch` keeps.

    Raises
    ------
    DataError
        A missing duration where the rule needs one, or a negative threshold.
    """
    limits = _limits(direction_threshold, amplitude_threshold, duration_threshold)
    values = as_path(path)
    untimed = values.shape[1] == 2 or bool(np.isnan(values[:, 2]).any())
    if limits.active() and untimed and not np.isinf(limits.duration):
        raise DataError("a duration is missing", expected="(n, 3) with durations in ms")
    duration = values[:, 2] if values.shape[1] == 3 else np.full(len(values), np.nan)
    length = np.array([len(values)])
    paths = Packed(values[None, :, 0], values[None, :, 1], duration[None], length, not untimed)
    kept = simplified(paths, limits) if len(values) else paths
    return np.stack([kept.x[0], kept.y[0], kept.duration[0]], axis=1)[:, : values.shape[1]]
