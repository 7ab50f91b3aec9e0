"""One row of the benchmark `eyelayer`: train a summariser, and say what it writes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from gazeattn.datamodules.code_gaze import code_readings, cross_folds
from gazeattn.datamodules.code_summaries import (
    GazeExample,
    SummaryData,
    SummaryExample,
    gaze_examples,
    shuffled_gaze,
    summary_examples,
)
from gazeattn.errors import DataError
from gazeattn.experiments.gaze_fit import states_of
from gazeattn.experiments.training import Training, train
from gazeattn.lm import LanguageModel
from gazeattn.losses import LossLog
from gazeattn.models.gaze_prior.pretraining import GazeTraining, fit_gaze
from gazeattn.models.gaze_prior.summariser import Summariser, end_token
from gazeattn.storage import write_json, write_parquet, write_text
from gazeattn.summaries.loading import load_summaries

PREDICTIONS, FACTS, SETTINGS = "predictions.parquet", "facts.json", "settings.json"


@dataclass(frozen=True)
class EyeData:
    """Pairs and readings, as tokens of a language model.

    Attributes
    ----------
    train, valid, test : list of SummaryExample
    gaze, held : list of GazeExample
        Readings to learn from; and those of developers and code that are held out.
    table, valid_table : DataFrame
        Facts of the test and validation pairs: id, project, name, code.
    lost : LossLog
    facts : dict
    """

    train: list[SummaryExample]
    valid: list[SummaryExample]
    test: list[SummaryExample]
    gaze: list[GazeExample]
    held: list[GazeExample]
    table: pd.DataFrame
    valid_table: pd.DataFrame
    lost: LossLog
    facts: dict[str, Any] = field(default_factory=dict)


def read_data(config: Mapping[str, Any], lm: LanguageModel, root: str | None) -> EyeData:
    """Return the data of all rows: they do not depend on the row or its seed."""
    from gazeattn.datasets import load

    lost = LossLog()
    readings = code_readings(load(str(config["gaze"]), root=root), lost)
    sources = sorted({r.text.source for r in readings})
    pairs = load_summaries(
        str(config["summaries"]), root=root, language=str(config["language"]), against=sources,
        lost=lost,
    )  # fmt: skip
    rng = np.random.default_rng(int(config["data"]["seed"]))
    parts, tables = {}, {}
    end = end_token(lm)
    for name in ("train", "val", "test"):
        table = pairs.part(name).table
        most = config["data"]["valid" if name == "val" else name]
        table = table.iloc[rng.permutation(len(table))]
        # as many as are asked for, of those that are short enough
        made: list[SummaryExample] = []
        step = len(table) if most is None else max(4 * int(most), 16)
        own = LossLog()
        for k in range(0, len(table), step):
            made += summary_examples(
                table.iloc[k : k + step], lm.tokenizer, end, longest=int(config["data"]["longest"]),
                most=int(config["data"]["most"]), lost=own,
            )  # fmt: skip
            if most is not None and len(made) >= int(most):
                break
        lost.extend(own)
        parts[name] = made[: None if most is None else int(most)]
        if not parts[name]:
            raise DataError(f"no pair of {name} is short enough", source=config["summaries"])
        tables[name] = table.set_index("id").loc[[e.id for e in parts[name]]].reset_index()
    examples = gaze_examples(readings, lm.tokenizer, lost)
    people, items = cross_folds(readings, int(config["folds"]), int(config["data"]["seed"]))
    inside, out = (people != 0) & (items != 0), (people == 0) & (items == 0)
    facts = {
        "train": len(parts["train"]), "valid": len(parts["val"]), "test": len(parts["test"]),
        "train_projects": int(tables["train"]["project"].nunique()),
        "test_projects": int(tables["test"]["project"].nunique()),
        "readings": int(inside.sum()), "held_readings": int(out.sum()),
        "developers": len({r.participant for r in readings}),
        "snippets": len({r.text.stimulus for r in readings}),
    }  # fmt: skip
    columns = ["id", "project", "name", "code"]
    return EyeData(
        train=parts["train"],
        valid=parts["val"],
        test=parts["test"],
        gaze=[e for e, k in zip(examples, inside, strict=True) if k],
        held=[e for e, k in zip(examples, out, strict=True) if k],
        table=tables["test"][columns],
        valid_table=tables["val"][columns],
        lost=lost,
        facts=facts,
    )


def row_settings(config: Mapping[str, Any]) -> dict[str, tuple[dict[str, Any], int]]:
    """Return what each row is made of, and on how many seeds.

    Raises
    ------
    DataError
        A row changes what is no setting.
    """
    base = dict(config["settings"])
    n = len(config["seeds"])
    only = config["only"]
    for name in only or ():
        if name not in config["rows"]:
            raise DataError("rows", expected=", ".join(config["rows"]), found=name)
    chosen = {k: (v, n) for k, v in config["rows"].items() if only is None or k in only}
    chosen |= {k: (v, int(config["changes_seeds"])) for k, v in config["changes"].items()}
    chosen |= {
        f"layer_{k}": ({"layer": int(k)}, int(config["sweep_seeds"])) for k in config["sweep"]
    }
    out = {}
    for name, (changes, seeds) in chosen.items():
        made = deepcopy(base)
        for key, value in (changes or {}).items():
            if key not in base:
                raise DataError(f"row {name}", expected=", ".join(base), found=key)
            made[key] = {**made[key], **value} if isinstance(value, Mapping) else value
        if seeds:
            out[name] = (made, min(seeds, n))
    return out


def build(settings: Mapping[str, Any], lm: LanguageModel, seed: int) -> Summariser:
    """Return the untrained summariser of a row."""
    learned = settings["prior"] is not None
    rank = settings["rank"]
    options = dict(settings["options"])
    return Summariser(
        lm,
        prior=settings["prior"],
        options=options if learned else {},
        layer=settings["layer"],
        rank=1 if rank is None else int(rank),
        alpha=int(settings["alpha"]),
        dropout=float(settings["dropout"]),
        first=int(settings["first"]),
        gaze_weight=float(settings["gaze_weight"]),
        lr=float(settings["lr"]),
        prior_lr=float(settings["prior_lr"]),
        weight_decay=float(settings["weight_decay"]),
        warmup=float(settings["warmup"]),
        seed=seed,
    )


def equal_rank(config: Mapping[str, Any], load: Any) -> int:
    """Return the rank that gives adapters alone as many parameters as adapters and prior."""
    whole = dict(config["settings"])
    target = build(whole, load(), 0).n_trained
    each = build({**whole, "prior": None, "rank": 1}, load(), 0).n_trained
    return max(1, round(target / each))


def fit_row(
    name: str, settings: Mapping[str, Any], config: Mapping[str, Any], data: EyeData, place: Path,
    seed: int, load: Any, *, root: str | None, accelerator: str, vectors: Any,
) -> pd.DataFrame:  # fmt: skip
    """Train one row and return its test table; a finished one is read.

    Raises
    ------
    DataError
        The folder holds the row in other settings.
    """
    stamp = json.loads(json.dumps({"row": dict(settings), "seed": seed, **{
        k: config[k] for k in ("training", "data", "writing", "summaries", "gaze", "folds", "lm",
                               "language", "scorer")
    }}))  # fmt: skip
    held = place / SETTINGS
    if held.is_file() and json.loads(held.read_text(encoding="utf-8")) != stamp:
        raise DataError("the folder holds the row in other settings", source=held,
                        hint="choose another folder with hydra.run.dir=")  # fmt: skip
    if (place / PREDICTIONS).is_file():
        return pd.read_parquet(place / PREDICTIONS)
    place.mkdir(parents=True, exist_ok=True)
    write_json(held, stamp)
    began = time.perf_counter()
    lm = load()
    gaze = data.gaze
    if settings["shuffled"]:
        gaze = shuffled_gaze(gaze, seed)
    model = build(settings, lm, seed)
    facts: dict[str, Any] = {"row": name, "seed": seed, "parameters": model.n_trained}
    stage = GazeTraining.of(settings["stage_a"])
    if model.learns_gaze and stage.epochs and not (place / "checkpoints").is_dir():
        assert model.attached is not None
        prompts = {e.stimulus: e.prompt for e in [*gaze, *data.held]}
        states = states_of(lm, prompts, model.attached.layer, root)
        stop = shuffled_gaze(data.held, seed) if settings["shuffled"] else data.held
        curve = fit_gaze(model.attached.prior, states, gaze, stop, stage, seed)  # type: ignore[arg-type]
        write_text(place / "stage_a.csv", curve.to_csv(index=False))
    if getattr(model.prior, "mixture", None) is not None:
        facts["gaze_kl_before"] = float(model.gaze_losses(data.held).mean())
    module = SummaryData(
        data.train, data.valid, model.pad, batch_size=int(config["training"]["batch_size"]),
        gaze=gaze if model.learns_gaze else (), per_batch=int(settings["gaze_per_batch"]),
        seed=seed,
    )  # fmt: skip
    done = train(
        model, module, place, Training.of(config["training"]), seed=seed, accelerator=accelerator
    )
    state = torch.load(done.best, map_location="cpu", weights_only=True)["state_dict"]
    lost = model.load_state_dict(state, strict=False)
    if lost.unexpected_keys:
        raise DataError("the checkpoint is another model's", source=done.best,
                        found=lost.unexpected_keys[0])  # fmt: skip
    facts["train_seconds"] = round(time.perf_counter() - began, 1)
    facts["epochs"] = done.epochs
    if getattr(model.prior, "mixture", None) is not None:
        facts["gaze_kl"] = float(model.gaze_losses(data.held).mean())
    table = scored(model, data, config, vectors)
    model.save(place / "model")
    write_json(place / FACTS, {**facts, "seconds": round(time.perf_counter() - began, 1)})
    write_parquet(place / PREDICTIONS, table)  # last: it says that the row is finished
    return table


def scored(
    model: Summariser, data: EyeData, config: Mapping[str, Any], vectors: Any
) -> pd.DataFrame:
    """Return a row per test pair with what is written and its scores."""
    writing = config["writing"]
    total, n = model.losses_of(data.test, int(writing["batch_size"]))
    written = model.write(
        data.test, beams=int(writing["beams"]), longest=int(writing["longest"]),
        batch_size=int(writing["batch_size"]),
    )  # fmt: skip
    return score_texts(data, written, vectors).assign(nll=total / n, tokens=n)


def score_texts(data: EyeData, written: Sequence[str], vectors: Any) -> pd.DataFrame:
    """Return a row per test pair with a written summary and its scores."""
    from gazeattn.metrics.generation import bert_scores
    from gazeattn.metrics.summaries import summary_scores

    true = [e.text for e in data.test]
    table = data.table[["id", "project"]].assign(true=true, written=list(written))
    for metric, values in summary_scores(list(written), true).items():
        table[metric] = values
    if vectors is not None:
        table["bertscore_f1"] = bert_scores(list(written), true, vectors)[:, 2]
    return table
