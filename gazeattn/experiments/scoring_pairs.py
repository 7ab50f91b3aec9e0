"""Pairs of scanpaths of a model and of people, and the scores of all of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gazeattn import registry
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments.files import options_for
from gazeattn.experiments.scoring_inputs import Paths, at_stimulus, common
from gazeattn.losses import LossLog
from gazeattn.metrics.scanpath import pairs_within, pairwise, undefined_reason
from gazeattn.metrics.scanpath.clusters import Clusters
from gazeattn.registry import Entry

Size = tuple[float, float]

KINDS = ("model", "ceiling", "shuffled")
"""Model against people; people against the others; model against people on another stimulus."""


@dataclass(frozen=True)
class Settings:
    """What scores depend on beside the data.

    Attributes
    ----------
    size : (width, height), or one per stimulus, optional
        Of the stimuli in pixels.
    clusters : dict of stimulus to Clusters, optional
    sigma : float, optional
        Blur of fixation maps, in pixels of the stimulus.
    density : float, optional
        Make densities of the model's maps for metrics of densities, with this floor; see
        `gazeattn.metrics.saliency.to_density`.
    parameters : dict of metric to its parameters
    draws, seed, level
        Of the bootstrap; `seed` also draws the other stimulus of the shuffled baseline.
    workers
        Threads; None: all cores.
    """

    size: Size | Mapping[str, Size] | None = None
    clusters: Mapping[str, Clusters] | None = None
    sigma: float | None = None
    density: float | None = None
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    draws: int = 2000
    seed: int = 0
    level: float = 0.95
    workers: int | None = None

    def size_of(self, stimulus: str) -> Size | None:
        """Return the size of a stimulus, or None where none is given for any."""
        if not isinstance(self.size, Mapping):
            return self.size
        if stimulus not in self.size:
            raise DataError("no size for a stimulus", found=stimulus, hint="Add it to the sizes")
        return self.size[stimulus]


@dataclass
class Scored:
    """Scores before they are averaged over stimuli.

    Attributes
    ----------
    rows : DataFrame
        ``kind, metric, stimulus, participant, trial, value, weight, n, undefined``: one row per
        scanpath (or map), averaged over the human scanpaths that it was compared with; `n` of
        them gave a value. `weight` counts within the stimulus.
    distributions : dict of metric to dict of kind to ndarray
        The defined values of all pairs.
    counts : dict of metric to dict of kind to (pairs, undefined pairs)
        A pair of people counts once, also where the metric needs one order only.
    lost : LossLog
    conventions : dict of metric to text
    """

    rows: pd.DataFrame
    distributions: dict[str, dict[str, np.ndarray]]
    counts: dict[str, dict[str, tuple[int, int]]]
    lost: LossLog
    conventions: dict[str, str]


# pairs -------------------------------------------------------------------------------------------


def pairs_across(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of positions in two arrays of codes that hold the same code."""
    order = np.argsort(b, kind="stable")
    low, high = (np.searchsorted(b[order], a, side) for side in ("left", "right"))
    count = high - low
    first = np.repeat(np.arange(len(a)), count)
    inside = np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
    return first, order[np.repeat(low, count) + inside]


