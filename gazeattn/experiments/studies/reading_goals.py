"""Do readers who seek an answer agree better with a model that knows the question?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.attention import compare
from gazeattn.datasets import load as load_dataset
from gazeattn.errors import DataError
from gazeattn.experiments.terminal import StageProgress
from gazeattn.lm import LanguageModel
from gazeattn.metrics.prediction import cluster_draws
from gazeattn.registry import register_study
from gazeattn.storage import read_parquet, write_parquet

NAME = "reading_goals"
KEYS = ["trial", "participant", "stimulus", "condition", "method"]


def readings(
    data: Any, lm: LanguageModel, methods: Sequence[str], measure: str, question: bool,
    texts: int | None,
) -> pd.DataFrame:  # fmt: skip
    """Return the agreement of each reading with each method: `KEYS`, kind, value, ceiling."""
    found = compare(
        data, lm, measures=[measure], methods=list(methods), baselines=["length"], controls=[],
        metrics=["spearman"], question=question, n_permutations=0, n_bootstrap=0,
        head_metrics=[], max_texts=texts,
    )  # fmt: skip
    table = found.alignment
    rows = table[(table["level"] == "reader") & table["layer"].isna() & table["head"].isna()]
    return rows[[*KEYS, "kind", "value", "ceiling"]].reset_index(drop=True)


def contrast(
    without: pd.DataFrame, told: pd.DataFrame, seeking: str, ordinary: str, draws: int
) -> pd.DataFrame:
    """Return agreement by goal and context, and what the question adds for each goal.

    Parameters
    ----------
    without, told
        From `readings`: the model has read the text alone, or the question before it.
    seeking, ordinary
        Conditions of the trials.
    draws
        Of readers and texts, the same ones everywhere.

    Returns
    -------
    DataFrame
        ``method, cell, value, low, high, n``: mean agreement (``ordinary, alone`` ...), what the
        question adds (``ordinary, gain`` and ``seeking, gain``), and ``difference``: how much more
        it adds for readers who seek.

    Raises
    ------
    DataError
        A condition has no reading.
    """
    out = []
    for method in dict.fromkeys(without["method"]):
        a, b = (
            t[t["method"] == method].drop_duplicates(["trial", "participant"])
            .set_index(["trial", "participant"])
            for t in (without, told)
        )  # fmt: skip
        if str(a["kind"].iloc[0]) != "model":
            continue
        b = b.reindex(a.index)
        alone = a["value"].to_numpy(np.float64, na_value=np.nan)
        known = b["value"].to_numpy(np.float64, na_value=np.nan)
        gain = known - alone
        readers = [str(p) for p in a.index.get_level_values(1)]
        weight = cluster_draws({"reader": readers, "text": a["stimulus"].tolist()}, draws)
        goal = a["condition"].astype("str").to_numpy()
        drawn = {}
        for name, condition in (("seeking", seeking), ("ordinary", ordinary)):
            mine = goal == condition
            if not mine.any():
                raise DataError("no reading has the goal", expected=condition,
                                found=", ".join(sorted(set(goal))))  # fmt: skip
            for what, values in (("alone", alone), ("told", known), ("gain", gain)):
                there = mine & np.isfinite(values)
                w = weight[:, there]
                total = w.sum(1)
                means = np.where(total > 0, w @ values[there] / np.maximum(total, 1e-12), np.nan)
                drawn[name, what] = means
                out.append(_row(method, f"{name}, {what}", values[there].mean(), means,
                                int(there.sum())))  # fmt: skip
        means = drawn["seeking", "gain"] - drawn["ordinary", "gain"]
        cells = {r["cell"]: r["value"] for r in out if r["method"] == method}
        value = cells["seeking, gain"] - cells["ordinary, gain"]
        out.append(_row(method, "difference", value, means, int(np.isfinite(gain).sum())))
    return pd.DataFrame(out)


def _row(method: str, cell: str, value: float, drawn: Any, n: int) -> dict[str, Any]:
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return {"method": method, "cell": cell, "value": float(value), "low": float(low),
            "high": float(high), "n": n}  # fmt: skip


@register_study(
    NAME,
    description="do readers who seek an answer agree better with a model that knows the question?",
    citation="after Shubi et al. 2025, ACL; Ribeiro et al. 2023, WebQAmGaze; this package",
    data="webqamgaze",
)
def run(
    folder: Path, config: Mapping[str, Any], *, root: str | None, bar: StageProgress
) -> dict[str, Any]:
    """Return ``contrast`` by method, and what it says."""
    tables = {}
    data, lm = None, None
    for name, question in (("alone", False), ("told", True)):
        path = folder / f"{name}.parquet"
        if path.is_file():
            tables[name] = read_parquet(path, "the table of readings", KEYS)
            continue
        bar.stage("the text alone" if not question else "the question before the text")
        data = load_dataset(str(config["dataset"]), root=root) if data is None else data
        lm = LanguageModel.load(str(config["lm"]), root=root) if lm is None else lm
        tables[name] = readings(
            data, lm, config["methods"], str(config["measure"]), question, config["texts"]
        )
        write_parquet(path, tables[name])
    table = contrast(tables["alone"], tables["told"], str(config["seeking"]),
                     str(config["ordinary"]), int(config["draws"]))  # fmt: skip
    write_parquet(folder / "contrast.parquet", table)
    return {"contrast": table, "says": sentences(table)}


def sentences(table: pd.DataFrame) -> list[str]:
    """Say for each method what the question adds, and for whom."""
    said = []
    for method in dict.fromkeys(table["method"]):
        cells = table[table["method"] == method].set_index("cell").to_dict("index")
        told = {
            k: f"{v['value']:+.3f} [{v['low']:+.3f}, {v['high']:+.3f}]" for k, v in cells.items()
        }
        gap = cells["difference"]
        if gap["low"] > 0:
            verdict = "more for readers who seek an answer"
        elif gap["high"] < 0:
            verdict = "less for readers who seek an answer"
        else:
            verdict = "no clear difference between the goals"
        said.append(
            f"{method}: knowing the question changes the agreement with ordinary readers by "
            f"{told['ordinary, gain']}, with readers who seek its answer by "
            f"{told['seeking, gain']}; difference {told['difference']}: {verdict}."
        )
    return said
