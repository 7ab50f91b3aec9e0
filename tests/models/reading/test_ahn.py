"""Convolutions and an LSTM over plain fixations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gazeattn import registry
from gazeattn.datamodules.reading_batches import collate_reading
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments.building import OWN, read_model, sized, training_of
from gazeattn.models.reading.ahn import AhnCNN, AhnRNN, PackedLSTM, masked_max, mean_and_max
from gazeattn.models.reading.base import ReadingNetwork

from . import made_fixations as made
from .made_texts import out_of

BOTH = [AhnCNN, AhnRNN]


def test_pooling_by_hand() -> None:
    values = torch.tensor([[[-3.0, 1.0], [-1.0, 5.0], [9.0, 9.0]], [[7.0, 7.0]] * 3])
    mask = torch.tensor([[True, True, False], [False] * 3])
    assert masked_max(values, mask).tolist() == [[-1.0, 5.0], [0.0, 0.0]]
    assert mean_and_max(values, mask).tolist() == [[-2.0, 3.0, -1.0, 5.0], [0.0] * 4]
    assert masked_max(values[:, :0], mask[:, :0]).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_lstm_reads_backwards_from_the_last_real_step() -> None:
    torch.manual_seed(0)
    lstm = PackedLSTM(1, 3)
    steps = torch.tensor([[[1.0], [2.0], [50.0], [60.0]]])
    mask = torch.tensor([[True, True, False, False]])
    states = lstm(steps, mask)
    alone = lstm.lstm(steps[:, :2])[0]
    torch.testing.assert_close(states[:, :2], alone)
    assert states.shape == (1, 4, 6) and not states[:, 2:].any()


@pytest.mark.parametrize("kind", BOTH)
def test_contract(kind: type[ReadingNetwork]) -> None:
    made.check_contract(kind, kind.choice({}))


@pytest.mark.parametrize("kind", BOTH)
def test_learns_durations(kind: type[ReadingNetwork], tmp_path: Path) -> None:
    trials, y = made.by_duration()
    made.check_learns(kind, *made.inputs_of(trials, kind.choice({}), y), tmp_path)


@pytest.mark.parametrize("kind", BOTH)
def test_learns_order(kind: type[ReadingNetwork], tmp_path: Path) -> None:
    """Forwards and backwards have the same set of fixations."""
    trials, y = made.by_order()
    made.check_learns(kind, *made.inputs_of(trials, kind.choice({}), y), tmp_path, epochs=40)


@pytest.mark.parametrize("kind", BOTH)
def test_features_by_name(kind: type[ReadingNetwork]) -> None:
    """Without a pupil the rest is seen; with one, it is, whatever else the trials hold."""
    assert kind.choice({}).fixation == ("duration", "pupil", "x", "y")
    without, widths = made.inputs_of(made.odd_readings(), kind.choice({}))
    # x and y are missing off the text: two columns more say where
    assert widths["fixation"] == 3 + 2
    assert out_of(kind(made.target(), widths), without, range(7)).shape == (7, 2)
    _, widths = made.inputs_of(made.odd_readings(pupil=True), kind.choice({}))
    assert widths["fixation"] == 4 + 2
    config = {"features": ["duration"]}
    inputs, widths = made.inputs_of(made.odd_readings(), kind.choice(config))
    assert widths["fixation"] == 1
    np.testing.assert_array_equal(
        np.argsort(inputs.scaled["fixation"][:, 0]), np.argsort(inputs.trials.column("duration"))
    )
    with pytest.raises(UnknownNameError):
        made.inputs_of(made.odd_readings(), kind.choice({"features": ["pupils"]}))


@pytest.mark.parametrize("kind", BOTH)
def test_nothing_to_see(kind: type[ReadingNetwork]) -> None:
    _, widths = made.inputs_of(made.odd_readings(), kind.choice({"features": ["pupil"]}))
    with pytest.raises(DataError, match="no feature"):
        kind(made.target(), widths)


def test_pooled_pairs_keep_an_odd_end() -> None:
    """The last of an odd number of steps is a pair of its own, alone and beside a longer trial."""
    inputs, widths = made.inputs_of(made.odd_readings(), AhnCNN.choice({}))
    torch.manual_seed(0)
    model = AhnCNN(made.target(), widths, dropout=0.0).eval()
    batch = collate_reading(inputs, [0, 3])  # 5 and 11 fixations
    moved = batch.fixations.clone()
    moved[0, 4] += 3.0
    with torch.no_grad():
        change = (model(replace(batch, fixations=moved)) - model(batch)).abs()
    assert float(change[0].max()) > 1e-4 and not change[1].any()


@pytest.mark.parametrize("name", ["ahn_cnn", "ahn_rnn"])
@pytest.mark.parametrize("size", ["tiny", "cpu", "full"])
def test_configuration(name: str, size: str) -> None:
    config = sized(read_model(name), size)
    entry = registry.reading_models.get(config["name"])
    arguments: dict[str, Any] = {k: v for k, v in config.items() if k not in OWN}
    inputs, widths = made.inputs_of(made.odd_readings(), entry.obj.choice(config))
    model = entry.obj(made.target(), widths, **arguments)
    assert model.predict(inputs).shape == (7, 2)
    epochs = training_of(config).max_epochs
    assert epochs == {"tiny": 3, "full": 1000}[size] if size != "cpu" else 10 <= epochs <= 100
    assert entry.info["kind"] == "network" and "Ahn" in entry.info["citation"]
