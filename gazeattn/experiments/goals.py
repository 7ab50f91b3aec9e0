"""The benchmark of open goals: choosing and writing the question that a reader had in mind."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from omegaconf import DictConfig, OmegaConf

from gazeattn.datamodules.goal_batches import GoalDataModule
from gazeattn.datamodules.reading_features import Array
from gazeattn.datamodules.reading_goals import GoalTrials, paragraph_text
from gazeattn.datamodules.reading_scaling import FeatureChoice, FittedFeatures
from gazeattn.datamodules.reading_texts import TEXT, TextEncoder
from gazeattn.datasets.splits import REGIMES
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments import _goal_rows as scores
from gazeattn.experiments._goal_data import Goals
from gazeattn.experiments.app import original_path, run_app
from gazeattn.experiments.benchmark_apps import this_call
from gazeattn.experiments.config import conf_folder
from gazeattn.experiments.runs import begin, commit, environment, write_environment
from gazeattn.experiments.terminal import print_table
from gazeattn.experiments.training import Training, train
from gazeattn.metrics import generation, selection
from gazeattn.models.goals.llm_selection import LENGTHS, LlmSelection
from gazeattn.models.goals.reconstruction import GoalWriter, WriterTraining
from gazeattn.models.goals.retrieval import Retrieval
from gazeattn.registry import goal_models
from gazeattn.results import pack_rows, result_rows
from gazeattn.storage import rooted, write_json, write_parquet, write_text

log = logging.getLogger(__name__)
NAME = "goals"
TASKS = ("selection", "reconstruction")
RETRIEVAL = ("retrieval_same_text", "retrieval_other_text")
EXTRA = ("kind", "reference")
METRICS = (
    "question_word", "bleu", "rouge_l", "bertscore_f1", "bertscore_precision", "bertscore_recall",
    "exact", "qa_accuracy",
)  # fmt: skip
NOT_SETTINGS = ("defaults", "sizes", "hydra", "size", "debug", "publish", "root", "accelerator")


def goal_settings(size: str, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the settings of ``conf/benchmark_goals.yaml`` for a size.

    Parameters
    ----------
    changes
        Values by key, ``"writer.most"``, that win over the file.
    """
    plain = OmegaConf.load(conf_folder() / "benchmark_goals.yaml")
    assert isinstance(plain, DictConfig)
    if size not in plain.sizes:
        raise UnknownNameError("size", size, list(map(str, plain.sizes)))
    base = {str(k): v for k, v in plain.items() if k not in NOT_SETTINGS}
    base["dataset"] = next(str(d["dataset"]) for d in plain.defaults if "dataset" in d)
    made = OmegaConf.merge(base, plain.sizes[size])
    for key, value in (changes or {}).items():
        if key.split(".")[0] not in base:
            raise UnknownNameError("setting", key, list(base))
        OmegaConf.update(made, key, value)
    found = OmegaConf.to_container(made, resolve=True)
    assert isinstance(found, dict)
    for task in found["tasks"]:
        if task not in TASKS:
            raise UnknownNameError("task", task, TASKS)
    return {str(k): v for k, v in found.items()}


def with_controls(names: Sequence[str], task: str) -> list[str]:
    """Return models with the controls that always stand beside them."""
    out = list(names)
    for name in names:
        entry = goal_models.get(name)
        if entry.info["task"] != task:
            known = [e.name for e in goal_models if e.info["task"] == task]
            raise UnknownNameError(f"model of {task}", name, known)
        out.append(str(entry.info.get("control") or scores.CHANCE))
    if task == "reconstruction":
        out += RETRIEVAL
    return [n for n in dict.fromkeys(out) if n != scores.CHANCE]


# -- choosing ---------------------------------------------------------------------------------


def _hits(facts: pd.DataFrame, goal: GoalTrials, found: Array, seed: int) -> pd.DataFrame:
    hits = selection.hits(found, goal.target, goal.groups)
    columns = {f"s{k}": found[:, k] for k in range(found.shape[1])}
    named = {scores.KINDS[k]: v for k, v in hits.items()}
    return facts.assign(seed=seed, target=goal.target, **named, **columns)


