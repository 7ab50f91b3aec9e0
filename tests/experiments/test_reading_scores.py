"""Rows of scores: by hand, published figures of EyeBench, and paired differences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score, roc_auc_score

from gazeattn.datamodules.reading_tasks import ReadingTask
from gazeattn.errors import DataError
from gazeattn.experiments.reading_scores import (
    ALL,
    Draws,
    best_of,
    by_reader,
    interval,
    metrics_of,
    over_folds,
    paired,
    prediction_columns,
    score_rows,
    scored,
)

NAN = np.nan
TASK = ReadingTask("t", "classification", "label")
REGIMES = ("unseen_reader", "unseen_text", "unseen_both")


def table(seed: int = 0, seeds: int = 1, readers: int = 8, skill: float = 1.0) -> pd.DataFrame:
    """Return predictions for 3 folds of 8 readers with 6 trials each; the truth never varies."""
    parts = []
    truth = np.random.default_rng(99)
    facts = pd.DataFrame(
        [(f, r, i) for f in range(3) for r in range(readers) for i in range(6)],
        columns=["fold", "reader", "item"],
    )
    facts["fold"] = facts["fold"].astype("str")
    facts["participant"] = "r" + facts["reader"].astype("str")
    facts["item"] = "i" + facts["item"].astype("str")
    facts["trial"] = facts["participant"] + ":" + facts["item"]
    facts["regime"] = truth.choice(REGIMES, len(facts))
    facts["y"] = truth.integers(0, 2, len(facts)).astype(float)
    for s in range(seeds):
        noise = np.random.default_rng([seed, s]).normal(size=len(facts))
        odds = skill * (facts["y"] - 0.5) + noise
        parts.append(facts.assign(seed=s, part="test", p=1 / (1 + np.exp(-odds))))
    return pd.concat(parts, ignore_index=True).drop(columns="reader")


@pytest.fixture(scope="module")
def draws() -> Draws:
    return Draws.of(table()["participant"], 300, 1)


def test_columns() -> None:
    assert prediction_columns(pd.DataFrame(columns=["p", "part", "y"])) == ["p"]
    several = pd.DataFrame(columns=["p10", "p2", "p0", "part", "participant"])
    assert prediction_columns(several) == ["p0", "p2", "p10"]


def test_rows_that_are_scored() -> None:
    t = table()
    t.loc[[0, 5], "y"] = NAN
    assert len(scored(t)) == len(t) - 2
    some = scored(t, "unseen_text")
    assert (some["regime"] == "unseen_text").all() and some["y"].notna().all()
    assert over_folds(t, "auroc", ALL)[0] == over_folds(t.drop(index=[0, 5]), "auroc", ALL)[0]


@pytest.mark.parametrize("regime", [ALL, *REGIMES])
def test_means_over_folds_and_seeds(regime: str) -> None:
    t = table(seeds=2)
    rows = t if regime == ALL else t[t["regime"] == regime]
    each = [roc_auc_score(g["y"], g["p"]) for _, g in rows.groupby(["fold", "seed"])]
    assert len(each) == 6
    assert over_folds(t, "auroc", regime)[0] == pytest.approx(np.mean(each))
    assert over_folds(t.sample(frac=1, random_state=1), "auroc", regime)[0] == pytest.approx(
        np.mean(each)
    )


def test_a_fold_of_one_class_has_no_score() -> None:
    t = table()
    t.loc[t["fold"] == "1", "y"] = 1.0
    rest = t[t["fold"] != "1"]
    assert over_folds(t, "auroc", ALL)[0] == over_folds(rest, "auroc", ALL)[0]
    value, drawn = over_folds(t[t["fold"] == "1"], "auroc", ALL)
    assert np.isnan(value) and drawn is None
    none, drawn = over_folds(t, "auroc", "nowhere", Draws.of(t["participant"], 7))
    assert np.isnan(none) and drawn is not None and np.isnan(drawn).all() and len(drawn) == 7
    assert np.isnan(interval(drawn)).all() and np.isnan(interval(None)).all()


def test_draws_are_of_readers(draws: Draws) -> None:
    t = table()
    assert draws.readers.tolist() == [f"r{k}" for k in range(8)] and draws.times.shape == (300, 8)
    np.testing.assert_array_equal(draws.times.sum(axis=1), 8)
    weights = draws.weights(t["participant"])
    assert weights.shape == (300, len(t))
    for k in range(8):
        mine = weights[:, (t["participant"] == f"r{k}").to_numpy()]
        np.testing.assert_array_equal(mine, np.repeat(draws.times[:, [k]], mine.shape[1], 1))
    # whatever the order of the rows, and for any model: the same readers
    again = Draws.of(t["participant"].sample(frac=1, random_state=2), 300, 1)
    np.testing.assert_array_equal(again.times, draws.times)
    with pytest.raises(DataError, match="stranger"):
        draws.weights(pd.Series(["r0", "stranger"]))


def test_a_draw_is_a_repetition_of_readers(draws: Draws) -> None:
    t = table()
    drawn = over_folds(t, "auroc", ALL, draws)[1]
    assert drawn is not None
    for k in (0, 17):
        values = []
        for _, group in t.groupby("fold"):
            times = group["participant"].map(dict(zip(draws.readers, draws.times[k], strict=True)))
            rows = group.loc[group.index.repeat(times.astype(int))]
            values.append(roc_auc_score(rows["y"], rows["p"]))
        assert drawn[k] == pytest.approx(np.mean(values))
    low, high = interval(drawn)
    assert low == np.quantile(drawn, 0.025) and high == np.quantile(drawn, 0.975)
    assert low < over_folds(t, "auroc", ALL)[0] < high


def test_readers_by_hand() -> None:
    rows = pd.DataFrame(
        {
            "fold": "0", "seed": 0, "participant": ["a", "a", "b"], "regime": "unseen_reader",
            "trial": ["1", "2", "3"], "y": [1.0, 1.0, 0.0], "p": [0.9, 0.5, 0.2],
        },
        index=[4, 4, 9],
    )  # fmt: skip
    found = by_reader(rows)
    assert found["participant"].tolist() == ["a", "b"] and found["y"].tolist() == [1, 0]
    # odds 9 and 1: the geometric mean is 3
    np.testing.assert_allclose(found["p"], [0.75, 0.2])
    numbers = by_reader(rows.assign(p=[3.0, 5.0, -1.0]))
    assert numbers["p"].tolist() == [4, -1]
    assert by_reader(rows, probabilities=False)["p"].tolist() == [0.7, 0.2]
    classes = by_reader(rows.drop(columns="p").assign(p0=[0.1, 0.3, 1], p1=[0.9, 0.7, 0]))
    np.testing.assert_allclose(classes[["p0", "p1"]], [[0.2, 0.8], [1, 0]])
    certain = by_reader(rows.assign(p=[1.0, 1.0, 0.0]))
    assert np.isfinite(certain["p"]).all() and (certain["p"] > 0.5).tolist() == [True, False]


def test_scores_over_readers() -> None:
    """All folds together, each reader once per fold; then the mean over seeds."""
    t = table(seeds=2)
    t["y"] = t["participant"].str[1:].astype(float) / 9  # predictions and truth from 0 to 1
    values = []
    for _, group in t.groupby("seed"):
        means = group.groupby(["fold", "participant"])[["y", "p"]].mean()
        values.append(r2_score(means["y"], means["p"]))
    draws = Draws.of(t["participant"], 40)
    value, drawn = over_folds(t, "r2_reader", ALL, draws)
    assert value == pytest.approx(np.mean(values)) and drawn is not None and drawn.shape == (40,)


def test_rows_of_a_model(draws: Draws) -> None:
    t = table(seeds=2)
    t.loc[3, "y"] = NAN
    found = pd.DataFrame(score_rows(t, TASK, draws))
    keys = found[["regime", "fold", "metric"]]
    assert not keys.duplicated().any()
    means = found[found["fold"] == "mean"]
    assert set(means["metric"]) == {
        "auroc", "balanced_accuracy", "brier", "calibration_error", "auroc_seed_sd",
    }  # fmt: skip
    assert set(means["regime"]) == {ALL, *REGIMES}
    head = found.set_index(["regime", "fold", "metric"])
    row = head.loc[(ALL, "mean", "auroc")]
    assert row["value"] == over_folds(t, "auroc", ALL)[0] and row["n"] == 144
    assert row["low"] < row["value"] < row["high"]
    each = [over_folds(g, "auroc", "unseen_text")[0] for _, g in t.groupby("seed")]
    sd = head.loc[("unseen_text", "mean", "auroc_seed_sd")]
    assert sd["value"] == pytest.approx(abs(each[0] - each[1]) / np.sqrt(2)) and sd["n"] == 2
    single = t[(t["fold"] == "2") & (t["regime"] == "unseen_both")]
    row = head.loc[("unseen_both", "2", "auroc")]
    assert row["value"] == pytest.approx(
        np.mean([roc_auc_score(g["y"], g["p"]) for _, g in single.groupby("seed")])
    )
    assert row["n"] == single["trial"].nunique()
    assert set(pd.DataFrame(score_rows(t, TASK, draws, folds=False))["fold"]) == {"mean"}


def test_rows_of_several_classes(draws: Draws) -> None:
    t = table()
    t["y"] = t["item"].map({f"i{k}": k % 3 for k in range(6)}).astype(float)
    p = np.random.default_rng(0).dirichlet([1, 1, 1], len(t))
    t = t.drop(columns="p").assign(p0=p[:, 0], p1=p[:, 1], p2=p[:, 2])
    found = pd.DataFrame(score_rows(t, TASK, draws)).set_index(["regime", "fold", "metric"])
    assert found["value"].notna().all()
    happened = np.eye(3)[t["y"].astype(int)]
    wanted = (((p - happened) ** 2).sum(axis=1) / 2).reshape(3, -1).mean()
    assert found.loc[(ALL, "mean", "brier"), "value"] == pytest.approx(wanted)


def test_metrics_of_tasks() -> None:
    assert metrics_of(TASK) == ["auroc", "balanced_accuracy", "brier"]
    score = ReadingTask("s", "regression", "score", level="reader", metric="r2_reader")
    assert metrics_of(score) == ["r2", "rmse", "mae", "r2_reader"]


@pytest.mark.parametrize("metric", ["auroc", "brier", "balanced_accuracy", "rmse", "mae", "r2"])
def test_equal_models_do_not_differ(metric: str, draws: Draws) -> None:
    for seeds in (1, 2):
        t = table(seeds=seeds)
        other = t.sample(frac=1, random_state=5)
        found = paired(t, t.copy(), metric, ALL, draws)
        assert found == {"difference": 0.0, "low": 0.0, "high": 0.0}
        found = paired(t, other, metric, ALL, draws)
        np.testing.assert_allclose(list(found.values()), 0, atol=1e-12)


def test_positive_is_better(draws: Draws) -> None:
    good, bad = table(1, skill=5.0), table(2, skill=0.2)
    for metric in ("auroc", "brier", "rmse"):
        one, other = (paired(a, b, metric, ALL, draws) for a, b in ((good, bad), (bad, good)))
        assert one["low"] > 0 and one["low"] < one["difference"] < one["high"]
        assert other["difference"] == pytest.approx(-one["difference"])
        assert other["low"] == pytest.approx(-one["high"])
    gap = over_folds(good, "auroc", ALL)[0] - over_folds(bad, "auroc", ALL)[0]
    assert paired(good, bad, "auroc", ALL, draws)["difference"] == pytest.approx(gap)
    assert best_of({"a": bad, "b": good}, "auroc", ALL)[0] == "b"
    assert best_of({"a": bad, "b": good}, "brier", ALL)[0] == "b"
    with pytest.raises(DataError, match="no model"):
        best_of({"a": bad}, "auroc", "nowhere")


def test_pairs_share_their_trials(draws: Draws) -> None:
    t = table()
    text = t.index[t["regime"] == "unseen_text"]
    changes: list[Callable[[pd.DataFrame], Any]] = [
        lambda x: x.drop(index=text[0]),
        lambda x: x.assign(trial=x["trial"].where(x.index != text[0], "other")),
        lambda x: x.assign(y=x["y"].where(x.index != text[0], NAN)),
        lambda x: x.assign(fold=x["fold"].where(x.index != text[0], "9")),
    ]
    for change in changes:
        for a, b in ((t, change(t)), (change(t), t)):
            with pytest.raises(DataError, match="same trials"):
                paired(a, b, "auroc", ALL, draws)
            paired(a, b, "auroc", "unseen_reader", draws)  # these are the same


# Published figures


def published(folder: Path, tmp_path: Path, model: str) -> pd.DataFrame:
    """Return EyeBench's predictions of dyslexia by one model, as our tables of predictions."""
    from gazeattn.datasets.copco import _predictions
    from gazeattn.datasets.corpus import corpus

    here = tmp_path / "eyebench_predictions"
    here.mkdir(parents=True)
    for path in (folder / "eyebench_predictions").glob(f"CopCo_TYP__{model}__fold*"):
        (here / path.name).symlink_to(path)
    raw = _predictions(tmp_path, corpus("copco"))
    assert set(raw["model"]) == {model} and set(raw["fold"]) == set("0123")
    return raw.assign(
        seed=0, participant=raw["trial"].str.split("_").str[0], y=raw["label"], p=raw["prediction"]
    )


