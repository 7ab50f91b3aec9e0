"""Saliency maps of any tool against the fixations, or the maps, of people."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.experiments.scoring_inputs import Maps, Paths, at_stimulus, no_common, stem
from gazeattn.experiments.scoring_pairs import (
    Scored,
    Settings,
    find_metrics,
    note_infinite,
    other_stimulus,
)
from gazeattn.losses import LossLog
from gazeattn.metrics.saliency import fixation_map, score_many, to_density
from gazeattn.metrics.saliency._inputs import refuse_transposed
from gazeattn.metrics.saliency.conventions import convention
from gazeattn.registry import Entry

NO_CEILING = ("information_gain", "log_likelihood")
"""Metrics that a blurred map of few people cannot bound: its empty pixels cost without limit."""


def score_maps(
    human: Paths | Maps, model: Maps, metrics: Sequence[str], settings: Settings | None = None
) -> Scored:
    """Score the saliency maps of a model against the fixations or the maps of people.

    For metrics of a map and fixations the model's map meets all fixations of its stimulus. The
    ceiling is leave-one-out: the blurred fixations of all other people against those of one
    person, averaged with as many votes as that person has fixations. For metrics between two maps
    the reference is the blurred fixations of all people (or their given map), and the ceiling
    the map of one person against that of the others, a lower bound since one person's map is
    coarse. The baseline is the model's map of another stimulus.

    Parameters
    ----------
    human : Paths or Maps
        Maps only for metrics between maps; they have no ceiling.
    model : Maps
        By the name of the stimulus, with or without the ending of its file.
    metrics
        Names of saliency metrics.
    settings
        `sigma` is needed for reference maps of fixations, and for every ceiling.

    Raises
    ------
    DataError, UnknownNameError
        No common stimulus, a metric that takes something else, or one that needs `sigma`.
    """
    settings = settings or Settings()
    entries = find_metrics(metrics, "saliency")
    for entry in entries:
        _check(entry, human, settings)
    if settings.density is not None and not any(e.name in NO_CEILING for e in entries):
        raise DataError(
            "no metric of densities is named", expected=", ".join(NO_CEILING), found="--density"
        )
    lost = LossLog()
    sides = _Sides(human, model, settings, lost)
    frames = []
    spread: dict[str, dict[str, np.ndarray]] = {}
    counts: dict[str, dict[str, tuple[int, int]]] = {}
    conventions: dict[str, str] = {}
    for entry in entries:
        given = dict(settings.parameters.get(entry.name, {}))
        shown = {k: v for k, v in given.items() if k not in ("baseline", "other_fixations")}
        line = convention(entry.name, **shown)
        if settings.density is not None and entry.name in NO_CEILING:
            line += f"; maps made densities with floor {settings.density:g}"
        if settings.sigma is not None:
            line += f"; human maps blurred with sigma {settings.sigma:g} px, ceiling "
            between = entry.info.get("inputs") == "map"
            line += "one person's map" if between else "one person's fixations"
            line += " on the map of the others"
        conventions[entry.name] = line
        for kind, rows in (
            ("model", sides.against(entry, given, lost)),
            ("ceiling", sides.people(entry, given, lost)),
            ("shuffled", sides.against(entry, given, lost, shuffled=True)),
        ):
            known = rows["value"].notna()
            spread.setdefault(entry.name, {})[kind] = rows["value"][known].to_numpy(float)
            note_infinite(rows["value"].to_numpy(float), f"{entry.name}, {kind}", lost)
            counts.setdefault(entry.name, {})[kind] = (len(rows), int((~known).sum()))
            frames.append(
                rows.assign(kind=kind, metric=entry.name, n=known.astype(int),
                            undefined=(~known).astype(int))
            )  # fmt: skip
    return Scored(pd.concat(frames, ignore_index=True), spread, counts, lost, conventions)


def _check(entry: Entry, human: Paths | Maps, settings: Settings) -> None:
    inputs = entry.info.get("inputs")
    if inputs == "steps":
        raise DataError(
            f"{entry.name} takes one map per fixation",
            expected="a metric of one map per stimulus",
            hint=f"Call gazeattn.metrics.saliency.{entry.name}",
        )
    if inputs == "fixations" and isinstance(human, Maps):
        raise DataError(
            f"{entry.name} needs fixations", source=human.source, expected="a table of fixations"
        )
    if inputs == "map" and isinstance(human, Paths) and settings.sigma is None:
        raise DataError(
            f"{entry.name} needs a reference map", expected="--sigma PIXELS, or maps of people"
        )


class _Sides:
    """Maps of the model and what people did on the same stimuli, in the same order."""

    def __init__(self, human: Paths | Maps, model: Maps, settings: Settings, lost: LossLog) -> None:
        self.settings, self.human = settings, human
        if isinstance(human, Paths):
            lost.extend(human.lost)
            there = sorted(set(human.keys["stimulus"]))
        else:
            there = sorted(human)
        key = {n: n if n in model else stem(n) for n in there}
        self.names = [n for n in there if key[n] in model]
        if not self.names:
            raise no_common(there, sorted(model), model.source)
        unused = sorted(set(model) - {key[n] for n in self.names})
        missing = sorted(set(there) - set(self.names))
        for side, left in (("model", unused), ("human", missing)):
            reason = "stimuli that the other side does not have"
            lost.add(side, "dropped", reason, len(left), "stimuli", left)
        self.maps = [model[key[n]] for n in self.names]
        self.files = [model.file_of(key[n]) for n in self.names]
        self.sizes = [settings.size_of(n) for n in self.names]
        self.people_of: list[dict[str, np.ndarray]] = [{} for _ in self.names]
        if isinstance(human, Paths):
            for k, name in enumerate(self.names):
                own = np.flatnonzero((human.keys["stimulus"] == name).to_numpy())
                for p in own:
                    person = str(human.keys["participant"].iloc[p])
                    before = self.people_of[k].get(person, np.zeros((0, 2)))
                    self.people_of[k][person] = np.concatenate([before, human.paths[p][:, :2]])
        self._check_shapes(lost)
        n = len(self.names)
        self.other = other_stimulus(n, settings.seed) if n > 1 else None
        if self.other is None:
            reason = "one stimulus: no other one to compare with"
            lost.add("shuffled", "undefined", reason, 1, "baselines")

    def _check_shapes(self, lost: LossLog) -> None:
        """Refuse maps with exchanged sides; count those of another proportion than the picture."""
        stretched = []
        both = zip(self.maps, self.sizes, strict=True)
        for k, (name, (array, size)) in enumerate(zip(self.names, both, strict=True)):
            if size is None or np.ndim(array) != 2 or 0 in np.shape(array):
                continue
            rows, columns = np.shape(array)
            try:
                refuse_transposed(rows, columns, *size)
            except DataError as error:
                raise at_stimulus(error, name, self.files[k], sized=True) from None
            if abs(np.log(columns * size[1] / (rows * size[0]))) > 1 / rows + 1 / columns:
                stretched.append(name)
        reason = "doubt: maps of another proportion than their stimulus, taken as stretched"
        lost.add("model", "note", reason, len(stretched), "maps", stretched)

    def picture(self, k: int) -> tuple[float, float]:
        """Return the size that the fixations of a stimulus refer to."""
        height, width = np.shape(self.maps[k])[:2]
        return self.sizes[k] or (width, height)

    def blurred(self, points: np.ndarray, k: int, outside: str, lost: LossLog) -> np.ndarray:
        """Return the fixations as a map of the shape of the model's."""
        height, width = np.shape(self.maps[k])[:2]
        size = self.picture(k)
        assert self.settings.sigma is not None
        return fixation_map(
            points, size, map_size=(width, height), sigma=self.settings.sigma * width / size[0],
            outside=outside, losses=lost,
        )  # fmt: skip

    def pooled(self, k: int) -> np.ndarray:
        return np.concatenate([np.zeros((0, 2)), *self.people_of[k].values()])

    def reference(self, k: int, lost: LossLog) -> np.ndarray:
        if isinstance(self.human, Maps):
            return self.human[self.names[k]]
        return self.blurred(self.pooled(k), k, "drop", lost)

    def against(
        self, entry: Entry, given: dict[str, Any], lost: LossLog, shuffled: bool = False
    ) -> pd.DataFrame:
        """Score the model's maps, of another stimulus where `shuffled`."""
        step = f"{entry.name}, {'shuffled' if shuffled else 'model'}"
        rows = pd.DataFrame({"stimulus": self.names, "value": np.nan, "weight": 1.0})
        if shuffled and self.other is None:
            return rows.iloc[:0]
        where = self.other if shuffled and self.other is not None else np.arange(len(self.names))
        log, at = LossLog(), np.arange(len(self.names))
        if entry.info.get("inputs") == "map":
            shapes = [np.shape(m) for m in self.maps]
            alike = np.array([shapes[w] == shapes[k] for k, w in enumerate(where)])
            reason = "maps of another shape: no baseline there"
            lost.add(step, "undefined", reason, int((~alike).sum()), "stimuli")
            at, others = at[alike], [self.reference(k, log) for k in at[alike].tolist()]
            scores = _quiet(entry.name, [self.maps[where[k]] for k in at.tolist()], others, given)
        else:
            sizes = [self.picture(k) for k in at.tolist()]
            others = [self.pooled(k) for k in at.tolist()]
            maps = [self.maps[w] for w in where]
            if self.settings.density is not None and entry.name in NO_CEILING:
                maps = [to_density(m, floor=self.settings.density) for m in maps]
            try:
                scores = _quiet(entry.name, maps, others, given, sizes=sizes)
            except DataError as error:
                files = [self.files[w] for w in where]
                raise self._located(error, entry.name, maps, others, given, sizes, files) from None
        rows.loc[at, "value"] = scores.values
        log.extend(scores.losses)
        _as_step(log, step, lost)
        return rows

    def _located(
        self,
        error: DataError,
        metric: str,
        maps: list[Any],
        others: list[Any],
        given: dict[str, Any],
        sizes: list[Any],
        files: list[Any],
    ) -> DataError:
        """Return an error with the first stimulus that raises it alone; else as it is."""
        for k, name in enumerate(self.names):
            try:
                _quiet(metric, [maps[k]], [others[k]], given, sizes=[sizes[k]])
            except DataError as found:
                return at_stimulus(found, name, files[k], sized=self.sizes[k] is not None)
        return error

    def people(self, entry: Entry, given: dict[str, Any], lost: LossLog) -> pd.DataFrame:
        """Score the map of all other people for each person."""
        step = f"{entry.name}, ceiling"
        empty = pd.DataFrame({"stimulus": [], "participant": [], "value": [], "weight": []})
        why = ""
        if isinstance(self.human, Maps):
            why = "maps without people: no leave-one-out"
        elif self.settings.sigma is None:
            why = "no sigma: no maps of the other people"
        elif entry.name in NO_CEILING:
            why = "a blurred map of few people is no bound of it; see gold-standard models"
        if why:
            lost.add(step, "undefined", why, 1, "ceilings")
            return empty
        frames, log = [empty], LossLog()
        between = entry.info.get("inputs") == "map"
        outside = "drop" if between else given.get("outside", "raise")
        for k, people in enumerate(self.people_of):
            if len(people) < 2:
                lost.add(step, "undefined", "stimuli that one person saw: no human ceiling there",
                         1, "stimuli", [self.names[k]])  # fmt: skip
                continue
            maps, own = [], list(people.values())
            for out in range(len(own)):
                rest = np.concatenate([p for q, p in enumerate(own) if q != out])
                maps.append(self.blurred(rest, k, outside, LossLog()))
            more = dict(given)
            weight = np.array([float(len(p)) for p in own])
            if between:
                others = [self.blurred(p, k, outside, LossLog()) for p in own]
                scores, weight = _quiet(entry.name, maps, others, more), np.ones(len(own))
            else:
                if entry.name == "shuffled_auc" and "other_fixations" not in more:
                    rest_of = [q for q in range(len(self.names)) if q != k]
                    more["other_fixations"] = [self.pooled(q) for q in rest_of]
                    more["other_sizes"] = [self.picture(q) for q in rest_of]
                scores = _quiet(entry.name, maps, own, more, sizes=self.picture(k))
            log.extend(scores.losses)
            frames.append(
                pd.DataFrame(
                    {"stimulus": self.names[k], "participant": list(people),
                     "value": scores.values, "weight": weight}
                )
            )  # fmt: skip
        _as_step(log, step, lost)
        return pd.concat([f for f in frames if len(f)] or [empty], ignore_index=True)


def _quiet(name: str, maps: Any, others: Any, given: dict[str, Any], **how: Any) -> Any:
    """Call `score_many`; constant maps, which it warns of, stand in its losses."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*constant.*")
        return score_many(name, maps, others, **how, **given)


def _as_step(log: LossLog, step: str, lost: LossLog) -> None:
    """Add losses under the metric and the kind of comparison; image numbers say nothing there."""
    lost.extend(LossLog(replace(x, step=step, examples="") for x in log))
