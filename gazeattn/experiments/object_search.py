"""Which object next, and when to stop: OAT beside simple models and people, by held-out display."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from omegaconf import OmegaConf

from gazeattn.datamodules.objects import ObjectDataModule, ObjectScanpaths
from gazeattn.errors import UnknownNameError
from gazeattn.experiments import _object_rows as scores
from gazeattn.experiments._object_data import (
    Parts,
    cover_parts,
    hashed_embedder,
    language_embedder,
    load,
    reading_parts,
    shelf_parts,
)
from gazeattn.experiments.building import build, load_network, read_model, sized, training_of
from gazeattn.experiments.config import conf_folder
from gazeattn.experiments.runs import commit
from gazeattn.experiments.training import train as train_network
from gazeattn.losses import LossLog
from gazeattn.models.scanpath.evaluation import stimulus_seed
from gazeattn.models.scanpath.oat import ObjectAttentionTransformer
from gazeattn.models.scanpath.object_baselines import (
    CentralObject,
    NearestObject,
    NextObject,
    ObjectBaseline,
    RandomObject,
    RankObject,
)
from gazeattn.results import append_rows, pack_rows, result_rows
from gazeattn.stimuli.shelves import Searcher, Shelf
from gazeattn.storage import write_json, write_parquet

if TYPE_CHECKING:
    from gazeattn.report.objects import SearchExample

log = logging.getLogger(__name__)
TASK = "object_search"
EXTRA = ("kind", "reference")
TASKS = ("sti", "shelves", "reading")
HUMAN, SEARCHER, POOLED = "human", "searcher", "all"
SCORE, LIKELIHOOD = "sequence_score", "log_likelihood"
CONVENTIONS = {
    SCORE: "on ids of objects; mean over pairs of sample and person, then over displays",
    LIKELIHOOD: "nats per fixation, natural logarithm, next object given those before",
}
SIMPLE: dict[str, Callable[[], ObjectBaseline]] = {
    "random_object": RandomObject,
    "central_object": CentralObject,
    "nearest_object": NearestObject,
    "rank_object": RankObject,
    "random_object informed": lambda: RandomObject(informed=True),
    "central_object informed": lambda: CentralObject(informed=True),
    "nearest_object informed": lambda: NearestObject(informed=True),
    "rank_object informed": lambda: RankObject(informed=True),
}
ORDERED: dict[str, Callable[[], ObjectBaseline]] = {
    "next_object": NextObject,
    "next_object strict": lambda: NextObject(strict=True),
}
FORCED = ("random_object", "central_object", "rank_object", "next_object")
"""Baselines with a probability for every object, which have a likelihood."""


@dataclass
class Search:
    """One data set with its splits and the models that are compared on it."""

    dataset: str
    parts: list[Parts]
    networks: Mapping[str, Mapping[str, Any]]
    baselines: Mapping[str, Callable[[], ObjectBaseline]]
    behaviour: bool = True
    shelves: Mapping[str, Shelf] = field(default_factory=dict)
    lost: LossLog = field(default_factory=LossLog)


@dataclass
class Runner:
    """What the jobs of one run share."""

    folder: Path
    size: str
    options: Mapping[str, Any]
    fixed: Mapping[str, Any]
    rows: pd.DataFrame

    def finished(self, key: Mapping[str, str]) -> bool:
        """Whether the rows of a job are there."""
        hit = np.ones(len(self.rows), dtype=bool)
        for column, value in key.items():
            hit &= (self.rows[column].astype(str) == str(value)).to_numpy()
        return bool(hit.any())

    def add(self, key: Mapping[str, str], kind: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append the rows of a job to the table on disk."""
        made = [{**self.fixed, **key, "kind": kind, "reference": "", **r} for r in rows]
        new = result_rows(made, EXTRA)
        table = self.folder / "results.parquet"
        if table.exists():
            self.rows = append_rows(table, new)
        else:
            write_parquet(table, new)
            self.rows = new


