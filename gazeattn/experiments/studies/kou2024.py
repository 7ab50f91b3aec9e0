"""Programmers' important words against twelve kinds of model attention (Kou et al., 2024, FSE)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gazeattn.attention.spans import (
    SpanCounts,
    chance_scores,
    locate,
    span_counts,
    span_scores,
    top_tokens,
)
from gazeattn.datasets import GazeDataset
from gazeattn.datasets import load as load_dataset
from gazeattn.errors import DataError
from gazeattn.experiments.terminal import StageProgress
from gazeattn.registry import register_study
from gazeattn.storage import read_parquet, write_parquet

NAME = "kou2024"
BLANKS = ("incoder", ("inputxgradient_reading", "inputxgradient_coding", "saliency_reading",
                      "saliency_coding"))  # fmt: skip
"""Model and methods whose tokens were placed in the prompt without its blanks."""
FIVE = ("incoder", "codegen", "codeparrot", "gptj", "polycoder")
SCORES = ("precision", "recall", "f1", "alpha")
STORED = ("humaneval", "mbpp", "all")
WORD = re.compile(r"\w+")


def human_ranges(data: GazeDataset) -> dict[str, NDArray[np.int64]]:
    """Return the ranges that people marked in each prompt, as the authors scored them."""
    table = data.reports["human_spans_as_scored"]
    return {
        str(name): rows[["start", "end_as_scored"]].to_numpy(np.int64)
        for name, rows in table.groupby("stimulus")
    }


def stored_counts(data: GazeDataset, ks: Sequence[int], progress: Any = None) -> pd.DataFrame:
    """Return the counts of agreement of every stored row: one per prompt, model, method and k.

    Returns
    -------
    DataFrame
        ``benchmark, stimulus, model, method, k, location`` and ``counts`` (`SpanCounts`).
        ``location`` is ``published``; for `BLANKS` also ``plain``, the tokens' own places.
    """
    human = human_ranges(data)
    nothing = np.zeros((0, 2), dtype=np.int64)
    table = data.reports["attention"]
    out = []
    for done, row in enumerate(table.to_dict("records")):
        if progress is not None and done % 500 == 0:
            progress("stored attention", done, len(table))
        name, score = str(row["stimulus"]), np.asarray(row["score"], dtype=np.float64)
        model, method = str(row["model"]), str(row["method"])
        places = {"published": np.stack([row["start"], row["end"]], 1).astype(np.int64)}
        if model == BLANKS[0] and method in BLANKS[1]:
            places["plain"] = places["published"]
            text = str(data.stimuli[name]["text"]).replace(" ", "")
            places["published"] = locate([str(t) for t in row["tokens"]], text)
        benchmark = name.partition("_")[0]
        for location, place in places.items():
            there = place[:, 0] >= 0
            for k in ks:
                chosen = top_tokens(score[there], k)
                counts = span_counts(human.get(name, nothing), place[there], chosen)
                out.append((benchmark, name, model, method, k, location, counts))
    names = ["benchmark", "stimulus", "model", "method", "k", "location", "counts"]
    return pd.DataFrame(out, columns=names)


def summed(rows: pd.DataFrame) -> dict[str, float]:
    """Return the scores of the counts of some prompts together."""
    total = SpanCounts()
    for counts in rows["counts"]:
        total += counts
    return span_scores(total)


def stored_rows(counts: pd.DataFrame, models: Mapping[str, set[str]]) -> pd.DataFrame:
    """Return scores by block, method, model and k; ``average`` is the mean over five models.

    Parameters
    ----------
    counts
        From `stored_counts`.
    models
        Benchmarks of which each model's attention is there.
    """
    rows = []
    for location, part in counts.groupby("location"):
        keys = ["method", "model", "k"]
        for (method, model, k), mine in part.groupby(keys, sort=False):
            blocks = {b: rows_ for b, rows_ in mine.groupby("benchmark")}
            if models[str(model)] == {"humaneval", "mbpp"}:
                blocks["all"] = mine
            for block, chosen in blocks.items():
                rows.append({"block": block, "location": location, "method": method,
                             "model": model, "k": k, **summed(chosen)})  # fmt: skip
    found = pd.DataFrame(rows)
    five = found[(found["block"] == "humaneval") & (found["location"] == "published")
                 & found["model"].isin(FIVE)]  # fmt: skip
    mean = five.groupby(["method", "k"], sort=False)[list(SCORES)].mean().reset_index()
    n = five.groupby(["method", "k"], sort=False)["model"].nunique().to_numpy()
    mean = mean[n == len(FIVE)].assign(block="averages_humaneval", location="published",
                                       model="average")  # fmt: skip
    return pd.concat([found, mean], ignore_index=True)


def reference_rows(reference: Mapping[str, Any]) -> pd.DataFrame:
    """Return the recomputed and the published figures as rows: block, method, model, k, scores."""
    rows = []
    for block in STORED:
        for method, models in reference[block].items():
            for model, tops in models.items():
                for top, values in tops.items():
                    rows.append({"block": block, "location": "published", "method": method,
                                 "model": model, "k": int(top[3:]), **values})  # fmt: skip
    for block in ("averages_humaneval", "averages_all"):
        for method, tops in reference[block].items():
            for top, values in tops.items():
                rows.append({"block": block, "location": "published", "method": method,
                             "model": "average", "k": int(top[3:]), **values})  # fmt: skip
    for method, tops in reference["incoder_plain_location"].items():
        for top, blocks in tops.items():
            for block, values in blocks.items():
                rows.append({"block": block, "location": "plain", "method": method,
                             "model": "incoder", "k": int(top[3:]), **values})  # fmt: skip
    return pd.DataFrame(rows)


def beside(ours: pd.DataFrame, reference: pd.DataFrame) -> pd.DataFrame:
    """Return our figures beside the given ones: ``ours, given, difference`` by score.

    Raises
    ------
    DataError
        Nothing can be compared.
    """
    keys = ["block", "location", "method", "model", "k"]
    both = ours.merge(reference, on=keys, suffixes=("", "_given"))
    rows = []
    for score in SCORES:
        part = both[[*keys]].assign(metric=score, ours=both[score], given=both[f"{score}_given"])
        rows.append(part)
    found = pd.concat(rows, ignore_index=True).dropna(subset=["ours", "given"])
    if not len(found):
        raise DataError("no stored figure can be compared")
    return found.assign(difference=found["ours"].round(6) - found["given"])


# -- live ------------------------------------------------------------------------------------


def live_task(lm: Any, prompt: str, methods: Sequence[str], longest: int) -> pd.DataFrame:
    """Return ``method, start, end, score`` of every token (or word) of one prompt."""
    from gazeattn.lm import stages

    written = stages.write_after(lm, prompt, longest)
    rows = []
    own = [m for m in methods if m in stages.METHODS]
    spans = [_trimmed(prompt, int(a), int(b)) for a, b in written.offsets]
    for method, score in stages.stage_weights(lm, written, own).items():
        rows += [(method, a, b, float(s)) for (a, b), s in zip(spans, score, strict=True)]
    words = np.array([m.span() for m in WORD.finditer(prompt)], dtype=np.int64).reshape(-1, 2)
    kinds = [m for m in methods if m in ("deletion", "likely_word")]
    if kinds and len(words):
        base = stages.text_losses(lm, [prompt], written.new)[0]
    for kind in kinds:
        if not len(words):
            continue
        instead = [""] * len(words)
        if kind == "likely_word":
            instead = stages.likely_words(lm, prompt, words)
        changed = [prompt[:a] + w + prompt[b:] for (a, b), w in zip(words, instead, strict=True)]
        losses = stages.text_losses(lm, changed, written.new)
        rows += [(kind, int(a), int(b), float(s - base))
                 for (a, b), s in zip(words, losses, strict=True)]  # fmt: skip
    return pd.DataFrame(rows, columns=["method", "start", "end", "score"])


def _trimmed(text: str, a: int, b: int) -> tuple[int, int]:
    """Return a range without the blanks at its ends; (-1, -1) where nothing is left."""
    while a < b and text[a].isspace():
        a += 1
    while b > a and text[b - 1].isspace():
        b -= 1
    return (a, b) if a < b else (-1, -1)


def live_rows(
    tables: Mapping[str, pd.DataFrame], human: Mapping[str, NDArray[np.int64]],
    ks: Sequence[int | float], first_token: Sequence[str], draws: int, model: str,
) -> pd.DataFrame:  # fmt: skip
    """Return scores with intervals over tasks, beside as many tokens chosen by chance.

    Parameters
    ----------
    tables
        From `live_task`, by prompt.
    human
        Ranges that people marked.
    ks
        Numbers or shares of tokens.
    first_token
        ``"keep"`` and ``"drop"``: with and without the first token of a prompt.
    draws
        Of prompts.
    model
    """
    nothing = np.zeros((0, 2), dtype=np.int64)
    names = list(tables)
    picks = np.random.default_rng(0).integers(0, len(names), (draws, len(names)))
    rows = []
    methods = list(dict.fromkeys(m for t in tables.values() for m in t["method"]))
    for method in methods:
        for rule in first_token:
            if rule == "drop" and method in ("deletion", "likely_word"):
                continue
            parts = []
            for name in names:
                mine = tables[name][tables[name]["method"] == method]
                mine = mine.iloc[1:] if rule == "drop" else mine
                mine = mine[mine["start"] >= 0]
                place = mine[["start", "end"]].to_numpy(np.int64)
                parts.append((place, mine["score"].to_numpy(np.float64)))
            for k in ks:
                each = [
                    span_counts(human.get(n, nothing), place, top_tokens(score, k))
                    for n, (place, score) in zip(names, parts, strict=True)
                ]
                values = _drawn(each, picks)
                chance = chance_scores([human.get(n, nothing) for n in names],
                                       [place for place, _ in parts], k)  # fmt: skip
                total = SpanCounts()
                for c in each:
                    total += c
                found = span_scores(total)
                for metric in ("f1", "alpha"):
                    low, high = np.nanquantile(values[metric], [0.025, 0.975])
                    rows.append({
                        "model": model, "method": method, "first_token": rule, "k": k,
                        "metric": metric, "value": found[metric], "low": float(low),
                        "high": float(high), "chance": chance[metric], "n": len(names),
                    })  # fmt: skip
    return pd.DataFrame(rows)


def _drawn(each: Sequence[SpanCounts], picks: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Return f1 and alpha of drawn prompts together."""
    c = np.array([[x.precision, x.recall, x.n_model, x.n_human, x.both, x.human, x.model,
                   x.neither] for x in each], dtype=np.float64)  # fmt: skip
    s = c[picks].sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        p, r = s[:, 0] / s[:, 2], s[:, 1] / s[:, 3]
        f1 = np.where(p + r > 0, 2 * p * r / (p + r), 0.0)
        units = s[:, 4:].sum(1)
        ones, n = 2 * s[:, 4] + s[:, 5] + s[:, 6], 2 * units
        alpha = 1 - (s[:, 5] + s[:, 6]) / units / (2 * (n - ones) * ones / (n * (n - 1)))
    return {"f1": f1, "alpha": alpha}


