"""Several models together: who sees whom, by hand, and from a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from gazeattn import registry
from gazeattn.datamodules.reading_batches import ReadingBatch, ReadingInputs
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.experiments.building import OWN, read_model, sized
from gazeattn.models.reading._sklearn import write_fitted
from gazeattn.models.reading.base import ReadingEstimator, ReadingNetwork, Target
from gazeattn.models.reading.ensemble import Ensemble, part_of
from gazeattn.registry import Entry

from .made_numbers import numbers, taken, timed

TREES: dict[str, Any] = {"name": "random_forest", "sets": ["distributions"], "trees": 10}
LINE: dict[str, Any] = {"name": "logistic", "sets": ["distributions"], "C": 0.1}


class Spy(ReadingEstimator):
    """Records the readers it is fitted on and predicts; says what its level is."""

    seen: ClassVar[list[tuple[str, set[str], set[str]]]] = []

    def __init__(self, target: Mapping[str, Any], widths: Any = None, *, level: float = 0.5):
        self.target, self.level = Target.of(target), level

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        return FeatureChoice(fixation=("duration",), gaze=(), text=())

    def fit(self, train: ReadingInputs, valid: ReadingInputs, seed: int = 0) -> None:
        self.readers = set(train.trials.participant)
        self.features = train.scaled["fixation"][:, 0]
        self.seen.append(("fit", self.readers, set(valid.trials.participant)))

    def predict(self, inputs: ReadingInputs) -> np.ndarray:
        self.seen.append(("predict", self.readers, set(inputs.trials.participant)))
        if self.target.kind == "regression":
            return np.full(len(inputs), self.level)
        return np.tile([1 - self.level, self.level], (len(inputs), 1))

    def save(self, folder: str | os.PathLike[str]) -> None:
        (Path(folder) / "level.json").write_text(json.dumps([self.target.plain(), self.level]))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Spy:
        target, level = json.loads((Path(folder) / "level.json").read_text())
        made = cls(target, level=level)
        made.readers = set()
        return made


class Net(ReadingNetwork):
    """Tells by the mean of the durations."""

    def __init__(self, target: Mapping[str, Any], widths: Mapping[str, int], *, bias: float = 0.0):
        super().__init__(target, widths)
        self.save_hyperparameters()
        self.linear = torch.nn.Linear(1, self.target.outputs)
        torch.nn.init.constant_(self.linear.bias, bias)

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        return FeatureChoice(fixation=("duration",), gaze=(), text=(), flags=False)

    def forward(self, batch: ReadingBatch) -> Tensor:
        return self.linear(batch.fixations.mean(1))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.reading_models.load()
    entries = dict(registry.reading_models._entries)
    entries |= {"spy": Entry("spy", Spy), "net": Entry("net", Net)}
    monkeypatch.setattr(registry.reading_models, "_entries", entries)
    monkeypatch.setattr(Spy, "seen", [])


def dated(n: int = 96, seed: int = 0, readers: int = 8, prefix: str = "r") -> ReadingInputs:
    """Return trials with longer fixations in class 1; each reader has both classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    durations = 200 + 60 * y + rng.normal(0, 20, n)
    return timed(durations, y, [f"{prefix}{(i // 2) % readers}" for i in range(n)])


def target_of(inputs: ReadingInputs, kind: str = "classification") -> dict[str, Any]:
    return Target.fit(kind, inputs.y).plain()


def test_means_by_hand() -> None:
    """Odds of 4 and 1/9: log-odds (ln 4 - ln 9) / 2, thus odds of 2/3, a chance of 2/5."""
    inputs = dated()
    members: list[dict[str, Any]] = [
        {"name": "spy", "level": 0.8}, {"name": "spy", "level": 0.1}
    ]  # fmt: skip
    made = Ensemble(target_of(inputs), members=members, stack="mean")
    made.fit(inputs, inputs)
    np.testing.assert_allclose(made.predict(inputs), [[0.6, 0.4]] * len(inputs))
    assert made.weights() == {}
    assert [kind for kind, *_ in Spy.seen].count("fit") == 2  # no nested folds
    number = Ensemble(target_of(inputs, "regression"), members=members, stack="mean")
    number.fit(inputs, inputs)
    np.testing.assert_allclose(number.predict(inputs), 0.45)
    sure = [{"name": "spy", "level": 1.0}]
    one = Ensemble(target_of(inputs), members=sure, stack="mean", floor=0.01)
    one.fit(inputs, inputs)
    np.testing.assert_allclose(one.predict(inputs)[0], [1 / 101, 100 / 101])


