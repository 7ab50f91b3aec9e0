"""Points in boxes: an exact lookup over many layouts at once.

Every layout is cut into elementary bands (between neighbouring top and bottom edges). Within a
band the boxes are sorted by their left edge. Coordinates are compared as ranks among all edges,
so that keys of (layout, coordinate) are whole numbers and comparisons stay exact.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

TABLE_SIZE = 1 << 18  # larger look-up tables leave the processor's caches
AT_ONCE = 1 << 17  # points per part; parts are looked up side by side
PAIRS_AT_ONCE = 2_000_000  # bounds the memory of the search in overlapping boxes


class Edges:
    """Sorted, distinct edges, which coordinates are ranked among.

    Edges on whole pixels are looked up by pixel: ``edge <= x`` is the same as
    ``edge <= floor(x)`` for them, and a look-up is several times as quick as a search.
    """

    def __init__(self, edges: np.ndarray) -> None:
        self.edges = edges
        self._table = None
        if len(edges) and edges[-1] - edges[0] < TABLE_SIZE and (edges == np.floor(edges)).all():
            pixels = np.arange(edges[0] - 1, edges[-1] + 1)
            self._table = np.searchsorted(edges, pixels, side="right") - 1

    def __len__(self) -> int:
        return len(self.edges)

    def rank(self, values: np.ndarray) -> np.ndarray:
        """Return the position of the last edge of at most each value, -1 if it lies before all.

        NaN counts as behind the last edge.
        """
        if self._table is None:
            return np.searchsorted(self.edges, values, side="right") - 1
        pixel = np.floor(values)
        np.fmin(pixel, self.edges[-1], out=pixel)  # takes the number, not NaN
        np.fmax(pixel, self.edges[0] - 1, out=pixel)
        pixel -= self.edges[0] - 1
        return self._table[pixel.astype(np.int64)]


class LastKey:
    """Sorted pairs of a group and a rank below `base`; finds the last one at or before another.

    All answers are kept in a table where that is small.
    """

    def __init__(self, group: np.ndarray, rank: np.ndarray, n_groups: int, base: int) -> None:
        self.groups, self.base, self.n_groups = group, base, n_groups
        self.keys = group * base + rank
        self._table = None
        if n_groups * (base + 1) <= TABLE_SIZE:
            asked = np.repeat(np.arange(n_groups), base + 1)
            answers = self._search(asked, np.tile(np.arange(-1, base), n_groups))
            self._table = np.append(answers, np.full(base + 1, -1))  # group -1 takes the last

    def _search(self, group: np.ndarray, rank: np.ndarray) -> np.ndarray:
        if not len(self.keys):
            return np.full(len(group), -1)
        at = np.searchsorted(self.keys, group * self.base + rank, side="right") - 1
        return np.where((at >= 0) & (self.groups[at] == group), at, -1)

    def find(self, group: np.ndarray, rank: np.ndarray) -> np.ndarray:
        """Return the position of the last pair of `group` of at most `rank`, -1 without one.

        `group` is from -1 (which has no pair), `rank` from -1.
        """
        if self._table is None:
            return self._search(group, rank)
        return self._table[group * (self.base + 1) + (rank + 1)]


@dataclass(frozen=True)
class BoxIndex:
    """Boxes of many layouts, ready to be searched.

    Attributes
    ----------
    boxes : ndarray, shape (n_boxes, 4), float64
        Left, top, right, bottom.
    usable : ndarray, shape (n_boxes,), bool
        False where an edge is missing or the box has no area.
    overlaps : int
        Number of bands in which boxes overlap; 0 for a plain text layout.
    """

    boxes: np.ndarray
    usable: np.ndarray
    overlaps: int
    _y_edges: Edges
    _x_edges: Edges
    _bands: LastKey  # by layout and rank of the band's upper edge
    _band_start: np.ndarray  # first entry of each band; one more than bands
    _band_overlaps: np.ndarray
    _entries: LastKey  # by band and rank of the box's left edge
    _entry_box: np.ndarray
    _entry_right: np.ndarray  # one more than entries, for "none": no point lies left of it

    def find(self, layout: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the box of each point and the number of points that lie in several boxes.

        A point lies in a box if ``left <= x < right`` and ``top <= y < bottom``. Of several
        boxes the one with the nearest centre wins; of equally near ones, the first.

        Parameters
        ----------
        layout : ndarray, shape (n,), int
            Layout number of each point, negative where it has none.
        x, y : ndarray, shape (n,), float64
            NaN lies in no box.

        Returns
        -------
        ndarray, shape (n,), int64
            Row of the box, -1 where the point lies in none.
        int
        """
        if not len(self._entry_box):
            return np.full(len(x), -1, dtype=np.int64), 0
        if len(x) <= AT_ONCE:
            return self._find(layout, x, y)
        starts = range(0, len(x), AT_ONCE)
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            parts = [slice(at, at + AT_ONCE) for at in starts]
            found = list(pool.map(lambda p: self._find(layout[p], x[p], y[p]), parts))
        return np.concatenate([f for f, _ in found]), sum(n for _, n in found)

    def _find(self, layout: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, int]:
        known = (layout >= 0) & (layout < self._bands.n_groups)
        if not known.all():
            layout = np.where(known, layout, -1)
        # What lies before every edge falls to a key of the group before, and a missing y to the
        # last bottom edge, where no box begins: neither needs a test of its own.
        band = self._bands.find(layout, self._y_edges.rank(y))
        entry = self._entries.find(band, self._x_edges.rank(x))
        inside = x < self._entry_right[entry]
        found = np.where(inside, self._entry_box[entry], -1)
        if not self.overlaps:
            return found, 0
        crowded = np.flatnonzero((band >= 0) & self._band_overlaps[band] & ~np.isnan(x))
        found[crowded] = -1
        return found, self._find_crowded(crowded, band[crowded], x, y, found)

    def _find_crowded(
        self, rows: np.ndarray, band: np.ndarray, x: np.ndarray, y: np.ndarray, found: np.ndarray
    ) -> int:
        """Compare each point with every box of its band; fills `found`, returns the doubtful."""
        counts = np.diff(self._band_start)[band]
        steps = np.searchsorted(
            np.cumsum(counts), np.arange(0, int(counts.sum()) + 1, PAIRS_AT_ONCE)
        )
        several = 0
        for first, last in zip(steps, [*steps[1:], len(rows)], strict=True):
            part = slice(int(first), int(last))
            n = counts[part]
            point = np.repeat(rows[part], n)
            within = np.arange(len(point)) - np.repeat(np.cumsum(n) - n, n)
            box = self._entry_box[np.repeat(self._band_start[band[part]], n) + within]
            left, top, right, bottom = self.boxes[box].T
            hit = (left <= x[point]) & (x[point] < right)  # the band settles top and bottom
            point, box = point[hit], box[hit]
            dx = x[point] - (left[hit] + right[hit]) / 2
            dy = y[point] - (top[hit] + bottom[hit]) / 2
            order = np.lexsort((box, dx**2 + dy**2, point))
            point, box = point[order], box[order]
            new = np.r_[True, point[1:] != point[:-1]] if len(point) else np.zeros(0, bool)
            found[point[new]] = box[new]
            several += len(np.unique(point[~new]))
        return several