# -- the study -------------------------------------------------------------------------------


@register_study(
    NAME,
    description="programmers' important words in tasks against twelve kinds of model attention",
    citation="Kou et al. 2024, FSE, doi 10.1145/3660807",
    data="llm_code_attention",
)
def run(
    folder: Path, config: Mapping[str, Any], *, root: str | None, bar: StageProgress
) -> dict[str, Any]:
    """Return the parts of the study: ``stored``, ``live`` (tables) and ``says`` (sentences)."""
    bar.stage("reading prompts, labels and stored attention")
    data = load_dataset("llm_code_attention", root=root)
    path = folder / "stored.parquet"
    ks = [int(k) for k in config["k"]]
    if path.is_file():
        ours = read_parquet(path, "the stored figures", SCORES)
    else:
        counts = stored_counts(data, ks, bar.update)
        models = {str(m): set(r["benchmark"]) for m, r in counts.groupby("model")}
        ours = stored_rows(counts, models)
        write_parquet(path, ours)
    reference = reference_rows(_reference(root))
    compared = beside(ours, reference)
    write_parquet(folder / "compared.parquet", compared)
    right = int((compared["difference"].abs() < 5e-7).sum())
    says = [
        f"Stored attention of {ours['model'].nunique() - 1} models: {right:,} of {len(compared):,} "
        "given figures (F1, precision, recall, alpha) are reproduced to the last digit."
    ]
    shown = reference[~reference["block"].isin(ours["block"])]
    live = pd.DataFrame()
    if config["live"]:
        live = _live(folder, config, data, root, bar)
        write_parquet(folder / "live.parquet", live)
        says += live_sentences(live, reference)
    return {"compared": compared, "published_only": shown, "live": live, "says": says}