def test_no_member_sees_readers_that_are_held_out() -> None:
    inputs, valid = dated(), dated(30, 1, 12)  # the first eight readers are in both
    made = Ensemble(target_of(inputs), members=[{"name": "spy"}], folds=4)
    made.fit(inputs, valid)
    everybody, others = set(inputs.trials.participant), set(valid.trials.participant)
    asked = [(fitted, readers) for kind, fitted, readers in Spy.seen if kind == "predict"]
    assert len(asked) == 4
    for fitted, readers in asked:
        assert not fitted & readers and fitted | readers == everybody and len(readers) == 2
    assert set().union(*(r for _, r in asked)) == everybody
    fits = [(fitted, watched) for kind, fitted, watched in Spy.seen if kind == "fit"]
    assert len(fits) == 5 and fits[-1] == (everybody, others)
    for fitted, watched in fits[:-1]:  # stopping early does not look at them either
        assert watched == others - (everybody - fitted)


def test_members_scale_anew_in_each_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of enormous durations changes no scale of the fold that holds them out."""
    medians = []

    def fit(self: Spy, train: ReadingInputs, valid: ReadingInputs, seed: int = 0) -> None:
        self.readers = set(train.trials.participant)
        medians.append(float(np.median(train.scaled["fixation"][:, 0])))

    monkeypatch.setattr(Spy, "fit", fit)
    inputs = dated()
    made = Ensemble(target_of(inputs), members=[{"name": "spy"}], folds=4)
    made.fit(inputs, inputs)
    np.testing.assert_allclose(medians, 0, atol=1e-6)
    assert len(medians) == 5


def test_weights_the_member_that_knows() -> None:
    """A memory of readers is right about its own alone: held-out readers give it no weight."""
    rng = np.random.default_rng(3)
    n = 200
    y = (np.arange(n) // 10) % 2.0
    durations = 200 + 40 * y + rng.normal(0, 40, n)
    train = timed(durations, y, [f"r{i // 10:02d}" for i in range(n)])
    members: list[dict[str, Any]] = [{"name": "reader_mean"}, LINE]
    made = Ensemble(target_of(train), members=members, folds=5, C=1.0)
    made.fit(train, train)
    weights = {k: v[0] for k, v in made.weights().items()}
    assert weights["1: logistic"] > 0.2
    assert weights["0: reader_mean"] < 0.5 * weights["1: logistic"]
    mean = Ensemble(target_of(train), members=members, stack="mean")
    mean.fit(train, train)
    own = mean.predict(train)[:, 1]  # the plain mean believes the memory
    assert ((own > 0.5) == y).mean() == 1 > ((made.predict(train)[:, 1] > 0.5) == y).mean()


@pytest.mark.parametrize("stack", ["regression", "mean"])
@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_learns_and_comes_back_to_the_bit(stack: str, kind: str, tmp_path: Path) -> None:
    train, new = dated(seed=1), dated(seed=2, prefix="new")
    made = Ensemble(target_of(train, kind), members=[TREES, LINE], stack=stack, folds=3)
    made.fit(train, new, seed=5)
    p = made.predict(new)
    level = p if kind == "regression" else p[:, 1]
    assert ((level > 0.5) == new.y).mean() > 0.85
    order = np.random.default_rng(0).permutation(len(train))
    again = Ensemble(target_of(train, kind), members=[TREES, LINE], stack=stack, folds=3)
    again.fit(timed_in(train, order), new, seed=5)
    np.testing.assert_array_equal(again.predict(new), p)
    made.save(tmp_path)
    loaded = Ensemble.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(new), p)
    assert loaded.weights() == made.weights()
    assert made.predict(part_of(new, np.zeros(0, dtype=np.int64))).shape == (0, *p.shape[1:])


def timed_in(inputs: ReadingInputs, order: np.ndarray) -> ReadingInputs:
    made = part_of(inputs, order)
    assert made.trials.trial.tolist() == inputs.trials.trial[order].tolist()
    return made


def test_three_classes_and_missing_targets() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3.0
    train = timed(200 + 80 * y + rng.normal(0, 10, 120), y, [f"r{i // 12}" for i in range(120)])
    some = part_of(train, np.arange(120))
    some.y[::10] = np.nan
    made = Ensemble(target_of(train), members=[TREES, LINE], folds=3, C=1.0)
    made.fit(some, train)
    p = made.predict(train)
    np.testing.assert_allclose(p.sum(1), 1)
    assert (p.argmax(1) == train.y).mean() > 0.85
    assert [len(w) for w in made.weights().values()] == [9, 9]


def test_networks_are_members_with_a_trainer(tmp_path: Path) -> None:
    train = dated()
    made = Ensemble(target_of(train), members=[{"name": "net", "bias": 1.0}, LINE], folds=3)
    with pytest.raises(DataError, match="net is a network: it needs a trainer"):
        made.fit(train, train)
    trained = []

    def trainer(
        config: dict[str, Any], inputs: ReadingInputs, valid: ReadingInputs, seed: int
    ) -> Net:
        trained.append((config["bias"], len(inputs), inputs.scaled["fixation"].shape[1], seed))
        torch.manual_seed(seed)
        return Net(made.target.plain(), {"fixation": 1}, bias=config["bias"])

    made.trainer = trainer
    made.fit(train, train, seed=2)
    assert len(trained) == 4 and trained[-1] == (1.0, 96, 1, 2)
    p = made.predict(train)
    made.save(tmp_path)
    np.testing.assert_array_equal(Ensemble.load(tmp_path).predict(train), p)
    (tmp_path / "member_0" / "network.ckpt").unlink()
    with pytest.raises(DataError, match="the network of a member is missing"):
        Ensemble.load(tmp_path)


def test_refusals(tmp_path: Path) -> None:
    train = dated()
    target = target_of(train)
    with pytest.raises(UnknownNameError, match="extra_trees"):
        Ensemble(target, members=[{"name": "extra_tree"}])
    with pytest.raises(UnknownNameError, match="stack"):
        Ensemble(target, stack="means")
    wrong: list[dict[str, Any]] = [{"members": []}, {"folds": 1}, {"floor": 0.0}]
    for options in wrong:
        with pytest.raises(DataError):
            Ensemble(target, **options)
    made = Ensemble(target, members=[LINE], folds=3)
    with pytest.raises(CapabilityError, match="call fit first"):
        made.predict(train)
    with pytest.raises(CapabilityError, match="call fit first"):
        made.save(tmp_path)
    one = timed(np.full(20, 200.0), np.arange(20) % 2, ["r"] * 20)
    with pytest.raises(DataError, match=r"too few readers to hold some out.*stack=mean"):
        made.fit(one, one)
    none = numbers(np.zeros(3), [np.nan] * 3)
    with pytest.raises(DataError, match="no training trial has a target"):
        made.fit(none, none)
    with pytest.raises(DataError, match="a class that the target does not have"):
        made.fit(timed([1.0, 2.0], [0, 2], ["a", "b"]), train)
    with pytest.raises(DataError, match="not the folder of a fitted model"):
        Ensemble.load(tmp_path)


def test_damaged_folders(tmp_path: Path) -> None:
    train = dated()
    made = Ensemble(target_of(train), members=[LINE], folds=3)
    made.fit(train, train)
    made.save(tmp_path)
    facts = tmp_path / "model.json"
    text = facts.read_text()
    content = json.loads(text)
    for changes, message in (
        ({"members": [{"config": LINE}]}, "damaged"),
        ({"members": 3}, "damaged"),
        ({"model": "SVM"}, "another model"),
        ({"sha256": "0"}, "not the one that was saved"),
        ({"members": content["members"] * 2}, "not the folder of a fitted model"),
    ):
        facts.write_text(json.dumps({**content, **changes}))
        with pytest.raises(DataError, match=message):
            Ensemble.load(tmp_path)
    other = write_fitted(tmp_path / "stack.skops", {"regression": {"coef": 1}})
    facts.write_text(json.dumps({**content, "sha256": other}))
    with pytest.raises(DataError, match="dict instead of LogisticRegression"):
        Ensemble.load(tmp_path)
    facts.write_text(text)
    (tmp_path / "member_0" / "model.skops").write_bytes(b"")
    with pytest.raises(DataError, match="not the one that was saved"):
        Ensemble.load(tmp_path)


def test_parts_keep_ragged_features() -> None:
    inputs = dated(6)
    scaled = {**inputs.scaled, "fixation": np.arange(18, dtype=np.float32)[:, None]}
    inputs = taken_from(inputs, scaled)
    some = part_of(inputs, np.array([4, 1]))
    assert some.scaled["fixation"][:, 0].tolist() == [12, 13, 14, 3, 4, 5]
    assert some.trials.trial.tolist() == ["t0004", "t0001"] and some.y.tolist() == [0, 1]
    masked = part_of(inputs, np.array([False, True, False, False, True, False]))
    assert masked.scaled["fixation"][:, 0].tolist() == [3, 4, 5, 12, 13, 14]


def taken_from(inputs: ReadingInputs, scaled: dict[str, np.ndarray]) -> ReadingInputs:
    return ReadingInputs(inputs.trials, scaled, inputs.y)


def test_configuration_fits_the_model() -> None:
    train = dated()
    for size in ("tiny", "cpu", "full"):
        config = sized(read_model("ensemble"), size)
        made = Ensemble(target_of(train), None, **{k: v for k, v in config.items() if k not in OWN})
        assert [c["name"] for c in made.configs] == ["extra_trees", "logistic"]
        assert Ensemble.choice(config).sets == ()
    assert taken(numbers(np.zeros(2), [0, 1]), [1]).y.tolist() == [1]
