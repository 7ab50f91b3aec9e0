"""The rules behind the numbers of a comparison, in sentences that travel with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gazeattn.attention.align import Text
from gazeattn.attention.collect import CLEAR_CEILING
from gazeattn.attention.scores import make_metric


def conventions(
    settings: Mapping[str, Any], hows: Mapping[str, Mapping[str, Any]], measures: Mapping[str, str]
) -> dict[str, str]:
    """Return name to sentence for every measure, method, baseline, metric and rule in use.

    Parameters
    ----------
    settings
        Arguments of the comparison.
    hows
        Method or baseline to the ``how`` of one of its profiles.
    measures
        Measure to definition.
    """
    s = settings
    controls = tuple(s["controls"])
    out = {m: measures[m] for m in s["measures"]}
    for name, how in hows.items():
        out[name] = str(how.get("convention") or _listed(how))
    for m in dict.fromkeys([*s["metrics"], *s["head_metrics"]]):
        out[m] = make_metric(m, s["topk"], controls).convention
    rule = "counted as 0 in durations and counts" if s["missing"] == "zero" else "left missing"
    out["human profile"] = (
        "shares of the trial: the measure divided by its sum over the words with a value; words "
        f"without a value are {rule}"
    )
    out["mean over readers"] = (
        "mean over the readers with a value, each reader once; readings of one text under "
        "different conditions stay apart"
        + (", and so do readings with different questions" if s["question"] else "")
    )
    out["level"] = (
        "mean: the average over readers of a text; reader: every trial apart. Layers and heads "
        "are compared at level mean only"
    )
    out["missing words"] = "a word without a score on either side is left out of that pair, counted"
    out["ceiling"] = (
        "lower: agreement of each reader with the mean of the other readers; upper: with the mean "
        "of all, missing with two readers. Same metric, same text. A reader with several trials of "
        "a text counts once"
    )
    out["relative"] = (
        "value / lower ceiling, both correlations, at level reader only; at level mean it would "
        "flatter the method, since a mean over readers is less noisy than one reader. Missing "
        f"where the ceiling is below {CLEAR_CEILING}: a share of next to nothing is noise"
    )
    out["p"] = (
        f"two-sided, {s['n_permutations']} permutations of the words within the text, the same "
        "for all methods; exact where a text has fewer arrangements. Summary: the average is "
        "compared with averages of the permuted texts"
        if s["n_permutations"]
        else "no permutation test"
    )
    out["q"] = (
        "Benjamini-Hochberg: over the heads, or the layers, of one method; over all methods, or "
        "all baselines, for their own rows"
    )
    out["interval"] = (
        f"95 % percentile interval, {s['n_bootstrap']} bootstrap draws of texts (level mean) or "
        "of readers and texts (level reader)"
        if s["n_bootstrap"]
        else "no intervals"
    )
    out["p and interval"] = (
        "two questions that can have different answers. p permutes words within these texts: is "
        "there any association in these texts? The interval draws other texts (and readers, at "
        "level reader): would it hold for others?"
    )
    out["average"] = (
        "correlations are averaged on Fisher's z scale, other metrics plainly"
        if s["average"] == "fisher_z"
        else "plain mean over trials in which the value is defined"
    )
    out["layer rows"] = "the mean over the heads of the layer, compared like any profile"
    if s["question"]:
        out["question"] = "the trial's question stands before the text in the model's context"
    return out


_OF_ONE_TEXT = (
    "characters_dropped",
    "context_tokens",
    "gap_tokens",
    "recomputed_layers",
    "specials_respelt",
    "surrogates_replaced",
    "target_value",
    "text_tokens",
    "tokens_across_words",
    "unknown_tokens",
    "windows",
    "words_not_visible",
)
"""What a profile's ``how`` says about its own text: no rule of the comparison."""


def _listed(how: Mapping[str, Any]) -> str:
    parts = [
        f"{k}: {v}"
        for k, v in how.items()
        if isinstance(v, str | int | float | bool)
        and v != ""
        and k != "model"
        and k not in _OF_ONE_TEXT
    ]
    return "; ".join(parts)


def notes(
    settings: Mapping[str, Any], facts: Mapping[str, Any], texts: Sequence[Text]
) -> list[str]:
    """Return what a reader of the numbers should know before using them."""
    out = []
    n = int(facts["n_readers"])
    if n == 1:
        out.append("one reader: there is no agreement between readers to compare with")
    elif n == 2:
        out.append(
            "two readers: the ceiling is their agreement with each other, its upper bound is "
            "undefined, and nothing is known about how readers vary"
        )
    if len(facts["conditions"]) > 1:
        out.append(
            f"{len(facts['conditions'])} conditions ({', '.join(facts['conditions'])}): each text "
            "is averaged per condition, and the summary averages over all of them"
        )
    if "skip" in settings["measures"]:
        out.append(
            "skip is inverse attention: a method that agrees with readers has a negative "
            "correlation with it"
        )
    if settings["average"] == "fisher_z":
        out.append("permuted correlations of exactly 1 enter Fisher's z as 1 - 1e-12")
    if settings["question"]:
        without = sum(len(t.trials) for t in texts if not t.question)
        if without:
            out.append(f"{without} trials have no question: the text stands alone there")
    if "random" in settings["baselines"]:
        out.append("random is one random draw per text: it can stray from 0 by chance")
    if "uniform" in settings["baselines"]:
        out.append("uniform is constant: correlations and top-k metrics with it are undefined")
    return out
