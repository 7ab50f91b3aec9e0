"""Simple models of sequences of objects, to be beaten: by chance, centre, distance and order."""

from __future__ import annotations

import abc
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gazeattn.datamodules import Scanpaths, Stimulus
from gazeattn.datamodules.objects import (
    ObjectBatch,
    ObjectScanpaths,
    centres_of,
    target_of,
    unit_of,
)
from gazeattn.errors import DataError
from gazeattn.models.scanpath.base import Path, ScanpathModel
from gazeattn.registry import register_scanpath_model

Weights = NDArray[np.float64]
CITATION = "Fang, Yu, Zhang, van der Lans & Shi 2024, ECCV, arXiv:2407.13335"


class ObjectBaseline(ScanpathModel):
    """Draws a length as in training, then one object after the other.

    Parameters
    ----------
    informed
        End on the target as often as people did in training, whatever the rest: a stronger
        baseline, which knows where the target is.

    Notes
    -----
    Samples have lengths of training. In `log_probabilities` stopping has the share of training
    sequences that stopped at this length (with 1/2 added, so that no length is impossible).
    `log_probabilities` is that of the uninformed model.
    """

    durations: ClassVar[bool] = False
    density: ClassVar[bool] = False

    def __init__(self, *, informed: bool = False) -> None:
        self.informed = informed
        self.lengths: NDArray[np.int64] | None = None
        self.success = 0.0

    def fit_statistics(self, train: Scanpaths | ObjectScanpaths) -> None:
        """Keep lengths, and how often people ended on the target."""
        if not isinstance(train, ObjectScanpaths):
            raise DataError("baselines of objects learn from sequences of objects")
        self.lengths = train.lengths
        targets = {k: target_of(s) for k, s in train.stimuli.items()}
        hits = [
            train.sequence(i)[-1] == targets[n]
            for i, n in enumerate(train.stimulus)
            if targets[n] is not None
        ]
        self.success = float(np.mean(hits)) if hits else 0.0
        self.fit(train)

    def fit(self, train: ObjectScanpaths) -> None:
        """Take what else is needed from the training part."""
        return None

    def places(self, stimulus: Stimulus) -> Weights:
        """Return the centres from the middle of the display, in its unit, (n_objects, 2)."""
        return places(stimulus)

    @abc.abstractmethod
    def weights(self, at: Weights, before: NDArray[np.int64]) -> Weights:
        """Return weights of the next object, (n_objects,).

        Parameters
        ----------
        at : ndarray, shape (n_objects, 2)
            From `places`.
        before
            Rows of the objects looked at before.
        """

    def stop_probability(self, t: int) -> float:
        """Return the probability to stop after t fixations."""
        assert self.lengths is not None
        if t == 0:
            return 0.0
        at, left = int((self.lengths == t).sum()), int((self.lengths >= t).sum())
        return (at + 0.5) / (left + 1)

    def log_probabilities(self, batch: ObjectBatch) -> Tensor:
        """Return log-probabilities as those of `ObjectAttentionTransformer.log_probabilities`."""
        n, length = batch.looked.shape
        most = batch.centres.shape[1]
        out = np.full((n, length + 1, most + 1), -np.inf)
        for i in range(n):
            at = self.places(batch.stimuli[int(batch.which[i])])
            seen = batch.looked[i][batch.mask[i]].numpy()
            for t in range(len(seen) + 1):
                p = shares(self.weights(at, seen[:t]))
                stop = self.stop_probability(t)
                with np.errstate(divide="ignore"):
                    out[i, t, : len(p)] = np.log(p * (1 - stop))
                    out[i, t, -1] = np.log(stop)
        return torch.from_numpy(out)

    def sample_objects(
        self, stimulus: Stimulus, n: int, generator: torch.Generator
    ) -> list[NDArray[np.int64]]:
        """Draw sequences of rows of ``stimulus.objects``."""
        if self.lengths is None:
            raise DataError("the baseline has not seen a training part", hint="fit_statistics")
        target = target_of(stimulus) if self.informed else None
        found, at = [], self.places(stimulus)
        lengths = self.lengths[torch.randint(len(self.lengths), (n,), generator=generator).numpy()]
        for length in lengths:
            chance = torch.rand(int(length) + 1, generator=generator, dtype=torch.float64).numpy()
            made = np.zeros(int(length), dtype=np.int64)
            for t in range(int(length)):
                below = np.cumsum(shares(self.weights(at, made[:t])))
                drawn = np.searchsorted(below, chance[t] * below[-1], side="right")
                made[t] = min(int(drawn), len(below) - 1)
            if target is not None and chance[-1] < self.success:
                made[-1] = target
            found.append(made)
        return found

    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[Path]:
        """Draw scanpaths: the centres of the boxes, in pixels."""
        centres = centres_of(stimulus)
        return [centres[s] for s in self.sample_objects(stimulus, n, generator)]