def run_object_search(
    folder: str | Path,
    *,
    size: str = "cpu",
    tasks: Sequence[str] | None = None,
    sti: str | None = None,
    webqamgaze: str | None = None,
    root: str | None = None,
    publish: str | Path | None = None,
    command: str = "",
    **changes: Any,
) -> pd.DataFrame:
    """Train and score models of sequences of objects, and write one table.

    Parameters
    ----------
    folder
        Of the run. Rows that stand in its ``results.parquet`` are not computed again, and an
        interrupted training is gone on with.
    size : {"tiny", "cpu", "full"}
    tasks
        Of ``"sti"``, ``"shelves"`` and ``"reading"``; by default those of the configuration.
    sti, webqamgaze
        Folders of the data sets, by default in the data folder.
    root
        Data folder of the language model.
    publish
        Folder for ``scanpath_sti.json``, beside the run folder.
    command
        Written with every row.
    **changes
        Other values for keys of the configuration ``benchmark_object_search``.

    Returns
    -------
    DataFrame
        `gazeattn.results.RESULT_COLUMNS`, kind and reference. Intervals are over displays. Rows
        of seed (or fold) ``all`` average the scores of each display over seeds (and put folds
        together) first.
    """
    plain = OmegaConf.to_container(OmegaConf.load(conf_folder() / "benchmark_object_search.yaml"))
    assert isinstance(plain, dict)
    shared = ("defaults", "hydra", "publish", "root")  # of the command, not of the benchmark
    config = {k: v for k, v in plain.items() if k not in shared}
    options = {**sized({str(k): v for k, v in config.items()}, size), **changes}
    for name in changes:
        if name not in config:
            raise UnknownNameError("option", name, list(map(str, config)))
    chosen = list(options["tasks"]) if tasks is None else list(tasks)
    for name in chosen:
        if name not in TASKS:
            raise UnknownNameError("task", name, TASKS)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "results.parquet"
    rows = pd.read_parquet(table) if table.exists() else result_rows([], EXTRA)
    fixed = {"task": TASK, "size": size, "command": command, "commit": commit() or ""}
    runner = Runner(folder, size, options, fixed, rows)
    examples = []
    for name in chosen:
        search = _search(name, options, sti, webqamgaze, root)
        if not len(search.lost.to_frame()) == 0:
            search.lost.to_frame().to_csv(folder / f"lost_{name}.csv", index=False)
        _run(runner, search, Path(publish) if publish else folder)
        examples += _examples(runner, search)
    from gazeattn.report.objects import write_object_report

    write_object_report(runner.rows, folder, examples, command=command, options=options)
    return runner.rows


def _search(
    name: str, options: Mapping[str, Any], sti: str | None, words: str | None, root: str | None
) -> Search:
    displays = options["displays"]
    if name == "sti":
        found, lost = cover_parts(
            load("sti_amazon", sti), displays=displays, folds=options["folds"]
        )
        networks = {"oat": {"target": "position"}}
        if options["hidden"]:
            networks["oat hidden target"] = {"target": "none"}
        return Search("sti_amazon", found, networks, SIMPLE, lost=lost)
    if name == "shelves":
        part, shelves = shelf_parts(tuple(options["shelves"]), searches=options["searches"])
        networks = {
            "oat appearance": {"target": "appearance", "appearance": "crops"},
            "oat positions": {"target": "none"},
        }
        return Search("shelves", [part], networks, SIMPLE, shelves=shelves)
    lost = LossLog()
    embed = (
        hashed_embedder()
        if options["embeddings"] == "hashed"
        else language_embedder(options["embeddings"], root)
    )
    reading = reading_parts(
        load("webqamgaze", words), embed, displays=displays, longest=options["longest"], lost=lost
    )
    width = int(next(iter(reading.train.stimuli.values())).features["target"].shape[0])
    shared: dict[str, Any] = {"ordered": True, "relative": True}
    look: dict[str, Any] = {
        "target": "appearance",
        "appearance": "embedding",
        "appearance_width": width,
    }
    networks = {"oat appearance": {**shared, **look}, "oat positions": {**shared, "target": "none"}}
    baselines = {
        **{k: SIMPLE[k] for k in ("random_object", "nearest_object", "rank_object")},
        **ORDERED,
    }
    return Search("webqamgaze", [reading], networks, baselines, behaviour=False, lost=lost)


def _run(runner: Runner, search: Search, publish: Path) -> None:
    for name in dict.fromkeys(p.name for p in search.parts):
        group = [p for p in search.parts if p.name == name]
        for parts in group:
            _reference(runner, search, parts)
            for label, make in search.baselines.items():
                key = _key(search, parts, label, 0)
                if not runner.finished(key):
                    model = make()
                    model.fit_statistics(parts.train)
                    _score(runner, search, parts, model, key, "baseline")
        for seed, parts in product(runner.options["seeds"], group):
            for label, arguments in _networks(search, name).items():
                key = _key(search, parts, label, seed)
                if runner.finished(key):
                    continue
                log.info("%s, %s %s, seed %s", label, parts.name, parts.fold, seed)
                network = trained(runner, search, parts, label, arguments, seed)
                _score(runner, search, parts, network, key, "model")
                publish_rows(runner, publish)
        _pooled(runner, search, group)
        publish_rows(runner, publish)