def index_boxes(layout: np.ndarray, boxes: np.ndarray) -> BoxIndex:
    """Prepare boxes for the search.

    Parameters
    ----------
    layout : ndarray, shape (n_boxes,), int
        Layout number of each box, from 0.
    boxes : ndarray, shape (n_boxes, 4), float64
        Left, top, right, bottom in pixels.
    """
    boxes = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    layout = np.asarray(layout, dtype=np.int64)
    usable = (boxes[:, 0] < boxes[:, 2]) & (boxes[:, 1] < boxes[:, 3])  # False with NaN
    rows = np.flatnonzero(usable)
    left, top, _, bottom = boxes[rows].T
    y_edges, x_edges = Edges(np.unique(np.r_[top, bottom])), Edges(np.unique(left))
    n_y, n_x = max(len(y_edges), 1), max(len(x_edges), 1)

    top_key = layout[rows] * n_y + y_edges.rank(top)
    bottom_key = layout[rows] * n_y + y_edges.rank(bottom)
    edge_keys = np.unique(np.r_[top_key, bottom_key])
    # A box covers the bands from its top edge up to, not including, its bottom edge.
    first = np.searchsorted(edge_keys, top_key)
    n_bands = np.searchsorted(edge_keys, bottom_key) - first
    box = np.repeat(rows, n_bands)
    within = np.arange(len(box)) - np.repeat(np.cumsum(n_bands) - n_bands, n_bands)
    band = np.repeat(first, n_bands) + within
    place = x_edges.rank(boxes[box, 0])
    order = np.lexsort((box, place, band))
    box, band, place = box[order], band[order], place[order]

    overlap = np.zeros(len(edge_keys), dtype=bool)
    meets = (band[1:] == band[:-1]) & (boxes[box[1:], 0] < boxes[box[:-1], 2])
    overlap[band[1:][meets]] = True
    return BoxIndex(
        boxes=boxes,
        usable=usable,
        overlaps=int(overlap.sum()),
        _y_edges=y_edges,
        _x_edges=x_edges,
        _bands=LastKey(edge_keys // n_y, edge_keys % n_y, int(layout.max(initial=-1)) + 1, n_y),
        _band_start=np.searchsorted(band, np.arange(len(edge_keys) + 1)),
        _band_overlaps=overlap,
        _entries=LastKey(band, place, len(edge_keys), n_x),
        _entry_box=box,
        _entry_right=np.append(boxes[box, 2], -np.inf),
    )
