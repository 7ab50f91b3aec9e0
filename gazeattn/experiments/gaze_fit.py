"""The benchmark `gaze_fit`: gaze of programmers who, on code that, was never seen in training."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from gazeattn.datamodules.code_gaze import (
    code_readings,
    cross_folds,
    subword_mass,
    subword_target,
)
from gazeattn.datamodules.code_prompts import CodePrompt, code_prompt
from gazeattn.errors import DataError
from gazeattn.experiments._gaze_baselines import (
    BASELINES,
    Fitting,
    Floats,
    Snippet,
    line_starts,
    means_of,
    roles_of,
)
from gazeattn.experiments._gaze_learned import fit_ensemble
from gazeattn.experiments.app import original_path, run_app
from gazeattn.experiments.benchmark_apps import this_call
from gazeattn.experiments.building import sized
from gazeattn.experiments.runs import begin, environment, write_environment
from gazeattn.experiments.terminal import StageProgress, print_table
from gazeattn.lm import LanguageModel
from gazeattn.losses import LossLog
from gazeattn.metrics.prediction import cluster_draws
from gazeattn.results import pack_rows, result_rows
from gazeattn.storage import atomic_path, data_root, write_json, write_parquet, write_text

log = logging.getLogger(__name__)
NAME = "gaze_fit"
CEILING = "other_developers"
LEARNED = {"mixture": {"content": 0}, "mixture_content": {}}
METRICS = ("kl", "auc", "top10")
CONVENTIONS = {
    "kl": "KL(reading || prior) in nats, tokens of the model, 1 ms each added; lower is better",
    "auc": "area under the curve of tokens that were looked at against those that were not",
    "top10": "share of the ten tokens with most time among the ten with the largest prior",
}
HIGHER = {"kl": False, "auc": True, "top10": True}


def states_of(
    lm: LanguageModel, prompts: Mapping[str, CodePrompt], layer: float | int, root: str | None
) -> dict[str, Floats]:
    """Return the states behind a block, (length, width) of each prompt, kept by content."""
    from gazeattn.models.gaze_prior.attach import place_of

    block, _ = place_of(lm.model, layer)
    found = {}
    for name, prompt in prompts.items():
        key = hashlib.sha256(prompt.ids.tobytes())
        key.update(f"{lm.info.get('sha')} {lm.name} {block}".encode())
        path = data_root(root) / "code_states" / f"{key.hexdigest()[:32]}.npy"
        if path.is_file():
            found[name] = np.load(path, allow_pickle=False)
            continue
        kept: list[torch.Tensor] = []

        def keep(_m: Any, _i: Any, out: Any, kept: list[torch.Tensor] = kept) -> None:
            kept.append((out if isinstance(out, torch.Tensor) else out[0])[0])

        handle = lm.model.get_submodule(block).register_forward_hook(keep)
        try:
            with torch.inference_mode():
                lm.model(input_ids=torch.from_numpy(prompt.ids)[None])
        finally:
            handle.remove()
        found[name] = kept[0].float().numpy()
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as new:
            np.save(new, found[name], allow_pickle=False)
    return found


def read_fitting(
    dataset: str, lm_name: str, layer: float | int, root: str | None, lost: LossLog
) -> Fitting:
    """Return readings of code with their targets, and what is known of the code."""
    from gazeattn.datasets import load

    readings = code_readings(load(dataset, root=root), lost)
    texts = {r.text.stimulus: r.text for r in readings}
    lm = LanguageModel.load(lm_name, root=root)
    prompts = {n: code_prompt(lm.tokenizer, t.source, t.language) for n, t in texts.items()}
    states = states_of(lm, prompts, layer, root)
    snippets, targets, seen = {}, [], []
    for name, text in texts.items():
        prompt, own = prompts[name], states[name]
        code, offsets = prompt.code, prompt.offsets[prompt.code]
        position = np.linspace(0, 1, int(code.sum())) if code.sum() > 1 else np.zeros(1)
        letters = [sum(not c.isspace() for c in text.source[a:b]) for a, b in offsets.tolist()]
        snippets[name] = Snippet(
            name, text.item, position, np.array(letters, dtype=np.float64),
            roles_of(text.source, text.language, offsets), line_starts(text.source, offsets),
            own[code].astype(np.float64), own[prompt.start].astype(np.float64),
        )  # fmt: skip
    for reading in readings:
        prompt = prompts[reading.text.stimulus]
        mass = subword_mass(reading.mass, reading.text.spans, prompt.offsets, lost)
        target = subword_target(mass, prompt.code)
        targets.append(target[prompt.code])
        seen.append(mass[prompt.code] > 0)
    return Fitting(readings, targets, seen, snippets)


def scores(log_g: Floats, target: Floats, seen: NDArray[np.bool_]) -> dict[str, float]:
    """Return how well a prior tells one reading: kl, auc, top10."""
    from scipy.stats import rankdata

    kl = float(target @ (np.log(target) - log_g))
    hit = int(seen.sum())
    auc = float("nan")
    if 0 < hit < len(seen):
        rank = rankdata(log_g)
        auc = (rank[seen].sum() - hit * (hit + 1) / 2) / (hit * (len(seen) - hit))
    k = min(10, len(target))
    most = set(np.argsort(-target, kind="stable")[:k])
    # ties of a prior are cut at random places: the expected overlap counts
    edge = float(np.sort(log_g)[-k])
    above, tied = log_g > edge, log_g == edge
    left = k - int(above.sum())
    overlap = float(sum(bool(above[m]) for m in most))
    overlap += left / max(int(tied.sum()), 1) * sum(bool(tied[m]) for m in most)
    return {"kl": kl, "auc": auc, "top10": overlap / k}


def cell_scores(
    data: Fitting, people: NDArray[np.int64], items: NDArray[np.int64], cell: tuple[int, int],
    settings: Mapping[str, Any],
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the scores of all priors for the readings of one cell of developers and items."""
    test = (people == cell[0]) & (items == cell[1])
    train = (people != cell[0]) & (items != cell[1])
    if not test.any():
        return []
    targets, n = means_of(data, train)
    known = [data.snippets[s] for s in targets]
    priors = {name: make(known, targets, n) for name, make in BASELINES.items()}
    for name, changes in LEARNED.items():
        options = {**settings["learned"], **changes}
        priors[name] = fit_ensemble(data, train, people, items, options, int(settings["seed"]))
    rows = []
    for k in np.flatnonzero(test):
        reading = data.readings[k]
        name = reading.text.stimulus
        base = {
            "participant": reading.participant, "item": reading.text.item, "stimulus": name,
            "trial": reading.trial, "cell": f"{cell[0]}_{cell[1]}",
        }  # fmt: skip
        for prior, tell in priors.items():
            found = scores(tell(data.snippets[name]), data.targets[k], data.seen[k])
            rows.append({**base, "model": prior, **found})
        others = [
            i for i, r in enumerate(data.readings)
            if r.text.stimulus == name and r.participant != reading.participant
        ]  # fmt: skip
        if others:
            mean = np.mean([data.targets[i] for i in others], axis=0)
            rows.append({**base, "model": CEILING,
                         **scores(np.log(mean), data.targets[k], data.seen[k])})  # fmt: skip
    return rows