def pairs_of_people(
    stimulus: np.ndarray, person: np.ndarray, both: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of scanpaths of different people on one stimulus; `both` ways round or one."""
    i, j = pairs_within(stimulus)
    keep = person[i] != person[j]
    i, j = i[keep], j[keep]
    return (np.r_[i, j], np.r_[j, i]) if both else (i, j)


def other_stimulus(n: int, seed: int) -> np.ndarray:
    """Return for each of n stimuli another one, each used once, drawn by `seed`."""
    ring = np.random.default_rng(seed).permutation(n)
    other = np.empty(n, dtype=np.int64)
    other[ring] = np.roll(ring, 1)
    return other


def mean_per_owner(
    owner: np.ndarray, values: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, defined and undefined values of each of n owners; NaN without a defined one."""
    known = ~np.isnan(values)
    count = np.bincount(owner[known], minlength=n)
    total = np.bincount(owner[known], values[known], minlength=n)
    mean = np.divide(total, count, out=np.full(n, np.nan), where=count > 0)
    return mean, count, np.bincount(owner[~known], minlength=n)


def note_infinite(values: np.ndarray, step: str, lost: LossLog) -> None:
    """Count values that are infinite, which a mean does not survive."""
    reason = "infinite values: their mean is infinite and has no interval"
    lost.add(step, "note", reason, int(np.isinf(values).sum()), "values")


# metrics -----------------------------------------------------------------------------------------


def find_metrics(names: Sequence[str], task: str) -> list[Entry]:
    """Return metrics by name, all of one task, or say what is wrong with a name."""
    usable = [e.name for e in registry.metrics if e.info.get("task") == task]
    if not names:
        raise DataError("no metric is named", expected=", ".join(usable))
    found: dict[str, Entry] = {}
    for name in names:
        folded = name if name in registry.metrics else str(name).lower().replace("-", "_")
        if folded not in registry.metrics:
            raise UnknownNameError(f"{task} metric", name, usable)
        entry = registry.metrics.get(folded)
        if entry.info.get("task") != task:
            kind = "scanpaths" if task == "scanpath" else "saliency maps"
            raise DataError(
                f"{name} is no metric of {kind}",
                expected=", ".join(usable),
                found=f"a metric of the kind {entry.info.get('task')!r}",
            )
        found[entry.name] = entry  # an alias names no further metric
    return list(found.values())


def _signature(entry: Entry) -> dict[str, inspect.Parameter]:
    function = entry.info.get("kernel") or entry.obj
    found = inspect.signature(function).parameters
    return {n: p for n, p in found.items() if p.kind is p.KEYWORD_ONLY}


GIVEN = ("size", "clusters", "losses")
"""Parameters that are no options: they differ between stimuli."""


def parse_options(
    entries: Sequence[Entry], options: Iterable[str] | Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the parameters of each metric from ``NAME=VALUE`` and ``METRIC.NAME=VALUE``.

    A name alone goes to every metric that has it.

    Raises
    ------
    UnknownNameError
        No metric of these has such a parameter.
    """
    out: dict[str, dict[str, Any]] = {e.name: {} for e in entries}
    known = {e.name: [n for n in _signature(e) if n not in GIVEN] for e in entries}
    texts = not isinstance(options, Mapping)
    for item in options:
        left = str(item).partition("=")[0] if texts else str(item)
        metric, dot, name = left.rpartition(".")
        if metric in registry.metrics:
            metric = registry.metrics.get(metric).name
        if dot and metric not in out:
            raise UnknownNameError("metric in an option:", metric, out)
        takers = [e for e in entries if name in known[e.name] and (not dot or e.name == metric)]
        if not takers:
            where = [metric] if dot else list(out)
            raise UnknownNameError(
                f"option of {', '.join(where)}:", name, {n for w in where for n in known[w]}
            )
        for entry in takers:
            if isinstance(options, Mapping):
                out[entry.name][name] = options[item]
            else:
                text = f"{name}={str(item).partition('=')[2]}"
                function = entry.info.get("kernel") or entry.obj
                out[entry.name].update(options_for(function, [text]))
    return out


def check_given(entry: Entry, settings: Settings) -> None:
    """Raise `DataError` where a metric needs what is not given, before anything is computed."""
    given = set(settings.parameters.get(entry.name, {}))
    given |= {n for n in ("size", "clusters") if getattr(settings, n) is not None}
    how = {
        "size": "--size WIDTH,HEIGHT, the size of the stimuli in pixels",
        "clusters": "--clusters FILE.npz (see save_clusters), or --clusters fit",
        "labels": "maps of labels, which only the function in Python takes",
    }
    missing = [n for n, p in _signature(entry).items() if p.default is p.empty and n not in given]
    if missing:
        raise DataError(
            f"{entry.name} needs {' and '.join(missing)}",
            expected="; ".join(how.get(n, f"--option {n}=VALUE") for n in missing),
        )


def _convention(entry: Entry, settings: Settings) -> str:
    given = dict(settings.parameters.get(entry.name, {}))
    parts = [str(given.pop("convention", None) or entry.info.get("convention", ""))]
    if "size" in _signature(entry) and settings.size is not None:
        size = settings.size
        shown = "per stimulus" if isinstance(size, Mapping) else f"{size[0]:g} x {size[1]:g}"
        parts.append(f"size {shown}")
    if "clusters" in _signature(entry) and settings.clusters:
        recipes = {c.recipe for c in settings.clusters.values()}
        parts.append(f"clusters per stimulus, {', '.join(sorted(recipes))}")
    parts += [f"{k} {v}" for k, v in given.items()]
    return "; ".join(p for p in parts if p)


# scanpaths ---------------------------------------------------------------------------------------


def score_paths(
    human: Paths, model: Paths, metrics: Sequence[str], settings: Settings | None = None
) -> Scored:
    """Score the scanpaths of a model against those of people on the same stimuli.

    Every scanpath of the model is compared with every human one of its stimulus, and every human
    one with those of the other people (never with another one of the same person). For the
    baseline the model's scanpaths meet the human ones of another stimulus.

    Parameters
    ----------
    human, model
        See `paths_of`; only stimuli of both sides count, the others are counted.
    metrics
        Names of scanpath metrics.

    Raises
    ------
    DataError, UnknownNameError
        No common stimulus, no such metric, or one that needs what is not given.
    """
    settings = settings or Settings()
    entries = find_metrics(metrics, "scanpath")
    for entry in entries:
        check_given(entry, settings)
    lost = LossLog()
    for side in (human, model):
        lost.extend(side.lost)
    human, model = common(human, model, lost)
    names, h = np.unique(human.keys["stimulus"].to_numpy(dtype=str), return_inverse=True)
    m = np.searchsorted(names, model.keys["stimulus"].to_numpy(dtype=str))
    person = pd.factorize(human.keys["participant"])[0]
    _count_alone(h, person, names, lost)
    _count_copies(human, model, lost)
    cross = pairs_across(m, h)
    other = pairs_across(other_stimulus(len(names), settings.seed)[m], h)
    if len(names) == 1:
        lost.add("shuffled", "undefined", "one stimulus: no other one to compare with", 1,
                 "baselines")  # fmt: skip
        other = (other[0][:0], other[1][:0])
    frames = []
    spread: dict[str, dict[str, np.ndarray]] = {}
    counts: dict[str, dict[str, tuple[int, int]]] = {}
    conventions: dict[str, str] = {}
    for entry in entries:
        given = settings.parameters.get(entry.name, {})
        decide = entry.info.get("symmetric_for")
        symmetric = bool(decide(**given) if decide else entry.info.get("symmetric", False))
        people = pairs_of_people(h, person, both=not symmetric)
        parts = [f"{entry.name}.{c}" for c in entry.info.get("columns") or ()] or [entry.name]
        conventions.update(dict.fromkeys(parts, _convention(entry, settings)))
        for kind, side, (i, j) in (
            ("model", model, cross), ("ceiling", human, people), ("shuffled", model, other)
        ):  # fmt: skip
            values = _values(entry, side, human, i, j, names, h, settings, kind, lost)
            owner = i
            both = symmetric and kind == "ceiling"
            if both:
                owner = np.r_[i, j]
            for k, part in enumerate(parts):
                known = values[:, k]
                bad = np.isnan(known)
                spread.setdefault(part, {})[kind] = known[~bad]
                counts.setdefault(part, {})[kind] = (len(known), int(bad.sum()))
                note_infinite(known, f"{part}, {kind}", lost)
                mean, n, undefined = mean_per_owner(
                    owner, np.r_[known, known] if both else known, len(side)
                )
                frames.append(
                    side.keys.assign(kind=kind, metric=part, value=mean, weight=1.0, n=n,
                                     undefined=undefined)
                )  # fmt: skip
    return Scored(pd.concat(frames, ignore_index=True), spread, counts, lost, conventions)


def _count_alone(h: np.ndarray, person: np.ndarray, names: np.ndarray, lost: LossLog) -> None:
    people = pd.Series(person).groupby(h).nunique()
    alone = names[people.index[people == 1]]
    reason = "stimuli that one person saw: no human ceiling there"
    lost.add("ceiling", "undefined", reason, len(alone), "stimuli", alone)


def _count_copies(human: Paths, model: Paths, lost: LossLog) -> None:
    """Count model scanpaths that stand among the human ones: they were hardly predicted."""
    known = {
        (s, p[:, :2].tobytes())
        for s, p in zip(human.keys["stimulus"], human.paths, strict=True)
        if len(p)
    }
    keys = zip(model.keys["stimulus"], model.paths, strict=True)
    copies = [s for s, p in keys if (s, p[:, :2].tobytes()) in known]
    reason = "scanpaths equal to a human one of the same stimulus: copies raise the score"
    lost.add("model", "note", reason, len(copies), "scanpaths", copies)


def _groups(
    entry: Entry, settings: Settings, names: np.ndarray
) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Return the parameters of stimuli that share them, with the codes of those stimuli."""
    takes, fixed = _signature(entry), dict(settings.parameters.get(entry.name, {}))
    found: dict[Any, tuple[dict[str, Any], list[int]]] = {}
    for code, name in enumerate(names.tolist()):
        own = dict(fixed)
        if "size" in takes and settings.size is not None:
            own["size"] = settings.size_of(name)
        if "clusters" in takes and settings.clusters is not None:
            if name not in settings.clusters:
                raise DataError(
                    "no clusters for a stimulus",
                    found=name,
                    expected=", ".join(list(settings.clusters)[:3]),
                )
            own["clusters"] = settings.clusters[name]
        key = (own.get("size"), own["clusters"].fingerprint if "clusters" in own else None)
        found.setdefault(key, (own, []))[1].append(code)
    return [(own, np.array(codes)) for own, codes in found.values()]


def _values(
    entry: Entry,
    side: Paths,
    human: Paths,
    i: np.ndarray,
    j: np.ndarray,
    names: np.ndarray,
    h: np.ndarray,
    settings: Settings,
    kind: str,
    lost: LossLog,
) -> np.ndarray:
    """Return the metric of pairs, (n_pairs, n_parts); parameters are those of the human side.

    Fixations off the stimulus are counted with the model's pairs, which hold every scanpath once.
    """
    width = len(entry.info.get("columns") or ()) or 1
    out = np.full((len(i), width), np.nan)
    for own, codes in _groups(entry, settings, names):
        at = np.flatnonzero(np.isin(h[j], codes))
        if not len(at):
            continue
        a, ia = np.unique(i[at], return_inverse=True)
        b, ib = np.unique(j[at], return_inverse=True)
        first, second = [side.paths[k] for k in a], [human.paths[k] for k in b]
        log = lost if kind == "model" else LossLog()
        try:
            values = pairwise(
                first, second, entry.name,
                pairs=(ia, ib), workers=settings.workers, losses=log, **own,
            ).reshape(len(at), width)  # fmt: skip
        except DataError as error:
            raise _located(error, entry, first, second, (ia, ib), names[h[j[at]]], own) from None
        out[at] = values
        bad = np.flatnonzero(np.isnan(values).any(axis=1))
        if len(bad):  # the reason of the first of those that are alike holds for all
            marks = np.column_stack(
                [_marks(first)[ia[bad]], _marks(second)[ib[bad]], np.isnan(values[bad])]
            )
            _, head, same = np.unique(marks, axis=0, return_index=True, return_inverse=True)
            for k, n in zip(head, np.bincount(same.ravel()), strict=True):
                p, q = first[ia[bad[k]]], second[ib[bad[k]]]
                reason = undefined_reason(entry.name, p, q, **own) or "undefined"
                step, name = f"{entry.name}, {kind}", names[h[j[at[bad[k]]]]]
                lost.add(step, "undefined", reason, int(n), "pairs", [name])
    return out


def _located(
    error: DataError,
    entry: Entry,
    first: list[np.ndarray],
    second: list[np.ndarray],
    pairs: tuple[np.ndarray, np.ndarray],
    stimuli: np.ndarray,
    own: dict[str, Any],
) -> DataError:
    """Return an error with the first stimulus that raises it alone; as it is where none does."""
    for name in np.unique(stimuli).tolist():
        some = tuple(side[stimuli == name] for side in pairs)
        try:
            pairwise(first, second, entry.name, pairs=some, workers=1, losses=LossLog(), **own)
        except DataError as found:
            return at_stimulus(found, name, entry.name, sized=True)
    return error


def _marks(paths: Sequence[np.ndarray]) -> np.ndarray:
    """Return what may leave a metric undefined, (n, 3): length to 6, one place, timed."""
    rows = [
        (
            min(len(p), 6),
            bool((p[:, :2] == p[:1, :2]).all()),
            p.shape[1] == 3 and not np.isnan(p[:, 2]).any(),
        )
        for p in paths
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)
