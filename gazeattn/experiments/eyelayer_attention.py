"""Does training with gaze make attention on code more human? Models before and after training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.attention import compare
from gazeattn.datasets import load
from gazeattn.lm import LanguageModel
from gazeattn.metrics.prediction import cluster_draws
from gazeattn.models.gaze_prior.summariser import Summariser
from gazeattn.storage import read_parquet, write_parquet

BEFORE = "untrained"
METRIC = "spearman"
MEASURE = "total_reading_time"
KEYS = ["trial", "participant", "stimulus", "method"]


def tuned(folder: Path, root: str | None) -> LanguageModel:
    """Return the language model of a trained summariser, its adapters merged into the weights.

    The prior works from the last token of a prompt on: what is compared is attention inside code,
    which it reaches through the adapters that were trained beside it alone.
    """
    model = Summariser.load(folder, root=root)
    if model.attached is not None:
        model.attached.remove()
    merged = model.model.merge_and_unload()
    return LanguageModel(merged, model.tokenizer)


def agreement(
    lm: LanguageModel, dataset: Any, methods: Sequence[str], seed: int = 0
) -> pd.DataFrame:
    """Return the agreement of each reading with each method: `KEYS`, value, ceiling."""
    found = compare(
        dataset, lm, measures=[MEASURE], methods=list(methods), baselines=["length"],
        controls=[], metrics=[METRIC], n_permutations=0, n_bootstrap=0, head_metrics=[], seed=seed,
    )  # fmt: skip
    table = found.alignment
    rows = table[(table["level"] == "reader") & table["layer"].isna() & table["head"].isna()]
    return rows[[*KEYS, "kind", "value", "ceiling"]].reset_index(drop=True)


def attention_rows(
    folder: Path, rows: Mapping[str, Path], config: Mapping[str, Any], root: str | None
) -> pd.DataFrame:
    """Return agreement with readers before and after training, and the change, by method.

    Parameters
    ----------
    folder
        Keeps the table of each model.
    rows
        Saved summarisers by row.
    config
        ``lm``, ``gaze``, ``attention`` (methods) and ``draws``.
    root
        Data folder.

    Returns
    -------
    DataFrame
        ``row, method, value, low, high, ceiling, change, change_low, change_high, n``: intervals
        draw readers and pieces of code, the same ones before and after.
    """
    tables = {}
    dataset = None
    for name in (BEFORE, *rows):
        path = folder / f"{name}.parquet"
        if path.is_file():
            tables[name] = read_parquet(path, "the table of agreement", KEYS)
            continue
        dataset = load(str(config["gaze"]), root=root) if dataset is None else dataset
        lm = (
            LanguageModel.load(str(config["lm"]), root=root)
            if name == BEFORE
            else tuned(rows[name], root)
        )
        tables[name] = agreement(lm, dataset, config["attention"])
        write_parquet(path, tables[name])
    return changes(tables, int(config["draws"]))


def changes(tables: Mapping[str, pd.DataFrame], draws: int) -> pd.DataFrame:
    """Return means and changes from the first table, see `attention_rows`."""
    first = tables[BEFORE]
    out = []
    for method, base in first.groupby("method", sort=False):
        base = base.set_index(["trial", "participant"])
        readers = [str(p) for p in base.index.get_level_values(1)]
        drawn = cluster_draws({"reader": readers, "code": base["stimulus"].tolist()}, draws)
        for name, table in tables.items():
            mine = table[table["method"] == method].set_index(["trial", "participant"])
            value = mine["value"].reindex(base.index).to_numpy(np.float64, na_value=np.nan)
            change = value - base["value"].to_numpy(np.float64, na_value=np.nan)
            ceiling = base["ceiling"].to_numpy(np.float64, na_value=np.nan)
            row = {"row": name, "method": method, "kind": str(base["kind"].iloc[0]),
                   "ceiling": float(np.nanmean(ceiling)) if np.isfinite(ceiling).any() else np.nan,
                   "n": int(np.isfinite(value).sum())}  # fmt: skip
            for key, values in (("", value), ("change_", change)):
                there = np.isfinite(values)
                if not there.any():
                    continue
                weight = drawn[:, there]
                total = weight.sum(1)
                means = (weight @ values[there])[total > 0] / total[total > 0]
                low, high = np.quantile(means, [0.025, 0.975])
                row |= {key.rstrip("_") or "value": float(values[there].mean()),
                        f"{key}low": float(low), f"{key}high": float(high)}  # fmt: skip
            out.append(row)
    return pd.DataFrame(out)


def said(table: pd.DataFrame) -> list[str]:
    """Say whether training made attention more human, and whether it was the gaze."""
    models = table[table["kind"] == "model"]
    lines = []
    for method in dict.fromkeys(map(str, models["method"])):
        rows = models[models["method"] == method].set_index("row")
        parts = [
            f"{name!s} {r['change']:+.3f} [{r['change_low']:+.3f}, {r['change_high']:+.3f}]"
            for name, r in rows.drop(index=BEFORE).to_dict("index").items()
        ]
        before = rows.to_dict("index")[BEFORE]
        lines.append(
            f"Agreement of {method} attention with readers of code: {before['value']:.3f} before "
            f"training (readers with each other {before['ceiling']:.3f}); change "
            + ", ".join(parts) + "."
        )  # fmt: skip
    return lines