def interval_rows(
    table: pd.DataFrame, reference: str, fixed: Mapping[str, Any], draws: int
) -> list[dict[str, Any]]:
    """Return mean and difference to `reference` of each prior, developers and items drawn."""
    names = list(dict.fromkeys(table["model"]))
    wide = {m: table.pivot(index="trial", columns="model", values=m) for m in METRICS}
    facts = table.drop_duplicates("trial").set_index("trial").loc[wide["kl"].index]
    times = []
    for seed, column in enumerate(("participant", "item")):
        unique = np.unique(facts[column])
        drawn = cluster_draws(unique, draws, seed)
        times.append(drawn[:, np.searchsorted(unique, facts[column])])
    weights = times[0] * times[1]
    rows = []
    for metric in METRICS:
        values = wide[metric]
        for name in names:
            for against in ("", reference) if name != reference else ("",):
                column = values[name] - values[against] if against else values[name]
                v = column.to_numpy(dtype=np.float64)
                if against and not HIGHER[metric]:
                    v = -v
                there = ~np.isnan(v)
                w = weights[:, there]
                total = w.sum(1)
                drawn = (w @ v[there])[total > 0] / total[total > 0]
                low, high = np.quantile(drawn, [0.025, 0.975])
                rows.append({**fixed, "model": name, "reference": against, "metric": metric,
                             "kind": kind_of(name), "value": float(v[there].mean()),
                             "low": float(low), "high": float(high), "n": int(there.sum()),
                             "convention": CONVENTIONS[metric]})  # fmt: skip
    return rows


def kind_of(name: str) -> str:
    """Return whether a prior is a model, a baseline or the ceiling."""
    if name == CEILING:
        return "ceiling"
    return "model" if name in LEARNED else "baseline"