def select(
    goals: Goals, name: str, fold: int, seed: int, folder: Path, accelerator: str = "auto"
) -> dict[str, pd.DataFrame]:
    """Return what a model chose in the test trials of a fold, by the name in the table."""
    entry, settings = goal_models.get(name), goals.settings
    if issubclass(entry.obj, LlmSelection):
        goal, facts = goals.part(fold, "test", settings["limits"]["score"])
        model = entry.obj(**settings["llm"], root=goals.root)
        found = model.both(goal)
        log.info("%s: %d fixations left out of the prompts", name, model.cut)
        return {
            name if rule == LENGTHS[0] else f"{name}_{rule}": _hits(facts, goal, found[rule], seed)
            for rule in LENGTHS
        }
    test, facts = goals.part(fold, "test")
    config = dict(settings["models"].get(name) or {})
    training = Training.of(config.pop("training", {}))
    choice = entry.obj.choice(config)
    if not entry.obj.trained:
        fitted = FittedFeatures.fit(test.trials, FeatureChoice((), (), ()))  # no feature is scaled
        return {name: _hits(facts, test, entry.obj(**config).scores(goals.inputs(test, fitted)),
                            seed)}  # fmt: skip
    train_goal, valid_goal = goals.part(fold, "train")[0], goals.part(fold, "val")[0]
    fitted, pairs = FittedFeatures.fit(train_goal.trials, choice), entry.obj.pairs
    parts = [goals.inputs(g, fitted, pairs) for g in (train_goal, valid_goal, test)]
    widths = {k: v.shape[1] for k, v in parts[0].reading.scaled.items()}
    widths["vectors"] = goals.encoder(settings["encoder"]).width
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = entry.obj(widths, **config)
        data = GoalDataModule(
            parts[0], parts[1], batch_size=training.batch_size, seed=seed, pairs=pairs
        )
        done = train(net, data, folder, training, seed=seed, accelerator=accelerator)
    held = torch.load(done.best, map_location="cpu", weights_only=True)
    net.load_state_dict(held["state_dict"])
    return {name: _hits(facts, test, net.scores(parts[2]), seed)}


# -- writing ----------------------------------------------------------------------------------


def reconstruct(
    goals: Goals, name: str, fold: int, seed: int, folder: Path
) -> dict[str, pd.DataFrame]:
    """Return what a model wrote for test trials of a fold, with its scores."""
    entry, settings = goal_models.get(name), goals.settings
    limits = settings["limits"]
    test, facts = goals.part(fold, "test", limits["write"])
    written: list[str | None]
    if issubclass(entry.obj, Retrieval):
        every = goals.part(fold, "train")[0]
        fitted = FittedFeatures.fit(every.trials, FeatureChoice((), (), ()))
        written = entry.obj().write(goals.inputs(every, fitted), goals.inputs(test, fitted))
    else:
        own = goals.part(fold, "train", limits["train"])[0]
        config = dict(settings["writer"])
        training = WriterTraining.of(config.pop("training", {}))
        writer: GoalWriter = entry.obj(**config, seed=seed, root=goals.root)
        if torch.cuda.is_available():
            writer.model.to("cuda")
        curve = writer.fit(own, training, lambda k, n, v: log.info("%s %d/%d %.3f", name, k, n, v))
        cut = writer.cut
        written = [
            *writer.write(test, beams=int(settings["beams"]), longest=int(settings["longest"]))
        ]
        writer.save(folder)
        facts_of = {"loss": curve, "cut_training": cut, "cut_test": writer.cut, "trials": len(own)}
        write_json(folder / "training.json", facts_of)
    return {name: score_written(goals, facts.assign(seed=seed), test, written)}


def token_vectors(encoder: TextEncoder) -> Callable[[str], Array]:
    """Return the function from a text to the vectors of its tokens, special ones left out."""

    def vectors(text: str) -> Array:
        tokens = encoder([(text.split(), None)])[0]
        assert tokens.vectors is not None
        return np.asarray(tokens.vectors[tokens.part == TEXT], dtype=np.float64)

    return vectors


