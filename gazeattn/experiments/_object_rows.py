"""Scores of sequences of objects, with intervals by display, and the files they are kept in."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gazeattn.datamodules import Stimulus
from gazeattn.datamodules.objects import ObjectScanpaths, collate_objects, target_of
from gazeattn.metrics.scanpath._strings import as_strings, common_lengths
from gazeattn.metrics.scanpath.behaviour import (
    Behaviour,
    BehaviourDifference,
    behaviour_difference,
    search_behaviour,
)
from gazeattn.metrics.statistics import clustered_bootstrap
from gazeattn.models.scanpath.object_baselines import mean_log_probability
from gazeattn.storage import write_json

Sequences = Mapping[str, Sequence[NDArray[np.int64]]]
"""Sequences by display."""
Floats = NDArray[np.float64]
MEASURES = tuple(f.name for f in fields(Behaviour))


def object_sequence_scores(
    a: Sequence[NDArray[np.int64]], b: Sequence[NDArray[np.int64]]
) -> Floats:
    """Return the sequence score on ids of objects of every pair, (n_a, n_b).

    Longest common subsequence over the longer length, which is an alignment with match 1,
    mismatch 0 and gap 0 (Needleman and Wunsch), as in `gazeattn.metrics.sequence_score`, but on
    the ids themselves.
    """
    strings = as_strings([*a, *b])
    i, j = (g.ravel() for g in np.indices((len(a), len(b))))
    common = common_lengths(strings, strings, i, j + len(a))
    longer = np.maximum(strings.length[i], strings.length[j + len(a)])
    return (common / longer).reshape(len(a), len(b))


def by_display(paths: ObjectScanpaths) -> dict[str, list[NDArray[np.int64]]]:
    """Return the sequences of people by display."""
    found: dict[str, list[NDArray[np.int64]]] = {k: [] for k in paths.stimuli}
    for i, name in enumerate(paths.stimulus):
        found[name].append(paths.sequence(i))
    return found


def model_scores(drawn: Sequences, people: Sequences) -> Floats:
    """Return the mean sequence score of samples and people, by display."""
    return np.array([object_sequence_scores(drawn[k], people[k]).mean() for k in people])


def human_scores(people: Sequences) -> Floats:
    """Return the mean sequence score of different people, by display; NaN with one person."""
    found = []
    for paths in people.values():
        every = object_sequence_scores(paths, paths)
        apart = every[np.triu_indices(len(paths), 1)]
        found.append(apart.mean() if len(apart) else np.nan)
    return np.array(found)


def likelihoods(model: Any, paths: ObjectScanpaths, size: int = 20) -> Floats:
    """Return the mean log-probability of the next object, by display (nats per fixation)."""
    values = []
    for start in range(0, len(paths), size):
        batch = collate_objects(paths, np.arange(start, min(start + size, len(paths))))
        values.append(mean_log_probability(model, batch).detach().numpy())
    table = pd.Series(np.concatenate(values)).groupby(paths.stimulus.astype(str)).mean()
    return table.loc[list(paths.stimuli)].to_numpy()


@dataclass(frozen=True)
class Trials:
    """Measures of behaviour per trial, with the number of its display."""

    behaviour: Behaviour
    display: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> Behaviour:
        """Return the behaviour of some trials."""
        return Behaviour(
            **{f.name: getattr(self.behaviour, f.name)[rows] for f in fields(Behaviour)}
        )


def trials_in(sequences: Sequences, stimuli: Mapping[str, Stimulus]) -> Trials:
    """Return the behaviour of sequences over some displays."""
    rows, targets, display = [], [], []
    for number, (name, stimulus) in enumerate(stimuli.items()):
        target = target_of(stimulus)
        for s in sequences[name]:
            rows.append(s.tolist())
            targets.append(target)
            display.append(number)
    return Trials(search_behaviour(rows, targets), np.array(display, dtype=np.int64))


def trials_of(sequences: Sequences, paths: ObjectScanpaths) -> Trials:
    """Return the behaviour of sequences over the displays of `paths`."""
    return trials_in(sequences, paths.stimuli)


@dataclass(frozen=True)
class _Tables:
    """Trials by display: counts of the sorted values of each measure, to be drawn quickly."""

    counts: list[Floats]
    values: list[Floats]

    def draw(self, weights: Floats) -> list[Floats]:
        """Return shares of the values, (draws, n_values) for each measure; NaN without trials."""
        found = []
        for c in self.counts:
            drawn = weights @ c
            total = drawn.sum(1, keepdims=True)
            found.append(drawn / np.where(total > 0, total, np.nan))
        return found


def _tables(*groups: Trials) -> list[_Tables]:
    n = int(max(g.display.max() for g in groups)) + 1
    values: list[Floats] = []
    counts: list[list[Floats]] = [[] for _ in groups]
    for measure in MEASURES:
        given = [np.asarray(getattr(g.behaviour, measure)) for g in groups]
        every = np.unique(np.concatenate(given))
        every = every[~np.isnan(every)]
        values.append(every)
        for k, (group, value) in enumerate(zip(groups, given, strict=True)):
            known = ~np.isnan(value)
            table = np.zeros((n, max(1, len(every))))
            at = np.searchsorted(every, value[known])
            np.add.at(table, (group.display[known], at), 1.0)
            counts[k].append(table)
    return [_Tables(c, values) for c in counts]


def _differences(model: _Tables, people: _Tables, weights: Floats, convention: str) -> Floats:
    """Return `behaviour_difference` for draws of displays, (draws,); undefined parts left out."""
    parts = []
    for ours, theirs, values in zip(
        model.draw(weights), people.draw(weights), model.values, strict=True
    ):
        if not len(values):
            continue
        mean = theirs @ values
        if convention == "means":
            gap = np.abs(ours @ values - mean)
        else:
            steps = np.diff(values)
            gap = (np.abs(np.cumsum(ours - theirs, axis=1))[:, :-1] * steps).sum(1)
        parts.append(gap / np.where(mean == 0, np.nan, mean))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Mean of empty slice")
        return np.asarray(np.nanmean(parts, axis=0))


def _weights(displays: int, draws: int, seed: int) -> Floats:
    """Return how often each display is drawn, (draws, displays)."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(displays, np.full(displays, 1 / displays), size=draws).astype(float)