def _reference(root: str | None) -> dict[str, Any]:
    from gazeattn.datasets.corpus import corpus, find_folder

    found = find_folder(corpus("llm_code_attention"), root)
    path = None if found is None else found / "reference_alignment.json"
    if path is None or not path.is_file():
        raise DataError("the given figures are missing", expected="reference_alignment.json",
                        source=found)  # fmt: skip
    content = json.loads(path.read_text(encoding="utf-8"))
    return {str(k): v for k, v in content.items()}


def _live(
    folder: Path, config: Mapping[str, Any], data: GazeDataset, root: str | None, bar: StageProgress
) -> pd.DataFrame:
    from gazeattn.lm import LanguageModel

    human = human_ranges(data)
    names = [n for n in data.trials["stimulus"].astype(str) if n.startswith("humaneval")]
    names = sorted(set(names), key=lambda n: int(n.rpartition("_")[2]))[: config["tasks"]]
    lm = None
    tables = {}
    for done, name in enumerate(names, 1):
        bar.update(f"live: {name}", done, len(names))
        path = folder / "live" / f"{name}.parquet"
        if path.is_file():
            table = read_parquet(path, "the attention of a task", ("method", "score"))
            if set(table["method"]) == set(config["methods"]):
                tables[name] = table
                continue
        lm = LanguageModel.load(str(config["lm"]), root=root) if lm is None else lm
        prompt = str(data.stimuli[name]["text"])
        tables[name] = live_task(lm, prompt, list(config["methods"]), int(config["longest"]))
        write_parquet(path, tables[name])
    ks: list[int | float] = [*map(int, config["k"]), *map(float, config["shares"])]
    return live_rows(tables, human, ks, list(config["first_token"]), int(config["draws"]),
                     str(config["lm"]))  # fmt: skip


def live_sentences(live: pd.DataFrame, reference: pd.DataFrame) -> list[str]:
    """Say which methods agree better than chance, and how that stands to the published models."""
    part = live[(live["metric"] == "f1") & (live["k"] == 10) & (live["first_token"] == "keep")]
    above = part[part["low"] > part["chance"]].sort_values("value", ascending=False)
    text = (
        f"Live, {part['n'].max()} tasks of HumanEval, top 10 tokens: "
        f"{len(above)} of {len(part)} methods agree better with people than as many tokens chosen "
        f"by chance (F1 {part['chance'].mean():.3f})"
    )
    if len(above):
        best = above.to_dict("records")[0]
        text += (
            f"; the best is {best['method']} with {best['value']:.3f} "
            f"[{best['low']:.3f}, {best['high']:.3f}]"
        )
    given = reference[(reference["block"] == "averages_humaneval") & (reference["k"] == 10)]
    if len(given):
        top = given.sort_values("f1", ascending=False).to_dict("records")[0]
        text += f". Five larger models on all 164 tasks: at best {top['f1']:.3f} ({top['method']})"
    return [text + "."]