PUBLISHED = {  # per cent: all, unseen_text, unseen_reader, unseen_both
    "AhnCNN": (83.4, 85.7, 85.3, 74.9),
    "RandomForestMLArgs": (82.9, 91.5, 80.1, 65.9),
}


@pytest.mark.parametrize("model", sorted(PUBLISHED))
def test_published_figures(model: str, shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "copco"
    if not (folder / "eyebench_predictions").is_dir():
        pytest.skip("the published predictions are not here")
    raw = published(folder, tmp_path, model)
    assert raw["p"].between(0, 1).all() and set(raw["part"]) == {"val", "test"}
    test = raw[raw["part"] == "test"]
    for regime, wanted in zip((ALL, "unseen_text", "unseen_reader", "unseen_both"),
                              PUBLISHED[model], strict=True):  # fmt: skip
        value, _ = over_folds(test, "auroc", regime)
        assert 100 * value == pytest.approx(wanted, abs=0.0501), regime


def test_predictions_of_two_classes_are_lists(shared_data: Path, tmp_path: Path) -> None:
    """``[p of 0, p of 1]`` is read as the probability of 1, row by row."""
    folder = shared_data / "copco"
    path = folder / "eyebench_predictions/CopCo_TYP__RandomForestMLArgs__fold2.csv.gz"
    if not path.is_file():
        pytest.skip("the published predictions are not here")
    ours = published(folder, tmp_path, "RandomForestMLArgs")
    theirs = pd.read_csv(path)
    pairs = theirs["prediction_prob"].str.strip("[]").str.split(",", expand=True).astype(float)
    np.testing.assert_allclose(pairs.sum(axis=1), 1, atol=1e-9)
    rows = ours[ours["fold"] == "2"]
    np.testing.assert_array_equal(rows["p"], pairs[1])
    assert rows["trial"].tolist() == theirs["unique_trial_id"].tolist()
    np.testing.assert_array_equal(rows["y"], theirs["label"])
