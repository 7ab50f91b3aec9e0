"""The answer in words: how far a model's attention agrees with people, and what that is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

METRIC_WORDS = {
    "spearman": "Spearman",
    "kendall": "Kendall tau-b",
    "pearson": "Pearson",
    "cosine": "cosine",
    "js_divergence": "a Jensen-Shannon divergence of",
    "topk_overlap": "a top-k overlap of",
    "kappa_topk": "a top-k kappa of",
}
BASELINE_WORDS = {
    "length": "word length alone",
    "frequency": "word rarity alone",
    "position": "word position alone",
    "surprisal": "the model's surprisal",
}
_TRIVIAL = ("uniform", "random")
LEVEL = 0.05


def write_answer(summary: pd.DataFrame, info: Mapping[str, Any]) -> str:
    """Return one paragraph that answers the question of the comparison.

    Parameters
    ----------
    summary
        `SUMMARY_COLUMNS`; aggregate rows are used.
    info
        ``dataset`` (n_readers, n_texts, readers_note), ``lm`` (name) and ``settings``.

    Returns
    -------
    str
        The first sentence names the number of readers and says how far the first method, which
        is fixed before the run, and the best one agree with people, beside the agreement between
        readers and the best baseline. The next ones give the reader-by-reader ratio, significance
        and what is left when word length, frequency and position are controlled.
    """
    settings = info["settings"]
    metric, measure, level = settings["metrics"][0], settings["measures"][0], settings["level"]
    rows = _aggregate(summary, metric, measure, level)
    head = _readers(info) + " "
    models = rows[(rows["kind"] == "model") & rows["value"].notna()]
    name = info["lm"].get("name", "the model")
    what = measure.replace("_", " ")
    if len(models) == 0:
        return head + f"no attention method of {name} could be compared with {what}{_why(rows)}."
    sign = orientation(metric, measure)
    best = models.iloc[int(np.argmax(sign * models["value"].to_numpy(dtype=float)))]
    first = _row(models, settings["methods"][0])
    lead = best if first is None else first
    parts = [
        head + _first_sentence(rows, lead, best, len(models), name, what, metric, sign, settings),
        _by_reader(summary, metric, measure, lead, level),
        _significance(models, lead, best, settings, sign),
        _controlled(summary, measure, level, lead, best, settings),
        _few_readers(info, level),
    ]
    return " ".join(p for p in parts if p)


def orientation(metric: str, measure: str) -> int:
    """Return 1 where a higher value means more agreement, -1 where a lower one does.

    Skipping is inverse attention, and a divergence is small where profiles agree.
    """
    sign = -1 if metric.endswith(("divergence", "distance", "variation")) else 1
    return -sign if measure == "skip" and sign > 0 else sign


def _aggregate(summary: pd.DataFrame, metric: str, measure: str, level: str) -> pd.DataFrame:
    s = summary
    keep = (s["metric"] == metric) & (s["measure"] == measure) & (s["level"] == level)
    return s[keep & s["layer"].isna() & s["head"].isna()]


def _row(rows: pd.DataFrame, method: str) -> pd.Series | None:
    found = rows[rows["method"] == method]
    return found.iloc[0] if len(found) else None


def _readers(info: Mapping[str, Any]) -> str:
    n = int(info["dataset"].get("n_readers", 0))
    note = info["dataset"].get("readers_note")
    return f"{n} reader{'' if n == 1 else 's'}" + (f", {note}:" if note else ":")


def _number(value: float) -> str:
    text = f"{float(value):.2f}"
    return text[1:] if text == "-0.00" else text


def _interval(row: pd.Series) -> str:
    if pd.isna(row["low"]) or pd.isna(row["high"]):
        return _number(row["value"])
    return f"{_number(row['value'])} [{_number(row['low'])}, {_number(row['high'])}]"


def _p(value: float, letter: str = "p") -> str:
    return f"{letter} < 0.001" if value < 0.001 else f"{letter} = {float(value):.3f}"


def _texts(n: int) -> str:
    return f"{n} text{'' if n == 1 else 's'}"


def _first_sentence(
    rows: pd.DataFrame,
    lead: pd.Series,
    best: pd.Series,
    n_models: int,
    name: str,
    what: str,
    metric: str,
    sign: int,
    settings: Mapping[str, Any],
) -> str:
    word = METRIC_WORDS.get(metric, metric.replace("_", " "))
    p = lead["p"]
    against = "" if pd.isna(p) or p < LEVEL else ", which is not beyond chance"
    verb = "agrees with"
    correlation = metric in ("spearman", "kendall", "pearson", "kappa_topk")
    if correlation and sign * lead["value"] < 0:
        verb = "does not agree with" if against else "runs against"
        against = "" if pd.isna(p) or p < LEVEL else ", which is within chance"
    closer = " (lower is closer)" if orientation(metric, "") < 0 else ""
    whose = "averaged over readers" if settings["level"] == "mean" else "of single readers"
    text = (
        f"on {_texts(int(lead['n_texts']))} the attention of {name} (method {lead['method']}) "
        f"{verb} {what} {whose} at {word} {_interval(lead)}{closer}{against}"
    )
    if best["method"] != lead["method"]:
        text += f", and the best of its {n_models} methods ({best['method']}) at {_interval(best)}"
    if pd.isna(lead["ceiling"]):
        text += "; the agreement between readers is not known"
    elif correlation and lead["ceiling"] <= 0:
        text += f"; readers do not agree with each other ({_number(lead['ceiling'])})"
    else:
        text += f"; readers agree with each other at {_number(lead['ceiling'])}"
    base = rows[(rows["kind"] == "baseline") & rows["value"].notna()]
    base = base[~base["method"].isin(_TRIVIAL)]
    if len(base):
        top = base.iloc[int(np.argmax(sign * base["value"].to_numpy(dtype=float)))]
        label = BASELINE_WORDS.get(top["method"], f"the baseline {top['method']}")
        at = _number(top["value"])
        if correlation and sign * top["value"] <= 0:
            text += f", and no baseline agrees with them (the best, {label}, is at {at})"
        else:
            text += f", and {label} {'is at' if sign < 0 else 'reaches'} {at}"
    return text + "."


def _by_reader(
    summary: pd.DataFrame, metric: str, measure: str, lead: pd.Series, level: str
) -> str:
    row = _row(_aggregate(summary, metric, measure, "reader"), lead["method"])
    if row is None or pd.isna(row["value"]) or pd.isna(row["ceiling"]):
        return ""
    if pd.isna(row["relative"]) or row["value"] <= 0:
        # a share of next to nothing, or a negative one, says nothing
        if level == "reader":
            return ""
        return f"Reader by reader, {lead['method']} is at {_number(row['value'])}."
    share = f"{100 * float(row['relative']):.0f} %"
    if level == "reader":
        return f"{lead['method']} reaches {share} of the agreement between readers."
    return (
        f"Reader by reader, the comparison on equal terms, {lead['method']} reaches "
        f"{_number(row['value'])}, {share} of the agreement between readers."
    )


def _significance(
    models: pd.DataFrame,
    lead: pd.Series,
    best: pd.Series,
    settings: Mapping[str, Any],
    sign: int,
) -> str:
    if pd.isna(lead["p"]):
        return ""
    text = f"Against permuted words, {lead['method']} has {_p(lead['p'])}"
    n = len(models)
    if n > 1 and models["q"].notna().any():
        beyond = models[models["q"] < LEVEL]
        right = int(_better_than_chance(beyond, sign).sum())
        text += f"; {right} of {n} methods agree beyond chance"
        wrong = len(beyond) - right
        if wrong:
            text += f" and {wrong} disagree{'s' if wrong == 1 else ''} beyond chance"
        text += f" (q < {LEVEL})"
    text += "."
    if best["method"] != lead["method"]:
        text += (
            f" {best['method']} was picked as best on these same texts, so its value is optimistic."
        )
    return text


def _better_than_chance(rows: pd.DataFrame, sign: int) -> pd.Series:
    chance = rows["chance"].fillna(0.0).astype(float)
    return sign * (rows["value"].astype(float) - chance) > 0


def _controlled(
    summary: pd.DataFrame,
    measure: str,
    level: str,
    lead: pd.Series,
    best: pd.Series,
    settings: Mapping[str, Any],
) -> str:
    controls = list(settings.get("controls", ()))
    rows = _aggregate(summary, "partial_spearman", measure, level)
    found = []
    for method in dict.fromkeys([lead["method"], best["method"]]):
        row = _row(rows, method)
        if row is None or pd.isna(row["value"]):
            continue
        beyond = "" if pd.isna(row["p"]) else f" ({_p(row['p'])})"
        found.append(f"{method} keeps a partial Spearman of {_interval(row)}{beyond}")
    if not found or not controls:
        return ""
    names = controls[0] if len(controls) == 1 else f"{', '.join(controls[:-1])} and {controls[-1]}"
    return f"With word {names} controlled, {' and '.join(found)}."


def _few_readers(info: Mapping[str, Any], level: str) -> str:
    n = int(info["dataset"].get("n_readers", 0))
    if n >= 10:
        return ""
    held = "hold the readers fixed" if level == "mean" or n == 1 else "resample few readers"
    people = "one reader says" if n == 1 else f"{n} readers say"
    text = f"The intervals {held}: {people} little about other people."
    if n == 2:
        # one noisy reader as the reference is a low bar, see docs/concepts.md
        text += (
            " The agreement between readers is here one reader against the other, which a good "
            "predictor of both can exceed."
        )
    return text


def _why(rows: pd.DataFrame) -> str:
    undefined = rows[(rows["kind"] == "model") & rows["value"].isna()]
    if len(undefined) == 0:
        return ""
    n = int(undefined["n_undefined"].max())
    return ": the agreement is undefined on " + ("the only trial" if n == 1 else f"all {n} trials")
