"""Generated shelves of coloured packages, and a searcher whose behaviour is known exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gazeattn.errors import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shelf:
    """A display of packages, one of which is searched for.

    Attributes
    ----------
    size : (width, height)
        Pixels.
    boxes : ndarray, shape (n, 4)
        xmin, ymin, xmax, ymax in pixels; they do not overlap.
    colours : ndarray, shape (n, 3)
        In [0, 1].
    target : int
        Row of the package that is searched for.
    """

    size: tuple[int, int]
    boxes: Floats
    colours: Floats
    target: int

    @property
    def centres(self) -> Floats:
        """Centres of the boxes, (n, 2)."""
        return (self.boxes[:, :2] + self.boxes[:, 2:]) / 2


def make_shelf(
    seed: int,
    *,
    rows: tuple[int, int] = (3, 5),
    columns: tuple[int, int] = (5, 9),
    empty: float = 0.1,
    cell: tuple[int, int] = (100, 140),
) -> Shelf:
    """Return a shelf; the same seed gives the same one.

    Parameters
    ----------
    seed
    rows, columns
        Smallest and largest number, both possible.
    empty
        Share of places without a package.
    cell : (width, height)
        Of a place; packages fill 60 to 85 % of each side and stand anywhere in it.
    """
    if not 0 <= empty < 1:
        raise DataError("empty must be a share below 1", found=empty)
    rng = np.random.default_rng([seed, 0])
    n_rows, n_columns = (int(rng.integers(a, b + 1)) for a, b in (rows, columns))
    place = np.stack(np.divmod(np.arange(n_rows * n_columns), n_columns)[::-1], 1)
    kept = rng.random(len(place)) >= empty
    kept[rng.integers(len(place))] = True
    place = place[kept].astype(np.float64)
    side = np.array(cell, dtype=np.float64)
    share = rng.uniform(0.6, 0.85, place.shape)
    low = (place + rng.uniform(0, 1, place.shape) * (1 - share)) * side
    boxes = np.concatenate([low, low + share * side], 1)
    colours = rng.uniform(0.05, 0.95, (len(place), 3))
    size = (n_columns * cell[0], n_rows * cell[1])
    return Shelf(size, boxes, colours, int(rng.integers(len(place))))


def crops_of(shelf: Shelf, size: tuple[int, int] = (24, 24), noise: float = 0.03) -> Floats:
    """Return pictures of the packages, (n, 3, height, width) in [0, 1].

    A plain colour with a white label at a random height, and noise; it is fixed by the shelf.
    """
    width, height = size
    seed = np.abs(np.round(shelf.colours.sum() * 1e6)).astype(int)
    rng = np.random.default_rng(int(seed))
    n = len(shelf.colours)
    out = np.broadcast_to(shelf.colours[:, :, None, None], (n, 3, height, width)).copy()
    label = max(1, height // 6)
    for i, top in enumerate(rng.integers(0, height - label + 1, n)):
        out[i, :, top : top + label, width // 4 : width - width // 4] = 0.95
    return np.clip(out + rng.normal(0, noise, out.shape), 0, 1)


@dataclass(frozen=True)
class Searcher:
    """Looks near where the gaze is, at what has the colour of the target, and seldom twice.

    The next package is j with a probability in proportion to ``exp(colour * s_j - distance *
    d_j - again * v_j)``: s_j = exp(-|c_j - c_target|^2 / (2 * tolerance^2)) the likeness of
    colours, d_j the distance from where the gaze is in units of the median box (width and height
    apart), v_j = 1 for packages looked at before. On the target it stops with probability `stop`.

    Attributes
    ----------
    colour, distance, again, tolerance, stop : float
    longest : int
        It gives up after so many fixations.
    """

    colour: float = 2.5
    distance: float = 0.5
    again: float = 3.0
    tolerance: float = 0.25
    stop: float = 0.9
    longest: int = 40

    def probabilities(self, shelf: Shelf, before: NDArray[np.int64]) -> Floats:
        """Return the probability of each package to be next, given those looked at before."""
        apart = ((shelf.colours - shelf.colours[shelf.target]) ** 2).sum(1)
        alike = np.exp(-apart / (2 * self.tolerance**2))
        unit = np.median(shelf.boxes[:, 2:] - shelf.boxes[:, :2], axis=0)
        here = shelf.centres[before[-1]] if len(before) else np.array(shelf.size) / 2
        far = np.hypot(*((shelf.centres - here) / unit).T)
        seen = np.isin(np.arange(len(alike)), before)
        score = self.colour * alike - self.distance * far - self.again * seen
        weight = np.exp(score - score.max())
        return weight / weight.sum()

    def search(self, shelf: Shelf, seed: int) -> NDArray[np.int64]:
        """Return a search as rows of packages; the same seed gives the same one."""
        rng = np.random.default_rng([seed, 1])
        path: list[int] = []
        while len(path) < self.longest:
            p = self.probabilities(shelf, np.array(path, dtype=np.int64))
            path.append(int(rng.choice(len(p), p=p)))
            if path[-1] == shelf.target and rng.random() < self.stop:
                break
        return np.array(path, dtype=np.int64)

    def mean_log_probability(self, shelf: Shelf, path: NDArray[np.int64]) -> float:
        """Return the mean log-probability of the packages of a path: no model can know better."""
        found = [self.probabilities(shelf, path[:t])[j] for t, j in enumerate(path)]
        return float(np.mean(np.log(found)))