def score_written(
    goals: Goals, facts: pd.DataFrame, test: GoalTrials, written: Sequence[str | None]
) -> pd.DataFrame:
    """Return facts, both questions and their scores; a trial without a question has none."""
    out = facts.assign(true=test.questions, written=[w if w is not None else "" for w in written])
    there = np.array([w is not None for w in written], dtype=bool)
    out["there"] = there
    for metric in METRICS:
        out[metric] = np.nan
    if there.any():
        a, b = out.loc[there, "written"].tolist(), out.loc[there, "true"].tolist()
        vectors = token_vectors(goals.encoder(goals.settings["scorer"]))
        for metric, values in generation.generation_scores(a, b, vectors).items():
            out.loc[there, metric] = values
        if goals.qa is not None:
            out.loc[there, "qa_accuracy"] = _answered(goals.qa, test.take(there), a)
    return out


def _answered(qa: generation.QuestionAnswerer, test: GoalTrials, written: list[str]) -> Array:
    table = test.trials.table
    right = table["gold_answer"].astype("str").tolist() if "gold_answer" in table else None
    if right is None:
        return np.full(len(test), np.nan)
    texts = [paragraph_text(test.trials, i) for i in range(len(test))]
    options = [sorted(set(right))] * len(test)
    return generation.qa_accuracy(written, test.questions, texts, options, right, qa)


# -- the run ----------------------------------------------------------------------------------


def run_goals(
    folder: Path,
    *,
    size: str = "cpu",
    changes: Mapping[str, Any] | None = None,
    root: str | None = None,
    publish: str | None = None,
    command: str | None = None,
    accelerator: str = "auto",
    qa: generation.QuestionAnswerer | None = None,
) -> pd.DataFrame:
    """Return the result rows of both tasks; what the folder holds is not done again.

    Parameters
    ----------
    folder
        Of the run: predictions of each model, fold and seed, ``results.parquet``, ``report.html``.
    size, changes
        See `goal_settings`.
    root
        Data folder.
    publish
        Folder for ``DATASET_goals.json``.
    command
        What the rows say was run.
    qa
        Answers questions for the QA accuracy; without one its cells are empty and say why.

    Raises
    ------
    DataError
        The folder holds predictions of other settings.
    """
    settings = goal_settings(size, changes)
    folder = Path(folder)
    stamp = json.dumps({k: v for k, v in settings.items() if k not in _FREE}, sort_keys=True)
    held = folder / "settings.json"
    if held.is_file() and held.read_text(encoding="utf-8").strip() != stamp:
        raise DataError("the folder holds predictions of other settings", source=held,
                        hint="choose another folder with hydra.run.dir=")  # fmt: skip
    goals = Goals(settings, str(settings["dataset"]), root, qa=qa)
    goals.split(0)  # what cannot be divided is refused before the folder says anything
    write_text(held, stamp)
    tables: dict[str, dict[str, pd.DataFrame]] = {t: {} for t in TASKS}
    for task in settings["tasks"]:
        for name in with_controls(settings[task], task):
            for fold, seed in _units(settings, name, task):
                place = folder / task / f"{name}_{fold}_{seed}"
                for label, table in _done(goals, task, name, fold, seed, place, accelerator):
                    known = tables[task].get(label)
                    whole = table if known is None else pd.concat([known, table])
                    tables[task][label] = whole.reset_index(drop=True)
            rows = goal_rows(goals, tables, size, command or "run_goals")
            write_parquet(folder / "results.parquet", rows)
    notes = notes_of(goals, size)
    write_json(folder / "notes.json", {"notes": notes})
    if publish is not None:
        _publish(Path(publish), rows, goals, size, notes)
    from gazeattn.report.goals import write_goals_page

    written = {n: t[t["there"]] for n, t in tables["reconstruction"].items()}
    write_goals_page(rows, folder, written=written, notes=notes, command=command or "")
    return rows


_FREE = ("tasks", "selection", "reconstruction", "seeds", "folds", "draws")
"""Settings that may differ between runs into one folder."""


