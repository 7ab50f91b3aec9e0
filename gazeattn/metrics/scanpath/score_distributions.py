"""Scores of people against people and of a model against people, as two distributions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError
from gazeattn.metrics._arrays import EVERY, as_floats
from gazeattn.metrics._options import finite, items, one_of, pair_of, positive, whole, wrong
from gazeattn.metrics.scanpath._packed import Floats, Packed, pack
from gazeattn.metrics.scanpath.pairwise import Progress, pairwise
from gazeattn.registry import metrics, register_metric

__all__ = ["ScoreDistributions", "pair_scores", "score_distribution_kl"]

CONVENTIONS = ("scandiff", "smoothed")


@register_metric(
    "score_distribution_kl",
    task="score_distributions",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=False,
    description="KL divergence of human-human scores from human-model scores",
    formula="sum_k p_k ln(p_k / q_k), p real-real and q real-model histograms, eps in empty bins",
    citation="D'Amelio et al. 2025, WACV, arXiv:2410.23409",
    convention="scandiff",
    conventions=CONVENTIONS,
)
def score_distribution_kl(
    model: ArrayLike,
    human: ArrayLike,
    *,
    edges: int = 100,
    limits: tuple[float, float] | None = None,
    eps: float = 1e-10,
    convention: str = "scandiff",
) -> float:
    """Return KL(human || model) of two sets of scores, in nats.

    Parameters
    ----------
    model, human : array_like
        Scores of person-model pairs and of person-person pairs; NaN (undefined) is left out.
    edges : int
        Equally spaced bin edges from the lower to the upper limit: 100 edges are 99 bins.
    limits : (float, float), optional
        By default the least and the greatest score of both sets; the value then depends on the
        extremes of the data, so give limits to compare several models. Scores outside are
        refused.
    eps : float
        Keeps empty model bins from making the result infinite. State it next to the value: a
        human share in an empty bin costs about its size times -ln(eps).
    convention : {"scandiff", "smoothed"}
        "scandiff": `eps` is added to the model's shares, which are then rescaled. "smoothed":
        to both.

    Returns
    -------
    float
        0 or more; NaN when a set has no defined score.

    References
    ----------
    D'Amelio et al. 2025, TPP-Gaze, WACV, arXiv:2410.23409.
    """
    one_of("convention", convention, CONVENTIONS)
    count = whole("edges", edges, least=2)
    positive("eps", eps)
    if limits is not None:
        low, high = (finite("limits", v) for v in pair_of("limits", limits))
    ours = as_floats(model, "scores of the model", EVERY).astype(np.float64).ravel()
    theirs = as_floats(human, "scores of people", EVERY).astype(np.float64).ravel()
    ours, theirs = ours[~np.isnan(ours)], theirs[~np.isnan(theirs)]
    if len(ours) == 0 or len(theirs) == 0:
        return float("nan")
    lowest, highest = (float(f([f(ours), f(theirs)])) for f in (np.min, np.max))
    if limits is None:
        low, high = lowest, highest
    if not (np.isfinite([low, high]).all() and low <= lowest <= highest <= high):
        raise DataError(
            "scores are infinite, or lie outside of the limits",
            expected=f"finite scores from {low:g} to {high:g}",
            found=f"{lowest:g} to {highest:g}",
        )
    if low == high:
        return 0.0  # one and the same score everywhere
    bounds = np.linspace(low, high, count)
    p, q = (np.histogram(v, bins=bounds)[0] / len(v) for v in (theirs, ours))
    q = q + eps
    if convention == "smoothed":
        p = (p + eps) / (p + eps).sum()
    q /= q.sum()
    there = p > 0
    return float((p[there] * np.log(p[there] / q[there])).sum())


@dataclass(frozen=True)
class ScoreDistributions:
    """Scores of pairs on the same stimulus.

    Attributes
    ----------
    human, model : ndarray, (n_pairs,) or (n_pairs, n_columns)
        Scores of person-person and of model-person pairs; NaN where undefined.
    human_pairs, model_pairs : ndarray of int, (n_pairs, 2)
        Which scanpaths: two people; or model, person.
    columns : tuple of str
        Parts of the metric; empty when it has one.
    """

    human: Floats
    model: Floats
    human_pairs: NDArray[np.int64]
    model_pairs: NDArray[np.int64]
    columns: tuple[str, ...] = ()

    def undefined(self) -> dict[str, int]:
        """Return how many pairs of each kind have an undefined score."""
        return {
            name: int(np.isnan(v.reshape(len(v), -1)).any(axis=1).sum())
            for name, v in (("human", self.human), ("model", self.model))
        }

    def kl(self, **parameters: Any) -> float | dict[str, float]:
        """Return `score_distribution_kl`, for each part of the metric where it has several."""
        if not self.columns:
            return score_distribution_kl(self.model, self.human, **parameters)
        return {
            name: score_distribution_kl(self.model[:, k], self.human[:, k], **parameters)
            for k, name in enumerate(self.columns)
        }


def _codes(*labels: Sequence[Hashable]) -> list[NDArray[np.int64]]:
    codes: dict[Hashable, int] = {}
    return [
        np.array([codes.setdefault(item, len(codes)) for item in column], dtype=np.int64)
        for column in labels
    ]


def _same(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all (i, j) with ``first[i] == second[j]``, (n_pairs, 2), in order of i, then j."""
    order = np.argsort(second, kind="stable")
    start = np.searchsorted(second[order], first, side="left")
    count = np.searchsorted(second[order], first, side="right") - start
    i = np.repeat(np.arange(len(first)), count)
    within = np.arange(len(i)) - np.repeat(np.cumsum(count) - count, count)
    return np.stack([i, order[np.repeat(start, count) + within]], axis=1)


