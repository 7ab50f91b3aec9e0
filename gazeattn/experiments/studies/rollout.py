"""Do rollout and flow tell importance better than raw attention (Abnar and Zuidema 2020, ACL)?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from gazeattn.datasets import load as load_dataset
from gazeattn.experiments.terminal import StageProgress
from gazeattn.lm import LanguageModel
from gazeattn.lm.capture import base_of
from gazeattn.lm.flow import capacities, max_flow
from gazeattn.lm.stages import attention_rows
from gazeattn.registry import register_study
from gazeattn.storage import read_parquet, write_parquet

NAME = "rollout"
WEIGHTS = ("raw_first", "raw_last", "raw_mean", "rollout", "flow")
TRUTHS = ("blank_out", "input_gradient")
Floats = NDArray[np.float64]
END = re.compile(r"[.!?][\"')”’]*$")


def sentences_of(words: Sequence[str], longest: int, shortest: int = 6) -> list[list[str]]:
    """Return the sentences of a text with a number of words between the two."""
    found: list[list[str]] = [[]]
    for word in words:
        found[-1].append(str(word))
        if END.search(str(word)):
            found.append([])
    return [s for s in found if shortest <= len(s) <= longest]


def rollout_of(graph: Floats) -> Floats:
    """Return the product of the layers of `gazeattn.lm.flow.capacities`, (n, n)."""
    out = np.eye(graph.shape[1])
    for layer in graph:
        out = layer @ out
    return out


def weights_of(maps: Floats, target: int) -> dict[str, Floats]:
    """Return what each method gives to every token, seen from one token of the top.

    Parameters
    ----------
    maps : ndarray, shape (layers, n, n)
        Attention, heads averaged.
    target
        The token whose output is explained.
    """
    graph = capacities(maps)
    return {
        "raw_first": maps[0, target],
        "raw_last": maps[-1, target],
        "raw_mean": maps[:, target].mean(0),
        "rollout": rollout_of(graph)[target],
        "flow": max_flow(graph, [target]).values[0],
    }


def _merged(values: Floats, word_of: NDArray[np.int64], n: int) -> Floats:
    """Return the sum of each word's tokens."""
    inside = word_of >= 0
    return np.bincount(word_of[inside], values[inside], minlength=n).astype(np.float64)


def one_sentence(lm: LanguageModel, words: Sequence[str]) -> pd.DataFrame:
    """Return the weights and the importance of every word of a sentence.

    A decoder is explained at its last word: the logit of the token it finds most likely next. An
    encoder at its first token: how far its last state is along the direction it has for the whole
    sentence. The last word of a decoder and words without a token are left out.

    Returns
    -------
    DataFrame
        One row per word, columns `WEIGHTS` and `TRUTHS`.
    """
    coded = lm.encode(list(words))
    ids = torch.as_tensor(coded.input_ids)[None]
    word_of = np.asarray(coded.word_of, dtype=np.int64)
    causal = bool(lm.info["causal"])
    n = ids.shape[1]
    target = n - 1 if causal else 0
    rows = attention_rows(lm, ids, range(n))
    maps = torch.stack([rows[r].mean(1) for r in range(n)], 1).double().numpy()
    found = {k: _merged(v, word_of, len(words)) for k, v in weights_of(maps, target).items()}
    score = _scorer(lm, ids, target)
    embedded = lm.model.get_input_embeddings()(ids).detach()
    with torch.enable_grad():
        moving = embedded.clone().requires_grad_()
        base = score(moving)
        (gradient,) = torch.autograd.grad(base.sum(), moving)
    parts = (gradient * embedded).norm(dim=-1)[0].double().numpy()
    found["input_gradient"] = _merged(parts, word_of, len(words))
    places = [np.flatnonzero(word_of == w) for w in range(len(words))]
    blank = embedded.repeat(len(words), 1, 1)
    for w, at in enumerate(places):
        blank[w, at] = 0  # the token's content is taken away, its place stays
    with torch.inference_mode():
        changed = torch.cat([score(part) for part in blank.split(16)])
    found["blank_out"] = np.abs(changed.double().numpy() - float(base.detach()))
    table = pd.DataFrame(found)
    keep = np.array([len(at) > 0 for at in places])
    if causal:
        keep[-1] = False  # it looks at itself
    return table[keep].reset_index(drop=True)