def _units(settings: Mapping[str, Any], name: str, task: str) -> list[tuple[int, int]]:
    entry = goal_models.get(name)
    slow = getattr(entry.obj, "pairs", False)  # an encoder over every candidate
    llm = task == "reconstruction" or slow or issubclass(entry.obj, LlmSelection)
    every = list(range(int(settings["n_folds"])))
    folds = settings["folds"] if settings["folds"] is not None else every
    if llm and settings["limits"]["folds"] is not None:
        folds = [f for f in folds if f in settings["limits"]["folds"]] or folds[:1]
    chance = getattr(entry.obj, "trained", issubclass(entry.obj, GoalWriter))
    seeds = settings["seeds"] if chance else settings["seeds"][:1]
    return [(int(f), int(s)) for s in seeds for f in folds]


def _done(
    goals: Goals, task: str, name: str, fold: int, seed: int, place: Path, accelerator: str
) -> list[tuple[str, pd.DataFrame]]:
    files = sorted(place.glob("*.predictions.parquet"))
    if files:
        return [(f.name.removesuffix(".predictions.parquet"), pd.read_parquet(f)) for f in files]
    log.info("%s: %s, fold %d, seed %d", task, name, fold, seed)
    if task == "selection":
        with rooted(goals.root):
            found = select(goals, name, fold, seed, place, accelerator)
    else:
        found = reconstruct(goals, name, fold, seed, place)
    for label, table in found.items():
        write_parquet(place / f"{label}.predictions.parquet", table)
    return list(found.items())


def goal_rows(
    goals: Goals, tables: Mapping[str, Mapping[str, pd.DataFrame]], size: str, command: str
) -> pd.DataFrame:
    """Return the rows of all models that are there, in the common schema."""
    s = goals.settings
    draws, rows = int(s["draws"]), []
    chosen = dict(tables["selection"])
    if chosen:
        chosen[scores.CHANCE] = _chance(goals, chosen)
        kinds = {n: "control" if n == scores.CHANCE else _kind(n) for n in chosen}
        against = {n: _references(n, chosen) for n in chosen}
        metrics = list(scores.KINDS.values())
        rows += [(scores.SELECTION, r)
                 for r in scores.compared(chosen, metrics, against, kinds, draws)]  # fmt: skip
    written = {n: t[t["there"]] for n, t in tables["reconstruction"].items()}
    if written:
        kinds = {n: _kind(n) for n in written}
        against = {n: [*_references(n, written), *RETRIEVAL] if kinds[n] == "model" else []
                   for n in written}  # fmt: skip
        found = scores.compared(written, METRICS, against, kinds, draws)
        found += _corpus(written, kinds)
        rows += [(scores.RECONSTRUCTION, r) for r in found]
    grouped = next(iter(goals._folds.values()))[0].grouped_by if goals._folds else "text"
    under = size != "full"
    made = []
    for task, row in rows:
        note = "under-powered: few trials and a small model" if under else ""
        text = scores.convention(row["metric"], by=grouped, scorer=s["scorer"], note=note)
        if row["metric"] == "qa_accuracy" and not row["n"]:
            text = f"empty: {generation.NO_ANSWERER}"
        seeds = "mean" if len(s["seeds"]) > 1 else int(s["seeds"][0])
        made.append({
            "dataset": goals.dataset, "task": task, "split": f"{s['n_folds']}-fold by {s['by']}",
            "fold": "mean", "seed": seeds, "size": size, "command": command, "commit": commit(),
            "convention": text, **row,
        })  # fmt: skip
    return result_rows(made, EXTRA)


def _kind(label: str) -> str:
    return str(goal_models.get(label.removesuffix(f"_{LENGTHS[1]}")).info["kind"])


def _references(label: str, known: Mapping[str, Any]) -> list[str]:
    if label == scores.CHANCE:
        return []
    ending = f"_{LENGTHS[1]}" if label.endswith(f"_{LENGTHS[1]}") else ""
    control = goal_models.get(label.removesuffix(ending)).info.get("control")
    own = f"{control}{ending}" if control and f"{control}{ending}" in known else None
    return [n for n in dict.fromkeys([own, scores.CHANCE]) if n is not None and n in known]


