"""How well a scanpath model predicts people: every next fixation, and whole scanpaths.

Two kinds of scores. *Teacher-forced*: each fixation of a person under the model's density given
that person's earlier fixations (information gain, NSS, AUC, log-likelihood). *Sampled*: scanpaths
drawn from the model against those of people on the same stimulus, as means and as the divergence
of the distribution of model-human scores from that of human-human scores (D'Amelio et al., 2025).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from gazeattn.datamodules import Scanpaths, collate
from gazeattn.errors import DataError
from gazeattn.metrics.scanpath import Clusters, fit_clusters, pairs_within, pairwise
from gazeattn.models.scanpath.base import Grid, Path, ScanpathModel

Progress = Callable[[int, int], None]
BINS, THRESHOLD = (14, 8), 3.5
SCANMATCH: dict[str, Any] = {"bins": BINS, "threshold": THRESHOLD}
BIN_MS = 50.0
RADIUS_SHARE = 0.06
"""Radius of recurrence as a share of the stimulus' width."""


def teacher_forced(
    model: ScanpathModel, paths: Scanpaths, grid: Grid, progress: Progress | None = None
) -> pd.DataFrame:
    """Score every fixation of people under a model's density given the fixations before it.

    Parameters
    ----------
    model
        With ``density``; privileged ones have seen `paths` (`ScanpathModel.observe`).
    paths
        With features.
    grid
        Rows and columns of the maps: the same one for every model that is compared.

    Returns
    -------
    DataFrame
        One row per fixation: trial, participant, stimulus, index; ``log_p``, the natural
        logarithm of the probability of its cell; ``bits``, its log-likelihood in bits above the
        uniform density; ``nss``, the z-score of the map there; ``auc``, the share of the map that
        is lower, ties counting half.
    """
    parts = []
    names = list(paths.stimuli)
    cells = grid[0] * grid[1]
    index = np.arange(len(paths.x)) - np.repeat(paths.starts[:-1], paths.lengths)
    for done, name in enumerate(names):
        rows = np.flatnonzero(paths.stimulus == name)
        chosen = paths.take(rows)
        batch = collate(chosen)
        with torch.no_grad():
            maps = model.log_density(batch, grid)
        expected = (*batch.mask.shape, *grid)
        if tuple(maps.shape) != expected:
            raise DataError(
                f"{type(model).__name__} returned maps of the wrong shape",
                expected=str(expected),
                found=str(tuple(maps.shape)),
            )
        flat = maps[batch.mask].reshape(-1, cells).double()
        at = _cells(chosen.relative, grid)
        log_p = flat.gather(1, at[:, None])[:, 0]
        p = flat.exp()
        here = p.gather(1, at[:, None])[:, 0]
        spread = p.std(1, unbiased=False)
        nss = torch.where(spread > 0, (here - p.mean(1)) / spread.clamp_min(1e-300), 0.0)
        lower = (p < here[:, None]).sum(1) + 0.5 * ((p == here[:, None]).sum(1) - 1)
        fixation = np.concatenate([np.arange(paths.starts[r], paths.starts[r + 1]) for r in rows])
        parts.append(
            pd.DataFrame(
                {
                    "trial": chosen.trial[chosen.of],
                    "participant": chosen.participant[chosen.of],
                    "stimulus": name,
                    "index": index[fixation],
                    "log_p": log_p.numpy(),
                    "bits": (log_p.numpy() + np.log(cells)) / np.log(2),
                    "nss": nss.numpy(),
                    "auc": (lower.double() / max(cells - 1, 1)).numpy(),
                }
            )
        )
        if progress is not None:
            progress(done + 1, len(names))
    return pd.concat(parts, ignore_index=True)


def _cells(relative: NDArray[np.float64], grid: Grid) -> torch.Tensor:
    row = np.floor(relative[:, 1] * grid[0]).astype(np.int64)
    column = np.floor(relative[:, 0] * grid[1]).astype(np.int64)
    inside = (row >= 0) & (row < grid[0]) & (column >= 0) & (column < grid[1])
    if not inside.all():
        raise DataError(
            f"{int((~inside).sum())} fixations are off their stimulus and have no cell",
            hint="leave them out with scanpaths_of(..., outside='drop')",
        )
    return torch.from_numpy(row * grid[1] + column)