def _networks(search: Search, name: str) -> dict[str, Mapping[str, Any]]:
    """Return the networks of a split: without the place of the target by layout only."""
    return {
        k: v for k, v in search.networks.items() if k != "oat hidden target" or name == "layout"
    }


def _key(search: Search, parts: Parts, label: str, seed: object) -> dict[str, str]:
    return {
        "dataset": search.dataset,
        "model": label,
        "split": parts.split,
        "regime": f"unseen_{parts.name}",
        "fold": parts.fold,
        "seed": str(seed),
    }


def trained(
    runner: Runner,
    search: Search,
    parts: Parts,
    label: str,
    arguments: Mapping[str, Any],
    seed: int,
) -> ObjectAttentionTransformer:
    """Return the trained network of a job, from its folder where it is finished."""
    config = {**sized(read_model("oat"), runner.size), **arguments}
    name = f"{label.replace(' ', '_')}_{parts.name}{parts.fold}_seed{seed}"
    folder = runner.folder / search.dataset / name
    done = folder / "finished.json"
    if not done.exists():
        model = build(config, seed=seed)
        assert isinstance(model, ObjectAttentionTransformer)
        model.fit_statistics(parts.train)
        settings = training_of(config)
        data = ObjectDataModule(parts.train, parts.valid, batch_size=settings.batch_size, seed=seed)
        found = train_network(model, data, folder, settings, seed=seed)
        write_json(done, {"epochs": found.epochs, "config": config})
    network = load_network(config, folder)
    assert isinstance(network, ObjectAttentionTransformer)
    return network


def draw_objects(model: Any, paths: ObjectScanpaths, n: int, seed: int) -> dict[str, list[Any]]:
    """Return n sequences for every display; those of one do not depend on the others."""
    out = {}
    for name, stimulus in paths.stimuli.items():
        generator = torch.Generator().manual_seed(stimulus_seed(seed, name))
        out[name] = model.sample_objects(stimulus, n, generator)
    return out


def _score(
    runner: Runner, search: Search, parts: Parts, model: Any, key: Mapping[str, str], kind: str
) -> None:
    options, seed = runner.options, int(key["seed"])
    drawn = draw_objects(model, parts.test, options["samples"], seed)
    people = scores.by_display(parts.test)
    values = {SCORE: scores.model_scores(drawn, people)}
    if kind == "model" or key["model"] in FORCED:
        values[LIKELIHOOD] = _likelihood(model, parts.test)
    scores.keep(runner.folder, key, values, drawn)
    runner.add(key, kind, _rows(runner, search, parts, values, drawn))


@torch.no_grad()
def _likelihood(model: Any, paths: ObjectScanpaths) -> Any:
    return scores.likelihoods(model, paths)


def _rows(
    runner: Runner, search: Search, parts: Parts, values: Mapping[str, Any], drawn: Any
) -> list[dict[str, Any]]:
    draws = runner.options["draws"]
    rows = [
        scores.mean_row(m, v, draws=draws, seed=0, convention=CONVENTIONS[m])
        for m, v in values.items()
    ]
    if search.behaviour and drawn is not None:
        ours, theirs = (
            scores.trials_of(s, parts.test) for s in (drawn, scores.by_display(parts.test))
        )
        rows += scores.difference_rows(ours, theirs, draws=draws, seed=0)
        found = ours.behaviour
        for name in ("success", "length"):
            mean = float(np.nanmean(getattr(found, name)))
            rows.append({"metric": name, "value": mean, "n": len(found.length)})
    return rows


def _reference(runner: Runner, search: Search, parts: Parts) -> None:
    """Add the rows of people, or of the known searcher, against each other."""
    known = bool(search.shelves)
    key = _key(search, parts, SEARCHER if known else HUMAN, 0)
    if runner.finished(key):
        return
    people = scores.by_display(parts.test)
    values = {SCORE: scores.human_scores(people)}
    if known:
        searcher = Searcher()
        values[LIKELIHOOD] = np.array(
            [np.mean([searcher.mean_log_probability(search.shelves[k], s) for s in found])
             for k, found in people.items()]
        )  # fmt: skip
    rows = _rows(runner, search, parts, values, None)
    if search.behaviour:
        theirs = scores.trials_of(people, parts.test)
        rows += scores.halves(theirs, runner.options["splits"], 0)
        for name in ("success", "length"):
            found = getattr(theirs.behaviour, name)
            rows.append({"metric": name, "value": float(np.nanmean(found)), "n": len(found)})
    scores.keep(runner.folder, key, values, people)
    runner.add(key, "ceiling", rows)


