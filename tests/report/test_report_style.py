from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gazeattn.report import style


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.3123, "0.31"),
        (-0.3123, "−0.31"),
        (0.0423, "0.042"),
        (0.00042, "0.00042"),
        (0.000012, "1.2 × 10^−5"),
        (3.14159, "3.14"),
        (31.4159, "31.4"),
        (3141.59, "3,142"),
        (0, "0"),
        (-0.0, "0"),
        (math.nan, "–"),
        (math.inf, "–"),
        (None, "–"),
        (pd.NA, "–"),
        (np.float64("nan"), "–"),
    ],
)
def test_numbers_have_two_or_three_digits_and_missing_is_a_dash(value: object, text: str) -> None:
    assert style.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0004, "< 0.001"), (0.0, "< 0.001"), (0.001, "0.001"), (0.0123, "0.012"), (0.5, "0.50"),
     (1.0, "1.00"), (math.nan, "–"), (pd.NA, "–")],
)  # fmt: skip
def test_probabilities(value: object, text: str) -> None:
    assert style.p_value(value) == text


def test_shares_and_counts() -> None:
    assert style.percent(0.634) == "63\u202f%"
    assert style.percent(0.0634) == "6.3\u202f%"
    assert style.percent(-0.2) == "−20\u202f%"
    assert style.percent(0.0) == "0\u202f%"
    assert style.percent(math.nan) == "–"
    assert style.count(12345) == "12,345"
    assert style.count(pd.NA) == "–"


def test_labels_and_cleaning() -> None:
    assert style.label("gaze_duration") == "gaze duration"
    assert style.label("") == "–"
    assert style.clean("a\x00b\ud800c\x1bd") == "a\ufffdb\ufffdc\ufffdd"
    assert style.clean("a\tb\u200dc👩‍🔬שלום") == "a\tb\u200dc👩‍🔬שלום"
    assert style.shorten("a" * 60) == "a" * 60
    assert style.shorten("a" * 10_000) == "a" * 60 + "… (10,000 characters)"


def test_levels_mark_missing_words_and_never_score_them() -> None:
    weights = np.array([0.0, np.nan, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    levels, low, high = style.word_levels(weights)
    assert levels[1] == -1
    assert (levels[np.isfinite(weights)] >= 0).all()
    assert levels[0] == 0  # zero is a score, the lowest one
    assert levels[-1] == style.LEVELS - 1
    assert (np.diff(levels[2:]) >= 0).all()
    # by hand: 5th and 95th percentile of 0..8
    assert low == pytest.approx(0.4)
    assert high == pytest.approx(7.6)


def test_levels_of_constant_empty_and_unscored_profiles() -> None:
    levels, low, high = style.word_levels(np.full(4, 0.25))
    assert levels.tolist() == [4, 4, 4, 4]
    assert (low, high) == (0.25, 0.25)
    levels, low, high = style.word_levels(np.full(3, np.nan))
    assert levels.tolist() == [-1, -1, -1]
    assert math.isnan(low) and math.isnan(high)
    assert style.word_levels(np.array([]))[0].tolist() == []


def test_one_outlier_among_equals_is_seen() -> None:
    levels, low, high = style.word_levels(np.array([1.0] * 40 + [9.0]))
    assert levels[-1] == style.LEVELS - 1
    assert set(levels[:-1]) == {0}
    assert (low, high) == (1.0, 9.0)


@given(st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(math.nan)), max_size=40))
def test_levels_keep_the_order_of_weights(values: list[float]) -> None:
    weights = np.array(values, dtype=float)
    levels, _, _ = style.word_levels(weights)
    known = np.isfinite(weights)
    assert (levels[~known] == -1).all()
    assert ((levels[known] >= 0) & (levels[known] < style.LEVELS)).all()
    order = np.argsort(weights[known], kind="stable")
    assert (np.diff(levels[known][order]) >= 0).all()


@pytest.mark.parametrize("side", ["human", "model"])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_words_are_legible_on_every_step_and_steps_are_monotone(side: str, mode: str) -> None:
    ink = style.INK if mode == "light" else style.DARK[style.INK]
    colours = style.word_colours(side, mode)
    assert len(set(colours)) == style.LEVELS
    assert min(style.contrast(c, ink) for c in colours) >= 4.5
    bright = [style.luminance(c) for c in colours]
    steps = np.diff(bright)
    assert (steps < 0).all() if mode == "light" else (steps > 0).all()


def test_colours_are_legible_on_both_papers() -> None:
    papers = (style.PAPER, style.DARK[style.PAPER])
    for colour in (*style.SERIES, style.BASELINE):
        assert min(style.contrast(colour, p) for p in papers) >= 2.9, colour
    for light in (style.INK, style.MUTED):
        assert style.contrast(light, style.PAPER) >= 4.5
        assert style.contrast(style.DARK[light], style.DARK[style.PAPER]) >= 4.5


def test_contrast_by_hand() -> None:
    assert style.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert style.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_dark_rules_name_every_neutral_colour() -> None:
    rules = style.dark_rules()
    assert "prefers-color-scheme:dark" in rules
    for light, dark in style.DARK.items():
        assert light in rules and dark in rules


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (
            [0.526, -0.00062, 0.0, 0.0423, -0.336, math.nan],
            ["0.53", "−0.001", "0", "0.042", "−0.34", "–"],
        ),
        ([0.0996, 0.0004], ["0.10", "0"]),
        ([0.0123, 0.00045], ["0.012", "0.00045"]),
        ([12.5, 3.21], ["12.5", "3.21"]),
        ([math.nan], ["–"]),
    ],
)
def test_columns_of_agreements_have_even_digits(column: list[float], texts: list[str]) -> None:
    write = style.decimals(np.array(column))
    assert [write(v) for v in column] == texts