def stimulus_seed(seed: int, name: str) -> int:
    """Return a seed that depends on the run's seed and the stimulus, not on any order."""
    text = f"{seed}/{name}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:7], "big")


def draw(
    model: ScanpathModel,
    paths: Scanpaths,
    n: int,
    seed: int,
    progress: Progress | None = None,
) -> dict[str, list[Path]]:
    """Sample n scanpaths for every stimulus of `paths`.

    The scanpaths of a stimulus do not depend on which other stimuli there are.
    """
    out = {}
    for done, (name, stimulus) in enumerate(paths.stimuli.items()):
        generator = torch.Generator().manual_seed(stimulus_seed(seed, name))
        out[name] = model.sample(stimulus, n, generator)
        if progress is not None:
            progress(done + 1, len(paths.stimuli))
    return out


@dataclass(frozen=True)
class PairScores:
    """Scores of one metric for all pairs on the same stimulus.

    Attributes
    ----------
    human, model : ndarray, shape (n_pairs,)
    human_stimulus, model_stimulus : ndarray of int, shape (n_pairs,)
        Number of the stimulus of each pair.
    human_people : ndarray of int, shape (n_pairs, 2)
        Numbers of the two scanpaths of a pair of people.
    """

    human: NDArray[np.float64]
    model: NDArray[np.float64]
    human_stimulus: NDArray[np.int64]
    model_stimulus: NDArray[np.int64]
    human_people: NDArray[np.int64]

    def means(self, side: str) -> NDArray[np.float64]:
        """Return the mean score of each stimulus, NaN where all are undefined."""
        values = getattr(self, side)
        groups = getattr(self, f"{side}_stimulus")
        known = ~np.isnan(values)
        n = int(max(self.human_stimulus.max(initial=-1), self.model_stimulus.max(initial=-1))) + 1
        count = np.bincount(groups[known], minlength=n)
        total = np.bincount(groups[known], values[known], minlength=n)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