def _interval(values: Floats) -> dict[str, float]:
    low, high = np.nanquantile(values, [0.025, 0.975])
    return {"low": float(low), "high": float(high)}


def _difference(model: Trials, people: Trials, convention: str) -> BehaviourDifference:
    return behaviour_difference(
        model.behaviour, people.behaviour, convention=convention, skip_undefined=True
    )


def difference_rows(
    model: Trials, people: Trials, *, draws: int, seed: int
) -> list[dict[str, Any]]:
    """Return the behaviour metric by means and by distributions, with intervals by display.

    Displays are drawn with replacement, with all trials of model and people over them.
    """
    ours, theirs = _tables(model, people)
    weights = _weights(len(ours.counts[0]), draws, seed)
    rows = []
    for convention in ("means", "distributions"):
        found = _difference(model, people, convention)
        drawn = _differences(ours, theirs, weights, convention)
        rows.append(
            {
                "metric": f"behaviour_{convention}",
                "value": found.value,
                **_interval(drawn),
                "n": len(model.display),
                "convention": "; ".join(f"{k} {v:.3g}" for k, v in found.parts.items()),
            }
        )
    return rows


def below_rows(
    label: str,
    shown: Mapping[str, Trials],
    reference: str,
    baselines: Iterable[str],
    *,
    draws: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Return how far the behaviour metric of a model is below that of the best baseline.

    The same displays are drawn for both, so that the interval is one of the difference.
    """
    people, model = shown[reference], shown[label]
    rows = []
    for convention in ("means", "distributions"):
        known = {k: _difference(shown[k], people, convention).value for k in baselines}
        best = min(known, key=lambda k: known[k])
        ours, other, theirs = _tables(model, shown[best], people)
        weights = _weights(len(ours.counts[0]), draws, seed)
        drawn = _differences(other, theirs, weights, convention)
        drawn = drawn - _differences(ours, theirs, weights, convention)
        rows.append(
            {
                "metric": f"behaviour_{convention}_below_baseline",
                "value": known[best] - _difference(model, people, convention).value,
                **_interval(drawn),
                "n": len(ours.counts[0]),
                "reference": best,
                "convention": "difference on the same displays; above 0: the model is nearer",
            }
        )
    return rows


def halves(people: Trials, splits: int, seed: int) -> list[dict[str, Any]]:
    """Return the behaviour metric between random halves of the people of each display."""
    rng = np.random.default_rng(seed)
    rows = []
    for convention in ("means", "distributions"):
        values = []
        for _ in range(splits):
            order = rng.permutation(len(people.display))
            order = order[np.argsort(people.display[order], kind="stable")]
            one, other = (
                Trials(people.take(k), people.display[k]) for k in (order[::2], order[1::2])
            )
            values.append(_difference(one, other, convention).value)
        rows.append(
            {
                "metric": f"behaviour_{convention}",
                "value": float(np.mean(values)),
                **_interval(np.array(values)),
                "n": len(people.display),
                "convention": f"mean and range of {splits} random halves",
            }
        )
    return rows


def mean_row(
    metric: str, values: Floats, *, draws: int, seed: int, convention: str
) -> dict[str, Any]:
    """Return a mean over displays with its interval."""
    labels = np.arange(len(values)).astype(str)
    found = clustered_bootstrap(values, {"display": labels}, n=draws, rng=seed)
    return {
        "metric": metric,
        "value": float(found.value),
        "low": float(found.low),
        "high": float(found.high),
        "n": int(np.isfinite(values).sum()),
        "convention": convention,
    }


# -- what was drawn, in files ---------------------------------------------------------------------


def _place(folder: Path, key: Mapping[str, str]) -> Path:
    parts = [key["dataset"], key["regime"], key["fold"], key["model"], key["seed"]]
    return folder / "drawn" / ("_".join(parts).replace(" ", "_") + ".json")


def keep(folder: Path, key: Mapping[str, str], values: Mapping[str, Any], drawn: Sequences) -> None:
    """Write the scores by display and the sequences of a job."""
    content = {
        "values": {k: np.asarray(v).tolist() for k, v in values.items()},
        "sequences": {k: [np.asarray(s).tolist() for s in v] for k, v in drawn.items()},
    }
    write_json(_place(folder, key), content)


def kept(
    folder: Path, key: Mapping[str, str]
) -> tuple[dict[str, Floats], dict[str, list[NDArray[np.int64]]]]:
    """Return what `keep` has written."""
    content = json.loads(_place(folder, key).read_text(encoding="utf-8"))
    values = {k: np.array(v, dtype=np.float64) for k, v in content["values"].items()}
    drawn = {k: [np.array(s, dtype=np.int64) for s in v] for k, v in content["sequences"].items()}
    return values, drawn


def extremes(values: Floats, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the best, the median and the worst of some displays, those without a value left out.

    None stands twice: of two displays there is no median, of one no worst.
    """
    order = np.argsort(-values, kind="stable")[: int(np.isfinite(values).sum())]
    if not len(order):
        return []
    at = {"best": 0, "median": len(order) // 2, "worst": len(order) - 1}
    if len(order) == 2:
        del at["median"]
    found = {int(order[k]): which for which, k in reversed(at.items())}
    return [(which, names[k]) for k, which in reversed(found.items())]


def typical(
    people: Sequence[NDArray[np.int64]], drawn: Sequence[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the person who is most like the others, and the middle one of a model's samples.

    The score of a sample is its mean with all people; the first is taken where two are alike.
    """
    among = object_sequence_scores(people, people).mean(1)
    order = np.argsort(object_sequence_scores(drawn, people).mean(1), kind="stable")
    return people[int(among.argmax())], drawn[int(order[len(order) // 2])]