def _chance(goals: Goals, chosen: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return what a guess reaches in all test trials of the folds that any model has."""
    parts = []
    for fold in sorted({int(f) for t in chosen.values() for f in t["fold"].unique()}):
        test, facts = goals.part(fold, "test")
        found = selection.chance(test.target, test.groups)
        named = {scores.KINDS[k]: v for k, v in found.items()}
        parts.append(facts.assign(seed=0, **named))
    return pd.concat(parts, ignore_index=True)


def _corpus(written: Mapping[str, pd.DataFrame], kinds: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = []
    for name, table in written.items():
        for regime in scores.REGIMES:
            part = scores.of_regime(table, regime)
            if len(part):
                value = generation.corpus_bleu(part["written"].tolist(), part["true"].tolist())
                rows.append({"model": name, "kind": kinds[name], "reference": "",
                             "regime": regime, "metric": "corpus_bleu", "value": value,
                             "low": np.nan, "high": np.nan, "n": len(part)})  # fmt: skip
    return rows


def notes_of(goals: Goals, size: str) -> list[str]:
    """Return sentences that a reader of the numbers needs."""
    counted = {x.reason: x.count for x in goals.lost}
    same = counted.get("candidates: same text", 0)
    other = counted.get("candidates: other text", 0)
    lines = [
        f"Beside the asked question, {same} candidates ask about the same text and {other} about "
        "another one (same set before others, same part of the split). Those about another text "
        "can be ruled out without the eyes: read accuracies with their text-only controls.",
        "A text that was read in training has its questions there: the headline is unseen text "
        "and both unseen.",
    ]
    if size != "full":
        limits = goals.settings["limits"]
        lines.append(
            f"Under-powered: language models score {limits['score']} and write for "
            f"{limits['write']} test trials a fold, writers are trained on {limits['train']} "
            f"trials, and see the first {goals.settings['writer']['most']} fixations "
            "(null: all of them)."
        )
    if goals.qa is None:
        lines.append(f"QA accuracy is empty: {generation.NO_ANSWERER}.")
    return lines


def _publish(folder: Path, rows: pd.DataFrame, goals: Goals, size: str, notes: list[str]) -> None:
    shared = {"dataset": goals.dataset, "task": NAME, "size": size, "notes": notes}
    content = pack_rows(rows.drop(columns=["dataset", "size"]))
    write_json(folder / f"{goals.dataset}_goals.json", {**shared, **content})


def _task(cfg: DictConfig) -> None:
    call = this_call(NAME)
    begin(call.folder, OmegaConf.to_yaml(cfg, resolve=True))
    write_environment(call.folder, environment(), call.command)
    own = [k for k in call.keys if k.split(".")[0] not in (*NOT_SETTINGS, "dataset")]
    rows = run_goals(
        call.folder,
        size=str(cfg.size.name),
        changes={"dataset": cfg.dataset.name, **{k: OmegaConf.select(cfg, k) for k in own}},
        root=original_path(cfg.root, call.base),
        publish=original_path(cfg.publish, call.base),
        command=call.command,
        accelerator=str(cfg.accelerator),
    )
    write_json(call.folder / "summary.json", {"rows": len(rows), "command": call.command})
    for task, metric in ((scores.SELECTION, "accuracy"), (scores.RECONSTRUCTION, "bertscore_f1")):
        part = rows[(rows["task"] == task) & (rows["metric"] == metric)]
        part = part[part["reference"] == ""]
        if len(part):
            wide = part.pivot_table(index="model", columns="regime", values="value", sort=False)
            wide = wide.reindex(columns=[r for r in ("all", *REGIMES) if r in wide])
            lines = [
                [str(name), *[f"{v:.3f}" if v == v else "–" for v in values]]
                for name, values in zip(wide.index, wide.to_numpy(), strict=True)
            ]
            print_table(f"{task}: {metric}", ["model", *map(str, wide.columns)], lines)
    print(f"report: {(call.folder / 'report.html').resolve()}")


def main(arguments: list[str]) -> int:
    """Run `gazeattn benchmark goals` with Hydra overrides."""
    return run_app(f"benchmark_{NAME}", _task, arguments)
