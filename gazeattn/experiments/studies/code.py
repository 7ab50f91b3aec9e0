"""Where programmers look on code against where a language model attends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from gazeattn.attention import compare
from gazeattn.datamodules.code_classes import class_table, token_looks
from gazeattn.datamodules.code_priors import coverage_counts
from gazeattn.datasets import load as load_dataset
from gazeattn.errors import DataError
from gazeattn.experiments.terminal import StageProgress
from gazeattn.lm import LanguageModel
from gazeattn.registry import register_study
from gazeattn.storage import read_parquet, write_parquet

NAME = "code"
AGREEMENT = ["method", "kind", "value", "low", "high", "ceiling", "p", "q", "n_trials"]


def class_ratios(profiles: pd.DataFrame, classes: pd.DataFrame) -> pd.DataFrame:
    """Return the attention on a token of each class over that on any, by method.

    Parameters
    ----------
    profiles
        Of `gazeattn.Comparison`: shares over the words of each text, by ``name``.
    classes
        From `gazeattn.datamodules.code_classes.class_table`, with the ``index`` of each word.

    Returns
    -------
    DataFrame
        One row per method and class: ``ratio`` (1: as much as even attention), ``words``.
    """
    keys = ["stimulus", "index"]
    both = profiles.merge(classes[[*keys, "class"]], on=keys, how="left", validate="m:1")
    if both["class"].isna().any():
        row = both[both["class"].isna()].iloc[0]
        raise DataError("a word of the code has no class", source=row["stimulus"],
                        found=row["text"])  # fmt: skip
    both = both[both["weight"].notna()]
    even = both.groupby(["name", "stimulus"])["weight"].transform("mean")
    both = both.assign(ratio=both["weight"] / even)
    found = both.groupby(["name", "class"])["ratio"].agg(["mean", "size"]).reset_index()
    return found.rename(columns={"name": "method", "mean": "ratio", "size": "words"})


def human_ratios(name: str, root: str | None) -> pd.DataFrame:
    """Return time on a token of each class over time on any, by reader: rows of readers.

    Returns
    -------
    DataFrame
        Index participant, a column per class.
    """
    counts = coverage_counts(token_looks(load_dataset(name, root=root)))
    totals = counts.groupby("trial")[["ms", "tokens"]].transform("sum")
    counts = counts[(totals["ms"] > 0) & (totals["tokens"] > 0)]
    groups = counts.groupby(["participant", "kind"])[["ms", "tokens"]].sum()
    each = groups.groupby("participant").transform("sum")
    ratio = (groups["ms"] / each["ms"]) / (groups["tokens"] / each["tokens"])
    return ratio.unstack("kind")


def transfer(
    models: pd.DataFrame, human: Mapping[str, pd.DataFrame], draws: int, seed: int = 0
) -> pd.DataFrame:
    """Return the rank correlation over classes between attention and the readers of each corpus.

    Parameters
    ----------
    models
        From `class_ratios`.
    human
        From `human_ratios`, by corpus.
    draws
        Of readers, for the intervals.

    Returns
    -------
    DataFrame
        ``dataset, method, value, low, high, ceiling, classes``. The ceiling is the correlation of
        half of the readers with the other half.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for name, table in human.items():
        values = table.to_numpy(np.float64)
        for method, part in models.groupby("method", sort=False):
            ratio = part.set_index("class")["ratio"].reindex(table.columns).to_numpy(np.float64)
            seen = np.isfinite(ratio) & np.isfinite(values).any(0)
            if seen.sum() < 3:
                continue
            picks = rng.integers(0, len(values), (draws, len(values)))
            drawn = [_rank(ratio[seen], np.nanmean(values[k][:, seen], 0)) for k in picks]
            low, high = np.nanquantile(drawn, [0.025, 0.975])
            rows.append(
                {
                    "dataset": name,
                    "method": method,
                    "value": _rank(ratio[seen], np.nanmean(values[:, seen], 0)),
                    "low": float(low),
                    "high": float(high),
                    "classes": int(seen.sum()),
                    "readers": len(values),
                    "ceiling": _halves(values[:, seen], rng),
                }
            )
    return pd.DataFrame(rows)  # fmt: skip