def _scorer(lm: LanguageModel, ids: torch.Tensor, target: int) -> Any:
    """Return the function from embeddings (batch, n, width) to the number that is explained."""
    base = base_of(lm.model)
    if lm.info["causal"]:
        lm.require("lm_head", by="the study of rollout")
        with torch.inference_mode():
            best = int(lm.model(input_ids=ids, use_cache=False).logits[0, -1].argmax())

        def logit(embedded: torch.Tensor) -> torch.Tensor:
            out = lm.model(inputs_embeds=embedded, use_cache=False, logits_to_keep=1)
            return out.logits[:, -1, best].float()

        return logit
    with torch.no_grad():
        state = base(input_ids=ids).last_hidden_state[0, target]
        direction = state / state.norm()

    def along(embedded: torch.Tensor) -> torch.Tensor:
        return base(inputs_embeds=embedded).last_hidden_state[:, target].float() @ direction

    return along


def correlations(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the Spearman correlation of each weight with each truth, by sentence."""
    rows = []
    for k, table in enumerate(tables):
        for truth in TRUTHS:
            for weight in WEIGHTS:
                a, b = (rankdata(table[c]) for c in (weight, truth))
                flat = np.ptp(a) == 0 or np.ptp(b) == 0
                value = np.nan if flat else float(np.corrcoef(a, b)[0, 1])
                rows.append({"sentence": k, "truth": truth, "method": weight, "value": value})
    return pd.DataFrame(rows)


def summary_of(each: pd.DataFrame, lm: str, draws: int) -> pd.DataFrame:
    """Return means with intervals over sentences, and differences to raw attention (mean)."""
    n = int(each["sentence"].nunique())
    picks = np.random.default_rng(0).integers(0, n, (draws, n))
    rows = []
    for truth in TRUTHS:
        wide = each[each["truth"] == truth].pivot(index="sentence", columns="method",
                                                  values="value")  # fmt: skip
        for method in WEIGHTS:
            for reference in ("", "raw_mean", "raw_last"):
                if method == reference:
                    continue
                v = wide[method] - wide[reference] if reference else wide[method]
                drawn = np.nanmean(v.to_numpy(np.float64)[picks], 1)
                low, high = np.quantile(drawn, [0.025, 0.975])
                rows.append({"lm": lm, "truth": truth, "method": method, "reference": reference,
                             "value": float(v.mean()), "low": float(low), "high": float(high),
                             "n": int(v.notna().sum())})  # fmt: skip
    return pd.DataFrame(rows)


@register_study(
    NAME,
    description="do rollout and flow tell importance better than raw attention?",
    citation="Abnar and Zuidema 2020, ACL, doi 10.18653/v1/2020.acl-main.385",
    data="onestop_sample",
)
def run(
    folder: Path, config: Mapping[str, Any], *, root: str | None, bar: StageProgress
) -> dict[str, Any]:
    """Return ``correlations`` by model, truth and method, and what they say."""
    data = load_dataset(str(config["dataset"]), root=root)
    found: list[list[str]] = []
    for _, rows in data.words.groupby("layout", sort=True):
        texts = rows.sort_values("index")["text"].astype(str).tolist()
        found += sentences_of(texts, int(config["longest"]))
    order = np.random.default_rng(int(config["seed"])).permutation(len(found))
    chosen = [found[int(k)] for k in order[: config["sentences"]]]
    parts = []
    for name in config["lms"]:
        lm = LanguageModel.load(str(name), root=root)
        tables = []
        for k, words in enumerate(chosen, 1):
            bar.update(f"{name}: sentence {k}", k, len(chosen))
            path = folder / str(name) / f"{int(order[k - 1])}.parquet"
            if path.is_file():
                tables.append(read_parquet(path, "the weights of a sentence", WEIGHTS))
                continue
            tables.append(one_sentence(lm, words))
            write_parquet(path, tables[-1])
        parts.append(summary_of(correlations(tables), str(name), int(config["draws"])))
    table = pd.concat(parts, ignore_index=True)
    write_parquet(folder / "correlations.parquet", table)
    return {"correlations": table, "says": sentences(table)}


def sentences(table: pd.DataFrame) -> list[str]:
    """Say for each model whether the claim holds."""
    said = []
    for name in dict.fromkeys(table["lm"]):
        for truth in TRUTHS:
            part = table[(table["lm"] == name) & (table["truth"] == truth)]
            plain = {r["method"]: r for r in part[part["reference"] == ""].to_dict("records")}
            gaps = {
                r["method"]: r for r in part[part["reference"] == "raw_mean"].to_dict("records")
            }
            cells = ", ".join(f"{m} {plain[m]['value']:.2f}" for m in WEIGHTS)
            words = []
            for m in ("rollout", "flow"):
                g = gaps[m]
                verdict = (
                    "above" if g["low"] > 0 else "below" if g["high"] < 0 else "not clearly off"
                )
                words.append(f"{m} is {verdict} raw attention (mean of layers), "
                             f"{g['value']:+.2f} [{g['low']:+.2f}, {g['high']:+.2f}]")  # fmt: skip
            said.append(f"{name}, {truth.replace('_', ' ')}: {cells}; " + "; ".join(words) + ".")
    return said
