"""BEyeLSTM with and without text."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from gazeattn import registry
from gazeattn.datamodules.reading_batches import ReadingInputs, collate_reading
from gazeattn.datamodules.reading_scaling import FittedFeatures
from gazeattn.errors import DataError
from gazeattn.experiments.building import OWN, read_model, sized, training_of
from gazeattn.models.reading.beyelstm import (
    CONTENT,
    FUNCTION,
    SETS,
    WORD_FEATURES,
    BEyeLSTM,
    content_class,
    word_columns,
)

from . import made_fixations as made
from .made_texts import out_of

SMALL = {"hidden": 8, "embedding": 4, "dense_sizes": (16, 8), "global_size": 8, "joint_size": 8}
NO_SETS = {"sets": []}
MAKE = partial(BEyeLSTM, **SMALL)
NO_TEXT = partial(BEyeLSTM, text=False, hidden=8, dense_sizes=(16, 8), global_size=8, joint_size=8)


@pytest.mark.parametrize(
    ("language", "lines", "lacking"),
    [
        ("en", True, set()),
        ("xx", True, {"rarity"}),
        ("en", False, {"line_start", "line_end"}),
        ("xx", False, {"rarity", "line_start", "line_end"}),
    ],
)
def test_columns_are_found_by_name(language: str, lines: bool, lacking: set[str]) -> None:
    trials = made.odd_readings(language=language, lines=lines)
    choice = BEyeLSTM.choice({})
    fitted = FittedFeatures.fit(trials, choice)
    assert set(fitted.scales["text"].absent) == lacking
    names = list(fitted.scales["text"].channels)
    assert word_columns(len(names)) == {n: k for k, n in enumerate(names)}
    inputs, widths = made.inputs_of(trials, choice)
    model = MAKE(made.target(), widths)
    assert out_of(model, inputs, range(7)).shape == (7, 2)


def test_other_columns_are_refused() -> None:
    with pytest.raises(DataError, match="columns of words"):
        MAKE(made.target(), {"fixation": 3, "text": 7, "trial": 0})


def test_content_words_by_hand() -> None:
    both = {"length": 0, "rarity": 1}
    words = torch.tensor([[1.0, -0.4], [-0.5, -0.5], [-0.5, 1.0], [0.0, 0.0]])
    assert content_class(words, both).tolist() == [CONTENT, FUNCTION, CONTENT, FUNCTION]
    assert content_class(words, {"length": 0}).tolist() == [CONTENT] + [FUNCTION] * 3


def test_content_words_of_a_text() -> None:
    trials = made.readings([made.TWO_LINES], [(0, [0, 1, 2])])
    inputs, widths = made.inputs_of(trials, BEyeLSTM.choice({}))
    batch = collate_reading(inputs)
    kind = content_class(batch.text[0], word_columns(widths["text"]))
    words = trials.texts["text 0"].words
    found = {w for w, k in zip(words, kind.tolist(), strict=True) if k == CONTENT}
    assert {"quick", "hypothesises"} <= found and not found & {"the", "is", "It"}


def test_contract_with_text() -> None:
    made.check_contract(MAKE, BEyeLSTM.choice({}))
    made.check_contract(partial(MAKE, sets=[]), BEyeLSTM.choice(NO_SETS))


def test_contract_without_text() -> None:
    made.check_contract(NO_TEXT, BEyeLSTM.choice({"text": False}))
    made.check_contract(NO_TEXT, BEyeLSTM.choice({"text": False, **NO_SETS}))


def test_learns_words(tmp_path: Path) -> None:
    """Which word was looked at is in the word sequences alone."""
    trials, y = made.by_word()
    config = {"features": ["duration"], **NO_SETS}
    made.check_learns(
        MAKE, *made.inputs_of(trials, BEyeLSTM.choice(config), y), tmp_path, epochs=40
    )


def test_learns_order_without_text(tmp_path: Path) -> None:
    trials, y = made.by_order()
    config = {"text": False, "features": ["x", "y"], **NO_SETS}
    made.check_learns(
        NO_TEXT, *made.inputs_of(trials, BEyeLSTM.choice(config), y), tmp_path, epochs=40
    )


def test_learns_from_numbers(tmp_path: Path) -> None:
    """The global block alone tells the classes."""
    trials, y = made.by_duration()
    config = {"text": False, "features": ["on_text"], "sets": ["meziere"]}
    made.check_learns(NO_TEXT, *made.inputs_of(trials, BEyeLSTM.choice(config), y), tmp_path)


def changed(inputs: ReadingInputs, word: int) -> ReadingInputs:
    """Return readings in which one word of the first text is very long and rare."""
    scaled = inputs.scaled["text"].copy()
    for i, name in enumerate(inputs.trials.table["text"]):
        if name == "text 0":
            scaled[inputs.trials.word_starts[i] + word, :2] = 3.0
    return replace(inputs, scaled={**inputs.scaled, "text": scaled})


def test_only_fixated_words_are_seen() -> None:
    """A word changes the trials that fixate it, and no fixation off the text."""
    inputs, widths = made.inputs_of(made.odd_readings(), BEyeLSTM.choice(NO_SETS))
    torch.manual_seed(0)
    model = MAKE(made.target(), widths, sets=[], dropout=0.0)
    before, after = out_of(model, inputs, range(7)), out_of(model, changed(inputs, 7), range(7))
    # word 7 is fixated in trial 3 alone
    moved = (before - after).abs().amax(1) > 1e-6
    assert moved.tolist() == [False, False, False, True, False, False, False]
    batch = collate_reading(inputs, [0])
    vectors = model.word_sequences(batch)
    off = model.categories.weight[0]
    torch.testing.assert_close(vectors["categories"][0, 2], off)
    torch.testing.assert_close(vectors["contents"][0, 2], model.contents.weight[0])
    assert not torch.allclose(vectors["categories"][0, 1], off)


def test_categories_by_hand() -> None:
    """The vector of a word is the sum of those of its bins."""
    inputs, widths = made.inputs_of(
        made.readings([made.TWO_LINES], [(0, [4])], language="xx"), BEyeLSTM.choice(NO_SETS)
    )
    model = MAKE(made.target(), widths, sets=[])
    # length, line_start, line_end, sentence_end of the fixated word
    inputs.scaled["text"][4] = [0.2, 0.0, 1.5, -0.6]
    vector = model.word_sequences(collate_reading(inputs))["categories"][0, 0]
    weight = model.categories.weight
    # above the median, at it, far above, below the lower quartile; four bins each after the first
    torch.testing.assert_close(vector, weight[1 + 2] + weight[5 + 1] + weight[9 + 3] + weight[13])


def test_choice() -> None:
    choice = BEyeLSTM.choice({})
    assert choice.text == WORD_FEATURES and choice.sets == SETS and not choice.flags
    assert "entropy" in choice.sets
    choice = BEyeLSTM.choice({"text": False, "sets": []})
    assert choice.text == () and choice.sets == ()


@pytest.mark.parametrize("name", ["beyelstm", "beyelstm_notext"])
@pytest.mark.parametrize("size", ["tiny", "cpu", "full"])
def test_configuration(name: str, size: str) -> None:
    config = sized(read_model(name), size)
    assert config["name"] == "beyelstm" and config["text"] is (name == "beyelstm")
    assert ("slopes" in config["sets"]) is config["text"]
    assert training_of(config).batch_size == (16 if size == "tiny" else 64)
    kind = registry.reading_models.get("beyelstm").obj
    inputs, widths = made.inputs_of(made.odd_readings(), kind.choice(config))
    assert (widths["text"] == 0) is not config["text"]
    arguments = {k: v for k, v in config.items() if k not in OWN}
    model = kind(made.target(), widths, **arguments)
    chances = model.predict(inputs)
    assert chances.shape == (7, 2) and np.isfinite(chances).all()
    if size == "full":  # three summaries of 20 numbers and 32 global ones
        assert model.head[1].in_features == (92 if config["text"] else 52)