def _rank(a: Any, b: Any) -> float:
    there = np.isfinite(a) & np.isfinite(b)
    if there.sum() < 3 or not np.ptp(a[there]) or not np.ptp(b[there]):
        return float("nan")
    return float(spearmanr(a[there], b[there]).statistic)


def _halves(values: Any, rng: np.random.Generator, draws: int = 100) -> float:
    found = []
    for _ in range(draws):
        order = rng.permutation(len(values))
        one, other = order[: len(order) // 2], order[len(order) // 2 :]
        if len(one):
            found.append(_rank(np.nanmean(values[one], 0), np.nanmean(values[other], 0)))
    return float(np.nanmean(found)) if found else float("nan")


@register_study(
    NAME,
    description="where programmers look on code against where a language model attends",
    citation="Paltenghi et al. 2022, arXiv 2210.05506; Li et al. 2024, ICPC; this package",
    data="code_comprehension, programmer_scanpaths, call_graph_attention",
)
def run(
    folder: Path, config: Mapping[str, Any], *, root: str | None, bar: StageProgress
) -> dict[str, Any]:
    """Return ``agreement`` by method, ``transfer`` to other corpora, and what they say."""
    bar.stage("attention on code")
    path = folder / "profiles.parquet"
    if path.is_file() and (folder / "agreement.parquet").is_file():
        table = read_parquet(folder / "agreement.parquet", "the table of agreement", AGREEMENT)
        profiles = read_parquet(path, "the profiles")
        data = load_dataset("code_comprehension", root=root)
    else:
        data = load_dataset("code_comprehension", root=root)
        lm = LanguageModel.load(str(config["lm"]), root=root)
        found = compare(
            data, lm, measures=[str(config["measure"])], methods=list(config["methods"]),
            n_permutations=int(config["permutations"]), n_bootstrap=int(config["draws"]),
            head_metrics=[], max_texts=config["texts"],
        )  # fmt: skip
        table = found.table()[AGREEMENT]
        profiles = found.profiles[found.profiles["kind"] != "human"]
        write_parquet(path, profiles)
        write_parquet(folder / "agreement.parquet", table)
    bar.stage("kinds of tokens in three corpora")
    classes = class_table(data).rename(columns={"kind": "class"})
    places = data.words[["stimulus", "word", "index"]].astype({"stimulus": "str", "word": "str"})
    classes = classes.merge(places, on=["stimulus", "word"], validate="1:1")
    ratios = class_ratios(profiles.astype({"stimulus": "str"}), classes)
    human = {str(n): human_ratios(str(n), root) for n in config["corpora"]}
    moved = transfer(ratios, human, int(config["draws"]))
    write_parquet(folder / "ratios.parquet", ratios)
    write_parquet(folder / "transfer.parquet", moved)
    return {"agreement": table, "transfer": moved, "says": sentences(table, moved)}


def sentences(table: pd.DataFrame, moved: pd.DataFrame) -> list[str]:
    """Say what agrees beyond chance, and whether anything beats length."""
    models = table[table["kind"] == "model"]
    above = models[models["q"] < 0.05]
    rows = table.set_index("method").to_dict("index")
    best = models.sort_values("value", ascending=False).to_dict("records")[0]
    said = [
        f"{len(above)} of {len(models)} methods agree with single programmers beyond chance "
        f"(q < .05); the best is {best['method']} with {best['value']:.3f} [{best['low']:.3f}, "
        f"{best['high']:.3f}], programmers agree with each other at {best['ceiling']:.3f}."
    ]
    if "length" in rows:
        length = rows["length"]["value"]
        said.append(
            f"Length of tokens alone reaches {length:.3f}: "
            + ("attention tells more." if best["low"] > length else "attention tells no more.")
        )
    part = moved[moved["method"] == best["method"]].to_dict("records")
    told = ", ".join(
        f"{r['dataset']} {r['value']:.2f} [{r['low']:.2f}, {r['high']:.2f}] (readers {r['ceiling']:.2f})"  # noqa: E501
        for r in part
    )
    said.append(f"Which kinds of tokens get more, {best['method']} against readers: {told}.")
    return said
