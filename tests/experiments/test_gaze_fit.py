"""Priors of gaze on code: baselines by hand, scores by hand, nothing of a test cell in training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.errors import DataError
from gazeattn.experiments import _gaze_baselines as base
from gazeattn.experiments._gaze_baselines import Fitting
from gazeattn.experiments.gaze_fit import (
    CEILING,
    cell_scores,
    interval_rows,
    scores,
)

from ..datamodules.test_code_gaze import reading

OPTIONS = {
    "states": 2, "content": 2, "components": 2, "hidden": 4, "lr": 0.05, "weight_decay": 0.0,
    "dropout": 0.0, "steps": 60, "patience": 60,
}  # fmt: skip


def snippet(name: str, roles: list[str], letters: list[float], seed: int = 0) -> base.Snippet:
    made = np.random.default_rng(seed)
    n = len(roles)
    return base.Snippet(
        name, name[:1], np.linspace(0, 1, n), np.array(letters), np.array(roles),
        np.zeros(n), made.normal(size=(n, 5)), made.normal(size=5),
    )  # fmt: skip


def test_scores_by_hand() -> None:
    target, seen = np.array([0.5, 0.3, 0.2]), np.array([True, True, False])
    log_g = np.log([0.2, 0.4, 0.4])
    found = scores(log_g, target, seen)
    assert found["kl"] == pytest.approx(0.5 * np.log(2.5) + 0.3 * np.log(0.75) + 0.2 * np.log(0.5))
    # pairs: .2 against .4 is lost, .4 against .4 a tie
    assert found["auc"] == pytest.approx(0.25)
    assert found["top10"] == 1  # three tokens: all are among the first ten
    assert np.isnan(scores(log_g, target, np.ones(3, bool))["auc"])
    # 20 tokens, even prior: ten of them are any ten
    even = scores(np.full(20, -3.0), np.arange(1, 21) / 210, np.arange(20) > 9)
    assert even["top10"] == pytest.approx(0.5) and even["auc"] == 0.5


def test_baselines_by_hand() -> None:
    s = snippet("a", ["name", "space", "name", "op"], [3, 0, 6, 1])
    target = {"a": np.array([0.4, 0.05, 0.5, 0.05])}
    priors = {k: np.exp(f([s], target, {"a": 2})(s)) for k, f in base.BASELINES.items()}
    for g in priors.values():
        assert g.sum() == pytest.approx(1) and (g > 0).all()
    assert priors["uniform"].tolist() == [0.25] * 4
    assert priors["token_length"].tolist() == pytest.approx([3 / 10.1, 0.1 / 10.1, 6 / 10.1,
                                                             1 / 10.1])  # fmt: skip
    # names: two readings of 1.6 and 2.0 times even gaze, beside 50 tokens of even gaze
    name = (2 * (1.6 + 2.0) + 50) / (2 * 2 + 50)
    other = (2 * 0.2 + 50) / (2 + 50)
    total = 2 * name + 2 * other
    assert priors["token_class"].tolist() == pytest.approx(
        [name / total, other / total, name / total, other / total]
    )
    assert priors["centre_bias"][0] == pytest.approx(priors["centre_bias"][3])
    new = snippet("b", ["name", "never"], [1, 1])
    found = np.exp(base.token_class([s], target, {"a": 2})(new))
    assert found.tolist() == pytest.approx([name / (name + 1), 1 / (name + 1)])


def test_roles_and_lines_of_tokens() -> None:
    source = "def f(a):\n    return a  # x\n"
    offsets = np.array([[0, 3], [3, 5], [5, 6], [6, 7], [9, 14], [14, 20], [20, 22], [22, 27]])
    roles = base.roles_of(source, "python", offsets)
    assert roles.tolist()[:5] == ["keyword", "identifier", "punctuation", "identifier", "space"]
    assert roles[5] == "keyword" and roles[6] == "identifier" and roles[7] == "comment"
    assert base.line_starts(source, offsets).tolist() == [1, 0, 0, 0, 0, 1, 0, 0]


def fitting(readers: str = "ABCD", items: str = "abcd") -> Fitting:
    """Everybody looks at names, whose states have a large first number, and at nothing else."""
    snippets: dict[str, base.Snippet] = {}
    made = np.random.default_rng(3)
    for k, item in enumerate(items):
        name = f"{item}1"
        roles = ["name" if made.random() < 0.4 else "op" for _ in range(12)]
        roles[0], roles[1] = "name", "op"
        s = snippet(name, ["one"] * 12, [1.0] * 12, seed=k)
        states = s.states.copy()
        states[:, 0] = np.where(np.array(roles) == "name", 6.0, -6.0)
        snippets[name] = base.Snippet(name, item, s.position, s.letters, s.role, s.line_start,
                                      states, s.query)  # fmt: skip
    readings, targets, seen = [], [], []
    for person in readers:
        for name, s in snippets.items():
            hit = s.states[:, 0] > 0
            mass = np.where(hit, made.gamma(5, 50, 12), 0.0) + 1
            readings.append(reading(person, name))
            targets.append(mass / mass.sum())
            seen.append(hit)
    return Fitting(readings, targets, seen, snippets)


SETTINGS: dict[str, Any] = {"learned": OPTIONS, "seed": 0}


def folds(data: Fitting) -> tuple[np.ndarray, np.ndarray]:
    people = np.array([ord(r.participant) - ord("A") for r in data.readings])
    items = np.array([ord(r.text.item) - ord("a") for r in data.readings])
    return people, items


def test_content_is_learned_and_carries_over() -> None:
    data = fitting()
    rows = pd.DataFrame(cell_scores(data, *folds(data), (0, 1), SETTINGS))
    kl = rows.groupby("model")["kl"].mean()
    assert kl["mixture_content"] < 0.6 * min(kl["uniform"], kl["token_class"], kl["mixture"])
    assert rows.groupby("model")["auc"].mean()["mixture_content"] > 0.95
    assert kl[CEILING] < kl["uniform"]


def test_a_test_cell_reaches_no_prior() -> None:
    data = fitting()
    people, items = folds(data)
    rows = pd.DataFrame(cell_scores(data, people, items, (0, 1), SETTINGS))
    hidden = (people == 0) | (items == 1)
    targets = [t[::-1].copy() if h else t for t, h in zip(data.targets, hidden, strict=True)]
    changed = Fitting(data.readings, targets, data.seen, data.snippets)
    # the same readings are scored: whatever was predicted must be what it was
    other = pd.DataFrame(cell_scores(changed, people, items, (0, 1), SETTINGS))
    keep = rows["model"] != CEILING
    assert np.array_equal(rows.loc[keep, "auc"], other.loc[keep, "auc"])
    assert not np.allclose(rows.loc[keep, "kl"], other.loc[keep, "kl"])


def test_intervals_and_differences() -> None:
    data = fitting("ABCDEF", "abcdef")
    parts = []
    _people, items = folds(data)
    for k, r in enumerate(data.readings):
        for model, value in (("mixture_content", 0.5), ("uniform", 0.8 + 0.01 * items[k])):
            parts.append({"participant": r.participant, "item": r.text.item, "trial": r.trial,
                          "model": model, "kl": value, "auc": 0.9 - value / 2,
                          "top10": 0.2})  # fmt: skip
    rows = pd.DataFrame(interval_rows(pd.DataFrame(parts), "mixture_content", {}, 200))
    gap = rows[(rows["model"] == "uniform") & (rows["reference"] == "mixture_content")]
    of = gap.set_index("metric")
    # higher is better in differences: uniform is worse by 0.325 nats
    assert of.loc["kl", "value"] == pytest.approx(-0.325)
    assert of.loc["kl", "low"] < -0.325 < of.loc["kl", "high"] < -0.29
    assert of.loc["auc", "value"] == pytest.approx(-0.1625)
    assert of.loc["top10", "low"] == of.loc["top10", "high"] == 0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_command(tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAZEATTN_SHARED", str(shared_data))
    from gazeattn.experiments.gaze_fit import run_gaze_fit
    from gazeattn.lm import LanguageModel

    try:
        LanguageModel.load("smollm2-135m")
    except gazeattn_missing():
        pytest.skip("smollm2-135m is not installed: gazeattn fetch smollm2-135m")
    settings = {
        "dataset": "code_comprehension", "lm": "smollm2-135m", "layer": 0.6, "folds": 4,
        "cells": 1, "draws": 50, "seed": 0, "data_seed": 0, "reference": "mixture_content",
        "learned": {**OPTIONS, "steps": 3},
    }  # fmt: skip
    rows = run_gaze_fit(tmp_path / "run", settings, publish=str(tmp_path), command="gazeattn x",
                        size="tiny")  # fmt: skip
    assert set(rows["metric"]) == {"kl", "auc", "top10"}
    made = json.loads((tmp_path / "gaze_fit.json").read_text(encoding="utf-8"))
    assert made["lm"] == "smollm2-135m" and made["rows"]
    even = rows[(rows["model"] == "uniform") & (rows["metric"] == "auc")]
    assert np.allclose(even["value"].iloc[0], 0.5)
    assert (tmp_path / "run" / "report.html").is_file()
    stamp = (tmp_path / "run" / "cells" / "0_0.parquet").stat().st_mtime_ns
    run_gaze_fit(tmp_path / "run", settings, size="tiny")
    assert (tmp_path / "run" / "cells" / "0_0.parquet").stat().st_mtime_ns == stamp
    with pytest.raises(DataError, match="other settings"):
        run_gaze_fit(tmp_path / "run", {**settings, "seed": 1}, size="tiny")


def gazeattn_missing() -> type[Exception]:
    from gazeattn.errors import MissingAssetError

    return MissingAssetError