class PairScorer:
    """Scores samples against people with every scanpath metric; people against people only once.

    Scores are ``multimatch``, the mean of shape, direction, length and position, and
    ``multimatch_duration``, of these and duration; ``scanmatch`` and ``scanmatch_duration``;
    ``sequence_score`` over mean-shift clusters of the people's fixations; ``tde``; ``recurrence``.

    Parameters
    ----------
    paths
        Scanpaths of people.
    clusters
        Of every stimulus, for the sequence score; fitted where not given.
    workers
        Threads.
    """

    def __init__(
        self,
        paths: Scanpaths,
        *,
        clusters: Mapping[str, Clusters] | None = None,
        workers: int | None = None,
    ) -> None:
        self.paths, self.workers = paths, workers
        self.names = list(paths.stimuli)
        number = {n: i for i, n in enumerate(self.names)}
        self._of = np.array([number[s] for s in paths.stimulus], dtype=np.int64)
        self._people = paths.paths()
        self.clusters = dict(clusters or {})
        for k, name in enumerate(self.names):
            if name not in self.clusters:
                theirs = [self._people[i] for i in np.flatnonzero(self._of == k)]
                size = paths.stimuli[name].size
                self.clusters[name] = fit_clusters(theirs, size=size)
        first, second = pairs_within(self._of)
        different = paths.participant[first] != paths.participant[second]
        self._pairs = np.stack([first, second], axis=1)[different]
        self._human: dict[str, NDArray[np.float64]] = {}

    def __call__(
        self, drawn: Mapping[str, Sequence[Path]], *, durations: bool
    ) -> dict[str, PairScores]:
        """Return the scores of samples (`draw`), of durations only where they have some."""
        if not self._human:
            self._human = self._scores(None, self._pairs, self._of[self._pairs[:, 0]])
        ours = [p for n in self.names for p in drawn[n]]
        number = np.repeat(np.arange(len(self.names)), [len(drawn[n]) for n in self.names])
        people: list[NDArray[np.int64]] = [
            np.flatnonzero(self._of == k) for k in range(len(self.names))
        ]
        pairs = np.concatenate(
            [
                np.stack([np.full(len(people[k]), i), people[k]], axis=1)
                for i, k in enumerate(number)
            ]
            or [np.zeros((0, 2), dtype=np.int64)]
        )
        of_pair = number[pairs[:, 0]]
        found = self._scores(ours, pairs, of_pair)
        return {
            name: PairScores(
                self._human[name], values, self._of[self._pairs[:, 0]], of_pair, self._pairs
            )
            for name, values in found.items()
            if durations or not name.endswith("_duration")
        }

    def _scores(
        self, ours: Sequence[Path] | None, pairs: NDArray[np.int64], of_pair: NDArray[np.int64]
    ) -> dict[str, NDArray[np.float64]]:
        """Return every score of some pairs: of samples and people, or of people alone."""
        sizes = np.array([self.paths.stimuli[n].size for n in self.names])
        found: dict[str, NDArray[np.float64]] = {}

        def run(metric: str, rows: NDArray[np.int64], **options: Any) -> NDArray[np.float64]:
            i, j = pairs[rows].T
            a, b = (self._people, None) if ours is None else (ours, self._people)
            both = (i, j)
            return pairwise(a, b, metric, pairs=both, workers=self.workers, **options)

        def keep(name: str, rows: NDArray[np.int64], values: NDArray[np.float64]) -> None:
            found.setdefault(name, np.full(len(pairs), np.nan))[rows] = values

        for area in np.unique(sizes, axis=0):
            rows = np.flatnonzero((sizes[of_pair] == area).all(axis=1))
            size = (float(area[0]), float(area[1]))
            parts = run("multimatch", rows, size=size)
            keep("multimatch", rows, parts[:, :4].mean(1))
            keep("multimatch_duration", rows, parts.mean(1))
            keep("scanmatch", rows, run("scanmatch", rows, size=size, **SCANMATCH))
            timed = run("scanmatch", rows, size=size, time_bin=BIN_MS, **SCANMATCH)
            keep("scanmatch_duration", rows, timed)
            radius = RADIUS_SHARE * size[0]
            recurrent = run("cross_recurrence", rows, radius=radius)
            keep("recurrence", rows, recurrent[:, 0])
        everything = np.arange(len(pairs))
        keep("tde", everything, run("time_delay_embedding", everything))
        for k, name in enumerate(self.names):
            rows = np.flatnonzero(of_pair == k)
            options = {"clusters": self.clusters[name], "size": self.paths.stimuli[name].size}
            keep("sequence_score", rows, run("sequence_score", rows, **options))
        return found


# -- divergence of score distributions ------------------------------------------------------------

EDGES, EPS = 100, 1e-10


def _histograms(
    values: NDArray[np.float64], groups: NDArray[np.int64], bounds: Any, n: int
) -> NDArray[np.float64]:
    """Return the counts of each stimulus in each bin, (n, bins)."""
    known = ~np.isnan(values)
    bins = len(bounds) - 1
    at = np.clip(np.searchsorted(bounds, values[known], side="right") - 1, 0, bins - 1)
    flat = np.bincount(groups[known] * bins + at, minlength=n * bins)
    return flat.reshape(n, bins).astype(np.float64)


