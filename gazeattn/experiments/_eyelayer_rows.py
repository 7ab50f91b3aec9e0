"""Rows of the benchmark `eyelayer`: means over seeds, intervals over pairs, what they say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gazeattn.metrics.generation import bleu_counts, bleu_of_counts
from gazeattn.metrics.summaries import CONVENTIONS as SUMMARY_CONVENTIONS

CONVENTIONS = {
    **SUMMARY_CONVENTIONS,
    "nll": "cross entropy of the true summary and its end, nats per token, mean over pairs; lower "
    "is better",
    "bertscore_f1": "greedy matches of token vectors of a local encoder, not rescaled",
    "gaze_kl": "KL(reading || gaze) of held-out developers and code, which told stage A when to "
    "stop; nats, lower is better",
}
PER_PAIR = ("nll", "bleu4_codexglue", "rouge_l", "bertscore_f1")
CORPUS = "bleu4_sacre"
LOWER = ("nll", "gaze_kl")
REFERENCES = ("lora", "lambda_0", "shuffled_gaze", "prior_length")
BASELINES = ("untrained", "function_name", "nearest_code")


def function_words(name: str) -> str:
    """Return the name of a function as words: ``getHTTPCode_2`` is "get http code 2"."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    return " ".join(p.lower() for p in parts) or name


def nearest_summaries(
    known: Sequence[str], summaries: Sequence[str], asked: Sequence[str]
) -> list[str]:
    """Return the summary of the most similar known code of each, by tf-idf of its words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    coder = TfidfVectorizer(token_pattern=r"[A-Za-z]+|\d+", lowercase=True, sublinear_tf=True)
    table = coder.fit_transform(known)
    best = np.asarray((coder.transform(asked) @ table.T).argmax(axis=1)).ravel()
    return [summaries[int(k)] for k in best]


def _over_seeds(parts: Sequence[pd.DataFrame], metric: str) -> NDArray[np.float64]:
    return np.stack([p[metric].to_numpy(dtype=np.float64) for p in parts])


def table_rows(
    tables: Mapping[str, Sequence[pd.DataFrame]], kinds: Mapping[str, str],
    gaze: Mapping[str, Sequence[float]], fixed: Mapping[str, Any], draws: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return mean, spread over seeds and interval of each row, and its difference to controls.

    Parameters
    ----------
    tables
        Test tables of each row, one per seed, of the same pairs in the same order.
    kinds
        Kind of each row: model, control, baseline.
    gaze
        Held-out KL of each row, one per seed.
    fixed
        Columns of every row.
    draws
        Of test pairs, the same ones for all rows; a pair's score is its mean over seeds.
    """
    n = len(next(iter(tables.values()))[0])
    picks = np.random.default_rng(0).integers(0, n, (draws, n))
    values: dict[tuple[str, str], tuple[float, NDArray[np.float64], list[float]]] = {}
    for name, parts in tables.items():
        for metric in PER_PAIR:
            if metric not in parts[0]:
                continue
            each = _over_seeds(parts, metric)
            mean = each.mean(0)
            values[name, metric] = (float(mean.mean()), mean[picks].mean(1), each.mean(1).tolist())
        counts = [bleu_counts(p["written"].tolist(), p["true"].tolist()) for p in parts]
        point = [bleu_of_counts(c.sum(0)) for c in counts]
        values[name, CORPUS] = (float(np.mean(point)), _corpus_draws(counts, picks), point)
    rows = []
    for (name, metric), (mean_value, drawn, seeds) in values.items():
        common = {**fixed, "model": name, "kind": kinds[name], "metric": metric, "n": n,
                  "seeds": len(seeds), "convention": CONVENTIONS[metric]}  # fmt: skip
        spread = float(np.std(seeds, ddof=1)) if len(seeds) > 1 else np.nan
        low, high = np.quantile(drawn, [0.025, 0.975])
        rows.append({**common, "reference": "", "value": mean_value, "low": float(low),
                     "high": float(high), "spread": spread})  # fmt: skip
        for other in REFERENCES:
            if other == name or (other, metric) not in values or kinds[name] == "baseline":
                continue
            theirs = values[other, metric]
            sign = -1 if metric in LOWER else 1
            # the same seeds on both sides where one has fewer
            k = min(len(seeds), len(theirs[2]))
            if len(seeds) != len(theirs[2]):
                mine = _drawn(tables[name][:k], metric, picks)
                yours = _drawn(tables[other][:k], metric, picks)
            else:
                mine, yours = (mean_value, drawn), theirs[:2]
            gap = sign * (mine[1] - yours[1])
            low, high = np.quantile(gap, [0.025, 0.975])
            rows.append({**common, "reference": other, "value": sign * (mine[0] - yours[0]),
                         "low": float(low), "high": float(high), "seeds": k})  # fmt: skip
    for name, kl in gaze.items():
        rows.append({
            **fixed, "model": name, "kind": kinds[name], "metric": "gaze_kl", "reference": "",
            "value": float(np.mean(kl)), "seeds": len(kl), "convention": CONVENTIONS["gaze_kl"],
            "spread": float(np.std(kl, ddof=1)) if len(kl) > 1 else np.nan,
        })  # fmt: skip
    return rows


def _drawn(
    parts: Sequence[pd.DataFrame], metric: str, picks: NDArray[np.int64]
) -> tuple[float, NDArray[np.float64]]:
    if metric != CORPUS:
        mean = _over_seeds(parts, metric).mean(0)
        return float(mean.mean()), mean[picks].mean(1)
    counts = [bleu_counts(p["written"].tolist(), p["true"].tolist()) for p in parts]
    point = float(np.mean([bleu_of_counts(c.sum(0)) for c in counts]))
    return point, _corpus_draws(counts, picks)


def _corpus_draws(
    counts: Sequence[NDArray[np.int64]], picks: NDArray[np.int64]
) -> NDArray[np.float64]:
    return np.mean([[bleu_of_counts(k) for k in c[picks].sum(1)] for c in counts], axis=0)


def statement(rows: pd.DataFrame) -> list[str]:
    """Say whether gaze helps: the full layer beside every control, and what could be seen."""
    gaps = rows[(rows["model"] == "eyelayer") & (rows["reference"] != "")]
    said = []
    for metric, name in (("nll", "cross entropy"), ("bleu4_codexglue", "BLEU-4 (CodeXGLUE)")):
        part = gaps[gaps["metric"] == metric].set_index("reference")
        if not len(part):
            continue
        cells = [
            f"{r.value:+.4f} [{r.low:+.4f}, {r.high:+.4f}] over {ref}" for ref, r in part.iterrows()
        ]
        above = [ref for ref, r in part.iterrows() if r.low > 0]
        below = [ref for ref, r in part.iterrows() if r.high < 0]
        text = f"{name}: the layer is better by " + ", ".join(cells) + "."
        if set(above) >= {"lora", "lambda_0", "shuffled_gaze"}:
            text += " It is above adapters alone, the layer without gaze and shuffled gaze."
        elif "lora" in above:
            text += " The gain over adapters alone does not survive the controls of gaze."
        elif below:
            text += f" It is below {', '.join(map(str, below))}."
        else:
            text += " No difference is clear."
        said.append(text)
        half = (part["high"] - part["low"]).max() / 2
        said.append(f"Differences of less than about {half:.4f} cannot be seen in {name} here.")
    return said
