"""What every registered reading model has to keep, whatever it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gazeattn import registry
from gazeattn.datamodules.reading import ReadingTrials
from gazeattn.datamodules.reading_batches import ReadingDataModule
from gazeattn.datamodules.reading_scaling import FittedFeatures
from gazeattn.datamodules.reading_tasks import ReadingTask
from gazeattn.datamodules.reading_texts import TextEncoder, Tokens
from gazeattn.experiments.building import model_names, read_model, sized, training_of
from gazeattn.experiments.reading_fitting import Fitted, build, encoder_of
from gazeattn.experiments.training import train
from gazeattn.models.reading.base import ReadingEstimator, ReadingNetwork, Target

from . import made_texts
from .made_fixations import readings

NAMES = [n for n in model_names() if read_model(n)["name"] in registry.reading_models]
TEXTS = (
    (("the", "quick", "fox", "is", "here."), ("It", "hypothesises", "about", "the", "dog.")),
    (("a", "cat", "sat."),),
    (("some", "other", "words", "stand", "here"),),
)


@pytest.fixture(scope="module")
def trials() -> ReadingTrials:
    """Return 36 readings of 3 texts by 6 readers; those of class 1 are long."""
    rng = np.random.default_rng(2)
    paths, durations = [], []
    for k in range(36):
        text = k % 3
        n_words = sum(len(line) for line in TEXTS[text])
        n = int(rng.integers(2, 9))
        paths.append((text, [int(w) for w in rng.integers(-1, n_words, n)]))
        durations += list(rng.gamma(6, 40, n) * (2 if (k // 6) % 2 else 1))
    made = readings(TEXTS, paths, durations)
    reader = [f"reader {k // 6}" for k in range(36)]
    table = made.table.assign(
        participant=reader, item=made.table["text"], y=[(k // 6) % 2 for k in range(36)],
        question=None,
    )  # fmt: skip
    return ReadingTrials(
        table, made.fixations, made.word, made.starts, made.gaze, made.word_starts, made.texts
    )


def kind_of(name: str) -> type:
    return registry.reading_models.get(name).obj


def task_of(kind: str) -> ReadingTask:
    return ReadingTask(name="made", kind=kind, label="y", folds=3)


def fitted(name: str, trials: ReadingTrials, kind: str, y: np.ndarray, folder: Path) -> Fitted:
    """Return a model that was fitted for a moment."""
    config: dict[str, Any] = sized(read_model(name), "tiny")
    cls = registry.reading_models.get(str(config["name"])).obj
    features = FittedFeatures.fit(trials, cls.choice(config), y if kind == "regression" else None)
    encoder = encoder_of(config, cls, None)
    model = build(config, Target.fit(kind, y), features, encoder, seed=1)
    made = Fitted(model, features, encoder, task_of(kind))
    inputs = made.inputs(
        trials.take(np.arange(len(trials))) if kind == "classification" else with_targets(trials, y)
    )
    if isinstance(model, ReadingNetwork):
        settings = training_of({**config, "training": {**config["training"], "max_epochs": 1}})
        data = ReadingDataModule(inputs, inputs, batch_size=12)
        train(model, data, folder, settings, accelerator="cpu")
    else:
        assert isinstance(model, ReadingEstimator)
        model.fit(inputs, inputs, seed=1)
    return made


def with_targets(trials: ReadingTrials, y: np.ndarray) -> ReadingTrials:
    return ReadingTrials(
        trials.table.assign(y=y), trials.fixations, trials.word, trials.starts, trials.gaze,
        trials.word_starts, trials.texts,
    )  # fmt: skip


def needs_encoder(name: str) -> bool:
    return bool(read_model(name).get("encoder"))


@pytest.fixture(scope="module")
def encoder_is_there() -> bool:
    try:
        return TextEncoder("minilm").width > 0
    except Exception:
        return False


@pytest.mark.parametrize("kind", ["classification", "regression"])
@pytest.mark.parametrize("name", NAMES)
def test_model(
    name: str, kind: str, trials: ReadingTrials, encoder_is_there: bool, tmp_path: Path
) -> None:
    if needs_encoder(name) and not encoder_is_there:
        pytest.skip("the weights of minilm are not on this machine")
    rng = np.random.default_rng(0)
    y = trials.table["y"].to_numpy(dtype=float)
    if kind == "regression":
        y = 10 + 3 * y + rng.normal(0, 0.5, len(y))
    made = fitted(name, trials, kind, y, tmp_path / "run")
    whole = made.predict(trials)
    assert list(whole["trial"]) == list(trials.trial)
    p = whole["p"].to_numpy()
    assert np.isfinite(p).all()
    if kind == "classification":
        assert ((p >= 0) & (p <= 1)).all()
    # the order of trials and their company say nothing
    order = rng.permutation(len(trials))
    turned = made.predict(trials.take(order))["p"].to_numpy()
    np.testing.assert_allclose(turned, p[order], atol=2e-4 * max(1, np.abs(p).max()))
    alone = np.array([made.predict(trials.take([k]))["p"].iloc[0] for k in range(0, 36, 7)])
    np.testing.assert_allclose(alone, p[::7][: len(alone)], atol=2e-4 * max(1, np.abs(p).max()))
    # targets are never looked at
    blind = with_targets(trials, np.full(len(trials), np.nan))
    np.testing.assert_array_equal(made.predict(blind)["p"].to_numpy(), p)
    # what is saved predicts the same
    config = sized(read_model(name), "tiny")
    cls = registry.reading_models.get(str(config["name"])).obj
    if isinstance(made.model, ReadingNetwork):
        path = tmp_path / "run" / "checkpoints" / "last.ckpt"
        loaded = cls.load_from_checkpoint(path, map_location="cpu", weights_only=True)
    else:
        made.model.save(tmp_path / "saved")
        loaded = cls.load(tmp_path / "saved")
    features = FittedFeatures.from_plain(made.features.plain())
    again = Fitted(loaded, features, made.encoder, made.task)
    np.testing.assert_allclose(again.predict(trials)["p"].to_numpy(), p, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_every_configuration_has_three_sizes(name: str) -> None:
    config = read_model(name)
    entry = registry.reading_models.get(str(config["name"]))
    assert entry.info["description"] and entry.info["citation"]
    assert entry.info["kind"] in ("network", "estimator", "baseline")
    if entry.info["kind"] == "network":
        assert set(config["sizes"]) == {"tiny", "cpu", "full"}
        assert training_of(config).max_epochs >= 1


def test_text_only_is_blind_to_readers(
    trials: ReadingTrials, encoder_is_there: bool, tmp_path: Path
) -> None:
    if not encoder_is_there:
        pytest.skip("the weights of minilm are not on this machine")
    y = trials.table["y"].to_numpy(dtype=float)
    made = fitted("text_only", trials, "classification", y, tmp_path)
    found = made.predict(trials).assign(text=trials.table["text"])
    assert (found.groupby("text")["p"].nunique() == 1).all()


def test_models_of_gaze_tell_readers_of_a_text_apart(trials: ReadingTrials, tmp_path: Path) -> None:
    y = trials.table["y"].to_numpy(dtype=float)
    for name in ("gaze_set", "extra_trees"):
        made = fitted(name, trials, "classification", y, tmp_path / name)
        found = made.predict(trials).assign(text=trials.table["text"])
        assert (found.groupby("text")["p"].nunique() > 1).all(), name


@pytest.mark.parametrize(
    "name", [n for n in registry.reading_models.names() if kind_of(n).text_use == "vectors"]
)
def test_texts_without_any_token(name: str) -> None:
    inputs = made_texts.hard_case()
    nothing = Tokens(
        np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int8),
        np.zeros((0, made_texts.WIDTHS["vectors"]), np.float32),
    )  # fmt: skip
    torch.manual_seed(0)
    model = kind_of(name)(made_texts.TWO, made_texts.WIDTHS)
    alone = replace(inputs, tokens=(nothing,) * 4)
    out = made_texts.out_of(model, alone, range(6))
    assert bool(torch.isfinite(out).all())
    # beside a text with tokens a text without any has the same output
    mixed = replace(inputs, tokens=(nothing, *inputs.tokens[1:]))
    beside = made_texts.out_of(model, mixed, range(6))
    torch.testing.assert_close(beside[[0, 4]], out[[0, 4]], atol=1e-5, rtol=0)


def many_readings(seed: int, n_readers: int = 20) -> ReadingTrials:
    """Return three readings by each reader; every second reader looks twice as long."""
    rng = np.random.default_rng(seed)
    paths, durations, label = [], [], []
    for k in range(3 * n_readers):
        text, slow = k % 3, (k // 3) % 2
        n = int(rng.integers(5, 9))
        n_words = sum(len(line) for line in TEXTS[text])
        paths.append((text, [int(w) for w in rng.integers(0, n_words, n)]))
        durations += list(rng.gamma(12, 20, n) * (1 + slow))
        label.append(float(slow))
    made = readings(TEXTS, paths, durations)
    reader = [f"{seed} {k // 3}" for k in range(3 * n_readers)]
    table = made.table.assign(
        participant=reader, item=made.table["text"], y=label, question=None,
        trial=[f"{seed} {t}" for t in made.table["trial"]],
    )  # fmt: skip
    return ReadingTrials(
        table, made.fixations, made.word, made.starts, made.gaze, made.word_starts, made.texts
    )


@pytest.mark.parametrize(
    "name",
    [
        "ahn_cnn",
        pytest.param("ahn_rnn", marks=pytest.mark.slow),
        pytest.param("gaze_set", marks=pytest.mark.slow),
    ],
)
def test_networks_with_shuffled_labels_are_at_chance(name: str, tmp_path: Path) -> None:
    """Training and validation labels are shuffled: above chance would be what leaks of the test."""
    from gazeattn.metrics.prediction import auroc

    config = sized(read_model(name), "tiny")
    cls = registry.reading_models.get(str(config["name"])).obj
    settings = training_of({**config, "training": {"max_epochs": 12, "batch_size": 12,
                                                   "patience": 12}})  # fmt: skip
    found: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(3):
        known, held, test = (many_readings(10 * seed + k) for k in range(3))
        for shuffled in (True, False):
            rng = np.random.default_rng(seed)
            parts = []
            for part in (known, held):
                y = part.table["y"].to_numpy(dtype=float)
                parts.append(with_targets(part, rng.permutation(y) if shuffled else y))
            features = FittedFeatures.fit(parts[0], cls.choice(config))
            target = Target.fit("classification", parts[0].table["y"].to_numpy(dtype=float))
            made = Fitted(build({**config, "lr": 0.01}, target, features, None, seed=seed),
                          features, None, task_of("classification"))  # fmt: skip
            data = ReadingDataModule(*(made.inputs(p) for p in parts), batch_size=12, seed=seed)
            assert isinstance(made.model, ReadingNetwork)
            train(made.model, data, tmp_path / f"{seed}{shuffled}", settings, seed=seed,
                  accelerator="cpu")  # fmt: skip
            said = made.predict(test)
            truth = (
                np.random.default_rng(seed + 99).permutation(said["y"]) if shuffled else said["y"]
            )
            found[shuffled].append(auroc(truth, said["p"]))
    # sd of one AUROC by chance is .075, of the mean of three .043
    assert abs(np.mean(found[True]) - 0.5) < 0.15
    assert np.mean(found[False]) > 0.9
