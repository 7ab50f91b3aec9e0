"""The answer paragraph: honest in every direction."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from gazeattn.attention.answer import orientation, write_answer
from gazeattn.attention.comparison import SUMMARY_COLUMNS

NAN = float("nan")


def row(method: str, value: float, **more: Any) -> dict[str, Any]:
    base = {
        "dataset": "d",
        "measure": "total_reading_time",
        "method": method,
        "kind": "model",
        "layer": pd.NA,
        "head": pd.NA,
        "metric": "spearman",
        "level": "mean",
        "value": value,
        "low": value - 0.05,
        "high": value + 0.05,
        "ceiling": 0.5,
        "ceiling_upper": NAN,
        "relative": value / 0.5,
        "chance": 0.0,
        "p": 0.002,
        "q": 0.004,
        "n_trials": 12,
        "n_texts": 12,
        "n_readers": 2,
        "n_undefined": 0,
        "convention": "",
    }
    return base | more


def info(n_readers: int = 2, **settings: Any) -> dict[str, Any]:
    base = {
        "measures": ["total_reading_time"],
        "methods": ["raw", "value_norm"],
        "metrics": ["spearman"],
        "controls": ["length", "frequency"],
        "level": "mean",
    }
    return {
        "dataset": {"n_readers": n_readers, "readers_note": "information seeking"},
        "lm": {"name": "SmolLM2-135M"},
        "settings": base | settings,
    }


def answer(rows: list[dict[str, Any]], facts: dict[str, Any] | None = None) -> str:
    return write_answer(pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS)), facts or info())


def test_the_whole_answer() -> None:
    text = answer(
        [
            row("raw", 0.21),
            row("value_norm", 0.31),
            row("length", 0.47, kind="baseline"),
            row("random", 0.9, kind="baseline"),
            row("raw", 0.18, level="reader", relative=0.36),
            row("raw", 0.10, metric="partial_spearman", p=0.03),
            row("value_norm", 0.12, metric="partial_spearman", p=0.0004),
        ]
    )
    assert text == (
        "2 readers, information seeking: on 12 texts the attention of SmolLM2-135M (method raw) "
        "agrees with total reading time averaged over readers at Spearman 0.21 [0.16, 0.26], and "
        "the best of its 2 methods (value_norm) at 0.31 [0.26, 0.36]; readers agree with each "
        "other at 0.50, and word length alone reaches 0.47. Reader by reader, the comparison on "
        "equal terms, raw reaches 0.18, 36 % of the agreement between readers. Against permuted "
        "words, raw has p = 0.002; 2 of 2 methods agree beyond chance (q < 0.05). value_norm was "
        "picked as best on these same texts, so its value is optimistic. With word length and "
        "frequency controlled, raw keeps a partial Spearman of 0.10 [0.05, 0.15] (p = 0.030) and "
        "value_norm keeps a partial Spearman of 0.12 [0.07, 0.17] (p < 0.001). The intervals hold "
        "the readers fixed: 2 readers say little about other people. The agreement between readers "
        "is here one reader against the other, which a good predictor of both can exceed."
    )


def test_negative_and_absent_agreement_are_called_that() -> None:
    assert "runs against total reading time" in answer([row("raw", -0.3)])
    text = answer([row("raw", -0.02, p=0.7, q=0.7), row("value_norm", -0.4)])
    assert "does not agree with" in text and "within chance" in text
    assert "0 of 2 methods agree beyond chance and 1 disagrees beyond chance" in text
    weak = answer([row("raw", 0.04, p=0.3, q=0.3)])
    assert "agrees with" in weak and "not beyond chance" in weak


def test_nothing_defined_is_said() -> None:
    text = answer([row("raw", NAN, n_undefined=12)])
    assert text.startswith("2 readers, information seeking: no attention method")
    assert "undefined on all 12 trials" in text


@pytest.mark.parametrize("n", [1, 2, 40])
def test_the_first_words_name_the_readers(n: int) -> None:
    text = answer([row("raw", 0.2, ceiling=NAN)], info(n))
    assert text.startswith(f"{n} reader{'' if n == 1 else 's'}, information seeking: ")
    assert ("little about other people" in text) == (n < 10)
    assert "not known" in text


def test_divergences_and_skipping_count_the_other_way() -> None:
    assert orientation("spearman", "gaze_duration") == 1
    assert orientation("spearman", "skip") == -1
    assert orientation("js_divergence", "gaze_duration") == -1
    rows = [row("raw", 0.3, metric="js_divergence"), row("value_norm", 0.1, metric="js_divergence")]
    assert "(value_norm) at 0.10" in answer(rows, info(metrics=["js_divergence"]))
    skip = [row("raw", -0.3, measure="skip"), row("value_norm", -0.5, measure="skip")]
    text = answer(skip, info(measures=["skip"]))
    assert "agrees with skip" in text and "(value_norm) at -0.50" in text


def test_negative_ceilings_and_baselines_are_not_called_agreement() -> None:
    text = answer(
        [row("raw", 0.1, ceiling=-0.23), row("frequency", -0.08, kind="baseline", ceiling=-0.23)]
    )
    assert (
        "; readers do not agree with each other (-0.23), and no baseline agrees with them" in text
    )
    assert "(the best, word rarity alone, is at -0.08)" in text
    assert "reaches -" not in text and "each other at" not in text
    # skipping is inverse attention: a negative value is agreement there
    skip = [row("raw", -0.3, measure="skip"), row("length", -0.4, measure="skip", kind="baseline")]
    assert "word length alone is at -0.40" in answer(skip, info(measures=["skip"]))


@pytest.mark.parametrize("level", ["mean", "reader"])
@pytest.mark.parametrize(
    ("value", "ceiling", "share"), [(-0.01, 0.5, -0.02), (0.0, 0.5, 0.0), (0.01, 0.04, NAN)]
)
def test_shares_of_the_ceiling_are_left_out_where_they_say_nothing(
    value: float, ceiling: float, share: float, level: str
) -> None:
    rows = [
        row("raw", 0.1, ceiling=ceiling),
        row("raw", value, level="reader", ceiling=ceiling, relative=share),
    ]
    text = answer(rows, info(level=level))
    assert "%" not in text
    assert ("Reader by reader, raw is at" in text) == (level == "mean")


@pytest.mark.parametrize("metric", ["js_divergence", "total_variation", "js_distance"])
def test_divergences_say_that_lower_is_closer(metric: str) -> None:
    first = answer([row("raw", 0.3, metric=metric)], info(metrics=[metric])).split(". ")[0]
    assert "0.30 [0.25, 0.35] (lower is closer)" in first
    assert "lower is closer" not in answer([row("raw", 0.3)])