def run_gaze_fit(
    folder: Path, settings: Mapping[str, Any], *, root: str | None = None,
    publish: str | None = None, command: str = "", size: str = "cpu",
) -> pd.DataFrame:  # fmt: skip
    """Return the result rows; cells that the folder holds are not done again.

    Parameters
    ----------
    folder
    settings
        As conf/benchmark_gaze_fit.yaml has them.
    root, publish
        Data folder, and folder for the table as JSON.
    command, size
        For the rows.
    """
    folds, lost = int(settings["folds"]), LossLog()
    stamp = OmegaConf.to_yaml(OmegaConf.create(dict(settings)))
    held = folder / "settings.yaml"
    if held.is_file() and held.read_text(encoding="utf-8") != stamp:
        raise DataError("the folder holds results of other settings", source=held,
                        hint="choose another folder with hydra.run.dir=")  # fmt: skip
    with StageProgress() as bar:
        bar.stage("reading code, gaze and states")
        data = read_fitting(
            str(settings["dataset"]), str(settings["lm"]), settings["layer"], root, lost
        )
        people, items = cross_folds(data.readings, folds, int(settings["data_seed"]))
        folder.mkdir(parents=True, exist_ok=True)
        write_text(held, stamp)
        cells = [(i, j) for i in range(folds) for j in range(folds)][: settings["cells"]]
        parts = []
        for done, cell in enumerate(cells, 1):
            bar.update(f"developers {cell[0]}, code {cell[1]}", done, len(cells))
            path = folder / "cells" / f"{cell[0]}_{cell[1]}.parquet"
            if not path.is_file():
                made = cell_scores(data, people, items, cell, settings)
                write_parquet(path, pd.DataFrame(made))
            parts.append(pd.read_parquet(path))
    table = pd.concat([p for p in parts if len(p)], ignore_index=True)
    fixed = {
        "dataset": settings["dataset"], "task": NAME, "size": size,
        "split": f"{folds} x {folds} cells of developers and code, both unseen",
        "regime": "unseen_both", "command": command,
        "commit": environment().get("commit") or "",
    }  # fmt: skip
    rows = result_rows(
        interval_rows(table, str(settings["reference"]), fixed, int(settings["draws"])),
        ("kind", "reference"),
    )
    write_parquet(folder / "readings.parquet", table)
    write_parquet(folder / "results.parquet", rows)
    write_text(folder / "lost.csv", lost.to_frame().to_csv(index=False))
    facts = {
        "dataset": settings["dataset"], "task": NAME, "lm": settings["lm"], "size": size,
        "readings": int(table["trial"].nunique()), "developers": int(table.participant.nunique()),
        "stimuli": int(table["stimulus"].nunique()), "items": int(table["item"].nunique()),
    }  # fmt: skip
    write_json(folder / "summary.json", {**facts, "command": command})
    if publish is not None:
        packed = pack_rows(rows.drop(columns=["dataset", "task", "size"]))
        write_json(Path(publish) / f"{NAME}.json", {**facts, **packed})
    from gazeattn.report.gaze_fit import write_gaze_fit_page

    write_gaze_fit_page(rows, folder, facts=facts, command=command)
    return rows


def _task(cfg: DictConfig) -> None:
    call = this_call(NAME)
    plain = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(plain, dict)
    begin(call.folder, OmegaConf.to_yaml(cfg, resolve=True))
    write_environment(call.folder, environment(), call.command)
    size = str(cfg.size.name)
    mine = {k: plain[k] for k in (*SETTINGS, "sizes") if k not in ("dataset", "lm")}
    settings = sized(mine, size, [k for k in call.keys if k.split(".")[0] in mine])
    settings["dataset"], settings["lm"] = str(cfg.dataset.name), str(cfg.lm.name)
    rows = run_gaze_fit(
        call.folder, settings, root=original_path(cfg.root, call.base),
        publish=original_path(cfg.publish, call.base), command=call.command, size=size,
    )  # fmt: skip
    _print(rows)
    print(f"report: {(call.folder / 'report.html').resolve()}")


SETTINGS = ("dataset", "lm", "layer", "folds", "cells", "draws", "seed", "data_seed", "reference",
            "learned")  # fmt: skip


def _print(rows: pd.DataFrame) -> None:
    plain = rows[rows["reference"] == ""]
    lines = []
    for name in dict.fromkeys(plain["model"]):
        mine = plain[plain["model"] == name].set_index("metric")
        cells: Sequence[str] = [
            f"{mine.loc[m, 'value']:.3f} [{mine.loc[m, 'low']:.3f}, {mine.loc[m, 'high']:.3f}]"
            for m in METRICS
        ]
        lines.append([f"{name} ({kind_of(name)})", *cells])
    print_table("gaze of unseen developers on unseen code", ["prior", *METRICS], lines)


def main(arguments: list[str]) -> int:
    """Run `gazeattn benchmark gaze_fit` with Hydra overrides."""
    return run_app(f"benchmark_{NAME}", _task, arguments)
