"""Models of scikit-learn: chance, order, files, and what they refuse."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from gazeattn import registry
from gazeattn.datamodules.reading_aggregates import SETS
from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.experiments.building import OWN, read_model, sized
from gazeattn.models.reading import classical
from gazeattn.models.reading._aggregate_model import AggregateModel
from gazeattn.models.reading._sklearn import (
    NormalScores,
    log_odds,
    read_fitted,
    reader_folds,
    spread_classes,
    write_fitted,
)
from gazeattn.models.reading.base import Target

from .made_numbers import blobs, numbers, taken

SMALL: dict[str, dict[str, Any]] = {
    "ReadingSpeed": {},
    "LogisticMeziere": {},
    "Logistic": {"C": [0.01, 1.0], "folds": 3},
    "SVM": {"C": [0.1, 1.0], "kernel": "rbf", "folds": 3},
    "RandomForest": {"trees": 15},
    "ExtraTrees": {"trees": 15},
    "GradientBoosting": {"max_iter": 30, "folds": 3, "learning_rate": 0.1, "min_leaf": 5},
}
KINDS = [getattr(classical, n) for n in SMALL]
NAN = float("nan")


def small(kind: type[AggregateModel], target: Target, **more: Any) -> AggregateModel:
    return kind(target.plain(), **{**SMALL[kind.__name__], **more})


def fitted(kind: type[AggregateModel], inputs: Any, seed: int = 0, **more: Any) -> AggregateModel:
    regression = more.pop("regression", False)
    target = Target.fit("regression" if regression else "classification", inputs.y)
    made = small(kind, target, **more)
    made.fit(inputs, inputs, seed)
    return made


def auroc(y: np.ndarray, p: np.ndarray) -> float:
    """Share of pairs in the right order, ties half."""
    one, none = p[y == 1], p[y == 0]
    more = (one[:, None] > none).mean() + 0.5 * (one[:, None] == none).mean()
    return float(more)


def test_normal_scores_by_hand() -> None:
    """Ranks of 3, 1, 2, 2 less one half, over 4: 7/8, 1/8, 1/2, 1/2."""
    x = np.array([[3.0, 5.0, 0.0], [1.0, 5.0, 0.0], [2.0, 5.0, 0.0], [2.0, 5.0, 1.0]])
    scores = NormalScores.fit(x)
    high = float(ndtri(7 / 8))
    assert scores.starts.tolist() == [0, 3, 4, 6]
    np.testing.assert_allclose(scores.apply(x)[:, 0], [high, -high, 0, 0], atol=1e-12)
    np.testing.assert_allclose(scores.apply(x)[:, 1], 0, atol=1e-12)
    np.testing.assert_allclose(scores.apply(x)[:, 2], [ndtri(3 / 8)] * 3 + [ndtri(7 / 8)])
    new = np.array([[2.5, 7.0, 0.5], [9.0, -1.0, 9.0], [-9.0, 5.0, -9.0]])
    made = scores.apply(new)
    np.testing.assert_allclose(made[:, 0], [high / 2, high, -high], atol=1e-12)
    np.testing.assert_allclose(made[:, 1], 0, atol=1e-12)


def test_probabilities_by_hand() -> None:
    np.testing.assert_allclose(spread_classes(np.array([[0.25, 0.75]]), np.array([0, 2]), 4),
                               [[0.25, 0, 0.75, 0]])  # fmt: skip
    odds = log_odds(np.array([[0.2, 0.8], [0.0, 1.0]]), 0.01)
    np.testing.assert_allclose(odds[:, 1] - odds[:, 0], [np.log(4), np.log(100)])
    np.testing.assert_allclose(odds.sum(1), 0, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), min_size=1, max_size=40),
       st.integers(1, 6), st.integers(0, 5))  # fmt: skip
def test_readers_stay_together_in_folds(pairs: list[tuple[int, int]], n: int, seed: int) -> None:
    readers = np.array([f"r{r}" for r, _ in pairs], dtype=object)
    y = np.array([float(c) for _, c in pairs])
    folds = reader_folds(readers, y, n, seed)
    names = sorted(set(readers))
    of = {r: set(folds[readers == r]) for r in names}
    assert all(len(f) == 1 for f in of.values())
    sizes = np.bincount([min(of[r]) for r in names], minlength=min(n, len(names)))
    assert len(sizes) == min(n, len(names)) and sizes.max() - sizes.min() <= 1
    order = np.random.default_rng(seed).permutation(len(pairs))
    np.testing.assert_array_equal(reader_folds(readers[order], y[order], n, seed), folds[order])


def test_folds_have_readers_of_all_classes() -> None:
    y = np.repeat([0.0] * 6 + [1.0] * 6, 5)
    folds = reader_folds(np.repeat([f"r{i}" for i in range(12)], 5), y, 3, seed=4)
    assert [y[folds == k].mean() for k in range(3)] == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("kind", KINDS)
def test_learns_new_readers_and_gives_probabilities(kind: type[AggregateModel]) -> None:
    train, new = blobs(120, seed=1), blobs(90, seed=2)
    p = fitted(kind, train).predict(new)
    np.testing.assert_allclose(p.sum(1), 1)
    assert auroc(new.y, p[:, 1]) > 0.95 and ((p[:, 1] > 0.5) == new.y).mean() > 0.85
    assert len(np.unique(p[:, 1])) > 10  # not hard labels
    three = fitted(kind, blobs(150, classes=3, seed=1)).predict(blobs(90, classes=3, seed=2))
    assert three.shape == (90, 3) and (three.argmax(1) == np.arange(90) % 3).mean() > 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_learns_numbers(kind: type[AggregateModel]) -> None:
    made = blobs(160, seed=3)
    y = 100 + 20 * made.scaled["trial"][:, 0].astype(float)
    inputs = numbers(made.scaled["trial"], y, made.trials.participant)
    train, new = taken(inputs, range(100)), taken(inputs, range(100, 160))
    values = fitted(kind, train, regression=True).predict(new)
    assert values.shape == (60,)
    assert np.corrcoef(values, new.y)[0, 1] > 0.85
    assert np.abs(values - new.y).mean() < 0.5 * np.abs(new.y - train.y.mean()).mean()


@pytest.mark.parametrize("kind", KINDS)
def test_shuffled_labels_are_chance(kind: type[AggregateModel]) -> None:
    """Labels of both parts are shuffled: whatever is above chance has seen validation labels."""
    found = []
    for seed in range(3):
        train, new = blobs(160, seed=seed), blobs(240, seed=seed + 50)
        rng = np.random.default_rng(seed)
        parts = [numbers(p.scaled["trial"], rng.permutation(p.y), p.trials.participant)
                 for p in (train, new)]  # fmt: skip
        model = small(kind, Target.fit("classification", parts[0].y))
        model.fit(parts[0], parts[1], seed)
        found.append(auroc(parts[1].y, model.predict(parts[1])[:, 1]))
    # sd of one AUROC by chance is .037, of the mean of three .022
    assert abs(np.mean(found) - 0.5) < 0.09


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("regression", [False, True])
def test_order_seed_and_file(kind: type[AggregateModel], regression: bool, tmp_path: Path) -> None:
    train, new = blobs(80, seed=4, apart=1.0), blobs(40, seed=5)
    one = fitted(kind, train, 7, regression=regression)
    p = one.predict(new)
    order = np.random.default_rng(0).permutation(80)
    other = fitted(kind, taken(train, order), 7, regression=regression)
    np.testing.assert_array_equal(other.predict(new), p)
    turned = np.arange(40)[::-1]
    np.testing.assert_allclose(one.predict(taken(new, turned)), p[turned], rtol=1e-12)
    np.testing.assert_allclose(one.predict(taken(new, [3]))[0], p[3], rtol=1e-12)
    assert one.predict(taken(new, [])).shape == (0, *p.shape[1:])
    one.save(tmp_path / "model")
    loaded = kind.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(new), p)
    assert loaded.chosen == one.chosen and loaded.arguments == one.arguments
    if kind in (classical.RandomForest, classical.ExtraTrees):
        assert (fitted(kind, train, 8, regression=regression).predict(new) != p).any()


@pytest.mark.parametrize("kind", KINDS)
def test_edges(kind: type[AggregateModel], caplog: pytest.LogCaptureFixture) -> None:
    train = blobs(80, seed=6)
    y = np.where(np.arange(80) % 10 < 2, NAN, train.y)
    x, readers = train.scaled["trial"], train.trials.participant
    some = fitted(kind, numbers(x, y, readers)).predict(train)
    known = np.flatnonzero(~np.isnan(y))
    np.testing.assert_array_equal(some, fitted(kind, taken(train, known)).predict(train))

    constant = fitted(kind, numbers(np.ones_like(x), train.y, readers)).predict(train)
    assert np.isfinite(constant).all() and constant.std(0).max() < 1e-12
    np.testing.assert_allclose(constant, 0.5, atol=0.02)

    target = Target.fit("classification", train.y)
    single = numbers(x, train.y, ["r"] * 80)
    model = small(kind, target)
    if kind is classical.SVM:
        with pytest.raises(DataError, match="too few readers to calibrate"):
            model.fit(single, single)
    else:
        model.fit(single, single)
        assert auroc(train.y, model.predict(train)[:, 1]) > 0.9
        assert ("too few readers" in caplog.text) == (kind is classical.Logistic)
    numeric = small(kind, Target.fit("regression", train.y))
    numeric.fit(single, single)
    assert np.isfinite(numeric.predict(train)).all()
    for bad, message in (
        (numbers(x, np.ones(80)), "of one class"),
        (numbers(x, np.full(80, NAN)), "no training trial has a target"),
        (numbers(x, train.y + 1), "a class that the target does not have"),
        (numbers(x, train.y + 0.5), "a class that the target does not have"),
        (numbers(np.zeros((80, 0)), train.y), "sees no feature"),
        (numbers(np.where(x > 2, NAN, x), train.y), "not finite"),
    ):
        with pytest.raises(DataError, match=message):
            small(kind, target).fit(bad, bad)
    made = fitted(kind, train)
    with pytest.raises(DataError, match=r"other aggregates.*4 columns; found 3"):
        made.predict(numbers(x[:, :3], train.y))
    with pytest.raises(DataError, match="not finite"):
        made.predict(numbers(x * np.inf, train.y))
    with pytest.raises(CapabilityError, match="call fit first"):
        small(kind, target).predict(train)
    with pytest.raises(UnknownNameError, match="unknown setting"):
        kind(target.plain(), tress=3)


def test_weights_make_classes_equal() -> None:
    """Nine of ten trials are of class 0 and nothing tells: balanced means one half each."""
    y = np.array([0.0] * 9 + [1.0]).repeat(6)
    x = np.random.default_rng(0).normal(size=(60, 1)) * 1e-6
    for balanced, expected in ((True, 0.5), (False, 0.1)):
        model = fitted(classical.LogisticMeziere, numbers(x, y), balanced=balanced)
        np.testing.assert_allclose(model.predict(numbers(x, y))[:, 1], expected, atol=1e-3)


def test_chooses_by_readers_that_are_held_out() -> None:
    """What tells the training readers apart is noise for others: the strong penalty wins."""
    rng = np.random.default_rng(2)
    y = np.repeat(np.arange(16) % 2, 8).astype(float)
    own = np.repeat(rng.normal(size=(16, 30)), 8, axis=0)
    x = np.concatenate([own, y[:, None] + 1.5 * rng.normal(size=(128, 1))], axis=1)
    inputs = numbers(x, y, np.repeat([f"r{i:02d}" for i in range(16)], 8))
    model = fitted(classical.Logistic, inputs, C=[0.003, 1000.0], folds=4)
    assert model.chosen["C"] == 0.003
    assert 0 < model.chosen["loss"] < np.log(2) + 0.01


def test_calibration_never_turns_a_machine_round() -> None:
    """One number of each reader goes with the class in training, the other way in each fold."""
    y = np.repeat([0.0, 1.0, 0.0, 1.0], 10)
    x = np.repeat([0.0, 1.0, 3.0, -2.0], 10)[:, None] + 1e-3 * np.arange(40)[:, None]
    readers = np.repeat(["a", "b", "c", "d"], 10)
    model = fitted(classical.SVM, numbers(x, y, readers), folds=4, C=1.0)
    assert model.calibration.coef_[0, 0] >= 1e-3
    p = model.predict(numbers(x, y, readers))[:, 1]
    assert auroc(y, p) >= 0.5


def test_boosting_stops_early() -> None:
    """Labels are noise: few rounds; with a signal, more."""
    noise = blobs(160, seed=0, apart=0.0)
    few = fitted(classical.GradientBoosting, noise, max_iter=100).estimator.n_iter_
    many = fitted(classical.GradientBoosting, blobs(160, seed=0, apart=1.0), max_iter=100)
    assert few % 10 == 0 and 10 <= few <= 100
    assert many.estimator.n_iter_ >= 10


@pytest.mark.parametrize("kind", [classical.SVM, classical.ExtraTrees, classical.Logistic])
def test_damaged_files(kind: type[AggregateModel], tmp_path: Path) -> None:
    train = blobs(60, seed=8)
    made = fitted(kind, train)
    with pytest.raises(DataError, match="not the folder of a fitted model"):
        kind.load(tmp_path)
    made.save(tmp_path)
    facts, data = tmp_path / "model.json", tmp_path / "model.skops"
    good, text = data.read_bytes(), facts.read_text()
    wrong = classical.RandomForest if kind is not classical.RandomForest else classical.SVM
    with pytest.raises(DataError, match="another model"):
        wrong.load(tmp_path)
    data.unlink()
    with pytest.raises(DataError, match=r"missing.*model\.skops"):
        kind.load(tmp_path)
    data.write_bytes(good[:-40])
    with pytest.raises(DataError, match="not the one that was saved"):
        kind.load(tmp_path)

    def loads(content: bytes, **changes: Any) -> None:
        data.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        facts.write_text(json.dumps({**json.loads(text), "sha256": digest, **changes}))
        kind.load(tmp_path)

    loads(good)
    for cut in (good[:-40], good[: len(good) // 2], b"", b"PK\x03\x04 no archive"):
        with pytest.raises(DataError, match="damaged"):
            loads(cut)
    with pytest.raises(DataError, match="4 features, not 5"):
        loads(good, width=5)
    with pytest.raises(DataError, match="damaged"):
        loads(good, arguments=3)
    with pytest.raises(UnknownNameError, match="unknown setting"):
        loads(good, arguments={"other": 1})
    write_fitted(data, {"estimator": [1, 2]})
    with pytest.raises(DataError, match="list instead of"):
        loads(data.read_bytes())
    facts.write_text(text[:-5])
    with pytest.raises(DataError, match="damaged"):
        kind.load(tmp_path)


class Foreign:
    """No type of ours."""


def test_foreign_types_are_refused(tmp_path: Path) -> None:
    import operator

    for k, thing in enumerate((Foreign(), operator.methodcaller("upper"), np.save)):
        write_fitted(tmp_path / f"{k}.skops", {"estimator": thing})
        with pytest.raises(DataError, match=r"no model here has.*(Foreign|operator|numpy)"):
            read_fitted(tmp_path / f"{k}.skops")


def test_trees_and_machines_that_point_outside_are_refused(tmp_path: Path) -> None:
    """scikit-learn would read memory that is not its own."""
    train = blobs(60, seed=8)

    def saved(made: AggregateModel) -> AggregateModel:
        made.save(tmp_path)
        return type(made).load(tmp_path)

    for name, value in (("children_left", 10**6), ("children_right", 0), ("feature", 99)):
        made = fitted(classical.RandomForest, train)
        getattr(made.estimator.estimators_[3].tree_, name)[0] = value
        with pytest.raises(DataError, match="a tree"):
            saved(made)
    for name, value in (("left", 10**6), ("right", 0), ("feature_idx", 99), ("is_categorical", 1)):
        made = fitted(classical.GradientBoosting, train)
        made.estimator._predictors[2][0].nodes[name][0] = value
        with pytest.raises(DataError, match="a tree"):
            saved(made)
    made = fitted(classical.SVM, train)
    made.estimator._n_support[0] += 50
    with pytest.raises(DataError, match="support vectors"):
        saved(made)
    made = fitted(classical.Logistic, train)
    assert made.scores is not None
    made.scores.starts[1] = 10**6
    with pytest.raises(DataError, match="scores of the features"):
        saved(made)


def test_configurations_fit_the_models() -> None:
    names = {
        "reading_speed": ("speed",), "logistic_meziere": ("meziere",), "svm": ("saccades",),
        "logistic": SETS, "random_forest": SETS, "extra_trees": SETS, "gradient_boosting": SETS,
    }  # fmt: skip
    target = Target("classification", 2, (1.0, 1.0))
    for name, sets in names.items():
        for size in ("tiny", "cpu", "full"):
            config = sized(read_model(name), size)
            kind = registry.reading_models.get(name).obj
            made = kind(target.plain(), {"trial": 3}, **{
                k: v for k, v in config.items() if k not in OWN})  # fmt: skip
            choice = kind.choice(config)
            assert choice.sets == sets and choice.fixation == choice.gaze == choice.text == ()
            assert not choice.squash
            if size == "cpu":  # the file says what the class does by itself
                assert made.arguments == kind(target.plain()).arguments, name
    assert classical.SVM.choice({"sets": ["counts"], "flags": False}).sets == ("counts",)


@pytest.mark.slow
def test_dyslexia_of_new_readers(shared_data: Path) -> None:
    """Validation readers of EyeBench's first fold: trees tell them apart, shuffled ones not."""
    from gazeattn.datamodules.reading import reading_trials
    from gazeattn.datamodules.reading_batches import reading_inputs
    from gazeattn.datamodules.reading_scaling import FittedFeatures
    from gazeattn.datasets import load

    dataset = load("copco", root=shared_data / "copco")
    folds = dataset.reports["folds"]
    part_of = folds[folds["fold"] == "0"].set_index("trial")["part"]
    trials = reading_trials(dataset)
    part = part_of.reindex(trials.trial).to_numpy()
    parts = [trials.take(np.flatnonzero(part == p)) for p in ("train", "val")]
    features = FittedFeatures.fit(parts[0], classical.ExtraTrees.choice({}))
    train, valid = (
        reading_inputs(p, features, p.table["dyslexia"].to_numpy(dtype=float)) for p in parts
    )
    new = ~np.isin(parts[1].participant, parts[0].participant)
    p = fitted(classical.ExtraTrees, train, trees=100).predict(valid)[:, 1]
    assert auroc(valid.y[new], p[new]) > 0.7