def shares(weights: Weights) -> Weights:
    """Return weights as shares of their sum; uniform where all are 0."""
    total = weights.sum()
    return weights / total if total > 0 else np.full(len(weights), 1 / len(weights))


def places(stimulus: Stimulus) -> NDArray[np.float64]:
    """Return the centres of objects from the middle of the display, in its unit."""
    return (centres_of(stimulus) - np.array(stimulus.size) / 2) / unit_of(stimulus)


@register_scanpath_model(
    "random_object",
    description="any object of the display, by chance",
    citation=CITATION,
    needs=("objects",),
    kind="baseline",
)
class RandomObject(ObjectBaseline):
    """Every object is as likely as any other."""

    def weights(self, at: Weights, before: NDArray[np.int64]) -> Weights:
        """Return ones."""
        return np.ones(len(at))


@register_scanpath_model(
    "central_object",
    description="objects near the middle of the display, by chance",
    citation=CITATION,
    needs=("objects",),
    kind="baseline",
)
class CentralObject(ObjectBaseline):
    """Objects drawn by a Gaussian around the middle, as wide as that of people in training."""

    def fit(self, train: ObjectScanpaths) -> None:
        """Measure the mean square distance from the middle, by axis, as shares of the display."""
        known = {n: self.places(s) for n, s in train.stimuli.items()}
        at = [known[n][train.sequence(i)] for i, n in enumerate(train.stimulus)]
        self.variance = np.maximum((np.concatenate(at) ** 2).mean(0), 1e-4)

    def places(self, stimulus: Stimulus) -> Weights:
        """Return the centres from the middle, as shares of the display."""
        return centres_of(stimulus) / np.array(stimulus.size) - 0.5

    def weights(self, at: Weights, before: NDArray[np.int64]) -> Weights:
        """Return a Gaussian of the centres."""
        return np.exp(-(at**2 / (2 * self.variance)).sum(1))


@register_scanpath_model(
    "nearest_object",
    description="always the nearest object that has not been looked at",
    citation=CITATION,
    needs=("objects",),
    kind="baseline",
)
class NearestObject(ObjectBaseline):
    """The nearest object that is new, from the middle on; equally near ones by chance.

    Notes
    -----
    Its log-probabilities are minus infinity for everything else: it is no competitor in
    likelihood. `rank_object` is.
    """

    def weights(self, at: Weights, before: NDArray[np.int64]) -> Weights:
        """Return 1 for the nearest new objects."""
        here = at[before[-1]] if len(before) else np.zeros(2)
        far = np.hypot(*(at - here).T)
        if len(np.unique(before)) < len(far):
            far[before] = np.inf
        return (far <= far.min() + 1e-6).astype(np.float64)