# -- over seeds and folds -------------------------------------------------------------------------


def _pooled(runner: Runner, search: Search, parts: Sequence[Parts]) -> None:
    """Add rows over all seeds and folds, and how far networks are above the baselines."""
    reference = SEARCHER if search.shelves else HUMAN
    split_name = f"by {parts[0].name}, all folds" if len(parts) > 1 else parts[0].split
    found: dict[str, dict[str, Any]] = {}
    shown: dict[str, scores.Trials] = {}
    networks = _networks(search, parts[0].name)
    for label in [reference, *search.baselines, *networks]:
        seeds = runner.options["seeds"] if label in networks else [0]
        pieces = []
        for p in parts:
            kept = [scores.kept(runner.folder, _key(search, p, label, s)) for s in seeds]
            mean = {m: np.mean([k[0][m] for k in kept], axis=0) for m in kept[0][0]}
            drawn = {n: [s for k in kept for s in k[1][n]] for n in p.test.stimuli}
            pieces.append((p, mean, drawn))
        found[label] = {m: np.concatenate([mean[m] for _, mean, _ in pieces]) for m in pieces[0][1]}
        key = {**_key(search, parts[0], label, POOLED), "split": split_name, "fold": POOLED}
        draws = runner.options["draws"]
        rows = [
            scores.mean_row(m, v, draws=draws, seed=0, convention=CONVENTIONS[m])
            for m, v in found[label].items()
        ]
        if search.behaviour:
            shown[label] = _behaviour_of(pieces)
            if label == reference:
                rows += scores.halves(shown[label], runner.options["splits"], 0)
            else:
                rows += scores.difference_rows(shown[label], shown[reference], draws=draws, seed=0)
        if label in search.networks:
            rows += _above(runner, found, label, search.baselines)
            if search.behaviour:
                rows += scores.below_rows(
                    label, shown, reference, search.baselines, draws=draws, seed=0
                )
        if runner.finished(key):
            continue
        kind = "model" if label in search.networks else "baseline"
        runner.add(key, "ceiling" if label == reference else kind, rows)


def _behaviour_of(pieces: Sequence[Any]) -> scores.Trials:
    sequences: dict[str, list[Any]] = {}
    stimuli: dict[str, Any] = {}
    for p, _, drawn in pieces:
        sequences |= drawn
        stimuli |= p.test.stimuli
    return scores.trials_in(sequences, stimuli)


def _above(
    runner: Runner, found: Mapping[str, Any], label: str, baselines: Mapping[str, Any]
) -> list[dict[str, Any]]:
    rows = []
    for metric, values in found[label].items():
        others = {k: found[k][metric] for k in baselines if metric in found[k]}
        best = max(others, key=lambda k: float(np.nanmean(others[k])))
        row = scores.mean_row(
            f"{metric}_above_baseline", values - others[best], draws=runner.options["draws"],
            seed=0, convention="difference on the same displays to the best baseline",
        )  # fmt: skip
        rows.append({**row, "reference": best})
    return rows


def _examples(runner: Runner, search: Search) -> list[SearchExample]:
    """Return displays of the first network, seed and fold of each split, to be drawn."""
    from gazeattn.report.objects import SearchExample

    found = []
    who = SEARCHER if search.shelves else "person"
    for parts in {p.name: p for p in reversed(search.parts)}.values():
        name, seed = next(iter(_networks(search, parts.name))), runner.options["seeds"][0]
        key = _key(search, parts, name, seed)
        values, drawn = scores.kept(runner.folder, key)
        for which, display in scores.extremes(values[SCORE], list(parts.test.stimuli)):
            people = scores.by_display(parts.test)[display]
            theirs, ours = scores.typical(people, drawn[display])
            at = list(parts.test.stimuli).index(display)
            found.append(
                SearchExample(
                    key["dataset"], key["regime"], f"{name}, seed {seed}", which, who,
                    parts.test.stimuli[display], theirs, ours, float(values[SCORE][at]),
                )
            )  # fmt: skip
    return found


def publish_rows(runner: Runner, folder: Path) -> Path:
    """Write the table as JSON."""
    content = {
        "task": TASK,
        "size": runner.size,
        "seeds": list(runner.options["seeds"]),
        "note": "sti_amazon has no pictures: positions and target only",
        **pack_rows(runner.rows.drop(columns=["task", "size"])),
    }
    path = folder / "scanpath_sti.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, content)
    return path
