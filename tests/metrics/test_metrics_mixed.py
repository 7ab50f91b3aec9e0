"""Mixed-effects check: against a likelihood written out, recovery, and what is undefined."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2

from gazeattn.errors import CapabilityError, DataError
from gazeattn.metrics.mixed import mixed_effects

pytest.importorskip("statsmodels")


def make(seed: int = 0, effect: float = 0.5, people: int = 10, items: int = 25) -> pd.DataFrame:
    """Return reading times with crossed readers and words, and a predictor of words."""
    rng = np.random.default_rng(seed)
    p, i = np.indices((people, items)).reshape(2, -1)
    x = rng.normal(size=p.size)
    z = rng.normal(size=p.size)
    y = 5 + effect * x + 0.2 * z
    y += rng.normal(0, 0.7, people)[p] + rng.normal(0, 0.4, items)[i] + rng.normal(0, 0.5, p.size)
    return pd.DataFrame({"participant": [f"p{k:03}" for k in p], "word": i, "y": y, "x": x, "z": z})


def log_likelihood(frame: pd.DataFrame, columns: list[str]) -> tuple[float, np.ndarray]:
    """Maximise the likelihood of a random-intercept model, written out with dense matrices."""
    y = frame["y"].to_numpy()
    design = np.column_stack([np.ones(len(y)), *(frame[c] for c in columns)])
    same = (frame["participant"].to_numpy()[:, None] == frame["participant"].to_numpy()).astype(
        float
    )

    def negative(log_ratio: float) -> tuple[float, np.ndarray]:
        v = np.eye(len(y)) + np.exp(log_ratio) * same
        inverse = np.linalg.inv(v)
        beta = np.linalg.solve(design.T @ inverse @ design, design.T @ inverse @ y)
        rest = y - design @ beta
        scale = rest @ inverse @ rest / len(y)
        log = len(y) * np.log(2 * np.pi * scale) + np.linalg.slogdet(v)[1] + len(y)
        return log / 2, beta

    best = minimize(lambda t: negative(t[0])[0], [0.0], method="Nelder-Mead")
    value, beta = negative(best.x[0])
    return -value, beta


@pytest.mark.parametrize(("seed", "people", "items"), [(0, 6, 12), (0, 10, 25), (3, 4, 30)])
def test_equals_the_likelihood_written_out(seed: int, people: int, items: int) -> None:
    table = make(seed, people=people, items=items)
    found = mixed_effects(table, "y", "x", controls=["z"], standardise=False)
    full, beta = log_likelihood(table, ["x", "z"])
    reduced, _ = log_likelihood(table, ["z"])
    assert found.converged
    assert found.coefficients["x"] == pytest.approx(beta[1], abs=1e-4)
    assert found.coefficients["z"] == pytest.approx(beta[2], abs=1e-4)
    assert found.chi2 == pytest.approx(2 * (full - reduced), abs=1e-3)
    assert found.p == pytest.approx(chi2.sf(2 * (full - reduced), 1), rel=1e-2)


def test_balanced_within_predictor_is_least_squares_within() -> None:
    # centred within each reader, so that the random intercepts cannot touch the slope
    table = make(people=5, items=10)
    table["x"] -= table.groupby("participant")["x"].transform("mean")
    within = (table["y"] - table.groupby("participant")["y"].transform("mean")).to_numpy()
    x = table["x"].to_numpy(dtype=float)
    expected = float(within @ x / (x @ x))
    found = mixed_effects(table, "y", "x", standardise=False)
    assert found.estimate == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("options", [{}, {"slope": True}, {"item": "word"}])
def test_recovers_the_effect(options: dict[str, Any]) -> None:
    found = mixed_effects(make(), "y", "x", controls=["z"], standardise=False, **options)
    assert found.converged and found.low < 0.5 < found.high and found.p < 1e-6
    assert found.estimate == found.coefficients["x"]
    assert 0.1 < found.variances["participant"] < 1.5
    assert (found.n, found.n_missing, found.n_participants) == (250, 0, 10)
    if "item" in options:
        assert 0.05 < found.variances["item"] < 0.5 and found.n_items == 25
        assert found.variances["residual"] == pytest.approx(0.25, abs=0.08)
        assert "and items" in found.convention
    if "slope" in options:
        assert found.variances["slope"] < 0.1 and "slopes" in found.convention


def test_no_effect_is_not_found() -> None:
    p = [mixed_effects(make(seed, effect=0.0), "y", "x").p for seed in range(6)]
    assert sum(v < 0.05 for v in p) <= 2 and max(p) > 0.2


def test_standardised_is_the_slope_times_the_deviation() -> None:
    table = make(people=6, items=12)
    table["x"] = table["x"] * 1e4 + 7e5
    raw = mixed_effects(table.assign(x=table["x"] / 1e4), "y", "x", standardise=False)
    scaled = mixed_effects(table, "y", "x")
    assert scaled.estimate == pytest.approx(raw.estimate * table["x"].std() / 1e4, rel=1e-3)
    assert scaled.p == pytest.approx(raw.p, rel=0.05) and "standardised" in scaled.convention


def test_order_of_rows_and_names_of_columns_do_not_matter() -> None:
    table = make(people=6, items=12)
    found = mixed_effects(table, "y", "x")
    other = table.sample(frac=1, random_state=0).rename(
        columns={"y": "log time (ms)", "x": "C(x) + 1", "participant": "who~"}
    )
    again = mixed_effects(other, "log time (ms)", "C(x) + 1", participant="who~")
    assert again.estimate == pytest.approx(found.estimate, abs=1e-5)
    assert again.effect == "C(x) + 1" and set(again.coefficients) == {"intercept", "C(x) + 1"}


def test_missing_rows_are_left_out_and_counted() -> None:
    table = make(people=6, items=12)
    holes = table.copy()
    holes.loc[0, "y"], holes.loc[1, "x"], holes.loc[2, "z"] = np.nan, np.inf, np.nan
    holes.loc[3, "participant"] = None
    found = mixed_effects(holes, "y", "x", controls=["z"])
    expected = mixed_effects(table.drop(index=range(4)), "y", "x", controls=["z"])
    assert (found.n, found.n_missing) == (68, 4)
    assert found.estimate == pytest.approx(expected.estimate, abs=1e-8)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"participant": "one"}, "1 participant, 2 needed"),
        ({"y": 3.0}, "the outcome is constant"),
        ({"x": 0.5}, "constant: x"),
        ({"x": np.nan}, "0 participants"),
        ({"word": 1}, "1 item, 2 needed"),
    ],
)
def test_undefined_is_missing_with_a_reason(change: dict[str, Any], reason: str) -> None:
    found = mixed_effects(make().assign(**change), "y", "x", controls=["z"], item="word")
    assert reason in found.reason and not found.converged
    assert np.isnan([found.estimate, found.standard_error, found.p, found.chi2]).all()


def test_collinear_and_too_few_rows() -> None:
    table = make()
    table["w"] = 3 * table["x"] + 1
    assert "collinear" in mixed_effects(table, "y", "x", controls=["w"]).reason
    few = make(people=2, items=2)
    assert "4 rows for 2 predictors" in mixed_effects(few, "y", "x", controls=["z"]).reason


def test_wrong_input() -> None:
    table = make(people=3, items=4)
    with pytest.raises(DataError, match="lacks columns"):
        mixed_effects(table, "y", "absent")
    with pytest.raises(DataError, match="twice"):
        mixed_effects(table, "y", "x", controls=["x"])
    with pytest.raises(DataError, match="numbers"):
        mixed_effects(table.assign(x="a"), "y", "x")
    with pytest.raises(DataError, match="confidence"):
        mixed_effects(table, "y", "x", confidence=95)


def test_message_without_statsmodels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "statsmodels.regression.mixed_linear_model", None)
    with pytest.raises(CapabilityError, match="pip install statsmodels"):
        mixed_effects(make(people=3, items=4), "y", "x")