@register_scanpath_model(
    "rank_object",
    description="the same, the nearest, the second nearest ... object, as often as in training",
    citation="",
    needs=("objects",),
    kind="baseline",
)
class RankObject(ObjectBaseline):
    """How near the next object is, as a rank among all: the distribution of training."""

    def fit(self, train: ObjectScanpaths) -> None:
        """Count the ranks of the steps of people."""
        known = {n: self.places(s) for n, s in train.stimuli.items()}
        counts = np.ones(max(map(len, known.values()))) * 0.1
        for i, name in enumerate(train.stimulus):
            at, path = known[name], train.sequence(i)
            here = np.concatenate([np.zeros((1, 2)), at[path[:-1]]])
            far = np.hypot(*np.moveaxis(at - here[:, None], -1, 0))
            mine = np.take_along_axis(far, path[:, None], 1)
            np.add.at(counts, (far < mine - 1e-6).sum(1), 1.0)
        self.counts = counts

    def weights(self, at: Weights, before: NDArray[np.int64]) -> Weights:
        """Return the share of the rank, divided among equally near objects."""
        here = at[before[-1]] if len(before) else np.zeros(2)
        far = np.hypot(*(at - here).T)
        order = np.sort(far)
        low = np.searchsorted(order, far - 1e-6)
        ties = np.searchsorted(order, far + 1e-6) - low
        known = np.concatenate([self.counts, np.full(max(0, len(far) - len(self.counts)), 0.1)])
        return known[low] / ties


@register_scanpath_model(
    "next_object",
    description="objects in the order of the display, with the jumps of training",
    citation="",
    needs=("objects",),
    kind="baseline",
)
class NextObject(ObjectBaseline):
    """Reading: places from the current object in the order of the display, as in training.

    Parameters
    ----------
    strict
        Always the next one; otherwise jumps are drawn from those of people, and the first object
        as in training.
    informed
        See `ObjectBaseline`.
    reach
        Longer jumps share one weight.
    """

    def __init__(self, *, strict: bool = False, informed: bool = False, reach: int = 40) -> None:
        super().__init__(informed=informed)
        self.strict, self.reach = strict, reach

    def fit(self, train: ObjectScanpaths) -> None:
        """Count jumps, and first objects."""
        self.jumps = np.full(2 * self.reach + 3, 0.5)
        self.first = np.full(max(len(places(s)) for s in train.stimuli.values()), 0.1)
        for i in range(len(train)):
            path = train.sequence(i)
            self.first[path[0]] += 1
            np.add.at(self.jumps, self._place(np.diff(path)), 1.0)

    def _place(self, jump: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.clip(jump, -self.reach - 1, self.reach + 1) + self.reach + 1

    def weights(self, at: Weights, before: NDArray[np.int64]) -> Weights:
        """Return the weight of each jump from the current object."""
        n = len(at)
        if not len(before):
            extra = np.full(max(0, n - len(self.first)), 0.1)
            start = np.concatenate([self.first, extra])[:n]
            return (np.arange(n) == 0).astype(np.float64) if self.strict else start
        jump = np.arange(n) - int(before[-1])
        if self.strict:
            return (jump == (1 if before[-1] < n - 1 else 1 - n)).astype(np.float64)
        place = self._place(jump)
        weights = self.jumps[place]
        for end in (0, 2 * self.reach + 2):  # one weight for all longer jumps together
            weights[place == end] /= max(1, int((place == end).sum()))
        return weights


def mean_log_probability(model: object, batch: ObjectBatch) -> Tensor:
    """Return the mean log-probability of an object (given that one follows), per sequence.

    Natural logarithms, (batch,). The ends do not count: the distributions are over objects alone.
    """
    values = model.log_probabilities(batch)  # type: ignore[attr-defined]
    objects = values[:, :-1, :-1].double().log_softmax(-1)
    found = objects.gather(2, batch.looked[..., None]).squeeze(-1)
    found = torch.where(batch.mask, found, torch.zeros_like(found))
    return found.sum(1) / batch.mask.sum(1).clamp(min=1)


__all__ = [
    "CentralObject",
    "NearestObject",
    "NextObject",
    "ObjectBaseline",
    "RandomObject",
    "RankObject",
    "mean_log_probability",
]