def _kl(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return KL(p || q) of rows of counts, with EPS added to the shares of q."""
    with np.errstate(invalid="ignore"):  # a draw of stimuli without any pair is NaN
        p = p / p.sum(-1, keepdims=True)
        q = q / q.sum(-1, keepdims=True) + EPS
        q = q / q.sum(-1, keepdims=True)
    parts = np.where(p > 0, p * np.log(np.where(p > 0, p, 1) / q), 0.0 * p)
    return np.asarray(parts.sum(-1))


@dataclass(frozen=True)
class Divergence:
    """KL of human-human from model-human scores, with its floor.

    Attributes
    ----------
    value, low, high : float
        Over all pairs, in nats; the interval from drawing stimuli with replacement, moved so that
        the median of the draws is the value, since draws hold fewer different stimuli and their
        emptier bins raise all of them.
    matched, floor : float
        With the people of every stimulus split into two halves A and B, averaged over splits:
        within-half human pairs against a random subset of model-human pairs as large as the
        pairs A x B (`matched`), and against the pairs A x B themselves (`floor`): what a perfect
        model would get with so many pairs.
    n_human, n_model, n_floor : int
        Pairs with a defined score: all human ones, all model ones, those of A x B.
    """

    value: float
    low: float
    high: float
    matched: float
    floor: float
    n_human: int
    n_model: int
    n_floor: int


def divergence(
    scores: PairScores, *, draws: int = 2000, splits: int = 20, seed: int = 0, level: float = 0.95
) -> Divergence:
    """Return the divergence of a model's scores from those among people.

    Parameters
    ----------
    scores
        Of one metric.
    draws
        Of stimuli, for the interval.
    splits
        Random halves of the people.
    seed
        Of both.
    """
    human, model = scores.human, scores.model
    known_h, known_m = ~np.isnan(human), ~np.isnan(model)
    if not known_h.any() or not known_m.any():
        none = (np.nan,) * 5
        return Divergence(*none, int(known_h.sum()), int(known_m.sum()), 0)
    both = np.concatenate([human[known_h], model[known_m]])
    bounds = np.linspace(both.min(), both.max(), EDGES)
    n = int(max(scores.human_stimulus.max(), scores.model_stimulus.max())) + 1
    p = _histograms(human, scores.human_stimulus, bounds, n)
    q = _histograms(model, scores.model_stimulus, bounds, n)
    rng = np.random.default_rng([seed, 1])
    times = rng.multinomial(n, np.full(n, 1 / n), size=draws).astype(np.float64)
    value = float(_kl(p.sum(0), q.sum(0)))
    low = high = np.nan
    if draws:  # fewer different stimuli in a draw mean emptier bins, which raises every draw
        drawn = _kl(times @ p, times @ q)
        middle, *tails = np.nanquantile(drawn, [0.5, (1 - level) / 2, (1 + level) / 2])
        low, high = (max(0.0, value + t - middle) for t in tails)
    rng = np.random.default_rng([seed, 2])
    at, inverse = np.unique(scores.human_people, return_inverse=True)
    pairs = inverse.reshape(scores.human_people.shape)
    stimulus = np.zeros(len(at), dtype=np.int64)
    stimulus[pairs[:, 0]] = stimulus[pairs[:, 1]] = scores.human_stimulus
    matched, floor, sizes = [], [], []
    for _ in range(splits):
        order = np.lexsort((rng.random(len(at)), stimulus))  # random order within each stimulus
        place = np.empty(len(at), dtype=np.int64)
        first = np.searchsorted(stimulus[order], np.arange(n))
        place[order] = np.arange(len(at)) - first[stimulus[order]]
        half = place % 2
        within = half[pairs[:, 0]] == half[pairs[:, 1]]
        real = _histograms(human[within], scores.human_stimulus[within], bounds, n).sum(0)
        cross = ~within & known_h
        other = _histograms(human[cross], scores.human_stimulus[cross], bounds, n).sum(0)
        size = min(int(cross.sum()), int(known_m.sum()))
        subset = rng.choice(np.flatnonzero(known_m), size=size, replace=False)
        ours = _histograms(model[subset], scores.model_stimulus[subset], bounds, n).sum(0)
        if real.sum() and other.sum() and ours.sum():
            floor.append(float(_kl(real, other)))
            matched.append(float(_kl(real, ours)))
            sizes.append(size)
    return Divergence(
        value,
        float(low),
        float(high),
        float(np.mean(matched)) if matched else np.nan,
        float(np.mean(floor)) if floor else np.nan,
        int(known_h.sum()),
        int(known_m.sum()),
        int(np.mean(sizes)) if sizes else 0,
    )