def _paths(name: str, paths: Any) -> Packed:
    if isinstance(paths, Packed):
        return paths
    return pack(items(name, paths, "one array (n, 2) or (n, 3) per scanpath"))


def _ids(name: str, values: Any) -> list[Hashable]:
    ids = items(name, values, "one id per scanpath")
    for one in ids:
        if not isinstance(one, Hashable):
            raise wrong(name, "ids, e.g. texts or numbers", one)
    return ids


def pair_scores(
    model_paths: Sequence[ArrayLike],
    human_paths: Sequence[ArrayLike],
    *,
    model_stimulus: Sequence[Hashable],
    human_stimulus: Sequence[Hashable],
    human_participant: Sequence[Hashable] | None = None,
    metric: str,
    workers: int | None = None,
    progress: bool | Progress | None = None,
    engine: str | None = None,
    **parameters: Any,
) -> ScoreDistributions:
    """Score all pairs of people on each stimulus, and all pairs of model and person.

    Parameters
    ----------
    model_paths, human_paths : sequence of array_like
    model_stimulus, human_stimulus : sequence
        Id of the stimulus of each scanpath; only scanpaths on the same stimulus are paired.
    human_participant : sequence, optional
        Two scanpaths of one person are then no pair. Without it every scanpath counts as another
        person's.
    metric : str
        A registered scanpath metric.
    workers, progress, engine
        As in `pairwise`.
    **parameters
        Of the metric.

    Returns
    -------
    ScoreDistributions
        Each pair of people once, in the order given; the model comes first in its pairs.
    """
    if not isinstance(metric, str):
        raise wrong("metric", "the name of a scanpath metric", metric)
    ours, theirs = _paths("model_paths", model_paths), _paths("human_paths", human_paths)
    model_stimulus = _ids("model_stimulus", model_stimulus)
    human_stimulus = _ids("human_stimulus", human_stimulus)
    people = human_stimulus
    if human_participant is not None:
        people = _ids("human_participant", human_participant)
    for name, labels, paths in (
        ("model_stimulus", model_stimulus, ours),
        ("human_stimulus", human_stimulus, theirs),
        ("human_participant", people, theirs),
    ):
        if len(labels) != len(paths):
            raise DataError(
                f"{name} has the wrong length",
                expected=f"one label for each of {len(paths)} scanpaths",
                found=str(len(labels)),
            )
        missing = [k for k, label in enumerate(labels) if label is None or label != label]
        if missing:
            raise DataError(
                f"{name} has a missing label",
                row=missing[0],
                expected="an id for every scanpath",
                found=repr(labels[missing[0]]),
            )
    of_model, of_human = _codes(model_stimulus, human_stimulus)
    pairs = _same(of_human, of_human)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    if human_participant is not None:
        (person,) = _codes(people)
        pairs = pairs[person[pairs[:, 0]] != person[pairs[:, 1]]]
    against = _same(of_model, of_human)
    options = {"workers": workers, "progress": progress, "engine": engine, **parameters}
    return ScoreDistributions(
        pairwise(theirs, None, metric, pairs=(pairs[:, 0], pairs[:, 1]), **options),
        pairwise(ours, theirs, metric, pairs=(against[:, 0], against[:, 1]), **options),
        pairs,
        against,
        tuple(metrics.get(metric).info.get("columns") or ()),
    )
